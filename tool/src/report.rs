//! Reads the report that libvmag appends to `$VMAG_REPORT`: one JSON object a line, "loaded" and "exit".
//!
//! Every process writes "loaded" when the library comes into it (again after each exec) and "exit" when it ends in
//! the normal way; a forked child writes only its own "exit". A process that is killed, calls `_exit` or became another
//! user leaves no "exit": such a forked child leaves no line at all. Newer libraries may add keys and events, so both are tolerated here.
//! SPDX-License-Identifier: BSD-2-Clause

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What the allocator held when a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitFigures {
    pub resident_bytes: u64,
    pub peak_resident_bytes: u64,
    pub allocated_bytes: u64,
    pub active_bytes: u64,
    pub dirty_bytes: u64,
    pub cached_bytes: u64,
    pub metadata_bytes: u64,
    pub mapped_bytes: u64,
    pub arenas: u64,
    pub threads: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    Loaded {
        pid: i32,
        #[serde(default)]
        version: String,
    },
    Exit {
        pid: i32,
        #[serde(flatten)]
        figures: ExitFigures,
    },
    #[serde(other)]
    Unknown,
}

/// All events of one run, in the order in which they were written.
#[derive(Debug, Default)]
pub struct Report {
    pub events: Vec<Event>,
    /// Lines that are not an event: a report cut short, or not written by vmag.
    pub unreadable_lines: usize,
}

impl Report {
    pub fn parse(text: &str) -> Report {
        let mut report = Report::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(event) => report.events.push(event),
                Err(_) => report.unreadable_lines += 1,
            }
        }
        report
    }

    /// Did the library come into this process?
    pub fn was_loaded_by(&self, pid: i32) -> bool {
        self.last_load(pid).is_some()
    }

    /// The version of the library in this process, as of its last exec.
    pub fn version_in(&self, pid: i32) -> Option<&str> {
        match &self.events[self.last_load(pid)?] {
            Event::Loaded { version, .. } => Some(version),
            _ => None,
        }
    }

    /// What this process held at its end; None when it left no exit line since its last exec.
    pub fn exit_of(&self, pid: i32) -> Option<&ExitFigures> {
        let after_load = self.last_load(pid)? + 1;
        self.events[after_load..].iter().rev().find_map(|event| match event {
            Event::Exit { pid: ended, figures } if *ended == pid => Some(figures),
            _ => None,
        })
    }

    /// The processes that vmag served, each once.
    pub fn processes(&self) -> BTreeSet<i32> {
        let pid_of = |event: &Event| match event {
            Event::Loaded { pid, .. } | Event::Exit { pid, .. } => Some(*pid),
            Event::Unknown => None,
        };
        self.events.iter().filter_map(pid_of).collect()
    }

    fn last_load(&self, wanted: i32) -> Option<usize> {
        self.events
            .iter()
            .rposition(|event| matches!(event, Event::Loaded { pid, .. } if *pid == wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(pid: i32) -> String {
        format!("{{\"event\":\"loaded\",\"pid\":{pid},\"version\":\"0.1.0\"}}\n")
    }

    fn exit(pid: i32, allocated: u64) -> String {
        format!(
            "{{\"event\":\"exit\",\"pid\":{pid},\"version\":\"0.1.0\",\"resident_bytes\":1,\
             \"peak_resident_bytes\":2,\"allocated_bytes\":{allocated},\"active_bytes\":4,\
             \"dirty_bytes\":5,\"cached_bytes\":6,\"metadata_bytes\":7,\"mapped_bytes\":8,\
             \"arenas\":9,\"threads\":10}}\n"
        )
    }

    #[test]
    fn reads_loaded_and_exit() {
        let report = Report::parse(&(loaded(7) + &exit(7, 42)));
        assert!(report.was_loaded_by(7));
        assert!(!report.was_loaded_by(8));
        assert_eq!(report.version_in(7), Some("0.1.0"));
        let figures = report.exit_of(7).unwrap();
        assert_eq!((figures.allocated_bytes, figures.threads), (42, 10));
    }

    #[test]
    fn an_exec_without_exit_line_has_no_figures() {
        let report = Report::parse(&(loaded(7) + &exit(7, 1) + &loaded(7)));
        assert!(report.exit_of(7).is_none());
        let report = Report::parse(&(loaded(7) + &loaded(7) + &exit(7, 3)));
        assert_eq!(report.exit_of(7).unwrap().allocated_bytes, 3);
    }

    #[test]
    fn a_forked_child_counts_by_its_exit_line() {
        let report = Report::parse(&(loaded(7) + &exit(8, 1) + &exit(7, 2)));
        assert_eq!(report.processes().into_iter().collect::<Vec<_>>(), [7, 8]);
        assert!(!report.was_loaded_by(8));
    }

    #[test]
    fn tolerates_new_keys_and_new_events_and_counts_rubbish() {
        let more_keys = exit(7, 1).replace("\"arenas\"", "\"hugepages\":[1,{}],\"arenas\"");
        let text = loaded(7) + &more_keys + "{\"event\":\"purged\",\"pid\":7}\n\n" + "{\"event\":\"lo";
        let report = Report::parse(&text);
        assert_eq!(report.events[2], Event::Unknown);
        assert!(report.exit_of(7).is_some());
        assert_eq!(report.unreadable_lines, 1);
    }
}
