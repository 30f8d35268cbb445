//! A lake with one table, whose snapshots are written by hand.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use futures::TryStreamExt;
use hexfloe_catalog::{Access, CatalogSettings, CommitOutcome, CommitRequest, OpenCatalog, TableDefinition};
use hexfloe_commit::Environment;
use hexfloe_orphan_cleanup::{Cleaner, Error, FileRecord, OrphanOptions, OrphanReport, Refusal};
use hexfloe_store::{Location, Store};
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, MAIN_BRANCH, ManifestFile, ManifestListWriter,
    ManifestWriterBuilder, NestedField, Operation, PrimitiveType, Schema, Snapshot, SnapshotReference,
    SnapshotRetention, Struct, Summary, Type, UnboundPartitionSpec,
};
use iceberg::table::Table;
use iceberg::{TableIdent, TableUpdate};
use object_store::memory::InMemory;
use uuid::Uuid;

use crate::store::{TroubledStore, Troubles};

/// Columns of the table, each with statistics in every manifest's entry.
const COLUMNS: i32 = 8;

/// The warehouse of a lake on the local disk.
const WAREHOUSE: &str = "file:lake/warehouse";

/// Ids count up; the clock begins when the world is made, and moves when somebody sleeps.
#[derive(Debug)]
pub(crate) struct Steady {
    next: AtomicU64,
    now_ms: AtomicI64,
    sleeps: Mutex<Vec<Duration>>,
}

impl Steady {
    pub(crate) fn advance(&self, by: Duration) {
        self.now_ms.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.lock().unwrap().clone()
    }
}

#[async_trait]
impl Environment for Steady {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn uuid(&self) -> Uuid {
        Uuid::from_u128(self.next.fetch_add(1, Ordering::SeqCst).into())
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    async fn sleep(&self, time: Duration) {
        self.sleeps.lock().unwrap().push(time);
        self.advance(time);
        tokio::task::yield_now().await;
    }
}

/// A lake with one table, `places.cities (n1 long, …)`.
#[derive(Clone, Debug)]
pub(crate) struct World {
    folder: Arc<tempfile::TempDir>,
    pub(crate) environment: Arc<Steady>,
    /// Through the store that misbehaves.
    pub(crate) catalog: OpenCatalog,
    /// The same lake, through its store as it is.
    plain: OpenCatalog,
    pub(crate) troubles: Arc<Troubles>,
}

impl World {
    /// On the local disk.
    pub(crate) async fn new() -> Self {
        Self::over(Store::local(), ("file", ""), WAREHOUSE).await
    }

    /// In a bucket, which is in memory.
    pub(crate) async fn in_bucket() -> Self {
        let store = Store::empty().mount("s3", "lake", Arc::new(InMemory::new()));
        Self::over(store, ("s3", "lake"), "s3://lake/warehouse").await
    }

    async fn over(store: Store, (family, authority): (&str, &str), warehouse: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (troubled, troubles) = TroubledStore::around(store.mounted(family, authority).unwrap());
        let catalog = open(folder.path(), warehouse, store.mount(family, authority, troubled)).await;
        let plain = open(folder.path(), warehouse, store).await;
        let began = folder.path().metadata().unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let environment = Arc::new(Steady {
            next: AtomicU64::new(1),
            now_ms: AtomicI64::new(i64::try_from(began.as_millis()).unwrap()),
            sleeps: Mutex::default(),
        });
        let world = Self { folder: Arc::new(folder), environment, catalog, plain, troubles };
        world.make_table().await;
        world
    }

    /// The catalog of a lake on the local disk, over another store.
    pub(crate) async fn catalog_over(&self, store: Store) -> OpenCatalog {
        open(self.folder.path(), WAREHOUSE, store).await
    }

    pub(crate) async fn make_table(&self) {
        let id = self.environment.uuid();
        self.plain.create(&self.table(), &definition(), id).await.unwrap();
    }

