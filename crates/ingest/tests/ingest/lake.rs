//! A lake in a folder of its own, and looking at what is in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int64Type};
use async_trait::async_trait;
use hexfloe_catalog::{Access, CatalogSettings, CommitOutcome, CommitRequest, OpenCatalog};
use hexfloe_commit::{Environment, SharedEnvironment};
use hexfloe_ingest::{Error, Ingest, Job, Report, RunOptions};
use hexfloe_store::Store;
use iceberg::spec::{DataFile, Literal, Snapshot, SnapshotReference, SnapshotRetention};
use iceberg::table::Table;
use iceberg::{TableIdent, TableRequirement, TableUpdate};
use object_store::ObjectStore;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;
use uuid::Uuid;

/// The same ids and times in every run of a test.
#[derive(Debug)]
pub(crate) struct Counting {
    /// After the clock of whatever machine this runs on, which dates new tables.
    now_ms: AtomicI64,
    next: AtomicU64,
}

impl Counting {
    pub(crate) fn shared() -> SharedEnvironment {
        Arc::new(Self { now_ms: AtomicI64::new(4_102_444_800_000), next: AtomicU64::new(1) })
    }
}

#[async_trait]
impl Environment for Counting {
    fn now_ms(&self) -> i64 {
        self.now_ms.fetch_add(1, Ordering::SeqCst)
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.next.fetch_add(1, Ordering::SeqCst).into())
    }

    fn jitter(&self) -> f64 {
        0.0
    }

    async fn sleep(&self, _: Duration) {}
}

pub(crate) struct Lake {
    folder: TempDir,
    pub(crate) catalog: OpenCatalog,
    pub(crate) environment: SharedEnvironment,
}

impl Lake {
    pub(crate) async fn new() -> Self {
        Self::over(|store| store).await
    }

    /// A lake on a decorated store.
    pub(crate) async fn over(decorate: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let local = Store::local();
        let store = local.mount("file", "", decorate(local.mounted("file", "").unwrap()));
        let settings = CatalogSettings::embedded();
        let catalog = OpenCatalog::open_with(&settings, folder.path(), Access::Create, store).await.unwrap();
        Self { folder, catalog, environment: Counting::shared() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// A Parquet file with row groups of the given number of rows.
    pub(crate) fn write_parquet(&self, name: &str, rows: &RecordBatch, row_group_rows: usize) {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(row_group_rows)).build();
        let file = File::create(self.path(name)).unwrap();
        let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
    }

    pub(crate) fn options(&self) -> RunOptions {
        RunOptions {
            base: self.folder.path().to_owned(),
            working_folder: self.folder.path().to_owned(),
            run_date: None,
            force: false,
            dry_run: false,
            branch: RunOptions::MAIN.to_owned(),
            threads: 2,
        }
    }

    pub(crate) fn ingest(&self) -> Ingest {
        Ingest::new(self.catalog.clone(), Arc::clone(&self.environment))
    }

    pub(crate) async fn run(&self, job: &str) -> Result<Report, Error> {
        self.run_with(job, &[], self.options()).await
    }

    /// A forced run.
    pub(crate) async fn force(&self, job: &str, overrides: &[&str]) -> Result<Report, Error> {
        self.run_with(job, overrides, RunOptions { force: true, ..self.options() }).await
    }

    pub(crate) async fn run_with(&self, job: &str, overrides: &[&str], options: RunOptions) -> Result<Report, Error> {
        self.ingest().run(&job_of(job, overrides), &options).await
    }

    pub(crate) async fn table(&self) -> Option<Table> {
        self.catalog.load(&places()).await.unwrap()
    }

    /// Somebody sets properties of the table (or removes them), and appends nothing.
    pub(crate) async fn set_properties(&self, properties: &[(&str, Option<&str>)]) {
        self.replace_head(true, properties).await;
    }

    /// The current snapshot gets a successor with the same files, and properties are set or removed. Unless `told`, the
    /// successor has no ancestors and does not say which batches it holds. Gives its id.
    pub(crate) async fn replace_head(&self, told: bool, properties: &[(&str, Option<&str>)]) -> i64 {
        let table = self.table().await.unwrap();
        let metadata = table.metadata();
        let head = metadata.current_snapshot().unwrap();
        let id = metadata.last_sequence_number() + 1;
        let mut summary = head.summary().clone();
        summary.additional_properties.retain(|name, _| told || !name.starts_with("ingest."));
        let successor = Snapshot::builder()
            .with_snapshot_id(id)
            .with_parent_snapshot_id(told.then(|| head.snapshot_id()))
            .with_sequence_number(id)
            .with_timestamp_ms(head.timestamp_ms() + 1)
            .with_manifest_list(head.manifest_list())
            .with_summary(summary)
            .with_schema_id(metadata.current_schema_id())
            .build();
        let reference = SnapshotReference::new(id, SnapshotRetention::branch(None, None, None));
        let set = properties.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
        let removals = properties.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| (*name).to_owned());
        let request = CommitRequest {
            requirements: vec![TableRequirement::UuidMatch { uuid: metadata.uuid() }],
            updates: vec![
                TableUpdate::AddSnapshot { snapshot: successor },
                TableUpdate::SetSnapshotRef { ref_name: "main".to_owned(), reference },
                TableUpdate::SetProperties { updates: set.collect() },
                TableUpdate::RemoveProperties { removals: removals.collect() },
            ],
            base: table,
        };
        let outcome = self.catalog.port().commit(&request).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        id
    }

