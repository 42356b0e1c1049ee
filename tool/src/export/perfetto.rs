//! The trace-event JSON that ui.perfetto.dev opens: a trace's lines as counters, and its peak as an instant.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::trace_view::Summary;
use serde_json::{Value, json};

pub fn write(summary: &Summary, name: &str) -> String {
    let pid = summary.pid;
    let columns = summary.live_line.len().max(1) as f64;
    let at = |column: usize| microseconds(column as f64 * summary.seconds / columns);
    let mut events = vec![json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})];
    // `from`: 0 of a value that is of a whole column, 1 of one that is at its end.
    let mut counter = |title: &str, line: &[u64], scale: f64, from: usize| {
        let mut before = None;
        for (column, value) in line
            .iter()
            .enumerate()
            .filter(|(_, value)| before.replace(**value) != Some(**value))
        {
            let value = (*value as f64 * scale).round();
            events.push(
                json!({"ph": "C", "name": title, "pid": pid, "ts": at(column + from), "args": {"value": value}}),
            );
        }
    };
    counter("live bytes", &summary.live_line, 1.0, 1);
    counter(
        "events a second",
        &summary.event_line,
        columns / summary.seconds.max(1e-9),
        0,
    );
    let peak = json!({"bytes": summary.peak_live_bytes});
    events.push(
        json!({"ph": "i", "s": "p", "name": "peak", "pid": pid, "tid": pid, "ts": microseconds(summary.peak_seconds), "args": peak}),
    );
    let whole: Value = json!({"displayTimeUnit": "ms", "traceEvents": events});
    whole.to_string()
}

/// To the nanosecond.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_to_the_nanosecond() {
        let summary = crate::trace_view::tests::view().summary;
        let value: Value = serde_json::from_str(&write(&summary, "x")).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let last = |name: &str| events.iter().rev().find(|event| event["name"] == name).unwrap()["ts"].as_f64();
        // The trace is of a microsecond; its peak is after a tenth of one.
        assert_eq!((last("events a second"), last("peak")), (Some(0.999), Some(0.1)));
    }

    #[test]
    fn lines_become_counters() {
        let mut summary = crate::trace_view::tests::view().summary;
        summary.seconds = summary.live_line.len() as f64;
        let text = write(&summary, "x");
        let value: Value = serde_json::from_str(&text).unwrap();
        let events = value["traceEvents"].as_array().unwrap();
        let first = events.iter().find(|event| event["name"] == "live bytes").unwrap();
        assert_eq!(
            (first["ph"].as_str(), first["args"]["value"].as_f64()),
            (Some("C"), Some(4096.0))
        );
        // A column is a second: the line tells what is alive at its end, and how many events were in it.
        let times = |name: &str| -> Vec<f64> {
            let of_name = events.iter().filter(|event| event["name"] == name);
            of_name.map(|event| event["ts"].as_f64().unwrap() / 1e6).collect()
        };
        assert_eq!(times("live bytes"), [1.0, 81.0, 401.0, 561.0, 800.0]);
        assert_eq!(times("events a second")[..2], [0.0, 1.0]);
        assert_eq!(events.last().unwrap()["args"]["bytes"], 4160);
        assert!(events.len() < 20, "{}", events.len());
    }
}
