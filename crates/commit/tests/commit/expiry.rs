//! Which snapshots expire, and what of a table outlives them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hexfloe_commit::{BatchCommit, Environment, Error, ErrorKind, Expiry, Refs, Retention, RollBackTo, names};
use iceberg::TableUpdate;
use iceberg::spec::{
    MAIN_BRANCH, PartitionStatisticsFile, SnapshotReference, SnapshotRetention, StatisticsFile, TableMetadata,
};
use rstest::rstest;

use crate::faults::{self, Fault, rival};
use crate::world::{World, committed, is_skipped, rows};

/// Snapshots are dated so far apart here. Iceberg refuses dates that are more than a minute before others, and updates without
/// a snapshot are dated by the real clock.
const SECOND: Duration = Duration::from_secs(1);

/// Batches a second apart, each in its snapshot; gives these, oldest first. The clock is at the newest.
async fn apart(world: &World, names: &[&str]) -> Vec<i64> {
    let mut snapshots = Vec::new();
    for (number, name) in (0..).zip(names) {
        if number > 0 {
            world.environment.advance(SECOND);
        }
        snapshots.push(world.ingest(name, number * 3..number * 3 + 3).await);
    }
    snapshots
}

/// A world whose clock is ahead of the real one while a test lasts, so that it alone dates snapshots.
async fn world() -> World {
    let world = World::new().await;
    let made = world.load().await.metadata().last_updated_ms();
    world.environment.set_now_ms(made + 20_000);
    world
}

async fn expiry(world: &World, retention: Retention) -> Expiry {
    Expiry::of(&world.load().await, &retention, now(world)).unwrap()
}

fn now(world: &World) -> i64 {
    world.environment.now_ms()
}

/// All but the heads of refs.
const NOTHING_KEPT: Retention = Retention { older_than: Some(Duration::ZERO), retain_last: Some(1) };

async fn expire(world: &World, retention: Retention) -> Expiry {
    let base = world.load().await;
    let expiry = expiry(world, retention).await;
    assert!(world.committer().expire(&base, &expiry).await.unwrap());
    expiry
}

fn snapshots(metadata: &TableMetadata) -> BTreeSet<i64> {
    metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).collect()
}

async fn set_ref(world: &World, name: &str, snapshot_id: i64, retention: SnapshotRetention) {
    let reference = SnapshotReference::new(snapshot_id, retention);
    world.update(vec![TableUpdate::SetSnapshotRef { ref_name: name.to_owned(), reference }]).await;
}

fn tag(max_ref_age_ms: Option<i64>) -> SnapshotRetention {
    SnapshotRetention::Tag { max_ref_age_ms }
}

fn ms(seconds: i32) -> i64 {
    i64::from(seconds) * 1_000
}

/// Eight snapshots, a second apart; how many of them go.
#[rstest]
#[case::the_tables_age(&[("max-snapshot-age-ms", "2000")], (None, None), 5)]
#[case::the_tables_number(&[("max-snapshot-age-ms", "1"), ("min-snapshots-to-keep", "3")], (None, None), 5)]
#[case::whichever_keeps_more(&[("max-snapshot-age-ms", "4000"), ("min-snapshots-to-keep", "3")], (None, None), 3)]
#[case::the_age_that_is_asked_for(&[("max-snapshot-age-ms", "4000")], (Some(1), None), 6)]
#[case::the_number_that_is_asked_for(&[("max-snapshot-age-ms", "1"), ("min-snapshots-to-keep", "3")], (None, Some(7)), 1)]
#[case::one_at_least(&[], (Some(0), Some(0)), 7)]
#[case::one_at_least_by_property(&[("max-snapshot-age-ms", "0"), ("min-snapshots-to-keep", "0")], (None, None), 7)]
#[case::more_than_there_are(&[("max-snapshot-age-ms", "0")], (None, Some(100)), 0)]
#[case::spaces_around_a_number(&[("max-snapshot-age-ms", " 2000 ")], (None, None), 5)]
#[tokio::test]
async fn what_is_kept_is_what_table_and_caller_say(
    #[case] properties: &[(&str, &str)],
    #[case] (older_than, retain_last): (Option<u32>, Option<u32>),
    #[case] gone: usize,
) {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c", "d", "e", "f", "g", "h"]).await;
    for (name, value) in properties {
        world.set_property(&format!("history.expire.{name}"), value).await;
    }
    let retention = Retention { older_than: older_than.map(|seconds| SECOND * seconds), retain_last };
    let expiry = expire(&world, retention).await;
    assert_eq!(expiry.snapshots, &all[..gone], "the oldest, in order");
    assert_eq!(snapshots(world.load().await.metadata()), all[gone..].iter().copied().collect());
    assert_eq!(world.rows().await.len(), 24);
}

