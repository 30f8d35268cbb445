//! Names that Hexfloe writes into tables and snapshots. They are a format: readers of other languages rely on them.

use iceberg::spec::MAIN_BRANCH;

/// Table property: the ledger of the main branch, a JSON array of batch ids, newest last. Other branches have their own,
/// with `.` and the branch's name appended.
pub const COMPLETED_BATCHES: &str = "ingest.completed_batches";
/// Table property: the snapshot whose commit wrote the ledger; for other branches as [`COMPLETED_BATCHES`].
pub const LEDGER_SNAPSHOT_ID: &str = "ingest.ledger_snapshot_id";
/// Table property, followed by a column's name: how the column is derived, as JSON.
pub const DERIVATION_PREFIX: &str = "ingest.derivation.";
/// Table property, followed by the name of a geometry column: its coordinate reference system, as authority and code where it
/// has them, else as PROJJSON; `unknown` where its files say so.
pub const CRS_PREFIX: &str = "ingest.crs.";
/// Table property, followed by a coordinate reference system: how coordinates were brought from it to longitude and latitude, as
/// JSON.
pub const TRANSFORMATION_PREFIX: &str = "ingest.transformation.";

/// Table property, followed by a batch id: that its landing on the main branch was told, as the digest of its content and,
/// after an `@`, the snapshot it was in, where that is known. For other branches as [`COMPLETED_BATCHES`].
pub const NOTIFIED_PREFIX: &str = "ingest.notified.";

/// Snapshot summary: the batch this snapshot holds.
pub const SUMMARY_BATCH_ID: &str = "ingest.batch-id";
/// Snapshot summary: the name of the source.
pub const SUMMARY_SOURCE: &str = "ingest.source";
/// Snapshot summary: rows of the batch in the table.
pub const SUMMARY_ROWS: &str = "ingest.rows";
/// Snapshot summary: rows of the batch that were quarantined.
pub const SUMMARY_REJECTED: &str = "ingest.rejected";
/// Snapshot summary: the fingerprint of the derivation of the batch's cells. The table property has the whole record; here it
/// would be repeated in every snapshot.
pub const SUMMARY_DERIVATION: &str = "ingest.derivation";
/// Snapshot summary: a digest of the input.
pub const SUMMARY_CONTENT: &str = "ingest.content-sha256";
/// Snapshot summary of a snapshot with several batches, instead of the five above it: a JSON array with one object a
/// batch, whose keys are `batch-id`, `source`, `rows`, `rejected` and `content-sha256`.
pub const SUMMARY_BATCHES: &str = "ingest.batches";

/// A name for a partition field that is one in Avro too, by the rule of Iceberg: ASCII letters, digits and `_`, no digit first; what is
/// something else becomes `_x` and its code, and a first digit gets a `_` before it.
///
/// ```
/// use hexfloe_commit::names::partition_field;
///
/// assert_eq!(partition_field("event_ts_day"), "event_ts_day");
/// assert_eq!(partition_field("1st-día"), "_1st_x2Dd_xEDa");
/// ```
#[must_use]
pub fn partition_field(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for (place, letter) in name.chars().enumerate() {
        match letter {
            '0'..='9' if place == 0 => plain.extend(['_', letter]),
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' => plain.push(letter),
            _ => plain += &format!("_x{:X}", u32::from(letter)),
        }
    }
    plain
}

/// The property of a branch's ledger.
pub fn completed_batches(branch: &str) -> String {
    of_branch(COMPLETED_BATCHES, branch)
}

/// The property with the snapshot that wrote a branch's ledger.
pub fn ledger_snapshot_id(branch: &str) -> String {
    of_branch(LEDGER_SNAPSHOT_ID, branch)
}

/// The property that says that a batch's landing on a branch was told.
pub fn notified(batch_id: &str, branch: &str) -> String {
    of_branch(&format!("{NOTIFIED_PREFIX}{batch_id}"), branch)
}

fn of_branch(property: &str, branch: &str) -> String {
    if branch == MAIN_BRANCH { property.to_owned() } else { format!("{property}.{branch}") }
}
