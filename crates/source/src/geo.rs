//! The `geo` metadata of GeoParquet: which column is the geometry, and in which coordinate reference system.
//!
//! The text is checked field by field before the `geoparquet` crate reads it, so that an error names the field; that crate
//! would say `invalid type: integer 123` and not where. Bounding boxes are never used to leave out rows: one that crosses the
//! antimeridian has its west to the east of its east.

use std::fmt;

use geoparquet::metadata::GeoParquetMetadata;
use hexfloe_crs::Crs;
use serde_json::{Map, Value};

use crate::declared;
use crate::error::{Error, one_line};
use crate::files::InputFile;
use crate::row_groups::Footer;

/// A geometry column of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometryColumn {
    /// The name of the column.
    pub column: String,
    /// How a geometry is written: `WKB`, or a native encoding of GeoArrow such as `point`.
    pub encoding: String,
    /// The coordinate reference system.
    pub crs: StatedCrs,
}

/// What files say of the coordinate reference system of a geometry column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatedCrs {
    /// They state it, or say that it is unknown.
    Stated(Crs),
    /// They say nothing, and their format defines that to be OGC:CRS84 (longitude and latitude in degrees on WGS 84).
    Default,
    /// They say nothing, and that means nothing.
    Missing,
}

impl StatedCrs {
    /// The system, where it is known to be one.
    #[must_use]
    pub fn known(&self) -> Option<Crs> {
        match self {
            Self::Stated(crs) if crs.is_unknown() => None,
            Self::Stated(crs) => Some(crs.clone()),
            Self::Default => Some(Crs::lon_lat()),
            Self::Missing => None,
        }
    }
}

impl StatedCrs {
    /// Whether the two mean one system: what one file says in words may be the default of another.
    fn is_that_of(&self, other: &Self) -> bool {
        let is_lon_lat = |stated: &Self| stated.known().is_some_and(|crs| crs.is_lon_lat());
        self == other || (is_lon_lat(self) && is_lon_lat(other))
    }
}

impl fmt::Display for StatedCrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stated(crs) => crs.fmt(f),
            Self::Default => f.write_str("OGC:CRS84"),
            Self::Missing => f.write_str("no stated coordinate reference system"),
        }
    }
}

/// A system by its code, where the file has a definition too. What of that cannot be read says nothing against the code.
pub(crate) fn by_code(authority: &str, code: &str, definition: Option<&str>) -> Result<Crs, String> {
    let crs = Crs::of_code(authority, code);
    match definition.map(Crs::from_wkt) {
        Some(Ok(defined)) if defined.id().is_some() && !defined.is_same(&crs) => Err(format!(
            "says that its reference system is {crs}, and defines it as {defined}: only one of them can be right"
        )),
        _ => Ok(crs),
    }
}

/// The geometry columns that all files agree on, the primary one first.
pub(crate) fn agreed(
    files: &[InputFile],
    of_file: impl Fn(&InputFile) -> Result<Vec<GeometryColumn>, Error>,
) -> Result<Vec<GeometryColumn>, Error> {
    let mut agreed: Option<(&InputFile, Vec<GeometryColumn>)> = None;
    for file in files {
        let columns = of_file(file)?;
        let Some((first, known)) = &agreed else {
            agreed = Some((file, columns));
            continue;
        };
        for (known, geometry) in known.iter().zip(&columns) {
            let differ = |problem: String| Error::FilesDiffer {
                first: first.path().to_owned(),
                second: file.path().to_owned(),
                column: known.column.clone(),
                problem,
            };
            if known.column != geometry.column {
                let other = &geometry.column;
                return Err(differ(format!("is the geometry of the first, and `{other}` that of the second")));
            }
            if known.encoding != geometry.encoding {
                let (one, two) = (&known.encoding, &geometry.encoding);
                return Err(differ(format!("is encoded as {one} in the first and as {two} in the second")));
            }
            if !known.crs.is_that_of(&geometry.crs) {
                let (one, two) = (&known.crs, &geometry.crs);
                return Err(differ(format!("is in {one} in the first and in {two} in the second")));
            }
        }
        if known.len() != columns.len() {
            let (longer, shorter) = if known.len() > columns.len() { (known, &columns) } else { (&columns, known) };
            return Err(Error::FilesDiffer {
                first: first.path().to_owned(),
                second: file.path().to_owned(),
                column: longer[shorter.len()].column.clone(),
                problem: "is a geometry in one of them only".to_owned(),
            });
        }
    }
    Ok(agreed.map(|(_, columns)| columns).unwrap_or_default())
}

