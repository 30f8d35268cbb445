//! The `geo` metadata of GeoParquet: which column is the geometry, and in which coordinate reference system.
//!
//! The text is checked field by field before the `geoparquet` crate reads it, so that an error names the field; that crate
//! would say `invalid type: integer 123` and not where. Bounding boxes are never used to leave out rows: one that crosses the
//! antimeridian has its west to the east of its east.

use std::fmt;

use geoparquet::metadata::GeoParquetMetadata;
use serde_json::{Map, Value};

use crate::declared;
use crate::error::{Error, one_line};
use crate::files::InputFile;
use crate::row_groups::Footer;

/// The primary geometry column of a GeoParquet source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometryColumn {
    /// The name of the column.
    pub column: String,
    /// How a geometry is written: `WKB`, or a native encoding such as `point`.
    pub encoding: String,
    /// The coordinate reference system the file states; `None` if it states none, which means OGC:CRS84 (longitude and
    /// latitude in degrees on WGS 84).
    pub crs: Option<GeometryCrs>,
}

/// A coordinate reference system as a GeoParquet file states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometryCrs {
    /// Authority and code, such as `EPSG:27700`, if it says so.
    pub id: Option<String>,
    /// Its name, if it says so.
    pub name: Option<String>,
    /// All of it: PROJJSON without blanks, or `null` where the file says that the system is unknown.
    pub projjson: String,
}

impl GeometryCrs {
    /// Whether coordinates in this system are longitude and latitude in degrees on WGS 84. (GeoParquet has longitude first
    /// whatever the order of the axes in the definition.)
    #[must_use]
    pub fn is_lon_lat(&self) -> bool {
        matches!(self.id.as_deref(), Some("OGC:CRS84" | "OGC:CRS84h" | "EPSG:4326" | "EPSG:4979"))
    }
}

impl fmt::Display for GeometryCrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.id, &self.name) {
            (Some(id), Some(name)) => write!(f, "{id} ({name})"),
            (Some(only), None) | (None, Some(only)) => f.write_str(only),
            (None, None) if self.projjson == "null" => f.write_str("an unknown coordinate reference system"),
            (None, None) => f.write_str("a coordinate reference system without id and name"),
        }
    }
}

/// The geometry column that all files agree on.
pub(crate) fn geometry_of(files: &[InputFile]) -> Result<Option<GeometryColumn>, Error> {
    let mut agreed: Option<(&InputFile, GeometryColumn)> = None;
    for file in files {
        let geometry = geometry_of_file(file)?;
        match &agreed {
            None => agreed = Some((file, geometry)),
            Some((first, known)) => {
                let differ = |problem: String| Error::FilesDiffer {
                    first: first.path().to_owned(),
                    second: file.path().to_owned(),
                    column: known.column.clone(),
                    problem,
                };
                if known.column != geometry.column {
                    let other = geometry.column;
                    return Err(differ(format!("is the geometry of the first, and `{other}` that of the second")));
                }
                if known.encoding != geometry.encoding {
                    let (one, two) = (&known.encoding, geometry.encoding);
                    return Err(differ(format!("is encoded as {one} in the first and as {two} in the second")));
                }
                if known.crs != geometry.crs {
                    let name =
                        |crs: &Option<GeometryCrs>| crs.as_ref().map_or("OGC:CRS84".to_owned(), ToString::to_string);
                    let (one, two) = (name(&known.crs), name(&geometry.crs));
                    return Err(differ(format!("is in {one} in the first and in {two} in the second")));
                }
            }
        }
    }
    Ok(agreed.map(|(_, geometry)| geometry))
}

