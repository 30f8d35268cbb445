//! Scenarios as values: what is done, in which order, and what has to come of it.
//!
//! A [`Scenario`] knows nothing of how it is played. [`Verification`](crate::Verification) plays it with processes on a real catalog
//! and store; the simulation plays those that need nothing but commits, with the order of everything drawn from a seed.

use serde::{Deserialize, Serialize};

use crate::faults::{Call, Fault, Injection};

/// Rows of a batch, unless a scenario needs it to take longer.
pub const ROWS: u64 = 40;

/// A batch by its number, and which version of its content it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Batch {
    /// Its number: batches have their offsets, and so their ids, from it.
    pub number: u64,
    /// Another content under the same id.
    pub content: u64,
    /// How many rows it has.
    pub rows: u64,
}

impl Batch {
    /// A batch as its source first has it.
    pub const fn number(number: u64) -> Self {
        Self { number, content: 0, rows: ROWS }
    }

    /// The same id with other rows.
    #[must_use]
    pub const fn changed(self) -> Self {
        Self { content: self.content + 1, ..self }
    }

    /// The same id without any row.
    #[must_use]
    pub const fn emptied(self) -> Self {
        Self { rows: 0, ..self }
    }
}

/// What an ingest is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The rows of its batches.
    Sound,
    /// These, and in each batch one that cannot be used.
    WithABadRow,
    /// Less than a file.
    Truncated,
}

/// How an ingest differs from the usual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Ingest it even if it is there.
    Force,
    /// All batches of the run in one commit.
    OneCommit,
    /// Rows that cannot be used are set aside.
    Quarantine,
    /// The cells are derived in another resolution.
    OtherCells,
    /// The run owns the slice that its batches are of, which may change.
    OwnsSlice,
    /// Somebody is told afterwards.
    Notify,
}

/// One ingest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who runs it, for the timeline and for [`Step::Release`] and [`Step::Kill`].
    pub by: &'static str,
    /// What it is to land.
    pub batches: Vec<Batch>,
    /// What it is given.
    pub input: Input,
    /// How it differs from the usual.
    pub settings: Vec<Setting>,
    /// What goes wrong in its process.
    pub faults: Vec<Injection>,
}

impl Run {
    /// The usual ingest of a batch.
    pub fn of(by: &'static str, batch: Batch) -> Self {
        Self { by, batches: vec![batch], input: Input::Sound, settings: Vec::new(), faults: Vec::new() }
    }

    /// Several batches.
    pub fn of_all(by: &'static str, batches: &[Batch]) -> Self {
        Self { batches: batches.to_vec(), ..Self::of(by, Batch::number(0)) }
    }

    /// With one of these.
    #[must_use]
    pub fn with(mut self, setting: Setting) -> Self {
        self.settings.push(setting);
        self
    }

    /// With other input.
    #[must_use]
    pub fn given(self, input: Input) -> Self {
        Self { input, ..self }
    }

    /// With something that goes wrong at its first call of a kind.
    #[must_use]
    pub fn but(self, call: Call, fault: Fault) -> Self {
        self.but_at(call, 1, fault)
    }

    /// With something that goes wrong at a later call of a kind.
    #[must_use]
    pub fn but_at(self, call: Call, nth: u32, fault: Fault) -> Self {
        self.but_from(call, nth, 1, fault)
    }

    /// With something that goes wrong at so many calls of a kind in a row.
    #[must_use]
    pub fn but_from(mut self, call: Call, nth: u32, times: u32, fault: Fault) -> Self {
        self.faults.push(Injection { call, path: String::new(), nth, times, fault });
        self
    }
}

