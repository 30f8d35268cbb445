//! `hexfloe cleanup orphans`, `snapshots`, `dropped` and `restore`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;

use hexfloe_catalog::Access;
use hexfloe_commit::Retention;
use hexfloe_orphan_cleanup::{
    Cleaner, Disposal, DroppedOptions, DroppedReport, EqualSchemes, Error, ExpireOptions, ExpireReport, FileRecord,
    OrphanOptions, OrphanReport, RestoreReport, Sink,
};
use iceberg::{NamespaceIdent, TableIdent};
use indicatif::HumanBytes;
use serde::Serialize;

use crate::arguments::{
    CleanupCommand, DroppedArguments, FileArguments, OrphansArguments, RestoreArguments, SelectionArguments,
    SnapshotsArguments,
};
use crate::display::{counted, say};
use crate::exit::{Failure, INCOMPLETE};
use crate::{display, environment, metrics, open};

/// So many attempts are told of to people.
const SHOWN: usize = 10;

/// What a run over some tables came to, as JSON.
#[derive(Serialize)]
struct Summary<'a, T> {
    version: u32,
    applied: bool,
    tables: &'a [Cleaned<T>],
}

/// What became of one table.
#[derive(Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub(crate) enum Cleaned<T> {
    /// Looked at, and cleaned if that was asked for.
    Done(T),
    /// Left alone.
    Failed {
        /// The table.
        table: String,
        /// The exit code of a run with this table alone.
        code: u8,
        /// Why.
        error: String,
    },
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    report: &'a T,
}

/// What the reports of both jobs have in common.
pub(crate) trait Outcome: Serialize {
    fn table(&self) -> &str;
    fn is_complete(&self) -> bool;
    fn sentences(&self) -> Vec<String>;
    /// Name, help and value of each figure.
    fn figures(&self) -> Vec<(&'static str, &'static str, u64)>;
}

pub(crate) async fn run(command: CleanupCommand) -> Result<ExitCode, Failure> {
    match command {
        CleanupCommand::Orphans(arguments) => orphans(arguments).await,
        CleanupCommand::Snapshots(arguments) => snapshots(arguments).await,
        CleanupCommand::Dropped(arguments) => dropped(arguments).await,
        CleanupCommand::Restore(arguments) => restore(arguments).await,
    }
}

async fn orphans(arguments: OrphansArguments) -> Result<ExitCode, Failure> {
    let OrphansArguments { selection, table, files, older_than, max_fraction, margin } = arguments;
    if !table.owned.is_empty() && selection.tables.len() != 1 {
        return Err(Failure::configuration("--owned belongs to one table: name that one"));
    }
    let options = OrphanOptions {
        older_than: older_than.0,
        apply: files.apply,
        below_floor: margin.i_understand_younger_than_24h,
        max_fraction,
        owned: table.owned.clone(),
        equal_schemes: equal_schemes(&files),
        disposal: disposal(&files),
    };
    let cleaner = cleaner(table.catalog.as_deref()).await?;
    let tables = chosen(&cleaner, &selection).await?;
    let mut sink = Lines::create(files.report.as_deref())?;
    let mut cleaned = Vec::new();
    for ident in &tables {
        let report = cleaner.orphans(ident, &options, &mut sink).await;
        cleaned.push(told(ident, report));
    }
    end("orphans", &cleaned, &files, table.metrics.as_deref(), sink)
}

async fn snapshots(arguments: SnapshotsArguments) -> Result<ExitCode, Failure> {
    let SnapshotsArguments { selection, table, files, older_than, retain_last } = arguments;
    if !table.owned.is_empty() && selection.tables.len() != 1 {
        return Err(Failure::configuration("--owned belongs to one table: name that one"));
    }
    let options = ExpireOptions {
        retention: Retention { older_than: older_than.map(|age| age.0), retain_last },
        apply: files.apply,
        owned: table.owned.clone(),
        equal_schemes: equal_schemes(&files),
        disposal: disposal(&files),
    };
    let cleaner = cleaner(table.catalog.as_deref()).await?;
    let mut sink = Lines::create(files.report.as_deref())?;
    let mut cleaned = Vec::new();
    for ident in &chosen(&cleaner, &selection).await? {
        let report = cleaner.expire(ident, &options, &mut sink).await;
        cleaned.push(told(ident, report));
    }
    end("snapshots", &cleaned, &files, table.metrics.as_deref(), sink)
}

