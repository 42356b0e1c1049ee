//! `vmag leaks`: what is alive at exit, or what keeps growing from profile to profile. One word never stands for both.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::Process;
use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::heap_diff;
use crate::heap_view::{HeapView, Measure};
use crate::output::figures::{counted, parse_bytes};
use crate::output::json::{frames, with_estimate, with_rows};
use crate::output::{heap as text, in_line, warn_missing};
use crate::profile::Profile;
use crate::source::Source;
use crate::symbols::functions;
use crate::system::Status;
use clap::Args;
use serde_json::json;
use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vmag run --profile=exit.heap -- ./program && vmag leaks exit.heap
      what was alive when the program ended
  vmag leaks 1.heap 2.heap 3.heap
      what grew from each profile of a running process to the next (lg_prof_interval, prof.dump)
  vmag leaks --seconds 60 4711
      what grew in process 4711 from each of four looks to the next, 60 seconds apart
  vmag leaks --unreachable 4711
      what nothing in process 4711 points to any more
  vmag leaks 4711.box
      what was alive when a process was killed (option black_box)

\"Alive at exit\" is no proof of a leak: many programs leave freeing to the end of the process. \"Growing\" means: larger in \
every profile than in the one before, and from the first to the last by more than two standard errors. Whether anything \
still points to an object cannot be seen in a profile, but in a process that runs: \"unreachable\" means that no address of an \
object or in it was found on any way from data and stacks, by two searches, free memory and the allocator's own aside. That is a leak unless the \
program keeps its pointers in registers, in disguise, or elsewhere. What is reachable may be a leak all the same.";

/// Show what a program did not free, or what keeps growing.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// How many sites to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// Give the sites as JSON
    #[arg(long, conflicts_with = "top")]
    json: bool,

    /// Sites that hold less are not shown
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = parse_bytes)]
    least: u64,

    /// Look at a running process so many times [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    looks: Option<u32>,

    /// How long to wait between two looks at a running process [default: 10]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,

    /// Search a running process for what nothing points to
    #[arg(long, conflicts_with_all = ["looks", "seconds"])]
    unreachable: bool,

    /// One profile of the end, several in the order of time, or the number of a process that runs
    #[arg(value_name = "PROFILE|PID", required = true, num_args = 1.., value_parser = Source::parser())]
    profiles: Vec<Source>,
}

const MEASURE: Measure = Measure::LiveBytes;
/// Between two searches: a pointer on its way has arrived.
const SEARCH_PAUSE: Duration = Duration::from_millis(200);

pub fn run(arguments: &Arguments) -> Result<Status> {
    if arguments.unreachable {
        let [Source::Process(pid)] = arguments.profiles[..] else {
            return Err(ToolError::new(
                "cannot search a file for what is unreachable",
                "a profile does not hold the memory of the process",
                "give the number of one process that runs",
            ));
        };
        let process = Process::attach(pid)?;
        let missing = process.profile_if_any()?.missing; // without a profile nothing would be found, whatever is lost
        let lost = process.unreachable(SEARCH_PAUSE)?;
        let view = HeapView::new(Profile { missing, ..lost });
        return deliver(alive(arguments, &view, "unreachable").as_bytes(), None).map(|()| Status::Exited(0));
    }
    let profiles = match &arguments.profiles[..] {
        [process @ Source::Process(_)] => {
            let (looks, seconds) = (arguments.looks.unwrap_or(4), arguments.seconds.unwrap_or(10));
            process.profiles(looks as usize, Duration::from_secs(seconds))?
        }
        _ if arguments.looks.is_some() || arguments.seconds.is_some() => {
            return Err(ToolError::new(
                "cannot look again at what was named",
                "--looks and --seconds are of one process that runs; a file does not change",
                "leave them out, or give the number of one process",
            ));
        }
        sources => sources.iter().map(Source::profile).collect::<Result<Vec<_>>>()?,
    };
    let views: Vec<HeapView> = profiles.into_iter().map(HeapView::new).collect();
    let out = match &views[..] {
        [one] if matches!(arguments.profiles[..], [Source::Process(_)]) => alive(arguments, one, "alive now"),
        [one] => alive(arguments, one, "alive at exit"),
        several => {
            for (source, view) in arguments.profiles.iter().zip(several) {
                warn_missing(&source.name(), view.profile.missing.as_deref());
            }
            warn_disorder(&arguments.profiles, several);
            growing(arguments, several)
        }
    };
    deliver(out.as_bytes(), None)?;
    Ok(Status::Exited(0))
}

