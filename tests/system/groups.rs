//! Several batches in one call and in one commit.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use hexfloe_tests::{Exit, Lake, POINTS, Run, Value, json};
use rstest::rstest;

const TABLE: &str = "ns.points";

/// So many points around the world, numbered from `first`.
fn points(first: usize, rows: usize) -> String {
    (first..first + rows).fold("id,lat,lon\n".to_owned(), |csv, id| {
        csv + &format!("{id},{}.5,{}.25\n", id * 7 % 160 % 80, id * 11 % 340 % 170)
    })
}

/// A lake with a job of three rows for each name.
fn lake_with_jobs(names: &[&str]) -> Lake {
    let lake = Lake::new();
    for (number, name) in names.iter().enumerate() {
        lake.write(&format!("{name}.toml"), POINTS.replace("points.csv", &format!("{name}.csv")));
        lake.write(&format!("{name}.csv"), points(1 + 10 * number, 3));
    }
    lake
}

/// A lake with one job over the files of a folder, each of which is a batch of three rows.
fn lake_with_folder(files: usize) -> Lake {
    let lake = Lake::new();
    let job = POINTS.replace("points.csv", "in/*.csv").replace("granularity = \"files\"", "granularity = \"file\"");
    lake.write("job.toml", job);
    for number in 0..files {
        lake.write(&format!("in/{number}.csv"), points(1 + 10 * number, 3));
    }
    lake
}

/// What was said of each batch, in the order in which it was said.
fn lines(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|line| line.parse().unwrap()).collect()
}

fn of<'a>(lines: &'a [Value], key: &str) -> Vec<&'a Value> {
    lines.iter().map(|line| &line[key]).collect()
}

fn snapshots(lake: &Lake) -> usize {
    lake.ask("table", json!({ "table": TABLE }))["snapshots"].as_array().unwrap().len()
}

