//! profile.proto, gzipped, as pprof, Parca and Pyroscope take it.
//!
//! Sample types in Go's order, the last one is shown first; without totals only the two of what is alive. Values are
//! already scaled up, for readers do not scale protos. Addresses are the files' own, so that a server with the
//! binaries can name them too; ids count from 1 without gaps.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::HeapView;
use crate::image::ObjectFile;
use crate::profile::{Estimate, Places, Profile, RECORDED_DEPTH, own_path};
use crate::symbols::Frame;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::Arc;

/// A protobuf message that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Zero is what a reader takes a missing field for.
    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: Message) {
        self.bytes(field, &message.0);
    }

    fn packed(&mut self, field: u64, values: impl IntoIterator<Item = u64>) {
        let mut inner = Message::default();
        values.into_iter().for_each(|value| inner.varint(value));
        self.message(field, inner);
    }
}

#[derive(Default)]
struct Strings {
    numbers: HashMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.numbers.insert(text.to_string(), number);
        self.all.push(text.to_string());
        number
    }
}

#[derive(Default)]
struct Writer {
    out: Message,
    strings: Strings,
    mappings: HashMap<String, u64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<Vec<Arc<Frame>>, u64>,
    files: HashMap<String, ObjectFile>,
}

impl Writer {
    fn value_type(&mut self, kind: &str, unit: &str) -> Message {
        let mut message = Message::default();
        message.number(1, self.strings.number(kind));
        message.number(2, self.strings.number(unit));
        message
    }

    fn mapping(&mut self, profile: &Profile, path: &str) -> u64 {
        if let Some(number) = self.mappings.get(path) {
            return *number;
        }
        let number = self.mappings.len() as u64 + 1;
        let mut message = Message::default();
        message.number(1, number);
        message.number(3, u64::MAX);
        message.number(5, self.strings.number(&own_path(path)));
        let build_id = profile.build_id(path).unwrap_or_default();
        message.number(6, self.strings.number(&build_id));
        message.number(7, 1);
        message.number(8, 1);
        message.number(9, 1);
        message.number(10, 1);
        self.out.message(3, message);
        self.mappings.insert(path.to_string(), number);
        number
    }

    fn file(&mut self, profile: &Profile, path: &str) -> &ObjectFile {
        self.files
            .entry(path.to_string())
            .or_insert_with(|| profile.object_file(path).unwrap_or_default())
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let key = (frame.function.clone(), frame.file.clone().unwrap_or_default());
        if let Some(number) = self.functions.get(&key) {
            return *number;
        }
        let number = self.functions.len() as u64 + 1;
        let mut message = Message::default();
        message.number(1, number);
        message.number(2, self.strings.number(&key.0));
        if is_symbol(&key.0) {
            message.number(3, self.strings.number(&key.0));
        }
        message.number(4, self.strings.number(&key.1));
        self.out.message(5, message);
        self.functions.insert(key, number);
        number
    }

    /// `frames`: those of one address, innermost first.
    fn location(&mut self, frames: Vec<Arc<Frame>>, mapping: u64, address: u64) -> u64 {
        if let Some(number) = self.locations.get(&frames) {
            return *number;
        }
        let number = self.locations.len() as u64 + 1;
        let mut message = Message::default();
        message.number(1, number);
        message.number(2, mapping);
        message.number(3, address);
        for frame in &frames {
            let mut line = Message::default();
            line.number(1, self.function(frame));
            line.number(2, u64::from(frame.line.unwrap_or(0)));
            message.message(4, line);
        }
        self.out.message(4, message);
        self.locations.insert(frames, number);
        number
    }
}

/// A name that linkers know. Others are demangled, and where both names of a function are the same, pprof takes the arguments of templates and
/// functions from it, so that overloads become one.
fn is_symbol(name: &str) -> bool {
    name.chars()
        .all(|letter| letter.is_alphanumeric() || "_.$@".contains(letter))
}

/// What a profile is about, which says what readers show first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What is alive.
    Live,
    /// What was allocated in that time, or, with 0, since the beginning.
    Allocated { seconds: u64 },
}

pub fn write(view: &HeapView) -> Vec<u8> {
    write_as(view, Kind::Live)
}

