//! The cells that cover a geometry.
//!
//! Everything is on the plane of longitude and latitude, as the rest of a geometry's life is: an edge is a straight line on that map, a
//! cell the polygon of its corners, and nothing crosses the antimeridian but cells. The search descends from the 122 cells of
//! resolution 0. Each cell takes along the edges that come near it; one that none comes near is all inside or all outside, and so are its
//! descendants.
//!
//! The tiler of h3o is not used here. As of 0.11 it takes every polygon with an edge over more than 180 degrees for one that crosses the
//! antimeridian, which makes nothing of a box around the world; it puts as many points on an edge as the great circle between its ends
//! is long, which leaves gaps in the outline, through which the inside runs out, where the edge is not that circle; and how much it
//! will hold in memory is not known before it does.

use std::collections::BTreeSet;

use geo::{Coord, Intersects, Line, LineString, Polygon};
use h3o::{CellIndex, LatLng};
use hexfloe_geometry::{Part, Problem, parts};
use serde::{Deserialize, Serialize};

use crate::Resolution;
use crate::area::Area;

/// Which cells cover a polygon. A point is covered by its cell and a line by every cell that it meets, whichever is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Containment {
    /// Those whose centre is inside (`ContainsCentroid` in h3o): polygons that share borders share no cells.
    Center,
    /// Those that are inside, and touch no edge (`ContainsBoundary` in h3o).
    Boundary,
    /// All that meet the polygon (`Covers` in h3o): nothing of it is left out.
    Covers,
}

/// Why a geometry has no cover.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CoverProblem {
    /// It is none.
    #[error("the geometry {0}")]
    Geometry(#[from] Problem),
    /// A coordinate is no longitude and latitude.
    #[error("the coordinate {x} {y} is no longitude and latitude: reproject the geometry to degrees on WGS 84")]
    OutOfRange {
        /// The longitude, if it were one.
        x: f64,
        /// The latitude.
        y: f64,
    },
    /// An edge goes more than half around the world, and it cannot be known whether that is meant. Edges from one side of the map to the
    /// other, -180 to 180, are.
    #[error(
        "an edge leads from longitude {from} to {to}, and does not say which way around the world: \
         cut the geometry at the antimeridian, or give the edge more vertices"
    )]
    LongEdge {
        /// The longitude of its beginning.
        from: f64,
        /// That of its end.
        to: f64,
    },
    /// More cells than are allowed.
    #[error("more than {most} cells cover the geometry: take a coarser resolution, or raise the limit")]
    TooManyCells {
        /// How many are allowed.
        most: usize,
    },
    /// Too much to compute.
    #[error(
        "the geometry has too many edges for cells of resolution {resolution}: simplify it, or take a coarser resolution"
    )]
    TooComplex {
        /// The resolution that was asked for.
        resolution: u8,
    },
}

/// Edges that are looked at for one geometry, again and again: some seconds' worth.
const MOST_WORK: u64 = 1_000_000_000;

/// As many edges could be looked at while a cell is.
const WORK_OF_A_CELL: usize = 1000;

/// The H3 cells that cover a geometry which [`geometries`](crate::geometries) has given, whose coordinates are longitude and latitude in
/// degrees on WGS 84: in ascending order, each once. None for an empty geometry; a collection is covered by what covers its members.
///
/// No more than `max_cells` are held in memory, and no more time is spent than some seconds.
///
/// # Errors
///
/// See [`CoverProblem`].
pub fn cover_cells(
    wkb: &[u8],
    resolution: Resolution,
    containment: Containment,
    max_cells: usize,
) -> Result<Vec<u64>, CoverProblem> {
    let mut search = Search {
        resolution: resolution.to_h3o(),
        poles: [90.0, -90.0].map(|pole| LatLng::new(pole, 0.0).ok().map(|pole| pole.to_cell(resolution.to_h3o()))),
        cells: BTreeSet::new(),
        max_cells,
        work: MOST_WORK,
    };
    for part in parts(wkb) {
        match part? {
            Part::Point(position) => search.point(on_the_map(position)?)?,
            Part::Line(vertices) => search.shape(&[all_on_the_map(&vertices)?], &Shape::Line)?,
            Part::Polygon(rings) => {
                let rings = rings.iter().map(|ring| all_on_the_map(ring)).collect::<Result<Vec<_>, _>>()?;
                search.shape(&rings, &Shape::Area(Area::new(&rings), containment))?;
            }
        }
    }
    Ok(search.cells.into_iter().collect())
}

