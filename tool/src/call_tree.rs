//! The tree of calls that stacks make, parted function by function as far as somebody looks: the whole of it would be a node for each
//! frame of each stack, and most of them hold too little to be shown.
//! SPDX-License-Identifier: BSD-2-Clause

use crate::symbols::Frame;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A stack, the outermost function first, and what it holds by each measure.
pub type Stack<'a, const N: usize> = (&'a [Arc<Frame>], [f64; N]);

/// A function as one caller called it, with what it and those it called hold.
pub struct Call<'a, const N: usize> {
    pub function: &'a str,
    /// Of the first stack and of the last: functions of one name may be in many files.
    pub module: &'a str,
    pub last_module: &'a str,
    pub values: [f64; N],
    /// Of stacks: those that it is on, and how far out.
    on: Vec<u32>,
    depth: usize,
}

impl<'a, const N: usize> Call<'a, N> {
    /// The root: all stacks.
    pub fn all(stacks: &[Stack<'a, N>]) -> Call<'a, N> {
        let mut all = Call::new("all", "", 0);
        for (number, (_, values)) in stacks.iter().enumerate() {
            all.add(number as u32, values);
        }
        all
    }

    fn new(function: &'a str, module: &'a str, depth: usize) -> Call<'a, N> {
        Call {
            function,
            module,
            last_module: module,
            values: [0.0; N],
            on: Vec::new(),
            depth,
        }
    }

    fn add(&mut self, number: u32, values: &[f64; N]) {
        self.on.push(number);
        self.values
            .iter_mut()
            .zip(values)
            .for_each(|(sum, value)| *sum += value);
    }

    /// What it called, in the order of stacks. It forgets its stacks: on the way down each is in one list only.
    pub fn take_called(&mut self, stacks: &[Stack<'a, N>]) -> Vec<Call<'a, N>> {
        let mut called: Vec<Call<'a, N>> = Vec::new();
        let mut by_name: FxHashMap<&str, usize> = FxHashMap::default();
        // Most frames are met again: their names need not be read for that.
        let mut by_frame: FxHashMap<*const Frame, usize> = FxHashMap::default();
        for number in std::mem::take(&mut self.on) {
            let (frames, values) = &stacks[number as usize];
            let Some(frame) = frames.get(self.depth) else { continue };
            let place = *by_frame.entry(Arc::as_ptr(frame)).or_insert_with(|| {
                *by_name.entry(&frame.function).or_insert_with(|| {
                    called.push(Call::new(&frame.function, &frame.module, self.depth + 1));
                    called.len() - 1
                })
            });
            called[place].last_module = &frame.module;
            called[place].add(number, values);
        }
        called
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::frame;

    #[test]
    fn frames_of_one_name_are_one_call() {
        let line = |function: &str, line: u32| {
            Arc::new(Frame {
                line: Some(line),
                ..frame(function)
            })
        };
        let (first, second) = ([line("main", 1), line("a", 3)], [line("main", 2)]);
        let stacks: [Stack<1>; 2] = [(&first, [3.0]), (&second, [4.0])];
        let mut all = Call::all(&stacks);
        let mut called = all.take_called(&stacks);
        assert_eq!((all.values, called.len(), called[0].values), ([7.0], 1, [7.0]));
        let mut inner = called[0].take_called(&stacks);
        assert_eq!((inner[0].function, inner[0].values), ("a", [3.0]));
        assert!(inner[0].take_called(&stacks).is_empty() && all.take_called(&stacks).is_empty());
    }
}
