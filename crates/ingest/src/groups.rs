//! Several jobs in a row, several batches in one commit.
//!
//! Jobs are prepared one after the other. What is prepared waits, as a list of its data files, until a group is full or
//! the next job does not belong to it; then the group is committed in one snapshot. That is fewer commits and fewer
//! snapshots, and each batch keeps its id in the column, the ledger and the summary.
//!
//! A batch that fails does not take others with it. A group that fails for a reason that may be that of one of its batches is
//! taken apart: its jobs are prepared again, and each is committed by itself.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hexfloe_commit::{BatchCommit, Replaces};
use hexfloe_source::Source;

use crate::job::{Granularity, Job, Mode};
use crate::mode::Replacement;
use crate::notify::Settled;
use crate::run::{Ingest, Landing, MAX_STARTS, Preparation, Prepared, RunOptions, restartable, source_settings};
use crate::{Error, ErrorKind, Report};

/// A prepared batch waits no longer than this for others: a group must not become too old to be committed.
const MAX_WAIT_MS: i64 = 3_600_000;

/// One of the jobs of [`Ingest::run_all`].
#[derive(Clone, Debug)]
pub struct JobRun {
    /// The job.
    pub job: Job,
    /// Its options.
    pub options: RunOptions,
}

/// What came of one batch of [`Ingest::run_all`], or of a job that did not come to a batch.
#[derive(Clone, Debug)]
pub struct BatchEnd {
    /// The place of its job among those that were given.
    pub job: usize,
    /// With granularity `file`: the file, as it is named in its batch id.
    pub file: Option<Arc<str>>,
    /// What came of it.
    pub fate: Fate,
}

/// What came of a batch.
#[derive(Clone, Debug)]
#[must_use]
pub enum Fate {
    /// It was committed, skipped, or looked at only.
    Settled(Box<Report>),
    /// It failed. Batches that were to be committed together may share an error.
    Failed(Arc<Error>),
    /// It was not begun, because of a failure before it.
    NotRun,
}

/// A batch that is to be landed.
struct Task {
    job: usize,
    file: Option<Arc<str>>,
    begun_ms: Option<i64>,
    starts: u32,
    /// Whether it is committed by itself: a group with it failed.
    alone: bool,
}

/// A run of several jobs.
struct Series<'a> {
    ingest: &'a Ingest,
    runs: &'a [JobRun],
    group: usize,
    tell: &'a mut dyn FnMut(BatchEnd),
    queue: VecDeque<Task>,
    /// Prepared, and to be committed together. They are of jobs that may be.
    waiting: Vec<(Task, Prepared)>,
}

impl Ingest {
    /// Lands the batches of several jobs, each exactly once, and tells what came of each as soon as it is settled.
    ///
    /// Up to `group` batches go into one snapshot, if they come one after the other, are of one table and derivation, and of a
    /// mode that replaces no rows but a batch's own. A job with granularity `file` has a batch for each file.
    ///
    /// A failure does not keep the others from being landed, with two exceptions. When the catalog or the store cannot be
    /// reached, or the state of a commit is not known, nothing more is begun; what is prepared by then is committed. And when a
    /// file of a job fails whose batches replace each other's rows, the files after it are left, for their order matters.
    ///
    /// See [`Ingest::run`] for what holds of each batch.
    pub async fn run_all(&self, runs: &[JobRun], group: NonZeroUsize, tell: &mut dyn FnMut(BatchEnd)) {
        let queue = (0..runs.len()).map(|job| Task { job, file: None, begun_ms: None, starts: 1, alone: false });
        let (queue, waiting) = (queue.collect(), Vec::new());
        Series { ingest: self, runs, group: group.get(), tell, queue, waiting }.run().await;
    }
}

