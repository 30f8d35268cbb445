//! `hexfloe verify`, and the processes that it starts.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clap::Parser;
use hexfloe_replay_verify::faults::{Faults, Host, Injection};
use hexfloe_replay_verify::real::process::{SAYS, this_binary};
use hexfloe_replay_verify::scenario::{Effort, Scenario, scenarios};
use hexfloe_replay_verify::{Fate, Played, Progress, Verdict, Verification};
use iceberg::NamespaceIdent;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::arguments::{Arguments, VerifyArguments, VerifyStepArguments};
use crate::exit::{self, Failure};
use crate::{display, environment, open};

/// How many runs are killed at random moments.
const QUICK_KILLS: u32 = 10;
const FULL_KILLS: u32 = 200;

pub(crate) async fn run(arguments: VerifyArguments) -> Result<ExitCode, Failure> {
    let chosen = chosen(&arguments)?;
    if arguments.list {
        return list(&chosen).map(|()| ExitCode::SUCCESS);
    }
    let (settings, base) = open::settings(arguments.catalog.as_deref())?;
    if let Some(namespace) = &arguments.remove {
        let left = Verification::remove(&settings, &base, &notes(), namespace).await?;
        left.iter().for_each(|left| display::say(&format!("error: this is left: {left}")));
        if left.is_empty() {
            display::say(&format!("removed namespace {namespace}"));
        }
        return Ok(if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::INCOMPLETE) });
    }
    let namespace = arguments.namespace.as_ref().map(|name| NamespaceIdent::from_strs(name.split('.')));
    let namespace = namespace.transpose().map_err(|error| Failure::configuration(error.message()))?;
    let catalog_file = arguments.catalog.as_ref().map(std::path::absolute).transpose();
    let catalog_file = catalog_file.map_err(|error| Failure::unexpected("find the catalog file", error))?;
    let working_folder =
        std::env::current_dir().map_err(|error| Failure::unexpected("find the current folder", error))?;
    let verification = Verification {
        settings,
        base,
        catalog_file,
        working_folder,
        binary: this_binary().map_err(|error| Failure::unexpected("find this program", error))?,
        environment: environment::system(),
        notes: notes(),
        scratch: std::env::temp_dir(),
        namespace,
        scenarios: chosen,
        seed: arguments.seed,
    };
    // A file that cannot be written is found before minutes of work.
    for file in arguments.junit.iter().chain(&arguments.report) {
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|error| Failure::configuration(format!("cannot write {}: {error}", file.display())))?;
    }
    let teller = Teller::new(arguments.json);
    let verdict = verification.run(&mut |progress| teller.tell(&progress), interrupted()).await;
    teller.end();
    let verdict = verdict?;
    // Whatever cannot be told, the rest is, and a broken promise is the exit code.
    let told = [
        if arguments.json { display::json(&verdict) } else { display::print(&table(&verdict)) },
        write(arguments.junit, &verdict, hexfloe_replay_verify::junit),
        write(arguments.report, &verdict, hexfloe_replay_verify::html),
    ];
    let untold: Vec<Failure> = told.into_iter().filter_map(Result::err).collect();
    untold.iter().for_each(Failure::say);
    let code = code(&verdict);
    Ok(ExitCode::from(untold.first().filter(|_| code == 0).map_or(code, Failure::code)))
}

/// Where verifications note what they make: with the user's own state, so that nobody else can say what is to be removed.
fn notes() -> PathBuf {
    let absolute = |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    state.unwrap_or_else(std::env::temp_dir).join("hexfloe/verify")
}

fn code(verdict: &Verdict) -> u8 {
    let any = |fate| verdict.of(fate).next().is_some();
    match () {
        () if any(Fate::Broken) => exit::BROKEN,
        () if any(Fate::NotRun) => exit::UNAVAILABLE,
        () if !verdict.left.is_empty() => exit::INCOMPLETE,
        () => 0,
    }
}

/// The scenarios that are asked for.
fn chosen(arguments: &VerifyArguments) -> Result<Vec<Scenario>, Failure> {
    let kills = arguments.kills.unwrap_or(if arguments.full { FULL_KILLS } else { QUICK_KILLS });
    let mut all = scenarios(Effort { full: arguments.full, kills });
    if arguments.scenario.is_empty() {
        return Ok(all);
    }
    if let Some(unknown) = arguments.scenario.iter().find(|name| !all.iter().any(|known| known.name == **name)) {
        let message = format!("there is no scenario {unknown:?}; hexfloe verify --list says which there are");
        return Err(Failure::configuration(message));
    }
    all.retain(|scenario| arguments.scenario.iter().any(|name| name == scenario.name));
    Ok(all)
}

fn list(scenarios: &[Scenario]) -> Result<(), Failure> {
    let lines = scenarios.iter().map(|Scenario { name, promise, .. }| format!("{name:<44} {promise}\n"));
    display::print(&lines.collect::<String>())
}

