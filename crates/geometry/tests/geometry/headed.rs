//! Geometries of GeoPackage, which have a header, and repairs.

use hexfloe_geometry::{GeoPackageBlob, Limits, Problem, Repair, from_geopackage, normalise, repair};
use rstest::rstest;

use crate::{appended, message, wkb};

fn blob(version: u8, flags: u8, srs_id: [u8; 4], envelope: usize, body: &[u8]) -> Vec<u8> {
    [b"GP".as_slice(), &[version, flags], &srs_id, &vec![0xff; envelope], body].concat()
}

#[rstest]
#[case::big_endian(0b0000_0000, 27700_i32.to_be_bytes(), 0)]
#[case::little_endian(0b0000_0001, 27700_i32.to_le_bytes(), 0)]
#[case::box_xy(0b0000_0011, 27700_i32.to_le_bytes(), 32)]
#[case::box_xyz(0b0000_0101, 27700_i32.to_le_bytes(), 48)]
#[case::box_xym(0b0000_0111, 27700_i32.to_le_bytes(), 48)]
#[case::box_xyzm(0b0000_1001, 27700_i32.to_le_bytes(), 64)]
fn the_geometry_is_behind_the_header(#[case] flags: u8, #[case] srs_id: [u8; 4], #[case] envelope: usize) {
    let body = wkb("LINESTRING (1 2, 3 4)");
    let blob = blob(0, flags, srs_id, envelope, &body);
    let (header, bytes) = appended(|out| from_geopackage(&blob, &Limits::default(), out)).unwrap();
    assert_eq!((header, bytes), (GeoPackageBlob { srs_id: 27700, is_empty: false }, body));
    for length in 0..blob.len() {
        assert!(appended(|out| from_geopackage(&blob[..length], &Limits::default(), out)).is_err());
    }
}

#[test]
fn the_undefined_system_and_the_empty_geometry_are_told() {
    let blob = blob(0, 0b0001_0001, (-1_i32).to_le_bytes(), 0, &wkb("POINT EMPTY"));
    let (header, _) = appended(|out| from_geopackage(&blob, &Limits::default(), out)).unwrap();
    assert_eq!(header, GeoPackageBlob { srs_id: -1, is_empty: true });
}

#[rstest]
#[case::extended(blob(0, 0b0010_0001, [0; 4], 0, b"abcd"), "it is of an extended type, which is no well-known binary")]
#[case::version(blob(1, 1, [0; 4], 0, b""), "its header has version 1, where 0 is known")]
#[case::envelope(blob(0, 0b0000_1011, [0; 4], 99, b""), "its envelope has code 5, where 0 to 4 are known")]
#[case::no_envelope(blob(0, 0b0000_0011, [0; 4], 31, b""), "31 bytes are left where an envelope has 32")]
#[case::no_header(wkb("POINT (1 2)"), "it does not begin with GP, as geometries of a GeoPackage do")]
#[case::nothing(b"GP".to_vec(), "2 bytes are too few for the header of a GeoPackage")]
#[case::no_geometry(blob(0, 1, [0; 4], 0, b""), "0 bytes are left where 1 are needed")]
fn a_header_that_is_none_is_told(#[case] blob: Vec<u8>, #[case] cause: &str) {
    let result = appended(|out| from_geopackage(&blob, &Limits::default(), out));
    assert_eq!(message(result), format!("cannot be read: {cause}"));
}

fn lenient(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    hexfloe_geometry::from_text(text, &Limits { closed_rings: false, ..Limits::default() }, &mut bytes).unwrap();
    bytes
}

#[rstest]
#[case::closed("POLYGON ((0 0, 9 0, 9 9, 0 0))", "POLYGON ((0 0, 9 0, 9 9, 0 0))", 0)]
#[case::open("POLYGON ((0 0, 9 0, 9 9))", "POLYGON ((0 0, 9 0, 9 9, 0 0))", 1)]
#[case::hole(
    "POLYGON ((0 0, 9 0, 9 9, 0 0), (6 3, 7 3, 7 4))",
    "POLYGON ((0 0, 9 0, 9 9, 0 0), (6 3, 7 3, 7 4, 6 3))",
    1
)]
#[case::height("POLYGON Z ((0 0 1, 9 0 2, 9 9 3))", "POLYGON Z ((0 0 1, 9 0 2, 9 9 3, 0 0 1))", 1)]
#[case::line("LINESTRING (0 0, 9 0, 9 9)", "LINESTRING (0 0, 9 0, 9 9)", 0)]
#[case::members(
    "GEOMETRYCOLLECTION (MULTIPOLYGON (((0 0, 9 0, 9 9)), ((0 0, 9 0, 9 9, 0 0))), POINT (1 2), POLYGON ((1 1, 9 0, 9 9)))",
    "GEOMETRYCOLLECTION (MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0)), ((0 0, 9 0, 9 9, 0 0))), POINT (1 2), POLYGON ((1 1, 9 0, 9 9, 1 1)))",
    2
)]
#[case::empty("POLYGON (EMPTY)", "POLYGON (EMPTY)", 0)]
fn rings_are_closed_and_nothing_else_is_changed(#[case] text: &str, #[case] closed: &str, #[case] changes: usize) {
    let (made, bytes) = appended(|out| repair(&lenient(text), Repair::CloseRings, out)).unwrap();
    assert_eq!((made, &bytes), (changes, &wkb(closed)));
    let (again, _) = appended(|out| repair(&bytes, Repair::CloseRings, out)).unwrap();
    assert_eq!(again, 0);
    assert!(normalise(&bytes, &Limits::default(), &mut Vec::new()).is_ok());
}

#[test]
fn a_ring_of_two_places_is_beyond_repair() {
    let result = appended(|out| repair(&lenient("POLYGON ((0 0, 9 0))"), Repair::CloseRings, out));
    let problem = Problem::Unreadable("ring 1 has 3 coordinates, where a ring has 4 or more".to_owned());
    assert_eq!(result, Err(problem));
}
