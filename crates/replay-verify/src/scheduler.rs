//! The scheduler: who goes on next, what time it is, who stalls and who dies.
//!
//! Actors are futures on one thread. They stop at *gates*, before and after every call to the store and the catalog and whenever
//! they wait; nothing else takes virtual time. The scheduler lets everybody run into a gate, then opens one that is due, by a
//! draw from its seed; when none is due it moves the clock to the next. At a gate an actor may also be stalled, for hours or
//! days, or be dropped as by `kill -9`.
//!
//! Libraries may put work into tasks of tokio. These run on the same thread, in the order in which they were made, and their gates
//! are those of the actor whose store they use.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::LocalBoxFuture;
use hexfloe_commit::Environment;
use uuid::Uuid;

use crate::random::Random;
use crate::timeline::{Elapsed, Event, Timeline};

/// An hour, in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;

/// When every run begins: before any real clock, which the `iceberg` crate reads when it builds metadata.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

/// What one step takes at most.
const STEP_MS: i64 = 60;

/// When what is held is due.
const HELD: i64 = i64::MAX;

/// A run that takes more steps than this does not end by itself.
const MAX_STEPS: u32 = 50_000;

/// How often tasks of libraries are waited for before a run counts as stuck.
const PATIENCE: u32 = 10_000;

/// Gates, clock and timeline, shared by the scheduler and the actors.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    now_ms: i64,
    next_wait: u64,
    /// Who waits at gates, in the order of arrival.
    waits: BTreeMap<u64, Wait>,
    actors: Vec<Traits>,
    timeline: Timeline,
}

#[derive(Debug)]
struct Wait {
    actor: usize,
    due_ms: i64,
    before: &'static str,
    is_open: bool,
    waker: Waker,
}

/// What is kept of an actor besides its future.
#[derive(Debug)]
struct Traits {
    name: String,
    temper: Temper,
    random: Random,
    /// Which of its gates is opened, where it is at several, and what happens to it there.
    order: Random,
    /// How long it may still be stalled in what it is doing, if that has a limit.
    stall_left_ms: Option<i64>,
    /// A fault has ended its process, and the scheduler has not yet buried it.
    is_dying: bool,
}

impl Traits {
    /// So much of a stall as there may be.
    fn limited(&mut self, stall_ms: i64) -> i64 {
        let Some(left) = &mut self.stall_left_ms else { return stall_ms };
        let stall_ms = stall_ms.min(*left);
        *left -= stall_ms;
        stall_ms
    }
}

/// How often an actor is stalled and killed at a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Temper {
    /// Stalls in a thousand gates.
    pub stalls: u32,
    /// Deaths in a thousand gates.
    pub deaths: u32,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Virtual milliseconds since 1970, by the true clock.
    pub(crate) fn now_ms(&self) -> i64 {
        START_MS + self.state().now_ms
    }
}

impl State {
    fn note(&mut self, actor: usize, deed: &'static str, about: String) {
        let actor = self.actors.get(actor).map_or_else(String::new, |actor| actor.name.clone());
        self.timeline.events.push(Event { at_ms: self.now_ms, actor, deed, about });
    }

    /// The whole process stops.
    fn stall(&mut self, actor: usize, stall_ms: i64, before: &str) {
        let until_ms = self.now_ms + stall_ms;
        for wait in self.waits.values_mut().filter(|wait| wait.actor == actor) {
            wait.due_ms = wait.due_ms.max(until_ms);
        }
        self.note(actor, "stalls", format!("for {} before {before}", Elapsed(stall_ms)));
    }
}

/// One actor's way through the scheduler. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gate {
    shared: Arc<Shared>,
    actor: usize,
}

impl Gate {
    /// Stops until the scheduler opens the gate; `before` says what for.
    pub(crate) fn pass(&self, before: &'static str) -> Pass {
        Pass { gate: self.clone(), before, after_ms: 0, wait: None }
    }

