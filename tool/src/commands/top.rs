//! `vmag top`: what grows in a process, live.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::output::figures::bytes;
use crate::serve::targets::all_pids;
use crate::system::{self, Signals, Status};
use crate::top::state::Request;
use crate::top::{Grouping, Order, Row, State, Watch, rows, screen};
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use serde_json::json;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  vmag top 4711                         what grows in process 4711; h tells the keys
  vmag top                              the only process on vmag, or a list of them
  vmag top --view classes --sort live 4711
  vmag top --once --interval 10 4711    one table: what came within ten seconds
  vmag top --json 4711 | jq .rows[0]

Call sites and threads come from the heap profile, which must be on (`vmag attach --profile 512k PID`, or P in the view); \
size classes, arenas and object caches are counted and need none. Growth in red is more than chance explains. The process is only read, \
and nothing in it stops.";

/// Show what grows in a running process, by call site, thread, size class, arena or object cache.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What a row is; call sites when the heap profile is on, else size classes
    #[arg(long, value_enum)]
    view: Option<Grouping>,

    /// What rows are sorted by
    #[arg(long, value_enum, default_value = "growth")]
    sort: Order,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_seconds)]
    interval: f64,

    /// One table of what changed in one interval, and no more
    #[arg(long)]
    once: bool,

    /// The same as JSON
    #[arg(long)]
    json: bool,

    /// With --once or --json: how many rows [default: 20, as JSON all]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    /// The process; without it the only one that runs on vmag
    #[arg(value_name = "PID", value_parser = crate::source::pid_parser())]
    pid: Option<i32>,
}

fn parse_seconds(word: &str) -> std::result::Result<f64, String> {
    match word.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds between 0.1 and 3600".to_string()),
    }
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let draws = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb");
    let is_live = draws && !arguments.once && !arguments.json;
    if is_live && arguments.top.is_some() {
        return Err(ToolError::new(
            "cannot show so many rows",
            "--top is of one table; the view has as many as there is room for, and scrolls",
            "leave it out, or add --once",
        ));
    }
    let mut watch = Watch::start(match arguments.pid {
        Some(pid) => pid,
        None => only_process()?,
    })?;
    let interval = Duration::from_secs_f64(arguments.interval);
    if !is_live {
        std::thread::sleep(interval);
        watch.look()?;
        let grouping = grouping(arguments, &watch);
        let rows = rows::of(&watch, grouping, arguments.sort);
        let text = match arguments.json {
            true => as_json(
                &watch,
                grouping,
                &rows[..arguments.top.unwrap_or(rows.len()).min(rows.len())],
            ),
            false => as_text(&watch, grouping, &rows, arguments.top.unwrap_or(20)),
        };
        deliver(text.as_bytes(), None)?;
        return Ok(Status::Exited(0));
    }
    let state = State::new(grouping(arguments, &watch), arguments.sort, interval);
    restore_when_ended();
    let mut terminal = ratatui::try_init().map_err(no_terminal)?;
    let result = live(&mut terminal, &mut watch, state);
    ratatui::restore();
    result.map_err(no_terminal)?;
    Ok(Status::Exited(0))
}

fn grouping(arguments: &Arguments, watch: &Watch) -> Grouping {
    arguments.view.unwrap_or(match watch.is_profiled() {
        true => Grouping::Sites,
        false => Grouping::Classes,
    })
}

fn only_process() -> Result<i32> {
    let pids = all_pids();
    match pids[..] {
        [only] => Ok(only),
        [] => Err(ToolError::new(
            "there is no process to show",
            "none of those we may look into runs on a libvmag.so",
            "start one by `vmag run -- CMD`, or give the number of one that is linked with libvmag.a",
        )),
        _ => {
            let listed: Vec<String> = pids
                .iter()
                .map(|pid| format!("{pid} ({})", crate::process::name(*pid)))
                .collect();
            Err(ToolError::new(
                "which process?",
                format!("these run on vmag: {}", listed.join(", ")),
                "give the number of one of them",
            ))
        }
    }
}

/// Who ends us finds the terminal as it was.
fn restore_when_ended() {
    let signals = Signals::that_end();
    signals.block();
    std::thread::spawn(move || {
        if let Ok(arrival) = signals.wait() {
            give_terminal_back();
            system::die_of(arrival.signal);
        }
    });
}

