//! What the crate promises, stated from outside. Expected bytes come from GEOS (Python package `shapely` 2.2), or are spelt out.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod binary;
mod geojson;
mod headed;
mod laws;
mod representative;
mod text;

use hexfloe_geometry::{Limits, Problem, from_text};

/// Well-known binary of well-known text.
fn wkb(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    from_text(text, &Limits::default(), &mut bytes).unwrap();
    bytes
}

/// The bytes that `read` appends to some that were there; nothing is appended where it fails.
fn appended<T>(read: impl FnOnce(&mut Vec<u8>) -> Result<T, Problem>) -> Result<(T, Vec<u8>), Problem> {
    let mut bytes = b"before".to_vec();
    let result = read(&mut bytes);
    assert!(bytes.starts_with(b"before"));
    let appended = bytes.split_off(6);
    assert!(result.is_ok() || appended.is_empty());
    Ok((result?, appended))
}

/// What a problem says of "the geometry …".
fn message<T: std::fmt::Debug>(result: Result<T, Problem>) -> String {
    result.unwrap_err().to_string()
}
