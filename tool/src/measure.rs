//! One measured run of a command on vmag.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::launch::{Ended, Launcher, Look};
use crate::output::say;
use crate::report::{ExitFigures, Report};
use crate::{library, program};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const REPORT_VARIABLE: &str = "VMAG_REPORT";
const LOOK_EVERY: Duration = Duration::from_millis(100);
const OPTIONS_VARIABLE: &str = "VMAG_CONF";

/// A command that has been found and can be run on vmag.
pub struct Subject {
    pub words: Vec<OsString>,
    pub program: PathBuf,
    pub library: PathBuf,
    pub asked: Asked,
}

/// What a run on vmag is asked for besides.
#[derive(Debug, Default)]
pub struct Asked {
    /// Options for VMAG_CONF, behind those that the user has there.
    pub options: Vec<String>,
    /// Libraries to preload behind vmag.
    pub libraries: Vec<&'static str>,
}

/// What vmag told about a run.
#[derive(Debug)]
pub struct Served {
    /// The command's own process used vmag.
    pub by_vmag: bool,
    /// And did not become a program that does not, as far as that was seen.
    pub to_its_end: bool,
    pub version: String,
    /// What the command's process held at its end, if it could say so.
    pub at_exit: Option<ExitFigures>,
    /// Processes that vmag served, the command's own among them: so many at least, for a forked child that calls `_exit`, is killed, or
    /// became another user who may not write to the report leaves no line there.
    pub processes: usize,
}

pub struct Measured {
    pub ended: Ended,
    pub served: Served,
}

impl Subject {
    pub fn find(words: &[OsString], named_library: Option<&Path>) -> Result<Subject> {
        let library = library::find(named_library)?;
        let program = program::find(&words[0])?;
        program::check_can_preload(&program, &library)?;
        Ok(Subject {
            words: words.to_vec(),
            program,
            library,
            asked: Asked::default(),
        })
    }

    /// Now and then it is looked whether the process became a program without vmag: `env -i` and the like empty the environment.
    pub fn run_on_vmag(&self, launcher: &mut Launcher) -> Result<Measured> {
        let mut gone = Gone::default();
        let mut look = |pid| gone.look(pid, &self.library);
        let mut measured = self.run_on_vmag_and_look(launcher, Some((LOOK_EVERY, &mut look)))?;
        measured.served.to_its_end = !gone.is_sure();
        Ok(measured)
    }

    pub fn run_on_vmag_and_look(&self, launcher: &mut Launcher, look: Option<Look>) -> Result<Measured> {
        let mut report_file = tempfile::Builder::new()
            .prefix("vmag-report-")
            .tempfile()
            .map_err(no_report)?;
        check_room(report_file.as_file()).map_err(no_report)?;
        let mut command = self.command_on_vmag();
        command.env(REPORT_VARIABLE, report_file.path());
        let ended = launcher.run_and_look(&mut command, look)?;
        // By what is held, not by name: the command may have cleared the folder. What it wrote is wanted, whatever became of the report.
        let mut text = Vec::new();
        let read = report_file.rewind().and_then(|()| report_file.read_to_end(&mut text));
        if let Err(error) = read {
            say(format_args!("{}\n", no_report(error)));
        }
        pass_on(&text, std::env::var_os(REPORT_VARIABLE).as_deref());
        let served = Served::from_report(&Report::parse(&String::from_utf8_lossy(&text)), ended.pid);
        Ok(Measured { ended, served })
    }

    /// Vmag in front of what is preloaded, and the options asked for.
    pub fn command_on_vmag(&self) -> Command {
        let preloaded = std::env::var_os("LD_PRELOAD");
        let mut command = Command::new(&self.program);
        command.arg0(&self.words[0]).args(&self.words[1..]);
        let mut preloaded = library::prepend(&self.library, preloaded.as_deref());
        for library in &self.asked.libraries {
            preloaded.push(":");
            preloaded.push(library);
        }
        command.env("LD_PRELOAD", preloaded);
        self.pass_options(&mut command);
        command
    }

