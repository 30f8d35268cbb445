//! The exactly-once loop.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hexfloe_batch::{BATCH_ID_COLUMN, BatchId, DerivationRecord};
use hexfloe_catalog::{CommitOutcome, CommitRequest, OpenCatalog};
use iceberg::spec::{DataFile, Operation, TableMetadata};
use iceberg::table::Table;
use iceberg::{TableIdent, TableUpdate};

use crate::base::{self, Base, ManifestCache, Relevance};
use crate::batch::{BatchCheck, BatchCommit, BatchOutcome, Derivation, Keys, OnChangedInput, Replaces, WrittenFor};
use crate::environment::SharedEnvironment;
use crate::filter::Filter;
use crate::history::{SummaryBatch, batches_of, newest_of};
use crate::ledger::{Ledger, LedgerBounds, ancestry};
use crate::plan::{Fate, Plan};
use crate::retry::Backoff;
use crate::running::{Running, announce};
use crate::snapshot::{self, AddedFile, SnapshotDraft, SnapshotRequest};
use crate::{Error, Locations, names, refs, rewrite};

/// An attempt older than this does not commit: half of the age at which cleanup may take its files at the earliest.
const MAX_ATTEMPT_HOURS: i64 = 12;

/// The files of an attempt older than this are looked for before they are committed: somebody may have cleaned up with too
/// short a margin.
const TRUSTED_MS: i64 = 60_000;

/// How many files are looked for at once.
const CONCURRENT_CHECKS: usize = 16;

/// How far the clocks of two writers may be apart when snapshots are told from their times.
const CLOCK_TOLERANCE_MS: i64 = 3_600_000;

/// Commits batches to the tables of one catalog. A series of batches is best given to one committer: it need not read
/// again the manifests it has seen, and they are all it remembers.
#[derive(Clone, Debug)]
pub struct Committer {
    catalog: OpenCatalog,
    environment: SharedEnvironment,
    bounds: LedgerBounds,
    cache: Arc<ManifestCache>,
}

/// What one turn of the loop came to.
pub(crate) enum Attempt {
    /// Every batch is settled.
    Settled(Vec<Settled>),
    Conflict {
        reason: String,
    },
    Unknown {
        reason: String,
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    Failed(Error),
}

/// What is to be done about a table, decided on it as it was loaded.
pub(crate) enum Decision {
    /// Nothing is to be sent.
    Done(Attempt),
    /// This is.
    Send(Box<(CommitRequest, Sent)>),
}

/// What became of one batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settled {
    Committed { snapshot_id: i64, replaced_rows: u64 },
    Skipped { snapshot_id: Option<i64> },
}

/// A request that was sent.
pub(crate) struct Sent {
    snapshot_id: i64,
    manifest_list: String,
    replaced_rows: u64,
    /// What became of each batch if it landed: those that were there already are in no request.
    settled: Vec<Settled>,
    /// What it is conditioned on.
    base: SentOn,
    /// Metadata files, and files written for rows that stay, of this attempt alone.
    pub(crate) files: Vec<String>,
    pub(crate) answer: Answer,
}

/// The head of the branch that a request was decided on.
struct SentOn {
    branch: String,
    snapshot_id: Option<i64>,
}

impl SentOn {
    fn of(table: &Table, branch: &str) -> Self {
        let mut this = Self { branch: branch.to_owned(), snapshot_id: None };
        this.snapshot_id = this.head_in(table);
        this
    }

    fn head_in(&self, table: &Table) -> Option<i64> {
        table.metadata().snapshot_for_ref(&self.branch).map(|snapshot| snapshot.snapshot_id())
    }
}

impl Sent {
    /// After a later request of ours has landed: one that was denied is conditioned on a head that is gone.
    pub(crate) fn superseded(&mut self) {
        if self.answer == Answer::Denied {
            self.answer = Answer::Refuted;
        }
    }

    /// Whether the table holds this request's snapshot. An id alone could be another writer's.
    pub(crate) fn is_in(&self, table: &Table) -> bool {
        let snapshot = table.metadata().snapshot_by_id(self.snapshot_id);
        snapshot.is_some_and(|snapshot| snapshot.manifest_list() == self.manifest_list)
    }

    fn landed(&self) -> Attempt {
        Attempt::Settled(self.settled.clone())
    }
}

impl Attempt {
    pub(crate) fn not_in_the_table() -> Self {
        let reason = "the catalog said committed, and its table does not hold the snapshot".to_owned();
        Self::Unknown { reason, source: None }
    }
}

/// What is known of a request that was sent and is not seen in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It may be applied, now or later. Nothing it names is ever removed.
    Open,
    /// The catalog says it was not applied. The table has not been looked at since: a catalog that got the request
    /// twice says so too. Or it was, and the request may still be applied.
    Denied,
    /// Denied, and a table loaded afterwards does not hold it, nor will one.
    Refuted,
}

/// Batches that are committed together: of one table, branch, schema and derivation.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    first: &'a BatchCommit,
    batches: &'a [BatchCommit],
}

impl<'a> Group<'a> {
    pub(crate) fn of_one(batch: &'a BatchCommit) -> Self {
        Self { first: batch, batches: std::slice::from_ref(batch) }
    }

    pub(crate) fn refuse_inconsistent(self) -> Result<(), Error> {
        refuse_inconsistent(self)
    }

    pub(crate) fn table(&self) -> String {
        self.first.table.to_string()
    }

    /// When the oldest file was begun.
    fn started_ms(&self) -> i64 {
        self.batches.iter().map(|batch| batch.started_ms).min().unwrap_or(self.first.started_ms)
    }
}

