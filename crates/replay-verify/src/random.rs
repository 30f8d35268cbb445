//! Randomness from a seed: small, fast, the same on every machine and in every version. Each actor draws from a stream of its
//! own, so that what one draws does not depend on when the others run.

use uuid::Uuid;

/// A stream of pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The stream of a name, among those that a seed has.
    pub fn named(seed: u64, name: &str) -> Self {
        // FNV-1a, the same on every machine.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(seed ^ hash)
    }

    /// A stream of its own, that this one's next bits name.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 when there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        // The bias is below 2⁻³² for the small numbers that are drawn here.
        if end == 0 { 0 } else { self.bits() % end }
    }

    /// An index into something of this length; 0 when it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// One of these, of which there is at least one.
    pub fn pick<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[self.index(N)]
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, in_a_thousand: u32) -> bool {
        self.below(1_000) < u64::from(in_a_thousand)
    }

    /// Milliseconds from `start` up to `end`, without it.
    pub fn between_ms(&mut self, start: i64, end: i64) -> i64 {
        start + i64::try_from(self.below(end.saturating_sub(start).unsigned_abs())).unwrap_or(0)
    }

    /// A number in `0.0..1.0`.
    pub fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.bits() >> 32).unwrap_or(0)) / f64::from(u32::MAX) * 0.999_999
    }

    /// An id that looks like a random one.
    pub fn uuid(&mut self) -> Uuid {
        let (high, low) = (self.bits(), self.bits());
        uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (random.bits(), random.below(10), random.uuid(), random.fork().bits())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn numbers_stay_within_their_ends() {
        let mut random = Random::new(0);
        for _ in 0..1_000 {
            assert!(random.below(3) < 3);
            assert!((5..9).contains(&random.between_ms(5, 9)));
            assert!((0.0..1.0).contains(&random.fraction()));
        }
        assert_eq!((random.below(0), random.index(0), random.between_ms(7, 7)), (0, 0, 7));
    }
}
