//! `vmag report`: a trace and a profile as one HTML file.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::heap_view::HeapView;
use crate::page;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::source::{file_parser, spoken};
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag run --trace=t.trace --profile=p.heap -- ./program
  vmag report t.trace p.heap -o report.html   all of it
  vmag report p.heap -o report.html           who holds the memory

The file needs no network and no server: open it in a browser, or print it.";

/// Make a report: one HTML file with pictures and tables.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).multiple(true)))]
pub struct Arguments {
    /// An event trace: time line, address by time, sizes
    #[arg(long, value_name = "TRACE", group = "what", value_parser = file_parser())]
    trace: Option<PathBuf>,

    /// A heap profile: flame graph and call sites
    #[arg(long, value_name = "PROFILE", group = "what", value_parser = file_parser())]
    profile: Option<PathBuf>,

    /// A trace, a profile or both: what each is, it says itself
    #[arg(value_name = "FILE", group = "what", num_args = 0..=2, value_parser = file_parser())]
    files: Vec<PathBuf>,

    /// What the report is called
    #[arg(long, default_value = "Memory report")]
    title: String,

    /// The report
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let (traces, profiles): (Vec<&PathBuf>, Vec<&PathBuf>) =
        arguments.files.iter().partition(|path| Trace::is_one(path));
    let trace = match one_of("trace", arguments.trace.iter().chain(traces))? {
        Some(path) => {
            let mut progress = Progress::new("reading the trace");
            Some(trace_view::look(&Trace::open(path)?, &mut |part| progress.at(part))?)
        }
        None => None,
    };
    let heap = match one_of("profile", arguments.profile.iter().chain(profiles))? {
        Some(path) => Some(HeapView::new(Profile::read(path)?)),
        None => None,
    };
    let page = page::write(&arguments.title, trace.as_ref(), heap.as_ref());
    deliver(page.as_bytes(), Some(&arguments.output))?;
    Ok(Status::Exited(0))
}

fn one_of<'a>(what: &str, mut paths: impl Iterator<Item = &'a PathBuf>) -> Result<Option<&'a PathBuf>> {
    match (paths.next(), paths.next()) {
        (Some(first), Some(second)) => Err(ToolError::new(
            format!("there are two: {} and {}", spoken(first), spoken(second)),
            format!("a report is of one {what}"),
            "make a report of each; `vmag diff` compares profiles",
        )),
        (one, _) => Ok(one),
    }
}
