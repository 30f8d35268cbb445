//! What came of an ingest, for people and for machines.

use std::path::PathBuf;

use serde::Serialize;

/// What became of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is in the table through this run.
    Committed,
    /// It was in the table already; nothing was written.
    Skipped,
    /// A dry run: the input is fine, and nothing was written.
    Unchanged,
}

/// The outcome of one run. Serialised it is the object that `--json` prints; keys are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The version of this object's shape: 1.
    pub version: u32,
    /// What became of the batch.
    pub status: Status,
    /// The table, `namespace.name`.
    pub table: String,
    /// The batch.
    pub batch_id: String,
    /// The snapshot that holds it; null after a dry run, and where the table does not tell any more.
    pub snapshot_id: Option<i64>,
    /// Rows of the batch; 0 when skipped.
    pub rows: u64,
    /// Rows set aside; 0 when skipped.
    pub rejected: u64,
    /// The file with the rows that were set aside.
    pub reject_file: Option<PathBuf>,
    /// Rows of an earlier version of the batch that were replaced.
    pub replaced_rows: u64,
    /// Data files written.
    pub data_files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Commits tried.
    pub attempts: u32,
    /// Wall time in milliseconds.
    pub elapsed_ms: u64,
}
