//! The protocol as a small model, explored to its last state: two writers of one batch or of two, each attempt of which may fail
//! in any way, a catalog that loses answers and gets a request twice, a cleaner, a rollback, a ledger with room for one batch, and
//! time.
//!
//! The simulation runs the code itself and draws schedules; this is the protocol only, and all schedules. That both speak of the
//! same thing is what the module `code` says, and what its tests check.

mod code;
mod files;
mod guards;
mod protocol;
mod state;
mod steps;
mod table;
mod tidy;
mod timeline;

use std::collections::{BTreeSet, HashSet, VecDeque};

use protocol::{DELETED, DOUBLED, LOST, Protocol, REACHED};
use state::State;
use stateright::{Checker, HasDiscoveries, Model};
use steps::Step;

/// Explores everything, and asserts that nothing breaks and that everything that matters is come to, but for what can `never` be.
/// Both take 50 s of CPU, on one thread each: so the depth is exact.
fn explore(batches: [u8; 2], at_least: usize, never: &[&str]) {
    let model = Protocol { batches, runs: [2, 1], without: None, is_tidy: true };
    let checker = model.checker().spawn_bfs().join();
    let (unique, states, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("batches {batches:?}: {unique} states, {states} ways into one, depth {depth}");
    assert!(checker.is_done());
    for name in [LOST, DOUBLED, DELETED] {
        let path = checker.discovery(name).map(|path| timeline::timeline(&model, &path.into_actions()));
        assert_eq!(path, None, "{}", path.as_deref().unwrap_or_default());
        println!("  in all of them: {name}");
    }
    for name in REACHED {
        let is_reached = checker.discovery(name).is_some();
        assert_ne!(is_reached, never.contains(&name), "{name}");
        println!("  in {} of them: {name}", if is_reached { "some" } else { "none" });
    }
    // Fewer would be another model.
    assert!(unique >= at_least, "{unique}");
}

#[test]
fn no_schedule_of_two_writers_of_one_batch_loses_or_doubles_it_or_deletes_what_is_needed() {
    // Whoever begins again finds it, unless it was taken back.
    explore([0, 0], 2_400_000, &["a batch is replaced by itself"]);
}

#[test]
fn no_schedule_of_two_batches_loses_or_doubles_one_or_deletes_what_is_needed() {
    explore([0, 1], 4_200_000, &[]);
}

#[test]
fn without_any_of_its_guards_the_protocol_is_found_to_break() {
    for left_out in &guards::GUARDS {
        let model = left_out.protocol();
        let checker = model.checker().finish_when(HasDiscoveries::AnyOf([left_out.breaks].into())).spawn_bfs().join();
        let discoveries = checker.discoveries();
        let broken = discoveries.get(left_out.breaks).cloned().map(stateright::Path::into_actions);
        let found: Vec<&str> = discoveries.keys().copied().collect();
        let steps = broken.unwrap_or_else(|| panic!("without {:?}: {found:?}", left_out.guard));
        let steps = timeline::shortest(&model, &steps, left_out.breaks);
        println!("without {:?}, after {} states:", left_out.guard, checker.unique_state_count());
        println!("{}", timeline::timeline(&model, &steps));
        // The same steps with the guard in place lead to no harm, or are not possible.
        let with = Protocol { without: None, ..model };
        let harm = timeline::end(&with, &steps).and_then(|state| with.broken(&state));
        assert_eq!(harm, None, "{:?}", left_out.guard);
    }
}

/// All states within a number of steps, and the steps that lead to them.
fn within(model: &Protocol, most: usize) -> (HashSet<State>, BTreeSet<&'static str>) {
    let mut seen = HashSet::from([State::new()]);
    let mut names = BTreeSet::new();
    let mut pending = VecDeque::from([(State::new(), 0)]);
    while let Some((state, depth)) = pending.pop_front() {
        let mut steps = Vec::new();
        model.possible(&state, &mut steps);
        for step in steps.into_iter().filter(|_| depth < most) {
            let Some(next) = model.after(&state, step) else { continue };
            names.insert(step.name());
            if seen.insert(next.clone()) {
                pending.push_back((next, depth + 1));
            }
        }
    }
    (seen, names)
}

/// What is made equal leaves nothing out: every state that can be come to without that is, made equal, one of those explored.
#[test]
fn what_is_made_equal_hides_no_state() {
    let all = usize::MAX;
    let mut names = BTreeSet::new();
    for (runs, plain_steps) in [([1, 0], all), ([2, 0], 13), ([1, 1], 11)] {
        for batches in [[0, 0], [0, 1]] {
            let plain = Protocol { batches, runs, without: None, is_tidy: false };
            let (tidied, _) = within(&Protocol { is_tidy: true, ..plain }, all);
            let (states, taken) = within(&plain, plain_steps);
            println!("runs {runs:?}, batches {batches:?}: {} states are {}", states.len(), tidied.len());
            names.extend(taken);
            for state in states {
                assert_eq!(plain.broken(&state), None, "{state:#?}");
                let mut tidy = state.clone();
                tidy::tidy(&mut tidy);
                assert!(tidied.contains(&tidy), "{state:#?}\nis made equal to\n{tidy:#?}");
            }
        }
    }
    // This takes three commits, and whoever replaces a batch by itself has taken it.
    names.insert("loads and decides without summaries");
    assert_eq!(names, Step::NAMES.into_iter().collect());
}
