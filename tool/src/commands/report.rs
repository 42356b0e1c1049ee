//! `vmag report`: a trace and a profile as one HTML file.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::Result;
use crate::heap_view::HeapView;
use crate::page;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::source::file_parser;
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag run --trace=t.trace --profile=p.heap -- ./program
  vmag report --trace t.trace --profile p.heap -o report.html   all of it
  vmag report --profile p.heap -o report.html                   who holds the memory

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

    /// What the report is called
    #[arg(long, default_value = "Memory report")]
    title: String,

    /// The report
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let trace = match &arguments.trace {
        Some(path) => {
            let mut progress = Progress::new("reading the trace");
            Some(trace_view::look(&Trace::open(path)?, &mut |part| progress.at(part))?)
        }
        None => None,
    };
    let heap = match &arguments.profile {
        Some(path) => Some(HeapView::new(Profile::read(path)?)),
        None => None,
    };
    let page = page::write(&arguments.title, trace.as_ref(), heap.as_ref());
    deliver(page.as_bytes(), Some(&arguments.output))?;
    Ok(Status::Exited(0))
}
