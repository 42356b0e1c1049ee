//! `vmag umastat` and its kin from outside; what reports say is tested with the library (tests/umem/reports.py).
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{bare_vmag, library, stderr};
use std::process::Output;

fn vmag(options: &[&str], script: &str) -> Output {
    let (command, options) = options.split_first().unwrap();
    bare_vmag()
        .env_remove("UMEM_DEBUG")
        .env_remove("VMAG_UMEM_REPORT")
        .arg(command)
        .arg("--lib")
        .arg(library())
        .args(options)
        .args(["--", "sh", "-c", script])
        .output()
        .unwrap()
}

/// A stand-in for the library's report: the script writes it where the library would.
const WRITE: &str =
    r#"eval "echo '{\"report\":\"'$VMAG_UMEM_REPORT'\"}'" > "$(echo "${VMAG_UMEM_REPORT##*,}" | sed s/%p/$$/)";"#;

#[test]
fn the_report_of_the_command_is_shown_and_its_status_kept() {
    let output = vmag(&["umastat"], &format!("{WRITE} exit 7"));
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("umastat,/"), "{}", stderr(&output));
}

#[test]
fn json_is_asked_for_and_written_to_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let option = format!("--json={}", file.path().display());
    let output = vmag(&["findleaks", &option], WRITE);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(file.path()).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(value["report"].as_str().unwrap().starts_with("findleaks,json,/"));
}

#[test]
fn leaks_need_debugging_which_is_switched_on_unless_it_is() {
    let output = vmag(&["findleaks"], &format!("{WRITE} echo $UMEM_DEBUG >&2"));
    assert!(stderr(&output).contains("audit"), "{}", stderr(&output));
    let output = vmag(&["umem-log"], &format!("{WRITE} echo $UMEM_LOGGING >&2"));
    assert!(stderr(&output).contains("transaction"), "{}", stderr(&output));
}

#[test]
fn no_report_is_a_failure_unless_the_command_failed() {
    let output = vmag(&["vmem"], "kill -9 $$");
    assert!(stderr(&output).contains("there is no report"), "{}", stderr(&output));
    assert_eq!(output.status.code(), None);
}

#[test]
fn what_is_asked_for_is_handed_on() {
    let output = vmag(&["whatis", "7F00aB10"], WRITE);
    assert!(stderr(&output).contains("whatis 0x7f00ab10,/"), "{}", stderr(&output));
    let output = vmag(&["umem-status"], WRITE);
    assert!(stderr(&output).contains("umem_status,/"), "{}", stderr(&output));
    let output = vmag(
        &["umem-log", "--log=slab"],
        &format!("{WRITE} echo $UMEM_LOGGING,$UMEM_DEBUG, >&2"),
    );
    assert!(stderr(&output).contains("umem_log slab,/"), "{}", stderr(&output));
    assert!(stderr(&output).contains("slab,,"), "{}", stderr(&output));
    let output = vmag(&["umem-verify"], &format!("{WRITE} echo $UMEM_DEBUG >&2"));
    assert!(stderr(&output).contains("audit"), "{}", stderr(&output));
    let output = vmag(&["whatis", "here"], WRITE);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("not a hexadecimal number"),
        "{}",
        stderr(&output)
    );
}
