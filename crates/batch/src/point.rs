//! Where the points of a batch come from. Two number columns or one geometry column become [`Points`]: one longitude
//! and one latitude for every row, null in both where the row was rejected. Everything behind this module works on
//! `Points` and no longer knows how the input spelt them.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeListArray, Float64Array, NullBufferBuilder, RecordBatch,
    StructArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Float64Type};
use hexfloe_geometry::{LonePoint, Position, lone_point};

use crate::lonlat::all_within;
use crate::{Error, Lat, Lon, LonLat, Reject, RejectReason};

/// SRIDs whose coordinates are longitude and latitude on WGS 84: not stated, two-dimensional, three-dimensional.
const WGS_84: [u32; 3] = [0, 4326, 4979];

/// Which columns hold the points, in degrees on WGS 84.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointColumns {
    /// Two columns of numbers.
    LatLon {
        /// The name of the column of latitudes.
        lat: String,
        /// The name of the column of longitudes.
        lon: String,
    },
    /// One column of point geometries: well-known binary, or one of the two native encodings of `GeoArrow`.
    Geometry {
        /// Its name.
        column: String,
    },
}

/// The points of a batch, one for every row; a row that was rejected is null in both columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Longitudes in degrees.
    pub lon: Float64Array,
    /// Latitudes in degrees.
    pub lat: Float64Array,
}

impl Points {
    /// How many rows there are, rejected ones included.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenPoints`] if there is not one longitude for each latitude.
    pub fn rows(&self) -> Result<usize, Error> {
        let (lon, lat) = (self.lon.len(), self.lat.len());
        if lon == lat { Ok(lon) } else { Err(Error::UnevenPoints { lon, lat }) }
    }

    /// True for every row that has a point: the filter that takes the rejected rows out of the batch.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenPoints`] if there is not one longitude for each latitude.
    pub fn accepted(&self) -> Result<BooleanArray, Error> {
        let rows = self.rows()?;
        Ok(match NullBuffer::union(self.lon.nulls(), self.lat.nulls()) {
            Some(nulls) => BooleanArray::new(nulls.into_inner(), None),
            None => BooleanArray::new(BooleanBuffer::new_set(rows), None),
        })
    }

    /// The rows for which `keep` is true.
    ///
    /// # Errors
    ///
    /// If `keep` has not the length of the points.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Self, Error> {
        Ok(Self {
            lon: filter(&self.lon, keep)?.as_primitive::<Float64Type>().clone(),
            lat: filter(&self.lat, keep)?.as_primitive::<Float64Type>().clone(),
        })
    }
}

/// Takes the points out of `batch`, with a reason for each row that has none.
///
/// - [`PointColumns::LatLon`]: columns of any number type; narrower ones are widened to 64-bit floats as they are.
/// - [`PointColumns::Geometry`]: well-known binary (ISO, or EWKB with SRID 4326, in either byte order) in `Binary`,
///   `LargeBinary` or `BinaryView`; or `GeoArrow` points, as `Struct` with the children `x` and `y` or as
///   `FixedSizeList` of two to four, of 64-bit floats. Z and M are ignored. `NaN NaN` is an empty point.
///
/// The rejects come in the order of the rows, one for a row: the first reason found, latitude before longitude.
///
/// # Errors
///
/// If a column is missing, ambiguous or of a type that holds no coordinates. Bad rows are not errors.
pub fn points(batch: &RecordBatch, columns: &PointColumns) -> Result<(Points, Vec<Reject>), Error> {
    match columns {
        PointColumns::LatLon { lat, lon } => {
            if lat == lon {
                return Err(Error::OneColumnForBoth { column: lat.clone() });
            }
            let lat = degrees(batch, lat)?;
            let lon = degrees(batch, lon)?;
            // Nearly always there is nothing to say against any of them, and nothing to copy.
            let fine = |column: &Float64Array, most| column.null_count() == 0 && all_within(column.values(), most);
            if fine(&lat, 90.0) && fine(&lon, 180.0) {
                return Ok((Points { lon, lat }, Vec::new()));
            }
            Ok(collect(batch.num_rows(), |row| from_pair(&lon, &lat, row, row)))
        }
        PointColumns::Geometry { column } => {
            let array = find(batch, column)?;
            let rows = batch.num_rows();
            let from_bytes = |bytes: Option<&[u8]>| bytes.map_or(Err(RejectReason::NullGeometry), from_wkb);
            match array.data_type() {
                DataType::Binary => {
                    let array = array.as_binary::<i32>();
                    Ok(collect(rows, |row| from_bytes(array.is_valid(row).then(|| array.value(row)))))
                }
                DataType::LargeBinary => {
                    let array = array.as_binary::<i64>();
                    Ok(collect(rows, |row| from_bytes(array.is_valid(row).then(|| array.value(row)))))
                }
                DataType::BinaryView => {
                    let array = array.as_binary_view();
                    Ok(collect(rows, |row| from_bytes(array.is_valid(row).then(|| array.value(row)))))
                }
                DataType::Struct(_) => separated(column, array.as_struct()),
                DataType::FixedSizeList(_, 2..=4) => interleaved(column, array.as_fixed_size_list()),
                _ => Err(not_a_geometry(column, array)),
            }
        }
    }
}

