//! The exactly-once loop.

use std::collections::HashMap;
use std::time::Duration;

use hexfloe_batch::{BATCH_ID_COLUMN, BatchId, DerivationRecord, Sha256Hex};
use hexfloe_catalog::{CommitOutcome, CommitRequest, OpenCatalog};
use iceberg::spec::{DataFile, TableMetadata};
use iceberg::table::Table;
use iceberg::{TableIdent, TableUpdate};
use uuid::Uuid;

use crate::base::{Base, ManifestCache};
use crate::environment::SharedEnvironment;
use crate::ledger::{Ledger, LedgerBounds};
use crate::plan::{Fate, Filter, Plan};
use crate::retry::Backoff;
use crate::snapshot::{self, SnapshotDraft};
use crate::{Error, ErrorKind, names, rewrite};

/// An attempt older than this does not commit: half of the age at which cleanup may take its files at the earliest.
const MAX_ATTEMPT_HOURS: i64 = 12;

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

/// Commits batches to the tables of one catalog.
#[derive(Clone, Debug)]
pub struct Committer {
    catalog: OpenCatalog,
    environment: SharedEnvironment,
    bounds: LedgerBounds,
}

/// Why an attempt has to be made again, and what it leaves behind.
enum Attempt {
    Committed { snapshot_id: i64, replaced_rows: u64 },
    Skipped { snapshot_id: Option<i64> },
    Conflict { reason: String },
    Unknown { reason: String, source: Option<Box<dyn std::error::Error + Send + Sync>> },
}

/// A request that was sent.
struct Sent {
    snapshot_id: i64,
    replaced_rows: u64,
    /// Metadata files, and data files rewritten without the batch, of this attempt alone.
    files: Vec<String>,
    /// Whether the request may still be applied.
    unknown: bool,
}

