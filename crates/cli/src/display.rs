//! What people see: progress and sentences on stderr. What machines see: one JSON object on stdout.
//!
//! Nothing is printed but through [`print()`] and [`say`]: whoever reads may leave at any time (`hexfloe … | head -1`), and
//! the work goes on.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hexfloe_ingest::{Notification, Phase, Progress, Report, Status};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::exit::Failure;

/// A progress bar that follows an ingest, on a terminal; elsewhere nothing.
pub(crate) struct Watcher {
    bar: ProgressBar,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to show progress.
pub(crate) fn watch(progress: Arc<Progress>) -> Watcher {
    let over = Arc::new(AtomicBool::new(false));
    if !std::io::stderr().is_terminal() {
        return Watcher { bar: ProgressBar::hidden(), over, thread: None };
    }
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{msg:<24} {wide_bar} {bytes}/{total_bytes} {elapsed}") {
        bar.set_style(style);
    }
    let (shown, seen) = (bar.clone(), Arc::clone(&over));
    let thread = std::thread::spawn(move || follow(&shown, &progress, &seen));
    Watcher { bar, over, thread: Some(thread) }
}

impl Watcher {
    /// Lets something be printed without the bar.
    pub(crate) fn suspend(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// Takes the bar away.
    pub(crate) fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread {
            thread.thread().unpark();
            // A bar that cannot be drawn is no reason to fail.
            let _ = thread.join();
        }
    }
}

fn follow(bar: &ProgressBar, progress: &Progress, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let rows = progress.rows();
        let phase = match progress.phase() {
            Phase::Opening => "opening".to_owned(),
            Phase::Identifying => "identifying".to_owned(),
            Phase::Writing => format!("writing {} rows", HumanCount(rows)),
            Phase::Committing => "committing".to_owned(),
            Phase::Notifying => "notifying".to_owned(),
        };
        bar.set_message(phase);
        bar.set_length(progress.total_bytes());
        bar.set_position(progress.bytes());
        bar.tick();
        std::thread::park_timeout(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

/// The outcome in a sentence or two, which begin with `label`. A batch that is `forcible` can be ingested again.
pub(crate) fn report(label: &str, report: &Report, forcible: bool) {
    for sentence in sentences(report, forcible) {
        say(&format!("{label}{sentence}"));
    }
}

fn sentences(report: &Report, forcible: bool) -> Vec<String> {
    let Report { table, batch_id, rows, .. } = report;
    let place = match &report.branch {
        None => table.clone(),
        Some(branch) => format!("{table} (branch {branch})"),
    };
    let mut sentences = vec![match report.status {
        Status::Committed => {
            let replaced = match report.replaced_rows {
                0 => String::new(),
                replaced => format!(", replacing {}", HumanCount(replaced)),
            };
            let attempts = match report.attempts {
                0 | 1 => String::new(),
                attempts => format!(", after {attempts} attempts and {} ms of waiting", report.waited_ms),
            };
            format!(
                "committed {} to {place}{replaced} ({} in {}, batch {batch_id}, snapshot {}){attempts}",
                counted(*rows, "row"),
                HumanBytes(report.bytes),
                counted(report.data_files, "file"),
                report.snapshot_id.unwrap_or_default(),
            )
        }
        Status::Skipped => {
            let force = if forcible { "; --force ingests it again" } else { "" };
            format!("skipped: batch {batch_id} is in {place} already{force}")
        }
        Status::Unchanged => {
            format!("dry run: {} would go to {place} as batch {batch_id}", counted(*rows, "row"))
        }
    }];
    if let Some(branch) = report.branch.as_ref().filter(|_| report.branch_is_new) {
        sentences.push(match report.status {
            Status::Committed => format!("branch {branch} of {table} is new"),
            Status::Skipped => {
                format!("there is no branch {branch} of {table}, and it was not made: main has the batch")
            }
            Status::Unchanged => format!("branch {branch} of {table} would be new"),
        });
    }
    if report.rejected > 0 {
        let place = report.reject_file.as_ref().map_or_else(String::new, |path| format!(" in {}", path.display()));
        sentences.push(format!("set aside {} that cannot be used{place}", counted(report.rejected, "row")));
    }
    if report.deduplicated > 0 {
        sentences.push(format!("left out {} for others with the same key", counted(report.deduplicated, "row")));
    }
    if report.without_geometry > 0 {
        sentences
            .push(format!("{} without a geometry, and so without a cell", counted(report.without_geometry, "row")));
    }
    if report.notified == Some(Notification::Sent) {
        sentences.push(format!("told that batch {batch_id} is in {place}"));
    }
    sentences
}

/// So many of what `one` is the name of.
pub(crate) fn counted(number: u64, one: &str) -> String {
    let ending = match (number, one.strip_suffix("ch")) {
        (1, _) => "",
        (_, Some(_)) => "es",
        (_, None) => "s",
    };
    format!("{} {one}{ending}", HumanCount(number))
}

/// One object on one line of stdout.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::unexpected("write JSON", error))?;
    print(&format!("{text}\n"))
}

/// Text on stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write_to(&mut io::stdout().lock(), text).map_err(|error| Failure::unexpected("write to standard output", error))
}

