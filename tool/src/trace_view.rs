//! What a trace says: sums, a time line, size classes, lifetimes, and the picture of address by time (2006, Figure 9).
//!
//! Two passes, in memory that does not grow with the trace but with what is alive at once: the first finds out which
//! addresses are used, the second draws. Addresses that nothing ever used are left out of the picture.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::trace::{Event, Kind, Trace};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};

/// Columns of the time line and of the picture, and rows of the picture at most.
pub const COLUMNS: usize = 800;
pub const ROWS: usize = 400;
const LG_BLOCK: u32 = 12;
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

#[derive(Debug, Default, Serialize)]
pub struct Summary {
    pub pid: u32,
    pub file_bytes: u64,
    pub seconds: f64,
    pub events: u64,
    pub threads: usize,
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
    pub classes: Vec<SizeClass>,
    /// Freed objects by the logarithm of the nanoseconds that they lived.
    pub lifetimes: Vec<u64>,
    /// At the end of each column.
    pub live_line: Vec<u64>,
    /// In each column.
    pub event_line: Vec<u64>,
}

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
}

pub struct TraceView {
    pub summary: Summary,
    pub map: Map,
}

pub fn look(trace: &Trace, progress: &mut dyn FnMut(f64)) -> Result<TraceView> {
    let failed = |error| {
        ToolError::new(
            format!("cannot read the trace {}", trace.path().display()),
            error,
            "look whether the disk is well; the file was there a moment ago",
        )
    };
    let mut sums = Sums::new(trace);
    let mut losses = trace
        .for_each(|event| sums.take(&event), |part| progress(part / 2.0))
        .map_err(failed)?;
    losses.chunks += trace.damaged;
    let mut drawing = Drawing::new(trace, &sums.blocks);
    trace
        .for_each(|event| drawing.take(&event), |part| progress(0.5 + part / 2.0))
        .map_err(failed)?;
    let mut summary = sums.finish(trace);
    summary.damaged_chunks = losses.chunks;
    Ok(TraceView {
        summary,
        map: drawing.finish(),
    })
}

fn column_of(time: u64, duration: u64) -> usize {
    ((u128::from(time) * COLUMNS as u128 / u128::from(duration)) as usize).min(COLUMNS - 1)
}

/// The first pass.
struct Sums {
    duration: u64,
    live: HashMap<u64, (u64, u64)>,
    live_bytes: u64,
    classes: HashMap<u64, SizeClass>,
    blocks: BTreeSet<u64>,
    column: usize,
    summary: Summary,
}

impl Sums {
    fn new(trace: &Trace) -> Sums {
        Sums {
            duration: trace.duration_ns,
            live: HashMap::new(),
            live_bytes: 0,
            classes: HashMap::new(),
            blocks: BTreeSet::new(),
            column: 0,
            summary: Summary {
                lifetimes: vec![0; LIFETIMES],
                event_line: vec![0; COLUMNS],
                ..Summary::default()
            },
        }
    }

    fn take(&mut self, event: &Event) {
        let column = column_of(event.time, self.duration);
        while self.column < column {
            self.summary.live_line.push(self.live_bytes);
            self.column += 1;
        }
        self.summary.event_line[column] += 1;
        match event.kind {
            Kind::Alloc => {
                self.summary.allocations += 1;
                self.allocated(event);
            }
            Kind::Free => self.freed(event),
            Kind::Resize => {
                self.summary.resizes += 1;
                if let Some((size, _)) = self.live.remove(&event.address) {
                    self.gone(size);
                }
                self.allocated(event);
            }
        }
        if self.live_bytes > self.summary.peak_live_bytes {
            self.summary.peak_live_bytes = self.live_bytes;
            self.summary.peak_seconds = event.time as f64 / 1e9;
        }
    }

    fn allocated(&mut self, event: &Event) {
        // An address that is handed out again was freed while nobody looked.
        if let Some((size, _)) = self.live.insert(event.address, (event.size, event.time)) {
            self.gone(size);
        }
        self.live_bytes += event.size;
        self.summary.allocated_bytes += event.size;
        let class = self.classes.entry(event.size).or_default();
        class.allocations += 1;
        class.live_at_end += 1;
        class.peak_live = class.peak_live.max(class.live_at_end);
        for block in event.address >> LG_BLOCK..=(event.address + event.size.max(1) - 1) >> LG_BLOCK {
            self.blocks.insert(block);
        }
    }

    fn gone(&mut self, size: u64) {
        self.live_bytes -= size;
        let class = self.classes.entry(size).or_default();
        class.frees += 1;
        class.live_at_end -= 1;
    }

    fn freed(&mut self, event: &Event) {
        self.summary.frees += 1;
        let Some((size, born)) = self.live.remove(&event.address) else {
            self.summary.unknown_frees += 1;
            return;
        };
        self.gone(size);
        let lifetime = event.time.saturating_sub(born).max(1).ilog2() as usize;
        self.summary.lifetimes[lifetime.min(LIFETIMES - 1)] += 1;
    }

