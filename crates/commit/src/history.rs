//! What the table tells about its batches.

use std::collections::HashMap;

use iceberg::spec::TableMetadata;

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
}

/// The batches of the current snapshot's ancestry and ledger, oldest first: first those whose snapshots have expired,
/// then the others by commit.
pub fn history(metadata: &TableMetadata) -> Vec<BatchRecord> {
    let ledger = Ledger::of(metadata);
    let mut newest: Vec<(String, BatchSnapshot)> = Vec::new();
    let mut seen: HashMap<String, ()> = HashMap::new();
    for snapshot in ancestry(metadata) {
        let properties = &snapshot.summary().additional_properties;
        let Some(batch_id) = properties.get(names::SUMMARY_BATCH_ID) else { continue };
        if seen.insert(batch_id.clone(), ()).is_some() {
            continue;
        }
        let number = |name: &str| properties.get(name).and_then(|value| value.parse().ok());
        newest.push((
            batch_id.clone(),
            BatchSnapshot {
                snapshot_id: snapshot.snapshot_id(),
                committed_ms: snapshot.timestamp_ms(),
                source: properties.get(names::SUMMARY_SOURCE).cloned(),
                rows: number(names::SUMMARY_ROWS),
                rejected: number(names::SUMMARY_REJECTED),
            },
        ));
    }
    let expired = ledger.ids().iter().filter(|id| !seen.contains_key(*id));
    let expired = expired.map(|id| BatchRecord { batch_id: id.clone(), in_ledger: true, snapshot: None });
    let retained = newest.into_iter().rev().map(|(batch_id, snapshot)| BatchRecord {
        in_ledger: ledger.contains(&batch_id),
        batch_id,
        snapshot: Some(snapshot),
    });
    expired.chain(retained).collect()
}
