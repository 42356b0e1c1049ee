//! The library half of the `vmag` command: reading vmag's formats, running programs on vmag, showing figures.
//!
//! The binary (`main.rs`) only reads the command line and passes on the exit status. Every command is one file
//! in `commands/`, every output format one file in `output/`, and the only unsafe code is in `system/`.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod attach;
pub mod black_box;
pub mod bundle;
pub mod call_tree;
pub mod commands;
pub mod compare;
pub mod debuginfod;
pub mod doctor;
pub mod error;
pub mod explain;
pub mod export;
pub mod frag;
pub mod group_watch;
pub mod heap_diff;
pub mod heap_view;
pub mod image;
pub mod launch;
pub mod library;
pub mod live;
pub mod live_map;
pub mod measure;
pub mod option_rows;
pub mod output;
pub mod page;
pub mod process;
pub mod profile;
pub mod program;
pub mod progress;
pub mod recorded;
pub mod report;
pub mod serve;
pub mod source;
pub mod symbols;
pub mod system;
pub mod top;
pub mod trace;
pub mod trace_map;
pub mod trace_view;
