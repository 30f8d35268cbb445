//! A column of cells holds cells of one derivation.

use hexfloe_tests::{Exit, Lake};
use rstest::rstest;

const POINTS: &str = "id,lat,lon\n1,48.2,16.4\n";
const MORE_POINTS: &str = "id,lat,lon\n2,48.3,16.5\n";

#[rstest]
#[case::a_coarser_resolution("h3.resolution=7", &["resolution", "9", "7"])]
#[case::cells_as_text("h3.type=\"string\"", &["long", "string"])]
fn another_derivation_is_refused_before_anything_is_written(#[case] change: &str, #[case] says: &[&str]) {
    let lake = Lake::with_points(POINTS);
    lake.ingest(&["job.toml"]).committed();
    lake.write("points.csv", MORE_POINTS);
    let before = lake.state();
    lake.ingest(&["job.toml", "--set", change]).refuses(Exit::Derivation, says);
    lake.ingest(&["job.toml", "--set", change, "--force"]).refuses(Exit::Derivation, says);
    assert_eq!(lake.state(), before);
}

#[test]
fn the_refusal_says_how_to_proceed() {
    let lake = Lake::with_points(POINTS);
    lake.ingest(&["job.toml"]).committed();
    lake.write("points.csv", MORE_POINTS);
    let run = lake.hexfloe(&["ingest", "job.toml", "--set", "h3.resolution=7"]).ends(Exit::Derivation);
    for word in ["ns.points", "h3_cell", "column"] {
        assert!(run.stderr.contains(word), "does not say {word:?}: {}", run.stderr);
    }
}

#[test]
fn another_derivation_in_another_column_is_no_conflict_of_a_new_table() {
    let lake = Lake::with_points(POINTS);
    lake.ingest(&["job.toml"]).committed();
    lake.ingest(&["job.toml", "--set", "h3.resolution=7", "--set", "table.name=\"ns.coarse\""]).committed();
}
