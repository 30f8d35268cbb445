//! The fingerprint of the derivation: SHA-256 of the cells of a fixed set of points. A version number says that
//! something *may* have changed, the fingerprint whether it *did*, as far as the points reach.
//!
//! Most points on the earth lie well inside a cell and any implementation agrees about them. The points that tell
//! implementations apart lie on edges and vertices, where one rounding in a sine decides. So the set consists of such
//! points, for every resolution, around cities on all sides of the equator and of Greenwich, around both poles, along
//! the antimeridian and around pentagons; and of some plain places that catch gross errors, such as swapped axes.
//!
//! # The same program on another machine
//!
//! The points are literals, but their cells depend on the sine, cosine and arc tangent of the machine: h3o uses those
//! of the C library. Another operating system, C library or processor (with or without fused multiply-add) may
//! therefore give another fingerprint, and rightly: there are points whose cells differ between the two. They are few,
//! and lie within nanometres of an edge, but a column that holds both answers is a column in which one place has two
//! cells.
//!
//! # The set is frozen
//!
//! One point more, and no table would recognise its own derivation. A test holds the file to its digest.

use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::derivation::cell;
use crate::{Lat, Lon, LonLat, Resolution, Sha256Hex};

/// One point a line: longitude, latitude, and the resolution at which it is looked up, or `*` for every one.
const POINTS: &str = include_str!("fingerprint_points.txt");

/// The fingerprint of the cells that this program computes on this machine.
///
/// It is computed once in a process, in about two milliseconds.
pub fn fingerprint() -> Sha256Hex {
    static FINGERPRINT: OnceLock<Sha256Hex> = OnceLock::new();
    *FINGERPRINT.get_or_init(|| {
        let mut sha256 = Sha256::new();
        for (point, resolution) in lookups() {
            // No point of the set fails; should one do so with another library, that is a change like any other.
            let cell = cell(point, resolution.to_h3o()).map_or(0, u64::from);
            sha256.update(cell.to_be_bytes());
        }
        Sha256Hex::from_digest(sha256.finalize().into())
    })
}

/// Every point of the set with each resolution at which it is looked up, in the order of the file.
fn lookups() -> impl Iterator<Item = (LonLat, Resolution)> {
    POINTS.lines().filter_map(parse).flat_map(|(point, only)| {
        Resolution::all()
            .filter(move |&resolution| only.is_none_or(|only| only == resolution))
            .map(move |at| (point, at))
    })
}

/// One line of the file; nothing for a comment. (A test sees to it that all other lines can be read.)
fn parse(line: &str) -> Option<(LonLat, Option<Resolution>)> {
    let mut words = line.split(' ');
    let lon = words.next()?.parse().ok()?;
    let lat = words.next()?.parse().ok()?;
    let only = match words.next()? {
        "*" => None,
        resolution => Some(resolution.parse().ok()?),
    };
    Some((LonLat::from_degrees(Lon(lon), Lat(lat)).ok()?, only))
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
