use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Float64Array, Int32Array, LargeBinaryArray, LargeStringArray,
    NullArray, StringArray, StringViewArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use geoarrow_array::array::WkbArray;
use geoarrow_array::cast::from_wkb;
use geoarrow_schema::{
    CoordType, Dimension, GeoArrowType, LineStringType, MultiLineStringType, MultiPointType, MultiPolygonType,
    PointType, PolygonType,
};
use hexfloe_batch::{Error, Geometries, GeometryEncoding, RejectReason, geometries, representative_points};
use hexfloe_geometry::{Limits, from_text};
use rstest::rstest;

const WKB: GeometryEncoding = GeometryEncoding::Wkb;

fn read(array: &dyn Array, encoding: GeometryEncoding, srid: Option<u32>) -> Result<Geometries, Error> {
    geometries("geom", array, encoding, srid, &Limits::default())
}

fn wkb(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    from_text(text, &Limits::default(), &mut bytes).unwrap();
    bytes
}

fn all_wkb(texts: &[Option<&str>]) -> BinaryViewArray {
    texts.iter().map(|text| text.map(wkb)).collect()
}

const PLACES: [Option<&str>; 4] =
    [Some("POINT (1 2)"), None, Some("POLYGON ((0 0, 9 0, 9 9, 0 0))"), Some("LINESTRING EMPTY")];

#[test]
fn binary_and_text_of_every_width_become_one() {
    let values = all_wkb(&PLACES);
    let text = StringArray::from(PLACES.to_vec());
    let arrays: [ArrayRef; 6] = [
        Arc::new(values.iter().collect::<BinaryArray>()),
        Arc::new(values.iter().collect::<LargeBinaryArray>()),
        Arc::new(values.clone()),
        Arc::new(text.iter().collect::<LargeStringArray>()),
        Arc::new(text.iter().collect::<StringViewArray>()),
        Arc::new(text),
    ];
    for array in arrays {
        let found = read(&array, WKB, None).unwrap();
        assert_eq!((found.wkb, found.rejects), (values.clone(), vec![]));
        let slice = read(&array.slice(1, 2), WKB, None).unwrap();
        assert_eq!(slice.wkb, values.slice(1, 2));
    }
}

#[test]
fn a_column_without_a_value_has_no_geometries() {
    let found = read(&NullArray::new(3), WKB, None).unwrap();
    assert_eq!((found.wkb.null_count(), found.rejects.len()), (3, 0));
}

#[test]
fn a_geometry_that_cannot_be_used_is_null_and_has_a_reason() {
    let rows = [
        Some("POINT (1 2)"),
        Some("north of the church"),
        None,
        Some("POINT (1 1e999)"),
        Some("POLYGON ((0 0, 9 0, 9 9, 0 0), (0 0, 1 0, 1 1, 0 1))"),
        Some("LINESTRING (0 0, 1 1, 2 2)"),
    ];
    let limits = Limits { coordinates: 2, ..Limits::default() };
    let found = geometries("geom", &StringArray::from(rows.to_vec()), WKB, None, &Limits::default()).unwrap();
    let told: Vec<_> = found.rejects.iter().map(|reject| (reject.reason.code(), reject.to_string())).collect();
    assert_eq!(
        told,
        [
            (
                "unreadable-geometry",
                "row 1: the geometry cannot be read: \"north\" is where a geometry type should be (at byte 1)"
                    .to_owned()
            ),
            (
                "not-finite-coordinate",
                "row 3: the geometry has a coordinate that is inf, not a finite number".to_owned()
            ),
            ("unclosed-ring", "row 4: the geometry has a ring that is not closed (ring 2)".to_owned()),
        ]
    );
    assert_eq!((0..6).map(|row| found.wkb.is_valid(row)).collect::<Vec<_>>(), [true, false, false, false, false, true]);

    let found = geometries("geom", &StringArray::from(rows[5..].to_vec()), WKB, None, &limits).unwrap();
    let [reject] = &found.rejects[..] else { panic!("{:?}", found.rejects) };
    assert_eq!(reject.reason.code(), "too-large");
    assert_eq!(reject.to_string(), "row 0: the geometry is beyond the limits: it has more than 2 coordinates");
    for reject in found.rejects {
        let json = serde_json::to_value(&reject.reason).unwrap();
        assert_eq!(json["code"], reject.reason.code());
        assert_eq!(serde_json::from_value::<RejectReason>(json).unwrap(), reject.reason);
    }
}

#[rstest]
#[case::of_the_column(Some(27700), &[0])]
#[case::of_wgs_84(Some(4326), &[1])]
#[case::unknown(None, &[])]
fn a_geometry_of_another_reference_system_is_rejected(#[case] expected: Option<u32>, #[case] rejected: &[usize]) {
    let rows =
        StringArray::from(vec!["SRID=4979;POINT (1 2)", "SRID=27700;POINT (1 2)", "SRID=0;POINT (1 2)", "POINT (1 2)"]);
    let found = read(&rows, WKB, expected).unwrap();
    assert_eq!(found.rejects.iter().map(|reject| reject.row).collect::<Vec<_>>(), rejected);
    let accepted = [(0, 4979), (1, 27700)].into_iter().filter(|(row, _)| !rejected.contains(row));
    assert_eq!(found.srids.into_iter().collect::<Vec<_>>(), accepted.map(|(_, srid)| srid).collect::<Vec<_>>());
}

