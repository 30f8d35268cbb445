//! How many coordinates a second.

use std::time::Instant;

use hexfloe_crs::{Crs, LonLatTransform};

/// `cargo test --workspace --features sql --locked --test crs -- --ignored --nocapture speed`
#[test]
#[ignore = "a measurement: cargo test --workspace --features sql --test crs -- --ignored --nocapture"]
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn speed() {
    let grid = LonLatTransform::from(&Crs::parse("EPSG:27700").unwrap()).unwrap();
    for count in [21_253_u32, 1_000_000] {
        let start = Instant::now();
        let mut sum = 0.0;
        for index in 0..count {
            let [lon, lat] = grid
                .lon_lat([200_000.0 + f64::from(index % 4_000) * 100.0, 50_000.0 + f64::from(index / 4_000) * 1_000.0])
                .unwrap();
            sum += lon + lat;
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{count} points in {seconds:.3} s, {:.0} a second ({sum:.3})", f64::from(count) / seconds);
    }
}
