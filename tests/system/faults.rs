//! A catalog whose answers to commits are lost, late or lies: the batch lands exactly once all the same.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use hexfloe_tests::{
    Answer, Backend, CatalogFile, Exit, Fault, Lake, POINTS, Proxy, Reply, Request, Rule, SeaweedFs, Server, Side,
    Value, json, judge, pause,
};
use rstest::rstest;

const TABLE: &str = "ns.points";
/// What is in the table, what is ingested under the fault, and what a rival commits meanwhile.
const THERE: &str = "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n";
const FRESH: &str = "id,lat,lon\n3,64.1,-21.9\n4,35.7,139.7\n5,-22.9,-43.2\n";
const RIVAL: &str = "id,lat,lon\n6,40.7,-74.0\n";

/// A table that has one batch, and a proxy between its catalog and `hexfloe`.
struct Table {
    lake: Lake,
    proxy: Proxy,
    batches: BTreeMap<String, u64>,
}

impl Table {
    fn new(socket_timeout_ms: u32) -> Self {
        let lake = Lake::on(Backend::RestS3).and_points(THERE);
        // What a catalog that cannot be reached costs: hundreds of milliseconds instead of many seconds.
        let quick = r#"{ "commit.status-check.min-wait-ms" = "100", "commit.status-check.num-retries" = "4" }"#;
        lake.write("job.toml", format!("{POINTS}properties = {quick}\n"));
        let there = batch_id(&lake.ingest(&["job.toml"]).committed());
        let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
        lake.write_catalog(&through(&proxy, lake.catalog(), socket_timeout_ms));
        lake.write("points.csv", FRESH);
        Self { lake, proxy, batches: BTreeMap::from([(there, 2)]) }
    }

    /// The batches are in the table, each with all of its rows and one snapshot, and every file of the table is there.
    #[track_caller]
    fn is_exact(&self) {
        let rows = self.lake.ask("per_batch", json!({ "table": TABLE }));
        assert_eq!(rows, json!(self.batches), "rows by batch");
        let all: u64 = self.batches.values().sum();
        for engine in ["pyiceberg", "duckdb"] {
            let counted = self.lake.ask("count", json!({ "table": TABLE, "key": "id", "engine": engine }));
            assert_eq!(counted, json!({ "rows": all, "distinct": all }), "{engine}");
        }
        let table = self.lake.ask("table", json!({ "table": TABLE }));
        let snapshots = table["snapshots"].as_array().unwrap();
        let mut named: Vec<_> = snapshots.iter().map(|s| s["summary"]["ingest.batch-id"].as_str().unwrap()).collect();
        named.sort_unstable();
        assert_eq!(named, self.batches.keys().collect::<Vec<_>>(), "one snapshot a batch");
        self.lake.nothing_wrong("unsound", json!({ "table": TABLE }));
    }
}

fn through(proxy: &Proxy, catalog: &CatalogFile, socket_timeout_ms: u32) -> CatalogFile {
    catalog
        .clone()
        .with("uri", &proxy.uri())
        .with("oauth2-server-uri", &format!("{}/v1/oauth/tokens", proxy.uri()))
        .with("rest.client.socket-timeout-ms", &socket_timeout_ms.to_string())
}

fn batch_id(report: &Value) -> String {
    report["batch_id"].as_str().unwrap().to_owned()
}

/// The id of the batch of `points.csv`, however its ingest ended.
fn batch_of_points(lake: &Lake) -> String {
    batch_id(&lake.ingest(&["job.toml", "--dry-run"]).ends(Exit::Done).report())
}

const FAULTS: [(&str, Fault); 11] = [
    ("reset", Fault::Reset),
    ("time-out", Fault::TimeOut),
    ("500", Fault::Status(500)),
    ("502", Fault::Status(502)),
    ("503", Fault::Status(503)),
    ("504", Fault::Status(504)),
    ("garbage 200", Fault::Garbage),
    ("409", Fault::Status(409)),
    ("400", Fault::Status(400)),
    ("old-metadata 200", Fault::OldMetadata),
    ("duplicate delivery", Fault::Duplicate),
];

/// What goes wrong with which commit that is tried.
#[derive(Clone, Copy)]
struct Cell {
    name: &'static str,
    fault: Fault,
    side: Side,
    attempt: usize,
}

