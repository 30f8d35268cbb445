use std::collections::BTreeSet;

use h3o::geom::{ContainmentMode, TilerBuilder};
use hexfloe_batch::{Containment, CoverProblem, Sha256Hex, cover_cells};
use hexfloe_geometry::{Limits, Part, from_text, parts};
use proptest::prelude::*;
use rstest::rstest;

use crate::resolution;

const MODES: [Containment; 3] = [Containment::Center, Containment::Boundary, Containment::Covers];

fn cover(text: &str, at: u8, containment: Containment) -> Result<Vec<u64>, CoverProblem> {
    cover_at_most(text, at, containment, 1_000_000)
}

fn cover_at_most(text: &str, at: u8, containment: Containment, most: usize) -> Result<Vec<u64>, CoverProblem> {
    let mut wkb = Vec::new();
    from_text(text, &Limits::default(), &mut wkb).unwrap();
    let cells = cover_cells(&wkb, resolution(at), containment, most)?;
    assert!(cells.is_sorted_by(|a, b| a < b));
    Ok(cells)
}

/// `covers.txt` is made by `tests/geometry/cover.py`.
#[test]
fn polygons_are_covered_by_the_cells_that_the_c_library_finds() {
    let (mut polygon, mut covers) = ("", 0);
    for line in include_str!("covers.txt").lines() {
        if line.starts_with("POLYGON") {
            polygon = line;
            continue;
        }
        let [containment, at, count, digest] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let containment: Containment = serde_json::from_str(&format!("\"{containment}\"")).unwrap();
        let cells = cover(polygon, at.parse().unwrap(), containment).unwrap();
        let listed: String = cells.iter().map(|cell| format!("{cell:x}\n")).collect();
        assert_eq!(
            (cells.len().to_string().as_str(), &Sha256Hex::of(&listed).to_string()[..16]),
            (count, digest),
            "{line}"
        );
        covers += 1;
    }
    assert!(covers > 60);
}

#[rstest]
#[case::point("POINT (10.75 59.91)", &["8509993bfffffff"])]
#[case::points("MULTIPOINT (10.75 59.91, EMPTY, 10.751 59.911)", &["8509993bfffffff"])]
#[case::nothing("POINT EMPTY", &[])]
#[case::empty_polygon("POLYGON EMPTY", &[])]
#[case::nothing_in_nothing("GEOMETRYCOLLECTION (LINESTRING EMPTY, MULTIPOLYGON (EMPTY))", &[])]
fn points_are_covered_by_their_cells(#[case] text: &str, #[case] expected: &[&str], #[values(0, 1, 2)] mode: usize) {
    let cells: Vec<_> = cover(text, 5, MODES[mode]).unwrap().iter().map(|cell| format!("{cell:x}")).collect();
    assert_eq!(cells, expected);
}

/// As many as there are: no cell of the world is missing, the poles, the pentagons and those on the antimeridian included.
#[rstest]
#[case(0, 122)]
#[case(1, 842)]
#[case(2, 5882)]
#[case(3, 41_162)]
fn a_box_around_the_world_is_covered_by_all_cells(#[case] at: u8, #[case] all: usize, #[values(0, 1, 2)] mode: usize) {
    let world = "POLYGON ((-180 -90, 180 -90, 180 90, -180 90, -180 -90))";
    assert_eq!(cover(world, at, MODES[mode]).unwrap().len(), all);
}

fn sum<'a>(parts: impl IntoIterator<Item = &'a str>, at: u8) -> Vec<u64> {
    let mut cells: Vec<u64> =
        parts.into_iter().flat_map(|part| cover(part, at, Containment::Center).unwrap()).collect();
    cells.sort_unstable();
    cells
}

/// Four pieces of the world share no cell and leave none out: neither the cells with a pole, nor those on the antimeridian.
#[test]
fn every_cell_has_its_center_in_one_piece_of_the_world() {
    let pieces = [
        "POLYGON ((-180 60, 180 60, 180 90, -180 90, -180 60))",
        "POLYGON ((-180 -90, 180 -90, 180 -60, -180 -60, -180 -90))",
        "POLYGON ((-180 -60, 0 -60, 0 60, -180 60, -180 -60))",
        "POLYGON ((0 -60, 180 -60, 180 60, 0 60, 0 -60))",
    ];
    let world = cover("POLYGON ((-180 -90, 180 -90, 180 90, -180 90, -180 -90))", 3, Containment::Center).unwrap();
    assert_eq!(sum(pieces, 3), world);
}

