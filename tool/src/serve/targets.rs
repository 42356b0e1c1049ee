//! Which processes are served: those named, or all that run on vmag and that we may look into.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::Process;
use crate::error::Result;
use std::fs;

#[derive(Debug, Clone)]
pub enum Targets {
    Named(Vec<i32>),
    /// Looked for at each question, for processes come and go.
    All,
}

/// What there is at this moment.
pub struct Present {
    pub processes: Vec<Process>,
    /// Those that have ended or cannot be looked into.
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
        let attached: Vec<Result<Process>> = pids.into_iter().map(Process::attach).collect();
        let unreadable = attached.iter().filter(|process| process.is_err()).count();
        Present {
            processes: attached.into_iter().flatten().collect(),
            unreadable,
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

/// Processes that have mapped a file named like the library; those it is linked into statically must be named.
pub fn all_pids() -> Vec<i32> {
    let own = std::process::id() as i32;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own && has_library(*pid))
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
