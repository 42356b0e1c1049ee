//! Which allocator ran: what the dynamic linker bound `malloc` to, and what was mapped in running processes.
//!
//! Each allocator's first run, which is not counted, lets the linker write down every binding (LD_DEBUG of glibc). The
//! command's own process decides: all its libraries must have bound `malloc` to one file; its other processes are counted. All runs
//! are looked at while they last: the library must be in the command's memory map.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::compare::allocators::Allocator;
use crate::error::{Result, ToolError};
use crate::library;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const PREFIX: &str = "bindings";

/// What is known of an allocator's runs.
#[derive(Debug, Default, Clone)]
pub struct Evidence {
    /// The file that `malloc` of the command's process came from.
    pub malloc_from: Option<PathBuf>,
    /// Processes that the dynamic linker started in that run, and those of them with another malloc.
    pub processes: usize,
    pub processes_elsewhere: usize,
    /// Runs in whose memory the library was seen, of those that were looked at long enough to tell.
    pub seen: u32,
    pub looked: u32,
    /// Processes of all runs that ran on after the command and were ended, lest they disturb the next run.
    pub ran_on: u64,
}

/// What was seen of one run.
#[derive(Default)]
pub struct Sight {
    is_seen: bool,
    looks_in_vain: u32,
    pub ran_on: u64,
}

/// Where the linker of one run writes.
pub struct Bindings {
    folder: TempDir,
}

impl Bindings {
    pub fn ask_for(command: &mut Command) -> Result<Bindings> {
        let folder = tempfile::tempdir().map_err(no_folder)?;
        command.env("LD_DEBUG", "bindings");
        command.env("LD_DEBUG_OUTPUT", folder.path().join(PREFIX));
        Ok(Bindings { folder })
    }

    /// After the run of process `pid`.
    pub fn read(&self, pid: i32) -> Evidence {
        let sources = |file: &Path| malloc_sources(&String::from_utf8_lossy(&fs::read(file).unwrap_or_default()));
        let own = sources(&self.folder.path().join(format!("{PREFIX}.{pid}")));
        let is_one = own.len() == 1;
        let files = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let of_all: Vec<BTreeSet<PathBuf>> = files.map(|file| sources(&file.path())).collect();
        Evidence {
            processes: of_all.len(),
            processes_elsewhere: of_all.iter().filter(|sources| !sources.is_subset(&own)).count(),
            malloc_from: own.into_iter().next().filter(|_| is_one),
            ..Evidence::default()
        }
    }
}

impl Evidence {
    /// Whether it was this allocator; else what ran in its place.
    pub fn agrees(&self, allocator: &Allocator) -> std::result::Result<(), String> {
        match (&allocator.library, &self.malloc_from) {
            (_, None) => Err("the dynamic linker bound malloc to nothing, or to more than one file".to_string()),
            (Some(library), Some(file)) if file != library => Err(format!("malloc came from {}", file.display())),
            (None, Some(file)) if library::is_vmag(file) => {
                Err(format!("malloc came from {}, which is vmag", file.display()))
            }
            _ if self.is_never_seen() => {
                Err("its library was never in the memory of the command's process, as after `env -i`".to_string())
            }
            _ => Ok(()),
        }
    }

    pub fn note(&mut self, sight: &Sight) {
        self.seen += u32::from(sight.is_seen);
        self.looked += u32::from(sight.tells());
        self.ran_on += sight.ran_on;
    }

    fn is_never_seen(&self) -> bool {
        self.looked > 0 && self.seen == 0
    }
}

impl Sight {
    /// Looks into the memory of a process that runs. One look in vain tells nothing: it may not have begun yet.
    pub fn look(&mut self, library: &Path, pid: i32) {
        if self.is_seen {
            return;
        }
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let library = library.as_os_str().as_encoded_bytes();
        self.is_seen = maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(library));
        let program = |of: &str| fs::read_link(format!("/proc/{of}/exe")).ok();
        let has_begun = program(&pid.to_string()) != program("self"); // until it has, what is mapped is ours
        self.looks_in_vain += u32::from(!self.is_seen && has_begun && !maps.is_empty());
    }

    fn tells(&self) -> bool {
        self.is_seen || self.looks_in_vain > 1
    }
}

/// The files that `malloc` was bound to, links resolved. A program that is not position-independent and takes the address of
/// `malloc` (Debian's python3) has an entry for it, to which all others are bound, and goes on from there: it is no source.
fn malloc_sources(bindings: &str) -> BTreeSet<PathBuf> {
    let programs: BTreeSet<&str> = bindings.lines().filter_map(started).collect();
    let found: BTreeSet<(&str, &str)> = bindings.lines().filter_map(|line| bound(line, "malloc")).collect();
    let hands_on = |file| programs.contains(file) && found.iter().any(|&(from, to)| from == file && to != file);
    let files = found.iter().map(|&(_, to)| to).filter(|file| !hands_on(*file));
    files
        .map(|file| Path::new(file).canonicalize().unwrap_or(PathBuf::from(file)))
        .collect()
}

