//! The `vmag` command: reads the command line, runs one command, passes on its exit status.
//! SPDX-License-Identifier: BSD-2-Clause

use clap::{Parser, Subcommand};
use vmag_tool::commands::{diff, explain, export, heap, leaks, run};
use vmag_tool::error::EXIT_TOOL_FAILED;
use vmag_tool::output::say;
use vmag_tool::system::{self, Status};

/// Run programs on the vmag memory allocator and see what it costs.
#[derive(Parser)]
#[command(name = "vmag", version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Subcommand)]
enum Commands {
    Run(run::Arguments),
    Explain(explain::Arguments),
    Heap(heap::Arguments),
    Leaks(leaks::Arguments),
    Diff(diff::Arguments),
    Export(export::Arguments),
}

fn main() {
    let command_line = CommandLine::try_parse().unwrap_or_else(|problem| {
        let _ = problem.print();
        std::process::exit(if problem.use_stderr() { EXIT_TOOL_FAILED } else { 0 });
    });
    let result = match command_line.command {
        Commands::Run(arguments) => run::run(&arguments),
        Commands::Explain(arguments) => explain::run(&arguments),
        Commands::Heap(arguments) => heap::run(&arguments),
        Commands::Leaks(arguments) => leaks::run(&arguments),
        Commands::Diff(arguments) => diff::run(&arguments),
        Commands::Export(arguments) => export::run(&arguments),
    };
    match result {
        Ok(Status::Exited(code)) => std::process::exit(code),
        Ok(Status::Signaled(signal)) => system::die_of(signal),
        Err(error) => {
            say(format_args!("{error}\n"));
            std::process::exit(error.exit_code)
        }
    }
}
