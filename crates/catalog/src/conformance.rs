//! What every commit port owes, as tests that any implementation can run: over SQLite here, over other catalogs where
//! they are made. Each function is one promise of [`CommitPort`](crate::CommitPort) or of
//! [`OpenCatalog::create`](crate::OpenCatalog::create), works in a table of its own name, and panics when the promise
//! is broken.
//!
//! [`conforms!`](crate::conforms) makes a test of each. Needs the cargo feature `conformance`, and a multi-threaded tokio
//! runtime.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a broken promise fails the test that asked")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use futures::TryStreamExt;
use hexfloe_store::Location;
use iceberg::spec::{
    MAIN_BRANCH, NestedField, Operation, PrimitiveType, Schema, Snapshot, SnapshotReference, SnapshotRetention,
    Summary, Type, UnboundPartitionSpec,
};
use iceberg::table::Table;
use iceberg::{TableIdent, TableRequirement, TableUpdate};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{CommitOutcome, CommitRequest, OpenCatalog, TableDefinition};

/// How many rivals race in the tests of races.
const RIVALS: usize = 8;

/// A catalog under test.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Another instance over the same catalog, as another process would open it.
    async fn open(&self) -> OpenCatalog;
}

/// Makes a test of each promise that every catalog keeps; the expression makes a [`Subject`] whose catalog is empty.
///
/// Promises named after a semicolon are tested too: those about metadata files, for ports that write them.
#[macro_export]
macro_rules! conforms {
    ($subject:expr $(; $($more:ident)*)?) => {
        $crate::conforms! {
            @tests $subject;
            a_commit_applies_every_update_in_order
            a_commit_applies_all_updates_or_none
            a_stale_base_is_a_conflict_and_leaves_no_file
            a_failed_requirement_is_a_conflict
            a_table_dropped_meanwhile_is_a_conflict
            another_table_of_the_same_name_is_a_conflict
            of_two_commits_on_one_base_exactly_one_wins
            what_is_acknowledged_is_there
            of_racing_changes_of_properties_none_is_lost
            a_request_that_arrives_twice_is_applied_once
            a_large_commit_is_whole
            of_many_creations_one_is_ours
            a_table_created_again_has_a_fresh_location
            creating_what_is_there_changes_nothing
            a_table_that_was_used_is_never_discarded
            $($($more)*)?
        }
    };
    (@tests $subject:expr; $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                $crate::conformance::$promise(&$subject).await;
            }
        )*
    };
}

/// A table with one column and no rows.
pub fn definition() -> TableDefinition {
    let column = NestedField::required(1, "n", Type::Primitive(PrimitiveType::Long));
    TableDefinition {
        schema: Schema::builder().with_fields([column.into()]).build().unwrap(),
        partition_spec: UnboundPartitionSpec::default(),
        properties: HashMap::new(),
    }
}

/// An id that this process has not given before.
pub fn fresh_id() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(NEXT.fetch_add(1, Ordering::Relaxed).into())
}

fn ident(name: &str) -> TableIdent {
    TableIdent::from_strs(["conformance", name]).unwrap()
}

async fn created(catalog: &OpenCatalog, name: &str) -> Table {
    let created = catalog.create(&ident(name), &definition(), fresh_id()).await.unwrap();
    assert!(created.ours, "the subject's catalog is not empty");
    created.table
}

async fn loaded(catalog: &OpenCatalog, table: &TableIdent) -> Table {
    catalog.load(table).await.unwrap().unwrap()
}

/// The commit that sets one property.
fn property(base: &Table, key: &str, value: &str) -> CommitRequest {
    CommitRequest {
        base: base.clone(),
        requirements: vec![TableRequirement::UuidMatch { uuid: base.metadata().uuid() }],
        updates: vec![TableUpdate::SetProperties { updates: HashMap::from([(key.to_owned(), value.to_owned())]) }],
    }
}

