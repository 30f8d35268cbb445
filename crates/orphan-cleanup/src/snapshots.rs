//! Letting snapshots expire, and removing the files that only they referred to.
//!
//! Metadata decides, and age does not matter to the files: once no snapshot has a file, nobody reads it. What the expired
//! snapshots refer to is read before they go, and what the table refers to is read again after they went.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use futures::TryStreamExt;
use hexfloe_commit::{Committer, Expiry, Refs, Retention};
use hexfloe_store::Location;
use iceberg::TableIdent;
use iceberg::spec::TableMetadata;
use iceberg::table::Table;
use serde::Serialize;

use crate::error::{Error, Refusal, causes};
use crate::manifests::{Listed, Named};
use crate::orphans::{Cleaner, Roots, SHOWN, failure, note, refuse_without_gc, unexplained};
use crate::paths::EqualSchemes;
use crate::reachable::{Reachable, State, Which, may_be_empty};
use crate::removal::{CHUNK, Disposal, Removal};
use crate::report::{Fate, FileRecord, Sink, text};

/// How often an expiry is decided anew because somebody else was first.
const ATTEMPTS: u32 = 10;

/// Which snapshots are to go, and how.
#[derive(Clone, Debug, Default)]
pub struct ExpireOptions {
    /// What is kept where table, branches and tags do not say it.
    pub retention: Retention,
    /// Let them go, and not only say which would.
    pub apply: bool,
    /// Places outside the table's location whose files may be removed.
    pub owned: Vec<String>,
    /// Schemes that are the same.
    pub equal_schemes: EqualSchemes,
    /// What is done with files.
    pub disposal: Disposal,
}

/// One snapshot that expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expired {
    /// Its id.
    pub snapshot_id: i64,
    /// When it was committed: `2026-08-11T10:11:12.000Z`.
    pub committed: String,
}

/// What expired, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExpireReport {
    /// The table.
    pub table: String,
    /// Whether it was done.
    pub applied: bool,
    /// Snapshots, oldest first.
    pub snapshots: Vec<Expired>,
    /// Branches and tags.
    pub refs: Vec<String>,
    /// Files that only these snapshots refer to.
    pub files: u64,
    /// Those that were removed.
    pub removed: u64,
    /// Those that got a tag instead.
    pub tagged: u64,
    /// Those that should have been removed, or got a tag.
    pub failed: u64,
    /// The first of these, each with the reason.
    pub failures: Vec<String>,
    /// Those that lie outside the table's places, and were left.
    pub outside: u64,
    /// Why the work ended before all files were tried.
    pub stopped: Option<String>,
}

impl Cleaner {
    /// Lets snapshots of a table expire, and removes the files that only they referred to. `sink` gets each of these.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when it is not certain what may go, before anything is changed; or the failure of the commit.
    pub async fn expire(
        &self,
        table: &TableIdent,
        options: &ExpireOptions,
        sink: &mut dyn Sink,
    ) -> Result<ExpireReport, Error> {
        let removal = Removal::new(self.store().clone(), self.environment.clone(), &options.disposal)?;
        let committer = Committer::new(self.catalog.clone(), self.environment.clone());
        let mut attempts = 0;
        let (mut report, base, files) = loop {
            attempts += 1;
            let base = self.load(table).await?;
            refuse_without_gc(&base)?;
            let roots = Roots::of(&base, &options.owned, self.store())?;
            removal.check(&table.to_string(), roots.places())?;
            self.refuse_neighbours(table, &roots, &removal).await?;
            let expiry = Expiry::of(&base, &options.retention, self.environment.now_ms())?;
            let report = said(&base, &expiry, options.apply);
            if expiry.is_empty() {
                return Ok(report);
            }
            let files = self.only_of(&base, &expiry).await?;
            if !options.apply {
                break (report, base, files);
            }
            if committer.expire(&base, &expiry).await? {
                break (report, base, files);
            }
            if attempts == ATTEMPTS {
                let reason = "others kept changing it".to_owned();
                let table = table.to_string();
                return Err(hexfloe_commit::Error::Exhausted { table, attempts, waited_ms: 0, reason }.into());
            }
            self.environment.sleep(Duration::from_millis(100).mul_f64(self.environment.jitter() + 0.5)).await;
        };
        let files = match self.unreferenced(&base, files, options, &mut report).await {
            Ok(files) => files,
            // The snapshots are gone: this is no refusal any more.
            Err(error) if options.apply => {
                report.stopped = Some(causes(&error));
                return Ok(report);
            }
            Err(error) => return Err(error),
        };
        report.files = files.len() as u64;
        for chunk in files.chunks(CHUNK) {
            if !options.apply {
                for file in chunk {
                    note(sink, &record(table, file, Fate::Orphan), 0)?;
                }
                continue;
            }
            let chunk = chunk.iter().map(|file| record(table, file, Fate::Orphan)).collect();
            for file in removal.take(chunk).await {
                *match file.fate {
                    Fate::Removed => &mut report.removed,
                    Fate::Tagged => &mut report.tagged,
                    _ => &mut report.failed,
                } += 1;
                report.failures.extend(failure(&file).filter(|_| report.failures.len() < SHOWN));
                note(sink, &file, report.removed)?;
            }
        }
        Ok(report)
    }

