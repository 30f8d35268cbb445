//! Geometries as ISO well-known binary: read, checked, written, and the point that stands for each.
//!
//! A geometry comes as one of half a dozen spellings, and each of them has dialects: well-known binary with the thousands of ISO or
//! the flags of PostGIS, in two byte orders; the same behind the header of a GeoPackage; `GeoJSON`; well-known text; hexadecimal digits.
//! A table holds one: little-endian ISO well-known binary without an SRID. Everything here reads into that form or starts from it, so
//! that equal geometries are equal bytes, and whatever comes later looks at one spelling only.
//!
//! - **Reading**: [`normalise`], [`from_geopackage`], [`from_geojson`] and [`from_text`] append to a buffer, which is how Arrow wants its
//!   columns built, and leave it as it was when they fail. [`lone_point`] reads a point without writing it. [`WkbWriter`] is for readers
//!   of formats that hold coordinates as numbers.
//! - **Strictness**: a reader that guesses makes a wrong cell of a broken row, and nobody sees it. Curves and surfaces, mixed dimensions,
//!   bytes behind the end, coordinates that are no numbers and rings that do not close are each a [`Problem`] whose text says what was
//!   found. What the [`Limits`] rule out is not read, and no count is believed before the bytes are there.
//! - **Asking**: [`facts`] tells type, dimensions and box, [`representative_point`] the point that decides the cell, by a rule that does
//!   not change, and [`parts`] everything.
//! - **Changing**: [`map_coordinates`] is what a reprojection needs. [`repair`] closes rings, for those who ask for it.
//!
//! ```
//! use hexfloe_geometry::{GeometryType, Limits, facts, from_geojson, from_text, representative_point};
//!
//! let mut pond = Vec::new();
//! from_text("POLYGON ((0 0, 9 0, 9 9, 7 9, 7 2, 2 2, 2 9, 0 9, 0 0))", &Limits::default(), &mut pond)?;
//! assert_eq!(facts(&pond)?.geometry_type, GeometryType::Polygon);
//! assert_eq!(facts(&pond)?.bbox, Some([0.0, 0.0, 9.0, 9.0]));
//!
//! // Its centroid, (4.5, 3.7), lies between the arms of the U, on dry land.
//! assert_eq!(representative_point(&pond)?, Some([1.0, 5.5]));
//!
//! let mut open = Vec::new();
//! let ring = br#"{"type": "Polygon", "coordinates": [[[0, 0], [9, 0], [9, 9], [0, 9]]]}"#;
//! let problem = from_geojson(ring, &Limits::default(), &mut open).unwrap_err();
//! assert_eq!(format!("the geometry {problem}"), "the geometry has a ring that is not closed (ring 1)");
//! # Ok::<(), hexfloe_geometry::Problem>(())
//! ```
//!
//! # What it does not do
//!
//! It knows no Arrow and opens no file. It knows no coordinate reference system either: coordinates are numbers on a plane, x before y,
//! and an SRID is handed on. It does not ask whether a polygon is valid in the sense of the simple features: rings may cross themselves
//! and each other, as those of real data do, and each function says what it answers then.

mod error;
mod facts;
mod geojson;
mod geopackage;
mod normalise;
mod output;
mod parts;
mod repair;
mod representative;
mod text;
mod walk;
mod write;

pub use error::Problem;
pub use facts::{Facts, facts};
pub use geojson::from_geojson;
pub use geopackage::{GeoPackageBlob, from_geopackage};
pub use normalise::{LonePoint, Normalised, Position, lone_point, normalise};
pub use parts::{Part, Parts, parts};
pub use repair::{Repair, repair};
pub use representative::{map_coordinates, representative_point};
pub use text::from_text;
pub use write::{Dimensions, GeometryType, WkbWriter};

/// What is not read, however well it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Collections in collections; more than [`DEEPEST`](Self::DEEPEST) is taken for that.
    pub depth: usize,
    /// Coordinates (points, vertices) of one geometry.
    pub coordinates: usize,
    /// Whether a ring whose last point is not its first is a problem.
    pub closed_rings: bool,
}

impl Limits {
    /// Collections in collections that are read at most, whatever the limit: each costs a call on the stack.
    pub const DEEPEST: usize = 100;
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 32, coordinates: 50_000_000, closed_rings: true }
    }
}