/// The commit that adds an empty snapshot to the main branch.
fn snapshot(base: &Table) -> CommitRequest {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let metadata = base.metadata();
    let parent = metadata.current_snapshot_id();
    let snapshot = Snapshot::builder()
        .with_snapshot_id(id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(metadata.next_sequence_number())
        .with_timestamp_ms(metadata.last_updated_ms())
        .with_manifest_list(format!("{}/metadata/snap-{id}.avro", metadata.location()))
        .with_schema_id(metadata.current_schema_id())
        .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
        .build();
    let reference = SnapshotReference::new(id, SnapshotRetention::branch(None, None, None));
    CommitRequest {
        base: base.clone(),
        requirements: vec![TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: parent }],
        updates: vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference },
        ],
    }
}

async fn commit(catalog: &OpenCatalog, request: &CommitRequest) -> Table {
    match catalog.port().commit(request).await.unwrap() {
        CommitOutcome::Committed(table) => table,
        other => panic!("not committed: {other:?}"),
    }
}

async fn conflicts(catalog: &OpenCatalog, request: &CommitRequest) {
    let outcome = catalog.port().commit(request).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Conflict { .. }), "no conflict: {outcome:?}");
}

/// Every file below a location.
async fn files(catalog: &OpenCatalog, location: &str) -> BTreeSet<String> {
    let listing = catalog.store().list(&Location::parse(location).unwrap());
    listing.map_ok(|listed| listed.location.to_string()).try_collect().await.unwrap()
}

/// All updates are applied in one step, in order, and the answer is the table as it then is.
pub async fn a_commit_applies_every_update_in_order(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let base = created(&catalog, "every_update").await;
    let mut request = property(&base, "a", "1");
    request.updates.extend(property(&base, "b", "1").updates);
    request.updates.extend(property(&base, "a", "2").updates);
    request.updates.push(TableUpdate::RemoveProperties { removals: vec!["b".to_owned()] });
    request.updates.extend(snapshot(&base).updates);
    let answer = commit(&catalog, &request).await;
    let now = loaded(&subject.open().await, base.identifier()).await;
    let mut expected = base.metadata().properties().clone();
    expected.insert("a".to_owned(), "2".to_owned());
    assert_eq!(now.metadata().properties(), &expected);
    assert!(now.metadata().current_snapshot_id().is_some());
    assert_eq!(answer.metadata(), now.metadata());
    assert_eq!(answer.metadata_location(), now.metadata_location());
}

/// One update that cannot be applied undoes the others, and leaves no file.
pub async fn a_commit_applies_all_updates_or_none(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let base = created(&catalog, "all_or_none").await;
    let before = files(&catalog, base.metadata().location()).await;
    let mut request = property(&base, "a", "1");
    request.updates.push(TableUpdate::SetSnapshotRef {
        ref_name: MAIN_BRANCH.to_owned(),
        reference: SnapshotReference::new(4_711, SnapshotRetention::branch(None, None, None)),
    });
    let outcome = catalog.port().commit(&request).await;
    assert!(!matches!(outcome, Ok(CommitOutcome::Committed(_))), "a ref to no snapshot was accepted");
    let now = loaded(&catalog, base.identifier()).await;
    assert_eq!(now.metadata_location(), base.metadata_location());
    assert_eq!(now.metadata().properties(), base.metadata().properties());
    assert_eq!(files(&catalog, base.metadata().location()).await, before);
}

/// A commit decided on a table that has moved on is a conflict; it changes nothing, and its files are gone.
pub async fn a_stale_base_is_a_conflict_and_leaves_no_file(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let stale = created(&catalog, "stale").await;
    let now = commit(&catalog, &snapshot(&stale)).await;
    let before = files(&catalog, now.metadata().location()).await;
    conflicts(&catalog, &snapshot(&stale)).await;
    assert_eq!(loaded(&catalog, stale.identifier()).await.metadata(), now.metadata());
    assert_eq!(files(&catalog, now.metadata().location()).await, before);
}

