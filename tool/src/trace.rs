//! Event traces: chunks of events, each good by itself, read as one stream in the order of time.
//!
//! The format is described in include/vmag/trace_format.h. Chunks that are torn or damaged are passed over and counted.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::bundle::{self, Known};
use crate::error::{Result, ToolError};
use crate::output::figures::counted;
use crate::output::in_line;
use crate::profile::{MOST_DEPTH, Mapping, mappings};
use crate::source::{spoken, what_else_it_is};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub const CHUNK: u64 = 65536;
const HEAD: usize = 64;
const MAGIC: u32 = 0x6374_6d76;
const VERSION: u16 = 6;
const OLDEST_VERSION: u16 = 2;
const HEAD_SUMMED: u16 = 4; // the first version whose checksum is of the head as well
const TELLS_ENDS: u16 = 5; // the first that says how it began and ended
const TELLS_HEAP: u16 = 6; // the first whose events say whether a cache's objects are memory of the heap
const CHECKSUM: std::ops::Range<usize> = 20..24;
const EVENTS_STACKS: u16 = 1;
const FACTS: u16 = 2;
/// The numbers of stacks are below.
const STACKS_MOST: u32 = 1 << 21;
/// No processor has addresses beyond.
const ADDRESS_MOST: u64 = 1 << 57;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Alloc,
    Free,
    Resize,
    CacheAlloc,
    CacheFree,
    ArenaAlloc,
    ArenaFree,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Alloc => "alloc",
            Kind::Free => "free",
            Kind::Resize => "resize",
            Kind::CacheAlloc => "cache-alloc",
            Kind::CacheFree => "cache-free",
            Kind::ArenaAlloc => "arena-alloc",
            Kind::ArenaFree => "arena-free",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the trace's first event.
    pub time: u64,
    pub thread: u32,
    pub kind: Kind,
    pub address: u64,
    /// Bytes that the program may use; 0 of a free.
    pub size: u64,
    /// Of the cache or the arena; else 0.
    pub number: u32,
    /// Of the stack of the call; 0: not known.
    pub stack: u32,
    /// Memory of the heap, as if malloc and free had been called; else the addresses are an arena's.
    pub is_heap: bool,
}

/// What the head of a chunk says.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    offset: u64,
    version: u16,
    kind: u16,
    sequence: u32,
    bytes: u32,
    events: u32,
    checksum: u32,
    pid: u32,
    thread: u32,
    ticks: (u64, u64),
    ns: (u64, u64),
}

/// What ticks are in CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy)]
struct Line {
    ticks: u64,
    ns: u64,
    tick_ns: f64,
}

impl Line {
    /// From a chunk's beginning to a chunk's end.
    fn between(first: &Chunk, last: &Chunk) -> Line {
        let ticks = last.ticks.1.saturating_sub(first.ticks.0);
        let ns = last.ns.1.saturating_sub(first.ns.0);
        Line {
            ticks: first.ticks.0,
            ns: first.ns.0,
            tick_ns: ns as f64 / ticks.max(1) as f64,
        }
    }

    /// Of all chunks: what threads did to one object is in its order by ticks only, as each chunk's own reading of the clock is off by some hundred
    /// nanoseconds. None where the ticks of some are of another clock, or ran backwards.
    fn of_all(chunks: &[Chunk]) -> Option<Line> {
        const OFF_MOST_NS: u64 = 1_000_000;
        const LG_DRIFT_MOST: u32 = 10; // the kernel lets its clock run up to 0.05 % fast or slow
        let first = chunks.iter().min_by_key(|chunk| chunk.ticks.0)?;
        let last = chunks.iter().max_by_key(|chunk| chunk.ticks.1)?;
        let line = Line::between(first, last);
        let off_most = OFF_MOST_NS + (last.ns.1.saturating_sub(first.ns.0) >> LG_DRIFT_MOST);
        let fits = |ticks, ns| line.at(ticks).abs_diff(ns) <= off_most;
        chunks
            .iter()
            .all(|chunk| fits(chunk.ticks.0, chunk.ns.0) && fits(chunk.ticks.1, chunk.ns.1))
            .then_some(line)
    }

    fn at(&self, ticks: u64) -> u64 {
        let passed = ticks.saturating_sub(self.ticks) as f64 * self.tick_ns;
        self.ns.saturating_add(passed as u64)
    }
}

/// An object cache or a resource arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    /// Of an object, of a quantum; 0: the cache's objects are not memory of the heap.
    pub bytes: u64,
}

/// What the chunks of facts say.
#[derive(Debug, Default)]
pub struct Facts {
    /// Return addresses by the stack's number, innermost first.
    pub stacks: Vec<Vec<u64>>,
    pub mappings: Vec<Mapping>,
    pub caches: HashMap<u32, Named>,
    pub arenas: HashMap<u32, Named>,
    /// The fields of a JSON object: the ledger when the process ended.
    pub ledger: Option<String>,
    /// It could be no longer, and what came later is not in it.
    pub is_full: bool,
    /// There was no room for all of them.
    pub mappings_are_cut: bool,
    /// VMAG_TRACE_AT_START, LATER or IN_CHILD, if it says how it began.
    began: Option<u64>,
    /// VMAG_TRACE_EXITED, …, and how many chunks the file had then.
    ended: Option<(u64, u64)>,
    /// From the machine where it was recorded, of a bundle.
    pub known: Option<Arc<Known>>,
    /// Of all stacks, those that were replaced, too.
    frames: usize,
}

