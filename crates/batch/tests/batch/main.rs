//! What the crate promises, stated from outside. Expected digests come from Python's `hashlib`, expected cells from the
//! C library (Python package `h3` 4.5.0).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cells;
mod content;
mod cover;
mod geometries;
mod geometry;
mod identity;
mod points;
mod record;

use arrow::array::Float64Array;
use hexfloe_batch::{CellDerivation, CellType, GeometryRule, Points, Resolution};

fn at(points: &[(f64, f64)]) -> Points {
    Points {
        lon: Float64Array::from_iter_values(points.iter().map(|point| point.0)),
        lat: Float64Array::from_iter_values(points.iter().map(|point| point.1)),
    }
}

fn resolution(number: u8) -> Resolution {
    number.try_into().unwrap()
}

fn derivation(at: u8, cell_type: CellType, parents: &[u8]) -> CellDerivation {
    let parents = parents.iter().map(|&parent| resolution(parent)).collect();
    CellDerivation::new("h3_cell".to_owned(), resolution(at), cell_type, parents, GeometryRule::Point).unwrap()
}