/// The ids of the rows, sorted.
fn ids(lake: &Lake) -> Vec<u64> {
    let rows = lake.ask("rows", json!({ "table": TABLE, "columns": ["id"], "order": ["id"] }));
    rows.as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

/// Who skipped or failed has taken its own data files with it, and nothing was written twice.
#[track_caller]
fn nothing_is_left_over(lake: &Lake) {
    let state = lake.state();
    let stored = |end: &str| state.files.keys().filter(|path| path.ends_with(end)).count();
    assert_eq!(stored(".parquet"), lake.files(TABLE).len(), "data files that no snapshot refers to");
    let lists = state.files.keys().filter(|path| path.contains("/snap-")).count();
    assert_eq!(lists, snapshots(lake), "manifest lists that no snapshot has");
}

/// Eight processes with fifty batches each, of which up to `group` go into one commit.
#[rstest]
#[case::each_by_itself(1, 400)]
#[case::in_groups_of_ten(10, 40)]
fn four_hundred_batches_of_eight_processes_are_all_in_the_table_once(#[case] group: usize, #[case] commits: usize) {
    const ROWS: usize = 5;
    let lake = Lake::new();
    for writer in 0..8 {
        let job = POINTS.replace("points.csv", &format!("in-{writer}/*.csv"));
        let job = job.replace("granularity = \"files\"", "granularity = \"file\"");
        lake.write(&format!("writer-{writer}.toml"), job + "\n[limits]\nthreads = 1\n");
        for batch in 0..50 {
            let first = (writer * 50 + batch) * ROWS;
            lake.write(&format!("in-{writer}/{batch:02}.csv"), points(first, ROWS));
        }
    }
    let group = group.to_string();
    let reports: Vec<Value> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let (lake, group) = (&lake, &group);
                scope.spawn(move || {
                    let run = lake.ingest(&[&format!("writer-{writer}.toml"), "--group", group]).ends(Exit::Done);
                    lines(&run)
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });

    assert_eq!(reports.len(), 400);
    assert!(reports.iter().all(|report| report["status"] == "committed"), "{reports:#?}");
    let acknowledged: BTreeSet<&str> = reports.iter().map(|report| report["batch_id"].as_str().unwrap()).collect();
    assert_eq!(acknowledged.len(), 400);

    // In evidence: the ledger, the summaries, and the rows.
    let ledger = lake.ledger(TABLE);
    assert_eq!(ledger.len(), 400);
    assert_eq!(ledger.iter().map(String::as_str).collect::<BTreeSet<_>>(), acknowledged);
    let told = lake.hexfloe(&["batches", TABLE, "--json"]).ends(Exit::Done).report();
    let told = told["batches"].as_array().unwrap();
    assert_eq!(told.len(), 400);
    let by_report: BTreeMap<&str, &Value> =
        reports.iter().map(|report| (report["batch_id"].as_str().unwrap(), &report["snapshot_id"])).collect();
    for batch in told {
        assert_eq!(batch["rows"], ROWS, "{batch:#}");
        assert_eq!(&batch["snapshot_id"], by_report[batch["batch_id"].as_str().unwrap()], "{batch:#}");
    }
    let rows = (400 * ROWS) as u64;
    assert_eq!(lake.ask("count", json!({ "table": TABLE, "key": "id" })), json!({ "rows": rows, "distinct": rows }));
    let per_batch = lake.ask("per_batch", json!({ "table": TABLE }));
    assert_eq!(per_batch.as_object().unwrap().len(), 400);
    assert!(per_batch.as_object().unwrap().values().all(|rows| *rows == ROWS), "{per_batch:#}");

    assert_eq!(snapshots(&lake), commits);
    nothing_is_left_over(&lake);

    // Rivals were met, and the reports say what that took.
    let sum = |key: &str| reports.iter().map(|report| report[key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("attempts") > 400, "nobody met a rival: {}", sum("attempts"));
    assert!(sum("waited_ms") > 0);
    for report in &reports {
        assert!(report["attempts"] != 1 || report["waited_ms"] == 0, "{report:#}");
        assert!(report["waited_ms"].as_u64() <= report["elapsed_ms"].as_u64(), "{report:#}");
    }
}

/// Four processes are given the same batches, each in another order, so that batches of a group are committed by others while
/// it is made.
#[test]
fn a_batch_that_a_rival_commits_is_left_out_of_its_group() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let lake = lake_with_jobs(&names);
    let jobs: Vec<String> = names.iter().map(|name| format!("{name}.toml")).collect();
    let started: Vec<_> = (0..4)
        .map(|writer| {
            let turned = jobs[writer * 2..].iter().chain(&jobs[..writer * 2]).map(String::as_str);
            lake.start_ingest(&turned.chain(["--group", "3"]).collect::<Vec<_>>())
        })
        .collect();
    let reports: Vec<Value> = started.into_iter().flat_map(|running| lines(&running.end().ends(Exit::Done))).collect();

    let mut committed: Vec<&str> = reports
        .iter()
        .filter(|report| report["status"] == "committed")
        .map(|report| report["batch_id"].as_str().unwrap())
        .collect();
    committed.sort_unstable();
    assert_eq!(reports.len(), 32);
    assert_eq!(committed.len(), 8, "{reports:#?}");
    committed.dedup();
    assert_eq!(committed.len(), 8, "a batch was committed twice");
    let expected: Vec<u64> = (0..8).flat_map(|number| 1 + 10 * number..4 + 10 * number).collect();
    assert_eq!(ids(&lake), expected);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
    nothing_is_left_over(&lake);
}

#[test]
fn jobs_of_one_table_share_a_snapshot_and_keep_their_batch_ids() {
    let lake = lake_with_jobs(&["a", "b", "c", "d", "e"]);
    let run = lake.ingest(&["a.toml", "b.toml", "c.toml", "d.toml", "e.toml", "--group", "3"]).ends(Exit::Done);
    let lines = lines(&run);
    assert_eq!(of(&lines, "job"), ["a.toml", "b.toml", "c.toml", "d.toml", "e.toml"]);
    assert_eq!(of(&lines, "status"), ["committed"; 5]);
    assert_eq!(of(&lines, "version"), [1; 5]);
    assert_eq!(of(&lines, "rows"), [3; 5]);
    let snapshot = of(&lines, "snapshot_id");
    assert!(snapshot[0] == snapshot[1] && snapshot[1] == snapshot[2] && snapshot[3] == snapshot[4], "{lines:#?}");
    assert_eq!(snapshots(&lake), 2);
    let batches: Vec<Value> = of(&lines, "batch_id").into_iter().cloned().collect();
    assert_eq!(json!(lake.ledger(TABLE)), json!(batches));
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));

    // One by one they are the same batches.
    for name in ["a", "b", "c", "d", "e"] {
        lake.ingest(&[&format!("{name}.toml")]).skipped();
    }
}

