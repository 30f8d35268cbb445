use arrow::array::{Array, AsArray, BinaryViewArray, Float64Array};
use arrow::datatypes::Float64Type;
use hexfloe_batch::{GeoColumn, GeoCrs, GeometrySummary, Points, bounding_boxes, geo_metadata, wkb_points};
use hexfloe_geometry::{Limits, from_text};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::at;

fn wkb(texts: &[Option<&str>]) -> BinaryViewArray {
    let written = |text: &str| {
        let mut bytes = Vec::new();
        from_text(text, &Limits::default(), &mut bytes).unwrap();
        bytes
    };
    texts.iter().map(|text| text.map(written)).collect()
}

fn summary(texts: &[Option<&str>]) -> GeometrySummary {
    let mut summary = GeometrySummary::new();
    summary.update(&wkb(texts)).unwrap();
    summary
}

fn described(column: GeoColumn<'_>) -> Value {
    serde_json::from_str(&geo_metadata(&[column])).unwrap()
}

#[test]
fn the_metadata_of_a_geometry_column_is_geoparquet_1_1() {
    let summary = summary(&[Some("POLYGON ((0 0, 4 0, 4 3, 0 0))"), None, Some("POINT (-1 7)"), Some("POINT EMPTY")]);
    let column = GeoColumn { name: "geometry", crs: GeoCrs::LonLat, summary: &summary, covering: None };
    assert_eq!(
        geo_metadata(&[column]),
        concat!(
            r#"{"columns":{"geometry":{"bbox":[-1.0,0.0,4.0,7.0],"encoding":"WKB","geometry_types":["Point","Polygon"]}},"#,
            r#""primary_column":"geometry","version":"1.1.0"}"#
        )
    );
}

#[test]
fn a_column_without_geometries_has_no_box() {
    let summary = GeometrySummary::new();
    let column = GeoColumn { name: "the \"geom\"", crs: GeoCrs::LonLat, summary: &summary, covering: None };
    let expected = json!({ "version": "1.1.0", "primary_column": "the \"geom\"",
        "columns": { "the \"geom\"": { "encoding": "WKB", "geometry_types": [] } } });
    assert_eq!(described(column), expected);
}

#[test]
fn the_reference_system_is_that_of_the_column() {
    let summary = GeometrySummary::new();
    let column = GeoColumn { name: "g", crs: GeoCrs::Unknown, summary: &summary, covering: None };
    assert_eq!(described(column)["columns"]["g"]["crs"], Value::Null);
    assert!(described(column)["columns"]["g"].as_object().unwrap().contains_key("crs"));
    let projjson = GeoColumn { crs: GeoCrs::Projjson(r#"{"type":"ProjectedCRS"}"#), ..column };
    assert_eq!(described(projjson)["columns"]["g"]["crs"], json!({ "type": "ProjectedCRS" }));
    let degrees = GeoColumn { crs: GeoCrs::LonLat, ..column };
    assert!(!described(degrees)["columns"]["g"].as_object().unwrap().contains_key("crs"));
}

#[test]
fn a_column_of_boxes_covers_its_geometries() {
    let summary = GeometrySummary::new();
    let column = GeoColumn { name: "g", crs: GeoCrs::LonLat, summary: &summary, covering: Some("box") };
    assert_eq!(described(column)["columns"]["g"]["covering"]["bbox"]["ymax"], json!(["box", "ymax"]));
}

#[test]
fn heights_are_named_and_measures_are_not() {
    let high = summary(&[Some("POINT Z (1 2 3)"), Some("LINESTRING (0 0, 1 1)")]);
    assert_eq!(high.type_names(), ["LineString", "Point Z"]);
    let column = GeoColumn { name: "g", crs: GeoCrs::LonLat, summary: &high, covering: None };
    assert!(described(column)["columns"]["g"].get("bbox").is_none(), "a box of x and y is none of x, y and z");
    assert!(summary(&[Some("POINT M (1 2 3)"), Some("POINT (0 0)")]).type_names().is_empty());
}

#[test]
fn the_first_of_several_columns_is_the_primary_one() {
    let summary = GeometrySummary::new();
    let column = |name| GeoColumn { name, crs: GeoCrs::LonLat, summary: &summary, covering: None };
    let read: Value = serde_json::from_str(&geo_metadata(&[column("z"), column("a")])).unwrap();
    assert_eq!((&read["primary_column"], read["columns"].as_object().unwrap().len()), (&json!("z"), 2));
}

#[test]
fn each_geometry_has_its_box_and_none_has_none() {
    let boxes = bounding_boxes(&wkb(&[Some("LINESTRING (3 -1, -2 5)"), None, Some("POINT EMPTY")])).unwrap();
    let corner = |name: &str| boxes.column_by_name(name).unwrap().as_primitive::<Float64Type>().clone();
    let first = ["xmin", "ymin", "xmax", "ymax"].map(|name| corner(name).value(0));
    assert_eq!(first, [-2.0, -1.0, 3.0, 5.0]);
    assert!(boxes.is_null(1) && boxes.is_null(2) && corner("xmin").is_null(1));
}

#[test]
fn the_box_holds_every_point_and_skips_rejected_rows() {
    let mut summary = GeometrySummary::new();
    summary.update(&wkb_points(&at(&[(177.0, -16.0), (-178.0, -18.0)])).unwrap()).unwrap();
    let rejected =
        Points { lon: Float64Array::from(vec![None, Some(0.0)]), lat: Float64Array::from(vec![Some(80.0), None]) };
    summary.update(&wkb_points(&rejected).unwrap()).unwrap();
    assert_eq!(summary.bounding_box(), Some([-178.0, -18.0, 177.0, -16.0]));
}

proptest! {
    #[test]
    fn the_summary_does_not_depend_on_how_the_points_came(
        given in prop::collection::vec((prop_oneof![Just(-0.0), Just(0.0), -180.0..=180.0], -90.0..=90.0), 1..20),
        cut in 0_usize..20,
    ) {
        let of = |points: &[(f64, f64)]| {
            let mut summary = GeometrySummary::new();
            summary.update(&wkb_points(&at(points)).unwrap()).unwrap();
            summary
        };
        let (left, right) = given.split_at(cut.min(given.len()));
        let mut parts = of(right);
        parts.merge(&of(left));
        // As text, for 0 and -0 are equal numbers and different bytes in a file.
        prop_assert_eq!(format!("{:?}", of(&given).bounding_box()), format!("{:?}", parts.bounding_box()));
    }
}
