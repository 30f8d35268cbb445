//! Preparing the batch of a job, and landing what is prepared.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::Schema as ArrowSchema;
use hexfloe_batch::{BATCH_ID_COLUMN, BatchId, ContentHasher, FileFact, Sha256Hex, files_digest};
use hexfloe_catalog::{OpenCatalog, TableDefinition};
use hexfloe_commit::{
    BatchCheck, BatchCommit, BatchOutcome, Committer, Derivation, Notice, OnChangedInput, ParquetSettings, Replaces,
    Running, SharedEnvironment, WrittenFor, announce, names,
};
use hexfloe_source::{Remotes, Scan, ScanOptions, Source, SourceSettings};
use hexfloe_store::Store;
use iceberg::TableIdent;
use iceberg::arrow::{arrow_schema_to_schema_auto_assign_ids, schema_to_arrow_schema};
use iceberg::spec::{DataFile, Schema};
use iceberg::table::Table;
use tokio::runtime::RuntimeFlavor;

use crate::dedupe::Dedupe;
use crate::destination::Destination;
use crate::files::FileSet;
use crate::job::{self, Granularity, Job, OnReject};
use crate::keys::KeyColumns;
use crate::mode::Replacement;
use crate::notify::Settled;
use crate::partition::{Partitioner, spec_of_terms};
use crate::pipeline::{self, Plan};
use crate::place::Places;
use crate::positions::Positions;
use crate::progress::{Phase, Progress};
use crate::rejects::{QuarantineFile, RejectSink};
use crate::report::{Report, Status};
use crate::shape::{Additions, Shape};
use crate::spatial::{self, additions};
use crate::{Error, ErrorKind};

/// Rows of a decoded batch.
const BATCH_ROWS: usize = 16_384;

/// A batch is written at most so often anew when the table turns out to be another one than it was written for.
pub(crate) const MAX_STARTS: u32 = 3;

/// What a run is given besides the job.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The folder of the job file: paths of the source start there.
    pub base: PathBuf,
    /// The folder the reject folder starts from.
    pub working_folder: PathBuf,
    /// `$run_date` in a `select` and in a slice, as `YYYY-MM-DD`.
    pub run_date: Option<String>,
    /// Ingest even if the batch is in the table already.
    pub force: bool,
    /// Look at the input, write nothing.
    pub dry_run: bool,
    /// The branch to commit to: [`RunOptions::MAIN`], or one that is made from it when there is none of the name.
    pub branch: String,
    /// Threads when the job does not say.
    pub threads: usize,
}

impl RunOptions {
    /// The branch of a table that everybody reads.
    pub const MAIN: &'static str = BatchCommit::MAIN;
}

/// Runs jobs against one catalog.
#[derive(Debug)]
pub struct Ingest {
    /// Where batches go; `None` for a dry run without a catalog.
    target: Option<Target>,
    pub(crate) environment: SharedEnvironment,
    progress: Arc<Progress>,
}

/// A catalog, and the one committer that all batches go through: it remembers the manifests it has read.
#[derive(Debug)]
struct Target {
    catalog: OpenCatalog,
    committer: Committer,
}

/// What preparing a job came to.
pub(crate) enum Preparation {
    /// There is nothing to land: the batch is in the table already, or the run is dry.
    Settled(Box<Settled>),
    /// Its files are written.
    Ready(Box<Prepared>),
}

/// A batch whose files are written: it has to be landed, or its files stay behind. Nothing of its rows is in memory.
pub(crate) struct Prepared {
    pub(crate) batch: BatchCommit,
    /// Its table, which goes again if it was made for a batch that is not committed.
    pub(crate) destination: Arc<Destination>,
    /// What is known before the commit.
    pub(crate) report: Report,
    /// That it is under way.
    pub(crate) announced: Option<Running>,
}

/// What is committed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// Batches of one table, in one snapshot.
    OneTable,
    /// A batch for each of several tables, in one commit.
    SeveralTables,
}

