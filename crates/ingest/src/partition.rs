//! Partitions: from the terms of a job to a partition spec, and from rows to partitions.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::row::{RowConverter, SortField};
use hexfloe_commit::names;
use iceberg::arrow::arrow_primitive_to_literal;
use iceberg::spec::{PartitionSpec, Schema, Struct, Transform, Type, UnboundPartitionSpec};
use iceberg::transform::{BoxedTransformFunction, create_transform_function};

use crate::Error;
use crate::encoding::value_bytes;

/// The names of the transforms a term may have.
const TRANSFORMS: [&str; 6] = ["year", "month", "day", "hour", "bucket", "truncate"];

/// The partition spec of a new table.
///
/// # Errors
///
/// [`Error::Job`] for a term that cannot be read, names no column, or does not fit its column's type.
pub(crate) fn spec_of_terms(terms: &[String], schema: &Schema) -> Result<UnboundPartitionSpec, Error> {
    let mut builder = UnboundPartitionSpec::builder();
    for term in terms {
        let refuse = |why: String| Error::Job(format!("table.partition: {term:?} {why}"));
        let (transform, column) = match term.trim().strip_suffix(')').and_then(|term| term.split_once('(')) {
            Some((transform, column)) => (transform.trim(), column.trim()),
            None => ("identity", term.trim()),
        };
        let parsed: Transform = transform.parse().map_err(|_| {
            let (name, _) = transform.split_once('[').unwrap_or((transform, ""));
            let likeness = |known: &str| strsim::jaro_winkler(name, known);
            let near = TRANSFORMS.iter().max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
            refuse(match near.filter(|near| likeness(near) > 0.7) {
                Some(near) => format!("is not a partition term; did you mean `{near}`?"),
                None => "is not a partition term; write `column`, `day(column)` or `bucket[16](column)`".to_owned(),
            })
        })?;
        if matches!(parsed, Transform::Bucket(0) | Transform::Truncate(0)) {
            return Err(refuse("needs a number above 0".to_owned()));
        }
        let field = schema
            .field_by_name(column)
            .ok_or_else(|| refuse(format!("names the column `{column}`, which the table does not have")))?;
        if parsed.result_type(&field.field_type).is_err() || matches!(parsed, Transform::Void | Transform::Unknown) {
            return Err(refuse(format!("does not fit the type {} of the column", field.field_type)));
        }
        let name = match parsed {
            Transform::Identity => column.to_owned(),
            Transform::Year => format!("{column}_year"),
            Transform::Month => format!("{column}_month"),
            Transform::Day => format!("{column}_day"),
            Transform::Hour => format!("{column}_hour"),
            Transform::Bucket(_) => format!("{column}_bucket"),
            _ => format!("{column}_trunc"),
        };
        builder = builder
            .add_partition_field(field.id, names::partition_field(&name), parsed)
            .map_err(|error| refuse(format!("cannot be added: {error}")))?;
    }
    Ok(builder.build())
}

/// Rows of one partition, in input order.
#[derive(Debug)]
pub(crate) struct Routed {
    /// Equal for equal partitions, and nothing more.
    pub(crate) key: Box<[u8]>,
    /// The partition's values, in the order of the spec.
    pub(crate) values: Struct,
    pub(crate) rows: RecordBatch,
    /// About the memory that `rows` keeps alive.
    pub(crate) bytes: usize,
    /// The bytes of its values.
    pub(crate) value_bytes: usize,
}

/// Splits batches by partition.
pub(crate) struct Partitioner {
    fields: Vec<PartitionColumn>,
    converter: Option<RowConverter>,
}

struct PartitionColumn {
    source: usize,
    transform: BoxedTransformFunction,
    result: Type,
}

impl std::fmt::Debug for Partitioner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partitioner").field("fields", &self.fields.len()).finish_non_exhaustive()
    }
}