    /// Takes the table out of the catalog, and leaves its files.
    pub(crate) async fn drop_table(&self) {
        self.plain.catalog().drop_table(&self.table()).await.unwrap();
    }

    /// Makes the catalog name another metadata file, as somebody does who restores a backup of its database.
    pub(crate) async fn point_at(&self, metadata_file: &str) {
        self.drop_table().await;
        self.plain.catalog().register_table(&self.table(), metadata_file.to_owned()).await.unwrap();
    }

    pub(crate) fn table(&self) -> TableIdent {
        TableIdent::from_strs(["places", "cities"]).unwrap()
    }

    /// Leaves the lake on the disk when the test ends; gives its folder.
    pub(crate) fn leave(&self) -> std::path::PathBuf {
        std::mem::forget(Arc::clone(&self.folder));
        self.folder.path().to_owned()
    }

    pub(crate) async fn load(&self) -> Table {
        self.plain.load(&self.table()).await.unwrap().unwrap()
    }

    /// Where the table is.
    pub(crate) async fn root(&self) -> String {
        self.load().await.metadata().location().to_owned()
    }

    pub(crate) fn store(&self) -> &Store {
        self.plain.store()
    }

    pub(crate) fn cleaner(&self) -> Cleaner {
        Cleaner::new(self.catalog.clone(), Arc::<Steady>::clone(&self.environment))
    }

    /// Removes what there is, all of it if need be.
    pub(crate) fn options(&self) -> OrphanOptions {
        OrphanOptions { apply: true, max_fraction: 1.0, ..OrphanOptions::default() }
    }

    pub(crate) async fn clean(&self) -> Result<(OrphanReport, Vec<FileRecord>), Error> {
        self.clean_with(&self.options()).await
    }

    pub(crate) async fn clean_with(&self, options: &OrphanOptions) -> Result<(OrphanReport, Vec<FileRecord>), Error> {
        let mut records = Vec::new();
        let report = self.cleaner().orphans(&self.table(), options, &mut records).await?;
        Ok((report, records))
    }

    /// The same, which has to be refused; nothing may have gone, with or without `apply`.
    pub(crate) async fn refused_with(&self, options: &OrphanOptions) -> Refusal {
        let before = self.files().await;
        let dry = refusal(self.clean_with(&OrphanOptions { apply: false, ..options.clone() }).await);
        assert_eq!(refusal(self.clean_with(options).await), dry, "a dry run says the same");
        assert_eq!(self.files().await, before);
        dry
    }

    /// Writes a file.
    pub(crate) async fn put(&self, location: &str) {
        let mut upload = self.store().create(location).await.unwrap();
        upload.write("PAR1".into()).await.unwrap();
        upload.finish().await.unwrap();
    }

    /// Writes a file in a folder of the table, which nothing refers to.
    pub(crate) async fn orphan_in(&self, folder: &str) -> String {
        let location = format!("{}/{folder}/{}.parquet", self.root().await, self.environment.uuid());
        self.put(&location).await;
        location
    }

    pub(crate) async fn orphan(&self) -> String {
        self.orphan_in("data").await
    }

    pub(crate) async fn orphans(&self, number: usize) -> Vec<String> {
        let mut orphans = Vec::new();
        for _ in 0..number {
            orphans.push(self.orphan().await);
        }
        orphans
    }

    /// Commits a new data file to the main branch; gives its location.
    pub(crate) async fn append(&self) -> String {
        self.append_in("data").await
    }

    pub(crate) async fn append_in(&self, folder: &str) -> String {
        let file = self.orphan_in(folder).await;
        self.commit(MAIN_BRANCH, &[&file], false).await;
        file
    }

