//! Counters of processes in Prometheus's text format, or OpenMetrics, which differs in little.
//! SPDX-License-Identifier: BSD-2-Clause

use super::readings;
use super::targets::Present;
use crate::attach::{CacheCounters, Counters, Process};
use crate::explain::cgroup;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How much is told: labels cost whoever keeps the series.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    pub arenas: bool,
    pub classes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// text/plain; version=0.0.4
    Prometheus,
    /// application/openmetrics-text; version=1.0.0
    OpenMetrics,
}

impl Dialect {
    /// By the header "Accept" of the question.
    pub fn accepted(accept: &str) -> Dialect {
        let (mut open, mut plain) = (0.0f32, 0.0f32);
        for range in accept.split(',') {
            let mut words = range.split(';').map(str::trim);
            let kind = words.next().unwrap_or("");
            let weight = words.filter_map(|word| word.strip_prefix("q=")).next();
            let weight: f32 = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            match kind.to_ascii_lowercase().as_str() {
                "application/openmetrics-text" => open = weight.max(open),
                "text/plain" => plain = weight.max(plain),
                _ => {}
            }
        }
        match open > 0.0 && open >= plain {
            true => Dialect::OpenMetrics,
            false => Dialect::Prometheus,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Dialect::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Dialect::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    /// Its name ends in _total.
    Counter,
}

/// All samples of one name.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    /// Labels, and the value.
    samples: Vec<(String, u64)>,
}

struct Families(Vec<Family>);

impl Families {
    fn add(&mut self, name: &'static str, kind: Kind, help: &'static str, labels: &str, value: u64) {
        let sample = (labels.to_string(), value);
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => family.samples.push(sample),
            None => self.0.push(Family {
                name,
                help,
                kind,
                samples: vec![sample],
            }),
        }
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, labels: &str, value: u64) {
        self.add(name, Kind::Gauge, help, labels, value);
    }

    fn counter(&mut self, name: &'static str, help: &'static str, labels: &str, value: u64) {
        self.add(name, Kind::Counter, help, labels, value);
    }

    fn written(&self, dialect: Dialect) -> String {
        let mut out = String::new();
        for family in &self.0 {
            let (name, kind) = match (family.kind, dialect) {
                (Kind::Gauge, _) => (family.name, "gauge"),
                (Kind::Counter, Dialect::Prometheus) => (family.name, "counter"),
                (Kind::Counter, Dialect::OpenMetrics) => (family.name.trim_end_matches("_total"), "counter"),
            };
            let _ = writeln!(out, "# HELP {name} {}", family.help);
            let _ = writeln!(out, "# TYPE {name} {kind}");
            for (labels, value) in &family.samples {
                let _ = match labels.is_empty() {
                    true => writeln!(out, "{} {value}", family.name),
                    false => writeln!(out, "{}{{{labels}}} {value}", family.name),
                };
            }
        }
        if dialect == Dialect::OpenMetrics {
            out.push_str("# EOF\n");
        }
        out
    }
}

pub fn write(present: &Present, detail: Detail, dialect: Dialect) -> String {
    let mut families = Families(Vec::new());
    let mut read = 0;
    for process in &present.processes {
        let of = process.clone();
        let counted = readings::of(process.pid, move || Some((of.counters().ok()?, of.sampling())));
        if let Some((counters, sampling)) = counted.flatten() {
            read += 1;
            add_process(&mut families, process, &counters, sampling, detail);
        }
    }
    let unreadable = present.unreadable + present.processes.len() - read;
    let help = "Processes that were named, or have mapped the library, and cannot be read: ended, not permitted, or too slow.";
    families.gauge("vmag_unreadable_processes", help, "", unreadable as u64);
    families.gauge("vmag_processes", "Processes that were read.", "", read as u64);
    families.written(dialect)
}

