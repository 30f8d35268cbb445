//! The digits of a cell: the way down to it from its base cell, one digit for each resolution.
//!
//! Seven cells of one resolution make, roughly, one of the next coarser, whose grid is turned: by +19.1° from an odd resolution
//! to the even one above it, by −19.1° from an even one to the odd one above. Two steps up are therefore no turn at all, but a division by 7,
//! and what two steps do to (i, j) depends on (i mod 7, j mod 7) only; what four steps do, on (i mod 49, j mod 49). Tables tell.
//!
//! A digit is 0 for the middle one of the seven, else three bits: one for each of the axes i, j, k that lead to it.

/// What is added to i and j at resolution 0, where they are −2 to 2. At finer ones it is what has this cell above it.
const BIAS: u32 = 3;

/// Every digit's lowest bit.
const ONES: u64 = 0o111_111_111_111_111;

/// What is added to i and j before their digits are sought: it makes them positive, and does not change the digits.
pub(crate) const fn bias(resolution: u8) -> (u32, u32) {
    let even = BIAS * 7u32.pow(resolution as u32 / 2);
    if resolution % 2 == 1 { (3 * even, 2 * even) } else { (even, even) }
}

/// The steps from a resolution up to resolution 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) one: bool,
    pub(crate) two: bool,
    pub(crate) fours: u8,
}

impl Steps {
    pub(crate) const fn from(resolution: u8) -> Self {
        Self { one: resolution & 1 == 1, two: resolution & 2 == 2, fours: resolution / 4 }
    }
}

/// A cell on its way up: (i, j) with their bias, and the digits so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Climb {
    pub(crate) i: u32,
    pub(crate) j: u32,
    pub(crate) digits: u64,
    /// The coarsest of the digits that is not 0; 0 if there is none.
    pub(crate) first: u32,
}

/// What steps do: the digits in the low 12 bits, then what i and j carry, then the coarsest digit that is not 0.
pub(crate) struct Tables {
    two: [u32; 64],
    four: [u32; 4096],
}

const CARRY_I: u32 = 12;
const CARRY_J: u32 = 13;
const FIRST: u32 = 14;

impl Tables {
    pub(crate) fn new() -> Self {
        let mut tables = Self { two: [0; 64], four: [0; 4096] };
        for i in 0..7 {
            for j in 0..7 {
                tables.two[index::<7>(i, j)] = entry::<2, 7>(i, j);
            }
        }
        for i in 0..49 {
            for j in 0..49 {
                tables.four[index::<49>(i, j)] = entry::<4, 49>(i, j);
            }
        }
        tables
    }

    /// All the steps of one cell.
    pub(crate) fn climb(&self, steps: Steps, i: u32, j: u32) -> Climb {
        let mut climb = Climb { i, j, digits: 0, first: 0 };
        let mut shift = 0;
        if steps.one {
            climb = one(climb);
            shift += 3;
        }
        if steps.two {
            climb = self.two(climb, shift);
            shift += 6;
        }
        for _ in 0..steps.fours {
            climb = self.four(climb, shift);
            shift += 12;
        }
        climb
    }

    /// Two steps from an even resolution.
    #[inline(always)]
    pub(crate) fn two(&self, climb: Climb, shift: u32) -> Climb {
        let (i, j) = (climb.i / 7, climb.j / 7);
        apply(climb, i, j, self.two[index::<7>(climb.i - 7 * i, climb.j - 7 * j)], shift)
    }

    /// Four steps from an even resolution.
    #[inline(always)]
    pub(crate) fn four(&self, climb: Climb, shift: u32) -> Climb {
        let (i, j) = (climb.i / 49, climb.j / 49);
        apply(climb, i, j, self.four[index::<49>(climb.i - 49 * i, climb.j - 49 * j)], shift)
    }
}

#[inline(always)]
const fn index<const MODULUS: u32>(i: u32, j: u32) -> usize {
    if MODULUS == 7 { (i << 3 | j) as usize & 63 } else { (i << 6 | j) as usize & 4095 }
}

