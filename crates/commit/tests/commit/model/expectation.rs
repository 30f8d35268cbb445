//! What the table must hold: rows in memory, one state for each snapshot.

use std::collections::{BTreeMap, BTreeSet};

use hexfloe_commit::{BatchOutcome, Error, OnChangedInput, WrittenFor};

use super::files::Row;
use super::steps::LedgerLoss;

/// A batch as it is to be committed.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) id: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) files: usize,
    pub(crate) force: bool,
    /// Whether rows may differ from those that the table knows the batch with.
    pub(crate) other_rows: OnChangedInput,
}

/// What somebody did to the table.
#[derive(Debug)]
pub(crate) enum Effect {
    Nothing,
    Snapshot {
        id: i64,
        change: Change,
    },
    Layout(WrittenFor),
    RolledBack {
        to: i64,
    },
    Expired(BTreeSet<i64>),
    LedgerLost(LedgerLoss),
    /// A batch was committed by its own program: what it was written for, and what came of it.
    Commit {
        contents: Contents,
        written_for: WrittenFor,
        result: Result<BatchOutcome, Error>,
    },
}

/// How a snapshot differs from its parent.
#[derive(Debug)]
pub(crate) enum Change {
    Append(Vec<Row>),
    Compact,
    /// Rows whose number leaves this remainder by three went.
    Delete {
        remainder: i64,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) rows: Vec<Row>,
    /// Batches that are complete here, as they were given to us.
    pub(crate) completed: BTreeMap<String, Vec<Row>>,
}

#[derive(Clone, Debug)]
struct Snapshot {
    parent: Option<i64>,
    /// The batch that its summary names.
    batch: Option<String>,
    state: State,
}

#[derive(Debug)]
pub(crate) struct Model {
    /// Every snapshot there ever was.
    snapshots: BTreeMap<i64, Snapshot>,
    pub(crate) retained: BTreeSet<i64>,
    pub(crate) head: Option<i64>,
    nothing: State,
    layout: WrittenFor,
    /// Batches that the property names for certain, and the snapshot that wrote it; `None` while it is lost.
    property: Option<Vec<String>>,
    written_by: Option<i64>,
}

impl Model {
    pub(crate) fn new(layout: WrittenFor) -> Self {
        Self {
            snapshots: BTreeMap::new(),
            retained: BTreeSet::new(),
            head: None,
            nothing: State::default(),
            layout,
            property: Some(Vec::new()),
            written_by: None,
        }
    }

    pub(crate) fn state(&self) -> &State {
        self.head.map_or(&self.nothing, |head| &self.snapshots[&head].state)
    }

    /// Retained snapshots from the head back.
    fn ancestry(&self) -> Vec<i64> {
        let retained = |id: &i64| self.retained.contains(id);
        std::iter::successors(self.head, |id| self.snapshots[id].parent.filter(retained)).collect()
    }

    /// The batch as the newest retained ancestor that holds it has it.
    fn recorded(&self, id: &str) -> Option<&[Row]> {
        let holds = |snapshot: &i64| self.snapshots[snapshot].batch.as_deref() == Some(id);
        let newest = self.ancestry().into_iter().find(holds)?;
        Some(&self.snapshots[&newest].state.completed[id])
    }

    /// Batches that the ledger must know: those it was told of, while its snapshot is the head or shown to be an
    /// ancestor; otherwise those of the retained ancestors.
    pub(crate) fn surely_known(&self) -> BTreeSet<String> {
        let ancestry = self.ancestry();
        let counts = self
            .written_by
            .is_none_or(|writer| ancestry.iter().any(|id| *id == writer || self.snapshots[id].parent == Some(writer)));
        match &self.property {
            Some(ids) if counts => ids.iter().cloned().collect(),
            // Whatever is still known then is known by luck.
            None if counts => BTreeSet::new(),
            _ => ancestry.iter().filter_map(|id| self.snapshots[id].batch.clone()).collect(),
        }
    }

    pub(crate) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Snapshot { id, change } => {
                let mut state = self.state().clone();
                match change {
                    Change::Append(rows) => state.rows.extend(rows),
                    Change::Compact => {}
                    Change::Delete { remainder } => state.rows.retain(|row| row.number % 3 != remainder),
                }
                self.add(id, None, state);
            }
            Effect::Layout(layout) => self.layout = layout,
            Effect::RolledBack { to } => {
                assert!(self.ancestry().contains(&to), "a rollback goes to an ancestor");
                self.head = Some(to);
            }
            Effect::Expired(ids) => self.retained.retain(|id| !ids.contains(id)),
            Effect::LedgerLost(LedgerLoss::Removed | LedgerLoss::Garbage) => self.property = None,
            Effect::LedgerLost(LedgerLoss::CutToNewest) => {
                if let Some(ids) = &mut self.property {
                    ids.drain(..ids.len().saturating_sub(1));
                }
            }
            Effect::Commit { contents, written_for, result } => self.commit(contents, written_for, result),
        }
    }

    fn add(&mut self, id: i64, batch: Option<String>, state: State) {
        let snapshot = Snapshot { parent: self.head, batch, state };
        assert!(self.snapshots.insert(id, snapshot).is_none(), "snapshot {id} was there before");
        self.retained.insert(id);
        self.head = Some(id);
    }

    /// Judges what came of a batch, and believes it.
    fn commit(&mut self, contents: Contents, written_for: WrittenFor, result: Result<BatchOutcome, Error>) {
        let Contents { id, rows, force, other_rows, .. } = contents;
        let changed = self.recorded(&id).is_some_and(|recorded| recorded != rows);
        let must_refuse = changed && other_rows == OnChangedInput::Refuse;
        let must_skip = !force && !changed && self.surely_known().contains(&id);
        let may_skip = !force && !changed && self.state().completed.contains_key(&id);
        let stale = written_for != self.layout;
        if must_refuse {
            assert!(matches!(result, Err(Error::ChangedInput { .. })), "batch {id} has changed: {result:?}");
            return;
        }
        match result {
            Ok(BatchOutcome::Skipped { snapshot_id }) => {
                assert!(may_skip, "batch {id} was skipped, and is not in the table");
                if let Some(snapshot_id) = snapshot_id {
                    assert!(self.ancestry().contains(&snapshot_id), "skipped for snapshot {snapshot_id}");
                    assert_eq!(self.snapshots[&snapshot_id].batch.as_ref(), Some(&id));
                }
            }
            Ok(BatchOutcome::Committed { snapshot_id, replaced_rows, .. }) => {
                assert!(!must_skip, "batch {id} was committed, and the ledger had it");
                assert!(!stale, "batch {id} was committed with files of another schema or spec");
                let mut state = self.state().clone();
                let before = state.rows.len();
                state.rows.retain(|row| row.batch.as_ref() != Some(&id));
                let replaced = (before - state.rows.len()) as u64;
                assert_eq!(replaced_rows, replaced, "rows that batch {id} replaced");
                state.rows.extend(rows.iter().cloned());
                state.completed.insert(id.clone(), rows);
                let mut ledger: Vec<String> = self.surely_known().into_iter().filter(|known| *known != id).collect();
                ledger.push(id.clone());
                self.add(snapshot_id, Some(id), state);
                self.property = Some(ledger);
                self.written_by = Some(snapshot_id);
            }
            Err(Error::Changed { .. }) => {
                assert!(stale && !must_skip, "batch {id} was refused, and nothing had changed");
            }
            Err(error) => unreachable!("batch {id}: {error}"),
        }
    }
}
