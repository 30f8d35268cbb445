//! Any well-known binary to the one form that is stored. What is read is ISO 13249-3 (OGC 06-103r4, clause 8) and EWKB, the
//! dialect of PostGIS, whose flags in the type say what ISO says by adding thousands to it.

use crate::output::Output;
use crate::{Dimensions, GeometryType, Limits, Problem};

const EWKB_Z: u32 = 0x8000_0000;
const EWKB_M: u32 = 0x4000_0000;
const EWKB_SRID: u32 = 0x2000_0000;

/// What was found while normalising.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Normalised {
    /// The spatial reference identifier of EWKB.
    pub srid: Option<u32>,
}

/// Appends `wkb` (ISO or EWKB, in either byte order) to `out` as little-endian ISO well-known binary.
///
/// What is written is never longer than what was read. The members of a geometry have its dimensions, and those of a
/// `Multi…` its type. The empty point is the one whose numbers are all NaN. x and y are finite everywhere else; z and m may
/// be NaN, which is how GEOS writes an unknown one, and are not infinite.
///
/// # Errors
///
/// See [`Problem`]; `out` is then as it was.
pub fn normalise(wkb: &[u8], limits: &Limits, out: &mut Vec<u8>) -> Result<Normalised, Problem> {
    Output::append(out, limits, |output| {
        let mut input = Input::new(wkb);
        geometry(&mut input, output, None, 0)?;
        input.end("geometry")?;
        Ok(Normalised { srid: input.srid })
    })
}

/// The position of a geometry that is to be a point; for the many columns that hold nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LonePoint {
    /// The spatial reference identifier of EWKB.
    pub srid: Option<u32>,
    /// Where it is.
    pub position: Position,
}

/// Where a geometry that is to be a point is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Position {
    /// There: x and y, which need not be finite.
    At([f64; 2]),
    /// It is the empty point, all of whose numbers are NaN.
    Empty,
    /// It is no point, but one of these (`LineString`, `Triangle`).
    NotAPoint(&'static str),
}

/// Reads `wkb` (ISO or EWKB, in either byte order) if it is a point, without writing it anywhere.
///
/// # Errors
///
/// [`Problem::Unreadable`] if it is no well-known binary. Of a geometry that is no point, only the type is looked at.
pub fn lone_point(wkb: &[u8]) -> Result<LonePoint, Problem> {
    let mut input = Input::new(wkb);
    let little_endian = input.byte_order()?;
    let code = input.u32(little_endian)?;
    let (base, dimensions) = split(code)?;
    if base != GeometryType::Point as u32 {
        let found = type_name(base).ok_or_else(|| no_such_type(code))?;
        return Ok(LonePoint { srid: None, position: Position::NotAPoint(found) });
    }
    input.spatial_reference(code, little_endian)?;
    let raw = input.numbers(1, dimensions.width())?;
    input.end("point")?;
    let mut numbers = raw.as_chunks::<8>().0.iter().map(|&number| from_bytes(number, little_endian));
    let position = match (numbers.next(), numbers.next()) {
        (Some(x), Some(y)) if !(x.is_nan() && y.is_nan() && numbers.all(f64::is_nan)) => Position::At([x, y]),
        _ => Position::Empty,
    };
    Ok(LonePoint { srid: input.srid, position })
}

/// What a geometry asks of its members.
#[derive(Clone, Copy)]
struct Parent {
    geometry_type: GeometryType,
    dimensions: Dimensions,
}

/// Each call writes one geometry; the depth of the calls is that of the collections, which is limited, and one.
fn geometry(
    input: &mut Input<'_>,
    output: &mut Output<'_>,
    parent: Option<Parent>,
    collections: usize,
) -> Result<(), Problem> {
    let little_endian = input.byte_order()?;
    let code = input.u32(little_endian)?;
    let (base, dimensions) = split(code)?;
    let geometry_type = GeometryType::from_code(base).ok_or_else(|| no_such_type(code))?;
    input.spatial_reference(code, little_endian)?;
    if let Some(parent) = parent {
        check_member(parent, geometry_type, dimensions)?;
    }
    output.header(geometry_type, dimensions);
    let width = dimensions.width();
    match geometry_type {
        GeometryType::Point => {
            let raw = input.numbers(1, width)?;
            if raw.as_chunks::<8>().0.iter().all(|&number| from_bytes(number, little_endian).is_nan()) {
                output.empty_coordinate(dimensions);
                return Ok(());
            }
            output.coordinates(raw, little_endian, width)
        }
        GeometryType::LineString => {
            let count = input.count(little_endian, width * 8, "coordinates")?;
            let line = output.open_count();
            output.close_count(line, size(count))?;
            output.check_line(line)?;
            output.coordinates(input.numbers(count, width)?, little_endian, width)
        }
        GeometryType::Polygon => {
            let rings = input.count(little_endian, 4, "rings")?;
            output.count(rings);
            for number in (1..).take(size(rings)) {
                let count = input.count(little_endian, width * 8, "coordinates")?;
                let ring = output.open_count();
                output.close_count(ring, size(count))?;
                output.coordinates(input.numbers(count, width)?, little_endian, width)?;
                output.check_ring(ring, number, width)?;
            }
            Ok(())
        }
        _ => {
            let collections = collections + usize::from(geometry_type == GeometryType::GeometryCollection);
            output.allow_depth(collections)?;
            // The shortest member is a line or polygon of nothing: byte order, type, count.
            let members = input.count(little_endian, 9, "members")?;
            output.count(members);
            for _ in 0..members {
                geometry(input, output, Some(Parent { geometry_type, dimensions }), collections)?;
            }
            Ok(())
        }
    }
}

