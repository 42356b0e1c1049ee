//! vmag's heap in another process: which row each granule of its chunks belongs to.
//! SPDX-License-Identifier: BSD-2-Clause

mod slabs;

pub use slabs::{Piece, SlabSeen};

use super::areas::{self, Area, Page, Residency};
use super::ledger::{Counted, Row, Sums};
use super::magazines::Magazines;
use super::memory::{Memory, u16_in, u32_in, u64_in};
use super::root::{self, Found, Root};
use crate::error::{Result, ToolError};
use crate::process;
use std::collections::HashMap;

/// What is read of a run at first: its fixed part.
const RUN_BYTES: usize = 64;
/// More than a slab has, however many times as large as its bin says: what is torn might say any.
const MOST_SLAB_BYTES: u64 = 1 << 32;
/// More threads than a system has: what is torn might go round.
const MOST_FRONTS: usize = 1 << 16;
/// As many as may ever be, and more.
const MOST_ARENAS: usize = 4096;

/// How the slabs of a bin are cut.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shape {
    size: u64,
    /// Bytes of an object: less than its buffer where objects were sampled, which have room behind them.
    object: u64,
    slab_bytes: u64,
    buffers: u64,
}

impl Shape {
    /// Of a larger slab of the bin.
    fn times(self, lg_times: u32) -> Shape {
        Shape {
            slab_bytes: self.slab_bytes << lg_times,
            buffers: self.buffers << lg_times,
            ..self
        }
    }
}

struct Slab {
    start: u64,
    shape: Shape,
    bitmap: Vec<u64>,
}

pub struct Heap {
    memory: Memory,
    root: Root,
    /// Variables of the library, as they were at the beginning.
    page_map: u64,
    granules: u64,
    run_tables: u64,
    first_chunk: u64,
    own: Vec<(u64, u64, Row)>,
    magazines: Magazines,
    shapes: HashMap<u64, Shape>,
    /// Free objects in magazines, by class.
    rounds: Vec<u64>,
    /// Bytes of an object and bytes of live ones, by class; class 0 is not kept in magazines.
    sizes: Vec<u64>,
    live: Vec<u64>,
    /// Runs of no class whose last granule is resident.
    large_tails: u64,
    large_end: u64,
    large_class: usize,
    /// The slab of magazines whose rounds were counted last.
    last_magazines: u64,
    pub torn: u64,
}

impl Heap {
    /// None when the heap was not used yet.
    pub fn open(pid: i32, root: Root) -> Option<Heap> {
        let memory = Memory::open(pid).ok().filter(|memory| root.is_in(memory))?;
        let page_map = memory.u64(root.page_map).filter(|address| *address != 0)?;
        let granules = root.granules(&memory)?;
        let mut heap = Heap {
            page_map,
            granules,
            run_tables: memory.u64(root.run_tables)?,
            first_chunk: memory.u64(root.first_chunk)?,
            own: vec![(page_map, page_map.saturating_add(granules * 2), Row::PageMap)],
            magazines: Magazines::of(&memory, &root),
            shapes: HashMap::new(),
            rounds: vec![0; root.classes],
            sizes: vec![0; root.classes],
            live: vec![0; root.classes],
            large_tails: 0,
            large_end: 0,
            large_class: 0,
            last_magazines: 0,
            torn: 0,
            memory,
            root,
        };
        heap.read_mappings();
        for object in heap.ahead() {
            heap.enter_round(object, 1);
        }
        Some(heap)
    }

    /// The heap of a process, and the areas of its memory.
    pub fn of(pid: i32) -> Result<(Heap, Vec<Area>)> {
        let areas = areas::read_maps(pid).map_err(|error| process::cannot_look(pid, &error))?;
        let unused = "it is not on vmag, or was not used yet".to_string();
        let heap = match root::find(pid, &areas) {
            Found::Root(root) => Heap::open(pid, *root).ok_or(unused),
            Found::Nothing => Err(unused),
            Found::Unreadable(why) | Found::Unknown(why) => Err(why),
        };
        let heap = heap.or_else(|why| {
            areas::check_there(pid, &areas)?;
            Err(ToolError::new(
                format!("the heap of process {pid} cannot be read"),
                why,
                "`vmag doctor` tells which allocator the process has",
            ))
        })?;
        Ok((heap, areas))
    }