async fn dropped(arguments: DroppedArguments) -> Result<ExitCode, Failure> {
    let DroppedArguments { location, catalog, files, older_than, margin } = arguments;
    let options = DroppedOptions {
        older_than: older_than.0,
        apply: files.apply,
        below_floor: margin.i_understand_younger_than_24h,
        equal_schemes: equal_schemes(&files),
        disposal: disposal(&files),
    };
    let cleaner = cleaner(catalog.as_deref()).await?;
    let mut sink = Lines::create(files.report.as_deref())?;
    let report = cleaner.dropped(&location, &options, &mut sink).await?;
    sink.finish()?;
    if files.json {
        display::json(&Versioned { version: 1, report: &report })?;
    } else {
        let mut sentences = vec![told_of_dropped(&report)];
        failures(&mut sentences, &report.failures, report.failed.files);
        for sentence in sentences {
            say(&sentence);
        }
    }
    Ok(if report.failed.files > 0 { ExitCode::from(INCOMPLETE) } else { ExitCode::SUCCESS })
}

fn told_of_dropped(report: &DroppedReport) -> String {
    let DroppedReport { location, files, unknown, removed, failed, uuid, .. } = report;
    let kept = match unknown.files {
        0 => String::new(),
        some => format!("; {} that no table writer names so stay", counted(some, "other file")),
    };
    if report.applied {
        let failed = match failed.files {
            0 => String::new(),
            some => format!(", {} could not be removed", counted(some, "file")),
        };
        let number = counted(removed.files, "file");
        if report.tagged.files > 0 {
            return format!(
                "tagged {} of the dropped table {uuid} in {location}{failed}{kept}",
                counted(report.tagged.files, "file")
            );
        }
        return format!(
            "removed {number} ({}) of the dropped table {uuid} in {location}{failed}{kept}",
            HumanBytes(removed.bytes)
        );
    }
    let number = counted(files.files, "file");
    format!(
        "dry run: the dropped table {uuid} left {number} ({}) in {location}{kept}; --apply removes them",
        HumanBytes(files.bytes)
    )
}

async fn restore(arguments: RestoreArguments) -> Result<ExitCode, Failure> {
    let RestoreArguments { quarantine, catalog, apply, json } = arguments;
    let cleaner = cleaner(catalog.as_deref()).await?;
    let report = cleaner.restore(&quarantine, apply).await?;
    if json {
        display::json(&Versioned { version: 1, report: &report })?;
    } else {
        told_of_restored(&report);
    }
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) })
}

fn told_of_restored(report: &RestoreReport) {
    let RestoreReport { quarantine, applied, found, restored, taken, unknown, failed } = report;
    let there = format!("{} ({})", counted(found.files, "file"), HumanBytes(found.bytes));
    if *applied {
        say(&format!("brought {} back out of {there} in {quarantine}", counted(*restored, "file")));
    } else {
        say(&format!("dry run: {there} in {quarantine}; --apply brings them back"));
    }
    if *taken > 0 {
        say(&format!("  {} stay: there is another file in their place", counted(*taken, "file")));
    }
    if *unknown > 0 {
        say(&format!("  {} stay: they do not say where they came from", counted(*unknown, "file")));
    }
    for file in failed {
        say(&format!("  failed: {file}"));
    }
}

async fn cleaner(catalog: Option<&Path>) -> Result<Cleaner, Failure> {
    let catalog = open::catalog(catalog, Access::Existing).await?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Ok(Cleaner::new(catalog, environment::system()).with_threads(threads))
}

/// The tables that are to be cleaned, in order.
async fn chosen(cleaner: &Cleaner, selection: &SelectionArguments) -> Result<Vec<TableIdent>, Failure> {
    match (&selection.namespace, selection.all) {
        (Some(namespace), _) => {
            let namespace = NamespaceIdent::from_strs(namespace.split('.'));
            let namespace = namespace.map_err(|error| Failure::configuration(error.message()))?;
            Ok(cleaner.tables(Some(&namespace)).await?)
        }
        (None, true) => Ok(cleaner.tables(None).await?),
        (None, false) => selection.tables.iter().map(|table| open::table_ident(table)).collect(),
    }
}

fn equal_schemes(files: &FileArguments) -> EqualSchemes {
    files.equal_scheme.iter().fold(EqualSchemes::default(), |equal, (one, other)| equal.and(one, other))
}

fn disposal(files: &FileArguments) -> Disposal {
    match (&files.quarantine, &files.tag) {
        (Some(place), _) => Disposal::Quarantine(place.clone()),
        (None, Some((key, value))) => Disposal::Tag { key: key.clone(), value: value.clone() },
        (None, None) => Disposal::Delete,
    }
}

