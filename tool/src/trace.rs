//! Event traces: chunks of events, each good by itself, read as one stream in the order of time.
//!
//! The format is described in include/vmag/trace_format.h. Chunks that are torn or damaged are passed over and counted.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub const CHUNK: u64 = 65536;
const HEAD: usize = 64;
const MAGIC: u32 = 0x6374_6d76;
const VERSION: u16 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Alloc,
    Free,
    Resize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since the trace began.
    pub time: u64,
    pub thread: u32,
    pub kind: Kind,
    pub address: u64,
    /// Bytes that the program may use; 0 of a free.
    pub size: u64,
}

/// What the head of a chunk says.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    offset: u64,
    sequence: u32,
    bytes: u32,
    events: u32,
    checksum: u32,
    pid: u32,
    thread: u32,
    ticks: (u64, u64),
    ns: (u64, u64),
}

pub struct Trace {
    file: File,
    path: PathBuf,
    chunks: Vec<Chunk>,
    /// Chunks whose head is none.
    pub damaged: usize,
    pub bytes: u64,
    pub events: u64,
    pub pid: u32,
    /// In CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub duration_ns: u64,
    pub threads: usize,
    /// The oldest chunks were overwritten, or there was no room for the first.
    pub is_cut: bool,
}

impl Trace {
    pub fn open(path: &Path) -> Result<Trace> {
        Trace::read(path).map_err(|error| {
            ToolError::new(
                format!("cannot read the trace {}", path.display()),
                error,
                "name a file that `vmag run --trace FILE` wrote",
            )
        })
    }

