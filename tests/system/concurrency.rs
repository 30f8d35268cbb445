//! Processes that write at the same moment.

use std::collections::BTreeSet;
use std::thread;

use hexfloe_tests::{Exit, Lake, Run, json};
use rstest::rstest;

const TABLE: &str = "ns.points";
const ROWS: usize = 100;

/// A hundred points around the world, numbered from `first`.
fn points(first: usize) -> String {
    (first..first + ROWS).fold("id,lat,lon\n".to_owned(), |csv, id| {
        csv + &format!("{id},{}.5,{}.25\n", id * 7 % 160 % 80, id * 11 % 340 % 170)
    })
}

fn lake_with(batches: usize, table_exists: bool) -> Lake {
    let lake = Lake::with_points(&points(0));
    for batch in 0..batches {
        lake.write(&format!("batch-{batch}.csv"), points(1_000 + batch * ROWS));
    }
    if table_exists {
        lake.ingest(&["job.toml"]).committed();
    }
    lake
}

fn ingest(lake: &Lake, batch: usize) -> Run {
    lake.ingest(&["job.toml", "--set", &format!("source.paths=[\"batch-{batch}.csv\"]")])
}

#[rstest]
fn four_processes_with_ten_batches_each_lose_and_double_nothing(#[values(false, true)] table_exists: bool) {
    let lake = lake_with(40, table_exists);
    let committed: Vec<String> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let lake = &lake;
                scope.spawn(move || -> Vec<String> {
                    let reports = (0..10).map(|batch| ingest(lake, writer * 10 + batch).committed());
                    reports.map(|report| report["batch_id"].as_str().unwrap().to_owned()).collect()
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });

    let batches: BTreeSet<_> = committed.iter().cloned().collect();
    assert_eq!(batches.len(), 40);
    let ledger: BTreeSet<_> = lake.ledger(TABLE).into_iter().collect();
    assert!(batches.is_subset(&ledger), "acknowledged, and not in the ledger: {:?}", batches.difference(&ledger));
    let all = 40 + usize::from(table_exists);
    assert_eq!(ledger.len(), all);
    let rows = (all * ROWS) as u64;
    assert_eq!(lake.ask("count", json!({ "table": TABLE, "key": "id" })), json!({ "rows": rows, "distinct": rows }));
    let table = lake.ask("table", json!({ "table": TABLE }));
    assert_eq!(table["snapshots"].as_array().unwrap().len(), all, "one snapshot a batch");
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[rstest]
fn of_processes_with_the_same_batch_one_commits_and_the_others_skip(
    #[values(2, 8)] processes: usize,
    #[values(false, true)] table_exists: bool,
) {
    let lake = lake_with(1, table_exists);
    let started: Vec<_> =
        (0..processes).map(|_| lake.start_ingest(&["job.toml", "--set", "source.paths=[\"batch-0.csv\"]"])).collect();
    let reports: Vec<_> = started.into_iter().map(|running| running.end().ends(Exit::Done).report()).collect();

    let with = |status: &str| reports.iter().filter(|report| report["status"] == status).count();
    assert_eq!((with("committed"), with("skipped")), (1, processes - 1), "{reports:#?}");
    let rows = (ROWS * (1 + usize::from(table_exists))) as u64;
    for engine in ["pyiceberg", "duckdb"] {
        let counted = lake.ask("count", json!({ "table": TABLE, "key": "id", "engine": engine }));
        assert_eq!(counted, json!({ "rows": rows, "distinct": rows }), "{engine}");
    }
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));

    // Who skipped has taken its own data files with it.
    let live = lake.files(TABLE).len();
    let stored = lake.state().files.keys().filter(|path| path.ends_with(".parquet")).count();
    assert_eq!(stored, live, "data files that no snapshot references");
}
