//! Telling others that a batch has landed: after the commit, once, and again under the same key when that may have failed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hexfloe_tests::{
    Backend, Exit, Fault, Lake, POINTS, Proxy, Request, Rule, Run, SeaweedFs, Server, Side, Value, json,
};
use rstest::rstest;

const TABLE: &str = "ns.points";

const NOTIFY: &str = r#"
[notify]
command = ["./tell", "--topic", "landed"]
timeout = "20s"
"#;

/// Appends what it was told to the file `told`, as a line of JSON in one write.
const TELL: &str = r#"
report=$(cat)
printf '{"key":"%s","table":"%s","batch":"%s","snapshot":"%s","arguments":"%s","folder":"%s","report":%s}\n' \
    "$HEXFLOE_IDEMPOTENCY_KEY" "$HEXFLOE_TABLE" "$HEXFLOE_BATCH_ID" "${HEXFLOE_SNAPSHOT_ID-none}" "$*" "$PWD" "$report" >> told
echo "this is not for those who read the report"
"#;

/// A lake whose job tells each landing to `tell`.
fn lake_on(backend: Backend) -> Lake {
    let lake = Lake::on(backend).and_points("id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n");
    lake.write("job.toml", format!("{POINTS}{NOTIFY}"));
    tells(&lake, TELL);
    lake
}

fn lake() -> Lake {
    lake_on(Backend::Sqlite)
}