const FIJI: &str = "MULTIPOLYGON (((177 -19, 180 -19, 180 -16, 177 -16, 177 -19)), ((-180 -19, -178 -19, -178 -16, -180 -16, -180 -19)))";
/// The same shape elsewhere, where nothing is cut.
const PIECES: [&str; 2] = [
    "POLYGON ((177 -19, 180 -19, 180 -16, 177 -16, 177 -19))",
    "POLYGON ((-180 -19, -178 -19, -178 -16, -180 -16, -180 -19))",
];

#[test]
fn a_polygon_cut_at_the_antimeridian_is_covered_as_a_whole() {
    for at in [3, 5, 6] {
        let [center, boundary, covers] = MODES.map(|containment| cover(FIJI, at, containment).unwrap());
        assert_eq!(center, sum(PIECES, at));
        assert!(boundary.iter().all(|cell| center.contains(cell)));
        assert!(center.iter().all(|cell| covers.contains(cell)));
        assert!(center.iter().all(|&cell| {
            let center = h3o::LatLng::from(h3o::CellIndex::try_from(cell).unwrap());
            (-19.0..=-16.0).contains(&center.lat()) && !(-178.0..=177.0).contains(&center.lng())
        }));
    }
}

/// As Natural Earth has them.
#[rstest]
#[case(
    "POLYGON ((178.7 70.8, 180.00000000000006 70.8, 180.00000000000006 71.5, 178.7 70.8))",
    "POLYGON ((178.7 70.8, 180 70.8, 180 71.5, 178.7 70.8))"
)]
#[case(
    "POLYGON ((180 -80, 180 -90, -179.99999999999994 -90, -179.99999999999994 -80, 0 -80, 180 -80))",
    "POLYGON ((180 -80, 180 -90, -180 -90, -180 -80, 0 -80, 180 -80))"
)]
fn rounding_at_the_rim_of_the_map_does_no_harm(
    #[case] text: &str,
    #[case] exact: &str,
    #[values(0, 1, 2)] mode: usize,
) {
    let cells = cover(text, 4, MODES[mode]).unwrap();
    assert_eq!(cells, cover(exact, 4, MODES[mode]).unwrap());
    assert!(!cells.is_empty() || MODES[mode] == Containment::Boundary);
}

#[rstest]
#[case::uncut("POLYGON ((177 -19, -178 -19, -178 -16, 177 -16, 177 -19))", 177.0, -178.0)]
#[case::ring_around_the_pole("POLYGON ((-170 80, -60 80, 60 80, 170 80, -170 80))", 170.0, -170.0)]
#[case::band("POLYGON ((-170 -10, 170 -10, 170 10, -170 10, -170 -10))", -170.0, 170.0)]
#[case::line("LINESTRING (179 0, -179 0)", 179.0, -179.0)]
fn an_edge_that_may_go_either_way_around_the_world_is_refused(#[case] text: &str, #[case] from: f64, #[case] to: f64) {
    for containment in MODES {
        assert_eq!(cover(text, 3, containment), Err(CoverProblem::LongEdge { from, to }));
    }
}

#[rstest]
#[case(90.0)]
#[case(-90.0)]
fn a_cap_on_a_pole_holds_the_cell_of_the_pole(#[case] pole: f64, #[values(2, 3, 4, 5)] at: u8) {
    let edge = pole * 8.0 / 9.0;
    let text = format!(
        "POLYGON ((-180 {edge}, -90 {edge}, 0 {edge}, 90 {edge}, 180 {edge}, 180 {pole}, -180 {pole}, -180 {edge}))"
    );
    let polar = u64::from(h3o::LatLng::new(pole, 0.0).unwrap().to_cell(at.try_into().unwrap()));
    let [center, boundary, covers] = MODES.map(|containment| cover(&text, at, containment).unwrap());
    assert!([&center, &boundary, &covers].iter().all(|cells| cells.contains(&polar)));
    assert!(boundary.len() < center.len() && center.len() < covers.len());
    assert!(boundary.iter().all(|cell| center.contains(cell)) && center.iter().all(|cell| covers.contains(cell)));
}

