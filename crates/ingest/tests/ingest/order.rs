//! The same input gives the same bytes, and every row arrives once, in its partition, in input order.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use hexfloe_ingest::Status;
use rstest::rstest;

use crate::lake::{Lake, footer, job};

/// Rows in their zones: `id`, `zone`, `name`, `lat`, `lon`. Sorted, the rows of a zone are together; shuffled, they are
/// spread over the whole input.
pub(crate) fn places(rows: i64, zones: i64, shuffled: bool) -> RecordBatch {
    let ids: Vec<i64> = (0..rows).collect();
    let zone = |id: i64| if shuffled { id * 7_919 % zones } else { id * zones / rows };
    let degrees = |id: i64, factor: i64, range: i64| {
        let millionths = i32::try_from(id * factor % (range * 1_000_000)).unwrap();
        f64::from(millionths) / 1_000_000.0
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(ids.clone()))),
        ("zone", Arc::new(ids.iter().map(|id| zone(*id)).collect::<Int64Array>())),
        ("name", Arc::new(ids.iter().map(|id| (id % 17 != 0).then(|| format!("place {id}"))).collect::<StringArray>())),
        ("lat", Arc::new(ids.iter().map(|id| degrees(*id, 982_451_653, 90)).collect::<Float64Array>())),
        ("lon", Arc::new(ids.iter().map(|id| degrees(*id, 961_748_941, 180)).collect::<Float64Array>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The rows of [`places`] as text.
pub(crate) fn as_csv(rows: &RecordBatch) -> String {
    let mut text = String::new();
    let names: Vec<_> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    writeln!(text, "{}", names.join(",")).unwrap();
    for row in 0..rows.num_rows() {
        let values =
            rows.columns().iter().map(|column| arrow::util::display::array_value_to_string(column, row).unwrap());
        writeln!(text, "{}", values.collect::<Vec<_>>().join(",")).unwrap();
    }
    text
}

/// The ids of each zone, in order: what a table partitioned by zone must hold.
fn ids_by_zone(rows: &RecordBatch) -> BTreeMap<String, Vec<i64>> {
    let column = |index: usize| crate::lake::longs(rows.column(index)).into_iter().flatten();
    let mut expected: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (id, zone) in column(0).zip(column(1)) {
        expected.entry(format!("Long({zone})")).or_default().push(id);
    }
    expected
}

const CELLS: &str = r#"
partition = ["zone"]
[geometry]
lat = "lat"
lon = "lon"
[h3]
resolution = 9
parents = [2]
"#;

#[rstest]
#[case::csv_sorted("csv", 40_000, 200, false, "2MiB", &[1, 2, 3, 8])]
#[case::csv_shuffled("csv", 20_000, 100, true, "1MiB", &[1, 2, 3, 8])]
#[case::parquet_sorted("parquet", 40_000, 200, false, "2MiB", &[1, 2, 3, 8])]
#[case::parquet_shuffled("parquet", 20_000, 100, true, "1MiB", &[1, 2, 3, 8])]
#[case::thousands_of_partitions("parquet", 24_000, 2_000, true, "8MiB", &[1, 4])]
#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_threads_writes_the_same_bytes_and_every_row_once_in_order(
    #[case] format: &str,
    #[case] rows: i64,
    #[case] zones: i64,
    #[case] shuffled: bool,
    #[case] memory: &str,
    #[case] threads: &[usize],
) {
    let lake = Lake::new().await;
    let input = places(rows, zones, shuffled);
    match format {
        "csv" => lake.write("in.csv", as_csv(&input)),
        _ => lake.write_parquet("in.parquet", &input, 7_000),
    }
    let job = job(format, &format!("in.{format}"), CELLS);
    let memory = format!("limits.memory={memory}");
    let mut first = None;
    for threads in threads {
        let report = lake.force(&job, &[&memory, &format!("limits.threads={threads}")]).await.unwrap();
        assert_eq!((report.status, report.rows), (Status::Committed, u64::try_from(rows).unwrap()));
        let bytes = lake.bytes().await;
        assert_eq!(report.data_files, bytes.len() as u64);
        let first = first.get_or_insert_with(|| bytes.clone());
        assert!(*first == bytes, "{threads} threads wrote other bytes than one");
    }
    assert_eq!(lake.ids_by_partition().await, ids_by_zone(&input));
    if shuffled {
        let groups: usize = lake.files().await.iter().map(|file| footer(file).num_row_groups()).sum();
        assert!(groups > usize::try_from(zones).unwrap(), "no partition was cut for want of memory: {groups}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_files_are_one_sequence_of_rows() {
    let lake = Lake::new().await;
    let all = places(5_000, 3, true);
    // An empty file among them, and names whose order is not that of their making.
    for (name, from, rows) in [("c", 3_000, 2_000), ("a", 0, 1_000), ("b", 1_000, 2_000), ("aa", 1_000, 0)] {
        lake.write_parquet(&format!("{name}.parquet"), &all.slice(from, rows), 900);
    }
    let report = lake.force(&job("parquet", "*.parquet", CELLS), &["limits.threads=8"]).await.unwrap();
    assert_eq!(report.rows, 5_000);
    assert_eq!(lake.ids_by_partition().await, ids_by_zone(&all));
}