/// What came of it.
struct Seen {
    code: Option<i32>,
    status: String,
    commits: usize,
    again: String,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for (name, fault) in FAULTS {
            for side in [Side::Before, Side::After] {
                cells.extend([1, 2].map(|attempt| Self { name, fault, side, attempt }));
            }
        }
        cells
    }

    /// A rejection that is believed, because the table does not hold the batch: nothing else fails a run.
    fn is_refused(self) -> bool {
        self.side == Side::Before && self.fault == Fault::Status(400)
    }

    fn run(self) -> Seen {
        // A rival takes its time.
        let mut table = Table::new(match (self.fault, self.attempt) {
            (Fault::TimeOut, 1) => 2_000,
            (Fault::TimeOut, _) => 6_000,
            _ => 30_000,
        });
        let rival = Lake::in_catalog(table.lake.catalog().clone()).and_points(RIVAL);
        if self.attempt == 2 {
            table.batches.insert(batch_of_points(&rival), 1);
            let overtaken = Rule::new(Request::is_commit, move |request, server| {
                rival.ask("do_set", json!({ "table": TABLE, "name": "owner", "value": "the rival" }));
                rival.ingest(&["job.toml"]).committed();
                server.forward(request).map_or(Reply::Reset, Reply::Answer)
            });
            table.proxy.add(overtaken.only(1..=1));
        }
        table.proxy.add(Rule::fault(Request::is_commit, self.side, self.fault).only(self.attempt..=self.attempt));
        let run = table.lake.ingest(&["job.toml"]);

        let commits: Vec<_> = table.proxy.log().into_iter().filter(|passed| passed.request.is_commit()).collect();
        assert!(commits.len() >= self.attempt, "{} commits were tried: {run:?}", commits.len());
        if self.attempt == 2 {
            assert_eq!(commits[0].status, Some(409), "the rival was first");
        }
        let delivered = match (self.fault, self.side) {
            (Fault::Duplicate, _) => 2,
            (_, Side::Before) => 0,
            (_, Side::After) => 1,
        };
        assert_eq!(commits[self.attempt - 1].delivered, delivered, "deliveries of the commit at fault");

        let (code, status) = if self.is_refused() {
            assert_eq!(run.code, Some(Exit::Unexpected as i32), "{run:?}");
            (run.code, "refused".to_owned())
        } else {
            let report = run.committed();
            (Some(0), report["status"].as_str().unwrap().to_owned())
        };
        table.proxy.behave();
        let again = table.lake.ingest(&["job.toml"]).ends(Exit::Done).report();
        assert_eq!(again["status"], if self.is_refused() { "committed" } else { "skipped" });
        table.batches.insert(batch_id(&again), 3);
        table.is_exact();
        Seen { code, status, commits: commits.len(), again: again["status"].as_str().unwrap().to_owned() }
    }

    /// A line of the matrix.
    fn told(self, seen: &Result<Seen, String>) -> String {
        let side = if self.side == Side::Before { "before server" } else { "after server" };
        let case = format!("{:<18} | {side:<13} | attempt {}", self.name, self.attempt);
        match seen {
            Ok(seen) => {
                let code = seen.code.map_or_else(|| "-".to_owned(), |code| code.to_string());
                format!(
                    "{case} | exit {code}, {:<9} | commits sent: {} | re-run {}",
                    seen.status, seen.commits, seen.again
                )
            }
            Err(error) => format!("{case} | WRONG: {}", error.lines().next().unwrap_or_default()),
        }
    }
}

#[test]
fn whatever_goes_wrong_with_a_commit_its_batch_lands_exactly_once() {
    let cells = Cell::all();
    let next = AtomicUsize::new(0);
    let seen: Vec<Mutex<Option<Result<Seen, String>>>> = cells.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(number).copied() else { break };
                    // A cell that fails does not hide the others.
                    let ended = thread::spawn(move || cell.run()).join();
                    let failed = |payload: Box<dyn std::any::Any + Send>| {
                        let text = payload.downcast_ref::<String>().cloned();
                        text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                            .unwrap_or_else(|| "a panic without words".to_owned())
                    };
                    *seen[number].lock().unwrap() = Some(ended.map_err(failed));
                }
            });
        }
    });

    let mut matrix = String::from("\nwhat happened to a commit, and what came of its batch\n");
    let mut wrong = Vec::new();
    for (cell, seen) in cells.iter().zip(seen) {
        let seen = seen.into_inner().unwrap().unwrap();
        matrix += &format!("  {}\n", cell.told(&seen));
        if let Err(error) = seen {
            wrong.push(format!("{}\n{error}", cell.told(&Err(error.clone()))));
        }
    }
    // Past the test harness, which shows output of tests that fail only.
    io::stdout().write_all(matrix.as_bytes()).unwrap();
    assert!(wrong.is_empty(), "{} of {} cells are wrong:\n{}", wrong.len(), cells.len(), wrong.join("\n\n"));
}