/// A shell puts p.i10.heap before p.i9.heap, and then nothing grows from each to the next.
fn warn_disorder(sources: &[Source], views: &[HeapView]) {
    let mut times = views
        .iter()
        .map(|view| view.profile.time)
        .zip(sources)
        .collect::<Vec<_>>();
    times.retain(|(time, _)| time.is_some());
    if let Some(two) = times.windows(2).find(|two| two[1].0 < two[0].0) {
        let (earlier, later) = (two[1].1.name(), two[0].1.name());
        warn_missing(
            &earlier,
            Some(&format!(
                "older than {}, which is before it here; growth is told of profiles in the order of time, which `ls -v` gives those of one process",
                in_line(&later)
            )),
        );
    }
}

fn alive(arguments: &Arguments, view: &HeapView, kind: &str) -> String {
    let sites = view.sites(MEASURE);
    let sites: Vec<_> = sites
        .iter()
        .filter(|site| site.estimate.bytes >= arguments.least as f64)
        .collect();
    if arguments.json {
        let rows = sites.iter().map(|site| {
            let row = json!({"functions": functions(site.frames), "frames": frames(site.frames)});
            with_estimate(row, &site.estimate)
        });
        let value = json!({
            "format": "vmag-leaks-1", "kind": kind, "pid": view.profile.pid, "time": view.profile.time,
            "lg_sample": view.profile.lg_sample, "lost_samples": view.profile.lost, "missing": view.profile.missing,
        });
        return with_rows(&with_estimate(value, &view.sum(MEASURE)), "sites", rows) + "\n";
    }
    let what = match kind {
        "unreachable" => "nothing in the process leads to:",
        "alive now" => "alive now;",
        _ => "alive when the profile was written;",
    };
    let mut out = format!("{what} {}", text::head(view, MEASURE));
    for site in sites.iter().take(arguments.top) {
        let _ = write!(
            out,
            "\n{:>11} ± {} in {}\n{}",
            text::amount(site.estimate.bytes, MEASURE),
            text::amount(site.estimate.bytes_error(), MEASURE),
            counted(site.estimate.objects.round() as u64, "object"),
            text::full_stack(site)
        );
    }
    if sites.len() > arguments.top {
        let _ = writeln!(
            out,
            "\nand {} (--top N shows more)",
            counted((sites.len() - arguments.top) as u64, "further site")
        );
    }
    out
}

fn growing(arguments: &Arguments, views: &[HeapView]) -> String {
    let mut all = heap_diff::compare(&views[0], &views[views.len() - 1], MEASURE);
    let steps: Vec<_> = views
        .windows(2)
        .map(|two| heap_diff::compare(&two[0], &two[1], MEASURE))
        .collect();
    // A profile may have many thousands of sites.
    let grown: Vec<HashSet<Vec<&str>>> = steps
        .iter()
        .map(|step| {
            let changes = step.changes.iter().filter(|change| change.change > 0.0);
            changes.map(|change| functions(&change.frames)).collect()
        })
        .collect();
    all.changes.retain(|change| {
        change.is_real
            && change.change > 0.0
            && change.after >= arguments.least as f64
            && grown.iter().all(|grown| grown.contains(&functions(&change.frames)))
    });
    if arguments.json {
        let rows: Vec<_> = all
            .changes
            .iter()
            .map(|change| {
                json!({"first": change.before, "last": change.after, "change": change.change, "error": change.error,
                       "functions": functions(&change.frames), "frames": frames(&change.frames)})
            })
            .collect();
        let missing: Vec<_> = views.iter().map(|view| &view.profile.missing).collect();
        let last = &views[views.len() - 1];
        let value = json!({
            "format": "vmag-leaks-1", "kind": "growing", "profiles": views.len(), "pid": last.profile.pid, "time": last.profile.time,
            "lg_sample": last.profile.lg_sample, "lost_samples": last.profile.lost, "missing_of_each": missing, "sites": rows,
        });
        return format!("{:#}\n", with_estimate(value, &last.sum(MEASURE)));
    }
    if all.changes.is_empty() {
        return format!(
            "no site grew from each of the {} profiles to the next by more than chance\n",
            views.len()
        );
    }
    let mut out = format!(
        "{} grew from each of the {} profiles to the next:\n",
        counted(all.changes.len() as u64, "site"),
        views.len()
    );
    let shown = &all.changes[..arguments.top.min(all.changes.len())];
    for (change, place) in shown
        .iter()
        .zip(text::places(shown.iter().map(|change| &change.frames[..])))
    {
        let _ = writeln!(
            out,
            "{:>11} → {} (± {})  {place}",
            text::amount(change.before, MEASURE),
            text::amount(change.after, MEASURE),
            text::amount(change.error, MEASURE)
        );
    }
    out.push_str(&text::on_callers(&views[views.len() - 1], MEASURE));
    out
}
