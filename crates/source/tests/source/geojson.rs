//! GeoJSON: documents and sequences, whatever the order of members, and what is refused.

use std::fmt::Write as _;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use hexfloe_source::{ErrorKind, Format, ScanOptions, Source, SourceSettings, StatedCrs};
use proptest::prelude::*;
use rstest::rstest;
use tempfile::TempDir;

use crate::{Rows, folder, read, refusal, schema_of, settings};

const POINT: &str = r#"{"type":"Point","coordinates":[1,2]}"#;
/// `POINT (1 2)`.
const WKB: &str = "0101000000000000000000f03f0000000000000040";

fn document(content: &str) -> (TempDir, SourceSettings) {
    (folder(&[("a.geojson", content.as_bytes())]), settings(Format::Geojson, &["a.geojson"]))
}

fn sequence(content: &str) -> (TempDir, SourceSettings) {
    (folder(&[("a.geojson", content.as_bytes())]), settings(Format::Geojsonseq, &["a.geojson"]))
}

fn rows((folder, settings): (TempDir, SourceSettings)) -> Rows {
    read(&folder, settings, &ScanOptions::default()).unwrap()
}

fn problem((folder, settings): (TempDir, SourceSettings)) -> String {
    let error = refusal(&folder, settings, &ScanOptions::default());
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    error.to_string()
}

