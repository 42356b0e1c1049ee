//! A comparison as a table for people and as JSON ("vmag-compare-2", docs/compare.md).
//! SPDX-License-Identifier: BSD-2-Clause

use super::figures::{FIGURES, Figure, count, counted};
use crate::compare::interval::Interval;
use crate::compare::rounds::{Comparison, LEAST_ROUNDS, Side, Subject};
use crate::system::Status;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// What is shown; JSON has all figures.
const SHOWN: [&str; 4] = ["wall_seconds", "cpu_seconds", "peak_resident_bytes", "minor_faults"];

pub fn shown() -> impl Iterator<Item = &'static Figure> {
    FIGURES.iter().filter(|figure| SHOWN.contains(&figure.key))
}

/// The sides, the least of the deciding figure first.
pub fn ranked(comparison: &Comparison) -> Vec<&Side> {
    let mut sides: Vec<&Side> = comparison.sides.iter().collect();
    let ratio = |side: &Side| {
        comparison
            .ratio(side, comparison.figure)
            .map_or(1.0, |ratio| ratio.mean)
    };
    sides.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    sides
}

pub fn text(subject: &Subject, comparison: &Comparison) -> String {
    let mut out = String::new();
    let words = subject.words[0].to_string_lossy();
    let _ = writeln!(
        out,
        "vmag: {words}, {} by turns{}",
        counted(comparison.rounds.into(), "round"),
        place(subject)
    );
    for figure in shown() {
        out.push_str(&table(comparison, figure));
    }
    let _ = writeln!(out, "vmag: {}", verdict(comparison));
    for side in &comparison.sides {
        let _ = writeln!(out, "ran: {}", proof(side));
    }
    for (allocator, why) in &comparison.left_out {
        let _ = writeln!(out, "left out: {}: {why}", allocator.name);
    }
    out
}

fn place(subject: &Subject) -> String {
    let cpus: Vec<String> = subject.cpus.iter().map(usize::to_string).collect();
    match cpus.len() {
        0 => String::new(),
        1 => format!(" on processor {}", cpus[0]),
        _ => format!(" on processors {}", cpus.join(", ")),
    }
}

fn table(comparison: &Comparison, figure: &Figure) -> String {
    let base = &comparison.sides[0].allocator.name;
    let title = format!("{} {}", figure.title, figure.unit.name());
    let mut out = format!(
        "\n{title:<20} {:>10} {:>23}   {:>8}  {:>13}\n",
        "mean",
        "95 %",
        format!("× {base}"),
        "95 %"
    );
    for side in ranked(comparison) {
        let (mean, range) = cells(mean_of(side, figure), |value| figure.unit.number(value));
        let _ = write!(out, "  {:<18} {mean:>10} {range:>23}", side.allocator.name);
        if side.allocator.name != *base {
            let (ratio, range) = cells(comparison.ratio(side, figure), |value| format!("{value:.3}"));
            let _ = write!(out, "   {ratio:>8}  {range:>13}");
        }
        out.push('\n');
    }
    out
}

fn mean_of(side: &Side, figure: &Figure) -> Option<Interval> {
    Interval::of(&side.values(figure))
}

fn cells(interval: Option<Interval>, number: impl Fn(f64) -> String) -> (String, String) {
    match interval {
        Some(Interval { mean, low, high }) => (number(mean), format!("{} … {}", number(low), number(high))),
        None => ("-".to_string(), String::new()),
    }
}

/// Whether the ratios are known as well as was asked for.
pub fn verdict(comparison: &Comparison) -> String {
    let (width, widest) = &comparison.widest;
    let (asked, title) = (100.0 * comparison.rules.precision, comparison.figure.title);
    if comparison.rounds < LEAST_ROUNDS {
        return format!(
            "little can be said after {}: intervals are worth something from {LEAST_ROUNDS} rounds on",
            counted(comparison.rounds.into(), "round")
        );
    }
    let known = format!(
        "ratios of {title} are known within {:.2} % (widest: {widest})",
        100.0 * width
    );
    if comparison.is_narrow() {
        return format!("narrow: {known}");
    }
    format!(
        "NOT narrow: {known}, not {asked:.2} %; more rounds (--most), a quiet machine or --cpus would help, and smaller \
         differences mean nothing"
    )
}

