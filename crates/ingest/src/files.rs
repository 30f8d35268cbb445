//! The data files of one attempt: row groups in, uploaded and described files out.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use hexfloe_batch::{GeoColumn, GeoCrs, GeometrySummary, geo_metadata};
use hexfloe_commit::{FileMetrics, Locations};
use hexfloe_crs::Crs;
use hexfloe_store::{Store, Upload};
use iceberg::spec::{DataFile, Struct, TableMetadata};
use parquet::arrow::arrow_writer::ArrowColumnChunk;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::Error;
use crate::destination::Destination;
use crate::positions::StoredGeometry;

/// Iceberg's default, when the table does not say.
const TARGET_FILE_BYTES: usize = 512 << 20;

/// About what an open file holds for the footer, for each column of each row group.
const FOOTER_BYTES: usize = 512;

/// So many files may wait for the store's last answer while others are written.
const FILES_ENDING: usize = 4;

/// An encoded row group of one partition.
pub(crate) struct RowGroup {
    pub(crate) partition: usize,
    pub(crate) values: Struct,
    pub(crate) chunks: Vec<ArrowColumnChunk>,
    pub(crate) rows: u64,
    /// NaNs by field id.
    pub(crate) nans: BTreeMap<i32, u64>,
    /// What is in each of the geometry columns.
    pub(crate) geometries: Vec<GeometrySummary>,
    /// It is the last of its file.
    pub(crate) ends_file: bool,
}

/// What all files of a job share.
#[derive(Clone)]
pub(crate) struct FileFormat {
    pub(crate) schema: TypePtr,
    pub(crate) properties: WriterPropertiesPtr,
    /// The geometry columns, the primary one first.
    pub(crate) geometries: Arc<[GeometryFormat]>,
}

/// What the footer says of a geometry column, whatever is in it.
pub(crate) struct GeometryFormat {
    pub(crate) name: String,
    /// PROJJSON; `None` for longitude and latitude, `Some(None)` where it is not known.
    crs: Option<Option<String>>,
    covering: Option<String>,
}

impl GeometryFormat {
    pub(crate) fn of(stored: &StoredGeometry) -> Self {
        let crs = match &stored.crs {
            Some(crs) if crs.is_lon_lat() => None,
            crs => Some(crs.as_ref().and_then(Crs::projjson)),
        };
        Self { name: stored.name.clone(), crs, covering: stored.bbox.clone() }
    }

    fn column<'a>(&'a self, summary: &'a GeometrySummary) -> GeoColumn<'a> {
        let crs = match &self.crs {
            None => GeoCrs::LonLat,
            Some(None) => GeoCrs::Unknown,
            Some(Some(projjson)) => GeoCrs::Projjson(projjson),
        };
        GeoColumn { name: &self.name, crs, summary, covering: self.covering.as_deref() }
    }
}

/// The files of one attempt. It is used by one thread at a time, and blocks it while it uploads.
pub(crate) struct FileSet {
    destination: Arc<Destination>,
    store: Store,
    runtime: Handle,
    /// The beginning of every file's name, unique to the attempt.
    prefix: String,
    /// Bytes that open files may hold: parts in the making, and what becomes of the footers.
    budget: usize,
    held: usize,
    open: HashMap<usize, OpenFile>,
    /// Open files, by when they were last appended to.
    by_use: BTreeMap<u64, usize>,
    /// Files whose last bytes are on their way, in the order in which they ended.
    ending: VecDeque<EndingFile>,
    done: Vec<DataFile>,
    begun: Vec<String>,
    clock: u64,
}

/// A file that is all encoded.
struct EndingFile {
    location: String,
    footer: ParquetMetaData,
    values: Struct,
    rows: u64,
    nans: BTreeMap<i32, u64>,
    /// Its size, when the store has it.
    upload: JoinHandle<Result<u64, hexfloe_store::Error>>,
}

struct OpenFile {
    writer: SerializedFileWriter<Vec<u8>>,
    upload: Upload,
    values: Struct,
    rows: u64,
    nans: BTreeMap<i32, u64>,
    formats: Arc<[GeometryFormat]>,
    geometries: Vec<GeometrySummary>,
    /// Bytes it holds.
    held: usize,
    last_used: u64,
}

impl FileSet {
    pub(crate) fn new(
        destination: Arc<Destination>,
        store: Store,
        runtime: Handle,
        prefix: String,
        budget: usize,
    ) -> Self {
        Self {
            destination,
            store,
            runtime,
            prefix,
            budget,
            held: 0,
            open: HashMap::new(),
            by_use: BTreeMap::new(),
            ending: VecDeque::new(),
            done: Vec::new(),
            begun: Vec::new(),
            clock: 0,
        }
    }

    /// Appends a row group to its partition's file. Files are begun, filled and ended in an order that depends on the row
    /// groups alone.
    pub(crate) fn write(&mut self, group: RowGroup, format: &FileFormat) -> Result<(), Error> {
        let (partition, is_last) = (group.partition, group.ends_file);
        self.clock += 1;
        if !self.open.contains_key(&partition) {
            let file = self.begin(group.values.clone(), format)?;
            self.open.insert(partition, file);
        }
        let runtime = self.runtime.clone();
        let target = self.target_file_bytes();
        if let Some(file) = self.open.get_mut(&partition) {
            self.by_use.remove(&file.last_used);
            self.by_use.insert(self.clock, partition);
            file.last_used = self.clock;
            file.append(group)?;
            let bytes = std::mem::take(file.writer.inner_mut());
            runtime.block_on(file.upload.write(bytes.into()))?;
            self.held -= file.held;
            file.held = file.upload.buffered() + file.writer.flushed_row_groups().len() * file.columns() * FOOTER_BYTES;
            self.held += file.held;
            if is_last || file.writer.bytes_written() >= target {
                self.end(partition)?;
            }
        }
        while self.held > self.budget
            && self.open.len() > 1
            && let Some((_, &oldest)) = self.by_use.first_key_value()
        {
            self.end(oldest)?;
        }
        Ok(())
    }

