//! When it is not certain that only orphans would go, nothing goes, and the person is told why and what to do.

use std::collections::BTreeSet;

use hexfloe_tests::{Backend, Exit, Lake, SeaweedFs, Value, json};
use rstest::rstest;

use crate::cleanup::{
    NOW, OLD, TABLE, aged, holds, ingest, keys, location, of_one_table, orphans_of, place, plant, removes_exactly,
    rows, unreferenced,
};

const ORPHAN: &str = "data/00000-0-0195b0a2-6f1e-7cc3-98c4-dc0c0c07398f.parquet";
const OTHER: &str = "00000-0195b0a2-6f1e-7cc3-98c4-dc0c0c073990";

/// A dry run and `--apply` end alike, with a line that holds all of `words`, and leave every byte as it was.
#[track_caller]
fn refuses(lake: &Lake, table: &str, more: &[&str], words: &[&str]) {
    let before = lake.state();
    let said = [&[][..], &["--apply"]].map(|apply| {
        let run = orphans_of(lake, table, &[more, apply].concat()).refuses(Exit::Refused, words);
        let report = run.report();
        let told = &report["tables"][0];
        assert_eq!((&told["status"], &told["code"], &told["table"]), (&json!("failed"), &json!(8), &json!(table)));
        assert!(run.stderr.contains(told["error"].as_str().unwrap()), "{}\n{told:#}", run.stderr);
        assert_eq!(lake.state(), before, "{apply:?}");
        run.stderr
    });
    assert_eq!(said[0], said[1]);
}

/// A table of two batches, with something that could go.
fn with_an_orphan(backend: Backend) -> Lake {
    let lake = Lake::on(backend).and_points("");
    ingest(&lake, 0, &[]).committed();
    ingest(&lake, 3, &[]).committed();
    plant(&lake, TABLE, &[ORPHAN]);
    aged(&lake);
    lake
}

/// What the refused table could do without is removed once the reason has gone.
#[track_caller]
fn is_cleaned(lake: &Lake, more: &[&str]) {
    let orphans = unreferenced(lake, TABLE);
    assert!(orphans.iter().any(|orphan| orphan.ends_with(ORPHAN)), "{orphans:#?}");
    removes_exactly(lake, TABLE, &orphans, more);
    holds(lake, TABLE, 6);
}

// ---------------------------------------------------------------- the table says no

#[test]
fn a_table_that_does_not_let_go_of_files_is_refused_however_it_says_so() {
    let lake = with_an_orphan(Backend::Sqlite);
    let set = |value: Option<&str>| {
        lake.ask("do_set", json!({ "table": TABLE, "name": "gc.enabled", "value": value }));
    };
    for value in ["FALSE", "false", " no ", "0", ""] {
        set(Some(value));
        refuses(&lake, TABLE, &[], &[TABLE, "gc.enabled", &format!("{value:?}")]);
        let before = lake.state();
        for apply in [&[][..], &["--apply"]] {
            let run = lake.hexfloe(&[&["cleanup", "snapshots", TABLE, "--older-than", "0s"], apply].concat());
            run.refuses(Exit::Refused, &[TABLE, "gc.enabled"]);
        }
        assert_eq!(lake.state(), before);
    }
    for value in [Some("true"), Some(" True "), Some("TRUE"), None] {
        set(value);
        assert_eq!(of_one_table(orphans_of(&lake, TABLE, &[]))["orphans"]["files"], 1, "{value:?}");
    }
}

// ---------------------------------------------------------------- tables that share a place

#[rstest]
#[case::beside(&format!("metadata/{OTHER}.metadata.json"), json!({}), "uuid")]
#[case::in_a_folder_of_its_own(&format!("b/metadata/{OTHER}.metadata.json"), json!({}), "uuid")]
#[case::among_data(&format!("data/b/metadata/{OTHER}.metadata.json"), json!({}), "uuid")]
#[case::packed(&format!("metadata/{OTHER}.gz.metadata.json"), json!({ "packed": true }), "uuid")]
#[case::packed_as_hadoop_has_it(&format!("b/{OTHER}.metadata.json.gz"), json!({ "packed": true }), "uuid")]
#[case::packed_and_named_as_if_it_were_not("metadata/v1.metadata.json", json!({ "packed": true }), "uuid")]
#[case::torn(&format!("metadata/{OTHER}.metadata.json"), json!({ "cut": 20 }), "cannot be read")]
#[case::packed_and_torn(&format!("metadata/{OTHER}.gz.metadata.json"), json!({ "packed": true, "cut": 15 }), "cannot be read")]
#[case::empty(&format!("metadata/{OTHER}.metadata.json"), json!({ "cut": 0 }), "cannot be read")]
fn metadata_of_another_table_in_the_location_is_refused(#[case] name: &str, #[case] how: Value, #[case] says: &str) {
    foreign_metadata_is_refused(Backend::Sqlite, name, &how, says);
}

