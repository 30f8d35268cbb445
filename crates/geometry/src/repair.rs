//! Repairs: what may be changed in a geometry so that it can be used. None is made unless it is asked for, and which one was made is
//! recorded with the data.

use crate::output::check_ring;
use crate::walk::{Step, Walk};
use crate::{GeometryType, Problem};

/// A repair. What each does never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Repair {
    /// A ring that does not end where it began, seen from above, is given its first coordinate once more, with its z and m. Nothing
    /// else is changed.
    CloseRings,
}

/// Appends to `out` the geometry that [`normalise`](crate::normalise) has written (with
/// [`closed_rings`](crate::Limits::closed_rings) off, or there would be nothing to repair), and says how many changes were made.
///
/// # Errors
///
/// If it is no geometry, or if a ring has fewer than four coordinates even when it is closed; `out` is then as it was.
pub fn repair(wkb: &[u8], repair: Repair, out: &mut Vec<u8>) -> Result<usize, Problem> {
    let before = out.len();
    let result = match repair {
        Repair::CloseRings => close_rings(wkb, out),
    };
    if result.is_err() {
        out.truncate(before);
    }
    result
}

fn close_rings(wkb: &[u8], out: &mut Vec<u8>) -> Result<usize, Problem> {
    let mut walk = Walk::new();
    let (mut copied, mut closed) = (0, 0);
    let (mut polygon, mut number) = (false, 0);
    while let Some(step) = walk.step(wkb)? {
        let (range, width) = match step {
            Step::Geometry(geometry_type, _) => {
                (polygon, number) = (geometry_type == GeometryType::Polygon, 0);
                continue;
            }
            Step::Coordinates(..) if !polygon => continue,
            Step::Coordinates(range, width) => (range, width),
        };
        number += 1;
        let (numbers, _) = wkb.get(range.clone()).unwrap_or_default().as_chunks::<8>();
        match check_ring(numbers, number, width) {
            Err(Problem::UnclosedRing { .. }) => {}
            other => {
                other?;
                continue;
            }
        }
        let first = numbers.get(..width).unwrap_or_default();
        let ring = [numbers, first].concat();
        check_ring(&ring, number, width)?;
        // Up to the ring's count, which is right before its coordinates, and then both anew.
        out.extend_from_slice(wkb.get(copied..range.start - 4).unwrap_or_default());
        let count = u32::try_from(ring.len() / width)
            .map_err(|_| Problem::TooLarge("a ring has no room for one more coordinate".to_owned()))?;
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(ring.as_flattened());
        copied = range.end;
        closed += 1;
    }
    out.extend_from_slice(wkb.get(copied..).unwrap_or_default());
    Ok(closed)
}