/// `…: initialize program: A`: A.
fn started(line: &str) -> Option<&str> {
    Some(line.split_once("\tinitialize program: ")?.1)
}

/// `…: binding file A [0] to B [0]: normal symbol `malloc' [VERSION]`: A and B.
fn bound<'a>(line: &'a str, symbol: &str) -> Option<(&'a str, &'a str)> {
    let (_, binding) = line.split_once("binding file ")?;
    let (files, name) = binding.split_once("]: normal symbol `")?;
    let (name, _) = name.split_once('\'')?;
    let (from, to) = files.rsplit_once(" to ")?;
    let ((from, _), (to, _)) = (from.rsplit_once(" [")?, to.rsplit_once(" [")?);
    (name == symbol).then_some((from, to))
}

fn no_folder(error: io::Error) -> ToolError {
    ToolError::new(
        "cannot keep what the dynamic linker tells",
        error,
        "make room in the temporary directory, or set TMPDIR",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const LINES: &str = "\
     7:\tbinding file /x/libc.so.6 [0] to /x/own malloc.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
     7:\tbinding file ./app [0] to /x/own malloc.so [0]: normal symbol `malloc'
     7:\tbinding file ./app [0] to /x/libc.so.6 [0]: normal symbol `malloc_usable_size' [GLIBC_2.2.5]
     7:\tcalling fini: ./app [0]
";

    #[test]
    fn all_files_that_malloc_was_bound_to_are_found() {
        assert_eq!(malloc_sources(LINES), [PathBuf::from("/x/own malloc.so")].into());
        let torn = LINES.replace("./app [0] to /x/own malloc.so", "./app [0] to /x/libc.so.6");
        assert_eq!(malloc_sources(&torn).len(), 2);
        assert!(malloc_sources("").is_empty());
    }

    #[test]
    fn a_program_that_hands_malloc_on_is_no_source() {
        let lines = LINES.replace(
            "./app [0] to /x/own",
            "./app [0] to ./app [0]: normal symbol `malloc'\n7:\tbinding file ./app [0] to /x/own",
        );
        assert_eq!(malloc_sources(&lines).len(), 2);
        let lines = format!("{lines}     7:\tinitialize program: ./app\n");
        assert_eq!(malloc_sources(&lines), [PathBuf::from("/x/own malloc.so")].into());
        let own = "7:\tbinding file ./app [0] to ./app [0]: normal symbol `malloc'\n7:\tinitialize program: ./app\n";
        assert_eq!(malloc_sources(own), [PathBuf::from("./app")].into());
    }

    /// A command is begun before the kernel has mapped it: until then a look counts for nothing.
    fn wait_until_mapped(program: &Path, pid: i32) {
        let is_mapped = || {
            let mut sight = Sight::default();
            sight.look(program, pid);
            sight.is_seen
        };
        let found = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            is_mapped()
        });
        assert!(found);
    }

    #[test]
    fn one_look_in_vain_tells_nothing() {
        let mut command = Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, mut evidence, mut sight) = (command.id() as i32, Evidence::default(), Sight::default());
        for _ in 0..3 {
            sight.look(Path::new("/x/a.so"), std::process::id() as i32); // what has not become the command yet
        }
        assert!(!sight.tells());
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        wait_until_mapped(&program, pid);
        sight.look(Path::new("/x/a.so"), pid);
        assert!(!sight.tells());
        sight.look(Path::new("/x/a.so"), pid);
        evidence.note(&sight);
        assert!(sight.tells() && evidence.is_never_seen());
        sight.look(&program, pid);
        command.kill().unwrap();
        command.wait().unwrap();
        evidence.note(&sight);
        assert_eq!((evidence.seen, evidence.looked), (1, 2));
    }

    #[test]
    fn another_library_than_the_wanted_one_is_told() {
        let allocator = |library: Option<&str>| Allocator {
            name: "a".to_string(),
            library: library.map(PathBuf::from),
            version: None,
        };
        let evidence = Evidence {
            malloc_from: Some("/x/a.so".into()),
            ..Evidence::default()
        };
        assert_eq!(evidence.agrees(&allocator(Some("/x/a.so"))), Ok(()));
        assert!(
            evidence
                .agrees(&allocator(Some("/x/b.so")))
                .unwrap_err()
                .contains("/x/a.so")
        );
        assert_eq!(evidence.agrees(&allocator(None)), Ok(()));
        assert!(Evidence::default().agrees(&allocator(None)).is_err());
    }
}
