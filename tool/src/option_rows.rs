//! The library's options with their values and where each comes from: as a program started here would see them, or as
//! they are in a process that runs.
//!
//! The table is the library's own (vmag_options_print). For a process, the very file that it has loaded is loaded here
//! without any option, and given the bytes of the process's options; where they come from is read in the process, too.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::explain::areas;
use crate::explain::memory::Memory;
use crate::explain::root::{self, Found, Root};
use crate::process;
use crate::system::{self, LoadedLibrary};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Variables that the library takes options from.
const SOURCES: [&str; 3] = ["VMAG_CONF", "MALLOC_CONF", "MALLOC_OPTIONS"];
/// What would make it do more here than tell its options.
const REQUESTS: [&str; 2] = ["VMAG_REPORT", "VMAG_UMEM_REPORT"];
const NO_SOURCE: &str = "default";
/// No source named the option, yet its value is another.
const CHANGED: &str = "a control";
const NAME_BYTES: usize = 40;

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

    /// Taken because jemalloc has it; nothing here changes by it.
    pub fn is_only_mirrored(&self) -> bool {
        self.meaning.starts_with("jemalloc: ")
    }

    pub fn is_default(&self) -> bool {
        self.source == NO_SOURCE
    }
}

/// As a program started here would see them. To be called before anything else runs in this process.
pub fn of_library(library: &Path) -> Result<Vec<OptionRow>> {
    REQUESTS.iter().for_each(|name| system::unset_variable(name));
    rows_of(&load(library)?, library)
}

/// As they are in a process. To be called before anything else runs in this process.
pub fn of_process(pid: i32) -> Result<Vec<OptionRow>> {
    let (file, root) = root_of(pid)?;
    for name in SOURCES.iter().chain(&REQUESTS) {
        system::unset_variable(name);
    }
    let loaded = load(&file)?;
    let presets = rows_of(&loaded, &file)?;
    let sources = copy_values(pid, &root, &loaded, presets.len()).ok_or_else(|| not_told(&file))?;
    let mut rows = rows_of(&loaded, &file)?;
    for ((row, preset), source) in rows.iter_mut().zip(presets).zip(sources) {
        row.source = match source {
            None if row.value != preset.value => CHANGED.to_string(),
            None => NO_SOURCE.to_string(),
            Some(source) => source,
        };
    }
    Ok(rows)
}

/// What the library would say about the variables that a process was started with: a line a mistake.
pub fn warnings_of(pid: i32, library: &Path) -> Vec<String> {
    if process::is_secure(pid) {
        return Vec::new();
    }
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

fn load(library: &Path) -> Result<LoadedLibrary> {
    LoadedLibrary::open(library).ok_or_else(|| not_told(library))
}

fn rows_of(loaded: &LoadedLibrary, library: &Path) -> Result<Vec<OptionRow>> {
    let lines = loaded.option_lines().ok_or_else(|| not_told(library))?;
    Ok(lines.iter().filter_map(|line| OptionRow::parse(line)).collect())
}

/// The library's file as it can be opened from here, and its root in the process.
fn root_of(pid: i32) -> Result<(PathBuf, Root)> {
    let areas = areas::read(pid).map_err(|error| process::cannot_look(pid, &error))?;
    match root::find_with_file(pid, &areas) {
        Some((file, Found::Root(root))) => Ok((file, *root)),
        Some((_, Found::Unreadable(why))) => Err(ToolError::new(
            format!("the options of process {pid} cannot be read"),
            why,
            "run this as the same user, or as root",
        )),
        _ => Err(ToolError::new(
            format!("process {pid} has no options of vmag"),
            "it does not run on vmag",
            "start it by `vmag run -- CMD`; `vmag doctor` tells which allocator it has",
        )),
    }
}

/// Gives our copy of the library the values of the process. Returns who set them; None when the two do not fit.
fn copy_values(pid: i32, theirs: &Root, loaded: &LoadedLibrary, count: usize) -> Option<Vec<Option<String>>> {
    let here = std::process::id() as i32;
    let Found::Root(ours) = root::read(here, loaded.root_address()?) else {
        return None;
    };
    let ((ours, _), (theirs, sources)) = (ours.options?, theirs.options.clone()?);
    let length = ours.end - ours.start;
    if theirs.end - theirs.start != length {
        return None;
    }
    let memory = Memory::open(pid).ok()?;
    let values = memory.bytes(theirs.start, length as usize)?;
    // SAFETY: the root tells where the options are and how long; they are plain data.
    unsafe { loaded.overwrite(ours.start, &values) };
    let names = memory.u64s(sources, count)?.into_iter();
    Some(
        names
            .map(|name| (name != 0).then(|| memory.text(name, NAME_BYTES)))
            .collect(),
    )
}

fn not_told(library: &Path) -> ToolError {
    ToolError::new(
        format!("{} does not tell its options", library.display()),
        "it cannot be loaded here, or is of another version than this command",
        "give the path of a libvmag.so of this version with --lib or in VMAG_LIB",
    )
}
