//! The example: 144,563 real places, landed once.

use std::collections::BTreeSet;

use hexfloe_tests::{Lake, Value, example, json, judge};

const TABLE: &str = "places.cities";
const PLACES: u64 = 144_563;

fn ingested() -> (Lake, String) {
    let (lake, job) = (Lake::new(), example("cities/job.toml"));
    let report = lake.ingest(&[&job]).committed();
    assert_eq!(report["rows"], PLACES);
    (lake, job)
}

#[test]
fn a_second_run_is_skipped_and_leaves_every_byte_as_it_was() {
    let (lake, job) = ingested();
    let before = lake.state();
    let report = lake.ingest(&[&job]).skipped();
    assert_eq!(report["snapshot_id"], lake.ask("table", json!({ "table": TABLE }))["current_snapshot_id"]);
    assert_eq!(lake.state(), before);
}

#[test]
fn pyiceberg_and_duckdb_read_what_the_file_holds() {
    let (lake, _) = ingested();
    let read = lake.columns(TABLE);
    let held = judge("csv_columns", json!({ "path": example("cities/cities.csv"), "numbers": ["lat", "lon"] }));
    assert_eq!(read["rows"], PLACES);
    for column in ["lat", "lon", "name", "admin1", "admin2", "cc"] {
        assert_eq!(read["columns"][column], held["columns"][column], "{column}");
    }
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn every_cell_is_the_one_the_h3_library_computes() {
    let (lake, _) = ingested();
    let cells = json!({
        "table": TABLE, "lat": "lat", "lon": "lon", "cell": "h3_cell", "resolution": 9, "parents": { "h3_cell_r0": 0 },
    });
    lake.nothing_wrong("wrong_cells", cells);
}

#[test]
fn every_file_is_of_one_parent_cell_and_its_bounds_hold() {
    let (lake, _) = ingested();
    lake.nothing_wrong("wrong_partitions", json!({ "table": TABLE }));
    lake.nothing_wrong("wrong_bounds", json!({ "table": TABLE }));
    let files = lake.files(TABLE);
    let cells: BTreeSet<_> = files.iter().map(|file| file["partition"].to_string()).collect();
    assert_eq!(cells.len(), files.len(), "as many files as parent cells");
}

#[test]
fn a_forced_run_makes_one_more_snapshot_of_the_same_bytes_whatever_the_threads() {
    let (lake, job) = ingested();
    let (rows, digests) = (lake.columns(TABLE), lake.digests(TABLE));
    for (runs, threads) in [(2, "limits.threads=1"), (3, "limits.threads=2"), (4, "limits.threads=3")] {
        let report = lake.ingest(&[&job, "--force", "--set", threads]).committed();
        assert_eq!(report["replaced_rows"], PLACES);
        let table = lake.ask("table", json!({ "table": TABLE }));
        let snapshots = table["snapshots"].as_array().unwrap();
        assert_eq!(snapshots.len(), runs, "one snapshot a run");
        assert_eq!(snapshots[runs - 1]["operation"], "overwrite");
        assert_eq!(snapshots[runs - 1]["parent"], snapshots[runs - 2]["id"]);
        assert_eq!(lake.digests(TABLE), digests, "{threads}");
    }
    assert_eq!(lake.columns(TABLE), rows);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn the_table_states_where_its_rows_and_its_cells_come_from() {
    let (lake, _) = ingested();
    let table = lake.ask("table", json!({ "table": TABLE }));
    let properties = &table["properties"];
    assert_eq!(table["format_version"], 2);
    assert_eq!(properties["write.metadata.metrics.column.ingest_batch_id"], "full");
    let derivation: Value = serde_json::from_str(properties["ingest.derivation.h3_cell"].as_str().unwrap()).unwrap();
    assert_eq!(derivation["library"], "h3o");
    assert_eq!(derivation["resolution"], 9);
    assert_eq!(derivation["fingerprint"].as_str().map(str::len), Some(64));

    let batch = lake.ledger(TABLE).pop().unwrap();
    let snapshot = &table["snapshots"][0];
    assert_eq!(properties["ingest.ledger_snapshot_id"], snapshot["id"].to_string());
    let summary = &snapshot["summary"];
    assert_eq!(summary["ingest.batch-id"], batch);
    assert_eq!(summary["ingest.source"], "geonames");
    assert_eq!(summary["ingest.rows"], PLACES.to_string());
    assert_eq!(summary["ingest.rejected"], "0");
    assert_eq!(summary["ingest.content-sha256"].as_str().map(str::len), Some(64));
    let column = table["fields"].as_array().unwrap().iter().find(|field| field["name"] == "ingest_batch_id").unwrap();
    assert_eq!((column["type"].as_str(), column["required"].as_bool()), (Some("string"), Some(true)));
}
