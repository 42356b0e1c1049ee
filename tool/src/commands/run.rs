//! `vmag run`: runs a program on vmag and says what it cost.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::bundle;
use crate::commands::attach::parse_distance;
use crate::error::{EXIT_TOOL_FAILED, Result, ToolError};
use crate::launch::Launcher;
use crate::measure::Subject;
use crate::output::destination::{Destination, check_own_places};
use crate::output::figures::counted;
use crate::output::{json, say, text};
use crate::profile::Profile;
use crate::recorded::{Callers, Older, TRACE_SECONDS_MOST, TraceLimits, Wanted, Written, parse_trace_bytes};
use crate::system::Status;
use clap::{ArgGroup, Args};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  vmag run -- python3 script.py          run it on vmag, see time and memory at the end
  vmag run --json=run.json -- make       the same, and the figures as JSON in a file
  vmag run --quiet -- ./server           only make sure that it runs on vmag
  vmag run --profile -- ./a              leave a heap profile, then: vmag heap a.heap
  vmag run --profile=p.heap --bundle -- ./a
                                         the same, to be looked at on another machine
  vmag run --trace=t.trace --trace-stacks -- ./a
                                         leave a trace of every event, then:
                                         vmag report --trace t.trace -o r.html

Exit status: the program's own (a signal's too). 125: vmag failed, or the program ended well but did not use vmag; \
126: not executable; 127: not found.

The library is taken from --lib, from $VMAG_LIB, from ../lib beside this command, or from the system's library \
directories. Peak memory and faults are the kernel's figures (the peak of the largest process); what the allocator \
held is its own account at the exit of the command's process. How many processes used vmag (in JSON processes_on_vmag) \
is a least number: forked children that call _exit, are killed or became another user are not known of.";

/// Run a program on vmag and say what it cost.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("recorded").multiple(true)))]
#[command(group(ArgGroup::new("stacks").multiple(true)))]
pub struct Arguments {
    /// The library to preload
    #[arg(long, value_name = "PATH")]
    lib: Option<PathBuf>,

    /// Give the figures as JSON: on standard error instead of the text, or in FILE besides it
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,

    /// Say nothing at the end; errors are still said
    #[arg(long, short)]
    quiet: bool,

    /// Leave a heap profile in FILE, PROGRAM.heap unless told, for `vmag heap`; those of its children beside it
    #[arg(long, value_name = "FILE", num_args = 0..=1, groups = ["recorded", "stacks"])]
    profile: Option<Option<PathBuf>>,

    /// With --profile: mean bytes between two samples, a power of two; 1: every allocation [default: what the option
    /// lg_prof_sample says, 512k if nobody set it]
    #[arg(long, value_name = "BYTES", requires = "profile", value_parser = parse_distance)]
    sample_bytes: Option<u64>,

    /// Leave an event trace in FILE, PROGRAM.trace unless told, for `vmag trace`, `vmag map` and `vmag report`; those of
    /// its children beside it
    #[arg(long, value_name = "FILE", num_args = 0..=1, group = "recorded")]
    trace: Option<Option<PathBuf>>,

    /// With --trace: most bytes of the file, 128k at least, with --trace-ring 256k
    #[arg(long, value_name = "BYTES", default_value = "4G", requires = "trace", value_parser = parse_trace_bytes)]
    trace_bytes: u64,

    /// With --trace: record the stack of each event, too, so that pictures tell who
    #[arg(long, requires = "trace", group = "stacks")]
    trace_stacks: bool,

    /// With --trace: end it after so many seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        hide_default_value = true,
        value_parser = clap::value_parser!(u64).range(..=TRACE_SECONDS_MOST),
        requires = "trace"
    )]
    trace_seconds: u64,

    /// With --trace: keep the newest events when the file is full, not the oldest
    #[arg(long, requires = "trace")]
    trace_ring: bool,

    /// With --profile or --trace: put the names of functions in, too, so that it can be looked at on another machine
    #[arg(long, requires = "recorded")]
    bundle: bool,

    /// Let the library print its statistics when the program ends
    #[arg(long)]
    stats: bool,

    /// With --profile or --trace-stacks: how callers are found
    #[arg(long, value_enum, default_value = "tables", requires = "stacks")]
    callers: Callers,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    words: Vec<OsString>,
}

