//! The commands of `vmag`, one file each.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod attach;
pub mod check;
pub mod compare;
pub mod diff;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod frag;
pub mod heap;
pub mod leaks;
pub mod manual;
pub mod map;
pub mod options;
pub mod report;
pub mod run;
pub mod serve;
pub mod top;
pub mod trace;
pub mod umem;
