//! Every event of a trace as a row: comma-separated values, or Parquet.
//! SPDX-License-Identifier: BSD-2-Clause

use super::csv::quoted;
use super::parquet::{Column, Rows, Writer, reason};
use crate::output::heap::place;
use crate::profile::Profile;
use crate::progress::Progress;
use crate::symbols::name_stacks;
use crate::trace::{Event, Trace};
use crate::trace_view::LostStacks;
use std::io::{self, Write};

/// A row group of Parquet: some 50 MB while it is made, and as much again for who allocated.
const GROUP: usize = 1 << 20;

pub fn as_csv(trace: &Trace, mut out: impl Write) -> io::Result<Option<String>> {
    let places: Vec<String> = places(trace).iter().map(|place| quoted(place)).collect();
    writeln!(out, "nanoseconds,thread,event,address,size,number,where")?;
    let missing = for_each(trace, |event| {
        let (kind, address) = (event.kind.name(), event.address);
        writeln!(
            out,
            "{},{},{kind},{address:#x},{},{},{}",
            event.time,
            event.thread,
            event.size,
            event.number,
            place_of(&event, &places)
        )
    })?;
    out.flush()?;
    Ok(missing)
}

pub fn as_parquet(trace: &Trace, out: impl Write + Send) -> io::Result<Option<String>> {
    let places = places(trace);
    let mut events = Vec::new();
    let mut writer = Writer::new(out, &columns(&events, &places)).map_err(reason)?;
    let missing = for_each(trace, |event| {
        events.push(event);
        if events.len() == GROUP {
            writer.add(&columns(&events, &places)).map_err(reason)?;
            events.clear();
        }
        Ok(())
    })?;
    writer.add(&columns(&events, &places)).map_err(reason)?;
    writer.finish().map_err(reason)?;
    Ok(missing)
}

/// Who allocated, by the number of the stack.
fn places(trace: &Trace) -> Vec<String> {
    let profile = Profile {
        stacks: trace.facts.stacks.clone(),
        mappings: trace.facts.mappings.clone(),
        mappings_are_cut: trace.facts.mappings_are_cut,
        known: trace.facts.known.clone(),
        ..Profile::default()
    };
    name_stacks(&profile)
        .stacks
        .iter()
        .map(|frames| place(frames))
        .collect()
}

/// Nothing where it is not known: the trace has no stacks, or objects are freed.
fn place_of<'a>(event: &Event, places: &'a [String]) -> &'a str {
    match event.stack {
        0 => "",
        number => places.get(number as usize).map_or("", String::as_str),
    }
}

/// What the trace does not tell, in words; the first failure is that of the whole.
fn for_each(trace: &Trace, mut write: impl FnMut(Event) -> io::Result<()>) -> io::Result<Option<String>> {
    let mut progress = Progress::new("writing events");
    let mut written = Ok(());
    let mut lost = LostStacks::default();
    let take = |event| {
        lost.take(trace, &event);
        if written.is_ok() {
            written = write(event);
        }
    };
    let losses = trace.for_each(take, |part| progress.at(part))?;
    written.map(|()| lost.missing(trace, &losses))
}

fn columns(events: &[Event], places: &[String]) -> Rows {
    let numbers = |of: fn(&Event) -> u64| Column::Unsigned(events.iter().map(of).collect());
    vec![
        ("nanoseconds", numbers(|event| event.time)),
        ("thread", numbers(|event| event.thread.into())),
        (
            "event",
            Column::Text(events.iter().map(|event| event.kind.name().to_string()).collect()),
        ),
        ("address", numbers(|event| event.address)),
        ("size", numbers(|event| event.size)),
        ("number", numbers(|event| event.number.into())),
        (
            "where",
            Column::Text(events.iter().map(|event| place_of(event, places).to_string()).collect()),
        ),
    ]
}
