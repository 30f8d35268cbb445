//! Who does what in a run, and what goes wrong: drawn from a seed, or made smaller from such a plan. Where a scenario says that, what it
//! leaves open.

use std::collections::BTreeMap;
use std::fmt;

use crate::faults::{Call, Fault, Injection};
use crate::random::Random;
use crate::roles::{Again, BRANCHES, Role};
use crate::scenario::Scenario;
use crate::scheduler::{HOUR_MS, Temper};
use crate::table;
use crate::timeline::Elapsed;

/// How many batches writers choose from.
const BATCHES: u64 = 6;

/// A run as planned. What it prints is all there is to it, besides the order in which the scheduler lets everybody go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the scheduler draws from.
    pub(crate) order: u64,
    /// What the actors do.
    pub(crate) draws: Random,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) store_offset_ms: i64,
    /// Unfinished files show, as on a local disk.
    pub(crate) on_disk: bool,
    pub(crate) actors: Vec<Planned>,
    /// Instead of the actors.
    pub(crate) staging: Option<Staging>,
}

/// A scenario, and what it leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Staging {
    pub(crate) scenario: Scenario,
    /// Which batches are those of the scenario, by its numbers: they differ in how many files they have.
    pub(crate) batches: Vec<u64>,
    /// How often processes are stalled.
    pub(crate) stalls: u32,
    /// Nobody is stalled for so long that it has to begin again.
    pub(crate) hurried: bool,
    /// How far apart those begin that run at once, at most.
    pub(crate) spread_ms: i64,
}

/// An actor as planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Part of its name, which decides what it draws.
    pub(crate) number: usize,
    pub(crate) role: Role,
    pub(crate) delay_ms: i64,
    pub(crate) offset_ms: i64,
    pub(crate) temper: Temper,
    pub(crate) lives: u32,
    /// Of its first life.
    pub(crate) faults: Vec<Injection>,
}

impl Plan {
    /// How many actors there are.
    pub fn actor_count(&self) -> usize {
        self.actors.len()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { order, properties, store_offset_ms, on_disk, actors, staging, .. } = self;
        let disk = if *on_disk { "a local disk" } else { "a bucket" };
        if let Some(Staging { scenario, batches, stalls, hurried, spread_ms }) = staging {
            writeln!(f, "scenario {}: {}", scenario.name, scenario.promise)?;
            let how = if *hurried { "short" } else { "long" };
            writeln!(f, "  its batches are {batches:?}; {stalls}‰ {how} stalls, together within {spread_ms} ms")?;
        }
        writeln!(f, "order {order}, {disk} whose clock is off by {} s", store_offset_ms / 1_000)?;
        properties.iter().try_for_each(|(name, value)| writeln!(f, "  {name} = {value}"))?;
        for Planned { number, role, delay_ms, offset_ms, temper, lives, faults } in actors {
            let Temper { stalls, deaths } = temper;
            let (delay, offset) = (Elapsed(*delay_ms), offset_ms / 1_000);
            writeln!(f, "  {number} after {delay}  {role:?}")?;
            let lives = if *lives > 1 { format!(", {lives} lives") } else { String::new() };
            writeln!(f, "     clock off by {offset} s, {stalls}‰ stalls, {deaths}‰ deaths{lives}")?;
            faults.iter().try_for_each(|fault| writeln!(f, "     {fault}"))?;
        }
        Ok(())
    }
}

/// Tells what faults are drawn from apart from the rest, so that a schedule is the same with and without.
const FAULTS: u64 = 0x6661_756c_7473;

impl Plan {
    /// The plan of a seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let (mut own, mut faults) = (Random::new(seed), Random::new(seed ^ FAULTS));
        let order = own.bits();
        let random = &mut own;
        let troubled = faults.chance(500);
        let on_disk = faults.chance(500);
        let properties = properties(random);
        // All within minutes, within a day, or over a week.
        let spread_ms = random.pick([HOUR_MS / 60, HOUR_MS, 24 * HOUR_MS, 60 * HOUR_MS, 150 * HOUR_MS]);
        let wild = Temper { stalls: random.pick([0, 5, 15, 30, 100]), deaths: random.pick([0, 0, 4, 10]) };
        let count = 3 + random.index(5);
        let actors = (0..count).map(|number| {
            let role = match number {
                // There is something to look after, and somebody who does.
                0 | 1 => writer(random),
                2 => cleaner(random),
                _ => any(random),
            };
            // Who looks for what is old comes later.
            let late = matches!(role, Role::Cleaner { .. } | Role::Expirer { .. });
            let end_ms = if late { spread_ms + 50 * HOUR_MS } else { spread_ms };
            let faults = if troubled { injections(&role, &mut faults) } else { Vec::new() };
            Planned {
                number,
                faults,
                delay_ms: if number == 0 { 0 } else { random.between_ms(0, end_ms) },
                offset_ms: random.between_ms(-HOUR_MS / 3, HOUR_MS / 3),
                temper: if random.chance(300) { Temper::default() } else { wild },
                lives: 1 + u32::from(random.chance(500)),
                role,
            }
        });
        let actors = actors.collect();
        let store_offset_ms = random.between_ms(-HOUR_MS / 2, HOUR_MS / 2);
        Self { order, draws: own, properties, store_offset_ms, on_disk, actors, staging: None }
    }

    /// What a seed has for a scenario.
    pub(crate) fn stage(scenario: &Scenario, seed: u64) -> Self {
        let mut own = Random::named(seed, scenario.name);
        let order = own.bits();
        let random = &mut own;
        let on_disk = random.chance(500);
        let properties = properties(random);
        let store_offset_ms = random.between_ms(-HOUR_MS / 2, HOUR_MS / 2);
        let mut batches: Vec<u64> = (0..table::BATCHES).collect();
        (1..batches.len()).for_each(|number| batches.swap(number, random.index(number + 1)));
        let staging = Staging {
            scenario: scenario.clone(),
            batches,
            stalls: random.pick([0, 5, 15, 30, 100]),
            hurried: random.chance(600),
            spread_ms: random.pick([0, 1_000, HOUR_MS / 60, HOUR_MS]),
        };
        Self { order, draws: own, properties, store_offset_ms, on_disk, actors: Vec::new(), staging: Some(staging) }
    }
}

