//! The state an attempt is decided on: one loaded table and the manifests of its current snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{
    DataContentType, DataFile, FormatVersion, ManifestContentType, ManifestEntryRef, ManifestFile, SchemaRef, Snapshot,
    SnapshotRef, TableMetadata,
};
use iceberg::table::Table;

use crate::filter::Filter;
use crate::history::batches_of;
use crate::ledger::head;
use crate::manifest_bytes::{ManifestBytes, Skimmed};
use crate::{Error, MetricsMode, refs};

/// How many manifests are fetched at once.
const CONCURRENT_READS: usize = 8;

/// Manifests never change, so those read for one attempt serve the next, and those of one batch the next batch. Where
/// the table's pointer is, and so which manifests are its own, is asked for each time.
#[derive(Debug, Default)]
pub(crate) struct ManifestCache {
    manifests: Mutex<HashMap<String, CachedManifest>>,
    /// Manifests of which not all entries were decoded.
    files: Mutex<HashMap<String, Bytes>>,
}

#[derive(Clone, Debug)]
struct CachedManifest {
    schema: SchemaRef,
    entries: Arc<Vec<ManifestEntryRef>>,
}

impl ManifestCache {
    /// A manifest with its entries.
    pub(crate) async fn manifest(&self, table: &Table, file: ManifestFile) -> Result<LoadedManifest, Error> {
        let known = self.manifests.lock().unwrap_or_else(PoisonError::into_inner).get(&file.manifest_path).cloned();
        if let Some(CachedManifest { schema, entries }) = known {
            return Ok(LoadedManifest { file, schema: Some(schema), entries, rest: None });
        }
        let manifest = file.load_manifest(table.file_io()).await.map_err(Error::iceberg("read a manifest"))?;
        let (entries, metadata) = manifest.into_parts();
        let read = CachedManifest { schema: metadata.schema().clone(), entries: Arc::new(entries) };
        let mut cache = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        let CachedManifest { schema, entries } = cache.entry(file.manifest_path.clone()).or_insert(read).clone();
        drop(cache);
        Ok(LoadedManifest { file, schema: Some(schema), entries, rest: None })
    }

    /// A manifest with those of its entries that are relevant; `None` when it has to be read whole.
    async fn relevant(&self, table: &Table, file: ManifestFile, relevance: &Relevance<'_>) -> Option<LoadedManifest> {
        let known = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(&file.manifest_path).cloned();
        let bytes = match known {
            Some(bytes) => bytes,
            None => {
                let bytes = table.file_io().new_input(&file.manifest_path).ok()?.read().await.ok()?;
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                files.insert(file.manifest_path.clone(), bytes.clone());
                bytes
            }
        };
        let is_relevant = |skimmed: &Skimmed<'_>| relevance.is_relevant(skimmed);
        let rest = ManifestBytes::read(&bytes, &file, relevance.field_id, is_relevant).ok()?;
        let (entries, places, schema) = rest.relevant().ok()?;
        let rest = Some(Rest { bytes: Arc::new(rest), places });
        Some(LoadedManifest { file, schema, entries: Arc::new(entries), rest })
    }

    /// Forgets most of what is not among `current`, so that a long series of commits holds about one table's manifests.
    fn trim(&self, current: &[LoadedManifest]) {
        let most = 2 * current.len() + CONCURRENT_READS;
        let current = || -> HashSet<&str> { current.iter().map(|loaded| loaded.file.manifest_path.as_str()).collect() };
        let mut cache = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() > most {
            let current = current();
            cache.retain(|path, _| current.contains(path.as_str()));
        }
        drop(cache);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() > most {
            let current = current();
            files.retain(|path, _| current.contains(path.as_str()));
        }
    }

    /// The manifests of a snapshot, in the order of its list.
    async fn manifests(&self, table: &Table, snapshot: &SnapshotRef) -> Result<Vec<LoadedManifest>, Error> {
        futures::stream::iter(list(table, snapshot).await?)
            .map(|file| self.manifest(table, file))
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await
    }
}

/// The manifest list of a snapshot.
async fn list(table: &Table, snapshot: &SnapshotRef) -> Result<Vec<ManifestFile>, Error> {
    let list = table.manifest_list_reader(snapshot).load().await;
    Ok(list.map_err(Error::iceberg("read the manifest list"))?.consume_entries().into_iter().collect())
}

