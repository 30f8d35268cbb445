//! Exit codes, and what is said on the way out.

use std::error::Error;
use std::process::ExitCode;

use hexfloe_ingest::{Notification, Report};

/// Cleaning up was refused: it is not certain that only what nobody needs would go.
pub(crate) const REFUSED: u8 = 8;

/// Catalog or storage cannot be reached.
pub(crate) const UNAVAILABLE: u8 = 7;

/// Something should have been removed, and was not.
pub(crate) const INCOMPLETE: u8 = 9;

/// Verification found a promise that was broken.
pub(crate) const BROKEN: u8 = 10;

/// Somebody ended the command, as shells say it.
pub(crate) const INTERRUPTED: u8 = 130;

/// The batch has landed, and telling it is not done.
const UNTOLD: u8 = 11;

/// A failure with its exit code. The codes are documented in `docs/reference/command-line.md`.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    no_catalog: bool,
}

impl Failure {
    pub(crate) fn unexpected(action: &str, error: impl Error) -> Self {
        Self { code: 1, message: format!("failed to {action}: {}", chain(&error)), no_catalog: false }
    }

    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into(), no_catalog: false }
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self { code: 3, message: message.into(), no_catalog: false }
    }

    /// What is left to do about a batch that has landed, if anything is.
    pub(crate) fn untold(report: &Report) -> Option<Self> {
        let (table, batch) = (&report.table, &report.batch_id);
        let message = match report.notified.as_ref()? {
            Notification::Sent | Notification::Earlier => return None,
            Notification::Failed { reason } => {
                format!("batch {batch} is in {table}, and that was not told: {reason}; run again to tell it")
            }
            Notification::Unrecorded { reason } => format!(
                "batch {batch} is in {table}, and that was told, but not recorded: {reason}; the next run tells it again, \
                 under the same key"
            ),
        };
        Some(Self { code: UNTOLD, message, no_catalog: false })
    }

    pub(crate) fn in_file(self, path: &std::path::Path) -> Self {
        Self { message: format!("{}: {}", path.display(), self.message), ..self }
    }

    /// The same, beginning with what it is about.
    pub(crate) fn labelled(&self, label: &str) -> Self {
        Self { code: self.code, message: format!("{label}{}", self.message), no_catalog: self.no_catalog }
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Says what went wrong on stderr: on one line, but for the list of rejected rows.
    pub(crate) fn say(&self) {
        crate::display::say(&format!("error: {}", self.message));
    }

    /// Whether the catalog was looked for and is not there.
    pub(crate) fn is_no_catalog(&self) -> bool {
        self.no_catalog
    }
}

impl From<hexfloe_ingest::Error> for Failure {
    fn from(error: hexfloe_ingest::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&hexfloe_ingest::Error> for Failure {
    fn from(error: &hexfloe_ingest::Error) -> Self {
        use hexfloe_ingest::ErrorKind;
        let code = match error.kind() {
            ErrorKind::Configuration => 2,
            ErrorKind::Input => 3,
            ErrorKind::Derivation => 4,
            ErrorKind::Conflict => 5,
            ErrorKind::Unknown => 6,
            ErrorKind::Unavailable => 7,
            _ => 1,
        };
        let no_catalog = matches!(error, hexfloe_ingest::Error::Catalog(hexfloe_catalog::Error::NoCatalog { .. }));
        let message = match error {
            hexfloe_ingest::Error::Rejected { count, first } => rejected(*count, first),
            error => match error.advice() {
                Some(advice) => format!("{}; {advice}", chain(error)),
                None => chain(error),
            },
        };
        Self { code, message, no_catalog }
    }
}

impl From<hexfloe_commit::Error> for Failure {
    fn from(error: hexfloe_commit::Error) -> Self {
        hexfloe_ingest::Error::from(error).into()
    }
}

impl From<hexfloe_catalog::Error> for Failure {
    fn from(error: hexfloe_catalog::Error) -> Self {
        hexfloe_ingest::Error::from(error).into()
    }
}

impl From<hexfloe_orphan_cleanup::Error> for Failure {
    fn from(error: hexfloe_orphan_cleanup::Error) -> Self {
        use hexfloe_orphan_cleanup::{Error, ErrorKind};
        let code = match error.kind() {
            ErrorKind::Configuration => 2,
            ErrorKind::Conflict => 5,
            ErrorKind::Unknown => 6,
            ErrorKind::Unavailable => 7,
            ErrorKind::Refused => REFUSED,
            _ => 1,
        };
        let no_catalog = matches!(error, Error::Catalog(hexfloe_catalog::Error::NoCatalog { .. }));
        Self { code, message: chain(&error), no_catalog }
    }
}

impl From<hexfloe_replay_verify::Error> for Failure {
    fn from(error: hexfloe_replay_verify::Error) -> Self {
        use hexfloe_replay_verify::Error;
        match error {
            Error::Catalog(error) => error.into(),
            error @ Error::Unusable(_) => Self::configuration(chain(&error)),
            error @ Error::Interrupted(_) => Self { code: INTERRUPTED, message: chain(&error), no_catalog: false },
            error => Self { code: 1, message: chain(&error), no_catalog: false },
        }
    }
}

/// The rejected rows, one on a line.
fn rejected(count: u64, first: &[hexfloe_ingest::RejectedRow]) -> String {
    let mut message = format!(
        "{} cannot be used, and nothing was committed (correct the input, or set quality.on_reject = \"quarantine\")",
        crate::display::counted(count, "row")
    );
    for row in first {
        message.push_str("\n  ");
        message.push_str(&row.to_string());
    }
    let more = count.saturating_sub(first.len() as u64);
    if more > 0 {
        message.push_str(&format!("\n  and {more} more"));
    }
    message
}

/// An error and what is behind it, on one line.
fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Iceberg's errors tell their sources too.
        let iceberg = cause.downcast_ref::<iceberg::Error>();
        let text = iceberg.map_or_else(|| cause.to_string(), |error| error.message().to_owned());
        // Wrappers often repeat what they wrap.
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        source = cause.source();
    }
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Says what went wrong, and gives the code to end with.
pub(crate) fn failed(failure: &Failure) -> ExitCode {
    failure.say();
    ExitCode::from(failure.code)
}

#[cfg(test)]
mod tests {
    use hexfloe_batch::{CellDerivation, CellType, GeometryRule, RejectReason, Resolution};
    use hexfloe_ingest::{Error, RejectedRow};

