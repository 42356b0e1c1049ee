//! Heap profiles as text: what holds the memory, and what changed between two profiles.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_diff::{Change, Difference};
use crate::heap_view::{HeapView, Measure, Site};
use crate::output::figures::{bytes, count, counted, percent};
use crate::symbols::{Frame, callers};
use std::fmt::Write;
use std::sync::Arc;

/// Callers shown of a site.
const CALLERS: usize = 3;

pub fn amount(value: f64, measure: Measure) -> String {
    let whole = value.abs().round() as u64;
    if measure.is_bytes() { bytes(whole) } else { count(whole) }
}

pub fn signed(value: f64, measure: Measure) -> String {
    let sign = if value < 0.0 { "−" } else { "+" };
    format!("{sign}{}", amount(value, measure))
}

/// What the numbers are and how they came about.
pub fn head(view: &HeapView, measure: Measure) -> String {
    let profile = &view.profile;
    let sum = view.sum(measure);
    let of = profile.pid.map_or(String::new(), |pid| format!(" of process {pid}"));
    let rate = match profile.lg_sample {
        Some(0) if profile.missing.is_some() => "every allocation counted that was recorded".to_string(),
        Some(0) => "every allocation counted".to_string(),
        Some(lg) => format!("sampled every {} on average", bytes(1 << lg)),
        None => "sampled".to_string(),
    };
    let mut out = format!(
        "{}{of}: {} ± {} in {} objects ± {}; {rate}, ± is one standard error\n",
        measure.title(),
        bytes(sum.bytes.round() as u64),
        bytes(sum.bytes_error().round() as u64),
        count(sum.objects.round() as u64),
        count(sum.objects_error().round() as u64),
    );
    if profile.lost > 0 {
        let _ = writeln!(
            out,
            "warning: {} samples are missing, there was no memory for them",
            profile.lost
        );
    }
    if profile.samples.is_empty() && profile.lg_sample != Some(0) {
        out.push_str("nothing was sampled: too little was allocated for that\n");
    }
    if let Some(missing) = &profile.missing {
        let _ = writeln!(out, "warning: {missing}");
    }
    if view.named.nameless > 0 {
        let files = view.named.nameless_in.join(", ");
        let _ = writeln!(
            out,
            "no symbol for {}, in {files}: stripped, or gone; a package of debug symbols, --debuginfod, or --bundle \
             where it was recorded bring them",
            counted(view.named.nameless as u64, "address")
        );
    }
    out
}

pub fn table(view: &HeapView, measure: Measure, most: usize) -> String {
    let all = measure.of(&view.sum(measure));
    let sites = view.sites(measure);
    if sites.is_empty() && !view.sites(measure.since_the_beginning()).is_empty() {
        return "nothing of what was sampled is alive; `--measure all-bytes` tells what was allocated\n".to_string();
    }
    if sites.is_empty() {
        return "nothing was sampled of it; smaller distances (`--sample-bytes`, lg_prof_sample) tell more\n"
            .to_string();
    }
    let mut out = format!(
        "\n{:>11} {:>11} {:>6} {:>11}  where\n",
        "amount", "±", "share", "objects"
    );
    for site in sites.iter().take(most) {
        let _ = writeln!(
            out,
            "{:>11} {:>11} {:>5.1}% {:>11}  {}",
            amount(measure.of(&site.estimate), measure),
            amount(measure.error_of(&site.estimate), measure),
            percent(measure.of(&site.estimate), all),
            count(site.estimate.objects.round() as u64),
            place(site.frames)
        );
    }
    if sites.len() > most {
        let rest: f64 = sites[most..].iter().map(|site| measure.of(&site.estimate)).sum();
        let _ = writeln!(
            out,
            "{:>11} {:>11} {:>5.1}% {:>11}  in {}",
            amount(rest, measure),
            "",
            percent(rest, all),
            "",
            counted((sites.len() - most) as u64, "further site")
        );
    }
    out
}

/// What of it is in object caches; empty when nothing is.
pub fn caches(view: &HeapView, measure: Measure) -> String {
    let caches = view.caches(measure);
    let mut out = String::new();
    for (name, sum) in &caches {
        let title = if out.is_empty() { "\nof object caches:\n" } else { "" };
        let _ = writeln!(
            out,
            "{title}{:>11} {:>11} {:>6} {:>11}  {name}",
            amount(measure.of(sum), measure),
            amount(measure.error_of(sum), measure),
            "",
            count(sum.objects.round() as u64)
        );
    }
    out
}

/// The innermost functions that are the program's own, the caller of each behind it.
pub fn place(frames: &[Arc<Frame>]) -> String {
    let frames = callers(frames);
    let mut names: Vec<String> = frames
        .iter()
        .rev()
        .take(CALLERS + 1)
        .map(|frame| frame.function.clone())
        .collect();
    if let (Some(first), Some(frame)) = (names.first_mut(), frames.last()) {
        if let (Some(file), Some(line)) = (&frame.file, frame.line) {
            let _ = write!(first, " ({}:{line})", file.rsplit('/').next().unwrap_or(file));
        }
    }
    if frames.len() > CALLERS + 1 {
        names.push("…".to_string());
    }
    if names.is_empty() {
        "unknown".to_string()
    } else {
        names.join(" ← ")
    }
}

/// All frames of a site, a line each.
pub fn full_stack(site: &Site) -> String {
    full_stack_of(site.frames)
}

/// The outermost frame is the first.
pub fn full_stack_of(frames: &[Arc<Frame>]) -> String {
    let mut out = String::new();
    for frame in frames.iter().rev() {
        let _ = write!(out, "             {}", frame.function);
        match (&frame.file, frame.line) {
            (Some(file), Some(line)) => {
                let _ = writeln!(out, "  {file}:{line}");
            }
            _ => {
                let _ = writeln!(out, "  {}", frame.module);
            }
        }
    }
    out
}

pub fn difference(difference: &Difference, measure: Measure, most: usize) -> String {
    let mut out = format!("{:>12} {:>11} {:>11} {:>11}  where\n", "change", "±", "before", "after");
    let (real, noise): (Vec<&Change>, Vec<&Change>) = difference.changes.iter().partition(|change| change.is_real);
    for change in real.iter().take(most) {
        let _ = writeln!(
            out,
            "{:>12} {:>11} {:>11} {:>11}  {}",
            signed(change.change, measure),
            amount(change.error, measure),
            amount(change.before, measure),
            amount(change.after, measure),
            place(&change.frames)
        );
    }
    if real.len() > most {
        let more = counted((real.len() - most) as u64, "further site");
        let _ = writeln!(out, "and {more} that changed");
    }
    if real.is_empty() {
        out.push_str("nothing changed by more than chance explains\n");
    }
    let sum: f64 = noise.iter().map(|change| change.change).sum();
    let _ = writeln!(
        out,
        "{:>12} in {} whose change is within two standard errors",
        signed(sum, measure),
        counted(noise.len() as u64, "site")
    );
    out
}
