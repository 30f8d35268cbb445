//! Sources as a caller sees them: files in a folder, settings, and the batches that come out.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod compressed;
mod csv;
mod flatgeobuf;
mod geojson;
mod geopackage;
mod ndjson;
mod parquet;
mod remote;
#[cfg(feature = "sql")]
mod select;
mod settings;
mod shapefile;

use std::collections::BTreeMap;
use std::fs;

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::array_value_to_string;
use hexfloe_source::{Error, Format, Scan, ScanOptions, Source, SourceBatch, SourceSettings};
use tempfile::TempDir;

/// A folder with these files in it.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn settings(format: Format, paths: &[&str]) -> SourceSettings {
    SourceSettings::new("test", format, paths.iter().map(ToString::to_string).collect())
}

fn schema_of(columns: &[(&str, &str)]) -> BTreeMap<String, String> {
    columns.iter().map(|(column, data_type)| ((*column).to_owned(), (*data_type).to_owned())).collect()
}

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// What a scan gives, in a form that is easy to compare.
#[derive(Debug, PartialEq)]
struct Rows {
    /// `name:type` of each column.
    schema: Vec<String>,
    /// `file:row` and the values of each row; `∅` is null.
    rows: Vec<String>,
    /// `file:row reason` of each reject.
    rejects: Vec<String>,
    bytes: u64,
    batches: usize,
}

impl Rows {
    /// The values of each row, without where it is from.
    fn values(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.split_once(' ').unwrap().1).collect()
    }
}

fn scan(source: &Source, options: &ScanOptions) -> Result<Rows, Error> {
    drain(source.scan(options)?)
}

fn drain(mut scan: Scan) -> Result<Rows, Error> {
    let mut rows = Rows { schema: names(scan.schema()), rows: vec![], rejects: vec![], bytes: 0, batches: 0 };
    let (mut ended, mut index) = (false, 0);
    while let Some(piece) = scan.next_piece()? {
        assert!(!ended, "a piece after the last");
        assert_eq!(piece.index(), index);
        index += 1;
        let decoded = piece.decode()?;
        ended = decoded.last;
        rows.bytes += decoded.bytes;
        for batch in &decoded.batches {
            assert_eq!(batch.batch.schema(), *scan.schema());
            rows.batches += 1;
            rows.push(batch);
        }
    }
    Ok(rows)
}

impl Rows {
    fn push(&mut self, source: &SourceBatch) {
        assert!(source.batch.num_rows() > 0, "an empty batch");
        for row in 0..source.batch.num_rows() {
            let values = source.batch.columns().iter().map(|column| {
                if column.is_null(row) { "∅".to_owned() } else { array_value_to_string(column, row).unwrap() }
            });
            let values = values.collect::<Vec<_>>().join("|");
            self.rows.push(format!("{}:{} {values}", source.file, source.first_row + row as u64));
        }
        for reject in &source.rejects {
            self.rejects.push(format!("{}:{} {}", source.file, source.first_row + reject.row as u64, reject.reason));
        }
    }
}

fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| format!("{}:{}", field.name(), type_name(field.data_type()))).collect()
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8View => "string".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Boolean => "boolean".to_owned(),
        DataType::Date32 => "date".to_owned(),
        other => other.to_string(),
    }
}

/// Reads everything, or gives the error of whichever step refuses.
fn read(folder: &TempDir, settings: SourceSettings, options: &ScanOptions) -> Result<Rows, Error> {
    let source = Source::open(settings, folder.path())?;
    let rows = scan(&source, options)?;
    source.check_unchanged()?;
    Ok(rows)
}

fn refusal(folder: &TempDir, settings: SourceSettings, options: &ScanOptions) -> Error {
    match read(folder, settings, options) {
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "more than one line: {error}");
            error
        }
        Ok(rows) => panic!("not refused: {rows:?}"),
    }
}
