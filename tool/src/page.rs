//! The report: one HTML file that needs nothing else, with pictures for people and tables for those who print.
//!
//! Data is JSON, deflated, in base64; the browser unpacks it. What is shown has a size that follows from the screen, not
//! from the length of the run: pictures are made while the trace is read, and the flame graph leaves out what nobody could see.
//! SPDX-License-Identifier: BSD-2-Clause

mod flame;
mod tables;

use crate::explain::ledger::{Group, TITLES};
use crate::export::flame::escaped;
use crate::heap_view::{HeapView, Measure};
use crate::output::figures::{bytes, count, counted, percent, short_time};
use crate::output::heap::nothing_sampled;
use crate::symbols::{Frame, callers};
use crate::trace_view::{Ledger, Summary, TraceView};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

const PAGE: &str = include_str!("../assets/report.html");

/// `is_of_another`: the profile is of another process than the trace.
pub fn write(title: &str, trace: Option<&TraceView>, heap: Option<&HeapView>, is_of_another: bool) -> String {
    let mut names = Names::default();
    let mut data = json!({});
    let own = trace.and_then(|trace| trace.heap.as_ref());
    if let Some(trace) = trace {
        data["summary"] = time_line(&trace.summary);
        // Of a trace with frees only nothing can be drawn.
        if trace.map.rows > 0 {
            data["map"] = map(trace, &mut names);
        }
    }
    // What is exact goes before what is estimated.
    if let (Some(trace), Some(heap)) = (trace, own) {
        data["flame"] = flame::of_trace(trace, heap, &mut names);
    } else if let Some(heap) = heap {
        data["flame"] = flame::of_profile(heap, &mut names);
        data["by_size"] = by_size(heap, &mut names);
    }
    if let Some(ledger) = trace.and_then(|trace| trace.ledger.as_ref()) {
        data["ledger"] = ledger_rows(ledger);
    }
    data["names"] = json!(names.all);
    let profile = heap.filter(|_| own.is_none());
    filled(&[
        ("title", escaped(title)),
        ("subtitle", subtitle(trace, profile, is_of_another)),
        ("figures", figures(trace, profile)),
        ("tables", tables::all(trace, own.or(profile))),
        ("data", packed(&data)),
    ])
}

/// The page with its `{{name}}`s filled in; what is put in is not looked through again.
fn filled(values: &[(&str, String)]) -> String {
    let mut page = String::new();
    let mut rest = PAGE;
    while let Some((before, (name, after))) = rest
        .split_once("{{")
        .and_then(|(before, at)| Some((before, at.split_once("}}")?)))
    {
        let value = values
            .iter()
            .find(|(of, _)| *of == name)
            .expect("the page names what there is");
        page += before;
        page += &value.1;
        rest = after;
    }
    page + rest
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

/// Tables have the rest.
fn time_line(summary: &Summary) -> Value {
    json!({
        "seconds": summary.seconds, "peak_live_bytes": summary.peak_live_bytes,
        "live_line": summary.live_line, "event_line": summary.event_line,
    })
}

fn map(trace: &TraceView, names: &mut Names) -> Value {
    let map = &trace.map;
    let addresses: Vec<String> = map.row_address.iter().map(|address| format!("{address:#x}")).collect();
    let planes = |planes: &[Vec<u8>]| -> Vec<String> { planes.iter().map(|plane| base64(plane)).collect() };
    let sites: Vec<Value> = trace.sites.iter().map(|frames| stack(callers(frames), names)).collect();
    json!({
        "rows": map.rows, "columns": map.columns, "row_bytes": map.row_bytes,
        "row_address": addresses, "gap_before": map.gap_before,
        "occupancy": base64(&map.occupancy), "age": base64(&map.age), "class": base64(&map.class),
        "site": planes(&map.sites), "share": planes(&map.shares), "sites": sites,
    })
}

/// The numbers of a stack's functions, the innermost first, and where that is in the source.
fn stack(frames: &[Arc<Frame>], names: &mut Names) -> Value {
    const MOST: usize = 24;
    let functions: Vec<usize> = frames
        .iter()
        .rev()
        .take(MOST)
        .map(|frame| names.number(&frame.function))
        .collect();
    let line = frames
        .last()
        .and_then(|frame| Some(format!("{}:{}", frame.file.as_ref()?, frame.line?)));
    json!([functions, line.unwrap_or_default()])
}

/// For each logarithm of a size the stacks that hold most in objects of that size, and how much: sampled, not exact.
fn by_size(heap: &HeapView, names: &mut Names) -> Value {
    const MOST: usize = 3;
    let mut sums: HashMap<u32, HashMap<usize, f64>> = HashMap::new();
    for sample in &heap.profile.samples {
        if let Some(size) = sample.size {
            *sums
                .entry(size.max(1).ilog2())
                .or_default()
                .entry(sample.stack)
                .or_default() += sample.live.bytes.max(sample.total.bytes);
        }
    }
    let mut sizes = serde_json::Map::new();
    for (lg, stacks) in sums {
        let all: f64 = stacks.values().sum();
        let mut order: Vec<_> = stacks.into_iter().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let best = order
            .iter()
            .take(MOST)
            .map(|(index, value)| json!([stack(&heap.named.stacks[*index], names), percent(*value, all).round()]));
        sizes.insert(lg.to_string(), best.collect());
    }
    Value::Object(sizes)
}

fn group_name(group: Group) -> &'static str {
    match group {
        Group::Heap => "heap",
        Group::Allocator => "allocator",
        Group::Rest => "rest",
    }
}