    /// Does the area lie in the heap?
    pub fn has(&self, area: &Area) -> bool {
        area.start >= self.first_chunk && area.end <= self.granules << self.root.lg_granule
    }

    /// The parts of an area that are the library's own.
    pub fn own_parts(&self, area: &Area) -> Vec<(u64, u64, Row)> {
        let cut = |(start, end, row): &(u64, u64, Row)| (*start.max(&area.start), *end.min(&area.end), *row);
        self.own.iter().map(cut).filter(|(start, end, _)| start < end).collect()
    }

    fn read_mappings(&mut self) {
        let own = self.root.own_mappings(&self.memory).unwrap_or_default();
        self.own
            .extend(own.into_iter().map(|(start, end)| (start, end, Row::Base)));
    }

    /// The rounds of each magazine of a slab of magazines, whoever holds it.
    fn magazines_in(&mut self, run: u64) -> Vec<Vec<u64>> {
        let Some(slab) = self.slab(run) else {
            return Vec::new();
        };
        let Some(bytes) = self.memory.bytes(slab.start, slab.shape.slab_bytes as usize) else {
            return Vec::new();
        };
        let size = slab.shape.size as usize;
        let rounds = |index: u64| {
            let magazine = &bytes[index as usize * size..][..size];
            self.magazines
                .rounds(slab.start + index * slab.shape.size, magazine)
                .collect()
        };
        let used = (0..slab.shape.buffers).filter(|index| !slab.is_free(*index));
        used.map(rounds).collect()
    }

    fn count_rounds(&mut self, run: u64) {
        for rounds in self.magazines_in(run) {
            if let Some(first) = rounds.first() {
                self.enter_round(*first, rounds.len() as u64);
            }
        }
    }

    /// So many free objects of this one's class.
    fn enter_round(&mut self, object: u64, count: u64) {
        if let Some(class) = self.class_of(object) {
            self.rounds[class] = self.rounds[class].saturating_add(count);
        }
    }

    /// The free objects that threads have beside their magazines.
    fn ahead(&self) -> Vec<u64> {
        let (Some(ahead), Some(counters)) = (&self.root.ahead, &self.root.counters) else {
            return Vec::new();
        };
        let (mut objects, mut front) = (Vec::new(), self.memory.u64(counters.fronts).unwrap_or(0));
        for _ in 0..MOST_FRONTS {
            if front == 0 {
                break;
            }
            objects.extend(
                ahead
                    .objects(&self.memory, front, self.root.classes)
                    .unwrap_or_default(),
            );
            front = self.memory.u64(front + counters.front_next as u64).unwrap_or(0);
        }
        objects.retain(|object| *object != 0);
        objects
    }

    /// Of an object of the heap; those of object caches have none.
    fn class_of(&self, object: u64) -> Option<usize> {
        let granule = object >> self.root.lg_granule;
        if granule >= self.granules {
            return None;
        }
        let word = self.memory.bytes(self.page_map + granule * 2, 2)?;
        Some(usize::from(u16_in(&word, 0) & 0xff)).filter(|class| (1..self.root.classes).contains(class))
    }

