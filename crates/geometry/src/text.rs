//! Geometries written as text: WKT (OGC 06-103r4, clause 7), its EWKT prefix, and WKB in hexadecimal digits.
//!
//! The `wkt` crate is not used here: as of 0.14 it calls itself for each collection in a collection, however many there are,
//! so that a short text ends the process, and it holds a geometry three times while it reads.

use crate::error::excerpt;
use crate::normalise;
use crate::output::{OpenCount, Output, Stop};
use crate::{Dimensions, GeometryType, Limits, Normalised, Problem};

/// Appends the geometry in `text` to `out` as little-endian ISO well-known binary. Text that begins with a digit is WKB in
/// hexadecimal digits (it begins with `00` or `01`), any other is WKT.
///
/// Of WKT everything is read that ISO, PostGIS and GEOS write: in any case, with the dimensions as a word (`POINT Z (1 2 3)`),
/// at the end of the type (`POINTZ (1 2 3)`) or left to the numbers (`POINT (1 2 3)`, where three are x, y, z); with or without
/// parentheses around the points of a `MULTIPOINT`; `EMPTY` for any part; behind `SRID=4326;`. All coordinates have the same
/// dimensions.
///
/// # Errors
///
/// See [`Problem`]; `out` is then as it was.
pub fn from_text(text: &str, limits: &Limits, out: &mut Vec<u8>) -> Result<Normalised, Problem> {
    let text = text.trim_ascii();
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        return normalise(&from_hexadecimal(text)?, limits, out);
    }
    let (srid, wkt) = spatial_reference(text)?;
    match write(wkt, None, limits, out) {
        Err(Stop::Dimensions(found)) => write(wkt, Some(found), limits, out),
        other => other,
    }
    .map_err(|stop| match stop {
        Stop::Problem(problem) => problem,
        Stop::Dimensions(dimensions) => Problem::Unreadable(format!("it has coordinates other than {dimensions}")),
    })?;
    Ok(Normalised { srid })
}

fn from_hexadecimal(text: &str) -> Result<Vec<u8>, Problem> {
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return Err(Problem::Unreadable(format!("{} hexadecimal digits are not a number of bytes", text.len())));
    }
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    pairs
        .iter()
        .map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?))
        .collect::<Option<_>>()
        .ok_or_else(|| Problem::Unreadable(format!("{} is neither WKT nor hexadecimal digits", excerpt(text))))
}

/// The SRID of EWKT, and the rest.
fn spatial_reference(text: &str) -> Result<(Option<u32>, &str), Problem> {
    let Some((name, rest)) = text.split_at_checked(5).filter(|(name, _)| name.eq_ignore_ascii_case("SRID=")) else {
        return Ok((None, text));
    };
    let parsed = rest.split_once(';').and_then(|(srid, wkt)| Some((srid.trim_ascii().parse().ok()?, wkt)));
    let Some((srid, wkt)) = parsed else {
        return Err(Problem::Unreadable(format!("{name} is followed by {}, not by a number and ;", excerpt(rest))));
    };
    Ok((Some(srid), wkt))
}

fn write(wkt: &str, known: Option<Dimensions>, limits: &Limits, out: &mut Vec<u8>) -> Result<(), Stop> {
    Output::append(out, limits, |output| {
        let mut writer = Writer {
            words: Words { whole: wkt, rest: wkt },
            output,
            dimensions: known.unwrap_or(Dimensions::Xy),
            known: known.is_some(),
        };
        writer.geometry(0)?;
        Ok(writer.words.end()?)
    })
}

struct Writer<'a, 'b> {
    words: Words<'a>,
    output: &'a mut Output<'b>,
    dimensions: Dimensions,
    /// Whether the dimensions have been read. Until then they are a guess.
    known: bool,
}