/// Those of `files` that a retained snapshot of `table` refers to, as manifest list, manifest or data file. Only
/// snapshots from `since_ms` on, and those that a branch or tag is at, are looked at: others cannot know the files.
pub(crate) async fn referenced<'a>(
    table: &Table,
    since_ms: i64,
    files: &HashSet<&'a str>,
    cache: &ManifestCache,
) -> Result<HashSet<&'a str>, Error> {
    let mut referenced = HashSet::new();
    let mut seen = HashSet::new();
    let heads: HashSet<i64> =
        refs::of(table.metadata())?.into_values().map(|reference| reference.snapshot_id).collect();
    let may_know =
        |snapshot: &&SnapshotRef| snapshot.timestamp_ms() >= since_ms || heads.contains(&snapshot.snapshot_id());
    let mut snapshots: Vec<&SnapshotRef> = table.metadata().snapshots().filter(may_know).collect();
    snapshots.sort_unstable_by_key(|snapshot| snapshot.snapshot_id());
    for snapshot in snapshots {
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
    /// The schema it was written under: its partition spec may need columns that the table has no more. `None` when none of
    /// its entries was decoded.
    pub(crate) schema: Option<SchemaRef>,
    pub(crate) entries: Arc<Vec<ManifestEntryRef>>,
    /// The others, where `entries` are not all.
    pub(crate) rest: Option<Rest>,
}

/// A manifest of which only some entries were decoded.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    pub(crate) bytes: Arc<ManifestBytes>,
    /// Where the decoded entries are among those of live files.
    pub(crate) places: Vec<usize>,
}

/// Which entries a commit has to know: those whose files may hold rows it replaces, and those of its own files.
pub(crate) struct Relevance<'a> {
    filter: &'a Filter,
    own: HashSet<&'a str>,
    field_id: i32,
    /// The length to which the table cuts bounds of the column.
    cut: Option<usize>,
}

impl<'a> Relevance<'a> {
    /// `None` for rows that are not found by one column of text.
    pub(crate) fn of(table: &TableMetadata, filter: &'a Filter, own: HashSet<&'a str>) -> Option<Self> {
        let field_id = filter.only_text()?;
        let name = table.current_schema().name_by_field_id(field_id)?;
        let cut = match MetricsMode::of(table.properties(), name) {
            MetricsMode::Truncate(length) => Some(length),
            _ => None,
        };
        Some(Self { filter, own, field_id, cut })
    }

    fn is_relevant(&self, skimmed: &Skimmed<'_>) -> bool {
        self.own.contains(skimmed.path) || self.filter.may_have_text(skimmed.lower, skimmed.upper, self.cut)
    }
}

impl LoadedManifest {
    /// Whether it lists no live file.
    pub(crate) fn is_spent(&self) -> bool {
        match &self.rest {
            Some(rest) => rest.bytes.live_files() == 0,
            None => self.live().next().is_none(),
        }
    }

    /// The first row id of each entry, where the table has row ids: its own, or counted on from the manifest's.
    pub(crate) fn first_row_ids(&self) -> Vec<Option<i64>> {
        let mut next = self.file.first_row_id.map(u64::cast_signed);
        let inherited = self.entries.iter().map(|entry| match (entry.data_file().first_row_id(), next) {
            (Some(own), _) => Some(own),
            (None, Some(first)) if self.is_data() => {
                // Entries of removed files take no row ids.
                if entry.is_alive() {
                    next = Some(first + entry.record_count().cast_signed());
                }
                Some(first)
            }
            (None, _) => None,
        });
        inherited.collect()
    }

    pub(crate) fn is_data(&self) -> bool {
        self.file.content == ManifestContentType::Data
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &ManifestEntryRef> {
        self.entries.iter().filter(|entry| entry.is_alive())
    }
}

/// A freshly loaded table and all that a branch of it refers to now.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) table: Table,
    pub(crate) branch: String,
    /// The snapshot that the branch is at; `None` when there is no such branch yet.
    pub(crate) branch_head: Option<i64>,
    /// The snapshot that a commit builds on: the branch's, or the one that a new branch forks from.
    pub(crate) parent: Option<SnapshotRef>,
    pub(crate) manifests: Vec<LoadedManifest>,
    /// Manifests that were not read, as nothing in them can matter to the commit; then `manifests` is empty.
    pub(crate) unread: Vec<ManifestFile>,
    totals: Option<Totals>,
}

impl Base {
    /// The table without the entries of its manifests, for a commit that touches none of its files.
    ///
    /// `None` when that is not enough: when there are delete files, or the totals of the last snapshot are not ours.
    pub(crate) async fn load_untouched(table: &Table, branch: &str) -> Result<Option<Self>, Error> {
        let Some(parent) = head(table.metadata(), branch).cloned() else { return Ok(None) };
        let Some(totals) = Totals::told_by(&parent).filter(|_| !batches_of(&parent).is_empty()) else {
            return Ok(None);
        };
        let unread = list(table, &parent).await?;
        let counted = |file: &ManifestFile| file.added_files_count.is_some() && file.existing_files_count.is_some();
        if !unread.iter().all(|file| file.content == ManifestContentType::Data && counted(file)) {
            return Ok(None);
        }
        Ok(Some(Self {
            table: table.clone(),
            branch: branch.to_owned(),
            branch_head: table.metadata().snapshot_for_ref(branch).map(|snapshot| snapshot.snapshot_id()),
            parent: Some(parent),
            manifests: Vec::new(),
            unread,
            totals: Some(totals),
        }))
    }

