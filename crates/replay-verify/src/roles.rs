//! What the actors do.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use hexfloe_commit::{BatchCheck, BatchCommit, BatchOutcome, Error, OnChangedInput, Retention, RollBackTo};
use hexfloe_orphan_cleanup::{Cleaner, ExpireOptions, NoSink, OrphanOptions};

use crate::foreign;
use crate::process::{Process, told};
use crate::scheduler::{HOUR_MS, Life};
use crate::table::{self, Trouble};

/// The branch that is not the main one.
const AUDIT: &str = "audit";

/// Every branch that there may be.
pub(crate) const BRANCHES: [&str; 2] = [BatchCommit::MAIN, AUDIT];

/// How often a writer whose attempt took too long begins again.
const ATTEMPTS: u32 = 3;

/// How long no file of an attempt is removed by a cleaner.
const SAFE_MS: i64 = 23 * HOUR_MS;

/// What an actor does with its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Writes batches, one after the other, and each of them once more or not.
    Writer { branch: &'static str, batches: Vec<(u64, Again)> },
    /// Rewrites all files into one, as another engine.
    Compactor,
    /// Takes the main branch back.
    RollBack,
    /// Publishes the audited branch.
    Publisher,
    /// Drops it.
    Dropper,
    /// Sets and removes tags.
    Tagger,
    /// Expires snapshots as another engine: the files stay.
    ForeignExpirer,
    /// Sets a property.
    Toucher,
    /// Expires snapshots.
    Expirer { older_than_hours: u64, retain_last: u32 },
    /// Removes orphans.
    Cleaner { margin_hours: u64, rounds: u32 },
}

/// Whether a writer gives a batch to the table once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It does not.
    No,
    /// The same files, at once.
    SameFiles,
    /// New files, some time later, as the next run of the same job does.
    NextRun,
}

impl Role {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Writer { .. } => "writer",
            Self::Compactor => "compactor",
            Self::RollBack => "rollback",
            Self::Publisher => "publisher",
            Self::Dropper => "dropper",
            Self::Tagger => "tagger",
            Self::ForeignExpirer => "engine",
            Self::Toucher => "toucher",
            Self::Expirer { .. } => "expirer",
            Self::Cleaner { .. } => "cleaner",
        }
    }

    /// The lives of an actor with this role: each is a new process, and the first begins after `delay_ms`.
    pub(crate) fn life(self, delay_ms: i64, new_process: impl Fn(u32) -> Result<Process, Trouble> + 'static) -> Life {
        Box::new(move |life| -> LocalBoxFuture<'static, ()> {
            let process = new_process(life);
            let role = self.clone();
            let delay_ms = if life == 0 { delay_ms } else { 0 };
            Box::pin(async move {
                let Ok(mut process) = process else { return };
                process.gate.pause(delay_ms).await;
                process.gate.note("begins", format!("{role:?}, life {life}"));
                match role.act(&mut process).await {
                    Ok(()) => process.gate.note("ends", ""),
                    Err(error) => process.gate.note("fails", told(error.as_ref())),
                }
            })
        })
    }

    async fn act(&self, process: &mut Process) -> Result<(), Trouble> {
        match self {
            Self::Writer { branch, batches } => {
                for (number, again) in batches {
                    write(process, branch, *number, *again).await?;
                }
                Ok(())
            }
            Self::Compactor => foreign::compact(process).await,
            Self::RollBack => roll_back(process).await,
            Self::Publisher => {
                let keep = process.random.chance(500);
                let published = process.committer.publish(&process.lake.table, AUDIT, keep).await?;
                process.gate.note("published", format!("{AUDIT}, main is at {}", published.to));
                Ok(())
            }
            Self::Dropper => {
                process.committer.drop_branch(&process.lake.table, AUDIT).await?;
                process.gate.note("dropped", AUDIT);
                Ok(())
            }
            Self::Tagger => foreign::tag(process).await,
            Self::ForeignExpirer => foreign::expire(process).await,
            Self::Toucher => foreign::touch(process).await,
            Self::Expirer { older_than_hours, retain_last } => expire(process, *older_than_hours, *retain_last).await,
            Self::Cleaner { margin_hours, rounds } => {
                for _ in 0..*rounds {
                    clean(process, *margin_hours).await?;
                }
                Ok(())
            }
        }
    }
}

/// Brings a batch into the table, as an ingest does: again from the start when it took too long.
async fn write(process: &mut Process, branch: &str, number: u64, again: Again) -> Result<(), Trouble> {
    for _ in 0..ATTEMPTS {
        let Prepared::Files(batch) = prepare(process, branch, number, false).await? else { return Ok(()) };
        let (batches, numbers) = ([*batch], [number]);
        if commit(process, &batches, &numbers).await?.is_none() {
            continue;
        }
        match again {
            Again::No => {}
            Again::SameFiles => {
                commit(process, &batches, &numbers).await?;
            }
            Again::NextRun => {
                let later_ms = process.random.between_ms(0, 30 * HOUR_MS);
                process.gate.pause(later_ms).await;
                if let Prepared::Files(batch) = prepare(process, branch, number, false).await? {
                    commit(process, &[*batch], &numbers).await?;
                }
            }
        }
        return Ok(());
    }
    Ok(())
}

