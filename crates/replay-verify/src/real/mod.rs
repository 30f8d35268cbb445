//! The guarantee, tried on a real catalog and store with real processes: see [`Verification`].

pub(crate) mod engine;
pub(crate) mod inspect;
mod network;
pub mod process;
mod rows;
pub mod scratch;
mod stage;

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use futures::StreamExt;
use hexfloe_catalog::{Access, CatalogKind, CatalogSettings, OpenCatalog};
use hexfloe_commit::SharedEnvironment;
use iceberg::NamespaceIdent;

use crate::random::Random;
use crate::real::scratch::{Journal, Note};
use crate::real::stage::{Outcome, Stage};
use crate::scenario::Scenario;
use crate::verdict::{Played, Verdict};

/// So many scenarios are played at a time, each on a table of its own: most of what they do is waiting for servers.
const AT_ONCE: usize = 4;

/// Scenarios to be played on a catalog and its store, in a namespace of their own.
#[derive(Debug)]
pub struct Verification {
    /// The catalog.
    pub settings: CatalogSettings,
    /// What its relative paths are relative to.
    pub base: PathBuf,
    /// The same as a file, absolute, which processes are given; none for the embedded catalog.
    pub catalog_file: Option<PathBuf>,
    /// Where processes run.
    pub working_folder: PathBuf,
    /// The binary that is verified.
    pub binary: PathBuf,
    /// Clock, ids and waiting.
    pub environment: SharedEnvironment,
    /// Where verifications note what they make.
    pub notes: PathBuf,
    /// Where jobs and input are made, and taken away again.
    pub scratch: PathBuf,
    /// A namespace that exists, instead of one that is made.
    pub namespace: Option<NamespaceIdent>,
    /// What is played.
    pub scenarios: Vec<Scenario>,
    /// Where random moments come from.
    pub seed: u64,
}