#[tokio::test]
async fn snapshots_are_kept_for_five_days_when_nobody_says_otherwise() {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c"]).await;
    let table = world.load().await;
    let second = table.metadata().snapshot_by_id(all[1]).unwrap().timestamp_ms();
    let expiry = Expiry::of(&table, &Retention::default(), second + 5 * 24 * 3600 * 1000).unwrap();
    assert_eq!(expiry.snapshots, [all[0]]);
}

#[rstest]
#[tokio::test]
async fn a_property_that_is_no_number_is_named(
    #[values("max-snapshot-age-ms", "min-snapshots-to-keep", "max-ref-age-ms")] name: &str,
    #[values("", "five", "-1", "1.5", "1d")] value: &str,
) {
    let world = world().await;
    world.ingest("a", 0..3).await;
    let name = format!("history.expire.{name}");
    world.set_property(&name, value).await;
    let error = Expiry::of(&world.load().await, &NOTHING_KEPT, now(&world)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains(&name), "{error}");
}

#[tokio::test]
async fn a_table_without_snapshots_has_none_to_expire() {
    let world = world().await;
    assert!(expiry(&world, NOTHING_KEPT).await.is_empty());
    assert!(world.committer().expire(&world.load().await, &Expiry::default()).await.unwrap());
}

#[tokio::test]
async fn a_branch_or_tag_that_says_how_long_it_is_kept_is_kept_so_long() {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c", "d", "e", "f"]).await;
    world.set_property("history.expire.max-ref-age-ms", &ms(3).to_string()).await;
    // The head of each is three to five days old.
    set_ref(&world, "tag-of-its-own", all[0], tag(Some(ms(9)))).await;
    set_ref(&world, "tag-too-old", all[1], tag(None)).await;
    set_ref(&world, "tag-young-enough", all[2], tag(None)).await;
    set_ref(&world, "branch-too-old", all[3], SnapshotRetention::branch(None, None, Some(ms(1)))).await;
    let expiry = expire(&world, NOTHING_KEPT).await;
    assert_eq!(expiry.refs, BTreeSet::from(["branch-too-old".to_owned(), "tag-too-old".to_owned()]));
    assert_eq!(expiry.snapshots, [all[1], all[3], all[4]]);
    let refs = Refs::of(world.load().await.metadata()).unwrap();
    let tags = [("tag-of-its-own".to_owned(), all[0]), ("tag-young-enough".to_owned(), all[2])];
    assert_eq!((refs.branches, refs.tags), (BTreeMap::from([("main".to_owned(), all[5])]), tags.into()));
}

#[tokio::test]
async fn the_main_branch_is_never_dropped() {
    let world = world().await;
    let all = apart(&world, &["a", "b"]).await;
    set_ref(&world, MAIN_BRANCH, all[1], SnapshotRetention::branch(None, None, Some(1))).await;
    world.set_property("history.expire.max-ref-age-ms", "1").await;
    world.environment.advance(100 * SECOND);
    let expiry = expire(&world, NOTHING_KEPT).await;
    assert_eq!((expiry.snapshots, expiry.refs.len()), (vec![all[0]], 0));
    assert_eq!(world.load().await.metadata().current_snapshot_id(), Some(all[1]));
}

