//! The `crs` member of the GeoJSON of 2008, which RFC 7946 has taken out and which is still written.
//!
//! Without it coordinates are longitude and latitude on WGS 84. It is not only at the top of a collection: PostGIS writes it into
//! each geometry. Wherever it stands it has to be one for the whole file, because one column has one system.

use hexfloe_crs::Crs;
use serde_json::Value;

use super::features::Feature;
use crate::error::one_line;
use crate::geo::StatedCrs;

/// The systems that the features of a file state.
#[derive(Default)]
pub(super) struct References {
    found: Option<Crs>,
    /// How many features state it.
    stating: u64,
    /// A feature that does, and one that does not.
    with: u64,
    without: Option<u64>,
}

impl References {
    pub(super) fn see(&mut self, feature: &Feature<'_>) -> Result<(), String> {
        let Some(crs) = feature.reference else {
            self.without.get_or_insert(feature.number);
            return Ok(());
        };
        self.stating += 1;
        match &self.found {
            Some(found) if found != crs => Err(format!(
                "is in {crs}, and feature {} in {found}: one column has one system, so reproject the file",
                self.with
            )),
            Some(_) => Ok(()),
            None => {
                self.found = Some(crs.clone());
                self.with = feature.number;
                Ok(())
            }
        }
    }

    /// What the file states, if the collection states this and there are so many features.
    pub(super) fn agreed(self, collection: Option<&Crs>, rows: u64) -> Result<StatedCrs, String> {
        match (self.found, collection) {
            (None, None) => Ok(StatedCrs::Default),
            (None, Some(collection)) => Ok(StatedCrs::Stated(collection.clone())),
            (Some(found), Some(collection)) if found != *collection => Err(format!(
                "the collection is in {collection}, and feature {} in {found}: one column has one system, so reproject the file",
                self.with
            )),
            (Some(found), None) if self.stating < rows => Err(format!(
                "feature {} is in {found}, and feature {} does not say: one column has one system, so give the collection a `crs`",
                self.with,
                self.without.unwrap_or_default()
            )),
            (Some(found), _) => Ok(StatedCrs::Stated(found)),
        }
    }
}

/// The system that a `crs` member means.
pub(super) fn parse(json: &[u8]) -> Result<Crs, String> {
    const ADVICE: &str = "remove it, and say `crs` in the job";
    let value: Value = serde_json::from_slice(json).map_err(|error| format!("`crs`: {}", one_line(&error)))?;
    let said = |name: &str| value.pointer(name).and_then(Value::as_str);
    match (&value, said("/type")) {
        (Value::Null, _) => Ok(Crs::unknown()),
        (_, Some("name")) => {
            let name = said("/properties/name").ok_or_else(|| format!("`crs.properties.name` is no text: {ADVICE}"))?;
            Crs::parse(name).map_err(|error| format!("`crs`: {}: {ADVICE}", one_line(&error)))
        }
        (_, Some("EPSG")) => match value.pointer("/properties/code") {
            Some(Value::Number(code)) => Ok(Crs::of_code("EPSG", &code.to_string())),
            Some(Value::String(code)) => Ok(Crs::of_code("EPSG", code)),
            _ => Err(format!("`crs.properties.code` is no number: {ADVICE}")),
        },
        (_, Some("link")) => Err(format!("`crs` is a link, which is not followed: {ADVICE}")),
        _ => Err(format!("`crs` is neither null nor of the type `name`: {ADVICE}")),
    }
}
