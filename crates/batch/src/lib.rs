//! What a batch is: identity, derivations, row quality, geometry.

mod content;
mod derivation;
mod digest;
mod error;
mod fingerprint;
mod geometry;
mod identity;
mod json;
mod lonlat;
mod point;
mod quality;
mod record;
mod wkb;

pub use content::ContentHasher;
pub use derivation::{CellDerivation, CellType, GeometryRule, Resolution};
pub use digest::Sha256Hex;
pub use error::Error;
pub use fingerprint::fingerprint;
pub use geometry::{BoundingBox, geo_metadata, wkb_points};
pub use identity::{BatchId, FileFact, files_digest};
pub use lonlat::{Axis, Lat, Lon, LonLat};
pub use point::{PointColumns, Points, points};
pub use quality::{Reject, RejectReason};
pub use record::{DerivationMismatch, DerivationRecord, Difference};

/// The column that says which batch a row came with: text, never null.
pub const BATCH_ID_COLUMN: &str = "ingest_batch_id";
