use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, Decimal128Array, DictionaryArray, FixedSizeListArray,
    Float32Array, Float64Array, Int32Array, LargeBinaryArray, NullArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use geoarrow_array::GeoArrowArray;
use geoarrow_array::array::{PointArray, WkbViewArray};
use geoarrow_array::cast::{from_wkb, to_wkb, to_wkb_view};
use geoarrow_schema::{CoordType, Dimension, PointType};
use hexfloe_batch::{Error, PointColumns, Points, RejectReason, points, wkb_points};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;

fn lat_lon(lat: ArrayRef, lon: ArrayRef) -> Result<(Points, Vec<(usize, RejectReason)>), Error> {
    let batch = RecordBatch::try_from_iter([("lat", lat), ("lon", lon)]).unwrap();
    let columns = PointColumns::LatLon { lat: "lat".to_owned(), lon: "lon".to_owned() };
    points(&batch, &columns).map(plain)
}

fn geometry(array: ArrayRef) -> Result<(Points, Vec<(usize, RejectReason)>), Error> {
    let batch = RecordBatch::try_from_iter([("geom", array)]).unwrap();
    points(&batch, &PointColumns::Geometry { column: "geom".to_owned() }).map(plain)
}

fn plain((points, rejects): (Points, Vec<hexfloe_batch::Reject>)) -> (Points, Vec<(usize, RejectReason)>) {
    (points, rejects.into_iter().map(|reject| (reject.row, reject.reason)).collect())
}

fn one_reject(array: ArrayRef) -> RejectReason {
    let (points, mut rejects) = geometry(array).unwrap();
    assert!(points.lon.is_null(0) && points.lat.is_null(0));
    assert_eq!(rejects.len(), 1);
    rejects.remove(0).1
}

#[rstest]
#[case::null_latitude(None, Some(1.0), "null-latitude", "the latitude is null")]
#[case::null_longitude(Some(1.0), None, "null-longitude", "the longitude is null")]
#[case::both_null(None, None, "null-latitude", "the latitude is null")]
#[case::nan(Some(f64::NAN), Some(1.0), "not-finite", "the latitude is NaN, not a finite number")]
#[case::infinite(Some(1.0), Some(f64::INFINITY), "not-finite", "the longitude is inf, not a finite number")]
#[case::minus_infinite(Some(1.0), Some(f64::NEG_INFINITY), "not-finite", "the longitude is -inf, not a finite number")]
#[case::latitude_91(Some(91.0), Some(1.0), "latitude-out-of-range", "the latitude 91 is outside -90 to 90 degrees")]
#[case::just_beyond_the_pole(
    Some(-90.00000000000001),
    Some(1.0),
    "latitude-out-of-range",
    "the latitude -90.00000000000001 is outside -90 to 90 degrees"
)]
#[case::longitude_181(
    Some(1.0),
    Some(181.0),
    "longitude-out-of-range",
    "the longitude 181 is outside -180 to 180 degrees"
)]
#[case::metres(
    Some(533000.0),
    Some(180000.0),
    "latitude-out-of-range",
    "the latitude 533000 is outside -90 to 90 degrees"
)]
fn a_row_without_a_position_is_rejected_with_its_reason(
    #[case] lat: Option<f64>,
    #[case] lon: Option<f64>,
    #[case] code: &str,
    #[case] message: &str,
) {
    let lat: ArrayRef = Arc::new(Float64Array::from(vec![Some(10.0), lat, Some(20.0)]));
    let lon: ArrayRef = Arc::new(Float64Array::from(vec![Some(30.0), lon, Some(40.0)]));
    let (points, rejects) = lat_lon(lat, lon).unwrap();

    let [(row, reason)] = &rejects[..] else { panic!("{rejects:?}") };
    assert_eq!((*row, reason.code(), reason.to_string()), (1, code, message.to_owned()));
    assert_eq!(serde_json::to_value(reason).unwrap()["code"], code);
    assert_eq!(points.lon, Float64Array::from(vec![Some(30.0), None, Some(40.0)]));
    assert_eq!(points.lat, Float64Array::from(vec![Some(10.0), None, Some(20.0)]));
}