/// A feature with these properties, as JSON.
fn feature(properties: &str) -> String {
    format!(r#"{{"type":"Feature","geometry":{POINT},"properties":{properties}}}"#)
}

fn collection(properties: &[&str]) -> String {
    let features: Vec<String> = properties.iter().map(|properties| feature(properties)).collect();
    format!(r#"{{"type":"FeatureCollection","features":[{}]}}"#, features.join(","))
}

fn crs((folder, settings): (TempDir, SourceSettings)) -> StatedCrs {
    let source = Source::open(settings, folder.path()).unwrap();
    let mut geometries = source.geometries().unwrap();
    assert_eq!(geometries.len(), 1);
    let geometry = geometries.remove(0);
    assert_eq!((geometry.column.as_str(), geometry.encoding.as_str()), ("geometry", "WKB"));
    geometry.crs
}

#[rstest]
#[case::the_usual(r#"{"type":"FeatureCollection","features":[@]}"#)]
#[case::type_last(r#"{"features":[@],"type":"FeatureCollection"}"#)]
#[case::bbox_first(r#"{"bbox":[177,-20,-178,-15],"type":"FeatureCollection","features":[@]}"#)]
#[case::foreign_members(
    r#"{"features_":[1],"a":{"features":[{"x":"]}"}],"b":["features",[]]},"t":"\"features\":[\\","type":"FeatureCollection","features":[@],"z":[[],{}]}"#
)]
#[case::an_escaped_name(r#"{"\u0074ype":"FeatureCollection","feature\u0073":[@]}"#)]
#[case::blanks_everywhere(" \r\n{ \"type\" : \"FeatureCollection\" ,\n\"features\"\t: [ @ ] } \n\n")]
#[case::a_byte_order_mark("\u{feff}{\"type\":\"FeatureCollection\",\"features\":[@]}")]
#[case::a_single_feature("@")]
fn the_features_are_found_whatever_the_order_of_members(#[case] content: &str) {
    let rows = rows(document(&content.replace('@', &feature(r#"{"v":7}"#))));
    assert_eq!(rows.schema, ["v:long", "geometry:BinaryView"]);
    assert_eq!(rows.values(), [format!("7|{WKB}")]);
}

#[test]
fn a_bare_geometry_is_a_row_without_properties() {
    let rows = rows(document(POINT));
    assert_eq!(rows.schema, ["geometry:BinaryView"]);
    assert_eq!(rows.values(), [WKB]);
}

#[test]
fn a_single_feature_may_say_what_it_is_at_its_end() {
    let rows = rows(document(&format!(r#"{{"properties":{{"v":7}},"geometry":{POINT},"type":"Feature"}}"#)));
    assert_eq!(rows.values(), [format!("7|{WKB}")]);
}

#[test]
fn members_of_a_feature_may_come_in_any_order_and_its_bbox_is_ignored() {
    let content = format!(
        r#"{{"type":"FeatureCollection","features":[{{"bbox":[177,-20,-178,-15],"x":{{"properties":{{"v":8}}}},"properties":{{"v":7}},"id":1,"geometry":{POINT},"type":"Feature"}}]}}"#
    );
    assert_eq!(rows(document(&content)).values(), [format!("7|{WKB}")]);
}

#[rstest]
#[case(&["1", "2"], "long", &["1", "2"])]
#[case(&["1.5", "null", "\"x\"", "2"], "string", &["1.5", "∅", "x", "2"])]
#[case(&["\"null\"", "null"], "string", &["null", "∅"])]
#[case(&["\"01569\"", "\"2\""], "string", &["01569", "2"])]
#[case(&["1", "3000000000", "\"x\""], "string", &["1", "3000000000", "x"])]
#[case(&["true", "null"], "boolean", &["true", "∅"])]
fn properties_have_the_types_that_ndjson_would_give_them(
    #[case] values: &[&str],
    #[case] data_type: &str,
    #[case] expected: &[&str],
) {
    let properties: Vec<String> = values.iter().map(|value| format!(r#"{{"v":{value}}}"#)).collect();
    let properties: Vec<&str> = properties.iter().map(String::as_str).collect();
    let rows = rows(document(&collection(&properties)));
    assert_eq!(rows.schema[0], format!("v:{data_type}"));
    let expected: Vec<String> = expected.iter().map(|value| format!("{value}|{WKB}")).collect();
    assert_eq!(rows.values(), expected);
}

#[test]
fn a_late_type_change_is_a_reject_where_the_type_is_declared() {
    let (folder, mut settings) =
        document(&collection(&[r#"{"v":1.5}"#, r#"{"v":null}"#, r#"{"v":"x"}"#, r#"{"v":2}"#]));
    settings.schema = schema_of(&[("v", "double")]);
    let rows = read(&folder, settings, &ScanOptions::default()).unwrap();
    assert_eq!(rows.values(), ["1.5", "∅", "∅", "2.0"].map(|value| format!("{value}|{WKB}")));
    assert_eq!(rows.rejects, ["a.geojson:3 column v: \"x\" is no double"]);
}

#[test]
fn properties_that_are_null_or_missing_are_rows_of_nulls() {
    let missing = format!(r#"{{"type":"Feature","geometry":{POINT}}}"#);
    let content = format!("{}\n{}\n{missing}\n", feature("null"), feature(r#"{"v":1}"#));
    assert_eq!(rows(sequence(&content)).values(), [format!("∅|{WKB}"), format!("1|{WKB}"), format!("∅|{WKB}")]);
}

#[test]
fn a_null_geometry_is_null_and_an_empty_one_is_kept() {
    let content = r#"{"type":"FeatureCollection","features":[
        {"type":"Feature","geometry":null,"properties":{"v":1}},
        {"type":"Feature","properties":{"v":2}},
        {"type":"Feature","geometry":{"type":"Point","coordinates":[]},"properties":{"v":3}},
        {"type":"Feature","geometry":{"type":"Polygon","coordinates":[]},"properties":{"v":4}}]}"#;
    let rows = rows(document(content));
    assert_eq!(rows.values(), ["1|∅", "2|∅", "3|0101000000000000000000f87f000000000000f87f", "4|010300000000000000"]);
    assert!(rows.rejects.is_empty());
}

#[test]
fn a_bad_geometry_is_a_reject_of_its_row() {
    let content = format!(
        r#"{{"type":"FeatureCollection","features":[{},{{"type":"Feature","geometry":{{"type":"Point","coordinates":["x"]}},"properties":{{"v":2}}}}]}}"#,
        feature(r#"{"v":1}"#)
    );
    let rows = rows(document(&content));
    assert_eq!(rows.values(), [format!("1|{WKB}"), "2|∅".to_owned()]);
    assert_eq!(rows.rejects.len(), 1);
    assert!(rows.rejects[0].starts_with("a.geojson:2 the geometry"), "{}", rows.rejects[0]);
}

#[rstest]
#[case(&["7", "8"], DataType::Int64, &["7", "8"])]
#[case(&["7", "null"], DataType::Int64, &["7", "∅"])]
#[case(&["7", "\"x\""], DataType::Utf8, &["7", "x"])]
#[case(&["1.50", "\"x\""], DataType::Utf8, &["1.50", "x"])]
fn features_keep_their_ids(#[case] ids: &[&str], #[case] data_type: DataType, #[case] expected: &[&str]) {
    let features: Vec<String> =
        ids.iter().map(|id| format!(r#"{{"type":"Feature","id":{id},"geometry":null,"properties":null}}"#)).collect();
    let (folder, settings) = sequence(&features.join("\n"));
    let source = Source::open(settings, folder.path()).unwrap();
    let mut scan = source.scan(&ScanOptions::default()).unwrap();
    let batch = scan.next_piece().unwrap().unwrap().decode().unwrap().batches.remove(0);
    let found = batch.feature_ids.unwrap();
    assert_eq!(*found.data_type(), data_type);
    for (row, expected) in expected.iter().enumerate() {
        let shown = if found.is_null(row) {
            "∅".to_owned()
        } else {
            arrow::util::display::array_value_to_string(&found, row).unwrap()
        };
        assert_eq!(shown, *expected);
    }
}

#[test]
fn features_without_ids_have_none() {
    let (folder, settings) = sequence(&feature("{}"));
    let mut scan = Source::open(settings, folder.path()).unwrap().scan(&ScanOptions::default()).unwrap();
    let batch = scan.next_piece().unwrap().unwrap().decode().unwrap().batches.remove(0);
    assert!(batch.feature_ids.is_none());
    assert_eq!(batch.batch.column(0).as_binary_view().value(0).len(), 21);
}

#[test]
fn a_collection_without_features_has_a_geometry_column_and_no_rows() {
    let rows = rows(document(r#"{"type":"FeatureCollection","features":[]}"#));
    assert_eq!((rows.schema, rows.rows.len()), (vec!["geometry:BinaryView".to_owned()], 0));
}

#[rstest]
#[case::lines("A\nB\n", 2)]
#[case::no_last_line_break("A\nB", 2)]
#[case::blank_lines("\n\r\nA\r\n\n  \nB\n\n", 2)]
#[case::separators("\u{1e}A\n\u{1e}B\n", 2)]
#[case::separators_and_blank_lines("\n\u{1e}\u{1e}A\n\n\u{1e}\nB\n\u{1e}\n", 2)]
#[case::a_byte_order_mark("\u{feff}A\n", 1)]
fn sequences_are_lines_or_separated_records(#[case] content: &str, #[case] expected: usize) {
    let content = content.replace('A', &feature(r#"{"v":1}"#)).replace('B', &feature(r#"{"v":2}"#));
    let rows = rows(sequence(&content));
    assert_eq!(rows.values().len(), expected);
    assert_eq!(rows.bytes, content.len() as u64);
}

#[test]
fn a_separated_record_may_go_on_over_lines() {
    let content = format!("\u{1e}{}\n\u{1e}{}\n", feature("{\n\"v\":\n1}"), feature("{\"v\":2}"));
    assert_eq!(rows(sequence(&content)).values().len(), 2);
}

const URN: &str = r#"{"type":"name","properties":{"name":"urn:ogc:def:crs:EPSG::27700"}}"#;

#[rstest]
#[case::before(r#"{"crs":URN,"type":"FeatureCollection","features":[F]}"#)]
#[case::behind(r#"{"type":"FeatureCollection","features":[F],"crs":URN}"#)]
#[case::behind_all(r#"{"features":[F],"crs":URN,"type":"FeatureCollection"}"#)]
#[case::in_the_feature(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","geometry":null,"properties":{},"crs":URN}]}"#
)]
#[case::in_the_geometry(r#"{"type":"FeatureCollection","features":[{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2],"crs":URN},"properties":{}}]}"#)]
#[case::a_geometry(r#"{"type":"Point","crs":URN,"coordinates":[1,2]}"#)]
fn the_old_crs_member_is_obeyed_wherever_it_stands(#[case] content: &str) {
    let content = content.replace("[F]", &format!("[{}]", feature("{}"))).replace("URN", URN);
    // `feature` has no `crs`: where the collection states one, it is that of its features.
    match crs(document(&content)) {
        StatedCrs::Stated(crs) => assert_eq!(crs, hexfloe_crs::Crs::parse("urn:ogc:def:crs:EPSG::27700").unwrap()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_crs_is_the_default_and_null_is_unknown() {
    assert_eq!(crs(document(&collection(&["{}"]))), StatedCrs::Default);
    let unknown = crs(document(r#"{"type":"FeatureCollection","features":[],"crs":null}"#));
    assert!(unknown.known().is_none(), "{unknown:?}");
}

#[test]
fn files_agree_where_one_says_what_is_the_default_of_the_other() {
    let stated = r#"{"type":"FeatureCollection","features":[],"crs":{"type":"name","properties":{"name":"urn:ogc:def:crs:OGC:1.3:CRS84"}}}"#;
    let other = format!(r#"{{"type":"FeatureCollection","features":[],"crs":{URN}}}"#);
    let open = |second: &str| {
        let folder = folder(&[("a.geojson", collection(&["{}"]).as_bytes()), ("b.geojson", second.as_bytes())]);
        Source::open(settings(Format::Geojson, &["*.geojson"]), folder.path()).unwrap().geometries()
    };
    assert_eq!(open(stated).unwrap()[0].crs, StatedCrs::Default);
    let error = open(&other).unwrap_err().to_string();
    assert!(error.contains("column `geometry` is in OGC:CRS84 in the first and in EPSG:27700"), "{error}");
}

#[rstest]
#[case(r#"{"type":"link","properties":{"href":"http://x"}}"#, "`crs` is a link, which is not followed")]
#[case(r#"{"type":"name","properties":{}}"#, "`crs.properties.name` is no text")]
#[case("7", "`crs` is neither null nor of the type `name`")]
fn a_crs_that_says_nothing_is_refused(#[case] crs: &str, #[case] message: &str) {
    let said = problem(document(&format!(r#"{{"type":"FeatureCollection","features":[],"crs":{crs}}}"#)));
    assert!(said.contains(message), "{said}");
}

#[test]
fn features_in_different_systems_are_refused() {
    let one = format!(r#"{{"type":"Feature","geometry":null,"properties":{{}},"crs":{URN}}}"#);
    let said = problem(sequence(&format!("{one}\n{}\n", feature("{}"))));
    assert!(said.contains("feature 1 is in ") && said.contains("feature 2 does not say"), "{said}");
    let said = problem(sequence(&format!("{one}\n{}\n", one.replace("27700", "2154"))));
    assert!(said.contains("feature 2: is in ") && said.contains("and feature 1 in"), "{said}");
}

#[rstest]
#[case(r#"{"type":"Topology","objects":{},"arcs":[]}"#, "is TopoJSON, whose geometries are shared arcs: convert it")]
#[case(r#"{"type":"Table","features":[]}"#, "`type` is \"Table\", which is nothing that GeoJSON knows")]
#[case(r#"{"features":[]}"#, "the document has no `type`")]
#[case(r#"{}"#, "the document has no `type`")]
#[case(r#"{"geometryType":"esriGeometryPoint","features":[]}"#, "is Esri JSON")]
#[case(r#"{"type":"FeatureCollection"}"#, "has no `features`")]
#[case(r#"{"type":7,"features":[]}"#, "byte 8: `type` is 7, not a text")]
#[case(r#"{"type":"FeatureCollection","features":[],"features":[]}"#, "has `features` twice")]
#[case(r#"{"type":"FeatureCollection","type":"FeatureCollection","features":[]}"#, "the member `type` is there twice")]
#[case(r#"{"features":[],"type":"Feature"}"#, "its `type` is not \"FeatureCollection\"")]
#[case(
    r#"{"type":"FeatureCollection","features":null}"#,
    "byte 39: `n` where the `[` of the list `features` is wanted"
)]
#[case(r#"{"type":"FeatureCollection","features":{}}"#, "where the `[` of the list `features` is wanted")]
#[case(
    r#"{"type":"FeatureCollection","features":[7]}"#,
    "feature 1, byte 40: `7` where the `{` of a feature is wanted"
)]
#[case(r#"{"type":"FeatureCollection","features":[@ @]}"#, "byte 123: `{` where `,` or `]` is wanted")]
#[case(
    r#"{"type":"FeatureCollection","features":[@,]}"#,
    "feature 2, byte 123: `]` where the `{` of a feature is wanted"
)]
#[case(r#"{"type":"FeatureCollection","features":[@,,@]}"#, "feature 2, byte 123: `,` where")]
#[case(r#"{"type":"FeatureCollection","features":[@],}"#, "byte 124: `}` where the name of a member is wanted")]
#[case(
    r#"{"type":"FeatureCollection","features":[@]"#,
    "byte 123: the file ends where `,` or `}` is wanted: it is cut off"
)]
#[case(r#"{"type":"FeatureCollection","features":[@"#, "the file ends where `,` or `]` is wanted: it is cut off")]
#[case(r#"{"type":"FeatureCollection","features":[@]} x"#, "there is more behind the end of the document")]
#[case("@\n@", "if each line is a feature, use format = \"geojsonseq\"")]
#[case("\u{1e}@", "use format = \"geojsonseq\"")]
#[case("", "a.geojson: byte 0: is empty")]
#[case("[@]", "`[` where the `{` of a GeoJSON object is wanted")]
#[case(
    r#"{"type":"FeatureCollection","features":[{"geometry":null,"properties":{}}]}"#,
    "feature 1, byte 40: has no `type`"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Point","coordinates":[NaN,1]}]}"#,
    "NaN and Infinity are no JSON"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"FeatureCollection","features":[]}]}"#,
    "in place of a feature"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":[]}]}"#,
    "`properties` is neither an object nor null"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","id":true}]}"#,
    "`id` is neither a text nor a number"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","id":1,"id":2}]}"#,
    "the member `id` is there twice"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"geometry":1}}]}"#,
    "a property is called `geometry`"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"v":1,"v":2}}]}"#,
    "the field `v` is there twice"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"v":01}}]}"#,
    "`1` where `,` or `}` is wanted"
)]
#[case(
    "{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Feature\",\"properties\":{\"v\":\"a\nb\"}}]}",
    "byte 0x0a where the end of a text"
)]
#[case(
    r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"v":"\x"}}]}"#,
    "a backslash is not followed"
)]
#[case(r#"{"type":"FeatureCollection","x":tru,"features":[]}"#, "`,` where true, false or null is wanted")]
fn a_document_that_is_no_geojson_is_refused_with_its_place(#[case] content: &str, #[case] message: &str) {
    let content = content.replace('@', &feature("{}"));
    let said = problem(document(&content));
    assert!(said.contains(message), "{said}");
}

