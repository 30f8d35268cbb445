//! Tables that other engines wrote, or wrote to: what they need is found, whatever its name, version or place.

use std::collections::BTreeSet;

use hexfloe_tests::{Lake, json};
use rstest::rstest;

use crate::cleanup::{OLD, TABLE, place, plant, removes_exactly, unreferenced};

const UUID: &str = "0195b0a2-6f1e-7cc3-98c4-dc0c0c07398f";

/// Leftovers of other engines.
fn leftovers() -> Vec<String> {
    vec![
        format!("data/00000-0-{UUID}.parquet"),
        format!("data/_kind=1/00001-7-{UUID}-00002-deletes.parquet"),
        format!("data/_kind=0/00000-5-{UUID}-00001.puffin"),
        format!("data/20260811_101112_00007_x3yzw-{UUID}.orc"),
        format!("metadata/snap-123-1-{UUID}.avro"),
        format!("metadata/{UUID}-m1.avro"),
        format!("metadata/123-{UUID}.stats"),
        format!("metadata/partition-stats-123-{UUID}.parquet"),
    ]
}

#[track_caller]
fn planted(lake: &Lake, table: &str) -> BTreeSet<String> {
    let before = unreferenced(lake, table);
    let names = leftovers();
    let planted = plant(lake, table, &names.iter().map(String::as_str).collect::<Vec<_>>());
    lake.ask("do_age", json!({ "hours": OLD }));
    before.union(&planted).cloned().collect()
}

#[rstest]
fn a_table_that_pyiceberg_wrote_loses_its_orphans_and_nothing_else(
    #[values(1, 2)] version: u32,
    #[values(None, Some("gzip"))] packed: Option<&str>,
) {
    let (lake, table) = (Lake::new(), "ns.theirs");
    std::fs::create_dir_all(lake.path("lake/warehouse")).unwrap();
    lake.ask("do_make_catalog", json!({ "namespace": "ns" }));
    let codec = json!({ "write.metadata.compression-codec": packed.unwrap_or("none") });
    let rows = json!([[1, 2, 3], [4, 5], [6]]);
    lake.ask("do_make_table", json!({ "table": table, "version": version, "properties": codec, "rows": rows }));
    lake.ask("do_delete", json!({ "table": table, "where": "id = 4" }));
    lake.ask("do_compact", json!({ "table": table }));
    let snapshots = lake.ask("table", json!({ "table": table }))["snapshots"].clone();
    let ids: Vec<_> = snapshots.as_array().unwrap().iter().map(|snapshot| &snapshot["id"]).collect();
    lake.ask("do_ref", json!({ "table": table, "snapshot": ids[0], "tag": "first" }));
    lake.ask("do_ref", json!({ "table": table, "snapshot": ids[1], "branch": "audit" }));
    // The snapshot that PyIceberg forgets leaves its files behind.
    lake.ask("do_expire", json!({ "table": table, "snapshots": [ids[2], ids[3]] }));
    let expected = planted(&lake, table);
    assert!(expected.len() > leftovers().len(), "what expired is among them: {expected:#?}");
    let columns = lake.columns(table);
    removes_exactly(&lake, table, &expected, &["--max-fraction", "0.9"]);
    assert_eq!(lake.columns(table), columns);
    for engine in ["pyiceberg", "duckdb"] {
        let first = json!({ "table": table, "engine": engine, "snapshot": ids[0] });
        assert_eq!(lake.ask("columns", first)["rows"], 3, "{engine}");
    }
    lake.nothing_wrong("unsound", json!({ "table": table }));
    assert_eq!(unreferenced(&lake, table), BTreeSet::new());
}

#[rstest]
fn a_table_that_others_changed_loses_its_orphans_and_nothing_else(
    #[values(
        "compacted",
        "position_deletes_in_partitions",
        "equality_deletes",
        "annotated",
        "specs_changed_and_deleted_from",
        "partitioned_by_batch",
        "object_storage_layout",
        "registered",
        "metadata_compressed",
        "odd_names",
        "version_3_mixed",
        "version_3_deletion_vectors"
    )]
    name: &str,
) {
    let lake = Lake::new();
    let made = lake.ask("do_make_fixture", json!({ "name": name, "hexfloe": hexfloe_tests::hexfloe() }));
    let exact = || {
        lake.nothing_wrong("wrong_replay", json!({ "table": TABLE, "replayed": [], "snapshots": made["snapshots"] }));
    };
    if name == "annotated" {
        plant(&lake, TABLE, &["metadata/statistics.puffin"]);
    }
    let expected = planted(&lake, TABLE);
    assert_eq!(expected.len(), leftovers().len(), "{expected:#?}");
    removes_exactly(&lake, TABLE, &expected, &["--max-fraction", "0.9"]);
    exact();
}

#[test]
fn places_that_end_in_slashes_are_cleaned_when_they_are_declared() {
    let lake = Lake::new();
    let made =
        lake.ask("do_make_fixture", json!({ "name": "paths_with_slashes", "hexfloe": hexfloe_tests::hexfloe() }));
    let first = made["batches"][0]["arguments"].as_array().unwrap().iter().map(|a| a.as_str().unwrap());
    lake.ingest(&first.chain(["--force"]).collect::<Vec<_>>()).committed();
    let places = ["data//", "metadata/"].map(|name| format!("file://{}/{name}", lake.path("lake").display()));
    let orphans = [format!("{}00000-0-{UUID}.parquet", places[0]), format!("{}{UUID}-m0.avro", places[1])];
    lake.ask("do_write", json!({ "files": { orphans[0].clone(): "left", orphans[1].clone(): "left" } }));
    lake.ask("do_age", json!({ "hours": OLD, "below": lake.path("lake") }));
    let owned = ["--owned", &places[0], "--owned", &places[1], "--max-fraction", "0.9"];
    let expected = orphans.iter().map(|file| place(file).replace("//", "/")).collect();
    removes_exactly(&lake, TABLE, &expected, &owned);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
    let found = lake.ask("unreferenced", json!({ "table": TABLE, "places": places }));
    assert_eq!(found, json!({}));
}
