//! Which sampled objects of a process nothing leads to: a conservative mark through its memory, from outside.
//!
//! It begins at all that the process can write and that is there outside the heap: data, stacks, other mappings; and at what it wrote and then
//! protected. An address anywhere in an object leads to it, and on to all that its bytes lead to. Free buffers, free objects in magazines and
//! the library's own structures lead nowhere, for what they say of an object is old. Objects of caches stay constructed while they are free,
//! so what those in magazines hold is held; and a magazine of theirs does not tell which of its slots are old ones. Only of sampled ones is it
//! known that they are alive: these no magazine holds.
//!
//! What lies below the stack pointer of a thread that waits in a system call is over and leads nowhere. The kernel does not tell that of
//! threads that run: all of their stacks counts.
//!
//! The process goes on meanwhile and its registers are not seen: a pointer on its way from one place to another may be missed. So
//! the search is made twice, and an object counts when both found nothing. In a process that replaces its objects all the time another one may have
//! the same address by then, and be missed as well: there it is made again until nothing is found any more that was missed, ten times at most.
//! SPDX-License-Identifier: BSD-2-Clause

mod stacks;

use super::Process;
use crate::error::Result;
use crate::explain::Row;
use crate::explain::areas::{self, Area};
use crate::explain::magazines::Magazines;
use crate::explain::memory::{u16_in, u32_in, u64_in};
use crate::profile::Profile;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

const RUN_BYTES: usize = 64;
const PIECE_BYTES: u64 = 1 << 20;
/// Of slabs; beyond, buffers are read one by one.
const MOST_COPIED: usize = 1 << 30;
/// Sampled objects of caches in one list: more are taken for a torn one.
const MOST_IN_LIST: usize = 1 << 20;
/// Pointers to tables of runs that are read at once: of one page, for others may not be there.
const TABLES_AT_ONCE: u64 = 512;
/// In an entry of /proc/PID/pagemap.
const PRESENT_OR_SWAPPED: u64 = 3 << 62;
const OF_FILE_OR_SHARED: u64 = 1 << 61;

/// An object that is a page run of its own; or a small one that was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Large {
    start: u64,
    end: u64,
    /// 0: not sampled.
    tally: u32,
}

struct Slab {
    start: u64,
    size: u64,
    buffers: u64,
    is_of_cache: bool,
    /// A set bit for each free buffer, and for each that was reached.
    free: Vec<u64>,
    reached: Vec<u64>,
    /// Of samples: by buffer, the number of the tally of the object there, u32::MAX: it has none, 0: there is no object. Else empty.
    tallies: Vec<u32>,
    /// Its bytes, read once for all its buffers; empty before.
    copy: Vec<u8>,
}

/// The heap as it was when it was walked through, and what was reached in it.
#[derive(Default)]
struct Heap {
    /// In address order, and whether each was reached.
    large: Vec<Large>,
    large_reached: Vec<bool>,
    slabs: Vec<Slab>,
    /// By granule: the slab that it belongs to.
    slab_of: HashMap<u64, usize>,
    /// Free objects in magazines, and magazines.
    rounds: HashSet<u64>,
    magazines: Option<Magazines>,
    /// The rounds of each magazine, until all slabs are known.
    found: Vec<Vec<u64>>,
    start: u64,
    end: u64,
    /// Of the data segment and of hooks of the program: parts that are the heap's, in address order; and between what they lie.
    outside: Vec<(u64, u64)>,
    outside_bounds: Range<u64>,
    /// Objects of caches that are alive and were sampled, and their tallies.
    sampled: HashMap<u64, u32>,
    lg_granule: u32,
    /// While it is walked through: where the mappings that lie one behind the other end, and so any object in them.
    mapped_end: u64,
    /// Of slabs that were copied.
    copied_bytes: usize,
}

/// Searches after the first one that found nothing else to be reached.
#[derive(Default)]
struct Agreeing {
    searches: u32,
    in_a_row: u32,
    has_disagreed: bool,
}