    use super::*;

    fn io() -> Error {
        let source = std::io::Error::other("no space left\non device");
        Error::Io { action: "write", path: "rejects/a.ndjson".to_owned(), source }
    }

    fn derivation() -> Error {
        let record = |resolution| {
            let resolution = Resolution::try_from(resolution).unwrap();
            let cells =
                CellDerivation::new("h3_cell".to_owned(), resolution, CellType::Long, Vec::new(), GeometryRule::Point);
            cells.unwrap().record()
        };
        let mismatch = Box::new(record(8).compatible_with(&record(9)).unwrap_err());
        let (table, column) = ("places.cities".to_owned(), "h3_cell".to_owned());
        Error::Commit(hexfloe_commit::Error::Derivation { table, column, mismatch })
    }

    fn unknown() -> Error {
        let (table, reason) = ("places.cities".to_owned(), "the connection broke".to_owned());
        Error::Commit(hexfloe_commit::Error::Unknown { table, reason, source: Some("reset by peer".into()) })
    }

    fn exhausted() -> Error {
        let (table, reason) = ("places.cities".to_owned(), "the head moved".to_owned());
        Error::Commit(hexfloe_commit::Error::Exhausted { table, attempts: 3, waited_ms: 5, reason })
    }

    fn rows(count: u64) -> Error {
        let first = (1..=count.min(2)).map(|row| RejectedRow {
            layer: None,
            feature: None,
            file: "in.csv".into(),
            row,
            reason: RejectReason::NullLatitude,
        });
        Error::Rejected { count, first: first.collect() }
    }

    /// The codes are part of the command line: schedulers decide by them.
    #[test]
    fn each_kind_of_error_has_its_exit_code() {
        let settings = hexfloe_catalog::Error::Settings("no name".to_owned());
        let offsets = hexfloe_batch::BatchId::offsets("a", "0", 2, 1).unwrap_err();
        let cases: [(Error, u8); 12] = [
            (Error::Panicked, 1),
            (Error::Runtime, 1),
            (Error::Job("unknown".to_owned()), 2),
            (Error::Mismatch("other columns".to_owned()), 2),
            (Error::Catalog(settings), 2),
            (Error::Batch(offsets), 2),
            (rows(1), 3),
            (derivation(), 4),
            (Error::Raced { table: "places.cities".to_owned() }, 5),
            (exhausted(), 5),
            (unknown(), 6),
            (io(), 7),
        ];
        for (error, code) in cases {
            let message = error.to_string();
            assert_eq!(Failure::from(error).code, code, "{message}");
        }
    }

    #[test]
    fn an_error_and_its_causes_are_one_line() {
        assert_eq!(Failure::from(io()).message, "failed to write rejects/a.ndjson: no space left on device");
        let message = Failure::from(unknown()).message;
        assert!(message.ends_with(": reset by peer") && !message.contains('\n'), "{message}");
    }

    #[test]
    fn a_cause_that_its_error_repeats_is_said_once() {
        let settings = hexfloe_catalog::Error::Settings("the name is empty".to_owned());
        let message = Failure::from(settings).message;
        assert_eq!(message.matches("the name is empty").count(), 1, "{message}");
    }

    #[test]
    fn rejected_rows_are_listed_one_on_a_line_and_the_rest_counted() {
        let message = Failure::from(rows(1)).message;
        assert!(message.starts_with("1 row cannot be used") && message.lines().count() == 2, "{message}");
        let message = Failure::from(rows(5)).message;
        let lines: Vec<&str> = message.lines().collect();
        assert!(lines[0].starts_with("5 rows cannot be used, and nothing was committed"), "{message}");
        assert!(lines[0].contains("quality.on_reject"), "{message}");
        assert_eq!((lines[1].trim_start().starts_with("in.csv, row 1: "), lines[3]), (true, "  and 3 more"));
    }

    #[test]
    fn a_failure_in_a_file_begins_with_its_path() {
        let failure =
            Failure::from(Error::Job("line 3: unknown".to_owned())).in_file(std::path::Path::new("a/job.toml"));
        assert_eq!((failure.code, failure.message.as_str()), (2, "a/job.toml: job: line 3: unknown"));
    }

    #[test]
    fn a_batch_that_landed_and_is_not_told_has_a_code_of_its_own() {
        let untold = |notified| Failure::untold(&crate::display::tests::report_of(Some(notified)));
        assert!(untold(Notification::Sent).is_none() && untold(Notification::Earlier).is_none());
        let failed = untold(Notification::Failed { reason: "./tell ended with exit status: 1".to_owned() }).unwrap();
        assert_eq!(failed.code, 11);
        assert!(failed.message.contains("not told: ./tell ended with exit status: 1; run again"), "{}", failed.message);
        let unrecorded = untold(Notification::Unrecorded { reason: "no answer".to_owned() }).unwrap();
        assert_eq!(unrecorded.code, 11);
        assert!(unrecorded.message.contains("not recorded: no answer; the next run"), "{}", unrecorded.message);
    }
}
