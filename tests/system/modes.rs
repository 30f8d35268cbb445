//! What a batch replaces, from the job file to what PyIceberg reads: its slice, the rows with its keys, or nothing.

use std::fmt::Write as _;

use hexfloe_tests::{Exit, Lake, Value, json};
use rstest::rstest;

const TABLE: &str = "ns.events";

/// A job over `events.csv`, with more of `[batch]` and of `[table]`.
fn job(batch: &str, table: &str) -> String {
    format!(
        r#"
[source]
name = "feed"
format = "csv"
paths = ["events.csv"]

[batch]
{batch}

[table]
name = "{TABLE}"
{table}
"#
    )
}

fn lake_with(job: &str, csv: &str) -> Lake {
    let lake = Lake::new();
    lake.write("job.toml", job);
    lake.write("events.csv", csv);
    lake
}

fn number(report: &Value, name: &str) -> u64 {
    let number = report[name].as_u64();
    assert!(number.is_some(), "no number {name} in {report:#}");
    number.unwrap()
}

/// The rows as PyIceberg reads them, the columns joined by `|`.
fn rows(lake: &Lake, columns: &[&str]) -> Vec<String> {
    let rows = lake.ask("rows", json!({ "table": TABLE, "columns": columns, "order": columns }));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |row: &Value| columns.iter().map(|column| text(&row[*column])).collect::<Vec<_>>().join("|");
    rows.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_slice_ingested_twice_holds_the_same_rows_and_other_slices_are_untouched() {
    let lake = lake_with(
        &job("granularity = \"slice\"", "mode = \"slice\"\nslice = { run_date = \"$run_date\" }"),
        "id,value\n1,a\n2,b\n",
    );
    for date in ["2026-08-10", "2026-08-11"] {
        lake.ingest(&["job.toml", "--run-date", date]).committed();
    }
    let expected = ["2026-08-10|1|a", "2026-08-10|2|b", "2026-08-11|1|a", "2026-08-11|2|b"];
    let columns = ["run_date", "id", "value"];
    assert_eq!(rows(&lake, &columns), expected);

    let before = lake.state();
    lake.ingest(&["job.toml", "--run-date", "2026-08-11"]).skipped();
    assert_eq!(lake.state(), before);
    let forced = lake.ingest(&["job.toml", "--run-date", "2026-08-11", "--force"]).committed();
    assert_eq!((number(&forced, "rows"), number(&forced, "replaced_rows")), (2, 2));
    assert_eq!(rows(&lake, &columns), expected);

    lake.write("events.csv", "id,value\n2,c\n3,c\n4,c\n");
    let changed = lake.ingest(&["job.toml", "--run-date", "2026-08-11"]).committed();
    assert_eq!((number(&changed, "rows"), number(&changed, "replaced_rows")), (3, 2));
    let expected = ["2026-08-10|1|a", "2026-08-10|2|b", "2026-08-11|2|c", "2026-08-11|3|c", "2026-08-11|4|c"];
    assert_eq!(rows(&lake, &columns), expected);
    lake.columns(TABLE);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn a_load_that_fails_leaves_the_previous_slice() {
    let lake = lake_with(
        &job("granularity = \"slice\"", "mode = \"slice\"\nslice = { run_date = 2026-08-11 }"),
        "id,run_date\n1,2026-08-11\n2,2026-08-11\n",
    );
    lake.ingest(&["job.toml"]).committed();
    let before = lake.state();
    for (csv, exit, says) in [
        ("id,run_date,colour\n3,2026-08-11,red\n", Exit::Usage, "colour"),
        ("id,run_date\n3,2026-08-12\n", Exit::Input, "outside of the slice run_date = 2026-08-11"),
        ("id,run_date\n3\n", Exit::Input, "events.csv"),
    ] {
        lake.write("events.csv", csv);
        lake.ingest(&["job.toml"]).refuses(exit, &[says]);
        assert_eq!(lake.state(), before);
    }
}

/// As many keys as a district has parcels, each with its own value in every version.
fn parcels(version: u32) -> String {
    let mut csv = "event_date,event_id,version\n".to_owned();
    for id in 0..21_253_u32 {
        let _ = writeln!(csv, "2026-{:02}-{:02},{id},{version}", id % 12 + 1, id % 28 + 1);
    }
    csv
}

#[test]
fn an_upsert_of_the_same_keys_twice_has_each_of_them_once() {
    let upsert = "mode = \"upsert\"\nkey = [\"event_date\", \"event_id\"]\npartition = [\"month(event_date)\"]";
    let lake = lake_with(&job("granularity = \"files\"", upsert), &parcels(1));
    assert_eq!(number(&lake.ingest(&["job.toml"]).committed(), "rows"), 21_253);
    lake.ingest(&["job.toml"]).skipped();
    // Another batch with the same keys, and the same batch once more.
    lake.write("events.csv", parcels(2));
    for arguments in [&["job.toml"][..], &["job.toml", "--force"]] {
        let report = lake.ingest(arguments).committed();
        assert_eq!((number(&report, "rows"), number(&report, "replaced_rows")), (21_253, 21_253));
        let count = lake.ask("count", json!({ "table": TABLE, "key": "event_id" }));
        assert_eq!(count, json!({ "rows": 21_253, "distinct": 21_253 }));
    }
    let versions = lake.ask("count", json!({ "table": TABLE, "key": "version" }));
    assert_eq!(versions, json!({ "rows": 21_253, "distinct": 1 }));
    lake.columns(TABLE);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn an_upsert_replaces_old_keys_in_every_partition_adds_new_ones_and_rejects_nulls() {
    let upsert = "mode = \"upsert\"\nkey = [\"day\", \"id\"]\npartition = [\"day\"]";
    let lake = lake_with(
        &job("granularity = \"files\"", upsert),
        "day,id,value\n2026-08-10,1,old\n2026-08-10,2,old\n2026-08-11,1,old\n2026-08-12,9,old\n",
    );
    lake.ingest(&["job.toml"]).committed();
    lake.write("events.csv", "day,id,value\n2026-08-10,2,new\n2026-08-11,1,new\n2026-08-13,1,new\n,3,new\n");
    lake.ingest(&["job.toml"]).refuses(Exit::Input, &["events.csv", "row 4", "column day"]);
    let report = lake.ingest(&["job.toml", "--set", "quality.on_reject=\"quarantine\""]).committed();
    let counts = ["rows", "rejected", "replaced_rows"].map(|name| number(&report, name));
    assert_eq!(counts, [3, 1, 2]);
    assert_eq!(
        rows(&lake, &["day", "id", "value"]),
        ["2026-08-10|1|old", "2026-08-10|2|new", "2026-08-11|1|new", "2026-08-12|9|old", "2026-08-13|1|new"]
    );
    let table = lake.ask("table", json!({ "table": TABLE }));
    assert_eq!(table["snapshots"].as_array().map(Vec::len), Some(2), "one snapshot a batch");
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));

    lake.write("events.csv", "day,id,value\n2026-08-10,2,x\n2026-08-10,1,x\n2026-08-10,2,y\n");
    lake.ingest(&["job.toml"]).refuses(Exit::Input, &["day = 2026-08-10, id = 2", "row 1", "row 3"]);
}

#[test]
fn batches_of_one_slice_that_come_out_of_order_are_each_done_once() {
    let lake = lake_with(&job("granularity = \"files\"", "mode = \"slice\"\nslice = { day = 2026-08-11 }"), "");
    let mut statuses = Vec::new();
    for number in [3, 1, 2, 1] {
        lake.write("events.csv", format!("id,day\n{number},2026-08-11\n"));
        let report = lake.ingest(&["job.toml"]).ends(Exit::Done).report();
        statuses.push(report["status"].as_str().unwrap().to_owned());
    }
    assert_eq!(statuses, ["committed", "committed", "committed", "skipped"]);
    assert_eq!(rows(&lake, &["id"]), ["2"]);
    assert_eq!(lake.ledger(TABLE).len(), 3);
}

#[rstest]
#[case::last("keep = \"last\"", 2)]
#[case::first("keep = \"first\"", 0)]
#[case::highest("keep = \"last\", order_by = \"rank\"", 1)]
fn one_row_of_each_key_is_kept_in_the_same_bytes_whatever_the_threads(#[case] keep: &str, #[case] nth: u64) {
    // Three rows of each key, far apart; the middle one has the highest rank, the others are equal.
    let mut csv = "key,nth,rank\n".to_owned();
    for nth in 0..3 {
        for key in 0..15_000 {
            let _ = writeln!(csv, "{key},{nth},{}", u8::from(nth == 1));
        }
    }
    let lake = lake_with(&job("granularity = \"files\"", ""), &csv);
    let dedupe = format!("quality.dedupe={{ key = [\"key\"], {keep} }}");
    let mut digests = Vec::new();
    for threads in [1, 2, 3, 8] {
        let threads = format!("limits.threads={threads}");
        let report = lake.ingest(&["job.toml", "--force", "--set", &dedupe, "--set", &threads]).committed();
        assert_eq!((number(&report, "rows"), number(&report, "deduplicated")), (15_000, 30_000));
        digests.push(lake.digests(TABLE));
    }
    assert!(digests.iter().all(|other| *other == digests[0]), "{digests:#?}");
    let read = lake.ask("columns", json!({ "table": TABLE, "engine": "pyiceberg", "columns": ["key", "nth"] }));
    assert_eq!(read["columns"]["nth"]["sum"], (15_000 * nth).to_string());
    assert_eq!(
        lake.ask("count", json!({ "table": TABLE, "key": "key" })),
        json!({ "rows": 15_000, "distinct": 15_000 })
    );
}

/// The order of the input is then that of the sorted result, and its rows are numbered there.
#[test]
fn sorted_input_is_deduplicated_in_the_order_of_its_rows() {
    let sorted = "mode = \"upsert\"\nkey = [\"id\"]\nsort = [\"received\"]";
    let lake = lake_with(
        &job("granularity = \"files\"", sorted),
        "id,received,value\n1,2026-08-13,newest\n2,2026-08-10,only\n1,2026-08-11,oldest\n1,2026-08-12,middle\n",
    );
    lake.ingest(&["job.toml"]).refuses(Exit::Input, &["id = 1: select, row 2; and select, row 3"]);
    for (keep, value) in [("last", "newest"), ("first", "oldest")] {
        let dedupe = format!("quality.dedupe={{ key = [\"id\"], keep = \"{keep}\" }}");
        let report = lake.ingest(&["job.toml", "--force", "--set", &dedupe]).committed();
        assert_eq!((number(&report, "rows"), number(&report, "deduplicated")), (2, 2));
        assert_eq!(rows(&lake, &["id", "value"]), [format!("1|{value}"), "2|only".to_owned()]);
    }
}

#[test]
fn append_once_adds_a_batch_once_and_refuses_to_be_forced() {
    let lake = lake_with(&job("granularity = \"files\"", "mode = \"append-once\""), "id\n1\n2\n");
    lake.ingest(&["job.toml"]).committed();
    let before = lake.state();
    lake.ingest(&["job.toml"]).skipped();
    lake.ingest(&["job.toml", "--force"]).refuses(Exit::Usage, &["append-once", "--force"]);
    let skipped = lake.hexfloe(&["ingest", "job.toml"]).ends(Exit::Done);
    assert!(skipped.stderr.contains("skipped") && !skipped.stderr.contains("--force"), "{skipped:?}");
    assert_eq!(lake.state(), before);
    let table = lake.ask("table", json!({ "table": TABLE }));
    assert_eq!(table["snapshots"][0]["operation"], "append");
    assert_eq!(rows(&lake, &["id"]), ["1", "2"]);
}

#[test]
fn a_changed_input_of_append_once_is_refused_without_advice_that_is_refused_too() {
    let batch = "granularity = \"offsets\"\npartition = \"0\"\noffsets = [0, 2]";
    let lake = lake_with(&job(batch, "mode = \"append-once\""), "id\n1\n2\n");
    lake.ingest(&["job.toml"]).committed();
    lake.write("events.csv", "id\n1\n3\n");
    let run = lake.ingest(&["job.toml"]).refuses(Exit::Input, &["another input", "append-once"]);
    assert!(!run.stderr.contains("on_changed_input"), "{run:?}");
    let run = lake.ingest(&["job.toml", "--set", "table.mode=batch"]);
    run.refuses(Exit::Input, &["batch.on_changed_input = \"replace\""]);
}

#[test]
fn a_slice_is_not_emptied_by_rows_that_are_all_set_aside() {
    let slice = "mode = \"slice\"\nslice = { zone = 7 }";
    let batch = job("granularity = \"slice\"", slice) + "[quality]\non_reject = \"quarantine\"\n";
    let lake = lake_with(&batch, "id,zone\n1,7\n2,7\n");
    lake.ingest(&["job.toml"]).committed();
    let before = lake.state();
    lake.write("events.csv", "id,zone\n1,8\n2,8\n");
    for more in [&[][..], &["--dry-run"]] {
        let run = lake.ingest(&[&["job.toml"][..], more].concat());
        run.refuses(Exit::Input, &["none of the 2 rows can be used", "would be emptied"]);
    }
    assert_eq!(lake.state(), before);
    assert!(lake.path("rejects/ns.events").read_dir().unwrap().next().is_some(), "why they cannot be used is kept");

    lake.write("events.csv", "id,zone\n1,8\n3,7\n");
    let report = lake.ingest(&["job.toml"]).committed();
    assert_eq!((number(&report, "rows"), number(&report, "rejected")), (1, 1));
    lake.write("events.csv", "id,zone\n");
    assert_eq!(number(&lake.ingest(&["job.toml"]).committed(), "replaced_rows"), 1);
    assert_eq!(rows(&lake, &["id"]), [""; 0]);
}

#[rstest]
#[case::offsets("granularity = \"offsets\"\npartition = \"0\"\noffsets = [0, 2]", "")]
#[case::a_slice("granularity = \"slice\"\non_changed_input = \"refuse\"", "mode = \"slice\"\nslice = { zone = 7 }")]
fn a_batch_whose_input_changed_is_refused_unless_it_may_replace(#[case] batch: &str, #[case] table: &str) {
    let lake = lake_with(&job(batch, table), "id,zone\n1,7\n2,7\n");
    let batch = lake.ingest(&["job.toml"]).committed()["batch_id"].as_str().unwrap().to_owned();
    lake.write("events.csv", "id,zone\n1,7\n3,7\n");
    let before = lake.state();
    lake.ingest(&["job.toml"]).refuses(Exit::Input, &[&batch]);
    lake.ingest(&["job.toml", "--force"]).refuses(Exit::Input, &[&batch]);
    assert_eq!(lake.state(), before);
    let replace = ["job.toml", "--set", "batch.on_changed_input=\"replace\""];
    let report = lake.ingest(&replace).committed();
    assert_eq!((number(&report, "rows"), number(&report, "replaced_rows")), (2, 2));
    assert_eq!(rows(&lake, &["id"]), ["1", "3"]);
    lake.ingest(&replace).skipped();
}
