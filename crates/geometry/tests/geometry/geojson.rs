use hexfloe_geometry::{Limits, Problem, facts, from_geojson};
use rstest::rstest;

use crate::{appended, message, wkb};

fn read(json: &str) -> Result<Vec<u8>, Problem> {
    let (there, bytes) = appended(|out| from_geojson(json.as_bytes(), &Limits::default(), out))?;
    assert_eq!(there, !bytes.is_empty());
    Ok(bytes)
}

#[rstest]
#[case(r#"{"type": "Point", "coordinates": [1, 2]}"#, "POINT (1 2)")]
#[case(r#" {"type":"Point","coordinates":[-1.5e1,2.25E+0, 3]} "#, "POINT Z (-15 2.25 3)")]
#[case(r#"{"type":"Point","coordinates":[1,2,3,4,5]}"#, "POINT Z (1 2 3)")]
#[case(r#"{"type":"LineString","coordinates":[[1,2],[3,4]]}"#, "LINESTRING (1 2, 3 4)")]
#[case(
    r#"{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]],[[6,3],[7,3],[7,4],[6,3]]]}"#,
    "POLYGON ((0 0, 9 0, 9 9, 0 0), (6 3, 7 3, 7 4, 6 3))"
)]
#[case(r#"{"type":"MultiPoint","coordinates":[[1,2],[3,4]]}"#, "MULTIPOINT ((1 2), (3 4))")]
#[case(
    r#"{"type":"MultiLineString","coordinates":[[[1,2,0],[3,4,0]],[]]}"#,
    "MULTILINESTRING Z ((1 2 0, 3 4 0), EMPTY)"
)]
#[case(
    r#"{"type":"MultiPolygon","coordinates":[[[[0,0],[9,0],[9,9],[0,0]]],[]]}"#,
    "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0)), EMPTY)"
)]
#[case(r#"{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2]},{"geometries":[],"type":"GeometryCollection"}]}"#, "GEOMETRYCOLLECTION (POINT (1 2), GEOMETRYCOLLECTION EMPTY)")]
fn each_type_is_read(#[case] json: &str, #[case] text: &str) {
    assert_eq!(read(json).unwrap(), wkb(text));
}

#[rstest]
#[case::coordinates_first(r#"{"coordinates":[1,2],"type":"Point"}"#)]
#[case::foreign_members(
    r#"{"crs":{"type":"name"},"bbox":[1,2,1,2],"coordinates":[1,2],"meta":[[[{}]]],"type":"Point","x":null}"#
)]
#[case::escapes(r#"{"\u0074ype":"P\u006fint","co\u006frdinates":[1,2]}"#)]
#[case::white_space("\n{\t\"type\" :\r\n\"Point\" , \"coordinates\" : [ 1 , 2 ] }\n")]
fn order_foreign_members_and_spelling_do_not_matter(#[case] json: &str) {
    assert_eq!(read(json).unwrap(), wkb("POINT (1 2)"));
}

#[test]
fn null_is_no_geometry() {
    assert_eq!(read(" null ").unwrap(), b"");
}