impl Agreeing {
    fn count(&mut self, agrees: bool) {
        self.searches += 1;
        self.in_a_row = if agrees { self.in_a_row + 1 } else { 0 };
        self.has_disagreed |= !agrees;
    }

    /// One agrees by chance where little was missed.
    fn is_enough(&self) -> bool {
        const MOST: u32 = 9;
        self.in_a_row > u32::from(self.has_disagreed) || self.searches == MOST
    }
}

impl Process {
    /// A profile in which only unreachable objects are alive. Takes seconds for a million objects.
    pub fn unreachable(&self, pause: Duration) -> Result<Profile> {
        let mut found = self.search().ok_or_else(|| self.ended())?;
        let mut agreeing = Agreeing::default();
        while !found.is_empty() && !agreeing.is_enough() {
            sleep(pause);
            let again = self.search().ok_or_else(|| self.ended())?;
            let before = found.len();
            found.retain(|object| again.contains(object));
            agreeing.count(found.len() == before);
        }
        let mut lost: HashMap<u32, u64> = HashMap::new();
        for object in found {
            *lost.entry(object.tally).or_default() += 1;
        }
        self.profile_with(|number, _| lost.get(&number).copied().unwrap_or(0))
    }

    fn search(&self) -> Option<HashSet<Large>> {
        let areas = areas::read_maps_and_stacks(self.pid).ok()?;
        let mut own = self.own_ranges()?;
        let mut heap = self.walk(&areas, &own)?;
        own.extend(&heap.outside);
        own.sort();
        let pagemap = File::open(format!("/proc/{}/pagemap", self.pid)).ok()?;
        let is_device = |area: &Area| area.path.starts_with("/dev/") && area.row != Row::Shared;
        let is_root =
            |area: &&Area| area.readable && !is_device(area) && (area.end <= heap.start || area.start >= heap.end);
        let roots: Vec<Area> = areas.iter().filter(is_root).cloned().collect();
        let waiting = stacks::of_waiting(self.pid);
        let mut work = heap.sort_out_rounds();
        for area in &roots {
            // Others may be a pool of stacks, with some in use below.
            let start = match area.row {
                Row::Stacks => stacks::first_in_use(&waiting, area.start, area.end),
                _ => area.start,
            };
            // What cannot be written holds an address only if it could be once: a page that is the process's own.
            let unwanted = if area.writable { 0 } else { OF_FILE_OR_SHARED };
            for (start, end) in there(&pagemap, start, area.end, unwanted) {
                work.extend(without(&own, start, end));
            }
        }
        while let Some((start, end)) = work.pop() {
            self.look_through(start, end, &mut heap, &mut work);
        }
        self.is_there().then(|| heap.lost())
    }

    /// Adds what the range leads to and was not reached before.
    fn look_through(&self, start: u64, end: u64, heap: &mut Heap, work: &mut Vec<(u64, u64)>) {
        if let Some(bytes) = heap.copied(start, end, |from, length| self.memory.bytes(from, length)) {
            work.extend(bytes.chunks_exact(8).filter_map(|word| heap.reach(u64_in(word, 0))));
            return;
        }
        let mut at = start;
        while at < end {
            let next = (at + PIECE_BYTES).min(end);
            let bytes = self.piece(at, next);
            work.extend(bytes.chunks_exact(8).filter_map(|word| heap.reach(u64_in(word, 0))));
            at = next;
        }
    }

    /// Page by page where not all of it can be read: what cannot leads nowhere.
    fn piece(&self, start: u64, end: u64) -> Vec<u8> {
        if let Some(bytes) = self.memory.bytes(start, (end - start) as usize) {
            return bytes;
        }
        let page_bytes = crate::system::page_bytes();
        let mut bytes = Vec::new();
        let mut at = start;
        while at < end {
            let next = ((at / page_bytes + 1) * page_bytes).min(end);
            let length = (next - at) as usize;
            bytes.extend(self.memory.bytes(at, length).unwrap_or(vec![0; length]));
            at = next;
        }
        bytes
    }

