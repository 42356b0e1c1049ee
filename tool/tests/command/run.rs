//! `vmag run` from outside: exit status, what it shows, and what it refuses.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{
    bare_vmag, copy_file, library, on_full_disk, program, run_shell, stderr, stdout, vmag_run, write_executable,
};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;

#[test]
fn exit_status_is_the_programs() {
    for code in [0, 1, 3, 255] {
        let output = run_shell(&[], &format!("exit {code}"));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
    }
}

#[test]
fn death_by_signal_is_the_programs() {
    for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGKILL, libc::SIGABRT] {
        let output = run_shell(&[], &format!("kill -{signal} $$"));
        assert_eq!(output.status.signal(), Some(signal), "{}", stderr(&output));
        assert!(stderr(&output).contains(&format!("signal {signal}")));
    }
}

#[test]
fn streams_are_the_programs() {
    let mut command = vmag_run();
    command.args(["--", "sh", "-c", "cat; echo to-stderr >&2"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"in and out").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "in and out");
    assert!(stderr(&output).contains("to-stderr\n"));
}

#[test]
fn shows_time_memory_faults_and_processes() {
    let output = vmag_run().arg("--").arg(program("plain")).output().unwrap();
    let text = stderr(&output);
    for word in [
        "wall",
        "user",
        "system",
        "at the peak",
        "at exit",
        "allocated",
        "metadata",
        "minor",
        "major",
    ] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    assert!(text.contains("processes at least 1 used vmag"), "{text}");
}

#[test]
fn counts_every_process_that_used_vmag() {
    let plain = program("plain");
    let output = run_shell(&["--json"], &format!("{0}; {0}; :", plain.display()));
    assert_eq!(json_of(&output.stderr)["processes_on_vmag"], 3);
}

/// Children of a shell's parentheses are forked and end by `_exit` or a signal, without a line in the report.
#[test]
fn forked_children_that_leave_no_line_make_the_count_a_least_one() {
    let output = run_shell(&[], "(kill -KILL $(exec sh -c 'echo $PPID')); (:); :");
    let text = stderr(&output);
    assert!(text.contains("processes at least "), "{text}");
}

#[test]
fn says_when_the_process_left_no_word_at_its_end() {
    let output = run_shell(&[], "kill -KILL $$");
    assert!(stderr(&output).contains("no word at exit"));
    let text = stderr(&run_shell(&[], "exit")); // dash calls _exit; bash reports
    if text.contains("no word at exit") {
        assert!(text.contains("became another user, who may not write where"), "{text}");
    }
    let output = run_shell(&["--json"], "kill -KILL $$");
    let json = json_of(&output.stderr);
    assert_eq!(json["allocator_at_exit"], Value::Null);
    assert_eq!(json["signal"], libc::SIGKILL);
}

#[test]
fn json_on_stderr_replaces_the_text() {
    let output = vmag_run()
        .arg("--json")
        .arg("--")
        .arg(program("plain"))
        .output()
        .unwrap();
    let json = json_of(&output.stderr);
    assert_eq!(json["format"], "vmag-run-1");
    assert_eq!(json["exit_code"], 0);
    assert_eq!(json["used_vmag"], true);
    assert!(json["wall_seconds"].as_f64().unwrap() > 0.0);
    assert!(json["peak_resident_bytes"].as_u64().unwrap() > 100_000);
    assert!(json["minor_faults"].as_u64().unwrap() > 0);
    assert!(json["allocator_at_exit"]["mapped_bytes"].is_u64());
    assert_eq!(json["command"][0], program("plain").to_str().unwrap());
}

#[test]
fn json_in_a_file_comes_besides_the_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let output = vmag_run()
        .arg("--json")
        .arg(&file)
        .arg("--")
        .arg(program("plain"))
        .output()
        .unwrap();
    assert!(stderr(&output).contains("wall"));
    assert_eq!(json_of(&fs::read(&file).unwrap())["exit_code"], 0);
}

#[test]
fn a_json_file_that_cannot_be_written_fails_before_the_run() {
    let output = vmag_run()
        .arg("--json=/nowhere/run.json")
        .arg("--")
        .arg(program("plain"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(stdout(&output), "");
}

#[test]
fn a_json_file_stays_what_it_was_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    let run = || {
        let mut command = vmag_run();
        command.arg("--json").arg(&path).args(["--", "true", &"x".repeat(8192)]);
        on_full_disk(&mut command, 8192).output().unwrap()
    };
    let files = || fs::read_dir(&folder).unwrap().count();
    let output = run();
    assert!(stderr(&output).contains("cannot write the JSON"), "{}", stderr(&output));
    assert_eq!((output.status.code(), files()), (Some(125), 0));
    fs::write(&path, "of an earlier run").unwrap();
    assert_eq!(run().status.code(), Some(125));
    assert_eq!(
        (fs::read_to_string(&path).unwrap().as_str(), files()),
        ("of an earlier run", 1)
    );
}

#[test]
fn quiet_says_nothing_but_errors() {
    let output = vmag_run()
        .arg("--quiet")
        .arg("--")
        .arg(program("plain"))
        .output()
        .unwrap();
    assert_eq!(
        (stdout(&output).as_str(), stderr(&output).as_str()),
        ("plain ran\n", "")
    );
    let output = vmag_run()
        .arg("--quiet")
        .arg("--")
        .arg(program("static"))
        .output()
        .unwrap();
    assert!(stderr(&output).contains("static"));
}

#[test]
fn a_static_program_is_refused_before_it_starts() {
    for name in ["static", "static-pie"] {
        let output = vmag_run().arg("--").arg(program(name)).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).contains("statically linked"), "{}", stderr(&output));
    }
}

