//! What a commit is: one snapshot, one ledger, each batch once.

use iceberg::spec::{MAIN_BRANCH, Operation, SnapshotReference, SnapshotRetention};
use iceberg::{TableRequirement, TableUpdate};

use hexfloe_commit::{BatchOutcome, history, names};

use crate::faults::{self, Fault};
use crate::world::{Made, World, committed, id, is_skipped, rows};

#[tokio::test]
async fn a_commit_asks_for_one_snapshot_one_ref_and_one_change_of_properties() {
    let (world, port) = World::new().await.through(faults::always(Fault::Pass));
    world.ingest("one", 0..3).await;
    let snapshot_id = world.ingest("two", 3..6).await;
    let requests = port.requests();
    let request = &requests[1];
    let [
        TableUpdate::AddSnapshot { snapshot },
        TableUpdate::SetSnapshotRef { ref_name, reference },
        TableUpdate::SetProperties { updates },
    ] = request.updates.as_slice()
    else {
        unreachable!("other updates: {:?}", request.updates)
    };
    assert_eq!(snapshot.snapshot_id(), snapshot_id);
    assert_eq!(snapshot.summary().operation, Operation::Overwrite);
    assert_eq!((ref_name.as_str(), reference.snapshot_id), (MAIN_BRANCH, snapshot_id));
    assert_eq!(updates.len(), 2);
    assert_eq!(updates[names::LEDGER_SNAPSHOT_ID], snapshot_id.to_string());
    assert_eq!(updates[names::COMPLETED_BATCHES], format!(r#"["{}","{}"]"#, id("one"), id("two")));
    let metadata = request.base.metadata();
    assert_eq!(snapshot.parent_snapshot_id(), metadata.current_snapshot_id());
    assert_eq!(
        request.requirements,
        [
            TableRequirement::UuidMatch { uuid: metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch {
                r#ref: MAIN_BRANCH.to_owned(),
                snapshot_id: metadata.current_snapshot_id(),
            },
            TableRequirement::CurrentSchemaIdMatch { current_schema_id: metadata.current_schema_id() },
            TableRequirement::DefaultSpecIdMatch { default_spec_id: metadata.default_partition_spec_id() },
        ]
    );
}

#[tokio::test]
async fn the_first_commit_requires_that_there_is_no_main_branch() {
    let (world, port) = World::new().await.through(faults::always(Fault::Pass));
    world.ingest("one", 0..3).await;
    let absent = TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: None };
    assert!(port.requests()[0].requirements.contains(&absent));
}

#[tokio::test]
async fn a_batch_that_is_there_is_skipped_and_its_new_files_are_removed() {
    let world = World::new().await;
    let snapshot_id = world.ingest("one", 0..3).await;
    let before = world.files().await;
    let again = world.batch("one", 0..3).await;
    let outcome = world.commit(&again).await.unwrap();
    assert_eq!(outcome, BatchOutcome::Skipped { snapshot_id: Some(snapshot_id) });
    assert_eq!(world.files().await, before);
    assert_eq!(world.rows().await, rows("one", 0..3));
}

#[tokio::test]
async fn the_same_call_made_twice_keeps_the_files_that_are_live() {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    committed(&world.commit(&batch).await.unwrap());
    assert!(is_skipped(&world.commit(&batch).await.unwrap()));
    assert_eq!(world.rows().await, rows("one", 0..3));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn the_same_call_made_twice_with_force_finds_its_files_in_place() {
    let world = World::new().await;
    let mut batch = world.batch("one", 0..3).await;
    batch.force = true;
    let first = committed(&world.commit(&batch).await.unwrap());
    let second = committed(&world.commit(&batch).await.unwrap());
    assert_eq!(first, second);
    assert_eq!((world.snapshots().await, world.rows().await), (1, rows("one", 0..3)));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn files_that_a_retained_snapshot_still_refers_to_are_kept() {
    let world = World::new().await;
    let batch = world.batch("one", 0..3).await;
    let first = committed(&world.commit(&batch).await.unwrap());
    // The batch again, in other files: the first ones are history.
    let mut forced = world.batch("one", 0..3).await;
    forced.force = true;
    committed(&world.commit(&forced).await.unwrap());
    assert!(is_skipped(&world.commit(&batch).await.unwrap()));
    world.assert_nothing_left_behind().await;
    world.roll_back(first).await;
    assert_eq!(world.rows().await, rows("one", 0..3));
}

#[tokio::test]
async fn force_replaces_the_batch_in_one_more_snapshot() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    world.ingest("other", 10..13).await;
    let mut batch = world.batch("one", 0..3).await;
    batch.force = true;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, attempts: 1, .. }), "{outcome:?}");
    assert_eq!(world.snapshots().await, 3);
    let mut expected = [rows("one", 0..3), rows("other", 10..13)].concat();
    expected.sort();
    assert_eq!(world.rows().await, expected);
    assert_eq!(world.ledger().await, [id("other").to_string(), id("one").to_string()]);
    let current = world.load().await.metadata().current_snapshot().unwrap().clone();
    assert_eq!(current.summary().operation, Operation::Overwrite);
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn the_snapshot_tells_what_it_did() {
    let world = World::new().await;
    let mut batch = world.batch("one", 0..3).await;
    batch.rejected = 2;
    committed(&world.commit(&batch).await.unwrap());
    let table = world.load().await;
    let summary = &table.metadata().current_snapshot().unwrap().summary().additional_properties;
    assert_eq!(summary[names::SUMMARY_BATCH_ID], id("one").as_str());
    assert_eq!(summary[names::SUMMARY_SOURCE], "test");
    assert_eq!(summary[names::SUMMARY_ROWS], "3");
    assert_eq!(summary[names::SUMMARY_REJECTED], "2");
    assert_eq!(summary[names::SUMMARY_CONTENT], batch.content_sha256.to_string());
    assert!(!summary.values().any(|value| value.starts_with('[')), "the ledger is not copied into summaries");
}

#[tokio::test]
async fn the_retention_of_the_main_branch_is_kept() {
    let world = World::new().await;
    let snapshot_id = world.ingest("one", 0..3).await;
    let retention = SnapshotRetention::branch(Some(7), Some(86_400_000), None);
    world
        .update(vec![TableUpdate::SetSnapshotRef {
            ref_name: MAIN_BRANCH.to_owned(),
            reference: SnapshotReference::new(snapshot_id, retention.clone()),
        }])
        .await;
    let (world, port) = world.through(faults::always(Fault::Pass));
    world.ingest("two", 3..6).await;
    let requests = port.requests();
    let TableUpdate::SetSnapshotRef { reference, .. } = &requests[0].updates[1] else {
        unreachable!("the ref comes second")
    };
    assert_eq!(reference.retention, retention);
}

#[tokio::test]
async fn history_knows_batches_by_snapshot_and_by_ledger() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    world.expire().await;
    let records = history(world.load().await.metadata());
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].batch_id.as_str(), records[0].snapshot.is_some()), (id("one").as_str(), false));
    assert_eq!(records[1].batch_id, id("two").as_str());
    assert_eq!(records[1].snapshot.as_ref().unwrap().rows, Some(3));
    assert!(records.iter().all(|record| record.in_ledger));
}