    /// The library's own memory, in address order.
    fn own_ranges(&self) -> Option<Vec<(u64, u64)>> {
        let page_map = self.memory.u64(self.root.page_map)?;
        let granules = self.root.granules(&self.memory)?;
        let mut own = self.root.own_mappings(&self.memory)?;
        own.push((page_map, page_map.saturating_add(granules.saturating_mul(2))));
        own.sort();
        Some(own)
    }

    /// `own`: the library's memory.
    fn walk(&self, areas: &[Area], own: &[(u64, u64)]) -> Option<Heap> {
        let root = &self.root;
        let page_map = self.memory.u64(root.page_map)?;
        let first = self.memory.u64(root.first_chunk)?;
        let end = root.granules(&self.memory)? << root.lg_granule;
        let tables = self.memory.u64(root.run_tables)?;
        let mut heap = Heap {
            start: first,
            end,
            lg_granule: root.lg_granule,
            sampled: self.sampled_of_caches(),
            ..Heap::default()
        };
        let is_outside = |area: &&Area| area.readable && (area.end <= first || area.start >= end);
        for (start, end) in joined(areas.iter().filter(is_outside)) {
            heap.mapped_end = end;
            let mut large_end = 0;
            for (start, end) in self.pieces_with_table(tables, own, start, end) {
                if self.walk_part(&mut heap, page_map, tables, start, end, &mut large_end) {
                    heap.outside.push((start, end));
                }
            }
        }
        heap.bound_outside();
        let mut large_end = 0;
        let in_heap = |area: &&Area| area.start >= first && area.end <= end;
        for (start, end) in joined(areas.iter().filter(in_heap)) {
            heap.mapped_end = end;
            for (start, end) in root.table_pieces(start, end) {
                self.walk_part(&mut heap, page_map, tables, start, end, &mut large_end);
            }
        }
        heap.large.sort();
        heap.large_reached = vec![false; heap.large.len()];
        Some(heap)
    }

    /// Outside the region: what is covered by a table of runs, which is in the library's memory. Hardly any page of pointers to them is there.
    fn pieces_with_table(&self, tables: u64, own: &[(u64, u64)], start: u64, end: u64) -> Vec<(u64, u64)> {
        let lg_table = self.root.lg_table;
        let (mut pieces, mut number, last) = (Vec::new(), start >> lg_table, (end - 1) >> lg_table);
        while number <= last {
            let at = tables.wrapping_add(number * 8);
            let count = (TABLES_AT_ONCE - at / 8 % TABLES_AT_ONCE).min(last - number + 1);
            let found = self.memory.u64s(at, count as usize).unwrap_or_default();
            for (index, table) in found.into_iter().enumerate().filter(|(_, table)| *table != 0) {
                let from = (number + index as u64) << lg_table;
                if own.iter().any(|own| (own.0..own.1).contains(&table)) {
                    pieces.push((from.max(start), (from + (1 << lg_table)).min(end)));
                }
            }
            number += count;
        }
        pieces
    }

    /// Objects of caches are in no run that could hold their tally.
    fn sampled_of_caches(&self) -> HashMap<u64, u32> {
        let mut sampled = HashMap::new();
        let Some(root) = &self.root.sampled_lists else {
            return sampled;
        };
        let lists = self.memory.u64(root.table).filter(|lists| *lists != 0);
        let firsts = lists.and_then(|lists| self.memory.u64s(lists, root.count));
        for first in firsts.unwrap_or_default() {
            let (mut at, mut seen) = (first, 0);
            while let Some(words) = (at != 0 && seen < MOST_IN_LIST)
                .then(|| self.memory.u64s(at, 3))
                .flatten()
            {
                sampled.insert(words[1], words[2] as u32);
                (at, seen) = (words[0], seen + 1);
            }
        }
        sampled
    }

