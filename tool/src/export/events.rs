//! Every event of a trace as a row: comma-separated values, or Parquet.
//! SPDX-License-Identifier: BSD-2-Clause

use super::parquet::{Column, Rows, Writer};
use crate::progress::Progress;
use crate::trace::{Event, Trace};
use std::io::{self, Write};

/// A row group of Parquet: some 50 MB while it is made.
const GROUP: usize = 1 << 20;

pub fn as_csv(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    writeln!(out, "nanoseconds,thread,event,address,size,number")?;
    for_each(trace, |event| {
        let (kind, address) = (event.kind.name(), event.address);
        writeln!(
            out,
            "{},{},{kind},{address:#x},{},{}",
            event.time, event.thread, event.size, event.number
        )
    })?;
    out.flush()
}

pub fn as_parquet(trace: &Trace, out: impl Write + Send) -> io::Result<()> {
    let mut events = Vec::new();
    let mut writer = Writer::new(out, &columns(&events)).map_err(io::Error::other)?;
    for_each(trace, |event| {
        events.push(event);
        if events.len() == GROUP {
            writer.add(&columns(&events)).map_err(io::Error::other)?;
            events.clear();
        }
        Ok(())
    })?;
    writer.add(&columns(&events)).map_err(io::Error::other)?;
    writer.finish().map_err(io::Error::other)?.flush()
}

/// The first failure is that of the whole.
fn for_each(trace: &Trace, mut write: impl FnMut(Event) -> io::Result<()>) -> io::Result<()> {
    let mut progress = Progress::new("writing events");
    let mut written = Ok(());
    let take = |event| {
        if written.is_ok() {
            written = write(event);
        }
    };
    trace.for_each(take, |part| progress.at(part))?;
    written
}

fn columns(events: &[Event]) -> Rows {
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
    ]
}
