//! The table of a run, and the batches that are written to it: a few rows each, in real Parquet files.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use hexfloe_batch::{BATCH_ID_COLUMN, BatchId, Sha256Hex};
use hexfloe_catalog::{OpenCatalog, TableDefinition};
use hexfloe_commit::{BatchCommit, FileMetrics, Locations, OnChangedInput, Replaces, SharedEnvironment, WrittenFor};
use iceberg::TableIdent;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{DataFile, NestedField, PrimitiveType, Schema, TableMetadata, Type, UnboundPartitionSpec};
use iceberg::table::Table;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

/// Why something could not be done, for people.
pub(crate) type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// A row: the id of its batch, and a number.
pub(crate) type Row = (String, i64);

/// Rows to a data file of a batch.
const ROWS: i64 = 2;

/// The schema of the table.
pub(crate) fn definition(properties: HashMap<String, String>) -> Result<TableDefinition, Trouble> {
    let number = NestedField::required(1, "n", Type::Primitive(PrimitiveType::Long));
    let batch = NestedField::required(2, BATCH_ID_COLUMN, Type::Primitive(PrimitiveType::String));
    let schema = Schema::builder().with_fields([number.into(), batch.into()]).build()?;
    Ok(TableDefinition { schema, partition_spec: UnboundPartitionSpec::default(), properties })
}

/// The name of a batch.
pub(crate) fn batch_id(number: u64) -> Result<BatchId, Trouble> {
    Ok(BatchId::offsets("simulated", "0", number, number + 1)?)
}

/// How many data files a batch has.
fn file_count(number: u64) -> u64 {
    number % 3 + 1
}

fn numbers(batch: u64, file: u64) -> impl Iterator<Item = i64> {
    let first = (batch * 100 + file * 10).cast_signed();
    first..first + ROWS
}

/// Every row of a batch, in order.
pub(crate) fn rows(batch: u64) -> Result<Vec<Row>, Trouble> {
    let id = batch_id(batch)?.to_string();
    Ok((0..file_count(batch)).flat_map(|file| numbers(batch, file)).map(|number| (id.clone(), number)).collect())
}

/// Writes the data files of a batch, as an ingest does, and describes what is to be committed.
pub(crate) async fn write_batch(
    catalog: &OpenCatalog,
    environment: &SharedEnvironment,
    table: &Table,
    number: u64,
    branch: &str,
) -> Result<BatchCommit, Trouble> {
    let metadata = table.metadata();
    let batch_id = batch_id(number)?;
    let started_ms = environment.now_ms();
    let attempt = environment.uuid();
    let mut files = Vec::new();
    for file in 0..file_count(number) {
        let (bytes, footer) = encoded(metadata, number, file)?;
        let name = format!("{batch_id}-{attempt}-{file:05}.parquet");
        files.push(put(catalog, metadata, Locations::of(metadata).data_file(&name), bytes, &footer).await?);
    }
    Ok(BatchCommit {
        table: table.identifier().clone(),
        branch: branch.to_owned(),
        written_for: WrittenFor::of(metadata),
        source: "simulated".to_owned(),
        rows: files.iter().map(DataFile::record_count).sum(),
        rejected: 0,
        content_sha256: Sha256Hex::of(batch_id.as_str()),
        batch_id,
        derivation: None,
        records: BTreeMap::new(),
        replaces: Replaces::Batch,
        on_changed_input: OnChangedInput::Refuse,
        force: false,
        files,
        started_ms,
    })
}

/// Writes a data file with these rows.
pub(crate) async fn write_rows(
    catalog: &OpenCatalog,
    metadata: &TableMetadata,
    name: &str,
    rows: &[Row],
) -> Result<DataFile, Trouble> {
    let (bytes, footer) = encode(metadata, rows)?;
    put(catalog, metadata, Locations::of(metadata).data_file(name), bytes, &footer).await
}

