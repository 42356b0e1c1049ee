//! Two profiles compared site by site, and which changes are more than chance.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::{HeapView, Measure};
use crate::symbols::Frame;
use std::collections::BTreeMap;

/// Beyond that many standard errors a change is taken for one.
const REAL: f64 = 2.0;

#[derive(Debug)]
pub struct Change {
    /// The outermost first.
    pub frames: Vec<Frame>,
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

/// Sites are the same when their functions are: addresses and lines differ from run to run and from build to build.
pub fn compare(before: &HeapView, after: &HeapView, measure: Measure) -> Difference {
    type Sums<'a> = (&'a [Frame], [f64; 2], f64);
    let mut sums: BTreeMap<Vec<&str>, Sums> = BTreeMap::new();
    for (side, view) in [before, after].into_iter().enumerate() {
        for site in view.sites(measure) {
            let key = site.frames.iter().map(|frame| frame.function.as_str()).collect();
            let sum = sums.entry(key).or_insert((site.frames, [0.0; 2], 0.0));
            sum.1[side] += measure.of(&site.estimate);
            sum.2 += measure.error_of(&site.estimate).powi(2);
        }
    }
    let mut changes: Vec<Change> = sums
        .into_values()
        .map(|(frames, [before, after], variance)| {
            let (change, error) = (after - before, variance.sqrt());
            Change {
                frames: frames.to_vec(),
                before,
                after,
                change,
                error,
                is_real: change != 0.0 && change.abs() > REAL * error,
            }
        })
        .collect();
    changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    Difference { changes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::view;
    use crate::profile::Estimate;

    #[test]
    fn what_did_not_change_is_noise() {
        let difference = compare(&view(), &view(), Measure::LiveBytes);
        assert!(difference.changes.iter().all(|change| !change.is_real));
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
