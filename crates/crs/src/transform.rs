//! From a system to longitude and latitude on WGS 84.

use serde::{Deserialize, Serialize};

use crate::{Crs, Error};

/// Brings coordinates of one system to OGC:CRS84.
#[derive(Debug)]
pub struct LonLatTransform {
    record: TransformRecord,
}

/// What a table remembers of a transformation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransformRecord {
    /// The system that the coordinates were in.
    pub from: String,
    /// The library, `proj4rs`, and its version.
    pub library: String,
    /// The operation, as a PROJ string.
    pub operation: String,
    /// The grid file that it uses; none does so far.
    pub grid: Option<String>,
    /// The accuracy in metres, as text.
    pub accuracy_m: String,
}

impl LonLatTransform {
    /// The transformation from `crs`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when it is unknown, or cannot be done to five metres.
    pub fn from(crs: &Crs) -> Result<Self, Error> {
        Err(Error::Unsupported { crs: crs.to_string(), cause: "not yet".to_owned() })
    }

    /// Longitude and latitude in degrees of one coordinate.
    ///
    /// # Errors
    ///
    /// [`Error::Outside`].
    pub fn lon_lat(&self, [x, y]: [f64; 2]) -> Result<[f64; 2], Error> {
        Err(Error::Outside { crs: self.record.from.clone(), x, y })
    }

    /// What a table has to remember.
    pub fn record(&self) -> &TransformRecord {
        &self.record
    }
}
