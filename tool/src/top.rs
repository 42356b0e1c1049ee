//! What grows in a process, seen again and again: by call site, thread, size class, arena and object cache.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod rows;
pub mod screen;
pub mod state;
pub mod watch;

pub use rows::{Grouping, Order, Row};
pub use state::State;
pub use watch::{Reading, Watch};
