//! The system calls that Rust's standard library lacks; the only unsafe code of the tool.
//! SPDX-License-Identifier: BSD-2-Clause

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;
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

/// A signal that arrived, and who sent it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub signal: i32,
    /// From the kernel: a terminal key, a hang-up, a child's end.
    pub from_kernel: bool,
    pub sender: i32,
}

/// A set of signals.
#[derive(Clone, Copy)]
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Every signal except those that tell of the process's own faults, and those that nobody can hold back.
    pub fn relayable() -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigfillset initialises the whole set, sigdelset only clears valid bits of it.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            let mut set = set.assume_init();
            for fault in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGFPE,
                libc::SIGILL,
                libc::SIGTRAP,
                libc::SIGSYS,
            ] {
                libc::sigdelset(&mut set, fault);
            }
            Signals(set)
        }
    }

    fn only(signal: i32) -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the whole set.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let mut set = set.assume_init();
            libc::sigaddset(&mut set, signal);
            Signals(set)
        }
    }

    fn change_mask(&self, how: i32) -> Signals {
        let mut before = MaybeUninit::uninit();
        // SAFETY: both pointers are valid; the call fails only for an unknown `how`.
        unsafe {
            libc::sigprocmask(how, &self.0, before.as_mut_ptr());
            Signals(before.assume_init())
        }
    }

    /// Holds these signals back; returns the mask before.
    pub fn block(&self) -> Signals {
        self.change_mask(libc::SIG_BLOCK)
    }

    /// Makes this set the mask.
    pub fn become_mask(&self) {
        self.change_mask(libc::SIG_SETMASK);
    }

    /// Sleeps until one of these blocked signals arrives, and takes it.
    pub fn wait(&self) -> io::Result<Arrival> {
        self.take(None)
    }

    /// Takes one of these blocked signals that has already arrived.
    pub fn pending(&self) -> Option<Arrival> {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        self.take(Some(at_once)).ok()
    }

    fn take(&self, timeout: Option<libc::timespec>) -> io::Result<Arrival> {
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        loop {
            // SAFETY: the set, the info and the timeout (or NULL: no timeout) outlive the call.
            let signal = unsafe { libc::sigtimedwait(&self.0, info.as_mut_ptr(), timeout) };
            if signal > 0 {
                // SAFETY: the call filled the info; si_pid is valid for every signal sent by a process.
                let (info, sender) = unsafe { (info.assume_init(), info.assume_init().si_pid()) };
                return Ok(Arrival {
                    signal,
                    from_kernel: info.si_code > 0,
                    sender,
                });
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

/// Makes the command's process start with this signal mask, and die when we are killed.
///
/// It also makes the standard library use fork, not vfork: the peak that wait4 reports then starts from the few
/// pages of the forked child, not from our own peak.
pub fn prepare_child(command: &mut Command, mask: Signals) {
    // SAFETY: the closure only makes async-signal-safe calls.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            mask.become_mask();
            Ok(())
        });
    }
}

/// Without this an inherited "ignore" would make children vanish before we can wait for them.
pub fn keep_children_until_waited() {
    // SAFETY: restores the default action, no handler is involved.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
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
    fn from_wait(status: i32) -> Status {
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

pub fn send(pid: i32, signal: i32) {
    // SAFETY: no memory is involved. A process that has just ended is no error: there is nobody left to tell.
    unsafe { libc::kill(pid, signal) };
}

/// Takes a signal's default action on ourselves, although it is blocked; returns if that action does not end us.
pub fn suffer(signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(signal) };
    let before = Signals::only(signal).change_mask(libc::SIG_UNBLOCK);
    before.become_mask();
}

/// Dies of a signal as the child did, so that the shell sees the same; a second core file is not written.
pub fn die_of(signal: i32) -> ! {
    // SAFETY: no memory is involved.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
    }
    suffer(signal);
    std::process::exit(128 + signal)
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

/// "11 (Segmentation fault)"
pub fn signal_name(signal: i32) -> String {
    // SAFETY: the tool has one thread; strsignal's text is copied at once.
    let text = unsafe { CStr::from_ptr(libc::strsignal(signal)) };
    format!("{signal} ({})", text.to_string_lossy())
}

pub fn user_id() -> u32 {
    // SAFETY: never fails, no memory is involved.
    unsafe { libc::getuid() }
}

pub fn group_id() -> u32 {
    // SAFETY: never fails, no memory is involved.
    unsafe { libc::getgid() }
}

pub fn is_executable(path: &Path) -> bool {
    // SAFETY: the path is a C string.
    with_c_path(path, |path| unsafe {
        libc::faccessat(libc::AT_FDCWD, path, libc::X_OK, libc::AT_EACCESS) == 0
    })
}

/// False where set-user-ID bits and file capabilities have no effect: under no_new_privs or on a nosuid mount.
pub fn privileges_can_grow(path: &Path) -> bool {
    // SAFETY: no memory is involved.
    let held_down = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 };
    let mut mount = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is a C string; statvfs fills the zeroed structure or leaves it.
    let flags = with_c_path(path, |path| unsafe {
        libc::statvfs(path, mount.as_mut_ptr());
        mount.assume_init().f_flag
    });
    !held_down && flags & libc::ST_NOSUID == 0
}

pub fn has_file_capabilities(path: &Path) -> bool {
    let attribute = c"security.capability".as_ptr();
    // SAFETY: both names are C strings; a size of 0 only asks for the length.
    with_c_path(path, |path| unsafe {
        libc::getxattr(path, attribute, ptr::null_mut(), 0) > 0
    })
}

fn with_c_path<T>(path: &Path, call: impl FnOnce(*const libc::c_char) -> T) -> T {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    call(path.as_ptr())
}
