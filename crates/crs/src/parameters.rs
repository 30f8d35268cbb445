//! The numbers of a definition, whatever its language: ellipsoid, prime meridian, unit, false origin, scale, angles. A text that bears the
//! code of one system and the numbers of another means neither, and nobody can know which of the two its coordinates follow.

use serde_json::Value;

use crate::wkt::Node;

/// What a definition says in numbers; `None` where it says nothing, or not in a way that can be compared.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Parameters {
    semi_major_m: Option<f64>,
    inverse_flattening: Option<f64>,
    prime_meridian: Option<f64>,
    /// Metres in the unit of a projected system.
    unit_m: Option<f64>,
    /// Whether it has parameters of a projection at all.
    is_projected: bool,
    false_easting_m: f64,
    false_northing_m: f64,
    scale: f64,
    /// Angles of the projection in degrees but zeros, in order: dialects differ in which of them they repeat.
    angles: Option<Vec<f64>>,
    /// Parameters of a shift to WGS 84, as in `+towgs84`.
    pub(crate) shift: Option<[f64; 7]>,
}

/// Parameters that only some dialects write.
const NO_PARAMETERS: [&str; 6] =
    ["x_scale", "y_scale", "xy_plane_rotation", "auxiliary_sphere_type", "option", "rectified_grid_angle"];
const DATUM: [&str; 4] = ["DATUM", "GEODETICDATUM", "TRF", "ENSEMBLE"];
const DEGREE: f64 = std::f64::consts::PI / 180.0;

impl Parameters {
    fn none() -> Self {
        Self { scale: 1.0, angles: Some(Vec::new()), ..Self::default() }
    }

    /// With the shift that a bound system puts around it.
    pub(crate) fn bound(self, shift: Option<[f64; 7]>) -> Self {
        Self { shift: shift.or(self.shift), ..self }
    }

    /// Puts a parameter of the projection where it belongs; `unit` is what its dialect says: metres, radians or parts of one.
    fn add(&mut self, name: &str, value: f64, unit: Option<f64>) {
        let name = name.to_ascii_lowercase().replace(' ', "_");
        if NO_PARAMETERS.contains(&name.as_str()) || name.starts_with("angle_from_rectified") || name.contains("height")
        {
            return;
        }
        self.is_projected = true;
        if name.starts_with("false_easting") || name.starts_with("easting_at") {
            self.false_easting_m = value * unit.unwrap_or(1.0);
        } else if name.starts_with("false_northing") || name.starts_with("northing_at") {
            self.false_northing_m = value * unit.unwrap_or(1.0);
        } else if name.starts_with("scale_factor") {
            self.scale = value * unit.unwrap_or(1.0);
        } else if let (Some(angles), Some(unit)) = (&mut self.angles, unit) {
            let degrees = (value * unit / DEGREE + 180.0).rem_euclid(360.0) - 180.0;
            if degrees.abs() > 1e-9 {
                angles.push(degrees);
            }
        } else {
            self.angles = None;
        }
    }

    fn sorted(mut self) -> Self {
        if let Some(angles) = &mut self.angles {
            angles.sort_by(f64::total_cmp);
            angles.dedup_by(|a, b| (*a - *b).abs() < ANGLE);
        }
        self
    }

    /// What contradicts the numbers of another definition.
    pub(crate) fn contradiction(&self, code: &Self) -> Option<String> {
        let both = |what: &str, ours: Option<f64>, theirs: Option<f64>, by: f64| {
            ours.zip(theirs).and_then(|(ours, theirs)| differ(what, ours, theirs, by))
        };
        both("semi-major axis", self.semi_major_m, code.semi_major_m, 0.1)
            .or_else(|| both("inverse flattening", self.inverse_flattening, code.inverse_flattening, 0.002))
            .or_else(|| both("prime meridian", self.prime_meridian, code.prime_meridian, ANGLE))
            .or_else(|| both("unit in metres", self.unit_m, code.unit_m, 1e-7))
            .or_else(|| if self.is_projected && code.is_projected { self.other_projection(code) } else { None })
    }

    fn other_projection(&self, code: &Self) -> Option<String> {
        differ("false easting in metres", self.false_easting_m, code.false_easting_m, LENGTH)
            .or_else(|| differ("false northing in metres", self.false_northing_m, code.false_northing_m, LENGTH))
            .or_else(|| differ("scale factor", self.scale, code.scale, 1e-8))
            .or_else(|| {
                let (ours, theirs) = self.angles.as_ref().zip(code.angles.as_ref())?;
                let alike = ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < ANGLE);
                (!alike).then(|| format!("the angles of its projection are {ours:?}, not {theirs:?}"))
            })
    }
}