/// Says what became of a table at once: a run over many takes long.
fn told<T: Outcome>(table: &TableIdent, report: Result<T, Error>) -> Cleaned<T> {
    match report {
        Ok(report) => {
            for sentence in report.sentences() {
                say(&sentence);
            }
            Cleaned::Done(report)
        }
        Err(error) => {
            let failure = Failure::from(error);
            failure.say();
            Cleaned::Failed { table: table.to_string(), code: failure.code(), error: failure.message().to_owned() }
        }
    }
}

/// The summary, the metrics and the exit code.
fn end<T: Outcome>(
    command: &str,
    cleaned: &[Cleaned<T>],
    files: &FileArguments,
    metrics: Option<&Path>,
    sink: Lines,
) -> Result<ExitCode, Failure> {
    sink.finish()?;
    if let Some(file) = metrics {
        metrics::write(file, command, cleaned)?;
    }
    if files.json {
        display::json(&Summary { version: 1, applied: files.apply, tables: cleaned })?;
    }
    Ok(ExitCode::from(code(cleaned)))
}

/// What could not be worked on comes before what was left, and that before what was refused.
fn code<T: Outcome>(cleaned: &[Cleaned<T>]) -> u8 {
    const REFUSED: u8 = crate::exit::REFUSED;
    let codes = cleaned.iter().map(|cleaned| match cleaned {
        Cleaned::Done(report) if report.is_complete() => 0,
        Cleaned::Done(_) => INCOMPLETE,
        Cleaned::Failed { code, .. } => *code,
    });
    let weight = |code: &u8| match *code {
        0 => 0,
        REFUSED => 1,
        INCOMPLETE => 2,
        other => 3 + u16::from(other),
    };
    codes.max_by_key(weight).unwrap_or(0)
}

impl Outcome for OrphanReport {
    fn table(&self) -> &str {
        &self.table
    }

    fn is_complete(&self) -> bool {
        self.failed.files == 0 && self.stopped.is_none()
    }

    fn sentences(&self) -> Vec<String> {
        let size = |count: &hexfloe_orphan_cleanup::Count| {
            format!("{} ({})", counted(count.files, "file"), HumanBytes(count.bytes))
        };
        let of = format!("of {} listed", size(&self.listed));
        let mut sentences = vec![match (self.applied, self.orphans.files) {
            (_, 0) => format!("{}: no orphans {of}", self.table),
            (true, _) if self.tagged.files > 0 => format!("{}: tagged {}, {of}", self.table, size(&self.tagged)),
            (true, _) => format!("{}: removed {}, {of}", self.table, size(&self.removed)),
            (false, _) => {
                format!("{}: dry run: {} may go, {of}; --apply removes them", self.table, size(&self.orphans))
            }
        }];
        let mut more = |count: &hexfloe_orphan_cleanup::Count, what: &str| {
            if count.files > 0 {
                sentences.push(format!("  {} {what}", size(count)));
            }
        };
        more(&self.failed, "could not be removed");
        more(&self.young, "unreferenced, but younger than the margin: kept");
        more(&self.undated, "unreferenced, of unknown age: kept");
        more(&self.unknown, "that no table writer names or puts so: kept");
        more(&self.doubtful, "that metadata spells in another encoding: kept");
        for left in self.attempts.iter().take(SHOWN) {
            sentences.push(format!("  {} of batch {}, attempt {}", size(&left.count), left.by.batch, left.by.attempt));
        }
        if self.attempts.len() > SHOWN {
            sentences.push(format!("  and of {} attempts more: --json has them", self.attempts.len() - SHOWN));
        }
        failures(&mut sentences, &self.failures, self.failed.files);
        for place in &self.not_scanned {
            sentences
                .push(format!("  not scanned: {place} (if it holds files of this table alone, give --owned {place})"));
        }
        for table in &self.not_asked {
            sentences.push(format!("  not asked whether it has files in the same place: {table}"));
        }
        if let Some(reason) = &self.stopped {
            sentences.push(format!("  stopped: {reason}"));
        }
        sentences
    }

    fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
        vec![
            ("listed_files", "Files below the table's roots.", self.listed.files),
            ("listed_bytes", "Bytes below the table's roots.", self.listed.bytes),
            ("referenced_files", "Files that the table refers to.", self.referenced.files),
            ("young_files", "Unreferenced files younger than the margin.", self.young.files),
            ("unknown_files", "Files that no table writer names so.", self.unknown.files),
            ("orphan_files", "Files that may go, or went.", self.orphans.files),
            ("orphan_bytes", "Bytes that may go, or went.", self.orphans.bytes),
            ("removed_files", "Files that went.", self.removed.files),
            ("tagged_files", "Files that got a tag instead.", self.tagged.files),
            ("failed_files", "Files that should have gone, and did not.", self.failed.files),
        ]
    }
}

impl Outcome for ExpireReport {
    fn table(&self) -> &str {
        &self.table
    }

    fn is_complete(&self) -> bool {
        self.failed == 0 && self.stopped.is_none()
    }

    fn sentences(&self) -> Vec<String> {
        let snapshots = counted(self.snapshots.len() as u64, "snapshot");
        let mut sentences = vec![match (self.applied, self.snapshots.is_empty() && self.refs.is_empty()) {
            (_, true) => format!("{}: no snapshot is to expire", self.table),
            (true, _) => format!("{}: {snapshots} expired, {} removed", self.table, counted(self.removed, "file")),
            (false, _) => format!(
                "{}: dry run: {snapshots} would expire, and {} with them; --apply does it",
                self.table,
                counted(self.files, "file")
            ),
        }];
        if !self.refs.is_empty() {
            sentences.push(format!("  branches and tags that are too old: {}", self.refs.join(", ")));
        }
        if self.tagged > 0 {
            sentences.push(format!("  {} tagged", counted(self.tagged, "file")));
        }
        if self.failed > 0 {
            sentences.push(format!("  {} could not be removed", counted(self.failed, "file")));
        }
        failures(&mut sentences, &self.failures, self.failed);
        if let Some(reason) = &self.stopped {
            sentences.push(format!("  stopped: {reason}"));
        }
        if self.outside > 0 {
            sentences.push(format!("  {} outside the table's places: kept", counted(self.outside, "file")));
        }
        sentences
    }

    fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
        vec![
            ("expired_snapshots", "Snapshots that are to expire, or did.", self.snapshots.len() as u64),
            ("expired_files", "Files that only they refer to.", self.files),
            ("removed_files", "Files that went.", self.removed),
            ("tagged_files", "Files that got a tag instead.", self.tagged),
            ("failed_files", "Files that should have gone, and did not.", self.failed),
        ]
    }
}

/// The first files that failed, and how many more there are.
fn failures(sentences: &mut Vec<String>, failures: &[String], number: u64) {
    sentences.extend(failures.iter().map(|failure| format!("    {failure}")));
    let more = number.saturating_sub(failures.len() as u64);
    if more > 0 {
        sentences.push(format!("    and {more} more: --report has them"));
    }
}

/// A report file: one JSON object on a line for each file.
struct Lines {
    file: Option<BufWriter<File>>,
}

impl Lines {
    fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let file = path.map(|path| {
            File::create(path)
                .map(BufWriter::new)
                .map_err(|error| Failure::configuration(format!("cannot write {}: {error}", path.display())))
        });
        Ok(Self { file: file.transpose()? })
    }

    fn finish(mut self) -> Result<(), Failure> {
        match &mut self.file {
            Some(file) => file.flush().map_err(|error| Failure::unexpected("write the report", error)),
            None => Ok(()),
        }
    }
}

impl Sink for Lines {
    fn note(&mut self, record: &FileRecord) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        serde_json::to_writer(&mut *file, record)?;
        file.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Fake(bool);

    impl Outcome for Fake {
        fn table(&self) -> &str {
            "ns.t"
        }

        fn is_complete(&self) -> bool {
            self.0
        }

        fn sentences(&self) -> Vec<String> {
            Vec::new()
        }

        fn figures(&self) -> Vec<(&'static str, &'static str, u64)> {
            Vec::new()
        }
    }

    #[test]
    fn a_run_over_many_tables_ends_with_the_worst_of_their_codes() {
        let failed = |code| Cleaned::Failed { table: "ns.t".to_owned(), code, error: String::new() };
        let (done, part) = (|| Cleaned::Done(Fake(true)), || Cleaned::Done(Fake(false)));
        assert_eq!(code::<Fake>(&[]), 0);
        assert_eq!(code(&[done(), done()]), 0);
        assert_eq!(code(&[failed(8), done()]), 8);
        assert_eq!(code(&[failed(8), part(), done()]), 9);
        assert_eq!(code(&[failed(8), part(), failed(7)]), 7);
    }
}
