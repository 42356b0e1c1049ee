//! Signals under `vmag run`: each reaches the program once, stops stop the job, and nobody survives a kill.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{program, send, start_until_ready, stdout, vmag_run};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_signal_to_us_alone_reaches_the_program_once() {
    for signal in [
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGWINCH,
    ] {
        assert_eq!(count_after(signal, |pid| pid), format!("1 of signal {signal}\n"));
    }
}

#[test]
fn a_signal_to_the_group_reaches_the_program_once() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGUSR1] {
        assert_eq!(count_after(signal, |pid| -pid), format!("1 of signal {signal}\n"));
    }
}

#[test]
fn a_second_signal_to_the_group_is_not_doubled_either() {
    let child = start_until_ready(vmag_run().arg("--").arg(program("count-signals")));
    for _ in 0..3 {
        send(-(child.id() as i32), libc::SIGTERM);
        std::thread::sleep(Duration::from_millis(100));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), format!("3 of signal {}\n", libc::SIGTERM));
}

/// A service ignores SIGPIPE, and must not be killed by its first client that hangs up.
#[test]
fn what_was_ignored_stays_ignored_and_nothing_else() {
    for signals in ["", "PIPE", "CHLD INT QUIT PIPE"] {
        let script = "grep ^SigIgn /proc/self/status";
        let mut by_itself = Command::new("sh");
        let trap = format!("for s in {signals}; do trap '' $s; done; exec \"$@\"");
        by_itself.args(["-c", &trap, "sh", "sh", "-c", script]);
        let mut with_us = Command::new("sh");
        let vmag = vmag_run();
        with_us
            .args(["-c", &trap, "sh"])
            .arg(vmag.get_program())
            .args(vmag.get_args())
            .args(["--", "sh", "-c", script]);
        for name in ["LD_PRELOAD", "VMAG_REPORT", "VMAG_LIB"] {
            with_us.env_remove(name);
        }
        assert_eq!(
            stdout(&with_us.output().unwrap()),
            stdout(&by_itself.output().unwrap()),
            "{signals}"
        );
    }
}

#[test]
fn a_program_that_dies_of_a_passed_on_signal_shows_it() {
    let child = start_until_ready(vmag_run().args(["--", "sh", "-c", "echo; exec sleep 20"]));
    send(child.id() as i32, libc::SIGTERM);
    assert_eq!(child.wait_with_output().unwrap().status.signal(), Some(libc::SIGTERM));
}

#[test]
fn a_stopped_program_stops_us_and_goes_on_with_us() {
    let child = start_until_ready(vmag_run().args(["--", "sh", "-c", "echo; kill -TSTP $$; exit 5"]));
    let pid = child.id() as i32;
    assert_eq!(wait_for_stop(pid), libc::SIGTSTP);
    send(-pid, libc::SIGCONT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(5));
}

#[test]
fn a_stop_is_no_time_of_the_program() {
    let child = start_until_ready(vmag_run().args(["--json", "--", "sh", "-c", "echo; kill -TSTP $$; exit 0"]));
    let pid = child.id() as i32;
    wait_for_stop(pid);
    std::thread::sleep(Duration::from_secs(3));
    send(-pid, libc::SIGCONT);
    let output = child.wait_with_output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(json["wall_seconds"].as_f64().unwrap() < 2.5, "{json}");
}

#[test]
fn continuing_us_alone_continues_the_program() {
    let child = start_until_ready(vmag_run().args(["--", "sh", "-c", "echo; kill -TSTP $$; exit 6"]));
    let pid = child.id() as i32;
    wait_for_stop(pid);
    send(pid, libc::SIGCONT);
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(6));
}

#[test]
fn killing_us_kills_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!("echo $$ > {}; echo; exec sleep 20", pid_file.display());
    let mut child = start_until_ready(vmag_run().args(["--", "sh", "-c", &script]));
    let program: i32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(program);
}

#[test]
fn the_program_starts_with_our_own_signal_mask() {
    let output = vmag_run()
        .args(["-q", "--", "grep", "SigBlk", "/proc/self/status"])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "SigBlk:\t0000000000000000\n");
}

/// What the counting program says after one signal to the target made of our pid.
fn count_after(signal: i32, target: fn(i32) -> i32) -> String {
    let child = start_until_ready(vmag_run().arg("--").arg(program("count-signals")));
    send(target(child.id() as i32), signal);
    stdout(&child.wait_with_output().unwrap())
}

fn wait_for_stop(pid: i32) -> i32 {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let mut status = 0;
        // SAFETY: the status is valid for the call.
        let found = unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED | libc::WNOHANG) };
        if found == pid {
            assert!(libc::WIFSTOPPED(status), "ended instead of stopping: {status:#x}");
            return libc::WSTOPSIG(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    send(-pid, libc::SIGKILL);
    panic!("did not stop");
}

fn wait_until_gone(pid: i32) {
    let start = Instant::now();
    let is_alive = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    };
    while is_alive(pid) {
        assert!(start.elapsed() < PATIENCE, "the program outlived us");
        std::thread::sleep(Duration::from_millis(5));
    }
}
