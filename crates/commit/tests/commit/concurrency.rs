//! Rivals: every attempt is decided on the table as it is then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hexfloe_commit::{BatchOutcome, Error, ErrorKind, Ledger};
use iceberg::TableUpdate;
use rstest::rstest;
use tokio::task::JoinSet;

use crate::faults::{self, Fault, Rival, faulty_disk, rival};
use crate::world::{Made, World, committed, id, is_skipped, rows};

/// Commits a batch when asked to.
async fn committing(world: &World, name: &'static str, numbers: std::ops::Range<i64>) -> Rival {
    let batch = world.batch(name, numbers).await;
    let world = world.clone();
    rival(move || {
        let (world, batch) = (world.clone(), batch.clone());
        async move {
            committed(&world.commit(&batch).await.unwrap());
        }
    })
}

#[tokio::test]
async fn a_batch_that_a_rival_committed_meanwhile_is_skipped() {
    let world = World::new().await;
    let act = committing(&world, "one", 0..3).await;
    let (late, port) = world.through(faults::script([Fault::After(act)]));
    let batch = late.batch("one", 0..3).await;
    assert!(is_skipped(&late.commit(&batch).await.unwrap()));
    assert_eq!(port.requests().len(), 1);
    assert_eq!((world.snapshots().await, world.rows().await), (1, rows("one", 0..3)));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_forced_batch_replaces_what_a_rival_committed_meanwhile() {
    let world = World::new().await;
    let act = committing(&world, "one", 0..3).await;
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let mut batch = late.batch("one", 0..3).await;
    batch.force = true;
    let outcome = late.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, attempts: 2, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, rows("one", 0..3));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_rivals_other_batch_stays_in_table_and_ledger() {
    let world = World::new().await;
    let act = committing(&world, "other", 10..13).await;
    let (late, port) = world.through(faults::script([Fault::After(act)]));
    late.ingest("one", 0..3).await;
    assert_eq!(port.requests().len(), 2);
    assert_eq!(world.ledger().await, [id("other").to_string(), id("one").to_string()]);
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("other", 10..13)].concat());
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_replacement_that_conflicts_once_still_removes_and_adds() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    let act = committing(&world, "other", 10..13).await;
    let (late, port) = world.through(faults::script([Fault::After(act)]));
    let mut batch = late.batch("one", 5..9).await;
    batch.force = true;
    let outcome = late.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    for request in port.requests() {
        let TableUpdate::AddSnapshot { snapshot } = &request.updates[0] else {
            unreachable!("the snapshot comes first")
        };
        let summary = &snapshot.summary().additional_properties;
        assert_eq!((summary["added-records"].as_str(), summary["deleted-records"].as_str()), ("4", "3"));
    }
    assert_eq!(world.rows().await, [rows("one", 5..9), rows("other", 10..13)].concat());
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn after_one_conflict_the_second_attempt_lands() {
    let world = World::new().await;
    let act = committing(&world, "other", 10..13).await;
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let batch = late.batch("one", 0..3).await;
    let outcome = late.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { attempts: 2, .. }), "{outcome:?}");
    assert_eq!(late.environment.sleeps().len(), 1);
}

