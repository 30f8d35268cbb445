//! Whoever else writes to the table: another engine with manifests of its own, and rivals with batches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hexfloe_batch::{BatchId, Sha256Hex};
use hexfloe_commit::{BatchCommit, Committer, Environment, WrittenFor, names};
use iceberg::TableUpdate;
use iceberg::spec::{
    DataContentType, DataFile, MAIN_BRANCH, ManifestContentType, ManifestEntryRef, ManifestFile, ManifestListWriter,
    ManifestWriterBuilder, NestedField, Operation, PrimitiveType, Schema, SchemaRef, Snapshot, SnapshotRef,
    SnapshotReference, SnapshotRetention, Summary, TableMetadata, Transform, Type, UnboundPartitionSpec,
};
use iceberg::table::Table;

use super::expectation::{Change, Contents, Effect};
use super::files::{self, BATCH, Position, Row};
use super::steps::{Bounds, Deed, LedgerLoss, Partitioning};
use crate::world::World;

/// Something to do, with every name resolved.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Batch(Contents),
    Append { rows: Vec<Row>, bounds: Bounds },
    Other(Deed),
}

/// Everything outside our own commits. What it has read of immutable files it remembers.
#[derive(Clone)]
pub(crate) struct Engine {
    pub(crate) world: World,
    read: Arc<Mutex<Read>>,
}

#[derive(Default)]
struct Read {
    lists: HashMap<String, Vec<Arc<Manifest>>>,
    manifests: HashMap<String, Arc<Manifest>>,
    rows: HashMap<String, Arc<Vec<Row>>>,
    positions: HashMap<String, Arc<Vec<Position>>>,
    /// Every file that the table ever referred to.
    referenced: BTreeSet<String>,
}

pub(crate) struct Manifest {
    pub(crate) file: ManifestFile,
    schema: SchemaRef,
    pub(crate) entries: Vec<ManifestEntryRef>,
}

impl Manifest {
    pub(crate) fn live(&self) -> impl Iterator<Item = &ManifestEntryRef> {
        self.entries.iter().filter(|entry| entry.is_alive())
    }
}

struct LiveFile {
    spec_id: i32,
    file: DataFile,
    rows: Vec<(u64, Row)>,
}

impl LiveFile {
    fn partition(&self) -> String {
        format!("{} {:?}", self.spec_id, self.file.partition())
    }
}

/// What a snapshot of this engine changes.
#[derive(Default)]
struct Replacement {
    removed: BTreeSet<String>,
    added: Vec<DataFile>,
    /// Delete files, with their partition specs.
    deletes: Vec<(i32, DataFile)>,
}

impl Engine {
    pub(crate) fn new(world: World) -> Self {
        Self { world, read: Arc::default() }
    }

    /// The manifests of a snapshot.
    pub(crate) async fn manifests(&self, table: &Table, snapshot: &SnapshotRef) -> Vec<Arc<Manifest>> {
        if let Some(manifests) = self.read.lock().unwrap().lists.get(snapshot.manifest_list()) {
            return manifests.clone();
        }
        let mut manifests = Vec::new();
        let list = table.manifest_list_reader(snapshot).load().await.unwrap();
        for file in list.consume_entries().into_iter().collect::<Vec<_>>() {
            let known = self.read.lock().unwrap().manifests.get(&file.manifest_path).cloned();
            let manifest = match known {
                Some(manifest) => manifest,
                None => {
                    let (entries, metadata) = file.load_manifest(table.file_io()).await.unwrap().into_parts();
                    Arc::new(Manifest { file, schema: metadata.schema().clone(), entries })
                }
            };
            let path = manifest.file.manifest_path.clone();
            self.read.lock().unwrap().manifests.insert(path, Arc::clone(&manifest));
            manifests.push(manifest);
        }
        self.read.lock().unwrap().lists.insert(snapshot.manifest_list().to_owned(), manifests.clone());
        manifests
    }

    /// The manifests of the current snapshot.
    pub(crate) async fn current(&self, table: &Table) -> Vec<Arc<Manifest>> {
        match table.metadata().current_snapshot() {
            Some(snapshot) => self.manifests(table, snapshot).await,
            None => Vec::new(),
        }
    }

    /// The rows of a file, and whether it was read for the first time.
    pub(crate) async fn rows(&self, file: &DataFile) -> (Arc<Vec<Row>>, bool) {
        if let Some(rows) = self.read.lock().unwrap().rows.get(file.file_path()) {
            return (Arc::clone(rows), false);
        }
        let bytes = self.world.catalog.store().read(file.file_path()).await.unwrap();
        let rows = Arc::new(files::decode(bytes));
        self.read.lock().unwrap().rows.insert(file.file_path().to_owned(), Arc::clone(&rows));
        (rows, true)
    }

