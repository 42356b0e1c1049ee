//! Uses jemalloc as a Rust program does: as the global allocator, and by the typed controls of tikv-jemalloc-ctl.
//! SPDX-License-Identifier: BSD-2-Clause
use std::alloc::{alloc_zeroed, dealloc, realloc, Layout};
use std::collections::{BTreeMap, HashMap};
use tikv_jemalloc_ctl::{arenas, background_thread, config, epoch, max_background_threads, opt, stats, thread, version};

#[global_allocator]
static GLOBAL: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MIB: usize = 1 << 20;

fn snapshot() -> [usize; 6] {
    epoch::advance().unwrap();
    [
        stats::allocated::read().unwrap(),
        stats::active::read().unwrap(),
        stats::metadata::read().unwrap(),
        stats::resident::read().unwrap(),
        stats::mapped::read().unwrap(),
        stats::retained::read().unwrap(),
    ]
}

/// What is held shows in the snapshot, and what was freed goes out of it.
fn check_statistics() {
    let before = snapshot();
    let held: Vec<Box<[u8]>> = (0..40_000).map(|i| vec![1; i % 2000].into_boxed_slice()).collect();
    let large = vec![7u8; 32 * MIB];
    let during = snapshot();
    assert!(during[0] >= before[0] + 64 * MIB && during[0] < before[0] + 90 * MIB, "{before:?} {during:?}");
    assert!(during[0] <= during[1] && during[1] <= during[3] && during[1] <= during[4], "{during:?}");
    assert!(during[2] > 0);
    drop((held, large));
    let after = snapshot();
    assert!(after[0] < before[0] + 4 * MIB, "{before:?} {after:?}");
}

fn check_epoch() {
    let first = epoch::advance().unwrap();
    assert!(epoch::advance().unwrap() > first);
    let allocated = stats::allocated::mib().unwrap();
    epoch::mib().unwrap().advance().unwrap();
    assert!(allocated.read().unwrap() > 0);
}

fn check_thread_counters() {
    let allocated = thread::allocatedp::mib().unwrap().read().unwrap();
    let deallocated = thread::deallocatedp::read().unwrap();
    let before = (allocated.get(), deallocated.get());
    drop(vec![1u8; 1000]);
    assert_eq!((allocated.get() - before.0, deallocated.get() - before.1), (1024, 1024));
}

fn check_settings() {
    assert!(version::read().unwrap().starts_with("5."), "{}", version::read().unwrap());
    assert!(arenas::narenas::read().unwrap() >= 1 && opt::narenas::read().is_ok());
    assert!(config::malloc_conf::read().is_ok());
    assert!(!opt::abort::read().unwrap());
    let dss = opt::dss::read().unwrap().trim_end_matches(char::from(0)); // the crate leaves the zero in
    assert!(["primary", "secondary", "disabled"].contains(&dss), "{dss:?}");
    assert!(opt::tcache::read().unwrap());
    let was = background_thread::read().unwrap();
    background_thread::write(!was).unwrap();
    assert_eq!(background_thread::read().unwrap(), !was);
    background_thread::write(was).unwrap();
    let most = max_background_threads::read().unwrap();
    max_background_threads::write(most).unwrap();
}

/// Alignments and sizes that collections do not ask for: the crate passes flags to mallocx, rallocx and sdallocx.
fn check_layouts() {
    for lg_align in 0..18 {
        for size in [1, 7, 100, 5000, 70_000] {
            let layout = Layout::from_size_align(size, 1 << lg_align).unwrap();
            // SAFETY: the layout is not empty, and the same is given back.
            unsafe {
                let block = alloc_zeroed(layout);
                assert!(!block.is_null() && block as usize % (1 << lg_align) == 0);
                assert!((0..size).all(|i| *block.add(i) == 0));
                block.write_bytes(1, size);
                let larger = realloc(block, layout, size * 3);
                assert!(larger as usize % (1 << lg_align) == 0 && (0..size).all(|i| *larger.add(i) == 1));
                dealloc(larger, Layout::from_size_align(size * 3, 1 << lg_align).unwrap());
            }
        }
    }
}

fn work(seed: usize) -> usize {
    let mut map = HashMap::new();
    let mut tree = BTreeMap::new();
    for i in 0..60_000 {
        map.entry((i * 7919 + seed) % 1009).or_insert_with(Vec::new).push(i);
        tree.insert(i * 31 % 5003, format!("{i}"));
    }
    map.values().map(|list| list.iter().sum::<usize>() % 97).sum::<usize>() + tree.values().map(String::len).sum::<usize>()
}

fn main() {
    check_epoch();
    check_settings();
    check_thread_counters();
    check_layouts();
    check_statistics();
    let threads: Vec<_> = (0..4).map(|seed| std::thread::spawn(move || work(seed))).collect();
    let sums: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains("libvmag.so") && !maps.contains("libjemalloc"), "{maps}");
    println!("{sums:?}");
}
