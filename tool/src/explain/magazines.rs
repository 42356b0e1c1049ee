//! Magazines of another process: which of their slots hold rounds.
//! SPDX-License-Identifier: BSD-2-Clause

use super::memory::{Memory, u16_in, u64_in};
use super::root::{CounterRoot, ProcessorMagazines, Root};
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// A round is an address, an empty slot a small number.
pub const ROUNDS: RangeInclusive<u64> = 1 << 16..=i64::MAX as u64;
/// As many as a page map word tells apart.
const MOST_CLASSES: usize = 256;

/// As many as this machine may ever have; where the kernel does not tell, as many as any has.
pub fn most_processors() -> usize {
    const OF_ANY: usize = 1 << 12;
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = possible.trim().rsplit([',', '-']).next();
    last.and_then(|number| number.parse::<usize>().ok())
        .map_or(OF_ANY, |last| last.saturating_add(1).min(OF_ANY))
}

/// One that a processor has, loaded or previous, and how many rounds are in it.
pub struct Held {
    pub magazine: u64,
    pub rounds: u64,
}

/// Those of one processor.
pub fn held_by(
    memory: &Memory,
    root: &CounterRoot,
    magazines: &ProcessorMagazines,
    first_slot: usize,
    processor: u64,
) -> Option<Vec<Held>> {
    let count = magazines.slots.min(MOST_CLASSES);
    let tops = memory.u64(processor.wrapping_add(magazines.tops as u64))?;
    let tops = memory.u64s(tops, count)?;
    let slots = memory.u64(processor.wrapping_add(root.processor_slots as u64))?;
    let slots = memory.bytes(slots, count.checked_mul(root.slot_bytes)?)?;
    let mut held = Vec::new();
    for (slot, top) in slots.chunks(root.slot_bytes.max(1)).zip(tops) {
        let (loaded, previous) = (u64_in(slot, root.slot_loaded), u64_in(slot, root.slot_previous));
        if loaded != 0 {
            held.push(Held {
                magazine: loaded,
                rounds: top.saturating_sub(loaded.saturating_add(first_slot as u64)) / 8,
            });
        }
        if previous != 0 {
            held.push(Held {
                magazine: previous,
                rounds: memory
                    .u32(previous.wrapping_add(magazines.magazine_rounds as u64))?
                    .into(),
            });
        }
    }
    Some(held)
}

/// All of a process. In those that processors have, what lies beyond the rounds may look like any.
pub struct Magazines {
    held: HashMap<u64, u64>,
    capacity: usize,
    first_slot: usize,
}

impl Magazines {
    pub fn of(memory: &Memory, root: &Root) -> Magazines {
        Magazines {
            held: held_by_processors(memory, root).unwrap_or_default(),
            capacity: root.magazine_capacity,
            first_slot: root.magazine_slots,
        }
    }

    /// The rounds of the magazine that lies at an address, whoever has it.
    pub fn rounds<'a>(&self, address: u64, bytes: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        let capacity = u64::from(u16_in(bytes, self.capacity));
        let count = self.held.get(&address).map_or(capacity, |rounds| capacity.min(*rounds)) as usize;
        let slots = bytes.get(self.first_slot..self.first_slot.saturating_add(count * 8));
        let slots = slots.unwrap_or_default().chunks_exact(8);
        slots.map(|slot| u64_in(slot, 0)).filter(|slot| ROUNDS.contains(slot))
    }
}

fn held_by_processors(memory: &Memory, root: &Root) -> Option<HashMap<u64, u64>> {
    let (counters, magazines) = (root.counters.as_ref()?, root.processor_magazines.as_ref()?);
    let table = memory.u64(counters.processors).filter(|table| *table != 0)?;
    let count = (memory.u32(counters.processors_count)? as usize).min(most_processors());
    let mut all = HashMap::new();
    for processor in memory.u64s(table, count)?.into_iter().filter(|address| *address != 0) {
        let held = held_by(memory, counters, magazines, root.magazine_slots, processor)?;
        all.extend(held.into_iter().map(|held| (held.magazine, held.rounds)));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_processors_than_there_are() {
        let here = std::thread::available_parallelism().unwrap().get();
        assert!((here..=1 << 12).contains(&most_processors()));
    }

    #[test]
    fn what_lies_beyond_the_rounds_of_a_processors_magazine_is_none() {
        let mut bytes = vec![0; 8];
        bytes[..2].copy_from_slice(&3u16.to_le_bytes());
        for slot in [0x10000u64, 0x20000, 7] {
            bytes.extend(slot.to_le_bytes());
        }
        let magazines = Magazines {
            held: HashMap::from([(0x5000, 1)]),
            capacity: 0,
            first_slot: 8,
        };
        assert_eq!(magazines.rounds(0x4000, &bytes).collect::<Vec<_>>(), [0x10000, 0x20000]);
        assert_eq!(magazines.rounds(0x5000, &bytes).collect::<Vec<_>>(), [0x10000]);
        assert_eq!(magazines.rounds(0x4000, &bytes[..20]).count(), 0);
    }
}