/// What a look at the table comes to, before anything is committed.
pub(crate) enum Prepared {
    /// The batch is there.
    There(BatchOutcome),
    /// Its files are written.
    Files(Box<BatchCommit>),
}

/// Writes the files of a batch, unless the table is seen to have it. Now and then nobody looks first.
pub(crate) async fn prepare(
    process: &mut Process,
    branch: &str,
    number: u64,
    force: bool,
) -> Result<Prepared, Trouble> {
    let since = process.version();
    let table = process.load_or_create().await?;
    let batch_id = table::batch_id(number)?;
    let check = BatchCheck {
        batch_id: &batch_id,
        branch,
        derivation: None,
        records: &BTreeMap::new(),
        content_sha256: None,
        on_changed_input: OnChangedInput::Refuse,
        owns_slice: false,
        force,
    };
    if process.random.chance(750)
        && let Some(outcome) = process.committer.check(&table, &check)?
    {
        process.report(number, branch, since, "it is there already".to_owned());
        return Ok(Prepared::There(outcome));
    }
    let batch = table::write_batch(&process.catalog, &process.environment, &table, number, branch).await?;
    Ok(Prepared::Files(Box::new(BatchCommit { force, ..batch })))
}

/// Commits batches with these numbers; `None` when it took too long.
pub(crate) async fn commit(
    process: &Process,
    batches: &[BatchCommit],
    numbers: &[u64],
) -> Result<Option<Vec<BatchOutcome>>, Trouble> {
    let (since, failures) = (process.version(), process.failures());
    let started_ms = batches.iter().map(|batch| batch.started_ms).min().unwrap_or(i64::MAX);
    match process.committer.commit_all(batches).await {
        Ok(outcomes) => {
            for ((batch, number), outcome) in batches.iter().zip(numbers).zip(&outcomes) {
                let said = match outcome {
                    BatchOutcome::Committed { snapshot_id, .. } => format!("committed in snapshot {snapshot_id}"),
                    BatchOutcome::Skipped { .. } => "skipped".to_owned(),
                };
                process.report(*number, &batch.branch, since, said);
            }
            Ok(Some(outcomes))
        }
        Err(error @ Error::TooLate { .. }) => {
            process.gate.note("is late", error.to_string());
            Ok(None)
        }
        // The last is a table whose metadata file went, as superseded, between pointer and reading.
        Err(
            error @ (Error::Exhausted { .. } | Error::Unknown { .. } | Error::Unsuitable { .. } | Error::Catalog(_)),
        ) => Err(error.into()),
        // Nobody here is suspended so long that it could be.
        Err(error @ Error::Lost { .. }) => {
            process.surprise(&told(&error));
            Err(error.into())
        }
        // By then its files may be gone.
        Err(error) if process.environment.now_ms().saturating_sub(started_ms) > SAFE_MS => {
            process.gate.note("is late", told(&error));
            Ok(None)
        }
        // It is told, and the batch is not in the table, or will be found to be.
        Err(error) if process.failures() > failures => Err(error.into()),
        // Nothing was lost or broken, and nobody changes the schema.
        Err(error) => {
            process.surprise(&told(&error));
            Err(error.into())
        }
    }
}

/// Takes the main branch back by some of its snapshots.
async fn roll_back(process: &mut Process) -> Result<(), Trouble> {
    let table = process.load().await?;
    let metadata = table.metadata();
    let parent = |id: &i64| metadata.snapshot_by_id(*id)?.parent_snapshot_id();
    let retained = |id: &i64| metadata.snapshot_by_id(*id).is_some();
    let line = std::iter::successors(metadata.current_snapshot_id(), parent).skip(1).take_while(retained);
    let line: Vec<i64> = line.collect();
    let Some(to) = line.get(process.random.index(line.len())) else { return Ok(()) };
    let back = process.committer.roll_back(&process.lake.table, &RollBackTo::Snapshot(*to)).await?;
    process.gate.note("went back", format!("from {} to {}", back.from, back.to));
    Ok(())
}

/// Removes orphans older than the margin.
pub(crate) async fn clean(process: &Process, margin_hours: u64) -> Result<(), Trouble> {
    let cleaner = Cleaner::new(process.catalog.clone(), process.environment.clone());
    let options = OrphanOptions {
        older_than: Duration::from_hours(margin_hours),
        apply: true,
        max_fraction: 1.0,
        ..OrphanOptions::default()
    };
    let report = cleaner.orphans(&process.lake.table, &options, &mut NoSink).await?;
    let (orphans, removed) = (report.orphans.files, report.removed.files);
    process.gate.note("cleaned", format!("{removed} of {orphans} orphans"));
    Ok(())
}

/// Expires snapshots, with their files.
async fn expire(process: &Process, older_than_hours: u64, retain_last: u32) -> Result<(), Trouble> {
    let cleaner = Cleaner::new(process.catalog.clone(), process.environment.clone());
    let retention =
        Retention { older_than: Some(Duration::from_hours(older_than_hours)), retain_last: Some(retain_last) };
    let options = ExpireOptions { retention, apply: true, ..ExpireOptions::default() };
    let report = cleaner.expire(&process.lake.table, &options, &mut NoSink).await?;
    let (snapshots, removed) = (report.snapshots.len(), report.removed);
    process.gate.note("expired", format!("{snapshots} snapshots, and {removed} files"));
    Ok(())
}
