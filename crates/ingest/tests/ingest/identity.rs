//! What makes a batch the same batch.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use hexfloe_ingest::{Ingest, RunOptions, Status};
use rstest::rstest;

use crate::lake::{Counting, Lake, column, job, longs};

fn content(format: &str, paths: &str) -> String {
    job(format, paths, "").replace("\"files\"", "\"content\"")
}

fn rows() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("name", Arc::new(StringArray::from(vec![Some("a"), None, Some("c")]))),
        ("x", Arc::new(Float64Array::from(vec![0.5, -1.25, 1e300]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[rstest]
#[case::other_names(&["b.parquet"], 1)]
#[case::other_row_groups(&["a.parquet"], 3)]
#[case::several_files(&["a.parquet", "b.parquet"], 3)]
#[tokio::test(flavor = "multi_thread")]
async fn the_same_rows_are_the_same_content_in_whatever_files(#[case] names: &[&str], #[case] row_group_rows: usize) {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,name,x\n1,a,0.5\n2,,-1.25\n3,c,1e300\n");
    let first = lake.run(&content("csv", "in.csv")).await.unwrap();
    for (index, name) in names.iter().enumerate() {
        let all = rows();
        let part = if names.len() == 1 { all } else { all.slice(index, index + 1) };
        lake.write_parquet(name, &part, row_group_rows);
    }
    let second = lake.run(&content("parquet", "*.parquet")).await.unwrap();
    assert_eq!((second.status, second.batch_id), (Status::Skipped, first.batch_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_order_of_rows_is_other_content() {
    let lake = Lake::new().await;
    lake.write("a.csv", "id\n1\n2\n");
    lake.write("b.csv", "id\n2\n1\n");
    let first = lake.run(&content("csv", "a.csv")).await.unwrap();
    let second = lake.run(&content("csv", "b.csv")).await.unwrap();
    assert_eq!(second.status, Status::Committed);
    assert_ne!(first.batch_id, second.batch_id);
}

/// The table widens these; had the table a say, the second run would be another batch, and its rows duplicates.
#[rstest]
#[case::small_numbers(Arc::new(Int16Array::from(vec![1, 2])))]
#[case::milliseconds(Arc::new(TimestampMillisecondArray::from(vec![1, 2])))]
#[case::nothing(Arc::new(StringArray::from(vec![None::<&str>, None])))]
#[tokio::test(flavor = "multi_thread")]
async fn content_is_the_same_before_and_after_the_table_is_made(#[case] array: ArrayRef) {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &RecordBatch::try_from_iter([("v", array)]).unwrap(), 10);
    let job = content("parquet", "in.parquet");
    let first = lake.run(&job).await.unwrap();
    let second = lake.run(&job).await.unwrap();
    assert_eq!((second.status, second.batch_id), (Status::Skipped, first.batch_id));
}

fn offsets(paths: &str, end: u64) -> String {
    job("csv", paths, "").replace(
        "granularity = \"files\"",
        &format!("granularity = \"offsets\"\npartition = \"0\"\noffsets = [0, {end}]"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_of_offsets_that_is_complete_is_not_decoded_again() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n2\n");
    let first = lake.run(&offsets("in.csv", 2)).await.unwrap();
    // Whoever decodes these bytes as Parquet fails.
    let second = lake.run(&offsets("in.csv", 2).replace("\"csv\"", "\"parquet\"")).await.unwrap();
    assert_eq!((second.status, &second.batch_id), (Status::Skipped, &first.batch_id));
    assert_eq!(second.snapshot_id, first.snapshot_id);
    lake.run(&offsets("in.csv", 3).replace("\"csv\"", "\"parquet\"")).await.unwrap_err();
}

#[rstest]
#[case("granularity = \"offsets\"", "needs batch.partition and batch.offsets")]
#[case("granularity = \"files\"\npartition = \"0\"", "go with batch.granularity = \"offsets\" only")]
#[case("granularity = \"content\"\noffsets = [0, 1]", "go with batch.granularity = \"offsets\" only")]
#[case("granularity = \"offsets\"\npartition = \"0\"\noffsets = [2, 1]", "offset")]
#[tokio::test(flavor = "multi_thread")]
async fn a_granularity_that_says_too_little_or_too_much_is_refused(#[case] batch: &str, #[case] message: &str) {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n");
    let error = lake.run(&job("csv", "in.csv", "").replace("granularity = \"files\"", batch)).await.unwrap_err();
    assert_eq!(error.kind(), hexfloe_ingest::ErrorKind::Configuration);
    assert!(error.to_string().contains(message), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_without_rows_is_a_snapshot_without_files() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,name\n");
    let job = job("csv", "in.csv", "[source.schema]\nid = \"long\"\nname = \"string\"");
    let first = lake.run(&job).await.unwrap();
    assert_eq!((first.status, first.rows, first.data_files), (Status::Committed, 0, 0));
    assert_eq!((lake.snapshots().await, lake.on_disk(".parquet")), (1, vec![]));
    assert_eq!(lake.run(&job).await.unwrap().status, Status::Skipped);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_became_empty_takes_its_earlier_rows_away() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id\n1\n2\n");
    lake.run(&offsets("in.csv", 2)).await.unwrap();
    lake.write("in.csv", "id\n");
    let report = lake.force(&offsets("in.csv", 2), &["batch.on_changed_input=replace"]).await.unwrap();
    assert_eq!((report.status, report.rows, report.replaced_rows), (Status::Committed, 0, 2));
    assert!(lake.files().await.is_empty());
    assert_eq!(lake.run(&offsets("in.csv", 2)).await.unwrap().status, Status::Skipped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_run_replaces_its_rows_and_no_others() {
    let lake = Lake::new().await;
    for name in ["a", "b"] {
        lake.write(&format!("{name}.csv"), format!("id,name\n1,{name}\n2,{name}\n"));
        lake.run(&job("csv", &format!("{name}.csv"), "")).await.unwrap();
    }
    let report = lake.force(&job("csv", "a.csv", ""), &[]).await.unwrap();
    assert_eq!((report.rows, report.replaced_rows, lake.snapshots().await), (2, 2, 3));
    let mut ids = Vec::new();
    for file in lake.files().await {
        ids.extend(longs(&column(&file, "id")));
    }
    assert_eq!(ids, [Some(1), Some(2), Some(1), Some(2)]);
}

#[rstest]
#[case::with_a_table(true)]
#[case::without_a_table(false)]
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_reads_everything_and_writes_nothing(#[case] table: bool) {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,lat\n1,1\n2,91\n");
    if table {
        lake.write("other.csv", "id,lat\n7,7\n");
        lake.run(&job("csv", "other.csv", "")).await.unwrap();
    }
    let (before, snapshots) = (lake.on_disk(""), lake.snapshots().await);
    let dry = || RunOptions { dry_run: true, ..lake.options() };
    let report = lake.run_with(&job("csv", "in.csv", ""), &["quality.on_reject=quarantine"], dry()).await.unwrap();
    assert_eq!((report.status, report.rows, report.snapshot_id), (Status::Unchanged, 2, None));
    assert_eq!((lake.on_disk(""), lake.snapshots().await), (before, snapshots));
    assert!(!lake.path("rejects").exists());
    assert_eq!(lake.table().await.is_some(), table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_needs_no_catalog_and_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.csv"), "id,lat,lon\n1,1,1\n2,91,1\n").unwrap();
    let ingest = Ingest::without_catalog(Counting::shared());
    let options = RunOptions {
        base: folder.path().to_owned(),
        working_folder: folder.path().to_owned(),
        run_date: None,
        force: false,
        dry_run: true,
        branch: RunOptions::MAIN.to_owned(),
        threads: 2,
    };
    let job = job("csv", "in.csv", "[geometry]\nlat = \"lat\"\nlon = \"lon\"\n[h3]\nresolution = 5");
    let quarantined = crate::lake::job_of(&job, &["quality.on_reject=quarantine"]);
    let report = ingest.run(&quarantined, &options).await.unwrap();
    assert_eq!((report.status, report.rows, report.rejected), (Status::Unchanged, 1, 1));
    let error = ingest.run(&crate::lake::job_of(&job, &[]), &options).await.unwrap_err();
    assert!(error.to_string().contains("in.csv, row 2"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_runtime_of_one_thread_is_refused_and_not_blocked() {
    let ingest = Ingest::without_catalog(Counting::shared());
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions {
        base: folder.path().to_owned(),
        working_folder: folder.path().to_owned(),
        run_date: None,
        force: false,
        dry_run: true,
        branch: RunOptions::MAIN.to_owned(),
        threads: 1,
    };
    let error = ingest.run(&crate::lake::job_of(&job("csv", "in.csv", ""), &[]), &options).await.unwrap_err();
    assert!(error.to_string().contains("multi-threaded"), "{error}");
}
