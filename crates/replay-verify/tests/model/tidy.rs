//! What makes no difference any more is made equal: a hundred states become one, and none that matters is left out, which a test
//! looks at. It rests on the guards. Where one of them is left out nothing is made equal.

use crate::files::{File, Files};
use crate::state::{Answer, Base, Cleaner, Phase, State};
use crate::steps::{ask_what_to_remove, remove};
use crate::table::Ledger;

pub(crate) fn tidy(state: &mut State) {
    tidy_ledger(state);
    tidy_bases(state);
    tidy_requests(state);
    tidy_files(state);
    tidy_writers(state);
    tidy_cleaner(state);
}

/// Once the branch has gone back, which it does once, a ledger counts for good or never again.
fn tidy_ledger(state: &mut State) {
    if state.table.went_back {
        let batch = state.table.ledger.batch.filter(|batch| state.table.is_in_ledger(*batch, false));
        state.table.ledger = Ledger { batch, written_by: 0 };
    }
}

/// A request on a table that has a newer snapshot is never applied, whatever it says.
fn tidy_bases(state: &mut State) {
    for writer in &mut state.writers {
        match &mut writer.phase {
            Phase::Decided(base) | Phase::Drafted(base) if base.is_stale(&state.table) => {
                *base = Base::default();
                writer.decided_on = 0;
            }
            Phase::Decided(_) | Phase::Drafted(_) => {}
            _ => writer.decided_on = 0,
        }
    }
}

/// One that is never applied is gone. Whoever waits for it loads the table next, and finds it there or not whatever the answer is.
fn tidy_requests(state: &mut State) {
    let State { requests, writers, table, .. } = state;
    requests.retain(|request| !request.base.is_stale(table));
    for (number, writer) in writers.iter_mut().enumerate() {
        let is_open = |by| requests.iter().any(|request| request.by == by);
        if writer.waits_for(number).is_some_and(|by| !is_open(by)) {
            writer.phase = Phase::Loading;
        }
        let run = writer.run(number);
        for (answer, attempt) in writer.sent.iter_mut().flatten().zip(0..) {
            let by = run.attempt(attempt);
            if !is_open(by) {
                *answer = if table.holds_attempt(by) { Answer::Open } else { Answer::Refuted };
            }
        }
    }
}

/// What nothing refers to, and nothing will, is gone: whether the cleaner takes it makes no difference. What is referred to once
/// stays so, as no snapshot expires here, and how old it is makes none either.
fn tidy_files(state: &mut State) {
    let referenced = state.referenced(state.table.newest());
    let mut needed = referenced;
    for request in &state.requests {
        needed.insert(request.by.manifests());
        needed.insert(request.by.run.data_file());
    }
    for (number, writer) in state.writers.iter().enumerate() {
        let run = writer.run(number);
        if let Phase::Drafted(_) = writer.phase {
            needed.insert(run.attempt(writer.sent_count()).manifests());
        }
        if !matches!(writer.phase, Phase::Over | Phase::Concluding | Phase::Removing(_)) {
            needed.insert(run.data_file());
        }
    }
    state.delete(File::all().filter(|file| !needed.contains(*file)).collect());
    for file in referenced.iter() {
        state.store[file.index()] = state.store[file.index()].map(|_| 0);
    }
}

/// A run that has nothing to remove is over, and the age of one that sends nothing more is of no interest.
fn tidy_writers(state: &mut State) {
    for number in 0..state.writers.len() {
        if state.writers[number].phase == Phase::Concluding {
            let before = state.writers[number];
            ask_what_to_remove(state, number);
            if let Phase::Removing(files) = state.writers[number].phase
                && !state.of_these(files).is_empty()
            {
                state.writers[number] = before;
            }
        }
        if let Phase::Removing(files) = state.writers[number].phase {
            let files = state.of_these(files);
            remove(&mut state.writers[number], files);
        }
        let writer = &mut state.writers[number];
        let sends_more = match writer.phase {
            Phase::Loading | Phase::Waiting => writer.has_attempts_left(),
            Phase::Decided(_) | Phase::Drafted(_) => true,
            Phase::Over | Phase::Concluding | Phase::Removing(_) => false,
        };
        if !sends_more {
            writer.age = 0;
        }
    }
}

/// A cleaner looks twice, and what it sees the first time it sees the second time as well: it may always have looked once.
fn tidy_cleaner(state: &mut State) {
    let referenced = state.referenced(state.table.newest());
    let files = match state.cleaner {
        Cleaner::Away | Cleaner::Loaded(_) => Files::default(),
        Cleaner::Listed(files) => state.of_these(files).without(referenced),
        Cleaner::Deleting(files) => state.of_these(files),
    };
    state.cleaner = match state.cleaner {
        _ if files.is_empty() => Cleaner::Loaded(0),
        Cleaner::Deleting(_) => Cleaner::Deleting(files),
        _ => Cleaner::Listed(files),
    };
}