#[test]
fn without_a_group_each_job_has_a_snapshot_of_its_own() {
    let lake = lake_with_jobs(&["a", "b"]);
    lake.ingest(&["a.toml", "b.toml"]).ends(Exit::Done);
    assert_eq!(snapshots(&lake), 2);
}

#[test]
fn a_batch_that_is_in_the_table_already_is_skipped_and_the_rest_of_its_group_committed() {
    let lake = lake_with_jobs(&["a", "b", "c"]);
    let before = lake.ingest(&["b.toml"]).committed();
    let run = lake.ingest(&["a.toml", "b.toml", "c.toml", "--group", "10"]).ends(Exit::Done);
    let lines = lines(&run);
    // What needs no commit is told first.
    assert_eq!(of(&lines, "job"), ["b.toml", "a.toml", "c.toml"]);
    assert_eq!(of(&lines, "status"), ["skipped", "committed", "committed"]);
    assert_eq!(lines[0]["snapshot_id"], before["snapshot_id"]);
    assert_eq!(lines[1]["snapshot_id"], lines[2]["snapshot_id"]);
    assert_eq!((snapshots(&lake), ids(&lake).len()), (2, 9));
    nothing_is_left_over(&lake);
}

#[test]
fn a_job_that_is_named_twice_is_landed_once() {
    let lake = lake_with_jobs(&["a", "b"]);
    let run = lake.ingest(&["a.toml", "b.toml", "a.toml", "--group", "10"]).ends(Exit::Done);
    assert_eq!(of(&lines(&run), "status"), ["committed", "committed", "skipped"]);
    assert_eq!((snapshots(&lake), ids(&lake).len()), (1, 6));
    nothing_is_left_over(&lake);
}

/// Two jobs over the same file are two jobs and one batch.
#[test]
fn two_jobs_with_the_same_batch_land_it_once() {
    let lake = lake_with_jobs(&["a", "b"]);
    lake.write("again.toml", POINTS.replace("points.csv", "a.csv"));
    let run = lake.ingest(&["a.toml", "again.toml", "b.toml", "--group", "10"]).ends(Exit::Done);
    assert_eq!(of(&lines(&run), "status"), ["committed", "skipped", "committed"]);
    assert_eq!(ids(&lake).len(), 6);
    nothing_is_left_over(&lake);
}

/// Wherever it is in the group, and also where it is the one that makes the table.
#[rstest]
#[case(&["bad", "a", "b"])]
#[case(&["a", "bad", "b"])]
#[case(&["a", "b", "bad"])]
fn a_job_that_fails_does_not_take_the_others_of_its_group_with_it(#[case] order: &[&str]) {
    let lake = lake_with_jobs(&["a", "bad", "b"]);
    lake.write("bad.csv", "id,lat,lon\n7,100.0,16.4\n");
    let jobs: Vec<String> = order.iter().map(|name| format!("{name}.toml")).collect();
    let arguments: Vec<&str> = jobs.iter().map(String::as_str).chain(["--group", "10"]).collect();
    let run = lake.ingest(&arguments).refuses(Exit::Input, &["error: bad.toml: ", "1 row cannot be used"]);
    let lines = lines(&run);
    assert_eq!(of(&lines, "job"), ["bad.toml", "a.toml", "b.toml"]);
    assert_eq!(of(&lines, "status"), ["failed", "committed", "committed"]);
    assert_eq!(lines[0]["exit_code"], 3);
    assert!(lines[0]["error"].as_str().unwrap().contains("bad.csv, row 1"), "{:#}", lines[0]);
    assert_eq!((snapshots(&lake), ids(&lake)), (1, vec![1, 2, 3, 21, 22, 23]));
    nothing_is_left_over(&lake);

    lake.write("bad.csv", points(11, 3));
    let run = lake.ingest(&arguments).ends(Exit::Done);
    assert_eq!(of(&self::lines(&run), "status").iter().filter(|status| **status == "committed").count(), 1);
    assert_eq!(ids(&lake), [1, 2, 3, 11, 12, 13, 21, 22, 23]);
}