fn write(file: Option<PathBuf>, verdict: &Verdict, render: fn(&Verdict) -> String) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(&file, render(verdict))
        .map_err(|error| Failure::configuration(format!("cannot write {}: {error}", file.display())))
}

/// Ends when somebody wants the command to end: Ctrl-C, or what a scheduler or a terminal that is closed sends. The second time it
/// ends at once.
async fn interrupted() {
    signalled().await;
    tokio::spawn(async {
        signalled().await;
        display::say(
            "interrupted again, while taking away what was made: the next verification of this catalog goes on with that",
        );
        std::process::exit(i32::from(exit::INTERRUPTED));
    });
}

async fn signalled() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let (Ok(mut terminate), Ok(mut hangup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            return;
        }
    }
    // Without a way to be told of it, nobody interrupts.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Tells people how far it has come: a bar on a terminal, and a line for each scenario.
struct Teller {
    bar: ProgressBar,
    for_people: bool,
}

impl Teller {
    fn new(json: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new(0) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {wide_msg} {elapsed}") {
            bar.set_style(style);
        }
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self { bar, for_people: !json || terminal }
    }

    fn tell(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Earlier(what) => self.bar.suspend(|| display::say(what)),
            Progress::Begins(index, of, scenario) => {
                self.bar.set_length(*of as u64);
                self.bar.set_position(*index as u64);
                self.bar.set_message(scenario.name);
            }
            Progress::Ends(played) if self.for_people => {
                self.bar.suspend(|| display::say(&line(played)));
            }
            Progress::Ends(_) => {}
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn line(played: &Played) -> String {
    let Played { name, fate, reason, took_ms, .. } = played;
    let reason = reason.as_ref().map_or_else(String::new, |reason| format!("  {reason}"));
    let seconds = Duration::from_millis(*took_ms).as_secs_f64();
    format!("{:<8} {name:<44} {seconds:>7.1} s{reason}", fate.word())
}

/// The verdict, for people.
fn table(verdict: &Verdict) -> String {
    let mut text = String::new();
    let count = |fate| verdict.of(fate).count();
    text.push_str(&format!(
        "{} scenarios: {} held, {} broken, {} not run, {} not applicable; {} processes, {} killed, {} faults, {} looks at tables, {:.0} s\n",
        verdict.scenarios.len(),
        count(Fate::Held),
        count(Fate::Broken),
        count(Fate::NotRun),
        count(Fate::NotApplicable),
        verdict.sum(|played| played.processes),
        verdict.sum(|played| played.kills),
        verdict.sum(|played| played.faults),
        verdict.sum(|played| played.looks),
        Duration::from_millis(verdict.took_ms).as_secs_f64(),
    ));
    for played in verdict.of(Fate::Broken).chain(verdict.of(Fate::NotRun)) {
        text.push_str(&format!("\n{}: {}\n", played.name, played.promise));
        for moment in &played.timeline {
            text.push_str(&format!("  {moment}\n"));
        }
    }
    for left in &verdict.left {
        text.push_str(&format!("left behind: {left}\n"));
    }
    text.push_str(&format!("{}\n", verdict.sentence));
    text
}

/// Runs a command behind faults.
pub(crate) fn step(arguments: &VerifyStepArguments) -> Result<Arguments, Failure> {
    let injections: Vec<Injection> = serde_json::from_str(&arguments.faults)
        .map_err(|error| Failure::configuration(format!("--faults cannot be read: {error}")))?;
    open::behind(Faults::new(injections, Arc::new(Verified)));
    let command = std::iter::once("hexfloe".to_owned()).chain(arguments.command.iter().cloned());
    Arguments::try_parse_from(command).map_err(|error| Failure::configuration(error.to_string()))
}

/// This process, as one of a verification: what goes wrong in it is told to the one that started it, which kills it or has it go on.
#[derive(Debug)]
struct Verified;

impl Verified {
    fn say(what: &str, at: &str) {
        // Who is not there any more does not kill either: see `hold`.
        let _ = display::print(&format!("{}\n", json!({ SAYS: what, "at": at })));
    }
}

#[async_trait]
impl Host for Verified {
    async fn crash(&self) {
        Self::say("crash", "");
        Self::wait_for_a_word().await;
    }

    async fn hold(&self, at: &str) {
        Self::say("held", at);
        Self::wait_for_a_word().await;
    }

    async fn wait(&self, time: Duration) {
        environment::system().sleep(time).await;
    }

    fn note(&self, what: &str) {
        Self::say("note", what);
    }
}

impl Verified {
    /// Waits for a line. When there is nobody to write one, this process has nothing more to do.
    async fn wait_for_a_word() {
        let word = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
        if !matches!(word.await, Ok(Ok(1..))) {
            std::process::abort();
        }
    }
}
