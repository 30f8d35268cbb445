//! What a batch of spatial rows *is*: who it is, where its rows lie, which of them are usable, and how the columns that
//! were added to it were made.
//!
//! Landing a batch exactly once rests on one question, asked again on every attempt: *is this batch in the table
//! already?* It can only be answered if two runs over the same input agree about four things, and this crate is where
//! they agree.
//!
//! - **Identity.** A [`BatchId`] is a function of the input alone: of its offsets, its files ([`FileFact`]), its content
//!   ([`ContentHasher`]) or the slice it owns. No clock, host, process or attempt goes into it.
//! - **Position.** Inputs spell a point in a dozen ways; [`points`] turns them all into [`Points`], with longitude and
//!   latitude kept apart by type ([`LonLat`]), because swapped axes are not an error that anything downstream can see.
//! - **Quality.** A row without a usable point is a [`Reject`] with a [`RejectReason`]. It never becomes cell 0 and is
//!   never dropped in silence; what to do with it is the job's decision, not this crate's.
//! - **Derivation.** A [`CellDerivation`] adds the H3 cell, and parents of it for partitioning. Its
//!   [`DerivationRecord`] goes into the table and says how the cells were made, down to a [`fingerprint()`] of what the
//!   derivation does on this machine; another derivation is refused before anything is written.
//!
//! Geometries that are no points come in through [`geometries`], which gives them the one form that is stored, and
//! [`representative_points`] says which point stands for each; [`cover_cells`] lists the cells of all of it. For those who want a geometry column beside the cells there
//! are [`wkb_points`], [`BoundingBox`] and [`geo_metadata`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
//! use arrow::compute::filter_record_batch;
//! use hexfloe_batch::{
//!     BatchId, CellDerivation, CellType, DerivationRecord, GeometryRule, PointColumns, Resolution, points,
//! };
//!
//! // Three rows of input, the third of them spoilt.
//! let name: ArrayRef = Arc::new(StringArray::from(vec!["Oslo", "Rio", "nowhere"]));
//! let lat: ArrayRef = Arc::new(Float64Array::from(vec![59.9139, -22.9068, 91.0]));
//! let lon: ArrayRef = Arc::new(Float64Array::from(vec![10.7522, -43.1729, 0.0]));
//! let batch = RecordBatch::try_from_iter([("name", name), ("lat", lat), ("lon", lon)])?;
//!
//! // Who it is.
//! let id = BatchId::offsets("places", "0", 0, 3)?;
//! assert_eq!(id.to_string().len(), 32);
//!
//! // Where its rows are, and which of them are nowhere.
//! let columns = PointColumns::LatLon { lat: "lat".to_owned(), lon: "lon".to_owned() };
//! let (points, rejects) = points(&batch, &columns)?;
//! assert_eq!(rejects[0].to_string(), "row 2: the latitude 91 is outside -90 to 90 degrees");
//!
//! let accepted = points.accepted()?;
//! let batch = filter_record_batch(&batch, &accepted)?;
//! let points = points.filter(&accepted)?;
//!
//! // Their cells, and what the table has to remember of them.
//! let resolution = Resolution::try_from(9)?;
//! let cells =
//!     CellDerivation::new("h3_cell".to_owned(), resolution, CellType::Long, Vec::new(), GeometryRule::Point)?;
//! let columns = cells.derive(&points)?;
//! assert_eq!((columns.len(), columns[0].len()), (1, batch.num_rows()));
//!
//! let property = cells.record().to_json();
//! DerivationRecord::from_json(&property)?.compatible_with(&cells.record())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! It opens no file, knows no table and keeps no state: Arrow goes in, Arrow comes out, and the same input gives the
//! same output in every process and on every thread. It does not reproject: positions are longitude and latitude on
//! WGS 84, and a geometry that says otherwise is rejected.

mod area;
mod content;
mod cover;
mod derivation;
mod digest;
mod error;
mod fingerprint;
mod geometries;
mod geometry;
mod identity;
mod json;
mod lonlat;
mod native;
mod point;
mod quality;
mod record;

pub use content::ContentHasher;
pub use cover::{Containment, CoverProblem, cover_cells};
pub use derivation::{CellDerivation, CellType, GeometryRule, Resolution};
pub use digest::Sha256Hex;
pub use error::Error;
pub use fingerprint::fingerprint;
pub use geometries::{Geometries, GeometryEncoding, NativeEncoding, geometries, representative_points};
pub use geometry::{BoundingBox, geo_metadata, wkb_points};
pub use identity::{BatchId, FileFact, files_digest};
pub use lonlat::{Axis, Lat, Lon, LonLat};
pub use point::{PointColumns, Points, points};
pub use quality::{Reject, RejectReason};
pub use record::{DerivationMismatch, DerivationRecord, Difference};

/// The column that says which batch a row came with: text, never null.
pub const BATCH_ID_COLUMN: &str = "ingest_batch_id";