pub fn write_as(view: &HeapView, kind: Kind) -> Vec<u8> {
    let message = encode(view, kind);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&message).expect("memory can be written to");
    gzip.finish().expect("memory can be written to")
}

fn encode(view: &HeapView, kind: Kind) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.strings.number("");
    let has_totals = view.profile.total().objects > 0.0 && view.profile.total() != view.profile.live();
    let totals = has_totals || kind != Kind::Live;
    let mut types = vec![("inuse_objects", "count"), ("inuse_space", "bytes")];
    if totals {
        types.splice(0..0, [("alloc_objects", "count"), ("alloc_space", "bytes")]);
    }
    for (kind, unit) in types {
        let message = writer.value_type(kind, unit);
        writer.out.message(1, message);
    }
    if let Some(main) = view.profile.mappings.first() {
        writer.mapping(&view.profile, &main.path);
    }
    write_samples(view, &mut writer, totals);
    let period = writer.value_type("space", "bytes");
    writer.out.message(11, period);
    writer.out.number(12, 1 << view.profile.lg_sample.unwrap_or(0));
    // What a damaged recording may say are no nanoseconds.
    let nanoseconds = view.profile.time.and_then(|time| time.checked_mul(1_000_000_000));
    writer.out.number(9, nanoseconds.unwrap_or(0) as u64);
    let (default, seconds) = match kind {
        Kind::Live => ("inuse_space", 0),
        Kind::Allocated { seconds } => ("alloc_space", seconds),
    };
    writer.out.number(10, seconds * 1_000_000_000);
    let default = writer.strings.number(default);
    let comment = writer.strings.number(&comment(&view.profile));
    writer.out.packed(13, [comment]);
    writer.out.number(14, default);
    for text in std::mem::take(&mut writer.strings.all) {
        writer.out.bytes(6, text.as_bytes());
    }
    writer.out.0
}

fn comment(profile: &Profile) -> String {
    let distance = match profile.lg_sample {
        None | Some(0) => "each allocation".to_string(),
        Some(lg) => format!("one sample in {} B", 1u64 << lg),
    };
    let process = profile.pid.map_or(String::new(), |pid| format!(", of process {pid}"));
    format!(
        "vmag {}, {distance}, {} samples lost, stacks of {RECORDED_DEPTH} frames at most{process}",
        env!("CARGO_PKG_VERSION"),
        profile.lost
    )
}

fn write_samples(view: &HeapView, writer: &mut Writer, totals: bool) {
    let places = view.profile.places();
    let mut sums: BTreeMap<(usize, u32, Option<String>), (Estimate, Estimate)> = BTreeMap::new();
    for sample in &view.profile.samples {
        let key = (sample.stack, sample.thread, view.profile.cache_name(sample));
        let sum = sums.entry(key).or_default();
        sum.0 += sample.live;
        sum.1 += sample.total;
    }
    for ((stack, thread, cache), (live, total)) in sums {
        let mut message = Message::default();
        let locations = locations_of(view, &places, writer, stack);
        message.packed(1, locations);
        let mut values = vec![live.objects, live.bytes];
        if totals {
            values.splice(0..0, [total.objects, total.bytes]);
        }
        // Readers have 63 bits and a sign.
        message.packed(2, values.into_iter().map(|value| value.round() as i64 as u64));
        let name = view
            .profile
            .threads
            .get(&thread)
            .cloned()
            .unwrap_or_else(|| thread.to_string());
        for (key, value) in [("thread", Some(name)), ("cache", cache)] {
            let Some(value) = value else { continue };
            let mut label = Message::default();
            label.number(1, writer.strings.number(key));
            label.number(2, writer.strings.number(&value));
            message.message(3, label);
        }
        writer.out.message(2, message);
    }
}