/// Whatever is required and does not hold is a conflict, and leaves no file.
pub async fn a_failed_requirement_is_a_conflict(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let base = created(&catalog, "requirement").await;
    let base = commit(&catalog, &snapshot(&base)).await;
    let before = files(&catalog, base.metadata().location()).await;
    for requirement in [
        TableRequirement::UuidMatch { uuid: Uuid::from_u128(1) },
        TableRequirement::NotExist,
        TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: None },
        TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: Some(4_711) },
        TableRequirement::RefSnapshotIdMatch { r#ref: "audit".to_owned(), snapshot_id: Some(4_711) },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: 4_711 },
        TableRequirement::DefaultSpecIdMatch { default_spec_id: 4_711 },
    ] {
        let mut request = property(&base, "a", "1");
        request.requirements.push(requirement);
        conflicts(&catalog, &request).await;
    }
    assert_eq!(loaded(&catalog, base.identifier()).await.metadata_location(), base.metadata_location());
    assert_eq!(files(&catalog, base.metadata().location()).await, before);
}

/// A table that was dropped is a conflict, and does not come back.
pub async fn a_table_dropped_meanwhile_is_a_conflict(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let base = created(&catalog, "dropped").await;
    subject.open().await.catalog().drop_table(base.identifier()).await.unwrap();
    conflicts(&catalog, &snapshot(&base)).await;
    assert!(catalog.load(base.identifier()).await.unwrap().is_none());
}

/// Another table of the same name is a conflict, even where nothing else tells them apart.
pub async fn another_table_of_the_same_name_is_a_conflict(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let base = created(&catalog, "same_name").await;
    catalog.catalog().drop_table(base.identifier()).await.unwrap();
    let other = created(&catalog, "same_name").await;
    assert_ne!(other.metadata().uuid(), base.metadata().uuid());
    conflicts(&catalog, &property(&base, "a", "1")).await;
    assert_eq!(loaded(&catalog, base.identifier()).await.metadata_location(), other.metadata_location());
}

/// Of two instances that commit on one base, exactly one wins, and the other is told.
pub async fn of_two_commits_on_one_base_exactly_one_wins(subject: &dyn Subject) {
    let (one, two) = (subject.open().await, subject.open().await);
    let mut base = created(&one, "two").await;
    for round in 0..10 {
        let (a, b) = (snapshot(&base), snapshot(&base));
        let (a, b) = tokio::join!(one.port().commit(&a), two.port().commit(&b));
        let winner = match (a.unwrap(), b.unwrap()) {
            (CommitOutcome::Committed(winner), CommitOutcome::Conflict { .. })
            | (CommitOutcome::Conflict { .. }, CommitOutcome::Committed(winner)) => winner,
            other => panic!("not one winner in round {round}: {other:?}"),
        };
        base = loaded(&one, base.identifier()).await;
        assert_eq!(winner.metadata_location(), base.metadata_location());
    }
    assert_eq!(base.metadata().snapshots().count(), 10);
}

/// However many change properties at once: who is told that it is done finds it there, beside what the others did.
pub async fn of_racing_changes_of_properties_none_is_lost(subject: &dyn Subject) {
    let first = subject.open().await;
    let base = created(&first, "properties").await;
    let mut rivals = JoinSet::new();
    for rival in 0..RIVALS {
        let (catalog, table) = (subject.open().await, base.identifier().clone());
        rivals.spawn(async move {
            loop {
                let request = property(&loaded(&catalog, &table).await, &format!("rival-{rival}"), "was here");
                match catalog.port().commit(&request).await.unwrap() {
                    CommitOutcome::Committed(_) => return,
                    CommitOutcome::Conflict { .. } => {}
                    CommitOutcome::Unknown { reason, .. } => panic!("nothing failed, and yet: {reason}"),
                }
            }
        });
    }
    rivals.join_all().await;
    let now = loaded(&first, base.identifier()).await;
    for rival in 0..RIVALS {
        let value = now.metadata().properties().get(&format!("rival-{rival}"));
        assert_eq!(value.map(String::as_str), Some("was here"), "the change of rival {rival} is lost");
    }
}

