use hexfloe_geometry::{
    Dimensions, Facts, GeometryType, Limits, Normalised, Part as GeometryPart, Position, Problem, facts, lone_point,
    normalise, parts,
};
use rstest::rstest;

use crate::{appended, message, wkb};

/// Text like `.le 2 .f 1 2` as bytes: `le`/`be` begin a geometry in that order, `u` is a count or code, `f` a number.
fn bytes(parts: &[Part]) -> Vec<u8> {
    let mut little_endian = true;
    let mut bytes = Vec::new();
    for part in parts {
        match *part {
            Order(little) => {
                little_endian = little;
                bytes.push(u8::from(little));
            }
            U(number) => bytes.extend(if little_endian { number.to_le_bytes() } else { number.to_be_bytes() }),
            F(number) => bytes.extend(if little_endian { number.to_le_bytes() } else { number.to_be_bytes() }),
        }
    }
    bytes
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Order(bool),
    U(u32),
    F(f64),
}
use Part::{F, Order, U};

const LE: Part = Order(true);
const BE: Part = Order(false);
const NAN: Part = F(f64::NAN);
const Z: u32 = 0x8000_0000;
const M: u32 = 0x4000_0000;
const SRID: u32 = 0x2000_0000;

fn read(wkb: &[u8]) -> Result<(Normalised, Vec<u8>), Problem> {
    appended(|out| normalise(wkb, &Limits::default(), out))
}

#[rstest]
#[case::big_endian(&[BE, U(1), F(1.0), F(2.0)], "POINT (1 2)", None)]
#[case::iso_z(&[BE, U(1001), F(1.0), F(2.0), F(3.0)], "POINT Z (1 2 3)", None)]
#[case::iso_m(&[LE, U(2001), F(1.0), F(2.0), F(3.0)], "POINT M (1 2 3)", None)]
#[case::ewkb_z(&[LE, U(Z + 1), F(1.0), F(2.0), F(3.0)], "POINT Z (1 2 3)", None)]
#[case::ewkb_m(&[BE, U(M + 1), F(1.0), F(2.0), F(3.0)], "POINT M (1 2 3)", None)]
#[case::ewkb_zm(&[LE, U(Z + M + 1), F(1.0), F(2.0), F(3.0), F(4.0)], "POINT ZM (1 2 3 4)", None)]
#[case::srid(&[BE, U(SRID + 1), U(4326), F(1.0), F(2.0)], "POINT (1 2)", Some(4326))]
#[case::srid_and_iso_z(&[LE, U(SRID + 1001), U(27700), F(1.0), F(2.0), F(3.0)], "POINT Z (1 2 3)", Some(27700))]
#[case::members_in_another_order(
    &[BE, U(4), U(2), LE, U(1), F(1.0), F(2.0), BE, U(1), F(3.0), F(4.0)], "MULTIPOINT (1 2, 3 4)", None)]
#[case::members_in_another_dialect(
    &[LE, U(Z + 5), U(1), LE, U(1002), U(2), F(1.0), F(2.0), F(3.0), F(4.0), F(5.0), F(6.0)], "MULTILINESTRING Z ((1 2 3, 4 5 6))", None)]
#[case::member_repeats_the_srid(
    &[LE, U(SRID + 7), U(4326), U(1), LE, U(SRID + 1), U(4326), F(1.0), F(2.0)], "GEOMETRYCOLLECTION (POINT (1 2))", Some(4326))]
#[case::polygon(
    &[BE, U(3), U(1), U(4), F(0.0), F(0.0), F(1.0), F(0.0), F(1.0), F(1.0), F(0.0), F(0.0)], "POLYGON ((0 0, 1 0, 1 1, 0 0))", None)]
