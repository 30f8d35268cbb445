//! Branches and tags, and moving the main branch: back after a mistake, or on to an audited branch.

use std::collections::{BTreeMap, HashMap, HashSet};

use hexfloe_catalog::{CommitOutcome, CommitRequest};
use iceberg::spec::{MAIN_BRANCH, SnapshotRef, SnapshotReference, SnapshotRetention, TableMetadata};
use iceberg::{TableIdent, TableRequirement, TableUpdate};
use serde::Deserialize;

use crate::history::batches_of;
use crate::ledger::{Ledger, ancestry};
use crate::{Committer, Error, names, notices};

/// The refs of a table. They have no public getter, but they serialise.
pub(crate) fn of(metadata: &TableMetadata) -> Result<HashMap<String, SnapshotReference>, Error> {
    #[derive(Deserialize)]
    struct Refs {
        #[serde(default)]
        refs: HashMap<String, SnapshotReference>,
    }
    // Much faster than a tree of values, and metadata can be large.
    let failed = |error: serde_json::Error| {
        let error = iceberg::Error::new(iceberg::ErrorKind::DataInvalid, error.to_string());
        Error::iceberg("read the table's refs")(error)
    };
    let json = serde_json::to_string(metadata).map_err(failed)?;
    Ok(serde_json::from_str::<Refs>(&json).map_err(failed)?.refs)
}

/// The names of a table's branches and of its tags, with the snapshots they are at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    /// Its branches; the main one is among them once it has a snapshot.
    pub branches: BTreeMap<String, i64>,
    /// Its tags.
    pub tags: BTreeMap<String, i64>,
}

impl Refs {
    /// Those of a table.
    ///
    /// # Errors
    ///
    /// When the metadata cannot be read.
    pub fn of(metadata: &TableMetadata) -> Result<Self, Error> {
        let mut refs = Self::default();
        for (name, reference) in of(metadata)? {
            let kind = if reference.is_branch() { &mut refs.branches } else { &mut refs.tags };
            kind.insert(name, reference.snapshot_id);
        }
        Ok(refs)
    }
}

/// The retention that a branch has now: setting a ref must not reset it.
///
/// # Errors
///
/// When the name is that of a tag, which no commit moves.
pub(crate) fn retention(metadata: &TableMetadata, table: &str, branch: &str) -> Result<SnapshotRetention, Error> {
    if is_plain(metadata, branch) {
        return Ok(SnapshotRetention::branch(None, None, None));
    }
    match of(metadata)?.remove(branch).map(|reference| reference.retention) {
        None => Ok(SnapshotRetention::branch(None, None, None)),
        Some(retention @ SnapshotRetention::Branch { .. }) => Ok(retention),
        Some(SnapshotRetention::Tag { .. }) => {
            Err(Error::Unsuitable { table: table.to_owned(), reason: format!("has a tag `{branch}`, and no branch") })
        }
    }
}

/// Whether there is no such ref, or it is a branch without a retention of its own: then setting it to what it is changes
/// nothing. That is much cheaper than to have the metadata written out.
fn is_plain(metadata: &TableMetadata, branch: &str) -> bool {
    let Some(head) = metadata.snapshot_for_ref(branch) else { return true };
    let plain = SnapshotReference::new(head.snapshot_id(), SnapshotRetention::branch(None, None, None));
    let set = metadata.clone().into_builder(None).set_ref(branch, plain);
    set.and_then(iceberg::spec::TableMetadataBuilder::build).is_ok_and(|built| built.changes.is_empty())
}

/// Refuses what cannot be a branch's name in every catalog.
///
/// # Errors
///
/// [`Error::BranchName`].
pub fn check_branch_name(branch: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if branch == MAIN_BRANCH || (!branch.is_empty() && branch.chars().all(plain)) {
        return Ok(());
    }
    Err(Error::BranchName { branch: branch.to_owned() })
}

/// Where a rollback goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RollBackTo {
    /// To this snapshot.
    Snapshot(i64),
    /// To the snapshot before the first one, of those that are retained, that holds this batch.
    BeforeBatch(String),
}

/// What a rollback did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The snapshot the main branch was at.
    pub from: i64,
    /// The snapshot it is at now.
    pub to: i64,
    /// The batches that are not in the table any more as they were, oldest first. They can be ingested again.
    pub undone: Vec<String>,
}

/// What publishing a branch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The snapshot the main branch was at, if there was one.
    pub from: Option<i64>,
    /// The snapshot it is at now: the head of the branch.
    pub to: i64,
    /// The batches that readers of the main branch see now, oldest first.
    pub batches: Vec<String>,
}

/// What dropping a branch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The snapshot the branch was at.
    pub from: i64,
    /// The batches of the branch that the main branch does not have, oldest first. They can be ingested again.
    pub batches: Vec<String>,
}

