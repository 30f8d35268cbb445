//! What can be wrong with a coordinate reference system.

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
    /// It is not known, or cannot be done to five metres.
    #[error("{crs}: {cause}")]
    Unsupported {
        /// Its id or name.
        crs: String,
        /// Why, and what to do.
        cause: String,
    },
    /// A coordinate that the system does not have.
    #[error("({x}, {y}) is no place in {crs}")]
    Outside {
        /// Its id or name.
        crs: String,
        /// As found.
        x: f64,
        /// As found.
        y: f64,
    },
}
