//! The exactly-once loop.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hexfloe_batch::{BATCH_ID_COLUMN, BatchId, DerivationRecord, Sha256Hex};
use hexfloe_catalog::{CommitOutcome, CommitRequest, OpenCatalog};
use iceberg::spec::{DataFile, TableMetadata};
use iceberg::table::Table;
use iceberg::{TableIdent, TableUpdate};
use uuid::Uuid;

use crate::base::{self, Base, ManifestCache};
use crate::environment::SharedEnvironment;
use crate::ledger::{Ledger, LedgerBounds};
use crate::plan::{Fate, Filter, Plan};
use crate::retry::Backoff;
use crate::snapshot::{self, SnapshotDraft, SnapshotRequest};
use crate::{Error, ErrorKind, names, rewrite};

/// An attempt older than this does not commit: half of the age at which cleanup may take its files at the earliest.
const MAX_ATTEMPT_HOURS: i64 = 12;

/// How far the clocks of two writers may be apart when snapshots are told from their times.
const CLOCK_TOLERANCE_MS: i64 = 3_600_000;

/// A derived column and how the running program derives it.
#[derive(Clone, Debug)]
pub struct Derivation {
    /// The column.
    pub column: String,
    /// The record.
    pub record: DerivationRecord,
}

/// A batch whose data files are written, ready to be committed.
#[derive(Clone, Debug)]
pub struct BatchCommit {
    /// The table.
    pub table: TableIdent,
    /// The table's uuid, current schema id and default partition spec id that the files were written for.
    pub written_for: WrittenFor,
    /// The batch.
    pub batch_id: BatchId,
    /// The name of its source.
    pub source: String,
    /// Its rows: those in `files`.
    pub rows: u64,
    /// Rows that were quarantined.
    pub rejected: u64,
    /// A digest of the input.
    pub content_sha256: Sha256Hex,
    /// How its cells are derived.
    pub derivation: Option<Derivation>,
    /// Commit even if the ledger has the batch.
    pub force: bool,
    /// Its data files, owned by this attempt.
    pub files: Vec<DataFile>,
    /// When the first of them was begun, in milliseconds since 1970.
    pub started_ms: i64,
}

/// What data files depend on in their table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenFor {
    /// The table's uuid.
    pub uuid: Uuid,
    /// Its current schema.
    pub schema_id: i32,
    /// Its default partition spec.
    pub spec_id: i32,
}

impl WrittenFor {
    /// What files written for `metadata` as it is depend on.
    pub fn of(metadata: &TableMetadata) -> Self {
        Self {
            uuid: metadata.uuid(),
            schema_id: metadata.current_schema_id(),
            spec_id: metadata.default_partition_spec_id(),
        }
    }
}

/// What became of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum BatchOutcome {
    /// It is in the table through this call.
    Committed {
        /// The snapshot it is in.
        snapshot_id: i64,
        /// Rows of an earlier version of the batch that it replaced.
        replaced_rows: u64,
        /// Attempts made, this one included.
        attempts: u32,
    },
    /// It was in the table already.
    Skipped {
        /// The snapshot it is in, where the table still tells.
        snapshot_id: Option<i64>,
    },
}

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
enum Attempt {
    Committed { snapshot_id: i64, replaced_rows: u64 },
    Skipped { snapshot_id: Option<i64> },
    Conflict { reason: String },
    Unknown { reason: String, source: Option<Box<dyn std::error::Error + Send + Sync>> },
    Failed(Error),
}

/// A request that was sent.
struct Sent {
    snapshot_id: i64,
    manifest_list: String,
    replaced_rows: u64,
    /// Metadata files, and data files rewritten without the batch, of this attempt alone.
    files: Vec<String>,
    answer: Answer,
}

impl Sent {
    /// Whether the table holds this request's snapshot. An id alone could be another writer's.
    fn is_in(&self, table: &Table) -> bool {
        let snapshot = table.metadata().snapshot_by_id(self.snapshot_id);
        snapshot.is_some_and(|snapshot| snapshot.manifest_list() == self.manifest_list)
    }

