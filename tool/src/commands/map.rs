//! `vmag map`: memory as a picture, address by time (2006, Figure 9).
//! SPDX-License-Identifier: BSD-2-Clause

use crate::commands::heap::deliver;
use crate::error::{Result, ToolError};
use crate::export::png::Picture;
use crate::live_map::{self, Watched};
use crate::output::destination::check_apart;
use crate::output::figures::bytes;
use crate::output::heap::place;
use crate::output::json::frames;
use crate::output::{plain, say, warn_missing};
use crate::progress::Progress;
use crate::source::Source;
use crate::symbols::Frame;
use crate::system::Status;
use crate::trace::Trace;
use crate::trace_view::{self, Map};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  vmag run --trace=t.trace --trace-stacks -- ./program
                                            make a trace
  vmag map t.trace -o t.png                 how full each piece of memory was
  vmag map --color age t.trace -o t.png     how old what is there is
  vmag map --color class t.trace -o t.png   which sizes are where; told on the terminal, too
  vmag map --color site t.trace -o t.png    who allocated it; names are told on the terminal
  vmag map --seconds 30 4711 -o p.png       a process that runs, looked at for so long
  vmag map --color site 4711 -o p.png       who allocated what it has, by its profile
  vmag map --json t.trace                   the numbers behind the picture

Time goes to the right, addresses go up; memory that nothing ever used is left out, and where addresses are missing there \
is a thin line. `vmag report` has the same picture to zoom into.

Of a process that runs, sizes and places are exact. Ages count from the first look that found a slab or a large object: it is at least \
that old. Call sites are those of sampled objects; of all others, those that hold what was sampled of the same size.";

/// What a color stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// How full: white is empty, dark is full
    Occupancy,
    /// Mean age of the objects: red is old, blue younger than a hundredth of that
    Age,
    /// Which size holds most of it
    Class,
    /// Which call site holds most of it
    Site,
}

/// Draw memory by address and time.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What colors stand for
    #[arg(long, value_enum, default_value = "occupancy")]
    color: Color,

    /// How long to look at a process that runs [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,

    /// Give the numbers of the picture as JSON, the lowest addresses first
    #[arg(long)]
    json: bool,

    /// The picture, PNG; - is standard output
    #[arg(long, short, value_name = "FILE", required_unless_present = "json")]
    output: Option<PathBuf>,

    /// The trace, or the number of a process that runs
    #[arg(value_name = "TRACE|PID", value_parser = Source::parser())]
    source: Source,
}

pub fn run(arguments: &Arguments) -> Result<Status> {
    check_ending(arguments)?;
    check_apart(arguments.output.as_deref(), arguments.source.path())?;
    let watched = match &arguments.source {
        Source::Process(pid) => live_map::watch(
            *pid,
            Duration::from_secs(arguments.seconds.unwrap_or(10)),
            arguments.color == Color::Site,
        )?,
        Source::File(_) if arguments.seconds.is_some() => {
            return Err(ToolError::new(
                "cannot look at a file for some time",
                "--seconds is of a process that runs; the picture of a trace has all of it",
                "leave it out, or give the number of a process",
            ));
        }
        Source::File(path) => {
            let mut progress = Progress::new("reading the trace");
            let view = trace_view::look(&Trace::open(path)?, &mut |part| progress.at(part))?;
            check_color(arguments, &view.map)?;
            warn_missing(&arguments.source.name(), view.summary.missing.as_deref());
            Watched {
                pid: i64::from(view.summary.pid),
                seconds: view.summary.seconds,
                map: view.map,
                sites: view.sites,
                cache_bytes: 0,
            }
        }
    };
    let Watched { map, sites, .. } = &watched;
    if map.rows == 0 && !arguments.json {
        return Err(nothing_there(&arguments.source.name()));
    }
    if watched.cache_bytes > 0 {
        say(format_args!(
            "vmag: object caches ({}) are not shown\n",
            bytes(watched.cache_bytes)
        ));
    }
    if arguments.json {
        let text = as_json(&watched, arguments.source.is_process());
        deliver(text.as_bytes(), arguments.output.as_deref())?;
        return Ok(Status::Exited(0));
    }
    say(match (arguments.color, arguments.source.is_process()) {
        (Color::Site, false) => legend(sites),
        (Color::Site, true) => format!(
            "who allocated, by samples (what was not sampled: by its size)\n{}",
            legend(sites)
        ),
        (Color::Class, _) => legend_of_sizes(map),
        (Color::Age, true) => "ages count from the first look: what was there before is older\n".to_string(),
        _ => String::new(),
    });
    deliver(&draw(map, arguments.color).png(), arguments.output.as_deref())?;
    Ok(Status::Exited(0))
}