    /// Stops for a time.
    pub(crate) fn pause(&self, time_ms: i64) -> Pass {
        Pass { gate: self.clone(), before: "waking up", after_ms: time_ms, wait: None }
    }

    /// Stops for minutes, hours or days, as if stalled by the scheduler; `at` says where.
    pub(crate) fn stall(&self, at: &str) -> Pass {
        let mut state = self.shared.state();
        let stall_ms = state.actors.get_mut(self.actor).map_or(0, |actor| {
            let stall_ms = stall_ms(&mut actor.random);
            actor.limited(stall_ms)
        });
        state.stall(self.actor, stall_ms, at);
        self.pause(stall_ms)
    }

    /// Stops until [`Scheduler::release`]; `at` says where.
    pub(crate) fn hold(&self, at: &str) -> Pass {
        self.note("is held", at);
        self.pause(HELD)
    }

    /// Ends the process, as by `kill -9`: it goes no further.
    pub(crate) fn die(&self) -> std::future::Pending<()> {
        let mut state = self.shared.state();
        state.note(self.actor, "dies", "by a fault".to_owned());
        if let Some(actor) = state.actors.get_mut(self.actor) {
            actor.is_dying = true;
        }
        std::future::pending()
    }

    /// Enters something into the timeline.
    pub(crate) fn note(&self, deed: &'static str, about: impl Into<String>) {
        self.shared.state().note(self.actor, deed, about.into());
    }

    /// Until the guard is dropped the actor is not stalled for longer than this, all in all.
    pub(crate) fn limit_stalls(&self, to_ms: i64) -> StallLimit {
        let mut state = self.shared.state();
        let before = state.actors.get_mut(self.actor).and_then(|actor| {
            let tighter = actor.stall_left_ms.map_or(to_ms, |left| left.min(to_ms));
            actor.stall_left_ms.replace(tighter)
        });
        drop(state);
        StallLimit { gate: self.clone(), before }
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T, otherwise: T) -> T {
        let mut state = self.shared.state();
        state.actors.get_mut(self.actor).map_or(otherwise, |actor| draw(&mut actor.random))
    }
}

/// See [`Gate::limit_stalls`].
pub(crate) struct StallLimit {
    gate: Gate,
    before: Option<i64>,
}

impl Drop for StallLimit {
    fn drop(&mut self) {
        let mut state = self.gate.shared.state();
        if let Some(actor) = state.actors.get_mut(self.gate.actor) {
            actor.stall_left_ms = self.before;
        }
    }
}

/// Waiting at a gate.
#[must_use]
pub(crate) struct Pass {
    gate: Gate,
    before: &'static str,
    after_ms: i64,
    wait: Option<u64>,
}

impl Future for Pass {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.gate.shared);
        let mut state = shared.state();
        let Some(id) = self.wait else {
            let id = state.next_wait;
            state.next_wait += 1;
            let (actor, due_ms) = (self.gate.actor, state.now_ms.saturating_add(self.after_ms));
            let wait = Wait { actor, due_ms, before: self.before, is_open: false, waker: context.waker().clone() };
            state.waits.insert(id, wait);
            self.wait = Some(id);
            return Poll::Pending;
        };
        match state.waits.get_mut(&id) {
            Some(wait) if wait.is_open => {
                state.waits.remove(&id);
                self.wait = None;
                Poll::Ready(())
            }
            Some(wait) => {
                wait.waker.clone_from(context.waker());
                Poll::Pending
            }
            // Its actor is dead, and this is a task that a library had made for it.
            None => Poll::Pending,
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(id) = self.wait {
            self.gate.shared.state().waits.remove(&id);
        }
    }
}

/// Clock, ids and waiting of one actor.
#[derive(Debug)]
pub struct ActorEnvironment {
    gate: Gate,
    offset_ms: i64,
}

