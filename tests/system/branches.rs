//! Writing to a branch, checking, and publishing; going back after a mistake.

use hexfloe_tests::{Exit, Lake, POINTS, Value, json};
use rstest::rstest;

const TABLE: &str = "ns.points";

/// A lake with three jobs, `a`, `b` and `c`, of two rows each.
fn lake() -> Lake {
    let lake = Lake::new();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        lake.write(&format!("{name}.toml"), POINTS.replace("points.csv", &format!("{name}.csv")));
        lake.write(&format!("{name}.csv"), rows(10 * number));
    }
    lake
}

fn rows(first: usize) -> String {
    format!("id,lat,lon\n{},48.2,16.4\n{},-33.9,151.2\n", first + 1, first + 2)
}

fn table(lake: &Lake) -> Value {
    lake.ask("table", json!({ "table": TABLE }))
}

fn snapshots(lake: &Lake) -> usize {
    table(lake)["snapshots"].as_array().unwrap().len()
}

/// The ids of the rows that PyIceberg reads, on main or in a snapshot.
fn ids(lake: &Lake, snapshot: &Value) -> Vec<u64> {
    let request = json!({ "table": TABLE, "columns": ["id"], "order": ["id"], "snapshot": snapshot });
    lake.ask("rows", request).as_array().unwrap().iter().map(|row| row["id"].as_u64().unwrap()).collect()
}

/// The ids of the rows on main, in which the engines have to agree.
fn on_main(lake: &Lake) -> Vec<u64> {
    lake.columns(TABLE);
    ids(lake, &Value::Null)
}

fn batches(lake: &Lake, more: &[&str]) -> Vec<Value> {
    let arguments = [&["batches", TABLE, "--json"], more].concat();
    let report = lake.hexfloe(&arguments).ends(Exit::Done).report();
    report["batches"].as_array().unwrap().iter().map(|batch| batch["batch_id"].clone()).collect()
}

