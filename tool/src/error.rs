//! What the tool says when it cannot do its job, in one line: what happened, why, and what to do next.
//! SPDX-License-Identifier: BSD-2-Clause

use std::fmt;

/// The tool itself failed, as `env` and `timeout` report it.
pub const EXIT_TOOL_FAILED: i32 = 125;
/// The command was found but cannot be executed.
pub const EXIT_NOT_EXECUTABLE: i32 = 126;
/// The command was not found.
pub const EXIT_NOT_FOUND: i32 = 127;

/// A failure of the tool, with the exit status that tells a script about it.
#[derive(Debug)]
pub struct ToolError {
    pub exit_code: i32,
    pub what: String,
    pub why: String,
    pub next: String,
}

pub type Result<T> = std::result::Result<T, ToolError>;

impl ToolError {
    pub fn new(what: impl Into<String>, why: impl fmt::Display, next: impl Into<String>) -> Self {
        ToolError {
            exit_code: EXIT_TOOL_FAILED,
            what: what.into(),
            why: why.to_string(),
            next: next.into(),
        }
    }

    pub fn exit_code(mut self, exit_code: i32) -> Self {
        self.exit_code = exit_code;
        self
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = format!("vmag: error: {}: {}; what to do: {}", self.what, self.why, self.next);
        // A file that cannot be read may say anything, to the terminal as well.
        out.write_str(&line.replace(char::is_control, "?"))
    }
}

impl std::error::Error for ToolError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_line_that_tells_the_terminal_nothing() {
        let error = ToolError::new("a\x1b[2J", "b\nc", "d");
        assert_eq!(error.to_string(), "vmag: error: a?[2J: b?c; what to do: d");
    }
}
