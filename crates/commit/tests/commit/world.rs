//! A lake in a temporary folder, with a clock, ids and waits that are functions of the test alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use futures::TryStreamExt;
use hexfloe_batch::{BATCH_ID_COLUMN, BatchId, Sha256Hex};
use hexfloe_catalog::{
    Access, CatalogSettings, CommitOutcome, CommitPort, CommitRequest, OpenCatalog, TableDefinition,
};
use hexfloe_commit::{
    BatchCommit, BatchOutcome, Committer, Environment, Error, FileMetrics, Ledger, OnChangedInput, Replaces, WrittenFor,
};
use hexfloe_store::{Location, Store};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{
    DataFile, Literal, MAIN_BRANCH, ManifestEntryRef, ManifestFile, NestedField, PrimitiveType, Schema, SnapshotRef,
    SnapshotReference, SnapshotRetention, Struct, Transform, Type, UnboundPartitionSpec,
};
use iceberg::table::Table;
use iceberg::{TableIdent, TableUpdate};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::file::properties::WriterProperties;
use uuid::Uuid;

/// One row: a number, a category, and the id of its batch.
pub(crate) type Row = (i64, String, Option<String>);

/// Where the fake clock starts: before any real clock, which the `iceberg` crate reads when it makes a table.
const START_MS: i64 = 1_700_000_000_000;

/// Ids count up, the clock moves when somebody sleeps, and sleeping is short.
#[derive(Debug)]
pub(crate) struct FakeEnvironment {
    next: AtomicU64,
    now_ms: AtomicI64,
    draws: AtomicU64,
    sleeps: Mutex<Vec<Duration>>,
    /// What a wait is divided by to be really waited for.
    haste: u32,
}

impl Default for FakeEnvironment {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(1),
            now_ms: AtomicI64::new(START_MS),
            draws: AtomicU64::new(0),
            sleeps: Mutex::default(),
            haste: 1_000,
        }
    }
}

impl FakeEnvironment {
    pub(crate) fn set_now_ms(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.now_ms.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    pub(crate) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.lock().unwrap().clone()
    }
}

#[async_trait]
impl Environment for FakeEnvironment {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.next.fetch_add(1, Ordering::SeqCst).into())
    }

    fn jitter(&self) -> f64 {
        // The golden ratio's multiples spread evenly.
        let draw = self.draws.fetch_add(1, Ordering::SeqCst);
        f64::from(u32::try_from(draw % 1_000).unwrap()) * 0.618_033_988_75 % 1.0
    }

    async fn sleep(&self, time: Duration) {
        self.sleeps.lock().unwrap().push(time);
        self.advance(time);
        #[expect(clippy::disallowed_methods, reason = "rivals on real threads need a real pause")]
        tokio::time::sleep(time / self.haste).await;
    }
}

/// How a world is made.
pub(crate) struct Made {
    pub(crate) partitioned: bool,
    pub(crate) properties: Vec<(&'static str, String)>,
    pub(crate) store: Store,
}

impl Default for Made {
    fn default() -> Self {
        Self { partitioned: false, properties: Vec::new(), store: Store::local() }
    }
}

/// A lake with one table, `places.cities (n long, category string, ingest_batch_id string)`.
#[derive(Clone)]
pub(crate) struct World {
    folder: Arc<tempfile::TempDir>,
    pub(crate) environment: Arc<FakeEnvironment>,
    pub(crate) catalog: OpenCatalog,
    committer: Committer,
    store: Store,
    name: &'static str,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::make(Made::default()).await
    }

    pub(crate) async fn partitioned() -> Self {
        Self::make(Made { partitioned: true, ..Made::default() }).await
    }

    pub(crate) async fn make(made: Made) -> Self {
        Self::make_in(tempfile::tempdir().unwrap(), made).await
    }

    /// The same with the catalog in this folder.
    pub(crate) async fn make_in(folder: tempfile::TempDir, made: Made) -> Self {
        let folder = Arc::new(folder);
        let environment = Arc::new(FakeEnvironment::default());
        let settings = CatalogSettings::embedded();
        let opened = OpenCatalog::open_with(&settings, folder.path(), Access::Create, made.store.clone()).await;
        let catalog = opened.unwrap();
        let committer = Committer::new(catalog.clone(), Arc::<FakeEnvironment>::clone(&environment));
        let world = Self { folder, environment, catalog, committer, store: made.store, name: "cities" };
        let id = world.environment.uuid();
        world.catalog.create(&world.table(), &definition(made.partitioned, made.properties), id).await.unwrap();
        world
    }

