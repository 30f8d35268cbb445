//! What a table refers to, however indirectly.

use hexfloe_orphan_cleanup::{Error, ErrorKind, Fate, Refusal};
use iceberg::TableUpdate;
use iceberg::spec::{MAIN_BRANCH, PartitionStatisticsFile, SnapshotReference, SnapshotRetention, StatisticsFile};
use rstest::rstest;

use crate::world::{World, files_of};

fn statistics(snapshot_id: i64, path: &str) -> TableUpdate {
    let statistics = StatisticsFile {
        snapshot_id,
        statistics_path: path.to_owned(),
        file_size_in_bytes: 4,
        file_footer_size_in_bytes: 4,
        key_metadata: None,
        blob_metadata: Vec::new(),
    };
    TableUpdate::SetStatistics { statistics }
}

fn partition_statistics(snapshot_id: i64, path: &str) -> TableUpdate {
    let statistics_path = path.to_owned();
    let partition_statistics = PartitionStatisticsFile { snapshot_id, statistics_path, file_size_in_bytes: 4 };
    TableUpdate::SetPartitionStatistics { partition_statistics }
}

#[tokio::test]
async fn statistics_partition_statistics_and_deletion_vectors_stay_while_they_are_referred_to() {
    let world = World::new().await;
    let root = world.root().await;
    let id = |number: u128| uuid::Uuid::from_u128((0x5747 << 64) | number);
    let name = |name: String| format!("{root}/{name}");
    let [table_wide, by_partition, vector, other, nobodys] = [
        name(format!("metadata/{}.stats", id(1))),
        name(format!("metadata/partition-stats-1-{}.parquet", id(2))),
        name(format!("data/{}.puffin", id(3))),
        name(format!("metadata/1-{}.puffin", id(4))),
        name(format!("metadata/{}.stats", id(5))),
    ];
    for file in [&table_wide, &by_partition, &vector, &other, &nobodys] {
        world.put(file).await;
    }
    let one = world.commit(MAIN_BRANCH, &[&vector], false).await;
    let data = world.orphan().await;
    let two = world.commit(MAIN_BRANCH, &[&data], false).await;
    world.update(vec![statistics(one, &table_wide), partition_statistics(one, &by_partition)]).await;
    world.update(vec![statistics(two, &other)]).await;

    let (_, records) = world.clean().await.unwrap();
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), [nobodys]);
    world.assert_whole().await;

    // What no metadata names any more goes.
    world.update(vec![TableUpdate::RemoveStatistics { snapshot_id: one }]).await;
    world.update(vec![TableUpdate::RemovePartitionStatistics { snapshot_id: one }]).await;
    let (_, records) = world.clean().await.unwrap();
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), [table_wide, by_partition]);
    world.assert_whole().await;
}

#[tokio::test]
async fn every_snapshot_in_the_metadata_keeps_its_files_whichever_ref_has_it_or_none() {
    let world = World::new().await;
    let file = async |branch: &str, overwrite: bool| {
        let file = world.orphan().await;
        let snapshot = world.commit(branch, &[&file], overwrite).await;
        (snapshot, file)
    };
    let (tagged, in_tag) = file(MAIN_BRANCH, false).await;
    world.tag("kept", tagged).await;
    let (_, in_history) = file(MAIN_BRANCH, true).await;
    let (_, on_branch) = file("audit", true).await;
    let (_, staged) = file("staged", true).await;
    world.remove_ref("staged").await;
    let (rolled_back, undone) = file(MAIN_BRANCH, true).await;
    let reference = SnapshotReference::new(tagged, SnapshotRetention::branch(None, None, None));
    world.update(vec![TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference }]).await;
    let (_, current) = file(MAIN_BRANCH, true).await;
    let orphan = world.orphan().await;

    let (report, records) = world.clean().await.unwrap();
    assert_eq!(files_of(&records, |fate| *fate == Fate::Removed), [orphan]);
    assert_eq!(report.snapshots, 6);
    let files = world.files().await;
    for file in [&in_tag, &in_history, &on_branch, &staged, &undone, &current] {
        assert!(files.contains(file), "{file}");
    }
    world.assert_whole().await;

    // Without its snapshot, one of them is an orphan, and its manifests and list are.
    world.update(vec![TableUpdate::RemoveSnapshots { snapshot_ids: vec![rolled_back] }]).await;
    let (report, records) = world.clean().await.unwrap();
    assert_eq!(report.removed.files, 3, "{records:?}");
    assert!(!world.files().await.contains(&undone));
    world.assert_whole().await;
}

/// Everything is a month old here: age alone would condemn all of it.
#[tokio::test]
async fn an_old_file_that_left_the_table_stays_as_long_as_a_snapshot_has_it() {
    let world = World::new().await;
    let old = world.append().await;
    let first = world.load().await.metadata().current_snapshot_id().unwrap();
    let new = world.orphan().await;
    world.commit(MAIN_BRANCH, &[&new], true).await;
    assert_eq!(world.clean().await.unwrap().0.orphans.files, 0);
    assert!(world.files().await.contains(&old));
    world.update(vec![TableUpdate::RemoveSnapshots { snapshot_ids: vec![first] }]).await;
    // The newer snapshot's manifest still says that it took the file away: an engine may want to look.
    assert!(world.clean().await.unwrap().1.iter().all(|record| record.file != old));
    let newer = world.orphan().await;
    world.commit(MAIN_BRANCH, &[&newer], true).await;
    let second = world.load().await.metadata().snapshots().map(|s| s.snapshot_id()).min().unwrap();
    world.update(vec![TableUpdate::RemoveSnapshots { snapshot_ids: vec![second] }]).await;
    world.clean().await.unwrap();
    assert!(!world.files().await.contains(&old));
    world.assert_whole().await;
}

