//! Reading the rows of live data files as the table has them now: under its current schema, without deleted rows, and with
//! their positions in the file.
//!
//! The reader of the `iceberg` crate resolves columns by field id, adds columns the file lacks, applies name mappings and
//! promotes types. Two things it does silently would lose values in a rewrite: a column whose stored type it cannot promote
//! reads as null, and structs are cast by position. Files in which that could happen are found by [`refuse_unreadable`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema as ArrowSchema};
use futures::StreamExt;
use futures::stream::BoxStream;
use hexfloe_store::Store;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::scan::FileScanTask;
use iceberg::spec::{
    DataFile, DataFileFormat, MappedField, NameMapping, PartitionSpecRef, PrimitiveType, SchemaRef, Type,
};
use iceberg::table::Table;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::ParquetMetaData;

use crate::Error;
use crate::parquet_file::StoredParquet;

/// Rows read at once.
const BATCH_ROWS: usize = 8_192;

/// Rows of a file, and the position of the first of them.
pub(crate) struct Rows {
    pub(crate) first: u64,
    pub(crate) batch: RecordBatch,
}

/// How files of one table are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) table: &'a Table,
    pub(crate) store: &'a Store,
}

impl<'a> Reading<'a> {
    /// The footer of a data or delete file.
    pub(crate) async fn footer(self, file: &DataFile) -> Result<Arc<ParquetMetaData>, Error> {
        if file.file_format() != DataFileFormat::Parquet {
            return Err(refuse(file, "it is not a Parquet file"));
        }
        let failed = Error::parquet("read the footer of", file.file_path());
        self.parquet(file).get_metadata(None).await.map_err(failed)
    }

    pub(crate) fn parquet(self, file: &DataFile) -> StoredParquet {
        StoredParquet {
            store: self.store.clone(),
            location: file.file_path().to_owned(),
            size: file.file_size_in_bytes(),
        }
    }