impl Ingest {
    /// An ingest into the tables of `catalog`.
    pub fn new(catalog: OpenCatalog, environment: SharedEnvironment) -> Self {
        let committer = Committer::new(catalog.clone(), Arc::clone(&environment));
        Self { target: Some(Target { catalog, committer }), environment, progress: Arc::default() }
    }

    /// An ingest that can only be dry: there is no catalog yet.
    pub fn without_catalog(environment: SharedEnvironment) -> Self {
        Self { target: None, environment, progress: Arc::default() }
    }

    /// Counters that are kept up to date while [`Ingest::run`] runs.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Lands the batch that the job describes, exactly once, and tells it if the job says whom to tell. It has to be called on a multi-threaded tokio runtime; the
    /// thread it is called on becomes the first of the job's threads.
    ///
    /// # Errors
    ///
    /// See [`Error`]; unless its kind is [`ErrorKind::Unknown`](crate::ErrorKind::Unknown) nothing was committed and no data
    /// file of this run is left.
    pub async fn run(&self, job: &Job, options: &RunOptions) -> Result<Report, Error> {
        let begun_ms = self.environment.now_ms();
        let mut starts = 1;
        loop {
            match self.start(job, options).await {
                Err(error) if restartable(&error) && starts < MAX_STARTS => starts += 1,
                Err(error) => return Err(error),
                Ok(settled) => return Ok(self.tell(job, options, settled, begun_ms).await),
            }
        }
    }

    async fn start(&self, job: &Job, options: &RunOptions) -> Result<Settled, Error> {
        match self.prepare(job, options).await? {
            Preparation::Settled(settled) => Ok(*settled),
            Preparation::Ready(prepared) => {
                let table = prepared.report.table.clone();
                let settled = self.land(vec![*prepared], Landing::OneTable).await?;
                settled.into_iter().next().ok_or(Error::Raced { table })
            }
        }
    }

    /// Commits prepared batches of one table in one snapshot. What came of them is in the order of the batches.
    ///
    /// Unless the error's kind is [`ErrorKind::Unknown`] nothing is committed then, the files are removed, and so is a table that
    /// was made for one of the batches.
    pub(crate) async fn land(&self, prepared: Vec<Prepared>, landing: Landing) -> Result<Vec<Settled>, Error> {
        let Some(Target { committer, .. }) = &self.target else { return Ok(Vec::new()) };
        self.progress.enter(Phase::Committing, 0);
        let mut batches = Vec::new();
        let mut waiting = Vec::new();
        // Until it is settled.
        let mut under_way = Vec::new();
        for Prepared { batch, destination, report, announced } in prepared {
            waiting.push((destination, report, batch.content_sha256));
            batches.push(batch);
            under_way.push(announced);
        }
        let outcomes = match landing {
            Landing::OneTable => committer.commit_all(&batches).await,
            Landing::SeveralTables => committer.commit_together(&batches).await,
        };
        drop(under_way);
        match outcomes {
            Ok(outcomes) => {
                let settled = std::iter::zip(waiting, outcomes).map(|((_, report, content_sha256), outcome)| Settled {
                    report: report.landed(&outcome),
                    content_sha256: Some(content_sha256),
                });
                Ok(settled.collect())
            }
            Err(error) => {
                // Of another table the committer touches nothing; but these files were made for this one call.
                if let hexfloe_commit::Error::Changed { sent: false, .. } = &error {
                    committer.remove(batches.iter().flat_map(|batch| &batch.files).map(DataFile::file_path)).await;
                }
                let error = Error::from(error);
                if error.kind() != ErrorKind::Unknown {
                    for (destination, ..) in &waiting {
                        destination.discard().await;
                    }
                }
                Err(error)
            }
        }
    }

    /// Gives up what is prepared: its files, and the tables that were made for it.
    pub(crate) async fn abandon(&self, prepared: Vec<Prepared>) {
        let Some(Target { committer, .. }) = &self.target else { return };
        for Prepared { batch, destination, .. } in prepared {
            committer.remove(batch.files.iter().map(DataFile::file_path)).await;
            destination.discard().await;
        }
    }

    /// A table as it is now; none without a catalog.
    pub(crate) async fn load(&self, name: &TableIdent) -> Result<Option<Table>, Error> {
        match &self.target {
            Some(target) => Ok(target.catalog.load(name).await?),
            None => Ok(None),
        }
    }