fn properties(random: &mut Random) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let mut set = |name: &str, value: &str| properties.insert(name.to_owned(), value.to_owned());
    if random.chance(500) {
        set("write.metadata.previous-versions-max", random.pick(["1", "2", "5"]));
    }
    if random.chance(300) {
        set("write.metadata.delete-after-commit.enabled", "true");
    }
    if random.chance(500) {
        set("commit.manifest.min-count-to-merge", random.pick(["2", "3"]));
    }
    if random.chance(200) {
        set("write.delete.mode", "merge-on-read");
    }
    properties
}

fn writer(random: &mut Random) -> Role {
    let count = 1 + random.index(2);
    let again = [Again::No, Again::No, Again::SameFiles, Again::NextRun];
    let batches = (0..count).map(|_| (random.below(BATCHES), random.pick(again))).collect();
    Role::Writer { branch: BRANCHES[usize::from(random.chance(250))], batches }
}

fn cleaner(random: &mut Random) -> Role {
    Role::Cleaner { margin_hours: random.pick([24, 24, 72]), rounds: random.pick([1, 1, 2]) }
}

fn any(random: &mut Random) -> Role {
    match random.below(18) {
        0..=3 => writer(random),
        4 | 5 => Role::Compactor,
        6 | 7 => Role::RollBack,
        8 => Role::Publisher,
        9 => Role::Dropper,
        10 => Role::Tagger,
        11 | 12 => Role::ForeignExpirer,
        13 => Role::Toucher,
        14 | 15 => Role::Expirer { older_than_hours: random.pick([24, 48]), retain_last: random.pick([1, 2]) },
        _ => cleaner(random),
    }
}

/// What goes wrong between an actor and the world.
fn injections(role: &Role, random: &mut Random) -> Vec<Injection> {
    let count = random.pick([0, 0, 1, 1, 2, 3]);
    (0..count).map(|_| injection(role, random)).collect()
}

fn injection(role: &Role, random: &mut Random) -> Injection {
    let removes = matches!(role, Role::Cleaner { .. } | Role::Expirer { .. });
    let cleans = matches!(role, Role::Cleaner { .. });
    let call = match removes {
        true => random.pick([
            Call::List,
            Call::List,
            Call::Delete,
            Call::Delete,
            Call::Read,
            Call::Load,
            Call::Load,
            Call::Put,
            Call::Commit,
        ]),
        false => random.pick([Call::Commit, Call::Commit, Call::Commit, Call::Put, Call::Put, Call::Load, Call::Read]),
    };
    // A cleaner commits nothing.
    let call = if cleans && call == Call::Commit { Call::Put } else { call };
    let ms = u64::try_from(random.between_ms(1, HOUR_MS / 2)).unwrap_or(1);
    let (late, slow) = (Fault::Delayed { ms }, Fault::Slow { ms: ms / 4 });
    let ends = random.pick([Fault::CrashBefore, Fault::CrashAfter, Fault::HoldBefore, Fault::HoldAfter]);
    let (denied, twice) = (Fault::ConflictAfterSuccess, Fault::Twice);
    let (lost, failed, away) = (Fault::LostReply, Fault::ErrorAfterSuccess, Fault::NotDelivered);
    let fault = match call {
        Call::Commit => random.pick([lost, lost, failed, denied, denied, twice, twice, away, late, ends]),
        Call::Put if removes => random.pick([lost, failed, away, late, ends, Fault::HoldBefore, Fault::Partial]),
        Call::Put | Call::Upload | Call::Copy => {
            random.pick([lost, failed, denied, twice, away, late, ends, Fault::Partial, Fault::Partial])
        }
        // Who removes what a table does not refer to takes the catalog at its word: see the documentation of the crate.
        Call::Load if removes => random.pick([away, failed, late, ends, ends, Fault::HoldAfter]),
        Call::Load if gives_again(role) => random.pick([away, away, late, ends]),
        Call::Load => random.pick([Fault::Stale, Fault::Stale, away, late, ends]),
        Call::Read if removes => random.pick([Fault::Undated, away, late, ends]),
        Call::Read => random.pick([away, failed, late, ends]),
        Call::List => random.pick([slow, slow, Fault::Undated, lost, away, ends]),
        Call::Delete => random.pick([lost, away, twice, late, ends]),
    };
    let among = match call {
        // A cleaner asks the store for the time once in a round.
        Call::Put if removes => 2,
        Call::Commit => 3,
        _ => 6,
    };
    let nth = 1 + u32::try_from(random.below(among)).unwrap_or(0);
    let times = random.pick([1, 1, 1, 2, 4]);
    Injection { call, path: String::new(), nth, times, fault }
}

/// Whether a writer gives files to the table that may be in it already.
fn gives_again(role: &Role) -> bool {
    matches!(role, Role::Writer { batches, .. } if batches.iter().any(|(_, again)| *again == Again::SameFiles))
}
