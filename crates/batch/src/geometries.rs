//! A column of geometries, in whichever way its file holds them, as the one form that is stored: little-endian ISO well-known binary.
//! And the points that stand for such geometries, from which cells are made.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, BinaryViewArray, BinaryViewBuilder, Float64Array, Float64Builder};
use arrow::datatypes::DataType;
use hexfloe_geometry::{Limits, Normalised, Problem, from_text, normalise, representative_point};

use crate::native::NativeColumn;
use crate::{Error, Reject, RejectReason};

/// How the geometries of a column are encoded, as the metadata of `GeoParquet` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GeometryEncoding {
    /// Well-known binary; in a column of text, well-known text, or well-known binary in hexadecimal digits.
    #[default]
    Wkb,
    /// A native encoding of `GeoArrow`: coordinates in so many lists.
    Native(NativeEncoding),
}

/// The native encodings of `GeoArrow`. `x` and `y`, and `z` or `m` if there are any, are the children of a struct, or are
/// interleaved in lists of fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NativeEncoding {
    /// Coordinates.
    Point,
    /// Lists of coordinates.
    LineString,
    /// Lists of rings.
    Polygon,
    /// Lists of coordinates.
    MultiPoint,
    /// Lists of lines.
    MultiLineString,
    /// Lists of polygons.
    MultiPolygon,
}

impl GeometryEncoding {
    /// The encoding of that name in `GeoParquet` (`WKB`, `point`, `linestring`, …).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "WKB" => Self::Wkb,
            "point" => Self::Native(NativeEncoding::Point),
            "linestring" => Self::Native(NativeEncoding::LineString),
            "polygon" => Self::Native(NativeEncoding::Polygon),
            "multipoint" => Self::Native(NativeEncoding::MultiPoint),
            "multilinestring" => Self::Native(NativeEncoding::MultiLineString),
            "multipolygon" => Self::Native(NativeEncoding::MultiPolygon),
            _ => return None,
        })
    }
}

/// A column of geometries as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometries {
    /// Little-endian ISO well-known binary, one value for each row: null where the row had none, or one that was rejected.
    pub wkb: BinaryViewArray,
    /// The rows whose geometry cannot be used, in their order. A row without a geometry is not one of them.
    pub rejects: Vec<Reject>,
    /// The spatial reference identifiers that accepted geometries carried (EWKB, EWKT), 0 ("not known") not among them.
    pub srids: BTreeSet<u32>,
}

/// Reads the geometries of `array`, which is the column of that name:
///
/// - of [`GeometryEncoding::Wkb`], well-known binary in `Binary`, `LargeBinary` or `BinaryView`, ISO or EWKB; or text in `Utf8`,
///   `LargeUtf8` or `Utf8View`, WKT or EWKT or hexadecimal digits;
/// - of [`GeometryEncoding::Native`], structs or lists of fixed size within `List`s or `LargeList`s, of 64-bit floats.
///
/// `expected_srid` is that of the column's coordinate reference system: a geometry that says another one is rejected. 0 says nothing,
/// and 4979 (WGS 84 with heights) is taken for 4326. Where the column's system has no such number, give none, and look at
/// [`srids`](Geometries::srids).
///
/// # Errors
///
/// If the column has a type that holds no geometries of that encoding. Bad geometries are not errors.
pub fn geometries(
    column: &str,
    array: &dyn Array,
    encoding: GeometryEncoding,
    expected_srid: Option<u32>,
    limits: &Limits,
) -> Result<Geometries, Error> {
    let mut builder = Builder::new(array.len(), expected_srid);
    match (encoding, array.data_type()) {
        (GeometryEncoding::Wkb, DataType::Binary) => {
            builder.all(array.as_binary::<i32>().iter(), |wkb, out| normalise(wkb, limits, out))?;
        }
        (GeometryEncoding::Wkb, DataType::LargeBinary) => {
            builder.all(array.as_binary::<i64>().iter(), |wkb, out| normalise(wkb, limits, out))?;
        }
        (GeometryEncoding::Wkb, DataType::BinaryView) => {
            builder.all(array.as_binary_view().iter(), |wkb, out| normalise(wkb, limits, out))?;
        }
        (GeometryEncoding::Wkb, DataType::Utf8) => {
            builder.all(array.as_string::<i32>().iter(), |text, out| from_text(text, limits, out))?;
        }
        (GeometryEncoding::Wkb, DataType::LargeUtf8) => {
            builder.all(array.as_string::<i64>().iter(), |text, out| from_text(text, limits, out))?;
        }
        (GeometryEncoding::Wkb, DataType::Utf8View) => {
            builder.all(array.as_string_view().iter(), |text, out| from_text(text, limits, out))?;
        }
        // A column without a value may have this type in whichever encoding.
        (_, DataType::Null) => builder.all((0..array.len()).map(|_| None::<()>), |(), _| Ok(Normalised::default()))?,
        (GeometryEncoding::Native(encoding), _) => {
            let native = NativeColumn::new(encoding, array).ok_or_else(|| no_geometries(column, array))?;
            let mut written = Vec::new();
            let rows = (0..array.len()).map(|row| array.is_valid(row).then_some(row));
            builder.all(rows, |row, out| {
                written.clear();
                native.write(row, &mut written)?;
                normalise(&written, limits, out)
            })?;
        }
        _ => return Err(no_geometries(column, array)),
    }
    Ok(builder.finish())
}

