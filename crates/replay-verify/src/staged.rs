//! A scenario in the simulation: its steps one after the other, and what is concurrent in an order that a seed decides.
//!
//! A step that runs alone is not the same in each run either: processes stall, for as long as they may or for longer, their clocks are
//! off, and days go by between the steps. A scenario says how each run ends, and that has to be true whatever the seed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hexfloe_catalog::OpenCatalog;
use hexfloe_commit::{BatchOutcome, ErrorKind};

use crate::errands::{Errand, HURRIED_MS};
use crate::faults::{Call, Fault, Injection};
use crate::judge::{Judge, Violation};
use crate::plan::Staging;
use crate::process::{Lake, Lens, Particulars, told};
use crate::random::Random;
use crate::real::engine::TOUCHED;
use crate::real::inspect::{Expected, State, Stop, books, files};
use crate::scenario::{Batch, End, Ends, Run, Setting, Step};
use crate::scheduler::{Gate, HOUR_MS, Scheduler, Temper};
use crate::simulation::{Simulation, surprise};
use crate::table::{self, Trouble};

/// How much time goes by between two steps, at most.
const BETWEEN_MS: i64 = 40 * HOUR_MS;

/// The same while a process is held. It is held in the middle of a commit, where nobody may stop for more than eleven hours: in no
/// scenario are there more than three steps until it is released, and none takes longer than this and two processes that hurry.
const BETWEEN_WHILE_HELD_MS: i64 = HOUR_MS;

/// For how long another engine is stalled at most, as it does not look at its age.
const FOREIGN_MS: i64 = 11 * HOUR_MS;

/// How old a file is at least that a cleaner removes.
const MARGIN_MS: i64 = 24 * HOUR_MS;

/// Where a scenario is played.
pub(crate) struct Scene<'a> {
    pub(crate) simulation: &'a Simulation,
    pub(crate) staging: &'a Staging,
    pub(crate) lake: &'a Lake,
    /// How far the clock of the store is ahead.
    pub(crate) store_offset_ms: i64,
}

/// Who has a scenario played.
pub(crate) struct Director<'a, 'b> {
    scene: Scene<'a>,
    /// Without gates and faults.
    catalog: OpenCatalog,
    judge: &'b mut Judge<'a>,
    scheduler: &'b mut Scheduler,
    random: Random,
    /// What the streams of the processes begin with.
    draws: u64,
    processes: u32,
    held: BTreeMap<&'static str, Underway>,
    remembered: Option<State>,
    touched: bool,
}

/// What a process came to; nothing as long as it is on its way, and when it was killed.
type Ended = Rc<RefCell<Option<Result<Vec<BatchOutcome>, Trouble>>>>;

/// A process that was begun.
struct Underway {
    by: &'static str,
    gate: Gate,
    ended: Ended,
}

impl<'a, 'b> Director<'a, 'b> {
    pub(crate) fn new(
        scene: Scene<'a>,
        catalog: OpenCatalog,
        judge: &'b mut Judge<'a>,
        scheduler: &'b mut Scheduler,
        draws: u64,
    ) -> Self {
        let random = Random::named(draws, "director");
        let (held, remembered) = (BTreeMap::new(), None);
        Self { scene, catalog, judge, scheduler, random, draws, processes: 0, held, remembered, touched: false }
    }

    /// Has it played to its end.
    pub(crate) async fn direct(mut self) -> Result<(), Violation> {
        let scenario = &self.scene.staging.scenario;
        let mut result = Ok(());
        for step in &scenario.steps {
            self.let_time_go_by();
            result = self.step(step).await;
            if result.is_err() {
                break;
            }
        }
        match result {
            Err(Violation::Rows { .. }) if scenario.is_control => Ok(()),
            Ok(()) if scenario.is_control => {
                Err(Violation::Unmet("the checks found nothing wrong with rows that are there twice".to_owned()))
            }
            result => result,
        }
    }

    fn let_time_go_by(&mut self) {
        let longest_ms = if self.held.is_empty() { BETWEEN_MS } else { BETWEEN_WHILE_HELD_MS };
        let longest_ms = self.random.pick([0, longest_ms / 40, longest_ms]);
        self.scheduler.advance(self.random.between_ms(0, longest_ms));
    }

