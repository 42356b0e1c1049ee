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
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use std::cell::Cell;
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

/// A document, an object, with `rows` under one more key, laid out for people. Each row is made when it is written: of a million frames all at
/// once would take gigabytes.
pub fn with_rows(document: &Value, key: &str, rows: impl Iterator<Item = Value>) -> String {
    let rows = Rows(Cell::new(Some(rows)));
    let whole = Whole { document, key, rows };
    serde_json::to_string_pretty(&whole).expect("keys are text")
}

struct Rows<All>(Cell<Option<All>>);

impl<All: Iterator<Item = Value>> Serialize for Rows<All> {
    fn serialize<To: Serializer>(&self, to: To) -> Result<To::Ok, To::Error> {
        to.collect_seq(self.0.take().into_iter().flatten())
    }
}

struct Whole<'a, All> {
    document: &'a Value,
    key: &'a str,
    rows: Rows<All>,
}

impl<All: Iterator<Item = Value>> Serialize for Whole<'_, All> {
    fn serialize<To: Serializer>(&self, to: To) -> Result<To::Ok, To::Error> {
        let mut map = to.serialize_map(None)?;
        for (key, value) in self.document.as_object().into_iter().flatten() {
            map.serialize_entry(key, value)?;
        }
        map.serialize_entry(self.key, &self.rows)?;
        map.end()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_made_when_they_are_written() {
        let made = Cell::new(0);
        let row = |number: u32| {
            made.set(made.get() + 1);
            json!({"number": number})
        };
        let text = with_rows(&json!({"format": "x", "a": [1]}), "sites", (0..3).map(row));
        let whole = json!({"format": "x", "a": [1], "sites": [{"number": 0}, {"number": 1}, {"number": 2}]});
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole);
        assert_eq!(text.lines().count(), format!("{whole:#}").lines().count());
        assert_eq!(made.get(), 3);
    }
}
