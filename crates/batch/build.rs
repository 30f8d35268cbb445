//! Tells the crate which machine it is built for: the derivation record says so beside the cells.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo always sets TARGET for build scripts; "unknown" can only come from another build system.
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".to_owned());
    println!("cargo::rustc-env=HEXFLOE_TARGET={target}");
}
