//! The scenarios of `hexfloe verify`, thousands of times in the simulation.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hexfloe_replay_verify::scenario::{Effort, Scenario, Step, scenarios};
use hexfloe_replay_verify::{Simulation, Tally, Violation};

/// How often each scenario is played, unless `HEXFLOE_PLAYS` says it.
const PLAYS: u64 = 100;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn of_commits() -> Vec<Scenario> {
    let all = scenarios(Effort { full: true, kills: 1 });
    all.into_iter().filter(Scenario::is_of_commits).collect()
}

/// `HEXFLOE_FIRST_SEED` says where to begin.
#[test]
fn every_scenario_of_commits_ends_as_it_says_whatever_the_seed() {
    let first = number("HEXFLOE_FIRST_SEED", 0);
    let plays = number("HEXFLOE_PLAYS", PLAYS);
    let scenarios = of_commits();
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Tally::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let simulation = Simulation::default();
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut tally = Tally::default();
                    for seed in first..first + plays {
                        match simulation.play(scenario, seed) {
                            Ok(timeline) => tally += &timeline.tally(),
                            Err(failure) => panic!("{}", simulation.shrink(*failure)),
                        }
                    }
                    *total.lock().unwrap() += &tally;
                }
            });
        }
    });
    println!("{} scenarios\n{}", scenarios.len(), total.into_inner().unwrap());
}

#[test]
fn the_same_seed_is_the_same_play_and_another_is_another() {
    for scenario in of_commits() {
        let play = |seed| Simulation::default().play(&scenario, seed).unwrap_or_else(|failure| failure.timeline);
        let digests: BTreeSet<u64> = (0..8)
            .map(|seed| {
                let (first, second) = (play(seed), play(seed));
                assert!(
                    first.digest() == second.digest(),
                    "{}, seed {seed}:\n{first}\nand then\n{second}",
                    scenario.name
                );
                first.digest()
            })
            .collect();
        assert_eq!(digests.len(), 8, "{}", scenario.name);
    }
}

/// Plays in which nothing happens prove nothing.
#[test]
fn plays_come_to_everything_that_matters() {
    let mut total = Tally::default();
    for scenario in of_commits() {
        for seed in 0..10 {
            let played = Simulation::default().play(&scenario, seed);
            total += &played.unwrap_or_else(|failure| panic!("{failure}")).tally();
        }
    }
    for deed in [
        "dies",
        "stalls",
        "is held",
        "goes on",
        "is late",
        "conflict",
        "unknown",
        "is told",
        "cleaned",
        "fault: crash before",
        "fault: hold before",
        "fault: not delivered",
        "fault: lost reply",
        "fault: error after success",
        "fault: conflict after success",
        "fault: delivered twice",
        "fault: delayed",
        "fault: stale",
        "fault: partial",
        "fault: undated",
    ] {
        assert!(total.of(deed) >= 5, "{deed}:\n{total}");
    }
}

#[test]
fn a_control_fails_whose_check_is_left_out() {
    let mut controls = 0;
    for mut control in of_commits().into_iter().filter(|scenario| scenario.is_control) {
        Simulation::default().play(&control, 0).unwrap();
        control.steps.retain(|step| !matches!(step, Step::Check(_)));
        let failure = Simulation::default().play(&control, 0).unwrap_err();
        assert!(matches!(failure.violation, Violation::Unmet(_)), "{failure}");
        assert!(failure.to_string().contains(control.name), "{failure}");
        controls += 1;
    }
    assert!(controls > 0);
}
