//! A scenario on a table of its own, with processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use hexfloe_batch::BatchId;
use hexfloe_catalog::{OpenCatalog, SelfTest, Verdict as Found};
use hexfloe_commit::SharedEnvironment;
use iceberg::TableIdent;
use iceberg::table::Table;

use crate::faults::{Call, Fault, Injection};
use crate::proxy::Proxy;
use crate::random::Random;
use crate::real::Verification;
use crate::real::engine::{Engine, TOUCHED};
use crate::real::inspect::{Expected, State, Stop, inspect, objects};
use crate::real::network::{BadNetwork, is_across_http};
use crate::real::process::{Ended, Launcher, Process, Until};
use crate::real::rows::{self, MESSAGES, PARTITION, SOURCE};
use crate::real::scratch::Note;
use crate::scenario::{Batch, End, Ends, Run, Scenario, Setting, Step};
use crate::table::Trouble;
use crate::verdict::{Fate, Moment, Played};

/// Batches of a table on which processes are killed at random moments, before another one is begun.
const BATCHES_TO_A_TABLE: u64 = 20;

/// Rows of a batch whose process is killed at a random moment.
const ROWS_TO_KILL: u64 = 2_000;

/// The exit codes of `hexfloe` that say what became of a batch.
mod code {
    /// What was not foreseen: a catalog that refuses what it has to take, for one.
    pub(super) const UNEXPECTED: i32 = 1;
    pub(super) const INPUT: i32 = 3;
    pub(super) const CELLS: i32 = 4;
    pub(super) const CONFLICT: i32 = 5;
    pub(super) const UNKNOWN: i32 = 6;
    pub(super) const UNAVAILABLE: i32 = 7;
    pub(super) const NOT_TOLD: i32 = 11;
}

/// See the module.
pub(crate) struct Stage<'a> {
    verification: &'a Verification,
    catalog: &'a OpenCatalog,
    environment: SharedEnvironment,
    note: &'a Note,
    launcher: Launcher,
    /// Where jobs and their input are.
    folder: PathBuf,
    table: TableIdent,
    random: Random,
    begun_ms: i64,
    held: BTreeMap<&'static str, Process>,
    /// The ids of batches, by number.
    ids: BTreeMap<u64, String>,
    remembered: Option<State>,
    touched: bool,
    /// Places of tables that were seen.
    places: BTreeSet<String>,
    played: Played,
}

/// A scenario that was played.
pub(crate) struct Outcome {
    pub(crate) played: Played,
    pub(crate) places: BTreeSet<String>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(
        verification: &'a Verification,
        catalog: &'a OpenCatalog,
        note: &'a Note,
        folder: &Path,
        scenario: &Scenario,
        random: Random,
    ) -> Result<Self, Trouble> {
        let folder = folder.join(scenario.name);
        fs::create_dir_all(&folder)?;
        let environment = Arc::clone(&verification.environment);
        let launcher = Launcher {
            binary: verification.binary.clone(),
            working_folder: verification.working_folder.clone(),
            catalog: verification.catalog_file.clone(),
            proxy: None,
        };
        let played = Played {
            name: scenario.name.to_owned(),
            promise: scenario.promise.to_owned(),
            fate: Fate::Held,
            reason: None,
            took_ms: 0,
            processes: 0,
            kills: 0,
            faults: 0,
            looks: 0,
            timeline: Vec::new(),
        };
        Ok(Self {
            begun_ms: environment.now_ms(),
            verification,
            catalog,
            environment,
            note,
            launcher,
            folder,
            table: note.table(scenario.name)?,
            random,
            held: BTreeMap::new(),
            ids: BTreeMap::new(),
            remembered: None,
            touched: false,
            places: BTreeSet::new(),
            played,
        })
    }

