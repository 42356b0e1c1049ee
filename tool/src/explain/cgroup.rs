//! What the control group of a process uses of memory, and the least limit on the way up to the root.
//! SPDX-License-Identifier: BSD-2-Clause

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";
/// cgroup v1 says "no limit" by a number near 2^63.
const UNLIMITED: u64 = 1 << 62;

#[derive(Debug)]
pub struct Cgroup {
    pub path: String,
    pub used_bytes: u64,
    /// None: no limit.
    pub limit_bytes: Option<u64>,
    /// The largest parts of what is used, by the kernel's names.
    pub parts: Vec<(String, u64)>,
}

/// None where the kernel or the container does not show it.
pub fn of(pid: i32) -> Option<Cgroup> {
    let lines = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    if let Some(path) = lines.lines().find_map(|line| line.strip_prefix("0::")) {
        let folder = PathBuf::from(format!("{ROOT}{path}"));
        if let Some(used_bytes) = number(&folder.join("memory.current")) {
            let limits = folder.ancestors().take_while(|folder| folder.starts_with(ROOT));
            return Some(Cgroup {
                path: path.to_string(),
                used_bytes,
                limit_bytes: limits.filter_map(|folder| number(&folder.join("memory.max"))).min(),
                parts: parts(&folder.join("memory.stat")),
            });
        }
    }
    let is_memory = |line: &&str| {
        line.split(':')
            .nth(1)
            .is_some_and(|names| names.split(',').any(|name| name == "memory"))
    };
    let path = lines.lines().find(is_memory)?.splitn(3, ':').nth(2)?;
    let folder = PathBuf::from(format!("{ROOT}/memory{path}"));
    Some(Cgroup {
        path: path.to_string(),
        used_bytes: number(&folder.join("memory.usage_in_bytes"))?,
        limit_bytes: number(&folder.join("memory.limit_in_bytes")).filter(|limit| *limit < UNLIMITED),
        parts: parts(&folder.join("memory.stat")),
    })
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn parts(path: &Path) -> Vec<(String, u64)> {
    const SHOWN: [&str; 7] = ["anon", "rss", "file", "cache", "shmem", "kernel", "slab"];
    let text = fs::read_to_string(path).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs
        .filter(|(name, _)| SHOWN.contains(name))
        .filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?)))
        .collect()
}