#[inline(always)]
fn apply(climb: Climb, i: u32, j: u32, entry: u32, shift: u32) -> Climb {
    let first = entry >> FIRST;
    Climb {
        i: i + (entry >> CARRY_I & 1),
        j: j + (entry >> CARRY_J & 1),
        digits: climb.digits | u64::from(entry & 0o7777) << shift,
        first: if first == 0 { climb.first } else { first },
    }
}

/// One step, from an odd resolution.
#[inline(always)]
pub(crate) fn one(climb: Climb) -> Climb {
    let Climb { i, j, .. } = climb;
    let (up_i, up_j) = ((3 * i - j + 3) / 7, (i + 2 * j + 3) / 7);
    let digit = digit(i.wrapping_sub(2 * up_i + up_j), j.wrapping_sub(3 * up_j - up_i));
    Climb { i: up_i, j: up_j, digits: u64::from(digit), first: digit }
}

/// The digit of the cell at (i, j) from the middle, each −1, 0 or 1.
#[inline(always)]
const fn digit(i: u32, j: u32) -> u32 {
    let k = (i | j) >> 31;
    i.wrapping_mul(4).wrapping_add(j.wrapping_mul(2)).wrapping_add(7 * k)
}

/// Works out an entry of a table, step by step.
fn entry<const STEPS: u32, const MODULUS: u32>(i: u32, j: u32) -> u32 {
    // Far enough from 0 for no difference to be negative, and a multiple of the modulus.
    let far = 4 * MODULUS;
    let mut climb = Climb { i: i + far, j: j + far, digits: 0, first: 0 };
    for step in 0..STEPS {
        let Climb { i, j, digits, first } = climb;
        let (up_i, up_j, digit) = if step % 2 == 0 {
            let (up_i, up_j) = ((2 * i + j + 3) / 7, (3 * j - i + 3) / 7);
            (up_i, up_j, digit(i.wrapping_sub(3 * up_i - up_j), j.wrapping_sub(up_i + 2 * up_j)))
        } else {
            let up = one(climb);
            (up.i, up.j, up.first)
        };
        let first = if digit == 0 { first } else { digit };
        climb = Climb { i: up_i, j: up_j, digits: digits | u64::from(digit) << (3 * step), first };
    }
    let carry = |up: u32| up - far / MODULUS;
    #[expect(clippy::cast_possible_truncation, reason = "at most four digits of three bits")]
    let digits = climb.digits as u32;
    digits | carry(climb.i) << CARRY_I | carry(climb.j) << CARRY_J | climb.first << FIRST
}

/// A turn of all digits at once, counter-clockwise.
///
/// A sixth of a full turn leads from axis k to the sum of i and k, to i, and so on; so a third exchanges the three bits of a digit cyclically, and a half
/// turn exchanges each axis for the sum of the two others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// All ones for a half turn, else 0.
    pub(crate) half: u64,
    /// All ones for a third of a turn after it.
    pub(crate) third: u64,
    /// All ones for two thirds.
    pub(crate) two_thirds: u64,
}

impl Turn {
    /// So many sixths of a full turn: a half turn if they are odd, and thirds.
    pub(crate) const fn sixths(count: u8) -> Self {
        const fn all_ones_if(condition: bool) -> u64 {
            if condition { u64::MAX } else { 0 }
        }
        let half = count % 2;
        let thirds = (count + 3 * half) / 2 % 3;
        Self { half: all_ones_if(half == 1), third: all_ones_if(thirds == 1), two_thirds: all_ones_if(thirds == 2) }
    }

    /// The digits after the turn.
    #[inline(always)]
    pub(crate) const fn of(self, digits: u64) -> u64 {
        let right = ((digits >> 1) & (ONES * 3)) | (digits & ONES) << 2;
        let left = ((digits << 1) & (ONES * 6)) | ((digits >> 2) & ONES);
        let neither = !(self.third | self.two_thirds);
        let turned = digits & neither | right & self.third | left & self.two_thirds;
        let not_zero = ((turned | turned >> 1 | turned >> 2) & ONES) * 7;
        turned ^ (not_zero & self.half)
    }
}