    /// Plays a scenario to its end, or to where a promise breaks.
    pub(crate) async fn play(mut self, scenario: &Scenario) -> Outcome {
        let mut stopped = Ok(());
        for step in &scenario.steps {
            // What a reader cannot cope with is no end of the verification.
            stopped = AssertUnwindSafe(self.step(step)).catch_unwind().await.unwrap_or_else(|panic| {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it does not say why");
                Err(Stop::Broken(format!("what is there cannot be read: a reader panicked: {said}")))
            });
            if let Err(Stop::Unavailable(reason)) = stopped {
                stopped = Err(self.unavailable(reason).await);
            }
            if stopped.is_err() {
                break;
            }
        }
        for (_, mut process) in std::mem::take(&mut self.held) {
            // It is not waited for by anybody any more.
            let _ = process.kill().await;
        }
        (self.played.fate, self.played.reason) = match (stopped, scenario.is_control) {
            (Ok(()), false) => (Fate::Held, None),
            (Ok(()), true) => {
                (Fate::Broken, Some("the checks found nothing wrong with rows that are there twice".to_owned()))
            }
            (Err(Stop::Broken(reason)), true) => {
                self.tell("the check", format!("finds, as it has to: {reason}"));
                (Fate::Held, None)
            }
            (Err(Stop::Broken(reason)), false) => (Fate::Broken, Some(reason)),
            (Err(Stop::NotHere(reason)), _) => (Fate::NotApplicable, Some(reason.to_owned())),
            (Err(Stop::Unavailable(reason)), _) => (Fate::NotRun, Some(reason)),
            (Err(Stop::Failed(error)), _) => (Fate::NotRun, Some(crate::process::told(error.as_ref()))),
        };
        if let Some(reason) = self.played.reason.clone() {
            self.tell("the check", reason);
        }
        self.played.took_ms = self.elapsed_ms();
        // A table that was never looked at has a place all the same.
        if let Ok(Some(table)) = self.catalog.load(&self.table).await {
            self.places.insert(table.metadata().location().to_owned());
        }
        Outcome { played: self.played, places: self.places }
    }

