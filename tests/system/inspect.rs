//! `hexfloe inspect`: what it says of odd files, and the job that it writes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

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

#[test]
fn a_layer_is_chosen_for_the_job() {
    let lake = Lake::new();
    let file = odd(&lake, "two_layers");
    let which = lake.hexfloe(&["inspect", &file, "--job"]).ends(Exit::Usage);
    assert!(which.stderr.contains("--layer"), "{}", which.stderr);
    let run = lake.hexfloe(&["inspect", &file, "--layer", "lines", "--job"]).ends(Exit::Done);
    assert!(!run.stdout.contains("layer stops"), "{}", run.stdout);
    let report = lake.ingest(&["job.toml"]).committed();
    assert_eq!((&report["rows"], &report["table"]), (&json!(1), &json!("landing.two_layers_lines")));
    let none = lake.hexfloe(&["inspect", &file, "--layer", "rivers"]).ends(Exit::Input);
    assert!(none.stdout.contains("rivers") && none.stdout.contains("stops"), "{}", none.stdout);
}

#[test]
fn what_the_file_has_already_is_made_under_another_name() {
    let lake = Lake::new();
    let feature = r#"{"type":"Feature","properties":{"Geometry":"square","h3_cell":7},"geometry":{"type":"Point","coordinates":[16.5,48.25]}}"#;
    lake.write("odd.geojson", feature);
    lake.hexfloe(&["inspect", "odd.geojson", "--job"]).ends(Exit::Done);
    lake.ingest(&["job.toml"]).committed();
    let columns = lake.columns("landing.odd");
    for name in ["Geometry", "h3_cell", "geometry_2", "h3_cell_2"] {
        assert!(columns.to_string().contains(&format!("\"{name}\"")), "{columns}");
    }
    lake.write("taken.geojson", feature.replace("h3_cell", "ingest_batch_id"));
    let run = lake.hexfloe(&["inspect", "taken.geojson"]).ends(Exit::Done);
    assert!(run.stdout.contains("`ingest_batch_id`, which in the table"), "{}", run.stdout);
}

#[test]
fn files_of_other_letters_get_tables_of_their_own() {
    let lake = Lake::new();
    let table = |file: &str| -> String {
        lake.write(file, "id,lat,lon\n1,48.25,16.5\n");
        let inspection = lake.hexfloe(&["inspect", file, "--json"]).ends(Exit::Done).report();
        let job = inspection["layers"][0]["job"].as_str().unwrap().to_owned();
        job.lines().find_map(|line| line.strip_prefix("name = \"landing.")).unwrap().to_owned()
    };
    let tables = ["Улицы.csv", "通り.csv", "дороги.csv"].map(table);
    assert!(tables[0] != tables[1] && tables[0] != tables[2] && tables[1] != tables[2], "{tables:?}");
    assert_eq!(table("Vienna streets.csv"), "vienna_streets\"");
}

#[test]
fn a_system_that_is_given_holds_for_columns_of_any_name() {
    let lake = Lake::with_points("id,lat,lon\n1,180000,530000\n");
    let run = lake.hexfloe(&["inspect", "points.csv", "--crs", "EPSG:27700", "--job", "grid.toml"]).ends(Exit::Done);
    assert!(run.stdout.contains("89195da49a7ffff"), "{}", run.stdout);
    assert_eq!(lake.ingest(&["grid.toml"]).committed()["rows"], 1);
}

