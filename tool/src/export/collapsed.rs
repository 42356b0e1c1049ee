//! Collapsed stacks: "main;a;b 1234", a line a site; what flame graph tools read.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::{HeapView, Measure};
use std::fmt::Write;

pub fn write(view: &HeapView, measure: Measure) -> String {
    let mut out = String::new();
    for site in view.sites(measure) {
        // The format has no way to quote what separates its fields.
        let names: Vec<String> = site
            .frames
            .iter()
            .map(|frame| frame.function.replace(';', ","))
            .collect();
        let _ = writeln!(out, "{} {:.0}", names.join(";"), measure.of(&site.estimate));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_site() {
        let text = write(&crate::heap_view::tests::view(), Measure::LiveBytes);
        assert_eq!(text, "main;b;c 4000\nmain;a 1000\n");
    }
}
