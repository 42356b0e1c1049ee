//! Which processes are served: those named, or all that run on vmag and that we may look into.
//! SPDX-License-Identifier: BSD-2-Clause

use super::readings;
use crate::attach::Process;
use crate::error::{Result, ToolError};
use crate::process;
use std::fs;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub enum Targets {
    /// And when each began: its number may be another's after it.
    Named(Vec<(i32, Option<u64>)>),
    /// Looked for at each question, for processes come and go.
    All,
}

/// What there is at this moment.
pub struct Present {
    pub processes: Vec<Arc<Process>>,
    /// Those that have ended or cannot be looked into, or not in time.
    pub unreadable: usize,
}

impl Targets {
    /// Each once: of two series of one name none is taken.
    pub fn named(pids: &[i32]) -> Targets {
        let mut pids = pids.to_vec();
        pids.sort_unstable();
        pids.dedup();
        Targets::Named(pids.into_iter().map(|pid| (pid, start(pid))).collect())
    }

    pub fn present(&self) -> Present {
        let pids = match self {
            Targets::Named(named) => named.iter().map(|(pid, _)| *pid).collect(),
            Targets::All => all_pids(),
        };
        let there = pids
            .iter()
            .filter(|pid| matches!(self, Targets::All) || self.has(**pid));
        let processes: Vec<Arc<Process>> = there.filter_map(|pid| attach(*pid).ok()).collect();
        Present {
            unreadable: pids.len() - processes.len(),
            processes,
        }
    }

    /// One of those served.
    pub fn has(&self, pid: i32) -> bool {
        match self {
            Targets::Named(named) => named.contains(&(pid, start(pid))),
            Targets::All => has_library(pid),
        }
    }
}

fn start(pid: i32) -> Option<u64> {
    process::start(&pid.to_string())
}

/// As `Process::attach`; who cannot be read in time is unreadable.
pub fn attach(pid: i32) -> Result<Arc<Process>> {
    let attached = readings::of(pid, move || Process::attach(pid)).unwrap_or_else(|| Err(too_slow(pid)));
    attached.map(Arc::new)
}

pub fn too_slow(pid: i32) -> ToolError {
    ToolError::new(
        format!("cannot read process {pid}"),
        "to read its memory takes too long: it may have mapped a file of a server that does not answer",
        "ask again later",
    )
}

/// Processes that have mapped a file named like the library; those it is linked into statically must be named.
pub fn all_pids() -> Vec<i32> {
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && (readings::is_stuck(*pid) || has_library(*pid)))
        .collect();
    pids.sort_unstable();
    pids
}

fn has_library(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| {
        let name = b"/libvmag.so";
        maps.windows(name.len()).any(|window| window == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_twice_is_served_once() {
        let targets = Targets::named(&[i32::MAX, i32::MAX - 1, i32::MAX]);
        assert_eq!(targets.present().unreadable, 2);
    }

    #[test]
    fn who_has_the_number_of_one_that_ended_is_not_served() {
        let pid = std::process::id() as i32;
        assert!(Targets::named(&[pid]).has(pid));
        assert!(!Targets::Named(vec![(pid, Some(1))]).has(pid));
    }
}