fn from_wkb(bytes: &[u8]) -> Result<LonLat, RejectReason> {
    let LonePoint { srid, position } = lone_point(bytes)?;
    if let Some(srid) = srid.filter(|srid| !WGS_84.contains(srid)) {
        return Err(RejectReason::ForeignReference { srid, expected: 4326 });
    }
    match position {
        Position::At([lon, lat]) => LonLat::from_degrees(Lon(lon), Lat(lat)),
        Position::Empty => Err(RejectReason::EmptyGeometry),
        Position::NotAPoint(found) => Err(RejectReason::NotAPoint { found: found.to_owned() }),
    }
}

/// Takes two columns of numbers out of `batch` as coordinates of another system than degrees: `lon` holds x, and `lat` y. Only
/// what is null or not finite is a reject; whether a pair is a place is for the system to say.
///
/// # Errors
///
/// If a column is missing, ambiguous or of a type that holds no coordinates, or if the two are one.
pub fn coordinates(batch: &RecordBatch, x: &str, y: &str) -> Result<(Points, Vec<Reject>), Error> {
    if x == y {
        return Err(Error::OneColumnForBoth { column: x.to_owned() });
    }
    let (x, y) = (degrees(batch, x)?, degrees(batch, y)?);
    let mut rejects = Vec::new();
    let mut valid = NullBufferBuilder::new(batch.num_rows());
    for row in 0..batch.num_rows() {
        let reason = match (x.is_valid(row).then(|| x.value(row)), y.is_valid(row).then(|| y.value(row))) {
            (_, None) => Some(RejectReason::NullLatitude),
            (None, _) => Some(RejectReason::NullLongitude),
            (Some(x), Some(y)) => [x, y]
                .into_iter()
                .find(|value| !value.is_finite())
                .map(|value| RejectReason::NotFiniteCoordinate { value: value.to_string() }),
        };
        valid.append(reason.is_none());
        rejects.extend(reason.map(|reason| Reject { row, reason }));
    }
    let nulls = valid.finish();
    let of = |column: &Float64Array| Float64Array::new(column.values().clone(), nulls.clone());
    Ok((Points { lon: of(&x), lat: of(&y) }, rejects))
}

/// `GeoArrow` points with separated coordinates.
fn separated(column: &str, array: &StructArray) -> Result<(Points, Vec<Reject>), Error> {
    let coordinate = |name| {
        array
            .column_by_name(name)
            .and_then(|child| child.as_primitive_opt::<Float64Type>())
            .ok_or_else(|| not_a_geometry(column, array))
    };
    let (x, y) = (coordinate("x")?, coordinate("y")?);
    Ok(collect(array.len(), |row| from_native(array, x, y, row, row, row)))
}