    /// The positions in a delete file.
    async fn positions(&self, file: &DataFile) -> Arc<Vec<Position>> {
        if let Some(positions) = self.read.lock().unwrap().positions.get(file.file_path()) {
            return Arc::clone(positions);
        }
        let bytes = self.world.catalog.store().read(file.file_path()).await.unwrap();
        let positions = Arc::new(files::decode_positions(bytes));
        self.read.lock().unwrap().positions.insert(file.file_path().to_owned(), Arc::clone(&positions));
        positions
    }

    /// The live data files with their specs, and their rows that no delete file hides, by position.
    async fn live(&self, table: &Table) -> Vec<LiveFile> {
        let manifests = self.current(table).await;
        let (data, deletes): (Vec<_>, Vec<_>) =
            manifests.iter().partition(|manifest| manifest.file.content == ManifestContentType::Data);
        let mut hidden = BTreeSet::new();
        for entry in deletes.iter().flat_map(|manifest| manifest.live()) {
            assert_eq!(entry.content_type(), DataContentType::PositionDeletes, "nobody deletes by equality");
            hidden.extend(self.positions(entry.data_file()).await.iter().cloned());
        }
        let mut live = Vec::new();
        for manifest in data {
            for entry in manifest.live() {
                let file = entry.data_file().clone();
                let rows = self.rows(&file).await.0;
                let is_seen = |position: &u64| !hidden.contains(&(file.file_path().to_owned(), *position));
                let rows = (0..).zip(rows.iter().cloned()).filter(|(position, _)| is_seen(position)).collect();
                live.push(LiveFile { spec_id: manifest.file.partition_spec_id, file, rows });
            }
        }
        live
    }

    /// The rows that no delete file hides.
    pub(crate) async fn live_rows(&self, table: &Table) -> Vec<Row> {
        self.live(table).await.into_iter().flat_map(|live| live.rows).map(|(_, row)| row).collect()
    }

    /// Every file that the table refers to, from any snapshot.
    pub(crate) async fn referenced(&self, table: &Table) -> BTreeSet<String> {
        let metadata = table.metadata();
        let mut referenced = BTreeSet::from([table.metadata_location().unwrap().to_owned()]);
        referenced.extend(metadata.metadata_log().iter().map(|entry| entry.metadata_file.clone()));
        for snapshot in metadata.snapshots() {
            referenced.insert(snapshot.manifest_list().to_owned());
            for manifest in self.manifests(table, snapshot).await {
                referenced.insert(manifest.file.manifest_path.clone());
                referenced.extend(manifest.live().map(|entry| entry.file_path().to_owned()));
            }
        }
        self.read.lock().unwrap().referenced.extend(referenced.iter().cloned());
        referenced
    }

    /// Takes note of what the table refers to now: soon it may have expired.
    pub(crate) async fn look(&self) {
        self.referenced(&self.world.load().await).await;
    }

    /// Every file that the table was ever seen to refer to.
    pub(crate) fn ever_referenced(&self) -> BTreeSet<String> {
        self.read.lock().unwrap().referenced.clone()
    }

    fn new_path(&self, metadata: &TableMetadata) -> String {
        format!("{}/data/{:05}.parquet", metadata.location(), self.world.environment.uuid().as_u128())
    }

    async fn put(&self, file: &DataFile, bytes: Bytes) {
        let mut upload = self.world.catalog.store().create(file.file_path()).await.unwrap();
        upload.write(bytes).await.unwrap();
        upload.finish().await.unwrap();
    }

    /// Writes rows as files of the table as it is now.
    async fn write(&self, metadata: &TableMetadata, rows: Vec<Row>, bounds: Bounds) -> Vec<DataFile> {
        let mut written = Vec::new();
        for (partition, rows) in files::split(metadata.default_partition_spec(), rows) {
            let (bytes, file) = files::encode(metadata, self.new_path(metadata), partition, &rows, bounds);
            self.put(&file, bytes).await;
            self.read.lock().unwrap().rows.insert(file.file_path().to_owned(), Arc::new(rows));
            written.push(file);
        }
        written
    }

