//! What a dropped table left goes when no table of the catalog can need it.

use std::collections::BTreeSet;

use hexfloe_tests::{Backend, Exit, Lake, Run, json};
use rstest::rstest;

use crate::cleanup::{NOW, OLD, TABLE, aged, holds, ingest, keys, location, noted, plant, warehouse};

fn dropped(lake: &Lake, location: &str, more: &[&str]) -> Run {
    lake.hexfloe(&[&["cleanup", "dropped", "--location", location, "--json"], more].concat())
}

/// A dry run and `--apply` end alike, with a line that holds all of `words`, and leave every byte as it was.
#[track_caller]
fn refuses(lake: &Lake, location: &str, more: &[&str], words: &[&str]) {
    let before = lake.state();
    let said = [&[][..], &["--apply"]].map(|apply| {
        let run = dropped(lake, location, &[more, apply].concat()).refuses(Exit::Refused, words);
        assert_eq!(lake.state(), before, "{apply:?}");
        run.stderr
    });
    assert_eq!(said[0], said[1]);
}

#[rstest]
fn a_dropped_table_goes_whole_and_one_of_the_same_name_stays(
    #[values(Backend::Sqlite, Backend::PostgresS3)] backend: Backend,
) {
    let lake = Lake::on(backend).and_points("");
    ingest(&lake, 0, &[]).committed();
    ingest(&lake, 0, &["--force"]).committed();
    let old = location(&lake, TABLE);
    let uuid = lake.ask("table", json!({ "table": TABLE }))["uuid"].clone();
    let files = keys(&lake.ask("below", json!({ "location": old })));
    let mine = plant(&lake, TABLE, &["notes.md"]);
    let margin = aged(&lake);
    refuses(&lake, &old, margin, &[&old, TABLE, "claims"]);
    lake.ask("do_drop", json!({ "table": TABLE }));
    // A table is never made where one was.
    ingest(&lake, 0, &[]).committed();
    ingest(&lake, 3, &[]).committed();
    let new = location(&lake, TABLE);
    assert_ne!(new, old);
    assert_eq!(keys(&lake.ask("below", json!({ "location": old }))).len(), files.len() + 1);
    let theirs = lake.ask("below", json!({ "location": new }));

    let before = lake.state();
    let dry = dropped(&lake, &old, &[margin, &["--report", "files.ndjson"]].concat()).ends(Exit::Done).report();
    assert_eq!(noted(&lake, "files.ndjson", "orphan"), files, "{dry:#}");
    assert_eq!((&dry["version"], &dry["uuid"], &dry["asked"]), (&json!(1), &uuid, &json!(1)), "{dry:#}");
    assert_eq!((&dry["files"]["files"], &dry["unknown"]["files"]), (&json!(files.len()), &json!(1)), "{dry:#}");
    assert_eq!(lake.state(), before, "a dry run");
    let report = dropped(&lake, &old, &[margin, &["--apply", "--report", "files.ndjson"]].concat());
    let report = report.ends(Exit::Done).report();
    assert_eq!((&report["removed"], &report["failed"]["files"]), (&dry["files"], &json!(0)), "{report:#}");
    assert_eq!(noted(&lake, "files.ndjson", "removed"), files);
    assert_eq!(keys(&lake.ask("below", json!({ "location": old }))), mine);
    assert_eq!(lake.ask("below", json!({ "location": new })), theirs);
    holds(&lake, TABLE, 6);
    // Nothing says any more that there was a table.
    refuses(&lake, &old, margin, &[&old, "no metadata file"]);
}

