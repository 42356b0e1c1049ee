//! A child that is held for a moment at its end, when all is still there, so that it can be looked at (ptrace).
//! SPDX-License-Identifier: BSD-2-Clause

use super::Status;
use super::processes::ignore_as_at_the_start;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

/// Runs the command to its end, and calls `look` with its process before that ends. A process killed by SIGKILL
/// ends without being looked at. Signals of the terminal are left to the command.
pub fn run_until_exit(command: &mut Command, look: &mut dyn FnMut(i32)) -> io::Result<Status> {
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            ignore_as_at_the_start();
            match libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null_mut::<u8>(), ptr::null_mut::<u8>()) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: no handler is involved.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let pid = command.spawn()?.id() as i32;
    let mut is_started = false;
    loop {
        let status = wait(pid)?;
        if !libc::WIFSTOPPED(status) {
            return Ok(Status::from_wait(status));
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if !is_started {
            // The stop of exec itself.
            is_started = true;
            let options = libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
            request(libc::PTRACE_SETOPTIONS, pid, options as usize);
            request(libc::PTRACE_CONT, pid, 0);
        } else if event == libc::PTRACE_EVENT_EXIT {
            look(pid);
            request(libc::PTRACE_DETACH, pid, 0);
        } else if event != 0 {
            // Another program by exec.
            request(libc::PTRACE_CONT, pid, 0);
        } else {
            request(libc::PTRACE_CONT, pid, signal as usize);
        }
    }
}

fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: the pointer is valid for the call.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == pid {
            return Ok(status);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A child that has ended meanwhile is no error: the next wait tells.
fn request(request: libc::c_uint, pid: i32, data: usize) {
    // SAFETY: these requests take numbers only.
    unsafe { libc::ptrace(request, pid, 0usize, data) };
}
