//! What can be asked of a running process: to switch its profile or its event trace.
//!
//! The request is written into the process's memory (include/vmag/format.h, struct vmag_request) and found there by whoever
//! comes by in the allocator's slow paths; no signal, no thread.
//! SPDX-License-Identifier: BSD-2-Clause

use super::Process;
use crate::error::{Result, ToolError};
use crate::explain::memory::Memory;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Mean bytes between two samples, a power of two; 0: as before.
    ProfileOn {
        sample_bytes: u64,
    },
    ProfileOff,
    /// A trace into files whose names begin so, of at most so many bytes; then the oldest events are overwritten, or it ends.
    TraceOn {
        prefix: String,
        most_bytes: u64,
        ring: bool,
        stacks: bool,
    },
    TraceOff,
    /// One of libumem's reports, as VMAG_UMEM_REPORT asks for it: REQUEST[,json],PATH.
    Report {
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// Nobody came by yet; it will be obeyed when somebody does.
    Waiting,
}

const HEAD_BYTES: usize = 8;
const ANSWERED_AT: u64 = 4;
const PATH_BYTES: usize = 256;
const LOOK_EVERY: Duration = Duration::from_millis(5);

impl Process {
    /// Asks, and waits that long for the answer.
    pub fn ask(&self, ask: &Ask, patience: Duration) -> Result<Answer> {
        let address = self.profile_root()?.request;
        // The process may be another one by now, or run another program, even one with more rights, while somebody keeps the memory alive that was
        // read: it is written only into memory that itself has the root, and through the handle that told so.
        let memory = Memory::open_for_writing(self.pid).map_err(|error| cannot_ask(self.pid, error.to_string()))?;
        if !self.root.is_in(&memory) {
            return Err(self.ended());
        }
        let word = |at: u64| memory.u32(address.wrapping_add(at)).ok_or_else(|| self.ended());
        let start = Instant::now();
        while word(0)? != word(ANSWERED_AT)? {
            if start.elapsed() >= patience {
                return Err(self.asked_already());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let number = word(ANSWERED_AT)?.wrapping_add(1);
        let written = memory
            .write(address.wrapping_add(HEAD_BYTES as u64), &bytes_of(ask)?)
            .and_then(|()| memory.write(address, &number.to_ne_bytes()));
        written.map_err(|error| cannot_ask(self.pid, error.to_string()))?;
        loop {
            if word(ANSWERED_AT)? == number {
                let error = memory.u32(address.wrapping_add(12)).unwrap_or(0) as i32;
                return match error {
                    0 => Ok(Answer::Done),
                    error => Err(refused(self.pid, error)),
                };
            }
            if start.elapsed() >= patience {
                return Ok(Answer::Waiting);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Process {
    /// There is room for one request: another in its place would be the end of that.
    fn asked_already(&self) -> ToolError {
        ToolError::new(
            format!("process {} was not asked", self.pid),
            "what it was asked before waits still: it obeys when it next allocates or frees enough, or its background thread looks",
            "ask again then; a process that sleeps or is stopped obeys when it goes on",
        )
    }
}

/// The fields behind `number` and `answered`.
fn bytes_of(ask: &Ask) -> Result<Vec<u8>> {
    let (what, value, flag, path): (u32, u64, u32, &str) = match ask {
        Ask::ProfileOn { sample_bytes } => (1, *sample_bytes, 0, ""),
        Ask::ProfileOff => (2, 0, 0, ""),
        Ask::TraceOn {
            prefix,
            most_bytes,
            ring,
            stacks,
        } => (3, *most_bytes, u32::from(*ring) | u32::from(*stacks) << 1, prefix),
        Ask::TraceOff => (4, 0, 0, ""),
        Ask::Report { text } => (5, 0, 0, text),
    };
    if path.len() >= PATH_BYTES {
        return Err(ToolError::new(
            "cannot ask for that",
            format!("the path has more than {} bytes", PATH_BYTES - 1),
            "give a shorter one",
        ));
    }
    let mut bytes = Vec::new();
    bytes.extend(what.to_ne_bytes());
    bytes.extend(0i32.to_ne_bytes());
    bytes.extend(value.to_ne_bytes());
    bytes.extend(flag.to_ne_bytes());
    bytes.extend(path.as_bytes());
    bytes.resize(bytes.len() - path.len() + PATH_BYTES, 0);
    Ok(bytes)
}

fn cannot_ask(pid: i32, why: String) -> ToolError {
    ToolError::new(
        format!("process {pid} does not do what was asked"),
        why,
        "run this as the same user or as root; the process must not have the option publish:false",
    )
}

/// What the process answered, as the library's numbers of errors.
fn refused(pid: i32, error: i32) -> ToolError {
    let other = std::io::Error::from_raw_os_error(error).to_string();
    let (why, next) = match error {
        libc::EBUSY => (
            "an event trace is on already",
            format!("end it first: `vmag attach --trace off {pid}`"),
        ),
        libc::ENOTSUP => (
            "it was not started with what this is from",
            "start it with UMEM_DEBUG=audit in its environment, and for umem-log with UMEM_LOGGING=transaction, or the log that is wanted"
                .to_string(),
        ),
        libc::ENOSYS => (
            "its library is older than this command",
            "start it anew on a libvmag.so of this version".to_string(),
        ),
        _ => (
            other.as_str(),
            "look at what was asked for: it is the process that does it, by its own rights and where it lives"
                .to_string(),
        ),
    };
    ToolError::new(format!("process {pid} does not do what was asked"), why, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::root;

    #[test]
    fn who_traces_already_is_told_how_to_end_that() {
        let error = refused(7, libc::EBUSY);
        assert!(error.next.contains("vmag attach --trace off 7"), "{error}");
        assert!(refused(7, libc::ENOSPC).why.contains("No space"));
    }

    /// What was read is alive still, but the number is another program's: as after an exec whose old memory somebody keeps.
    #[test]
    fn nothing_is_written_into_another_program() {
        let bytes = [0; 1024];
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process {
            pid: child.id() as i32,
            program: String::new(),
            memory: Memory::open(std::process::id() as i32).unwrap(),
            root: Box::new(root::tests::root_in(&bytes)),
        };
        let asked = process.ask(&Ask::ProfileOff, Duration::ZERO);
        child.kill().unwrap();
        child.wait().unwrap();
        let error = asked.unwrap_err();
        assert!(error.why.contains("runs another program now"), "{error}");
    }
}
