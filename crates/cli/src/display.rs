//! What people see: progress and sentences on stderr. What machines see: one JSON object on stdout.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hexfloe_ingest::{Phase, Progress, Report, Status};
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
        };
        bar.set_message(phase);
        bar.set_length(progress.total_bytes());
        bar.set_position(progress.bytes());
        bar.tick();
        std::thread::park_timeout(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}

/// The outcome in a sentence or two, which begin with `label`.
pub(crate) fn report(label: &str, report: &Report) {
    let Report { table, batch_id, rows, .. } = report;
    match report.status {
        Status::Committed => {
            let replaced = match report.replaced_rows {
                0 => String::new(),
                replaced => format!(", replacing {}", HumanCount(replaced)),
            };
            let attempts = match report.attempts {
                0 | 1 => String::new(),
                attempts => format!(", after {attempts} attempts and {} ms of waiting", report.waited_ms),
            };
            eprintln!(
                "{label}committed {} rows to {table}{replaced} ({} in {} files, batch {batch_id}, snapshot {}){attempts}",
                HumanCount(*rows),
                HumanBytes(report.bytes),
                report.data_files,
                report.snapshot_id.unwrap_or_default(),
            );
        }
        Status::Skipped => {
            eprintln!("{label}skipped: batch {batch_id} is in {table} already; --force ingests it again");
        }
        Status::Unchanged => {
            eprintln!("{label}dry run: {} rows would go to {table} as batch {batch_id}", HumanCount(*rows));
        }
    }
    if report.rejected > 0 {
        let place = report.reject_file.as_ref().map_or_else(String::new, |path| format!(" in {}", path.display()));
        eprintln!("{label}set aside {} rows that cannot be used{place}", HumanCount(report.rejected));
    }
    if report.deduplicated > 0 {
        eprintln!("{label}left out {} rows for others with the same key", HumanCount(report.deduplicated));
    }
}

/// One object on one line of stdout.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::unexpected("write JSON", error))?;
    println!("{text}");
    Ok(())
}
