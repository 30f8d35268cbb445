//! What a cleaner says of what it found and did.

use chrono::{DateTime, SecondsFormat};
use serde::{Serialize, Serializer};

use crate::names::Attribution;

/// Files and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// How many.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, size: u64) {
        self.files += 1;
        self.bytes += size;
    }

    /// Takes away one that was added before.
    pub(crate) fn take(&mut self, size: u64) {
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }
}

/// What an attempt at a batch left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    /// Whose files they are.
    #[serde(flatten)]
    pub by: Attribution,
    /// How many, and how large.
    #[serde(flatten)]
    pub count: Count,
    /// When the first of them was written, by the store's clock: milliseconds since 1970-01-01 UTC; in JSON a text like
    /// `2026-08-11T02:15:00.000Z`, as are all times.
    #[serde(rename = "since", serialize_with = "time")]
    pub since_ms: i64,
}

/// Whose clock ages are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockUsed {
    /// The store's, or this machine's where it is behind.
    Store,
    /// This machine's: a dry run writes nothing, and a store tells its time only of what is written.
    ThisMachine,
}

/// What was found at a table, and what was done. Where `applied` is false nothing was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrphanReport {
    /// The table.
    pub table: String,
    /// Its location.
    pub location: String,
    /// Whether orphans were to be removed.
    pub applied: bool,
    /// Files last written before this may go.
    #[serde(rename = "written_before", serialize_with = "time")]
    pub written_before_ms: i64,
    /// Whose clock that is by.
    pub clock: ClockUsed,
    /// Snapshots whose files were found, all of them.
    pub snapshots: u64,
    /// Manifests that were read.
    pub manifests: u64,
    /// Everything that lies below the roots.
    pub listed: Count,
    /// Of it, what the table refers to.
    pub referenced: Count,
    /// Unreferenced, and younger than the margin.
    pub young: Count,
    /// Unreferenced, of unknown age, and therefore kept.
    pub undated: Count,
    /// Files that no writer of tables names so, or outside data and metadata folders; kept.
    pub unknown: Count,
    /// Named otherwise than they are listed, by an encoding; kept.
    pub doubtful: Count,
    /// What may go.
    pub orphans: Count,
    /// What went.
    pub removed: Count,
    /// What got a tag instead.
    pub tagged: Count,
    /// What should have gone, and is still there, or should have got a tag.
    pub failed: Count,
    /// The first of those that failed, each with the reason.
    pub failures: Vec<String>,
    /// Why the work ended before all orphans were tried.
    pub stopped: Option<String>,
    /// Orphans that attempts of ours left, by batch and attempt.
    pub attempts: Vec<Left>,
    /// Places that were listed.
    pub roots: Vec<String>,
    /// Tables of the catalog that could not be asked whether they have files in the same places.
    pub not_asked: Vec<String>,
    /// Places of the table outside its location, which were not listed because nobody declared them as its own.
    pub not_scanned: Vec<String>,
}

/// One file of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileRecord {
    /// The table.
    pub table: String,
    /// The file's location.
    pub file: String,
    /// Bytes; absent for files that were not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// When it was last written, by the store's clock; absent if that is unknown.
    #[serde(rename = "last_modified", serialize_with = "time_if_known", skip_serializing_if = "Option::is_none")]
    pub last_modified_ms: Option<i64>,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
    /// Whose it is, if it is ours.
    #[serde(flatten)]
    pub by: Option<Attribution>,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fate", rename_all = "kebab-case")]
pub enum Fate {
    /// It may go: this is a dry run.
    Orphan,
    /// It went.
    Removed,
    /// It stays, with a tag for the store's lifecycle rules.
    Tagged,
    /// It should have gone.
    Failed {
        /// Why it did not.
        error: String,
    },
    /// It was kept, as no writer of tables names files so, or outside the table's folders.
    Unknown,
    /// It was kept, as its age is not known.
    Undated,
    /// It was kept, as metadata has an encoded form of its name.
    Doubtful,
}

/// Takes the files of a report one by one. An error ends the work.
pub trait Sink: Send {
    /// One file.
    ///
    /// # Errors
    ///
    /// When it cannot be noted.
    fn note(&mut self, record: &FileRecord) -> std::io::Result<()>;
}

/// Notes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSink;

impl Sink for NoSink {
    fn note(&mut self, _: &FileRecord) -> std::io::Result<()> {
        Ok(())
    }
}

/// A vector keeps them.
impl Sink for Vec<FileRecord> {
    fn note(&mut self, record: &FileRecord) -> std::io::Result<()> {
        self.push(record.clone());
        Ok(())
    }
}

/// `2026-08-11T10:11:12.000Z`.
pub(crate) fn text(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms)
        .map_or_else(|| ms.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
pub(crate) fn time<S: Serializer>(ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*ms))
}

#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
fn time_if_known<S: Serializer>(ms: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match ms {
        Some(ms) => serializer.serialize_some(&text(*ms)),
        None => serializer.serialize_none(),
    }
}
