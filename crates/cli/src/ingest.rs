//! `hexfloe ingest` and `hexfloe batch-id`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hexfloe_batch::BatchId;
use hexfloe_catalog::Access;
use hexfloe_ingest::{BatchEnd, Fate, Granularity, Ingest, Job, JobRun, Mode, Report, RunOptions, Status};
use hexfloe_source::{Format, Source, SourceSettings};
use serde::Serialize;

use crate::arguments::{BatchIdArguments, IngestArguments};
use crate::exit::Failure;
use crate::{display, environment, open};

/// A job file that was read.
struct Given {
    path: PathBuf,
    run: JobRun,
    /// Its catalog file; `None` for the embedded one.
    catalog: Option<PathBuf>,
}

/// Runs the jobs, and tells what comes of each. The exit code is that of the first failure.
pub(crate) async fn run(arguments: IngestArguments) -> Result<ExitCode, Failure> {
    // A job file that cannot be read is found before anything is done.
    let given = arguments.jobs.iter().map(|path| read(path, &arguments)).collect::<Result<Vec<Given>, Failure>>()?;
    let mut outcomes = Outcomes::new(&given, arguments.json);
    let mut ready = Vec::new();
    for (job, given) in given.into_iter().enumerate() {
        // A job that cannot work should not make a lake.
        match hexfloe_ingest::check(&given.run.job, &given.run.options) {
            Ok(()) => ready.push((job, given)),
            Err(error) => outcomes.failed(job, None, &Failure::from(error)),
        }
    }
    if arguments.together && (ready.len() < outcomes.jobs.len() || !of_one_catalog(&ready)) {
        // One that cannot work keeps the others from being committed.
        let failure = Failure::configuration("--together commits all jobs at once, to tables of one catalog");
        let (failed, fine): (Vec<_>, Vec<_>) =
            ready.iter().map(|(job, _)| *job).partition(|_| ready.len() == outcomes.jobs.len());
        failed.into_iter().for_each(|job| outcomes.failed(job, None, &failure));
        fine.into_iter().for_each(|job| outcomes.not_run(job, None));
        return outcomes.end();
    }
    for of_one_catalog in ready.chunk_by(|(_, one), (_, other)| one.catalog == other.catalog) {
        let Some((_, first)) = of_one_catalog.first() else { continue };
        match open_ingest(first.catalog.as_deref(), arguments.dry_run).await {
            Ok(ingest) => {
                let runs: Vec<JobRun> = of_one_catalog.iter().map(|(_, given)| given.run.clone()).collect();
                let watcher = display::watch(ingest.progress());
                let mut tell = |end: BatchEnd| {
                    let end = BatchEnd { job: of_one_catalog[end.job].0, ..end };
                    watcher.suspend(|| outcomes.ended(&end));
                };
                match arguments.together {
                    true => ingest.run_together(&runs, &mut tell).await,
                    false => ingest.run_all(&runs, arguments.group, &mut tell).await,
                }
                watcher.stop();
            }
            Err(failure) => of_one_catalog.iter().for_each(|(job, _)| outcomes.failed(*job, None, &failure)),
        }
    }
    outcomes.end()
}

fn of_one_catalog(ready: &[(usize, Given)]) -> bool {
    ready.iter().all(|(_, given)| ready.first().is_none_or(|(_, first)| first.catalog == given.catalog))
}

fn read(path: &Path, arguments: &IngestArguments) -> Result<Given, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::configuration(format!("cannot read {}: {error}", path.display())))?;
    let mut job = Job::from_toml(&text, &arguments.set).map_err(|error| Failure::from(error).in_file(path))?;
    if arguments.crs.is_some() {
        job.geometry.get_or_insert_default().crs.clone_from(&arguments.crs);
    }
    let working_folder =
        std::env::current_dir().map_err(|error| Failure::unexpected("find the current folder", error))?;
    let base = working_folder.join(open::folder_of(path));
    let catalog = match (&arguments.catalog, &job.catalog) {
        (Some(file), _) => Some(file.clone()),
        (None, Some(reference)) => Some(base.join(&reference.path)),
        (None, None) => None,
    };
    let options = RunOptions {
        base,
        working_folder,
        run_date: arguments.run_date.clone(),
        force: arguments.force,
        dry_run: arguments.dry_run,
        branch: arguments.branch.clone().unwrap_or_else(|| RunOptions::MAIN.to_owned()),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    Ok(Given { path: path.to_owned(), run: JobRun { job, options }, catalog })
}