/// How a run has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Committed.
    Committed,
    /// Skipped, because the batch is there.
    Skipped,
    /// One of the two.
    Landed,
    /// Of several batches so many are committed and the others skipped.
    LandedSome {
        /// How many are committed.
        committed: usize,
    },
    /// Refused because of the input.
    InputRefused,
    /// Refused because the cells were derived otherwise.
    CellsRefused,
    /// Killed where a fault says so.
    Killed,
    /// Landed, or given up with nothing done, and said so truly.
    LandedOrNot,
    /// Landed, and nobody could be told.
    NotTold,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A run, to its end.
    Run(Run, Ends),
    /// Runs at the same time, of which so many commit and the others skip.
    AtOnce(Vec<Run>, usize),
    /// A run, up to where a fault holds it.
    UntilHeld(Run),
    /// Lets a run that is held go on, to its end.
    Release(&'static str, Ends),
    /// `kill -9` to a run that is held.
    Kill(&'static str),
    /// For each call that the run makes to store and catalog, before it and after it: a run of a new batch that is killed
    /// there, the same run again, and a look at the table.
    KilledAtEachCall {
        /// The run; its batch gives the first of the numbers.
        run: Run,
        /// Of all places to kill it, one in so many.
        every: usize,
    },
    /// `kill -9` to so many runs at random moments, each of them run again, with a look at the table in between.
    KilledAtRandom {
        /// The number of the first batch.
        from: u64,
        /// How many are killed.
        kills: u32,
    },
    /// Runs of new batches while the network fails at random.
    OverABadNetwork {
        /// The number of the first batch.
        from: u64,
        /// How many batches.
        runs: u32,
    },
    /// Main is set back to before a batch.
    RollBack(Batch),
    /// Another engine rewrites all files into one.
    Compact,
    /// Another engine lets all snapshots but the head expire.
    ForgetSnapshots,
    /// The ledger has come to hold five hundred other batches.
    ForgetLedger,
    /// Another engine appends rows that are there, once more.
    AppendAgain,
    /// Somebody sets a property of the table.
    Touch,
    /// Orphans are removed, with the smallest margin, and a store that does not say when files were written, or does.
    CleanUp {
        /// Whether it says.
        dated: bool,
    },
    /// Keeps the table as it is now in mind.
    Remember,
    /// Nothing of it has changed since.
    Unchanged,
    /// Its data files have the same bytes as then.
    SameBytes,
    /// So many messages were sent, and all with one key.
    Told(usize),
    /// What the table has to be by now.
    Check(End),
    /// The catalog and the store do what Hexfloe needs of them.
    SelfTest,
}

/// What a table has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The batches it holds, each once, and nothing else.
    pub batches: Vec<Batch>,
    /// How many snapshots of ours there are; not looked at where snapshots were forgotten.
    pub snapshots: Option<usize>,
    /// Whether the ledger has to hold all of them.
    pub in_ledger: bool,
}

impl End {
    /// These batches, each with a snapshot of its own.
    pub fn of(batches: &[Batch]) -> Self {
        Self { batches: batches.to_vec(), snapshots: Some(batches.len()), in_ledger: true }
    }

    /// With another number of snapshots.
    #[must_use]
    pub fn in_snapshots(self, snapshots: usize) -> Self {
        Self { snapshots: Some(snapshots), ..self }
    }

    /// With any number of snapshots.
    #[must_use]
    pub fn in_any_snapshots(self) -> Self {
        Self { snapshots: None, ..self }
    }

    /// Where the ledger has forgotten some.
    #[must_use]
    pub fn without_ledger(self) -> Self {
        Self { in_ledger: false, ..self }
    }
}

/// A promise, and what is done to break it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name, as `--scenario` takes it.
    pub name: &'static str,
    /// What is promised.
    pub promise: &'static str,
    /// What is done.
    pub steps: Vec<Step>,
    /// Whether a quick verification does without.
    pub only_full: bool,
    /// Whether it is a control: the checks have to find that rows are in the table twice.
    pub is_control: bool,
}

impl Scenario {
    fn new(name: &'static str, promise: &'static str, steps: Vec<Step>) -> Self {
        Self { name, promise, steps, only_full: false, is_control: false }
    }

    /// Whether the simulation can play it: it knows commits and the table, and neither jobs nor networks.
    pub fn is_of_commits(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Run(run, _) | Step::UntilHeld(run) => run.is_of_commits(),
            Step::AtOnce(runs, _) => runs.iter().all(Run::is_of_commits),
            Step::KilledAtEachCall { .. }
            | Step::KilledAtRandom { .. }
            | Step::OverABadNetwork { .. }
            | Step::Told(_)
            | Step::SelfTest => false,
            _ => true,
        })
    }
}

impl Run {
    fn is_of_commits(&self) -> bool {
        let all_known = self.settings.iter().all(|setting| matches!(setting, Setting::Force | Setting::OneCommit));
        self.input == Input::Sound && all_known && self.batches.iter().all(|batch| batch.content == 0 && batch.rows > 0)
    }
}

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// All scenarios, and every call of those that are killed at each.
    pub full: bool,
    /// How many processes are killed at random moments.
    pub kills: u32,
}

