//! Tables of format version 3: whole files are replaced, and what would lose the identity of rows is refused.

use hexfloe_tests::Exit;

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
