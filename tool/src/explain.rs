//! Where the resident memory of a process is: the kernel's account of its areas, and vmag's of its heap.
//!
//! The process is only read, from /proc and by the addresses that the library publishes (include/vmag/format.h): no
//! signal, no tracing, nothing stops. What changes while it is read is seen in part before and in part after; the
//! kernel's sum of each area settles the rest, so the rows always sum to what is resident.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod areas;
pub mod cgroup;
pub mod heap;
pub mod ledger;
pub mod magazines;
pub mod memory;
pub mod root;

pub use ledger::{Ledger, Row};