impl Committer {
    /// A committer with the default ledger bounds.
    pub fn new(catalog: OpenCatalog, environment: SharedEnvironment) -> Self {
        Self { catalog, environment, bounds: LedgerBounds::default(), cache: Arc::default() }
    }

    /// The same with other ledger bounds.
    #[must_use]
    pub fn with_ledger_bounds(self, bounds: LedgerBounds) -> Self {
        Self { bounds, ..self }
    }

    pub(crate) fn catalog(&self) -> &OpenCatalog {
        &self.catalog
    }

    pub(crate) fn environment(&self) -> &SharedEnvironment {
        &self.environment
    }

    /// Whether what the port denies is certain.
    pub(crate) fn is_certain(&self) -> bool {
        self.catalog.port().is_certain()
    }

    /// Says that something is being committed that is no batch.
    pub(crate) fn announce(&self, table: &TableIdent) -> Option<Running> {
        let folder = self.environment.announcements()?;
        announce(&folder, &table.to_string(), "-", &self.environment.uuid().simple().to_string())
    }

    pub(crate) fn ledger_bounds(&self) -> LedgerBounds {
        self.bounds
    }

    /// Whether a batch is in the table, as far as that is recorded, and whether the table's cells are derived as ours are.
    ///
    /// It is when the ledger has it, or when a snapshot the branch descends from says that it holds the same input. For a
    /// slice whose input may change only the latter counts. This is the check that [`Committer::commit`] makes on each attempt; made before anything is read or written it saves the
    /// work.
    ///
    /// # Errors
    ///
    /// [`Error::Derivation`], [`Error::Record`], [`Error::BranchName`] and [`Error::ChangedInput`].
    pub fn check(&self, table: &Table, batch: &BatchCheck<'_>) -> Result<Option<BatchOutcome>, Error> {
        let metadata = table.metadata();
        refuse_unreadable_partitions(table)?;
        if let Some(derivation) = batch.derivation {
            check_derivation(table, derivation)?;
        }
        check_records(table, batch.records)?;
        refs::check_branch_name(batch.branch)?;
        if batch.branch != BatchCommit::MAIN {
            refs::retention(metadata, &table.identifier().to_string(), batch.branch)?;
        }
        let recorded = newest_of(metadata, batch.branch, batch.batch_id.as_str());
        let digests =
            recorded.as_ref().and_then(|(_, recorded)| recorded.content_sha256.as_ref()).zip(batch.content_sha256);
        let same = digests.map(|(then, now)| *then == now.to_string());
        if same == Some(false) && batch.on_changed_input == OnChangedInput::Refuse {
            return Err(Error::ChangedInput {
                table: table.identifier().to_string(),
                batch_id: batch.batch_id.to_string(),
                then: digests.map(|(then, _)| then.clone()).unwrap_or_default(),
                now: batch.content_sha256.map(ToString::to_string).unwrap_or_default(),
            });
        }
        // The input of a slice may change by design, and the ledger does not say which input it was.
        let may_differ = batch.owns_slice && batch.on_changed_input == OnChangedInput::Replace;
        let told = same.is_some() || !may_differ;
        let in_ledger = || Ledger::of_branch(metadata, batch.branch).contains(batch.batch_id.as_str());
        let known = same == Some(true) || (told && in_ledger());
        if batch.force || same == Some(false) || !known {
            return Ok(None);
        }
        Ok(Some(BatchOutcome::Skipped { snapshot_id: recorded.map(|(snapshot_id, _)| snapshot_id) }))
    }

