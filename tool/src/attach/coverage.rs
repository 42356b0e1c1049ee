//! Whether a profile has what the counters of its process say is allocated: it may be off now, or may have been for a time.
//!
//! Samples at a mean distance R that stand for B bytes are as uncertain as B/R points thrown at random are, or less. So what the profile explains,
//! and what it would have to, are compared as numbers of such points, by the deviance of Poisson's distribution: it is the square of how many
//! standard errors they lie apart, also where there are few or none.
//! SPDX-License-Identifier: BSD-2-Clause

use super::{Counters, Process};
use crate::error::Result;
use crate::output::figures::bytes;
use crate::profile::{Estimate, Profile, Sample};

const WAS_OFF: &str = "the profile was off in the end: what was allocated since is not in it";
const OFF: &str = "the profile is off: what was allocated since is not in it";
/// Of what is allocated, at least so much has to be explained: what lies in threads' hands besides their magazines counts as allocated.
const PART: f64 = 0.8;
const ALLOWED_A_THREAD: u64 = 256 << 10;
const STANDARD_ERRORS: f64 = 4.0;

impl Process {
    /// In words; `before`: as of the moment before the profile was read.
    pub(super) fn not_in_profile(&self, profile: &Profile, before: &Counters) -> Result<Option<String>> {
        let Some((is_active, sample_bytes)) = self.sampling() else {
            return Ok(None);
        };
        if !is_active {
            return Ok(Some(OFF.to_string()));
        }
        let after = self.counters()?;
        let allocated = before.allocated.min(after.allocated);
        let explained = explained(profile, &after);
        Ok(not_explained(&explained, allocated, after.threads, sample_bytes))
    }
}

/// What a file tells of the process as it was when it was written.
pub struct Then {
    pub is_active: bool,
    /// Bytes that were allocated; 0: unknown.
    pub allocated: u64,
    pub threads: u32,
}

impl Then {
    /// In words; `explained`: what of the profile stands for what was allocated then.
    pub fn not_in(&self, profile: &Profile, explained: impl Fn(&Sample) -> Estimate) -> Option<String> {
        if !self.is_active {
            return Some(WAS_OFF.to_string());
        }
        let of_arenas = profile.samples.iter().filter(|sample| sample.arena.is_some());
        let explained = of_arenas.map(explained).sum();
        not_explained(&explained, self.allocated, self.threads, 1 << profile.lg_sample?)
    }
}

fn not_explained(explained: &Estimate, allocated: u64, threads: u32, sample_bytes: u64) -> Option<String> {
    let allowed = ALLOWED_A_THREAD.saturating_mul(u64::from(threads) + 1);
    let wanted = PART * allocated.saturating_sub(allowed) as f64;
    is_too_little(explained, wanted, sample_bytes).then(|| {
        format!(
            "about {} of the {} that are allocated are not in it: they came while the profile, or that of their threads, was off, or before a prof.reset",
            bytes((allocated as f64 - explained.bytes) as u64),
            bytes(allocated)
        )
    })
}

/// What the profile knows of what the counters count, object caches aside, rounded up as they do.
fn explained(profile: &Profile, counters: &Counters) -> Estimate {
    let of_arenas = profile.samples.iter().filter(|sample| sample.arena.is_some());
    of_arenas
        .map(|sample| {
            let class = sample.size.and_then(|size| counters.class_bytes(size));
            let ratio = class.map_or(1.0, |class| class as f64 / sample.size.unwrap_or(class).max(1) as f64);
            Estimate {
                bytes: sample.live.bytes * ratio,
                bytes_variance: sample.live.bytes_variance * ratio * ratio,
                ..sample.live
            }
        })
        .sum()
}

fn is_too_little(explained: &Estimate, wanted: f64, sample_bytes: u64) -> bool {
    let of_samples = explained.bytes_variance / explained.bytes.max(1.0); // they may have been sampled more coarsely
    let distance = of_samples.max(sample_bytes as f64);
    let (seen, mean) = (explained.bytes / distance, wanted / distance);
    if seen >= mean {
        return false;
    }
    let of_ratio = if seen > 0.0 { seen * (seen / mean).ln() } else { 0.0 };
    2.0 * (mean - seen + of_ratio) > STANDARD_ERRORS.powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISTANCE: u64 = 1 << 19;

    fn of(samples: u64) -> Estimate {
        Estimate::of_samples(samples, 64, 19)
    }

    #[test]
    fn chance_is_no_reason_to_warn() {
        let mean = |samples: f64| samples * DISTANCE as f64;
        for (samples, wanted) in [(0, 7.0), (1, 10.0), (70, 100.0), (1000, 1000.0), (2000, 1000.0)] {
            assert!(
                !is_too_little(&of(samples), mean(wanted), DISTANCE),
                "{samples} of {wanted}"
            );
        }
        for (samples, wanted) in [(0, 9.0), (1, 14.0), (55, 100.0), (800, 1000.0)] {
            assert!(
                is_too_little(&of(samples), mean(wanted), DISTANCE),
                "{samples} of {wanted}"
            );
        }
        assert!(!is_too_little(&Estimate::default(), 0.0, DISTANCE));
    }

    /// What is sampled finer since tells nothing better of what was sampled before.
    #[test]
    fn the_coarsest_distance_counts() {
        assert!(!is_too_little(&of(10), 15.0 * DISTANCE as f64, 1));
        assert!(is_too_little(&Estimate::of_samples(10, 64, 0), 1000.0, 1));
    }
}
