//! Poles, the antimeridian, numbers beyond the ranges and what is no number.

use h3o::Resolution;
use hexfloe_cells::{Encoder, Kernel};

use crate::h3o_cell;
use crate::points::{Points, Random};

/// Numbers at which something may change.
const NUMBERS: [f64; 41] = [
    0.0,
    -0.0,
    f64::MIN_POSITIVE,
    -f64::MIN_POSITIVE,
    5e-324,
    -5e-324,
    1e-310,
    1e-16,
    -1e-16,
    1e-8,
    0.25,
    -0.25,
    45.0,
    -45.0,
    89.99999999999999,
    90.0,
    -90.0,
    90.00000000000001,
    -90.00000000000001,
    100.0,
    135.0,
    179.99999999999997,
    180.0,
    -180.0,
    180.00000000000003,
    -180.00000000000003,
    200.0,
    270.0,
    360.0,
    -360.0,
    -500.0,
    720.5,
    1e6,
    -1e15,
    1e100,
    f64::MAX,
    f64::MIN,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

fn pairs() -> Points {
    let mut points = Points::default();
    for lat in NUMBERS {
        for lng in NUMBERS {
            points.push(lat, lng);
        }
    }
    points
}

#[test]
fn what_h3o_takes_has_its_cell_and_what_it_refuses_has_0() {
    let points = pairs();
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        for kernel in Kernel::available() {
            let mut cells = vec![u64::MAX; points.len()];
            let tally = Encoder::with_kernel(resolution, kernel).encode(points.degrees(), &mut cells).unwrap();
            for ((lat, lng), &cell) in points.iter().zip(&cells) {
                assert_eq!(cell, h3o_cell(lat, lng, resolution), "latitude {lat:?}, longitude {lng:?}, {kernel:?}");
                assert_eq!(cell == 0, !(lat.is_finite() && lng.is_finite()), "latitude {lat:?}, longitude {lng:?}");
            }
            assert_eq!(tally.refused, cells.iter().filter(|&&cell| cell == 0).count());
        }
    }
}

#[test]
fn any_bits_have_the_cell_of_h3o() {
    let mut random = Random(21);
    let mut points = Points::default();
    for _ in 0..50_000 {
        points.push(random.bits(), random.bits());
        let lat = random.between(-95.0, 95.0);
        points.push(lat, random.bits());
        let lng = random.between(-190.0, 190.0);
        points.push(random.bits(), lng);
        points.push(lat, lng);
    }
    let mut cells = vec![u64::MAX; points.len()];
    Encoder::new(Resolution::Nine).encode(points.degrees(), &mut cells).unwrap();
    for ((lat, lng), cell) in points.iter().zip(cells) {
        assert_eq!(cell, h3o_cell(lat, lng, Resolution::Nine), "latitude {lat:?}, longitude {lng:?}");
    }
}

#[test]
fn points_at_the_poles_and_the_antimeridian_have_the_cells_of_h3o() {
    let mut random = Random(22);
    let mut points = Points::default();
    for _ in 0..5_000 {
        let near = 10f64.powf(random.between(-16.0, 0.0));
        let (lat, lng) = (random.between(-90.0, 90.0), random.between(-180.0, 180.0));
        for (lat, lng) in [
            (90.0, lng),
            (-90.0, lng),
            (90.0 - near, lng),
            (near - 90.0, lng),
            (lat, 180.0),
            (lat, -180.0),
            (lat, 180.0 - near),
            (lat, near - 180.0),
            (lat, 180.0 + near),
        ] {
            points.push(lat, lng);
        }
    }
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        crate::assert_identical(&points, resolution);
    }
}
