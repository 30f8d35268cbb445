//! From degrees to a unit vector, without a branch.

use crate::arithmetic::Arithmetic;

/// Degrees to radians, by the same factor and the same rounding as [`f64::to_radians`], which h3o uses.
const RADIANS: f64 = std::f64::consts::PI / 180.0;

// Made by `data/polynomials.py`: odd and even powers of x, for x from 0 to π/4, of least absolute error.

/// Error at most 1.7e-15.
const SIN: [f64; 6] = [
    0.9999999999999722,
    -0.16666666666540522,
    0.008333333316964689,
    -0.00019841260736910574,
    2.755485667467646e-06,
    -2.4732083175471358e-08,
];

/// Error at most 9.9e-17.
const COS: [f64; 7] = [
    1.0,
    -0.4999999999999925,
    0.04166666666647244,
    -0.0013888888869987934,
    2.480157854146326e-05,
    -2.75552343028299e-07,
    2.0630476968937514e-09,
];

/// The point of the unit sphere at a latitude from −90 to 90 and a longitude from −180 to 180 degrees, to 1e-14.
///
/// Half a latitude and a quarter of a longitude are never beyond ±π/4, where two short polynomials do; doubling the angle once
/// and twice then needs no quadrants. Only the absolute error matters.
#[inline(always)]
pub(crate) fn fast<A: Arithmetic>(lat: f64, lng: f64) -> [f64; 3] {
    let (sin, cos) = sin_cos::<A>(lat * RADIANS * 0.5);
    let (sin_lat, cos_lat) = doubled::<A>(sin, cos);
    let (sin, cos) = sin_cos::<A>(lng * RADIANS * 0.25);
    let (sin, cos) = doubled::<A>(sin, cos);
    let (sin_lng, cos_lng) = doubled::<A>(sin, cos);
    [cos_lng * cos_lat, sin_lng * cos_lat, sin_lat]
}

/// The same to 3e-16, slowly.
pub(crate) fn fine(lat: f64, lng: f64) -> [f64; 3] {
    let (sin_lat, cos_lat) = lat.to_radians().sin_cos();
    let (sin_lng, cos_lng) = lng.to_radians().sin_cos();
    [cos_lng * cos_lat, sin_lng * cos_lat, sin_lat]
}

/// The product of two vectors.
#[inline(always)]
pub(crate) fn dot<A: Arithmetic>(v: [f64; 3], w: [f64; 3]) -> f64 {
    A::mul_add(v[0], w[0], A::mul_add(v[1], w[1], v[2] * w[2]))
}

#[inline(always)]
fn sin_cos<A: Arithmetic>(x: f64) -> (f64, f64) {
    let z = x * x;
    let mut sin = SIN[5];
    sin = A::mul_add(sin, z, SIN[4]);
    sin = A::mul_add(sin, z, SIN[3]);
    sin = A::mul_add(sin, z, SIN[2]);
    sin = A::mul_add(sin, z, SIN[1]);
    sin = A::mul_add(sin, z, SIN[0]);
    let mut cos = COS[6];
    cos = A::mul_add(cos, z, COS[5]);
    cos = A::mul_add(cos, z, COS[4]);
    cos = A::mul_add(cos, z, COS[3]);
    cos = A::mul_add(cos, z, COS[2]);
    cos = A::mul_add(cos, z, COS[1]);
    cos = A::mul_add(cos, z, COS[0]);
    (sin * x, cos)
}

/// Sine and cosine of twice the angle.
#[inline(always)]
fn doubled<A: Arithmetic>(sin: f64, cos: f64) -> (f64, f64) {
    let twice = cos + cos;
    (sin * twice, A::mul_add(cos, twice, -1.0))
}
