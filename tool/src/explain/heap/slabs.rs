//! Every slab of a heap with what lives in it: for who asks which slabs are nearly empty.
//! SPDX-License-Identifier: BSD-2-Clause

use super::{Heap, RUN_BYTES, Slab};
use crate::explain::Row;
use crate::explain::areas::{Area, Page, Residency};
use crate::explain::memory::{u16_in, u32_in, u64_in};
use std::collections::HashSet;

/// A slab of malloc's at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SlabSeen {
    pub start: u64,
    pub arena: u32,
    /// Bytes of an object.
    pub size: u64,
    pub bytes: u64,
    pub buffers: u64,
    /// Objects that the program holds.
    pub live: u64,
    /// Free ones that magazines hold: their buffers are not free in the slab.
    pub cached: u64,
    pub resident: u64,
}

/// A run with the word of its first granule.
struct Found {
    run: u64,
    word: u16,
}

/// A slab or a large object at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    pub start: u64,
    pub bytes: u64,
    /// In buffers that are taken, by the program or by magazines.
    pub live: u64,
    /// Bytes of an object.
    pub size: u64,
    /// The number of the tally of an object that was sampled, which is a piece of its own; 0: it was not, or is a slab.
    pub tally: u32,
}

impl Heap {
    /// What malloc has in use, in the order of addresses.
    pub fn pieces(&mut self, areas: &[Area]) -> Vec<Piece> {
        let heap_areas: Vec<&Area> = areas.iter().filter(|area| self.has(area)).collect();
        let found: Vec<Found> = heap_areas.iter().flat_map(|area| self.runs_of(area)).collect();
        let used = found.iter().filter(|found| found.word != 0);
        used.flat_map(|found| match self.is_slab_word(found.word) {
            true => self.piece_of_slab(found.run).into_iter().collect(),
            false if self.is_of_samples(found.word, found.run) => self.samples(found.run),
            false => self.piece_of_run(found).into_iter().collect::<Vec<Piece>>(),
        })
        .collect()
    }

    /// Slabs of object caches, whose objects are not malloc's.
    pub fn cache_slab_bytes(&mut self, areas: &[Area]) -> u64 {
        let heap_areas: Vec<&Area> = areas.iter().filter(|area| self.has(area)).collect();
        let found: Vec<Found> = heap_areas.iter().flat_map(|area| self.runs_of(area)).collect();
        let is_slab = |heap: &Heap, run: u64| {
            heap.memory
                .u64(run + heap.root.run_bin as u64)
                .is_some_and(|bin| bin != 0)
        };
        let bytes = |found: Found| match self.owner(found.run) == Row::Caches && is_slab(self, found.run) {
            true => self.slab(found.run).map_or(0, |slab| slab.shape.slab_bytes),
            false => 0,
        };
        found.into_iter().filter(|found| found.word == 0).map(bytes).sum()
    }

    /// A slab whose word names no class: it has small objects that were sampled.
    pub(super) fn is_of_samples(&self, word: u16, run: u64) -> bool {
        let bin = || self.memory.u64(run + self.root.run_bin as u64).unwrap_or(0);
        word != 0 && word & 0xff == 0 && bin() != 0
    }

    /// The objects in a slab of samples: behind its bitmap stand the numbers of their tallies.
    fn samples(&mut self, run: u64) -> Vec<Piece> {
        let Some(slab) = self.slab(run) else {
            return Vec::new();
        };
        let at = run + self.root.slab_bitmap as u64 + slab.shape.buffers.div_ceil(64) * 8;
        let notes = self
            .memory
            .bytes(at, slab.shape.buffers as usize * 4)
            .unwrap_or_default();
        let notes = notes.chunks_exact(4).map(|note| u32_in(note, 0));
        let live = (0u64..).zip(notes).filter(|(_, note)| *note != 0);
        live.map(|(index, note)| Piece {
            start: slab.start + index * slab.shape.size,
            bytes: slab.shape.size,
            live: slab.shape.object,
            size: slab.shape.object,
            tally: if note == u32::MAX { 0 } else { note },
        })
        .collect()
    }