    /// The rows of the columns `field_ids` of `schema`, in the order of the file; only those of the row groups that `wanted`
    /// names, or all.
    pub(crate) fn rows(
        self,
        file: &DataFile,
        spec: Option<&PartitionSpecRef>,
        schema: &SchemaRef,
        field_ids: &[i32],
        footer: &ParquetMetaData,
        wanted: Option<&[usize]>,
    ) -> Result<BoxStream<'a, Result<Rows, Error>>, Error> {
        let failed = Error::reading(file.file_path());
        let arrow_schema = Arc::new(schema_to_arrow_schema(schema).map_err(&failed)?);
        let plain = Arc::new(ArrowSchema::new(
            field_ids
                .iter()
                .filter_map(|id| arrow_schema.field_with_name(schema.name_by_field_id(*id)?).ok().cloned())
                .collect::<Vec<_>>(),
        ));
        // Partition values stand for columns that the file itself lacks, as long as the schema still has those columns.
        let spec = spec.filter(|spec| spec.fields().iter().all(|field| schema.field_by_id(field.source_id).is_some()));
        let ranges = match wanted {
            None => vec![(0, 0..0)],
            Some(wanted) => row_group_ranges(footer, wanted),
        };
        let name_mapping = self.name_mapping(file)?;
        let mut streams = Vec::new();
        for (first, bytes) in ranges {
            let mut task = FileScanTask::builder()
                .with_file_size_in_bytes(file.file_size_in_bytes())
                .with_start(bytes.start)
                .with_length(bytes.end - bytes.start)
                .with_data_file_path(file.file_path().to_owned())
                .with_data_file_format(file.file_format())
                .with_schema(schema.clone())
                .with_project_field_ids(field_ids.to_vec())
                .with_name_mapping(name_mapping.clone())
                .with_case_sensitive(true)
                .build();
            if let Some(spec) = spec {
                task.partition = Some(file.partition().clone());
                task.partition_spec = Some(spec.clone());
            }
            let reader = self.table.reader_builder().with_data_file_concurrency_limit(1).with_batch_size(BATCH_ROWS);
            let task = futures::stream::once(futures::future::ready(Ok(task))).boxed();
            let batches = reader.build().read(task).map_err(&failed)?.stream();
            let (plain, path) = (Arc::clone(&plain), file.file_path().to_owned());
            let mut next = first;
            streams.push(batches.map(move |batch| {
                let failed = Error::reading(&path);
                let batch = batch.map_err(&failed)?;
                let first = next;
                next += batch.num_rows() as u64;
                let batch = without_runs(&batch, &plain).map_err(|error| failed(error.into()))?;
                Ok(Rows { first, batch })
            }));
        }
        Ok(futures::stream::iter(streams).flatten().boxed())
    }

    /// How columns are found in files without field ids.
    fn name_mapping(self, file: &DataFile) -> Result<Option<Arc<NameMapping>>, Error> {
        let Some(json) = self.table.metadata().properties().get("schema.name-mapping.default") else { return Ok(None) };
        let mapping = serde_json::from_str(json);
        mapping
            .map(|mapping| Some(Arc::new(mapping)))
            .map_err(|error| refuse(file, &format!("the table's schema.name-mapping.default cannot be read ({error})")))
    }

    /// Refuses a file in which values of the current schema's columns, or of `only` some of them, cannot be read as they are,
    /// and one whose columns could be told by their places only.
    pub(crate) fn refuse_unreadable(
        self,
        file: &DataFile,
        footer: &ParquetMetaData,
        only: Option<&[i32]>,
    ) -> Result<(), Error> {
        let descriptor = footer.file_metadata().schema_descr();
        let stored = parquet::arrow::parquet_to_arrow_schema(descriptor, None);
        let stored = stored.map_err(Error::parquet("read the schema of", file.file_path()))?;
        let mapping = self.name_mapping(file)?;
        let has_ids = stored.fields().iter().next().is_none_or(|field| field_id(field).is_some());
        if !has_ids && mapping.is_none() {
            return Err(refuse(
                file,
                "its columns carry no field ids, and the table has no schema.name-mapping.default",
            ));
        }
        let id_of = |stored: &Field| match &mapping {
            Some(mapping) if !has_ids => {
                let named =
                    mapping.fields().iter().find(|field| field.names().iter().any(|name| name == stored.name()));
                named.and_then(MappedField::field_id)
            }
            _ => field_id(stored),
        };
        let int96 = |name: &str| {
            let mut leaves =
                descriptor.columns().iter().filter(|leaf| leaf.path().parts().first().is_some_and(|root| root == name));
            leaves.any(|leaf| leaf.physical_type() == parquet::basic::Type::INT96)
        };
        let current = schema_to_arrow_schema(self.table.metadata().current_schema());
        for field in current.map_err(Error::reading(file.file_path()))?.fields() {
            let id = field_id(field);
            if only.is_some_and(|only| !id.is_some_and(|id| only.contains(&id))) {
                continue;
            }
            let same = stored.fields().iter().find(|stored| id_of(stored) == id);
            if let Some(stored) = same
                && !has_ids
                && stored.data_type().is_nested()
            {
                let name = field.name();
                return Err(refuse(
                    file,
                    &format!("its column `{name}` is nested, and carries no field ids; compact the table first"),
                ));
            }
            if let Some(stored) = same
                && !reads_as(stored.data_type(), field.data_type())
                && !int96(stored.name())
            {
                let (from, to) = (brief(stored.data_type()), brief(field.data_type()));
                let name = field.name();
                let reason =
                    format!("its column `{name}` is stored as {from}, and is {to} now; compact the table first");
                return Err(refuse(file, &reason));
            }
        }
        Ok(())
    }
}

/// A type for people: what is nested is not spelled out.
fn brief(kind: &DataType) -> String {
    match kind {
        DataType::Struct(_) => "a struct of other fields".to_owned(),
        DataType::List(_) => "a list of other elements".to_owned(),
        DataType::Map(..) => "a map of other entries".to_owned(),
        plain => plain.to_string(),
    }
}

