//! What only the inside shows: that the margins are needed, that they are wide enough, and that the tables hold every kind of cell.

use h3o::{LatLng, Resolution};

use super::points::{Points, Random, borders, cells_near_face_centres, some_cells, uniform};
use crate::arithmetic::{Fused, Plain};
use crate::base::Bases;
use crate::digits::Turn;
use crate::face::closest;
use crate::plan::{Margin, Plan};
use crate::{Encoder, Kernel, vector};

fn h3o_cell(lat: f64, lng: f64, resolution: Resolution) -> u64 {
    LatLng::new(lat, lng).unwrap().to_cell(resolution).into()
}

/// How many points have another cell than h3o's.
fn differences(points: &Points, resolution: Resolution, margin: Margin) -> usize {
    let encoder = Encoder { resolution, kernel: Kernel::fastest(), plan: Plan::new(resolution, margin) };
    let mut out = vec![0; points.len()];
    encoder.encode(points.degrees(), &mut out).unwrap();
    points.iter().zip(out).filter(|&((lat, lng), cell)| cell != h3o_cell(lat, lng, resolution)).count()
}

#[test]
fn without_margins_vertices_have_other_cells() {
    const NONE: Margin = Margin { fast: 0.0, fine: 0.0, fine_near: 0.0 };
    for resolution in [Resolution::Five, Resolution::Nine, Resolution::Twelve] {
        let vertices = borders(&some_cells(resolution, 1_000, 41));
        let different = differences(&vertices, resolution, NONE);
        println!(
            "resolution {resolution}: {different} of {} vertices and midpoints differ without margins",
            vertices.len()
        );
        assert!(different > vertices.len() / 20, "{different} of {} differ", vertices.len());
        assert_eq!(differences(&vertices, resolution, Margin::SAFE), 0);
    }
}

#[test]
fn with_too_small_margins_some_points_near_vertices_have_other_cells() {
    const SMALL: Margin = Margin { fast: 1e-15, fine: 1e-17, fine_near: 0.0 };
    let points = borders(&some_cells(Resolution::Twelve, 4_000, 42)).jittered(10, 43);
    assert!(differences(&points, Resolution::Twelve, SMALL) > 0);
    assert_eq!(differences(&points, Resolution::Twelve, Margin::SAFE), 0);
}

/// The greatest errors met, in radians: of the fast way, and of the fine way, also as a share of its margin.
#[derive(Debug, Default)]
struct Errors {
    fast: f64,
    fine: f64,
    share: f64,
    borders: usize,
}

/// Seeks, north of points, where h3o goes over to another cell, down to two neighbouring numbers. There, a calculation without error would find the
/// point on a border: how far inside or outside it finds the point is its difference from h3o.
fn measure(points: &Points, resolution: Resolution, errors: &mut Errors) {
    let plan = Plan::new(resolution, Margin::SAFE);
    let step = 3.0 / plan.grid.steps_per_radian();
    for (lat, lng) in points.iter() {
        let (mut low, mut high) = (lat, lat + step.to_degrees());
        if high > 90.0 || h3o_cell(low, lng, resolution) == h3o_cell(high, lng, resolution) {
            continue;
        }
        loop {
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                break;
            }
            if h3o_cell(middle, lng, resolution) == h3o_cell(low, lng, resolution) {
                low = middle;
            } else {
                high = middle;
            }
        }
        errors.borders += 1;
        let v = vector::fine(low, lng);
        let face = closest(v);
        let angle = plan.angle(plan.grid.project::<Plain>(face, v));
        let off = |v: [f64; 3]| plan.distance_from_border(face, v);
        errors.fine = errors.fine.max(off(v));
        errors.share = errors.share.max(off(v) / plan.margin.fine(angle));
        if angle > 1e-3 {
            errors.fast =
                errors.fast.max(off(vector::fast::<Plain>(low, lng))).max(off(vector::fast::<Fused>(low, lng)));
        }
    }
}

fn measure_all(count: usize, seed: u64) {
    let mut random = Random(seed);
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        let mut errors = Errors::default();
        measure(&uniform(count, random.bits().to_bits()), resolution, &mut errors);
        measure(
            &borders(&cells_near_face_centres(resolution, count / 20, random.bits().to_bits())),
            resolution,
            &mut errors,
        );
        println!(
            "resolution {resolution:>2}: {} borders; fast {:.1e}, fine {:.1e} or {:.3} of the margin",
            errors.borders, errors.fast, errors.fine, errors.share
        );
        assert!(errors.borders > 0);
        assert!(errors.fast < Margin::SAFE.fast / 5.0, "{errors:?} at resolution {resolution}");
        assert!(errors.share < 1.0 / 5.0, "{errors:?} at resolution {resolution}");
    }
}

#[test]
fn where_h3o_changes_cells_the_error_is_far_below_the_margins() {
    measure_all(1_000, 44);
}

#[test]
#[ignore = "minutes: cargo test --release -p hexfloe-cells --lib -- --ignored --nocapture"]
fn where_h3o_changes_cells_at_very_many_places_the_error_is_far_below_the_margins() {
    measure_all(100_000, 45);
}

#[test]
fn the_fast_vector_is_within_1e_14_of_the_fine_one() {
    let mut points = uniform(100_000, 46);
    for degrees in [-90.0, -45.0, 0.0, 45.0, 90.0] {
        for lng in [-180.0, -90.0, 0.0, 90.0, 180.0] {
            points.push(degrees, lng);
        }
    }
    let mut most = 0.0f64;
    for (lat, lng) in points.iter() {
        let fine = vector::fine(lat, lng);
        for fast in [vector::fast::<Plain>(lat, lng), vector::fast::<Fused>(lat, lng)] {
            most = fine.iter().zip(fast).map(|(one, other)| (one - other).abs()).fold(most, f64::max);
        }
    }
    println!("at most {most:.1e}");
    assert!(most < 1e-14, "{most:.1e}");
}

#[test]
fn cells_four_hundred_times_finer_are_of_no_other_kind() {
    let plan = Plan::new(Resolution::Nine, Margin::SAFE);
    let (learnt, finer) = (Bases::kinds(&plan.shared.tables, 4), Bases::kinds(&plan.shared.tables, 6));
    assert_eq!(learnt, finer);
}

#[test]
fn six_turns_of_a_sixth_are_none_and_each_is_that_of_a_digit() {
    // K, IK, I, IJ, J, JK: counter-clockwise.
    const ROUND: [u64; 6] = [1, 5, 4, 6, 2, 3];
    for sixths in 0..6u8 {
        for (place, &digit) in ROUND.iter().enumerate() {
            let wanted = ROUND[(place + usize::from(sixths)) % 6];
            assert_eq!(Turn::sixths(sixths).of(digit << 42 | digit), wanted << 42 | wanted);
        }
        assert_eq!(Turn::sixths(sixths).of(0), 0);
    }
}
