//! A profile with names, looked at by one measure: live or all, bytes or objects.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::call_tree::{Call, Stack};
use crate::output::figures::counted;
use crate::profile::{Estimate, Profile, Sample};
use crate::symbols::{Frame, Named, name_stacks};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Measure {
    /// Bytes that are alive
    LiveBytes,
    /// Objects that are alive
    LiveObjects,
    /// Bytes allocated since the beginning
    AllBytes,
    /// Objects allocated since the beginning
    AllObjects,
}

impl Measure {
    pub fn is_bytes(self) -> bool {
        matches!(self, Measure::LiveBytes | Measure::AllBytes)
    }

    pub fn estimate(self, sample: &Sample) -> Estimate {
        match self {
            Measure::LiveBytes | Measure::LiveObjects => sample.live,
            Measure::AllBytes | Measure::AllObjects => sample.total,
        }
    }

    pub fn is_since_the_beginning(self) -> bool {
        self == self.since_the_beginning()
    }

    /// The same of all that was ever allocated.
    pub fn since_the_beginning(self) -> Measure {
        match self.is_bytes() {
            true => Measure::AllBytes,
            false => Measure::AllObjects,
        }
    }

    pub fn of(self, estimate: &Estimate) -> f64 {
        if self.is_bytes() {
            estimate.bytes
        } else {
            estimate.objects
        }
    }

    pub fn error_of(self, estimate: &Estimate) -> f64 {
        if self.is_bytes() {
            estimate.bytes_error()
        } else {
            estimate.objects_error()
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Measure::LiveBytes => "live bytes",
            Measure::LiveObjects => "live objects",
            Measure::AllBytes => "bytes allocated since the beginning",
            Measure::AllObjects => "objects allocated since the beginning",
        }
    }
}

/// A profile whose stacks have names.
pub struct HeapView {
    pub profile: Profile,
    pub named: Named,
}

/// All that one sequence of functions holds.
#[derive(Debug, Clone)]
pub struct Site<'a> {
    /// The outermost first.
    pub frames: &'a [Arc<Frame>],
    pub estimate: Estimate,
}

impl HeapView {
    pub fn new(profile: Profile) -> HeapView {
        let named = name_stacks(&profile);
        HeapView { profile, named }
    }

    /// What is not in it of what is counted.
    pub fn missing_of(&self, measure: Measure) -> Option<String> {
        let lacks = self.profile.live_only && measure.is_since_the_beginning();
        let told =
            "what was allocated where nothing is alive any more is missing: it was written without prof_accum:true";
        joined(self.profile.missing.clone(), lacks.then(|| told.to_string()))
    }

    /// The same, and the samples that were lost: for what has no place to say it itself.
    pub fn missing_and_lost(&self, measure: Measure) -> Option<String> {
        let lost = self.profile.lost;
        let told = format!("{} missing, for want of memory", counted(lost, "sample"));
        joined(self.missing_of(measure), (lost > 0).then_some(told))
    }

    /// Sites by what they hold, the largest first; those of equal frames are one.
    pub fn sites(&self, measure: Measure) -> Vec<Site<'_>> {
        let frames = |sample: &Sample| self.named.stacks[sample.stack].as_slice();
        let mut order: Vec<&Sample> = self.profile.samples.iter().collect();
        order.sort_by(|a, b| compare(frames(a), frames(b)));
        let mut sites: Vec<Site> = Vec::new();
        for sample in order {
            let (frames, estimate) = (frames(sample), measure.estimate(sample));
            match sites.last_mut().filter(|last| last.frames == frames) {
                Some(last) => last.estimate += estimate,
                None => sites.push(Site { frames, estimate }),
            }
        }
        sites.retain(|site| site.estimate.objects > 0.0);
        sites.sort_by(|a, b| measure.of(&b.estimate).total_cmp(&measure.of(&a.estimate)));
        sites
    }

    /// What was sampled of object caches, by their names, the largest first.
    pub fn caches(&self, measure: Measure) -> Vec<(String, Estimate)> {
        let mut sums: BTreeMap<String, Estimate> = BTreeMap::new();
        for sample in &self.profile.samples {
            if let Some(name) = self.profile.cache_name(sample) {
                *sums.entry(name).or_default() += measure.estimate(sample);
            }
        }
        let mut caches: Vec<_> = sums.into_iter().filter(|(_, sum)| sum.objects > 0.0).collect();
        caches.sort_by(|a, b| measure.of(&b.1).total_cmp(&measure.of(&a.1)));
        caches
    }

    pub fn sum(&self, measure: Measure) -> Estimate {
        self.profile.samples.iter().map(|sample| measure.estimate(sample)).sum()
    }

    /// Of what holds at least that part of all its callees, too.
    pub fn tree(&self, measure: Measure, least_part: f64) -> Node<'_> {
        let sites = self.sites(measure);
        let stacks: Vec<Stack<1>> = sites
            .iter()
            .map(|site| (site.frames, [measure.of(&site.estimate)]))
            .collect();
        let all = Call::all(&stacks);
        let least = all.values[0] * least_part;
        Node::of(all, &stacks, least)
    }
}