/// What is to be covered, but for its edges.
enum Shape {
    Line,
    Area(Area, Containment),
}

struct Search {
    resolution: h3o::Resolution,
    /// The cells that the poles are in.
    poles: [Option<CellIndex>; 2],
    cells: BTreeSet<u64>,
    max_cells: usize,
    /// Edges that may still be looked at.
    work: u64,
}

impl Search {
    fn point(&mut self, position: [f64; 2]) -> Result<(), CoverProblem> {
        let [x, y] = position;
        let position = LatLng::new(y, x).map_err(|_| CoverProblem::OutOfRange { x, y })?;
        self.insert(position.to_cell(self.resolution))
    }

    fn shape(&mut self, sequences: &[Vec<[f64; 2]>], shape: &Shape) -> Result<(), CoverProblem> {
        let mut edges = Vec::new();
        for sequence in sequences {
            if let [only] = sequence[..] {
                edges.push(edge(only, only)?);
            }
            for (&from, &to) in sequence.iter().zip(sequence.iter().skip(1)) {
                edges.push(edge(from, to)?);
            }
        }
        if edges.is_empty() {
            return Ok(());
        }
        for cell in CellIndex::base_cells() {
            self.descend(cell, &edges, shape)?;
        }
        Ok(())
    }

    /// Looks at a cell and all below it. `edges` are those that may come near.
    fn descend(&mut self, cell: CellIndex, edges: &[Line], shape: &Shape) -> Result<(), CoverProblem> {
        let boxes = boxes_around(cell);
        self.spend(edges.len() + WORK_OF_A_CELL)?;
        let near: Vec<Line> =
            edges.iter().filter(|edge| boxes.iter().any(|&around| is_near(edge, around))).copied().collect();
        if near.is_empty() {
            return match shape {
                Shape::Area(area, _) if self.is_inside(area, &boxes)? => self.insert_all(cell),
                _ => Ok(()),
            };
        }
        if cell.resolution() < self.resolution {
            let Some(finer) = cell.resolution().succ() else { return Ok(()) };
            return cell.children(finer).try_for_each(|child| self.descend(child, &near, shape));
        }
        if self.covers(cell, &near, shape)? { self.insert(cell) } else { Ok(()) }
    }

    /// Whether a place that no edge comes near is inside: all of it is, or nothing.
    fn is_inside(&mut self, area: &Area, boxes: &[[f64; 4]]) -> Result<bool, CoverProblem> {
        let Some([west, south, east, north]) = boxes.first() else { return Ok(false) };
        let position = [(west + east) / 2.0, (south + north) / 2.0];
        self.spend(area.cost(position))?;
        Ok(area.contains(position))
    }