#[case::multipolygon(
    &[LE, U(6), U(1), BE, U(3), U(1), U(4), F(0.0), F(0.0), F(1.0), F(0.0), F(1.0), F(1.0), F(0.0), F(0.0)],
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))", None)]
#[case::empty_point_with_other_nan(&[BE, U(1), F(-f64::NAN), F(f64::from_bits(0x7ff8_dead_beef_0000))], "POINT EMPTY", None)]
#[case::empty_member(&[LE, U(4), U(1), LE, U(1), NAN, NAN], "MULTIPOINT (EMPTY)", None)]
#[case::empty_ring(&[LE, U(3), U(1), U(0)], "POLYGON (EMPTY)", None)]
fn every_dialect_becomes_one(#[case] parts: &[Part], #[case] text: &str, #[case] srid: Option<u32>) {
    assert_eq!(read(&bytes(parts)).unwrap(), (Normalised { srid }, wkb(text)));
}

#[test]
fn a_height_or_measure_may_be_unknown() {
    let known = bytes(&[LE, U(3001), F(1.0), F(2.0), NAN, F(4.0)]);
    assert_eq!(read(&known).unwrap().1, known);
    let other_nan = bytes(&[LE, U(3001), F(1.0), F(2.0), F(-f64::NAN), F(4.0)]);
    assert_eq!(read(&other_nan).unwrap().1, known);
    let infinite = bytes(&[LE, U(1001), F(1.0), F(2.0), F(f64::INFINITY)]);
    assert_eq!(message(read(&infinite)), "has a coordinate that is inf, not a finite number");
}

#[rstest]
#[case::nothing(&[], "0 bytes are left where 1 are needed")]
#[case::cut_off(&[LE, U(1), F(1.0)], "8 bytes are left where 16 are needed")]
#[case::geometry(&[LE, U(0)], "type 0 is Geometry, none of the seven that are read: turn it into lines or polygons")]
#[case::circular_string(&[LE, U(8), U(0)], "type 8 is CircularString, none of the seven that are read: turn it into lines or polygons")]
#[case::compound_curve_z(&[LE, U(1009), U(0)], "type 1009 is CompoundCurve, none of the seven that are read: turn it into lines or polygons")]
#[case::tin(&[BE, U(16), U(0)], "type 16 is TIN, none of the seven that are read: turn it into lines or polygons")]
#[case::type_18(&[LE, U(18), U(0)], "there is no geometry type 18")]
#[case::type_4001(&[LE, U(4001), F(1.0), F(2.0)], "there is no geometry type 4001")]
#[case::flag_4(&[LE, U(0x1000_0001), F(1.0), F(2.0)], "there is no geometry type 268435457")]
#[case::left_over(&[LE, U(1), F(1.0), F(2.0), U(0)], "4 bytes are left over behind the geometry")]
#[case::line_in_points(&[LE, U(4), U(1), LE, U(2), U(0)], "a MultiPoint XY has a LineString XY as member")]
#[case::z_in_xy(&[LE, U(7), U(1), LE, U(1001), F(1.0), F(2.0), F(3.0)], "a GeometryCollection XY has a Point XYZ as member")]
#[case::two_srids(&[LE, U(SRID + 7), U(1), U(1), LE, U(SRID + 1), U(2), F(1.0), F(2.0)], "it has SRID 1, and a member with SRID 2")]
#[case::coordinates(&[LE, U(2), U(u32::MAX), F(1.0), F(2.0)], "4294967295 coordinates are announced, and 16 bytes are left")]
#[case::rings(&[LE, U(3), U(u32::MAX), U(0)], "4294967295 rings are announced, and 4 bytes are left")]
#[case::members(&[LE, U(7), U(1000), LE, U(2), U(0)], "1000 members are announced, and 9 bytes are left")]
#[case::ring_of_three(&[LE, U(3), U(1), U(3), F(0.0), F(0.0), F(1.0), F(0.0), F(0.0), F(0.0)], "ring 1 has 3 coordinates, where a ring has 4 or more")]
#[case::line_of_one(&[BE, U(2), U(1), F(1.0), F(2.0)], "a line has 1 coordinate, where a line has 2 or more")]
#[case::ring_of_one(&[LE, U(3), U(1), U(1), F(0.0), F(0.0)], "ring 1 has 1 coordinates, where a ring has 4 or more")]
fn what_is_no_geometry_is_told(#[case] parts: &[Part], #[case] cause: &str) {
    assert_eq!(message(read(&bytes(parts))), format!("cannot be read: {cause}"));
}

