//! H3 cells of latitudes and longitudes in batches: bit for bit those of h3o, at 20 to 70 times its speed.
//!
//! A library finds the cell of a point by trigonometry: sines of the latitude and longitude, an arc cosine, an arc tangent and a tangent, and again
//! sines. That is a millionth of a second for each point. None of it is needed to know the *cell*: it is enough to know the point so well that
//! no border of a cell can lie between it and where the library would place it. So here a point is first placed in a fast way whose error is
//! bounded, and a test accepts the cell only if every border is farther than the error of both. Whatever is not accepted, one point in two
//! hundred, is placed again to the last digits and tested with a finer margin; whatever is still not accepted, not one point in a million, is left to h3o itself.
//! The answer is therefore always h3o's.
//!
//! ```
//! use h3o::{LatLng, Resolution};
//! use hexfloe_cells::{Degrees, Encoder};
//!
//! let (lat, lng) = ([59.91, -33.87, f64::NAN], [10.75, 151.21, 0.0]);
//! let mut cells = [0; 3];
//! let tally = Encoder::new(Resolution::Nine).encode(Degrees { lat: &lat, lng: &lng }, &mut cells)?;
//!
//! assert_eq!(cells[0], u64::from(LatLng::new(59.91, 10.75)?.to_cell(Resolution::Nine)));
//! assert_eq!(cells[1], 0x89be0e35cb3ffff);
//! assert_eq!((cells[2], tally.refused), (0, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a point is placed
//!
//! 1. Its unit vector comes from two short polynomials, of half the latitude and a quarter of the longitude, and doubled angles.
//! 2. Which of the twenty faces of H3's icosahedron it is on is guessed from a table of half degrees.
//! 3. Three products and a division project it on the face, in three coordinates a + b + c = 0 whose integers are the borders of
//!    triangles, six to a cell: their floors give the cell's (i, j) without a branch.
//! 4. Tables give four digits of the cell at a time, from i mod 49 and j mod 49, up to resolution 0.
//! 5. A table gives the base cell, and the turn from the face's axes to its own, pentagons included. It is learnt from h3o when the first
//!    encoder is made.
//!
//! All of it is plain loops over 128 points, which the compiler turns into vector instructions. There is a copy of them for each [`Kernel`],
//! chosen when the program runs; the cells do not depend on it.
//!
//! # When a cell is accepted
//!
//! If the point is more than a margin δ within the borders of its cell, more than 4 δ within those of its face (which shows that the guess
//! was right: the face is the closest), and, in the fast way, more than 0.001 radians from the centre of the face. Lengths are measured on the
//! plane of the face, in radians at its centre; 5e-13 is three thousandths of a millimetre.
//!
//! | | differs from h3o by at most | δ |
//! |---|---|---|
//! | fast way | 1e-14 + 5.6e-17/r | 5e-13 |
//! | fine way | 1.5e-15 + 5.6e-17/r | 1e-14 + 4e-16/r |
//!
//! where r is the angle from the centre of the face. h3o takes the arc cosine of a number close to 1 there, and what that number is rounded by,
//! 2^−54, is 2^−54/r of the angle. The bounds are measured, not derived: a test seeks, for points everywhere and at 1e-6 to 5e-3 radians
//! from the centres of faces, the two neighbouring latitudes between which h3o goes over to another cell, and looks how far from a border they are
//! placed here. Margins are seven times the bounds; tests show that cells differ when they are taken away.
//!
//! # Limits
//!
//! - *The same as h3o* means the version this crate is built with, as it runs on the same machine. Within the margins h3o's own answer depends
//!   on the rounding of the machine's mathematical library, and so does the answer here.
//! - h3o takes any finite number, and goes round the sphere: a longitude of 200° is one of −160°. So do cells here, but latitudes beyond ±90° and
//!   longitudes beyond ±180° are left to h3o, at its speed. What h3o refuses, infinities and what is no number, has the cell 0, which is none.
//! - Points on the borders of cells, such as their vertices, are left to h3o too. A column of nothing else has its speed.
//! - The first encoder of a process takes one or two milliseconds, for 300 KB of tables; any other, microseconds.
//! - A batch of a few points gains little. Hundreds or more at a time are what this is for.

mod arithmetic;
mod base;
mod digits;
mod face;
mod figures;
mod kernel;
mod plan;
mod vector;

#[cfg(test)]
#[path = "../tests/cells/points.rs"]
#[expect(dead_code, reason = "some sets are only for the tests from outside")]
mod points;
#[cfg(test)]
mod tests;

use std::fmt;

