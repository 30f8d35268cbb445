//! A way through the model for people: one line a step, with the age of the world, who, what, and what came of it.

use std::fmt::Write as _;

use crate::files::{Attempt, File, Files, Run};
use crate::protocol::Protocol;
use crate::state::{Cleaner, LATE, Phase, State};
use crate::steps::Step;

/// The steps from the beginning, as lines.
pub(crate) fn timeline(protocol: &Protocol, steps: &[Step]) -> String {
    let (mut text, mut halves, mut state) = (String::new(), 0, State::new());
    for step in steps {
        let Some(after) = protocol.after(&state, *step) else { break };
        halves += u32::from(*step == Step::TimeGoesBy);
        let (who, number) = who(*step);
        let came =
            number.map_or_else(|| of_others(*step, &state, &after), |number| of_writer(number, *step, &state, &after));
        let came = if came.is_empty() { came } else { format!(": {came}") };
        // `fmt::Write` to a string does not fail.
        let _ = writeln!(text, "t{halves} {who:<10} {}{came}", step.name());
        state = after;
    }
    let broken =
        protocol.broken(&state).map_or_else(|| "nothing is broken".to_owned(), |name| format!("not so: {name}"));
    text + &broken + "\n"
}

/// Without every step that the end does not need, and the plainer of two steps where either will do.
pub(crate) fn shortest(protocol: &Protocol, steps: &[Step], breaks: &str) -> Vec<Step> {
    let mut steps = steps.to_vec();
    let mut index = 0;
    while index < steps.len() {
        let plainer = match steps[index] {
            Step::SendsTwice(number) => Some(Step::Sends(number)),
            Step::DeliversUnheard(by) => Some(Step::Delivers(by)),
            _ => None,
        };
        let (before, after) = (&steps[..index], &steps[index + 1..]);
        let mut simpler = [None, plainer].into_iter().map(|step| [before, step.as_slice(), after].concat());
        let still_breaks =
            |steps: &Vec<Step>| end(protocol, steps).and_then(|state| protocol.broken(&state)) == Some(breaks);
        match simpler.find(still_breaks) {
            Some(found) => (steps, index) = (found, 0),
            None => index += 1,
        }
    }
    steps
}

/// Where these steps lead, if each of them is possible.
pub(crate) fn end(protocol: &Protocol, steps: &[Step]) -> Option<State> {
    steps.iter().try_fold(State::new(), |state, step| {
        let mut possible = Vec::new();
        protocol.possible(&state, &mut possible);
        possible.contains(step).then(|| protocol.after(&state, *step))?
    })
}

fn who(step: Step) -> (String, Option<usize>) {
    let number = match step {
        Step::WritesDataFile(number)
        | Step::Loads(number)
        | Step::LoadsWithoutSummaries(number)
        | Step::Drafts(number)
        | Step::Sends(number)
        | Step::SendsTwice(number)
        | Step::HasNoAnswer(number)
        | Step::LooksALastTime(number)
        | Step::AsksWhatToRemove(number)
        | Step::Removes(number)
        | Step::Dies(number) => Some(number),
        Step::Delivers(by) | Step::DeliversUnheard(by) | Step::IsRefusedOnTheWay(by) => Some(by.run.writer()),
        _ => None,
    };
    let who = number.map(|number| format!("writer {}", number + 1));
    let other = match step {
        Step::CleanerLoads | Step::CleanerLists | Step::CleanerLoadsAgain | Step::CleanerDeletes => "cleaner",
        Step::GoesBack(_) | Step::EngineGoesBack(_) => "rollback",
        _ => "clock",
    };
    (who.unwrap_or_else(|| other.to_owned()), number)
}

fn of_writer(number: usize, step: Step, before: &State, after: &State) -> String {
    let (was, is) = (&before.writers[number], &after.writers[number]);
    match (step, is.phase) {
        (Step::WritesDataFile(_), _) => name(is.run(number).data_file()),
        (Step::Delivers(by) | Step::DeliversUnheard(by), _) if after.table.newest() > before.table.newest() => {
            format!("{} lands as snapshot {}, of {}", request(by), after.table.newest(), rows(after))
        }
        (Step::Delivers(by) | Step::DeliversUnheard(by) | Step::IsRefusedOnTheWay(by), _) => {
            format!("{} is not applied", request(by))
        }
        (Step::Sends(_) | Step::SendsTwice(_), Phase::Waiting) => {
            let by = is.waits_for(number);
            by.map_or_else(String::new, |by| format!("{}{}", request(by), if was.age < LATE { "" } else { ", late" }))
        }
        (_, Phase::Decided(base)) => format!("to commit on snapshot {}", base.head),
        (_, Phase::Drafted(_)) => name(is.run(number).attempt(is.sent_count()).manifests()),
        (_, Phase::Removing(files)) => format!("to remove {}", names(files)),
        (Step::Removes(_), _) => match was.phase {
            Phase::Removing(files) => names(files),
            _ => String::new(),
        },
        (Step::Loads(_) | Step::LoadsWithoutSummaries(_) | Step::LooksALastTime(_), Phase::Over) => {
            "its request is in".to_owned()
        }
        (_, Phase::Concluding) if after.wrong.untrue => "told that its batch is in, and it never was".to_owned(),
        (Step::Drafts(_), Phase::Concluding) => "it is gone".to_owned(),
        (Step::Loads(_) | Step::LoadsWithoutSummaries(_), Phase::Concluding) if is.seen => "its batch is in".to_owned(),
        (Step::Loads(_) | Step::LoadsWithoutSummaries(_) | Step::Sends(_), Phase::Concluding) => {
            "it is late".to_owned()
        }
        _ => String::new(),
    }
}

fn of_others(step: Step, before: &State, after: &State) -> String {
    match (step, before.cleaner, after.cleaner) {
        (Step::CleanerLoads, _, _) => format!("snapshots up to {}", before.table.newest()),
        (Step::CleanerLists | Step::CleanerLoadsAgain, _, Cleaner::Listed(files) | Cleaner::Deleting(files)) => {
            names(files)
        }
        (Step::CleanerDeletes, Cleaner::Deleting(files), _) => names(files),
        (Step::GoesBack(to) | Step::EngineGoesBack(to), _, _) => format!("to snapshot {to}"),
        _ => String::new(),
    }
}

fn rows(state: &State) -> String {
    let rows = state.table.rows(state.table.head);
    let files = Run::all().filter(|run| rows.0[run.index()] > 0);
    let named = files.map(|run| match rows.0[run.index()] {
        1 => name(run.data_file()),
        times => format!("{} {times} times", name(run.data_file())),
    });
    named.collect::<Vec<_>>().join(" and ")
}

fn request(by: Attempt) -> String {
    format!("request {}.{}.{}", by.run.writer() + 1, by.run.number(), by.number + 1)
}

/// `data 1.2` is what the first writer's second run wrote, `manifests 1.2.1` those of that run's first attempt.
fn name(file: File) -> String {
    let data = Run::all().find(|run| run.data_file() == file);
    let data = data.map(|run| format!("data {}.{}", run.writer() + 1, run.number()));
    data.unwrap_or_else(|| {
        let mut attempts = Run::all().flat_map(|run| [run.attempt(0), run.attempt(1)]);
        let by = attempts.find(|by| by.manifests() == file);
        by.map_or_else(String::new, |by| request(by).replace("request", "manifests"))
    })
}

fn names(files: Files) -> String {
    let names: Vec<String> = files.iter().map(name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
