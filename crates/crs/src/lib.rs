//! Coordinate reference systems: which one a file means, and how its coordinates become longitude and latitude.

mod crs;
mod error;
mod transform;

pub use crs::Crs;
pub use error::Error;
pub use transform::{LonLatTransform, TransformRecord};
