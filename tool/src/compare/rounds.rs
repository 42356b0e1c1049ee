//! Runs a command under all allocators by turns, round after round, until the ratios are known well enough.
//!
//! Each round runs every allocator once, in an order of its own, so that none always finds the machine as the same
//! other one left it: what that one gave back last is quicker to get. Before the first round each runs once uncounted: it
//! shows which malloc really runs, and files are warm from then on. All runs must end alike: figures of runs that did
//! different things are not comparable.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::compare::allocators::Allocator;
use crate::compare::evidence::{Bindings, Evidence, Sight};
use crate::compare::interval::Interval;
use crate::compare::random::SplitMix;
use crate::compare::unchanged::Unchanged;
use crate::error::{Result, ToolError};
use crate::launch::{Ended, Launcher};
use crate::library;
use crate::output::figures::{Figure, status_text};
use crate::output::say;
use crate::system::{self, Status};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An interval of fewer rounds is an anecdote.
pub const LEAST_ROUNDS: u32 = 5;
/// How often a run is looked at until its allocator was seen.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What to run, and how.
pub struct Subject {
    pub words: Vec<OsString>,
    pub program: PathBuf,
    /// Read by every run; None: nothing.
    pub input: Option<PathBuf>,
    pub show_output: bool,
    /// Where it may run; empty: where we may.
    pub cpus: Vec<usize>,
    /// What is preloaded anyway, without vmag.
    pub preloaded: Option<OsString>,
}

/// When it is enough.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    pub least: u32,
    pub most: u32,
    pub most_time: Option<Duration>,
    /// Half width of the interval, as a part of the ratio, at which a ratio is known well enough.
    pub precision: f64,
}

/// An allocator and its runs, one a round.
pub struct Side {
    pub allocator: Allocator,
    pub evidence: Evidence,
    pub runs: Vec<Ended>,
}

pub struct Comparison {
    pub status: Status,
    /// The base first.
    pub sides: Vec<Side>,
    /// Allocators that were not compared, and why.
    pub left_out: Vec<(Allocator, String)>,
    pub rounds: u32,
    pub rules: Rules,
    /// The figure whose ratios had to be known well enough.
    pub figure: &'static Figure,
    /// The widest interval of that figure: its half width and its allocator.
    pub widest: (f64, String),
}

pub enum Outcome {
    Complete(Comparison),
    /// The status to end with, and why.
    Stopped(Status, String),
}

impl Side {
    pub fn values(&self, figure: &Figure) -> Vec<f64> {
        self.runs.iter().map(figure.of).collect()
    }
}

impl Comparison {
    /// Of every allocator but the base, of one figure.
    pub fn ratio(&self, side: &Side, figure: &Figure) -> Option<Interval> {
        Interval::of_ratio(&side.values(figure), &self.sides[0].values(figure))
    }

    fn find_widest(&self) -> (f64, String) {
        let width = |side: &Side| {
            self.ratio(side, self.figure)
                .map_or(f64::INFINITY, |ratio| ratio.half_width())
        };
        let widths = self.sides[1..]
            .iter()
            .map(|side| (width(side), side.allocator.name.clone()));
        let widest = widths.max_by(|a, b| a.0.total_cmp(&b.0));
        widest.expect("one of two sides is not the base")
    }

    pub fn is_narrow(&self) -> bool {
        self.rounds >= LEAST_ROUNDS && self.widest.0 <= self.rules.precision
    }

    /// Rounds and time that may still be needed; half as many rounds make an interval wider by the root of two.
    fn ahead(&self, spent: Duration) -> (u32, Duration) {
        let each = spent.div_f64(f64::from(self.rounds.max(1)));
        let need = f64::from(self.rounds) * (self.widest.0 / self.rules.precision.max(1e-9)).powi(2);
        let need = (need.min(1e6).ceil() as u32).clamp(self.rules.least, self.rules.most);
        let left = each.mul_f64(f64::from(need.saturating_sub(self.rounds)));
        let limit = self.rules.most_time.map_or(left, |most| most.saturating_sub(spent));
        (need, left.min(limit))
    }
}

