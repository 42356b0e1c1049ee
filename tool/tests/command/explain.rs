//! `vmag explain` from outside; what it tells of a heap is tested with the library (tests/ledger/explain.py).
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{bare_vmag, library, program, stderr, stdout};
use serde_json::Value;
use std::process::{Command, Stdio};

/// A process that sleeps until it is dropped.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn start() -> Sleeper {
        let child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        // Until exec is done it is still this test.
        let name = format!("/proc/{}/comm", child.id());
        while std::fs::read_to_string(&name).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        Sleeper(child)
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_without_vmag_is_explained_by_the_kernel() {
    let sleeper = Sleeper::start();
    let output = bare_vmag().args(["explain", &sleeper.id()]).output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        text.starts_with("sleep (process ") && text.contains("without vmag"),
        "{text}"
    );
    assert!(
        text.contains("program and libraries") && text.contains("100.0 %"),
        "{text}"
    );
    assert!(!text.contains("\nheap"), "{text}");
}

#[test]
fn json_goes_to_standard_output_or_to_a_file() {
    let sleeper = Sleeper::start();
    let output = bare_vmag().args(["explain", "--json", &sleeper.id()]).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["format"], &json["on_vmag"]),
        (&"vmag-explain-1".into(), &false.into())
    );
    let rows = json["rows"].as_object().unwrap();
    let sum: u64 = rows.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(json["resident_bytes"], sum);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("explained.json");
    let option = format!("--json={}", file.display());
    let output = bare_vmag().args(["explain", &option, &sleeper.id()]).output().unwrap();
    assert!(stdout(&output).contains("100.0 %"));
    let json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(json["program"], "sleep");
}

#[test]
fn errors_say_what_to_do() {
    let output = bare_vmag().args(["explain", "2147483647"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let text = stderr(&output);
    assert!(
        text.contains("there is no process 2147483647") && text.contains("what to do"),
        "{text}"
    );
    for words in [
        &["explain"][..],
        &["explain", "0"],
        &["explain", "x"],
        &["explain", "1", "--", "true"],
    ] {
        assert_eq!(
            bare_vmag().args(words).output().unwrap().status.code(),
            Some(125),
            "{words:?}"
        );
    }
}

#[test]
fn a_command_that_ends_at_once_is_not_explained_but_its_status_is_passed_on() {
    let mut command = bare_vmag();
    command.args(["explain", "--lib"]).arg(library()).arg("--");
    let output = command.arg(program("plain")).arg("3").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn help_has_examples() {
    let output = bare_vmag().args(["explain", "--help"]).output().unwrap();
    assert!(stdout(&output).contains("vmag explain -- python3"));
}

#[test]
fn what_has_ended_and_what_is_of_the_kernel_is_told() {
    let mut child = Command::new("true").spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z") {
        std::thread::yield_now();
    }
    let is_told = |pid: &str, what: &str| {
        for words in [
            &["doctor", pid][..],
            &["explain", pid],
            &["heap", pid],
            &["attach", pid],
            &["options", "--pid", pid],
        ] {
            let output = bare_vmag().args(words).output().unwrap();
            assert!(stderr(&output).contains(what), "{words:?}: {}", stderr(&output));
        }
    };
    is_told(&child.id().to_string(), "a zombie");
    child.wait().unwrap();
    // In a container there may be none.
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        is_told("2", "a thread of the kernel");
    }
}

#[test]
fn a_process_whose_first_thread_has_ended_is_no_zombie() {
    let mut child = Command::new(program("first-thread-ends")).spawn().unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z") {
        std::thread::yield_now();
    }
    let explain = |number: &str| bare_vmag().args(["explain", number]).output().unwrap();
    let told = stderr(&explain(&child.id().to_string()));
    let other = explain(told.rsplit(' ').next().unwrap().trim());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.contains("its first thread has ended"), "{told}");
    assert!(stdout(&other).contains("program and libraries"), "{}", stderr(&other));
}
