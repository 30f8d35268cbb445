//! Tables of format version 3: rows keep their ids, or nothing is done.

use std::collections::BTreeMap;

use hexfloe_commit::Error;
use iceberg::TableUpdate;
use iceberg::spec::FormatVersion;

use crate::overwriting::sorted;
use crate::world::{World, committed, rows};

async fn upgraded(world: &World) {
    world.update(vec![TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V3 }]).await;
}

/// The first row id of each live file, as readers count it: its own, or counted on from its manifest's.
async fn row_ids(world: &World) -> BTreeMap<String, i64> {
    let mut ids = BTreeMap::new();
    for (manifest, entries) in world.manifests().await {
        let mut next = i64::try_from(manifest.first_row_id.unwrap()).unwrap();
        for entry in entries.iter().filter(|entry| entry.is_alive()) {
            let own = entry.data_file().first_row_id();
            ids.insert(entry.file_path().to_owned(), own.unwrap_or(next));
            if own.is_none() {
                next += i64::try_from(entry.record_count()).unwrap();
            }
        }
    }
    ids
}

#[tokio::test]
async fn new_rows_get_new_row_ids_and_rows_that_stay_keep_theirs() {
    let world = World::new().await;
    world.ingest("before", 0..3).await;
    upgraded(&world).await;
    // One manifest with the files of two batches.
    let (a, b) = (world.file(&rows("a", 3..6)).await, world.file(&rows("b", 6..10)).await);
    world.stock_append(vec![a.clone(), b.clone()]).await;
    let before = row_ids(&world).await;
    committed(&world.commit(&world.batch("a", 20..22).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows("before", 0..3), rows("b", 6..10), rows("a", 20..22)]));
    let after = row_ids(&world).await;
    assert_eq!(after[b.file_path()], before[b.file_path()], "the file stays, in another manifest");
    let highest = before.values().max().unwrap();
    let new = after.iter().find(|(path, _)| !before.contains_key(*path)).unwrap();
    assert!(new.1 > highest, "{after:?}");
    let table = world.load().await;
    assert!(table.metadata().next_row_id() >= u64::try_from(*new.1).unwrap() + 2);
    let mut ranges: Vec<(i64, u64)> = Vec::new();
    for entry in world.live().await {
        ranges.push((after[entry.file_path()], entry.record_count()));
    }
    ranges.sort_unstable();
    let disjoint = ranges.windows(2).all(|pair| pair[0].0 + i64::try_from(pair[0].1).unwrap() <= pair[1].0);
    assert!(disjoint, "{ranges:?}");
}

#[tokio::test]
async fn a_file_of_several_batches_is_refused_with_its_name_and_nothing_is_written() {
    let world = World::new().await;
    upgraded(&world).await;
    let mixed = world.file(&[rows("a", 0..2), rows("b", 2..4)].concat()).await;
    world.stock_append(vec![mixed.clone()]).await;
    let before = world.files().await;
    let error = world.commit(&world.batch("a", 10..12).await).await.unwrap_err();
    assert!(matches!(&error, Error::CannotRewrite { file, .. } if file == mixed.file_path()), "{error}");
    assert!(error.to_string().contains("format version 3"), "{error}");
    assert_eq!(world.files().await, before);
    assert_eq!(world.rows().await, [rows("a", 0..2), rows("b", 2..4)].concat());
}
