//! A black box: what a process kept of itself in a file while it ran (include/vmag/format.h, struct vmag_box).
//!
//! The process may be dead, or write into the file at this moment: tallies are taken as they are, texts and counters from the
//! copy that is not being written. Whatever does not fit is left out.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::{ClassCounters, Counters};
use crate::error::{Result, ToolError};
use crate::explain::memory::{u16_in, u32_in, u64_in};
use crate::output::in_line;
use crate::profile::{Estimate, MOST_DEPTH, Profile, Sample, arena_or_cache, mappings, possible_count};
use crate::source::{self, spoken, what_else_it_is};
use std::collections::HashMap;
use std::path::Path;

const MAGIC: &[u8] = b"vmag_box";
const VERSION: u32 = 1;
const CLASS_BYTES: usize = 9 * 8;
const CLASSES: usize = 240;
const COUNTERS_BYTES: usize = 9 * 8 + 8 + CLASSES * CLASS_BYTES;
const TALLY_BYTES: usize = 40;
/// Each is a text of its own, however short: a table of a gigabyte may hold as many.
const NAMES_MOST: usize = 1 << 20;

pub struct BlackBox {
    pub pid: i32,
    pub program: String,
    pub library_version: String,
    /// Seconds since 1970: of its making, and of the counters.
    pub begun: u64,
    pub time: u64,
    pub profile_active: bool,
    pub sample_bytes: u64,
    /// Tallies for which there was no room.
    pub no_room: u64,
    pub peak_resident: u64,
    pub counters: Counters,
    pub profile: Profile,
}

const CUT: &str = "it is cut short or damaged at its beginning: it is shorter than it says";

