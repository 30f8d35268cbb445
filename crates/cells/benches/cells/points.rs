//! The points that are measured: the same each time.

use h3o::Resolution;

/// Latitudes and longitudes, in degrees: `uniform` on the sphere, or within a quarter of a degree of 8 `cities`, in no order.
pub(crate) fn set(name: &str, count: usize) -> Result<(Vec<f64>, Vec<f64>), &'static str> {
    const CITIES: [(f64, f64); 8] = [
        (59.91, 10.75),
        (51.51, -0.13),
        (40.71, -74.01),
        (-23.55, -46.63),
        (35.68, 139.69),
        (-33.87, 151.21),
        (-1.29, 36.82),
        (19.08, 72.88),
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    // Xorshift: the upper half of its bits.
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32
    };
    let from_0_to_1 = |bits: u32| f64::from(bits) / f64::from(u32::MAX);
    let mut point = || match name {
        "uniform" => {
            let (height, turn) = (from_0_to_1(random()), from_0_to_1(random()));
            Ok(((2.0 * height - 1.0).asin().to_degrees(), 360.0 * turn - 180.0))
        }
        "cities" => {
            let (lat, lng) = CITIES[random() as usize % CITIES.len()];
            let (north, east) = (from_0_to_1(random()), from_0_to_1(random()));
            Ok((lat + 0.5 * north - 0.25, lng + 0.5 * east - 0.25))
        }
        _ => Err("a set is uniform or cities"),
    };
    (0..count).map(|_| point()).collect::<Result<Vec<_>, _>>().map(|points| points.into_iter().unzip())
}

/// A resolution, as text.
pub(crate) fn resolution(text: &str) -> Result<Resolution, Box<dyn std::error::Error>> {
    Ok(text.parse::<u8>()?.try_into()?)
}