    /// The same catalog with a new table in the place of the old one, and with clock, ids and committer as at first:
    /// what is done there does not depend on what was done before.
    pub(crate) async fn anew(&self, partitioned: bool, properties: Vec<(&'static str, String)>) -> Self {
        let location = self.load().await.metadata().location().to_owned();
        self.catalog.catalog().drop_table(&self.table()).await.unwrap();
        self.store.file_io().delete_prefix(&location).await.unwrap();
        let environment = Arc::new(FakeEnvironment::default());
        let world = Self { environment, ..self.clone() }.seen_through(self.catalog.clone());
        let id = world.environment.uuid();
        world.catalog.create(&world.table(), &definition(partitioned, properties), id).await.unwrap();
        world
    }

    /// A second table in the same catalog, as another world.
    pub(crate) async fn beside(&self, name: &'static str) -> Self {
        let world = Self { name, ..self.clone() };
        let id = world.environment.uuid();
        world.catalog.create(&world.table(), &definition(false, Vec::new()), id).await.unwrap();
        world
    }

    /// Another process at the same lake.
    pub(crate) async fn again(&self) -> Self {
        let settings = CatalogSettings::embedded();
        let opened = OpenCatalog::open_with(&settings, self.folder.path(), Access::Create, self.store.clone()).await;
        self.seen_through(opened.unwrap())
    }

    /// The same lake seen through another commit port.
    pub(crate) fn through<P: CommitPort + 'static>(
        &self,
        wrap: impl FnOnce(Arc<dyn CommitPort>) -> Arc<P>,
    ) -> (Self, Arc<P>) {
        let mut wrapped = None;
        let catalog = self.catalog.clone().with_port(|port| {
            let port = wrap(port);
            wrapped = Some(Arc::clone(&port));
            port
        });
        (self.seen_through(catalog), wrapped.unwrap())
    }

    fn seen_through(&self, catalog: OpenCatalog) -> Self {
        let committer = Committer::new(catalog.clone(), Arc::<FakeEnvironment>::clone(&self.environment));
        Self { catalog, committer, ..self.clone() }
    }

    pub(crate) fn table(&self) -> TableIdent {
        TableIdent::from_strs(["places", self.name]).unwrap()
    }

    pub(crate) fn committer(&self) -> Committer {
        self.committer.clone()
    }

    pub(crate) async fn load(&self) -> Table {
        self.catalog.load(&self.table()).await.unwrap().unwrap()
    }

    /// A data file of these rows, all of one category where the table is partitioned.
    pub(crate) async fn file(&self, rows: &[Row]) -> DataFile {
        self.file_in_groups(rows, 1_000).await
    }

    /// The same with so many rows to a row group.
    pub(crate) async fn file_in_groups(&self, rows: &[Row], group: usize) -> DataFile {
        let location = self.load().await.metadata().location().to_owned();
        let path = format!("{location}/data/{:05}.parquet", self.environment.uuid().as_u128());
        self.file_at(path, rows, group).await
    }

