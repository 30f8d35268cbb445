use std::fmt::Write as _;

use super::*;

/// Places on all sides of the equator and of Greenwich, near the poles, and on both sides of the antimeridian: the
/// cells around them lend the set their vertices and edges.
const SEEDS: [(f64, f64); 8] = [
    (139.6917, 35.6895),
    (-74.006, 40.7128),
    (-58.3816, -34.6037),
    (151.2093, -33.8688),
    (179.9999, -17.0),
    (-179.9999, 65.0),
    (12.0, 89.5),
    (-101.0, -89.5),
];

/// Looked up at every resolution: gross errors show here.
const EVERYWHERE: [(f64, f64); 34] = [
    (0.0, 0.0),
    (0.0, 90.0),
    (0.0, -90.0),
    (123.456, 90.0),
    (-45.0, -90.0),
    (180.0, 90.0),
    (-180.0, -90.0),
    (180.0, 0.0),
    (-180.0, 0.0),
    (180.0, 45.0),
    (-180.0, 45.0),
    (180.0, -45.0),
    (-180.0, -45.0),
    (179.99999999, 12.5),
    (-179.99999999, 12.5),
    (90.0, 0.0),
    (-90.0, 0.0),
    (0.0, 89.999999),
    (0.0, -89.999999),
    (1e-12, 1e-12),
    (-1e-12, -1e-12),
    (45.0, 45.0),
    (-45.0, 45.0),
    (45.0, -45.0),
    (-45.0, -45.0),
    (-0.1278, 51.5074),
    (139.6917, 35.6895),
    (-74.006, 40.7128),
    (-58.3816, -34.6037),
    (151.2093, -33.8688),
    (36.8219, -1.2921),
    (-78.4678, -0.1807),
    (10.7522, 59.9139),
    (-157.8583, 21.3069),
];

/// How the file was made. The result depends on the libm of the machine in its last digits, which is why the file and
/// not this function is what counts.
fn generate() -> String {
    let mut file = String::from(
        "# The points whose cells make up the fingerprint: longitude, latitude, resolution (* is every resolution).\n\
         # Frozen: a change here makes every table refuse its own derivation.\n",
    );
    for (lon, lat) in EVERYWHERE {
        writeln!(file, "{lon:?} {lat:?} *").unwrap();
    }
    for resolution in Resolution::all() {
        let h3o = resolution.to_h3o();
        let mut cells = Vec::new();
        for (lon, lat) in SEEDS {
            cells.push(cell(LonLat::from_degrees(Lon(lon), Lat(lat)).unwrap(), h3o).unwrap());
        }
        // Two of the twelve pentagons, other ones at the next resolution.
        let pentagons: Vec<_> = h3o.pentagons().collect();
        cells.push(pentagons[usize::from(resolution.get()) % 12]);
        cells.push(pentagons[(usize::from(resolution.get()) * 5 + 6) % 12]);
        cells.sort_unstable();
        cells.dedup();
        for cell in cells {
            let boundary = cell.boundary();
            for (index, &vertex) in boundary.iter().enumerate() {
                let next = boundary[(index + 1) % boundary.len()];
                writeln!(file, "{:?} {:?} {resolution}", vertex.lng(), vertex.lat()).unwrap();
                let (lon, lat) = halfway((vertex.lng(), vertex.lat()), (next.lng(), next.lat()));
                writeln!(file, "{lon:?} {lat:?} {resolution}").unwrap();
            }
        }
    }
    file
}

/// The middle of a great circle arc, as an edge of a cell is one.
fn halfway(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let (a, b) = (unit(a), unit(b));
    let sum = [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
    (sum[1].atan2(sum[0]).to_degrees(), sum[2].atan2(sum[0].hypot(sum[1])).to_degrees())
}

fn unit((lon, lat): (f64, f64)) -> [f64; 3] {
    let (lon, lat) = (lon.to_radians(), lat.to_radians());
    [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
}

fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (a, b) = (unit(a), unit(b));
    (a[0] - b[0]).hypot(a[1] - b[1]).hypot(a[2] - b[2])
}

fn numbers(file: &str) -> Vec<(f64, f64, String)> {
    file.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(words.len(), 3, "{line}");
            (words[0].parse().unwrap(), words[1].parse().unwrap(), words[2].to_owned())
        })
        .collect()
}

#[test]
#[ignore = "writes the set of points to standard output; its result is frozen; cargo test --workspace --features sql --lib print_the_set -- --ignored --nocapture"]
fn print_the_set() {
    print!("{}", generate());
}

#[test]
fn the_set_is_frozen() {
    assert_eq!(Sha256Hex::of(POINTS).to_string(), "a35bef72c787e2e1977623428d5b73cf9232c4775681c4b8959140c2694b3830");
}

#[test]
fn the_set_is_what_its_generator_makes_but_for_the_last_digits() {
    let (stored, made) = (numbers(POINTS), numbers(&generate()));
    assert_eq!(stored.len(), made.len());
    for (stored, made) in stored.iter().zip(&made) {
        assert_eq!(stored.2, made.2);
        let apart = distance((stored.0, stored.1), (made.0, made.1));
        assert!(apart < 1e-12, "{stored:?} and {made:?} are {apart} radians apart");
    }
}

#[test]
fn every_line_is_read_and_every_literal_is_exact() {
    let lines: Vec<&str> = POINTS.lines().filter(|line| !line.starts_with('#')).collect();
    for line in &lines {
        let (point, resolution) = parse(line).unwrap_or_else(|| panic!("not read: {line}"));
        let resolution = resolution.map_or("*".to_owned(), |resolution| resolution.to_string());
        assert_eq!(*line, format!("{:?} {:?} {resolution}", point.lon(), point.lat()));
    }
    assert_eq!(lookups().count(), lines.len() + 15 * EVERYWHERE.len());
}

#[test]
fn the_set_covers_every_resolution_and_quadrant() {
    for resolution in Resolution::all() {
        for (east, north) in [(true, true), (true, false), (false, true), (false, false)] {
            let count = lookups()
                .filter(|(point, at)| *at == resolution && (point.lon() > 0.0) == east && (point.lat() > 0.0) == north)
                .count();
            assert!(count >= 10, "{count} points at {resolution}, east {east}, north {north}");
        }
    }
}

/// Glibc on a processor with fused multiply-add: what nearly every server is. On another machine the value may differ
/// without anything being wrong; tables then refuse to mix the cells of the two (see the documentation of the module).
#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
#[test]
fn the_fingerprint_on_a_common_server() {
    if std::arch::is_x86_feature_detected!("fma") {
        assert_eq!(fingerprint().to_string(), "e392831b12110a0dc6dbda27e4e2029ae90497a4c29fe1980df0622911ba3957");
    }
}

/// How many lookups change if every point moves by about a nanometre: that many chances to see a change.
#[test]
fn the_set_is_sensitive() {
    let changed = lookups()
        .filter(|&(point, resolution)| {
            let moved = LonLat::from_degrees(Lon(point.lon()), Lat((point.lat() + 1e-14).min(90.0))).unwrap();
            cell(point, resolution.to_h3o()).unwrap() != cell(moved, resolution.to_h3o()).unwrap()
        })
        .count();
    assert!(changed > 300, "{changed} of {}", lookups().count());
}