fn give_terminal_back() {
    let _ = ratatui::try_restore();
    let _ = execute!(io::stdout(), Show); // which the terminal's end does where we live on
}

/// Until the shell lets us go on; the view is drawn anew then.
fn stop() -> io::Result<DefaultTerminal> {
    give_terminal_back();
    system::suffer(libc::SIGTSTP);
    ratatui::try_init()
}

fn no_terminal(error: io::Error) -> ToolError {
    ToolError::new(
        "the terminal cannot be used",
        error,
        "--once prints a table and needs no terminal",
    )
}

fn live(terminal: &mut DefaultTerminal, watch: &mut Watch, mut state: State) -> io::Result<()> {
    let mut next_look = Instant::now() + state.interval;
    let mut end: Option<String> = None;
    loop {
        let shown = state.shown(rows::of(watch, state.grouping, state.order));
        state.selected = state.selected.min(shown.len().saturating_sub(1));
        terminal.draw(|frame| screen::draw(frame, watch, &state, &shown, end.as_deref()))?;
        let wait = next_look.saturating_duration_since(Instant::now());
        let mut look = false;
        if event::poll(if end.is_some() { Duration::from_secs(3600) } else { wait })? {
            let request = match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => state.press(key, shown.len()),
                _ => Request::None,
            };
            match request {
                Request::Quit => return Ok(()),
                Request::LookNow => look = true,
                Request::CountAnew => note(&mut state, watch.count_anew(), "growth is counted from now on"),
                Request::SwitchProfile => note(
                    &mut state,
                    watch.switch_profile(),
                    "the process was asked to switch its profile",
                ),
                Request::Stop => *terminal = stop()?,
                Request::None => {}
            }
        }
        let is_due = Instant::now() >= next_look && !state.is_paused;
        if (look || is_due) && end.is_none() {
            end = watch.look().err().map(|error| error.why);
        }
        if Instant::now() >= next_look {
            next_look = Instant::now() + state.interval;
        }
    }
}

fn note(state: &mut State, result: Result<()>, done: &str) {
    state.message = Some(match result {
        Ok(()) => done.to_string(),
        Err(error) => error.why,
    });
}

fn as_json(watch: &Watch, grouping: Grouping, rows: &[Row]) -> String {
    let (is_profiled, sample_bytes) = watch.process.sampling().unwrap_or_default();
    let value = json!({
        "format": "vmag-top-1", "pid": watch.process.pid, "program": watch.process.program,
        "seconds": watch.seconds(), "view": grouping, "profile_active": is_profiled, "sample_bytes": sample_bytes,
        "missing": watch.last.view.profile.missing, "counters": watch.last.counters, "allocated_before": watch.first.counters.allocated, "rows": rows,
    });
    format!("{value:#}\n")
}

fn as_text(watch: &Watch, grouping: Grouping, rows: &[Row], most: usize) -> String {
    let counters = &watch.last.counters;
    let mut out = format!(
        "{} (process {}), {:.1} s: {} allocated ({}), {} resident; by {}\n{}\n{:>11} {:>12} {:>11} {:>14}  where\n",
        watch.process.program,
        watch.process.pid,
        watch.seconds(),
        bytes(counters.allocated),
        match screen::signed(counters.allocated as f64 - watch.first.counters.allocated as f64) {
            change if change.is_empty() => "unchanged".to_string(),
            change => change,
        },
        bytes(counters.process_resident.unwrap_or(0)),
        grouping.title(),
        match &watch.last.view.profile.missing {
            Some(missing) if grouping.is_sampled() => format!("warning: {missing}\n"),
            _ => String::new(),
        },
        "live",
        "growth",
        "±",
        "a second"
    );
    for row in rows.iter().take(most) {
        let error = if row.growth_error > 0.0 {
            bytes(row.growth_error as u64)
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "{:>11} {:>12} {error:>11} {:>14}  {}",
            bytes(row.live_bytes.round() as u64),
            screen::signed(row.growth_bytes),
            screen::signed(row.bytes_a_second),
            row.name
        );
    }
    if rows.len() > most {
        let _ = writeln!(out, "and {} more (--top N shows them)", rows.len() - most);
    }
    if rows.is_empty() && grouping.is_sampled() && !watch.is_profiled() {
        let _ = writeln!(
            out,
            "the heap profile is off: `vmag attach --profile 512k {}` switches it on",
            watch.process.pid
        );
    }
    out
}
