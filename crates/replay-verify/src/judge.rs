//! What must hold when a run is over, looked at without gates: every snapshot reads fully and holds the batches that its history
//! says, each once; nobody's commit was lost; and in the end no file is left that nothing refers to.
//!
//! What a snapshot has to hold follows from the swaps of the table's pointer alone: what its parent held, and the batches that its
//! own summary names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::{LazyLock, PoisonError};

use bytes::Bytes;
use hexfloe_batch::BatchId;
use hexfloe_catalog::OpenCatalog;
use hexfloe_commit::{BatchCommit, names};
use iceberg::spec::{DataContentType, Snapshot, SnapshotRef, TableMetadata};
use iceberg::table::Table;
use serde_json::Value;

use crate::catalog::Version;
use crate::process::{Lake, Report, told};
use crate::roles::BRANCHES;
use crate::table::{self, Row, Trouble};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A snapshot in the metadata cannot be read.
    #[error("snapshot {snapshot_id} cannot be read: {reason}")]
    Unreadable {
        /// The snapshot.
        snapshot_id: i64,
        /// What is missing.
        reason: String,
    },
    /// The table cannot be loaded.
    #[error("the table cannot be loaded: {reason}")]
    Lost {
        /// Why.
        reason: String,
    },
    /// A snapshot holds other rows than its history says.
    #[error("snapshot {snapshot_id} holds other rows than the batches {batches:?}: {difference}")]
    Rows {
        /// The snapshot.
        snapshot_id: i64,
        /// The numbers of the batches it has to hold.
        batches: BTreeSet<u64>,
        /// What is missing or too much.
        difference: String,
    },
    /// A branch moved to a snapshot that neither descends from the one before nor is an ancestor of it.
    #[error("branch {branch} went from snapshot {from} to {to}, which does not follow from it")]
    Overwritten {
        /// The branch.
        branch: String,
        /// Where it was.
        from: i64,
        /// Where it is.
        to: i64,
    },
    /// Somebody was told that a batch is in the table, and it was not there at any time during the call.
    #[error("{actor} was told of batch {batch} on {branch}: {said}; and it was not there")]
    Untrue {
        /// Who.
        actor: String,
        /// The batch's number.
        batch: u64,
        /// The branch.
        branch: String,
        /// What was said.
        said: String,
    },
    /// Something failed that nobody's doing explains.
    #[error("{0}")]
    Surprise(String),
    /// Files that nothing refers to were not removed.
    #[error("nothing refers to these files, and they are still there after the last cleaner: {files:?}")]
    LeftBehind {
        /// Them.
        files: Vec<String>,
    },
    /// A scenario came to something else than it has to.
    #[error("{0}")]
    Unmet(String),
    /// The run does not end.
    #[error(transparent)]
    Stuck(#[from] crate::scheduler::Stuck),
}

/// What a manifest lists.
struct Listed {
    path: String,
    size: u64,
    is_live: bool,
    /// It holds rows; else it hides some of others.
    is_data: bool,
}

/// Looks at a lake.
pub(crate) struct Judge<'a> {
    lake: &'a Lake,
    catalog: OpenCatalog,
    /// By path: manifests and data files never change, as long as they are there.
    manifests: HashMap<String, Vec<Listed>>,
    lists: HashMap<String, Vec<String>>,
    rows: HashMap<String, Vec<Row>>,
}

/// Which batches each snapshot that ever was has to hold, and where the branches were.
struct History {
    batches: HashMap<i64, BTreeSet<u64>>,
    parents: HashMap<i64, Option<i64>>,
    /// The heads of all branches, by version.
    heads: Vec<BTreeMap<String, i64>>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(lake: &'a Lake, catalog: OpenCatalog) -> Self {
        Self { lake, catalog, manifests: HashMap::new(), lists: HashMap::new(), rows: HashMap::new() }
    }

    /// Whether everything that the table has is there, and as it should be.
    pub(crate) async fn judge(&mut self) -> Result<(), Violation> {
        let table = self.load().await?;
        let history = History::of(&self.lake.pointers.versions())?;
        let mut snapshots: Vec<&SnapshotRef> = table.metadata().snapshots().collect();
        snapshots.sort_by_key(|snapshot| snapshot.sequence_number());
        for snapshot in snapshots {
            let batches = history.batches.get(&snapshot.snapshot_id()).cloned().unwrap_or_default();
            self.snapshot(&table, snapshot, batches).await?;
        }
        let reports = self.lake.reports.lock().unwrap_or_else(PoisonError::into_inner).clone();
        reports.iter().try_for_each(|report| history.check(report))?;
        // Last: what is broken explains more than what somebody noticed of it.
        let surprises = self.lake.surprises.lock().unwrap_or_else(PoisonError::into_inner).clone();
        surprises.into_iter().next().map_or(Ok(()), |surprise| Err(Violation::Surprise(surprise)))
    }

