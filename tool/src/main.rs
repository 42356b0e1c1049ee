//! The `vmag` command: reads the command line, runs one command, passes on its exit status.
//! SPDX-License-Identifier: BSD-2-Clause

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use vmag_tool::commands::heap::unless_unread;
use vmag_tool::commands::umem::{self, Request};
use vmag_tool::commands::{
    attach, check, compare, diff, doctor, explain, export, frag, heap, leaks, manual, map, options, report, run,
    serve, top, trace,
};
use vmag_tool::debuginfod;
use vmag_tool::error::{EXIT_TOOL_FAILED, ToolError};
use vmag_tool::output::say;
use vmag_tool::system::{self, Status};

/// Run programs on the vmag memory allocator and see what it costs.
#[derive(Parser)]
#[command(name = "vmag", version, arg_required_else_help = true)]
struct CommandLine {
    /// Ask the servers of DEBUGINFOD_URLS for debug information that is not on this machine
    #[arg(long, global = true, help_heading = "Symbols")]
    debuginfod: bool,

    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    Run(run::Arguments),
    Compare(compare::Arguments),
    Explain(explain::Arguments),
    Attach(attach::Arguments),
    Doctor(doctor::Arguments),
    Heap(heap::Arguments),
    Leaks(leaks::Arguments),
    Diff(diff::Arguments),
    Frag(frag::Arguments),
    Export(export::Arguments),
    Trace(trace::Arguments),
    Map(map::Arguments),
    Report(report::Arguments),
    Check(check::Arguments),
    Top(top::Arguments),
    Serve(serve::Arguments),
    Options(options::Arguments),
    Manual(manual::Arguments),
    /// Run a program and say at its end what every cache and arena holds
    Umastat(umem::Arguments),
    /// Run a program and say at its end what it lost, by the stack that allocated it
    Findleaks(umem::Arguments),
    /// Run a program and say at its end who holds most, by the stack that allocated it
    Umausers(umem::Arguments),
    /// Run a program and describe its object caches at the end
    UmemCache(umem::Arguments),
    /// Run a program and describe its arenas at the end
    Vmem(umem::Arguments),
    /// Run a program and list its last allocations and frees
    UmemLog(umem::LogArguments),
    /// What an address is in a process: buffer, size, cache, who allocated and who freed it
    Whatis(umem::WhatisArguments),
    /// Settings of the debugging, messages, and how full the logs are
    UmemStatus(umem::Arguments),
    /// Look at every buffer now, or at the end, for what was written where it should not be
    UmemVerify(umem::Arguments),
}

fn main() {
    let command_line = CommandLine::try_parse().unwrap_or_else(|problem| {
        if problem.use_stderr() && problem.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            say(in_one_line(&problem.render().to_string()));
            std::process::exit(EXIT_TOOL_FAILED);
        }
        let told = problem.print().and_then(|()| io::stdout().flush());
        if problem.use_stderr() {
            std::process::exit(EXIT_TOOL_FAILED);
        }
        unless_unread(told).unwrap_or_else(|error| fail(&error));
        std::process::exit(0);
    });
    if command_line.debuginfod {
        debuginfod::ask_servers().unwrap_or_else(|error| fail(&error));
    }
    let result = match command_line.command {
        Commands::Run(arguments) => run::run(&arguments),
        Commands::Compare(arguments) => compare::run(&arguments),
        Commands::Explain(arguments) => explain::run(&arguments),
        Commands::Attach(arguments) => attach::run(&arguments),
        Commands::Doctor(arguments) => doctor::run(&arguments),
        Commands::Heap(arguments) => heap::run(&arguments),
        Commands::Leaks(arguments) => leaks::run(&arguments),
        Commands::Frag(arguments) => frag::run(&arguments),
        Commands::Diff(arguments) => diff::run(&arguments),
        Commands::Export(arguments) => export::run(&arguments),
        Commands::Trace(arguments) => trace::run(&arguments),
        Commands::Map(arguments) => map::run(&arguments),
        Commands::Report(arguments) => report::run(&arguments),
        Commands::Check(arguments) => check::run(&arguments),
        Commands::Top(arguments) => top::run(&arguments),
        Commands::Serve(arguments) => serve::run(&arguments),
        Commands::Options(arguments) => options::run(&arguments),
        Commands::Manual(arguments) => manual::run(&arguments, CommandLine::command()),
        Commands::Umastat(arguments) => umem::run(&arguments, &Request::Umastat.alone()),
        Commands::Findleaks(arguments) => umem::run(&arguments, &Request::Findleaks.alone()),
        Commands::Umausers(arguments) => umem::run(&arguments, &Request::Umausers.alone()),
        Commands::UmemCache(arguments) => umem::run(&arguments, &Request::UmemCache.alone()),
        Commands::Vmem(arguments) => umem::run(&arguments, &Request::Vmem.alone()),
        Commands::UmemLog(arguments) => umem::run_log(&arguments),
        Commands::Whatis(arguments) => umem::run_whatis(&arguments),
        Commands::UmemStatus(arguments) => umem::run(&arguments, &Request::UmemStatus.alone()),
        Commands::UmemVerify(arguments) => umem::run(&arguments, &Request::UmemVerify.alone()),
    };
    match result {
        Ok(Status::Exited(code)) => std::process::exit(code),
        Ok(Status::Signaled(signal)) => system::die_of(signal),
        Err(error) => fail(&error),
    }
}

/// What is wrong with the command line, as all other errors are told.
fn in_one_line(rendered: &str) -> String {
    let problem = rendered.split("\nUsage: ").next().unwrap_or(rendered);
    let mut line = String::new();
    for part in problem.lines().map(str::trim) {
        if part.is_empty() || part.starts_with("For more information") {
            continue;
        }
        line += match line.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) => "; ",
        };
        line += part;
    }
    let is_command = |word: &String| CommandLine::command().find_subcommand(word).is_some();
    let first = std::env::args_os().nth(1).and_then(|word| word.into_string().ok());
    let command = first.filter(is_command).unwrap_or_default();
    let help = format!("vmag {command} --help").replace("  ", " ");
    let is_word = line.contains("unexpected argument '") && !line.contains("unexpected argument '-");
    let dashes = if is_word && ["run", "compare"].contains(&command.as_str()) {
        format!("put -- before the program, `vmag {command} -- CMD`; ")
    } else {
        String::new()
    };
    format!("vmag: {line}; what to do: {dashes}`{help}` tells how it is used\n")
}

fn fail(error: &ToolError) -> ! {
    say(format_args!("{error}\n"));
    std::process::exit(error.exit_code)
}
