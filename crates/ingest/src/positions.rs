//! Where rows are, and the geometries they come with: from columns of the input to positions in longitude and latitude, and to geometry
//! columns of the table.
//!
//! A row whose position cannot be used is rejected with the reason. A row without one (its geometry is null or empty) is kept,
//! with null cells, unless the job or the table wants a position for each.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, BinaryViewBuilder, Float64Array, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field};
use hexfloe_batch::{
    CoverDerivation, GeometryEncoding, PointColumns, Points, Reject, RejectReason, bounding_box_fields, bounding_boxes,
    geometries, representative_points, wkb_points,
};
use hexfloe_crs::{Crs, LonLatTransform};
use hexfloe_geometry::{GeometryType, Limits, Part, Repair, map_coordinates, parts, repair, widest_edge};

use crate::Error;

/// So many degrees more than there are, which is a tenth of a metre, come of rounding.
pub(crate) const RANGE_TOLERANCE: f64 = 1e-6;

/// An edge that is longer than this, in degrees of longitude, may as well go around the other way …
const HALF_THE_WORLD: f64 = 180.0;

/// … unless it goes all the way around, as those of the world's box and of the poles do.
const WHOLE_WORLD: f64 = 360.0 - RANGE_TOLERANCE;

/// No projected system has a coordinate as large as this: a hundred times around the earth in US survey feet.
const FARTHEST: f64 = 1e10;

/// An edge that is straight in one system and bent by more than this, in metres, in the other is another edge there.
const MOST_BENT_M: f64 = 5.0;

/// About how long a degree of a great circle is, in metres.
const DEGREE_M: f64 = 111_320.0;

/// How the position of a row is found.
#[derive(Clone, Debug)]
pub(crate) enum Positions {
    /// Two columns of degrees, or one of geometries that are all points.
    Points(PointColumns),
    /// Two columns of coordinates of another system.
    Projected { x: String, y: String, system: Arc<LonLatTransform> },
    /// A column of geometries of any type.
    Geometry(GeometryInput),
}

/// A column of geometries of the input.
#[derive(Clone, Debug)]
pub(crate) struct GeometryInput {
    pub(crate) column: String,
    pub(crate) encoding: GeometryEncoding,
    pub(crate) crs: Option<Crs>,
    pub(crate) limits: Limits,
    pub(crate) repair: Option<Repair>,
    /// What is no point is rejected: the table has cells of points.
    pub(crate) points_only: bool,
    /// To longitude and latitude, where that is needed.
    pub(crate) system: Option<Arc<LonLatTransform>>,
}

/// A geometry column of the table.
#[derive(Clone, Debug)]
pub(crate) struct StoredGeometry {
    pub(crate) name: String,
    pub(crate) from: Origin,
    /// The system its coordinates are in; `None` where the files say that it is unknown.
    pub(crate) crs: Option<Crs>,
    /// The column of the boxes around its geometries.
    pub(crate) bbox: Option<String>,
}

/// Where the geometries of a column come from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The positions, as points.
    Positions,
    /// The geometries that the positions come from, as they are.
    Primary,
    /// The same, brought to longitude and latitude.
    Reprojected,
    /// Another column of the input.
    Other(GeometryInput),
}

impl StoredGeometry {
    /// The columns it makes.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        let boxes = self.bbox.iter().map(|name| Field::new(name, DataType::Struct(bounding_box_fields()), true));
        std::iter::once(Field::new(&self.name, DataType::BinaryView, true)).chain(boxes)
    }
}

impl GeometryInput {
    /// Its geometries as well-known binary, with a reason for each row in which it is none.
    fn read(&self, batch: &RecordBatch) -> Result<(BinaryViewArray, Vec<Reject>), Error> {
        let index = batch.schema().index_of(&self.column).map_err(Error::arrow("find the geometry column"))?;
        let srid = self.crs.as_ref().and_then(srid);
        let read = geometries(&self.column, batch.column(index), self.encoding, srid, &self.limits)?;
        match self.repair {
            None => Ok((read.wkb, read.rejects)),
            Some(how) => Ok((repaired(&read.wkb, how)?, read.rejects)),
        }
    }
}

fn repaired(geometries: &BinaryViewArray, how: Repair) -> Result<BinaryViewArray, Error> {
    let mut builder = BinaryViewBuilder::with_capacity(geometries.len());
    let mut buffer = Vec::new();
    for (row, wkb) in geometries.iter().enumerate() {
        buffer.clear();
        let repaired = wkb.map(|wkb| repair(wkb, how, &mut buffer)).transpose();
        repaired.map_err(|problem| hexfloe_batch::Error::NoGeometry { row, problem })?;
        builder.append_option(wkb.is_some().then_some(&buffer));
    }
    Ok(builder.finish())
}

