//! Sets of points, each from a seed: everywhere, where people are, and where a cell is hardest to tell.

use h3o::{CellIndex, LatLng, Resolution};

use crate::Degrees;

/// Points as columns, in degrees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    pub(crate) lat: Vec<f64>,
    pub(crate) lng: Vec<f64>,
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of any bits.
    pub(crate) fn bits(&mut self) -> f64 {
        f64::from_bits(self.next())
    }

    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        f64::from((self.next() >> 32) as u32) / f64::from(u32::MAX)
    }

    /// From `low` to `high`.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        let bits = (self.next() >> 32) as u32;
        choices[bits as usize % choices.len()]
    }

    /// A direction, everywhere as likely.
    fn direction(&mut self) -> [f64; 3] {
        let (z, lng) = (self.between(-1.0, 1.0), self.between(0.0, std::f64::consts::TAU));
        let flat = (1.0 - z * z).sqrt();
        [flat * lng.cos(), flat * lng.sin(), z]
    }
}

impl Points {
    pub(crate) fn push(&mut self, lat: f64, lng: f64) {
        self.lat.push(lat);
        self.lng.push(lng);
    }

    fn push_vector(&mut self, [x, y, z]: [f64; 3]) {
        self.push(z.atan2(x.hypot(y)).to_degrees(), y.atan2(x).to_degrees());
    }

    pub(crate) fn degrees(&self) -> Degrees<'_> {
        Degrees { lat: &self.lat, lng: &self.lng }
    }

    pub(crate) fn len(&self) -> usize {
        self.lat.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lat.iter().copied().zip(self.lng.iter().copied())
    }

    /// The same points, `times` each, moved by 10^−15.5 to 10^−4 degrees each way.
    pub(crate) fn jittered(&self, times: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut points = Self::default();
        for (lat, lng) in self.iter() {
            for _ in 0..times {
                let mut moved = |degrees: f64| {
                    let by = 10f64.powf(random.between(-15.5, -4.0));
                    degrees + if random.unit() < 0.5 { by } else { -by }
                };
                points.push(moved(lat), moved(lng));
            }
        }
        points
    }
}

/// Everywhere on the sphere as likely.
pub(crate) fn uniform(count: usize, seed: u64) -> Points {
    let mut random = Random(seed);
    let mut points = Points::default();
    for _ in 0..count {
        points.push_vector(random.direction());
    }
    points
}

/// Within a tenth of a degree or so of 12 cities.
pub(crate) fn cities(count: usize, seed: u64) -> Points {
    const CITIES: [(f64, f64); 12] = [
        (59.91, 10.75),
        (51.51, -0.13),
        (40.71, -74.01),
        (-23.55, -46.63),
        (35.68, 139.69),
        (-33.87, 151.21),
        (-1.29, 36.82),
        (19.08, 72.88),
        (31.23, 121.47),
        (64.15, -21.94),
        (-54.80, -68.30),
        (0.0, 0.0),
    ];
    let mut random = Random(seed);
    let mut points = Points::default();
    for _ in 0..count {
        let (lat, lng) = random.one_of(&CITIES);
        let mut spread = || (random.unit() + random.unit() + random.unit() - 1.5) * 0.3;
        points.push(lat + spread(), lng + spread());
    }
    points
}

/// So many cells of a resolution, anywhere, and all of its pentagons with the cells around them.
pub(crate) fn some_cells(resolution: Resolution, count: usize, seed: u64) -> Vec<CellIndex> {
    let points = uniform(count, seed);
    let mut cells: Vec<_> =
        points.iter().map(|(lat, lng)| LatLng::new(lat, lng).unwrap().to_cell(resolution)).collect();
    for pentagon in resolution.pentagons() {
        cells.extend(pentagon.grid_disk::<Vec<_>>(2));
    }
    cells
}

/// The vertices of cells, and the midpoints of their edges.
pub(crate) fn borders(cells: &[CellIndex]) -> Points {
    let mut points = Points::default();
    for cell in cells {
        let boundary = cell.boundary();
        for (index, &vertex) in boundary.iter().enumerate() {
            points.push(vertex.lat(), vertex.lng());
            points.push_vector(middle(vector(vertex), vector(boundary[(index + 1) % boundary.len()]), 0.5));
        }
    }
    points
}

/// The centres of cells.
pub(crate) fn centres(cells: &[CellIndex]) -> Points {
    let mut points = Points::default();
    for &cell in cells {
        let centre = LatLng::from(cell);
        points.push(centre.lat(), centre.lng());
    }
    points
}

/// The centres of the faces: each is in the middle of three pentagons.
pub(crate) fn face_centres() -> Vec<LatLng> {
    let pentagons: Vec<_> = Resolution::Zero.pentagons().map(|cell| vector(LatLng::from(cell))).collect();
    let near = |one: [f64; 3], two: [f64; 3]| dot(one, two) > 0.4 && one != two;
    let mut centres = Vec::new();
    for (first, &one) in pentagons.iter().enumerate() {
        for (second, &two) in pentagons.iter().enumerate().skip(first) {
            for &three in pentagons.iter().skip(second) {
                if near(one, two) && near(two, three) && near(one, three) {
                    let sum: [f64; 3] = std::array::from_fn(|axis| one[axis] + two[axis] + three[axis]);
                    let mut points = Points::default();
                    points.push_vector(sum);
                    centres.push(LatLng::new(points.lat[0], points.lng[0]).unwrap());
                }
            }
        }
    }
    assert_eq!(centres.len(), 20);
    centres
}

/// Cells at 10^−6 to 5·10^−3 radians from the centre of a face.
pub(crate) fn cells_near_face_centres(resolution: Resolution, count: usize, seed: u64) -> Vec<CellIndex> {
    let mut random = Random(seed);
    let centres = face_centres();
    (0..count)
        .map(|index| {
            let centre = centres[index % centres.len()];
            let angle = 10f64.powf(random.between(-6.0, 5e-3f64.log10()));
            let turn = random.between(0.0, std::f64::consts::TAU);
            let lat = centre.lat_radians() + angle * turn.cos();
            let lng = centre.lng_radians() + angle * turn.sin() / centre.lat_radians().cos();
            LatLng::from_radians(lat, lng).unwrap().to_cell(resolution)
        })
        .collect()
}

/// Points on the 30 edges between faces.
pub(crate) fn face_edges(per_edge: usize, seed: u64) -> Points {
    let mut random = Random(seed);
    let pentagons: Vec<_> = Resolution::Zero.pentagons().map(|cell| vector(LatLng::from(cell))).collect();
    let mut points = Points::default();
    for (first, &one) in pentagons.iter().enumerate() {
        for &two in pentagons.iter().skip(first + 1).filter(|&&two| dot(one, two) > 0.4) {
            for _ in 0..per_edge {
                points.push_vector(middle(one, two, random.unit()));
            }
        }
    }
    assert_eq!(points.len(), 30 * per_edge);
    points
}

fn vector(point: LatLng) -> [f64; 3] {
    let ((sin_lat, cos_lat), (sin_lng, cos_lng)) = (point.lat_radians().sin_cos(), point.lng_radians().sin_cos());
    [cos_lng * cos_lat, sin_lng * cos_lat, sin_lat]
}

fn dot(one: [f64; 3], two: [f64; 3]) -> f64 {
    one.iter().zip(two).map(|(a, b)| a * b).sum()
}

fn middle(one: [f64; 3], two: [f64; 3], share: f64) -> [f64; 3] {
    std::array::from_fn(|axis| one[axis] * (1.0 - share) + two[axis] * share)
}
