//! `vmag trace`: what an event trace says in numbers, or its events one by one.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::{deliver, unless_unread, write_file};
use crate::error::Result;
use crate::export::events;
use crate::output::destination::{check_apart, named};
use crate::output::figures::{bytes, count, counted, short_time};
use crate::output::{in_line, warn_missing};
use crate::progress::Progress;
use crate::source::{file_parser, spoken};
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view::{self, Source, Summary};
use clap::Args;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  vmag run --trace=t.trace -- ./program    make a trace
  vmag trace t.trace                       what happened, by size
  vmag trace --json t.trace                the same for a script
  vmag trace --events -o t.csv t.trace     every event: time, thread, kind, address, size, who
  vmag trace --events -o t.parquet t.trace  the same for DuckDB, pandas and their kin
  vmag map t.trace -o t.png                address by time, as a picture

A trace of a process that was killed is read up to its last whole chunks.";

/// Show what an event trace says.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Give the figures as JSON
    #[arg(long, conflicts_with = "top")]
    json: bool,

    /// Write all events: as comma-separated values, or as Parquet to a file of that ending; with who allocated, where the trace has stacks
    #[arg(long, conflicts_with_all = ["json", "top"])]
    events: bool,

    /// How many sizes, caches and arenas to show
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,

    /// Where to write; standard output without it, or as -
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The trace
    #[arg(value_name = "TRACE", value_parser = file_parser())]
    trace: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    check_apart(arguments.output.as_deref(), [arguments.trace.as_path()])?;
    let trace = Trace::open(&arguments.trace)?;
    if arguments.events {
        write_events(&trace, arguments.output.as_deref())?;
        return Ok(Status::Exited(0));
    }
    let mut progress = Progress::new("reading the trace");
    let summary = trace_view::summary(&trace, &mut |part| progress.at(part))?;
    drop(progress);
    let out = if arguments.json {
        let mut value = serde_json::to_value(&summary).expect("figures are plain numbers");
        value["format"] = "vmag-trace-1".into();
        format!("{value:#}\n")
    } else {
        as_text(&summary, arguments.top)
    };
    deliver(out.as_bytes(), arguments.output.as_deref())?;
    Ok(Status::Exited(0))
}

fn as_text(summary: &Summary, top: usize) -> String {
    let mut out = format!(
        "process {}, {}, {}, {} in a file of {}\n",
        summary.pid,
        short_time(summary.seconds),
        counted(summary.threads as u64, "thread"),
        counted(summary.events, "event"),
        bytes(summary.file_bytes)
    );
    let _ = writeln!(
        out,
        "allocated {} in {}, {}, {}",
        bytes(summary.allocated_bytes),
        counted(summary.allocations, "object"),
        counted(summary.frees, "free"),
        counted(summary.resizes, "resize")
    );
    let _ = writeln!(
        out,
        "alive     {} at the peak (after {}), {} in {} at the end",
        bytes(summary.peak_live_bytes),
        short_time(summary.peak_seconds),
        bytes(summary.live_bytes_at_end),
        counted(summary.live_objects_at_end, "object")
    );
    if summary.unknown_frees > 0 {
        let _ = writeln!(
            out,
            "{} of objects from before the trace",
            counted(summary.unknown_frees, "free")
        );
    }
    if let Some(missing) = &summary.missing {
        let _ = writeln!(out, "warning: {missing}");
    }
    let _ = writeln!(
        out,
        "\n{:>11} {:>13} {:>13} {:>13} {:>13}",
        "size", "allocated", "freed", "alive", "most alive"
    );
    let mut classes: Vec<_> = summary.classes.iter().collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.allocations));
    for class in classes.iter().take(top) {
        let _ = writeln!(
            out,
            "{:>11} {:>13} {:>13} {:>13} {:>13}",
            bytes(class.bytes),
            count(class.allocations),
            count(class.frees),
            count(class.live_at_end),
            count(class.peak_live)
        );
    }
    if classes.len() > top {
        let _ = writeln!(out, "and {} more (--top N)", classes.len() - top);
    }
    lifetimes(&mut out, summary);
    sources(&mut out, "object cache", &summary.caches, top);
    sources(&mut out, "arena; alive is a sum of sizes", &summary.arenas, top);
    out
}

