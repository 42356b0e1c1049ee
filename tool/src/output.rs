//! What the tool shows, one file a format, and the figures that all formats share.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod compared;
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
