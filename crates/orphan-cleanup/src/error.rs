//! What can go wrong, and what is refused.

use std::time::Duration;

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Correct the catalog file or the arguments.
    Configuration,
    /// Look at the table: nothing was removed, and nothing will be while this holds.
    Refused,
    /// Others kept changing the table; run again.
    Conflict,
    /// It is not known whether a commit was applied; no file was removed, run again.
    Unknown,
    /// The catalog or its store does not answer; run again later.
    Unavailable,
    /// Unexpected.
    Unexpected,
}

/// An error of cleaning up. No file was removed, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such table.
    #[error("there is no table {table} in the catalog")]
    NoTable {
        /// Its name.
        table: String,
    },
    /// It is not certain that only orphans would go.
    #[error("{table}: {refusal}")]
    Refused {
        /// The table, or the place of one.
        table: String,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// The options contradict each other or the table.
    #[error("{0}")]
    Options(String),
    /// The report could not be written.
    #[error("failed to write the report; {removed} files were removed before")]
    Report {
        /// Files that were removed before.
        removed: u64,
        /// Why.
        source: std::io::Error,
    },
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] hexfloe_catalog::Error),
    /// A commit failed.
    #[error(transparent)]
    Commit(#[from] hexfloe_commit::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] hexfloe_store::Error),
}

/// Why nothing is removed. Each names the file, property or table that is the cause, and the option, if there is one, that
/// allows it.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The table does not let go of files.
    #[error("its property gc.enabled is {value:?}: no file of it may be removed")]
    GarbageCollection {
        /// The property's value.
        value: String,
    },
    /// Another table's metadata is among the files.
    #[error(
        "{file} is metadata of another table ({whose}), which shares the location or lies in it; give one of them a location of its own"
    )]
    Foreign {
        /// The metadata file.
        file: String,
        /// What it says of whose it is.
        whose: String,
    },
    /// Another table of the catalog has files in the same place.
    #[error("its location {location} overlaps with that of table {other}, {theirs}")]
    Overlap {
        /// The table's location.
        location: String,
        /// The other table.
        other: String,
        /// The other table's location.
        theirs: String,
    },
    /// Something that says what is referenced cannot be read.
    #[error("{file} cannot be read, and what it refers to might be removed: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The same key is named with another scheme or authority.
    #[error("{listed} is listed, and the table names it {named}; {}", advice(.equal.as_ref()))]
    Spelling {
        /// The file as it was listed.
        listed: String,
        /// As the metadata has it.
        named: String,
        /// The two schemes, if only these differ.
        equal: Option<(String, String)>,
    },
    /// Metadata has a path that cannot be compared with a listing.
    #[error(
        "its metadata has the path {path:?}, which has no scheme and is not absolute: it cannot be compared with what is listed"
    )]
    Unplaced {
        /// The path.
        path: String,
    },
    /// The catalog's pointer may be an old one.
    #[error(
        "{file} is metadata of this table, and newer than what the catalog knows: the catalog may be an older copy, or another one may have the table too; remove the file by hand if it is not needed"
    )]
    Newer {
        /// The metadata file.
        file: String,
    },
    /// Another table's place cannot be compared.
    #[error("table {other} of the catalog has the place {path:?}, which is not plain: it may be this one")]
    Incomparable {
        /// The other table.
        other: String,
        /// Its place.
        path: String,
    },
    /// The listing does not show what must be there.
    #[error("{file} is the table's own, and the listing does not show it: the listing cannot be trusted")]
    NotListed {
        /// The file.
        file: String,
    },
    /// Files might be those of a write that is under way.
    #[error("files must be at least 24 h old to be removed, and {}; if no writer can be at work, give --i-understand-younger-than-24h", hours(.older_than))]
    Margin {
        /// The age that was asked for.
        older_than: Duration,
    },
    /// A writer of ours is at work on this machine.
    #[error(
        "attempt {attempt} at batch {batch} is running on this machine, and its files are younger than 24 h; wait for its end"
    )]
    Running {
        /// The batch.
        batch: String,
        /// The attempt.
        attempt: String,
    },
    /// More would go than is plausible.
    #[error(
        "{orphans} of {listed} bytes are unreferenced, which is more than the fraction {max}; if that is right, give --max-fraction with a larger one"
    )]
    Fraction {
        /// Bytes that would go.
        orphans: u64,
        /// Bytes that were listed.
        listed: u64,
        /// The largest fraction that may go, as it was given.
        max: String,
    },
    /// The table changed in a way that no commit makes.
    #[error("the table changed while its files were listed, and not by a commit: {reason}; run again")]
    Moved {
        /// What changed.
        reason: String,
    },
    /// Files of a dropped table are in use.
    #[error("table {other} of the catalog claims {what}")]
    Claimed {
        /// The table.
        other: String,
        /// What it claims: the place, or a file.
        what: String,
    },
    /// Nothing says that there was a table.
    #[error("no metadata file lies there: nothing says that these files were a table's")]
    NoTableThere,
    /// Files of a dropped table are too new.
    #[error("{file} is younger than the margin, or has no date: somebody may still write there")]
    Young {
        /// The youngest file.
        file: String,
    },
    /// A quarantine in a place that is cleaned.
    #[error("the quarantine {quarantine} overlaps with {location}; choose a place outside")]
    Quarantine {
        /// The quarantine.
        quarantine: String,
        /// A place that is cleaned.
        location: String,
    },
}

fn advice(equal: Option<&(String, String)>) -> String {
    match equal {
        Some((one, other)) => format!("if the two are the same, give --equal-scheme {one}={other}"),
        None => "they are different objects for this machine".to_owned(),
    }
}

fn hours(age: &Duration) -> String {
    format!("{} h was given", age.as_secs() / 3600)
}

impl Error {
    pub(crate) fn refused(table: &(impl ToString + ?Sized), refusal: Refusal) -> Self {
        Self::Refused { table: table.to_string(), refusal: Box::new(refusal) }
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTable { .. } | Self::Options(_) => ErrorKind::Configuration,
            Self::Refused { .. } => ErrorKind::Refused,
            Self::Report { .. } => ErrorKind::Unavailable,
            Self::Catalog(error) => match error.kind() {
                hexfloe_catalog::ErrorKind::Configuration => ErrorKind::Configuration,
                hexfloe_catalog::ErrorKind::Unavailable => ErrorKind::Unavailable,
                _ => ErrorKind::Unexpected,
            },
            Self::Commit(error) => match error.kind() {
                hexfloe_commit::ErrorKind::Conflict => ErrorKind::Conflict,
                hexfloe_commit::ErrorKind::Unknown => ErrorKind::Unknown,
                hexfloe_commit::ErrorKind::Unavailable => ErrorKind::Unavailable,
                hexfloe_commit::ErrorKind::Configuration => ErrorKind::Configuration,
                _ => ErrorKind::Unexpected,
            },
            Self::Store(error) if error.is_configuration() => ErrorKind::Configuration,
            Self::Store(_) => ErrorKind::Unavailable,
        }
    }
}

/// An error and what is behind it.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
