//! Recordings as they come: through pipes, of any name, cut short, mistaken for another kind, or of a process that runs on.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{bare_vmag, on_full_disk, stderr, stdout, vmag_run};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

/// One object of 4000 bytes by a function that no file has.
const PROFILE: &str = "heap_v2/1\n  t*: 1: 4000 [1: 4000]\n@ 0x1000\n  t*: 1: 4000 [1: 4000]\n\nMAPPED_LIBRARIES:\n\n\
    VMAG_PROFILE:\nlg_sample=0 lost=0 pid=7 time=11\n1 1 0 4000 0 1 1\n";

#[test]
fn a_format_that_is_named_is_the_one() {
    let folder = tempfile::tempdir().unwrap();
    let (path, page) = (folder.path().join("p.heap"), folder.path().join("p.perfetto.json"));
    fs::write(&path, PROFILE).unwrap();
    let mut export = bare_vmag();
    let output = export
        .args(["export", "--format=heap"])
        .arg(&path)
        .arg(&page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read_to_string(&page).unwrap().starts_with("heap_v2/"));
}

#[test]
fn a_pipe_is_read_like_a_file() {
    for word in ["-", "/dev/stdin"] {
        let mut command = bare_vmag();
        command
            .args(["heap", word])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(PROFILE.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(stdout(&output).contains("3.9 KiB"), "{word}: {}", stdout(&output));
    }
}

#[test]
fn errors_speak_of_the_pipe() {
    for command in ["heap", "trace", "attach"] {
        let mut child = bare_vmag()
            .args([command, "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"nothing of ours").unwrap();
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert!(
            said.contains("came through the pipe") && !said.contains("/proc/"),
            "{said}"
        );
    }
}

/// What ends in no line, too: its last bytes would be written when the command ends, and nobody told.
#[test]
fn the_last_byte_of_what_is_written_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (path, to) = (folder.path().join("p.heap"), folder.path().join("to"));
    fs::write(&path, PROFILE).unwrap();
    let bundled = |most: u64| {
        fs::write(&to, [0; 1 << 16]).unwrap(); // more than is made of it elsewhere first
        let mut command = bare_vmag();
        command.args(["export", "--bundle"]).arg(&path).arg("-");
        command.stdout(File::options().append(true).open(&to).unwrap());
        let output = on_full_disk(&mut command, most).stderr(Stdio::null()).status().unwrap();
        (output.code(), fs::metadata(&to).unwrap().len())
    };
    let (code, bytes) = bundled(1 << 20);
    assert_eq!(code, Some(0));
    assert_eq!(bundled(bytes - 1), (Some(125), bytes - 1));
}

#[test]
fn objects_of_no_bytes_have_a_share() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    // One of an object cache, whose objects may have a constructor and nothing else.
    fs::write(&path, PROFILE.replace("0 4000 0 1 1", "32768 0 0 1 1")).unwrap();
    let output = bare_vmag().arg("heap").arg(&path).output().unwrap();
    let said = stdout(&output);
    assert!(said.contains("0.0%") && !said.contains("NaN"), "{said}");
}

#[test]
fn one_object_is_not_several() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    fs::write(&path, PROFILE).unwrap();
    for command in ["heap", "leaks"] {
        let output = bare_vmag().arg(command).arg(&path).output().unwrap();
        assert!(stdout(&output).contains("in 1 object ±"), "{}", stdout(&output));
    }
}

#[test]
fn a_report_knows_what_its_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let (path, page) = (folder.path().join("p.heap"), folder.path().join("r.html"));
    fs::write(&path, PROFILE).unwrap();
    let report = |files: &[&std::path::Path]| {
        let output = bare_vmag().arg("report").args(files).arg("-o").arg(&page).output();
        output.unwrap()
    };
    let output = report(&[&path]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(fs::read_to_string(&page).unwrap().ends_with("</html>\n"));
    let output = report(&[&path, &path]);
    assert!(
        stderr(&output).contains("a report is of one profile"),
        "{}",
        stderr(&output)
    );
    assert!(!report(&[]).status.success());
    let (no_trace, no_profile) = (folder.path().join("no.trace"), folder.path().join("no.heap"));
    for output in [
        report(&[&no_trace, &no_profile]),
        report(&[&path, &no_profile]),
        bare_vmag().arg("diff").arg(&no_profile).output().unwrap(),
    ] {
        let text = stderr(&output);
        assert!(text.contains("cannot read") && text.contains("No such file"), "{text}");
    }
}