#[test]
fn a_program_for_another_machine_is_refused() {
    const MACHINE_OFFSET: usize = 18;
    const NO_MACHINE: u8 = 0xfd;
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign");
    let mut bytes = fs::read(program("plain")).unwrap();
    bytes[MACHINE_OFFSET] = NO_MACHINE;
    write_executable(&foreign, &bytes);
    let output = vmag_run().arg("--").arg(&foreign).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("the library is for"), "{}", stderr(&output));
}

/// What a script or `env` becomes is not looked at before it runs.
#[test]
fn a_program_with_its_own_malloc_behind_an_exec_is_no_user_of_vmag() {
    let own = program("own-malloc");
    let output = run_shell(&[], &format!("exec {}", own.display()));
    let text = stderr(&output);
    assert!(text.contains("allocator was never asked"), "{text}");
    assert!(!text.contains("0 B allocated"), "{text}");
    let output = run_shell(&[], &format!("exec {}", program("plain").display()));
    assert!(!stderr(&output).contains("never asked"), "{}", stderr(&output));
}

#[test]
fn a_program_with_its_own_malloc_is_refused() {
    let output = vmag_run().arg("--").arg(program("own-malloc")).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("defines malloc itself"), "{}", stderr(&output));
}

#[test]
fn a_setuid_program_is_refused() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("setuid");
    copy_file(&program("plain"), &copy);
    let is_root = vmag_tool::system::user_id() == 0;
    if !is_root || !vmag_tool::system::privileges_can_grow(&copy) {
        eprintln!("not tried: only root, on a mount that honours setuid, can make such a file");
        return;
    }
    std::os::unix::fs::chown(&copy, Some(NOBODY), None).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
    let output = vmag_run().arg("--").arg(&copy).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("setuid"), "{}", stderr(&output));
}

#[test]
fn a_script_stands_for_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    write_executable(&script, b"#!/bin/sh\necho from-script; exit 4\n");
    let output = vmag_run().arg("--").arg(&script).output().unwrap();
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(4), "from-script\n")
    );

    write_executable(&script, format!("#!{}\n", program("static").display()).as_bytes());
    let output = vmag_run().arg("--").arg(&script).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("statically linked"));
}

#[test]
fn a_program_that_did_not_report_does_not_pass_for_success() {
    let run = |code: &str| {
        let mut command = bare_vmag();
        command
            .args(["run", "--lib"])
            .arg(program("silent.so"))
            .arg("--")
            .arg(program("plain"))
            .arg(code);
        command.output().unwrap()
    };
    let output = run("0");
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("NOT on vmag"));
    let output = run("3");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("NOT on vmag"));
}

#[test]
fn not_found_and_not_executable_have_their_own_status() {
    let status = |words: &[&str]| vmag_run().arg("--").args(words).output().unwrap().status.code();
    assert_eq!(status(&["no-such-program-anywhere"]), Some(127));
    assert_eq!(status(&["/no/such/program"]), Some(127));
    assert_eq!(status(&["/etc/passwd"]), Some(126));
    assert_eq!(status(&["/"]), Some(126));
}

