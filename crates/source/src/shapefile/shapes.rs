//! Shapes to well-known binary.
//!
//! The specification tells rings that are holes from those that are not by their direction: clockwise is outside. Which ring a
//! hole is in, it does not say, so that is found by looking where the hole lies. A ring that runs like a hole and lies in no
//! other is a polygon of its own. Where no ring runs clockwise, or only one does and not all others are in it, the shape is wound
//! the wrong way round (QGIS 3.28 wrote such files), and only where rings lie counts: what is in an odd number of others is a hole.
//! Rings and their vertices stay in their order. GDAL does the same, but that it takes whatever there is for holes of a lone
//! clockwise ring that is not the first.

use hexfloe_geometry::{Dimensions, GeometryType, WkbWriter};

use super::little_endian;

/// A measure below this is none (page 2 of the specification).
const NO_MEASURE: f64 = -1e38;

/// How many edges are looked at to find which ring a ring is in, before the shape is refused.
const MOST_EDGES: u64 = 1 << 30;

/// What the shapes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeType {
    code: u32,
}

/// Why a shape is not converted.
#[derive(Debug, PartialEq)]
pub(super) enum Refusal {
    /// The record is not what the file says it is.
    File(String),
    /// The shape cannot be written.
    Geometry(String),
}

fn damaged<T>(problem: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::File(problem.into()))
}

impl ShapeType {
    pub(super) fn of_code(code: u32) -> Result<Self, String> {
        match code {
            0 | 1 | 3 | 5 | 8 | 11 | 13 | 15 | 18 | 21 | 23 | 25 | 28 => Ok(Self { code }),
            31 => Err("holds multipatches, which are surfaces in space and not geometries of a table: convert them"
                .to_owned()),
            other => Err(format!("holds shapes of type {other}, which the specification does not know")),
        }
    }

    fn has_z(self) -> bool {
        matches!(self.code, 11..=18)
    }

    /// Whether measures may follow; those of shapes with z may be left out.
    fn has_m(self) -> bool {
        self.code > 10
    }
}

/// Appends the shape in a record to `out`, as well-known binary that has yet to be checked. `false` for the null shape.
pub(super) fn convert(record: &[u8], expected: ShapeType, out: &mut Vec<u8>) -> Result<bool, Refusal> {
    if record.len() < 4 {
        return damaged(format!("has {} bytes, which is no shape", record.len()));
    }
    let code = little_endian(record);
    if code == 0 {
        return Ok(false);
    }
    if code != expected.code {
        return damaged(format!("is of type {code}, and the file of type {}", expected.code));
    }
    match code % 10 {
        1 => point(record, expected, out)?,
        8 => {
            let shape = Shape::read(record, expected, false)?;
            let mut writer = WkbWriter::new(out, shape.dimensions);
            writer.multi(GeometryType::MultiPoint, shape.coordinates.len() / shape.width());
            shape.coordinates.chunks_exact(shape.width()).for_each(|point| writer.point(Some(point)));
        }
        3 => {
            let shape = Shape::read(record, expected, true)?;
            let mut writer = WkbWriter::new(out, shape.dimensions);
            match shape.parts.as_slice() {
                [] => writer.line_string(&[]),
                [_] => writer.line_string(&shape.coordinates),
                parts => {
                    writer.multi(GeometryType::MultiLineString, parts.len());
                    parts.iter().for_each(|part| writer.line_string(shape.part(part)));
                }
            }
        }
        _ => polygons(&Shape::read(record, expected, true)?, out)?,
    }
    Ok(true)
}

fn point(record: &[u8], shape_type: ShapeType, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let least = 2 + usize::from(shape_type.has_z()) + usize::from(shape_type.has_m() && !shape_type.has_z());
    let numbers = doubles(&record[4..]);
    if numbers.len() < least {
        return damaged(format!("has {} bytes, too few for a point", record.len()));
    }
    let mut coordinate = numbers[..least].to_vec();
    let mut dimensions = if shape_type.has_z() { Dimensions::Xyz } else { Dimensions::Xy };
    if shape_type.has_m() {
        let measure = if shape_type.has_z() { numbers.get(3).copied() } else { coordinate.pop() };
        if let Some(measure) = measure.filter(|measure| !is_missing(*measure)) {
            coordinate.push(measure);
            dimensions = if shape_type.has_z() { Dimensions::Xyzm } else { Dimensions::Xym };
        }
    }
    let is_empty = coordinate[..2].iter().all(|number| number.is_nan());
    WkbWriter::new(out, dimensions).point((!is_empty).then_some(coordinate.as_slice()));
    Ok(())
}

fn is_missing(measure: f64) -> bool {
    measure.is_nan() || measure < NO_MEASURE
}

fn doubles(bytes: &[u8]) -> Vec<f64> {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|number| f64::from_le_bytes(*number)).collect()
}