#[rstest]
#[case::before_the_commit_lands(Side::Before)]
#[case::after_the_commit_landed(Side::After)]
fn a_catalog_that_is_gone_from_the_commit_on_leaves_an_unknown_state_and_every_file(#[case] side: Side) {
    let mut table = Table::new(30_000);
    let gone = Arc::new(AtomicBool::new(false));
    let stored = Arc::new(Mutex::new(Value::Null));
    let properties = table.lake.catalog().properties();
    {
        let (gone, stored) = (Arc::clone(&gone), Arc::clone(&stored));
        let leaves = move |request: &Request, server: &Server| {
            *stored.lock().unwrap() = judge("objects", json!({ "catalog": properties }));
            gone.store(true, Ordering::Relaxed);
            server.fault(request, side, Fault::Reset)
        };
        table.proxy.add(Rule::new(Request::is_commit, leaves).only(1..=1));
    }
    table.proxy.add(Rule::fault(move |_| gone.load(Ordering::Relaxed), Side::Before, Fault::Reset));

    let run = table.lake.ingest(&["job.toml"]).refuses(Exit::Unknown, &["error:"]);
    assert_eq!(run.stdout, "", "no report of what is not known");
    let (before, after) = (stored.lock().unwrap().clone(), table.lake.ask("objects", json!({})));
    let before = before.as_object().unwrap();
    assert!(before.keys().filter(|key| key.ends_with(".parquet")).count() == 2, "{before:#?}");
    for (key, content) in before {
        assert_eq!(&after[key], content, "{key}");
    }

    table.proxy.behave();
    let again = table.lake.ingest(&["job.toml"]).ends(Exit::Done).report();
    assert_eq!(again["status"], if side == Side::Before { "committed" } else { "skipped" });
    table.batches.insert(batch_id(&again), 3);
    table.is_exact();
}

#[test]
fn a_catalog_that_cannot_be_reached_at_all_is_unavailable() {
    let table = Table::new(2_000);
    let before = table.lake.state();
    table.proxy.add(Rule::fault(|_| true, Side::Before, Fault::Reset));
    table.lake.ingest(&["job.toml"]).refuses(Exit::Unavailable, &["error:", &table.proxy.address()]);
    assert_eq!(table.lake.state(), before);
}

#[test]
fn a_new_table_whose_creation_is_not_answered_is_made_once() {
    let lake = Lake::on(Backend::RestS3).and_points(THERE);
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    lake.write_catalog(&through(&proxy, lake.catalog(), 10_000));
    let creates = |request: &Request| request.method == "POST" && request.path.ends_with("/tables");
    proxy.add(Rule::fault(creates, Side::After, Fault::Reset).only(1..=1));
    // Told as a failure or overcome: in both cases the next run is right.
    let first = lake.ingest(&["job.toml"]);
    assert!(matches!(first.code, Some(0 | 6 | 7)), "{first:?}");
    assert!(proxy.log().iter().any(|passed| creates(&passed.request) && passed.status.is_none()));
    lake.ingest(&["job.toml"]).ends(Exit::Done);
    let counted = lake.ask("count", json!({ "table": TABLE, "key": "id" }));
    assert_eq!(counted, json!({ "rows": 2, "distinct": 2 }));
    assert_eq!(lake.state().tables.as_array().unwrap().len(), 1);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

/// Something on the way refuses a commit that goes on behind it: what it brings has to be readable.
#[rstest]
#[case::a_refusal(400, &[])]
#[case::a_denial(403, &[])]
#[case::a_redirect(302, &[])]
#[case::not_found(404, &[])]
#[case::a_conflict_without_another_try(409, &["--set", "table.properties={\"commit.retry.num-retries\" = \"0\"}"])]
fn a_commit_that_lands_after_it_was_refused_keeps_its_files(#[case] status: u16, #[case] set: &[&str]) {
    let lake = Lake::on(Backend::RestS3).and_points(THERE);
    let ingest = |more: &[&str]| lake.ingest(&[&["job.toml"], set, more].concat());
    ingest(&[]).committed();
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    lake.write_catalog(&through(&proxy, lake.catalog(), 5_000));
    lake.write("points.csv", FRESH);
    let refuse = Rule::new(Request::is_commit, move |request, server| {
        server.forward_later(request, std::time::Duration::from_millis(1_500));
        Reply::Answer(Answer::error(status))
    });
    proxy.add(refuse.only(1..=1));
    let run = ingest(&[]);
    println!("{status}: exit {:?}", run.code);
    pause(std::time::Duration::from_millis(2_500));
    proxy.behave();
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
    ingest(&[]).ends(Exit::Done);
    for engine in ["pyiceberg", "duckdb"] {
        let counted = lake.ask("count", json!({ "table": TABLE, "key": "id", "engine": engine }));
        assert_eq!(counted, json!({ "rows": 5, "distinct": 5 }), "{engine}");
    }
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}