/// What is missing by one reason and by another.
pub fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    let parts: Vec<String> = one.into_iter().chain(other).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A frame that many stacks share is the same to all of them: its name need not be read.
fn compare(a: &[Arc<Frame>], b: &[Arc<Frame>]) -> Ordering {
    let others = a.iter().zip(b).filter(|(a, b)| !Arc::ptr_eq(a, b));
    let mut orders = others.map(|(a, b)| a.cmp(b));
    orders
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// A function and those it called, with what they hold together.
#[derive(Debug)]
pub struct Node<'a> {
    pub function: &'a str,
    pub module: &'a str,
    pub value: f64,
    /// What holds most comes first.
    pub children: Vec<Node<'a>>,
}

impl<'a> Node<'a> {
    fn of(mut call: Call<'a, 1>, stacks: &[Stack<'a, 1>], least: f64) -> Node<'a> {
        let value = call.values[0];
        let called = match value >= least {
            true => call.take_called(stacks),
            false => Vec::new(),
        };
        let mut children: Vec<Node> = called.into_iter().map(|call| Node::of(call, stacks, least)).collect();
        children.sort_by(|a, b| b.value.total_cmp(&a.value));
        Node {
            function: call.function,
            module: call.module,
            value,
            children,
        }
    }

    /// Rows of what holds more than `least`.
    pub fn depth(&self, least: f64) -> usize {
        let children = self.children.iter().filter(|child| child.value > least);
        1 + children.map(|child| child.depth(least)).max().unwrap_or(0)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn frame(function: &str) -> Frame {
        Frame {
            function: function.into(),
            module: "program".into(),
            file: Some("/src/a.c".into()),
            line: Some(7),
            inlined: false,
        }
    }

    /// main → a (100 objects of 10 bytes, sampled all) and main → b → c (1 of 4000).
    pub fn view() -> HeapView {
        let samples = "1 1 0 10 0 100 100\n2 1 0 4000 0 1 5\n3 2 0 10 0 0 50\n";
        let text = format!(
            "heap_v2/1\n@ 0x1\n@ 0x2\n@ 0x1 0x3\nVMAG\n\nMAPPED_LIBRARIES:\n\nVMAG_PROFILE:\nlg_sample=0\n{samples}"
        );
        let profile = Profile::parse(&text).unwrap();
        let stack = |names: &[&str]| names.iter().map(|name| Arc::new(frame(name))).collect();
        let stacks = vec![stack(&["main", "a"]), stack(&["main", "b", "c"]), stack(&["main", "a"])];
        HeapView {
            profile,
            named: Named {
                stacks,
                ..Named::default()
            },
        }
    }

    #[test]
    fn all_that_is_missing_is_told() {
        let mut view = view();
        assert_eq!(view.missing_and_lost(Measure::AllBytes), None);
        (view.profile.live_only, view.profile.lost) = (true, 3);
        view.profile.missing = Some("half of it is not in it".to_string());
        let told = |measure| view.missing_and_lost(measure).unwrap();
        let (live, all) = (told(Measure::LiveBytes), told(Measure::AllBytes));
        assert_eq!(live, "half of it is not in it; 3 samples missing, for want of memory");
        assert!(
            all.starts_with("half") && all.contains("prof_accum") && all.ends_with("memory"),
            "{all}"
        );
    }

    #[test]
    fn sites_of_equal_frames_are_one() {
        let view = view();
        let sites = view.sites(Measure::LiveBytes);
        assert_eq!(sites.len(), 2);
        assert_eq!(sites[0].frames[2].function, "c");
        assert_eq!(sites[1].estimate.bytes, 1000.0);
        assert_eq!(view.sites(Measure::AllObjects)[0].estimate.objects, 150.0);
    }

    #[test]
    fn a_function_may_have_called_many() {
        let frames: Vec<[Arc<Frame>; 1]> = (0..100_000)
            .map(|number| [Arc::new(frame(&number.to_string()))])
            .collect();
        // Each twice: for each to look at all would take minutes.
        let stacks: Vec<Stack<1>> = frames
            .iter()
            .chain(&frames)
            .map(|frames| (&frames[..], [1.0]))
            .collect();
        let root = Node::of(Call::all(&stacks), &stacks, 0.0);
        assert_eq!((root.children.len(), root.children[0].value), (frames.len(), 2.0));
    }

    #[test]
    fn the_tree_adds_up() {
        let view = view();
        let tree = view.tree(Measure::LiveBytes, 0.0);
        assert_eq!((tree.value, tree.depth(0.0)), (5000.0, 4));
        assert_eq!(tree.children[0].children[0].function, "b");
        let tree = view.tree(Measure::LiveBytes, 0.5);
        let main = &tree.children[0].children;
        assert_eq!((main[1].function, main[1].value, tree.depth(0.0)), ("a", 1000.0, 4));
    }
}
