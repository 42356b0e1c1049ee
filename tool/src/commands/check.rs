//! `vmag check`: a gate for continuous integration. What is alive must not be more than before, chance aside.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::Result;
use crate::heap_diff;
use crate::heap_view::{HeapView, Measure};
use crate::output::heap as text;
use crate::profile::Profile;
use crate::system::Status;
use clap::Args;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag run --profile=now.heap -- ./tests && vmag check --baseline good.heap now.heap
      fails when a call site holds more at the end than in the profile that was kept
  vmag check --most-live 50000000 now.heap
      fails when more than that many bytes are alive

Exit status: 0 all is well, 1 something grew, 125 a profile cannot be read. A site has grown when it holds more than --tolerance \
above the baseline and more than two standard errors above it.";

/// What to end with when something grew.
const GREW: i32 = 1;

/// Fail when a profile shows more live memory than it should.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "limit", required = true, multiple = true, args = ["baseline", "most_live"])]
pub struct Arguments {
    /// The profile of a good run
    #[arg(long, value_name = "PROFILE")]
    baseline: Option<PathBuf>,

    /// Most bytes that may be alive
    #[arg(long, value_name = "BYTES")]
    most_live: Option<u64>,

    /// With --baseline: how much more a site may hold, in percent of what it held
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    tolerance: f64,

    /// Give the verdict as JSON
    #[arg(long)]
    json: bool,

    /// The profile to check
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
}

const MEASURE: Measure = Measure::LiveBytes;

pub fn run(arguments: &Arguments) -> Result<Status> {
    let view = HeapView::new(Profile::read(&arguments.profile)?);
    let live = view.sum(MEASURE);
    // Only what is beyond the limit for sure fails: its estimate less two standard errors.
    let too_much = arguments
        .most_live
        .is_some_and(|most| live.bytes - 2.0 * live.bytes_error() > most as f64);
    let mut grown = Vec::new();
    if let Some(path) = &arguments.baseline {
        let baseline = HeapView::new(Profile::read(path)?);
        grown = heap_diff::compare(&baseline, &view, MEASURE).changes;
        grown.retain(|change| change.is_real && change.change > change.before * arguments.tolerance / 100.0);
    }
    let failed = too_much || !grown.is_empty();
    let mut out = String::new();
    if arguments.json {
        let sites: Vec<_> = grown
            .iter()
            .map(|change| {
                let functions: Vec<&str> = change
                    .frames
                    .iter()
                    .rev()
                    .map(|frame| frame.function.as_str())
                    .collect();
                json!({"before": change.before, "after": change.after, "error": change.error, "functions": functions})
            })
            .collect();
        let verdict = json!({"passed": !failed, "live_bytes": live.bytes, "live_bytes_error": live.bytes_error(),
                             "too_much": too_much, "grown": sites});
        let _ = writeln!(out, "{verdict:#}");
    } else {
        let (bytes, error) = (
            text::amount(live.bytes, MEASURE),
            text::amount(live.bytes_error(), MEASURE),
        );
        let verdict = if failed { "FAILED" } else { "passed" };
        let _ = writeln!(out, "{verdict}: {bytes} ± {error} alive");
        if let Some(most) = arguments.most_live.filter(|_| too_much) {
            let _ = writeln!(
                out,
                "more than the {} that --most-live allows",
                text::amount(most as f64, MEASURE)
            );
        }
        for change in &grown {
            let (before, after) = (
                text::amount(change.before, MEASURE),
                text::amount(change.after, MEASURE),
            );
            let _ = writeln!(out, "grown: {before} → {after}  {}", text::place(&change.frames));
        }
    }
    deliver(out.as_bytes(), None)?;
    Ok(Status::Exited(if failed { GREW } else { 0 }))
}
