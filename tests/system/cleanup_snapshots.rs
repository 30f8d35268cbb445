//! Snapshots that nobody needs expire with the files that only they have, and the batches that they brought stay complete.

use std::collections::BTreeSet;

use hexfloe_tests::{Backend, Exit, Lake, Run, Value, json};
use rstest::rstest;

use crate::cleanup::{
    OLD, TABLE, holds, ingest, keys, location, noted, of_one_table, orphans_of, removes_exactly, unreferenced,
};

const ALL: &[&str] = &["--older-than", "0s"];

fn expire(lake: &Lake, more: &[&str]) -> Run {
    lake.hexfloe(&[&["cleanup", "snapshots", TABLE, "--json"], more].concat())
}

fn snapshots(lake: &Lake) -> Vec<Value> {
    let table = lake.ask("table", json!({ "table": TABLE }));
    table["snapshots"].as_array().unwrap().iter().map(|snapshot| snapshot["id"].clone()).collect()
}

/// The files that the table's snapshots have, and those that describe it.
fn referenced(lake: &Lake) -> BTreeSet<String> {
    let files = lake.ask("referenced", json!({ "table": TABLE }));
    files.as_array().unwrap().iter().map(|file| file.as_str().unwrap().to_owned()).collect()
}

fn listed(lake: &Lake) -> BTreeSet<String> {
    keys(&lake.ask("below", json!({ "location": location(lake, TABLE) })))
}

/// These snapshots go and no others; with them the files that nothing else refers to, and no others.
#[track_caller]
fn expires_exactly(lake: &Lake, expected: &[Value], more: &[&str]) -> Value {
    let (all, before, state, there) = (snapshots(lake), referenced(lake), lake.state(), listed(lake));
    let ids = |report: &Value| -> Vec<Value> {
        report["snapshots"].as_array().unwrap().iter().map(|snapshot| snapshot["snapshot_id"].clone()).collect()
    };
    let dry = of_one_table(expire(lake, &[more, &["--report", "dry.ndjson"]].concat()));
    assert_eq!(ids(&dry), expected, "{dry:#}");
    assert_eq!(lake.state(), state, "a dry run");
    let report = of_one_table(expire(lake, &[more, &["--apply", "--report", "applied.ndjson"]].concat()));
    assert_eq!(ids(&report), expected, "{report:#}");
    let kept: Vec<Value> = all.into_iter().filter(|id| !expected.contains(id)).collect();
    assert_eq!(snapshots(lake), kept);

    let own = referenced(lake);
    let gone: BTreeSet<String> = before.difference(&own).cloned().collect();
    let metadata = |file: &String| file.ends_with(".metadata.json");
    assert!(!gone.iter().any(metadata), "metadata files are the log's: {gone:#?}");
    // Of files that went before it may be said again that they go.
    let told = |file, fate| noted(lake, file, fate).intersection(&there).cloned().collect::<BTreeSet<_>>();
    assert_eq!(told("dry.ndjson", "orphan"), gone, "{dry:#}");
    assert_eq!(told("applied.ndjson", "removed"), gone, "{report:#}");
    assert_eq!(there.difference(&listed(lake)).cloned().collect::<BTreeSet<_>>(), gone);
    assert_eq!(report["failed"], 0, "{report:#}");
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
    report
}

/// A table of five snapshots: two batches, of which the first was replaced three times.
fn of_five_snapshots(backend: Backend) -> (Lake, Vec<Value>) {
    let lake = Lake::on(backend).and_points("");
    ingest(&lake, 0, &[]).committed();
    ingest(&lake, 3, &[]).committed();
    for _ in 0..3 {
        ingest(&lake, 0, &["--force"]).committed();
    }
    let all = snapshots(&lake);
    (lake, all)
}

