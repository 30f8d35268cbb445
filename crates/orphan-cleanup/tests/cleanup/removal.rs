//! What becomes of files that have to go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hexfloe_orphan_cleanup::{Error, ErrorKind, Fate, FileRecord, OrphanOptions, Sink};
use rstest::rstest;
use tokio::sync::Notify;

use crate::store::{Deleting, On};
use crate::world::{World, files_of};

#[tokio::test]
async fn one_of_three_that_cannot_be_deleted_is_said_to_be_left_and_the_others_are_gone() {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    let stuck = orphans[1].clone();
    world.troubles.deleting(stuck.rsplit('/').next().unwrap(), Deleting::Fails(usize::MAX));
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.orphans.files, report.removed.files, report.failed.files), (3, 2, 1));
    assert_eq!((report.removed.bytes, report.failed.bytes), (8, 4));
    assert_eq!(records.len(), 3, "a result for each");
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), [orphans[0].clone(), orphans[2].clone()]);
    let failed = records.iter().find(|record| record.file == stuck).unwrap();
    assert!(matches!(&failed.fate, Fate::Failed { error } if error.contains("503 Slow Down")), "{failed:?}");
    let files = world.files().await;
    assert!(files.contains(&stuck) && !files.contains(&orphans[0]) && !files.contains(&orphans[2]));
    world.assert_whole().await;
}

#[tokio::test]
async fn a_store_that_slows_down_is_asked_again_later_each_time() {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    world.troubles.deleting(orphans[1].rsplit('/').next().unwrap(), Deleting::Fails(2));
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (3, 0));
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), orphans);
    assert_eq!(world.environment.sleeps(), [Duration::from_millis(500), Duration::from_secs(1)]);
    // The others were not asked for again.
    let key = orphans[0].strip_prefix("file:///").unwrap();
    assert_eq!(world.troubles.deleted().iter().filter(|deleted| *deleted == key).count(), 1);
}

#[tokio::test]
async fn a_request_for_many_that_fails_as_a_whole_has_a_result_for_each_all_the_same() {
    let world = World::in_bucket().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    world.troubles.deleting("", Deleting::FailsForAll);
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (3, 0));
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), orphans);
    let files = world.files().await;
    assert!(!orphans.iter().any(|orphan| files.contains(orphan)));
}

#[tokio::test]
async fn what_a_store_says_it_deleted_and_still_has_is_counted_as_failed() {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    world.troubles.deleting(orphans[2].rsplit('/').next().unwrap(), Deleting::IsPretended);
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (2, 1));
    assert_eq!((report.removed.bytes, report.failed.bytes), (8, 4));
    let said = records.iter().rfind(|record| record.file == orphans[2]).unwrap();
    assert!(matches!(&said.fate, Fate::Failed { error } if error.contains("still has it")), "{said:?}");
}

#[tokio::test]
async fn what_somebody_else_deleted_first_is_gone_and_no_failure() {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    let (elsewhere, file) = (world.clone(), orphans[1].clone());
    world.troubles.before((On::Deleting, 1), "/data/", move || {
        let (world, file) = (elsewhere.clone(), file.clone());
        async move { world.store().delete(&file).await.unwrap() }
    });
    let (report, _) = world.clean().await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (3, 0));
}

#[rstest]
#[case::local(false)]
#[case::in_a_bucket(true)]
#[tokio::test]
async fn two_cleaners_at_once_remove_what_one_would(#[case] in_bucket: bool) {
    let world = if in_bucket { World::in_bucket().await } else { World::new().await };
    let live = world.append().await;
    let orphans: BTreeSet<String> = world.orphans(50).await.into_iter().collect();
    let before = world.files().await;
    let (one, other) = tokio::join!(world.clean(), world.clean());
    let ((one, first), (other, second)) = (one.unwrap(), other.unwrap());
    assert_eq!((one.failed.files, other.failed.files), (0, 0));
    let removed: BTreeSet<String> = first.into_iter().chain(second).map(|record| record.file).collect();
    // One may find what the other asks the store's time with.
    assert!(
        removed.is_superset(&orphans) && removed.iter().all(|file| !before.contains(file) || orphans.contains(file))
    );
    assert!(world.files().await.contains(&live));
    world.assert_whole().await;
}