/// `sampling`: whether it does, and the distance.
fn add_process(
    families: &mut Families,
    process: &Process,
    counters: &Counters,
    sampling: Option<(bool, u64)>,
    detail: Detail,
) {
    let labels = format!("pid=\"{}\",program=\"{}\"", process.pid, escaped(&process.program));
    let version = format!("{labels},version=\"{}\"", escaped(process.library_version()));
    families.gauge("vmag_process_info", "The library's version in a process.", &version, 1);
    let sums = [
        (
            "vmag_allocated_bytes",
            "Held by the program, rounded up to size classes; what object caches handed out is vmag_cache_out_bytes.",
            counters.allocated,
        ),
        ("vmag_active_bytes", "In slabs and page runs in use.", counters.active),
        (
            "vmag_dirty_bytes",
            "In unused pages that were not given back yet.",
            counters.dirty,
        ),
        (
            "vmag_magazines_bytes",
            "Free objects kept in magazines of threads, processors and depots.",
            counters.cached,
        ),
        ("vmag_metadata_bytes", "The library's own.", counters.metadata),
        ("vmag_mapped_bytes", "Address space of the heap.", counters.mapped),
    ];
    for (name, help, value) in sums {
        families.gauge(name, help, &labels, value);
    }
    if let Some(resident) = counters.process_resident {
        let help = "Resident memory of the whole process, by the kernel.";
        families.gauge("vmag_resident_bytes", help, &labels, resident);
    }
    families.gauge(
        "vmag_threads",
        "Threads that have magazines.",
        &labels,
        counters.threads.into(),
    );
    if let Some(sampling) = sampling {
        add_sampling(families, sampling, &labels);
    }
    add_group(families, process.pid, &labels);
    add_caches(families, &counters.caches, &labels);
    if detail.arenas {
        add_arenas(families, counters, &labels);
    }
    if detail.classes {
        add_classes(families, counters, &labels);
    }
}

fn add_sampling(families: &mut Families, (active, distance): (bool, u64), labels: &str) {
    let help = "1 while the heap profiler samples.";
    families.gauge("vmag_profile_active", help, labels, active.into());
    let help = "Mean bytes between two samples of the heap profiler.";
    families.gauge("vmag_profile_sample_bytes", help, labels, distance);
}

fn add_group(families: &mut Families, pid: i32, labels: &str) {
    let Some(group) = cgroup::of(pid) else { return };
    let help = "Used by the process's control group, page cache and other processes in it too.";
    families.gauge("vmag_cgroup_used_bytes", help, labels, group.used_bytes);
    if let Some(limit) = group.limit_bytes {
        let help = "The least limit from the process's control group up to the root.";
        families.gauge("vmag_cgroup_limit_bytes", help, labels, limit);
    }
}

fn add_caches(families: &mut Families, caches: &[CacheCounters], labels: &str) {
    // Several may have one name, and a series may be there only once: they are told together.
    let mut by_name: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for cache in caches {
        let sums = by_name.entry(&cache.name).or_default();
        let bytes = cache.out.saturating_mul(cache.buffer_bytes);
        for (sum, value) in sums.iter_mut().zip([cache.out, bytes, cache.cached, cache.slab_bytes]) {
            *sum = sum.saturating_add(value);
        }
    }
    for (name, [out, out_bytes, cached, slab_bytes]) in by_name {
        let labels = format!("{labels},cache=\"{}\"", escaped(name));
        let help = "Objects of a cache outside slabs and depot: the program's, and those in magazines of threads.";
        families.gauge("vmag_cache_out_objects", help, &labels, out);
        let help = "Bytes of those objects.";
        families.gauge("vmag_cache_out_bytes", help, &labels, out_bytes);
        let help = "Free objects of a cache in its depot.";
        families.gauge("vmag_cache_depot_objects", help, &labels, cached);
        let help = "Bytes in slabs of a cache.";
        families.gauge("vmag_cache_slab_bytes", help, &labels, slab_bytes);
    }
}