const A: Batch = Batch::number(0);
const B: Batch = Batch::number(1);
const C: Batch = Batch::number(2);

/// All scenarios, in the order in which they are played.
pub fn scenarios(effort: Effort) -> Vec<Scenario> {
    let mut all = the_recipes();
    all.extend(crashes(effort));
    all.extend(races());
    all.extend(lies());
    all.extend(others());
    all.extend(inputs());
    if !effort.full {
        all.retain(|scenario| !scenario.only_full);
    }
    all
}

fn landed(batch: Batch) -> Step {
    Step::Run(Run::of("first run", batch), Ends::Committed)
}

fn skipped(batch: Batch) -> Step {
    Step::Run(Run::of("next run", batch), Ends::Skipped)
}

/// What the published recipes for idempotent ingestion and for jobs that are safe to run again test.
fn the_recipes() -> Vec<Scenario> {
    let forced = || Run::of("forced run", A).with(Setting::Force);
    let mut ten = vec![landed(A)];
    ten.extend((0..9).map(|_| skipped(A)));
    ten.push(Step::Check(End::of(&[A])));
    let mut doubled = Scenario::new(
        "append-twice-would-have-doubled",
        "the checks find rows that are there twice, which another engine appends",
        vec![landed(A), Step::AppendAgain, Step::Check(End::of(&[A]))],
    );
    doubled.is_control = true;
    vec![
        Scenario::new(
            "catalog-and-store",
            "of commits on one base one wins, what is acknowledged stays, objects are written whole or not at all",
            vec![Step::SelfTest],
        ),
        Scenario::new(
            "replay-is-a-no-op",
            "a batch that is there is skipped, and nothing is written",
            vec![landed(A), Step::Remember, skipped(A), Step::Unchanged, Step::Check(End::of(&[A]))],
        ),
        Scenario::new(
            "ten-runs-give-one-written-and-nine-skipped",
            "however often a batch is run, it is written once",
            ten,
        ),
        Scenario::new(
            "forced-rerun-changes-no-byte",
            "the same input makes the same bytes, and takes the place of itself in one snapshot",
            vec![
                landed(A),
                landed(B),
                Step::Remember,
                Step::Run(forced(), Ends::Committed),
                Step::SameBytes,
                Step::Check(End::of(&[A, B]).in_snapshots(3)),
            ],
        ),
        Scenario::new(
            "partial-failure-then-retry",
            "files of a run that was killed before its commit do not show, and the next run lands the batch once",
            vec![
                landed(A),
                Step::Remember,
                Step::Run(Run::of("killed run", B).but(Call::Commit, Fault::CrashBefore), Ends::Killed),
                Step::Unchanged,
                landed(B),
                skipped(B),
                Step::Check(End::of(&[A, B])),
            ],
        ),
        Scenario::new(
            "the-failed-load-leaves-the-previous-state",
            "input that cannot be read changes nothing, also where it was to replace what is there",
            vec![
                landed(A),
                Step::Remember,
                Step::Run(forced().given(Input::Truncated), Ends::InputRefused),
                Step::Unchanged,
                Step::Check(End::of(&[A])),
            ],
        ),
        doubled,
    ]
}

fn crashes(effort: Effort) -> Vec<Scenario> {
    let each = Step::KilledAtEachCall { run: Run::of("killed run", B), every: if effort.full { 1 } else { 3 } };
    let kills = effort.kills;
    vec![
        Scenario::new(
            "killed-at-every-step-then-retried",
            "a run that is killed before or after any call to store or catalog, and run again, lands its batch once",
            vec![landed(A), each],
        ),
        Scenario::new(
            "killed-at-random-moments",
            "a run that is killed at any moment, and run again, lands its batch once, and readers see all of it or nothing",
            vec![Step::KilledAtRandom { from: 0, kills }],
        ),
        Scenario::new(
            "torn-upload",
            "a file of which a part was written when its process ended is never part of the table",
            vec![
                landed(A),
                Step::Run(Run::of("killed run", B).but(Call::Put, Fault::Partial), Ends::Killed),
                Step::Run(Run::of("killed run", B).but_at(Call::Put, 2, Fault::Partial), Ends::Killed),
                Step::Run(Run::of("killed run", B).but_at(Call::Put, 3, Fault::Partial), Ends::Killed),
                Step::Check(End::of(&[A])),
                landed(B),
                Step::Check(End::of(&[A, B])),
            ],
        ),
    ]
}

