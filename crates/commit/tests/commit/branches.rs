//! Branches, publishing them, and going back.

use hexfloe_commit::{BatchCommit, Error, ErrorKind, Ledger, Refs, RollBackTo, history_of};
use iceberg::TableUpdate;
use iceberg::spec::{SnapshotReference, SnapshotRetention};

use crate::faults::{self, Fault, rival};
use crate::world::{World, committed, id, is_skipped, rows};

async fn to_branch(world: &World, name: &str, numbers: std::ops::Range<i64>) -> BatchCommit {
    BatchCommit { branch: "audit".to_owned(), ..world.batch(name, numbers).await }
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| id(name).to_string()).collect()
}

#[tokio::test]
async fn a_branch_is_invisible_on_main_until_it_is_published() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    let head = committed(&world.commit(&to_branch(&world, "three", 6..9).await).await.unwrap());
    assert_eq!(world.rows().await, rows("one", 0..3));
    assert_eq!(world.ledger().await, ids(&["one"]));
    let table = world.load().await;
    assert_eq!(Ledger::of_branch(table.metadata(), "audit").ids(), ids(&["one", "two", "three"]));
    assert_eq!(history_of(table.metadata(), "audit").len(), 3);

    let published = world.committer().publish(&world.table(), "audit", false).await.unwrap();
    assert_eq!((published.from, published.to), (Some(first), head));
    assert_eq!(published.batches, ids(&["two", "three"]));
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6), rows("three", 6..9)].concat());
    assert_eq!(world.ledger().await, ids(&["one", "two", "three"]));
    let table = world.load().await;
    assert!(table.metadata().snapshot_for_ref("audit").is_none());
    assert!(!table.metadata().properties().keys().any(|name| name.ends_with(".audit")));
    assert!(is_skipped(&world.commit(&world.batch("three", 6..9).await).await.unwrap()));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_batch_is_known_to_its_branch_alone() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    assert!(is_skipped(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap()));
    assert!(is_skipped(&world.commit(&to_branch(&world, "one", 0..3).await).await.unwrap()), "main had it before");
    committed(&world.commit(&world.batch("two", 3..6).await).await.unwrap());
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
}

#[tokio::test]
async fn a_branch_that_main_has_left_behind_is_not_published() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    world.ingest("three", 6..9).await;
    let error = world.committer().publish(&world.table(), "audit", false).await.unwrap_err();
    assert!(matches!(&error, Error::Ref { .. }) && error.to_string().contains("would lose them"), "{error}");
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("three", 6..9)].concat());
}

#[tokio::test]
async fn a_branch_that_is_kept_goes_on_from_where_it_was_published() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    world.committer().publish(&world.table(), "audit", true).await.unwrap();
    committed(&world.commit(&to_branch(&world, "three", 6..9).await).await.unwrap());
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
    world.committer().publish(&world.table(), "audit", true).await.unwrap();
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6), rows("three", 6..9)].concat());
}

#[tokio::test]
async fn the_first_branch_of_an_empty_table_can_be_published() {
    let world = World::new().await;
    committed(&world.commit(&to_branch(&world, "one", 0..3).await).await.unwrap());
    assert_eq!(world.rows().await, []);
    let published = world.committer().publish(&world.table(), "audit", false).await.unwrap();
    assert_eq!(published.from, None);
    assert_eq!(world.rows().await, rows("one", 0..3));
}

#[tokio::test]
async fn publishing_whose_answer_is_lost_is_found_to_be_done() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    let (lossy, _) = world.through(faults::script([Fault::LoseAnswer]));
    lossy.committer().publish(&world.table(), "audit", false).await.unwrap();
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6)].concat());
}

