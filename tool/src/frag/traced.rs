//! Which pages of a traced heap are nearly empty at one moment, and whose objects keep them: exactly, object by object.
//!
//! A page with a small object on it cannot be given back. What such a page has free is shared among its objects. Objects
//! from 16 KiB up have pages of their own and are left out.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::error::{Result, ToolError};
use crate::output::figures::short_time;
use crate::output::warn_missing;
use crate::profile::Profile;
use crate::symbols::{Frame, name_stacks};
use crate::trace::{Event, Kind, Trace};
use crate::trace_view::LostStacks;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;
/// Larger ones are no buffers of slabs.
const LARGE_BYTES: u64 = 16 << 10;

#[derive(Debug, Clone, Copy)]
struct Object {
    size: u64,
    born: u64,
    thread: u32,
    stack: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Held {
    bytes: u64,
    objects: u64,
}

/// Objects of one size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct SizeKept {
    pub size: u64,
    pub objects: u64,
    /// Those on pages that are nearly empty, and what is free on these.
    pub pinning_objects: u64,
    pub kept_bytes: f64,
}

/// Who allocated the objects on pages that are nearly empty.
#[derive(Debug, Clone, Serialize)]
pub struct OwnerKept {
    /// The outermost first; empty without stacks.
    #[serde(skip)]
    pub frames: Vec<Arc<Frame>>,
    #[serde(skip)]
    stack: u32,
    pub thread: Option<u32>,
    pub size: Option<u64>,
    pub objects: u64,
    pub kept_bytes: f64,
    /// Of these objects, at the moment looked at.
    pub mean_age_seconds: f64,
}

#[derive(Debug)]
pub struct Traced {
    pub pid: u32,
    /// The moment looked at, from the beginning of the trace.
    pub seconds: f64,
    pub below_percent: u64,
    /// With small objects on them.
    pub pages: u64,
    pub nearly_empty: u64,
    pub live_bytes: u64,
    pub kept_bytes: u64,
    pub has_stacks: bool,
    /// In words; None: the trace is whole.
    pub missing: Option<String>,
    pub sizes: Vec<SizeKept>,
    pub owners: Vec<OwnerKept>,
}

/// `at`: seconds from the beginning of the trace; None: its end.
pub fn look(trace: &Trace, at: Option<f64>, below_percent: u64, progress: &mut dyn FnMut(f64)) -> Result<Traced> {
    if let Some(at) = at.filter(|at| at.is_nan() || *at < 0.0) {
        return Err(ToolError::new(
            format!("cannot look at second {at} of {}", trace.path().display()),
            "it is before the trace",
            "give --at seconds from its beginning, or leave it out: its end is looked at",
        ));
    }
    let length = trace.duration_ns as f64 / 1e9;
    if at.is_some_and(|at| at > length) {
        let end = format!("it is {} long: that is looked at", short_time(length));
        warn_missing(&trace.path().display().to_string(), Some(&end));
    }
    let until = at.map_or(u64::MAX, |seconds| (seconds * 1e9) as u64);
    let mut live = Live {
        objects: FxHashMap::default(),
    };
    let mut lost = LostStacks::default();
    let take = |event: Event| {
        lost.take(trace, &event);
        if event.time <= until {
            live.take(&event);
        }
    };
    let losses = trace.for_each(take, progress).map_err(|error| {
        ToolError::new(
            format!("cannot read the trace {}", trace.path().display()),
            error,
            "look whether the disk is well; the file was there a moment ago",
        )
    })?;
    let moment = until.min(trace.duration_ns);
    let mut found = sum(&live.objects, moment, below_percent, trace.has_stacks);
    found.pid = trace.pid;
    found.missing = lost.missing(trace, &losses);
    name_owners(trace, &mut found.owners);
    Ok(found)
}

