//! A command under several allocators: which there are, which of them really ran, round after round, and what follows.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod allocators;
pub mod evidence;
pub mod interval;
pub mod plot;
pub mod random;
pub mod rounds;
pub mod unchanged;
