//! What limits the allocator of a process, or what it gives back: the kernel's settings, its limits, its group's.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::explain::areas::Area;
use crate::explain::cgroup;
use crate::output::figures::{bytes, count};
use crate::process;
use procfs::process::{LimitValue, Process};
use procfs::{Current, Meminfo};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    Fine,
    /// Worth knowing.
    Note,
    /// Something does not work, or soon will not.
    Warning,
}

#[derive(Debug, Serialize)]
pub struct Limit {
    pub name: &'static str,
    pub value: String,
    pub weight: Weight,
    /// What it means; empty where there is nothing to say.
    pub meaning: String,
}

impl Limit {
    pub fn new(name: &'static str, value: impl Into<String>, weight: Weight, meaning: impl Into<String>) -> Limit {
        Limit {
            name,
            value: value.into(),
            weight,
            meaning: meaning.into(),
        }
    }

    fn fine(name: &'static str, value: impl Into<String>) -> Limit {
        Limit::new(name, value, Weight::Fine, "")
    }
}

/// Nearly used up: more than this share, in percent.
const NEARLY: u64 = 80;

pub fn of(pid: i32, areas: &[Area]) -> Vec<Limit> {
    let mut limits = vec![huge_pages(pid), overcommit()];
    limits.extend(resources(pid));
    limits.push(group(pid));
    limits.push(maps(areas.len() as u64));
    limits.extend(status(pid));
    limits
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

/// The setting in brackets of "always [madvise] never".
fn huge_pages(pid: i32) -> Limit {
    const NAME: &str = "transparent huge pages";
    let text = line("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let setting = text.split(['[', ']']).nth(1).unwrap_or("not known").to_string();
    let status = Process::new(pid).and_then(|process| process.status());
    if status.is_ok_and(|status| status.thp_enabled == Some(false)) {
        return Limit::new(
            NAME,
            "off for this process",
            Weight::Note,
            "by prctl(PR_SET_THP_DISABLE)",
        );
    }
    match setting.as_str() {
        "always" => Limit::new(
            NAME,
            setting,
            Weight::Note,
            "the kernel backs large areas by 2 MiB pages: faster, but a huge page is resident as a whole; option thp:never opts out",
        ),
        "never" => Limit::new(NAME, setting, Weight::Note, "the option thp has no effect"),
        _ => Limit::fine(NAME, setting),
    }
}

fn overcommit() -> Limit {
    const NAME: &str = "overcommit";
    match line("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => strict_overcommit(),
        Some("1") => Limit::fine(NAME, "always (1)"),
        Some("0") => Limit::fine(NAME, "by guess (0)"),
        _ => Limit::fine(NAME, "not known"),
    }
}

fn strict_overcommit() -> Limit {
    let memory = Meminfo::current().ok();
    let left = memory.and_then(|memory| Some(memory.commit_limit?.saturating_sub(memory.committed_as)));
    let left = left.map_or("not known".to_string(), bytes);
    let meaning = format!("malloc fails when what all processes were promised reaches CommitLimit; {left} are left");
    Limit::new("overcommit", "strict (2)", Weight::Warning, meaning)
}

fn resources(pid: i32) -> Vec<Limit> {
    let Ok(process) = Process::new(pid) else {
        return Vec::new();
    };
    let Ok(limits) = process.limits() else {
        return Vec::new();
    };
    let used = process.status().ok();
    let address_space = used.as_ref().and_then(|status| status.vmsize).unwrap_or(0) * 1024;
    let data = used.as_ref().and_then(|status| status.vmdata).unwrap_or(0) * 1024;
    vec![
        resource("RLIMIT_AS", limits.max_address_space.soft_limit, address_space),
        resource("RLIMIT_DATA", limits.max_data_size.soft_limit, data),
    ]
}

/// Of a limit that there is.
fn weight(used: u64, limit: u64) -> Weight {
    match used > limit / 100 * NEARLY {
        true => Weight::Warning,
        false => Weight::Note,
    }
}

fn resource(name: &'static str, limit: LimitValue, used: u64) -> Limit {
    let LimitValue::Value(limit) = limit else {
        return Limit::fine(name, "no limit");
    };
    let value = format!("{} of {}", bytes(used), bytes(limit));
    Limit::new(
        name,
        value,
        weight(used, limit),
        "counts addresses, used or not; malloc fails at the limit",
    )
}

fn group(pid: i32) -> Limit {
    const NAME: &str = "cgroup";
    let Some(group) = cgroup::of(pid) else {
        return Limit::fine(NAME, "not known");
    };
    let Some(limit) = group.limit_bytes else {
        return Limit::fine(NAME, format!("{} used, no limit", bytes(group.used_bytes)));
    };
    let value = format!("{} of {}", bytes(group.used_bytes), bytes(limit));
    Limit::new(
        NAME,
        value,
        weight(group.used_bytes, limit),
        "the kernel kills at the limit; page cache counts, but is given back first",
    )
}

fn maps(used: u64) -> Limit {
    const NAME: &str = "max_map_count";
    let most = line("/proc/sys/vm/max_map_count").and_then(|text| text.parse::<u64>().ok());
    let Some(most) = most else {
        return Limit::fine(NAME, format!("{} areas", count(used)));
    };
    let value = format!("{} areas of {}", count(used), count(most));
    match used > most / 100 * NEARLY {
        true => Limit::new(
            NAME,
            value,
            Weight::Warning,
            "mmap and munmap fail at the limit: raise vm.max_map_count",
        ),
        false => Limit::fine(NAME, value),
    }
}

fn status(pid: i32) -> Vec<Limit> {
    let mut limits = Vec::new();
    if process::is_secure(pid) {
        let meaning = "the loader ignored LD_PRELOAD and the library its variables; link with it, or use malloc_conf";
        limits.push(Limit::new("raised privileges", "yes", Weight::Warning, meaning));
    }
    let Ok(status) = Process::new(pid).and_then(|process| process.status()) else {
        return limits;
    };
    if let Some(locked) = status.vmlck.filter(|locked| *locked > 0) {
        let meaning = "unused pages that are locked (mlock, mlockall) cannot be given back";
        limits.push(Limit::new(
            "locked memory",
            bytes(locked * 1024),
            Weight::Warning,
            meaning,
        ));
    }
    if let Some(swapped) = status.vmswap.filter(|swapped| *swapped > 0) {
        limits.push(Limit::new(
            "swapped",
            bytes(swapped * 1024),
            Weight::Note,
            "not resident, but used",
        ));
    }
    if status.seccomp == Some(2) {
        let meaning = "a filter decides about system calls; where it forbids rseq, front:cpu falls back to threads";
        limits.push(Limit::new("seccomp", "filtered", Weight::Note, meaning));
    }
    if status.tracerpid != 0 && status.tracerpid != std::process::id() as i32 {
        let value = format!("by process {}", status.tracerpid);
        limits.push(Limit::new(
            "traced",
            value,
            Weight::Note,
            "a debugger may slow it down or hold it",
        ));
    }
    limits
}

/// What LD_PRELOAD of the process names of vmag; None: nothing.
pub fn asked_to_preload(pid: i32) -> Option<String> {
    let value = process::environment(pid).remove(OsStr::new("LD_PRELOAD"))?;
    let value = value.to_string_lossy().into_owned();
    let named = value.split([':', ' ']).find(|name| name.contains("libvmag"));
    named.map(str::to_string)
}
