//! The state an attempt is decided on: one loaded table and the manifests of its current snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{
    DataContentType, DataFile, FormatVersion, ManifestContentType, ManifestEntryRef, ManifestFile, SchemaRef,
    SnapshotRef, TableMetadata,
};
use iceberg::table::Table;

use crate::Error;

/// How many manifests are fetched at once.
const CONCURRENT_READS: usize = 8;

/// Manifests never change, so those read for one attempt serve the next, and those of one batch the next batch. Table
/// metadata is never kept.
#[derive(Debug, Default)]
pub(crate) struct ManifestCache {
    manifests: Mutex<HashMap<String, CachedManifest>>,
}

#[derive(Clone, Debug)]
struct CachedManifest {
    schema: SchemaRef,
    entries: Arc<Vec<ManifestEntryRef>>,
}

impl ManifestCache {
    async fn manifest(&self, table: &Table, file: ManifestFile) -> Result<LoadedManifest, Error> {
        let known = self.manifests.lock().unwrap_or_else(PoisonError::into_inner).get(&file.manifest_path).cloned();
        if let Some(CachedManifest { schema, entries }) = known {
            return Ok(LoadedManifest { file, schema, entries });
        }
        let manifest = file.load_manifest(table.file_io()).await.map_err(Error::iceberg("read a manifest"))?;
        let (entries, metadata) = manifest.into_parts();
        let read = CachedManifest { schema: metadata.schema().clone(), entries: Arc::new(entries) };
        let mut cache = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        let CachedManifest { schema, entries } = cache.entry(file.manifest_path.clone()).or_insert(read).clone();
        drop(cache);
        Ok(LoadedManifest { file, schema, entries })
    }

    /// Forgets most of what is not among `current`, so that a long series of commits holds about one table's manifests.
    fn trim(&self, current: &[LoadedManifest]) {
        let mut cache = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() > 2 * current.len() + CONCURRENT_READS {
            let current: HashSet<&str> = current.iter().map(|loaded| loaded.file.manifest_path.as_str()).collect();
            cache.retain(|path, _| current.contains(path.as_str()));
        }
    }

    /// The manifests of a snapshot, in the order of its list.
    async fn manifests(&self, table: &Table, snapshot: &SnapshotRef) -> Result<Vec<LoadedManifest>, Error> {
        let list = table.manifest_list_reader(snapshot).load().await;
        let files: Vec<ManifestFile> =
            list.map_err(Error::iceberg("read the manifest list"))?.consume_entries().into_iter().collect();
        futures::stream::iter(files)
            .map(|file| self.manifest(table, file))
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await
    }
}

/// Those of `files` that a retained snapshot of `table` refers to, as manifest list, manifest or data file. Only
/// snapshots from `since_ms` on, and the current one, are looked at: older ones cannot know the files.
pub(crate) async fn referenced<'a>(
    table: &Table,
    since_ms: i64,
    files: &HashSet<&'a str>,
    cache: &ManifestCache,
) -> Result<HashSet<&'a str>, Error> {
    let mut referenced = HashSet::new();
    let mut seen = HashSet::new();
    let current = table.metadata().current_snapshot_id();
    let may_know =
        |snapshot: &&SnapshotRef| snapshot.timestamp_ms() >= since_ms || Some(snapshot.snapshot_id()) == current;
    for snapshot in table.metadata().snapshots().filter(may_know) {
        referenced.extend(files.get(snapshot.manifest_list()));
        for manifest in cache.manifests(table, snapshot).await? {
            let path = &manifest.file.manifest_path;
            referenced.extend(files.get(path.as_str()));
            if seen.insert(path.clone()) {
                referenced.extend(manifest.entries.iter().filter_map(|entry| files.get(entry.file_path())));
            }
        }
    }
    Ok(referenced)
}

