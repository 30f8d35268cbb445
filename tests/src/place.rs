//! Where things are, found from where the running test is: `<target>/<profile>/deps/<test>`.

use std::env;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn repository() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests)
}

/// A file under `examples`.
pub fn example(path: &str) -> String {
    repository().join("examples").join(path).display().to_string()
}

/// The folder of the profile that this test was built with, `target/debug` for one.
fn profile() -> PathBuf {
    let this = env::current_exe().unwrap_or_else(|error| panic!("cannot tell where this test is: {error}"));
    match this.ancestors().nth(2) {
        Some(folder) => folder.to_path_buf(),
        None => panic!("{} is not in a cargo target folder", this.display()),
    }
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    let profile = profile();
    profile.parent().unwrap_or(&profile).to_path_buf()
}

/// The `hexfloe` binary of the same build.
pub fn hexfloe() -> PathBuf {
    existing(profile().join("hexfloe"), "cargo build --workspace --features sql --bins --tests")
}

/// The judges' Python.
pub(crate) fn python() -> PathBuf {
    existing(target().join("venv/bin/python"), "tests/run")
}

fn existing(path: PathBuf, made_by: &str) -> PathBuf {
    assert!(path.exists(), "{} does not exist: `{made_by}` makes it", path.display());
    path
}
