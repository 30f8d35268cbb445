//! The processes of a verification: the same binary that lands data, started as a scheduler starts it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::faults::Injection;
use crate::table::Trouble;

/// The argument that has a command run behind faults, and what follows it as JSON.
pub const STEP: &str = "verify-step";

/// The key of what a process behind faults says about them, on lines of its own between those with its results.
pub const SAYS: &str = "verify";

/// How long a process may take.
const PATIENCE: Duration = Duration::from_secs(180);

/// How processes are started.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    pub(crate) binary: PathBuf,
    pub(crate) working_folder: PathBuf,
    pub(crate) catalog: Option<PathBuf>,
    /// A proxy that all they send over HTTP goes through.
    pub(crate) proxy: Option<String>,
}

/// A process that has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    /// Its exit code; none when it was killed.
    pub(crate) code: Option<i32>,
    /// The objects it printed.
    pub(crate) reports: Vec<Value>,
    /// What it told people.
    pub(crate) stderr: String,
    /// What went wrong in it by order.
    pub(crate) struck: Vec<String>,
    /// Whether a fault had it killed.
    pub(crate) crashed: bool,
}

/// A process that is running.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    stderr: JoinHandle<String>,
    ended: Ended,
}

/// What a process came to.
pub(crate) enum Until {
    /// It waits at a call.
    Held(String),
    /// Its end.
    Ended(Ended),
}

impl Launcher {
    /// The arguments of an ingest of job files.
    pub(crate) fn ingest(jobs: &[PathBuf], more: &[&str]) -> Vec<String> {
        let jobs = jobs.iter().map(|job| job.display().to_string());
        std::iter::once("ingest".to_owned())
            .chain(jobs)
            .chain(more.iter().map(|argument| (*argument).to_owned()))
            .chain(["--json".to_owned()])
            .collect()
    }

    /// Starts the binary with these arguments; behind faults, if there are any.
    pub(crate) fn start(&self, arguments: &[String], faults: &[Injection]) -> Result<Process, Trouble> {
        let mut command = Command::new(&self.binary);
        if !faults.is_empty() {
            command.args([STEP, "--faults", &serde_json::to_string(faults)?, "--"]);
        }
        command.args(arguments);
        if let Some(catalog) = &self.catalog {
            command.arg("--catalog").arg(catalog);
        }
        for variable in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
            if let Some(proxy) = &self.proxy {
                command.env(variable, proxy);
            }
        }
        if self.proxy.is_some() {
            command.env_remove("NO_PROXY").env_remove("no_proxy");
        }
        command.current_dir(&self.working_folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let stdout = child.stdout.take().ok_or("the process has no output")?;
        let mut errors = child.stderr.take().ok_or("the process has no output")?;
        let stderr = tokio::spawn(async move {
            let mut text = Vec::new();
            // What cannot be read is left out.
            let _ = errors.read_to_end(&mut text).await;
            String::from_utf8_lossy(&text).into_owned()
        });
        let stdin = child.stdin.take();
        Ok(Process { child, stdin, lines: BufReader::new(stdout).lines(), stderr, ended: Ended::default() })
    }

    /// Runs the binary to its end.
    pub(crate) async fn run(&self, arguments: &[String], faults: &[Injection]) -> Result<Ended, Trouble> {
        match self.start(arguments, faults)?.go_on().await? {
            Until::Ended(ended) => Ok(ended),
            Until::Held(at) => Err(format!("a process waits {at}, and nobody expects it").into()),
        }
    }
}

impl Process {
    /// Waits until it ends or is held; where a fault says that it crashes, it is killed.
    pub(crate) async fn go_on(&mut self) -> Result<Until, Trouble> {
        tokio::time::timeout(PATIENCE, self.follow())
            .await
            .map_err(|_| format!("a process did not end within {} s", PATIENCE.as_secs()))?
    }

    async fn follow(&mut self) -> Result<Until, Trouble> {
        while let Some(line) = self.lines.next_line().await? {
            let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
            let about = || value["at"].as_str().unwrap_or_default().to_owned();
            match value[SAYS].as_str() {
                None => self.ended.reports.push(value),
                Some("held") => return Ok(Until::Held(about())),
                Some("crash") => {
                    self.ended.crashed = true;
                    self.child.start_kill()?;
                }
                Some(_) => self.ended.struck.push(about()),
            }
        }
        let status = self.child.wait().await?;
        let stderr = std::mem::replace(&mut self.stderr, tokio::spawn(std::future::ready(String::new())));
        let ended = Ended { code: status.code(), stderr: stderr.await?, ..std::mem::take(&mut self.ended) };
        Ok(Until::Ended(ended))
    }

    /// Lets it go on where it is held.
    pub(crate) async fn release(&mut self) -> Result<(), Trouble> {
        let stdin = self.stdin.as_mut().ok_or("the process cannot be spoken to")?;
        stdin.write_all(b"\n").await?;
        Ok(stdin.flush().await?)
    }

    /// `kill -9`, and its end.
    pub(crate) async fn kill(&mut self) -> Result<Ended, Trouble> {
        // One that has ended by itself cannot be killed.
        let _ = self.child.start_kill();
        match self.go_on().await? {
            Until::Ended(ended) => Ok(ended),
            Until::Held(at) => Err(format!("a killed process waits {at}").into()),
        }
    }
}

impl Ended {
    /// The last line that it told people.
    pub(crate) fn last_words(&self) -> &str {
        self.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default()
    }

    /// How it ended.
    pub(crate) fn told(&self) -> String {
        let statuses: Vec<&str> = self.reports.iter().filter_map(|report| report["status"].as_str()).collect();
        match (self.code, self.crashed) {
            (Some(0), _) => statuses.join(", "),
            (Some(code), _) => format!("exit code {code}: {}", self.last_words()),
            (None, true) => "killed where it was to be".to_owned(),
            (None, false) => "killed".to_owned(),
        }
    }
}

/// The binary that is running.
///
/// # Errors
///
/// When the system does not tell.
pub fn this_binary() -> std::io::Result<PathBuf> {
    // A binary that is replaced while it runs has another name in Linux.
    let path = std::env::current_exe()?;
    let text = path.display().to_string();
    Ok(text.strip_suffix(" (deleted)").map_or(path.clone(), |text| Path::new(text).to_owned()))
}
