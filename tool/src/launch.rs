//! Runs one command to its end as if we were not there: signals, stops and exit status go through.
//!
//! The child stays in our process group, so the terminal's signals reach it without us. All signals are blocked in
//! this process and taken one by one: what was sent to us alone is sent on, what the child has already is not. When
//! the child stops we stop, so that the shell sees a stopped job.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_TOOL_FAILED, Result, ToolError};
use crate::group_watch::GroupWatch;
use crate::system::{self, Arrival, Change, Signals, Status, Usage};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::{self, Command};
use std::thread;
use std::time::{Duration, Instant};

/// How a command ended and what the kernel counted for it.
#[derive(Debug, Clone)]
pub struct Ended {
    pub pid: i32,
    pub status: Status,
    /// Without the time for which we stopped as it did.
    pub wall: Duration,
    pub usage: Usage,
    /// Somebody asked us to end while the command ran.
    pub interrupted: bool,
}

/// How often somebody wants to look at a command that runs, and how: by its process.
pub type Look<'a> = (Duration, &'a mut dyn FnMut(i32));

const ORPHANS_MAY_LAST: Duration = Duration::from_millis(100);
const ORPHANS_MUST_END: Duration = Duration::from_secs(1);
const ORPHANS_CANNOT_END: Duration = Duration::from_secs(2);

pub struct Launcher {
    signals: Signals,
    mask_before: Signals,
    group: GroupWatch,
    /// Children that no command of ours has left: this process may have had some before it became vmag; and those that do not end.
    let_be: BTreeSet<i32>,
}

impl Launcher {
    /// From here on the process is deaf to signals except in `run`.
    pub fn new() -> Result<Launcher> {
        let signals = Signals::relayable();
        let mask_before = signals.block();
        system::keep_children_until_waited();
        let group = GroupWatch::start().map_err(cannot_fork)?;
        Ok(Launcher {
            signals,
            mask_before,
            group,
            let_be: BTreeSet::new(),
        })
    }

    /// What commands leave running becomes our child, not that of process 1, so that `end_orphans` finds it.
    pub fn adopt_orphans(&mut self) {
        self.let_be.extend(system::children());
        system::adopt_orphans();
    }

    /// Waits a moment for what the last command left running, then ends it; how many were asked to end. As process 1 we have everybody's orphans, and
    /// end none.
    pub fn end_orphans(&mut self) -> u64 {
        let begin = Instant::now();
        let mut asked = BTreeMap::new();
        while process::id() != 1 {
            self.obey_pending();
            let is_running = |pid: &i32| !matches!(system::poll_child(*pid), Ok(Change::Ended(..)) | Err(_));
            let is_orphan = |pid: &i32| !self.group.is(*pid) && !self.let_be.contains(pid);
            let orphans: Vec<i32> = system::children()
                .into_iter()
                .filter(is_orphan)
                .filter(is_running)
                .collect();
            if orphans.is_empty() {
                break;
            }
            for pid in orphans.into_iter().filter(|_| begin.elapsed() > ORPHANS_MAY_LAST) {
                let since = *asked.entry(pid).or_insert_with(|| {
                    system::send(pid, libc::SIGTERM);
                    Instant::now()
                });
                if since.elapsed() > ORPHANS_CANNOT_END {
                    self.let_be.insert(pid);
                } else if since.elapsed() > ORPHANS_MUST_END {
                    system::send(pid, libc::SIGKILL);
                }
            }
            thread::sleep(Duration::from_millis(2));
        }
        asked.len() as u64
    }

    pub fn run(&mut self, command: &mut Command) -> Result<Ended> {
        self.run_and_look(command, None)
    }

    /// Runs the command, and looks at it now and then.
    pub fn run_and_look(&mut self, command: &mut Command, mut look: Option<Look>) -> Result<Ended> {
        self.obey_pending();
        system::prepare_child(command, self.mask_before);
        system::give_memory_back();
        let start = Instant::now();
        let child = command.spawn().map_err(|error| cannot_start(command, &error))?;
        let pid = child.id() as i32;
        self.follow(pid, start, &mut look).map_err(cannot_wait)
    }

    /// A signal to end that came while no command ran is for us.
    fn obey_pending(&self) {
        while let Some(arrival) = self.signals.pending() {
            if asks_to_end(arrival.signal) {
                system::suffer(arrival.signal);
            }
        }
    }

    fn follow(&mut self, child: i32, start: Instant, look: &mut Option<Look>) -> io::Result<Ended> {
        let mut interrupted = false;
        let mut stopped = Duration::ZERO;
        loop {
            let arrival = match look {
                None => self.signals.wait()?,
                Some((time, look)) => match self.signals.wait_at_most(*time)? {
                    Some(arrival) => arrival,
                    None => {
                        look(child);
                        continue;
                    }
                },
            };
            if arrival.signal != libc::SIGCHLD {
                interrupted |= asks_to_end(arrival.signal);
                self.relay(arrival, child)?;
                continue;
            }
            match system::poll_child(child)? {
                Change::Ended(status, usage) => {
                    return Ok(Ended {
                        pid: child,
                        status,
                        wall: start.elapsed().saturating_sub(stopped),
                        usage,
                        interrupted,
                    });
                }
                Change::Stopped(signal) => {
                    let since = Instant::now();
                    stop_likewise(signal);
                    stopped += since.elapsed();
                }
                Change::None => {}
            }
        }
    }

    fn relay(&mut self, arrival: Arrival, child: i32) -> io::Result<()> {
        if arrival.from_kernel || arrival.sender == child {
            return Ok(());
        }
        let went_to_group = self.group.saw(arrival.signal)?;
        let child_in_group = system::process_group_of(child) == system::process_group_of(0);
        if !(went_to_group && child_in_group) {
            system::send(child, arrival.signal);
        }
        Ok(())
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.obey_pending();
        self.mask_before.become_mask();
    }
}

fn asks_to_end(signal: i32) -> bool {
    system::ENDING.contains(&signal)
}

/// SIGSTOP is followed only under a terminal's eyes: a debugger that stops and continues the child alone would
/// otherwise leave us stopped for ever.
fn stop_likewise(signal: i32) {
    let from_job_control = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
    if from_job_control || system::in_foreground() {
        system::suffer(signal);
    }
}

fn cannot_fork(error: io::Error) -> ToolError {
    ToolError::new(
        "cannot start a process",
        error,
        "look at `ulimit -u` and at the machine's free memory",
    )
}

fn cannot_wait(error: io::Error) -> ToolError {
    ToolError::new(
        "lost the command while it ran",
        error,
        "this is a bug of vmag: please report it",
    )
}

fn cannot_start(command: &Command, error: &io::Error) -> ToolError {
    let (exit_code, next) = match error.raw_os_error() {
        Some(libc::ENOENT) => (
            EXIT_NOT_FOUND,
            "its dynamic loader is missing: install it, or build for this system",
        ),
        Some(libc::EINVAL) => (EXIT_TOOL_FAILED, "look whether the processors exist that --cpus names"),
        Some(libc::EAGAIN | libc::ENOMEM) => {
            (EXIT_TOOL_FAILED, "look at `ulimit -u` and at the machine's free memory")
        }
        _ => (
            EXIT_NOT_EXECUTABLE,
            "check that the file is a program for this system and may be executed",
        ),
    };
    let what = format!("cannot execute {}", Path::new(command.get_program()).display());
    ToolError::new(what, error, next).exit_code(exit_code)
}
