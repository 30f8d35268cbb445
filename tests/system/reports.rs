//! What machines read: the report of an ingest, and a dry run that only reports.

use std::fs;
use std::process::{Command, Stdio};

use hexfloe_tests::{Exit, Lake, POINTS, hexfloe, json, repository};
use rstest::rstest;

const GOOD: &str = "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n";

#[test]
fn the_report_is_one_object_with_every_field() {
    let lake = Lake::with_points(GOOD);
    let report = lake.ingest(&["job.toml"]).committed();
    for (field, kind) in [
        ("status", "text"),
        ("table", "text"),
        ("batch_id", "text"),
        ("snapshot_id", "number"),
        ("rows", "number"),
        ("rejected", "number"),
        ("replaced_rows", "number"),
        ("data_files", "number"),
        ("bytes", "number"),
        ("attempts", "number"),
        ("elapsed_ms", "number"),
    ] {
        let value = &report[field];
        let fits = if kind == "text" { value.is_string() } else { value.is_i64() || value.is_u64() };
        assert!(fits, "{field} is {value}, expected a {kind}: {report:#}");
    }
    assert_eq!(report["table"], "ns.points");
    assert_eq!(report["rows"], 2);
    assert_eq!(report["rejected"], 0);
    assert_eq!(report["replaced_rows"], 0);
    assert_eq!(report["attempts"], 1);
    assert_eq!(report["batch_id"].as_str().map(str::len), Some(32));

    let files = lake.files("ns.points");
    assert_eq!(report["data_files"], files.len());
    let bytes: u64 = files.iter().map(|file| file["bytes"].as_u64().unwrap()).sum();
    assert_eq!(report["bytes"], bytes);
    let table = lake.ask("table", json!({ "table": "ns.points" }));
    assert_eq!(report["snapshot_id"], table["current_snapshot_id"]);
}

#[test]
fn without_json_nothing_goes_to_standard_output_and_a_sentence_goes_to_the_person() {
    let lake = Lake::with_points(GOOD);
    let run = lake.hexfloe(&["ingest", "job.toml"]).ends(Exit::Done);
    assert_eq!(run.stdout, "");
    assert!(run.stderr.contains("committed 2 rows to ns.points ("), "{}", run.stderr);
    assert!(
        !run.stderr.contains('\r') && !run.stderr.contains('\u{1b}'),
        "no progress bar off a terminal: {:?}",
        run.stderr
    );
    let again = lake.hexfloe(&["ingest", "job.toml"]).ends(Exit::Done);
    assert!(again.stderr.contains("skipped"), "{}", again.stderr);
}

#[test]
fn a_dry_run_reports_the_batch_and_changes_nothing() {
    let lake = Lake::with_points(GOOD);
    let planned = lake.ingest(&["job.toml", "--dry-run"]).ends(Exit::Done).report();
    assert!(!lake.path("lake").exists(), "a dry run makes no lake");

    let committed = lake.ingest(&["job.toml"]).committed();
    assert_eq!(planned["batch_id"], committed["batch_id"]);
    assert_eq!(planned["rows"], committed["rows"]);

    let before = lake.state();
    lake.ingest(&["job.toml", "--dry-run"]).ends(Exit::Done);
    lake.ingest(&["job.toml", "--dry-run", "--force"]).ends(Exit::Done);
    assert_eq!(lake.state(), before);
}

/// As with `hexfloe … | head -1`, at the latest moment: nobody reads what is printed, on neither stream.
#[rstest]
#[case::one_report(&["ingest", "job.toml", "--force", "--json"], 0)]
#[case::a_line_for_each(&["ingest", "job.toml", "missing.toml", "--force", "--json"], 3)]
#[case::a_failure(&["ingest", "missing.toml"], 3)]
#[case::batches(&["batches", "ns.points"], 0)]
#[case::batches_as_json(&["batches", "ns.points", "--json"], 0)]
#[case::a_table(&["table", "show", "ns.points"], 0)]
#[case::a_table_that_is_missing(&["table", "show", "ns.none"], 2)]
#[case::a_rollback(&["table", "rollback", "ns.points", "--before-batch", "none"], 2)]
#[case::a_batch_id(&["batch-id", "--source", "s", "--files", "points.csv"], 0)]
#[case::help(&["--help"], 0)]
fn a_reader_who_is_gone_changes_nothing_about_the_work(#[case] arguments: &[&str], #[case] code: i32) {
    let lake = Lake::with_points(GOOD);
    lake.write("missing.toml", POINTS.replace("points.csv", "missing.csv"));
    lake.ingest(&["job.toml"]).committed();
    let snapshots = || lake.ask("table", json!({ "table": "ns.points" }))["snapshots"].as_array().unwrap().len();
    let before = snapshots();
    let mut command = Command::new(hexfloe());
    command.args(arguments).current_dir(lake.path("")).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(code));
    let ingested = usize::from(arguments.contains(&"--force"));
    assert_eq!(snapshots(), before + ingested, "an ingest goes on to its end");
}

#[test]
fn an_override_is_a_toml_value_under_a_dotted_name() {
    let lake = Lake::with_points(GOOD);
    let report = lake.ingest(&["job.toml", "--set", "table.name=ns.other", "--set", "h3.column=\"cell\""]).committed();
    assert_eq!(report["table"], "ns.other");
    let table = lake.ask("table", json!({ "table": "ns.other" }));
    assert!(table["fields"].as_array().unwrap().iter().any(|field| field["name"] == "cell"), "{table:#}");
}

#[test]
fn a_catalog_file_says_where_the_lake_is() {
    let lake = Lake::with_points(GOOD);
    lake.write(
        "catalog.toml",
        "name = \"lake\"\ntype = \"sql\"\nuri = \"sqlite:elsewhere/catalog.db\"\nwarehouse = \"file:elsewhere/warehouse\"\n",
    );
    lake.ingest(&["job.toml", "--catalog", "catalog.toml"]).committed();
    assert!(lake.path("elsewhere/catalog.db").exists());
    assert!(!lake.path("lake").exists());
    lake.ingest(&["job.toml", "--set", "catalog.path=\"catalog.toml\""]).skipped();
}

#[test]
fn a_file_that_was_touched_is_the_same_batch_and_changed_content_is_another() {
    let lake = Lake::with_points(GOOD);
    let first = lake.ingest(&["job.toml"]).committed();
    lake.write("points.csv", GOOD);
    assert_eq!(lake.ingest(&["job.toml"]).skipped()["batch_id"], first["batch_id"]);
    lake.write("points.csv", GOOD.replace("48.2", "48.3"));
    assert_ne!(lake.ingest(&["job.toml"]).committed()["batch_id"], first["batch_id"]);
}

#[test]
fn every_exit_code_is_documented() {
    let reference = fs::read_to_string(repository().join("docs/reference/command-line.md")).unwrap();
    for code in 0..=7 {
        assert!(reference.contains(&format!("| {code} |")), "exit code {code} is not explained:\n{reference}");
    }
}
