//! Any well-known binary to the one form that is stored.

use crate::{Limits, Problem};

/// What was found while normalising.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Normalised {
    /// The spatial reference identifier of EWKB.
    pub srid: Option<u32>,
}

/// Appends `wkb` (ISO or EWKB, in either byte order) to `out` as little-endian ISO well-known binary.
///
/// # Errors
///
/// See [`Problem`]; `out` is then as it was.
pub fn normalise(wkb: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<Normalised, Problem> {
    let _ = (wkb, limits, out);
    Err(Problem::Unreadable("not yet".to_owned()))
}
