//! `vmag manual`: the manual pages of all commands, and completions for shells.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::system::Status;
use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  vmag manual ~/.local/share          then `man vmag-run`, and completion in new shells

Written are FOLDER/man/man1/vmag*.1, FOLDER/bash-completion/completions/vmag, FOLDER/zsh/site-functions/_vmag and \
FOLDER/fish/vendor_completions.d/vmag.fish, where systems look for them under /usr/local/share and ~/.local/share.";

const NAME: &str = "vmag";

/// Write manual pages of all commands and completions for shells.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Where: a folder as /usr/local/share
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Tell which files were written as JSON
    #[arg(long)]
    json: bool,
}

/// `command`: the whole command line.
pub fn run(arguments: &Arguments, command: Command) -> Result<Status> {
    let written = write(&arguments.folder, command).map_err(|error| {
        ToolError::new(
            format!("cannot write into {}", arguments.folder.display()),
            error,
            "name a folder that can be written",
        )
    })?;
    if arguments.json {
        let value = json!({"format": "vmag-manual-1", "files": written});
        deliver(format!("{value:#}\n").as_bytes(), None)?;
    }
    Ok(Status::Exited(0))
}

/// The files that it wrote.
fn write(folder: &Path, mut command: Command) -> io::Result<Vec<PathBuf>> {
    let made = |name: &str| -> io::Result<PathBuf> {
        let path = folder.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    let mut files = write_pages(&command, &made("man/man1")?)?;
    let shells = [
        (Shell::Bash, "bash-completion/completions", "vmag.bash", NAME),
        (Shell::Zsh, "zsh/site-functions", "_vmag", "_vmag"),
        (Shell::Fish, "fish/vendor_completions.d", "vmag.fish", "vmag.fish"),
    ];
    for (shell, place, written, wanted) in shells {
        let place = made(place)?;
        clap_complete::generate_to(shell, &mut command, NAME, &place)?;
        fs::rename(place.join(written), place.join(wanted))?;
        files.push(place.join(wanted));
    }
    Ok(files)
}

fn write_pages(command: &Command, folder: &Path) -> io::Result<Vec<PathBuf>> {
    clap_mangen::generate_to(command.clone(), folder)?;
    let names = command
        .get_subcommands()
        .map(|one| format!("{NAME}-{}.1", one.get_name()));
    let pages = names.chain([format!("{NAME}.1")]).map(|name| folder.join(name));
    Ok(pages.filter(|page| page.exists()).collect())
}
