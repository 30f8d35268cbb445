//! Several batches in one commit, each keeping its identity.

use hexfloe_commit::{BatchCommit, BatchOutcome, Error, history};
use rstest::rstest;

use crate::faults::{self, Fault, rival};
use crate::world::{World, committed, id, is_skipped, rows};

async fn group(world: &World, names: &[&str]) -> Vec<BatchCommit> {
    let mut batches = Vec::new();
    for name in names {
        batches.push(world.batch(name, numbers(name)).await);
    }
    batches
}

/// Three numbers for each letter.
fn numbers(name: &str) -> std::ops::Range<i64> {
    let letter = i64::from(name.as_bytes()[0] - b'a');
    letter * 3..letter * 3 + 3
}

fn all(names: &[&str]) -> Vec<crate::world::Row> {
    names.iter().flat_map(|name| rows(name, numbers(name))).collect()
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| id(name).to_string()).collect()
}

#[tokio::test]
async fn a_group_is_one_snapshot_and_every_batch_is_known_by_its_id() {
    let world = World::new().await;
    let outcomes = world.committer().commit_all(&group(&world, &["a", "b", "c"]).await).await.unwrap();
    let snapshots: Vec<i64> = outcomes.iter().map(committed).collect();
    assert_eq!(snapshots, [snapshots[0]; 3]);
    assert_eq!(world.snapshots().await, 1);
    assert_eq!(world.ledger().await, ids(&["a", "b", "c"]));
    assert_eq!(world.rows().await, all(&["a", "b", "c"]));
    let table = world.load().await;
    let told: Vec<_> = history(table.metadata())
        .into_iter()
        .map(|record| (record.batch_id, record.snapshot.and_then(|snapshot| snapshot.rows)))
        .collect();
    assert_eq!(told, ids(&["a", "b", "c"]).into_iter().map(|id| (id, Some(3))).collect::<Vec<_>>());
    // Each by itself is known, by the ledger and by the summary.
    assert!(is_skipped(&world.commit(&world.batch("b", 0..1).await).await.unwrap()));
    world.set_property("ingest.completed_batches", "[]").await;
    let mut again = world.batch("b", numbers("b")).await;
    again.content_sha256 = hexfloe_batch::Sha256Hex::of("b");
    assert!(is_skipped(&world.commit(&again).await.unwrap()));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn of_a_group_only_what_is_missing_is_committed() {
    let world = World::new().await;
    world.ingest("b", numbers("b")).await;
    let outcomes = world.committer().commit_all(&group(&world, &["a", "b", "c"]).await).await.unwrap();
    assert_eq!(outcomes.iter().map(is_skipped).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(world.snapshots().await, 2);
    assert_eq!(world.rows().await, all(&["a", "b", "c"]));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_group_whose_batch_a_rival_commits_meanwhile_commits_the_rest() {
    let world = World::new().await;
    let (elsewhere, theirs) = (world.clone(), world.batch("b", numbers("b")).await);
    let act = rival(move || {
        let (world, batch) = (elsewhere.clone(), theirs.clone());
        async move {
            let _ = world.commit(&batch).await.unwrap();
        }
    });
    let (late, port) = world.through(faults::script([Fault::After(act)]));
    let outcomes = late.committer().commit_all(&group(&late, &["a", "b", "c"]).await).await.unwrap();
    assert_eq!(outcomes.iter().map(is_skipped).collect::<Vec<_>>(), [false, true, false]);
    assert!(matches!(outcomes[0], BatchOutcome::Committed { attempts: 2, .. }), "{outcomes:?}");
    assert_eq!(port.requests().len(), 2);
    assert_eq!(world.rows().await, all(&["a", "b", "c"]));
    assert_eq!(world.ledger().await, ids(&["b", "a", "c"]));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_group_that_is_done_already_changes_nothing() {
    let world = World::new().await;
    let committer = world.committer();
    let _ = committer.commit_all(&group(&world, &["a", "b"]).await).await.unwrap();
    let before = world.load().await.metadata_location().unwrap().to_owned();
    let outcomes = committer.commit_all(&group(&world, &["a", "b"]).await).await.unwrap();
    assert!(outcomes.iter().all(is_skipped), "{outcomes:?}");
    assert_eq!(world.load().await.metadata_location(), Some(before.as_str()));
    world.assert_nothing_left_behind().await;
}

#[rstest]
#[case::lost(Fault::LoseAnswer)]
#[case::sent_twice(Fault::Resend)]
#[case::an_error(Fault::ApplyAndFail)]
#[tokio::test]
async fn a_group_whose_answer_is_lost_is_found(#[case] fault: Fault) {
    let world = World::new().await;
    let (lossy, _) = world.through(faults::script([fault]));
    let outcomes = lossy.committer().commit_all(&group(&lossy, &["a", "b"]).await).await.unwrap();
    assert!(outcomes.iter().all(|outcome| !is_skipped(outcome)), "{outcomes:?}");
    assert_eq!(world.snapshots().await, 1);
    assert_eq!(world.rows().await, all(&["a", "b"]));
    world.assert_nothing_left_behind().await;
}

#[tokio::test]
async fn a_forced_group_replaces_each_of_its_batches() {
    let world = World::new().await;
    let committer = world.committer();
    let _ = committer.commit_all(&group(&world, &["a", "b", "c"]).await).await.unwrap();
    let mut forced = group(&world, &["a", "c"]).await;
    forced.iter_mut().for_each(|batch| batch.force = true);
    let outcomes = committer.commit_all(&forced).await.unwrap();
    assert!(matches!(outcomes[0], BatchOutcome::Committed { replaced_rows: 6, .. }), "{outcomes:?}");
    assert_eq!(world.rows().await, all(&["a", "b", "c"]));
    assert_eq!(world.ledger().await, ids(&["b", "a", "c"]), "no id twice");
}

#[tokio::test]
async fn batches_that_do_not_go_together_are_refused() {
    let world = World::new().await;
    let twice = group(&world, &["a", "a"]).await;
    let mut branches = group(&world, &["a", "b"]).await;
    branches[1].branch = "audit".to_owned();
    for (batches, message) in [(twice, "named twice"), (branches, "another table, branch or schema")] {
        let error = world.committer().commit_all(&batches).await.unwrap_err();
        assert!(matches!(&error, Error::Inconsistent { .. }) && error.to_string().contains(message), "{error}");
    }
    assert_eq!(world.snapshots().await, 0);
    world.assert_nothing_left_behind().await;
}
