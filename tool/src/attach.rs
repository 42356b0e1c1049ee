//! A process that runs on vmag, looked into from outside: its counters, its heap profile, and what is asked of it.
//!
//! ```text
//! let process = Process::attach(pid)?;      // a ToolError says why not: no such process, not on vmag, not permitted, …
//! let counters = process.counters()?;       // Counters: sums, by arena, by size class, at this moment
//! let profile = process.profile()?;         // profile::Profile, as of a file
//! process.ask(&Ask::ProfileOn { sample_bytes: 512 << 10 }, Duration::from_secs(5))?;
//! ```
//!
//! All is read from /proc/PID/mem at the addresses that the library's root tells (include/vmag/format.h): no signal, no
//! tracing, nothing runs or stops there, so a stopped or deadlocked process is read like any other. Reading again costs some
//! dozens of system calls an arena and thread; attach once and call `counters` as often as wanted. When the process ends,
//! the calls fail.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod counters;
mod coverage;
mod profile;
mod request;
mod unreachable;

pub use counters::{ArenaCounters, CacheCounters, ClassCounters, Counters};
pub use coverage::Then;
pub use profile::NumberedProfile;
pub use request::{Answer, Ask};

use crate::error::{Result, ToolError};
use crate::explain::areas;
use crate::explain::memory::Memory;
use crate::explain::root::{self, CounterRoot, Found, ProfileRoot, Root};
use crate::process;

pub struct Process {
    pub pid: i32,
    pub program: String,
    memory: Memory,
    root: Box<Root>,
}

impl Process {
    pub fn attach(pid: i32) -> Result<Process> {
        let areas = areas::read_maps(pid).map_err(|error| process::cannot_look(pid, &error))?;
        let found = root::find(pid, &areas);
        if !matches!(found, Found::Root(_)) {
            areas::check_there(pid, &areas)?;
        }
        let root = match found {
            Found::Root(root) => root,
            Found::Nothing => return Err(not_on_vmag(pid)),
            Found::Unreadable(why) => return Err(unreadable(pid, &why)),
            Found::Unknown(why) => return Err(unreadable(pid, &may_be_on_vmag(&why))),
        };
        let process = Process {
            pid,
            program: process::name(pid),
            memory: Memory::open(pid).map_err(|error| process::cannot_look(pid, &error))?,
            root,
        };
        match process.root.is_in(&process.memory) {
            true => process.check(),
            false => Err(process.ended()),
        }
    }

    pub fn library_version(&self) -> &str {
        &self.root.library_version
    }

    /// Whether the process samples now, and the mean bytes between two samples.
    pub fn sampling(&self) -> Option<(bool, u64)> {
        let root = self.profile_root().ok()?;
        let byte = |address| self.memory.bytes(address, 1).map(|bytes| bytes[0]);
        Some((byte(root.active)? != 0, 1u64.checked_shl(byte(root.lg_sample)?.into())?))
    }

    /// Whether names of files mean something else to it than to us, as in a container.
    pub fn lives_elsewhere(&self) -> bool {
        lives_elsewhere(self.pid)
    }

    /// What stands before the names of its files where they mean something else to us; else nothing.
    pub fn root_of_names(&self) -> String {
        match self.lives_elsewhere() {
            true => format!("/proc/{}/root", self.pid),
            false => String::new(),
        }
    }

    /// The number that it has itself, as in a container.
    pub fn own_number(&self) -> i32 {
        process::own_number(self.pid).unwrap_or(self.pid)
    }

    fn check(self) -> Result<Process> {
        let publish = self.counter_root()?.publish;
        match self.memory.bytes(publish, 1) {
            Some(byte) if byte[0] == 0 => Err(unreadable(self.pid, "it was started with the option publish:false")),
            _ => Ok(self),
        }
    }

    fn counter_root(&self) -> Result<&CounterRoot> {
        self.root.counters.as_ref().ok_or_else(|| self.older())
    }

    fn profile_root(&self) -> Result<&ProfileRoot> {
        self.root.profile.as_ref().ok_or_else(|| self.older())
    }

    fn older(&self) -> ToolError {
        let version = self.library_version();
        unreadable(
            self.pid,
            &format!("its library (version {version}) is older than this command"),
        )
    }

    /// Whether its memory can be read still. If not, what was read before need not be all: what cannot be read is passed over as torn.
    fn is_there(&self) -> bool {
        self.root.is_in(&self.memory)
    }

    fn ended(&self) -> ToolError {
        match areas::read_maps(self.pid) {
            Err(error) => process::cannot_look(self.pid, &error),
            Ok(_) => ToolError::new(
                format!("cannot attach to process {}", self.pid),
                "its memory is gone: it ended, or runs another program now",
                "`vmag explain` tells what the kernel knows of it",
            ),
        }
    }
}

/// Whether names of files may mean something else to it than to us.
pub fn lives_elsewhere(pid: i32) -> bool {
    let link = |pid: &str, name| std::fs::read_link(format!("/proc/{pid}/{name}")).ok();
    ["ns/mnt", "root"]
        .into_iter()
        .any(|name| link(&pid.to_string(), name) != link("self", name))
}

fn not_on_vmag(pid: i32) -> ToolError {
    ToolError::new(
        format!("cannot attach to process {pid}"),
        "it does not run on vmag",
        "start it by `vmag run -- CMD`, or with LD_PRELOAD=libvmag.so",
    )
}

/// Where a file is gone that may be the library's.
pub fn may_be_on_vmag(why: &str) -> String {
    format!("whether it runs on vmag cannot be told: {why}")
}

fn unreadable(pid: i32, why: &str) -> ToolError {
    ToolError::new(format!("cannot attach to process {pid}"), why, what_to_do(why))
}

/// Where the library is there, or may be, and does not tell of itself.
pub fn what_to_do(why: &str) -> &'static str {
    if why.contains("cannot be read") && ptrace_is_restricted() {
        "the kernel keeps processes from looking into each other (kernel.yama.ptrace_scope): run this as root, or start \
         the process with the option attach_any:true, or with a black_box"
    } else if why.contains("cannot be read") {
        "run this as the same user, or as root"
    } else {
        "`vmag explain` tells what the kernel knows of it"
    }
}

fn ptrace_is_restricted() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    scope.is_ok_and(|scope| scope.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_vmag_is_told() {
        let error = Process::attach(std::process::id() as i32).err().unwrap();
        assert!(error.why.contains("does not run on vmag"), "{error}");
        let error = Process::attach(i32::MAX).err().unwrap();
        assert!(error.why.contains("there is no process"), "{error}");
    }
}
