//! Thousands of schedules, and the same ones every time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hexfloe_replay_verify::{Simulation, Tally};

/// How many schedules are run, unless `HEXFLOE_SCHEDULES` says it.
const SCHEDULES: u64 = 10_000;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// What holds after each of them is said in the documentation of the crate. `HEXFLOE_FIRST_SEED` says where to begin.
#[test]
fn after_any_schedule_every_snapshot_reads_fully_and_every_old_orphan_goes() {
    let first = number("HEXFLOE_FIRST_SEED", 0);
    let end = first + number("HEXFLOE_SCHEDULES", SCHEDULES);
    let next = AtomicU64::new(first);
    let total = Mutex::new(Tally::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let simulation = Simulation::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    match simulation.run(seed) {
                        Ok(timeline) => *total.lock().unwrap() += &timeline.tally(),
                        Err(failure) => {
                            next.store(end, Ordering::Relaxed);
                            panic!("{}", simulation.shrink(*failure));
                        }
                    }
                }
            });
        }
    });
    println!("{}", total.into_inner().unwrap());
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..40 {
        let run = || Simulation::default().run(seed).unwrap_or_else(|failure| failure.timeline);
        let (first, second) = (run(), run());
        assert!(first.digest() == second.digest(), "seed {seed}:\n{first}\nand then\n{second}");
    }
}

/// A schedule in which nothing happens proves nothing.
#[test]
fn schedules_come_to_everything_that_matters() {
    let mut deeds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut total = Tally::default();
    for seed in 0..600 {
        let timeline = Simulation::default().run(seed).unwrap_or_else(|failure| panic!("{failure}"));
        total += &timeline.tally();
        // What the last cleaner does is done in every run.
        for event in timeline.events().iter().filter(|event| event.actor != "last cleaner") {
            let nothing = event.about.starts_with("0 ");
            *deeds.entry(event.deed).or_default() += usize::from(!nothing);
        }
    }
    for deed in [
        "dies",
        "stalls",
        "is late",
        "conflict",
        "is told",
        "compacts",
        "went back",
        "published",
        "dropped",
        "tags",
        "expires",
        "expired",
        "cleaned",
        "touches",
        "delete",
        "read missing",
    ] {
        assert!(deeds.get(deed).is_some_and(|times| *times >= 5), "{deed}: {deeds:?}");
    }
    for fault in [
        "crash before",
        "crash after",
        "hold before",
        "hold after",
        "not delivered",
        "lost reply",
        "error after success",
        "conflict after success",
        "delayed",
        "delivered twice",
        "stale",
        "partial",
        "undated",
        "slow",
    ] {
        assert!(total.of(&format!("fault: {fault}")) >= 5, "{fault}:\n{total}");
    }
}
