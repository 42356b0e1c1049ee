//! The report: one HTML file that needs nothing else, with pictures for people and tables for those who print.
//!
//! Data is JSON, deflated, in base64; the browser unpacks it. What is shown has a size that follows from the screen, not
//! from the length of the run: pictures are made while the trace is read, and the flame graph leaves out what nobody could see.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::export::flame::escaped;
use crate::heap_view::{HeapView, Measure};
use crate::output::figures::{bytes, count};
use crate::output::heap::place;
use crate::symbols::Frame;
use crate::trace_view::TraceView;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;

const PAGE: &str = include_str!("../assets/report.html");
const MEASURES: [Measure; 4] = [
    Measure::LiveBytes,
    Measure::LiveObjects,
    Measure::AllBytes,
    Measure::AllObjects,
];
/// Functions that hold less than this part of all are shown together.
const LEAST_PART: f64 = 0.0005;
const SITES: usize = 40;

pub fn write(title: &str, trace: Option<&TraceView>, heap: Option<&HeapView>) -> String {
    let mut data = json!({});
    if let Some(trace) = trace {
        data["summary"] = serde_json::to_value(&trace.summary).expect("figures are plain numbers");
        data["map"] = map(trace);
    }
    if let Some(heap) = heap {
        data["flame"] = flame(heap);
    }
    let mut page = PAGE.to_string();
    for (name, value) in [
        ("{{title}}", escaped(title)),
        ("{{subtitle}}", subtitle(trace, heap)),
        ("{{figures}}", figures(trace, heap)),
        ("{{tables}}", tables(trace, heap)),
        ("{{data}}", packed(&data)),
    ] {
        page = page.replace(name, &value);
    }
    page
}

fn packed(data: &Value) -> String {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(data.to_string().as_bytes())
        .expect("memory can be written to");
    base64(&zlib.finish().expect("memory can be written to"))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    for three in bytes.chunks(3) {
        let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i <= three.len() { letter } else { '=' });
        }
    }
    out
}

fn map(trace: &TraceView) -> Value {
    let map = &trace.map;
    let addresses: Vec<String> = map.row_address.iter().map(|address| format!("{address:#x}")).collect();
    json!({
        "rows": map.rows, "columns": map.columns, "row_bytes": map.row_bytes,
        "row_address": addresses, "gap_before": map.gap_before,
        "occupancy": base64(&map.occupancy), "age": base64(&map.age), "class": base64(&map.class),
    })
}

#[derive(Default)]
struct Names {
    numbers: HashMap<String, usize>,
    all: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        *self.numbers.entry(name.to_string()).or_insert_with(|| {
            self.all.push(name.to_string());
            self.all.len() - 1
        })
    }
}

#[derive(Default)]
struct Branch<'a> {
    module: &'a str,
    values: [f64; 4],
    children: HashMap<&'a str, Branch<'a>>,
}

impl<'a> Branch<'a> {
    fn add(&mut self, frames: &'a [Frame], values: &[f64; 4]) {
        self.values
            .iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += value);
        if let Some((first, rest)) = frames.split_first() {
            let child = self.children.entry(&first.function).or_default();
            child.module = &first.module;
            child.add(rest, values);
        }
    }

    /// [name, module, values, children]; small children become one.
    fn value(&self, name: &str, all: &[f64; 4], names: &mut Names) -> Value {
        let (mut children, mut others) = (Vec::new(), [0.0; 4]);
        let mut sorted: Vec<_> = self.children.iter().collect();
        sorted.sort_by(|a, b| b.1.values[0].total_cmp(&a.1.values[0]).then(a.0.cmp(b.0)));
        for (name, child) in sorted {
            if (0..4).any(|i| child.values[i] > all[i] * LEAST_PART) {
                children.push(child.value(name, all, names));
            } else {
                others
                    .iter_mut()
                    .zip(child.values)
                    .for_each(|(sum, value)| *sum += value);
            }
        }
        if others.iter().any(|value| *value > 0.0) {
            children.push(json!([
                names.number("[others]"),
                names.number(""),
                others.map(f64::round),
                []
            ]));
        }
        json!([
            names.number(name),
            names.number(self.module),
            self.values.map(f64::round),
            children
        ])
    }
}

fn flame(heap: &HeapView) -> Value {
    let mut root = Branch::default();
    for sample in &heap.profile.samples {
        let values = MEASURES.map(|measure| measure.of(&measure.estimate(sample)));
        root.add(&heap.named.stacks[sample.stack], &values);
    }
    let mut names = Names::default();
    let all = root.values;
    let tree = root.value("all", &all, &mut names);
    json!({
        "measures": MEASURES.map(Measure::title), "is_bytes": MEASURES.map(Measure::is_bytes),
        "names": names.all, "tree": tree,
    })
}

