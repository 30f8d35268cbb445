//! Geometries written as text: WKT, EWKT, and WKB in hexadecimal digits.

use crate::{Limits, Normalised, Problem};

/// Appends the geometry in `text` to `out` as little-endian ISO well-known binary. Text that begins with a digit is WKB in
/// hexadecimal digits (it begins with `00` or `01`), any other is WKT.
///
/// # Errors
///
/// See [`Problem`]; `out` is then as it was.
pub fn from_text(text: &str, limits: &Limits, out: &mut Vec<u8>) -> Result<Normalised, Problem> {
    let _ = (text, limits, out);
    Err(Problem::Unreadable("not yet".to_owned()))
}
