//! Formats that other tools read, one file each.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod collapsed;
pub mod csv;
pub mod events;
pub mod flame;
pub mod heap_v2;
pub mod parquet;
pub mod perfetto;
pub mod png;
pub mod pprof;
pub mod speedscope;
