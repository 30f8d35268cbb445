//! What there is at one moment: the table, the store, requests on their way, two writers, a cleaner.

use crate::files::{ATTEMPTS, Attempt, FILES, File, Files, Run, WRITERS};
use crate::table::{Place, Rows, Table};

/// The age from which an attempt is late.
pub(crate) const LATE: u8 = 2;
/// The age from which a cleaner takes what nothing refers to. An attempt that is not late, and then is on its way for as long as
/// a request may be, is younger: as 12 and 11 hours are less than 24.
pub(crate) const MARGIN: u8 = 3;
/// How old a request gets that is still applied.
pub(crate) const ON_THE_WAY: u8 = 1;

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) table: Table,
    /// The age of each file that is there, up to the margin.
    pub(crate) store: [Option<u8>; FILES],
    /// In the order of their attempts.
    pub(crate) requests: Vec<Request>,
    pub(crate) writers: [Writer; WRITERS],
    pub(crate) cleaner: Cleaner,
    /// The catalog may still get a request twice.
    pub(crate) may_double: bool,
    /// What went wrong and is not to be seen in the table itself.
    pub(crate) wrong: Wrong,
}

/// Whether a batch was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wrong {
    /// A writer was told that its batch is in the table, and it was not there at any time during the call.
    pub(crate) untrue: bool,
    /// A commit took rows of a batch away that it did not bring.
    pub(crate) overwritten: bool,
}

/// A commit on its way to the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) by: Attempt,
    /// It is conditioned on this head, and its snapshot has the next sequence number.
    pub(crate) base: Base,
    pub(crate) rows: Rows,
    pub(crate) copies: u8,
    pub(crate) age: u8,
}

/// One writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Writer {
    /// How many runs have begun.
    pub(crate) runs: u8,
    pub(crate) phase: Phase,
    /// How old the attempt's files are, up to where that makes it late.
    pub(crate) age: u8,
    /// What is known of each request that was sent.
    pub(crate) sent: [Option<Answer>; ATTEMPTS],
    /// Where it looked for rows to replace.
    pub(crate) decided_on: Place,
    /// Its batch was in the table at some time during the call.
    pub(crate) seen: bool,
}

/// See `Answer` in `crates/commit/src/committer.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Open,
    /// With the head that the request is conditioned on.
    Denied(Place),
    Refuted,
}

/// Where a run of a writer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It is over, or none has begun.
    Over,
    /// It has its data file, and is about to load the table.
    Loading,
    /// It has decided to commit.
    Decided(Base),
    /// It has written its manifests and found its data file.
    Drafted(Base),
    /// It has sent a request.
    Waiting,
    /// It is about to ask the table what may be removed.
    Concluding,
    /// It is about to remove these.
    Removing(Files),
}

/// The table that a request is decided on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Base {
    pub(crate) head: Place,
    /// The sequence number that the next snapshot has there.
    pub(crate) next: Place,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The catalog said so, or the table shows it.
    Committed,
    Skipped,
    /// It is not in, or not known to be.
    Failed,
}

/// Where the cleaner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cleaner {
    Away,
    /// It has seen the table with snapshots up to this one.
    Loaded(Place),
    /// It has listed, and these are old and were referred to by nothing.
    Listed(Files),
    /// It has looked again.
    Deleting(Files),
}

impl Base {
    /// Whether the table has a newer snapshot: a sequence number is never given twice.
    pub(crate) fn is_stale(self, table: &Table) -> bool {
        self.next <= table.newest()
    }
}

impl Writer {
    pub(crate) fn new(runs: u8) -> Self {
        Self { runs, phase: Phase::Over, age: 0, sent: [None; ATTEMPTS], decided_on: 0, seen: false }
    }

    pub(crate) fn is_at_work(&self) -> bool {
        self.phase != Phase::Over
    }

    /// The run that is under way, or was last.
    pub(crate) fn run(&self, writer: usize) -> Run {
        Run::of(writer, self.runs.saturating_sub(1))
    }

    pub(crate) fn sent_count(&self) -> u8 {
        u8::try_from(self.sent.iter().flatten().count()).unwrap_or(u8::MAX)
    }

    pub(crate) fn has_attempts_left(&self) -> bool {
        self.sent.contains(&None)
    }

    /// The attempts whose requests were sent, with what is known of them.
    pub(crate) fn attempts(&self, writer: usize) -> impl Iterator<Item = (Attempt, Answer)> {
        let run = self.run(writer);
        self.sent.into_iter().flatten().zip(0_u8..).map(move |(answer, number)| (run.attempt(number), answer))
    }

    /// The attempt whose answer it waits for.
    pub(crate) fn waits_for(&self, writer: usize) -> Option<Attempt> {
        let number = self.sent_count().checked_sub(1).filter(|_| self.phase == Phase::Waiting)?;
        Some(self.run(writer).attempt(number))
    }

    pub(crate) fn end(&mut self) {
        *self = Self::new(self.runs);
    }
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            table: Table::default(),
            store: [None; FILES],
            requests: Vec::new(),
            writers: [Writer::new(0); WRITERS],
            cleaner: Cleaner::Away,
            may_double: true,
            wrong: Wrong::default(),
        }
    }

    pub(crate) fn is_there(&self, file: File) -> bool {
        self.store[file.index()].is_some()
    }

    pub(crate) fn put(&mut self, file: File) {
        self.store[file.index()] = Some(0);
    }

    pub(crate) fn delete(&mut self, files: Files) {
        files.iter().for_each(|file| self.store[file.index()] = None);
    }

    /// The files that snapshots up to a place refer to.
    pub(crate) fn referenced(&self, up_to: Place) -> Files {
        let snapshots = self.table.snapshots.iter().take(usize::from(up_to));
        let files = snapshots.flat_map(|snapshot| {
            let data = Run::all().filter(|run| snapshot.rows.0[run.index()] > 0).map(Run::data_file);
            data.chain([snapshot.by.manifests()])
        });
        files.collect()
    }

    /// Those that are there.
    pub(crate) fn of_these(&self, files: Files) -> Files {
        files.iter().filter(|file| self.is_there(*file)).collect()
    }

    pub(crate) fn request(&self, by: Attempt) -> Option<usize> {
        self.requests.iter().position(|request| request.by == by)
    }
}