    /// Whether main holds these batches, each once, and nothing else.
    pub(crate) async fn judge_head(&mut self, batches: BTreeSet<u64>) -> Result<(), Violation> {
        let table = self.load().await?;
        match table.metadata().current_snapshot() {
            Some(head) => self.snapshot(&table, head, batches).await,
            None if batches.is_empty() => Ok(()),
            None => Err(Violation::Unmet("the table has no snapshot".to_owned())),
        }
    }

    pub(crate) async fn load(&self) -> Result<Table, Violation> {
        let loaded = self.catalog.load(&self.lake.table).await;
        let loaded = loaded.map_err(|error| Violation::Lost { reason: told(&error) })?;
        loaded.ok_or_else(|| Violation::Lost { reason: "it is not in the catalog".to_owned() })
    }

    /// Whether a snapshot reads fully, and holds these batches, each once.
    async fn snapshot(
        &mut self,
        table: &Table,
        snapshot: &SnapshotRef,
        batches: BTreeSet<u64>,
    ) -> Result<(), Violation> {
        let snapshot_id = snapshot.snapshot_id();
        let unreadable = |reason: Trouble| Violation::Unreadable { snapshot_id, reason: told(reason.as_ref()) };
        let manifests = self.read(table, snapshot).await.map_err(unreadable)?;
        let live = || manifests.iter().flat_map(|path| &self.manifests[path]).filter(|listed| listed.is_live);
        let mut hidden: HashSet<(String, i64)> = HashSet::new();
        for Listed { path, size, .. } in live().filter(|listed| !listed.is_data) {
            hidden.extend(bytes_of(self.lake, path, *size).and_then(table::decode_deletes).map_err(unreadable)?);
        }
        let mut found: BTreeMap<Row, u64> = BTreeMap::new();
        for Listed { path, size, .. } in live().filter(|listed| listed.is_data) {
            let rows = rows_of(self.lake, &mut self.rows, path, *size).map_err(unreadable)?;
            for (row, position) in rows.iter().zip(0..) {
                if hidden.is_empty() || !hidden.contains(&(path.clone(), position)) {
                    *found.entry(row.clone()).or_default() += 1;
                }
            }
        }
        let mut expected: BTreeMap<Row, u64> = BTreeMap::new();
        for batch in &batches {
            expected.extend(table::rows(*batch).map_err(unreadable)?.into_iter().map(|row| (row, 1)));
        }
        if found == expected {
            return Ok(());
        }
        let missing: Vec<_> = expected.keys().filter(|row| !found.contains_key(*row)).collect();
        let surplus: Vec<_> = found.iter().filter(|(row, times)| expected.get(*row) != Some(*times)).collect();
        let difference = format!("missing {missing:?}, too often or too much {surplus:?}");
        Err(Violation::Rows { snapshot_id, batches, difference })
    }

    /// Reads a snapshot's list and manifests; gives the paths of these. What was read before only has to be there still.
    async fn read(&mut self, table: &Table, snapshot: &SnapshotRef) -> Result<Vec<String>, Trouble> {
        let list = snapshot.manifest_list();
        if let Some(known) = self.lists.get(list) {
            let gone = std::iter::once(list).chain(known.iter().map(String::as_str)).find(|path| !self.is_there(path));
            return gone.map_or_else(|| Ok(known.clone()), |gone| Err(format!("{gone} is not there").into()));
        }
        let mut paths = Vec::new();
        for file in table.manifest_list_reader(snapshot).load().await?.entries() {
            let path = &file.manifest_path;
            paths.push(path.clone());
            if self.manifests.contains_key(path) && self.is_there(path) {
                continue;
            }
            let manifest = file.load_manifest(table.file_io()).await?;
            let listed = manifest.entries().iter().map(|entry| Listed {
                path: entry.file_path().to_owned(),
                size: entry.data_file().file_size_in_bytes(),
                is_live: entry.is_alive(),
                is_data: entry.content_type() == DataContentType::Data,
            });
            self.manifests.insert(path.clone(), listed.collect());
        }
        self.lists.insert(list.to_owned(), paths.clone());
        Ok(paths)
    }

    fn is_there(&self, location: &str) -> bool {
        self.lake.objects.bytes(key(location)).is_some()
    }

    /// Whether nothing is there that the table does not refer to.
    pub(crate) async fn judge_leftovers(&mut self) -> Result<(), Violation> {
        let table = self.load().await?;
        let metadata = table.metadata();
        let mut referenced: BTreeSet<String> = table.metadata_location().map(str::to_owned).into_iter().collect();
        referenced.extend(metadata.metadata_log().iter().map(|entry| entry.metadata_file.clone()));
        for snapshot in metadata.snapshots() {
            let snapshot_id = snapshot.snapshot_id();
            referenced.insert(snapshot.manifest_list().to_owned());
            let manifests = self.read(&table, snapshot).await;
            let manifests =
                manifests.map_err(|reason| Violation::Unreadable { snapshot_id, reason: told(reason.as_ref()) })?;
            for manifest in manifests {
                referenced.extend(self.manifests[&manifest].iter().map(|listed| listed.path.clone()));
                referenced.insert(manifest);
            }
        }
        let there = self.lake.objects.inventory().into_iter().map(|(path, ..)| format!("memory:///{path}"));
        let files: Vec<String> = there.filter(|path| !referenced.contains(path)).collect();
        if files.is_empty() { Ok(()) } else { Err(Violation::LeftBehind { files }) }
    }
}

