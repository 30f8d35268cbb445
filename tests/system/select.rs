//! SQL over the source, with the run's date as a parameter.

use hexfloe_tests::{Exit, Lake, POINTS, json};

const CSV: &str = "id,lat,lon,seen\n1,48.2,16.4,2026-03-10\n2,-33.9,151.2,2026-03-11\n3,64.1,-21.9,2026-03-11\n";

fn lake() -> Lake {
    let lake = Lake::with_points(CSV);
    let select =
        "select = \"SELECT id * 10 AS ten, lat, lon, $run_date AS run_date FROM input WHERE seen = $run_date\"";
    lake.write("job.toml", POINTS.replace("paths =", &format!("{select}\npaths =")));
    lake
}

#[test]
fn the_run_date_is_a_parameter_of_the_select() {
    let lake = lake();
    let report = lake.ingest(&["job.toml", "--run-date", "2026-03-11"]).committed();
    assert_eq!(report["rows"], 2);
    let rows =
        lake.ask("rows", json!({ "table": "ns.points", "columns": ["ten", "lat", "run_date"], "order": ["ten"] }));
    assert_eq!(
        rows,
        json!([
            { "ten": 20, "lat": -33.9, "run_date": "2026-03-11" },
            { "ten": 30, "lat": 64.1, "run_date": "2026-03-11" },
        ])
    );
    lake.nothing_wrong(
        "wrong_cells",
        json!({ "table": "ns.points", "lat": "lat", "lon": "lon", "cell": "h3_cell", "resolution": 9 }),
    );
    lake.ingest(&["job.toml", "--run-date", "2026-03-11"]).skipped();
}

#[test]
fn a_select_with_a_run_date_needs_one() {
    let lake = lake();
    lake.ingest(&["job.toml"]).refuses(Exit::Usage, &["--run-date"]);
    assert!(lake.state().is_empty());
}

#[test]
fn a_select_that_is_wrong_is_refused_in_one_line() {
    let lake = lake();
    let wrong = "source.select=\"SELECT latt FROM input\"";
    lake.ingest(&["job.toml", "--set", wrong]).refuses(Exit::Usage, &["latt"]);
    assert!(lake.state().is_empty());
}

#[test]
fn a_forced_run_of_a_select_writes_the_same_bytes() {
    let lake = lake();
    let run = ["job.toml", "--run-date", "2026-03-11"];
    lake.ingest(&run).committed();
    let digests = lake.digests("ns.points");
    lake.ingest(&[&run[..], &["--force", "--set", "limits.threads=1"]].concat()).committed();
    assert_eq!(lake.digests("ns.points"), digests);
}
