//! Writing: little-endian ISO well-known binary, one geometry after another into one buffer.

use std::fmt;

/// The NaN that is written. Of `f64::NAN` the bits are not promised.
pub(crate) const NAN: f64 = f64::from_bits(0x7ff8_0000_0000_0000);

/// Which coordinates a geometry has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dimensions {
    /// x and y.
    Xy,
    /// With z.
    Xyz,
    /// With m.
    Xym,
    /// With z and m.
    Xyzm,
}

impl Dimensions {
    /// How many numbers a coordinate has.
    pub const fn width(self) -> usize {
        match self {
            Self::Xy => 2,
            Self::Xyz | Self::Xym => 3,
            Self::Xyzm => 4,
        }
    }

    /// What ISO adds to the code of a type.
    pub const fn iso_offset(self) -> u32 {
        match self {
            Self::Xy => 0,
            Self::Xyz => 1000,
            Self::Xym => 2000,
            Self::Xyzm => 3000,
        }
    }
}

/// `XY`, `XYZ`, `XYM`, `XYZM`.
impl fmt::Display for Dimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xy => "XY",
            Self::Xyz => "XYZ",
            Self::Xym => "XYM",
            Self::Xyzm => "XYZM",
        })
    }
}

/// The seven types of the simple features, by their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GeometryType {
    /// One position.
    Point = 1,
    /// Positions joined by straight lines.
    LineString = 2,
    /// A ring, and rings that are holes in it.
    Polygon = 3,
    /// Points.
    MultiPoint = 4,
    /// Lines.
    MultiLineString = 5,
    /// Polygons.
    MultiPolygon = 6,
    /// Anything.
    GeometryCollection = 7,
}

impl GeometryType {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Point,
        Self::LineString,
        Self::Polygon,
        Self::MultiPoint,
        Self::MultiLineString,
        Self::MultiPolygon,
        Self::GeometryCollection,
    ];

    /// The type of that code: 1 to 7.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|&known| known as u32 == code)
    }

    /// Its name, as `GeoJSON` and `GeoParquet` write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Point => "Point",
            Self::LineString => "LineString",
            Self::Polygon => "Polygon",
            Self::MultiPoint => "MultiPoint",
            Self::MultiLineString => "MultiLineString",
            Self::MultiPolygon => "MultiPolygon",
            Self::GeometryCollection => "GeometryCollection",
        }
    }

    /// What its members are, where it has members of one type.
    pub const fn member(self) -> Option<Self> {
        match self {
            Self::MultiPoint => Some(Self::Point),
            Self::MultiLineString => Some(Self::LineString),
            Self::MultiPolygon => Some(Self::Polygon),
            _ => None,
        }
    }
}

impl fmt::Display for GeometryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Writes geometries of one dimension. Coordinates are flat: `x y x y …`, or `x y z x y z …`.
///
/// A count that does not fit in 32 bits cannot be written; inputs are limited long before.
#[derive(Debug)]
pub struct WkbWriter<'a> {
    bytes: &'a mut Vec<u8>,
    dimensions: Dimensions,
}

impl<'a> WkbWriter<'a> {
    /// A writer to the end of `bytes`.
    pub fn new(bytes: &'a mut Vec<u8>, dimensions: Dimensions) -> Self {
        Self { bytes, dimensions }
    }

    /// A point; `None` is the empty one, whose coordinates are NaN.
    pub fn point(&mut self, coordinate: Option<&[f64]>) {
        self.header(GeometryType::Point);
        match coordinate {
            Some(coordinate) => self.numbers(coordinate),
            None => (0..self.dimensions.width()).for_each(|_| self.numbers(&[NAN])),
        }
    }

    /// A line.
    pub fn line_string(&mut self, coordinates: &[f64]) {
        self.header(GeometryType::LineString);
        self.sequence(coordinates);
    }

    /// A polygon of so many rings, each of which has to follow as [`ring`](Self::ring).
    pub fn polygon(&mut self, rings: usize) {
        self.header(GeometryType::Polygon);
        self.count(rings);
    }

    /// A ring of the polygon that was begun last.
    pub fn ring(&mut self, coordinates: &[f64]) {
        self.sequence(coordinates);
    }

    /// A geometry of so many members, each of which has to follow as a geometry of its own.
    pub fn multi(&mut self, geometry_type: GeometryType, members: usize) {
        self.header(geometry_type);
        self.count(members);
    }

    fn header(&mut self, geometry_type: GeometryType) {
        self.bytes.push(1);
        let code = geometry_type as u32 + self.dimensions.iso_offset();
        self.bytes.extend_from_slice(&code.to_le_bytes());
    }

    fn sequence(&mut self, coordinates: &[f64]) {
        self.count(coordinates.len() / self.dimensions.width());
        self.numbers(coordinates);
    }

    fn count(&mut self, count: usize) {
        self.bytes.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[f64]) {
        for number in numbers {
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }
}