/// The number by which EWKB names a system.
fn srid(crs: &Crs) -> Option<u32> {
    if crs.is_lon_lat() {
        return Some(4326);
    }
    crs.id()?.strip_prefix("EPSG:")?.parse().ok()
}

/// What the rows of a batch are at.
pub(crate) struct Located {
    /// Longitude and latitude; null where a row was rejected or has no position.
    pub(crate) points: Option<Points>,
    /// The columns of the stored geometries, and then the cover.
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) rejects: Vec<Reject>,
}

/// What is made of where a row is, apart from its cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) geometries: &'a [StoredGeometry],
    pub(crate) cover: Option<&'a CoverDerivation>,
    /// Each row has to have a position.
    pub(crate) required: bool,
}

impl Positions {
    /// The columns of the input that are read for them, and are in the table only as the job asks for.
    pub(crate) fn takes(&self, column: &str) -> bool {
        match self {
            Self::Points(PointColumns::Geometry { column: taken }) => taken == column,
            Self::Points(PointColumns::LatLon { .. }) | Self::Projected { .. } => false,
            Self::Geometry(input) => input.column == column,
        }
    }

    /// The columns that the input must have.
    pub(crate) fn columns(&self) -> Vec<String> {
        match self {
            Self::Points(PointColumns::LatLon { lat, lon }) => vec![lat.clone(), lon.clone()],
            Self::Points(PointColumns::Geometry { column }) => vec![column.clone()],
            Self::Projected { x, y, .. } => vec![x.clone(), y.clone()],
            Self::Geometry(input) => vec![input.column.clone()],
        }
    }

    /// Columns of text that are read as numbers.
    pub(crate) fn numbers(&self) -> Vec<String> {
        match self {
            Self::Points(PointColumns::LatLon { .. }) | Self::Projected { .. } => self.columns(),
            Self::Points(PointColumns::Geometry { .. }) | Self::Geometry(_) => Vec::new(),
        }
    }

    /// The geometries as they are in the input.
    pub(crate) fn as_they_are(&self) -> StoredGeometry {
        let from = match self {
            Self::Geometry(_) => Origin::Primary,
            Self::Points(_) | Self::Projected { .. } => Origin::Positions,
        };
        StoredGeometry { name: String::new(), from, crs: None, bbox: None }
    }

    pub(crate) fn locate(&self, batch: &RecordBatch, wanted: Wanted<'_>) -> Result<Located, Error> {
        let mut located = match self {
            Self::Points(columns) => {
                let (points, rejects) = hexfloe_batch::points(batch, columns)?;
                Located { points: Some(points), columns: Vec::new(), rejects }
            }
            Self::Projected { x, y, system } => projected(batch, x, y, system)?,
            Self::Geometry(input) => return of_geometries(input, batch, wanted),
        };
        for stored in wanted.geometries {
            let geometries = match (&stored.from, &located.points) {
                (Origin::Other(input), _) => read_other(input, batch, &mut located.rejects)?,
                (_, Some(points)) => wkb_points(points)?,
                (_, None) => BinaryViewArray::new_null(batch.num_rows()),
            };
            push_stored(stored, geometries, &mut located.columns)?;
        }
        if let (Some(cover), Some(points)) = (wanted.cover, &located.points) {
            let (cells, rejects) = cover.derive(&wkb_points(points)?)?;
            located.columns.push(cells);
            located.rejects.extend(rejects);
        }
        Ok(located)
    }
}

fn push_stored(stored: &StoredGeometry, geometries: BinaryViewArray, columns: &mut Vec<ArrayRef>) -> Result<(), Error> {
    let boxes = stored.bbox.is_some().then(|| bounding_boxes(&geometries)).transpose()?;
    columns.push(Arc::new(geometries));
    columns.extend(boxes.map(|boxes| Arc::new(boxes) as ArrayRef));
    Ok(())
}

fn read_other(input: &GeometryInput, batch: &RecordBatch, rejects: &mut Vec<Reject>) -> Result<BinaryViewArray, Error> {
    let (geometries, more) = input.read(batch)?;
    rejects.extend(more);
    Ok(geometries)
}

/// Coordinates of another system, as two columns of numbers.
fn projected(batch: &RecordBatch, x: &str, y: &str, system: &LonLatTransform) -> Result<Located, Error> {
    let (found, mut rejects) = hexfloe_batch::coordinates(batch, x, y)?;
    let points = transform(&found.lon, &found.lat, system, &mut rejects);
    Ok(Located { points: Some(points), columns: Vec::new(), rejects })
}

