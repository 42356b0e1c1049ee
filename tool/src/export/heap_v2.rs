//! heap_v2 text, as the library writes it: jeprof reads it, and so does this command, with all samples.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::output::in_line;
use crate::profile::{CACHES_FROM, Estimate, MISSING, Profile, Sample, own_path};
use std::collections::BTreeMap;
use std::fmt::Write;

pub fn write(profile: &Profile) -> String {
    let mut out = format!("heap_v2/1\n  t*: {}\n", counts(&profile.live(), &profile.total()));
    let mut by_thread: BTreeMap<u32, (Estimate, Estimate)> = BTreeMap::new();
    let mut by_stack: BTreeMap<usize, BTreeMap<u32, (Estimate, Estimate)>> = BTreeMap::new();
    for sample in &profile.samples {
        let of_stack = by_stack.entry(sample.stack).or_default();
        for sum in [
            by_thread.entry(sample.thread).or_default(),
            of_stack.entry(sample.thread).or_default(),
        ] {
            sum.0 += sample.live;
            sum.1 += sample.total;
        }
    }
    for (thread, (live, total)) in &by_thread {
        let name = profile.threads.get(thread).map_or("", String::as_str);
        let _ = writeln!(out, "  t{thread}: {} {name}", counts(live, total));
    }
    for (stack, threads) in &by_stack {
        write_stack(&mut out, &profile.stacks[*stack], threads);
    }
    out.push_str("\nMAPPED_LIBRARIES:\n");
    for map in &profile.mappings {
        let _ = writeln!(
            out,
            "{:x}-{:x} r-xp {:08x} 00:00 0 {}",
            map.start,
            map.end,
            map.offset,
            own_path(&map.path)
        );
    }
    let builds = profile.build_ids();
    for map in &profile.mappings {
        if let Some(id) = builds.get(map.path.as_str()) {
            let _ = writeln!(out, "build {:x} {id}", map.start);
        }
    }
    if let Some(missing) = &profile.missing {
        let _ = writeln!(out, "{MISSING}{}", in_line(missing));
    }
    let places = by_stack
        .keys()
        .enumerate()
        .map(|(place, stack)| (*stack, place + 1))
        .collect();
    write_samples(&mut out, profile, &places);
    out
}

fn write_stack(out: &mut String, frames: &[u64], threads: &BTreeMap<u32, (Estimate, Estimate)>) {
    out.push('@');
    for address in frames.iter().chain([&0].into_iter().filter(|_| frames.is_empty())) {
        let _ = write!(out, " {address:#x}");
    }
    let live = threads.values().map(|sum| sum.0).sum();
    let total = threads.values().map(|sum| sum.1).sum();
    let _ = writeln!(out, "\n  t*: {}", counts(&live, &total));
    for (thread, (live, total)) in threads {
        let _ = writeln!(out, "  t{thread}: {}", counts(live, total));
    }
}

/// Readers divide by 1 − e^(−bytes/objects), the period being 1: that is undone here, as the library does.
fn counts(live: &Estimate, total: &Estimate) -> String {
    let pair = |sum: &Estimate| {
        let part = if sum.objects > 0.0 {
            -(-sum.bytes / sum.objects).exp_m1()
        } else {
            0.0
        };
        format!("{:.0}: {:.0}", sum.objects * part, sum.bytes * part)
    };
    format!("{} [{}]", pair(live), pair(total))
}

/// Left out where they are not known: of a profile that jemalloc wrote, or that was made of a trace.
fn write_samples(out: &mut String, profile: &Profile, places: &BTreeMap<usize, usize>) {
    if profile.samples.iter().any(|sample| sample.size.is_none()) {
        return;
    }
    let _ = write!(
        out,
        "\nVMAG_PROFILE:\nlg_sample={} lost={} pid={} time={}",
        profile.lg_sample.unwrap_or(0),
        profile.lost,
        profile.pid.unwrap_or(0),
        profile.time.unwrap_or(0)
    );
    if profile.live_only {
        out.push_str(" accum=0");
    }
    for (number, name) in profile.caches.iter().collect::<BTreeMap<_, _>>() {
        let _ = write!(out, " cache.{number}={}", name.replace(char::is_whitespace, "_"));
    }
    out.push('\n');
    for sample in &profile.samples {
        let size = sample.size.unwrap_or(0);
        let (lg, chance) = sampling(sample, size);
        let count = |sum: &Estimate| (sum.objects * chance).round();
        let _ = writeln!(
            out,
            "{} {} {} {size} {lg} {} {}",
            places[&sample.stack],
            sample.thread,
            sample
                .cache
                .map_or(sample.arena.unwrap_or(0), |cache| CACHES_FROM + cache),
            count(&sample.live),
            count(&sample.total)
        );
    }
}

/// The logarithm of the distance of samples and the chance of an object to be one, which the variance tells: (1−p)/p for
/// each object.
fn sampling(sample: &Sample, size: u64) -> (u32, f64) {
    let sum = if sample.live.objects > 0.0 {
        &sample.live
    } else {
        &sample.total
    };
    if sum.objects_variance <= 0.0 {
        return (0, 1.0);
    }
    let chance = sum.objects / (sum.objects + sum.objects_variance);
    let distance = -(size as f64) / (-chance).ln_1p();
    (distance.log2().round() as u32, chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_written() {
        let text = "heap_v2/1\n  t*: 9: 9 [0: 0]\n  t1: 9: 9 [0: 0] main thread\n@ 0x1010 0x2010\n@ 0x30\n\
            \nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000400 00:01 12      /bin/a b\n\n\
            VMAG_PROFILE:\nlg_sample=19 lost=3 pid=7 time=11 cache.5=frobs\n1 1 0 64 19 2 5\n1 1 32773 1048576 0 1 1\n2 1 3 1048576 19 0 4\n";
        let first = Profile::parse(text).unwrap();
        let again = Profile::parse(&write(&first)).unwrap();
        assert_eq!(again.stacks, first.stacks);
        assert_eq!(again.mappings, first.mappings);
        assert_eq!(again.threads, first.threads);
        assert_eq!((again.caches.len(), again.caches[&5].as_str()), (1, "frobs"));
        assert_eq!((again.samples[1].arena, again.samples[1].cache), (None, Some(5)));
        assert_eq!(again.samples, first.samples);
        assert_eq!((again.lost, again.pid, again.time), (3, Some(7), Some(11)));
        assert_eq!(again.missing, None);
    }

    /// Also where there are no samples to write, of a trace.
    #[test]
    fn what_is_missing_is_written() {
        let text = "heap_v2/1\n@ 0x10\n\nMAPPED_LIBRARIES:\n\nVMAG_PROFILE:\nlg_sample=0 active=0\n1 1 0 64 0 2 5\n";
        let mut first = Profile::parse(text).unwrap();
        assert!(first.missing.as_ref().is_some_and(|missing| missing.contains("off")));
        assert_eq!(Profile::parse(&write(&first)).unwrap().missing, first.missing);
        first.samples[0].size = None;
        assert_eq!(Profile::parse(&write(&first)).unwrap().missing, first.missing);
    }
}
