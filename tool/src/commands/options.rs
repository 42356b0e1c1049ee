//! `vmag options`: the options of the library, with the values and sources that a program started here would see, or
//! that a process has.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::library;
use crate::option_rows::{self, OptionRow};
use crate::system::Status;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag options                       what a program started from this shell would see
  VMAG_CONF=thp:never vmag options thp
  vmag options --pid 4711            what is in force in a process, and who said so
  vmag options --json --all

Where no source named an option, its value is the default; \"a control\" has changed it since the start of the process, for the \
profiler also `vmag attach --profile`: with --pid, prof, prof_active and lg_prof_sample are as they are now.";

/// Print the options of the library: name, value, where the value comes from, and meaning.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The library; else $VMAG_LIB, or where it is installed
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    lib: Option<PathBuf>,
    /// The options in force in this process
    #[arg(long, value_name = "PID", value_parser = crate::source::pid_parser())]
    pid: Option<i32>,
    /// Also those that are only accepted because jemalloc has them
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Give the rows as JSON
    #[arg(long)]
    json: bool,
    /// Only these
    names: Vec<String>,
}

/// Prints the table; options that no source named are told as default.
pub fn run(arguments: &Arguments) -> Result<Status> {
    let mut rows = match arguments.pid {
        Some(pid) => option_rows::of_process(pid)?,
        None => option_rows::of_library(&library::find(arguments.lib.as_deref())?)?,
    };
    let is_known = |name: &&String| rows.iter().any(|row| row.name == **name);
    if let Some(unknown) = arguments.names.iter().find(|name| !is_known(name)) {
        return Err(ToolError::new(
            format!("there is no option {unknown}"),
            "the library's table has no row of that name",
            "`vmag options --all` prints all names",
        ));
    }
    rows.retain(|row| match arguments.names.is_empty() {
        true => arguments.all || !(row.is_only_mirrored() && row.is_default()),
        false => arguments.names.contains(&row.name),
    });
    let text = match arguments.json {
        true => format!("{:#}\n", json!({"format": "vmag-options-1", "options": rows})),
        false => table(&rows),
    };
    deliver(text.as_bytes(), None)?;
    Ok(Status::Exited(0))
}

fn table(rows: &[OptionRow]) -> String {
    let mut out = String::new();
    for row in rows {
        let limits = match row.limits.as_str() {
            "" => String::new(),
            limits => format!(" ({limits})"),
        };
        let _ = writeln!(
            out,
            "{:<26} {:<12} {:<16} {}{limits}",
            row.name, row.value, row.source, row.meaning
        );
    }
    out
}