#[test]
fn a_place_that_may_be_in_use_is_refused() {
    let lake = Lake::new().and_points("");
    ingest(&lake, 0, &[]).committed();
    let (old, root) = (location(&lake, TABLE), format!("file://{}", warehouse(&lake)));
    let table = lake.ask("table", json!({ "table": TABLE }));
    let (uuid, file) = (table["uuid"].as_str().unwrap(), table["metadata_location"].as_str().unwrap());
    lake.ask("do_drop", json!({ "table": TABLE }));

    // Somebody may still write there.
    let words = [&old, "younger than the margin"];
    refuses(&lake, &old, &[], &words);
    lake.ask("do_age", json!({ "hours": OLD }));
    let young = format!("{old}/data/young.txt");
    lake.ask("do_write", json!({ "files": { young.clone(): "x" } }));
    refuses(&lake, &old, &[], &[&old, &young, "younger than the margin"]);
    lake.ask("do_remove", json!({ "location": young }));
    refuses(&lake, &old, &["--older-than", "1h"], &[&old, "24 h", "--i-understand-younger-than-24h"]);
    dropped(&lake, &old, &["--older-than", "24h"]).ends(Exit::Done);

    // It came back under another name.
    lake.ask("do_register", json!({ "table": "ns.again", "metadata_location": file }));
    refuses(&lake, &old, &[], &[&old, "ns.again", "claims", uuid]);
    lake.ask("do_drop", json!({ "table": "ns.again" }));

    // Another table refers to one of its files.
    let data = keys(&lake.ask("below", json!({ "location": format!("{old}/data") })));
    lake.ask("do_make_table", json!({ "table": "ns.adopts", "rows": [[1]] }));
    lake.ask("do_adopt", json!({ "table": "ns.adopts", "path": data.first() }));
    refuses(&lake, &old, &[], &[&old, "ns.adopts", "claims", data.first().unwrap()]);
    lake.ask("do_drop", json!({ "table": "ns.adopts" }));

    // Another table lies in it, or around it, or writes there.
    lake.ask("do_make_table", json!({ "table": "ns.inner", "location": format!("{old}/data/inner") }));
    refuses(&lake, &old, NOW, &[&old, ".metadata.json", "another table"]);
    lake.ask("do_drop", json!({ "table": "ns.inner" }));
    refuses(&lake, &old, NOW, &[&old, ".metadata.json", "another table"]);
    for file in keys(&lake.ask("below", json!({ "location": format!("{old}/data/inner") }))) {
        lake.ask("do_remove", json!({ "location": file }));
    }
    lake.ask("do_make_table", json!({ "table": "ns.around", "location": root }));
    refuses(&lake, &old, &[], &[&old, "ns.around", "claims", &root]);
    lake.ask("do_drop", json!({ "table": "ns.around" }));
    let properties = json!({ "write.data.path": format!("{old}/data") });
    lake.ask("do_make_table", json!({ "table": "ns.writes", "properties": properties }));
    refuses(&lake, &old, &[], &[&old, "ns.writes", "claims"]);
    lake.ask("do_drop", json!({ "table": "ns.writes" }));

    // What cannot be read may need it.
    lake.ask("do_make_table", json!({ "table": "ns.torn", "rows": [[1]] }));
    let torn = lake.ask("table", json!({ "table": "ns.torn" }))["metadata_location"].clone();
    lake.ask("do_copy", json!({ "source": torn, "target": torn, "cut": 100 }));
    refuses(&lake, &old, &[], &["ns.torn", "cannot be read"]);
    lake.ask("do_forget", json!({ "table": "ns.torn" }));

    dropped(&lake, &old, &["--apply"]).ends(Exit::Done);
    assert_eq!(keys(&lake.ask("below", json!({ "location": old }))), BTreeSet::new());
}

#[test]
fn a_dropped_table_that_did_not_let_go_of_files_keeps_them() {
    let lake = Lake::new().and_points("");
    ingest(&lake, 0, &[]).committed();
    let old = location(&lake, TABLE);
    lake.ask("do_set", json!({ "table": TABLE, "name": "gc.enabled", "value": "false" }));
    lake.ask("do_drop", json!({ "table": TABLE }));
    lake.ask("do_age", json!({ "hours": OLD }));
    refuses(&lake, &old, &[], &[&old, "gc.enabled", "false"]);
}

#[test]
fn a_dropped_table_in_quarantine_comes_back() {
    let lake = Lake::new().and_points("");
    ingest(&lake, 0, &[]).committed();
    let (old, file) =
        (location(&lake, TABLE), lake.ask("table", json!({ "table": TABLE }))["metadata_location"].clone());
    let quarantine = format!("file://{}", lake.path("quarantine").display());
    lake.ask("do_drop", json!({ "table": TABLE }));
    lake.ask("do_age", json!({ "hours": OLD }));
    let before = lake.state();
    dropped(&lake, &old, &["--apply", "--quarantine", &quarantine]).ends(Exit::Done);
    assert_eq!(keys(&lake.ask("below", json!({ "location": old }))), BTreeSet::new());
    let restore = ["cleanup", "restore", "--quarantine", &quarantine, "--apply"];
    lake.hexfloe(&restore).ends(Exit::Done);
    assert_eq!(lake.state(), before);
    lake.ask("do_register", json!({ "table": TABLE, "metadata_location": file }));
    holds(&lake, TABLE, 3);
    ingest(&lake, 0, &[]).skipped();
}
