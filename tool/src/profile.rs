//! Heap profiles: heap_v2 text of vmag, with the samples it is made of, or of jemalloc, which has estimates only; or of a black
//! box (black_box.rs), or of a process that runs (attach.rs).
//!
//! n samples of S bytes at a mean distance of R bytes stand for n/p objects with p = 1 − e^(−S/R); the variance of that
//! estimate is n·(1−p)/p², and S² times it for bytes.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::Then;
use crate::black_box::{self, BlackBox};
use crate::bundle::{self, Known};
use crate::error::{Result, ToolError};
use crate::image::{self, ObjectFile};
use crate::output::in_line;
use crate::process::by_told_name;
use crate::progress::Progress;
use crate::source::{self, spoken};
use crate::trace::Trace;
use crate::trace_view;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Frames of a stack; those further out are left out, or what is deeper is taken for torn. The library never walks so far.
pub const MOST_DEPTH: usize = 1 << 10;
/// Frames at which the library (STACK_DEPTH of src/watch/stacks.h), and jemalloc, cut a stack.
pub const RECORDED_DEPTH: usize = 128;
/// Samples of one kind: no process lives long enough for more.
pub const MOST_COUNT: u64 = 1 << 48;

/// More is a count below zero, of an object that was freed while the profile was made.
pub fn possible_count(count: u64) -> u64 {
    Some(count).filter(|count| *count < MOST_COUNT).unwrap_or(0)
}

/// Begins a line that this command writes behind the mappings, of what is missing.
pub const MISSING: &str = "missing ";

/// Bytes between two samples.
const MOST_PERIOD: f64 = (1u64 << 63) as f64;

/// A piece of the address space that a file was mapped to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: String,
    /// Of the file that was mapped, where the recording tells it.
    pub build_id: Option<String>,
}

/// Objects and bytes that samples stand for, and how sure that is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    pub objects: f64,
    pub bytes: f64,
    pub objects_variance: f64,
    pub bytes_variance: f64,
}

impl Estimate {
    pub fn of_samples(count: u64, size: u64, lg_sample: u32) -> Estimate {
        let (n, size) = (count as f64, size as f64);
        // An object without a byte would never be sampled.
        let p = match lg_sample {
            0 => 1.0,
            lg => -(-size.max(1.0) / 2f64.powi(lg as i32)).exp_m1(),
        };
        let variance = n * (1.0 - p) / (p * p);
        Estimate {
            objects: n / p,
            bytes: n * size / p,
            objects_variance: variance,
            bytes_variance: variance * size * size,
        }
    }

    /// What a jemalloc profile of that period says of one stack; its samples are taken for objects of one size.
    fn of_record(objects: u64, bytes: u64, period: f64) -> Estimate {
        if objects == 0 || bytes == 0 {
            return Estimate::default();
        }
        let size = bytes as f64 / objects as f64;
        let p = -(-size / period).exp_m1();
        let variance = objects as f64 * (1.0 - p) / (p * p);
        Estimate {
            objects: objects as f64 / p,
            bytes: bytes as f64 / p,
            objects_variance: variance,
            bytes_variance: variance * size * size,
        }
    }

    /// What came after an earlier estimate of the same: samples add up, and so do their variances.
    fn without(&self, earlier: &Estimate) -> Estimate {
        Estimate {
            objects: (self.objects - earlier.objects).max(0.0),
            bytes: (self.bytes - earlier.bytes).max(0.0),
            objects_variance: (self.objects_variance - earlier.objects_variance).max(0.0),
            bytes_variance: (self.bytes_variance - earlier.bytes_variance).max(0.0),
        }
    }

    pub fn bytes_error(&self) -> f64 {
        self.bytes_variance.sqrt()
    }

    pub fn objects_error(&self) -> f64 {
        self.objects_variance.sqrt()
    }
}

/// The variance of how what is alive changed between two looks at one process, from the variances of what was alive and of all there ever was, each
/// before and after. What was alive both times is the same samples: only what came and stayed, or was there and went, is uncertain, and that
/// is at most all that came.
pub fn variance_of_change(live: [f64; 2], ever: [f64; 2]) -> f64 {
    // Profiles in the wrong order are compared as well.
    let [first, second] = if ever[1] >= ever[0] { [0, 1] } else { [1, 0] };
    let stayed = (ever[second] - ever[first]).min(live[second]);
    let more = live[second] - live[first];
    (2.0 * stayed - more).max(more.abs())
}

