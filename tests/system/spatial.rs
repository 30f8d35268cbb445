//! Spatial files as people have them: every format gives the same rows, geometries arrive exactly, cells are those of PROJ and H3, and
//! other readers see geometry.

use hexfloe_tests::{Backend, Exit, Lake, SeaweedFs, Value, data, example, json, judge};
use rstest::rstest;

const COUNTRIES: &str = "ns.countries";
const PARCELS: &str = "ns.parcels";

/// A job for one spatial file, with its geometry kept and cells of resolution 7.
pub(crate) fn job(format: &str, path: &str, more: &str) -> String {
    let (geometry, rest) = more.split_once("---").unwrap_or(("", more));
    format!(
        "[source]\nname = \"s\"\nformat = \"{format}\"\npaths = [{path:?}]\n\
         [geometry]\nstore = \"wkb\"\n{geometry}\n[h3]\nresolution = 7\n{rest}"
    )
}

fn countries() -> String {
    example("countries/naturalearth_lowres.shp")
}

const FORMATS: [&str; 6] = ["shapefile", "geopackage", "geojson", "geojsonseq", "flatgeobuf", "geoparquet"];

#[test]
fn the_same_countries_come_out_of_every_format() {
    let mut digests = Vec::new();
    for format in FORMATS {
        let lake = Lake::new();
        let to = lake.path("countries").display().to_string();
        let file = judge("do_convert", json!({ "source": countries(), "to": to, "format": format }));
        let more = "[batch]\ngranularity = \"content\"\n[table]\nname = \"ns.countries\"\n";
        lake.write("job.toml", job(format, file.as_str().unwrap(), more));
        let report = lake.ingest(&["job.toml"]).committed();
        assert_eq!(
            (&report["rows"], &report["rejected"], &report["without_geometry"]),
            (&json!(177), &json!(0), &json!(0))
        );
        lake.nothing_wrong(
            "spatial_differences",
            json!({ "table": COUNTRIES, "source": countries(), "cell": "h3_cell", "resolution": 7 }),
        );
        lake.nothing_wrong("unsound", json!({ "table": COUNTRIES }));
        let rows = lake.ask("spatial_digest", json!({ "table": COUNTRIES, "leave_out": ["ingest_batch_id"] }));
        digests.push((format, rows, report["batch_id"].clone()));
    }
    for (format, rows, batch_id) in &digests {
        assert_eq!(rows, &digests[0].1, "rows of {format}");
        // The id of a batch of this granularity is a digest of the rows, their names and types.
        assert_eq!(batch_id, &digests[0].2, "content of {format}");
    }
}

#[test]
fn parcels_arrive_with_their_areas_and_the_cells_of_proj_and_h3() {
    let lake = Lake::new();
    let parcels = data("parcels.gpkg").display().to_string();
    let more = "[batch]\ngranularity = \"slice\"\n\
                [table]\nname = \"ns.parcels\"\nmode = \"slice\"\nslice = { run_date = \"$run_date\" }\n";
    lake.write("job.toml", job("geopackage", &parcels, more).replace("resolution = 7", "resolution = 10"));
    let run = |date: &str| lake.ingest(&["job.toml", "--run-date", date, "--force"]).committed();
    for _ in 0..3 {
        assert_eq!(run("2026-08-11")["rows"], 21_253);
        let counted = lake.ask("count", json!({ "table": PARCELS, "key": "label" }));
        assert_eq!(counted, json!({ "rows": 21_253, "distinct": 21_253 }));
    }
    let found = lake.ask("parcel_cells", json!({ "table": PARCELS, "source": parcels, "resolution": 10 }));
    assert_eq!((&found["rows"], &found["same"]), (&json!(21_253), &json!(true)), "{found}");
    assert_eq!(found["areas"][0], found["areas"][1]);
    // A point within a millimetre of the edge of a cell may be given to either: neighbours, whose centres are 130 m apart.
    assert!(found["different"].as_u64().unwrap() <= 2 && found["farthest_m"].as_f64().unwrap() < 200.0, "{found}");
    assert_eq!(run("2026-08-12")["rows"], 21_253);
    let counted = lake.ask("count", json!({ "table": PARCELS, "key": "label" }));
    assert_eq!(counted, json!({ "rows": 42_506, "distinct": 21_253 }));
    let crs = &lake.ask("table", json!({ "table": PARCELS }))["properties"];
    assert_eq!(crs["ingest.crs.geometry"], "EPSG:27700");
    let transformation: Value =
        serde_json::from_str(crs["ingest.transformation.EPSG:27700"].as_str().unwrap()).unwrap();
    assert!(transformation["library"].as_str().unwrap().starts_with("proj4rs "), "{transformation}");
}