#[tokio::test]
async fn a_branch_keeps_as_many_snapshots_as_it_says_for_itself() {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c", "d", "e", "f"]).await;
    set_ref(&world, MAIN_BRANCH, all[5], SnapshotRetention::branch(Some(2), None, None)).await;
    // The third counts its own line, which is main's from there.
    set_ref(&world, "audit", all[3], SnapshotRetention::branch(Some(1), Some(ms(4)), None)).await;
    let expiry = expire(&world, NOTHING_KEPT).await;
    assert_eq!(expiry.snapshots, [all[0]], "main keeps two, audit those of the last four days");
    assert_eq!(snapshots(world.load().await.metadata()), all[1..].iter().copied().collect());
}

#[tokio::test]
async fn what_no_ref_leads_to_is_kept_while_it_is_young() {
    let world = world().await;
    world.ingest("a", 0..3).await;
    let staged = BatchCommit { branch: "staged".to_owned(), ..world.batch("b", 3..6).await };
    let staged = committed(&world.commit(&staged).await.unwrap());
    world.committer().drop_branch(&world.table(), "staged").await.unwrap();
    let keeping = Retention { older_than: Some(3 * SECOND), retain_last: Some(1) };
    world.environment.advance(2 * SECOND);
    let newest = world.ingest("c", 6..9).await;
    assert_eq!(expiry(&world, keeping).await.snapshots, [0; 0]);
    world.environment.advance(2 * SECOND);
    let gone = expire(&world, keeping).await.snapshots;
    assert!(gone.contains(&staged) && gone.len() == 2, "{gone:?}");
    assert_eq!(snapshots(world.load().await.metadata()), BTreeSet::from([newest]));
}

#[tokio::test]
async fn statistics_of_expired_snapshots_leave_the_metadata_and_others_stay() {
    let world = world().await;
    let all = apart(&world, &["a", "b"]).await;
    let mut updates = Vec::new();
    for snapshot_id in &all {
        let path = |kind: &str| format!("file:///lake/{kind}-{snapshot_id}");
        let statistics = StatisticsFile {
            snapshot_id: *snapshot_id,
            statistics_path: path("stats"),
            file_size_in_bytes: 1,
            file_footer_size_in_bytes: 1,
            key_metadata: None,
            blob_metadata: Vec::new(),
        };
        let partition_statistics = PartitionStatisticsFile {
            snapshot_id: *snapshot_id,
            statistics_path: path("partitions"),
            file_size_in_bytes: 1,
        };
        updates.push(TableUpdate::SetStatistics { statistics });
        updates.push(TableUpdate::SetPartitionStatistics { partition_statistics });
    }
    world.update(updates).await;
    expire(&world, NOTHING_KEPT).await;
    let table = world.load().await;
    let metadata = table.metadata();
    assert_eq!(metadata.statistics_iter().map(|file| file.snapshot_id).collect::<Vec<_>>(), [all[1]]);
    assert_eq!(metadata.partition_statistics_iter().map(|file| file.snapshot_id).collect::<Vec<_>>(), [all[1]]);
}

async fn is_known(world: &World, branch: &str, name: &str, numbers: std::ops::Range<i64>) -> bool {
    let batch = BatchCommit { branch: branch.to_owned(), ..world.batch(name, numbers).await };
    let before = world.load().await.metadata_location().unwrap().to_owned();
    let skipped = is_skipped(&world.commit(&batch).await.unwrap());
    assert!(!skipped || world.load().await.metadata_location() == Some(before.as_str()));
    skipped
}

#[tokio::test]
async fn batches_whose_snapshots_expired_are_still_known() {
    let world = world().await;
    apart(&world, &["a", "b", "c"]).await;
    expire(&world, NOTHING_KEPT).await;
    for (name, first) in [("a", 0), ("b", 3), ("c", 6)] {
        assert!(is_known(&world, MAIN_BRANCH, name, first..first + 3).await, "{name}");
    }
    assert_eq!(world.rows().await.len(), 9);
}

