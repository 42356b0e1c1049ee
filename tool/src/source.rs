//! Where a profile comes from: a file, or a process that runs.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::Process;
use crate::error::{Result, ToolError};
use crate::profile::Profile;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As it is given on the command line: a number is a process unless a file has that name.
#[derive(Debug, Clone)]
pub enum Source {
    Process(i32),
    File(PathBuf),
}

impl Source {
    pub fn parse(word: &str) -> std::result::Result<Source, String> {
        match word.parse() {
            Ok(pid) if pid > 0 && !Path::new(word).exists() => Ok(Source::Process(pid)),
            _ => Ok(Source::File(PathBuf::from(word))),
        }
    }

    pub fn is_process(&self) -> bool {
        matches!(self, Source::Process(_))
    }

    pub fn profile(&self) -> Result<Profile> {
        match self {
            Source::Process(pid) => Process::attach(*pid)?.profile(),
            Source::File(path) => Profile::read(path),
        }
    }

    /// So many profiles of a process, one after the other; of a file there is only one.
    pub fn profiles(&self, count: usize, pause: Duration) -> Result<Vec<Profile>> {
        let Source::Process(pid) = self else {
            return Err(ToolError::new(
                format!("cannot look at {} a second time", self.name()),
                "it is a file, and does not change",
                "name two files, or the number of a process",
            ));
        };
        let process = Process::attach(*pid)?;
        let mut profiles = vec![process.profile()?];
        while profiles.len() < count {
            std::thread::sleep(pause);
            profiles.push(process.profile()?);
        }
        Ok(profiles)
    }

    /// For titles.
    pub fn name(&self) -> String {
        match self {
            Source::Process(pid) => format!("process {pid}"),
            Source::File(path) => path
                .file_name()
                .map_or(String::new(), |name| name.to_string_lossy().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_process() {
        assert!(matches!(Source::parse("4711"), Ok(Source::Process(4711))));
        assert!(matches!(Source::parse("0"), Ok(Source::File(_))));
        assert!(matches!(Source::parse("p.heap"), Ok(Source::File(_))));
    }
}
