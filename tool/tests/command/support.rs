//! What the tests of the `vmag` command share: the programs they run, and how they start the command.
//! SPDX-License-Identifier: BSD-2-Clause

use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// The folder with everything built from `tests/programs`.
pub fn built() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("programs");
        fs::create_dir_all(&folder).unwrap();
        compile(&folder, "stub_library.c", "libvmag.so", &["-shared", "-fPIC"]);
        compile(&folder, "silent_library.c", "silent.so", &["-shared", "-fPIC"]);
        compile(
            &folder,
            "bump_malloc.c",
            "bump.so",
            &["-shared", "-fPIC", "-O1", "-fno-builtin"],
        );
        compile(&folder, "plain.c", "plain", &[]);
        compile(&folder, "plain.c", "static", &["-static"]);
        compile(&folder, "plain.c", "static-pie", &["-static-pie"]);
        compile(&folder, "own_malloc.c", "own-malloc", &["-rdynamic", "-fno-builtin"]);
        compile(&folder, "count_signals.c", "count-signals", &[]);
        compile(&folder, "first_thread_ends.c", "first-thread-ends", &["-pthread"]);
        folder
    })
}

fn compile(folder: &Path, source: &str, target: &str, options: &[&str]) {
    let compiler = std::env::var("CC").unwrap_or("cc".to_string());
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let status = Command::new(compiler)
        .args(options)
        .arg(source)
        .arg("-o")
        .arg(folder.join(target))
        .status();
    assert!(status.unwrap().success(), "cannot build {target}");
}

/// The library under test: the one named by VMAG_TEST_LIB (the real one), or the stand-in.
pub fn library() -> PathBuf {
    std::env::var_os("VMAG_TEST_LIB").map_or_else(|| built().join("libvmag.so"), PathBuf::from)
}

/// `vmag` without any library named.
pub fn bare_vmag() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmag"));
    command
        .env_remove("LD_PRELOAD")
        .env_remove("VMAG_REPORT")
        .env_remove("VMAG_LIB");
    command
}

/// `vmag run` with the library under test.
pub fn vmag_run() -> Command {
    let mut command = bare_vmag();
    command.arg("run").arg("--lib").arg(library());
    command
}

pub fn program(name: &str) -> PathBuf {
    built().join(name)
}

/// Runs `vmag run -- sh -c SCRIPT`, with options before the dashes.
pub fn run_shell(options: &[&str], script: &str) -> Output {
    vmag_run()
        .args(options)
        .args(["--", "sh", "-c", script])
        .output()
        .unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Lets the command write no more than so many bytes into a file, as a disk that is full does.
pub fn on_full_disk(command: &mut Command, bytes: u64) -> &mut Command {
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit {
                rlim_cur: bytes,
                rlim_max: bytes,
            };
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
            Ok(())
        })
    }
}

/// Copies by another process: a file that we ourselves had open for writing may still be open in a child that
/// another test has just forked, and the kernel would then refuse to execute it.
pub fn copy_file(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// Writes by another process, for the same reason.
pub fn write_executable(path: &Path, content: &[u8]) {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Starts the command in a process group of its own and waits until the program in it says its first line.
pub fn start_until_ready(command: &mut Command) -> Child {
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    let out = child.stdout.as_mut().unwrap();
    while byte[0] != b'\n' {
        out.read_exact(&mut byte)
            .expect("the program ended before it was ready");
    }
    child
}

pub fn send(target: i32, signal: i32) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::kill(target, signal) }, 0);
}