    /// Writes into the table that a batch's landing was told.
    pub(crate) async fn record(&self, notice: &Notice) -> Result<(), Error> {
        match &self.target {
            Some(target) => Ok(target.committer.record_notice(notice).await?),
            None => Ok(()),
        }
    }

    /// What reaches input across the network: the catalog's store, with its endpoints and credentials, or what the environment says.
    pub(crate) fn remotes(&self) -> Result<Remotes, Error> {
        let store = match &self.target {
            Some(target) => target.catalog.store().clone(),
            None => Store::local().with_remote(BTreeMap::new(), None)?,
        };
        Ok(Remotes::new(store, tokio::runtime::Handle::current()))
    }

    /// Whether the catalog can change several tables in one commit.
    pub(crate) fn commits_together(&self) -> bool {
        self.target.as_ref().is_none_or(|target| target.catalog.port().commits_together())
    }

    /// Checks a job, finds its batch, and writes the files of the batch unless the table has it already. The batch has an
    /// age of its own: files written anew are new.
    ///
    /// On an error no file is left, and no table that was made for them.
    pub(crate) async fn prepare(&self, job: &Job, options: &RunOptions) -> Result<Preparation, Error> {
        if tokio::runtime::Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Err(Error::Runtime);
        }
        let started_ms = self.environment.now_ms();
        self.progress.enter(Phase::Opening, 0);
        let name = table_name(&job.table.name)?;
        let replacement = Replacement::of(job, options.run_date.as_deref(), options.force)?;
        let source = Source::open_with(source_settings(job)?, &options.base, &self.remotes()?)?;
        let table = self.load(&name).await?;
        let additions = additions(job, &source, &replacement, table.as_ref())?;
        let records = spatial::records(&additions, job.geometry.as_ref().and_then(|geometry| geometry.repair));
        let derivation = additions
            .cells
            .as_ref()
            .map(|cells| Derivation { column: cells.column().to_owned(), record: cells.record() });
        let required = additions.positions.as_ref().map_or_else(Vec::new, Positions::columns);
        let scan_options = ScanOptions {
            declared: declared(table.as_ref(), &additions)?,
            run_date: options.run_date.clone(),
            batch_rows: BATCH_ROWS,
            columns_required: required,
            threads: threads(job, options),
        };
        hexfloe_commit::check_branch_name(&options.branch)?;
        if let (Some(target), Some(table)) = (&self.target, &table) {
            // The derivation first: it needs no look at the input.
            let anything = BatchId::content(&job.source.name, &Sha256Hex::of(""));
            let check = BatchCheck {
                batch_id: &anything,
                branch: &options.branch,
                derivation: derivation.as_ref(),
                records: &records,
                content_sha256: None,
                on_changed_input: OnChangedInput::Refuse,
                owns_slice: false,
                force: true,
            };
            target.committer.check(table, &check)?;
            refuse_other_cells(table, derivation.as_ref(), &records)?;
            refuse_repairs_from_now_on(table, &records)?;
        }
        let mut identity = Identity { source: &source, systems: spatial::systems(&additions), digest: None };
        // The id is a function of the input alone, and what a table declares is not input: with the types of the table, a
        // batch would have another id before the table is made, or a column of it widened, than after.
        let by_itself = ScanOptions { declared: declared(None, &additions)?, ..scan_options.clone() };
        let batch_id = self.identify(job, &replacement, &mut identity, &by_itself)?;
        let on_changed_input = match job.batch.on_changed_input() {
            job::OnChangedInput::Refuse => OnChangedInput::Refuse,
            job::OnChangedInput::Replace => OnChangedInput::Replace,
        };
        let mut report = Report {
            version: 1,
            status: Status::Skipped,
            table: name.to_string(),
            batch_id: batch_id.to_string(),
            snapshot_id: None,
            rows: 0,
            rejected: 0,
            deduplicated: 0,
            without_geometry: 0,
            reject_file: None,
            replaced_rows: 0,
            data_files: 0,
            bytes: 0,
            attempts: 0,
            elapsed_ms: 0,
            waited_ms: 0,
            branch: (options.branch != RunOptions::MAIN).then(|| options.branch.clone()),
            notified: None,
            branch_is_new: options.branch != RunOptions::MAIN
                && table.as_ref().is_none_or(|table| table.metadata().snapshot_for_ref(&options.branch).is_none()),
        };
        if let (Some(target), Some(table)) = (&self.target, &table) {
            // Where the id does not tell the content, a batch is skipped only if the content is the same.
            let content_sha256 = identity.digest(&self.progress)?;
            let check = BatchCheck {
                batch_id: &batch_id,
                branch: &options.branch,
                derivation: derivation.as_ref(),
                records: &records,
                content_sha256: Some(&content_sha256),
                on_changed_input,
                owns_slice: job.table.mode == job::Mode::Slice,
                force: options.force,
            };
            let checked = target.committer.check(table, &check).map_err(|error| replacement.explain(error))?;
            if let Some(BatchOutcome::Skipped { snapshot_id }) = checked {
                report.snapshot_id = snapshot_id;
                let content_sha256 = Some(content_sha256);
                return Ok(Preparation::Settled(Box::new(Settled { report, content_sha256 })));
            }
        }