pub struct Trace {
    file: File,
    path: PathBuf,
    /// Of events.
    chunks: Vec<Chunk>,
    /// None: each chunk has its own.
    line: Option<Line>,
    pub facts: Facts,
    /// Chunks whose head is none, or that of another one, or whose facts cannot be read.
    pub damaged: usize,
    /// Chunks in whose places there is nothing, although they were written.
    lost: u64,
    pub bytes: u64,
    pub events: u64,
    pub pid: u32,
    /// In CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub duration_ns: u64,
    pub threads: usize,
    /// The oldest chunks were overwritten, or there was no room for the first.
    pub is_cut: bool,
    pub has_stacks: bool,
}

/// Whether bytes begin as a chunk does.
pub fn is_chunk(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

impl Trace {
    pub fn open(path: &Path) -> Result<Trace> {
        if bundle::kind(path) == Some(true) {
            let unpacked = bundle::open(path)?;
            let mut trace = Trace::open(&unpacked.recording()).map_err(|error| bundle::named_by(path, error))?;
            trace.path = path.to_path_buf();
            trace.facts.known = Some(Arc::new(unpacked.known));
            return Ok(trace);
        }
        Trace::read(path).map_err(|error| {
            ToolError::new(
                format!("cannot read the trace {}", spoken(path)),
                what_else_it_is(path, "trace").unwrap_or(error.to_string()),
                "name a file that `vmag run --trace FILE` wrote",
            )
        })
    }

    /// Whether the file begins as a trace does, or is a bundle of one.
    pub fn is_one(path: &Path) -> bool {
        let mut magic = [0; 4];
        File::open(path).is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok())
            && (u32::from_le_bytes(magic) == MAGIC || bundle::kind(path) == Some(true))
    }

    fn read(path: &Path) -> io::Result<Trace> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let (mut chunks, mut facts, mut damaged) = (Vec::new(), Vec::new(), 0);
        for offset in (0..bytes).step_by(CHUNK as usize) {
            let mut head = [0; HEAD];
            let whole = file.read_exact_at(&mut head, offset).is_ok();
            match Chunk::parse(&head, offset)
                .filter(|chunk| whole && offset + HEAD as u64 + u64::from(chunk.bytes) <= bytes)
            {
                Some(chunk) if chunk.kind == FACTS => facts.push(chunk),
                Some(chunk) => chunks.push(chunk),
                None if head == [0; HEAD] && whole => {} // never written
                None => damaged += 1,
            }
        }
        chunks.sort_by_key(|chunk| chunk.sequence);
        facts.sort_by_key(|chunk| chunk.sequence);
        // Their events would count twice.
        let copies = chunks.len() + facts.len();
        chunks.dedup_by(|copy, chunk| copy.is_copy_of(chunk));
        facts.dedup_by(|copy, chunk| copy.is_copy_of(chunk));
        damaged += copies - chunks.len() - facts.len();
        damaged += remove_damaged(&file, &mut chunks)?;
        if chunks.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                no_events(&file, facts.is_empty()),
            ));
        }
        let places = |chunk: &Chunk| u64::from(chunk.sequence);
        let (mut of_events, of_facts): (Vec<u64>, Vec<u64>) =
            (chunks.iter().map(places).collect(), facts.iter().map(places).collect());
        of_events.dedup(); // of two with one number one is damaged
        let line = Line::of_all(&chunks);
        let first = chunks.iter().map(|chunk| chunk.ns.0).min().unwrap_or(0);
        let start = line.map_or(first, |line| line.ns);
        let end = chunks.iter().map(|chunk| chunk.ns.1).max().unwrap_or(0);
        let mut threads: Vec<u32> = chunks.iter().map(|chunk| chunk.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        let mut trace = Trace {
            file,
            path: path.to_path_buf(),
            facts: Facts::default(),
            damaged,
            lost: 0,
            bytes,
            events: chunks.iter().map(|chunk| u64::from(chunk.events)).sum(),
            pid: chunks[0].pid,
            start_ns: start,
            duration_ns: end.saturating_sub(start).max(1),
            threads: threads.len(),
            is_cut: chunks[0].sequence != 0,
            has_stacks: chunks.iter().any(|chunk| chunk.kind == EVENTS_STACKS),
            line,
            chunks,
        };
        for chunk in facts {
            let read = payload(&trace.file, &chunk)?;
            if read
                .and_then(|payload| trace.facts.read(&payload, chunk.version))
                .is_none()
            {
                trace.damaged += 1;
            }
        }
        trace.lost = trace.not_there(&of_events, &of_facts).saturating_sub(damaged as u64);
        Ok(trace)
    }

    /// How many chunks are not there, by the numbers of those that are, in their order: where a trace was ended and had room, each that was begun was
    /// written. Of one that was cut, up to its end.
    fn not_there(&self, of_events: &[u64], of_facts: &[u64]) -> u64 {
        let is_there =
            |number: &u64| of_events.binary_search(number).is_ok() || of_facts.binary_search(number).is_ok();
        match self.facts.ended {
            _ if self.facts.is_full => 0,
            None => 0,
            // Of a ring, in which facts are numbered apart.
            Some((_, 0)) => match (of_events.first(), of_events.last()) {
                (Some(first), Some(last)) => last - first + 1 - of_events.len() as u64,
                _ => 0,
            },
            Some((_, chunks)) => {
                let places = self.bytes.div_ceil(CHUNK).min(chunks);
                places - (0..places).filter(is_there).count() as u64
            }
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What happened and was not read, in words; None: all was. `losses`: of the pass over its events.
    pub fn missing(&self, losses: &Losses) -> Option<String> {
        let mut parts = Vec::new();
        if self.is_cut {
            parts.push("the oldest events are not there: the file was full".to_string());
        }
        if self.facts.is_full {
            parts.push("the newest events are not there: the file was full".to_string());
        }
        parts.extend(self.missing_at_ends());
        if self.lost > 0 {
            parts.push(format!("{} not there", counted(self.lost, "chunk")));
        }
        let damaged = self.damaged + losses.chunks;
        if damaged > 0 {
            parts.push(format!("{} passed over", counted(damaged as u64, "damaged chunk")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// What is known to be missing at its ends, but for what `is_cut` and `is_full` say.
    pub fn missing_at_ends(&self) -> Vec<String> {
        const LATER: u64 = 1;
        const IN_CHILD: u64 = 2;
        const OUT_OF_TIME: u64 = 1;
        const STOPPED: u64 = 2;
        let mut missing = Vec::new();
        match self.facts.began {
            Some(LATER) => {
                missing.push("it was begun in a running process: what that held before is not there".to_string())
            }
            Some(IN_CHILD) => {
                missing.push("it was begun by a fork: what the child has of its parent is not there".to_string())
            }
            _ => {}
        }
        let places = self.bytes.div_ceil(CHUNK);
        match self.facts.ended {
            Some((_, chunks)) if chunks > places && !self.facts.is_full => {
                missing.push(format!("the file was cut: {places} of {chunks} chunks are there"));
            }
            Some((OUT_OF_TIME, _)) => missing.push("the newest events are not there: its time was over".to_string()),
            Some((STOPPED, _)) if !self.facts.is_full => {
                missing.push("the newest events are not there: it was ended while the process ran on".to_string())
            }
            None if self.chunks[0].version >= TELLS_ENDS => missing.push(
                "it has no end: the process runs on, was killed, called _exit, set up a filter of system calls or became another program, \
                 and what its threads recorded last is not there"
                    .to_string(),
            ),
            _ => {}
        }
        missing
    }

    /// Whether the last of what its process did is known not to be there, for whatever reason.
    pub fn lacks_newest(&self) -> bool {
        const EXITED: u64 = 0;
        let is_whole = |chunks| chunks <= self.bytes.div_ceil(CHUNK);
        self.facts.is_full
            || match self.facts.ended {
                Some((how, chunks)) => how != EXITED || !is_whole(chunks),
                None => self.chunks[0].version >= TELLS_ENDS,
            }
    }

    fn line_of(&self, chunk: &Chunk) -> Line {
        self.line.unwrap_or_else(|| Line::between(chunk, chunk))
    }

    /// Hands all events to `take` in the order of time, and now and then the part that is done to `progress`.
    pub fn for_each(&self, mut take: impl FnMut(Event), mut progress: impl FnMut(f64)) -> io::Result<Losses> {
        let mut queues: BTreeMap<u32, VecDeque<Chunk>> = BTreeMap::new();
        for chunk in &self.chunks {
            queues.entry(chunk.thread).or_default().push_back(*chunk);
        }
        let mut losses = Losses::default();
        // A stream whose turn has not come yet is known by its chunk's time, and holds nothing.
        let mut heap = BinaryHeap::new();
        let mut streams: Vec<Stream> = queues.into_values().map(|chunks| Stream::new(self, chunks)).collect();
        for (index, stream) in streams.iter().enumerate() {
            let chunk = &stream.chunks[0];
            let (time, ticks) = (self.line_of(chunk).at(chunk.ticks.0), chunk.ticks.0);
            heap.push(Reverse((time - self.start_ns, ticks, index)));
        }
        let mut done = 0u64;
        while let Some(Reverse((.., index))) = heap.pop() {
            let next = heap.peek().map(|Reverse((time, ticks, _))| (*time, *ticks));
            let until = next.unwrap_or((u64::MAX, u64::MAX));
            let stream = &mut streams[index];
            let mut waiting = match stream.waiting.take() {
                Some(event) => Some(event),
                None => stream.next(&mut losses)?,
            };
            while let Some(event) = waiting {
                if (event.time, stream.ticks) > until {
                    heap.push(Reverse((event.time, stream.ticks, index)));
                    stream.waiting = Some(event);
                    break;
                }
                take(event);
                done += 1;
                if done % (1 << 18) == 0 {
                    progress(done as f64 / self.events.max(1) as f64);
                }
                waiting = stream.next(&mut losses)?;
            }
        }
        Ok(losses)
    }
}

/// None: damaged.
fn payload(file: &File, chunk: &Chunk) -> io::Result<Option<Vec<u8>>> {
    let mut whole = vec![0; HEAD + chunk.bytes as usize];
    file.read_exact_at(&mut whole, chunk.offset)?;
    whole[CHECKSUM].fill(0);
    let summed = if chunk.version < HEAD_SUMMED {
        &whole[HEAD..]
    } else {
        &whole
    };
    let is_whole = checksum(summed) == chunk.checksum;
    whole.drain(..HEAD);
    Ok(is_whole.then_some(whole))
}

/// Heads tell whose a trace is and when it was before anything else is read. Where one of those that do is damaged, or they do not tell of one clock,
/// all chunks are looked at, and those that are damaged removed: how many.
fn remove_damaged(file: &File, chunks: &mut Vec<Chunk>) -> io::Result<usize> {
    let ends = [
        chunks.first(),
        chunks.iter().min_by_key(|chunk| chunk.ticks.0),
        chunks.iter().max_by_key(|chunk| chunk.ticks.1),
        chunks.iter().min_by_key(|chunk| chunk.ns.0),
        chunks.iter().max_by_key(|chunk| chunk.ns.1),
    ];
    let mut are_well = Line::of_all(chunks).is_some();
    for end in ends.into_iter().flatten() {
        are_well = are_well && payload(file, end)?.is_some();
    }
    if are_well {
        return Ok(0);
    }
    let (all, mut kept) = (chunks.len(), Vec::new());
    for chunk in chunks.drain(..) {
        if payload(file, &chunk)?.is_some() {
            kept.push(chunk);
        }
    }
    *chunks = kept;
    Ok(all - chunks.len())
}

/// What could not be read.
#[derive(Debug, Default, Clone, Copy)]
pub struct Losses {
    pub chunks: usize,
}

pub fn checksum(bytes: &[u8]) -> u32 {
    let mut lanes = [0u64, 1, 2, 3];
    for block in bytes.chunks(32) {
        let mut words = [0; 32];
        words[..block.len()].copy_from_slice(block);
        for (lane, word) in lanes.iter_mut().zip(words.chunks_exact(8)) {
            *lane = (*lane ^ u64::from_le_bytes(word.try_into().expect("eight bytes")))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *lane ^= *lane >> 32;
        }
    }
    let sum = lanes
        .iter()
        .fold(bytes.len() as u64, |sum, lane| sum.wrapping_add(*lane));
    (sum ^ sum >> 32) as u32
}

impl Chunk {
    fn parse(head: &[u8; HEAD], offset: u64) -> Option<Chunk> {
        let half = |at: usize| u16::from_le_bytes(head[at..at + 2].try_into().expect("two bytes"));
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if word(0) != MAGIC || !(OLDEST_VERSION..=VERSION).contains(&half(4)) || half(6) > FACTS {
            return None;
        }
        let chunk = Chunk {
            offset,
            version: half(4),
            kind: half(6),
            sequence: word(8),
            bytes: word(12),
            events: word(16),
            checksum: word(20),
            pid: word(24),
            thread: word(28),
            ticks: (long(32), long(48)),
            ns: (long(40), long(56)),
        };
        (u64::from(chunk.bytes) <= CHUNK - HEAD as u64).then_some(chunk)
    }

    /// Wherever in the file: no two chunks have one number.
    fn is_copy_of(&self, other: &Chunk) -> bool {
        let head = |chunk: &Chunk| (chunk.sequence, chunk.thread, chunk.ticks, chunk.bytes, chunk.checksum);
        head(self) == head(other)
    }
}

/// Bytes that are read from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let length = self.varint()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

impl Facts {
    fn read(&mut self, payload: &[u8], version: u16) -> Option<()> {
        // A few bytes name a stack as deep as the one before it: what is made up would be a gigabyte a megabyte.
        const FRAMES_MOST: usize = 1 << 27; // of 2^20 stacks of 128, as many as the library keeps
        let mut from = Reader(payload);
        let mut before = 0;
        while let Some(tag) = from.byte() {
            match tag {
                1 => {
                    let (number, depth) = (from.varint()? as usize, from.varint()? as usize);
                    // The outermost frames are those of the stack before in the chunk.
                    let shared = if version > OLDEST_VERSION {
                        from.varint()? as usize
                    } else {
                        0
                    };
                    self.frames += depth.min(MOST_DEPTH);
                    if depth > MOST_DEPTH || self.frames > FRAMES_MOST {
                        return None;
                    }
                    let mut address = 0u64;
                    let mut frames = Vec::new();
                    for _ in 0..depth.checked_sub(shared)? {
                        address = address.wrapping_add(unzigzag(from.varint()?));
                        frames.push(address);
                    }
                    if number >= STACKS_MOST as usize {
                        return None;
                    }
                    if shared > 0 {
                        let outer = self.stacks.get(before)?;
                        frames.extend(&outer[outer.len().checked_sub(shared)?..]);
                    }
                    if self.stacks.len() <= number {
                        self.stacks.resize(number + 1, Vec::new());
                    }
                    self.stacks[number] = frames;
                    before = number;
                }
                2 => self.mappings = mappings(&from.text()?),
                3 | 4 => {
                    let (number, bytes) = (from.varint()? as u32, from.varint()?);
                    let named = Named {
                        name: in_line(&from.text()?),
                        bytes,
                    };
                    let all = if tag == 3 { &mut self.caches } else { &mut self.arenas };
                    all.insert(number, named);
                }
                5 => self.ledger = Some(from.text()?),
                6 => self.is_full = true,
                7 => self.began = Some(from.varint()?),
                8 => self.ended = Some((from.varint()?, from.varint()?)),
                9 => {
                    let known = self.mappings.len();
                    for mapping in mappings(&from.text()?) {
                        // The chunks before may have been written at another time.
                        if self.mappings[..known].iter().all(|other| other.start != mapping.start) {
                            self.mappings.push(mapping);
                        }
                    }
                }
                10 => self.mappings_are_cut = true,
                _ => return None,
            }
        }
        Some(())
    }
}

/// The chunks of one thread.
struct Stream<'a> {
    trace: &'a Trace,
    chunks: VecDeque<Chunk>,
    payload: Vec<u8>,
    at: usize,
    has_stacks: bool,
    tells_heap: bool,
    thread: u32,
    /// Of the last event.
    ticks: u64,
    /// The chunk's.
    line: Line,
    address: u64,
    place: u64,
    last_time: u64,
    waiting: Option<Event>,
}

impl<'a> Stream<'a> {
    fn new(trace: &'a Trace, chunks: VecDeque<Chunk>) -> Stream<'a> {
        Stream {
            trace,
            payload: Vec::new(),
            at: 0,
            has_stacks: false,
            tells_heap: false,
            thread: 0,
            ticks: 0,
            line: trace.line_of(&chunks[0]),
            chunks,
            address: 0,
            place: 0,
            last_time: 0,
            waiting: None,
        }
    }

    fn next(&mut self, losses: &mut Losses) -> io::Result<Option<Event>> {
        loop {
            if self.at < self.payload.len() {
                if let Some(event) = self.decode() {
                    return Ok(Some(event));
                }
                losses.chunks += 1;
            }
            self.payload = Vec::new();
            let Some(chunk) = self.chunks.pop_front() else {
                return Ok(None);
            };
            match payload(&self.trace.file, &chunk)? {
                Some(payload) => self.begin(&chunk, payload),
                None => losses.chunks += 1,
            }
        }
    }

    fn begin(&mut self, chunk: &Chunk, payload: Vec<u8>) {
        self.payload = payload;
        self.at = 0;
        self.has_stacks = chunk.kind == EVENTS_STACKS;
        self.tells_heap = chunk.version >= TELLS_HEAP;
        self.thread = chunk.thread;
        self.ticks = chunk.ticks.0;
        self.line = self.trace.line_of(chunk);
        (self.address, self.place) = (0, 0);
    }

    fn decode(&mut self) -> Option<Event> {
        let rest = &self.payload[self.at..];
        let first = rest[0];
        let mut from = Reader(rest);
        let (ticks, step, mut size, mut stack, mut number) = if first & 4 != 0 {
            let bytes = if first & 3 == 1 { 5 } else { 7 };
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(rest.get(..bytes)?);
            let word = u64::from_le_bytes(word);
            from.0 = &rest[bytes..];
            let (ticks, step) = (word >> 3 & 0x1fff, word >> 16 & 0x3ff_ffff);
            (ticks, step, word >> 42 << 3, 0, 0)
        } else {
            from.byte()?;
            let (ticks, step) = (from.varint()?, from.varint()?);
            (ticks, step, if first & 3 == 1 { 0 } else { from.varint()? }, 0, 0)
        };
        let mut is_heap = true;
        let kind = match first & 3 {
            0 => Kind::Alloc,
            1 => Kind::Free,
            2 => Kind::Resize,
            _ => {
                let which = from.byte()?;
                number = from.varint()? as u32;
                let is_cache_of_heap = || {
                    self.trace
                        .facts
                        .caches
                        .get(&number)
                        .is_some_and(|cache| cache.bytes != 0)
                };
                is_heap = which < 2 && (self.tells_heap || is_cache_of_heap());
                match which {
                    0 | 4 => Kind::CacheAlloc,
                    1 | 5 => Kind::CacheFree,
                    2 => Kind::ArenaAlloc,
                    3 => Kind::ArenaFree,
                    _ => return None,
                }
            }
        };
        if self.has_stacks && !matches!(kind, Kind::Free | Kind::CacheFree | Kind::ArenaFree) {
            stack = u32::try_from(from.varint()?)
                .ok()
                .filter(|stack| *stack < STACKS_MOST)?;
        }
        let address = match first & 3 {
            3 => {
                self.place = self.place.wrapping_add(unzigzag(step));
                self.place
            }
            _ => {
                self.address = self.address.wrapping_add(unzigzag(step).wrapping_mul(8));
                self.address
            }
        };
        if kind == Kind::CacheFree {
            size = 0;
        }
        // What an arena hands out need not be memory.
        if is_heap && address.checked_add(size).is_none_or(|end| end > ADDRESS_MOST) {
            return None;
        }
        self.at = self.payload.len() - from.0.len();
        self.ticks = self.ticks.saturating_add(ticks);
        let time = self.line.at(self.ticks) - self.trace.start_ns;
        self.last_time = time.max(self.last_time);
        Some(Event {
            time: self.last_time,
            thread: self.thread,
            kind,
            address,
            size,
            number,
            stack,
            is_heap,
        })
    }
}

/// Why a file has none that can be read. `is_empty`: nor anything else.
fn no_events(file: &File, is_empty: bool) -> String {
    let mut start = [0; 6];
    let begins_as_one = file.read_exact_at(&mut start, 0).is_ok() && start[..4] == MAGIC.to_le_bytes();
    match u16::from_le_bytes([start[4], start[5]]) {
        _ if !begins_as_one || !is_empty => "it holds no chunk of events".to_string(),
        OLDEST_VERSION..=VERSION => "it is cut short or damaged at its beginning".to_string(),
        other => format!("its format is version {other}, this command knows {OLDEST_VERSION} to {VERSION}"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Write;

    /// A chunk of (ticks, kind, address, size).
    pub fn chunk(sequence: u32, thread: u32, events: &[(u64, u8, u64, u64)]) -> Vec<u8> {
        let mut payload = Vec::new();
        let (mut ticks, mut address) = (0, 0i64);
        for (index, (at, kind, to, size)) in events.iter().enumerate() {
            let step = (*to as i64 - address) / 8;
            let (passed, step) = (at - ticks, ((step << 1) ^ (step >> 63)) as u64);
            if index % 2 == 0 && passed < 1 << 13 && step < 1 << 24 && *size < 1 << 17 {
                let word = u64::from(*kind) | 4 | passed << 3 | step << 16 | (size / 8) << 42;
                payload.extend(&word.to_le_bytes()[..if *kind == 1 { 5 } else { 7 }]);
            } else {
                payload.push(*kind);
                add(&mut payload, passed);
                add(&mut payload, step);
                if *kind != 1 {
                    add(&mut payload, *size);
                }
            }
            (ticks, address) = (*at, *to as i64);
        }
        whole_chunk(0, sequence, thread, events.len(), payload)
    }

    pub fn add(payload: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            payload.push(value as u8 | 0x80);
            value >>= 7;
        }
        payload.push(value as u8);
    }

    pub fn whole_chunk(kind: u32, sequence: u32, thread: u32, events: usize, payload: Vec<u8>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [
            MAGIC,
            u32::from(VERSION) | kind << 16,
            sequence,
            payload.len() as u32,
            events as u32,
            0,
            7,
            thread,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        for long in [0u64, 1000, 1000, 2000] {
            bytes.extend(long.to_le_bytes());
        }
        bytes.extend(payload);
        let sum = checksum(&bytes);
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The same chunk, whose thread read the clock `late` ns late.
    fn read_late(mut chunk: Vec<u8>, late: u64) -> Vec<u8> {
        for (at, ns) in [(40, 1000 + late), (56, 2000 + late)] {
            chunk[at..at + 8].copy_from_slice(&ns.to_le_bytes());
        }
        chunk[CHECKSUM].fill(0);
        let sum = checksum(&chunk);
        chunk[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        chunk
    }

    pub fn as_oldest(mut chunk: Vec<u8>) -> Vec<u8> {
        chunk[4] = OLDEST_VERSION as u8;
        let sum = checksum(&chunk[HEAD..]);
        chunk[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        chunk
    }

    pub fn file(chunks: &[Vec<u8>]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for (index, chunk) in chunks.iter().enumerate() {
            let last = index + 1 == chunks.len();
            let mut padded = chunk.clone();
            padded.resize(if last { chunk.len() } else { CHUNK as usize }, 0xee);
            file.write_all(&padded).unwrap();
        }
        file
    }

    fn read(file: &tempfile::NamedTempFile) -> (Vec<Event>, Losses) {
        let trace = Trace::open(file.path()).unwrap();
        let mut events = Vec::new();
        let losses = trace.for_each(|event| events.push(event), |_| ()).unwrap();
        (events, losses)
    }

    #[test]
    fn threads_are_merged_by_time() {
        let file = file(&[
            chunk(0, 1, &[(10, 0, 0x1000, 64), (500, 1, 0x1000, 0)]),
            chunk(1, 2, &[(20, 0, 0x800, 16), (700, 2, 0x800, 32)]),
            chunk(2, 1, &[(999, 0, 0x2000, 8)]),
        ]);
        let (events, losses) = read(&file);
        let times: Vec<u64> = events.iter().map(|event| event.time).collect();
        assert_eq!(times, [10, 20, 500, 700, 999]);
        assert_eq!(
            (events[3].kind, events[3].size, events[3].address),
            (Kind::Resize, 32, 0x800)
        );
        assert_eq!(losses.chunks, 0);
    }

    #[test]
    fn an_object_is_freed_by_another_thread_after_it_was_made() {
        let file = file(&[
            read_late(chunk(0, 1, &[(10, 0, 0x1000, 64), (500, 0, 0x2000, 64)]), 300),
            chunk(1, 2, &[(20, 1, 0x1000, 0), (510, 1, 0x2000, 0)]),
        ]);
        let (events, _) = read(&file);
        let order: Vec<(u32, u64)> = events.iter().map(|event| (event.thread, event.address)).collect();
        assert_eq!(order, [(1, 0x1000), (2, 0x1000), (1, 0x2000), (2, 0x2000)]);
    }

    #[test]
    fn ticks_of_another_clock_are_told_by_each_chunks_own_ends() {
        let later = 10_000_000;
        let file = file(&[
            read_late(chunk(0, 1, &[(10, 0, 0x1000, 64)]), later),
            chunk(1, 2, &[(20, 0, 0x800, 16)]),
        ]);
        let times: Vec<u64> = read(&file).0.iter().map(|event| event.time).collect();
        assert_eq!(times, [20, later + 10]);
    }

    #[test]
    fn damaged_chunks_are_passed_over() {
        let mut bad = chunk(1, 1, &[(20, 0, 0x800, 16)]);
        bad[64] ^= 4;
        let mut headless = chunk(2, 1, &[(30, 0, 0x800, 16)]);
        headless[0] = 0;
        let mut cut = chunk(3, 1, &[(40, 0, 0x800, 16)]);
        cut.truncate(67);
        let file = file(&[chunk(0, 1, &[(10, 0, 0x1000, 64)]), bad, headless, cut]);
        let (events, losses) = read(&file);
        assert_eq!(events.len(), 1);
        assert_eq!(Trace::open(file.path()).unwrap().damaged + losses.chunks, 3);
    }

    #[test]
    fn what_a_damaged_head_says_is_not_believed() {
        let whole = [0, 1, 2].map(|number| chunk(number, 1, &[(u64::from(number) + 10, 0, 0x1000, 64)]));
        let about = |chunks: &[Vec<u8>]| {
            let trace = Trace::open(file(chunks).path()).unwrap();
            (trace.pid, trace.start_ns, trace.duration_ns, trace.line.is_some())
        };
        // Its process, and bits of its times: its first and last ticks, and nanoseconds.
        for (number, at) in [(0, 25), (1, 38), (1, 46), (1, 54), (1, 62), (2, 61)] {
            let mut chunks = whole.to_vec();
            chunks[number][at] ^= 0x10;
            assert_eq!(about(&chunks), about(&whole), "{at} of {number}");
        }
    }

    /// Two of them would be one where a bit of the number is wanted for something else.
    #[test]
    fn an_event_of_a_stack_that_cannot_be_is_damaged() {
        let read_with = |stack: u64| {
            let mut payload = vec![0, 1, 16, 64];
            add(&mut payload, stack);
            read(&file(&[whole_chunk(1, 0, 1, 1, payload)]))
        };
        assert_eq!(read_with(7).0[0].stack, 7);
        for stack in [1 << 21, 1 << 31 | 7, 1 << 32 | 7] {
            let (events, losses) = read_with(stack);
            assert_eq!((events.len(), losses.chunks), (0, 1), "{stack:#x}");
        }
    }

    /// Chunks of events, and at last one that says how many chunks there were when the process exited.
    fn ended(events: &[u32], chunks: u8) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = events
            .iter()
            .map(|number| chunk(*number, 1, &[(u64::from(*number) + 10, 0, 0x1000, 64)]))
            .collect();
        all.push(whole_chunk(2, 9, 0, 1, vec![8, 0, chunks]));
        all
    }

    fn missing_of(chunks: &[Vec<u8>]) -> Option<String> {
        let file = file(chunks);
        let trace = Trace::open(file.path()).unwrap();
        let losses = trace.for_each(|_| (), |_| ()).unwrap();
        trace.missing(&losses)
    }

    #[test]
    fn a_hole_in_a_trace_that_ended_is_told() {
        let all: Vec<u32> = (0..9).collect();
        assert_eq!(missing_of(&ended(&all, 10)), None);
        let mut chunks = ended(&all, 10);
        chunks[3] = vec![0; 100];
        chunks[4] = vec![0; 100];
        assert!(missing_of(&chunks).is_some_and(|missing| missing.starts_with("2 chunks not there")));
        // What is damaged is told already.
        chunks[4][0] = 1;
        chunks[5][0] ^= 1;
        let missing = missing_of(&chunks).unwrap();
        assert!(
            missing.contains("1 chunk not there") && missing.contains("2 damaged"),
            "{missing}"
        );
    }

    #[test]
    fn a_hole_in_a_ring_that_ended_is_told() {
        let begun_late = |numbers: &[u32]| missing_of(&ended(numbers, 0)).unwrap();
        assert!(!begun_late(&[5, 6, 7]).contains("chunk"));
        assert!(begun_late(&[5, 7]).contains("1 chunk not there"));
        // The number of the last one is damaged.
        let mut chunks = ended(&[5, 6, 7], 0);
        chunks[2][8] = 6;
        let missing = missing_of(&chunks).unwrap();
        assert!(
            missing.contains("1 damaged chunk") && !missing.contains("chunks not there"),
            "{missing}"
        );
    }

    #[test]
    fn a_copy_of_a_chunk_counts_once() {
        let all: Vec<u32> = (0..9).collect();
        let mut chunks = ended(&all, 10);
        chunks[3] = chunks[6].clone();
        let file = file(&chunks);
        let (events, _) = read(&file);
        assert_eq!((events.len(), Trace::open(file.path()).unwrap().damaged), (8, 1));
    }

    #[test]
    fn every_bit_of_a_chunk_counts() {
        let good = chunk(1, 1, &[(20, 0, 0x800, 16)]);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let file = file(&[chunk(0, 1, &[(10, 0, 0x1000, 64)]), bad]);
            let (events, losses) = read(&file);
            let damaged = Trace::open(file.path()).unwrap().damaged;
            assert_eq!((events.len(), losses.chunks + damaged), (1, 1), "bit {bit}");
        }
    }

    #[test]
    fn stacks_and_names_are_facts() {
        let mut facts = vec![1, 1, 2, 0];
        add(&mut facts, 2 * 0x401000);
        add(&mut facts, 2 * 0x20 - 1);
        facts.extend([1, 2, 3, 1]);
        add(&mut facts, 2 * 0x402000);
        add(&mut facts, 2 * 0x10);
        facts.extend([3, 5, 48, 3]);
        facts.extend(b"foo");
        let text = b"400000-500000 r-xp 00001000 00:01 12  /bin/a\n";
        facts.extend([2, text.len() as u8]);
        facts.extend(text);
        let mut events = vec![3, 9];
        add(&mut events, 2 * 0x7001);
        events.extend([48, 0, 5, 1]);
        let file = file(&[whole_chunk(1, 0, 1, 1, events), whole_chunk(2, 1, 0, 4, facts)]);
        let trace = Trace::open(file.path()).unwrap();
        assert_eq!(trace.facts.stacks[1], [0x401000, 0x400fe0]);
        assert_eq!(trace.facts.stacks[2], [0x402000, 0x402010, 0x400fe0]);
        assert_eq!(trace.facts.caches[&5].name, "foo");
        assert_eq!(trace.facts.mappings[0].path, "/bin/a");
        assert!(trace.has_stacks && Trace::is_one(file.path()));
        let (events, losses) = read(&file);
        assert_eq!(losses.chunks, 0);
        assert_eq!(
            (
                events[0].kind,
                events[0].address,
                events[0].size,
                events[0].number,
                events[0].stack
            ),
            (Kind::CacheAlloc, 0x7001, 48, 5, 1)
        );
    }

    /// Each of a few bytes has the frames of the one before, and one more.
    #[test]
    fn stacks_that_are_made_up_end() {
        let mut facts = Vec::new();
        for depth in 1..5000 {
            facts.push(1);
            [1, depth, depth - 1, 2]
                .into_iter()
                .for_each(|number| add(&mut facts, number));
        }
        let events = chunk(0, 1, &[(10, 0, 0x1000, 64)]);
        let file = file(&[events, whole_chunk(2, 1, 0, 4, facts)]);
        let trace = Trace::open(file.path()).unwrap();
        assert_eq!((trace.facts.stacks[1].len(), trace.damaged), (MOST_DEPTH, 1));
    }

    #[test]
    fn what_lies_beyond_all_memory_is_damage() {
        let file = file(&[chunk(0, 1, &[(10, 0, 0x1000, 64), (20, 0, 0x2000, 1 << 62)])]);
        let (events, losses) = read(&file);
        assert_eq!((events.len(), losses.chunks), (1, 1));
    }

    #[test]
    fn stacks_of_version_2_are_read() {
        let mut facts = vec![1, 3, 2];
        add(&mut facts, 2 * 0x401000);
        add(&mut facts, 2 * 0x20 - 1);
        let facts = as_oldest(whole_chunk(2, 1, 0, 1, facts));
        let events = as_oldest(chunk(0, 1, &[(10, 0, 0x1000, 64)]));
        let file = file(&[events, facts]);
        assert_eq!(Trace::open(file.path()).unwrap().facts.stacks[3], [0x401000, 0x400fe0]);
        assert_eq!(read(&file).0.len(), 1);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        assert!(Trace::open(Path::new("/etc/passwd")).is_err());
        assert!(Trace::open(Path::new("/nowhere")).is_err());
    }
}
