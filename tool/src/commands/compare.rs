//! `vmag compare`: runs a command under several allocators by turns and says what each costs, with confidence intervals.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::compare::allocators::{self, AS_IT_IS};
use crate::compare::plot;
use crate::compare::rounds::{self, Comparison, LEAST_ROUNDS, Outcome, Rules, Subject};
use crate::error::{EXIT_TOOL_FAILED, Result, ToolError};
use crate::launch::Launcher;
use crate::output::destination::{Destination, check_own_places};
use crate::output::figures::{FIGURES, Figure, parse_percent};
use crate::output::{compared, say};
use crate::system::Status;
use crate::{library, program};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vmag compare -- ./my-app data            under all allocators that are found
  vmag compare --only vmag,jemalloc -- make -j2
  vmag compare --with old=./libvmag.so --base old -- ./my-app
  vmag compare --cpus 1 --precision 0.5 -- ./my-app      on processor 1, within half a percent
  vmag compare --input big.ps --html c.html -- gs -q -sDEVICE=nullpage -
  vmag compare --json=c.json --rounds 20 -- ./my-app

Every allocator runs once in each round. Ratios are geometric means over the rounds, each round's figure divided by \
that of the base, with 95 % confidence intervals by the paired bootstrap (docs/compare.md says how, and what the JSON \
holds). Before the first round each allocator runs once uncounted, and the dynamic linker tells which malloc it bound; \
an allocator that did not really run is left out, and told.

Exit status: the program's own, the same in all runs. 125: vmag failed, or the runs did not end alike.";

/// Run a command under several allocators by turns and compare what each costs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// vmag's library
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,

    /// Another allocator's library; may be given several times
    #[arg(long, value_name = "NAME=PATH", value_parser = named_path)]
    with: Vec<(String, PathBuf)>,

    /// Compare only these; without it vmag, the C library's malloc and every peer that is found
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Option<Vec<String>>,

    /// The allocator that ratios refer to; "glibc" is what the program runs on when nothing is preloaded, and is shown by
    /// its file's name where that is another
    #[arg(long, value_name = "NAME", default_value = AS_IT_IS)]
    base: String,

    /// Exactly so many rounds
    #[arg(long, value_name = "N", conflicts_with_all = ["most", "precision", "seconds"],
          value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,

    /// At most so many rounds
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(5..))]
    most: u32,

    /// Begin no round after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,

    /// Go on until all ratios are known within so many per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = parse_percent)]
    precision: f64,

    /// The figure whose ratios are to be known so well
    #[arg(long, value_enum, default_value = "wall")]
    figure: Chosen,

    /// Run only on these processors, such as 1 or 0,2-3
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<Cpus>,

    /// Let every run read this file; without it there is nothing to read
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Let the program write to standard output
    #[arg(long)]
    show_output: bool,

    /// Give the figures as JSON: on standard error instead of the text, or in FILE besides it
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,

    /// Draw the ratios in FILE, a page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Say nothing at the end; errors are still said
    #[arg(long, short)]
    quiet: bool,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    words: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Chosen {
    /// Wall time
    Wall,
    /// User and system time
    Cpu,
    /// Peak of resident memory
    Peak,
}

#[derive(Clone)]
struct Cpus(Vec<usize>);

impl Chosen {
    fn figure(self) -> &'static Figure {
        let key = match self {
            Chosen::Wall => "wall_seconds",
            Chosen::Cpu => "cpu_seconds",
            Chosen::Peak => "peak_resident_bytes",
        };
        let found = FIGURES.iter().find(|figure| figure.key == key);
        found.expect("these figures are measured")
    }
}