fn geometry_of_file(file: &InputFile) -> Result<GeometryColumn, Error> {
    let footer = Footer::read(file)?;
    let entries = footer.metadata.metadata().file_metadata().key_value_metadata();
    let entry = entries.and_then(|entries| entries.iter().find(|entry| entry.key == "geo"));
    let Some(text) = entry.and_then(|entry| entry.value.as_deref()) else {
        let problem = "has no `geo` metadata, so it is no GeoParquet file: use format = \"parquet\" and say which column holds \
                       the geometry";
        return Err(Error::unreadable(file.path(), problem));
    };
    let geometry =
        parse(text).map_err(|(field, problem)| Error::Geo { file: file.path().to_owned(), field, problem })?;
    declared::require(
        &geometry.column,
        footer.metadata.schema().fields().iter().map(|f| f.name().as_str()),
        file.path(),
    )
    .map_err(|error| Error::Geo {
        file: file.path().to_owned(),
        field: "primary_column".to_owned(),
        problem: error.to_string(),
    })?;
    Ok(geometry)
}

/// A field, and what is wrong with it.
type Problem = (String, String);

fn parse(text: &str) -> Result<GeometryColumn, Problem> {
    let whole = |problem: String| (".".to_owned(), problem);
    let value: Value =
        serde_json::from_str(text).map_err(|error| whole(format!("is not JSON: {}", one_line(&error))))?;
    let root = object(&value, ".")?;
    string(root, "version", "version")?;
    let primary = string(root, "primary_column", "primary_column")?;
    let columns = object(field(root, "columns", "columns")?, "columns")?;
    for (name, column) in columns {
        check_column(column, &format!("columns.{name}"))?;
    }
    let path = format!("columns.{primary}");
    let column =
        columns.get(primary).ok_or_else(|| (path.clone(), "is missing, and it is the primary column".to_owned()))?;
    // Whatever the checks above do not know.
    serde_json::from_value::<GeoParquetMetadata>(value.clone()).map_err(|error| whole(one_line(&error)))?;
    let column = object(column, &path)?;
    Ok(GeometryColumn {
        column: primary.to_owned(),
        encoding: string(column, "encoding", &format!("{path}.encoding"))?.to_owned(),
        crs: column.get("crs").map(crs),
    })
}

fn check_column(column: &Value, path: &str) -> Result<(), Problem> {
    let at = |key: &str| format!("{path}.{key}");
    let wrong = |key: &str, problem: &str| Err((at(key), problem.to_owned()));
    let column = object(column, path)?;
    string(column, "encoding", &at("encoding"))?;
    match field(column, "geometry_types", &at("geometry_types"))? {
        Value::Array(types) if types.iter().all(Value::is_string) => {}
        other => return wrong("geometry_types", &format!("is {other}, not a list of names")),
    }
    match column.get("crs") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(other) => return wrong("crs", &format!("is {other}, not a PROJJSON object or null")),
    }
    match column.get("bbox") {
        None => {}
        Some(Value::Array(numbers)) if [4, 6, 8].contains(&numbers.len()) && numbers.iter().all(Value::is_number) => {}
        Some(other) => return wrong("bbox", &format!("is {other}, not a list of 4, 6 or 8 numbers")),
    }
    for key in ["edges", "orientation"] {
        if column.contains_key(key) {
            string(column, key, &at(key))?;
        }
    }
    match column.get("epoch") {
        None | Some(Value::Number(_)) => Ok(()),
        Some(other) => wrong("epoch", &format!("is {other}, not a number")),
    }
}

fn crs(value: &Value) -> GeometryCrs {
    let id = value.get("id").and_then(|id| {
        let code = match id.get("code")? {
            Value::String(code) => code.clone(),
            code => code.to_string(),
        };
        Some(format!("{}:{code}", id.get("authority")?.as_str()?))
    });
    let name = value.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
    GeometryCrs { id, name, projjson: value.to_string() }
}

fn object<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, Problem> {
    value.as_object().ok_or_else(|| (path.to_owned(), format!("is {value}, not an object")))
}

fn field<'a>(object: &'a Map<String, Value>, key: &str, path: &str) -> Result<&'a Value, Problem> {
    object.get(key).ok_or_else(|| (path.to_owned(), "is missing".to_owned()))
}

