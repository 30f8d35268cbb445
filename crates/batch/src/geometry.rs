//! Geometry columns of a data file: points as well-known binary, boxes, and the GeoParquet metadata by which other readers
//! know a column for a geometry.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryViewArray, Float64Array, NullBufferBuilder, StructArray, make_view};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields};
use hexfloe_geometry::{Dimensions, GeometryType};
use serde_json::{Map, Value, json};

use crate::{Error, Points};

/// The length of a two-dimensional point: byte order, type, two coordinates.
const POINT_LENGTH: usize = 21;

/// The points as little-endian ISO well-known binary, `POINT(lon lat)`, 21 bytes each; null where there is no point.
///
/// # Errors
///
/// [`Error::TooManyRows`] above 102 million rows, where the offsets of the column would overflow.
pub fn wkb_points(points: &Points) -> Result<BinaryViewArray, Error> {
    let rows = points.rows()?;
    even_offsets(rows, POINT_LENGTH)?;
    let mut bytes = Vec::with_capacity(rows * POINT_LENGTH);
    for (lon, lat) in points.lon.values().iter().zip(points.lat.values()) {
        bytes.push(1);
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&lon.to_le_bytes());
        bytes.extend_from_slice(&lat.to_le_bytes());
    }
    let nulls = NullBuffer::union(points.lon.nulls(), points.lat.nulls());
    let views = (0..rows).map(|row| {
        let start = row * POINT_LENGTH;
        make_view(&bytes[start..start + POINT_LENGTH], 0, u32::try_from(start).unwrap_or(u32::MAX))
    });
    let views: Vec<u128> = views.collect();
    Ok(BinaryViewArray::try_new(views.into(), vec![Buffer::from_vec(bytes)], nulls)?)
}

/// Offsets of `rows` values of `length` bytes each.
pub(crate) fn even_offsets(rows: usize, length: usize) -> Result<OffsetBuffer<i32>, Error> {
    let most = i32::MAX as usize / length;
    if rows > most {
        return Err(Error::TooManyRows { rows, most });
    }
    Ok(OffsetBuffer::from_repeated_length(length, rows))
}

/// What a data file says of one of its geometry columns.
#[derive(Clone, Copy, Debug)]
pub struct GeoColumn<'a> {
    /// The name of the column, whose geometries are well-known binary.
    pub name: &'a str,
    /// Its coordinate reference system.
    pub crs: GeoCrs<'a>,
    /// What is in the file.
    pub summary: &'a GeometrySummary,
    /// The column with the bounding box of each geometry: a struct of `xmin`, `ymin`, `xmax` and `ymax`.
    pub covering: Option<&'a str>,
}

/// The coordinate reference system of a geometry column, as GeoParquet states it.
#[derive(Clone, Copy, Debug)]
pub enum GeoCrs<'a> {
    /// OGC:CRS84, longitude and latitude on WGS 84, which the specification defines for what says nothing.
    LonLat,
    /// Not known.
    Unknown,
    /// PROJJSON.
    Projjson(&'a str),
}

/// The value of the Parquet key `geo` (GeoParquet 1.1) for a file with these columns, the primary one first. The same
/// arguments give the same bytes.
///
/// Types with measures have no names in the specification: a column that has any says nothing of its types. A box of
/// x and y is no box of a column with z, and is left out there.
pub fn geo_metadata(columns: &[GeoColumn<'_>]) -> String {
    let described = columns.iter().map(|column| {
        let mut of_column = json!({ "encoding": "WKB", "geometry_types": column.summary.type_names() });
        match column.crs {
            GeoCrs::LonLat => {}
            GeoCrs::Unknown => of_column["crs"] = Value::Null,
            // What is no JSON is not known to any reader either.
            GeoCrs::Projjson(text) => of_column["crs"] = serde_json::from_str(text).unwrap_or(Value::Null),
        }
        if let Some(bbox) = column.summary.bounding_box().filter(|_| !column.summary.has_z()) {
            of_column["bbox"] = json!(bbox);
        }
        if let Some(covering) = column.covering {
            let corner = |corner: &str| json!([covering, corner]);
            of_column["covering"] = json!({ "bbox": {
                "xmin": corner("xmin"), "ymin": corner("ymin"), "xmax": corner("xmax"), "ymax": corner("ymax"),
            } });
        }
        (column.name.to_owned(), of_column)
    });
    let columns_described: Map<String, Value> = described.collect();
    let primary = columns.first().map_or("", |column| column.name);
    json!({ "version": "1.1.0", "primary_column": primary, "columns": columns_described }).to_string()
}

/// Which types of geometries were seen, and the box around them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GeometrySummary {
    types: BTreeSet<(GeometryType, Dimensions)>,
    bounding_box: BoundingBox,
}

