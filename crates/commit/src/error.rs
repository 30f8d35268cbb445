//! Errors of a commit. None of them leaves a half-committed table.

use hexfloe_batch::DerivationMismatch;

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The table is not made for this job: correct one of them.
    Configuration,
    /// The table's cells come from another derivation.
    Derivation,
    /// The input is not what the table knows of it: correct the input, or say that it may differ.
    Input,
    /// Others kept winning; nothing was committed, try again later.
    Conflict,
    /// It is not known whether the batch is in the table. Nothing was deleted; run the same job again.
    Unknown,
    /// Catalog or store do not answer; try again later.
    Unavailable,
    /// Something that should not be; look at it.
    Unexpected,
}

/// An error of a commit.
///
/// Except for [`ErrorKind::Unknown`], this call put nothing of the batch into the table. Its data files are then removed,
/// unless a snapshot refers to them or the table cannot be asked whether one does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table disappeared.
    #[error("table {table} does not exist")]
    NoTable {
        /// The table.
        table: String,
    },
    /// The table is another one, or has another schema or partition spec, than the files were written for.
    #[error("table {table} changed while the batch was written ({what}); run again")]
    Changed {
        /// The table.
        table: String,
        /// What changed.
        what: String,
        /// Whether a commit with the files was sent before that was seen. If not, no snapshot refers to them.
        sent: bool,
    },
    /// The attempt took so long that cleanup could consider its files abandoned.
    #[error("the attempt is {hours} hours old, and after {limit} hours its files may be cleaned up; run again")]
    TooLate {
        /// Its age.
        hours: i64,
        /// The limit.
        limit: i64,
    },
    /// A data file of the attempt is not there any more, or not whole: somebody cleaned up with too short a margin.
    #[error(
        "{file}, which was written for the batch, is not there as it was written; files are written anew when it is run again"
    )]
    FileGone {
        /// The file.
        file: String,
    },
    /// The batch was committed by a process that had been suspended for so long that its files were cleaned up.
    #[error(
        "table {table} has batch {batch_id} in snapshot {snapshot_id}, and its file {file} was cleaned up while this process was suspended; run it again with --force"
    )]
    Lost {
        /// The table.
        table: String,
        /// The batch.
        batch_id: String,
        /// The snapshot that has it.
        snapshot_id: i64,
        /// A file that is missing.
        file: String,
    },
    /// The table lacks what every batch needs.
    #[error("table {table} {reason}")]
    Unsuitable {
        /// The table.
        table: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The cells in the table come from another derivation.
    #[error("table {table}: column {column}: {mismatch}")]
    Derivation {
        /// The table.
        table: String,
        /// The derived column.
        column: String,
        /// What differs and how to proceed.
        mismatch: Box<DerivationMismatch>,
    },
    /// What columns of the table rest on is not what those of the batch rest on.
    #[error(
        "table {table} has rows of another origin: property {property} is {then} there, and {now} here; give the job the settings of the \
         table, or run the build that made it, or write to another column or table"
    )]
    Record {
        /// The table.
        table: String,
        /// The property.
        property: String,
        /// As the table has it.
        then: String,
        /// As the batch has it.
        now: String,
    },
    /// The table's derivation record cannot be read.
    #[error("table {table}: property {property} cannot be read: {reason}; correct or remove it")]
    DerivationRecord {
        /// The table.
        table: String,
        /// The property.
        property: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A live file holds rows of the batch among others, and cannot be rewritten.
    #[error("{file} holds rows of the batch among others and cannot be rewritten: {reason}")]
    CannotRewrite {
        /// The data file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// The input of a batch is not what it was when the table got it.
    #[error(
        "table {table} has batch {batch_id} with another input (digest {then}, now {now}), and a batch id has to mean one input; \
         give the new input an id of its own, or allow it to replace the old one (on_changed_input = \"replace\")"
    )]
    ChangedInput {
        /// The table.
        table: String,
        /// The batch.
        batch_id: String,
        /// The digest the table has.
        then: String,
        /// The digest of the input now.
        now: String,
    },
    /// The rows to replace cannot be told by these columns or values.
    #[error("table {table}: the rows to replace cannot be found: {reason}")]
    Keys {
        /// The table.
        table: String,
        /// Why not.
        reason: String,
    },
    /// A table property that cannot be followed.
    #[error("the table's property {property} is `{value}`, and only {expected} can be followed; change it")]
    Property {
        /// The property.
        property: String,
        /// Its value.
        value: String,
        /// What it may be.
        expected: &'static str,
    },
    /// A name that cannot be a branch's.
    #[error("`{branch}` is no name for a branch: use letters, digits, `_`, `-` and `.`")]
    BranchName {
        /// The name.
        branch: String,
    },
    /// A ref that cannot be moved as asked.
    #[error("table {table}: {reason}")]
    Ref {
        /// The table.
        table: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// Somebody changed the table while a branch was to be moved.
    #[error("table {table} changed meanwhile, and nothing was done ({reason}); look at it and run again")]
    Moved {
        /// The table.
        table: String,
        /// What the catalog said.
        reason: String,
    },
    /// The batch's description does not fit its data files.
    #[error("batch {batch_id} is described wrongly and was not committed: {reason}")]
    Inconsistent {
        /// The batch.
        batch_id: String,
        /// What does not fit.
        reason: String,
    },
    /// A data file is not of the table's partition spec.
    #[error("data file {file} has {values} partition values, and the table's partition spec has {fields} fields")]
    OtherPartition {
        /// The data file.
        file: String,
        /// Its partition values.
        values: usize,
        /// Fields of the spec.
        fields: usize,
    },
    /// A data file is named twice, or is in the table already.
    #[error("data file {file} is named twice or is in the table already")]
    FileTwice {
        /// The data file.
        file: String,
    },
    /// Rivals won every time.
    #[error(
        "table {table} was changed by others in each of {attempts} attempts over {waited_ms} ms; \
         nothing was committed, run again or raise commit.retry.num-retries (last: {reason})"
    )]
    Exhausted {
        /// The table.
        table: String,
        /// Attempts made.
        attempts: u32,
        /// Time spent waiting between them.
        waited_ms: u64,
        /// What the last rival did.
        reason: String,
    },
    /// A commit was sent and its fate could not be found out.
    #[error(
        "it is not known whether the batch was committed to table {table} ({reason}); \
         no file was removed, and running the same job again settles it"
    )]
    Unknown {
        /// The table.
        table: String,
        /// What happened.
        reason: String,
        /// The failure behind it.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// A batch's landing was told, and that could not be written into the table.
    #[error("table {table} does not say that batch {batch_id} was told ({reason})")]
    Unrecorded {
        /// The table.
        table: String,
        /// The batch.
        batch_id: String,
        /// What happened.
        reason: String,
        /// The failure behind it.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] hexfloe_catalog::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] hexfloe_store::Error),
    /// A manifest, or a table's metadata, could not be read or written.
    #[error("failed to {action}")]
    Iceberg {
        /// What was being done.
        action: &'static str,
        /// Iceberg's error.
        source: Box<iceberg::Error>,
    },
    /// A live data file could not be read.
    #[error("failed to read {file}")]
    Reading {
        /// The data file.
        file: String,
        /// Iceberg's error.
        source: Box<iceberg::Error>,
    },
    /// A delete file does not keep to the table format.
    #[error("delete file {file} cannot be used: {reason}")]
    Broken {
        /// The delete file.
        file: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A live data file could not be read or rewritten.
    #[error("failed to {action} {file}")]
    Parquet {
        /// What was being done.
        action: &'static str,
        /// The data file.
        file: String,
        /// Parquet's error.
        source: parquet::errors::ParquetError,
    },
}

impl Error {
    pub(crate) fn iceberg(action: &'static str) -> impl Fn(iceberg::Error) -> Self {
        move |source| Self::Iceberg { action, source: Box::new(source) }
    }

    pub(crate) fn reading<'a>(file: &'a str) -> impl Fn(iceberg::Error) -> Self + 'a {
        move |source| Self::Reading { file: file.to_owned(), source: Box::new(source) }
    }

    pub(crate) fn broken(file: &str, reason: &'static str) -> Self {
        Self::Broken { file: file.to_owned(), reason }
    }

    pub(crate) fn parquet<'a>(
        action: &'static str,
        file: &'a str,
    ) -> impl Fn(parquet::errors::ParquetError) -> Self + 'a {
        move |source| Self::Parquet { action, file: file.to_owned(), source }
    }

    /// Whether it says itself what became of requests that were sent.
    pub(crate) fn is_decided(&self) -> bool {
        matches!(self, Self::Lost { .. }) || self.kind() == ErrorKind::Unknown
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTable { .. }
            | Self::Unsuitable { .. }
            | Self::DerivationRecord { .. }
            | Self::Keys { .. }
            | Self::Property { .. }
            | Self::BranchName { .. }
            | Self::Ref { .. } => ErrorKind::Configuration,
            Self::ChangedInput { .. } => ErrorKind::Input,
            Self::Derivation { .. } | Self::Record { .. } => ErrorKind::Derivation,
            Self::Changed { .. }
            | Self::TooLate { .. }
            | Self::FileGone { .. }
            | Self::Exhausted { .. }
            | Self::Unrecorded { .. }
            | Self::Moved { .. } => ErrorKind::Conflict,
            Self::Unknown { .. } => ErrorKind::Unknown,
            Self::Catalog(error) => match error.kind() {
                hexfloe_catalog::ErrorKind::Configuration => ErrorKind::Configuration,
                hexfloe_catalog::ErrorKind::Unavailable => ErrorKind::Unavailable,
                _ => ErrorKind::Unexpected,
            },
            Self::Store(error) if error.is_configuration() => ErrorKind::Configuration,
            Self::Store(_) => ErrorKind::Unavailable,
            Self::Iceberg { source, .. } | Self::Reading { source, .. } => match hexfloe_store::Error::behind(source) {
                Some(error) if error.is_configuration() => ErrorKind::Configuration,
                _ if source.kind() == iceberg::ErrorKind::Unexpected => ErrorKind::Unavailable,
                _ => ErrorKind::Unexpected,
            },
            Self::CannotRewrite { .. }
            | Self::Lost { .. }
            | Self::Broken { .. }
            | Self::Inconsistent { .. }
            | Self::OtherPartition { .. }
            | Self::FileTwice { .. }
            | Self::Parquet { .. } => ErrorKind::Unexpected,
        }
    }
}
