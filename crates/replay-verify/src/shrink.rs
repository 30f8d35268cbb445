//! Of a run in which a promise is broken, the smallest that still breaks it: what is not needed for that is left out, piece by piece,
//! until nothing more can be.

use crate::faults::Injection;
use crate::plan::{Plan, Planned, Staging};
use crate::roles::{Again, Role};
use crate::scheduler::Temper;
use crate::simulation::{Failure, Simulation};

/// How many runs are made to find it.
const RUNS: u32 = 400;

/// In how many orders a smaller plan is tried: with somebody left out, the draws of the scheduler fall on others.
const ORDERS: u64 = 4;

impl Simulation {
    /// The failure of a plan with nothing in it that is not needed to break the same promise, as far as 400 runs find it.
    ///
    /// Its seed is that of the run it began with, and leads to that run; the plan is printed with the failure.
    #[must_use]
    pub fn shrink(&self, failure: Failure) -> Failure {
        let mut search = Search { simulation: self, smallest: failure, runs: 0 };
        while search.makes_it_smaller() {}
        search.smallest
    }
}

struct Search<'a> {
    simulation: &'a Simulation,
    smallest: Failure,
    runs: u32,
}

impl Search<'_> {
    /// Tries each way of leaving something out once; true when one of them, at least, did.
    fn makes_it_smaller(&mut self) -> bool {
        let mut any = false;
        let mut next = 0;
        // What comes after a way that did is where it was.
        while let Some(plan) = smaller(&self.smallest.plan).into_iter().nth(next) {
            if self.runs >= RUNS {
                return false;
            }
            if self.breaks(&plan) { any = true } else { next += 1 }
        }
        any
    }

    /// Whether the plan breaks the same promise, in one of a few orders; if so, it is the smallest.
    fn breaks(&mut self, plan: &Plan) -> bool {
        let orders = (0..ORDERS).map(|order| plan.order.wrapping_add(order));
        for order in orders {
            self.runs += 1;
            let plan = Plan { order, ..plan.clone() };
            if let Err(failure) = self.simulation.carry_out(self.smallest.seed, plan)
                && std::mem::discriminant(&failure.violation) == std::mem::discriminant(&self.smallest.violation)
            {
                self.smallest = *failure;
                return true;
            }
        }
        false
    }
}

/// The plans with one thing less, those with much less first.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let without_actor = (0..plan.actors.len()).rev().map(|number| {
        let mut plan = plan.clone();
        plan.actors.remove(number);
        plan
    });
    let actors = plan.actors.iter().enumerate().flat_map(|(number, actor)| {
        smaller_actors(actor).into_iter().map(move |actor| {
            let mut plan = plan.clone();
            plan.actors[number] = actor;
            plan
        })
    });
    let without_property = plan.properties.keys().map(|name| {
        let mut plan = plan.clone();
        plan.properties.remove(name);
        plan
    });
    let stagings = plan.staging.iter().flat_map(smaller_stagings);
    let stagings = stagings.map(|staging| Plan { staging: Some(staging), ..plan.clone() });
    let on_time = (plan.store_offset_ms != 0).then(|| Plan { store_offset_ms: 0, ..plan.clone() });
    let in_a_bucket = plan.on_disk.then(|| Plan { on_disk: false, ..plan.clone() });
    without_actor.chain(actors).chain(stagings).chain(without_property).chain(on_time).chain(in_a_bucket).collect()
}

fn smaller_stagings(staging: &Staging) -> Vec<Staging> {
    let mut smaller = vec![
        Staging { stalls: 0, ..staging.clone() },
        Staging { hurried: true, ..staging.clone() },
        Staging { spread_ms: 0, ..staging.clone() },
    ];
    smaller.retain(|smaller| smaller != staging);
    smaller
}

fn smaller_actors(actor: &Planned) -> Vec<Planned> {
    let with = |change: &dyn Fn(&mut Planned)| {
        let mut changed = actor.clone();
        change(&mut changed);
        changed
    };
    let mut smaller: Vec<Planned> =
        (0..actor.faults.len()).map(|number| with(&|actor| drop(actor.faults.remove(number)))).collect();
    smaller.extend(smaller_roles(&actor.role).into_iter().map(|role| Planned { role, ..actor.clone() }));
    smaller.extend([
        with(&|actor| actor.temper = Temper::default()),
        with(&|actor| actor.temper.deaths = 0),
        with(&|actor| actor.temper.stalls = 0),
        with(&|actor| actor.lives = 1),
        with(&|actor| actor.faults.iter_mut().for_each(|fault: &mut Injection| fault.times = 1)),
        with(&|actor| actor.offset_ms = 0),
        with(&|actor| actor.delay_ms = 0),
        with(&|actor| actor.delay_ms /= 2),
    ]);
    smaller.retain(|smaller| smaller != actor);
    smaller
}

fn smaller_roles(role: &Role) -> Vec<Role> {
    match role {
        Role::Writer { branch, batches } => {
            let without = (0..batches.len()).filter(|_| batches.len() > 1).map(|number| {
                let mut batches = batches.clone();
                batches.remove(number);
                batches
            });
            let once = (0..batches.len()).filter(|number| batches[*number].1 != Again::No).map(|number| {
                let mut batches = batches.clone();
                batches[number].1 = Again::No;
                batches
            });
            without.chain(once).map(|batches| Role::Writer { branch, batches }).collect()
        }
        Role::Cleaner { margin_hours, rounds: 2.. } => vec![Role::Cleaner { margin_hours: *margin_hours, rounds: 1 }],
        _ => Vec::new(),
    }
}
