//! What can go wrong between a location and its bytes.

/// An error of the store, naming the location it happened at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The location cannot be understood.
    #[error("location {location:?} is not usable: {reason}")]
    Location {
        /// The location as it was given.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No store is mounted for the location's scheme.
    #[error("location {location:?} needs a store for {scheme:?}, and none is configured")]
    NoStore {
        /// The location as it was given.
        location: String,
        /// Its scheme.
        scheme: String,
    },
    /// The bucket or container does not exist.
    #[error("the bucket of {location} does not exist")]
    NoBucket {
        /// The location of the object.
        location: String,
    },
    /// The object does not exist.
    #[error("{location} does not exist")]
    NotFound {
        /// The location of the object.
        location: String,
    },
    /// There is already an object where a new one should be created.
    #[error("{location} exists already; a path is never written twice")]
    Exists {
        /// The location of the object.
        location: String,
    },
    /// The object found after an upload is not the one that was written.
    #[error("{location} holds {found} bytes after {written} were written")]
    Mismatch {
        /// The location of the object.
        location: String,
        /// Bytes handed to the store.
        written: u64,
        /// Bytes the store says it holds.
        found: u64,
    },
    /// The store failed.
    #[error("the store failed to {action} {location}")]
    Store {
        /// What was being done: `read`, `write`, `list`, `delete`.
        action: &'static str,
        /// The location it was being done to.
        location: String,
        /// The store's own error.
        source: object_store::Error,
    },
}

impl Error {
    pub(crate) fn from_store(action: &'static str, location: &str, source: object_store::Error) -> Self {
        match source {
            object_store::Error::NotFound { source, .. }
                if has_bucket(location) && is_bucket(action, source.as_ref()) =>
            {
                Self::NoBucket { location: location.to_owned() }
            }
            object_store::Error::NotFound { .. } => Self::NotFound { location: location.to_owned() },
            object_store::Error::AlreadyExists { .. } => Self::Exists { location: location.to_owned() },
            source => Self::Store { action, location: location.to_owned(), source },
        }
    }

    /// Whether the error says that the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

impl Error {
    /// The error of ours that an error of the `iceberg` crate comes from.
    pub fn behind(error: &iceberg::Error) -> Option<&Self> {
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            if let Some(ours) = cause.downcast_ref() {
                return Some(ours);
            }
            source = cause.source();
        }
        None
    }

    /// Whether the catalog file or the arguments have to be corrected: the place does not exist, or we are not let in.
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Location { .. } | Self::NoStore { .. } | Self::NoBucket { .. } => true,
            Self::Store { action: "open" | "read certificates for", .. } => true,
            Self::Store { source, .. } => matches!(
                source,
                object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }
            ),
            _ => false,
        }
    }
}

fn has_bucket(location: &str) -> bool {
    !["/", "file:", "memory:"].iter().any(|local| location.starts_with(local))
}

/// Whether what was not found is the bucket. Writing finds no object missing, and S3 and Azure name what is.
fn is_bucket(action: &str, source: &dyn std::error::Error) -> bool {
    let mut said = source.to_string();
    let mut below = source.source();
    while let Some(error) = below {
        said.push_str(&error.to_string());
        below = error.source();
    }
    action == "write" || ["NoSuchBucket", "ContainerNotFound"].iter().any(|name| said.contains(name))
}

impl From<Error> for iceberg::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Location { .. } | Error::Mismatch { .. } => iceberg::ErrorKind::DataInvalid,
            Error::NoStore { .. } => iceberg::ErrorKind::FeatureUnsupported,
            Error::NoBucket { .. } => iceberg::ErrorKind::Unexpected,
            Error::Exists { .. } => iceberg::ErrorKind::PreconditionFailed,
            Error::NotFound { .. } | Error::Store { .. } => iceberg::ErrorKind::Unexpected,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}
