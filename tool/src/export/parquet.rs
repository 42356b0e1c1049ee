//! Parquet, for DuckDB, pandas and their kin: the samples of a profile, or the events of a trace, as columns.
//! SPDX-License-Identifier: BSD-2-Clause

use super::collapsed;
use crate::heap_view::HeapView;
use parquet::basic::Compression;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// A column's values, one a row.
pub enum Column {
    Unsigned(Vec<u64>),
    /// Where there may be none.
    Optional(Vec<Option<u64>>),
    Real(Vec<f64>),
    Text(Vec<String>),
}

/// A row group: columns of equal length, with their names.
pub type Rows = Vec<(&'static str, Column)>;

/// A file that is written row group by row group, all of the same columns.
pub struct Writer<Out: Write + Send>(SerializedFileWriter<Out>);

impl<Out: Write + Send> Writer<Out> {
    /// `example`: names and kinds of the columns; its values are not written.
    pub fn new(out: Out, example: &Rows) -> Result<Writer<Out>> {
        let fields: String = example.iter().map(field).collect();
        let schema = Arc::new(parse_message_type(&format!("message vmag {{ {fields} }}"))?);
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        Ok(Writer(SerializedFileWriter::new(out, schema, Arc::new(properties))?))
    }

    pub fn add(&mut self, rows: &Rows) -> Result<()> {
        let mut group = self.0.next_row_group()?;
        for (name, values) in rows {
            let mut column = group
                .next_column()?
                .ok_or_else(|| ParquetError::General(format!("a column too many: {name}")))?;
            write_column(column.untyped(), values)?;
            column.close()?;
        }
        group.close().map(drop)
    }

    /// To the last byte.
    pub fn finish(self) -> Result<()> {
        self.0.close().map(drop)
    }
}

/// What the disk or pipe said, where it was that.
pub fn reason(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => error
            .downcast()
            .map_or_else(io::Error::other, |error: Box<io::Error>| *error),
        other => io::Error::other(other),
    }
}

fn field((name, values): &(&'static str, Column)) -> String {
    match values {
        Column::Unsigned(_) => format!("required int64 {name} (INTEGER(64,false)); "),
        Column::Optional(_) => format!("optional int64 {name} (INTEGER(64,false)); "),
        Column::Real(_) => format!("required double {name}; "),
        Column::Text(_) => format!("required binary {name} (UTF8); "),
    }
}

fn write_column(writer: &mut ColumnWriter, values: &Column) -> Result<usize> {
    match (writer, values) {
        (ColumnWriter::Int64ColumnWriter(writer), Column::Unsigned(values)) => {
            let signed: Vec<i64> = values.iter().map(|value| *value as i64).collect();
            writer.write_batch(&signed, None, None)
        }
        (ColumnWriter::Int64ColumnWriter(writer), Column::Optional(values)) => {
            let signed: Vec<i64> = values.iter().flatten().map(|value| *value as i64).collect();
            let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
            writer.write_batch(&signed, Some(&levels), None)
        }
        (ColumnWriter::DoubleColumnWriter(writer), Column::Real(values)) => writer.write_batch(values, None, None),
        (ColumnWriter::ByteArrayColumnWriter(writer), Column::Text(values)) => {
            let texts: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
            writer.write_batch(&texts, None, None)
        }
        _ => Err(ParquetError::General("a column of another kind".to_string())),
    }
}

/// A row a stack, size, thread and arena or object cache, as in csv.rs.
pub fn write(view: &HeapView) -> Vec<u8> {
    let rows = samples(view);
    let mut bytes = Vec::new();
    let written = Writer::new(&mut bytes, &rows).and_then(|mut writer| {
        writer.add(&rows)?;
        writer.finish()
    });
    written.expect("memory can be written to");
    bytes
}

fn samples(view: &HeapView) -> Rows {
    let samples = &view.profile.samples;
    let real = |value: &dyn Fn(&crate::profile::Sample) -> f64| Column::Real(samples.iter().map(value).collect());
    let stack = |stack: usize| collapsed::stack(&view.named.stacks[stack]);
    vec![
        ("live_objects", real(&|sample| sample.live.objects)),
        ("live_objects_error", real(&|sample| sample.live.objects_error())),
        ("live_bytes", real(&|sample| sample.live.bytes)),
        ("live_bytes_error", real(&|sample| sample.live.bytes_error())),
        ("all_objects", real(&|sample| sample.total.objects)),
        ("all_bytes", real(&|sample| sample.total.bytes)),
        (
            "size",
            Column::Optional(samples.iter().map(|sample| sample.size).collect()),
        ),
        (
            "thread",
            Column::Unsigned(samples.iter().map(|sample| sample.thread.into()).collect()),
        ),
        (
            "arena",
            Column::Optional(samples.iter().map(|sample| sample.arena.map(u64::from)).collect()),
        ),
        (
            "cache",
            Column::Text(
                samples
                    .iter()
                    .map(|sample| view.profile.cache_name(sample).unwrap_or_default())
                    .collect(),
            ),
        ),
        (
            "stack",
            Column::Text(samples.iter().map(|sample| stack(sample.stack)).collect()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn a_row_a_sample() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&write(&crate::heap_view::tests::view())).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<String> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().to_string())
            .collect();
        assert_eq!(rows.len(), 3);
        assert!(
            rows[1].contains("size: 4000, thread: 1, arena: 0, cache: \"\", stack: \"main;b;c\""),
            "{}",
            rows[1]
        );
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_told_as_one() {
        struct Unread;
        impl Write for Unread {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let written = Writer::new(Unread, &vec![("a", Column::Unsigned(Vec::new()))]).and_then(Writer::finish);
        let told = reason(written.err().unwrap());
        assert_eq!(told.kind(), io::ErrorKind::BrokenPipe, "{told:?}");
    }
}
