//! Files that are put away instead of deleted, and brought back.

use hexfloe_orphan_cleanup::{Disposal, Error, ErrorKind, Fate, OrphanOptions, Refusal};
use rstest::rstest;

use crate::store::{Deleting, On};
use crate::world::{World, files_of};

fn into(world: &World, place: &str) -> OrphanOptions {
    OrphanOptions { disposal: Disposal::Quarantine(place.to_owned()), ..world.options() }
}

async fn place_of(world: &World) -> String {
    let root = world.root().await;
    format!("{}/quarantine", root.rsplit_once('/').unwrap().0)
}

async fn text(world: &World, location: &str) -> String {
    String::from_utf8(world.store().read(location).await.unwrap().to_vec()).unwrap()
}

async fn write(world: &World, location: &str, text: &'static str) {
    let mut upload = world.store().create(location).await.unwrap();
    upload.write(text.into()).await.unwrap();
    upload.finish().await.unwrap();
}

#[rstest]
#[case::the_table("")]
#[case::in_the_table("/quarantine")]
#[case::in_its_data("/data/q")]
#[case::around_it("/..")]
#[tokio::test]
async fn a_quarantine_in_or_around_what_is_cleaned_is_refused(#[case] place: &str) {
    let world = World::new().await;
    world.append().await;
    world.orphan().await;
    let root = world.root().await;
    let place = match place {
        "/.." => root.rsplit_once('/').unwrap().0.to_owned(),
        below => format!("{root}{below}"),
    };
    let refusal = world.refused_with(&into(&world, &place)).await;
    assert_eq!(refusal, Refusal::Quarantine { quarantine: place, location: root });
}

#[tokio::test]
async fn a_quarantine_in_another_store_is_refused() {
    let world = World::in_bucket().await;
    world.append().await;
    world.orphan().await;
    let before = world.files().await;
    for place in ["s3://other/quarantine", "file:///quarantine"] {
        let error = world.clean_with(&into(&world, place)).await.unwrap_err();
        assert!(matches!(error, Error::Options(_)) && error.kind() == ErrorKind::Configuration, "{error:?}");
    }
    assert_eq!(world.files().await, before);
}

#[rstest]
#[case::local(false)]
#[case::in_a_bucket(true)]
#[tokio::test]
async fn what_is_put_away_comes_back_as_it_was(#[case] in_bucket: bool) {
    let world = if in_bucket { World::in_bucket().await } else { World::new().await };
    world.append().await;
    let mut orphans = Vec::new();
    for folder in ["data", "data/city=New York", "data/x=a%20b", "data/city=Malmö", "metadata"] {
        orphans.push(world.orphan_in(folder).await);
    }
    orphans.sort();
    let (before, place) = (world.files().await, place_of(&world).await);
    let (report, records) = world.clean_with(&into(&world, &place)).await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (5, 0));
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), orphans);
    assert_eq!(world.files_below(&place).await.len(), 5);
    assert_eq!(before.len() - world.files().await.len(), 5);
    world.assert_whole().await;

    let dry = world.cleaner().restore(&place, false).await.unwrap();
    assert_eq!((dry.found.files, dry.restored), (5, 0));
    assert_eq!(world.files_below(&place).await.len(), 5);
    let restored = world.cleaner().restore(&place, true).await.unwrap();
    assert_eq!((restored.found.files, restored.restored, restored.taken, restored.unknown), (5, 5, 0, 0));
    assert_eq!(world.files().await, before);
    for orphan in &orphans {
        assert_eq!(text(&world, orphan).await, "PAR1");
    }
    assert!(world.files_below(&place).await.is_empty());
}

#[tokio::test]
async fn a_file_whose_place_is_taken_stays_in_the_quarantine() {
    let world = World::new().await;
    world.append().await;
    let orphans = world.orphans(2).await;
    let place = place_of(&world).await;
    world.clean_with(&into(&world, &place)).await.unwrap();
    write(&world, &orphans[0], "another").await;
    world.put(&format!("{place}/what-somebody-put-here")).await;
    let report = world.cleaner().restore(&place, true).await.unwrap();
    assert_eq!((report.restored, report.taken, report.unknown, report.failed.len()), (1, 1, 1, 0));
    assert_eq!(text(&world, &orphans[0]).await, "another");
    assert_eq!(text(&world, &orphans[1]).await, "PAR1");
    assert_eq!(world.files_below(&place).await.len(), 2);
}

/// The cleaner ended after it had copied: the copy is the same file.
#[tokio::test]
async fn a_file_that_was_copied_and_not_deleted_is_deleted_the_next_time() {
    let world = World::new().await;
    world.append().await;
    let orphan = world.orphan().await;
    let place = place_of(&world).await;
    world.troubles.deleting("/data/", Deleting::Fails(usize::MAX));
    let (report, _) = world.clean_with(&into(&world, &place)).await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (0, 1));
    assert!(world.files().await.contains(&orphan));
    assert_eq!(world.files_below(&place).await.len(), 1);
    world.troubles.end();
    let (report, _) = world.clean_with(&into(&world, &place)).await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (1, 0));
    assert_eq!(world.files_below(&place).await.len(), 1);
    world.cleaner().restore(&place, true).await.unwrap();
    assert!(world.files().await.contains(&orphan));
}

/// What lies in its place in the quarantine is another file: then it may not be deleted.
#[tokio::test]
async fn a_file_of_which_the_quarantine_has_another_version_is_kept() {
    let world = World::new().await;
    world.append().await;
    let orphan = world.orphan().await;
    let place = place_of(&world).await;
    let target = orphan.replace("file:///", &format!("{place}/file/-/"));
    write(&world, &target, "another").await;
    let (report, records) = world.clean_with(&into(&world, &place)).await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (0, 1), "{records:?}");
    assert_eq!(text(&world, &orphan).await, "PAR1");
    assert_eq!(text(&world, &target).await, "another");
}

#[tokio::test]
async fn a_file_that_goes_before_it_is_copied_is_gone_and_no_failure() {
    let world = World::new().await;
    world.append().await;
    let orphan = world.orphan().await;
    let place = place_of(&world).await;
    let (elsewhere, file) = (world.clone(), orphan.clone());
    world.troubles.before((On::Copying, 1), "/data/", move || {
        let (world, file) = (elsewhere.clone(), file.clone());
        async move { world.store().delete(&file).await.unwrap() }
    });
    let (report, _) = world.clean_with(&into(&world, &place)).await.unwrap();
    assert_eq!((report.removed.files, report.failed.files), (1, 0));
    assert!(world.files_below(&place).await.is_empty());
}
