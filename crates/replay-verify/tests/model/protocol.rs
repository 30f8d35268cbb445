//! The model: who takes part, which rule is left out, and what must hold in every state.

use stateright::{Model, Property};

use crate::files::Batch;
use crate::guards::Guard;
use crate::state::{Answer, Cleaner, LATE, Phase, State, Writer};
use crate::steps::Step;
use crate::table::{Snapshot, Table};

/// Which writers there are, and which rule is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    /// The batch of each writer.
    pub(crate) batches: [Batch; 2],
    /// How often each runs its job.
    pub(crate) runs: [u8; 2],
    pub(crate) without: Option<Guard>,
    /// States that differ in nothing that matters are one; see the module `tidy`.
    pub(crate) is_tidy: bool,
}

pub(crate) const LOST: &str = "no batch is lost";
pub(crate) const DOUBLED: &str = "no batch is doubled";
pub(crate) const DELETED: &str = "nothing that a snapshot refers to is deleted";

/// What must be come to, or the rest proves nothing.
pub(crate) const REACHED: [&str; 8] = [
    "an attempt lands after an earlier one was denied",
    "an answer is not known, and the table shows that the request landed",
    "a request is on its way, and its writer is gone",
    "a batch is known by the ledger",
    "a batch is replaced by itself",
    "what was rolled back is ingested again",
    "a late attempt is refused",
    "a cleaner is about to delete",
];

impl Protocol {
    pub(crate) fn has(&self, guard: Guard) -> bool {
        self.without != Some(guard)
    }

    /// The first property that does not hold.
    pub(crate) fn broken(&self, state: &State) -> Option<&'static str> {
        let times = |snapshot: &Snapshot| self.batches.map(|batch| snapshot.rows.times(self.batches, batch));
        if state.wrong.untrue || state.wrong.overwritten {
            Some(LOST)
        } else if state.table.snapshots.iter().flat_map(times).any(|times| times > 1) {
            Some(DOUBLED)
        } else if state.referenced(state.table.newest()).iter().any(|file| !state.is_there(file)) {
            Some(DELETED)
        } else {
            None
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        self.possible(state, actions);
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        self.after(last, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let [denied, found, gone, known, replaced, again, late, deletes] = REACHED;
        vec![
            Property::always(LOST, |model: &Self, state: &State| model.broken(state) != Some(LOST)),
            Property::always(DOUBLED, |model: &Self, state: &State| model.broken(state) != Some(DOUBLED)),
            Property::always(DELETED, |model: &Self, state: &State| model.broken(state) != Some(DELETED)),
            Property::sometimes(denied, |_, state: &State| {
                some_writer(state, |number, writer| {
                    let last = writer.attempts(number).last();
                    writer.sent[0] == Some(Answer::Refuted)
                        && last.is_some_and(|(by, _)| by.number > 0 && state.table.holds_attempt(by))
                })
            }),
            Property::sometimes(found, |_, state: &State| {
                some_writer(state, |number, writer| {
                    let landed = || writer.attempts(number).any(|(by, _)| state.table.holds_attempt(by));
                    writer.phase == Phase::Loading && landed()
                })
            }),
            Property::sometimes(gone, |_, state: &State| {
                let is_gone = |writer: usize| !state.writers[writer].is_at_work();
                let may_land = |base| base == state.table.head;
                state.requests.iter().any(|request| is_gone(request.by.run.writer()) && may_land(request.base.head))
            }),
            Property::sometimes(known, |model: &Self, state: &State| {
                some_writer(state, |number, writer| {
                    let in_ledger = || state.table.is_in_ledger(model.batches[number], false);
                    writer.phase == Phase::Loading && writer.sent_count() == 0 && in_ledger()
                })
            }),
            Property::sometimes(replaced, |model: &Self, state: &State| {
                let held = |snapshot: &Snapshot| state.table.rows(snapshot.parent).holds(model.batches, snapshot.batch);
                state.table.snapshots.iter().any(held)
            }),
            Property::sometimes(again, |model: &Self, state: &State| is_ingested_again(&state.table, model.batches)),
            Property::sometimes(late, |_, state: &State| {
                some_writer(state, |_, writer| matches!(writer.phase, Phase::Drafted(_)) && writer.age >= LATE)
            }),
            Property::sometimes(
                deletes,
                |_, state: &State| matches!(state.cleaner, Cleaner::Deleting(files) if !files.is_empty()),
            ),
        ]
    }
}

fn some_writer(state: &State, is_so: impl Fn(usize, &Writer) -> bool) -> bool {
    state.writers.iter().enumerate().any(|(number, writer)| is_so(number, writer))
}

/// A batch came on the line anew, that a snapshot has which is not on the line any more.
fn is_ingested_again(table: &Table, batches: [Batch; 2]) -> bool {
    let undone = |batch: Batch| {
        (1..=table.newest())
            .filter(|place| !table.is_on_the_line(*place))
            .filter_map(|place| table.get(place))
            .any(|snapshot| snapshot.batch == batch)
    };
    let new = |snapshot: &&Snapshot| !table.rows(snapshot.parent).holds(batches, snapshot.batch);
    let head = table.get(table.head).filter(new);
    table.went_back && head.is_some_and(|head| undone(head.batch))
}
