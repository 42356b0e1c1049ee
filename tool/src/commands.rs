//! The commands of `vmag`, one file each.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod explain;
pub mod run;
