//! One `hexfloe` process, and what came of it.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Exit {
    /// Committed, or skipped because the batch is in the table.
    Done = 0,
    /// Nothing that was foreseen.
    Unexpected = 1,
    /// The command line, the job or the catalog file.
    Usage = 2,
    /// The input was refused.
    Input = 3,
    /// The table's cells come from another derivation.
    Derivation = 4,
    /// Rivals kept winning.
    Conflict = 5,
    /// The commit may or may not have landed.
    Unknown = 6,
    /// The catalog or the storage cannot be reached.
    Unavailable = 7,
    /// It is not certain that only orphans would go.
    Refused = 8,
    /// Some files should have gone, and did not.
    Incomplete = 9,
    /// Verification found a promise that is broken.
    Broken = 10,
    /// Landed, and telling it is not done.
    Untold = 11,
}

/// Waits, as a person would.
pub fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "the real time that real processes take")]
    thread::sleep(time);
}

/// A process that has been started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    command: String,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let command = format!("{command:?}");
        Self { child: child.unwrap_or_else(|error| panic!("cannot run {command}: {error}")), command }
    }

    /// Whether it has ended.
    #[track_caller]
    pub fn has_ended(&mut self) -> bool {
        match self.child.try_wait() {
            Ok(ended) => ended.is_some(),
            Err(error) => panic!("cannot look at {}: {error}", self.command),
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(self) -> Run {
        let command = self.command;
        let output = self.child.wait_with_output().unwrap_or_else(|error| panic!("cannot wait for {command}: {error}"));
        Run {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            command,
        }
    }

    /// Asks it to end, as Ctrl-C does.
    #[track_caller]
    pub fn interrupt(&self) {
        let asked = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(asked.is_ok_and(|status| status.success()), "cannot interrupt {}", self.command);
    }

    /// Kills it, as `kill -9` does, `after` it was started; tells whether it was still running then.
    #[track_caller]
    pub fn kill(mut self, after: Duration) -> bool {
        pause(after);
        let running = self.child.try_wait().is_ok_and(|ended| ended.is_none());
        if running {
            self.child.kill().unwrap_or_else(|error| panic!("cannot kill {}: {error}", self.command));
        }
        let ended = self.end();
        assert!(ended.code.is_none_or(|code| code == 0), "ended by itself before it was killed:\n{ended:?}");
        ended.code.is_none()
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Run {
    /// The exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed for machines.
    pub stdout: String,
    /// What it printed for people.
    pub stderr: String,
    command: String,
}

impl Run {
    /// Fails unless the process ended with this code.
    #[track_caller]
    pub fn ends(self, exit: Exit) -> Self {
        assert_eq!(
            self.code,
            Some(exit as i32),
            "expected {exit:?} from {}\nstdout: {}\nstderr: {}",
            self.command,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The one JSON object on standard output.
    #[track_caller]
    pub fn report(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{}: not one JSON object: {error}: {}", self.command, self.stdout))
    }

    /// The report of an ingest that committed.
    #[track_caller]
    pub fn committed(self) -> Value {
        self.status("committed")
    }

    /// The report of an ingest that found its batch in the table.
    #[track_caller]
    pub fn skipped(self) -> Value {
        self.status("skipped")
    }

    #[track_caller]
    fn status(self, wanted: &str) -> Value {
        let report = self.ends(Exit::Done).report();
        assert_eq!(report["status"], wanted, "{report:#}");
        report
    }

    /// Fails unless the process ended with this code and one line of what it told the person holds all of `words`.
    #[track_caller]
    pub fn refuses(self, exit: Exit, words: &[&str]) -> Self {
        let run = self.ends(exit);
        let said = run.stderr.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(said, "no line says {words:?}:\n{}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "a panic is not a message:\n{}", run.stderr);
        run
    }
}
