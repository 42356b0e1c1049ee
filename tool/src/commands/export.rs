//! `vmag export`: a heap profile or an event trace in another tool's format, chosen by the name of the file it is written to.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::bundle;
use crate::commands::heap::{Format, cannot_write, deliver, deliver_as, missing_in};
use crate::error::{Result, ToolError};
use crate::export::{heap_v2, perfetto};
use crate::heap_view::{HeapView, Measure};
use crate::output::destination::{New, check_apart, named, permissions_as};
use crate::output::{check_told_apart, say, tell_written, warn_missing};
use crate::progress::Progress;
use crate::source::Source;
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view;
use clap::Args;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  vmag export p.heap p.pb.gz             pprof, Parca, Pyroscope
  vmag export p.heap p.speedscope.json   speedscope.app
  vmag export p.heap p.folded            collapsed stacks
  vmag export p.heap p.svg               flame graph
  vmag export p.heap p.csv               a table
  vmag export p.heap p.parquet           the same for DuckDB, pandas and their kin
  vmag export 4711 p.pb.gz               of a process that runs
  vmag export 4711 p.heap                the same kept as it is, for `vmag diff` later
  vmag export --bundle p.heap p.bundle   with all names, to be looked at on another machine
  vmag export t.trace t.perfetto.json    live bytes and events over time, for ui.perfetto.dev
  vmag export t.trace p.pb.gz            who allocated, exactly: of a trace with stacks
  vmag trace --events -o t.parquet t.trace   every event as a table

Endings: .pb.gz .pprof .speedscope.json .folded .collapsed .svg .csv .parquet .heap .json .txt; of a trace also .perfetto.json";

/// Write a heap profile, or an event trace, in another tool's format.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What to count, where the format holds one number a site
    #[arg(long, value_enum, default_value = "live-bytes")]
    measure: Measure,

    /// The format; without it the file's ending says
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// Put the names of functions beside a profile or trace, so that every command can show it on another machine
    #[arg(long, conflicts_with_all = ["format", "measure"])]
    bundle: bool,

    /// Tell what was written as JSON
    #[arg(long)]
    json: bool,

    /// The profile, an event trace, a black box, or the number of a process that runs
    #[arg(value_name = "PROFILE|PID", value_parser = Source::parser())]
    profile: Source,

    /// The file to write; - is standard output, with --format or --bundle
    #[arg(value_name = "FILE")]
    output: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    if arguments.json {
        check_told_apart(&arguments.output)?;
    }
    if arguments.bundle {
        return export_bundle(arguments);
    }
    check_apart(Some(&arguments.output), arguments.profile.path())?;
    if arguments.format.is_none() && arguments.output.to_string_lossy().ends_with(".perfetto.json") {
        return export_lines(arguments);
    }
    let format = match arguments.format.or_else(|| format_of(&arguments.output)) {
        Some(format) => format,
        None => return Err(unknown_ending(&arguments.output)),
    };
    let view = HeapView::new(arguments.profile.profile()?);
    let title = arguments.profile.name();
    deliver_as(&view, format, arguments.measure, &title, Some(&arguments.output))?;
    told(
        arguments,
        json!({"missing": missing_in(&view, format, arguments.measure)}),
    )
}

fn told(arguments: &Arguments, more: Value) -> Result<Status> {
    if arguments.json {
        tell_written("vmag-export-1", &arguments.output, more)?;
    }
    Ok(Status::Exited(0))
}

fn export_bundle(arguments: &Arguments) -> Result<Status> {
    check_apart(Some(&arguments.output), arguments.profile.path())?;
    if named(&arguments.output).is_none() {
        let folder = tempfile::tempdir().map_err(|error| cannot_write(None, error))?;
        let path = folder.path().join("bundle");
        say(format_args!("{}\n", make_bundle(&arguments.profile, &path)?));
        let bytes = fs::read(&path).map_err(|error| cannot_write(None, error))?;
        return deliver(&bytes, None).map(|()| Status::Exited(0));
    }
    let bundle = make_bundle(&arguments.profile, &arguments.output)?;
    if !arguments.json {
        say(format_args!("{bundle}\n"));
    }
    told(arguments, json!(bundle))
}

fn make_bundle(profile: &Source, to: &Path) -> Result<bundle::Told> {
    match profile {
        Source::File(path) => bundle::make(path, to),
        Source::Process(_) => {
            let text = heap_v2::write(&profile.profile()?);
            let failed = |error| cannot_write(Some(to), error);
            let mut recording = New::beside(to).map_err(failed)?;
            if let Ok(old) = permissions_as(to) {
                recording.file.set_permissions(old).map_err(failed)?;
            }
            recording.file.write_all(text.as_bytes()).map_err(failed)?;
            bundle::make(&recording.own_path(), to)
        }
    }
}

/// What a trace tells over time.
fn export_lines(arguments: &Arguments) -> Result<Status> {
    let Source::File(path) = &arguments.profile else {
        return Err(ToolError::new(
            "cannot export a time line of a running process",
            "only an event trace has one",
            "record one with `vmag run --trace FILE`",
        ));
    };
    let mut progress = Progress::new("reading the trace");
    let view = trace_view::look(&Trace::open(path)?, &mut |part| progress.at(part))?;
    warn_missing(&arguments.profile.name(), view.summary.missing.as_deref());
    let text = perfetto::write(&view.summary, &arguments.profile.name());
    deliver(text.as_bytes(), Some(&arguments.output))?;
    told(arguments, json!({"missing": view.summary.missing}))
}

fn format_of(path: &Path) -> Option<Format> {
    const ENDINGS: [(&str, Format); 11] = [
        (".pb.gz", Format::Pprof),
        (".pprof", Format::Pprof),
        (".speedscope.json", Format::Speedscope),
        (".folded", Format::Collapsed),
        (".collapsed", Format::Collapsed),
        (".svg", Format::Flame),
        (".heap", Format::Heap),
        (".csv", Format::Csv),
        (".parquet", Format::Parquet),
        (".json", Format::Json),
        (".txt", Format::Text),
    ];
    let name = path.file_name()?.to_string_lossy();
    ENDINGS
        .iter()
        .find(|(ending, _)| name.ends_with(ending))
        .map(|(_, format)| *format)
}

fn unknown_ending(path: &Path) -> ToolError {
    ToolError::new(
        format!("cannot tell the format of {}", path.display()),
        "its ending is none of those that are known",
        "give the format with --format, or an ending that `vmag export --help` lists",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_the_format() {
        assert_eq!(format_of(Path::new("/a/b.pb.gz")), Some(Format::Pprof));
        assert_eq!(format_of(Path::new("b.speedscope.json")), Some(Format::Speedscope));
        assert_eq!(format_of(Path::new("b.json")), Some(Format::Json));
        assert_eq!(format_of(Path::new("b.exe")), None);
    }
}
