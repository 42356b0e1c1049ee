//! Collapsed stacks: "main;a;b 1234", a line a site; what flame graph tools read.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::heap_view::{HeapView, Measure};
use crate::symbols::Frame;
use std::io::{self, Write};
use std::sync::Arc;

/// Written as it is found: each stack's names in full are many times what is known of it.
pub fn write(view: &HeapView, measure: Measure, out: &mut dyn Write) -> io::Result<()> {
    for site in view.sites(measure) {
        write_stack(site.frames, out)?;
        writeln!(out, " {:.0}", measure.of(&site.estimate))?;
    }
    Ok(())
}

/// For formats with a field for it.
pub fn stack(frames: &[Arc<Frame>]) -> String {
    let mut out = Vec::new();
    write_stack(frames, &mut out).expect("memory can be written to");
    String::from_utf8_lossy(&out).into_owned()
}

fn write_stack(frames: &[Arc<Frame>], out: &mut dyn Write) -> io::Result<()> {
    for (depth, frame) in frames.iter().enumerate() {
        let separator = if depth == 0 { "" } else { ";" };
        out.write_all(separator.as_bytes())?;
        write_name(&frame.function, out)?;
    }
    Ok(())
}

/// The format has no way to quote what separates its fields.
fn write_name(name: &str, out: &mut dyn Write) -> io::Result<()> {
    for (place, part) in name.split(';').enumerate() {
        let separator = if place == 0 { "" } else { "," };
        out.write_all(separator.as_bytes())?;
        out.write_all(part.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_site() {
        let mut text = Vec::new();
        write(&crate::heap_view::tests::view(), Measure::LiveBytes, &mut text).unwrap();
        assert_eq!(text, b"main;b;c 4000\nmain;a 1000\n");
    }

    #[test]
    fn names_do_not_separate() {
        let mut text = Vec::new();
        write_name(";a;;b", &mut text).unwrap();
        assert_eq!(text, b",a,,b");
    }
}
