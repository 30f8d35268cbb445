//! What is left when something breaks half way: nothing.

use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use hexfloe_ingest::{Error, ErrorKind, Status};
use rstest::rstest;

use crate::faults::{Fault, FaultyWrites};
use crate::lake::{Lake, job};
use crate::order::{as_csv, places};

/// Many small files, begun early: every batch is a row group, and each row group a file.
const MANY_FILES: &str = "partition = [\"zone\"]\nproperties = { \"write.target-file-size-bytes\" = \"1\" }";

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_the_end_of_the_input_removes_the_files_already_written() {
    let lake = Lake::new().await;
    let good = as_csv(&places(100_000, 3, false));
    lake.write("in.csv", format!("{good}1,2,\"open\n"));
    for threads in ["limits.threads=1", "limits.threads=4"] {
        let error = lake.force(&job("csv", "in.csv", MANY_FILES), &[threads, "limits.memory=\"1\""]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains("in.csv"), "{error}");
        assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (0, vec![]));
    }
}

/// Of two broken files the first is named, whichever a thread comes upon first.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_error_of_the_input_is_the_one_that_is_told() {
    let lake = Lake::new().await;
    let rows = places(9_000, 1, false);
    for name in ["a", "b", "c"] {
        lake.write_parquet(&format!("{name}.parquet"), &rows, 1_000);
    }
    for name in ["b", "c"] {
        let path = lake.path(&format!("{name}.parquet"));
        let mut bytes = std::fs::read(&path).unwrap();
        // Whole row groups, and not the footer.
        let half = bytes.len() / 2;
        bytes[half / 2..half].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
    }
    let mut messages = Vec::new();
    for threads in 1..9 {
        let threads = format!("limits.threads={threads}");
        let error = lake.force(&job("parquet", "*.parquet", ""), &[&threads]).await.unwrap_err();
        messages.push(error.to_string());
    }
    assert!(messages[0].contains("b.parquet"), "{}", messages[0]);
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_at_any_write_leaves_no_file_and_no_snapshot(
    #[values(0, 1, 2, 5, 7)] at: usize,
    #[values(1, 4)] threads: usize,
) {
    let lake = Lake::over(|store| FaultyWrites::new(store, Fault::Fail, at)).await;
    lake.write_parquet("in.parquet", &places(9_000, 8, true), 1_000);
    let job = job("parquet", "in.parquet", MANY_FILES);
    let threads = format!("limits.threads={threads}");
    let error = lake.force(&job, &[&threads]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (0, vec![]));
    // The fault is over: the same job lands.
    let report = lake.force(&job, &[&threads]).await.unwrap();
    assert_eq!((report.status, report.rows), (Status::Committed, 9_000));
}

/// A file of several parts: what was sent of it is given up too.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_in_the_middle_of_a_file_leaves_no_part_of_it(#[values(0, 1)] at: usize) {
    let lake = Lake::over(|store| FaultyWrites::new(store, Fault::Fail, at)).await;
    let columns = (0..8_u32).map(|column| {
        // Digits that do not compress.
        let values = (0..262_144_u32).map(move |row| f64::from(row.wrapping_mul(2_654_435_761) ^ (column << 7)).sin());
        let array: ArrayRef = std::sync::Arc::new(values.collect::<Float64Array>());
        (format!("c{column}"), array)
    });
    lake.write_parquet("in.parquet", &RecordBatch::try_from_iter(columns).unwrap(), 100_000);
    let error = lake.run(&job("parquet", "in.parquet", "")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(lake.on_disk("/data/"), [""; 0]);
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_panics_ends_the_run_and_leaves_nothing(
    #[values(0, 3)] at: usize,
    #[values(1, 4)] threads: usize,
) {
    let lake = Lake::over(|store| FaultyWrites::new(store, Fault::Panic, at)).await;
    lake.write_parquet("in.parquet", &places(20_000, 8, true), 1_000);
    let job = job("parquet", "in.parquet", MANY_FILES);
    let threads = format!("limits.threads={threads}");
    let overrides = [threads.as_str(), "limits.memory=\"1\""];
    let error = tokio::time::timeout(Duration::from_secs(60), lake.force(&job, &overrides)).await;
    let error = error.expect("the run hangs").unwrap_err();
    assert!(matches!(error, Error::Panicked), "{error}");
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (0, vec![]));
    assert_eq!(lake.force(&job, &[]).await.unwrap().rows, 20_000);
}