/// Formats with columns of all that was allocated have them whatever is counted.
#[test]
fn what_a_profile_lacks_is_told_where_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    fs::write(
        &path,
        PROFILE.replace("lost=0 pid=7 time=11", "lost=3 pid=7 time=11 accum=0"),
    )
    .unwrap();
    let made = |command: &str, words: &[&str], name: &str| {
        let page = folder.path().join(name);
        let mut vmag = bare_vmag();
        vmag.args([command, "--json"]).arg(&path).args(words).arg(&page);
        let output = vmag.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let missing = serde_json::from_str::<serde_json::Value>(&stdout(&output)).unwrap()["missing"].clone();
        (stderr(&output), missing.as_str().unwrap().to_string())
    };
    for name in ["p.csv", "p.pb.gz", "p.parquet"] {
        let (said, missing) = made("export", &[], name);
        assert!(
            said.contains("p.heap: ") && said.contains("prof_accum") && missing.contains("prof_accum"),
            "{name}: {said}"
        );
    }
    let (said, missing) = made("export", &[], "p.svg");
    assert!(
        said.contains("3 samples missing") && !said.contains("prof_accum"),
        "{said}"
    );
    assert_eq!(missing, "3 samples missing, for want of memory");
    let (said, missing) = made("report", &["-o"], "r.html");
    assert!(
        said.contains("prof_accum") && missing.ends_with("3 samples missing, for want of memory"),
        "{said}"
    );
    assert!(
        fs::read_to_string(folder.path().join("r.html"))
            .unwrap()
            .contains(&missing)
    );
}

#[test]
fn nothing_is_written_over_what_it_is_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("p.heap"), folder.path().join("link.heap"));
    fs::write(&path, PROFILE).unwrap();
    symlink(&path, &link).unwrap();
    for output in [&path, &link] {
        for words in [
            &["heap", "-o"][..],
            &["report", "-o"],
            &["map", "-o"],
            &["trace", "-o"],
            &["trace", "--events", "-o"],
            &["export"],
        ] {
            let (first, second) = if words == ["export"] {
                (&path, output)
            } else {
                (output, &path)
            };
            let said = bare_vmag().args(words).arg(first).arg(second).output().unwrap();
            assert_eq!(said.status.code(), Some(125), "{words:?}");
            assert!(
                stderr(&said).contains("the recording itself"),
                "{words:?}: {}",
                stderr(&said)
            );
        }
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), PROFILE);
}

#[test]
fn a_comparison_does_not_take_the_place_of_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    fs::write(&input, "read").unwrap();
    for option in ["--json", "--html"] {
        let mut compare = bare_vmag();
        compare
            .args(["compare", "--input"])
            .arg(&input)
            .arg(option)
            .arg(&input)
            .args(["--", "true"]);
        let output = compare.output().unwrap();
        assert!(
            stderr(&output).contains("cannot leave two things"),
            "{}",
            stderr(&output)
        );
    }
    assert_eq!(fs::read_to_string(&input).unwrap(), "read");
}

#[test]
fn a_limit_that_the_library_refuses_is_refused_before_the_program_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    for (limits, least_or_most) in [
        (vec!["--trace-bytes=64k"], "131072"),
        (vec!["--trace-ring", "--trace-bytes=255k"], "262144"),
        (vec!["--trace-seconds=1000000001"], "1000000000"),
    ] {
        let mut run = vmag_run();
        run.arg("--trace")
            .arg(folder.path().join("t.trace"))
            .args(limits)
            .args(["--", "touch"])
            .arg(&mark);
        let output = run.output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = stderr(&output);
        assert!(said.contains(least_or_most), "{said}");
        assert!(!mark.exists());
    }
}

