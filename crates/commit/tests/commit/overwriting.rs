//! Which rows an overwrite replaces, and what it must leave alone.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use hexfloe_batch::BatchId;
use hexfloe_commit::BatchOutcome;
use iceberg::TableUpdate;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, MAIN_BRANCH, ManifestContentType, ManifestFile,
    ManifestListWriter, ManifestStatus, ManifestWriterBuilder, Operation, PrimitiveLiteral, Snapshot,
    SnapshotReference, SnapshotRetention, Summary,
};
use parquet::arrow::ArrowWriter;
use rstest::rstest;

use crate::world::{Made, Row, World, committed, id, rows, rows_in};

/// What another engine's snapshot is made of.
#[derive(Default)]
pub(crate) struct Foreign {
    pub(crate) keep: bool,
    pub(crate) data: Vec<DataFile>,
    pub(crate) deletes: Vec<DataFile>,
}

/// Commits a snapshot as another engine does: with its own manifests, and no word about batches.
pub(crate) async fn foreign_snapshot(world: &World, foreign: Foreign) {
    let table = world.load().await;
    let metadata = table.metadata();
    let snapshot_id = i64::try_from(world.environment.next_id()).unwrap() << 20;
    let attempt = hexfloe_commit::Environment::uuid(world.environment.as_ref());
    let mut manifests: Vec<ManifestFile> = Vec::new();
    if foreign.keep {
        manifests.extend(world.manifests().await.into_iter().map(|(file, _)| file));
    }
    for (content, files) in [(ManifestContentType::Data, foreign.data), (ManifestContentType::Deletes, foreign.deletes)]
    {
        if files.is_empty() {
            continue;
        }
        let path = format!("{}/metadata/foreign-{attempt}-{content}.avro", metadata.location());
        let output = table.file_io().new_output(path).unwrap();
        let (schema, spec) = (metadata.current_schema().clone(), metadata.default_partition_spec().as_ref().clone());
        let builder = ManifestWriterBuilder::new(output, Some(snapshot_id), schema, spec);
        let mut writer = match content {
            ManifestContentType::Data => builder.build_v2_data(),
            ManifestContentType::Deletes => builder.build_v2_deletes(),
        };
        for file in files {
            writer.add_file(file, -1).unwrap();
        }
        manifests.push(writer.write_manifest_file().await.unwrap());
    }
    let manifest_list = format!("{}/metadata/foreign-{attempt}.avro", metadata.location());
    let writer = table.file_io().new_output(&manifest_list).unwrap().writer().await.unwrap();
    let sequence_number = metadata.next_sequence_number();
    let mut list = ManifestListWriter::v2(writer, snapshot_id, metadata.current_snapshot_id(), sequence_number);
    list.add_manifests(manifests.into_iter()).unwrap();
    list.close().await.unwrap();
    add_snapshot(world, snapshot_id, manifest_list).await;
}

async fn add_snapshot(world: &World, snapshot_id: i64, manifest_list: String) {
    let table = world.load().await;
    let metadata = table.metadata();
    let snapshot = Snapshot::builder()
        .with_snapshot_id(snapshot_id)
        .with_parent_snapshot_id(metadata.current_snapshot_id())
        .with_sequence_number(metadata.next_sequence_number())
        .with_timestamp_ms(metadata.last_updated_ms())
        .with_manifest_list(manifest_list)
        .with_schema_id(metadata.current_schema_id())
        .with_summary(Summary { operation: Operation::Replace, additional_properties: HashMap::new() })
        .build();
    let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
    world
        .update(vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference },
        ])
        .await;
}

/// Puts these files in the place of all others.
pub(crate) async fn compact(world: &World, data: Vec<DataFile>) {
    foreign_snapshot(world, Foreign { data, ..Foreign::default() }).await;
}

/// A snapshot with this id and nothing new.
pub(crate) async fn snapshot_with_the_same_files(world: &World, snapshot_id: i64) {
    let list = world.load().await.metadata().current_snapshot().unwrap().manifest_list().to_owned();
    add_snapshot(world, snapshot_id, list).await;
}

/// A position delete of the rows of `file` at these positions.
pub(crate) async fn position_delete(world: &World, file: &DataFile, positions: &[i64]) -> DataFile {
    position_delete_of(world, &[(file, positions)]).await
}

