//! Readings of processes: at most one of each at a time, and for none does anybody wait long.
//!
//! What a process has mapped may be a file of a server that never answers, and then reading its memory never ends. Such a reading keeps
//! one thread, and until it ends its process cannot be read; all others can.
//! SPDX-License-Identifier: BSD-2-Clause

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// For a reading, and for one that somebody else began: whoever asks for metrics gives up after about as long.
const PATIENCE: Duration = Duration::from_secs(10);

/// When the reading of each process began that is under way.
static BEGUN: Mutex<Option<HashMap<i32, Instant>>> = Mutex::new(None);
static ENDED: Condvar = Condvar::new();

/// What was read; None: that lasts too long, or there is no thread for it.
pub fn of<T: Send + 'static>(pid: i32, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    within(PATIENCE, pid, read)
}

/// Whether a reading of it seems never to end.
pub fn is_stuck(pid: i32) -> bool {
    let begun = begun();
    begun
        .as_ref()
        .and_then(|begun| begun.get(&pid))
        .is_some_and(|at| at.elapsed() >= PATIENCE)
}

fn within<T: Send + 'static>(patience: Duration, pid: i32, read: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let reading = Reading::begin(patience, pid)?;
    let (done, result) = mpsc::channel();
    let work = move || {
        let _reading = reading;
        // That nobody waits any more is no failure.
        let _ = done.send(read());
    };
    thread::Builder::new().spawn(work).ok()?;
    result.recv_timeout(patience).ok()
}

/// While it is there no other of its process begins.
struct Reading(i32);

impl Reading {
    fn begin(patience: Duration, pid: i32) -> Option<Reading> {
        let mut begun = begun();
        while let Some(at) = begun.get_or_insert_default().get(&pid) {
            let left = patience.checked_sub(at.elapsed()).filter(|left| !left.is_zero())?;
            begun = ENDED
                .wait_timeout(begun, left)
                .unwrap_or_else(|broken| broken.into_inner())
                .0;
        }
        begun.get_or_insert_default().insert(pid, Instant::now());
        Some(Reading(pid))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        begun().get_or_insert_default().remove(&self.0);
        ENDED.notify_all();
    }
}

/// Nothing panics while it is locked.
fn begun() -> MutexGuard<'static, Option<HashMap<i32, Instant>>> {
    BEGUN.lock().unwrap_or_else(|broken| broken.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn what_never_ends_is_waited_for_once() {
        let (stuck, other) = (-1, -2);
        let (end, until) = mpsc::channel::<()>();
        let start = Instant::now();
        assert_eq!(within(SHORT, stuck, move || until.recv().is_ok()), None);
        assert!(start.elapsed() >= SHORT);
        // It is under way for so long that nobody waits any more, and no second is begun.
        let start = Instant::now();
        assert_eq!(within(SHORT, stuck, || 7), None);
        assert!(start.elapsed() < SHORT);
        assert_eq!(within(SHORT, other, || 7), Some(7));
        drop(end);
        let again = || {
            thread::sleep(Duration::from_millis(1));
            within(SHORT, stuck, || 7)
        };
        assert_eq!((0..10_000).find_map(|_| again()), Some(7));
    }

    #[test]
    fn a_process_is_read_by_one_at_a_time() {
        static READERS: AtomicUsize = AtomicUsize::new(0);
        let read = || {
            let others = READERS.fetch_add(1, Relaxed);
            thread::sleep(Duration::from_millis(5));
            READERS.fetch_sub(1, Relaxed);
            others
        };
        thread::scope(|scope| {
            let readers: Vec<_> = (0..8).map(|_| scope.spawn(move || of(-3, read))).collect();
            for reader in readers {
                assert_eq!(reader.join().unwrap(), Some(0));
            }
        });
    }

    #[test]
    fn a_reading_that_panics_is_over() {
        assert_eq!(of(-4, || -> u32 { std::panic::resume_unwind(Box::new(())) }), None);
        assert_eq!(of(-4, || 7), Some(7));
    }
}