impl Committer {
    /// Sets the main branch back to one of its ancestors, and the ledger with it.
    ///
    /// Snapshots and files stay until they expire. Nobody's commit is undone by surprise: when the branch moves meanwhile
    /// nothing happens.
    ///
    /// # Errors
    ///
    /// [`Error::Ref`] when there is no such ancestor, [`Error::Moved`] when the branch moved, [`Error::Unknown`] when the catalog's answer is
    /// lost and the table does not show the change.
    pub async fn roll_back(&self, table: &TableIdent, to: &RollBackTo) -> Result<RolledBack, Error> {
        let loaded = self.load_table(table).await?;
        let metadata = loaded.metadata();
        let refuse = |reason: String| Error::Ref { table: table.to_string(), reason };
        let head = metadata.current_snapshot().ok_or_else(|| refuse("it has no snapshot yet".to_owned()))?;
        let lineage: Vec<&SnapshotRef> = ancestry(metadata, MAIN_BRANCH).collect();
        let target = match to {
            RollBackTo::Snapshot(id) => *id,
            RollBackTo::BeforeBatch(id) => {
                let holds = |snapshot: &&&SnapshotRef| batches_of(snapshot).iter().any(|batch| batch.batch_id == *id);
                let first = lineage.iter().rev().find(holds);
                let first = first.ok_or_else(|| refuse(format!("no retained snapshot of main holds batch {id}")))?;
                first.parent_snapshot_id().ok_or_else(|| {
                    refuse(format!("batch {id} is in its first snapshot, and there is none before it to go back to"))
                })?
            }
        };
        let place = lineage.iter().position(|snapshot| snapshot.snapshot_id() == target).ok_or_else(|| {
            refuse(format!("snapshot {target} is not a retained ancestor of main, and only those can be gone back to"))
        })?;
        let undone = batch_ids(&lineage[..place]);
        let left: HashSet<String> = batch_ids(&lineage[place..]).into_iter().collect();
        let ledger = Ledger::of(metadata).gone_back(&undone, &left);
        let mut updates = vec![set_main(metadata, table, target)?];
        updates.push(TableUpdate::SetProperties { updates: self.ledger_properties(&ledger, target) });
        // What is undone and comes again is told again.
        let removals = notices::recorded_besides(metadata, MAIN_BRANCH, &ledger);
        if !removals.is_empty() {
            updates.push(TableUpdate::RemoveProperties { removals });
        }
        let requirements = vec![
            TableRequirement::UuidMatch { uuid: metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch {
                r#ref: MAIN_BRANCH.to_owned(),
                snapshot_id: Some(head.snapshot_id()),
            },
        ];
        let from = head.snapshot_id();
        let request = CommitRequest { base: loaded.clone(), requirements, updates };
        self.move_refs(request, table, |now| now.current_snapshot_id() == Some(target)).await?;
        Ok(RolledBack { from, to: target, undone })
    }

    /// Moves the main branch on to the head of `branch`, which has to descend from it, with its ledger; the branch goes,
    /// unless it is to be kept. Readers see all that the branch holds at once, or nothing of it.
    ///
    /// # Errors
    ///
    /// [`Error::Ref`] when there is no such branch or the main branch has moved on since it was made, [`Error::Unknown`] when
    /// the catalog's answer is lost and the table cannot be read.
    pub async fn publish(&self, table: &TableIdent, branch: &str, keep: bool) -> Result<Published, Error> {
        let loaded = self.load_table(table).await?;
        let metadata = loaded.metadata();
        let refuse = |reason: String| Error::Ref { table: table.to_string(), reason };
        if branch == MAIN_BRANCH {
            return Err(refuse("main is what branches are published to".to_owned()));
        }
        retention(metadata, &table.to_string(), branch)?;
        let head = metadata.snapshot_for_ref(branch).ok_or_else(|| refuse(format!("it has no branch `{branch}`")))?;
        let from = metadata.current_snapshot_id();
        let lineage: Vec<&SnapshotRef> = ancestry(metadata, branch).collect();
        let place = match from {
            None => lineage.len(),
            Some(main) => lineage.iter().position(|snapshot| snapshot.snapshot_id() == main).ok_or_else(|| {
                refuse(format!(
                    "main has snapshots that branch `{branch}` does not have, and would lose them; drop the branch with `hexfloe \
                     table drop-branch {table} --branch {branch}` and ingest its batches again"
                ))
            })?,
        };
        let to = head.snapshot_id();
        let mut updates = vec![set_main(metadata, table, to)?];
        let ledger = Ledger::of_branch(metadata, branch);
        updates.push(TableUpdate::SetProperties { updates: self.ledger_properties(&ledger, to) });
        if !keep {
            updates.extend(removal(metadata, branch));
        }
        let requirements = vec![
            TableRequirement::UuidMatch { uuid: metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: from },
            TableRequirement::RefSnapshotIdMatch { r#ref: branch.to_owned(), snapshot_id: Some(to) },
        ];
        let batches = batch_ids(&lineage[..place]);
        let request = CommitRequest { base: loaded.clone(), requirements, updates };
        self.move_refs(request, table, |now| now.current_snapshot_id() == Some(to)).await?;
        Ok(Published { from, to, batches })
    }

    /// Removes a branch, and its ledger with it. Its snapshots and files stay until they expire.
    ///
    /// # Errors
    ///
    /// [`Error::Ref`] when there is no such branch or it is the main one, [`Error::Unsuitable`] when it is a tag, [`Error::Moved`] when
    /// somebody committed to the branch meanwhile, [`Error::Unknown`] when the catalog's answer is lost and the table cannot be
    /// read.
    pub async fn drop_branch(&self, table: &TableIdent, branch: &str) -> Result<Dropped, Error> {
        let loaded = self.load_table(table).await?;
        let metadata = loaded.metadata();
        let refuse = |reason: String| Error::Ref { table: table.to_string(), reason };
        if branch == MAIN_BRANCH {
            return Err(refuse("main is the branch that everybody reads, and is not dropped".to_owned()));
        }
        retention(metadata, &table.to_string(), branch)?;
        let head = metadata.snapshot_for_ref(branch).ok_or_else(|| refuse(format!("it has no branch `{branch}`")))?;
        let from = head.snapshot_id();
        let of_main: HashSet<i64> = ancestry(metadata, MAIN_BRANCH).map(|snapshot| snapshot.snapshot_id()).collect();
        let on_main = Ledger::of(metadata);
        let own: Vec<&SnapshotRef> =
            ancestry(metadata, branch).filter(|snapshot| !of_main.contains(&snapshot.snapshot_id())).collect();
        let mut batches = batch_ids(&own);
        batches.retain(|id| !on_main.contains(id));
        let requirements = vec![
            TableRequirement::UuidMatch { uuid: metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch { r#ref: branch.to_owned(), snapshot_id: Some(from) },
        ];
        let request = CommitRequest { base: loaded.clone(), requirements, updates: removal(metadata, branch).into() };
        self.move_refs(request, table, |now| now.snapshot_for_ref(branch).is_none()).await?;
        Ok(Dropped { from, batches })
    }

    fn ledger_properties(&self, ledger: &Ledger, snapshot_id: i64) -> HashMap<String, String> {
        HashMap::from([
            (names::COMPLETED_BATCHES.to_owned(), ledger.to_json(self.ledger_bounds())),
            (names::LEDGER_SNAPSHOT_ID.to_owned(), snapshot_id.to_string()),
        ])
    }

    /// Sends a request that moves refs; when its fate is not known the table tells whether it `is_done`.
    async fn move_refs(
        &self,
        request: CommitRequest,
        table: &TableIdent,
        is_done: impl Fn(&TableMetadata) -> bool,
    ) -> Result<(), Error> {
        let _announced = self.announce(table);
        let (reason, source, denied) = match self.catalog().port().commit(&request).await? {
            CommitOutcome::Committed(_) => return Ok(()),
            CommitOutcome::Conflict { reason } => (reason, None, true),
            CommitOutcome::Unknown { reason, source } => (reason, source, false),
        };
        // A catalog that got the request twice says that it conflicts, too.
        match self.load_table(table).await {
            Ok(now) if is_done(now.metadata()) => Ok(()),
            Ok(_) if denied => Err(Error::Moved { table: table.to_string(), reason }),
            // It may still arrive.
            Ok(_) => Err(Error::Unknown { table: table.to_string(), reason, source }),
            Err(error) => {
                let source = source.or_else(|| Some(Box::new(error)));
                Err(Error::Unknown { table: table.to_string(), reason, source })
            }
        }
    }
}

fn set_main(metadata: &TableMetadata, table: &TableIdent, snapshot_id: i64) -> Result<TableUpdate, Error> {
    let retention = retention(metadata, &table.to_string(), MAIN_BRANCH)?;
    let reference = SnapshotReference::new(snapshot_id, retention);
    Ok(TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference })
}

/// A branch goes with its ledger, and with what was told of it.
fn removal(metadata: &TableMetadata, branch: &str) -> [TableUpdate; 2] {
    let mut removals = vec![names::completed_batches(branch), names::ledger_snapshot_id(branch)];
    removals.extend(notices::recorded_besides(metadata, branch, &Ledger::default()));
    [TableUpdate::RemoveSnapshotRef { ref_name: branch.to_owned() }, TableUpdate::RemoveProperties { removals }]
}

/// The batches that these snapshots, newest first, say they hold: oldest first, each once.
fn batch_ids(newest_first: &[&SnapshotRef]) -> Vec<String> {
    let mut seen = HashSet::new();
    let batches = newest_first.iter().rev().flat_map(|snapshot| batches_of(snapshot));
    batches.map(|batch| batch.batch_id).filter(|id| seen.insert(id.clone())).collect()
}