    fn shape(&mut self, bin: u64) -> Option<Shape> {
        if let Some(shape) = self.shapes.get(&bin) {
            return Some(*shape);
        }
        let end = self
            .root
            .bin_size
            .max(self.root.bin_slab_bytes)
            .max(self.root.bin_buffers)
            + 8;
        let bytes = self.memory.bytes(bin, end)?;
        let size = u64_in(&bytes, self.root.bin_size);
        let shape = Shape {
            size,
            object: self.sampled_bytes(bin).unwrap_or(size).min(size),
            slab_bytes: u64_in(&bytes, self.root.bin_slab_bytes),
            buffers: u32_in(&bytes, self.root.bin_buffers).into(),
        };
        let is_sound = shape.size > 0
            && shape.slab_bytes < MOST_SLAB_BYTES
            && shape.buffers.saturating_mul(shape.size) <= shape.slab_bytes;
        is_sound.then(|| *self.shapes.entry(bin).or_insert(shape))
    }

    /// Bytes of an object in a bin of samples; None of another bin, and in a library that does not tell of them.
    fn sampled_bytes(&self, bin: u64) -> Option<u64> {
        let (root, samples) = (self.root.counters.as_ref()?, self.root.samples.as_ref()?);
        let count = (self.memory.u32(root.arenas_end)? as usize).min(MOST_ARENAS);
        let arenas = self.memory.u64s(root.arenas, count)?;
        let is_in = |start: u64, bytes: usize| start != 0 && bin >= start && bin - start < bytes as u64;
        if arenas.iter().any(|arena| is_in(*arena, root.arena_bytes)) {
            return None;
        }
        // The arena's own bin of the class lies where this one does among the bins of samples.
        let bin_of_class = |arena: u64| {
            let bins = self.memory.u64(arena + samples.arena_samples as u64)?;
            is_in(bins, samples.classes * root.bin_bytes).then(|| arena + root.arena_bins as u64 + (bin - bins))
        };
        let of_class = arenas.into_iter().filter(|arena| *arena != 0).find_map(bin_of_class)?;
        self.memory.u64(of_class + self.root.bin_size as u64)
    }

    /// Every resident granule of an area of the heap under its row.
    pub fn count(&mut self, area: &Area, residency: &Residency, counted: &mut Counted) {
        for (start, end) in self.root.table_pieces(area.start, area.end) {
            let pages = residency.pages(start, end);
            self.count_part(start, end, &pages, residency.page_bytes, counted);
        }
    }

    /// Of what one table of runs covers at most.
    fn count_part(&mut self, start: u64, end: u64, pages: &[Page], page_bytes: u64, counted: &mut Counted) {
        let granule_bytes = 1u64 << self.root.lg_granule;
        let count = ((end - start) / granule_bytes) as usize;
        let (Some(words), runs) = (self.words(start, count), self.runs(start, count)) else {
            self.torn += 1;
            return;
        };
        let (mut slabs, mut owners) = (HashMap::new(), HashMap::from([(0, Row::Dirty)]));
        for index in 0..count {
            let at = start + index as u64 * granule_bytes;
            let page = pages
                .get(((at - start) / page_bytes) as usize)
                .copied()
                .unwrap_or(Page::Absent);
            let (word, run) = (u16_in(&words, index * 2), runs.get(index).copied().unwrap_or(0));
            let class = usize::from(word & 0xff);
            if (word != 0 && (1..self.root.slab_classes).contains(&class))
                || (run != 0 && self.is_of_samples(word, run))
            {
                if page != Page::Absent {
                    let slab = slabs.entry(run).or_insert_with(|| self.slab(run));
                    let (holes, ends) = slab.as_ref().map_or((0, 0), |slab| slab.unused(at, granule_bytes));
                    counted.add(page, Row::Holes, holes);
                    counted.add(page, Row::SlabEnds, ends);
                    let taken = granule_bytes - holes - ends;
                    let live = slab.as_ref().map_or(taken, |slab| slab.objects(taken));
                    counted.add(page, Row::Rounding, taken - live);
                    counted.add(page, Row::Live, live);
                    self.sizes[class] = slab
                        .as_ref()
                        .filter(|_| class != 0)
                        .map_or(self.sizes[class], |slab| slab.shape.size);
                    self.live[class] += live;
                }
                continue;
            }
            if word != 0 && run != 0 {
                self.enter_large(at, run, class);
            }
            if at < self.large_end {
                let is_tail = self.large_class == 0 && at + granule_bytes >= self.large_end;
                self.large_tails += u64::from(is_tail && page != Page::Absent);
                counted.add(page, Row::Live, granule_bytes);
                self.live[self.large_class] += if page == Page::Absent { 0 } else { granule_bytes };
            } else {
                let row = *owners.entry(run).or_insert_with(|| self.owner(run));
                if row == Row::Magazines && page != Page::Absent && self.last_magazines != run {
                    self.last_magazines = run;
                    self.count_rounds(run);
                }
                counted.add(page, row, granule_bytes);
            }
        }
    }

