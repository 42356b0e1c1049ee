//! `vmag attach`: what a process that runs on vmag holds, and its profile and its event trace switched on and off.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::{Answer, Ask, ClassCounters, Counters, Process};
use crate::black_box::BlackBox;
use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::output::figures::{self, parse_bytes};
use crate::output::warn_missing;
use crate::process::may_write;
use crate::recorded::{check_ring, parse_trace_bytes};
use crate::source::{Source, spoken};
use crate::system::Status;
use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vmag attach 4711                   what it holds now: sums, size classes; as JSON also arenas
  vmag attach --json 4711            the same for a script
  vmag attach --profile 512k 4711    sample an allocation every 512 KiB on average from now on
  vmag heap 4711                     what was sampled and is alive
  vmag attach --profile off 4711     sample no longer; what was sampled stays known
  vmag attach --trace /var/tmp/t 4711
                                     write every event into /var/tmp/t.4711.0.trace
  vmag attach --trace off 4711       until then
  vmag attach app.4711.box           what a process held that was killed (docs/attach.md)

The process is only read, at the addresses that the library tells, and nothing in it stops: stopped and deadlocked \
processes are read as well. It must be yours, or you root, and the kernel must let processes look into each other \
(kernel.yama.ptrace_scope). Switching writes a word that the process finds when it next comes by in the allocator's slow \
paths: at once in a busy one, not before it allocates in an idle one. Objects that were allocated before the profile was on are \
not in it.";

/// Look into a running process, or switch its profile or its trace.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("switch").multiple(true)))]
pub struct Arguments {
    /// Switch the profile: mean bytes between two samples (512k, 1M), or off
    #[arg(long, value_name = "BYTES|off", group = "switch", value_parser = parse_profile)]
    profile: Option<Ask>,

    /// Switch the event trace: what the names of its files begin with, or off
    #[arg(long, value_name = "PREFIX|off", group = "switch")]
    trace: Option<String>,

    /// With --trace: record the stack of each event, too
    #[arg(long, requires = "trace")]
    trace_stacks: bool,

    /// With --trace: keep the newest events when the file is full, not the oldest
    #[arg(long, requires = "trace")]
    trace_ring: bool,

    /// With --trace: most bytes of the file, 128k at least, with --trace-ring 256k [default: 4G]
    #[arg(long, value_name = "BYTES", requires = "trace", value_parser = parse_trace_bytes)]
    trace_bytes: Option<u64>,

    /// With --profile or --trace: how long to wait until the process did what was asked
    #[arg(long, value_name = "SECONDS", default_value_t = 5, requires = "switch")]
    wait: u64,

    /// Give the counters, or what is switched now, as JSON
    #[arg(long)]
    json: bool,

    /// The process, or the black box of one
    #[arg(value_name = "PID|BLACK_BOX", value_parser = Source::parser())]
    source: Source,
}

/// As the library has it where nobody says.
const TRACE_BYTES_USUAL: u64 = 4 << 30;

fn parse_profile(word: &str) -> std::result::Result<Ask, String> {
    match word {
        "off" => Ok(Ask::ProfileOff),
        _ => parse_distance(word).map(|sample_bytes| Ask::ProfileOn { sample_bytes }),
    }
}

/// Mean bytes between two samples.
pub fn parse_distance(word: &str) -> std::result::Result<u64, String> {
    let bytes = Some(parse_bytes(word)?).filter(|bytes| bytes.is_power_of_two());
    bytes.ok_or("the mean distance of samples must be a power of two: 64k, 512k, 1M".to_string())
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let asks = asks(arguments)?;
    let subject = match &arguments.source {
        Source::Process(pid) if asks.is_empty() => Subject::of_process(&Process::attach(*pid)?)?,
        Source::File(path) if asks.is_empty() => Subject::of_box(BlackBox::read(path)?),
        Source::Process(pid) => {
            let process = Process::attach(*pid)?;
            let mut switched = json!({"format": "vmag-switched-1", "pid": process.pid, "program": process.program});
            for ask in &asks {
                let (key, value, line) = switch(&process, ask, Duration::from_secs(arguments.wait))?;
                switched[key] = value;
                if !arguments.json {
                    deliver(format!("process {}: {line}\n", process.pid).as_bytes(), None)?;
                }
            }
            if arguments.json {
                deliver(format!("{switched:#}\n").as_bytes(), None)?;
            }
            return Ok(Status::Exited(0));
        }
        Source::File(path) => {
            return Err(ToolError::new(
                format!("cannot switch anything in {}", spoken(path)),
                "that is a file",
                "give the number of the process",
            ));
        }
    };
    let out = match arguments.json {
        true => format!("{:#}\n", subject.json()),
        false => subject.text(),
    };
    deliver(out.as_bytes(), None)?;
    Ok(Status::Exited(0))
}

