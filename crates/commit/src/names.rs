//! Names that Hexfloe writes into tables and snapshots. They are a format: readers of other languages rely on them.

/// Table property: the ledger, a JSON array of batch ids, newest last.
pub const COMPLETED_BATCHES: &str = "ingest.completed_batches";
/// Table property: the snapshot whose commit wrote the ledger.
pub const LEDGER_SNAPSHOT_ID: &str = "ingest.ledger_snapshot_id";
/// Table property, followed by a column's name: how the column is derived, as JSON.
pub const DERIVATION_PREFIX: &str = "ingest.derivation.";

/// Snapshot summary: the batch this snapshot holds.
pub const SUMMARY_BATCH_ID: &str = "ingest.batch-id";
/// Snapshot summary: the name of the source.
pub const SUMMARY_SOURCE: &str = "ingest.source";
/// Snapshot summary: rows of the batch in the table.
pub const SUMMARY_ROWS: &str = "ingest.rows";
/// Snapshot summary: rows of the batch that were quarantined.
pub const SUMMARY_REJECTED: &str = "ingest.rejected";
/// Snapshot summary: the derivation of the batch's cells, as JSON.
pub const SUMMARY_DERIVATION: &str = "ingest.derivation";
/// Snapshot summary: a digest of the input.
pub const SUMMARY_CONTENT: &str = "ingest.content-sha256";