#[test]
fn a_recording_does_not_go_where_the_program_writes() {
    let folder = tempfile::tempdir().unwrap();
    for option in ["--profile=-", "--trace=-"] {
        let mut run = vmag_run();
        let output = run
            .arg(option)
            .args(["--", "touch", "ran"])
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(stderr(&output).contains("to standard output"), "{}", stderr(&output));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }
}

#[test]
fn what_an_earlier_run_left_is_not_taken_for_this_ones() {
    let folder = tempfile::tempdir().unwrap();
    for (option, name, begin) in [("--profile", "p.heap", PROFILE), ("--trace", "t.trace", "vmtc")] {
        let file = folder.path().join(name);
        fs::write(&file, begin).unwrap();
        let run = || killed(option, &file, "");
        let text = run();
        assert!(text.contains("that an earlier run left there was removed"), "{text}");
        assert!(!file.exists());
        let text = run();
        assert!(text.contains("it was killed") && !text.contains("removed"), "{text}");
    }
}

/// What `vmag run` says of a command that does `first`, with the file as `$0`, and leaves no recording.
fn killed(option: &str, file: &Path, first: &str) -> String {
    let mut command = vmag_run();
    command
        .arg(option)
        .arg(file)
        .args(["--", "sh", "-c", &format!("{first}\nkill -KILL $$")])
        .arg(file);
    stderr(&command.output().unwrap())
}

#[test]
fn what_no_earlier_run_left_stays() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("notes.txt"), "important\n").unwrap();
    fs::write(at("real.heap"), PROFILE).unwrap();
    fs::write(at("replaced.heap"), PROFILE).unwrap();
    symlink("real.heap", at("link.heap")).unwrap();
    let replace = "cp \"$0\" \"$0.new\"; mv \"$0.new\" \"$0\"";
    for (option, name, first) in [
        ("--profile", "notes.txt", ""),
        ("--trace", "notes.txt", ""),
        ("--trace", "real.heap", ""),
        ("--profile", "link.heap", ""),
        ("--profile", "replaced.heap", replace),
        ("--profile", "made.heap", "echo heap_v2/1 > \"$0\""),
    ] {
        let text = killed(option, &at(name), first);
        let stays = format!("{name} is not this run's {}, and stays", &option[2..]);
        assert!(text.contains(&stays) && !text.contains("removed"), "{text}");
        assert!(fs::symlink_metadata(at(name)).is_ok(), "{name}");
    }
    assert_eq!(fs::read_to_string(at("notes.txt")).unwrap(), "important\n");
    assert!(at("link.heap").is_symlink());
    assert_eq!(fs::read_to_string(at("real.heap")).unwrap(), PROFILE);
}

#[test]
fn a_recording_does_not_take_the_name_of_what_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let (link, mark) = (folder.path().join("link"), folder.path().join("ran"));
    symlink("/proc/self/fd/1", &link).unwrap();
    for option in ["--profile", "--trace"] {
        let mut command = vmag_run();
        command.arg(option).arg(&link).args(["--", "touch"]).arg(&mark);
        // As a regular file, which could be replaced.
        let output = command
            .stdout(File::create(folder.path().join("out")).unwrap())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(stderr(&output).contains("open already"), "{}", stderr(&output));
        assert!(link.is_symlink() && !mark.exists());
    }
}

#[test]
fn two_recordings_in_one_place_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mark, both) = (folder.path().join("ran"), folder.path().join("x"));
    let output = vmag_run()
        .arg("--profile")
        .arg(&both)
        .arg("--trace")
        .arg(folder.path().join("./x"))
        .args(["--", "touch"])
        .arg(&mark)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("cannot leave two things"),
        "{}",
        stderr(&output)
    );
    assert!(!mark.exists() && !both.exists());
}

