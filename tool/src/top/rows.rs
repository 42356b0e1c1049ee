//! The rows of the live view: what each call site, thread, size class, arena or cache holds, and how that changed.
//! SPDX-License-Identifier: BSD-2-Clause

use super::watch::{Reading, Watch};
use crate::heap_view::Measure;
use crate::output::figures::{bytes, count, counted};
use crate::output::heap::place;
use crate::profile::{Estimate, variance_of_change};
use crate::symbols::Frame;
use serde::Serialize;
use std::collections::HashMap;

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    /// Call sites, from the heap profile
    Sites,
    /// Threads that allocated, from the heap profile
    Threads,
    /// Size classes
    Classes,
    /// Arenas
    Arenas,
    /// Object caches
    Caches,
}

impl Grouping {
    pub const ALL: [Grouping; 5] = [
        Grouping::Sites,
        Grouping::Threads,
        Grouping::Classes,
        Grouping::Arenas,
        Grouping::Caches,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Grouping::Sites => "call sites",
            Grouping::Threads => "threads",
            Grouping::Classes => "size classes",
            Grouping::Arenas => "arenas",
            Grouping::Caches => "object caches",
        }
    }

    /// Rows are estimates from samples; else they are counted.
    pub fn is_sampled(self) -> bool {
        matches!(self, Grouping::Sites | Grouping::Threads)
    }
}

/// What rows are sorted by, the largest first; names from A to Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// Change since the beginning
    Growth,
    /// Bytes that are alive
    Live,
    /// Change a second, lately
    Rate,
    Name,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    pub live_bytes: f64,
    /// One standard error; 0 where it is counted.
    pub live_error: f64,
    pub live_objects: f64,
    /// Since the beginning.
    pub growth_bytes: f64,
    pub growth_error: f64,
    pub bytes_a_second: f64,
    /// What there is besides: other figures, or the stack.
    pub detail: Vec<String>,
}

/// Beyond that many standard errors a change is taken for one. Many rows are looked at again and again: with two, of rows that do not change
/// one in fifty would be taken for growth at each look, and one in three at some time in a hundred looks.
const REAL: f64 = 3.0;

impl Row {
    /// More than chance explains.
    pub fn has_grown(&self) -> bool {
        self.growth_bytes > REAL * self.growth_error && self.growth_bytes > 0.0
    }

    pub fn has_shrunk(&self) -> bool {
        self.growth_bytes < -REAL * self.growth_error && self.growth_bytes < 0.0
    }
}

/// One thing at one moment.
#[derive(Debug, Clone, Default)]
struct Held {
    bytes: f64,
    objects: f64,
    variance: f64,
    /// The variance of all that there ever was.
    ever: f64,
    detail: Vec<String>,
}

impl Held {
    fn add(&mut self, live: &Estimate, ever: &Estimate) {
        self.bytes += live.bytes;
        self.objects += live.objects;
        self.variance += live.bytes_variance;
        self.ever += ever.bytes_variance;
    }
}

type HeldByName = HashMap<String, Held>;

pub fn of(watch: &Watch, grouping: Grouping, order: Order) -> Vec<Row> {
    let held = |reading: &Reading| held(reading, grouping);
    let (first, last) = (held(&watch.first), held(&watch.last));
    let (before, seconds) = match &watch.before {
        Some(before) => (held(before), (watch.last.at - before.at).as_secs_f64()),
        None => (HeldByName::new(), 0.0),
    };
    let names: Vec<&String> = first
        .keys()
        .filter(|name| !last.contains_key(*name))
        .chain(last.keys())
        .collect();
    let nothing = Held::default();
    let of = |side: &'_ HeldByName, name: &String| side.get(name).unwrap_or(&nothing).clone();
    let mut rows: Vec<Row> = names
        .into_iter()
        .map(|name| {
            let (start, now) = (of(&first, name), of(&last, name));
            let change = now.bytes - of(&before, name).bytes;
            Row {
                name: name.clone(),
                live_bytes: now.bytes,
                live_error: now.variance.sqrt(),
                live_objects: now.objects,
                growth_bytes: now.bytes - start.bytes,
                growth_error: variance_of_change([start.variance, now.variance], [start.ever, now.ever]).sqrt(),
                bytes_a_second: if seconds > 0.0 { change / seconds } else { 0.0 },
                detail: now.detail,
            }
        })
        .filter(|row| row.live_bytes > 0.0 || row.growth_bytes != 0.0)
        .collect();
    sort(&mut rows, order);
    rows
}

