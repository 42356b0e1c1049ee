//! The library's options with their values and where each comes from: as a program started here would see them, or as
//! they are in a process that runs.
//!
//! The table is the library's own: run as a program by the dynamic loader it prints it (src/api/program.c). For a process, the very file
//! that it has loaded is run without any option, and given the bytes of the process's options; where they come from is read in the
//! process, too. So this command needs no dynamic loader itself. Of another user's process, or in a container, the file may be anything:
//! there the library of this command is run, if it is the same.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach;
use crate::error::{Result, ToolError};
use crate::explain::areas::{self, Area};
use crate::explain::memory::Memory;
use crate::explain::root::{self, Found, Root};
use crate::image;
use crate::library;
use crate::process;
use crate::system;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables that the library takes options from.
const SOURCES: [&str; 3] = ["VMAG_CONF", "MALLOC_CONF", "MALLOC_OPTIONS"];
/// What would make it do more here than tell its options.
const REQUESTS: [&str; 3] = ["VMAG_REPORT", "VMAG_UMEM_REPORT", "LD_PRELOAD"];
/// Says that the library is there to print options, of what comes on standard input if anything does; its name is in the file of every library that can be run.
const ON_STDIN: &str = "VMAG_OPTIONS_ON_STDIN";
const LOADERS: [&str; 4] = [
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
];
/// More are taken for a torn or foreign structure.
const MOST_BYTES: usize = 1 << 20;
const NO_SOURCE: &str = "default";
/// No source named the option, yet its value is another.
const CHANGED: &str = "a control";
const NAME_BYTES: usize = 40;
/// The library's `PROFILE_LG_MOST`.
const MOST_LG_SAMPLE: u8 = 57;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptionRow {
    pub name: String,
    pub value: String,
    /// "default", "VMAG_CONF", "malloc_conf" of the program …; "a control": changed since.
    pub source: String,
    pub limits: String,
    pub meaning: String,
}

impl OptionRow {
    fn parse(line: &str) -> Option<OptionRow> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, _, value, source, limits, meaning] = fields[..] else {
            return None;
        };
        Some(OptionRow {
            name: name.to_owned(),
            value: value.to_owned(),
            source: source.to_owned(),
            limits: limits.to_owned(),
            meaning: meaning.to_owned(),
        })
    }

    /// The profiler's options are of the start, when it `began` or not; since then a control or an observer may have switched it.
    fn tell_sampling(&mut self, began: bool, in_force: Option<(bool, u8)>) {
        let value = match (self.name.as_str(), in_force) {
            ("prof" | "prof_active", Some((true, _))) => "true".to_string(),
            ("prof_active", Some((false, _))) if began => "false".to_string(),
            ("lg_prof_sample", Some((_, lg_sample))) if lg_sample != self.lg_sample() => lg_sample.to_string(),
            _ => return,
        };
        if self.value != value {
            self.value = value;
            self.source = CHANGED.to_string();
        }
    }

    /// What the profiler makes of a rate: jemalloc's go further.
    fn lg_sample(&self) -> u8 {
        self.value.parse().map_or(u8::MAX, |lg: u8| lg.min(MOST_LG_SAMPLE))
    }

    /// Taken because jemalloc has it; nothing here changes by it.
    pub fn is_only_mirrored(&self) -> bool {
        self.meaning.starts_with("jemalloc: ")
    }

    pub fn is_default(&self) -> bool {
        self.source == NO_SOURCE
    }
}

/// As a program started here would see them.
pub fn of_library(library: &Path) -> Result<Vec<OptionRow>> {
    table(library, &[], None)
}

/// As they are in a process.
pub fn of_process(pid: i32) -> Result<Vec<OptionRow>> {
    let was_ours = is_ours(pid);
    let areas = areas::read(pid).map_err(|error| process::cannot_look(pid, &error))?;
    of_areas(pid, &areas, was_ours).or_else(|error| {
        areas::check_there(pid, &areas)?;
        Err(error)
    })
}