    fn piece_of_slab(&mut self, run: u64) -> Option<Piece> {
        let slab = self.slab(run)?;
        let taken = (0..slab.shape.buffers).filter(|index| !slab.is_free(*index)).count() as u64;
        Some(Piece {
            start: slab.start,
            bytes: slab.shape.slab_bytes,
            live: taken * slab.shape.size,
            size: slab.shape.size,
            tally: 0,
        })
    }

    fn piece_of_run(&self, found: &Found) -> Option<Piece> {
        let bytes = self.memory.bytes(found.run, RUN_BYTES)?;
        let (start, length) = (u64_in(&bytes, self.root.run_start), u64_in(&bytes, self.root.run_bytes));
        let is_sound = length > 0 && length < 1 << 46 && start >= self.first_chunk;
        // Class 0: a run that is never kept in magazines, as all sampled objects are.
        let sampled = self.root.profile.as_ref().filter(|_| found.word & 0xff == 0);
        is_sound.then_some(Piece {
            start,
            bytes: length,
            live: length,
            size: length,
            tally: sampled.map_or(0, |root| u32_in(&bytes, root.run_sample)),
        })
    }

    pub fn slabs(&mut self, areas: &[Area], residency: &Residency) -> Vec<SlabSeen> {
        let heap_areas: Vec<&Area> = areas.iter().filter(|area| self.has(area)).collect();
        let found: Vec<Found> = heap_areas.iter().flat_map(|area| self.runs_of(area)).collect();
        let mut rounds: HashSet<u64> = self.ahead().into_iter().collect();
        for magazines in found.iter().filter(|found| found.word == 0) {
            if self.owner(magazines.run) == Row::Magazines {
                rounds.extend(self.magazines_in(magazines.run).into_iter().flatten());
            }
        }
        let slabs = found.iter().filter(|found| self.is_slab_word(found.word));
        let slabs: Vec<(u32, u64)> = slabs.map(|found| (u32::from(found.word >> 8), found.run)).collect();
        slabs
            .into_iter()
            .filter_map(|(owner, run)| {
                let slab = self.slab(run)?;
                Some(seen(&slab, owner.checked_sub(1)?, &rounds, residency))
            })
            .collect()
    }

    fn is_slab_word(&self, word: u16) -> bool {
        word != 0 && (1..self.root.slab_classes).contains(&usize::from(word & 0xff))
    }

    /// Each run once, in the order of addresses.
    fn runs_of(&self, area: &Area) -> Vec<Found> {
        let (mut all, mut last) = (Vec::new(), 0);
        for (start, end) in self.root.table_pieces(area.start, area.end) {
            let count = ((end - start) >> self.root.lg_granule) as usize;
            let pairs = self.words(start, count).unwrap_or_default();
            for (index, run) in self.runs(start, count).into_iter().enumerate() {
                if run != 0 && run != last {
                    let word = u16_in(&pairs, index * 2);
                    all.push(Found { run, word });
                    last = run;
                }
            }
        }
        all
    }
}

fn seen(slab: &Slab, arena: u32, rounds: &HashSet<u64>, residency: &Residency) -> SlabSeen {
    let shape = slab.shape;
    let taken = (0..shape.buffers).filter(|index| !slab.is_free(*index));
    let (cached, live) = taken.fold((0, 0), |(cached, live), index| {
        match rounds.contains(&slab.start.wrapping_add(index * shape.size)) {
            true => (cached + 1, live),
            false => (cached, live + 1),
        }
    });
    let pages = residency.pages(slab.start, slab.start.saturating_add(shape.slab_bytes));
    let resident = pages.iter().filter(|page| **page != Page::Absent).count() as u64;
    SlabSeen {
        start: slab.start,
        arena,
        size: shape.size,
        bytes: shape.slab_bytes,
        buffers: shape.buffers,
        live,
        cached,
        resident: resident * residency.page_bytes,
    }
}
