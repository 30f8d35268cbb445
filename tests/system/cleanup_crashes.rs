//! What killed processes leave: writers their files, a cleaner half of its work.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hexfloe_tests::{Backend, Exit, Lake, POINTS, data, json, judge, pause};
use rstest::rstest;

use crate::cleanup::{NOW, TABLE, keys, location, noted, of_one_table, orphans_of, place, plant, rows, unreferenced};

const ROWS: u64 = 1_000_000;
const LATER: &[&str] = &["job.toml", "--force", "--set", "source.name=\"later\""];

fn how_long(run: impl FnOnce()) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "how long an ingest takes here says when to kill one")]
    let start = Instant::now();
    run();
    start.elapsed()
}

/// A lake with a job over a million points, by day.
fn of_a_million(backend: Backend) -> Lake {
    let lake = Lake::on(backend);
    let million = data("points_1m.parquet").display().to_string();
    let job = POINTS.replace("\"csv\"", "\"parquet\"").replace("points.csv", &million);
    lake.write("job.toml", job + "partition = [\"day(event_ts)\"]\n");
    lake
}

#[test]
fn a_margin_of_less_than_a_day_is_refused_while_an_attempt_runs_on_this_machine() {
    let lake = of_a_million(Backend::Sqlite);
    lake.ingest(&["job.toml"]).committed();
    let mut running = lake.start_ingest(LATER);
    let refused = loop {
        let run = orphans_of(&lake, TABLE, NOW);
        if run.code == Some(Exit::Refused as i32) {
            break run;
        }
        assert!(!running.has_ended(), "the attempt was never seen");
    };
    let batch = running.end().committed()["batch_id"].as_str().unwrap().to_owned();
    refused.refuses(Exit::Refused, &[TABLE, &batch, "running on this machine", "wait for its end"]);
    // It has ended, and a killed one has as well.
    orphans_of(&lake, TABLE, NOW).ends(Exit::Done);
    while !lake.start_ingest(LATER).kill(Duration::from_millis(150)) {}
    orphans_of(&lake, TABLE, NOW).ends(Exit::Done);
}

