//! The geometry column, for those who want one beside the cells: points as well-known binary, and the GeoParquet
//! metadata by which other readers know it for a geometry.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, BinaryArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use geoarrow_schema::Dimension;
use geoparquet::metadata::{
    GeoParquetColumnEncoding, GeoParquetColumnMetadata, GeoParquetGeometryType, GeoParquetGeometryTypeAndDimension,
    GeoParquetMetadata,
};

use crate::{Error, Points, json};

/// The length of a two-dimensional point: byte order, type, two coordinates.
const POINT_LENGTH: usize = 21;

/// The points as little-endian ISO well-known binary, `POINT(lon lat)`, 21 bytes each; null where there is no point.
///
/// # Errors
///
/// [`Error::TooManyRows`] above 102 million rows, where the offsets of the column would overflow.
pub fn wkb_points(points: &Points) -> Result<BinaryArray, Error> {
    let rows = points.rows()?;
    let offsets = even_offsets(rows, POINT_LENGTH)?;
    let mut bytes = Vec::with_capacity(rows * POINT_LENGTH);
    for (lon, lat) in points.lon.values().iter().zip(points.lat.values()) {
        bytes.push(1);
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&lon.to_le_bytes());
        bytes.extend_from_slice(&lat.to_le_bytes());
    }
    let nulls = NullBuffer::union(points.lon.nulls(), points.lat.nulls());
    Ok(BinaryArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?)
}

/// Offsets of `rows` values of `length` bytes each.
pub(crate) fn even_offsets(rows: usize, length: usize) -> Result<OffsetBuffer<i32>, Error> {
    let most = i32::MAX as usize / length;
    if rows > most {
        return Err(Error::TooManyRows { rows, most });
    }
    Ok(OffsetBuffer::from_repeated_length(length, rows))
}

/// The value of the Parquet key `geo` (GeoParquet 1.1) for a file whose `column` holds points as well-known binary.
///
/// `bbox` is `[xmin, ymin, xmax, ymax]`, as [`BoundingBox::to_array`] gives it. `crs` is left out, which the
/// specification defines to be OGC:CRS84, longitude and latitude on WGS 84. The same arguments give the same bytes.
pub fn geo_metadata(column: &str, bbox: Option<[f64; 4]>) -> String {
    let point = GeoParquetGeometryTypeAndDimension::new(GeoParquetGeometryType::Point, Dimension::XY);
    let of_column = GeoParquetColumnMetadata {
        encoding: GeoParquetColumnEncoding::WKB,
        geometry_types: HashSet::from([point]),
        crs: None,
        orientation: None,
        edges: None,
        bbox: bbox.map(|bbox| bbox.to_vec()),
        epoch: None,
        covering: None,
    };
    // One column and one type: the hash containers have no order to lose.
    json::text(&GeoParquetMetadata {
        version: "1.1.0".to_owned(),
        primary_column: column.to_owned(),
        columns: HashMap::from([(column.to_owned(), of_column)]),
    })
}

/// The smallest box in longitude and latitude that holds all points seen.
///
/// It is a box on the plane: points on both sides of the antimeridian give one that spans the world. That is wide, but
/// true, and no reader can be misled by it into skipping a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BoundingBox {
    corners: Option<[f64; 4]>,
}

impl BoundingBox {
    /// A box that holds nothing.
    pub const fn new() -> Self {
        Self { corners: None }
    }

    /// Widens the box to hold `points`; rows without a point do not count.
    pub fn update(&mut self, points: &Points) {
        for (lon, lat) in points.lon.iter().zip(&points.lat) {
            if let (Some(lon), Some(lat)) = (lon, lat) {
                self.widen([lon, lat, lon, lat]);
            }
        }
    }

    /// Widens the box to hold another one.
    pub fn merge(&mut self, other: &Self) {
        if let Some(corners) = other.corners {
            self.widen(corners);
        }
    }

    /// `[xmin, ymin, xmax, ymax]`, or nothing if no point was seen.
    pub const fn to_array(&self) -> Option<[f64; 4]> {
        self.corners
    }

    fn widen(&mut self, [xmin, ymin, xmax, ymax]: [f64; 4]) {
        let corners = match self.corners {
            None => [xmin, ymin, xmax, ymax],
            Some([west, south, east, north]) => [west.min(xmin), south.min(ymin), east.max(xmax), north.max(ymax)],
        };
        // Adding zero turns -0 into 0: which of the two `min` returns depends on the order of the points.
        self.corners = Some(corners.map(|corner| corner + 0.0));
    }
}
