//! What is refused before anything is sent: the table stays as it is, and the batch's files go.

use std::time::Duration;

use hexfloe_commit::{Error, ErrorKind};
use iceberg::TableUpdate;
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
use rstest::rstest;

use crate::faults::{self, Fault, faulty_disk, rival};
use crate::world::{Made, World, committed, definition, rows, rows_in};

const HOUR: Duration = Duration::from_secs(3_600);

#[rstest]
#[case::too_old(12, true)]
#[case::just_in_time(11, false)]
#[tokio::test]
async fn an_attempt_that_is_too_old_does_not_commit(#[case] hours: u32, #[case] refused: bool) {
    let world = World::new().await;
    let before = world.files().await;
    let batch = world.batch("one", 0..3).await;
    world.environment.advance(HOUR * hours);
    match world.commit(&batch).await {
        Err(error) => {
            assert!(refused && matches!(error, Error::TooLate { hours: 12, limit: 12 }), "{error}");
            assert_eq!(world.files().await, before);
        }
        Ok(outcome) => {
            assert!(!refused);
            committed(&outcome);
        }
    }
}

#[tokio::test]
async fn an_attempt_that_gets_too_old_while_it_writes_does_not_commit() {
    let (store, disk) = faulty_disk();
    let (world, port) = World::make(Made { store, ..Made::default() }).await.through(faults::always(Fault::Pass));
    let before = world.files().await;
    let batch = world.batch("one", 0..3).await;
    let environment = world.environment.clone();
    disk.before_put(move || environment.advance(HOUR * 7));
    let error = world.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::TooLate { .. }), "{error}");
    assert_eq!((port.requests().len(), world.files().await), (0, before));
}

#[rstest]
#[case::young(59, false)]
#[case::a_minute_old(60, true)]
#[tokio::test]
async fn data_files_that_went_meanwhile_are_not_committed(#[case] seconds: u64, #[case] looked_for: bool) {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    world.environment.advance(std::time::Duration::from_secs(seconds));
    let file = batch.files[0].file_path();
    world.catalog.store().delete(file).await.unwrap();
    let outcome = world.commit(&batch).await;
    // A young attempt is trusted: nobody cleans up what is a minute old.
    let refused = matches!(&outcome, Err(Error::FileGone { file: gone }) if gone == file);
    assert_eq!((refused, outcome.is_ok()), (looked_for, !looked_for), "{outcome:?}");
    assert_eq!(world.snapshots().await, usize::from(!looked_for));
}

/// Nothing can stop a request that is on its way; but it is told, and the way out works.
#[tokio::test]
async fn a_batch_whose_files_went_while_its_request_was_on_the_way_is_told_and_can_be_forced() {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    let (store, environment) = (world.catalog.store().clone(), world.environment.clone());
    let file = batch.files[0].file_path().to_owned();
    let suspended = faults::rival(move || {
        let (store, environment, file) = (store.clone(), environment.clone(), file.clone());
        async move {
            environment.advance(HOUR * 25);
            store.delete(&file).await.unwrap();
        }
    });
    let (late, _port) = world.again().await.through(faults::script([Fault::After(suspended)]));
    let error = late.commit(&batch).await.unwrap_err();
    assert!(matches!(&error, Error::Lost { file, .. } if file == batch.files[0].file_path()), "{error}");
    let mut again = world.batch("one", 0..3).await;
    again.force = true;
    committed(&world.commit(&again).await.unwrap());
    assert_eq!(world.rows().await.len(), 3);
}

#[tokio::test]
async fn an_attempt_that_waits_too_long_for_rivals_starts_over() {
    let (world, port) = World::new().await.through(faults::always(Fault::Conflict));
    let before = world.files().await;
    let mut batch = world.batch("one", 0..3).await;
    batch.started_ms -= i64::try_from(HOUR.as_millis()).unwrap() * 12 - 1_000;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::TooLate { .. }), "{error}");
    assert!((2..8).contains(&port.requests().len()), "{}", port.requests().len());
    assert_eq!(world.files().await, before);
}

