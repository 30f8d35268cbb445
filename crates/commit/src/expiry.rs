//! Which snapshots a table does not need any more, and the commit that lets go of them.
//!
//! The rules are those of Iceberg's own `expire_snapshots`, with the table's `history.expire.*` properties and what each
//! ref says for itself. The ledger outlives the snapshot that wrote it: where that goes, the same commit says of a younger
//! one that the ledger holds for it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use hexfloe_catalog::{CommitOutcome, CommitRequest};
use iceberg::spec::{MAIN_BRANCH, SnapshotRef, SnapshotRetention, TableMetadata};
use iceberg::table::Table;
use iceberg::{TableRequirement, TableUpdate};

use crate::history::batches_of;
use crate::ledger::{Ledger, LedgerBounds, ancestry};
use crate::retry::Backoff;
use crate::{Committer, Error, names, notices, refs};

/// Five days, in milliseconds: Iceberg's `history.expire.max-snapshot-age-ms` when nobody says it.
const MAX_SNAPSHOT_AGE_MS: i64 = 5 * 24 * 3600 * 1000;

/// What is kept where neither a branch nor a tag says it for itself. `None` stands for what the table's properties say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Keep the snapshots of a branch that are younger. The property is `history.expire.max-snapshot-age-ms`, five days by
    /// default.
    pub older_than: Option<Duration>,
    /// Keep so many snapshots of a branch, however old. The property is `history.expire.min-snapshots-to-keep`, one by
    /// default.
    pub retain_last: Option<u32>,
}

/// What goes when snapshots expire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// Snapshots, oldest first.
    pub snapshots: Vec<i64>,
    /// Branches and tags that are older than they are to get; never the main branch.
    pub refs: BTreeSet<String>,
}

impl Expiry {
    /// What goes of a table at a time, in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`Error::Property`] when a `history.expire.*` property is not a number.
    pub fn of(table: &Table, retention: &Retention, now_ms: i64) -> Result<Self, Error> {
        let metadata = table.metadata();
        let number = |name: &str, default: i64| match metadata.properties().get(name) {
            None => Ok(default),
            Some(value) => value.trim().parse::<i64>().ok().filter(|number| *number >= 0).ok_or_else(|| {
                Error::Property { property: name.to_owned(), value: value.clone(), expected: "a number, 0 or more" }
            }),
        };
        let max_age = number("history.expire.max-snapshot-age-ms", MAX_SNAPSHOT_AGE_MS)?;
        let max_age = retention.older_than.map_or(max_age, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
        let min_kept = number("history.expire.min-snapshots-to-keep", 1)?;
        let min_kept = retention.retain_last.map_or(min_kept, i64::from).max(1);
        let max_ref_age = number("history.expire.max-ref-age-ms", i64::MAX)?;
        let is_young = |snapshot: &SnapshotRef, age: i64| now_ms.saturating_sub(snapshot.timestamp_ms()) <= age;

        let mut expiry = Self::default();
        let mut kept: HashSet<i64> = HashSet::new();
        let mut known: HashSet<i64> = HashSet::new();
        for (name, reference) in refs::of(metadata)? {
            let Some(head) = metadata.snapshot_by_id(reference.snapshot_id) else { continue };
            let own_ref_age = match &reference.retention {
                SnapshotRetention::Branch { max_ref_age_ms, .. } | SnapshotRetention::Tag { max_ref_age_ms } => {
                    *max_ref_age_ms
                }
            };
            if name != MAIN_BRANCH && !is_young(head, own_ref_age.unwrap_or(max_ref_age)) {
                expiry.refs.insert(name);
                continue;
            }
            let SnapshotRetention::Branch { min_snapshots_to_keep, max_snapshot_age_ms, .. } = &reference.retention
            else {
                kept.insert(reference.snapshot_id);
                known.insert(reference.snapshot_id);
                continue;
            };
            // A branch that is ahead of main can be published only while the line between them is whole.
            let ahead: Vec<i64> = ancestry(metadata, &name).map(|snapshot| snapshot.snapshot_id()).collect();
            let main = metadata.current_snapshot_id().and_then(|main| ahead.iter().position(|id| *id == main));
            kept.extend(ahead.iter().take(main.unwrap_or(0)));
            let (least, age) =
                (min_snapshots_to_keep.map_or(min_kept, i64::from), max_snapshot_age_ms.unwrap_or(max_age));
            let mut line = 0;
            let mut is_kept = true;
            for snapshot in ancestry(metadata, &name) {
                line += 1;
                is_kept = is_kept && (line <= least.max(1) || is_young(snapshot, age));
                known.insert(snapshot.snapshot_id());
                if is_kept {
                    kept.insert(snapshot.snapshot_id());
                }
            }
        }
        // What no ref leads to may be staged, and is kept while it is young.
        let goes = |snapshot: &&SnapshotRef| {
            let id = snapshot.snapshot_id();
            !kept.contains(&id) && (known.contains(&id) || !is_young(snapshot, max_age))
        };
        let mut snapshots: Vec<&SnapshotRef> = metadata.snapshots().filter(goes).collect();
        snapshots.sort_by_key(|snapshot| (snapshot.sequence_number(), snapshot.timestamp_ms(), snapshot.snapshot_id()));
        expiry.snapshots = snapshots.into_iter().map(|snapshot| snapshot.snapshot_id()).collect();
        Ok(expiry)
    }

    /// Whether nothing goes.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.refs.is_empty()
    }

