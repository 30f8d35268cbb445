//! What becomes of a file that holds rows to replace among others.
//!
//! Copy-on-write: it is written again without them and without the rows that delete files hide, in its order, under the
//! table's *current* schema and the partition spec it *had*. Merge-on-read (`write.delete.mode = merge-on-read`): it stays, and
//! a position delete file hides the rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use futures::TryStreamExt;
use hexfloe_store::Store;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::metadata_columns::{
    RESERVED_COL_NAME_DELETE_FILE_PATH, RESERVED_COL_NAME_DELETE_FILE_POS, RESERVED_FIELD_ID_DELETE_FILE_PATH,
    RESERVED_FIELD_ID_DELETE_FILE_POS,
};
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, FormatVersion, ManifestEntry, TableMetadata,
};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::file::metadata::{KeyValue, ParquetMetaData};

use crate::Error;
use crate::base::Base;
use crate::metrics::FileMetrics;
use crate::parquet_settings::ParquetSettings;
use crate::plan::Plan;
use crate::reading::Reading;

/// Whether the table wants rows of a file hidden rather than the file written again.
pub(crate) fn is_merge_on_read(metadata: &TableMetadata) -> bool {
    let mode = metadata.properties().get("write.delete.mode");
    mode.is_some_and(|mode| mode.trim().eq_ignore_ascii_case("merge-on-read"))
}

/// Refuses what cannot be done to part of a file of this table, before anything is written.
pub(crate) fn refuse_part(metadata: &TableMetadata, file: &DataFile) -> Result<(), Error> {
    if metadata.format_version() == FormatVersion::V2 {
        return Ok(());
    }
    let reason = format!(
        "the table has format version {}, where its other rows would have to keep their row ids; compact the table so that \
         batches have files of their own",
        metadata.format_version() as u8
    );
    Err(Error::CannotRewrite { file: file.file_path().to_owned(), reason })
}

/// Writes the rows of `entry`'s file that are left, without those at the positions `replaced`, to `location`.
pub(crate) async fn without(
    base: &Base,
    plan: &Plan,
    entry: &ManifestEntry,
    spec_id: i32,
    replaced: &[u64],
    store: &Store,
    location: String,
) -> Result<DataFile, Error> {
    let metadata = base.metadata();
    let old = entry.data_file();
    refuse_part(metadata, old)?;
    let reading = Reading { table: &base.table, store };
    let spec = metadata.partition_spec_by_id(spec_id);
    let footer = reading.footer(old).await?;
    reading.refuse_unreadable(old, &footer, None)?;
    let hidden = plan.deletes.hidden(reading, entry, spec_id).await?;
    let hidden = hidden.rows(reading, old, spec, &footer).await?;

    let schema = metadata.current_schema();
    let ids: Vec<i32> = schema.as_struct().fields().iter().map(|field| field.id).collect();
    let mut batches = reading.rows(old, spec, schema, &ids, &footer, None)?;
    let arrow_schema = Arc::new(schema_to_arrow_schema(schema).map_err(Error::iceberg("read the schema"))?);
    let mut file = NewFile::begin(metadata, arrow_schema, store, location).await?;
    let copied = async {
        while let Some(rows) = batches.try_next().await? {
            let keep: BooleanArray = (rows.first..)
                .take(rows.batch.num_rows())
                .map(|position| Some(replaced.binary_search(&position).is_err() && !hidden.contains(position)))
                .collect();
            let kept = arrow::compute::filter_record_batch(&rows.batch, &keep);
            file.write(&kept.map_err(|error| Error::parquet("rewrite", old.file_path())(error.into()))?).await?;
        }
        // Coordinate reference systems and the like, which no column says.
        for pair in footer.file_metadata().key_value_metadata().into_iter().flatten() {
            if pair.key == "geo" {
                file.writer.append_key_value_metadata(KeyValue::new(pair.key.clone(), pair.value.clone()));
            }
        }
        Ok(())
    };
    let written = file_or_abort(copied.await, file).await?;
    let metrics =
        FileMetrics::from_footer(&written.footer, metadata).map_err(Error::iceberg("read the new file's metrics"))?;
    // A column without NaNs has none in part of its rows either.
    let nans = old.nan_value_counts().iter().filter(|(id, nans)| **nans == 0 && schema.field_by_id(**id).is_some());
    let nans = nans.map(|(id, _)| (*id, 0)).collect::<HashMap<_, _>>();
    described(metrics.describe().nan_value_counts(nans), written, old, spec_id)
}

