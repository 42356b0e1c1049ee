//! `vmag attach`: what a process that runs on vmag holds, and its profile switched on and off.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::{Answer, Ask, Counters, Process};
use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::output::figures;
use crate::system::Status;
use clap::Args;
use serde_json::json;
use std::fmt::Write;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vmag attach 4711                   what it holds now: sums, arenas, size classes
  vmag attach --json 4711            the same for a script
  vmag attach --profile 512k 4711    sample an allocation every 512 KiB on average from now on
  vmag heap 4711                     what was sampled and is alive
  vmag attach --profile off 4711     sample no longer; what was sampled stays known

The process is only read, at the addresses that the library tells, and nothing in it stops: stopped and deadlocked \
processes are read as well. It must be yours, or you root, and the kernel must let processes look into each other \
(kernel.yama.ptrace_scope). Switching writes a word that the process finds when it next comes by in the allocator's slow \
paths: at once in a busy one, not before it allocates in an idle one. Objects that were allocated before the profile was on are \
not in it.";

/// Look into a running process, or switch its profile.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Switch the profile: mean bytes between two samples (512k, 1M), or off
    #[arg(long, value_name = "BYTES|off", value_parser = parse_profile)]
    profile: Option<Ask>,

    /// How long to wait until the process did what was asked
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u64,

    /// Give the counters as JSON
    #[arg(long)]
    json: bool,

    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
}

fn parse_profile(word: &str) -> std::result::Result<Ask, String> {
    match word {
        "off" => Ok(Ask::ProfileOff),
        _ => parse_distance(word).map(|sample_bytes| Ask::ProfileOn { sample_bytes }),
    }
}

/// Mean bytes between two samples.
pub fn parse_distance(word: &str) -> std::result::Result<u64, String> {
    let not_understood = || "give bytes as 512k or 1M".to_string();
    let (digits, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
    let lg_unit = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return Err(not_understood()),
    };
    let number: u64 = digits.parse().map_err(|_| not_understood())?;
    let bytes = number.checked_mul(1 << lg_unit).filter(|bytes| bytes.is_power_of_two());
    bytes.ok_or("the mean distance of samples must be a power of two: 64k, 512k, 1M".to_string())
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let process = Process::attach(arguments.pid)?;
    if let Some(ask) = &arguments.profile {
        return switch(&process, ask, Duration::from_secs(arguments.wait));
    }
    let counters = process.counters()?;
    let out = match arguments.json {
        true => as_json(&process, &counters),
        false => as_text(&process, &counters),
    };
    deliver(out.as_bytes(), None)?;
    Ok(Status::Exited(0))
}

fn switch(process: &Process, ask: &Ask, patience: Duration) -> Result<Status> {
    match process.ask(ask, patience)? {
        Answer::Done => {
            let what = match process.sampling() {
                Some((true, bytes)) => format!("on: a sample every {} on average", figures::bytes(bytes)),
                _ => "off".to_string(),
            };
            deliver(format!("process {}: profile {what}\n", process.pid).as_bytes(), None)?;
            Ok(Status::Exited(0))
        }
        Answer::Waiting => Err(ToolError::new(
            format!("process {} has not seen the request yet", process.pid),
            "it did not come by in the allocator's slow paths: it is idle, stopped, or content with its magazines",
            "it will obey when it does; --wait SECONDS waits longer",
        )),
    }
}

fn as_json(process: &Process, counters: &Counters) -> String {
    let (active, bytes) = process.sampling().unwrap_or_default();
    let value = json!({
        "pid": process.pid, "program": process.program, "library_version": process.library_version(),
        "profile_active": active, "sample_bytes": bytes, "counters": counters,
    });
    format!("{value:#}\n")
}

fn as_text(process: &Process, counters: &Counters) -> String {
    let bytes = figures::bytes;
    let profile = match process.sampling() {
        Some((true, distance)) => format!("on, a sample every {} on average", bytes(distance)),
        _ => "off".to_string(),
    };
    let mut out = format!(
        "process {}, {}: vmag {}, {} threads, {} arenas; profile {profile}\n\n",
        process.pid,
        process.program,
        process.library_version(),
        counters.threads,
        counters.arenas.len()
    );
    let rows = [
        (
            "resident",
            counters.process_resident.unwrap_or(0),
            "the whole process, by the kernel",
        ),
        ("allocated", counters.allocated, "held by the program"),
        ("cached", counters.cached, "free objects in magazines"),
        ("active", counters.active, "slabs and page runs in use"),
        ("dirty", counters.dirty, "unused pages, not given back yet"),
        ("metadata", counters.metadata, "the library's own"),
        ("mapped", counters.mapped, "address space of the heap"),
    ];
    for (name, value, meaning) in rows {
        let _ = writeln!(out, "{name:<10}{:>12}  {meaning}", bytes(value));
    }
    let _ = writeln!(
        out,
        "\n{:>9} {:>12} {:>10} {:>9} {:>8} {:>6}",
        "size", "bytes", "live", "cached", "slabs", "full"
    );
    let mut classes: Vec<_> = counters
        .classes
        .iter()
        .filter(|class| class.live + class.cached > 0)
        .collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.live * class.size));
    for class in classes {
        let full = match class.slab_bytes {
            0 => String::new(),
            whole => format!("{} %", class.live * class.size * 100 / whole),
        };
        let _ = writeln!(
            out,
            "{:>9} {:>12} {:>10} {:>9} {:>8} {full:>6}",
            class.size,
            bytes(class.live * class.size),
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