/// A second opinion about poles and the antimeridian: the tiler of h3o does not lose its way where edges are short, once it has been told
/// not to look for polygons that cross.
#[rstest]
#[case::north("POLYGON ((-180 80, -90 80, 0 80, 90 80, 180 80, 180 90, -180 90, -180 80))")]
#[case::south("POLYGON ((-180 -90, 180 -90, 180 -80, 90 -80, 0 -80, -90 -80, -180 -80, -180 -90))")]
#[case::west_of_the_antimeridian(PIECES[0])]
#[case::east_of_the_antimeridian(PIECES[1])]
#[case::sector("POLYGON ((0 70, 30 70, 60 70, 60 90, 0 90, 0 70))")]
fn the_tiler_of_h3o_finds_the_same(#[case] text: &str, #[values(2, 3, 4)] at: u8) {
    let mut wkb = Vec::new();
    from_text(text, &Limits::default(), &mut wkb).unwrap();
    let Some(Ok(Part::Polygon(rings))) = parts(&wkb).next() else { panic!("{text}") };
    let polygon =
        geo::Polygon::new(geo::LineString::from(rings[0].iter().map(|&[x, y]| (x, y)).collect::<Vec<_>>()), vec![]);
    let modes = [ContainmentMode::ContainsCentroid, ContainmentMode::ContainsBoundary, ContainmentMode::Covers];
    for (ours, theirs) in MODES.into_iter().zip(modes) {
        let mut tiler = TilerBuilder::new(at.try_into().unwrap())
            .containment_mode(theirs)
            .disable_transmeridian_heuristic()
            .build();
        tiler.add(polygon.clone()).unwrap();
        let tiled: BTreeSet<u64> = tiler.into_coverage().map(u64::from).collect();
        assert_eq!(cover(text, at, ours).unwrap(), tiled.into_iter().collect::<Vec<_>>(), "{ours:?}");
    }
}

#[test]
fn a_pentagon_is_covered_by_itself_and_what_touches_it() {
    let pentagon = h3o::CellIndex::try_from(0x0820_807f_ffff_ffff).unwrap();
    assert!(pentagon.is_pentagon());
    let mut corners: Vec<_> =
        pentagon.boundary().iter().map(|corner| format!("{} {}", corner.lng(), corner.lat())).collect();
    corners.push(corners[0].clone());
    let text = format!("POLYGON (({}))", corners.join(", "));
    assert_eq!(cover(&text, 2, Containment::Center).unwrap(), [u64::from(pentagon)]);
    assert_eq!(cover(&text, 2, Containment::Covers).unwrap().len(), 6);
    // A pentagon has six children, one of them a pentagon.
    assert_eq!(cover(&text, 3, Containment::Center).unwrap().len(), 6);
}

/// What a line goes through is next to what it went through before, from its first cell to its last.
#[rstest]
#[case("LINESTRING (10 59, 11 60, 9 61)", 6)]
#[case("LINESTRING (-180 10, 180 10)", 2)]
#[case("LINESTRING (0 -90, 0 90)", 3)]
#[case("LINESTRING (-60 -40, -55 -38)", 5)]
fn a_line_is_covered_without_gaps(#[case] text: &str, #[case] at: u8) {
    let cells = cover(text, at, Containment::Center).unwrap();
    let cells: Vec<_> = cells.into_iter().map(|cell| h3o::CellIndex::try_from(cell).unwrap()).collect();
    let mut reached = vec![cells[0]];
    let mut next = 0;
    while let Some(&cell) = reached.get(next) {
        next += 1;
        for neighbour in cell.grid_disk::<Vec<_>>(1) {
            if cells.contains(&neighbour) && !reached.contains(&neighbour) {
                reached.push(neighbour);
            }
        }
    }
    assert_eq!(reached.len(), cells.len());
}