#[tokio::test]
async fn a_tag_is_no_branch() {
    let world = World::new().await;
    let snapshot = world.ingest("one", 0..3).await;
    let reference = SnapshotReference::new(snapshot, SnapshotRetention::Tag { max_ref_age_ms: None });
    world.update(vec![TableUpdate::SetSnapshotRef { ref_name: "audit".to_owned(), reference }]).await;
    let error = world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap_err();
    assert!(error.to_string().contains("a tag `audit`"), "{error}");
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_branch_that_is_dropped_goes_with_its_ledger_and_main_stays_as_it_was() {
    let world = World::new().await;
    let first = world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    let head = committed(&world.commit(&to_branch(&world, "three", 6..9).await).await.unwrap());
    world.ingest("three", 6..9).await;
    let refs = Refs::of(world.load().await.metadata()).unwrap();
    assert_eq!(refs.branches["audit"], head);
    let main = refs.branches["main"];

    let dropped = world.committer().drop_branch(&world.table(), "audit").await.unwrap();
    assert_eq!((dropped.from, dropped.batches), (head, ids(&["two"])), "what only the branch had");
    let table = world.load().await;
    assert_eq!(Refs::of(table.metadata()).unwrap().branches, [("main".to_owned(), main)].into());
    assert!(!table.metadata().properties().keys().any(|name| name.ends_with(".audit")));
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("three", 6..9)].concat());
    assert_eq!(world.ledger().await, ids(&["one", "three"]));

    // A branch of the name begins anew.
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    world.committer().publish(&world.table(), "audit", false).await.unwrap();
    assert_eq!(world.rows().await, [rows("one", 0..3), rows("two", 3..6), rows("three", 6..9)].concat());
    assert_ne!(first, main);
}

#[tokio::test]
async fn the_only_branch_of_a_table_can_be_dropped() {
    let world = World::new().await;
    committed(&world.commit(&to_branch(&world, "one", 0..3).await).await.unwrap());
    let dropped = world.committer().drop_branch(&world.table(), "audit").await.unwrap();
    assert_eq!(dropped.batches, ids(&["one"]));
    committed(&world.commit(&world.batch("one", 0..3).await).await.unwrap());
    assert_eq!(world.rows().await, rows("one", 0..3));
}

#[tokio::test]
async fn main_tags_and_what_is_not_there_are_not_dropped() {
    let world = World::new().await;
    let snapshot = world.ingest("one", 0..3).await;
    let reference = SnapshotReference::new(snapshot, SnapshotRetention::Tag { max_ref_age_ms: None });
    world.update(vec![TableUpdate::SetSnapshotRef { ref_name: "v1".to_owned(), reference }]).await;
    let before = world.load().await.metadata_location().unwrap().to_owned();
    for (name, message) in [("main", "is not dropped"), ("v1", "a tag `v1`"), ("none", "no branch `none`")] {
        let error = world.committer().drop_branch(&world.table(), name).await.unwrap_err();
        assert_eq!(error.kind(), hexfloe_commit::ErrorKind::Configuration);
        assert!(error.to_string().contains(message), "{error}");
    }
    let table = world.load().await;
    assert_eq!(table.metadata_location(), Some(before.as_str()));
    assert_eq!(Refs::of(table.metadata()).unwrap().tags, [("v1".to_owned(), snapshot)].into());
}

#[tokio::test]
async fn dropping_whose_answer_is_lost_is_found_to_be_done() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    let (lossy, _) = world.through(faults::script([Fault::LoseAnswer]));
    lossy.committer().drop_branch(&world.table(), "audit").await.unwrap();
    assert!(world.load().await.metadata().snapshot_for_ref("audit").is_none());
}

