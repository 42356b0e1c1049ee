//! The root of a process's vmag: found by the symbol in the library's file, read from the process
//! (include/vmag/format.h).
//! SPDX-License-Identifier: BSD-2-Clause

use super::Row;
use super::areas::{Area, REMOVED};
use super::memory::{Memory, u32_in, u64_in};
use crate::image;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

const SYMBOL: &str = "vmag_root";
const MAGIC: &[u8; 8] = b"vmagroot";
const VERSIONS: RangeInclusive<u32> = 1..=2;
/// Bytes of an arena or of a processor's magazines, of a bin, tally or name, and how many are in a block of them. Another's process may say any, and
/// each is read as often as there are arenas, caches or threads.
const STRUCTURE_MOST: usize = 1 << 18;
const ENTRY_MOST: usize = 1 << 12;
const BLOCK_MOST: usize = 1 << 16;
/// The library's `OS_MAPPINGS_MOST`.
const MAPPINGS_MOST: usize = 4096;
/// What is torn might say any.
const LG_TIMES_MOST: u32 = 16;
/// More than this command knows fields of.
const ROOT_MOST: usize = 1 << 16;
/// Data of a library.
const DATA_MOST: u64 = 16 << 20;
const LG_ADDRESSES: u32 = 57;
const LIBRARY_VERSION_BYTES: usize = 16;

/// The fields of `struct vmag_root` in their order.
#[derive(Debug)]
pub struct Root {
    /// Where it was read, and what: by it the memory is known again.
    address: u64,
    bytes: Vec<u8>,
    pub lg_granule: u32,
    /// Of the bytes that a table of runs covers.
    pub lg_table: u32,
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
    /// None: the library is older than this part of the format.
    pub counters: Option<CounterRoot>,
    pub profile: Option<ProfileRoot>,
    /// Where the values of its options are, and the pointers to their sources' names; None in a library that does not tell.
    pub options: Option<(Range<u64>, u64)>,
    pub caches: Option<CacheRoot>,
    /// Where pages count what is freed and kept at hand; None in a library that keeps nothing.
    pub pages_kept: Option<usize>,
    pub ahead: Option<AheadRoot>,
    /// Where a slab says how many times larger than its bin's it is; None in a library whose slabs are all alike.
    slab_lg_times: Option<usize>,
    /// None in a library whose processors' objects are all of one arena.
    pub processor_magazines: Option<ProcessorMagazines>,
    /// None in a library whose threads have one arena each.
    pub common: Option<CommonRoot>,
    /// None in a library that does not tell where samples lie.
    pub samples: Option<SamplesRoot>,
    /// Where an arena counts small objects that were sampled and are page runs; None in a library that does not tell.
    pub arena_sampled_runs: Option<usize>,
    /// None in a library that does not tell which objects of caches were sampled.
    pub sampled_lists: Option<SampledLists>,
}

impl Root {
    /// Whether a memory still is the one that the root was read from: by now the process may run another program, with more rights, in which the
    /// root's addresses mean nothing, or what somebody chose.
    pub fn is_in(&self, memory: &Memory) -> bool {
        memory.bytes(self.address, self.bytes.len()).as_ref() == Some(&self.bytes)
    }

    /// The pieces of [start, end) that one table of runs each covers.
    pub fn table_pieces(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let lg_table = self.lg_table;
        let last_in_table = move |at: u64| at | ((1 << lg_table) - 1);
        let piece = move |at: u64| (at < end).then(|| (at, last_in_table(at).saturating_add(1).min(end)));
        std::iter::successors(piece(start), move |(_, at)| piece(*at))
    }

    /// The granules that the page map has a word of; None where they are more than a machine has addresses for.
    pub fn granules(&self, memory: &Memory) -> Option<u64> {
        memory
            .u64(self.page_map_end)
            .filter(|granules| *granules <= 1 << (LG_ADDRESSES - self.lg_granule))
    }

