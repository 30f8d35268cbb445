//! Manifests: few, whole, and with the numbers their entries were born with.

use std::collections::{HashMap, HashSet};

use crate::world::{World, committed, id, rows};

#[tokio::test(flavor = "multi_thread")]
async fn many_small_commits_keep_every_row_once_in_a_bounded_number_of_manifests() {
    let world = World::new().await;
    let mut born: HashMap<String, (Option<i64>, Option<i64>)> = HashMap::new();
    let mut most = 0;
    for n in 0..250 {
        let batch = world.batch(&format!("batch {n}"), n..n + 1).await;
        let snapshot_id = committed(&world.commit(&batch).await.unwrap());
        let table = world.load().await;
        let metadata = table.metadata();
        let list = table.manifest_list_reader(metadata.current_snapshot().unwrap()).load().await.unwrap();
        most = most.max(list.entries().len());
        let numbers = (Some(snapshot_id), Some(metadata.last_sequence_number()));
        born.insert(batch.files[0].file_path().to_owned(), numbers);
    }
    assert!((50..=110).contains(&most), "{most} manifests");
    let live = world.live().await;
    assert_eq!(live.len(), 250);
    for entry in &live {
        let now = (entry.snapshot_id(), entry.sequence_number());
        assert_eq!(now, born[entry.file_path()], "{}", entry.file_path());
        assert_eq!(entry.file_sequence_number, entry.sequence_number());
    }
    let expected: Vec<_> = (0..250).flat_map(|n| rows(&format!("batch {n}"), n..n + 1)).collect();
    assert_eq!(world.rows().await, expected);
    // A batch in a merged manifest is replaced alone.
    let mut batch = world.batch("batch 17", 1_000..1_002).await;
    batch.force = true;
    committed(&world.commit(&batch).await.unwrap());
    let mut expected: Vec<_> =
        expected.into_iter().filter(|row| row.2.as_deref() != Some(id("batch 17").as_str())).collect();
    expected.extend(rows("batch 17", 1_000..1_002));
    assert_eq!(world.rows().await, expected);
    for entry in world.live().await.iter().filter(|entry| born.contains_key(entry.file_path())) {
        assert_eq!((entry.snapshot_id(), entry.sequence_number()), born[entry.file_path()]);
    }
}

#[tokio::test]
async fn files_are_named_once_and_never_reused() {
    let world = World::new().await;
    let mut names = HashSet::new();
    for n in 0..5 {
        let mut batch = world.batch("one", n..n + 1).await;
        batch.force = true;
        committed(&world.commit(&batch).await.unwrap());
        let table = world.load().await;
        assert!(names.insert(table.metadata().current_snapshot().unwrap().manifest_list().to_owned()));
        for (manifest, _) in world.manifests().await {
            if manifest.added_snapshot_id == table.metadata().current_snapshot_id().unwrap() {
                assert!(names.insert(manifest.manifest_path));
            }
        }
    }
}

#[tokio::test]
async fn a_manifest_is_rewritten_under_the_schema_it_had() {
    let world = World::partitioned().await;
    let (x, y) = (world.file(&rows("one", 0..3)).await, world.file(&rows("two", 3..6)).await);
    world.stock_append(vec![x, y]).await;
    // The table moves on to a schema without the column that the old spec needs.
    let table = world.load().await;
    let fields = table.metadata().current_schema().as_struct().fields().iter();
    let fields: Vec<_> = fields.filter(|field| field.name != "category").cloned().collect();
    let schema = iceberg::spec::Schema::builder().with_schema_id(1).with_fields(fields).build().unwrap();
    world
        .update(vec![
            iceberg::TableUpdate::AddSpec { spec: iceberg::spec::UnboundPartitionSpec::default() },
            iceberg::TableUpdate::SetDefaultSpec { spec_id: -1 },
        ])
        .await;
    world
        .update(vec![
            iceberg::TableUpdate::AddSchema { schema },
            iceberg::TableUpdate::SetCurrentSchema { schema_id: -1 },
        ])
        .await;
    let empty = world.batch_of("one", Vec::new()).await;
    committed(&world.commit(&empty).await.unwrap());
    let live = world.live().await;
    assert_eq!((live.len(), live[0].record_count()), (1, 3));
    assert_eq!(live[0].data_file().partition().fields().len(), 1);
}

#[tokio::test]
async fn entries_say_that_files_are_unsorted() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    let mixed = world.file(&[rows("two", 3..4), rows("three", 4..5)].concat()).await;
    world.stock_append(vec![mixed]).await;
    world.ingest("two", 5..6).await;
    assert!(world.live().await.iter().all(|entry| entry.data_file().sort_order_id() == Some(0)));
}