/// The points that stand for geometries as [`geometries`] gives them: x and y, null where there is no geometry or an empty one. See
/// [`representative_point`] for the rule.
///
/// # Errors
///
/// [`Error::NoGeometry`] if a value is no little-endian ISO well-known binary.
pub fn representative_points(wkb: &BinaryViewArray) -> Result<(Float64Array, Float64Array), Error> {
    let mut x = Float64Builder::with_capacity(wkb.len());
    let mut y = Float64Builder::with_capacity(wkb.len());
    for (row, geometry) in wkb.iter().enumerate() {
        let point = match geometry {
            Some(geometry) => representative_point(geometry).map_err(|problem| Error::NoGeometry { row, problem })?,
            None => None,
        };
        x.append_option(point.map(|[x, _]| x));
        y.append_option(point.map(|[_, y]| y));
    }
    Ok((x.finish(), y.finish()))
}

struct Builder {
    wkb: BinaryViewBuilder,
    rejects: Vec<Reject>,
    srids: BTreeSet<u32>,
    expected_srid: Option<u32>,
}

impl Builder {
    fn new(rows: usize, expected_srid: Option<u32>) -> Self {
        let wkb = BinaryViewBuilder::with_capacity(rows);
        Self { wkb, rejects: Vec::new(), srids: BTreeSet::new(), expected_srid }
    }

    /// Appends what `read` makes of each value that is not null.
    fn all<T>(
        &mut self,
        values: impl Iterator<Item = Option<T>>,
        mut read: impl FnMut(T, &mut Vec<u8>) -> Result<Normalised, Problem>,
    ) -> Result<(), Error> {
        let mut geometry = Vec::new();
        for (row, value) in values.enumerate() {
            let Some(value) = value else {
                self.wkb.append_null();
                continue;
            };
            geometry.clear();
            match read(value, &mut geometry).map_err(RejectReason::from).and_then(|found| self.check_srid(found)) {
                Ok(()) => self.wkb.try_append_value(&geometry)?,
                Err(reason) => {
                    self.wkb.append_null();
                    self.rejects.push(Reject { row, reason });
                }
            }
        }
        Ok(())
    }

    fn check_srid(&mut self, found: Normalised) -> Result<(), RejectReason> {
        let Some(srid) = found.srid.filter(|&srid| srid != 0) else { return Ok(()) };
        let flat = |srid| if srid == 4979 { 4326 } else { srid };
        if let Some(expected) = self.expected_srid.filter(|&expected| flat(expected) != flat(srid)) {
            return Err(RejectReason::ForeignReference { srid, expected });
        }
        self.srids.insert(srid);
        Ok(())
    }

    fn finish(mut self) -> Geometries {
        Geometries { wkb: self.wkb.finish(), rejects: self.rejects, srids: self.srids }
    }
}

impl From<Problem> for RejectReason {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Unreadable(cause) => Self::UnreadableGeometry { cause },
            Problem::NotFinite(value) => Self::NotFiniteCoordinate { value: value.to_string() },
            Problem::UnclosedRing { ring } => Self::UnclosedRing { ring },
            Problem::TooLarge(limit) => Self::TooLarge { limit },
        }
    }
}

fn no_geometries(column: &str, array: &dyn Array) -> Error {
    Error::ColumnType {
        column: column.to_owned(),
        found: array.data_type().clone(),
        wanted: "geometries of the encoding that is stated",
        remedy: "give well-known binary or text, or state the GeoArrow encoding that the column has",
    }
}
