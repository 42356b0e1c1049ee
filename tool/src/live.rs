//! What is alive at one moment of a trace, by address, in twenty bytes an object.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::trace::Event;
use rustc_hash::FxHashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    pub size: u64,
    /// Nanoseconds since the trace began; kept as one of 2^32 parts of the trace.
    pub born: u64,
    pub stack: u32,
    pub of_cache: bool,
}

impl Live {
    /// What an event allocates.
    pub fn of(event: &Event, of_cache: bool) -> Live {
        Live {
            size: event.size,
            born: event.time,
            stack: event.stack,
            of_cache,
        }
    }
}

/// Sizes that are no multiple of 8 below 2^34 are kept apart.
const APART: u32 = 1 << 31;
const OF_CACHE: u32 = 1 << 31;

pub struct LiveTable {
    objects: FxHashMap<[u32; 2], [u32; 3]>,
    sizes_apart: Vec<u64>,
    numbers_apart: FxHashMap<u64, u32>,
    part_ns: f64,
}

impl LiveTable {
    pub fn new(duration_ns: u64) -> LiveTable {
        LiveTable {
            objects: FxHashMap::default(),
            sizes_apart: Vec::new(),
            numbers_apart: FxHashMap::default(),
            part_ns: (duration_ns as f64 / f64::from(u32::MAX)).max(1.0),
        }
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// What was at this address before.
    pub fn insert(&mut self, address: u64, object: &Live) -> Option<Live> {
        let born = (object.born as f64 / self.part_ns) as u32;
        let stack = object.stack & !OF_CACHE | if object.of_cache { OF_CACHE } else { 0 };
        let entry = [self.size_code(object.size), born, stack];
        self.objects.insert(key(address), entry).map(|old| self.decode(old))
    }

    pub fn remove(&mut self, address: u64) -> Option<Live> {
        self.objects.remove(&key(address)).map(|old| self.decode(old))
    }

    fn size_code(&mut self, size: u64) -> u32 {
        if size % 8 == 0 && size / 8 < u64::from(APART) {
            return (size / 8) as u32;
        }
        let apart = &mut self.sizes_apart;
        APART
            | *self.numbers_apart.entry(size).or_insert_with(|| {
                apart.push(size);
                apart.len() as u32 - 1
            })
    }

    fn decode(&self, [size, born, stack]: [u32; 3]) -> Live {
        Live {
            size: if size & APART != 0 {
                self.sizes_apart[(size & !APART) as usize]
            } else {
                u64::from(size) * 8
            },
            born: (f64::from(born) * self.part_ns) as u64,
            stack: stack & !OF_CACHE,
            of_cache: stack & OF_CACHE != 0,
        }
    }
}

fn key(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out() {
        let mut table = LiveTable::new(1000);
        for (address, size) in [(16, 64), (1 << 47, 7), (24, 1 << 40)] {
            let object = Live {
                size,
                born: 500,
                stack: 9,
                of_cache: size == 7,
            };
            assert_eq!(table.insert(address, &object), None);
            assert_eq!(table.insert(address, &object), Some(object));
        }
        assert_eq!(table.remove(24).unwrap().size, 1 << 40);
        assert_eq!((table.remove(24), table.len()), (None, 2));
    }
}
