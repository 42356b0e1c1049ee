//! `vmag heap`: shows a heap profile, or turns it into what other tools read.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::export;
use crate::heap_view::{HeapView, Measure};
use crate::output::destination::{Destination, check_apart, named};
use crate::output::json::{frames, with_estimate, with_rows};
use crate::output::{heap as text, plain, warn_missing};
use crate::source::Source;
use crate::system::Status;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  vmag run --profile=p.heap -- ./server      make a profile
  vmag heap p.heap                           what is alive, by call site
  vmag heap --measure all-objects p.heap     what was allocated most often
  vmag heap --format flame -o p.svg p.heap   a flame graph
  vmag heap 4711                             the profile of a process that runs, as it is now
  vmag heap --format pprof -o p.pb.gz p.heap  for pprof, Parca and Pyroscope

Profiles are those of `vmag run --profile`, of prof_final, prof_gdump and lg_prof_interval, and of the control prof.dump; \
those of jemalloc are read, too. A process is only read, nothing in it stops; it must be yours and be profiled: started with \
`vmag run --profile` or prof:true, or switched on by `vmag attach --profile 512k PID`.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table
    Text,
    /// A flame graph, SVG
    Flame,
    /// profile.proto, gzipped
    Pprof,
    /// "main;f;g 123"
    Collapsed,
    /// For speedscope.app
    Speedscope,
    /// A line a stack, size, thread and arena
    Csv,
    /// The same as columns, for DuckDB, pandas and their kin
    Parquet,
    /// Sites with all their frames
    Json,
    /// heap_v2, for jeprof and for this command again
    Heap,
}

/// Show a heap profile: which call sites hold the memory.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What to count
    #[arg(long, value_enum, default_value = "live-bytes")]
    measure: Measure,

    /// What to write
    #[arg(long, value_enum, default_value = "text")]
    format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// With text: how many sites to show [default: 20]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// With text: all callers of each site
    #[arg(long)]
    full: bool,

    /// Where to write; standard output without it, or as -
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// A profile, or the number of a process that runs
    #[arg(value_name = "PROFILE|PID", value_parser = Source::parser())]
    profile: Source,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    check_apart(arguments.output.as_deref(), arguments.profile.path())?;
    let format = if arguments.json { Format::Json } else { arguments.format };
    if format != Format::Text && (arguments.full || arguments.top.is_some()) {
        return Err(ToolError::new(
            "cannot show less or more of it",
            "--top and --full are of text; the other formats have all sites and all callers",
            "leave them out, or --format and --json",
        ));
    }
    let view = HeapView::new(arguments.profile.profile()?);
    let title = arguments.profile.name();
    let output = arguments.output.as_deref();
    match format {
        Format::Text => deliver(as_text(arguments, &view).as_bytes(), output)?,
        other => deliver_as(&view, other, arguments.measure, &title, output)?,
    }
    Ok(Status::Exited(0))
}

/// Any format but text of the command's own.
pub fn deliver_as(
    view: &HeapView,
    format: Format,
    measure: Measure,
    title: &str,
    output: Option<&Path>,
) -> Result<()> {
    let output = output.and_then(named);
    if ![Format::Text, Format::Json].contains(&format) {
        warn_missing(title, missing_in(view, format, measure).as_deref());
    }
    if output.is_none() && io::stdout().is_terminal() {
        let mut bytes = Vec::new();
        render(view, format, measure, title, &mut bytes).expect("memory can be written to");
        return deliver(&bytes, None);
    }
    let Some(path) = output else {
        let mut out = BufWriter::new(io::stdout());
        let done = render(view, format, measure, title, &mut out).and_then(|()| out.flush());
        return unless_unread(done);
    };
    write_file(path, |out| {
        let mut out = BufWriter::new(out);
        render(view, format, measure, title, &mut out)?;
        out.flush()
    })
}

/// What is not in it: some formats hold what is alive and all that was allocated, whatever is counted.
pub fn missing_in(view: &HeapView, format: Format, measure: Measure) -> Option<String> {
    let measure = match format {
        Format::Pprof | Format::Csv | Format::Parquet => measure.since_the_beginning(),
        _ => measure,
    };
    view.missing_and_lost(measure)
}

