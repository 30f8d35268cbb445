//! What holds for every input, the broken ones included.

use hexfloe_geometry::{
    Limits, Problem, Repair, facts, from_geojson, from_geopackage, from_text, lone_point, map_coordinates, normalise,
    repair, representative_point,
};
use proptest::prelude::*;

use crate::wkb;

/// Text of a geometry, with the dimensions left to the numbers.
fn geometry(width: usize) -> impl Strategy<Value = String> {
    let coordinate = || {
        let number = prop_oneof![-180.0..180.0, any::<i16>().prop_map(f64::from), proptest::num::f64::NORMAL];
        prop::collection::vec(number, width)
            .prop_map(|numbers| numbers.iter().map(|number| format!("{number:?}")).collect::<Vec<_>>().join(" "))
    };
    let list =
        |items: Vec<String>| if items.is_empty() { "EMPTY".to_owned() } else { format!("({})", items.join(", ")) };
    let some = 0..5_usize;
    let point = prop_oneof![4 => coordinate().prop_map(|at| format!("({at})")), 1 => Just("EMPTY".to_owned())].boxed();
    let vertices = prop_oneof![1 => Just(Vec::new()), 4 => prop::collection::vec(coordinate(), 2..5)];
    let line = vertices.prop_map(list).boxed();
    let ring = prop::collection::vec(coordinate(), 3..6).prop_map(move |mut ring| {
        ring.push(ring[0].clone());
        list(ring)
    });
    let polygon = prop::collection::vec(ring, some.clone()).prop_map(list).boxed();
    let many = |part: &BoxedStrategy<String>| prop::collection::vec(part.clone(), 0..4).prop_map(list);
    let (points, lines, polygons) = (many(&point), many(&line), many(&polygon));
    let named =
        |name: &'static str, body: BoxedStrategy<String>| body.prop_map(move |body| format!("{name} {body}")).boxed();
    prop_oneof![
        named("POINT", point),
        named("LINESTRING", line),
        named("POLYGON", polygon),
        named("MULTIPOINT", points.boxed()),
        named("MULTILINESTRING", lines.boxed()),
        named("MULTIPOLYGON", polygons.boxed()),
    ]
    .prop_recursive(3, 12, 4, move |inner| {
        prop::collection::vec(inner, 0..4).prop_map(list).prop_map(|members| format!("GEOMETRYCOLLECTION {members}"))
    })
}

fn any_geometry() -> impl Strategy<Value = String> {
    (2..=4_usize).prop_flat_map(geometry)
}

/// All that can be asked of bytes. Whatever they are, nothing that is written is much longer than they.
fn read_in_every_way(bytes: &[u8]) {
    let tight = Limits { depth: 3, coordinates: 20, closed_rings: true };
    let open = Limits { closed_rings: false, ..Limits::default() };
    for limits in [Limits::default(), tight, open] {
        let mut out = Vec::new();
        if normalise(bytes, &limits, &mut out).is_ok() {
            assert!(out.len() <= bytes.len());
            ask(&out);
        }
        out.clear();
        if from_geojson(bytes, &limits, &mut out).is_ok() {
            assert!(out.len() <= 16 * bytes.len());
            ask(&out);
        }
        out.clear();
        if from_geopackage(bytes, &limits, &mut out).is_ok() {
            ask(&out);
        }
        out.clear();
        if from_text(&String::from_utf8_lossy(bytes), &limits, &mut out).is_ok() {
            assert!(out.len() <= 16 * bytes.len());
            ask(&out);
        }
    }
    ask(bytes);
}

fn ask(wkb: &[u8]) {
    let _ = (facts(wkb), representative_point(wkb), lone_point(wkb), repair(wkb, Repair::CloseRings, &mut Vec::new()));
    let _ = map_coordinates::<Problem>(&mut wkb.to_vec(), Ok);
}

/// The same geometry in the other byte order, with an SRID and the flags of EWKB, as far as there is a coordinate to turn.
fn big_endian(wkb: &[u8]) -> Vec<u8> {
    let mut input = wkb;
    let mut out = Vec::new();
    turn(&mut input, &mut out);
    assert!(input.is_empty());
    out
}

