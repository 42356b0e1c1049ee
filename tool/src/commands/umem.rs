//! `vmag umastat`, `findleaks`, `umausers`, `umem-cache`, `vmem`, `umem-log`, `whatis`, `umem-status`, `umem-verify`: libumem's reports on a command, at its end, or on
//! a process that runs.
//!
//! The library writes the report when the command's process ends by exit(3) (VMAG_UMEM_REPORT, docs/umem.md); each process
//! into a file of its own, of which the command's is shown.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::{Answer, Ask, Process};
use crate::commands::attach::not_seen;
use crate::commands::heap::deliver;
use crate::error::{EXIT_TOOL_FAILED, Result, ToolError};
use crate::launch::Launcher;
use crate::measure::Subject;
use crate::output::say;
use crate::system::{self, Status};
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

const EXAMPLES: &str = "\
Examples:
  vmag findleaks -- ./program             what the program lost, by the stack that allocated it
  vmag umastat --json=s.json -- make      every cache and arena at the end, as JSON in a file
  UMEM_DEBUG=default vmag umausers -- ./program
  vmag umastat 4711                       of a process that runs, as it is now
  vmag whatis 0x7f52a1c04010 4711         what lies there: buffer, size, cache, by whom
  vmag umem-log --log=slab -- ./program   slabs that were made and destroyed

The report is made when the command's process ends by exit(3); one that is killed or calls _exit makes none. findleaks, \
umausers, umem-verify and umem-log set UMEM_DEBUG=audit, and umem-log UMEM_LOGGING, unless you set them. Stacks go as far \
as the program has frame pointers (-fno-omit-frame-pointer). A process that runs writes the report itself, the next \
time that it comes by in the allocator's slow paths (`vmag attach --help`); it must be yours, or you root. findleaks, umausers, \
umem-verify and umem-log know what was allocated under UMEM_DEBUG, which it must have been started with; umem-log wants UMEM_LOGGING, too, and \
for the logs fail and slab that alone.

Exit status: the command's own. 125: vmag failed, or there was no report.";

/// What of libumem's reports is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Umastat,
    Findleaks,
    Umausers,
    UmemCache,
    Vmem,
    UmemLog,
    UmemStatus,
    UmemVerify,
    Whatis,
}

/// What of it: an address, a log.
pub struct Asked<'a> {
    pub request: Request,
    pub detail: &'a str,
}

impl Asked<'_> {
    fn text(&self) -> String {
        format!("{} {}", self.request.name(), self.detail)
            .trim_end()
            .to_string()
    }

    fn needs_debugging(&self) -> bool {
        self.request.needs_debugging() && self.detail != "slab"
    }
}

impl Request {
    pub fn alone(self) -> Asked<'static> {
        Asked {
            request: self,
            detail: "",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Request::Umastat => "umastat",
            Request::Findleaks => "findleaks",
            Request::Umausers => "umausers",
            Request::UmemCache => "umem_cache",
            Request::Vmem => "vmem",
            Request::UmemLog => "umem_log",
            Request::UmemStatus => "umem_status",
            Request::UmemVerify => "umem_verify",
            Request::Whatis => "whatis",
        }
    }

    fn needs_debugging(self) -> bool {
        matches!(
            self,
            Request::Findleaks | Request::Umausers | Request::UmemLog | Request::UmemVerify
        )
    }
}

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Give it as JSON: in place of the text, which is on standard error, of a process that runs on standard output; or in FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,

    /// With a command: show the reports of all processes that it started, not only of its own; as JSON they are an array
    #[arg(long, conflicts_with = "pid")]
    all: bool,

    /// With a command: the library to preload
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    lib: Option<PathBuf>,

    /// With a process: how long to wait until it wrote the report
    #[arg(long, value_name = "SECONDS", default_value_t = 5, conflicts_with = "words")]
    wait: u64,

    /// A process that runs
    #[arg(value_name = "PID", required_unless_present = "words", conflicts_with = "words",
          value_parser = crate::source::pid_parser())]
    pid: Option<i32>,

    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    words: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Log {
    /// Allocations and frees
    Transaction,
    /// What freed buffers held
    Contents,
    /// Allocations that failed
    Fail,
    /// Slabs made and destroyed
    Slab,
}

#[derive(Args)]
pub struct LogArguments {
    /// Which log
    #[arg(long, value_enum, default_value = "transaction")]
    log: Log,

    #[command(flatten)]
    rest: Arguments,
}

#[derive(Args)]
pub struct WhatisArguments {
    /// The address, hexadecimal
    #[arg(value_parser = address)]
    address: String,