    /// The library's own memory, in the order of addresses. What overlaps, as nothing of it does, is one: each page of it is looked at.
    pub fn own_mappings(&self, memory: &Memory) -> Option<Vec<(u64, u64)>> {
        let count = (memory.u32(self.mappings_count)? as usize).min(MAPPINGS_MOST);
        let entries = memory.u64s(self.mappings, count * 2)?;
        let used = entries.chunks_exact(2).filter(|entry| entry[0] != 0 && entry[1] != 0);
        let mut own: Vec<(u64, u64)> = used
            .map(|entry| (entry[0], entry[0].saturating_add(entry[1])))
            .collect();
        own.sort_unstable();
        own.dedup_by(|next, last| {
            let overlaps = next.0 < last.1;
            last.1 = if overlaps { last.1.max(next.1) } else { last.1 };
            overlaps
        });
        Some(own)
    }

    /// Of a slab, of which the fixed part is given: 2^ this times as large as its bin says.
    pub fn slab_lg_times(&self, run: &[u8]) -> u32 {
        let lg_times = self.slab_lg_times.and_then(|at| run.get(at)).copied().unwrap_or(0);
        u32::from(lg_times).min(LG_TIMES_MOST)
    }
}

/// Object caches: their table, and offsets in each.
#[derive(Debug)]
pub struct CacheRoot {
    pub table: u64,
    pub end: u64,
    pub name: usize,
    pub name_bytes: usize,
    pub object_bytes: usize,
    pub bin: usize,
    pub depot: usize,
}

/// Free objects that threads have beside their magazines.
#[derive(Debug, Clone)]
pub struct AheadRoot {
    pub front_words: usize,
    pub words_ahead: usize,
    pub classes: usize,
}

impl AheadRoot {
    /// Of one front, by class; 0: none.
    pub fn objects(&self, memory: &Memory, front: u64, classes: usize) -> Option<Vec<u64>> {
        let words = memory
            .u64(front + self.front_words as u64)
            .filter(|words| *words != 0)?;
        memory.u64s(words + self.words_ahead as u64, self.classes.min(classes))
    }
}

/// Classes, from the first one told on, of which a thread's objects come from another arena than its own.
#[derive(Debug, Clone)]
pub struct CommonRoot {
    pub front_common: usize,
    pub first: usize,
}

/// Where an arena has the bins of small objects that were sampled, and for how many classes.
#[derive(Debug, Clone)]
pub struct SamplesRoot {
    pub arena_samples: usize,
    pub classes: usize,
}

/// Where the lists of sampled objects of caches are, and how many.
#[derive(Debug, Clone)]
pub struct SampledLists {
    pub count: usize,
    pub table: u64,
}

/// How many rounds the magazines of a processor have.
#[derive(Debug, Clone)]
pub struct ProcessorMagazines {
    pub tops: usize,
    pub slots: usize,
    pub magazine_rounds: usize,
}

#[derive(Debug)]
pub struct CounterRoot {
    pub publish: u64,
    pub arenas: u64,
    pub arenas_end: u64,
    pub fronts: u64,
    pub processors: u64,
    pub processors_count: u64,
    pub processors_word: u64,
    pub base_mapped: u64,
    pub magazine_pages: u64,
    pub arena_bytes: usize,
    pub arena_threads: usize,
    pub arena_state: usize,
    pub arena_pages: usize,
    pub arena_bins: usize,
    pub arena_depots: usize,
    pub arena_large: usize,
    pub arena_large_count: usize,
    pub pages_mapped: usize,
    pub pages_free: usize,
    pub pages_dirty: usize,
    pub bin_bytes: usize,
    pub bin_slabs: usize,
    pub bin_free_buffers: usize,
    pub bin_partial_slabs: usize,
    pub bin_filled: usize,
    pub bin_drained: usize,
    pub depot_bytes: usize,
    pub depot_rounds: usize,
    pub front_next: usize,
    pub front_arena: usize,
    pub front_loaded: usize,
    pub front_previous: usize,
    pub processor_slots: usize,
    pub slot_bytes: usize,
    pub slot_loaded: usize,
    pub slot_previous: usize,
}

