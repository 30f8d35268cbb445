//! Cleaning up: what nothing refers to goes, and nothing else does.
//!
//! What may go is told by PyIceberg and a listing of their own (`unreferenced` in `tests/judge.py`), never by the cleaner.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use hexfloe_tests::{Backend, Exit, Lake, POINTS, Run, Value, json, pause};
use rstest::rstest;

pub(crate) const TABLE: &str = "ns.points";
/// A margin of nothing, which needs to be said twice.
pub(crate) const NOW: &[&str] = &["--older-than", "0s", "--i-understand-younger-than-24h"];
/// More than the default margin of three days.
pub(crate) const OLD: u64 = 4 * 24;
const UUID: &str = "0195b0a2-6f1e-7cc3-98c4-dc0c0c07398f";

/// `hexfloe cleanup orphans` of a table.
#[track_caller]
pub(crate) fn orphans_of(lake: &Lake, table: &str, more: &[&str]) -> Run {
    lake.hexfloe(&[&["cleanup", "orphans", table, "--json"], more].concat())
}

/// What a run over one table says of it.
#[track_caller]
pub(crate) fn of_one_table(run: Run) -> Value {
    let mut report = run.ends(Exit::Done).report();
    assert_eq!((&report["version"], &report["tables"][0]["status"]), (&json!(1), &json!("done")), "{report:#}");
    report["tables"][0].take()
}

/// The places of the files that a `--report` gives this fate.
#[track_caller]
pub(crate) fn noted(lake: &Lake, report: &str, fate: &str) -> BTreeSet<String> {
    let lines = std::fs::read_to_string(lake.path(report)).unwrap();
    let records = lines.lines().map(|line| line.parse::<Value>().unwrap());
    let chosen = records.filter(|record| record["fate"] == fate);
    chosen.map(|record| place(record["file"].as_str().unwrap())).collect()
}

/// One spelling for each file, as the judge has it.
pub(crate) fn place(location: &str) -> String {
    location.strip_prefix("file://").unwrap_or(location).replace("s3a://", "s3://")
}

/// The keys of an object.
#[track_caller]
pub(crate) fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

/// What lies in a table's location and is not its own, as PyIceberg and a listing see it.
#[track_caller]
pub(crate) fn unreferenced(lake: &Lake, table: &str) -> BTreeSet<String> {
    keys(&lake.ask("unreferenced", json!({ "table": table })))
}

#[track_caller]
pub(crate) fn location(lake: &Lake, table: &str) -> String {
    lake.ask("table", json!({ "table": table }))["location"].as_str().unwrap().to_owned()
}

/// Writes some bytes below a table's location; the places.
#[track_caller]
pub(crate) fn plant(lake: &Lake, table: &str, names: &[&str]) -> BTreeSet<String> {
    let location = location(lake, table);
    let files = names.iter().map(|name| (format!("{location}/{name}"), json!("left behind")));
    let files: serde_json::Map<String, Value> = files.collect();
    let places = files.keys().map(|file| place(file)).collect();
    lake.ask("do_write", json!({ "files": files }));
    places
}

/// The dry run names exactly these files and changes nothing; `--apply` removes exactly these, and leaves every other byte.
#[track_caller]
pub(crate) fn removes_exactly(lake: &Lake, table: &str, expected: &BTreeSet<String>, more: &[&str]) -> Value {
    let before = lake.state();
    let dry = of_one_table(orphans_of(lake, table, &[more, &["--report", "dry.ndjson"]].concat()));
    assert_eq!(noted(lake, "dry.ndjson", "orphan"), *expected, "{dry:#}");
    assert_eq!(dry["orphans"]["files"], expected.len(), "{dry:#}");
    assert_eq!(lake.state(), before, "a dry run");

    let report = of_one_table(orphans_of(lake, table, &[more, &["--apply", "--report", "applied.ndjson"]].concat()));
    assert_eq!(noted(lake, "applied.ndjson", "removed"), *expected, "{report:#}");
    assert_eq!((&report["removed"], &report["failed"]["files"]), (&dry["orphans"], &json!(0)), "{report:#}");
    let mut wanted = before;
    let warehouse = warehouse(lake);
    wanted.files.retain(|file, _| !expected.contains(&format!("{warehouse}/{file}")));
    assert_eq!(lake.state(), wanted, "what else changed");
    report
}

