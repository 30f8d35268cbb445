//! What came of an ingest, for people and for machines.

use std::path::PathBuf;

use hexfloe_commit::BatchOutcome;
use serde::Serialize;

use crate::Notification;

/// What became of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is in the table through this run.
    Committed,
    /// It was in the table already; nothing was written.
    Skipped,
    /// A dry run: the input is fine, and nothing was written.
    Unchanged,
}

/// The outcome of one run. Serialised it is the object that `--json` prints; keys are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The version of this object's shape: 1.
    pub version: u32,
    /// What became of the batch.
    pub status: Status,
    /// The table, `namespace.name`.
    pub table: String,
    /// The batch.
    pub batch_id: String,
    /// The snapshot that holds it; null after a dry run, and where the table does not tell any more.
    pub snapshot_id: Option<i64>,
    /// Rows of the batch; 0 when skipped.
    pub rows: u64,
    /// Rows set aside; 0 when skipped.
    pub rejected: u64,
    /// The file with the rows that were set aside.
    pub reject_file: Option<PathBuf>,
    /// Rows of an earlier version of the batch that were replaced.
    pub replaced_rows: u64,
    /// Data files written.
    pub data_files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Commits tried.
    pub attempts: u32,
    /// Wall time in milliseconds.
    pub elapsed_ms: u64,
    /// Time of it that was spent waiting between the commits tried, in milliseconds.
    pub waited_ms: u64,
    /// Rows left out for another one with the same key; 0 when skipped.
    pub deduplicated: u64,
    /// Rows of the batch that have no position, because their geometry is null or empty; 0 when skipped.
    pub without_geometry: u64,
    /// The branch, where it is not main.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What came of telling that the batch has landed; serialised, whether it has been told. Only where the job has `[notify]`,
    /// and neither after a dry run nor for a batch that the ledger has forgotten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notified: Option<Notification>,
    /// Whether the table had no such branch when the run began.
    #[serde(skip)]
    pub branch_is_new: bool,
}

impl Report {
    /// Whether the table had the batch already.
    pub(crate) fn is_skipped(&self) -> bool {
        self.status == Status::Skipped
    }

    /// The report of a batch that was written, once it is known what became of it.
    pub(crate) fn landed(self, outcome: &BatchOutcome) -> Self {
        match *outcome {
            BatchOutcome::Committed { snapshot_id, replaced_rows, attempts, waited_ms } => Self {
                status: Status::Committed,
                snapshot_id: Some(snapshot_id),
                replaced_rows,
                attempts,
                waited_ms,
                ..self
            },
            BatchOutcome::Skipped { snapshot_id } => Self {
                status: Status::Skipped,
                snapshot_id,
                rows: 0,
                rejected: 0,
                deduplicated: 0,
                without_geometry: 0,
                reject_file: None,
                data_files: 0,
                bytes: 0,
                ..self
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts read these names and types: a change here is a new version.
    #[test]
    fn the_json_of_a_report_is_version_1() {
        let report = Report {
            version: 1,
            status: Status::Committed,
            table: "places.cities".to_owned(),
            batch_id: "0cc175b9c0f1b6a831c399e269772661".to_owned(),
            snapshot_id: Some(7_638_451_234_567_890_123),
            rows: 1,
            rejected: 2,
            deduplicated: 9,
            without_geometry: 10,
            reject_file: Some(PathBuf::from("rejects/a.ndjson")),
            replaced_rows: 3,
            data_files: 4,
            bytes: 5,
            attempts: 6,
            elapsed_ms: 7,
            waited_ms: 8,
            branch: None,
            notified: None,
            branch_is_new: false,
        };
        let expected = concat!(
            r#"{"version":1,"status":"committed","table":"places.cities","#,
            r#""batch_id":"0cc175b9c0f1b6a831c399e269772661","snapshot_id":7638451234567890123,"rows":1,"rejected":2,"#,
            r#""reject_file":"rejects/a.ndjson","replaced_rows":3,"data_files":4,"bytes":5,"attempts":6,"elapsed_ms":7,"#,
            r#""waited_ms":8,"deduplicated":9,"without_geometry":10}"#,
        );
        assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        let audit = Report { branch: Some("audit".to_owned()), branch_is_new: true, ..report.clone() };
        let expected = expected.replace("\":10}", "\":10,\"branch\":\"audit\"}");
        assert_eq!(serde_json::to_string(&audit).unwrap(), expected);
        for (notified, told) in [
            (Notification::Sent, true),
            (Notification::Earlier, true),
            (Notification::Failed { reason: "no".to_owned() }, false),
            (Notification::Unrecorded { reason: "no".to_owned() }, true),
        ] {
            let report = Report { notified: Some(notified), ..report.clone() };
            assert_eq!(serde_json::to_value(&report).unwrap()["notified"], told);
        }
        let unchanged = Report { status: Status::Unchanged, snapshot_id: None, reject_file: None, ..report };
        let json = serde_json::to_value(&unchanged).unwrap();
        assert!(json["snapshot_id"].is_null() && json["reject_file"].is_null());
        assert_eq!(json["status"], "unchanged");
        assert_eq!(serde_json::to_value(Status::Skipped).unwrap(), "skipped");
    }
}
