//! Row quality: why a row cannot be used. A bad row never becomes cell 0 and is never dropped in silence; it is a
//! [`Reject`] with a reason, and the job decides whether rejects refuse the whole batch or go to quarantine.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Axis;

/// Why a row cannot be used.
///
/// The text names the value that is wrong; [`code`](Self::code) is for counting and for machines, and is the `code` of
/// the serialized form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "kebab-case")]
pub enum RejectReason {
    /// There is no latitude.
    NullLatitude,
    /// There is no longitude.
    NullLongitude,
    /// A coordinate is NaN or infinite.
    NotFinite {
        /// Which one.
        axis: Axis,
        /// As text (`NaN`, `inf`, `-inf`), because JSON has no number for it.
        value: String,
    },
    /// The latitude is not within -90 ..= 90.
    LatitudeOutOfRange {
        /// In degrees, as found.
        value: f64,
    },
    /// The longitude is not within -180 ..= 180.
    LongitudeOutOfRange {
        /// In degrees, as found.
        value: f64,
    },
    /// There is no geometry.
    NullGeometry,
    /// The geometry is `POINT EMPTY`.
    EmptyGeometry,
    /// The geometry is not a point.
    NotAPoint {
        /// What it is, as the specification of well-known binary names it.
        found: String,
    },
    /// The geometry is not what its format says.
    UnreadableGeometry {
        /// What is wrong with it.
        cause: String,
    },
    /// A coordinate of the geometry is NaN or infinite.
    NotFiniteCoordinate {
        /// As text (`NaN`, `inf`, `-inf`), because JSON has no number for it.
        value: String,
    },
    /// A ring of the geometry does not end where it began.
    UnclosedRing {
        /// Which one, counted from 1 within its polygon.
        ring: usize,
    },
    /// The geometry is larger than the limits allow.
    TooLarge {
        /// What it exceeds.
        limit: String,
    },
    /// The geometry says that its coordinates are in another reference system than its column's.
    ForeignReference {
        /// The number of that system.
        srid: u32,
        /// The number of the column's system; 4326 is longitude and latitude on WGS 84.
        #[serde(default = "wgs_84")]
        expected: u32,
    },
    /// A value cannot be read as its column's type.
    Unparsable {
        /// The column.
        column: String,
        /// The value as found.
        value: String,
        /// What was wanted.
        wanted: String,
    },
    /// A required column is null.
    MissingRequired {
        /// The column.
        column: String,
    },
    /// The row is not of the slice that its batch owns.
    OutsideSlice {
        /// The column.
        column: String,
        /// The value as found.
        value: String,
        /// The slice's value.
        slice: String,
    },
}

impl RejectReason {
    /// A short name for the kind of reason, the same in every release.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NullLatitude => "null-latitude",
            Self::NullLongitude => "null-longitude",
            Self::NotFinite { .. } => "not-finite",
            Self::LatitudeOutOfRange { .. } => "latitude-out-of-range",
            Self::LongitudeOutOfRange { .. } => "longitude-out-of-range",
            Self::NullGeometry => "null-geometry",
            Self::EmptyGeometry => "empty-geometry",
            Self::NotAPoint { .. } => "not-a-point",
            Self::UnreadableGeometry { .. } => "unreadable-geometry",
            Self::NotFiniteCoordinate { .. } => "not-finite-coordinate",
            Self::UnclosedRing { .. } => "unclosed-ring",
            Self::TooLarge { .. } => "too-large",
            Self::ForeignReference { .. } => "foreign-reference",
            Self::Unparsable { .. } => "unparsable",
            Self::MissingRequired { .. } => "missing-required",
            Self::OutsideSlice { .. } => "outside-slice",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NullLatitude => f.write_str("the latitude is null"),
            Self::NullLongitude => f.write_str("the longitude is null"),
            Self::NotFinite { axis, value } => write!(f, "the {axis} is {value}, not a finite number"),
            Self::LatitudeOutOfRange { value } => write!(f, "the latitude {value} is outside -90 to 90 degrees"),
            Self::LongitudeOutOfRange { value } => write!(f, "the longitude {value} is outside -180 to 180 degrees"),
            Self::NullGeometry => f.write_str("the geometry is null"),
            Self::EmptyGeometry => f.write_str("the geometry is an empty point"),
            Self::NotAPoint { found } => write!(f, "the geometry is a {found}, not a point"),
            Self::UnreadableGeometry { cause } => write!(f, "the geometry cannot be read: {cause}"),
            Self::NotFiniteCoordinate { value } => {
                write!(f, "the geometry has a coordinate that is {value}, not a finite number")
            }
            Self::UnclosedRing { ring } => write!(f, "the geometry has a ring that is not closed (ring {ring})"),
            Self::TooLarge { limit } => write!(f, "the geometry is beyond the limits: {limit}"),
            Self::ForeignReference { srid, expected: 4326 } => {
                write!(f, "the geometry has SRID {srid}, not 4326: reproject it to longitude and latitude on WGS 84")
            }
            Self::ForeignReference { srid, expected } => {
                write!(f, "the geometry has SRID {srid}, and its column {expected}: reproject it, or keep it apart")
            }
            // `{:?}` keeps the message on one line whatever the value holds.
            Self::Unparsable { column, value, wanted } => write!(f, "column {column}: {value:?} is no {wanted}"),
            Self::MissingRequired { column } => write!(f, "column {column} is required, and is null"),
            Self::OutsideSlice { column, value, slice } => {
                write!(f, "column {column}: {value:?} is outside of the slice {column} = {slice}")
            }
        }
    }
}

/// What was expected before there was anything else to expect.
const fn wgs_84() -> u32 {
    4326
}

/// A row that cannot be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reject {
    /// The index of the row within its batch, from 0.
    pub row: usize,
    /// Why.
    pub reason: RejectReason,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: {}", self.row, self.reason)
    }
}
