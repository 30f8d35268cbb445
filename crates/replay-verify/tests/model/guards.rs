//! The rules that keep the table right. Each can be left out, and then the model finds what goes wrong.

use crate::protocol::{DELETED, DOUBLED, LOST, Protocol};

/// One of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// An attempt whose files are old does not commit.
    LateAttemptRefusal,
    /// Every attempt decides anew, on the table as it is by then.
    RecheckInTheLoop,
    /// The cleaner loads the table again after it has listed.
    SecondReload,
    /// The cleaner takes nothing that is young.
    Margin,
    /// A commit is conditioned on the head that it was decided on.
    Requirement,
    /// The catalog takes no snapshot whose sequence number is not newer than the table's last.
    SequenceNumbers,
    /// Files of a request without an answer stay.
    UnknownIsNotFailed,
    /// Files of a request that was denied stay while its head is still the table's.
    RefusalIsDoubted,
    /// The ledger counts only while the snapshot that wrote it is on the line.
    LedgerCountsOnItsLine,
    /// What the column finds is replaced, whatever ledger and summaries say.
    ColumnIsTheTruth,
}

/// What leaving a guard out comes to, with the fewest actors that show it.
pub(crate) struct LeftOut {
    pub(crate) guard: Guard,
    pub(crate) batches: [u8; 2],
    pub(crate) runs: [u8; 2],
    /// The property that breaks.
    pub(crate) breaks: &'static str,
    /// Where the guard is in the code: a file, and a text in it.
    pub(crate) code: (&'static str, &'static str),
}

const fn left_out(
    guard: Guard,
    runs: [u8; 2],
    breaks: &'static str,
    file: &'static str,
    item: &'static str,
) -> LeftOut {
    LeftOut { guard, batches: [0, 0], runs, breaks, code: (file, item) }
}

const COMMITTER: &str = "crates/commit/src/committer.rs";
const ORPHANS: &str = "crates/orphan-cleanup/src/orphans.rs";

/// All of them.
pub(crate) const GUARDS: [LeftOut; 10] = [
    left_out(Guard::LateAttemptRefusal, [1, 0], DELETED, COMMITTER, "fn refuse_late("),
    left_out(Guard::RecheckInTheLoop, [1, 1], DOUBLED, COMMITTER, "match look(&table, sent, self.is_certain())"),
    left_out(Guard::SecondReload, [1, 0], DELETED, ORPHANS, "watch.look_again().await?;"),
    left_out(Guard::Margin, [1, 0], DELETED, ORPHANS, "Some(time) if time >= self.cutoff"),
    LeftOut {
        batches: [0, 1],
        ..left_out(Guard::Requirement, [1, 1], LOST, "crates/commit/src/snapshot.rs", "RefSnapshotIdMatch")
    },
    left_out(Guard::SequenceNumbers, [1, 0], DELETED, "crates/commit/src/snapshot.rs", "next_sequence_number()"),
    left_out(Guard::UnknownIsNotFailed, [1, 0], DELETED, COMMITTER, "answer: Answer::Open,"),
    left_out(
        Guard::RefusalIsDoubted,
        [1, 0],
        DELETED,
        COMMITTER,
        "denied.base.head_in(table) != denied.base.snapshot_id",
    ),
    left_out(Guard::LedgerCountsOnItsLine, [1, 1], LOST, "crates/commit/src/ledger.rs", "None => return None,"),
    LeftOut {
        batches: [0, 1],
        ..left_out(Guard::ColumnIsTheTruth, [2, 1], DOUBLED, COMMITTER, "Plan::make(base, &filter")
    },
];

impl LeftOut {
    pub(crate) fn protocol(&self) -> Protocol {
        // What `tidy` makes equal is equal whatever the column says, and this one takes three commits to break.
        let is_tidy = self.guard == Guard::ColumnIsTheTruth;
        Protocol { batches: self.batches, runs: self.runs, without: Some(self.guard), is_tidy }
    }
}