#[tokio::test]
async fn rivals_edits_of_properties_and_ledger_survive() {
    let world = World::new().await;
    world.ingest("first", 20..23).await;
    let elsewhere = world.clone();
    let act = rival(move || {
        let world = elsewhere.clone();
        async move {
            world.set_property("owner", "somebody").await;
            let mut ledger = Ledger::of(world.load().await.metadata());
            ledger.push(id("foreign").to_string());
            let json = ledger.to_json(hexfloe_commit::LedgerBounds::default());
            world.set_property("ingest.completed_batches", &json).await;
        }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    late.ingest("one", 0..3).await;
    assert_eq!(world.ledger().await, ["first", "foreign", "one"].map(|name| id(name).to_string()));
    assert_eq!(world.load().await.metadata().properties()["owner"], "somebody");
}

#[tokio::test]
async fn a_rival_on_another_branch_is_a_conflict_like_any_other() {
    let world = World::new().await;
    let head = world.ingest("first", 20..23).await;
    let elsewhere = world.clone();
    let file = world.file(&rows("audited", 30..33)).await;
    let act = rival(move || {
        let (world, file) = (elsewhere.clone(), file.clone());
        async move {
            // The table's sequence number moves on, and main does not.
            world.stock_append(vec![file]).await;
            world.roll_back(head).await;
        }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let batch = late.batch("one", 0..3).await;
    let outcome = late.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { attempts: 2, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("first", 20..23)].concat());
}

#[tokio::test]
async fn a_permanent_rival_leads_to_a_clean_end() {
    let world =
        World::make(Made { properties: vec![("commit.retry.num-retries", "4".to_owned())], ..Made::default() }).await;
    world.ingest("first", 20..23).await;
    let (elsewhere, count) = (world.clone(), Arc::new(AtomicUsize::new(0)));
    let act = rival(move || {
        let (world, count) = (elsewhere.clone(), count.fetch_add(1, Ordering::SeqCst));
        async move { world.set_property("touched", &count.to_string()).await }
    });
    let (late, _) = world.through(faults::always(Fault::After(act)));
    let batch = late.batch("one", 0..3).await;
    let error = late.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::Exhausted { attempts: 5, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("commit.retry.num-retries"), "{error}");
    assert_eq!(world.rows().await, rows("first", 20..23));
    world.assert_nothing_left_behind().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn four_writers_of_ten_batches_each_all_land() {
    let world = World::new().await;
    let mut writers = JoinSet::new();
    for writer in 0..4_i64 {
        let world = world.again().await;
        writers.spawn(async move {
            for n in 0..10_i64 {
                let number = writer * 10 + n;
                world.ingest(&format!("batch {number}"), number * 3..number * 3 + 3).await;
            }
        });
    }
    writers.join_all().await;
    assert_eq!((world.snapshots().await, world.ledger().await.len()), (40, 40));
    let mut expected = (0..40_i64).flat_map(|n| rows(&format!("batch {n}"), n * 3..n * 3 + 3)).collect::<Vec<_>>();
    expected.sort();
    assert_eq!(world.rows().await, expected);
    world.assert_nothing_left_behind().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_writers_of_one_batch_one_commits_and_the_others_skip() {
    let world = World::new().await;
    let mut writers = JoinSet::new();
    for _ in 0..8 {
        let world = world.again().await;
        writers.spawn(async move {
            let batch = world.batch("one", 0..3).await;
            is_skipped(&world.commit(&batch).await.unwrap())
        });
    }
    let skipped = writers.join_all().await.into_iter().filter(|skipped| *skipped).count();
    assert_eq!((skipped, world.snapshots().await, world.rows().await), (7, 1, rows("one", 0..3)));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_compaction_between_plan_and_commit_is_planned_anew() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    // All rows in one file, as a compaction leaves them.
    let (elsewhere, file) = (world.clone(), world.file(&world.rows().await).await);
    let act = rival(move || {
        let (world, file) = (elsewhere.clone(), file.clone());
        async move { crate::overwriting::compact(&world, vec![file]).await }
    });
    let (late, port) = world.through(faults::script([Fault::After(act)]));
    let mut batch = late.batch("one", 7..9).await;
    batch.force = true;
    let outcome = late.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, attempts: 2, .. }), "{outcome:?}");
    assert_eq!(port.requests().len(), 2);
    assert_eq!(world.rows().await, [rows("two", 3..6), rows("one", 7..9)].concat());
    world.assert_nothing_left_behind().await;
}

/// Compaction and expiry delete what a slower writer is about to read.
#[rstest]
#[case::a_manifest_list("/metadata/snap-")]
#[case::a_manifest("-m0.avro")]
#[case::a_data_file("/data/")]
#[tokio::test]
async fn files_that_a_rival_deletes_while_they_are_read_are_a_conflict(#[case] read: &'static str) {
    let (store, disk) = faulty_disk();
    let world = World::make(Made { store, ..Made::default() }).await;
    world.ingest("two", 3..6).await;
    let mixed = world.file(&[rows("one", 0..3), rows("other", 6..9)].concat()).await;
    world.stock_append(vec![mixed]).await;
    let batch = world.batch("one", 20..22).await;
    let (elsewhere, compacted) = (world.clone(), world.file(&world.rows().await).await);
    let act = rival(move || {
        let (world, file) = (elsewhere.clone(), compacted.clone());
        async move {
            let before = world.referenced().await;
            crate::overwriting::compact(&world, vec![file]).await;
            world.expire().await;
            for gone in before.difference(&world.referenced().await).filter(|path| !path.ends_with(".metadata.json")) {
                world.catalog.store().delete(gone).await.unwrap();
            }
        }
    });
    disk.before_read(read, act);
    let outcome = world.again().await.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, [rows("two", 3..6), rows("other", 6..9), rows("one", 20..22)].concat());
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_rewrite_that_loses_to_a_rival_is_made_again_and_its_file_removed() {
    let world = World::new().await;
    let mixed = world.file(&[rows("one", 0..3), rows("two", 3..6)].concat()).await;
    world.stock_append(vec![mixed]).await;
    let act = committing(&world, "other", 10..13).await;
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    late.ingest("one", 7..9).await;
    assert_eq!(world.rows().await, [rows("two", 3..6), rows("one", 7..9), rows("other", 10..13)].concat());
    assert_eq!(world.files().await.iter().filter(|file| file.ends_with("-rewritten.parquet")).count(), 1);
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_rivals_snapshot_with_our_id_is_not_taken_for_ours() {
    let world = World::new().await;
    world.ingest("first", 20..23).await;
    let elsewhere = world.clone();
    let act = rival(move || {
        let world = elsewhere.clone();
        async move {
            // The last id that was drawn is that of the snapshot which is about to be committed.
            let drawn = i64::try_from(world.environment.next_id() - 1).unwrap();
            crate::overwriting::snapshot_with_the_same_files(&world, drawn).await;
        }
    });
    let (late, port) = world.through(faults::script([Fault::After(act)]));
    let batch = late.batch("one", 0..3).await;
    let outcome = late.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { attempts: 2, .. }), "{outcome:?}");
    assert_eq!(port.requests().len(), 2);
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("first", 20..23)].concat());
    world.assert_nothing_left_behind().await;
}