/// A request whose answer was lost, and which somebody on the way sends again: its snapshot is there once, and who asks
/// is not told that it failed.
pub async fn a_request_that_arrives_twice_is_applied_once(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let base = created(&catalog, "twice").await;
    let request = snapshot(&base);
    let first = commit(&catalog, &request).await;
    let again = subject.open().await.port().commit(&request).await.unwrap();
    match again {
        CommitOutcome::Committed(table) => assert_eq!(table.metadata(), first.metadata()),
        // A port that compares the pointer itself has applied nothing of the second one.
        CommitOutcome::Conflict { .. } | CommitOutcome::Unknown { .. } => {}
    }
    let now = loaded(&catalog, base.identifier()).await;
    assert_eq!(now.metadata(), first.metadata());
    assert_eq!(now.metadata().snapshots().count(), 1);
}

/// A commit of a megabyte is as whole as any.
pub async fn a_large_commit_is_whole(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let base = created(&catalog, "large").await;
    let mut request = snapshot(&base);
    let large: HashMap<String, String> = (0..1_000).map(|n| (format!("large-{n}"), "0123456789".repeat(100))).collect();
    request.updates.push(TableUpdate::SetProperties { updates: large.clone() });
    commit(&catalog, &request).await;
    let now = loaded(&subject.open().await, base.identifier()).await;
    assert!(large.iter().all(|(name, value)| now.metadata().properties().get(name) == Some(value)));
    assert_eq!(now.metadata().snapshots().count(), 1);
}

/// However many commit at once, through one instance or through several: what was acknowledged is there, each once.
pub async fn what_is_acknowledged_is_there(subject: &dyn Subject) {
    let first = subject.open().await;
    let base = created(&first, "acknowledged").await;
    let mut rivals = JoinSet::new();
    for rival in 0..RIVALS {
        // Half of them share an instance.
        let catalog = if rival % 2 == 0 { first.clone() } else { subject.open().await };
        let table = base.identifier().clone();
        rivals.spawn(async move {
            let mut acknowledged = Vec::new();
            while acknowledged.len() < 3 {
                let request = snapshot(&loaded(&catalog, &table).await);
                match catalog.port().commit(&request).await.unwrap() {
                    CommitOutcome::Committed(table) => acknowledged.extend(table.metadata().current_snapshot_id()),
                    CommitOutcome::Conflict { .. } => {}
                    CommitOutcome::Unknown { .. } => panic!("nothing failed, and yet the outcome is unknown"),
                }
            }
            acknowledged
        });
    }
    let acknowledged: Vec<i64> = rivals.join_all().await.into_iter().flatten().collect();
    let now = loaded(&first, base.identifier()).await;
    let there: HashSet<i64> = now.metadata().snapshots().map(|snapshot| snapshot.snapshot_id()).collect();
    assert_eq!(acknowledged.len(), 3 * RIVALS);
    assert_eq!(acknowledged.iter().copied().collect::<HashSet<_>>(), there);
    assert_eq!(now.metadata().last_sequence_number(), i64::try_from(3 * RIVALS).unwrap());
}

/// Of many that create one table, one is told that it is its own; all get the same table, and the losers leave no file.
pub async fn of_many_creations_one_is_ours(subject: &dyn Subject) {
    let name = TableIdent::from_strs(["conformance", "deep", "created"]).unwrap();
    let mut rivals = JoinSet::new();
    for _ in 0..RIVALS {
        let (catalog, name) = (subject.open().await, name.clone());
        rivals.spawn(async move { catalog.create(&name, &definition(), fresh_id()).await.unwrap() });
    }
    let created = rivals.join_all().await;
    assert_eq!(created.iter().filter(|created| created.ours).count(), 1);
    let uuids: HashSet<Uuid> = created.iter().map(|created| created.table.metadata().uuid()).collect();
    assert_eq!(uuids.len(), 1);
    let location = created[0].table.metadata().location();
    let (namespace, _) = location.rsplit_once('/').unwrap();
    let left = files(&subject.open().await, namespace).await;
    assert!(left.iter().all(|file| file.starts_with(&format!("{location}/"))), "{left:?}");
}