/// [words, bytes, group], those that are something.
fn ledger_rows(ledger: &Ledger) -> Value {
    let rows = TITLES
        .iter()
        .filter_map(|title| Some((title, *ledger.rows.get(title.key)?)))
        .filter(|(_, bytes)| *bytes > 0);
    let rows: Vec<Value> = rows
        .map(|(title, bytes)| json!([title.words, bytes, group_name(title.group)]))
        .collect();
    json!({ "resident": ledger.resident_bytes, "rows": rows })
}

#[derive(Default)]
struct Names {
    numbers: HashMap<String, usize>,
    all: Vec<String>,
    bytes: usize,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.bytes += name.len();
        self.all.push(name.to_string());
        self.numbers.insert(name.to_string(), self.all.len() - 1);
        self.all.len() - 1
    }
}

/// What a profile does not tell; the page has sums since the beginning as well.
pub fn missing_of(profile: &HeapView) -> Option<String> {
    profile.missing_and_lost(Measure::AllBytes)
}

/// `profile`: another one than the trace's own.
fn subtitle(trace: Option<&TraceView>, profile: Option<&HeapView>, is_of_another: bool) -> String {
    let mut parts = Vec::new();
    if let Some(trace) = trace {
        let s = &trace.summary;
        parts.push(format!(
            "trace of process {}: {}, {}",
            s.pid,
            short_time(s.seconds),
            counted(s.events, "event")
        ));
        if s.has_stacks {
            parts.push("with the stack of each call".to_string());
        }
        parts.extend(s.missing.clone());
    }
    if let Some(heap) = profile {
        let missing = missing_of(heap);
        let rate = match heap.profile.lg_sample {
            Some(0) if missing.is_some() => "every allocation counted that was recorded".to_string(),
            Some(0) => "every allocation counted".to_string(),
            Some(lg) => format!("one sample in {} on average", bytes(1 << lg)),
            None => "sampled".to_string(),
        };
        let of = heap
            .profile
            .pid
            .map_or(String::new(), |pid| format!(" of process {pid}"));
        let whose = if is_of_another { ", not the traced one" } else { "" };
        parts.push(format!("profile{of}{whose}: {rate}"));
        parts.extend(missing);
        parts.extend(nothing_sampled(&heap.profile).map(String::from));
    }
    let named = trace.and_then(|trace| trace.heap.as_ref()).or(profile);
    if let Some(heap) = named.filter(|heap| heap.named.nameless > 0) {
        let files = heap.named.nameless_in.join(", ");
        let addresses = counted(heap.named.nameless as u64, "address");
        parts.push(format!("no symbol for {addresses}, in {files}"));
    }
    escaped(&parts.join("; "))
}

