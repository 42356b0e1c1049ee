//! The picture of address by time of a process that runs: its slabs and large objects, looked at again and again.
//!
//! Sizes and places are what they are. Ages count from the first look that found the slab or object, so they are at least that. Who
//! allocated is known of sampled objects, each of which is a piece of its own; all others are given to the sites that hold what was sampled
//! of their size, in the same shares.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::{NumberedProfile, Process};
use crate::error::{Result, ToolError};
use crate::explain::areas;
use crate::explain::heap::{Heap, Piece};
use crate::heap_view::HeapView;
use crate::output::figures::{bytes, short_time};
use crate::output::say;
use crate::process;
use crate::profile::{Profile, Sample};
use crate::progress::Progress;
use crate::symbols::Frame;
use crate::trace_map::{Blocks, BytesBySite, Map, NO_SITES, OTHER_SITES, age_code, class_code};
use crate::trace_view::{COLUMNS, chief_sites, column_of};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOOKS: u32 = 100;

/// The picture, and what the numbers of call sites in it stand for; none where nothing was sampled.
pub struct Watched {
    pub pid: i64,
    /// From the first column to the last.
    pub seconds: f64,
    pub map: Map,
    pub sites: Vec<Vec<Arc<Frame>>>,
    /// Slabs of object caches, which are not in it.
    pub cache_bytes: u64,
}

/// What is in use at one moment.
#[derive(Default)]
struct Look {
    time: Duration,
    pieces: Vec<Piece>,
    known: Known,
}

/// Stacks, by their numbers in all looks, that allocated …
#[derive(Default)]
struct Known {
    /// … the object of this tally.
    by_tally: HashMap<u32, usize>,
    /// … what was sampled of objects of about this size (`size_key`), and bytes.
    by_size: HashMap<u64, Vec<(usize, f64)>>,
}

/// All stacks that were seen, with the bytes that they held, added up over the looks.
#[derive(Default)]
struct Stacks {
    numbers: HashMap<Vec<u64>, usize>,
    weights: Vec<f64>,
}

/// `with_sites`: fail at once where nothing is sampled.
pub fn watch(pid: i32, time: Duration, with_sites: bool) -> Result<Watched> {
    let (mut heap, _) = Heap::of(pid)?;
    let process = Process::attach(pid)?;
    if with_sites && !process.profile()?.samples.iter().any(is_of_malloc) {
        return Err(nothing_sampled(&process));
    }
    let mut pace = Pace::new(time);
    let mut progress = Progress::new("looking");
    let (mut looks, mut stacks, mut last) = (Vec::new(), Stacks::default(), Profile::default());
    let mut cache_bytes = 0;
    loop {
        let areas = areas::read_maps(pid).map_err(|error| process::cannot_look(pid, &error));
        let (areas, numbered) = match areas.and_then(|areas| Ok((areas, process.numbered_profile()?))) {
            Ok(seen) => seen,
            // It is gone: the picture is of what was seen.
            Err(_) if !looks.is_empty() => {
                let seen = short_time(pace.start.elapsed().as_secs_f64());
                drop(progress);
                say(format_args!(
                    "vmag: process {pid} {} after {seen}: the picture is of what was seen until then\n",
                    what_became(pid)
                ));
                break;
            }
            Err(error) => return Err(error),
        };
        looks.push(Look {
            time: pace.start.elapsed(),
            pieces: heap.pieces(&areas),
            known: stacks.take(&numbered),
        });
        cache_bytes = heap.cache_slab_bytes(&areas).max(cache_bytes);
        last = numbered.profile;
        if !pace.wait() {
            break;
        }
        progress.at(pace.part());
    }
    let end = pace.start.elapsed();
    let (sites, places) = stacks.sites(last);
    Ok(Watched {
        pid: i64::from(pid),
        seconds: end.as_secs_f64(),
        map: draw(&looks, end, &places),
        sites,
        cache_bytes,
    })
}

/// Of a process whose memory cannot be read any more.
fn what_became(pid: i32) -> &'static str {
    match std::fs::read_link(format!("/proc/{pid}/exe")) {
        Ok(_) => "runs another program",
        Err(_) => "has ended",
    }
}

/// Of object caches nothing is drawn.
fn is_of_malloc(sample: &Sample) -> bool {
    sample.cache.is_none() && sample.live.bytes > 0.0
}

/// When to look: at most `LOOKS` times, and less often where a look takes long.
struct Pace {
    start: Instant,
    time: Duration,
    looks: u32,
}

