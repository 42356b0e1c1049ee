//! `vmag doctor`: which allocator a process really uses, symbol by symbol, and what limits it.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::doctor::Diagnosis;
use crate::error::{EXIT_TOOL_FAILED, Result, ToolError};
use crate::measure::Subject;
use crate::output::{doctor as output, plain, say};
use crate::program;
use crate::system::{self, Status};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

const EXAMPLES: &str = "\
Examples:
  vmag doctor 4711                  the allocator of process 4711
  vmag doctor -- python3 script.py  run it on vmag, and look at it when it ends
  vmag doctor --as-is -- ./server   run it as it is
  vmag doctor --json 4711

The dynamic linker takes the first definition of malloc in its order of search. Yet an object may reach another one: its \
own static copy, one that was opened with RTLD_LOCAL, one that it was bound to with -Bsymbolic. So what the linker wrote \
into each object's table of addresses is read and told. Calls within an object that do not pass that table cannot be \
seen; a malloc of its own is told by the name in its symbol table, unless it is stripped.

A process is only read, through /proc; a command is held for a moment at its end (ptrace). The diagnosis of a command \
comes on standard error, and the exit status is the command's.";

/// Tell which allocator a process really uses, and what limits it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The process to look at
    #[arg(value_name = "PID", required_unless_present = "words", conflicts_with = "words",
          value_parser = crate::source::pid_parser())]
    pid: Option<i32>,

    /// Give it as JSON
    #[arg(long)]
    json: bool,

    /// With a command: preload nothing
    #[arg(long, conflicts_with = "pid")]
    as_is: bool,

    /// With a command: the library to preload
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "as_is"])]
    lib: Option<PathBuf>,

    /// A command to run and to look at when it ends
    #[arg(last = true, value_name = "CMD")]
    words: Vec<OsString>,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let Some(pid) = arguments.pid else {
        return run_command(arguments);
    };
    let diagnosis = Diagnosis::of(pid)?;
    deliver(shown(arguments, &diagnosis).as_bytes(), None)?;
    Ok(Status::Exited(0))
}

fn shown(arguments: &Arguments, diagnosis: &Diagnosis) -> String {
    match arguments.json {
        true => format!("{:#}\n", output::json(diagnosis)),
        false => output::text(diagnosis),
    }
}

fn run_command(arguments: &Arguments) -> Result<Status> {
    let mut command = match arguments.as_is {
        true => as_it_is(&arguments.words)?,
        false => Subject::find(&arguments.words, arguments.lib.as_deref())?.command_on_vmag(),
    };
    let mut found = None;
    let mut look = |pid| found = Some(Diagnosis::of(pid));
    let status = system::run_until_exit(&mut command, &mut look).map_err(|error| {
        ToolError::new(
            "the command cannot be started under our eyes",
            error,
            "start it by itself, and give the number of its process",
        )
    })?;
    match found {
        Some(diagnosis) => {
            say(plain(&shown(arguments, &diagnosis?)));
            Ok(status)
        }
        None => {
            say("vmag: the command was killed before it could be looked at\n");
            Ok(match status {
                Status::Exited(0) => Status::Exited(EXIT_TOOL_FAILED),
                other => other,
            })
        }
    }
}

fn as_it_is(words: &[OsString]) -> Result<Command> {
    let mut command = Command::new(program::find(&words[0])?);
    command.arg0(&words[0]).args(&words[1..]);
    Ok(command)
}
