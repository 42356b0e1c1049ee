//! `vmag run --compare` from outside.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{bare_vmag, program, run_shell, stderr, stdout, vmag_run};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;

#[test]
fn shows_both_sides_and_ratios() {
    let output = vmag_run()
        .args(["--compare", "--rounds", "2", "--"])
        .arg(program("plain"))
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(stdout(&output), "");
    for word in [
        "2 rounds",
        "without vmag",
        "on vmag",
        "ratio",
        "wall time",
        "peak resident",
        "minor faults",
    ] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
}

#[test]
fn json_keeps_every_round_of_both_sides() {
    let output = run_shell(&["--compare", "--rounds", "3", "--json"], "sleep 0.05");
    let json: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(json["format"], "vmag-compare-1");
    for side in ["on_vmag", "without_vmag"] {
        let wall = &json[side]["wall_seconds"];
        assert_eq!(wall["all"].as_array().unwrap().len(), 3);
        assert!(wall["minimum"].as_f64() <= wall["median"].as_f64());
        assert!(wall["median"].as_f64() <= wall["maximum"].as_f64());
        assert!(wall["minimum"].as_f64() >= Some(0.05));
    }
    assert!(json["ratio"]["wall_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn one_side_has_the_library_and_the_other_has_not() {
    let script = "test -z \"$LD_PRELOAD\" && echo without || echo with";
    let output = run_shell(&["--compare", "--rounds", "2", "--show-output", "--quiet"], script);
    assert_eq!(stdout(&output), "with\nwithout\nwithout\nwith\n");
}

#[test]
fn the_common_exit_status_is_passed_on() {
    assert_eq!(
        run_shell(&["--compare", "--rounds", "1"], "exit 3").status.code(),
        Some(3)
    );
}

#[test]
fn runs_that_end_differently_are_not_compared() {
    let output = run_shell(&["--compare"], "test -z \"$LD_PRELOAD\"");
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("did not end alike"));
    assert!(!stderr(&output).contains("ratio"));
}

#[test]
fn a_deadly_signal_stops_the_comparison() {
    let output = run_shell(&["--compare"], "kill -TERM $$");
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    assert!(stderr(&output).contains("stopped before"));
}

#[test]
fn a_program_that_does_not_use_vmag_is_not_compared() {
    let mut command = bare_vmag();
    command
        .args(["run", "--compare", "--lib"])
        .arg(program("silent.so"))
        .arg("--")
        .arg(program("plain"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("NOT on vmag"));
}
