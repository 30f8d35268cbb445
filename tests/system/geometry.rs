//! Points as geometry: read from WKB, stored as WKB, seen as geometry by others.

use hexfloe_tests::{Lake, POINTS, Value, data, json, judge};

const TABLE: &str = "ns.points";

fn close(got: &Value, expected: &Value) -> bool {
    (got.as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 1e-6
}

/// PyArrow finds the `geo` metadata and DuckDB the points, whose coordinates sum up to `[rows, lon, lat]`.
#[track_caller]
fn is_geometry(lake: &Lake, column: &str, sums: &Value) {
    let files = lake.ask("geometry", json!({ "table": TABLE, "column": column }));
    let files = files.as_array().unwrap();
    assert_eq!(files.len(), 1);
    let file = &files[0];
    assert!(file["duckdb_type"].as_str().unwrap().starts_with("GEOMETRY"), "{file:#}");
    assert_eq!(file["points"][0], sums[0]);
    assert!(close(&file["points"][1], &sums[1]) && close(&file["points"][2], &sums[2]), "{file:#} against {sums}");
    assert_eq!(file["geo"]["primary_column"], column);
    assert_eq!(file["geo"]["columns"][column]["encoding"], "WKB");
    assert_eq!(file["geo"]["columns"][column]["geometry_types"], json!(["Point"]));

    let live = lake.files(TABLE);
    assert!(live[0]["lower"].get(column).is_none() && live[0]["upper"].get(column).is_none(), "{:#}", live[0]);
}

#[test]
fn a_geoparquet_file_lands_with_its_points_as_geometry() {
    let lake = Lake::new();
    let source = data("places.geoparquet");
    let job = POINTS
        .replace("\"csv\"", "\"geoparquet\"")
        .replace("points.csv", &source.display().to_string())
        .replace("lat = \"lat\"\nlon = \"lon\"", "column = \"geometry\"\nstore = \"wkb\"");
    lake.write("job.toml", job);
    let report = lake.ingest(&["job.toml"]).committed();
    assert_eq!(report["rows"], 5_000);
    let sums = judge("wkb_of", json!({ "path": source, "column": "geometry" }));
    is_geometry(&lake, "geometry", &sums);
    let wrong = json!({ "table": TABLE, "source": source, "key": "place", "columns": ["name", "geometry"] });
    for engine in ["pyiceberg", "duckdb"] {
        let mut wrong = wrong.clone();
        wrong["engine"] = engine.into();
        lake.nothing_wrong("differences", wrong);
    }
    lake.nothing_wrong("unsound", json!({ "table": TABLE }));
}

#[test]
fn coordinates_are_stored_as_geometry_on_request() {
    let lake = Lake::with_points("id,lat,lon\n1,48.25,16.5\n2,-33.75,151.25\n");
    lake.write("job.toml", POINTS.replace("lon = \"lon\"", "lon = \"lon\"\nstore = \"wkb\""));
    lake.ingest(&["job.toml"]).committed();
    is_geometry(&lake, "geometry", &json!([2, 167.75, 14.5]));
}