    /// Of what one table of runs covers at most. Whether there are any.
    fn walk_part(
        &self,
        heap: &mut Heap,
        page_map: u64,
        tables: u64,
        start: u64,
        end: u64,
        large_end: &mut u64,
    ) -> bool {
        let root = &self.root;
        let granule_bytes = 1u64 << root.lg_granule;
        let count = ((end - start) / granule_bytes) as usize;
        let first = (start >> root.lg_granule) % (1 << (root.lg_table - root.lg_granule));
        let words = self.memory.bytes(page_map + (start >> root.lg_granule) * 2, count * 2);
        let table = self.memory.u64(tables + (start >> root.lg_table) * 8).unwrap_or(0);
        let runs = (table != 0)
            .then(|| self.memory.u64s(table + first * 8, count))
            .flatten();
        let (words, runs) = (words.unwrap_or_default(), runs.unwrap_or_default());
        for index in 0..count {
            let at = start + index as u64 * granule_bytes;
            let (word, run) = (u16_in(&words, index * 2), runs.get(index).copied().unwrap_or(0));
            if at < *large_end || heap.slab_of.contains_key(&(at >> root.lg_granule)) {
                continue;
            }
            if run == 0 {
                continue;
            }
            let Some(bytes) = self.memory.bytes(run, RUN_BYTES) else {
                continue;
            };
            let bin = u64_in(&bytes, root.run_bin);
            if bin != 0 {
                self.enter_slab(heap, run, bin, &bytes, (at, word));
            } else if word != 0 && u64_in(&bytes, root.run_start) == at {
                let length = u64_in(&bytes, root.run_bytes).div_ceil(granule_bytes) << root.lg_granule;
                *large_end = at.saturating_add(length).min(heap.mapped_end);
                let tally = root.profile.as_ref().map_or(0, |root| u32_in(&bytes, root.run_sample));
                heap.large.push(Large {
                    start: at,
                    end: *large_end,
                    tally: if word & 0xff == 0 { tally } else { 0 },
                });
            }
        }
        runs.iter().any(|run| *run != 0)
    }

    /// A slab is one only if the granule that led to it lies in it: what is torn might name any place. One whose word names no class is of
    /// samples.
    fn enter_slab(&self, heap: &mut Heap, run: u64, bin: u64, run_bytes: &[u8], (granule, word): (u64, u16)) {
        let root = &self.root;
        let (start, lg_times) = (u64_in(run_bytes, root.run_start), root.slab_lg_times(run_bytes));
        let shape = root.bin_size.max(root.bin_slab_bytes).max(root.bin_buffers) + 8;
        let Some(bin_bytes) = self.memory.bytes(bin, shape) else {
            return;
        };
        let (size, bytes) = (
            u64_in(&bin_bytes, root.bin_size),
            u64_in(&bin_bytes, root.bin_slab_bytes) << lg_times,
        );
        let buffers = u64::from(u32_in(&bin_bytes, root.bin_buffers)) << lg_times;
        let is_sound = size > 0 && bytes <= 1 << 24 && buffers.saturating_mul(size) <= bytes;
        // Where the slab begins; of a cache's, its colour lies before the first buffer.
        let base = start >> root.lg_granule << root.lg_granule;
        let has_magazines = root.magazine_bins.contains(&bin);
        let is_of_cache = word == 0 && !has_magazines;
        if !is_sound || (start != base && !is_of_cache) || granule.wrapping_sub(base) >= bytes {
            return;
        }
        let words = buffers.div_ceil(64) as usize;
        let free = self.memory.u64s(run + root.slab_bitmap as u64, words);
        let is_of_samples = word != 0 && word & 0xff == 0;
        let slab = Slab {
            start,
            size,
            buffers,
            is_of_cache,
            free: free.unwrap_or_default(),
            reached: vec![0; words],
            tallies: if is_of_samples {
                self.notes(run, buffers)
            } else {
                Vec::new()
            },
            copy: Vec::new(),
        };
        if has_magazines {
            self.enter_magazines(heap, &slab);
        }
        for granule in base >> root.lg_granule..(base + bytes) >> root.lg_granule {
            heap.slab_of.insert(granule, heap.slabs.len());
        }
        heap.slabs.push(slab);
    }