/// Where a lake's warehouse is, in the judge's spelling.
pub(crate) fn warehouse(lake: &Lake) -> String {
    let local = || lake.path("lake/warehouse").display().to_string();
    if lake.is_remote() { lake.catalog().get("warehouse").unwrap().to_owned() } else { local() }
}

/// A margin by which all files of the lake are old: on the local disk their times are set back, elsewhere they cannot be.
#[track_caller]
pub(crate) fn aged(lake: &Lake) -> &'static [&'static str] {
    if lake.is_remote() {
        pause(Duration::from_millis(1_100));
        return NOW;
    }
    lake.ask("do_age", json!({ "hours": OLD }));
    &[]
}

/// Ingests three rows as a batch of its own.
#[track_caller]
pub(crate) fn ingest(lake: &Lake, first: usize, more: &[&str]) -> Run {
    lake.write("points.csv", rows(first));
    lake.ingest(&[&["job.toml"], more].concat())
}

pub(crate) fn rows(first: usize) -> String {
    (first..first + 3).fold("id,lat,lon\n".to_owned(), |csv, id| csv + &format!("{id},{}.5,16.25\n", id % 80))
}

/// So many different rows are there for both engines, and every file of every snapshot is whole.
#[track_caller]
pub(crate) fn holds(lake: &Lake, table: &str, rows: usize) {
    for engine in ["pyiceberg", "duckdb"] {
        let counted = lake.ask("count", json!({ "table": table, "key": "id", "engine": engine }));
        assert_eq!(counted, json!({ "rows": rows, "distinct": rows }), "{engine}");
    }
    lake.nothing_wrong("unsound", json!({ "table": table }));
}

// ---------------------------------------------------------------- what goes

/// Partition values that stores and engines encode, or do not.
const ODD_VALUES: &str =
    "id,lat,lon,kind\n1,48.2,16.4,a b\n2,1.5,2.5,c:d\n3,3.5,4.5,e%20f\n4,5.5,6.5,~g\n5,7.5,8.5,ü/ö\n";

