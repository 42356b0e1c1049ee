//! A comparison as one HTML page: for each figure the ratios as a picture, every round a dot, the interval a bar.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::compare::rounds::{Comparison, Side, Subject};
use crate::export::flame::escaped;
use crate::output::compared::{ranked, shown, text, verdict};
use crate::output::figures::Figure;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const NAMES: f64 = 150.0;
const NUMBERS: f64 = 170.0;
const ROW: f64 = 26.0;
const HEAD: f64 = 34.0;

pub fn page(subject: &Subject, comparison: &Comparison) -> String {
    let words: Vec<_> = subject.words.iter().map(|word| word.to_string_lossy()).collect();
    let pictures: String = shown().map(|figure| picture(comparison, figure)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>vmag compare</title>\n<style>\
         body{{font:15px sans-serif;margin:2em;max-width:60em}}h1{{overflow-wrap:anywhere}}pre{{overflow-x:auto}}svg{{display:block;max-width:100%}}\
         @media print{{pre{{white-space:pre-wrap}}}}</style></head><body>\n<h1>{}</h1>\n<p>{}.</p>\n{pictures}<h2>Numbers</h2>\n<pre>{}</pre>\n</body></html>\n",
        escaped(&words.join(" ")),
        escaped(&verdict(comparison)),
        escaped(&text(subject, comparison)),
    )
}

/// Ratios from left to right on a logarithmic scale that holds every round and 1.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn x(&self, ratio: f64) -> f64 {
        let part = (ratio.ln() - self.low) / (self.high - self.low);
        NAMES + part * (WIDTH - NAMES - NUMBERS)
    }
}

fn ratios(comparison: &Comparison, side: &Side, figure: &Figure) -> Vec<f64> {
    let base = comparison.sides[0].values(figure);
    let ratios = side
        .values(figure)
        .into_iter()
        .zip(base)
        .map(|(value, base)| value / base);
    ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect()
}

fn picture(comparison: &Comparison, figure: &Figure) -> String {
    let base = &comparison.sides[0].allocator.name;
    let sides: Vec<&Side> = ranked(comparison);
    let logs = sides
        .iter()
        .flat_map(|side| ratios(comparison, side, figure))
        .map(f64::ln);
    let (low, high) = logs.fold((-0.01f64, 0.01f64), |(low, high), log| (low.min(log), high.max(log)));
    let scale = Scale { low, high };
    let height = HEAD + ROW * sides.len() as f64;
    let one = scale.x(1.0);
    let mut out = format!(
        "<h2>{}, × {}</h2>\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<path d=\"M{one:.1} {HEAD}V{height}\" stroke=\"#999\"/>\
         <text x=\"{one:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#666\">1</text>\n",
        figure.title,
        escaped(base),
        HEAD - 8.0
    );
    for (row, side) in sides.iter().enumerate() {
        let y = HEAD + ROW * (row as f64 + 0.5);
        draw_side(&mut out, comparison, side, figure, &scale, y);
    }
    out.push_str("</svg>\n");
    out
}

fn draw_side(out: &mut String, comparison: &Comparison, side: &Side, figure: &Figure, scale: &Scale, y: f64) {
    let color = if side.allocator.name == "vmag" {
        "#c2410c"
    } else {
        "#1d4ed8"
    };
    let baseline = y + 4.0;
    let name = escaped(&side.allocator.name);
    let _ = writeln!(out, "<text x=\"0\" y=\"{baseline:.1}\">{name}</text>");
    if side.allocator.name == comparison.sides[0].allocator.name {
        return;
    }
    for ratio in ratios(comparison, side, figure) {
        let x = scale.x(ratio);
        let _ = write!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{color}\" opacity=\".25\"/>"
        );
    }
    let Some(interval) = comparison.ratio(side, figure) else {
        return;
    };
    let (mean, low, high) = (scale.x(interval.mean), scale.x(interval.low), scale.x(interval.high));
    let _ = writeln!(
        out,
        "<path d=\"M{low:.1} {y:.1}H{high:.1}\" stroke=\"{color}\" stroke-width=\"4\" opacity=\".6\"/>\
         <path d=\"M{mean:.1} {:.1}v14\" stroke=\"{color}\" stroke-width=\"2\"/>\
         <text x=\"{:.1}\" y=\"{baseline:.1}\">{:.3} ({:.3} … {:.3})</text>",
        y - 7.0,
        WIDTH - NUMBERS + 12.0,
        interval.mean,
        interval.low,
        interval.high
    );
}