impl Pace {
    fn new(time: Duration) -> Pace {
        Pace {
            start: Instant::now(),
            time,
            looks: 0,
        }
    }

    /// Waits for the next look; false when the time is up.
    fn wait(&mut self) -> bool {
        // What was stopped for a while does not look again and again to catch up.
        let due = (self.part() * f64::from(LOOKS)) as u32;
        self.looks = (self.looks + 1).max(due);
        let next = self.time * self.looks / LOOKS;
        std::thread::sleep(next.saturating_sub(self.start.elapsed()));
        self.start.elapsed() < self.time
    }

    /// Of the time, that is over.
    fn part(&self) -> f64 {
        self.start.elapsed().as_secs_f64() / self.time.as_secs_f64()
    }
}

fn nothing_sampled(process: &Process) -> ToolError {
    let pid = process.pid;
    let finer = format!("`vmag attach --profile 64k {pid}`");
    let (why, next) = match process.sampling() {
        Some((true, distance)) => (
            format!(
                "its heap profile is on, but nothing of what it holds was sampled, with one sample in {}",
                bytes(distance)
            ),
            format!("wait until it has allocated more, or sample finer from now on: {finer}"),
        ),
        _ => (
            "nothing of what it holds was sampled".to_string(),
            format!("switch its heap profile on: {finer}, or start it by `vmag run --profile`"),
        ),
    };
    ToolError::new(format!("process {pid} does not tell who allocated"), why, next)
}

impl Stacks {
    fn take(&mut self, numbered: &NumberedProfile) -> Known {
        let mut known = Known::default();
        let profile = &numbered.profile;
        let samples = profile.samples.iter().zip(&numbered.tallies);
        for (sample, tally) in samples.filter(|(sample, _)| sample.cache.is_none()) {
            let next = self.numbers.len();
            let stack = *self.numbers.entry(profile.stacks[sample.stack].clone()).or_insert(next);
            self.weights.resize(self.numbers.len(), 0.0);
            self.weights[stack] += sample.live.bytes;
            known.by_tally.insert(*tally, stack);
            if let Some(size) = sample.size.filter(|_| sample.live.bytes > 0.0) {
                let held = known.by_size.entry(size_key(size)).or_default();
                held.push((stack, sample.live.bytes));
            }
        }
        known
    }

    /// Sites, and of each stack the place of its own among them.
    fn sites(self, profile: Profile) -> (Vec<Vec<Arc<Frame>>>, Vec<u8>) {
        let mut stacks = vec![Vec::new(); self.numbers.len()];
        self.numbers
            .into_iter()
            .for_each(|(frames, number)| stacks[number] = frames);
        let profile = Profile {
            stacks,
            samples: Vec::new(),
            ..profile
        };
        chief_sites(&HeapView::new(profile), &self.weights)
    }
}

/// Small sizes are told apart exactly; large ones, which are rounded up to pages, by their logarithm.
fn size_key(size: u64) -> u64 {
    const LARGE: u64 = 16 << 10;
    if size < LARGE { size } else { 1 << size.ilog2() }
}

/// Parts of a byte that cells count in: of a slab that has a few small objects, a page's part is less than a byte.
const FINE: u64 = 256;

/// One row of the picture at one moment; what is in it is counted in parts of a byte.
#[derive(Clone)]
struct Cell {
    live: u64,
    /// Sum of `live` · nanoseconds of age.
    ages: f64,
    by_size: [u64; 65],
    by_site: BytesBySite,
}

const EMPTY: Cell = Cell {
    live: 0,
    ages: 0.0,
    by_size: [0; 65],
    by_site: NO_SITES,
};

/// The columns that show a look: until the next one found what had become of it.
fn columns_of(looks: &[Look], number: usize, end: Duration) -> Range<usize> {
    let column = |time: Duration| column_of(time.as_nanos() as u64, end.as_nanos().max(1) as u64);
    let first = if number == 0 { 0 } else { column(looks[number].time) };
    first..looks.get(number + 1).map_or(COLUMNS, |next| column(next.time))
}