#[test]
fn usage_errors_are_the_tools() {
    for words in [
        &["run"][..],
        &["compare", "--rounds", "0", "--", "true"],
        &["run", "true"],
        &["walk"],
    ] {
        let output = bare_vmag().args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}");
    }
    for command in ["run", "compare"] {
        let output = bare_vmag().args([command, "true"]).output().unwrap();
        assert!(
            stderr(&output).contains(&format!("`vmag {command} -- CMD`")),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn a_missing_library_is_said() {
    let output = bare_vmag()
        .args(["run", "--lib", "/nowhere/libvmag.so", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("/nowhere/libvmag.so"));
    let output = bare_vmag()
        .args(["run", "--", "true"])
        .env("VMAG_LIB", "/nowhere/else.so")
        .output()
        .unwrap();
    assert!(stderr(&output).contains("/nowhere/else.so"));
}

#[test]
fn the_environment_may_name_the_library() {
    let output = bare_vmag()
        .args(["run", "--"])
        .arg(program("plain"))
        .env("VMAG_LIB", library())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn the_library_is_found_beside_the_command() {
    let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
    for directory in ["lib", "lib64", &multiarch] {
        let folder = tempfile::tempdir().unwrap();
        let (bin, lib) = (folder.path().join("bin"), folder.path().join(directory));
        fs::create_dir(&bin).unwrap();
        fs::create_dir_all(&lib).unwrap();
        copy_file(Path::new(env!("CARGO_BIN_EXE_vmag")), &bin.join("vmag"));
        copy_file(&library(), &lib.join("libvmag.so"));
        let mut command = std::process::Command::new(bin.join("vmag"));
        command
            .env_remove("VMAG_LIB")
            .env_remove("LD_PRELOAD")
            .args(["run", "--json", "--"])
            .arg(program("plain"));
        let output = command.output().unwrap();
        let expected = lib.canonicalize().unwrap().join("libvmag.so");
        assert_eq!(json_of(&output.stderr)["library"], expected.to_str().unwrap());
    }
}

#[test]
fn what_is_preloaded_already_stays() {
    let other = program("silent.so");
    let mut command = vmag_run();
    command
        .args(["--", "sh", "-c", "echo $LD_PRELOAD"])
        .env("LD_PRELOAD", &other);
    let library = library().canonicalize().unwrap();
    let expected = format!("{}:{}\n", library.display(), other.display());
    assert_eq!(stdout(&command.output().unwrap()), expected);
}

#[test]
fn an_outer_report_gets_every_line() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let output = vmag_run()
        .arg("--")
        .arg(program("plain"))
        .env("VMAG_REPORT", &report)
        .output()
        .unwrap();
    assert!(output.status.success());
    let lines = fs::read_to_string(&report).unwrap();
    assert!(lines.contains("\"loaded\"") && lines.contains("\"exit\""), "{lines}");
}

#[test]
fn a_program_without_the_environment_does_not_pass_for_success() {
    for (script, code) in [
        ("env -i sleep 2", 125),
        ("env -i sh -c 'sleep 2; exit 7'", 7),
        ("env sleep 1", 0),
    ] {
        let output = run_shell(&[], &format!("exec {script}"));
        assert_eq!(output.status.code(), Some(code), "{script}: {}", stderr(&output));
        assert_eq!(
            stderr(&output).contains("did NOT stay on vmag"),
            code != 0,
            "{script}: {}",
            stderr(&output)
        );
    }
}

/// The report goes with it, but not what it said before.
#[test]
fn a_program_may_clear_the_temporary_folder() {
    let folder = tempfile::tempdir().unwrap();
    for (end, code, signal) in [("exit 3", Some(3), None), ("kill -9 $$", None, Some(9))] {
        let script = format!("rm -f {}/vmag-report-*; {end}", folder.path().display());
        let output = vmag_run()
            .env("TMPDIR", folder.path())
            .args(["--", "sh", "-c", &script])
            .output()
            .unwrap();
        assert_eq!(
            (output.status.code(), output.status.signal()),
            (code, signal),
            "{}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains("NOT on vmag"), "{}", stderr(&output));
    }
}

#[test]
fn leaves_no_file_behind() {
    let folder = tempfile::tempdir().unwrap();
    let output = vmag_run()
        .arg("--")
        .arg(program("plain"))
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn help_has_examples_and_version_is_told() {
    let output = bare_vmag().args(["run", "--help"]).output().unwrap();
    assert!(output.status.success() && stdout(&output).contains("vmag run --profile"));
    let output = bare_vmag().arg("--version").output().unwrap();
    assert_eq!(stdout(&output), format!("vmag {}\n", env!("CARGO_PKG_VERSION")));
    assert!(bare_vmag().arg("--help").output().unwrap().status.success());
}

fn json_of(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(text)))
}

/// Before the run we read them all.
#[test]
fn the_peak_does_not_grow_with_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let (source, big) = (folder.path().join("symbols.s"), folder.path().join("big"));
    let symbols: String = (0..150_000)
        .map(|n| format!("symbol_with_a_name_of_the_usual_length_{n:010} = 1\n"))
        .collect();
    fs::write(&source, symbols + ".section .note.GNU-stack,\"\",%progbits\n").unwrap();
    let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/plain.c");
    let compiler = std::env::var("CC").unwrap_or("cc".to_string());
    let built = std::process::Command::new(compiler)
        .arg(plain)
        .arg(source)
        .arg("-o")
        .arg(&big)
        .status();
    assert!(built.unwrap().success());
    let peak = |program: &Path| {
        let output = vmag_run().args(["--json", "--"]).arg(program).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stderr).unwrap();
        json["peak_resident_bytes"].as_u64().unwrap()
    };
    let (small, big) = (peak(&program("plain")), peak(&big));
    assert!(big < small + (3 << 20), "{small} {big}");
}