/// A line on stderr. What cannot be said is no reason to fail.
pub(crate) fn say(line: &str) {
    let _ = write_to(&mut io::stderr().lock(), &format!("{line}\n"));
}

/// A reader who is gone wants no more. Secrets are not for any.
fn write_to(writer: &mut impl Write, text: &str) -> io::Result<()> {
    let text = hexfloe_store::secrets::conceal(text);
    match writer.write_all(text.as_bytes()).and_then(|()| writer.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The report of a batch that is in the table.
    pub(crate) fn report_of(notified: Option<Notification>) -> Report {
        Report { notified, ..told(Status::Skipped) }
    }

    fn told(status: Status) -> Report {
        Report {
            version: 1,
            status,
            table: "wap.t".to_owned(),
            batch_id: "b".to_owned(),
            snapshot_id: Some(7),
            rows: 1,
            rejected: 0,
            deduplicated: 0,
            without_geometry: 0,
            reject_file: None,
            replaced_rows: 0,
            data_files: 1,
            bytes: 5,
            attempts: 1,
            elapsed_ms: 0,
            waited_ms: 0,
            branch: None,
            notified: None,
            branch_is_new: false,
        }
    }

    #[test]
    fn an_outcome_is_a_sentence() {
        for (status, sentence) in [
            (Status::Committed, "committed 1 row to wap.t (5 B in 1 file, batch b, snapshot 7)"),
            (Status::Skipped, "skipped: batch b is in wap.t already; --force ingests it again"),
            (Status::Unchanged, "dry run: 1 row would go to wap.t as batch b"),
        ] {
            assert_eq!(sentences(&told(status), true), [sentence]);
        }
    }

    #[test]
    fn that_a_batch_was_told_is_said_by_the_run_that_told_it() {
        let with = |notified| sentences(&report_of(Some(notified)), false);
        assert_eq!(with(Notification::Sent)[1..], ["told that batch b is in wap.t"]);
        assert_eq!(with(Notification::Earlier).len(), 1);
    }

    #[test]
    fn what_cannot_be_forced_is_not_advised() {
        assert_eq!(sentences(&told(Status::Skipped), false), ["skipped: batch b is in wap.t already"]);
    }

    #[test]
    fn a_branch_is_told_and_so_is_that_it_is_new() {
        for (status, first, second) in [
            (Status::Committed, "committed 1 row to wap.t (branch audit) (", "branch audit of wap.t is new"),
            (
                Status::Skipped,
                "skipped: batch b is in wap.t (branch audit) already",
                "there is no branch audit of wap.t",
            ),
            (Status::Unchanged, "dry run: 1 row would go to wap.t (branch audit)", "branch audit of wap.t would be"),
        ] {
            let report = Report { branch: Some("audit".to_owned()), ..told(status) };
            let old = sentences(&report, true);
            assert!(old.len() == 1 && old[0].starts_with(first), "{old:?}");
            let new = sentences(&Report { branch_is_new: true, ..report }, true);
            assert!(new[0] == old[0] && new[1].starts_with(second), "{new:?}");
        }
    }

    #[test]
    fn one_is_not_spoken_of_as_many() {
        assert_eq!([0, 1, 1_000].map(|rows| counted(rows, "row")), ["0 rows", "1 row", "1,000 rows"]);
        assert_eq!([1, 2].map(|batches| counted(batches, "batch")), ["1 batch", "2 batches"]);
    }

    /// Fails each write with the kind.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_who_is_gone_is_no_failure_and_a_full_disk_is() {
        assert!(write_to(&mut Failing(ErrorKind::BrokenPipe), "a").is_ok());
        assert!(write_to(&mut Failing(ErrorKind::StorageFull), "a").is_err());
    }
}