/// Stacks of equal names are one owner.
fn name_owners(trace: &Trace, owners: &mut Vec<OwnerKept>) {
    if !trace.has_stacks {
        return;
    }
    let frames = |owner: &OwnerKept| {
        trace
            .facts
            .stacks
            .get(owner.stack as usize)
            .cloned()
            .unwrap_or_default()
    };
    let profile = Profile {
        stacks: owners.iter().map(frames).collect(),
        mappings: trace.facts.mappings.clone(),
        mappings_are_cut: trace.facts.mappings_are_cut,
        known: trace.facts.known.clone(),
        ..Profile::default()
    };
    let mut merged: HashMap<Vec<Arc<Frame>>, OwnerKept> = HashMap::new();
    for (owner, frames) in owners.drain(..).zip(name_stacks(&profile).stacks) {
        match merged.get_mut(&frames) {
            Some(same) => same.add(&owner),
            None => {
                merged.insert(frames.clone(), OwnerKept { frames, ..owner });
            }
        }
    }
    owners.extend(merged.into_values());
    owners.sort_by(|a, b| b.kept_bytes.total_cmp(&a.kept_bytes).then(a.stack.cmp(&b.stack)));
}

impl OwnerKept {
    fn add(&mut self, other: &OwnerKept) {
        let (mine, theirs) = (self.objects as f64, other.objects as f64);
        self.mean_age_seconds = (self.mean_age_seconds * mine + other.mean_age_seconds * theirs) / (mine + theirs);
        self.objects += other.objects;
        self.kept_bytes += other.kept_bytes;
    }
}

struct Live {
    objects: FxHashMap<u64, Object>,
}

impl Live {
    fn take(&mut self, event: &Event) {
        if !event.is_heap {
            return;
        }
        if matches!(event.kind, Kind::Free | Kind::CacheFree) || event.size >= LARGE_BYTES || event.size == 0 {
            self.objects.remove(&event.address);
            return;
        }
        let old = self.objects.get(&event.address).filter(|_| event.kind == Kind::Resize);
        let object = Object {
            size: event.size,
            born: old.map_or(event.time, |old| old.born),
            thread: event.thread,
            stack: event.stack,
        };
        self.objects.insert(event.address, object);
    }
}

/// The parts of an object on each page: the page's number, and bytes.
fn parts(address: u64, size: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = address.saturating_add(size);
    (address / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let (first, last) = (page * PAGE_BYTES, page.saturating_add(1) * PAGE_BYTES);
        (page, last.min(end) - first.max(address))
    })
}

/// By the number of the stack, or by thread and size where there are no stacks.
type Owner = (u32, u32, u64);

