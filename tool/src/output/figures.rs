//! The figures of a run: one row each feeds the text and the JSON; medians and how numbers are written.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::launch::Ended;
use crate::report::ExitFigures;
use crate::system::{Status, signal_name};

#[derive(Clone, Copy)]
pub enum Unit {
    Seconds,
    Bytes,
    Count,
}

/// One thing measured of every run.
pub struct Figure {
    pub title: &'static str,
    /// Its name in JSON, unit last.
    pub key: &'static str,
    pub unit: Unit,
    pub of: fn(&Ended) -> f64,
}

pub const FIGURES: [Figure; 7] = [
    Figure {
        title: "wall time",
        key: "wall_seconds",
        unit: Unit::Seconds,
        of: |run| run.wall.as_secs_f64(),
    },
    Figure {
        title: "user + system",
        key: "cpu_seconds",
        unit: Unit::Seconds,
        of: cpu_seconds,
    },
    Figure {
        title: "user time",
        key: "user_seconds",
        unit: Unit::Seconds,
        of: |run| run.usage.user.as_secs_f64(),
    },
    Figure {
        title: "system time",
        key: "system_seconds",
        unit: Unit::Seconds,
        of: |run| run.usage.system.as_secs_f64(),
    },
    Figure {
        title: "peak resident",
        key: "peak_resident_bytes",
        unit: Unit::Bytes,
        of: |run| run.usage.peak_resident_bytes as f64,
    },
    Figure {
        title: "minor faults",
        key: "minor_faults",
        unit: Unit::Count,
        of: |run| run.usage.minor_faults as f64,
    },
    Figure {
        title: "major faults",
        key: "major_faults",
        unit: Unit::Count,
        of: |run| run.usage.major_faults as f64,
    },
];

fn cpu_seconds(run: &Ended) -> f64 {
    (run.usage.user + run.usage.system).as_secs_f64()
}

/// What the allocator held, in the order in which it is shown.
pub fn held(figures: &ExitFigures) -> [(&'static str, u64); 6] {
    [
        ("allocated", figures.allocated_bytes),
        ("active", figures.active_bytes),
        ("dirty", figures.dirty_bytes),
        ("cached", figures.cached_bytes),
        ("metadata", figures.metadata_bytes),
        ("mapped", figures.mapped_bytes),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub minimum: f64,
    pub maximum: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
        Spread {
            median: (sorted[low] + sorted[high]) / 2.0,
            minimum: sorted[0],
            maximum: sorted[sorted.len() - 1],
        }
    }
}

/// None where there is nothing to divide by.
pub fn ratio(on_vmag: Spread, without: Spread) -> Option<f64> {
    (without.median > 0.0).then(|| on_vmag.median / without.median)
}

impl Unit {
    /// The unit of a table's row.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Bytes => "MiB",
            Unit::Count => "",
        }
    }

    /// A bare number in the row's unit.
    pub fn number(self, value: f64) -> String {
        const MIB: f64 = (1 << 20) as f64;
        match self {
            Unit::Seconds => format!("{value:.3}"),
            Unit::Bytes => format!("{:.2}", value / MIB),
            Unit::Count => count(value as u64),
        }
    }
}

pub fn seconds(value: f64) -> String {
    let digits = if value < 10.0 { 3 } else { 1 };
    format!("{value:.digits$} s")
}

pub fn bytes(value: u64) -> String {
    const STEP: f64 = 1024.0;
    let mut number = value as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].iter();
    let mut unit = units.next().unwrap();
    for larger in units {
        // What would be rounded up to 1024.0 belongs to the next unit.
        if number < STEP - 0.05 {
            break;
        }
        number /= STEP;
        unit = larger;
    }
    if *unit == "B" {
        format!("{value} B")
    } else {
        format!("{number:.1} {unit}")
    }
}

pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn status_text(status: Status) -> String {
    match status {
        Status::Exited(code) => format!("exit status {code}"),
        Status::Signaled(signal) => format!("signal {}", signal_name(signal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!(
            spread,
            Spread {
                median: 2.0,
                minimum: 1.0,
                maximum: 3.0
            }
        );
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of([5.0]).median, 5.0);
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let (zero, two) = (Spread::of([0.0]), Spread::of([2.0]));
        assert_eq!(ratio(two, zero), None);
        assert_eq!(ratio(two, Spread::of([4.0])), Some(0.5));
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1024 * 1024 - 1), "1.0 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1234567), "1,234,567");
        assert_eq!(seconds(1.23456), "1.235 s");
        assert_eq!(seconds(123.45), "123.5 s");
    }
}