    fn words(&self, start: u64, count: usize) -> Option<Vec<u8>> {
        self.memory
            .bytes(self.page_map + (start >> self.root.lg_granule) * 2, count * 2)
    }

    /// Empty where no run ever was.
    fn runs(&self, start: u64, count: usize) -> Vec<u64> {
        let table = self
            .memory
            .u64(self.run_tables + (start >> self.root.lg_table) * 8)
            .unwrap_or(0);
        let granules_a_table = 1 << (self.root.lg_table - self.root.lg_granule);
        let first = (start >> self.root.lg_granule) % granules_a_table;
        if table == 0 {
            return Vec::new();
        }
        self.memory.u64s(table + first * 8, count).unwrap_or_default()
    }

    /// Of a run without a word: its bin tells whose slab it is.
    fn owner(&mut self, run: u64) -> Row {
        let bin = self.memory.u64(run + self.root.run_bin as u64);
        match bin {
            Some(bin) if self.root.magazine_bins.contains(&bin) => Row::Magazines,
            _ => Row::Caches,
        }
    }

    fn slab(&mut self, run: u64) -> Option<Slab> {
        let slab = self.read_slab(run);
        self.torn += u64::from(slab.is_none());
        slab
    }

    fn read_slab(&mut self, run: u64) -> Option<Slab> {
        let bytes = self.memory.bytes(run, RUN_BYTES)?;
        let shape = self
            .shape(u64_in(&bytes, self.root.run_bin))?
            .times(self.root.slab_lg_times(&bytes));
        if shape.slab_bytes >= MOST_SLAB_BYTES {
            return None;
        }
        let bitmap = self
            .memory
            .u64s(run + self.root.slab_bitmap as u64, shape.buffers.div_ceil(64) as usize)?;
        let start = u64_in(&bytes, self.root.run_start);
        Some(Slab { start, shape, bitmap })
    }

    fn enter_large(&mut self, at: u64, run: u64, class: usize) {
        let Some(bytes) = self.memory.bytes(run, RUN_BYTES) else {
            return;
        };
        let length = u64_in(&bytes, self.root.run_bytes);
        if u64_in(&bytes, self.root.run_start) != at || class >= self.root.classes {
            self.torn += 1;
            return;
        }
        self.large_end = at.saturating_add(length);
        self.large_class = class;
        if class != 0 {
            self.sizes[class] = length;
        }
    }

    /// Of what is in use, the free objects that magazines hold, and an estimate of what the rest was rounded up by: half
    /// a step between classes for each object, half a page for each large one whose last page is there.
    pub fn divide_live(&self, sums: &mut Sums) {
        // Of classes that the process has no object of, too, if those that it has are as they should be.
        let by_rule: Vec<u64> = (0..self.root.classes).map(class_size).collect();
        let is_rule = (1..self.root.classes).all(|class| [0, by_rule[class]].contains(&self.sizes[class]));
        let sizes = if is_rule { &by_rule } else { &self.sizes };
        let whole: u64 = self.live.iter().sum();
        let (mut cached, mut rounding) = (0, self.large_tails * (1 << self.root.lg_granule) / 2);
        for class in 1..self.root.classes {
            let of_magazines = (self.rounds[class].saturating_mul(sizes[class])).min(self.live[class]);
            let smaller = sizes[class - 1];
            cached += of_magazines;
            if class > 1 && smaller > 0 && sizes[class] > smaller {
                let step = sizes[class] - smaller;
                rounding += (self.live[class] - of_magazines) / sizes[class] * (step / 2);
            }
        }
        // The sums may hold a part only: what is shared with other processes.
        let part =
            |bytes: u64| (u128::from(bytes) * u128::from(sums.of(Row::Live)) / u128::from(whole.max(1))) as u64;
        let (cached, rounding) = (part(cached), part(rounding));
        sums.shift(Row::Live, Row::Cached, cached);
        sums.shift(Row::Live, Row::Rounding, rounding);
    }
}