impl Arguments {
    /// Where a recording goes, if one is wanted: without a name to a file of the program's own name, here.
    fn place(&self, asked: &Option<Option<PathBuf>>, extension: &str) -> Option<PathBuf> {
        asked.as_ref().map(|named| match named {
            Some(named) => named.clone(),
            None => {
                let program = Path::new(self.words[0].as_os_str()).file_name();
                let mut name = program.unwrap_or("program".as_ref()).to_os_string();
                name.push(".");
                name.push(extension);
                PathBuf::from(name)
            }
        })
    }
}

/// Runs the program; the status is the one to end with.
pub fn run(arguments: &Arguments) -> Result<Status> {
    let profile = arguments.place(&arguments.profile, "heap");
    let trace = arguments.place(&arguments.trace, "trace");
    let json = arguments.json.iter().flatten();
    let files: Vec<&PathBuf> = profile.iter().chain(&trace).chain(json).collect();
    check_own_places("--profile, --trace and --json", &files)?;
    let mut subject = Subject::find(&arguments.words, arguments.lib.as_deref())?;
    let profile = match &profile {
        Some(file) => Some(Wanted::profile(
            file,
            arguments.sample_bytes,
            arguments.callers,
            &mut subject.asked,
        )?),
        None => None,
    };
    if arguments.stats {
        subject.asked.options.push("stats_print:true".to_string());
    }
    let trace = match &trace {
        Some(file) => Some(Wanted::trace(
            file,
            &TraceLimits {
                most_bytes: arguments.trace_bytes,
                most_seconds: arguments.trace_seconds,
                ring: arguments.trace_ring,
                stacks: arguments.trace_stacks.then_some(arguments.callers),
            },
            &mut subject.asked,
        )?),
        None => None,
    };
    let mut shown = Shown::open(arguments)?;
    run_once(
        &subject,
        &mut shown,
        Leavings {
            profile,
            trace,
            bundle: arguments.bundle,
        },
    )
}

/// What the run is to leave behind.
struct Leavings {
    profile: Option<Wanted>,
    trace: Option<Wanted>,
    bundle: bool,
}

type Name = (&'static str, &'static str);

impl Leavings {
    /// What there is of each, with its name and the command that shows it.
    fn collect(&mut self, pid: i32) -> Vec<(Name, Result<Written>)> {
        let profile = self.profile.as_mut().map(|wanted| (("profile", "heap"), wanted));
        let trace = self.trace.as_mut().map(|wanted| (("trace", "trace"), wanted));
        let wanted = profile.into_iter().chain(trace);
        wanted.map(|(name, wanted)| (name, wanted.collect(pid))).collect()
    }

    /// Puts it where it was wanted, as it was wanted.
    fn finish(&self, written: Written, name: Name, shown: &Shown) -> Result<()> {
        let older = written.remove_older();
        tell_written(&written, older.as_ref().unwrap_or(&Older::Nothing), name, shown);
        older?;
        if self.bundle {
            if let Some(path) = &written.own {
                let told = bundle::make(path, path)?;
                shown.text(|| format!("{told}\n"));
            }
            for path in written.of_children.iter().chain(&written.earlier) {
                bundle::make(path, path)?;
            }
            let children = written.of_children.len() as u64;
            if children > 0 {
                shown.text(|| format!("vmag: bundled those of {}, too\n", counted(children, "further process")));
            }
        }
        Ok(())
    }
}