#[derive(Debug)]
pub struct ProfileRoot {
    pub active: u64,
    pub lg_sample: u64,
    pub lost: u64,
    pub tally_blocks: u64,
    pub tally_count: u64,
    pub thread_names: u64,
    pub thread_count: u64,
    pub request: u64,
    pub tallies_a_block: usize,
    pub names_a_block: usize,
    pub name_bytes: usize,
    pub tally_bytes: usize,
    pub tally_stack: usize,
    pub tally_size: usize,
    pub tally_thread: usize,
    pub tally_arena: usize,
    pub tally_lg_sample: usize,
    pub tally_retired: usize,
    pub tally_live: usize,
    pub tally_total: usize,
    pub stack_depth: usize,
    pub stack_frames: usize,
    pub run_sample: usize,
}

/// What was found of vmag in a process.
pub enum Found {
    /// No mapped file has the symbol.
    Nothing,
    /// The library is there, and was not used yet or cannot be read: why.
    Unreadable(String),
    /// Some file may be the library, and cannot be read: why.
    Unknown(String),
    Root(Box<Root>),
}

/// Looks through the process's files, those named like the library first.
pub fn find(pid: i32, areas: &[Area]) -> Found {
    find_with_file(pid, areas).map_or(Found::Nothing, |(_, found)| found)
}

/// The same, with the file that has the symbol, as it can be opened from here. Never `Found::Nothing`.
pub fn find_with_file(pid: i32, areas: &[Area]) -> Option<(PathBuf, Found)> {
    let executed: HashSet<&str> = areas
        .iter()
        .filter(|area| area.executable)
        .map(|area| area.path.as_str())
        .collect();
    let (mut seen, mut firsts) = (HashSet::new(), Vec::new());
    for area in areas {
        let path = area.path.as_str();
        if path.starts_with('/') && !path.starts_with("/dev/") && executed.contains(path) && seen.insert(path) {
            firsts.push(area);
        }
    }
    firsts.sort_by_key(|area| !area.path.contains("vmag"));
    let mut unknown = None;
    for area in firsts {
        let file = area.file(pid);
        if let Some(offset) = image::symbol(&file, SYMBOL) {
            let found = read(pid, area.start.wrapping_add(offset));
            return Some((file, found));
        }
        if area.is_removed() && area.row != Row::Shared && image::open(&file).is_none() {
            match find_without_file(pid, areas, &area.path) {
                Found::Nothing => {}
                Found::Unknown(why) => unknown = unknown.or(Some((file, Found::Unknown(why)))),
                found => return Some((file, found)),
            }
        }
    }
    unknown
}

/// Of a file that is gone and cannot be read: in its memory, by what a root begins with.
fn find_without_file(pid: i32, areas: &[Area], path: &str) -> Found {
    let Ok(memory) = Memory::open(pid) else {
        return gone(path, ", and its memory cannot be read");
    };
    for area in data_of(areas, path) {
        let length = area.end.saturating_sub(area.start).min(DATA_MOST);
        let Some(bytes) = memory.bytes(area.start, length as usize) else {
            return gone(path, ", and its memory cannot be read");
        };
        let begins = |(number, word): (usize, &[u8])| (word == MAGIC).then_some(area.start + number as u64 * 8);
        let roots = bytes.chunks_exact(8).enumerate().filter_map(begins);
        if let Some(root) = roots.map(|at| read(pid, at)).find(|at| matches!(at, Found::Root(_))) {
            return root;
        }
    }
    match is_named_vmag(path) {
        true => gone(path, ""),
        false => Found::Nothing,
    }
}

/// What a library may write to: of its file, and what follows, which has no name.
fn data_of<'a>(areas: &'a [Area], path: &'a str) -> impl Iterator<Item = &'a Area> {
    let is_data = move |number: &usize| {
        let area = &areas[*number];
        let last = number.checked_sub(1).map(|last| &areas[last]);
        let follows = last.is_some_and(|last| last.path == path && last.end == area.start);
        area.writable && (area.path == path || (area.path.is_empty() && follows))
    };
    (0..areas.len()).filter(is_data).map(|number| &areas[number])
}