fn asks(arguments: &Arguments) -> Result<Vec<Ask>> {
    let mut asks: Vec<Ask> = arguments.profile.iter().cloned().collect();
    match arguments.trace.as_deref() {
        None => {}
        Some("off") if arguments.trace_stacks || arguments.trace_ring || arguments.trace_bytes.is_some() => {
            return Err(ToolError::new(
                "cannot switch the trace off in a certain way",
                "--trace-stacks, --trace-ring and --trace-bytes are of one that begins",
                "leave them out",
            ));
        }
        Some("off") => asks.push(Ask::TraceOff),
        Some(prefix) => {
            let most_bytes = arguments.trace_bytes.unwrap_or(TRACE_BYTES_USUAL);
            if arguments.trace_ring {
                check_ring(most_bytes)?;
            }
            // The process may be in another folder.
            let prefix = std::path::absolute(prefix)
                .map_err(|error| ToolError::new("cannot ask for a trace", error, "give a path with --trace"))?;
            asks.push(Ask::TraceOn {
                prefix: prefix.display().to_string(),
                most_bytes,
                ring: arguments.trace_ring,
                stacks: arguments.trace_stacks,
            });
        }
    }
    Ok(asks)
}

/// What is shown, wherever it comes from.
struct Subject {
    pid: i32,
    program: String,
    library_version: String,
    /// Of a black box: when its counters were written, and the most that was resident.
    written: Option<(u64, u64)>,
    begun: Option<u64>,
    sampling: (bool, u64),
    counters: Counters,
}

impl Subject {
    fn of_process(process: &Process) -> Result<Subject> {
        Ok(Subject {
            pid: process.pid,
            program: process.program.clone(),
            library_version: process.library_version().to_string(),
            written: None,
            begun: None,
            sampling: process.sampling().unwrap_or_default(),
            counters: process.counters()?,
        })
    }

    fn of_box(black_box: BlackBox) -> Subject {
        Subject {
            pid: black_box.pid,
            program: black_box.program,
            library_version: black_box.library_version,
            written: Some((black_box.time, black_box.peak_resident)),
            begun: Some(black_box.begun),
            sampling: (black_box.profile_active, black_box.sample_bytes),
            counters: black_box.counters,
        }
    }

    fn json(&self) -> Value {
        json!({
            "format": "vmag-attach-1",
            "pid": self.pid, "program": self.program, "library_version": self.library_version,
            "profile_active": self.sampling.0, "sample_bytes": self.sampling.1,
            "begun": self.begun, "time": self.written.map(|written| written.0), "peak_resident": self.written.map(|written| written.1),
            "counters": self.counters,
        })
    }

    fn text(&self) -> String {
        let profile = match self.sampling {
            (true, distance) => format!("on, a sample every {} on average", figures::bytes(distance)),
            _ => "off".to_string(),
        };
        let mut out = format!(
            "{}process {}, {}: vmag {}, {}; profile {profile}\n\n",
            if self.written.is_some() { "black box of " } else { "" },
            self.pid,
            self.program,
            self.library_version,
            figures::counted(u64::from(self.counters.threads), "thread"),
        );
        out.push_str(&sums(&self.counters, self.written));
        if let (Some(begun), Some((time, _))) = (self.begun, self.written) {
            let age = figures::counted(time.saturating_sub(begun), "second");
            let _ = writeln!(
                out,
                "\nas they were {age} after the box was made, when the process wrote them last"
            );
        }
        out.push_str(&classes(&self.counters));
        out
    }
}

/// What is switched now: its key, its value, and both as a line.
fn switch(process: &Process, ask: &Ask, patience: Duration) -> Result<(&'static str, Value, String)> {
    if let Ask::TraceOn { prefix, .. } = ask {
        check_folder(process, prefix)?;
    }
    if process.ask(ask, patience)? == Answer::Waiting {
        return Err(not_seen(process.pid));
    }
    let off = || json!({"active": false});
    Ok(match (ask, process.sampling()) {
        (Ask::TraceOn { prefix, .. }, _) => {
            let files = format!("{}{prefix}.{}.*.trace", process.root_of_names(), process.own_number());
            let line = format!("trace on, into {files} as soon as it has something to write");
            if let Some(folder) = folder_of(process, prefix).filter(|folder| !may_write(process.pid, folder)) {
                let why = "by its mode the process may not write there: unless it may otherwise, the trace ends with a line on its standard error";
                warn_missing(&folder.display().to_string(), Some(why));
            }
            ("trace", json!({"active": true, "files": files}), line)
        }
        (Ask::TraceOff, _) => ("trace", off(), "trace off".to_string()),
        (_, Some((true, bytes))) => {
            let line = format!("profile on: a sample every {} on average", figures::bytes(bytes));
            ("profile", json!({"active": true, "sample_bytes": bytes}), line)
        }
        _ => ("profile", off(), "profile off".to_string()),
    })
}

