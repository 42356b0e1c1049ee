//! The report's flame graph: as many functions as the page has room for, those that hold most first.
//!
//! A function holds no more than who called it, so whoever takes the one that holds most, again and again, has a tree at any time. Of those
//! that hold the same the outer come first: many that are equal are cut across.
//! SPDX-License-Identifier: BSD-2-Clause

use super::Names;
use crate::call_tree::{Call, Stack};
use crate::heap_view::{HeapView, Measure};
use crate::trace_view::TraceView;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MEASURES: [Measure; 4] = [
    Measure::LiveBytes,
    Measure::LiveObjects,
    Measure::AllBytes,
    Measure::AllObjects,
];
/// Functions that hold less than this part of all are shown together.
const LEAST_PART: f64 = 0.0005;
/// Of the page's 5 MB, before it is packed: the pictures may need the most of them.
const MOST_TEXT: usize = 2_000_000;
/// Of a function, without its name.
const CALL_TEXT: usize = 60;

pub fn of_profile(heap: &HeapView, names: &mut Names) -> Value {
    let values = |sample: usize| MEASURES.map(|measure| measure.of(&measure.estimate(&heap.profile.samples[sample])));
    let titles = MEASURES.map(
        |measure| match heap.profile.live_only && measure.is_since_the_beginning() {
            true => format!("{}, where something is alive", measure.title()),
            false => measure.title().to_string(),
        },
    );
    let measures = [0, 1, 2, 3].map(|i| (titles[i].as_str(), MEASURES[i].is_bytes()));
    of_samples(heap, values, measures, names)
}

/// Bytes at the peak, at the end, allocated; objects allocated.
pub fn values_of_trace(trace: &TraceView, heap: &HeapView, sample: usize) -> [f64; 4] {
    let of = &heap.profile.samples[sample];
    [trace.at_peak[sample], of.live.bytes, of.total.bytes, of.total.objects]
}

/// Exact figures, and what was there when most was alive.
pub fn of_trace(trace: &TraceView, heap: &HeapView, names: &mut Names) -> Value {
    let values = |sample: usize| values_of_trace(trace, heap, sample);
    let measures = [
        ("bytes alive at the peak", true),
        ("bytes alive at the end", true),
        ("bytes allocated", true),
        ("objects allocated", false),
    ];
    of_samples(heap, values, measures, names)
}

fn of_samples(
    heap: &HeapView,
    values: impl Fn(usize) -> [f64; 4],
    measures: [(&str, bool); 4],
    names: &mut Names,
) -> Value {
    let samples = heap.profile.samples.iter().enumerate();
    let stacks: Vec<Stack<4>> = samples
        .map(|(index, sample)| (heap.named.stacks[sample.stack].as_slice(), values(index)))
        .collect();
    let mut flame =
        json!({ "measures": measures.map(|measure| measure.0), "is_bytes": measures.map(|measure| measure.1) });
    flame["tree"] = Tree::of(&stacks, MOST_TEXT, names).branch(0, names);
    flame
}

/// A function that is shown, or could be.
struct Node<'a> {
    call: Call<'a, 4>,
    depth: usize,
    is_shown: bool,
    called: Vec<usize>,
    /// What is held by functions that it called and that are too small.
    small: [f64; 4],
}

impl<'a> Node<'a> {
    fn new(call: Call<'a, 4>, depth: usize) -> Node<'a> {
        Node {
            call,
            depth,
            is_shown: false,
            called: Vec::new(),
            small: [0.0; 4],
        }
    }
}

/// The root is the first.
struct Tree<'a>(Vec<Node<'a>>);