/// `GeoArrow` points with interleaved coordinates.
fn interleaved(column: &str, array: &FixedSizeListArray) -> Result<(Points, Vec<Reject>), Error> {
    let Some(values) = array.values().as_primitive_opt::<Float64Type>() else {
        return Err(not_a_geometry(column, array));
    };
    let width = usize::try_from(array.value_length()).map_err(|_| not_a_geometry(column, array))?;
    Ok(collect(array.len(), |row| from_native(array, values, values, row, row * width, row * width + 1)))
}

fn from_native(
    array: &dyn Array,
    x: &Float64Array,
    y: &Float64Array,
    row: usize,
    x_at: usize,
    y_at: usize,
) -> Result<LonLat, RejectReason> {
    if array.is_null(row) {
        return Err(RejectReason::NullGeometry);
    }
    if x.is_valid(x_at) && y.is_valid(y_at) && x.value(x_at).is_nan() && y.value(y_at).is_nan() {
        return Err(RejectReason::EmptyGeometry);
    }
    from_pair(x, y, x_at, y_at)
}

fn from_pair(lon: &Float64Array, lat: &Float64Array, lon_at: usize, lat_at: usize) -> Result<LonLat, RejectReason> {
    if lat.is_null(lat_at) {
        return Err(RejectReason::NullLatitude);
    }
    if lon.is_null(lon_at) {
        return Err(RejectReason::NullLongitude);
    }
    LonLat::from_degrees(Lon(lon.value(lon_at)), Lat(lat.value(lat_at)))
}

fn collect(rows: usize, point: impl Fn(usize) -> Result<LonLat, RejectReason>) -> (Points, Vec<Reject>) {
    let mut lon = Vec::with_capacity(rows);
    let mut lat = Vec::with_capacity(rows);
    let mut valid = NullBufferBuilder::new(rows);
    let mut rejects = Vec::new();
    for row in 0..rows {
        match point(row) {
            Ok(point) => {
                lon.push(point.lon());
                lat.push(point.lat());
                valid.append_non_null();
            }
            Err(reason) => {
                lon.push(0.0);
                lat.push(0.0);
                valid.append_null();
                rejects.push(Reject { row, reason });
            }
        }
    }
    let nulls = valid.finish();
    let points = Points {
        lon: Float64Array::new(ScalarBuffer::from(lon), nulls.clone()),
        lat: Float64Array::new(ScalarBuffer::from(lat), nulls),
    };
    (points, rejects)
}

/// A column of numbers as 64-bit floats.
fn degrees(batch: &RecordBatch, column: &str) -> Result<Float64Array, Error> {
    let array = find(batch, column)?;
    if !holds_numbers(array.data_type()) {
        return Err(Error::ColumnType {
            column: column.to_owned(),
            found: array.data_type().clone(),
            wanted: "coordinates",
            remedy: "declare or cast it as a 64-bit float",
        });
    }
    Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

fn holds_numbers(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => holds_numbers(values),
        // Every value of such a column is null, and every row will say so.
        DataType::Null => true,
        other => other.is_numeric(),
    }
}

fn find<'a>(batch: &'a RecordBatch, column: &str) -> Result<&'a ArrayRef, Error> {
    let schema = batch.schema_ref();
    let count = schema.fields().iter().filter(|field| field.name() == column).count();
    match batch.column_by_name(column) {
        Some(array) if count == 1 => Ok(array),
        Some(_) => Err(Error::AmbiguousColumn { column: column.to_owned(), count }),
        None => Err(Error::NoColumn {
            column: column.to_owned(),
            available: schema.fields().iter().map(|field| field.name().clone()).collect(),
        }),
    }
}

fn not_a_geometry(column: &str, array: &dyn Array) -> Error {
    Error::ColumnType {
        column: column.to_owned(),
        found: array.data_type().clone(),
        wanted: "points",
        remedy: "give well-known binary, or GeoArrow points of 64-bit floats",
    }
}