fn is_named_vmag(path: &str) -> bool {
    path.contains("libvmag")
}

fn gone(path: &str, besides: &str) -> Found {
    match is_named_vmag(path) {
        true => Found::Unreadable(format!(
            "the library's file was replaced or removed since it was loaded{besides}"
        )),
        false => Found::Unknown(format!(
            "{} was replaced or removed since it was loaded{besides}",
            path.trim_end_matches(REMOVED)
        )),
    }
}

/// The root at an address of a process.
pub fn read(pid: i32, address: u64) -> Found {
    let memory = match Memory::open(pid) {
        Ok(memory) => memory,
        Err(error) => return Found::Unreadable(format!("its memory cannot be read: {error}")),
    };
    let Some(head) = memory.bytes(address, 16) else {
        return Found::Unreadable("its memory cannot be read there".to_string());
    };
    let (version, length) = (u32_in(&head, 8), u32_in(&head, 12));
    if &head[..8] != MAGIC {
        return Found::Unreadable(
            "the library was not used yet, or the program runs with raised privileges".to_string(),
        );
    }
    if !VERSIONS.contains(&version) {
        let (oldest, newest) = (VERSIONS.start(), VERSIONS.end());
        return Found::Unreadable(format!(
            "its format is version {version}, this command knows {oldest} to {newest}"
        ));
    }
    let root = memory
        .bytes(address, (length as usize).min(ROOT_MOST))
        .and_then(|bytes| parse(address, &bytes));
    match root.filter(is_sound) {
        Some(root) => Found::Root(Box::new(root)),
        None => Found::Unreadable("what it tells of itself is not what this command knows".to_string()),
    }
}

fn is_sound(root: &Root) -> bool {
    // Smaller ones would be walked through for hours.
    (12..=16).contains(&root.lg_granule)
        && (19..=30).contains(&root.lg_table)
        && root.slab_classes <= root.classes
        && (1..=256).contains(&root.classes)
        && offsets_are_sound(root)
        && root.counters.as_ref().is_none_or(CounterRoot::is_sound)
        && root.profile.as_ref().is_none_or(ProfileRoot::is_sound)
        && root
            .caches
            .as_ref()
            .is_none_or(|caches| caches.name_bytes <= ENTRY_MOST)
        && root
            .sampled_lists
            .as_ref()
            .is_none_or(|lists| lists.count <= BLOCK_MOST)
}

/// As much is read of each run, bin and magazine.
fn offsets_are_sound(root: &Root) -> bool {
    let of_runs = [root.run_start, root.run_bin, root.run_bytes, root.slab_bitmap];
    let of_bins = [root.bin_size, root.bin_slab_bytes, root.bin_buffers];
    let of_magazines = [root.magazine_capacity, root.magazine_slots];
    let mut all = of_runs.iter().chain(&of_bins).chain(&of_magazines);
    all.all(|offset| *offset <= ENTRY_MOST)
}

impl CounterRoot {
    fn is_sound(&self) -> bool {
        [self.arena_bytes, self.pages_dirty, self.slot_bytes]
            .iter()
            .all(|bytes| *bytes <= STRUCTURE_MOST)
            && [self.bin_bytes, self.depot_bytes]
                .iter()
                .all(|bytes| *bytes <= ENTRY_MOST)
    }
}

impl ProfileRoot {
    fn is_sound(&self) -> bool {
        [self.tally_bytes, self.name_bytes]
            .iter()
            .all(|bytes| *bytes <= ENTRY_MOST)
            && [self.tallies_a_block, self.names_a_block]
                .iter()
                .all(|count| *count <= BLOCK_MOST)
    }
}

