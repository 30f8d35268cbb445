//! The first promises once more, with the tables on S3, and the catalog a REST server or PostgreSQL.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use hexfloe_tests::{
    Backend, CatalogFile, Exit, Fault, Lake, POINTS, Proxy, Rule, Run, SeaweedFs, Side, Value, data, example, json,
    judge, pause,
};
use rstest::rstest;

const CITIES: &str = "places.cities";
const PLACES: u64 = 144_563;
pub(crate) const TABLE: &str = "ns.points";
const ROWS: usize = 100;

/// A hundred points around the world, numbered from `first`.
pub(crate) fn points(first: usize) -> String {
    (first..first + ROWS).fold("id,lat,lon\n".to_owned(), |csv, id| {
        csv + &format!("{id},{}.5,{}.25\n", id * 7 % 160 % 80, id * 11 % 340 % 170)
    })
}

/// A lake with files of a hundred points each: `batch-0.csv`, ….
pub(crate) fn with_batches(lake: Lake, batches: usize) -> Lake {
    let lake = lake.and_points(&points(0));
    for batch in 0..batches {
        lake.write(&format!("batch-{batch}.csv"), points(1_000 + batch * ROWS));
    }
    lake
}

fn ingest(lake: &Lake, batch: usize, more: &[&str]) -> Run {
    lake.ingest(&[&["job.toml", "--set", &format!("source.paths=[\"batch-{batch}.csv\"]")], more].concat())
}

/// So many batches of a hundred points are in the table, each with one snapshot, and nothing else is.
#[track_caller]
pub(crate) fn holds_batches(lake: &Lake, batches: usize) {
    let rows = json!((batches * ROWS) as u64);
    for engine in ["pyiceberg", "duckdb"] {
        let counted = lake.ask("count", json!({ "table": TABLE, "key": "id", "engine": engine }));
        assert_eq!(counted, json!({ "rows": rows, "distinct": rows }), "{engine}");
    }
    let ledger: BTreeSet<_> = lake.ledger(TABLE).into_iter().collect();
    assert_eq!(ledger.len(), batches, "batches in the ledger");
    let table = lake.ask("table", json!({ "table": TABLE }));
    let snapshots = table["snapshots"].as_array().unwrap();
    let named: BTreeSet<_> = snapshots.iter().map(|s| s["summary"]["ingest.batch-id"].as_str().unwrap()).collect();
    assert_eq!((snapshots.len(), named.len()), (batches, batches), "one snapshot a batch");
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

fn how_long(run: impl FnOnce()) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "how long an ingest takes here says when to disturb one")]
    let start = Instant::now();
    run();
    start.elapsed()
}

// ---------------------------------------------------------------- real input

#[rstest]
fn real_places_land_once_and_a_second_run_leaves_every_object_as_it_was(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
) {
    let (lake, job) = (Lake::on(backend), example("cities/job.toml"));
    assert_eq!(lake.ingest(&[&job]).committed()["rows"], PLACES);
    let before = lake.state();
    let report = lake.ingest(&[&job]).skipped();
    assert_eq!(report["snapshot_id"], lake.ask("table", json!({ "table": CITIES }))["current_snapshot_id"]);
    assert_eq!(lake.state(), before);

    // Two other engines read what the file holds.
    let read = lake.columns(CITIES);
    let held = judge("csv_columns", json!({ "path": example("cities/cities.csv"), "numbers": ["lat", "lon"] }));
    assert_eq!(read["rows"], PLACES);
    for column in ["lat", "lon", "name", "admin1", "admin2", "cc"] {
        assert_eq!(read["columns"][column], held["columns"][column], "{column}");
    }
    let cells = json!({
        "table": CITIES, "lat": "lat", "lon": "lon", "cell": "h3_cell", "resolution": 9, "parents": { "h3_cell_r0": 0 },
    });
    lake.nothing_wrong("wrong_cells", cells);
    lake.nothing_wrong("wrong_partitions", json!({ "table": CITIES }));
    lake.nothing_wrong("wrong_bounds", json!({ "table": CITIES }));

    // One more snapshot of the same bytes, whatever the threads.
    let digests = lake.digests(CITIES);
    for (runs, threads) in [(2, "limits.threads=1"), (3, "limits.threads=2")] {
        let report = lake.ingest(&[&job, "--force", "--set", threads]).committed();
        assert_eq!(report["replaced_rows"], PLACES);
        let table = lake.ask("table", json!({ "table": CITIES }));
        let snapshots = table["snapshots"].as_array().unwrap();
        assert_eq!(snapshots.len(), runs, "one snapshot a run");
        assert_eq!(snapshots[runs - 1]["operation"], "overwrite");
        assert_eq!(lake.digests(CITIES), digests, "{threads}");
    }
    assert_eq!(lake.columns(CITIES), read);
    lake.nothing_wrong("unsound", json!({ "table": CITIES }));
    assert_eq!(lake.ask("open_uploads", json!({})), json!([]));
}

