//! One input, several tables, one commit.

use std::collections::BTreeSet;

use hexfloe_tests::{Backend, Exit, Fault, Lake, POINTS, Proxy, Request, Rule, Run, SeaweedFs, Side, Value, json};
use rstest::rstest;

const FINE: &str = "ns.points";
const COARSE: &str = "ns.coarse";

fn lake_with_two_tables(backend: Backend) -> Lake {
    let lake = Lake::on(backend).and_points("id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n3,64.1,-21.9\n");
    lake.write("coarse.toml", POINTS.replace(FINE, COARSE).replace("resolution = 9", "resolution = 4"));
    lake
}

fn together(lake: &Lake, more: &[&str]) -> Run {
    lake.ingest(&[&["job.toml", "coarse.toml", "--together"], more].concat())
}

fn lines(run: &Run) -> Vec<Value> {
    run.stdout.lines().map(|line| line.parse().unwrap()).collect()
}

fn all(lines: &[Value], key: &str) -> BTreeSet<String> {
    lines.iter().map(|line| line[key].as_str().unwrap().to_owned()).collect()
}

/// Both tables have the three points once, in one snapshot.
#[track_caller]
fn both_have_it(lake: &Lake) {
    for table in [FINE, COARSE] {
        for engine in ["pyiceberg", "duckdb"] {
            let counted = lake.ask("count", json!({ "table": table, "key": "id", "engine": engine }));
            assert_eq!(counted, json!({ "rows": 3, "distinct": 3 }), "{table}, {engine}");
        }
        let described = lake.ask("table", json!({ "table": table }));
        assert_eq!(described["snapshots"].as_array().unwrap().len(), 1, "{table}");
        lake.nothing_wrong("unsound", json!({ "table": table }));
    }
    assert_eq!(lake.ledger(FINE), lake.ledger(COARSE));
}

#[rstest]
fn one_input_lands_in_two_tables_at_once_and_once(
    #[values(Backend::Sqlite, Backend::PostgresS3, Backend::RestS3)] backend: Backend,
) {
    let lake = lake_with_two_tables(backend);
    let committed = lines(&together(&lake, &[]).ends(Exit::Done));
    assert_eq!(all(&committed, "status"), ["committed".to_owned()].into());
    assert_eq!(all(&committed, "table"), [FINE.to_owned(), COARSE.to_owned()].into());
    assert_eq!(all(&committed, "batch_id").len(), 1, "one input is one batch: {committed:#?}");
    both_have_it(&lake);
    let before = lake.state();
    let again = lines(&together(&lake, &[]).ends(Exit::Done));
    assert_eq!(all(&again, "status"), ["skipped".to_owned()].into());
    assert_eq!(lake.state(), before);
}

#[rstest]
fn a_table_that_was_fed_before_is_left_as_it_is(#[values(Backend::Sqlite, Backend::RestS3)] backend: Backend) {
    let lake = lake_with_two_tables(backend);
    lake.ingest(&["coarse.toml"]).committed();
    let told = lines(&together(&lake, &[]).ends(Exit::Done));
    let status: Vec<&Value> = told.iter().map(|line| &line["status"]).collect();
    assert_eq!(status, ["committed", "skipped"]);
    both_have_it(&lake);
}

#[rstest]
fn one_that_fails_keeps_the_other_from_being_committed(#[values(Backend::Sqlite, Backend::RestS3)] backend: Backend) {
    let lake = lake_with_two_tables(backend);
    lake.ingest(&["job.toml"]).committed();
    lake.ingest(&["coarse.toml"]).committed();
    let before = lake.state();
    lake.write("points.csv", "id,lat,lon\n4,35.7,139.7\n");
    lake.write("other.csv", "id,lat,lon\n4,95.0,139.7\n");
    let other =
        POINTS.replace(FINE, COARSE).replace("resolution = 9", "resolution = 4").replace("points.csv", "other.csv");
    lake.write("coarse.toml", other);
    let run = together(&lake, &[]).ends(Exit::Input);
    let status: Vec<Value> = lines(&run).iter().map(|line| line["status"].clone()).collect();
    assert!(status.contains(&json!("failed")) && status.contains(&json!("not_run")), "{status:?}");
    assert_eq!(lake.state(), before);
}