    /// Behind the bitmap.
    fn notes(&self, run: u64, buffers: u64) -> Vec<u32> {
        let at = run + self.root.slab_bitmap as u64 + buffers.div_ceil(64) * 8;
        let bytes = self.memory.bytes(at, buffers as usize * 4).unwrap_or_default();
        bytes.chunks_exact(4).map(|note| u32_in(note, 0)).collect()
    }

    /// The rounds of all magazines of a slab. Magazines themselves are no references.
    fn enter_magazines(&self, heap: &mut Heap, slab: &Slab) {
        let length = (slab.size * slab.buffers) as usize;
        let Some(bytes) = self.memory.bytes(slab.start, length) else {
            return;
        };
        let magazines = heap
            .magazines
            .get_or_insert_with(|| Magazines::of(&self.memory, &self.root));
        for index in (0..slab.buffers).filter(|index| !slab.is_free(*index)) {
            let magazine = &bytes[(index * slab.size) as usize..][..slab.size as usize];
            let address = slab.start + index * slab.size;
            heap.found.push(magazines.rounds(address, magazine).collect());
            heap.rounds.insert(address);
        }
    }
}

impl Slab {
    /// Among samples a buffer is free, too, that a front has at hand: no bit tells it, but there is no note.
    fn is_free(&self, index: u64) -> bool {
        let word = self.free.get((index / 64) as usize).copied().unwrap_or(u64::MAX);
        let is_at_hand = self.tallies.get(index as usize) == Some(&0);
        index >= self.buffers || word >> (index % 64) & 1 == 1 || is_at_hand
    }

    fn is_reached(&self, index: u64) -> bool {
        self.reached[(index / 64) as usize] >> (index % 64) & 1 == 1
    }

    /// Sampled objects that were not reached.
    fn lost(&self) -> impl Iterator<Item = Large> + '_ {
        let live = self
            .tallies
            .iter()
            .enumerate()
            .filter(|(index, tally)| **tally != 0 && **tally != u32::MAX && !self.is_reached(*index as u64));
        live.map(|(index, tally)| {
            let start = self.start + index as u64 * self.size;
            let end = start + self.size;
            Large {
                start,
                end,
                tally: *tally,
            }
        })
    }
}

impl Heap {
    /// Once all that lies outside is known.
    fn bound_outside(&mut self) {
        let large = self.large.iter().map(|large| (large.start, large.end));
        self.outside.extend(large);
        self.outside.sort();
        let first = self.outside.first().map_or(0, |part| part.0);
        let last = self.outside.iter().map(|part| part.1).max();
        self.outside_bounds = first..last.unwrap_or(0);
    }

    /// Once all slabs are known: rounds are free, but those of magazines that hold objects of caches. What these lead to is given back.
    fn sort_out_rounds(&mut self) -> Vec<(u64, u64)> {
        let mut held = Vec::new();
        for rounds in std::mem::take(&mut self.found) {
            if rounds.iter().any(|round| self.is_of_cache(*round)) {
                let is_free = |round: &u64| self.is_of_cache(*round) && !self.sampled.contains_key(round);
                held.extend(rounds.into_iter().filter(is_free));
            } else {
                self.rounds.extend(rounds);
            }
        }
        held.into_iter().filter_map(|round| self.reach(round)).collect()
    }

    fn is_of_cache(&self, address: u64) -> bool {
        let slab = self.slab_of.get(&(address >> self.lg_granule));
        slab.is_some_and(|slab| self.slabs[*slab].is_of_cache)
    }

    /// The object that the address is in, when it is reached for the first time.
    fn reach(&mut self, address: u64) -> Option<(u64, u64)> {
        if !(self.start..self.end).contains(&address) && !self.outside_bounds.contains(&address) {
            return None;
        }
        match self.slab_of.get(&(address >> self.lg_granule)) {
            Some(slab) => self.reach_buffer(*slab, address),
            None => self.reach_large(address),
        }
    }