/// `end`: of the last column. `places`: of each stack's site; none when nothing was sampled.
fn draw(looks: &[Look], end: Duration, places: &[u8]) -> Map {
    let mut blocks = Blocks::default();
    for piece in looks.iter().flat_map(|look| &look.pieces) {
        blocks.add(piece.start, piece.bytes);
    }
    let lg_block = blocks.lg_block;
    let blocks = blocks.all();
    let mut map = Map::of_blocks(&blocks, lg_block, COLUMNS);
    map.add_planes(!places.is_empty());
    let blocks_a_row = (map.row_bytes >> lg_block) as usize;
    let mut seen_since: HashMap<(u64, u64, u32), Duration> = HashMap::new();
    for (number, look) in looks.iter().enumerate() {
        let mut cells = vec![EMPTY; map.rows];
        let since = |piece: &Piece| {
            let key = (piece.start, piece.size, piece.tally);
            (key, *seen_since.get(&key).unwrap_or(&look.time))
        };
        seen_since = look.pieces.iter().map(since).collect();
        for piece in &look.pieces {
            let age = look.time - seen_since[&(piece.start, piece.size, piece.tally)];
            add(
                piece,
                age,
                &shares(piece, &look.known, places),
                &blocks,
                lg_block,
                blocks_a_row,
                &mut cells,
            );
        }
        for column in columns_of(looks, number, end) {
            for (row, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.live > 0) {
                let at = row * COLUMNS + column;
                map.occupancy[at] = (255 * (cell.live / FINE) / map.row_bytes).clamp(1, 255) as u8;
                map.class[at] = class_code(&cell.by_size);
                map.age[at] = age_code(cell.ages / cell.live as f64);
                if !places.is_empty() {
                    map.set_sites(at, &cell.by_site, cell.live);
                }
            }
        }
    }
    map
}

/// Which sites a piece is given to, and which part of it each.
fn shares(piece: &Piece, known: &Known, places: &[u8]) -> Vec<(u8, f64)> {
    if let Some(stack) = known.by_tally.get(&piece.tally) {
        return vec![(places[*stack], 1.0)];
    }
    let held = known.by_size.get(&size_key(piece.size)).map_or(&[][..], Vec::as_slice);
    let all: f64 = held.iter().map(|(_, bytes)| bytes).sum();
    held.iter()
        .map(|(stack, bytes)| (places[*stack], bytes / all))
        .collect()
}

