//! A million cells: h3o's loop, and each kernel of this machine. `cargo bench -p hexfloe-cells`; `benches/cells` compares with other libraries.

#![expect(clippy::expect_used, reason = "the names are fixed")]

use divan::counter::ItemsCount;
use h3o::{LatLng, Resolution};
use hexfloe_cells::{Degrees, Encoder, Kernel};

mod points;

const COUNT: usize = 1_000_000;
const SETS: [&str; 2] = ["uniform", "cities"];
const RESOLUTIONS: [&str; 3] = ["5", "9", "12"];

fn main() {
    divan::main();
}

fn columns(set: &str) -> (Vec<f64>, Vec<f64>) {
    points::set(set, COUNT).expect("the set is one of `SETS`")
}

fn at(resolution: &str) -> Resolution {
    points::resolution(resolution).expect("the resolution is one of `RESOLUTIONS`")
}

fn cases() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETS.into_iter().flat_map(|set| RESOLUTIONS.into_iter().map(move |resolution| (set, resolution)))
}

#[divan::bench(args = cases().collect::<Vec<_>>(), sample_count = 5, sample_size = 1)]
fn h3o_loop(bencher: divan::Bencher<'_, '_>, (set, resolution): (&str, &str)) {
    let ((lat, lng), resolution) = (columns(set), at(resolution));
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        let cell = |(&lat, &lng)| LatLng::new(lat, lng).map_or(0, |point| point.to_cell(resolution).into());
        lat.iter().zip(&lng).map(cell).collect::<Vec<u64>>()
    });
}

#[divan::bench(args = cases().flat_map(|case| Kernel::available().into_iter().map(move |kernel| (case, kernel))).collect::<Vec<_>>())]
fn encoder(bencher: divan::Bencher<'_, '_>, ((set, resolution), kernel): ((&str, &str), Kernel)) {
    let (lat, lng) = columns(set);
    let encoder = Encoder::with_kernel(at(resolution), kernel);
    let mut cells = vec![0; COUNT];
    bencher
        .counter(ItemsCount::new(COUNT))
        .bench_local(|| encoder.encode(Degrees { lat: &lat, lng: &lng }, divan::black_box(&mut cells)).is_ok());
}
