//! What a batch takes the place of: its own rows, a slice, the rows with its keys, or nothing.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use hexfloe_commit::{BatchCommit, BatchOutcome, Error, ErrorKind, Keys, Replaces};
use iceberg::spec::Operation;
use rstest::rstest;

use crate::overwriting::{assert_totals, sorted, unnamed};
use crate::world::{World, committed, id, is_skipped, rows, rows_in};

fn slice(category: &str) -> Replaces {
    let column: ArrayRef = Arc::new(StringArray::from(vec![category]));
    Replaces::Slice(Keys(RecordBatch::try_from_iter([("category", column)]).unwrap()))
}

/// Keys of one column, as text: they are cast to the column's type.
fn keys(numbers: &[&str]) -> Replaces {
    let column: ArrayRef = Arc::new(StringArray::from(numbers.to_vec()));
    Replaces::Keys(Keys(RecordBatch::try_from_iter([("n", column)]).unwrap()))
}

#[rstest]
#[case::not_partitioned(false)]
#[case::partitioned(true)]
#[tokio::test]
async fn a_slice_replaces_its_slice_whoever_wrote_it_and_nothing_else(#[case] partitioned: bool) {
    let world = if partitioned { World::partitioned().await } else { World::new().await };
    for (category, numbers) in [("x", 0..3), ("y", 3..6)] {
        let file = world.file(&rows_in(category, "earlier", numbers)).await;
        world.stock_append(vec![file]).await;
    }
    let file = world.file(&rows_in("x", "new", 10..12)).await;
    let batch = BatchCommit { replaces: slice("x"), ..world.batch_of("new", vec![file]).await };
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    let expected = sorted([rows_in("y", "earlier", 3..6), rows_in("x", "new", 10..12)]);
    assert_eq!(world.rows().await, expected);
    let file = world.file(&rows_in("x", "new", 10..12)).await;
    let again = BatchCommit { replaces: slice("x"), force: true, ..world.batch_of("new", vec![file]).await };
    committed(&world.commit(&again).await.unwrap());
    assert_eq!(world.rows().await, expected, "twice is once");
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_slice_in_a_file_of_several_slices_is_taken_out_of_it() {
    let world = World::new().await;
    let nulls = unnamed(8..9);
    world
        .stock_append(vec![world.file(&[rows_in("x", "a", 0..2), rows_in("y", "a", 2..4), nulls].concat()).await])
        .await;
    let batch = BatchCommit { replaces: slice("x"), ..world.batch_of("b", Vec::new()).await };
    committed(&world.commit(&batch).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows_in("y", "a", 2..4), unnamed(8..9)]));
}

#[rstest]
#[case::not_partitioned(false)]
#[case::partitioned(true)]
#[tokio::test]
async fn keys_replace_the_rows_that_have_them_in_any_batch_and_the_batchs_own(#[case] partitioned: bool) {
    let world = if partitioned { World::partitioned().await } else { World::new().await };
    world.ingest("one", 0..4).await;
    world.ingest("two", 4..8).await;
    let batch = BatchCommit { replaces: keys(&["3", "4", "100"]), ..world.batch("three", [3, 4, 100]).await };
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 2, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, sorted([rows("one", 0..3), rows("two", 5..8), rows("three", [3, 4, 100])]));
    // Again with another key: what it had before goes as well.
    let batch = BatchCommit { replaces: keys(&["3", "5"]), force: true, ..world.batch("three", [3, 5]).await };
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 4, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, sorted([rows("one", 0..3), rows("two", 6..8), rows("three", [3, 5])]));
    assert_totals(&world).await;
}

#[tokio::test]
async fn keys_of_several_columns_match_together_and_null_matches_nothing() {
    let world = World::new().await;
    world.stock_append(vec![world.file(&[rows_in("x", "a", 0..2), rows_in("y", "a", 0..2)].concat()).await]).await;
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), None]));
    let categories: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), Some("y"), Some("x")]));
    let keys = Keys(RecordBatch::try_from_iter([("n", numbers), ("category", categories)]).unwrap());
    let batch = BatchCommit { replaces: Replaces::Keys(keys), ..world.batch_of("b", Vec::new()).await };
    committed(&world.commit(&batch).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows_in("x", "a", 1..2), rows_in("y", "a", 0..1)]));
}

#[tokio::test]
async fn many_keys_are_found_in_many_files() {
    let world = World::new().await;
    for batch in 0..10 {
        world.ingest(&format!("batch {batch}"), batch * 500..batch * 500 + 500).await;
    }
    let every_third: Vec<i64> = (0..5_000).filter(|n| n % 3 == 0).collect();
    let column: ArrayRef = Arc::new(Int64Array::from(every_third.clone()));
    let replaces = Replaces::Keys(Keys(RecordBatch::try_from_iter([("n", column)]).unwrap()));
    let batch = BatchCommit { replaces, ..world.batch("new", every_third.clone()).await };
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 1_667, .. }), "{outcome:?}");
    let numbers: Vec<i64> = world.rows().await.iter().map(|row| row.0).collect();
    assert_eq!(numbers, (0..5_000).collect::<Vec<_>>());
    let new = world.rows().await.iter().filter(|row| row.2.as_deref() == Some(id("new").as_str())).count();
    assert_eq!(new, every_third.len());
}

#[rstest]
#[case::no_such_column("nothing", "1", "it has no column `nothing`")]
#[case::not_of_the_type("n", "one", "column `n`")]
#[tokio::test]
async fn keys_that_cannot_be_are_refused(#[case] column: &str, #[case] value: &str, #[case] message: &str) {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    let values: ArrayRef = Arc::new(StringArray::from(vec![value]));
    let keys = Keys(RecordBatch::try_from_iter([(column, values)]).unwrap());
    let batch = BatchCommit { replaces: Replaces::Keys(keys), ..world.batch("two", 3..6).await };
    let error = world.commit(&batch).await.unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert_eq!(world.rows().await, rows("one", 0..3));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_batch_that_replaces_nothing_is_appended_once() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    let append = BatchCommit { replaces: Replaces::Nothing, ..world.batch("two", 3..6).await };
    committed(&world.commit(&append).await.unwrap());
    let table = world.load().await;
    assert_eq!(table.metadata().current_snapshot().unwrap().summary().operation, Operation::Append);
    let again = BatchCommit { replaces: Replaces::Nothing, ..world.batch("two", 3..6).await };
    assert!(is_skipped(&world.commit(&again).await.unwrap()));
    // Ledger and summaries gone: the rows themselves tell.
    world.expire().await;
    world.ingest("three", 6..9).await;
    world.expire().await;
    world.set_property("ingest.completed_batches", "[]").await;
    let again = BatchCommit { replaces: Replaces::Nothing, ..world.batch("two", 3..6).await };
    assert!(is_skipped(&world.commit(&again).await.unwrap()));
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6), rows("three", 6..9)].concat());
    let forced = BatchCommit { replaces: Replaces::Nothing, force: true, ..world.batch("two", 3..6).await };
    let error = world.commit(&forced).await.unwrap_err();
    assert!(matches!(&error, Error::Inconsistent { .. }) && error.to_string().contains("forced"), "{error}");
    let data: Vec<String> = world.files().await.into_iter().filter(|file| file.ends_with(".parquet")).collect();
    assert_eq!(data.len(), 3, "what was not needed is gone: {data:?}");
}
