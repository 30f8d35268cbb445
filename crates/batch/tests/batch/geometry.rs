use arrow::array::Float64Array;
use hexfloe_batch::{BoundingBox, Points, geo_metadata};
use proptest::prelude::*;

use crate::at;

#[test]
fn the_metadata_of_a_geometry_column_is_geoparquet_1_1() {
    assert_eq!(
        geo_metadata("geometry", Some([-180.0, -33.9, 10.75, 90.0])),
        r#"{"version":"1.1.0","primary_column":"geometry","columns":{"geometry":{"encoding":"WKB","geometry_types":["Point"],"bbox":[-180.0,-33.9,10.75,90.0]}}}"#
    );
}

#[test]
fn a_column_without_points_has_no_box() {
    assert_eq!(
        geo_metadata("the \"geom\"", BoundingBox::new().to_array()),
        r#"{"version":"1.1.0","primary_column":"the \"geom\"","columns":{"the \"geom\"":{"encoding":"WKB","geometry_types":["Point"]}}}"#
    );
}

#[test]
fn the_box_holds_every_point_and_skips_rejected_rows() {
    let mut bbox = BoundingBox::new();
    bbox.update(&at(&[(177.0, -16.0), (-178.0, -18.0)]));
    bbox.update(&Points {
        lon: Float64Array::from(vec![None, Some(0.0)]),
        lat: Float64Array::from(vec![Some(80.0), None]),
    });
    assert_eq!(bbox.to_array(), Some([-178.0, -18.0, 177.0, -16.0]));
}

proptest! {
    #[test]
    fn the_box_does_not_depend_on_how_the_points_came(
        given in prop::collection::vec((prop_oneof![Just(-0.0), Just(0.0), -180.0..=180.0], -90.0..=90.0), 1..20),
        cut in 0_usize..20,
    ) {
        let mut whole = BoundingBox::new();
        whole.update(&at(&given));

        let (left, right) = given.split_at(cut.min(given.len()));
        let mut parts = BoundingBox::new();
        parts.update(&at(right));
        let mut first = BoundingBox::new();
        first.update(&at(left));
        parts.merge(&first);

        // As text, for 0 and -0 are equal numbers and different bytes in a file.
        prop_assert_eq!(format!("{:?}", whole.to_array()), format!("{:?}", parts.to_array()));
    }
}