/// The snapshot that wrote the ledger goes, and the one that stays says nothing of batches.
#[tokio::test]
async fn batches_are_still_known_when_somebody_elses_commits_came_last() {
    let world = world().await;
    apart(&world, &["a", "b"]).await;
    for number in 0..3 {
        world.environment.advance(SECOND);
        let file = world.file(&rows("stock", 10 + number..11 + number)).await;
        world.stock_append(vec![file]).await;
    }
    // The other writer dates its snapshots by the real clock, which is before ours.
    let gone = expire(&world, NOTHING_KEPT).await.snapshots;
    assert_eq!(gone.len(), 4);
    for (name, first) in [("a", 0), ("b", 3)] {
        assert!(is_known(&world, MAIN_BRANCH, name, first..first + 3).await, "{name}");
    }
    // And what comes after is known, too.
    world.ingest("c", 6..9).await;
    expire(&world, NOTHING_KEPT).await;
    for (name, first) in [("a", 0), ("b", 3), ("c", 6)] {
        assert!(is_known(&world, MAIN_BRANCH, name, first..first + 3).await, "{name}");
    }
}

#[tokio::test]
async fn what_was_rolled_back_is_not_known_after_its_snapshots_expired() {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c"]).await;
    world.committer().roll_back(&world.table(), &RollBackTo::Snapshot(all[1])).await.unwrap();
    world.environment.advance(SECOND);
    assert_eq!(expire(&world, NOTHING_KEPT).await.snapshots, [all[0], all[2]]);
    assert!(is_known(&world, MAIN_BRANCH, "a", 0..3).await && is_known(&world, MAIN_BRANCH, "b", 3..6).await);
    assert!(!is_known(&world, MAIN_BRANCH, "c", 6..9).await, "it is ingested again");
    assert_eq!(world.rows().await, [rows("a", 0..3), rows("b", 3..6), rows("c", 6..9)].concat());
}

/// The same when another engine rolled back, which leaves the ledger as it was.
#[tokio::test]
async fn what_another_engine_rolled_back_is_not_known_after_its_snapshots_expired() {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c"]).await;
    world.roll_back(all[1]).await;
    world.environment.advance(SECOND);
    assert_eq!(expire(&world, NOTHING_KEPT).await.snapshots, [all[0], all[2]]);
    assert!(is_known(&world, MAIN_BRANCH, "a", 0..3).await && is_known(&world, MAIN_BRANCH, "b", 3..6).await);
    assert!(!is_known(&world, MAIN_BRANCH, "c", 6..9).await, "it is ingested again");
    assert_eq!(world.rows().await, [rows("a", 0..3), rows("b", 3..6), rows("c", 6..9)].concat());
}

#[tokio::test]
async fn a_branch_knows_its_batches_after_their_snapshots_expired() {
    let world = world().await;
    world.ingest("a", 0..3).await;
    for (name, first) in [("b", 3), ("c", 6)] {
        world.environment.advance(SECOND);
        let batch = BatchCommit { branch: "audit".to_owned(), ..world.batch(name, first..first + 3).await };
        committed(&world.commit(&batch).await.unwrap());
    }
    world.ingest("d", 9..12).await;
    let gone = expire(&world, NOTHING_KEPT).await.snapshots;
    assert_eq!(gone.len(), 2, "what both begin with, and what the branch went on with");
    for (name, first) in [("a", 0), ("b", 3), ("c", 6)] {
        assert!(is_known(&world, "audit", name, first..first + 3).await, "{name}");
    }
    assert!(is_known(&world, MAIN_BRANCH, "a", 0..3).await && is_known(&world, MAIN_BRANCH, "d", 9..12).await);
    let refs = Refs::of(world.load().await.metadata()).unwrap();
    assert_eq!(refs.branches.len(), 2);
    assert!(!is_known(&world, MAIN_BRANCH, "b", 3..6).await, "main never had it");
}

#[tokio::test]
async fn a_branch_that_expires_goes_with_its_ledger() {
    let world = world().await;
    world.ingest("a", 0..3).await;
    let batch = BatchCommit { branch: "audit".to_owned(), ..world.batch("b", 3..6).await };
    let head = committed(&world.commit(&batch).await.unwrap());
    world.set_property("history.expire.max-ref-age-ms", &ms(1).to_string()).await;
    world.environment.advance(2 * SECOND);
    let expiry = expire(&world, NOTHING_KEPT).await;
    assert_eq!((expiry.snapshots, expiry.refs), (vec![head], BTreeSet::from(["audit".to_owned()])));
    let table = world.load().await;
    for name in [names::completed_batches("audit"), names::ledger_snapshot_id("audit")] {
        assert!(!table.metadata().properties().contains_key(&name), "{name}");
    }
    assert!(!is_known(&world, "audit", "b", 3..6).await, "the branch begins anew");
}