    /// A batch with its files written.
    pub(crate) async fn batch(&self, contents: &Contents) -> BatchCommit {
        let table = self.world.load().await;
        let mut written = Vec::new();
        for rows in contents.rows.chunks(contents.rows.len().div_ceil(contents.files).max(1)) {
            written.extend(self.write(table.metadata(), rows.to_vec(), Bounds::Full).await);
        }
        let batch_id = BatchId::try_from(contents.id.as_str()).unwrap();
        BatchCommit {
            batch_id,
            content_sha256: Sha256Hex::of(format!("{:?}", contents.rows)),
            on_changed_input: contents.other_rows,
            force: contents.force,
            ..self.world.batch_of(&contents.id, written).await
        }
    }

    /// Does it, and tells what changed.
    pub(crate) async fn act(&self, act: &Act) -> Effect {
        if let Act::Batch(contents) = act {
            let batch = self.batch(contents).await;
            let rival = Committer::new(self.world.catalog.clone(), self.world.environment.clone());
            let result = rival.commit(&batch).await;
            return Effect::Commit { contents: contents.clone(), written_for: batch.written_for, result };
        }
        let table = self.world.load().await;
        let metadata = table.metadata();
        match act {
            Act::Append { rows, bounds } => {
                let rows: Vec<Row> = rows.iter().map(|row| with_note(row, metadata)).collect();
                let written = self.write(metadata, rows.clone(), *bounds).await;
                self.world.stock_append(written).await;
                let id = self.world.load().await.metadata().current_snapshot_id().unwrap();
                Effect::Snapshot { id, change: Change::Append(rows) }
            }
            Act::Other(Deed::Compact { chosen, bounds }) => self.compact(&table, *chosen, *bounds).await,
            Act::Other(Deed::Delete { remainder, positions, bounds }) => {
                self.delete(&table, *remainder, *positions, *bounds).await
            }
            Act::Other(Deed::Partition(partitioning)) => self.partition(*partitioning).await,
            Act::Other(Deed::Column { drop }) => self.change_column(metadata, *drop).await,
            Act::Other(Deed::RollBack { to }) => self.roll_back(metadata, *to).await,
            Act::Other(Deed::Expire { oldest, files }) => self.expire(&table, *oldest, *files).await,
            Act::Other(Deed::Ledger(loss)) => self.lose_ledger(metadata, *loss).await,
            Act::Batch(_) | Act::Other(Deed::Batch(_) | Deed::Append { .. }) => {
                unreachable!("they are acts of their own")
            }
        }
    }

    async fn compact(&self, table: &Table, chosen: u8, bounds: Bounds) -> Effect {
        let mut partitions: BTreeMap<String, Vec<LiveFile>> = BTreeMap::new();
        for live in self.live(table).await {
            partitions.entry(live.partition()).or_default().push(live);
        }
        let is_chosen = |number: usize| chosen >> (number % 8) & 1 == 1;
        let chosen: Vec<LiveFile> =
            partitions.into_values().enumerate().filter(|(n, _)| is_chosen(*n)).flat_map(|(_, files)| files).collect();
        if chosen.is_empty() {
            return Effect::Nothing;
        }
        let removed = chosen.iter().map(|live| live.file.file_path().to_owned()).collect();
        let mut rows: Vec<Row> = chosen.into_iter().flat_map(|live| live.rows).map(|(_, row)| row).collect();
        // Rows of all batches, mixed.
        rows.sort_by_key(|row| row.number);
        let added = self.write(table.metadata(), rows, bounds).await;
        let replacement = Replacement { removed, added, ..Replacement::default() };
        Effect::Snapshot { id: self.replace(table, Operation::Replace, replacement).await, change: Change::Compact }
    }

    async fn delete(&self, table: &Table, remainder: i64, positions: bool, bounds: Bounds) -> Effect {
        let mut replacement = Replacement::default();
        let mut by_partition: BTreeMap<String, (LiveFile, Vec<Position>)> = BTreeMap::new();
        for live in self.live(table).await {
            let path = live.file.file_path().to_owned();
            let (gone, kept): (Vec<_>, Vec<_>) =
                live.rows.iter().cloned().partition(|(_, row)| row.number % 3 == remainder);
            if gone.is_empty() {
                continue;
            }
            if positions {
                let (_, deleted) = by_partition.entry(live.partition()).or_insert_with(|| (live, Vec::new()));
                deleted.extend(gone.into_iter().map(|(position, _)| (path.clone(), position)));
            } else {
                replacement.removed.insert(path);
                let kept = kept.into_iter().map(|(_, row)| row).collect();
                replacement.added.extend(self.write(table.metadata(), kept, bounds).await);
            }
        }
        for (one, mut deleted) in by_partition.into_values() {
            deleted.sort();
            let path = self.new_path(table.metadata());
            let (bytes, file) = files::encode_positions(path, &one.file, one.spec_id, &deleted);
            self.put(&file, bytes).await;
            replacement.deletes.push((one.spec_id, file));
        }
        if replacement.removed.is_empty() && replacement.deletes.is_empty() {
            return Effect::Nothing;
        }
        let operation = if positions { Operation::Delete } else { Operation::Overwrite };
        Effect::Snapshot { id: self.replace(table, operation, replacement).await, change: Change::Delete { remainder } }
    }