        // What the rows will look like, before anything is written.
        let mut scan = source.scan(&scan_options)?;
        let definition = match &table {
            Some(_) => None,
            None => Some(definition(job, scan.schema(), &additions, derivation.as_ref(), &records)?),
        };
        let metadata = match (&table, &definition) {
            (Some(table), _) => table.metadata().clone(),
            (None, Some(definition)) => definition.staged(&name)?,
            (None, None) => return Err(Error::Raced { table: name.to_string() }),
        };
        let (schema, spec) = (metadata.current_schema(), metadata.default_partition_spec());
        let quarantine = job.quality.on_reject == OnReject::Quarantine && !options.dry_run;
        let cells = additions.cells.as_ref().map_or_else(Vec::new, |cells| vec![cells.column().to_owned()]);
        let memory = usize::try_from(job.limits.memory.0).unwrap_or(usize::MAX);
        let (required, places) = (replacement.required(job), Places::of(&source));
        let mut shape = Shape::new(scan.schema(), schema, additions, &required, batch_id.clone(), places, quarantine)?;
        let keys = match replacement.key() {
            Some(key) => Some(KeyColumns::comparable("table.key", key, shape.schema())?),
            None => None,
        };
        let parquet = ParquetSettings::of(metadata.properties())?;
        if let Some(settings) = &job.quality.dedupe {
            let dedupe = Dedupe::new(settings, shape.schema())?;
            self.progress.enter(Phase::Identifying, source.total_bytes());
            let threads = threads(job, options);
            let left_out = tokio::task::block_in_place(|| dedupe.find(scan, &shape, threads, memory, &self.progress))?;
            shape.leave_out(left_out);
            scan = source.scan(&scan_options)?;
        }
        let partitioner = Partitioner::new(spec, schema, shape.schema())?;
        let plan = Plan {
            shape: &shape,
            partitioner: &partitioner,
            encodings: job.table.encodings,
            parquet,
            cells,
            keys,
            memory,
            threads: threads(job, options),
            progress: &self.progress,
        };
        let attempt = self.environment.uuid();
        let announced =
            self.environment.announcements().filter(|_| !options.dry_run).and_then(|folder| {
                announce(&folder, &name.to_string(), batch_id.as_str(), &attempt.simple().to_string())
            });
        let sink = match job.quality.on_reject {
            OnReject::Quarantine => {
                let folder = options.working_folder.join(&job.quality.reject_folder).join(name.to_string());
                let path = folder.join(format!("{batch_id}.ndjson"));
                RejectSink::Quarantine { count: 0, file: QuarantineFile::new(path, &attempt.simple().to_string()) }
            }
            OnReject::Refuse => RejectSink::refuse(),
        };