fn of_areas(pid: i32, areas: &[Area], was_ours: bool) -> Result<Vec<OptionRow>> {
    let (file, root) = root_of(pid, areas)?;
    let file = to_be_run(pid, &file, was_ours)?;
    let presets = table(&file, &SOURCES, None)?;
    let (values, sources) = values(pid, &root, presets.len()).ok_or_else(|| not_told(&file))?;
    let mut rows = table(&file, &SOURCES, Some(&values))?;
    let in_force = sampling_of(pid, &root);
    let began = rows.iter().any(|row| row.name == "prof" && row.value == "true");
    rows.iter_mut().for_each(|row| row.tell_sampling(began, in_force));
    for ((row, preset), source) in rows.iter_mut().zip(presets).zip(sources) {
        row.source = match source {
            _ if row.source == CHANGED => CHANGED.to_string(),
            None if row.value != preset.value => CHANGED.to_string(),
            None => NO_SOURCE.to_string(),
            Some(source) => source,
        };
    }
    Ok(rows)
}

/// What the library would say about the variables that a process was started with: a line a mistake. `was_ours`: the process, when the library was found.
pub fn warnings_of(pid: i32, library: &Path, was_ours: bool) -> Vec<String> {
    let Some(library) = to_be_run(pid, library, was_ours)
        .ok()
        .filter(|_| !process::is_secure(pid))
    else {
        return Vec::new();
    };
    let started_with = process::environment(pid).into_iter();
    let sources = started_with.filter(|(name, _)| SOURCES.iter().any(|source| name == source));
    let Ok(tool) = std::env::current_exe() else {
        return Vec::new();
    };
    let mut command = Command::new(tool);
    command
        .args(["options", "--lib"])
        .arg(library)
        .env_clear()
        .envs(sources);
    let Ok(output) = command.stdin(Stdio::null()).output() else {
        return Vec::new();
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines()
        .filter_map(|line| line.strip_prefix("vmag: "))
        .filter(|line| !line.starts_with("error: "))
        .map(str::to_string)
        .collect()
}

/// Whether what it has loaded may be run with our rights.
pub fn is_ours(pid: i32) -> bool {
    process::is_of_user(pid, system::user_id()) && !attach::lives_elsewhere(pid)
}

/// The file that tells of a process when it is run: its own, or ours. `was_ours`: the process, when the file was found.
fn to_be_run(pid: i32, file: &Path, was_ours: bool) -> Result<PathBuf> {
    let there = file.strip_prefix(format!("/proc/{pid}/root"));
    let is_there = !file.to_string_lossy().ends_with(areas::REMOVED);
    if let (true, Ok(there)) = (is_there && was_ours && is_ours(pid), there) {
        // By the name that it has for us, too, lest the number becomes another's.
        return Ok(Path::new("/").join(there));
    }
    let id = image::build_id(file);
    let ours = library::find(None).ok().filter(|ours| image::build_id(ours) == id);
    ours.filter(|_| id.is_some()).ok_or_else(|| {
        let (why, next) = match was_ours {
            true => (
                "the file that it has loaded was replaced or removed since",
                "name the same libvmag.so in VMAG_LIB, as root; or start the process anew",
            ),
            false => (
                "it is another user's or lives in a container, and what it has loaded is not run with your rights",
                "run this as its user and where it lives, or name the same libvmag.so in VMAG_LIB",
            ),
        };
        ToolError::new(format!("the options of process {pid} cannot be told"), why, next)
    })
}

/// What the library prints without these variables: for a program started here, or for the values given.
fn table(library: &Path, without: &[&str], values: Option<&[u8]>) -> Result<Vec<OptionRow>> {
    let failed = || not_told(library);
    let loader = loader_of(library).ok_or_else(failed)?;
    let mut command = Command::new(loader);
    command.arg(library).stdin(Stdio::piped()).stdout(Stdio::piped());
    for name in without.iter().chain(&REQUESTS) {
        command.env_remove(name);
    }
    command.env(ON_STDIN, "1");
    let mut child = command.spawn().map_err(|_| failed())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A library that does not read them fails below.
        let _ = stdin.write_all(values.unwrap_or_default());
    }
    let output = child.wait_with_output().map_err(|_| failed())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<OptionRow> = text.lines().filter_map(OptionRow::parse).collect();
    match output.status.success() && !rows.is_empty() {
        true => Ok(rows),
        false => Err(failed()),
    }
}