impl<'a> Tree<'a> {
    fn of(stacks: &[Stack<'a, 4>], most_text: usize, names: &mut Names) -> Tree<'a> {
        let mut nodes = vec![Node::new(Call::all(stacks), 0)];
        let all = nodes[0].call.values;
        // Of what is held by the measure by which it holds most; of nothing there is no part.
        let part = |values: &[f64; 4]| (0..4).map(|i| values[i] / all[i]).fold(0.0, f64::max);
        // Numbers that are not below zero are in the order of their bits.
        let mut next = BinaryHeap::from([(1f64.to_bits(), Reverse(0), Reverse(0))]);
        let mut shown = 0;
        while let Some((.., Reverse(index))) = next.pop() {
            shown += 1;
            if index > 0 && shown * CALL_TEXT + names.bytes > most_text {
                break;
            }
            names.number(nodes[index].call.function);
            nodes[index].is_shown = true;
            let depth = nodes[index].depth + 1;
            for call in nodes[index].call.take_called(stacks) {
                let part = part(&call.values);
                if part > LEAST_PART {
                    let number = nodes.len();
                    next.push((part.to_bits(), Reverse(depth), Reverse(number)));
                    nodes[index].called.push(number);
                    nodes.push(Node::new(call, depth));
                } else {
                    add(&mut nodes[index].small, &call.values);
                }
            }
        }
        Tree(nodes)
    }

    /// [name, module, values, children]; what is not shown becomes one child.
    fn branch(&self, index: usize, names: &mut Names) -> Value {
        let node = &self.0[index];
        let (mut called, left_out): (Vec<usize>, Vec<usize>) =
            node.called.iter().partition(|called| self.0[**called].is_shown);
        let mut others = node.small;
        left_out
            .iter()
            .for_each(|left_out| add(&mut others, &self.0[*left_out].call.values));
        let call = |index: usize| &self.0[index].call;
        called.sort_by(|a, b| {
            let (a, b) = (call(*a), call(*b));
            b.values[0].total_cmp(&a.values[0]).then(a.function.cmp(b.function))
        });
        let mut children: Vec<Value> = called.into_iter().map(|called| self.branch(called, names)).collect();
        if others.iter().any(|value| *value > 0.0) {
            children.push(branch("[others]", "", &others, Vec::new(), names));
        }
        branch(
            node.call.function,
            node.call.last_module,
            &node.call.values,
            children,
            names,
        )
    }
}

/// Moved together: json! would copy the children, those of a deep stack once for each of its callers.
fn branch(function: &str, module: &str, values: &[f64; 4], children: Vec<Value>, names: &mut Names) -> Value {
    Value::Array(vec![
        names.number(function).into(),
        names.number(module).into(),
        Value::Array(values.iter().map(|value| (value.round() as u64).into()).collect()),
        Value::Array(children),
    ])
}

fn add(sums: &mut [f64; 4], values: &[f64; 4]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap_view::tests::{frame, view};
    use crate::symbols::Frame;
    use std::sync::Arc;

    #[test]
    fn all_that_is_held_is_shown() {
        let mut names = Names::default();
        let flame = of_profile(&view(), &mut names);
        assert_eq!(flame["measures"][2], "bytes allocated since the beginning");
        let tree = &flame["tree"];
        assert_eq!(tree[2], json!([5000, 101, 21500, 155]));
        let name = |branch: &Value| names.all[branch[0].as_u64().unwrap() as usize].clone();
        let main = &tree[3][0];
        assert_eq!(
            (name(tree), name(main), name(&main[3][1])),
            ("all".into(), "main".into(), "a".into())
        );
    }

    #[test]
    fn what_was_allocated_is_called_so_only_where_all_is_there() {
        let mut view = view();
        view.profile.live_only = true;
        let flame = of_profile(&view, &mut Names::default());
        assert_eq!(flame["measures"][0], "live bytes");
        assert!(
            flame["measures"][2]
                .as_str()
                .unwrap()
                .ends_with("since the beginning, where something is alive")
        );
    }

    /// As many as may hold enough by one of four measures, each with a deep stack of its own.
    #[test]
    fn the_page_has_room_for_the_flame_graph() {
        const STACKS: usize = 1000;
        const DEPTH: usize = 100;
        const TEXT: usize = 400_000;
        let stacks: Vec<Vec<Arc<Frame>>> = (0..STACKS)
            .map(|stack| (0..DEPTH).map(|at| Arc::new(frame(&format!("{stack}_{at}")))).collect())
            .collect();
        let stacks: Vec<Stack<4>> = stacks.iter().map(|frames| (&frames[..], [1.0; 4])).collect();
        let mut names = Names::default();
        let tree = Tree::of(&stacks, TEXT, &mut names).branch(0, &mut names);
        let text = tree.to_string().len() + names.bytes;
        assert!((TEXT / 2..TEXT * 2).contains(&text), "{text}");
        // None is preferred: each is cut where the others are, and what it called beyond is told as a sum.
        let children = |branch: &Value| branch[3].as_array().unwrap().clone();
        assert_eq!(children(&tree).len(), STACKS);
        let depth = |branch: &Value| {
            let (mut depth, mut branch) = (0, branch.clone());
            while let Some(child) = children(&branch).first() {
                assert_eq!((children(&branch).len(), child[2].clone()), (1, json!([1, 1, 1, 1])));
                (depth, branch) = (depth + 1, child.clone());
            }
            assert_eq!(branch[0], names.numbers["[others]"]);
            depth
        };
        let depths: Vec<usize> = children(&tree).iter().map(depth).collect();
        let (least, most) = (depths.iter().min().unwrap(), depths.iter().max().unwrap());
        assert!(*least > 3 && most - least <= 1, "{least} {most}");
    }
}
