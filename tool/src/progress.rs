//! How far a long reading is, on standard error while that is a terminal: part done and time left.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::output::say;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

const FIRST_AFTER: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_millis(200);

pub struct Progress {
    what: &'static str,
    start: Instant,
    last: Instant,
    shown: bool,
    wanted: bool,
}

impl Progress {
    pub fn new(what: &'static str) -> Progress {
        Progress {
            what,
            start: Instant::now(),
            last: Instant::now(),
            shown: false,
            wanted: io::stderr().is_terminal(),
        }
    }

    pub fn at(&mut self, part: f64) {
        if !self.wanted || self.start.elapsed() < FIRST_AFTER || self.last.elapsed() < EVERY || part <= 0.0 {
            return;
        }
        let left = self.start.elapsed().as_secs_f64() * (1.0 - part) / part;
        say(format_args!(
            "\r{}: {:3.0} %, {left:.0} s left ",
            self.what,
            100.0 * part
        ));
        self.last = Instant::now();
        self.shown = true;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            say("\r\x1b[K");
        }
    }
}