#[rstest]
fn the_ledger_keeps_the_five_hundred_newest_of_six_hundred_batches(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
) {
    let lake = Lake::on(backend);
    lake.write("job.toml", POINTS.replace("\"files\"", "\"file\"").replace("points.csv", "batch-*.csv"));
    for batch in 0..600 {
        lake.write(&format!("batch-{batch:03}.csv"), format!("id,lat,lon\n{batch},48.2,16.4\n"));
    }
    // In groups: how a ledger is kept does not depend on how many batches a snapshot has.
    let run = lake.ingest(&["job.toml", "--group", "20"]).ends(Exit::Done);
    let batches: Vec<_> = run.stdout.lines().map(|line| told(line)["batch_id"].clone()).collect();
    assert_eq!(batches.len(), 600);
    assert_eq!(json!(lake.ledger(TABLE)), json!(batches[100..]), "the newest five hundred, oldest first");
    let bytes = lake.ask("ledger", json!({ "table": TABLE }))["bytes"].as_u64().unwrap();
    assert!(bytes <= 32 * 1024, "the ledger takes {bytes} bytes");

    // One that is not in it is no duplicate.
    let first = ["job.toml", "--set", "source.paths=[\"batch-000.csv\"]", "--force"];
    assert_eq!(lake.ingest(&first).committed()["replaced_rows"], 1);
    let rows = lake.ask("count", json!({ "table": TABLE, "key": "id" }));
    assert_eq!(rows, json!({ "rows": 600, "distinct": 600 }));
    lake.nothing_wrong("unsound", json!({ "table": TABLE, "head_only": true }));
}

/// One of the lines that tell what became of several batches.
fn told(line: &str) -> Value {
    line.parse().unwrap()
}

// ---------------------------------------------------------------- at the same moment