/// One line of JSON, where there are several batches.
#[derive(Serialize)]
struct Line<'a> {
    job: &'a str,
    file: Option<&'a str>,
    #[serde(flatten)]
    report: &'a Report,
}

/// The line of a batch that was not landed.
#[derive(Serialize)]
struct FailureLine<'a> {
    job: &'a str,
    file: Option<&'a str>,
    version: u32,
    status: &'a str,
    exit_code: Option<u8>,
    error: Option<&'a str>,
}

/// Tells what comes of the batches, and keeps the first failure.
struct Outcomes {
    jobs: Vec<String>,
    /// Whether a batch of the job may be forced.
    forcible: Vec<bool>,
    /// Tables of which it was told that the branch is new.
    new_branches: BTreeSet<String>,
    /// Whether there may be more than one batch, so that each has to be told from the others.
    several: bool,
    json: bool,
    for_people: bool,
    first: Option<Failure>,
    counts: BTreeMap<&'static str, u64>,
}

impl Outcomes {
    fn new(given: &[Given], json: bool) -> Self {
        let by_file = |given: &Given| given.run.job.batch.granularity == Granularity::File;
        Self {
            jobs: given.iter().map(|given| given.path.display().to_string()).collect(),
            forcible: given.iter().map(|given| given.run.job.table.mode != Mode::AppendOnce).collect(),
            new_branches: BTreeSet::new(),
            several: given.len() > 1 || given.iter().any(by_file),
            json,
            for_people: !json || std::io::stderr().is_terminal(),
            first: None,
            counts: BTreeMap::new(),
        }
    }

    fn ended(&mut self, end: &BatchEnd) {
        let file = end.file.as_deref();
        match &end.fate {
            Fate::Settled(report) => self.settled(end.job, file, report),
            Fate::Failed(error) => self.failed(end.job, file, &Failure::from(error.as_ref())),
            Fate::NotRun => self.not_run(end.job, file),
        }
    }

    fn settled(&mut self, job: usize, file: Option<&str>, report: &Report) {
        let status = match report.status {
            Status::Committed => "committed",
            Status::Skipped => "skipped",
            Status::Unchanged => "fine",
        };
        *self.counts.entry(status).or_default() += 1;
        if self.json {
            self.printed(if self.several {
                display::json(&Line { job: &self.jobs[job], file, report })
            } else {
                display::json(report)
            });
        }
        if self.for_people {
            // Of several batches, the first makes the branch.
            let branch_is_new = report.branch_is_new && self.new_branches.insert(report.table.clone());
            let report = Report { branch_is_new, ..report.clone() };
            display::report(&self.label(job, file), &report, self.forcible[job]);
        }
        if let Some(untold) = Failure::untold(report) {
            *self.counts.entry("not told").or_default() += 1;
            let untold = untold.labelled(&self.label(job, file));
            untold.say();
            self.keep(untold);
        }
    }

    fn failed(&mut self, job: usize, file: Option<&str>, failure: &Failure) {
        *self.counts.entry("failed").or_default() += 1;
        let failure = failure.labelled(&self.label(job, file));
        failure.say();
        if self.json && self.several {
            let (exit_code, error) = (Some(failure.code()), Some(failure.message()));
            let (job, version) = (self.jobs[job].as_str(), 1);
            let line = FailureLine { job, file, version, status: "failed", exit_code, error };
            self.printed(display::json(&line));
        }
        self.keep(failure);
    }