/// One position delete file over several data files of a partition.
pub(crate) async fn position_delete_of(world: &World, deleted: &[(&DataFile, &[i64])]) -> DataFile {
    let with_id = |name: &str, kind, id: i32| {
        Field::new(name, kind, false).with_metadata(HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]))
    };
    let schema = Arc::new(Schema::new(vec![
        with_id("file_path", DataType::Utf8, 2_147_483_546),
        with_id("pos", DataType::Int64, 2_147_483_545),
    ]));
    let rows: Vec<(&str, i64)> = deleted
        .iter()
        .flat_map(|(file, positions)| positions.iter().map(|position| (file.file_path(), *position)))
        .collect();
    let paths: StringArray = rows.iter().map(|(path, _)| Some(*path)).collect();
    let positions: Int64Array = rows.iter().map(|(_, position)| Some(*position)).collect();
    let columns: Vec<Arc<dyn Array>> = vec![Arc::new(paths), Arc::new(positions)];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let first = deleted[0].0;
    let path = format!("{}-deletes-{}.parquet", first.file_path(), world.environment.next_id());
    let mut upload = world.catalog.store().create(&path).await.unwrap();
    let size = bytes.len() as u64;
    upload.write(bytes.into()).await.unwrap();
    upload.finish().await.unwrap();
    DataFileBuilder::default()
        .content(DataContentType::PositionDeletes)
        .file_path(path)
        .file_format(DataFileFormat::Parquet)
        .partition(first.partition().clone())
        .partition_spec_id(0)
        .record_count(rows.len() as u64)
        .file_size_in_bytes(size)
        .build()
        .unwrap()
}

pub(crate) fn sorted(parts: impl IntoIterator<Item = Vec<Row>>) -> Vec<Row> {
    let mut rows = parts.into_iter().flatten().collect::<Vec<_>>();
    rows.sort();
    rows
}

pub(crate) fn unnamed(numbers: std::ops::Range<i64>) -> Vec<Row> {
    numbers.map(|n| (n, "a".to_owned(), None)).collect()
}

/// The summary's totals are what a recount gives.
pub(crate) async fn assert_totals(world: &World) {
    let table = world.load().await;
    let summary = &table.metadata().current_snapshot().unwrap().summary().additional_properties;
    let live = world.live().await;
    let (mut data, mut deletes, mut records, mut bytes, mut positions) = (0, 0, 0, 0, 0);
    for entry in &live {
        bytes += entry.file_size_in_bytes();
        match entry.content_type() {
            DataContentType::Data => (data, records) = (data + 1, records + entry.record_count()),
            _ => (deletes, positions) = (deletes + 1, positions + entry.record_count()),
        }
    }
    let expected = [
        ("total-data-files", data),
        ("total-delete-files", deletes),
        ("total-records", records),
        ("total-files-size", bytes),
        ("total-position-deletes", positions),
        ("total-equality-deletes", 0),
    ];
    for (name, value) in expected {
        assert_eq!(summary[name], value.to_string(), "{name}");
    }
    assert_eq!(records - positions, world.rows().await.len() as u64);
}

#[tokio::test]
async fn rows_without_a_batch_id_survive_a_rewrite() {
    let world = World::new().await;
    let mixed = world.file(&sorted([rows("a", 0..2), rows("b", 2..4), unnamed(4..6)])).await;
    world.stock_append(vec![mixed]).await;
    let mut batch = world.batch("a", 10..12).await;
    batch.force = true;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 2, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, sorted([rows("a", 10..12), rows("b", 2..4), unnamed(4..6)]));
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_rewritten_file_keeps_order_partition_and_bounds() {
    let world = World::partitioned().await;
    let mixed = sorted([rows_in("x", "a", 0..2), rows_in("x", "b", 2..6), rows_in("x", "c", 6..9)]);
    let file = world.file_in_groups(&mixed, 2).await;
    let partition = file.partition().clone();
    world.stock_append(vec![file]).await;
    committed(&world.commit(&world.batch_of("b", Vec::new()).await).await.unwrap());
    let live = world.live().await;
    assert_eq!(live.len(), 1);
    let kept = live[0].data_file();
    assert_eq!(kept.partition(), &partition);
    assert_eq!((kept.record_count(), kept.sort_order_id()), (5, Some(0)));
    assert_eq!((&kept.lower_bounds()[&1], &kept.upper_bounds()[&1]), (&Datum::long(0), &Datum::long(8)));
    let ids = [id("a").to_string(), id("c").to_string()];
    assert_eq!(kept.lower_bounds()[&3], Datum::string(ids.iter().min().unwrap()));
    assert_eq!(kept.upper_bounds()[&3], Datum::string(ids.iter().max().unwrap()));
    assert_eq!(world.rows().await, sorted([rows_in("x", "a", 0..2), rows_in("x", "c", 6..9)]));
    let table = world.load().await;
    let scan = table.scan().select_all().build().unwrap().to_arrow().await.unwrap();
    let batches: Vec<RecordBatch> = futures::TryStreamExt::try_collect(scan).await.unwrap();
    let numbers: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(batch.column(0)).values().to_vec()
        })
        .collect();
    assert_eq!(numbers, [0, 1, 6, 7, 8], "rows of a file keep their order");
}