/// Compares; the base is the first of the allocators.
pub fn compare(
    subject: &Subject,
    allocators: Vec<Allocator>,
    rules: Rules,
    figure: &'static Figure,
    launcher: &mut Launcher,
    progress: bool,
) -> Result<Outcome> {
    let mut told = Told { wanted: progress };
    let mut comparison = Comparison {
        status: Status::Exited(0),
        sides: Vec::new(),
        left_out: Vec::new(),
        rounds: 0,
        rules,
        figure,
        widest: (f64::INFINITY, String::new()),
    };
    let libraries = allocators.iter().filter_map(|allocator| allocator.library.as_deref());
    let unchanged = Unchanged::note(libraries.chain([subject.program.as_path()]));
    for allocator in allocators {
        told.say(&format!("trying {}", allocator.name));
        if let Some(stopped) = comparison.try_out(subject, allocator, launcher)? {
            return Ok(stopped);
        }
    }
    if comparison.sides.len() < 2 {
        return Err(comparison.nothing_left());
    }
    let begin = Instant::now();
    while !comparison.is_enough(begin.elapsed()) {
        for at in order(comparison.rounds, comparison.sides.len()) {
            told.say(&comparison.told(at, begin.elapsed()));
            if let Some(stopped) = comparison.run(subject, at, launcher)? {
                return Ok(stopped);
            }
        }
        unchanged.check()?;
        comparison.rounds += 1;
        comparison.widest = comparison.find_widest();
    }
    comparison.leave_out_unseen()?;
    Ok(Outcome::Complete(comparison))
}

/// Every second round goes the other way: whoever was first is last.
fn order(round: u32, sides: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sides).collect();
    SplitMix(u64::from(round / 2)).shuffle(&mut order);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

impl Comparison {
    /// The uncounted run. Whoever does not run, or ends otherwise than the base, is left out.
    fn try_out(
        &mut self,
        subject: &Subject,
        mut allocator: Allocator,
        launcher: &mut Launcher,
    ) -> Result<Option<Outcome>> {
        let mut command = subject.command(&allocator)?;
        let bindings = Bindings::ask_for(&mut command)?;
        let (ended, sight) = run_and_look(&mut command, &allocator, launcher)?;
        let mut evidence = bindings.read(ended.pid);
        evidence.note(&sight);
        let is_base = self.sides.is_empty();
        if ended.interrupted {
            return Ok(Some(Outcome::Stopped(ended.status, "interrupted".to_string())));
        }
        if is_base {
            if let Some(stopped) = died(&ended, &allocator) {
                return Ok(Some(stopped));
            }
            self.status = ended.status;
        }
        let why = match evidence.agrees(&allocator) {
            Ok(()) if ended.status == self.status => {
                name_as_bound(&mut allocator, &evidence);
                self.sides.push(Side {
                    allocator,
                    // The rounds are looked at anew.
                    evidence: Evidence {
                        seen: 0,
                        looked: 0,
                        ..evidence
                    },
                    runs: Vec::new(),
                });
                return Ok(None);
            }
            Ok(()) => format!("the program ended with {} under it", status_text(ended.status)),
            Err(why) => why,
        };
        if is_base {
            return Err(not_proven(&allocator, &why));
        }
        self.left_out.push((allocator, why));
        Ok(None)
    }

    fn run(&mut self, subject: &Subject, at: usize, launcher: &mut Launcher) -> Result<Option<Outcome>> {
        let side = &mut self.sides[at];
        let mut command = subject.command(&side.allocator)?;
        let (ended, sight) = run_and_look(&mut command, &side.allocator, launcher)?;
        side.evidence.note(&sight);
        if ended.interrupted {
            return Ok(Some(Outcome::Stopped(ended.status, "interrupted".to_string())));
        }
        if let Some(stopped) = died(&ended, &side.allocator) {
            return Ok(Some(stopped));
        }
        if ended.status != self.status {
            return Err(not_alike(self.status, &ended, &side.allocator));
        }
        side.runs.push(ended);
        Ok(None)
    }

    /// Whoever was looked at in the rounds and never seen did not run in them.
    fn leave_out_unseen(&mut self) -> Result<()> {
        for (at, side) in std::mem::take(&mut self.sides).into_iter().enumerate() {
            match side.evidence.agrees(&side.allocator) {
                Ok(()) => self.sides.push(side),
                Err(why) if at == 0 => return Err(not_proven(&side.allocator, &why)),
                Err(why) => self.left_out.push((side.allocator, why)),
            }
        }
        if self.sides.len() < 2 {
            return Err(self.nothing_left());
        }
        self.widest = self.find_widest();
        Ok(())
    }

