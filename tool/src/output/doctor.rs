//! A diagnosis: a page for people, "vmag-doctor-1" for programs.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::doctor::Diagnosis;
use crate::doctor::bindings::{Binding, CORE, SYMBOLS, Target};
use crate::doctor::diagnosis::Verdict;
use crate::doctor::limits::Weight;
use crate::doctor::objects::Object;
use serde_json::{Value, json};
use std::fmt::Write;

/// Names in a cell of the table; the rest is counted.
const NAMES: usize = 3;

pub fn text(diagnosis: &Diagnosis) -> String {
    let mut out = format!(
        "{} (process {}): {}\n",
        diagnosis.program,
        diagnosis.pid,
        sentence(diagnosis)
    );
    if let Some((object, version)) = &diagnosis.vmag {
        let object = diagnosis.object(*object);
        let version = match version {
            Ok(version) => format!("vmag {version}"),
            Err(why) => format!("vmag ({why})"),
        };
        let _ = writeln!(out, "  {version}, {}, {}", object.path, place(diagnosis, object.place));
    }
    symbols(&mut out, diagnosis);
    astray(&mut out, diagnosis);
    limits(&mut out, diagnosis);
    options(&mut out, diagnosis);
    out
}

fn place(diagnosis: &Diagnosis, place: crate::doctor::objects::Place) -> &'static str {
    use crate::doctor::objects::Place::*;
    match place {
        Program if diagnosis.loaded.interpreter.is_none() => "linked into the static program",
        Program => "linked into the program",
        Preloaded => "preloaded",
        Needed => "linked",
        Opened => "opened by the program while it ran",
        Loader => "the loader",
    }
}

pub fn sentence(diagnosis: &Diagnosis) -> String {
    let allocator = diagnosis.allocator().map_or("nobody", |object| object.name());
    match diagnosis.verdict {
        Verdict::Vmag => "runs on vmag".to_string(),
        Verdict::VmagInPart => "runs on vmag, but not all of it: some calls go elsewhere".to_string(),
        Verdict::VmagWithoutEffect => {
            format!("vmag is loaded but has no effect: malloc is that of {allocator}, which comes first")
        }
        Verdict::Mixed => "allocating and freeing are of different allocators: this will crash, or leak".to_string(),
        Verdict::VmagLost => {
            "runs on vmag's library, whose file was removed or replaced since it was loaded: root is told who calls whom"
                .to_string()
        }
        Verdict::Unknown => {
            let gone = diagnosis.gone().map_or("a file", Object::name);
            format!("which malloc it has cannot be told: {gone} was removed or replaced since it was loaded; root is told")
        }
        Verdict::Other => format!("runs without vmag: malloc is that of {allocator}"),
        Verdict::Static => "runs without vmag: it is static, its malloc is in the program".to_string(),
    }
}

fn names(diagnosis: &Diagnosis, objects: impl Iterator<Item = usize>) -> String {
    let all: Vec<&str> = objects.map(|index| diagnosis.object(index).name()).collect();
    let shown = all.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Callers that reach the winner, those that called nobody yet, and the rest.
fn callers(binding: &Binding) -> (usize, usize, usize) {
    let astray = binding.astray().count();
    let unbound = binding
        .callers
        .iter()
        .filter(|(_, target)| *target == Target::Unbound)
        .count();
    (binding.callers.len() - astray - unbound, unbound, astray)
}

fn symbols(out: &mut String, diagnosis: &Diagnosis) {
    if diagnosis.bindings.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:<32} {:<22} {:>7} {:>8} {:>9}  also defined by",
        "symbol", "the definition of", "callers", "not yet", "elsewhere"
    );
    let (asked_for, others): (Vec<&Binding>, Vec<&Binding>) = diagnosis
        .bindings
        .iter()
        .partition(|binding| binding.symbol < CORE || !binding.callers.is_empty());
    for binding in asked_for {
        let (reached, unbound, astray) = callers(binding);
        let winner = binding
            .winner
            .map_or("nobody", |winner| diagnosis.object(winner).name());
        let others = binding
            .defined_by
            .iter()
            .copied()
            .filter(|index| Some(*index) != binding.winner);
        let _ = writeln!(
            out,
            "{:<32} {winner:<22} {reached:>7} {unbound:>8} {astray:>9}  {}",
            SYMBOLS[binding.symbol].1,
            names(diagnosis, others)
        );
    }
    if !others.is_empty() {
        let _ = writeln!(out, "and {} that nobody asks for (--json has them)", others.len());
    }
    out.push_str(
        "callers: objects whose calls reach that definition; not yet: the linker will look at the first call\n",
    );
}

fn target_name(diagnosis: &Diagnosis, caller: usize, target: Target) -> String {
    match target {
        Target::Object(object) if object == caller => "itself".to_string(),
        Target::Object(object) => diagnosis.object(object).name().to_string(),
        _ => "memory of no object".to_string(),
    }
}

fn symbol_names(symbols: &[usize]) -> String {
    symbols
        .iter()
        .map(|symbol| SYMBOLS[*symbol].1)
        .collect::<Vec<_>>()
        .join(", ")
}

