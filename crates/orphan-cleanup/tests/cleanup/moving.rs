//! The table changes while it is cleaned.

use hexfloe_orphan_cleanup::{Error, ErrorKind, Fate, OrphanOptions, Refusal};
use iceberg::TableUpdate;
use iceberg::spec::MAIN_BRANCH;
use rstest::rstest;

use crate::store::On;
use crate::world::{World, files_of, refusal};

#[rstest]
#[case::before_it_is_listed("data", 1)]
#[case::while_it_is_listed("data", 2)]
#[case::at_the_end_of_the_listing("metadata", 2)]
#[tokio::test]
async fn a_file_that_is_committed_between_listing_and_deletion_is_kept(#[case] place: &str, #[case] nth: usize) {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    let (elsewhere, file) = (world.clone(), orphans[1].clone());
    world.troubles.before((On::Listing, nth), place, move || {
        let (world, file) = (elsewhere.clone(), file.clone());
        async move {
            world.commit(MAIN_BRANCH, &[&file], false).await;
        }
    });
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.orphans.files, report.removed.files), (2, 2));
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), [orphans[0].clone(), orphans[2].clone()]);
    assert!(world.files().await.contains(&orphans[1]));
    world.assert_whole().await;
}

/// The table is looked at again before each thousand.
#[tokio::test]
async fn a_file_that_is_committed_while_others_are_deleted_is_kept() {
    let world = World::in_bucket().await;
    world.append().await;
    let mut orphans = world.orphans(1_002).await;
    orphans.sort();
    let (elsewhere, file) = (world.clone(), orphans[1_001].clone());
    world.troubles.before((On::Deleting, 1), "/data/", move || {
        let (world, file) = (elsewhere.clone(), file.clone());
        async move {
            world.commit(MAIN_BRANCH, &[&file], false).await;
        }
    });
    let (report, _) = world.clean().await.unwrap();
    assert_eq!((report.orphans.files, report.removed.files, report.stopped), (1_002, 1_001, None));
    assert!(world.files().await.contains(&orphans[1_001]));
    world.assert_whole().await;
}

#[derive(Clone, Copy, Debug)]
enum Move {
    /// The catalog names an older metadata file.
    OlderPointer,
    /// The same, and commits have followed.
    OlderPointerAndCommits,
    /// The table was dropped, and another made.
    AnotherUuid,
    AnotherLocation,
}

async fn make(world: &World, what: Move, first: &str) {
    match what {
        Move::OlderPointer => world.point_at(first).await,
        Move::OlderPointerAndCommits => {
            world.point_at(first).await;
            for _ in 0..5 {
                world.append().await;
            }
        }
        Move::AnotherUuid => {
            world.drop_table().await;
            world.make_table().await;
        }
        Move::AnotherLocation => {
            let location = format!("{}-moved", world.root().await);
            world.update(vec![TableUpdate::SetLocation { location }]).await;
        }
    }
}

#[rstest]
#[tokio::test]
async fn a_table_that_moves_otherwise_than_by_commits_while_it_is_listed_is_refused(
    #[values(Move::OlderPointer, Move::OlderPointerAndCommits, Move::AnotherUuid, Move::AnotherLocation)] what: Move,
    #[values(false, true)] apply: bool,
) {
    let world = World::new().await;
    world.append().await;
    let first = world.load().await.metadata_location().unwrap().to_owned();
    world.append().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    let elsewhere = world.clone();
    world.troubles.before((On::Listing, 1), "data", move || {
        let (world, first) = (elsewhere.clone(), first.clone());
        async move { make(&world, what, &first).await }
    });
    let refusal = refusal(world.clean_with(&OrphanOptions { apply, ..world.options() }).await);
    assert!(matches!(refusal, Refusal::Moved { .. }), "{refusal:?}");
    for orphan in orphans {
        assert!(world.store().size(&orphan).await.is_ok(), "{orphan} is gone");
    }
    let deleted = world.troubles.deleted();
    assert!(deleted.iter().all(|key| key.contains("/metadata/snap-0-0-")), "{deleted:?}");
}

#[rstest]
#[tokio::test]
async fn a_table_that_moves_so_while_files_are_deleted_is_left_with_the_rest_of_them(
    #[values(Move::OlderPointer, Move::AnotherUuid, Move::AnotherLocation)] what: Move,
) {
    let world = World::in_bucket().await;
    world.append().await;
    let first = world.load().await.metadata_location().unwrap().to_owned();
    world.append().await;
    let orphans = world.orphans(1_002).await;
    let elsewhere = world.clone();
    world.troubles.before((On::Deleting, 1), "/data/", move || {
        let (world, first) = (elsewhere.clone(), first.clone());
        async move { make(&world, what, &first).await }
    });
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.orphans.files, report.removed.files, report.failed.files), (1_002, 1_000, 0));
    assert_eq!(records.len(), 1_000);
    assert!(report.stopped.unwrap().contains("not by a commit"));
    let mut left = 0;
    for orphan in &orphans {
        left += usize::from(world.store().size(orphan).await.is_ok());
    }
    assert_eq!(left, 2);
}

#[tokio::test]
async fn a_table_that_stops_letting_go_of_files_meanwhile_keeps_them() {
    let world = World::new().await;
    world.append().await;
    let orphan = world.orphan().await;
    let elsewhere = world.clone();
    world.troubles.before((On::Listing, 1), "data", move || {
        let world = elsewhere.clone();
        async move { world.set_property("gc.enabled", "False").await }
    });
    assert_eq!(refusal(world.clean().await), Refusal::GarbageCollection { value: "False".to_owned() });
    assert!(world.files().await.contains(&orphan));
}

#[tokio::test]
async fn a_table_that_is_dropped_meanwhile_keeps_its_files() {
    let world = World::new().await;
    world.append().await;
    let root = world.root().await;
    world.orphan().await;
    let before = world.files().await;
    let elsewhere = world.clone();
    world.troubles.before((On::Listing, 1), "data", move || {
        let world = elsewhere.clone();
        async move { world.drop_table().await }
    });
    let error = world.clean().await.unwrap_err();
    assert!(matches!(error, Error::NoTable { .. }) && error.kind() == ErrorKind::Configuration, "{error:?}");
    assert_eq!(world.files_below(&root).await, before);
}

/// Somebody expires the snapshots, whose files are then orphans for the next run and not for this one.
#[tokio::test]
async fn what_expires_while_it_is_listed_goes_the_next_time() {
    let world = World::new().await;
    let old = world.append().await;
    let first = world.load().await.metadata().current_snapshot_id().unwrap();
    for _ in 0..2 {
        let new = world.orphan().await;
        world.commit(MAIN_BRANCH, &[&new], true).await;
    }
    let second = world.load().await.metadata().snapshots().map(|s| s.snapshot_id()).filter(|id| *id > first).min();
    let elsewhere = world.clone();
    world.troubles.before((On::Listing, 1), "data", move || {
        let (world, snapshot_ids) = (elsewhere.clone(), vec![first, second.unwrap()]);
        async move { world.update(vec![TableUpdate::RemoveSnapshots { snapshot_ids }]).await }
    });
    assert_eq!(world.clean().await.unwrap().0.orphans.files, 0);
    assert!(world.files().await.contains(&old));
    assert!(world.clean().await.unwrap().0.removed.files > 0);
    assert!(!world.files().await.contains(&old));
    world.assert_whole().await;
}