fn races() -> Vec<Scenario> {
    const NAMES: [&str; 8] = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let same = |count: usize| NAMES[..count].iter().map(|by| Run::of(by, A)).collect::<Vec<_>>();
    let batches: Vec<Batch> = (0..8).map(Batch::number).collect();
    let distinct = std::iter::zip(NAMES, &batches).map(|(by, batch)| Run::of(by, *batch)).collect();
    let held = || Step::UntilHeld(Run::of("stalled run", B).but(Call::Commit, Fault::HoldBefore));
    let released = || Step::Release("stalled run", Ends::Committed);
    vec![
        Scenario::new(
            "two-writers-of-one-batch",
            "of two that land one batch at once, one commits and one skips",
            vec![landed(B), Step::AtOnce(same(2), 1), Step::Check(End::of(&[A, B]))],
        ),
        Scenario::new(
            "eight-writers-of-one-batch",
            "of eight that make the table and land one batch at once, one commits and the others skip",
            vec![Step::AtOnce(same(8), 1), Step::Check(End::of(&[A]))],
        ),
        Scenario::new(
            "eight-writers-of-eight-batches",
            "of eight that land a batch each at once, none is lost, in the table or in the ledger",
            vec![Step::AtOnce(distinct, 8), Step::Check(End::of(&batches))],
        ),
        Scenario::new(
            "a-rival-commits-first",
            "a commit that somebody else has overtaken is decided again, and both are there",
            vec![
                landed(A),
                held(),
                Step::Run(Run::of("rival", C), Ends::Committed),
                released(),
                Step::Check(End::of(&[A, B, C])),
            ],
        ),
        Scenario::new(
            "a-rival-lands-the-same-batch-first",
            "a commit that somebody else has overtaken with the same batch is skipped",
            vec![
                landed(A),
                held(),
                Step::Run(Run::of("rival", B), Ends::Committed),
                Step::Release("stalled run", Ends::Skipped),
                Step::Check(End::of(&[A, B])),
            ],
        ),
        Scenario::new(
            "a-rival-changes-a-property",
            "what others set between plan and commit is kept, and so is the ledger",
            vec![landed(A), held(), Step::Touch, released(), Step::Check(End::of(&[A, B]))],
        ),
        Scenario::new(
            "compacted-between-plan-and-commit",
            "a table that another engine rewrites between plan and commit loses and doubles nothing",
            vec![landed(A), landed(C), held(), Step::Compact, released(), Step::Check(End::of(&[A, B, C]))],
        ),
        Scenario::new(
            "rolled-back-between-plan-and-commit",
            "a commit that was planned on a snapshot which is taken back does not bring it back",
            vec![
                landed(A),
                landed(C),
                held(),
                Step::RollBack(C),
                released(),
                Step::Check(End::of(&[A, B]).in_any_snapshots()),
            ],
        ),
        Scenario::new(
            "cleanup-beside-a-stalled-writer",
            "cleaning up takes no file of a run that has not committed yet",
            vec![landed(A), held(), Step::CleanUp { dated: true }, released(), Step::Check(End::of(&[A, B]))],
        ),
    ]
}

fn lies() -> Vec<Scenario> {
    let faults = [
        ("commit-never-arrives", "a commit that never arrives is not taken for done", Fault::NotDelivered),
        (
            "answer-to-the-commit-is-lost",
            "a commit whose answer is lost is looked up, and neither lost nor done twice",
            Fault::LostReply,
        ),
        ("error-after-success", "an error about a commit that was done is not believed", Fault::ErrorAfterSuccess),
        (
            "conflict-after-success",
            "a conflict about a commit that was done is not believed",
            Fault::ConflictAfterSuccess,
        ),
        ("commit-arrives-twice", "a commit that arrives twice is done once", Fault::Twice),
        ("answer-to-the-commit-is-late", "a commit whose answer is late is done once", Fault::Delayed { ms: 400 }),
    ];
    let mut all: Vec<Scenario> = faults
        .into_iter()
        .map(|(name, promise, fault)| {
            let run = Run::of("unlucky run", B).but(Call::Commit, fault);
            let again = Step::Run(Run::of("next run", B), Ends::Landed);
            Scenario::new(
                name,
                promise,
                vec![landed(A), Step::Run(run, Ends::LandedOrNot), again, Step::Check(End::of(&[A, B]))],
            )
        })
        .collect();
    all.push(Scenario::new(
        "stale-read",
        "a table as it was before, given for the one there is, makes no commit on it",
        vec![
            landed(A),
            // The first loads after the hold are among these: only what is loaded then can be out of date.
            Step::UntilHeld(Run::of("stalled run", B).but(Call::Commit, Fault::HoldBefore).but_from(
                Call::Load,
                2,
                3,
                Fault::Stale,
            )),
            Step::Run(Run::of("rival", C), Ends::Committed),
            Step::Release("stalled run", Ends::LandedOrNot),
            Step::Run(Run::of("next run", B), Ends::Landed),
            Step::Check(End::of(&[A, B, C])),
        ],
    ));
    all.push(Scenario::new(
        "over-a-bad-network",
        "whatever becomes of single requests and answers, each batch lands once",
        vec![Step::OverABadNetwork { from: 0, runs: 12 }],
    ));
    all
}

