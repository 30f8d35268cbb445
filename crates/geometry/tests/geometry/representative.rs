use hexfloe_geometry::{Limits, Problem, from_text, map_coordinates, representative_point};
use rstest::rstest;

use crate::wkb;

fn point(text: &str) -> Option<[f64; 2]> {
    representative_point(&wkb(text)).unwrap()
}

#[rstest]
#[case::point("POINT Z (1 2 3)", [1.0, 2.0])]
#[case::line("LINESTRING (0 0, 10 0)", [5.0, 0.0])]
#[case::line_around_a_corner("LINESTRING M (0 0 7, 4 0 7, 4 8 7)", [4.0, 2.0])]
#[case::line_that_goes_back("LINESTRING (0 0, 8 0, 4 0)", [6.0, 0.0])]
#[case::line_through_a_doubled_vertex("LINESTRING (0 0, 2 0, 2 0, 4 0)", [2.0, 0.0])]
#[case::line_without_length("LINESTRING (3 4, 3 4)", [3.0, 4.0])]
#[case::line_longer_than_numbers("LINESTRING (-1e308 0, 1e308 0)", [-1e308, 0.0])]
#[case::polygon("POLYGON Z ((0 0 9, 4 0 9, 4 4 9, 0 4 9, 0 0 9))", [2.0, 2.0])]
#[case::polygon_whose_centroid_is_outside("POLYGON ((0 0, 9 0, 9 9, 7 9, 7 2, 2 2, 2 9, 0 9, 0 0))", [1.0, 5.5])]
#[case::widest_piece("POLYGON ((0 0, 9 0, 9 9, 6 9, 6 2, 2 2, 2 9, 0 9, 0 0))", [7.5, 5.5])]
#[case::first_of_equal_pieces("POLYGON ((0 0, 9 0, 9 9, 0 9, 0 0), (3 1, 6 1, 6 8, 3 8, 3 1))", [1.5, 4.5])]
#[case::flat_polygon("POLYGON ((0 5, 4 5, 9 5, 0 5))", [0.0, 5.0])]
#[case::points("MULTIPOINT (EMPTY, 3 4, 1 2)", [3.0, 4.0])]
#[case::lines("MULTILINESTRING (EMPTY, (0 0, 2 0), (0 0, 90 0))", [1.0, 0.0])]
#[case::polygons("MULTIPOLYGON (EMPTY, ((0 0, 2 0, 2 2, 0 2, 0 0)), ((0 0, 90 0, 90 90, 0 90, 0 0)))", [1.0, 1.0])]
#[case::collection("GEOMETRYCOLLECTION (POINT EMPTY, GEOMETRYCOLLECTION (LINESTRING (0 0, 2 0)), POINT (9 9))", [1.0, 0.0])]
fn each_geometry_has_a_point_that_stands_for_it(#[case] text: &str, #[case] expected: [f64; 2]) {
    assert_eq!(point(text), Some(expected));
}

#[rstest]
#[case("POINT EMPTY")]
#[case("LINESTRING EMPTY")]
#[case("POLYGON EMPTY")]
#[case("POLYGON (EMPTY)")]
#[case("MULTIPOINT (EMPTY, EMPTY)")]
#[case("GEOMETRYCOLLECTION (GEOMETRYCOLLECTION EMPTY, MULTIPOLYGON (EMPTY))")]
fn an_empty_geometry_has_none(#[case] text: &str) {
    assert_eq!(point(text), None);
}

/// `interior_points.txt` is made by `tests/geometry/make.py`.
#[test]
fn interior_points_are_those_of_geos() {
    let mut polygons = 0;
    for line in include_str!("interior_points.txt").lines() {
        let [name, hexadecimal, x, y] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let expected: [f64; 2] = [x, y].map(|number| number.parse().unwrap());
        let mut bytes = Vec::new();
        from_text(hexadecimal, &Limits::default(), &mut bytes).unwrap();
        let found = representative_point(&bytes).unwrap().unwrap();

        let close = |(found, expected): (f64, f64)| (found - expected).abs() <= 1e-9 * expected.abs();
        assert!(found.into_iter().zip(expected).all(close), "{name}: {found:?} instead of {expected:?}");
        assert!(is_inside(&mut bytes, found) || name.contains("flat") || name == "one_place", "{name}: {found:?}");
        polygons += 1;
    }
    assert!(polygons >= 80);
}

/// Whether a ray from `point` towards the east crosses the rings an odd number of times.
fn is_inside(polygon: &mut [u8], [px, py]: [f64; 2]) -> bool {
    let mut vertices = Vec::new();
    map_coordinates::<Problem>(polygon, |vertex| {
        vertices.push(vertex);
        Ok(vertex)
    })
    .unwrap();
    let mut inside = false;
    // Rings are closed: the first vertex that is met again ends one.
    let mut start = 0;
    for at in 1..vertices.len() {
        let ([x0, y0], [x1, y1]) = (vertices[at - 1], vertices[at]);
        if at == start {
            continue;
        }
        if (y0 > py) != (y1 > py) && px < x0 + (py - y0) * ((x1 - x0) / (y1 - y0)) {
            inside = !inside;
        }
        if vertices[at] == vertices[start] && at >= start + 3 {
            start = at + 1;
        }
    }
    inside
}

#[test]
fn coordinates_are_changed_in_place_and_in_order() {
    let mut bytes = wkb(
        "GEOMETRYCOLLECTION Z (POINT Z (1 2 9), MULTIPOINT Z (EMPTY, (3 4 8)), POLYGON Z ((0 0 1, 1 0 2, 1 1 3, 0 0 1)))",
    );
    let mut seen = Vec::new();
    map_coordinates::<Problem>(&mut bytes, |[x, y]| {
        seen.push(x);
        Ok([x + 10.0, y * 2.0])
    })
    .unwrap();
    assert_eq!(seen, [1.0, 3.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(
        bytes,
        wkb(
            "GEOMETRYCOLLECTION Z (POINT Z (11 4 9), MULTIPOINT Z (EMPTY, (13 8 8)), POLYGON Z ((10 0 1, 11 0 2, 11 2 3, 10 0 1)))"
        )
    );
}

#[test]
fn a_change_that_fails_stops() {
    let mut bytes = wkb("LINESTRING (1 2, 3 4, 5 6)");
    let refuse = |[x, y]: [f64; 2]| if x < 3.0 { Ok([x, y]) } else { Err(Problem::NotFinite(x)) };
    assert_eq!(map_coordinates(&mut bytes, refuse), Err(Problem::NotFinite(3.0)));
}