    fn read(path: &Path) -> io::Result<Trace> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let (mut chunks, mut damaged) = (Vec::new(), 0);
        for offset in (0..bytes).step_by(CHUNK as usize) {
            let mut head = [0; HEAD];
            let whole = file.read_exact_at(&mut head, offset).is_ok();
            match Chunk::parse(&head, offset)
                .filter(|chunk| whole && offset + HEAD as u64 + u64::from(chunk.bytes) <= bytes)
            {
                Some(chunk) => chunks.push(chunk),
                None => damaged += 1,
            }
        }
        if chunks.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it holds no chunk of events",
            ));
        }
        chunks.sort_by_key(|chunk| chunk.sequence);
        let start = chunks.iter().map(|chunk| chunk.ns.0).min().unwrap_or(0);
        let end = chunks.iter().map(|chunk| chunk.ns.1).max().unwrap_or(0);
        let mut threads: Vec<u32> = chunks.iter().map(|chunk| chunk.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        Ok(Trace {
            file,
            path: path.to_path_buf(),
            damaged,
            bytes,
            events: chunks.iter().map(|chunk| u64::from(chunk.events)).sum(),
            pid: chunks[0].pid,
            start_ns: start,
            duration_ns: end.saturating_sub(start).max(1),
            threads: threads.len(),
            is_cut: chunks[0].sequence != 0,
            chunks,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Hands all events to `take` in the order of time, and now and then the part that is done to `progress`.
    pub fn for_each(&self, mut take: impl FnMut(Event), mut progress: impl FnMut(f64)) -> io::Result<Losses> {
        let mut queues: BTreeMap<u32, VecDeque<Chunk>> = BTreeMap::new();
        for chunk in &self.chunks {
            queues.entry(chunk.thread).or_default().push_back(*chunk);
        }
        let mut streams: Vec<Stream> = queues.into_values().map(|chunks| Stream::new(self, chunks)).collect();
        let mut losses = Losses::default();
        let mut heap = BinaryHeap::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            if let Some(event) = stream.next(&mut losses)? {
                heap.push(Reverse((event.time, index)));
                stream.waiting = Some(event);
            }
        }
        let mut done = 0u64;
        while let Some(Reverse((_, index))) = heap.pop() {
            let stream = &mut streams[index];
            take(stream.waiting.take().expect("a stream in the heap has an event"));
            if let Some(event) = stream.next(&mut losses)? {
                heap.push(Reverse((event.time, index)));
                stream.waiting = Some(event);
            }
            done += 1;
            if done % (1 << 18) == 0 {
                progress(done as f64 / self.events.max(1) as f64);
            }
        }
        Ok(losses)
    }
}

/// What could not be read.
#[derive(Debug, Default, Clone, Copy)]
pub struct Losses {
    pub chunks: usize,
}

impl Chunk {
    fn parse(head: &[u8; HEAD], offset: u64) -> Option<Chunk> {
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        if word(0) != MAGIC || u16::from_le_bytes([head[4], head[5]]) != VERSION {
            return None;
        }
        let chunk = Chunk {
            offset,
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
}

/// The chunks of one thread.
struct Stream<'a> {
    trace: &'a Trace,
    chunks: VecDeque<Chunk>,
    payload: Vec<u8>,
    at: usize,
    chunk: Option<Chunk>,
    ticks: u64,
    address: u64,
    last_time: u64,
    waiting: Option<Event>,
}

impl<'a> Stream<'a> {
    fn new(trace: &'a Trace, chunks: VecDeque<Chunk>) -> Stream<'a> {
        Stream {
            trace,
            chunks,
            payload: Vec::new(),
            at: 0,
            chunk: None,
            ticks: 0,
            address: 0,
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
                self.payload.clear();
            }
            let Some(chunk) = self.chunks.pop_front() else {
                return Ok(None);
            };
            self.load(chunk, losses)?;
        }
    }

    fn load(&mut self, chunk: Chunk, losses: &mut Losses) -> io::Result<()> {
        self.payload.resize(chunk.bytes as usize, 0);
        self.trace
            .file
            .read_exact_at(&mut self.payload, chunk.offset + HEAD as u64)?;
        self.at = 0;
        self.ticks = chunk.ticks.0;
        self.address = 0;
        self.chunk = Some(chunk);
        let mut crc = flate2::Crc::new();
        crc.update(&self.payload);
        if crc.sum() != chunk.checksum {
            losses.chunks += 1;
            self.payload.clear();
        }
        Ok(())
    }

    fn varint(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = *self.payload.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    fn decode(&mut self) -> Option<Event> {
        let first = self.varint()?;
        let zigzag = self.varint()?;
        let kind = match first & 3 {
            0 => Kind::Alloc,
            1 => Kind::Free,
            2 => Kind::Resize,
            _ => return None,
        };
        let size = if kind == Kind::Free { 0 } else { self.varint()? };
        self.ticks += first >> 2;
        let step = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        self.address = self.address.wrapping_add((step as u64).wrapping_mul(8));
        let chunk = self.chunk.as_ref()?;
        // Ticks are turned into time along the line between the chunk's two ends.
        let (ticks, ns) = (
            chunk.ticks.1.saturating_sub(chunk.ticks.0).max(1),
            chunk.ns.1.saturating_sub(chunk.ns.0),
        );
        let passed = (self.ticks - chunk.ticks.0) as f64 / ticks as f64 * ns as f64;
        let time = (chunk.ns.0 - self.trace.start_ns) + passed as u64;
        self.last_time = time.max(self.last_time);
        Some(Event {
            time: self.last_time,
            thread: chunk.thread,
            kind,
            address: self.address,
            size,
        })
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::Write;

    /// A chunk of (ticks, kind, address, size).
    pub fn chunk(sequence: u32, thread: u32, events: &[(u64, u8, u64, u64)]) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut add = |mut value: u64| {
            while value >= 0x80 {
                payload.push(value as u8 | 0x80);
                value >>= 7;
            }
            payload.push(value as u8);
        };
        let (mut ticks, mut address) = (0, 0i64);
        for (at, kind, to, size) in events {
            add((at - ticks) << 2 | u64::from(*kind));
            let step = (*to as i64 - address) / 8;
            add(((step << 1) ^ (step >> 63)) as u64);
            if *kind != 1 {
                add(*size);
            }
            (ticks, address) = (*at, *to as i64);
        }
        let mut crc = flate2::Crc::new();
        crc.update(&payload);
        let mut bytes = Vec::new();
        for word in [
            MAGIC,
            u32::from(VERSION),
            sequence,
            payload.len() as u32,
            events.len() as u32,
            crc.sum(),
            7,
            thread,
        ] {
            bytes.extend(word.to_le_bytes());
        }
        for long in [0u64, 1000, 1000, 2000] {
            bytes.extend(long.to_le_bytes());
        }
        bytes.extend(payload);
        bytes
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
    fn damaged_chunks_are_passed_over() {
        let mut bad = chunk(1, 1, &[(20, 0, 0x800, 16)]);
        bad[64] ^= 4;
        let mut headless = chunk(2, 1, &[(30, 0, 0x800, 16)]);
        headless[0] = 0;
        let mut cut = chunk(3, 1, &[(40, 0, 0x800, 16)]);
        cut.truncate(66);
        let file = file(&[chunk(0, 1, &[(10, 0, 0x1000, 64)]), bad, headless, cut]);
        let (events, losses) = read(&file);
        assert_eq!(events.len(), 1);
        assert_eq!(losses.chunks, 1);
        assert_eq!(Trace::open(file.path()).unwrap().damaged, 2);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        assert!(Trace::open(Path::new("/etc/passwd")).is_err());
        assert!(Trace::open(Path::new("/nowhere")).is_err());
    }
}
