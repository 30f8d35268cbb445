//! Rows in Parquet files, written and read by field id as any engine does, and their partitions.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema};
use bytes::Bytes;
use hexfloe_commit::FileMetrics;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, PartitionSpec, Struct, TableMetadata,
};
use iceberg::transform::create_transform_function;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;

use super::steps::Bounds;

/// Field ids that every schema has; any other field is the column that comes and goes.
const NUMBER: i32 = 1;
const CATEGORY: i32 = 2;
pub(crate) const BATCH: i32 = 3;

/// Field ids of position delete files.
const DELETED_FILE: i32 = 2_147_483_546;
const DELETED_ROW: i32 = 2_147_483_545;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) number: i64,
    pub(crate) category: Option<char>,
    pub(crate) batch: Option<String>,
    /// The column that comes and goes: its field id, and a value.
    pub(crate) note: Option<(i32, String)>,
}

impl Row {
    /// The row as a schema with these fields shows it.
    pub(crate) fn seen_with(&self, fields: &[i32]) -> Self {
        let note = self.note.clone().filter(|(field, _)| fields.contains(field));
        Self { note, ..self.clone() }
    }
}

/// The field ids of the current schema.
pub(crate) fn fields(metadata: &TableMetadata) -> Vec<i32> {
    metadata.current_schema().as_struct().fields().iter().map(|field| field.id).collect()
}

/// The field that comes and goes, if it is there now.
pub(crate) fn note_field(metadata: &TableMetadata) -> Option<i32> {
    fields(metadata).into_iter().find(|field| *field > BATCH)
}

fn field_ids(schema: &ArrowSchema) -> Vec<i32> {
    schema.fields().iter().map(|field| field.metadata()["PARQUET:field_id"].parse().unwrap()).collect()
}

/// The rows of a record batch whose columns carry their field ids.
pub(crate) fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let ids = field_ids(&batch.schema());
    let column = |id: i32| batch.column(ids.iter().position(|other| *other == id).unwrap());
    let text = |array: &ArrayRef, row: usize| {
        let array = array.as_string::<i32>();
        array.is_valid(row).then(|| array.value(row).to_owned())
    };
    let note = ids.iter().find(|id| **id > BATCH);
    (0..batch.num_rows())
        .map(|row| Row {
            number: column(NUMBER).as_primitive::<Int64Type>().value(row),
            category: text(column(CATEGORY), row).and_then(|text| text.chars().next()),
            batch: text(column(BATCH), row),
            note: note.and_then(|id| Some((*id, text(column(*id), row)?))),
        })
        .collect()
}

/// The rows of a file.
pub(crate) fn decode(bytes: Bytes) -> Vec<Row> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap();
    reader.flat_map(|batch| rows_of(&batch.unwrap())).collect()
}

/// A file with the columns of the current schema, and what a manifest says about it.
pub(crate) fn encode(
    metadata: &TableMetadata,
    path: String,
    partition: Struct,
    rows: &[Row],
    bounds: Bounds,
) -> (Bytes, DataFile) {
    let schema = Arc::new(schema_to_arrow_schema(metadata.current_schema()).unwrap());
    let columns = field_ids(&schema).into_iter().map(|id| -> ArrayRef {
        match id {
            NUMBER => Arc::new(rows.iter().map(|row| Some(row.number)).collect::<Int64Array>()),
            CATEGORY => Arc::new(rows.iter().map(|row| row.category.map(String::from)).collect::<StringArray>()),
            BATCH => Arc::new(rows.iter().map(|row| row.batch.as_deref()).collect::<StringArray>()),
            _ => Arc::new(
                rows.iter()
                    .map(|row| Some(row.note.as_ref().filter(|(field, _)| *field == id)?.1.as_str()))
                    .collect::<StringArray>(),
            ),
        }
    });
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap();
    let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options).unwrap();
    writer.write(&batch).unwrap();
    let footer = writer.finish().unwrap();
    let bytes = Bytes::from(std::mem::take(writer.inner_mut()));
    let mut metrics = FileMetrics::from_footer(&footer, metadata).unwrap();
    bound(&mut metrics, bounds);
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(path)
        .file_format(DataFileFormat::Parquet)
        .partition_spec_id(metadata.default_partition_spec_id())
        .partition(partition)
        .record_count(rows.len() as u64)
        .file_size_in_bytes(bytes.len() as u64)
        .column_sizes(metrics.column_sizes)
        .value_counts(metrics.value_counts)
        .null_value_counts(metrics.null_value_counts)
        .lower_bounds(metrics.lower_bounds)
        .upper_bounds(metrics.upper_bounds)
        .split_offsets(Some(metrics.split_offsets))
        .sort_order_id(0)
        .build()
        .unwrap();
    (bytes, file)
}

