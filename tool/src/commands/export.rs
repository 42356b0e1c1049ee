//! `vmag export`: a heap profile in another tool's format, chosen by the name of the file it is written to.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::{Format, deliver, render};
use crate::error::{Result, ToolError};
use crate::heap_view::{HeapView, Measure};
use crate::source::Source;
use crate::system::Status;
use clap::Args;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  vmag export p.heap p.pb.gz             pprof, Parca, Pyroscope
  vmag export p.heap p.speedscope.json   speedscope.app
  vmag export p.heap p.folded            collapsed stacks
  vmag export p.heap p.svg               flame graph
  vmag export p.heap p.csv               a table
  vmag export 4711 p.pb.gz               of a process that runs

Endings: .pb.gz .pprof .speedscope.json .folded .collapsed .svg .csv .json .txt";

/// Write a heap profile in another tool's format.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What to count, where the format holds one number a site
    #[arg(long, value_enum, default_value = "live-bytes")]
    measure: Measure,

    /// The format; without it the file's ending says
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// The profile, a black box, or the number of a process that runs
    #[arg(value_name = "PROFILE|PID", value_parser = Source::parse)]
    profile: Source,

    /// The file to write
    #[arg(value_name = "FILE")]
    output: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let format = match arguments.format.or_else(|| format_of(&arguments.output)) {
        Some(format) => format,
        None => return Err(unknown_ending(&arguments.output)),
    };
    let view = HeapView::new(arguments.profile.profile()?);
    let title = arguments.profile.name();
    deliver(
        &render(&view, format, arguments.measure, &title),
        Some(&arguments.output),
    )?;
    Ok(Status::Exited(0))
}

fn format_of(path: &Path) -> Option<Format> {
    const ENDINGS: [(&str, Format); 9] = [
        (".pb.gz", Format::Pprof),
        (".pprof", Format::Pprof),
        (".speedscope.json", Format::Speedscope),
        (".folded", Format::Collapsed),
        (".collapsed", Format::Collapsed),
        (".svg", Format::Flame),
        (".csv", Format::Csv),
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
