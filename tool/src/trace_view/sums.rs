//! The first pass over a trace: what was allocated and freed, by size, cache, arena and stack, and what was alive when.
//! SPDX-License-Identifier: BSD-2-Clause

use super::{COLUMNS, LIFETIMES, Lived, SizeClass, Source, Summary, column_of};
use crate::live::{Live, LiveTable};
use crate::output::figures::{count, counted};
use crate::trace::{Event, Kind, Losses, Named, Trace};
use crate::trace_map::Blocks;
use rustc_hash::FxHashMap;
use std::collections::HashMap;

/// What the allocations of one stack came to.
#[derive(Debug, Clone, Default)]
pub struct StackSum {
    pub number: u32,
    pub live_bytes: u64,
    pub live_objects: u64,
    pub all_bytes: u64,
    pub all_objects: u64,
    /// Live bytes at the end of each column, added up: who holds much for long.
    pub weight: f64,
}

/// Of how many allocations the stack is not in the file.
#[derive(Default)]
pub struct LostStacks {
    lost: u64,
    all: u64,
}

impl LostStacks {
    pub fn take(&mut self, trace: &Trace, event: &Event) {
        let is_counted = event.is_heap && event.stack != 0; // frees have none
        self.all += u64::from(is_counted);
        self.lost += u64::from(is_counted && !has_stack(trace, event.stack as usize));
    }

    /// What a trace does not tell, in words; None: it tells all.
    pub fn missing(&self, trace: &Trace, losses: &Losses) -> Option<String> {
        missing(trace, losses, self.lost, self.all)
    }
}