#[tokio::test]
async fn a_branch_that_gets_a_batch_meanwhile_is_not_dropped() {
    let world = World::new().await;
    world.ingest("one", 0..3).await;
    committed(&world.commit(&to_branch(&world, "two", 3..6).await).await.unwrap());
    let (elsewhere, theirs) = (world.clone(), to_branch(&world, "three", 6..9).await);
    let act = rival(move || {
        let (world, batch) = (elsewhere.clone(), theirs.clone());
        async move {
            committed(&world.commit(&batch).await.unwrap());
        }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let error = late.committer().drop_branch(&world.table(), "audit").await.unwrap_err();
    assert!(error.to_string().contains("changed meanwhile"), "{error}");
    assert_eq!(history_of(world.load().await.metadata(), "audit").len(), 3);
}

#[tokio::test]
async fn what_was_rolled_back_is_ingested_again_and_nothing_else() {
    let world = World::new().await;
    let a = world.ingest("a", 0..3).await;
    world.ingest("b", 3..6).await;
    let c = world.ingest("c", 6..9).await;
    let back = world.committer().roll_back(&world.table(), &RollBackTo::Snapshot(a)).await.unwrap();
    assert_eq!((back.from, back.to, back.undone), (c, a, ids(&["b", "c"])));
    assert_eq!(world.rows().await, rows("a", 0..3));
    assert_eq!(world.ledger().await, ids(&["a"]));
    assert!(is_skipped(&world.commit(&world.batch("a", 0..3).await).await.unwrap()));
    for (name, numbers) in [("b", 3..6), ("c", 6..9)] {
        committed(&world.commit(&world.batch(name, numbers).await).await.unwrap());
    }
    assert_eq!(world.rows().await, [rows("a", 0..3), rows("b", 3..6), rows("c", 6..9)].concat());
    assert_eq!(world.ledger().await, ids(&["a", "b", "c"]));
}

#[tokio::test]
async fn a_rollback_to_before_a_batch_keeps_what_the_ledger_knows_of_older_ones() {
    let world = World::new().await;
    world.ingest("a", 0..3).await;
    world.ingest("b", 3..6).await;
    // Of batch a only the ledger is left.
    world.expire().await;
    world.ingest("c", 6..9).await;
    let back =
        world.committer().roll_back(&world.table(), &RollBackTo::BeforeBatch(id("c").to_string())).await.unwrap();
    assert_eq!(back.undone, ids(&["c"]));
    assert_eq!(world.ledger().await, ids(&["a", "b"]));
    assert_eq!(world.rows().await, [rows("a", 0..3), rows("b", 3..6)].concat());
}

#[tokio::test]
async fn a_rollback_goes_to_ancestors_only() {
    let world = World::new().await;
    let a = world.ingest("a", 0..3).await;
    let b = world.ingest("b", 3..6).await;
    let committer = world.committer();
    committer.roll_back(&world.table(), &RollBackTo::Snapshot(a)).await.unwrap();
    let before = world.load().await.metadata_location().unwrap().to_owned();
    let targets = [
        (RollBackTo::Snapshot(b), "not a retained ancestor"),
        (RollBackTo::Snapshot(7), "not a retained ancestor"),
        (RollBackTo::BeforeBatch(id("b").to_string()), "no retained snapshot of main holds batch"),
        (RollBackTo::BeforeBatch(id("a").to_string()), "none before it"),
    ];
    for (target, message) in targets {
        let error = committer.roll_back(&world.table(), &target).await.unwrap_err();
        assert!(matches!(&error, Error::Ref { .. }) && error.to_string().contains(message), "{error}");
    }
    assert_eq!(world.load().await.metadata_location(), Some(before.as_str()));
}

#[tokio::test]
async fn a_rollback_does_not_undo_what_a_rival_commits_meanwhile() {
    let world = World::new().await;
    let a = world.ingest("a", 0..3).await;
    world.ingest("b", 3..6).await;
    let (elsewhere, theirs) = (world.clone(), world.batch("c", 6..9).await);
    let act = rival(move || {
        let (world, batch) = (elsewhere.clone(), theirs.clone());
        async move {
            committed(&world.commit(&batch).await.unwrap());
        }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let error = late.committer().roll_back(&world.table(), &RollBackTo::Snapshot(a)).await.unwrap_err();
    assert!(error.to_string().contains("changed meanwhile"), "{error}");
    assert_eq!(world.rows().await, [rows("a", 0..3), rows("b", 3..6), rows("c", 6..9)].concat());
}

#[tokio::test]
async fn a_rollback_that_vanished_is_not_said_to_have_failed() {
    let world = World::new().await;
    let a = world.ingest("a", 0..3).await;
    world.ingest("b", 3..6).await;
    let (lossy, _) = world.through(faults::script([Fault::Vanish]));
    let error = lossy.committer().roll_back(&world.table(), &RollBackTo::Snapshot(a)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "it may still arrive: {error}");
}
