//! The figures as JSON: "vmag-run-1" for one run, "vmag-compare-1" for a comparison.
//!
//! Keys end in their unit. What is not known is null. Keys may be added under the same format name; a change of
//! meaning gets a new one.
//! SPDX-License-Identifier: BSD-2-Clause

use super::figures::{FIGURES, Figure, Spread, ratio};
use crate::compare::Comparison;
use crate::launch::Ended;
use crate::measure::{Measured, Served, Subject};
use crate::system::Status;
use serde_json::{Map, Value, json};

pub fn of_run(subject: &Subject, measured: &Measured) -> Value {
    let mut document = heading("vmag-run-1", subject, measured.ended.status, &measured.served);
    document.insert("pid".into(), measured.ended.pid.into());
    for figure in &FIGURES {
        document.insert(figure.key.into(), value_of(figure, &measured.ended));
    }
    document.insert("peak_resident_bytes".into(), measured.peak_resident_bytes().into());
    document.into()
}

pub fn of_comparison(subject: &Subject, comparison: &Comparison) -> Value {
    let mut document = heading("vmag-compare-1", subject, comparison.status, &comparison.served);
    document.insert("rounds".into(), comparison.on_vmag.len().into());
    document.insert("on_vmag".into(), side(&comparison.on_vmag));
    document.insert("without_vmag".into(), side(&comparison.without));
    document.insert("ratio".into(), ratios(comparison));
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
        "used_vmag": served.by_vmag,
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

fn side(runs: &[Ended]) -> Value {
    let figures = FIGURES.iter().map(|figure| {
        let spread = Spread::of(runs.iter().map(figure.of));
        let all: Vec<Value> = runs.iter().map(|run| value_of(figure, run)).collect();
        let fields = json!({
            "median": spread.median,
            "minimum": spread.minimum,
            "maximum": spread.maximum,
            "all": all,
        });
        (figure.key.to_string(), fields)
    });
    Value::Object(figures.collect())
}

fn ratios(comparison: &Comparison) -> Value {
    let figures = FIGURES.iter().map(|figure| {
        let on_vmag = Spread::of(comparison.on_vmag.iter().map(figure.of));
        let without = Spread::of(comparison.without.iter().map(figure.of));
        (figure.key.to_string(), json!(ratio(on_vmag, without)))
    });
    Value::Object(figures.collect())
}

fn value_of(figure: &Figure, run: &Ended) -> Value {
    let value = (figure.of)(run);
    if value.fract() == 0.0 && !figure.key.ends_with("seconds") {
        json!(value as u64)
    } else {
        json!(value)
    }
}
