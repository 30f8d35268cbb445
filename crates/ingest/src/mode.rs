//! What a batch replaces in its table, as a job says it; and what the job may not say together.

use std::path::Path;

use hexfloe_batch::BATCH_ID_COLUMN;

use crate::Error;
use crate::job::{Granularity, Job, Mode, OnChangedInput};
use crate::shape::Required;
use crate::slice::Slice;

/// The rows that a batch takes the place of.
#[derive(Clone, Debug)]
pub(crate) enum Replacement {
    /// Those of the same batch.
    Batch,
    /// Those of its slice.
    Slice(Slice),
    /// Those of the same batch, and those with the same values in these columns.
    Keys(Vec<String>),
    /// None.
    Nothing,
}

impl Replacement {
    /// What `job` says, for a run of a date that is forced or not.
    ///
    /// # Errors
    ///
    /// [`Error::Job`] when keys of the job contradict each other, or the run.
    pub(crate) fn of(job: &Job, run_date: Option<&str>, force: bool) -> Result<Self, Error> {
        let (table, mode) = (&job.table, job.table.mode);
        let refuse = |reason: String| Err(Error::Job(reason));
        let only = |key: &str, wanted: Mode| {
            refuse(format!(
                "table.{key} goes with table.mode = \"{}\" only, and the mode is \"{}\"",
                wanted.name(),
                mode.name()
            ))
        };
        if !table.slice.is_empty() && mode != Mode::Slice {
            return only("slice", Mode::Slice);
        }
        if !table.key.is_empty() && mode != Mode::Upsert {
            return only("key", Mode::Upsert);
        }
        if job.batch.granularity == Granularity::Slice && mode != Mode::Slice {
            return refuse("batch.granularity = \"slice\" goes with table.mode = \"slice\" only".to_owned());
        }
        if job.batch.granularity == Granularity::File && mode == Mode::Slice {
            return refuse(
                "batch.granularity = \"file\" does not go with table.mode = \"slice\": each file would replace the one before it"
                    .to_owned(),
            );
        }
        if table.slice.contains_key(BATCH_ID_COLUMN) || table.key.iter().any(|column| column == BATCH_ID_COLUMN) {
            return refuse(format!(
                "the column `{BATCH_ID_COLUMN}` is the batch's own: a slice or a key is of other columns"
            ));
        }
        match mode {
            Mode::Batch => Ok(Self::Batch),
            Mode::Slice => {
                let is_identity = job.batch.granularity == Granularity::Slice;
                Ok(Self::Slice(Slice::new(&table.slice, run_date, is_identity)?))
            }
            Mode::Upsert if table.key.is_empty() => {
                refuse("table.mode = \"upsert\" needs table.key, such as key = [\"event_date\", \"event_id\"]".to_owned())
            }
            Mode::Upsert => Ok(Self::Keys(table.key.clone())),
            Mode::AppendOnce if force => refuse(
                "table.mode = \"append-once\" replaces nothing, so a batch that is in the table cannot be forced: run without \
                 --force, or use another mode"
                    .to_owned(),
            ),
            Mode::AppendOnce if job.batch.on_changed_input() == OnChangedInput::Replace => refuse(
                "batch.on_changed_input = \"replace\" does not go with table.mode = \"append-once\", which replaces nothing"
                    .to_owned(),
            ),
            Mode::AppendOnce => Ok(Self::Nothing),
        }
    }

    /// A slice is emptied by an input without rows, and not by one whose rows are all set aside.
    ///
    /// # Errors
    ///
    /// [`Error::EmptiedSlice`].
    pub(crate) fn refuse_emptied(&self, rows: u64, rejected: u64, reject_file: Option<&Path>) -> Result<(), Error> {
        match self {
            Self::Slice(_) if rows == 0 && rejected > 0 => {
                Err(Error::EmptiedSlice { rejected, reject_file: reject_file.map(Path::to_owned) })
            }
            _ => Ok(()),
        }
    }

    /// What is said of a batch whose input changed.
    pub(crate) fn explain(&self, error: hexfloe_commit::Error) -> Error {
        match error {
            hexfloe_commit::Error::ChangedInput { table, batch_id, .. } => {
                Error::ChangedInput { table, batch_id, replaceable: !matches!(self, Self::Nothing) }
            }
            error => error.into(),
        }
    }