#[rstest]
#[case::packed(&format!("b/{OTHER}.gz.metadata.json"), json!({ "packed": true }), "uuid")]
#[case::torn(&format!("metadata/{OTHER}.metadata.json"), json!({ "cut": 20 }), "cannot be read")]
#[case::empty(&format!("metadata/{OTHER}.metadata.json"), json!({ "cut": 0 }), "cannot be read")]
fn metadata_of_another_table_is_refused_on_s3(#[case] name: &str, #[case] how: Value, #[case] says: &str) {
    foreign_metadata_is_refused(Backend::PostgresS3, name, &how, says);
}

#[track_caller]
fn foreign_metadata_is_refused(backend: Backend, name: &str, how: &Value, says: &str) {
    let lake = with_an_orphan(backend);
    lake.ask("do_make_table", json!({ "table": "ns.other", "rows": [[1]] }));
    let source = lake.ask("table", json!({ "table": "ns.other" }));
    let target = format!("{}/{name}", location(&lake, TABLE));
    let mut request = json!({ "source": source["metadata_location"], "target": target });
    request.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
    lake.ask("do_copy", request);
    // Its age does not matter: it says that somebody else is here.
    let uuid = if says == "uuid" { source["uuid"].as_str().unwrap() } else { says };
    let margin = if lake.is_remote() { NOW } else { &[] };
    refuses(&lake, TABLE, margin, &[TABLE, &target, uuid]);
    lake.ask("do_remove", json!({ "location": target }));
    is_cleaned(&lake, aged(&lake));
}

#[test]
fn tables_in_one_another_and_in_one_place_are_refused_and_the_others_are_cleaned() {
    let lake = with_an_orphan(Backend::Sqlite);
    let root = format!("file://{}", lake.path("lake/warehouse").display());
    let make = |table: &str, location: &str| {
        lake.ask("do_make_table", json!({ "table": table, "location": location, "rows": [[1, 2]] }));
    };
    make("pair.a", &format!("{root}/shared"));
    make("pair.b", &format!("{root}/shared"));
    make("nest.outer", &format!("{root}/outer"));
    make("nest.inner", &format!("{root}/outer/data/inner"));
    lake.ask("do_age", json!({ "hours": OLD }));

    for (table, other) in
        [("pair.a", "pair.b"), ("pair.b", "pair.a"), ("nest.outer", "nest.inner"), ("nest.inner", "nest.outer")]
    {
        refuses(&lake, table, &[], &[table, "overlaps", other]);
    }
    let before = lake.state();
    for apply in [&[][..], &["--apply"]] {
        let run = lake.hexfloe(&[&["cleanup", "orphans", "--all", "--json"], apply].concat()).ends(Exit::Refused);
        let report = run.report();
        let tables = report["tables"].as_array().unwrap();
        let names: Vec<_> = tables.iter().map(|told| told["table"].as_str().unwrap()).collect();
        assert_eq!(names, ["nest.inner", "nest.outer", TABLE, "pair.a", "pair.b"]);
        for (told, other) in [(0, "nest.outer"), (1, "nest.inner"), (3, "pair.b"), (4, "pair.a")] {
            let error = tables[told]["error"].as_str().unwrap();
            assert!(error.contains("overlaps") && error.contains(other), "{error}");
            assert_eq!(tables[told]["code"], 8);
        }
        assert_eq!((&tables[2]["status"], &tables[2]["orphans"]["files"]), (&json!("done"), &json!(1)));
        let mut wanted = before.files.clone();
        wanted.retain(|file, _| apply.is_empty() || !file.ends_with(ORPHAN));
        assert_eq!(lake.state().files, wanted);
    }
    let run = lake.hexfloe(&["cleanup", "orphans", "--namespace", "ns", "--json"]).ends(Exit::Done);
    assert_eq!(run.report()["tables"].as_array().unwrap().len(), 1);
}

