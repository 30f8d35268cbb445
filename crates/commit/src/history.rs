//! What the table tells about its batches.

use std::collections::HashSet;

use iceberg::spec::{MAIN_BRANCH, Snapshot, TableMetadata};
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, ancestry};
use crate::names;

/// One batch: from the summary of the snapshot that holds it, from the ledger, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchRecord {
    /// The batch id.
    pub batch_id: String,
    /// Whether the ledger has it.
    pub in_ledger: bool,
    /// Its newest snapshot; `None` when that has expired.
    pub snapshot: Option<BatchSnapshot>,
}

/// What the snapshot of a batch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSnapshot {
    /// The snapshot.
    pub snapshot_id: i64,
    /// When it was committed, in milliseconds since 1970.
    pub committed_ms: i64,
    /// The name of the source.
    pub source: Option<String>,
    /// Rows of the batch.
    pub rows: Option<u64>,
    /// Rows that were quarantined.
    pub rejected: Option<u64>,
    /// The digest of its input.
    pub content_sha256: Option<String>,
}

/// One batch of a snapshot's summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct SummaryBatch {
    pub(crate) batch_id: String,
    #[serde(default)]
    pub(crate) source: Option<String>,
    #[serde(default)]
    pub(crate) rows: Option<u64>,
    #[serde(default)]
    pub(crate) rejected: Option<u64>,
    #[serde(default, rename = "content-sha256")]
    pub(crate) content_sha256: Option<String>,
}

/// The batches that a snapshot says it holds; none for the snapshots of others.
pub(crate) fn batches_of(snapshot: &Snapshot) -> Vec<SummaryBatch> {
    let properties = &snapshot.summary().additional_properties;
    if let Some(batches) = properties.get(names::SUMMARY_BATCHES) {
        // A summary that cannot be read is no evidence.
        return serde_json::from_str(batches).unwrap_or_default();
    }
    let Some(batch_id) = properties.get(names::SUMMARY_BATCH_ID) else { return Vec::new() };
    let number = |name: &str| properties.get(name).and_then(|value| value.parse().ok());
    vec![SummaryBatch {
        batch_id: batch_id.clone(),
        source: properties.get(names::SUMMARY_SOURCE).cloned(),
        rows: number(names::SUMMARY_ROWS),
        rejected: number(names::SUMMARY_REJECTED),
        content_sha256: properties.get(names::SUMMARY_CONTENT).cloned(),
    }]
}

/// Whether a snapshot says that it holds the batch, without reading more of its summary than that takes.
fn may_hold(snapshot: &Snapshot, batch_id: &str) -> bool {
    let properties = &snapshot.summary().additional_properties;
    match properties.get(names::SUMMARY_BATCHES) {
        Some(batches) => batches.contains(batch_id),
        None => properties.get(names::SUMMARY_BATCH_ID).is_some_and(|recorded| recorded == batch_id),
    }
}

/// The newest retained snapshot of a branch that holds the batch, and what it says of it.
pub(crate) fn newest_of(metadata: &TableMetadata, branch: &str, batch_id: &str) -> Option<(i64, SummaryBatch)> {
    ancestry(metadata, branch).filter(|snapshot| may_hold(snapshot, batch_id)).find_map(|snapshot| {
        let batch = batches_of(snapshot).into_iter().find(|batch| batch.batch_id == batch_id)?;
        Some((snapshot.snapshot_id(), batch))
    })
}

/// The batches of the main branch: see [`history_of`].
pub fn history(metadata: &TableMetadata) -> Vec<BatchRecord> {
    history_of(metadata, MAIN_BRANCH)
}

/// The batches of a branch's ancestry and ledger, oldest first: first those whose snapshots have expired, then the others
/// by commit.
pub fn history_of(metadata: &TableMetadata, branch: &str) -> Vec<BatchRecord> {
    let ledger = Ledger::of_branch(metadata, branch);
    let mut newest: Vec<(String, BatchSnapshot)> = Vec::new();
    let mut seen: HashSet<String> = HashSet::new();
    for snapshot in ancestry(metadata, branch) {
        for batch in batches_of(snapshot).into_iter().rev() {
            if !seen.insert(batch.batch_id.clone()) {
                continue;
            }
            let told = BatchSnapshot {
                snapshot_id: snapshot.snapshot_id(),
                committed_ms: snapshot.timestamp_ms(),
                source: batch.source,
                rows: batch.rows,
                rejected: batch.rejected,
                content_sha256: batch.content_sha256,
            };
            newest.push((batch.batch_id, told));
        }
    }
    let expired = ledger.ids().iter().filter(|id| !seen.contains(*id));
    let expired = expired.map(|id| BatchRecord { batch_id: id.clone(), in_ledger: true, snapshot: None });
    let retained = newest.into_iter().rev().map(|(batch_id, snapshot)| BatchRecord {
        in_ledger: ledger.contains(&batch_id),
        batch_id,
        snapshot: Some(snapshot),
    });
    expired.chain(retained).collect()
}