fn sort(rows: &mut [Row], order: Order) {
    let key = |row: &Row| match order {
        Order::Growth => row.growth_bytes,
        Order::Live => row.live_bytes,
        Order::Rate => row.bytes_a_second,
        Order::Name => 0.0,
    };
    // Equal ones keep their places from one look to the next.
    rows.sort_by(|a, b| {
        let by_live = b.live_bytes.total_cmp(&a.live_bytes);
        match order {
            Order::Name => a.name.cmp(&b.name),
            _ => key(b)
                .total_cmp(&key(a))
                .then(by_live)
                .then_with(|| a.name.cmp(&b.name)),
        }
    });
}

fn held(reading: &Reading, grouping: Grouping) -> HeldByName {
    match grouping {
        Grouping::Sites => sites(reading),
        Grouping::Threads => threads(reading),
        Grouping::Classes => classes(reading),
        Grouping::Arenas => arenas(reading),
        Grouping::Caches => caches(reading),
    }
}

/// Sites that differ only further out than the name tells are one row; its stack is that of the largest.
fn sites(reading: &Reading) -> HeldByName {
    let mut all = HeldByName::new();
    for site in reading.view.sites(Measure::LiveBytes) {
        let held = all.entry(place(site.frames)).or_default();
        held.add(&site.estimate, &Estimate::default());
        if held.detail.is_empty() {
            held.detail = site.frames.iter().rev().map(|frame| frame_line(frame)).collect();
        }
    }
    for site in reading.view.sites(Measure::AllBytes) {
        let held = all.entry(place(site.frames)).or_default();
        held.add(&Estimate::default(), &site.estimate);
    }
    all
}

fn frame_line(frame: &Frame) -> String {
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{}  {file}:{line}", frame.function),
        _ => format!("{}  {}", frame.function, frame.module),
    }
}

fn threads(reading: &Reading) -> HeldByName {
    let profile = &reading.view.profile;
    let mut sums: HashMap<u32, Held> = HashMap::new();
    for sample in &profile.samples {
        sums.entry(sample.thread).or_default().add(&sample.live, &sample.total);
    }
    let named = sums.into_iter().map(|(thread, sum)| {
        let name = match profile.threads.get(&thread) {
            Some(name) => format!("thread {thread} {name}"),
            None => format!("thread {thread}"),
        };
        (name, sum)
    });
    named.collect()
}

fn classes(reading: &Reading) -> HeldByName {
    let classes = reading.counters.classes.iter().map(|class| {
        let full = match class.slab_bytes {
            0 => "no slabs: each object has pages of its own".to_string(),
            whole => format!(
                "{} of {}, {} % of that in use, {}",
                counted(class.slabs, "slab"),
                bytes(whole),
                class.live_bytes().saturating_mul(100) / whole,
                counted(class.free_buffers, "free buffer")
            ),
        };
        let moved = format!(
            "{} handed out, {} taken back, {} free in magazines",
            count(class.handed_out),
            count(class.taken_back),
            count(class.cached)
        );
        let held = Held {
            bytes: class.live_bytes() as f64,
            objects: class.live as f64,
            detail: vec![full, moved],
            ..Held::default()
        };
        (bytes(class.size), held)
    });
    classes.collect()
}

fn arenas(reading: &Reading) -> HeldByName {
    let arenas = reading.counters.arenas.iter().map(|arena| {
        let detail = format!(
            "{}; {} active, {} dirty, {} in magazines, {} mapped",
            counted(arena.threads.into(), "thread"),
            bytes(arena.active),
            bytes(arena.dirty),
            bytes(arena.cached),
            bytes(arena.mapped)
        );
        let held = Held {
            bytes: arena.allocated as f64,
            detail: vec![detail],
            ..Held::default()
        };
        (format!("arena {}", arena.number), held)
    });
    arenas.collect()
}

