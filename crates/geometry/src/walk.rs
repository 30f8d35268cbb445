//! Walking through geometries that [`normalise`](crate::normalise) has written: their sequences of coordinates, one after the
//! other, without recursion, for the order of the bytes is that of the members.

use std::ops::Range;

use crate::{Dimensions, GeometryType, Problem};

/// A step of the walk.
pub(crate) enum Step {
    /// A geometry begins. The coordinates of a point, line or polygon follow before the next one begins.
    Geometry(GeometryType, Dimensions),
    /// The coordinates of a point, a line, or a ring: where they are in the bytes, and how many numbers each has.
    Coordinates(Range<usize>, usize),
}

/// The walk. It does not hold the bytes, so that they can be changed on the way.
pub(crate) struct Walk {
    at: usize,
    /// Geometries that are still to come, as far as is known.
    geometries: u64,
    /// Sequences of the geometry that was begun last.
    sequences: u32,
    /// Whether those have a count, as all but points do.
    counted: bool,
    width: usize,
}

impl Walk {
    pub(crate) const fn new() -> Self {
        Self { at: 0, geometries: 1, sequences: 0, counted: false, width: 2 }
    }

    /// The next step through `wkb`; `None` behind the last.
    pub(crate) fn step(&mut self, wkb: &[u8]) -> Result<Option<Step>, Problem> {
        if let Some(coordinates) = self.coordinates(wkb)? {
            return Ok(Some(coordinates));
        }
        if self.geometries == 0 {
            return if self.at == wkb.len() { Ok(None) } else { Err(not_normalised()) };
        }
        self.geometries -= 1;
        self.header(wkb).map(Some)
    }

    /// The next coordinates of the geometry that was begun last; `None` behind its last.
    pub(crate) fn coordinates(&mut self, wkb: &[u8]) -> Result<Option<Step>, Problem> {
        if self.sequences == 0 {
            return Ok(None);
        }
        self.sequences -= 1;
        let count = if self.counted { self.u32(wkb)? } else { 1 };
        let from = self.at;
        let length = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(self.width * 8);
        self.at = from.checked_add(length).filter(|&to| to <= wkb.len()).ok_or_else(not_normalised)?;
        Ok(Some(Step::Coordinates(from..self.at, self.width)))
    }

    fn header(&mut self, wkb: &[u8]) -> Result<Step, Problem> {
        let [order] = self.take(wkb)?;
        let code = self.u32(wkb)?;
        let geometry_type = GeometryType::from_code(code % 1000).filter(|_| order == 1).ok_or_else(not_normalised)?;
        let dimensions = [Dimensions::Xy, Dimensions::Xyz, Dimensions::Xym, Dimensions::Xyzm]
            .into_iter()
            .find(|dimensions| dimensions.iso_offset() == code - code % 1000)
            .ok_or_else(not_normalised)?;
        self.width = dimensions.width();
        match geometry_type {
            GeometryType::Point => (self.sequences, self.counted) = (1, false),
            GeometryType::LineString => (self.sequences, self.counted) = (1, true),
            GeometryType::Polygon => (self.sequences, self.counted) = (self.u32(wkb)?, true),
            _ => self.geometries += u64::from(self.u32(wkb)?),
        }
        Ok(Step::Geometry(geometry_type, dimensions))
    }

    fn u32(&mut self, wkb: &[u8]) -> Result<u32, Problem> {
        self.take(wkb).map(u32::from_le_bytes)
    }

    fn take<const N: usize>(&mut self, wkb: &[u8]) -> Result<[u8; N], Problem> {
        let bytes = wkb.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or_else(not_normalised)?;
        self.at += N;
        Ok(*bytes)
    }
}

/// The x and y of the coordinates of that width that are there.
pub(crate) fn positions(wkb: &[u8], range: Range<usize>, width: usize) -> impl Iterator<Item = [f64; 2]> + Clone {
    let (numbers, _) = wkb.get(range).unwrap_or_default().as_chunks::<8>();
    numbers.chunks_exact(width).map(|coordinate| match coordinate {
        [x, y, ..] => [f64::from_le_bytes(*x), f64::from_le_bytes(*y)],
        _ => [f64::NAN; 2],
    })
}

fn not_normalised() -> Problem {
    Problem::Unreadable("it is no little-endian ISO well-known binary".to_owned())
}
