//! A profile with names, looked at by one measure: live or all, bytes or objects.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::profile::{Estimate, Profile, Sample};
use crate::symbols::{Frame, Named, name_stacks};
use std::collections::{BTreeMap, HashMap};
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

    /// Sites by what they hold, the largest first; those of equal frames are one.
    pub fn sites(&self, measure: Measure) -> Vec<Site<'_>> {
        let mut sums: BTreeMap<&[Arc<Frame>], Estimate> = BTreeMap::new();
        for sample in &self.profile.samples {
            *sums.entry(&self.named.stacks[sample.stack]).or_default() += measure.estimate(sample);
        }
        let mut sites: Vec<Site> = sums
            .into_iter()
            .filter(|(_, estimate)| estimate.objects > 0.0)
            .map(|(frames, estimate)| Site { frames, estimate })
            .collect();
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

    pub fn tree(&self, measure: Measure) -> Node<'_> {
        let mut root = Node::new("all", "");
        for site in self.sites(measure) {
            root.add(site.frames, measure.of(&site.estimate));
        }
        root.sort();
        root
    }
}

/// A function and those it called, with what they hold together.
#[derive(Debug)]
pub struct Node<'a> {
    pub function: &'a str,
    pub module: &'a str,
    pub value: f64,
    pub children: Vec<Node<'a>>,
    /// Where each is, until they are sorted: a function may have called thousands.
    places: HashMap<&'a str, usize>,
}

impl<'a> Node<'a> {
    fn new(function: &'a str, module: &'a str) -> Node<'a> {
        Node {
            function,
            module,
            value: 0.0,
            children: Vec::new(),
            places: HashMap::new(),
        }
    }

    fn add(&mut self, frames: &'a [Arc<Frame>], value: f64) {
        self.value += value;
        let Some((first, rest)) = frames.split_first() else {
            return;
        };
        let index = *self.places.entry(&first.function).or_insert_with(|| {
            self.children.push(Node::new(&first.function, &first.module));
            self.children.len() - 1
        });
        self.children[index].add(rest, value);
    }

    fn sort(&mut self) {
        self.places = HashMap::new();
        self.children.sort_by(|a, b| b.value.total_cmp(&a.value));
        self.children.iter_mut().for_each(Node::sort);
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
        let mut root = Node::new("all", "");
        // Each twice: for each to look at all would take minutes.
        for frames in frames.iter().chain(&frames) {
            root.add(frames, 1.0);
        }
        root.sort();
        assert_eq!((root.children.len(), root.children[0].value), (frames.len(), 2.0));
    }

    #[test]
    fn the_tree_adds_up() {
        let view = view();
        let tree = view.tree(Measure::LiveBytes);
        assert_eq!((tree.value, tree.depth(0.0)), (5000.0, 4));
        assert_eq!(tree.children[0].children[0].function, "b");
    }
}