#[test]
fn what_cannot_be_written_is_named_and_no_option_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    fs::write(&path, PROFILE).unwrap();
    let output = bare_vmag()
        .arg("export")
        .arg(&path)
        .arg("/nowhere/p.csv")
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(
        said.contains("cannot write /nowhere/p.csv: No such file")
            && !said.contains("-o")
            && !said.contains(".vmag-"),
        "{said}"
    );
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let output = bare_vmag().arg("heap").arg(&path).stdout(full()).output().unwrap();
    let said = stderr(&output);
    assert!(
        said.contains("cannot write standard output") && !said.contains("-o"),
        "{said}"
    );
}

#[test]
fn what_is_to_be_written_anew_stays_what_it_was_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("p.heap"), PROFILE).unwrap();
    fs::write(at("older"), "of an earlier run").unwrap();
    let trials: [&[&str]; 5] = [
        &["heap", "--format", "csv", "p.heap", "-o", "older"],
        &["heap", "p.heap", "-o", "older"],
        &["export", "--format", "flame", "p.heap", "older"],
        &["export", "--bundle", "p.heap", "older"],
        &["report", "p.heap", "-o", "older"],
    ];
    for words in trials {
        let mut command = bare_vmag();
        command.args(words).current_dir(&folder);
        let output = on_full_disk(&mut command, 64).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{words:?}: {}", stderr(&output));
        assert_eq!(
            fs::read_to_string(at("older")).unwrap(),
            "of an earlier run",
            "{words:?}"
        );
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "{words:?}");
    }
}

#[test]
fn whom_to_serve_is_asked_for_in_both_ways() {
    let output = bare_vmag().arg("serve").output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("--pid") && said.contains("--all"), "{said}");
    let output = bare_vmag().args(["serve", "--all", "--pid", "1"]).output().unwrap();
    assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
}

#[test]
fn a_map_is_not_drawn_under_the_name_of_another_format() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("m.SVG");
    let output = bare_vmag().args(["map", "1", "-o"]).arg(&picture).output().unwrap();
    assert!(stderr(&output).contains("the picture is PNG"), "{}", stderr(&output));
    assert!(!picture.exists());
}

#[test]
fn a_limit_within_chance_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    // One sample, of one in 2^19 bytes: an error as large as itself.
    fs::write(&path, PROFILE.replace("4000 0 1 1", "4000 19 1 1")).unwrap();
    let output = bare_vmag()
        .args(["check", "--most-live", "1k"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stdout(&output).contains("less than two standard errors"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_file_may_have_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"p\xff,<b>.heap"));
    fs::write(&path, PROFILE).unwrap();
    let output = bare_vmag().arg("heap").arg(&path).output().unwrap();
    assert!(stdout(&output).contains("3.9 KiB"), "{}", stderr(&output));
}

#[test]
fn a_profile_that_is_cut_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    for end in [PROFILE.find("MAPPED").unwrap(), PROFILE.len() - 3] {
        fs::write(&path, &PROFILE[..end]).unwrap();
        let output = bare_vmag()
            .args(["check", "--most-live", "1M"])
            .arg(&path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(stderr(&output).contains("cut short"), "{}", stderr(&output));
    }
}

#[test]
fn what_is_not_there_may_be_a_profile_or_a_trace() {
    let output = bare_vmag()
        .args(["report", "/nowhere/t.trace", "-o", "/nowhere/r.html"])
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(
        said.contains("/nowhere/t.trace") && said.contains("--trace FILE"),
        "{said}"
    );
}