impl ActorEnvironment {
    /// The environment of an actor whose clock is ahead by `offset_ms` (behind, when negative).
    pub fn new(gate: Gate, offset_ms: i64) -> Self {
        Self { gate, offset_ms }
    }
}

#[async_trait]
impl Environment for ActorEnvironment {
    fn now_ms(&self) -> i64 {
        self.gate.shared.now_ms() + self.offset_ms
    }

    fn uuid(&self) -> Uuid {
        self.gate.draw(Random::uuid, Uuid::nil())
    }

    fn jitter(&self) -> f64 {
        self.gate.draw(Random::fraction, 0.5)
    }

    async fn sleep(&self, time: Duration) {
        self.gate.pause(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)).await;
    }
}

/// An actor's future, for each of its lives.
pub type Life = Box<dyn FnMut(u32) -> LocalBoxFuture<'static, ()>>;

/// The actors of a run and what decides between them. To be used within a current-thread runtime of tokio.
pub struct Scheduler {
    shared: Arc<Shared>,
    /// Who goes on next.
    random: Random,
    /// What the streams of the actors begin with.
    streams: u64,
    actors: Vec<Actor>,
    steps: u32,
}

struct Actor {
    live: Life,
    /// How often it may die and begin again.
    lives: u32,
    life: u32,
    future: Option<LocalBoxFuture<'static, ()>>,
    woken: Arc<Woken>,
}

/// Whether an actor has to be polled.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A run that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// Gates were opened for ever.
    #[error("the run does not end")]
    Endless,
    /// An actor waits for something that is no gate.
    #[error("an actor waits for something that is not the scheduler's")]
    Elsewhere,
}

impl Scheduler {
    /// A scheduler without actors.
    pub fn new(mut random: Random) -> Self {
        let streams = random.bits();
        Self { shared: Arc::default(), random, streams, actors: Vec::new(), steps: 0 }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The way through the scheduler of a new actor, which does nothing before [`Scheduler::start`].
    ///
    /// What it draws, and when it is stalled and killed, follows from its name: not from who else there is.
    pub fn actor(&mut self, name: impl Into<String>, temper: Temper) -> Gate {
        let name = name.into();
        let mut streams = Random::named(self.streams, &name);
        let (random, order) = (streams.fork(), streams.fork());
        let mut state = self.shared.state();
        state.actors.push(Traits { name, temper, random, order, stall_left_ms: None, is_dying: false });
        let actor = state.actors.len() - 1;
        drop(state);
        let live: Life = Box::new(|_| Box::pin(std::future::ready(())));
        self.actors.push(Actor { live, lives: 0, life: 0, future: None, woken: Arc::default() });
        Gate { shared: Arc::clone(&self.shared), actor }
    }

    /// Begins an actor's first life; after a death it has another, some time later, up to `lives` in all.
    pub fn start(&mut self, gate: &Gate, lives: u32, mut live: Life) {
        let actor = &mut self.actors[gate.actor];
        actor.future = Some(live(0));
        (actor.live, actor.lives) = (live, lives);
        actor.woken.0.store(true, Ordering::Relaxed);
    }

    /// From now on nobody is stalled or killed.
    pub fn calm(&mut self) {
        self.shared.state().actors.iter_mut().for_each(|actor| actor.temper = Temper::default());
    }

    /// Moves the clock on.
    pub fn advance(&mut self, by_ms: i64) {
        self.shared.state().now_ms += by_ms;
    }

    /// What has happened so far.
    pub fn timeline(&self) -> Timeline {
        Timeline { steps: u64::from(self.steps), ..self.shared.state().timeline.clone() }
    }

    /// Whether an actor is held.
    pub(crate) fn is_held(&self, gate: &Gate) -> bool {
        self.shared.state().waits.values().any(|wait| wait.actor == gate.actor && wait.due_ms == HELD)
    }

    /// Lets an actor that is held go on.
    pub(crate) fn release(&mut self, gate: &Gate) {
        gate.note("goes on", "");
        let mut state = self.shared.state();
        let now_ms = state.now_ms;
        let held = state.waits.values_mut().filter(|wait| wait.actor == gate.actor && wait.due_ms == HELD);
        held.for_each(|wait| wait.due_ms = now_ms);
    }

    /// Ends an actor's process from outside, as by `kill -9`.
    pub(crate) fn kill(&mut self, gate: &Gate) {
        gate.note("dies", "killed");
        self.shared.state().waits.retain(|_, wait| wait.actor != gate.actor);
        self.bury(gate.actor);
    }

    /// Runs until every actor has come to its end, or is held.
    ///
    /// # Errors
    ///
    /// [`Stuck`].
    pub async fn run(&mut self) -> Result<(), Stuck> {
        loop {
            self.settle().await?;
            if !self.step() {
                return Ok(());
            }
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(Stuck::Endless);
            }
        }
    }