#[rstest]
fn what_nothing_refers_to_goes_from_odd_folders_too_and_what_people_put_there_stays(
    #[values(Backend::Sqlite, Backend::RestS3, Backend::PostgresS3)] backend: Backend,
) {
    let lake = Lake::on(backend);
    lake.write("job.toml", POINTS.to_owned() + "partition = [\"kind\"]\n");
    lake.write("points.csv", ODD_VALUES);
    lake.ingest(&["job.toml"]).committed();
    lake.ingest(&["job.toml", "--force"]).committed();
    assert_eq!(unreferenced(&lake, TABLE), BTreeSet::new());
    // What a table has is its own, however its folders are spelled.
    removes_exactly(&lake, TABLE, &BTreeSet::new(), aged(&lake));

    let mut names = vec![
        format!("data/00000-0-{UUID}.parquet"),
        format!("data/0cc175b9c0f1b6a831c399e269772661-{}-00000.parquet", UUID.replace('-', "")),
        format!("data/_h3=1/00000-1-{UUID}.parquet"),
        format!("data/.x=1/00000-2-{UUID}.parquet"),
        format!("data/a b/c:d/00000-3-{UUID}.parquet"),
        format!("data/k=e%20f/00000-4-{UUID}.parquet"),
        format!("data/k=100%/~g/ü/00000-5-{UUID}.parquet"),
        format!("metadata/snap-1-1-{UUID}.avro"),
        format!("metadata/{UUID}-m0.avro"),
    ];
    if backend == Backend::RestS3 {
        // A bucket of tables takes no other folders.
        names.retain(|name| name.matches('/').count() == 1);
    }
    if !lake.is_remote() {
        names.push(format!("data/00000-6-{UUID}.parquet#1"));
        names.push(format!("data/.00000-7-{UUID}.parquet.crc"));
    }
    // Neighbours of live files, in their folders.
    let beside: Vec<String> = lake.files(TABLE).iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    let location = place(&location(&lake, TABLE));
    for (number, path) in beside.iter().enumerate() {
        let (folder, _) = path.strip_prefix(&format!("{location}/")).unwrap().rsplit_once('/').unwrap();
        names.push(format!("{folder}/00001-{number}-{UUID}.parquet"));
    }
    let expected = plant(&lake, TABLE, &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(unreferenced(&lake, TABLE), expected);
    // A bucket of tables takes nothing but what looks like a table's.
    let mut kept = BTreeSet::new();
    if backend != Backend::RestS3 {
        kept = plant(&lake, TABLE, &["data/cities.parquet", "data/_SUCCESS", "notes.md", "metadata/old.json"]);
    }
    let margin = [aged(&lake), &["--max-fraction", "0.9"]].concat();
    let report = removes_exactly(&lake, TABLE, &expected, &margin);
    assert_eq!((noted(&lake, "applied.ndjson", "unknown"), unreferenced(&lake, TABLE)), (kept.clone(), kept));
    let attempt = json!({ "batch": "0cc175b9c0f1b6a831c399e269772661", "attempt": UUID.replace('-', ""), "files": 1, "bytes": 11 });
    let mut left = report["attempts"][0].clone();
    assert!(left.as_object_mut().unwrap().remove("since").is_some(), "{report:#}");
    assert_eq!(left, attempt, "{report:#}");
    holds(&lake, TABLE, 5);
    lake.ingest(&["job.toml"]).skipped();
    assert_eq!(lake.ingest(&["job.toml", "--force"]).committed()["replaced_rows"], 5);
}

#[test]
fn orphans_get_a_tag_instead_where_a_lifecycle_rule_removes_them() {
    let lake = Lake::on(Backend::PostgresS3).and_points(&rows(0));
    lake.ingest(&["job.toml"]).committed();
    let names = ["00000-0", "k=a b/00000-1"].map(|name| format!("data/{name}-{UUID}.parquet"));
    let orphans = plant(&lake, TABLE, &[&names[0], &names[1]]);
    let before = lake.ask("objects", json!({}));
    let margin = [aged(&lake), &["--max-fraction", "0.9", "--apply", "--tag", "state=or phan+1"]].concat();
    let report = of_one_table(orphans_of(&lake, TABLE, &margin));
    assert_eq!((&report["tagged"]["files"], &report["removed"]["files"]), (&json!(2), &json!(0)), "{report:#}");
    assert_eq!(lake.ask("objects", json!({})), before);
    let all: BTreeSet<String> = keys(&lake.ask("below", json!({ "location": location(&lake, TABLE) })));
    let tags = lake.ask("tags", json!({ "files": all }));
    for file in &all {
        let expected = if orphans.contains(file) { json!({ "state": "or phan+1" }) } else { json!({}) };
        assert_eq!(tags[file], expected, "{file}");
    }
    // On a disk nothing has tags.
    let local = Lake::with_points(&rows(0));
    local.ingest(&["job.toml"]).committed();
    let run = local.hexfloe(&["cleanup", "orphans", TABLE, "--tag", "state=orphan"]);
    run.refuses(Exit::Usage, &["only objects of S3 have tags"]);
}

#[test]
fn files_that_are_younger_than_the_margin_stay() {
    let lake = Lake::with_points(&rows(0));
    lake.ingest(&["job.toml"]).committed();
    let [old, young] = ["00000-0", "00000-1"].map(|name| format!("data/{name}-{UUID}.parquet"));
    let old = plant(&lake, TABLE, &[&old]);
    lake.ask("do_age", json!({ "hours": 25 }));
    let young = plant(&lake, TABLE, &[&young]);
    lake.ask("do_age", json!({ "hours": 23, "below": young.first() }));
    let report = removes_exactly(&lake, TABLE, &BTreeSet::new(), &[]);
    assert_eq!(report["young"]["files"], 2, "the margin is three days: {report:#}");
    let report = removes_exactly(&lake, TABLE, &old, &["--older-than", "24h"]);
    assert_eq!((&report["young"]["files"], &report["clock"]), (&json!(1), &json!("store")), "{report:#}");
}

#[test]
fn writers_do_not_notice_a_cleaner_that_runs_all_the_time() {
    let lake = Lake::with_points(&rows(0));
    lake.ingest(&["job.toml"]).committed();
    for batch in 1..13 {
        lake.write(&format!("{batch}.csv"), rows(batch * 3));
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let lake = &lake;
                scope.spawn(move || {
                    for batch in (1..13).filter(|batch| batch % 2 == writer) {
                        let paths = format!("source.paths=[\"{batch}.csv\"]");
                        lake.ingest(&["job.toml", "--set", &paths]).committed();
                    }
                })
            })
            .collect();
        let cleaner = scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let report = of_one_table(orphans_of(&lake, TABLE, &["--older-than", "24h", "--apply"]));
                assert_eq!(report["orphans"]["files"], 0, "{report:#}");
            }
        });
        let ended: Vec<_> = writers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        cleaner.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    holds(&lake, TABLE, 39);
    assert_eq!(unreferenced(&lake, TABLE), BTreeSet::new());
}

