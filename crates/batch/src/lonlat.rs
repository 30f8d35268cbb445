//! A point on the earth as a type. Longitude and latitude are both plain numbers, and for most of the inhabited world
//! both orders are valid coordinates: a swap is not an error, it is a plausible cell in another country. So there is one
//! constructor, and each of its arguments has to say which axis it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::RejectReason;

/// A longitude in degrees, not yet checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lon(pub f64);

/// A latitude in degrees, not yet checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lat(pub f64);

/// Which coordinate is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// East and west, -180 to 180 degrees.
    Longitude,
    /// North and south, -90 to 90 degrees.
    Latitude,
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Longitude => "longitude",
            Self::Latitude => "latitude",
        })
    }
}

/// A position in degrees on WGS 84: longitude within -180 ..= 180, latitude within -90 ..= 90, both finite.
///
/// ```
/// use hexfloe_batch::{Lat, Lon, LonLat};
///
/// let oslo = LonLat::from_degrees(Lon(10.75), Lat(59.91)).unwrap();
/// assert_eq!((oslo.lon(), oslo.lat()), (10.75, 59.91));
/// assert!(LonLat::from_degrees(Lon(0.0), Lat(91.0)).is_err());
/// ```
///
/// The axes cannot change places unnoticed:
///
/// ```compile_fail
/// # use hexfloe_batch::{Lat, Lon, LonLat};
/// LonLat::from_degrees(Lat(59.91), Lon(10.75));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LonLat {
    lon: f64,
    lat: f64,
}

/// Whether all are numbers between `-most` and `most`; without a branch for each.
pub(crate) fn all_within(degrees: &[f64], most: f64) -> bool {
    degrees.iter().fold(true, |all, value| all & (value.abs() <= most))
}

impl LonLat {
    /// Checks the two coordinates, the latitude first.
    ///
    /// # Errors
    ///
    /// The reason for which a row with these coordinates is to be rejected.
    pub fn from_degrees(Lon(lon): Lon, Lat(lat): Lat) -> Result<Self, RejectReason> {
        if !lat.is_finite() {
            return Err(RejectReason::NotFinite { axis: Axis::Latitude, value: lat.to_string() });
        }
        if !lon.is_finite() {
            return Err(RejectReason::NotFinite { axis: Axis::Longitude, value: lon.to_string() });
        }
        if !(-90.0..=90.0).contains(&lat) {
            return Err(RejectReason::LatitudeOutOfRange { value: lat });
        }
        if !(-180.0..=180.0).contains(&lon) {
            return Err(RejectReason::LongitudeOutOfRange { value: lon });
        }
        Ok(Self { lon, lat })
    }

    /// The longitude in degrees, -180 to 180.
    pub const fn lon(self) -> f64 {
        self.lon
    }

    /// The latitude in degrees, -90 to 90.
    pub const fn lat(self) -> f64 {
        self.lat
    }
}
