//! A geometry as the points, lines and polygons that it is made of, for those who compute with it.

use crate::walk::{Step, Walk, positions};
use crate::{GeometryType, Problem};

/// What a geometry is made of, on the plane: x and y, in the order in which they are written.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A point that is not empty.
    Point([f64; 2]),
    /// The vertices of a line.
    Line(Vec<[f64; 2]>),
    /// The vertices of each ring of a polygon; the rings behind the first are holes.
    Polygon(Vec<Vec<[f64; 2]>>),
}

/// The parts of a geometry that [`normalise`](crate::normalise) has written, one after the other; those of collections in collections too.
/// An error is the last item.
pub fn parts(wkb: &[u8]) -> Parts<'_> {
    Parts { wkb, walk: Some(Walk::new()) }
}

/// See [`parts`].
pub struct Parts<'a> {
    wkb: &'a [u8],
    /// Nothing behind an error.
    walk: Option<Walk>,
}

impl Iterator for Parts<'_> {
    type Item = Result<Part, Problem>;

    fn next(&mut self) -> Option<Self::Item> {
        let walk = self.walk.as_mut()?;
        let next = next(walk, self.wkb).transpose();
        if !matches!(next, Some(Ok(_))) {
            self.walk = None;
        }
        next
    }
}

fn next(walk: &mut Walk, wkb: &[u8]) -> Result<Option<Part>, Problem> {
    while let Some(step) = walk.step(wkb)? {
        let Step::Geometry(geometry_type, _) = step else { continue };
        let mut sequences = Vec::new();
        while let Some(Step::Coordinates(range, width)) = walk.coordinates(wkb)? {
            let mut positions = positions(wkb, range, width);
            match geometry_type {
                GeometryType::Point => {
                    if let Some(position) = positions.next().filter(|[x, y]| !(x.is_nan() && y.is_nan())) {
                        return Ok(Some(Part::Point(position)));
                    }
                }
                GeometryType::LineString => return Ok(Some(Part::Line(positions.collect()))),
                _ => sequences.push(positions.collect()),
            }
        }
        if geometry_type == GeometryType::Polygon {
            return Ok(Some(Part::Polygon(sequences)));
        }
    }
    Ok(None)
}