        let (Some(Target { catalog, committer }), false) = (&self.target, options.dry_run) else {
            let written = self.write(scan, &plan, None, sink, &source)?;
            report.status = Status::Unchanged;
            report.rows = written.rows;
            report.deduplicated = written.left_out;
            report.without_geometry = written.nowhere;
            report.rejected = written.rejects.count_or_refuse()?;
            replacement.refuse_emptied(report.rows, report.rejected, None)?;
            return Ok(Preparation::Settled(Box::new(Settled { report, content_sha256: None })));
        };
        let destination = Arc::new(match (table, definition) {
            (Some(table), _) => Destination::existing(catalog.clone(), Arc::clone(&self.environment), table),
            (None, Some(definition)) => {
                Destination::planned(catalog.clone(), Arc::clone(&self.environment), name.clone(), definition)?
            }
            (None, None) => return Err(Error::Raced { table: name.to_string() }),
        });
        let table_schema = schema_to_arrow_schema(schema).map_err(Error::iceberg("read the table's schema"))?;
        let described = async {
            let files = FileSet::new(
                Arc::clone(&destination),
                catalog.store().clone(),
                tokio::runtime::Handle::current(),
                format!("{batch_id}-{}", attempt.simple()),
                plan.memory / 4,
            );
            let written = self.write(scan, &plan, Some(files), sink, &source)?;
            let checked = async {
                source.check_unchanged()?;
                let content_sha256 = identity.digest(&self.progress)?;
                let (rejected, reject_file) = written.rejects.finish()?;
                replacement.refuse_emptied(written.rows, rejected, reject_file.as_deref())?;
                let written_for = WrittenFor::of(destination.table().await?.metadata());
                let replaces = match (&replacement, written.keys) {
                    (Replacement::Batch, _) => Replaces::Batch,
                    (Replacement::Slice(slice), _) => Replaces::Slice(slice.keys(&table_schema)?),
                    (Replacement::Keys(_), keys) => keys.map_or(Replaces::Batch, Replaces::Keys),
                    (Replacement::Nothing, _) => Replaces::Nothing,
                };
                Ok((content_sha256, rejected, reject_file, written_for, replaces))
            };
            let (content_sha256, rejected, reject_file, written_for, replaces) = match checked.await {
                Ok(checked) => checked,
                Err(error) => {
                    committer.remove(written.files.iter().map(DataFile::file_path)).await;
                    return Err(error);
                }
            };
            report.rows = written.rows;
            report.deduplicated = written.left_out;
            report.without_geometry = written.nowhere;
            report.rejected = rejected;
            report.reject_file = reject_file;
            report.data_files = written.files.len() as u64;
            report.bytes = written.files.iter().map(DataFile::file_size_in_bytes).sum();
            let batch = BatchCommit {
                table: name,
                branch: options.branch.clone(),
                written_for,
                batch_id,
                source: job.source.name.clone(),
                rows: written.rows,
                rejected,
                content_sha256,
                derivation,
                records,
                replaces,
                on_changed_input,
                force: options.force,
                files: written.files,
                started_ms,
            };
            Ok((batch, report))
        };
        match described.await {
            Ok((batch, report)) => Ok(Preparation::Ready(Box::new(Prepared { batch, destination, report, announced }))),
            Err(error) => {
                destination.discard().await;
                Err(error)
            }
        }
    }

    /// The batch id, as the job defines it.
    fn identify(
        &self,
        job: &Job,
        replacement: &Replacement,
        identity: &mut Identity<'_>,
        scan_options: &ScanOptions,
    ) -> Result<BatchId, Error> {
        let name = &job.source.name;
        match (job.batch.granularity, &job.batch.partition, job.batch.offsets) {
            (Granularity::Offsets, Some(partition), Some([start, end])) => {
                Ok(BatchId::offsets(name, partition, start, end)?)
            }
            (Granularity::Offsets, _, _) => Err(Error::Job(
                "batch.granularity = \"offsets\" needs batch.partition and batch.offsets = [first, after_last]"
                    .to_owned(),
            )),
            (_, Some(_), _) | (_, _, Some(_)) => Err(Error::Job(
                "batch.partition and batch.offsets go with batch.granularity = \"offsets\" only".to_owned(),
            )),
            (Granularity::File, None, None) if identity.source.files().len() > 1 => Err(Error::Job(
                "batch.granularity = \"file\" makes a batch of each file, and this is a run of one batch".to_owned(),
            )),
            (Granularity::Files | Granularity::File, None, None) => {
                let facts = identity.facts(&self.progress)?;
                Ok(BatchId::files(name, &facts))
            }
            (Granularity::Slice, None, None) => match replacement.slice() {
                Some(slice) => Ok(slice.batch_id(name)),
                None => Err(Error::Job("batch.granularity = \"slice\" needs table.slice".to_owned())),
            },
            (Granularity::Content, None, None) => {
                self.progress.enter(Phase::Identifying, identity.source.total_bytes());
                let digest = tokio::task::block_in_place(|| self.content_digest(identity.source, scan_options))?;
                Ok(BatchId::content(name, &identity.found(digest)))
            }
        }
    }

    /// A digest of the rows, in order.
    fn content_digest(&self, source: &Source, scan_options: &ScanOptions) -> Result<Sha256Hex, Error> {
        let mut scan = source.scan(scan_options)?;
        let mut hasher = ContentHasher::new(scan.schema())?;
        while let Some(piece) = scan.next_piece()? {
            let decoded = piece.decode()?;
            for batch in &decoded.batches {
                self.progress.add(batch.batch.num_rows() as u64, 0);
                hasher.update(&batch.batch)?;
            }
            self.progress.add(0, decoded.bytes);
            if decoded.last {
                break;
            }
        }
        Ok(hasher.finish())
    }

    fn write(
        &self,
        scan: Scan,
        plan: &Plan<'_>,
        files: Option<FileSet>,
        sink: RejectSink,
        source: &Source,
    ) -> Result<pipeline::Written, Error> {
        self.progress.enter(Phase::Writing, source.total_bytes());
        // The pipeline has threads of its own, and this one is the first of them.
        tokio::task::block_in_place(|| pipeline::run(scan, plan, files, sink))
    }
}

