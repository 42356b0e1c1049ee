//! The counters of a process: read from its arenas and fronts in place.
//!
//! Arenas are read whole, one after the other, while the process goes on: sums are of nearly one moment. What threads hold
//! in magazines is counted slot by slot, so it is no estimate in a process that stands still.
//! SPDX-License-Identifier: BSD-2-Clause

use super::Process;
use crate::error::Result;
use crate::explain::magazines::{self, ROUNDS, most_processors};
use crate::explain::memory::{u16_in, u32_in, u64_in};
use crate::explain::root::{CacheRoot, CounterRoot, ProcessorMagazines};
use crate::output::in_line;
use crate::system::page_bytes;
use serde::Serialize;
use std::collections::HashMap;

/// Bytes, unless the name says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Held by the program, rounded up to size classes; objects of object caches aside.
    pub allocated: u64,
    /// In slabs and page runs in use.
    pub active: u64,
    /// In unused pages that are not given back yet.
    pub dirty: u64,
    /// Free objects in magazines of threads, processors and depots.
    pub cached: u64,
    /// The library's own.
    pub metadata: u64,
    /// Address space of the heap.
    pub mapped: u64,
    /// Resident in the whole process, as the kernel says; None of a process that has ended.
    pub process_resident: Option<u64>,
    /// Threads that have magazines.
    pub threads: u32,
    pub arenas: Vec<ArenaCounters>,
    /// Those of which there ever was an object, the smallest first.
    pub classes: Vec<ClassCounters>,
    /// Object caches, in the order of their ids.
    pub caches: Vec<CacheCounters>,
}

/// An object cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CacheCounters {
    pub name: String,
    /// Bytes of an object as the program asked for it, and of its buffer.
    pub object_bytes: u64,
    pub buffer_bytes: u64,
    /// Objects outside slabs and depot: the program's, and those in magazines of threads.
    pub out: u64,
    /// Free objects in the depot's magazines.
    pub cached: u64,
    pub slabs: u64,
    pub slab_bytes: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ArenaCounters {
    pub number: u32,
    pub threads: u32,
    pub allocated: u64,
    pub active: u64,
    pub dirty: u64,
    pub cached: u64,
    pub mapped: u64,
}

/// Of all arenas together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ClassCounters {
    /// Bytes of an object.
    pub size: u64,
    /// Objects that the program holds; free ones in magazines.
    pub live: u64,
    pub cached: u64,
    /// Objects that left slabs or page runs, and came back, ever. Those that only moved between a thread's magazines and
    /// the program are not counted.
    pub handed_out: u64,
    pub taken_back: u64,
    /// Slabs, those that are partly free, and their free buffers; 0 for large classes.
    pub slabs: u64,
    pub partial_slabs: u64,
    pub free_buffers: u64,
    pub slab_bytes: u64,
}

impl ClassCounters {
    /// Of what the program holds; a damaged recording may tell of more than there can be.
    pub fn live_bytes(&self) -> u64 {
        self.live.saturating_mul(self.size)
    }
}

