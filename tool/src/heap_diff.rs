//! Two profiles compared site by site, and which changes are more than chance.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::{HeapView, Measure, Site};
use crate::profile::variance_of_change;
use crate::symbols::Frame;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Beyond that many standard errors a change is taken for one.
const REAL: f64 = 2.0;

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
}

#[derive(Debug)]
pub struct Difference {
    /// The largest change first.
    pub changes: Vec<Change>,
}

/// What both sides hold of a site, and its variances.
#[derive(Default)]
struct Both<'a> {
    frames: &'a [Arc<Frame>],
    held: [f64; 2],
    live: [f64; 2],
    ever: [f64; 2],
}

/// Sites are the same when their functions are: addresses and lines differ from run to run and from build to build.
pub fn compare(before: &HeapView, after: &HeapView, measure: Measure) -> Difference {
    let mut sums: BTreeMap<Vec<&str>, Both> = BTreeMap::new();
    let views = [before, after];
    for (side, view) in views.into_iter().enumerate() {
        for site in view.sites(measure) {
            let sum = sums.entry(key(&site)).or_default();
            sum.frames = site.frames;
            sum.held[side] += measure.of(&site.estimate);
            sum.live[side] += measure.error_of(&site.estimate).powi(2);
        }
    }
    let is_one_process = before.profile.is_of_same_process(&after.profile);
    for (side, view) in views.into_iter().enumerate().filter(|_| is_one_process) {
        for site in view.sites(measure.since_the_beginning()) {
            if let Some(sum) = sums.get_mut(&key(&site)) {
                sum.ever[side] += measure.error_of(&site.estimate).powi(2);
            }
        }
    }
    let mut changes: Vec<Change> = sums.into_values().map(|both| both.change(is_one_process)).collect();
    changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    Difference { changes }
}

fn key<'a>(site: &Site<'a>) -> Vec<&'a str> {
    site.frames.iter().map(|frame| frame.function.as_str()).collect()
}

impl Both<'_> {
    fn change(self, is_one_process: bool) -> Change {
        let [before, after] = self.held;
        let variance = match is_one_process {
            true => variance_of_change(self.live, self.ever),
            false => self.live.iter().sum(),
        };
        let (change, error) = (after - before, variance.sqrt());
        Change {
            frames: self.frames.to_vec(),
            before,
            after,
            change,
            error,
            is_real: change != 0.0 && change.abs() > REAL * error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::{frame, view};
    use crate::profile::Estimate;

    #[test]
    fn what_did_not_change_is_noise() {
        let difference = compare(&view(), &view(), Measure::LiveBytes);
        assert!(difference.changes.iter().all(|change| !change.is_real));
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
        // Another process of that number.
        assert!(!is_real(&at_work(1, 400, 400), &at_work(2, 409, 409)));
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
