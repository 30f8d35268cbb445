//! The ledger is a shortcut: it may be short, lost or undone, and no row depends on it.

use hexfloe_batch::{CellDerivation, CellType, DerivationRecord, GeometryRule, Resolution, Sha256Hex};
use hexfloe_commit::{
    BatchCommit, BatchOutcome, Committer, Derivation, Error, ErrorKind, Keys, LedgerBounds, OnChangedInput, Replaces,
    RollBackTo, names,
};
use rstest::rstest;

use crate::faults::{self, Fault, faulty_disk, rival};
use crate::overwriting::assert_totals;
use crate::world::{Made, Row, World, committed, id, is_skipped, rows};

#[tokio::test]
async fn batches_out_of_order_complete_each_once() {
    let world = World::new().await;
    let mut skipped = 0;
    for n in [3, 1, 2, 1, 3] {
        let batch = world.batch(&format!("batch {n}"), n * 10..n * 10 + 3).await;
        skipped += usize::from(is_skipped(&world.commit(&batch).await.unwrap()));
    }
    assert_eq!((skipped, world.snapshots().await, world.rows().await.len()), (2, 3, 9));
    assert_eq!(world.ledger().await, [3, 1, 2].map(|n| id(&format!("batch {n}")).to_string()));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn expired_snapshots_are_no_reason_to_do_it_again() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    world.expire().await;
    let batch = world.batch("one", 0..3).await;
    assert_eq!(world.commit(&batch).await.unwrap(), BatchOutcome::Skipped { snapshot_id: None });
}

#[tokio::test]
async fn another_writers_snapshot_and_expiry_are_no_reason_to_do_it_again() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    let file = world.file(&rows("stock", 10..12)).await;
    world.stock_append(vec![file]).await;
    world.expire().await;
    let batch = world.batch("one", 0..3).await;
    assert!(is_skipped(&world.commit(&batch).await.unwrap()));
}

/// Four batches, of which the ledger keeps two.
async fn world_with_a_short_ledger() -> (World, Committer) {
    let world = World::new().await;
    let committer = world.committer().with_ledger_bounds(LedgerBounds { max_ids: 2, max_bytes: 4_000 });
    for n in 0..4 {
        let batch = world.batch(&format!("batch {n}"), n * 3..n * 3 + 3).await;
        committed(&committer.commit(&batch).await.unwrap());
    }
    assert_eq!(world.ledger().await, [2, 3].map(|n| id(&format!("batch {n}")).to_string()));
    (world, committer)
}

fn four_batches() -> Vec<Row> {
    (0..4).flat_map(|n| rows(&format!("batch {n}"), n * 3..n * 3 + 3)).collect()
}

#[tokio::test]
async fn a_batch_that_fell_out_of_the_ledger_is_known_by_the_snapshot_that_holds_it() {
    let (world, committer) = world_with_a_short_ledger().await;
    let again = world.batch("batch 0", 0..3).await;
    let before = (world.snapshots().await, world.ledger().await);
    assert!(is_skipped(&committer.commit(&again).await.unwrap()));
    assert_eq!((world.snapshots().await, world.ledger().await), before);
    assert_eq!(world.rows().await, four_batches());
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_batch_that_fell_out_of_the_ledger_and_whose_snapshot_expired_is_replaced_by_itself() {
    let (world, committer) = world_with_a_short_ledger().await;
    world.expire().await;
    let again = world.batch("batch 0", 0..3).await;
    let outcome = committer.commit(&again).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert_eq!(world.snapshots().await, 2, "the one that was left, and one more");
    assert_eq!(world.rows().await, four_batches());
}

/// The same batch with other rows and another digest of its input.
async fn changed(world: &World, on_changed_input: OnChangedInput, force: bool) -> BatchCommit {
    let mut batch = world.batch("one", 5..9).await;
    batch.content_sha256 = Sha256Hex::of("changed");
    BatchCommit { on_changed_input, force, ..batch }
}

#[rstest]
#[case::asked_plainly(false, false)]
#[case::forced(true, false)]
#[case::fallen_out_of_the_ledger(false, true)]
#[tokio::test]
async fn a_batch_id_with_another_input_is_refused(#[case] force: bool, #[case] evicted: bool) {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    if evicted {
        world.set_property("ingest.completed_batches", "[]").await;
    }
    let batch = changed(&world, OnChangedInput::Refuse, force).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let message = error.to_string();
    assert!(message.contains(id("one").as_str()) && message.contains("on_changed_input"), "{message}");
    assert_eq!(world.rows().await, rows("one", 0..3));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_changed_input_replaces_the_old_one_where_that_is_allowed_and_is_then_known() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    let outcome = world.commit(&changed(&world, OnChangedInput::Replace, false).await).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert!(is_skipped(&world.commit(&changed(&world, OnChangedInput::Replace, false).await).await.unwrap()));
    assert_eq!(world.rows().await, rows("one", 5..9));
    assert_eq!(world.ledger().await, [id("one").to_string()], "an id is listed once");
}