fn missing(trace: &Trace, losses: &Losses, lost_stacks: u64, allocations: u64) -> Option<String> {
    let no_room = (lost_stacks > 0 && (trace.is_cut || trace.facts.is_full)).then(|| {
        format!(
            "the file had no room for the stacks of {} of {}, more with --trace-bytes",
            count(lost_stacks),
            counted(allocations, "allocation")
        )
    });
    let parts: Vec<String> = trace.missing(losses).into_iter().chain(no_room).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn has_stack(trace: &Trace, number: usize) -> bool {
    trace.facts.stacks.get(number).is_some_and(|frames| !frames.is_empty())
}

/// The first pass.
pub struct Sums {
    duration: u64,
    live: LiveTable,
    live_bytes: u64,
    classes: FxHashMap<u64, SizeClass>,
    pub blocks: Blocks,
    caches: FxHashMap<u32, Source>,
    arenas: FxHashMap<u32, Source>,
    /// By number.
    stacks: Vec<StackSum>,
    column: usize,
    summary: Summary,
}

impl Sums {
    pub fn new(trace: &Trace) -> Sums {
        Sums {
            duration: trace.duration_ns,
            live: LiveTable::new(trace.duration_ns),
            live_bytes: 0,
            classes: FxHashMap::default(),
            blocks: Blocks::default(),
            caches: FxHashMap::default(),
            arenas: FxHashMap::default(),
            stacks: Vec::new(),
            column: 0,
            summary: Summary {
                lifetimes: vec![0; LIFETIMES],
                lived: Lived::steps(),
                event_line: vec![0; COLUMNS],
                ..Summary::default()
            },
        }
    }

    pub fn take(&mut self, event: &Event) {
        let column = column_of(event.time, self.duration);
        while self.column < column {
            self.end_column();
        }
        self.summary.event_line[column] += 1;
        match event.kind {
            Kind::Alloc => {
                self.summary.allocations += 1;
                self.allocated(event, Live::of(event, false));
            }
            Kind::Free => self.freed(event),
            Kind::Resize => {
                self.summary.resizes += 1;
                // As in a profile it is another allocation, but it is as old as it was.
                self.summary.allocations += 1;
                let mut object = Live::of(event, false);
                if let Some(old) = self.live.remove(event.address) {
                    object.born = old.born;
                    self.gone(&old);
                }
                self.allocated(event, object);
            }
            Kind::CacheAlloc | Kind::ArenaAlloc => self.source_event(event, true),
            Kind::CacheFree | Kind::ArenaFree => self.source_event(event, false),
        }
        if self.live_bytes > self.summary.peak_live_bytes {
            self.summary.peak_live_bytes = self.live_bytes;
            self.summary.peak_seconds = event.time as f64 / 1e9;
        }
    }

    fn source_event(&mut self, event: &Event, allocates: bool) {
        let is_cache = matches!(event.kind, Kind::CacheAlloc | Kind::CacheFree);
        let sources = if is_cache { &mut self.caches } else { &mut self.arenas };
        let source = sources.entry(event.number).or_default();
        let amount = if is_cache { 1 } else { event.size as i64 };
        if allocates {
            source.allocations += 1;
            source.live += amount;
            source.peak_live = source.peak_live.max(source.live);
        } else {
            source.frees += 1;
            source.live -= amount;
        }
        if !event.is_heap {
            return;
        }
        if allocates {
            self.summary.allocations += 1;
            self.allocated(event, Live::of(event, true));
        } else {
            self.freed(event);
        }
    }

    fn end_column(&mut self) {
        self.summary.live_line.push(self.live_bytes);
        self.column += 1;
        for stack in &mut self.stacks {
            stack.weight += stack.live_bytes as f64;
        }
    }

    fn stack(&mut self, number: u32) -> Option<&mut StackSum> {
        const MOST: usize = 1 << 21;
        let index = number as usize;
        if number == 0 || index >= MOST {
            return None;
        }
        if self.stacks.len() <= index {
            self.stacks.resize(index + 1, StackSum::default());
        }
        Some(&mut self.stacks[index])
    }

    fn allocated(&mut self, event: &Event, object: Live) {
        // An address that is handed out again was freed while nobody looked.
        if let Some(old) = self.live.insert(event.address, &object) {
            self.gone(&old);
        }
        self.live_bytes += event.size;
        self.blocks.add(event.address, event.size);
        if let Some(stack) = self.stack(event.stack) {
            stack.live_bytes += event.size;
            stack.live_objects += 1;
            stack.all_bytes = stack.all_bytes.saturating_add(event.size);
            stack.all_objects += 1;
        }
        // A tebibyte that was asked for again and again comes to more than 2^64.
        self.summary.allocated_bytes = self.summary.allocated_bytes.saturating_add(event.size);
        if object.of_cache {
            return;
        }
        let class = self.classes.entry(event.size).or_default();
        class.allocations += 1;
        class.live_at_end += 1;
        class.peak_live = class.peak_live.max(class.live_at_end);
    }

    fn gone(&mut self, object: &Live) {
        self.live_bytes -= object.size;
        if let Some(stack) = self.stack(object.stack) {
            stack.live_bytes -= object.size;
            stack.live_objects -= 1;
        }
        if object.of_cache {
            return;
        }
        let class = self.classes.entry(object.size).or_default();
        class.frees += 1;
        class.live_at_end -= 1;
    }

    fn freed(&mut self, event: &Event) {
        self.summary.frees += 1;
        let Some(object) = self.live.remove(event.address) else {
            self.summary.unknown_frees += 1;
            return;
        };
        self.gone(&object);
        let lifetime = event.time.saturating_sub(object.born);
        let lg = lifetime.max(1).ilog2() as usize;
        self.summary.lifetimes[lg.min(LIFETIMES - 1)] += 1;
        if let Some(step) = self.summary.lived.iter_mut().find(|step| step.has(lifetime)) {
            step.objects += 1;
        }
    }

    pub fn finish(mut self, trace: &Trace, losses: Losses) -> (Summary, Vec<StackSum>) {
        while self.column < COLUMNS {
            self.end_column();
        }
        let mut classes: Vec<SizeClass> = self
            .classes
            .into_iter()
            .map(|(bytes, class)| SizeClass { bytes, ..class })
            .collect();
        classes.sort_by_key(|class| class.bytes);
        let unknown_stacks = unknown_stacks(trace, &self.stacks);
        let allocations = self.stacks.iter().map(|sum| sum.all_objects).sum();
        let summary = Summary {
            pid: trace.pid,
            file_bytes: trace.bytes,
            seconds: trace.duration_ns as f64 / 1e9,
            events: self.summary.event_line.iter().sum(),
            threads: trace.threads,
            live_bytes_at_end: self.live_bytes,
            live_objects_at_end: self.live.len() as u64,
            oldest_events_missing: trace.is_cut,
            newest_events_missing: trace.lacks_newest(),
            missing_at_ends: trace.missing_at_ends(),
            damaged_chunks: trace.damaged + losses.chunks,
            missing: missing(trace, &losses, unknown_stacks, allocations),
            has_stacks: trace.has_stacks,
            unknown_stacks,
            classes,
            caches: named(self.caches, &trace.facts.caches, "cache"),
            arenas: named(self.arenas, &trace.facts.arenas, "arena"),
            ..self.summary
        };
        let number = |(number, sum): (usize, StackSum)| StackSum {
            number: number as u32,
            ..sum
        };
        let stacks = self
            .stacks
            .into_iter()
            .enumerate()
            .map(number)
            .filter(|sum| sum.all_objects > 0);
        (summary, stacks.collect())
    }
}

/// Allocations of stacks that the file does not have.
fn unknown_stacks(trace: &Trace, sums: &[StackSum]) -> u64 {
    let lacking = sums.iter().enumerate().filter(|(number, _)| !has_stack(trace, *number));
    lacking.map(|(_, sum)| sum.all_objects).sum()
}

fn named(sources: FxHashMap<u32, Source>, names: &HashMap<u32, Named>, kind: &str) -> Vec<Source> {
    let name = |number: u32| {
        names
            .get(&number)
            .map_or(format!("{kind} {number}"), |named| named.name.clone())
    };
    let mut all: Vec<Source> = sources
        .into_iter()
        .map(|(number, source)| Source {
            number,
            name: name(number),
            ..source
        })
        .collect();
    all.sort_by_key(|source| source.number);
    all
}