fn figures(trace: Option<&TraceView>, profile: Option<&HeapView>) -> String {
    let mut out = String::new();
    let mut add = |title: &str, value: String| {
        let _ = write!(out, "<div class=\"figure\"><b>{value}</b><span>{title}</span></div>");
    };
    if let Some(s) = trace.map(|trace| &trace.summary) {
        add("live at the peak", bytes(s.peak_live_bytes));
        add("live at the end", bytes(s.live_bytes_at_end));
        add("allocated", bytes(s.allocated_bytes));
        add("allocations", count(s.allocations));
        add("frees", count(s.frees));
        // Allocations less frees are what is alive only with these.
        if s.resizes > 0 {
            add("of the allocations resized in place", count(s.resizes));
        }
        add(
            if s.threads == 1 { "thread" } else { "threads" },
            count(s.threads as u64),
        );
    }
    if let Some(ledger) = trace.and_then(|trace| trace.ledger.as_ref()) {
        add("resident at the end", bytes(ledger.resident_bytes));
    }
    if let Some(heap) = profile {
        let live = heap.sum(Measure::LiveBytes);
        let error = bytes(live.bytes_error().round() as u64);
        let title = match heap.profile.lg_sample {
            Some(0) => "live in the profile".to_string(),
            _ => format!("± {error}, live in the profile"),
        };
        add(&title, bytes(live.bytes.round() as u64));
    }
    out
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
        let page = write("a<b>", Some(&trace), Some(&heap), false);
        assert!(page.contains("a&lt;b&gt;") && !page.contains("{{") && page.ends_with("</html>\n"));
        assert!(write("{{data}}", Some(&trace), None, false).contains("<h1>{{data}}</h1>"));
        assert!(!page.contains("http://") && !page.contains("https://"));
        assert!(PAGE.len() < 300_000 && page.len() < 500_000);
        assert!(page.contains("b ← main") || page.contains("c (a.c:7) ← b ← main"));
        assert!(!write("x", None, Some(&heap), false).contains("<h2>Sizes"));
    }

    /// A trace of objects of all sizes has a hundred thousand classes.
    #[test]
    fn the_page_has_no_lists_that_nothing_shows() {
        let data = data_of(&write("x", Some(&crate::trace_view::tests::view()), None, false));
        let keys: Vec<&String> = data["summary"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["event_line", "live_line", "peak_live_bytes", "seconds"]);
        assert!(keys.iter().all(|key| PAGE.contains(&format!("s.{key}"))));
    }

    /// The page's other pictures would be lost with an empty one.
    #[test]
    fn what_has_no_rows_is_not_drawn() {
        let mut trace = crate::trace_view::tests::view();
        let has_map = |trace: &TraceView| data_of(&write("x", Some(trace), None, false)).get("map").is_some();
        assert!(has_map(&trace));
        trace.map = crate::trace_map::Map::default();
        assert!(!has_map(&trace));
        assert!(write("x", Some(&trace), None, false).contains("<h2>Sizes"));
        trace.summary.classes.clear();
        assert!(!write("x", Some(&trace), None, false).contains("<h2>Sizes"));
        assert!(PAGE.contains("if (data.map) again.push(map(data))"));
    }

    #[test]
    fn what_a_profile_lacks_is_told() {
        let mut heap = crate::heap_view::tests::view();
        assert!(!subtitle(None, Some(&heap), false).contains("missing"));
        (heap.profile.live_only, heap.profile.lost) = (true, 3);
        heap.profile.missing = Some("half of it is not in it".to_string());
        let trace = crate::trace_view::tests::view();
        for trace in [None, Some(&trace)] {
            let told = subtitle(trace, Some(&heap), false);
            assert!(
                told.contains("half of it is not in it; ") && told.contains("prof_accum:true; 3 samples missing"),
                "{told}"
            );
        }
        heap.profile.missing = None;
        heap.profile.lg_sample = Some(19);
        heap.profile.samples.clear();
        assert!(!subtitle(None, Some(&heap), false).contains("nothing was sampled"));
        heap.profile.lost = 0;
        assert!(subtitle(None, Some(&heap), false).contains("nothing was sampled"));
        heap.profile.samples = crate::heap_view::tests::view().profile.samples;
        assert!(!subtitle(None, Some(&heap), false).contains("nothing was sampled"));
    }

    #[test]
    fn whose_a_profile_is_is_told() {
        let (trace, mut heap) = (crate::trace_view::tests::view(), crate::heap_view::tests::view());
        heap.profile.pid = Some(8);
        assert!(subtitle(Some(&trace), Some(&heap), false).contains("profile of process 8: every"));
        assert!(
            subtitle(Some(&trace), Some(&heap), true).contains("profile of process 8, not the traced one: every")
        );
    }

    /// One of every allocation, as of `--sample-bytes 1`.
    #[test]
    fn an_exact_profile_has_figures() {
        let (trace, heap) = (crate::trace_view::tests::view(), crate::heap_view::tests::view());
        assert_eq!(heap.profile.lg_sample, Some(0));
        for trace in [None, Some(&trace)] {
            let page = write("x", trace, Some(&heap), false);
            assert!(page.contains("<b>4.9 KiB</b><span>live in the profile</span>"));
            assert!(page.contains("profile: every allocation counted"));
        }
    }

    /// The table of sizes has frees of them, as `vmag trace` says.
    #[test]
    fn what_was_resized_is_told() {
        let mut trace = crate::trace_view::tests::view();
        let told = "<b>1</b><span>of the allocations resized in place</span>";
        assert!(figures(Some(&trace), None).contains(told));
        trace.summary.resizes = 0;
        assert!(!figures(Some(&trace), None).contains("resized"));
    }

    #[test]
    fn a_short_trace_has_a_length() {
        assert!(subtitle(Some(&crate::trace_view::tests::view()), None, false).contains(": 1.0 µs, 6 events"));
    }

    fn data_of(page: &str) -> Value {
        let (_, from) = page.split_once("id=\"data\"").unwrap();
        let (packed, _) = from.split_once('>').unwrap().1.split_once('<').unwrap();
        let letter = |byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let mut bytes = Vec::new();
        for four in packed.trim().trim_end_matches('=').as_bytes().chunks(4) {
            let word = four
                .iter()
                .enumerate()
                .fold(0, |word, (i, byte)| word | u32::from(letter(*byte)) << (26 - 6 * i));
            bytes.extend(&word.to_be_bytes()[..four.len() - 1]);
        }
        serde_json::from_reader(flate2::read::ZlibDecoder::new(&bytes[..])).unwrap()
    }
}
