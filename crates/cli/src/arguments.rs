//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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
  3  input refused; nothing was committed
  4  the table's cells come from another derivation; nothing was written
  5  conflict: others kept changing the table; run again
  6  commit state unknown; nothing was removed, run again
  7  catalog or storage unavailable; run again later";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Land the batch that a job file describes
    #[command(after_help = EXIT_CODES)]
    Ingest(IngestArguments),
    /// Print the id of a batch without ingesting it
    BatchId(BatchIdArguments),
    /// List the batches of a table: ledger and history
    Batches(InspectArguments),
    /// Look at a table
    Table {
        #[command(subcommand)]
        command: TableCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Show location, size, schema, partitions, derivations and ledger
    Show(InspectArguments),
}

#[derive(Debug, Args)]
pub(crate) struct IngestArguments {
    /// The job file
    pub(crate) job: PathBuf,
    /// The catalog file [default: the job's, else SQLite and a warehouse below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// The date of the run, YYYY-MM-DD: $run_date in source.select
    #[arg(long, value_name = "DATE", value_parser = date)]
    pub(crate) run_date: Option<String>,
    /// Set a key of the job: table.name=places.test, limits.threads=1
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Ingest again even if the batch is in the table already
    #[arg(long)]
    pub(crate) force: bool,
    /// Read and check everything, write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
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
    /// The catalog file [default: the one below ./lake]
    #[arg(long, value_name = "FILE")]
    pub(crate) catalog: Option<PathBuf>,
    /// Print one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
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
        let refused: [&[&str]; 8] = [
            &["ingest"],
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
    fn overrides_may_be_given_more_than_once() {
        let parsed = Arguments::try_parse_from(["hexfloe", "ingest", "job.toml", "--set", "a=1", "--set", "b.c=x=y"]);
        let Ok(Arguments { command: Command::Ingest(arguments) }) = parsed else { panic!("{parsed:?}") };
        assert_eq!(arguments.set, ["a=1", "b.c=x=y"]);
    }
}