/// Named frames are outermost first; the frames that one address is called by belong to one location.
fn locations_of(view: &HeapView, places: &Places, writer: &mut Writer, stack: usize) -> Vec<u64> {
    let mut groups: Vec<Vec<Arc<Frame>>> = Vec::new();
    for frame in &view.named.stacks[stack] {
        match groups.last_mut().filter(|_| frame.inlined) {
            Some(group) => group.insert(0, frame.clone()),
            None => groups.push(vec![frame.clone()]),
        }
    }
    let addresses = &view.profile.stacks[stack];
    // What stands for frames that were not recorded has none.
    let without = view.named.stacks[stack]
        .first()
        .is_some_and(|frame| frame.is_truncated());
    let outermost_first = std::iter::repeat_n(0, usize::from(without))
        .chain(addresses.iter().rev().copied())
        .chain(std::iter::repeat(0));
    let mut locations: Vec<u64> = groups
        .into_iter()
        .zip(outermost_first)
        .map(|(group, address)| match places.locate(address.saturating_sub(1)) {
            Some((map, offset)) => {
                let path = map.path.clone();
                let own = writer.file(&view.profile, &path).own_address(offset);
                let mapping = writer.mapping(&view.profile, &path);
                writer.location(group, mapping, own)
            }
            None => writer.location(group, 0, address),
        })
        .collect();
    locations.reverse();
    locations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_little_endian_sevens() {
        let mut message = Message::default();
        message.number(1, 300);
        message.number(2, 0);
        assert_eq!(message.0, [8, 0xac, 2]);
    }

    #[test]
    fn what_stands_for_frames_that_were_not_recorded_has_no_address() {
        let addresses: String = (1..=RECORDED_DEPTH).map(|address| format!(" {address:#x}")).collect();
        let text = format!("heap_v2/524288\n@{addresses}\n  t*: 1: 64 [0: 0]\n\nMAPPED_LIBRARIES:\n");
        let view = HeapView::new(Profile::parse(&text).unwrap());
        let (mut writer, mut expected) = (Writer::default(), Writer::default());
        locations_of(&view, &view.profile.places(), &mut writer, 0);
        let frames = &view.named.stacks[0];
        assert!(frames[0].is_truncated() && frames.len() == RECORDED_DEPTH + 1);
        for (frame, address) in frames
            .iter()
            .zip([0].into_iter().chain((1..=RECORDED_DEPTH as u64).rev()))
        {
            expected.location(vec![frame.clone()], 0, address);
        }
        assert!(writer.out.0 == expected.out.0);
        assert!(
            comment(&view.profile).contains("one sample in 524288 B, 0 samples lost, stacks of 128 frames at most")
        );
    }

    #[test]
    fn what_is_demangled_is_no_name_of_the_system() {
        let names_of = |name: &str| {
            let frame = Frame {
                function: name.to_string(),
                module: "a".to_string(),
                file: None,
                line: None,
                inlined: false,
            };
            let mut writer = Writer::default();
            writer.strings.number("");
            writer.function(&frame);
            // A function is behind its own tag and length: 1, and fields of a byte each.
            (writer.out.0[2..].to_vec(), writer.strings.all)
        };
        let names = |name: &str| vec![String::new(), name.to_string()];
        assert_eq!(names_of("grab"), (vec![8, 1, 16, 1, 24, 1], names("grab")));
        for name in ["grab<int>(int)", "a::grab", "core::ptr::drop_in_place<T>"] {
            assert_eq!(names_of(name), (vec![8, 1, 16, 1], names(name)));
        }
    }

    #[test]
    fn what_is_too_large_stays_above_zero() {
        let text = "heap_v2/1\n@ 0x1\n\nMAPPED_LIBRARIES:\n\nVMAG_PROFILE:\nlg_sample=0 time=99999999999999\n\
                    1 1 0 18446744073709551615 0 1 1\n";
        let plain = encode(&HeapView::new(Profile::parse(text).unwrap()), Kind::Live);
        let mut values = Message::default();
        values.packed(2, [1, i64::MAX as u64]);
        assert!(plain.windows(values.0.len()).any(|window| window == values.0));
    }

    #[test]
    fn it_is_gzip_and_has_all_strings() {
        let bytes = write(&crate::heap_view::tests::view());
        assert_eq!(bytes[..2], [0x1f, 0x8b]);
        let plain = encode(&crate::heap_view::tests::view(), Kind::Live);
        for text in ["alloc_space", "inuse_space", "main", "/src/a.c"] {
            assert!(
                plain.windows(text.len()).any(|window| window == text.as_bytes()),
                "{text}"
            );
        }
    }
}
