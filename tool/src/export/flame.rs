//! A flame graph as one SVG file: boxes as wide as what they hold, callers above callees, a title on each.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::{HeapView, Measure, Node};
use crate::output::figures;
use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 28.0;
const LETTER: f64 = 6.7;
/// Narrower boxes are left out.
const NARROWEST: f64 = 0.3;
/// The picture is as high as the boxes that can be pointed at: a tower of slivers would make it long.
const READABLE: f64 = 6.0;

pub fn write(view: &HeapView, measure: Measure, title: &str) -> String {
    let tree = view.tree(measure, NARROWEST / 2.0 / WIDTH); // half: that rounding decides nothing
    let rows = tree.depth(tree.value * READABLE / WIDTH);
    let height = HEAD + ROW * rows as f64 + 8.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"18\" font-size=\"13\">{}: {}, {}</text>\n",
        escaped(title),
        amount(tree.value, measure),
        measure.title()
    );
    if tree.value > 0.0 {
        let picture = Picture {
            rows,
            all: tree.value,
            measure,
        };
        picture.boxes(&mut out, &tree, 0.0, 0);
    }
    out.push_str("</svg>\n");
    out
}

struct Picture {
    rows: usize,
    all: f64,
    measure: Measure,
}

impl Picture {
    fn boxes(&self, out: &mut String, node: &Node, start: f64, row: usize) {
        let (x, width) = (start / self.all * WIDTH, node.value / self.all * WIDTH);
        if width < NARROWEST || row >= self.rows {
            return;
        }
        let y = HEAD + ROW * row as f64;
        let share = 100.0 * node.value / self.all;
        let _ = write!(
            out,
            "<g><title>{}: {} ({share:.1} %)</title><rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" \
         fill=\"{}\" rx=\"1\"/>",
            escaped(node.function),
            amount(node.value, self.measure),
            ROW - 1.0,
            color(node.module, node.function)
        );
        let letters = ((width - 4.0) / LETTER) as usize;
        if letters >= 3 {
            let name: String = node.function.chars().take(letters).collect();
            let _ = write!(
                out,
                "<text x=\"{:.1}\" y=\"{}\">{}</text>",
                x + 2.0,
                y + 12.0,
                escaped(&name)
            );
        }
        out.push_str("</g>\n");
        let mut at = start;
        for child in &node.children {
            self.boxes(out, child, at, row + 1);
            at += child.value;
        }
    }
}

/// Each module has its hue; its functions differ a little.
fn color(module: &str, function: &str) -> String {
    let hash = |text: &str| {
        text.bytes()
            .fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
    };
    format!("hsl({},62%,{}%)", hash(module) % 360, 70 + hash(function) % 14)
}

fn amount(value: f64, measure: Measure) -> String {
    let whole = value.round() as u64;
    if measure.is_bytes() {
        figures::bytes(whole)
    } else {
        figures::counted(whole, "object")
    }
}

/// XML 1.0 has no way to write most control characters.
pub fn escaped(text: &str) -> String {
    text.replace(|letter| matches!(letter, '\0'..' ' if !"\t\n\r".contains(letter)), "?")
        .replace(['\u{fffe}', '\u{ffff}'], "?")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_a_box() {
        let svg = write(&crate::heap_view::tests::view(), Measure::LiveBytes, "a<b>");
        assert_eq!(svg.matches("<rect x").count(), 5);
        assert!(svg.contains("a&lt;b&gt;") && !svg.contains("a<b>"));
        assert!(svg.contains("c: 3.9 KiB (80.0 %)"));
    }

    /// As tables do: an estimate is seldom whole.
    #[test]
    fn objects_are_rounded() {
        assert_eq!(amount(5.78, Measure::LiveObjects), "6 objects");
        assert_eq!(amount(5.78, Measure::LiveBytes), "6 B");
    }

    #[test]
    fn what_xml_cannot_say_is_not_said() {
        assert_eq!(escaped("a\x1b\0\tb\u{ffff}\"é"), "a??\tb?&quot;é");
    }

    #[test]
    fn towers_of_slivers_do_not_make_it_long() {
        let tower: String = (0..100).map(|i| format!(" {:#x}", 0x1000 + i)).collect();
        let text = format!(
            "heap_v2/1\n@ 0x10 0x20\n@{tower} 0x30\n\nMAPPED_LIBRARIES:\n\nVMAG_PROFILE:\nlg_sample=0 lost=0 pid=1 time=1\n\
             1 1 0 1000 0 999 999\n2 1 0 1000 0 1 1\n"
        );
        let view = HeapView::new(crate::profile::Profile::parse(&text).unwrap());
        let svg = write(&view, Measure::LiveBytes, "t");
        assert!(svg.contains("viewBox=\"0 0 1200 87\""), "{}", &svg[..100]);
        assert_eq!(svg.matches("<rect x").count(), 5);
    }
}