// ---------------------------------------------------------------- what is referenced, however old

#[test]
fn files_of_tags_branches_and_staged_snapshots_stay_however_old_they_are() {
    let lake = Lake::new().and_points("");
    let snapshots: Vec<Value> =
        (0..3).map(|batch| ingest(&lake, batch * 3, &[]).committed()["snapshot_id"].clone()).collect();
    lake.ask("do_ref", json!({ "table": TABLE, "snapshot": snapshots[0], "tag": "first" }));
    lake.ask("do_ref", json!({ "table": TABLE, "snapshot": snapshots[1], "branch": "audit" }));
    ingest(&lake, 30, &["--branch", "audit"]).committed();
    lake.ask("do_ref", json!({ "table": TABLE, "snapshot": snapshots[1], "branch": "staged" }));
    ingest(&lake, 60, &["--branch", "staged"]).committed();
    lake.hexfloe(&["table", "drop-branch", TABLE, "--branch", "staged"]).ends(Exit::Done);
    // Only the earlier snapshots have the files of before.
    ingest(&lake, 0, &["--force"]).committed();
    lake.ask("do_compact", json!({ "table": TABLE }));
    let table = lake.ask("table", json!({ "table": TABLE }));
    assert!(table["snapshots"].as_array().unwrap().len() >= 7, "{table:#}");
    assert_eq!(table["refs"].as_object().unwrap().len(), 3, "{table:#}");

    let planted = plant(&lake, TABLE, &[&format!("data/00000-0-{UUID}.parquet")]);
    assert_eq!(unreferenced(&lake, TABLE), planted);
    removes_exactly(&lake, TABLE, &planted, aged(&lake));
    holds(&lake, TABLE, 9);
    // The next writer finds all it needs.
    ingest(&lake, 30, &["--branch", "audit"]).skipped();
    assert_eq!(ingest(&lake, 30, &["--branch", "audit", "--force"]).committed()["replaced_rows"], 3);
}

