//! That files stay what they are: a library or program that is built anew between two rounds would be mixed in silently.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub struct Unchanged(Vec<(PathBuf, Option<Stamp>)>);

/// What differs of a file that was replaced or written to.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    written: Option<SystemTime>,
}

impl Unchanged {
    pub fn note<'a>(files: impl Iterator<Item = &'a Path>) -> Unchanged {
        Unchanged(files.map(|file| (file.to_path_buf(), Stamp::of(file))).collect())
    }

    pub fn check(&self) -> Result<()> {
        match self.0.iter().find(|(file, stamp)| Stamp::of(file) != *stamp) {
            None => Ok(()),
            Some((file, _)) => Err(ToolError::new(
                format!("{} changed while it was compared", file.display()),
                "rounds before and after are of different files",
                "compare again when nothing writes to it, or compare a copy",
            )),
        }
    }
}

impl Stamp {
    fn of(file: &Path) -> Option<Stamp> {
        let file = fs::metadata(file).ok()?;
        Some(Stamp {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            written: file.modified().ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_and_written_files_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a"), folder.path().join("b"));
        for path in [&file, &other] {
            fs::write(path, "x").unwrap();
        }
        let unchanged = Unchanged::note([file.as_path()].into_iter());
        assert!(unchanged.check().is_ok());
        fs::rename(&other, &file).unwrap();
        assert!(unchanged.check().unwrap_err().what.contains("changed"));
        let unchanged = Unchanged::note([file.as_path()].into_iter());
        fs::write(&file, "xy").unwrap();
        assert!(unchanged.check().is_err());
        assert!(Unchanged::note([other.as_path()].into_iter()).check().is_ok());
    }
}