fn others() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "compacted-before-the-replay",
            "rows that another engine has rewritten are known by their column: a forced run replaces them",
            vec![
                landed(A),
                landed(B),
                Step::Compact,
                skipped(A),
                Step::Run(Run::of("forced run", A).with(Setting::Force), Ends::Committed),
                Step::Check(End::of(&[A, B]).in_snapshots(3)),
            ],
        ),
        Scenario::new(
            "rolled-back-then-replayed",
            "a batch that was taken back is not skipped but lands again",
            vec![
                landed(A),
                landed(B),
                Step::RollBack(B),
                Step::Check(End::of(&[A]).in_any_snapshots()),
                landed(B),
                skipped(A),
                Step::Check(End::of(&[A, B]).in_any_snapshots()),
            ],
        ),
        Scenario::new(
            "expired-then-replayed",
            "a batch whose snapshot has expired lands no second time",
            vec![
                landed(A),
                landed(B),
                Step::ForgetSnapshots,
                Step::Run(Run::of("next run", A), Ends::Landed),
                Step::Check(End::of(&[A, B]).in_any_snapshots()),
            ],
        ),
        Scenario::new(
            "out-of-the-ledger-then-replayed",
            "a batch that the ledger has forgotten lands no second time",
            vec![
                landed(A),
                landed(B),
                Step::ForgetLedger,
                Step::Run(Run::of("next run", A), Ends::Landed),
                Step::Check(End::of(&[A, B]).in_any_snapshots().without_ledger()),
            ],
        ),
        Scenario::new(
            "out-of-ledger-and-history-then-replayed",
            "a batch that neither ledger nor snapshots know replaces itself",
            vec![
                landed(A),
                landed(B),
                Step::ForgetLedger,
                Step::Compact,
                Step::ForgetSnapshots,
                Step::Run(Run::of("next run", A), Ends::Landed),
                Step::Check(End::of(&[A, B]).in_any_snapshots().without_ledger()),
            ],
        ),
        Scenario::new(
            "cleanup-without-dates",
            "files of which the store does not say when they were written stay",
            vec![
                landed(A),
                Step::Run(Run::of("killed run", B).but(Call::Commit, Fault::CrashBefore), Ends::Killed),
                Step::CleanUp { dated: false },
                Step::Check(End::of(&[A])),
            ],
        ),
    ]
}

