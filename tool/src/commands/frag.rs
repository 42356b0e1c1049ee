//! `vmag frag`: which call sites pin nearly empty slabs.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::Result;
use crate::frag::Frag;
use crate::output::frag as output;
use crate::system::Status;
use clap::Args;

const EXAMPLES: &str = "\
Examples:
  vmag frag 4711               what keeps the slabs of process 4711 that are nearly empty
  vmag frag --below 10 4711    of those that are less than 10 % full
  vmag frag --full 4711        with all callers
  vmag frag --json 4711

After a peak, a few survivors of a size may keep many pages. How full each slab is, is read in the process. Whose the \
survivors are comes from the heap profile (VMAG_CONF=prof:true, or `vmag attach --profile`), which knows of objects that were \
allocated while it was on: what the nearly empty slabs of a size and arena keep is shared among the call sites in proportion \
to the objects they hold there. A finer profile (64k) says more. `vmag map` and `vmag trace` show addresses one by one.";

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
    #[arg(long)]
    json: bool,

    /// The process
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: i32,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let frag = Frag::of(arguments.pid, arguments.below)?;
    let text = match arguments.json {
        true => format!("{:#}\n", output::json(&frag)),
        false => output::text(&frag, arguments.top, arguments.full),
    };
    deliver(text.as_bytes(), None)?;
    Ok(Status::Exited(0))
}