impl std::ops::AddAssign for Estimate {
    fn add_assign(&mut self, other: Estimate) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.objects_variance += other.objects_variance;
        self.bytes_variance += other.bytes_variance;
    }
}

impl std::iter::Sum for Estimate {
    fn sum<I: Iterator<Item = Estimate>>(all: I) -> Estimate {
        all.fold(Estimate::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// In a tally an arena of this number or above stands for an object cache (VMAG_ARENA_CACHES of include/vmag/format.h).
pub const CACHES_FROM: u32 = 0x8000;

/// The arena, or else the object cache, that a tally's number stands for.
pub fn arena_or_cache(number: u32) -> (Option<u32>, Option<u32>) {
    match number.checked_sub(CACHES_FROM) {
        None => (Some(number), None),
        cache => (None, cache),
    }
}

/// What was sampled of one stack, size, thread and arena or object cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Return addresses, innermost first: an index into `Profile::stacks`.
    pub stack: usize,
    pub thread: u32,
    pub arena: Option<u32>,
    /// Of an object of an object cache; it has no arena then.
    pub cache: Option<u32>,
    /// Bytes of each object; None in a profile of jemalloc's.
    pub size: Option<u64>,
    pub live: Estimate,
    pub total: Estimate,
}

#[derive(Debug, Clone, Default)]
pub struct Profile {
    pub stacks: Vec<Vec<u64>>,
    pub samples: Vec<Sample>,
    pub mappings: Vec<Mapping>,
    /// There may be more, for which there was no room where it was recorded.
    pub mappings_are_cut: bool,
    pub threads: HashMap<u32, String>,
    /// Names of object caches.
    pub caches: HashMap<u32, String>,
    pub lg_sample: Option<u32>,
    /// Samples for which the process had no memory.
    pub lost: u64,
    /// What happened and is not in it: of a trace that is not whole, or while the profile was off.
    pub missing: Option<String>,
    /// Sites of which nothing is alive are not in it (`prof_accum` was off).
    pub live_only: bool,
    pub pid: Option<i64>,
    /// Seconds since 1970.
    pub time: Option<i64>,
    /// From the machine where it was recorded, of a bundle.
    pub known: Option<Arc<Known>>,
    /// By path, what `mappings` say; made when it is first asked for.
    pub recorded_builds: OnceLock<HashMap<String, String>>,
}

/// The name of a file that was mapped, where its path is the kernel's link to it.
pub fn own_path(path: &str) -> String {
    let link = path.starts_with("/proc/").then(|| fs::read_link(path).ok()).flatten();
    link.map_or(path.to_string(), |link| link.display().to_string())
}

pub const BEGIN: &str = "heap_v2/";

impl Profile {
    /// Whether the file begins as a profile does, or is a bundle of one.
    pub fn is_one(path: &Path) -> bool {
        let mut start = [0; BEGIN.len()];
        File::open(path).is_ok_and(|file| file.read_exact_at(&mut start, 0).is_ok())
            && (start == *BEGIN.as_bytes() || (bundle::kind(path) == Some(false) && !bundle::is_unreadable(path)))
    }

    /// A profile, or what a trace with stacks says of the same.
    pub fn read(path: &Path) -> Result<Profile> {
        if Trace::is_one(path) {
            let mut progress = Progress::new("reading the trace");
            return trace_view::profile(&Trace::open(path)?, &mut |part| progress.at(part));
        }
        if bundle::kind(path).is_some() {
            let unpacked = bundle::open(path)?;
            let profile = Profile::read(&unpacked.recording()).map_err(|error| bundle::named_by(path, error))?;
            return Ok(Profile {
                known: Some(Arc::new(unpacked.known)),
                ..profile
            });
        }
        let begins = |start: &[u8]| start.starts_with(BEGIN.as_bytes()) || black_box::is_black_box(start);
        let text = source::read(path, begins).map_err(|error| {
            ToolError::new(
                format!("cannot read {}", spoken(path)),
                error,
                "name a profile that `vmag run --profile FILE`, prof_final or prof.dump wrote, or a trace of `vmag run --trace FILE`",
            )
        })?;
        if black_box::is_black_box(&text) {
            let black_box = BlackBox::of(path, &text)?;
            if black_box.profile.samples.is_empty() && !black_box.profile_active {
                return Err(ToolError::new(
                    format!("{} has no heap profile", spoken(path)),
                    "the profiler of its process was off",
                    "start the process with VMAG_CONF=prof:true,black_box:PREFIX",
                ));
            }
            // Counters are as of a moment before: what was freed since was alive then.
            let missing = Then {
                is_active: black_box.profile_active,
                allocated: black_box.counters.allocated,
                threads: black_box.counters.threads,
            }
            .not_in(&black_box.profile, |sample| sample.total);
            return Ok(Profile {
                missing,
                ..black_box.profile
            });
        }
        Profile::parse(&String::from_utf8_lossy(&text)).map_err(|why| {
            ToolError::new(
                format!("{} is not a heap profile that can be read", spoken(path)),
                why,
                "name a profile that `vmag run --profile FILE`, prof_final or prof.dump wrote",
            )
        })
    }

    pub fn parse(text: &str) -> std::result::Result<Profile, String> {
        if text.is_empty() {
            return Err("it is empty, as on a disk that is full".to_string());
        }
        let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
        let period: f64 = head
            .strip_prefix(BEGIN)
            .and_then(|period| period.trim().parse().ok())
            .filter(|period: &f64| (1.0..=MOST_PERIOD).contains(period))
            .ok_or("its first line is not heap_v2/<period>")?;
        // The numbers of what is left would be too small. The period of what the library writes is 1, and it tells its mappings.
        if !text.ends_with('\n') || (period == 1.0 && !rest.contains("MAPPED_LIBRARIES:\n")) {
            return Err("it is cut short, as on a disk that is full".to_string());
        }
        let (records, tail) = rest.split_once("\nMAPPED_LIBRARIES:\n").unwrap_or((rest, ""));
        let (maps, samples) = match tail.split_once("VMAG_PROFILE:\n") {
            Some((maps, samples)) => (maps, Some(samples)),
            None => (tail, None),
        };
        let mut profile = Profile {
            mappings: mappings(maps),
            missing: maps.lines().find_map(|line| line.strip_prefix(MISSING)).map(in_line),
            ..Profile::default()
        };
        profile.read_records(records, period, samples.is_none())?;
        match samples {
            Some(samples) => profile.read_samples(samples)?,
            None => profile.lg_sample = Some(period.log2().round() as u32),
        }
        Ok(profile)
    }

    /// Stacks and names of threads; the samples too where there is nothing better.
    fn read_records(&mut self, text: &str, period: f64, samples: bool) -> std::result::Result<(), String> {
        for line in text.lines() {
            if let Some(addresses) = line.strip_prefix('@') {
                let frames = addresses.split_whitespace().take(MOST_DEPTH);
                let stack: Option<Vec<u64>> = frames.map(hexadecimal).collect();
                self.stacks.push(stack.ok_or_else(|| format!("bad addresses: {line}"))?);
            } else if let Some((thread, counts)) =
                line.trim_start().strip_prefix('t').and_then(|l| l.split_once(": "))
            {
                match (self.stacks.len(), thread.parse::<u32>()) {
                    (0, Ok(thread)) => self.name_thread(thread, counts),
                    (0, Err(_)) => {}
                    (stacks, thread) if samples => self.add_record(stacks - 1, thread.ok(), counts, period)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn name_thread(&mut self, thread: u32, counts: &str) {
        if let Some((_, name)) = counts.split_once("] ").filter(|(_, name)| !name.is_empty()) {
            self.threads.insert(thread, in_line(name));
        }
    }

    /// The line of all threads, which has no number, is the sum of those that follow.
    fn add_record(
        &mut self,
        stack: usize,
        thread: Option<u32>,
        counts: &str,
        period: f64,
    ) -> std::result::Result<(), String> {
        let numbers: Vec<u64> = counts
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        let [objects, bytes, all_objects, all_bytes, ..] = numbers[..] else {
            return Err(format!("bad counts: {counts}"));
        };
        let Some(thread) = thread else { return Ok(()) };
        self.samples.push(Sample {
            stack,
            thread,
            arena: None,
            cache: None,
            size: None,
            live: Estimate::of_record(objects, bytes, period),
            total: Estimate::of_record(all_objects, all_bytes, period),
        });
        Ok(())
    }

    fn read_samples(&mut self, text: &str) -> std::result::Result<(), String> {
        let mut lines = text.lines();
        let mut then = Then {
            is_active: true,
            allocated: 0,
            threads: 0,
        };
        // Names of caches may have other blanks than ASCII's.
        for field in lines.next().unwrap_or("").split_ascii_whitespace() {
            match field.split_once('=') {
                Some(("lg_sample", value)) => self.lg_sample = value.parse().ok().filter(|lg| *lg < 64),
                Some(("accum", value)) => self.live_only = value == "0",
                Some(("active", value)) => then.is_active = value != "0",
                Some(("allocated", value)) => then.allocated = value.parse().unwrap_or(0),
                Some(("threads", value)) => then.threads = value.parse().unwrap_or(0),
                Some(("lost", value)) => self.lost = value.parse().unwrap_or(0),
                Some(("pid", value)) => self.pid = value.parse().ok(),
                Some(("time", value)) => self.time = value.parse().ok(),
                Some((key, name)) => {
                    let cache = key.strip_prefix("cache.").and_then(|number| number.parse().ok());
                    self.caches.extend(cache.map(|number| (number, in_line(name))));
                }
                None => {}
            }
        }
        let mut last_stack = 0;
        for line in lines.filter(|line| !line.is_empty()) {
            let numbers: Option<Vec<u64>> = line.split_whitespace().map(|word| word.parse().ok()).collect();
            let Some(&[stack, thread, arena, size, lg, live, total]) = numbers.as_deref() else {
                return Err(format!("bad sample: {line}"));
            };
            let stack = (stack as usize)
                .checked_sub(1)
                .filter(|stack| *stack < self.stacks.len())
                .ok_or_else(|| format!("no such stack: {line}"))?;
            if lg >= 64 {
                return Err(format!("impossible sample: {line}"));
            }
            last_stack = last_stack.max(stack + 1);
            let (live, total) = (possible_count(live), possible_count(total));
            let (arena, cache) = arena_or_cache(arena as u32);
            self.samples.push(Sample {
                stack,
                thread: thread as u32,
                arena,
                cache,
                size: Some(size),
                live: Estimate::of_samples(live, size, lg as u32),
                total: Estimate::of_samples(total, size, lg as u32),
            });
        }
        let missing = then.not_in(self, |sample| sample.live);
        self.missing = self.missing.take().or(missing);
        // A name with a line break in it may look like a stack, and all others would be taken for their neighbours.
        match last_stack == self.stacks.len() {
            true => Ok(()),
            false => Err("it has other stacks than its samples are of".to_string()),
        }
    }

    /// The name of a sample's object cache; its number where it has none, nothing where the sample is of none.
    pub fn cache_name(&self, sample: &Sample) -> Option<String> {
        let number = sample.cache?;
        Some(
            self.caches
                .get(&number)
                .cloned()
                .unwrap_or_else(|| format!("cache {number}")),
        )
    }

    pub fn live(&self) -> Estimate {
        self.samples.iter().map(|sample| sample.live).sum()
    }

    pub fn total(&self) -> Estimate {
        self.samples.iter().map(|sample| sample.total).sum()
    }

    /// What was allocated since an earlier profile of the same process; what is alive is that of this one.
    pub fn since(mut self, earlier: &Profile) -> Profile {
        let key = |profile: &Profile, sample: &Sample| {
            (
                profile.stacks[sample.stack].clone(),
                sample.thread,
                (sample.arena, sample.cache),
                sample.size,
            )
        };
        let mut before: HashMap<_, Estimate> = HashMap::new();
        for sample in &earlier.samples {
            *before.entry(key(earlier, sample)).or_default() += sample.total;
        }
        // There is a sample for each distance at which the same was sampled: the first says what all of them came to.
        let mut firsts: HashMap<_, usize> = HashMap::new();
        for index in 0..self.samples.len() {
            let first = *firsts.entry(key(&self, &self.samples[index])).or_insert(index);
            if first != index {
                let total = std::mem::take(&mut self.samples[index].total);
                self.samples[first].total += total;
            }
        }
        for (key, first) in firsts {
            if let Some(total) = before.get(&key) {
                self.samples[first].total = self.samples[first].total.without(total);
            }
        }
        self.samples
            .retain(|sample| sample.total.objects > 0.0 || sample.live.objects > 0.0);
        self
    }

    /// Whether both are of one process, from the beginning of its program on: numbers of processes come again, but not with the same places.
    pub fn is_of_same_process(&self, other: &Profile) -> bool {
        let kernel_code = |profile: &Profile| {
            let mut mappings = profile.mappings.iter();
            mappings.find(|map| map.path == "[vdso]").map(|map| map.start)
        };
        self.pid.is_some()
            && self.pid == other.pid
            && kernel_code(self).is_some()
            && kernel_code(self) == kernel_code(other)
    }

    /// What is known of a file that was mapped.
    pub fn object_file(&self, path: &str) -> Option<ObjectFile> {
        match self.bundled(path) {
            Some(bundled) => Some(bundled.clone()),
            None if self.is_replaced(path) => None,
            None => ObjectFile::read(&by_told_name(path)),
        }
    }

    /// What a bundle says of it, unless it was made of another build than the one that was mapped.
    pub fn bundled(&self, path: &str) -> Option<&ObjectFile> {
        let bundled = self.known.as_ref()?.files.get(path)?;
        let recorded = self.recorded_build(path);
        (recorded.is_none() || recorded == bundled.build_id.as_deref()).then_some(bundled)
    }

    fn recorded_build(&self, path: &str) -> Option<&str> {
        let recorded = self.recorded_builds.get_or_init(|| {
            let mut builds = HashMap::new();
            for map in &self.mappings {
                if let Some(id) = &map.build_id {
                    builds.entry(map.path.clone()).or_insert(id.clone());
                }
            }
            builds
        });
        recorded.get(path).map(String::as_str)
    }

    /// Of what was mapped, where it is known.
    pub fn build_id(&self, path: &str) -> Option<String> {
        let recorded = self.recorded_build(path).map(str::to_string);
        recorded.or_else(|| self.object_file(path)?.build_id)
    }

    /// By path, of all files that were mapped and have one: once of a file that is mapped in many pieces.
    pub fn build_ids(&self) -> HashMap<&str, String> {
        let paths: HashSet<&str> = self.mappings.iter().map(|map| map.path.as_str()).collect();
        paths
            .into_iter()
            .filter_map(|path| Some((path, self.build_id(path)?)))
            .collect()
    }

    /// Whether what has the file's name now is another build than was mapped, by its build id; by its age where there was none. Of one that cannot be
    /// read nothing is known.
    pub fn is_replaced(&self, path: &str) -> bool {
        let file = &by_told_name(path);
        let Some(about) = fs::metadata(file).ok().filter(fs::Metadata::is_file) else {
            return false;
        };
        let bundled = self.bundled(path).map(|bundled| bundled.build_id.as_deref());
        match self.recorded_build(path).map(Some).or(bundled) {
            Some(id) => fs::File::open(file).is_ok() && image::build_id(file).as_deref() != id,
            None => self.time.is_some_and(|time| about.mtime() > time),
        }
    }

    /// For who asks for many addresses.
    pub fn places(&self) -> Places<'_> {
        let mut mappings: Vec<&Mapping> = self.mappings.iter().collect();
        mappings.sort_by_key(|map| map.start);
        Places(mappings)
    }
}

/// What is mapped, by address. No two mappings of a process overlap; where a file says that some do, the last to begin is found or none.
pub struct Places<'a>(Vec<&'a Mapping>);

impl<'a> Places<'a> {
    /// The file that an address is in, and where: its offset there.
    pub fn locate(&self, address: u64) -> Option<(&'a Mapping, u64)> {
        let behind = self.0.partition_point(|map| map.start <= address);
        let found = *self.0[..behind].last().filter(|map| address < map.end)?;
        Some((found, (address - found.start).wrapping_add(found.offset)))
    }
}

fn hexadecimal(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

/// A line of /proc/PID/maps; None for memory without a file, and for what nothing is executed in. "(deleted)" stays behind a name: the file that
/// has it now is another.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let access = words.next()?;
    let offset = words.next()?;
    let path = words.nth(2)?.trim();
    if !access.contains('x') || path.is_empty() {
        return None;
    }
    Some(Mapping {
        start: hexadecimal(start)?,
        end: hexadecimal(end)?,
        offset: hexadecimal(offset)?,
        path: path.to_string(),
        build_id: None,
    })
}

/// What the library writes of mappings: the lines of /proc/PID/maps, and "build START ID" of code that is of a file with a build id.
pub fn mappings(text: &str) -> Vec<Mapping> {
    let build = |line: &str| {
        let (start, id) = line.strip_prefix("build ")?.split_once(' ')?;
        Some((hexadecimal(start)?, id.to_string()))
    };
    let builds: HashMap<u64, String> = text.lines().filter_map(build).collect();
    let with_build = |map: Mapping| Mapping {
        build_id: builds.get(&map.start).cloned(),
        ..map
    };
    text.lines().filter_map(mapping).map(with_build).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "heap_v2/1\n  t*: 9: 9 [0: 0]\n  t1: 9: 9 [0: 0] main thread\n@ 0x1010 0x2010\n  t*: 9: 9 [0: 0]\n\
        \nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000400 00:01 12      /bin/a b (deleted)\n2000-3000 rw-p 0 00:01 1 /x\n\n\
        VMAG_PROFILE:\nlg_sample=19 lost=3 pid=7 time=11\n1 1 0 64 19 2 5\n1 1 0 1048576 0 1 1\n";

    #[test]
    fn names_of_caches_are_lines() {
        let mut profile = Profile::default();
        let head = "lg_sample=0 cache.3=a\x1b[2Jb cache.4=gro\u{df}e\u{a0}Dinge\n";
        profile.read_samples(head).unwrap();
        assert_eq!(profile.caches[&3], "a?[2Jb");
        assert_eq!(profile.caches[&4], "gro\u{df}e\u{a0}Dinge");
    }

    #[test]
    fn addresses_are_found_among_many_mappings() {
        let map = |number: u64| Mapping {
            start: number << 16,
            end: (number << 16) + 0x1000,
            offset: number,
            path: format!("/lib/{number}.so"),
            build_id: None,
        };
        let profile = Profile {
            mappings: (1..200_000).rev().map(map).collect(),
            ..Profile::default()
        };
        let places = profile.places();
        // As many questions as there are mappings: none may look at all of them.
        for number in 1..200_000 {
            let (found, offset) = places.locate((number << 16) + 0xfff).unwrap();
            assert_eq!((found.offset, offset), (number, number + 0xfff));
            assert!(places.locate((number << 16) + 0x1000).is_none());
        }
        assert!(places.locate(0).is_none());
    }

    #[test]
    fn builds_are_found_among_many_mappings() {
        let map = |number: u64, build_id: Option<&str>| Mapping {
            start: number << 16,
            end: (number << 16) + 0x1000,
            offset: 0,
            path: format!("/nowhere/{}.so", number % 50_000),
            build_id: build_id.map(str::to_string),
        };
        let mut profile = Profile {
            mappings: (0..100_000).map(|number| map(number, None)).collect(),
            ..Profile::default()
        };
        profile.mappings[70_000].build_id = Some("ab".to_string());
        assert_eq!(
            profile.build_ids(),
            HashMap::from([("/nowhere/20000.so", "ab".to_string())])
        );
        assert_eq!(profile.build_id("/nowhere/20000.so").as_deref(), Some("ab"));
        let recorded = |number: &u64| profile.recorded_build(&map(*number, None).path).is_some();
        assert_eq!((0..50_000).filter(recorded).collect::<Vec<_>>(), [20_000]);
    }

    #[test]
    fn reads_our_own() {
        let profile = Profile::parse(OURS).unwrap();
        assert_eq!(
            (profile.lg_sample, profile.lost, profile.pid, profile.time),
            (Some(19), 3, Some(7), Some(11))
        );
        assert_eq!(profile.threads[&1], "main thread");
        assert_eq!(profile.stacks, [[0x1010, 0x2010]]);
        assert_eq!(profile.mappings.len(), 1);
        let (map, offset) = profile.places().locate(0x1010).unwrap();
        assert_eq!((map.path.as_str(), offset), ("/bin/a b (deleted)", 0x410));
        assert!((profile.samples[0].live.objects - 16385.0).abs() < 1.0);
        assert!((profile.samples[0].total.bytes / profile.samples[0].total.objects - 64.0).abs() < 1e-6);
        assert_eq!(profile.samples[1].live.bytes, 1048576.0);
        assert_eq!(profile.samples[1].live.bytes_variance, 0.0);
    }

    /// Its samples stand for about 2 MiB.
    #[test]
    fn what_came_before_the_profile_was_on_is_missing() {
        let missing = |fields: &str| {
            let text = OURS.replace("time=11", &format!("time=11 {fields}"));
            Profile::parse(&text).unwrap().missing
        };
        assert_eq!(missing("allocated=2000000 threads=1"), None);
        assert_eq!(missing("allocated=0 threads=1"), None);
        let late = missing("allocated=20000000 threads=1").unwrap();
        assert!(
            late.starts_with("about 17.1 MiB of the 19.1 MiB that are allocated"),
            "{late}"
        );
        assert!(missing("active=0").is_some_and(|missing| missing.contains("off in the end")));
    }

    #[test]
    fn reads_those_of_jemalloc() {
        let text = "heap_v2/524288\n  t*: 1: 64 [0: 0]\n  t0: 1: 64 [0: 0]\n@ 0x10\n  t*: 1: 64 [0: 0]\n  t0: 1: 64 [0: 0]\n";
        let profile = Profile::parse(text).unwrap();
        assert_eq!(profile.lg_sample, Some(19));
        assert!((profile.live().objects - 8192.5).abs() < 0.1);
    }

    #[test]
    fn what_came_since_an_earlier_one() {
        let earlier = Profile::parse(OURS).unwrap();
        let later = OURS
            .replace("19 2 5", "19 3 9")
            .replace("1 1 0 1048576 0 1 1\n", "1 2 0 64 19 1 1\n");
        let since = Profile::parse(&later).unwrap().since(&earlier);
        assert_eq!(since.samples.len(), 2);
        assert!((since.samples[0].total.objects / Estimate::of_samples(4, 64, 19).objects - 1.0).abs() < 1e-9);
        assert_eq!(since.samples[0].live, Estimate::of_samples(3, 64, 19));
        assert_eq!(since.samples[1].total, Estimate::of_samples(1, 64, 19));
    }

    #[test]
    fn a_count_below_zero_is_none() {
        let text = OURS.replace("1 1 0 64 19 2 5", &format!("1 1 0 64 19 {} 5", u64::MAX));
        let profile = Profile::parse(&text).unwrap();
        assert_eq!(profile.samples[0].live, Estimate::of_samples(0, 64, 19));
        assert_eq!(profile.samples[0].total, Estimate::of_samples(5, 64, 19));
    }

    #[test]
    fn refuses_what_is_no_profile() {
        assert!(Profile::parse("hello").is_err());
        assert!(Profile::parse("heap_v2/1\n@ zz\n").is_err());
        assert!(Profile::parse(&OURS.replace("1 1 0 64", "8 1 0 64")).is_err());
        let text = OURS.replace("1 1 0 64 19 2 5", "1 1 0 64 64 2 5");
        assert!(Profile::parse(&text).is_err_and(|why| why.contains("impossible")));
        for period in ["0", "-5", "NaN", "inf"] {
            let text = format!("heap_v2/{period}\n@ 0x10\n  t0: 1: 64 [0: 0]\n");
            assert!(
                Profile::parse(&text).is_err_and(|why| why.contains("period")),
                "{period}"
            );
        }
        assert!(Profile::parse("").is_err_and(|why| why.contains("empty")));
    }

    #[test]
    fn a_name_that_looks_like_a_stack_is_refused() {
        let text = OURS.replace("main thread", "main\n@ 0x7");
        assert!(Profile::parse(&text).is_err_and(|why| why.contains("other stacks")));
    }

    #[test]
    fn no_stack_is_endless() {
        let text = OURS.replace("0x1010 0x2010", &"0x10 ".repeat(1 << 20));
        assert_eq!(Profile::parse(&text).unwrap().stacks[0].len(), MOST_DEPTH);
    }

    #[test]
    fn refuses_what_is_cut_short() {
        let at = |word: &str| &OURS[..OURS.find(word).unwrap()];
        for cut in [
            &OURS[..OURS.len() - 1],
            at("0x2010"),
            at("\nMAPPED"),
            at("  t*: 9: 9 [0: 0]\n\n"),
            at(" pid"),
        ] {
            assert!(Profile::parse(cut).unwrap_err().contains("cut short"), "{cut}");
        }
    }
}
