//! `vmag compare` from outside.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{bare_vmag, library, program, stderr, stdout};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// Compares a shell script on the C library's malloc and on a small one of ours.
fn compare(options: &[&str], script: &str) -> Output {
    let mut command = bare_vmag();
    command.arg("compare").arg("--lib").arg(library());
    command
        .arg("--with")
        .arg(format!("bump={}", program("bump.so").display()));
    if !options.contains(&"--only") {
        command.args(["--only", "bump"]);
    }
    command.args(options);
    command.args(["--", "sh", "-c", script]).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stderr).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn shows_ratios_intervals_and_which_malloc_ran() {
    let output = compare(&["--rounds", "5"], "echo heard; sleep 0.05");
    let text = stderr(&output);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(0), ""),
        "{text}"
    );
    for word in [
        "5 rounds",
        "wall time",
        "user + system",
        "peak resident",
        "minor faults",
        "× glibc",
        "95 %",
        "narrow",
        "bump: malloc was bound to",
        "bump.so, mapped in 5 of 5 runs looked at",
        "libc.so.6",
    ] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
}

#[test]
fn json_keeps_every_round_and_its_intervals() {
    let output = compare(&["--rounds", "5", "--json"], "sleep 0.03");
    let json = json(&output);
    assert_eq!(
        (&json["format"], &json["base"]),
        (&"vmag-compare-2".into(), &"glibc".into())
    );
    assert_eq!(json["rounds"], 5);
    let sides = json["allocators"].as_array().unwrap();
    assert_eq!(sides.len(), 2);
    for side in sides {
        let wall = &side["figures"]["wall_seconds"];
        assert_eq!(wall["all"].as_array().unwrap().len(), 5);
        let [low, mean, high] = ["low", "mean", "high"].map(|key| wall["mean"][key].as_f64().unwrap());
        assert!(0.03 <= low && low <= mean && mean <= high, "{wall}");
    }
    assert_eq!(sides[0]["figures"]["wall_seconds"]["ratio"], Value::Null);
    assert!(sides[1]["figures"]["wall_seconds"]["ratio"]["mean"].as_f64().unwrap() > 0.0);
    assert!(sides[1]["malloc_from"].as_str().unwrap().ends_with("bump.so"));
    assert!(sides[0]["malloc_from"].as_str().unwrap().contains("libc.so"));
}

/// Faults, which no noise of the machine disturbs: those of nine more processes.
#[test]
fn a_difference_is_seen() {
    let script = "case $LD_PRELOAD in *bump*) for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done;; esac; :";
    let json = json(&compare(&["--rounds", "6", "--json"], script));
    let ratio = &json["allocators"][1]["figures"]["minor_faults"]["ratio"];
    assert!(ratio["low"].as_f64().unwrap() > 2.0, "{ratio}");
    assert!(ratio["high"].as_f64().unwrap() < 20.0, "{ratio}");
}

#[test]
fn rounds_go_on_until_the_ratio_is_known_or_no_more_are_allowed() {
    let steady = json(&compare(&["--figure", "peak", "--precision", "50", "--json"], ":"));
    assert_eq!(
        (&steady["narrow"], &steady["rounds"]),
        (&true.into(), &5.into()),
        "{steady}"
    );
    let output = compare(&["--precision", "0.000001", "--most", "6"], "sleep 0.01");
    let text = stderr(&output);
    assert!(text.contains("6 rounds") && text.contains("NOT narrow"), "{text}");
}

#[test]
fn one_round_is_not_several() {
    let text = stderr(&compare(&["--rounds", "1"], ":"));
    assert!(
        text.contains("1 round by turns") && text.contains("after 1 round:"),
        "{text}"
    );
}

