//! The point that stands for a geometry.

use crate::Problem;

/// The point that stands for a geometry that [`normalise`](crate::normalise) has written, `[x, y]`; `None` where it is empty.
///
/// # Errors
///
/// If it is no geometry.
pub fn representative_point(wkb: &[u8]) -> Result<Option<[f64; 2]>, Problem> {
    let _ = wkb;
    Err(Problem::Unreadable("not yet".to_owned()))
}

/// Changes x and y of every coordinate, in place, in the order in which they are written.
///
/// # Errors
///
/// If it is no geometry that [`normalise`](crate::normalise) has written, or as `map` fails.
pub fn map_coordinates<E: From<Problem>>(
    wkb: &mut [u8],
    map: impl FnMut([f64; 2]) -> Result<[f64; 2], E>,
) -> Result<(), E> {
    let _ = (wkb, map);
    Err(Problem::Unreadable("not yet".to_owned()).into())
}