impl Partitioner {
    /// For batches of `columns`, which are those of the table's `schema` in the same order.
    pub(crate) fn new(spec: &PartitionSpec, schema: &Schema, columns: &SchemaRef) -> Result<Self, Error> {
        let failed = Error::iceberg("read the table's partition spec");
        let mut fields = Vec::new();
        let mut arrow_types = Vec::new();
        for field in spec.fields() {
            let refuse = |why: &str| {
                failed(iceberg::Error::new(
                    iceberg::ErrorKind::FeatureUnsupported,
                    format!("partition field {}: {why}", field.name),
                ))
            };
            let source = schema.field_by_id(field.source_id).ok_or_else(|| refuse("its column is gone"))?;
            let index = columns
                .index_of(&source.name)
                .map_err(|_| refuse("columns within structs cannot be partitioned by yet"))?;
            let result = field.transform.result_type(&source.field_type).map_err(&failed)?;
            arrow_types.push(SortField::new(iceberg::arrow::type_to_arrow_type(&result).map_err(&failed)?));
            let transform = create_transform_function(&field.transform).map_err(&failed)?;
            fields.push(PartitionColumn { source: index, transform, result });
        }
        let converter = match fields.is_empty() {
            true => None,
            false => Some(RowConverter::new(arrow_types).map_err(Error::arrow("compare partition values"))?),
        };
        Ok(Self { fields, converter })
    }

    /// The rows of a batch by partition: each partition's rows in input order, partitions by their first row.
    pub(crate) fn split(&self, batch: RecordBatch) -> Result<Vec<Routed>, Error> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let bytes_per_row = batch.get_array_memory_size().div_ceil(batch.num_rows());
        let Some(converter) = &self.converter else {
            let bytes = bytes_per_row * batch.num_rows();
            let value_bytes = value_bytes(&batch);
            return Ok(vec![Routed { key: Box::default(), values: Struct::empty(), rows: batch, bytes, value_bytes }]);
        };
        let columns = self.fields.iter().map(|field| field.transform(&batch)).collect::<Result<Vec<_>, _>>()?;
        let failed = Error::arrow("split a batch by partition");
        let runs = arrow::compute::partition(&columns).map_err(&failed)?.ranges();
        let starts: UInt32Array = runs.iter().filter_map(|run| u32::try_from(run.start).ok()).collect();
        let firsts = columns
            .iter()
            .map(|column| arrow::compute::take(column, &starts, None))
            .collect::<Result<Vec<ArrayRef>, _>>()
            .map_err(&failed)?;
        let keys = converter.convert_columns(&firsts).map_err(&failed)?;
        let literals = self
            .fields
            .iter()
            .zip(&firsts)
            .map(|(field, first)| arrow_primitive_to_literal(first, &field.result))
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::iceberg("read a partition value"))?;
        let values = |run: usize| Struct::from_iter(literals.iter().map(|column| column[run].clone()));

        let mut order: Vec<Gather> = Vec::new();
        let mut places: std::collections::HashMap<Box<[u8]>, usize> = std::collections::HashMap::new();
        for (index, run) in runs.into_iter().enumerate() {
            let key: Box<[u8]> = keys.row(index).as_ref().into();
            let place = *places.entry(key.clone()).or_insert_with(|| {
                order.push(Gather { key, values: values(index), runs: Vec::new() });
                order.len() - 1
            });
            order[place].runs.push(run);
        }
        order.into_iter().map(|gather| gather.rows(&batch, bytes_per_row).map_err(&failed)).collect()
    }
}

impl PartitionColumn {
    fn transform(&self, batch: &RecordBatch) -> Result<ArrayRef, Error> {
        let column = batch.column(self.source);
        let plain = match column.data_type() {
            DataType::Utf8View => Some(DataType::Utf8),
            DataType::BinaryView | DataType::Binary => Some(DataType::LargeBinary),
            _ => None,
        };
        let column = match plain {
            Some(plain) => arrow::compute::cast(column, &plain).map_err(Error::arrow("read a partition column"))?,
            None => Arc::clone(column),
        };
        self.transform.transform(column).map_err(Error::iceberg("compute a partition value"))
    }
}

/// The runs of one partition within a batch.
struct Gather {
    key: Box<[u8]>,
    values: Struct,
    runs: Vec<Range<usize>>,
}

impl Gather {
    /// One long run is a slice. Anything else is copied out, so that a few rows of a rare partition, which wait long for
    /// their row group, do not keep whole batches in memory.
    fn rows(self, batch: &RecordBatch, bytes_per_row: usize) -> Result<Routed, arrow::error::ArrowError> {
        if let [run] = self.runs.as_slice()
            && run.len() * 2 >= batch.num_rows()
        {
            let rows = batch.slice(run.start, run.len());
            let (bytes, value_bytes) = (bytes_per_row * run.len(), value_bytes(&rows));
            return Ok(Routed { key: self.key, values: self.values, rows, bytes, value_bytes });
        }
        let indices: UInt32Array = self.runs.into_iter().flatten().filter_map(|row| u32::try_from(row).ok()).collect();
        let rows = arrow::compute::take_record_batch(batch, &indices)?;
        let columns = rows.columns().iter().map(compact).collect();
        let rows = RecordBatch::try_new(rows.schema(), columns)?;
        let (bytes, value_bytes) = (rows.get_array_memory_size(), value_bytes(&rows));
        Ok(Routed { key: self.key, values: self.values, rows, bytes, value_bytes })
    }
}