    fn reach_buffer(&mut self, slab: usize, address: u64) -> Option<(u64, u64)> {
        let slab = &mut self.slabs[slab];
        let index = address.checked_sub(slab.start)? / slab.size;
        let start = slab.start + index * slab.size;
        if slab.is_free(index) || self.rounds.contains(&start) {
            return None;
        }
        let (word, bit) = (&mut slab.reached[(index / 64) as usize], 1 << (index % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new.then_some((start, start + slab.size))
    }

    fn reach_large(&mut self, address: u64) -> Option<(u64, u64)> {
        let index = self
            .large
            .partition_point(|large| large.start <= address)
            .checked_sub(1)?;
        let large = self.large[index];
        if address >= large.end || std::mem::replace(&mut self.large_reached[index], true) {
            return None;
        }
        Some((large.start, large.end))
    }

    /// The bytes of a buffer, from a copy of its slab; None: not in a slab, or there are copies enough.
    fn copied(&mut self, start: u64, end: u64, read: impl Fn(u64, usize) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let slab = &mut self.slabs[*self.slab_of.get(&(start >> self.lg_granule))?];
        if slab.copy.is_empty() && self.copied_bytes < MOST_COPIED {
            slab.copy = read(slab.start, (slab.size * slab.buffers) as usize)?;
            self.copied_bytes += slab.copy.len();
        }
        let range = (start - slab.start) as usize..(end - slab.start) as usize;
        slab.copy.get(range).map(<[u8]>::to_vec)
    }

    fn lost(&self) -> HashSet<Large> {
        let all = self.large.iter().zip(&self.large_reached);
        all.filter(|(large, reached)| large.tally != 0 && !**reached)
            .map(|(large, _)| *large)
            .chain(self.slabs.iter().flat_map(Slab::lost))
            .chain(self.lost_of_caches())
            .collect()
    }

    /// Not those of caches whose slabs lie where the heap does not.
    fn lost_of_caches(&self) -> impl Iterator<Item = Large> + '_ {
        self.sampled.iter().filter_map(|(address, tally)| {
            let slab = &self.slabs[*self.slab_of.get(&(address >> self.lg_granule))?];
            let index = address.checked_sub(slab.start)? / slab.size;
            let start = slab.start + index * slab.size;
            let is_lost = slab.is_of_cache && !slab.is_free(index) && !slab.is_reached(index);
            is_lost.then_some(Large {
                start,
                end: start + slab.size,
                tally: *tally,
            })
        })
    }
}

/// Areas in the order of addresses, those without a gap between them as one.
fn joined<'a>(areas: impl Iterator<Item = &'a Area>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for area in areas {
        match ranges.last_mut().filter(|last| last.1 == area.start) {
            Some(last) => last.1 = area.end,
            None => ranges.push((area.start, area.end)),
        }
    }
    ranges
}

/// The parts of a range whose pages are there and are not as is unwanted. It may begin and end amid a page.
fn there(pagemap: &impl FileExt, start: u64, end: u64, unwanted: u64) -> Vec<(u64, u64)> {
    let parts = pages_there(pagemap, start, end, unwanted).into_iter();
    parts.map(|(from, to)| (from.max(start), to.min(end))).collect()
}

fn pages_there(pagemap: &impl FileExt, start: u64, end: u64, unwanted: u64) -> Vec<(u64, u64)> {
    const ENTRIES: u64 = 1 << 14;
    let page_bytes = crate::system::page_bytes();
    let mut parts: Vec<(u64, u64)> = Vec::new();
    let mut at = start / page_bytes * page_bytes;
    while at < end {
        let count = (end - at).div_ceil(page_bytes).min(ENTRIES);
        let mut bytes = vec![0; count as usize * 8];
        if pagemap.read_exact_at(&mut bytes, at / page_bytes * 8).is_err() {
            return parts;
        }
        for (index, entry) in bytes.chunks_exact(8).enumerate() {
            let page = at + index as u64 * page_bytes;
            let entry = u64_in(entry, 0);
            if entry & PRESENT_OR_SWAPPED == 0 || entry & unwanted != 0 {
                continue;
            }
            match parts.last_mut().filter(|last| last.1 == page) {
                Some(last) => last.1 += page_bytes,
                None => parts.push((page, page + page_bytes)),
            }
        }
        at += count * page_bytes;
    }
    parts
}

