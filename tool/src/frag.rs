//! Which slabs are nearly empty, and which call sites hold the few objects that keep them.
//!
//! How full each slab is, is read in the process; who holds objects of its arena and size class is known from the heap
//! profile. A sampled object lies apart, so nobody can say of one slab whose objects are in it: what a nearly
//! empty slab wastes is shared among the sites in proportion to the objects that they hold in its arena and class. That is
//! right on the average when the sites' survivors lie as scattered as all others.
//! SPDX-License-Identifier: BSD-2-Clause

pub mod traced;

use crate::attach::Process;
use crate::error::Result;
use crate::explain::areas::Residency;
use crate::explain::heap::{Heap, SlabSeen};
use crate::heap_view::HeapView;
use crate::process;
use crate::profile::Estimate;
use crate::symbols::Frame;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Parts of a slab's fullness that are told apart.
pub const TENTHS: usize = 10;

/// All slabs of one size class.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ClassFrag {
    pub size: u64,
    pub slabs: u64,
    /// Those with objects, but fewer than the limit says.
    pub nearly_empty: u64,
    pub resident_bytes: u64,
    pub live_bytes: u64,
    /// Free objects in magazines.
    pub cached_bytes: u64,
    /// What the nearly empty slabs have resident beside their live objects.
    pub pinned_bytes: u64,
    /// Slabs by how full of live objects they are: below a tenth, below two, …
    pub by_fullness: [u64; TENTHS],
}

/// What a call site keeps by the few objects it has in nearly empty slabs; an estimate.
#[derive(Debug, Clone, Serialize)]
pub struct SiteFrag {
    #[serde(skip)]
    pub frames: Vec<Arc<Frame>>,
    pub pinned_bytes: f64,
    pub pinned_error: f64,
    /// Objects of the site in classes that have nearly empty slabs, wherever they lie.
    pub objects: f64,
    pub sizes: Vec<u64>,
}

pub struct Frag {
    pub pid: i32,
    pub program: String,
    /// A slab is nearly empty below so many percent.
    pub below_percent: u64,
    /// Sizes from small to large.
    pub classes: Vec<ClassFrag>,
    pub sites: Vec<SiteFrag>,
    /// Pinned bytes of classes of which nothing was sampled.
    pub unexplained_bytes: f64,
    /// Slabs without any live object whose free ones magazines hold.
    pub magazines_bytes: u64,
    /// Slabs of object caches, which are not among these.
    pub cache_bytes: u64,
    pub is_profiled: bool,
}

impl Frag {
    pub fn of(pid: i32, below_percent: u64) -> Result<Frag> {
        let process = Process::attach(pid)?;
        let (slabs, cache_bytes) = slabs_of(pid)?;
        let profile = process.profile()?;
        let is_profiled = !profile.samples.is_empty();
        let view = HeapView::new(profile);
        let counters = process.counters()?;
        let class_of = |size| counters.class_bytes(size);
        let (sites, unexplained_bytes) = sites(&slabs, &view, class_of, below_percent);
        let held_by_magazines = slabs.iter().filter(|slab| slab.live == 0 && slab.cached > 0);
        Ok(Frag {
            pid,
            program: process.program.clone(),
            below_percent,
            magazines_bytes: held_by_magazines.map(|slab| slab.resident).sum(),
            classes: classes(&slabs, below_percent),
            sites,
            unexplained_bytes,
            cache_bytes,
            is_profiled,
        })
    }

    pub fn sum(&self, of: impl Fn(&ClassFrag) -> u64) -> u64 {
        self.classes.iter().map(of).sum()
    }
}

/// And the bytes of those of object caches.
fn slabs_of(pid: i32) -> Result<(Vec<SlabSeen>, u64)> {
    let (mut heap, areas) = Heap::of(pid)?;
    let residency = Residency::open(pid).map_err(|error| process::cannot_look(pid, &error))?;
    Ok((heap.slabs(&areas, &residency), heap.cache_slab_bytes(&areas)))
}

fn is_nearly_empty(slab: &SlabSeen, below_percent: u64) -> bool {
    slab.live > 0 && slab.live * 100 < slab.buffers * below_percent
}

fn pinned(slab: &SlabSeen) -> u64 {
    slab.resident.saturating_sub(slab.live * slab.size)
}

