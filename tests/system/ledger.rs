//! The list of completed batches: bounded, readable by anyone, and never the only guard.

use hexfloe_tests::{Lake, Run, json};

const THREE_ROWS: &str = "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n3,64.1,-21.9\n";

/// Ingests the same three rows as the batch of one offset range.
fn ingest(lake: &Lake, offset: usize) -> Run {
    lake.ingest(&[
        "job.toml",
        "--set",
        "batch.granularity=\"offsets\"",
        "--set",
        "batch.partition=\"0\"",
        "--set",
        &format!("batch.offsets=[{offset}, {}]", offset + 1),
    ])
}

#[test]
fn six_hundred_batches_leave_the_five_hundred_newest_and_an_evicted_one_replays_without_a_duplicate() {
    let lake = Lake::with_points(THREE_ROWS);
    let (mut batches, mut first) = (Vec::new(), None);
    for offset in 0..600 {
        let report = ingest(&lake, offset).committed();
        batches.push(report["batch_id"].as_str().unwrap().to_owned());
        first.get_or_insert_with(|| report["snapshot_id"].clone());
    }
    assert_eq!(lake.ledger("ns.points"), batches[100..], "the newest five hundred, oldest first");
    let bytes = lake.ask("ledger", json!({ "table": "ns.points" }))["bytes"].as_u64().unwrap();
    assert!(bytes <= 32 * 1024, "the ledger takes {bytes} bytes");
    assert_eq!(lake.ask("count", json!({ "table": "ns.points" }))["rows"], 1_800);

    // Still in the ledger, or in a summary with the same digest: a shortcut. In neither: an overwrite, which is the same rows
    // again.
    ingest(&lake, 599).skipped();
    ingest(&lake, 0).skipped();
    lake.ask("do_expire", json!({ "table": "ns.points", "snapshots": [first] }));
    let report = ingest(&lake, 0).committed();
    assert_eq!(report["replaced_rows"], 3);
    let rows = lake.ask("per_batch", json!({ "table": "ns.points" }));
    assert_eq!(rows.as_object().unwrap().len(), 600);
    assert!(rows.as_object().unwrap().values().all(|rows| rows == 3), "{rows:#}");
    assert_eq!(lake.ledger("ns.points").last(), Some(&batches[0]));

    let table = lake.ask("table", json!({ "table": "ns.points" }));
    let last = table["snapshots"].as_array().unwrap().last().unwrap()["summary"].clone();
    assert_eq!(last["total-records"], "1800");
}

#[test]
fn replaying_out_of_order_neither_loses_nor_repeats_a_batch() {
    let lake = Lake::with_points(THREE_ROWS);
    let first_to_third: Vec<_> = [3, 1, 2].map(|offset| ingest(&lake, offset).committed()["batch_id"].clone()).to_vec();
    ingest(&lake, 1).skipped();
    assert_eq!(json!(lake.ledger("ns.points")), json!(first_to_third));
    assert_eq!(lake.ask("count", json!({ "table": "ns.points" }))["rows"], 9);
}