/// A shape of several vertices.
struct Shape {
    dimensions: Dimensions,
    /// One after the other, each with z and m where there are.
    coordinates: Vec<f64>,
    /// The vertices of each part; never empty.
    parts: Vec<std::ops::Range<usize>>,
}

impl Shape {
    /// Reads a shape behind its type and box, with or without parts.
    fn read(record: &[u8], shape_type: ShapeType, has_parts: bool) -> Result<Self, Refusal> {
        let too_short = || Refusal::File(format!("has {} bytes, too few for what it says it holds", record.len()));
        let fixed = if has_parts { 44 } else { 40 };
        let counts = record.get(36..fixed).ok_or_else(too_short)?;
        let count_at = |place: usize| usize::try_from(little_endian(&counts[place..])).unwrap_or(usize::MAX);
        let (part_count, points) = if has_parts { (count_at(0), count_at(4)) } else { (0, count_at(0)) };

        let mut at = fixed;
        let mut take = |length: Option<usize>| {
            let end = at.checked_add(length?)?;
            let taken = record.get(at..end)?;
            at = end;
            Some(taken)
        };
        let starts = take(part_count.checked_mul(4)).ok_or_else(too_short)?;
        let xy = take(points.checked_mul(16)).ok_or_else(too_short)?;
        let mut numbers = || {
            take(Some(16))?; // the range
            take(points.checked_mul(8)).map(doubles)
        };
        let z = if shape_type.has_z() { Some(numbers().ok_or_else(too_short)?) } else { None };
        // Left out by some writers, in shapes with z by permission.
        let m = if shape_type.has_m() { numbers() } else { None };
        let m = m.filter(|measures| !measures.iter().all(|measure| is_missing(*measure)));
        if m.as_ref().is_some_and(|measures| measures.iter().any(|measure| is_missing(*measure))) {
            return Err(Refusal::Geometry("has measures at some of its vertices only".to_owned()));
        }

        let xy = doubles(xy);
        let mut coordinates = Vec::with_capacity(xy.len() * 2);
        for (index, pair) in xy.chunks_exact(2).enumerate() {
            coordinates.extend_from_slice(pair);
            coordinates.extend(z.as_ref().and_then(|z| z.get(index)));
            coordinates.extend(m.as_ref().and_then(|m| m.get(index)));
        }
        let dimensions = match (z.is_some(), m.is_some()) {
            (false, false) => Dimensions::Xy,
            (true, false) => Dimensions::Xyz,
            (false, true) => Dimensions::Xym,
            (true, true) => Dimensions::Xyzm,
        };
        let starts: Vec<usize> =
            starts.chunks_exact(4).map(|start| usize::try_from(little_endian(start)).unwrap_or(usize::MAX)).collect();
        let ends = starts.iter().skip(1).copied().chain(std::iter::once(points));
        let rises = starts.iter().zip(ends.clone()).all(|(start, end)| *start <= end);
        if has_parts && (!rises || starts.first().copied().unwrap_or(points) != 0) {
            return damaged(format!("has parts that do not begin one behind the other within its {points} vertices"));
        }
        let parts = starts.iter().zip(ends).map(|(start, end)| *start..end).filter(|part| !part.is_empty()).collect();
        Ok(Self { dimensions, coordinates, parts })
    }

    fn width(&self) -> usize {
        self.dimensions.width()
    }

    fn part(&self, part: &std::ops::Range<usize>) -> &[f64] {
        self.coordinates.get(part.start * self.width()..part.end * self.width()).unwrap_or_default()
    }
}

/// Writes rings as a polygon, or as several.
fn polygons(shape: &Shape, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let rings: Vec<Ring<'_>> = shape.parts.iter().map(|part| Ring::new(shape.part(part), shape.width())).collect();
    let grouped = grouped(&rings)?;
    let mut writer = WkbWriter::new(out, shape.dimensions);
    if grouped.len() > 1 {
        writer.multi(GeometryType::MultiPolygon, grouped.len());
    }
    if grouped.is_empty() {
        writer.polygon(0);
    }
    for members in &grouped {
        writer.polygon(members.len());
        members.iter().filter_map(|ring| rings.get(*ring)).for_each(|ring| writer.ring(ring.coordinates));
    }
    Ok(())
}

struct Ring<'a> {
    coordinates: &'a [f64],
    width: usize,
    /// Twice the area; positive if it runs counter-clockwise.
    area: f64,
    /// The least and the greatest x and y.
    bounds: [[f64; 2]; 2],
}

/// Where a point is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Inside,
    Outside,
    On,
}