#[rstest]
#[case::x(&[LE, U(1), NAN, F(2.0)], Problem::NotFinite(f64::NAN))]
#[case::y(&[BE, U(1), F(1.0), F(f64::NEG_INFINITY)], Problem::NotFinite(f64::NEG_INFINITY))]
#[case::xy_but_not_z(&[LE, U(1001), NAN, NAN, F(1.0)], Problem::NotFinite(f64::NAN))]
#[case::in_a_line(&[LE, U(2), U(2), F(1.0), F(2.0), NAN, NAN], Problem::NotFinite(f64::NAN))]
fn a_coordinate_that_is_not_finite_is_a_problem_of_its_own(#[case] parts: &[Part], #[case] problem: Problem) {
    assert_eq!(format!("{:?}", read(&bytes(parts)).unwrap_err()), format!("{problem:?}"));
}

#[test]
fn a_ring_that_is_not_closed_is_told_by_its_number() {
    let closed = [U(4), F(0.0), F(0.0), F(1.0), F(0.0), F(1.0), F(1.0), F(0.0), F(0.0)];
    let open = [U(4), F(0.0), F(0.0), F(1.0), F(0.0), F(1.0), F(1.0), F(0.0), F(1.0)];
    let polygon = |second: &[Part]| bytes(&[&[LE, U(3), U(2)], &closed[..], second].concat());
    assert!(read(&polygon(&closed)).is_ok());
    assert_eq!(read(&polygon(&open)), Err(Problem::UnclosedRing { ring: 2 }));

    let lenient = Limits { closed_rings: false, ..Limits::default() };
    let (_, kept) = appended(|out| normalise(&polygon(&open), &lenient, out)).unwrap();
    assert_eq!(kept, polygon(&open));
}

/// A ring that climbs is closed on the map.
#[test]
fn a_ring_is_closed_in_x_and_y() {
    let ring = [(0.0, 0.0, 1.0), (1.0, 0.0, 2.0), (1.0, 1.0, 3.0), (0.0, 0.0, 4.0)];
    let numbers = ring.iter().flat_map(|&(x, y, z)| [F(x), F(y), F(z)]);
    let parts: Vec<Part> = [LE, U(1003), U(1), U(4)].into_iter().chain(numbers).collect();
    assert!(read(&bytes(&parts)).is_ok());
}

#[test]
fn what_is_beyond_the_limits_is_not_read() {
    let limits = Limits { depth: 2, coordinates: 3, ..Limits::default() };
    let read = |wkb: &[u8]| appended(|out| normalise(wkb, &limits, out));
    assert!(read(&wkb("GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (MULTIPOINT (1 1)))")).is_ok());
    assert_eq!(
        message(read(&wkb("GEOMETRYCOLLECTION (GEOMETRYCOLLECTION (GEOMETRYCOLLECTION EMPTY))"))),
        "is beyond the limits: collections are nested more than 2 deep"
    );
    assert!(read(&wkb("MULTIPOINT (1 1, 2 2, 3 3)")).is_ok());
    assert_eq!(
        message(read(&wkb("MULTIPOINT (1 1, 2 2, 3 3, 4 4)"))),
        "is beyond the limits: it has more than 3 coordinates"
    );

    let limits = Limits { depth: usize::MAX, ..Limits::default() };
    let nested = bytes(&[LE, U(7), U(1)].repeat(100_000));
    let result = appended(|out| normalise(&nested, &limits, out));
    assert_eq!(message(result), "is beyond the limits: collections are nested more than 100 deep");
}

