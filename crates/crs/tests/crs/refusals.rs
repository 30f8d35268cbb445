//! What is known, and refused.

use hexfloe_crs::{Crs, LonLatTransform};
use rstest::rstest;

#[rstest]
#[case::nad27("EPSG:4267", "NAD27")]
#[case::nad27_utm("EPSG:26711", "grid")]
#[case::ed50("EPSG:4230", "no single datum shift")]
#[case::krovak("EPSG:5514", "6 m")]
#[case::grads("EPSG:4807", "grad")]
#[case::no_datum_shift("EPSG:9000", "no datum shift")]
#[case::deprecated("EPSG:2163", "EPSG:9311")]
#[case::unknown_code("EPSG:99999", "no such code")]
fn what_cannot_be_done_to_five_metres_is_refused_with_the_reason(#[case] code: &str, #[case] told: &str) {
    let (authority, number) = code.split_once(':').unwrap();
    let error = LonLatTransform::from(&Crs::of_code(authority, number)).unwrap_err().to_string();
    assert!(error.contains(told) && error.contains(code), "{error}");
}

#[test]
fn the_unknown_system_is_refused() {
    let error = LonLatTransform::from(&Crs::unknown()).unwrap_err().to_string();
    assert!(error.contains("--crs"), "{error}");
}

#[test]
fn a_text_that_is_no_known_definition_is_refused_with_the_code_that_it_may_mean() {
    let crs = Crs::from_wkt(r#"PROJCS["OSGB36_British_National_Grid",GEOGCS["OSGB 1936"]]"#).unwrap();
    let error = LonLatTransform::from(&crs).unwrap_err().to_string();
    assert!(error.contains("--crs EPSG:27700"), "{error}");
    let crs = Crs::from_wkt(r#"PROJCS["my grid"]"#).unwrap();
    let error = LonLatTransform::from(&crs).unwrap_err().to_string();
    assert!(error.contains("my grid") && error.contains("state its code"), "{error}");
}