/// What can be said against a job without a catalog: its table's name, its files, its positions.
///
/// # Errors
///
/// As [`Ingest::run`] would fail, before it looks at the table.
pub fn check(job: &Job, options: &RunOptions) -> Result<(), Error> {
    table_name(&job.table.name)?;
    let replacement = Replacement::of(job, options.run_date.as_deref(), options.force)?;
    // Where files across the network are is for the catalog to say.
    if job.source.paths.iter().any(|path| path.contains("://")) {
        return Ok(());
    }
    let source = Source::open(source_settings(job)?, &options.base)?;
    additions(job, &source, &replacement, None).map(|_| ())
}

/// The facts about the source that are found once, when they are needed.
struct Identity<'a> {
    source: &'a Source,
    /// The reference systems, as the files and the job have them; empty where all is in longitude and latitude.
    systems: String,
    digest: Option<Sha256Hex>,
}

impl Identity<'_> {
    fn facts(&mut self, progress: &Progress) -> Result<Vec<FileFact>, Error> {
        progress.enter(Phase::Identifying, self.source.total_bytes());
        let facts = tokio::task::block_in_place(|| self.source.facts(&|bytes| progress.add(0, bytes)))?;
        self.found(files_digest(&facts));
        Ok(facts)
    }

    /// The same numbers in another reference system are other places, and so other content.
    fn found(&mut self, digest: Sha256Hex) -> Sha256Hex {
        let digest = match self.systems.as_str() {
            "" => digest,
            systems => Sha256Hex::of(format!("{digest}\n{systems}")),
        };
        self.digest = Some(digest);
        digest
    }

    /// The digest for the snapshot summary: that of the id where the id has one, otherwise one of the files' contents,
    /// whatever the files are called. It is a batch of the same offsets or of the same slice that is compared by it.
    fn digest(&mut self, progress: &Progress) -> Result<Sha256Hex, Error> {
        if let Some(digest) = self.digest {
            return Ok(digest);
        }
        let unnamed = self.facts(progress)?.into_iter().map(|fact| FileFact { path: String::new(), ..fact });
        Ok(self.found(files_digest(&unnamed.collect::<Vec<_>>())))
    }
}