    async fn step(&mut self, step: &Step) -> Result<(), Violation> {
        match step {
            Step::Run(run, ends) => {
                let underway = self.begin_run(run)?;
                self.scheduler.run().await?;
                settle(&underway, *ends).map(drop)
            }
            Step::AtOnce(runs, committed) => self.at_once(runs, *committed).await,
            Step::UntilHeld(run) => self.until_held(run).await,
            Step::Release(by, ends) => self.release(by, *ends).await,
            Step::Kill(by) => {
                let underway = self.take(by)?;
                self.scheduler.kill(&underway.gate);
                Ok(())
            }
            Step::RollBack(batch) => self.alone("rollback", Errand::RollBack(self.number(*batch)?), Vec::new()).await,
            Step::Compact => self.alone("compactor", Errand::Compact, Vec::new()).await,
            Step::AppendAgain => self.alone("engine", Errand::AppendAgain, Vec::new()).await,
            Step::ForgetSnapshots => self.alone("engine", Errand::ForgetSnapshots, Vec::new()).await,
            Step::ForgetLedger => self.alone("others", Errand::ForgetLedger, Vec::new()).await,
            Step::Touch => {
                self.touched = true;
                self.alone("toucher", Errand::Touch, Vec::new()).await
            }
            Step::CleanUp { dated } => self.clean_up(*dated).await,
            Step::Remember => {
                self.remembered = Some(self.state().await?);
                Ok(())
            }
            Step::Unchanged => self.remembered()?.unchanged(&self.state().await?).map_err(stopped),
            Step::SameBytes => self.remembered()?.same_bytes(&self.state().await?).map_err(stopped),
            Step::Check(end) => self.check(end).await,
            Step::KilledAtEachCall { .. }
            | Step::KilledAtRandom { .. }
            | Step::OverABadNetwork { .. }
            | Step::Told(_)
            | Step::SelfTest => Err(Violation::Unmet(format!("the simulation cannot play {step:?}"))),
        }
    }

    // ------------------------------------------------------------ processes

    fn number(&self, batch: Batch) -> Result<u64, Violation> {
        let number = usize::try_from(batch.number).ok().and_then(|number| self.scene.staging.batches.get(number));
        number.copied().ok_or_else(|| Violation::Unmet(format!("the simulation has no batch {}", batch.number)))
    }

    fn begin_run(&mut self, run: &Run) -> Result<Underway, Violation> {
        let batches = run.batches.iter().map(|batch| self.number(*batch)).collect::<Result<_, _>>()?;
        let has = |setting| run.settings.contains(&setting);
        let errand = Errand::Land { batches, force: has(Setting::Force), together: has(Setting::OneCommit) };
        self.begin(run.by, errand, run.faults.clone())
    }

    fn begin(&mut self, by: &'static str, errand: Errand, faults: Vec<Injection>) -> Result<Underway, Violation> {
        let Scene { simulation, staging, lake, .. } = self.scene;
        self.processes += 1;
        // What it draws follows from its name: each is another.
        let name = format!("{by} {}", self.processes);
        let gate = self.scheduler.actor(&name, Temper { stalls: staging.stalls, deaths: 0 });
        let mut random = Random::named(self.draws, &name);
        let (offset_ms, delay_ms) =
            (random.between_ms(-HOUR_MS / 3, HOUR_MS / 3), random.between_ms(0, staging.spread_ms));
        let lens = match errand {
            Errand::Land { .. } => simulation.writers_see.clone(),
            Errand::CleanUp => simulation.cleaners_see.clone(),
            _ => Lens::default(),
        };
        let limit_ms = match errand.is_foreign() {
            _ if staging.hurried || !self.held.is_empty() => HURRIED_MS,
            true => FOREIGN_MS,
            false => i64::MAX,
        };
        let particulars = Particulars { offset_ms, lens, faults, until_released: true };
        let process = lake.process(&name, &gate, particulars, random).map_err(surprise)?;
        let ended = Ended::default();
        let told_to = Rc::clone(&ended);
        let live = move |_| -> futures::future::LocalBoxFuture<'static, ()> {
            let (mut process, errand, ended) = (process.clone(), errand.clone(), Rc::clone(&told_to));
            Box::pin(async move {
                let _limit = process.gate.limit_stalls(limit_ms);
                process.gate.pause(delay_ms).await;
                process.gate.note("begins", format!("{errand:?}"));
                let result = errand.run(&mut process).await;
                match &result {
                    Ok(_) => process.gate.note("ends", ""),
                    Err(error) => process.gate.note("fails", told(error.as_ref())),
                }
                ended.replace(Some(result));
            })
        };
        self.scheduler.start(&gate, 1, Box::new(live));
        Ok(Underway { by, gate, ended })
    }

    /// Somebody does something while nobody else does, and nothing may go wrong.
    async fn alone(&mut self, by: &'static str, errand: Errand, faults: Vec<Injection>) -> Result<(), Violation> {
        let underway = self.begin(by, errand, faults)?;
        self.scheduler.run().await?;
        match underway.ended.take() {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(Violation::Unmet(format!("{by} failed: {}", told(error.as_ref())))),
            None => Err(Violation::Unmet(format!("{by} did not come to an end"))),
        }
    }

    async fn at_once(&mut self, runs: &[Run], committed: usize) -> Result<(), Violation> {
        let underway = runs.iter().map(|run| self.begin_run(run)).collect::<Result<Vec<_>, _>>()?;
        self.scheduler.run().await?;
        let mut seen = 0;
        for underway in &underway {
            seen += settle(underway, Ends::Landed)?;
        }
        if seen == committed {
            return Ok(());
        }
        let count = runs.len();
        Err(Violation::Unmet(format!("{seen} of {count} that ran at once committed, and it were to be {committed}")))
    }

    async fn until_held(&mut self, run: &Run) -> Result<(), Violation> {
        let underway = self.begin_run(run)?;
        self.scheduler.run().await?;
        if !self.scheduler.is_held(&underway.gate) {
            return Err(Violation::Unmet(format!("{} was to be held, and is not", run.by)));
        }
        self.held.insert(run.by, underway);
        Ok(())
    }

    fn take(&mut self, by: &str) -> Result<Underway, Violation> {
        self.held.remove(by).ok_or_else(|| Violation::Unmet(format!("nobody with the name {by} is held")))
    }

    async fn release(&mut self, by: &str, ends: Ends) -> Result<(), Violation> {
        let underway = self.take(by)?;
        // Decided again, it may come to the same call again.
        while self.scheduler.is_held(&underway.gate) {
            self.scheduler.release(&underway.gate);
            self.scheduler.run().await?;
        }
        settle(&underway, ends).map(drop)
    }

    // ------------------------------------------------------------ everything else

    /// Files that are there stay, unless they are old, and seen to be.
    async fn clean_up(&mut self, dated: bool) -> Result<(), Violation> {
        let undated = |call| Injection { call, path: String::new(), nth: 1, times: u32::MAX, fault: Fault::Undated };
        let faults = if dated { Vec::new() } else { vec![undated(Call::List), undated(Call::Read)] };
        let before = self.scene.lake.objects.inventory();
        self.alone("cleaner", Errand::CleanUp, faults).await?;
        let there: BTreeSet<String> = self.scene.lake.objects.inventory().into_iter().map(|(path, ..)| path).collect();
        let now_ms = self.scheduler.shared().now_ms() + self.scene.store_offset_ms;
        let may_go = |modified_ms| dated && now_ms - modified_ms >= MARGIN_MS;
        match before.into_iter().find(|(path, _, modified_ms)| !there.contains(path) && !may_go(*modified_ms)) {
            None => self.judge.judge().await,
            Some((path, ..)) => Err(Violation::Unmet(format!("{path} is gone, and was to be left alone"))),
        }
    }

    async fn state(&self) -> Result<State, Violation> {
        State::of(&self.catalog, &self.judge.load().await?).await.map_err(stopped)
    }

    fn remembered(&self) -> Result<&State, Violation> {
        self.remembered.as_ref().ok_or_else(|| Violation::Unmet("nothing was kept in mind".to_owned()))
    }

    async fn check(&mut self, end: &End) -> Result<(), Violation> {
        self.judge.judge().await?;
        let mut ids = BTreeMap::new();
        for (number, batch) in (0..).zip(&self.scene.staging.batches) {
            ids.insert(number, table::batch_id(*batch).map_err(surprise)?.to_string());
        }
        let batches = end.batches.iter().map(|batch| self.number(*batch)).collect::<Result<_, _>>()?;
        self.judge.judge_head(batches).await?;
        let table = self.judge.load().await?;
        files(&self.catalog, &table).await.map_err(stopped)?;
        books(&table, &Expected { end, ids: &ids }).map_err(stopped)?;
        if self.touched && !table.metadata().properties().contains_key(TOUCHED) {
            return Err(Violation::Unmet("a property that somebody set is gone".to_owned()));
        }
        Ok(())
    }
}

