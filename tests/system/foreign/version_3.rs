//! Tables of format version 3: whole files are replaced, and what would lose the identity of rows is refused.

use std::collections::BTreeMap;

use hexfloe_tests::{Exit, json};
use rstest::rstest;

use super::{Fixture, TABLE};

#[test]
fn rewriting_a_mixed_file_of_version_3_is_refused_before_anything_is_written() {
    let mut fixture = Fixture::new("version_3_mixed");
    let files = fixture.lake.files(TABLE);
    let mixed = files.iter().find(|file| file["rows"] == 10).unwrap()["path"].as_str().unwrap();
    for name in ["a", "b"] {
        let before = fixture.lake.state();
        fixture.force(&fixture.batch(name)).refuses(Exit::Unexpected, &[mixed, "version 3"]);
        assert_eq!(fixture.lake.state(), before);
    }
    // Its own file is replaced all the same.
    fixture.replay("c");
    fixture.replay("c");
}

#[rstest]
fn rows_that_stay_keep_their_row_ids_and_new_ones_get_new_ids(
    #[values("version_3", "version_3_deletion_vectors")] name: &str,
) {
    let mut fixture = Fixture::new(name);
    // The first commit after an upgrade gives the rows of before their ids.
    let mut before = BTreeMap::new();
    for batch in ["a", "b", "a", "c"] {
        fixture.replay(batch);
        let ids = fixture.lake.ask("row_ids", json!({ "table": TABLE }));
        assert_eq!(ids["wrong"], json!([]), "{ids:#}");
        let after: BTreeMap<String, i64> = serde_json::from_value(ids["first"].clone()).unwrap();
        let stayed: Vec<_> = before.iter().filter(|(path, _)| after.contains_key(*path)).collect();
        assert!(before.is_empty() || stayed.len() == 2, "{before:#?} {after:#?}");
        assert!(stayed.iter().all(|(path, id)| after[*path] == **id), "{before:#?} {after:#?}");
        let highest = before.values().max().copied();
        assert!(
            after.iter().all(|(path, id)| before.contains_key(path) || Some(*id) > highest),
            "{before:#?} {after:#?}"
        );
        before = after;
    }
}