    /// A snapshot with some files in the place of others.
    async fn replace(&self, table: &Table, operation: Operation, replacement: Replacement) -> i64 {
        let Replacement { removed, added, deletes } = replacement;
        let metadata = table.metadata();
        let attempt = self.world.environment.uuid();
        let snapshot_id = i64::try_from(attempt.as_u128() << 20).unwrap();
        let writer = |number: usize, schema: &SchemaRef, spec_id: i32| {
            let path = format!("{}/metadata/foreign-{attempt}-{number}.avro", metadata.location());
            let output = table.file_io().new_output(path).unwrap();
            let spec = metadata.partition_spec_by_id(spec_id).unwrap().as_ref().clone();
            ManifestWriterBuilder::new(output, Some(snapshot_id), schema.clone(), spec)
        };
        let current = self.current(table).await;
        let mut manifests = Vec::new();
        let mut totals = Totals::default();
        for (number, manifest) in current.iter().enumerate() {
            let goes = |entry: &ManifestEntryRef| removed.contains(entry.file_path());
            manifest.live().filter(|entry| !goes(entry)).for_each(|entry| totals.count(entry.data_file()));
            if !manifest.live().any(goes) {
                manifests.extend(manifest.live().next().map(|_| manifest.file.clone()));
                continue;
            }
            let mut writer = writer(number, &manifest.schema, manifest.file.partition_spec_id).build_v2_data();
            for entry in manifest.live() {
                let (file, sequence) = (entry.data_file().clone(), entry.sequence_number().unwrap());
                if goes(entry) {
                    writer.add_delete_file(file, sequence, entry.file_sequence_number).unwrap();
                } else {
                    let added_by = entry.snapshot_id().unwrap();
                    writer.add_existing_file(file, added_by, sequence, entry.file_sequence_number).unwrap();
                }
            }
            manifests.push(writer.write_manifest_file().await.unwrap());
        }
        if !added.is_empty() {
            let (schema, spec_id) = (metadata.current_schema(), metadata.default_partition_spec_id());
            let mut writer = writer(current.len(), schema, spec_id).build_v2_data();
            for file in added {
                totals.count(&file);
                writer.add_file(file, -1).unwrap();
            }
            manifests.push(writer.write_manifest_file().await.unwrap());
        }
        for (number, (spec_id, file)) in (current.len() + 1..).zip(deletes) {
            let mut writer = writer(number, metadata.current_schema(), spec_id).build_v2_deletes();
            totals.count(&file);
            writer.add_file(file, -1).unwrap();
            manifests.push(writer.write_manifest_file().await.unwrap());
        }
        let additional_properties = totals.summary().into_iter().collect();
        let manifest_list = format!("{}/metadata/foreign-{attempt}.avro", metadata.location());
        let (parent, sequence_number) = (metadata.current_snapshot_id(), metadata.next_sequence_number());
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
            .with_summary(Summary { operation, additional_properties })
            .build();
        let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
        let set = TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference };
        self.world.update(vec![TableUpdate::AddSnapshot { snapshot }, set]).await;
        snapshot_id
    }

    async fn partition(&self, partitioning: Partitioning) -> Effect {
        let builder = UnboundPartitionSpec::builder();
        let spec = match partitioning {
            Partitioning::None => Ok(builder),
            Partitioning::Category => builder.add_partition_field(2, "category", Transform::Identity),
            Partitioning::BucketOfNumber => builder.add_partition_field(1, "n_bucket", Transform::Bucket(4)),
            Partitioning::StartOfBatchId => builder.add_partition_field(BATCH, "batch_start", Transform::Truncate(16)),
        };
        let spec = spec.unwrap().build();
        self.world.update(vec![TableUpdate::AddSpec { spec }, TableUpdate::SetDefaultSpec { spec_id: -1 }]).await;
        self.layout().await
    }

    async fn change_column(&self, metadata: &TableMetadata, drop: bool) -> Effect {
        let note = files::note_field(metadata);
        let text = Type::Primitive(PrimitiveType::String);
        let mut fields = Vec::new();
        for field in metadata.current_schema().as_struct().fields() {
            if Some(field.id) != note {
                fields.push(field.clone());
            } else if !drop {
                let renamed = if field.name == "note" { "remark" } else { "note" };
                fields.push(NestedField::optional(field.id, renamed, text.clone()).into());
            }
        }
        if note.is_none() {
            fields.push(NestedField::optional(metadata.last_column_id() + 1, "note", text).into());
        }
        let schema = Schema::builder().with_fields(fields).build().unwrap();
        self.world
            .update(vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }])
            .await;
        self.layout().await
    }

    async fn layout(&self) -> Effect {
        Effect::Layout(WrittenFor::of(self.world.load().await.metadata()))
    }

    async fn roll_back(&self, metadata: &TableMetadata, to: usize) -> Effect {
        let parent = |snapshot: &&SnapshotRef| metadata.snapshot_by_id(snapshot.parent_snapshot_id()?);
        let ancestors: Vec<&SnapshotRef> = std::iter::successors(metadata.current_snapshot(), parent).skip(1).collect();
        if ancestors.is_empty() {
            return Effect::Nothing;
        }
        let to = ancestors[to % ancestors.len()].snapshot_id();
        self.world.roll_back(to).await;
        Effect::RolledBack { to }
    }

    async fn expire(&self, table: &Table, oldest: Option<usize>, files: bool) -> Effect {
        let metadata = table.metadata();
        let others = metadata.snapshots().filter(|other| Some(other.snapshot_id()) != metadata.current_snapshot_id());
        let others: BTreeMap<i64, i64> = others.map(|other| (other.sequence_number(), other.snapshot_id())).collect();
        let ids: BTreeSet<i64> = others.into_values().take(oldest.unwrap_or(usize::MAX)).collect();
        if ids.is_empty() {
            return Effect::Nothing;
        }
        let before = self.referenced(table).await;
        self.world.update(vec![TableUpdate::RemoveSnapshots { snapshot_ids: ids.iter().copied().collect() }]).await;
        if files {
            let after = self.referenced(&self.world.load().await).await;
            for file in before.difference(&after) {
                self.world.catalog.store().delete(file).await.unwrap();
            }
        }
        Effect::Expired(ids)
    }

    async fn lose_ledger(&self, metadata: &TableMetadata, loss: LedgerLoss) -> Effect {
        let name = names::COMPLETED_BATCHES;
        match loss {
            LedgerLoss::Removed => {
                self.world.update(vec![TableUpdate::RemoveProperties { removals: vec![name.to_owned()] }]).await;
            }
            LedgerLoss::Garbage => self.world.set_property(name, "{broken").await,
            LedgerLoss::CutToNewest => {
                let json = metadata.properties().get(name);
                let ids: Option<Vec<String>> = json.and_then(|json| serde_json::from_str(json).ok());
                let Some(newest) = ids.as_deref().and_then(<[String]>::last) else { return Effect::Nothing };
                self.world.set_property(name, &format!("[\"{newest}\"]")).await;
            }
        }
        Effect::LedgerLost(loss)
    }
}

/// The `total-*` figures of a snapshot's summary.
#[derive(Default)]
pub(crate) struct Totals {
    data_files: u64,
    records: u64,
    bytes: u64,
    delete_files: u64,
    position_deletes: u64,
}

impl Totals {
    pub(crate) fn count(&mut self, file: &DataFile) {
        self.bytes += file.file_size_in_bytes();
        if file.content_type() == DataContentType::Data {
            self.data_files += 1;
            self.records += file.record_count();
        } else {
            self.delete_files += 1;
            self.position_deletes += file.record_count();
        }
    }

    pub(crate) fn summary(&self) -> [(String, String); 6] {
        [
            ("total-data-files", self.data_files),
            ("total-records", self.records),
            ("total-files-size", self.bytes),
            ("total-delete-files", self.delete_files),
            ("total-position-deletes", self.position_deletes),
            ("total-equality-deletes", 0),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_string()))
    }
}

/// A row with something in the column that comes and goes, if that is there.
fn with_note(row: &Row, metadata: &TableMetadata) -> Row {
    let note = files::note_field(metadata).map(|field| (field, format!("note {}", row.number)));
    Row { note, ..row.clone() }
}
