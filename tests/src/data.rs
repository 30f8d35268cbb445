//! The larger inputs, made by `tests/data.py` the first time a test asks for them.

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