#[test]
fn a_file_behind_a_url_is_looked_at_and_its_job_lands_it() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/points.csv?layer=stops", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            request.read_line(&mut line).unwrap();
            // What is asked for is a part of where it is.
            assert!(line.contains("?layer=stops"), "{line}");
            while request.read_line(&mut line).unwrap() > 2 {}
            let body = "id,lat,lon\n1,48.25,16.5\n";
            let head =
                "HTTP/1.1 200 OK\r\nlast-modified: Mon, 30 Nov 2026 00:00:00 GMT\r\netag: \"1\"\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    let lake = Lake::new();
    let run = lake.hexfloe(&["inspect", &url, "--job", "jobs/points.toml"]);
    assert!(run.stderr.contains("cannot write jobs/points.toml"), "{}", run.stderr);
    let run = lake.hexfloe(&["inspect", &url, "--job"]).ends(Exit::Done);
    // What may be a secret is in the job alone.
    assert!(run.stdout.contains("csv, 1 row") && run.stdout.contains("/points.csv?***"), "{}", run.stdout);
    assert_eq!(lake.ingest(&["job.toml"]).committed()["rows"], 1);
    let gone = lake.hexfloe(&["inspect", "http://127.0.0.1:1/gone.csv"]).ends(Exit::Input);
    assert!(gone.stdout.contains("http://127.0.0.1:1/gone.csv"), "{}", gone.stdout);
}

#[test]
fn decimal_commas_are_seen() {
    let lake = Lake::with_points("id;lat;lon;height\n1;48,25;16,5;171\n2;\"47,5\";-1,25;3,5\n");
    let run = lake.hexfloe(&["inspect", "points.csv", "--job", "commas.toml"]).ends(Exit::Done);
    assert!(run.stdout.contains("decimal_comma = true") && run.stdout.contains("891e15b6d77ffff"), "{}", run.stdout);
    assert_eq!(lake.ingest(&["commas.toml"]).committed()["rows"], 2);
}

#[rstest]
#[case::web_page("stops.csv", "<!DOCTYPE html>\n<title>Log in</title>\n", "HTML")]
#[case::kml("stops.kml", "<?xml version=\"1.0\"?>\n<kml/>\n", "ogr2ogr")]
#[case::array("stops.json", "[{\"lat\":1,\"lon\":2}]", "jq")]
#[case::utf16("stops.csv", "\u{feff}lat;lon\n", "iconv")]
fn what_is_no_table_is_told_for_what_it_is(#[case] file: &str, #[case] content: &str, #[case] told: &str) {
    let lake = Lake::new();
    let content = match told {
        "iconv" => content.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        _ => content.as_bytes().to_vec(),
    };
    lake.write(file, content);
    let run = lake.hexfloe(&["inspect", file, "--job"]).ends(Exit::Input);
    assert!(run.stdout.contains(told), "{}", run.stdout);
    assert!(!lake.path("job.toml").exists());
}

#[test]
fn a_job_beside_its_file_moves_with_it() {
    let lake = Lake::new();
    lake.write("a/points.csv", "id,lat,lon\n1,48.25,16.5\n");
    lake.hexfloe(&["inspect", "a/points.csv", "--job", "a/job.toml"]).ends(Exit::Done);
    std::fs::rename(lake.path("a"), lake.path("b")).unwrap();
    assert_eq!(lake.ingest(&["b/job.toml"]).committed()["rows"], 1);
    let again = lake.hexfloe(&["inspect", "b/points.csv", "--job", "b/job.toml"]).ends(Exit::Usage);
    assert!(again.stderr.contains("is there already"), "{}", again.stderr);
}

#[test]
fn the_box_is_in_the_system_of_the_file_and_another_system_is_told_of() {
    let lake = Lake::new();
    lake.write("grid.csv", "id,x,y\n1,530000,180000\n");
    let grid = lake.hexfloe(&["inspect", "grid.csv", "--crs", "EPSG:27700", "--json"]).ends(Exit::Done).report();
    assert_eq!(grid["layers"][0]["geometry"]["bbox"], json!([530_000.0, 180_000.0, 530_000.0, 180_000.0]));
    let countries = example("countries/naturalearth_lowres.shp");
    let run = lake.hexfloe(&["inspect", &countries, "--crs", "EPSG:27700"]).ends(Exit::Done);
    assert!(run.stdout.contains("is not used: the file says EPSG:4326"), "{}", run.stdout);
}