fn of_geometries(input: &GeometryInput, batch: &RecordBatch, wanted: Wanted<'_>) -> Result<Located, Error> {
    let (geometries, mut rejects) = input.read(batch)?;
    let (x, y) = representative_points(&geometries)?;
    if input.points_only {
        refuse_others_than_points(&geometries, &mut rejects)?;
    }
    refuse_far_out(&geometries, input.crs.as_ref().is_some_and(Crs::is_geographic), &mut rejects)?;
    let points = input.system.as_ref().map(|system| transform(&x, &y, system, &mut rejects));
    if wanted.required {
        refuse_nowhere(&geometries, &x, &mut rejects);
    }
    let mut columns = Vec::new();
    let needs_lon_lat =
        wanted.cover.is_some() || wanted.geometries.iter().any(|stored| matches!(stored.from, Origin::Reprojected));
    let lon_lat = match &input.system {
        Some(system) if needs_lon_lat && !input.crs.as_ref().is_some_and(Crs::is_lon_lat) => {
            reproject(&geometries, system, &mut rejects)?
        }
        _ => geometries.clone(),
    };
    for stored in wanted.geometries {
        let geometries = match &stored.from {
            Origin::Primary => geometries.clone(),
            Origin::Reprojected => lon_lat.clone(),
            Origin::Other(input) => read_other(input, batch, &mut rejects)?,
            Origin::Positions => match &points {
                Some(points) => wkb_points(points)?,
                None => BinaryViewArray::new_null(batch.num_rows()),
            },
        };
        push_stored(stored, geometries, &mut columns)?;
    }
    if let Some(cover) = wanted.cover {
        if points.is_some() {
            let (cells, more) = cover.derive(&lon_lat)?;
            columns.push(cells);
            rejects.extend(more);
        } else {
            columns.push(new_null_array(cover.field().data_type(), batch.num_rows()));
        }
    }
    Ok(Located { points, columns, rejects })
}

/// Longitudes and latitudes of coordinates; a coordinate that is no place of its system is a reject, and null.
fn transform(x: &Float64Array, y: &Float64Array, system: &LonLatTransform, rejects: &mut Vec<Reject>) -> Points {
    let mut lon = Vec::with_capacity(x.len());
    let mut lat = Vec::with_capacity(x.len());
    for row in 0..x.len() {
        let position = (x.is_valid(row) && y.is_valid(row)).then(|| [x.value(row), y.value(row)]);
        let place = position.map(|position| system.lon_lat(position)).transpose().unwrap_or_else(|error| {
            rejects.push(Reject { row, reason: RejectReason::OutsideReference { cause: error.to_string() } });
            None
        });
        lon.push(place.map(|[lon, _]| lon));
        lat.push(place.map(|[_, lat]| lat));
    }
    Points { lon: lon.into(), lat: lat.into() }
}

/// For a table whose cells are on record as those of points.
fn refuse_others_than_points(geometries: &BinaryViewArray, rejects: &mut Vec<Reject>) -> Result<(), Error> {
    for (row, wkb) in geometries.iter().enumerate() {
        let facts = wkb.map(hexfloe_geometry::facts).transpose();
        let facts = facts.map_err(|problem| hexfloe_batch::Error::NoGeometry { row, problem })?;
        if let Some(facts) = facts.filter(|facts| facts.geometry_type != GeometryType::Point) {
            let found = facts.geometry_type.to_string();
            rejects.push(Reject { row, reason: RejectReason::NotAPoint { found } });
        }
    }
    Ok(())
}

/// Geometries of which a part lies where there is nothing: metres read as degrees, axes swapped, numbers that are no metres on the
/// earth.
fn refuse_far_out(geometries: &BinaryViewArray, degrees: bool, rejects: &mut Vec<Reject>) -> Result<(), Error> {
    let out = |value: f64, most: f64| value.abs() > most + RANGE_TOLERANCE;
    for (row, wkb) in geometries.iter().enumerate() {
        let facts = wkb.map(hexfloe_geometry::facts).transpose();
        let facts = facts.map_err(|problem| hexfloe_batch::Error::NoGeometry { row, problem })?;
        let Some([xmin, ymin, xmax, ymax]) = facts.and_then(|facts| facts.bbox) else { continue };
        let reason = if !degrees {
            let Some(value) = [xmin, ymin, xmax, ymax].into_iter().find(|value| value.abs() > FARTHEST) else {
                continue;
            };
            RejectReason::OutsideReference {
                cause: format!("the coordinate {value} is no place on the earth in any unit"),
            }
        } else if let Some(value) = [ymin, ymax].into_iter().find(|value| out(*value, 90.0)) {
            RejectReason::LatitudeOutOfRange { value }
        } else if let Some(value) = [xmin, xmax].into_iter().find(|value| out(*value, 180.0)) {
            RejectReason::LongitudeOutOfRange { value }
        } else if xmax - xmin > HALF_THE_WORLD
            && let Some([from, to]) = wkb.and_then(|wkb| widest_edge(wkb, HALF_THE_WORLD, WHOLE_WORLD))
        {
            RejectReason::AmbiguousEdge { from, to }
        } else {
            continue;
        };
        rejects.push(Reject { row, reason });
    }
    Ok(())
}

