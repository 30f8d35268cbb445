//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use hexfloe_ingest::TimeSpan;

/// Lands spatial data in Apache Iceberg tables exactly once.
#[derive(Debug, Parser)]
#[command(name = "hexfloe", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done: committed, or skipped because it was committed before
  1  unexpected
  2  usage or configuration
  3  input refused, or not there; nothing was committed
  4  the table's cells come from another derivation; nothing was written
  5  conflict: others kept changing the table; run again
  6  commit state unknown; nothing was removed, run again
  7  catalog or storage unavailable; run again later
  8  cleanup refused: it is not certain that only orphans would go; nothing was removed
  9  some files should have been removed, and were not; run again
 10  verify: a promise was broken
 11  landed, but telling it ([notify]) is not done; run again";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at files: what they are, what would land, what looks wrong, and the job that would ingest them
    #[command(after_help = EXIT_CODES)]
    Inspect(LookArguments),
    /// Land the batches that job files describe
    #[command(after_help = EXIT_CODES)]
    Ingest(IngestArguments),
    /// Print the id of a batch without ingesting it
    BatchId(BatchIdArguments),
    /// List the batches of a table: ledger and history
    Batches(InspectArguments),
    /// Look at a table, publish or drop a branch of it, or go back
    Table {
        #[command(subcommand)]
        command: TableCommand,
    },
    /// Remove files that nothing refers to, and let snapshots expire; a dry run without --apply
    Cleanup {
        #[command(subcommand)]
        command: CleanupCommand,
    },
    /// Try what the guarantee needs of a catalog and its store, in a scratch namespace
    Check(CheckArguments),
    /// Prove the guarantee on a catalog and its store: crashes, races and lies, in a scratch namespace
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArguments),
    /// Run another command while things go wrong in it, as verify has it done
    #[command(hide = true)]
    VerifyStep(VerifyStepArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Show location, size, schema, partitions, derivations, branches and ledger
    Show(InspectArguments),
    /// Move main on to a branch, so that readers see its batches
    Publish(PublishArguments),
    /// Remove a branch and its ledger, without publishing it
    DropBranch(DropBranchArguments),
    /// Set main back to an earlier snapshot; batches that are undone can be ingested again
    Rollback(RollbackArguments),
}

