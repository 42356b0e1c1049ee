//! The ledger of a process: bars for people, "vmag-explain-1" for programs.
//! SPDX-License-Identifier: BSD-2-Clause

use super::figures::bytes;
use super::plain;
use crate::explain::cgroup::Cgroup;
use crate::explain::ledger::{Group, TITLES, Vmag};
use crate::explain::{Ledger, Row};
use serde_json::{Map, Value, json};
use std::fmt::Write;

const BAR_CELLS: usize = 36;

pub fn text(ledger: &Ledger, colours: bool) -> String {
    let mut out = String::new();
    let on = match &ledger.vmag {
        Vmag::Read(version) => format!("on vmag {}", plain(version)),
        Vmag::Absent => "without vmag".to_string(),
        Vmag::WithoutEffect(sentence) => plain(sentence).to_string(),
        Vmag::Unreadable(why) => format!("on vmag; its heap is not told: {why}"),
        Vmag::Unknown(why) => format!("whether on vmag cannot be told: {why}"),
    };
    let _ = writeln!(out, "{} (process {}), {on}", ledger.program, ledger.pid);
    for line in headings(ledger) {
        let _ = writeln!(out, "  {line}");
    }
    for group in [Group::Heap, Group::Allocator, Group::Rest] {
        let whole = ledger.group(group);
        if whole > 0 {
            let _ = writeln!(out);
            row(
                &mut out,
                ledger,
                &Line {
                    words: group_words(group),
                    bytes: whole,
                    of: group,
                    indent: 0,
                },
                colours,
            );
            for title in TITLES.iter().filter(|title| title.group == group) {
                let bytes = ledger.resident.of(title.row);
                if bytes > 0 {
                    row(
                        &mut out,
                        ledger,
                        &Line {
                            words: title.words,
                            bytes,
                            of: group,
                            indent: 2,
                        },
                        colours,
                    );
                }
            }
        }
    }
    let _ = writeln!(
        out,
        "\n{:<32} {:>11}  100.0 %",
        "resident",
        bytes(ledger.resident.total())
    );
    for hint in hints(ledger) {
        let _ = writeln!(out, "  {hint}");
    }
    out
}

fn headings(ledger: &Ledger) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(cgroup) = &ledger.cgroup {
        let limit = cgroup
            .limit_bytes
            .map_or("no limit".to_string(), |limit| format!("of {}", bytes(limit)));
        let parts: Vec<_> = cgroup
            .parts
            .iter()
            .map(|(name, value)| format!("{name} {}", bytes(*value)))
            .collect();
        lines.push(format!(
            "cgroup {}: {} used, {limit} ({})",
            plain(&cgroup.path),
            bytes(cgroup.used_bytes),
            parts.join(", ")
        ));
    }
    let mut line = format!(
        "resident {}, proportional {}",
        bytes(ledger.resident.total()),
        bytes(ledger.proportional.total())
    );
    for (value, words) in [(ledger.swapped_bytes, "swapped"), (ledger.huge_bytes, "in huge pages")] {
        if value > 0 {
            let _ = write!(line, ", {} {words}", bytes(value));
        }
    }
    lines.push(line);
    if ledger.torn > 0 {
        lines.push(format!("{} structures changed while they were read", ledger.torn));
    }
    lines
}

fn group_words(group: Group) -> &'static str {
    match group {
        Group::Heap => "heap",
        Group::Allocator => "the allocator's own",
        Group::Rest => "not the allocator's",
    }
}

struct Line {
    words: &'static str,
    bytes: u64,
    of: Group,
    indent: usize,
}

fn row(out: &mut String, ledger: &Ledger, line: &Line, colours: bool) {
    let whole = ledger.resident.total();
    let share = line.bytes as f64 / whole.max(1) as f64;
    let (start, end) = match (colours, line.of) {
        (false, _) => ("", ""),
        (true, Group::Heap) => ("\x1b[36m", "\x1b[0m"),
        (true, Group::Allocator) => ("\x1b[33m", "\x1b[0m"),
        (true, Group::Rest) => ("\x1b[90m", "\x1b[0m"),
    };
    let words = format!("{:indent$}{}", "", line.words, indent = line.indent);
    let _ = writeln!(
        out,
        "{words:<32} {:>11} {:>6.1} %  {start}{}{end}",
        bytes(line.bytes),
        share * 100.0,
        bar(share)
    );
}