impl Series<'_> {
    async fn run(&mut self) {
        loop {
            let Some(task) = self.queue.pop_front() else {
                if self.waiting.is_empty() {
                    return;
                }
                self.land().await;
                continue;
            };
            let JobRun { job, options } = &self.runs[task.job];
            if job.batch.granularity == Granularity::File && task.file.is_none() {
                self.expand(&task, job, options);
                continue;
            }
            let joins = |waiting: &Task| !task.alone && go_together(&self.runs[waiting.job], &self.runs[task.job]);
            if !self.waiting.iter().all(|(waiting, _)| joins(waiting)) {
                // First what comes first.
                self.queue.push_front(task);
                self.land().await;
                continue;
            }
            self.prepare(task, job, options).await;
        }
    }

    /// Puts the files of a job in its place.
    fn expand(&mut self, task: &Task, job: &Job, options: &RunOptions) {
        // What is said against the job is said once, and not for each file.
        let files = Replacement::of(job, options.run_date.as_deref(), options.force)
            .and_then(|_| Ok(Source::list(&source_settings(job)?, &options.base, &self.ingest.remotes()?)?));
        match files {
            Ok(files) => {
                for file in files.iter().rev() {
                    let file = Some(file.as_str().into());
                    self.queue.push_front(Task { file, begun_ms: None, ..*task });
                }
            }
            Err(error) => self.fail(vec![Task { file: None, ..*task }], error),
        }
    }

    async fn prepare(&mut self, mut task: Task, job: &Job, options: &RunOptions) {
        task.begun_ms.get_or_insert(self.ingest.environment.now_ms());
        let job = match &task.file {
            None => Cow::Borrowed(job),
            Some(file) => {
                let mut job = job.clone();
                job.source.paths = vec![file.to_string()];
                Cow::Owned(job)
            }
        };
        match self.ingest.prepare(&job, options).await {
            Ok(Preparation::Settled(settled)) => self.settle(task, *settled).await,
            Ok(Preparation::Ready(prepared)) => {
                if self.waiting.iter().any(|(_, waiting)| !fit(&waiting.batch, &prepared.batch)) {
                    self.land().await;
                }
                let alone = task.alone;
                self.waiting.push((task, *prepared));
                let oldest = self.waiting.iter().map(|(_, waiting)| waiting.batch.started_ms).min();
                let late = oldest.is_some_and(|oldest| self.ingest.environment.now_ms() - oldest >= MAX_WAIT_MS);
                if alone || late || self.waiting.len() >= self.group || !may_wait(job.table.mode) {
                    self.land().await;
                }
            }
            Err(error) if restartable(&error) && task.starts < MAX_STARTS => {
                self.queue.push_front(Task { starts: task.starts + 1, ..task });
            }
            Err(error) => self.fail(vec![task], error),
        }
    }

    /// Commits what waits. What has to be prepared again is put back to the front of the queue.
    async fn land(&mut self) {
        let (tasks, prepared): (Vec<Task>, Vec<Prepared>) = self.waiting.drain(..).unzip();
        match self.ingest.land(prepared, Landing::OneTable).await {
            Ok(settled) => {
                for (task, settled) in std::iter::zip(tasks, settled) {
                    self.settle(task, settled).await;
                }
            }
            Err(error) if restartable(&error) && tasks.iter().all(|task| task.starts < MAX_STARTS) => {
                let again = tasks.into_iter().map(|task| Task { starts: task.starts + 1, ..task });
                self.put_back(again.collect());
            }
            // It may be about one of them alone.
            Err(error) if tasks.len() > 1 && is_about_a_batch(&error) => {
                self.put_back(tasks.into_iter().map(|task| Task { alone: true, ..task }).collect());
            }
            Err(error) => self.fail(tasks, error),
        }
    }

    /// Others are told of a batch before whoever runs this is: what came of that is part of the report.
    async fn settle(&mut self, task: Task, settled: Settled) {
        let JobRun { job, options } = &self.runs[task.job];
        let begun_ms = task.begun_ms.unwrap_or_else(|| self.ingest.environment.now_ms());
        let report = self.ingest.tell(job, options, settled, begun_ms).await;
        self.tell(task, Fate::Settled(Box::new(report)));
    }

    fn put_back(&mut self, tasks: Vec<Task>) {
        for task in tasks.into_iter().rev() {
            self.queue.push_front(task);
        }
    }

    fn fail(&mut self, tasks: Vec<Task>, error: Error) {
        let stops = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown);
        let ordered: Vec<usize> =
            tasks.iter().map(|task| task.job).filter(|job| !may_wait(self.runs[*job].job.table.mode)).collect();
        let error = Arc::new(error);
        for task in tasks {
            self.tell(task, Fate::Failed(Arc::clone(&error)));
        }
        let is_left = |task: &Task| stops || (task.file.is_some() && ordered.contains(&task.job));
        let (left, kept): (VecDeque<Task>, _) = std::mem::take(&mut self.queue).into_iter().partition(is_left);
        self.queue = kept;
        for task in left {
            self.tell(task, Fate::NotRun);
        }
    }

    fn tell(&mut self, task: Task, fate: Fate) {
        (self.tell)(BatchEnd { job: task.job, file: task.file, fate });
    }
}

/// Whether batches of the mode replace no rows but their own, so that they may wait for others and their order does not
/// matter.
fn may_wait(mode: Mode) -> bool {
    matches!(mode, Mode::Batch | Mode::AppendOnce)
}

/// Whether the batches of two jobs may be committed together, as far as the jobs tell.
fn go_together(one: &JobRun, other: &JobRun) -> bool {
    let (one_table, other_table) = (&one.job.table, &other.job.table);
    one_table.name == other_table.name
        && one_table.mode == other_table.mode
        && may_wait(one_table.mode)
        && one.options.branch == other.options.branch
}

/// Whether two prepared batches may be committed together.
fn fit(one: &BatchCommit, other: &BatchCommit) -> bool {
    let derivation = |batch: &BatchCommit| batch.derivation.as_ref().map(|it| (it.column.clone(), it.record.to_json()));
    let alone = |batch: &BatchCommit| matches!(batch.replaces, Replaces::Slice(_) | Replaces::Keys(_));
    one.table == other.table
        && one.branch == other.branch
        && one.written_for == other.written_for
        && one.batch_id != other.batch_id
        && derivation(one) == derivation(other)
        && !alone(one)
        && !alone(other)
}

/// Whether an error of a group may come from one of its batches.
fn is_about_a_batch(error: &Error) -> bool {
    !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Unknown | ErrorKind::Unavailable)
}