#[test]
fn what_the_table_asks_to_keep_is_kept_and_what_the_person_asks_comes_first() {
    let (lake, all) = of_five_snapshots(Backend::Sqlite);
    let set = |name: &str, value: &str| {
        let name = format!("history.expire.{name}");
        lake.ask("do_set", json!({ "table": TABLE, "name": name, "value": value }));
    };
    // Five days, when nobody says anything.
    expires_exactly(&lake, &[], &[]);
    set("max-snapshot-age-ms", "1");
    set("min-snapshots-to-keep", "4");
    expires_exactly(&lake, &all[..1], &[]);
    set("max-snapshot-age-ms", "86400000");
    expires_exactly(&lake, &[], &["--retain-last", "1"]);
    expires_exactly(&lake, &[], ALL);
    expires_exactly(&lake, &all[1..2], &[ALL, &["--retain-last", "3"]].concat());
    set("min-snapshots-to-keep", "1");
    expires_exactly(&lake, &all[2..4], ALL);
    holds(&lake, TABLE, 6);
    assert_eq!(unreferenced(&lake, TABLE), BTreeSet::new(), "nothing is left for a cleaner");

    for (name, value) in [("max-snapshot-age-ms", "soon"), ("min-snapshots-to-keep", "-1")] {
        set(name, value);
        let before = lake.state();
        expire(&lake, &["--apply"]).refuses(Exit::Usage, &[&format!("history.expire.{name}"), value]);
        assert_eq!(lake.state(), before);
        set(name, "1");
    }
}

#[rstest]
fn tags_and_branches_keep_their_snapshots_until_they_are_too_old_themselves(
    #[values(Backend::Sqlite, Backend::PostgresS3)] backend: Backend,
) {
    let (lake, all) = of_five_snapshots(backend);
    let tagged = json!({ "table": TABLE, "snapshot": all[0], "tag": "first" });
    lake.ask("do_ref", tagged);
    lake.ask("do_ref", json!({ "table": TABLE, "snapshot": all[2], "branch": "audit", "min_snapshots_to_keep": 2 }));
    lake.ask("do_ref", json!({ "table": TABLE, "snapshot": all[3], "tag": "short", "max_ref_age_ms": 1 }));
    // The branch keeps two, and what was before these goes but for what the tag has.
    let report = expires_exactly(&lake, &all[3..4], ALL);
    assert_eq!(report["refs"], json!(["short"]));
    let refs = lake.ask("table", json!({ "table": TABLE }))["refs"].clone();
    assert_eq!(keys(&refs), BTreeSet::from(["audit", "first", "main"].map(str::to_owned)));
    for (snapshot, rows) in [(&all[0], 3), (&all[2], 6), (&all[4], 6)] {
        for engine in ["pyiceberg", "duckdb"] {
            let read = json!({ "table": TABLE, "engine": engine, "snapshot": snapshot });
            assert_eq!(lake.ask("columns", read)["rows"], rows, "{engine}");
        }
    }
    holds(&lake, TABLE, 6);
    // A file that a tag has is nobody's orphan, and is not removed with another snapshot.
    of_one_table(orphans_of(&lake, TABLE, &[]));
    assert_eq!(unreferenced(&lake, TABLE), BTreeSet::new());
}

#[rstest]
fn a_batch_whose_snapshot_expired_is_skipped_and_a_forced_run_replaces_exactly_its_rows(
    #[values(Backend::Sqlite, Backend::RestS3)] backend: Backend,
    #[values(false, true)] others_came_last: bool,
) {
    let (lake, mut all) = of_five_snapshots(backend);
    let mut rows = 6;
    if others_came_last {
        lake.ask("do_append", json!({ "table": TABLE, "rows": [{ "id": 77, "lat": 1.5, "lon": 2.5, "h3_cell": 617_700_169_958_293_503_u64, "ingest_batch_id": "elsewhere" }] }));
        all = snapshots(&lake);
        rows += 1;
    }
    expires_exactly(&lake, &all[..all.len() - 1], ALL);
    holds(&lake, TABLE, rows);
    for first in [0, 3] {
        ingest(&lake, first, &[]).skipped();
    }
    for first in [3, 0] {
        assert_eq!(ingest(&lake, first, &["--force"]).committed()["replaced_rows"], 3);
        holds(&lake, TABLE, rows);
    }
    let all = snapshots(&lake);
    expires_exactly(&lake, &all[..2], ALL);
    ingest(&lake, 0, &[]).skipped();
    ingest(&lake, 9, &[]).committed();
    holds(&lake, TABLE, rows + 3);
    let batches = lake.ask("per_batch", json!({ "table": TABLE }));
    assert!(batches.as_object().unwrap().iter().all(|(id, n)| *n == 3 || id == "elsewhere"), "{batches:#}");
}

