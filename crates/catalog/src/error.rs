//! Errors of opening, loading and creating.

/// What the caller should do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Correct the catalog file or the arguments.
    Configuration,
    /// The catalog or its store cannot be reached or does not answer; try again later.
    Unavailable,
    /// The catalog answered something that cannot be worked with; look at it.
    Unexpected,
}

/// An error of a catalog. Where it comes out of a commit, nothing was applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The catalog file cannot be used.
    #[error("catalog configuration: {0}")]
    Settings(String),
    /// The catalog does not exist, and the command does not create one.
    #[error("there is no catalog at {path}; `hexfloe ingest` creates it, or name another with --catalog")]
    NoCatalog {
        /// The database file.
        path: String,
    },
    /// A folder or database could not be made or opened.
    #[error("cannot open the catalog at {path}")]
    Open {
        /// The database file.
        path: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database is locked by others for longer than we wait.
    #[error("the catalog database stayed locked for {waited:?}; nothing was committed, run again")]
    Busy {
        /// How long it was waited for.
        waited: std::time::Duration,
    },
    /// The database failed.
    #[error("the catalog database failed to {action}")]
    Database {
        /// What was being done.
        action: &'static str,
        /// The database's error.
        source: sqlx::Error,
    },
    /// The `iceberg` crate failed.
    #[error("failed to {action} table {table}")]
    Table {
        /// What was being done.
        action: &'static str,
        /// The table.
        table: String,
        /// Iceberg's error.
        source: Box<iceberg::Error>,
    },
    /// A table's metadata cannot be built from its definition.
    #[error("the table's definition is not valid")]
    Definition(#[source] Box<iceberg::Error>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] hexfloe_store::Error),
}

impl Error {
    pub(crate) fn table(action: &'static str, table: &(impl ToString + ?Sized), source: iceberg::Error) -> Self {
        Self::Table { action, table: table.to_string(), source: Box::new(source) }
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Settings(_) | Self::NoCatalog { .. } | Self::Definition(_) => ErrorKind::Configuration,
            Self::Store(hexfloe_store::Error::Location { .. } | hexfloe_store::Error::NoStore { .. }) => {
                ErrorKind::Configuration
            }
            Self::Open { .. } | Self::Busy { .. } | Self::Database { .. } | Self::Store(_) => ErrorKind::Unavailable,
            Self::Table { source, .. } => match source.kind() {
                iceberg::ErrorKind::Unexpected => ErrorKind::Unavailable,
                _ => ErrorKind::Unexpected,
            },
        }
    }
}