/// A manifest of the current snapshot with its entries, whose ids and sequence numbers are filled in.
#[derive(Clone, Debug)]
pub(crate) struct LoadedManifest {
    pub(crate) file: ManifestFile,
    /// The schema it was written under: its partition spec may need columns that the table has no more.
    pub(crate) schema: SchemaRef,
    pub(crate) entries: Arc<Vec<ManifestEntryRef>>,
}

impl LoadedManifest {
    pub(crate) fn is_data(&self) -> bool {
        self.file.content == ManifestContentType::Data
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &ManifestEntryRef> {
        self.entries.iter().filter(|entry| entry.is_alive())
    }
}

/// A freshly loaded table and all it refers to now.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) table: Table,
    pub(crate) manifests: Vec<LoadedManifest>,
}

impl Base {
    pub(crate) async fn load(table: Table, cache: &ManifestCache) -> Result<Self, Error> {
        if table.metadata().format_version() != FormatVersion::V2 {
            return Err(Error::Unsuitable {
                table: table.identifier().to_string(),
                reason: format!(
                    "has format version {}; only version 2 can be overwritten yet",
                    table.metadata().format_version() as u8
                ),
            });
        }
        let manifests = match table.metadata().current_snapshot() {
            Some(snapshot) => cache.manifests(&table, snapshot).await?,
            None => Vec::new(),
        };
        cache.trim(&manifests);
        Ok(Self { table, manifests })
    }

    pub(crate) fn metadata(&self) -> &TableMetadata {
        self.table.metadata()
    }

    /// Paths of all live files.
    pub(crate) fn live_paths(&self) -> HashSet<&str> {
        self.manifests.iter().flat_map(LoadedManifest::live).map(|entry| entry.file_path()).collect()
    }

    /// The snapshot that added `files`, when there are any and all of them are live.
    pub(crate) fn added_by(&self, files: &[DataFile]) -> Option<i64> {
        let live: HashMap<&str, Option<i64>> = self
            .manifests
            .iter()
            .flat_map(LoadedManifest::live)
            .map(|entry| (entry.file_path(), entry.snapshot_id()))
            .collect();
        let mut added = files.iter().map(|file| live.get(file.file_path()).copied().flatten());
        let first = added.next()??;
        added.all(|other| other.is_some()).then_some(first)
    }

    /// A live delete file, if there is any.
    pub(crate) fn any_delete_file(&self) -> Option<&str> {
        let deletes = self.manifests.iter().filter(|manifest| !manifest.is_data());
        deletes.flat_map(LoadedManifest::live).map(|entry| entry.file_path()).next()
    }

    /// What the table holds, counted from its entries: summaries of other writers are not always right.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for entry in self.manifests.iter().flat_map(LoadedManifest::live) {
            totals.add(entry);
        }
        totals
    }
}

/// The `total-*` figures of a snapshot summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) records: u64,
    pub(crate) data_files: u64,
    pub(crate) delete_files: u64,
    pub(crate) position_deletes: u64,
    pub(crate) equality_deletes: u64,
    pub(crate) bytes: u64,
}

impl Totals {
    fn add(&mut self, entry: &ManifestEntryRef) {
        self.bytes += entry.file_size_in_bytes();
        match entry.content_type() {
            DataContentType::Data => {
                self.records += entry.record_count();
                self.data_files += 1;
            }
            DataContentType::PositionDeletes => {
                self.position_deletes += entry.record_count();
                self.delete_files += 1;
            }
            DataContentType::EqualityDeletes => {
                self.equality_deletes += entry.record_count();
                self.delete_files += 1;
            }
        }
    }

    pub(crate) fn summary(&self) -> [(String, String); 6] {
        [
            ("total-records", self.records),
            ("total-data-files", self.data_files),
            ("total-delete-files", self.delete_files),
            ("total-position-deletes", self.position_deletes),
            ("total-equality-deletes", self.equality_deletes),
            ("total-files-size", self.bytes),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_string()))
    }
}