/// Weakens what is said about the batch column.
fn bound(metrics: &mut FileMetrics, bounds: Bounds) {
    let text = |datum: &Datum| match datum.literal() {
        iceberg::spec::PrimitiveLiteral::String(text) => text.clone(),
        other => unreachable!("{other:?}"),
    };
    match bounds {
        Bounds::Full => {}
        Bounds::Cut => {
            if let Some(lower) = metrics.lower_bounds.get_mut(&BATCH) {
                *lower = Datum::string(&text(lower)[..16]);
            }
            if let Some(upper) = metrics.upper_bounds.get_mut(&BATCH) {
                let mut cut = text(upper)[..16].to_owned();
                let last = cut.pop().unwrap();
                cut.push(char::from(u8::try_from(last).unwrap() + 1));
                *upper = Datum::string(cut);
            }
        }
        Bounds::Counts | Bounds::Absent => {
            metrics.lower_bounds.remove(&BATCH);
            metrics.upper_bounds.remove(&BATCH);
            if matches!(bounds, Bounds::Absent) {
                metrics.value_counts.remove(&BATCH);
                metrics.null_value_counts.remove(&BATCH);
            }
        }
    }
}

/// The partition of a row.
pub(crate) fn partition_of(spec: &PartitionSpec, row: &Row) -> Struct {
    Struct::from_iter(spec.fields().iter().map(|field| {
        let value = match field.source_id {
            NUMBER => Some(Datum::long(row.number)),
            CATEGORY => row.category.map(Datum::string),
            BATCH => row.batch.as_ref().map(Datum::string),
            other => unreachable!("nothing is partitioned by field {other}"),
        };
        let transform = create_transform_function(&field.transform).unwrap();
        value.and_then(|value| transform.transform_literal(&value).unwrap()).map(Literal::from)
    }))
}

/// Rows by partition, in an order of their own.
pub(crate) fn split(spec: &PartitionSpec, rows: Vec<Row>) -> Vec<(Struct, Vec<Row>)> {
    let mut parts: BTreeMap<String, (Struct, Vec<Row>)> = BTreeMap::new();
    for row in rows {
        let partition = partition_of(spec, &row);
        let part = parts.entry(format!("{partition:?}")).or_insert_with(|| (partition, Vec::new()));
        part.1.push(row);
    }
    parts.into_values().collect()
}

/// A position: a data file and the number of a row in it.
pub(crate) type Position = (String, u64);

/// The positions in a position delete file.
pub(crate) fn decode_positions(bytes: Bytes) -> Vec<Position> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap();
    let positions = reader.flat_map(|batch| {
        let batch = batch.unwrap();
        let ids = field_ids(&batch.schema());
        let column = |id: i32| batch.column(ids.iter().position(|other| *other == id).unwrap()).clone();
        let (paths, rows) = (column(DELETED_FILE), column(DELETED_ROW));
        let (paths, rows) = (paths.as_string::<i32>(), rows.as_primitive::<Int64Type>());
        let position = |row| (paths.value(row).to_owned(), u64::try_from(rows.value(row)).unwrap());
        (0..batch.num_rows()).map(position).collect::<Vec<_>>()
    });
    positions.collect()
}

/// A position delete file for files of this partition, and what a manifest says about it.
pub(crate) fn encode_positions(path: String, of: &DataFile, spec_id: i32, positions: &[Position]) -> (Bytes, DataFile) {
    let field = |name: &str, kind: DataType, id: i32| {
        Field::new(name, kind, false).with_metadata([("PARQUET:field_id".to_owned(), id.to_string())].into())
    };
    let schema = Arc::new(ArrowSchema::new(vec![
        field("file_path", DataType::Utf8, DELETED_FILE),
        field("pos", DataType::Int64, DELETED_ROW),
    ]));
    let paths: StringArray = positions.iter().map(|(path, _)| Some(path)).collect();
    let rows: Int64Array = positions.iter().map(|(_, row)| i64::try_from(*row).ok()).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(paths), Arc::new(rows)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = Bytes::from(writer.into_inner().unwrap());
    let file = DataFileBuilder::default()
        .content(DataContentType::PositionDeletes)
        .file_path(path)
        .file_format(DataFileFormat::Parquet)
        .partition_spec_id(spec_id)
        .partition(of.partition().clone())
        .record_count(positions.len() as u64)
        .file_size_in_bytes(bytes.len() as u64)
        .build()
        .unwrap();
    (bytes, file)
}

/// What a manifest says about a file is true of its rows.
pub(crate) fn assert_truly_described(file: &DataFile, spec: &PartitionSpec, rows: &[Row]) {
    let path = file.file_path();
    assert_eq!(file.record_count(), rows.len() as u64, "{path}");
    let nulls = rows.iter().filter(|row| row.batch.is_none()).count() as u64;
    assert!(file.null_value_counts().get(&BATCH).is_none_or(|known| *known == nulls), "{path}: {nulls} nulls");
    for row in rows {
        assert_eq!(file.partition(), &partition_of(spec, row), "{path} holds {row:?}");
        let values = [
            (NUMBER, Some(Datum::long(row.number))),
            (CATEGORY, row.category.map(Datum::string)),
            (BATCH, row.batch.as_ref().map(Datum::string)),
        ];
        for (field, value) in values {
            let Some(value) = value else { continue };
            assert!(file.lower_bounds().get(&field).is_none_or(|lower| *lower <= value), "{path} holds {row:?}");
            assert!(file.upper_bounds().get(&field).is_none_or(|upper| *upper >= value), "{path} holds {row:?}");
        }
    }
}