/// Views copied off the buffers they were taken from. The batch column has one small buffer, which is kept.
fn compact(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => {
            let views = column.as_string_view();
            let held: usize = views.data_buffers().iter().map(arrow::buffer::Buffer::len).sum();
            if held > 64 { Arc::new(views.gc()) } else { Arc::clone(column) }
        }
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use rstest::rstest;

    use super::*;

    /// `id`, `zone` and a name of 100 characters.
    fn batch(zones: &[i64]) -> RecordBatch {
        let ids: ArrayRef = Arc::new((0..).take(zones.len()).collect::<Int64Array>());
        let names: ArrayRef =
            Arc::new(zones.iter().map(|zone| Some(format!("{zone:0100}"))).collect::<StringViewArray>());
        let zones: ArrayRef = Arc::new(Int64Array::from(zones.to_vec()));
        RecordBatch::try_from_iter([("id", ids), ("zone", zones), ("name", names)]).unwrap()
    }

    fn by_zone(batch: &RecordBatch) -> Partitioner {
        let schema = iceberg::arrow::arrow_schema_to_schema_auto_assign_ids(&batch.schema()).unwrap();
        let spec = spec_of_terms(&["zone".to_owned()], &schema).unwrap();
        let spec = spec.bind(schema.clone()).unwrap();
        Partitioner::new(&spec, &schema, &batch.schema()).unwrap()
    }

    #[rstest]
    #[case::one_rare_row(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0])]
    #[case::alternating(&[0, 1, 0, 1, 0, 1, 0, 1])]
    #[case::two_runs(&[0, 0, 0, 0, 0, 0, 0, 1, 1])]
    fn what_waits_for_its_row_group_keeps_little_more_in_memory_than_itself(#[case] zones: &[i64]) {
        let zones: Vec<i64> = zones.iter().flat_map(|zone| std::iter::repeat_n(*zone, 100)).collect();
        let batch = batch(&zones);
        let whole = batch.get_array_memory_size();
        let routed = by_zone(&batch).split(batch.clone()).unwrap();
        assert_eq!(routed.iter().map(|routed| routed.rows.num_rows()).sum::<usize>(), zones.len());
        for routed in &routed {
            let share = whole * routed.rows.num_rows() / zones.len();
            let kept = routed.rows.get_array_memory_size();
            assert!(kept <= 2 * share + 4_096, "{kept} bytes kept for {share}");
            assert!(routed.bytes <= 2 * share + 4_096 && 2 * routed.bytes >= share, "{} of {share}", routed.bytes);
        }
    }

    #[test]
    fn rows_keep_their_order_and_partitions_come_by_their_first_row() {
        let zones = [5, 5, 3, 5, 3, 9, 5];
        let batch = batch(&zones);
        let routed = by_zone(&batch).split(batch).unwrap();
        let ids = |routed: &Routed| {
            let ids = routed.rows.column(0).as_primitive::<arrow::datatypes::Int64Type>();
            ids.values().to_vec()
        };
        assert_eq!(routed.iter().map(ids).collect::<Vec<_>>(), [vec![0, 1, 3, 6], vec![2, 4], vec![5]]);
        let keys: std::collections::HashSet<_> = routed.iter().map(|routed| &routed.key).collect();
        assert_eq!(keys.len(), 3);
    }

    #[rstest]
    #[case("dya(ts)", "is not a partition term")]
    #[case("days(ts)", "did you mean `day`?")]
    #[case("buckets[16](name)", "did you mean `bucket`?")]
    #[case("h3(zone)", "write `column`, `day(column)`")]
    #[case("day(name)", "does not fit the type string")]
    #[case("nothing", "names the column `nothing`")]
    #[case("void(zone)", "does not fit")]
    #[case("bucket[0](zone)", "above 0")]
    #[case("truncate[0](zone)", "above 0")]
    fn a_term_that_cannot_be_is_refused_by_its_words(#[case] term: &str, #[case] message: &str) {
        let schema = iceberg::arrow::arrow_schema_to_schema_auto_assign_ids(&batch(&[1]).schema()).unwrap();
        let error = spec_of_terms(&[term.to_owned()], &schema).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains(term), "{error}");
    }
}