/// Whether bytes begin like a black box.
pub fn is_black_box(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

impl BlackBox {
    pub fn read(path: &Path) -> Result<BlackBox> {
        let bytes = source::read(path, is_black_box).map_err(|error| cannot_read(path, error.to_string()))?;
        BlackBox::of(path, &bytes)
    }

    /// Of a file that was read.
    pub fn of(path: &Path, bytes: &[u8]) -> Result<BlackBox> {
        BlackBox::parse(bytes).map_err(|why| cannot_read(path, what_else_it_is(path, "attach").unwrap_or(why)))
    }

    pub fn parse(bytes: &[u8]) -> std::result::Result<BlackBox, String> {
        if !is_black_box(bytes) {
            return Err("it does not begin like one; its process may have been killed while it made it".to_string());
        }
        if bytes.len() < HEAD_COUNTERS {
            return Err(CUT.to_string());
        }
        match u32_in(bytes, 8) {
            VERSION => {}
            version => return Err(format!("its format is version {version}, this command knows {VERSION}")),
        }
        if u64_in(bytes, 16) == 0 {
            return Err("it was not written beyond its beginning, as after a crash of the machine".to_string());
        }
        let head = Head::parse(bytes).ok_or(CUT)?;
        let counters = head.counters(bytes);
        let profile = head.profile(bytes, counters.0);
        Ok(BlackBox {
            pid: u32_in(bytes, 32) as i32,
            program: text(&bytes[56..120]),
            library_version: text(&bytes[40..56]),
            begun: u64_in(bytes, 24),
            time: counters.0,
            profile_active: head.profile_active,
            sample_bytes: 1u64.checked_shl(head.lg_sample).unwrap_or(0),
            no_room: head.no_room,
            peak_resident: counters.1,
            counters: counters.2,
            profile,
        })
    }
}

fn cannot_read(path: &Path, why: String) -> ToolError {
    ToolError::new(
        format!("cannot read the black box {}", spoken(path)),
        why,
        "name a file that the option black_box made",
    )
}

/// A table of names, by number.
struct Names {
    start: usize,
    bytes: usize,
    most: usize,
}

/// The fields behind the names, in their order.
struct Head {
    maps: usize,
    maps_bytes: usize,
    threads: Names,
    caches: Names,
    tallies: usize,
    tallies_most: usize,
    maps_written: u32,
    maps_used: [usize; 2],
    counters_written: u32,
    profile_active: bool,
    lg_sample: u32,
    lost: u64,
    no_room: u64,
    counters: usize,
}

const HEAD_FIELDS: usize = 120;
const HEAD_COUNTERS: usize = HEAD_FIELDS + 14 * 4 + 2 * 8;

impl Head {
    fn parse(bytes: &[u8]) -> Option<Head> {
        let field = |index: usize| u32_in(bytes, HEAD_FIELDS + index * 4);
        let size = |index: usize| field(index) as usize;
        let is_whole = bytes.len() as u64 >= u64_in(bytes, 16) && size(5) <= bytes.len();
        (is_whole && bytes.len() >= HEAD_COUNTERS + 2 * COUNTERS_BYTES).then(|| Head {
            maps: size(0),
            maps_bytes: size(1),
            threads: Names {
                start: size(2),
                bytes: size(3),
                most: size(4),
            },
            caches: cache_names(bytes),
            tallies: size(5),
            tallies_most: size(6),
            maps_written: field(8),
            maps_used: [size(9), size(10)],
            counters_written: field(11),
            profile_active: field(12) != 0,
            lg_sample: field(13),
            lost: u64_in(bytes, HEAD_FIELDS + 14 * 4),
            no_room: u64_in(bytes, HEAD_FIELDS + 14 * 4 + 8),
            counters: HEAD_COUNTERS,
        })
    }

    /// Their time, the most that was resident, and the counters.
    fn counters(&self, bytes: &[u8]) -> (u64, u64, Counters) {
        let at = self.counters + (self.counters_written & 1) as usize * COUNTERS_BYTES;
        let bytes = &bytes[at..];
        let number = |index: usize| u64_in(bytes, index * 8);
        let classes = (0..CLASSES).map(|class| class_at(&bytes[80 + class * CLASS_BYTES..]));
        let counters = Counters {
            allocated: number(1),
            active: number(2),
            dirty: number(3),
            cached: number(4),
            metadata: number(5),
            mapped: number(6),
            process_resident: Some(number(7)),
            threads: u32_in(bytes, 76),
            arenas: Vec::new(),
            caches: Vec::new(),
            classes: classes
                .filter(|class| class.size > 0 && (class.handed_out > 0 || class.live > 0))
                .collect(),
        };
        (number(0), number(8), counters)
    }

    fn profile(&self, bytes: &[u8], time: u64) -> Profile {
        /// A line of mappings and its build: no more of them than this were left out where there is more room.
        const LINE_MOST: usize = 4096 + 256;
        let maps = self.maps(bytes);
        let mut profile = Profile {
            lg_sample: Some(self.lg_sample).filter(|lg| *lg < 64),
            lost: self.lost,
            pid: Some(u32_in(bytes, 32).into()),
            time: Some(time as i64),
            mappings: mappings(&maps),
            mappings_are_cut: self.maps_bytes.saturating_sub(maps.len()) < LINE_MOST,
            threads: names(bytes, &self.threads),
            caches: names(bytes, &self.caches),
            ..Profile::default()
        };
        let mut numbers: HashMap<u64, usize> = HashMap::new();
        // Stacks do not overlap: they have no more frames than the file has room for.
        let mut frames_left = bytes.len() / 8;
        let tallies = bytes[self.tallies..].chunks_exact(TALLY_BYTES).take(self.tallies_most);
        for tally in tallies {
            let (offset, size, lg_sample) = (u64_in(tally, 0), u64_in(tally, 8), tally[22]);
            let (live, total) = (possible_count(u64_in(tally, 24)), possible_count(u64_in(tally, 32)));
            if offset == 0 || lg_sample >= 64 || (live == 0 && total == 0) {
                continue;
            }
            let stack = match numbers.get(&offset) {
                Some(stack) => *stack,
                None => {
                    let Some(frames) = frames(bytes, offset, frames_left) else {
                        continue;
                    };
                    frames_left -= frames.len();
                    profile.stacks.push(frames);
                    numbers.insert(offset, profile.stacks.len() - 1);
                    profile.stacks.len() - 1
                }
            };
            let (arena, cache) = arena_or_cache(u16_in(tally, 20).into());
            profile.samples.push(Sample {
                stack,
                thread: u32_in(tally, 16),
                arena,
                cache,
                size: Some(size),
                live: Estimate::of_samples(live, size, lg_sample.into()),
                total: Estimate::of_samples(total, size, lg_sample.into()),
            });
        }
        profile
    }

    fn maps(&self, bytes: &[u8]) -> String {
        let number = (self.maps_written & 1) as usize;
        let start = self.maps + number * self.maps_bytes;
        let used = self.maps_used[number].min(self.maps_bytes);
        String::from_utf8_lossy(bytes.get(start..start + used).unwrap_or_default()).into_owned()
    }
}

/// Where the names of object caches are: appended behind the counters; older files have none.
fn cache_names(bytes: &[u8]) -> Names {
    let at = HEAD_COUNTERS + 2 * COUNTERS_BYTES;
    let has_them = u32_in(bytes, 12) as usize >= at + 12 && bytes.len() >= at + 12;
    let field = |index: usize| {
        if has_them {
            u32_in(bytes, at + index * 4) as usize
        } else {
            0
        }
    };
    Names {
        start: field(0),
        bytes: field(1),
        most: field(2),
    }
}

fn names(bytes: &[u8], table: &Names) -> HashMap<u32, String> {
    let names = bytes.get(table.start..).unwrap_or_default();
    let names = names
        .chunks_exact(table.bytes.max(1))
        .take(table.most.min(NAMES_MOST))
        .enumerate();
    names
        .map(|(number, name)| (number as u32, text(name)))
        .filter(|(_, name)| !name.is_empty())
        .collect()
}

fn class_at(bytes: &[u8]) -> ClassCounters {
    let number = |index: usize| u64_in(bytes, index * 8);
    ClassCounters {
        size: number(0),
        live: number(1),
        cached: number(2),
        handed_out: number(3),
        taken_back: number(4),
        slabs: number(5),
        partial_slabs: number(6),
        free_buffers: number(7),
        slab_bytes: number(8),
    }
}

fn frames(bytes: &[u8], offset: u64, most: usize) -> Option<Vec<u64>> {
    let stack = bytes.get(usize::try_from(offset).ok()?..)?;
    let depth = u64_in(stack, 0) as usize;
    if depth > MOST_DEPTH.min(most) {
        return None;
    }
    let frames = stack.get(8..8 + depth * 8)?;
    Some(frames.chunks_exact(8).map(|frame| u64_in(frame, 0)).collect())
}

/// Up to the first zero.
fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    in_line(&String::from_utf8_lossy(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = 1;
        bytes[16..24].copy_from_slice(&(1u64 << 16).to_le_bytes());
        bytes
    }

    #[test]
    fn versions_and_lengths_are_told() {
        assert!(BlackBox::parse(b"hello").err().unwrap().contains("does not begin"));
        let mut bytes = empty();
        bytes[8] = 2;
        assert!(BlackBox::parse(&bytes).err().unwrap().contains("version 2"));
        bytes[8] = 1;
        bytes[18] = 2;
        assert!(BlackBox::parse(&bytes).err().unwrap().contains("shorter"));
        assert!(BlackBox::parse(&empty()).unwrap().profile.samples.is_empty());
        bytes[16..24].fill(0);
        assert!(BlackBox::parse(&bytes).err().unwrap().contains("not written"));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = 1u64;
        let mut next = |below: usize| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 33) as usize % below
        };
        for _ in 0..2000 {
            let mut bytes = empty();
            for _ in 0..next(40) {
                let at = 12 + next(180);
                bytes[at] = next(256) as u8;
            }
            bytes.truncate(1 << (8 + next(9)));
            let _ = BlackBox::parse(&bytes);
        }
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let mut bytes = empty();
        let put =
            |bytes: &mut Vec<u8>, at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        let tallies = 60000;
        bytes[HEAD_FIELDS + 20..HEAD_FIELDS + 24].copy_from_slice(&(tallies as u32).to_ne_bytes());
        bytes[HEAD_FIELDS + 24] = 4;
        put(&mut bytes, 62000, 2); // a stack of two frames
        put(&mut bytes, 62008, 0x10);
        put(&mut bytes, 62016, 0x20);
        for (number, (stack, live)) in [(62000, 3), (1 << 40, 3), (62000, u64::MAX), (0, 3)]
            .into_iter()
            .enumerate()
        {
            put(&mut bytes, tallies + number * TALLY_BYTES, stack);
            put(&mut bytes, tallies + number * TALLY_BYTES + 8, 64);
            put(&mut bytes, tallies + number * TALLY_BYTES + 24, live);
        }
        let profile = BlackBox::parse(&bytes).unwrap().profile;
        assert_eq!(profile.stacks, [[0x10, 0x20]]);
        assert_eq!(profile.samples.len(), 1);
        assert_eq!(profile.live().bytes, 192.0);
    }

    #[test]
    fn a_box_has_not_more_names_than_threads() {
        let table = Names {
            start: 0,
            bytes: 1,
            most: usize::MAX,
        };
        assert_eq!(names(&vec![b'x'; 2 * NAMES_MOST], &table).len(), NAMES_MOST);
    }

    #[test]
    fn stacks_that_overlap_are_not_more_than_the_file() {
        let mut bytes = empty();
        let put =
            |bytes: &mut Vec<u8>, at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        let (tallies, stacks) = (45000, 50000);
        bytes[HEAD_FIELDS + 20..HEAD_FIELDS + 24].copy_from_slice(&(tallies as u32).to_ne_bytes());
        bytes[HEAD_FIELDS + 24] = 100;
        for number in 0..100 {
            put(&mut bytes, stacks + number * 8, 1000);
            put(&mut bytes, tallies + number * TALLY_BYTES, (stacks + number * 8) as u64);
            put(&mut bytes, tallies + number * TALLY_BYTES + 24, 1);
        }
        let profile = BlackBox::parse(&bytes).unwrap().profile;
        assert_eq!(profile.stacks.len(), bytes.len() / 8 / 1000);
    }
}
