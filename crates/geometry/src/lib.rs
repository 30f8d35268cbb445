//! Geometries as ISO well-known binary: read, checked, written, and the point that stands for each.

mod error;
mod facts;
mod geojson;
mod normalise;
mod output;
mod representative;
mod text;
mod walk;
mod write;

pub use error::Problem;
pub use facts::{Facts, facts};
pub use geojson::from_geojson;
pub use normalise::{LonePoint, Normalised, Position, lone_point, normalise};
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