    fn target_file_bytes(&self) -> usize {
        let properties = self.destination.metadata().map(TableMetadata::properties);
        let value = properties.and_then(|properties| properties.get("write.target-file-size-bytes")?.parse().ok());
        value.unwrap_or(TARGET_FILE_BYTES)
    }

    fn begin(&mut self, values: Struct, format: &FileFormat) -> Result<OpenFile, Error> {
        let table = self.runtime.block_on(self.destination.table())?;
        let name = format!("{}-{:05}.parquet", self.prefix, self.begun.len());
        let location = Locations::of(table.metadata()).data_file(&name);
        self.begun.push(location.clone());
        let upload = self.runtime.block_on(self.store.create(&location))?;
        let writer = SerializedFileWriter::new(Vec::new(), Arc::clone(&format.schema), Arc::clone(&format.properties))?;
        Ok(OpenFile {
            writer,
            upload,
            values,
            rows: 0,
            nans: BTreeMap::new(),
            formats: Arc::clone(&format.geometries),
            geometries: vec![GeometrySummary::new(); format.geometries.len()],
            held: 0,
            last_used: 0,
        })
    }

    fn end(&mut self, partition: usize) -> Result<(), Error> {
        let Some(mut file) = self.open.remove(&partition) else { return Ok(()) };
        self.by_use.remove(&file.last_used);
        self.held -= file.held;
        if !file.formats.is_empty() {
            let columns = std::iter::zip(file.formats.iter(), &file.geometries);
            let geo = geo_metadata(&columns.map(|(format, summary)| format.column(summary)).collect::<Vec<_>>());
            file.writer.append_key_value_metadata(KeyValue::new("geo".to_owned(), geo));
        }
        let footer = file.writer.finish()?;
        let rest = std::mem::take(file.writer.inner_mut());
        let location = file.upload.location().to_owned();
        let OpenFile { mut upload, values, rows, nans, .. } = file;
        // The next file need not wait for the store's answer.
        let upload = self.runtime.spawn(async move {
            upload.write(rest.into()).await?;
            upload.finish().await
        });
        self.ending.push_back(EndingFile { location, footer, values, rows, nans, upload });
        while self.ending.len() > FILES_ENDING {
            self.await_oldest()?;
        }
        Ok(())
    }

    /// Waits for the file that ended first, if there is one, and describes it.
    fn await_oldest(&mut self) -> Result<(), Error> {
        let Some(EndingFile { location, footer, values, rows, nans, upload }) = self.ending.pop_front() else {
            return Ok(());
        };
        let size = self.runtime.block_on(upload).map_err(|_| Error::Panicked)??;
        let metadata = self.runtime.block_on(self.destination.table())?.metadata();
        let failed = Error::iceberg("describe a data file");
        let metrics = FileMetrics::from_footer(&footer, metadata).map_err(&failed)?;
        let described = metrics
            .describe()
            .file_path(location)
            .partition(values)
            .partition_spec_id(metadata.default_partition_spec_id())
            .record_count(rows)
            .file_size_in_bytes(size)
            .nan_value_counts(nans.into_iter().collect())
            .build();
        let described = described
            .map_err(|error| failed(iceberg::Error::new(iceberg::ErrorKind::Unexpected, error.to_string())))?;
        self.done.push(described);
        Ok(())
    }

    /// Ends all files.
    pub(crate) fn finish(&mut self) -> Result<Vec<DataFile>, Error> {
        let mut partitions: Vec<usize> = self.open.keys().copied().collect();
        partitions.sort_unstable();
        for partition in partitions {
            self.end(partition)?;
        }
        while !self.ending.is_empty() {
            self.await_oldest()?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Removes everything this attempt has written. Nothing refers to it yet.
    pub(crate) fn discard(self) {
        let Self { open, ending, begun, store, runtime, .. } = self;
        runtime.block_on(async {
            for file in ending {
                let _ = file.upload.await;
            }
            for file in open.into_values() {
                // What cannot be removed is left to cleanup.
                let _ = file.upload.abort().await;
            }
            for location in &begun {
                let _ = store.delete(location).await;
            }
        });
    }
}

impl OpenFile {
    fn columns(&self) -> usize {
        self.writer.schema_descr().num_columns()
    }

    fn append(&mut self, group: RowGroup) -> Result<(), Error> {
        let mut writer = self.writer.next_row_group()?;
        for chunk in group.chunks {
            chunk.append_to_row_group(&mut writer)?;
        }
        writer.close()?;
        self.rows += group.rows;
        for (field, nans) in group.nans {
            *self.nans.entry(field).or_default() += nans;
        }
        for (all, more) in self.geometries.iter_mut().zip(&group.geometries) {
            all.merge(more);
        }
        Ok(())
    }
}