    fn not_run(&mut self, job: usize, file: Option<&str>) {
        *self.counts.entry("not run").or_default() += 1;
        if self.json {
            let (job, version) = (self.jobs[job].as_str(), 1);
            let line = FailureLine { job, file, version, status: "not_run", exit_code: None, error: None };
            self.printed(display::json(&line));
        }
        if self.for_people {
            display::say(&format!("{}not run, because of the failure before it", self.label(job, file)));
        }
    }

    fn printed(&mut self, printed: Result<(), Failure>) {
        if let Err(failure) = printed {
            failure.say();
            self.keep(failure);
        }
    }

    fn keep(&mut self, failure: Failure) {
        self.first.get_or_insert(failure);
    }

    /// What a sentence about one of several batches begins with.
    fn label(&self, job: usize, file: Option<&str>) -> String {
        match file {
            _ if !self.several => String::new(),
            Some(file) if self.jobs.len() == 1 => format!("{file}: "),
            Some(file) => format!("{}, {file}: ", self.jobs[job]),
            None => format!("{}: ", self.jobs[job]),
        }
    }

    fn end(self) -> Result<ExitCode, Failure> {
        if self.several && self.for_people {
            let counts: Vec<String> = self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
            display::say(&counts.join(", "));
        }
        Ok(self.first.map_or(ExitCode::SUCCESS, |failure| ExitCode::from(failure.code())))
    }
}

async fn open_ingest(catalog_file: Option<&Path>, dry_run: bool) -> Result<Ingest, Failure> {
    let environment = environment::system();
    if dry_run {
        return Ok(match open::catalog(catalog_file, Access::Existing).await {
            Ok(catalog) => Ingest::new(catalog, environment),
            Err(failure) if failure.is_no_catalog() => Ingest::without_catalog(environment),
            Err(failure) => return Err(failure),
        });
    }
    Ok(Ingest::new(open::catalog(catalog_file, Access::Create).await?, environment))
}

pub(crate) fn batch_id(arguments: &BatchIdArguments) -> Result<(), Failure> {
    let id = match (&arguments.partition, arguments.offsets) {
        (Some(partition), Some((start, end))) => BatchId::offsets(&arguments.source, partition, start, end),
        _ => {
            // The format plays no part in the facts about files.
            let settings = SourceSettings::new(&arguments.source, Format::Csv, arguments.files.clone());
            let facts = Source::open(settings, &PathBuf::from(".")).and_then(|source| source.facts(&|_| {}));
            let facts = facts.map_err(hexfloe_ingest::Error::from)?;
            Ok(BatchId::files(&arguments.source, &facts))
        }
    };
    display::print(&format!("{}\n", id.map_err(hexfloe_ingest::Error::from)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts read these names and types: a change here is a new version.
    #[test]
    fn the_lines_of_several_batches_are_version_1() {
        let report = Report {
            version: 1,
            status: Status::Skipped,
            table: "places.cities".to_owned(),
            batch_id: "0cc175b9c0f1b6a831c399e269772661".to_owned(),
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
            elapsed_ms: 1,
            waited_ms: 0,
            branch: None,
            notified: None,
            branch_is_new: false,
        };
        let line = serde_json::to_string(&Line { job: "a.toml", file: Some("in/1.csv"), report: &report }).unwrap();
        let (before, object) = (r#"{"job":"a.toml","file":"in/1.csv","#, serde_json::to_string(&report).unwrap());
        assert_eq!(line, format!("{before}{}", &object[1..]), "the report of a single batch with two keys before it");

        let (job, version) = ("a.toml", 1);
        let (exit_code, error) = (Some(3), Some("1 row cannot be used"));
        let failed = FailureLine { job, file: None, version, status: "failed", exit_code, error };
        assert_eq!(
            serde_json::to_string(&failed).unwrap(),
            r#"{"job":"a.toml","file":null,"version":1,"status":"failed","exit_code":3,"error":"1 row cannot be used"}"#
        );
    }
}
