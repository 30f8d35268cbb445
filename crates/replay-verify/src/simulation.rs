//! One run: a table, a handful of actors made from a seed, and the verdict.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hexfloe_commit::SharedEnvironment;

use crate::judge::{Judge, Violation};
use crate::process::{Lake, Lens, told};
use crate::random::Random;
use crate::roles::{Again, BRANCHES, Role, clean};
use crate::scheduler::{ActorEnvironment, Gate, HOUR_MS, Scheduler, Temper};
use crate::store::MemoryStore;
use crate::table::{self, BATCHES, Trouble};
use crate::timeline::Timeline;

/// Runs schedules.
#[derive(Clone, Default)]
pub struct Simulation {
    /// What cleaners see instead of the store and the catalog.
    pub cleaners_see: Lens,
}

/// A run in which a promise was broken.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed: the same seed is the same run.
    pub seed: u64,
    /// What was broken.
    pub violation: Violation,
    /// What had happened.
    pub timeline: Timeline,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, violation, timeline } = self;
        write!(f, "seed {seed}: {violation}\n{timeline}seed {seed}: {violation}")
    }
}

impl std::error::Error for Failure {}

/// A schedule as drawn.
#[derive(Clone, Debug)]
struct Plan {
    properties: HashMap<String, String>,
    store_offset_ms: i64,
    actors: Vec<Planned>,
}

#[derive(Clone, Debug)]
struct Planned {
    role: Role,
    delay_ms: i64,
    offset_ms: i64,
    temper: Temper,
    lives: u32,
}

impl Simulation {
    /// Runs the schedule of a seed, and gives what happened.
    ///
    /// # Errors
    ///
    /// [`Failure`] when a promise is broken.
    pub fn run(&self, seed: u64) -> Result<Timeline, Box<Failure>> {
        let failure = |violation, timeline| Box::new(Failure { seed, violation, timeline });
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| failure(Violation::Surprise(error.to_string()), Timeline::default()))?;
        let mut random = Random::new(seed);
        let mut scheduler = Scheduler::new(random.fork());
        let verdict = runtime.block_on(self.play(Plan::draw(&mut random), random, &mut scheduler));
        let timeline = scheduler.timeline();
        match verdict {
            Ok(()) => Ok(timeline),
            Err(violation) => Err(failure(violation, timeline)),
        }
    }

    async fn play(&self, plan: Plan, mut random: Random, scheduler: &mut Scheduler) -> Result<(), Violation> {
        let shared = Arc::clone(scheduler.shared());
        let clock = move || shared.now_ms() + plan.store_offset_ms;
        let lake = Lake::new(MemoryStore::new(Arc::new(clock))).map_err(surprise)?;
        let founder: SharedEnvironment =
            Arc::new(ActorEnvironment::new(scheduler.actor("founder", Temper::default()), 0));
        let catalog = lake.open(Arc::clone(&founder)).map_err(surprise)?;
        let definition = table::definition(plan.properties).map_err(surprise)?;
        let created = catalog.create(&lake.table, &definition, founder.uuid()).await;
        created.map_err(|error| Violation::Surprise(told(&error)))?;
        for (number, planned) in plan.actors.into_iter().enumerate() {
            let Planned { role, delay_ms, offset_ms, temper, lives } = planned;
            let name = format!("{} {number}", role.name());
            let gate = scheduler.actor(&name, temper);
            let lens = if matches!(role, Role::Cleaner { .. }) { self.cleaners_see.clone() } else { Lens::default() };
            let (lake, through, random) = (lake.clone(), gate.clone(), random.fork());
            let new_process = move |life: u32| {
                let mut random = random.clone();
                (0..life).for_each(|_| drop(random.fork()));
                lake.process(&name, &through, offset_ms, &lens, random)
            };
            scheduler.start(&gate, lives, role.life(delay_ms, new_process));
        }
        scheduler.run().await?;
        let mut judge = Judge::new(&lake, catalog);
        judge.judge().await?;
        self.quiet(&lake, &mut random, scheduler).await?;
        judge.judge().await?;
        judge.judge_leftovers().await
    }

    /// Everybody has gone home; everything is older than any margin; and one cleaner comes.
    async fn quiet(&self, lake: &Lake, random: &mut Random, scheduler: &mut Scheduler) -> Result<(), Violation> {
        scheduler.calm();
        scheduler.advance(26 * HOUR_MS);
        let gate: Gate = scheduler.actor("last cleaner", Temper::default());
        let process = lake.process("last cleaner", &gate, 0, &self.cleaners_see, random.fork()).map_err(surprise)?;
        scheduler.start(
            &gate,
            1,
            Box::new(move |_| {
                let process = process.clone();
                Box::pin(async move {
                    if let Err(error) = clean(&process, 24).await {
                        process.surprise(&told(error.as_ref()));
                    }
                })
            }),
        );
        Ok(scheduler.run().await?)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn surprise(trouble: Trouble) -> Violation {
    Violation::Surprise(told(trouble.as_ref()))
}

impl Plan {
    fn draw(random: &mut Random) -> Self {
        let mut properties = HashMap::new();
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
            Planned {
                delay_ms: if number == 0 { 0 } else { random.between_ms(0, end_ms) },
                offset_ms: random.between_ms(-HOUR_MS / 3, HOUR_MS / 3),
                temper: if random.chance(300) { Temper::default() } else { wild },
                lives: 1 + u32::from(random.chance(500)),
                role,
            }
        });
        let actors = actors.collect();
        Self { properties, store_offset_ms: random.between_ms(-HOUR_MS / 2, HOUR_MS / 2), actors }
    }
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
