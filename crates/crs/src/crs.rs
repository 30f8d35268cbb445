//! A coordinate reference system as a file or a person states it.

use std::fmt;

use serde_json::Value;

use crate::parameters::{self, Parameters};
use crate::systems::{self, Standing, System};
use crate::wkt::{self, Node};
use crate::{Error, spelling};

/// OGC:CRS84 for GeoParquet, as its specification has it.
const CRS84: &str = include_str!("../data/crs84.json");
/// PROJJSON nests a bound system in a compound one; more means nothing.
const DEEPEST: usize = 8;

/// A coordinate reference system as a file or a person states it. Coordinates are always x before y: longitude before latitude, easting
/// before northing, whatever the order of the axes in the definition.
///
/// Two are equal when their ids are, or, where one of them has none, when they were stated by the same text.
#[derive(Clone, Debug)]
pub struct Crs {
    id: Option<String>,
    name: Option<String>,
    /// As it was stated: PROJJSON, WKT or a code; empty where the file says that it is unknown.
    text: String,
}

impl PartialEq for Crs {
    fn eq(&self, other: &Self) -> bool {
        match (&self.id, &other.id) {
            (Some(id), Some(other)) => id == other,
            (None, None) => self.text == other.text,
            _ => false,
        }
    }
}

impl Eq for Crs {}

impl Crs {
    /// OGC:CRS84: longitude and latitude in degrees on WGS 84.
    pub fn lon_lat() -> Self {
        Self { id: Some("OGC:CRS84".to_owned()), name: Some("WGS 84 (CRS84)".to_owned()), text: "OGC:CRS84".to_owned() }
    }

    /// What a file says is unknown.
    pub fn unknown() -> Self {
        Self { id: None, name: None, text: String::new() }
    }

    /// A system by authority and code, such as `EPSG` and `27700`. Of a compound or three-dimensional one, the horizontal part. Whether it
    /// is known is told by [`crate::LonLatTransform::from`].
    pub fn of_code(authority: &str, code: &str) -> Self {
        let authority = authority.trim().to_ascii_uppercase();
        let id = format!("{authority}:{}", code.trim());
        if id == "OGC:CRS84" || id == "OGC:CRS84H" {
            return Self::lon_lat();
        }
        match systems::of_code(&id) {
            Some(system) => Self {
                id: Some(system.code.to_owned()),
                name: Some(system.name.to_owned()),
                text: system.code.to_owned(),
            },
            None => Self { text: id.clone(), id: Some(id), name: None },
        }
    }

