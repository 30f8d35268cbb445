//! What can be wrong with a geometry.

/// Why a geometry cannot be used. The text fits behind "the geometry …".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// It is not what its format says.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// A coordinate is NaN or infinite, in a geometry that is not empty.
    #[error("has a coordinate that is {0}, not a finite number")]
    NotFinite(f64),
    /// The last point of a ring is not its first.
    #[error("has a ring that is not closed (ring {ring})")]
    UnclosedRing {
        /// Counted from 1 within its polygon.
        ring: usize,
    },
    /// It is larger than the limits allow.
    #[error("is beyond the limits: {0}")]
    TooLarge(String),
}

/// The beginning of a text, on one line, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    let mut characters = text.chars();
    let beginning: String = characters.by_ref().take(20).collect();
    if characters.next().is_some() { format!("{beginning:?}…") } else { format!("{beginning:?}") }
}
