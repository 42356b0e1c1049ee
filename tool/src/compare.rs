//! Runs a command on vmag and without it, by turns, and keeps what every run cost.
//!
//! The side that goes first changes with every round, so that neither always finds the machine as the other left it.
//! All runs must end alike: figures of runs that did different things are not comparable.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::launch::{Ended, Launcher};
use crate::measure::{Served, Streams, Subject};
use crate::output::figures::status_text;
use crate::output::say;
use crate::system::Status;

pub struct Comparison {
    pub status: Status,
    pub on_vmag: Vec<Ended>,
    pub without: Vec<Ended>,
    /// What vmag told in the last round.
    pub served: Served,
}

pub enum Outcome {
    Complete(Comparison),
    /// The status to end with, and why.
    Stopped(Status, String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    OnVmag,
    Without,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::OnVmag => "on vmag",
            Side::Without => "without vmag",
        }
    }
}

pub fn compare(
    subject: &Subject,
    launcher: &mut Launcher,
    rounds: u32,
    streams: Streams,
    progress: bool,
) -> Result<Outcome> {
    let (mut on_vmag, mut without, mut last_served) = (Vec::new(), Vec::new(), None);
    for (done, side) in order(rounds).enumerate() {
        show_progress(progress, done, rounds, side);
        let ended = match side {
            Side::OnVmag => {
                let measured = subject.run_on_vmag(launcher, streams)?;
                last_served = Some(measured.served);
                measured.ended
            }
            Side::Without => subject.run_without_vmag(launcher, streams)?,
        };
        clear_progress(progress);
        if let Some(why) = must_stop(&ended, side) {
            return Ok(Outcome::Stopped(ended.status, why));
        }
        if side == Side::OnVmag && !last_served.as_ref().is_some_and(|served| served.by_vmag) {
            return Err(subject.not_served());
        }
        if let Some(first) = on_vmag.first().or(without.first()) {
            check_alike(first, &ended, side)?;
        }
        match side {
            Side::OnVmag => on_vmag.push(ended),
            Side::Without => without.push(ended),
        }
    }
    let served = last_served.expect("there is at least one round");
    Ok(Outcome::Complete(Comparison {
        status: on_vmag[0].status,
        on_vmag,
        without,
        served,
    }))
}

fn order(rounds: u32) -> impl Iterator<Item = Side> {
    (0..rounds).flat_map(|round| match round % 2 {
        0 => [Side::OnVmag, Side::Without],
        _ => [Side::Without, Side::OnVmag],
    })
}

fn must_stop(ended: &Ended, side: Side) -> Option<String> {
    if let Status::Signaled(_) = ended.status {
        return Some(format!(
            "the program {} ended by {}",
            side.name(),
            status_text(ended.status)
        ));
    }
    ended.interrupted.then(|| "interrupted".to_string())
}

fn check_alike(first: &Ended, ended: &Ended, side: Side) -> Result<()> {
    if first.status == ended.status {
        return Ok(());
    }
    Err(ToolError::new(
        "the runs did not end alike, so their figures say nothing",
        format!(
            "the first run: {}; a later run {}: {}",
            status_text(first.status),
            side.name(),
            status_text(ended.status)
        ),
        "make the command repeatable (it runs several times and reads nothing), then compare again",
    ))
}

fn show_progress(wanted: bool, done: usize, rounds: u32, side: Side) {
    if wanted {
        say(format_args!(
            "\r\x1b[Kvmag: round {} of {rounds}, {} …",
            done / 2 + 1,
            side.name()
        ));
    }
}

fn clear_progress(wanted: bool) {
    if wanted {
        say("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_take_turns_at_going_first() {
        let names: Vec<_> = order(2).map(Side::name).collect();
        assert_eq!(names, ["on vmag", "without vmag", "without vmag", "on vmag"]);
    }
}