#[tokio::test]
async fn the_metadata_log_is_kept_and_what_fell_out_of_it_goes() {
    let world = World::new().await;
    world.append().await;
    world.set_property("write.metadata.previous-versions-max", "2").await;
    for number in 0..4 {
        world.set_property("n", &number.to_string()).await;
    }
    let (report, records) = world.clean().await.unwrap();
    let removed = files_of(&records, |fate| *fate == Fate::Removed);
    // Seven were written: the one of the creation, of the append, and one for each property.
    assert!(removed.iter().all(|file| file.ends_with(".metadata.json")), "{removed:?}");
    assert_eq!(report.removed.files, 4, "{removed:?}");
    world.assert_whole().await;
}

#[rstest]
#[case::a_manifest("-m0.avro")]
#[case::a_manifest_list("/snap-")]
#[tokio::test]
async fn what_cannot_be_read_for_now_ends_the_run_and_what_is_not_there_is_refused(#[case] part: &str) {
    let world = World::new().await;
    world.append().await;
    world.orphan().await;
    let before = world.files().await;
    world.troubles.unreadable(part);
    let error = world.clean().await.unwrap_err();
    assert!(matches!(error, Error::Store(_)) && error.kind() == ErrorKind::Unavailable, "{error:?}");
    assert_eq!(world.files().await, before);
    world.troubles.end();

    let lost = before.iter().find(|file| file.contains(part)).unwrap();
    world.store().delete(lost).await.unwrap();
    let refusal = world.refused_with(&world.options()).await;
    assert!(matches!(&refusal, Refusal::Unreadable { file, .. } if file == lost), "{refusal:?}");
}

/// Cut off between two blocks a file is well-formed, and says less than it should.
#[tokio::test]
async fn a_manifest_that_was_cut_off_after_its_header_is_refused() {
    let world = World::new().await;
    let live = world.append().await;
    let manifest = world.files().await.into_iter().find(|file| file.ends_with("-m0.avro")).unwrap();
    let path = manifest.strip_prefix("file://").unwrap();
    let whole = std::fs::read(path).unwrap();
    // A file ends with the marker that follows its header, too.
    let marker = &whole[whole.len() - 16..];
    let header = whole.windows(16).position(|window| window == marker).unwrap() + 16;
    assert!(header < whole.len());
    std::fs::write(path, &whole[..header]).unwrap();
    let refusal = world.refused_with(&world.options()).await;
    assert!(matches!(&refusal, Refusal::Unreadable { file, .. } if *file == manifest), "{refusal:?}");
    assert!(world.files().await.contains(&live));
}

/// A catalog that was restored from an older copy: what was committed since looks like garbage.
#[tokio::test]
async fn a_catalog_that_is_behind_its_table_is_refused() {
    let world = World::new().await;
    world.append().await;
    let old = world.load().await.metadata_location().unwrap().to_owned();
    let next = world.append().await;
    world.point_at(&old).await;
    // One step ahead is what a commit that failed leaves.
    assert!(files_of(&world.clean().await.unwrap().1, |fate| *fate == Fate::Removed).contains(&next));

    world.append().await;
    let old = world.load().await.metadata_location().unwrap().to_owned();
    let lost = [world.append().await, world.append().await];
    let newest = world.load().await.metadata_location().unwrap().to_owned();
    world.point_at(&old).await;
    let refusal = world.refused_with(&world.options()).await;
    assert!(matches!(&refusal, Refusal::Newer { file } if *file == newest), "{refusal:?}");
    assert!(lost.iter().all(|file| std::path::Path::new(file.strip_prefix("file://").unwrap()).exists()));
}

#[rstest]
#[case("_delta_log/00000000000000000000.json", "a Delta table")]
#[case(".hoodie/hoodie.properties", "a Hudi table")]
#[tokio::test]
async fn a_table_of_another_format_in_the_same_place_is_refused(#[case] log: &str, #[case] expected: &str) {
    let world = World::new().await;
    world.append().await;
    world.orphan().await;
    let file = format!("{}/data/other/{log}", world.root().await);
    world.put(&file).await;
    let refusal = world.refused_with(&world.options()).await;
    assert!(
        matches!(&refusal, Refusal::Foreign { file: named, whose } if *named == file && whose == expected),
        "{refusal:?}"
    );
}

#[rstest]
#[case("/data/./")]
#[case("/data/day=1/../")]
#[tokio::test]
async fn a_path_that_is_not_plain_is_refused(#[case] folder: &str) {
    let world = World::new().await;
    world.append().await;
    let file = world.orphan().await;
    let named = file.replace("/data/", folder);
    world.commit(MAIN_BRANCH, &[&named], false).await;
    let refusal = world.refused_with(&world.options()).await;
    assert!(matches!(&refusal, Refusal::Unplaced { path } if *path == named), "{refusal:?}");
    assert!(world.files().await.contains(&file));
}