fn string<'a>(object: &'a Map<String, Value>, key: &str, path: &str) -> Result<&'a str, Problem> {
    let value = field(object, key, path)?;
    value.as_str().ok_or_else(|| (path.to_owned(), format!("is {value}, not a text")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn valid() -> Value {
        json!({
            "version": "1.1.0",
            "primary_column": "geometry",
            "columns": {
                "geometry": { "encoding": "WKB", "geometry_types": ["Point"], "bbox": [177.0, -20.0, -178.0, -15.0] },
                "label": { "encoding": "WKB", "geometry_types": [], "crs": { "type": "ProjectedCRS", "name": "British",
                    "id": { "authority": "EPSG", "code": 27700 } } }
            }
        })
    }

    #[test]
    fn the_primary_column_is_known_and_no_crs_means_the_default() {
        let geometry = parse(&valid().to_string()).unwrap();
        assert_eq!(geometry, GeometryColumn { column: "geometry".into(), encoding: "WKB".into(), crs: None });
    }

    #[test]
    fn the_crs_is_that_of_the_primary_column() {
        let mut metadata = valid();
        metadata["primary_column"] = json!("label");
        let crs = parse(&metadata.to_string()).unwrap().crs.unwrap();
        assert_eq!(crs.id.as_deref(), Some("EPSG:27700"));
        assert_eq!(crs.to_string(), "EPSG:27700 (British)");
        assert!(!crs.is_lon_lat());
    }

    #[test]
    fn a_null_crs_is_unknown_and_not_the_default() {
        let mut metadata = valid();
        metadata["columns"]["geometry"]["crs"] = Value::Null;
        let crs = parse(&metadata.to_string()).unwrap().crs.unwrap();
        assert!(!crs.is_lon_lat());
        assert_eq!(crs.to_string(), "an unknown coordinate reference system");
    }

    #[test]
    fn codes_may_be_texts_or_numbers() {
        for code in [json!(4326), json!("4326")] {
            let mut metadata = valid();
            metadata["columns"]["geometry"]["crs"] = json!({ "id": { "authority": "EPSG", "code": code } });
            assert!(parse(&metadata.to_string()).unwrap().crs.unwrap().is_lon_lat());
        }
    }

    #[rstest]
    #[case("/version", json!(1), "version")]
    #[case("/primary_column", json!(123), "primary_column")]
    #[case("/primary_column", json!("geom"), "columns.geom")]
    #[case("/columns", json!([]), "columns")]
    #[case("/columns/geometry", json!("WKB"), "columns.geometry")]
    #[case("/columns/geometry/encoding", json!(1), "columns.geometry.encoding")]
    #[case("/columns/geometry/encoding", json!("wkt"), ".")]
    #[case("/columns/geometry/geometry_types", json!("Point"), "columns.geometry.geometry_types")]
    #[case("/columns/geometry/bbox", json!([1, 2, 3]), "columns.geometry.bbox")]
    #[case("/columns/label/crs", json!("EPSG:27700"), "columns.label.crs")]
    fn malformed_metadata_is_an_error_that_names_the_field(
        #[case] pointer: &str,
        #[case] value: Value,
        #[case] expected: &str,
    ) {
        let mut metadata = valid();
        *metadata.pointer_mut(pointer).unwrap() = value;
        let (field, problem) = parse(&metadata.to_string()).unwrap_err();
        assert_eq!(field, expected, "{problem}");
        assert!(!problem.contains('\n'));
    }

    #[rstest]
    #[case("version")]
    #[case("primary_column")]
    #[case("columns")]
    fn a_missing_field_is_an_error_that_names_it(#[case] key: &str) {
        let mut metadata = valid();
        metadata.as_object_mut().unwrap().remove(key);
        assert_eq!(parse(&metadata.to_string()).unwrap_err(), (key.to_owned(), "is missing".to_owned()));
    }

    #[test]
    fn text_that_is_no_json_is_an_error() {
        assert_eq!(parse("{").unwrap_err().0, ".");
    }
}
