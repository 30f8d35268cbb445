//! From a system to longitude and latitude on WGS 84.

use serde::{Deserialize, Serialize};

use crate::systems::{self, Reach, Standing};
use crate::{Crs, Error, Operation};

/// What executes the operations: a table remembers it.
const LIBRARY: &str = "proj4rs 0.3.0";

/// Brings coordinates of one system to OGC:CRS84. A pure function of its input; threads can share it.
#[derive(Clone, Debug)]
pub struct LonLatTransform {
    /// As messages name the system.
    crs: String,
    way: Way,
    record: TransformRecord,
}

#[derive(Clone, Debug)]
enum Way {
    /// Coordinates are longitude and latitude on WGS 84 already.
    Same,
    Operation {
        operation: Box<Operation>,
        reach: Reach,
    },
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
    /// The accuracy in metres, as text: what the EPSG database states of the datum shift, plus the largest difference measured to PROJ.
    pub accuracy_m: String,
}

impl LonLatTransform {
    /// The transformation from `crs`.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when it is unknown, or cannot be done to five metres.
    pub fn from(crs: &Crs) -> Result<Self, Error> {
        if crs.is_lon_lat() {
            return Ok(Self::new(crs, Way::Same, "+proj=noop", "0"));
        }
        let unsupported = |cause: String| Error::Unsupported { crs: crs.to_string(), cause };
        if crs.is_unknown() {
            return Err(unsupported(
                "where its coordinates are cannot be known; state the system, such as --crs EPSG:27700".to_owned(),
            ));
        }
        let Some(id) = crs.id() else { return Err(unsupported(without_id(crs))) };
        let Some(system) = crs.system() else {
            let near = id.split_once(':').map(|(authority, code)| systems::near(authority, code)).unwrap_or_default();
            let advice = if near.is_empty() { String::new() } else { format!(" (is {} meant?)", near.join(" or ")) };
            return Err(unsupported(format!(
                "no such code is known{advice}; state the system, such as --crs EPSG:27700"
            )));
        };
        match &system.standing {
            Standing::Done { operation, accuracy_m, reach } => {
                let executed = Operation::new(operation)
                    .map_err(|cause| unsupported(format!("{operation} cannot be executed: {cause}")))?;
                let way = Way::Operation { operation: Box::new(executed), reach: *reach };
                Ok(Self::new(crs, way, operation, accuracy_m))
            }
            Standing::Refused(why) => Err(unsupported(format!(
                "it cannot be brought to WGS 84 within 5 m: {why}; reproject the file with a tool that can (ogr2ogr -t_srs EPSG:4326, with the grids of PROJ), or state another system if this one is wrong"
            ))),
            Standing::Deprecated("") => Err(unsupported(
                "it is deprecated, and no code replaces it; state the system of the coordinates".to_owned(),
            )),
            Standing::Deprecated(codes) => {
                Err(unsupported(format!("it is deprecated; {codes} replaces it: state that (--crs) if it is meant")))
            }
            Standing::Same(other) => Err(unsupported(format!("{other}, which has its points, is not known"))),
        }
    }

    fn new(crs: &Crs, way: Way, operation: &str, accuracy_m: &str) -> Self {
        let record = TransformRecord {
            from: crs.id().unwrap_or_default().to_owned(),
            library: LIBRARY.to_owned(),
            operation: operation.to_owned(),
            grid: None,
            accuracy_m: accuracy_m.to_owned(),
        };
        Self { crs: crs.to_string(), way, record }
    }

    /// Longitude in \[-180, 180\] and latitude, in degrees, of one coordinate: x before y, in the units of the system.
    ///
    /// # Errors
    ///
    /// [`Error::Outside`] if it is not finite, far outside the area of use of the system, or looks like degrees where the system has
    /// metres or the reverse.
    pub fn lon_lat(&self, [x, y]: [f64; 2]) -> Result<[f64; 2], Error> {
        let outside = |why| Error::Outside { crs: self.crs.clone(), x, y, why };
        if !(x.is_finite() && y.is_finite()) {
            return Err(outside("it is not finite"));
        }
        let degrees = x.abs() <= 180.0 && y.abs() <= 90.0;
        match &self.way {
            Way::Same if degrees => Ok([x, y]),
            Way::Same => Err(outside(NO_DEGREES)),
            Way::Operation { operation, .. } if operation.is_geographic() && !degrees => Err(outside(NO_DEGREES)),
            // The origin itself is a corner of map tiles, and the pole of polar systems.
            Way::Operation { operation, .. } if !operation.is_geographic() && degrees && (x != 0.0 || y != 0.0) => {
                Err(outside(DEGREES))
            }
            Way::Operation { operation, reach } => match operation.lon_lat([x, y]) {
                Some(place) if reach.holds(place) => Ok(place),
                Some(_) => Err(outside(
                    "it is far outside the area of use of the system; is it another system, or are x and y swapped?",
                )),
                None => Err(outside("the projection has no such place; is it another system, or are x and y swapped?")),
            },
        }
    }

    /// What a table has to remember.
    pub fn record(&self) -> &TransformRecord {
        &self.record
    }
}

const NO_DEGREES: &str = "longitudes end at 180 and latitudes at 90; are they metres, or are x and y swapped? State the system of the coordinates";
const DEGREES: &str =
    "it looks like degrees, and the system is projected; state OGC:CRS84 if they are longitude and latitude";

/// What to do with a text that has no id and is not exactly that of a code.
fn without_id(crs: &Crs) -> String {
    let same = crs.name().and_then(systems::of_name);
    let advice = match same {
        Some(system) => format!("by its name it may be {code}: state --crs {code} if it is", code = system.code),
        None => "state its code, such as --crs EPSG:27700".to_owned(),
    };
    format!("it has no code, and is not exactly the definition of a known one; {advice}")
}
