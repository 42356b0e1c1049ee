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

use std::io::{self, Write};

/// Writes to standard error; that nobody reads it any more is no reason to fail the program's run.
pub fn say(text: impl std::fmt::Display) {
    let _ = write!(io::stderr(), "{text}");
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
