//! Several tables from one batch, in one commit.

use std::collections::HashSet;
use std::sync::Arc;

use crate::Error;
use crate::groups::{BatchEnd, Fate, JobRun};
use crate::job::Granularity;
use crate::notify::Settled;
use crate::run::{Ingest, Landing, MAX_STARTS, Preparation, Prepared, restartable};

/// Why nothing was committed, and which job it was, if it was one alone.
struct Failure {
    job: Option<usize>,
    error: Error,
}

impl Ingest {
    /// Lands the batches of several jobs, each of another table, in one commit: readers see all of them, or none. Tables that
    /// have their batch already are left as they are.
    ///
    /// The jobs mostly read one input, and so have one batch id. When one fails nothing is committed to any table.
    pub async fn run_together(&self, runs: &[JobRun], tell: &mut dyn FnMut(BatchEnd)) {
        let begun_ms = self.environment.now_ms();
        let mut starts = 1;
        let ended = loop {
            match self.start_together(runs).await {
                Err(failure) if restartable(&failure.error) && starts < MAX_STARTS => starts += 1,
                ended => break ended,
            }
        };
        let mut end = |job: usize, fate: Fate| tell(BatchEnd { job, file: None, fate });
        match ended {
            Ok(settled) => {
                for (job, (run, settled)) in std::iter::zip(runs, settled).enumerate() {
                    let report = self.tell(&run.job, &run.options, settled, begun_ms).await;
                    end(job, Fate::Settled(Box::new(report)));
                }
            }
            Err(failure) => {
                let Failure { job: failed, error } = *failure;
                let error = Arc::new(error);
                for job in 0..runs.len() {
                    let is_its = failed.is_none_or(|failed| failed == job);
                    end(job, if is_its { Fate::Failed(Arc::clone(&error)) } else { Fate::NotRun });
                }
            }
        }
    }

    async fn start_together(&self, runs: &[JobRun]) -> Result<Vec<Settled>, Box<Failure>> {
        let failure = |job: Option<usize>, error: Error| Box::new(Failure { job, error });
        let mut tables = HashSet::new();
        for (number, run) in runs.iter().enumerate() {
            let refuse = |reason: String| Err(failure(Some(number), Error::Job(reason)));
            if run.job.batch.granularity == Granularity::File {
                return refuse(
                    "batch.granularity = \"file\" makes several batches, and one for each table is committed together"
                        .into(),
                );
            }
            if !tables.insert(&run.job.table.name) {
                return refuse(format!(
                    "two jobs are of table {}, and one for each table is committed together",
                    run.job.table.name
                ));
            }
        }
        // Before anything is read: without it the tables would change one after the other.
        if runs.len() > 1 && !self.commits_together() {
            let tables = runs.iter().map(|run| run.job.table.name.clone()).collect();
            return Err(failure(None, hexfloe_catalog::Error::NotTogether { tables }.into()));
        }
        let mut settled: Vec<Option<Settled>> = Vec::with_capacity(runs.len());
        let mut waiting: Vec<Prepared> = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            match self.prepare(&run.job, &run.options).await {
                Ok(Preparation::Settled(known)) => settled.push(Some(*known)),
                Ok(Preparation::Ready(prepared)) => {
                    settled.push(None);
                    waiting.push(*prepared);
                }
                Err(error) => {
                    self.abandon(waiting).await;
                    return Err(failure(Some(number), error));
                }
            }
        }
        let landed = match waiting.is_empty() {
            true => Vec::new(),
            false => self.land(waiting, Landing::SeveralTables).await.map_err(|error| failure(None, error))?,
        };
        let mut landed = landed.into_iter();
        Ok(settled.into_iter().filter_map(|settled| settled.or_else(|| landed.next())).collect())
    }
}