    /// Makes the table hold exactly the rows of `batch` under its batch id, in one snapshot, together with the ledger.
    ///
    /// Everything is decided on every attempt from a freshly loaded table; only the data files are kept from one
    /// attempt to the next. On return the data files are in the table ([`BatchOutcome::Committed`]), or removed
    /// (skipped, or an error). They are left alone when the outcome is unknown, and when the table cannot be asked once
    /// more whether a snapshot refers to them: then cleanup finds them. The same `batch` may be given again, whatever
    /// became of it.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn commit(&self, batch: &BatchCommit) -> Result<BatchOutcome, Error> {
        let outcomes = self.commit_all(std::slice::from_ref(batch)).await?;
        outcomes.into_iter().next().ok_or_else(|| inconsistent(batch, "it was not settled"))
    }

    /// The same for several batches of one table in one snapshot: those that the table does not have yet, each keeping its
    /// identity in column, ledger and summary. The outcomes are in the order of the batches.
    ///
    /// # Errors
    ///
    /// See [`Error`]; [`Error::Inconsistent`] when the batches are not of one table, branch, schema and derivation, when one is
    /// named twice, or when one of several replaces more than its own rows.
    pub async fn commit_all(&self, batches: &[BatchCommit]) -> Result<Vec<BatchOutcome>, Error> {
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let group = Group { first, batches };
        let mut sent = Vec::new();
        let result = match refuse_inconsistent(group) {
            Ok(()) => self.attempts(group, &mut sent).await,
            Err(error) => Err(error),
        };
        self.conclude(group, &sent, result).await
    }

    /// Removes what is not needed any more, and tells the outcomes.
    pub(crate) async fn conclude(
        &self,
        group: Group<'_>,
        sent: &[Sent],
        result: Result<(Vec<Settled>, u32, Duration), Error>,
    ) -> Result<Vec<BatchOutcome>, Error> {
        match result {
            Ok((settled, attempts, waited)) => {
                let landed: HashSet<i64> = settled.iter().filter_map(Settled::committed).collect();
                let lost =
                    sent.iter().filter(|sent| sent.answer == Answer::Refuted && !landed.contains(&sent.snapshot_id));
                if landed.is_empty() {
                    self.remove_lost(group, sent, |_| false).await;
                } else {
                    self.remove(lost.flat_map(|sent| &sent.files).map(String::as_str)).await;
                    let is_committed = |index: usize| settled[index].committed().is_some();
                    if !(0..group.batches.len()).all(is_committed) {
                        self.remove_lost(group, sent, is_committed).await;
                    }
                }
                let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                let outcome = |settled: &Settled| match *settled {
                    Settled::Committed { snapshot_id, replaced_rows } => {
                        BatchOutcome::Committed { snapshot_id, replaced_rows, attempts, waited_ms }
                    }
                    Settled::Skipped { snapshot_id } => BatchOutcome::Skipped { snapshot_id },
                };
                Ok(settled.iter().map(outcome).collect())
            }
            Err(error) => {
                self.remove_lost(group, sent, |_| false).await;
                let undecided = !error.is_decided() && is_open(sent);
                Err(match error {
                    error if undecided => unknown(group, error),
                    Error::Changed { table, what, .. } => Error::Changed { table, what, sent: !sent.is_empty() },
                    error => error,
                })
            }
        }
    }

    /// Removes what batches that were not committed leave behind, as far as no snapshot refers to it.
    ///
    /// That an outcome was reported is no proof: an earlier call with the same files may have had its answer lost. So
    /// the table is asked once more, and when it does not answer, or is another one by now, everything stays.
    pub(crate) async fn remove_lost(&self, group: Group<'_>, sent: &[Sent], is_committed: impl Fn(usize) -> bool) {
        let refuted = sent.iter().filter(|sent| sent.answer == Answer::Refuted);
        let mut files: HashSet<&str> = refuted.flat_map(|sent| &sent.files).map(String::as_str).collect();
        for (index, batch) in group.batches.iter().enumerate().filter(|(index, _)| !is_committed(*index)) {
            // Nothing comes any more of a request that is refuted, or that did not name the batch.
            let out = |sent: &Sent| sent.answer == Answer::Refuted || sent.settled[index].committed().is_none();
            if sent.iter().all(out) {
                files.extend(batch.files.iter().map(DataFile::file_path));
            }
        }
        if files.is_empty() {
            return;
        }
        let Ok(table) = self.load(group).await else { return };
        if table.metadata().uuid() != group.first.written_for.uuid {
            return;
        }
        let started_ms = group.started_ms().min(self.environment.now_ms());
        let since_ms = started_ms.saturating_sub(CLOCK_TOLERANCE_MS);
        let Ok(referenced) = base::referenced(&table, since_ms, &files, &self.cache).await else { return };
        let mut lost: Vec<&str> = files.difference(&referenced).copied().collect();
        lost.sort_unstable();
        self.remove(lost.into_iter()).await;
    }

    /// Removes files of ours that nothing refers to. What cannot be removed is left to cleanup.
    pub async fn remove(&self, files: impl Iterator<Item = &str>) {
        for file in files {
            let _ = self.catalog.store().delete(file).await;
        }
    }

    async fn attempts(&self, group: Group<'_>, sent: &mut Vec<Sent>) -> Result<(Vec<Settled>, u32, Duration), Error> {
        let (mut conflicts, mut unknowns) = (0_u32, 0_u32);
        let mut waited = Duration::ZERO;
        let mut properties = HashMap::new();
        loop {
            let outcome = match self.load(group).await {
                Err(error @ Error::NoTable { .. }) if !is_open(sent) => return Err(error),
                // While a request is not settled, a table that cannot be read decides nothing.
                Err(error) if sent.iter().any(|sent| sent.answer != Answer::Refuted) => {
                    Attempt::Unknown { reason: error.to_string(), source: Some(Box::new(error)) }
                }
                Err(error) => return Err(error),
                Ok(table) => {
                    properties.clone_from(table.metadata().properties());
                    let base = table.metadata_location().map(str::to_owned);
                    match look(&table, sent, self.is_certain()) {
                        Some(landed) => landed,
                        None => match self.attempt(group, table, sent).await {
                            Err(error) if is_about_files(&error) && self.moved_on(group, base.as_deref()).await => {
                                Attempt::Conflict { reason: format!("its files went while they were read ({error})") }
                            }
                            outcome => outcome?,
                        },
                    }
                }
            };
            let attempts = u32::try_from(sent.len()).unwrap_or(u32::MAX).max(1);
            let jitter = self.environment.jitter();
            let (wait, given_up) = match outcome {
                Attempt::Settled(settled) => {
                    self.refuse_lost(group, &settled).await?;
                    return Ok((settled, attempts, waited));
                }
                Attempt::Failed(error) => (None, error),
                Attempt::Conflict { reason } => {
                    conflicts += 1;
                    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                    let given_up = Error::Exhausted { table: group.table(), attempts, waited_ms, reason };
                    (Backoff::for_conflicts(&properties).wait(conflicts, waited, jitter), given_up)
                }
                Attempt::Unknown { reason, source } => {
                    unknowns += 1;
                    let given_up = Error::Unknown { table: group.table(), reason, source };
                    (Backoff::for_status_checks(&properties).wait(unknowns, waited, jitter), given_up)
                }
            };
            let Some(wait) = wait else {
                // One last look: the answer to the last request may not have been the whole truth.
                return match self.load(group).await.map(|table| look(&table, sent, self.is_certain())) {
                    Ok(Some(Attempt::Settled(settled))) => Ok((settled, attempts, waited)),
                    Err(error) if matches!(given_up, Error::Exhausted { .. }) => Err(unknown(group, error)),
                    _ => Err(given_up),
                };
            };
            self.environment.sleep(wait).await;
            waited = waited.saturating_add(wait);
        }
    }

    pub(crate) async fn load(&self, group: Group<'_>) -> Result<Table, Error> {
        self.load_table(&group.first.table).await
    }

    pub(crate) async fn load_table(&self, table: &TableIdent) -> Result<Table, Error> {
        let loaded = self.catalog.load(table).await?;
        loaded.ok_or_else(|| Error::NoTable { table: table.to_string() })
    }

    /// Whether the table is not at `base` any more. Then what an attempt did not find may have been removed by whoever
    /// moved it: compaction and expiry delete the files of a base that somebody still works on.
    pub(crate) async fn moved_on(&self, group: Group<'_>, base: Option<&str>) -> bool {
        self.load(group).await.is_ok_and(|table| table.metadata_location() != base)
    }

    /// One attempt, decided on `table` and nothing else.
    async fn attempt(&self, group: Group<'_>, table: Table, sent: &mut Vec<Sent>) -> Result<Attempt, Error> {
        let (request, mut this) = match self.decide(group, table, sent).await? {
            Decision::Done(attempt) => return Ok(attempt),
            Decision::Send(send) => *send,
        };
        let outcome = match self.catalog.port().commit(&request).await {
            Ok(CommitOutcome::Committed(table)) if this.is_in(&table) => {
                sent.iter_mut().for_each(Sent::superseded);
                this.landed()
            }
            Ok(CommitOutcome::Committed(_)) => Attempt::not_in_the_table(),
            Ok(CommitOutcome::Conflict { reason }) => {
                this.answer = Answer::Denied;
                Attempt::Conflict { reason }
            }
            Ok(CommitOutcome::Unknown { reason, source }) => Attempt::Unknown { reason, source },
            Err(error) => {
                this.answer = Answer::Denied;
                Attempt::Failed(error.into())
            }
        };
        sent.push(this);
        Ok(outcome)
    }

    /// What to send, or that nothing is to be sent.
    pub(crate) async fn decide(&self, group: Group<'_>, table: Table, sent: &[Sent]) -> Result<Decision, Error> {
        let mut settled: Vec<Option<Settled>> = Vec::new();
        for batch in group.batches {
            settled.push(match self.check(&table, &BatchCheck::from(batch))? {
                Some(BatchOutcome::Skipped { snapshot_id }) => Some(Settled::Skipped { snapshot_id }),
                _ => None,
            });
        }
        let all = |settled: &[Option<Settled>]| settled.iter().copied().collect::<Option<Vec<_>>>();
        if let Some(skipped) = all(&settled) {
            // If a request of ours went out before, it may have been that one, even though its snapshot is not to be
            // seen any more.
            if sent.is_empty() {
                return Ok(Decision::Done(Attempt::Settled(skipped)));
            }
            let base = Base::load(table, &group.first.branch, &self.cache).await.ok();
            return Ok(Decision::Done(Attempt::Settled(match base {
                Some(base) => match landed_by_manifest(&base, sent) {
                    Some(landed) => return Ok(Decision::Done(landed)),
                    None => std::iter::zip(group.batches, skipped)
                        .map(|(batch, skipped)| landed_by_files(&base, batch, sent).unwrap_or(skipped))
                        .collect(),
                },
                None => skipped,
            })));
        }
        if !group.batches.iter().all(|batch| matches!(batch.replaces, Replaces::Slice(_))) {
            refuse_without_batch_column(&table)?;
        }
        refuse_changed(group.first, table.metadata())?;
        self.refuse_late(group)?;
        let base = match self.is_new(group, &table, sent) {
            true => Base::load_untouched(&table, &group.first.branch).await?,
            false => None,
        };
        let base = match base {
            Some(base) => Some(base),
            None => self.load_relevant(group, &table).await?,
        };
        let base = match base {
            Some(base) => base,
            None => Base::load(table, &group.first.branch, &self.cache).await?,
        };
        if let Some(landed) = landed_by_manifest(&base, sent) {
            return Ok(Decision::Done(landed));
        }
        for (batch, settled) in group.batches.iter().zip(&mut settled).filter(|(_, settled)| settled.is_none()) {
            *settled = landed_by_files(&base, batch, sent);
        }
        let plan = self.plan(group, &base, &mut settled).await?;
        if let Some(settled) = all(&settled) {
            return Ok(Decision::Done(Attempt::Settled(settled)));
        }
        let batches: Vec<&BatchCommit> = group
            .batches
            .iter()
            .zip(&settled)
            .filter(|(_, settled)| settled.is_none())
            .map(|(batch, _)| batch)
            .collect();

        let mut written = Vec::new();
        let draft = self.draft(&batches, &base, &plan, sent, &mut written).await;
        // Planning and writing can take long, or the process can have been stopped meanwhile.
        let draft = match draft {
            Ok(draft) => self.refuse_gone(group, &batches).await.map(|()| draft),
            Err(error) => Err(error),
        };
        // The last thing before the request: nothing is waited for between this look at the clock and the port.
        let draft = draft.and_then(|draft| self.refuse_late(group).map(|()| draft));
        let draft = match draft {
            Ok(draft) => draft,
            Err(error) => {
                self.remove(written.iter().map(String::as_str)).await;
                return Err(error);
            }
        };
        // From here on the files of this attempt belong to a request that may be anywhere.
        let sent_on = SentOn::of(&base.table, &group.first.branch);
        let request = CommitRequest { base: base.table, requirements: draft.requirements, updates: draft.updates };
        let committed = Settled::Committed { snapshot_id: draft.snapshot_id, replaced_rows: plan.replaced_rows };
        let this = Sent {
            snapshot_id: draft.snapshot_id,
            manifest_list: draft.manifest_list,
            replaced_rows: plan.replaced_rows,
            base: sent_on,
            settled: settled.into_iter().map(|settled| settled.unwrap_or(committed)).collect(),
            files: written,
            answer: Answer::Open,
        };
        Ok(Decision::Send(Box::new((request, this))))
    }

    /// The table with what matters to batches that replace nothing but themselves.
    async fn load_relevant(&self, group: Group<'_>, table: &Table) -> Result<Option<Base>, Error> {
        if !group.batches.iter().all(|batch| matches!(batch.replaces, Replaces::Batch | Replaces::Nothing)) {
            return Ok(None);
        }
        let batches: Vec<&BatchCommit> = group.batches.iter().collect();
        let filter = filter_of(table, &batches, Filter::default())?;
        let own = group.batches.iter().flat_map(|batch| &batch.files).map(DataFile::file_path).collect();
        match Relevance::of(table.metadata(), &filter, own) {
            Some(relevance) => Base::load_relevant(table, &group.first.branch, &relevance, &self.cache).await,
            None => Ok(None),
        }
    }

    /// The overwrite of the batches that are not settled. Batches that replace nothing are settled by what is found of them:
    /// a commit lands whole or not at all.
    async fn plan(&self, group: Group<'_>, base: &Base, settled: &mut [Option<Settled>]) -> Result<Plan, Error> {
        let mut filter = Filter::default();
        for (batch, settled) in group.batches.iter().zip(settled.iter_mut()).filter(|(_, settled)| settled.is_none()) {
            if matches!(batch.replaces, Replaces::Nothing) {
                let own = filter_of(&base.table, &[batch], Filter::default())?;
                let found = Plan::make(base, &own, self.catalog.store()).await?;
                if !found.touched.is_empty() {
                    *settled = Some(Settled::Skipped { snapshot_id: None });
                }
            } else {
                match &batch.replaces {
                    Replaces::Batch | Replaces::Nothing => {}
                    Replaces::Slice(keys) | Replaces::Keys(keys) => {
                        let (table, schema) = (base.table.identifier().to_string(), base.metadata().current_schema());
                        filter = filter.or(keys, &table, schema)?;
                    }
                }
            }
        }
        let by_id: Vec<&BatchCommit> = std::iter::zip(group.batches, settled.iter())
            .filter(|(batch, settled)| {
                settled.is_none() && matches!(batch.replaces, Replaces::Batch | Replaces::Keys(_))
            })
            .map(|(batch, _)| batch)
            .collect();
        let filter = filter_of(&base.table, &by_id, filter)?;
        Plan::make(base, &filter, self.catalog.store()).await
    }

    /// Whether it is certain without reading a manifest that the table holds no row of these batches: every snapshot since
    /// the table's first one is retained, says which batches it added and no other rows, each once, and none is one of these.
    ///
    /// A snapshot without a parent need not be the first: expiry may cut the line. So the sequence numbers have to count
    /// down to 1 without a gap. Only batches that replace nothing but themselves can be told so, and only files named for
    /// their batch: those of another batch, given by mistake, might be in the table.
    fn is_new(&self, group: Group<'_>, table: &Table, sent: &[Sent]) -> bool {
        let branch = &group.first.branch;
        let ledger = Ledger::of_branch(table.metadata(), branch);
        let by_themselves = group.batches.iter().all(|batch| {
            let id = batch.batch_id.as_str();
            let named = batch.files.iter().all(|file| file.file_path().contains(id));
            let listed = ledger.ids().iter().any(|listed| listed == id);
            named && !listed && matches!(batch.replaces, Replaces::Batch | Replaces::Nothing)
        });
        if !sent.is_empty() || !by_themselves {
            return false;
        }
        let mut expected = None;
        let mut seen = HashSet::new();
        for snapshot in ancestry(table.metadata(), branch) {
            let added = batches_of(snapshot);
            // A batch that is there twice was forced, or somebody copied a summary.
            if !added.iter().all(|batch| seen.insert(batch.batch_id.clone())) {
                return false;
            }
            let rows: Option<u64> = added.iter().map(|batch| batch.rows).sum();
            let records = snapshot.summary().additional_properties.get("added-records");
            let records = records.map_or(Some(0), |records| records.parse().ok());
            let is_one =
                |added: &SummaryBatch| group.batches.iter().any(|batch| *added.batch_id == *batch.batch_id.as_str());
            let number = snapshot.sequence_number();
            let in_line = expected.is_none_or(|expected| expected == number);
            if added.is_empty() || rows != records || added.iter().any(is_one) || !in_line {
                return false;
            }
            expected = Some(number - 1);
        }
        expected == Some(0)
    }

    pub(crate) fn refuse_late(&self, group: Group<'_>) -> Result<(), Error> {
        let hours = self.environment.now_ms().saturating_sub(group.started_ms()) / 3_600_000;
        if hours >= MAX_ATTEMPT_HOURS {
            return Err(Error::TooLate { hours, limit: MAX_ATTEMPT_HOURS });
        }
        Ok(())
    }

    /// Data files that are not there any more, or not whole, are not committed.
    async fn refuse_gone(&self, group: Group<'_>, batches: &[&BatchCommit]) -> Result<(), Error> {
        if self.environment.now_ms().saturating_sub(group.started_ms()) < TRUSTED_MS {
            return Ok(());
        }
        match self.gone(batches).await? {
            Some(file) => Err(Error::FileGone { file }),
            None => Ok(()),
        }
    }

    /// A process that was suspended after its last check, for half a day, may have committed files that were cleaned up
    /// meanwhile. Nothing can keep it from that; it says so.
    pub(crate) async fn refuse_lost(&self, group: Group<'_>, settled: &[Settled]) -> Result<(), Error> {
        if self.refuse_late(group).is_ok() {
            return Ok(());
        }
        for (batch, settled) in group.batches.iter().zip(settled) {
            if let Some(snapshot_id) = settled.committed()
                && let Some(file) = self.gone(&[batch]).await?
                // What expired with its snapshot was let go of by the table itself.
                && self.load(group).await?.metadata().snapshot_by_id(snapshot_id).is_some()
            {
                let (table, batch_id) = (group.table(), batch.batch_id.to_string());
                return Err(Error::Lost { table, batch_id, snapshot_id, file });
            }
        }
        Ok(())
    }

    /// A data file that is not there as it was written.
    async fn gone(&self, batches: &[&BatchCommit]) -> Result<Option<String>, Error> {
        let files: Vec<(String, u64)> = batches
            .iter()
            .flat_map(|batch| &batch.files)
            .map(|file| (file.file_path().to_owned(), file.file_size_in_bytes()))
            .collect();
        let store = self.catalog.store();
        let mut checks = futures::stream::iter(files)
            .map(|(file, size)| async move { (store.size(&file).await, file, size) })
            .buffered(CONCURRENT_CHECKS);
        while let Some((found, file, size)) = checks.next().await {
            match found {
                Ok(found) if found == size => {}
                Ok(_) => return Ok(Some(file)),
                Err(error) if error.is_not_found() => return Ok(Some(file)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Writes the files of one attempt and puts the request together.
    async fn draft(
        &self,
        batches: &[&BatchCommit],
        base: &Base,
        plan: &Plan,
        sent: &[Sent],
        written: &mut Vec<String>,
    ) -> Result<SnapshotRequest, Error> {
        let metadata = base.metadata();
        let attempt = self.environment.uuid();
        let spec_id = metadata.default_partition_spec_id();
        let files = batches.iter().flat_map(|batch| &batch.files);
        let mut added: Vec<AddedFile> = files.map(|file| AddedFile { file: file.clone(), spec_id }).collect();
        let mut removed: BTreeMap<usize, HashSet<usize>> = BTreeMap::new();
        let hides = rewrite::is_merge_on_read(metadata);
        // Nothing is written before it is certain that all of it can be.
        for touched in plan.touched.iter().filter(|touched| matches!(touched.fate, Fate::Part(_))) {
            rewrite::refuse_part(metadata, base.manifests[touched.manifest].entries[touched.entry].data_file())?;
        }
        let (locations, store) = (Locations::of(metadata), self.catalog.store());
        let mut gone = Vec::new();
        for (number, touched) in plan.touched.iter().enumerate() {
            let loaded = &base.manifests[touched.manifest];
            let (entry, spec_id) = (&loaded.entries[touched.entry], loaded.file.partition_spec_id);
            let id = batches.first().map(|batch| batch.batch_id.as_str()).unwrap_or_default();
            match &touched.fate {
                Fate::Keep => continue,
                Fate::Part(rows) if hides => {
                    let location = locations.data_file(&format!("{id}-{attempt}-{number:05}-deletes.parquet"));
                    written.push(location.clone());
                    let file = rewrite::position_deletes(base, entry.data_file(), spec_id, rows, store, location);
                    added.push(AddedFile { file: file.await?, spec_id });
                    continue;
                }
                Fate::Part(rows) => {
                    let location = locations.data_file(&format!("{id}-{attempt}-{number:05}-rewritten.parquet"));
                    written.push(location.clone());
                    let file = rewrite::without(base, plan, entry, spec_id, rows, store, location);
                    added.push(AddedFile { file: file.await?, spec_id });
                }
                Fate::Remove => {}
            }
            gone.push(touched);
            removed.entry(touched.manifest).or_default().insert(touched.entry);
        }
        for delete in plan.dangling(base, store, &gone).await {
            removed.entry(delete.manifest).or_default().insert(delete.entry);
        }
        let appends = batches.iter().all(|batch| matches!(batch.replaces, Replaces::Nothing));
        let snapshot_id = self.snapshot_id(metadata, sent);
        let mut draft = snapshot::write(
            SnapshotDraft {
                base,
                cache: &self.cache,
                added,
                removed,
                operation: if appends { Operation::Append } else { Operation::Overwrite },
                snapshot_id,
                attempt,
                now_ms: self.environment.now_ms(),
                summary: summary(batches),
            },
            written,
        )
        .await?;
        let properties = self.properties(batches, base, snapshot_id);
        draft.updates.push(TableUpdate::SetProperties { updates: properties });
        Ok(draft)
    }

    /// A snapshot id that neither the table nor an earlier request has.
    fn snapshot_id(&self, metadata: &TableMetadata, sent: &[Sent]) -> i64 {
        loop {
            let (high, low) = self.environment.uuid().as_u64_pair();
            let id = (high ^ low).cast_signed() & i64::MAX;
            let taken = metadata.snapshot_by_id(id).is_some() || sent.iter().any(|sent| sent.snapshot_id == id);
            if id > 0 && !taken {
                return id;
            }
        }
    }

    /// The properties that change with the commit, from this attempt's base.
    fn properties(&self, batches: &[&BatchCommit], base: &Base, snapshot_id: i64) -> HashMap<String, String> {
        let metadata = base.metadata();
        let mut ledger = Ledger::of_branch(metadata, &base.branch);
        for batch in batches {
            ledger.push(batch.batch_id.to_string());
        }
        let mut properties = HashMap::from([
            (names::completed_batches(&base.branch), ledger.to_json(self.bounds)),
            (names::ledger_snapshot_id(&base.branch), snapshot_id.to_string()),
        ]);
        if let Some(derivation) = batches.first().and_then(|batch| batch.derivation.as_ref()) {
            let name = format!("{}{}", names::DERIVATION_PREFIX, derivation.column);
            if !metadata.properties().contains_key(&name) {
                properties.insert(name, derivation.record.to_json());
            }
        }
        for (name, value) in batches.iter().flat_map(|batch| &batch.records) {
            if !metadata.properties().contains_key(name) {
                properties.insert(name.clone(), value.clone());
            }
        }
        properties
    }
}

impl Settled {
    fn committed(&self) -> Option<i64> {
        match self {
            Self::Committed { snapshot_id, .. } => Some(*snapshot_id),
            Self::Skipped { .. } => None,
        }
    }
}

/// The rows with the batch ids of these batches, besides those of `filter`.
fn filter_of(table: &Table, batches: &[&BatchCommit], filter: Filter) -> Result<Filter, Error> {
    if batches.is_empty() {
        return Ok(filter);
    }
    let ids = batches.iter().map(|batch| batch.batch_id.as_str());
    let ids: arrow::array::ArrayRef = Arc::new(arrow::array::StringArray::from_iter_values(ids));
    let name = table.identifier().to_string();
    let keys = arrow::array::RecordBatch::try_from_iter([(BATCH_ID_COLUMN, ids)]);
    let keys = keys.map_err(|error| Error::Keys { table: name.clone(), reason: error.to_string() })?;
    filter.or(&Keys(keys), &name, table.metadata().current_schema())
}

pub(crate) fn is_open(sent: &[Sent]) -> bool {
    sent.iter().any(|sent| sent.answer == Answer::Open)
}

/// Whether an error may come from a file that is not there any more.
pub(crate) fn is_about_files(error: &Error) -> bool {
    matches!(error, Error::Iceberg { .. } | Error::Reading { .. } | Error::Parquet { .. } | Error::Store(_))
}

pub(crate) fn unknown(group: Group<'_>, error: Error) -> Error {
    Error::Unknown { table: group.table(), reason: error.to_string(), source: Some(Box::new(error)) }
}

/// The request that a table, loaded after all of them were answered, shows to have landed.
pub(crate) fn look(table: &Table, sent: &mut [Sent], certain: bool) -> Option<Attempt> {
    for denied in sent.iter_mut().filter(|sent| sent.answer == Answer::Denied && !sent.is_in(table)) {
        // A request whose base is still the head may yet be applied, if it was not the catalog that denied it.
        if certain || denied.base.head_in(table) != denied.base.snapshot_id {
            denied.answer = Answer::Refuted;
        }
    }
    sent.iter().find(|sent| sent.is_in(table)).map(Sent::landed)
}

/// The request that landed although its snapshot has gone since: the table refers to its manifests.
fn landed_by_manifest(base: &Base, sent: &[Sent]) -> Option<Attempt> {
    let holds = |sent: &&Sent| base.manifests.iter().any(|manifest| sent.files.contains(&manifest.file.manifest_path));
    sent.iter().find(holds).map(Sent::landed)
}

/// Whether a batch's files are in the table. Files that are there without a request of this call came with an earlier one;
/// but without the ledger's word they may be files of another batch, named by mistake.
fn landed_by_files(base: &Base, batch: &BatchCommit, sent: &[Sent]) -> Option<Settled> {
    let in_ledger = || Ledger::of_branch(base.metadata(), &base.branch).contains(batch.batch_id.as_str());
    let snapshot_id = if !sent.is_empty() || in_ledger() { base.added_by(&batch.files)? } else { return None };
    let landed = sent.iter().find(|sent| sent.snapshot_id == snapshot_id);
    Some(Settled::Committed { snapshot_id, replaced_rows: landed.map_or(0, |sent| sent.replaced_rows) })
}

fn inconsistent(batch: &BatchCommit, reason: impl Into<String>) -> Error {
    Error::Inconsistent { batch_id: batch.batch_id.to_string(), reason: reason.into() }
}

/// A batch whose description does not fit its files is not committed: its snapshot would tell an untruth.
fn refuse_inconsistent(group: Group<'_>) -> Result<(), Error> {
    let Group { first, batches } = group;
    refs::check_branch_name(&first.branch)?;
    let mut ids: HashSet<&BatchId> = HashSet::new();
    for batch in batches {
        let refuse = |reason: String| Err(inconsistent(batch, reason));
        if let Some(empty) = batch.files.iter().find(|file| file.record_count() == 0) {
            return refuse(format!("its data file {} holds no rows; leave it out", empty.file_path()));
        }
        let rows: u64 = batch.files.iter().map(DataFile::record_count).sum();
        if rows != batch.rows {
            return refuse(format!("its data files hold {rows} rows, and it says {}", batch.rows));
        }
        if matches!(batch.replaces, Replaces::Nothing) && batch.force {
            return refuse("it replaces nothing, and can therefore not be forced".to_owned());
        }
        if let Replaces::Slice(keys) = &batch.replaces
            && keys.0.num_rows() != 1
        {
            return refuse(format!("a slice is one row of values, and it has {}", keys.0.num_rows()));
        }
        let records = |batch: &BatchCommit| {
            batch.derivation.as_ref().map(|derivation| (derivation.column.clone(), derivation.record.to_json()))
        };
        if batch.table != first.table || batch.branch != first.branch || batch.written_for != first.written_for {
            return refuse("it is committed together with a batch of another table, branch or schema".to_owned());
        }
        if records(batch) != records(first) {
            return refuse("it is committed together with a batch of another derivation".to_owned());
        }
        let other = |(name, value): (&String, &String)| first.records.get(name).is_some_and(|first| first != value);
        if batch.records.iter().any(other) {
            return refuse("it is committed together with a batch whose columns rest on something else".to_owned());
        }
        if !ids.insert(&batch.batch_id) {
            return refuse("it is named twice".to_owned());
        }
        if batches.len() > 1 && matches!(batch.replaces, Replaces::Slice(_) | Replaces::Keys(_)) {
            return refuse(
                "it replaces rows of other batches, which may be among those it is committed with; commit it by itself"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

/// Rows are found by their batch id, unless all of them are found by a slice.
fn refuse_without_batch_column(table: &Table) -> Result<(), Error> {
    let unsuitable =
        |reason: &str| Error::Unsuitable { table: table.identifier().to_string(), reason: reason.to_owned() };
    let field = table.metadata().current_schema().field_by_name(BATCH_ID_COLUMN);
    match field.map(|field| field.field_type.as_primitive_type()) {
        None => Err(unsuitable("has no column ingest_batch_id (string); add it, or let hexfloe create the table")),
        Some(Some(iceberg::spec::PrimitiveType::String)) => Ok(()),
        Some(_) => Err(unsuitable("has a column ingest_batch_id that is not a string")),
    }
}

fn check_derivation(table: &Table, derivation: &Derivation) -> Result<(), Error> {
    let property = format!("{}{}", names::DERIVATION_PREFIX, derivation.column);
    let Some(json) = table.metadata().properties().get(&property) else { return Ok(()) };
    let recorded = DerivationRecord::from_json(json).map_err(|error| Error::DerivationRecord {
        table: table.identifier().to_string(),
        property,
        reason: error.to_string(),
    })?;
    recorded.compatible_with(&derivation.record).map_err(|mismatch| Error::Derivation {
        table: table.identifier().to_string(),
        column: derivation.column.clone(),
        mismatch: Box::new(mismatch),
    })
}

/// What columns rest on is said once in a table, and holds for all rows.
fn check_records(table: &Table, records: &BTreeMap<String, String>) -> Result<(), Error> {
    let recorded = table.metadata().properties();
    let other = records.iter().find_map(|(property, now)| {
        let then = recorded.get(property)?;
        (then != now).then_some((property, now, then))
    });
    match other {
        None => Ok(()),
        Some((property, now, then)) => Err(Error::Record {
            table: table.identifier().to_string(),
            property: property.clone(),
            then: then.clone(),
            now: now.clone(),
        }),
    }
}

/// A partition field whose name is none in Avro has another one in manifests, under which the `iceberg` crate does not find its values:
/// it would take them for null.
fn refuse_unreadable_partitions(table: &Table) -> Result<(), Error> {
    let fields = table.metadata().partition_specs_iter().flat_map(|spec| spec.fields());
    match fields.map(|field| field.name.as_str()).find(|name| *name != names::partition_field(name)) {
        None => Ok(()),
        Some(name) => Err(Error::Unsuitable {
            table: table.identifier().to_string(),
            reason: format!(
                "has a partition field `{name}`, whose values cannot be read from manifests, because its name is none in Avro; make it anew \
                 with a field of another name"
            ),
        }),
    }
}

fn refuse_changed(batch: &BatchCommit, metadata: &TableMetadata) -> Result<(), Error> {
    let now = WrittenFor::of(metadata);
    let then = batch.written_for;
    let what = if now.uuid != then.uuid {
        "it is another table of the same name"
    } else if now.schema_id != then.schema_id {
        "it has another schema"
    } else if now.spec_id != then.spec_id {
        "it has another partition spec"
    } else {
        return Ok(());
    };
    Err(Error::Changed { table: batch.table.to_string(), what: what.to_owned(), sent: false })
}

/// What the snapshot says of its batches.
fn summary(batches: &[&BatchCommit]) -> HashMap<String, String> {
    let mut summary = HashMap::new();
    match batches {
        [batch] => summary.extend([
            (names::SUMMARY_BATCH_ID.to_owned(), batch.batch_id.to_string()),
            (names::SUMMARY_SOURCE.to_owned(), batch.source.clone()),
            (names::SUMMARY_ROWS.to_owned(), batch.rows.to_string()),
            (names::SUMMARY_REJECTED.to_owned(), batch.rejected.to_string()),
            (names::SUMMARY_CONTENT.to_owned(), batch.content_sha256.to_string()),
        ]),
        many => {
            let told: Vec<SummaryBatch> = many
                .iter()
                .map(|batch| SummaryBatch {
                    batch_id: batch.batch_id.to_string(),
                    source: Some(batch.source.clone()),
                    rows: Some(batch.rows),
                    rejected: Some(batch.rejected),
                    content_sha256: Some(batch.content_sha256.to_string()),
                })
                .collect();
            // These always serialise.
            summary.insert(names::SUMMARY_BATCHES.to_owned(), serde_json::to_string(&told).unwrap_or_default());
        }
    }
    if let Some(derivation) = batches.first().and_then(|batch| batch.derivation.as_ref()) {
        summary.insert(names::SUMMARY_DERIVATION.to_owned(), derivation.record.fingerprint.to_string());
    }
    summary
}