impl Writer<'_, '_> {
    /// Each call reads one geometry; the depth of the calls is that of the collections, which is limited.
    fn geometry(&mut self, collections: usize) -> Result<(), Stop> {
        let geometry_type = self.tagged_type()?;
        self.output.header(geometry_type, self.dimensions);
        match geometry_type {
            GeometryType::Point => self.point(),
            GeometryType::LineString => self.line(),
            GeometryType::Polygon => self.polygon(),
            GeometryType::MultiPoint => self.members(GeometryType::Point, Self::point_of_many),
            GeometryType::MultiLineString => self.members(GeometryType::LineString, Self::line),
            GeometryType::MultiPolygon => self.members(GeometryType::Polygon, Self::polygon),
            GeometryType::GeometryCollection => {
                self.output.allow_depth(collections + 1)?;
                self.list(|writer, _| writer.geometry(collections + 1)).map(drop)
            }
        }
    }

    /// `POINT`, `POINT Z`, `POINTZ`, and so on.
    fn tagged_type(&mut self) -> Result<GeometryType, Stop> {
        let word = self.words.word();
        let (geometry_type, end) = GeometryType::ALL
            .into_iter()
            .find_map(|known| {
                let (name, end) = word.split_at_checked(known.name().len())?;
                (name.eq_ignore_ascii_case(known.name()) && (end.is_empty() || dimensions(end).is_some()))
                    .then_some((known, end))
            })
            .ok_or_else(|| self.words.unexpected(word, "a geometry type"))?;
        let tag = if end.is_empty() { self.words.dimensions() } else { dimensions(end) };
        if let Some(found) = tag {
            self.settle(found)?;
        }
        Ok(geometry_type)
    }

    fn members(
        &mut self,
        geometry_type: GeometryType,
        mut member: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.list(|writer, _| {
            writer.output.header(geometry_type, writer.dimensions);
            member(writer)
        })
        .map(drop)
    }

    fn polygon(&mut self) -> Result<(), Stop> {
        self.list(|writer, number| {
            let ring = writer.coordinates()?;
            Ok(writer.output.check_ring(ring, number, writer.dimensions.width())?)
        })
        .map(drop)
    }

    fn line(&mut self) -> Result<(), Stop> {
        let line = self.coordinates()?;
        Ok(self.output.check_line(line)?)
    }

    fn coordinates(&mut self) -> Result<OpenCount, Stop> {
        self.list(|writer, _| writer.coordinate())
    }

    fn point(&mut self) -> Result<(), Stop> {
        if self.words.empty() {
            self.output.empty_coordinate(self.dimensions);
            return Ok(());
        }
        self.words.sign('(')?;
        self.coordinate()?;
        Ok(self.words.sign(')')?)
    }

    /// A point of a `MULTIPOINT`, which may go without its parentheses.
    fn point_of_many(&mut self) -> Result<(), Stop> {
        if self.words.begins_part() { self.point() } else { self.coordinate() }
    }

    /// Writes a count, and the parts of a list, which are counted from 1.
    fn list(&mut self, mut part: impl FnMut(&mut Self, usize) -> Result<(), Stop>) -> Result<OpenCount, Stop> {
        let count = self.output.open_count();
        if self.words.empty() {
            return Ok(count);
        }
        self.words.sign('(')?;
        let mut number = 1;
        part(self, number)?;
        while self.words.comma() {
            number += 1;
            part(self, number)?;
        }
        self.words.sign(')')?;
        self.output.close_count(count, number)?;
        Ok(count)
    }

    fn coordinate(&mut self) -> Result<(), Stop> {
        let mut numbers = [0.0; 4];
        let mut count = 0;
        for number in &mut numbers {
            let Some(found) = self.words.number()? else { break };
            *number = found;
            count += 1;
        }
        let numbers = numbers.get(..count).unwrap_or_default();
        if !self.known || count != self.dimensions.width() {
            self.settle(match count {
                2 => Dimensions::Xy,
                3 => Dimensions::Xyz,
                4 => Dimensions::Xyzm,
                _ => return Err(self.words.expected("2, 3 or 4 numbers").into()),
            })?;
        }
        Ok(self.output.coordinate(numbers)?)
    }

