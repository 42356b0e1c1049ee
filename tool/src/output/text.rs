//! The figures as a few lines for people.
//! SPDX-License-Identifier: BSD-2-Clause

use super::figures::{bytes, count, counted, held, seconds, status_text};
use crate::measure::{Measured, Served};
use crate::system::Status;
use std::fmt::Write;

/// What one run on vmag cost.
pub fn of_run(measured: &Measured) -> String {
    let (ended, usage) = (&measured.ended, &measured.ended.usage);
    let (user, system) = (usage.user.as_secs_f64(), usage.system.as_secs_f64());
    let at_exit = match &measured.served.at_exit {
        Some(figures) => bytes(figures.resident_bytes),
        None => "not known".to_string(),
    };
    let mut out = String::new();
    line(
        &mut out,
        &format!("{} on vmag {}", status_text(ended.status), measured.served.version),
    );
    let wall = seconds(ended.wall.as_secs_f64());
    line(
        &mut out,
        &format!(
            "time      {wall} wall, {} user, {} system",
            seconds(user),
            seconds(system)
        ),
    );
    line(
        &mut out,
        &format!(
            "resident  {} at the peak, {at_exit} at exit",
            bytes(measured.peak_resident_bytes())
        ),
    );
    held_lines(&mut out, &measured.served, ended.status);
    let (minor, major) = (count(usage.minor_faults), count(usage.major_faults));
    line(&mut out, &format!("faults    {minor} minor, {major} major"));
    // A least count: a forked child that leaves no line at its end is not known of.
    let processes = measured.served.processes;
    line(&mut out, &format!("processes at least {processes} used vmag"));
    out
}

fn held_lines(out: &mut String, served: &Served, status: Status) {
    let Some(at_exit) = &served.at_exit else {
        let why = match status {
            Status::Signaled(_) => "the process was killed",
            Status::Exited(_) => {
                "the process called _exit, set up a filter of system calls for itself, became another user, who may not write where its word \
                 was to be left, or became a program that does not use vmag"
            }
        };
        return line(out, &format!("allocator no word at exit: {why}"));
    };
    // What the command became by exec has not been looked at before it ran, and a malloc of its own comes before any preloaded one.
    if at_exit.arenas == 0 {
        return line(
            out,
            "allocator was never asked: the process allocated nothing, or became a program that defines malloc itself",
        );
    }
    let held: Vec<String> = held(at_exit)
        .iter()
        .map(|(name, value)| format!("{} {name}", bytes(*value)))
        .collect();
    let (arenas, threads) = (counted(at_exit.arenas, "arena"), counted(at_exit.threads, "thread"));
    line(out, &format!("allocator {} at exit", held.join(", ")));
    line(out, &format!("          {arenas}, {threads}"));
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "vmag: {text}");
}