/// A table created where another was dropped has a place of its own.
pub async fn a_table_created_again_has_a_fresh_location(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let first = created(&catalog, "again").await;
    commit(&catalog, &property(&first, "a", "1")).await;
    catalog.catalog().drop_table(first.identifier()).await.unwrap();
    // Some servers remove the files with the table.
    let old = files(&catalog, first.metadata().location()).await;
    let second = created(&catalog, "again").await;
    assert_ne!(second.metadata().location(), first.metadata().location());
    assert!(!files(&catalog, second.metadata().location()).await.is_empty());
    assert_eq!(files(&catalog, first.metadata().location()).await, old, "the dropped table's files were touched");
}

/// A table that is there is given as it is, and the second creation leaves no file.
pub async fn creating_what_is_there_changes_nothing(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let first = created(&catalog, "there").await;
    let (namespace, _) = first.metadata().location().rsplit_once('/').unwrap();
    let before = files(&catalog, namespace).await;
    let second = catalog.create(first.identifier(), &definition(), fresh_id()).await.unwrap();
    assert!(!second.ours);
    assert_eq!(second.table.metadata(), first.metadata());
    assert_eq!(files(&catalog, namespace).await, before);
}

/// A creation can be undone, with its files, until somebody has committed to the table; after that it stays. (A port may
/// also decline to undo any.)
pub async fn a_table_that_was_used_is_never_discarded(subject: &dyn Subject) {
    let catalog = subject.open().await;
    let fresh = created(&catalog, "discarded").await;
    if catalog.discard(&fresh).await.unwrap() {
        assert!(catalog.load(fresh.identifier()).await.unwrap().is_none());
        assert!(files(&catalog, fresh.metadata().location()).await.is_empty());
        assert!(!catalog.discard(&fresh).await.unwrap(), "discarded twice");
    }
    let used = created(&catalog, "used").await;
    commit(&catalog, &property(&used, "a", "1")).await;
    assert!(!catalog.discard(&used).await.unwrap());
    let now = loaded(&subject.open().await, used.identifier()).await;
    assert_eq!(now.metadata().properties().get("a").map(String::as_str), Some("1"));
    assert_eq!(files(&catalog, used.metadata().location()).await.len(), 2);
}

/// Superseded metadata files go after the swap, and only where the table asks for it; the metadata log is kept whole.
pub async fn superseded_metadata_goes_only_where_the_table_asks(subject: &dyn Subject) {
    let catalog = subject.open().await;
    for asked in [false, true] {
        let base = created(&catalog, if asked { "forgetful" } else { "thrifty" }).await;
        let mut table = commit(&catalog, &property(&base, "write.metadata.previous-versions-max", "2")).await;
        let delete = "write.metadata.delete-after-commit.enabled";
        table = commit(&catalog, &property(&table, delete, if asked { "True" } else { "false" })).await;
        for value in 0..5 {
            table = commit(&catalog, &property(&table, "a", &value.to_string())).await;
        }
        let mut log: BTreeSet<String> =
            table.metadata().metadata_log().iter().map(|entry| entry.metadata_file.clone()).collect();
        assert_eq!(log.len(), 2);
        log.insert(table.metadata_location().unwrap().to_owned());
        let there = files(&catalog, table.metadata().location()).await;
        if asked {
            assert_eq!(there, log);
        } else {
            assert_eq!(there.len(), 8);
            assert!(there.is_superset(&log));
        }
    }
}