#[rstest]
#[case::degrees("shapefile", "countries", "OGC:CRS84")]
#[case::british_grid("geopackage", "parcels", "EPSG:27700")]
fn other_readers_see_geometry_and_its_reference_system(#[case] format: &str, #[case] what: &str, #[case] crs: &str) {
    let lake = Lake::new();
    let file = if what == "countries" { countries() } else { data("parcels.gpkg").display().to_string() };
    let more = "bbox = \"bbox\"\n---[batch]\ngranularity = \"files\"\n[table]\nname = \"ns.t\"\n";
    lake.write("job.toml", job(format, &file, more));
    let rows = lake.ingest(&["job.toml"]).committed()["rows"].clone();
    let seen = lake.ask("seen_as_geometry", json!({ "table": "ns.t" }));
    let [seen] = seen.as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!(seen["geopandas"]["rows"], rows);
    assert_eq!(seen["gdal"]["rows"], rows);
    assert_eq!(seen["duckdb"]["rows"], rows);
    assert!(seen["duckdb"]["type"].as_str().unwrap().starts_with("GEOMETRY"), "{seen:#}");
    assert_eq!(seen["geopandas"]["crs"], crs, "{seen:#}");
    assert_eq!(seen["geopandas"]["bounds"], seen["gdal"]["bounds"]);
    // GDAL names longitude and latitude after the system whose axes it swaps.
    let gdal = if crs == "OGC:CRS84" { ["OGC:CRS84", "EPSG:4326"].as_slice() } else { &[crs] };
    assert!(gdal.contains(&seen["gdal"]["crs"].as_str().unwrap()), "{seen:#}");
}

#[test]
fn boxes_have_bounds_in_the_manifest_and_duckdb_reads_less_by_them() {
    let lake = Lake::new();
    let parcels = data("parcels.gpkg").display().to_string();
    let more = "bbox = \"bbox\"\n---[batch]\ngranularity = \"files\"\n\
                [table]\nname = \"ns.t\"\nproperties = { \"write.parquet.row-group-size-bytes\" = \"1048576\" }\n";
    lake.write("job.toml", job("geopackage", &parcels, more));
    lake.ingest(&["job.toml"]).committed();
    let live = lake.files("ns.t");
    assert!(live[0]["lower"]["bbox.xmin"].is_number() && live[0]["upper"]["bbox.ymax"].is_number(), "{:#}", live[0]);
    assert!(live[0]["lower"].get("geometry").is_none(), "{:#}", live[0]);
    let conditions = ["true", "bbox.xmax < 482000", "bbox.xmin > 600000"];
    let asked = lake.ask("bytes_read", json!({ "table": "ns.t", "conditions": conditions }));
    assert!(asked["groups"].as_u64().unwrap() > 3, "{asked}");
    let [all, west, nowhere] = [0, 1, 2].map(|which| {
        let answer = &asked["answers"][which];
        (answer["found"].as_u64().unwrap(), answer["bytes"].as_u64().unwrap())
    });
    assert_eq!((all.0, nowhere.0), (21_253, 0), "{asked}");
    assert!(west.0 > 0 && west.0 < 21_253 / 4, "{asked}");
    assert!(west.1 < all.1 / 2, "{asked}");
    // Not one geometry is read where no row group has any.
    assert!(nowhere.1 < all.1 / 20, "{asked}");
}