#[derive(Debug, Subcommand)]
pub(crate) enum CleanupCommand {
    /// Remove files of tables that no snapshot, metadata file or statistics entry refers to
    #[command(after_help = EXIT_CODES)]
    Orphans(OrphansArguments),
    /// Let old snapshots expire, and remove the files that only they refer to
    #[command(after_help = EXIT_CODES)]
    Snapshots(SnapshotsArguments),
    /// Remove what a dropped table left
    #[command(after_help = EXIT_CODES)]
    Dropped(DroppedArguments),
    /// Bring back what was put into quarantine
    #[command(after_help = EXIT_CODES)]
    Restore(RestoreArguments),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct SelectionArguments {
    /// Tables: namespace.name
    #[arg(value_name = "TABLE", conflicts_with_all = ["namespace", "all"])]
    pub(crate) tables: Vec<String>,
    /// All tables of a namespace and of those below it
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) namespace: Option<String>,
    /// All tables of the catalog
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TableArguments {
    /// The catalog file [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// A place outside the table's location that holds files of this table alone
    #[arg(long, value_name = "LOCATION")]
    pub(crate) owned: Vec<String>,
    /// Write figures for Prometheus
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct FileArguments {
    /// Do it; otherwise only say what would be done
    #[arg(long)]
    pub(crate) apply: bool,
    /// Copy files below this location, in the same store, before they are deleted
    #[arg(long, value_name = "LOCATION")]
    pub(crate) quarantine: Option<String>,
    /// Give files this tag instead of deleting them, for lifecycle rules of the bucket (S3)
    #[arg(long, value_name = "KEY=VALUE", value_parser = tag, conflicts_with = "quarantine")]
    pub(crate) tag: Option<(String, String)>,
    /// Schemes that name the same objects: s3a=s3
    #[arg(long, value_name = "A=B", value_parser = equal_scheme)]
    pub(crate) equal_scheme: Vec<(String, String)>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Write one JSON object for each file that is not needed, on a line of its own
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MarginArguments {
    /// Allow --older-than below 24 h: only when nobody can be writing
    #[arg(long)]
    pub(crate) i_understand_younger_than_24h: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OrphansArguments {
    #[command(flatten)]
    pub(crate) selection: SelectionArguments,
    #[command(flatten)]
    pub(crate) table: TableArguments,
    /// Files must have been written so long ago: 3d, 36h, 90m
    #[arg(long, value_name = "AGE", default_value = "3d", value_parser = age)]
    pub(crate) older_than: Age,
    /// Refuse when more than this part of the listed bytes would go
    #[arg(long, value_name = "0..1", default_value_t = 0.5)]
    pub(crate) max_fraction: f64,
    #[command(flatten)]
    pub(crate) margin: MarginArguments,
    #[command(flatten)]
    pub(crate) files: FileArguments,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotsArguments {
    #[command(flatten)]
    pub(crate) selection: SelectionArguments,
    #[command(flatten)]
    pub(crate) table: TableArguments,
    /// Snapshots older than this may go: 5d, 36h [default: the table's history.expire.max-snapshot-age-ms, else 5d]
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) older_than: Option<Age>,
    /// Keep so many of each branch, however old [default: the table's history.expire.min-snapshots-to-keep, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) retain_last: Option<u32>,
    #[command(flatten)]
    pub(crate) files: FileArguments,
}

#[derive(Debug, Args)]
pub(crate) struct DroppedArguments {
    /// Where the table was
    #[arg(long, value_name = "LOCATION")]
    pub(crate) location: String,
    /// The catalog file, whose tables are asked whether they need anything there [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Every file must have been written so long ago: 3d, 36h
    #[arg(long, value_name = "AGE", default_value = "3d", value_parser = age)]
    pub(crate) older_than: Age,
    #[command(flatten)]
    pub(crate) margin: MarginArguments,
    #[command(flatten)]
    pub(crate) files: FileArguments,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The location that was given as --quarantine
    #[arg(long, value_name = "LOCATION")]
    pub(crate) quarantine: String,
    /// The catalog file, which says how the store is reached [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Do it; otherwise only say what would be done
    #[arg(long)]
    pub(crate) apply: bool,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// A time as people write it: `3d`, `36h`, `90m`, `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Duration);

#[derive(Debug, Args)]
pub(crate) struct LookArguments {
    /// Files or URLs, each by itself; or folders of shapefiles
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// The coordinate reference system of the geometries, where the files do not say: EPSG:27700
    #[arg(long, value_name = "CRS")]
    pub(crate) crs: Option<String>,
    /// The layer, of files that have several [default: all]
    #[arg(long, value_name = "LAYER")]
    pub(crate) layer: Option<String>,
    /// Write the job that would ingest the file [default file: job.toml]
    #[arg(long, value_name = "JOB", num_args = 0..=1, default_missing_value = "job.toml")]
    pub(crate) job: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct IngestArguments {
    /// Job files, which are run one after the other
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<PathBuf>,
    /// The catalog file [default: the job's, else SQLite and a warehouse below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// The date of the run, YYYY-MM-DD: $run_date in table.slice and source.select
    #[arg(long, value_name = "DATE", value_parser = date)]
    pub(crate) run_date: Option<String>,
    /// The coordinate reference system of the geometries, where the files do not say: EPSG:27700
    #[arg(long, value_name = "CRS")]
    pub(crate) crs: Option<String>,
    /// Set a key of the job: table.name=places.test, limits.threads=1
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Commit up to N successive batches of one table in one snapshot
    #[arg(long, value_name = "N", default_value = "1", value_parser = group)]
    pub(crate) group: NonZeroUsize,
    /// Commit the batches of all jobs at once, each to another table: readers see all of them or none
    #[arg(long, conflicts_with = "group")]
    pub(crate) together: bool,
    /// Commit to this branch, which is made from main when it is missing [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// Ingest again even if the batch is in the table already
    #[arg(long)]
    pub(crate) force: bool,
    /// Read and check everything, write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object on stdout; for several batches one for each, on a line of its own
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The catalog file [default: SQLite and a warehouse below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Work in this namespace, which exists, instead of a scratch one
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The catalog file [default: SQLite and a warehouse below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Work in this namespace, which exists, instead of a scratch one
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Only this scenario; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,
    /// Some minutes at most: the default
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Kill runs at every single call, and many more at random moments
    #[arg(long)]
    pub(crate) full: bool,
    /// How many runs are killed at random moments [default: 10, and 200 with --full]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) kills: Option<u32>,
    /// Where random moments come from [default: 0]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) seed: u64,
    /// Say which scenarios there are, and what each of them promises
    #[arg(long)]
    pub(crate) list: bool,
    /// Remove a namespace that a verification has left, and do nothing else
    #[arg(long, value_name = "NAME", conflicts_with_all = ["namespace", "scenario", "quick", "full", "kills", "list"])]
    pub(crate) remove: Option<String>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the results for JUnit readers, as CI systems are
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write a report for people, as one HTML file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyStepArguments {
    /// What goes wrong, as JSON
    #[arg(long)]
    pub(crate) faults: String,
    /// The command
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BatchIdArguments {
    /// The name of the source
    #[arg(long)]
    pub(crate) source: String,
    /// With --offsets: the partition of the stream
    #[arg(long, requires = "offsets")]
    pub(crate) partition: Option<String>,
    /// The first offset, and the one after the last
    #[arg(long, value_name = "A-B", requires = "partition", conflicts_with = "files", value_parser = offsets)]
    pub(crate) offsets: Option<(u64, u64)>,
    /// Files or patterns, relative to the current folder
    #[arg(long, value_name = "GLOB", num_args = 1.., required_unless_present = "offsets")]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// The table: namespace.name
    pub(crate) table: String,
    /// The branch to look at [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: Option<String>,
    /// The catalog file [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArguments {
    /// The table: namespace.name
    pub(crate) table: String,
    /// The branch; main must not have moved on since it was made
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: String,
    /// Keep the branch
    #[arg(long)]
    pub(crate) keep: bool,
    /// The catalog file [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DropBranchArguments {
    /// The table: namespace.name
    pub(crate) table: String,
    /// The branch; its snapshots and files stay until they expire
    #[arg(long, value_name = "NAME")]
    pub(crate) branch: String,
    /// The catalog file [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArguments {
    /// The table: namespace.name
    pub(crate) table: String,
    #[command(flatten)]
    pub(crate) target: RollbackTarget,
    /// The catalog file [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct RollbackTarget {
    /// To this snapshot, an ancestor of the current one
    #[arg(long, value_name = "N", value_parser = snapshot)]
    pub(crate) to_snapshot: Option<i64>,
    /// To the snapshot before the one that holds this batch
    #[arg(long, value_name = "ID")]
    pub(crate) before_batch: Option<String>,
}

/// No more than the ledger holds.
fn group(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse::<NonZeroUsize>().ok().filter(|number| number.get() <= 500);
    number.ok_or_else(|| "write a number from 1 to 500".to_owned())
}

fn snapshot(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "write the number of a snapshot, as `hexfloe batches TABLE` shows them".to_owned())
}

fn age(text: &str) -> Result<Age, String> {
    text.parse::<TimeSpan>().map(|span| Age(span.0))
}

fn equal_scheme(text: &str) -> Result<(String, String), String> {
    let is_scheme =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let pair = text.split_once('=').filter(|(one, other)| is_scheme(one) && is_scheme(other));
    pair.map(|(one, other)| (one.to_owned(), other.to_owned())).ok_or_else(|| "write two schemes: s3a=s3".to_owned())
}

fn tag(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a name and a value: state=orphan".to_owned())
}

fn date(text: &str) -> Result<String, String> {
    match chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        Ok(date) => Ok(date.to_string()),
        Err(_) => Err("not a date of the form YYYY-MM-DD".to_owned()),
    }
}

fn offsets(text: &str) -> Result<(u64, u64), String> {
    let pair = text.split_once('-').and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)));
    pair.ok_or_else(|| "write two numbers: 0-1000".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// What people and scripts rely on is seen in review. With `UPDATE_HELP=1` the file is written instead of compared.
    #[test]
    fn the_help_is_the_one_that_is_checked_in() {
        let mut help = String::new();
        let mut command = Arguments::command();
        command.build();
        let mut waiting = vec![command];
        while let Some(mut command) = waiting.pop() {
            help.push_str(&format!("{}\n\n", command.render_long_help().to_string().trim_end()));
            let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help").cloned();
            waiting.extend(inner.collect::<Vec<_>>().into_iter().rev());
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/help.txt");
        if std::env::var_os("UPDATE_HELP").is_some() {
            std::fs::write(path, &help).unwrap();
        }
        let checked_in = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            checked_in == help,
            "crates/cli/src/help.txt is not the help of the command; write it with\n  \
             UPDATE_HELP=1 cargo test -p hexfloe-cli help\n{help}"
        );
    }

    #[test]
    fn arguments_that_exclude_each_other_are_refused() {
        let refused: [&[&str]; 22] = [
            &["cleanup", "orphans"],
            &["cleanup", "orphans", "--catalog", "lake.toml"],
            &["cleanup", "orphans", "ns.points", "--all"],
            &["cleanup", "snapshots", "--namespace", "ns", "--all"],
            &["cleanup", "orphans", "ns.points", "--older-than", "3"],
            &["ingest"],
            &["ingest", "job.toml", "--group", "0"],
            &["ingest", "job.toml", "--group", "501"],
            &["ingest", "job.toml", "--branch"],
            &["table", "publish", "ns.points"],
            &["table", "drop-branch", "ns.points"],
            &["table", "rollback", "ns.points"],
            &["table", "rollback", "ns.points", "--to-snapshot", "1", "--before-batch", "a"],
            &["table", "rollback", "ns.points", "--to-snapshot", "main"],
            &["table", "rollback", "--to-snapshot", "1"],
            &["ingest", "job.toml", "--run-date", "2026-02-30"],
            &["ingest", "job.toml", "--run-date", "01.02.2026"],
            &["ingest", "job.toml", "--set"],
            &["batch-id", "--source", "a"],
            &["batch-id", "--source", "a", "--offsets", "0-1"],
            &["batch-id", "--source", "a", "--partition", "0", "--offsets", "0"],
            &["batch-id", "--source", "a", "--partition", "0", "--offsets", "0-1", "--files", "a"],
        ];
        for arguments in refused {
            let parsed = Arguments::try_parse_from(std::iter::once(&"hexfloe").chain(arguments));
            assert!(parsed.is_err_and(|error| error.exit_code() == 2), "{arguments:?}");
        }
    }

    #[test]
    fn what_is_no_snapshot_is_told_where_snapshots_are() {
        let parsed = Arguments::try_parse_from(["hexfloe", "table", "rollback", "ns.t", "--to-snapshot", "abc"]);
        let message = parsed.unwrap_err().to_string();
        assert!(message.contains("abc") && message.contains("hexfloe batches"), "{message}");
    }

    #[test]
    fn a_batch_is_committed_by_itself_unless_a_group_is_asked_for() {
        let group = |arguments: &[&str]| match Arguments::try_parse_from(std::iter::once(&"hexfloe").chain(arguments)) {
            Ok(Arguments { command: Command::Ingest(arguments) }) => (arguments.jobs.len(), arguments.group.get()),
            other => panic!("{other:?}"),
        };
        assert_eq!(group(&["ingest", "a.toml"]), (1, 1));
        assert_eq!(group(&["ingest", "a.toml", "b.toml", "--group", "20"]), (2, 20));
    }

    #[test]
    fn overrides_may_be_given_more_than_once() {
        let parsed = Arguments::try_parse_from(["hexfloe", "ingest", "job.toml", "--set", "a=1", "--set", "b.c=x=y"]);
        let Ok(Arguments { command: Command::Ingest(arguments) }) = parsed else { panic!("{parsed:?}") };
        assert_eq!(arguments.set, ["a=1", "b.c=x=y"]);
    }
}
