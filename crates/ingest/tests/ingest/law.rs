//! Whatever the sizes of files and row groups, partitions, memory and threads: the pipeline is a sort by partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hexfloe_ingest::Status;
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;

use crate::lake::{Lake, job};

/// A file: its rows' partitions, and how many rows a row group has.
fn file() -> impl Strategy<Value = (Vec<Option<i64>>, usize)> {
    let scattered = vec(proptest::option::weighted(0.9, 0..40_i64), 0..400);
    // Runs, as in sorted input.
    let runs = vec((0..6_i64, 1..200_usize), 0..8).prop_map(|runs| {
        runs.into_iter().flat_map(|(zone, length)| std::iter::repeat_n(Some(zone), length)).collect::<Vec<_>>()
    });
    (proptest::prop_oneof![scattered, runs], 1..150_usize)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_holds_what_a_loop_over_the_rows_would_put_there(
        files in vec(file(), 1..5),
        memory in select(vec!["1", "20000", "300000", "1GiB"]),
        threads in 1..9_usize,
        text in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let lake = Lake::new().await;
            let mut expected: BTreeMap<String, Vec<i64>> = BTreeMap::new();
            let mut next = 0;
            for (index, (zones, row_group_rows)) in files.iter().enumerate() {
                let ids: Vec<i64> = (next..).take(zones.len()).collect();
                next += i64::try_from(zones.len()).unwrap();
                for (id, zone) in ids.iter().zip(zones) {
                    let partition = zone.map_or("null".to_owned(), |zone| format!("Long({zone})"));
                    expected.entry(partition).or_default().push(*id);
                }
                if text {
                    let lines = ids.iter().zip(zones).map(|(id, zone)| {
                        format!("{id},{},name {id}\n", zone.map_or(String::new(), |zone| zone.to_string()))
                    });
                    lake.write(&format!("{index}.csv"), format!("id,zone,name\n{}", lines.collect::<String>()));
                } else {
                    let names: ArrayRef = Arc::new(ids.iter().map(|id| Some(format!("name {id}"))).collect::<StringArray>());
                    let zones: ArrayRef = Arc::new(zones.iter().copied().collect::<Int64Array>());
                    let ids: ArrayRef = Arc::new(Int64Array::from(ids));
                    let rows = RecordBatch::try_from_iter([("id", ids), ("zone", zones), ("name", names)]).unwrap();
                    lake.write_parquet(&format!("{index}.parquet"), &rows, *row_group_rows);
                }
            }
            let format = if text { "csv" } else { "parquet" };
            let job = format!(
                "{}\n[source.schema]\nid = \"long\"\nzone = \"long\"\nname = \"string\"",
                job(format, &format!("*.{format}"), "partition = [\"zone\"]")
            );
            let memory = format!("limits.memory=\"{memory}\"");
            let report = lake.force(&job, &[&memory, "limits.threads=1"]).await.unwrap();
            prop_assert_eq!((report.status, report.rows), (Status::Committed, next.unsigned_abs()));
            prop_assert_eq!(lake.ids_by_partition().await, expected);
            let one = lake.bytes().await;
            lake.force(&job, &[&memory, &format!("limits.threads={threads}")]).await.unwrap();
            prop_assert!(one == lake.bytes().await, "{} threads wrote other bytes than one", threads);
            Ok(())
        })?;
    }
}
