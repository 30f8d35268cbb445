//! Every column type, nested ones too: what goes in comes out, whoever reads.

use hexfloe_tests::{Lake, POINTS, data, json};
use rstest::rstest;

const TABLE: &str = "ns.kinds";

fn ingested() -> Lake {
    let lake = Lake::new();
    let job = POINTS
        .replace("\"csv\"", "\"parquet\"")
        .replace("points.csv", &data("kinds.parquet").display().to_string())
        .replace("ns.points", TABLE);
    lake.write("job.toml", job);
    lake.ingest(&["job.toml"]).committed();
    lake
}

#[rstest]
fn every_value_reads_back_equal(#[values("pyiceberg", "duckdb")] engine: &str) {
    let lake = ingested();
    let columns = [
        "lat", "lon", "flag", "small", "real", "money", "wide", "day", "naive_ms", "naive_us", "naive_ns", "zoned",
        "clock", "text", "blob", "numbers", "address", "tags",
    ];
    // PyIceberg 0.12 reads a null list of structs as an empty one, in its own tables too.
    let columns = [&columns[..], if engine == "duckdb" { &["trips"] } else { &[] }].concat();
    let source = data("kinds.parquet");
    lake.nothing_wrong(
        "differences",
        json!({ "table": TABLE, "engine": engine, "source": source, "key": "id", "columns": columns }),
    );
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn bounds_and_null_counts_hold_for_the_rows() {
    let lake = ingested();
    lake.nothing_wrong("wrong_bounds", json!({ "table": TABLE }));
    let file = lake.files(TABLE).remove(0);
    for column in ["id", "lat", "money", "wide", "day", "naive_us", "zoned", "text", "h3_cell", "ingest_batch_id"] {
        assert!(file["lower"].get(column).is_some(), "no lower bound for {column}: {:#}", file["lower"]);
        assert!(file["upper"].get(column).is_some(), "no upper bound for {column}: {:#}", file["upper"]);
    }
    assert_eq!(file["lower"]["ingest_batch_id"], file["upper"]["ingest_batch_id"]);
}

#[test]
fn types_are_icebergs_own() {
    let table = ingested().ask("table", json!({ "table": TABLE }));
    for (column, kind) in [
        ("id", "long"),
        ("flag", "boolean"),
        ("small", "int"),
        ("real", "float"),
        ("lat", "double"),
        ("money", "decimal(9, 2)"),
        ("wide", "decimal(38, 0)"),
        ("day", "date"),
        ("naive_ms", "timestamp"),
        ("naive_us", "timestamp"),
        ("naive_ns", "timestamp"),
        ("zoned", "timestamptz"),
        ("clock", "time"),
        ("text", "string"),
        ("blob", "binary"),
        ("h3_cell", "long"),
        ("ingest_batch_id", "string"),
    ] {
        let field = table["fields"].as_array().unwrap().iter().find(|field| field["name"] == column).unwrap();
        assert_eq!(field["type"], kind, "{column}");
    }
}

#[test]
fn text_that_looks_like_a_number_stays_text() {
    let lake = Lake::with_points("code,n,lat,lon\n01569,1,48.2,16.4\n12345,3000000000,48.2,16.4\n");
    lake.ingest(&["job.toml"]).committed();
    let rows = lake.ask("rows", json!({ "table": "ns.points", "columns": ["code", "n"], "order": ["n"] }));
    assert_eq!(rows, json!([{ "code": "01569", "n": 1 }, { "code": "12345", "n": 3_000_000_000_u64 }]));
}
