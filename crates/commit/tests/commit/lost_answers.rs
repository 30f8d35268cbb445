//! Answers that are lost, wrong or late: what is not known is looked up, and nothing is removed on a guess.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use hexfloe_commit::{BatchOutcome, Error, ErrorKind};
use rstest::rstest;

use crate::faults::{self, Fault, faulty_disk, rival};
use crate::world::{Made, World, committed, is_skipped, rows};

#[rstest]
#[case::the_answer_is_lost(Fault::LoseAnswer)]
#[case::a_second_copy_is_refused(Fault::Resend)]
#[case::the_answer_is_an_error(Fault::ApplyAndFail)]
#[tokio::test]
async fn a_commit_that_landed_is_found_and_not_made_again(#[case] fault: Fault) {
    let (world, port) = World::new().await.through(faults::script([fault]));
    let batch = world.batch("one", 0..3).await;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { attempts: 1, .. }), "{outcome:?}");
    assert_eq!(world.load().await.metadata().current_snapshot_id(), Some(committed(&outcome)));
    assert_eq!((port.requests().len(), world.snapshots().await), (1, 1));
    assert_eq!(world.ledger().await.len(), 1);
    assert_eq!(world.rows().await, rows("one", 0..3));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_commit_that_landed_under_another_writers_snapshot_is_found() {
    let world = World::new().await;
    let other = world.batch("other", 10..13).await;
    let elsewhere = world.clone();
    let act = rival(move || {
        let (world, other) = (elsewhere.clone(), other.clone());
        async move {
            committed(&world.commit(&other).await.unwrap());
        }
    });
    let (world, port) = world.through(faults::script([Fault::LoseAnswerThen(act)]));
    let snapshot_id = world.ingest("one", 0..3).await;
    assert_ne!(world.load().await.metadata().current_snapshot_id(), Some(snapshot_id));
    assert_eq!((port.requests().len(), world.snapshots().await, world.rows().await.len()), (1, 2, 6));
    world.assert_nothing_left_behind().await;
}

/// Its snapshot is gone when we look: its files are what is left to see of it.
#[rstest]
#[case::unknown(false, false)]
#[case::refused(true, false)]
#[case::unknown_and_the_ledger_is_lost(false, true)]
#[case::refused_and_the_ledger_is_lost(true, true)]
#[tokio::test]
async fn a_commit_that_landed_and_expired_is_found_by_its_files(#[case] resent: bool, #[case] lose_ledger: bool) {
    let world = World::new().await;
    world.ingest("first", 20..23).await;
    let other = world.batch("other", 10..13).await;
    let elsewhere = world.clone();
    let act = rival(move || {
        let (world, other) = (elsewhere.clone(), other.clone());
        async move {
            committed(&world.commit(&other).await.unwrap());
            world.expire().await;
            if lose_ledger {
                world.set_property("ingest.completed_batches", "[]").await;
            }
        }
    });
    let fault = if resent { Fault::ResendThen(act) } else { Fault::LoseAnswerThen(act) };
    let (world, port) = world.through(faults::script([fault]));
    let batch = world.batch("one", 0..3).await;
    let outcome = world.commit(&batch).await.unwrap();
    let requested = port.requests();
    assert_eq!(requested.len(), 1);
    let iceberg::TableUpdate::AddSnapshot { snapshot } = &requested[0].updates[0] else {
        unreachable!("the snapshot comes first")
    };
    assert_eq!(committed(&outcome), snapshot.snapshot_id());
    let expected = [rows("one", 0..3), rows("other", 10..13), rows("first", 20..23)].concat();
    assert_eq!(world.rows().await, expected);
    assert!(world.referenced().await.is_subset(&world.files().await), "a live file was removed");
}

#[tokio::test]
async fn an_empty_batch_that_landed_and_expired_keeps_its_manifests() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    let mixed = world.file(&[rows("one", 3..4), rows("other", 4..5)].concat()).await;
    world.stock_append(vec![mixed]).await;
    let elsewhere = world.clone();
    let late = world.file(&rows("late", 9..10)).await;
    let act = rival(move || {
        let (world, late) = (elsewhere.clone(), late.clone());
        async move {
            world.stock_append(vec![late]).await;
            world.expire().await;
        }
    });
    let (world, _) = world.through(faults::script([Fault::ResendThen(act)]));
    let mut empty = world.batch_of("one", Vec::new()).await;
    empty.force = true;
    committed(&world.commit(&empty).await.unwrap());
    assert_eq!(world.rows().await, [rows("other", 4..5), rows("late", 9..10)].concat());
    assert!(world.referenced().await.is_subset(&world.files().await), "a live file was removed");
}