fn behind_a_proxy() -> (Lake, Proxy) {
    let lake = lake_with_two_tables(Backend::RestS3);
    let proxy = Proxy::before(&SeaweedFs::shared().rest_address()).unwrap();
    let file = lake.catalog().clone().with("uri", &proxy.uri()).with("rest.client.socket-timeout-ms", "2000");
    lake.write_catalog(&file);
    (lake, proxy)
}

fn is_transaction(request: &Request) -> bool {
    request.path.ends_with("/transactions/commit")
}

#[rstest]
fn an_answer_that_is_lost_or_a_lie_changes_nothing_of_that(
    #[values(Side::Before, Side::After)] side: Side,
    #[values(
        Fault::Reset,
        Fault::TimeOut,
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(409),
        Fault::Garbage,
        Fault::Duplicate
    )]
    fault: Fault,
) {
    let (lake, proxy) = behind_a_proxy();
    proxy.add(Rule::fault(is_transaction, side, fault).only(1..=1));
    let told = lines(&together(&lake, &[]).ends(Exit::Done));
    assert_eq!(all(&told, "status"), ["committed".to_owned()].into());
    both_have_it(&lake);
    let again = lines(&together(&lake, &[]).ends(Exit::Done));
    assert_eq!(all(&again, "status"), ["skipped".to_owned()].into());
}

#[test]
fn a_catalog_that_cannot_is_told_so_before_anything_is_read() {
    let (lake, proxy) = behind_a_proxy();
    proxy.add(Rule::rewrite(
        |request| request.path.contains("/v1/config"),
        |_, answer| {
            let mut config: Value = serde_json::from_slice(&answer.body).unwrap();
            config["endpoints"] = json!(["POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"]);
            answer.body = config.to_string().into_bytes();
        },
    ));
    let run = together(&lake, &[]).ends(Exit::Usage);
    let advice =
        "the catalog cannot commit to several tables at once (ns.points, ns.coarse); commit to one after the other";
    assert!(run.stderr.contains(advice), "{}", run.stderr);
    assert!(lake.state().files.is_empty());
    // Told otherwise, it does the one after the other.
    let told = lines(&lake.ingest(&["job.toml", "coarse.toml"]).ends(Exit::Done));
    assert_eq!(all(&told, "status"), ["committed".to_owned()].into());
    both_have_it(&lake);
}

#[test]
fn eight_processes_that_feed_both_tables_lose_and_double_nothing() {
    let lake = lake_with_two_tables(Backend::RestS3);
    let jobs: Vec<String> = (0..8)
        .map(|batch| {
            lake.write(&format!("batch-{batch}.csv"), format!("id,lat,lon\n{},48.2,16.4\n", 100 + batch));
            format!("source.paths=[\"batch-{batch}.csv\"]")
        })
        .collect();
    together(&lake, &[]).ends(Exit::Done);
    let started: Vec<_> =
        jobs.iter().map(|set| lake.start_ingest(&["job.toml", "coarse.toml", "--together", "--set", set])).collect();
    for running in started {
        let told = lines(&running.end().ends(Exit::Done));
        assert_eq!(all(&told, "status"), ["committed".to_owned()].into());
    }
    for table in [FINE, COARSE] {
        let counted = lake.ask("count", json!({ "table": table, "key": "id" }));
        assert_eq!(counted, json!({ "rows": 11, "distinct": 11 }), "{table}");
        lake.nothing_wrong("unsound", json!({ "table": table }));
    }
    assert_eq!(lake.ledger(FINE), lake.ledger(COARSE), "the tables saw the batches in one order");
}
