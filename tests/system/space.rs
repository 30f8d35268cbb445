//! What goes wrong with places, kind by kind, in every format in which it can: an axis, an empty geometry, a reference system that is
//! missing or wrong, a polygon as wide as the world. A cell is the one that PROJ and H3 give, or null, or the row is refused with a
//! reason; it is never another cell.

use hexfloe_tests::{Exit, Lake, Run, Value, json, judge};
use rstest::rstest;

const TABLE: &str = "ns.t";

/// A lake with a file of that kind and format, and a job for it; and the cells that other libraries give to its rows.
fn troubled(kind: &str, format: &str, geometry: &str) -> (Lake, Value) {
    let lake = Lake::new();
    let made =
        judge("do_trouble", json!({ "kind": kind, "format": format, "to": lake.path("input").display().to_string() }));
    // Formats that know of no geometry are told which column it is.
    let column = if matches!(format, "csv" | "parquet") { "column = \"wkt\"\n" } else { "" };
    lake.write(
        "job.toml",
        format!(
            "[source]\nname = \"s\"\nformat = \"{format}\"\npaths = [{}]\n\
             [geometry]\nstore = \"wkb\"\n{column}{geometry}\n[h3]\nresolution = 7\n\
             [batch]\ngranularity = \"files\"\n[table]\nname = \"{TABLE}\"\n",
            made["path"]
        ),
    );
    (lake, made["cells"].clone())
}

/// What a job has to say of the system of degrees, where its format has no way to say it.
fn degrees(format: &str) -> &'static str {
    if matches!(format, "csv" | "parquet") { "crs = \"OGC:CRS84\"" } else { "" }
}

#[track_caller]
fn holds_cells(lake: &Lake, cells: &Value) {
    let rows = lake.ask("rows", json!({ "table": TABLE, "columns": ["h3_cell"] }));
    let stored: Value = rows.as_array().unwrap().iter().map(|row| row["h3_cell"].clone()).collect();
    assert_eq!(&stored, cells);
}

#[track_caller]
fn is_refused(run: Run, exit: Exit, what: &[&str]) {
    let run = run.ends(exit);
    assert!(what.iter().all(|what| run.stderr.contains(what)), "{}", run.stderr);
}

/// S01, S08: in all quadrants; and a layer without rows.
#[rstest]
fn places_are_in_the_cells_of_proj_and_h3(
    #[values("shapefile", "geopackage", "geojson", "geojsonseq", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
    #[values("cities", "high")] kind: &str,
) {
    let (lake, cells) = troubled(kind, format, degrees(format));
    lake.ingest(&["job.toml"]).committed();
    holds_cells(&lake, &cells);
}

/// S01: latitude before longitude is out of range where there are no such latitudes, and cannot be told otherwise.
#[rstest]
fn axes_that_are_swapped_are_no_place(
    #[values("shapefile", "geopackage", "geojson", "geojsonseq", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let (lake, _) = troubled("swapped", format, degrees(format));
    is_refused(lake.ingest(&["job.toml"]), Exit::Input, &["row 1", "latitude", "139.69"]);
    assert_eq!(lake.ask("catalog", json!({})), json!([]));
}

/// S08, S14, S15.
#[rstest]
fn a_row_without_a_geometry_is_kept_with_a_null_cell_and_counted(
    #[values("shapefile", "geopackage", "geojson", "geojsonseq", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let (lake, cells) = troubled("empty", format, degrees(format));
    let report = lake.ingest(&["job.toml"]).committed();
    assert_eq!((&report["rows"], &report["without_geometry"], &report["rejected"]), (&json!(3), &json!(2), &json!(0)));
    holds_cells(&lake, &cells);
    let rejects = lake.ingest(&["job.toml", "--set", "quality.no_geometry=reject", "--set", "table.name=ns.other"]);
    is_refused(rejects, Exit::Input, &["2 rows cannot be used", "geometry"]);
}

/// S08.
#[rstest]
fn a_layer_without_rows_is_a_batch_without_rows(
    #[values("shapefile", "geopackage", "geojson", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let (lake, _) = troubled("nothing", format, degrees(format));
    assert_eq!(lake.ingest(&["job.toml"]).committed()["rows"], 0);
    assert_eq!(lake.ingest(&["job.toml"]).skipped()["rows"], 0);
}

/// S07, S09: a group of islands on both sides of the antimeridian, the world, a cap around the pole, and one whose centroid is outside.
#[rstest]
fn wide_polygons_are_in_the_cell_of_a_point_inside(
    #[values("shapefile", "geopackage", "geojson", "geojsonseq", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let (lake, cells) = troubled("wide", format, degrees(format));
    lake.ingest(&["job.toml"]).committed();
    holds_cells(&lake, &cells);
}

/// S07, S09: from 177 to -178 is five degrees to a person and 355 to a plane.
#[rstest]
fn an_edge_that_may_go_either_way_around_the_world_is_refused(
    #[values("shapefile", "geopackage", "geojson", "geojsonseq", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let (lake, _) = troubled("across", format, degrees(format));
    is_refused(lake.ingest(&["job.toml"]), Exit::Input, &["antimeridian", "177", "-178"]);
}

/// S22: metres that say so.
#[rstest]
fn a_national_grid_is_brought_to_degrees(
    #[values("shapefile", "geopackage", "geojson", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let given = if matches!(format, "csv" | "parquet") { "crs = \"EPSG:27700\"" } else { "" };
    let (lake, cells) = troubled("british", format, given);
    lake.ingest(&["job.toml"]).committed();
    holds_cells(&lake, &cells);
    assert_eq!(lake.ask("table", json!({ "table": TABLE }))["properties"]["ingest.crs.geometry"], "EPSG:27700");
}

/// S22: metres that say nothing.
#[rstest]
fn coordinates_of_an_unknown_system_are_refused_until_the_job_says_which(
    #[values("shapefile", "geopackage", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let (lake, _) = troubled("unstated", format, "");
    is_refused(lake.ingest(&["job.toml"]), Exit::Usage, &["geometry.crs", "--crs"]);
    assert_eq!(lake.ask("catalog", json!({})), json!([]));
    let report = lake.ingest(&["job.toml", "--crs", "EPSG:27700"]).committed();
    assert_eq!(report["rows"], 1);
    let cells = lake.ask("rows", json!({ "table": TABLE, "columns": ["h3_cell"] }));
    // By pyproj and h3, of 51.503991 N, 0.128354 W.
    assert_eq!(cells[0]["h3_cell"], 608_432_189_448_650_751_u64, "{cells}");
}

/// S22: metres that say they are degrees.
#[rstest]
fn metres_read_as_degrees_are_no_place(
    #[values("shapefile", "geopackage", "geojson", "geojsonseq", "flatgeobuf", "geoparquet", "csv", "parquet")] format: &str,
) {
    let (lake, _) = troubled("metres", format, degrees(format));
    is_refused(lake.ingest(&["job.toml"]), Exit::Input, &["row 1", "180000", "outside"]);
}

/// A file that says one system and a job that says another: one of them is wrong.
#[rstest]
fn a_job_that_contradicts_its_file_is_refused(
    #[values("shapefile", "geopackage", "geojson", "flatgeobuf", "geoparquet")] format: &str,
) {
    let (lake, _) = troubled("british", format, "crs = \"EPSG:2154\"");
    is_refused(lake.ingest(&["job.toml"]), Exit::Usage, &["EPSG:27700", "EPSG:2154"]);
}
