//! What every reader writes to: it counts, refuses what is beyond the limits, and checks coordinates and rings, so that one
//! geometry is accepted or refused alike in whichever format it comes.

use crate::write::NAN;
use crate::{Dimensions, GeometryType, Limits, Problem};

/// One geometry on its way into a buffer.
pub(crate) struct Output<'a> {
    bytes: &'a mut Vec<u8>,
    limits: &'a Limits,
    coordinates: usize,
}

/// Where a count has been left open until it is known.
#[derive(Clone, Copy)]
pub(crate) struct OpenCount(usize);

/// Why a text was not read to its end. The dimensions are in the first bytes that are written, and known when coordinates have
/// been read: a text is written with those that are likely, and once more if it has others.
pub(crate) enum Stop {
    Problem(Problem),
    /// Write it with these.
    Dimensions(Dimensions),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl<'a> Output<'a> {
    /// Appends what `write` writes to `bytes`; nothing if it fails.
    pub(crate) fn append<T, E>(
        bytes: &'a mut Vec<u8>,
        limits: &Limits,
        write: impl FnOnce(&mut Output<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = bytes.len();
        let result = write(&mut Output { bytes, limits, coordinates: 0 });
        if result.is_err() {
            bytes.truncate(before);
        }
        result
    }

    /// Refuses what lies within so many collections.
    pub(crate) fn allow_depth(&self, collections: usize) -> Result<(), Problem> {
        let most = self.limits.depth.min(Limits::DEEPEST);
        if collections > most {
            return Err(Problem::TooLarge(format!("collections are nested more than {most} deep")));
        }
        Ok(())
    }

    /// Begins a geometry.
    pub(crate) fn header(&mut self, geometry_type: GeometryType, dimensions: Dimensions) {
        self.bytes.push(1);
        self.count(geometry_type as u32 + dimensions.iso_offset());
    }

    /// Writes a count that is known.
    pub(crate) fn count(&mut self, count: u32) {
        self.bytes.extend_from_slice(&count.to_le_bytes());
    }

    /// Leaves room for a count that is not known yet.
    pub(crate) fn open_count(&mut self) -> OpenCount {
        let at = self.bytes.len();
        self.count(0);
        OpenCount(at)
    }

    /// Fills in the count.
    pub(crate) fn close_count(&mut self, OpenCount(at): OpenCount, count: usize) -> Result<(), Problem> {
        let count = u32::try_from(count)
            .map_err(|_| Problem::TooLarge(format!("{count} parts are more than well-known binary can count")))?;
        if let Some((room, _)) = self.bytes.get_mut(at..).and_then(|tail| tail.split_first_chunk_mut()) {
            *room = count.to_le_bytes();
        }
        Ok(())
    }

    /// The empty point: one whose coordinates are NaN.
    pub(crate) fn empty_coordinate(&mut self, dimensions: Dimensions) {
        (0..dimensions.width()).for_each(|_| self.number(NAN));
    }

    /// One coordinate of a text format: x, y, and what else it has.
    pub(crate) fn coordinate(&mut self, numbers: &[f64]) -> Result<(), Problem> {
        self.allow_coordinates(1)?;
        for (place, &number) in numbers.iter().enumerate() {
            check_number(place, number)?;
            self.number(number);
        }
        Ok(())
    }

    /// Coordinates of a binary format, as they are there.
    pub(crate) fn coordinates(&mut self, raw: &[u8], little_endian: bool, width: usize) -> Result<(), Problem> {
        let (numbers, _) = raw.as_chunks::<8>();
        self.allow_coordinates(numbers.len() / width)?;
        if little_endian && numbers.iter().all(|&number| f64::from_le_bytes(number).is_finite()) {
            self.bytes.extend_from_slice(raw);
            return Ok(());
        }
        for (place, &number) in numbers.iter().enumerate() {
            let number = if little_endian { f64::from_le_bytes(number) } else { f64::from_be_bytes(number) };
            check_number(place % width, number)?;
            self.number(number);
        }
        Ok(())
    }

    /// Checks the line whose count was opened at `line`.
    pub(crate) fn check_line(&self, OpenCount(line): OpenCount) -> Result<(), Problem> {
        let count = self.bytes.get(line..).and_then(|written| written.first_chunk());
        if count.is_some_and(|&count| u32::from_le_bytes(count) == 1) {
            // GEOS, and so most readers, would fail on the whole file for it.
            return Err(Problem::Unreadable("a line has 1 coordinate, where a line has 2 or more".to_owned()));
        }
        Ok(())
    }

    /// Checks the ring whose count was opened at `ring`, the `number`th of its polygon.
    pub(crate) fn check_ring(&self, OpenCount(ring): OpenCount, number: usize, width: usize) -> Result<(), Problem> {
        if !self.limits.closed_rings {
            return Ok(());
        }
        let written = self.bytes.get(ring..).unwrap_or_default();
        let (numbers, _) = written.get(4..).unwrap_or_default().as_chunks::<8>();
        check_ring(numbers, number, width)
    }

    fn allow_coordinates(&mut self, more: usize) -> Result<(), Problem> {
        self.coordinates = self.coordinates.saturating_add(more);
        let most = self.limits.coordinates;
        if self.coordinates > most {
            return Err(Problem::TooLarge(format!("it has more than {most} coordinates")));
        }
        Ok(())
    }

    /// There are many NaN, and one is as good as the other: one is written, so that equal geometries are equal bytes.
    fn number(&mut self, number: f64) {
        let number = if number.is_nan() { NAN } else { number };
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }
}

/// x and y are numbers. A height or a measure may be NaN, which is how GEOS writes one that is not known.
fn check_number(place: usize, number: f64) -> Result<(), Problem> {
    if number.is_finite() || (number.is_nan() && place >= 2) { Ok(()) } else { Err(Problem::NotFinite(number)) }
}

/// A ring ends where it began, seen from above, and has a length; the ring of an empty polygon has nothing.
pub(crate) fn check_ring(numbers: &[[u8; 8]], number: usize, width: usize) -> Result<(), Problem> {
    let mut coordinates = numbers.chunks_exact(width);
    let count = coordinates.len();
    let position = |coordinate: &[[u8; 8]]| coordinate.first_chunk().map(|&[x, y]| [x, y].map(f64::from_le_bytes));
    let Some(first) = coordinates.next() else { return Ok(()) };
    let last = coordinates.next_back().unwrap_or(first);
    if position(first) != position(last) {
        return Err(Problem::UnclosedRing { ring: number });
    }
    if count < 4 {
        return Err(Problem::Unreadable(format!("ring {number} has {count} coordinates, where a ring has 4 or more")));
    }
    Ok(())
}