/// None: it cannot be told from here.
fn folder_of<'a>(process: &Process, prefix: &'a str) -> Option<&'a Path> {
    let folder = Path::new(prefix).parent()?;
    (folder.is_absolute() && !process.lives_elsewhere()).then_some(folder)
}

/// The process makes its file when it has filled the first piece of it, and would say only there that it cannot.
fn check_folder(process: &Process, prefix: &str) -> Result<()> {
    if folder_of(process, prefix).is_none_or(|folder| folder.is_dir()) {
        return Ok(());
    }
    Err(ToolError::new(
        format!("cannot trace into {prefix}"),
        "there is no such folder",
        "name a folder that process can write to",
    ))
}

pub fn not_seen(pid: i32) -> ToolError {
    ToolError::new(
        format!("process {pid} has not seen the request yet"),
        "it did not come by in the allocator's slow paths: it is idle, stopped, or content with its magazines",
        "it will obey when it does; --wait SECONDS waits longer",
    )
}

const CACHES: &str = "caches";

fn sums(counters: &Counters, written: Option<(u64, u64)>) -> String {
    let mut rows = vec![
        (
            "resident",
            counters.process_resident.unwrap_or(0),
            "the whole process, by the kernel",
        ),
        ("allocated", counters.allocated, "held by the program"),
        (
            CACHES,
            counters.out_of_caches(),
            "objects of object caches, held besides",
        ),
        ("cached", counters.cached, "free objects in magazines"),
        ("active", counters.active, "slabs and page runs in use"),
        ("dirty", counters.dirty, "unused pages, not given back yet"),
        ("metadata", counters.metadata, "the library's own"),
        ("mapped", counters.mapped, "address space of the heap"),
    ];
    if let Some((_, peak)) = written {
        rows.insert(1, ("at most", peak, "resident since the process began"));
    }
    rows.retain(|(name, value, _)| *name != CACHES || *value > 0);
    let mut out = String::new();
    for (name, value, meaning) in rows {
        let _ = writeln!(out, "{name:<10}{:>12}  {meaning}", figures::bytes(value));
    }
    out
}

/// Those that hold something, the largest first.
fn classes(counters: &Counters) -> String {
    let holds = |class: &&ClassCounters| class.live > 0 || class.cached > 0;
    let mut classes: Vec<&ClassCounters> = counters.classes.iter().filter(holds).collect();
    if classes.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "\n{:>9} {:>12} {:>10} {:>9} {:>8} {:>6}\n",
        "size", "bytes", "live", "cached", "slabs", "used"
    );
    classes.sort_by_key(|class| std::cmp::Reverse(class.live_bytes()));
    for class in classes {
        let used = match class.slab_bytes {
            0 => String::new(),
            whole => format!("{} %", class.live_bytes().saturating_mul(100) / whole),
        };
        let _ = writeln!(
            out,
            "{:>9} {:>12} {:>10} {:>9} {:>8} {used:>6}",
            class.size,
            figures::bytes(class.live_bytes()),
            class.live,
            class.cached,
            class.slabs
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_of_any_numbers_is_shown() {
        let class = ClassCounters {
            size: 64,
            live: u64::MAX,
            cached: 1,
            ..ClassCounters::default()
        };
        let counters = Counters {
            classes: vec![class],
            ..Counters::default()
        };
        assert!(classes(&counters).contains(&u64::MAX.to_string()));
    }

    #[test]
    fn distances_are_powers_of_two() {
        let bytes = |word| match parse_profile(word) {
            Ok(Ask::ProfileOn { sample_bytes }) => Some(sample_bytes),
            _ => None,
        };
        assert_eq!(
            (bytes("512k"), bytes("1MiB"), bytes("4096")),
            (Some(512 << 10), Some(1 << 20), Some(4096))
        );
        assert_eq!((bytes("500k"), bytes("x"), bytes("9999999999g")), (None, None, None));
        assert!(matches!(parse_profile("off"), Ok(Ask::ProfileOff)));
    }
}
