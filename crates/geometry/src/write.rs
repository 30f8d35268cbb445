//! Writing: little-endian ISO well-known binary, one geometry after another into one buffer.

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
            None => (0..self.dimensions.width()).for_each(|_| self.numbers(&[f64::NAN])),
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