#[tokio::test]
async fn a_file_of_one_batch_is_replaced_whatever_was_deleted_from_it() {
    let world = World::new().await;
    let (ours, other) = (world.file(&rows("a", 0..3)).await, world.file(&rows("b", 3..6)).await);
    world.stock_append(vec![ours.clone(), other.clone()]).await;
    let deletes = vec![position_delete(&world, &ours, &[0]).await, position_delete(&world, &other, &[0]).await];
    foreign_snapshot(&world, Foreign { keep: true, deletes, ..Foreign::default() }).await;
    committed(&world.commit(&world.batch("a", 10..12).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows("a", 10..12), rows("b", 4..6)]), "deletes of others still count");
    for (manifest, entries) in world.manifests().await {
        let of_data = |kind| kind == DataContentType::Data;
        let expected = manifest.content == ManifestContentType::Data;
        assert!(entries.iter().all(|entry| of_data(entry.content_type()) == expected), "one kind in a manifest");
    }
}

#[tokio::test]
async fn a_manifest_that_was_emptied_does_not_come_back() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    for round in 1..=5 {
        let mut batch = world.batch("one", round * 10..round * 10 + 3).await;
        batch.force = true;
        committed(&world.commit(&batch).await.unwrap());
        let stock = world.file(&rows("stock", round * 100..round * 100 + 2)).await;
        world.stock_append(vec![stock]).await;
        let mut expected = rows("one", round * 10..round * 10 + 3);
        expected.extend((1..=round).flat_map(|round| rows("stock", round * 100..round * 100 + 2)));
        assert_eq!(world.rows().await, sorted([expected]), "round {round}");
        let live = world.live().await;
        let paths: std::collections::HashSet<&str> = live.iter().map(|entry| entry.file_path()).collect();
        assert_eq!(paths.len(), live.len(), "a path is live twice");
    }
}

#[tokio::test]
async fn summary_totals_equal_a_recount_after_every_commit() {
    let world = World::new().await;
    // A fixed sequence of everything that can happen to a table, in an order that no one chose.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut next = 0;
    for _ in 0..40 {
        let name = format!("batch {}", draw(6));
        let count = i64::try_from(draw(4)).unwrap();
        next += 10;
        match draw(4) {
            0 => {
                let other = format!("batch {}", draw(6));
                let mixed = world.file(&sorted([rows(&name, next..next + 2), rows(&other, next + 2..next + 4)])).await;
                world.stock_append(vec![mixed]).await;
                continue;
            }
            1 => committed(&{
                let mut empty = world.batch_of(&name, Vec::new()).await;
                empty.force = true;
                world.commit(&empty).await.unwrap()
            }),
            _ => committed(&{
                let mut files = Vec::new();
                for n in 0..=count {
                    files.push(world.file(&rows(&name, next + n..next + n + 1)).await);
                }
                let mut batch = world.batch_of(&name, files).await;
                batch.force = true;
                let outcome = world.commit(&batch).await.unwrap();
                let there = world.rows().await.into_iter().filter(|row| row.2 == rows(&name, 0..1)[0].2).count();
                assert_eq!(i64::try_from(there).unwrap(), count + 1);
                outcome
            }),
        };
        assert_totals(&world).await;
    }
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn bounds_span_all_row_groups() {
    let world = World::new().await;
    let unsorted: Vec<Row> = [5, 9, 1, 7, 3].into_iter().flat_map(|n| rows(&format!("batch {n}"), n..n + 1)).collect();
    let file = world.file_in_groups(&unsorted, 2).await;
    assert_eq!(file.split_offsets().map(<[i64]>::len), Some(3));
    assert_eq!((&file.lower_bounds()[&1], &file.upper_bounds()[&1]), (&Datum::long(1), &Datum::long(9)));
    let ids = unsorted.iter().filter_map(|row| row.2.as_deref());
    assert_eq!(file.lower_bounds()[&3], Datum::string(ids.clone().min().unwrap()));
    assert_eq!(file.upper_bounds()[&3], Datum::string(ids.max().unwrap()));
    assert_eq!(file.null_value_counts()[&3], 0);
    world.stock_append(vec![file]).await;
    // The batch is in the middle row group alone, and inside the bounds.
    committed(&world.commit(&world.batch_of("batch 1", Vec::new()).await).await.unwrap());
    let mut left = unsorted;
    left.retain(|row| row.0 != 1);
    assert_eq!(world.rows().await, sorted([left]));
}

/// Two ids with the same first sixteen characters, which is where other engines cut.
#[rstest]
#[case::cut("truncate(16)")]
#[case::counted_only("counts")]
#[case::not_even_counted("none")]
#[case::whole("full")]
#[tokio::test]
async fn bounds_that_are_cut_or_missing_never_prove_a_match(#[case] mode: &str) {
    let properties = vec![("write.metadata.metrics.column.ingest_batch_id", mode.to_owned())];
    let world = World::make(Made { properties, ..Made::default() }).await;
    let twins: [BatchId; 2] =
        ["0123456789abcdef0000000000000000", "0123456789abcdefffffffffffffffff"].map(|id| id.parse().unwrap());
    let rows_of = |twin: usize, numbers: std::ops::Range<i64>| -> Vec<Row> {
        numbers.map(|n| (n, "a".to_owned(), Some(twins[twin].to_string()))).collect()
    };
    for (twin, (id, start)) in twins.iter().zip([0, 10]).enumerate() {
        let file = world.file(&rows_of(twin, start..start + 3)).await;
        if mode == "truncate(16)" {
            let bound = |datum: &Datum| match datum.literal() {
                PrimitiveLiteral::String(text) => text.chars().count(),
                _ => 0,
            };
            assert_eq!((bound(&file.lower_bounds()[&3]), bound(&file.upper_bounds()[&3])), (16, 16));
        }
        let mut batch = world.batch_of("twin", vec![file]).await;
        batch.batch_id = id.clone();
        committed(&world.commit(&batch).await.unwrap());
    }
    let replacement = world.file(&rows_of(0, 20..22)).await;
    let mut batch = world.batch_of("twin", vec![replacement]).await;
    batch.batch_id = twins[0].clone();
    batch.force = true;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, sorted([rows_of(1, 10..13), rows_of(0, 20..22)]));
}

