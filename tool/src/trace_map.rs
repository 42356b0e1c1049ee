//! The picture of address by time (2006, Figure 9), drawn while a trace is read the second time.
//!
//! Addresses that nothing ever used are left out of it.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::live::{Live, LiveTable};
use crate::trace::{Event, Kind, Trace};
use crate::trace_view::{COLUMNS, column_of};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

pub const ROWS: usize = 400;
const LG_BLOCK: u32 = 12;
/// In a chunk.
const BLOCKS: usize = 512;
const NO_ROW: u16 = u16::MAX;
/// The number that stands for all sites that are not among the chief ones, and for those that are not known.
pub const OTHER_SITES: u8 = 254;
/// Sites that are told of a cell.
pub const SITES_A_CELL: usize = 3;

/// The last stands for all others.
pub type BytesBySite = [u64; OTHER_SITES as usize + 1];
pub const NO_SITES: BytesBySite = [0; OTHER_SITES as usize + 1];

/// A picture: a value from 0 to 255 for each row and column, the lowest addresses in row 0.
#[derive(Debug, Default)]
pub struct Map {
    pub rows: usize,
    pub columns: usize,
    pub row_bytes: u64,
    /// The first address of each row, and where a row does not follow the one before.
    pub row_address: Vec<u64>,
    pub gap_before: Vec<bool>,
    /// How full, 0 to 255.
    pub occupancy: Vec<u8>,
    /// Mean age of what is there, by the logarithm of nanoseconds; 0: nothing is.
    pub age: Vec<u8>,
    /// Which size holds most: 1 + its logarithm; 0: nothing is.
    pub class: Vec<u8>,
    /// The sites that hold most, 1 + number, and their share of what is there, of 255. Empty without stacks.
    pub sites: [Vec<u8>; SITES_A_CELL],
    pub shares: [Vec<u8>; SITES_A_CELL],
}

impl Map {
    /// An empty picture of these blocks of 2^`lg_block` bytes, in ascending order: how full and of which size.
    pub fn of_blocks(blocks: &[u64], lg_block: u32, columns: usize) -> Map {
        let blocks_a_row = blocks.len().div_ceil(ROWS).max(1);
        let starts: Vec<usize> = (0..blocks.len()).step_by(blocks_a_row).collect();
        let follows = |start: &usize| *start == 0 || blocks[*start] == blocks[start - 1] + 1;
        Map {
            rows: starts.len(),
            columns,
            row_bytes: (blocks_a_row as u64) << lg_block,
            row_address: starts.iter().map(|start| blocks[*start] << lg_block).collect(),
            gap_before: starts.iter().map(|start| !follows(start)).collect(),
            occupancy: vec![0; starts.len() * columns],
            class: vec![0; starts.len() * columns],
            ..Map::default()
        }
    }

    /// Planes for ages, and for call sites if they are known.
    pub fn add_planes(&mut self, has_sites: bool) {
        let plane = || vec![0; self.rows * self.columns];
        self.age = plane();
        if has_sites {
            self.sites = std::array::from_fn(|_| plane());
            self.shares = std::array::from_fn(|_| plane());
        }
    }

    pub fn set_sites(&mut self, cell: usize, bytes_by_site: &BytesBySite, live: u64) {
        for (place, (site, bytes)) in chief(bytes_by_site).into_iter().enumerate() {
            self.sites[place][cell] = if bytes > 0 { 1 + site as u8 } else { 0 };
            self.shares[place][cell] = (255 * bytes / live.max(1)).min(255) as u8;
        }
    }
}

/// The blocks that something ever lay in, pages at first. When they become too many they are taken together by twos: a program may ask for
/// all the addresses there are, and a row of the picture is larger.
pub struct Blocks {
    pub lg_block: u32,
    chunks: FxHashMap<u64, [u64; BLOCKS / 64]>,
    count: u64,
    /// The first and last of ranges that are longer than a chunk: what comes again need not be marked again. They do not overlap.
    long: BTreeMap<u64, u64>,
}