#[test]
fn what_a_file_is_instead_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    fs::write(&path, PROFILE).unwrap();
    for command in ["trace", "attach"] {
        let output = bare_vmag().arg(command).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(
            stderr(&output).contains("it is a heap profile, which `vmag heap` shows"),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
fn what_is_cut_at_its_beginning_does_not_lead_in_a_circle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    let cut = |start: &[u8]| {
        let mut bytes = start.to_vec();
        bytes.resize(200, 1);
        fs::write(&path, bytes).unwrap();
    };
    let page = folder.path().join("page.png");
    let is_told = |command: &str, words: &[&str]| {
        let output = bare_vmag().arg(command).arg(&path).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = stderr(&output);
        assert!(
            said.contains("cut short or damaged at its beginning"),
            "{command}: {said}"
        );
    };
    cut(b"vmtc\x04\0");
    ["trace", "heap", "frag"]
        .iter()
        .for_each(|command| is_told(command, &[]));
    ["report", "map"]
        .iter()
        .for_each(|command| is_told(command, &["-o", page.to_str().unwrap()]));
    cut(b"vmag_box\x01\0\0\0");
    ["attach", "heap"].iter().for_each(|command| is_told(command, &[]));
}

#[test]
fn a_process_that_runs_on_keeps_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let mut command = vmag_run();
        command.arg("--profile").arg(folder.path().join("p.heap")).arg("--");
        command
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("said")).unwrap());
        command
    };
    let script = "(sleep 60 & echo $! > \"$1\")";
    let pid = folder.path().join("pid");
    assert!(
        run()
            .args(["sh", "-c", script, "sh"])
            .arg(&pid)
            .status()
            .unwrap()
            .success()
    );
    let said = fs::read_to_string(folder.path().join("said")).unwrap();
    let pid: i32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
    // SAFETY: a signal to a process that this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    assert!(said.contains("processes that run on, such as"), "{said}");
    assert_eq!(kept_folders(folder.path()), 1);
    assert!(run().arg("true").status().unwrap().success());
    assert_eq!(kept_folders(folder.path()), 1);
}

#[test]
fn a_recording_without_a_name_has_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    for (option, name) in [("--profile", "true.heap"), ("--trace", "true.trace")] {
        fs::create_dir(folder.path().join(name)).unwrap();
        let mut command = vmag_run();
        let output = command
            .current_dir(&folder)
            .args([option, "--", "/bin/true"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(stderr(&output).contains(name), "{}", stderr(&output));
    }
}

#[test]
fn what_grows_or_changes_without_names_is_told_why() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = (folder.path().join("1.heap"), folder.path().join("2.heap"));
    fs::write(&before, PROFILE).unwrap();
    fs::write(
        &after,
        PROFILE
            .replace("1: 4000", "9: 36000")
            .replace("4000 0 1 1", "4000 0 9 9"),
    )
    .unwrap();
    for command in ["leaks", "diff"] {
        let output = bare_vmag().arg(command).args([&before, &after]).output().unwrap();
        assert!(
            stdout(&output).contains("no symbol for 1 address"),
            "{}",
            stdout(&output)
        );
    }
}

#[test]
fn growth_of_profiles_in_the_order_of_their_names_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, time) in [("p.9", 109), ("p.10", 110), ("p.11", 111)] {
        fs::write(path(name), PROFILE.replace("time=11", &format!("time={time}"))).unwrap();
    }
    let said = |names: [&str; 3]| stderr(&bare_vmag().arg("leaks").args(names.map(path)).output().unwrap());
    assert!(said(["p.10", "p.11", "p.9"]).contains("p.9: older than p.11"));
    assert_eq!(said(["p.9", "p.10", "p.11"]), "");
}

#[test]
fn totals_of_what_lives_alone_are_told_to_be_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.heap");
    fs::write(&path, PROFILE.replace("time=11", "time=11 accum=0")).unwrap();
    let said = |options: &[&str]| stdout(&bare_vmag().arg("heap").args(options).arg(&path).output().unwrap());
    assert!(said(&["--measure=all-bytes"]).contains("without prof_accum:true"));
    assert!(said(&["--measure=all-bytes", "--json"]).contains("without prof_accum:true"));
    assert!(!said(&[]).contains("prof_accum"));
}

fn kept_folders(folder: &std::path::Path) -> usize {
    let is_kept = |name: &OsStr| name.as_bytes().starts_with(b".vmag-profile-");
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.filter(|entry| is_kept(&entry.file_name())).count()
}
