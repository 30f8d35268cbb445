//! Manifests: few, whole, and with the numbers their entries were born with.

use std::collections::{HashMap, HashSet};

use iceberg::spec::{ManifestEntryRef, ManifestFile};

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

/// What ends each block of a manifest is made up for each manifest that is encoded, and stays in one that is copied.
async fn end(world: &World, manifest: &str) -> Vec<u8> {
    let bytes = world.catalog.store().read(manifest).await.unwrap();
    bytes[bytes.len() - 16..].to_vec()
}

#[tokio::test]
async fn a_replay_copies_the_entries_that_stay_and_decodes_those_of_its_batch() {
    let world = World::partitioned().await;
    let mut group = Vec::new();
    for (n, name) in (0..).zip(["a", "b", "c"]) {
        group.push(world.batch(name, 10 * n..10 * n + 3).await);
    }
    let _ = world.committer().commit_all(&group).await.unwrap();
    world.ingest("d", 90..91).await;
    let before = world.manifests().await;
    let mut replay = world.batch("b", 50..54).await;
    replay.force = true;
    committed(&world.commit(&replay).await.unwrap());

    let expected: Vec<_> = [rows("a", 0..3), rows("c", 20..23), rows("b", 50..54), rows("d", 90..91)].concat();
    assert_eq!(world.rows().await, expected);
    let after = world.manifests().await;
    let counts = |manifests: &[(ManifestFile, Vec<ManifestEntryRef>)]| -> Vec<_> {
        let counts =
            |file: &ManifestFile| [file.added_files_count, file.existing_files_count, file.deleted_files_count];
        let mut counts: Vec<_> =
            manifests.iter().map(|(file, _)| counts(file).map(Option::unwrap_or_default)).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(counts(&before), [[1, 0, 0], [3, 0, 0]]);
    assert_eq!(counts(&after), [[0, 2, 1], [1, 0, 0], [1, 0, 0]]);
    let of_three = before.iter().find(|(file, _)| file.added_files_count == Some(3)).unwrap();
    let (file, entries) = after.iter().find(|(file, _)| file.existing_files_count == Some(2)).unwrap();
    assert_eq!(end(&world, &file.manifest_path).await, end(&world, &of_three.0.manifest_path).await, "it is copied");
    assert_eq!((file.min_sequence_number, file.existing_rows_count, file.deleted_rows_count), (1, Some(6), Some(3)));
    for (old, new) in of_three.1.iter().zip(entries) {
        assert_eq!((old.data_file(), old.sequence_number()), (new.data_file(), new.sequence_number()));
        assert_eq!(
            (old.snapshot_id() == new.snapshot_id(), old.file_sequence_number),
            (new.is_alive(), new.file_sequence_number)
        );
    }
    // What was counted without decoding is what there is.
    let table = world.load().await;
    let summary = &table.metadata().current_snapshot().unwrap().summary().additional_properties;
    let totals: Vec<u64> = world.live().await.iter().map(|entry| entry.file_size_in_bytes()).collect();
    let expected = [("total-records", 11), ("total-data-files", 4), ("total-files-size", totals.iter().sum())];
    for (name, value) in expected {
        assert_eq!(summary[name], value.to_string(), "{name}");
    }
    // The committer may go on with what it remembers of the manifests.
    let committer = world.committer();
    for numbers in [60..62, 70..71] {
        let mut replay = world.batch("c", numbers.clone()).await;
        replay.force = true;
        committed(&committer.commit(&replay).await.unwrap());
        let expected: Vec<_> = [rows("a", 0..3), rows("b", 50..54), rows("c", numbers), rows("d", 90..91)].concat();
        assert_eq!(world.rows().await, expected);
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