impl<'a> Ring<'a> {
    fn new(coordinates: &'a [f64], width: usize) -> Self {
        let mut ring = Self { coordinates, width, area: 0.0, bounds: [[f64::INFINITY; 2], [f64::NEG_INFINITY; 2]] };
        let [x0, y0] = ring.vertices().next().unwrap_or_default();
        for [[ax, ay], [bx, by]] in ring.edges() {
            // Relative to the first vertex: far from the origin the products would swallow a small ring.
            ring.area += (ax - x0) * (by - y0) - (bx - x0) * (ay - y0);
        }
        for [x, y] in vertices(coordinates, width) {
            ring.bounds[0] = [ring.bounds[0][0].min(x), ring.bounds[0][1].min(y)];
            ring.bounds[1] = [ring.bounds[1][0].max(x), ring.bounds[1][1].max(y)];
        }
        ring
    }

    fn vertices(&self) -> impl Iterator<Item = [f64; 2]> + 'a {
        vertices(self.coordinates, self.width)
    }

    fn edges(&self) -> impl Iterator<Item = [[f64; 2]; 2]> + 'a {
        self.vertices().zip(self.vertices().skip(1)).map(|(a, b)| [a, b])
    }

    fn is_clockwise(&self) -> bool {
        self.area < 0.0
    }

    /// Whether this ring lies in `other`, by its first vertex that is not on the other's edge.
    fn is_in(&self, other: &Self, edges: &mut u64) -> Result<bool, Refusal> {
        let [[x0, y0], [x1, y1]] = self.bounds;
        let [[ox0, oy0], [ox1, oy1]] = other.bounds;
        if !(ox0 <= x0 && oy0 <= y0 && x1 <= ox1 && y1 <= oy1) {
            return Ok(false);
        }
        for vertex in self.vertices() {
            *edges += (other.coordinates.len() / other.width) as u64;
            if *edges > MOST_EDGES {
                return Err(Refusal::Geometry(
                    "has so many rings that it takes too long to see which is in which".to_owned(),
                ));
            }
            match other.side_of(vertex) {
                Side::Inside => return Ok(true),
                Side::Outside => return Ok(false),
                Side::On => {}
            }
        }
        Ok(true)
    }

    fn side_of(&self, [x, y]: [f64; 2]) -> Side {
        let mut is_inside = false;
        for [[ax, ay], [bx, by]] in self.edges() {
            if y < ay.min(by) || y > ay.max(by) {
                continue;
            }
            // Which side of the edge the point is on; zero on its line.
            let turn = (bx - ax) * (y - ay) - (x - ax) * (by - ay);
            if turn == 0.0 && x >= ax.min(bx) && x <= ax.max(bx) {
                return Side::On;
            }
            // Half-open, so that a vertex is crossed once.
            if (ay > y) != (by > y) && (turn > 0.0) == (by > ay) {
                is_inside = !is_inside;
            }
        }
        if is_inside { Side::Inside } else { Side::Outside }
    }
}

fn vertices(coordinates: &[f64], width: usize) -> impl Iterator<Item = [f64; 2]> {
    coordinates.chunks_exact(width).map(|coordinate| [coordinate[0], coordinate[1]])
}

