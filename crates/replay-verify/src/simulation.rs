//! One run: a table, a handful of actors made from a seed, or a scenario, and the verdict.

use std::fmt;
use std::sync::Arc;

use hexfloe_commit::SharedEnvironment;

use crate::judge::{Judge, Violation};
use crate::plan::{Plan, Planned};
use crate::process::{Lake, Lens, Particulars, told};
use crate::random::Random;
use crate::roles::{Role, clean};
use crate::scenario::Scenario;
use crate::scheduler::{ActorEnvironment, Gate, HOUR_MS, Scheduler, Temper};
use crate::staged::{Director, Scene};
use crate::store::MemoryStore;
use crate::table::{self, Trouble};
use crate::timeline::Timeline;

/// Runs schedules.
#[derive(Clone, Default)]
pub struct Simulation {
    /// What cleaners see instead of the store and the catalog.
    pub cleaners_see: Lens,
    /// What writers see instead.
    pub writers_see: Lens,
}

/// A run in which a promise was broken.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed: the same seed is the same plan.
    pub seed: u64,
    /// What was planned: the seed's plan, or one made smaller from it.
    pub plan: Plan,
    /// What was broken.
    pub violation: Violation,
    /// What had happened.
    pub timeline: Timeline,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, plan, violation, timeline } = self;
        write!(f, "seed {seed}: {violation}\n\n{plan}\n{timeline}\n{violation}")
    }
}

impl std::error::Error for Failure {}

impl Simulation {
    /// Runs the schedule of a seed, and gives what happened.
    ///
    /// # Errors
    ///
    /// [`Failure`] when a promise is broken.
    pub fn run(&self, seed: u64) -> Result<Timeline, Box<Failure>> {
        self.carry_out(seed, Plan::draw(seed))
    }

    /// Plays a scenario, with what it leaves open drawn from a seed: in which order those go on that run at once, where processes stall
    /// and for how long, whose clock is off, how much time goes by between its steps, how many files batches have, and properties of the
    /// table.
    ///
    /// A control is played well when the check finds what it has to.
    ///
    /// # Errors
    ///
    /// [`Failure`] when a promise is broken, or the scenario comes to another end than it says; also when it is one that takes more than
    /// commits: see [`Scenario::is_of_commits`].
    pub fn play(&self, scenario: &Scenario, seed: u64) -> Result<Timeline, Box<Failure>> {
        self.carry_out(seed, Plan::stage(scenario, seed))
    }

    /// Runs what is planned, which began as the plan of a seed.
    pub(crate) fn carry_out(&self, seed: u64, plan: Plan) -> Result<Timeline, Box<Failure>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let random = plan.draws.clone();
        let mut scheduler = Scheduler::new(Random::new(plan.order));
        let verdict = match &runtime {
            Ok(runtime) => runtime.block_on(self.perform(&plan, random, &mut scheduler)),
            Err(error) => Err(Violation::Surprise(error.to_string())),
        };
        let timeline = scheduler.timeline();
        match verdict {
            Ok(()) => Ok(timeline),
            Err(violation) => Err(Box::new(Failure { seed, plan, violation, timeline })),
        }
    }

    async fn perform(&self, plan: &Plan, mut random: Random, scheduler: &mut Scheduler) -> Result<(), Violation> {
        let shared = Arc::clone(scheduler.shared());
        let offset_ms = plan.store_offset_ms;
        let objects = MemoryStore::new(Arc::new(move || shared.now_ms() + offset_ms));
        let objects = if plan.on_disk { objects.showing_unfinished() } else { objects };
        let definition = table::definition(plan.properties.clone().into_iter().collect()).map_err(surprise)?;
        let lake = Lake::new(objects, definition).map_err(surprise)?;
        let founder: SharedEnvironment =
            Arc::new(ActorEnvironment::new(scheduler.actor("founder", Temper::default()), 0));
        let catalog = lake.open(Arc::clone(&founder)).map_err(surprise)?;
        let draws = random.bits();
        let mut judge = Judge::new(&lake, catalog.clone());
        if let Some(staging) = &plan.staging {
            let scene = Scene { simulation: self, staging, lake: &lake, store_offset_ms: offset_ms };
            Director::new(scene, catalog, &mut judge, scheduler, draws).direct().await?;
            if staging.scenario.is_control {
                return Ok(());
            }
        } else {
            let created = catalog.create(&lake.table, &lake.definition, founder.uuid()).await;
            created.map_err(|error| Violation::Surprise(told(&error)))?;
            for planned in &plan.actors {
                self.begin(planned, &lake, draws, scheduler);
            }
            scheduler.run().await?;
            judge.judge().await?;
        }
        self.quiet(&lake, &mut random, scheduler).await?;
        judge.judge().await?;
        judge.judge_leftovers().await
    }

    fn begin(&self, planned: &Planned, lake: &Lake, draws: u64, scheduler: &mut Scheduler) {
        let Planned { number, role, delay_ms, offset_ms, temper, lives, faults } = planned.clone();
        let name = format!("{} {number}", role.name());
        let gate = scheduler.actor(&name, temper);
        let lens = match role {
            Role::Cleaner { .. } => self.cleaners_see.clone(),
            Role::Writer { .. } => self.writers_see.clone(),
            _ => Lens::default(),
        };
        let (lake, through, random) = (lake.clone(), gate.clone(), Random::named(draws, &name));
        let new_process = move |life: u32| {
            let mut random = random.clone();
            (0..life).for_each(|_| drop(random.fork()));
            let faults = if life == 0 { faults.clone() } else { Vec::new() };
            lake.process(
                &name,
                &through,
                Particulars { offset_ms, lens: lens.clone(), faults, until_released: false },
                random,
            )
        };
        scheduler.start(&gate, lives, role.life(delay_ms, new_process));
    }

    /// Everybody has gone home; everything is older than any margin; and one cleaner comes.
    async fn quiet(&self, lake: &Lake, random: &mut Random, scheduler: &mut Scheduler) -> Result<(), Violation> {
        scheduler.calm();
        scheduler.advance(26 * HOUR_MS);
        let gate: Gate = scheduler.actor("last cleaner", Temper::default());
        let particulars = Particulars { lens: self.cleaners_see.clone(), ..Particulars::default() };
        let process = lake.process("last cleaner", &gate, particulars, random.fork()).map_err(surprise)?;
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
pub(crate) fn surprise(trouble: Trouble) -> Violation {
    Violation::Surprise(told(trouble.as_ref()))
}