    fn pass_options(&self, command: &mut Command) {
        if self.asked.options.is_empty() {
            return;
        }
        let mut options = std::env::var_os(OPTIONS_VARIABLE).unwrap_or_default();
        for option in &self.asked.options {
            if !options.is_empty() {
                options.push(",");
            }
            options.push(option);
        }
        command.env(OPTIONS_VARIABLE, options);
    }

    /// What it became at last ran without.
    pub fn not_to_the_end(&self) -> ToolError {
        ToolError::new(
            format!("{} did NOT stay on vmag", self.program.display()),
            "it became a program that the library is not in; what is told is of before",
            "leave out what drops LD_PRELOAD, as `env -i` does, or link that program with vmag",
        )
    }

    /// The command that ran although vmag never came into it.
    pub fn not_served(&self) -> ToolError {
        ToolError::new(
            format!("{} ran, but NOT on vmag", self.program.display()),
            format!(
                "{} never reported from its process, so nothing here measured vmag",
                self.library.display()
            ),
            "look above for a message of ld.so; what drops LD_PRELOAD, as `env -i` does, must be left out, or the program linked with vmag",
        )
    }
}

/// Whether a process has the library no more. Just after exec it does not have it yet: so it takes two looks in a row at the same program.
#[derive(Default)]
struct Gone {
    /// What differs from exec to exec, of one program, too: where the kernel put things.
    program: Option<(PathBuf, Vec<u8>)>,
    looks_without: u32,
}

impl Gone {
    fn look(&mut self, pid: i32, library: &Path) {
        let Ok(file) = fs::read_link(format!("/proc/{pid}/exe")) else {
            return; // it ends
        };
        let program = (file, fs::read(format!("/proc/{pid}/auxv")).unwrap_or_default());
        let is_same = self.program.as_ref() == Some(&program);
        if is_same && self.looks_without == 0 {
            return;
        }
        let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else {
            return;
        };
        let name = library.file_name().unwrap_or_default().as_bytes();
        let has = maps.windows(name.len().max(1)).any(|window| window == name);
        self.looks_without = match (has || maps.is_empty(), is_same) {
            (true, _) => 0,
            (false, true) => self.looks_without + 1,
            (false, false) => 1,
        };
        self.program = Some(program);
    }

    fn is_sure(&self) -> bool {
        self.looks_without > 1
    }
}

impl Measured {
    /// The kernel counts in coarse steps and may put the peak a little below what the process saw at its end.
    pub fn peak_resident_bytes(&self) -> u64 {
        let seen_at_exit = self.served.at_exit.as_ref().map_or(0, |figures| figures.resident_bytes);
        self.ended.usage.peak_resident_bytes.max(seen_at_exit)
    }
}

impl Served {
    fn from_report(report: &Report, pid: i32) -> Served {
        Served {
            by_vmag: report.was_loaded_by(pid),
            to_its_end: true,
            version: report.version_in(pid).unwrap_or_default().to_string(),
            at_exit: report.exit_of(pid).cloned(),
            processes: report.processes().len(),
        }
    }
}

/// On a full disk a program that runs on vmag could not say so.
fn check_room(mut file: &File) -> io::Result<()> {
    file.write_all(&[0; 4096])?;
    file.set_len(0)
}

/// Whoever started us with a report of their own still gets every line; that they miss it must not fail the run.
fn pass_on(lines: &[u8], outer_report: Option<&OsStr>) {
    let Some(path) = outer_report.filter(|path| !path.is_empty()) else {
        return;
    };
    let appended = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(lines));
    if let Err(error) = appended {
        say(format_args!(
            "vmag: warning: the report lines could not be passed on to {}: {error}\n",
            Path::new(path).display()
        ));
    }
}

fn no_report(error: io::Error) -> ToolError {
    ToolError::new(
        "cannot keep the report of the run",
        error,
        "make room in the temporary directory, or set TMPDIR",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_before_the_run() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(check_room(&full).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        assert!(check_room(&tempfile::tempfile().unwrap()).is_ok());
    }
}