#[tokio::test]
async fn a_batch_replayed_after_compaction_replaces_exactly_its_rows() {
    let world = World::new().await;
    for (name, start) in [("one", 0), ("two", 3), ("three", 6)] {
        world.ingest(name, start..start + 3).await;
    }
    compact(&world, vec![world.file(&world.rows().await).await]).await;
    let mut batch = world.batch("two", 30..32).await;
    batch.force = true;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, sorted([rows("one", 0..3), rows("three", 6..9), rows("two", 30..32)]));
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_batch_is_replaced_in_every_partition_and_may_move() {
    let world = World::partitioned().await;
    let mut files = Vec::new();
    for category in ["x", "y", "z"] {
        files.push(world.file(&rows_in(category, "one", 0..3)).await);
    }
    committed(&world.commit(&world.batch_of("one", files).await).await.unwrap());
    let other = world.file(&rows_in("y", "other", 5..6)).await;
    committed(&world.commit(&world.batch_of("other", vec![other]).await).await.unwrap());
    let moved = world.file(&rows_in("w", "one", 7..8)).await;
    let mut batch = world.batch_of("one", vec![moved]).await;
    batch.force = true;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 9, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, sorted([rows_in("w", "one", 7..8), rows_in("y", "other", 5..6)]));
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_replay_without_rows_removes_the_earlier_ones_and_is_recorded() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    let mut empty = world.batch_of("one", Vec::new()).await;
    empty.force = true;
    let outcome = world.commit(&empty).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, rows("two", 3..6));
    assert_eq!(world.ledger().await.last(), Some(&id("one").to_string()));
    assert!(world.live().await.iter().all(|entry| entry.record_count() > 0));
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_first_batch_without_rows_is_recorded() {
    let world = World::new().await;
    committed(&world.commit(&world.batch_of("one", Vec::new()).await).await.unwrap());
    assert_eq!((world.rows().await, world.ledger().await), (Vec::new(), vec![id("one").to_string()]));
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_removed_file_is_recorded_as_deleted_in_the_snapshot_that_removed_it() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    let file = world.live().await[0].file_path().to_owned();
    let mut batch = world.batch("one", 5..8).await;
    batch.force = true;
    let second = committed(&world.commit(&batch).await.unwrap());
    let entries: Vec<_> = world.manifests().await.into_iter().flat_map(|(_, entries)| entries).collect();
    let deleted: Vec<_> = entries.iter().filter(|entry| entry.status() == ManifestStatus::Deleted).collect();
    assert_eq!(deleted.len(), 1);
    assert_eq!((deleted[0].file_path(), deleted[0].snapshot_id()), (file.as_str(), Some(second)));
    assert_eq!(deleted[0].sequence_number(), Some(1), "as it was in snapshot {first}");
    // Another commit carries the record of the removal no further.
    world.ingest("two", 10..13).await;
    let statuses: Vec<_> = world.manifests().await.into_iter().flat_map(|(_, entries)| entries).collect();
    assert!(statuses.iter().all(|entry| entry.is_alive()));
}
