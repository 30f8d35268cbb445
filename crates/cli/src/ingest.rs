//! `hexfloe ingest` and `hexfloe batch-id`.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hexfloe_batch::BatchId;
use hexfloe_catalog::Access;
use hexfloe_ingest::{Ingest, Job, RunOptions};
use hexfloe_source::{CsvSettings, Format, Source, SourceSettings};

use crate::arguments::{BatchIdArguments, IngestArguments};
use crate::exit::Failure;
use crate::{display, environment, open};

pub(crate) async fn run(arguments: IngestArguments) -> Result<(), Failure> {
    let text = std::fs::read_to_string(&arguments.job)
        .map_err(|error| Failure::configuration(format!("cannot read {}: {error}", arguments.job.display())))?;
    let job = Job::from_toml(&text, &arguments.set).map_err(|error| Failure::from(error).in_file(&arguments.job))?;
    let working_folder =
        std::env::current_dir().map_err(|error| Failure::unexpected("find the current folder", error))?;
    let base = working_folder.join(open::folder_of(&arguments.job));
    let options = RunOptions {
        base: base.clone(),
        working_folder,
        run_date: arguments.run_date,
        force: arguments.force,
        dry_run: arguments.dry_run,
        branch: RunOptions::MAIN.to_owned(),
        threads: std::thread::available_parallelism().map_or(1, usize::from),
    };
    // A job that cannot work should not make a lake.
    hexfloe_ingest::check(&job, &options)?;
    let catalog_file = match (&arguments.catalog, &job.catalog) {
        (Some(file), _) => Some(file.clone()),
        (None, Some(reference)) => Some(base.join(&reference.path)),
        (None, None) => None,
    };
    let ingest = open_ingest(catalog_file.as_deref(), arguments.dry_run).await?;
    let watcher = display::watch(ingest.progress());
    let outcome = ingest.run(&job, &options).await;
    watcher.stop();
    let report = outcome?;
    if arguments.json {
        display::json(&report)?;
    }
    if !arguments.json || std::io::stderr().is_terminal() {
        display::report(&report);
    }
    Ok(())
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
            let settings = SourceSettings {
                name: arguments.source.clone(),
                format: Format::Csv,
                paths: arguments.files.clone(),
                schema: BTreeMap::new(),
                csv: CsvSettings::default(),
                select: None,
            };
            let facts = Source::open(settings, &PathBuf::from(".")).and_then(|source| source.facts(&|_| {}));
            let facts = facts.map_err(hexfloe_ingest::Error::from)?;
            Ok(BatchId::files(&arguments.source, &facts))
        }
    };
    println!("{}", id.map_err(hexfloe_ingest::Error::from)?);
    Ok(())
}