#[rstest]
fn what_killed_ingests_left_goes_to_the_last_file_and_their_batch_lands_all_the_same(
    #[values((Backend::Sqlite, 10), (Backend::RestS3, 4))] on: (Backend, u32),
) {
    let (backend, rounds) = on;
    let lake = of_a_million(backend);
    let mut whole = how_long(|| drop(lake.ingest(&["job.toml"]).committed()));
    let margin = [NOW, &["--max-fraction", "1"]].concat();
    let mut left = 0;
    for round in 0..rounds {
        // Another batch of the same rows, of which nothing has landed, or that is replaced. On the local disk every second
        // one is killed when it has begun to write its files.
        let mut at = whole.mul_f64((f64::from(round) + 0.6) / f64::from(rounds));
        if lake.is_remote() || round % 2 == 0 {
            while !lake.start_ingest(LATER).kill(at) {
                at = at.mul_f64(0.8);
            }
        } else {
            while !killed_while_it_writes(&lake, Duration::from_millis(u64::from(round))) {}
        }
        if lake.is_remote() {
            pause(Duration::from_millis(1_100));
        }
        let expected = unreferenced(&lake, TABLE);
        left += expected.len();
        let own = lake.ask("referenced", json!({ "table": TABLE }));
        let dry = of_one_table(orphans_of(&lake, TABLE, &[&margin[..], &["--report", "files.ndjson"]].concat()));
        assert_eq!(noted(&lake, "files.ndjson", "orphan"), expected, "killed after {at:?}: {dry:#}");
        let apply = [&margin[..], &["--apply", "--report", "files.ndjson"]].concat();
        let report = of_one_table(orphans_of(&lake, TABLE, &apply));
        assert_eq!(noted(&lake, "files.ndjson", "removed"), expected, "killed after {at:?}: {report:#}");
        // Nothing is left over, and nothing is missing.
        assert_eq!(unreferenced(&lake, TABLE), BTreeSet::new());
        assert_eq!(lake.ask("referenced", json!({ "table": TABLE })), own);
        lake.nothing_wrong("unsound", json!({ "table": TABLE, "head_only": true }));
        // Their names say whose they were.
        for attempt in report["attempts"].as_array().unwrap() {
            let later = judge("batch_of", json!({ "places": expected, "attempt": attempt["attempt"] }));
            assert_eq!(later, json!([attempt["batch"], attempt["files"]]), "{report:#}");
        }
        whole = whole.max(at);
    }
    assert!(lake.is_remote() || left > 0, "no ingest was killed between its first file and its commit");
    assert_eq!(lake.ingest(LATER).committed()["rows"], ROWS);
    for engine in ["pyiceberg", "duckdb"] {
        let counted = lake.ask("count", json!({ "table": TABLE, "key": "event_id", "engine": engine }));
        assert_eq!(counted, json!({ "rows": 2 * ROWS, "distinct": ROWS }), "{engine}");
    }
    let batches = lake.ask("per_batch", json!({ "table": TABLE }));
    assert!(batches.as_object().unwrap().values().all(|rows| *rows == ROWS), "{batches:#}");
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

/// Kills an ingest so long after its first data file is there; tells whether it was still running.
fn killed_while_it_writes(lake: &Lake, after: Duration) -> bool {
    let folder = format!("{}/data", place(&location(lake, TABLE)));
    let files = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let before = files();
    let mut running = lake.start_ingest(LATER);
    while files() == before && !running.has_ended() {
        pause(Duration::from_millis(1));
    }
    running.kill(after)
}

/// Objects that are more than a store deletes in a few requests.
const OBJECTS: usize = 4_000;

#[test]
fn a_cleaner_that_was_killed_half_way_is_run_again_and_all_is_accounted_for() {
    let lake = Lake::on(Backend::PostgresS3).and_points(&rows(0));
    lake.ingest(&["job.toml"]).committed();
    let name =
        |number: usize| format!("data/k={}/{number:05}-0-0195b0a2-6f1e-7cc3-98c4-dc0c0c07398f.parquet", number % 7);
    let names: Vec<String> = (0..OBJECTS).map(name).collect();
    let planted = plant(&lake, TABLE, &names.iter().map(String::as_str).collect::<Vec<_>>());
    let own = keys(&lake.ask("below", json!({ "location": location(&lake, TABLE) })));
    let own: BTreeSet<String> = own.difference(&planted).cloned().collect();
    pause(Duration::from_millis(1_100));
    let margin = [NOW, &["--max-fraction", "1"]].concat();
    let apply = [&margin[..], &["--apply", "--report", "files.ndjson"]].concat();
    let there = || keys(&lake.ask("below", json!({ "location": location(&lake, TABLE) })));

    // The report tells of a file once it has gone.
    let mut running = lake.start(&[&["cleanup", "orphans", TABLE], &apply[..]].concat());
    while std::fs::metadata(lake.path("files.ndjson")).map_or(0, |file| file.len()) == 0 {
        assert!(!running.has_ended(), "it removed nothing");
        pause(Duration::from_millis(1));
    }
    assert!(running.kill(Duration::ZERO), "it was done before it could be killed");
    let left = there();
    assert!(own.is_subset(&left), "what is referenced is there");
    let rest: BTreeSet<String> = left.difference(&own).cloned().collect();
    assert!(!rest.is_empty() && rest.len() < OBJECTS, "{} are left", rest.len());
    assert!(rest.is_subset(&planted));

    pause(Duration::from_millis(1_100));
    let report = of_one_table(orphans_of(&lake, TABLE, &apply));
    assert_eq!(noted(&lake, "files.ndjson", "removed"), rest);
    assert_eq!(report["orphans"]["files"], rest.len());
    assert_eq!(report["removed"], json!({ "files": rest.len(), "bytes": rest.len() * "left behind".len() }));
    assert_eq!(report["listed"]["files"], own.len() + rest.len());
    assert_eq!(report["referenced"]["files"], own.len());
    assert_eq!(there(), own);
    let report = of_one_table(orphans_of(&lake, TABLE, &apply));
    assert_eq!((&report["orphans"]["files"], &report["listed"]["files"]), (&json!(0), &json!(own.len())));
    lake.ingest(&["job.toml"]).ends(Exit::Done).skipped();
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}
