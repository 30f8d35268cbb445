//! Where row groups and files end, and how much waits in memory.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use iceberg::spec::DataFile;
use parquet::file::metadata::RowGroupMetaData;
use rstest::rstest;
use tokio::sync::Semaphore;

use crate::faults::{Fault, FaultyWrites};
use crate::lake::{Lake, footer, job};
use crate::order::{as_csv, places};

fn numbers(rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new((0..rows).collect::<Int64Array>());
    let kinds: ArrayRef = Arc::new((0..rows).map(|id| id % 3).collect::<Int64Array>());
    RecordBatch::try_from_iter([("id", ids), ("kind", kinds)]).unwrap()
}

#[rstest]
#[case(1_000)]
#[case(50_000)]
#[case(1_000_000)]
#[tokio::test(flavor = "multi_thread")]
async fn a_row_group_ends_at_131_072_rows_wherever_those_of_the_input_end(#[case] row_group_rows: usize) {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &numbers(300_000), row_group_rows);
    lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    let files = lake.files().await;
    assert_eq!(files.len(), 1);
    let groups: Vec<i64> = footer(&files[0]).row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    assert_eq!(groups, [131_072, 131_072, 37_856]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_ends_with_the_row_group_that_reaches_the_tables_target() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &places(70_000, 2, false), 10_000);
    // With a memory of one byte every batch of 16,384 rows is a row group, so that files have several.
    let job = job("parquet", "in.parquet", "properties = { \"write.target-file-size-bytes\" = \"300000\" }");
    lake.force(&job, &["limits.memory=\"1\""]).await.unwrap();
    let files = lake.files().await;
    let sizes: Vec<u64> = files.iter().map(DataFile::file_size_in_bytes).collect();
    assert!(sizes.len() > 2, "{sizes:?}");
    for (file, size) in files.iter().zip(&sizes).rev().skip(1) {
        let groups = footer(file);
        let last = groups.row_groups().last().unwrap().compressed_size().unsigned_abs();
        assert!(*size >= 300_000 && size - last < 310_000, "{sizes:?}, last row group {last}");
    }
    let ids = lake.ids_by_partition().await;
    assert!(ids[""].iter().copied().eq(0..70_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_rare_partition_do_not_keep_the_batches_they_came_in() {
    // One row in 8,000 is of the rare zone. Its rows wait until the end, in one row group, as their own bytes allow.
    let lake = Lake::new().await;
    let rows = places(120_000, 1, false);
    let rare: ArrayRef = Arc::new((0..120_000).map(|id| i64::from(id % 8_000 == 7)).collect::<Int64Array>());
    let mut columns = rows.columns().to_vec();
    columns[1] = rare;
    let rows = RecordBatch::try_new(rows.schema(), columns).unwrap();
    lake.write_parquet("in.parquet", &rows, 20_000);
    lake.force(&job("parquet", "in.parquet", "partition = [\"zone\"]"), &["limits.memory=8MiB"]).await.unwrap();
    let ids = lake.ids_by_partition().await;
    assert_eq!(ids["Long(1)"], (0..15).map(|row| row * 8_000 + 7).collect::<Vec<i64>>());
    assert_eq!(ids["Long(0)"].len(), 120_000 - 15);
}

/// The store does not answer, and the rows that are read meanwhile are few, whatever the number of threads.
#[rstest]
#[case::csv("csv", 1)]
#[case::csv("csv", 4)]
#[case::parquet("parquet", 4)]
#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_stalls_no_more_is_read_than_fits(#[case] format: &str, #[case] threads: usize) {
    const ROWS: i64 = 200_000;
    let gate = Arc::new(Semaphore::new(0));
    let lake = Lake::over(|store| FaultyWrites::new(store, Fault::Wait(Arc::clone(&gate)), 0)).await;
    let input = places(ROWS, 1, false);
    match format {
        "csv" => lake.write("in.csv", as_csv(&input)),
        _ => lake.write_parquet("in.parquet", &input, 5_000),
    }
    // Each batch is a row group and each row group a file.
    let job = job(format, &format!("in.{format}"), "properties = { \"write.target-file-size-bytes\" = \"1\" }");
    let job = crate::lake::job_of(&job, &["limits.memory=1MiB", &format!("limits.threads={threads}")]);
    let ingest = lake.ingest();
    let progress = ingest.progress();
    let options = lake.options();
    let running = tokio::spawn(async move { ingest.run(&job, &options).await });
    let mut seen = Vec::new();
    while seen.len() < 5 || seen[seen.len() - 5..].iter().any(|rows| *rows != seen[seen.len() - 1] || *rows == 0) {
        #[expect(clippy::disallowed_methods, reason = "what is waited for is that nothing happens")]
        tokio::time::sleep(Duration::from_millis(100)).await;
        seen.push(progress.rows());
        assert!(seen.len() < 200, "rows never stop: {seen:?}");
    }
    let stalled = seen[seen.len() - 1];
    gate.add_permits(1_000);
    let report = running.await.unwrap().unwrap();
    assert_eq!(report.rows, ROWS.unsigned_abs());
    assert!(stalled < 120_000, "{stalled} rows were read while nothing could be written");
}
