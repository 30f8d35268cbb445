//! A table that others write to as well: the batch column is the truth, the ledger a shortcut.

use hexfloe_tests::{Exit, Lake, Run, Value, json};

const TABLE: &str = "ns.points";
const FIRST: &str = "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n";
const SECOND: &str = "id,lat,lon\n3,64.1,-21.9\n4,35.7,139.7\n5,-22.9,-43.2\n";

/// A table of two batches.
struct Two {
    lake: Lake,
    first: Value,
    second: Value,
}

impl Two {
    fn new() -> Self {
        let lake = Lake::with_points("");
        lake.write("first.csv", FIRST);
        lake.write("second.csv", SECOND);
        let [first, second] = ["first", "second"].map(|batch| ingest(&lake, batch, &[]).committed());
        Self { lake, first, second }
    }

    /// Both batches are there, whole and once.
    #[track_caller]
    fn are_exact(&self) {
        let rows = self.lake.ask("per_batch", json!({ "table": TABLE }));
        let of = |report: &Value| rows[report["batch_id"].as_str().unwrap()].clone();
        assert_eq!((of(&self.first), of(&self.second)), (json!(2), json!(3)), "{rows:#}");
        let distinct = json!({ "rows": 5, "distinct": 5 });
        for engine in ["pyiceberg", "duckdb"] {
            assert_eq!(self.lake.ask("count", json!({ "table": TABLE, "key": "id", "engine": engine })), distinct);
        }
        self.lake.nothing_wrong("unsound", json!({ "table": TABLE }));
    }
}

fn ingest(lake: &Lake, batch: &str, more: &[&str]) -> Run {
    let paths = format!("source.paths=[\"{batch}.csv\"]");
    lake.ingest(&[&["job.toml", "--set", &paths], more].concat())
}

#[test]
fn a_batch_that_was_compacted_with_another_is_replaced_exactly() {
    let two = Two::new();
    assert_eq!(two.lake.ask("do_compact", json!({ "table": TABLE })), 1, "both batches in one file");
    ingest(&two.lake, "first", &[]).skipped();
    assert_eq!(ingest(&two.lake, "first", &["--force"]).committed()["replaced_rows"], 2);
    two.are_exact();
}

#[test]
fn a_batch_that_nothing_but_its_rows_tells_of_is_overwritten_not_appended() {
    let two = Two::new();
    two.lake.ask("do_compact", json!({ "table": TABLE }));
    two.lake.ask(
        "do_expire",
        json!({ "table": TABLE, "snapshots": [two.first["snapshot_id"], two.second["snapshot_id"]] }),
    );
    two.lake.ask("do_set", json!({ "table": TABLE, "name": "ingest.completed_batches", "value": null }));
    assert_eq!(ingest(&two.lake, "first", &[]).committed()["replaced_rows"], 2);
    two.are_exact();
}

#[test]
fn a_ledger_that_others_removed_is_no_gap_and_no_duplicate() {
    let two = Two::new();
    two.lake.ask("do_set", json!({ "table": TABLE, "name": "ingest.completed_batches", "value": null }));
    for batch in ["first", "second"] {
        ingest(&two.lake, batch, &[]).ends(Exit::Done);
    }
    two.are_exact();
}

#[test]
fn a_rollback_un_completes_the_batches_after_it() {
    let two = Two::new();
    two.lake.ask("do_rollback", json!({ "table": TABLE, "snapshot": two.first["snapshot_id"] }));
    assert_eq!(two.lake.ask("count", json!({ "table": TABLE }))["rows"], 2);
    ingest(&two.lake, "first", &[]).ends(Exit::Done);
    ingest(&two.lake, "second", &[]).committed();
    two.are_exact();
    ingest(&two.lake, "second", &[]).skipped();
}

#[test]
fn a_batch_whose_snapshot_expired_is_still_complete() {
    let two = Two::new();
    two.lake.ask("do_expire", json!({ "table": TABLE, "snapshots": [two.first["snapshot_id"]] }));
    ingest(&two.lake, "first", &[]).skipped();
    assert_eq!(ingest(&two.lake, "first", &["--force"]).committed()["replaced_rows"], 2);
    two.are_exact();
}

#[test]
fn rows_that_others_deleted_come_back_when_their_batch_is_forced() {
    let two = Two::new();
    two.lake.ask("do_delete", json!({ "table": TABLE, "where": "id = 4" }));
    assert_eq!(two.lake.ask("count", json!({ "table": TABLE }))["rows"], 4);
    assert_eq!(ingest(&two.lake, "second", &["--force"]).committed()["replaced_rows"], 2);
    two.are_exact();
}

#[test]
fn properties_that_others_set_are_kept() {
    let two = Two::new();
    two.lake.ask("do_set", json!({ "table": TABLE, "name": "owner", "value": "the roads department" }));
    ingest(&two.lake, "first", &["--force"]).committed();
    let table = two.lake.ask("table", json!({ "table": TABLE }));
    assert_eq!(table["properties"]["owner"], "the roads department");
    two.are_exact();
}

#[test]
fn a_batch_may_be_replayed_after_a_column_was_added() {
    let two = Two::new();
    two.lake.ask("do_add_column", json!({ "table": TABLE, "name": "note" }));
    assert_eq!(ingest(&two.lake, "first", &["--force"]).committed()["replaced_rows"], 2);
    two.are_exact();
}

#[test]
fn a_replay_that_became_empty_removes_the_earlier_rows_and_is_complete() {
    let lake = Lake::with_points(FIRST);
    let offsets = ["job.toml", "--set", "batch.granularity=\"offsets\"", "--set", "batch.partition=\"0\""];
    let run =
        [&offsets[..], &["--set", "batch.offsets=[0, 2]", "--set", "batch.on_changed_input=\"replace\""]].concat();
    lake.ingest(&run).committed();
    lake.write("points.csv", "id,lat,lon\n");
    let schema = ["--set", "source.schema={id=\"long\", lat=\"double\", lon=\"double\"}"];
    let report = lake.ingest(&[&run[..], &schema].concat()).committed();
    assert_eq!((report["rows"].as_u64(), report["replaced_rows"].as_u64()), (Some(0), Some(2)));
    assert_eq!(report["data_files"], 0, "no empty data files");
    assert_eq!(lake.ask("count", json!({ "table": TABLE }))["rows"], 0);
    assert_eq!(lake.ledger(TABLE), [report["batch_id"].as_str().unwrap()]);
    lake.ingest(&run).skipped();
}
