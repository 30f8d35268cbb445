//! Geometries of GeoJSON (RFC 7946, section 3.1). `serde_json` splits the object into its members and proves that they are
//! JSON; the arrays of `coordinates` are then read here, number by number: `serde_json` is off by the last bit in one of eight
//! longitudes that are written with all their digits, and a geometry is to be the one that was written.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::excerpt;
use crate::output::{OpenCount, Output, Stop};
use crate::{Dimensions, GeometryType, Limits, Problem};

/// Appends the `GeoJSON` geometry in `json` (an object with `type` and `coordinates` or `geometries`, in any order, foreign members
/// ignored) to `out` as little-endian ISO well-known binary. `false` for `null`, for which nothing is appended.
///
/// A geometry has z if each of its positions has a third number, and is two-dimensional otherwise: what is not there is
/// not made up. Numbers behind the third are ignored, as the RFC has it. An empty array of coordinates is an empty geometry.
///
/// # Errors
///
/// See [`Problem`]; `out` is then as it was.
pub fn from_geojson(json: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<bool, Problem> {
    if json.trim_ascii() == b"null" {
        return Ok(false);
    }
    let object = Object::read(json)?;
    match write(&object, Dimensions::Xyz, limits, out) {
        Err(Stop::Dimensions(flat)) => write(&object, flat, limits, out),
        other => other,
    }
    .map(|()| true)
    .map_err(|stop| match stop {
        Stop::Problem(problem) => problem,
        Stop::Dimensions(dimensions) => Problem::Unreadable(format!("it has coordinates other than {dimensions}")),
    })
}

fn write(object: &Object<'_>, dimensions: Dimensions, limits: &Limits, out: &mut Vec<u8>) -> Result<(), Stop> {
    Output::append(out, limits, |output| {
        let mut writer = Writer { output, dimensions, positions: 0 };
        writer.geometry(object, 0)?;
        // Nothing has no height.
        if writer.positions == 0 && dimensions == Dimensions::Xyz {
            return Err(Stop::Dimensions(Dimensions::Xy));
        }
        Ok(())
    })
}

/// A geometry object; `serde` ignores the members that are not listed, and refuses those that are there twice.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(rename = "type", borrow)]
    geometry_type: Cow<'a, str>,
    #[serde(borrow)]
    coordinates: Option<&'a RawValue>,
    #[serde(borrow)]
    geometries: Option<&'a RawValue>,
}

impl<'a> Object<'a> {
    fn read(json: &'a [u8]) -> Result<Self, Problem> {
        // `serde` would take an array of the members for the object.
        let beginning = json.trim_ascii_start();
        if beginning.first() != Some(&b'{') {
            let beginning = String::from_utf8_lossy(beginning.get(..100).unwrap_or(beginning));
            return Err(Problem::Unreadable(format!("{} is no geometry object", excerpt(&beginning))));
        }
        serde_json::from_slice(json).map_err(unreadable)
    }
}

struct Writer<'a, 'b> {
    output: &'a mut Output<'b>,
    dimensions: Dimensions,
    positions: usize,
}

impl Writer<'_, '_> {
    fn geometry(&mut self, object: &Object<'_>, collections: usize) -> Result<(), Stop> {
        let geometry_type =
            GeometryType::ALL.into_iter().find(|known| known.name() == object.geometry_type).ok_or_else(|| {
                Problem::Unreadable(format!("there is no geometry type {}", excerpt(&object.geometry_type)))
            })?;
        self.output.header(geometry_type, self.dimensions);
        if geometry_type == GeometryType::GeometryCollection {
            self.output.allow_depth(collections + 1)?;
            let members = member(object.geometries, geometry_type, "geometries")?;
            let members: Vec<&RawValue> = serde_json::from_str(members.get()).map_err(unreadable)?;
            let count = self.output.open_count();
            self.output.close_count(count, members.len())?;
            return members
                .into_iter()
                .try_for_each(|member| self.geometry(&Object::read(member.get().as_bytes())?, collections + 1));
        }
        let coordinates = member(object.coordinates, geometry_type, "coordinates")?;
        let mut arrays = Arrays { text: coordinates.get() };
        match geometry_type {
            GeometryType::Point => self.point(&mut arrays),
            GeometryType::LineString => self.line(&mut arrays),
            GeometryType::Polygon => self.polygon(&mut arrays),
            GeometryType::MultiPoint => self.members(&mut arrays, GeometryType::Point, Self::point),
            GeometryType::MultiLineString => self.members(&mut arrays, GeometryType::LineString, Self::line),
            _ => self.members(&mut arrays, GeometryType::Polygon, Self::polygon),
        }
    }

