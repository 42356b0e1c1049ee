//! The root of a process's vmag: found by the symbol in the library's file, read from the process
//! (include/vmag/format.h).
//! SPDX-License-Identifier: BSD-2-Clause

use super::areas::Area;
use super::memory::{Memory, u32_in, u64_in};
use crate::image;
use std::ops::Range;
use std::path::PathBuf;

const SYMBOL: &str = "vmag_root";
const MAGIC: &[u8; 8] = b"vmagroot";
const VERSION: u32 = 1;

/// The fields of `struct vmag_root` in their order.
#[derive(Debug)]
pub struct Root {
    pub lg_granule: u32,
    pub lg_chunk: u32,
    pub classes: usize,
    pub slab_classes: usize,
    pub page_map: u64,
    pub page_map_end: u64,
    pub run_tables: u64,
    pub first_chunk: u64,
    pub mappings: u64,
    pub mappings_count: u64,
    pub magazine_bins: Range<u64>,
    pub run_start: usize,
    pub run_bin: usize,
    pub run_bytes: usize,
    pub slab_bitmap: usize,
    pub bin_size: usize,
    pub bin_slab_bytes: usize,
    pub bin_buffers: usize,
    pub magazine_capacity: usize,
    pub magazine_slots: usize,
    pub library_version: String,
}

/// What was found of vmag in a process.
pub enum Found {
    /// No mapped file has the symbol.
    Nothing,
    /// The library is there, and was not used yet or cannot be read: why.
    Unreadable(String),
    Root(Box<Root>),
}

/// Looks through the process's files, those named like the library first.
pub fn find(pid: i32, areas: &[Area]) -> Found {
    let mut firsts: Vec<&Area> = Vec::new();
    for area in areas {
        let is_file = area.path.starts_with('/') && !area.path.starts_with("/dev/");
        if is_file && !firsts.iter().any(|first| first.path == area.path) {
            firsts.push(area);
        }
    }
    firsts.retain(|first| areas.iter().any(|area| area.path == first.path && area.executable));
    firsts.sort_by_key(|area| !area.path.contains("vmag"));
    for area in firsts {
        // Through the process's own root, for it may live in a container.
        let file = PathBuf::from(format!("/proc/{pid}/root{}", area.path));
        if let Some(offset) = image::symbol(&file, SYMBOL) {
            return read(pid, area.start + offset);
        }
        if area.path.contains("libvmag") && area.path.ends_with(" (deleted)") {
            return Found::Unreadable("the library's file was replaced or removed since it was loaded".to_string());
        }
    }
    Found::Nothing
}

fn read(pid: i32, address: u64) -> Found {
    let memory = match Memory::open(pid) {
        Ok(memory) => memory,
        Err(error) => return Found::Unreadable(format!("its memory cannot be read: {error}")),
    };
    let Some(head) = memory.bytes(address, 16) else {
        return Found::Unreadable("its memory cannot be read there".to_string());
    };
    let (version, length) = (u32_in(&head, 8), u32_in(&head, 12));
    if &head[..8] != MAGIC {
        return Found::Unreadable("the library was not used yet".to_string());
    }
    match memory.bytes(address, length as usize) {
        Some(bytes) if version == VERSION && bytes.len() >= ROOT_BYTES => Found::Root(Box::new(parse(&bytes))),
        _ => Found::Unreadable(format!("its format is version {version}, this command knows {VERSION}")),
    }
}

/// Where the addresses, the offsets and the version begin, and the end.
const ADDRESSES: usize = 32;
const OFFSETS: usize = ADDRESSES + 8 * 8;
const LIBRARY_VERSION: usize = OFFSETS + 9 * 4;
const ROOT_BYTES: usize = LIBRARY_VERSION + 16;

fn parse(bytes: &[u8]) -> Root {
    let number = |index: usize| u32_in(bytes, 16 + index * 4);
    let address = |index: usize| u64_in(bytes, ADDRESSES + index * 8);
    let offset = |index: usize| u32_in(bytes, OFFSETS + index * 4) as usize;
    let version = bytes[LIBRARY_VERSION..ROOT_BYTES].split(|byte| *byte == 0).next();
    Root {
        lg_granule: number(0),
        lg_chunk: number(1),
        classes: number(2) as usize,
        slab_classes: number(3) as usize,
        page_map: address(0),
        page_map_end: address(1),
        run_tables: address(2),
        first_chunk: address(3),
        mappings: address(4),
        mappings_count: address(5),
        magazine_bins: address(6)..address(7),
        run_start: offset(0),
        run_bin: offset(1),
        run_bytes: offset(2),
        slab_bitmap: offset(3),
        bin_size: offset(4),
        bin_slab_bytes: offset(5),
        bin_buffers: offset(6),
        magazine_capacity: offset(7),
        magazine_slots: offset(8),
        library_version: String::from_utf8_lossy(version.unwrap_or_default()).into_owned(),
    }
}
