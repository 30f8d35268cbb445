//! The catalogue of fixtures is complete: what is made is described, and what is described is used.

use std::collections::BTreeSet;

use hexfloe_tests::json;
use hexfloe_tests::judge;

const README: &str = include_str!("../../fixtures/README.md");
const TESTS: [&str; 4] =
    [include_str!("replays.rs"), include_str!("version_3.rs"), include_str!("headers.rs"), include_str!("interop.rs")];

#[test]
fn every_fixture_is_described_and_used() {
    let made = judge("fixture_names", json!({}));
    let made: BTreeSet<&str> = made.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let (_, table) = README.split_once("| fixture |").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let described: BTreeSet<&str> = rows.map(|(name, _)| name).collect();
    assert_eq!(made, described, "make.py and README.md list the same fixtures");
    for name in made {
        let quoted = format!("\"{name}\"");
        assert!(TESTS.iter().any(|tests| tests.contains(&quoted)), "no test uses {name}");
    }
}