/// Before anything is looked at: what has the name of another format would be taken for it.
fn check_ending(arguments: &Arguments) -> Result<()> {
    const OTHERS: [&str; 8] = ["svg", "jpg", "jpeg", "gif", "webp", "pdf", "html", "json"];
    let ending = arguments.output.as_ref().and_then(|path| path.extension());
    let other = ending.and_then(|ending| OTHERS.into_iter().find(|other| ending.eq_ignore_ascii_case(other)));
    match other.filter(|_| !arguments.json) {
        None => Ok(()),
        Some(other) => Err(ToolError::new(
            format!("cannot draw as {other}"),
            "the picture is PNG",
            "name a file that ends in .png; --json gives the numbers, `vmag report` a page",
        )),
    }
}

fn check_color(arguments: &Arguments, map: &Map) -> Result<()> {
    if arguments.color != Color::Site || map.rows == 0 || !map.sites[0].is_empty() {
        return Ok(());
    }
    Err(ToolError::new(
        format!("{} does not tell who allocated", arguments.source.name()),
        "it is a trace without stacks",
        "record one with `vmag run --trace FILE --trace-stacks`",
    ))
}

fn nothing_there(name: &str) -> ToolError {
    ToolError::new(
        format!("there is nothing to draw of {name}"),
        "nothing was allocated while it was looked at",
        "`vmag trace` tells what a trace has",
    )
}

/// Of `PALETTE`.
const NAMES: [&str; 8] = [
    "blue",
    "orange",
    "red",
    "turquoise",
    "green",
    "yellow",
    "purple",
    "brown",
];

/// Sizes that are there.
fn legend_of_sizes(map: &Map) -> String {
    let mut codes: Vec<u8> = map.class.iter().copied().filter(|code| *code > 0).collect();
    codes.sort_unstable();
    codes.dedup();
    let line = |code: u8| {
        let lg = u32::from(code - 1);
        let name = format!("{}{}", SHADES[shade_of_size(code)].0, NAMES[hue_of_size(code)]);
        format!("{name:>20}  from {} up\n", bytes(1 << lg))
    };
    codes.into_iter().map(line).collect()
}

/// Sites in the order of their numbers, as far as they have colours of their own.
fn legend(sites: &[Vec<Arc<Frame>>]) -> String {
    let line = |(name, site): (&&str, &Vec<Arc<Frame>>)| format!("{name:>9}  {}\n", plain(&place(site)));
    let others = if sites.len() > NAMES.len() {
        "     grey  others\n"
    } else {
        ""
    };
    NAMES.iter().zip(sites).map(line).collect::<String>() + others
}

fn as_json(watched: &Watched, is_process: bool) -> String {
    let Watched { map, sites, .. } = watched;
    let rows = |plane: &[u8]| -> Vec<Vec<u8>> { plane.chunks(map.columns.max(1)).map(<[u8]>::to_vec).collect() };
    let meaning = json!({
        "occupancy": "255: the row's bytes are all in use; 0: none is",
        "age": "1 + 5 · log2 of the mean age in nanoseconds; 0: nothing is there",
        "class": "1 + log2 of the size that holds most; 0: nothing is there",
        "site": "1 + the place in sites of who holds most; 0, or beyond them: others",
    });
    let value = json!({
        "format": "vmag-map-1", "pid": watched.pid, "seconds": watched.seconds, "meaning": meaning, "columns": map.columns, "rows": map.rows, "row_bytes": map.row_bytes,
        "row_address": map.row_address, "occupancy": rows(&map.occupancy), "age": rows(&map.age), "class": rows(&map.class),
        "site": rows(&map.sites[0]), "sites_are_sampled": is_process, "cache_bytes_not_shown": watched.cache_bytes, "sites": sites.iter().map(|site| place(site)).collect::<Vec<_>>(),
        "site_frames": sites.iter().map(|site| frames(site)).collect::<Vec<_>>(),
    });
    format!("{value}\n")
}

