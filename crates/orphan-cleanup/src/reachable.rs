//! Everything a table refers to.

use std::collections::HashSet;

use futures::TryStreamExt;
use hexfloe_store::Location;
use iceberg::TableIdent;
use iceberg::spec::TableMetadata;
use iceberg::table::Table;

use crate::error::{Error, Refusal};
use crate::manifests::{self, Named};
use crate::paths::{EqualSchemes, Found, Paths};
use crate::reading::Reading;

/// The files that a table refers to, as hashes: from every snapshot in its metadata, whichever ref has it or none, its
/// metadata log and its statistics.
///
/// It grows when the table is looked at again. Manifests never change, so each is read once.
#[derive(Debug)]
pub(crate) struct Reachable {
    pub(crate) paths: Paths,
    read: HashSet<String>,
    which: Which,
    pub(crate) snapshots: u64,
    pub(crate) manifests: u64,
}

/// Which entries of a manifest count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All, whatever their status.
    All,
    /// Those of files that the snapshot has.
    Live,
}

impl Reachable {
    pub(crate) fn new(equal: EqualSchemes, which: Which) -> Self {
        Self { paths: Paths::new(equal), read: HashSet::new(), which, snapshots: 0, manifests: 0 }
    }

    /// Adds what a table refers to as it was loaded.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unreadable`] and [`Refusal::Unplaced`], or the store's failure.
    pub(crate) async fn add(&mut self, table: State<'_>, reading: &Reading) -> Result<(), Error> {
        let ident = table.ident.to_string();
        let unplaced = |path: &str| Error::refused(&ident, Refusal::Unplaced { path: path.to_owned() });
        for path in table.own_files() {
            self.paths.insert(&path).map_err(|_| unplaced(&path))?;
        }
        let manifests = self.manifests_of(table, reading).await?;
        self.manifests += manifests.len() as u64;
        let which = self.which;
        let mut files = std::pin::pin!(reading.all(manifests, manifests::of_manifest));
        while let Some(files) = files.try_next().await? {
            for Named { path, .. } in files.iter().filter(|file| which == Which::All || file.is_live) {
                self.paths.insert(path).map_err(|_| unplaced(path))?;
            }
        }
        Ok(())
    }

    /// The manifests of all snapshots that have not been read yet. They and their lists are added.
    async fn manifests_of(&mut self, table: State<'_>, reading: &Reading) -> Result<Vec<String>, Error> {
        let metadata = table.metadata;
        let ident = table.ident.to_string();
        let mut lists = Vec::new();
        for snapshot in metadata.snapshots() {
            let list = snapshot.manifest_list();
            if list.is_empty() {
                let file = table.file.unwrap_or_default().to_owned();
                let reason = format!("its snapshot {} has no manifest list", snapshot.snapshot_id());
                return Err(Error::refused(&ident, Refusal::Unreadable { file, reason }));
            }
            self.paths.insert(list).map_err(|_| Error::refused(&ident, Refusal::Unplaced { path: list.to_owned() }))?;
            if self.read.insert(list.to_owned()) {
                self.snapshots += 1;
                lists.push(list.to_owned());
            }
        }
        lists.sort_unstable();
        let version = metadata.format_version();
        let mut found = std::pin::pin!(reading.all(lists, move |bytes| manifests::of_list(bytes, version)));
        let mut manifests = Vec::new();
        while let Some(paths) = found.try_next().await? {
            for path in paths {
                if self.read.contains(&path) {
                    continue;
                }
                self.paths
                    .insert(&path)
                    .map_err(|_| Error::refused(&ident, Refusal::Unplaced { path: path.clone() }))?;
                self.read.insert(path.clone());
                manifests.push(path);
            }
        }
        // Listed in any order, read in one.
        manifests.sort_unstable();
        Ok(manifests)
    }

    /// What is known of a listed key below `root`.
    pub(crate) fn find(&self, prefix: u8, key: &str) -> Found {
        self.paths.find(prefix, key)
    }

    /// The index under which what lies in a place is looked for.
    pub(crate) fn prefix(&mut self, place: &Location) -> u8 {
        // Not more places than a table names.
        self.paths.prefix(place.scheme(), place.authority()).unwrap_or(u8::MAX - 1)
    }
}

/// A table as it was loaded, or as it would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State<'a> {
    pub(crate) ident: &'a TableIdent,
    pub(crate) metadata: &'a TableMetadata,
    /// Its metadata file.
    pub(crate) file: Option<&'a str>,
}

impl<'a> State<'a> {
    pub(crate) fn of(table: &'a Table) -> Self {
        Self { ident: table.identifier(), metadata: table.metadata(), file: table.metadata_location() }
    }

    /// The files that metadata refers to besides its snapshots' own: itself, its log, statistics, and the hint at it.
    fn own_files(&self) -> Vec<String> {
        let metadata = self.metadata;
        let log = metadata.metadata_log().iter().map(|entry| entry.metadata_file.clone());
        let statistics = metadata.statistics_iter().map(|file| file.statistics_path.clone());
        let partitions = metadata.partition_statistics_iter().map(|file| file.statistics_path.clone());
        let hint = format!("{}/metadata/version-hint.text", metadata.location().trim_end_matches('/'));
        self.file.map(str::to_owned).into_iter().chain(log).chain(statistics).chain(partitions).chain([hint]).collect()
    }
}
