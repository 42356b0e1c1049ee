//! The allocator's own frames, where it is linked into the program: a stack begins with them, and they say nothing about who allocates.
//!
//! How many there are differs: the entry point itself may be gone, for its last call is a jump. So a stack is cut behind the entry point where it
//! shows, and else behind the last function that is surely the allocator's. tests/tool/entries.py finds out when a name is missing below.
//! SPDX-License-Identifier: BSD-2-Clause

use super::Frame;

/// The C library's: also those of a program of its own, which stand for the allocator.
const MALLOC: [&str; 9] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
];

/// Those of the library besides.
const ENTRIES: [&str; 23] = [
    "mallocx",
    "rallocx",
    "xallocx",
    "allocm",
    "rallocm",
    "umem_alloc",
    "umem_zalloc",
    "umem_alloc_align",
    "umem_cache_create",
    "umem_cache_alloc",
    "vmag_cache_create",
    "vmag_cache_alloc",
    "vmag_cache_alloc_batch",
    "vmag_cache_reserve",
    "vmag_reserve_alloc",
    "vmag_vmem_create",
    "vmag_vmem_add",
    "vmag_vmem_alloc",
    "vmag_vmem_xalloc",
    "vmem_create",
    "vmem_add",
    "vmem_alloc",
    "vmem_xalloc",
];

/// On the way from there to where the stack is found, with what may be inlined in them.
const INSIDE: [&str; 79] = [
    "added_alloc",
    "aligned_missed",
    "alloc_class",
    "alloc_miss",
    "alloc_on",
    "alloc_once",
    "alloc_one",
    "alloc_run",
    "alloc_sampled",
    "alloc_slow",
    "allocate",
    "allocated",
    "ask_for_stack",
    "by_frames",
    "calloc_missed",
    "calloc_run",
    "cpu_front_alloc",
    "debug_alloc",
    "debug_realloc",
    "door_allocated",
    "door_resized",
    "fast_malloc",
    "find_stack",
    "guard_alloc",
    "heap_aligned",
    "heap_alloc_sampled",
    "heap_calloc",
    "heap_malloc",
    "heap_malloc_some",
    "heap_mallocx",
    "heap_plain_aligned",
    "heap_plain_lasting",
    "heap_plain_malloc",
    "heap_rallocx",
    "heap_realloc",
    "heap_resize",
    "heap_xallocx",
    "known_stacks_find",
    "last_stack_find",
    "last_stack_walk",
    "malloc_miss",
    "malloc_missed",
    "malloc_missed_twice",
    "malloc_rest",
    "missed_malloc",
    "new_hit",
    "new_nothrow_hit",
    "new_nothrow_sampled",
    "new_nothrow_slow_way",
    "new_rest",
    "new_slow",
    "new_slow_way",
    "number_by_system",
    "operators_new_nothrow",
    "operators_new_nothrow_caught",
    "os_stack_capture",
    "os_stack_system",
    "os_stack_walk",
    "own_backtrace",
    "plain_malloc_missed",
    "profile_record",
    "realloc_as_called",
    "realloc_copy",
    "resize_to",
    "resized",
    "sampling_object",
    "served_missed",
    "sized_event_with_its_stack",
    "stack_number",
    "tell_alloc",
    "tell_trace",
    "trace_allocated",
    "trace_new",
    "trace_other",
    "trace_resized",
    "traced_malloc",
    "tracing_tell",
    "umem_sizes_alloc",
    "walk_alone",
];

/// Where the trace is asked in the function itself, which without debug information is the only frame of the allocator's.
const ALONE: [&str; 4] = ["malloc_rest", "new_nothrow_slow_way", "new_rest", "plain_malloc_missed"];

/// Whether a file is the library, under any of its names.
pub fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libvmag.so", "libjemalloc.so", "libumem.so", "libumem_malloc.so"]
        .iter()
        .any(|library| name.starts_with(library))
}

/// How many of the innermost frames are the allocator's. `is_linked`: it may be a part of the program; else the functions that are called as
/// its own are the program's.
pub fn count<'a>(innermost_first: impl Iterator<Item = &'a Frame>, is_linked: bool) -> usize {
    let names: Vec<&str> = innermost_first
        .map(|frame| bare(&frame.function))
        .take_while(|name| is_entry(name) || INSIDE.contains(name))
        .collect();
    let is_sure = |name: &&str| is_entry(name) || name.contains('_');
    let is_alone = names.first().is_some_and(|name| ALONE.contains(name));
    if !is_linked {
        return names.iter().take_while(|name| is_malloc(name)).count();
    }
    // A single one may be the program's: it may run on another allocator.
    if !is_alone && names.iter().filter(|name| is_sure(name)).count() < 2 {
        return names.iter().take_while(|name| is_malloc(name)).count();
    }
    let last = names.iter().rposition(|name| is_entry(name));
    last.or_else(|| names.iter().rposition(is_sure))
        .map_or(0, |last| last + 1)
}

/// Without what the compiler put behind the name of a part of a function: "malloc_miss.part.0".
fn bare(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

fn is_malloc(name: &str) -> bool {
    MALLOC.contains(&name) || name.starts_with("operator new")
}

fn is_entry(name: &str) -> bool {
    is_malloc(name) || ENTRIES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::frame;

    fn own(names: &[&str]) -> usize {
        let frames: Vec<Frame> = names.iter().map(|name| frame(name)).collect();
        count(frames.iter(), true)
    }

    #[test]
    fn a_stack_is_cut_behind_the_entry_or_what_is_left_of_it() {
        assert_eq!(own(&["heap_alloc_sampled", "heap_plain_malloc", "keep", "main"]), 2);
        assert_eq!(own(&["traced_malloc", "missed_malloc", "malloc_rest", "keep"]), 3);
        assert_eq!(own(&["door_allocated", "allocated", "calloc_run.part.0", "keep"]), 3);
        assert_eq!(own(&["tell_alloc", "alloc_miss", "umem_cache_alloc", "keep"]), 3);
        assert_eq!(own(&["malloc_rest", "keep", "main"]), 1);
        assert_eq!(own(&["malloc", "main"]), 1);
        assert_eq!(own(&["operator new(unsigned long)", "main"]), 1);
    }

    #[test]
    fn functions_of_a_program_with_such_names_stay() {
        assert_eq!(own(&["vmem_alloc", "main"]), 0);
        assert_eq!(own(&["heap_resize", "push", "main"]), 0);
        assert_eq!(own(&["allocate", "main"]), 0);
        let frames = ["resize_to", "umem_alloc", "render", "main"].map(frame);
        assert_eq!((count(frames.iter(), true), count(frames.iter(), false)), (2, 0));
        assert!(
            is_library("/usr/lib/libvmag.so.0")
                && is_library("libjemalloc.so.2")
                && !is_library("/usr/bin/libvmagic")
        );
        assert_eq!(own(&["heap_alloc_sampled", "malloc", "allocate", "main"]), 2);
        assert_eq!(own(&["heap_alloc_sampled", "heap_plain_malloc", "allocate", "main"]), 2);
        // What a constructor of an object cache allocates is its own.
        assert_eq!(
            own(&[
                "heap_alloc_sampled",
                "malloc",
                "construct",
                "alloc_slow",
                "umem_cache_alloc"
            ]),
            2
        );
    }
}