#[test]
fn the_two_reference_systems_are_named() {
    let found = read(&StringArray::from(vec!["SRID=4326;POINT (1 2)"]), WKB, Some(27700)).unwrap();
    assert_eq!(
        found.rejects[0].to_string(),
        "row 0: the geometry has SRID 4326, and its column 27700: reproject it, or keep it apart"
    );
    let before: RejectReason = serde_json::from_str(r#"{"code":"foreign-reference","srid":3857}"#).unwrap();
    assert_eq!(before, RejectReason::ForeignReference { srid: 3857, expected: 4326 });
}

/// A `GeoArrow` type for each of the encodings.
fn native_type(name: &str, dimension: Dimension, coordinates: CoordType) -> GeoArrowType {
    match name {
        "point" => PointType::new(dimension, Arc::default()).with_coord_type(coordinates).into(),
        "linestring" => LineStringType::new(dimension, Arc::default()).with_coord_type(coordinates).into(),
        "polygon" => PolygonType::new(dimension, Arc::default()).with_coord_type(coordinates).into(),
        "multipoint" => MultiPointType::new(dimension, Arc::default()).with_coord_type(coordinates).into(),
        "multilinestring" => MultiLineStringType::new(dimension, Arc::default()).with_coord_type(coordinates).into(),
        _ => MultiPolygonType::new(dimension, Arc::default()).with_coord_type(coordinates).into(),
    }
}

#[rstest]
#[case("point", Dimension::XY, &[Some("POINT (1 2)"), None, Some("POINT (3 4)")])]
#[case("point", Dimension::XYZM, &[Some("POINT ZM (1 2 3 4)"), None, Some("POINT ZM (5 6 7 8)")])]
#[case("linestring", Dimension::XYM, &[Some("LINESTRING M (1 2 3, 4 5 6)"), None, Some("LINESTRING M EMPTY")])]
#[case("polygon", Dimension::XY, &[None, Some("POLYGON ((0 0, 9 0, 9 9, 0 0), (6 3, 7 3, 7 4, 6 3))"), Some("POLYGON EMPTY")])]
#[case("multipoint", Dimension::XYZ, &[Some("MULTIPOINT Z (1 2 3, 4 5 6)"), Some("MULTIPOINT Z EMPTY"), None])]
#[case("multilinestring", Dimension::XY, &[Some("MULTILINESTRING ((1 2, 3 4), (5 6, 7 8))"), None, Some("MULTILINESTRING EMPTY")])]
#[case("multipolygon", Dimension::XY, &[
    Some("MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0)), ((0 0, 9 0, 9 9, 0 0), (6 3, 7 3, 7 4, 6 3)))"), None, Some("MULTIPOLYGON EMPTY")])]
fn native_encodings_are_what_the_geoarrow_crate_makes(
    #[case] name: &str,
    #[case] dimension: Dimension,
    #[case] texts: &[Option<&str>],
    #[values(CoordType::Separated, CoordType::Interleaved)] coordinates: CoordType,
) {
    let expected = all_wkb(texts);
    let given: WkbArray = WkbArray::new(expected.iter().collect::<BinaryArray>(), Arc::default());
    let native = from_wkb(&given, native_type(name, dimension, coordinates)).unwrap().to_array_ref();
    let encoding = GeometryEncoding::from_name(name).unwrap();
    assert_eq!(read(&native, encoding, None).unwrap().wkb, expected);
    assert_eq!(read(&native.slice(1, 2), encoding, None).unwrap().wkb, expected.slice(1, 2));

    // With offsets of 64 bits.
    if let DataType::List(item) = native.data_type() {
        let large = cast(&native, &DataType::LargeList(Arc::clone(item))).unwrap();
        assert_eq!(read(&large, encoding, None).unwrap().wkb, expected);
    }
}

#[test]
fn an_empty_native_point_is_an_empty_point() {
    let x: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 1.0, f64::NAN]));
    let y: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 2.0, 2.0]));
    let points = arrow::array::StructArray::from(vec![
        (Arc::new(Field::new("x", DataType::Float64, true)), x),
        (Arc::new(Field::new("y", DataType::Float64, true)), y),
    ]);
    let found = read(&points, GeometryEncoding::from_name("point").unwrap(), None).unwrap();
    assert_eq!(found.wkb.value(0), wkb("POINT EMPTY"));
    assert_eq!(found.wkb.value(1), wkb("POINT (1 2)"));
    assert_eq!(found.rejects.iter().map(|reject| reject.row).collect::<Vec<_>>(), [2]);
}

#[rstest]
#[case(Arc::new(Float64Array::from(vec![1.0])), "WKB")]
#[case(Arc::new(Int32Array::from(vec![1])), "polygon")]
#[case(Arc::new(BinaryArray::from(vec![b"".as_slice()])), "point")]
#[case(Arc::new(StringArray::from(vec!["POINT (1 2)"])), "linestring")]
fn a_column_of_another_type_holds_no_geometries(#[case] array: ArrayRef, #[case] encoding: &str) {
    let error = read(&array, GeometryEncoding::from_name(encoding).unwrap(), None).unwrap_err().to_string();
    assert!(error.starts_with("column \"geom\" has type "), "{error}");
    assert!(error.contains("holds no geometries of the encoding that is stated: "), "{error}");
}

#[test]
fn the_points_that_stand_for_geometries_are_null_where_there_is_nothing() {
    let rows = [Some("LINESTRING (0 0, 10 4)"), None, Some("POINT EMPTY"), Some("POINT (1 2)")];
    let (x, y) = representative_points(&all_wkb(&rows)).unwrap();
    assert_eq!(x, Float64Array::from(vec![Some(5.0), None, None, Some(1.0)]));
    assert_eq!(y, Float64Array::from(vec![Some(2.0), None, None, Some(2.0)]));

    let broken = BinaryViewArray::from(vec![Some(wkb("POINT (1 2)").as_slice()), Some(b"no geometry")]);
    let error = representative_points(&broken).unwrap_err().to_string();
    assert!(error.starts_with("row 1: the geometry cannot be read: "), "{error}");
}