/// Rows that were not rejected for their geometry and have no position.
fn refuse_nowhere(geometries: &BinaryViewArray, x: &Float64Array, rejects: &mut Vec<Reject>) {
    for row in (0..geometries.len()).filter(|row| x.is_null(*row)) {
        let reason = if geometries.is_null(row) { RejectReason::NullGeometry } else { RejectReason::EmptyGeometry };
        // A geometry that could not be read is null by now: the earlier reason is the better one, and stays.
        rejects.push(Reject { row, reason });
    }
}

fn reproject(
    geometries: &BinaryViewArray,
    system: &LonLatTransform,
    rejects: &mut Vec<Reject>,
) -> Result<BinaryViewArray, Error> {
    let mut builder = BinaryViewBuilder::with_capacity(geometries.len());
    let mut buffer = Vec::new();
    for (row, wkb) in geometries.iter().enumerate() {
        let Some(wkb) = wkb else {
            builder.append_null();
            continue;
        };
        buffer.clear();
        buffer.extend_from_slice(wkb);
        let moved = map_coordinates(&mut buffer, |position| system.lon_lat(position).map_err(Moved::Outside));
        match moved.and_then(|()| check_edges(wkb, &buffer, system)) {
            Ok(()) => builder.append_value(&buffer),
            Err(Moved::Changed(reason)) => {
                rejects.push(Reject { row, reason });
                builder.append_null();
            }
            Err(Moved::Outside(error)) => {
                rejects.push(Reject { row, reason: RejectReason::OutsideReference { cause: error.to_string() } });
                builder.append_null();
            }
            Err(Moved::Problem(problem)) => return Err(hexfloe_batch::Error::NoGeometry { row, problem }.into()),
        }
    }
    Ok(builder.finish())
}

/// Only vertices are moved, and what was straight between them is drawn straight again. Where that makes another shape, because the edge is
/// long or leads across the antimeridian or around a pole, the geometry cannot be had in degrees.
fn check_edges(from: &[u8], to: &[u8], system: &LonLatTransform) -> Result<(), Moved> {
    if let Some([from, to]) = widest_edge(to, HALF_THE_WORLD, f64::INFINITY) {
        return Err(Moved::Changed(RejectReason::AmbiguousEdge { from, to }));
    }
    for part in parts(from) {
        let lines = match part? {
            Part::Point(_) => Vec::new(),
            Part::Line(vertices) => vec![vertices],
            Part::Polygon(rings) => rings,
        };
        for edge in lines.iter().flat_map(|line| line.windows(2)) {
            let [start, end] = edge else { continue };
            let middle = [f64::midpoint(start[0], end[0]), f64::midpoint(start[1], end[1])];
            let [a, b, there] = [*start, *end, middle].map(|position| system.lon_lat(position).map_err(Moved::Outside));
            let ([a, b], there) = ([a?, b?], there?);
            let north = (there[1] - f64::midpoint(a[1], b[1])) * DEGREE_M;
            let east = (there[0] - f64::midpoint(a[0], b[0])) * DEGREE_M * there[1].to_radians().cos();
            let bent = north.hypot(east);
            if bent > MOST_BENT_M {
                let cause = format!(
                    "an edge from ({}, {}) is bent by {bent:.0} m in degrees: put vertices in between, or leave geometry.store_crs and \
                     h3.cover out",
                    start[0], start[1]
                );
                return Err(Moved::Changed(RejectReason::OutsideReference { cause }));
            }
        }
    }
    Ok(())
}

/// Why a geometry could not be moved.
enum Moved {
    Changed(RejectReason),
    Outside(hexfloe_crs::Error),
    Problem(hexfloe_geometry::Problem),
}

impl From<hexfloe_geometry::Problem> for Moved {
    fn from(problem: hexfloe_geometry::Problem) -> Self {
        Self::Problem(problem)
    }
}