#[tokio::test]
async fn a_request_that_vanished_is_made_again_and_its_files_are_kept() {
    let (world, port) = World::new().await.through(faults::script([Fault::Vanish]));
    let outcome = {
        let batch = world.batch("one", 0..3).await;
        world.commit(&batch).await.unwrap()
    };
    assert!(matches!(outcome, BatchOutcome::Committed { attempts: 2, .. }), "{outcome:?}");
    assert_eq!((port.requests().len(), world.snapshots().await), (2, 1));
    assert_eq!(world.rows().await, rows("one", 0..3));
    // It might still arrive: its manifest and its list stay, for cleanup.
    let left: BTreeSet<String> = world.files().await.difference(&world.referenced().await).cloned().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[tokio::test]
async fn requests_that_vanish_for_ever_end_unknown_with_every_file_kept() {
    let (world, port) = World::new().await.through(faults::always(Fault::Vanish));
    let batch = world.batch("one", 0..3).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    assert!(error.to_string().contains("running the same job again"), "{error}");
    // One try, and the three of commit.status-check.num-retries.
    assert_eq!(port.requests().len(), 4);
    assert_eq!(world.environment.sleeps().len(), 3);
    let files = world.files().await;
    assert!(files.contains(batch.files[0].file_path()));
    assert_eq!(files.iter().filter(|file| file.ends_with(".avro")).count(), 8);
}

#[tokio::test]
async fn after_an_unknown_end_the_same_call_settles_it() {
    let world = World::new().await;
    let (unlucky, port) = world.through(faults::always(Fault::Delay));
    let batch = world.batch("one", 0..3).await;
    assert_eq!(unlucky.commit(&batch).await.unwrap_err().kind(), ErrorKind::Unknown);
    // One of the four arrives after all.
    assert_eq!(port.deliver().await, 1);
    assert!(is_skipped(&world.commit(&batch).await.unwrap()));
    assert_eq!((world.snapshots().await, world.rows().await), (1, rows("one", 0..3)));
    assert!(world.referenced().await.is_subset(&world.files().await), "a live file was removed");
}

#[tokio::test]
async fn a_request_that_arrives_before_its_repetition_is_the_one_that_counts() {
    let (world, port) = World::new().await.through(faults::script([Fault::Delay, Fault::ThenDelayed]));
    let snapshot_id = world.ingest("one", 0..3).await;
    let iceberg::TableUpdate::AddSnapshot { snapshot } = &port.requests()[0].updates[0] else {
        unreachable!("the snapshot comes first")
    };
    assert_eq!(snapshot.snapshot_id(), snapshot_id);
    assert_eq!((world.snapshots().await, world.rows().await), (1, rows("one", 0..3)));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_request_that_arrives_after_its_repetition_changes_nothing() {
    let (world, port) = World::new().await.through(faults::script([Fault::Delay]));
    world.ingest("one", 0..3).await;
    assert_eq!(port.deliver().await, 0);
    assert_eq!((world.snapshots().await, world.rows().await), (1, rows("one", 0..3)));
}

#[tokio::test]
async fn while_a_request_is_open_a_table_that_cannot_be_read_decides_nothing() {
    let (store, disk) = faulty_disk();
    let world = World::make(Made { store, ..Made::default() }).await;
    let broken = std::sync::Arc::clone(&disk);
    let act = rival(move || {
        broken.fail_reads_of(Some(".metadata.json"));
        std::future::ready(())
    });
    let (unlucky, _) = world.through(faults::script([Fault::LoseAnswerThen(act)]));
    let batch = world.batch("one", 0..3).await;
    let error = unlucky.commit(&batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    disk.fail_reads_of(None);
    world.assert_nothing_left_behind().await;
    assert_eq!(world.rows().await, rows("one", 0..3));
}

#[tokio::test]
async fn a_conflict_that_cannot_be_verified_is_unknown() {
    let (store, disk) = faulty_disk();
    let world = World::make(Made { store, ..Made::default() }).await;
    let broken = std::sync::Arc::clone(&disk);
    let act = rival(move || {
        broken.fail_reads_of(Some(".metadata.json"));
        std::future::ready(())
    });
    let (unlucky, _) = world.through(faults::script([Fault::ResendThen(act)]));
    let batch = world.batch("one", 0..3).await;
    let error = unlucky.commit(&batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown);
    disk.fail_reads_of(None);
    world.assert_nothing_left_behind().await;
    assert_eq!(world.rows().await, rows("one", 0..3));
}

#[tokio::test]
async fn a_definite_failure_leaves_nothing_behind() {
    let (world, _) = World::new().await.through(faults::script([Fault::Pass, Fault::Refuse]));
    world.ingest("first", 0..3).await;
    let before = world.files().await;
    let batch = world.batch("one", 3..6).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert_eq!(world.files().await, before);
    assert_eq!(world.rows().await, rows("first", 0..3));
}

#[tokio::test]
async fn conflicts_without_end_give_up_with_nothing_left_behind() {
    let (world, port) =
        World::make(Made { properties: vec![("commit.retry.num-retries", "5".to_owned())], ..Made::default() })
            .await
            .through(faults::always(Fault::Conflict));
    let before = world.files().await;
    let batch = world.batch("one", 0..3).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::Exhausted { attempts: 6, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(port.requests().len(), 6);
    let sleeps = world.environment.sleeps();
    assert_eq!(sleeps.len(), 5);
    for (retry, sleep) in (0..).zip(&sleeps) {
        let full = Duration::from_millis(100 << retry);
        assert!((full / 2..=full).contains(sleep), "{sleeps:?}");
    }
    assert_eq!(world.files().await, before);
}

#[tokio::test]
async fn a_disk_that_fails_at_any_write_leaves_nothing_behind() {
    let (store, disk) = faulty_disk();
    let world = World::make(Made { store, ..Made::default() }).await;
    world.ingest("first", 0..3).await;
    let mixed = world.file(&[rows("one", 3..4), rows("other", 4..5)].concat()).await;
    world.stock_append(vec![mixed]).await;
    let (files, table) = (world.files().await, world.rows().await);
    // The rewritten file, two manifests, their list, and the metadata.
    for nth in 1..=5 {
        let batch = world.batch("one", 5..6).await;
        disk.fail_put(nth);
        let error = world.commit(&batch).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "write {nth}: {error}");
        assert_eq!(world.files().await, files, "write {nth}");
        assert_eq!(world.rows().await, table, "write {nth}");
    }
    let batch = world.batch("one", 5..6).await;
    disk.fail_put(6);
    committed(&world.commit(&batch).await.unwrap());
    disk.fail_put(0);
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn what_cannot_be_removed_does_not_spoil_the_outcome() {
    let (store, disk) = faulty_disk();
    let world = World::make(Made { store, ..Made::default() }).await;
    world.ingest("one", 0..3).await;
    let again = world.batch("one", 0..3).await;
    disk.fail_deletes(true);
    assert!(is_skipped(&world.commit(&again).await.unwrap()));
    let (world, _) = world.through(faults::script([Fault::Conflict]));
    world.ingest("two", 3..6).await;
}

#[tokio::test]
async fn a_commit_given_up_at_any_moment_leaves_a_table_that_the_next_one_completes() {
    let world = World::new().await;
    world.ingest("first", 20..23).await;
    let mut polls = 0;
    loop {
        let name = format!("batch {polls}");
        let batch = world.batch(&name, 0..3).await;
        let finished = {
            let mut commit = pin!(async { world.commit(&batch).await });
            let mut left = polls;
            std::future::poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(false);
                }
                left -= 1;
                commit.as_mut().poll(context).map(|outcome| outcome.is_ok())
            })
            .await
        };
        assert!(world.referenced().await.is_subset(&world.files().await), "after {polls} polls");
        // The same files again, as far as they were not committed; whatever happened, the batch is there once.
        let _ = world.commit(&batch).await.unwrap();
        let there = world.rows().await.into_iter().filter(|row| rows(&name, 0..3).contains(row)).count();
        assert_eq!(there, 3, "after {polls} polls");
        assert!(world.referenced().await.is_subset(&world.files().await), "after {polls} polls");
        if finished {
            break;
        }
        polls += 1;
    }
    // How often a commit is polled depends on how fast the disk answers; it never ends at its first poll.
    assert!(polls > 0, "never given up");
    assert_eq!(world.ledger().await.len(), polls + 2);
}
