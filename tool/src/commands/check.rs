//! `vmag check`: a gate for continuous integration. What is alive must not be more than before, chance aside.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::heap_diff::{self, Change};
use crate::heap_view::{HeapView, Measure};
use crate::output::figures::{parse_bytes, parse_percent};
use crate::output::heap as text;
use crate::output::json::frames;
use crate::profile::{Estimate, Profile};
use crate::progress::Progress;
use crate::source::{Source, file_parser};
use crate::symbols::functions;
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view::{self, Summary};
use clap::{ArgGroup, Args};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag run --profile=good.bundle --bundle -- ./tests
      keeps a good run's profile with the names of its functions, for ./tests will be built anew
  vmag run --profile=now.heap -- ./tests && vmag check --baseline good.bundle now.heap
      fails when a call site holds more at the end than in the profile that was kept
  vmag check --most-live 50M now.heap
      fails when more than that many bytes are alive
  vmag run --trace=now.trace -- ./tests && vmag check --most-peak 80M now.trace
      fails when more were alive at any time

Exit status: 0 all is well, 1 something grew, 125 a profile cannot be read, lost samples, or is of a trace that is not whole. A site has grown when it holds more than --tolerance \
above the baseline, beyond chance: if no site has grown, one check in a hundred fails at most, however many sites there are (Holm's \
test over all sites, of conditional binomials). --most-live fails only by what is more than two standard errors beyond it: 600 KiB ± 300 KiB pass any limit. Sample finer (vmag run --sample-bytes 4096) for limits of a few MiB. A trace is exact, and needs stacks for --baseline alone; \
of one that was begun in a running process, cut, or left without an end by a kill or _exit there is no verdict, nor of a process \
whose profile is off or was switched on late, or of a file that was written of one.";

/// What to end with when something grew.
const GREW: i32 = 1;

/// Fail when a profile shows more live memory than it should.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("limit").required(true).multiple(true)))]
pub struct Arguments {
    /// The profile of a good run
    #[arg(long, value_name = "PROFILE", group = "limit", value_parser = file_parser())]
    baseline: Option<PathBuf>,

    /// Most bytes that may be alive, give or take two standard errors
    #[arg(long, value_name = "BYTES", group = "limit", value_parser = parse_bytes)]
    most_live: Option<u64>,

    /// Most bytes that may be alive at any time, of an event trace
    #[arg(long, value_name = "BYTES", group = "limit", value_parser = parse_bytes)]
    most_peak: Option<u64>,

    /// With --baseline: how much more a site may hold, in percent of what it held
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, requires = "baseline", value_parser = parse_percent)]
    tolerance: f64,

    /// Give the verdict as JSON
    #[arg(long)]
    json: bool,

    /// The profile to check, an event trace, or the number of a process that runs
    #[arg(value_name = "PROFILE|PID", value_parser = Source::parser())]
    profile: Source,
}

const MEASURE: Measure = Measure::LiveBytes;

pub fn run(arguments: &Arguments) -> Result<Status> {
    let verdict = judge(arguments)?;
    let out = match arguments.json {
        true => verdict.as_json(),
        false => verdict.as_text(),
    };
    deliver(out.as_bytes(), None)?;
    Ok(Status::Exited(if verdict.failed() { GREW } else { 0 }))
}

