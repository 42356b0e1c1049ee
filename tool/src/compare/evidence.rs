//! Which allocator ran: what the dynamic linker bound `malloc` to, and what was mapped in running processes.
//!
//! Each allocator's first run, which is not counted, lets the linker write down every binding (LD_DEBUG of glibc). The
//! command's own process decides: all its libraries must have bound `malloc` to one file. Later runs are looked at while
//! they last: the library must be in their memory maps.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::compare::allocators::Allocator;
use crate::error::{Result, ToolError};
use std::collections::BTreeMap;
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
    /// Processes that the dynamic linker started in that run.
    pub processes: usize,
    /// Runs in whose memory the library was seen, of those that lived until somebody looked.
    pub seen: u32,
    pub looked: u32,
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
        let own = fs::read(self.folder.path().join(format!("{PREFIX}.{pid}"))).unwrap_or_default();
        Evidence {
            malloc_from: winner(&String::from_utf8_lossy(&own)),
            processes: fs::read_dir(self.folder.path()).map_or(0, Iterator::count),
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
            _ => Ok(()),
        }
    }

    /// Looks into the memory of a process that runs. False: look again later, it may not have begun yet.
    pub fn look(library: &Path, pid: i32) -> bool {
        let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        let library = library.as_os_str().as_encoded_bytes();
        maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(library))
    }
}

/// The one file that `malloc` was bound to everywhere, links resolved.
fn winner(bindings: &str) -> Option<PathBuf> {
    let mut files: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for line in bindings.lines() {
        if let Some(file) = bound_to(line, "malloc") {
            let file = Path::new(file);
            *files
                .entry(file.canonicalize().unwrap_or(file.to_path_buf()))
                .or_default() += 1;
        }
    }
    (files.len() == 1)
        .then(|| files.pop_first().map(|(file, _)| file))
        .flatten()
}

/// `…: binding file A [0] to B [0]: normal symbol `malloc' [VERSION]`: B.
fn bound_to<'a>(line: &'a str, symbol: &str) -> Option<&'a str> {
    let (_, binding) = line.split_once("binding file ")?;
    let (files, name) = binding.split_once("]: normal symbol `")?;
    let (name, _) = name.split_once('\'')?;
    let (_, to) = files.rsplit_once(" to ")?;
    let (file, _) = to.rsplit_once(" [")?;
    (name == symbol).then_some(file)
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

    const LINES: &str = "\
     7:\tbinding file /x/libc.so.6 [0] to /x/own malloc.so [0]: normal symbol `malloc' [GLIBC_2.2.5]
     7:\tbinding file ./app [0] to /x/own malloc.so [0]: normal symbol `malloc'
     7:\tbinding file ./app [0] to /x/libc.so.6 [0]: normal symbol `malloc_usable_size' [GLIBC_2.2.5]
     7:\tcalling fini: ./app [0]
";

    #[test]
    fn the_winner_is_the_file_of_all_bindings() {
        assert_eq!(winner(LINES), Some(PathBuf::from("/x/own malloc.so")));
        let torn = LINES.replace("./app [0] to /x/own malloc.so", "./app [0] to /x/libc.so.6");
        assert_eq!(winner(&torn), None);
        assert_eq!(winner(""), None);
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
