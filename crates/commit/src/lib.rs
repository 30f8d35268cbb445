//! The exactly-once commit: an overwrite and the ledger in one Iceberg snapshot.
//!
//! The `iceberg` crate can append. It cannot say "replace the rows of this batch, and do it only if nobody else has
//! done it meanwhile"; this crate can. It is built on that crate's public parts (manifest writers, snapshot builder,
//! updates and requirements) and on the commit port of `hexfloe-catalog`.
//!
//! # Concepts
//!
//! * A **batch** has an id that is a function of its input. Every row carries it in the column `ingest_batch_id`.
//! * The **overwrite** replaces the rows with that id by the rows of the batch. It is the guarantee: however often it
//!   is done, the table holds the batch once.
//! * The **[`Ledger`]** is a table property with the ids of completed batches. It is a shortcut: it saves the work of
//!   an overwrite that would change nothing. It is bounded, and may be lost.
//! * Both change in **one snapshot and one commit**, guarded by the table's uuid and the snapshot the decision was
//!   made on. There is no moment at which a reader sees the batch missing, and none at which ledger and rows disagree.
//! * An **attempt** is one try. Each is decided afresh from a newly loaded table; only the immutable data files are
//!   kept from one to the next. It deletes the files it wrote itself, and only when it is certain that nothing refers
//!   to them.
//!
//! # Outcomes
//!
//! [`Committer::commit`] answers [`BatchOutcome::Committed`] or [`BatchOutcome::Skipped`]. When the catalog's answer is
//! lost it reloads the table and looks for its snapshot; only when that cannot be read either does it end with
//! [`ErrorKind::Unknown`], leaving every file where it is.
//!
//! # Replacing a slice of any table
//!
//! The table needs no column of Hexfloe's for this: a slice is found by its own columns. That the slice is done is recorded
//! in the same commit, and a second run finds it.
//!
//! ```
#![doc = include_str!("../examples/slice.rs")]
//! ```
//!
//! # How rows are replaced
//!
//! Files are planned manifest by manifest, each under its own partition spec; columns are compared by field id. A file all of
//! whose rows match is removed; one with none stays; in between it is written again without them, or, when the table's
//! `write.delete.mode` is `merge-on-read`, a position delete file hides them. What other engines deleted from such a file
//! stays deleted. A rewritten file has the table's current schema and keeps its partition spec. In tables of format version
//! 3 files are only replaced whole: other rows of a file would lose their row ids.
//!
//! # Telling others
//!
//! Whoever tells others that a batch has landed does it after the commit, with [`Notice::key`] as the idempotency key, and then
//! calls [`Committer::record_notice`], so that the next process knows. A crash between the two has it told again under the
//! same key.
//!
//! # What it does not do
//!
//! It writes no rows but those it must copy; data files come from the caller, described with [`FileMetrics`]. What cannot be
//! rewritten correctly (files that are not Parquet, delete files that are not, columns whose type was changed against the
//! rules) is refused with the file's name and the reason, before anything is written. It removes no files but its own. It sends no message: it only
//! knows which were sent.

#[doc(hidden)]
pub mod avro;
mod base;
mod batch;
mod committer;
mod deletes;
mod environment;
mod error;
mod expiry;
mod filter;
mod history;
mod ledger;
mod locations;
mod manifest_bytes;
mod merging;
mod metrics;
pub mod names;
mod notices;
mod parquet_file;
mod parquet_settings;
mod partition;
mod plan;
mod reading;
mod refs;
mod retry;
mod rewrite;
mod running;
mod snapshot;
mod together;

pub use batch::{BatchCheck, BatchCommit, BatchOutcome, Derivation, Keys, OnChangedInput, Replaces, WrittenFor};
pub use committer::Committer;
pub use environment::{Environment, SharedEnvironment};
pub use error::{Error, ErrorKind};
pub use expiry::{Expiry, Retention};
pub use history::{BatchRecord, BatchSnapshot, history, history_of};
pub use ledger::{Ledger, LedgerBounds};
pub use locations::Locations;
pub use metrics::{FileMetrics, MetricsMode};
pub use notices::Notice;
pub use parquet_settings::{ParquetSettings, ROW_GROUP_ROWS};
pub use refs::{Dropped, Published, Refs, RollBackTo, RolledBack, check_branch_name};
pub use running::{Running, RunningAttempt, announce, running};