fn key(location: &str) -> &str {
    location.trim_start_matches("memory:///")
}

fn bytes_of(lake: &Lake, location: &str, size: u64) -> Result<Bytes, Trouble> {
    let bytes = lake.objects.bytes(key(location)).ok_or_else(|| format!("data file {location} is not there"))?;
    if bytes.len() as u64 != size {
        return Err(format!("data file {location} has {} bytes instead of {size}", bytes.len()).into());
    }
    Ok(bytes)
}

/// The rows of a data file, if it is there with its size. Its bytes never change: they are read once.
fn rows_of<'a>(
    lake: &Lake,
    known: &'a mut HashMap<String, Vec<Row>>,
    location: &str,
    size: u64,
) -> Result<&'a [Row], Trouble> {
    let (path, bytes) = (key(location), bytes_of(lake, location, size)?);
    if !known.contains_key(path) {
        known.insert(path.to_owned(), table::decode(bytes)?);
    }
    Ok(&known[path])
}

impl History {
    fn of(versions: &[Version]) -> Result<Self, Violation> {
        let mut history = Self { batches: HashMap::new(), parents: HashMap::new(), heads: Vec::new() };
        for version in versions {
            history.add_snapshots(&version.metadata);
            let head =
                |branch: &str| Some((branch.to_owned(), version.metadata.snapshot_for_ref(branch)?.snapshot_id()));
            let heads: BTreeMap<String, i64> = BRANCHES.into_iter().filter_map(head).collect();
            let before = history.heads.last().cloned().unwrap_or_default();
            for (branch, from) in before {
                match heads.get(&branch) {
                    Some(to) if history.descends(*to, from) || history.descends(from, *to) => {}
                    Some(to) => return Err(Violation::Overwritten { branch, from, to: *to }),
                    None => {}
                }
            }
            history.heads.push(heads);
        }
        Ok(history)
    }

    fn add_snapshots(&mut self, metadata: &TableMetadata) {
        let mut new: Vec<&SnapshotRef> =
            metadata.snapshots().filter(|snapshot| !self.parents.contains_key(&snapshot.snapshot_id())).collect();
        new.sort_by_key(|snapshot| snapshot.sequence_number());
        for snapshot in new {
            let parent = snapshot.parent_snapshot_id();
            let mut batches = parent.and_then(|parent| self.batches.get(&parent)).cloned().unwrap_or_default();
            batches.extend(named(snapshot));
            self.batches.insert(snapshot.snapshot_id(), batches);
            self.parents.insert(snapshot.snapshot_id(), parent);
        }
    }

    fn descends(&self, snapshot: i64, from: i64) -> bool {
        let parent = |snapshot: &i64| self.parents.get(snapshot).copied().flatten();
        std::iter::successors(Some(snapshot), parent).any(|ancestor| ancestor == from)
    }

    fn check(&self, report: &Report) -> Result<(), Violation> {
        let Report { actor, batch, branch, versions, said } = report;
        let holds = |heads: &BTreeMap<String, i64>| {
            // What is committed to a branch that is not there yet is decided on the main one.
            let head = heads.get(branch).or_else(|| heads.get(BatchCommit::MAIN));
            head.and_then(|head| self.batches.get(head)).is_some_and(|batches| batches.contains(batch))
        };
        let during: RangeInclusive<usize> = *versions.start()..=*versions.end();
        if self.heads.get(during).unwrap_or_default().iter().any(holds) {
            return Ok(());
        }
        Err(Violation::Untrue { actor: actor.clone(), batch: *batch, branch: branch.clone(), said: said.clone() })
    }
}

/// The numbers of the batches that a snapshot's summary names.
fn named(snapshot: &Snapshot) -> Vec<u64> {
    let properties = &snapshot.summary().additional_properties;
    let several = properties.get(names::SUMMARY_BATCHES).and_then(|several| serde_json::from_str(several).ok());
    let several: Vec<Value> = several.unwrap_or_default();
    let ids = several.iter().filter_map(|batch| batch["batch-id"].as_str());
    ids.chain(properties.get(names::SUMMARY_BATCH_ID).map(String::as_str)).filter_map(number_of).collect()
}

/// The number of a batch by its id.
fn number_of(id: &str) -> Option<u64> {
    static IDS: LazyLock<Vec<Option<BatchId>>> =
        LazyLock::new(|| (0..table::BATCHES).map(|number| table::batch_id(number).ok()).collect());
    let known = IDS.iter().position(|batch| batch.as_ref().is_some_and(|batch| batch.as_str() == id));
    known.map(|number| number as u64)
}