fn judge(arguments: &Arguments) -> Result<Verdict> {
    // A trace without stacks, too, knows the sum.
    let of_trace = arguments.most_peak.is_some() || (arguments.baseline.is_none() && arguments.profile.is_trace());
    let summary = match of_trace {
        true => Some(summary_of(&arguments.profile)?),
        false => None,
    };
    let peak = arguments.most_peak.zip(summary.as_ref()).map(|(most, summary)| Peak {
        bytes: summary.peak_live_bytes,
        most,
    });
    let by_site = arguments.baseline.is_some() || (arguments.most_live.is_some() && summary.is_none());
    let view = match by_site {
        true => HeapView::new(arguments.profile.profile_if_any()?),
        false => HeapView::new(Profile::default()),
    };
    if let Some(missing) = view.missing_and_lost(MEASURE) {
        return Err(not_whole(&arguments.profile, missing, view.profile.lost > 0));
    }
    let live = match &summary {
        Some(summary) if !by_site => at_end(summary),
        _ => view.sum(MEASURE),
    };
    // Only what is beyond the limit for sure fails: its estimate less two standard errors.
    let is_beyond = |most: &u64| live.bytes - 2.0 * live.bytes_error() > *most as f64;
    let mut grown = Vec::new();
    if let Some(path) = &arguments.baseline {
        let baseline = HeapView::new(Profile::read(path)?);
        if let Some(missing) = baseline.missing_and_lost(MEASURE) {
            return Err(not_whole(
                &Source::File(path.clone()),
                missing,
                baseline.profile.lost > 0,
            ));
        }
        check_named(&Source::File(path.clone()), &baseline)?;
        check_named(&arguments.profile, &view)?;
        grown = heap_diff::compare(&baseline, &view, MEASURE).grown(arguments.tolerance / 100.0);
    }
    Ok(Verdict {
        live: (by_site || arguments.most_live.is_some()).then_some(live),
        most_live: arguments.most_live,
        too_much: arguments.most_live.filter(is_beyond),
        peak,
        grown,
        is_exact: !by_site || view.profile.lg_sample == Some(0),
        sampled: !by_site || !view.profile.samples.is_empty() || view.profile.lg_sample == Some(0),
    })
}

/// Exact.
fn at_end(summary: &Summary) -> Estimate {
    Estimate {
        objects: summary.live_objects_at_end as f64,
        bytes: summary.live_bytes_at_end as f64,
        ..Estimate::default()
    }
}

fn summary_of(source: &Source) -> Result<Summary> {
    let path = match source {
        Source::File(path) if Trace::is_one(path) || !path.exists() => path,
        _ => {
            return Err(ToolError::new(
                format!("{} does not tell the peak", source.spoken()),
                "it is no event trace; a profile shows one moment",
                "record one with `vmag run --trace FILE`",
            ));
        }
    };
    let mut progress = Progress::new("reading the trace");
    let summary = trace_view::summary(&Trace::open(path)?, &mut |part| progress.at(part))?;
    match &summary.missing {
        Some(missing) => Err(not_whole(source, missing.clone(), false)),
        None => Ok(summary),
    }
}

/// No verdict on what is known in part.
fn not_whole(source: &Source, missing: String, lost: bool) -> ToolError {
    let next = match source.is_trace() {
        true => {
            "record it from its beginning to its end, with a larger --trace-bytes where the file was full; of a forked child a profile tells all"
        }
        false if lost => "record it anew where there is more memory, or with fewer samples (a larger --sample-bytes)",
        false if source.is_process() => "start the process with VMAG_CONF=prof:true, and leave the profile on",
        false => "record it anew, from the program's beginning on, and leave the profile or trace on",
    };
    ToolError::new(
        format!("{} does not tell all that was alive", source.spoken()),
        missing,
        next,
    )
}

/// Sites are told by names.
fn check_named(source: &Source, view: &HeapView) -> Result<()> {
    let replaced = &view.named.replaced;
    if replaced.is_empty() {
        return Ok(());
    }
    Err(ToolError::new(
        format!("{} has no names to compare", source.spoken()),
        format!("{} was built anew since it was recorded", replaced.join(", ")),
        "keep a bundle, made before that: `vmag run --profile=FILE --bundle`, or `vmag export --bundle PROFILE FILE`",
    ))
}

struct Peak {
    bytes: u64,
    most: u64,
}

struct Verdict {
    /// None: not asked for.
    live: Option<Estimate>,
    most_live: Option<u64>,
    /// The limit that it is beyond.
    too_much: Option<u64>,
    peak: Option<Peak>,
    grown: Vec<Change>,
    /// Something was, or need not be.
    sampled: bool,
    /// Every allocation was counted.
    is_exact: bool,
}

impl Verdict {
    fn peak_too_much(&self) -> bool {
        self.peak.as_ref().is_some_and(|peak| peak.bytes > peak.most)
    }

    /// The limit that what is alive may or may not be beyond.
    fn beyond_by_chance(&self) -> Option<u64> {
        let live = self.live?.bytes;
        self.most_live
            .filter(|most| self.too_much.is_none() && live > *most as f64)
    }

    fn failed(&self) -> bool {
        self.too_much.is_some() || self.peak_too_much() || !self.grown.is_empty()
    }