/// Writes a data file, and describes it.
pub(crate) async fn put(
    catalog: &OpenCatalog,
    metadata: &TableMetadata,
    path: String,
    bytes: Bytes,
    footer: &ParquetMetaData,
) -> Result<DataFile, Trouble> {
    let mut upload = catalog.store().create(&path).await?;
    upload.write(bytes).await?;
    let size = upload.finish().await?;
    let metrics = FileMetrics::from_footer(footer, metadata)?;
    let mut described = metrics.describe();
    described
        .file_path(path)
        .partition_spec_id(metadata.default_partition_spec_id())
        .record_count(u64::try_from(footer.file_metadata().num_rows())?)
        .file_size_in_bytes(size);
    Ok(described.build()?)
}

/// A file, and its footer.
pub(crate) type Encoded = (Bytes, Arc<ParquetMetaData>);

/// A file of a batch: the same bytes every time, so that they are made once.
fn encoded(metadata: &TableMetadata, batch: u64, file: u64) -> Result<Encoded, Trouble> {
    static MADE: LazyLock<Mutex<BTreeMap<(u64, u64), Encoded>>> = LazyLock::new(Mutex::default);
    let made = MADE.lock().unwrap_or_else(PoisonError::into_inner).get(&(batch, file)).cloned();
    if let Some(made) = made {
        return Ok(made);
    }
    let id = batch_id(batch)?.to_string();
    let rows: Vec<Row> = numbers(batch, file).map(|number| (id.clone(), number)).collect();
    let made = encode(metadata, &rows)?;
    MADE.lock().unwrap_or_else(PoisonError::into_inner).insert((batch, file), made.clone());
    Ok(made)
}

fn encode(metadata: &TableMetadata, rows: &[Row]) -> Result<Encoded, Trouble> {
    let numbers: Int64Array = rows.iter().map(|row| Some(row.1)).collect();
    let batches: StringArray = rows.iter().map(|row| Some(row.0.as_str())).collect();
    let columns: Vec<Arc<dyn Array>> = vec![Arc::new(numbers), Arc::new(batches)];
    encode_columns(metadata, columns)
}

/// A Parquet file with the columns of a table, in their order.
pub(crate) fn encode_columns(metadata: &TableMetadata, columns: Vec<Arc<dyn Array>>) -> Result<Encoded, Trouble> {
    let schema = Arc::new(schema_to_arrow_schema(metadata.current_schema())?);
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options)?;
    writer.write(&batch)?;
    let footer = writer.finish()?;
    Ok((std::mem::take(writer.inner_mut()).into(), Arc::new(footer)))
}

/// The rows of a data file.
pub(crate) fn decode(bytes: Bytes) -> Result<Vec<Row>, Trouble> {
    let mut rows = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(bytes)?.build()? {
        let batch = batch?;
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"));
        let numbers = column("n")?.as_primitive::<Int64Type>();
        let batches = column(BATCH_ID_COLUMN)?.as_string::<i32>();
        rows.extend((0..batch.num_rows()).map(|row| (batches.value(row).to_owned(), numbers.value(row))));
    }
    Ok(rows)
}

/// The table's name.
pub(crate) fn ident() -> Result<TableIdent, Trouble> {
    Ok(TableIdent::from_strs(["simulated", "places"])?)
}

/// The position deletes of a file that holds such: the data files, and the rows of them that do not count.
pub(crate) fn decode_deletes(bytes: Bytes) -> Result<Vec<(String, i64)>, Trouble> {
    let mut deletes = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(bytes)?.build()? {
        let batch = batch?;
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"));
        let (paths, positions) = (column("file_path")?.as_string::<i32>(), column("pos")?.as_primitive::<Int64Type>());
        deletes.extend((0..batch.num_rows()).map(|row| (paths.value(row).to_owned(), positions.value(row))));
    }
    Ok(deletes)
}

/// How many batches there are.
pub(crate) const BATCHES: u64 = 12;