#[test]
fn a_table_whose_data_path_lies_in_another_table_keeps_its_files() {
    let lake = with_an_orphan(Backend::Sqlite);
    let theirs = format!("{}/data/theirs", location(&lake, TABLE));
    let properties = json!({ "write.data.path": theirs });
    lake.ask("do_make_table", json!({ "table": "ns.other", "properties": properties, "rows": [[1, 2]] }));
    lake.ask("do_age", json!({ "hours": OLD }));
    for apply in [&[][..], &["--apply"]] {
        let run = lake.hexfloe(&[&["cleanup", "orphans", "--all", "--json", "--max-fraction", "1"], apply].concat());
        let run = run.refuses(Exit::Refused, &[TABLE, "overlaps", "ns.other"]);
        // The other one is listed where its metadata is, and loses nothing there.
        let report = run.report();
        let told = |number: usize| (&report["tables"][number]["table"], &report["tables"][number]["status"]);
        assert_eq!(told(0), (&json!("ns.other"), &json!("done")));
        assert_eq!(told(1), (&json!(TABLE), &json!("failed")));
    }
    lake.nothing_wrong("unsound", json!({ "table": "ns.other" }));
}

#[test]
fn tables_that_share_a_place_for_data_are_cleaned_until_it_is_to_be_scanned() {
    let lake = with_an_orphan(Backend::Sqlite);
    let shared = format!("file://{}", lake.path("lake/warehouse/shared").display());
    lake.ask("do_set", json!({ "table": TABLE, "name": "write.data.path", "value": shared }));
    let properties = json!({ "write.data.path": shared });
    lake.ask("do_make_table", json!({ "table": "ns.other", "properties": properties, "rows": [[1, 2]] }));
    lake.ask("do_age", json!({ "hours": OLD }));
    refuses(&lake, TABLE, &["--owned", &shared], &[TABLE, &shared, "ns.other"]);
    refuses(&lake, "ns.other", &["--owned", &shared], &["ns.other", &shared, TABLE]);
    is_cleaned(&lake, &[]);
    lake.nothing_wrong("unsound", json!({ "table": "ns.other" }));
}

// ---------------------------------------------------------------- what cannot be read

#[derive(Clone, Copy, Debug)]
enum Damage {
    Gone,
    Empty,
    Torn,
    Garbage,
}

#[rstest]
fn a_manifest_or_a_manifest_list_that_cannot_be_read_is_refused(
    #[values(Backend::Sqlite, Backend::PostgresS3)] backend: Backend,
    #[values("manifest", "manifest_list")] which: &str,
) {
    let lake = Lake::on(backend).and_points("");
    let first = ingest(&lake, 0, &[]).committed()["snapshot_id"].clone();
    // What the first snapshot alone has.
    ingest(&lake, 0, &["--force"]).committed();
    plant(&lake, TABLE, &[ORPHAN]);
    aged(&lake);
    let margin = if lake.is_remote() { NOW } else { &[] };
    let files = lake.ask("snapshot_files", json!({ "table": TABLE, "snapshot": first }));
    let (file, copy) = (files[which].as_str().unwrap(), format!("{}/data/copy", location(&lake, TABLE)));
    lake.ask("do_copy", json!({ "source": file, "target": copy }));
    for damage in [Damage::Gone, Damage::Empty, Damage::Torn, Damage::Garbage] {
        lake.ask("do_remove", json!({ "location": file }));
        match damage {
            Damage::Gone => {}
            Damage::Empty => drop(lake.ask("do_copy", json!({ "source": copy, "target": file, "cut": 0 }))),
            Damage::Torn => drop(lake.ask("do_copy", json!({ "source": copy, "target": file, "cut": 700 }))),
            Damage::Garbage => drop(lake.ask("do_write", json!({ "files": { file: "{}" } }))),
        }
        refuses(&lake, TABLE, margin, &[TABLE, file, "cannot be read"]);
        let before = lake.state();
        let expire = ["cleanup", "snapshots", TABLE, "--older-than", "0s", "--apply"];
        lake.hexfloe(&expire).refuses(Exit::Refused, &[TABLE, file, "cannot be read"]);
        assert_eq!(lake.state(), before, "{damage:?}");
    }
    lake.ask("do_copy", json!({ "source": copy, "target": file }));
    orphans_of(&lake, TABLE, margin).ends(Exit::Done);
}

