//! `hexfloe inspect`: what it says of odd files, and the job that it writes.

use hexfloe_tests::{Exit, Lake, Value, example, json, judge};
use rstest::rstest;

fn odd(lake: &Lake, odd: &str) -> String {
    let folder = lake.path("odd").display().to_string();
    judge("do_odd", json!({ "odd": odd, "folder": folder })).as_str().unwrap().to_owned()
}

#[rstest]
#[case::no_prj("no_prj", "shapefile, 2 rows", "nothing says which coordinate reference system its numbers are in")]
#[case::swapped("swapped", "geojson, 2 rows", "its axes look swapped")]
#[case::cp1252("cp1252", "shapefile, 1 row", "Zürich")]
#[case::mercator("mercator", "geojson, 1 row", "they may be metres of another system")]
#[case::empty_layer("empty_layer", "flatgeobuf, 0 rows", "it has no rows")]
#[case::two_layers("two_layers", "layer stops", "layer lines")]
#[case::null_geometry("null_geometry", "geopackage, 2 rows", "1 row without a geometry")]
#[case::heights("heights", "geoparquet, 1 row", "it has heights (z)")]
#[case::antimeridian("antimeridian", "geojsonseq, 2 rows", "both sides of the antimeridian")]
fn it_says_what_is_odd(#[case] what: &str, #[case] format: &str, #[case] note: &str) {
    let lake = Lake::new();
    let file = odd(&lake, what);
    let run = lake.hexfloe(&["inspect", &file]).ends(Exit::Done);
    println!("{}", run.stdout);
    assert!(run.stdout.contains(format), "{}", run.stdout);
    if what == "cp1252" {
        // Its text is no problem to whoever reads it right.
        let read = lake.hexfloe(&["inspect", &file, "--json"]).ends(Exit::Done).report();
        assert_eq!(read["layers"][0]["rejects"], json!({}), "{read:#}");
    } else {
        assert!(run.stdout.contains(note), "{}", run.stdout);
    }
    assert_eq!(lake.ask("catalog", json!({})), json!([]), "it writes nothing");
}

#[test]
fn a_topology_is_told_for_what_it_is() {
    let lake = Lake::new();
    let file = odd(&lake, "topojson");
    let run = lake.hexfloe(&["inspect", &file]).ends(Exit::Input);
    assert!(run.stdout.contains("TopoJSON"), "{}", run.stdout);
}

#[test]
fn the_job_that_it_writes_lands_the_file() {
    let lake = Lake::new();
    let countries = example("countries/naturalearth_lowres.shp");
    let run = lake.hexfloe(&["inspect", &countries, "--job", "countries.toml"]).ends(Exit::Done);
    assert!(run.stdout.contains("177 rows") && run.stdout.contains("EPSG:4326"), "{}", run.stdout);
    let report = lake.ingest(&["countries.toml"]).committed();
    assert_eq!((&report["rows"], &report["table"]), (&json!(177), &json!("landing.naturalearth_lowres")));
    // A file that is there is somebody's.
    lake.hexfloe(&["inspect", &countries, "--job", "countries.toml"]).ends(Exit::Usage);
}

#[test]
fn the_json_of_an_inspection_is_version_1() {
    let lake = Lake::with_points("id,lat,lon\n1,48.25,16.5\n2,,\n");
    let inspection = lake.hexfloe(&["inspect", "points.csv", "--json"]).ends(Exit::Done).report();
    assert_eq!(inspection["version"], 1);
    let layer = &inspection["layers"][0];
    let keys: Vec<&String> = layer.as_object().unwrap().keys().collect();
    let mut expected = [
        "file",
        "format",
        "layer",
        "bytes",
        "error",
        "rows",
        "null_geometries",
        "empty_geometries",
        "rejects",
        "first_reject",
        "columns",
        "geometry",
        "samples",
        "problems",
        "job",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected, "{layer:#}");
    assert_eq!((&layer["rows"], &layer["rejects"]), (&json!(2), &json!({ "null-latitude": 1 })));
    assert_eq!(layer["geometry"]["column"], "lon, lat");
    let cell: &Value = &layer["samples"][0]["cell"];
    assert_eq!(cell, "891e15b6d77ffff", "{layer:#}");
}