    /// Commits data files with these paths to a branch, in place of all that it has or besides; gives the snapshot.
    pub(crate) async fn commit(&self, branch: &str, paths: &[&str], overwrite: bool) -> i64 {
        let table = self.load().await;
        let metadata = table.metadata();
        let parent = metadata.snapshot_for_ref(branch).or_else(|| metadata.current_snapshot());
        let attempt = self.environment.uuid();
        let snapshot_id = i64::try_from(attempt.as_u128()).unwrap();
        let name = |name: String| format!("{}/metadata/{name}", metadata.location());
        let output = table.file_io().new_output(name(format!("{attempt}-m0.avro"))).unwrap();
        let (schema, spec) = (metadata.current_schema().clone(), metadata.default_partition_spec().as_ref().clone());
        let mut manifest = ManifestWriterBuilder::new(output, Some(snapshot_id), schema, spec).build_v2_data();
        for path in paths {
            manifest.add_file(data_file(path), -1).unwrap();
        }
        let mut manifests: Vec<ManifestFile> = Vec::new();
        if let Some(parent) = parent {
            let list = table.manifest_list_reader(parent).load().await.unwrap();
            for carried in list.entries() {
                if !overwrite {
                    manifests.push(carried.clone());
                    continue;
                }
                let entries = carried.load_manifest(table.file_io()).await.unwrap();
                for entry in entries.entries().iter().filter(|entry| entry.is_alive()) {
                    let sequence_number = entry.sequence_number().unwrap();
                    let file = entry.data_file().clone();
                    manifest.add_delete_file(file, sequence_number, entry.file_sequence_number).unwrap();
                }
            }
        }
        manifests.push(manifest.write_manifest_file().await.unwrap());
        let manifest_list = name(format!("snap-{snapshot_id}-0-{attempt}.avro"));
        self.add_snapshot(branch, snapshot_id, manifest_list, manifests).await;
        snapshot_id
    }

    /// Commits a snapshot with these manifests.
    pub(crate) async fn add_snapshot(
        &self,
        branch: &str,
        snapshot_id: i64,
        manifest_list: String,
        manifests: Vec<ManifestFile>,
    ) {
        let table = self.load().await;
        let metadata = table.metadata();
        let parent = metadata.snapshot_for_ref(branch).or_else(|| metadata.current_snapshot());
        let parent = parent.map(|parent| parent.snapshot_id());
        let sequence_number = metadata.next_sequence_number();
        let output = table.file_io().new_output(&manifest_list).unwrap().writer().await.unwrap();
        let mut list = ManifestListWriter::v2(output, snapshot_id, parent, sequence_number);
        list.add_manifests(manifests.into_iter()).unwrap();
        list.close().await.unwrap();
        let snapshot = Snapshot::builder()
            .with_snapshot_id(snapshot_id)
            .with_parent_snapshot_id(parent)
            .with_sequence_number(sequence_number)
            .with_timestamp_ms(metadata.last_updated_ms())
            .with_manifest_list(manifest_list)
            .with_schema_id(metadata.current_schema_id())
            .with_summary(Summary { operation: Operation::Overwrite, additional_properties: [].into() })
            .build();
        let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
        self.update(vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name: branch.to_owned(), reference },
        ])
        .await;
    }

    /// Applies updates as any writer does.
    pub(crate) async fn update(&self, updates: Vec<TableUpdate>) {
        let request = CommitRequest { base: self.load().await, requirements: Vec::new(), updates };
        let outcome = self.plain.port().commit(&request).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }

    pub(crate) async fn set_property(&self, name: &str, value: &str) {
        self.update(vec![TableUpdate::SetProperties { updates: [(name.to_owned(), value.to_owned())].into() }]).await;
    }

    pub(crate) async fn tag(&self, name: &str, snapshot_id: i64) {
        let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::Tag { max_ref_age_ms: None });
        self.update(vec![TableUpdate::SetSnapshotRef { ref_name: name.to_owned(), reference }]).await;
    }

    pub(crate) async fn remove_ref(&self, name: &str) {
        self.update(vec![TableUpdate::RemoveSnapshotRef { ref_name: name.to_owned() }]).await;
    }

    /// Every file below the table's location.
    pub(crate) async fn files(&self) -> BTreeSet<String> {
        self.files_below(&self.root().await).await
    }

    pub(crate) async fn files_below(&self, location: &str) -> BTreeSet<String> {
        let listing = self.store().list(&Location::parse(location).unwrap());
        listing.map_ok(|listed| listed.location.to_string()).try_collect().await.unwrap()
    }

    /// What the table refers to, by another way than the cleaner's: all metadata in its log, and for every snapshot its
    /// list, manifests and live files. Every file of it is there.
    pub(crate) async fn assert_whole(&self) {
        let table = self.load().await;
        let metadata = table.metadata();
        let mut referenced = BTreeSet::from([table.metadata_location().unwrap().to_owned()]);
        referenced.extend(metadata.metadata_log().iter().map(|entry| entry.metadata_file.clone()));
        referenced.extend(metadata.statistics_iter().map(|file| file.statistics_path.clone()));
        referenced.extend(metadata.partition_statistics_iter().map(|file| file.statistics_path.clone()));
        for snapshot in metadata.snapshots() {
            referenced.insert(snapshot.manifest_list().to_owned());
            let list = table.manifest_list_reader(snapshot).load().await.unwrap();
            for manifest in list.entries() {
                referenced.insert(manifest.manifest_path.clone());
                let manifest = manifest.load_manifest(table.file_io()).await.unwrap();
                let live = manifest.entries().iter().filter(|entry| entry.is_alive());
                referenced.extend(live.map(|entry| entry.file_path().to_owned()));
            }
        }
        for file in referenced {
            assert!(self.store().size(&file).await.is_ok(), "{file} is gone");
        }
    }
}

