//! Data files are written as the properties of their table say.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hexfloe_ingest::ErrorKind;
use parquet::basic::Compression;
use parquet::file::metadata::RowGroupMetaData;
use rstest::rstest;

use crate::lake::{Lake, footer, job};

/// Numbers that do not repeat, and names of 100 characters.
fn input(rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new((0..rows).map(|id| id * 7_919 % 1_000_003).collect::<Int64Array>());
    let names: ArrayRef = Arc::new((0..rows).map(|id| Some(format!("{id:0100}"))).collect::<StringArray>());
    RecordBatch::try_from_iter([("id", ids), ("name", names)]).unwrap()
}

fn with(properties: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = properties.iter().map(|(name, value)| format!("\"{name}\" = \"{value}\"")).collect();
    job("parquet", "in.parquet", &format!("properties = {{ {} }}", pairs.join(", ")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_table_merges_manifests_early_and_may_say_otherwise() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(10), 10);
    lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    let table = lake.table().await.unwrap();
    assert_eq!(table.metadata().properties()["commit.manifest.min-count-to-merge"], "10");
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(10), 10);
    lake.run(&with(&[("commit.manifest.min-count-to-merge", "50")])).await.unwrap();
    let table = lake.table().await.unwrap();
    assert_eq!(table.metadata().properties()["commit.manifest.min-count-to-merge"], "50");
}

#[rstest]
#[case::default(&[], Compression::ZSTD(Default::default()))]
#[case::snappy(&[("write.parquet.compression-codec", "snappy")], Compression::SNAPPY)]
#[case::none(&[("write.parquet.compression-codec", "uncompressed")], Compression::UNCOMPRESSED)]
#[tokio::test(flavor = "multi_thread")]
async fn files_are_compressed_as_the_table_says(#[case] properties: &[(&str, &str)], #[case] expected: Compression) {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(1_000), 1_000);
    lake.run(&with(properties)).await.unwrap();
    let footer = footer(&lake.files().await[0]);
    for column in footer.row_group(0).columns() {
        // Footers do not tell the level.
        let (found, expected) = (column.compression(), expected);
        assert_eq!(std::mem::discriminant(&found), std::mem::discriminant(&expected), "{}", column.column_path());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_higher_level_makes_smaller_files() {
    let mut sizes = Vec::new();
    for level in ["1", "19"] {
        let lake = Lake::new().await;
        lake.write_parquet("in.parquet", &input(20_000), 20_000);
        lake.run(&with(&[("write.parquet.compression-level", level)])).await.unwrap();
        sizes.push(lake.files().await[0].file_size_in_bytes());
    }
    assert!(sizes[1] < sizes[0], "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_bloom_filters_are_those_that_the_table_asks_for() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(10_000), 10_000);
    lake.run(&with(&[
        ("write.parquet.page-row-limit", "1000"),
        ("write.parquet.bloom-filter-enabled.column.id", "true"),
    ]))
    .await
    .unwrap();
    let footer = footer(&lake.files().await[0]);
    let (id, name) = (footer.row_group(0).column(0), footer.row_group(0).column(1));
    assert!(id.bloom_filter_offset().is_some() && name.bloom_filter_offset().is_none());
    let pages = footer.offset_index().map(|index| index[0][0].page_locations().len());
    assert_eq!(pages, Some(10));
}

/// The bytes of a row are 8 + 104 + 36, so 200,000 of them are some 1,350 rows.
#[rstest]
#[case(1)]
#[case(3)]
#[tokio::test(flavor = "multi_thread")]
async fn a_row_group_ends_at_the_bytes_that_the_table_says(#[case] threads: usize) {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(10_000), 700);
    let job = with(&[("write.parquet.row-group-size-bytes", "200000")]);
    lake.force(&job, &[&format!("limits.threads={threads}")]).await.unwrap();
    let footer = footer(&lake.files().await[0]);
    let rows: Vec<i64> = footer.row_groups().iter().map(RowGroupMetaData::num_rows).collect();
    let (last, full) = rows.split_last().unwrap();
    assert!(full.iter().all(|rows| (1_300..1_400).contains(rows)) && *last <= 1_400, "{rows:?}");
    assert_eq!(rows.iter().sum::<i64>(), 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn properties_that_a_table_got_later_count_for_the_next_batch() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(5_000), 700);
    lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    assert_eq!(footer(&lake.files().await[0]).num_row_groups(), 1);
    let properties = [
        ("write.parquet.row-group-size-bytes", Some("200000")),
        ("write.parquet.compression-codec", Some("snappy")),
        ("write.object-storage.enabled", Some("true")),
    ];
    lake.set_properties(&properties).await;
    lake.force(&job("parquet", "in.parquet", ""), &[]).await.unwrap();
    let files = lake.files().await;
    let footer = footer(&files[0]);
    assert!(footer.num_row_groups() >= 3, "{}", footer.num_row_groups());
    assert_eq!(footer.row_group(0).column(0).compression(), Compression::SNAPPY);
    let (_, below) = files[0].file_path().split_once("/data/").unwrap();
    let folders: Vec<usize> = below.split('/').map(str::len).collect();
    assert_eq!(folders[..4], [4, 4, 4, 8], "{below}");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_files_go_to_the_folder_that_the_table_says() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(10), 10);
    let folder = format!("file://{}/elsewhere/", lake.path("lake/warehouse").display());
    lake.run(&with(&[("write.data.path", &folder)])).await.unwrap();
    let path = lake.files().await[0].file_path().to_owned();
    assert!(path.starts_with(&folder) && !path[folder.len()..].contains('/'), "{path}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_property_that_cannot_be_followed_is_refused_before_anything_is_written() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &input(10), 10);
    let error = lake.run(&with(&[("write.parquet.compression-codec", "lzo")])).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains("compression-codec"), "{error}");
    assert!(lake.table().await.is_none());
}
