//! Which Parquet encoding each column gets, decided once from its type and the first rows, never from timing.
//!
//! Trying a dictionary on values that hardly repeat costs a third of the encoding time and leaves a dead dictionary page in
//! the file, so it is used where a sample says that it pays. The rest is plain, or with `encodings = "compact"` delta for
//! integers and times and byte-stream-split for floating point and cells, which halves such columns. Everything is
//! compressed with zstd.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::ColumnPath;

use crate::job::Encodings;

/// Rows of the first batch that are looked at.
const SAMPLE: usize = 8_192;

/// Rows of a full row group.
pub(crate) const ROW_GROUP_ROWS: usize = 131_072;

/// The properties of every data file of a job.
///
/// `cells` are the columns with cell numbers: high in entropy, but alike byte by byte.
pub(crate) fn properties(sample: &RecordBatch, cells: &[String], encodings: Encodings) -> WriterPropertiesPtr {
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("hexfloe version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_dictionary_enabled(true);
    for (field, column) in sample.schema().fields().iter().zip(sample.columns()) {
        let path = ColumnPath::from(field.name().as_str());
        if repeats(column) {
            continue;
        }
        builder = builder.set_column_dictionary_enabled(path.clone(), false);
        if encodings == Encodings::Compact {
            let encoding = match field.data_type() {
                DataType::Int64 if cells.contains(field.name()) => Some(Encoding::BYTE_STREAM_SPLIT),
                DataType::Int32
                | DataType::Int64
                | DataType::Date32
                | DataType::Time64(_)
                | DataType::Timestamp(_, _) => Some(Encoding::DELTA_BINARY_PACKED),
                DataType::Float32 | DataType::Float64 => Some(Encoding::BYTE_STREAM_SPLIT),
                _ => None,
            };
            if let Some(encoding) = encoding {
                builder = builder.set_column_encoding(path, encoding);
            }
        }
    }
    Arc::new(builder.build())
}

/// Whether a dictionary is likely to pay: text always tries (the writer falls back when it does not), other values when at
/// most half of the sampled ones are distinct, geometries never.
fn repeats(column: &ArrayRef) -> bool {
    let sample = column.slice(0, column.len().min(SAMPLE));
    let distinct = |values: &ArrayRef| -> Option<usize> {
        let wide = arrow::compute::cast(values, &DataType::Int64).ok()?;
        let wide = wide.as_primitive::<Int64Type>();
        Some(wide.iter().flatten().collect::<HashSet<_>>().len())
    };
    let distinct = match sample.data_type() {
        DataType::Float64 => {
            let values = sample.as_primitive::<arrow::datatypes::Float64Type>();
            Some(values.iter().flatten().map(f64::to_bits).collect::<HashSet<_>>().len())
        }
        DataType::Float32 => {
            let values = sample.as_primitive::<arrow::datatypes::Float32Type>();
            Some(values.iter().flatten().map(f32::to_bits).collect::<HashSet<_>>().len())
        }
        DataType::Int32 | DataType::Int64 | DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(_, _) => {
            distinct(&sample)
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => return false,
        _ => None,
    };
    distinct.is_none_or(|distinct| distinct * 2 <= sample.len().max(1))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringArray};

    use super::*;

    fn sample() -> RecordBatch {
        let rows = 1_000_i64;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new((0..rows).collect::<Int64Array>())),
            ("kind", Arc::new((0..rows).map(|row| row % 4).collect::<Int64Array>())),
            ("cell", Arc::new((0..rows).map(|row| row * 7_919).collect::<Int64Array>())),
            ("lat", Arc::new((0..1_000_u32).map(|row| f64::from(row) / 7.0).collect::<Float64Array>())),
            ("name", Arc::new((0..rows).map(|row| Some(row.to_string())).collect::<StringArray>())),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn dictionaries_are_for_values_that_repeat() {
        let properties = properties(&sample(), &["cell".to_owned()], Encodings::Portable);
        let dictionary = |name: &str| properties.dictionary_enabled(&ColumnPath::from(name));
        assert!(
            !dictionary("id") && dictionary("kind") && !dictionary("cell") && !dictionary("lat") && dictionary("name")
        );
        assert_eq!(properties.encoding(&ColumnPath::from("id")), None);
    }

    #[test]
    fn compact_encodings_follow_the_type() {
        let properties = properties(&sample(), &["cell".to_owned()], Encodings::Compact);
        let encoding = |name: &str| properties.encoding(&ColumnPath::from(name));
        assert_eq!(encoding("id"), Some(Encoding::DELTA_BINARY_PACKED));
        assert_eq!(encoding("cell"), Some(Encoding::BYTE_STREAM_SPLIT));
        assert_eq!(encoding("lat"), Some(Encoding::BYTE_STREAM_SPLIT));
        assert_eq!(encoding("kind"), None);
    }
}
