//! The speed rests on the fast way being taken nearly always: how often it is not is counted, without a clock.

use h3o::Resolution;
use hexfloe_cells::{Encoder, Kernel, Tally};

use crate::points::{Points, cities, uniform};

const COUNT: usize = 200_000;

fn tally(points: &Points, resolution: Resolution, kernel: Kernel) -> Tally {
    let mut cells = vec![0; points.len()];
    Encoder::with_kernel(resolution, kernel).encode(points.degrees(), &mut cells).unwrap()
}

#[test]
fn less_than_one_point_in_a_hundred_is_retried_and_hardly_one_goes_to_h3o() {
    let (anywhere, cities) = (uniform(COUNT, 31), cities(COUNT, 32));
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        for kernel in Kernel::available() {
            let Tally { retried, by_h3o, refused } = tally(&anywhere, resolution, kernel);
            assert!(retried > 0 && retried < COUNT / 100, "{retried} retries at resolution {resolution}, {kernel:?}");
            assert!(by_h3o <= 2 && refused == 0, "h3o asked {by_h3o} times at resolution {resolution}, {kernel:?}");
            let Tally { retried, by_h3o, refused } = tally(&cities, resolution, kernel);
            assert!(retried < COUNT / 1_000, "{retried} retries around cities at resolution {resolution}, {kernel:?}");
            assert!(by_h3o <= 2 && refused == 0, "h3o asked {by_h3o} times at resolution {resolution}, {kernel:?}");
        }
    }
}

#[test]
fn only_points_out_of_range_always_go_to_h3o() {
    let mut points = uniform(1_000, 33);
    for lng in &mut points.lng {
        *lng += 360.0;
    }
    let tally = tally(&points, Resolution::Nine, Kernel::fastest());
    assert_eq!(tally, Tally { retried: 1_000, by_h3o: 1_000, refused: 0 });
}
