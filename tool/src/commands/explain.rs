//! `vmag explain`: where the resident memory of a process is, drawn; of one that runs, or of a command at its peak.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::{cannot_write, deliver};
use crate::doctor::Diagnosis;
use crate::doctor::diagnosis::Verdict;
use crate::error::{EXIT_TOOL_FAILED, Result};
use crate::explain::ledger::Vmag;
use crate::explain::{Ledger, Row};
use crate::launch::Launcher;
use crate::measure::Subject;
use crate::output::{doctor, explained, say};
use crate::system::Status;
use clap::Args;
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  vmag explain 4711                  where the memory of process 4711 is
  vmag explain $(pidof redis-server)
  vmag explain --json 4711           the same as JSON on standard output
  vmag explain -- python3 script.py  run it on vmag, and explain the moment of its most memory

The process is only read, through /proc: nothing in it stops and nothing is started. It must be yours, or you root; \
where the kernel keeps processes from looking into each other (kernel.yama.ptrace_scope), what is in the heap is not \
told. The rows always sum to what is resident. Estimates are named so. A process without vmag is explained as far as \
the kernel knows it.

With a command, its memory is looked at every 20 milliseconds, and explained when it has grown, for about a \
twentieth of the time; the explanation comes on standard error at the end, and the exit status is the command's; 125 where \
there was nothing to look at.";

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How many times as long as an explanation took until the next one, but not longer than so.
const REST_FOR_A_LOOK: u32 = 19;
const REST_AT_MOST: Duration = Duration::from_millis(300);

/// Say where the resident memory of a process is.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The process to explain
    #[arg(value_name = "PID", required_unless_present = "words", conflicts_with = "words",
          value_parser = crate::source::pid_parser())]
    pid: Option<i32>,

    /// Give it as JSON: in place of the picture, or in FILE besides it
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    json: Option<Option<PathBuf>>,

    /// With a command: the library to preload
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    lib: Option<PathBuf>,

    /// A command to run and to explain at its peak
    #[arg(last = true, value_name = "CMD")]
    words: Vec<OsString>,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    match arguments.pid {
        Some(pid) => {
            let mut ledger = Ledger::of(pid)?;
            look_for_another(&mut ledger);
            show(arguments, &ledger, None, &mut io::stdout())?;
            Ok(Status::Exited(0))
        }
        None => run_command(arguments),
    }
}

/// The library may be there although another's malloc comes first, as in a browser with its own.
fn look_for_another(ledger: &mut Ledger) {
    if ledger.vmag == Vmag::Absent {
        return;
    }
    let diagnosis = Diagnosis::of(ledger.pid).ok();
    if let Some(diagnosis) = diagnosis.filter(|found| found.verdict == Verdict::VmagWithoutEffect) {
        ledger.vmag = Vmag::WithoutEffect(doctor::sentence(&diagnosis));
    }
}

fn run_command(arguments: &Arguments) -> Result<Status> {
    let subject = Subject::find(&arguments.words, arguments.lib.as_deref())?;
    let mut launcher = Launcher::new()?;
    let mut peak = Peak::default();
    let mut look = |pid| peak.look(pid);
    let measured = subject.run_on_vmag_and_look(&mut launcher, Some((LOOK_EVERY, &mut look)))?;
    let status = measured.ended.status;
    let Some(ledger) = peak.ledger else {
        match measured.served.by_vmag {
            true => say(
                "vmag: the command ended before its memory could be looked at; `vmag run --trace` tells of short ones\n",
            ),
            false => say(format_args!("{}\n", subject.not_served())),
        }
        return Ok(match status {
            Status::Exited(0) => Status::Exited(EXIT_TOOL_FAILED),
            other => other,
        });
    };
    let peak = measured.peak_resident_bytes();
    show(arguments, &ledger, Some(peak), &mut io::stderr())?;
    if arguments.json != Some(None) {
        say(format_args!(
            "the kernel saw a peak of {}\n",
            crate::output::figures::bytes(peak)
        ));
    }
    Ok(status)
}

/// The explanation of the largest moment seen so far.
#[derive(Default)]
struct Peak {
    /// The kernel's quick figure when it was explained last.
    pages: u64,
    next_look: Option<Instant>,
    ledger: Option<Ledger>,
}

impl Peak {
    fn look(&mut self, pid: i32) {
        let pages = resident_pages(pid).unwrap_or(0);
        let start = Instant::now();
        if pages <= self.pages || self.next_look.is_some_and(|next| start < next) {
            return;
        }
        // Between fork and exec there is no vmag in it yet; at its end there is nothing left of it.
        let Some(ledger) = Ledger::of(pid).ok().filter(Ledger::is_of_vmag) else {
            return;
        };
        // A little more at the end, when all was freed, must not hide what was held at the peak.
        let figures = |ledger: &Ledger| (ledger.resident.total(), ledger.resident.of(Row::Live));
        let (resident, live) = figures(&ledger);
        let (resident_before, live_before) = self.ledger.as_ref().map_or((0, 0), figures);
        let slack = if live > live_before { 0 } else { resident_before / 32 };
        if resident > resident_before + slack {
            self.ledger = Some(ledger);
        }
        self.pages = pages;
        self.next_look = Some(Instant::now() + (start.elapsed() * REST_FOR_A_LOOK).min(REST_AT_MOST));
    }
}

fn resident_pages(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

/// `peak`: of a command that has ended, by the kernel; what is explained may be less.
fn show(
    arguments: &Arguments,
    ledger: &Ledger,
    peak: Option<u64>,
    out: &mut (impl Write + IsTerminal),
) -> Result<()> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
    let colours = out.is_terminal() && !is_dumb && !is_set("NO_COLOR");
    let json = || {
        let mut whole = explained::json(ledger);
        if let Some(peak) = peak {
            whole["peak_resident_bytes"] = peak.into();
        }
        whole
    };
    if let Some(Some(path)) = &arguments.json {
        deliver(format!("{:#}\n", json()).as_bytes(), Some(path))?;
    }
    let written = match &arguments.json {
        Some(None) => writeln!(out, "{:#}", json()),
        _ => write!(out, "{}", explained::text(ledger, colours)),
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot_write(None, error)),
        _ => Ok(()),
    }
}
