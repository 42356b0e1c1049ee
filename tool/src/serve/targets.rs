//! Which processes are served: those named, or all that run on vmag and that we may look into.
//! SPDX-License-Identifier: BSD-2-Clause

use super::readings;
use crate::attach::Process;
use crate::error::{Result, ToolError};
use std::fs;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub enum Targets {
    Named(Vec<i32>),
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
        Targets::Named(pids)
    }

    pub fn present(&self) -> Present {
        let pids = match self {
            Targets::Named(pids) => pids.clone(),
            Targets::All => all_pids(),
        };
        let named = pids.len();
        let attached = pids.into_iter().filter_map(|pid| attach(pid).ok());
        let processes: Vec<Arc<Process>> = attached.collect();
        Present {
            unreadable: named - processes.len(),
            processes,
        }
    }

    /// One of those served.
    pub fn has(&self, pid: i32) -> bool {
        match self {
            Targets::Named(pids) => pids.contains(&pid),
            Targets::All => has_library(pid),
        }
    }
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
}