/// What a type's code says but for the SRID: the code within its thousand, and the dimensions.
fn split(code: u32) -> Result<(u32, Dimensions), Problem> {
    let iso = code & !(EWKB_Z | EWKB_M | EWKB_SRID);
    let (iso_z, iso_m) = match iso / 1000 {
        0 => (false, false),
        1 => (true, false),
        2 => (false, true),
        3 => (true, true),
        _ => return Err(no_such_type(code)),
    };
    let dimensions = match (iso_z || code & EWKB_Z != 0, iso_m || code & EWKB_M != 0) {
        (false, false) => Dimensions::Xy,
        (true, false) => Dimensions::Xyz,
        (false, true) => Dimensions::Xym,
        (true, true) => Dimensions::Xyzm,
    };
    Ok((iso % 1000, dimensions))
}

fn check_member(parent: Parent, geometry_type: GeometryType, dimensions: Dimensions) -> Result<(), Problem> {
    let of_its_type = parent.geometry_type.member().is_none_or(|member| member == geometry_type);
    if of_its_type && parent.dimensions == dimensions {
        return Ok(());
    }
    Err(Problem::Unreadable(format!(
        "a {} {} has a {} {} as member",
        parent.geometry_type, parent.dimensions, geometry_type, dimensions
    )))
}

fn no_such_type(code: u32) -> Problem {
    let name = split_name(code);
    Problem::Unreadable(match name {
        Some(name) => format!("type {code} is {name}, none of the seven that are read: turn it into lines or polygons"),
        None => format!("there is no geometry type {code}"),
    })
}

fn split_name(code: u32) -> Option<&'static str> {
    let iso = code & !(EWKB_Z | EWKB_M | EWKB_SRID);
    type_name(iso % 1000).filter(|_| iso < 4000)
}

/// The names of the types (OGC 06-103r4, table 7), those that are not read included.
fn type_name(base: u32) -> Option<&'static str> {
    Some(match base {
        0 => "Geometry",
        8 => "CircularString",
        9 => "CompoundCurve",
        10 => "CurvePolygon",
        11 => "MultiCurve",
        12 => "MultiSurface",
        13 => "Curve",
        14 => "Surface",
        15 => "PolyhedralSurface",
        16 => "TIN",
        17 => "Triangle",
        _ => GeometryType::from_code(base)?.name(),
    })
}

/// The bytes that are still to be read.
struct Input<'a> {
    bytes: &'a [u8],
    srid: Option<u32>,
}

impl<'a> Input<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, srid: None }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let Some((head, rest)) = self.bytes.split_first_chunk() else { return Err(self.too_short(N)) };
        self.bytes = rest;
        Ok(*head)
    }

    /// Whether numbers are little-endian.
    fn byte_order(&mut self) -> Result<bool, Problem> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Problem::Unreadable(format!("the byte order is {other}, not 0 or 1"))),
        }
    }

    fn u32(&mut self, little_endian: bool) -> Result<u32, Problem> {
        let bytes = self.take()?;
        Ok(if little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// The SRID behind the type, if the type says that there is one. A member may repeat it, and may not have another.
    fn spatial_reference(&mut self, code: u32, little_endian: bool) -> Result<(), Problem> {
        if code & EWKB_SRID == 0 {
            return Ok(());
        }
        let found = self.u32(little_endian)?;
        match self.srid.replace(found) {
            Some(earlier) if earlier != found => {
                Err(Problem::Unreadable(format!("it has SRID {earlier}, and a member with SRID {found}")))
            }
            _ => Ok(()),
        }
    }

    /// A count, which is believed if as many things of the `least` size would fit into the bytes that are left.
    fn count(&mut self, little_endian: bool, least: usize, things: &str) -> Result<u32, Problem> {
        let count = self.u32(little_endian)?;
        if size(count).saturating_mul(least) > self.bytes.len() {
            let left = self.bytes.len();
            return Err(Problem::Unreadable(format!("{count} {things} are announced, and {left} bytes are left")));
        }
        Ok(count)
    }

    fn numbers(&mut self, coordinates: u32, width: usize) -> Result<&'a [u8], Problem> {
        let length = size(coordinates).saturating_mul(width * 8);
        let Some((numbers, rest)) = self.bytes.split_at_checked(length) else { return Err(self.too_short(length)) };
        self.bytes = rest;
        Ok(numbers)
    }

    fn end(&self, what: &str) -> Result<(), Problem> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        Err(Problem::Unreadable(format!("{} bytes are left over behind the {what}", self.bytes.len())))
    }

    fn too_short(&self, needed: usize) -> Problem {
        Problem::Unreadable(format!("{} bytes are left where {needed} are needed", self.bytes.len()))
    }
}

fn from_bytes(number: [u8; 8], little_endian: bool) -> f64 {
    if little_endian { f64::from_le_bytes(number) } else { f64::from_be_bytes(number) }
}

/// A count as a length; where that does not fit, longer than anything there is.
fn size(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
