//! Of rows with the same key, one: the same one in the same bytes, however the input is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hexfloe_ingest::{ErrorKind, Status};
use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any, prop_assert, prop_assert_eq, proptest};
use rstest::rstest;

use crate::lake::{Lake, column, job, longs};
use crate::modes::table_rows;

fn dedupe(paths: &str, settings: &str) -> String {
    job("csv", paths, &format!("[quality]\ndedupe = {{ {settings} }}"))
}

/// `b.csv` comes after `a.csv`. Rank 5 comes twice for key 1; key null comes twice, once without a rank.
async fn lake() -> Lake {
    let lake = Lake::new().await;
    lake.write("a.csv", "id,key,rank\n1,1,5\n2,2,1\n3,,9\n4,1,3\n");
    lake.write("b.csv", "id,key,rank\n5,1,5\n6,2,0\n7,,\n8,3,0\n");
    lake
}

#[rstest]
#[case::last("key = [\"key\"]", &["5", "6", "7", "8"])]
#[case::first("key = [\"key\"], keep = \"first\"", &["1", "2", "3", "8"])]
#[case::highest("key = [\"key\"], order_by = \"rank\"", &["2", "3", "5", "8"])]
#[case::lowest("key = [\"key\"], order_by = \"rank\", keep = \"first\"", &["4", "6", "7", "8"])]
#[case::two_columns("key = [\"key\", \"rank\"]", &["2", "3", "4", "5", "6", "7", "8"])]
#[tokio::test(flavor = "multi_thread")]
async fn one_row_of_each_key_is_kept(#[case] settings: &str, #[case] expected: &[&str]) {
    let lake = lake().await;
    let report = lake.run(&dedupe("*.csv", settings)).await.unwrap();
    let out = 8 - expected.len() as u64;
    assert_eq!((report.rows, report.deduplicated, report.rejected), (expected.len() as u64, out, 0));
    assert_eq!(table_rows(&lake, &["id"]).await, expected);
    let table = lake.table().await.unwrap();
    let summary = &table.metadata().current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary["ingest.rows"], expected.len().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_used_does_not_win() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,key,name\n1,1,a\n2,1,\n3,2,b\n");
    let settings = "[quality]\non_reject = \"quarantine\"\nnot_null = [\"name\"]\ndedupe = { key = [\"key\"] }";
    let report = lake.run(&job("csv", "in.csv", settings)).await.unwrap();
    assert_eq!((report.rows, report.deduplicated, report.rejected), (2, 0, 1));
    assert_eq!(table_rows(&lake, &["id"]).await, ["1", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_may_not_be_null_rejects_the_rows_where_it_is() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,name\n1,a\n2,\n");
    let job = job("csv", "in.csv", "[quality]\nnot_null = [\"name\", \"id\"]");
    let error = lake.run(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("in.csv, row 2: column name is required"), "{error}");
    for (not_null, message) in [("nothing", "quality.not_null: the table has no column `nothing`")] {
        let error = lake.run(&job.replace("\"name\"", &format!("\"{not_null}\""))).await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    // A table may have a column that the input lacks; no row has a value there then.
    lake.write("in.csv", "id,name\n1,a\n");
    lake.run(&job).await.unwrap();
    lake.write("in.csv", "id\n2\n");
    let error = lake.run(&job).await.unwrap_err().to_string();
    assert!(error.contains("quality.not_null needs a column `name`, and the source has none"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_counts_the_same_rows() {
    let lake = lake().await;
    let dry = hexfloe_ingest::RunOptions { dry_run: true, ..lake.options() };
    let report = lake.run_with(&dedupe("*.csv", "key = [\"key\"]"), &[], dry).await.unwrap();
    assert_eq!((report.status, report.rows, report.deduplicated), (Status::Unchanged, 4, 4));
}

#[rstest]
#[case("key = []", "quality.dedupe.key names no column")]
#[case("key = [\"nothing\"]", "quality.dedupe.key: the table has no column `nothing`")]
#[case("key = [\"key\"], order_by = \"nothing\"", "quality.dedupe.order_by: the table has no column `nothing`")]
#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_followed_are_named(#[case] settings: &str, #[case] message: &str) {
    let lake = lake().await;
    let error = lake.run(&dedupe("*.csv", settings)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains(message), "{error}");
    assert!(lake.table().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_do_not_fit_into_the_jobs_memory_are_refused() {
    let lake = Lake::new().await;
    let rows: String = (0..50_000).map(|id| format!("{id},{id}\n")).collect();
    lake.write("in.csv", format!("id,key\n{rows}"));
    let job = dedupe("in.csv", "key = [\"key\"]");
    let error = lake.run_with(&job, &["limits.memory=1MiB"], lake.options()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Configuration && error.to_string().contains("limits.memory is 1MiB"), "{error}");
    assert!(lake.table().await.is_none());
}

/// The failure of the first piece that has one, in the order of the input.
#[rstest]
#[case(1)]
#[case(4)]
#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_breaks_off_is_told_as_without_dedupe(#[case] threads: usize) {
    let lake = Lake::new().await;
    let rows: String = (0..40_000).map(|id| format!("{id},{id}\n")).collect();
    lake.write("in.csv", format!("id,key\n{rows}7\n"));
    let threads = format!("limits.threads={threads}");
    let with = lake.run_with(&dedupe("in.csv", "key = [\"key\"]"), &[&threads], lake.options()).await.unwrap_err();
    let without = lake.run_with(&job("csv", "in.csv", ""), &[&threads], lake.options()).await.unwrap_err();
    assert_eq!((with.kind(), with.to_string()), (without.kind(), without.to_string()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_what_a_loop_over_the_rows_would_keep_whatever_the_threads(
        rows in vec((proptest::option::weighted(0.9, 0..60_i64), proptest::option::weighted(0.9, 0..4_i64)), 0..2_000),
        row_group_rows in 20..300_usize,
        first in any::<bool>(),
        ordered in any::<bool>(),
        text in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let lake = Lake::new().await;
            let ids: ArrayRef = Arc::new((0_i64..).take(rows.len()).collect::<Int64Array>());
            let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
            let ranks: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
            let names: ArrayRef = Arc::new(rows.iter().map(|row| Some(format!("key {:?}", row.0))).collect::<StringArray>());
            let all = RecordBatch::try_from_iter([("id", ids), ("key", keys), ("rank", ranks), ("name", names)]).unwrap();
            let format = if text { "csv" } else { "parquet" };
            let half = rows.len() / 2;
            for (name, part) in [("a", all.slice(0, half)), ("b", all.slice(half, rows.len() - half))] {
                match text {
                    true => lake.write(&format!("{name}.csv"), crate::order::as_csv(&part)),
                    false => lake.write_parquet(&format!("{name}.parquet"), &part, row_group_rows),
                }
            }

            // The rule, said plainly.
            let mut best: BTreeMap<Option<i64>, (Option<i64>, usize)> = BTreeMap::new();
            for (id, (key, rank)) in rows.iter().enumerate() {
                let rank = if ordered { *rank } else { None };
                let held = best.entry(*key).or_insert((rank, id));
                let better = if first { (rank, id) < *held } else { (rank, id) > *held };
                if better {
                    *held = (rank, id);
                }
            }
            let mut expected: Vec<Option<i64>> = best.values().map(|(_, id)| i64::try_from(*id).ok()).collect();
            expected.sort_unstable();

            let order = if ordered { ", order_by = \"rank\"" } else { "" };
            let keep = if first { "first" } else { "last" };
            let job = format!(
                "{}\n[source.schema]\nid = \"long\"\nkey = \"long\"\nrank = \"long\"\nname = \"string\"",
                job(format, &format!("*.{format}"), &format!(
                    "[quality]\ndedupe = {{ key = [\"name\"], keep = \"{keep}\"{order} }}"
                ))
            );
            let mut bytes = None;
            for threads in [1, 2, 3, 8] {
                let report = lake.force(&job, &[&format!("limits.threads={threads}")]).await.unwrap();
                prop_assert_eq!((report.rows, report.deduplicated), (expected.len() as u64, (rows.len() - expected.len()) as u64));
                let files = lake.files().await;
                let ids = files.first().map(|file| longs(&column(file, "id"))).unwrap_or_default();
                prop_assert_eq!(&ids, &expected);
                let written = lake.bytes().await;
                let bytes = bytes.get_or_insert_with(|| written.clone());
                prop_assert!(*bytes == written, "{} threads wrote other bytes than one", threads);
            }
            Ok(())
        })?;
    }
}
