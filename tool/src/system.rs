//! The system calls that Rust's standard library lacks; the only unsafe code of the tool.
//! SPDX-License-Identifier: BSD-2-Clause

mod files;
mod processes;
mod signals;

pub use files::{group_id, has_file_capabilities, is_executable, privileges_can_grow, user_id};
pub use processes::{
    Change, Status, Usage, fork_idle, in_foreground, keep_children_until_waited, kill_and_reap, page_bytes,
    poll_child, prepare_child, process_group_of,
};
pub use signals::{Arrival, Signals, die_of, send, signal_name, suffer};