#[rstest]
#[case("@ @\n", "`{` where a line break between two features is wanted")]
#[case("@\n{\"type\":\n\"Feature\"}\n", "feature 2, byte 83: the feature goes on over several lines")]
#[case("@\n{\"type\":\"Feat", "feature 2, byte 96: the file ends where the end of a text is wanted: it is cut off")]
#[case("\u{1e}@\n\u{1e}{\"type\":\"Feature\"", "the file ends where `,` or `}` is wanted: it is cut off")]
#[case(
    "\u{1e}@\n\u{1e}{\"type\":\u{1e}@\n",
    "a record separator where a value is wanted: the record before it is cut off"
)]
#[case("\u{1e}@\n@\n", "`{` where a record separator is wanted")]
#[case("@\n\u{1e}@\n", "a record separator where")]
#[case("@\n{\"type\":\"FeatureCollection\",\"features\":[]}\n", "use format = \"geojson\"")]
#[case("@\n[]\n", "feature 2, byte 83: `[` where the `{` of a feature is wanted")]
#[case("\n", "holds no feature")]
fn a_sequence_that_is_broken_is_refused_with_its_place(#[case] content: &str, #[case] message: &str) {
    let content = content.replace('@', &feature("{}"));
    let said = problem(sequence(&content));
    assert!(said.contains(message), "{said}");
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_place() {
    let folder = folder(&[(
        "a.geojson",
        b"{\"type\":\"FeatureCollection\",\"features\":[{\"type\":\"Feature\",\"properties\":{\"v\":\"caf\xe9\"}}]}",
    )]);
    let error = refusal(&folder, settings(Format::Geojson, &["a.geojson"]), &ScanOptions::default());
    assert!(error.to_string().starts_with("a.geojson: feature 1, byte 80: is not UTF-8"), "{error}");
}

#[rstest]
#[case(31, true)]
#[case(32, false)]
fn properties_are_nested_as_deep_as_the_limit_says(#[case] depth: usize, #[case] fits: bool) {
    let properties = format!("{{\"v\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
    let (folder, settings) = document(&collection(&[&properties]));
    let found = read(&folder, settings, &ScanOptions::default());
    assert_eq!(found.is_ok(), fits, "{found:?}");
}

#[test]
fn endless_nesting_of_what_is_passed_over_is_an_error_and_no_stack_overflow() {
    let said = problem(document(&format!("{{\"x\":{}", "[".repeat(1 << 20))));
    assert!(said.contains("nested deeper than 120"), "{said}");
}

#[test]
fn a_feature_longer_than_the_limit_is_refused_and_a_longer_collection_is_not() {
    let long = format!(r#"{{"v":"{}"}}"#, "x".repeat(2 << 20));
    let (folder, mut settings) = document(&collection(&[r#"{"v":"a"}"#, &long]));
    settings.limits.record_bytes = 1 << 20;
    let error = refusal(&folder, settings.clone(), &ScanOptions::default());
    assert!(error.to_string().contains("feature 2, byte "), "{error}");
    assert!(error.to_string().contains("longer than 1048576 bytes (source.limits.record_bytes)"), "{error}");

    // The type comes last, behind more than a record may have.
    let short = format!(r#"{{"v":"{}"}}"#, "x".repeat(1 << 18));
    let many = collection(&[&*short; 12]);
    let features = many.strip_prefix(r#"{"type":"FeatureCollection","#).unwrap().strip_suffix('}').unwrap();
    let foreign = format!(r#""x":"{}""#, "y".repeat(3 << 20));
    for content in [
        format!(r#"{{{foreign},{features},"type":"FeatureCollection"}}"#),
        format!(r#"{{"type":"FeatureCollection",{features},{foreign}}}"#),
    ] {
        let (folder, mut settings) = document(&content);
        settings.limits.record_bytes = 1 << 20;
        assert_eq!(read(&folder, settings, &ScanOptions::default()).unwrap().rows.len(), 12);
    }
}

#[test]
fn several_files_are_one_source() {
    let folder = folder(&[
        ("a.geojson", collection(&[r#"{"v":1}"#, r#"{"v":2}"#]).as_bytes()),
        ("b.geojson", collection(&[r#"{"w":"x"}"#]).as_bytes()),
    ]);
    let rows = read(&folder, settings(Format::Geojson, &["*.geojson"]), &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema, ["v:long", "w:string", "geometry:BinaryView"]);
    assert_eq!(
        rows.rows,
        [format!("a.geojson:1 1|∅|{WKB}"), format!("a.geojson:2 2|∅|{WKB}"), format!("b.geojson:1 ∅|x|{WKB}"),]
    );
}

#[test]
fn a_geometry_column_can_be_declared_as_nothing_but_binary() {
    let (folder, mut settings) = document(&collection(&["{}"]));
    settings.schema = schema_of(&[("geometry", "string")]);
    let error = refusal(&folder, settings.clone(), &ScanOptions::default());
    assert!(error.to_string().starts_with("source.schema.geometry: "), "{error}");
    settings.schema = schema_of(&[("geometry", "binary")]);
    assert_eq!(read(&folder, settings, &ScanOptions::default()).unwrap().values(), [WKB]);
}

/// Features as people write them: texts with what JSON escapes, nested values, nulls.
fn property() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i32>().prop_map(|v| v.to_string()),
        (-1e3..1e3f64).prop_map(|v| format!("{v:?}")),
        Just("null".to_owned()),
        "[a-z\"\\\\{}\\[\\],: é\u{1f600}]{0,20}".prop_map(|v| serde_json::to_string(&v).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn neither_schema_nor_rows_depend_on_the_size_of_batches_or_on_the_layout(
        values in prop::collection::vec(property(), 1..40),
        batch_rows in 1usize..50,
    ) {
        let properties: Vec<String> = values.iter().map(|value| format!("{{\"v\": {value}}}")).collect();
        let whole: Vec<&str> = properties.iter().map(String::as_str).collect();
        let mut lines = String::new();
        properties.iter().for_each(|properties| writeln!(lines, "{}", feature(properties)).unwrap());
        let read = |(folder, settings): (TempDir, SourceSettings), batch_rows| {
            read(&folder, settings, &ScanOptions { batch_rows, ..ScanOptions::default() }).unwrap()
        };
        let (one, parts) = (read(document(&collection(&whole)), 1000), read(document(&collection(&whole)), batch_rows));
        let sequence = read(sequence(&lines), batch_rows);
        prop_assert_eq!(one.rows.len(), values.len());
        prop_assert_eq!(&one.schema, &parts.schema);
        prop_assert_eq!(&one.rows, &parts.rows);
        prop_assert_eq!(&one.schema, &sequence.schema);
        prop_assert_eq!(&one.rows, &sequence.rows);
    }

    #[test]
    fn a_file_that_is_cut_off_is_never_read(cut in 0usize..1000) {
        let content = collection(&[r#"{"v":"é"}"#, r#"{"v":[1,{"a":null}]}"#].map(|one| one));
        let cut = cut % content.len();
        let folder = folder(&[("a.geojson", &content.as_bytes()[..cut])]);
        prop_assert!(read(&folder, settings(Format::Geojson, &["a.geojson"]), &ScanOptions::default()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn changed_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..8),
        is_sequence in any::<bool>(),
    ) {
        let mut content = if is_sequence {
            format!("\u{1e}{}\n\u{1e}{}\n", feature(r#"{"v":"é\u00e9"}"#), feature(r#"{"v":[1.5e3,null]}"#)).into_bytes()
        } else {
            collection(&[r#"{"v":"é\u00e9"}"#, r#"{"v":{"w":[1.5e3,null]}}"#]).into_bytes()
        };
        for (place, byte, how) in changes {
            let place = place.index(content.len());
            match how {
                0 => content[place] = byte,
                1 => content.insert(place, byte),
                _ => drop(content.remove(place)),
            }
        }
        let folder = folder(&[("a.geojson", &content)]);
        let format = if is_sequence { Format::Geojsonseq } else { Format::Geojson };
        let _ = read(&folder, settings(format, &["a.geojson"]), &ScanOptions::default());
    }
}