use h3o::{LatLng, Resolution};

pub use kernel::Kernel;
use kernel::{BLOCK, Scratch};
use plan::{Margin, Plan};

/// So few points are not worth a block.
const FEW: usize = 16;

/// Points, as two columns of the same length.
#[derive(Clone, Copy, Debug)]
pub struct Degrees<'a> {
    /// Latitudes in degrees, north positive.
    pub lat: &'a [f64],
    /// Longitudes in degrees, east positive.
    pub lng: &'a [f64],
}

/// Computes cells of one resolution.
pub struct Encoder {
    resolution: Resolution,
    kernel: Kernel,
    plan: Plan,
}

/// How the cells of a batch were found. Only speed depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Points that were tried in the fast way first, in vain.
    pub retried: usize,
    /// Points that were left to h3o.
    pub by_h3o: usize,
    /// Points of those that h3o refused: their cell is 0.
    pub refused: usize,
}

/// The columns of a batch are not of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthError {
    lat: usize,
    lng: usize,
    cells: usize,
}

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lat, lng, cells } = self;
        write!(f, "{lat} latitudes and {lng} longitudes do not make {cells} cells: give as many of each")
    }
}

impl std::error::Error for LengthError {}

impl Encoder {
    /// An encoder on the fastest kernel of this machine.
    #[must_use]
    pub fn new(resolution: Resolution) -> Self {
        Self::with_kernel(resolution, Kernel::fastest())
    }

    /// The same on a kernel of choice; on [`Kernel::Baseline`] if this machine does not have it.
    #[must_use]
    pub fn with_kernel(resolution: Resolution, kernel: Kernel) -> Self {
        Self { resolution, kernel, plan: Plan::new(resolution, Margin::SAFE) }
    }

    /// The resolution of the cells.
    #[must_use]
    pub const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// Writes, for each point, the cell that `LatLng::new(lat, lng)?.to_cell(resolution)` of h3o is, or 0 where that is an error.
    ///
    /// # Errors
    ///
    /// If there are not as many latitudes as longitudes as cells. Nothing is written then.
    pub fn encode(&self, points: Degrees<'_>, cells: &mut [u64]) -> Result<Tally, LengthError> {
        let Degrees { lat, lng } = points;
        if lat.len() != cells.len() || lng.len() != cells.len() {
            return Err(LengthError { lat: lat.len(), lng: lng.len(), cells: cells.len() });
        }
        let mut tally = Tally::default();
        let mut scratch = Scratch::new();
        let ((lats, rest_lat), (lngs, rest_lng)) = (lat.as_chunks::<BLOCK>(), lng.as_chunks::<BLOCK>());
        let (blocks, rest) = cells.as_chunks_mut::<BLOCK>();
        for ((lat, lng), cells) in lats.iter().zip(lngs).zip(blocks) {
            self.kernel.run(&self.plan, lat, lng, &mut scratch, cells);
            tally.retried += self.complete(lat, lng, cells, &mut tally);
        }
        if rest.len() < FEW {
            rest.fill(0);
            self.complete(rest_lat, rest_lng, rest, &mut tally);
        } else {
            let (mut lat, mut lng, mut cells) = ([0.0; BLOCK], [0.0; BLOCK], [0; BLOCK]);
            lat[..rest.len()].copy_from_slice(rest_lat);
            lng[..rest.len()].copy_from_slice(rest_lng);
            self.kernel.run(&self.plan, &lat, &lng, &mut scratch, &mut cells);
            rest.copy_from_slice(&cells[..rest.len()]);
            tally.retried += self.complete(rest_lat, rest_lng, rest, &mut tally);
        }
        Ok(tally)
    }

    /// Computes the cells that are 0, in the fine way or by h3o. How many they were.
    fn complete(&self, lat: &[f64], lng: &[f64], cells: &mut [u64], tally: &mut Tally) -> usize {
        let mut completed = 0;
        for ((cell, &lat), &lng) in cells.iter_mut().zip(lat).zip(lng) {
            if *cell == 0 {
                completed += 1;
                *cell = self.plan.fine(lat, lng).unwrap_or_else(|| self.by_h3o(lat, lng, tally));
            }
        }
        completed
    }

    #[cold]
    fn by_h3o(&self, lat: f64, lng: f64, tally: &mut Tally) -> u64 {
        tally.by_h3o += 1;
        match LatLng::new(lat, lng) {
            Ok(point) => point.to_cell(self.resolution).into(),
            Err(_) => {
                tally.refused += 1;
                0
            }
        }
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("resolution", &self.resolution)
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}
