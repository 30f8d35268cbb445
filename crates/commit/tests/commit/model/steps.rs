//! What can happen to a table: steps that are drawn at random and print as what they are.
//!
//! A step names batches, snapshots and files by small numbers that are taken modulo what there is when it is done, so
//! that every sequence of steps is a possible one, and stays one when steps are taken out of it.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A table and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Whether the table is made with the partition `category`.
    pub(crate) partitioned: bool,
    /// Whether manifests are merged as soon as there are two.
    pub(crate) merging: bool,
    /// Whether the table asks for delete files where rows of a file go.
    pub(crate) merge_on_read: bool,
    pub(crate) steps: Vec<Step>,
}

/// Rows by number and category.
pub(crate) type Cells = Vec<(i64, Option<char>)>;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// We commit a batch.
    Ours(Batch, Luck),
    /// Somebody else does something.
    Theirs(Deed),
}

/// A batch to commit.
#[derive(Clone, Debug)]
pub(crate) enum Batch {
    /// One that was never seen before.
    New { cells: Cells, files: usize },
    /// One of the earlier ones, as it was.
    Replay { which: usize },
    /// The same by force, with its rows as they were or with others, which may be allowed.
    Forced { which: usize, cells: Option<Cells>, allowed: bool, files: usize },
}

/// How our request fares on its way.
#[derive(Clone, Debug)]
pub(crate) enum Luck {
    Good,
    /// It is applied, and the answer is lost.
    AnswerLost,
    /// It is applied, and a second copy of it is refused.
    SentTwice,
    /// It is applied, and the answer is an error.
    AnsweredWithError,
    /// It never arrives, and nobody knows.
    Vanished,
    /// It arrives when the next one is sent, before that.
    Late,
    /// It arrives after all is over.
    TooLate,
    /// It is refused for no reason to be seen.
    Refused,
    /// Somebody does something between plan and commit.
    After(Deed),
    /// It is applied, somebody does something, and the answer is lost.
    AnswerLostAfter(Deed),
    /// It is applied, somebody does something, and a second copy is refused.
    SentTwiceAround(Deed),
}

/// What others do.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// A rival commits a batch.
    Batch(Batch),
    /// Rows are appended by the `iceberg` crate: of nobody, or every other one under the id of a batch.
    Append { cells: Cells, batch: Option<usize>, bounds: Bounds },
    /// Files of the chosen partitions become one for each partition.
    Compact { chosen: u8, bounds: Bounds },
    /// Rows whose number leaves this remainder by three are deleted: files are written without them, or their positions
    /// are.
    Delete { remainder: i64, positions: bool, bounds: Bounds },
    /// The table gets another partition spec.
    Partition(Partitioning),
    /// A column is added; or if there is one already, it is renamed or dropped.
    Column { drop: bool },
    /// The main branch goes back to one of its ancestors.
    RollBack { to: usize },
    /// Snapshots expire: the oldest ones, or all but the current one; and their files with them.
    Expire { oldest: Option<usize>, files: bool },
    /// The ledger suffers.
    Ledger(LedgerLoss),
}

/// What a manifest says about the batch column of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bounds {
    /// Whole bounds and counts.
    Full,
    /// Counts, and bounds cut to sixteen characters.
    Cut,
    /// Counts alone.
    Counts,
    /// Nothing.
    Absent,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Partitioning {
    None,
    Category,
    BucketOfNumber,
    StartOfBatchId,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LedgerLoss {
    Removed,
    Garbage,
    CutToNewest,
}

/// Tables and four to eleven steps, of which the first few make sure that there is something to go wrong with.
pub(crate) fn histories() -> impl Strategy<Value = History> {
    let first =
        (cells(2..7), 1..=2_usize).prop_map(|(cells, files)| Step::Ours(Batch::New { cells, files }, Luck::Good));
    let steps = (vec(first, 2..=3), vec(step(), 2..=8)).prop_map(|(first, then)| [first, then].concat());
    (any::<bool>(), any::<bool>(), prop::bool::weighted(0.3), steps)
        .prop_map(|(partitioned, merging, merge_on_read, steps)| History { partitioned, merging, merge_on_read, steps })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (batch(), luck()).prop_map(|(batch, luck)| Step::Ours(batch, luck)),
        6 => deed().prop_map(Step::Theirs),
    ]
}

fn batch() -> impl Strategy<Value = Batch> {
    let which = 0..4_usize;
    prop_oneof![
        3 => (cells(0..7), 1..=3_usize).prop_map(|(cells, files)| Batch::New { cells, files }),
        2 => which.clone().prop_map(|which| Batch::Replay { which }),
        6 => (which, option::of(cells(0..7)), prop::bool::weighted(0.8), 1..=3_usize)
            .prop_map(|(which, cells, allowed, files)| Batch::Forced { which, cells, allowed, files }),
    ]
}

fn luck() -> impl Strategy<Value = Luck> {
    prop_oneof![
        10 => Just(Luck::Good),
        1 => Just(Luck::AnswerLost),
        1 => Just(Luck::SentTwice),
        1 => Just(Luck::AnsweredWithError),
        1 => Just(Luck::Vanished),
        1 => Just(Luck::Late),
        1 => Just(Luck::TooLate),
        1 => Just(Luck::Refused),
        4 => deed().prop_map(Luck::After),
        1 => deed().prop_map(Luck::AnswerLostAfter),
        1 => deed().prop_map(Luck::SentTwiceAround),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let partitioning = prop_oneof![
        Just(Partitioning::None),
        Just(Partitioning::Category),
        Just(Partitioning::BucketOfNumber),
        Just(Partitioning::StartOfBatchId),
    ];
    let loss = prop_oneof![Just(LedgerLoss::Removed), Just(LedgerLoss::Garbage), Just(LedgerLoss::CutToNewest)];
    prop_oneof![
        2 => batch().prop_map(Deed::Batch),
        3 => (cells(1..5), option::of(0..4_usize), bounds())
            .prop_map(|(cells, batch, bounds)| Deed::Append { cells, batch, bounds }),
        12 => (prop_oneof![4 => Just(u8::MAX), 1 => any::<u8>()], bounds())
            .prop_map(|(chosen, bounds)| Deed::Compact { chosen, bounds }),
        6 => (0..3_i64, prop::bool::weighted(0.7), bounds())
            .prop_map(|(remainder, positions, bounds)| Deed::Delete { remainder, positions, bounds }),
        2 => partitioning.prop_map(Deed::Partition),
        2 => any::<bool>().prop_map(|drop| Deed::Column { drop }),
        2 => (0..8_usize).prop_map(|to| Deed::RollBack { to }),
        2 => (option::of(1..5_usize), any::<bool>()).prop_map(|(oldest, files)| Deed::Expire { oldest, files }),
        1 => loss.prop_map(Deed::Ledger),
    ]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    prop_oneof![Just(Bounds::Full), Just(Bounds::Cut), Just(Bounds::Counts), Just(Bounds::Absent)]
}

/// Numbers are few, so that equal rows occur.
fn cells(count: std::ops::Range<usize>) -> impl Strategy<Value = Cells> {
    let category = prop_oneof![
        5 => Just(Some('a')),
        2 => Just(Some('b')),
        2 => Just(Some('c')),
        1 => Just(None),
    ];
    vec((0..6_i64, category), count)
}
