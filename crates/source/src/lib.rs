//! Files to record batches, with the facts a batch id is made of.

mod csv;
mod declared;
mod error;
mod files;
mod geo;
mod infer;
mod names;
mod ndjson;
mod parallel;
mod row_groups;
mod scan;
#[cfg(feature = "sql")]
mod select;
mod settings;
mod source;
mod text;
mod types;

pub use error::{Error, ErrorKind};
pub use files::InputFile;
pub use geo::{GeometryColumn, GeometryCrs};
pub use scan::{Decoded, Piece, Scan, ScanOptions, SourceBatch};
pub use settings::{CsvSettings, Format, SourceSettings};
pub use source::Source;