    /// The files of the current snapshot, in the order in which they were begun.
    pub(crate) async fn files(&self) -> Vec<DataFile> {
        let table = self.table().await.unwrap();
        let metadata = table.metadata_ref();
        let mut files = Vec::new();
        if let Some(snapshot) = metadata.current_snapshot() {
            let list = table.manifest_list_reader(snapshot).load().await.unwrap();
            for manifest in list.entries() {
                let manifest = manifest.load_manifest(table.file_io()).await.unwrap();
                let live = manifest.entries().iter().filter(|entry| entry.is_alive());
                files.extend(live.map(|entry| entry.data_file().clone()));
            }
        }
        files.sort_by_key(|file| number_of(file.file_path()));
        files
    }

    /// The bytes of the files of the current snapshot, by their numbers.
    pub(crate) async fn bytes(&self) -> BTreeMap<String, Vec<u8>> {
        let files = self.files().await;
        files.iter().map(|file| (number_of(file.file_path()), std::fs::read(local(file)).unwrap())).collect()
    }

    /// The ids of all rows, in the order in which they are stored, by partition.
    pub(crate) async fn ids_by_partition(&self) -> BTreeMap<String, Vec<i64>> {
        let mut ids: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for file in self.files().await {
            let rows = rows(&file);
            let column = rows.column_by_name("id").unwrap().as_primitive::<Int64Type>();
            ids.entry(partition(&file)).or_default().extend(column.values());
        }
        ids
    }

    /// Files below the warehouse with these words in their path.
    pub(crate) fn on_disk(&self, part: &str) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.path("lake/warehouse"), &mut found);
        found.retain(|path| path.contains(part));
        found.sort();
        found
    }

    /// The ids of the snapshots, oldest first.
    pub(crate) async fn snapshots(&self) -> usize {
        self.table().await.map_or(0, |table| table.metadata().snapshots().count())
    }
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path.display().to_string());
        }
    }
}

/// The table of all jobs here.
pub(crate) fn places() -> TableIdent {
    TableIdent::from_strs(["places", "cities"]).unwrap()
}

pub(crate) fn job_of(text: &str, overrides: &[&str]) -> Job {
    let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
    Job::from_toml(text, &overrides).unwrap()
}

/// A job over `paths`, with more sections, and more keys of `[table]` first.
pub(crate) fn job(format: &str, paths: &str, table_and_more: &str) -> String {
    format!(
        r#"
        [source]
        name = "test"
        format = "{format}"
        paths = ["{paths}"]
        [batch]
        granularity = "files"
        [table]
        name = "places.cities"
        {table_and_more}
        "#
    )
}

fn local(file: &DataFile) -> PathBuf {
    PathBuf::from(file.file_path().strip_prefix("file://").unwrap())
}

/// `00017` of `…-00017.parquet`.
fn number_of(path: &str) -> String {
    path.rsplit_once('-').unwrap().1.to_owned()
}

/// A file's partition values, readable.
pub(crate) fn partition(file: &DataFile) -> String {
    let values = file.partition().fields().iter().map(|value| match value {
        None => "null".to_owned(),
        Some(Literal::Primitive(value)) => format!("{value:?}"),
        Some(other) => format!("{other:?}"),
    });
    values.collect::<Vec<_>>().join("/")
}

pub(crate) fn footer(file: &DataFile) -> ParquetMetaData {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    let file = File::open(local(file)).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).unwrap();
    builder.metadata().as_ref().clone()
}

/// The rows of a file, text as `Utf8`.
pub(crate) fn rows(file: &DataFile) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(local(file)).unwrap()).unwrap();
    let schema = Arc::clone(reader.schema());
    let batches = reader.build().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    concat_batches(&schema, &batches).unwrap()
}

/// A column of the only file.
pub(crate) fn column(file: &DataFile, name: &str) -> arrow::array::ArrayRef {
    Arc::clone(rows(file).column_by_name(name).unwrap())
}

/// The values of a column of numbers, as wide as they get.
pub(crate) fn longs(array: &dyn arrow::array::Array) -> Vec<Option<i64>> {
    let wide = arrow::compute::cast(array, &DataType::Int64).unwrap();
    wide.as_primitive::<Int64Type>().iter().collect()
}
