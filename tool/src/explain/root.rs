//! The root of a process's vmag: found by the symbol in the library's file, read from the process
//! (include/vmag/format.h).
//! SPDX-License-Identifier: BSD-2-Clause

use super::areas::Area;
use super::memory::{Memory, u32_in, u64_in};
use crate::image;
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
    pub arenas: u64,
    pub arenas_count: u64,
    pub fronts: u64,
    pub magazine_bins: u64,
    pub magazine_bins_end: u64,
    pub run_start: usize,
    pub run_bin: usize,
    pub run_bytes: usize,
    pub slab_bitmap: usize,
    pub bin_size: usize,
    pub bin_slab_bytes: usize,
    pub bin_buffers: usize,
    pub arena_bins: u64,
    pub bin_stride: u64,
    pub arena_depots: u64,
    pub depot_stride: u64,
    pub depot_rounds: u64,
    pub front_next: u64,
    pub front_loaded: u64,
    pub front_previous_rounds: u64,
    pub magazine_capacity: usize,
    pub magazine_slots: u64,
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

const ROOT_BYTES: usize = 8 + 6 * 4 + 11 * 8 + 17 * 4 + 16;

fn parse(bytes: &[u8]) -> Root {
    let mut at = 16;
    let mut short = || {
        at += 4;
        u32_in(bytes, at - 4)
    };
    let (lg_granule, lg_chunk) = (short(), short());
    let (classes, slab_classes) = (short() as usize, short() as usize);
    let mut at = 32;
    let mut long = || {
        at += 8;
        u64_in(bytes, at - 8)
    };
    let addresses: [u64; 11] = std::array::from_fn(|_| long());
    let offset = |index: usize| u32_in(bytes, 32 + 88 + index * 4);
    let version = &bytes[32 + 88 + 17 * 4..][..16];
    let version = version.split(|byte| *byte == 0).next().unwrap_or_default();
    let [
        page_map,
        page_map_end,
        run_tables,
        first_chunk,
        mappings,
        mappings_count,
        arenas,
        arenas_count,
        fronts,
        magazine_bins,
        magazine_bins_end,
    ] = addresses;
    Root {
        lg_granule,
        lg_chunk,
        classes,
        slab_classes,
        page_map,
        page_map_end,
        run_tables,
        first_chunk,
        mappings,
        mappings_count,
        arenas,
        arenas_count,
        fronts,
        magazine_bins,
        magazine_bins_end,
        run_start: offset(0) as usize,
        run_bin: offset(1) as usize,
        run_bytes: offset(2) as usize,
        slab_bitmap: offset(3) as usize,
        bin_size: offset(4) as usize,
        bin_slab_bytes: offset(5) as usize,
        bin_buffers: offset(6) as usize,
        arena_bins: offset(7).into(),
        bin_stride: offset(8).into(),
        arena_depots: offset(9).into(),
        depot_stride: offset(10).into(),
        depot_rounds: offset(11).into(),
        front_next: offset(12).into(),
        front_loaded: offset(13).into(),
        front_previous_rounds: offset(14).into(),
        magazine_capacity: offset(15) as usize,
        magazine_slots: offset(16).into(),
        library_version: String::from_utf8_lossy(version).into_owned(),
    }
}
