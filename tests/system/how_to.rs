//! The sections of `docs/how-to.md`, each run as it is written.

use std::env;
use std::fs;
use std::process::Command;

use hexfloe_tests::{Exit, Lake, Value, hexfloe, json, repository};
use rstest::rstest;

/// What a section has its reader do.
#[derive(Debug)]
enum Step {
    Write { path: String, content: String },
    Run { language: String, script: String },
}

/// The steps of the section with a title: fenced blocks, of which those below a line with a name alone are files.
fn steps(title: &str) -> Vec<Step> {
    let document = fs::read_to_string(repository().join("docs/how-to.md")).unwrap();
    let section = document.split("\n## ").find_map(|section| section.strip_prefix(title)).unwrap();
    let mut steps = Vec::new();
    let mut blocks = section.split("```");
    let mut before = blocks.next().unwrap();
    while let (Some(block), Some(after)) = (blocks.next(), blocks.next()) {
        let (language, content) = block.split_once('\n').unwrap();
        let named = before.trim_end().lines().last().unwrap_or_default();
        let path = named.strip_prefix('`').and_then(|name| name.strip_suffix("`:"));
        match (language, path) {
            ("toml" | "csv", Some(path)) => {
                steps.push(Step::Write { path: path.to_owned(), content: content.to_owned() });
            }
            ("sh" | "python", None) => {
                steps.push(Step::Run { language: language.to_owned(), script: content.to_owned() });
            }
            other => assert_eq!(other, ("text", None), "what is to be done with this?\n{content}"),
        }
        before = after;
    }
    steps
}

/// A lake in which the steps of a section have been done, without a failure.
fn followed(title: &str) -> Lake {
    let lake = Lake::new();
    let binaries = hexfloe().parent().unwrap().to_path_buf();
    let judges = binaries.parent().unwrap().join("venv/bin");
    let inherited = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([binaries, judges].into_iter().chain(env::split_paths(&inherited))).unwrap();
    for step in steps(title) {
        match step {
            Step::Write { path, content } => drop(lake.write(&path, content)),
            Step::Run { language, script } => {
                let mut command = Command::new(if language == "sh" { "sh" } else { "python" });
                command.args(if language == "sh" { &["-euc"][..] } else { &["-c"] }).arg(&script);
                let output = command.current_dir(lake.path("")).env("PATH", &path).output().unwrap();
                let told = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{script}\n{told}");
            }
        }
    }
    lake
}

/// The rows of a table after its section, the columns joined by `|`.
#[rstest]
#[case::slice(
    "Own one slice each night",
    "events.daily",
    &["run_date", "id", "value"],
    &["2026-08-10|1|0.5", "2026-08-10|3|0.125", "2026-08-11|1|0.75"]
)]
#[case::upsert(
    "Keep the latest row of each key",
    "shop.orders",
    &["order_id", "state"],
    &["1|sent", "2|paid", "3|new"]
)]
#[case::folder("Follow a folder that files are added to", "sensors.readings", &["sensor"], &["1", "2", "3"])]
#[case::together("Feed several tables from one input", "net.coarse", &["station"], &["1", "2"])]
#[case::branch("Write, audit, publish", "wap.readings", &["id", "value"], &["1|0.5", "2|0.25", "3|0.75"])]
#[case::rollback("Go back after a mistake", "geo.points", &["id", "value"], &["1|0.5"])]
#[case::notify("Tell others when a batch has landed", "depot.parcels", &["parcel", "weight"], &["1|0.5", "2|0.25", "3|0.75"])]
#[case::cleanup("Clean up every week", "grid.meters", &["meter", "kwh"], &["1|0.5", "2|0.25", "3|0.75"])]
fn a_section_does_what_it_says(
    #[case] title: &str,
    #[case] table: &str,
    #[case] columns: &[&str],
    #[case] expected: &[&str],
) {
    let lake = followed(title);
    let rows = lake.ask("rows", json!({ "table": table, "columns": columns, "order": columns }));
    let rows: Vec<String> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let values = columns.iter().map(|column| row[*column].to_string().trim_matches('"').to_owned());
            values.collect::<Vec<_>>().join("|")
        })
        .collect();
    assert_eq!(rows, expected);
    lake.nothing_wrong("unsound", json!({ "table": table }));
}

/// The section's stray file was found and went, and what expired is known all the same.
#[test]
fn the_weekly_cleanup_removes_the_stray_file_and_all_snapshots_but_one() {
    let lake = followed("Clean up every week");
    let report = fs::read_to_string(lake.path("orphans.ndjson")).unwrap();
    let stray = "0123456789abcdef0123456789abcdef-0123456789abcdef0123456789abcdef-00000.parquet";
    assert_eq!(report.lines().count(), 1, "{report}");
    assert!(report.contains(stray) && report.contains("\"fate\":\"orphan\""), "{report}");

    let shown = lake.hexfloe(&["table", "show", "grid.meters", "--json"]).ends(Exit::Done).report();
    assert_eq!(
        (&shown["snapshots"], &shown["ledger_batches"], &shown["data_files"]),
        (&json!(1), &json!(2), &json!(2))
    );
    let again = lake.hexfloe(&["cleanup", "orphans", "grid.meters", "--json"]).ends(Exit::Done).report();
    assert_eq!(again["tables"][0]["orphans"]["files"], 0, "{again:#}");
}

#[test]
fn each_of_the_two_batches_of_parcels_was_told_once() {
    let lake = followed("Tell others when a batch has landed");
    let messages: Vec<_> = fs::read_dir(lake.path("inbox")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut told: Vec<String> = messages
        .iter()
        .map(|path| {
            let report: Value = fs::read_to_string(path).unwrap().parse().unwrap();
            report["status"].as_str().unwrap().to_owned()
        })
        .collect();
    told.sort();
    assert_eq!(told, ["committed", "skipped"]);
}

#[test]
fn every_section_is_run() {
    let (document, this) =
        (fs::read_to_string(repository().join("docs/how-to.md")).unwrap(), include_str!("how_to.rs"));
    let titles: Vec<&str> = document.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(titles.len() >= 5, "{titles:?}");
    for title in titles {
        assert!(this.contains(&format!("\"{title}\"")), "no test runs the section {title:?}");
    }
}