    fn members(
        &mut self,
        arrays: &mut Arrays<'_>,
        geometry_type: GeometryType,
        mut member: impl FnMut(&mut Self, &mut Arrays<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.array(arrays, |writer, arrays, _| {
            writer.output.header(geometry_type, writer.dimensions);
            member(writer, arrays)
        })
        .map(drop)
    }

    fn polygon(&mut self, arrays: &mut Arrays<'_>) -> Result<(), Stop> {
        self.array(arrays, |writer, arrays, number| {
            let ring = writer.sequence(arrays)?;
            Ok(writer.output.check_ring(ring, number, writer.dimensions.width())?)
        })
        .map(drop)
    }

    fn line(&mut self, arrays: &mut Arrays<'_>) -> Result<(), Stop> {
        let line = self.sequence(arrays)?;
        Ok(self.output.check_line(line)?)
    }

    fn sequence(&mut self, arrays: &mut Arrays<'_>) -> Result<OpenCount, Stop> {
        self.array(arrays, |writer, arrays, _| {
            if writer.position(arrays)? {
                return Ok(());
            }
            Err(Problem::Unreadable("a position is an empty array".to_owned()).into())
        })
    }

    fn point(&mut self, arrays: &mut Arrays<'_>) -> Result<(), Stop> {
        if !self.position(arrays)? {
            self.output.empty_coordinate(self.dimensions);
        }
        Ok(())
    }

    /// Writes a count, and the elements of an array, which are counted from 1.
    fn array(
        &mut self,
        arrays: &mut Arrays<'_>,
        mut element: impl FnMut(&mut Self, &mut Arrays<'_>, usize) -> Result<(), Stop>,
    ) -> Result<OpenCount, Stop> {
        let count = self.output.open_count();
        let mut number = 0;
        arrays.open()?;
        while arrays.another(number == 0) {
            number += 1;
            element(self, arrays, number)?;
        }
        self.output.close_count(count, number)?;
        Ok(count)
    }

    /// Writes a position; `false` if its array is empty.
    fn position(&mut self, arrays: &mut Arrays<'_>) -> Result<bool, Stop> {
        let mut numbers = [0.0; 3];
        let mut count = 0;
        arrays.open()?;
        while arrays.another(count == 0) {
            let number = arrays.number()?;
            if let Some(place) = numbers.get_mut(count) {
                *place = number;
            }
            count += 1;
        }
        match count {
            0 => return Ok(false),
            1 => return Err(Problem::Unreadable("a position has 1 number, where it has 2 or 3".to_owned()).into()),
            2 if self.dimensions == Dimensions::Xyz => return Err(Stop::Dimensions(Dimensions::Xy)),
            _ => {}
        }
        self.positions += 1;
        self.output.coordinate(numbers.get(..self.dimensions.width()).unwrap_or_default())?;
        Ok(true)
    }
}

fn member<'a>(value: Option<&'a RawValue>, of: GeometryType, name: &str) -> Result<&'a RawValue, Problem> {
    value.ok_or_else(|| Problem::Unreadable(format!("a {of} has no {name}")))
}

/// Nested arrays of numbers, in text that is known to be JSON: brackets match, and commas are where they belong.
struct Arrays<'a> {
    text: &'a str,
}

impl Arrays<'_> {
    fn open(&mut self) -> Result<(), Problem> {
        self.skip_space();
        self.text = self
            .text
            .strip_prefix('[')
            .ok_or_else(|| Problem::Unreadable(format!("{} is where an array should be", excerpt(self.text))))?;
        Ok(())
    }

    /// Whether there is another element; the closing bracket or the comma before the element is taken.
    fn another(&mut self, first: bool) -> bool {
        self.skip_space();
        if let Some(rest) = self.text.strip_prefix(']') {
            self.text = rest;
            return false;
        }
        if !first {
            self.text = self.text.strip_prefix(',').unwrap_or(self.text);
        }
        true
    }

    fn number(&mut self) -> Result<f64, Problem> {
        self.skip_space();
        let end = self.text.bytes().position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let (number, rest) = self.text.split_at_checked(end.unwrap_or(self.text.len())).unwrap_or((self.text, ""));
        let value = number
            .parse()
            .map_err(|_| Problem::Unreadable(format!("{} is where a number should be", excerpt(self.text))))?;
        self.text = rest;
        Ok(value)
    }

    fn skip_space(&mut self) {
        self.text = self.text.trim_start_matches([' ', '\t', '\n', '\r']);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` gives")]
fn unreadable(error: serde_json::Error) -> Problem {
    Problem::Unreadable(error.to_string())
}
