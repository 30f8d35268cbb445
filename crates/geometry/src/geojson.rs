//! Geometries of GeoJSON.

use crate::{Limits, Problem};

/// Appends the `GeoJSON` geometry in `json` (an object with `type` and `coordinates` or `geometries`, in any order, foreign members
/// ignored) to `out` as little-endian ISO well-known binary. `false` for `null`, for which nothing is appended.
///
/// # Errors
///
/// See [`Problem`]; `out` is then as it was.
pub fn from_geojson(json: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<bool, Problem> {
    let _ = (json, limits, out);
    Err(Problem::Unreadable("not yet".to_owned()))
}
