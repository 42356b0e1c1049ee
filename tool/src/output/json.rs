//! The figures of one run as JSON: "vmag-run-1"; and what several formats have in common.
//!
//! Keys end in their unit. What is not known is null. Keys may be added under the same format name; a change of
//! meaning gets a new one.
//! SPDX-License-Identifier: BSD-2-Clause

use super::figures::{FIGURES, Figure};
use crate::launch::Ended;
use crate::measure::{Measured, Served, Subject};
use crate::profile::Estimate;
use crate::symbols::Frame;
use crate::system::Status;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A stack, the innermost function first.
pub fn frames(outermost_first: &[Arc<Frame>]) -> Value {
    let one = |frame: &Arc<Frame>| json!({"function": frame.function, "module": frame.module, "file": frame.file, "line": frame.line});
    outermost_first.iter().rev().map(one).collect()
}

/// With `more`, an object, which is told first.
pub fn with_estimate(mut more: Value, estimate: &Estimate) -> Value {
    more["objects"] = estimate.objects.into();
    more["objects_error"] = estimate.objects_error().into();
    more["bytes"] = estimate.bytes.into();
    more["bytes_error"] = estimate.bytes_error().into();
    more
}

pub fn of_run(subject: &Subject, measured: &Measured) -> Value {
    let mut document = heading("vmag-run-1", subject, measured.ended.status, &measured.served);
    document.insert("pid".into(), measured.ended.pid.into());
    for figure in &FIGURES {
        document.insert(figure.key.into(), value_of(figure, &measured.ended));
    }
    document.insert("peak_resident_bytes".into(), measured.peak_resident_bytes().into());
    document.into()
}

fn heading(format: &str, subject: &Subject, status: Status, served: &Served) -> Map<String, Value> {
    let (exit_code, signal) = match status {
        Status::Exited(code) => (Some(code), None),
        Status::Signaled(signal) => (None, Some(signal)),
    };
    let words: Vec<_> = subject.words.iter().map(|word| word.to_string_lossy()).collect();
    let fields = json!({
        "format": format,
        "command": words,
        "program": subject.program.to_string_lossy(),
        "library": subject.library.to_string_lossy(),
        "library_version": served.version,
        "used_vmag": served.by_vmag && served.to_its_end,
        "exit_code": exit_code,
        "signal": signal,
        "allocator_at_exit": served.at_exit,
        "processes_on_vmag": served.processes,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn value_of(figure: &Figure, run: &Ended) -> Value {
    let value = (figure.of)(run);
    if value.fract() == 0.0 && !figure.key.ends_with("seconds") {
        json!(value as u64)
    } else {
        json!(value)
    }
}