#[rstest]
fn eight_processes_with_ten_batches_each_lose_and_double_nothing(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
) {
    let lake = with_batches(Lake::on(backend), 80);
    let committed: BTreeSet<String> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let lake = &lake;
                scope.spawn(move || -> Vec<String> {
                    let reports = (0..10).map(|batch| ingest(lake, writer * 10 + batch, &[]).committed());
                    reports.map(|report| report["batch_id"].as_str().unwrap().to_owned()).collect()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(committed.len(), 80);
    assert_eq!(committed, lake.ledger(TABLE).into_iter().collect());
    holds_batches(&lake, 80);
}

#[rstest]
fn of_processes_with_the_same_batch_one_commits_and_the_others_skip(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
    #[values(2, 8)] processes: usize,
    #[values(false, true)] table_exists: bool,
) {
    let lake = with_batches(Lake::on(backend), 1);
    if table_exists {
        lake.ingest(&["job.toml"]).committed();
    }
    let started: Vec<_> =
        (0..processes).map(|_| lake.start_ingest(&["job.toml", "--set", "source.paths=[\"batch-0.csv\"]"])).collect();
    let reports: Vec<_> = started.into_iter().map(|running| running.end().ends(Exit::Done).report()).collect();
    let with = |status: &str| reports.iter().filter(|report| report["status"] == status).count();
    assert_eq!((with("committed"), with("skipped")), (1, processes - 1), "{reports:#?}");
    holds_batches(&lake, 1 + usize::from(table_exists));

    // Who skipped has taken its own data files with it.
    let live = lake.files(TABLE);
    let state = lake.state();
    let stored: Vec<_> = state.files.keys().filter(|path| path.ends_with(".parquet")).collect();
    assert_eq!(
        stored.len(),
        live.len(),
        "data files that no snapshot references: {stored:#?}\n{live:#?}\n{reports:#?}"
    );
}

// ---------------------------------------------------------------- crashes

/// Moments of `kill -9`, half of them in the first ingest of a table and half in a replacement.
const ROUNDS: u32 = 50;

#[rstest]
fn an_ingest_killed_anywhere_and_run_again_leaves_no_gap_and_no_duplicate(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
) {
    let exact = |lake: &Lake| {
        let counted = lake.ask("count", json!({ "table": TABLE, "key": "event_id" }));
        assert_eq!(counted, json!({ "rows": 1_000_000, "distinct": 1_000_000 }));
        lake.nothing_wrong("unsound", json!({ "table": TABLE, "head_only": true }));
    };
    let million = data("points_1m.parquet").display().to_string();
    let job = POINTS.replace("\"csv\"", "\"parquet\"").replace("points.csv", &million);
    // A table for each round, in one catalog.
    let first = Lake::on(backend);
    first.write("job.toml", job.clone() + "partition = [\"day(event_ts)\"]\n");
    let mut whole = how_long(|| drop(first.ingest(&["job.toml"]).committed()));
    exact(&first);

    // One in each of as many equal parts as there are rounds, so that no phase is left out.
    let moment = |round: u32, whole: Duration| whole.mul_f64((f64::from(round) + 0.5) / f64::from(ROUNDS / 2));
    let mut hit = 0;

    // The first ingest of a table: what a crash leaves is either nothing or everything.
    for round in 0..ROUNDS / 2 {
        let lake = Lake::in_catalog(first.catalog().clone());
        let table = format!("ns.round_{round}");
        lake.write("job.toml", job.replace(TABLE, &table) + "partition = [\"day(event_ts)\"]\n");
        let at = moment(round, whole);
        hit += u32::from(lake.start_ingest(&["job.toml"]).kill(at));
        let between = lake.ask("count", json!({ "table": table, "key": "event_id" }));
        let all = json!({ "rows": 1_000_000, "distinct": 1_000_000 });
        let nothing = between.is_null() || between == json!({ "rows": 0, "distinct": 0 });
        assert!(nothing || between == all, "killed after {at:?}, and the table holds {between}");
        lake.nothing_wrong("unsound", json!({ "table": table }));
        whole = how_long(|| drop(lake.ingest(&["job.toml"]).ends(Exit::Done))).max(whole.mul_f64(0.9));
        assert_eq!(lake.ask("count", json!({ "table": table, "key": "event_id" })), all);
        let snapshots = lake.ask("table", json!({ "table": table }))["snapshots"].as_array().unwrap().len();
        assert_eq!(snapshots, 1, "killed after {at:?}");
    }

    // A replacement of a batch that is there: readers never see it missing.
    for round in 0..ROUNDS / 2 {
        hit += u32::from(first.start_ingest(&["job.toml", "--force"]).kill(moment(round, whole)));
        exact(&first);
    }
    assert!(hit > ROUNDS / 2, "only {hit} of {ROUNDS} kills met a running ingest");
    first.ingest(&["job.toml", "--force"]).committed();
    exact(&first);
}

#[test]
fn a_catalog_and_store_killed_and_started_again_lose_none_of_fifty_batches() {
    let server = SeaweedFs::start();
    let lake = Lake::on_rest(&server);
    fifty_batches_while(&lake, || {
        server.kill();
        server.start_again();
    });
}

/// Fifty batches in one command, with an `outage` twice in the middle of it; then the command once more.
pub(crate) fn fifty_batches_while(lake: &Lake, outage: impl Fn()) {
    lake.write("job.toml", POINTS.replace("\"files\"", "\"file\"").replace("points.csv", "batch-*.csv"));
    for batch in 0..50 {
        lake.write(&format!("batch-{batch:02}.csv"), points(batch * ROWS));
    }
    let mut running = lake.start_ingest(&["job.toml"]);
    pause(Duration::from_millis(600));
    assert!(!running.has_ended(), "fifty batches were there before anything could go wrong");
    outage();
    pause(Duration::from_millis(300));
    outage();
    let run = running.end();
    // What cannot be known or reached ends the command; nothing else does.
    assert!(matches!(run.code, Some(0 | 6 | 7)), "{run:?}");
    lake.ingest(&["job.toml"]).ends(Exit::Done);
    let again = lake.ingest(&["job.toml"]).ends(Exit::Done);
    let skipped = again.stdout.lines().filter(|line| told(line)["status"] == "skipped").count();
    assert_eq!(skipped, 50, "{again:?}");
    holds_batches(lake, 50);
}

// ---------------------------------------------------------------- bad input

#[rstest]
#[case::a_broken_row("id,lat,lon\n1,48.2,16.4\n2,48.2\n", &[], Exit::Input, &["points.csv", "2"])]
#[case::a_latitude_of_91("id,lat,lon\n1,48.2,16.4\n2,91,16.4\n", &[], Exit::Input, &["points.csv", "2", "91"])]
#[case::an_empty_file("", &[], Exit::Input, &["points.csv"])]
#[case::a_wrong_column("id,lat,lon\n4,1,2\n", &["geometry.lat=\"latt\""], Exit::Usage, &["latt", "lat"])]
#[case::an_unknown_key("id,lat,lon\n4,1,2\n", &["table.nmae=\"ns.other\""], Exit::Usage, &["nmae", "name"])]
#[case::a_missing_file("id,lat,lon\n4,1,2\n", &["source.paths=[\"nowhere.csv\"]"], Exit::Input, &["nowhere.csv"])]
#[case::a_directory("id,lat,lon\n4,1,2\n", &["source.paths=[\".\"]"], Exit::Input, &["folder"])]
#[case::not_parquet("id,lat,lon\n4,1,2\n", &["source.format=\"parquet\""], Exit::Input, &["points.csv"])]
#[case::other_cells("id,lat,lon\n4,1,2\n", &["h3.resolution=8"], Exit::Derivation, &["resolution", "9", "8"])]
fn bad_input_is_named_and_changes_nothing(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
    #[case] csv: &str,
    #[case] set: &[&str],
    #[case] exit: Exit,
    #[case] says: &[&str],
) {
    let lake = Lake::on(backend).and_points(&points(0));
    let arguments: Vec<_> = std::iter::once("job.toml").chain(set.iter().flat_map(|set| ["--set", *set])).collect();
    // Without a table as well, where it is not the table that the input does not fit.
    if exit != Exit::Derivation {
        lake.write("points.csv", csv);
        lake.ingest(&arguments).refuses(exit, says);
        let state = lake.state();
        assert!(state.is_empty(), "{state:#?}");
    }
    lake.write("points.csv", points(0));
    lake.ingest(&["job.toml"]).committed();
    lake.write("points.csv", csv);
    let before = lake.state();
    lake.ingest(&arguments).refuses(exit, says);
    assert_eq!(lake.state(), before);
}

#[rstest]
fn truncated_parquet_is_refused(#[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend) {
    let lake = Lake::on(backend);
    lake.write("job.toml", POINTS.replace("\"csv\"", "\"parquet\"").replace("points.csv", "cut.parquet"));
    for length in [0, 4, 10_000] {
        judge("truncate", json!({ "path": data("few.parquet"), "to": lake.path("cut.parquet"), "length": length }));
        lake.ingest(&["job.toml"]).refuses(Exit::Input, &["cut.parquet"]);
        assert!(lake.state().is_empty(), "cut after {length} bytes");
    }
}

// ---------------------------------------------------------------- other engines

#[rstest]
fn pyiceberg_commits_in_between_and_what_both_wrote_survives(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
) {
    let lake = with_batches(Lake::on(backend), 3);
    let of_others = |id: u64| json!([{ "id": id, "lat": 1.5, "lon": 2.5, "h3_cell": 617_700_169_958_293_503_u64, "ingest_batch_id": "elsewhere" }]);
    let first = ingest(&lake, 0, &[]).committed();
    lake.ask("do_append", json!({ "table": TABLE, "rows": of_others(1) }));
    ingest(&lake, 1, &[]).committed();
    // A replay between what others do replaces the rows of its batch, and theirs stay.
    assert_eq!(ingest(&lake, 0, &["--force"]).committed()["replaced_rows"], 100);
    lake.ask("do_append", json!({ "table": TABLE, "rows": of_others(2) }));
    lake.ask("do_set", json!({ "table": TABLE, "name": "owner", "value": "the roads department" }));
    ingest(&lake, 2, &[]).committed();
    lake.ask("do_delete", json!({ "table": TABLE, "where": "id = 1000" }));
    ingest(&lake, 0, &[]).skipped();
    assert_eq!(ingest(&lake, 0, &["--force"]).committed()["replaced_rows"], 99);

    let rows = lake.ask("per_batch", json!({ "table": TABLE }));
    assert_eq!(rows["elsewhere"], 2, "{rows:#}");
    assert_eq!(rows[first["batch_id"].as_str().unwrap()], 100, "{rows:#}");
    assert_eq!(rows.as_object().unwrap().len(), 4, "{rows:#}");
    assert_eq!(lake.columns(TABLE)["rows"], 302);
    let table = lake.ask("table", json!({ "table": TABLE }));
    assert_eq!(table["properties"]["owner"], "the roads department");
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));

    // All of it in one file, and a batch is still replaced exactly.
    lake.ask("do_compact", json!({ "table": TABLE }));
    assert_eq!(ingest(&lake, 1, &["--force"]).committed()["replaced_rows"], 100);
    assert_eq!(lake.ask("per_batch", json!({ "table": TABLE })), rows);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[rstest]
fn commands_that_look_and_move_work_as_they_do_on_local_files(
    #[values(Backend::RestS3, Backend::PostgresS3)] backend: Backend,
) {
    let lake = with_batches(Lake::on(backend), 2);
    let first = ingest(&lake, 0, &[]).committed();
    let before = lake.state();
    let batches = lake.hexfloe(&["batches", TABLE, "--json"]).ends(Exit::Done).report();
    assert_eq!(batches["batches"][0]["batch_id"], first["batch_id"]);
    let shown = lake.hexfloe(&["table", "show", TABLE, "--json"]).ends(Exit::Done).report();
    assert_eq!(shown["location"], lake.ask("table", json!({ "table": TABLE }))["location"]);
    lake.hexfloe(&["table", "show", "ns.nowhere"]).refuses(Exit::Usage, &["ns.nowhere"]);
    assert_eq!(ingest(&lake, 1, &["--dry-run"]).ends(Exit::Done).report()["status"], "unchanged");
    assert_eq!(lake.state(), before, "who looks changes nothing");

    // Seen on its branch only, then on main, then taken back.
    ingest(&lake, 1, &["--branch", "audit"]).committed();
    assert_eq!(lake.ask("count", json!({ "table": TABLE }))["rows"], 100);
    lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit"]).ends(Exit::Done);
    assert_eq!(lake.ask("count", json!({ "table": TABLE }))["rows"], 200);
    let to = first["snapshot_id"].to_string();
    lake.hexfloe(&["table", "rollback", TABLE, "--to-snapshot", &to]).ends(Exit::Done);
    assert_eq!(lake.ask("count", json!({ "table": TABLE }))["rows"], 100);
    ingest(&lake, 1, &[]).committed();
    assert_eq!(lake.columns(TABLE)["rows"], 200);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

// ---------------------------------------------------------------- the self-test

#[test]
fn check_tells_that_a_catalog_cannot_be_reached() {
    let lake = Lake::on(Backend::RestS3);
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    lake.write_catalog(&behind(&proxy, lake.catalog()));
    proxy.add(Rule::fault(|_| true, Side::Before, Fault::Reset));
    lake.hexfloe(&["check"]).refuses(Exit::Unavailable, &["error:", &proxy.address()]);
}

/// The catalog behind a proxy.
pub(crate) fn behind(proxy: &Proxy, catalog: &CatalogFile) -> CatalogFile {
    let tokens = format!("{}/v1/oauth/tokens", proxy.uri());
    catalog.clone().with("uri", &proxy.uri()).with("oauth2-server-uri", &tokens)
}
