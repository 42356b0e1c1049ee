//! Children: how they start, what became of them, what the kernel counted for them.
//! SPDX-License-Identifier: BSD-2-Clause

use super::signals::{Signals, send};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Exited(i32),
    Signaled(i32),
}

/// What the kernel counted for a process and the descendants it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// Of the largest single process.
    pub peak_resident_bytes: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

pub enum Change {
    None,
    Stopped(i32),
    Ended(Status, Usage),
}

/// Signals that whoever started us may have wanted ignored, in the command too.
///
/// Rust ignores SIGPIPE before `main` and gives children the default action, and we ask for other actions ourselves; a service that was to
/// ignore it would be killed by its first client that hangs up.
const INHERITED: [i32; 4] = [libc::SIGPIPE, libc::SIGCHLD, libc::SIGINT, libc::SIGQUIT];
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Runs before the standard library's own beginning.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_IGNORED: extern "C" fn() = note_ignored;

extern "C" fn note_ignored() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    for signal in INHERITED {
        // SAFETY: only asks, into memory that is valid for the call; zeroed is the default action.
        let handler = unsafe {
            libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
            action.assume_init_ref().sa_sigaction
        };
        if handler == libc::SIG_IGN {
            IGNORED.fetch_or(1 << signal, Ordering::Relaxed);
        }
    }
}

/// Makes this process, between fork and exec, ignore what was ignored when the tool was started.
pub(super) fn ignore_as_at_the_start() {
    for signal in INHERITED {
        let ignored = IGNORED.load(Ordering::Relaxed) & 1 << signal != 0;
        // SAFETY: no handler is involved.
        unsafe { libc::signal(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL }) };
    }
}

/// Makes the command's process start with this signal mask and with what was ignored at our start, and die when we are killed.
///
/// It also makes the standard library use fork, not vfork: the peak that wait4 reports then starts from what we hold at
/// the fork (see `give_memory_back`), not from our own peak.
pub fn prepare_child(command: &mut Command, mask: Signals) {
    // SAFETY: the closure only makes async-signal-safe calls.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            mask.become_mask();
            ignore_as_at_the_start();
            Ok(())
        });
    }
}

/// Gives the kernel what we have freed: at exec the peak of a command starts from what its forked process had of our memory,
/// and large symbol tables may have been read before.
pub fn give_memory_back() {
    // SAFETY: no memory in use is involved.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Lets the command's process run only on these processors; all, when there are none.
pub fn pin_child(command: &mut Command, cpus: &[usize]) {
    if cpus.is_empty() {
        return;
    }
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: an all-zero set is empty; CPU_SET checks the number; the closure only makes a system call.
    unsafe {
        for cpu in cpus {
            libc::CPU_SET(*cpu, set.assume_init_mut());
        }
        let set = set.assume_init();
        command.pre_exec(move || match libc::sched_setaffinity(0, size_of_val(&set), &set) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
}

/// Without this an inherited "ignore" would make children vanish before we can wait for them.
pub fn keep_children_until_waited() {
    // SAFETY: restores the default action, no handler is involved.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// From here on what our children leave behind becomes our child, too.
pub fn adopt_orphans() {
    // SAFETY: no memory is involved.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Those that were not waited for yet; none where the kernel does not tell.
pub fn children() -> Vec<i32> {
    let list = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// What has become of a child; returns at once.
pub fn poll_child(pid: i32) -> io::Result<Change> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for the call.
    let found = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG | libc::WUNTRACED, usage.as_mut_ptr()) };
    match found {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Change::None),
        _ if libc::WIFSTOPPED(status) => Ok(Change::Stopped(libc::WSTOPSIG(status))),
        _ => {
            // SAFETY: zeroed at first and filled by the successful call.
            let usage = unsafe { usage.assume_init() };
            Ok(Change::Ended(Status::from_wait(status), Usage::from_kernel(&usage)))
        }
    }
}

impl Status {
    pub(super) fn from_wait(status: i32) -> Status {
        match libc::WIFSIGNALED(status) {
            true => Status::Signaled(libc::WTERMSIG(status)),
            false => Status::Exited(libc::WEXITSTATUS(status)),
        }
    }
}

impl Usage {
    fn from_kernel(usage: &libc::rusage) -> Usage {
        let duration = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            peak_resident_bytes: usage.ru_maxrss as u64 * 1024,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
        }
    }
}

/// Forks a process that only holds signals back and waits to be killed; it dies with us.
pub fn fork_idle() -> io::Result<i32> {
    // SAFETY: the tool has one thread, and the child calls nothing but system calls.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => idle(),
        pid => Ok(pid),
    }
}

fn idle() -> ! {
    // SAFETY: only system calls; the standard streams are closed so that no pipe is kept open by us.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        for stream in 0..3 {
            libc::close(stream);
        }
        loop {
            libc::pause();
        }
    }
}

/// Of the running kernel.
pub fn page_bytes() -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// Kills a child of ours and takes it out of the process table.
pub fn kill_and_reap(pid: i32) {
    send(pid, libc::SIGKILL);
    // SAFETY: a NULL status is allowed.
    unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
}

pub fn process_group_of(pid: i32) -> i32 {
    // SAFETY: no memory is involved; 0 means our own process.
    unsafe { libc::getpgid(pid) }
}

/// Are we in the foreground of the terminal?
pub fn in_foreground() -> bool {
    // SAFETY: the path is a C string; the descriptor is ours alone.
    unsafe {
        let terminal = libc::open(c"/dev/tty".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if terminal < 0 {
            return false;
        }
        let foreground = libc::tcgetpgrp(terminal);
        libc::close(terminal);
        foreground == libc::getpgrp()
    }
}
