//! Nearly empty slabs: tables for people, "vmag-frag-1" for programs.
//! SPDX-License-Identifier: BSD-2-Clause

use super::figures::{bytes, count, counted};
use super::heap::{full_stack_of, places};
use super::json::frames;
use crate::frag::traced::{OwnerKept, Traced};
use crate::frag::{ClassFrag, Frag};
use crate::symbols::functions;
use serde_json::{Value, json};
use std::fmt::Write;

pub fn text(frag: &Frag, most: usize, full: bool) -> String {
    let mut out = format!(
        "{} (process {}): {}, {} resident for {} of live objects\n",
        frag.program,
        frag.pid,
        counted(frag.sum(|class| class.slabs), "slab"),
        bytes(frag.sum(|class| class.resident_bytes)),
        bytes(frag.sum(|class| class.live_bytes)),
    );
    let nearly = frag.sum(|class| class.nearly_empty);
    let _ = writeln!(
        out,
        "{} less than {} % full; kept beside the objects there: {}",
        those(nearly, "slab"),
        frag.below_percent,
        bytes(frag.sum(|class| class.pinned_bytes))
    );
    if frag.magazines_bytes > 0 {
        let _ = writeln!(
            out,
            "{} are in slabs without live objects, whose free ones are in magazines: they go by themselves, or by malloc_trim(0)",
            bytes(frag.magazines_bytes)
        );
    }
    if frag.cache_bytes > 0 {
        let _ = writeln!(
            out,
            "object caches ({}) are not among these: `vmag top --view caches {}`",
            bytes(frag.cache_bytes),
            frag.pid
        );
    }
    classes(&mut out, frag, most);
    sites(&mut out, frag, most, full);
    out
}

/// A bar for each tenth, as high as its part of the slabs.
fn fullness(class: &ClassFrag) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = class.by_fullness.iter().max().copied().unwrap_or(0).max(1);
    let height = |slabs: u64| {
        if slabs == 0 {
            0
        } else {
            (slabs * 8).div_ceil(most) as usize
        }
    };
    class.by_fullness.iter().map(|slabs| BARS[height(*slabs)]).collect()
}

fn classes(out: &mut String, frag: &Frag, most: usize) {
    let mut classes: Vec<&ClassFrag> = frag.classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse((class.pinned_bytes, class.resident_bytes)));
    if classes.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:>9} {:>9} {:>12} {:>11} {:>11} {:>11}  slabs by fullness, 0 … 100 %",
        "size", "slabs", "nearly empty", "resident", "live", "kept"
    );
    for class in classes.iter().take(most) {
        let _ = writeln!(
            out,
            "{:>9} {:>9} {:>12} {:>11} {:>11} {:>11}  │{}│",
            count(class.size),
            count(class.slabs),
            count(class.nearly_empty),
            bytes(class.resident_bytes),
            bytes(class.live_bytes),
            bytes(class.pinned_bytes),
            fullness(class)
        );
    }
    if classes.len() > most {
        let more = counted((classes.len() - most) as u64, "further size class");
        let _ = writeln!(out, "and {more} (--top N)");
    }
}

fn sites(out: &mut String, frag: &Frag, most: usize, full: bool) {
    if !frag.is_profiled {
        let _ = writeln!(
            out,
            "\nwhose objects they are is not known, for nothing was sampled: `vmag attach --profile 64k {}` from now on",
            frag.pid
        );
        return;
    }
    if !frag.sites.is_empty() {
        let _ = writeln!(
            out,
            "\n{:>11} {:>11} {:>11}  kept by objects of (estimates)",
            "kept", "±", "objects"
        );
    }
    let shown = &frag.sites[..most.min(frag.sites.len())];
    for (site, place) in shown.iter().zip(places(shown.iter().map(|site| &site.frames[..]))) {
        let sizes: Vec<String> = site.sizes.iter().map(u64::to_string).collect();
        let _ = writeln!(
            out,
            "{:>11} {:>11} {:>11}  {place} of {} bytes",
            bytes(site.pinned_bytes as u64),
            bytes(site.pinned_error as u64),
            count(site.objects.round() as u64),
            sizes.join(", ")
        );
        if full {
            out.push_str(&full_stack_of(&site.frames));
        }
    }
    if frag.sites.len() > most {
        let more = counted((frag.sites.len() - most) as u64, "further site");
        let _ = writeln!(out, "and {more} (--top N)");
    }
    if frag.unexplained_bytes >= 1.0 {
        let _ = writeln!(
            out,
            "{:>11} in sizes and arenas of which nothing was sampled",
            bytes(frag.unexplained_bytes as u64)
        );
    }
}

