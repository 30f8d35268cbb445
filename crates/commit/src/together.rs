//! One commit of several tables.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hexfloe_catalog::CommitOutcome;

use crate::batch::{BatchCommit, BatchOutcome};
use crate::committer::{
    Answer, Attempt, Committer, Decision, Group, Sent, Settled, is_about_files, is_open, look, unknown,
};
use crate::retry::Backoff;
use crate::{Error, ErrorKind};

impl Committer {
    /// Makes several tables hold a batch each, in one commit: readers see all of them, or none. Tables that have their batch
    /// already are left as they are. The outcomes are in the order of the batches.
    ///
    /// What holds of [`Committer::commit`] holds of each batch.
    ///
    /// # Errors
    ///
    /// See [`Error`]; [`Error::Inconsistent`] when two batches are of one table, and
    /// [`NotTogether`](hexfloe_catalog::Error::NotTogether) when the catalog cannot change several tables at once.
    pub async fn commit_together(&self, batches: &[BatchCommit]) -> Result<Vec<BatchOutcome>, Error> {
        if let [batch] = batches {
            return Ok(vec![self.commit(batch).await?]);
        }
        let groups: Vec<Group<'_>> = batches.iter().map(Group::of_one).collect();
        let mut sent: Vec<Vec<Sent>> = groups.iter().map(|_| Vec::new()).collect();
        let result = match self.refuse_apart(batches) {
            Ok(()) => self.attempts_together(&groups, &mut sent).await,
            Err(error) => Err(error),
        };
        let (settled, attempts, waited) = match result {
            Ok(settled) => settled,
            Err(error) => {
                let undecided = !error.is_decided() && sent.iter().any(|sent| is_open(sent));
                let error = match (undecided, groups.first()) {
                    (true, Some(group)) => unknown(*group, error),
                    _ => error,
                };
                // Nothing of a batch is removed while another's fate is open: they land together.
                if error.kind() != ErrorKind::Unknown {
                    for (group, sent) in std::iter::zip(&groups, &sent) {
                        self.remove_lost(*group, sent, |_| false).await;
                    }
                }
                return Err(error);
            }
        };
        let mut outcomes = Vec::with_capacity(batches.len());
        for ((group, sent), settled) in std::iter::zip(std::iter::zip(&groups, &sent), settled) {
            outcomes.extend(self.conclude(*group, sent, Ok((settled, attempts, waited))).await?);
        }
        Ok(outcomes)
    }

    fn refuse_apart(&self, batches: &[BatchCommit]) -> Result<(), Error> {
        let mut tables = HashSet::new();
        for batch in batches {
            Group::of_one(batch).refuse_inconsistent()?;
            if !tables.insert(&batch.table) {
                let reason =
                    format!("two batches are of table {}; a commit of several tables has one for each", batch.table);
                return Err(Error::Inconsistent { batch_id: batch.batch_id.to_string(), reason });
            }
        }
        if !self.catalog().port().commits_together() {
            let tables = batches.iter().map(|batch| batch.table.to_string()).collect();
            return Err(hexfloe_catalog::Error::NotTogether { tables }.into());
        }
        Ok(())
    }

