//! Base cells: which of the 122 a cell belongs to, and how its digits are turned.
//!
//! Digits on a face count directions by the axes of that face. In a cell they count by those of the base cell's own face, and go round a gap
//! where the base cell is one of the twelve pentagons: a turn that depends on the face, on (i, j) at resolution 0, and, of a pentagon,
//! on the coarsest digit that is not 0. The table is not written down here: h3o is asked, once, for one point of each kind.

use h3o::{CellIndex, LatLng, Resolution};

use crate::digits::{Steps, Tables, Turn, bias};
use crate::face::Grid;
use crate::figures::CENTRES;

/// What is asked with: fine enough that every kind has a cell on every face.
const ASKED: Resolution = Resolution::Four;

const KNOWN: u16 = 1 << 15;
const HALF: u32 = 7;
const THIRD: u32 = 8;
const TWO_THIRDS: u32 = 9;

/// For a face, biased i and j, and a first digit: the base cell in the low seven bits, then the turn.
pub(crate) struct Bases(Box<[u16; 1 << 14]>);

impl Bases {
    /// Asks h3o, some 600 times.
    pub(crate) fn learn(tables: &Tables) -> Self {
        let grid = Grid::new(ASKED.into());
        let mut bases = Self(Box::new([0; 1 << 14]));
        // Those whose digits show the turn come first.
        let mut kinds = Kind::all(tables, ASKED.into());
        kinds.sort_by_key(|kind| kind.first == 0);
        for (face, _) in (0..).zip(&CENTRES) {
            for kind in &kinds {
                let slot = slot(face, kind.i, kind.j, kind.first);
                if known(bases.0[slot]) != 0 {
                    continue;
                }
                let Some((cell, sixths)) = kind.ask(&grid, face) else { continue };
                let base = cell.base_cell();
                let entry = KNOWN | u16::from(u8::from(base)) | turn_bits(sixths);
                if base.is_pentagon() {
                    bases.0[slot] = entry;
                } else {
                    // The same whatever the first digit.
                    let every_first = slot & !7;
                    bases.0[every_first..every_first + 8].fill(entry);
                }
            }
        }
        bases
    }

    /// Every (i, j, first digit) that the cells of a resolution, an even one, show on a face.
    #[cfg(test)]
    pub(crate) fn kinds(tables: &Tables, resolution: u8) -> std::collections::BTreeSet<(u32, u32, u32)> {
        Kind::all(tables, resolution).iter().map(|kind| (kind.i, kind.j, kind.first)).collect()
    }

    /// The entry of a face, biased i and j at resolution 0, and the coarsest digit that is not 0. 0 if h3o was not asked.
    #[inline(always)]
    pub(crate) fn entry(&self, face: u32, i: u32, j: u32, first: u32) -> u16 {
        self.0[slot(face, i, j, first)]
    }
}

fn turn_bits(sixths: u8) -> u16 {
    let Turn { half, third, two_thirds } = Turn::sixths(sixths);
    u16::from(half != 0) << HALF | u16::from(third != 0) << THIRD | u16::from(two_thirds != 0) << TWO_THIRDS
}

/// The base cell of an entry, where a cell has it.
#[inline(always)]
pub(crate) fn base_bits(entry: u16) -> u64 {
    u64::from(entry & 0x7f) << 45
}

/// The turn of an entry.
#[inline(always)]
pub(crate) fn turn(entry: u16) -> Turn {
    let all_ones_if = |bit: u32| 0u64.wrapping_sub(u64::from(entry) >> bit & 1);
    Turn { half: all_ones_if(HALF), third: all_ones_if(THIRD), two_thirds: all_ones_if(TWO_THIRDS) }
}

/// All ones if h3o told of this entry, else 0.
#[inline(always)]
pub(crate) fn known(entry: u16) -> u64 {
    0u64.wrapping_sub(u64::from(entry >> 15))
}

#[inline(always)]
const fn slot(face: u32, i: u32, j: u32, first: u32) -> usize {
    (face << 9 | (i & 7) << 6 | (j & 7) << 3 | first & 7) as usize & ((1 << 14) - 1)
}

/// What decides the base cell on a face, with a point for which it does.
#[derive(Debug)]
struct Kind {
    i: u32,
    j: u32,
    first: u32,
    a: f64,
    b: f64,
    digits: u64,
}

impl Kind {
    /// All that the cells of a resolution, an even one, show on a face.
    fn all(tables: &Tables, resolution: u8) -> Vec<Self> {
        let grid = Grid::new(resolution);
        let (steps, (bias_i, bias_j)) = (Steps::from(resolution), bias(resolution));
        let size = 2 * 7i32.pow(u32::from(resolution) / 2);
        let mut kinds = Vec::new();
        let mut seen = [false; 1 << 9];
        for i in -size..=size {
            for j in -size..=size {
                let (a, b) = (f64::from(2 * i - j), f64::from(2 * j - i));
                // Not the centre, which may be on the edge of the face, but a point nearer to that of the face.
                let distance = ((a * a + a * b + b * b) / 3.0).sqrt();
                let nearer = if distance > 0.3 { 1.0 - 0.3 / distance } else { 1.0 };
                let (a, b) = (a * nearer, b * nearer);
                if a.min(b).min(-a - b) < grid.edge(0.1) {
                    continue;
                }
                let climb = tables.climb(steps, bias_i.wrapping_add_signed(i), bias_j.wrapping_add_signed(j));
                if !std::mem::replace(&mut seen[slot(0, climb.i, climb.j, climb.first)], true) {
                    kinds.push(Self { i: climb.i, j: climb.j, first: climb.first, a, b, digits: climb.digits });
                }
            }
        }
        kinds
    }

    /// The cell that h3o gives to the point on a face, and the turn from the digits there to those of the cell.
    fn ask(&self, grid: &Grid, face: u32) -> Option<(CellIndex, u8)> {
        let [x, y, z] = grid.unproject(face, self.a, self.b);
        let cell = LatLng::from_radians(z.atan2(x.hypot(y)), y.atan2(x)).ok()?.to_cell(ASKED);
        let shift = 3 * (15 - u32::from(u8::from(ASKED)));
        let digits = u64::from(cell) << 19 >> 19 >> shift;
        let turn = (0..6).find(|&sixths| Turn::sixths(sixths).of(self.digits) == digits)?;
        Some((cell, turn))
    }
}