impl GeometrySummary {
    /// Of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column of geometries, as [`geometries`](crate::geometries) or [`wkb_points`] gives them.
    ///
    /// # Errors
    ///
    /// If a value is no geometry.
    pub fn update(&mut self, geometries: &BinaryViewArray) -> Result<(), Error> {
        for (row, wkb) in geometries.iter().enumerate() {
            let Some(wkb) = wkb else { continue };
            let facts = hexfloe_geometry::facts(wkb).map_err(|problem| Error::NoGeometry { row, problem })?;
            self.types.insert((facts.geometry_type, facts.dimensions));
            if let Some(bbox) = facts.bbox {
                self.bounding_box.widen(bbox);
            }
        }
        Ok(())
    }

    /// Adds another summary.
    pub fn merge(&mut self, other: &Self) {
        self.types.extend(&other.types);
        self.bounding_box.merge(&other.bounding_box);
    }

    /// `[xmin, ymin, xmax, ymax]`, or nothing if no coordinate was seen.
    pub fn bounding_box(&self) -> Option<[f64; 4]> {
        self.bounding_box.to_array()
    }

    /// The names that GeoParquet gives to the types, sorted.
    pub fn type_names(&self) -> Vec<&'static str> {
        if self.types.iter().any(|(_, dimensions)| matches!(dimensions, Dimensions::Xym | Dimensions::Xyzm)) {
            return Vec::new();
        }
        let mut names: Vec<&str> = self
            .types
            .iter()
            .map(|(geometry_type, dimensions)| match (geometry_type, dimensions == &Dimensions::Xyz) {
                (GeometryType::Point, false) => "Point",
                (GeometryType::Point, true) => "Point Z",
                (GeometryType::LineString, false) => "LineString",
                (GeometryType::LineString, true) => "LineString Z",
                (GeometryType::Polygon, false) => "Polygon",
                (GeometryType::Polygon, true) => "Polygon Z",
                (GeometryType::MultiPoint, false) => "MultiPoint",
                (GeometryType::MultiPoint, true) => "MultiPoint Z",
                (GeometryType::MultiLineString, false) => "MultiLineString",
                (GeometryType::MultiLineString, true) => "MultiLineString Z",
                (GeometryType::MultiPolygon, false) => "MultiPolygon",
                (GeometryType::MultiPolygon, true) => "MultiPolygon Z",
                (GeometryType::GeometryCollection, false) => "GeometryCollection",
                (GeometryType::GeometryCollection, true) => "GeometryCollection Z",
            })
            .collect();
        names.sort_unstable();
        names
    }

    fn has_z(&self) -> bool {
        self.types.iter().any(|(_, dimensions)| matches!(dimensions, Dimensions::Xyz | Dimensions::Xyzm))
    }
}

/// The box of each geometry, as a struct of the four doubles `xmin`, `ymin`, `xmax` and `ymax`; null where there is none.
///
/// # Errors
///
/// If a value is no geometry.
pub fn bounding_boxes(geometries: &BinaryViewArray) -> Result<StructArray, Error> {
    let mut corners: [Vec<f64>; 4] = Default::default();
    let mut valid = NullBufferBuilder::new(geometries.len());
    for (row, wkb) in geometries.iter().enumerate() {
        let facts = wkb.map(hexfloe_geometry::facts).transpose();
        let facts = facts.map_err(|problem| Error::NoGeometry { row, problem })?;
        let bbox = facts.and_then(|facts| facts.bbox);
        valid.append(bbox.is_some());
        for (values, value) in corners.iter_mut().zip(bbox.unwrap_or_default()) {
            // Adding zero turns -0 into 0.
            values.push(value + 0.0);
        }
    }
    let nulls = valid.finish();
    // A corner is null where its box is: a reader of one of them alone must not take it for 0.
    let columns = corners.map(|values| Arc::new(Float64Array::new(values.into(), nulls.clone())) as ArrayRef);
    Ok(StructArray::try_new(bounding_box_fields(), columns.to_vec(), nulls)?)
}

/// The fields of [`bounding_boxes`].
pub fn bounding_box_fields() -> Fields {
    ["xmin", "ymin", "xmax", "ymax"].map(|corner| Field::new(corner, DataType::Float64, true)).to_vec().into()
}

/// The smallest box in longitude and latitude that holds all points seen.
///
/// It is a box on the plane: points on both sides of the antimeridian give one that spans the world. That is wide, but
/// true, and no reader can be misled by it into skipping a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct BoundingBox {
    corners: Option<[f64; 4]>,
}

impl BoundingBox {
    /// Widens the box to hold another one.
    fn merge(&mut self, other: &Self) {
        if let Some(corners) = other.corners {
            self.widen(corners);
        }
    }

    /// `[xmin, ymin, xmax, ymax]`, or nothing if no point was seen.
    const fn to_array(self) -> Option<[f64; 4]> {
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