/// What is left of a range without others, which are in address order.
fn without(others: &[(u64, u64)], start: u64, end: u64) -> Vec<(u64, u64)> {
    let (mut parts, mut at) = (Vec::new(), start);
    for (other_start, other_end) in others.iter().filter(|other| other.1 > start && other.0 < end) {
        if *other_start > at {
            parts.push((at, *other_start));
        }
        at = at.max(*other_end);
    }
    if at < end {
        parts.push((at, end));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_is_reached_once_and_free_ones_never() {
        let slab = Slab {
            start: 32 << 12,
            size: 1024,
            buffers: 4,
            is_of_cache: false,
            free: vec![0b0010],
            reached: vec![0],
            tallies: Vec::new(),
            copy: Vec::new(),
        };
        let large = |number: u64| Large {
            start: number << 12,
            end: (number + 1) << 12,
            tally: number as u32,
        };
        let mut heap = Heap {
            large: vec![large(16), large(18)],
            large_reached: vec![false; 2],
            slabs: vec![slab],
            slab_of: HashMap::from([(32, 0)]),
            rounds: HashSet::from([(32 << 12) + 2048]),
            start: 16 << 12,
            end: 64 << 12,
            lg_granule: 12,
            ..Heap::default()
        };
        let base = 32 << 12;
        assert_eq!(heap.reach(base + 8), Some((base, base + 1024)));
        assert_eq!(
            (heap.reach(base), heap.reach(base + 1024), heap.reach(base + 2050)),
            (None, None, None)
        );
        assert_eq!(heap.reach(base + 4095), Some((base + 3072, base + 4096)));
        assert_eq!(heap.reach((16 << 12) + 5), Some((16 << 12, 17 << 12)));
        assert_eq!(
            (
                heap.reach(16 << 12),
                heap.reach(17 << 12),
                heap.reach(1),
                heap.reach(64 << 12)
            ),
            (None, None, None, None)
        );
        assert_eq!(heap.lost(), HashSet::from([large(18)]));
    }

    #[test]
    fn a_sample_without_a_note_is_no_object() {
        let slab = Slab {
            start: 32 << 12,
            size: 1024,
            buffers: 4,
            is_of_cache: false,
            free: vec![0b0001],
            reached: vec![0],
            tallies: vec![0, 0, 7, u32::MAX],
            copy: Vec::new(),
        };
        let mut heap = Heap {
            slabs: vec![slab],
            slab_of: HashMap::from([(32, 0)]),
            start: 32 << 12,
            end: 33 << 12,
            lg_granule: 12,
            ..Heap::default()
        };
        let base = 32 << 12;
        assert_eq!((heap.reach(base), heap.reach(base + 1024)), (None, None));
        assert_eq!(heap.lost().len(), 1);
        assert_eq!(heap.reach(base + 2050), Some((base + 2048, base + 3072)));
        assert_eq!(heap.reach(base + 3072), Some((base + 3072, base + 4096)));
        assert!(heap.lost().is_empty());
    }

    #[test]
    fn a_range_may_begin_amid_a_page() {
        let page = crate::system::page_bytes();
        let mut pagemap = tempfile::tempfile().unwrap();
        for entry in [1u64 << 63, 1 << 63, 0, 1 << 63, 0] {
            std::io::Write::write_all(&mut pagemap, &entry.to_ne_bytes()).unwrap();
        }
        assert_eq!(
            there(&pagemap, page / 2, 4 * page - 8, 0),
            [(page / 2, 2 * page), (3 * page, 4 * page - 8)]
        );
        assert_eq!(there(&pagemap, page + 8, page + 16, 0), [(page + 8, page + 16)]);
        assert_eq!(there(&pagemap, 2 * page + 8, 3 * page, 0), []);
    }

    #[test]
    fn ranges_without_others() {
        assert_eq!(without(&[(2, 4), (6, 9)], 1, 8), [(1, 2), (4, 6)]);
        assert_eq!(without(&[(0, 10)], 1, 8), []);
        assert_eq!(without(&[], 1, 8), [(1, 8)]);
    }
}