const BLOCKS_MOST: u64 = 1 << 20;

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks {
            lg_block: LG_BLOCK,
            chunks: FxHashMap::default(),
            count: 0,
            long: BTreeMap::new(),
        }
    }
}

impl Blocks {
    pub fn add(&mut self, address: u64, size: u64) {
        while size >> self.lg_block > BLOCKS_MOST {
            self.coarsen();
        }
        let last = address.saturating_add(size.max(1) - 1);
        let (first, last) = (address >> self.lg_block, last >> self.lg_block);
        if !self.is_marked(first, last) {
            self.mark(first, last);
        }
        while self.count > BLOCKS_MOST {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        let fine = self.all();
        self.lg_block += 1;
        self.chunks.clear();
        self.long.clear();
        self.count = 0;
        fine.into_iter().for_each(|block| self.mark(block / 2, block / 2));
    }

    fn is_marked(&self, first: u64, last: u64) -> bool {
        let before = self.long.range(..=first).next_back();
        before.is_some_and(|(_, end)| last <= *end)
    }

    fn remember(&mut self, mut first: u64, mut last: u64) {
        while let Some((&start, &end)) = self.long.range(..=last).next_back().filter(|(_, end)| first <= **end) {
            self.long.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.long.insert(first, last);
    }

    fn mark(&mut self, first: u64, last: u64) {
        if last - first >= BLOCKS as u64 {
            self.remember(first, last);
        }
        let mut block = first;
        while block <= last {
            let end = last.min(block | (BLOCKS as u64 - 1));
            let bits = self.chunks.entry(block / BLOCKS as u64).or_default();
            let (first, behind) = (block as usize % BLOCKS, end as usize % BLOCKS + 1);
            for (index, word) in bits.iter_mut().enumerate() {
                let new = ones_below(behind, index) & !ones_below(first, index) & !*word;
                self.count += u64::from(new.count_ones());
                *word |= new;
            }
            block = end + 1;
        }
    }

    /// Their numbers, ascending.
    pub fn all(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for (chunk, bits) in &self.chunks {
            all.extend(
                (0..BLOCKS)
                    .filter(|bit| bits[bit / 64] >> (bit % 64) & 1 != 0)
                    .map(|bit| chunk * BLOCKS as u64 + bit as u64),
            );
        }
        all.sort_unstable();
        all
    }
}

/// Of one of the words of a chunk, the bits that lie before a place in the chunk.
fn ones_below(place: usize, word: usize) -> u64 {
    match place.saturating_sub(word * 64) {
        bits @ 0..64 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

#[derive(Clone)]
struct Row {
    live: u64,
    /// Sum of bytes · time of birth.
    births: f64,
    by_size: [u64; 65],
    by_site: BytesBySite,
}

impl Row {
    const EMPTY: Row = Row {
        live: 0,
        births: 0.0,
        by_size: [0; 65],
        by_site: NO_SITES,
    };
}

pub struct Drawing {
    duration: u64,
    lg_block: u32,
    rows: Vec<Row>,
    /// Behind the last block of each.
    row_end: Vec<u64>,
    row_of_block: FxHashMap<u64, Box<[u16; BLOCKS]>>,
    live: LiveTable,
    site_of_stack: FxHashMap<u32, u8>,
    live_bytes: u64,
    /// What was the most in the first pass, until it is reached again.
    peak_bytes: Option<u64>,
    bytes_of_stack: FxHashMap<u32, u64>,
    at_peak: FxHashMap<u32, u64>,
    column: usize,
    map: Map,
}

impl Drawing {
    pub fn new(trace: &Trace, blocks: Blocks, site_of_stack: FxHashMap<u32, u8>, peak_bytes: u64) -> Drawing {
        let lg_block = blocks.lg_block;
        let blocks = blocks.all();
        let mut map = Map::of_blocks(&blocks, lg_block, COLUMNS);
        let blocks_a_row = (map.row_bytes >> lg_block) as usize;
        let end_of = |row: &[u64]| row.last().map_or(0, |last| (last + 1) << lg_block);
        let mut row_of_block: FxHashMap<u64, Box<[u16; BLOCKS]>> = FxHashMap::default();
        for (index, block) in blocks.iter().enumerate() {
            let chunk = row_of_block
                .entry(block / BLOCKS as u64)
                .or_insert_with(|| Box::new([NO_ROW; BLOCKS]));
            chunk[*block as usize % BLOCKS] = (index / blocks_a_row) as u16;
        }
        map.add_planes(!site_of_stack.is_empty());
        Drawing {
            duration: trace.duration_ns,
            lg_block,
            rows: vec![Row::EMPTY; map.rows],
            row_end: blocks.chunks(blocks_a_row).map(end_of).collect(),
            row_of_block,
            live: LiveTable::new(trace.duration_ns),
            site_of_stack,
            live_bytes: 0,
            peak_bytes: (peak_bytes > 0).then_some(peak_bytes),
            bytes_of_stack: FxHashMap::default(),
            at_peak: FxHashMap::default(),
            column: 0,
            map,
        }
    }

    pub fn take(&mut self, event: &Event) {
        let column = column_of(event.time, self.duration);
        while self.column < column {
            self.draw();
        }
        match event.kind {
            Kind::Alloc | Kind::Resize => self.put(event, false),
            Kind::CacheAlloc if event.is_heap => self.put(event, true),
            Kind::Free => self.take_out(event),
            Kind::CacheFree if event.is_heap => self.take_out(event),
            _ => {}
        }
        if self.peak_bytes == Some(self.live_bytes) {
            self.at_peak = self.bytes_of_stack.clone();
            self.peak_bytes = None;
        }
    }

    fn take_out(&mut self, event: &Event) {
        if let Some(old) = self.live.remove(event.address) {
            self.change(event.address, &old, false);
        }
    }

    fn put(&mut self, event: &Event, of_cache: bool) {
        let mut object = Live::of(event, of_cache);
        // What is resized where it lies is as old as it was.
        if event.kind == Kind::Resize
            && let Some(old) = self.live.remove(event.address)
        {
            object.born = old.born;
            self.change(event.address, &old, false);
        }
        if let Some(old) = self.live.insert(event.address, &object) {
            self.change(event.address, &old, false);
        }
        self.change(event.address, &object, true);
    }

    /// Adds an object to the rows that it lies in, or takes it out.
    fn change(&mut self, address: u64, object: &Live, more: bool) {
        let change = |value: &mut u64, bytes: u64| {
            *value = if more {
                *value + bytes
            } else {
                *value - bytes.min(*value)
            }
        };
        change(&mut self.live_bytes, object.size);
        let mut site = usize::from(OTHER_SITES);
        if object.stack != 0 {
            change(self.bytes_of_stack.entry(object.stack).or_default(), object.size);
            site = usize::from(*self.site_of_stack.get(&object.stack).unwrap_or(&OTHER_SITES));
        }
        let lg = object.size.max(1).ilog2() as usize;
        let (mut at, end) = (address, address + object.size);
        while at < end {
            let Some(row) = self.row_of(at >> self.lg_block) else {
                return;
            };
            let until = end.min(self.row_end[row]);
            let row = &mut self.rows[row];
            let bytes = until - at;
            let births = object.born as f64 * bytes as f64;
            change(&mut row.live, bytes);
            change(&mut row.by_size[lg], bytes);
            change(&mut row.by_site[site], bytes);
            row.births += if more { births } else { -births };
            at = until;
        }
    }

    /// None: not drawn.
    fn row_of(&self, block: u64) -> Option<usize> {
        let row = self.row_of_block.get(&(block / BLOCKS as u64))?[block as usize % BLOCKS];
        (row != NO_ROW).then_some(usize::from(row))
    }

    fn draw(&mut self) {
        let now = (self.column as f64 + 1.0) * self.duration as f64 / COLUMNS as f64;
        for (index, row) in self.rows.iter().enumerate().filter(|(_, row)| row.live > 0) {
            let cell = index * COLUMNS + self.column;
            let share = row.live as f64 / self.map.row_bytes as f64;
            self.map.occupancy[cell] = (share * 255.0).ceil().min(255.0) as u8;
            self.map.age[cell] = age_code(now - row.births / row.live as f64);
            self.map.class[cell] = class_code(&row.by_size);
            if !self.map.sites[0].is_empty() {
                self.map.set_sites(cell, &row.by_site, row.live);
            }
        }
        self.column += 1;
    }

    /// The picture, and what each stack held when most was alive.
    pub fn finish(mut self) -> (Map, FxHashMap<u32, u64>) {
        while self.column < COLUMNS {
            self.draw();
        }
        (self.map, self.at_peak)
    }
}

/// By the logarithm of nanoseconds.
pub fn age_code(age_ns: f64) -> u8 {
    1 + (age_ns.max(1.0).log2() * 5.0).clamp(0.0, 254.0) as u8
}

/// The logarithm of the size that most bytes have.
pub fn class_code(bytes_by_lg: &[u64; 65]) -> u8 {
    1 + (0..65).max_by_key(|lg| bytes_by_lg[*lg]).unwrap_or(0) as u8
}

/// The largest values and their places.
fn chief(values: &[u64]) -> [(usize, u64); SITES_A_CELL] {
    let mut best = [(0, 0); SITES_A_CELL];
    for (place, value) in values.iter().enumerate() {
        let mut new = (place, *value);
        for old in &mut best {
            if new.1 > old.1 {
                std::mem::swap(&mut new, old);
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first() {
        assert_eq!(chief(&[1, 9, 0, 4, 7]), [(1, 9), (4, 7), (3, 4)]);
        assert_eq!(chief(&[0, 2])[1], (0, 0));
    }

    #[test]
    fn blocks_are_those_of_all_bytes() {
        let mut blocks = Blocks::default();
        for (address, size) in [(0x1fff, 2), (0x40_0000 - 1, 0x20_0002), (0x1000, 0), (0x1ffe, 1)] {
            blocks.add(address, size);
        }
        let expected: Vec<u64> = (1..=2).chain(0x3ff..=0x600).collect();
        assert_eq!((blocks.all(), blocks.count), (expected, 2 + 0x202));
    }

    #[test]
    fn what_was_marked_is_not_marked_again() {
        let mut blocks = Blocks::default();
        for (first, count) in [(0, 600), (2000, 600), (500, 600), (100, 700), (4000, 512)] {
            blocks.add(first << LG_BLOCK, count << LG_BLOCK);
        }
        assert_eq!(blocks.long, BTreeMap::from([(0, 1099), (2000, 2599)]));
        assert_eq!(blocks.count, 1100 + 600 + 512);
        let begun = std::time::Instant::now();
        for _ in 0..100_000 {
            blocks.add(1 << 40, 4 << 30);
        }
        assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    }

    #[test]
    fn the_more_there_is_the_coarser_it_is_drawn() {
        let mut blocks = Blocks::default();
        blocks.add(0x1000, BLOCKS_MOST << LG_BLOCK);
        assert_eq!((blocks.lg_block, blocks.count), (LG_BLOCK, BLOCKS_MOST));
        blocks.add(1 << 40, 1);
        let count = BLOCKS_MOST / 2 + 2;
        assert_eq!((blocks.lg_block, blocks.count), (LG_BLOCK + 1, count));
        assert_eq!(blocks.all().last(), Some(&(1 << (40 - blocks.lg_block))));
        blocks.add(0x1000, 1 << 56);
        assert!(blocks.count <= BLOCKS_MOST && blocks.all().len() as u64 == blocks.count);
    }
}
