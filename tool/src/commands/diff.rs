//! `vmag diff`: what changed between two heap profiles, chance set apart.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::Result;
use crate::heap_diff::{self, Difference};
use crate::heap_view::{HeapView, Measure};
use crate::output::json::{frames, with_rows};
use crate::output::{heap as text, warn_missing};
use crate::source::Source;
use crate::symbols::functions;
use crate::system::Status;
use clap::Args;
use serde_json::json;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vmag diff before.heap after.heap                 what grew and what shrank
  vmag diff --measure live-objects a.heap b.heap   the same, in objects
  vmag diff --json a.heap b.heap                   for a script
  vmag diff --seconds 30 4711                      what a process holds more 30 seconds later
  vmag diff before.heap 4711                       the same since a profile was written

A profile is a file, a black box, or the number of a process that runs and is profiled. Both profiles are estimates. A site is listed when its change is larger than two standard errors, each by itself: of twenty that did not change, one \
is listed. All others are noise and shown as one sum. `vmag check` judges all sites together. In profiles of two processes a function's sites \
are told apart where both have the same lines.";

/// Show what changed between two heap profiles.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What to count
    #[arg(long, value_enum, default_value = "live-bytes")]
    measure: Measure,

    /// How many sites to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Give the changes as JSON
    #[arg(long, conflicts_with = "top")]
    json: bool,

    /// How long to wait before the second look at a process
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "after")]
    seconds: u64,

    /// The earlier profile; or the process, to be looked at twice
    #[arg(value_name = "BEFORE|PID", value_parser = Source::parser())]
    before: Source,

    /// The later profile
    #[arg(value_name = "AFTER|PID", value_parser = Source::parser())]
    after: Option<Source>,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let mut profiles = match &arguments.after {
        Some(after) => vec![arguments.before.profile()?, after.profile()?],
        None => arguments.before.profiles(2, Duration::from_secs(arguments.seconds))?,
    };
    let after = HeapView::new(profiles.pop().unwrap_or_default());
    let before = HeapView::new(profiles.pop().unwrap_or_default());
    for (source, view) in [(Some(&arguments.before), &before), (arguments.after.as_ref(), &after)] {
        let name = source.unwrap_or(&arguments.before).name();
        warn_missing(&name, view.missing_of(arguments.measure).as_deref());
        warn_missing(&name, view.named.replaced_told().as_deref());
    }
    let measure = arguments.measure;
    let difference = heap_diff::compare(&before, &after, measure);
    let sums = [&before, &after].map(|view| measure.of(&view.sum(measure)));
    let out = if arguments.json {
        as_json(&difference, measure, [&before, &after])
    } else {
        let head = format!(
            "{}: {} before, {} after: {}\n\n",
            measure.title(),
            text::amount(sums[0], measure),
            text::amount(sums[1], measure),
            text::signed(sums[1] - sums[0], measure)
        );
        head + &text::difference(&difference, measure, arguments.top) + &text::on_callers(&after, measure)
    };
    deliver(out.as_bytes(), None)?;
    Ok(Status::Exited(0))
}

fn as_json(difference: &Difference, measure: Measure, views: [&HeapView; 2]) -> String {
    let changes = difference.changes.iter().map(|change| {
        json!({
            "change": change.change, "error": change.error, "before": change.before, "after": change.after,
            "more_than_chance": change.is_real, "functions": functions(&change.frames), "frames": frames(&change.frames),
        })
    });
    let sums = views.map(|view| view.sum(measure));
    let [before, after] = sums.map(|sum| measure.of(&sum));
    let profile = |number: usize| {
        let profile = &views[number].profile;
        json!({
            "pid": profile.pid, "time": profile.time, "lg_sample": profile.lg_sample, "lost_samples": profile.lost,
            "missing": views[number].missing_of(measure), "sum": measure.of(&sums[number]), "error": measure.error_of(&sums[number]),
        })
    };
    let value = json!({
        "format": "vmag-diff-1", "measure": measure.title(), "profiles": [profile(0), profile(1)],
        "before": before, "after": after, "change": after - before,
    });
    with_rows(&value, "changes", changes) + "\n"
}