    /// The slice, if that is what is replaced.
    pub(crate) fn slice(&self) -> Option<&Slice> {
        match self {
            Self::Slice(slice) => Some(slice),
            Self::Batch | Self::Keys(_) | Self::Nothing => None,
        }
    }

    /// The columns of the key, if that is what rows are replaced by.
    pub(crate) fn key(&self) -> Option<&[String]> {
        match self {
            Self::Keys(key) => Some(key),
            Self::Batch | Self::Slice(_) | Self::Nothing => None,
        }
    }

    /// The columns in which no row may be null: those of the key, and those that the job names.
    pub(crate) fn required(&self, job: &Job) -> Vec<Required> {
        let required = |setting| move |column: &String| Required { column: column.clone(), setting };
        let key = self.key().unwrap_or_default().iter().map(required("table.key"));
        key.chain(job.quality.not_null.iter().map(required("quality.not_null"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const JOB: &str = r#"
        [source]
        name = "s"
        format = "csv"
        paths = ["in.csv"]
        [batch]
        granularity = "files"
        [table]
        name = "a.b"
    "#;

    fn of(overrides: &[&str], force: bool) -> Result<Replacement, Error> {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        Replacement::of(&Job::from_toml(JOB, &overrides).unwrap(), None, force)
    }

    #[rstest]
    #[case(&["table.slice.day=2026-08-11"], "table.slice goes with table.mode = \"slice\" only")]
    #[case(&["table.key=[\"id\"]"], "table.key goes with table.mode = \"upsert\" only")]
    #[case(&["table.mode=slice"], "needs table.slice")]
    #[case(&["table.mode=upsert"], "needs table.key")]
    #[case(&["table.mode=upsert", "table.key=[\"ingest_batch_id\"]"], "is the batch's own")]
    #[case(&["batch.granularity=slice"], "goes with table.mode = \"slice\" only")]
    #[case(&["table.mode=append-once", "batch.on_changed_input=replace"], "replaces nothing")]
    #[case(&["table.mode=slice", "table.slice.day=$run_date"], "--run-date")]
    fn what_does_not_go_together_is_refused(#[case] overrides: &[&str], #[case] message: &str) {
        let error = of(overrides, false).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Configuration);
        assert!(error.to_string().contains(message), "{error}");
    }

    #[test]
    fn what_append_once_refuses_is_not_advised() {
        let changed = || hexfloe_commit::Error::ChangedInput {
            table: "a.b".to_owned(),
            batch_id: "id".to_owned(),
            then: "1".to_owned(),
            now: "2".to_owned(),
        };
        let advice = "batch.on_changed_input";
        for (mode, advised) in [("table.mode=batch", true), ("table.mode=append-once", false)] {
            let error = of(&[mode], false).unwrap().explain(changed());
            assert_eq!(error.kind(), crate::ErrorKind::Input);
            assert_eq!(error.to_string().contains(advice), advised, "{error}");
        }
    }

    #[test]
    fn a_slice_is_emptied_by_no_rows_and_not_by_bad_ones() {
        let slice = of(&["table.mode=slice", "table.slice.day=2026-08-11"], false).unwrap();
        assert!(slice.refuse_emptied(0, 0, None).is_ok() && slice.refuse_emptied(1, 5, None).is_ok());
        let error = slice.refuse_emptied(0, 5, Some(Path::new("rejects/a.ndjson"))).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Input);
        assert!(error.to_string().contains("none of the 5 rows") && error.to_string().contains("a.ndjson"), "{error}");
        assert!(of(&[], false).unwrap().refuse_emptied(0, 5, None).is_ok(), "an empty batch takes nothing from others");
    }

    #[test]
    fn only_append_once_cannot_be_forced() {
        assert!(of(&["table.mode=append-once"], false).is_ok());
        let error = of(&["table.mode=append-once"], true).unwrap_err().to_string();
        assert!(error.contains("cannot be forced"), "{error}");
        for overrides in [&["table.mode=batch"][..], &["table.mode=upsert", "table.key=[\"id\"]"]] {
            assert!(of(overrides, true).is_ok());
        }
    }
}