/// Compares how a run ended with how it was to end; gives how many of its batches it committed.
fn settle(underway: &Underway, ends: Ends) -> Result<usize, Violation> {
    let ended = underway.ended.take();
    let is_committed = |outcome: &&BatchOutcome| matches!(outcome, BatchOutcome::Committed { .. });
    let outcomes = ended.as_ref().and_then(|ended| ended.as_ref().ok());
    let committed = outcomes.map_or(0, |outcomes| outcomes.iter().filter(is_committed).count());
    let fine = match (&ended, ends) {
        (Some(Ok(outcomes)), Ends::Committed) => committed == outcomes.len(),
        (Some(Ok(_)), Ends::Skipped) => committed == 0,
        (Some(Ok(_)), Ends::Landed | Ends::LandedOrNot) | (None, Ends::Killed) => true,
        (Some(Ok(_)), Ends::LandedSome { committed: wanted }) => committed == wanted,
        (Some(Err(error)), Ends::LandedOrNot) => is_given_up(error),
        _ => false,
    };
    if fine {
        return Ok(committed);
    }
    let ended = match ended {
        None => "was killed, or waits".to_owned(),
        Some(Ok(outcomes)) => format!("ended with {outcomes:?}"),
        Some(Err(error)) => format!("failed: {}", told(error.as_ref())),
    };
    Err(Violation::Unmet(format!("{} was to come to {ends:?}, and {ended}", underway.by)))
}

/// Whether an error says truly that nothing was done, or that nobody knows.
fn is_given_up(error: &Trouble) -> bool {
    let kind = error.downcast_ref::<hexfloe_commit::Error>().map(hexfloe_commit::Error::kind);
    matches!(kind, Some(ErrorKind::Conflict | ErrorKind::Unknown | ErrorKind::Unavailable))
}

fn stopped(stop: Stop) -> Violation {
    match stop {
        Stop::Broken(reason) | Stop::Unavailable(reason) => Violation::Unmet(reason),
        Stop::NotHere(reason) => Violation::Unmet(reason.to_owned()),
        Stop::Failed(error) => surprise(error),
    }
}