    /// Lets everybody run into a gate.
    async fn settle(&mut self) -> Result<(), Stuck> {
        for _ in 0..PATIENCE {
            while self.poll_woken() || self.bury_dying() {}
            if !self.somebody_waits_elsewhere() {
                return Ok(());
            }
            // Tasks of libraries have their turn.
            tokio::task::yield_now().await;
        }
        Err(Stuck::Elsewhere)
    }

    fn poll_woken(&mut self) -> bool {
        let mut polled = false;
        for actor in &mut self.actors {
            let Some(future) = &mut actor.future else { continue };
            if actor.woken.0.swap(false, Ordering::Relaxed) {
                polled = true;
                let waker = Waker::from(Arc::clone(&actor.woken));
                if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    actor.future = None;
                }
            }
        }
        polled
    }

    /// Buries those whose process a fault has ended.
    fn bury_dying(&mut self) -> bool {
        let mut state = self.shared.state();
        let Some(index) = state.actors.iter().position(|actor| actor.is_dying) else { return false };
        state.actors[index].is_dying = false;
        state.waits.retain(|_, wait| wait.actor != index);
        drop(state);
        self.bury(index);
        true
    }

    fn somebody_waits_elsewhere(&self) -> bool {
        let state = self.shared.state();
        let at_gate = |index: usize| state.waits.values().any(|wait| wait.actor == index && !wait.is_open);
        let mut living = self.actors.iter().enumerate().filter(|(_, actor)| actor.future.is_some());
        living.any(|(index, _)| !at_gate(index))
    }

    /// Opens one gate; false when nobody is at any that may be opened.
    ///
    /// The actor is drawn first, and then which of its gates, by numbers of its own: how much a library does at once, and in
    /// which order, changes nothing for the others.
    fn step(&mut self) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        let due = state.waits.values().map(|wait| wait.due_ms).filter(|due_ms| *due_ms != HELD);
        let Some(earliest) = due.min() else { return false };
        state.now_ms = state.now_ms.max(earliest);
        let now_ms = state.now_ms;
        let due = state.waits.iter().filter(|(_, wait)| wait.due_ms <= now_ms);
        let mut by_actor: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        due.for_each(|(id, wait)| by_actor.entry(wait.actor).or_default().push(*id));
        let Some((&actor, gates)) = by_actor.iter().nth(self.random.index(by_actor.len())) else { return false };
        let traits = &mut state.actors[actor];
        let (Temper { stalls, deaths }, chosen) = (traits.temper, gates[traits.order.index(gates.len())]);
        let before = state.waits.get(&chosen).map_or("", |wait| wait.before);
        let order = &mut state.actors[actor].order;
        let (dies, stalls) = (order.chance(deaths), order.chance(stalls));
        let (stall_ms, step_ms) = (stall_ms(order), order.between_ms(1, STEP_MS));
        if dies {
            state.note(actor, "dies", format!("before {before}"));
            state.waits.retain(|_, wait| wait.actor != actor);
            drop(state);
            self.bury(actor);
            return true;
        }
        if stalls {
            let stall_ms = state.actors[actor].limited(stall_ms);
            if stall_ms > 0 {
                state.stall(actor, stall_ms, before);
                return true;
            }
        }
        state.now_ms += step_ms;
        if let Some(wait) = state.waits.get_mut(&chosen) {
            wait.is_open = true;
            wait.waker.wake_by_ref();
        }
        true
    }

    /// A process dies with all it was doing; another may be started in its place.
    fn bury(&mut self, index: usize) {
        let actor = &mut self.actors[index];
        // Dropping it takes the lock.
        actor.future = None;
        let pause_ms = self.shared.state().actors.get_mut(index).map_or(0, |traits| {
            traits.stall_left_ms = None;
            stall_ms(&mut traits.order)
        });
        actor.life += 1;
        if actor.life < actor.lives {
            let gate = Gate { shared: Arc::clone(&self.shared), actor: index };
            let life = (actor.live)(actor.life);
            actor.future = Some(Box::pin(async move {
                gate.pause(pause_ms).await;
                life.await;
            }));
            actor.woken.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Minutes, hours or days: the times at which something changes are on both sides of 12 and 24 hours, and of three days.
fn stall_ms(random: &mut Random) -> i64 {
    let (from, to) = random.pick([(0, 1), (1, 11), (11, 14), (14, 25), (24, 50), (70, 100)]);
    random.between_ms(from * HOUR_MS, to * HOUR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, temper: Temper) -> (Timeline, Result<(), Stuck>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut scheduler = Scheduler::new(Random::new(seed));
            for name in ["a", "b", "c"] {
                let gate = scheduler.actor(name, temper);
                let through = gate.clone();
                let live: Life = Box::new(move |life| {
                    let gate = through.clone();
                    Box::pin(async move {
                        for step in 0..3 {
                            gate.pass("a step").await;
                            gate.note("step", format!("{life}.{step}"));
                        }
                        // As a library does.
                        let inner = gate.clone();
                        let task = tokio::spawn(async move { inner.pass("a task's step").await });
                        task.await.unwrap();
                        gate.note("done", "");
                    })
                });
                scheduler.start(&gate, 2, live);
            }
            let result = scheduler.run().await;
            (scheduler.timeline(), result)
        })
    }

    #[test]
    fn a_seed_decides_who_goes_when() {
        let temper = Temper { stalls: 100, deaths: 100 };
        for seed in 0..200 {
            assert_eq!(run(seed, temper), run(seed, temper));
        }
        assert_ne!(run(1, temper).0, run(2, temper).0);
    }

    #[test]
    fn everybody_comes_to_an_end_unless_killed_twice() {
        for seed in 0..200 {
            let (timeline, result) = run(seed, Temper { stalls: 100, deaths: 50 });
            result.unwrap();
            for name in ["a", "b", "c"] {
                let did =
                    |deed| timeline.events.iter().filter(|event| event.actor == name && event.deed == deed).count();
                assert_eq!(did("done") == 1, did("dies") < 2, "{timeline}");
            }
        }
    }

    #[test]
    fn a_process_that_a_fault_ends_is_followed_by_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let timeline = runtime.block_on(async {
            let mut scheduler = Scheduler::new(Random::new(1));
            let gate = scheduler.actor("faulty", Temper::default());
            let through = gate.clone();
            let live: Life = Box::new(move |life| {
                let gate = through.clone();
                Box::pin(async move {
                    gate.stall("the end").await;
                    if life == 0 {
                        // As in a library's task, with a gate of its own process waiting besides.
                        let (inner, other) = (gate.clone(), gate.clone());
                        let task = tokio::spawn(async move { inner.die().await });
                        other.pause(HOUR_MS).await;
                        task.await.unwrap();
                    }
                    gate.note("done", life.to_string());
                })
            });
            scheduler.start(&gate, 2, live);
            scheduler.run().await.unwrap();
            scheduler.timeline()
        });
        let deeds: Vec<(&str, &str)> = timeline.events.iter().map(|event| (event.deed, event.about.as_str())).collect();
        assert!(
            matches!(deeds[..], [("stalls", _), ("dies", "by a fault"), ("stalls", _), ("done", "1")]),
            "{timeline}"
        );
    }

    #[test]
    fn who_is_held_waits_until_released_and_who_is_killed_goes_no_further() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let timeline = runtime.block_on(async {
            let mut scheduler = Scheduler::new(Random::new(1));
            let mut gates = Vec::new();
            for name in ["released", "killed", "other"] {
                let gate = scheduler.actor(name, Temper::default());
                let through = gate.clone();
                let live: Life = Box::new(move |_| {
                    let gate = through.clone();
                    Box::pin(async move {
                        if name != "other" {
                            gate.hold("a step").await;
                        }
                        gate.note("done", "");
                    })
                });
                scheduler.start(&gate, 1, live);
                gates.push(gate);
            }
            scheduler.run().await.unwrap();
            assert_eq!(gates.iter().map(|gate| scheduler.is_held(gate)).collect::<Vec<_>>(), [true, true, false]);
            scheduler.kill(&gates[1]);
            scheduler.advance(HOUR_MS);
            scheduler.run().await.unwrap();
            scheduler.release(&gates[0]);
            scheduler.run().await.unwrap();
            assert!(!gates.iter().any(|gate| scheduler.is_held(gate)));
            scheduler.timeline()
        });
        let done = timeline.events.iter().filter(|event| event.deed == "done");
        let done: Vec<(&str, bool)> = done.map(|event| (event.actor.as_str(), event.at_ms >= HOUR_MS)).collect();
        assert_eq!(done, [("other", false), ("released", true)], "{timeline}");
    }

    #[test]
    fn time_goes_by_only_at_gates_and_a_pause_takes_its_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut scheduler = Scheduler::new(Random::new(1));
            let gate = scheduler.actor("sleeper", Temper::default());
            let environment = Arc::new(ActorEnvironment::new(gate.clone(), 0));
            scheduler.start(
                &gate,
                1,
                Box::new(move |_| {
                    let environment = Arc::clone(&environment);
                    Box::pin(async move {
                        let before = environment.now_ms();
                        environment.sleep(Duration::from_hours(100)).await;
                        let slept = environment.now_ms() - before;
                        assert!((0..=STEP_MS).contains(&(slept - 100 * HOUR_MS)), "{slept}");
                    })
                }),
            );
            scheduler.run().await.unwrap();
        });
    }

    #[test]
    fn waiting_for_what_never_comes_is_told() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let stuck = runtime.block_on(async {
            let mut scheduler = Scheduler::new(Random::new(1));
            let gate = scheduler.actor("waits", Temper::default());
            scheduler.start(&gate, 1, Box::new(|_| Box::pin(std::future::pending())));
            scheduler.run().await
        });
        assert_eq!(stuck, Err(Stuck::Elsewhere));
    }

    #[test]
    fn a_limited_actor_is_not_stalled_for_longer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for seed in 0..50 {
            let ended = runtime.block_on(async {
                let mut scheduler = Scheduler::new(Random::new(seed));
                let gate = scheduler.actor("hurried", Temper { stalls: 500, deaths: 0 });
                let through = gate.clone();
                let live: Life = Box::new(move |_| {
                    let gate = through.clone();
                    Box::pin(async move {
                        let _limit = gate.limit_stalls(2 * HOUR_MS);
                        for _ in 0..20 {
                            gate.pass("a step").await;
                        }
                    })
                });
                scheduler.start(&gate, 1, live);
                scheduler.run().await.unwrap();
                scheduler.shared.now_ms() - START_MS
            });
            assert!(ended < 2 * HOUR_MS + 20 * STEP_MS, "{}", Elapsed(ended));
        }
    }
}