/// Whether a column of one type, as Parquet stores it, reads as one of the table's without a loss.
fn reads_as(stored: &DataType, table: &DataType) -> bool {
    let wider = matches!((stored, table), (DataType::Int32, DataType::Int64) | (DataType::Float32, DataType::Float64));
    wider || reads_as_nested(stored, table)
}

/// The same below the top level, where nothing is promoted.
fn reads_as_nested(stored: &DataType, table: &DataType) -> bool {
    // Structs whose fields are not quite the same are cast by name.
    let same_field = |one: &FieldRef, other: &FieldRef| {
        field_id(one) == field_id(other)
            && (one.name() == other.name() || one.is_nullable() == other.is_nullable())
            && reads_as_nested(one.data_type(), other.data_type())
    };
    match (stored, table) {
        (DataType::Struct(one), DataType::Struct(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_field(one, other))
        }
        (DataType::List(one), DataType::List(other)) | (DataType::Map(one, _), DataType::Map(other, _)) => {
            same_entry(one, other)
        }
        (DataType::Decimal128(from, scale), DataType::Decimal128(to, same)) => from <= to && scale == same,
        (DataType::Binary, DataType::LargeBinary) => true,
        (DataType::Timestamp(from, zone), DataType::Timestamp(to, other)) => {
            from == to && zone.is_some() == other.is_some()
        }
        (one, other) => one == other,
    }
}

/// The element of a list, or the entries of a map: their own name and id differ between writers.
fn same_entry(one: &FieldRef, other: &FieldRef) -> bool {
    reads_as_nested(one.data_type(), other.data_type())
}

fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(parquet::arrow::PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

fn refuse(file: &DataFile, reason: &str) -> Error {
    Error::CannotRewrite { file: file.file_path().to_owned(), reason: reason.to_owned() }
}

/// Values that partition metadata stands for come as runs.
fn without_runs(batch: &RecordBatch, plain: &Arc<ArrowSchema>) -> Result<RecordBatch, arrow::error::ArrowError> {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(plain.fields())
        .map(|(column, field)| match column.data_type() {
            DataType::RunEndEncoded(..) => arrow::compute::cast(column, field.data_type()),
            _ => Ok(column.clone()),
        })
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_match_field_names(false).with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(plain), columns, &options)
}

/// The position of the first row of each wanted row group, and the bytes by which a scan task picks it: its middle, counted as
/// the reader counts, from the compressed sizes.
fn row_group_ranges(footer: &ParquetMetaData, wanted: &[usize]) -> Vec<(u64, Range<u64>)> {
    let mut ranges = Vec::new();
    let (mut row, mut offset) = (0, 4);
    for (index, group) in footer.row_groups().iter().enumerate() {
        let size = group.compressed_size().unsigned_abs();
        let middle = offset + size / 2;
        if wanted.contains(&index) {
            ranges.push((row, middle..middle + 1));
        }
        row += group.num_rows().unsigned_abs();
        offset += size;
    }
    ranges
}

/// The ends of a row group's values of one column of the table, when its statistics tell them.
pub(crate) fn row_group_ends(
    footer: &ParquetMetaData,
    group: usize,
    field_id: i32,
    kind: &PrimitiveType,
) -> Option<(iceberg::spec::Datum, iceberg::spec::Datum)> {
    let descriptor = footer.file_metadata().schema_descr();
    let leaf = descriptor.columns().iter().position(|column| {
        let info = column.self_type().get_basic_info();
        info.has_id() && info.id() == field_id
    })?;
    crate::metrics::ends_of(footer.row_group(group).column(leaf).statistics()?, kind)
}

/// The types of a schema's primitive columns.
pub(crate) fn primitive_types(schema: &SchemaRef, field_ids: &[i32]) -> HashMap<i32, PrimitiveType> {
    let primitive = |id: &i32| match schema.field_by_id(*id)?.field_type.as_ref() {
        Type::Primitive(kind) => Some((*id, kind.clone())),
        _ => None,
    };
    field_ids.iter().filter_map(primitive).collect()
}