#[test]
fn rows_of_a_branch_are_invisible_until_it_is_published() {
    let lake = lake();
    let a = lake.ingest(&["a.toml"]).committed();
    let b = lake.ingest(&["b.toml", "--branch", "audit"]).committed();
    let c = lake.ingest(&["c.toml", "--branch", "audit"]).committed();
    assert_eq!(on_main(&lake), [1, 2]);
    assert_eq!(table(&lake)["current_snapshot_id"], a["snapshot_id"]);
    assert_eq!(table(&lake)["refs"], json!({ "main": a["snapshot_id"], "audit": c["snapshot_id"] }));
    assert_eq!(ids(&lake, &table(&lake)["refs"]["audit"]), [1, 2, 11, 12, 21, 22]);
    assert_eq!(batches(&lake, &[]), [a["batch_id"].clone()]);
    let all = [&a, &b, &c].map(|report| report["batch_id"].clone());
    assert_eq!(batches(&lake, &["--branch", "audit"]), all);
    let show = lake.hexfloe(&["table", "show", TABLE, "--branch", "audit", "--json"]).ends(Exit::Done).report();
    assert_eq!((&show["snapshot_id"], &show["rows"]), (&c["snapshot_id"], &json!(6)));
    assert_eq!(show["ledger_batches"], 3);

    // A branch knows its batches, and main does not count them.
    lake.ingest(&["b.toml", "--branch", "audit"]).skipped();
    lake.ingest(&["a.toml", "--branch", "audit"]).skipped();
    assert_eq!(lake.ingest(&["b.toml", "--dry-run"]).ends(Exit::Done).report()["status"], "unchanged");

    let published = lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit", "--json"]).ends(Exit::Done).report();
    assert_eq!(
        published,
        json!({
            "version": 1,
            "table": TABLE,
            "branch": "audit",
            "kept": false,
            "from": a["snapshot_id"],
            "to": c["snapshot_id"],
            "batches": [b["batch_id"], c["batch_id"]],
        })
    );
    assert_eq!(on_main(&lake), [1, 2, 11, 12, 21, 22]);
    assert_eq!(table(&lake)["refs"], json!({ "main": c["snapshot_id"] }));
    assert_eq!(json!(lake.ledger(TABLE)), json!(all));
    for job in ["a.toml", "b.toml", "c.toml"] {
        lake.ingest(&[job]).skipped();
    }
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn a_published_branch_can_be_kept_and_go_on() {
    let lake = lake();
    lake.ingest(&["a.toml"]).committed();
    let b = lake.ingest(&["b.toml", "--branch", "audit"]).committed();
    let run = lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit", "--keep"]).ends(Exit::Done);
    let batch = b["batch_id"].as_str().unwrap();
    assert!(run.stdout.is_empty() && run.stderr.contains("published branch audit, which is kept"), "{run:?}");
    assert!(run.stderr.contains(batch), "{run:?}");
    assert_eq!(table(&lake)["refs"], json!({ "main": b["snapshot_id"], "audit": b["snapshot_id"] }));
    lake.ingest(&["c.toml", "--branch", "audit"]).committed();
    lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit"]).ends(Exit::Done);
    assert_eq!(on_main(&lake), [1, 2, 11, 12, 21, 22]);
}

#[test]
fn a_branch_is_not_published_over_what_main_got_meanwhile() {
    let lake = lake();
    lake.ingest(&["a.toml"]).committed();
    lake.ingest(&["b.toml", "--branch", "audit"]).committed();
    lake.ingest(&["c.toml"]).committed();
    let before = lake.state();
    let publish = ["table", "publish", TABLE, "--branch", "audit"];
    lake.hexfloe(&publish).refuses(Exit::Usage, &["error: ", TABLE, "audit", "would lose them"]);
    let run = lake.hexfloe(&[&publish[..], &["--json"]].concat()).ends(Exit::Usage);
    assert_eq!(run.stdout, "");
    assert_eq!(lake.state(), before);
    assert_eq!(on_main(&lake), [1, 2, 21, 22]);
}

#[test]
fn a_branch_of_a_new_table_is_its_first_snapshot() {
    let lake = lake();
    let a = lake.ingest(&["a.toml", "--branch", "audit"]).committed();
    assert_eq!(table(&lake)["current_snapshot_id"], Value::Null);
    assert_eq!(table(&lake)["refs"], json!({ "audit": a["snapshot_id"] }));
    assert_eq!(table(&lake)["snapshots"][0]["parent"], Value::Null);
    assert_eq!(on_main(&lake), [0_u64; 0]);
    assert_eq!(ids(&lake, &a["snapshot_id"]), [1, 2]);
    lake.ingest(&["b.toml", "--branch", "audit"]).committed();
    let published = lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit", "--json"]).ends(Exit::Done).report();
    assert_eq!(published["from"], Value::Null);
    assert_eq!(on_main(&lake), [1, 2, 11, 12]);
    lake.ingest(&["a.toml"]).skipped();
}

#[test]
fn a_branch_is_told_in_reports_and_that_it_is_new_in_sentences() {
    let lake = lake();
    let a = lake.ingest(&["a.toml"]).committed();
    assert!(a.get("branch").is_none(), "{a:#}");
    let dry = lake.hexfloe(&["ingest", "b.toml", "--branch", "audit", "--dry-run"]).ends(Exit::Done);
    assert!(dry.stderr.contains("branch audit of ns.points would be new"), "{dry:?}");
    let run = lake.hexfloe(&["ingest", "b.toml", "c.toml", "--branch", "audit"]).ends(Exit::Done);
    assert!(run.stderr.contains("committed 2 rows to ns.points (branch audit)"), "{run:?}");
    assert_eq!(run.stderr.matches("branch audit of ns.points is new").count(), 1, "{run:?}");
    let again = lake.ingest(&["b.toml", "--branch", "audit"]).skipped();
    assert_eq!(again["branch"], "audit");
    let misspelt = lake.hexfloe(&["ingest", "a.toml", "--branch", "audti"]).ends(Exit::Done);
    assert!(misspelt.stderr.contains("there is no branch audti of ns.points"), "{misspelt:?}");
    assert!(table(&lake)["refs"].get("audti").is_none());
}

#[test]
fn table_show_lists_branches_and_batches_tells_where_to_look() {
    let lake = lake();
    let a = lake.ingest(&["a.toml", "--branch", "audit"]).committed();
    let listed = lake.hexfloe(&["batches", TABLE]).ends(Exit::Done);
    assert!(listed.stderr.contains("main has no snapshot yet; there is branch audit"), "{listed:?}");
    assert!(lake.hexfloe(&["batches", TABLE, "--json"]).ends(Exit::Done).report()["batches"] == json!([]));
    let b = lake.ingest(&["b.toml"]).committed();
    let show = lake.hexfloe(&["table", "show", TABLE, "--json"]).ends(Exit::Done).report();
    assert_eq!(show["branches"], json!({ "audit": a["snapshot_id"], "main": b["snapshot_id"] }));
    assert_eq!(show["tags"], json!({}));
    let people = lake.hexfloe(&["table", "show", TABLE]).ends(Exit::Done).stdout;
    assert!(people.contains(&format!("audit at snapshot {}\n", a["snapshot_id"])), "{people}");
    let batches = lake.hexfloe(&["batches", TABLE]).ends(Exit::Done);
    assert!(batches.stderr.is_empty() && batches.stdout.contains(&b["snapshot_id"].to_string()), "{batches:?}");
}

#[test]
fn a_branch_that_cannot_be_published_is_dropped_and_its_batches_ingested_again() {
    let lake = lake();
    lake.ingest(&["a.toml"]).committed();
    let b = lake.ingest(&["b.toml", "--branch", "audit"]).committed();
    let c = lake.ingest(&["c.toml"]).committed();
    let drop = ["table", "drop-branch", TABLE, "--branch", "audit"];
    let refused = lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit"]).ends(Exit::Usage);
    assert!(refused.stderr.contains(&format!("hexfloe {}", drop.join(" "))), "{refused:?}");
    let dropped = lake.hexfloe(&[&drop[..], &["--json"]].concat()).ends(Exit::Done).report();
    assert_eq!(
        dropped,
        json!({
            "version": 1,
            "table": TABLE,
            "branch": "audit",
            "from": b["snapshot_id"],
            "batches": [b["batch_id"]],
        })
    );
    assert_eq!(table(&lake)["refs"], json!({ "main": c["snapshot_id"] }));
    let properties = table(&lake)["properties"].as_object().unwrap().clone();
    assert!(!properties.keys().any(|name| name.ends_with(".audit")), "{properties:#?}");
    lake.ingest(&["b.toml", "--branch", "audit"]).committed();
    let run = lake.hexfloe(&drop).ends(Exit::Done);
    assert!(run.stdout.is_empty() && run.stderr.contains("dropped branch audit of ns.points"), "{run:?}");
    lake.ingest(&["b.toml"]).committed();
    assert_eq!(on_main(&lake), [1, 2, 11, 12, 21, 22]);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

/// What was written to a branch and is wanted on main after all is ingested there as if it were new.
#[test]
fn the_same_batch_can_be_on_a_branch_and_on_main() {
    let lake = lake();
    lake.ingest(&["a.toml"]).committed();
    lake.ingest(&["b.toml", "--branch", "audit"]).committed();
    lake.ingest(&["b.toml"]).committed();
    assert_eq!(on_main(&lake), [1, 2, 11, 12]);
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn groups_go_to_a_branch_too() {
    let lake = lake();
    lake.ingest(&["a.toml"]).committed();
    lake.ingest(&["b.toml", "c.toml", "--group", "2", "--branch", "audit"]).ends(Exit::Done);
    assert_eq!((snapshots(&lake), on_main(&lake)), (2, vec![1, 2]));
    lake.hexfloe(&["table", "publish", TABLE, "--branch", "audit"]).ends(Exit::Done);
    assert_eq!(on_main(&lake), [1, 2, 11, 12, 21, 22]);
}

#[rstest]
#[case(&["ingest", "a.toml", "--branch", "no/name"], &["no/name", "is no name for a branch"])]
#[case(&["table", "publish", "ns.points", "--branch", "none"], &["ns.points", "no branch `none`"])]
#[case(&["table", "publish", "ns.points", "--branch", "main"], &["ns.points", "main"])]
#[case(&["table", "publish", "ns.none", "--branch", "audit"], &["ns.none", "does not exist"])]
#[case(&["table", "drop-branch", "ns.points", "--branch", "none"], &["ns.points", "no branch `none`"])]
#[case(&["table", "drop-branch", "ns.points", "--branch", "main"], &["ns.points", "main", "not dropped"])]
#[case(&["table", "show", "ns.points", "--branch", "none"], &["ns.points", "no branch `none`"])]
#[case(&["batches", "ns.points", "--branch", "none"], &["ns.points", "no branch `none`"])]
#[case(&["table", "rollback", "ns.points", "--to-snapshot", "12345"], &["ns.points", "12345", "ancestor"])]
#[case(&["table", "rollback", "ns.points", "--before-batch", "12345"], &["ns.points", "12345", "batch"])]
#[case(&["table", "rollback", "points", "--to-snapshot", "1"], &["points", "is not a table"])]
fn what_cannot_be_done_with_a_branch_is_refused_with_the_reason(#[case] arguments: &[&str], #[case] words: &[&str]) {
    let lake = lake();
    lake.ingest(&["b.toml"]).committed();
    let before = lake.state();
    lake.hexfloe(arguments).refuses(Exit::Usage, words);
    assert_eq!(lake.state(), before);
}

#[test]
fn a_new_table_is_not_made_for_a_branch_that_cannot_be() {
    let lake = lake();
    lake.ingest(&["a.toml", "--branch", "no/name"]).refuses(Exit::Usage, &["no/name", "is no name for a branch"]);
    assert!(lake.state().is_empty(), "{:#?}", lake.state());
}

#[test]
fn batches_after_a_rollback_are_ingested_again() {
    let lake = lake();
    let [a, b, c] = ["a.toml", "b.toml", "c.toml"].map(|job| lake.ingest(&[job]).committed());
    let to = a["snapshot_id"].to_string();
    let rolled_back = lake.hexfloe(&["table", "rollback", TABLE, "--to-snapshot", &to, "--json"]).ends(Exit::Done);
    assert_eq!(
        rolled_back.report(),
        json!({
            "version": 1,
            "table": TABLE,
            "from": c["snapshot_id"],
            "to": a["snapshot_id"],
            "undone": [b["batch_id"], c["batch_id"]],
        })
    );
    assert_eq!(on_main(&lake), [1, 2]);
    assert_eq!(json!(lake.ledger(TABLE)), json!([a["batch_id"]]));

    lake.ingest(&["a.toml"]).skipped();
    let again = ["b.toml", "c.toml"].map(|job| lake.ingest(&[job]).committed());
    assert_eq!(again.each_ref().map(|report| &report["replaced_rows"]), [0, 0]);
    assert_eq!(on_main(&lake), [1, 2, 11, 12, 21, 22]);
    assert_eq!(json!(lake.ledger(TABLE)), json!([a["batch_id"], b["batch_id"], c["batch_id"]]));
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn a_rollback_goes_to_the_snapshot_before_a_batch() {
    let lake = lake();
    let [a, b, _] = ["a.toml", "b.toml", "c.toml"].map(|job| lake.ingest(&[job]).committed());
    let batch = b["batch_id"].as_str().unwrap();
    let run = lake.hexfloe(&["table", "rollback", TABLE, "--before-batch", batch]).ends(Exit::Done);
    assert!(run.stdout.is_empty() && run.stderr.contains("2 batches undone"), "{run:?}");
    assert!(run.stderr.contains(batch) && run.stderr.contains(&a["snapshot_id"].to_string()), "{run:?}");
    assert_eq!(on_main(&lake), [1, 2]);

    // Before the first there is nothing to go back to.
    let first = a["batch_id"].as_str().unwrap();
    lake.hexfloe(&["table", "rollback", TABLE, "--before-batch", first])
        .refuses(Exit::Usage, &[first, "first snapshot"]);
    lake.ingest(&["b.toml", "c.toml", "--group", "2"]).ends(Exit::Done);
    assert_eq!(on_main(&lake), [1, 2, 11, 12, 21, 22]);
}

/// Forgets every snapshot but the current one.
fn expire_all(lake: &Lake) {
    let table = table(lake);
    let old: Vec<&Value> = table["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|snapshot| &snapshot["id"])
        .filter(|id| **id != table["current_snapshot_id"])
        .collect();
    lake.ask("do_expire", json!({ "table": TABLE, "snapshots": old }));
    assert_eq!(snapshots(lake), 1);
}

#[test]
fn a_replay_after_all_snapshots_have_expired_does_nothing() {
    let lake = lake();
    for job in ["a.toml", "b.toml", "c.toml"] {
        lake.ingest(&[job]).committed();
    }
    expire_all(&lake);
    for job in ["a.toml", "b.toml", "c.toml"] {
        lake.ingest(&[job]).skipped();
    }
    let run = lake.ingest(&["a.toml", "b.toml", "c.toml", "--group", "3"]).ends(Exit::Done);
    assert_eq!(run.stdout.matches("\"skipped\"").count(), 3);
    assert_eq!((snapshots(&lake), on_main(&lake)), (1, vec![1, 2, 11, 12, 21, 22]));
}

/// The ledger has lost the batch and its snapshot is gone: its rows are replaced by themselves.
#[test]
fn a_replay_of_an_evicted_batch_leaves_the_rows_exact_in_one_snapshot_more() {
    let lake = lake();
    let [_, b, c] = ["a.toml", "b.toml", "c.toml"].map(|job| lake.ingest(&[job]).committed());
    expire_all(&lake);
    let kept = json!([b["batch_id"], c["batch_id"]]).to_string();
    lake.ask("do_set", json!({ "table": TABLE, "name": "ingest.completed_batches", "value": kept }));
    let report = lake.ingest(&["a.toml"]).committed();
    assert_eq!(report["replaced_rows"], 2);
    assert_eq!((snapshots(&lake), on_main(&lake)), (2, vec![1, 2, 11, 12, 21, 22]));
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}
