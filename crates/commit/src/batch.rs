//! What is committed: batches, and what became of them.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use hexfloe_batch::{BatchId, DerivationRecord, Sha256Hex};
use iceberg::TableIdent;
use iceberg::spec::{DataFile, MAIN_BRANCH, TableMetadata};
use uuid::Uuid;

/// A derived column and how the running program derives it.
#[derive(Clone, Debug)]
pub struct Derivation {
    /// The column.
    pub column: String,
    /// The record.
    pub record: DerivationRecord,
}

/// A batch whose data files are written, ready to be committed.
#[derive(Clone, Debug)]
pub struct BatchCommit {
    /// The table.
    pub table: TableIdent,
    /// The branch it is committed to; it is made from the main branch when there is none of the name.
    pub branch: String,
    /// The table's uuid, current schema id and default partition spec id that the files were written for.
    pub written_for: WrittenFor,
    /// The batch.
    pub batch_id: BatchId,
    /// The name of its source.
    pub source: String,
    /// Its rows: those in `files`.
    pub rows: u64,
    /// Rows that were quarantined.
    pub rejected: u64,
    /// A digest of the input.
    pub content_sha256: Sha256Hex,
    /// How its cells are derived.
    pub derivation: Option<Derivation>,
    /// What else its columns rest on, as table properties: a table that has one of them has to have it with this very value, and gets
    /// it with the batch otherwise.
    pub records: BTreeMap<String, String>,
    /// Which rows of the table it takes the place of.
    pub replaces: Replaces,
    /// What to do when the table knows the batch with another digest.
    pub on_changed_input: OnChangedInput,
    /// Commit even if the table has the batch.
    pub force: bool,
    /// Its data files, owned by this attempt.
    pub files: Vec<DataFile>,
    /// When the first of them was begun, in milliseconds since 1970.
    pub started_ms: i64,
}

impl BatchCommit {
    /// The branch of a table that everybody reads.
    pub const MAIN: &'static str = MAIN_BRANCH;
}

/// Which rows of the table a batch takes the place of. Rows in which a compared column is null are never among them.
#[derive(Clone, Debug, Default)]
pub enum Replaces {
    /// Those with its batch id.
    #[default]
    Batch,
    /// Those of a slice that it owns: one row of values, such as `run_date = 2026-08-11`. All its own rows have to be of
    /// the slice.
    Slice(Keys),
    /// Those with its batch id, and those whose key is among these.
    Keys(Keys),
    /// None: its files are appended. For tables in which nothing may be overwritten. When rows of the batch are found
    /// in the table it is skipped; it cannot be forced.
    Nothing,
}

/// Values of some columns, by which rows of a table are found.
///
/// Columns are named as in the table; there is one row for each key, in any order, and repeated keys do no harm. Values are
/// cast to the types of the table, so that text will do. Columns have to be of a primitive type that is not floating
/// point and not binary.
#[derive(Clone, Debug)]
pub struct Keys(pub RecordBatch);

/// What to do when the table has the batch with another digest of its input: a batch id claims to be a function of the
/// input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChangedInput {
    /// It is an error.
    #[default]
    Refuse,
    /// The rows are replaced by the new ones.
    Replace,
}

/// What data files depend on in their table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenFor {
    /// The table's uuid.
    pub uuid: Uuid,
    /// Its current schema.
    pub schema_id: i32,
    /// Its default partition spec.
    pub spec_id: i32,
}

impl WrittenFor {
    /// What files written for `metadata` as it is depend on.
    pub fn of(metadata: &TableMetadata) -> Self {
        Self {
            uuid: metadata.uuid(),
            schema_id: metadata.current_schema_id(),
            spec_id: metadata.default_partition_spec_id(),
        }
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum BatchOutcome {
    /// It is in the table through this call.
    Committed {
        /// The snapshot it is in.
        snapshot_id: i64,
        /// Rows of the table that were replaced, by all batches of the snapshot together.
        replaced_rows: u64,
        /// Attempts made, this one included.
        attempts: u32,
        /// Time spent waiting between them, in milliseconds.
        waited_ms: u64,
    },
    /// It was in the table already.
    Skipped {
        /// The snapshot it is in, where the table still tells.
        snapshot_id: Option<i64>,
    },
}

/// A question put to a table before any work is done: see [`Committer::check`](crate::Committer::check).
#[derive(Clone, Copy, Debug)]
pub struct BatchCheck<'a> {
    /// The batch.
    pub batch_id: &'a BatchId,
    /// The branch it is meant for.
    pub branch: &'a str,
    /// How its cells are derived.
    pub derivation: Option<&'a Derivation>,
    /// What else its columns rest on, as far as it is known.
    pub records: &'a BTreeMap<String, String>,
    /// The digest of its input, as far as it is known.
    pub content_sha256: Option<&'a Sha256Hex>,
    /// What to do when the table knows the batch with another digest.
    pub on_changed_input: OnChangedInput,
    /// Whether the batch is a slice under its own name, whatever its input is today.
    pub owns_slice: bool,
    /// Commit even if the table has the batch.
    pub force: bool,
}

impl<'a> From<&'a BatchCommit> for BatchCheck<'a> {
    fn from(batch: &'a BatchCommit) -> Self {
        Self {
            batch_id: &batch.batch_id,
            branch: &batch.branch,
            derivation: batch.derivation.as_ref(),
            records: &batch.records,
            content_sha256: Some(&batch.content_sha256),
            on_changed_input: batch.on_changed_input,
            owns_slice: matches!(batch.replaces, Replaces::Slice(_)),
            force: batch.force,
        }
    }
}
