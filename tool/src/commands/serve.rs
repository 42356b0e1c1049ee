//! `vmag serve`: metrics and heap profiles of processes over HTTP.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::output::say;
use crate::serve::answers::start_sampling;
use crate::serve::metrics::Detail;
use crate::serve::{Question, Service, Targets};
use crate::system::Status;
use clap::Args;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use tiny_http::{Header, Method, Request, Response, Server};

const EXAMPLES: &str = "\
Examples:
  vmag serve --pid $(pidof myserver)        one process
  vmag serve --all --classes                all that run on vmag here, size classes too
  vmag serve --all --profile 512k           and switch their heap profilers on
  curl localhost:9470/metrics
  go tool pprof http://localhost:9470/debug/pprof/heap?pid=4711

  Prometheus:  scrape_configs: [{job_name: vmag, static_configs: [{targets: ['localhost:9470']}]}]

Pages: / (an index), /metrics (OpenMetrics), /debug/pprof/heap (what is alive), /debug/pprof/allocs (what was allocated since the \
beginning, or with ?seconds=N in that time). With several processes, profiles need ?pid=PID. docs/fleet.md shows Parca and \
Pyroscope.

The processes are only read, through /proc, when somebody asks. There is neither a password nor encryption: leave it on \
localhost, or put it behind something that has both; profiles tell names of functions and files.";

/// Questions answered at the same time: one that waits for seconds must not keep the others.
const THREADS: usize = 8;

/// Serve metrics and heap profiles of running processes over HTTP.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A process to serve; may be given several times
    #[arg(long, value_name = "PID", required_unless_present = "all", conflicts_with = "all",
          value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<i32>,

    /// All processes that run on vmag and that we may look into, whenever they start
    #[arg(long)]
    all: bool,

    /// Where to listen; port 0: one that is free
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9470")]
    listen: String,

    /// Metrics of each arena, too
    #[arg(long)]
    arenas: bool,

    /// Metrics of each size class, too
    #[arg(long)]
    classes: bool,

    /// Switch the heap profilers of the processes that are there on: mean bytes between two samples
    #[arg(long, value_name = "BYTES", value_parser = crate::commands::attach::parse_distance)]
    profile: Option<u64>,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let targets = match arguments.all {
        true => Targets::All,
        false => Targets::Named(arguments.pid.clone()),
    };
    if let Targets::Named(pids) = &targets {
        for pid in pids {
            crate::attach::Process::attach(*pid)?;
        }
    }
    let server = listen(&arguments.listen)?;
    for problem in arguments
        .profile
        .map_or(Vec::new(), |bytes| start_sampling(&targets, bytes))
    {
        say(format_args!("{problem}\n"));
    }
    let detail = Detail {
        arenas: arguments.arenas,
        classes: arguments.classes,
    };
    let service = Arc::new(Service { targets, detail });
    say(format_args!("vmag: serving on http://{}/\n", server.server_addr()));
    let server = Arc::new(server);
    let helpers: Vec<_> = (1..THREADS)
        .map(|_| {
            let (server, service) = (server.clone(), service.clone());
            std::thread::spawn(move || answer_all(&server, &service))
        })
        .collect();
    answer_all(&server, &service);
    for helper in helpers {
        let _ = helper.join();
    }
    Ok(Status::Exited(0))
}

fn listen(address: &str) -> Result<Server> {
    let cannot = |why: String| {
        ToolError::new(
            format!("cannot listen on {address}"),
            why,
            "name a free address with --listen, as 127.0.0.1:9470",
        )
    };
    let mut addresses = address.to_socket_addrs().map_err(|error| cannot(error.to_string()))?;
    let first: SocketAddr = addresses.next().ok_or_else(|| cannot("it is no address".to_string()))?;
    Server::http(first).map_err(|error| cannot(error.to_string()))
}

fn answer_all(server: &Server, service: &Service) {
    for request in server.incoming_requests() {
        respond(service, request);
    }
}

/// That the questioner is gone is not our failure.
fn respond(service: &Service, request: Request) {
    if !matches!(request.method(), Method::Get | Method::Head) {
        let _ = request.respond(Response::from_string("only GET is answered\n").with_status_code(405));
        return;
    }
    let accept = request.headers().iter().find(|header| header.field.equiv("Accept"));
    let question = Question::parse(request.url(), accept.map_or("", |header| header.value.as_str()));
    let answer = service.answer(&question);
    let header = Header::from_bytes("Content-Type", answer.content_type).expect("content types are ASCII");
    let response = Response::from_data(answer.body)
        .with_status_code(answer.status)
        .with_header(header);
    let _ = request.respond(response);
}