fn classes(slabs: &[SlabSeen], below_percent: u64) -> Vec<ClassFrag> {
    let mut classes: BTreeMap<u64, ClassFrag> = BTreeMap::new();
    for slab in slabs {
        let class = classes.entry(slab.size).or_default();
        class.size = slab.size;
        class.slabs += 1;
        class.resident_bytes += slab.resident;
        class.live_bytes += slab.live * slab.size;
        class.cached_bytes += slab.cached * slab.size;
        let tenth = slab.live as usize * TENTHS / slab.buffers.max(1) as usize;
        class.by_fullness[tenth.min(TENTHS - 1)] += 1;
        if is_nearly_empty(slab, below_percent) {
            class.nearly_empty += 1;
            class.pinned_bytes += pinned(slab);
        }
    }
    classes.into_values().collect()
}

/// An arena, and the bytes of a size class's objects.
type Place = (u32, u64);

/// Sites with what they pin, the worst first; and the bytes of which nothing was sampled.
fn sites(
    slabs: &[SlabSeen],
    view: &HeapView,
    class_of: impl Fn(u64) -> Option<u64>,
    below_percent: u64,
) -> (Vec<SiteFrag>, f64) {
    let mut pinned_at: HashMap<Place, f64> = HashMap::new();
    for slab in slabs.iter().filter(|slab| is_nearly_empty(slab, below_percent)) {
        *pinned_at.entry((slab.arena, slab.size)).or_default() += pinned(slab) as f64;
    }
    let held = held_by_site(view, class_of);
    let mut whole: HashMap<Place, Estimate> = HashMap::new();
    for (place, estimate) in held.values().flatten() {
        *whole.entry(*place).or_default() += *estimate;
    }
    let explained = pinned_at.iter().filter(|(place, _)| whole.contains_key(place));
    let explained: f64 = explained.map(|(_, bytes)| bytes).sum();
    let mut sites: Vec<SiteFrag> = held
        .into_iter()
        .filter_map(|(frames, places)| site(frames, &places, &pinned_at, &whole))
        .collect();
    sites.sort_by(|a, b| b.pinned_bytes.total_cmp(&a.pinned_bytes));
    (sites, pinned_at.values().sum::<f64>() - explained)
}

/// Live objects by site, arena and class, also of classes without slabs.
fn held_by_site(
    view: &HeapView,
    class_of: impl Fn(u64) -> Option<u64>,
) -> HashMap<&[Arc<Frame>], HashMap<Place, Estimate>> {
    let mut held: HashMap<&[Arc<Frame>], HashMap<Place, Estimate>> = HashMap::new();
    for sample in view.profile.samples.iter().filter(|sample| sample.live.objects > 0.0) {
        let (Some(arena), Some(size)) = (sample.arena, sample.size) else {
            continue;
        };
        let Some(class) = class_of(size) else {
            continue;
        };
        let frames: &[Arc<Frame>] = &view.named.stacks[sample.stack];
        *held.entry(frames).or_default().entry((arena, class)).or_default() += sample.live;
    }
    held
}

/// Of the objects that one sample stands for: (1 − p) / p², where the variance of n is n times that, and they stand for n / p.
fn variance_of_one(estimate: &Estimate) -> f64 {
    let ratio = estimate.objects_variance / estimate.objects;
    ratio * (1.0 + ratio)
}

