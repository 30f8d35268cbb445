//! The few operations that instruction sets do differently. Their results may differ in the last bits, which the margins absorb.

/// What a copy of the kernel calculates with.
pub(crate) trait Arithmetic {
    /// a · b + c, rounded once or twice.
    fn mul_add(a: f64, b: f64, c: f64) -> f64;

    /// The greatest integer not above x, for |x| below 2⁵⁰.
    fn floor(x: f64) -> f64;
}

/// What every machine has.
pub(crate) struct Plain;

impl Arithmetic for Plain {
    #[inline(always)]
    fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }

    // `f64::floor` is a call where SSE4.1 is not assumed.
    #[inline(always)]
    fn floor(x: f64) -> f64 {
        let nearest = (x + TO_INTEGER) - TO_INTEGER;
        nearest - if nearest > x { 1.0 } else { 0.0 }
    }
}

/// For machines with a fused multiplication and addition.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) struct Fused;

#[cfg(any(test, target_arch = "x86_64"))]
impl Arithmetic for Fused {
    #[inline(always)]
    fn mul_add(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }

    #[inline(always)]
    fn floor(x: f64) -> f64 {
        x.floor()
    }
}

/// Added to a number below 2⁵⁰, it leaves the nearest integer in the low bits of the sum.
pub(crate) const TO_INTEGER: f64 = 6_755_399_441_055_744.0;

/// The low 32 bits of the integer in x, where x is an integer + [`TO_INTEGER`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are wanted")]
pub(crate) fn low_bits(x: f64) -> u32 {
    x.to_bits() as u32
}

/// The larger of two numbers; if one is none, the second.
#[inline(always)]
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers; if one is none, the second.
#[inline(always)]
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}