    /// Whether a cell of the resolution that was asked for, which some edges come near, is part of the cover.
    fn covers(&mut self, cell: CellIndex, near: &[Line], shape: &Shape) -> Result<bool, CoverProblem> {
        self.spend(near.len() * 8)?;
        let is_polar = self.poles.contains(&Some(cell));
        match shape {
            Shape::Line => Ok(outlines(cell, is_polar).iter().any(|outline| meets(outline, near))),
            Shape::Area(area, Containment::Center) => self.has_center_inside(cell, area),
            Shape::Area(area, Containment::Covers) => {
                let outlines = outlines(cell, is_polar);
                Ok(outlines.iter().any(|outline| meets(outline, near)) || self.has_center_inside(cell, area)?)
            }
            Shape::Area(area, Containment::Boundary) => {
                let outlines = outlines(cell, is_polar);
                // What lies on the rim of the map is where it ends, and no border of the polygon.
                let borders: Vec<Line> = near.iter().filter(|edge| !is_on_rim(edge)).copied().collect();
                if outlines.iter().any(|outline| meets(outline, &borders)) {
                    return Ok(false);
                }
                // Each piece of a cell on the rim, then, is all inside or all outside.
                for outline in &outlines {
                    let Some(position) = position_within(outline) else { continue };
                    self.spend(area.cost(position))?;
                    if !area.contains(position) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn has_center_inside(&mut self, cell: CellIndex, area: &Area) -> Result<bool, CoverProblem> {
        let center = LatLng::from(cell);
        let position = [center.lng(), center.lat()];
        self.spend(area.cost(position))?;
        // -180 and 180 are the same meridian.
        Ok(area.contains(position) || (position[0].abs() == 180.0 && area.contains([-position[0], position[1]])))
    }

    fn insert(&mut self, cell: CellIndex) -> Result<(), CoverProblem> {
        self.cells.insert(cell.into());
        if self.cells.len() > self.max_cells {
            return Err(CoverProblem::TooManyCells { most: self.max_cells });
        }
        Ok(())
    }

    fn insert_all(&mut self, cell: CellIndex) -> Result<(), CoverProblem> {
        if usize::try_from(cell.children_count(self.resolution)).is_ok_and(|count| count <= self.max_cells) {
            return cell.children(self.resolution).try_for_each(|child| self.insert(child));
        }
        Err(CoverProblem::TooManyCells { most: self.max_cells })
    }

    fn spend(&mut self, edges: usize) -> Result<(), CoverProblem> {
        let cost = u64::try_from(edges).unwrap_or(u64::MAX);
        let too_complex = CoverProblem::TooComplex { resolution: self.resolution.into() };
        self.work = self.work.checked_sub(cost).ok_or(too_complex)?;
        Ok(())
    }
}

fn all_on_the_map(positions: &[[f64; 2]]) -> Result<Vec<[f64; 2]>, CoverProblem> {
    positions.iter().map(|&position| on_the_map(position)).collect()
}

/// A position, if it is a longitude and a latitude. What is at the rim of the map but for rounding, within or beyond, is put on the rim:
/// Natural Earth has Russia end at 180.00000000000006, and the edge of Antarctica begin at -179.99999999999994.
fn on_the_map([x, y]: [f64; 2]) -> Result<[f64; 2], CoverProblem> {
    // A tenth of a millimetre.
    let onto = |value: f64, rim: f64| if (value.abs() - rim).abs() < 1e-9 { rim.copysign(value) } else { value };
    let position = [onto(x, 180.0), onto(y, 90.0)];
    let is_there = position[0].abs() <= 180.0 && position[1].abs() <= 90.0;
    if is_there { Ok(position) } else { Err(CoverProblem::OutOfRange { x, y }) }
}

fn edge(from: [f64; 2], to: [f64; 2]) -> Result<Line, CoverProblem> {
    let across_the_map = from[0].abs() == 180.0 && to[0].abs() == 180.0;
    if (from[0] - to[0]).abs() > 180.0 && !across_the_map {
        return Err(CoverProblem::LongEdge { from: from[0], to: to[0] });
    }
    Ok(Line::new(coord(from), coord(to)))
}

fn coord([x, y]: [f64; 2]) -> Coord {
    Coord { x, y }
}

/// Along ±180 degrees of longitude or ±90 of latitude.
fn is_on_rim(edge: &Line) -> bool {
    (edge.start.x == edge.end.x && edge.start.x.abs() == 180.0)
        || (edge.start.y == edge.end.y && edge.start.y.abs() == 90.0)
}

/// Whether an edge has something in common with a box, or passes it so closely that it may have.
fn is_near(edge: &Line, [west, south, east, north]: [f64; 4]) -> bool {
    let (start, end) = (edge.start, edge.end);
    if start.x.min(end.x) > east
        || start.x.max(end.x) < west
        || start.y.min(end.y) > north
        || start.y.max(end.y) < south
    {
        return false;
    }
    // On which side of the edge, and how far off, times its length; rounding is off by less than a thousandth of the room.
    let room = 1e-7;
    let side = |x: f64, y: f64| (end.x - start.x) * (y - start.y) - (end.y - start.y) * (x - start.x);
    let sides = [side(west, south), side(west, north), side(east, south), side(east, north)];
    !(sides.iter().all(|&side| side > room) || sides.iter().all(|&side| side < -room))
}

fn meets(outline: &Polygon, edges: &[Line]) -> bool {
    edges.iter().any(|edge| outline.intersects(edge))
}

/// Boxes on the map, `[west, south, east, north]`, that hold a cell and all its descendants: two if it lies across the antimeridian.
///
/// Descendants stick out of a cell: on the plane by less than 6 % of the distance from its centre to its corners. The 30 % that are
/// granted make good for what the sphere does to that.
fn boxes_around(cell: CellIndex) -> Vec<[f64; 4]> {
    let center = LatLng::from(cell);
    let radius = 1.3 * cell.boundary().iter().map(|&corner| center.distance_rads(corner)).fold(0.0, f64::max);
    let (south, north) = (center.lat() - radius.to_degrees(), center.lat() + radius.to_degrees());
    if south <= -90.0 || north >= 90.0 {
        return vec![[-180.0, south.max(-90.0), 180.0, north.min(90.0)]];
    }
    // The meridians that touch a circle around the centre.
    let half = (radius.sin() / center.lat_radians().cos()).clamp(0.0, 1.0).asin().to_degrees() + 1e-9;
    let (west, east) = (center.lng() - half, center.lng() + half);
    [-360.0, 0.0, 360.0]
        .into_iter()
        .map(|turn| [(west + turn).max(-180.0), south, (east + turn).min(180.0), north])
        .filter(|[west, _, east, _]| west <= east)
        .collect()
}

/// The polygon of a cell's corners on the map, in degrees. Twice if it lies across the antimeridian, each time with one of its sides on
/// the map and the other beyond. The cell with a pole in it reaches from one side of the map to the other, and up to the pole.
fn outlines(cell: CellIndex, is_polar: bool) -> Vec<Polygon> {
    let center = LatLng::from(cell);
    let mut corners: Vec<Coord> =
        cell.boundary().iter().map(|corner| Coord { x: corner.lng(), y: corner.lat() }).collect();
    if is_polar {
        corners.sort_by(|a, b| a.x.total_cmp(&b.x));
        let pole = 90_f64.copysign(center.lat());
        if let (Some(&first), Some(&last)) = (corners.first(), corners.last()) {
            corners.insert(0, Coord { x: last.x - 360.0, y: last.y });
            corners.push(Coord { x: first.x + 360.0, y: first.y });
            corners.push(Coord { x: first.x + 360.0, y: pole });
            corners.push(Coord { x: last.x - 360.0, y: pole });
        }
        return vec![Polygon::new(LineString(corners), Vec::new())];
    }
    for corner in &mut corners {
        let away = corner.x - center.lng();
        corner.x -= if away > 180.0 {
            360.0
        } else if away < -180.0 {
            -360.0
        } else {
            0.0
        };
    }
    let west = corners.iter().map(|corner| corner.x).fold(f64::INFINITY, f64::min);
    let east = corners.iter().map(|corner| corner.x).fold(f64::NEG_INFINITY, f64::max);
    [-360.0, 0.0, 360.0]
        .into_iter()
        .filter(|turn| west + turn <= 180.0 && east + turn >= -180.0)
        .map(|turn| corners.iter().map(|corner| Coord { x: corner.x + turn, y: corner.y }).collect())
        .map(|corners| Polygon::new(LineString(corners), Vec::new()))
        .collect()
}

/// A corner of a cell that is on the map and not on its rim.
fn position_within(outline: &Polygon) -> Option<[f64; 2]> {
    let mut corners = outline.exterior().0.iter().map(|corner| [corner.x, corner.y]);
    corners.find(|[x, y]| x.abs() < 180.0 && y.abs() < 90.0)
}