#[test]
fn the_exit_code_is_that_of_the_first_failure() {
    let lake = lake_with_jobs(&["a", "bad", "other"]);
    lake.write("bad.csv", "id,lat,lon\n7,100.0,16.4\n");
    lake.write("other.toml", POINTS.replace("points.csv", "other.csv").replace("resolution = 9", "resolution = 7"));
    let run = lake.ingest(&["a.toml", "other.toml", "bad.toml"]).ends(Exit::Derivation);
    assert_eq!(of(&lines(&run), "status"), ["committed", "failed", "failed"]);
    assert_eq!(of(&lines(&run), "exit_code"), [&Value::Null, &json!(4), &json!(3)]);
    lake.ingest(&["a.toml", "bad.toml", "other.toml"]).ends(Exit::Input);
    // People are told of each, and how many there were.
    let run = lake.hexfloe(&["ingest", "a.toml", "other.toml", "bad.toml"]).ends(Exit::Derivation);
    assert_eq!(run.stdout, "");
    for said in ["a.toml: skipped: ", "error: other.toml: ", "error: bad.toml: ", "2 failed, 1 skipped"] {
        assert!(run.stderr.contains(said), "does not say {said:?}: {}", run.stderr);
    }
}

#[test]
fn a_job_file_that_cannot_be_read_is_found_before_anything_is_done() {
    let lake = lake_with_jobs(&["a"]);
    lake.write("broken.toml", "[source]\n");
    for missing in ["broken.toml", "missing.toml"] {
        lake.ingest(&["a.toml", missing]).refuses(Exit::Usage, &["error: ", missing]);
        assert!(!lake.path("lake").exists());
    }
}

#[test]
fn a_series_in_which_no_job_can_work_makes_no_lake() {
    let lake = lake_with_jobs(&["a", "b"]);
    for name in ["a", "b"] {
        std::fs::remove_file(lake.path(format!("{name}.csv"))).unwrap();
    }
    lake.ingest(&["a.toml", "b.toml", "--group", "2"]).ends(Exit::Input);
    assert!(!lake.path("lake").exists());
}

#[test]
fn a_group_of_refused_batches_leaves_no_table() {
    let lake = lake_with_jobs(&["a", "b"]);
    for name in ["a", "b"] {
        lake.write(&format!("{name}.csv"), "id,lat,lon\n1,10,10\n7,100.0,16.4\n");
    }
    lake.ingest(&["a.toml", "b.toml", "--group", "2"]).ends(Exit::Input);
    assert!(lake.state().is_empty(), "{:#?}", lake.state());
}

#[test]
fn a_job_of_another_table_ends_the_group() {
    let lake = lake_with_jobs(&["a", "b", "c"]);
    lake.write("b.toml", POINTS.replace("points.csv", "b.csv").replace(TABLE, "ns.others"));
    let run = lake.ingest(&["a.toml", "b.toml", "c.toml", "--group", "10"]).ends(Exit::Done);
    assert_eq!(of(&lines(&run), "job"), ["a.toml", "b.toml", "c.toml"]);
    assert_eq!(snapshots(&lake), 2);
    assert_eq!(ids(&lake), [1, 2, 3, 21, 22, 23]);
    assert_eq!(lake.ask("count", json!({ "table": "ns.others" }))["rows"], 3);
}

#[test]
fn a_dry_run_of_several_jobs_looks_at_all_of_them_and_makes_nothing() {
    let lake = lake_with_jobs(&["a", "bad"]);
    lake.write("bad.csv", "id,lat,lon\n7,100.0,16.4\n");
    let run = lake.ingest(&["a.toml", "bad.toml", "--group", "2", "--dry-run"]).ends(Exit::Input);
    assert_eq!(of(&lines(&run), "status"), ["unchanged", "failed"]);
    assert!(!lake.path("lake").exists());
}

