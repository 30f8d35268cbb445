//! The larger inputs, made by `tests/data.py` the first time a test asks for them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::place;

/// The path of a seeded file, `points_1m.parquet` for one.
pub fn data(name: &str) -> PathBuf {
    // One maker at a time: two tests may want the same large file.
    static MAKING: Mutex<()> = Mutex::new(());
    let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let script = place::repository().join("tests/data.py");
    let made = Command::new(place::python())
        .arg(script)
        .arg(place::target().join("testdata"))
        .arg(name)
        .output()
        .unwrap_or_else(|error| panic!("cannot run tests/data.py: {error}"));
    let said = String::from_utf8_lossy(&made.stdout);
    assert!(made.status.success(), "tests/data.py cannot make {name}: {}", String::from_utf8_lossy(&made.stderr));
    PathBuf::from(said.trim())
}

/// Writes a feature collection of at least `bytes` bytes on one line, with what comes first and last that a reader may stumble over.
/// How many features it has; feature `n`, counted from 0, is a point with the properties `n` and `name`.
///
/// # Errors
///
/// As `out` fails.
pub fn single_line_geojson(out: &mut impl Write, bytes: u64) -> io::Result<u64> {
    let head = r#"{"bbox":[-180,-90,180,90],"note":{"features":["]}"]},"type":"FeatureCollection","features":["#;
    out.write_all(head.as_bytes())?;
    let (mut written, mut features) = (head.len() as u64, 0);
    while written < bytes {
        let comma = if features == 0 { "" } else { "," };
        let (lon, lat) = (features % 360_000, features * 7 % 180_000);
        let (lon, lat) = (lon as f64 / 1000.0 - 180.0, lat as f64 / 1000.0 - 90.0);
        let feature = format!(
            r#"{comma}{{"type":"Feature","id":{features},"geometry":{{"type":"Point","coordinates":[{lon},{lat}]}},"properties":{{"n":{features},"name":"place number {features}"}}}}"#
        );
        out.write_all(feature.as_bytes())?;
        written += feature.len() as u64;
        features += 1;
    }
    out.write_all(br#"],"last":{"nested":[[]]}}"#)?;
    Ok(features)
}
