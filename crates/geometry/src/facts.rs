//! What a geometry is, and where.

use crate::walk::{Step, Walk, positions};
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
    /// How many coordinates it has; the empty point has none.
    pub coordinates: usize,
}

/// The facts of a geometry that [`normalise`](crate::normalise) has written.
///
/// # Errors
///
/// If it is none.
pub fn facts(wkb: &[u8]) -> Result<Facts, Problem> {
    let mut walk = Walk::new();
    let Some(Step::Geometry(geometry_type, dimensions)) = walk.step(wkb)? else {
        return Err(Problem::Unreadable("it has no type".to_owned()));
    };
    let mut facts = Facts { geometry_type, dimensions, bbox: None, coordinates: 0 };
    while let Some(step) = walk.step(wkb)? {
        let Step::Coordinates(range, width) = step else { continue };
        for [x, y] in positions(wkb, range, width) {
            if x.is_finite() && y.is_finite() {
                facts.coordinates += 1;
                facts.bbox = Some(widened(facts.bbox, [x, y]));
            }
        }
    }
    Ok(facts)
}

fn widened(bbox: Option<[f64; 4]>, [x, y]: [f64; 2]) -> [f64; 4] {
    let [west, south, east, north] = bbox.unwrap_or([x, y, x, y]);
    // Adding zero turns -0 into 0: which of the two `min` returns depends on their order.
    [west.min(x), south.min(y), east.max(x), north.max(y)].map(|corner| corner + 0.0)
}

/// The x of both ends of the first edge of a line or ring whose ends are more than `over` and less than `under` apart in x; edges along a
/// pole (y of 90 or -90 at both ends) are places, and do not count. `None` where there is none.
pub fn widest_edge(wkb: &[u8], over: f64, under: f64) -> Option<[f64; 2]> {
    let mut walk = Walk::new();
    while let Some(step) = walk.step(wkb).ok()? {
        let Step::Coordinates(range, width) = step else { continue };
        let mut earlier: Option<[f64; 2]> = None;
        for coordinate in wkb.get(range)?.chunks_exact(width * 8) {
            let number = |at: usize| Some(f64::from_le_bytes(coordinate.get(at * 8..at * 8 + 8)?.try_into().ok()?));
            let [x, y] = [number(0)?, number(1)?];
            if let Some([from, from_y]) = earlier {
                let apart = (x - from).abs();
                let along_a_pole = y.abs() >= 90.0 && from_y.abs() >= 90.0;
                if apart > over && apart < under && !along_a_pole {
                    return Some([from, x]);
                }
            }
            earlier = Some([x, y]);
        }
    }
    None
}