    /// A catalog and a store that answer, and of which a run says that they do not do what they have to, break a promise.
    async fn unavailable(&self, reason: String) -> Stop {
        let answers = match self.catalog.load(&self.table).await {
            Ok(Some(table)) => objects(self.catalog, &table).await.is_ok(),
            Ok(None) => true,
            Err(_) => false,
        };
        if answers { Stop::Broken(reason) } else { Stop::Failed(reason.into()) }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.environment.now_ms() - self.begun_ms).unwrap_or(0)
    }

    fn tell(&mut self, who: &str, what: impl Into<String>) {
        let moment = Moment { at_ms: self.elapsed_ms(), who: who.to_owned(), what: what.into() };
        self.played.timeline.push(moment);
    }

    fn engine(&self) -> Engine<'_> {
        Engine { catalog: self.catalog, table: &self.table, environment: &self.environment }
    }

    async fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Run(run, ends) => {
                let ended = self.run(run).await?;
                self.settle(run, *ends, &ended)
            }
            Step::AtOnce(runs, committed) => self.at_once(runs, *committed).await,
            Step::UntilHeld(run) => self.until_held(run).await,
            Step::Release(by, ends) => self.release(by, *ends).await,
            Step::Kill(by) => self.kill(by).await,
            Step::KilledAtEachCall { run, every } => self.killed_at_each_call(run, *every).await,
            Step::KilledAtRandom { from, kills } => self.killed_at_random(*from, *kills).await,
            Step::OverABadNetwork { from, runs } => self.over_a_bad_network(*from, *runs).await,
            Step::RollBack(batch) => self.roll_back(*batch).await,
            Step::CleanUp { dated } => self.clean_up(*dated).await,
            Step::Remember => {
                self.remembered = Some(State::of(self.catalog, &self.load().await?).await?);
                Ok(())
            }
            Step::Unchanged => {
                let now = State::of(self.catalog, &self.load().await?).await?;
                self.remembered()?.unchanged(&now)
            }
            Step::SameBytes => {
                let now = State::of(self.catalog, &self.load().await?).await?;
                self.remembered()?.same_bytes(&now)
            }
            Step::Told(times) => self.told(*times),
            Step::Check(end) => self.check(end).await,
            Step::SelfTest => self.self_test().await,
            Step::Compact => {
                self.tell("another engine", "rewrites all files into one");
                Ok(self.engine().compact().await?)
            }
            Step::ForgetSnapshots => {
                self.tell("another engine", "lets all snapshots but the head expire");
                Ok(self.engine().forget_snapshots().await?)
            }
            Step::ForgetLedger => {
                self.tell("five hundred batches", "take the place of these in the ledger");
                Ok(self.engine().forget_ledger().await?)
            }
            Step::AppendAgain => {
                self.tell("another engine", "appends all rows once more");
                Ok(self.engine().append_again().await?)
            }
            Step::Touch => {
                self.tell("somebody", "sets a property");
                self.touched = true;
                Ok(self.engine().touch().await?)
            }
        }
    }

    fn remembered(&self) -> Result<&State, Stop> {
        self.remembered.as_ref().ok_or_else(|| Stop::Failed("nothing was kept in mind".into()))
    }

    async fn load(&mut self) -> Result<Table, Stop> {
        let table = self.catalog.load(&self.table).await?;
        let table = table.ok_or_else(|| Stop::Broken("the table is not in the catalog".to_owned()))?;
        self.places.insert(table.metadata().location().to_owned());
        Ok(table)
    }

    // ------------------------------------------------------------ processes

    /// The arguments of a run, whose jobs and input are written.
    fn prepare(&mut self, run: &Run) -> Result<Vec<String>, Trouble> {
        let rejects = self.folder.join("rejects").display().to_string();
        let table = self.table.to_string();
        let mut jobs = Vec::new();
        for batch in &run.batches {
            let name = format!("{}-{}-{}-{:?}", batch.number, batch.content, batch.rows, run.input).to_lowercase();
            let input = format!("{name}.csv");
            write_once(&self.folder.join(&input), &rows::csv(*batch, run.input)?)?;
            let settings: Vec<String> =
                run.settings.iter().map(|setting| format!("-{setting:?}").to_lowercase()).collect();
            let job = self.folder.join(format!("{name}{}.toml", settings.concat()));
            write_once(&job, &rows::job(run, *batch, &input, &table, &rejects)?)?;
            jobs.push(job);
            if !run.settings.contains(&Setting::OwnsSlice) {
                let (start, end) = rows::offsets(*batch);
                let id = BatchId::offsets(SOURCE, PARTITION, start, end)?.to_string();
                self.ids.insert(batch.number, id);
            }
        }
        let mut more = Vec::new();
        if run.settings.contains(&Setting::Force) {
            more.push("--force");
        }
        if run.settings.contains(&Setting::OneCommit) {
            more.extend(["--group", "100"]);
        }
        Ok(Launcher::ingest(&jobs, &more))
    }

    fn begin(&mut self, run: &Run) -> Result<Process, Trouble> {
        let arguments = self.prepare(run)?;
        let process = self.launcher.start(&arguments, &run.faults)?;
        self.played.processes += 1;
        let batches: Vec<String> = run.batches.iter().map(|batch| batch.number.to_string()).collect();
        let plural = if batches.len() == 1 { "batch" } else { "batches" };
        let faults: Vec<String> = run.faults.iter().map(|fault| format!("; {}", told(fault))).collect();
        self.tell(run.by, format!("begins with {plural} {}{}", batches.join(", "), faults.concat()));
        Ok(process)
    }

    async fn run(&mut self, run: &Run) -> Result<Ended, Stop> {
        let mut process = self.begin(run)?;
        match process.go_on().await? {
            Until::Ended(ended) => Ok(self.ended(run.by, ended)),
            Until::Held(at) => Err(Stop::Failed(format!("{} waits {at}, and nobody expects it", run.by).into())),
        }
    }

    /// Enters the end of a process into the books.
    fn ended(&mut self, by: &str, ended: Ended) -> Ended {
        self.played.kills += u32::from(ended.code.is_none());
        self.played.faults += u32::try_from(ended.struck.len()).unwrap_or(0);
        for struck in &ended.struck {
            self.tell(by, struck.clone());
        }
        self.tell(by, ended.told());
        ended
    }

    async fn until_held(&mut self, run: &Run) -> Result<(), Stop> {
        let mut process = self.begin(run)?;
        match process.go_on().await? {
            Until::Held(at) => {
                self.tell(run.by, format!("is held {at}"));
                self.held.insert(run.by, process);
                Ok(())
            }
            Until::Ended(ended) => {
                let ended = self.ended(run.by, ended);
                Err(Stop::Failed(format!("{} was to be held, and ended: {}", run.by, ended.told()).into()))
            }
        }
    }

    async fn release(&mut self, by: &'static str, ends: Ends) -> Result<(), Stop> {
        let mut process = self.held.remove(by).ok_or("nobody of that name is held")?;
        self.tell(by, "goes on");
        process.release().await?;
        let ended = loop {
            match process.go_on().await? {
                Until::Ended(ended) => break ended,
                // Decided again, it comes to the same call again.
                Until::Held(_) => process.release().await?,
            }
        };
        let ended = self.ended(by, ended);
        self.settle(&Run::of_all(by, &[]), ends, &ended)
    }

    async fn kill(&mut self, by: &'static str) -> Result<(), Stop> {
        let mut process = self.held.remove(by).ok_or("nobody of that name is held")?;
        let ended = process.kill().await?;
        self.ended(by, ended);
        Ok(())
    }

    async fn at_once(&mut self, runs: &[Run], committed: usize) -> Result<(), Stop> {
        let mut processes = Vec::new();
        for run in runs {
            processes.push((run, self.begin(run)?));
        }
        let ends = processes.iter_mut().map(|(run, process)| async move { (*run, process.go_on().await) });
        let mut seen = 0;
        for (run, until) in futures::future::join_all(ends).await {
            let Until::Ended(ended) = until? else {
                return Err(Stop::Failed(format!("{} is held, and nobody expects it", run.by).into()));
            };
            let ended = self.ended(run.by, ended);
            self.settle(run, Ends::Landed, &ended)?;
            seen += ended.reports.iter().filter(|report| report["status"] == "committed").count();
        }
        if seen == committed {
            return Ok(());
        }
        Err(Stop::Broken(format!("{seen} of {} that ran at once committed, and it were to be {committed}", runs.len())))
    }

    /// Compares how a run ended with how it was to end.
    fn settle(&mut self, run: &Run, ends: Ends, ended: &Ended) -> Result<(), Stop> {
        let statuses: Vec<&str> = ended.reports.iter().filter_map(|report| report["status"].as_str()).collect();
        let all = |allowed: &[&str]| {
            ended.code == Some(0) && !statuses.is_empty() && statuses.iter().all(|status| allowed.contains(status))
        };
        let committed = statuses.iter().filter(|status| **status == "committed").count();
        let given_up = [code::CONFLICT, code::UNKNOWN, code::UNAVAILABLE];
        let fine = match ends {
            Ends::Committed => all(&["committed"]),
            Ends::Skipped => all(&["skipped"]),
            Ends::Landed => all(&["committed", "skipped"]),
            Ends::LandedSome { committed: wanted } => all(&["committed", "skipped"]) && committed == wanted,
            Ends::InputRefused => ended.code == Some(code::INPUT),
            Ends::CellsRefused => ended.code == Some(code::CELLS),
            Ends::Killed => ended.code.is_none(),
            Ends::LandedOrNot => {
                all(&["committed", "skipped"]) || ended.code.is_some_and(|code| given_up.contains(&code))
            }
            Ends::NotTold => ended.code == Some(code::NOT_TOLD),
        };
        if !fine {
            let (by, told) = (run.by, ended.told());
            return Err(match ended.code {
                Some(
                    0 | code::UNEXPECTED | code::INPUT | code::CELLS | code::CONFLICT | code::UNKNOWN | code::NOT_TOLD,
                ) => Stop::Broken(format!("{by} was to be {}, and ended with: {told}", wanted(ends))),
                Some(code::UNAVAILABLE) => {
                    Stop::Unavailable(format!("{by} was to be {}, and ended with: {told}", wanted(ends)))
                }
                _ => Stop::Failed(format!("{by} ended with: {told}").into()),
            });
        }
        for id in ended.reports.iter().filter_map(|report| report["batch_id"].as_str()) {
            match &run.batches[..] {
                // The id of a slice is known when it has landed.
                [batch] => {
                    let known = self.ids.entry(batch.number).or_insert_with(|| id.to_owned());
                    if known != id {
                        return Err(Stop::Broken(format!("batch {} has the id {id}, and had {known}", batch.number)));
                    }
                }
                _ if self.ids.values().any(|known| known == id) => {}
                _ => return Err(Stop::Broken(format!("nobody knows of a batch {id}"))),
            }
        }
        Ok(())
    }

    // ------------------------------------------------------------ kills

    async fn killed_at_each_call(&mut self, run: &Run, every: usize) -> Result<(), Stop> {
        let mut number = run.batches.first().map_or(0, |batch| batch.number);
        let mut there = vec![Batch::number(0)];
        let mut place = 0;
        for call in [Call::Load, Call::Upload, Call::Put, Call::Read, Call::Commit] {
            for nth in 1.. {
                let (mut asked, mut struck) = (false, false);
                for fault in [Fault::CrashBefore, Fault::CrashAfter] {
                    place += 1;
                    if nth > 1 && place % every.max(1) != 0 {
                        continue;
                    }
                    asked = true;
                    let batch = Batch::number(number);
                    let killed =
                        Run { batches: vec![batch], faults: Vec::new(), ..run.clone() }.but_at(call, nth, fault);
                    let ended = self.run(&killed).await?;
                    let was_killed = ended.code.is_none();
                    if was_killed {
                        self.whole_or_nothing(&there, batch).await?;
                    }
                    self.settle(&killed, if was_killed { Ends::Killed } else { Ends::Committed }, &ended)?;
                    let again = Run::of("next run", batch);
                    let ended = self.run(&again).await?;
                    self.settle(&again, if was_killed { Ends::Landed } else { Ends::Skipped }, &ended)?;
                    there.push(batch);
                    self.check(&End::of(&there)).await?;
                    number += 1;
                    struck |= was_killed;
                }
                // There is no such call any more.
                if asked && !struck {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn killed_at_random(&mut self, from: u64, kills: u32) -> Result<(), Stop> {
        let base = self.table.clone();
        let mut number = from;
        let mut killed = 0;
        let mut there: Vec<Batch> = Vec::new();
        // How long a run takes here: the moments are spread over that.
        let mut whole_ms = 0.0;
        while killed < kills {
            let batch = Batch { rows: ROWS_TO_KILL, ..Batch::number(number) };
            number += 1;
            if there.len() as u64 >= BATCHES_TO_A_TABLE || there.is_empty() {
                there.clear();
                let name = format!("{}_{number}", base.name());
                self.table = TableIdent::new(base.namespace().clone(), name);
            }
            let run = Run::of("killed run", batch);
            let before_ms = self.environment.now_ms();
            let mut process = self.begin(&run)?;
            let until = if whole_ms > 0.0 {
                let at_ms = self.random.fraction() * whole_ms;
                self.environment.sleep(Duration::from_secs_f64(at_ms / 1_000.0)).await;
                process.kill().await?
            } else {
                match process.go_on().await? {
                    Until::Ended(ended) => ended,
                    Until::Held(at) => return Err(Stop::Failed(format!("a run without faults waits {at}").into())),
                }
            };
            let took_ms = f64::from(u32::try_from(self.environment.now_ms() - before_ms).unwrap_or(u32::MAX));
            let ended = self.ended(run.by, until);
            if ended.code.is_none() {
                killed += 1;
                self.whole_or_nothing(&there, batch).await?;
            } else {
                self.settle(&run, Ends::Committed, &ended)?;
                whole_ms = took_ms;
            }
            let again = Run::of("next run", batch);
            let ended = self.run(&again).await?;
            self.settle(&again, Ends::Landed, &ended)?;
            there.push(batch);
            if there.len() as u64 == BATCHES_TO_A_TABLE || killed == kills || self.random.chance(200) {
                self.check(&End::of(&there)).await?;
            }
        }
        self.check(&End::of(&there)).await
    }

    /// The table holds what was there, and of a batch all or nothing.
    async fn whole_or_nothing(&mut self, there: &[Batch], batch: Batch) -> Result<(), Stop> {
        let Some(table) = self.catalog.load(&self.table).await? else { return Ok(()) };
        self.places.insert(table.metadata().location().to_owned());
        self.played.looks += 1;
        let without = End::of(there);
        let Err(found) = inspect(self.catalog, &table, &Expected { end: &without, ids: &self.ids }).await else {
            return Ok(());
        };
        let with = End::of(&[there, &[batch]].concat());
        match inspect(self.catalog, &table, &Expected { end: &with, ids: &self.ids }).await {
            Err(Stop::Broken(_)) => Err(found),
            other => other,
        }
    }

    // ------------------------------------------------------------ everything else

    async fn over_a_bad_network(&mut self, from: u64, runs: u32) -> Result<(), Stop> {
        if !is_across_http(&self.verification.settings) {
            return Err(Stop::NotHere("neither catalog nor store is across an HTTP network"));
        }
        let proxy = Proxy::to_anywhere()?;
        let network = BadNetwork::new(&proxy, self.random.fork());
        let mut there = Vec::new();
        for number in from..from + u64::from(runs) {
            let batch = Batch::number(number);
            let unlucky = Run::of("unlucky run", batch);
            self.launcher.proxy = Some(proxy.uri());
            network.is_bad(true);
            let ended = self.run(&unlucky).await?;
            let failed = network.failed();
            self.played.faults += u32::try_from(failed.len()).unwrap_or(0);
            for failure in failed {
                self.tell("the network", failure);
            }
            self.settle(&unlucky, Ends::LandedOrNot, &ended)?;
            let has_landed = ended.code == Some(0);
            network.is_bad(false);
            let again = Run::of("next run", batch);
            let ended = self.run(&again).await?;
            // Who was told that it has landed was told the truth.
            self.settle(&again, if has_landed { Ends::Skipped } else { Ends::Landed }, &ended)?;
            self.launcher.proxy = None;
            there.push(batch);
        }
        self.check(&End::of(&there)).await
    }

    async fn roll_back(&mut self, batch: Batch) -> Result<(), Stop> {
        let id = self.ids.get(&batch.number).cloned().ok_or("the batch has no id")?;
        self.tell("somebody", format!("sets main back to before batch {}", batch.number));
        let table = self.table.to_string();
        self.hexfloe(&["table", "rollback", &table, "--before-batch", &id, "--json"], &[]).await
    }

    async fn clean_up(&mut self, dated: bool) -> Result<(), Stop> {
        let before = objects(self.catalog, &self.load().await?).await?;
        let undated = |call| Injection { call, path: String::new(), nth: 1, times: u32::MAX, fault: Fault::Undated };
        let faults = if dated { Vec::new() } else { vec![undated(Call::List), undated(Call::Read)] };
        self.tell("a cleaner", if dated { "removes orphans" } else { "removes orphans, and sees no dates" });
        let table = self.table.to_string();
        let arguments =
            ["cleanup", "orphans", &table, "--older-than", "24h", "--max-fraction", "1", "--apply", "--json"];
        self.hexfloe(&arguments, &faults).await?;
        let table = self.load().await?;
        State::of(self.catalog, &table).await?.keeps(&before)
    }

    /// Runs another command, which has to succeed.
    async fn hexfloe(&mut self, arguments: &[&str], faults: &[Injection]) -> Result<(), Stop> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.played.processes += 1;
        let ended = self.launcher.run(&arguments, faults).await?;
        match ended.code {
            Some(0) => Ok(()),
            _ => Err(Stop::Failed(format!("hexfloe {} ended with {}", arguments.join(" "), ended.told()).into())),
        }
    }

    fn told(&mut self, times: usize) -> Result<(), Stop> {
        let messages = fs::read_to_string(self.folder.join(MESSAGES)).unwrap_or_default();
        let messages: Vec<&str> = messages.lines().collect();
        let keys: BTreeSet<&&str> = messages.iter().collect();
        self.tell("the receiver", format!("has {} messages", messages.len()));
        if messages.len() == times && keys.len() <= 1 {
            return Ok(());
        }
        Err(Stop::Broken(format!(
            "{} messages with {} keys were sent, and it were to be {times}",
            messages.len(),
            keys.len()
        )))
    }

    async fn check(&mut self, end: &End) -> Result<(), Stop> {
        let table = self.load().await?;
        self.played.looks += 1;
        inspect(self.catalog, &table, &Expected { end, ids: &self.ids }).await?;
        if self.touched && !table.metadata().properties().contains_key(TOUCHED) {
            return Err(Stop::Broken("a property that somebody set is gone".to_owned()));
        }
        let numbers: Vec<String> = end.batches.iter().map(|batch| batch.number.to_string()).collect();
        let what = match numbers.len() {
            0..=10 => format!("batches {}", numbers.join(", ")),
            count => format!("{count} batches"),
        };
        self.tell("the check", format!("the table holds {what}, each once"));
        Ok(())
    }

    async fn self_test(&mut self) -> Result<(), Stop> {
        let Verification { settings, base, environment, .. } = self.verification;
        let now = || UNIX_EPOCH + Duration::from_millis(u64::try_from(environment.now_ms()).unwrap_or(0));
        let now: &(dyn Fn() -> SystemTime + Sync) = &now;
        let namespace = Some(self.note.namespace()?);
        let report =
            SelfTest { settings, base, id: self.note.self_test(environment.uuid()), now, namespace }.run().await?;
        self.played.looks += u32::try_from(report.findings.len()).unwrap_or(0);
        let mut broken = Vec::new();
        for finding in &report.findings {
            let verdict = match finding.verdict {
                Found::Held => "held",
                Found::Broken => "BROKEN",
                Found::Noted => "note",
            };
            self.tell("the self-test", format!("{verdict}: {}: {}", finding.check, finding.detail));
            if finding.verdict == Found::Broken {
                broken.push(format!("{}: {}", finding.check, finding.detail));
            }
        }
        if broken.is_empty() { Ok(()) } else { Err(Stop::Broken(broken.join("; "))) }
    }
}

/// Writes a file that others may be reading already: it always has the same content.
fn write_once(path: &Path, content: &str) -> std::io::Result<()> {
    match path.exists() {
        true => Ok(()),
        false => fs::write(path, content),
    }
}

/// What was to become of a run.
fn wanted(ends: Ends) -> String {
    match ends {
        Ends::Committed => "committed".to_owned(),
        Ends::Skipped => "skipped".to_owned(),
        Ends::Landed => "committed or skipped".to_owned(),
        Ends::LandedSome { committed } => format!("committed in part ({committed} batches), and skipped"),
        Ends::InputRefused => "refused because of its input".to_owned(),
        Ends::CellsRefused => "refused because of its cells".to_owned(),
        Ends::Killed => "killed".to_owned(),
        Ends::LandedOrNot => "committed, skipped or given up".to_owned(),
        Ends::NotTold => "landed and not told".to_owned(),
    }
}

/// A fault as it is told beforehand.
fn told(injection: &Injection) -> String {
    let Injection { call, nth, fault, .. } = injection;
    format!("at {call:?} {nth}: {fault:?}").to_lowercase()
}