fn differ(what: &str, ours: f64, theirs: f64, by: f64) -> Option<String> {
    ((ours - theirs).abs() > by).then(|| format!("its {what} is {ours}, not {theirs}"))
}

/// In degrees: a tenth of a metre.
const ANGLE: f64 = 1e-6;
/// In metres: less than any two false origins differ by.
const LENGTH: f64 = 0.02;

/// The numbers of a geographic or projected system in well-known text.
pub(crate) fn of_wkt(node: &Node) -> Parameters {
    let mut found = Parameters::none();
    let base = node.child(&["GEOGCS", "BASEGEOGCRS", "BASEGEODCRS"]).unwrap_or(node);
    let degree = base.child(&["UNIT", "ANGLEUNIT"]).and_then(unit_of);
    let is_degree = degree.is_none_or(|unit| (unit - DEGREE).abs() < 1e-9);
    if let Some(datum) = base.child(&DATUM) {
        if let Some(ellipsoid) = datum.child(&["SPHEROID", "ELLIPSOID"]) {
            let unit = ellipsoid.child(&["LENGTHUNIT", "UNIT"]).and_then(unit_of).unwrap_or(1.0);
            let numbers = ellipsoid.numbers();
            found.semi_major_m = numbers.first().map(|a| a * unit);
            found.inverse_flattening = numbers.get(1).copied();
        }
        found.shift = datum.child(&["TOWGS84"]).and_then(|node| seven(&node.numbers()));
    }
    found.prime_meridian = match base.child(&["PRIMEM", "PRIMEMERIDIAN"]) {
        Some(meridian) => match (meridian.child(&["ANGLEUNIT", "UNIT"]).and_then(unit_of), is_degree) {
            (Some(unit), _) => meridian.numbers().first().map(|value| value * unit / DEGREE),
            (None, true) => meridian.numbers().first().copied(),
            (None, false) => None,
        },
        None => base.child(&DATUM).map(|_| 0.0),
    };
    let unit = node.child(&["UNIT", "LENGTHUNIT"]).or_else(|| node.child(&["AXIS"])?.child(&["LENGTHUNIT", "UNIT"]));
    let projected = node.keyword.starts_with("PROJ");
    found.unit_m = unit.filter(|_| projected).and_then(unit_of);
    for parameter in node.child(&["CONVERSION"]).unwrap_or(node).nodes().filter(|node| node.keyword == "PARAMETER") {
        let (Some(name), Some(value)) = (parameter.name(), parameter.numbers().first().copied()) else { continue };
        let own = parameter.child(&["LENGTHUNIT", "ANGLEUNIT", "SCALEUNIT", "UNIT"]).and_then(unit_of);
        let lower = name.to_ascii_lowercase();
        let unit = own.or_else(|| {
            if lower.contains("easting") || lower.contains("northing") {
                found.unit_m
            } else if lower.starts_with("scale") {
                Some(1.0)
            } else {
                is_degree.then_some(DEGREE)
            }
        });
        found.add(name, value, unit);
    }
    found.sorted()
}

fn unit_of(node: &Node) -> Option<f64> {
    node.numbers().first().copied()
}

/// The numbers of a geographic or projected system in PROJJSON.
pub(crate) fn of_projjson(json: &Value) -> Parameters {
    let mut found = Parameters::none();
    let base = json.get("base_crs").unwrap_or(json);
    let datum = base.get("datum").or_else(|| base.get("datum_ensemble"));
    if let Some(ellipsoid) = datum.and_then(|datum| datum.get("ellipsoid")) {
        let length = |key: &str| measured(ellipsoid.get(key)?, None);
        found.semi_major_m = length("semi_major_axis").or_else(|| length("radius"));
        found.inverse_flattening = length("inverse_flattening").or_else(|| {
            let (a, b) = (length("semi_major_axis")?, length("semi_minor_axis")?);
            Some(if a > b { a / (a - b) } else { 0.0 })
        });
        if found.inverse_flattening.is_none() && ellipsoid.get("radius").is_some() {
            found.inverse_flattening = Some(0.0);
        }
    }
    found.prime_meridian = match datum.and_then(|datum| datum.get("prime_meridian")?.get("longitude")) {
        Some(longitude) => measured(longitude, Some(DEGREE)).map(|radians| radians / DEGREE),
        None => datum.map(|_| 0.0),
    };
    if json.get("base_crs").is_some() {
        let unit = json.get("coordinate_system").and_then(|system| system.get("axis")?.get(0)?.get("unit"));
        found.unit_m = unit.and_then(factor);
    }
    let parameters = json.get("conversion").and_then(|conversion| conversion.get("parameters")?.as_array());
    for parameter in parameters.into_iter().flatten() {
        let name = parameter.get("name").and_then(Value::as_str);
        let value = parameter.get("value").and_then(Value::as_f64);
        if let (Some(name), Some(value)) = (name, value) {
            found.add(name, value, parameter.get("unit").and_then(factor));
        }
    }
    found.sorted()
}