#[rstest]
fn statistics_of_tables_and_partitions_stay(#[values(Backend::Sqlite, Backend::PostgresS3)] backend: Backend) {
    let lake = Lake::on(backend).and_points(&rows(0));
    let snapshot = lake.ingest(&["job.toml"]).committed()["snapshot_id"].clone();
    let location = location(&lake, TABLE);
    let names = ["stats", "partitions", "left"].map(|name| format!("metadata/{name}-{UUID}.puffin"));
    let [stats, partitions, left] = &names;
    plant(&lake, TABLE, &[stats, partitions]);
    let mut metadata = lake.ask("metadata", json!({ "table": TABLE }));
    let path = |name: &str| json!(format!("{location}/{name}"));
    metadata["statistics"] = json!([{
        "snapshot-id": snapshot, "statistics-path": path(stats), "file-size-in-bytes": 11, "file-footer-size-in-bytes": 4,
        "blob-metadata": [],
    }]);
    metadata["partition-statistics"] =
        json!([{ "snapshot-id": snapshot, "statistics-path": path(partitions), "file-size-in-bytes": 11 }]);
    // The metadata that was current before is in no log: it is left behind, too.
    let before = lake.ask("table", json!({ "table": TABLE }))["metadata_location"].clone();
    lake.ask("do_put_metadata", json!({ "table": TABLE, "metadata": metadata }));
    let mut expected = plant(&lake, TABLE, &[left]);
    expected.insert(place(before.as_str().unwrap()));
    assert_eq!(unreferenced(&lake, TABLE), expected);
    let margin = [aged(&lake), &["--max-fraction", "0.9"]].concat();
    removes_exactly(&lake, TABLE, &expected, &margin);
    holds(&lake, TABLE, 3);
}

#[rstest]
#[case(false)]
#[case(true)]
fn metadata_files_stay_while_the_log_has_them(#[case] writer_removes: bool) {
    let lake = Lake::new().and_points("");
    ingest(&lake, 0, &[]).committed();
    for (name, value) in [
        ("write.metadata.previous-versions-max", "2".to_owned()),
        ("write.metadata.delete-after-commit.enabled", writer_removes.to_string()),
    ] {
        lake.ask("do_set", json!({ "table": TABLE, "name": name, "value": value }));
    }
    for batch in 1..6 {
        ingest(&lake, batch * 3, &[]).committed();
    }
    let left = unreferenced(&lake, TABLE);
    assert!(left.iter().all(|file| file.ends_with(".metadata.json")), "{left:#?}");
    assert_eq!(left.is_empty(), writer_removes, "{left:#?}");
    removes_exactly(&lake, TABLE, &left, aged(&lake));
    let log = lake.ask("metadata", json!({ "table": TABLE }))["metadata-log"].clone();
    assert_eq!(log.as_array().unwrap().len(), 2, "{log:#}");
    holds(&lake, TABLE, 18);
}

#[test]
fn one_place_in_four_spellings_is_one_place() {
    let lake = Lake::new().and_points("");
    for batch in 0..4 {
        ingest(&lake, batch * 3, &[]).committed();
    }
    let root = place(&location(&lake, TABLE));
    // PyIceberg, who opens manifest lists, does not read the first of them.
    let spellings = [format!("file://localhost{root}"), format!("file:{root}"), root.clone(), format!("file://{root}")];
    let mut metadata = lake.ask("metadata", json!({ "table": TABLE }));
    let respell = |value: &mut Value, spelling: &str| {
        let path = value.as_str().unwrap().replace(&format!("file://{root}"), spelling);
        *value = json!(path);
    };
    for (place, spelling) in spellings.iter().skip(1).cycle().take(4).enumerate() {
        respell(&mut metadata["snapshots"][place]["manifest-list"], spelling);
    }
    let current = lake.ask("table", json!({ "table": TABLE }))["metadata_location"].clone();
    let log = metadata["metadata-log"].as_array_mut().unwrap();
    log.push(json!({ "metadata-file": current, "timestamp-ms": log.last().unwrap()["timestamp-ms"] }));
    for (entry, spelling) in log.iter_mut().zip(spellings.iter().cycle()) {
        respell(&mut entry["metadata-file"], spelling);
    }
    let planted = plant(&lake, TABLE, &[&format!("data/00000-0-{UUID}.parquet")]);
    lake.ask("do_age", json!({ "hours": OLD }));
    for spelling in spellings {
        let mut spelled = metadata.clone();
        spelled["location"] = json!(spelling);
        let log = spelled["metadata-log"].as_array_mut().unwrap();
        let current = lake.ask("table", json!({ "table": TABLE }))["metadata_location"].clone();
        if log.iter().all(|entry| entry["metadata-file"] != current) {
            log.push(json!({ "metadata-file": current, "timestamp-ms": log.last().unwrap()["timestamp-ms"] }));
        }
        metadata["metadata-log"] = spelled["metadata-log"].clone();
        lake.ask("do_put_metadata", json!({ "table": TABLE, "metadata": spelled }));
        orphans_of(&lake, TABLE, &["--report", "dry.ndjson"]).ends(Exit::Done);
        assert_eq!(noted(&lake, "dry.ndjson", "orphan"), planted, "the location is {spelling}");
    }
    orphans_of(&lake, TABLE, &["--apply"]).ends(Exit::Done);
    assert_eq!(unreferenced(&lake, TABLE), BTreeSet::new());
    assert_eq!(lake.ask("count", json!({ "table": TABLE }))["rows"], 12);
}