fn subtitle(trace: Option<&TraceView>, heap: Option<&HeapView>) -> String {
    let mut parts = Vec::new();
    if let Some(trace) = trace {
        let s = &trace.summary;
        parts.push(format!(
            "trace of process {}: {:.2} s, {} events",
            s.pid,
            s.seconds,
            count(s.events)
        ));
        if s.oldest_events_missing {
            parts.push("the oldest events are missing".to_string());
        }
        if s.damaged_chunks > 0 {
            parts.push(format!("{} damaged pieces left out", s.damaged_chunks));
        }
    }
    if let Some(heap) = heap {
        let rate = match heap.profile.lg_sample {
            Some(lg) if lg > 0 => format!("one sample in {} on average", bytes(1 << lg)),
            _ => "every allocation".to_string(),
        };
        parts.push(format!("profile: {rate}"));
        if heap.named.nameless > 0 {
            parts.push(format!("{} addresses have no symbol", heap.named.nameless));
        }
    }
    escaped(&parts.join("; "))
}

fn figures(trace: Option<&TraceView>, heap: Option<&HeapView>) -> String {
    let mut out = String::new();
    let mut add = |title: &str, value: String| {
        let _ = write!(out, "<div>{title}<b>{value}</b></div>");
    };
    if let Some(s) = trace.map(|trace| &trace.summary) {
        add("live at the peak", bytes(s.peak_live_bytes));
        add("live at the end", bytes(s.live_bytes_at_end));
        add("allocated", bytes(s.allocated_bytes));
        add("allocations", count(s.allocations));
        add("threads", count(s.threads as u64));
    }
    if let Some(heap) = heap {
        let live = heap.sum(Measure::LiveBytes);
        let (value, error) = (bytes(live.bytes as u64), bytes(live.bytes_error() as u64));
        add("live in the profile", format!("{value} ± {error}"));
    }
    out
}

fn tables(trace: Option<&TraceView>, heap: Option<&HeapView>) -> String {
    let mut out = String::new();
    if let Some(heap) = heap {
        sites_table(&mut out, heap);
    }
    if let Some(trace) = trace {
        sizes_table(&mut out, trace);
    }
    out
}

fn sites_table(out: &mut String, heap: &HeapView) {
    let all = heap.sum(Measure::LiveBytes).bytes.max(1.0);
    out.push_str("<section><h2>Call sites</h2><div class=\"wide\"><table><thead><tr><th>live<th>±<th>share<th>objects<th>where</tr></thead>");
    for site in heap.sites(Measure::LiveBytes).iter().take(SITES) {
        let (live, share) = (&site.estimate, 100.0 * site.estimate.bytes / all);
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{share:.1} %<td>{}<td>{}</tr>",
            bytes(live.bytes as u64),
            bytes(live.bytes_error() as u64),
            count(live.objects as u64),
            escaped(&place(site.frames))
        );
    }
    out.push_str("</table></div></section>");
}

fn sizes_table(out: &mut String, trace: &TraceView) {
    out.push_str(
        "<section><h2>Sizes</h2><div class=\"wide\"><table class=\"sizes\"><thead><tr><th>size<th>allocated<th>freed\
         <th>alive at the end<th>most alive</tr></thead>",
    );
    let mut classes: Vec<_> = trace.summary.classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.allocations * class.bytes));
    for class in classes.iter().take(SITES) {
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            bytes(class.bytes),
            count(class.allocations),
            count(class.frees),
            count(class.live_at_end),
            count(class.peak_live)
        );
    }
    out.push_str("</table></div></section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        assert_eq!(base64(b"hello"), "aGVsbG8=");
        assert_eq!(base64(b"hell"), "aGVsbA==");
        assert_eq!(base64(b"hel"), "aGVs");
    }

    #[test]
    fn the_page_is_whole_and_small() {
        let (trace, heap) = (crate::trace_view::tests::view(), crate::heap_view::tests::view());
        let page = write("a<b>", Some(&trace), Some(&heap));
        assert!(page.contains("a&lt;b&gt;") && !page.contains("{{") && page.ends_with("</html>\n"));
        assert!(!page.contains("http://") && !page.contains("https://"));
        assert!(PAGE.len() < 300_000 && page.len() < 500_000);
        assert!(page.contains("b ← main") || page.contains("c (a.c:7) ← b ← main"));
        assert!(!write("x", None, Some(&heap)).contains("<h2>Sizes"));
    }

    #[test]
    fn small_functions_are_shown_together() {
        let heap = crate::heap_view::tests::view();
        let value = flame(&heap);
        assert_eq!(value["tree"][2], json!([5000.0, 101.0, 21500.0, 155.0]));
        assert_eq!(value["names"][value["tree"][0].as_u64().unwrap() as usize], "all");
    }
}