#[tokio::test]
async fn a_cleaner_that_ends_half_way_is_followed_by_one_that_removes_the_rest() {
    let world = World::in_bucket().await;
    world.append().await;
    let orphans: BTreeSet<String> = world.orphans(1_500).await.into_iter().collect();
    let before = world.files().await;
    let reached = Arc::new(Notify::new());
    let reach = Arc::clone(&reached);
    world.troubles.before((On::Deleting, 1_201), "/data/", move || {
        let reach = Arc::clone(&reach);
        async move {
            reach.notify_one();
            std::future::pending::<()>().await;
        }
    });
    let mut first: Vec<FileRecord> = Vec::new();
    {
        let cleaner = world.cleaner();
        let (table, options) = (world.table(), world.options());
        tokio::select! {
            ended = cleaner.orphans(&table, &options, &mut first) => unreachable!("it ended: {ended:?}"),
            () = reached.notified() => {}
        }
    }
    let gone: BTreeSet<String> = before.difference(&world.files().await).cloned().collect();
    assert_eq!(gone.len(), 1_200);
    // What it had told of is gone; it had not told of all that is gone.
    let told: BTreeSet<String> = first.iter().map(|record| record.file.clone()).collect();
    assert!(told.len() == 1_000 && told.is_subset(&gone) && first.iter().all(|record| record.fate == Fate::Removed));

    let (report, second) = world.clean().await.unwrap();
    assert_eq!((report.orphans.files, report.removed.files, report.failed.files), (300, 300, 0));
    let rest: BTreeSet<String> = second.into_iter().map(|record| record.file).collect();
    assert_eq!(gone.union(&rest).cloned().collect::<BTreeSet<_>>(), orphans);
    assert_eq!(before.difference(&world.files().await).cloned().collect::<BTreeSet<_>>(), orphans);
    world.assert_whole().await;
}

/// Takes so many records, then none.
struct Full(usize);

impl Sink for Full {
    fn note(&mut self, _: &FileRecord) -> std::io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| std::io::Error::other("no space left on device"))?;
        Ok(())
    }
}

#[tokio::test]
async fn a_report_that_cannot_take_what_is_kept_ends_the_run_with_nothing_removed() {
    let world = World::new().await;
    world.append().await;
    world.orphan().await;
    world.put(&format!("{}/data/cities.parquet", world.root().await)).await;
    let before = world.files().await;
    let error = world.cleaner().orphans(&world.table(), &world.options(), &mut Full(0)).await.unwrap_err();
    assert!(matches!(error, Error::Report { removed: 0, .. }), "{error:?}");
    assert_eq!(world.files().await, before);
}

#[tokio::test]
async fn a_dry_run_tells_what_would_go_and_writes_nothing() {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    let before = world.files().await;
    let (report, records) = world.clean_with(&OrphanOptions { apply: false, ..world.options() }).await.unwrap();
    assert_eq!((report.orphans.files, report.removed.files, report.applied), (3, 0, false));
    assert_eq!(files_of(&records, |fate| *fate == Fate::Orphan), orphans);
    assert_eq!(world.files().await, before);
    assert_eq!(world.troubles.deleted(), [""; 0]);
}
#[rstest]
#[case::at_once(0)]
#[case::after_some(2)]
#[tokio::test]
async fn a_report_that_cannot_be_written_ends_the_run_and_says_how_many_went(#[case] room: usize) {
    let world = World::in_bucket().await;
    world.append().await;
    world.orphans(1_005).await;
    let before = world.files().await.len();
    let error = world.cleaner().orphans(&world.table(), &world.options(), &mut Full(room)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let Error::Report { removed, .. } = &error else { unreachable!("{error:?}") };
    let gone = before - world.files().await.len();
    assert_eq!(
        (gone, usize::try_from(*removed).unwrap()),
        (1_000, 1_000),
        "the chunk that could not be told of: {error}"
    );
    world.assert_whole().await;
}

/// The files are gone and cannot come back: the report may not be lost.
#[tokio::test]
async fn a_listing_that_fails_after_files_went_does_not_hide_that_they_did() {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(3).await;
    let troubles = Arc::clone(&world.troubles);
    world.troubles.before((On::Deleting, 3), "/data/", move || {
        let troubles = Arc::clone(&troubles);
        async move { troubles.listing("data", crate::store::Listing::Refused) }
    });
    let (report, records) = world.clean().await.unwrap();
    assert_eq!(report.removed.files, 3);
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), orphans);
    assert!(report.stopped.is_some(), "whether they are gone was not checked");
}
