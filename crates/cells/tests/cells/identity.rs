//! Every cell is h3o's. The ignored test does the same with so many points that a wrong margin of 1 in 10⁷ would show.

use h3o::Resolution;
use rstest::rstest;

use crate::assert_identical;
use crate::points::{borders, cells_near_face_centres, centres, cities, face_edges, some_cells, uniform};

const USUAL: [Resolution; 4] = [Resolution::Five, Resolution::Nine, Resolution::Ten, Resolution::Twelve];

fn anywhere(count: usize, seed: u64) {
    let points = uniform(count, seed);
    for resolution in USUAL {
        assert_identical(&points, resolution);
    }
}

fn around_cities(count: usize, seed: u64) {
    let points = cities(count, seed);
    for resolution in USUAL {
        assert_identical(&points, resolution);
    }
}

fn at_resolution(resolution: Resolution, count: usize, seed: u64) {
    assert_identical(&uniform(count, seed), resolution);
    assert_identical(&cities(count, seed + 1), resolution);
}

fn on_borders(resolution: Resolution, cells: usize, jitters: usize, seed: u64) {
    let cells = some_cells(resolution, cells, seed);
    let borders = borders(&cells);
    assert_identical(&borders, resolution);
    assert_identical(&borders.jittered(jitters, seed + 1), resolution);
    // A vertex is one of the finer cells too.
    for finer in resolution.succ().into_iter().chain(Resolution::try_from(u8::from(resolution) + 2)) {
        assert_identical(&borders, finer);
    }
    let centres = centres(&cells);
    assert_identical(&centres, resolution);
    assert_identical(&centres.jittered(jitters, seed + 2), resolution);
}

fn near_face_centres(resolution: Resolution, cells: usize, jitters: usize, seed: u64) {
    let borders = borders(&cells_near_face_centres(resolution, cells, seed));
    assert_identical(&borders, resolution);
    assert_identical(&borders.jittered(jitters, seed + 1), resolution);
}

fn between_faces(resolution: Resolution, per_edge: usize, jitters: usize, seed: u64) {
    let edges = face_edges(per_edge, seed);
    assert_identical(&edges, resolution);
    assert_identical(&edges.jittered(jitters, seed + 1), resolution);
}

#[test]
fn points_anywhere_have_the_cells_of_h3o() {
    anywhere(100_000, 1);
}

#[test]
fn points_around_cities_have_the_cells_of_h3o() {
    around_cities(100_000, 2);
}

#[test]
fn every_resolution_has_the_cells_of_h3o() {
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        at_resolution(resolution, 10_000, 3);
    }
}

#[test]
fn vertices_edges_and_centres_have_the_cells_of_h3o() {
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        on_borders(resolution, 200, 3, 4);
    }
}

#[test]
fn edges_near_the_centre_of_a_face_have_the_cells_of_h3o() {
    for resolution in Resolution::range(Resolution::Three, Resolution::Fifteen) {
        near_face_centres(resolution, 400, 3, 5);
    }
}

#[test]
fn edges_between_faces_have_the_cells_of_h3o() {
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        between_faces(resolution, 20, 10, 6);
    }
}

#[rstest]
#[case::coarse(Resolution::Zero)]
#[case::finer(Resolution::One)]
#[case::even(Resolution::Two)]
#[case::odd(Resolution::Three)]
fn the_borders_of_all_cells_of_a_coarse_resolution_are_those_of_h3o(#[case] resolution: Resolution) {
    let cells: Vec<_> = h3o::CellIndex::base_cells().flat_map(|base| base.children(resolution)).collect();
    let sample: Vec<_> = cells.iter().copied().step_by(cells.len().div_ceil(6_000)).collect();
    assert_identical(&borders(&sample), resolution);
    assert_identical(&centres(&cells), resolution);
}

#[test]
#[ignore = "minutes: cargo test --release -p hexfloe-cells -- --ignored --nocapture"]
fn two_hundred_million_points_have_the_cells_of_h3o() {
    for seed in 0..20 {
        anywhere(1_000_000, 1_000 + seed);
    }
    println!("20 million points anywhere, at 4 resolutions");
    for seed in 0..5 {
        around_cities(1_000_000, 2_000 + seed);
    }
    println!("5 million points around cities, at 4 resolutions");
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        at_resolution(resolution, 1_000_000, 3_000);
        on_borders(resolution, 10_000, 10, 4_000);
        if resolution >= Resolution::Three {
            near_face_centres(resolution, 20_000, 10, 5_000);
        }
        between_faces(resolution, 1_000, 30, 6_000);
        println!(
            "resolution {resolution}: anywhere, around cities, borders, centres, near the centres of faces and between faces"
        );
    }
}
