//! What was told of batches: recorded after the telling, one property for each batch, as long as the ledger has it.

use std::collections::BTreeSet;

use hexfloe_batch::Sha256Hex;
use hexfloe_commit::{BatchCommit, Error, ErrorKind, Expiry, LedgerBounds, Notice, OnChangedInput, RollBackTo, names};
use iceberg::{TableRequirement, TableUpdate};
use rstest::rstest;

use crate::faults::{self, Fault, rival};
use crate::world::{World, committed, id};

/// That a batch of the main branch, whose content is called by a name too, is in this snapshot.
async fn notice_of(world: &World, name: &str, content: &str, snapshot_id: Option<i64>) -> Notice {
    Notice {
        table: world.table(),
        uuid: world.load().await.metadata().uuid(),
        branch: BatchCommit::MAIN.to_owned(),
        batch_id: id(name).to_string(),
        content_sha256: Sha256Hex::of(content),
        snapshot_id,
    }
}

/// Lands a batch and says so.
async fn land(world: &World, name: &str) -> Notice {
    let snapshot_id = world.ingest(name, 0..3).await;
    notice_of(world, name, name, Some(snapshot_id)).await
}

async fn record(world: &World, notice: &Notice) {
    world.committer().record_notice(notice).await.unwrap();
}

async fn is_recorded(world: &World, notice: &Notice) -> bool {
    notice.is_recorded_in(world.load().await.metadata())
}

/// The properties that say what was told, without their prefix.
async fn recorded(world: &World) -> BTreeSet<String> {
    let table = world.load().await;
    let properties = table.metadata().properties().keys();
    properties.filter_map(|name| name.strip_prefix(names::NOTIFIED_PREFIX)).map(str::to_owned).collect()
}

fn properties(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| id(name).to_string()).collect()
}

