//! Everything a table refers to.

use std::collections::{HashMap, HashSet};

use futures::TryStreamExt;
use hexfloe_store::{Location, Store};
use iceberg::TableIdent;
use iceberg::spec::{Snapshot, TableMetadata};
use iceberg::table::Table;

use crate::error::{Error, Refusal};
use crate::manifests::{Listed, Named};
use crate::paths::{EqualSchemes, Found, Paths, Unplaced};
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
    store: Store,
    /// Local folders that were looked at, with what they are when links are followed.
    folders: HashMap<String, Option<Location>>,
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
    pub(crate) fn new(store: Store, equal: EqualSchemes, which: Which) -> Self {
        let (paths, read, folders) = (Paths::new(equal), HashSet::new(), HashMap::new());
        Self { paths, read, which, store, folders, snapshots: 0, manifests: 0 }
    }

    /// Adds a file, under the name that metadata has for it and under the one it has when links are followed.
    fn insert(&mut self, path: &str) -> Result<(), Unplaced> {
        self.paths.insert(path)?;
        let is_local = path.starts_with('/') || path.starts_with("file:");
        let Some((folder, name)) = path.rsplit_once('/').filter(|_| is_local) else { return Ok(()) };
        match self.linked(folder) {
            Some(real) => self.paths.insert(&format!("{real}/{name}")),
            None => Ok(()),
        }
    }

    /// What a local folder is when links are followed, if that is another one.
    fn linked(&mut self, folder: &str) -> Option<Location> {
        if let Some(known) = self.folders.get(folder) {
            return known.clone();
        }
        let real = Location::parse(folder).ok().and_then(|folder| self.store.linked(&folder));
        self.folders.insert(folder.to_owned(), real.clone());
        real
    }

    /// Whether the table refers to a file, or to one that is the same when links are followed.
    pub(crate) fn names(&mut self, file: &Location) -> bool {
        let prefix = self.prefix(file);
        if self.find(prefix, file.key()) != Found::No {
            return true;
        }
        let text = file.to_string();
        let Some((folder, name)) = text.rsplit_once('/') else { return false };
        let real = self.linked(folder).and_then(|real| real.join(name).ok());
        real.is_some_and(|real| self.find(prefix, real.key()) != Found::No)
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
            self.insert(&path).map_err(|_| unplaced(&path))?;
        }
        let manifests = self.manifests_of(table, reading).await?;
        self.manifests += manifests.len() as u64;
        let which = self.which;
        let mut files = std::pin::pin!(reading.manifests(manifests));
        while let Some(files) = files.try_next().await? {
            for Named { path, .. } in files.iter().filter(|file| which == Which::All || file.is_live) {
                self.insert(path).map_err(|_| unplaced(path))?;
            }
        }
        Ok(())
    }

    /// The manifests of all snapshots that have not been read yet. They and their lists are added.
    async fn manifests_of(&mut self, table: State<'_>, reading: &Reading) -> Result<Vec<Listed>, Error> {
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
            self.insert(list).map_err(|_| Error::refused(&ident, Refusal::Unplaced { path: list.to_owned() }))?;
            if self.read.insert(list.to_owned()) {
                self.snapshots += 1;
                lists.push((list.to_owned(), may_be_empty(snapshot)));
            }
        }
        lists.sort_unstable();
        let version = metadata.format_version();
        let mut lists = std::pin::pin!(reading.lists(lists, version));
        let mut manifests = Vec::new();
        while let Some(found) = lists.try_next().await? {
            for listed in found {
                if self.read.contains(&listed.path) {
                    continue;
                }
                self.insert(&listed.path)
                    .map_err(|_| Error::refused(&ident, Refusal::Unplaced { path: listed.path.clone() }))?;
                self.read.insert(listed.path.clone());
                manifests.push(listed);
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

/// Whether a snapshot may have an empty manifest list: it does not say that it has files.
pub(crate) fn may_be_empty(snapshot: &Snapshot) -> bool {
    let total =
        |name: &str| snapshot.summary().additional_properties.get(name).and_then(|total| total.parse::<u64>().ok());
    total("total-data-files").unwrap_or(0) == 0 && total("total-delete-files").unwrap_or(0) == 0
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
