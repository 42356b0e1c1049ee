//! speedscope's JSON: a sampled profile whose weights are the estimates.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::{HeapView, Measure};
use crate::symbols::Frame;
use serde_json::{Value, json};
use std::collections::HashMap;

pub fn write(view: &HeapView, measure: Measure, name: &str) -> String {
    let mut numbers: HashMap<&Frame, usize> = HashMap::new();
    let mut frames: Vec<Value> = Vec::new();
    let (mut samples, mut weights, mut end) = (Vec::new(), Vec::new(), 0.0);
    for site in view.sites(measure) {
        let stack: Vec<usize> = site
            .frames
            .iter()
            .map(|frame| {
                *numbers.entry(frame).or_insert_with(|| {
                    frames.push(described(frame));
                    frames.len() - 1
                })
            })
            .collect();
        let weight = measure.of(&site.estimate).round();
        end += weight;
        samples.push(stack);
        weights.push(weight);
    }
    let unit = if measure.is_bytes() { "bytes" } else { "none" };
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name,
        "exporter": concat!("vmag ", env!("CARGO_PKG_VERSION")),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [{
            "type": "sampled", "name": measure.title(), "unit": unit, "startValue": 0, "endValue": end,
            "samples": samples, "weights": weights,
        }],
    })
    .to_string()
}

/// What is not known is not there: null is not allowed.
fn described(frame: &Frame) -> Value {
    let mut value = json!({"name": frame.function});
    if let Some(file) = &frame.file {
        value["file"] = json!(file);
    }
    if let Some(line) = frame.line {
        value["line"] = json!(line);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_shared() {
        let text = write(&crate::heap_view::tests::view(), Measure::LiveBytes, "x");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["shared"]["frames"].as_array().unwrap().len(), 4);
        assert_eq!(value["profiles"][0]["samples"], json!([[0, 1, 2], [0, 3]]));
        assert_eq!(value["profiles"][0]["endValue"], json!(5000.0));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut frame = crate::heap_view::tests::frame("main");
        assert_eq!(
            described(&frame),
            json!({"name": "main", "file": "/src/a.c", "line": 7})
        );
        (frame.file, frame.line) = (None, None);
        assert_eq!(described(&frame), json!({"name": "main"}));
    }
}
