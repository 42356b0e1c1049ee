//! What the tool shows, one file a format, and the figures that all formats share.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod figures;
pub mod json;
pub mod text;