#[test]
fn a_folder_of_files_resumes_where_it_stopped() {
    let lake = Lake::new();
    for number in 0..18 {
        let to = lake.path(format!("folder/part{number:02}"));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        judge("do_part", json!({ "source": countries(), "to": to.display().to_string(), "part": number, "parts": 18 }));
    }
    let more = "[batch]\ngranularity = \"file\"\n[table]\nname = \"ns.countries\"\n";
    lake.write("job.toml", job("shapefile", "folder/*.shp", more));
    let statuses = |arguments: &[&str]| -> Vec<String> {
        let run = lake.ingest(arguments).ends(Exit::Done);
        let told = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        told.map(|report| report["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(&["job.toml"]), ["committed"; 18]);
    assert_eq!(statuses(&["job.toml"]), ["skipped"; 18]);
    judge("do_unpack_again", json!({ "folder": lake.path("folder").display().to_string() }));
    assert_eq!(statuses(&["job.toml"]), ["skipped"; 18]);
    let counted = lake.ask("count", json!({ "table": COUNTRIES, "key": "iso_a3" }));
    assert_eq!(counted["rows"], 177);
}

/// Memory does not depend on the size of the file: it is one line, and 64 MiB of it.
#[test]
fn a_feature_collection_on_one_line_is_read_in_little_memory() {
    let lake = Lake::new();
    let more =
        "[batch]\ngranularity = \"files\"\n[table]\nname = \"ns.world\"\n[limits]\nmemory = \"64MiB\"\nthreads = 2\n";
    lake.write("job.toml", job("geojson", &data("small_world.geojson").display().to_string(), more));
    let peak = lake.peak_memory(&["ingest", "job.toml"]);
    assert!(peak < 200 << 20, "{} MiB", peak >> 20);
}

/// The same with a file of 1 GiB.
#[test]
#[ignore = "takes minutes and 1 GiB of disk: cargo test --workspace --features sql --test system -- --ignored a_gibibyte"]
fn a_gibibyte_of_features_on_one_line_is_read_in_little_memory() {
    let lake = Lake::new();
    let more =
        "[batch]\ngranularity = \"files\"\n[table]\nname = \"ns.world\"\n[limits]\nmemory = \"64MiB\"\nthreads = 2\n";
    lake.write("job.toml", job("geojson", &data("world.geojson").display().to_string(), more));
    let peak = lake.peak_memory(&["ingest", "job.toml"]);
    assert!(peak < 300 << 20, "{} MiB", peak >> 20);
}

const BATCH: &str = "[batch]\ngranularity = \"files\"\n[table]\nname = \"ns.t\"\n";

#[test]
fn geometries_are_brought_to_degrees_on_request() {
    let lake = Lake::new();
    let parcels = data("parcels.gpkg").display().to_string();
    lake.write("job.toml", job("geopackage", &parcels, &format!("store_crs = \"OGC:CRS84\"\n---{BATCH}")));
    lake.ingest(&["job.toml"]).committed();
    let seen = lake.ask("seen_as_geometry", json!({ "table": "ns.t" }));
    assert_eq!(seen[0]["geopandas"]["crs"], "OGC:CRS84");
    let by_proj = judge("degrees_bounds", json!({ "source": parcels }));
    for corner in 0..4 {
        let apart = seen[0]["geopandas"]["bounds"][corner].as_f64().unwrap() - by_proj[corner].as_f64().unwrap();
        // A centimetre.
        assert!(apart.abs() < 1e-7, "{} and {by_proj}", seen[0]["geopandas"]["bounds"]);
    }
    assert_eq!(lake.ask("table", json!({ "table": "ns.t" }))["properties"]["ingest.crs.geometry"], "OGC:CRS84");
}

/// S11: the reference system is that of each column.
#[test]
fn two_geometry_columns_keep_their_systems() {
    let lake = Lake::new();
    let file = judge("do_two_columns", json!({ "to": lake.path("two").display().to_string() }));
    lake.write("job.toml", job("geoparquet", file.as_str().unwrap(), BATCH));
    lake.ingest(&["job.toml"]).committed();
    let geo = lake.ask("geo_columns", json!({ "table": "ns.t" }));
    assert_eq!((&geo["primary"], &geo["columns"]["geometry"]["crs"]), (&json!("geometry"), &json!("EPSG:27700")));
    assert_eq!(geo["columns"]["entrance"]["crs"], "OGC:CRS84");
    assert_eq!(geo["columns"]["entrance"]["types"], json!(["Point"]));
    let properties = &lake.ask("table", json!({ "table": "ns.t" }))["properties"];
    assert_eq!(properties["ingest.crs.geometry"], "EPSG:27700");
    assert_eq!(properties["ingest.crs.entrance"], "OGC:CRS84");
    // Rows of another system do not come beside them.
    let other = lake.ingest(&["job.toml", "--force", "--set", "geometry.store_crs=OGC:CRS84"]).ends(Exit::Derivation);
    assert!(other.stderr.contains("ingest.crs.geometry"), "{}", other.stderr);
}

#[test]
fn rings_are_closed_on_request_and_that_is_recorded() {
    let lake = Lake::new();
    let open = r#"{"type":"Polygon","coordinates":[[[16,48],[17,48],[17,49],[16,49]]]}"#;
    lake.write("open.geojson", format!(r#"{{"type":"Feature","properties":{{"id":1}},"geometry":{open}}}"#));
    lake.write("job.toml", job("geojson", "open.geojson", BATCH));
    let refused = lake.ingest(&["job.toml"]).ends(Exit::Input);
    assert!(refused.stderr.contains("not closed"), "{}", refused.stderr);
    lake.ingest(&["job.toml", "--set", "geometry.repair=close-rings"]).committed();
    let derivation = &lake.ask("table", json!({ "table": "ns.t" }))["properties"]["ingest.derivation.geometry"];
    assert_eq!(derivation, r#"{"repair":"close-rings-1"}"#);
    lake.write(
        "closed.geojson",
        r#"{"type":"Feature","properties":{"id":2},"geometry":{"type":"Point","coordinates":[1,2]}}"#,
    );
    let without = lake.ingest(&["job.toml", "--set", "source.paths=[\"closed.geojson\"]"]).ends(Exit::Usage);
    assert!(without.stderr.contains("geometry.repair"), "{}", without.stderr);
    let seen = lake.ask("seen_as_geometry", json!({ "table": "ns.t" }));
    assert_eq!(seen[0]["geopandas"]["bounds"], json!([16.0, 48.0, 17.0, 49.0]));
}

#[test]
fn a_table_of_geometries_as_they_came_gets_no_repaired_ones() {
    let lake = Lake::new();
    let point = r#"{"type":"Feature","properties":{"id":1},"geometry":{"type":"Point","coordinates":[1,2]}}"#;
    lake.write("a.geojson", point);
    lake.write("b.geojson", point.replace(":1}", ":2}"));
    lake.write("job.toml", job("geojson", "a.geojson", BATCH));
    lake.ingest(&["job.toml"]).committed();
    let next = ["job.toml", "--set", "source.paths=[\"b.geojson\"]"];
    let refused = lake.ingest(&[&next[..], &["--set", "geometry.repair=close-rings"]].concat()).ends(Exit::Usage);
    assert!(refused.stderr.contains("remove geometry.repair"), "{}", refused.stderr);
    lake.ingest(&next).committed();
}

/// Whoever corrects the system of a job and runs it again wants other cells, not "skipped".
#[rstest]
#[case::cells_of_geometries("column = \"geom\"\n", "id,geom\n1,POINT (530000 180000)\n")]
#[case::cells_of_two_columns("x = \"x\"\ny = \"y\"\n", "id,x,y\n1,530000,180000\n")]
fn the_same_file_in_another_system_is_a_changed_batch(#[case] geometry: &str, #[case] rows: &str) {
    let lake = Lake::new();
    lake.write("a.csv", rows);
    let job = format!(
        "[source]\nname = \"s\"\nformat = \"csv\"\npaths = [\"a.csv\"]\n[geometry]\n{geometry}crs = \"EPSG:32633\"\n\
         [h3]\nresolution = 7\n{BATCH}"
    );
    lake.write("job.toml", job);
    lake.ingest(&["job.toml"]).committed();
    lake.ingest(&["job.toml"]).skipped();
    let corrected = ["job.toml", "--set", "geometry.crs=EPSG:27700"];
    let refused = lake.ingest(&corrected).ends(Exit::Input);
    assert!(refused.stderr.contains("batch.on_changed_input"), "{}", refused.stderr);
    lake.ingest(&[&corrected[..], &["--set", "batch.on_changed_input=replace"]].concat()).committed();
    let rows = lake.ask("rows", json!({ "table": "ns.t", "columns": ["h3_cell"] }));
    assert_eq!(rows, json!([{ "h3_cell": 0x0871_95da_49ff_ffff_u64 }]));
}

#[test]
fn columns_of_eastings_and_northings_are_positions() {
    let lake = Lake::new();
    lake.write("grid.csv", "id,east,north\n1,530000,180000\n2,431000,433000\n");
    let job = "[source]\nname = \"s\"\nformat = \"csv\"\npaths = [\"grid.csv\"]\n\
               [geometry]\nx = \"east\"\ny = \"north\"\ncrs = \"EPSG:27700\"\n[h3]\nresolution = 7\n";
    lake.write("job.toml", job.to_owned() + BATCH);
    lake.ingest(&["job.toml"]).committed();
    let rows = lake.ask("rows", json!({ "table": "ns.t", "columns": ["east", "h3_cell"] }));
    // By pyproj and h3.
    assert_eq!(rows[0], json!({ "east": 530_000.0, "h3_cell": 608_432_189_448_650_751_u64 }));
    lake.write("degrees.csv", "id,east,north\n1,-0.128,51.504\n");
    let degrees = ["job.toml", "--set", "source.paths=[\"degrees.csv\"]"];
    let refused = lake.ingest(&degrees).ends(Exit::Input);
    assert!(refused.stderr.contains("looks like degrees"), "{}", refused.stderr);
}

#[test]
fn a_cover_is_the_cells_of_a_polygon() {
    let lake = Lake::new();
    let lake_shore = "POLYGON ((16.70 47.70, 16.86 47.72, 16.84 47.95, 16.72 47.90, 16.70 47.70))";
    lake.write("lakes.csv", format!("id,wkt\n1,\"{lake_shore}\"\n2,\n"));
    let job = "[source]\nname = \"s\"\nformat = \"csv\"\npaths = [\"lakes.csv\"]\n\
               [geometry]\ncolumn = \"wkt\"\ncrs = \"OGC:CRS84\"\n\
               [h3]\nresolution = 7\ncover = { resolution = 7, containment = \"contains-centroid\" }\n";
    lake.write("job.toml", job.to_owned() + BATCH);
    lake.ingest(&["job.toml"]).committed();
    let rows = lake.ask("rows", json!({ "table": "ns.t", "columns": ["h3_cover"] }));
    let expected = judge("expected_cover", json!({ "wkt": lake_shore, "resolution": 7 }));
    assert!(expected.as_array().unwrap().len() > 40);
    assert_eq!((&rows[0]["h3_cover"], &rows[1]["h3_cover"]), (&expected, &Value::Null));
    lake.nothing_wrong("unsound", json!({ "table": "ns.t" }));
    let few = lake.ingest(&["job.toml", "--set", "h3.cover.max_cells=10", "--set", "table.name=ns.other"]);
    let refused = few.ends(Exit::Input);
    assert!(refused.stderr.contains("more than 10 cells"), "{}", refused.stderr);
}

/// Input on the store of the tables, which is reached as they are; each file is a batch.
#[test]
fn files_of_a_bucket_are_read_once_each() {
    let lake = Lake::on(Backend::RestS3);
    let bucket = SeaweedFs::shared().bucket();
    let point = |id: u32| {
        format!(
            r#"{{"type":"Feature","properties":{{"id":{id}}},"geometry":{{"type":"Point","coordinates":[{id},48]}}}}"#
        )
    };
    let file = |id: u32| format!("s3://{bucket}/in/part {id}.geojson");
    lake.ask(
        "do_write",
        json!({ "files": { file(1): point(1), file(2): point(2), format!("s3://{bucket}/in/other.txt"): "x" } }),
    );
    let more = BATCH.replace("\"files\"", "\"file\"");
    lake.write("job.toml", job("geojson", &format!("s3://{bucket}/in/*.geojson"), &more));
    let statuses = || -> Vec<String> {
        let run = lake.ingest(&["job.toml"]).ends(Exit::Done);
        let told = run.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        told.map(|report| report["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(), ["committed", "committed"]);
    lake.ask("do_write", json!({ "files": { file(3): point(3) } }));
    assert_eq!(statuses(), ["skipped", "skipped", "committed"]);
    let counted = lake.ask("count", json!({ "table": "ns.t", "key": "id" }));
    assert_eq!(counted, json!({ "rows": 3, "distinct": 3 }));
}

/// What one column of a table holds is held by all of its rows: a job that would leave it empty is refused.
#[test]
fn a_job_that_keeps_no_geometries_does_not_come_into_a_table_of_them() {
    let lake = Lake::new();
    let more = format!("bbox = \"bbox\"\n---{BATCH}");
    lake.write("job.toml", job("shapefile", &countries(), &more));
    lake.ingest(&["job.toml"]).committed();
    lake.write(
        "other.geojson",
        r#"{"type":"Feature","properties":{"name":"x"},"geometry":{"type":"Point","coordinates":[1,2]}}"#,
    );
    let other = job("geojson", "other.geojson", BATCH);
    lake.write("without_boxes.toml", &other);
    let refused = lake.ingest(&["without_boxes.toml"]).ends(Exit::Usage);
    assert!(refused.stderr.contains("geometry.bbox"), "{}", refused.stderr);
    lake.write("without_geometry.toml", other.replace("store = \"wkb\"\n", ""));
    let refused = lake.ingest(&["without_geometry.toml"]).ends(Exit::Usage);
    assert!(
        refused.stderr.contains("geometry.store") || refused.stderr.contains("geometry.bbox"),
        "{}",
        refused.stderr
    );
    let required = ["job.toml", "--set", "quality.not_null=[\"h3_cell\"]", "--set", "table.name=ns.other"];
    let refused = lake.ingest(&required).ends(Exit::Usage);
    assert!(refused.stderr.contains("quality.no_geometry"), "{}", refused.stderr);
    let twice = lake.ingest(&["job.toml", "--set", "geometry.bbox=geometry"]).ends(Exit::Usage);
    assert!(twice.stderr.contains("two columns of the name `geometry`"), "{}", twice.stderr);
}

#[rstest]
#[case::around_the_pole(
    "POLYGON ((-1000000 -1000000, 1000000 -1000000, 1000000 1000000, -1000000 1000000, -1000000 -1000000))",
    3031,
    "either way around the world"
)]
#[case::long_edges(
    "POLYGON ((3000000 3500000, 6000000 3500000, 6000000 3510000, 3000000 3510000, 3000000 3500000))",
    3035,
    "is bent by"
)]
fn what_becomes_another_shape_in_degrees_is_refused(#[case] wkt: &str, #[case] epsg: u32, #[case] reason: &str) {
    let lake = Lake::new();
    lake.write("shape.csv", format!("id,wkt\n1,\"{wkt}\"\n"));
    let job = format!(
        "[source]\nname = \"s\"\nformat = \"csv\"\npaths = [\"shape.csv\"]\n\
         [geometry]\ncolumn = \"wkt\"\ncrs = \"EPSG:{epsg}\"\nstore = \"wkb\"\n[h3]\nresolution = 5\n{BATCH}"
    );
    lake.write("job.toml", job);
    let refused = lake.ingest(&["job.toml", "--set", "geometry.store_crs=OGC:CRS84"]).ends(Exit::Input);
    assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    // As it is, it is fine.
    lake.ingest(&["job.toml"]).committed();
}

/// Degrees are degrees on every datum.
#[test]
fn an_edge_of_etrs89_may_go_either_way_around_the_world_too() {
    let lake = Lake::new();
    lake.write("shape.csv", "id,wkt\n1,\"POLYGON ((179 51, -179 51, -179 52, 179 52, 179 51))\"\n");
    let job = "[source]\nname = \"s\"\nformat = \"csv\"\npaths = [\"shape.csv\"]\n\
               [geometry]\ncolumn = \"wkt\"\ncrs = \"EPSG:4258\"\n[h3]\nresolution = 5\n";
    lake.write("job.toml", job.to_owned() + BATCH);
    let refused = lake.ingest(&["job.toml"]).ends(Exit::Input);
    assert!(refused.stderr.contains("either way around the world"), "{}", refused.stderr);
}

/// The same numbers in another system are other rows, though their text is the same.
#[test]
fn content_in_another_reference_system_is_another_batch() {
    let lake = Lake::new();
    lake.write("grid.csv", "id,wkt\n1,POINT (500000 5300000)\n");
    let job = "[source]\nname = \"s\"\nformat = \"csv\"\npaths = [\"grid.csv\"]\n\
               [geometry]\ncolumn = \"wkt\"\ncrs = \"EPSG:25832\"\n[h3]\nresolution = 5\n";
    lake.write("job.toml", job.to_owned() + &BATCH.replace("\"files\"", "\"content\""));
    let first = lake.ingest(&["job.toml"]).committed();
    let second = lake.ingest(&["job.toml", "--crs", "EPSG:25833"]).committed();
    assert_ne!(first["batch_id"], second["batch_id"]);
    assert_eq!(lake.ingest(&["job.toml"]).skipped()["batch_id"], first["batch_id"]);
}

/// A table of points takes points, with their heights, and nothing else.
#[test]
fn a_table_made_from_latitudes_and_longitudes_takes_points_only() {
    let lake = Lake::new();
    lake.write("points.csv", "id,lat,lon\n1,48,11\n");
    let tail = "store = \"wkb\"\n[h3]\nresolution = 5\n".to_owned() + BATCH;
    let source = |file: &str| format!("[source]\nname = \"s\"\nformat = \"csv\"\npaths = [{file:?}]\n[geometry]\n");
    lake.write("points.toml", source("points.csv") + "lat = \"lat\"\nlon = \"lon\"\n" + &tail);
    lake.ingest(&["points.toml"]).committed();
    lake.write("high.csv", "id,lat,lon,wkt\n2,1,1,POINT Z (12 49 77)\n");
    lake.write("wkt.toml", source("high.csv") + "column = \"wkt\"\ncrs = \"OGC:CRS84\"\n" + &tail);
    lake.ingest(&["wkt.toml"]).committed();
    lake.write("line.csv", "id,lat,lon,wkt\n3,1,1,\"LINESTRING (12 49, 13 50)\"\n");
    let line = lake.ingest(&["wkt.toml", "--set", "source.paths=[\"line.csv\"]"]).ends(Exit::Input);
    assert!(line.stderr.contains("LineString, not a point"), "{}", line.stderr);
    let geo = lake.ask("rows", json!({ "table": "ns.t", "columns": ["id", "geometry"], "order": ["id"] }));
    // The last eight bytes of the second are its height.
    assert!(geo[1]["geometry"].to_string().len() > geo[0]["geometry"].to_string().len(), "{geo}");
}
