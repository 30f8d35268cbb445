//! Letting snapshots expire, and the files that go with them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest};
use hexfloe_commit::Retention;
use hexfloe_orphan_cleanup::{Cleaner, ExpireOptions, ExpireReport, Fate, FileRecord, Refusal};
use iceberg::TableUpdate;
use iceberg::spec::MAIN_BRANCH;

use crate::store::{Deleting, On};
use crate::world::{Steady, World, files_of, refusal};

fn options() -> ExpireOptions {
    let retention = Retention { older_than: Some(Duration::ZERO), retain_last: Some(1) };
    ExpireOptions { retention, apply: true, ..ExpireOptions::default() }
}

async fn expire(world: &World) -> (ExpireReport, Vec<FileRecord>) {
    let mut records = Vec::new();
    let report = world.cleaner().expire(&world.table(), &options(), &mut records).await.unwrap();
    (report, records)
}

/// Three overwrites, of which the newest stays: the files of the others.
async fn overwritten(world: &World) -> [String; 3] {
    let mut files = Vec::new();
    for _ in 0..3 {
        let file = world.orphan().await;
        world.commit(MAIN_BRANCH, &[&file], true).await;
        files.push(file);
        world.environment.advance(Duration::from_secs(1));
    }
    files.try_into().unwrap()
}

#[tokio::test]
async fn the_files_that_only_expired_snapshots_have_go_and_no_others() {
    let world = World::new().await;
    let [first, second, third] = overwritten(&world).await;
    let orphan = world.orphan().await;
    let before = world.files().await;

    let dry = ExpireOptions { apply: false, ..options() };
    let mut would = Vec::new();
    let said = world.cleaner().expire(&world.table(), &dry, &mut would).await.unwrap();
    assert_eq!(world.files().await, before);

    let (report, records) = expire(&world).await;
    assert_eq!((report.snapshots.len(), report.failed, report.outside), (2, 0, 0));
    let removed = files_of(&records, |fate| *fate == Fate::Removed);
    assert_eq!(files_of(&would, |fate| *fate == Fate::Orphan), removed, "the dry run said the same");
    assert_eq!((said.files, report.files, report.removed), (6, 6, 6), "two data files, manifests and lists");
    let after = world.files().await;
    let gone: BTreeSet<String> = before.difference(&after).cloned().collect();
    assert_eq!(gone.into_iter().collect::<Vec<_>>(), removed);
    assert!(removed.contains(&first) && removed.contains(&second));
    assert!(after.contains(&third) && after.contains(&orphan), "an orphan is another matter");
    world.assert_whole().await;
    assert!(expire(&world).await.0.snapshots.is_empty());
}

#[tokio::test]
async fn what_a_tag_or_a_branch_has_stays() {
    let world = World::new().await;
    let file = world.orphan().await;
    let tagged = world.commit(MAIN_BRANCH, &[&file], true).await;
    world.tag("kept", tagged).await;
    let on_branch = world.orphan().await;
    world.commit("audit", &[&on_branch], true).await;
    world.environment.advance(Duration::from_secs(1));
    let [first, ..] = overwritten(&world).await;
    let (report, _) = expire(&world).await;
    assert_eq!(report.snapshots.len(), 2);
    let files = world.files().await;
    assert!(files.contains(&file) && files.contains(&on_branch) && !files.contains(&first));
    world.assert_whole().await;
}

#[tokio::test]
async fn a_commit_that_lands_first_is_expired_around_and_keeps_its_files() {
    let world = World::new().await;
    let [first, second, third] = overwritten(&world).await;
    let (elsewhere, file) = (world.clone(), first.clone());
    // While the manifests are read. It brings back a file that would have gone.
    world.troubles.before((On::Reading, 1), "-m0.avro", move || {
        let (world, file) = (elsewhere.clone(), file.clone());
        async move {
            world.commit(MAIN_BRANCH, &[&file], false).await;
        }
    });
    let (report, _) = expire(&world).await;
    assert_eq!(report.snapshots.len(), 3);
    let files = world.files().await;
    assert!(files.contains(&first) && !files.contains(&second) && files.contains(&third));
    world.assert_whole().await;
}

#[tokio::test]
async fn files_that_cannot_be_deleted_are_counted_and_are_orphans_from_then_on() {
    let world = World::new().await;
    overwritten(&world).await;
    world.troubles.deleting("/data/", Deleting::Fails(usize::MAX));
    let (report, records) = expire(&world).await;
    assert_eq!((report.removed, report.failed), (4, 2));
    assert_eq!(files_of(&records, |fate| matches!(fate, Fate::Failed { .. })).len(), 2);
    world.troubles.end();
    // The manifest of the snapshot that is left says that it took one of them away.
    assert_eq!(world.clean().await.unwrap().0.removed.files, 1);
    world.assert_whole().await;
}

/// Commits, and then makes another table of the same name.
#[derive(Debug)]
struct ThenAnother {
    inner: Arc<dyn CommitPort>,
    world: World,
}

#[async_trait]
impl CommitPort for ThenAnother {
    async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, hexfloe_catalog::Error> {
        let outcome = self.inner.commit(request).await;
        self.world.drop_table().await;
        self.world.make_table().await;
        outcome
    }
}

#[tokio::test]
async fn a_table_that_is_another_after_the_commit_keeps_all_files() {
    let world = World::new().await;
    overwritten(&world).await;
    let (root, before) = (world.root().await, world.files().await);
    let then = world.clone();
    let catalog = world.catalog.clone().with_port(|inner| Arc::new(ThenAnother { inner, world: then }));
    let cleaner = Cleaner::new(catalog, Arc::<Steady>::clone(&world.environment));
    let report = cleaner.expire(&world.table(), &options(), &mut Vec::new()).await.unwrap();
    assert_eq!((report.snapshots.len(), report.removed), (2, 0), "they have expired");
    assert!(report.stopped.unwrap().contains("another table of the same name"));
    assert!(before.is_subset(&world.files_below(&root).await));
}

#[tokio::test]
async fn a_table_that_does_not_let_go_of_files_does_not_let_go_of_snapshots() {
    let world = World::new().await;
    overwritten(&world).await;
    world.set_property("gc.enabled", "false").await;
    let before = world.load().await.metadata_location().unwrap().to_owned();
    let result = world.cleaner().expire(&world.table(), &options(), &mut Vec::new()).await;
    assert_eq!(refusal(result), Refusal::GarbageCollection { value: "false".to_owned() });
    assert_eq!(world.load().await.metadata_location(), Some(before.as_str()));
    world.update(vec![TableUpdate::RemoveProperties { removals: vec!["gc.enabled".to_owned()] }]).await;
    assert_eq!(expire(&world).await.0.snapshots.len(), 2);
}
