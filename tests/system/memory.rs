//! Memory does not grow with the input.

use hexfloe_tests::{Backend, Lake, POINTS, data, json};
use rstest::rstest;

const MIB: u64 = 1024 * 1024;

#[rstest]
#[case::a_million_points("points_1m.parquet", 1_000_000)]
#[case::ten_million_points("points_10m.parquet", 10_000_000)]
fn an_ingest_by_day_stays_under_300_mib(#[case] points: &str, #[case] rows: u64) {
    let lake = Lake::new();
    let job = POINTS.replace("\"csv\"", "\"parquet\"").replace("points.csv", &data(points).display().to_string());
    lake.write("job.toml", job + "partition = [\"day(event_ts)\"]\n");
    let peak = lake.peak_memory(&["ingest", "job.toml", "--set", "limits.threads=2"]);
    assert_eq!(lake.ask("count", json!({ "table": "ns.points" }))["rows"], rows);
    assert!(peak < 300 * MIB, "{} MiB at the peak", peak / MIB);
}

#[test]
fn an_ingest_of_ten_million_points_into_s3_stays_under_700_mib() {
    let lake = Lake::on(Backend::RestS3);
    let points = data("points_10m.parquet").display().to_string();
    let job = POINTS.replace("\"csv\"", "\"parquet\"").replace("points.csv", &points);
    lake.write("job.toml", job + "partition = [\"day(event_ts)\"]\n");
    let peak = lake.peak_memory(&["ingest", "job.toml", "--set", "limits.threads=2"]);
    println!("{} MiB at the peak", peak / MIB);
    assert_eq!(lake.ask("count", json!({ "table": "ns.points" }))["rows"], 10_000_000);
    assert!(peak < 700 * MIB, "{} MiB at the peak", peak / MIB);
    assert_eq!(lake.ask("open_uploads", json!({})), json!([]));
}
