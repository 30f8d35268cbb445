//! A PROJ string that is executed: from the coordinates of a system to longitude and latitude on WGS 84. Every result is put through
//! the inverse operation before it is believed, because an inverse projection far from home happily returns a place that is not the one.

use proj4rs::{Proj, adaptors::transform_xy};

/// How far, in metres, a place may be from where it came from after going there and back.
const CLOSURE: f64 = 0.5;

/// A little less than that on the equator, in radians.
const EDGE: f64 = 5e-8;

/// Half a circumference of the earth, several times over: no projected coordinate in metres is larger.
const LARGEST: f64 = 1e9;

/// An executable operation from a projected or geographic system to longitude and latitude.
#[derive(Clone, Debug)]
pub struct Operation {
    from: Proj,
    to: Proj,
    geographic: bool,
}

impl Operation {
    /// The operation that `definition`, a PROJ string with `+proj` and, where there is a datum shift, `+towgs84`, describes.
    ///
    /// # Errors
    ///
    /// What `proj4rs` says if it cannot execute it.
    pub fn new(definition: &str) -> Result<Self, String> {
        let from = Proj::from_proj_string(definition).map_err(|error| error.to_string())?;
        let to = Proj::from_proj_string("+proj=longlat +datum=WGS84").map_err(|error| error.to_string())?;
        if !(from.has_inverse() && from.has_forward()) {
            return Err("the projection has no inverse".to_owned());
        }
        Ok(Self { geographic: from.is_latlong(), from, to })
    }

    /// Whether it begins with a longitude and a latitude.
    pub fn is_geographic(&self) -> bool {
        self.geographic
    }

    /// Longitude in \[-180, 180\] and latitude, in degrees, of a coordinate in the units of the system (degrees if it is geographic).
    /// `None` if there is no such place.
    pub fn lon_lat(&self, [x, y]: [f64; 2]) -> Option<[f64; 2]> {
        if !(x.is_finite() && y.is_finite() && x.abs() <= LARGEST && y.abs() <= LARGEST) {
            return None;
        }
        let (from_x, from_y) = if self.geographic { (x.to_radians(), y.to_radians()) } else { (x, y) };
        let (lon, lat) = transform_xy(&self.from, &self.to, from_x, from_y).ok()?;
        let place = [turn(lon.to_degrees()), lat.to_degrees()];
        if !place.iter().all(|degrees| degrees.is_finite()) || place[1].abs() > 90.0 + 1e-9 {
            return None;
        }
        let returns = |lon| {
            let back = transform_xy(&self.to, &self.from, lon, lat).ok();
            back.is_some_and(|(back_x, back_y)| self.is_near(from_x - back_x, from_y - back_y, lat))
        };
        // A map of the world ends where it begins: what lies on one edge may come back on the other.
        (returns(lon) || returns(lon - EDGE) || returns(lon + EDGE)).then_some([place[0], place[1].clamp(-90.0, 90.0)])
    }

    /// Whether going there and back ends where it began: `x` and `y` are what is missing, in radians or in the units of the system.
    fn is_near(&self, x: f64, y: f64, lat: f64) -> bool {
        const RADIUS: f64 = 6_378_137.0;
        let metres = if self.geographic {
            let around = (x.abs() + std::f64::consts::PI).rem_euclid(std::f64::consts::TAU) - std::f64::consts::PI;
            [around * RADIUS * lat.cos(), y * RADIUS]
        } else {
            [x * self.from.to_meter(), y * self.from.to_meter()]
        };
        metres.iter().all(|metres| metres.abs() <= CLOSURE)
    }
}

/// A longitude in \[-180, 180\].
fn turn(lon: f64) -> f64 {
    if lon.abs() <= 180.0 { lon } else { (lon + 180.0).rem_euclid(360.0) - 180.0 }
}
