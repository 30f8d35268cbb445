//! Looking at batches and tables without writing.

use hexfloe_tests::{Exit, Lake, Value, json, judge};
use rstest::rstest;

const GOOD: &str = "id,lat,lon\n1,48.2,16.4\n2,-33.9,151.2\n";

#[rstest]
#[case("rutland", "0", "0-1000")]
#[case("Öresund/海", "part 7", "0-0")]
#[case("a:b", "c", "18446744073709551614-18446744073709551615")]
fn an_offset_batch_has_the_digits_of_the_published_formula(
    #[case] source: &str,
    #[case] partition: &str,
    #[case] offsets: &str,
) {
    let run = Lake::new()
        .hexfloe(&["batch-id", "--source", source, "--partition", partition, "--offsets", offsets])
        .ends(Exit::Done);
    let expected = judge("batch_id", json!({ "text": format!("{source}:{partition}:{offsets}") }));
    assert_eq!(run.stdout.trim_end(), expected);
}

#[test]
fn a_batch_of_files_has_the_digits_of_their_content_and_an_ingest_uses_the_same() {
    let lake = Lake::with_points(GOOD);
    lake.write("more.csv", GOOD.replace("48.2", "48.3"));
    let shown = lake.hexfloe(&["batch-id", "--source", "feed", "--files", "*.csv"]).ends(Exit::Done);
    let expected = judge(
        "batch_id_of_files",
        json!({ "source": "feed", "folder": lake.path(""), "paths": ["points.csv", "more.csv"] }),
    );
    assert_eq!(shown.stdout.trim_end(), expected);
    let report = lake.ingest(&["job.toml", "--set", "source.paths=[\"*.csv\"]"]).committed();
    assert_eq!(report["batch_id"], expected);
}

#[rstest]
#[case::backwards("10-5")]
#[case::no_range("10")]
#[case::negative("-1-5")]
fn offsets_that_are_no_range_are_a_usage_error(#[case] offsets: &str) {
    let offsets = format!("--offsets={offsets}");
    Lake::new().hexfloe(&["batch-id", "--source", "s", "--partition", "0", &offsets]).ends(Exit::Usage);
}

#[test]
fn batches_lists_what_each_snapshot_did_and_whether_the_ledger_holds_it() {
    let lake = Lake::with_points(GOOD);
    let first = lake.ingest(&["job.toml"]).committed();
    lake.write("points.csv", "id,lat,lon\n3,64.1,-21.9\n4,95,0\n");
    let second = lake.ingest(&["job.toml", "--set", "quality.on_reject=\"quarantine\""]).committed();
    let before = lake.state();

    let listed = lake.hexfloe(&["batches", "ns.points", "--json"]).ends(Exit::Done).report();
    let listed = listed["batches"].as_array().unwrap();
    assert_eq!(listed.len(), 2, "{listed:#?}");
    for (report, rejected) in [(&first, 0), (&second, 1)] {
        let batch: &Value = listed.iter().find(|batch| batch["batch_id"] == report["batch_id"]).unwrap();
        assert_eq!(batch["source"], "feed");
        assert_eq!(batch["rows"], report["rows"]);
        assert_eq!(batch["rejected"], rejected);
        assert_eq!(batch["snapshot_id"], report["snapshot_id"]);
        assert_eq!(batch["in_ledger"], true);
    }

    let people = lake.hexfloe(&["batches", "ns.points"]).ends(Exit::Done);
    for report in [&first, &second] {
        assert!(people.stdout.contains(report["batch_id"].as_str().unwrap()), "{}", people.stdout);
    }
    assert_eq!(lake.state(), before);
}

#[test]
fn table_show_tells_the_schema_the_partitioning_and_the_derivation() {
    let lake = Lake::with_points(GOOD);
    lake.ingest(&["job.toml", "--set", "h3.parents=[2]", "--set", "table.partition=[\"h3_cell_r2\"]"]).committed();
    let before = lake.state();
    let shown = lake.hexfloe(&["table", "show", "ns.points", "--json"]).ends(Exit::Done).report();
    assert_eq!(shown["table"], "ns.points");
    assert_eq!(shown["location"], lake.ask("table", json!({ "table": "ns.points" }))["location"]);
    let people = lake.hexfloe(&["table", "show", "ns.points"]).ends(Exit::Done).stdout;
    for word in ["ns.points", "h3_cell_r2", "h3o", "ingest_batch_id"] {
        assert!(people.contains(word), "does not say {word:?}: {people}");
        assert!(shown.to_string().contains(word), "does not say {word:?}: {shown:#}");
    }
    assert_eq!(lake.state(), before);
}

#[rstest]
#[case(&["batches", "ns.nowhere"])]
#[case(&["table", "show", "ns.nowhere"])]
fn a_table_that_is_not_there_is_named(#[case] arguments: &[&str]) {
    let lake = Lake::with_points(GOOD);
    lake.ingest(&["job.toml"]).committed();
    let before = lake.state();
    lake.hexfloe(arguments).refuses(Exit::Usage, &["ns.nowhere"]);
    assert_eq!(lake.state(), before);

    let nothing = Lake::new();
    nothing.hexfloe(arguments).ends(Exit::Usage);
    assert!(!nothing.path("lake").exists(), "who only looks makes no lake");
}