    fn as_json(&self) -> String {
        let sites: Vec<_> = self
            .grown
            .iter()
            .map(|change| {
                json!({"before": change.before, "after": change.after, "error": change.error,
                       "functions": functions(&change.frames), "frames": frames(&change.frames)})
            })
            .collect();
        let verdict = json!({
            "format": "vmag-check-1", "passed": !self.failed(), "exact": self.is_exact, "sampled": self.sampled,
            "live_bytes": self.live.map(|live| live.bytes), "live_bytes_error": self.live.map(|live| live.bytes_error()),
            "most_live": self.most_live, "too_much": self.too_much.is_some(), "perhaps_too_much": self.beyond_by_chance().is_some(),
            "peak_bytes": self.peak.as_ref().map(|peak| peak.bytes), "most_peak": self.peak.as_ref().map(|peak| peak.most),
            "peak_too_much": self.peak_too_much(), "grown": sites,
        });
        format!("{verdict:#}\n")
    }

    fn as_text(&self) -> String {
        let amount = |bytes: f64| text::amount(bytes, MEASURE);
        let mut out = String::from(if self.failed() { "FAILED" } else { "passed" });
        if let Some(live) = &self.live {
            let _ = write!(out, ": {} ± {} alive", amount(live.bytes), amount(live.bytes_error()));
        }
        if let Some(peak) = &self.peak {
            let _ = write!(out, ": {} at the peak", amount(peak.bytes as f64));
        }
        out.push('\n');
        if !self.sampled {
            out.push_str("nothing was sampled: too little was allocated for that\n");
        }
        if let Some(most) = self.too_much {
            let _ = writeln!(out, "more than the {} that --most-live allows", amount(most as f64));
        } else if let Some(most) = self.beyond_by_chance() {
            let _ = writeln!(
                out,
                "more than the {} that --most-live allows, but by less than two standard errors: a finer profile tells",
                amount(most as f64)
            );
        }
        if let Some(peak) = self.peak.as_ref().filter(|_| self.peak_too_much()) {
            let _ = writeln!(
                out,
                "more than the {} that --most-peak allows",
                amount(peak.most as f64)
            );
        }
        let places = text::places(self.grown.iter().map(|change| &change.frames[..]));
        for (change, place) in self.grown.iter().zip(places) {
            let (before, after) = (amount(change.before), amount(change.after));
            let _ = writeln!(out, "grown: {before} → {after}  {place}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests::{as_oldest, chunk, file};

    #[test]
    fn there_is_no_verdict_without_samples_that_were_lost() {
        let profile = tempfile::NamedTempFile::new().unwrap();
        let check = |lost: u64| {
            let samples = format!("VMAG_PROFILE:\nlg_sample=19 lost={lost} pid=7 time=11\n");
            std::fs::write(profile.path(), format!("heap_v2/1\n\nMAPPED_LIBRARIES:\n\n{samples}")).unwrap();
            judge(&Arguments {
                baseline: None,
                most_live: Some(1 << 20),
                most_peak: None,
                tolerance: 10.0,
                json: false,
                profile: Source::File(profile.path().to_path_buf()),
            })
        };
        assert!(check(0).unwrap().as_text().contains("too little was allocated"));
        assert!(check(3).err().unwrap().why.contains("3 samples missing"));
    }

    #[test]
    fn a_trace_without_stacks_tells_the_sum() {
        let events = [(10, 0, 0x1000, 64), (20, 0, 0x2000, 4096), (30, 1, 0x2000, 0)];
        // A newer one would have to say how it ended.
        let trace = file(&[as_oldest(chunk(0, 1, &events))]);
        let check = |most_live: u64, most_peak: Option<u64>, baseline: Option<&str>| {
            judge(&Arguments {
                baseline: baseline.map(PathBuf::from),
                most_live: Some(most_live),
                most_peak,
                tolerance: 10.0,
                json: false,
                profile: Source::File(trace.path().to_path_buf()),
            })
        };
        assert!(!check(64, None, None).unwrap().failed());
        assert!(check(63, None, None).unwrap().failed());
        assert!(!check(64, Some(4160), None).unwrap().failed());
        assert!(check(64, Some(4159), None).unwrap().failed());
        // Whose it is, is asked for then.
        assert!(
            check(64, None, Some("good.heap"))
                .err()
                .unwrap()
                .what
                .contains("who allocated")
        );
    }
}