/// Writes a delete file that hides the rows at the positions `replaced` of `old` to `location`.
pub(crate) async fn position_deletes(
    base: &Base,
    old: &DataFile,
    spec_id: i32,
    replaced: &[u64],
    store: &Store,
    location: String,
) -> Result<DataFile, Error> {
    let metadata = base.metadata();
    refuse_part(metadata, old)?;
    let field = |name: &str, kind, id: i32| {
        let id = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]);
        Field::new(name, kind, false).with_metadata(id)
    };
    let schema = Arc::new(ArrowSchema::new(vec![
        field(RESERVED_COL_NAME_DELETE_FILE_PATH, DataType::Utf8, RESERVED_FIELD_ID_DELETE_FILE_PATH),
        field(RESERVED_COL_NAME_DELETE_FILE_POS, DataType::Int64, RESERVED_FIELD_ID_DELETE_FILE_POS),
    ]));
    let mut file = NewFile::begin(metadata, Arc::clone(&schema), store, location).await?;
    let written = async {
        for positions in replaced.chunks(65_536) {
            let paths = StringArray::from_iter_values(positions.iter().map(|_| old.file_path()));
            let positions: Int64Array = positions.iter().map(|position| Some(position.cast_signed())).collect();
            let columns: Vec<ArrayRef> = vec![Arc::new(paths), Arc::new(positions)];
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
            file.write(&batch.map_err(|error| Error::parquet("delete from", old.file_path())(error.into()))?).await?;
        }
        Ok(())
    };
    let written = file_or_abort(written.await, file).await?;
    let metrics = FileMetrics::of_position_deletes(&written.footer, old.file_path(), replaced);
    let mut builder = DataFileBuilder::default();
    // Not `describe`: position deletes have no sort order.
    builder
        .content(DataContentType::PositionDeletes)
        .file_format(DataFileFormat::Parquet)
        .referenced_data_file(Some(old.file_path().to_owned()))
        .column_sizes(metrics.column_sizes)
        .value_counts(metrics.value_counts)
        .null_value_counts(metrics.null_value_counts)
        .lower_bounds(metrics.lower_bounds)
        .upper_bounds(metrics.upper_bounds)
        .split_offsets(Some(metrics.split_offsets));
    described(&mut builder, written, old, spec_id)
}

/// A Parquet file on its way to the store.
struct NewFile {
    writer: ArrowWriter<Vec<u8>>,
    upload: hexfloe_store::Upload,
    rows: u64,
}

struct WrittenFile {
    location: String,
    size: u64,
    rows: u64,
    footer: ParquetMetaData,
}

impl NewFile {
    async fn begin(
        metadata: &TableMetadata,
        schema: Arc<ArrowSchema>,
        store: &Store,
        location: String,
    ) -> Result<Self, Error> {
        let properties = ParquetSettings::of(metadata.properties())?.writer_properties().build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options);
        let writer = writer.map_err(Error::parquet("write", &location))?;
        Ok(Self { writer, upload: store.create(&location).await?, rows: 0 })
    }

    async fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        self.rows += batch.num_rows() as u64;
        self.writer.write(batch).map_err(Error::parquet("write", self.upload.location()))?;
        // What the writer has finished so far goes to the store at once.
        let finished = std::mem::take(self.writer.inner_mut());
        Ok(self.upload.write(finished.into()).await?)
    }

    async fn finish(mut self) -> Result<WrittenFile, Error> {
        let location = self.upload.location().to_owned();
        let footer = self.writer.finish().map_err(Error::parquet("write", &location))?;
        self.upload.write(std::mem::take(self.writer.inner_mut()).into()).await?;
        let size = self.upload.finish().await?;
        Ok(WrittenFile { location, size, rows: self.rows, footer })
    }
}

/// The finished file, or what the store already holds of it freed, if it can be.
async fn file_or_abort(written: Result<(), Error>, file: NewFile) -> Result<WrittenFile, Error> {
    match written {
        Ok(()) => file.finish().await,
        Err(error) => {
            let _ = file.upload.abort().await;
            Err(error)
        }
    }
}

/// The entry of a file that belongs to where `old` does.
fn described(
    builder: &mut DataFileBuilder,
    written: WrittenFile,
    old: &DataFile,
    spec_id: i32,
) -> Result<DataFile, Error> {
    builder
        .file_path(written.location)
        .partition(old.partition().clone())
        .partition_spec_id(spec_id)
        .record_count(written.rows)
        .file_size_in_bytes(written.size)
        .build()
        .map_err(|error| {
            let error = iceberg::Error::new(iceberg::ErrorKind::Unexpected, error.to_string());
            Error::iceberg("describe a new file")(error)
        })
}