    #[command(flatten)]
    rest: Arguments,
}

fn address(text: &str) -> std::result::Result<String, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16)
        .map(|value| format!("0x{value:x}"))
        .map_err(|_| "not a hexadecimal number".to_string())
}

pub fn run_log(arguments: &LogArguments) -> Result<Status> {
    let name = arguments.log.to_possible_value();
    let asked = Asked {
        request: Request::UmemLog,
        detail: name.as_ref().map_or("transaction", |value| value.get_name()),
    };
    run(&arguments.rest, &asked)
}

pub fn run_whatis(arguments: &WhatisArguments) -> Result<Status> {
    let asked = Asked {
        request: Request::Whatis,
        detail: &arguments.address,
    };
    run(&arguments.rest, &asked)
}

pub fn run(arguments: &Arguments, asked: &Asked) -> Result<Status> {
    if let Some(pid) = arguments.pid {
        return run_on_process(arguments, pid, asked);
    }
    let subject = Subject::find(&arguments.words, arguments.lib.as_deref())?;
    let folder = tempfile::Builder::new()
        .prefix("vmag-umem-")
        .tempdir()
        .map_err(no_folder)?;
    ask(asked, folder.path(), arguments.json.is_some());
    let measured = subject.run_on_vmag(&mut Launcher::new()?)?;
    let status = measured.ended.status;
    let reports = reports_in(folder.path(), (!arguments.all).then_some(measured.ended.pid));
    if reports.is_empty() {
        say(no_report(&subject, measured.served.by_vmag));
        say("\n");
        return Ok(if status == Status::Exited(0) {
            Status::Exited(EXIT_TOOL_FAILED)
        } else {
            status
        });
    }
    show(arguments, &reports)?;
    Ok(status)
}

/// The process writes into a file of ours, which it sees under this name when it lives in our file system.
fn run_on_process(arguments: &Arguments, pid: i32, asked: &Asked) -> Result<Status> {
    let process = Process::attach(pid)?;
    let root = process.root_of_names();
    let temporary = match root.is_empty() {
        true => std::env::temp_dir(),
        false => PathBuf::from("/tmp"),
    };
    let awaited = Awaited::new(pid, &root, &temporary).map_err(no_folder)?;
    let format = if arguments.json.is_some() { ",json" } else { "" };
    let text = format!("{}{format},{}", asked.text(), awaited.path_there.display());
    let answer = process.ask(&Ask::Report { text }, Duration::from_secs(arguments.wait))?;
    if answer == Answer::Waiting {
        return Err(not_seen(pid));
    }
    let mut report = Vec::new();
    let most = (&awaited.file).take(REPORT_BYTES_MOST + 1).read_to_end(&mut report);
    if most.map_err(no_folder)? as u64 > REPORT_BYTES_MOST {
        return Err(too_large());
    }
    let report = String::from_utf8_lossy(&report);
    match &arguments.json {
        None => deliver(report.as_bytes(), None)?,
        Some(file) => deliver(pretty(&report, false)?.as_bytes(), file.as_deref())?,
    }
    Ok(Status::Exited(0))
}

const REPORT: &str = "report";
/// Of a process that need not wish us well.
const REPORT_BYTES_MOST: u64 = 64 << 20;

/// A file that the process may write to, in a folder that stays ours: what it put there in the file's place would be followed with our
/// rights. In a container a link would lead out of it: none is followed, neither in place of the folder for temporary files nor of ours.
struct Awaited {
    file: File,
    path_there: PathBuf,
    /// Removed by way of the other, which is therefore closed after it.
    _folder: TempDir,
    _temporary: File,
}

impl Awaited {
    fn new(pid: i32, root: &str, temporary: &Path) -> io::Result<Awaited> {
        let owner = fs::metadata(format!("/proc/{pid}"))?;
        // Ours may well be a link.
        let no_link = if root.is_empty() { 0 } else { libc::O_NOFOLLOW };
        let held = open_folder(
            Path::new(&format!("{root}{}", temporary.display())),
            libc::O_PATH | no_link,
        )?;
        let folder = tempfile::Builder::new()
            .prefix("vmag-umem-")
            .tempdir_in(path_of(&held))?;
        let ours = open_folder(folder.path(), libc::O_NOFOLLOW)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path_of(&ours).join(REPORT))?;
        if owner.uid() != system::user_id() {
            fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
            ours.set_permissions(Permissions::from_mode(0o711))?;
        }
        Ok(Awaited {
            file,
            path_there: temporary
                .join(folder.path().file_name().unwrap_or_default())
                .join(REPORT),
            _folder: folder,
            _temporary: held,
        })
    }
}