    /// From PROJJSON. `null` is the unknown system. Of a compound system the horizontal part is meant, of a bound one its base.
    ///
    /// # Errors
    ///
    /// If it is none, or its id and its numbers contradict each other.
    pub fn from_projjson(json: &str) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(json).map_err(|error| Error::unreadable(json, error))?;
        if value.is_null() {
            return Ok(Self::unknown());
        }
        if !value.is_object() {
            return Err(Error::unreadable(json, "PROJJSON is an object or null"));
        }
        let (flat, shift) = horizontal_json(&value, None, 0);
        let id = json_id(flat);
        let name = flat.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
        if let Some(id) = &id {
            agree(id, &parameters::of_projjson(flat).bound(shift))?;
        }
        Ok(Self { id, name, text: flat.to_string() }.canonical())
    }

    /// From well-known text: WKT 1 (of GDAL or ESRI) or WKT 2. Of a compound system the horizontal part is meant, of a bound one its base.
    /// Without an id, it is a known system if it is exactly its definition in one of these dialects; case, blanks and the spelling of
    /// numbers aside. An engineering system, which has no place on the earth, is unknown: GDAL writes one where nothing is known.
    ///
    /// # Errors
    ///
    /// If it is none, or its id and its numbers contradict each other.
    pub fn from_wkt(wkt: &str) -> Result<Self, Error> {
        let root = wkt::parse(wkt).map_err(|cause| Error::unreadable(wkt, cause))?;
        let (flat, shift) = horizontal_wkt(&root, None, 0);
        if ENGINEERING.contains(&flat.keyword.as_str()) {
            return Ok(Self::unknown());
        }
        if !KEYWORDS.contains(&flat.keyword.as_str()) {
            let cause = format!(
                "{} is no geographic or projected system of well-known text; state it as EPSG:… if it has a code",
                flat.keyword
            );
            return Err(Error::unreadable(wkt, cause));
        }
        let (text, name) = (wkt.trim().to_owned(), flat.name().map(ToOwned::to_owned));
        let exact = systems::of_hash(&flat.hash()).map(|system| system.code);
        // A code of an authority that is not known here says less than the definition.
        let id = flat.id().filter(|id| exact.is_none() || known(id).is_some()).or_else(|| exact.map(ToOwned::to_owned));
        if let Some(id) = id.as_deref().filter(|id| exact != Some(id) || shift.is_some()) {
            agree(id, &parameters::of_wkt(flat).bound(shift))?;
        }
        Ok(Self { id, name, text }.canonical())
    }

    /// What a person wrote: `EPSG:27700`, `OGC:CRS84`, an OGC URN or URL of a code, well-known text or PROJJSON.
    ///
    /// # Errors
    ///
    /// If it is none of them, or a code that is not known.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim().trim_start_matches('\u{feff}');
        if text.starts_with('{') || text == "null" {
            return Self::from_projjson(text);
        }
        if text.contains(['[', '(']) {
            return Self::from_wkt(text);
        }
        let (authority, code) = spelling::code_of(text).map_err(|cause| Error::unreadable(text, cause))?;
        let crs = Self::of_code(&authority, &code);
        if crs.is_lon_lat() || crs.system().is_some() {
            return Ok(crs);
        }
        let near = systems::near(&authority, &code);
        let advice = if near.is_empty() { String::new() } else { format!("; is {} meant?", near.join(" or ")) };
        Err(Error::unreadable(text, format!("no such code is known{advice}")))
    }

    /// With the id under which it is known here, and OGC:CRS84 as that.
    fn canonical(mut self) -> Self {
        if let Some(id) = &mut self.id {
            id.make_ascii_uppercase();
            if id == "OGC:CRS84H" {
                *id = "OGC:CRS84".to_owned();
            } else if let Some(system) = systems::of_code(id) {
                *id = system.code.to_owned();
            }
        }
        self
    }

    /// What is known of it.
    pub(crate) fn system(&self) -> Option<&'static System> {
        systems::of_code(self.id.as_deref()?)
    }

    /// Whether the file says that it is unknown.
    pub fn is_unknown(&self) -> bool {
        self.text.is_empty()
    }

    /// What a table remembers of it: `OGC:CRS84` for every spelling of longitude and latitude on WGS 84, else authority and code, else
    /// the definition as it was stated.
    pub fn key(&self) -> String {
        if self.is_lon_lat() {
            return "OGC:CRS84".to_owned();
        }
        self.id.clone().unwrap_or_else(|| self.text.clone())
    }

    /// Whether coordinates of the two mean the same places.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other || (self.is_lon_lat() && other.is_lon_lat())
    }

    /// Authority and code, such as `EPSG:27700`, where it is known.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Its name, where it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether coordinates are longitude and latitude in degrees on WGS 84.
    pub fn is_lon_lat(&self) -> bool {
        matches!(self.id.as_deref(), Some("OGC:CRS84" | "EPSG:4326" | "EPSG:4979"))
    }

    /// Whether coordinates are a longitude and a latitude, on whatever datum. False where it cannot be told.
    pub fn is_geographic(&self) -> bool {
        if let Ok(root) = wkt::parse(&self.text) {
            return !horizontal_wkt(&root, None, 0).0.keyword.starts_with("PROJ");
        }
        let json = self.projjson().and_then(|json| serde_json::from_str::<Value>(&json).ok());
        json.is_some_and(|json| json.get("type").and_then(Value::as_str) == Some("GeographicCRS"))
    }

    /// PROJJSON without blanks, for GeoParquet: as it was stated, if it was stated like that. `None` where it is unknown or no PROJJSON of
    /// it is known.
    pub fn projjson(&self) -> Option<String> {
        if self.text.starts_with('{') {
            return Some(self.text.clone());
        }
        if self.id.as_deref() == Some("OGC:CRS84") {
            return Some(CRS84.trim().to_owned());
        }
        self.system()?.projjson().map(ToOwned::to_owned)
    }
}

