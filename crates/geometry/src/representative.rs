//! The point that stands for a geometry, and with it the cell that the geometry falls into. The rule is recorded in tables, and
//! must therefore never change; its arithmetic is addition, subtraction, multiplication, division and square root, which IEEE 754
//! defines to the last bit, so that every machine finds the same point.

use crate::walk::{Step, Walk};
use crate::{Part, Problem, parts};

/// The point that stands for a geometry that [`normalise`](crate::normalise) has written, `[x, y]`; `None` where it is empty.
///
/// Everything is planar, in the coordinates as they are:
///
/// - A point stands for itself.
/// - A line: the point at half its length; its first vertex if it has no length.
/// - A polygon: a point of its interior, which a centroid need not be. A horizontal line is laid halfway between the two
///   vertices whose y are nearest to the middle of its bounding box, one above it and one not; the point is the middle of the
///   widest piece of that line within the polygon, the first of several that are equally wide. This is the rule of
///   `InteriorPointArea` in JTS and GEOS (`ST_PointOnSurface`). The first vertex, if the polygon has no area.
/// - Of several geometries: the point of the first that is not empty.
///
/// # Errors
///
/// If it is no geometry.
pub fn representative_point(wkb: &[u8]) -> Result<Option<[f64; 2]>, Problem> {
    for part in parts(wkb) {
        let point = match part? {
            Part::Point(position) => Some(position),
            Part::Line(vertices) => middle_of_line(&vertices),
            Part::Polygon(rings) => interior_point(&rings),
        };
        if point.is_some() {
            return Ok(point);
        }
    }
    Ok(None)
}

/// The point at half the length of a line; `None` if it has no vertex.
fn middle_of_line(vertices: &[[f64; 2]]) -> Option<[f64; 2]> {
    let segments = || vertices.iter().zip(vertices.iter().skip(1));
    let length = |(&[x0, y0], &[x1, y1]): (&[f64; 2], &[f64; 2])| {
        let (dx, dy) = (x1 - x0, y1 - y0);
        (dx * dx + dy * dy).sqrt()
    };
    let (&first, &last) = (vertices.first()?, vertices.last()?);
    let mut left = segments().map(length).sum::<f64>() / 2.0;
    if !(left.is_finite() && left > 0.0) {
        return Some(first);
    }
    for segment in segments() {
        let (&[x0, y0], &[x1, y1]) = segment;
        let length = length(segment);
        if length >= left {
            let part = left / length;
            return Some([x0 + (x1 - x0) * part, y0 + (y1 - y0) * part]);
        }
        left -= length;
    }
    Some(last)
}

/// A point within a polygon; `None` if it has no vertex.
fn interior_point(rings: &[Vec<[f64; 2]>]) -> Option<[f64; 2]> {
    let first = rings.iter().flatten().next().copied()?;
    let y = scan_line(rings);
    let mut crossings: Vec<f64> = rings
        .iter()
        .flat_map(|ring| ring.iter().zip(ring.iter().skip(1)))
        .filter_map(|(&from, &to)| crossing(from, to, y))
        .collect();
    crossings.sort_by(f64::total_cmp);
    let mut widest = 0.0;
    let mut inside = first;
    let (pieces, _) = crossings.as_chunks::<2>();
    for &[west, east] in pieces {
        let (width, middle) = (east - west, (west + east) / 2.0);
        if width > widest && middle.is_finite() && y.is_finite() {
            widest = width;
            inside = [middle, y];
        }
    }
    Some(inside)
}

/// The y of the horizontal line: between vertices, so that the line meets none unless the polygon is flat.
fn scan_line(rings: &[Vec<[f64; 2]>]) -> f64 {
    let heights = || rings.iter().flatten().map(|&[_, y]| y);
    // The box of the polygon is that of its outer ring; holes that stick out of it do not widen it.
    let outer = || rings.first().into_iter().flatten().map(|&[_, y]| y);
    let (lowest, highest) = (outer().fold(f64::INFINITY, f64::min), outer().fold(f64::NEG_INFINITY, f64::max));
    let middle = (lowest + highest) / 2.0;
    let below = heights().filter(|&y| y <= middle).fold(lowest, f64::max);
    let above = heights().filter(|&y| y > middle).fold(highest, f64::min);
    (above + below) / 2.0
}

/// Where an edge crosses the line. The lower end of an edge counts as part of it and the upper one does not, so that a vertex on
/// the line is crossed once where the ring passes through, and twice or not at all where it only touches.
fn crossing([x0, y0]: [f64; 2], [x1, y1]: [f64; 2], y: f64) -> Option<f64> {
    if !((y0 <= y && y < y1) || (y1 <= y && y < y0)) {
        return None;
    }
    if x0 == x1 {
        return Some(x0);
    }
    let slope = (y1 - y0) / (x1 - x0);
    Some(x0 + (y - y0) / slope)
}

/// Changes x and y of every coordinate, in place, in the order in which they are written. The empty point stays as it is.
///
/// # Errors
///
/// If it is no geometry that [`normalise`](crate::normalise) has written, or as `map` fails; coordinates that come before
/// the one that failed have then been changed.
pub fn map_coordinates<E: From<Problem>>(
    wkb: &mut [u8],
    mut map: impl FnMut([f64; 2]) -> Result<[f64; 2], E>,
) -> Result<(), E> {
    let mut walk = Walk::new();
    while let Some(step) = walk.step(wkb)? {
        let Step::Coordinates(range, width) = step else { continue };
        let (numbers, _) = wkb.get_mut(range).unwrap_or_default().as_chunks_mut::<8>();
        for coordinate in numbers.chunks_exact_mut(width) {
            let [x, y, ..] = coordinate else { continue };
            let position = [*x, *y].map(f64::from_le_bytes);
            if position.iter().all(|axis| axis.is_nan()) {
                continue;
            }
            [*x, *y] = map(position)?.map(f64::to_le_bytes);
        }
    }
    Ok(())
}