#[tokio::test]
async fn without_a_retained_summary_nothing_is_said_about_the_input() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    world.ingest("two", 10..13).await;
    world.expire().await;
    assert!(is_skipped(&world.commit(&changed(&world, OnChangedInput::Refuse, false).await).await.unwrap()));
    assert!(is_skipped(&world.commit(&changed(&world, OnChangedInput::Replace, false).await).await.unwrap()));
    // A slice is written again, to be sure: its input may change by design.
    let slice: std::sync::Arc<dyn arrow::array::Array> =
        std::sync::Arc::new(arrow::array::StringArray::from(vec![id("one").as_str()]));
    let slice = arrow::array::RecordBatch::try_from_iter([("ingest_batch_id", slice)]).unwrap();
    let replaces = Replaces::Slice(Keys(slice));
    let batch = BatchCommit { replaces, ..changed(&world, OnChangedInput::Replace, false).await };
    committed(&world.commit(&batch).await.unwrap());
    assert_eq!(world.rows().await, [rows("one", 5..9), rows("two", 10..13)].concat());
}

#[tokio::test]
async fn the_property_obeys_its_bound_in_bytes() {
    let world = World::new().await;
    let committer = world.committer().with_ledger_bounds(LedgerBounds { max_ids: 500, max_bytes: 200 });
    for n in 0..8 {
        let batch = world.batch_of(&format!("batch {n}"), Vec::new()).await;
        committed(&committer.commit(&batch).await.unwrap());
        let property = world.load().await.metadata().properties()[names::COMPLETED_BATCHES].clone();
        assert!(property.len() <= 200, "{property}");
    }
    // Each id takes 35 bytes with quotes and comma.
    assert_eq!(world.ledger().await, (3..8).map(|n| id(&format!("batch {n}")).to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_ledger_of_the_same_format_by_another_writer_counts() {
    let world = World::new().await;
    let file = world.file(&rows("one", 0..3)).await;
    world.stock_append(vec![file]).await;
    world.set_property(names::COMPLETED_BATCHES, &format!(r#"["{}"]"#, id("one"))).await;
    let batch = world.batch("one", 0..3).await;
    assert!(is_skipped(&world.commit(&batch).await.unwrap()));
}

/// Another writer that keeps the list, and says nothing else: it appends rows and adds their batch.
async fn listed_by_another(world: &World, name: &str, numbers: std::ops::Range<i64>) {
    let file = world.file(&rows(name, numbers)).await;
    world.stock_append(vec![file]).await;
    let listed: Vec<String> = world.ledger().await.into_iter().chain([id(name).to_string()]).collect();
    let listed = format!("[\"{}\"]", listed.join("\",\""));
    world.set_property(names::COMPLETED_BATCHES, &listed).await;
}

#[tokio::test]
async fn what_another_writer_lists_counts_until_the_table_goes_back() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    listed_by_another(&world, "two", 3..6).await;
    assert!(is_skipped(&world.commit(&world.batch("two", 3..6).await).await.unwrap()));
    world.roll_back(first).await;
    assert!(is_skipped(&world.commit(&world.batch("one", 0..3).await).await.unwrap()));
    committed(&world.commit(&world.batch("two", 3..6).await).await.unwrap());
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
}

#[tokio::test]
async fn our_rollback_keeps_no_batch_of_which_nothing_says_that_it_is_left() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    listed_by_another(&world, "two", 3..6).await;
    world.ingest("three", 6..9).await;
    world.committer().roll_back(&world.table(), &RollBackTo::Snapshot(first)).await.unwrap();
    assert_eq!(world.ledger().await, [id("one").to_string()]);
    committed(&world.commit(&world.batch("two", 3..6).await).await.unwrap());
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
}

#[rstest]
#[case::of_as_many_rows("3")]
#[case::of_other_rows("5")]
#[tokio::test]
async fn a_summary_with_our_keys_by_another_writer_hides_no_rows(#[case] rows_told: &str) {
    let world = World::new().await;
    committed(&world.commit(&world.batch_named_for_itself("one", 0..3).await).await.unwrap());
    let file = world.file(&rows("two", 3..6)).await;
    // As if that writer had copied the properties of the snapshot before.
    let properties = [(names::SUMMARY_BATCH_ID, id("one").to_string()), (names::SUMMARY_ROWS, rows_told.to_owned())];
    world.append_with_summary(vec![file], properties).await;
    let batch = world.batch_named_for_itself("two", 3..6).await;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
}

#[tokio::test]
async fn a_new_batch_in_a_whole_line_of_ours_reads_no_manifest_and_one_with_a_gap_does() {
    let (store, disk) = faulty_disk();
    let world = World::make(Made { store, ..Made::default() }).await;
    for (name, numbers) in [("one", 0..3), ("two", 3..6)] {
        committed(&world.commit(&world.batch_named_for_itself(name, numbers).await).await.unwrap());
    }
    let (three, four) =
        (world.batch_named_for_itself("three", 6..9).await, world.batch_named_for_itself("four", 9..12).await);
    let oldest = world.manifests().await.pop().unwrap().0.manifest_path;
    let oldest: &'static str = String::leak(oldest.rsplit('/').next().unwrap().to_owned());
    disk.fail_reads_of(Some(oldest));
    committed(&world.again().await.commit(&three).await.unwrap());
    // The first snapshot gone, the line does not tell any more.
    world.expire().await;
    assert!(world.again().await.commit(&four).await.is_err());
    disk.fail_reads_of(None);
    committed(&world.again().await.commit(&world.batch_named_for_itself("four", 9..12).await).await.unwrap());
    let expected: Vec<_> = [("one", 0..3), ("two", 3..6), ("three", 6..9), ("four", 9..12)]
        .into_iter()
        .flat_map(|(name, numbers)| rows(name, numbers))
        .collect();
    assert_eq!(world.rows().await, expected);
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_ledger_that_cannot_be_read_costs_nothing_but_work() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    world.set_property(names::COMPLETED_BATCHES, "{broken").await;
    // The snapshots still tell.
    let batch = world.batch("one", 0..3).await;
    assert!(is_skipped(&world.commit(&batch).await.unwrap()));
    world.expire().await;
    let batch = world.batch("one", 0..3).await;
    let outcome = world.commit(&batch).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 3, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
}

#[tokio::test]
async fn a_rollback_undoes_completion() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    world.roll_back(first).await;
    assert_eq!(world.rows().await, rows("one", 0..3));
    assert_eq!(world.ledger().await, [id("one").to_string()]);
    world.ingest("two", 3..6).await;
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
    assert_eq!(world.ledger().await, [id("one").to_string(), id("two").to_string()]);
}

#[tokio::test]
async fn a_rollback_followed_by_expiry_still_undoes_completion() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    world.roll_back(first).await;
    world.expire().await;
    assert_eq!(world.ledger().await, [id("one").to_string()]);
    world.ingest("two", 3..6).await;
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
}

#[tokio::test]
async fn a_rollback_while_we_commit_is_decided_anew() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    world.ingest("two", 3..6).await;
    let elsewhere = world.clone();
    let act = rival(move || {
        let world = elsewhere.clone();
        async move { world.roll_back(first).await }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    late.ingest("three", 6..9).await;
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("three", 6..9)].concat());
    assert_eq!(world.ledger().await, [id("one").to_string(), id("three").to_string()]);
    world.ingest("two", 3..6).await;
}

