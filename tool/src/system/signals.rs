//! Signals held back, waited for, sent, and taken on ourselves.
//! SPDX-License-Identifier: BSD-2-Clause

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// A signal that arrived, and who sent it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub signal: i32,
    /// From the kernel: a terminal key, a hang-up, a child's end.
    pub from_kernel: bool,
    pub sender: i32,
}

/// Ask a process to end.
pub const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

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

    /// Those that ask a process to end.
    pub fn that_end() -> Signals {
        Signals::of(&ENDING)
    }

    fn of(signals: &[i32]) -> Signals {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the whole set.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            let mut set = set.assume_init();
            for signal in signals {
                libc::sigaddset(&mut set, *signal);
            }
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

    /// The same, but not longer than so; None: no signal arrived.
    pub fn wait_at_most(&self, time: Duration) -> io::Result<Option<Arrival>> {
        let time = libc::timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        match self.take(Some(time)) {
            Ok(arrival) => Ok(Some(arrival)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
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

pub fn send(pid: i32, signal: i32) {
    // SAFETY: no memory is involved. A process that has just ended is no error: there is nobody left to tell.
    unsafe { libc::kill(pid, signal) };
}

/// Takes a signal's default action on ourselves, although it is blocked; returns if that action does not end us.
pub fn suffer(signal: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::raise(signal) };
    let before = Signals::of(&[signal]).change_mask(libc::SIG_UNBLOCK);
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

/// "11 (Segmentation fault)"
pub fn signal_name(signal: i32) -> String {
    // SAFETY: the tool has one thread; strsignal's text is copied at once.
    let text = unsafe { CStr::from_ptr(libc::strsignal(signal)) };
    format!("{signal} ({})", text.to_string_lossy())
}