const ENGINEERING: [&str; 3] = ["LOCAL_CS", "ENGCRS", "ENGINEERINGCRS"];

const KEYWORDS: [&str; 9] =
    ["GEOGCS", "PROJCS", "GEOGCRS", "GEOGRAPHICCRS", "GEODCRS", "GEODETICCRS", "PROJCRS", "PROJECTEDCRS", "GEOCCS"];

/// The horizontal part of a compound system, the base of a bound one; and what it is bound with, if that can be read.
fn horizontal_wkt(node: &Node, bound: Option<[f64; 7]>, depth: usize) -> (&Node, Option<[f64; 7]>) {
    let inner = match node.keyword.as_str() {
        "COMPD_CS" | "COMPOUNDCRS" => node.nodes().next().map(|inner| (inner, bound)),
        "BOUNDCRS" => {
            let base = node.child(&["SOURCECRS"]).and_then(|source| source.nodes().next());
            base.map(|base| (base, parameters::bound_of_wkt(node)))
        }
        _ => None,
    };
    inner.filter(|_| depth < DEEPEST).map_or((node, bound), |(inner, bound)| horizontal_wkt(inner, bound, depth + 1))
}

fn horizontal_json(value: &Value, bound: Option<[f64; 7]>, depth: usize) -> (&Value, Option<[f64; 7]>) {
    let inner = match value.get("type").and_then(Value::as_str) {
        Some("CompoundCRS") => value.get("components").and_then(|parts| parts.get(0)).map(|inner| (inner, bound)),
        Some("BoundCRS") => value.get("source_crs").map(|base| (base, parameters::bound_of_projjson(value))),
        _ => None,
    };
    inner.filter(|_| depth < DEEPEST).map_or((value, bound), |(inner, bound)| horizontal_json(inner, bound, depth + 1))
}

fn json_id(value: &Value) -> Option<String> {
    let id = value.get("id").or_else(|| value.get("ids")?.get(0))?;
    let code = match id.get("code")? {
        Value::String(code) => code.clone(),
        code => code.to_string(),
    };
    Some(format!("{}:{code}", id.get("authority")?.as_str()?).to_ascii_uppercase())
}

/// What is known of a code; OGC:CRS84 has the numbers of EPSG:4326.
fn known(id: &str) -> Option<&'static System> {
    systems::of_code(if id == "OGC:CRS84" || id == "OGC:CRS84H" { "EPSG:4326" } else { id })
}

/// Refuses a text whose numbers are not those of its id.
fn agree(id: &str, stated: &Parameters) -> Result<(), Error> {
    let Some(system) = known(id) else { return Ok(()) };
    let Some(json) = system.projjson().and_then(|json| serde_json::from_str::<Value>(json).ok()) else { return Ok(()) };
    let contradiction = stated.contradiction(&parameters::of_projjson(&json)).or_else(|| other_shift(system, stated));
    match contradiction {
        None => Ok(()),
        Some(what) => Err(Error::Unsupported {
            crs: id.to_owned(),
            cause: format!(
                "the text says that it is {id} ({}), but {what} as in {id}; state the system of its coordinates (--crs {id} if it is that)",
                system.name
            ),
        }),
    }
}

/// A shift to WGS 84 that is not the one of the known operation, by a metre or more.
fn other_shift(system: &System, stated: &Parameters) -> Option<String> {
    let (Some(shift), Standing::Done { operation, .. }) = (&stated.shift, &system.standing) else { return None };
    let known = parameters::shift_of(operation);
    let apart = parameters::apart_m(shift, &known);
    (apart > 1.0).then(|| format!("its shift to WGS 84 is {shift:?}, up to {apart:.1} m from the {known:?}"))
}

impl fmt::Display for Crs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.id, &self.name) {
            (Some(id), Some(name)) => write!(f, "{id} ({name})"),
            (Some(only), None) | (None, Some(only)) => f.write_str(only),
            (None, None) if self.text.is_empty() => f.write_str("an unknown coordinate reference system"),
            (None, None) => f.write_str("a coordinate reference system without id and name"),
        }
    }
}
