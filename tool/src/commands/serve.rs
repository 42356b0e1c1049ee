//! `vmag serve`: metrics and heap profiles of processes over HTTP.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::output::say;
use crate::serve::answers::start_sampling;
use crate::serve::http::{self, Patience};
use crate::serve::metrics::Detail;
use crate::serve::{Service, Targets};
use crate::system::Status;
use clap::{ArgGroup, Args};
use serde_json::json;
use std::net::{SocketAddr, TcpListener};

const EXAMPLES: &str = "\
Examples:
  vmag serve --pid $(pidof myserver)        one process
  vmag serve --all --classes                all that run on vmag here, size classes too
  vmag serve --all --profile 512k           and switch their heap profilers on
  curl localhost:9470/metrics
  go tool pprof http://localhost:9470/debug/pprof/heap?pid=4711

  Prometheus:  scrape_configs: [{job_name: vmag, static_configs: [{targets: ['localhost:9470']}]}]

Pages: / (an index), /metrics (OpenMetrics), /debug/pprof/heap (what is alive), /debug/pprof/allocs (what was allocated since the \
beginning); both with ?seconds=N: what was allocated in that time. With several processes, profiles need ?pid=PID. docs/fleet.md shows Parca and \
Pyroscope.

The processes are only read, through /proc, when somebody asks. There is neither a password nor encryption: leave it on \
localhost, or put it behind something that has both; profiles tell names of functions and files.";

/// Serve metrics and heap profiles of running processes over HTTP.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("whom").required(true)))]
pub struct Arguments {
    /// A process to serve, until it ends; may be given several times
    #[arg(long, value_name = "PID", group = "whom", value_parser = crate::source::pid_parser())]
    pid: Vec<i32>,

    /// All processes that run on vmag and that we may look into, whenever they start
    #[arg(long, group = "whom")]
    all: bool,

    /// Where to listen; port 0: one that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9470")]
    listen: String,

    /// Tell as JSON where it listens
    #[arg(long)]
    json: bool,

    /// Metrics of each arena, too
    #[arg(long)]
    arenas: bool,

    /// Metrics of each size class, too
    #[arg(long)]
    classes: bool,

    /// Switch the heap profilers of the processes on that are there and have them off: mean bytes between two samples
    #[arg(long, value_name = "BYTES", value_parser = crate::commands::attach::parse_distance)]
    profile: Option<u64>,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let targets = match arguments.all {
        true => Targets::All,
        false => Targets::named(&arguments.pid),
    };
    if let Targets::Named(named) = &targets {
        for (pid, _) in named {
            crate::attach::Process::attach(*pid)?;
        }
    }
    let (listener, at) = listen(&arguments.listen)?;
    for line in arguments
        .profile
        .map_or(Vec::new(), |bytes| start_sampling(&targets, bytes))
    {
        say(format_args!("{line}\n"));
    }
    let detail = Detail {
        arenas: arguments.arenas,
        classes: arguments.classes,
    };
    let service = Service { targets, detail };
    match arguments.json {
        true => deliver(
            format!(
                "{}\n",
                json!({"format": "vmag-serve-1", "url": format!("http://{at}/")})
            )
            .as_bytes(),
            None,
        )?,
        false => say(format_args!("vmag: serving on http://{at}/\n")),
    }
    http::serve(&listener, Patience::USUAL, move |question| service.answer(question))
}

/// And the address, of which the port may be chosen by the kernel.
fn listen(address: &str) -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        let at = listener.local_addr()?;
        Ok((listener, at))
    });
    listener.map_err(|error| {
        ToolError::new(
            format!("cannot listen on {address}"),
            error,
            "name another address with --listen; port 0 takes any that is free",
        )
    })
}