    /// What the snapshots that expire refer to, but for manifests that a snapshot that stays has too: manifest lists,
    /// manifests, files, statistics.
    async fn only_of(&self, base: &Table, expiry: &Expiry) -> Result<BTreeSet<String>, Error> {
        let metadata = base.metadata();
        let version = metadata.format_version();
        let reading = self.reading(base.identifier());
        let goes = |id: i64| expiry.snapshots.contains(&id);
        let lists = |expired: bool| -> Vec<(String, bool)> {
            let chosen = metadata.snapshots().filter(|snapshot| goes(snapshot.snapshot_id()) == expired);
            let lists = chosen.map(|snapshot| (snapshot.manifest_list().to_owned(), may_be_empty(snapshot)));
            let mut lists: Vec<(String, bool)> = lists.filter(|(list, _)| !list.is_empty()).collect();
            lists.sort_unstable();
            lists
        };
        let manifests = async |lists: Vec<(String, bool)>| -> Result<BTreeSet<Listed>, Error> {
            let found: Vec<Vec<Listed>> = reading.lists(lists, version).try_collect().await?;
            Ok(found.into_iter().flatten().collect())
        };
        let kept: BTreeSet<String> = manifests(lists(false)).await?.into_iter().map(|listed| listed.path).collect();
        let expired = manifests(lists(true)).await?.into_iter().filter(|listed| !kept.contains(&listed.path));
        let expired: Vec<Listed> = expired.collect();
        let mut only: BTreeSet<String> = expired.iter().map(|listed| listed.path.clone()).collect();
        let entries: Vec<Vec<Named>> = reading.manifests(expired).try_collect().await?;
        // What an entry says was removed was live in a snapshot before, which goes now too, went before, or stays.
        only.extend(entries.into_iter().flatten().filter(|file| file.is_live).map(|file| file.path));
        only.extend(lists(true).into_iter().map(|(list, _)| list));
        let statistics = metadata.statistics_iter().filter(|file| goes(file.snapshot_id));
        only.extend(statistics.map(|file| file.statistics_path.clone()));
        let statistics = metadata.partition_statistics_iter().filter(|file| goes(file.snapshot_id));
        only.extend(statistics.map(|file| file.statistics_path.clone()));
        Ok(only)
    }

