//! Which code each step of the model stands for, and which step each step of the simulation is.
//!
//! The simulation runs the code: where it stops, a process can be stalled, overtaken or killed. If the code comes to stop
//! somewhere new, or does something new that it tells, these tables do not have it, a test fails, and the model has to be looked at.

use std::collections::BTreeSet;
use std::path::Path;

use hexfloe_replay_verify::Simulation;

use crate::guards::GUARDS;
use crate::steps::Step;

const COMMITTER: &str = "crates/commit/src/committer.rs";
const PORT: &str = "crates/catalog/src/port.rs";
const ORPHANS: &str = "crates/orphan-cleanup/src/orphans.rs";

/// A step, the file with its code, and what that is called there.
const CODE: [(&str, &str, &str); Step::NAMES.len()] = [
    ("writes its data file", "crates/ingest/src/files.rs", "fn finish("),
    ("loads and decides", COMMITTER, "async fn decide("),
    ("loads and decides without summaries", "crates/commit/src/history.rs", "fn newest_of("),
    ("writes its manifests and looks for its data file", COMMITTER, "async fn refuse_gone("),
    ("sends its request", COMMITTER, "async fn attempt("),
    ("sends its request, which is delivered twice", PORT, "**Once.**"),
    ("is answered", PORT, "async fn commit("),
    ("is answered, and the answer is lost", PORT, "/// May or may not have been applied, now or later."),
    ("is refused on the way", PORT, "fn is_certain("),
    ("has no answer", COMMITTER, "Ok(CommitOutcome::Unknown { reason, source }) =>"),
    ("looks a last time", COMMITTER, "// One last look:"),
    ("asks what it may remove", COMMITTER, "async fn remove_lost("),
    ("removes", COMMITTER, "pub async fn remove("),
    ("dies", "crates/replay-verify/src/scheduler.rs", "fn bury("),
    ("cleaner loads", ORPHANS, "pub async fn orphans("),
    ("cleaner lists", ORPHANS, "async fn list("),
    ("cleaner loads again", ORPHANS, "async fn look_again("),
    ("cleaner deletes", ORPHANS, "async fn remove("),
    ("goes back", "crates/commit/src/refs.rs", "pub async fn roll_back("),
    ("another engine goes back", "crates/commit/src/ledger.rs", "fn counted("),
    ("time goes by", "crates/replay-verify/src/scheduler.rs", "fn stall_ms("),
];

/// What the simulation's writers, cleaners and rollbacks stop before (`before …`) or do, and the step that this is, or a part of.
const SIMULATED: [(&str, &str); 32] = [
    ("put", "writes its data file"),
    ("before writing", "writes its data file"),
    ("before the answer to writing", "writes its manifests and looks for its data file"),
    ("loads", "loads and decides"),
    ("before loading the table", "loads and decides"),
    ("before using the table as loaded", "loads and decides"),
    ("read", "writes its manifests and looks for its data file"),
    ("read missing", "writes its manifests and looks for its data file"),
    ("before reading", "writes its manifests and looks for its data file"),
    ("before the answer to reading", "writes its manifests and looks for its data file"),
    ("before committing", "sends its request"),
    ("committed", "is answered"),
    ("conflict", "is answered"),
    ("before the answer to the commit", "is answered"),
    ("refused", "is refused on the way"),
    ("unknown", "has no answer"),
    ("fault", "is answered, and the answer is lost"),
    ("is told", "removes"),
    ("is late", "sends its request"),
    ("before deleting", "removes"),
    ("before the answer to deleting", "removes"),
    ("delete", "cleaner deletes"),
    ("before listing", "cleaner lists"),
    ("before listing a folder", "cleaner lists"),
    ("before the answer to listing a folder", "cleaner lists"),
    ("before the next page", "cleaner lists"),
    ("lists", "cleaner lists"),
    ("cleaned", "cleaner deletes"),
    ("went back", "goes back"),
    ("stalls", "time goes by"),
    ("dies", "dies"),
    ("begins", "writes its data file"),
];

/// What they do that is no step, and why.
const NOT_MODELLED: [(&str, &str); 7] = [
    ("ends", "a run that is over does nothing"),
    ("fails", "the same: what a run that failed leaves behind is in the store and on the way"),
    ("cannot load", "a table that cannot be loaded decides nothing"),
    ("put refused", "what cannot be written is not sent"),
    ("before waking up", "waiting is what happens between two steps"),
    ("before listing namespaces", "there is one table"),
    ("before listing tables", "there is one table"),
];

#[test]
fn every_step_of_the_model_names_code_that_exists() {
    let named: Vec<&str> = CODE.iter().map(|(name, ..)| *name).collect();
    assert_eq!(named, Step::NAMES);
    let guards = GUARDS.iter().map(|left_out| left_out.code);
    for (file, item) in CODE.iter().map(|(_, file, item)| (*file, *item)).chain(guards) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(item), "{file} has no `{item}`");
    }
}

/// Two seconds.
#[test]
fn every_step_that_the_simulation_takes_is_one_of_the_model_or_is_said_not_to_be() {
    let known: BTreeSet<&str> = SIMULATED.iter().chain(&NOT_MODELLED).map(|(name, _)| *name).collect();
    assert_eq!(known.len(), SIMULATED.len() + NOT_MODELLED.len(), "one is named twice");
    for (name, step) in SIMULATED {
        assert!(Step::NAMES.contains(&step), "{name}: {step}");
    }
    let mut taken = BTreeSet::new();
    for seed in 0..400 {
        let timeline = Simulation::default().run(seed).unwrap_or_else(|failure| panic!("{failure}"));
        let of_the_model =
            |actor: &str| ["writer", "cleaner", "last cleaner", "rollback"].iter().any(|role| actor.starts_with(role));
        for event in timeline.events().iter().filter(|event| of_the_model(&event.actor)) {
            taken.insert(event.deed.to_owned());
            if let Some(gate) = event.about.find("before ").filter(|_| matches!(event.deed, "dies" | "stalls")) {
                let gate = &event.about[gate..];
                // A fault stops a process at a call, where there are gates as well; it names the file.
                let by_a_fault = gate.starts_with("before before ") || gate.starts_with("before after ");
                taken.insert(if by_a_fault { "fault".to_owned() } else { gate.to_owned() });
            }
        }
    }
    let taken: BTreeSet<&str> = taken.iter().map(String::as_str).collect();
    let new: Vec<_> = taken.difference(&known).collect();
    let gone: Vec<_> = known.difference(&taken).collect();
    assert!(new.is_empty() && gone.is_empty(), "not in the tables: {new:?}; not in the simulation: {gone:?}");
}