/// None: the site has nothing where slabs are nearly empty.
fn site(
    frames: &[Arc<Frame>],
    places: &HashMap<Place, Estimate>,
    pinned_at: &HashMap<Place, f64>,
    whole: &HashMap<Place, Estimate>,
) -> Option<SiteFrag> {
    let mut site = SiteFrag {
        frames: frames.to_vec(),
        pinned_bytes: 0.0,
        pinned_error: 0.0,
        objects: 0.0,
        sizes: Vec::new(),
    };
    let mut variance = 0.0;
    for (place, estimate) in places {
        let (Some(pinned), Some(whole)) = (pinned_at.get(place), whole.get(place)) else {
            continue;
        };
        let share = estimate.objects / whole.objects;
        site.pinned_bytes += pinned * share;
        // Of a part of a sum whose parts are independent. That no further site was sampled tells that others hold no more than about
        // one sample stands for: a share of one sample is hardly known, nor is one of few that all are of one site.
        let others = (whole.objects_variance - estimate.objects_variance).max(0.0) + variance_of_one(whole);
        let of_share = (1.0 - share).powi(2) * estimate.objects_variance + share.powi(2) * others;
        variance += pinned.powi(2) * of_share / whole.objects.powi(2);
        site.objects += estimate.objects;
        site.sizes.push(place.1);
    }
    site.pinned_error = variance.sqrt();
    site.sizes.sort_unstable();
    site.sizes.dedup();
    (site.pinned_bytes > 0.0).then_some(site)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::view;

    fn slab(arena: u32, size: u64, live: u64) -> SlabSeen {
        SlabSeen {
            start: 0,
            arena,
            size,
            bytes: 4000,
            buffers: 4000 / size,
            live,
            cached: 0,
            resident: 4096,
        }
    }

    #[test]
    fn classes_count_what_is_nearly_empty() {
        let slabs = [slab(0, 10, 399), slab(0, 10, 10), slab(0, 10, 0), slab(0, 20, 49)];
        let found = classes(&slabs, 25);
        assert_eq!(
            (found[0].slabs, found[0].nearly_empty, found[0].pinned_bytes),
            (3, 1, 4096 - 100)
        );
        assert_eq!((found[0].by_fullness[0], found[0].by_fullness[9]), (2, 1));
        assert_eq!((found[1].nearly_empty, found[1].live_bytes), (1, 980));
    }

    /// The view has 100 objects of 10 bytes at one site of arena 0, and one of 4000 at another.
    #[test]
    fn what_is_pinned_goes_to_who_holds_the_class() {
        let slabs = [slab(0, 16, 10), slab(0, 4000, 1), slab(1, 16, 1)];
        let classes = |size: u64| [16, 4000].into_iter().find(|class| *class >= size);
        let (sites, unexplained) = sites(&slabs, &view(), classes, 25);
        assert_eq!(sites.len(), 1);
        assert_eq!((sites[0].pinned_bytes, sites[0].pinned_error), (4096.0 - 160.0, 0.0));
        assert_eq!(
            (sites[0].frames[1].function.as_str(), &sites[0].sizes[..]),
            ("a", &[16][..])
        );
        assert_eq!(unexplained, 4096.0 - 16.0);
    }

    /// In units of what is pinned: of `own` samples of a site, where others have `others`.
    fn share_and_error(own: u64, others: u64, lg_sample: u32) -> (f64, f64) {
        let of = |count| Estimate::of_samples(count, 16, lg_sample);
        let mut whole = of(own);
        whole += of(others);
        let place: Place = (0, 16);
        let found = site(
            &[],
            &HashMap::from([(place, of(own))]),
            &HashMap::from([(place, 1.0)]),
            &HashMap::from([(place, whole)]),
        );
        let found = found.unwrap();
        (found.pinned_bytes, found.pinned_error)
    }

    #[test]
    fn a_share_of_samples_is_not_certain() {
        let unseen = |lg_sample: i32| (-16.0 / 2f64.powi(lg_sample)).exp().sqrt();
        let near = |(share, error): (f64, f64), of: (f64, f64)| {
            assert!(
                (share - of.0).abs() < 1e-9 && (error - of.1).abs() < 1e-9,
                "{share} ± {error}, not {of:?}"
            );
        };
        near(share_and_error(1, 0, 12), (1.0, unseen(12)));
        near(share_and_error(20, 0, 12), (1.0, unseen(12) / 20.0));
        near(share_and_error(20, 0, 4), (1.0, unseen(4) / 20.0));
        // Of a quarter of a hundred: √(¼ · ¾ / 100), about.
        let (_, error) = share_and_error(25, 75, 12);
        assert!((0.0432..0.0434).contains(&error), "{error}");
        // All were sampled.
        near(share_and_error(3, 0, 0), (1.0, 0.0));
    }

    /// No slab of 16 bytes is there any more, but the site's samples are.
    #[test]
    fn slabs_of_the_next_size_are_not_its_own() {
        let classes = |size: u64| [16, 32, 4000].into_iter().find(|class| *class >= size);
        let (sites, unexplained) = sites(&[slab(0, 32, 1)], &view(), classes, 25);
        assert!(sites.is_empty() && unexplained == 4096.0 - 32.0);
    }
}
