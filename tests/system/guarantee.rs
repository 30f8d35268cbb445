//! The document about the guarantee names the tests that show what it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hexfloe_tests::repository;

/// The names in backticks that read like sentences.
fn named_tests(text: &str) -> BTreeSet<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let is_name = |name: &&str| {
        name.matches('_').count() >= 4 && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    quoted.filter(is_name).map(str::to_owned).collect()
}

/// The text of every Rust file below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_test_that_the_guarantee_names_exists() {
    let root = repository();
    let named = named_tests(&fs::read_to_string(root.join("docs/guarantee.md")).unwrap());
    assert!(named.len() >= 25, "{named:?}");
    let mut text = String::new();
    sources(&root.join("crates"), &mut text);
    sources(&root.join("tests"), &mut text);
    let missing: Vec<&String> = named.iter().filter(|name| !text.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