/// The table is not the one the files were written for: they are gone, and everything can begin anew.
pub(crate) fn restartable(error: &Error) -> bool {
    matches!(
        error,
        Error::Raced { .. }
            | Error::Commit(
                hexfloe_commit::Error::Changed { .. }
                    | hexfloe_commit::Error::NoTable { .. }
                    | hexfloe_commit::Error::TooLate { .. }
                    | hexfloe_commit::Error::FileGone { .. }
            )
    )
}

pub(crate) fn table_name(name: &str) -> Result<TableIdent, Error> {
    let parts: Vec<&str> = name.split('.').collect();
    let refuse = || {
        Error::Job(format!(
            "table.name: {name:?} is not a table; write namespace.name, of letters, digits, `_` and `-`"
        ))
    };
    let plain = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    if parts.len() < 2 || !parts.iter().all(plain) {
        return Err(refuse());
    }
    TableIdent::from_strs(parts).map_err(|_| refuse())
}

fn threads(job: &Job, options: &RunOptions) -> usize {
    job.limits.threads.unwrap_or(options.threads).clamp(1, 256)
}

/// The source as it is scanned: `table.sort` is part of the SQL.
pub(crate) fn source_settings(job: &Job) -> Result<SourceSettings, Error> {
    let mut settings = job.source.clone();
    settings.limits.open_rings = job.geometry.as_ref().is_some_and(|geometry| geometry.repair.is_some());
    if !job.table.sort.is_empty() {
        if !cfg!(feature = "sql") {
            return Err(Error::Job(
                "table.sort: this build has no SQL: build it with `cargo build --release --features sql`, or remove it"
                    .to_owned(),
            ));
        }
        let columns: Vec<String> =
            job.table.sort.iter().map(|column| format!("\"{}\"", column.replace('"', "\"\""))).collect();
        let select = settings.select.unwrap_or_else(|| "SELECT * FROM input".to_owned());
        settings.select = Some(format!("SELECT * FROM ({select}) ORDER BY {}", columns.join(", ")));
    }
    Ok(settings)
}

/// Types that win over what the input looks like: those of the table, and numbers for coordinates.
fn declared(table: Option<&Table>, additions: &Additions) -> Result<Vec<arrow::datatypes::Field>, Error> {
    use arrow::datatypes::{DataType, Field};
    if let Some(table) = table {
        let schema = schema_to_arrow_schema(table.metadata().current_schema());
        let schema = schema.map_err(Error::iceberg("read the table's schema"))?;
        return Ok(schema.fields().iter().map(|field| field.as_ref().clone()).collect());
    }
    let numbers = additions.positions.as_ref().map_or_else(Vec::new, Positions::numbers);
    Ok(numbers.iter().map(|name| Field::new(name, DataType::Float64, true)).collect())
}

/// A column whose values are on record as derived takes no others: not the source's own, and not nulls.
fn refuse_other_cells(
    table: &Table,
    derivation: Option<&Derivation>,
    records: &BTreeMap<String, String>,
) -> Result<(), Error> {
    let metadata = table.metadata();
    let recorded = metadata.properties().keys().filter_map(|name| name.strip_prefix(names::DERIVATION_PREFIX));
    let mut recorded: Vec<&str> =
        recorded.filter(|column| metadata.current_schema().field_by_name(column).is_some()).collect();
    recorded.sort_unstable();
    let is_made = |column: &&str| {
        derivation.is_some_and(|derivation| derivation.column == *column)
            || records.contains_key(&format!("{}{column}", names::DERIVATION_PREFIX))
    };
    let unmade = recorded.into_iter().find(|column| !is_made(column)).map(|column| (column, names::DERIVATION_PREFIX));
    // So are the geometries, or rows that have one would be without.
    let kept = metadata.properties().keys().filter_map(|name| name.strip_prefix(names::CRS_PREFIX));
    let mut kept: Vec<&str> = kept
        .filter(|column| metadata.current_schema().field_by_name(column).is_some())
        .filter(|column| !records.contains_key(&format!("{}{column}", names::CRS_PREFIX)))
        .collect();
    kept.sort_unstable();
    match unmade.or(kept.first().map(|column| (*column, names::CRS_PREFIX))) {
        None => Ok(()),
        Some((column, prefix)) => {
            let record = metadata.properties().get(&format!("{prefix}{column}")).map_or("", String::as_str);
            Err(Error::Mismatch(format!(
                "table {}: its column `{column}` {}, or write to another table",
                table.identifier(),
                what_is_missing(column, prefix, record)
            )))
        }
    }
}

