//! What is known of a resolution before its first point, and the fine way for points that the fast one leaves.

use std::sync::LazyLock;

use crate::arithmetic::{Plain, TO_INTEGER};
use crate::base::{Bases, base_bits, known, turn};
use crate::digits::{Steps, Tables, bias};
use crate::face::{Grid, Guess, Position, Rounded, closest, round};
use crate::vector;

/// The tables of all resolutions.
pub(crate) struct Shared {
    pub(crate) tables: Tables,
    pub(crate) bases: Bases,
    pub(crate) guess: Guess,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let tables = Tables::new();
    let bases = Bases::learn(&tables);
    Shared { tables, bases, guess: Guess::new() }
});

/// How far from a border a point must be for its cell to be certain, in radians at the centre of a face.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Margin {
    /// The fast way's.
    pub(crate) fast: f64,
    /// The fine way's: this, and
    pub(crate) fine: f64,
    /// this divided by the angle from the centre of the face.
    pub(crate) fine_near: f64,
}

impl Margin {
    pub(crate) const SAFE: Self = Self { fast: 5e-13, fine: 1e-14, fine_near: 4e-16 };

    /// The fine way's, at so many radians from the centre of a face: infinite on it.
    pub(crate) fn fine(self, angle: f64) -> f64 {
        self.fine + self.fine_near / angle
    }
}

/// The cosine of the angle from the centre of a face within which the fast way decides nothing: a thousandth of a radian.
const NEAR_CENTRE: f64 = 1.0 - 5e-7;

/// Everything that the points of one resolution share.
pub(crate) struct Plan {
    pub(crate) shared: &'static Shared,
    pub(crate) grid: Grid,
    pub(crate) steps: Steps,
    /// The biases of i and j, plus [`TO_INTEGER`].
    pub(crate) bias_i: f64,
    pub(crate) bias_j: f64,
    /// What [`Rounded::from_centre`] has to be below, and
    pub(crate) own: f64,
    /// [`Rounded::from_edge`] above, and
    pub(crate) edge: f64,
    /// the cosine below, for the fast way.
    pub(crate) near: f64,
    pub(crate) margin: Margin,
    /// The bits that all cells of the resolution have.
    pub(crate) header: u64,
    /// How many bits are below the digits.
    pub(crate) unused: u32,
}

impl Plan {
    pub(crate) fn new(resolution: h3o::Resolution, margin: Margin) -> Self {
        let resolution = u8::from(resolution);
        let grid = Grid::new(resolution);
        let (bias_i, bias_j) = bias(resolution);
        let unused = 3 * (15 - u32::from(resolution));
        let steps = margin.fast * grid.steps_per_radian();
        Self {
            shared: &SHARED,
            steps: Steps::from(resolution),
            bias_i: f64::from(bias_i) + TO_INTEGER,
            bias_j: f64::from(bias_j) + TO_INTEGER,
            own: 1.0 - steps,
            edge: grid.edge(4.0 * steps),
            near: NEAR_CENTRE,
            margin,
            header: 1 << 59 | u64::from(resolution) << 52 | ((1 << unused) - 1),
            unused,
            grid,
        }
    }

    /// The cell of one point in the fine way, if it is certain: by the library's sine and cosine, on the closest of all faces.
    pub(crate) fn fine(&self, lat: f64, lng: f64) -> Option<u64> {
        if !(lat.abs() <= 90.0 && lng.abs() <= 180.0) {
            return None;
        }
        let v = vector::fine(lat, lng);
        let face = closest(v);
        let position = self.grid.project::<Plain>(face, v);
        let rounded = self.round(position);
        let certain = self.clearance(rounded) > self.margin.fine(self.angle(position));
        let climb = self.shared.tables.climb(self.steps, rounded.i, rounded.j);
        let entry = self.shared.bases.entry(face, climb.i, climb.j, climb.first);
        let cell = self.header | base_bits(entry) | turn(entry).of(climb.digits) << self.unused;
        (certain && known(entry) != 0).then_some(cell)
    }

    fn round(&self, Position { a, b, .. }: Position) -> Rounded {
        if self.steps.one {
            round::<Plain, true>(a, b, self.bias_i, self.bias_j)
        } else {
            round::<Plain, false>(a, b, self.bias_i, self.bias_j)
        }
    }

    /// The angle from the centre of the face, in radians (more exactly its tangent, which differs far from it only).
    pub(crate) fn angle(&self, Position { a, b, .. }: Position) -> f64 {
        2.0 * ((a * a + a * b + b * b) / 3.0).sqrt() / self.grid.steps_per_radian()
    }

    /// How far a point is from another cell or face, in radians: the largest margin with which it is certain.
    fn clearance(&self, rounded: Rounded) -> f64 {
        let per_radian = self.grid.steps_per_radian();
        let own = (1.0 - rounded.from_centre) / per_radian;
        let from_edge = self.grid.within_edge(rounded.from_edge) / (4.0 * per_radian);
        own.min(from_edge)
    }

    /// How far a point is from the nearest border of its cell or its face, on either side, in radians.
    #[cfg(test)]
    pub(crate) fn distance_from_border(&self, face: u32, v: [f64; 3]) -> f64 {
        let rounded = self.round(self.grid.project::<Plain>(face, v));
        let steps = (1.0 - rounded.from_centre).abs().min(self.grid.within_edge(rounded.from_edge).abs());
        steps / self.grid.steps_per_radian()
    }
}