#[rstest]
#[case(json!({ "cut": 300 }))]
#[case(json!({ "cut": 0 }))]
fn a_table_whose_metadata_cannot_be_read_is_refused_and_the_others_are_not(#[case] how: Value) {
    let lake = with_an_orphan(Backend::Sqlite);
    lake.ask("do_make_table", json!({ "table": "ns.torn", "rows": [[1]] }));
    let file = lake.ask("table", json!({ "table": "ns.torn" }))["metadata_location"].clone();
    let mut request = json!({ "source": file, "target": file });
    request.as_object_mut().unwrap().extend(how.as_object().unwrap().clone());
    lake.ask("do_copy", request);
    lake.ask("do_age", json!({ "hours": OLD }));
    refuses(&lake, "ns.torn", &[], &["ns.torn", "cannot be read"]);
    let report = lake.hexfloe(&["cleanup", "orphans", "--all", "--json"]).ends(Exit::Refused).report();
    assert_eq!(report["tables"][0]["orphans"]["files"], 1, "{report:#}");
}

// ---------------------------------------------------------------- spellings

#[rstest]
#[case::a_path("/snapshots/0/manifest-list")]
#[case::the_location("/location")]
fn a_scheme_that_differs_is_refused_unless_it_is_declared_to_be_the_same(#[case] pointer: &str) {
    let lake = with_an_orphan(Backend::PostgresS3);
    let mut metadata = lake.ask("metadata", json!({ "table": TABLE }));
    let value = metadata.pointer_mut(pointer).unwrap();
    let named = value.as_str().unwrap().to_owned();
    *value = json!(named.replace("s3://", "s3a://"));
    let current = lake.ask("table", json!({ "table": TABLE }))["metadata_location"].clone();
    let at = metadata["last-updated-ms"].clone();
    metadata["metadata-log"].as_array_mut().unwrap().push(json!({ "metadata-file": current, "timestamp-ms": at }));
    lake.ask("do_put_metadata", json!({ "table": TABLE, "metadata": metadata }));
    aged(&lake);
    let (listed, named) = if pointer == "/location" {
        (format!("{}/", named.replace("s3://", "s3a://")), format!("{named}/"))
    } else {
        (named.clone(), named.replace("s3://", "s3a://"))
    };
    let words = [TABLE, &listed, &named, "--equal-scheme", "s3a", "s3"];
    refuses(&lake, TABLE, NOW, &words);
    // Files are told as they are named, whatever else is declared.
    refuses(&lake, TABLE, &[NOW, &["--equal-scheme", "gs=s3"]].concat(), &words);
    // Said in either order.
    for equal in ["s3=s3a", "s3a=s3"] {
        let report = of_one_table(orphans_of(&lake, TABLE, &[NOW, &["--equal-scheme", equal]].concat()));
        assert_eq!(report["orphans"]["files"], 1, "{report:#}");
    }
    let orphans = unreferenced(&lake, TABLE);
    removes_exactly(&lake, TABLE, &orphans, &[NOW, &["--equal-scheme", "s3a=s3"]].concat());
    assert_eq!(lake.ask("count", json!({ "table": TABLE, "key": "id" })), json!({ "rows": 6, "distinct": 6 }));
}

#[test]
fn the_same_key_in_another_bucket_is_refused_and_no_option_allows_it() {
    let lake = with_an_orphan(Backend::PostgresS3);
    let mut metadata = lake.ask("metadata", json!({ "table": TABLE }));
    let here = metadata["snapshots"][0]["manifest-list"].as_str().unwrap().to_owned();
    let key = here.strip_prefix("s3://").unwrap().split_once('/').unwrap().1.to_owned();
    let there = format!("s3://{}/{key}", SeaweedFs::shared().bucket());
    lake.ask("do_copy", json!({ "source": here, "target": there }));
    metadata["snapshots"][0]["manifest-list"] = json!(there);
    lake.ask("do_put_metadata", json!({ "table": TABLE, "metadata": metadata }));
    aged(&lake);
    refuses(&lake, TABLE, NOW, &[TABLE, &here, &there, "different objects"]);
    refuses(&lake, TABLE, &[NOW, &["--equal-scheme", "s3=s3a"]].concat(), &[TABLE, &here, &there]);
}