#[rstest]
#[case(90.0, 180.0)]
#[case(-90.0, -180.0)]
#[case(0.0, -0.0)]
#[case(f64::MIN_POSITIVE, -180.0)]
fn the_ends_of_the_ranges_are_positions(#[case] lat: f64, #[case] lon: f64) {
    let (points, rejects) =
        lat_lon(Arc::new(Float64Array::from(vec![lat])), Arc::new(Float64Array::from(vec![lon]))).unwrap();
    assert!(rejects.is_empty());
    assert_eq!((points.lon.value(0), points.lat.value(0)), (lon, lat));
}

#[test]
fn a_batch_of_bad_rows_has_a_reason_for_each_in_order() {
    let lat: ArrayRef = Arc::new(Float64Array::from(vec![None, Some(91.0), Some(f64::NAN), Some(-91.0)]));
    let lon: ArrayRef = Arc::new(NullArray::new(4));
    let (points, rejects) = lat_lon(lat, lon).unwrap();
    assert_eq!(rejects.iter().map(|(row, _)| *row).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(points.lon.null_count(), 4);
    assert_eq!(points.accepted().unwrap().true_count(), 0);
}

#[test]
fn columns_of_other_numbers_are_widened() {
    let lat: ArrayRef = Arc::new(Float32Array::from(vec![1.5, -2.25]));
    let lon: ArrayRef = Arc::new(Decimal128Array::from(vec![1234567, -1]).with_precision_and_scale(9, 4).unwrap());
    let (points, rejects) = lat_lon(lat, lon).unwrap();
    assert!(rejects.is_empty());
    assert_eq!(points, at(&[(123.4567, 1.5), (-0.0001, -2.25)]));

    let lat: ArrayRef = Arc::new(Int32Array::from(vec![10, 95]));
    let keys = Int32Array::from(vec![1, 0]);
    let lon: ArrayRef =
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(Float64Array::from(vec![20.0, 30.0]))));
    let (points, rejects) = lat_lon(lat, lon).unwrap();
    assert_eq!(rejects, [(1, RejectReason::LatitudeOutOfRange { value: 95.0 })]);
    assert_eq!((points.lon.value(0), points.lat.value(0)), (30.0, 10.0));
}

