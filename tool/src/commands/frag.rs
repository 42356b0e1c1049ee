//! `vmag frag`: which call sites pin nearly empty slabs.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::frag::Frag;
use crate::frag::traced::{self, Traced};
use crate::output::frag as output;
use crate::progress::Progress;
use crate::source::{Source, spoken};
use crate::system::Status;
use crate::trace::Trace;
use clap::Args;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  vmag frag 4711               what keeps the slabs of process 4711 that are nearly empty
  vmag frag --below 10 4711    of those that are less than 10 % full
  vmag frag --full 4711        with all callers
  vmag frag --json 4711
  vmag run --trace=t.trace --trace-stacks -- ./program && vmag frag t.trace
  vmag frag --at 3.5 t.trace   whose objects kept pages 3.5 seconds after the beginning

After a peak, a few survivors of a size may keep many pages. How full each slab is, is read in the process. Whose the \
survivors are comes from the heap profile (VMAG_CONF=prof:true, or `vmag attach --profile`), which knows of objects that were \
allocated while it was on: what the nearly empty slabs of a size and arena keep is shared among the call sites in proportion \
to the objects they hold there. A finer profile (64k) says more. A slab that is several times as large as the first ones of its size is one here; counters \
(`vmag attach`, `vmag_class_slabs`) tell it as several. Sampled objects lie in slabs of their own, which are not among these.\n\nA trace knows the address of every object: it tells of pages of 4 KiB, exactly.";

/// Tell which call sites keep slabs that are nearly empty.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Slabs are nearly empty that are less than so many percent full
    #[arg(long, value_name = "PERCENT", default_value_t = 25, value_parser = clap::value_parser!(u64).range(1..=100))]
    below: u64,

    /// How many size classes and sites to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,

    /// All callers of each site
    #[arg(long)]
    full: bool,

    /// Give it as JSON
    #[arg(long, conflicts_with_all = ["top", "full"])]
    json: bool,

    /// With a trace: seconds from its beginning; its end without it
    #[arg(long, value_name = "SECONDS")]
    at: Option<f64>,

    /// The process, or an event trace
    #[arg(value_name = "PID|TRACE", value_parser = Source::parser())]
    source: Source,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let (top, full) = (arguments.top, arguments.full);
    let text = match &arguments.source {
        Source::Process(_) if arguments.at.is_some() => {
            return Err(ToolError::new(
                "cannot look at a process at another time",
                "--at is of an event trace",
                "leave it out, or name a file of `vmag run --trace FILE`",
            ));
        }
        Source::Process(pid) => {
            let frag = Frag::of(*pid, arguments.below)?;
            match arguments.json {
                true => format!("{:#}\n", output::json(&frag)),
                false => output::text(&frag, top, full),
            }
        }
        Source::File(path) => {
            let traced = look_at_trace(path, arguments)?;
            match arguments.json {
                true => format!("{:#}\n", output::traced_json(&traced)),
                false => output::traced_text(&traced, top, full),
            }
        }
    };
    deliver(text.as_bytes(), None)?;
    Ok(Status::Exited(0))
}

fn look_at_trace(path: &Path, arguments: &Arguments) -> Result<Traced> {
    if path.exists() && !Trace::is_one(path) {
        return Err(ToolError::new(
            format!("{} does not tell where objects lie", spoken(path)),
            "it is no event trace; a profile knows no addresses",
            "name a file of `vmag run --trace FILE`, or the number of a process",
        ));
    }
    let trace = Trace::open(path)?;
    let mut progress = Progress::new("reading the trace");
    traced::look(&trace, arguments.at, arguments.below, &mut |part| progress.at(part))
}