#[rstest]
#[case("Point", "POINT EMPTY")]
#[case("LineString", "LINESTRING EMPTY")]
#[case("Polygon", "POLYGON EMPTY")]
#[case("MultiPoint", "MULTIPOINT EMPTY")]
#[case("MultiLineString", "MULTILINESTRING EMPTY")]
#[case("MultiPolygon", "MULTIPOLYGON EMPTY")]
fn an_empty_array_is_an_empty_geometry(#[case] name: &str, #[case] text: &str) {
    assert_eq!(read(&format!(r#"{{"type":"{name}","coordinates":[]}}"#)).unwrap(), wkb(text));
}

#[rstest]
#[case(r#"{"type":"LineString","coordinates":[[1,2,3],[4,5]]}"#, "LINESTRING (1 2, 4 5)")]
#[case(r#"{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2,3]},{"type":"Point","coordinates":[4,5]}]}"#, "GEOMETRYCOLLECTION (POINT (1 2), POINT (4 5))")]
fn heights_that_only_some_positions_have_are_dropped(#[case] json: &str, #[case] text: &str) {
    assert_eq!(read(json).unwrap(), wkb(text));
}

/// Some of them `serde_json` reads one bit off unless its feature `float_roundtrip` is on, as it does one in eight longitudes that
/// are written with all their digits.
#[rstest]
#[case("122.416294033786585")]
#[case("2.2250738585072011e-308")]
#[case("9007199254740993")]
#[case("0.500000000000000166533453693773481063544750213623046875")]
#[case("-99.37517920668861")]
#[case("179.99999999999997")]
#[case("-0.0")]
#[case("-43.172896500000004")]
fn numbers_are_the_nearest_there_are(#[case] number: &str) {
    let bytes = read(&format!(r#"{{"type":"Point","coordinates":[{number},0]}}"#)).unwrap();
    let nearest: f64 = number.parse().unwrap();
    assert_eq!(bytes[5..13], nearest.to_le_bytes());
}

#[rstest]
#[case::no_json("{", "cannot be read: EOF while parsing an object at line 1 column 1")]
#[case::not_an_object("[1,2]", "cannot be read: \"[1,2]\" is no geometry object")]
#[case::an_array_of_the_members(
    r#"["Point",[1,2],null]"#,
    "cannot be read: \"[\\\"Point\\\",[1,2],null]\" is no geometry object"
)]
#[case::feature(r#"{"type":"Feature","geometry":null}"#, "cannot be read: there is no geometry type \"Feature\"")]
#[case::no_type(r#"{"coordinates":[1,2]}"#, "cannot be read: missing field `type` at line 1 column 21")]
#[case::two_types(r#"{"type":"Point","type":"Point"}"#, "cannot be read: duplicate field `type` at line 1 column 22")]
#[case::no_coordinates(r#"{"type":"Point","geometries":[]}"#, "cannot be read: a Point has no coordinates")]
#[case::no_geometries(
    r#"{"type":"GeometryCollection","coordinates":[]}"#,
    "cannot be read: a GeometryCollection has no geometries"
)]
#[case::null_coordinates(r#"{"type":"Point","coordinates":null}"#, "cannot be read: a Point has no coordinates")]
#[case::one_number(
    r#"{"type":"Point","coordinates":[1]}"#,
    "cannot be read: a position has 1 number, where it has 2 or 3"
)]
#[case::text(r#"{"type":"Point","coordinates":[1,"2"]}"#, "cannot be read: \"\\\"2\\\"]\" is where a number should be")]
#[case::null(r#"{"type":"Point","coordinates":[1,null]}"#, "cannot be read: \"null]\" is where a number should be")]
#[case::too_deep(r#"{"type":"Point","coordinates":[[1,2]]}"#, "cannot be read: \"[1,2]]\" is where a number should be")]
#[case::too_flat(
    r#"{"type":"LineString","coordinates":[1,2]}"#,
    "cannot be read: \"1,2]\" is where an array should be"
)]
#[case::no_position(
    r#"{"type":"LineString","coordinates":[[],[1,2]]}"#,
    "cannot be read: a position is an empty array"
)]
#[case::null_member(
    r#"{"type":"GeometryCollection","geometries":[null]}"#,
    "cannot be read: \"null\" is no geometry object"
)]
#[case::infinite(r#"{"type":"Point","coordinates":[1,1e400]}"#, "has a coordinate that is inf, not a finite number")]
#[case::unclosed(
    r#"{"type":"Polygon","coordinates":[[],[[0,0],[1,0],[1,1],[0,1]]]}"#,
    "has a ring that is not closed (ring 2)"
)]
#[case::short_ring(
    r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[0,0]]]}"#,
    "cannot be read: ring 1 has 3 coordinates, where a ring has 4 or more"
)]
fn what_is_no_geometry_is_told(#[case] json: &str, #[case] expected: &str) {
    assert_eq!(message(read(json)), expected);
}

#[test]
fn what_is_beyond_the_limits_is_not_read() {
    let limits = Limits { depth: 2, coordinates: 3, ..Limits::default() };
    let read = |json: &str| appended(|out| from_geojson(json.as_bytes(), &limits, out));
    let collection = |inner: &str| format!(r#"{{"geometries":[{inner}],"type":"GeometryCollection"}}"#);
    let two = collection(&collection(""));
    assert!(read(&two).is_ok());
    assert_eq!(message(read(&collection(&two))), "is beyond the limits: collections are nested more than 2 deep");
    assert!(read(r#"{"type":"LineString","coordinates":[[1,2],[3,4],[5,6]]}"#).is_ok());
    assert_eq!(
        message(read(r#"{"type":"LineString","coordinates":[[1,2],[3,4],[5,6],[7,8]]}"#)),
        "is beyond the limits: it has more than 3 coordinates"
    );
}

#[test]
fn what_is_nested_without_end_does_not_use_up_the_stack() {
    let nested = |open: &str, close: &str| open.repeat(100_000) + &close.repeat(100_000);
    let limits = Limits { depth: usize::MAX, ..Limits::default() };
    let read = |json: String| appended(|out| from_geojson(json.as_bytes(), &limits, out));
    assert!(read(nested("[", "]")).is_err());
    assert!(read(format!(r#"{{"type":"Point","coordinates":{}}}"#, nested("[", "]"))).is_err());
    assert!(read(format!(r#"{{"type":"Point","coordinates":[1,2],"foreign":{}}}"#, nested("[", "]"))).is_ok());
    assert_eq!(
        message(read(nested(r#"{"type":"GeometryCollection","geometries":["#, "]}"))),
        "is beyond the limits: collections are nested more than 100 deep"
    );
}

#[test]
fn a_geometry_of_nothing_has_no_box() {
    let found =
        facts(&read(r#"{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[]}]}"#).unwrap());
    assert_eq!(found.unwrap().bbox, None);
}
