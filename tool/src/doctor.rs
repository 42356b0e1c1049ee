//! Which allocator a process really uses: what its loaded files define and ask for, what the loader made of it, and what
//! limits the allocator.
//!
//! The dynamic linker takes the first definition in the order of the loaded objects; where each call really goes
//! is in the objects' tables of addresses, which are read in the process.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod bindings;
pub mod diagnosis;
pub mod limits;
pub mod objects;

pub use diagnosis::Diagnosis;