/// The numbers of a C structure one after the other, each at a multiple of its size; None beyond the end.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    fn next(&mut self, size: usize) -> Option<usize> {
        let at = self.at.next_multiple_of(size);
        self.at = at + size;
        (self.at <= self.bytes.len()).then_some(at)
    }

    fn u32(&mut self) -> Option<u32> {
        self.next(4).map(|at| u32_in(self.bytes, at))
    }

    fn offset(&mut self) -> Option<usize> {
        self.u32().map(|number| number as usize)
    }

    fn address(&mut self) -> Option<u64> {
        self.next(8).map(|at| u64_in(self.bytes, at))
    }

    fn text(&mut self, length: usize) -> Option<String> {
        let text = self.bytes.get(self.at..self.at + length)?;
        self.at += length;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// None: shorter than version 1 ever was.
fn parse(address: u64, bytes: &[u8]) -> Option<Root> {
    let mut fields = Fields { bytes, at: 16 };
    let f = &mut fields;
    Some(Root {
        address,
        bytes: bytes.to_vec(),
        lg_granule: f.u32()?,
        lg_table: f.u32()?,
        classes: f.offset()?,
        slab_classes: f.offset()?,
        page_map: f.address()?,
        page_map_end: f.address()?,
        run_tables: f.address()?,
        first_chunk: f.address()?,
        mappings: f.address()?,
        mappings_count: f.address()?,
        magazine_bins: f.address()?..f.address()?,
        run_start: f.offset()?,
        run_bin: f.offset()?,
        run_bytes: f.offset()?,
        slab_bitmap: f.offset()?,
        bin_size: f.offset()?,
        bin_slab_bytes: f.offset()?,
        bin_buffers: f.offset()?,
        magazine_capacity: f.offset()?,
        magazine_slots: f.offset()?,
        library_version: f.text(LIBRARY_VERSION_BYTES)?,
        counters: parse_counters(f),
        profile: parse_profile(f),
        options: parse_options(f),
        caches: parse_caches(f),
        pages_kept: f.offset().filter(|at| *at != 0), // older libraries end with padding here
        ahead: parse_ahead(f),
        slab_lg_times: f.offset().filter(|at| *at != 0),
        processor_magazines: parse_processor_magazines(f),
        common: parse_common(f),
        samples: parse_samples(f),
        arena_sampled_runs: f.offset().filter(|at| *at != 0),
        sampled_lists: parse_sampled_lists(f),
    })
}

fn parse_sampled_lists(f: &mut Fields) -> Option<SampledLists> {
    Some(SampledLists {
        count: f.offset().filter(|count| *count != 0)?,
        table: f.address()?,
    })
}

fn parse_samples(f: &mut Fields) -> Option<SamplesRoot> {
    Some(SamplesRoot {
        arena_samples: f.offset().filter(|at| *at != 0)?,
        classes: f.offset()?,
    })
}

fn parse_common(f: &mut Fields) -> Option<CommonRoot> {
    Some(CommonRoot {
        front_common: f.offset().filter(|at| *at != 0)?,
        first: f.offset()?,
    })
}

fn parse_processor_magazines(f: &mut Fields) -> Option<ProcessorMagazines> {
    Some(ProcessorMagazines {
        tops: f.offset().filter(|at| *at != 0)?,
        slots: f.offset()?,
        magazine_rounds: f.offset()?,
    })
}

fn parse_ahead(f: &mut Fields) -> Option<AheadRoot> {
    Some(AheadRoot {
        front_words: f.offset().filter(|at| *at != 0)?,
        words_ahead: f.offset()?,
        classes: f.offset()?,
    })
}

fn parse_counters(f: &mut Fields) -> Option<CounterRoot> {
    Some(CounterRoot {
        publish: f.address()?,
        arenas: f.address()?,
        arenas_end: f.address()?,
        fronts: f.address()?,
        processors: f.address()?,
        processors_count: f.address()?,
        processors_word: f.address()?,
        base_mapped: f.address()?,
        magazine_pages: f.address()?,
        arena_bytes: f.offset()?,
        arena_threads: f.offset()?,
        arena_state: f.offset()?,
        arena_pages: f.offset()?,
        arena_bins: f.offset()?,
        arena_depots: f.offset()?,
        arena_large: f.offset()?,
        arena_large_count: f.offset()?,
        pages_mapped: f.offset()?,
        pages_free: f.offset()?,
        pages_dirty: f.offset()?,
        bin_bytes: f.offset()?,
        bin_slabs: f.offset()?,
        bin_free_buffers: f.offset()?,
        bin_partial_slabs: f.offset()?,
        bin_filled: f.offset()?,
        bin_drained: f.offset()?,
        depot_bytes: f.offset()?,
        depot_rounds: f.offset()?,
        front_next: f.offset()?,
        front_arena: f.offset()?,
        front_loaded: f.offset()?,
        front_previous: f.offset()?,
        processor_slots: f.offset()?,
        slot_bytes: f.offset()?,
        slot_loaded: f.offset()?,
        slot_previous: f.offset()?,
    })
}

fn parse_profile(f: &mut Fields) -> Option<ProfileRoot> {
    Some(ProfileRoot {
        active: f.address()?,
        lg_sample: f.address()?,
        lost: f.address()?,
        tally_blocks: f.address()?,
        tally_count: f.address()?,
        thread_names: f.address()?,
        thread_count: f.address()?,
        request: f.address()?,
        tallies_a_block: f.offset()?,
        names_a_block: f.offset()?,
        name_bytes: f.offset()?,
        tally_bytes: f.offset()?,
        tally_stack: f.offset()?,
        tally_size: f.offset()?,
        tally_thread: f.offset()?,
        tally_arena: f.offset()?,
        tally_lg_sample: f.offset()?,
        tally_retired: f.offset()?,
        tally_live: f.offset()?,
        tally_total: f.offset()?,
        stack_depth: f.offset()?,
        stack_frames: f.offset()?,
        run_sample: f.offset()?,
    })
}

fn parse_caches(f: &mut Fields) -> Option<CacheRoot> {
    Some(CacheRoot {
        table: f.address()?,
        end: f.address()?,
        name: f.offset()?,
        name_bytes: f.offset()?,
        object_bytes: f.offset()?,
        bin: f.offset()?,
        depot: f.offset()?,
    })
}

fn parse_options(f: &mut Fields) -> Option<(Range<u64>, u64)> {
    let (start, length, sources) = (f.address()?, f.address()?, f.address()?);
    Some((start..start.checked_add(length)?, sources))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// One that lies in these bytes of this process, and has its request there as well.
    pub fn root_in(bytes: &[u8]) -> Root {
        let mut root = parse(bytes.as_ptr() as u64, bytes).unwrap();
        root.profile.as_mut().unwrap().request = bytes.as_ptr() as u64 + 512;
        root
    }

    #[test]
    fn a_memory_is_known_by_its_root() {
        let mut bytes = [7; 1024];
        let root = root_in(&bytes);
        let memory = Memory::open(std::process::id() as i32).unwrap();
        assert!(root.is_in(&memory));
        bytes[100] = 8;
        assert!(!root.is_in(&memory) && bytes[100] == 8);
    }

    #[test]
    fn a_root_is_found_without_its_file() {
        let mut bytes = vec![0u64; 512];
        let start = bytes.as_ptr() as u64;
        let area = |path: &str| Area {
            start,
            end: start + 4096,
            offset: 0,
            file_id: Default::default(),
            path: path.to_string(),
            executable: true,
            readable: true,
            writable: true,
            row: Row::Programs,
            resident: 0,
            proportional: 0,
            swapped: 0,
            huge: 0,
        };
        let pid = std::process::id() as i32;
        let find = |pid, path: &str| find_with_file(pid, &[area(path)]).map(|(_, found)| found);
        let (named, other) = ("/no/libvmag.so (deleted)", "/no/mylib.so (deleted)");
        assert!(matches!(find(pid, named), Some(Found::Unreadable(_))) && find(pid, other).is_none());
        // Whose memory cannot be read may be anything.
        assert!(matches!(find(i32::MAX, other), Some(Found::Unknown(_))));
        bytes[8] = u64::from_ne_bytes(*MAGIC);
        bytes[9] = 1 | 512 << 32; // the version, and so many bytes
        bytes[10] = 12 | 21 << 32;
        bytes[11] = 1;
        std::hint::black_box(&bytes);
        for path in [named, other] {
            assert!(matches!(find(pid, path), Some(Found::Root(root)) if root.lg_table == 21));
        }
    }

    #[test]
    fn what_nobody_can_mean_is_no_root() {
        let root = |classes: u8, more: Option<(usize, u32)>| {
            let mut bytes = [0; 1024];
            (bytes[16], bytes[20], bytes[24]) = (12, 21, classes);
            if let Some((at, value)) = more {
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            parse(0, &bytes).filter(is_sound)
        };
        assert!(root(1, None).is_some() && root(0, None).is_none());
        assert!(root(1, Some((16, 11))).is_none() && root(1, Some((20, 18))).is_none());
        let (run_start, magazine_slots) = (96, 128);
        for at in (run_start..=magazine_slots).step_by(4) {
            let with = |value: usize| root(1, Some((at, value as u32)));
            assert!(with(ENTRY_MOST).is_some() && with(ENTRY_MOST + 1).is_none(), "{at}");
        }
        // Wherever the sizes of arenas, bins and the like are: some of the words may be no larger than a structure.
        let refused = (16..1024)
            .step_by(4)
            .filter(|at| root(1, Some((*at, 1 << 28))).is_none());
        assert!(refused.count() > 8);
    }

    #[test]
    fn tables_end_with_the_addresses() {
        let mut root = root_in(&[0; 1024]);
        root.lg_table = 30;
        let (last, end) = (u64::MAX - (1 << 30) + 1, u64::MAX);
        assert!(root.table_pieces(last - 7, end).eq([(last - 7, last), (last, end)]));
    }

    #[test]
    fn no_page_map_has_more_than_all_addresses() {
        let granules = [1u64 << 45, (1 << 45) + 1];
        let memory = Memory::open(std::process::id() as i32).unwrap();
        let mut root = root_in(&[0; 1024]);
        root.lg_granule = 12;
        let read = granules.each_ref().map(|variable| {
            root.page_map_end = variable as *const u64 as u64;
            root.granules(&memory)
        });
        assert_eq!(read, [Some(1 << 45), None]);
    }

    #[test]
    fn own_memory_is_told_once() {
        let header = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/os/pages.h");
        let header = std::fs::read_to_string(header).unwrap();
        assert!(header.contains(&format!("OS_MAPPINGS_MOST = {MAPPINGS_MOST} ")));
        let memory = Memory::open(std::process::id() as i32).unwrap();
        let mut entries: Vec<u64> = [
            [0x9000, 0x1000],
            [0, 7],
            [0x1000, 0x5000],
            [0x2000, 0x1000],
            [0x5000, 0x3000],
        ]
        .concat();
        entries.extend([0x1000, u64::MAX].repeat(MAPPINGS_MOST));
        let own = |count: u32| {
            let mut root = root_in(&[0; 1024]);
            (root.mappings, root.mappings_count) = (entries.as_ptr() as u64, &raw const count as u64);
            root.own_mappings(&memory).unwrap()
        };
        assert_eq!(own(5), [(0x1000, 0x8000), (0x9000, 0xa000)]);
        assert_eq!(own(u32::MAX), [(0x1000, u64::MAX)]);
    }

    #[test]
    fn an_older_library_has_no_counters() {
        let root = parse(0, &[0; 148]).unwrap();
        assert!(root.counters.is_none() && root.profile.is_none());
        assert!(parse(0, &[0; 147]).is_none());
        assert!(!is_sound(&root));
    }
}
