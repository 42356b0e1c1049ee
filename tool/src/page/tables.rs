//! Tables of the report, for those who print: call sites, sizes, caches and arenas, the ledger.
//! SPDX-License-Identifier: BSD-2-Clause

use super::flame::values_of_trace;
use super::group_name;
use crate::explain::ledger::TITLES;
use crate::export::flame::escaped;
use crate::heap_view::{HeapView, Measure};
use crate::output::figures::{bytes, count};
use crate::output::heap::places;
use crate::symbols::Frame;
use crate::trace_view::{Ledger, Source, TraceView};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Rows of a table, at most.
const ROWS: usize = 40;
const SITES_HEAD: &str = "<section><h2>Call sites</h2><div class=\"wide\"><table><thead>";

/// Of a table with room for some of `rows` rows.
fn end(out: &mut String, rows: usize) {
    out.push_str("</table></div>");
    if rows > ROWS {
        let _ = write!(out, "<p>and {} more</p>", count((rows - ROWS) as u64));
    }
    out.push_str("</section>");
}

pub fn all(trace: Option<&TraceView>, heap: Option<&HeapView>) -> String {
    let mut out = String::new();
    match (trace, heap) {
        (Some(trace), Some(heap)) if trace.heap.is_some() => sites_of_trace(&mut out, trace, heap),
        (_, Some(heap)) => sites_table(&mut out, heap),
        _ => {}
    }
    if let Some(trace) = trace {
        sizes_table(&mut out, trace);
        sources_table(&mut out, trace);
        if let Some(ledger) = &trace.ledger {
            ledger_table(&mut out, ledger);
        }
    }
    out
}

fn sources_table(out: &mut String, trace: &TraceView) {
    let mut table = |title: &str, unit: &str, sources: &[Source]| {
        if sources.is_empty() {
            return;
        }
        let _ = write!(
            out,
            "<section><h2>{title}</h2><div class=\"wide\"><table class=\"names\"><thead><tr><th>name<th>allocated<th>freed\
             <th>{unit} alive at the end<th>most alive</tr></thead>"
        );
        for source in sources.iter().take(ROWS) {
            let _ = write!(
                out,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
                escaped(&source.name),
                count(source.allocations),
                count(source.frees),
                count(source.live.max(0) as u64),
                count(source.peak_live.max(0) as u64)
            );
        }
        end(out, sources.len());
    };
    table("Object caches", "objects", &trace.summary.caches);
    table("Resource arenas", "units", &trace.summary.arenas);
}

fn ledger_table(out: &mut String, ledger: &Ledger) {
    out.push_str(
        "<section><h2>Ledger: every resident byte at the end</h2><div id=\"ledger\" class=\"ledger live\"></div>\
         <div class=\"wide\"><table class=\"names\"><thead><tr><th>where<th>bytes<th>share</tr></thead>",
    );
    for title in &TITLES {
        let part = ledger.rows.get(title.key).copied().unwrap_or(0);
        if part > 0 {
            let share = 100.0 * part as f64 / ledger.resident_bytes.max(1) as f64;
            let _ = write!(
                out,
                "<tr class=\"{}\"><td>{}<td>{}<td>{share:.1} %</tr>",
                group_name(title.group),
                title.words,
                bytes(part)
            );
        }
    }
    let _ = write!(
        out,
        "<tfoot><tr><td>resident<td>{}<td>100 %</tr></tfoot></table></div></section>",
        bytes(ledger.resident_bytes)
    );
}

/// What is estimated: what is alive, or, where nothing is, what was allocated.
fn sites_table(out: &mut String, heap: &HeapView) {
    let (measure, title) = match heap.sum(Measure::LiveBytes).bytes > 0.0 {
        true => (Measure::LiveBytes, "live"),
        false => (Measure::AllBytes, "allocated"),
    };
    let all = heap.sum(measure).bytes.max(1.0);
    let _ = write!(
        out,
        "{SITES_HEAD}<tr><th>{title}<th>±<th>share<th>objects<th>where</tr></thead>"
    );
    let sites = heap.sites(measure);
    let places = places(sites.iter().take(ROWS).map(|site| site.frames));
    for (site, place) in sites.iter().zip(places) {
        let (held, share) = (&site.estimate, 100.0 * site.estimate.bytes / all);
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{share:.1} %<td>{}<td>{}</tr>",
            bytes(held.bytes.round() as u64),
            bytes(held.bytes_error().round() as u64),
            count(held.objects.round() as u64),
            escaped(&place)
        );
    }
    end(out, sites.len());
}

