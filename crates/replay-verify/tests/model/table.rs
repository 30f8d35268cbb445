//! The table as its metadata has it: snapshots, the main branch, the ledger. Snapshots do not expire here, so that one is named
//! by its place in the order in which they came, and a table as it was loaded by how many there were.

use crate::files::{Attempt, Batch, RUNS, Run};

/// The place of a snapshot; 0 is the empty one that a table begins with.
pub(crate) type Place = u8;

/// How often each run's data file is in a snapshot: once or never, unless something is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rows(pub(crate) [u8; RUNS]);

/// What a commit adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Snapshot {
    pub(crate) by: Attempt,
    /// What its summary says it brought.
    pub(crate) batch: Batch,
    pub(crate) parent: Place,
    pub(crate) rows: Rows,
}

/// The newest of the completed batches: the ledger has room for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ledger {
    pub(crate) batch: Option<Batch>,
    /// The snapshot that wrote it, or that it was set back to.
    pub(crate) written_by: Place,
}

/// What the catalog points to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Table {
    /// All but the first, which is empty.
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) head: Place,
    pub(crate) ledger: Ledger,
    /// The branch was set back: the log of heads is not the line of ancestors any more.
    pub(crate) went_back: bool,
}

impl Rows {
    pub(crate) fn holds(self, batches: [Batch; 2], batch: Batch) -> bool {
        self.times(batches, batch) > 0
    }

    /// How often the rows of a batch are there.
    pub(crate) fn times(self, batches: [Batch; 2], batch: Batch) -> u8 {
        let of_batch = Run::all().filter(|run| batches[run.writer()] == batch);
        of_batch.map(|run| self.0[run.index()]).sum()
    }

    /// Without the rows of a batch that `decided_on` has: what an overwrite planned there leaves of these.
    pub(crate) fn without(mut self, batches: [Batch; 2], batch: Batch, decided_on: Self) -> Self {
        for run in Run::all().filter(|run| batches[run.writer()] == batch && decided_on.0[run.index()] > 0) {
            self.0[run.index()] = 0;
        }
        self
    }

    pub(crate) fn with(mut self, run: Run) -> Self {
        self.0[run.index()] += 1;
        self
    }
}

impl Table {
    pub(crate) fn get(&self, place: Place) -> Option<&Snapshot> {
        self.snapshots.get(usize::from(place.checked_sub(1)?))
    }

    /// The place of the newest snapshot, which is also the last sequence number.
    pub(crate) fn newest(&self) -> Place {
        Place::try_from(self.snapshots.len()).unwrap_or(Place::MAX)
    }

    pub(crate) fn rows(&self, place: Place) -> Rows {
        self.get(place).map_or_else(Rows::default, |snapshot| snapshot.rows)
    }

    /// From a snapshot to the first one.
    pub(crate) fn line(&self, from: Place) -> impl Iterator<Item = Place> {
        std::iter::successors(Some(from), |place| self.get(*place).map(|snapshot| snapshot.parent))
    }

    pub(crate) fn is_on_the_line(&self, place: Place) -> bool {
        self.line(self.head).any(|ancestor| ancestor == place)
    }

    pub(crate) fn holds_attempt(&self, attempt: Attempt) -> bool {
        self.snapshots.iter().any(|snapshot| snapshot.by == attempt)
    }

    /// Whether a snapshot on the line says that it brought the batch.
    pub(crate) fn is_in_summaries(&self, batch: Batch) -> bool {
        self.line(self.head).filter_map(|place| self.get(place)).any(|snapshot| snapshot.batch == batch)
    }

    /// Whether the ledger has the batch, as far as it counts: while its snapshot is on the line, and after the branch was
    /// set back only for what that snapshot brought itself.
    pub(crate) fn is_in_ledger(&self, batch: Batch, wherever_written: bool) -> bool {
        let Ledger { batch: listed, written_by } = self.ledger;
        if listed != Some(batch) || wherever_written {
            return listed == Some(batch);
        }
        let own = self.get(written_by).is_none_or(|snapshot| snapshot.batch == batch);
        self.is_on_the_line(written_by) && (!self.went_back || own)
    }

    pub(crate) fn add(&mut self, snapshot: Snapshot) {
        self.snapshots.push(snapshot);
        self.head = self.newest();
        self.ledger = Ledger { batch: Some(snapshot.batch), written_by: self.head };
    }

    /// Sets the branch back to an ancestor. We write the ledger anew; another engine leaves it as it is.
    pub(crate) fn go_back(&mut self, to: Place, with_ledger: bool) {
        self.went_back = true;
        self.head = to;
        if with_ledger {
            let batch = self.ledger.batch.filter(|batch| self.is_in_summaries(*batch));
            self.ledger = Ledger { batch, written_by: to };
        }
    }
}