/// The rings of each polygon, the outer one first.
fn grouped(rings: &[Ring<'_>]) -> Result<Vec<Vec<usize>>, Refusal> {
    let in_which = if rings.len() < 2 { vec![None; rings.len()] } else { by_direction(rings)? };
    let mut polygons: Vec<Vec<usize>> = Vec::new();
    let mut place = vec![usize::MAX; rings.len()];
    for (ring, outer) in in_which.iter().enumerate() {
        if outer.is_none() {
            place[ring] = polygons.len();
            polygons.push(vec![ring]);
        }
    }
    for (ring, outer) in in_which.iter().enumerate() {
        if let Some(polygon) = outer.and_then(|outer| polygons.get_mut(place[outer])) {
            polygon.push(ring);
        }
    }
    Ok(polygons)
}

/// For each ring that is a hole, the ring that it is in.
fn by_direction(rings: &[Ring<'_>]) -> Result<Vec<Option<usize>>, Refusal> {
    let outer: Vec<usize> = by_size(rings).into_iter().filter(|ring| rings[*ring].is_clockwise()).collect();
    let mut edges = 0;
    let find = |ring: &Ring<'_>| {
        if ring.is_clockwise() { Ok(None) } else { first_around(ring, &outer, rings, &mut edges) }
    };
    let found: Vec<Option<usize>> = rings.iter().map(find).collect::<Result<_, _>>()?;
    let not_holes = found.iter().filter(|around| around.is_none()).count();
    if outer.len() < 2 && not_holes > outer.len() { nested(rings) } else { Ok(found) }
}

/// The rings from the smallest to the largest.
fn by_size(rings: &[Ring<'_>]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..rings.len()).collect();
    let size = |ring: &usize| rings[*ring].area.abs();
    sorted.sort_by(|a, b| size(a).total_cmp(&size(b)));
    sorted
}

/// The first of `candidates` that a ring is in.
fn first_around(
    ring: &Ring<'_>,
    candidates: &[usize],
    rings: &[Ring<'_>],
    edges: &mut u64,
) -> Result<Option<usize>, Refusal> {
    for &candidate in candidates {
        *edges += 1;
        if ring.is_in(&rings[candidate], edges)? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// For each ring that is in an odd number of others, the smallest of these.
fn nested(rings: &[Ring<'_>]) -> Result<Vec<Option<usize>>, Refusal> {
    let sorted = by_size(rings);
    let mut around = vec![None; rings.len()];
    let mut edges = 0;
    for (place, &ring) in sorted.iter().enumerate() {
        around[ring] = first_around(&rings[ring], &sorted[place + 1..], rings, &mut edges)?;
    }
    let mut is_hole = vec![false; rings.len()];
    for &ring in sorted.iter().rev() {
        is_hole[ring] = around[ring].is_some_and(|outer: usize| !is_hole[outer]);
    }
    Ok(around.into_iter().zip(is_hole).map(|(outer, is_hole)| outer.filter(|_| is_hole)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn square(x: f64, y: f64, size: f64, is_clockwise: bool) -> Vec<f64> {
        let mut ring = [[x, y], [x, y + size], [x + size, y + size], [x + size, y], [x, y]];
        if !is_clockwise {
            ring.reverse();
        }
        ring.concat()
    }

    fn groups(rings: &[Vec<f64>]) -> Vec<Vec<usize>> {
        let rings: Vec<Ring<'_>> = rings.iter().map(|ring| Ring::new(ring, 2)).collect();
        grouped(&rings).unwrap()
    }

    #[rstest]
    #[case::one_ring_is_outer_whichever_way_it_runs(&[(0., 0., 9., false)], vec![vec![0]])]
    #[case::a_hole(&[(0., 0., 9., true), (1., 1., 1., false)], vec![vec![0, 1]])]
    #[case::a_hole_before_its_ring(&[(1., 1., 1., false), (0., 0., 9., true)], vec![vec![1, 0]])]
    #[case::an_island_in_a_lake(&[(0., 0., 9., true), (1., 1., 7., false), (2., 2., 1., true), (2.25, 2.25, 0.5, false)], vec![vec![0, 1], vec![2, 3]])]
    #[case::a_hole_that_touches(&[(0., 0., 9., true), (0., 0., 1., false)], vec![vec![0, 1]])]
    #[case::only_the_first_is_wound_right(&[(6., 6., 1., true), (0., 0., 9., false)], vec![vec![1, 0]])]
    #[case::a_hole_in_nothing_among_several(&[(0., 0., 1., true), (9., 9., 1., true), (5., 5., 1., false)], vec![vec![0], vec![1], vec![2]])]
    #[case::a_hole_in_nothing(&[(0., 0., 1., true), (5., 5., 1., false)], vec![vec![0], vec![1]])]
    #[case::wound_the_wrong_way(&[(0., 0., 9., false), (1., 1., 7., false), (2., 2., 1., false), (20., 0., 1., false)], vec![vec![0, 1], vec![2], vec![3]])]
    #[case::two_polygons_with_a_hole_each(&[(0., 0., 9., true), (20., 0., 9., true), (21., 1., 1., false), (1., 1., 1., false)], vec![vec![0, 3], vec![1, 2]])]
    fn rings_become_polygons(#[case] squares: &[(f64, f64, f64, bool)], #[case] expected: Vec<Vec<usize>>) {
        let rings: Vec<Vec<f64>> = squares.iter().map(|(x, y, size, cw)| square(*x, *y, *size, *cw)).collect();
        assert_eq!(groups(&rings), expected);
    }

    #[test]
    fn a_small_ring_far_from_the_origin_has_a_direction() {
        assert!(Ring::new(&square(5e6, 6e6, 1e-3, true), 2).is_clockwise());
    }

    #[test]
    fn a_shape_of_very_many_rings_in_rings_is_refused_and_does_not_hang() {
        let outer: Vec<f64> =
            (0..40_000).flat_map(|step| [f64::from(step), if step % 2 == 0 { 0.0 } else { 1e6 }]).collect();
        let mut outer = outer;
        outer.extend([40_000.0, -1.0, 0.0, -1.0, 0.0, 0.0]);
        let mut rings = vec![outer.clone(), outer];
        let hole = square(10.25, 0.5, 0.001, false);
        rings.extend(std::iter::repeat_n(hole, 40_000));
        let rings: Vec<Ring<'_>> = rings.iter().map(|ring| Ring::new(ring, 2)).collect();
        assert!(grouped(&rings).is_err());
    }
}