impl Counters {
    /// Bytes of the objects of object caches that are out.
    pub fn out_of_caches(&self) -> u64 {
        let bytes = |cache: &CacheCounters| cache.out.saturating_mul(cache.buffer_bytes);
        self.caches.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// What an object of so many bytes takes; None where there never was one of its class.
    pub fn class_bytes(&self, size: u64) -> Option<u64> {
        let mut sizes = self.classes.iter().map(|class| class.size);
        sizes.find(|class| *class >= size)
    }
}

/// What the process tells may be any number.
fn add_to(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

impl ClassCounters {
    /// Page runs, of which one arena counted those allocated and those freed; returns how many are alive.
    fn add_runs(&mut self, counts: &[u8]) -> u64 {
        let (allocated, freed) = (u64_in(counts, 0), u64_in(counts, 8));
        let live = allocated.saturating_sub(freed);
        add_to(&mut self.live, live);
        add_to(&mut self.handed_out, allocated);
        add_to(&mut self.taken_back, freed);
        live
    }
}

/// Of an arena's count of page runs of a class.
const RUN_COUNT_BYTES: usize = 16;
/// A process has no more than a few fronts a thread: a torn list may seem to go round.
const FRONTS_A_THREAD: u32 = 4;
/// As many as a page map word tells apart.
const MOST_CLASSES: usize = 256;
const MOST_ARENAS: usize = 4096;
const MOST_NAME_BYTES: usize = 256;
const MOST_CACHES: usize = 1 << 16;
const MOST_MAGAZINE_SLOTS: usize = 4096;
/// Slots of all magazines together, and granules that their objects are in: what is made up may lie in a few bytes.
const MOST_ROUNDS: usize = 1 << 27;
const MOST_GRANULES: usize = 1 << 22;

/// Free objects in magazines, by arena's address and class.
struct Rounds {
    counts: HashMap<(u64, usize), u64>,
    /// How many slots may still be looked at.
    left: usize,
}

impl Rounds {
    fn new() -> Rounds {
        Rounds {
            counts: HashMap::new(),
            left: MOST_ROUNDS,
        }
    }

    fn add(&mut self, arena: u64, class: usize, count: u64) {
        *self.counts.entry((arena, class)).or_default() += count;
    }

    fn of(&self, arena: u64, class: usize) -> u64 {
        self.counts.get(&(arena, class)).copied().unwrap_or(0)
    }

    /// So many slots, or as many as may be.
    fn take(&mut self, slots: usize) -> usize {
        let slots = slots.min(MOST_MAGAZINE_SLOTS).min(self.left);
        self.left -= slots;
        slots
    }
}

/// The arenas of what a front holds: of classes below `first_common`, and of others.
struct Home {
    arena: u64,
    common: u64,
    first_common: usize,
}

impl Home {
    fn everywhere(arena: u64) -> Home {
        Home {
            arena,
            common: arena,
            first_common: 0,
        }
    }

    fn of(&self, class: usize) -> u64 {
        if class < self.first_common {
            self.arena
        } else {
            self.common
        }
    }
}

impl Process {
    pub fn counters(&self) -> Result<Counters> {
        let root = self.counter_root()?;
        self.try_counters(root).ok_or_else(|| self.ended())
    }

    fn try_counters(&self, root: &CounterRoot) -> Option<Counters> {
        let mut counters = Counters {
            metadata: self.memory.u64(root.base_mapped)?,
            process_resident: resident(self.pid),
            ..Counters::default()
        };
        let magazine_pages = self.memory.bytes(root.magazine_pages, root.pages_dirty + 8)?;
        add_to(&mut counters.metadata, active_bytes(&magazine_pages, root));
        add_to(&mut counters.dirty, u64_in(&magazine_pages, root.pages_dirty));
        let mut classes: Vec<ClassCounters> = Vec::new();
        let count = (self.memory.u32(root.arenas_end)? as usize).min(MOST_ARENAS);
        let arenas = self.memory.u64s(root.arenas, count)?;
        let rounds = self.rounds(root, &arenas, &mut counters);
        for (number, address) in arenas.into_iter().enumerate() {
            if address == 0 {
                continue;
            }
            let bytes = self.memory.bytes(address, root.arena_bytes)?;
            let arena = self.arena(root, number as u32, address, &bytes, &rounds, &mut classes);
            if bytes.get(root.arena_state) != Some(&0) && arena.active == 0 {
                continue;
            }
            add_to(&mut counters.allocated, arena.allocated);
            add_to(&mut counters.active, arena.active);
            add_to(&mut counters.dirty, arena.dirty);
            add_to(&mut counters.cached, arena.cached);
            add_to(&mut counters.mapped, arena.mapped);
            counters.arenas.push(arena);
        }
        classes.retain(|class| class.size > 0 && (class.handed_out > 0 || class.live > 0));
        counters.classes = classes;
        counters.caches = self.caches(root).unwrap_or_default();
        self.is_there().then_some(counters)
    }

    /// None of a library that does not tell of them.
    fn caches(&self, counters: &CounterRoot) -> Option<Vec<CacheCounters>> {
        let root = self.root.caches.as_ref()?;
        let count = (self.memory.u32(root.end)? as usize).min(MOST_CACHES);
        let table = self.memory.u64s(root.table, count)?.into_iter();
        let caches = table.filter(|address| *address != 0);
        Some(
            caches
                .filter_map(|address| self.cache(root, counters, address))
                .collect(),
        )
    }

    /// By number.
    pub(super) fn cache_names(&self) -> Option<HashMap<u32, String>> {
        let root = self.root.caches.as_ref()?;
        let count = (self.memory.u32(root.end)? as usize).min(MOST_CACHES);
        let table = self.memory.u64s(root.table, count)?.into_iter().zip(0..);
        let caches = table.filter(|(address, _)| *address != 0);
        Some(
            caches
                .map(|(address, number)| (number, self.cache_name(root, address)))
                .collect(),
        )
    }

    fn cache_name(&self, root: &CacheRoot, address: u64) -> String {
        let bytes = root.name_bytes.min(MOST_NAME_BYTES);
        in_line(&self.memory.text(address.wrapping_add(root.name as u64), bytes))
    }

    fn cache(&self, root: &CacheRoot, counters: &CounterRoot, address: u64) -> Option<CacheCounters> {
        let bin = self
            .memory
            .bytes(address.wrapping_add(root.bin as u64), counters.bin_bytes)?;
        let rounds = self
            .memory
            .u64(address.wrapping_add((root.depot + counters.depot_rounds) as u64))?;
        let slabs = u64_in(&bin, counters.bin_slabs);
        let buffers = slabs.saturating_mul(u32_in(&bin, self.root.bin_buffers).into());
        let taken = buffers.saturating_sub(u64_in(&bin, counters.bin_free_buffers));
        let cached = rounds.min(taken);
        Some(CacheCounters {
            name: self.cache_name(root, address),
            object_bytes: self.memory.u64(address.wrapping_add(root.object_bytes as u64))?,
            buffer_bytes: u64_in(&bin, self.root.bin_size),
            out: taken - cached,
            cached,
            slabs,
            slab_bytes: slabs.saturating_mul(u64_in(&bin, self.root.bin_slab_bytes)),
        })
    }

    fn arena(
        &self,
        root: &CounterRoot,
        number: u32,
        address: u64,
        bytes: &[u8],
        rounds: &Rounds,
        classes: &mut Vec<ClassCounters>,
    ) -> ArenaCounters {
        let pages = part(bytes, root.arena_pages);
        let kept = self.root.pages_kept.map_or(0, |at| u64_in(pages, at));
        let mut arena = ArenaCounters {
            number,
            threads: u32_in(bytes, root.arena_threads),
            active: active_bytes(pages, root).saturating_sub(kept),
            dirty: u64_in(pages, root.pages_dirty).saturating_add(kept),
            mapped: u64_in(pages, root.pages_mapped),
            ..ArenaCounters::default()
        };
        let count = (self.root.slab_classes + root.arena_large_count.saturating_sub(1)).min(MOST_CLASSES);
        classes.resize(count.max(classes.len()), ClassCounters::default());
        let mut out_bytes = self.add_slabs(root, part(bytes, root.arena_bins), classes);
        if let Some(bins) = self.samples(root, bytes) {
            add_to(&mut out_bytes, self.add_slabs(root, &bins, classes));
        }
        add_to(&mut out_bytes, self.add_sampled_runs(bytes, classes));
        add_to(&mut out_bytes, self.add_large(root, bytes, classes));
        for (class, sum) in classes.iter_mut().enumerate().take(self.root.classes).skip(1) {
            let depot = part(bytes, root.arena_depots + class * root.depot_bytes);
            let held = rounds
                .of(address, class)
                .saturating_add(u64_in(depot, root.depot_rounds));
            let held = held.min(sum.live);
            sum.live -= held;
            add_to(&mut sum.cached, held);
            add_to(&mut arena.cached, held.saturating_mul(sum.size));
        }
        arena.allocated = out_bytes.saturating_sub(arena.cached);
        arena
    }

    /// The bins of small objects that were sampled; None where none ever was.
    fn samples(&self, root: &CounterRoot, arena: &[u8]) -> Option<Vec<u8>> {
        let samples = self.root.samples.as_ref()?;
        let bins = u64_in(arena, samples.arena_samples);
        let count = samples.classes.min(self.root.slab_classes);
        (bins != 0).then(|| self.memory.bytes(bins, count * root.bin_bytes))?
    }

    /// Bytes of objects outside slabs; `bins`: an arena's, by class.
    fn add_slabs(&self, root: &CounterRoot, bins: &[u8], classes: &mut [ClassCounters]) -> u64 {
        let mut out_bytes = 0;
        let count = self.root.slab_classes.min(bins.len() / root.bin_bytes.max(1));
        for (class, sum) in classes.iter_mut().enumerate().take(count).skip(1) {
            let bin = part(bins, class * root.bin_bytes);
            let (slabs, free) = (u64_in(bin, root.bin_slabs), u64_in(bin, root.bin_free_buffers));
            let buffers = slabs.saturating_mul(u32_in(bin, self.root.bin_buffers).into());
            let out = buffers.saturating_sub(free);
            // A sample's buffer is larger than its object.
            sum.size = match sum.size {
                0 => u64_in(bin, self.root.bin_size),
                size => size,
            };
            add_to(&mut sum.live, out);
            add_to(&mut sum.slabs, slabs);
            add_to(
                &mut sum.slab_bytes,
                slabs.saturating_mul(u64_in(bin, self.root.bin_slab_bytes)),
            );
            add_to(&mut sum.partial_slabs, u64_in(bin, root.bin_partial_slabs));
            add_to(&mut sum.free_buffers, free);
            add_to(&mut sum.handed_out, u64_in(bin, root.bin_filled));
            add_to(&mut sum.taken_back, u64_in(bin, root.bin_drained));
            add_to(&mut out_bytes, out.saturating_mul(sum.size));
        }
        out_bytes
    }

    /// Bytes of objects of slabs' classes that are page runs, each a slab of its own, as the library counts them.
    fn add_sampled_runs(&self, bytes: &[u8], classes: &mut [ClassCounters]) -> u64 {
        let Some(counts) = self.root.arena_sampled_runs else {
            return 0;
        };
        let mut out_bytes = 0;
        for (class, sum) in classes.iter_mut().enumerate().take(self.root.slab_classes).skip(1) {
            let live = sum.add_runs(part(bytes, counts + class * RUN_COUNT_BYTES));
            add_to(&mut sum.slabs, live);
            add_to(
                &mut sum.slab_bytes,
                live.saturating_mul(sum.size.div_ceil(page_bytes()).saturating_mul(page_bytes())),
            );
            add_to(&mut out_bytes, live.saturating_mul(sum.size));
        }
        out_bytes
    }

    fn add_large(&self, root: &CounterRoot, bytes: &[u8], classes: &mut [ClassCounters]) -> u64 {
        let mut out_bytes = 0;
        for (index, sum) in classes.iter_mut().skip(self.root.slab_classes).enumerate() {
            sum.size = large_class_size(self.root.slab_classes + index);
            let live = sum.add_runs(part(bytes, root.arena_large + index * RUN_COUNT_BYTES));
            add_to(&mut out_bytes, live.saturating_mul(sum.size));
        }
        out_bytes
    }

    /// Of all fronts; counts the threads.
    fn rounds(&self, root: &CounterRoot, arenas: &[u64], counters: &mut Counters) -> Rounds {
        let mut rounds = Rounds::new();
        let mut front = self.memory.u64(root.fronts).unwrap_or(0);
        let most = FRONTS_A_THREAD.saturating_mul(threads(self.pid));
        while front != 0 && counters.threads < most {
            counters.threads += 1;
            let home = self.home_of(root, front);
            for magazines in [root.front_loaded, root.front_previous] {
                let magazines = self
                    .memory
                    .u64s(front.wrapping_add(magazines as u64), self.root.classes);
                self.add_rounds(&home, &magazines.unwrap_or_default(), &mut rounds);
            }
            self.add_ahead(&home, front, &mut rounds);
            front = self.memory.u64(front.wrapping_add(root.front_next as u64)).unwrap_or(0);
        }
        self.add_processors(root, arenas, &mut rounds);
        rounds
    }

    fn home_of(&self, root: &CounterRoot, front: u64) -> Home {
        let pointer = |at: usize| self.memory.u64(front.wrapping_add(at as u64)).unwrap_or(0);
        let common = self.root.common.as_ref();
        Home {
            arena: pointer(root.front_arena),
            common: common.map_or(0, |common| pointer(common.front_common)),
            first_common: common.map_or(usize::MAX, |common| common.first),
        }
    }

    /// The one of each class that lies beside the magazines; None of a front that has none.
    fn add_ahead(&self, home: &Home, front: u64, rounds: &mut Rounds) -> Option<()> {
        let objects = self
            .root
            .ahead
            .as_ref()?
            .objects(&self.memory, front, self.root.classes)?;
        for (class, _) in objects.iter().enumerate().filter(|(_, object)| **object != 0) {
            rounds.add(home.of(class), class, 1);
        }
        Some(())
    }

    fn add_processors(&self, root: &CounterRoot, arenas: &[u64], rounds: &mut Rounds) -> Option<()> {
        let table = self.memory.u64(root.processors).filter(|table| *table != 0)?;
        let count = (self.memory.u32(root.processors_count)? as usize).min(most_processors());
        let processors = self.memory.u64s(table, count)?.into_iter();
        let mut owners = Owners::of(self, arenas)?;
        for processor in processors.filter(|address| *address != 0) {
            match &self.root.processor_magazines {
                Some(magazines) => self.add_processor(root, magazines, processor, &mut owners, rounds)?,
                None => self.add_processor_of_one_arena(root, arenas, processor, rounds)?,
            }
        }
        Some(())
    }

    fn add_processor(
        &self,
        root: &CounterRoot,
        processor_magazines: &ProcessorMagazines,
        processor: u64,
        owners: &mut Owners,
        rounds: &mut Rounds,
    ) -> Option<()> {
        let first = self.root.magazine_slots;
        for held in magazines::held_by(&self.memory, root, processor_magazines, first, processor)? {
            owners.count(held.magazine.wrapping_add(first as u64), held.rounds, rounds);
        }
        Some(())
    }

    fn add_processor_of_one_arena(
        &self,
        root: &CounterRoot,
        arenas: &[u64],
        processor: u64,
        rounds: &mut Rounds,
    ) -> Option<()> {
        let number = (self.memory.u64(root.processors_word)? >> 8).checked_sub(1)?;
        let arena = *arenas.get(number as usize)?;
        let slots = self.memory.u64(processor.wrapping_add(root.processor_slots as u64))?;
        let slots = self
            .memory
            .bytes(slots, self.root.classes.checked_mul(root.slot_bytes)?)?;
        for offset in [root.slot_loaded, root.slot_previous] {
            let magazine = |class: usize| u64_in(&slots, class * root.slot_bytes + offset);
            let magazines: Vec<u64> = (0..self.root.classes).map(magazine).collect();
            self.add_rounds(&Home::everywhere(arena), &magazines, rounds);
        }
        Some(())
    }

    /// Magazines by class.
    fn add_rounds(&self, home: &Home, magazines: &[u64], rounds: &mut Rounds) {
        for (class, magazine) in magazines
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, magazine)| **magazine != 0)
        {
            let count = self.rounds_in(*magazine, rounds);
            rounds.add(home.of(class), class, count);
        }
    }