#[test]
fn text_is_not_taken_for_coordinates() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["59.9"]));
    let error = lat_lon(text, Arc::new(Float64Array::from(vec![1.0]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column \"lat\" has type Utf8, which holds no coordinates: declare or cast it as a 64-bit float"
    );
}

#[test]
fn a_column_that_is_missing_doubled_or_used_twice_is_named() {
    let number: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let field = |name: &str| Field::new(name, DataType::Float64, true);
    let schema = Arc::new(Schema::new(vec![field("lat"), field("x"), field("x")]));
    let batch = RecordBatch::try_new(schema, vec![number.clone(), number.clone(), number]).unwrap();
    let message = |lat: &str, lon: &str| {
        let columns = PointColumns::LatLon { lat: lat.to_owned(), lon: lon.to_owned() };
        points(&batch, &columns).unwrap_err().to_string()
    };
    assert_eq!(message("lat", "lon"), "there is no column \"lon\": the columns are lat, x, x");
    assert_eq!(message("lat", "x"), "there are 2 columns named \"x\": rename all but one");
    assert_eq!(message("lat", "lat"), "column \"lat\" cannot be latitude and longitude at once: name two columns");
}

/// `POINT(10.5 -20.25)` in each spelling; Z is 7, M is 8.
fn spelled(little_endian: bool, code: u32, srid: Option<u32>, coordinates: &[f64]) -> Vec<u8> {
    let mut bytes = vec![u8::from(little_endian)];
    let mut put = |be: &[u8]| {
        let mut word = be.to_vec();
        if little_endian {
            word.reverse();
        }
        bytes.extend_from_slice(&word);
    };
    put(&code.to_be_bytes());
    if let Some(srid) = srid {
        put(&srid.to_be_bytes());
    }
    for coordinate in coordinates {
        put(&coordinate.to_be_bytes());
    }
    bytes
}

#[rstest]
#[case::plain(1, None, &[10.5, -20.25])]
#[case::iso_z(1001, None, &[10.5, -20.25, 7.0])]
#[case::iso_m(2001, None, &[10.5, -20.25, 8.0])]
#[case::iso_zm(3001, None, &[10.5, -20.25, 7.0, 8.0])]
#[case::ewkb_z(0x8000_0001, None, &[10.5, -20.25, 7.0])]
#[case::ewkb_m(0x4000_0001, None, &[10.5, -20.25, 8.0])]
#[case::ewkb_zm(0xc000_0001, None, &[10.5, -20.25, 7.0, 8.0])]
#[case::srid(0x2000_0001, Some(4326), &[10.5, -20.25])]
#[case::srid_and_z(0xa000_0001, Some(4326), &[10.5, -20.25, f64::NAN])]
#[case::srid_and_iso_z(0x2000_03e9, Some(0), &[10.5, -20.25, 7.0])]
fn a_point_is_read_in_every_spelling_and_every_binary_type(
    #[case] code: u32,
    #[case] srid: Option<u32>,
    #[case] coordinates: &[f64],
    #[values(true, false)] little_endian: bool,
) {
    let bytes = spelled(little_endian, code, srid, coordinates);
    let values = vec![Some(bytes.as_slice()), None];
    let arrays: [ArrayRef; 3] = [
        Arc::new(BinaryArray::from(values.clone())),
        Arc::new(LargeBinaryArray::from(values.clone())),
        Arc::new(BinaryViewArray::from(values)),
    ];
    for array in arrays {
        let (points, rejects) = geometry(array).unwrap();
        assert_eq!((points.lon.value(0), points.lat.value(0)), (10.5, -20.25));
        assert_eq!(rejects, [(1, RejectReason::NullGeometry)]);
    }
}

#[rstest]
#[case::empty_point(spelled(true, 1, None, &[f64::NAN, f64::NAN]), "empty-geometry", "the geometry is an empty point")]
#[case::empty_point_big_endian(spelled(false, 1, None, &[-f64::NAN, f64::NAN]), "empty-geometry", "the geometry is an empty point")]
#[case::empty_point_z(spelled(true, 1001, None, &[f64::NAN; 3]), "empty-geometry", "the geometry is an empty point")]
#[case::half_a_point(spelled(true, 1, None, &[1.0, f64::NAN]), "not-finite", "the latitude is NaN, not a finite number")]
#[case::out_of_range(spelled(true, 1, None, &[1.0, 91.0]), "latitude-out-of-range", "the latitude 91 is outside -90 to 90 degrees")]
#[case::line(spelled(true, 2, None, &[]), "not-a-point", "the geometry is a LineString, not a point")]
#[case::multipoint_z(spelled(false, 1004, None, &[]), "not-a-point", "the geometry is a MultiPoint, not a point")]
#[case::triangle(spelled(true, 17, None, &[1.0, 2.0]), "not-a-point", "the geometry is a Triangle, not a point")]
#[case::web_mercator(
    spelled(true, 0x2000_0001, Some(3857), &[1.0, 2.0]),
    "foreign-reference",
    "the geometry has SRID 3857, not 4326: reproject it to longitude and latitude on WGS 84"
)]
#[case::no_bytes(vec![], "unreadable-geometry", "the geometry cannot be read: 0 bytes are left where 1 are needed")]
#[case::byte_order(vec![2; 21], "unreadable-geometry", "the geometry cannot be read: the byte order is 2, not 0 or 1")]
#[case::type_99(spelled(true, 99, None, &[1.0, 2.0]), "unreadable-geometry", "the geometry cannot be read: there is no geometry type 99")]
#[case::dimension_4(spelled(true, 4001, None, &[1.0, 2.0]), "unreadable-geometry", "the geometry cannot be read: there is no geometry type 4001")]
#[case::cut_off(spelled(true, 1, None, &[1.0, 2.0])[..20].to_vec(), "unreadable-geometry", "the geometry cannot be read: 15 bytes are left where 16 are needed")]
#[case::left_over([spelled(true, 1, None, &[1.0, 2.0]), vec![0]].concat(), "unreadable-geometry", "the geometry cannot be read: 1 bytes are left over behind the point")]
#[case::text(b"POINT (1 2)".to_vec(), "unreadable-geometry", "the geometry cannot be read: the byte order is 80, not 0 or 1")]
fn a_geometry_that_is_no_position_is_rejected_with_its_reason(
    #[case] bytes: Vec<u8>,
    #[case] code: &str,
    #[case] message: &str,
) {
    let reason = one_reject(Arc::new(BinaryArray::from(vec![bytes.as_slice()])));
    assert_eq!((reason.code(), reason.to_string()), (code, message.to_owned()));
}

