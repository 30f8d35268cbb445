//! What a geometry is, and where.

use crate::{Dimensions, GeometryType, Problem};

/// What is known of a geometry without looking at what it means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Its type.
    pub geometry_type: GeometryType,
    /// Its coordinates.
    pub dimensions: Dimensions,
    /// `[xmin, ymin, xmax, ymax]`; `None` where it has no coordinate.
    pub bbox: Option<[f64; 4]>,
    /// How many coordinates it has.
    pub coordinates: usize,
}

/// The facts of a geometry that [`normalise`](crate::normalise) has written.
///
/// # Errors
///
/// If it is none.
pub fn facts(wkb: &[u8]) -> Result<Facts, Problem> {
    let _ = wkb;
    Err(Problem::Unreadable("not yet".to_owned()))
}