#[rstest]
#[case("POINT (1 -2)", GeometryType::Point, Dimensions::Xy, Some([1.0, -2.0, 1.0, -2.0]), 1)]
#[case("POINT Z EMPTY", GeometryType::Point, Dimensions::Xyz, None, 0)]
#[case("LINESTRING M (3 -2 9, -0 4 9)", GeometryType::LineString, Dimensions::Xym, Some([0.0, -2.0, 3.0, 4.0]), 2)]
#[case("POLYGON ((0 0, 9 0, 9 9, 0 0), (6 3, 7 3, 7 4, 6 3))", GeometryType::Polygon, Dimensions::Xy, Some([0.0, 0.0, 9.0, 9.0]), 8)]
#[case("MULTIPOINT (1 2, EMPTY, 3 4)", GeometryType::MultiPoint, Dimensions::Xy, Some([1.0, 2.0, 3.0, 4.0]), 2)]
#[case("GEOMETRYCOLLECTION ZM (GEOMETRYCOLLECTION ZM (POINT ZM (1 2 3 4)), LINESTRING ZM (5 6 7 8, 5 6 7 8))", GeometryType::GeometryCollection, Dimensions::Xyzm, Some([1.0, 2.0, 5.0, 6.0]), 3)]
#[case("GEOMETRYCOLLECTION EMPTY", GeometryType::GeometryCollection, Dimensions::Xy, None, 0)]
fn the_facts_of_a_geometry(
    #[case] text: &str,
    #[case] geometry_type: GeometryType,
    #[case] dimensions: Dimensions,
    #[case] bbox: Option<[f64; 4]>,
    #[case] coordinates: usize,
) {
    assert_eq!(facts(&wkb(text)), Ok(Facts { geometry_type, dimensions, bbox, coordinates }));
}

#[rstest]
#[case::point(&[BE, U(SRID + Z + 1), U(3857), F(1.0), F(2.0), F(3.0)], Some(3857), Position::At([1.0, 2.0]))]
#[case::empty(&[LE, U(1), NAN, NAN], None, Position::Empty)]
#[case::triangle(&[LE, U(17), U(0)], None, Position::NotAPoint("Triangle"))]
#[case::multipoint(&[LE, U(2004)], None, Position::NotAPoint("MultiPoint"))]
fn a_lone_point_is_read_at_once(#[case] parts: &[Part], #[case] srid: Option<u32>, #[case] position: Position) {
    let found = lone_point(&bytes(parts)).unwrap();
    assert_eq!((found.srid, found.position), (srid, position));
}

#[test]
fn the_parts_of_a_geometry_come_in_their_order() {
    let nested = wkb(
        "GEOMETRYCOLLECTION Z (POINT Z (1 2 9), MULTIPOINT Z (EMPTY, (3 4 9)), GEOMETRYCOLLECTION Z (LINESTRING Z (5 6 9, 7 8 9)), \
         POLYGON Z EMPTY, POLYGON Z ((0 0 9, 1 0 9, 1 1 9, 0 0 9), EMPTY))",
    );
    let found: Vec<_> = parts(&nested).map(Result::unwrap).collect();
    let ring = vec![[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]];
    assert_eq!(
        found,
        [
            GeometryPart::Point([1.0, 2.0]),
            GeometryPart::Point([3.0, 4.0]),
            GeometryPart::Line(vec![[5.0, 6.0], [7.0, 8.0]]),
            GeometryPart::Polygon(vec![]),
            GeometryPart::Polygon(vec![ring, vec![]]),
        ]
    );
    let cut_off: Vec<_> = parts(&nested[..60]).collect();
    assert!(matches!(cut_off[..], [Ok(GeometryPart::Point(_)), Err(_)]), "{cut_off:?}");
}