fn separated(x: Vec<Option<f64>>, y: Vec<Option<f64>>, nulls: Option<Vec<bool>>) -> ArrayRef {
    let fields = vec![Field::new("x", DataType::Float64, true), Field::new("y", DataType::Float64, true)];
    let children: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(x)), Arc::new(Float64Array::from(y))];
    Arc::new(StructArray::new(fields.into(), children, nulls.map(NullBuffer::from)))
}

#[test]
fn native_points_are_read_and_their_gaps_are_told_apart() {
    let nan = Some(f64::NAN);
    let array = separated(
        vec![Some(10.0), Some(0.0), nan, None, Some(1.0), nan],
        vec![Some(20.0), Some(0.0), nan, Some(1.0), None, Some(1.0)],
        Some(vec![true, false, true, true, true, true]),
    );
    let expected =
        [(1, "null-geometry"), (2, "empty-geometry"), (3, "null-longitude"), (4, "null-latitude"), (5, "not-finite")];
    let (points, rejects) = geometry(array.clone()).unwrap();
    assert_eq!((points.lon.value(0), points.lat.value(0)), (10.0, 20.0));
    assert_eq!(rejects.iter().map(|(row, reason)| (*row, reason.code())).collect::<Vec<_>>(), expected);

    let (_, rejects) = geometry(array.slice(2, 2)).unwrap();
    assert_eq!(
        rejects.iter().map(|(row, reason)| (*row, reason.code())).collect::<Vec<_>>(),
        [(0, "empty-geometry"), (1, "null-longitude")]
    );
}

#[rstest]
#[case(2, vec![10.0, 20.0, 11.0, 21.0, 12.0, 22.0])]
#[case(3, vec![10.0, 20.0, 7.0, 11.0, 21.0, 7.0, 12.0, 22.0, 7.0])]
#[case(4, vec![10.0, 20.0, 7.0, 8.0, 11.0, 21.0, 7.0, 8.0, 12.0, 22.0, 7.0, 8.0])]
fn interleaved_points_are_read_from_a_slice_too(#[case] width: i32, #[case] values: Vec<f64>) {
    let field = Arc::new(Field::new("xy", DataType::Float64, false));
    let array = FixedSizeListArray::new(field, width, Arc::new(Float64Array::from(values)), None);
    let (all, rejects) = geometry(Arc::new(array.clone())).unwrap();
    assert!(rejects.is_empty());
    assert_eq!(all, at(&[(10.0, 20.0), (11.0, 21.0), (12.0, 22.0)]));
    assert_eq!(geometry(Arc::new(array.slice(1, 2))).unwrap().0, at(&[(11.0, 21.0), (12.0, 22.0)]));
}

#[rstest]
#[case::text(Arc::new(StringArray::from(vec!["POINT (1 2)"])))]
#[case::number(Arc::new(Float64Array::from(vec![1.0])))]
#[case::box_(Arc::new(StructArray::from(vec![(
    Arc::new(Field::new("xmin", DataType::Float64, true)),
    Arc::new(Float64Array::from(vec![1.0])) as ArrayRef,
)])))]
#[case::whole_numbers(Arc::new(FixedSizeListArray::new(
    Arc::new(Field::new("xy", DataType::Int32, false)),
    2,
    Arc::new(Int32Array::from(vec![1, 2])),
    None,
)))]
fn a_column_of_another_type_holds_no_points(#[case] array: ArrayRef) {
    let error = geometry(array).unwrap_err().to_string();
    assert!(error.starts_with("column \"geom\" has type "), "{error}");
    assert!(error.ends_with("holds no points: give well-known binary, or GeoArrow points of 64-bit floats"), "{error}");
}

