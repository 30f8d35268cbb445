//! The state an attempt is decided on: one loaded table and the manifests of its current snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt};
use iceberg::spec::{
    DataContentType, FormatVersion, ManifestContentType, ManifestEntryRef, ManifestFile, TableMetadata,
};
use iceberg::table::Table;

use crate::Error;

/// How many manifests are fetched at once.
const CONCURRENT_READS: usize = 8;

/// Manifests never change, so those read for one attempt serve the next. Table metadata is never kept.
#[derive(Debug, Default)]
pub(crate) struct ManifestCache {
    entries: Mutex<HashMap<String, Arc<Vec<ManifestEntryRef>>>>,
}

impl ManifestCache {
    async fn entries(&self, table: &Table, file: &ManifestFile) -> Result<Arc<Vec<ManifestEntryRef>>, Error> {
        let known = self.entries.lock().unwrap_or_else(PoisonError::into_inner).get(&file.manifest_path).cloned();
        if let Some(entries) = known {
            return Ok(entries);
        }
        let manifest = file.load_manifest(table.file_io()).await.map_err(Error::iceberg("read a manifest"))?;
        let entries = Arc::new(manifest.into_parts().0);
        let mut cache = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(file.manifest_path.clone(), Arc::clone(&entries));
        Ok(entries)
    }
}

/// A manifest of the current snapshot with its entries, whose ids and sequence numbers are filled in.
#[derive(Clone, Debug)]
pub(crate) struct LoadedManifest {
    pub(crate) file: ManifestFile,
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
        let files = match table.metadata().current_snapshot() {
            Some(snapshot) => {
                let list = table.manifest_list_reader(snapshot).load().await;
                list.map_err(Error::iceberg("read the manifest list"))?.consume_entries().into_iter().collect()
            }
            None => Vec::new(),
        };
        let manifests = futures::stream::iter(files)
            .map(|file| {
                let table = &table;
                async move {
                    let entries = cache.entries(table, &file).await?;
                    Ok::<_, Error>(LoadedManifest { file, entries })
                }
            })
            .buffered(CONCURRENT_READS)
            .try_collect()
            .await?;
        Ok(Self { table, manifests })
    }

    pub(crate) fn metadata(&self) -> &TableMetadata {
        self.table.metadata()
    }

    /// Paths of all live files.
    pub(crate) fn live_paths(&self) -> HashSet<&str> {
        self.manifests.iter().flat_map(LoadedManifest::live).map(|entry| entry.file_path()).collect()
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