/// Those that allocated most often. Of caches objects are alive, of arenas what they hand out.
fn sources(out: &mut String, title: &str, sources: &[Source], top: usize) {
    if sources.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:>11} {:>13} {:>13} {:>13}  {title}",
        "allocated", "freed", "alive", "most alive"
    );
    let mut sources: Vec<_> = sources.iter().collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.allocations));
    for source in sources.iter().take(top) {
        let _ = writeln!(
            out,
            "{:>11} {:>13} {:>13} {:>13}  {}",
            count(source.allocations),
            count(source.frees),
            // Below none: what was there before the trace was freed.
            count(source.live.max(0) as u64),
            count(source.peak_live.max(0) as u64),
            in_line(&source.name)
        );
    }
    if sources.len() > top {
        let _ = writeln!(out, "and {} more (--top N)", sources.len() - top);
    }
}

fn lifetimes(out: &mut String, summary: &Summary) {
    let all: u64 = summary.lived.iter().map(|step| step.objects).sum();
    if all == 0 {
        return;
    }
    out.push_str("\nfreed objects lived\n");
    for step in &summary.lived {
        let share = 100.0 * step.objects as f64 / all as f64;
        let label = match step.up_to_ns {
            Some(ns) => format!("up to {}", whole_time(ns)),
            None => "longer".to_string(),
        };
        let _ = writeln!(out, "{label:>13} {share:5.1}%  {}", "█".repeat((share / 2.5) as usize));
    }
}

/// Of a number of nanoseconds that is one of a larger unit.
fn whole_time(ns: u64) -> String {
    match ns {
        1_000_000_000.. => format!("{} s", ns / 1_000_000_000),
        1_000_000.. => format!("{} ms", ns / 1_000_000),
        _ => format!("{} µs", ns / 1_000),
    }
}

fn write_events(trace: &Trace, output: Option<&Path>) -> Result<()> {
    let output = output.and_then(named);
    let is_parquet = output.is_some_and(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    let mut missing = None;
    let mut write = |out: &mut (dyn Write + Send)| {
        let out = BufWriter::new(out);
        missing = match is_parquet {
            true => events::as_parquet(trace, out)?,
            false => events::as_csv(trace, out)?,
        };
        Ok(())
    };
    match output {
        Some(path) => write_file(path, write)?,
        None => unless_unread(write(&mut io::stdout()))?,
    }
    warn_missing(&spoken(trace.path()), missing.as_deref());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_view::Lived;

    #[test]
    fn the_size_of_a_file_is_not_of_its_events() {
        let summary = Summary {
            events: 1,
            file_bytes: 67_379,
            ..Summary::default()
        };
        let told = as_text(&summary, 0);
        assert!(told.contains("1 event in a file of 65.8 KiB\n"), "{told}");
    }

    #[test]
    fn lifetimes_are_told_as_they_are_counted() {
        let mut lived = Lived::steps();
        for ns in [1000, 131_000, 134_000_000, 8_600_000_000, 11_000_000_000] {
            lived.iter_mut().find(|step| step.has(ns)).unwrap().objects += 1;
        }
        let mut out = String::new();
        let summary = Summary {
            lived,
            ..Summary::default()
        };
        lifetimes(&mut out, &summary);
        let told = |label: &str| out.contains(&format!("{label}  20.0%"));
        assert!(told("up to 1 µs") && told("up to 1 ms") && told("longer"), "{out}");
        assert!(
            out.contains("up to 10 s  40.0%") && out.contains("up to 100 µs   0.0%"),
            "{out}"
        );
    }
}
