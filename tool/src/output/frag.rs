//! Nearly empty slabs: tables for people, "vmag-frag-1" for programs.
//! SPDX-License-Identifier: BSD-2-Clause

use super::figures::{bytes, count};
use super::heap::{full_stack_of, place};
use crate::frag::{ClassFrag, Frag};
use serde_json::{Value, json};
use std::fmt::Write;

pub fn text(frag: &Frag, most: usize, full: bool) -> String {
    let mut out = format!(
        "{} (process {}): {} slabs, {} resident for {} of live objects\n",
        frag.program,
        frag.pid,
        count(frag.sum(|class| class.slabs)),
        bytes(frag.sum(|class| class.resident_bytes)),
        bytes(frag.sum(|class| class.live_bytes)),
    );
    let nearly = frag.sum(|class| class.nearly_empty);
    let _ = writeln!(
        out,
        "{} slabs are less than {} % full; beside their objects they keep {}",
        count(nearly),
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
        let _ = writeln!(out, "and {} further size classes (--top N)", classes.len() - most);
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
    let _ = writeln!(
        out,
        "\n{:>11} {:>11} {:>11}  kept by objects of (estimates)",
        "kept", "±", "objects"
    );
    for site in frag.sites.iter().take(most) {
        let sizes: Vec<String> = site.sizes.iter().map(u64::to_string).collect();
        let _ = writeln!(
            out,
            "{:>11} {:>11} {:>11}  {} of {} bytes",
            bytes(site.pinned_bytes as u64),
            bytes(site.pinned_error as u64),
            count(site.objects.round() as u64),
            place(&site.frames),
            sizes.join(", ")
        );
        if full {
            out.push_str(&full_stack_of(&site.frames));
        }
    }
    if frag.sites.len() > most {
        let _ = writeln!(out, "and {} further sites (--top N)", frag.sites.len() - most);
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
            let functions: Vec<&str> = site.frames.iter().rev().map(|frame| frame.function.as_str()).collect();
            value["functions"] = json!(functions);
            value
        })
        .collect();
    json!({
        "format": "vmag-frag-1", "pid": frag.pid, "program": frag.program, "below_percent": frag.below_percent,
        "slabs": frag.sum(|class| class.slabs), "nearly_empty": frag.sum(|class| class.nearly_empty),
        "resident_bytes": frag.sum(|class| class.resident_bytes), "live_bytes": frag.sum(|class| class.live_bytes),
        "pinned_bytes": frag.sum(|class| class.pinned_bytes), "only_magazines_bytes": frag.magazines_bytes,
        "unexplained_bytes": frag.unexplained_bytes, "profiled": frag.is_profiled,
        "classes": frag.classes, "sites": sites,
    })
}
