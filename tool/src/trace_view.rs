//! What a trace says: sums, a time line, size classes, lifetimes, call sites, and the picture of address by time.
//!
//! Two passes, in memory that does not grow with the trace but with what is alive at once: the first finds out which
//! addresses are used and by whom, the second draws (trace_map.rs).
//! SPDX-License-Identifier: BSD-2-Clause

mod sums;

use crate::error::{Result, ToolError};
use crate::heap_view::HeapView;
use crate::profile::{Estimate, Profile, Sample};
use crate::symbols::{Frame, callers};
use crate::trace::Trace;
use crate::trace_map::Drawing;
pub use crate::trace_map::{Map, OTHER_SITES};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;
pub use sums::LostStacks;
use sums::{StackSum, Sums};

/// Columns of the time line and of the picture.
pub const COLUMNS: usize = 800;
/// Lifetimes are counted by the logarithm of their nanoseconds.
pub const LIFETIMES: usize = 48;

#[derive(Debug, Clone, Default, Serialize)]
pub struct SizeClass {
    pub bytes: u64,
    pub allocations: u64,
    pub frees: u64,
    pub live_at_end: u64,
    pub peak_live: u64,
}

/// What happened in an object cache or a resource arena.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Source {
    pub number: u32,
    pub name: String,
    pub allocations: u64,
    pub frees: u64,
    /// Objects; of an arena the sum of sizes.
    pub live: i64,
    pub peak_live: i64,
}

/// Freed objects that lived so long, and longer than those before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lived {
    /// None: any longer.
    pub up_to_ns: Option<u64>,
    pub objects: u64,
}

impl Lived {
    /// To a microsecond, ten, a hundred; one and a hundred milliseconds; ten seconds.
    pub fn steps() -> Vec<Lived> {
        const STEPS: [Option<u64>; 7] = [
            Some(1_000),
            Some(10_000),
            Some(100_000),
            Some(1_000_000),
            Some(100_000_000),
            Some(10_000_000_000),
            None,
        ];
        let step = |up_to_ns| Lived { up_to_ns, objects: 0 };
        STEPS.map(step).to_vec()
    }

    pub fn has(&self, ns: u64) -> bool {
        self.up_to_ns.is_none_or(|most| ns <= most)
    }
}

#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub pid: u32,
    pub file_bytes: u64,
    pub seconds: f64,
    pub events: u64,
    pub threads: usize,
    /// With the objects of caches, as what is alive is, and as in the lines; but not `classes`.
    pub allocations: u64,
    pub frees: u64,
    pub resizes: u64,
    /// Frees of objects that were allocated before the trace began, or by whom it did not see.
    pub unknown_frees: u64,
    pub allocated_bytes: u64,
    pub live_bytes_at_end: u64,
    pub live_objects_at_end: u64,
    pub peak_live_bytes: u64,
    pub peak_seconds: f64,
    pub damaged_chunks: usize,
    pub oldest_events_missing: bool,
    pub newest_events_missing: bool,
    /// In words: what else is not there of what was alive and came later.
    pub missing_at_ends: Vec<String>,
    /// In words: all that happened and is not in the sums; None: they are of all.
    pub missing: Option<String>,
    pub has_stacks: bool,
    /// Allocations whose stacks are not in the file, for want of room.
    pub unknown_stacks: u64,
    pub classes: Vec<SizeClass>,
    pub caches: Vec<Source>,
    pub arenas: Vec<Source>,
    /// Freed objects by the logarithm of the nanoseconds that they lived.
    pub lifetimes: Vec<u64>,
    /// The same by times as people say them, the shortest first.
    pub lived: Vec<Lived>,
    /// At the end of each column.
    pub live_line: Vec<u64>,
    /// In each column.
    pub event_line: Vec<u64>,
}

pub struct TraceView {
    pub summary: Summary,
    pub map: Map,
    /// Who allocated, where the trace has stacks: exact, not estimated.
    pub heap: Option<HeapView>,
    /// Bytes that each sample of `heap` held when most was alive.
    pub at_peak: Vec<f64>,
    /// What the numbers in the map's planes of sites stand for, the outermost function first.
    pub sites: Vec<Vec<Arc<Frame>>>,
    pub ledger: Option<Ledger>,
}

