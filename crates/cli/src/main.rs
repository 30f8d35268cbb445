//! The `hexfloe` command: parses, calls, prints, and maps outcomes to exit codes. It has no logic of its own.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic when the reader is gone: see `display`")]

mod arguments;
mod check;
mod cleanup;
mod display;
mod environment;
mod exit;
mod ingest;
mod inspect;
mod look;
mod metrics;
mod open;
mod refs;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command, TableCommand};

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    if let Command::VerifyStep(step) = &arguments.command {
        arguments = match verify::step(step) {
            Ok(arguments) => arguments,
            Err(failure) => return exit::failed(&failure),
        };
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::failed(&exit::Failure::unexpected("start the runtime", error)),
    };
    let outcome = runtime.block_on(async {
        match arguments.command {
            Command::Ingest(arguments) => return ingest::run(arguments).await,
            Command::Check(arguments) => return check::run(arguments).await,
            Command::Verify(arguments) => return verify::run(arguments).await,
            Command::VerifyStep(_) => {
                Err(exit::Failure::configuration("a step of a verification is no such step itself"))
            }
            Command::Cleanup { command } => return cleanup::run(command).await,
            Command::Inspect(arguments) => look::look(&arguments),
            Command::BatchId(arguments) => ingest::batch_id(&arguments),
            Command::Batches(arguments) => inspect::batches(arguments).await,
            Command::Table { command: TableCommand::Show(arguments) } => inspect::show(arguments).await,
            Command::Table { command: TableCommand::Publish(arguments) } => refs::publish(arguments).await,
            Command::Table { command: TableCommand::DropBranch(arguments) } => refs::drop_branch(arguments).await,
            Command::Table { command: TableCommand::Rollback(arguments) } => refs::roll_back(arguments).await,
        }
        .map(|()| ExitCode::SUCCESS)
    });
    match outcome {
        Ok(code) => code,
        Err(failure) => exit::failed(&failure),
    }
}
