//! What the kernel tells of a process besides its memory: name, start, limits.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::ToolError;
use procfs::process::Process;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io;

const AT_SECURE: u64 = 23;

pub fn name(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_string()
}

/// The variables it was started with; empty where we may not see them. A program may write over them (setproctitle).
pub fn environment(pid: i32) -> HashMap<OsString, OsString> {
    let environment = Process::new(pid).and_then(|process| process.environ());
    environment.unwrap_or_default()
}

/// All that run and were started with these bytes in their environment, or come from one that was.
pub fn with_in_environment(bytes: &[u8]) -> Vec<i32> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = folders.filter_map(|folder| folder.file_name().to_str()?.parse().ok());
    let has = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(bytes.len()).any(|window| window == bytes)
    };
    pids.filter(has).collect()
}

/// Was it started with more rights than its user has? The loader and the library then ignore the environment.
pub fn is_secure(pid: i32) -> bool {
    let vector = Process::new(pid).and_then(|process| process.auxv());
    vector.is_ok_and(|vector| vector.get(&AT_SECURE).is_some_and(|secure| *secure != 0))
}

pub fn cannot_look(pid: i32, error: &io::Error) -> ToolError {
    let (why, next) = match error.kind() {
        io::ErrorKind::NotFound => (
            format!("there is no process {pid}"),
            "look for it with `ps`; it may have ended",
        ),
        _ if error.raw_os_error() == Some(libc::ESRCH) => (
            format!("the process {pid} has ended"),
            "start it by the same command with -- CMD in place of the number",
        ),
        io::ErrorKind::PermissionDenied => (
            "it belongs to another user, or the kernel does not let processes look into each other".to_string(),
            "run this as the same user, or as root",
        ),
        _ => (error.to_string(), "check that /proc is mounted"),
    };
    ToolError::new(format!("cannot look into process {pid}"), why, next)
}