    async fn attempts_together(
        &self,
        groups: &[Group<'_>],
        sent: &mut [Vec<Sent>],
    ) -> Result<(Vec<Vec<Settled>>, u32, Duration), Error> {
        let (mut conflicts, mut unknowns) = (0_u32, 0_u32);
        let mut waited = Duration::ZERO;
        let mut properties = HashMap::new();
        let tables = groups.iter().map(Group::table).collect::<Vec<_>>().join(", ");
        loop {
            let attempts = u32::try_from(sent.iter().map(Vec::len).max().unwrap_or(0)).unwrap_or(u32::MAX).max(1);
            let outcome = match self.turn(groups, sent, &mut properties).await {
                Ok(Turn::Settled(settled)) => {
                    for (group, settled) in std::iter::zip(groups, &settled) {
                        self.refuse_lost(*group, settled).await?;
                    }
                    return Ok((settled, attempts, waited));
                }
                Ok(Turn::Sent(outcome)) => outcome,
                // While a request is not settled, a table that cannot be read decides nothing.
                Err(error) if sent.iter().flatten().any(|sent| sent.answer != Answer::Refuted) => {
                    Attempt::Unknown { reason: error.to_string(), source: Some(Box::new(error)) }
                }
                Err(error) => return Err(error),
            };
            let jitter = self.environment().jitter();
            let (wait, given_up) = match outcome {
                // Looked at once more: only the tables tell that all of them have it.
                Attempt::Settled(_) => continue,
                Attempt::Failed(error) => (None, error),
                Attempt::Conflict { reason } => {
                    conflicts += 1;
                    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                    let given_up = Error::Exhausted { table: tables.clone(), attempts, waited_ms, reason };
                    (Backoff::for_conflicts(&properties).wait(conflicts, waited, jitter), given_up)
                }
                Attempt::Unknown { reason, source } => {
                    unknowns += 1;
                    let given_up = Error::Unknown { table: tables.clone(), reason, source };
                    (Backoff::for_status_checks(&properties).wait(unknowns, waited, jitter), given_up)
                }
            };
            let Some(wait) = wait else {
                // One last look, as for one table.
                return match self.look_at_all(groups, sent).await {
                    Ok(Some(settled)) => Ok((settled, attempts, waited)),
                    Err(error) if matches!(given_up, Error::Exhausted { .. }) => {
                        Err(Error::Unknown { table: tables, reason: error.to_string(), source: Some(Box::new(error)) })
                    }
                    _ => Err(given_up),
                };
            };
            self.environment().sleep(wait).await;
            waited = waited.saturating_add(wait);
        }
    }

    /// One attempt, decided on the tables as they are loaded for it.
    async fn turn(
        &self,
        groups: &[Group<'_>],
        sent: &mut [Vec<Sent>],
        properties: &mut HashMap<String, String>,
    ) -> Result<Turn, Error> {
        let mut settled: Vec<Option<Vec<Settled>>> = Vec::with_capacity(groups.len());
        let mut requests = Vec::new();
        let mut sending = Vec::new();
        let mut failed = None;
        for (number, (group, sent)) in std::iter::zip(groups, sent.iter_mut()).enumerate() {
            let mut base = None;
            let decided = async {
                let table = self.load(*group).await?;
                base = table.metadata_location().map(str::to_owned);
                if number == 0 {
                    properties.clone_from(table.metadata().properties());
                }
                match look(&table, sent, self.is_certain()) {
                    Some(landed) => Ok(Decision::Done(landed)),
                    None => self.decide(*group, table, sent).await,
                }
            };
            match decided.await {
                Ok(Decision::Done(Attempt::Settled(done))) => settled.push(Some(done)),
                Ok(Decision::Done(other)) => {
                    failed = Some(Ok(Turn::Sent(other)));
                    break;
                }
                Ok(Decision::Send(send)) => {
                    let (request, this) = *send;
                    requests.push(request);
                    sending.push((number, this));
                    settled.push(None);
                }
                Err(error) if is_about_files(&error) && self.moved_on(*group, base.as_deref()).await => {
                    let reason = format!("its files went while they were read ({error})");
                    failed = Some(Ok(Turn::Sent(Attempt::Conflict { reason })));
                    break;
                }
                Err(error) => {
                    failed = Some(Err(error));
                    break;
                }
            }
        }
        // Deciding on one table takes time in which the files of another get old.
        let late = sending.iter().find_map(|(number, _)| self.refuse_late(groups[*number]).err());
        let failed = failed.or_else(|| late.map(Err));
        if let Some(failed) = failed {
            // Nothing was sent of what was drafted for the tables before it.
            for (_, unsent) in &sending {
                self.remove(unsent.files.iter().map(String::as_str)).await;
            }
            return failed;
        }
        if let Some(settled) = settled.into_iter().collect::<Option<Vec<_>>>() {
            return Ok(Turn::Settled(settled));
        }
        let port = self.catalog().port();
        let outcome = match requests.as_slice() {
            // The others have their batch already.
            [request] => port.commit(request).await.map(|outcome| outcome.map(|table| vec![table])),
            requests => port.commit_together(requests).await,
        };
        let denied = matches!(outcome, Ok(CommitOutcome::Conflict { .. }) | Err(_));
        let attempt = match outcome {
            Ok(CommitOutcome::Committed(tables)) => {
                let all = std::iter::zip(&tables, &sending).all(|(table, (_, this))| this.is_in(table));
                if all {
                    sent.iter_mut().flatten().for_each(Sent::superseded);
                    Attempt::Settled(Vec::new())
                } else {
                    Attempt::not_in_the_table()
                }
            }
            Ok(CommitOutcome::Conflict { reason }) => Attempt::Conflict { reason },
            Ok(CommitOutcome::Unknown { reason, source }) => Attempt::Unknown { reason, source },
            Err(error) => Attempt::Failed(error.into()),
        };
        for (number, mut this) in sending {
            if denied {
                this.answer = Answer::Denied;
            }
            sent[number].push(this);
        }
        Ok(Turn::Sent(attempt))
    }

    /// What became of every batch, if all of them are in their tables by a request of this call.
    async fn look_at_all(
        &self,
        groups: &[Group<'_>],
        sent: &mut [Vec<Sent>],
    ) -> Result<Option<Vec<Vec<Settled>>>, Error> {
        // Every table is looked at: what is denied is refuted by its own table only.
        let mut all = Some(Vec::with_capacity(groups.len()));
        for (group, sent) in std::iter::zip(groups, sent) {
            let table = self.load(*group).await?;
            match (look(&table, sent, self.is_certain()), &mut all) {
                (Some(Attempt::Settled(settled)), Some(all)) => all.push(settled),
                _ => all = None,
            }
        }
        Ok(all)
    }
}

/// What one turn came to.
enum Turn {
    /// Every batch is settled; for each table what became of its batches.
    Settled(Vec<Vec<Settled>>),
    /// Something was sent, or could not be decided.
    Sent(Attempt),
}