#[rstest]
#[case(i64::MIN)]
#[case(i64::MAX)]
#[tokio::test]
async fn a_start_that_makes_no_sense_is_no_crash(#[case] started_ms: i64) {
    let world = World::new().await;
    let mut batch = world.batch("one", 0..3).await;
    batch.started_ms = started_ms;
    let refused = world.commit(&batch).await.is_err();
    assert_eq!(refused, started_ms < 0);
    world.assert_nothing_left_behind().await;
    // A second call must not take the files for abandoned ones.
    assert_eq!(world.commit(&batch).await.is_err(), refused);
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn files_written_for_another_schema_are_refused() {
    let world = World::new().await;
    let before = world.rows().await;
    let batch = world.batch("one", 0..3).await;
    let table = world.load().await;
    let mut fields = table.metadata().current_schema().as_struct().fields().to_vec();
    fields.push(NestedField::optional(4, "more", Type::Primitive(PrimitiveType::Long)).into());
    let schema = Schema::builder().with_schema_id(1).with_fields(fields).build().unwrap();
    world.update(vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(matches!(&error, Error::Changed { what, .. } if what.contains("schema")), "{error}");
    assert_eq!((error.kind(), world.rows().await), (ErrorKind::Conflict, before));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn files_written_for_another_table_of_the_same_name_are_refused_and_left_alone() {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    let old = world.load().await.metadata().location().to_owned();
    world.catalog.catalog().drop_table(&world.table()).await.unwrap();
    let id = hexfloe_commit::Environment::uuid(world.environment.as_ref());
    world.catalog.create(&world.table(), &definition(false, Vec::new()), id).await.unwrap();
    let error = world.commit(&batch).await.unwrap_err();
    assert!(matches!(&error, Error::Changed { what, sent: false, .. } if what.contains("another table")), "{error}");
    // The dropped table may live on under another name: nobody can say that nothing refers to its files.
    assert!(world.files_below(&old).await.contains(batch.files[0].file_path()));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_table_that_is_gone_is_an_error() {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    world.catalog.catalog().drop_table(&world.table()).await.unwrap();
    let error = world.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::NoTable { .. }), "{error}");
}

#[tokio::test]
async fn a_table_that_a_rival_drops_meanwhile_is_an_error_at_once() {
    let world = World::new().await;
    let elsewhere = world.clone();
    let act = rival(move || {
        let world = elsewhere.clone();
        async move { world.catalog.catalog().drop_table(&world.table()).await.unwrap() }
    });
    let (late, port) = world.through(faults::script([Fault::After(act)]));
    let batch = late.batch("one", 0..3).await;
    let error = late.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::NoTable { .. }), "{error}");
    assert_eq!((port.requests().len(), late.environment.sleeps().len()), (1, 1));
}

#[tokio::test]
async fn a_file_named_twice_is_refused() {
    let world = World::new().await;
    let before = world.files().await;
    let file = world.file(&rows("one", 0..3)).await;
    let batch = world.batch_of("one", vec![file.clone(), file]).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::FileTwice { .. }), "{error}");
    assert_eq!(world.files().await, before);
}

#[tokio::test]
async fn a_file_that_is_in_the_table_is_refused_and_stays() {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    committed(&world.commit(&batch).await.unwrap());
    let new = world.file(&rows("two", 3..4)).await;
    for files in [batch.files.clone(), [batch.files.clone(), vec![new.clone()]].concat()] {
        let wrong = world.batch_of("two", files).await;
        let error = world.commit(&wrong).await.unwrap_err();
        assert!(matches!(error, Error::FileTwice { .. }), "{error}");
    }
    assert_eq!(world.rows().await, rows("one", 0..3));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_file_without_rows_is_refused() {
    let world = World::new().await;
    let before = world.files().await;
    let empty = world.file(&[]).await;
    let batch = world.batch_of("one", vec![empty]).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(error.to_string().contains("holds no rows"), "{error}");
    assert_eq!(world.files().await, before);
}

#[tokio::test]
async fn a_count_that_is_not_that_of_the_files_is_refused() {
    let world = World::new().await;
    let mut batch = world.batch("one", 0..3).await;
    batch.rows = 4;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(error.to_string().contains("hold 3 rows, and it says 4"), "{error}");
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_file_of_another_partition_spec_is_refused() {
    let world = World::new().await;
    let unpartitioned = world.file(&rows_in("x", "one", 0..3)).await;
    let other = World::partitioned().await;
    let batch = other.batch_of("one", vec![unpartitioned]).await;
    let error = other.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::OtherPartition { values: 0, fields: 1, .. }), "{error}");
    other.assert_nothing_left_behind().await;
}

#[rstest]
#[case::missing("other", PrimitiveType::String, "no column ingest_batch_id")]
#[case::no_text("ingest_batch_id", PrimitiveType::Long, "not a string")]
#[tokio::test]
async fn a_table_without_the_batch_column_is_refused(
    #[case] name: &str,
    #[case] kind: PrimitiveType,
    #[case] message: &str,
) {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    let schema = Schema::builder()
        .with_schema_id(1)
        .with_fields([NestedField::optional(9, name, Type::Primitive(kind)).into()])
        .build()
        .unwrap();
    world.update(vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}