#[test]
fn a_line_without_length_is_covered_by_its_cell() {
    let line = cover("LINESTRING (10.75 59.91, 10.75 59.91)", 5, Containment::Center);
    assert_eq!(line, cover("POINT (10.75 59.91)", 5, Containment::Center));
}

#[rstest]
#[case("POLYGON ((-180 -90, 180 -90, 180 90, -180 90, -180 -90))", 15)]
#[case("LINESTRING (0 0, 90 45)", 15)]
#[case("MULTIPOINT (0 0, 10 0, 20 0, 30 0, 40 0, 50 0, 60 0, 70 0, 80 0, 90 0, 100 0)", 5)]
fn more_cells_than_are_allowed_are_not_made(#[case] text: &str, #[case] at: u8) {
    let problem = cover_at_most(text, at, Containment::Covers, 10).unwrap_err();
    assert_eq!(problem, CoverProblem::TooManyCells { most: 10 });
    assert_eq!(
        problem.to_string(),
        "more than 10 cells cover the geometry: take a coarser resolution, or raise the limit"
    );
}

/// Cells that a sliver passes through, but none of which it holds: there is nothing to count, and yet it ends.
#[test]
fn a_search_that_finds_nothing_ends() {
    let sliver = "POLYGON ((0 0, 170 80, 170 80.00000000000003, 0 0))";
    assert_eq!(cover(sliver, 15, Containment::Boundary), Err(CoverProblem::TooComplex { resolution: 15 }));
}

#[rstest]
#[case("POINT (181 0)", 181.0, 0.0)]
#[case("LINESTRING (0 0, 0 91)", 0.0, 91.0)]
#[case("POLYGON ((530000 180000, 530001 180000, 530001 180001, 530000 180000))", 530_000.0, 180_000.0)]
fn metres_are_not_taken_for_degrees(#[case] text: &str, #[case] x: f64, #[case] y: f64) {
    assert_eq!(cover(text, 5, Containment::Center), Err(CoverProblem::OutOfRange { x, y }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is asked for, there is an answer, and the modes are in order.
    #[test]
    fn what_is_inside_has_its_center_inside_and_meets(
        ring in prop::collection::vec((-180.0..=180.0, -90.0..=90.0), 3..7), at in 0..4_u8,
    ) {
        let mut corners: Vec<_> = ring.iter().map(|(x, y)| format!("{x:?} {y:?}")).collect();
        corners.push(corners[0].clone());
        let text = format!("POLYGON (({}))", corners.join(", "));
        if let Ok(center) = cover(&text, at, Containment::Center) {
            let boundary = cover(&text, at, Containment::Boundary).unwrap();
            let covers = cover(&text, at, Containment::Covers).unwrap();
            prop_assert!(boundary.iter().all(|cell| center.contains(cell)));
            prop_assert!(center.iter().all(|cell| covers.contains(cell)));
            // The corners themselves are met.
            for (x, y) in &ring {
                let corner = h3o::LatLng::new(*y, *x).unwrap().to_cell(at.try_into().unwrap());
                let near = corner.grid_disk::<Vec<_>>(1);
                prop_assert!(near.iter().any(|&cell| covers.contains(&u64::from(cell))));
            }
        }
    }
}

/// The search looks 1.3 times as far around a cell as its corners are, and must not miss a descendant's corner there.
#[test]
fn descendants_stick_out_by_less_than_the_room_that_is_granted() {
    let farthest = |center: h3o::LatLng, cell: h3o::CellIndex| {
        cell.boundary().iter().map(|&corner| center.distance_rads(corner)).fold(0.0, f64::max)
    };
    let mut most: f64 = 0.0;
    for base in h3o::CellIndex::base_cells() {
        for cell in std::iter::once(base).chain(base.children(h3o::Resolution::One)) {
            let (center, own) = (h3o::LatLng::from(cell), farthest(h3o::LatLng::from(cell), cell));
            for descendant in cell.children(h3o::Resolution::Four) {
                most = most.max(farthest(center, descendant) / own);
            }
        }
    }
    assert!((1.0..1.15).contains(&most), "{most}");
}