#[tokio::test]
async fn what_was_told_is_recorded_and_neither_snapshots_nor_ledger_change() {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    assert!(!is_recorded(&world, &notice).await);
    let (world, port) = world.through(faults::script([]));
    let before = world.load().await;
    record(&world, &notice).await;
    assert!(is_recorded(&world, &notice).await);

    let after = world.load().await;
    assert_eq!(after.metadata().current_snapshot_id(), before.metadata().current_snapshot_id());
    let mut properties = after.metadata().properties().clone();
    let value = format!("{}@{}", notice.content_sha256, notice.snapshot_id.unwrap());
    assert_eq!(properties.remove(&format!("ingest.notified.{}", id("one"))), Some(value));
    assert_eq!(&properties, before.metadata().properties());
    let requests = port.requests();
    assert!(matches!(requests[0].updates[..], [TableUpdate::SetProperties { .. }]), "{:?}", requests[0].updates);
    assert_eq!(requests[0].requirements, [TableRequirement::UuidMatch { uuid: notice.uuid }]);

    record(&world, &notice).await;
    assert_eq!(port.requests().len(), 1, "what is recorded is not written again");
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_key_is_the_same_for_every_repetition_and_another_for_another_message() {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    let text = format!("{}:main:{}:{}", notice.uuid, id("one"), Sha256Hex::of("one"));
    assert_eq!(notice.key(), Sha256Hex::of(text), "receivers may compute it");
    assert_eq!(Notice { snapshot_id: None, ..notice.clone() }.key(), notice.key());
    let others = [
        Notice { branch: "audit".to_owned(), ..notice.clone() },
        Notice { batch_id: id("two").to_string(), ..notice.clone() },
        Notice { content_sha256: Sha256Hex::of("two"), ..notice.clone() },
        Notice { uuid: uuid::Uuid::from_u128(7), ..notice.clone() },
    ];
    let keys: BTreeSet<Sha256Hex> = others.iter().chain([&notice]).map(Notice::key).collect();
    assert_eq!(keys.len(), 5);
}

#[rstest]
#[case::a_conflict(Fault::Conflict, 2)]
#[case::the_answer_is_lost(Fault::LoseAnswer, 1)]
#[case::a_second_copy_is_refused(Fault::Resend, 1)]
#[case::the_answer_is_an_error(Fault::ApplyAndFail, 1)]
#[case::the_request_vanishes(Fault::Vanish, 2)]
#[tokio::test]
async fn a_record_is_written_once_whatever_becomes_of_the_request(#[case] fault: Fault, #[case] requests: usize) {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    let (world, port) = world.through(faults::script([fault]));
    record(&world, &notice).await;
    assert!(is_recorded(&world, &notice).await);
    assert_eq!(port.requests().len(), requests);
}

#[tokio::test]
async fn a_rivals_batch_and_its_record_stay() {
    let world = World::new().await;
    let (one, two) = (land(&world, "one").await, land(&world, "two").await);
    let elsewhere = world.clone();
    let act = rival(move || {
        let (world, two) = (elsewhere.clone(), two.clone());
        async move {
            record(&world, &two).await;
            world.ingest("three", 6..9).await;
        }
    });
    let (world, port) = world.through(faults::script([Fault::After(act)]));
    record(&world, &one).await;
    assert_eq!(recorded(&world).await, properties(&["one", "two"]));
    assert_eq!(world.ledger().await, ["one", "two", "three"].map(|name| id(name).to_string()));
    assert_eq!(port.requests().len(), 2, "decided again on the table as it is now");
}

#[rstest]
#[case::rivals_always_win(Fault::Conflict, 6)]
#[case::requests_always_vanish(Fault::Vanish, 4)]
#[tokio::test]
async fn what_cannot_be_recorded_is_given_up_after_the_retries_of_the_table(
    #[case] fault: Fault,
    #[case] requests: usize,
) {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    world.set_property("commit.retry.num-retries", "5").await;
    let (unlucky, port) = world.through(faults::always(fault));
    let error = unlucky.committer().record_notice(&notice).await.unwrap_err();
    assert!(matches!(&error, Error::Unrecorded { .. }) && error.kind() == ErrorKind::Conflict, "{error}");
    assert_eq!((port.requests().len(), world.environment.sleeps().len()), (requests, requests - 1));
    assert!(!is_recorded(&world, &notice).await);
    record(&world, &notice).await;
}

#[tokio::test]
async fn a_definite_refusal_is_not_tried_again() {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    let (world, port) = world.through(faults::always(Fault::Refuse));
    assert_eq!(world.committer().record_notice(&notice).await.unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(port.requests().len(), 1);
}

#[tokio::test]
async fn a_table_that_was_made_anew_is_told_nothing_of_the_old_one() {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    let world = world.anew(false, Vec::new()).await;
    let notice = Notice { uuid: uuid::Uuid::from_u128(7), ..notice };
    let error = world.committer().record_notice(&notice).await.unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    assert!(recorded(&world).await.is_empty());
}

#[tokio::test]
async fn what_the_ledger_has_forgotten_is_forgotten() {
    let world = World::new().await;
    let committer = world.committer().with_ledger_bounds(LedgerBounds { max_ids: 2, max_bytes: 1_000 });
    for name in ["one", "two", "three", "four"] {
        let batch = world.batch(name, 0..3).await;
        let snapshot_id = committed(&committer.commit(&batch).await.unwrap());
        record(&world, &notice_of(&world, name, name, Some(snapshot_id)).await).await;
    }
    assert_eq!(recorded(&world).await, properties(&["three", "four"]));
    let forgotten = notice_of(&world, "one", "one", None).await;
    let table = world.load().await;
    assert!(!forgotten.is_in_ledger_of(table.metadata()) && !forgotten.is_recorded_in(table.metadata()));
}

#[tokio::test]
async fn another_content_of_a_batch_was_not_told_and_the_same_forced_was() {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    record(&world, &notice).await;
    let forced = BatchCommit { force: true, ..world.batch("one", 0..3).await };
    let snapshot_id = committed(&world.commit(&forced).await.unwrap());
    assert!(is_recorded(&world, &Notice { snapshot_id: Some(snapshot_id), ..notice.clone() }).await);

    let changed = BatchCommit {
        content_sha256: Sha256Hex::of("changed"),
        on_changed_input: OnChangedInput::Replace,
        ..world.batch("one", 3..6).await
    };
    let snapshot_id = committed(&world.commit(&changed).await.unwrap());
    let changed = notice_of(&world, "one", "changed", Some(snapshot_id)).await;
    assert!(!is_recorded(&world, &changed).await);
    record(&world, &changed).await;
    assert!(is_recorded(&world, &changed).await && !is_recorded(&world, &notice).await);
}

#[tokio::test]
async fn a_batch_that_was_undone_and_came_again_was_not_told() {
    for ours in [true, false] {
        let world = World::new().await;
        let first = world.ingest("first", 3..6).await;
        let notice = land(&world, "one").await;
        record(&world, &notice).await;
        if ours {
            world.committer().roll_back(&world.table(), &RollBackTo::Snapshot(first)).await.unwrap();
            assert!(recorded(&world).await.is_empty(), "the record goes with the batch");
        } else {
            world.roll_back(first).await;
        }
        let again = land(&world, "one").await;
        assert!(!is_recorded(&world, &again).await);
        assert_eq!(again.key(), notice.key(), "it is the same message");
        record(&world, &again).await;
        assert!(is_recorded(&world, &again).await);
    }
}

#[tokio::test]
async fn what_a_rollback_leaves_was_told() {
    let world = World::new().await;
    let one = land(&world, "one").await;
    record(&world, &one).await;
    let two = land(&world, "two").await;
    record(&world, &two).await;
    world.committer().roll_back(&world.table(), &RollBackTo::BeforeBatch(two.batch_id)).await.unwrap();
    assert_eq!(recorded(&world).await, properties(&["one"]));
    assert!(is_recorded(&world, &one).await);
}

#[tokio::test]
async fn what_was_told_outlives_its_snapshot() {
    let world = World::new().await;
    let one = land(&world, "one").await;
    record(&world, &one).await;
    world.ingest("two", 3..6).await;
    world.expire().await;
    assert!(is_recorded(&world, &one).await);
    assert!(is_recorded(&world, &Notice { snapshot_id: None, ..one.clone() }).await);
    record(&world, &land(&world, "three").await).await;
    assert_eq!(recorded(&world).await, properties(&["one", "three"]), "the ledger has it still");
}

#[tokio::test]
async fn each_branch_is_told_for_itself_and_its_records_go_with_it() {
    for publish in [true, false] {
        let world = World::new().await;
        let main = land(&world, "first").await;
        record(&world, &main).await;
        let batch = BatchCommit { branch: "audit.1".to_owned(), ..world.batch("one", 3..6).await };
        let snapshot_id = committed(&world.commit(&batch).await.unwrap());
        let audit = Notice { branch: batch.branch.clone(), ..notice_of(&world, "one", "one", Some(snapshot_id)).await };
        assert!(audit.is_in_ledger_of(world.load().await.metadata()));
        record(&world, &audit).await;
        assert!(is_recorded(&world, &audit).await);
        let of_branch = format!("{}.audit.1", id("one"));
        assert_eq!(recorded(&world).await, BTreeSet::from([id("first").to_string(), of_branch]));
        let on_main = Notice { branch: BatchCommit::MAIN.to_owned(), ..audit.clone() };
        assert!(!is_recorded(&world, &on_main).await);

        if publish {
            world.committer().publish(&world.table(), "audit.1", false).await.unwrap();
        } else {
            world.committer().drop_branch(&world.table(), "audit.1").await.unwrap();
        }
        assert_eq!(recorded(&world).await, properties(&["first"]));
        let table = world.load().await;
        assert!(!audit.is_in_ledger_of(table.metadata()), "there is no such branch");
        assert_eq!(on_main.is_in_ledger_of(table.metadata()), publish);
        assert!(!on_main.is_recorded_in(table.metadata()));
    }
}

#[tokio::test]
async fn the_records_of_a_branch_expire_with_it() {
    let world = World::new().await;
    record(&world, &land(&world, "first").await).await;
    let batch = BatchCommit { branch: "audit".to_owned(), ..world.batch("one", 3..6).await };
    let snapshot_id = committed(&world.commit(&batch).await.unwrap());
    let audit = Notice { branch: batch.branch.clone(), ..notice_of(&world, "one", "one", Some(snapshot_id)).await };
    record(&world, &audit).await;
    let expiry = Expiry { snapshots: vec![snapshot_id], refs: BTreeSet::from(["audit".to_owned()]) };
    assert!(world.committer().expire(&world.load().await, &expiry).await.unwrap());
    assert_eq!(recorded(&world).await, properties(&["first"]));
}

#[rstest]
#[case("")]
#[case("told")]
#[case("0cc175b9@x")]
#[tokio::test]
async fn a_record_that_cannot_be_read_says_nothing(#[case] value: &str) {
    let world = World::new().await;
    let notice = land(&world, "one").await;
    world.set_property(&names::notified(&notice.batch_id, BatchCommit::MAIN), value).await;
    assert!(!is_recorded(&world, &notice).await);
    record(&world, &notice).await;
    assert!(is_recorded(&world, &notice).await);
}
