//! A process read at intervals: its counters and, when it is profiled, who holds what.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::attach::{Ask, Counters, Process};
use crate::error::Result;
use crate::heap_view::HeapView;
use crate::symbols::Names;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Sums that the curve at the top shows.
const HISTORY: usize = 240;

/// The process at one moment.
pub struct Reading {
    pub at: Instant,
    pub counters: Counters,
    pub view: HeapView,
}

pub struct Watch {
    pub process: Process,
    names: Names,
    /// Growth is counted from here.
    pub first: Rc<Reading>,
    pub before: Option<Rc<Reading>>,
    pub last: Rc<Reading>,
    /// What was allocated, of object caches as well, reading by reading.
    pub history: VecDeque<u64>,
}

fn held(reading: &Reading) -> u64 {
    let counters = &reading.counters;
    counters.allocated.saturating_add(counters.out_of_caches())
}

impl Watch {
    pub fn start(pid: i32) -> Result<Watch> {
        let process = Process::attach(pid)?;
        let mut names = Names::default();
        // Most names are found here, which may take seconds; what is counted begins behind that.
        read(&process, &mut names)?;
        let first = Rc::new(read(&process, &mut names)?);
        Ok(Watch {
            history: VecDeque::from([held(&first)]),
            process,
            names,
            last: Rc::clone(&first),
            before: None,
            first,
        })
    }

    pub fn look(&mut self) -> Result<()> {
        let reading = read(&self.process, &mut self.names)?;
        self.history.push_back(held(&reading));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
        self.before = Some(std::mem::replace(&mut self.last, Rc::new(reading)));
        Ok(())
    }

    /// Growth is counted from now on.
    pub fn count_anew(&mut self) -> Result<()> {
        self.look()?;
        self.first = Rc::clone(&self.last);
        Ok(())
    }

    pub fn seconds(&self) -> f64 {
        (self.last.at - self.first.at).as_secs_f64()
    }

    pub fn is_profiled(&self) -> bool {
        self.process.sampling().is_some_and(|(active, _)| active)
    }

    /// Off, or on with the distance that it had; it happens when the process next comes by.
    pub fn switch_profile(&self) -> Result<()> {
        let ask = match self.is_profiled() {
            true => Ask::ProfileOff,
            false => Ask::ProfileOn { sample_bytes: 0 },
        };
        self.process.ask(&ask, Duration::from_millis(50)).map(|_| ())
    }
}

/// Names are found afterwards, for that may take seconds, in which the process goes on.
fn read(process: &Process, names: &mut Names) -> Result<Reading> {
    let profile = process.profile()?;
    let (at, counters) = (Instant::now(), process.counters()?);
    let named = names.name_stacks(&profile);
    Ok(Reading {
        at,
        counters,
        view: HeapView { profile, named },
    })
}
