//! How far an ingest is, for whoever watches.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What an ingest is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking at the job, the source and the table.
    Opening,
    /// Reading the input to find the batch id.
    Identifying,
    /// Reading, deriving and writing rows.
    Writing,
    /// Committing.
    Committing,
    /// Telling others what was committed.
    Notifying,
}

/// Counters that an ingest keeps up to date; reading them costs nothing.
#[derive(Debug, Default)]
pub struct Progress {
    phase: AtomicU8,
    rows: AtomicU64,
    bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Progress {
    /// What is being done.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Opening,
            1 => Phase::Identifying,
            2 => Phase::Writing,
            3 => Phase::Committing,
            _ => Phase::Notifying,
        }
    }

    /// Rows read so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of input read so far, in this phase.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of input.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self, phase: Phase, total_bytes: u64) {
        let phase = match phase {
            Phase::Opening => 0,
            Phase::Identifying => 1,
            Phase::Writing => 2,
            Phase::Committing => 3,
            Phase::Notifying => 4,
        };
        self.phase.store(phase, Ordering::Relaxed);
        self.rows.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
