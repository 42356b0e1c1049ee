//! What a run leaves behind when it was asked to record: the options for it, and the files afterwards.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::measure::Asked;
use clap::ValueEnum;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How callers are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Callers {
    /// By unwind tables: any program, with libgcc's unwinder
    Tables,
    /// By frame pointers: cheaper, for code that was built with them
    Frames,
}

impl Callers {
    fn word(self) -> &'static str {
        match self {
            Callers::Tables => "tables",
            Callers::Frames => "frames",
        }
    }
}

/// Has the unwinder by tables.
const LIBGCC: &str = "libgcc_s.so.1";

/// A heap profile that a run is to leave in a file.
pub struct ProfileWanted {
    file: PathBuf,
    folder: TempDir,
}

/// The profiles that came of it.
pub struct ProfilesWritten {
    /// Of the command's own process; None when it left none.
    pub own: Option<PathBuf>,
    pub of_children: Vec<PathBuf>,
}

impl ProfileWanted {
    /// `sample_bytes`: the mean distance of samples, rounded to a power of two.
    pub fn new(file: &Path, sample_bytes: u64, callers: Callers, asked: &mut Asked) -> Result<ProfileWanted> {
        let folder = tempfile::Builder::new()
            .prefix("vmag-profile-")
            .tempdir()
            .map_err(|error| {
                ToolError::new(
                    "cannot keep profiles",
                    error,
                    "make room in the temporary directory, or set TMPDIR",
                )
            })?;
        let lg = sample_bytes.max(1).ilog2();
        let prefix = folder.path().join("p").display().to_string();
        for option in [
            "prof:true".to_string(),
            "prof_final:true".to_string(),
            "prof_accum:true".to_string(),
            format!("lg_prof_sample:{lg}"),
            format!("prof_unwinder:{}", callers.word()),
            format!("prof_prefix:{prefix}"),
        ] {
            asked.options.push(option);
        }
        if callers == Callers::Tables {
            asked.libraries.push(LIBGCC);
        }
        Ok(ProfileWanted {
            file: file.to_path_buf(),
            folder,
        })
    }

    /// Puts the profile of process `pid` where it was wanted, and those of its children beside it, by process number.
    pub fn collect(&self, pid: i32) -> Result<ProfilesWritten> {
        let mut written = ProfilesWritten {
            own: None,
            of_children: Vec::new(),
        };
        for entry in fs::read_dir(self.folder.path())
            .map_err(|error| self.lost(error))?
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(of) = name
                .strip_prefix("p.")
                .and_then(|rest| rest.split('.').next()?.parse::<i32>().ok())
            else {
                continue;
            };
            let to = if of == pid {
                self.file.clone()
            } else {
                numbered(&self.file, of)
            };
            fs::copy(entry.path(), &to).map_err(|error| self.lost(error))?;
            if of == pid {
                written.own = Some(to);
            } else {
                written.of_children.push(to);
            }
        }
        Ok(written)
    }

    fn lost(&self, error: io::Error) -> ToolError {
        ToolError::new(
            format!("cannot write the profile {}", self.file.display()),
            error,
            "name a file that can be written with --profile=FILE",
        )
    }
}

/// How much of an event trace is wanted.
pub struct TraceLimits {
    pub most_bytes: u64,
    /// 0: no limit.
    pub most_seconds: u64,
    pub ring: bool,
    /// The stack of each event, found so.
    pub stacks: Option<Callers>,
}

/// An event trace that a run is to leave in a file.
pub struct TraceWanted {
    file: PathBuf,
    folder: TempDir,
}

impl TraceWanted {
    /// Beside the file, for traces are large and are to be moved, not copied.
    pub fn new(file: &Path, how: &TraceLimits, asked: &mut Asked) -> Result<TraceWanted> {
        let beside = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let folder = tempfile::Builder::new()
            .prefix(".vmag-trace-")
            .tempdir_in(beside)
            .map_err(|error| cannot_keep(file, error))?;
        let path = folder.path().canonicalize().map_err(|error| cannot_keep(file, error))?;
        asked.options.push(format!("trace:{}", path.join("t").display()));
        asked.options.push(format!("trace_bytes:{}", how.most_bytes));
        asked.options.push(format!("trace_seconds:{}", how.most_seconds));
        asked.options.push(format!("trace_ring:{}", how.ring));
        if let Some(callers) = how.stacks {
            asked.options.push("trace_stacks:true".to_string());
            asked.options.push(format!("prof_unwinder:{}", callers.word()));
            if callers == Callers::Tables && !asked.libraries.contains(&LIBGCC) {
                asked.libraries.push(LIBGCC);
            }
        }
        Ok(TraceWanted {
            file: file.to_path_buf(),
            folder,
        })
    }

    /// Puts the trace of process `pid` where it was wanted; those of its children beside it. The last program that the
    /// process became wrote the last one.
    pub fn collect(&self, pid: i32) -> Result<ProfilesWritten> {
        let mut written = ProfilesWritten {
            own: None,
            of_children: Vec::new(),
        };
        let entries = fs::read_dir(self.folder.path()).map_err(|error| cannot_keep(&self.file, error))?;
        let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        names.sort();
        for path in names {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(of) = name
                .strip_prefix("t.")
                .and_then(|rest| rest.split('.').next()?.parse::<i32>().ok())
            else {
                continue;
            };
            let to = if of == pid {
                self.file.clone()
            } else {
                numbered(&self.file, of)
            };
            fs::rename(&path, &to).map_err(|error| cannot_keep(&self.file, error))?;
            if of == pid {
                written.own = Some(to);
            } else {
                written.of_children.push(to);
            }
        }
        Ok(written)
    }
}

fn cannot_keep(file: &Path, error: io::Error) -> ToolError {
    ToolError::new(
        format!("cannot write the trace {}", file.display()),
        error,
        "name a file that can be written with --trace=FILE",
    )
}

/// "p.heap" of process 7 is "p.7.heap".
fn numbered(file: &Path, pid: i32) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_os_string();
    name.push(format!(".{pid}"));
    if let Some(extension) = file.extension() {
        name.push(".");
        name.push(extension);
    }
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_are_numbered() {
        assert_eq!(numbered(Path::new("/a/p.heap"), 7), Path::new("/a/p.7.heap"));
        assert_eq!(numbered(Path::new("p"), 7), Path::new("p.7"));
    }

    #[test]
    fn profiles_go_where_they_were_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let mut asked = Asked::default();
        let wanted = ProfileWanted::new(&folder.path().join("x.heap"), 1 << 19, Callers::Tables, &mut asked).unwrap();
        assert!(asked.options.contains(&"lg_prof_sample:19".to_string()));
        fs::write(wanted.folder.path().join("p.7.0.f.heap"), "seven").unwrap();
        fs::write(wanted.folder.path().join("p.8.0.f.heap"), "eight").unwrap();
        let written = wanted.collect(7).unwrap();
        assert_eq!(fs::read_to_string(written.own.unwrap()).unwrap(), "seven");
        assert_eq!(written.of_children, [folder.path().join("x.8.heap")]);
        assert!(wanted.collect(9).unwrap().own.is_none());
    }
}
