//! Telling that a batch has landed: a command of the job, run after the commit, and once.
//!
//! The message is sent when it is certain that the batch is in the table, through this run or an earlier one, and the table does
//! not say that it was told. That it was is written into the table afterwards. So a run that dies between the commit and the message
//! leaves it to the next run; one that dies between the message and the record has the next run send it again, under the same
//! key.

use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use hexfloe_batch::Sha256Hex;
use hexfloe_commit::{Notice, SharedEnvironment};
use serde::{Serialize, Serializer};

use crate::job::{Job, NotifySettings};
use crate::progress::Phase;
use crate::run::{Ingest, RunOptions, table_name};
use crate::{Error, Report};

/// How soon the command is looked at for the first time.
const FIRST_LOOK: Duration = Duration::from_millis(1);

/// How long it is at most until it is looked at again.
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// What came of telling that a batch has landed. Serialised it is whether the batch has been told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Notification {
    /// It was told by this run, and the table says so.
    Sent,
    /// It was told by an earlier run.
    Earlier,
    /// It was not told: the next run does it.
    Failed {
        /// Why not.
        reason: String,
    },
    /// It was told, and the table does not say so: the next run tells it again, under the same key.
    Unrecorded {
        /// Why not.
        reason: String,
    },
}

impl Notification {
    /// Whether the command has taken the message, in this run or an earlier one.
    pub fn is_told(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}

impl Serialize for Notification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self.is_told())
    }
}

/// The variable with the key of a message.
const KEY: &str = "HEXFLOE_IDEMPOTENCY_KEY";

/// A batch of which it is certain what became of it.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) report: Report,
    /// The digest of its input, unless the run is dry.
    pub(crate) content_sha256: Option<Sha256Hex>,
}

impl Ingest {
    /// Tells that the batch has landed, if the job says whom to tell and nobody did it before; the report says what came of it.
    pub(crate) async fn tell(&self, job: &Job, options: &RunOptions, settled: Settled, begun_ms: i64) -> Report {
        let Settled { report, content_sha256 } = settled;
        let report = Report { elapsed_ms: self.since(begun_ms), ..report };
        let (Some(settings), Some(content_sha256), false) = (&job.notify, content_sha256, options.dry_run) else {
            return report;
        };
        self.progress().enter(Phase::Notifying, 0);
        let notified = match self.notice(options, &report, content_sha256).await {
            Ok(Due::Now(notice)) => Some(self.send(settings, options, &report, &notice).await),
            Ok(Due::Earlier) => Some(Notification::Earlier),
            Ok(Due::Never) => None,
            Err(error) => Some(Notification::Failed { reason: format!("it was not tried: {}", chain(&error)) }),
        };
        Report { notified, elapsed_ms: self.since(begun_ms), ..report }
    }

    /// What is to be told, looked up in the table as it is now.
    async fn notice(&self, options: &RunOptions, report: &Report, content_sha256: Sha256Hex) -> Result<Due, Error> {
        let name = table_name(&report.table)?;
        let Some(table) = self.load(&name).await? else {
            return Err(hexfloe_commit::Error::NoTable { table: report.table.clone() }.into());
        };
        let metadata = table.metadata();
        let notice = Notice {
            table: name,
            uuid: metadata.uuid(),
            branch: options.branch.clone(),
            batch_id: report.batch_id.clone(),
            content_sha256,
            snapshot_id: report.snapshot_id,
        };
        Ok(if notice.is_recorded_in(metadata) {
            Due::Earlier
        } else if report.is_skipped() && !notice.is_in_ledger_of(metadata) {
            Due::Never
        } else {
            Due::Now(notice)
        })
    }

    async fn send(
        &self,
        settings: &NotifySettings,
        options: &RunOptions,
        report: &Report,
        notice: &Notice,
    ) -> Notification {
        if let Err(reason) = run(settings, &options.base, report, notice, &self.environment).await {
            return Notification::Failed { reason };
        }
        match self.record(notice).await {
            Ok(()) => Notification::Sent,
            Err(error) => Notification::Unrecorded { reason: chain(&error) },
        }
    }

    fn since(&self, begun_ms: i64) -> u64 {
        u64::try_from(self.environment.now_ms() - begun_ms).unwrap_or(0)
    }
}

/// Whether a landing is to be told.
enum Due {
    Now(Notice),
    Earlier,
    /// The ledger has forgotten the batch, and with it whether it was told.
    Never,
}

/// Runs the command to its end, or says why it did not come to a good one.
async fn run(
    settings: &NotifySettings,
    folder: &Path,
    report: &Report,
    notice: &Notice,
    environment: &SharedEnvironment,
) -> Result<(), String> {
    let program = settings.command.first().map(String::as_str).unwrap_or_default();
    // A program that runs the same job would be told by that run, which it would have to be told of, and so on.
    if std::env::var(KEY).is_ok_and(|key| key == notice.key().to_string()) {
        return Err("this run was started by the program that is being told of the same batch".to_owned());
    }
    let not_started = |error: io::Error| format!("{program} cannot be started: {error}");
    let message = serde_json::to_string(report).map_err(|error| format!("the report cannot be written: {error}"))?;
    let message = format!("{}\n", hexfloe_store::secrets::conceal(&message));
    let mut child = command(&settings.command, folder, notice).and_then(|mut it| it.spawn()).map_err(not_started)?;
    feed(&mut child, message);
    let limit = settings.timeout.0;
    match end(&mut child, limit.0, environment).await {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("{program} ended with {status}")),
        Ok(None) => Err(format!("{program} took longer than {limit} and was killed")),
        Err(error) => Err(format!("the end of {program} was not seen: {error}")),
    }
}

fn command(command: &[String], folder: &Path, notice: &Notice) -> io::Result<Command> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = std::path::absolute(folder)?;
    // A bare name is looked for in PATH; where else a relative one is looked for differs between systems.
    let is_bare = Path::new(program).parent().is_some_and(|parent| parent.as_os_str().is_empty());
    let mut command = if is_bare { Command::new(program) } else { Command::new(folder.join(program)) };
    command
        .args(arguments)
        .current_dir(&folder)
        .env("HEXFLOE_BATCH_ID", &notice.batch_id)
        .env("HEXFLOE_TABLE", notice.table.to_string())
        .env(KEY, notice.key().to_string())
        .stdin(Stdio::piped())
        // What we print for programs stays ours alone.
        .stdout(io::stderr());
    match notice.snapshot_id {
        Some(snapshot_id) => command.env("HEXFLOE_SNAPSHOT_ID", snapshot_id.to_string()),
        None => command.env_remove("HEXFLOE_SNAPSHOT_ID"),
    };
    Ok(command)
}

/// Writes the message from a thread of its own: a command that does not read must not hold us up.
fn feed(child: &mut Child, message: String) {
    if let Some(mut stdin) = child.stdin.take() {
        // Not to read it is up to the command.
        std::thread::spawn(move || stdin.write_all(message.as_bytes()));
    }
}

/// The end of the command; none if it was killed because its time was up.
async fn end(child: &mut Child, limit: Duration, environment: &SharedEnvironment) -> io::Result<Option<ExitStatus>> {
    let (mut waited, mut look) = (Duration::ZERO, FIRST_LOOK);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if waited >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        let pause = look.min(limit - waited);
        environment.sleep(pause).await;
        waited += pause;
        look = (look * 2).min(LONGEST_LOOK);
    }
}

/// An error and what is behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        source = cause.source();
    }
    message
}
