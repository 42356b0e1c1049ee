//! What is alive at one moment of a trace, by address, in twenty-two bytes an object.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::trace::Event;
use rustc_hash::FxHashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    pub size: u64,
    /// Nanoseconds since the trace began, or multiples of what its length has more than 2^48 of: to 78 hours they are exact.
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
    objects: FxHashMap<[u16; 4], Entry>,
    sizes_apart: Vec<u64>,
    numbers_apart: FxHashMap<u64, u32>,
    /// What births are counted in.
    unit_ns: u64,
}

/// The code of the size, the birth, the stack: halves of words, for two bytes less than words would take.
type Entry = [u16; 7];
const LG_BIRTHS: u32 = 48;

impl LiveTable {
    pub fn new(duration_ns: u64) -> LiveTable {
        LiveTable {
            objects: FxHashMap::default(),
            sizes_apart: Vec::new(),
            numbers_apart: FxHashMap::default(),
            unit_ns: (duration_ns >> LG_BIRTHS) + 1,
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
        let [born @ .., _] = halves(object.born / self.unit_ns);
        let stack = object.stack & !OF_CACHE | if object.of_cache { OF_CACHE } else { 0 };
        let words = u64::from(self.size_code(object.size)) << 32 | u64::from(stack);
        let ([a, b, c], [d, e, f, g]) = (born, halves(words));
        let entry = [a, b, c, d, e, f, g];
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

    fn decode(&self, [a, b, c, d, e, f, g]: Entry) -> Live {
        let (born, words) = (whole([a, b, c, 0]), whole([d, e, f, g]));
        let (size, stack) = ((words >> 32) as u32, words as u32);
        Live {
            size: if size & APART != 0 {
                self.sizes_apart[(size & !APART) as usize]
            } else {
                u64::from(size) * 8
            },
            born: born * self.unit_ns,
            stack: stack & !OF_CACHE,
            of_cache: stack & OF_CACHE != 0,
        }
    }
}

fn key(address: u64) -> [u16; 4] {
    halves(address)
}

fn halves(word: u64) -> [u16; 4] {
    [0, 16, 32, 48].map(|shift| (word >> shift) as u16)
}

fn whole(halves: [u16; 4]) -> u64 {
    halves.iter().rev().fold(0, |word, half| word << 16 | u64::from(*half))
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
        assert_eq!(size_of::<([u16; 4], Entry)>(), 22);
        assert_eq!(table.remove(24).unwrap().size, 1 << 40);
        assert_eq!((table.remove(24), table.len()), (None, 2));
    }

    #[test]
    fn births_are_exact_for_days() {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let born_in = |hours: u64| {
            let mut table = LiveTable::new(hours * HOUR_NS);
            let object = Live {
                size: 64,
                born: hours * HOUR_NS - 1,
                stack: 9,
                of_cache: false,
            };
            table.insert(16, &object);
            table.remove(16).unwrap().born.abs_diff(object.born)
        };
        assert_eq!((born_in(1), born_in(70)), (0, 0));
        assert!((1..20_000).contains(&born_in(1 << 20)));
    }
}