    pub(crate) async fn file_at(&self, path: String, rows: &[Row], group: usize) -> DataFile {
        let table = self.load().await;
        let metadata = table.metadata();
        let schema = Arc::new(schema_to_arrow_schema(metadata.current_schema()).unwrap());
        let numbers: Int64Array = rows.iter().map(|row| Some(row.0)).collect();
        let categories: StringArray = rows.iter().map(|row| Some(row.1.as_str())).collect();
        let batches: StringArray = rows.iter().map(|row| row.2.as_deref()).collect();
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(numbers), Arc::new(categories), Arc::new(batches)];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let mut writer = ArrowWriter::try_new_with_options(Vec::new(), schema, options).unwrap();
        writer.write(&batch).unwrap();
        let footer = writer.finish().unwrap();
        let mut upload = self.catalog.store().create(&path).await.unwrap();
        upload.write(std::mem::take(writer.inner_mut()).into()).await.unwrap();
        let size = upload.finish().await.unwrap();
        let metrics = FileMetrics::from_footer(&footer, metadata).unwrap();
        let mut described = metrics.describe();
        described
            .file_path(path)
            .partition_spec_id(metadata.default_partition_spec_id())
            .record_count(rows.len() as u64)
            .file_size_in_bytes(size);
        if !metadata.default_partition_spec().is_unpartitioned() {
            described.partition(Struct::from_iter([Some(Literal::string(rows[0].1.clone()))]));
        }
        described.build().unwrap()
    }

    /// A batch of these files.
    pub(crate) async fn batch_of(&self, name: &str, files: Vec<DataFile>) -> BatchCommit {
        BatchCommit {
            table: self.table(),
            branch: BatchCommit::MAIN.to_owned(),
            written_for: WrittenFor::of(self.load().await.metadata()),
            batch_id: id(name),
            source: "test".to_owned(),
            rows: files.iter().map(DataFile::record_count).sum(),
            rejected: 0,
            content_sha256: Sha256Hex::of(name),
            derivation: None,
            records: BTreeMap::new(),
            replaces: Replaces::Batch,
            on_changed_input: OnChangedInput::Refuse,
            force: false,
            files,
            started_ms: self.environment.now_ms(),
        }
    }

    /// A batch of one new file with these numbers.
    pub(crate) async fn batch(&self, name: &str, numbers: impl IntoIterator<Item = i64>) -> BatchCommit {
        let file = self.file(&rows(name, numbers)).await;
        self.batch_of(name, vec![file]).await
    }

    /// A batch of one new file that has the batch's id in its name, as Hexfloe's own files do.
    pub(crate) async fn batch_named_for_itself(
        &self,
        name: &str,
        numbers: impl IntoIterator<Item = i64>,
    ) -> BatchCommit {
        let location = self.load().await.metadata().location().to_owned();
        let path = format!("{location}/data/{}-{}.parquet", id(name), self.environment.uuid());
        let file = self.file_at(path, &rows(name, numbers), 1_000).await;
        self.batch_of(name, vec![file]).await
    }

    /// Commits a batch of one new file, and asks that it be committed.
    pub(crate) async fn ingest(&self, name: &str, numbers: impl IntoIterator<Item = i64>) -> i64 {
        let batch = self.batch(name, numbers).await;
        committed(&self.commit(&batch).await.unwrap())
    }

    pub(crate) async fn commit(&self, batch: &BatchCommit) -> Result<BatchOutcome, Error> {
        self.committer().commit(batch).await
    }

    /// The rows a reader sees, sorted.
    pub(crate) async fn rows(&self) -> Vec<Row> {
        let table = self.load().await;
        if table.metadata().current_snapshot().is_none() {
            return Vec::new();
        }
        let scan = table.scan().select_all().build().unwrap();
        let batches: Vec<RecordBatch> = scan.to_arrow().await.unwrap().try_collect().await.unwrap();
        let mut rows: Vec<Row> = batches.iter().flat_map(rows_of).collect();
        rows.sort();
        rows
    }

    pub(crate) async fn ledger(&self) -> Vec<String> {
        Ledger::of(self.load().await.metadata()).ids().to_vec()
    }

    pub(crate) async fn snapshots(&self) -> usize {
        self.load().await.metadata().snapshots().count()
    }

    /// The manifests of the current snapshot.
    pub(crate) async fn manifests(&self) -> Vec<(ManifestFile, Vec<ManifestEntryRef>)> {
        let table = self.load().await;
        match table.metadata().current_snapshot() {
            Some(snapshot) => manifests_of(&table, snapshot).await,
            None => Vec::new(),
        }
    }

    /// The live entries of the current snapshot.
    pub(crate) async fn live(&self) -> Vec<ManifestEntryRef> {
        let manifests = self.manifests().await;
        manifests.into_iter().flat_map(|(_, entries)| entries).filter(|entry| entry.is_alive()).collect()
    }

    /// Every file below the table.
    pub(crate) async fn files(&self) -> BTreeSet<String> {
        self.files_below(self.load().await.metadata().location()).await
    }

    pub(crate) async fn files_below(&self, location: &str) -> BTreeSet<String> {
        let listing = self.catalog.store().list(&Location::parse(location).unwrap());
        listing.map_ok(|listed| listed.location.to_string()).try_collect().await.unwrap()
    }

    /// Every file that the table refers to, from any snapshot.
    pub(crate) async fn referenced(&self) -> BTreeSet<String> {
        let table = self.load().await;
        let metadata = table.metadata();
        let mut files = BTreeSet::from([table.metadata_location().unwrap().to_owned()]);
        files.extend(metadata.metadata_log().iter().map(|entry| entry.metadata_file.clone()));
        for snapshot in metadata.snapshots() {
            files.insert(snapshot.manifest_list().to_owned());
            for (manifest, entries) in manifests_of(&table, snapshot).await {
                files.insert(manifest.manifest_path);
                files.extend(entries.iter().filter(|entry| entry.is_alive()).map(|entry| entry.file_path().to_owned()));
            }
        }
        files
    }

    /// Every file there is referred to, and every file referred to is there.
    pub(crate) async fn assert_nothing_left_behind(&self) {
        assert_eq!(self.files().await, self.referenced().await);
    }

    /// Applies updates as another writer would.
    pub(crate) async fn update(&self, updates: Vec<TableUpdate>) {
        let request = CommitRequest { base: self.load().await, requirements: Vec::new(), updates };
        let outcome = self.catalog.port().commit(&request).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }

    pub(crate) async fn set_property(&self, name: &str, value: &str) {
        self.update(vec![TableUpdate::SetProperties { updates: [(name.to_owned(), value.to_owned())].into() }]).await;
    }

    /// Sets the main branch to a snapshot, as a rollback does.
    pub(crate) async fn roll_back(&self, snapshot_id: i64) {
        let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
        self.update(vec![TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference }]).await;
    }

    /// Expires every snapshot but the current one.
    pub(crate) async fn expire(&self) {
        let table = self.load().await;
        let current = table.metadata().current_snapshot_id();
        let ids = table.metadata().snapshots().map(|snapshot| snapshot.snapshot_id());
        let snapshot_ids = ids.filter(|id| Some(*id) != current).collect();
        self.update(vec![TableUpdate::RemoveSnapshots { snapshot_ids }]).await;
    }

    /// Appends files as the `iceberg` crate does, with properties in the snapshot's summary.
    pub(crate) async fn append_with_summary(
        &self,
        files: Vec<DataFile>,
        properties: impl IntoIterator<Item = (&'static str, String)>,
    ) {
        use iceberg::transaction::{ApplyTransactionAction, Transaction};
        let table = self.load().await;
        let transaction = Transaction::new(&table);
        let properties = properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let append = transaction.fast_append().add_data_files(files).set_snapshot_properties(properties);
        append.apply(transaction).unwrap().commit(self.catalog.catalog()).await.unwrap();
    }

    /// Appends files as the `iceberg` crate does.
    pub(crate) async fn stock_append(&self, files: Vec<DataFile>) {
        use iceberg::transaction::{ApplyTransactionAction, Transaction};
        let table = self.load().await;
        let transaction = Transaction::new(&table);
        let append = transaction.fast_append().add_data_files(files);
        append.apply(transaction).unwrap().commit(self.catalog.catalog()).await.unwrap();
    }
}

