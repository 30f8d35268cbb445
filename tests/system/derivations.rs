//! A column of cells holds cells of one derivation.

use std::fs;

use hexfloe_tests::{Exit, Lake, example, json};
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

#[rstest]
fn cells_of_every_resolution_are_those_of_the_h3_library(
    #[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)] resolution: u8,
    #[values("long", "string")] kind: &str,
) {
    let places = fs::read_to_string(example("cities/cities.csv")).unwrap();
    let (header, rows) = places.split_once('\n').unwrap();
    let some: String = rows.lines().step_by(97).fold(header.to_owned(), |csv, row| csv + "\n" + row);
    let lake = Lake::with_points(&some);
    let settings = [format!("h3.resolution={resolution}"), format!("h3.type=\"{kind}\"")];
    lake.ingest(&["job.toml", "--set", &settings[0], "--set", &settings[1]]).committed();
    let cells =
        json!({ "table": "ns.points", "lat": "lat", "lon": "lon", "cell": "h3_cell", "resolution": resolution });
    lake.nothing_wrong("wrong_cells", cells);
}