    /// A round is an address, an empty slot a small number; a gap that was left by who took rounds is none, it is negative.
    fn rounds_in(&self, magazine: u64, rounds: &mut Rounds) -> u64 {
        let Some(head) = self.memory.bytes(magazine, self.root.magazine_slots) else {
            return 0;
        };
        let capacity = rounds.take(u16_in(&head, self.root.magazine_capacity).into());
        let slots = self
            .memory
            .u64s(magazine.wrapping_add(self.root.magazine_slots as u64), capacity);
        let slots = slots.unwrap_or_default();
        slots.iter().filter(|slot| ROUNDS.contains(slot)).count() as u64
    }
}

/// Whose an object is, by the page map, of which each word is read once.
struct Owners<'a> {
    process: &'a Process,
    arenas: &'a [u64],
    page_map: u64,
    granules: u64,
    words: HashMap<u64, u16>,
}

impl<'a> Owners<'a> {
    fn of(process: &'a Process, arenas: &'a [u64]) -> Option<Self> {
        Some(Self {
            process,
            arenas,
            page_map: process.memory.u64(process.root.page_map)?,
            granules: process.root.granules(&process.memory)?,
            words: HashMap::new(),
        })
    }

    fn word(&mut self, object: u64) -> u16 {
        let granule = object >> self.process.root.lg_granule;
        let (memory, at) = (
            &self.process.memory,
            self.page_map.wrapping_add(granule.wrapping_mul(2)),
        );
        let is_known = self.words.len() < MOST_GRANULES || self.words.contains_key(&granule);
        if granule >= self.granules || !is_known {
            return 0;
        }
        let read = || memory.bytes(at, 2).map_or(0, |bytes| u16_in(&bytes, 0));
        *self.words.entry(granule).or_insert_with(read)
    }

