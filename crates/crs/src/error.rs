//! What can be wrong with a coordinate reference system.

use std::fmt;

/// Why coordinates cannot be brought to longitude and latitude.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The text is no definition.
    #[error("{text:?} is no coordinate reference system: {cause}")]
    Unreadable {
        /// The beginning of it.
        text: String,
        /// What is wrong.
        cause: String,
    },
    /// It is not known, contradicts itself, or cannot be done to five metres.
    #[error("{crs}: {cause}")]
    Unsupported {
        /// Its id or name.
        crs: String,
        /// Why, and what to do.
        cause: String,
    },
    /// A coordinate that the system does not have.
    #[error("({x}, {y}) is no place in {crs}: {why}")]
    Outside {
        /// Its id and name.
        crs: String,
        /// As found.
        x: f64,
        /// As found.
        y: f64,
        /// What it looks like.
        why: &'static str,
    },
}

impl Error {
    pub(crate) fn unreadable(text: &str, cause: impl fmt::Display) -> Self {
        Self::Unreadable { text: text.chars().take(80).collect(), cause: cause.to_string() }
    }
}