/// How far a verification has come.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Something about earlier verifications.
    Earlier(String),
    /// A scenario begins: the how manieth, of how many.
    Begins(usize, usize, &'a Scenario),
    /// It has ended.
    Ends(&'a Played),
}

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The catalog cannot be opened or worked in.
    #[error(transparent)]
    Catalog(#[from] hexfloe_catalog::Error),
    /// What was asked for cannot be done.
    #[error("{0}")]
    Unusable(String),
    /// Something of this machine does not work.
    #[error("cannot {action}")]
    Machine {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Somebody ended it.
    #[error("interrupted; {}", left(.0))]
    Interrupted(Vec<String>),
}

fn left(left: &[String]) -> String {
    match left {
        [] => "nothing is left of the verification".to_owned(),
        left => format!("this is left of the verification: {}", left.join("; ")),
    }
}

fn machine<E: Into<Box<dyn std::error::Error + Send + Sync>>>(action: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::Machine { action, source: source.into() }
}

impl Verification {
    /// Plays all scenarios, tells how far it has come, and takes away what it made; also when `interrupted` is done first.
    ///
    /// # Errors
    ///
    /// [`Error`]: without a verdict. That a promise is broken is a verdict.
    pub async fn run(
        &self,
        tell: &mut (dyn FnMut(Progress<'_>) + Send),
        interrupted: impl Future<Output = ()>,
    ) -> Result<Verdict, Error> {
        let begun_ms = self.environment.now_ms();
        let catalog = OpenCatalog::open(&self.settings, &self.base, Access::Create).await?;
        self.remove_earlier(&catalog, tell).await;
        let id = self.environment.uuid().simple().to_string()[..8].to_owned();
        let mut note = Note::new(id, &self.settings, &self.base, self.namespace.as_ref());
        let mut journal = Journal::begin(&self.notes, &note).map_err(machine("note what is going to be made"))?;
        let folder = self.scratch.join(format!("hexfloe-verify-{}", note.id));
        let played = tokio::select! {
            played = self.play_all(&catalog, &mut note, &mut journal, &folder, tell) => Some(played),
            () = interrupted => None,
        };
        let left = scratch::remove(&catalog, &note).await;
        let mut left: Vec<String> =
            left.iter().map(|left| hexfloe_store::secrets::conceal(left).into_owned()).collect();
        if let Err(error) = std::fs::remove_dir_all(&folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            left.push(format!("{}: {error}", folder.display()));
        }
        if left.is_empty() {
            journal.end().map_err(machine("remove the note of what was made"))?;
        }
        let Some(scenarios) = played.transpose()? else { return Err(Error::Interrupted(left)) };
        let verdict = Verdict {
            version: 1,
            catalog: self.settings.name.clone(),
            kind: match self.settings.kind {
                CatalogKind::Sql => "sql",
                CatalogKind::Rest => "rest",
            },
            warehouse: hexfloe_store::secrets::conceal(&self.settings.warehouse).into_owned(),
            namespace: note.namespace.join("."),
            seed: self.seed,
            holds: false,
            sentence: String::new(),
            scenarios,
            left,
            took_ms: u64::try_from(self.environment.now_ms() - begun_ms).unwrap_or(0),
        };
        Ok(verdict.conclude())
    }

    async fn play_all(
        &self,
        catalog: &OpenCatalog,
        note: &mut Note,
        journal: &mut Journal,
        folder: &std::path::Path,
        tell: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Vec<Played>, Error> {
        self.namespace(catalog, note).await?;
        let mut random = Random::new(self.seed);
        let (of, known) = (self.scenarios.len(), note.clone());
        let tell = Mutex::new(tell);
        let tell = |progress: Progress<'_>| (tell.lock().unwrap_or_else(PoisonError::into_inner))(progress);
        let begin = |(index, scenario)| {
            tell(Progress::Begins(index + 1, of, scenario));
            let stage = Stage::new(self, catalog, &known, folder, scenario, random.fork());
            async move { Ok::<Outcome, Error>(stage.map_err(machine("make the input of a scenario"))?.play(scenario).await) }
        };
        let mut playing = futures::stream::iter(self.scenarios.iter().enumerate()).map(begin).buffered(AT_ONCE);
        let mut all = Vec::new();
        while let Some(outcome) = playing.next().await {
            let Outcome { played, places } = outcome?;
            // A place that a server has chosen under another name is known to the table alone.
            let own: Vec<String> = places.into_iter().filter(|place| note.is_own_place(place)).collect();
            note.places.extend(own);
            journal.keep(note).map_err(machine("note what was made"))?;
            tell(Progress::Ends(&played));
            all.push(played);
        }
        Ok(all)
    }

    /// Makes the namespace, or looks whether the one that was given is there.
    async fn namespace(&self, catalog: &OpenCatalog, note: &Note) -> Result<(), Error> {
        let namespace = note.namespace().map_err(machine("name the namespace"))?;
        if note.made {
            return Ok(catalog.ensure_namespace(&namespace).await?);
        }
        match catalog.has_namespace(&namespace).await? {
            true => Ok(()),
            false => Err(Error::Unusable(format!("there is no namespace {}", namespace.as_ref().join(".")))),
        }
    }

    /// Takes away what verifications that were killed have left in this catalog, and names what is left elsewhere.
    async fn remove_earlier(&self, catalog: &OpenCatalog, tell: &mut (dyn FnMut(Progress<'_>) + Send)) {
        let identity = scratch::identity(&self.settings, &self.base);
        for (journal, note) in scratch::abandoned(&self.notes) {
            let name = note.namespace.join(".");
            if note.identity != identity {
                tell(Progress::Earlier(format!(
                    "a verification of catalog {} was killed, and left namespace {name} there: verify that catalog, and it goes",
                    note.catalog
                )));
                continue;
            }
            let folder = self.scratch.join(format!("hexfloe-verify-{}", note.id));
            drop(std::fs::remove_dir_all(folder));
            let left = scratch::remove(catalog, &note).await;
            let told = match left.is_empty() {
                true => format!("removed what a verification had left that was killed (namespace {name})"),
                false => format!("a verification that was killed has left this: {}", left.join("; ")),
            };
            if left.is_empty() {
                // It is named again the next time.
                drop(journal.end());
            }
            tell(Progress::Earlier(told));
        }
        if let Ok(unknown) = scratch::unknown(catalog, &scratch::noted(&self.notes)).await {
            for name in unknown {
                tell(Progress::Earlier(format!(
                    "namespace {name} is named as those of verifications of other users or machines are; if it is one, and none is at work, this removes it: hexfloe verify --remove {name}"
                )));
            }
        }
    }

    /// Takes away a namespace that a verification has left, on whatever machine it ran; gives what is left. `notes` says which
    /// verifications are at work on this one.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] for what is no namespace of a verification, or of one that is at work.
    pub async fn remove(
        settings: &CatalogSettings,
        base: &std::path::Path,
        notes: &std::path::Path,
        namespace: &str,
    ) -> Result<Vec<String>, Error> {
        let Some(id) = namespace.strip_prefix(scratch::PREFIX).filter(|id| scratch::is_id(id)) else {
            let form = format!("those are {} and eight digits", scratch::PREFIX);
            return Err(Error::Unusable(format!("{namespace:?} is no namespace of a verification: {form}")));
        };
        let abandoned = scratch::abandoned(notes);
        let is_abandoned = abandoned.iter().any(|(_, note)| note.id == id);
        if !is_abandoned && scratch::noted(notes).iter().any(|noted| noted == namespace) {
            return Err(Error::Unusable(format!("the verification of {namespace} is at work")));
        }
        let catalog = OpenCatalog::open(settings, base, Access::Existing).await?;
        let note = Note::new(id.to_owned(), settings, base, None);
        if !catalog.has_namespace(&note.namespace().map_err(machine("name the namespace"))?).await? {
            return Err(Error::Unusable(format!("there is no namespace {namespace}")));
        }
        Ok(scratch::remove(&catalog, &note).await)
    }
}
