//! Coordinate reference systems: which one a file means, and how its coordinates become longitude and latitude.
//!
//! A cell in the wrong street looks like any other cell. So whatever cannot be done to five metres is refused here, with the reason and
//! the way out, and whatever is done says how accurate it is.
//!
//! A [`Crs`] is what a file or a person states: a code, well-known text of any dialect, PROJJSON, or that it is unknown. It has an id when the
//! text has one and does not contradict it, or when the text is *exactly* the definition of a code in one of the usual dialects. Similar is
//! not enough: a datum that is named alike can lie a hundred metres off.
//!
//! A [`LonLatTransform`] brings its coordinates to OGC:CRS84. What it does for which code stands in a table that is made from the EPSG
//! database (`data/make.py`): the PROJ string, the accuracy (what the database states of the datum shift, plus what was measured between
//! `proj4rs`, which executes it here, and PROJ) and the area for which both hold. Codes that need a grid, or cannot be done for another
//! reason, stand there with the reason. Coordinates outside the area, and metres where degrees are expected or the reverse, are no place.
//!
//! ```
//! use hexfloe_crs::{Crs, LonLatTransform};
//!
//! let grid = LonLatTransform::from(&Crs::parse("EPSG:27700")?)?;
//! let [lon, lat] = grid.lon_lat([529_090.0, 179_645.0])?;
//! assert!((lon + 0.1425).abs() < 1e-3 && (lat - 51.5010).abs() < 1e-3);
//! assert!(grid.lon_lat([-0.1425, 51.5010]).is_err());
//! assert!(LonLatTransform::from(&Crs::parse("EPSG:4267")?).is_err());
//! # Ok::<(), hexfloe_crs::Error>(())
//! ```
//!
//! Coordinates are always x before y: longitude before latitude, easting before northing, as files have them, whatever the order of axes
//! in a definition. Heights are not looked at. There are no grids, no network, and no epochs: what moves with the continents is as accurate
//! as the database says.

mod crs;
mod error;
mod operation;
mod parameters;
mod spelling;
mod systems;
mod transform;
mod wkt;

pub use crs::Crs;
pub use error::Error;
pub use operation::Operation;
pub use systems::supported_codes;
pub use transform::{LonLatTransform, TransformRecord};
