//! What other engines trip over, in the files that an ingest writes and in those that a replay rewrites.

use hexfloe_tests::{Lake, POINTS, json};
use rstest::rstest;

use super::{Fixture, TABLE};

#[rstest]
fn every_leaf_of_a_rewritten_file_has_the_field_id_of_its_column(#[values("nested", "nested_renamed")] name: &str) {
    let mut fixture = Fixture::new(name);
    fixture.replay_all();
    fixture.lake.nothing_wrong("wrong_field_ids", json!({ "table": TABLE }));
}

#[test]
fn timestamps_keep_their_zone_or_have_none_in_every_unit() {
    let mut fixture = Fixture::new("instants");
    fixture.replay_all();
    let table = fixture.lake.ask("table", json!({ "table": TABLE }));
    for field in table["fields"].as_array().unwrap() {
        let expected = match field["name"].as_str().unwrap() {
            name if name.starts_with("naive") => "timestamp",
            name if name.starts_with("zoned") => "timestamptz",
            _ => continue,
        };
        assert_eq!(field["type"], expected, "{field:#}");
    }
    fixture.lake.nothing_wrong("wrong_bounds", json!({ "table": TABLE }));
}

#[test]
fn bounds_of_decimals_are_their_ends_in_the_fewest_bytes() {
    let mut fixture = Fixture::new("decimals");
    fixture.replay_all();
    fixture.lake.nothing_wrong("wrong_decimal_bounds", json!({ "table": TABLE }));
}

#[test]
fn a_geometry_column_has_no_bounds_in_a_rewritten_file() {
    let mut fixture = Fixture::new("geometries");
    fixture.replay_all();
    for file in fixture.lake.files(TABLE) {
        for side in ["lower", "upper"] {
            assert!(file[side].get("geometry").is_none(), "{file:#}");
            assert!(file[side].get("id").is_some(), "{file:#}");
        }
    }
}

#[test]
fn paths_that_end_in_slashes_are_not_recorded_with_two() {
    let mut fixture = Fixture::new("paths_with_slashes");
    fixture.replay_all();
    let table = fixture.lake.ask("table", json!({ "table": TABLE }));
    let metadata = table["metadata_location"].as_str().unwrap();
    assert!(metadata.contains("/lake/metadata/"), "{metadata}");
}

#[test]
fn a_warehouse_that_ends_in_a_slash_is_recorded_without() {
    let lake = Lake::with_points("id,lat,lon\n1,48.25,16.5\n2,-33.75,151.25\n");
    let catalog =
        "name = \"lake\"\ntype = \"sql\"\nuri = \"sqlite:lake/catalog.db\"\nwarehouse = \"file:lake/warehouse/\"\n";
    lake.write("catalog.toml", catalog);
    lake.write("job.toml", POINTS);
    let run = ["job.toml", "--catalog", "catalog.toml"];
    lake.ingest(&run).committed();
    lake.ingest(&[&run[..], &["--force"]].concat()).committed();
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
    assert_eq!(lake.columns(TABLE)["rows"], 2);
}