/// What is exact: who held how much when most was alive, and at the end.
fn sites_of_trace(out: &mut String, trace: &TraceView, heap: &HeapView) {
    let mut sums: HashMap<&[Arc<Frame>], [f64; 4]> = HashMap::new();
    for (index, sample) in heap.profile.samples.iter().enumerate() {
        let values = values_of_trace(trace, heap, index);
        let sum = sums.entry(&heap.named.stacks[sample.stack]).or_default();
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    let mut sites: Vec<_> = sums.into_iter().collect();
    sites.sort_by(|a, b| {
        b.1[0]
            .total_cmp(&a.1[0])
            .then(b.1[2].total_cmp(&a.1[2]))
            .then(a.0.cmp(b.0))
    });
    let all: f64 = sites.iter().map(|site| site.1[0]).sum();
    let _ = write!(
        out,
        "{SITES_HEAD}<tr><th>at the peak<th>share<th>at the end<th>allocated<th>objects<th>where</tr></thead>"
    );
    let places = places(sites.iter().take(ROWS).map(|site| site.0));
    for ((_, [peak, end, allocated, objects]), place) in sites.iter().zip(places) {
        let _ = write!(
            out,
            "<tr><td>{}<td>{:.1} %<td>{}<td>{}<td>{}<td>{}</tr>",
            bytes(*peak as u64),
            100.0 * peak / all.max(1.0),
            bytes(*end as u64),
            bytes(*allocated as u64),
            count(*objects as u64),
            escaped(&place)
        );
    }
    end(out, sites.len());
}

fn sizes_table(out: &mut String, trace: &TraceView) {
    if trace.summary.classes.is_empty() {
        return;
    }
    out.push_str(
        "<section><h2>Sizes</h2><div class=\"wide\"><table class=\"sizes\"><thead><tr><th>size<th>allocated<th>freed\
         <th>alive at the end<th>most alive<th>bytes allocated</tr></thead>",
    );
    let mut classes: Vec<_> = trace.summary.classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.allocations * class.bytes));
    let most = classes
        .first()
        .map_or(1, |class| class.allocations * class.bytes)
        .max(1);
    for class in classes.iter().take(ROWS) {
        let all = class.allocations * class.bytes;
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td><i style=\"width:{:.1}%\"></i>{}</tr>",
            bytes(class.bytes),
            count(class.allocations),
            count(class.frees),
            count(class.live_at_end),
            count(class.peak_live),
            60.0 * all as f64 / most as f64,
            bytes(all)
        );
    }
    end(out, classes.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `vmag heap` does.
    #[test]
    fn estimates_are_rounded() {
        let view = crate::heap_view::tests::view();
        let mut out = String::new();
        let sample = |objects| crate::profile::Sample {
            live: crate::profile::Estimate {
                objects,
                bytes: 8.0 * objects,
                ..Default::default()
            },
            ..view.profile.samples[0].clone()
        };
        let samples = vec![sample(5.78)];
        let profile = crate::profile::Profile {
            samples,
            ..view.profile.clone()
        };
        sites_table(
            &mut out,
            &HeapView {
                profile,
                named: view.named,
            },
        );
        assert!(out.contains("<td>46 B<td>0 B<td>100.0 %<td>6<td>"), "{out}");
    }

    #[test]
    fn a_table_that_is_cut_says_so() {
        let ended = |rows| {
            let mut out = String::new();
            end(&mut out, rows);
            out
        };
        assert_eq!(ended(ROWS), "</table></div></section>");
        assert_eq!(ended(ROWS + 1234), "</table></div><p>and 1,234 more</p></section>");
    }
}