/// Where every resident byte of the process was when it ended; keys as in the library's ledger.
#[derive(Debug, Clone, Deserialize)]
pub struct Ledger {
    pub resident_bytes: u64,
    pub rows: HashMap<String, u64>,
}

pub fn look(trace: &Trace, progress: &mut dyn FnMut(f64)) -> Result<TraceView> {
    let failed = |error| cannot_read(trace, error);
    let mut sums = Sums::new(trace);
    let losses = trace
        .for_each(|event| sums.take(&event), |part| progress(part / 2.0))
        .map_err(failed)?;
    let blocks = std::mem::take(&mut sums.blocks);
    let (summary, stacks) = sums.finish(trace, losses);
    let heap = (!stacks.is_empty()).then(|| HeapView::new(profile_of(trace, &stacks, &summary)));
    let weights: Vec<f64> = stacks.iter().map(|stack| stack.weight).collect();
    let (sites, places) = heap
        .as_ref()
        .map_or_else(Default::default, |heap| chief_sites(heap, &weights));
    let site_of_stack = stacks.iter().map(|stack| stack.number).zip(places).collect();
    let mut drawing = Drawing::new(trace, blocks, site_of_stack, summary.peak_live_bytes);
    trace
        .for_each(|event| drawing.take(&event), |part| progress(0.5 + part / 2.0))
        .map_err(failed)?;
    let (map, peak) = drawing.finish();
    let at_peak = stacks
        .iter()
        .map(|stack| peak.get(&stack.number).map_or(0.0, |bytes| *bytes as f64))
        .collect();
    Ok(TraceView {
        summary,
        map,
        heap,
        at_peak,
        sites,
        ledger: trace
            .facts
            .ledger
            .as_ref()
            .and_then(|fields| serde_json::from_str(&format!("{{{fields}}}")).ok()),
    })
}

/// Only the sums: one pass.
pub fn summary(trace: &Trace, progress: &mut dyn FnMut(f64)) -> Result<Summary> {
    Ok(sum_up(trace, progress)?.0)
}

fn sum_up(trace: &Trace, progress: &mut dyn FnMut(f64)) -> Result<(Summary, Vec<StackSum>)> {
    let mut sums = Sums::new(trace);
    let losses = trace
        .for_each(|event| sums.take(&event), progress)
        .map_err(|error| cannot_read(trace, error))?;
    Ok(sums.finish(trace, losses))
}

/// Only what each call site allocated and still holds, as a profile in which every allocation is a sample.
pub fn profile(trace: &Trace, progress: &mut dyn FnMut(f64)) -> Result<Profile> {
    if !trace.has_stacks {
        return Err(ToolError::new(
            format!("the trace {} does not tell who allocated", trace.path().display()),
            "it was recorded without stacks",
            "record it with `vmag run --trace FILE --trace-stacks`",
        ));
    }
    let (summary, stacks) = sum_up(trace, progress)?;
    Ok(profile_of(trace, &stacks, &summary))
}

fn cannot_read(trace: &Trace, error: std::io::Error) -> ToolError {
    ToolError::new(
        format!("cannot read the trace {}", trace.path().display()),
        error,
        "look whether the disk is well; the file was there a moment ago",
    )
}

pub fn column_of(time: u64, duration: u64) -> usize {
    ((u128::from(time) * COLUMNS as u128 / u128::from(duration)) as usize).min(COLUMNS - 1)
}

fn profile_of(trace: &Trace, sums: &[StackSum], summary: &Summary) -> Profile {
    let exact = |objects: u64, bytes: u64| Estimate {
        objects: objects as f64,
        bytes: bytes as f64,
        ..Estimate::default()
    };
    let samples = sums.iter().enumerate().map(|(stack, sum)| Sample {
        stack,
        thread: 0,
        arena: None,
        cache: None,
        size: None,
        live: exact(sum.live_objects, sum.live_bytes),
        total: exact(sum.all_objects, sum.all_bytes),
    });
    let frames = |sum: &StackSum| trace.facts.stacks.get(sum.number as usize).cloned().unwrap_or_default();
    Profile {
        stacks: sums.iter().map(frames).collect(),
        samples: samples.collect(),
        mappings: trace.facts.mappings.clone(),
        mappings_are_cut: trace.facts.mappings_are_cut,
        lg_sample: Some(0),
        pid: Some(i64::from(trace.pid)),
        missing: summary.missing.clone(),
        known: trace.facts.known.clone(),
        ..Profile::default()
    }
}