#[test]
fn allocators_take_turns_at_going_first() {
    let script = "case $LD_PRELOAD in *bump*) echo bump;; *) echo own;; esac";
    let output = compare(&["--rounds", "8", "--show-output", "--quiet"], script);
    let output = stdout(&output);
    let runs: Vec<&str> = output.lines().collect();
    assert_eq!(runs[..2], ["own", "bump"]);
    let rounds: Vec<&[&str]> = runs[2..].chunks(2).collect();
    assert_eq!(rounds.len(), 8);
    assert!(rounds.iter().all(|round| round[0] != round[1]));
    assert!(rounds.chunks(2).all(|pair| pair[0][0] != pair[1][0]), "{output}");
}

#[test]
fn what_did_not_run_is_left_out() {
    let silent = format!("silent={}", program("silent.so").display());
    let output = compare(&["--with", &silent, "--only", "bump,silent", "--rounds", "1"], ":");
    assert!(
        stderr(&output).contains("left out: silent: malloc came from"),
        "{}",
        stderr(&output)
    );
    let output = compare(&["--with", &silent, "--only", "silent", "--rounds", "1"], ":");
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("no other allocator could be compared"),
        "{}",
        stderr(&output)
    );
    let output = compare(&["--rounds", "1"], "case $LD_PRELOAD in *bump*) exit 3;; esac");
    assert!(
        stderr(&output).contains("bump: the program ended with exit status 3"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_was_never_in_memory_is_left_out() {
    let output = compare(&["--rounds", "1"], "exec env -i sleep 2");
    assert_eq!(output.status.code(), Some(125));
    let text = stderr(&output);
    assert!(text.contains("never in the memory of the command's process"), "{text}");
}

#[test]
fn processes_with_another_malloc_are_counted() {
    let output = compare(&["--rounds", "1", "--json"], "LD_PRELOAD= sh -c :; :");
    let json = json(&output);
    let counts = |side: usize| ["processes", "processes_elsewhere"].map(|key| json["allocators"][side][key].clone());
    assert_eq!(counts(0), [2, 0]);
    assert_eq!(counts(1), [2, 1]);
}

#[test]
fn the_base_is_what_it_was_bound_to() {
    let bump = program("bump.so");
    let run = |preloaded: &std::path::Path| {
        let mut command = bare_vmag();
        command
            .env("LD_PRELOAD", preloaded)
            .args(["compare", "--rounds", "1", "--json", "--only", "vmag", "--lib"]);
        command.arg(library()).args(["--", "sh", "-c", ":"]).output().unwrap()
    };
    assert_eq!(json(&run(&bump))["base"], "bump.so");
    // Ours under the name of another is taken out, as ours.
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("libjemalloc.so.2");
    std::os::unix::fs::symlink(library(), &link).unwrap();
    assert_eq!(json(&run(&link))["base"], "glibc");
}

#[test]
fn what_runs_on_after_the_command_is_ended() {
    let begin = std::time::Instant::now();
    let json = json(&compare(&["--rounds", "1", "--json"], "sleep 1000 & :"));
    assert_eq!(json["allocators"][0]["processes_ended"], 2);
    assert!(begin.elapsed().as_secs() < 100);
}

#[test]
fn a_library_that_changes_is_no_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.so");
    crate::support::copy_file(&program("bump.so"), &copy);
    let with = format!("copy={}", copy.display());
    let output = compare(
        &["--with", &with, "--only", "copy", "--rounds", "5"],
        &format!("touch {}", copy.display()),
    );
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("copy.so changed while it was compared"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_common_exit_status_is_passed_on() {
    assert_eq!(compare(&["--rounds", "1"], "exit 3").status.code(), Some(3));
}

#[test]
fn runs_that_end_differently_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {} && echo x >>runs && test $(wc -l <runs) -lt 4",
        folder.path().display()
    );
    let output = compare(&["--rounds", "5"], &script);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("did not end alike"), "{}", stderr(&output));
}

#[test]
fn a_deadly_signal_stops_the_comparison() {
    let output = compare(&[], "kill -TERM $$");
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    assert!(stderr(&output).contains("stopped before"));
}