// ---------------------------------------------------------------- where else files are

#[test]
fn places_outside_the_table_are_cleaned_when_they_are_declared_as_its_own() {
    let lake = Lake::new().and_points("");
    ingest(&lake, 0, &[]).committed();
    let elsewhere = format!("file://{}", lake.path("lake/warehouse/elsewhere").display());
    lake.ask("do_set", json!({ "table": TABLE, "name": "write.data.path", "value": elsewhere }));
    ingest(&lake, 3, &[]).committed();
    let orphan = format!("{elsewhere}/00000-0-{UUID}.parquet");
    let notes = format!("{elsewhere}/notes.md");
    let sibling = format!("file://{}/00000-1-{UUID}.parquet", lake.path("lake/warehouse/sibling").display());
    let files = json!({ orphan.clone(): "left", notes.clone(): "mine", sibling: "another's" });
    lake.ask("do_write", json!({ "files": files }));
    aged(&lake);
    let report = removes_exactly(&lake, TABLE, &BTreeSet::new(), &[]);
    assert_eq!(report["not_scanned"], json!([elsewhere]));
    let run = lake.hexfloe(&["cleanup", "orphans", TABLE]).ends(Exit::Done);
    assert!(run.stderr.contains(&format!("not scanned: {elsewhere}")), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("--owned {elsewhere}")), "{}", run.stderr);

    let report = removes_exactly(&lake, TABLE, &BTreeSet::from([place(&orphan)]), &["--owned", &elsewhere]);
    assert_eq!(report["not_scanned"], json!([]));
    assert_eq!(noted(&lake, "applied.ndjson", "unknown"), BTreeSet::from([place(&notes)]));
    holds(&lake, TABLE, 6);
}

// ---------------------------------------------------------------- reports

#[test]
fn a_run_is_told_in_lines_for_each_file_one_object_and_figures() {
    let lake = Lake::with_points(&rows(0));
    lake.ingest(&["job.toml"]).committed();
    let planted = plant(&lake, TABLE, &[&format!("data/00000-0-{UUID}.parquet")]);
    plant(&lake, TABLE, &["data/mine.txt"]);
    lake.ask("do_age", json!({ "hours": OLD }));
    let reports = ["--report", "files.ndjson", "--metrics", "hexfloe.prom"];
    for (apply, fate, removed) in [(&[][..], "orphan", 0), (&["--apply"], "removed", 1)] {
        let report = orphans_of(&lake, TABLE, &[&reports, apply].concat()).ends(Exit::Done).report();
        assert_eq!(keys(&report), BTreeSet::from(["version", "applied", "tables"].map(str::to_owned)));
        assert_eq!((&report["version"], &report["applied"]), (&json!(1), &json!(!apply.is_empty())));
        let table = &report["tables"][0];
        assert_eq!((&table["status"], &table["table"]), (&json!("done"), &json!(TABLE)));
        assert_eq!(table["orphans"], json!({ "files": 1, "bytes": 11 }));
        assert_eq!(table["removed"], json!({ "files": removed, "bytes": removed * 11 }));
        assert_eq!((&table["snapshots"], &table["manifests"]), (&json!(1), &json!(1)));
        let sum = |names: &[&str]| names.iter().map(|name| table[name]["files"].as_u64().unwrap()).sum::<u64>();
        let parts = ["referenced", "young", "undated", "unknown", "doubtful", "orphans"];
        assert_eq!(sum(&["listed"]), sum(&parts), "each listed file is in one of the counts: {table:#}");

        let lines = std::fs::read_to_string(lake.path("files.ndjson")).unwrap();
        let records: Vec<Value> = lines.lines().map(|line| line.parse().unwrap()).collect();
        let record = records.iter().find(|record| record["fate"] == fate).unwrap();
        assert_eq!(place(record["file"].as_str().unwrap()), *planted.first().unwrap());
        assert_eq!((&record["table"], &record["size"]), (&json!(TABLE), &json!(11)));
        assert_eq!(records.len(), 2, "and the one that stays: {records:#?}");

        let metrics = std::fs::read_to_string(lake.path("hexfloe.prom")).unwrap();
        for (name, value) in [("exit_code", 0), ("orphan_files", 1), ("removed_files", removed), ("unknown_files", 1)] {
            let line = format!("hexfloe_cleanup_{name}{{command=\"orphans\",table=\"{TABLE}\"}} {value}");
            assert!(metrics.lines().any(|written| written == line), "{line} is not in\n{metrics}");
        }
    }
}