pub fn json(frag: &Frag) -> Value {
    let sites: Vec<Value> = frag
        .sites
        .iter()
        .map(|site| {
            let mut value = json!(site);
            value["functions"] = json!(functions(&site.frames));
            value["frames"] = frames(&site.frames);
            value
        })
        .collect();
    json!({
        "format": "vmag-frag-1", "pid": frag.pid, "program": frag.program, "below_percent": frag.below_percent,
        "slabs": frag.sum(|class| class.slabs), "nearly_empty": frag.sum(|class| class.nearly_empty),
        "resident_bytes": frag.sum(|class| class.resident_bytes), "live_bytes": frag.sum(|class| class.live_bytes),
        "pinned_bytes": frag.sum(|class| class.pinned_bytes), "only_magazines_bytes": frag.magazines_bytes,
        "cache_bytes_not_among_these": frag.cache_bytes,
        "unexplained_bytes": frag.unexplained_bytes, "profiled": frag.is_profiled,
        "classes": frag.classes, "sites": sites,
    })
}

/// "1 slab is", "2 slabs are"
fn those(number: u64, thing: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(number, thing))
}

pub fn traced_text(traced: &Traced, most: usize, full: bool) -> String {
    let mut out = format!(
        "process {}, {:.3} s after the beginning of the trace: {} with small objects, {} live on them\n\
         {} less than {} % full; free there: {}\n",
        traced.pid,
        traced.seconds,
        counted(traced.pages, "page"),
        bytes(traced.live_bytes),
        those(traced.nearly_empty, "page"),
        traced.below_percent,
        bytes(traced.kept_bytes)
    );
    if let Some(missing) = &traced.missing {
        let _ = writeln!(out, "warning: {missing}");
    }
    if traced.owners.is_empty() {
        return out;
    }
    let _ = writeln!(
        out,
        "\n{:>9} {:>11} {:>16} {:>11}",
        "size", "objects", "on these pages", "kept"
    );
    for size in traced.sizes.iter().filter(|size| size.pinning_objects > 0).take(most) {
        let _ = writeln!(
            out,
            "{:>9} {:>11} {:>16} {:>11}",
            count(size.size),
            count(size.objects),
            count(size.pinning_objects),
            bytes(size.kept_bytes as u64)
        );
    }
    let _ = writeln!(
        out,
        "\n{:>11} {:>11} {:>10}  kept by objects of",
        "kept", "objects", "mean age"
    );
    let shown = &traced.owners[..most.min(traced.owners.len())];
    for (owner, place) in shown.iter().zip(places(shown.iter().map(|owner| &owner.frames[..]))) {
        let _ = writeln!(
            out,
            "{:>11} {:>11} {:>8.3} s  {}",
            bytes(owner.kept_bytes as u64),
            count(owner.objects),
            owner.mean_age_seconds,
            owner_name(owner, place)
        );
        if full {
            out.push_str(&full_stack_of(&owner.frames));
        }
    }
    if traced.owners.len() > most {
        let _ = writeln!(out, "and {} more (--top N)", traced.owners.len() - most);
    }
    if !traced.has_stacks {
        out.push_str("a trace with `vmag run --trace FILE --trace-stacks` tells the call sites\n");
    }
    out
}

fn owner_name(owner: &OwnerKept, place: String) -> String {
    match (owner.thread, owner.size) {
        (Some(thread), Some(size)) => format!("{size} bytes, allocated by thread {thread}"),
        _ => place,
    }
}

pub fn traced_json(traced: &Traced) -> Value {
    let owners: Vec<Value> = traced
        .owners
        .iter()
        .map(|owner| {
            let mut value = json!(owner);
            value["functions"] = json!(functions(&owner.frames));
            value["frames"] = frames(&owner.frames);
            value
        })
        .collect();
    json!({
        "format": "vmag-frag-trace-1", "pid": traced.pid, "seconds": traced.seconds, "below_percent": traced.below_percent,
        "pages": traced.pages, "nearly_empty": traced.nearly_empty, "live_bytes": traced.live_bytes,
        "kept_bytes": traced.kept_bytes, "has_stacks": traced.has_stacks, "missing": traced.missing,
        "sizes": traced.sizes, "owners": owners,
    })
}