#[test]
fn every_run_reads_the_input_and_stays_on_its_processor() {
    let input = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(input.path(), "line\n").unwrap();
    let path = input.path().to_str().unwrap();
    let script = "cat; grep Cpus_allowed_list /proc/self/status";
    let cpu = first_cpu();
    let options = [
        "--rounds",
        "1",
        "--show-output",
        "--quiet",
        "--input",
        path,
        "--cpus",
        &cpu,
    ];
    let expected = format!("line\nCpus_allowed_list:\t{cpu}\n").repeat(4);
    assert_eq!(stdout(&compare(&options, script)), expected);
}

/// Of those that this process may run on.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
    list.unwrap().split(['-', ',']).next().unwrap().to_string()
}

#[test]
fn the_page_has_a_picture_of_every_figure() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = compare(
        &["--rounds", "5", "--html", file.path().to_str().unwrap()],
        "sleep 0.01",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(
        page.matches("<circle").count() >= 15 && page.contains("bump") && !page.contains("NaN"),
        "{page}"
    );
}

#[test]
fn names_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join(std::ffi::OsStr::from_bytes(b"program\xff"));
    crate::support::copy_file(&program("plain"), &own);
    let mut command = bare_vmag();
    command.args(["compare", "--only", "vmag", "--rounds", "1", "--json", "--lib"]);
    let json = json(&command.arg(library()).arg("--").arg(&own).output().unwrap());
    assert!(json["program"].as_str().unwrap().ends_with("program\u{fffd}"), "{json}");
}

#[test]
fn files_are_written_at_the_end_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (json, html) = (folder.path().join("j"), folder.path().join("h"));
    std::fs::write(&json, "old").unwrap();
    let (to_json, to_html) = (
        format!("--json={}", json.display()),
        format!("--html={}", html.display()),
    );
    let run = |options: &[&str], script: &str| compare(&[options, &["--rounds", "1", "--quiet"]].concat(), script);
    // A failure leaves all as it was.
    assert_eq!(run(&[&to_json, &to_html], "kill -TERM $$").status.code(), None);
    assert_eq!(std::fs::read(&json).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    // One that cannot be written does not take the other along.
    let output = run(&["--json=/dev/full", &to_html], ":");
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("cannot write /dev/full"),
        "{}",
        stderr(&output)
    );
    assert!(std::fs::read_to_string(&html).unwrap().contains("</html>"));
    assert_eq!(run(&[&to_json], ":").status.code(), Some(0));
    assert!(std::fs::read_to_string(&json).unwrap().starts_with('{'));
    let output = run(&["--json=/dev/stdout"], ":");
    assert!(stdout(&output).starts_with('{'), "{}", stderr(&output));
    // What cannot be written at all is told before the runs.
    let output = run(&["--json=/nowhere/j", "--show-output"], "echo ran");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""));
}

#[test]
fn errors_say_what_to_do() {
    for (options, word) in [
        (&["--only", "none"][..], "there is no allocator named none"),
        (&["--with", "x=/nowhere/x.so"], "there is no library /nowhere/x.so"),
        (&["--precision=-1"], "give per cent"),
        (&["--precision", "NaN"], "give per cent"),
        (&["--base", "none"], "there is no allocator named none"),
        (&["--input", "/nowhere/input"], "cannot read /nowhere/input"),
    ] {
        let output = compare(options, ":");
        assert_eq!(output.status.code(), Some(125), "{options:?}");
        let text = stderr(&output);
        assert!(text.contains(word) && text.contains("what to do"), "{text}");
    }
    let output = bare_vmag()
        .args(["compare", "--lib"])
        .arg(library())
        .arg("--")
        .arg(program("static"))
        .output();
    assert!(stderr(&output.unwrap()).contains("statically linked"));
}

#[test]
fn help_has_examples() {
    let output = bare_vmag().args(["compare", "--help"]).output().unwrap();
    assert!(stdout(&output).contains("vmag compare --only vmag,jemalloc"));
}
