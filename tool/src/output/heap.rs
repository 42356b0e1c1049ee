//! Heap profiles as text: what holds the memory, and what changed between two profiles.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_diff::{Change, Difference};
use crate::heap_view::{HeapView, Measure, Site};
use crate::output::figures::{bytes, count, counted, percent};
use crate::profile::Profile;
use crate::symbols::{Frame, callers};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

/// Callers shown of a site.
const CALLERS: usize = 3;
const CALLED_BY: &str = " ← ";

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
        Some(0) if view.missing_of(measure).is_some() => "every allocation counted that was recorded".to_string(),
        Some(0) => "every allocation counted".to_string(),
        Some(lg) => format!("sampled every {} on average", bytes(1 << lg)),
        None => "sampled".to_string(),
    };
    let mut out = format!(
        "{}{of}: {} ± {} in {} ± {}; {rate}, ± is one standard error\n",
        measure.title(),
        bytes(sum.bytes.round() as u64),
        bytes(sum.bytes_error().round() as u64),
        counted(sum.objects.round() as u64, "object"),
        count(sum.objects_error().round() as u64),
    );
    if profile.lost > 0 {
        let _ = writeln!(
            out,
            "warning: {} missing, for want of memory",
            counted(profile.lost, "sample")
        );
    }
    if let Some(why) = nothing_sampled(profile) {
        let _ = writeln!(out, "{why}");
    }
    if let Some(missing) = view.missing_of(measure) {
        let _ = writeln!(out, "warning: {missing}");
    }
    out.push_str(&on_callers(view, measure));
    out
}

/// Why a profile is empty, where it does not say so itself.
pub fn nothing_sampled(profile: &Profile) -> Option<&'static str> {
    let is_told = profile.lg_sample == Some(0) || profile.lost > 0 || profile.missing.is_some();
    let is_empty = profile.samples.is_empty() && !is_told;
    is_empty.then_some(
        "nothing was sampled: too little was allocated for that; smaller distances (`--sample-bytes`, lg_prof_sample) tell more",
    )
}