    fn committed(&self) -> Attempt {
        Attempt::Committed { snapshot_id: self.snapshot_id, replaced_rows: self.replaced_rows }
    }
}

/// What is known of a request that was sent and is not seen in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// It may be applied, now or later. Nothing it names is ever removed.
    Open,
    /// The catalog says it was not applied. The table has not been looked at since: a catalog that got the request
    /// twice says so too.
    Denied,
    /// Denied, and a table loaded afterwards does not hold it.
    Refuted,
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

    /// Whether a batch is in the table by the ledger, and whether the table's cells are derived as ours are.
    ///
    /// This is the check that [`Committer::commit`] makes on each attempt; made before anything is read or written it
    /// saves the work.
    ///
    /// # Errors
    ///
    /// [`Error::Derivation`] and [`Error::Unsuitable`].
    pub fn check(
        &self,
        table: &Table,
        batch_id: &BatchId,
        derivation: Option<&Derivation>,
        force: bool,
    ) -> Result<Option<BatchOutcome>, Error> {
        let metadata = table.metadata();
        if let Some(derivation) = derivation {
            check_derivation(table, derivation)?;
        }
        batch_field(table)?;
        if force || !Ledger::of(metadata).contains(batch_id.as_str()) {
            return Ok(None);
        }
        Ok(Some(BatchOutcome::Skipped { snapshot_id: snapshot_of(metadata, batch_id) }))
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
        let mut sent = Vec::new();
        let result = match refuse_inconsistent(batch) {
            Ok(()) => self.attempts(batch, &mut sent).await,
            Err(error) => Err(error),
        };
        if let Ok(BatchOutcome::Committed { snapshot_id, .. }) = &result {
            let lost = sent.iter().filter(|sent| sent.answer == Answer::Refuted && sent.snapshot_id != *snapshot_id);
            self.remove(lost.flat_map(|sent| &sent.files).map(String::as_str)).await;
            return result;
        }
        self.remove_lost(batch, &sent).await;
        match result {
            Err(error) if error.kind() != ErrorKind::Unknown && is_open(&sent) => Err(unknown(batch, error)),
            result => result,
        }
    }

    /// Removes what a batch that was not committed leaves behind, as far as no snapshot refers to it.
    ///
    /// That an outcome was reported is no proof: an earlier call with the same files may have had its answer lost. So
    /// the table is asked once more, and when it does not answer, or is another one by now, everything stays.
    async fn remove_lost(&self, batch: &BatchCommit, sent: &[Sent]) {
        let refuted = sent.iter().filter(|sent| sent.answer == Answer::Refuted);
        let mut files: HashSet<&str> = refuted.flat_map(|sent| &sent.files).map(String::as_str).collect();
        if sent.iter().all(|sent| sent.answer == Answer::Refuted) {
            files.extend(batch.files.iter().map(DataFile::file_path));
        }
        if files.is_empty() {
            return;
        }
        let Ok(table) = self.load(batch).await else { return };
        if table.metadata().uuid() != batch.written_for.uuid {
            return;
        }
        let started_ms = batch.started_ms.min(self.environment.now_ms());
        let since_ms = started_ms.saturating_sub(CLOCK_TOLERANCE_MS);
        let Ok(referenced) = base::referenced(&table, since_ms, &files, &self.cache).await else { return };
        self.remove(files.difference(&referenced).copied()).await;
    }

    /// Removes files of ours that nothing refers to. What cannot be removed is left to cleanup.
    pub async fn remove(&self, files: impl Iterator<Item = &str>) {
        for file in files {
            let _ = self.catalog.store().delete(file).await;
        }
    }

    async fn attempts(&self, batch: &BatchCommit, sent: &mut Vec<Sent>) -> Result<BatchOutcome, Error> {
        let (mut conflicts, mut unknowns) = (0_u32, 0_u32);
        let mut waited = Duration::ZERO;
        let mut properties = HashMap::new();
        loop {
            let outcome = match self.load(batch).await {
                Err(error @ Error::NoTable { .. }) if !is_open(sent) => return Err(error),
                // While a request is not settled, a table that cannot be read decides nothing.
                Err(error) if sent.iter().any(|sent| sent.answer != Answer::Refuted) => {
                    Attempt::Unknown { reason: error.to_string(), source: Some(Box::new(error)) }
                }
                Err(error) => return Err(error),
                Ok(table) => {
                    properties.clone_from(table.metadata().properties());
                    let base = table.metadata_location().map(str::to_owned);
                    match look(&table, sent) {
                        Some(landed) => landed,
                        None => match self.attempt(batch, table, sent).await {
                            Err(error) if is_about_files(&error) && self.moved_on(batch, base.as_deref()).await => {
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
                Attempt::Committed { snapshot_id, replaced_rows } => {
                    return Ok(BatchOutcome::Committed { snapshot_id, replaced_rows, attempts });
                }
                Attempt::Skipped { snapshot_id } => return Ok(BatchOutcome::Skipped { snapshot_id }),
                Attempt::Failed(error) => (None, error),
                Attempt::Conflict { reason } => {
                    conflicts += 1;
                    let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                    let given_up = Error::Exhausted { table: batch.table.to_string(), attempts, waited_ms, reason };
                    (Backoff::for_conflicts(&properties).wait(conflicts, waited, jitter), given_up)
                }
                Attempt::Unknown { reason, source } => {
                    unknowns += 1;
                    let given_up = Error::Unknown { table: batch.table.to_string(), reason, source };
                    (Backoff::for_status_checks(&properties).wait(unknowns, waited, jitter), given_up)
                }
            };
            let Some(wait) = wait else {
                // One last look: the answer to the last request may not have been the whole truth.
                return match self.load(batch).await.map(|table| look(&table, sent)) {
                    Ok(Some(Attempt::Committed { snapshot_id, replaced_rows })) => {
                        Ok(BatchOutcome::Committed { snapshot_id, replaced_rows, attempts })
                    }
                    Err(error) if matches!(given_up, Error::Exhausted { .. }) => Err(unknown(batch, error)),
                    _ => Err(given_up),
                };
            };
            self.environment.sleep(wait).await;
            waited = waited.saturating_add(wait);
        }
    }

    async fn load(&self, batch: &BatchCommit) -> Result<Table, Error> {
        let table = self.catalog.load(&batch.table).await?;
        table.ok_or_else(|| Error::NoTable { table: batch.table.to_string() })
    }

    /// Whether the table is not at `base` any more. Then what an attempt did not find may have been removed by whoever
    /// moved it: compaction and expiry delete the files of a base that somebody still works on.
    async fn moved_on(&self, batch: &BatchCommit, base: Option<&str>) -> bool {
        self.load(batch).await.is_ok_and(|table| table.metadata_location() != base)
    }

    /// One attempt, decided on `table` and nothing else.
    async fn attempt(&self, batch: &BatchCommit, table: Table, sent: &mut Vec<Sent>) -> Result<Attempt, Error> {
        let checked = self.check(&table, &batch.batch_id, batch.derivation.as_ref(), batch.force);
        if let Some(BatchOutcome::Skipped { snapshot_id }) = checked? {
            // If a request of ours went out before, it may have been that one, even though its snapshot is not to be
            // seen any more.
            let ours = match sent.is_empty() {
                true => None,
                false => Base::load(table, &self.cache).await.ok().and_then(|base| landed_in(&base, batch, sent)),
            };
            return Ok(ours.unwrap_or(Attempt::Skipped { snapshot_id }));
        }
        refuse_changed(batch, table.metadata())?;
        self.refuse_late(batch)?;
        let filter = Filter { field_id: batch_field(&table)?, value: batch.batch_id.to_string() };
        let base = Base::load(table, &self.cache).await?;
        if let Some(landed) = landed_in(&base, batch, sent) {
            return Ok(landed);
        }
        let plan = Plan::make(&base, &filter, self.catalog.store()).await?;

        let mut written = Vec::new();
        let draft = self.draft(batch, &base, &plan, &filter, sent, &mut written).await;
        // Planning and writing can take long, or the process can have been stopped meanwhile.
        let draft = draft.and_then(|draft| self.refuse_late(batch).map(|()| draft));
        let draft = match draft {
            Ok(draft) => draft,
            Err(error) => {
                self.remove(written.iter().map(String::as_str)).await;
                return Err(error);
            }
        };
        // From here on the files of this attempt belong to a request that may be anywhere.
        let request = CommitRequest { base: base.table, requirements: draft.requirements, updates: draft.updates };
        let mut this = Sent {
            snapshot_id: draft.snapshot_id,
            manifest_list: draft.manifest_list,
            replaced_rows: plan.replaced_rows,
            files: written,
            answer: Answer::Open,
        };
        let outcome = match self.catalog.port().commit(&request).await {
            Ok(CommitOutcome::Committed(table)) if this.is_in(&table) => this.committed(),
            Ok(CommitOutcome::Committed(_)) => Attempt::Unknown {
                reason: "the catalog said committed, and its table does not hold the snapshot".to_owned(),
                source: None,
            },
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

    fn refuse_late(&self, batch: &BatchCommit) -> Result<(), Error> {
        let hours = self.environment.now_ms().saturating_sub(batch.started_ms) / 3_600_000;
        if hours >= MAX_ATTEMPT_HOURS {
            return Err(Error::TooLate { hours, limit: MAX_ATTEMPT_HOURS });
        }
        Ok(())
    }

    /// Writes the files of one attempt and puts the request together.
    async fn draft(
        &self,
        batch: &BatchCommit,
        base: &Base,
        plan: &Plan,
        filter: &Filter,
        sent: &[Sent],
        written: &mut Vec<String>,
    ) -> Result<SnapshotRequest, Error> {
        let metadata = base.metadata();
        let attempt = self.environment.uuid();
        let mut added = batch.files.clone();
        let rewrites = plan.touched.iter().filter(|touched| matches!(touched.fate, Fate::Rewrite(_)));
        for (number, touched) in rewrites.enumerate() {
            let loaded = &base.manifests[touched.manifest];
            let location = format!(
                "{}/data/rewritten-{}-{attempt}-{number:05}.parquet",
                metadata.location().trim_end_matches('/'),
                batch.batch_id
            );
            written.push(location.clone());
            let entry = &loaded.entries[touched.entry];
            let spec = loaded.file.partition_spec_id;
            let store = self.catalog.store();
            added.push(rewrite::without_matching_rows(base, entry, spec, filter, store, location).await?);
        }
        let snapshot_id = self.snapshot_id(metadata, sent);
        let mut draft = snapshot::write(
            SnapshotDraft {
                base,
                plan,
                added,
                snapshot_id,
                attempt,
                now_ms: self.environment.now_ms(),
                summary: summary(batch),
            },
            written,
        )
        .await?;
        let properties = self.properties(batch, metadata, snapshot_id);
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
    fn properties(&self, batch: &BatchCommit, metadata: &TableMetadata, snapshot_id: i64) -> HashMap<String, String> {
        let mut ledger = Ledger::of(metadata);
        ledger.push(batch.batch_id.to_string());
        let mut properties = HashMap::from([
            (names::COMPLETED_BATCHES.to_owned(), ledger.to_json(self.bounds)),
            (names::LEDGER_SNAPSHOT_ID.to_owned(), snapshot_id.to_string()),
        ]);
        if let Some(derivation) = &batch.derivation {
            let name = format!("{}{}", names::DERIVATION_PREFIX, derivation.column);
            if !metadata.properties().contains_key(&name) {
                properties.insert(name, derivation.record.to_json());
            }
        }
        properties
    }
}

fn is_open(sent: &[Sent]) -> bool {
    sent.iter().any(|sent| sent.answer == Answer::Open)
}

/// Whether an error may come from a file that is not there any more.
fn is_about_files(error: &Error) -> bool {
    matches!(error, Error::Iceberg { .. } | Error::Parquet { .. } | Error::Store(_))
}

fn unknown(batch: &BatchCommit, error: Error) -> Error {
    Error::Unknown { table: batch.table.to_string(), reason: error.to_string(), source: Some(Box::new(error)) }
}

/// The request that a table, loaded after all of them were answered, shows to have landed.
fn look(table: &Table, sent: &mut [Sent]) -> Option<Attempt> {
    for denied in sent.iter_mut().filter(|sent| sent.answer == Answer::Denied && !sent.is_in(table)) {
        denied.answer = Answer::Refuted;
    }
    sent.iter().find(|sent| sent.is_in(table)).map(Sent::committed)
}

/// The request that landed although its snapshot has gone since: the table refers to its files.
fn landed_in(base: &Base, batch: &BatchCommit, sent: &[Sent]) -> Option<Attempt> {
    let holds = |sent: &&Sent| base.manifests.iter().any(|manifest| sent.files.contains(&manifest.file.manifest_path));
    if let Some(landed) = sent.iter().find(holds) {
        return Some(landed.committed());
    }
    // Files that are there without a request of this call came with an earlier one; but without the ledger's word they
    // may be files of another batch, named by mistake.
    let known = !sent.is_empty() || Ledger::of(base.metadata()).contains(batch.batch_id.as_str());
    let snapshot_id = if known { base.added_by(&batch.files)? } else { return None };
    let landed = sent.iter().find(|sent| sent.snapshot_id == snapshot_id);
    Some(landed.map_or(Attempt::Committed { snapshot_id, replaced_rows: 0 }, Sent::committed))
}

/// A batch whose description does not fit its files is not committed: its snapshot would tell an untruth.
fn refuse_inconsistent(batch: &BatchCommit) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::Inconsistent { batch_id: batch.batch_id.to_string(), reason });
    if let Some(empty) = batch.files.iter().find(|file| file.record_count() == 0) {
        return refuse(format!("its data file {} holds no rows; leave it out", empty.file_path()));
    }
    let rows: u64 = batch.files.iter().map(DataFile::record_count).sum();
    if rows != batch.rows {
        return refuse(format!("its data files hold {rows} rows, and it says {}", batch.rows));
    }
    Ok(())
}

/// The field id of the batch column.
fn batch_field(table: &Table) -> Result<i32, Error> {
    let unsuitable =
        |reason: &str| Error::Unsuitable { table: table.identifier().to_string(), reason: reason.to_owned() };
    let schema = table.metadata().current_schema();
    let field = schema
        .field_by_name(BATCH_ID_COLUMN)
        .ok_or_else(|| unsuitable("has no column ingest_batch_id (string); add it, or let hexfloe create the table"))?;
    match field.field_type.as_primitive_type() {
        Some(iceberg::spec::PrimitiveType::String) => Ok(field.id),
        _ => Err(unsuitable("has a column ingest_batch_id that is not a string")),
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
    Err(Error::Changed { table: batch.table.to_string(), what: what.to_owned() })
}

fn snapshot_of(metadata: &TableMetadata, batch_id: &BatchId) -> Option<i64> {
    crate::ledger::ancestry(metadata)
        .find(|snapshot| {
            let recorded = snapshot.summary().additional_properties.get(names::SUMMARY_BATCH_ID);
            recorded.is_some_and(|recorded| recorded == batch_id.as_str())
        })
        .map(|snapshot| snapshot.snapshot_id())
}

fn summary(batch: &BatchCommit) -> HashMap<String, String> {
    let mut summary = HashMap::from([
        (names::SUMMARY_BATCH_ID.to_owned(), batch.batch_id.to_string()),
        (names::SUMMARY_SOURCE.to_owned(), batch.source.clone()),
        (names::SUMMARY_ROWS.to_owned(), batch.rows.to_string()),
        (names::SUMMARY_REJECTED.to_owned(), batch.rejected.to_string()),
        (names::SUMMARY_CONTENT.to_owned(), batch.content_sha256.to_string()),
    ]);
    if let Some(derivation) = &batch.derivation {
        summary.insert(names::SUMMARY_DERIVATION.to_owned(), derivation.record.to_json());
    }
    summary
}
