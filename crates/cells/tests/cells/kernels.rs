//! The kernels give the same cells, whatever the length and the place of a batch.

use h3o::Resolution;
use hexfloe_cells::{Degrees, Encoder, Kernel};

use crate::h3o_cell;
use crate::points::{Points, borders, cities, some_cells, uniform};

#[test]
fn every_kernel_has_the_same_cells() {
    for resolution in Resolution::range(Resolution::Zero, Resolution::Fifteen) {
        let borders = borders(&some_cells(resolution, 100, 11));
        let sets = [uniform(20_000, 12), cities(20_000, 13), borders.jittered(5, 14), borders];
        for points in &sets {
            let results = Kernel::available().into_iter().map(|kernel| {
                let mut cells = vec![0; points.len()];
                Encoder::with_kernel(resolution, kernel).encode(points.degrees(), &mut cells).unwrap();
                (kernel, cells)
            });
            let results: Vec<_> = results.collect();
            for (kernel, cells) in &results {
                assert!(
                    *cells == results[0].1,
                    "{kernel:?} differs from {:?} at resolution {resolution}",
                    results[0].0
                );
            }
        }
    }
}

#[test]
fn every_length_and_every_offset_has_the_cells_of_h3o() {
    const MOST: usize = 1_100;
    let Points { lat, lng } = uniform(MOST, 15);
    for resolution in [Resolution::Nine, Resolution::Ten] {
        let wanted: Vec<_> = lat.iter().zip(&lng).map(|(&lat, &lng)| h3o_cell(lat, lng, resolution)).collect();
        for kernel in Kernel::available() {
            let encoder = Encoder::with_kernel(resolution, kernel);
            for length in 0..=MOST {
                let offset = (length * 7) % (MOST + 1 - length);
                let range = offset..offset + length;
                let mut out = vec![u64::MAX; length + 2];
                let written = &mut out[1..=length];
                encoder.encode(Degrees { lat: &lat[range.clone()], lng: &lng[range.clone()] }, written).unwrap();
                assert_eq!(written, &wanted[range], "{kernel:?}, {length} points");
                assert_eq!((out[0], out[length + 1]), (u64::MAX, u64::MAX), "{kernel:?} wrote beyond {length} points");
            }
        }
    }
}

#[test]
fn one_encoder_serves_many_threads() {
    let points = uniform(10_000, 16);
    let encoder = Encoder::new(Resolution::Nine);
    let encode = || {
        let mut cells = vec![0; points.len()];
        encoder.encode(points.degrees(), &mut cells).unwrap();
        cells
    };
    let alone = encode();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(encode)).collect();
        for thread in threads {
            assert!(thread.join().unwrap() == alone);
        }
    });
}

#[test]
fn columns_of_different_lengths_are_an_error() {
    let encoder = Encoder::new(Resolution::Nine);
    let error = encoder.encode(Degrees { lat: &[0.0; 3], lng: &[0.0; 2] }, &mut [0; 3]).unwrap_err();
    assert_eq!(error.to_string(), "3 latitudes and 2 longitudes do not make 3 cells: give as many of each");
    assert!(encoder.encode(Degrees { lat: &[0.0; 3], lng: &[0.0; 3] }, &mut [0; 4]).is_err());
}