    /// What is read has the dimensions that are written, or all is written anew, or it has several.
    fn settle(&mut self, found: Dimensions) -> Result<(), Stop> {
        if found == self.dimensions {
            self.known = true;
            return Ok(());
        }
        if self.known {
            let cause = format!("it has {} coordinates, and behind them {found}", self.dimensions);
            return Err(self.words.problem(&cause).into());
        }
        Err(Stop::Dimensions(found))
    }
}

fn dimensions(tag: &str) -> Option<Dimensions> {
    [("Z", Dimensions::Xyz), ("M", Dimensions::Xym), ("ZM", Dimensions::Xyzm)]
        .into_iter()
        .find_map(|(name, dimensions)| tag.eq_ignore_ascii_case(name).then_some(dimensions))
}

/// The words, numbers and signs of a text.
struct Words<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// The next word; empty if there is none.
    fn word(&mut self) -> &'a str {
        let (word, rest) = self.peek();
        self.rest = rest;
        word
    }

    /// The next word and what is behind it.
    fn peek(&self) -> (&'a str, &'a str) {
        let rest = self.rest.trim_ascii_start();
        let end = rest.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(rest.len());
        rest.split_at_checked(end).unwrap_or(("", rest))
    }

    /// `Z`, `M` or `ZM`, if that is next.
    fn dimensions(&mut self) -> Option<Dimensions> {
        let (word, rest) = self.peek();
        let found = dimensions(word)?;
        self.rest = rest;
        Some(found)
    }

    /// Takes `EMPTY`, if that is next.
    fn empty(&mut self) -> bool {
        let (word, rest) = self.peek();
        let empty = word.eq_ignore_ascii_case("EMPTY");
        if empty {
            self.rest = rest;
        }
        empty
    }

    /// Whether `(` or `EMPTY` is next.
    fn begins_part(&self) -> bool {
        self.rest.trim_ascii_start().starts_with('(') || self.peek().0.eq_ignore_ascii_case("EMPTY")
    }

    fn comma(&mut self) -> bool {
        let comma = self.rest.trim_ascii_start().strip_prefix(',');
        self.rest = comma.unwrap_or(self.rest);
        comma.is_some()
    }

    fn sign(&mut self, sign: char) -> Result<(), Problem> {
        self.rest =
            self.rest.trim_ascii_start().strip_prefix(sign).ok_or_else(|| self.expected(&format!("{sign:?}")))?;
        Ok(())
    }

    /// The next number; none before a sign or the end.
    fn number(&mut self) -> Result<Option<f64>, Problem> {
        let rest = self.rest.trim_ascii_start();
        let ends = |next: char| next.is_ascii_whitespace() || matches!(next, '(' | ')' | ',');
        let (number, behind) = rest.split_at_checked(rest.find(ends).unwrap_or(rest.len())).unwrap_or((rest, ""));
        if number.is_empty() {
            return Ok(None);
        }
        let value = number.parse().map_err(|_| self.expected("a number"))?;
        self.rest = behind;
        Ok(Some(value))
    }

    fn end(&self) -> Result<(), Problem> {
        if self.rest.trim_ascii_start().is_empty() { Ok(()) } else { Err(self.expected("the end")) }
    }

    fn expected(&self, what: &str) -> Problem {
        self.unexpected("", what)
    }

    /// Not `what`, but the word that has just been taken and the rest.
    fn unexpected(&self, taken: &str, what: &str) -> Problem {
        let found = if taken.is_empty() { self.rest.trim_ascii_start() } else { taken };
        if found.is_empty() {
            return Problem::Unreadable(format!("it ends where {what} should be"));
        }
        let at = if taken.is_empty() { found.len() } else { self.rest.len() + taken.len() };
        self.problem_at(at, &format!("{} is where {what} should be", excerpt(found)))
    }

    fn problem(&self, cause: &str) -> Problem {
        self.problem_at(self.rest.len(), cause)
    }

    /// With so much of the text left.
    fn problem_at(&self, left: usize, cause: &str) -> Problem {
        let at = self.whole.len() - left + 1;
        Problem::Unreadable(format!("{cause} (at byte {at})"))
    }
}