/// The sites of most weight, and of each stack its place among them; a site is a function and who calls it.
pub fn chief_sites(heap: &HeapView, weights: &[f64]) -> (Vec<Vec<Arc<Frame>>>, Vec<u8>) {
    let key = |index: usize| {
        let frames = &heap.named.stacks[index];
        let frames = callers(frames);
        let name = |back: usize| {
            frames
                .len()
                .checked_sub(back)
                .map_or("", |at| frames[at].function.as_str())
        };
        (name(1), name(2))
    };
    let mut sums: HashMap<_, (f64, usize, f64)> = HashMap::new();
    for (index, weight) in weights.iter().enumerate() {
        let entry = sums.entry(key(index)).or_insert((0.0, index, -1.0));
        entry.0 += weight;
        if *weight > entry.2 {
            (entry.1, entry.2) = (index, *weight);
        }
    }
    let mut order: Vec<_> = sums.iter().collect();
    order.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then(a.0.cmp(b.0)));
    order.truncate(usize::from(OTHER_SITES));
    let places: HashMap<_, u8> = order
        .iter()
        .enumerate()
        .map(|(place, (key, _))| (**key, place as u8))
        .collect();
    let place = |index: usize| *places.get(&key(index)).unwrap_or(&OTHER_SITES);
    let sites = order
        .iter()
        .map(|(_, (_, index, _))| heap.named.stacks[*index].clone())
        .collect();
    (sites, (0..weights.len()).map(place).collect())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::trace::tests::{chunk, file};
    use crate::trace_map::age_code;

    pub fn view() -> TraceView {
        let events = [
            (0, 0, 0x10000, 4096),
            (100, 0, 0x20000, 64),
            (500, 1, 0x10000, 0),
            (600, 1, 0x99000, 0),
            (700, 2, 0x20000, 128),
            (1000, 0, 0x30000, 16),
        ];
        let file = file(&[chunk(0, 1, &events)]);
        look(&Trace::open(file.path()).unwrap(), &mut |_| ()).unwrap()
    }

    #[test]
    fn sums_are_right() {
        let summary = view().summary;
        assert_eq!(
            (
                summary.allocations,
                summary.frees,
                summary.resizes,
                summary.unknown_frees
            ),
            (4, 2, 1, 1)
        );
        assert_eq!(
            (
                summary.peak_live_bytes,
                summary.live_bytes_at_end,
                summary.live_objects_at_end
            ),
            (4160, 144, 2)
        );
        assert_eq!((summary.lifetimes[8], summary.lived[0].objects), (1, 1));
        assert_eq!(summary.allocated_bytes, 4096 + 64 + 128 + 16);
        assert_eq!(summary.live_line[0], 4096);
        assert_eq!(
            summary.classes.iter().find(|class| class.bytes == 4096).unwrap().frees,
            1
        );
        assert_eq!(summary.events, 6);
    }

    /// One that was there before the trace, and one that grows twice.
    #[test]
    fn a_resize_is_an_allocation_of_what_is_as_old_as_it_was() {
        let events = [
            (10, 2, 0x90000, 512),
            (100, 0, 0x10000, 1024),
            (300, 2, 0x10000, 2048),
            (500, 2, 0x10000, 4096),
            (1000, 1, 0x10000, 0),
        ];
        let file = file(&[chunk(0, 1, &events)]);
        let trace = Trace::open(file.path()).unwrap();
        let view = look(&trace, &mut |_| ()).unwrap();
        let summary = &view.summary;
        assert_eq!((summary.allocations, summary.resizes, summary.frees), (4, 3, 1));
        assert_eq!(summary.allocated_bytes, 512 + 1024 + 2048 + 4096);
        let sum_of_classes = |class: &SizeClass| class.allocations * class.bytes;
        assert_eq!(
            summary.classes.iter().map(sum_of_classes).sum::<u64>(),
            summary.allocated_bytes
        );
        assert_eq!((summary.lifetimes[9], summary.lifetimes[8]), (1, 0));
        let age = |part: f64| view.map.age[(part * COLUMNS as f64) as usize];
        assert_eq!((age(0.31), age(0.9)), (age_code(211.0), age_code(801.0)));
    }

    #[test]
    fn what_was_allocated_comes_to_no_less_than_was_asked_for() {
        let pair = |at: u64| [(at, 0, 1 << 40, 1 << 56), (at + 1, 1, 1 << 40, 0)];
        let events: Vec<_> = (0..300).flat_map(|number| pair(2 * number)).collect();
        let file = file(&[chunk(0, 1, &events)]);
        let summary = summary(&Trace::open(file.path()).unwrap(), &mut |_| ()).unwrap();
        assert_eq!((summary.allocated_bytes, summary.live_bytes_at_end), (u64::MAX, 0));
    }

    /// A ring's: of one allocation the stack was overwritten.
    fn without_a_stack() -> tempfile::NamedTempFile {
        use crate::trace::tests::{add, whole_chunk};
        let mut events = Vec::new();
        for (step, stack) in [(0x2000, 5), (16, 0)] {
            events.push(0);
            [10, step, 64, stack]
                .into_iter()
                .for_each(|value| add(&mut events, value));
        }
        file(&[whole_chunk(1, 1, 1, 2, events)])
    }

    #[test]
    fn the_newest_events_are_there_where_the_process_exited() {
        use crate::trace::tests::whole_chunk;
        let lacks = |ends: &[u8]| {
            let facts = [[7, 0].as_slice(), ends].concat();
            let file = file(&[chunk(0, 1, &[(10, 0, 0x1000, 64)]), whole_chunk(2, 1, 0, 2, facts)]);
            let found = summary(&Trace::open(file.path()).unwrap(), &mut |_| ()).unwrap();
            assert_eq!(
                found.newest_events_missing,
                found.missing.is_some(),
                "{:?}",
                found.missing
            );
            found.newest_events_missing
        };
        assert!(!lacks(&[8, 0, 2]));
        assert!(
            lacks(&[8, 1, 2]) && lacks(&[8, 2, 2]),
            "its time was over, or somebody ended it"
        );
        assert!(lacks(&[]) && lacks(&[8, 0, 3]), "it has no end, or was cut");
    }

    #[test]
    fn stacks_that_are_not_there_are_told() {
        let file = without_a_stack();
        let trace = Trace::open(file.path()).unwrap();
        let missing = summary(&trace, &mut |_| ()).unwrap().missing.unwrap();
        assert!(
            missing.contains("no room for the stacks of 1 of 1 allocation"),
            "{missing}"
        );
        let by_pages = crate::frag::traced::look(&trace, None, 25, &mut |_| ()).unwrap();
        assert_eq!(by_pages.missing.as_ref(), Some(&missing));
        let by_rows = crate::export::events::as_csv(&trace, std::io::sink()).unwrap();
        assert_eq!(by_rows.as_ref(), Some(&missing));
        let by_columns = crate::export::events::as_parquet(&trace, std::io::sink()).unwrap();
        assert_eq!(by_columns, Some(missing));
    }

    #[test]
    fn the_picture_shows_what_is_where_and_when() {
        let map = view().map;
        assert_eq!((map.rows, map.row_bytes), (3, 4096));
        assert_eq!(map.row_address, [0x10000, 0x20000, 0x30000]);
        assert_eq!(map.gap_before, [false, true, true]);
        let at = |row: usize, part: f64| map.occupancy[row * COLUMNS + (part * COLUMNS as f64) as usize];
        assert_eq!((at(0, 0.2), at(0, 0.6)), (255, 0));
        assert_eq!((at(1, 0.05), at(1, 0.2), at(1, 0.9)), (0, 4, 8));
        assert_eq!(map.class[COLUMNS + 200], 7);
        assert!(map.sites[0].is_empty());
        assert!(map.age[COLUMNS + 500] > map.age[COLUMNS + 100]);
    }
}
