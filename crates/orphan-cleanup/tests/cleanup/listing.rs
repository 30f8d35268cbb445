//! What a listing may do: fail, be late, lack times, lack files.

use std::time::Duration;

use hexfloe_orphan_cleanup::{Error, ErrorKind, FLOOR, Fate, OrphanOptions, Refusal};
use rstest::rstest;

use crate::store::{Listing, MONTH, On};
use crate::world::World;

#[rstest]
#[case::really(true)]
#[case::as_the_store_answers(false)]
#[tokio::test]
async fn a_folder_that_vanishes_between_two_listings_is_empty(#[case] really: bool) {
    let world = World::new().await;
    world.append_in("data/live").await;
    let vanishes = world.orphan_in("data/gone").await;
    let stays = world.orphan_in("data/stays").await;
    if really {
        let place = std::path::PathBuf::from(vanishes.strip_prefix("file://").unwrap());
        world.troubles.before((On::Listing, 1), "data/gone", move || {
            let place = place.parent().unwrap().to_owned();
            async move { std::fs::remove_dir_all(place).unwrap() }
        });
    } else {
        world.troubles.listing("data/gone", Listing::NotFound);
    }
    let (report, _) = world.clean().await.unwrap();
    assert_eq!((report.orphans.files, report.removed.files, report.failed.files), (1, 1, 0));
    assert!(!world.files().await.contains(&stays));
    world.assert_whole().await;
}

#[rstest]
#[tokio::test]
async fn any_other_failure_of_a_listing_ends_the_run_with_nothing_deleted(
    #[values(Listing::Refused, Listing::Breaks)] how: Listing,
    #[values("data", "data/b", "metadata")] place: &str,
    #[values(false, true)] apply: bool,
) {
    let world = World::new().await;
    world.append_in("data/live").await;
    for folder in ["data/a", "data/b", "data/c", "metadata"] {
        world.orphan_in(folder).await;
    }
    let before = world.files().await;
    world.troubles.listing(place, how);
    let error = world.clean_with(&OrphanOptions { apply, ..world.options() }).await.unwrap_err();
    assert!(matches!(error, Error::Store(_)) && error.kind() == ErrorKind::Unavailable, "{error:?}");
    assert_eq!(world.files().await, before);
    // Only the object that asks for the store's time.
    let deleted = world.troubles.deleted();
    assert!(deleted.iter().all(|key| key.contains("/metadata/snap-0-0-")), "{deleted:?}");
    world.troubles.end();
    assert_eq!(world.clean().await.unwrap().0.removed.files, 4);
}

#[tokio::test]
async fn a_listing_that_does_not_show_the_tables_own_metadata_is_not_trusted() {
    let world = World::new().await;
    world.append().await;
    world.orphan().await;
    let own = world.load().await.metadata_location().unwrap().to_owned();
    world.troubles.hide(own.rsplit('/').next().unwrap());
    assert_eq!(world.refused_with(&world.options()).await, Refusal::NotListed { file: own });
    // Nor one that is empty.
    world.troubles.end();
    world.troubles.hide("/");
    assert!(matches!(world.refused_with(&world.options()).await, Refusal::NotListed { .. }));
}

#[tokio::test]
async fn a_file_without_a_time_is_kept_and_said_to_be() {
    let world = World::new().await;
    let live = world.append().await;
    let undated = world.orphan_in("data/undated").await;
    let dated = world.orphan().await;
    world.troubles.age("data/undated", None);
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.undated.files, report.removed.files), (1, 1));
    let kept = records.iter().find(|record| record.fate == Fate::Undated).unwrap();
    assert_eq!((&kept.file, kept.last_modified_ms), (&undated, None));
    let files = world.files().await;
    assert!(files.contains(&live) && files.contains(&undated) && !files.contains(&dated));
}

/// By the store's clock where it can be asked for, and by this machine's in a dry run.
#[rstest]
#[tokio::test]
async fn a_file_goes_when_it_is_older_than_the_margin(#[values(false, true)] apply: bool) {
    let world = World::new().await;
    world.append().await;
    let minute = Duration::from_secs(60);
    let (old, young) = (world.orphan_in("data/old").await, world.orphan_in("data/young").await);
    world.troubles.age("data/old", Some(FLOOR + minute));
    world.troubles.age("data/young", Some(FLOOR - minute));
    let options = OrphanOptions { older_than: FLOOR, apply, ..world.options() };
    let (report, records) = world.clean_with(&options).await.unwrap();
    assert_eq!((report.orphans.files, report.young.files), (1, 1));
    assert_eq!(records.iter().map(|record| &record.file).collect::<Vec<_>>(), [&old]);
    let files = world.files().await;
    assert_eq!((files.contains(&old), files.contains(&young)), (!apply, true));
}

#[tokio::test]
async fn a_machine_that_is_ahead_of_the_store_does_not_take_files_for_older() {
    let world = World::new().await;
    world.append().await;
    world.orphan().await;
    world.troubles.age("data", Some(Duration::ZERO));
    world.environment.advance(2 * MONTH);
    assert_eq!(world.clean().await.unwrap().0.young.files, 1);
}

#[tokio::test]
async fn a_file_that_no_writer_names_so_or_puts_so_is_kept() {
    let world = World::new().await;
    world.append().await;
    let root = world.root().await;
    let mut kept = Vec::new();
    for name in ["data/cities.parquet", "data/_SUCCESS", "metadata/notes.txt", "README.md"] {
        kept.push(format!("{root}/{name}"));
    }
    // One that is named as a writer does, in a folder that is not a writer's.
    kept.push(format!("{root}/backup/{}.parquet", uuid::Uuid::from_u128(7)));
    for file in &kept {
        world.put(file).await;
    }
    let orphan = world.orphan().await;
    let (report, records) = world.clean().await.unwrap();
    assert_eq!((report.unknown.files, report.removed.files), (5, 1));
    let said = records.iter().filter(|record| record.fate == Fate::Unknown).count();
    assert_eq!(said, 5);
    let files = world.files().await;
    assert!(kept.iter().all(|file| files.contains(file)) && !files.contains(&orphan));
}
