//! Copy-on-write: a file that holds rows of the batch among others is written again without them.
//!
//! Only the simple case is done here, and everything else is refused by name: no delete files in the table, the file
//! in the current partition spec, its columns exactly those of the current schema.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use futures::TryStreamExt;
use hexfloe_store::Store;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, ManifestEntry, TableMetadata};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter, ParquetRecordBatchStreamBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescriptor;

use crate::Error;
use crate::base::Base;
use crate::metrics::FileMetrics;
use crate::plan::{self, Filter};

/// Writes the rows of `entry`'s file that the filter does not match to `location`.
pub(crate) async fn without_matching_rows(
    base: &Base,
    entry: &ManifestEntry,
    spec_id: i32,
    filter: &Filter,
    store: &Store,
    location: String,
) -> Result<DataFile, Error> {
    let metadata = base.metadata();
    let old = entry.data_file();
    let refuse = |reason: String| Error::CannotRewrite { file: old.file_path().to_owned(), reason };
    if let Some(delete_file) = base.any_delete_file() {
        return Err(refuse(format!(
            "the table has delete files ({delete_file}), which would have to be applied first"
        )));
    }
    if spec_id != metadata.default_partition_spec_id() {
        return Err(refuse("it is in an older partition spec; compact the table first".to_owned()));
    }
    let schema =
        Arc::new(schema_to_arrow_schema(metadata.current_schema()).map_err(Error::iceberg("read the schema"))?);
    let failed = Error::parquet("rewrite", old.file_path());
    let options = ArrowReaderOptions::new().with_schema(Arc::clone(&schema));
    let plain = ParquetRecordBatchStreamBuilder::new(plan::open(store, old)).await.map_err(&failed)?;
    let expected = ArrowSchemaConverter::new().convert(&schema).map_err(&failed)?;
    if !same_columns(plain.parquet_schema(), &expected) {
        return Err(refuse("its columns are not those of the current schema; compact the table first".to_owned()));
    }
    let builder = ParquetRecordBatchStreamBuilder::new_with_options(plan::open(store, old), options).await;
    let mut batches = builder.map_err(&failed)?.build().map_err(&failed)?;
    let batch_column = metadata
        .current_schema()
        .as_struct()
        .fields()
        .iter()
        .position(|field| field.id == filter.field_id)
        .ok_or_else(|| refuse("the batch column is gone".to_owned()))?;

    let properties = WriterProperties::builder()
        .set_created_by(concat!("hexfloe version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(131_072))
        .build();
    let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options).map_err(&failed)?;
    let mut upload = store.create(&location).await?;
    let copied = async {
        let mut rows = 0_u64;
        while let Some(batch) = batches.try_next().await.map_err(&failed)? {
            let kept = keep_others(&batch, batch_column, &filter.value).map_err(|error| failed(error.into()))?;
            rows += kept.num_rows() as u64;
            writer.write(&kept).map_err(&failed)?;
            // What the writer has finished so far goes to the store at once.
            let finished = std::mem::take(writer.inner_mut());
            upload.write(finished.into()).await?;
        }
        let footer = writer.finish().map_err(&failed)?;
        upload.write(std::mem::take(writer.inner_mut()).into()).await?;
        Ok::<_, Error>((rows, footer))
    };
    let (rows, footer) = match copied.await {
        Ok(copied) => copied,
        Err(error) => {
            // What the store already holds of it is freed, if it can be.
            let _ = upload.abort().await;
            return Err(error);
        }
    };
    let size = upload.finish().await?;
    let metrics = FileMetrics::from_footer(&footer, metadata).map_err(Error::iceberg("read the new file's metrics"))?;
    describe(location, size, rows, metrics, metadata, old)
}

/// The rows where the filter is not true: those with another batch id, and those with none.
fn keep_others(batch: &RecordBatch, column: usize, value: &str) -> Result<RecordBatch, arrow::error::ArrowError> {
    let matches = plan::matches(batch.column(column), value)?;
    let keep = (0..matches.len()).map(|row| Some(matches.is_null(row) || !matches.value(row))).collect();
    arrow::compute::filter_record_batch(batch, &keep)
}

fn describe(
    location: String,
    size: u64,
    rows: u64,
    metrics: FileMetrics,
    metadata: &TableMetadata,
    old: &DataFile,
) -> Result<DataFile, Error> {
    DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(location)
        .file_format(DataFileFormat::Parquet)
        .partition(old.partition().clone())
        .partition_spec_id(metadata.default_partition_spec_id())
        .record_count(rows)
        .file_size_in_bytes(size)
        .column_sizes(metrics.column_sizes)
        .value_counts(metrics.value_counts)
        .null_value_counts(metrics.null_value_counts)
        .lower_bounds(metrics.lower_bounds)
        .upper_bounds(metrics.upper_bounds)
        .split_offsets(Some(metrics.split_offsets))
        .sort_order_id(0)
        .build()
        .map_err(|error| Error::Iceberg {
            action: "describe a rewritten file",
            source: Box::new(iceberg::Error::new(iceberg::ErrorKind::Unexpected, error.to_string())),
        })
}

/// Whether two schemas have the same leaves: path, field id and physical type, in order.
fn same_columns(one: &SchemaDescriptor, other: &SchemaDescriptor) -> bool {
    let leaves = |schema: &SchemaDescriptor| {
        schema
            .columns()
            .iter()
            .map(|column| {
                let info = column.self_type().get_basic_info();
                let id = info.has_id().then(|| info.id());
                (column.path().string(), id, column.physical_type())
            })
            .collect::<Vec<_>>()
    };
    leaves(one) == leaves(other)
}