fn inputs() -> Vec<Scenario> {
    let slice = |by, batch| Run::of(by, batch).with(Setting::OwnsSlice);
    let notifying = || Run::of("telling run", A).with(Setting::Notify);
    vec![
        Scenario::new(
            "refusal-leaves-the-table-alone",
            "a row that cannot be used changes nothing",
            vec![
                landed(A),
                Step::Remember,
                Step::Run(Run::of("refused run", B).given(Input::WithABadRow), Ends::InputRefused),
                Step::Unchanged,
                Step::Check(End::of(&[A])),
            ],
        ),
        Scenario::new(
            "quarantine-lands-the-rest",
            "rows that cannot be used are set aside, and the others land once",
            vec![
                Step::Run(Run::of("first run", A).given(Input::WithABadRow).with(Setting::Quarantine), Ends::Committed),
                Step::Remember,
                Step::Run(Run::of("next run", A).given(Input::WithABadRow).with(Setting::Quarantine), Ends::Skipped),
                Step::Unchanged,
                Step::Check(End::of(&[A])),
            ],
        ),
        Scenario::new(
            "other-cells-are-refused",
            "cells of two derivations are never mixed",
            vec![
                landed(A),
                Step::Remember,
                Step::Run(Run::of("refused run", B).with(Setting::OtherCells), Ends::CellsRefused),
                Step::Unchanged,
                Step::Check(End::of(&[A])),
            ],
        ),
        Scenario::new(
            "changed-input-is-refused",
            "one id with another input is an error",
            vec![
                landed(A),
                Step::Remember,
                Step::Run(Run::of("refused run", A.changed()), Ends::InputRefused),
                Step::Unchanged,
                Step::Check(End::of(&[A])),
            ],
        ),
        Scenario::new(
            "emptied-at-the-source",
            "a slice that its source has emptied is empty afterwards, and the others stay",
            vec![
                Step::Run(slice("first run", A), Ends::Committed),
                Step::Run(slice("first run", B), Ends::Committed),
                Step::Run(slice("next run", A.emptied()), Ends::Committed),
                Step::Run(slice("next run", A.emptied()), Ends::Skipped),
                Step::Check(End::of(&[A.emptied(), B]).in_snapshots(3)),
            ],
        ),
        Scenario::new(
            "late-data-for-an-old-slice",
            "an old slice that is run again with more data replaces itself, and touches no other",
            vec![
                Step::Run(slice("first run", A), Ends::Committed),
                Step::Run(slice("first run", B), Ends::Committed),
                Step::Run(slice("late run", A.changed()), Ends::Committed),
                Step::Run(slice("late run", A.changed()), Ends::Skipped),
                Step::Check(End::of(&[A.changed(), B]).in_snapshots(3)),
            ],
        ),
        Scenario::new(
            "several-batches-one-of-them-done",
            "of several batches in one commit, one that is there is left out",
            vec![
                landed(B),
                Step::Run(
                    Run::of_all("run of three", &[A, B, C]).with(Setting::OneCommit),
                    Ends::LandedSome { committed: 2 },
                ),
                Step::Check(End::of(&[A, B, C]).in_snapshots(2)),
            ],
        ),
        Scenario::new(
            "told-once-after-a-crash",
            "a message is sent once, also if its process is killed between commit and sending",
            vec![
                Step::Run(notifying().but(Call::Commit, Fault::CrashAfter), Ends::Killed),
                Step::Told(0),
                Step::Run(notifying(), Ends::Skipped),
                Step::Run(notifying(), Ends::Skipped),
                Step::Told(1),
                Step::Check(End::of(&[A])),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const FULL: Effort = Effort { full: true, kills: 1 };

    #[test]
    fn names_are_unique_and_every_scenario_is_looked_at() {
        let all = scenarios(FULL);
        let names: BTreeSet<_> = all.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all.len());
        for Scenario { name, steps, .. } in &all {
            let looks = |step: &Step| {
                matches!(
                    step,
                    Step::Check(_)
                        | Step::SelfTest
                        | Step::KilledAtEachCall { .. }
                        | Step::KilledAtRandom { .. }
                        | Step::OverABadNetwork { .. }
                )
            };
            assert!(steps.last().is_some_and(looks), "{name}");
        }
    }

    #[test]
    fn what_is_held_is_released_or_killed() {
        for Scenario { name, steps, .. } in scenarios(FULL) {
            let mut held = BTreeSet::new();
            for step in &steps {
                match step {
                    Step::UntilHeld(run) => assert!(held.insert(run.by), "{name}"),
                    Step::Release(by, _) | Step::Kill(by) => assert!(held.remove(by), "{name}"),
                    _ => {}
                }
            }
            assert!(held.is_empty(), "{name}: {held:?}");
        }
    }

    /// Those of the issue that were published with the recipes.
    #[test]
    fn the_tests_of_the_recipes_are_here_by_name() {
        let names: BTreeSet<_> = scenarios(FULL).iter().map(|scenario| scenario.name).collect();
        for name in [
            "replay-is-a-no-op",
            "partial-failure-then-retry",
            "forced-rerun-changes-no-byte",
            "the-failed-load-leaves-the-previous-state",
            "ten-runs-give-one-written-and-nine-skipped",
            "append-twice-would-have-doubled",
        ] {
            assert!(names.contains(name), "{name}");
        }
    }
}
