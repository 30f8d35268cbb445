//! The scenarios of `hexfloe verify`, thousands of times in the simulation.

use std::collections::BTreeSet;
use std::sync::Mutex;

use hexfloe_replay_verify::scenario::{Effort, Scenario, Step, scenarios};
use hexfloe_replay_verify::{Simulation, Tally, Violation};

/// How often each scenario is played, unless `HEXFLOE_PLAYS` says it.
const PLAYS: u64 = 24;

/// What some plays come to at least.
const DEEDS: [&str; 20] = [
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
];

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
    let seeds = first..first + plays;
    let all = Mutex::new(seeds.flat_map(|seed| scenarios.iter().map(move |scenario| (scenario, seed))));
    let total = Mutex::new(Tally::default());
    let failure = Mutex::new(None);
    let simulation = Simulation::default();
    let play = || {
        while failure.lock().unwrap().is_none() {
            let Some((scenario, seed)) = all.lock().unwrap().next() else { break };
            match simulation.play(scenario, seed) {
                Ok(timeline) => *total.lock().unwrap() += &timeline.tally(),
                Err(failed) => *failure.lock().unwrap() = Some(failed),
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(play)));
    });
    if let Some(failure) = failure.into_inner().unwrap() {
        panic!("{}", simulation.shrink(*failure));
    }
    let total = total.into_inner().unwrap();
    println!("{} scenarios\n{total}", scenarios.len());
    // Plays in which nothing happens prove nothing.
    if plays >= 10 {
        for deed in DEEDS {
            assert!(total.of(deed) >= 5, "{deed}:\n{total}");
        }
    }
}

#[test]
fn the_same_seed_is_the_same_play_and_another_is_another() {
    for scenario in of_commits() {
        let play = |seed| Simulation::default().play(&scenario, seed).unwrap_or_else(|failure| failure.timeline);
        let digests: BTreeSet<u64> = (0..2)
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
        assert_eq!(digests.len(), 2, "{}", scenario.name);
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