fn sum(objects: &FxHashMap<u64, Object>, moment: u64, below_percent: u64, has_stacks: bool) -> Traced {
    let mut pages: FxHashMap<u64, Held> = FxHashMap::default();
    for (address, object) in objects {
        for (page, bytes) in parts(*address, object.size) {
            let held = pages.entry(page).or_default();
            held.bytes += bytes;
            held.objects += 1;
        }
    }
    let is_nearly_empty = |held: &&Held| held.bytes * 100 < PAGE_BYTES * below_percent;
    let mut sizes: FxHashMap<u64, SizeKept> = FxHashMap::default();
    let mut owners: FxHashMap<Owner, (u64, f64, f64)> = FxHashMap::default();
    for (address, object) in objects {
        let shares = parts(*address, object.size).filter_map(|(page, _)| {
            let held = pages.get(&page).filter(is_nearly_empty)?;
            Some((PAGE_BYTES - held.bytes) as f64 / held.objects as f64)
        });
        let kept: f64 = shares.sum();
        let size = sizes.entry(object.size).or_default();
        size.size = object.size;
        size.objects += 1;
        if kept > 0.0 {
            size.pinning_objects += 1;
            size.kept_bytes += kept;
            let owner = if has_stacks {
                (object.stack, 0, 0)
            } else {
                (0, object.thread, object.size)
            };
            let sums = owners.entry(owner).or_default();
            sums.0 += 1;
            sums.1 += kept;
            sums.2 += moment.saturating_sub(object.born) as f64 / 1e9;
        }
    }
    let nearly: Vec<&Held> = pages.values().filter(is_nearly_empty).collect();
    let mut sizes: Vec<SizeKept> = sizes.into_values().collect();
    sizes.sort_by(|a, b| b.kept_bytes.total_cmp(&a.kept_bytes).then(a.size.cmp(&b.size)));
    let mut owners: Vec<(Owner, OwnerKept)> = owners
        .into_iter()
        .map(|(owner, (objects, kept_bytes, age))| {
            let kept = OwnerKept {
                frames: Vec::new(),
                stack: owner.0,
                thread: (!has_stacks).then_some(owner.1),
                size: (!has_stacks).then_some(owner.2),
                objects,
                kept_bytes,
                mean_age_seconds: age / objects as f64,
            };
            (owner, kept)
        })
        .collect();
    owners.sort_by(|a, b| b.1.kept_bytes.total_cmp(&a.1.kept_bytes).then(a.0.cmp(&b.0)));
    Traced {
        pid: 0,
        seconds: moment as f64 / 1e9,
        below_percent,
        pages: pages.len() as u64,
        nearly_empty: nearly.len() as u64,
        live_bytes: pages.values().map(|held| held.bytes).sum(),
        kept_bytes: nearly.iter().map(|held| PAGE_BYTES - held.bytes).sum(),
        has_stacks,
        missing: None,
        sizes,
        owners: owners.into_iter().map(|(_, kept)| kept).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tests::{chunk, file};

    #[test]
    fn what_was_resized_is_as_old_as_it_was() {
        let file = file(&[chunk(
            0,
            1,
            &[(100, 0, 0x10000, 64), (600, 2, 0x10000, 128), (1000, 1, 0x99000, 0)],
        )]);
        let trace = Trace::open(file.path()).unwrap();
        let found = look(&trace, None, 25, &mut |_| ()).unwrap();
        assert_eq!(
            (found.owners[0].size, found.owners[0].mean_age_seconds),
            (Some(128), 900e-9)
        );
    }

    #[test]
    fn owners_that_would_read_the_same_are_told_apart() {
        let file = file(&[chunk(0, 1, &[(100, 0, 0x10000, 64)])]);
        let mut found = look(&Trace::open(file.path()).unwrap(), None, 25, &mut |_| ()).unwrap();
        let owner = |wrapper: &str| {
            let names = ["main", wrapper].into_iter();
            OwnerKept {
                frames: names
                    .map(|name| Arc::new(crate::heap_view::tests::frame(name)))
                    .collect(),
                stack: 1,
                thread: None,
                size: None,
                objects: 1,
                kept_bytes: 4000.0,
                mean_age_seconds: 1.0,
            }
        };
        found.owners = vec![owner("leak_malloc"), owner("leak_calloc")];
        let text = crate::output::frag::traced_text(&found, 10, false);
        assert!(
            text.contains("  leak_malloc (") && text.contains("  leak_calloc ("),
            "{text}"
        );
    }

    #[test]
    fn objects_lie_on_their_pages() {
        assert_eq!(parts(4096, 64).collect::<Vec<_>>(), [(1, 64)]);
        assert_eq!(parts(8000, 5000).collect::<Vec<_>>(), [(1, 192), (2, 4096), (3, 712)]);
        assert_eq!(parts(4096, 4096).collect::<Vec<_>>(), [(1, 4096)]);
    }

    #[test]
    fn what_a_page_has_free_is_shared_by_its_objects() {
        let object = |size, stack| Object {
            size,
            born: 0,
            thread: 7,
            stack,
        };
        let objects: FxHashMap<u64, Object> = [
            (0, object(64, 1)),
            (64, object(64, 2)),
            (4096, object(3000, 1)),
            (8192, object(96, 1)),
        ]
        .into_iter()
        .collect();
        let found = sum(&objects, 2_000_000_000, 25, true);
        assert_eq!((found.pages, found.nearly_empty), (3, 2));
        assert_eq!(found.kept_bytes, (4096 - 128) + (4096 - 96));
        assert_eq!(found.owners[0].kept_bytes, (4096.0 - 128.0) / 2.0 + 4000.0);
        assert_eq!((found.owners[0].objects, found.owners[0].mean_age_seconds), (2, 2.0));
        assert_eq!(found.sizes[0].size, 96);
        let by_thread = sum(&objects, 0, 25, false);
        assert_eq!(
            (by_thread.owners[0].thread, by_thread.owners[0].size),
            (Some(7), Some(96))
        );
    }
}