    /// Refuses to remove files when a branch or tag was made meanwhile that leads to what has expired. A server that checks
    /// what a commit asks for, and not the pointer itself, lets both happen, and drops the ref.
    async fn refuse_lost_refs(&self, base: &Table, now: &Table, report: &ExpireReport) -> Result<(), Error> {
        let gone: HashSet<i64> = report.snapshots.iter().map(|expired| expired.snapshot_id).collect();
        let before = Refs::of(base.metadata())?;
        let log = now.metadata().metadata_log();
        let since = log.iter().position(|entry| Some(entry.metadata_file.as_str()) == base.metadata_location());
        for entry in log.iter().skip(since.map_or(0, |place| place + 1)) {
            let between = TableMetadata::read_from(now.file_io(), &entry.metadata_file).await;
            // What it had cannot be told any more.
            let between = between.map_err(|error| {
                let file = entry.metadata_file.clone();
                Error::refused(base.identifier(), Refusal::Unreadable { file, reason: error.to_string() })
            })?;
            if since.is_none() && between.last_updated_ms() < base.metadata().last_updated_ms() {
                continue;
            }
            let refs = Refs::of(&between)?;
            let is_lost = |(name, id): &(&String, &i64)| {
                let known = before.branches.get(*name).or_else(|| before.tags.get(*name));
                gone.contains(*id) && known != Some(*id)
            };
            if let Some((name, id)) = refs.branches.iter().chain(&refs.tags).find(is_lost) {
                let reason = format!(
                    "{name:?} was set to snapshot {id} while that expired, and the catalog dropped it; the files are still there, and {} refers to them",
                    entry.metadata_file
                );
                return Err(Error::refused(base.identifier(), Refusal::Moved { reason }));
            }
        }
        Ok(())
    }

    /// Those of `files` that the table does not refer to without the expired snapshots, and that lie in its places; each as
    /// it is to be removed.
    async fn unreferenced(
        &self,
        base: &Table,
        files: BTreeSet<String>,
        options: &ExpireOptions,
        report: &mut ExpireReport,
    ) -> Result<Vec<String>, Error> {
        let reading = self.reading(base.identifier());
        let mut reachable = Reachable::new(self.store().clone(), options.equal_schemes.clone(), Which::Live);
        let after;
        let now;
        let state = if options.apply {
            now = self.load(base.identifier()).await?;
            if let Some(reason) = unexplained(base, &now) {
                return Err(Error::refused(base.identifier(), Refusal::Moved { reason }));
            }
            self.refuse_lost_refs(base, &now, report).await?;
            State::of(&now)
        } else {
            let ids: Vec<i64> = report.snapshots.iter().map(|expired| expired.snapshot_id).collect();
            after = without(base.metadata(), &ids)?;
            State { metadata: &after, ..State::of(base) }
        };
        reachable.add(state, &reading).await?;
        let roots = Roots::of(base, &options.owned, self.store())?;
        let mut unreferenced = BTreeSet::new();
        for file in files {
            let Ok(location) = Location::parse(&file) else {
                report.outside += 1;
                continue;
            };
            if reachable.names(&location) {
                continue;
            }
            if roots.places().iter().any(|place| place.contains(&location)) {
                unreferenced.insert(location.to_string());
            } else {
                report.outside += 1;
            }
        }
        Ok(unreferenced.into_iter().collect())
    }
}

/// A table as it would be without some snapshots, and their statistics.
fn without(metadata: &TableMetadata, snapshots: &[i64]) -> Result<TableMetadata, Error> {
    let failed = |error| hexfloe_catalog::Error::Definition(Box::new(error));
    let mut builder = metadata.clone().into_builder(None).remove_snapshots(snapshots);
    for snapshot in snapshots {
        builder = builder.remove_statistics(*snapshot).remove_partition_statistics(*snapshot);
    }
    Ok(builder.build().map_err(failed)?.metadata)
}

fn said(base: &Table, expiry: &Expiry, applied: bool) -> ExpireReport {
    let expired = expiry.snapshots.iter().filter_map(|id| base.metadata().snapshot_by_id(*id));
    let expired = expired
        .map(|snapshot| Expired { snapshot_id: snapshot.snapshot_id(), committed: text(snapshot.timestamp_ms()) });
    ExpireReport {
        table: base.identifier().to_string(),
        applied,
        snapshots: expired.collect(),
        refs: expiry.refs.iter().cloned().collect(),
        ..ExpireReport::default()
    }
}

fn record(table: &TableIdent, file: &str, fate: Fate) -> FileRecord {
    let by = file.rsplit('/').next().and_then(crate::Attribution::of);
    FileRecord { table: table.to_string(), file: file.to_owned(), size: None, last_modified_ms: None, fate, by }
}