#[test]
fn what_leads_from_main_to_a_branch_stays_so_that_it_can_be_published() {
    let lake = Lake::new().and_points("");
    ingest(&lake, 0, &[]).committed();
    for first in [3, 6] {
        ingest(&lake, first, &["--branch", "audit"]).committed();
    }
    expires_exactly(&lake, &[], ALL);
    lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit"]).ends(Exit::Done);
    holds(&lake, TABLE, 9);
    // Two branches with one head.
    let all = snapshots(&lake);
    expires_exactly(&lake, &all[..2], ALL);
    for first in [0, 3, 6] {
        ingest(&lake, first, &[]).skipped();
        ingest(&lake, first, &["--branch", "audit"]).skipped();
    }
    assert_eq!(ingest(&lake, 3, &["--branch", "audit", "--force"]).committed()["replaced_rows"], 3);
    ingest(&lake, 6, &["--branch", "audit"]).skipped();
    holds(&lake, TABLE, 9);
}

#[test]
fn files_that_went_before_are_not_counted_again() {
    let (lake, _) = of_five_snapshots(Backend::Sqlite);
    for _ in 0..2 {
        let there = listed(&lake);
        let dry = of_one_table(expire(&lake, &[ALL, &["--report", "dry.ndjson"]].concat()));
        let report = of_one_table(expire(&lake, &[ALL, &["--apply", "--report", "applied.ndjson"]].concat()));
        let gone: BTreeSet<String> = there.difference(&listed(&lake)).cloned().collect();
        assert_eq!(noted(&lake, "dry.ndjson", "orphan"), gone);
        assert_eq!(noted(&lake, "applied.ndjson", "removed"), gone);
        assert_eq!((&dry["files"], &report["removed"]), (&json!(gone.len()), &json!(gone.len())));
        // What its last snapshot removed has gone, and that snapshot is the next to expire.
        ingest(&lake, 0, &["--force"]).committed();
    }
}

#[test]
fn files_outside_the_table_stay_when_snapshots_expire_and_orphans_are_left_to_the_other_command() {
    let lake = Lake::new().and_points("");
    ingest(&lake, 0, &[]).committed();
    let elsewhere = format!("file://{}", lake.path("lake/warehouse/elsewhere").display());
    lake.ask("do_set", json!({ "table": TABLE, "name": "write.data.path", "value": elsewhere }));
    for _ in 0..2 {
        ingest(&lake, 0, &["--force"]).committed();
    }
    let all = snapshots(&lake);
    let outside = keys(&lake.ask("below", json!({ "location": elsewhere })));
    assert_eq!(outside.len(), 2);
    let before = lake.state();
    let report = of_one_table(expire(&lake, ALL));
    assert_eq!((&report["outside"], &lake.state()), (&json!(1), &before), "{report:#}");
    let report = of_one_table(expire(&lake, &[ALL, &["--apply"]].concat()));
    assert_eq!(report["snapshots"].as_array().unwrap().len(), all.len() - 1);
    assert_eq!(report["outside"], 1, "{report:#}");
    assert_eq!(keys(&lake.ask("below", json!({ "location": elsewhere }))), outside);
    holds(&lake, TABLE, 3);
    // When no manifest tells of it any more it is an orphan of a place that is declared as the table's.
    ingest(&lake, 3, &[]).committed();
    expire(&lake, &[ALL, &["--apply"]].concat()).ends(Exit::Done);
    lake.ask("do_age", json!({ "hours": OLD }));
    let live: BTreeSet<String> =
        lake.files(TABLE).iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    let left: BTreeSet<String> = outside.difference(&live).cloned().collect();
    let run = orphans_of(&lake, TABLE, &["--owned", &elsewhere, "--report", "files.ndjson"]);
    let report = of_one_table(run);
    assert_eq!(noted(&lake, "files.ndjson", "orphan"), left, "{report:#}");
    removes_exactly(&lake, TABLE, &left, &["--owned", &elsewhere]);
}