/// The reference implementation reads what is written here, and what it writes is read here.
#[test]
fn points_agree_with_the_geoarrow_crate_in_every_encoding() {
    let given = at(&[(10.75, 59.91), (-180.0, 90.0), (151.2, -33.8), (-0.0, 1e-300)]);
    let wkb = WkbViewArray::new(wkb_points(&given).unwrap(), Arc::default());
    for coord_type in [CoordType::Separated, CoordType::Interleaved] {
        let point_type = PointType::new(Dimension::XY, Arc::default()).with_coord_type(coord_type);
        let native: Arc<dyn GeoArrowArray> = from_wkb(&wkb, point_type.into()).unwrap();
        assert!(native.as_any().is::<PointArray>());
        let spellings: [ArrayRef; 4] = [
            native.to_array_ref(),
            to_wkb::<i32>(native.as_ref()).unwrap().to_array_ref(),
            to_wkb::<i64>(native.as_ref()).unwrap().to_array_ref(),
            to_wkb_view(native.as_ref()).unwrap().to_array_ref(),
        ];
        for array in spellings {
            let (read, rejects) = geometry(array).unwrap();
            assert!(rejects.is_empty(), "{rejects:?}");
            assert_eq!(read, given);
        }
    }
}

#[test]
fn the_accepted_rows_are_those_with_a_point() {
    let lat: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0)]));
    let lon: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), Some(2.0), Some(3.0)]));
    let (points, _) = lat_lon(lat, lon).unwrap();
    let accepted = points.accepted().unwrap();
    assert_eq!(accepted.iter().map(Option::unwrap).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(points.filter(&accepted).unwrap(), at(&[(1.0, 1.0), (3.0, 3.0)]));
    assert_eq!(at(&[(1.0, 1.0)]).accepted().unwrap().true_count(), 1);
}

proptest! {
    #[test]
    fn garbage_is_rejected_or_read_but_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let (points, rejects) = geometry(Arc::new(BinaryArray::from(vec![bytes.as_slice()]))).unwrap();
        prop_assert_eq!(points.lon.is_null(0), rejects.len() == 1);
    }

    #[test]
    fn a_damaged_point_is_rejected_or_read_but_never_panics(
        code in prop_oneof![0_u32..20, 1000_u32..1020, 2001_u32..2003, 3001_u32..3003, any::<u32>()],
        flags in 0_u32..8,
        little_endian: bool,
        srid: Option<u32>,
        coordinates in prop::collection::vec(any::<f64>(), 0..5),
        cut in 0_usize..45,
    ) {
        let mut bytes = spelled(little_endian, code | flags << 29, srid, &coordinates);
        bytes.truncate(cut);
        let (points, rejects) = geometry(Arc::new(BinaryArray::from(vec![bytes.as_slice()]))).unwrap();
        prop_assert_eq!(points.lon.is_null(0), rejects.len() == 1);
        if points.lon.is_valid(0) {
            prop_assert!(points.lon.value(0).abs() <= 180.0 && points.lat.value(0).abs() <= 90.0);
        }
    }

    #[test]
    fn every_point_survives_well_known_binary(given in prop::collection::vec((-180.0..=180.0, -90.0..=90.0), 0..20)) {
        let given = at(&given);
        let (read, rejects) = geometry(Arc::new(wkb_points(&given).unwrap())).unwrap();
        prop_assert!(rejects.is_empty());
        prop_assert_eq!(read, given);
    }
}

#[test]
fn null_points_are_null_geometries() {
    let points =
        Points { lon: Float64Array::from(vec![Some(1.0), None]), lat: Float64Array::from(vec![Some(2.0), None]) };
    let wkb = wkb_points(&points).unwrap();
    assert!(wkb.is_valid(0) && wkb.is_null(1));
    let array: ArrayRef = Arc::new(wkb);
    assert_eq!(array.as_binary_view().value(0), spelled(true, 1, None, &[1.0, 2.0]));
}