/// The geometry columns of a GeoParquet file.
pub(crate) fn of_parquet(file: &InputFile) -> Result<Vec<GeometryColumn>, Error> {
    let footer = Footer::read(file)?;
    let entries = footer.metadata.metadata().file_metadata().key_value_metadata();
    let entry = entries.and_then(|entries| entries.iter().find(|entry| entry.key == "geo"));
    let Some(text) = entry.and_then(|entry| entry.value.as_deref()) else {
        let problem = "has no `geo` metadata, so it is no GeoParquet file: use format = \"parquet\" and say which column holds \
                       the geometry";
        return Err(Error::unreadable(file.path(), problem));
    };
    let columns =
        parse(text).map_err(|(field, problem)| Error::Geo { file: file.path().to_owned(), field, problem })?;
    for (index, geometry) in columns.iter().enumerate() {
        let names = footer.metadata.schema().fields().iter().map(|field| field.name().as_str());
        declared::require(&geometry.column, names, file.path()).map_err(|error| Error::Geo {
            file: file.path().to_owned(),
            field: if index == 0 { "primary_column".to_owned() } else { format!("columns.{}", geometry.column) },
            problem: error.to_string(),
        })?;
    }
    Ok(columns)
}

/// A field, and what is wrong with it.
type Problem = (String, String);

/// The columns that the metadata names, the primary one first, the others by name.
fn parse(text: &str) -> Result<Vec<GeometryColumn>, Problem> {
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
    let others = columns.iter().filter(|(name, _)| *name != primary);
    std::iter::once((&primary.to_owned(), column))
        .chain(others)
        .map(|(name, column)| {
            let path = format!("columns.{name}");
            let column = object(column, &path)?;
            let crs = match column.get("crs") {
                None => StatedCrs::Default,
                Some(crs) => StatedCrs::Stated(
                    Crs::from_projjson(&crs.to_string()).map_err(|error| (format!("{path}.crs"), one_line(&error)))?,
                ),
            };
            let encoding = string(column, "encoding", &format!("{path}.encoding"))?.to_owned();
            Ok(GeometryColumn { column: name.clone(), encoding, crs })
        })
        .collect()
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

    fn stated(metadata: &Value) -> Crs {
        match parse(&metadata.to_string()).unwrap().remove(0).crs {
            StatedCrs::Stated(crs) => crs,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_primary_column_is_known_and_no_crs_means_the_default() {
        let columns = parse(&valid().to_string()).unwrap();
        let primary = GeometryColumn { column: "geometry".into(), encoding: "WKB".into(), crs: StatedCrs::Default };
        assert_eq!(columns[0], primary);
        assert_eq!(columns[1].column, "label");
    }

    #[test]
    fn the_crs_is_that_of_the_primary_column() {
        let mut metadata = valid();
        metadata["primary_column"] = json!("label");
        let crs = stated(&metadata);
        assert_eq!(crs.id(), Some("EPSG:27700"));
        assert_eq!(crs.to_string(), "EPSG:27700 (British)");
        assert!(!crs.is_lon_lat());
    }

    #[test]
    fn a_null_crs_is_unknown_and_not_the_default() {
        let mut metadata = valid();
        metadata["columns"]["geometry"]["crs"] = Value::Null;
        let crs = stated(&metadata);
        assert!(!crs.is_lon_lat());
        assert_eq!(crs.to_string(), "an unknown coordinate reference system");
    }

    #[test]
    fn codes_may_be_texts_or_numbers() {
        for code in [json!(4326), json!("4326")] {
            let mut metadata = valid();
            metadata["columns"]["geometry"]["crs"] = json!({ "id": { "authority": "EPSG", "code": code } });
            assert!(stated(&metadata).is_lon_lat());
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