    /// The table with those entries of its manifests that matter to a commit; the others are neither decoded nor encoded.
    ///
    /// `None` when that is not enough, or not understood: where there are row ids or delete files, and in manifests that
    /// are not as the specification has them.
    pub(crate) async fn load_relevant(
        table: &Table,
        branch: &str,
        relevance: &Relevance<'_>,
        cache: &ManifestCache,
    ) -> Result<Option<Self>, Error> {
        let Some(parent) = head(table.metadata(), branch).cloned() else { return Ok(None) };
        if table.metadata().format_version() != FormatVersion::V2 {
            return Ok(None);
        }
        let files = list(table, &parent).await?;
        if files.iter().any(|file| file.content != ManifestContentType::Data) {
            return Ok(None);
        }
        let manifests: Vec<Option<LoadedManifest>> = futures::stream::iter(files)
            .map(|file| cache.relevant(table, file, relevance))
            .buffered(CONCURRENT_READS)
            .collect()
            .await;
        let Some(manifests) = manifests.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        cache.trim(&manifests);
        let mut totals = Totals::default();
        for (rows, bytes) in
            manifests.iter().filter_map(|loaded| loaded.rest.as_ref()).flat_map(|rest| rest.bytes.sizes())
        {
            totals.records = totals.records.saturating_add(rows);
            totals.data_files = totals.data_files.saturating_add(1);
            totals.bytes = totals.bytes.saturating_add(bytes);
        }
        Ok(Some(Self {
            table: table.clone(),
            branch: branch.to_owned(),
            branch_head: table.metadata().snapshot_for_ref(branch).map(|snapshot| snapshot.snapshot_id()),
            parent: Some(parent),
            manifests,
            unread: Vec::new(),
            totals: Some(totals),
        }))
    }

    pub(crate) async fn load(table: Table, branch: &str, cache: &ManifestCache) -> Result<Self, Error> {
        if table.metadata().format_version() == FormatVersion::V1 {
            return Err(Error::Unsuitable {
                table: table.identifier().to_string(),
                reason: "has format version 1; upgrade it to 2 (set its property format-version)".to_owned(),
            });
        }
        let branch_head = table.metadata().snapshot_for_ref(branch).map(|snapshot| snapshot.snapshot_id());
        let parent = head(table.metadata(), branch).cloned();
        let manifests = match &parent {
            Some(snapshot) => cache.manifests(&table, snapshot).await?,
            None => Vec::new(),
        };
        cache.trim(&manifests);
        let branch = branch.to_owned();
        Ok(Self { table, branch, branch_head, parent, manifests, unread: Vec::new(), totals: None })
    }

    pub(crate) fn metadata(&self) -> &TableMetadata {
        self.table.metadata()
    }

    /// Paths of the live files whose entries were read.
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

    /// What the table holds, counted from its entries: summaries of other writers are not always right. Only where the entries
    /// were not read it is what our own last snapshot says.
    pub(crate) fn totals(&self) -> Totals {
        if let Some(totals) = &self.totals {
            return totals.clone();
        }
        let mut totals = Totals::default();
        for entry in self.manifests.iter().flat_map(LoadedManifest::live) {
            totals.add(entry.data_file());
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
    /// What the summary of a snapshot says.
    fn told_by(snapshot: &Snapshot) -> Option<Self> {
        let properties = &snapshot.summary().additional_properties;
        let [records, data_files, delete_files, position_deletes, equality_deletes, bytes] =
            Self::NAMES.map(|name| properties.get(name).and_then(|value| value.parse().ok()));
        Some(Self {
            records: records?,
            data_files: data_files?,
            delete_files: delete_files?,
            position_deletes: position_deletes?,
            equality_deletes: equality_deletes?,
            bytes: bytes?,
        })
    }

    const NAMES: [&str; 6] = [
        "total-records",
        "total-data-files",
        "total-delete-files",
        "total-position-deletes",
        "total-equality-deletes",
        "total-files-size",
    ];

    pub(crate) fn add(&mut self, file: &DataFile) {
        self.count(file, u64::saturating_add);
    }

    /// Takes away a file that was added before.
    pub(crate) fn remove(&mut self, file: &DataFile) {
        self.count(file, u64::saturating_sub);
    }

    fn count(&mut self, file: &DataFile, count: fn(u64, u64) -> u64) {
        self.bytes = count(self.bytes, file.file_size_in_bytes());
        let (rows, files) = match file.content_type() {
            DataContentType::Data => (&mut self.records, &mut self.data_files),
            DataContentType::PositionDeletes => (&mut self.position_deletes, &mut self.delete_files),
            DataContentType::EqualityDeletes => (&mut self.equality_deletes, &mut self.delete_files),
        };
        *rows = count(*rows, file.record_count());
        *files = count(*files, 1);
    }

    pub(crate) fn summary(&self) -> [(String, String); 6] {
        let values = [
            self.records,
            self.data_files,
            self.delete_files,
            self.position_deletes,
            self.equality_deletes,
            self.bytes,
        ];
        let mut values = values.into_iter();
        Self::NAMES.map(|name| (name.to_owned(), values.next().unwrap_or_default().to_string()))
    }
}