fn render(view: &HeapView, format: Format, measure: Measure, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let bytes = match format {
        Format::Collapsed => return export::collapsed::write(view, measure, out),
        Format::Text => text::table(view, measure, usize::MAX).into_bytes(),
        Format::Flame => export::flame::write(view, measure, title).into_bytes(),
        Format::Pprof => export::pprof::write(view),
        Format::Speedscope => export::speedscope::write(view, measure, title).into_bytes(),
        Format::Csv => export::csv::write(view).into_bytes(),
        Format::Parquet => export::parquet::write(view),
        Format::Json => as_json(view, measure).into_bytes(),
        Format::Heap => export::heap_v2::write(&view.profile).into_bytes(),
    };
    out.write_all(&bytes)
}

fn as_text(arguments: &Arguments, view: &HeapView) -> String {
    if let (Source::Process(pid), true) = (&arguments.profile, view.profile.samples.is_empty()) {
        return format!(
            "nothing was sampled in process {pid} yet; unless its profile is on, `vmag attach --profile 512k {pid}` switches it on\n"
        );
    }
    let mut out = text::head(view, arguments.measure);
    if view.profile.samples.is_empty() && view.profile.lg_sample != Some(0) {
        return out; // that nothing was sampled
    }
    let top = arguments.top.unwrap_or(20);
    out.push_str(&text::table(view, arguments.measure, top));
    out.push_str(&text::caches(view, arguments.measure));
    if arguments.full {
        for site in view.sites(arguments.measure).iter().take(top) {
            let value = text::amount(arguments.measure.of(&site.estimate), arguments.measure);
            out.push_str(&format!("\n{value:>11}\n{}", text::full_stack(site)));
        }
    }
    out
}

fn as_json(view: &HeapView, measure: Measure) -> String {
    let sites = view.sites(measure);
    let sites = sites
        .iter()
        .map(|site| with_estimate(json!({"frames": frames(site.frames)}), &site.estimate));
    let caches = view.caches(measure);
    let caches: Vec<_> = caches
        .iter()
        .map(|(name, sum)| with_estimate(json!({"name": name}), sum))
        .collect();
    let value = json!({
        "format": "vmag-heap-1", "measure": measure.title(), "pid": view.profile.pid, "time": view.profile.time,
        "lg_sample": view.profile.lg_sample, "lost_samples": view.profile.lost, "missing": view.missing_of(measure),
        "caches": caches,
    });
    with_rows(&with_estimate(value, &view.sum(measure)), "sites", sites) + "\n"
}

/// To the file, or to standard output; that nobody reads that any more is no failure.
pub fn deliver(bytes: &[u8], output: Option<&Path>) -> Result<()> {
    let Some(path) = output.and_then(named) else {
        let for_people = io::stdout()
            .is_terminal()
            .then(|| plain(&String::from_utf8_lossy(bytes)));
        let bytes = for_people.as_ref().map_or(bytes, String::as_bytes);
        let mut out = io::stdout();
        return unless_unread(out.write_all(bytes).and_then(|()| out.flush())); // what is behind the last line's end, too
    };
    write_file(path, |out| out.write_all(bytes))
}

/// What was there before stays where it cannot be written whole.
pub fn write_file(path: &Path, content: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>) -> Result<()> {
    Destination::open(path)
        .and_then(|mut file| file.write_by(content))
        .map_err(|error| cannot_write(Some(path), error))
}

pub fn unless_unread(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot_write(None, error)),
        _ => Ok(()),
    }
}

/// None: standard output.
pub fn cannot_write(path: Option<&Path>, error: io::Error) -> ToolError {
    match path {
        Some(path) => ToolError::new(
            format!("cannot write {}", path.display()),
            error,
            "name a file that can be written",
        ),
        None => ToolError::new(
            "cannot write standard output",
            error,
            "look where it leads: to a full disk, or to nowhere",
        ),
    }
}
