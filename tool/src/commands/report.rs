//! `vmag report`: a trace and a profile as one HTML file.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::heap_view::{HeapView, joined};
use crate::output::destination::check_apart;
use crate::output::{check_told_apart, say, tell_written, warn_missing};
use crate::page;
use crate::process;
use crate::profile::Mapping;
use crate::progress::Progress;
use crate::source::{Source, file_parser};
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view;
use clap::{ArgGroup, Args};
use serde_json::json;
use std::collections::HashSet;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag run --trace=t.trace --profile=p.heap -- ./program
  vmag report t.trace p.heap -o report.html   all of it
  vmag report p.heap -o report.html           who holds the memory
  vmag report 4711 -o report.html             who holds that of a process that runs

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
    #[arg(long, value_name = "PROFILE", group = "what", value_parser = Source::parser())]
    profile: Option<Source>,

    /// A trace, a profile or both: what each is, it says itself; or the number of a process that runs, for its profile
    #[arg(value_name = "FILE|PID", group = "what", num_args = 0..=2, value_parser = Source::parser())]
    sources: Vec<Source>,

    /// Tell what was written as JSON
    #[arg(long)]
    json: bool,

    /// What the report is called
    #[arg(long, default_value = "Memory report")]
    title: String,

    /// The report; - is standard output
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    if arguments.json {
        check_told_apart(&arguments.output)?;
    }
    let named = arguments.trace.clone().map(Source::File);
    let inputs = named.iter().chain(&arguments.profile).chain(&arguments.sources);
    check_apart(Some(&arguments.output), inputs.filter_map(Source::path))?;
    let (traces, profiles): (Vec<&Source>, Vec<&Source>) =
        arguments.sources.iter().partition(|source| source.is_trace());
    let trace_source = one_of("trace", named.iter().chain(traces))?;
    let mut traced = None;
    let trace = match trace_source {
        None | Some(Source::Process(_)) => None,
        Some(Source::File(path)) => {
            let mut progress = Progress::new("reading the trace");
            let opened = Trace::open(path)?;
            let view = trace_view::look(&opened, &mut |part| progress.at(part))?;
            traced = Some((i64::from(opened.pid), opened.facts.mappings));
            Some(view)
        }
    };
    let profile_source = one_of("profile", arguments.profile.iter().chain(profiles))?;
    let mut heap = match profile_source {
        Some(source) => Some(HeapView::new(source.profile_if_any()?)),
        None => None,
    };
    let is_unused = trace.as_ref().is_some_and(|trace| trace.heap.is_some());
    if let Some(heap) = heap.take_if(|_| is_unused) {
        let of = heap
            .profile
            .pid
            .map_or(String::new(), |pid| format!(" of process {pid}"));
        say(format_args!(
            "vmag: the profile{of} is not in the report: the trace knows the stack of each call\n"
        ));
    }
    let [of_trace, of_profile] = [
        trace.as_ref().and_then(|trace| trace.summary.missing.clone()),
        heap.as_ref().and_then(page::missing_of),
    ];
    let name = |source: Option<&Source>| source.map_or(String::new(), Source::name);
    warn_missing(&name(trace_source), of_trace.as_deref());
    warn_missing(&name(profile_source), of_profile.as_deref());
    let is_of_another = match (&traced, &heap, profile_source) {
        (Some((pid, mappings)), Some(heap), Some(source)) => {
            let number = own_number(source).or(heap.profile.pid);
            let is_of_another = is_another(*pid, mappings, number, &heap.profile.mappings);
            let told = format!("it is not of the traced process, {pid}: what it says of sizes need not hold there");
            warn_missing(&source.name(), is_of_another.then_some(&told));
            is_of_another
        }
        _ => false,
    };
    let page = page::write(&arguments.title, trace.as_ref(), heap.as_ref(), is_of_another);
    deliver(page.as_bytes(), Some(&arguments.output))?;
    if arguments.json {
        let missing = joined(of_trace, of_profile);
        tell_written("vmag-report-1", &arguments.output, json!({"missing": missing}))?;
    }
    Ok(Status::Exited(0))
}

/// By which a process in a container names itself in its traces, too.
fn own_number(source: &Source) -> Option<i64> {
    match source {
        Source::Process(pid) => process::own_number(*pid).map(i64::from),
        Source::File(_) => None,
    }
}

/// In containers all have one number, and a process may have become another program: that has no code where the first had some.
fn is_another(pid: i64, mappings: &[Mapping], other_pid: Option<i64>, others: &[Mapping]) -> bool {
    // The kernel's own page is where it is in all processes.
    let files = |mappings: &[Mapping]| -> HashSet<u64> {
        let files = mappings.iter().filter(|map| map.path.starts_with('/'));
        files.map(|map| map.start).collect()
    };
    let (own, other) = (files(mappings), files(others));
    other_pid.is_some_and(|other| other != pid) || (!own.is_empty() && !other.is_empty() && own.is_disjoint(&other))
}

fn one_of<'a>(what: &str, mut sources: impl Iterator<Item = &'a Source>) -> Result<Option<&'a Source>> {
    match (sources.next(), sources.next()) {
        (Some(first), Some(second)) => {
            first.check_there()?;
            second.check_there()?;
            Err(ToolError::new(
                format!("there are two: {} and {}", first.spoken(), second.spoken()),
                format!("a report is of one {what}"),
                "make a report of each; `vmag diff` compares profiles",
            ))
        }
        (one, _) => Ok(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_has_another_number_or_other_code() {
        let code = |starts: &[u64]| -> Vec<Mapping> {
            let vsyscall = (0xffff_ffff_ff60_0000, "[vsyscall]");
            let files = starts.iter().map(|start| (*start, "/bin/a"));
            let mapping = |(start, path): (u64, &str)| Mapping {
                start,
                end: start + 0x1000,
                offset: 0,
                path: path.to_string(),
                build_id: None,
            };
            files.chain([vsyscall]).map(mapping).collect()
        };
        let (first, second) = (code(&[0x1000, 0x5000]), code(&[0x3000, 0x7000]));
        let unloaded = code(&[0x5000]);
        assert!(is_another(7, &first, Some(8), &first));
        assert!(is_another(1, &first, Some(1), &second));
        assert!(!is_another(7, &first, Some(7), &unloaded));
        // What does not tell is not doubted.
        assert!(!is_another(7, &first, None, &first) && !is_another(7, &first, Some(7), &[]));
    }
}