fn proof(side: &Side) -> String {
    let (allocator, evidence) = (&side.allocator, &side.evidence);
    let file = evidence
        .malloc_from
        .as_ref()
        .map_or("?".into(), |file| file.display().to_string());
    let version = allocator
        .version
        .as_ref()
        .map_or(String::new(), |version| format!(" {version}"));
    let mut out = format!("{}{version}: malloc was bound to {file}", allocator.name);
    if allocator.library.is_some() {
        let _ = write!(
            out,
            ", mapped in {} of {} looked at",
            count(evidence.seen.into()),
            counted(evidence.looked.into(), "run")
        );
    }
    if evidence.processes_elsewhere > 0 {
        let _ = write!(
            out,
            "; {} of {} processes had another malloc",
            count(evidence.processes_elsewhere as u64),
            count(evidence.processes as u64)
        );
    }
    if evidence.ran_on > 0 {
        let _ = write!(
            out,
            "; ended after runs: {} that the command left running",
            counted(evidence.ran_on, "process")
        );
    }
    out
}

pub fn json(subject: &Subject, comparison: &Comparison) -> Value {
    let (exit_code, signal) = match comparison.status {
        Status::Exited(code) => (Some(code), None),
        Status::Signaled(signal) => (None, Some(signal)),
    };
    let words: Vec<_> = subject.words.iter().map(|word| word.to_string_lossy()).collect();
    let (width, widest) = &comparison.widest;
    let left_out = comparison
        .left_out
        .iter()
        .map(|(allocator, why)| json!({ "name": allocator.name, "library": allocator.library.as_deref().map(lossy), "why": why }));
    json!({
        "format": "vmag-compare-2",
        "command": words,
        "program": lossy(&subject.program),
        "cpus": subject.cpus,
        "exit_code": exit_code,
        "signal": signal,
        "rounds": comparison.rounds,
        "base": comparison.sides[0].allocator.name,
        "confidence": 0.95,
        "figure": comparison.figure.key,
        "precision": comparison.rules.precision,
        "narrow": comparison.is_narrow(),
        "widest": { "name": widest, "half_width": width.is_finite().then_some(width) },
        "allocators": comparison.sides.iter().map(|side| side_json(comparison, side)).collect::<Vec<_>>(),
        "left_out": left_out.collect::<Vec<_>>(),
    })
}

fn side_json(comparison: &Comparison, side: &Side) -> Value {
    let figures: Map<String, Value> = FIGURES
        .iter()
        .map(|figure| {
            let ratio = (side.allocator.name != comparison.sides[0].allocator.name)
                .then(|| comparison.ratio(side, figure))
                .flatten();
            let value = json!({
                "all": side.values(figure),
                "mean": interval_json(mean_of(side, figure)),
                "ratio": interval_json(ratio),
            });
            (figure.key.to_string(), value)
        })
        .collect();
    json!({
        "name": side.allocator.name,
        "library": side.allocator.library.as_deref().map(lossy),
        "version": side.allocator.version,
        "malloc_from": side.evidence.malloc_from.as_deref().map(lossy),
        "processes": side.evidence.processes,
        "processes_elsewhere": side.evidence.processes_elsewhere,
        "processes_ended": side.evidence.ran_on,
        "runs_looked_at": side.evidence.looked,
        "runs_seen_mapped": side.evidence.seen,
        "figures": figures,
    })
}

fn interval_json(interval: Option<Interval>) -> Value {
    interval.map_or(
        Value::Null,
        |Interval { mean, low, high }| json!({ "mean": mean, "low": low, "high": high }),
    )
}

/// JSON is UTF-8, names of files need not be.
fn lossy(path: &Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_sentence_are_written_alike() {
        let mut side = crate::compare::rounds::Side {
            allocator: crate::compare::allocators::Allocator {
                name: "a".to_string(),
                library: Some("/a.so".into()),
                version: None,
            },
            evidence: Default::default(),
            runs: Vec::new(),
        };
        (side.evidence.seen, side.evidence.looked) = (3210, 3210);
        (side.evidence.processes, side.evidence.processes_elsewhere) = (4321, 1234);
        let told = proof(&side);
        assert!(told.contains("3,210 of 3,210 runs looked at"), "{told}");
        assert!(told.contains("1,234 of 4,321 processes"), "{told}");
    }
}