    fn is_enough(&self, spent: Duration) -> bool {
        let late = self.rules.most_time.is_some_and(|most| spent >= most);
        self.rounds >= self.rules.most
            || (self.rounds > 0 && late)
            || (self.rounds >= self.rules.least && self.is_narrow())
    }

    fn told(&self, at: usize, spent: Duration) -> String {
        let name = &self.sides[at].allocator.name;
        if self.rounds < 2 {
            return format!("round {}, {name}", self.rounds + 1);
        }
        let (need, left) = self.ahead(spent);
        let (width, widest) = &self.widest;
        let left = left.as_secs();
        format!(
            "round {} of about {need}, {name}; {widest} is known within {:.1} %; about {}:{:02} left",
            self.rounds + 1,
            100.0 * width,
            left / 60,
            left % 60
        )
    }

    fn nothing_left(&self) -> ToolError {
        let why: Vec<String> = self
            .left_out
            .iter()
            .map(|(a, why)| format!("{}: {why}", a.name))
            .collect();
        ToolError::new(
            "no other allocator could be compared",
            why.join("; "),
            "a program that is static, drops LD_PRELOAD or brings its own malloc must be linked with each allocator instead",
        )
    }
}

impl Subject {
    fn command(&self, allocator: &Allocator) -> Result<Command> {
        let mut command = Command::new(&self.program);
        command.arg0(&self.words[0]).args(&self.words[1..]);
        command.env_remove("VMAG_REPORT");
        command.stdin(match &self.input {
            Some(path) => Stdio::from(File::open(path).map_err(|error| no_input(path, error))?),
            None => Stdio::null(),
        });
        if !self.show_output {
            command.stdout(Stdio::null());
        }
        match (&allocator.library, &self.preloaded) {
            (Some(library), others) => command.env("LD_PRELOAD", library::prepend(library, others.as_deref())),
            (None, Some(others)) => command.env("LD_PRELOAD", others),
            (None, None) => command.env_remove("LD_PRELOAD"),
        };
        system::pin_child(&mut command, &self.cpus);
        Ok(command)
    }
}

fn run_and_look(command: &mut Command, allocator: &Allocator, launcher: &mut Launcher) -> Result<(Ended, Sight)> {
    let mut sight = Sight::default();
    let mut look = |pid: i32| {
        if let Some(library) = &allocator.library {
            sight.look(library, pid);
        }
    };
    let ended = launcher.run_and_look(command, Some((LOOK_EVERY, &mut look)))?;
    sight.ran_on = launcher.end_orphans();
    Ok((ended, sight))
}

/// What a program runs on anyway need not be the C library's.
fn name_as_bound(allocator: &mut Allocator, evidence: &Evidence) {
    let bound = evidence.malloc_from.as_deref().and_then(Path::file_name);
    let name = bound.unwrap_or_default().to_string_lossy();
    if allocator.library.is_none() && !name.starts_with("libc.so") && !name.starts_with("libc-") {
        allocator.name = name.into_owned();
    }
}

/// One line on a terminal, overwritten again and again.
struct Told {
    wanted: bool,
}

impl Told {
    fn say(&mut self, text: &str) {
        if self.wanted {
            say(format_args!("\r\x1b[Kvmag: {text}"));
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if self.wanted {
            say("\r\x1b[K");
        }
    }
}

fn died(ended: &Ended, allocator: &Allocator) -> Option<Outcome> {
    let Status::Signaled(_) = ended.status else {
        return None;
    };
    let why = format!(
        "the program died of {} on {}",
        status_text(ended.status),
        allocator.name
    );
    Some(Outcome::Stopped(ended.status, why))
}

fn not_alike(first: Status, ended: &Ended, allocator: &Allocator) -> ToolError {
    ToolError::new(
        "the runs did not end alike, so their figures say nothing",
        format!(
            "the first run: {}; a later run on {}: {}",
            status_text(first),
            allocator.name,
            status_text(ended.status)
        ),
        "make the command repeatable (it runs many times and reads nothing but --input), then compare again",
    )
}

fn not_proven(allocator: &Allocator, why: &str) -> ToolError {
    ToolError::new(
        format!("cannot tell which malloc runs on {}", allocator.name),
        why,
        "choose another base with --base; a program that is static or runs on another C library than glibc cannot be compared",
    )
}

fn no_input(path: &Path, error: std::io::Error) -> ToolError {
    ToolError::new(
        format!("cannot read {}", path.display()),
        error,
        "name a file that can be read with --input",
    )
}
