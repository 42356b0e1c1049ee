//! Confidence intervals of a mean ratio by the paired bootstrap.
//!
//! Rounds are pairs: what disturbs a round disturbs both sides, and their ratio less than either. Ratios multiply, so
//! means are geometric; and a round in which the machine did something else must not decide, so a fifth of the rounds is
//! left out at either end (R. Wilcox, "Introduction to Robust Estimation and Hypothesis Testing", 2017, section 4.4: the
//! percentile bootstrap of the trimmed mean). For few rounds the percentiles are moved outwards until they lie as far
//! apart as Student's would for rounds that vary normally (T. Hesterberg, "What Teachers Should Know About the
//! Bootstrap", 2015: expanded percentiles).
//! SPDX-License-Identifier: BSD-2-Clause

use crate::compare::random::SplitMix;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

const CONFIDENCE: f64 = 0.95;
const RESAMPLES: usize = 10_000;
/// Left out at either end.
const TRIMMED: f64 = 0.2;

/// A trimmed geometric mean and where it lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Of at least two positive values; else None.
    pub fn of(values: &[f64]) -> Option<Interval> {
        if values.len() < 2 || values.iter().any(|value| !(*value > 0.0 && value.is_finite())) {
            return None;
        }
        let mut logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        logs.sort_by(f64::total_cmp);
        let mut means = resampled_means(&logs);
        means.sort_by(f64::total_cmp);
        let tail = tail(logs.len());
        Some(Interval {
            mean: trimmed_mean(&logs, &vec![1; logs.len()]).exp(),
            low: quantile(&means, tail).exp(),
            high: quantile(&means, 1.0 - tail).exp(),
        })
    }

    /// Of what one side takes, round by round, for each unit of what the other takes.
    pub fn of_ratio(values: &[f64], base: &[f64]) -> Option<Interval> {
        let ratios: Vec<f64> = values.iter().zip(base).map(|(value, base)| value / base).collect();
        Interval::of(&ratios)
    }

    /// How far the mean may be off, as a part of it.
    pub fn half_width(&self) -> f64 {
        (self.high / self.mean).max(self.mean / self.low) - 1.0
    }
}

/// The part of the resampled means below the interval, and above it.
fn tail(count: usize) -> f64 {
    let count = count as f64;
    let student = StudentsT::new(0.0, 1.0, count - 1.0).expect("there are two values or more");
    let reach = student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * (count / (count - 1.0)).sqrt();
    Normal::standard().cdf(-reach)
}

/// Of sorted values, each there so many times: as many times in all as there are values.
fn trimmed_mean(sorted: &[f64], times: &[usize]) -> f64 {
    let cut = (sorted.len() as f64 * TRIMMED) as usize;
    let (mut before, mut sum) = (0, 0.0);
    for (value, times) in sorted.iter().zip(times) {
        let (first, end) = (before.max(cut), (before + times).min(sorted.len() - cut));
        sum += value * end.saturating_sub(first) as f64;
        before += times;
    }
    sum / (sorted.len() - 2 * cut) as f64
}

/// The same every time: whoever asks twice gets the same answer.
fn resampled_means(sorted: &[f64]) -> Vec<f64> {
    let mut random = SplitMix(sorted.len() as u64);
    let mut resample = |_| {
        let mut times = vec![0; sorted.len()];
        for _ in sorted {
            times[random.below(sorted.len())] += 1;
        }
        trimmed_mean(sorted, &times)
    };
    (0..RESAMPLES).map(&mut resample).collect()
}

/// Between the two nearest of the sorted values.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, most: f64) {
        assert!((value / expected - 1.0).abs() < most, "{value}, not {expected}");
    }

    /// As scipy 1.17 has it with 400,000 resamples; tests/compare/compare.py asks it anew where it is installed.
    #[test]
    fn it_agrees_with_scipy() {
        let ours = [
            1.021, 0.998, 1.043, 1.007, 1.112, 1.015, 0.989, 1.031, 1.027, 0.995, 1.310, 1.003, 1.018, 1.009, 1.036,
        ];
        let theirs = [
            1.133, 1.101, 1.128, 1.140, 1.151, 1.122, 1.117, 1.109, 1.136, 1.125, 1.143, 1.118, 1.131, 1.107, 1.129,
        ];
        let interval = Interval::of_ratio(&ours, &theirs).unwrap();
        close(tail(15), SCIPY_TAIL, 1e-4);
        close(interval.mean, SCIPY.0, 1e-6);
        close(interval.low, SCIPY.1, 1e-3);
        close(interval.high, SCIPY.2, 1e-3);
    }

    const SCIPY_TAIL: f64 = 0.013_207_17;
    const SCIPY: (f64, f64, f64) = (0.907_433_49, 0.895_724, 0.933_278);

    /// Of many comparisons of seven rounds each, about one in twenty misses the truth.
    #[test]
    fn it_covers_the_truth_as_often_as_it_says() {
        let mut random = SplitMix(1);
        let mut uniform = || random.draw() as f64 / u64::MAX as f64;
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let covered = (0..200).filter(|_| {
            let values: Vec<f64> = (0..7).map(|_| (0.1 + 0.02 * normal()).exp()).collect();
            let interval = Interval::of(&values).unwrap();
            interval.low <= 0.1f64.exp() && 0.1f64.exp() <= interval.high
        });
        let covered = covered.count();
        assert!((180..=199).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn what_never_varies_has_no_width() {
        let interval = Interval::of_ratio(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]).unwrap();
        close(interval.mean, 2.0, 1e-12);
        assert!(interval.half_width() < 1e-12);
    }

    #[test]
    fn pairs_are_kept_together() {
        let (slow, fast) = ([1.0, 10.0, 2.0, 7.0], [0.5, 5.0, 1.0, 3.5]);
        assert!(Interval::of_ratio(&slow, &fast).unwrap().half_width() < 1e-12);
        assert!(Interval::of(&slow).unwrap().half_width() > 1.0);
    }

    #[test]
    fn nothing_is_said_of_zeros_or_of_one_round() {
        assert_eq!(Interval::of(&[1.0]), None);
        assert_eq!(Interval::of(&[1.0, 0.0, 2.0]), None);
        assert_eq!(Interval::of_ratio(&[1.0, 1.0], &[0.0, 1.0]), None);
    }
}