/// Geometries of a table are repaired from its first batch on, or never.
fn refuse_repairs_from_now_on(table: &Table, records: &BTreeMap<String, String>) -> Result<(), Error> {
    let recorded = table.metadata().properties();
    let repaired = records.iter().filter(|(_, record)| record.contains("\"repair\""));
    let columns = repaired.filter_map(|(name, _)| name.strip_prefix(names::DERIVATION_PREFIX));
    let as_they_came = columns
        .filter(|column| recorded.contains_key(&format!("{}{column}", names::CRS_PREFIX)))
        .find(|column| !recorded.contains_key(&format!("{}{column}", names::DERIVATION_PREFIX)));
    match as_they_came {
        None => Ok(()),
        Some(column) => Err(Error::Mismatch(format!(
            "table {}: its column `{column}` holds geometries as they came, and this job repairs them: remove geometry.repair, or write \
             to another table",
            table.identifier()
        ))),
    }
}

/// What a recorded column holds, and what makes a job give it that too.
fn what_is_missing(column: &str, prefix: &str, record: &str) -> String {
    if prefix == names::CRS_PREFIX {
        return format!(
            "holds geometries, and this job keeps none there: set geometry.store = \"wkb\" (geometry.store_column = {column:?})"
        );
    }
    if record.contains("\"repair\"") {
        return "holds repaired geometries, and this job does not repair them: set geometry.repair = \"close-rings\""
            .to_owned();
    }
    if record.contains("\"bounding-box-") {
        return format!(
            "holds the boxes of geometries, and this job does not make them: set geometry.bbox = {column:?}"
        );
    }
    if record.contains("\"cover-") {
        return format!("holds covers, and this job does not derive them: set h3.cover with column = {column:?}");
    }
    format!("holds derived cells, and this job does not derive them: add [h3] with column = {column:?}")
}

/// A new table for the job.
fn definition(
    job: &Job,
    input: &ArrowSchema,
    additions: &Additions,
    derivation: Option<&Derivation>,
    records: &BTreeMap<String, String>,
) -> Result<TableDefinition, Error> {
    let columns = additions.new_table(input)?;
    let schema: Schema =
        arrow_schema_to_schema_auto_assign_ids(&columns).map_err(Error::iceberg("make the table's schema"))?;
    let mut properties: HashMap<String, String> = [
        ("commit.retry.num-retries", "100"),
        ("commit.retry.max-wait-ms", "2000"),
        ("write.parquet.compression-codec", "zstd"),
        ("write.metadata.compression-codec", "gzip"),
        ("write.metadata.previous-versions-max", "20"),
        // Many small batches make many manifests; ten of them are read as one.
        ("commit.manifest.min-count-to-merge", "10"),
        ("write.metadata.delete-after-commit.enabled", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    properties.insert(format!("write.metadata.metrics.column.{BATCH_ID_COLUMN}"), "full".to_owned());
    for geometry in &additions.geometries {
        properties.insert(format!("write.metadata.metrics.column.{}", geometry.name), "counts".to_owned());
    }
    if let Some(cover) = &additions.cover {
        properties.insert(format!("write.metadata.metrics.column.{}.element", cover.column()), "none".to_owned());
    }
    properties.extend(records.clone());
    if let Some(derivation) = derivation {
        let property = format!("{}{}", names::DERIVATION_PREFIX, derivation.column);
        properties.insert(property, derivation.record.to_json());
    }
    properties.extend(job.table.properties.clone());
    Ok(TableDefinition { partition_spec: spec_of_terms(&job.table.partition, &schema)?, schema, properties })
}