    fn is_done_in(&self, metadata: &TableMetadata) -> Result<bool, Error> {
        let refs = refs::of(metadata)?;
        Ok(self.snapshots.iter().all(|id| metadata.snapshot_by_id(*id).is_none())
            && self.refs.iter().all(|name| !refs.contains_key(name)))
    }
}

impl Committer {
    /// Lets go of snapshots and refs, decided on `base`; says whether they are gone. They are not when somebody else changed
    /// the table first: then decide again. No file is removed.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] when the catalog's answer is lost and the table does not show the change.
    pub async fn expire(&self, base: &Table, expiry: &Expiry) -> Result<bool, Error> {
        if expiry.is_empty() {
            return Ok(true);
        }
        let _announced = self.announce(base.identifier());
        let metadata = base.metadata();
        let mut updates: Vec<TableUpdate> =
            expiry.refs.iter().map(|name| TableUpdate::RemoveSnapshotRef { ref_name: name.clone() }).collect();
        let gone: HashSet<i64> = expiry.snapshots.iter().copied().collect();
        for file in metadata.statistics_iter().filter(|file| gone.contains(&file.snapshot_id)) {
            updates.push(TableUpdate::RemoveStatistics { snapshot_id: file.snapshot_id });
        }
        for file in metadata.partition_statistics_iter().filter(|file| gone.contains(&file.snapshot_id)) {
            updates.push(TableUpdate::RemovePartitionStatistics { snapshot_id: file.snapshot_id });
        }
        updates.push(TableUpdate::RemoveSnapshots { snapshot_ids: expiry.snapshots.clone() });
        let removals: Vec<String> = expiry
            .refs
            .iter()
            .flat_map(|name| [names::completed_batches(name), names::ledger_snapshot_id(name)])
            .filter(|name| metadata.properties().contains_key(name))
            .chain(expiry.refs.iter().flat_map(|name| notices::recorded_besides(metadata, name, &Ledger::default())))
            .collect();
        if !removals.is_empty() {
            updates.push(TableUpdate::RemoveProperties { removals });
        }
        let ledgers = ledgers_without(metadata, expiry, &gone, self.ledger_bounds())?;
        if !ledgers.is_empty() {
            updates.push(TableUpdate::SetProperties { updates: ledgers });
        }
        // Nobody may have moved a ref meanwhile: it could lead to what is about to go.
        let mut requirements = vec![TableRequirement::UuidMatch { uuid: metadata.uuid() }];
        let mut moved: Vec<(String, i64)> =
            refs::of(metadata)?.into_iter().map(|(name, reference)| (name, reference.snapshot_id)).collect();
        moved.sort();
        requirements.extend(
            moved
                .into_iter()
                .map(|(name, id)| TableRequirement::RefSnapshotIdMatch { r#ref: name, snapshot_id: Some(id) }),
        );
        let request = CommitRequest { base: base.clone(), requirements, updates };
        let (reason, source) = match self.catalog().port().commit(&request).await? {
            CommitOutcome::Committed(_) => return Ok(true),
            CommitOutcome::Conflict { .. } => {
                // A catalog that got the request twice says so, too.
                let now = self.load_table(base.identifier()).await?;
                return expiry.is_done_in(now.metadata());
            }
            CommitOutcome::Unknown { reason, source } => (reason, source),
        };
        let backoff = Backoff::for_status_checks(metadata.properties());
        let (mut tries, mut waited) = (0, Duration::ZERO);
        loop {
            if let Ok(now) = self.load_table(base.identifier()).await
                && expiry.is_done_in(now.metadata())?
            {
                return Ok(true);
            }
            tries += 1;
            let Some(wait) = backoff.wait(tries, waited, self.environment().jitter()) else {
                return Err(Error::Unknown { table: base.identifier().to_string(), reason, source });
            };
            self.environment().sleep(wait).await;
            waited = waited.saturating_add(wait);
        }
    }
}

/// The ledgers that would be lost with the snapshots that wrote them, as properties that say of younger snapshots that they
/// hold for these.
fn ledgers_without(
    metadata: &TableMetadata,
    expiry: &Expiry,
    gone: &HashSet<i64>,
    bounds: LedgerBounds,
) -> Result<HashMap<String, String>, Error> {
    let expired = metadata.clone().into_builder(None).remove_snapshots(&expiry.snapshots).build();
    let expired = expired.map_err(Error::iceberg("let snapshots expire"))?.metadata;
    let branches = refs::of(metadata)?
        .into_iter()
        .filter(|(name, reference)| reference.is_branch() && !expiry.refs.contains(name));
    let mut properties = HashMap::new();
    for (branch, _) in branches {
        let before = Ledger::of_branch(metadata, &branch);
        if before.counted_ids() == Ledger::of_branch(&expired, &branch).counted_ids() {
            continue;
        }
        // All that the ledger lists is in the oldest snapshot that is left, or in a younger one that says so.
        let line: Vec<&SnapshotRef> =
            ancestry(metadata, &branch).take_while(|snapshot| !gone.contains(&snapshot.snapshot_id())).collect();
        let says = |snapshot: &&&SnapshotRef| batches_of(snapshot).iter().any(|batch| before.contains(&batch.batch_id));
        let Some(holder) = line.iter().find(says).or(line.last()) else { continue };
        let ledger = Ledger::counting(before.counted_ids());
        properties.insert(names::completed_batches(&branch), ledger.to_json(bounds));
        properties.insert(names::ledger_snapshot_id(&branch), holder.snapshot_id().to_string());
    }
    Ok(properties)
}