async fn open(folder: &std::path::Path, warehouse: &str, store: Store) -> OpenCatalog {
    let settings = CatalogSettings { warehouse: warehouse.to_owned(), ..CatalogSettings::embedded() };
    OpenCatalog::open_with(&settings, folder, Access::Create, store).await.unwrap()
}

pub(crate) fn data_file(path: &str) -> DataFile {
    let counts = |count: u64| -> HashMap<i32, u64> { (1..=COLUMNS).map(|id| (id, count)).collect() };
    let bounds = |bound: i64| -> HashMap<i32, Datum> { (1..=COLUMNS).map(|id| (id, Datum::long(bound))).collect() };
    DataFileBuilder::default()
        .column_sizes(counts(1_000))
        .value_counts(counts(1))
        .null_value_counts(counts(0))
        .lower_bounds(bounds(-1))
        .upper_bounds(bounds(1))
        .content(DataContentType::Data)
        .file_path(path.to_owned())
        .file_format(DataFileFormat::Parquet)
        .partition(Struct::empty())
        .partition_spec_id(0)
        .record_count(1)
        .file_size_in_bytes(4)
        .build()
        .unwrap()
}

fn definition() -> TableDefinition {
    let column = |id| NestedField::optional(id, format!("n{id}"), Type::Primitive(PrimitiveType::Long)).into();
    TableDefinition {
        schema: Schema::builder().with_fields((1..=COLUMNS).map(column)).build().unwrap(),
        partition_spec: UnboundPartitionSpec::default(),
        properties: [].into(),
    }
}

/// Why a run was refused.
pub(crate) fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Refused { refusal, .. }) => *refusal,
        other => unreachable!("not refused: {other:?}"),
    }
}

/// The files of these records with a fate, in order.
pub(crate) fn files_of(records: &[FileRecord], fate: impl Fn(&hexfloe_orphan_cleanup::Fate) -> bool) -> Vec<String> {
    let mut files: Vec<String> =
        records.iter().filter(|record| fate(&record.fate)).map(|record| record.file.clone()).collect();
    files.sort();
    files
}
