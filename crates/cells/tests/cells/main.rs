//! The cells against h3o's, the kernels against each other, and how often the fast way is not enough.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod identity;
mod kernels;
mod limits;
mod points;
mod rate;

use h3o::{LatLng, Resolution};
use hexfloe_cells::{Degrees, Encoder};
use points::Points;

/// h3o's answer: 0 where it refuses.
fn h3o_cell(lat: f64, lng: f64, resolution: Resolution) -> u64 {
    LatLng::new(lat, lng).map_or(0, |point| point.to_cell(resolution).into())
}

/// Fails with the first point whose cell is not h3o's.
fn assert_identical(points: &Points, resolution: Resolution) {
    let mut cells = vec![0; points.len()];
    Encoder::new(resolution).encode(points.degrees(), &mut cells).unwrap();
    for ((lat, lng), cell) in points.iter().zip(cells) {
        let wanted = h3o_cell(lat, lng, resolution);
        assert_eq!(cell, wanted, "{cell:x} is not {wanted:x} at latitude {lat:?}, longitude {lng:?}");
    }
}
