//! Geometries of GeoPackage: well-known binary behind a header (`GeoPackage` 1.3, clause 2.1.3).

use crate::{Limits, Problem, normalise};

/// Byte order of the header's numbers.
const LITTLE_ENDIAN: u8 = 0b0000_0001;
/// Which envelope follows.
const ENVELOPE: u8 = 0b0000_1110;
/// The geometry is empty.
const EMPTY: u8 = 0b0001_0000;
/// What follows is no well-known binary, but of some extension.
const EXTENDED: u8 = 0b0010_0000;

/// What the header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeoPackageBlob {
    /// The `srs_id`, a key of the file's table `gpkg_spatial_ref_sys`; -1 and 0 are undefined systems.
    pub srs_id: i32,
    /// Whether the geometry is said to be empty.
    pub is_empty: bool,
}

/// Appends the geometry of a `GeoPackage` to `out` as little-endian ISO well-known binary. The envelope is passed over: whatever it
/// says, the coordinates say better.
///
/// # Errors
///
/// See [`Problem`]; `out` is then as it was.
pub fn from_geopackage(blob: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<GeoPackageBlob, Problem> {
    let Some(([magic0, magic1, version, flags, srs_id @ ..], body)) = blob.split_first_chunk::<8>() else {
        return unreadable(format!("{} bytes are too few for the header of a GeoPackage", blob.len()));
    };
    if [*magic0, *magic1] != *b"GP" {
        return unreadable("it does not begin with GP, as geometries of a GeoPackage do".to_owned());
    }
    if *version != 0 {
        return unreadable(format!("its header has version {version}, where 0 is known"));
    }
    if flags & EXTENDED != 0 {
        return unreadable("it is of an extended type, which is no well-known binary".to_owned());
    }
    let envelope = match (flags & ENVELOPE) >> 1 {
        0 => 0,
        1 => 32,
        2 | 3 => 48,
        4 => 64,
        other => return unreadable(format!("its envelope has code {other}, where 0 to 4 are known")),
    };
    let Some((_, wkb)) = body.split_at_checked(envelope) else {
        return unreadable(format!("{} bytes are left where an envelope has {envelope}", body.len()));
    };
    let srs_id = if flags & LITTLE_ENDIAN == 0 { i32::from_be_bytes(*srs_id) } else { i32::from_le_bytes(*srs_id) };
    normalise(wkb, limits, out)?;
    Ok(GeoPackageBlob { srs_id, is_empty: flags & EMPTY != 0 })
}

fn unreadable<T>(cause: String) -> Result<T, Problem> {
    Err(Problem::Unreadable(cause))
}