/// 8, 16 to 128 by 16, and four for each doubling above.
fn class_size(class: usize) -> u64 {
    match class as u64 {
        0 => 0,
        1 => 8,
        class @ 2..10 => (class - 1) * 16,
        class => {
            let (doubling, step) = ((class - 10) / 4, (class - 10) % 4 + 1);
            // More than a class table can have.
            32u64.checked_shl(doubling as u32).unwrap_or(0).saturating_mul(4 + step)
        }
    }
}

impl Slab {
    fn is_free(&self, index: u64) -> bool {
        self.bitmap[(index / 64) as usize] >> (index % 64) & 1 == 1
    }

    /// Of the bytes of buffers, those of objects.
    fn objects(&self, bytes: u64) -> u64 {
        bytes * self.shape.object / self.shape.size
    }

    /// Bytes of free buffers, and behind the last buffer, in the granule at an address.
    fn unused(&self, at: u64, granule_bytes: u64) -> (u64, u64) {
        let Some(from) = at.checked_sub(self.start).filter(|from| *from < self.shape.slab_bytes) else {
            return (0, 0);
        };
        let (to, size) = (from + granule_bytes, self.shape.size);
        let ends = to - (self.shape.buffers * size).clamp(from, to);
        let buffers = (from / size)..self.shape.buffers.min(to.div_ceil(size));
        let overlap = |index: u64| ((index + 1) * size).min(to) - (index * size).max(from);
        (buffers.filter(|index| self.is_free(*index)).map(overlap).sum(), ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_cross_a_granule_count_in_both() {
        let shape = Shape {
            size: 3000,
            object: 3000,
            slab_bytes: 16384,
            buffers: 5,
        };
        let slab = Slab {
            start: 0x10000,
            shape,
            bitmap: vec![0b00110],
        };
        let all: Vec<_> = (0..4)
            .map(|granule| slab.unused(0x10000 + granule * 4096, 4096))
            .collect();
        assert_eq!(all, [(1096, 0), (4096, 0), (808, 0), (0, 1384)]);
        assert_eq!(slab.unused(0xf000, 4096), (0, 0));
        assert_eq!(slab.unused(0x14000, 4096), (0, 0));
    }

    #[test]
    fn what_lies_behind_a_sample_is_no_object() {
        let shape = Shape {
            size: 2048,
            object: 1024,
            slab_bytes: 4096,
            buffers: 2,
        };
        let slab = Slab {
            start: 0x10000,
            shape,
            bitmap: vec![0b10],
        };
        assert_eq!(slab.unused(0x10000, 4096), (2048, 0));
        assert_eq!(slab.objects(2048), 1024);
    }

    #[test]
    fn a_slab_twice_as_large_ends_with_the_rest_of_two() {
        let shape = Shape {
            size: 3000,
            object: 3000,
            slab_bytes: 16384,
            buffers: 5,
        };
        let slab = Slab {
            start: 0x10000,
            shape: shape.times(1),
            bitmap: vec![1 << 9],
        };
        assert_eq!(slab.unused(0x16000, 4096), (0x7000 - 0x6000 - (27000 - 0x6000), 0));
        assert_eq!(slab.unused(0x17000, 4096), (30000 - 0x7000, 0x8000 - 30000));
    }
}