/// Makes `tell` this script.
fn tells(lake: &Lake, script: &str) {
    let path = lake.write("tell", format!("#!/bin/sh\nset -eu\n{script}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What was told, oldest first.
fn told(lake: &Lake) -> Vec<Value> {
    let told = fs::read_to_string(lake.path("told")).unwrap_or_default();
    told.lines().map(|line| line.parse().unwrap()).collect()
}

fn keys(told: &[Value]) -> BTreeSet<&str> {
    told.iter().map(|message| message["key"].as_str().unwrap()).collect()
}

fn ingest(lake: &Lake, more: &[&str]) -> Run {
    lake.ingest(&[&["job.toml"], more].concat())
}

/// The batches of which the table says that they were told.
fn recorded(lake: &Lake) -> BTreeSet<String> {
    let shown = lake.hexfloe(&["table", "show", TABLE, "--json"]).ends(Exit::Done).report();
    let properties = shown["properties"].as_object().unwrap();
    properties.keys().filter_map(|name| name.strip_prefix("ingest.notified.")).map(str::to_owned).collect()
}

#[rstest]
fn ten_runs_tell_a_batch_once(#[values(Backend::Sqlite, Backend::RestS3)] backend: Backend) {
    let lake = lake_on(backend);
    let report = ingest(&lake, &[]).committed();
    assert_eq!(report["notified"], true);
    for _ in 1..10 {
        assert_eq!(ingest(&lake, &[]).skipped()["notified"], true);
    }
    let told = told(&lake);
    assert_eq!(told.len(), 1, "{told:#?}");
    let message = &told[0];
    assert_eq!((&message["table"], &message["batch"]), (&json!(TABLE), &report["batch_id"]));
    assert_eq!(message["snapshot"], report["snapshot_id"].to_string());
    assert_eq!(message["arguments"], "--topic landed");
    assert_eq!(message["folder"], lake.path("").display().to_string().trim_end_matches('/'));
    assert_eq!(message["key"].as_str().unwrap().len(), 64);
    let mut printed = report.clone();
    printed.as_object_mut().unwrap().remove("notified");
    printed["elapsed_ms"] = message["report"]["elapsed_ms"].clone();
    assert_eq!(message["report"], printed);

    assert_eq!(json!(recorded(&lake)), json!([report["batch_id"]]));
    let table = lake.ask("table", json!({ "table": TABLE }));
    assert_eq!(table["snapshots"].as_array().unwrap().len(), 1, "the record is no snapshot");
    assert_eq!(lake.ledger(TABLE).len(), 1);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

/// The command itself kills the ingest that runs it.
#[rstest]
#[case::before_it_is_sent("kill -9 \"$PPID\"", 0)]
#[case::before_that_is_recorded(&format!("{TELL}\nkill -9 \"$PPID\""), 1)]
fn a_run_that_dies_after_its_commit_leaves_the_telling_to_the_next_run(#[case] script: &str, #[case] sent: usize) {
    let lake = lake();
    let tell = format!("printf %s \"$HEXFLOE_IDEMPOTENCY_KEY\" > tried\n{script}");
    tells(&lake, &tell);
    let killed = ingest(&lake, &[]);
    assert_eq!((killed.code, killed.stdout.as_str()), (None, ""), "{killed:?}");
    assert_eq!(
        lake.ask("count", json!({ "table": TABLE, "key": "id" })),
        json!({ "rows": 2, "distinct": 2 }),
        "the batch has landed"
    );
    assert_eq!((told(&lake).len(), recorded(&lake).len()), (sent, 0));

    tells(&lake, TELL);
    assert_eq!(ingest(&lake, &[]).skipped()["notified"], true);
    assert_eq!(ingest(&lake, &[]).skipped()["notified"], true);
    let told = told(&lake);
    let tried = fs::read_to_string(lake.path("tried")).unwrap();
    assert_eq!((told.len(), keys(&told)), (sent + 1, BTreeSet::from([tried.as_str()])));
    assert_eq!(recorded(&lake).len(), 1);
}

#[rstest]
#[case::it_fails("exit 3", &[], "./tell ended with exit status: 3")]
#[case::it_is_killed("kill -9 $$", &[], "./tell ended with signal: 9")]
#[case::it_takes_too_long("exec sleep 30", &["--set", "notify.timeout=1s"], "./tell took longer than 1s")]
#[case::it_is_not_there("", &["--set", "notify.command=[\"./none\"]"], "./none cannot be started")]
#[case::it_is_not_in_the_path("", &["--set", "notify.command=[\"no-such-tell\"]"], "no-such-tell cannot be started")]
fn a_batch_that_could_not_be_told_has_landed_and_the_next_run_tells_it(
    #[case] script: &str,
    #[case] more: &[&str],
    #[case] reason: &str,
) {
    let lake = lake();
    tells(&lake, script);
    for status in ["committed", "skipped"] {
        let report = ingest(&lake, more).refuses(Exit::Untold, &["error:", reason, "run again"]).report();
        assert_eq!((&report["status"], &report["notified"]), (&json!(status), &json!(false)));
    }
    assert_eq!(lake.ask("count", json!({ "table": TABLE, "key": "id" })), json!({ "rows": 2, "distinct": 2 }));
    assert!(recorded(&lake).is_empty());

    tells(&lake, TELL);
    assert_eq!(ingest(&lake, &[]).skipped()["notified"], true);
    assert_eq!(told(&lake).len(), 1);
}

#[test]
fn a_command_that_neither_reads_nor_is_a_script_is_run_by_its_name() {
    let lake = lake();
    assert_eq!(ingest(&lake, &["--set", "notify.command=[\"true\"]"]).committed()["notified"], true);
    assert_eq!(recorded(&lake).len(), 1);
}

#[test]
fn the_folder_of_the_job_is_where_its_command_is() {
    let lake = lake();
    for file in ["job.toml", "points.csv", "tell"] {
        lake.write(&format!("jobs/{file}"), "");
        fs::rename(lake.path(file), lake.path(format!("jobs/{file}"))).unwrap();
    }
    assert_eq!(lake.ingest(&["jobs/job.toml"]).committed()["notified"], true);
    assert_eq!(fs::read_to_string(lake.path("jobs/told")).unwrap().lines().count(), 1);
}

#[test]
fn what_landed_before_anybody_was_to_be_told_is_told_by_the_first_run_that_says_whom() {
    let lake = lake();
    lake.write("silent.toml", POINTS);
    let landed = lake.ingest(&["silent.toml"]).committed();
    assert!(landed.get("notified").is_none(), "{landed:#}");
    assert_eq!(ingest(&lake, &[]).skipped()["notified"], true);
    assert_eq!(told(&lake)[0]["snapshot"], landed["snapshot_id"].to_string());
}

#[test]
fn a_forced_run_of_the_same_content_is_not_told_again() {
    let lake = lake();
    ingest(&lake, &[]).committed();
    assert_eq!(ingest(&lake, &["--force"]).committed()["notified"], true);
    assert_eq!(ingest(&lake, &[]).skipped()["notified"], true);
    assert_eq!(told(&lake).len(), 1);
}

#[test]
fn a_dry_run_tells_nothing() {
    let lake = lake();
    for _ in 0..2 {
        let report = ingest(&lake, &["--dry-run"]).ends(Exit::Done).report();
        assert!(report.get("notified").is_none(), "{report:#}");
        assert!(told(&lake).is_empty());
        // The second one finds the batch in the table, untold.
        lake.write("silent.toml", POINTS);
        lake.ingest(&["silent.toml"]).ends(Exit::Done);
    }
}

#[test]
fn another_content_of_a_batch_is_another_message() {
    let lake = lake();
    let offsets = "granularity = \"offsets\"\npartition = \"0\"\noffsets = [0, 2]\non_changed_input = \"replace\"";
    lake.write("job.toml", format!("{POINTS}{NOTIFY}").replace("granularity = \"files\"", offsets));
    let first = ingest(&lake, &[]).committed();
    lake.write("points.csv", "id,lat,lon\n1,48.2,16.4\n3,0.5,0.5\n");
    let second = ingest(&lake, &[]).committed();
    ingest(&lake, &[]).skipped();
    assert_eq!(first["batch_id"], second["batch_id"]);
    let told = told(&lake);
    assert_eq!((told.len(), keys(&told).len()), (2, 2), "{told:#?}");
}

#[test]
fn a_batch_that_is_undone_and_lands_again_is_told_again_under_the_same_key() {
    let lake = lake();
    ingest(&lake, &["--set", "source.name=before"]).committed();
    let batch = ingest(&lake, &[]).committed()["batch_id"].as_str().unwrap().to_owned();
    lake.hexfloe(&["table", "rollback", TABLE, "--before-batch", &batch]).ends(Exit::Done);
    assert_eq!(ingest(&lake, &[]).committed()["notified"], true);
    ingest(&lake, &[]).skipped();
    ingest(&lake, &["--set", "source.name=before"]).skipped();
    let told = told(&lake);
    assert_eq!((told.len(), keys(&told).len()), (3, 2), "{told:#?}");
    assert_eq!(told[1]["key"], told[2]["key"]);
}

#[test]
fn a_batch_that_the_ledger_has_forgotten_is_not_told() {
    let lake = lake();
    lake.write("silent.toml", POINTS);
    lake.ingest(&["silent.toml"]).committed();
    lake.ask("do_set", json!({ "table": TABLE, "name": "ingest.completed_batches", "value": "[]" }));
    // A summary knows it still.
    let report = ingest(&lake, &[]).skipped();
    assert!(report.get("notified").is_none(), "{report:#}");
    assert!(told(&lake).is_empty());
}

#[test]
fn each_batch_of_a_run_is_told_by_itself_and_one_that_cannot_be_keeps_no_other_from_it() {
    let lake = lake();
    let by_file = format!("{POINTS}{NOTIFY}").replace("\"files\"", "\"file\"").replace("points.csv", "in/*.csv");
    lake.write("job.toml", by_file);
    for file in 1..=4 {
        lake.write(&format!("in/{file}.csv"), format!("id,lat,lon\n{file},48.2,16.4\n"));
    }
    // The second message cannot be sent.
    tells(&lake, &format!("[ -s told ] && [ ! -e failed ] && touch failed && exit 1\n{TELL}"));
    let run = ingest(&lake, &["--group", "3"]).ends(Exit::Untold);
    let told_of = |run: &Run| -> Vec<Value> {
        run.stdout.lines().map(|line| line.parse::<Value>().unwrap()["notified"].clone()).collect()
    };
    assert_eq!(told_of(&run), [json!(true), json!(false), json!(true), json!(true)]);
    assert_eq!((told(&lake).len(), recorded(&lake).len()), (3, 3));

    let run = ingest(&lake, &["--group", "3"]).ends(Exit::Done);
    assert_eq!(told_of(&run), vec![json!(true); 4]);
    let told = told(&lake);
    assert_eq!((told.len(), keys(&told).len(), recorded(&lake).len()), (4, 4, 4));
}

#[test]
fn tables_that_change_together_are_told_each_for_itself() {
    let lake = lake();
    lake.write("other.toml", format!("{POINTS}{NOTIFY}").replace(TABLE, "ns.others"));
    for status in ["committed", "skipped"] {
        let run = lake.ingest(&["job.toml", "other.toml", "--together"]).ends(Exit::Done);
        for line in run.stdout.lines() {
            let report: Value = line.parse().unwrap();
            assert_eq!((&report["status"], &report["notified"]), (&json!(status), &json!(true)));
        }
    }
    let told = told(&lake);
    let tables: Vec<&str> = told.iter().map(|message| message["table"].as_str().unwrap()).collect();
    assert_eq!((tables, keys(&told).len()), (vec![TABLE, "ns.others"], 2));
}

#[test]
fn writers_at_the_same_time_leave_a_record_of_each_batch() {
    let lake = lake();
    let source = |writer: usize| format!("source.name=writer-{writer}");
    thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let lake = &lake;
                scope.spawn(move || ingest(lake, &["--set", &source(writer)]).committed())
            })
            .collect();
        let batches: BTreeSet<String> =
            writers.into_iter().map(|writer| writer.join().unwrap()["batch_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(recorded(&lake), batches);
    });
    for writer in 0..8 {
        ingest(&lake, &["--set", &source(writer)]).skipped();
    }
    let told = told(&lake);
    assert_eq!((told.len(), keys(&told).len()), (8, 8));
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

/// A lake on a REST catalog, with a table that is there, behind a proxy.
fn behind_a_proxy() -> (Lake, Proxy) {
    let lake = lake_on(Backend::RestS3);
    // What a catalog that cannot be reached costs: tens of milliseconds instead of many seconds.
    let quick = r#"{ "commit.status-check.min-wait-ms" = "10", "commit.status-check.num-retries" = "2" }"#;
    lake.write("job.toml", format!("{POINTS}properties = {quick}\n{NOTIFY}"));
    lake.write("silent.toml", format!("{POINTS}properties = {quick}\n"));
    lake.ingest(&["silent.toml"]).committed();
    lake.write("points.csv", "id,lat,lon\n3,64.1,-21.9\n");
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    let tokens = format!("{}/v1/oauth/tokens", proxy.uri());
    lake.write_catalog(&lake.catalog().clone().with("uri", &proxy.uri()).with("oauth2-server-uri", &tokens));
    (lake, proxy)
}

#[rstest]
#[case::it_landed(Side::After, "skipped")]
#[case::it_did_not(Side::Before, "committed")]
fn nothing_is_told_while_the_state_of_the_commit_is_unknown(#[case] side: Side, #[case] then: &str) {
    let (lake, proxy) = behind_a_proxy();
    let gone = Arc::new(AtomicBool::new(false));
    let leaving = Arc::clone(&gone);
    let leaves = move |request: &Request, server: &Server| {
        leaving.store(true, Ordering::Relaxed);
        server.fault(request, side, Fault::Reset)
    };
    proxy.add(Rule::new(Request::is_commit, leaves).only(1..=1));
    proxy.add(Rule::fault(move |_| gone.load(Ordering::Relaxed), Side::Before, Fault::Reset));
    ingest(&lake, &[]).refuses(Exit::Unknown, &["error:"]);
    assert!(told(&lake).is_empty());

    proxy.behave();
    let report = ingest(&lake, &[]).ends(Exit::Done).report();
    assert_eq!((&report["status"], &report["notified"]), (&json!(then), &json!(true)));
    assert_eq!((told(&lake).len(), recorded(&lake).len()), (1, 1));
}

#[test]
fn a_batch_that_was_told_and_not_recorded_is_told_again_under_the_same_key() {
    let (lake, proxy) = behind_a_proxy();
    // The first commit is that of the batch.
    proxy.add(Rule::fault(Request::is_commit, Side::Before, Fault::Reset).only(2..=100));
    let report = ingest(&lake, &[]).refuses(Exit::Untold, &["error:", "told, but not recorded", "same key"]).report();
    assert_eq!((&report["status"], &report["notified"]), (&json!("committed"), &json!(true)));
    assert_eq!((told(&lake).len(), recorded(&lake).len()), (1, 0));

    proxy.behave();
    for _ in 0..2 {
        assert_eq!(ingest(&lake, &[]).skipped()["notified"], true);
    }
    let told = told(&lake);
    assert_eq!((told.len(), keys(&told).len(), recorded(&lake).len()), (2, 1, 1));
}

#[test]
fn a_program_that_runs_the_same_job_is_not_told_by_that_run_too() {
    let lake = Lake::with_points("id,lat,lon\n1,48.2,16.4\n");
    let hexfloe = hexfloe_tests::hexfloe().display().to_string();
    let itself = json!([hexfloe, "ingest", "job.toml"]);
    lake.write("job.toml", format!("{POINTS}\n[notify]\ncommand = {itself}\n"));
    let run = lake.ingest(&["job.toml"]).ends(Exit::Untold);
    assert!(run.stderr.contains("started by the program that is being told of the same batch"), "{run:?}");
    assert_eq!(lake.ask("count", json!({ "table": "ns.points" }))["rows"], 1);
}
