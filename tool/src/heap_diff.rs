//! Two profiles compared site by site, and which changes are more than chance.
//!
//! `diff` looks at each site by itself: beyond two standard errors. A gate looks at all together: that it fails although no site
//! grew must be rare, however many sites there are. So each site's growth gets a probability by chance, and these are judged
//! as Holm does (1979). An estimate counts as so many samples, each worth so many bytes, as its variance says; two such counts
//! differ by chance as a conditional binomial does (Przyborowski and Wilenski, 1940).
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::{HeapView, Measure, Site};
use crate::profile::variance_of_change;
use crate::symbols::{Frame, module_of};
use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::beta::beta_reg;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Beyond that many standard errors a change is taken for one.
const REAL: f64 = 2.0;

/// How likely it may be that any site is said to have grown although none did.
const FALSE_ALARM: f64 = 0.01;
/// From so many samples on either side a normal distribution says the same, and works for any number.
const MANY: f64 = 100.0;

#[derive(Debug)]
pub struct Change {
    /// The outermost first.
    pub frames: Vec<Arc<Frame>>,
    pub before: f64,
    pub after: f64,
    pub change: f64,
    /// The standard error of the change.
    pub error: f64,
    pub is_real: bool,
    /// What a sample is worth on either side; 0: all is known.
    worth: [f64; 2],
    /// What was alive both times, of one process: no chance is in it.
    stayed: f64,
}

#[derive(Debug)]
pub struct Difference {
    /// The largest change first.
    pub changes: Vec<Change>,
}

/// What both sides hold of a site, and its variances.
#[derive(Default)]
struct Both<'a> {
    /// Of the site that holds most, afterwards if it is there then.
    frames: &'a [Arc<Frame>],
    told: (usize, f64),
    held: [f64; 2],
    live: [f64; 2],
    ever: [f64; 2],
}

/// Sites are the same when their functions and lines are. Addresses differ from run to run, and lines from build to build: of two
/// processes that have not the same lines of the same functions the functions alone tell.
pub fn compare(before: &HeapView, after: &HeapView, measure: Measure) -> Difference {
    let is_one_process = before.profile.is_of_same_process(&after.profile);
    let views = [before, after];
    let other_builds = other_builds(views);
    let functions = |frames| functions(frames, &other_builds);
    let sites = views.map(|view| view.sites(measure));
    let moved = if is_one_process {
        BTreeSet::new()
    } else {
        moved(&sites, functions)
    };
    let key = |frames| {
        let functions = functions(frames);
        let lines = if moved.contains(&functions) {
            Vec::new()
        } else {
            lines(frames)
        };
        (functions, lines)
    };
    let mut sums: BTreeMap<_, Both> = BTreeMap::new();
    for (side, sites) in sites.iter().enumerate() {
        for site in sites {
            let sum = sums.entry(key(site.frames)).or_default();
            let held = measure.of(&site.estimate);
            if side > sum.told.0 || held > sum.told.1 {
                (sum.frames, sum.told) = (site.frames, (side, held));
            }
            sum.held[side] += held;
            sum.live[side] += measure.error_of(&site.estimate).powi(2);
        }
    }
    let ever = views.map(|view| view.sites(measure.since_the_beginning()));
    for (side, sites) in ever.iter().enumerate().filter(|_| is_one_process) {
        for site in sites {
            if let Some(sum) = sums.get_mut(&key(site.frames)) {
                sum.ever[side] += measure.error_of(&site.estimate).powi(2);
            }
        }
    }
    let distances = views.map(|view| view.profile.lg_sample);
    let mut changes: Vec<Change> = sums
        .into_values()
        .map(|both| both.change(is_one_process, distances))
        .collect();
    changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    Difference { changes }
}