/// A number, or a value with a unit; in metres or radians. A bare number is in `bare`.
fn measured(value: &Value, bare: Option<f64>) -> Option<f64> {
    match value.as_f64() {
        Some(number) => Some(number * bare.unwrap_or(1.0)),
        None => Some(value.get("value")?.as_f64()? * factor(value.get("unit")?)?),
    }
}

fn factor(unit: &Value) -> Option<f64> {
    match unit.as_str() {
        Some("metre" | "unity") => Some(1.0),
        Some("degree") => Some(DEGREE),
        Some(_) => None,
        None => unit.get("conversion_factor")?.as_f64(),
    }
}

/// The shift of a `BOUNDCRS`; `None` if it is a grid.
pub(crate) fn bound_of_wkt(node: &Node) -> Option<[f64; 7]> {
    let transformation = node.child(&["ABRIDGEDTRANSFORMATION"])?;
    let method = transformation.child(&["METHOD"]).and_then(Node::name).unwrap_or_default();
    let parameters = transformation.nodes().filter(|node| node.keyword == "PARAMETER");
    bound_of(method, parameters.filter_map(|node| Some((node.name()?, node.numbers().first().copied()?))))
}

/// The shift of a `BoundCRS`; `None` if it is a grid.
pub(crate) fn bound_of_projjson(json: &Value) -> Option<[f64; 7]> {
    let transformation = json.get("transformation")?;
    let method = transformation.get("method").and_then(|method| method.get("name")?.as_str()).unwrap_or_default();
    let parameters = transformation.get("parameters")?.as_array()?;
    let pairs = parameters.iter().filter_map(|one| Some((one.get("name")?.as_str()?, one.get("value")?.as_f64()?)));
    bound_of(method, pairs)
}

fn bound_of<'a>(method: &str, parameters: impl Iterator<Item = (&'a str, f64)>) -> Option<[f64; 7]> {
    const NAMES: [&str; 7] = ["x-axis t", "y-axis t", "z-axis t", "x-axis r", "y-axis r", "z-axis r", "scale d"];
    let mut shift = [0.0; 7];
    let mut found = false;
    for (name, value) in parameters {
        let name = name.to_ascii_lowercase();
        if let Some((_, place)) = NAMES.iter().zip(&mut shift).find(|(start, _)| name.starts_with(**start)) {
            *place = value;
            found = true;
        }
    }
    let [x, y, z, rx, ry, rz, scale] = shift;
    // As a factor in some texts, in parts per million in others.
    let scale = if scale.abs() > 0.5 && (scale - 1.0).abs() < 0.01 { (scale - 1.0) * 1e6 } else { scale };
    let turn = if method.to_ascii_lowercase().starts_with("coordinate frame") { -1.0 } else { 1.0 };
    found.then_some([x, y, z, turn * rx, turn * ry, turn * rz, scale])
}

/// Three or seven parameters as seven.
fn seven(numbers: &[f64]) -> Option<[f64; 7]> {
    let mut shift = [0.0; 7];
    if numbers.len() != 3 && numbers.len() != 7 {
        return None;
    }
    for (to, from) in shift.iter_mut().zip(numbers) {
        *to = *from;
    }
    Some(shift)
}

/// The `+towgs84` of a PROJ string; zeros where it has none.
pub(crate) fn shift_of(operation: &str) -> [f64; 7] {
    let text = operation.split_whitespace().find_map(|word| word.strip_prefix("+towgs84=")).unwrap_or_default();
    seven(&text.split(',').filter_map(|number| number.parse().ok()).collect::<Vec<_>>()).unwrap_or_default()
}

/// How far apart, in metres, two shifts can put a point on the earth.
pub(crate) fn apart_m(one: &[f64; 7], other: &[f64; 7]) -> f64 {
    const RADIUS: f64 = 6_378_137.0;
    let worth = |index: usize| match index {
        0..3 => 1.0,
        3..6 => RADIUS * DEGREE / 3600.0,
        _ => RADIUS * 1e-6,
    };
    one.iter().zip(other).enumerate().map(|(index, (one, other))| (one - other).abs() * worth(index)).sum()
}
