//! Rows that cannot be used: the batch refused, or the rows set aside.

use std::fmt::Write;

use hexfloe_ingest::{Error, ErrorKind, Status};

use crate::lake::{Lake, job};

const POINTS: &str = "[geometry]\nlat = \"lat\"\nlon = \"lon\"\n[h3]\nresolution = 5";

/// Rows of which every `nth` has no latitude.
fn input(rows: usize, nth: usize) -> String {
    let mut text = "id,lat,lon\n".to_owned();
    for id in 1..=rows {
        let lat = if id % nth == 0 { String::new() } else { "48.1".to_owned() };
        writeln!(text, "{id},{lat},11.5").unwrap();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_twenty_are_shown_in_order_and_all_are_counted() {
    let lake = Lake::new().await;
    lake.write("a.csv", input(20_000, 2_000));
    lake.write("b.csv", input(40_000, 2_000));
    for threads in ["limits.threads=1", "limits.threads=8"] {
        let error = lake.force(&job("csv", "*.csv", POINTS), &[threads]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        let Error::Rejected { count, first } = &error else { panic!("{error}") };
        assert_eq!((*count, first.len()), (30, 20));
        let places: Vec<(&str, u64)> = first.iter().map(|row| (row.file.as_ref(), row.row)).collect();
        let expected = (1..=10).map(|row| ("a.csv", row * 2_000)).chain((1..=10).map(|row| ("b.csv", row * 2_000)));
        assert_eq!(places, expected.collect::<Vec<_>>());
        let message = error.to_string();
        assert!(message.contains("a.csv, row 2000: ") && message.contains("10 more"), "{message}");
        assert!(message.contains("quality.on_reject"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_input_makes_no_table_even_if_its_first_batches_were_fine() {
    let lake = Lake::new().await;
    // Three batches; the last row of all is the bad one.
    lake.write("in.csv", input(40_000, 40_000));
    for threads in ["limits.threads=1", "limits.threads=4"] {
        lake.force(&job("csv", "in.csv", POINTS), &[threads]).await.unwrap_err();
        assert!(lake.table().await.is_none(), "a table was made for nothing");
        assert_eq!(lake.on_disk(""), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_input_that_was_half_written_leaves_no_file() {
    let lake = Lake::new().await;
    lake.write("in.csv", input(100_000, 100_000));
    for threads in ["limits.threads=1", "limits.threads=4"] {
        let error = lake.force(&job("csv", "in.csv", POINTS), &[threads, "limits.memory=\"1\""]).await.unwrap_err();
        assert!(matches!(error, Error::Rejected { count: 1, .. }), "{error}");
        assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (0, vec![]));
    }
}

fn quarantined(paths: &str) -> String {
    job("csv", paths, &format!("{POINTS}\n[quality]\non_reject = \"quarantine\"\nreject_folder = \"aside\""))
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_set_aside_keep_their_place_their_reason_and_their_values() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,name,lat,lon\n1,Wien,48.2,16.4\n2,\"a \"\"b\"\"\n\",91,0\n3,c,,0\n4,d,1,NaN\n");
    let report = lake.run(&quarantined("in.csv")).await.unwrap();
    assert_eq!((report.status, report.rows, report.rejected), (Status::Committed, 1, 3));
    let path = lake.path(&format!("aside/places.cities/{}.ndjson", report.batch_id));
    assert_eq!(report.reject_file.as_deref(), Some(path.as_path()));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> =
        lines.iter().map(|line| (line["file"].as_str().unwrap(), line["row"].as_u64().unwrap())).collect();
    assert_eq!(rows, [("in.csv", 2), ("in.csv", 3), ("in.csv", 4)]);
    assert_eq!(lines[0]["values"]["name"], "a \"b\"\n");
    assert_eq!(lines[0]["values"]["lat"], 91.0);
    assert_eq!(lines[1]["values"]["id"], 3);
    assert!(lines.iter().all(|line| line["code"].is_string() && line["reason"].is_string()), "{text}");

    let table = lake.table().await.unwrap();
    let summary = &table.metadata().current_snapshot().unwrap().summary().additional_properties;
    assert_eq!((summary["ingest.rows"].as_str(), summary["ingest.rejected"].as_str()), ("1", "3"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_batch_sets_the_same_bytes_aside() {
    let lake = Lake::new().await;
    lake.write("in.csv", input(50_000, 700));
    let report = lake.run(&quarantined("in.csv")).await.unwrap();
    let path = report.reject_file.unwrap();
    let first = std::fs::read(&path).unwrap();
    assert_eq!(first.iter().filter(|byte| **byte == b'\n').count(), 71);
    for threads in ["limits.threads=1", "limits.threads=8"] {
        std::fs::remove_file(&path).unwrap();
        lake.force(&quarantined("in.csv"), &[threads]).await.unwrap();
        assert!(std::fs::read(&path).unwrap() == first, "{threads} set other bytes aside");
    }
    let folder = std::fs::read_dir(path.parent().unwrap()).unwrap();
    assert_eq!(folder.count(), 1, "nothing but the file itself");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skipped_batch_sets_nothing_aside() {
    let lake = Lake::new().await;
    lake.write("in.csv", input(10, 5));
    let path = lake.run(&quarantined("in.csv")).await.unwrap().reject_file.unwrap();
    std::fs::remove_file(&path).unwrap();
    let report = lake.run(&quarantined("in.csv")).await.unwrap();
    assert_eq!((report.status, report.rejected, report.reject_file), (Status::Skipped, 0, None));
    assert!(!path.exists());
}

/// The same batch by its offsets, corrected at its source.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_rejects_any_more_loses_its_reject_file() {
    let lake = Lake::new().await;
    let job = quarantined("in.csv")
        .replace("granularity = \"files\"", "granularity = \"offsets\"\npartition = \"0\"\noffsets = [0, 10]");
    lake.write("in.csv", input(10, 5));
    let path = lake.run(&job).await.unwrap().reject_file.unwrap();
    lake.write("in.csv", input(10, 11));
    let report = lake.force(&job, &["batch.on_changed_input=replace"]).await.unwrap();
    assert_eq!((report.rows, report.rejected, report.reject_file, report.replaced_rows), (10, 0, None, 8));
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_breaks_off_sets_nothing_aside() {
    let lake = Lake::new().await;
    lake.write("in.csv", format!("{}\"open\n", input(50_000, 1_000)));
    let error = lake.run(&quarantined("in.csv")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let aside = std::fs::read_dir(lake.path("aside/places.cities"));
    assert_eq!(aside.map_or(0, Iterator::count), 0);
    assert_eq!(lake.snapshots().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_rejected_is_an_empty_batch_when_they_are_set_aside() {
    let lake = Lake::new().await;
    lake.write("in.csv", input(10, 1));
    let report = lake.run(&quarantined("in.csv")).await.unwrap();
    assert_eq!((report.status, report.rows, report.rejected, report.data_files), (Status::Committed, 0, 10, 0));
}