/// Files of which the two have not the same build: there a place without a name is another one in each.
fn other_builds(views: [&HeapView; 2]) -> BTreeSet<String> {
    let [before, after] = views.map(|view| {
        let mut builds: Vec<(&str, String)> = view.profile.build_ids().into_iter().collect();
        builds.sort(); // of two files of one name the last one counts
        let of_module = builds.into_iter().map(|(path, id)| (module_of(path), id));
        of_module.collect::<BTreeMap<_, _>>()
    });
    let is_other = |(module, id): &(&String, &String)| after.get(*module).is_some_and(|other| other != *id);
    before
        .iter()
        .filter(is_other)
        .map(|(module, _)| module.clone())
        .collect()
}

type Functions<'a> = Vec<&'a str>;
type Lines<'a> = Vec<(Option<&'a str>, Option<u32>)>;

/// Where there is no name, and the place says nothing, the file has to do.
fn functions<'a>(frames: &'a [Arc<Frame>], other_builds: &BTreeSet<String>) -> Functions<'a> {
    let name = |frame: &'a Arc<Frame>| match frame.is_nameless() && other_builds.contains(&frame.module) {
        true => frame.module.as_str(),
        false => frame.function.as_str(),
    };
    frames.iter().map(name).collect()
}

fn lines(frames: &[Arc<Frame>]) -> Lines<'_> {
    frames.iter().map(|frame| (frame.file.as_deref(), frame.line)).collect()
}

/// Those whose lines are not the same on both sides.
fn moved<'a>(
    sites: &[Vec<Site<'a>>; 2],
    functions: impl Fn(&'a [Arc<Frame>]) -> Functions<'a>,
) -> BTreeSet<Functions<'a>> {
    let mut places: BTreeMap<Functions, [BTreeSet<Lines>; 2]> = BTreeMap::new();
    for (side, sites) in sites.iter().enumerate() {
        for site in sites {
            places.entry(functions(site.frames)).or_default()[side].insert(lines(site.frames));
        }
    }
    places.retain(|_, [before, after]| before != after);
    places.into_keys().collect()
}

impl Both<'_> {
    fn change(self, is_one_process: bool, distances: [Option<u32>; 2]) -> Change {
        let [before, after] = self.held;
        let variance = match is_one_process {
            true => variance_of_change(self.live, self.ever),
            false => self.live.iter().sum(),
        };
        let (change, error) = (after - before, variance.sqrt());
        let worth = self.worth(distances);
        let stayed = if is_one_process { self.stayed(worth) } else { 0.0 };
        Change {
            frames: self.frames.to_vec(),
            before,
            after,
            change,
            error,
            is_real: change != 0.0 && change.abs() > REAL * error,
            worth,
            stayed,
        }
    }

    /// Of one distance between samples both sides tell it together; of two, a side without samples tells no more than that
    /// none is worth more than its distance.
    fn worth(&self, distances: [Option<u32>; 2]) -> [f64; 2] {
        let together = self.live.iter().sum::<f64>() / self.held.iter().sum::<f64>();
        [0, 1].map(|side| match distances[side] {
            Some(lg) if distances[0] != distances[1] => match self.held[side] > 0.0 {
                true => self.live[side] / self.held[side],
                false => 2f64.powi(lg as i32),
            },
            _ => together,
        })
    }

    /// What came last is at most all that came.
    fn stayed(&self, worth: [f64; 2]) -> f64 {
        let second = usize::from(self.ever[1] >= self.ever[0]);
        if worth[second] == 0.0 {
            return 0.0;
        }
        let came = (self.ever[second] - self.ever[1 - second]) / worth[second];
        (self.held[second] - came).clamp(0.0, self.held[0].min(self.held[1]))
    }
}