fn astray(out: &mut String, diagnosis: &Diagnosis) {
    let (astray, copies) = (diagnosis.astray(), diagnosis.copies());
    if !astray.is_empty() {
        out.push_str("\ncalls that go elsewhere\n");
    }
    for (caller, target, symbols) in astray {
        let name = diagnosis.object(caller).name();
        let target = target_name(diagnosis, caller, target);
        let _ = writeln!(out, "  {name} → {target}: {}", symbol_names(&symbols));
    }
    if !copies.is_empty() {
        out.push_str("\nallocators of their own, out of sight of all others\n");
    }
    for (object, what) in copies {
        let _ = writeln!(out, "  {}: {what}", diagnosis.object(object).name());
    }
}

fn limits(out: &mut String, diagnosis: &Diagnosis) {
    out.push_str("\nwhat limits it\n");
    for limit in &diagnosis.limits {
        let mark = match limit.weight {
            Weight::Fine => " ",
            Weight::Note => "·",
            Weight::Warning => "!",
        };
        let _ = write!(out, "{mark} {:<24} {}", limit.name, limit.value);
        let _ = match limit.meaning.as_str() {
            "" => writeln!(out),
            meaning => writeln!(out, ": {meaning}"),
        };
    }
}

fn options(out: &mut String, diagnosis: &Diagnosis) {
    let Some(rows) = &diagnosis.options else {
        if diagnosis.vmag.is_some() {
            out.push_str("\noptions: they cannot be told from outside here\n");
        }
        return;
    };
    let set: Vec<_> = rows.iter().filter(|row| !row.is_default()).collect();
    match set.is_empty() {
        true => out.push_str("\noptions: all as they are by default (`vmag options --pid` lists them)\n"),
        false => out.push_str("\noptions that are not by default (`vmag options --pid` lists all)\n"),
    }
    for row in set {
        let mark = if row.is_only_mirrored() { "·" } else { " " };
        let _ = write!(out, "{mark} {:<24} {:<12} {}", row.name, row.value, row.source);
        let _ = match row.is_only_mirrored() {
            true => writeln!(out, ": taken for jemalloc's sake, changes nothing"),
            false => writeln!(out),
        };
    }
    for warning in &diagnosis.warnings {
        let _ = writeln!(out, "! {warning}");
    }
}

pub fn json(diagnosis: &Diagnosis) -> Value {
    let name = |index: usize| diagnosis.object(index).path.clone();
    let symbols: Vec<Value> = diagnosis
        .bindings
        .iter()
        .map(|binding| {
            let (reached, unbound, astray) = callers(binding);
            json!({
                "symbol": SYMBOLS[binding.symbol].0, "name": SYMBOLS[binding.symbol].1,
                "definition_of": binding.winner.map(name),
                "defined_by": binding.defined_by.iter().copied().map(name).collect::<Vec<_>>(),
                "callers": reached, "not_bound_yet": unbound, "elsewhere": astray,
            })
        })
        .collect();
    let astray: Vec<Value> = diagnosis
        .astray()
        .into_iter()
        .map(|(caller, target, symbols)| {
            let symbols: Vec<&str> = symbols.iter().map(|symbol| SYMBOLS[*symbol].0).collect();
            let target = match target {
                Target::Object(object) => Some(name(object)),
                _ => None,
            };
            json!({"object": name(caller), "reaches": target, "symbols": symbols})
        })
        .collect();
    let copies: Vec<Value> = diagnosis
        .copies()
        .into_iter()
        .map(|(object, what)| json!({"object": name(object), "allocator": what}))
        .collect();
    let objects: Vec<Value> = diagnosis
        .loaded
        .objects
        .iter()
        .map(|object| json!({"path": object.path, "place": object.place}))
        .collect();
    json!({
        "format": "vmag-doctor-1",
        "pid": diagnosis.pid,
        "program": diagnosis.program,
        "verdict": verdict_word(&diagnosis.verdict),
        "says": sentence(diagnosis),
        "allocator": diagnosis.allocator().map(|object| object.path.clone()),
        "vmag": diagnosis.vmag.as_ref().map(|(object, version)| json!({
            "path": name(*object), "place": diagnosis.object(*object).place,
            "version": version.as_ref().ok(), "unreadable": version.as_ref().err(),
        })),
        "bindings_read": diagnosis.is_read,
        "objects": objects,
        "symbols": symbols,
        "elsewhere": astray,
        "own_allocators": copies,
        "limits": diagnosis.limits,
        "options": diagnosis.options,
        "warnings": diagnosis.warnings,
    })
}

fn verdict_word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Vmag => "vmag",
        Verdict::VmagInPart => "vmag in part",
        Verdict::VmagWithoutEffect => "vmag without effect",
        Verdict::VmagLost => "vmag, file removed",
        Verdict::Unknown => "unknown",
        Verdict::Mixed => "mixed",
        Verdict::Other => "other",
        Verdict::Static => "static",
    }
}
