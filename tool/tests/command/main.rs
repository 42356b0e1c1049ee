//! The `vmag` command as its users meet it: built programs, real processes, real signals.
//! SPDX-License-Identifier: BSD-2-Clause

mod compare;
mod explain;
mod recordings;
mod refusals;
mod run;
mod signals;
mod support;
mod umem;
