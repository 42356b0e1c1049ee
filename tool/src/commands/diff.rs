//! `vmag diff`: what changed between two heap profiles, chance set apart.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::Result;
use crate::heap_diff::{self, Difference};
use crate::heap_view::{HeapView, Measure};
use crate::output::heap as text;
use crate::profile::Profile;
use crate::system::Status;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag diff before.heap after.heap                 what grew and what shrank
  vmag diff --measure live-objects a.heap b.heap   the same, in objects
  vmag diff --json a.heap b.heap                   for a script

Both profiles are estimates. A site is listed when its change is larger than two standard errors; all others are noise \
and shown as one sum.";

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
    #[arg(long)]
    json: bool,

    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    #[arg(value_name = "AFTER")]
    after: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let before = HeapView::new(Profile::read(&arguments.before)?);
    let after = HeapView::new(Profile::read(&arguments.after)?);
    let measure = arguments.measure;
    let difference = heap_diff::compare(&before, &after, measure);
    let out = if arguments.json {
        as_json(&difference, measure)
    } else {
        let head = format!(
            "{}: {} before, {} after\n\n",
            measure.title(),
            text::amount(measure.of(&before.sum(measure)), measure),
            text::amount(measure.of(&after.sum(measure)), measure)
        );
        head + &text::difference(&difference, measure, arguments.top)
    };
    deliver(out.as_bytes(), None)?;
    Ok(Status::Exited(0))
}

fn as_json(difference: &Difference, measure: Measure) -> String {
    let changes: Vec<_> = difference
        .changes
        .iter()
        .map(|change| {
            let functions: Vec<&str> = change
                .frames
                .iter()
                .rev()
                .map(|frame| frame.function.as_str())
                .collect();
            json!({
                "change": change.change, "error": change.error, "before": change.before, "after": change.after,
                "more_than_chance": change.is_real, "functions": functions,
            })
        })
        .collect();
    format!("{:#}\n", json!({"measure": measure.title(), "changes": changes}))
}
