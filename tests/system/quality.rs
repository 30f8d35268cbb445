//! Rows without a place: refused with their reasons, or set aside and counted; never dropped, never cell 0.

use std::fs;

use hexfloe_tests::{Exit, Lake, Value, json};

const TABLE: &str = "ns.points";
const MIXED: &str = "id,lat,lon\n1,48.2,16.4\n2,91,16.4\n3,,16.4\n4,48.2,\n5,48.2,180.5\n6,-33.9,151.2\n";

#[test]
fn a_refusal_shows_the_first_twenty_rejects_with_file_and_row() {
    let rows = (1..=30).fold("id,lat,lon\n".to_owned(), |csv, id| csv + &format!("{id},{},16.4\n", 90 + id));
    let lake = Lake::with_points(&rows);
    let run = lake.hexfloe(&["ingest", "job.toml"]).ends(Exit::Input);
    assert_eq!(run.stderr.matches("points.csv, row ").count(), 20, "{}", run.stderr);
    assert!(run.stderr.contains("row 1: the latitude 91 ") && run.stderr.contains("row 20: the latitude 110 "));
    assert!(run.stderr.contains("30 rows"), "the refusal says how many there are: {}", run.stderr);
}

#[test]
fn quarantined_rows_are_counted_and_kept_with_their_reasons() {
    let lake = Lake::with_points(MIXED);
    let report = lake.ingest(&["job.toml", "--set", "quality.on_reject=\"quarantine\""]).committed();
    assert_eq!((report["rows"].as_u64(), report["rejected"].as_u64()), (Some(2), Some(4)), "{report:#}");

    let ids: Vec<_> = lake
        .ask("rows", json!({ "table": TABLE, "columns": ["id"], "order": ["id"] }))
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].clone())
        .collect();
    assert_eq!(ids, [1, 6]);

    let batch = report["batch_id"].as_str().unwrap();
    let file = lake.path("rejects").join(TABLE).join(format!("{batch}.ndjson"));
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let rejects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rejects.len(), 4, "{text}");
    for (reject, row) in rejects.iter().zip([2, 3, 4, 5]) {
        assert_eq!(reject["row"], row, "{reject:#}");
        assert_eq!(reject["file"], "points.csv");
        assert!(reject["reason"].is_string(), "{reject:#}");
    }
    assert!(text.contains("91") && text.contains("180.5"), "{text}");

    let table = lake.ask("table", json!({ "table": TABLE }));
    assert_eq!(table["snapshots"][0]["summary"]["ingest.rejected"], "4");
    assert_eq!(table["snapshots"][0]["summary"]["ingest.rows"], "2");
}

#[test]
fn quarantining_the_same_batch_again_is_skipped_and_forcing_it_writes_the_same_rejects() {
    let lake = Lake::with_points(MIXED);
    let quarantine = ["job.toml", "--set", "quality.on_reject=\"quarantine\""];
    let batch = lake.ingest(&quarantine).committed()["batch_id"].as_str().unwrap().to_owned();
    let file = lake.path("rejects").join(TABLE).join(format!("{batch}.ndjson"));
    let rejects = fs::read(&file).unwrap();
    lake.ingest(&quarantine).skipped();
    lake.ingest(&[&quarantine[..], &["--force"]].concat()).committed();
    assert_eq!(fs::read(&file).unwrap(), rejects);
    assert_eq!(lake.ask("count", json!({ "table": TABLE }))["rows"], 2);
}

#[test]
fn points_at_the_poles_and_the_antimeridian_are_points() {
    let lake = Lake::with_points("id,lat,lon\n1,90,0\n2,-90,0\n3,0,180\n4,0,-180\n5,0,0\n");
    assert_eq!(lake.ingest(&["job.toml"]).committed()["rows"], 5);
    lake.nothing_wrong(
        "wrong_cells",
        json!({ "table": TABLE, "lat": "lat", "lon": "lon", "cell": "h3_cell", "resolution": 9 }),
    );
}