fn draw(map: &Map, color: Color) -> Picture {
    const GAP: [u8; 3] = [0xd8, 0xd8, 0xe0];
    let gaps = map.gap_before.iter().filter(|gap| **gap).count();
    let oldest = map.age.iter().copied().max().unwrap_or(0);
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
                picture.set(x, y, shade(map, row * map.columns + x, color, oldest));
            }
        }
    }
    picture
}

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
const OTHERS: [u8; 3] = [0xa8, 0xae, 0xb8];

/// What is mixed into a colour for sizes, and which part of it that is: each power of two up to 16 GiB has a colour of its own.
const SHADES: [(&str, [u8; 3], f64); 4] = [
    ("", [0; 3], 0.0),
    ("dark ", [0; 3], 0.45),
    ("light ", [255; 3], 0.55),
    ("very dark ", [0; 3], 0.7),
];
/// Of 8 bytes.
const FIRST_SIZE: u8 = 1 + 3;

fn hue_of_size(code: u8) -> usize {
    usize::from(code.saturating_sub(FIRST_SIZE)) % PALETTE.len()
}

fn shade_of_size(code: u8) -> usize {
    (usize::from(code.saturating_sub(FIRST_SIZE)) / PALETTE.len()).min(SHADES.len() - 1)
}

fn color_of_size(code: u8) -> [u8; 3] {
    let (_, other, part) = SHADES[shade_of_size(code)];
    mix(PALETTE[hue_of_size(code)], other, part)
}

/// A hundredth of an age in steps of its logarithm.
const HUNDREDTH: f64 = 33.2;

/// What is younger than a hundredth of the oldest is blue.
fn shade(map: &Map, cell: usize, color: Color, oldest: u8) -> [u8; 3] {
    if map.occupancy[cell] == 0 {
        return [255; 3];
    }
    match color {
        Color::Occupancy => {
            let part = f64::from(map.occupancy[cell]) / 255.0;
            mix([0xcf, 0xe3, 0xf7], [0x08, 0x1d, 0x58], part)
        }
        Color::Age => {
            let younger = f64::from(oldest) - f64::from(map.age[cell]);
            mix([0x2c, 0x7b, 0xb6], [0xd7, 0x19, 0x1c], 1.0 - younger / HUNDREDTH)
        }
        Color::Class => color_of_size(map.class[cell]),
        // 1 is the first site; 0 and what is beyond the palette are others.
        Color::Site => *PALETTE
            .get(usize::from(map.sites[0][cell]).wrapping_sub(1))
            .unwrap_or(&OTHERS),
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
    fn sizes_have_colors_of_their_own() {
        let colors: std::collections::HashSet<_> = (3..35).map(|lg| color_of_size(1 + lg)).collect();
        assert_eq!(colors.len(), 32);
        assert!(!colors.contains(&[255; 3]));
        let legend = legend_of_sizes(&crate::trace_view::tests::view().map);
        // The view has objects of 16, 64 and 128 bytes, and of 4 KiB.
        let lines: Vec<&str> = legend.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "orange  from 16 B up",
                "turquoise  from 64 B up",
                "green  from 128 B up",
                "dark orange  from 4.0 KiB up"
            ]
        );
    }

    #[test]
    fn of_nothing_there_is_no_picture() {
        let file = crate::trace::tests::file(&[crate::trace::tests::chunk(0, 1, &[(10, 1, 0x1000, 0)])]);
        let folder = tempfile::tempdir().unwrap();
        let picture = folder.path().join("m.png");
        for color in [Color::Occupancy, Color::Site] {
            let arguments = Arguments {
                color,
                seconds: None,
                json: false,
                output: Some(picture.clone()),
                source: Source::File(file.path().to_path_buf()),
            };
            let error = run(&arguments).err().unwrap();
            assert!(error.what.contains("nothing to draw"), "{}", error.what);
        }
        assert!(!picture.exists());
    }

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