impl Difference {
    /// The sites that hold more than they did and `tolerance`, a part of that, allow: all together are wrong as rarely as `FALSE_ALARM` says.
    pub fn grown(self, tolerance: f64) -> Vec<Change> {
        let sites = self.changes.len();
        let mut judged: Vec<(f64, Change)> = self
            .changes
            .into_iter()
            .map(|change| (change.chance(tolerance), change))
            .collect();
        judged.sort_by(|a, b| a.0.total_cmp(&b.0));
        let stands = |(rank, (chance, _)): &(usize, (f64, Change))| *chance <= FALSE_ALARM / (sites - rank) as f64;
        let grown = judged.into_iter().enumerate().take_while(stands);
        grown.map(|(_, (_, change))| change).collect()
    }
}

impl Change {
    /// The probability of so much or more afterwards by chance, if it holds no more than it did and what is tolerated.
    fn chance(&self, tolerance: f64) -> f64 {
        let held = [self.before * (1.0 + tolerance) - self.stayed, self.after - self.stayed];
        let worth = [(self.worth[0] * (1.0 + tolerance)).min(f64::MAX / 2.0), self.worth[1]];
        if held[1] <= held[0] {
            return 1.0;
        }
        let variance = held[0] * worth[0] + held[1] * worth[1];
        let normal = || Normal::standard().sf((held[1] - held[0]) / variance.sqrt());
        if worth == [0.0, 0.0] || [0, 1].iter().all(|&side| held[side] >= MANY * worth[side]) {
            return normal();
        }
        // What is known exactly is as good as ten thousand samples, beside less than a hundred.
        let worth = [0, 1].map(|side| worth[side].max(held[side] / 1e4));
        let [before, after] = [0, 1].map(|side| held[side] / worth[side]);
        beta_reg(after, before + 1.0, worth[0] / (worth[0] + worth[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::random::SplitMix;
    use crate::heap_view::tests::{frame, view};
    use crate::profile::Estimate;

    #[test]
    fn what_did_not_change_is_noise() {
        let difference = compare(&view(), &view(), Measure::LiveBytes);
        assert!(difference.changes.iter().all(|change| !change.is_real));
    }

    #[test]
    fn whatever_is_tolerated_can_be_judged() {
        let grown = |tolerance: f64| {
            let difference = compare(&at_work(1, 0, 0), &at_work(2, 30, 30), Measure::LiveBytes);
            difference.grown(tolerance).len()
        };
        assert_eq!([0.0, 1e9, 1e307].map(grown), [1, 0, 0]);
    }

    /// Of two builds of a file what has no name is the same wherever it lies; of one build it is not.
    #[test]
    fn places_without_names_move_with_the_build() {
        let at = |build: &str, place: u64| {
            let maps = format!("1000-8000 r-xp 0 0:0 1 /nowhere/libx.so\nbuild 1000 {build}");
            let text = format!(
                "heap_v2/1\n@ {place:#x}\n\nMAPPED_LIBRARIES:\n{maps}\n\nVMAG_PROFILE:\nlg_sample=0\n1 1 0 64 0 5 5\n"
            );
            HeapView::new(crate::profile::Profile::parse(&text).unwrap())
        };
        let changes = |before: HeapView, after: HeapView| compare(&before, &after, Measure::LiveBytes).changes.len();
        assert_eq!(changes(at("ab", 0x2000), at("cd", 0x3000)), 1);
        assert_eq!(changes(at("ab", 0x2000), at("ab", 0x3000)), 2);
    }

    /// Of process 7 or none: bytes held by the lines of one function.
    fn of_lines(pid: &str, lines: &[(u32, u64)]) -> HeapView {
        let stacks: String = (1..=lines.len()).map(|stack| format!("@ {stack:#x}\n")).collect();
        let row = |(stack, (_, bytes)): (usize, &(u32, u64))| format!("{} 1 0 {bytes} 0 1 1\n", stack + 1);
        let rows: String = lines.iter().enumerate().map(row).collect();
        let maps = "1000-8000 r-xp 0 0:0 0 [vdso]";
        let text =
            format!("heap_v2/1\n{stacks}\nMAPPED_LIBRARIES:\n{maps}\nVMAG_PROFILE:\nlg_sample=0 {pid}\n{rows}");
        let mut view = HeapView::new(crate::profile::Profile::parse(&text).unwrap());
        let at = |line: u32| Frame {
            line: Some(line),
            ..frame("handle")
        };
        view.named.stacks = lines.iter().map(|(line, _)| vec![Arc::new(at(*line))]).collect();
        view
    }

    #[test]
    fn lines_are_told_apart_where_they_are_the_same() {
        let changes = |pid: &str, before: &[(u32, u64)], after: &[(u32, u64)]| -> Vec<(u32, f64)> {
            let difference = compare(&of_lines(pid, before), &of_lines(pid, after), Measure::LiveBytes);
            let real = difference.changes.iter().filter(|change| change.is_real);
            real.map(|change| (change.frames[0].line.unwrap(), change.change))
                .collect()
        };
        assert_eq!(
            changes("", &[(5, 3000), (6, 100)], &[(5, 1000), (6, 2500)]),
            [(6, 2400.0), (5, -2000.0)]
        );
        // A line was put in before them, and one of them is not there any more, or was not yet; what is told is where most is now.
        assert_eq!(changes("", &[(5, 3000), (6, 100)], &[(6, 3000), (7, 100)]), []);
        assert_eq!(
            changes("", &[(5, 3000), (6, 100)], &[(6, 3000), (7, 200)]),
            [(6, 100.0)]
        );
        assert_eq!(changes("", &[(5, 3000), (6, 100)], &[(6, 3000)]), [(6, -100.0)]);
        assert_eq!(changes("", &[(6, 3000)], &[(5, 100), (6, 3000)]), [(6, 100.0)]);
        // Of one process all are known.
        assert_eq!(
            changes("pid=7", &[(5, 3000)], &[(6, 2000)]),
            [(5, -3000.0), (6, 2000.0)]
        );
    }

    /// Of process 7, whose code of the kernel lies there: one stack with so many samples alive, and ever.
    fn at_work(kernel_code: u64, live: u64, ever: u64) -> HeapView {
        let maps = format!("{kernel_code:x}-8000 r-xp 0 0:0 0 [vdso]");
        let text = format!(
            "heap_v2/1\n@ 0x1\n\nMAPPED_LIBRARIES:\n{maps}\nVMAG_PROFILE:\nlg_sample=19 pid=7\n1 1 0 1024 19 {live} {ever}\n"
        );
        let mut view = HeapView::new(crate::profile::Profile::parse(&text).unwrap());
        view.named.stacks = vec![["main", "a"].map(frame).map(Arc::new).to_vec()];
        view
    }

    #[test]
    fn of_one_process_only_what_came_or_went_is_uncertain() {
        let is_real =
            |before: &HeapView, after: &HeapView| compare(before, after, Measure::LiveBytes).changes[0].is_real;
        // 9 samples came, none went.
        assert!(is_real(&at_work(1, 400, 400), &at_work(1, 409, 409)));
        assert!(is_real(&at_work(1, 409, 409), &at_work(1, 400, 400)));
        // All were replaced, and by chance there are 30 more.
        assert!(!is_real(&at_work(1, 400, 400), &at_work(1, 430, 830)));
        let grown = |before: &HeapView, after: &HeapView| compare(before, after, Measure::LiveBytes).grown(0.0).len();
        assert_eq!(grown(&at_work(1, 400, 400), &at_work(1, 409, 409)), 1);
        assert_eq!(grown(&at_work(1, 400, 400), &at_work(1, 430, 830)), 0);
        assert_eq!(grown(&at_work(1, 400, 400), &at_work(2, 409, 409)), 0);
        // Another process of that number.
        assert!(!is_real(&at_work(1, 400, 400), &at_work(2, 409, 409)));
    }

    /// Of 300 sites, each with so many samples, of 512 objects of 1 KiB on average.
    fn sampled(mut samples: impl FnMut(usize) -> u64) -> HeapView {
        let lines: String = (0..300).map(|site| format!("@ {:#x}\n", site + 1)).collect();
        let table: String = (0..300)
            .map(|site| format!("{} 1 0 1024 16 {1} {1}\n", site + 1, samples(site)))
            .collect();
        let text = format!("heap_v2/1\n{lines}\nMAPPED_LIBRARIES:\n\nVMAG_PROFILE:\nlg_sample=16 pid=7\n{table}");
        let mut view = HeapView::new(crate::profile::Profile::parse(&text).unwrap());
        view.named.stacks = (0..300)
            .map(|site| vec![Arc::new(frame(&format!("f{site}")))])
            .collect();
        view
    }

    #[test]
    fn an_unchanged_program_grows_as_rarely_as_is_said() {
        let mut random = SplitMix(1);
        // 512 objects, of which one in 64.5 is sampled.
        let mut draw = || (0..512).filter(|_| random.below(1290) < 20).count() as u64;
        let alarms = (0..200)
            .filter(|_| {
                let (before, after) = (sampled(|_| draw()), sampled(|_| draw()));
                !compare(&before, &after, Measure::LiveBytes).grown(0.0).is_empty()
            })
            .count();
        assert!(alarms <= 6, "{alarms} of 200");
    }

    #[test]
    fn what_grew_is_found_among_many() {
        let grown = |before: u64, after: u64, tolerance| {
            let after = sampled(|site| if site == 7 { after } else { 8 });
            let before = sampled(|site| if site == 7 { before } else { 8 });
            compare(&before, &after, Measure::LiveBytes).grown(tolerance).len()
        };
        assert_eq!(grown(8, 50, 0.1), 1);
        assert_eq!(grown(0, 20, 0.1), 1);
        assert_eq!(grown(8, 20, 0.1), 0);
        assert_eq!(grown(10_000, 11_500, 0.0), 1);
        assert_eq!(grown(10_000, 11_500, 0.1), 0);
    }

    /// The exact tails of binomial distributions.
    #[test]
    fn chance_is_the_conditional_binomial() {
        let chance = |before: f64, after: f64, worth| {
            let change = Change {
                frames: Vec::new(),
                before,
                after,
                change: after - before,
                error: 0.0,
                is_real: false,
                worth,
                stayed: 0.0,
            };
            change.chance(0.0)
        };
        assert!((chance(0.0, 5.0, [1.0, 1.0]) - 1.0 / 32.0).abs() < 1e-12);
        assert!((chance(1.0, 4.0, [1.0, 1.0]) - 6.0 / 32.0).abs() < 1e-12);
        // Twice as many samples are to be expected of the finer side.
        assert!((chance(0.0, 2.0, [2.0, 1.0]) - (2.0f64 / 3.0).powi(2)).abs() < 1e-12);
        assert_eq!(chance(100.0, 101.0, [0.0, 0.0]), 0.0);
        assert_eq!(chance(0.0, 1.0, [0.0, 0.0]), 0.0);
        // All is known afterwards; before, none was sampled of three samples' worth: e^-3.
        let none = chance(0.0, 3.0, [1.0, 0.0]);
        assert!((none - (-3.0f64).exp()).abs() < 1e-4, "{none}");
    }

    #[test]
    fn a_change_is_weighed_by_its_error() {
        let mut after = view();
        after.profile.samples[0].live = Estimate {
            objects: 300.0,
            bytes: 3000.0,
            objects_variance: 0.0,
            bytes_variance: 900.0 * 900.0,
        };
        let difference = compare(&view(), &after, Measure::LiveBytes);
        assert_eq!(difference.changes[0].change, 2000.0);
        assert!(difference.changes[0].is_real);
        after.profile.samples[0].live.bytes_variance = 1100.0 * 1100.0;
        assert!(!compare(&view(), &after, Measure::LiveBytes).changes[0].is_real);
    }
}