#[rstest]
#[case::of_another_store("hdfs://names", &["hdfs://names", "different objects"])]
#[case::of_a_drive("C:", &["C:/", "cannot be compared"])]
#[case::relative("", &["cannot be compared"])]
fn a_path_that_is_no_local_one_is_refused(#[case] before: &str, #[case] says: &[&str]) {
    let lake = with_an_orphan(Backend::Sqlite);
    let mut metadata = lake.ask("metadata", json!({ "table": TABLE }));
    let orphan = place(&format!("{}/{ORPHAN}", location(&lake, TABLE)));
    let path = if before.is_empty() { orphan[1..].to_owned() } else { format!("{before}{orphan}") };
    metadata["statistics"] = json!([{
        "snapshot-id": metadata["current-snapshot-id"], "statistics-path": path, "file-size-in-bytes": 11,
        "file-footer-size-in-bytes": 4, "blob-metadata": [],
    }]);
    lake.ask("do_put_metadata", json!({ "table": TABLE, "metadata": metadata }));
    aged(&lake);
    refuses(&lake, TABLE, &[], &[&[TABLE, &path], says].concat());
}

// ---------------------------------------------------------------- what is asked for

#[test]
fn a_margin_of_less_than_a_day_needs_to_be_said_twice() {
    let lake = with_an_orphan(Backend::Sqlite);
    for age in ["0s", "23h", "1439m"] {
        let words = [TABLE, "24 h", "--i-understand-younger-than-24h"];
        refuses(&lake, TABLE, &["--older-than", age], &words);
    }
    is_cleaned(&lake, &["--older-than", "1h", "--i-understand-younger-than-24h"]);
}

#[test]
fn more_than_a_plausible_part_of_the_table_does_not_go() {
    let lake = with_an_orphan(Backend::Sqlite);
    let name = "data/00001-0-0195b0a2-6f1e-7cc3-98c4-dc0c0c07398f.parquet";
    lake.ask("do_write", json!({ "files": { format!("{}/{name}", location(&lake, TABLE)): "x".repeat(100_000) } }));
    aged(&lake);
    refuses(&lake, TABLE, &[], &[TABLE, "100011", "0.5", "--max-fraction"]);
    refuses(&lake, TABLE, &["--max-fraction", "0.75"], &[TABLE, "100011", "0.75", "--max-fraction"]);
    orphans_of(&lake, TABLE, &["--max-fraction", "1.5"]).refuses(Exit::Usage, &["0 to 1"]);
    is_cleaned(&lake, &["--max-fraction", "0.95"]);
}

#[test]
fn a_quarantine_that_would_be_cleaned_itself_is_refused() {
    let lake = with_an_orphan(Backend::Sqlite);
    let table = location(&lake, TABLE);
    let above = format!("file://{}", lake.path("lake").display());
    for quarantine in [&table, &format!("{table}/data/quarantine"), &above] {
        refuses(&lake, TABLE, &["--quarantine", quarantine], &[TABLE, "quarantine", quarantine]);
    }
    let before = lake.state();
    for other in ["s3://bucket/quarantine", "quarantine"] {
        orphans_of(&lake, TABLE, &["--quarantine", other, "--apply"]).refuses(Exit::Usage, &[other]);
    }
    assert_eq!(lake.state(), before);
}

#[rstest]
#[case::no_table(&["cleanup", "orphans"])]
#[case::a_table_and_all(&["cleanup", "orphans", TABLE, "--all"])]
#[case::a_place_of_several(&["cleanup", "orphans", "--all", "--owned", "/somewhere"])]
#[case::no_age(&["cleanup", "orphans", TABLE, "--older-than", "soon"])]
#[case::no_scheme(&["cleanup", "orphans", TABLE, "--equal-scheme", "s3a"])]
#[case::no_such_table(&["cleanup", "orphans", "ns.none"])]
#[case::none_is_kept(&["cleanup", "snapshots", TABLE, "--retain-last", "0"])]
#[case::no_location(&["cleanup", "dropped"])]
fn a_command_that_does_not_say_what_to_clean_is_a_usage_error(#[case] arguments: &[&str]) {
    let lake = Lake::with_points(&rows(0));
    lake.ingest(&["job.toml"]).committed();
    let before = lake.state();
    lake.hexfloe(arguments).ends(Exit::Usage);
    assert_eq!(lake.state(), before);
    assert_eq!(unreferenced(&lake, TABLE), BTreeSet::new());
    assert!(keys(&lake.ask("below", json!({ "location": location(&lake, TABLE) }))).len() > 3);
}