#[test]
fn each_file_of_a_folder_is_a_batch_with_the_id_it_has_by_itself() {
    let lake = lake_with_folder(5);
    let run = lake.ingest(&["job.toml", "--group", "2"]).ends(Exit::Done);
    let lines = lines(&run);
    assert_eq!(of(&lines, "file"), ["in/0.csv", "in/1.csv", "in/2.csv", "in/3.csv", "in/4.csv"]);
    assert_eq!(of(&lines, "status"), ["committed"; 5]);
    assert_eq!(snapshots(&lake), 3);
    let id = lake.hexfloe(&["batch-id", "--source", "feed", "--files", "in/3.csv"]).ends(Exit::Done).stdout;
    assert_eq!(lines[3]["batch_id"], id.trim());
    // The same file in a job of its own.
    lake.write("one.toml", POINTS.replace("points.csv", "in/3.csv"));
    lake.ingest(&["one.toml"]).skipped();
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn a_folder_resumes_where_it_stopped() {
    let lake = lake_with_folder(4);
    lake.write("in/2.csv", "id,lat,lon\n7,100.0,16.4\n");
    let run = lake.ingest(&["job.toml", "--group", "20"]).refuses(Exit::Input, &["error: in/2.csv: "]);
    let lines = lines(&run);
    assert_eq!(of(&lines, "file"), ["in/2.csv", "in/0.csv", "in/1.csv", "in/3.csv"]);
    assert_eq!((lines[0]["status"].as_str(), snapshots(&lake)), (Some("failed"), 1));

    lake.write("in/2.csv", points(21, 3));
    lake.write("in/4.csv", points(41, 3));
    let run = lake.ingest(&["job.toml", "--group", "20"]).ends(Exit::Done);
    let lines = self::lines(&run);
    let committed: Vec<_> =
        lines.iter().filter(|line| line["status"] == "committed").map(|line| &line["file"]).collect();
    assert_eq!(committed, ["in/2.csv", "in/4.csv"]);
    assert_eq!((snapshots(&lake), ids(&lake).len()), (2, 15));
    nothing_is_left_over(&lake);
}

/// Later files may hold newer rows of the same keys, so that an earlier one must not be landed after them.
#[test]
fn a_folder_of_upserts_stops_at_the_file_that_fails() {
    let lake = lake_with_folder(4);
    lake.write("in/1.csv", "id,lat,lon\n7,100.0,16.4\n");
    let upsert = ["job.toml", "--group", "20", "--set", "table.mode=upsert", "--set", "table.key=[\"id\"]"];
    let run = lake.ingest(&upsert).ends(Exit::Input);
    assert_eq!(of(&lines(&run), "file"), ["in/0.csv", "in/1.csv", "in/2.csv", "in/3.csv"]);
    assert_eq!(of(&lines(&run), "status"), ["committed", "failed", "not_run", "not_run"]);
    lake.write("in/1.csv", points(11, 3));
    lake.ingest(&upsert).ends(Exit::Done);
    assert_eq!((snapshots(&lake), ids(&lake).len()), (4, 12));
}

#[test]
fn files_that_would_each_replace_the_same_slice_are_refused() {
    let lake = lake_with_folder(2);
    let slice = ["job.toml", "--set", "table.mode=slice", "--set", "table.slice={ day = 2026-08-11 }"];
    lake.ingest(&slice).refuses(Exit::Usage, &["batch.granularity = \"file\"", "slice"]);
    assert!(!lake.path("lake").exists());
}

/// Killed at ten moments of its way, one after the other in the same lake: each time readers see whole groups, and in the end every
/// batch once.
#[test]
fn a_folder_in_groups_that_is_killed_again_and_again_is_exact_in_the_end() {
    const FILES: usize = 40;
    let lake = lake_with_folder(FILES);
    // The catalog is there; the table is not.
    lake.ingest(&["job.toml", "--group", "40", "--set", "table.name=ns.others"]).ends(Exit::Done);
    let arguments = ["job.toml", "--group", "4"];
    for round in 1..=10 {
        // Whether it was still running does not matter: the next one goes on from wherever that was.
        lake.start_ingest(&arguments).kill(Duration::from_millis(40 * round));
        let counted = lake.ask("count", json!({ "table": TABLE, "key": "id" }));
        let rows = counted["rows"].as_u64().unwrap_or(0);
        assert!(counted.is_null() || (counted["distinct"] == rows && rows.is_multiple_of(12)), "{counted}");
    }
    lake.ingest(&arguments).ends(Exit::Done);
    let expected: Vec<u64> = (0..FILES as u64).flat_map(|number| 1 + 10 * number..4 + 10 * number).collect();
    assert_eq!(ids(&lake), expected);
    assert_eq!(snapshots(&lake), FILES / 4);
    assert_eq!(lake.ledger(TABLE).len(), FILES);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}