fn derivation(resolution: u8) -> Derivation {
    let resolution = Resolution::try_from(resolution).unwrap();
    let cells =
        CellDerivation::new("h3_cell".to_owned(), resolution, CellType::Long, Vec::new(), GeometryRule::Point).unwrap();
    Derivation { column: "h3_cell".to_owned(), record: cells.record() }
}

#[tokio::test]
async fn the_first_batch_records_its_derivation_and_later_ones_keep_it() {
    let world = World::new().await;
    let mut batch = world.batch("one", 0..3).await;
    batch.derivation = Some(derivation(9));
    committed(&world.commit(&batch).await.unwrap());
    let property = |table: iceberg::table::Table| table.metadata().properties()["ingest.derivation.h3_cell"].clone();
    let recorded = property(world.load().await);
    assert_eq!(DerivationRecord::from_json(&recorded).unwrap(), derivation(9).record);
    let mut batch = world.batch("two", 3..6).await;
    batch.derivation = Some(derivation(9));
    committed(&world.commit(&batch).await.unwrap());
    assert_eq!(property(world.load().await), recorded);
}

#[tokio::test]
async fn cells_of_another_derivation_are_refused_even_if_a_rival_recorded_them_meanwhile() {
    let world = World::new().await;
    let mut rivals = world.batch("other", 10..13).await;
    rivals.derivation = Some(derivation(7));
    let elsewhere = world.clone();
    let act = rival(move || {
        let (world, batch) = (elsewhere.clone(), rivals.clone());
        async move {
            committed(&world.commit(&batch).await.unwrap());
        }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let mut batch = late.batch("one", 0..3).await;
    batch.derivation = Some(derivation(9));
    let error = late.commit(&batch).await.unwrap_err();
    assert!(matches!(error, Error::Derivation { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Derivation);
    assert_eq!(world.rows().await, rows("other", 10..13));
    world.assert_nothing_left_behind().await;
    // A replay is no exception: the check comes before the ledger's.
    let mut replay = world.batch("other", 10..13).await;
    replay.derivation = Some(derivation(9));
    assert_eq!(world.commit(&replay).await.unwrap_err().kind(), ErrorKind::Derivation);
}

#[tokio::test]
async fn a_derivation_record_that_cannot_be_read_is_named() {
    let world = World::new().await;
    world.set_property("ingest.derivation.h3_cell", "{broken").await;
    let mut batch = world.batch("one", 0..3).await;
    batch.derivation = Some(derivation(9));
    let error = world.commit(&batch).await.unwrap_err();
    assert!(error.to_string().contains("ingest.derivation.h3_cell"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}