/// Spreads a piece over the rows that it lies in, evenly.
fn add(
    piece: &Piece,
    age: Duration,
    shares: &[(u8, f64)],
    blocks: &[u64],
    lg_block: u32,
    blocks_a_row: usize,
    cells: &mut [Cell],
) {
    let count = piece.bytes.div_ceil(1 << lg_block).max(1);
    let Ok(first) = blocks.binary_search(&(piece.start >> lg_block)) else {
        return;
    };
    let lg = piece.size.max(1).ilog2() as usize;
    let part = (piece.live * FINE / count).max(u64::from(piece.live > 0));
    for index in first..(first + count as usize).min(blocks.len()) {
        let cell = &mut cells[index / blocks_a_row];
        cell.live += part;
        cell.ages += age.as_nanos() as f64 * part as f64;
        cell.by_size[lg] += part;
        for (site, share) in shares {
            cell.by_site[usize::from(*site)] += (part as f64 * share) as u64;
        }
        if shares.is_empty() {
            cell.by_site[usize::from(OTHER_SITES)] += part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Estimate;

    const SECONDS_10: Duration = Duration::from_secs(10);

    fn slab(start: u64, live: u64, tally: u32) -> Piece {
        Piece {
            start,
            bytes: 8192,
            live,
            size: 64,
            tally,
        }
    }

    fn look(seconds: u64, pieces: Vec<Piece>) -> Look {
        Look {
            time: Duration::from_secs(seconds),
            pieces,
            known: Known {
                by_tally: HashMap::from([(7, 1)]),
                by_size: HashMap::from([(64, vec![(0, 300.0), (1, 100.0)])]),
            },
        }
    }

    #[test]
    fn what_runs_on_has_not_ended() {
        assert_eq!(what_became(std::process::id() as i32), "runs another program");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        // Until somebody waits for it it is there, as a zombie.
        let is_zombie = || {
            std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .unwrap()
                .contains(") Z ")
        };
        while !is_zombie() {
            std::thread::yield_now();
        }
        assert_eq!(what_became(pid), "has ended");
        child.wait().unwrap();
        assert_eq!(what_became(pid), "has ended");
    }

    #[test]
    fn sites_are_those_of_what_is_drawn() {
        let sample = |stack, cache| Sample {
            stack,
            thread: 0,
            arena: None,
            cache,
            size: Some(64),
            live: Estimate {
                bytes: 640.0,
                ..Estimate::default()
            },
            total: Estimate::default(),
        };
        let profile = Profile {
            stacks: vec![vec![0x1000], vec![0x2000]],
            samples: vec![sample(0, Some(5)), sample(1, None)],
            ..Profile::default()
        };
        let numbered = NumberedProfile {
            profile,
            tallies: vec![8, 9],
        };
        let mut stacks = Stacks::default();
        let known = stacks.take(&numbered);
        assert_eq!(stacks.numbers, HashMap::from([(vec![0x2000], 0)]));
        assert_eq!(known.by_tally, HashMap::from([(9, 0)]));
        assert_eq!(known.by_size[&64], [(0, 640.0)]);
    }

    /// As if so much more time were over: on a busy machine a sleep takes longer than it says.
    fn pass(pace: &mut Pace, time: Duration) {
        pace.start -= time;
    }

    #[test]
    fn slow_looks_are_fewer() {
        let mut pace = Pace::new(Duration::from_secs(10));
        let mut looks = 1;
        while pace.wait() {
            pass(&mut pace, Duration::from_secs(2));
            looks += 1;
        }
        assert!((2..=6).contains(&looks), "{looks}");
    }

    #[test]
    fn a_look_is_a_column() {
        let looks = [
            look(0, vec![slab(0x10000, 8192, 0)]),
            look(9, vec![slab(0x10000, 4096, 0), slab(0x40000, 64, 0)]),
        ];
        let map = draw(&looks, SECONDS_10, &[0, 0]);
        assert_eq!((map.rows, map.columns, map.row_bytes), (4, COLUMNS, 4096));
        let at = |row: usize, column: usize| map.occupancy[row * COLUMNS + column];
        assert_eq!((at(0, 0), at(1, 0), at(2, 0)), (255, 255, 0));
        assert_eq!((at(0, COLUMNS - 1), at(2, COLUMNS - 1)), (127, 1));
        assert_eq!(map.class[0], 1 + 6);
        assert!(map.gap_before[2] && !map.gap_before[1]);
    }

    #[test]
    fn columns_are_as_wide_as_their_time() {
        let slab = || vec![slab(0x10000, 8192, 0)];
        let looks = [look(1, slab()), look(2, slab()), look(8, Vec::new())];
        let map = draw(&looks, SECONDS_10, &[0, 0]);
        let used = |column: &usize| map.occupancy[*column] != 0;
        assert_eq!((0..COLUMNS).filter(used).collect::<Vec<_>>(), Vec::from_iter(0..640));
        assert_eq!(columns_of(&looks, 1, SECONDS_10), 160..640);
    }

    #[test]
    fn what_was_stopped_does_not_catch_up() {
        let mut pace = Pace::new(Duration::from_secs(100));
        pass(&mut pace, Duration::from_secs(50));
        assert!(pace.wait() && pace.looks >= 50, "{}", pace.looks);
    }

    #[test]
    fn a_slab_with_one_small_object_is_seen_on_all_its_pages() {
        let slab = Piece {
            start: 0x10000,
            bytes: 65536,
            live: 8,
            size: 8,
            tally: 0,
        };
        let map = draw(&[look(0, vec![slab])], SECONDS_10, &[]);
        assert_eq!(map.rows, 16);
        for row in 0..map.rows {
            assert_eq!((map.occupancy[row * COLUMNS], map.class[row * COLUMNS]), (1, 1 + 3));
        }
    }

    #[test]
    fn ages_count_from_the_first_look() {
        let looks = [
            look(0, vec![slab(0x10000, 8192, 0)]),
            look(9, vec![slab(0x10000, 8192, 0), slab(0x40000, 8192, 0)]),
        ];
        let map = draw(&looks, SECONDS_10, &[0, 0]);
        let at = |row: usize, column: usize| map.age[row * COLUMNS + column];
        assert_eq!((at(0, 0), at(2, 0)), (1, 0));
        assert_eq!((at(0, COLUMNS - 1), at(2, COLUMNS - 1)), (age_code(9e9), 1));
    }

    #[test]
    fn what_was_sampled_is_its_site_and_the_rest_goes_by_size() {
        let map = draw(
            &[look(0, vec![slab(0x10000, 8192, 0), slab(0x40000, 8192, 7)])],
            SECONDS_10,
            &[3, 5],
        );
        let at = |place: usize, row: usize| (map.sites[place][row * COLUMNS], map.shares[place][row * COLUMNS]);
        assert_eq!((at(0, 0), at(1, 0)), ((1 + 3, 191), (1 + 5, 63)));
        assert_eq!((at(0, 2), at(1, 2)), ((1 + 5, 255), (0, 0)));
    }
}
