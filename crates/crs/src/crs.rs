//! A coordinate reference system as a file or a person states it.

use std::fmt;

use serde_json::Value;

use crate::Error;

/// A coordinate reference system as a file or a person states it. Coordinates are always x before y: longitude before latitude, easting
/// before northing, whatever the order of the axes in the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crs {
    id: Option<String>,
    name: Option<String>,
    /// As it was stated: PROJJSON, WKT or a code; empty where the file says that it is unknown.
    text: String,
}

impl Crs {
    /// OGC:CRS84: longitude and latitude in degrees on WGS 84.
    pub fn lon_lat() -> Self {
        Self { id: Some("OGC:CRS84".to_owned()), name: Some("WGS 84 (CRS84)".to_owned()), text: "OGC:CRS84".to_owned() }
    }

    /// What a file says is unknown.
    pub fn unknown() -> Self {
        Self { id: None, name: None, text: String::new() }
    }

    /// A system by authority and code, such as `EPSG` and `27700`.
    pub fn of_code(authority: &str, code: &str) -> Self {
        let id = format!("{authority}:{code}");
        Self { text: id.clone(), id: Some(id), name: None }
    }

    /// From PROJJSON.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn from_projjson(json: &str) -> Result<Self, Error> {
        let value: Value = serde_json::from_str(json)
            .map_err(|error| Error::Unreadable { text: json.chars().take(80).collect(), cause: error.to_string() })?;
        if value.is_null() {
            return Ok(Self::unknown());
        }
        let id = value.get("id").and_then(|id| {
            let code = match id.get("code")? {
                Value::String(code) => code.clone(),
                code => code.to_string(),
            };
            Some(format!("{}:{code}", id.get("authority")?.as_str()?))
        });
        let name = value.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
        Ok(Self { id, name, text: value.to_string() })
    }

    /// From well-known text: WKT 1 (of GDAL or ESRI) or WKT 2.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn from_wkt(wkt: &str) -> Result<Self, Error> {
        Ok(Self { id: None, name: None, text: wkt.to_owned() })
    }

    /// What a person wrote: `EPSG:27700`, `OGC:CRS84`, well-known text or PROJJSON.
    ///
    /// # Errors
    ///
    /// If it is none of them.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::from_wkt(text)
    }

    /// Whether the file says that it is unknown.
    pub fn is_unknown(&self) -> bool {
        self.text.is_empty()
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
        matches!(self.id.as_deref(), Some("OGC:CRS84" | "OGC:CRS84h" | "EPSG:4326" | "EPSG:4979"))
    }

    /// PROJJSON without blanks, for GeoParquet; `None` where it is unknown or no PROJJSON of it is known.
    pub fn projjson(&self) -> Option<String> {
        None
    }
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
