//! `vmag map`: memory as a picture, address by time (2006, Figure 9).
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::Result;
use crate::export::png::Picture;
use crate::progress::Progress;
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view::{self, Map};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  vmag run --trace=t.trace -- ./program     make a trace
  vmag map t.trace -o t.png                 how full each piece of memory was
  vmag map --color age t.trace -o t.png     how old what is there is
  vmag map --color class t.trace -o t.png   which sizes are where

Time goes to the right, addresses go up; memory that nothing ever used is left out, and where addresses are missing there \
is a thin line. `vmag report` has the same picture to zoom into.";

/// What a color stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// How full: white is empty, dark is full
    Occupancy,
    /// Mean age of the objects: blue is young, red is old
    Age,
    /// Which size holds most of it
    Class,
}

/// Draw memory by address and time.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What colors stand for
    #[arg(long, value_enum, default_value = "occupancy")]
    color: Color,

    /// The picture, PNG
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    let trace = Trace::open(&arguments.trace)?;
    let mut progress = Progress::new("reading the trace");
    let view = trace_view::look(&trace, &mut |part| progress.at(part))?;
    deliver(&draw(&view.map, arguments.color).png(), Some(&arguments.output))?;
    Ok(Status::Exited(0))
}

fn draw(map: &Map, color: Color) -> Picture {
    const GAP: [u8; 3] = [0xd8, 0xd8, 0xe0];
    let gaps = map.gap_before.iter().filter(|gap| **gap).count();
    let scale = (600 / map.rows.max(1)).clamp(1, 8);
    let mut picture = Picture::new(map.columns, (map.rows * scale + gaps).max(1), [255; 3]);
    let mut y = picture.height;
    for row in 0..map.rows {
        if map.gap_before[row] {
            y -= 1;
            (0..map.columns).for_each(|x| picture.set(x, y, GAP));
        }
        for _ in 0..scale {
            y -= 1;
            for x in 0..map.columns {
                picture.set(x, y, shade(map, row * map.columns + x, color));
            }
        }
    }
    picture
}

fn shade(map: &Map, cell: usize, color: Color) -> [u8; 3] {
    if map.occupancy[cell] == 0 {
        return [255; 3];
    }
    match color {
        Color::Occupancy => {
            let part = f64::from(map.occupancy[cell]) / 255.0;
            mix([0xcf, 0xe3, 0xf7], [0x08, 0x1d, 0x58], part)
        }
        Color::Age => mix([0x2c, 0x7b, 0xb6], [0xd7, 0x19, 0x1c], f64::from(map.age[cell]) / 190.0),
        Color::Class => {
            const PALETTE: [[u8; 3]; 8] = [
                [0x4e, 0x79, 0xa7],
                [0xf2, 0x8e, 0x2b],
                [0xe1, 0x57, 0x59],
                [0x76, 0xb7, 0xb2],
                [0x59, 0xa1, 0x4f],
                [0xed, 0xc9, 0x48],
                [0xb0, 0x7a, 0xa1],
                [0x9c, 0x75, 0x5f],
            ];
            PALETTE[map.class[cell] as usize % PALETTE.len()]
        }
    }
}

fn mix(from: [u8; 3], to: [u8; 3], part: f64) -> [u8; 3] {
    let part = part.clamp(0.0, 1.0);
    [0, 1, 2].map(|i| (f64::from(from[i]) * (1.0 - part) + f64::from(to[i]) * part) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_addresses_are_at_the_bottom() {
        let view = crate::trace_view::tests::view();
        let picture = draw(&view.map, Color::Occupancy);
        assert_eq!(picture.height, 3 * 8 + 2);
        let at = |x: usize, y: usize| picture.pixels[y * picture.width + x];
        assert_eq!(at(100, picture.height - 1), [0x08, 0x1d, 0x58]);
        assert_eq!(at(600, picture.height - 1), [255; 3]);
        assert_ne!(at(600, picture.height - 12), [255; 3]);
    }
}
