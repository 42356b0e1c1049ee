//! Comma-separated values: a line a stack, size, thread and arena or object cache, with estimates and their standard errors.
//! SPDX-License-Identifier: BSD-2-Clause

use super::collapsed::stack;
use crate::heap_view::HeapView;
use std::fmt::Write;

pub fn write(view: &HeapView) -> String {
    let mut out = String::from(
        "live_objects,live_objects_error,live_bytes,live_bytes_error,all_objects,all_bytes,size,thread,arena,cache,stack\n",
    );
    for sample in &view.profile.samples {
        let optional = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let (live, total) = (&sample.live, &sample.total);
        let _ = writeln!(
            out,
            "{:.1},{:.1},{:.0},{:.0},{:.1},{:.0},{},{},{},{},{}",
            live.objects,
            live.objects_error(),
            live.bytes,
            live.bytes_error(),
            total.objects,
            total.bytes,
            optional(sample.size),
            sample.thread,
            optional(sample.arena.map(u64::from)),
            view.profile
                .cache_name(sample)
                .map_or(String::new(), |name| quoted(&name)),
            quoted(&stack(&view.named.stacks[sample.stack]))
        );
    }
    out
}

pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_sample() {
        let text = write(&crate::heap_view::tests::view());
        assert_eq!(text.lines().count(), 4);
        assert_eq!(
            text.lines().nth(2),
            Some("1.0,0.0,4000,0,5.0,20000,4000,1,0,,\"main;b;c\"")
        );
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }

    #[test]
    fn names_do_not_separate() {
        let mut view = crate::heap_view::tests::view();
        view.named.stacks[1][0] = std::sync::Arc::new(crate::heap_view::tests::frame("x;y"));
        assert!(write(&view).contains("\"x,y;b;c\""));
    }
}