#[tokio::test]
async fn a_table_location_with_a_trailing_slash_gives_paths_that_exist() {
    let world = World::new().await;
    let location = format!("{}/", world.load().await.metadata().location());
    world.update(vec![TableUpdate::SetLocation { location }]).await;
    world.ingest("one", 0..3).await;
    let mut mixed = world.file(&[rows("one", 0..1), rows("two", 3..4)].concat()).await;
    world.stock_append(vec![mixed.clone()]).await;
    mixed = world.file(&rows("one", 7..8)).await;
    let mut batch = world.batch_of("one", vec![mixed]).await;
    batch.force = true;
    committed(&world.commit(&batch).await.unwrap());
    for path in world.referenced().await.iter().filter(|path| !path.ends_with(".metadata.json")) {
        assert!(!path.trim_start_matches("file://").contains("//"), "{path}");
        assert!(world.catalog.store().size(path).await.is_ok(), "{path}");
    }
    assert_eq!(world.rows().await, [rows("two", 3..4), rows("one", 7..8)].concat());
}

#[tokio::test]
async fn a_clock_behind_the_tables_is_no_obstacle() {
    let world = World::new().await;
    world.environment.set_now_ms(0);
    world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    let table = world.load().await;
    let times: Vec<i64> = table.metadata().history().iter().map(|entry| entry.timestamp_ms).collect();
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
}

#[tokio::test]
async fn a_rivals_clock_ahead_of_ours_is_no_obstacle() {
    let world = World::new().await;
    world.environment.set_now_ms(4_000_000_000_000);
    world.ingest("one", 0..3).await;
    world.environment.set_now_ms(1_800_000_000_000);
    world.ingest("two", 3..6).await;
    assert_eq!(world.rows().await.len(), 6);
}

#[tokio::test]
async fn metadata_stays_small_over_a_hundred_tiny_commits() {
    let world = World::make(Made {
        properties: vec![("write.metadata.previous-versions-max", "5".to_owned())],
        ..Made::default()
    })
    .await;
    for n in 0..100 {
        world.ingest(&format!("batch {n}"), n..n + 1).await;
    }
    let table = world.load().await;
    let current = world.catalog.store().size(table.metadata_location().unwrap()).await.unwrap();
    // 500 ids of the ledger are 17 KiB; a snapshot and its log entry, about 1.2 KiB each.
    assert!(current < 130_000, "{current} bytes of metadata");
    assert!(table.metadata().metadata_log().len() <= 5);
    assert!(world.manifests().await.len() <= 101);
    let mut written = 0;
    for file in world.files().await.iter().filter(|file| file.contains("/metadata/") && file.ends_with(".avro")) {
        written += world.catalog.store().size(file).await.unwrap();
    }
    assert!(written < 100 * 60_000, "{written} bytes of manifests and lists");
}