fn open_folder(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY | flags).open(path)
}

/// The same folder, whatever has its name by now.
fn path_of(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// The command inherits what it is asked for.
fn ask(asked: &Asked, folder: &Path, json: bool) {
    let format = if json { ",json," } else { "," };
    let mut value = OsString::from(asked.text());
    value.push(format);
    value.push(folder.join("report.%p"));
    system::set_variable("VMAG_UMEM_REPORT", &value);
    if asked.needs_debugging() {
        set_default("UMEM_DEBUG", "audit");
    }
    if asked.request == Request::UmemLog {
        set_default("UMEM_LOGGING", asked.detail);
    }
}

fn set_default(name: &str, value: &str) {
    if std::env::var_os(name).is_none_or(|value| value.is_empty()) {
        system::set_variable(name, OsStr::new(value));
    }
}

/// What the processes wrote, by process number; of one process, or of all.
fn reports_in(folder: &Path, wanted: Option<i32>) -> Vec<String> {
    let mut found: Vec<(i32, String)> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.path().extension()?.to_str()?.parse().ok()?;
            let text = fs::read(entry.path()).ok()?;
            Some((pid, String::from_utf8_lossy(&text).into_owned()))
        })
        .filter(|(pid, _)| wanted.is_none_or(|wanted| wanted == *pid))
        .collect();
    found.sort();
    found.into_iter().map(|(_, text)| text).collect()
}

fn show(arguments: &Arguments, reports: &[String]) -> Result<()> {
    if arguments.json.is_none() {
        reports.iter().for_each(say);
        return Ok(());
    }
    let text = pretty(&reports.concat(), arguments.all)?;
    match &arguments.json {
        Some(Some(path)) => deliver(text.as_bytes(), Some(path)),
        _ => {
            say(text);
            Ok(())
        }
    }
}

/// A JSON value a line, laid out for people; or all in one array.
fn pretty(lines: &str, as_array: bool) -> Result<String> {
    let values: Vec<Value> = lines
        .lines()
        .map(serde_json::from_str)
        .collect::<serde_json::Result<_>>()
        .map_err(not_json)?;
    Ok(match as_array {
        true => format!("{:#}\n", Value::Array(values)),
        false => values.iter().map(|value| format!("{value:#}\n")).collect(),
    })
}

fn no_report(subject: &Subject, by_vmag: bool) -> ToolError {
    if !by_vmag {
        return subject.not_served();
    }
    ToolError::new(
        "there is no report",
        "the command's process did not end by exit(3): it was killed, called _exit, or became a program that does not use vmag",
        "let it end by itself, or call vmag_umem_report in it; --all shows the reports of other processes that it started",
    )
}

fn no_folder(error: std::io::Error) -> ToolError {
    ToolError::new(
        "cannot make a folder for the report",
        error,
        "look at TMPDIR, and whether it is full",
    )
}

fn too_large() -> ToolError {
    ToolError::new(
        "the report is not read",
        format!("it has more than {} MiB", REPORT_BYTES_MOST >> 20),
        "have the process write it at its end: VMAG_UMEM_REPORT=REQUEST,PATH in its environment",
    )
}

fn not_json(error: serde_json::Error) -> ToolError {
    ToolError::new(
        "the library's report is not JSON",
        error,
        "vmag and libvmag.so must be of the same version",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<OsString> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn the_file_is_in_a_folder_that_goes_with_it() {
        let root = tempfile::tempdir().unwrap();
        let temporary = root.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        let pid = std::process::id() as i32;
        let awaited = Awaited::new(pid, root.path().to_str().unwrap(), Path::new("/tmp")).unwrap();
        let there = awaited.path_there.strip_prefix("/").unwrap();
        assert!(root.path().join(there).is_file(), "{}", there.display());
        drop(awaited);
        assert_eq!(names_in(&temporary), Vec::<OsString>::new());
    }

    /// A container's root is not to lead us to files of ours.
    #[test]
    fn a_link_in_place_of_the_folder_is_not_followed() {
        let (root, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(ours.path(), root.path().join("tmp")).unwrap();
        let before = fs::metadata(ours.path()).unwrap().modified().unwrap();
        let pid = std::process::id() as i32;
        assert!(Awaited::new(pid, root.path().to_str().unwrap(), Path::new("/tmp")).is_err());
        assert_eq!(fs::metadata(ours.path()).unwrap().modified().unwrap(), before);
    }
}