/// `older`: what had the name before; `name`: of the thing, and the command that shows it.
fn tell_written(written: &Written, older: &Older, (name, command): Name, shown: &Shown) {
    // What a full disk cut short is not recommended.
    let is_profile = |_: &&PathBuf| name == "profile";
    let unreadable = written
        .own
        .as_ref()
        .filter(is_profile)
        .and_then(|own| Profile::read(own).err());
    match (&written.own, unreadable) {
        (_, Some(error)) => say(format_args!("{error}\n")),
        (Some(own), None) => shown.text(|| {
            format!(
                "vmag: {name:<9} {0}; look at it with: vmag {command} {0}\n",
                own.display()
            )
        }),
        (None, None) => say(format_args!(
            "vmag: no {name} of the command's process: it was killed, called _exit, has a filter of system calls, became another program, {}{}\n",
            match name {
                "profile" =>
                    "or may not write here any more; VMAG_CONF=prof:true,black_box:PREFIX keeps one that `vmag heap` reads",
                _ =>
                    "allocated nothing, or may not write here any more; VMAG_CONF=trace:PREFIX, without this command, leaves one where the user that it became may write",
            },
            match older {
                Older::Removed => format!("; the {name} that an earlier run left there was removed"),
                Older::Kept(file) => format!("; {} is not this run's {name}, and stays as it is", file.display()),
                Older::Nothing => String::new(),
            }
        )),
    }
    if let Some(pid) = written.running.first() {
        say(format_args!(
            "vmag: {name:<9} processes that run on, such as {pid}, will leave theirs in {}\n",
            written.folder.display()
        ));
    }
    if let Some(earlier) = written.earlier.first() {
        shown.text(|| {
            format!(
                "vmag:           what was traced before a process became another program, or its trace was ended, is beside it, as {}\n",
                earlier.display()
            )
        });
    }
    if let Some(child) = written.of_children.first() {
        let (children, beside) = (
            counted(written.of_children.len() as u64, "further process"),
            child.display(),
        );
        shown.text(|| format!("vmag:           beside it those of {children}, such as {beside}\n"));
    }
}

fn run_once(subject: &Subject, shown: &mut Shown, mut wanted: Leavings) -> Result<Status> {
    let mut launcher = Launcher::new()?;
    let measured = subject.run_on_vmag(&mut launcher)?;
    let status = measured.ended.status;
    // Before anything can fail, for a run may have taken hours; and before we may be interrupted again.
    let left = wanted.collect(measured.ended.pid);
    drop(launcher);
    let told = shown.json(|| json::of_run(subject, &measured));
    if !measured.served.by_vmag {
        say(format_args!("{}\n", subject.not_served()));
        return Ok(not_success(status));
    }
    if !measured.served.to_its_end {
        say(format_args!("{}\n", subject.not_to_the_end()));
    }
    shown.text(|| text::of_run(&measured));
    let finished = left
        .into_iter()
        .map(|(name, written)| written.and_then(|written| wanted.finish(written, name, shown)));
    let failures: Vec<ToolError> = [told].into_iter().chain(finished).filter_map(Result::err).collect();
    failures.iter().for_each(|failure| say(format_args!("{failure}\n")));
    match failures.is_empty() && measured.served.to_its_end {
        true => Ok(status),
        false => Ok(not_success(status)),
    }
}

/// The program's own status, except that its success must not hide our failure.
fn not_success(status: Status) -> Status {
    if status == Status::Exited(0) {
        Status::Exited(EXIT_TOOL_FAILED)
    } else {
        status
    }
}

/// Where the figures go.
struct Shown {
    text: bool,
    json: Option<Destination>,
}

impl Shown {
    fn open(arguments: &Arguments) -> Result<Shown> {
        let json = match &arguments.json {
            None => None,
            Some(None) => Some(Destination::Stream(Box::new(io::stderr()))),
            Some(Some(path)) => {
                let opened = Destination::open(path);
                Some(opened.map_err(|error| cannot_write(&path.display().to_string(), error))?)
            }
        };
        let json_takes_stderr = matches!(arguments.json, Some(None));
        Ok(Shown {
            text: !arguments.quiet && !json_takes_stderr,
            json,
        })
    }

    fn json(&mut self, figures: impl FnOnce() -> serde_json::Value) -> Result<()> {
        match &mut self.json {
            Some(out) => {
                let written = out.write(format!("{:#}\n", figures()).as_bytes());
                written.map_err(|error| cannot_write("the JSON", error))
            }
            None => Ok(()),
        }
    }

    fn text(&self, lines: impl FnOnce() -> String) {
        if self.text {
            say(lines());
        }
    }
}

fn cannot_write(what: &str, error: io::Error) -> ToolError {
    ToolError::new(
        format!("cannot write {what}"),
        error,
        "name a file that can be written with --json=FILE",
    )
}