fn turn(input: &mut &[u8], out: &mut Vec<u8>) {
    fn u32(input: &mut &[u8]) -> u32 {
        let (head, rest) = input.split_first_chunk().unwrap();
        *input = rest;
        u32::from_le_bytes(*head)
    }
    fn numbers(count: u32, input: &mut &[u8], out: &mut Vec<u8>) {
        for _ in 0..count {
            let (head, rest) = input.split_first_chunk().unwrap();
            *input = rest;
            out.extend(u64::from_le_bytes(*head).to_be_bytes());
        }
    }
    *input = &input[1..];
    let code = u32(input);
    let (flags, width) = [(0, 2), (0x8000_0000, 3), (0x4000_0000, 3), (0xc000_0000, 4)][code as usize / 1000];
    out.push(0);
    out.extend(((code % 1000) | flags | 0x2000_0000_u32).to_be_bytes());
    out.extend(4326_u32.to_be_bytes());
    if code % 1000 == 1 {
        return numbers(width, input, out);
    }
    let count = u32(input);
    out.extend(count.to_be_bytes());
    match code % 1000 {
        2 => numbers(count * width, input, out),
        3 => (0..count).for_each(|_| {
            let count = u32(input);
            out.extend(count.to_be_bytes());
            numbers(count * width, input, out);
        }),
        _ => (0..count).for_each(|_| turn(input, out)),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_it_is(text in any_geometry()) {
        let written = wkb(&text);
        let mut again = Vec::new();
        prop_assert_eq!(normalise(&written, &Limits::default(), &mut again).unwrap().srid, None);
        prop_assert_eq!(&again, &written);
        prop_assert!(facts(&written).is_ok());
    }

    #[test]
    fn the_byte_order_and_the_dialect_do_not_matter(text in any_geometry()) {
        let written = wkb(&text);
        let mut turned = Vec::new();
        prop_assert_eq!(normalise(&big_endian(&written), &Limits::default(), &mut turned).unwrap().srid, Some(4326));
        prop_assert_eq!(turned, written);
    }

    #[test]
    fn a_geometry_has_a_point_if_it_has_a_coordinate(text in any_geometry()) {
        let written = wkb(&text);
        let facts = facts(&written).unwrap();
        let point = representative_point(&written).unwrap();
        prop_assert_eq!(point.is_some(), facts.coordinates > 0);
        if let (Some([x, y]), Some([west, south, east, north])) = (point, facts.bbox) {
            prop_assert!(x.is_finite() && y.is_finite());
            // Rounding may lead out of the box by the last bit.
            let room = |low: f64, high: f64| (low.abs().max(high.abs())) * 1e-9;
            prop_assert!(x >= west - room(west, east) && x <= east + room(west, east));
            prop_assert!(y >= south - room(south, north) && y <= north + room(south, north));
        }
    }

    #[test]
    fn a_geometry_that_is_cut_off_is_refused(text in any_geometry(), part in 0.0..1.0) {
        let written = wkb(&text);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a part of a length")]
        let length = (written.len() as f64 * part) as usize;
        prop_assert!(normalise(&written[..length], &Limits::default(), &mut Vec::new()).is_err());
        read_in_every_way(&written[..length]);
    }

    #[test]
    fn flipped_bits_do_no_harm(text in any_geometry(), flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..4)) {
        let mut bytes = wkb(&text);
        for (at, bits) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        read_in_every_way(&bytes);
        let mut bytes = text.into_bytes();
        for (at, bits) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        read_in_every_way(&bytes);
    }

    #[test]
    fn geojson_with_flipped_bits_or_cut_off_does_no_harm(
        json in prop::sample::select(GEOJSON),
        flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..3),
        length in any::<prop::sample::Index>(),
    ) {
        let mut bytes = json.as_bytes().to_vec();
        prop_assert!(from_geojson(&bytes, &Limits::default(), &mut Vec::new()).unwrap());
        for (at, bits) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        read_in_every_way(&bytes);
        let cut_off = &json.as_bytes()[..length.index(json.len())];
        prop_assert!(from_geojson(cut_off, &Limits::default(), &mut Vec::new()).is_err());
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_in_every_way(&bytes);
        read_in_every_way(&[b"\x01", bytes.as_slice()].concat());
        read_in_every_way(&[b"GP\0\x01\0\0\0\0\x01", bytes.as_slice()].concat());
    }

    #[test]
    fn small_numbers_as_bytes_do_no_harm(bytes in prop::collection::vec(prop_oneof![4 => Just(0_u8), 3 => 0..8_u8, 1 => any::<u8>()], 0..200)) {
        read_in_every_way(&bytes);
    }

    #[test]
    fn scraps_of_text_do_no_harm(scraps in prop::collection::vec(prop::sample::select(SCRAPS), 0..40)) {
        read_in_every_way(scraps.concat().as_bytes());
    }
}

const SCRAPS: &[&str] = &[
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTI",
    "GEOMETRYCOLLECTION",
    " ",
    "Z",
    "M",
    "EMPTY",
    "(",
    ")",
    ",",
    "1",
    "-2.5",
    "1e999",
    "NaN",
    "SRID=",
    ";",
    "00",
    "01",
    "{",
    "}",
    "[",
    "]",
    ":",
    "\"type\"",
    "\"coordinates\"",
    "\"geometries\"",
    "\"Point\"",
    "\"Polygon\"",
    "\"GeometryCollection\"",
    "{\"type\":\"Polygon\",\"coordinates\":[",
    "null",
    "é",
    "\u{0}",
];

const GEOJSON: &[&str] = &[
    r#"{"type":"Point","coordinates":[10.5,-20.25,3e2]}"#,
    r#"{"coordinates":[[1,2],[3,4.125]],"type":"LineString","bbox":[1,2,3,4]}"#,
    r#"{"type":"Polygon","coordinates":[[[0,0],[9,0],[9,9],[0,0]],[[6,3],[7,3],[7,4],[6,3]]]}"#,
    r#"{"type":"MultiPolygon","coordinates":[[[[0,0,1],[9,0,1],[9,9,1],[0,0,1]]],[]]}"#,
    r#"{"type":"GeometryCollection","geometries":[{"type":"MultiPoint","coordinates":[[1,2],[]]},{"geometries":[],"type":"GeometryCollection"}]}"#,
];
