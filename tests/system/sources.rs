//! The same rows in every form they come in.

use hexfloe_tests::{Lake, POINTS, Value, json};
use rstest::rstest;

const TABLE: &str = "ns.points";

fn rows() -> Value {
    json!([
        { "id": 1, "lat": 48.2, "lon": 16.4, "name": "Wien, Österreich", "at": "2026-03-11T23:59:59.500000" },
        { "id": 2, "lat": -33.9, "lon": 151.2, "name": "two\nlines", "at": "1969-12-31T00:00:00" },
        { "id": 3, "lat": 64.1, "lon": -21.9, "name": null, "at": null },
    ])
}

const CSV: &str = "id,lat,lon,name,at\n\
    1,48.2,16.4,\"Wien, Österreich\",2026-03-11T23:59:59.5\n\
    2,-33.9,151.2,\"two\nlines\",1969-12-31T00:00:00\n\
    3,64.1,-21.9,,\n";

#[rstest]
#[case::plain(CSV.to_owned(), "")]
#[case::with_a_byte_order_mark(format!("\u{feff}{CSV}"), "")]
#[case::with_carriage_returns(CSV.replace("\n", "\r\n").replace("two\r\n", "two\n"), "")]
#[case::without_an_end_of_line(CSV.trim_end().to_owned(), "")]
#[case::with_semicolons(CSV.replace(',', ";").replace("Wien;", "Wien,"), "[source.csv]\ndelimiter = \";\"\n")]
#[case::with_tabs(CSV.replace(',', "\t").replace("Wien\t", "Wien,"), "[source.csv]\ndelimiter = \"\\t\"\n")]
#[case::with_single_quotes(CSV.replace('"', "'"), "[source.csv]\nquote = \"'\"\n")]
#[case::with_declared_types(
    CSV.to_owned(),
    "[source.schema]\nid = \"long\"\nlat = \"double\"\nlon = \"double\"\nname = \"string\"\nat = \"timestamp\"\n"
)]
fn csv_in_any_dialect_gives_the_same_rows(#[case] csv: String, #[case] settings: &str) {
    let lake = Lake::with_points(&csv);
    lake.write("job.toml", format!("{POINTS}{settings}"));
    lake.ingest(&["job.toml"]).committed();
    holds_the_rows(&lake);
}

#[test]
fn a_line_of_json_is_a_row() {
    let lake = Lake::new();
    lake.write("job.toml", POINTS.replace("\"csv\"", "\"ndjson\"") + "[source.schema]\nat = \"timestamp\"\n");
    let lines: String = rows().as_array().unwrap().iter().map(|row| format!("{row}\n")).collect();
    lake.write("points.csv", lines);
    lake.ingest(&["job.toml"]).committed();
    holds_the_rows(&lake);
}

#[track_caller]
fn holds_the_rows(lake: &Lake) {
    for engine in ["pyiceberg", "duckdb"] {
        let request = json!({
            "table": TABLE, "engine": engine, "columns": ["id", "lat", "lon", "name", "at"], "order": ["id"],
        });
        assert_eq!(lake.ask("rows", request), rows(), "{engine}");
    }
}

#[test]
fn several_files_are_one_batch_whatever_the_order_they_are_named_in() {
    let lake = Lake::with_points("id,lat,lon\n1,48.2,16.4\n");
    lake.write("more/a.csv", "id,lat,lon\n2,48.3,16.4\n");
    lake.write("more/b.csv", "lon,lat,id\n16.4,48.4,3\n");
    let first = lake.ingest(&["job.toml", "--set", "source.paths=[\"points.csv\", \"more/*.csv\"]"]).committed();
    assert_eq!(first["rows"], 3);
    let again = lake.ingest(&["job.toml", "--set", "source.paths=[\"more/b.csv\", \"**/*.csv\"]"]).skipped();
    assert_eq!(again["batch_id"], first["batch_id"]);
    let rows = lake.ask("rows", json!({ "table": TABLE, "columns": ["id", "lat"], "order": ["id"] }));
    assert_eq!(rows, json!([{ "id": 1, "lat": 48.2 }, { "id": 2, "lat": 48.3 }, { "id": 3, "lat": 48.4 }]));
}
