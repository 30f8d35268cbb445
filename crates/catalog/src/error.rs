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
    /// A self-test failed, and what it had made could not be taken away.
    #[error("{source}; table {table} of the test may be left in the catalog")]
    Left {
        /// The table, in a namespace of the test unless one was given.
        table: String,
        /// Why the test failed.
        source: Box<Error>,
    },
    /// The catalog cannot change several tables in one commit.
    #[error("the catalog cannot commit to several tables at once ({}); commit to one after the other", .tables.join(", "))]
    NotTogether {
        /// The tables.
        tables: Vec<String>,
    },
    /// A REST catalog cannot be reached, or did not answer in time.
    #[error("failed to {action}: {server} does not answer")]
    Unreachable {
        /// What was being done.
        action: String,
        /// Who was asked: scheme, host and port.
        server: String,
        /// The HTTP client's error, without the URL's query.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A REST catalog answered that it will not, or cannot.
    #[error("failed to {action}: the catalog answered {status}{}{message}", .exception.as_ref().map_or_else(|| ", ".to_owned(), |exception| format!(", {exception}: ")))]
    Refused {
        /// What was being done.
        action: String,
        /// The HTTP status.
        status: u16,
        /// The exception that the server names, if it answered as the protocol says.
        exception: Option<String>,
        /// The server's message, or how its answer begins.
        message: String,
    },
    /// A REST catalog answered what cannot be read.
    #[error("failed to {action}: the catalog's answer cannot be read: {reason}")]
    Answer {
        /// What was being done.
        action: String,
        /// Why.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] hexfloe_store::Error),
}

impl Error {
    pub(crate) fn table(action: &'static str, table: &(impl ToString + ?Sized), source: iceberg::Error) -> Self {
        Self::Table { action, table: table.to_string(), source: Box::new(source) }
    }

    pub(crate) fn unreachable(action: String, source: reqwest::Error) -> Self {
        let server = source.url().map_or_else(|| "the catalog".to_owned(), |url| url.origin().ascii_serialization());
        Self::Unreachable { action, server, source: Box::new(source.without_url()) }
    }

    /// Whether there is no such table or namespace, as the protocol says it. Another 404 comes from somebody else on the
    /// way, and says nothing.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, exception: Some(exception), .. }
            if exception.contains("NoSuch") || exception.contains("NotFound"))
    }

    /// Whether the server may answer when it is asked again.
    pub(crate) fn is_of_the_network(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// A table that was created, and is not there.
    pub(crate) fn gone(table: &iceberg::TableIdent) -> Self {
        let gone = "the catalog does not have it after its creation; somebody dropped it, run again";
        Self::table("create", table, iceberg::Error::new(iceberg::ErrorKind::Unexpected, gone))
    }

    /// What the caller should do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Settings(_) | Self::NoCatalog { .. } | Self::Definition(_) | Self::NotTogether { .. } => {
                ErrorKind::Configuration
            }
            Self::Refused { status: 401 | 403, .. } => ErrorKind::Configuration,
            Self::Refused { status: 408 | 429 | 500.., .. } => ErrorKind::Unavailable,
            Self::Refused { .. } | Self::Answer { .. } => ErrorKind::Unexpected,
            Self::Store(error) if error.is_configuration() => ErrorKind::Configuration,
            Self::Open { source, .. } if is_refused(source.as_ref()) => ErrorKind::Configuration,
            Self::Database { source, .. } if is_refused(source) => ErrorKind::Configuration,
            Self::Table { source, .. } if is_refused(source.as_ref()) => ErrorKind::Configuration,
            Self::Left { source, .. } => source.kind(),
            Self::Open { .. } | Self::Busy { .. } | Self::Database { .. } | Self::Store(_) => ErrorKind::Unavailable,
            Self::Unreachable { .. } => ErrorKind::Unavailable,
            Self::Table { source, .. } => match inner(source) {
                Some(error) => error.kind(),
                None => match hexfloe_store::Error::behind(source) {
                    Some(error) if error.is_configuration() => ErrorKind::Configuration,
                    _ if source.kind() == iceberg::ErrorKind::Unexpected => ErrorKind::Unavailable,
                    _ => ErrorKind::Unexpected,
                },
            },
        }
    }
}

/// Whether a database refuses who we are or what we want, or there is none of the name: PostgreSQL's classes 28 and 3D,
/// `insufficient_privilege` and `read_only_sql_transaction`.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(sqlx::Error::Database(database)) = error.downcast_ref()
            && let Some(code) = database.code()
        {
            let known = code.starts_with("28") || code.starts_with("3D") || code == "42501" || code == "25006";
            return code.len() == 5 && known;
        }
        cause = error.source();
    }
    false
}

/// An error of ours that went through the `iceberg` crate.
fn inner(error: &iceberg::Error) -> Option<&Error> {
    std::error::Error::source(error)?.downcast_ref()
}

impl From<Error> for iceberg::Error {
    fn from(error: Error) -> Self {
        let of_table = |exception: &Option<String>| exception.as_ref().is_some_and(|name| name.contains("Table"));
        let kind = match &error {
            Error::Refused { status: 404, exception, .. } if error.is_missing() && of_table(exception) => {
                iceberg::ErrorKind::TableNotFound
            }
            Error::Refused { status: 404, .. } if error.is_missing() => iceberg::ErrorKind::NamespaceNotFound,
            Error::Refused { status: 409, exception, .. } if of_table(exception) => {
                iceberg::ErrorKind::TableAlreadyExists
            }
            Error::Refused { status: 409, .. } => iceberg::ErrorKind::NamespaceAlreadyExists,
            Error::Settings(_) | Error::Definition(_) | Error::Answer { .. } => iceberg::ErrorKind::DataInvalid,
            _ => iceberg::ErrorKind::Unexpected,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}
