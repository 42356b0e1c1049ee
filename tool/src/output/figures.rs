//! The figures of a run: one row each feeds the text and the JSON; and how numbers are written.
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

/// Bytes as people write them: 4096, 512k, 50M, 2GiB.
pub fn parse_bytes(word: &str) -> std::result::Result<u64, String> {
    let (digits, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
    let lg_unit = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => Some(0),
        "k" => Some(10),
        "m" => Some(20),
        "g" => Some(30),
        _ => None,
    };
    let number = digits.parse::<u64>().ok();
    let bytes = number.zip(lg_unit).and_then(|(number, lg)| number.checked_mul(1 << lg));
    bytes.ok_or("give bytes as 4096, 512k, 1M or 2G".to_string())
}

/// Per cent, none less than nothing.
pub fn parse_percent(word: &str) -> std::result::Result<f64, String> {
    let number = word.parse::<f64>().ok();
    let percent = number.filter(|percent| percent.is_finite() && *percent >= 0.0);
    percent.ok_or("give per cent as 0.5 or 10".to_string())
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

/// "1 thread", "2 threads".
pub fn counted(number: u64, thing: &str) -> String {
    let ending = match (number, thing.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{} {thing}{ending}", count(number))
}

pub fn seconds(value: f64) -> String {
    let digits = if value < 10.0 { 3 } else { 1 };
    format!("{value:.digits$} s")
}

/// In the unit that fits: most traces are short.
pub fn short_time(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_string(),
        ..0.000_999_95 => format!("{:.1} µs", seconds * 1e6),
        ..0.999_95 => format!("{:.1} ms", seconds * 1e3),
        _ => self::seconds(seconds),
    }
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

/// Of objects without a byte all is nothing.
pub fn percent(part: f64, all: f64) -> f64 {
    match all > 0.0 {
        true => 100.0 * part / all,
        false => 0.0,
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
    fn times_have_the_unit_that_fits() {
        for (value, text) in [
            (0.0, "0 s"),
            (0.000_012_34, "12.3 µs"),
            (0.000_999_99, "1.0 ms"),
            (0.05, "50.0 ms"),
            (0.999_99, "1.000 s"),
            (12.34, "12.3 s"),
        ] {
            assert_eq!(short_time(value), text);
        }
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
