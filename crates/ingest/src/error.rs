//! Errors of an ingest, by what the caller should do.

use crate::rejects::RejectedRow;

/// What the caller should do about an [`Error`]. The binary maps each to an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Something that should not be; look at it.
    Unexpected,
    /// Correct the job, the catalog file or the arguments.
    Configuration,
    /// Correct the input. Nothing of it is in the table.
    Input,
    /// The table's cells come from another derivation.
    Derivation,
    /// Others kept changing the table; run again.
    Conflict,
    /// It is not known whether the batch was committed; run again.
    Unknown,
    /// Catalog, store or disk do not answer; run again later.
    Unavailable,
}

/// An error of an ingest. Unless its kind is [`ErrorKind::Unknown`] nothing was committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The job file cannot be used.
    #[error("job: {0}")]
    Job(String),
    /// The job and the source do not fit.
    #[error("{0}")]
    Mismatch(String),
    /// Rows were rejected and the job refuses such input.
    #[error("{count} rows cannot be used, and nothing was committed: {}{}", Listed(.first), hint(*.count, .first))]
    Rejected {
        /// How many.
        count: u64,
        /// The first of them, in input order.
        first: Vec<RejectedRow>,
    },
    /// A value within a list, struct or map does not fit its type in the table.
    #[error("{file}: column `{column}` holds a value that its type in the table cannot: {cause}")]
    Value {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// Which value, and why not.
        cause: String,
    },
    /// Two rows of a batch have the same key, and the key says which rows they replace.
    #[error(
        "two rows of the batch have the key {key}: {first}; and {second} (correct the input, or keep one of them with \
         quality.dedupe)"
    )]
    DuplicateKey {
        /// The key's columns and values.
        key: String,
        /// The first of the two rows.
        first: String,
        /// The second.
        second: String,
    },
    /// The table has the batch with another input.
    #[error(
        "table {table} has batch {batch_id} with another input, and a batch id has to mean one input; give the new input an id \
         of its own{}",
        if *replaceable { ", or allow it to replace the old one (batch.on_changed_input = \"replace\")" } else {
            ": table.mode = \"append-once\" replaces nothing"
        }
    )]
    ChangedInput {
        /// The table.
        table: String,
        /// The batch.
        batch_id: String,
        /// Whether the job could replace it.
        replaceable: bool,
    },
    /// Every row of a slice was set aside, and without rows the slice would be emptied.
    #[error(
        "none of the {rejected} rows can be used{}, and a slice without rows would be emptied: nothing was committed; correct \
         the input, or give an input without rows if the slice is to be emptied",
        reject_file.as_ref().map_or_else(String::new, |path| format!(" (they are set aside in {})", path.display()))
    )]
    EmptiedSlice {
        /// How many.
        rejected: u64,
        /// Where they are.
        reject_file: Option<std::path::PathBuf>,
    },
    /// The input gave other rows when it was read a second time.
    #[error(
        "the source gave other rows when it was read a second time: a `select` has to give the same rows in the same order \
         each time, so give it an ORDER BY that leaves no choice"
    )]
    Unrepeatable,
    /// The caller's runtime has one thread, and writing blocks it.
    #[error("an ingest needs a multi-threaded tokio runtime")]
    Runtime,
    /// Another process created the table with other columns or partitions.
    #[error("table {table} was created meanwhile with another schema or partition spec; run again")]
    Raced {
        /// The table.
        table: String,
    },
    /// The source failed.
    #[error(transparent)]
    Source(#[from] hexfloe_source::Error),
    /// Derivation or identity failed.
    #[error(transparent)]
    Batch(#[from] hexfloe_batch::Error),
    /// A coordinate reference system cannot be used.
    #[error(transparent)]
    Crs(#[from] hexfloe_crs::Error),
    /// The commit failed.
    #[error(transparent)]
    Commit(#[from] hexfloe_commit::Error),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] hexfloe_catalog::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] hexfloe_store::Error),
    /// A local file could not be written.
    #[error("failed to {action} {path}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Columns could not be computed.
    #[error("failed to {action}")]
    Arrow {
        /// What was being done.
        action: &'static str,
        /// Arrow's error.
        source: arrow::error::ArrowError,
    },
    /// A data file could not be encoded.
    #[error("failed to encode a data file")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A schema or a partition value could not be made.
    #[error("failed to {action}")]
    Iceberg {
        /// What was being done.
        action: &'static str,
        /// Iceberg's error.
        source: Box<iceberg::Error>,
    },
    /// A worker thread died.
    #[error("a worker thread panicked; this is a bug, please report it with the input")]
    Panicked,
}

impl Error {
    pub(crate) fn arrow(action: &'static str) -> impl Fn(arrow::error::ArrowError) -> Self {
        move |source| Self::Arrow { action, source }
    }

    pub(crate) fn iceberg(action: &'static str) -> impl Fn(iceberg::Error) -> Self {
        move |source| Self::Iceberg { action, source: Box::new(source) }
    }

    pub(crate) fn io(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.display().to_string();
        move |source| Self::Io { action, path, source }
    }

    /// What to do about it, where the message does not say.
    pub fn advice(&self) -> Option<String> {
        let Self::Source(hexfloe_source::Error::NoColumn { near, .. }) = self else { return None };
        delimiter_advice(&near.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Job(_) | Self::Mismatch(_) | Self::Unrepeatable => ErrorKind::Configuration,
            Self::Rejected { .. }
            | Self::Value { .. }
            | Self::DuplicateKey { .. }
            | Self::ChangedInput { .. }
            | Self::EmptiedSlice { .. } => ErrorKind::Input,
            Self::Raced { .. } => ErrorKind::Conflict,
            Self::Source(error) => match error.kind() {
                hexfloe_source::ErrorKind::Configuration => ErrorKind::Configuration,
                hexfloe_source::ErrorKind::Input => ErrorKind::Input,
                hexfloe_source::ErrorKind::Io => ErrorKind::Unavailable,
                _ => ErrorKind::Unexpected,
            },
            Self::Commit(error) => match error.kind() {
                hexfloe_commit::ErrorKind::Configuration => ErrorKind::Configuration,
                hexfloe_commit::ErrorKind::Derivation => ErrorKind::Derivation,
                hexfloe_commit::ErrorKind::Input => ErrorKind::Input,
                hexfloe_commit::ErrorKind::Conflict => ErrorKind::Conflict,
                hexfloe_commit::ErrorKind::Unknown => ErrorKind::Unknown,
                hexfloe_commit::ErrorKind::Unavailable => ErrorKind::Unavailable,
                _ => ErrorKind::Unexpected,
            },
            Self::Catalog(error) => match error.kind() {
                hexfloe_catalog::ErrorKind::Configuration => ErrorKind::Configuration,
                hexfloe_catalog::ErrorKind::Unavailable => ErrorKind::Unavailable,
                _ => ErrorKind::Unexpected,
            },
            Self::Store(error) if error.is_configuration() => ErrorKind::Configuration,
            Self::Store(_) | Self::Io { .. } => ErrorKind::Unavailable,
            Self::Batch(_) | Self::Crs(_) => ErrorKind::Configuration,
            Self::Arrow { .. } | Self::Parquet(_) | Self::Iceberg { .. } | Self::Runtime | Self::Panicked => {
                ErrorKind::Unexpected
            }
        }
    }
}

/// What may be wrong with a source that has one column alone, when its name looks like several.
pub(crate) fn delimiter_advice(columns: &[&str]) -> Option<String> {
    let [only] = columns else { return None };
    let delimiter = only.chars().find(|c| matches!(c, ';' | '\t' | '|'))?.to_string();
    Some(format!("`{}` is its only column: set source.csv.delimiter = {delimiter:?}", only.escape_debug()))
}

struct Listed<'a>(&'a [RejectedRow]);

impl std::fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, row) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{row}")?;
        }
        Ok(())
    }
}

fn hint(count: u64, first: &[RejectedRow]) -> String {
    let more = count.saturating_sub(first.len() as u64);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{more} (correct the input, or set quality.on_reject = \"quarantine\")")
}
