//! Options that would do nothing where they are given: each is refused, in one line, before anything is done.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::support::{bare_vmag, stderr};

/// PID: a process that runs. The files are not there, which would be told if they were looked for.
const USELESS: [&str; 32] = [
    // Of a command, with a process.
    "explain --lib=x PID",
    "doctor --as-is PID",
    "doctor --lib=x PID",
    "doctor --as-is --lib=x -- true",
    "umastat --lib=x PID",
    "findleaks --all PID",
    "umem-log --all PID",
    "whatis --lib=x 10 PID",
    "options --lib=x --pid=PID",
    // Of a process, with a command.
    "umastat --wait=1 -- true",
    // Of switching, without.
    "attach --wait=1 PID",
    "attach --trace-stacks PID",
    // Of text, with what has everything.
    "heap --json --full x.heap",
    "heap --json --top=1 x.heap",
    "heap --full --format=csv x.heap",
    "heap --top=20 --format=csv x.heap",
    "leaks --json --top=1 x.heap",
    "diff --json --top=1 x.heap y.heap",
    "frag --json --top=1 PID",
    "frag --json --full PID",
    "trace --json --top=1 x.trace",
    "trace --events --top=15 x.trace",
    "trace --events --json x.trace",
    // Of what is chosen, with what chooses.
    "options --all thp",
    "export --bundle --measure=all-bytes x.heap y",
    "leaks --unreachable --looks=2 PID",
    "compare --rounds=5 --precision=2 -- true",
    // Of recordings, without.
    "run --callers=frames -- true",
    "run --trace=x --callers=frames -- true",
    "run --profile=x --trace-ring -- true",
    "run --sample-bytes=4k -- true",
    "run --bundle -- true",
];

#[test]
fn what_would_do_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pid = std::process::id().to_string();
    for line in USELESS {
        let output = bare_vmag()
            .args(line.replace("PID", &pid).split(' '))
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = stderr(&output);
        let is_refused = ["cannot be used with", "were not provided", "are of text"]
            .iter()
            .any(|reason| said.contains(reason));
        assert!(output.status.code() == Some(125) && is_refused, "{line}: {said}");
        assert!(said.lines().count() == 1 && said.contains("what to do"), "{said}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}
