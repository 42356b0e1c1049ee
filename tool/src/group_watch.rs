//! Tells whether a signal was sent to us alone or to our whole process group.
//!
//! The kernel does not say it, and it decides whether the child has the signal already: `kill %1` in a shell sends
//! to the group, `kill PID` to us. So an idle process of our group holds every signal back; a signal that is
//! pending there too went to the group. The idle process is younger than we are, and the kernel serves the younger
//! members of a group first, so its signal is pending by the time ours arrives.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::system;
use std::fs;
use std::io;

pub struct GroupWatch {
    idle: i32,
}

impl GroupWatch {
    /// To be called with all signals blocked.
    pub fn start() -> io::Result<GroupWatch> {
        Ok(GroupWatch {
            idle: system::fork_idle()?,
        })
    }

    pub fn is(&self, pid: i32) -> bool {
        pid == self.idle
    }

    /// Did this signal, which has just reached us, go to the whole group?
    pub fn saw(&mut self, signal: i32) -> io::Result<bool> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.idle)).unwrap_or_default();
        if !is_pending(&status, signal) {
            return Ok(false);
        }
        let used = std::mem::replace(&mut self.idle, system::fork_idle()?);
        system::kill_and_reap(used);
        Ok(true)
    }
}

impl Drop for GroupWatch {
    fn drop(&mut self) {
        system::kill_and_reap(self.idle);
    }
}

fn is_pending(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_pending_mask() {
        let status = "Name:\tvmag\nSigPnd:\t0000000000000001\nShdPnd:\t0000000000004002\nSigBlk:\tffff\n";
        assert!(is_pending(status, libc::SIGINT));
        assert!(is_pending(status, libc::SIGTERM));
        assert!(!is_pending(status, libc::SIGHUP));
        assert!(!is_pending("", libc::SIGINT));
    }
}