/// In eighths of a cell; whatever is not zero can be seen.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * (BAR_CELLS * 8) as f64).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// What somebody who finds the memory too much may do first.
fn hints(ledger: &Ledger) -> Vec<&'static str> {
    let at_least = |rows: &[Row], percent: u64| {
        let bytes: u64 = rows.iter().map(|row| ledger.resident.of(*row)).sum();
        bytes * 100 >= ledger.resident.total() * percent
    };
    let mut hints = Vec::new();
    if at_least(&[Row::Dirty], 15) {
        hints.push("unused pages go back within the time of the option dirty_decay_ms, or at once by malloc_trim(0)");
    }
    if at_least(&[Row::Holes], 20) {
        hints.push("free buffers lie between live objects of the same size: few live ones keep many pages");
    }
    match ledger.vmag {
        // Areas do not tell the program's own mappings from those of its malloc: glibc's of threads, and of large objects.
        Vmag::Absent if at_least(&[Row::Brk, Row::Anonymous], 30) => {
            hints.push(
                "it does not run on vmag: malloc's memory is in the C library's heap and other anonymous memory",
            );
            hints.push("vmag run -- CMD starts it on vmag: then this looks into its heap");
        }
        Vmag::Unreadable(_) | Vmag::Unknown(_) if at_least(&[Row::Anonymous], 30) => {
            hints.push("other anonymous memory has the program's heap in it");
        }
        Vmag::WithoutEffect(_) if at_least(&[Row::Anonymous], 30) => {
            hints.push("other anonymous memory has the heap of that malloc in it");
        }
        Vmag::Read(_) if at_least(&[Row::Anonymous], 30) => {
            hints.push("other anonymous memory was mapped by the program itself, or by another allocator in it");
        }
        _ => {}
    }
    hints
}

pub fn json(ledger: &Ledger) -> Value {
    let by_row = |of: &dyn Fn(Row) -> u64| {
        let pairs = TITLES.iter().map(|title| (title.key.to_string(), of(title.row).into()));
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    let (version, unreadable) = match &ledger.vmag {
        Vmag::Read(version) => (Some(version), None),
        Vmag::Absent | Vmag::WithoutEffect(_) => (None, None),
        Vmag::Unreadable(why) | Vmag::Unknown(why) => (None, Some(why)),
    };
    json!({
        "format": "vmag-explain-1",
        "pid": ledger.pid,
        "program": ledger.program,
        "on_vmag": match ledger.vmag {
            Vmag::Unknown(_) => None,
            Vmag::Absent | Vmag::WithoutEffect(_) => Some(false),
            _ => Some(true),
        },
        "library_version": version,
        "heap_unreadable": unreadable,
        "resident_bytes": ledger.resident.total(),
        "rows": by_row(&|row| ledger.resident.of(row)),
        "proportional_bytes": ledger.proportional.total(),
        "proportional_rows": by_row(&|row| ledger.proportional.of(row)),
        "swapped_bytes": ledger.swapped_bytes,
        "huge_page_bytes": ledger.huge_bytes,
        "cgroup": ledger.cgroup.as_ref().map(cgroup),
        "torn_structures": ledger.torn,
    })
}

fn cgroup(cgroup: &Cgroup) -> Value {
    let parts = cgroup.parts.iter().map(|(name, bytes)| (name.clone(), (*bytes).into()));
    json!({
        "path": cgroup.path,
        "used_bytes": cgroup.used_bytes,
        "limit_bytes": cgroup.limit_bytes,
        "parts_bytes": Value::Object(parts.collect::<Map<_, _>>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::ledger::Sums;

    fn ledger(vmag: Vmag, rows: &[(Row, u64)]) -> Ledger {
        let mut resident = Sums::default();
        for (row, bytes) in rows {
            resident.add(*row, *bytes);
        }
        Ledger {
            pid: 1,
            program: "program".to_string(),
            vmag,
            proportional: resident,
            resident,
            swapped_bytes: 0,
            huge_bytes: 0,
            cgroup: None,
            torn: 0,
        }
    }

    #[test]
    fn whose_anonymous_memory_is_depends_on_the_allocator() {
        let rows = [(Row::Programs, 60), (Row::Brk, 5), (Row::Anonymous, 35)];
        let told = |vmag| text(&ledger(vmag, &rows), false);
        let read = told(Vmag::Read("1.0.0".to_string()));
        assert!(
            read.contains("by the program itself") && !read.contains("vmag run"),
            "{read}"
        );
        let absent = told(Vmag::Absent);
        assert!(
            absent.contains("malloc's memory is in") && absent.contains("vmag run -- CMD"),
            "{absent}"
        );
        let unreadable = told(Vmag::Unreadable("why".to_string()));
        assert!(unreadable.contains("the program's heap in it"), "{unreadable}");
        for text in [absent, unreadable] {
            assert!(!text.contains("by the program itself"), "{text}");
        }
        // glibc's first heap counts, too; a small one is not worth a hint.
        let hinted = |brk| !hints(&ledger(Vmag::Absent, &[(Row::Programs, 70), (Row::Brk, brk)])).is_empty();
        assert_eq!((hinted(30), hinted(29)), (true, false));
    }

    #[test]
    fn bars_show_whatever_is_there() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(0.0001), "▏");
        assert_eq!(bar(1.0).chars().count(), BAR_CELLS);
        assert_eq!(bar(0.5), "█".repeat(BAR_CELLS / 2));
    }
}
