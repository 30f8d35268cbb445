//! Which Parquet encoding each column gets, decided once from its type and the first rows, never from timing.
//!
//! Trying a dictionary on values that hardly repeat costs a third of the encoding time and leaves a dead dictionary page in
//! the file, so it is used where a sample says that it pays. The rest is plain, or with `encodings = "compact"` delta for
//! integers and times and byte-stream-split for cells, which halves such columns. Floating point is split where the sample gets
//! smaller by it: coordinates do, while numbers of few decimals repeat enough for the codec to find them whole, and are twice as large
//! split. Codec, sizes of pages and dictionaries, and Bloom filters are those that the table's properties ask for.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Int64Type, Schema};
use hexfloe_commit::ParquetSettings;
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::schema::types::ColumnPath;

use crate::job::Encodings;

/// Rows of the first batch that are looked at.
const SAMPLE: usize = 8_192;

/// The properties of every data file of a job.
///
/// `cells` are the columns with cell numbers: high in entropy, but alike byte by byte.
pub(crate) fn properties(
    sample: &RecordBatch,
    cells: &[String],
    encodings: Encodings,
    settings: &ParquetSettings,
) -> WriterPropertiesPtr {
    let mut builder = settings.writer_properties().set_dictionary_enabled(true);
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
                DataType::Float32 | DataType::Float64 if is_smaller_split(field, column, settings) => {
                    Some(Encoding::BYTE_STREAM_SPLIT)
                }
                _ => None,
            };
            if let Some(encoding) = encoding {
                builder = builder.set_column_encoding(path, encoding);
            }
        }
    }
    Arc::new(builder.build())
}

/// Whether the first rows of a column are fewer bytes byte-stream-split than plain, both compressed as the table has it.
fn is_smaller_split(field: &FieldRef, column: &ArrayRef, settings: &ParquetSettings) -> bool {
    let sample = column.slice(0, column.len().min(SAMPLE));
    let size = |encoding| -> Option<usize> {
        let path = ColumnPath::from(field.name().as_str());
        let properties = settings.writer_properties().set_dictionary_enabled(false).set_column_encoding(path, encoding);
        let schema = Arc::new(Schema::new(vec![Arc::clone(field)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&sample)]).ok()?;
        let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties.build())).ok()?;
        writer.write(&batch).ok()?;
        writer.flush().ok()?;
        Some(writer.bytes_written())
    };
    // What cannot be written now will be told of when the rows are.
    size(Encoding::BYTE_STREAM_SPLIT).zip(size(Encoding::PLAIN)).is_some_and(|(split, plain)| split < plain)
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

/// The bytes of a batch's values before they are encoded: what the size of a row group is told by. It depends on the values
/// alone, not on the buffers that hold them.
pub(crate) fn value_bytes(batch: &RecordBatch) -> usize {
    let of_views = |views: &[u128]| views.iter().map(|view| (view & u128::from(u32::MAX)) as usize + 4).sum();
    let of_column = |column: &ArrayRef| -> usize {
        match column.data_type() {
            DataType::Utf8View => of_views(column.as_string_view().views()),
            DataType::BinaryView => of_views(column.as_binary_view().views()),
            // What cannot be told counts for a value of eight bytes.
            _ => column.to_data().get_slice_memory_size().unwrap_or(8 * column.len()),
        }
    };
    batch.columns().iter().map(of_column).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::{Float64Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    fn settings() -> ParquetSettings {
        ParquetSettings::of(&HashMap::new()).unwrap()
    }

    fn sample() -> RecordBatch {
        let rows = 1_000_i64;
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new((0..rows).collect::<Int64Array>())),
            ("kind", Arc::new((0..rows).map(|row| row % 4).collect::<Int64Array>())),
            ("cell", Arc::new((0..rows).map(|row| row * 7_919).collect::<Int64Array>())),
            ("lat", Arc::new((0..1_000_u32).map(|row| f64::from(row) / 7.0).collect::<Float64Array>())),
            // Multiples of a hundredth: whole, they are more alike than their bytes are.
            (
                "price",
                Arc::new((0..1_000_u32).map(|row| f64::from(row * 7_919 % 1_009) / 100.0).collect::<Float64Array>()),
            ),
            ("name", Arc::new((0..rows).map(|row| Some(row.to_string())).collect::<StringArray>())),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn dictionaries_are_for_values_that_repeat() {
        let properties = properties(&sample(), &["cell".to_owned()], Encodings::Portable, &settings());
        let dictionary = |name: &str| properties.dictionary_enabled(&ColumnPath::from(name));
        assert!(
            !dictionary("id") && dictionary("kind") && !dictionary("cell") && !dictionary("lat") && dictionary("name")
        );
        assert_eq!(properties.encoding(&ColumnPath::from("id")), None);
    }

    #[test]
    fn compact_encodings_follow_the_type() {
        let properties = properties(&sample(), &["cell".to_owned()], Encodings::Compact, &settings());
        let encoding = |name: &str| properties.encoding(&ColumnPath::from(name));
        assert_eq!(encoding("id"), Some(Encoding::DELTA_BINARY_PACKED));
        assert_eq!(encoding("cell"), Some(Encoding::BYTE_STREAM_SPLIT));
        assert_eq!(encoding("lat"), Some(Encoding::BYTE_STREAM_SPLIT));
        assert_eq!(encoding("kind"), None);
        assert_eq!(encoding("price"), None);
    }

    #[test]
    fn the_bytes_of_values_are_the_same_however_they_are_held() {
        let long = "a name that is longer than a view";
        let of = |names: ArrayRef| value_bytes(&RecordBatch::try_from_iter([("name", names)]).unwrap());
        let views: ArrayRef = Arc::new(StringViewArray::from(vec![long, "b", long]));
        let one: ArrayRef = Arc::new(StringViewArray::from(vec![long]));
        assert_eq!(of(views.slice(2, 1)), of(one));
        let strings: ArrayRef = Arc::new(StringArray::from(vec![long, "b", long]));
        assert_eq!(of(views), of(strings));
        assert_eq!(value_bytes(&sample().slice(0, 10).project(&[0, 3]).unwrap()), 160);
    }
}