// ---------------------------------------------------------------- quarantine

#[rstest]
fn what_was_put_into_quarantine_comes_back_byte_by_byte(
    #[values(Backend::Sqlite, Backend::PostgresS3)] backend: Backend,
) {
    let lake = Lake::on(backend).and_points(&rows(0));
    lake.ingest(&["job.toml"]).committed();
    let names = [format!("data/k=a%20b/ü/00000-0-{UUID}.parquet"), format!("metadata/{UUID}-m0.avro")];
    let expected = plant(&lake, TABLE, &names.each_ref().map(String::as_str));
    let quarantine = match backend {
        Backend::Sqlite => format!("file://{}", lake.path("quarantine").display()),
        // Beside the warehouse, in its bucket.
        _ => lake.catalog().get("warehouse").unwrap().replace("/warehouse", "/quarantine"),
    };
    let before = lake.state();
    let margin = [aged(&lake), &["--quarantine", &quarantine]].concat();
    removes_exactly(&lake, TABLE, &expected, &margin);
    let there = lake.ask("below", json!({ "location": quarantine }));
    assert_eq!(there.as_object().unwrap().values().collect::<Vec<_>>(), [11, 11], "{there:#}");
    let after = lake.state();

    // One of the places is taken meanwhile: what is there stays.
    let restore = |more: &[&str]| {
        let run = lake.hexfloe(&[&["cleanup", "restore", "--quarantine", &quarantine, "--json"], more].concat());
        run.ends(Exit::Done).report()
    };
    let dry = restore(&[]);
    assert_eq!((&dry["found"]["files"], &dry["restored"]), (&json!(2), &json!(0)), "{dry:#}");
    assert_eq!(lake.state(), after, "a dry run");
    let report = restore(&["--apply"]);
    assert_eq!((&report["restored"], &report["taken"], &report["failed"]), (&json!(2), &json!(0), &json!([])));
    assert_eq!(lake.state(), before);
    assert_eq!(lake.ask("below", json!({ "location": quarantine })), json!({}));

    // A place that is taken stays as it is, and so does what lies in quarantine.
    removes_exactly(&lake, TABLE, &expected, &[aged(&lake), &["--quarantine", &quarantine]].concat());
    plant(&lake, TABLE, &[&names[1]]);
    lake.ask("do_write", json!({ "files": { format!("{}/{}", location(&lake, TABLE), names[1]): "another" } }));
    let before = lake.state();
    let report = restore(&["--apply"]);
    assert_eq!((&report["restored"], &report["taken"]), (&json!(1), &json!(1)), "{report:#}");
    let after = lake.state();
    assert_eq!(after.files.len(), before.files.len() + 1);
    assert!(before.files.iter().all(|(file, bytes)| after.files[file] == *bytes));
    assert_eq!(lake.ask("below", json!({ "location": quarantine })).as_object().unwrap().len(), 1);
    holds(&lake, TABLE, 3);
}