    fn finish(mut self, trace: &Trace) -> Summary {
        self.summary.live_line.resize(COLUMNS, self.live_bytes);
        let mut classes: Vec<SizeClass> = self
            .classes
            .into_iter()
            .map(|(bytes, class)| SizeClass { bytes, ..class })
            .collect();
        classes.sort_by_key(|class| class.bytes);
        Summary {
            pid: trace.pid,
            file_bytes: trace.bytes,
            seconds: trace.duration_ns as f64 / 1e9,
            events: self.summary.event_line.iter().sum(),
            threads: trace.threads,
            live_bytes_at_end: self.live_bytes,
            live_objects_at_end: self.live.len() as u64,
            oldest_events_missing: trace.is_cut,
            classes,
            ..self.summary
        }
    }
}

#[derive(Clone)]
struct Row {
    live: u64,
    /// Sum of bytes · time of birth.
    births: f64,
    by_size: [u64; 65],
}

impl Row {
    const EMPTY: Row = Row {
        live: 0,
        births: 0.0,
        by_size: [0; 65],
    };
}

/// The second pass.
struct Drawing {
    duration: u64,
    rows: Vec<Row>,
    blocks: Vec<u64>,
    blocks_a_row: usize,
    live: HashMap<u64, (u64, u64)>,
    column: usize,
    map: Map,
}

impl Drawing {
    fn new(trace: &Trace, blocks: &BTreeSet<u64>) -> Drawing {
        let blocks: Vec<u64> = blocks.iter().copied().collect();
        let blocks_a_row = blocks.len().div_ceil(ROWS).max(1);
        let starts: Vec<usize> = (0..blocks.len()).step_by(blocks_a_row).collect();
        let rows = starts.len();
        Drawing {
            duration: trace.duration_ns,
            rows: vec![Row::EMPTY; rows],
            live: HashMap::new(),
            column: 0,
            map: Map {
                rows,
                columns: COLUMNS,
                row_bytes: (blocks_a_row as u64) << LG_BLOCK,
                row_address: starts.iter().map(|start| blocks[*start] << LG_BLOCK).collect(),
                gap_before: starts
                    .iter()
                    .map(|start| *start > 0 && blocks[*start] != blocks[start - 1] + 1)
                    .collect(),
                occupancy: vec![0; rows * COLUMNS],
                age: vec![0; rows * COLUMNS],
                class: vec![0; rows * COLUMNS],
            },
            blocks,
            blocks_a_row,
        }
    }

    fn take(&mut self, event: &Event) {
        let column = column_of(event.time, self.duration);
        while self.column < column {
            self.draw();
        }
        if event.kind != Kind::Free {
            self.put(event.address, event.size, event.time);
            return;
        }
        if let Some((size, born)) = self.live.remove(&event.address) {
            self.change(event.address, size, born, false);
        }
    }

    fn put(&mut self, address: u64, size: u64, time: u64) {
        if let Some((old, born)) = self.live.insert(address, (size, time)) {
            self.change(address, old, born, false);
        }
        self.change(address, size, time, true);
    }

    /// Adds an object to the rows that it lies in, or takes it out.
    fn change(&mut self, address: u64, size: u64, born: u64, more: bool) {
        let (mut at, end) = (address, address + size);
        while at < end {
            let block = at >> LG_BLOCK;
            let until = end.min((block + 1) << LG_BLOCK);
            let Ok(index) = self.blocks.binary_search(&block) else {
                return;
            };
            let row = &mut self.rows[index / self.blocks_a_row];
            let (bytes, lg) = (until - at, size.max(1).ilog2() as usize);
            let births = born as f64 * bytes as f64;
            if more {
                row.live += bytes;
                row.births += births;
                row.by_size[lg] += bytes;
            } else {
                row.live -= bytes.min(row.live);
                row.births -= births;
                row.by_size[lg] -= bytes.min(row.by_size[lg]);
            }
            at = until;
        }
    }

    fn draw(&mut self) {
        let now = (self.column as f64 + 1.0) * self.duration as f64 / COLUMNS as f64;
        for (index, row) in self.rows.iter().enumerate().filter(|(_, row)| row.live > 0) {
            let cell = index * COLUMNS + self.column;
            let share = row.live as f64 / self.map.row_bytes as f64;
            self.map.occupancy[cell] = (share * 255.0).ceil().min(255.0) as u8;
            let age = (now - row.births / row.live as f64).max(1.0);
            self.map.age[cell] = 1 + (age.log2() * 5.0).clamp(0.0, 254.0) as u8;
            let most = (0..65).max_by_key(|lg| row.by_size[*lg]).unwrap_or(0);
            self.map.class[cell] = 1 + most as u8;
        }
        self.column += 1;
    }

    fn finish(mut self) -> Map {
        while self.column < COLUMNS {
            self.draw();
        }
        self.map
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::trace::tests::{chunk, file};

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
            (3, 2, 1, 1)
        );
        assert_eq!(
            (
                summary.peak_live_bytes,
                summary.live_bytes_at_end,
                summary.live_objects_at_end
            ),
            (4160, 144, 2)
        );
        assert_eq!(summary.lifetimes[8], 1);
        assert_eq!(summary.live_line[0], 4096);
        assert_eq!(
            summary.classes.iter().find(|class| class.bytes == 4096).unwrap().frees,
            1
        );
        assert_eq!(summary.events, 6);
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
        assert!(map.age[COLUMNS + 500] > map.age[COLUMNS + 100]);
    }
}