fn add_arenas(families: &mut Families, counters: &Counters, labels: &str) {
    for arena in &counters.arenas {
        let labels = format!("{labels},arena=\"{}\"", arena.number);
        let help = "Held by the program, of an arena.";
        families.gauge("vmag_arena_allocated_bytes", help, &labels, arena.allocated);
        families.gauge("vmag_arena_active_bytes", "In use, of an arena.", &labels, arena.active);
        families.gauge(
            "vmag_arena_dirty_bytes",
            "Unused pages of an arena.",
            &labels,
            arena.dirty,
        );
        let help = "Free objects of an arena in magazines.";
        families.gauge("vmag_arena_magazines_bytes", help, &labels, arena.cached);
        families.gauge(
            "vmag_arena_threads",
            "Threads that use an arena.",
            &labels,
            arena.threads.into(),
        );
    }
}

fn add_classes(families: &mut Families, counters: &Counters, labels: &str) {
    for class in &counters.classes {
        let labels = format!("{labels},size=\"{}\"", class.size);
        let help = "Objects that the program holds, of a size class.";
        families.gauge("vmag_class_live_objects", help, &labels, class.live);
        let help = "Free objects in magazines, of a size class.";
        families.gauge("vmag_class_magazines_objects", help, &labels, class.cached);
        families.gauge("vmag_class_slabs", "Slabs of a size class.", &labels, class.slabs);
        families.gauge(
            "vmag_class_slab_bytes",
            "Bytes in slabs of a size class.",
            &labels,
            class.slab_bytes,
        );
        let help = "Free buffers in slabs of a size class.";
        families.gauge("vmag_class_free_buffers", help, &labels, class.free_buffers);
        let help = "Objects that left slabs or page runs, ever.";
        families.counter("vmag_class_handed_out_total", help, &labels, class.handed_out);
        let help = "Objects that came back into slabs or page runs, ever.";
        families.counter("vmag_class_taken_back_total", help, &labels, class.taken_back);
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_together_and_dialects_differ() {
        let mut families = Families(Vec::new());
        families.gauge("vmag_a_bytes", "A.", "pid=\"1\"", 5);
        families.counter("vmag_b_total", "B.", "", 7);
        families.gauge("vmag_a_bytes", "A.", "pid=\"2{} \"", 1 << 60);
        assert_eq!(
            families.written(Dialect::Prometheus),
            "# HELP vmag_a_bytes A.\n# TYPE vmag_a_bytes gauge\nvmag_a_bytes{pid=\"1\"} 5\n\
             vmag_a_bytes{pid=\"2{} \"} 1152921504606846976\n# HELP vmag_b_total B.\n# TYPE vmag_b_total counter\nvmag_b_total 7\n"
        );
        let open = families.written(Dialect::OpenMetrics);
        assert!(
            open.contains("# TYPE vmag_b counter\nvmag_b_total 7\n") && open.ends_with("# EOF\n"),
            "{open}"
        );
    }

    #[test]
    fn caches_of_one_name_are_one_series() {
        let cache = |name: &str, out| CacheCounters {
            name: name.to_string(),
            object_bytes: 24,
            buffer_bytes: 32,
            out,
            cached: 3,
            slabs: 1,
            slab_bytes: 4096,
        };
        let mut families = Families(Vec::new());
        add_caches(
            &mut families,
            &[cache("a", 1), cache("b", 2), cache("a", 5)],
            "pid=\"1\"",
        );
        let text = families.written(Dialect::Prometheus);
        let out_bytes = |line: &&str| line.starts_with("vmag_cache_out_bytes{");
        let series: Vec<&str> = text.lines().filter(out_bytes).collect();
        assert_eq!(
            series,
            [
                "vmag_cache_out_bytes{pid=\"1\",cache=\"a\"} 192",
                "vmag_cache_out_bytes{pid=\"1\",cache=\"b\"} 64"
            ]
        );
    }

    #[test]
    fn the_dialect_is_the_one_that_is_wanted_most() {
        const OPEN: &str = "application/openmetrics-text";
        let is_open = |accept: &str| Dialect::accepted(accept) == Dialect::OpenMetrics;
        assert!(
            is_open(OPEN)
                && is_open(&format!(
                    "{OPEN};version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
                ))
        );
        assert!(!is_open("") && !is_open("*/*") && !is_open("text/plain"));
        assert!(!is_open(&format!("{OPEN};q=0")) && !is_open(&format!("{OPEN}; q=0.3, text/plain")));
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
