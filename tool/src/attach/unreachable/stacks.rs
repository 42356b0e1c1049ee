//! Which part of its stack a thread uses, as far as the kernel tells from outside: /proc/PID/task/TID/syscall.
//! SPDX-License-Identifier: BSD-2-Clause

use std::fs;

/// Below the stack pointer a function that calls none may keep what it likes.
const RED_ZONE: u64 = 128;

/// The stack pointers of all threads; None where one does not wait in a system call: its stack may be any.
pub fn of_waiting(pid: i32) -> Option<Vec<u64>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    tasks
        .map(|task| stack_pointer(&fs::read_to_string(task.ok()?.path().join("syscall")).ok()?))
        .collect()
}

/// "number arguments sp pc"; "running" of one that runs, "-1 sp pc" of one that waits for something else.
fn stack_pointer(told: &str) -> Option<u64> {
    let mut words = told.split_whitespace().rev();
    let (_, pointer) = (words.next()?, words.next()?);
    u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
}

/// Where that begins which counts of a mapping. Stacks of several threads may lie in one: the lowest counts.
pub fn first_in_use(waiting: &Option<Vec<u64>>, start: u64, end: u64) -> u64 {
    let pointers = waiting.iter().flatten();
    let lowest = pointers.filter(|pointer| (start..end).contains(*pointer)).min();
    lowest.map_or(start, |pointer| pointer.saturating_sub(RED_ZONE).max(start) & !7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_stack_pointers() {
        assert_eq!(
            stack_pointer("34 0x0 0x1 0x2 0x3 0x4 0x5 0x7ffe10 0x40\n"),
            Some(0x7ffe10)
        );
        assert_eq!(stack_pointer("-1 0x7ffe10 0x40\n"), Some(0x7ffe10));
        assert_eq!(stack_pointer("running\n"), None);
    }

    #[test]
    fn the_lowest_in_a_mapping_counts() {
        let waiting = Some(vec![0x3800, 0x3400, 0x9000]);
        assert_eq!(first_in_use(&waiting, 0x2000, 0x4000), 0x3400 - RED_ZONE);
        assert_eq!(first_in_use(&waiting, 0x3400, 0x4000), 0x3400);
        assert_eq!(first_in_use(&waiting, 0x4000, 0x9000), 0x4000);
        assert_eq!(first_in_use(&None, 0x2000, 0x4000), 0x2000);
    }
}