/// Of the C library that this one was made for; None for a file that would not tell its options.
fn loader_of(library: &Path) -> Option<&'static str> {
    let bytes = fs::read(library).ok()?;
    let is_musl = !contains(&bytes, "libc.so.6");
    let fits = |loader: &&&str| loader.contains("musl") == is_musl && Path::new(loader).exists();
    contains(&bytes, ON_STDIN)
        .then(|| LOADERS.iter().find(fits).copied())
        .flatten()
}

fn contains(bytes: &[u8], words: &str) -> bool {
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

/// The library's file as it can be opened from here, and its root in the process.
fn root_of(pid: i32, areas: &[Area]) -> Result<(PathBuf, Root)> {
    match root::find_with_file(pid, areas) {
        Some((file, Found::Root(root))) => Ok((file, *root)),
        Some((_, Found::Unreadable(why))) => Err(cannot_be_read(pid, &why)),
        Some((_, Found::Unknown(why))) => Err(cannot_be_read(pid, &attach::may_be_on_vmag(&why))),
        _ => Err(ToolError::new(
            format!("process {pid} has no options of vmag"),
            "it does not run on vmag",
            "start it by `vmag run -- CMD`; `vmag doctor` tells which allocator it has",
        )),
    }
}

fn cannot_be_read(pid: i32, why: &str) -> ToolError {
    ToolError::new(
        format!("the options of process {pid} cannot be read"),
        why,
        attach::what_to_do(why),
    )
}

/// The bytes of the process's options, and who set each.
fn values(pid: i32, root: &Root, count: usize) -> Option<(Vec<u8>, Vec<Option<String>>)> {
    let (range, sources) = root.options.clone()?;
    let memory = Memory::open(pid).ok().filter(|memory| root.is_in(memory))?;
    let length = usize::try_from(range.end - range.start).ok()?;
    let bytes = (length <= MOST_BYTES).then(|| memory.bytes(range.start, length))??;
    let names = memory.u64s(sources, count)?.into_iter();
    let sources = names.map(|name| (name != 0).then(|| memory.text(name, NAME_BYTES)));
    Some((bytes, sources.collect()))
}

/// Whether the process samples now, and the logarithm of the mean bytes between two samples; None in a library that does not tell.
fn sampling_of(pid: i32, root: &Root) -> Option<(bool, u8)> {
    let profile = root.profile.as_ref()?;
    let memory = Memory::open(pid).ok().filter(|memory| root.is_in(memory))?;
    let byte = |address| memory.bytes(address, 1).map(|bytes| bytes[0]);
    Some((byte(profile.active)? != 0, byte(profile.lg_sample)?))
}

fn not_told(library: &Path) -> ToolError {
    ToolError::new(
        format!("{} does not tell its options", library.display()),
        "it cannot be run here, is part of a program, or is of another version than this command",
        "give the path of a libvmag.so of this version with --lib or in VMAG_LIB",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_beyond_the_profilers_is_no_change() {
        let told = |asked: &str, in_force| {
            let line = format!("lg_prof_sample\tunsigned\t{asked}\tVMAG_CONF\t0..63\tmeaning");
            let mut row = OptionRow::parse(&line).unwrap();
            row.tell_sampling(true, Some((true, in_force)));
            (row.value, row.source)
        };
        let row = |value: &str, source: &str| (value.to_string(), source.to_string());
        assert_eq!(told("63", 57), row("63", "VMAG_CONF"));
        assert_eq!(told("19", 19), row("19", "VMAG_CONF"));
        assert_eq!(told("63", 19), row("19", CHANGED));
        assert_eq!(told("57", 19), row("19", CHANGED));
    }
}
