//! Reads one point out of well-known binary: ISO and EWKB, either byte order, with or without Z, M and SRID.
//!
//! The `wkb` crate reads every geometry type, and for that very reason is not used here: as of 0.9 it takes the type
//! code modulo eight, so that a triangle (17) or a compound curve (9) whose bytes are long enough passes for a point,
//! and it accepts bytes behind the end. A cell made from such a row would be wrong in silence. A point is at most 41
//! bytes; this module looks at each of them.

use crate::{Lat, Lon, LonLat, RejectReason};

const EWKB_Z: u32 = 0x8000_0000;
const EWKB_M: u32 = 0x4000_0000;
const EWKB_SRID: u32 = 0x2000_0000;

/// SRIDs whose coordinates are longitude and latitude on WGS 84: not stated, two-dimensional, three-dimensional.
const WGS_84: [u32; 3] = [0, 4326, 4979];

/// The point in `bytes`, or why there is none.
pub(crate) fn point(bytes: &[u8]) -> Result<LonLat, RejectReason> {
    let mut reader = Reader { bytes, little_endian: true };
    reader.little_endian = match reader.take::<1>()? {
        [0] => false,
        [1] => true,
        [other] => return Err(unreadable(format!("the byte order is {other}, not 0 or 1"))),
    };
    let code = reader.u32()?;
    let (kind, iso_dimensions) = {
        let iso = code & !(EWKB_Z | EWKB_M | EWKB_SRID);
        (iso % 1000, iso / 1000)
    };
    let Some(name) = name(kind).filter(|_| iso_dimensions <= 3) else {
        return Err(unreadable(format!("there is no geometry type {code}")));
    };
    if kind != 1 {
        return Err(RejectReason::NotAPoint { found: name.to_owned() });
    }
    if code & EWKB_SRID != 0 {
        let srid = reader.u32()?;
        if !WGS_84.contains(&srid) {
            return Err(RejectReason::ForeignReference { srid });
        }
    }
    let lon = reader.f64()?;
    let lat = reader.f64()?;
    if code & EWKB_Z != 0 || matches!(iso_dimensions, 1 | 3) {
        reader.f64()?;
    }
    if code & EWKB_M != 0 || matches!(iso_dimensions, 2 | 3) {
        reader.f64()?;
    }
    if !reader.bytes.is_empty() {
        return Err(unreadable(format!("{} bytes are left over behind the point", reader.bytes.len())));
    }
    coordinates(lon, lat)
}

/// A pair of coordinates from a geometry, where `NaN NaN` is how an empty point is written.
pub(crate) fn coordinates(lon: f64, lat: f64) -> Result<LonLat, RejectReason> {
    if lon.is_nan() && lat.is_nan() {
        return Err(RejectReason::EmptyGeometry);
    }
    LonLat::from_degrees(Lon(lon), Lat(lat))
}

struct Reader<'a> {
    bytes: &'a [u8],
    little_endian: bool,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], RejectReason> {
        let Some((head, rest)) = self.bytes.split_first_chunk::<N>() else {
            return Err(unreadable(format!("{} bytes are left where {N} are needed", self.bytes.len())));
        };
        self.bytes = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, RejectReason> {
        let bytes = self.take()?;
        Ok(if self.little_endian { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    fn f64(&mut self) -> Result<f64, RejectReason> {
        let bytes = self.take()?;
        Ok(if self.little_endian { f64::from_le_bytes(bytes) } else { f64::from_be_bytes(bytes) })
    }
}

fn unreadable(cause: String) -> RejectReason {
    RejectReason::UnreadableGeometry { cause }
}

/// The geometry types of OGC 06-103r4, table 7.
fn name(kind: u32) -> Option<&'static str> {
    Some(match kind {
        0 => "Geometry",
        1 => "Point",
        2 => "LineString",
        3 => "Polygon",
        4 => "MultiPoint",
        5 => "MultiLineString",
        6 => "MultiPolygon",
        7 => "GeometryCollection",
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
        _ => return None,
    })
}