/// Caches of one name are one row.
fn caches(reading: &Reading) -> HeldByName {
    let mut all = HeldByName::new();
    for cache in &reading.counters.caches {
        let held = all.entry(cache.name.clone()).or_default();
        held.bytes += (cache.out * cache.buffer_bytes) as f64;
        held.objects += cache.out as f64;
        held.detail.push(format!(
            "objects of {} in buffers of {}; {} of {}, {} free in the depot",
            bytes(cache.object_bytes),
            bytes(cache.buffer_bytes),
            counted(cache.slabs, "slab"),
            bytes(cache.slab_bytes),
            count(cache.cached)
        ));
    }
    add_takers(&mut all, reading);
    all
}

/// Who took a cache's objects, as far as they were sampled, the largest first.
fn add_takers(caches: &mut HeldByName, reading: &Reading) {
    let profile = &reading.view.profile;
    let mut sums: HashMap<(String, String), Estimate> = HashMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.live.bytes > 0.0) {
        if let Some(cache) = profile.cache_name(sample) {
            let site = place(&reading.view.named.stacks[sample.stack]);
            *sums.entry((cache, site)).or_default() += sample.live;
        }
    }
    let mut takers: Vec<_> = sums.into_iter().collect();
    takers.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
    for ((cache, site), sum) in takers {
        if let Some(held) = caches.get_mut(&cache) {
            let (live, error) = (bytes(sum.bytes as u64), bytes(sum.bytes_error() as u64));
            held.detail.push(format!("{live} ± {error} by {site}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, live: f64, growth: f64, error: f64) -> Row {
        Row {
            name: name.to_string(),
            live_bytes: live,
            live_error: 0.0,
            live_objects: 0.0,
            growth_bytes: growth,
            growth_error: error,
            bytes_a_second: 0.0,
            detail: Vec::new(),
        }
    }

    #[test]
    fn rows_are_sorted_and_stay() {
        let mut rows = vec![
            row("b", 5.0, 1.0, 0.0),
            row("a", 5.0, 1.0, 0.0),
            row("c", 1.0, 9.0, 0.0),
        ];
        let names = |rows: &[Row]| rows.iter().map(|row| row.name.clone()).collect::<String>();
        sort(&mut rows, Order::Growth);
        assert_eq!(names(&rows), "cab");
        sort(&mut rows, Order::Live);
        assert_eq!(names(&rows), "abc");
        sort(&mut rows, Order::Rate);
        assert_eq!(names(&rows), "abc");
    }

    #[test]
    fn what_is_replaced_is_uncertain() {
        let samples = |count| Estimate::of_samples(count, 1024, 19);
        let growth_error = |live: [u64; 2], ever: [u64; 2]| {
            let [start, now] = [0, 1].map(|side| {
                let mut held = Held::default();
                held.add(&samples(live[side]), &samples(ever[side]));
                held
            });
            variance_of_change([start.variance, now.variance], [start.ever, now.ever]).sqrt()
        };
        let error = |count| samples(count).bytes_error();
        assert!((growth_error([100, 109], [100, 109]) - error(9)).abs() < 1.0);
        // 100 came and 90 went.
        assert!((growth_error([90, 100], [90, 190]) - error(190)).abs() < 1.0);
        // What came and went in between does not matter.
        assert!((growth_error([0, 100], [0, 5000]) - error(100)).abs() < 1.0);
        // Counted anew in between (prof.reset).
        assert!((growth_error([90, 100], [900, 100]) - error(190)).abs() < 1.0);
    }

    #[test]
    fn chance_is_no_growth() {
        assert!(row("a", 9.0, 7.0, 2.0).has_grown() && row("a", 9.0, -7.0, 2.0).has_shrunk());
        assert!(!row("a", 9.0, 5.0, 2.0).has_grown() && !row("a", 9.0, -5.0, 2.0).has_shrunk());
        assert!(!row("a", 9.0, -5.0, 0.0).has_grown() && !row("a", 9.0, 0.0, 0.0).has_shrunk());
    }
}
