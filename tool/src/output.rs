//! What the tool shows, one file a format, and the figures that all formats share.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod compared;
pub mod destination;
pub mod doctor;
pub mod explained;
pub mod figures;
pub mod frag;
pub mod heap;
pub mod json;
pub mod text;

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// Writes to standard error; that nobody reads it any more is no reason to fail the program's run.
pub fn say(text: impl std::fmt::Display) {
    let _ = write!(io::stderr(), "{text}");
}

/// Before anything is written: what is told of it has standard output for itself.
pub fn check_told_apart(file: &Path) -> Result<()> {
    match destination::named(file) {
        Some(_) => Ok(()),
        None => Err(ToolError::new(
            "cannot tell on standard output what was written",
            "it would be written there itself",
            "leave --json out, or name a file",
        )),
    }
}

/// A file that a command wrote, as JSON on standard output. `more`: an object, what else there is to tell.
pub fn tell_written(format: &str, file: &Path, mut more: Value) -> Result<()> {
    more["format"] = format.into();
    more["file"] = file.to_string_lossy().into();
    more["bytes"] = fs::metadata(file).ok().map(|about| about.len()).into();
    deliver(format!("{more:#}\n").as_bytes(), None)
}

/// What a recording does not tell, where what is shown of it cannot say so itself. `of`: its name.
pub fn warn_missing(of: &str, missing: Option<&str>) {
    if let Some(missing) = missing {
        say(format_args!("vmag: warning: {}: {missing}\n", in_line(of)));
    }
}

/// Names come from files and processes that may be anybody's: they tell the terminal nothing.
pub fn plain(text: &str) -> String {
    text.replace(|letter: char| letter.is_control() && !"\n\t".contains(letter), "?")
}

/// The same of a name that is one of several in a line.
pub fn in_line(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_terminal_nothing() {
        assert_eq!(plain("a\x1b[2J\u{9b}b\tc\nd"), "a?[2J?b\tc\nd");
        assert_eq!(in_line("a\x1b[2J\tc\nd"), "a?[2J?c?d");
    }
}