/// What keeps callers from being told, and what to do; empty when nothing does.
pub fn on_callers(view: &HeapView, measure: Measure) -> String {
    let mut out = String::new();
    if stacks_are_short(view, measure) {
        out.push_str(
            "most stacks end after one or two functions: the program has no frame pointers; `vmag run`, or prof_unwinder:tables in VMAG_CONF, \
             finds callers without (a program of -static must be linked with -Wl,--eh-frame-hdr for that)\n",
        );
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

/// Found by frame pointers in a program without them: most of it is of one or two functions, and hardly anything leads back to where the program
/// or a thread begins. What is short by itself does: whoever has a frame pointer tells its caller. A stack that a trace has lost is not short.
fn stacks_are_short(view: &HeapView, measure: Measure) -> bool {
    const SHORT: usize = 2;
    let (mut short, mut whole) = (0.0, 0.0);
    for site in view.sites(measure) {
        let depth = site.frames.iter().filter(|frame| !frame.inlined).count();
        if site.frames.iter().any(|frame| frame.is_begin()) {
            whole += measure.of(&site.estimate);
        } else if (1..=SHORT).contains(&depth) {
            short += measure.of(&site.estimate);
        }
    }
    let all = measure.of(&view.sum(measure));
    short > all / 2.0 && whole < all / 20.0
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
    let shown = &sites[..most.min(sites.len())];
    for (site, place) in shown.iter().zip(places(shown.iter().map(|site| site.frames))) {
        let _ = writeln!(
            out,
            "{:>11} {:>11} {:>5.1}% {:>11}  {place}",
            amount(measure.of(&site.estimate), measure),
            amount(measure.error_of(&site.estimate), measure),
            percent(measure.of(&site.estimate), all),
            count(site.estimate.objects.round() as u64)
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
    line(callers(frames))
}

/// Of the rows of one table. What would read the same because functions are left out that only allocate for others is told with them, for
/// "leak_malloc" is named like one.
pub fn places<'a>(sites: impl IntoIterator<Item = &'a [Arc<Frame>]>) -> Vec<String> {
    let rows: Vec<(String, String)> = sites.into_iter().map(|frames| (place(frames), line(frames))).collect();
    let mut read: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (short, whole) in &rows {
        read.entry(short).or_default().insert(whole);
    }
    let rows: Vec<&str> = rows
        .iter()
        .map(|(short, whole)| if read[short.as_str()].len() > 1 { whole } else { short })
        .map(String::as_str)
        .collect();
    let cut: Vec<String> = rows
        .iter()
        .map(|row| row.split(CALLED_BY).map(readable).collect::<Vec<_>>().join(CALLED_BY))
        .collect();
    let mut read: HashMap<&str, HashSet<&str>> = HashMap::new();
    for (cut, row) in cut.iter().zip(&rows) {
        read.entry(cut).or_default().insert(row);
    }
    // Instances of a template may differ in the middle of their names.
    let told = |(cut, row): (&String, &&str)| {
        if read[cut.as_str()].len() > 1 {
            row.to_string()
        } else {
            cut.clone()
        }
    };
    cut.iter().zip(&rows).map(told).collect()
}

fn line(frames: &[Arc<Frame>]) -> String {
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
        names.join(CALLED_BY)
    }
}

/// The names of C++ may have thousands of letters: a row shows how they begin and end.
fn readable(name: &str) -> String {
    const MOST: usize = 160;
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= MOST {
        return name.to_string();
    }
    let (begin, end) = (&letters[..MOST / 2], &letters[letters.len() - MOST / 2..]);
    begin.iter().chain(&['…']).chain(end).collect()
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
    let shown = &real[..most.min(real.len())];
    for (change, place) in shown.iter().zip(places(shown.iter().map(|change| &change.frames[..]))) {
        let _ = writeln!(
            out,
            "{:>12} {:>11} {:>11} {:>11}  {place}",
            signed(change.change, measure),
            amount(change.error, measure),
            amount(change.before, measure),
            amount(change.after, measure)
        );
    }
    if real.len() > most {
        let more = counted((real.len() - most) as u64, "further site");
        let _ = writeln!(out, "and {more} that changed");
    }
    if real.is_empty() {
        out.push_str("nothing changed by more than chance explains\n");
    }
    if !noise.is_empty() {
        let sum: f64 = noise.iter().map(|change| change.change).sum();
        let _ = writeln!(
            out,
            "{:>12} in {} whose change is within two standard errors",
            signed(sum, measure),
            counted(noise.len() as u64, "site")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::{frame, view};

    fn stack(names: &[&str]) -> Vec<Arc<Frame>> {
        names.iter().map(|name| Arc::new(frame(name))).collect()
    }

    #[test]
    fn rows_that_would_read_the_same_are_told_apart() {
        let wrapper = stack(&["main", "keep", "xmalloc"]);
        assert!(places([&wrapper[..]])[0].starts_with("keep ("));
        let (one, other) = (stack(&["main", "leak_malloc"]), stack(&["main", "leak_calloc"]));
        let told = places([&one[..], &other, &wrapper]);
        assert!(
            told[0].starts_with("leak_malloc (") && told[1].starts_with("leak_calloc ("),
            "{told:?}"
        );
        assert!(told[2].starts_with("keep ("), "{told:?}");
    }

    #[test]
    fn where_nothing_changed_no_sites_are_counted() {
        let told = difference(&Difference { changes: Vec::new() }, Measure::LiveBytes, 5);
        assert!(
            told.ends_with("nothing changed by more than chance explains\n"),
            "{told}"
        );
    }

    #[test]
    fn the_longest_names_are_cut_in_a_row_and_not_among_all_frames() {
        let long = format!("Tree<{}é>::insert", "int, ".repeat(1000));
        let frames = stack(&["main", &long]);
        let told = places([&frames[..]]).remove(0);
        assert!(told.starts_with("Tree<int, "), "{told}");
        assert!(
            told.contains(" int, é>::insert (") && told.ends_with("← main"),
            "{told}"
        );
        assert!(told.len() < 250, "{told}");
        assert!(full_stack_of(&frames).contains(&long) && place(&frames).contains(&long));
    }

    #[test]
    fn rows_of_long_names_that_differ_in_the_middle_are_told_apart() {
        let [one, other] = ["Bird", "Fish"].map(|kind| {
            let strings = "std::string, ".repeat(20);
            stack(&["main", &format!("Tree<{strings}{kind}, {strings}>::insert")])
        });
        let told = places([&one[..], &other, &one]);
        assert!(told[0] != told[1] && told[0] == told[2], "{told:?}");
        assert!(told[1].contains("Fish"), "{told:?}");
    }

    #[test]
    fn a_program_without_frame_pointers_is_told_what_to_do() {
        let mut view = view();
        assert!(!stacks_are_short(&view, Measure::LiveBytes));
        view.named.stacks = vec![stack(&["a"]), stack(&["b", "c"]), stack(&["a"])];
        assert!(stacks_are_short(&view, Measure::LiveBytes));
        assert!(head(&view, Measure::LiveBytes).contains("prof_unwinder:tables"));
        let lost = view.named.stacks.split_off(1);
        view.named.stacks.extend([Vec::new(), Vec::new()]);
        assert!(!stacks_are_short(&view, Measure::LiveBytes));
        view.named.stacks.splice(1.., lost);
        // A thread whose first function allocates.
        view.named.stacks[1] = stack(&["start_thread", "c"]);
        assert!(!stacks_are_short(&view, Measure::LiveBytes));
    }
}