/// Compares; the status is the one to end with.
pub fn run(arguments: &Arguments) -> Result<Status> {
    let json = arguments.json.iter().flatten();
    let files: Vec<&PathBuf> = arguments.input.iter().chain(json).chain(&arguments.html).collect();
    check_own_places("--input, --json and --html", &files)?;
    let library = library::find(arguments.lib.as_deref())?;
    let found = allocators::find(&library, &arguments.with)?;
    let chosen = allocators::choose(found, arguments.only.as_deref(), &arguments.base)?;
    let subject = Subject {
        words: arguments.words.clone(),
        program: program::find(&arguments.words[0])?,
        input: arguments.input.clone(),
        show_output: arguments.show_output,
        cpus: arguments.cpus.clone().map_or(Vec::new(), |cpus| cpus.0),
        preloaded: library::without_vmag(std::env::var_os("LD_PRELOAD").as_deref()),
    };
    program::check_can_preload(&subject.program, &library)?;
    let written = Written::open(arguments)?;
    let mut launcher = Launcher::new()?;
    launcher.adopt_orphans();
    let progress = !arguments.quiet && io::stderr().is_terminal();
    let figure = arguments.figure.figure();
    match rounds::compare(&subject, chosen, arguments.rules(), figure, &mut launcher, progress)? {
        Outcome::Complete(comparison) => {
            written.write(&subject, &comparison)?;
            Ok(comparison.status)
        }
        Outcome::Stopped(status, why) => {
            say(format_args!(
                "vmag: stopped before the comparison was complete: {why}\n"
            ));
            Ok(if status == Status::Exited(0) {
                Status::Exited(EXIT_TOOL_FAILED)
            } else {
                status
            })
        }
    }
}

impl Arguments {
    fn rules(&self) -> Rules {
        Rules {
            least: self.rounds.unwrap_or(LEAST_ROUNDS),
            most: self.rounds.unwrap_or(self.most),
            most_time: self.seconds.map(Duration::from_secs),
            precision: self.precision / 100.0,
        }
    }
}

/// Where the figures go.
struct Written {
    text: bool,
    json: Option<(String, Destination)>,
    html: Option<(String, Destination)>,
}

impl Written {
    fn open(arguments: &Arguments) -> Result<Written> {
        let json = match &arguments.json {
            None => None,
            Some(None) => Some(("the JSON".to_string(), Destination::Stream(Box::new(io::stderr())))),
            Some(Some(path)) => Some(open(path)?),
        };
        Ok(Written {
            text: !arguments.quiet && !matches!(arguments.json, Some(None)),
            json,
            html: arguments.html.as_deref().map(open).transpose()?,
        })
    }

    /// Each, whatever becomes of the other; the first failure is returned.
    fn write(self, subject: &Subject, comparison: &Comparison) -> Result<()> {
        if self.text {
            say(compared::text(subject, comparison));
        }
        let json = self
            .json
            .map(|to| write(to, &format!("{:#}\n", compared::json(subject, comparison))));
        let html = self.html.map(|to| write(to, &plot::page(subject, comparison)));
        json.unwrap_or(Ok(())).and(html.unwrap_or(Ok(())))
    }
}

fn open(path: &Path) -> Result<(String, Destination)> {
    let name = path.display().to_string();
    match Destination::open(path) {
        Ok(destination) => Ok((name, destination)),
        Err(error) => Err(cannot_write(&name, error)),
    }
}

fn write((name, mut destination): (String, Destination), text: &str) -> Result<()> {
    let written = destination.write(text.as_bytes());
    written.map_err(|error| cannot_write(&name, error))
}

fn cannot_write(what: &str, error: io::Error) -> ToolError {
    ToolError::new(
        format!("cannot write {what}"),
        error,
        "name a file that can be written with --json=FILE or --html FILE",
    )
}

fn named_path(text: &str) -> std::result::Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_string(), path.into())),
        _ => Err("write a name, = and the path of a library".to_string()),
    }
}

fn cpu_list(text: &str) -> std::result::Result<Cpus, String> {
    let wrong = || format!("write numbers and ranges, as in 0,2-3; not {text}");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.parse().map_err(|_| wrong())?;
        let last: usize = last.parse().map_err(|_| wrong())?;
        if first > last || last >= 1024 {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(Cpus(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        let list = |text| cpu_list(text).ok().map(|cpus| cpus.0);
        assert_eq!(list("1"), Some(vec![1]));
        assert_eq!(list("0,2-4"), Some(vec![0, 2, 3, 4]));
        for wrong in ["", "a", "3-1", "1,,2", "1-", "9999"] {
            assert_eq!(list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn named_libraries() {
        assert_eq!(named_path("a=/b=c"), Ok(("a".into(), "/b=c".into())));
        for wrong in ["a", "a=", "=b"] {
            assert!(named_path(wrong).is_err(), "{wrong}");
        }
    }
}