async fn manifests_of(table: &Table, snapshot: &SnapshotRef) -> Vec<(ManifestFile, Vec<ManifestEntryRef>)> {
    let mut manifests = Vec::new();
    let list = table.manifest_list_reader(snapshot).load().await.unwrap();
    for file in list.consume_entries().into_iter().collect::<Vec<_>>() {
        let entries = file.load_manifest(table.file_io()).await.unwrap().into_parts().0;
        manifests.push((file, entries));
    }
    manifests
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let (numbers, categories) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
    let ids = batch.column(2).as_string::<i32>();
    (0..batch.num_rows())
        .map(|row| {
            let id = ids.is_valid(row).then(|| ids.value(row).to_owned());
            (numbers.value(row), categories.value(row).to_owned(), id)
        })
        .collect()
}

pub(crate) fn definition(partitioned: bool, properties: Vec<(&'static str, String)>) -> TableDefinition {
    let column = |id, name: &str, kind| NestedField::optional(id, name, Type::Primitive(kind)).into();
    let fields = [
        column(1, "n", PrimitiveType::Long),
        column(2, "category", PrimitiveType::String),
        column(3, BATCH_ID_COLUMN, PrimitiveType::String),
    ];
    let mut partition_spec = UnboundPartitionSpec::builder();
    if partitioned {
        partition_spec = partition_spec.add_partition_field(2, "category", Transform::Identity).unwrap();
    }
    let full = ("write.metadata.metrics.column.ingest_batch_id", "full".to_owned());
    TableDefinition {
        schema: Schema::builder().with_fields(fields).build().unwrap(),
        partition_spec: partition_spec.build(),
        properties: [full].into_iter().chain(properties).map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// The id of a batch that the tests call by a name.
pub(crate) fn id(name: &str) -> BatchId {
    BatchId::offsets(name, "0", 0, 1).unwrap()
}

/// Rows of one batch, of the category `a`.
pub(crate) fn rows(name: &str, numbers: impl IntoIterator<Item = i64>) -> Vec<Row> {
    rows_in("a", name, numbers)
}

pub(crate) fn rows_in(category: &str, name: &str, numbers: impl IntoIterator<Item = i64>) -> Vec<Row> {
    numbers.into_iter().map(|n| (n, category.to_owned(), Some(id(name).to_string()))).collect()
}

/// The snapshot of a batch that was committed.
pub(crate) fn committed(outcome: &BatchOutcome) -> i64 {
    match outcome {
        BatchOutcome::Committed { snapshot_id, .. } => *snapshot_id,
        BatchOutcome::Skipped { .. } => unreachable!("skipped instead of committed"),
    }
}

pub(crate) fn is_skipped(outcome: &BatchOutcome) -> bool {
    matches!(outcome, BatchOutcome::Skipped { .. })
}