#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    /// Main gets a batch.
    Commit,
    /// A tag is moved to what is about to go.
    TagMoves,
    /// Main goes back to what is about to go.
    RollBack,
}

#[rstest]
#[tokio::test]
async fn a_ref_that_moves_meanwhile_leaves_everything_as_it_is(
    #[values(Meanwhile::Commit, Meanwhile::TagMoves, Meanwhile::RollBack)] what: Meanwhile,
) {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c"]).await;
    set_ref(&world, "kept", all[1], tag(None)).await;
    let (elsewhere, oldest, theirs) = (world.clone(), all[0], world.batch("d", 9..12).await);
    let act = rival(move || {
        let (world, batch) = (elsewhere.clone(), theirs.clone());
        async move {
            match what {
                Meanwhile::Commit => assert!(!is_skipped(&world.commit(&batch).await.unwrap())),
                Meanwhile::TagMoves => set_ref(&world, "kept", oldest, tag(None)).await,
                Meanwhile::RollBack => world.roll_back(oldest).await,
            }
        }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let base = late.load().await;
    let expiry = expiry(&world, NOTHING_KEPT).await;
    assert_eq!(expiry.snapshots, [all[0]]);
    assert!(!late.committer().expire(&base, &expiry).await.unwrap());
    let table = world.load().await;
    assert!(all.iter().all(|id| table.metadata().snapshot_by_id(*id).is_some()));
}

/// A tag that is new is not among the refs that may not move. It may lead to what is about to go.
#[tokio::test]
async fn a_tag_that_is_made_meanwhile_does_not_lose_its_snapshot() {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c"]).await;
    let (elsewhere, oldest) = (world.clone(), all[0]);
    let act = rival(move || {
        let world = elsewhere.clone();
        async move { set_ref(&world, "new", oldest, tag(None)).await }
    });
    let (late, _) = world.through(faults::script([Fault::After(act)]));
    let base = late.load().await;
    let expiry = expiry(&world, NOTHING_KEPT).await;
    let expired = late.committer().expire(&base, &expiry).await;
    let table = world.load().await;
    let refs = Refs::of(table.metadata()).unwrap();
    assert!(
        !refs.tags.contains_key("new") || table.metadata().snapshot_by_id(oldest).is_some(),
        "a tag without its snapshot: {expired:?}"
    );
}

#[rstest]
#[case::lost(Fault::LoseAnswer)]
#[case::sent_twice(Fault::Resend)]
#[tokio::test]
async fn an_expiry_whose_answer_is_lost_is_found_to_be_done(#[case] fault: Fault) {
    let world = world().await;
    let all = apart(&world, &["a", "b", "c"]).await;
    let (lossy, port) = world.through(faults::script([fault]));
    let (base, expiry) = (lossy.load().await, expiry(&world, NOTHING_KEPT).await);
    assert!(lossy.committer().expire(&base, &expiry).await.unwrap());
    assert_eq!(port.requests().len(), 1);
    assert_eq!(snapshots(world.load().await.metadata()), BTreeSet::from([all[2]]));
    assert!(is_known(&world, MAIN_BRANCH, "a", 0..3).await);
}

#[tokio::test]
async fn an_expiry_that_vanished_is_neither_done_nor_said_to_have_failed() {
    let world = world().await;
    apart(&world, &["a", "b", "c"]).await;
    let (lossy, port) = world.through(faults::script([Fault::Delay]));
    let (base, expiry) = (lossy.load().await, expiry(&world, NOTHING_KEPT).await);
    let error = lossy.committer().expire(&base, &expiry).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }) && error.kind() == ErrorKind::Unknown, "{error:?}");
    assert_eq!(world.snapshots().await, 3);
    // It may still arrive, and does no harm then.
    assert_eq!(port.deliver().await, 1);
    assert_eq!(world.snapshots().await, 1);
    assert!(is_known(&world, MAIN_BRANCH, "a", 0..3).await);
}
