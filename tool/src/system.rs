//! The system calls that Rust's standard library lacks; the only unsafe code of the tool.
//! SPDX-License-Identifier: BSD-2-Clause

mod exit_stop;
mod files;
mod processes;
mod signals;
mod sockets;

pub use exit_stop::run_until_exit;
#[cfg(test)]
pub use files::set_access_list;
pub use files::{
    group_id, has_access_list, has_file_capabilities, is_executable, link, privileges_can_grow, user_id,
};
pub use processes::{
    Change, Status, Usage, adopt_orphans, children, fork_idle, give_memory_back, in_foreground,
    keep_children_until_waited, kill_and_reap, page_bytes, pin_child, poll_child, prepare_child, process_group_of,
};
pub use signals::{Arrival, ENDING, Signals, die_of, send, signal_name, suffer};
pub use sockets::is_left_within;

/// Sets a variable of the environment that commands inherit. To be called before anything else runs in this process.
pub fn set_variable(name: &str, value: &std::ffi::OsStr) {
    // SAFETY: the tool has one thread.
    unsafe { std::env::set_var(name, value) }
}