impl Committer {
    /// A committer with the default ledger bounds.
    pub fn new(catalog: OpenCatalog, environment: SharedEnvironment) -> Self {
        Self { catalog, environment, bounds: LedgerBounds::default() }
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
    /// attempt to the next. On return the data files are in the table ([`BatchOutcome::Committed`]), removed
    /// (skipped, or an error), or, when the outcome is unknown, left alone.
    ///
    /// # Errors
    ///
    /// See [`Error`]. After [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) the same call may be made again.
    pub async fn commit(&self, batch: &BatchCommit) -> Result<BatchOutcome, Error> {
        let mut sent = Vec::new();
        let result = self.attempts(batch, &mut sent).await;
        let committed = match &result {
            Ok(BatchOutcome::Committed { snapshot_id, .. }) => Some(*snapshot_id),
            _ => None,
        };
        let lost = |sent: &&Sent| Some(sent.snapshot_id) != committed;
        for attempt in sent.iter().filter(lost).filter(|sent| !sent.unknown) {
            self.remove(attempt.files.iter().map(String::as_str)).await;
        }
        // A request of unknown fate may still be applied: everything it names stays.
        let open = sent.iter().filter(lost).any(|sent| sent.unknown);
        if committed.is_none() && !open {
            self.remove(batch.files.iter().map(DataFile::file_path)).await;
        }
        match result {
            Err(error) if open && error.kind() != ErrorKind::Unknown => Err(Error::Unknown {
                table: batch.table.to_string(),
                reason: error.to_string(),
                source: Some(Box::new(error)),
            }),
            result => result,
        }
    }

    /// Removes files of ours that nothing refers to. What cannot be removed is left to cleanup.
    pub async fn remove(&self, files: impl Iterator<Item = &str>) {
        for file in files {
            let _ = self.catalog.store().delete(file).await;
        }
    }

    async fn attempts(&self, batch: &BatchCommit, sent: &mut Vec<Sent>) -> Result<BatchOutcome, Error> {
        let cache = ManifestCache::default();
        let (mut conflicts, mut unknowns) = (0_u32, 0_u32);
        let mut waited = Duration::ZERO;
        let mut properties = HashMap::new();
        loop {
            let outcome = match self.load(batch).await {
                // While a request is open, a table that cannot be read decides nothing.
                Err(error) if sent.iter().any(|sent| sent.unknown) => {
                    Attempt::Unknown { reason: error.to_string(), source: Some(Box::new(error)) }
                }
                Err(error) => return Err(error),
                Ok(table) => {
                    properties.clone_from(table.metadata().properties());
                    match landed(&table, sent) {
                        Some(attempt) => attempt,
                        None => self.attempt(batch, table, &cache, sent).await?,
                    }
                }
            };
            let attempts = u32::try_from(sent.len()).unwrap_or(u32::MAX);
            let jitter = self.environment.jitter();
            let (wait, given_up) = match outcome {
                Attempt::Committed { snapshot_id, replaced_rows } => {
                    return Ok(BatchOutcome::Committed { snapshot_id, replaced_rows, attempts });
                }
                Attempt::Skipped { snapshot_id } => return Ok(BatchOutcome::Skipped { snapshot_id }),
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
                return match self.load(batch).await.map(|table| landed(&table, sent)) {
                    Ok(Some(Attempt::Committed { snapshot_id, replaced_rows })) => {
                        Ok(BatchOutcome::Committed { snapshot_id, replaced_rows, attempts })
                    }
                    _ => Err(given_up),
                };
            };
            self.environment.sleep(wait).await;
            waited += wait;
        }
    }

    async fn load(&self, batch: &BatchCommit) -> Result<Table, Error> {
        let table = self.catalog.load(&batch.table).await?;
        table.ok_or_else(|| Error::NoTable { table: batch.table.to_string() })
    }

    /// One attempt, decided on `table` and nothing else.
    async fn attempt(
        &self,
        batch: &BatchCommit,
        table: Table,
        cache: &ManifestCache,
        sent: &mut Vec<Sent>,
    ) -> Result<Attempt, Error> {
        let checked = self.check(&table, &batch.batch_id, batch.derivation.as_ref(), batch.force);
        if let Some(BatchOutcome::Skipped { snapshot_id }) = checked? {
            return self.skipped(batch, table, cache, sent, snapshot_id).await;
        }
        refuse_changed(batch, table.metadata())?;
        let age_hours = (self.environment.now_ms() - batch.started_ms) / 3_600_000;
        if age_hours >= MAX_ATTEMPT_HOURS {
            return Err(Error::TooLate { hours: age_hours, limit: MAX_ATTEMPT_HOURS });
        }
        let filter = Filter { field_id: batch_field(&table)?, value: batch.batch_id.to_string() };
        let base = Base::load(table, cache).await?;
        let plan = Plan::make(&base, &filter, self.catalog.store()).await?;

        let mut written = Vec::new();
        let draft = self.draft(batch, &base, &plan, &filter, &mut written).await;
        let (updates, requirements, snapshot_id) = match draft {
            Ok(draft) => draft,
            Err(error) => {
                self.remove(written.iter().map(String::as_str)).await;
                return Err(error);
            }
        };
        // From here on the files of this attempt belong to a request that may be anywhere.
        let replaced_rows = plan.replaced_rows;
        sent.push(Sent { snapshot_id, replaced_rows, files: written, unknown: true });
        let request = CommitRequest { base: base.table, requirements, updates };
        let answer = self.catalog.port().commit(&request).await;
        let mut settle = |unknown: bool| {
            if let Some(last) = sent.last_mut() {
                last.unknown = unknown;
            }
        };
        match answer {
            Ok(CommitOutcome::Committed(table)) if table.metadata().snapshot_by_id(snapshot_id).is_some() => {
                settle(false);
                Ok(Attempt::Committed { snapshot_id, replaced_rows })
            }
            Ok(CommitOutcome::Committed(_)) => Ok(Attempt::Unknown {
                reason: "the catalog said committed, and its table does not hold the snapshot".to_owned(),
                source: None,
            }),
            // The next load tells whether it was a second copy of a request that landed; until then nothing of this
            // attempt is removed.
            Ok(CommitOutcome::Conflict { reason }) => {
                settle(false);
                Ok(Attempt::Conflict { reason })
            }
            Ok(CommitOutcome::Unknown { reason, source }) => Ok(Attempt::Unknown { reason, source }),
            Err(error) => {
                settle(false);
                Err(error.into())
            }
        }
    }

    /// The batch is in the ledger. If a request of ours went out before, it may have been that one, even though its
    /// snapshot is not to be seen any more: the files are asked before they are thought superfluous.
    async fn skipped(
        &self,
        batch: &BatchCommit,
        table: Table,
        cache: &ManifestCache,
        sent: &[Sent],
        snapshot_id: Option<i64>,
    ) -> Result<Attempt, Error> {
        if let Some(last) = sent.last() {
            let base = Base::load(table, cache).await?;
            let live = base.live_paths();
            if batch.files.iter().any(|file| live.contains(file.file_path())) {
                let (snapshot_id, replaced_rows) = (last.snapshot_id, last.replaced_rows);
                return Ok(Attempt::Committed { snapshot_id, replaced_rows });
            }
        }
        Ok(Attempt::Skipped { snapshot_id })
    }

    /// Writes the files of one attempt and puts the request together.
    async fn draft(
        &self,
        batch: &BatchCommit,
        base: &Base,
        plan: &Plan,
        filter: &Filter,
        written: &mut Vec<String>,
    ) -> Result<(Vec<TableUpdate>, Vec<iceberg::TableRequirement>, i64), Error> {
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
        let snapshot_id = self.snapshot_id(metadata);
        let (mut updates, requirements) = snapshot::write(
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
        updates.push(TableUpdate::SetProperties { updates: self.properties(batch, metadata, snapshot_id) });
        Ok((updates, requirements, snapshot_id))
    }

    /// A snapshot id that the table does not have.
    fn snapshot_id(&self, metadata: &TableMetadata) -> i64 {
        loop {
            let (high, low) = self.environment.uuid().as_u64_pair();
            let id = i64::try_from((high ^ low) >> 1).unwrap_or(i64::MAX);
            if id > 0 && metadata.snapshot_by_id(id).is_none() {
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

/// The request that the table shows to have landed.
fn landed(table: &Table, sent: &[Sent]) -> Option<Attempt> {
    let landed = sent.iter().find(|sent| table.metadata().snapshot_by_id(sent.snapshot_id).is_some())?;
    Some(Attempt::Committed { snapshot_id: landed.snapshot_id, replaced_rows: landed.replaced_rows })
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