    fn count(&mut self, first: u64, count: u64, rounds: &mut Rounds) {
        let count = rounds.take(count as usize);
        for object in self.process.memory.u64s(first, count).unwrap_or_default() {
            let word = usize::from(self.word(object));
            let arena = (word >> 8).checked_sub(1).and_then(|number| self.arenas.get(number));
            if let Some(arena) = arena {
                rounds.add(*arena, word & 0xff, 1);
            }
        }
    }
}

fn part(bytes: &[u8], from: usize) -> &[u8] {
    bytes.get(from..).unwrap_or_default()
}

fn active_bytes(pages: &[u8], root: &CounterRoot) -> u64 {
    let free = u64_in(pages, root.pages_free).saturating_add(u64_in(pages, root.pages_free + 8));
    u64_in(pages, root.pages_mapped).saturating_sub(free)
}

fn large_class_size(class: usize) -> u64 {
    let class = class.max(10) as u64 - 10;
    (5 + class % 4).checked_shl(5 + class as u32 / 4).unwrap_or(0)
}

/// As the kernel says; many where it does not.
fn threads(pid: i32) -> u32 {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(u32::MAX, |tasks| tasks.count() as u32)
}

fn resident(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(page_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_classes_are_four_a_doubling() {
        let sizes: Vec<u64> = (37..46).map(large_class_size).collect();
        assert_eq!(
            sizes,
            [16, 20, 24, 28, 32, 40, 48, 56, 64].map(|kibibytes| kibibytes << 10)
        );
    }
}
