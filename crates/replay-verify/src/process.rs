//! What one actor has in hands: the store and the catalog behind its gate, its clock, its random numbers, and where it reports.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hexfloe_catalog::{CommitPort, OpenCatalog, TableDefinition};
use hexfloe_commit::{Committer, SharedEnvironment};
use hexfloe_store::{Location, Store};
use iceberg::table::Table;
use iceberg::{Catalog, TableIdent};
use object_store::ObjectStore;

use crate::catalog::{MemoryCatalog, Pointers};
use crate::faults::{Fault, Faults, Host, Injection};
use crate::gated::{GatedCatalog, GatedPort, GatedStore, file_name};
use crate::random::Random;
use crate::scheduler::{ActorEnvironment, Gate};
use crate::store::MemoryStore;
use crate::table::{self, Trouble};

/// Where tables are.
const WAREHOUSE: &str = "memory:///lake";

/// Makes of one thing what an actor sees in its place.
pub type View<T> = Arc<dyn Fn(Arc<T>) -> Arc<T> + Send + Sync>;

/// What an actor sees instead of the real store and catalog: the place for faults and planted bugs.
#[derive(Clone, Default)]
pub struct Lens {
    /// Around the store.
    pub store: Option<View<dyn ObjectStore>>,
    /// Around the catalog.
    pub catalog: Option<View<dyn Catalog>>,
    /// Around the commit port.
    pub port: Option<PortView>,
}

/// What an actor sees in the place of a commit port, made from it and the catalog that it commits to.
pub type PortView = Arc<dyn Fn(Arc<dyn CommitPort>, Arc<dyn Catalog>) -> Arc<dyn CommitPort> + Send + Sync>;

/// An actor as the host of its faults.
#[derive(Debug)]
struct ActorHost {
    gate: Gate,
    /// Whether what a fault holds is held until somebody releases it; else it is for a while.
    until_released: bool,
}

#[async_trait]
impl Host for ActorHost {
    async fn crash(&self) {
        self.gate.die().await;
    }

    async fn hold(&self, at: &str) {
        if self.until_released {
            self.gate.hold(at).await;
        } else {
            self.gate.stall(at).await;
        }
    }

    async fn wait(&self, time: Duration) {
        self.gate.pause(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)).await;
    }

    fn note(&self, what: &str) {
        // Of a path, what tells one file from another.
        let (fault, path) = what.rsplit_once(' ').unwrap_or((what, ""));
        self.gate.note("fault", format!("{fault} {}", file_name(path)));
    }
}

/// How one process differs from the others.
#[derive(Clone, Default)]
pub(crate) struct Particulars {
    /// How far its clock is ahead.
    pub(crate) offset_ms: i64,
    pub(crate) lens: Lens,
    /// What goes wrong between its gates and the world.
    pub(crate) faults: Vec<Injection>,
    /// Whether what a fault holds waits for [`Scheduler::release`](crate::Scheduler::release).
    pub(crate) until_released: bool,
}

/// What all actors of a run share.
#[derive(Clone)]
pub(crate) struct Lake {
    pub(crate) objects: MemoryStore,
    pub(crate) pointers: Arc<Pointers>,
    pub(crate) table: TableIdent,
    /// What the first of all processes makes the table of.
    pub(crate) definition: TableDefinition,
    pub(crate) reports: Arc<Mutex<Vec<Report>>>,
    pub(crate) surprises: Arc<Mutex<Vec<String>>>,
}

/// A batch that somebody was told is in the table.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) actor: String,
    pub(crate) batch: u64,
    pub(crate) branch: String,
    /// The versions of the table during the call: from the one that was there when it began to the one there when it ended.
    pub(crate) versions: std::ops::RangeInclusive<usize>,
    pub(crate) said: String,
}

/// One process of an actor.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) gate: Gate,
    pub(crate) environment: SharedEnvironment,
    pub(crate) catalog: OpenCatalog,
    pub(crate) committer: Committer,
    pub(crate) lake: Lake,
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    /// The version that was the table's when the process began.
    began_at: usize,
}

impl Lake {
    pub(crate) fn new(objects: MemoryStore, definition: TableDefinition) -> Result<Self, Trouble> {
        let (table, pointers) = (table::ident()?, Arc::default());
        Ok(Self { objects, pointers, table, definition, reports: Arc::default(), surprises: Arc::default() })
    }

    /// The catalog without gates, for those who judge.
    pub(crate) fn open(&self, environment: SharedEnvironment) -> Result<OpenCatalog, Trouble> {
        let store = Store::empty().mount("memory", "", Arc::new(self.objects.clone()));
        let catalog = MemoryCatalog::open(Arc::clone(&self.pointers), store.clone(), environment);
        let port = Arc::new(catalog.clone());
        Ok(OpenCatalog::assemble("simulated", Arc::new(catalog), port, store, Location::parse(WAREHOUSE)?))
    }

    /// A new process of an actor.
    pub(crate) fn process(
        &self,
        name: &str,
        gate: &Gate,
        particulars: Particulars,
        random: Random,
    ) -> Result<Process, Trouble> {
        let Particulars { offset_ms, lens, faults, until_released } = particulars;
        let environment: SharedEnvironment = Arc::new(ActorEnvironment::new(gate.clone(), offset_ms));
        let faults = Faults::new(faults, Arc::new(ActorHost { gate: gate.clone(), until_released }));
        let objects = faults.store(Arc::new(self.objects.clone()));
        let mut objects: Arc<dyn ObjectStore> = Arc::new(GatedStore::new(objects, gate.clone()));
        if let Some(lens) = &lens.store {
            objects = lens(objects);
        }
        let store = Store::empty().mount("memory", "", objects);
        let memory = MemoryCatalog::open(Arc::clone(&self.pointers), store.clone(), Arc::clone(&environment));
        let port = faults.port(Arc::new(memory.clone()));
        let mut port: Arc<dyn CommitPort> = Arc::new(GatedPort::new(port, gate.clone()));
        let catalog = faults.catalog(Arc::new(memory));
        let mut catalog: Arc<dyn Catalog> = Arc::new(GatedCatalog::new(catalog, gate.clone()));
        if let Some(lens) = &lens.catalog {
            catalog = lens(catalog);
        }
        if let Some(lens) = &lens.port {
            port = lens(port, Arc::clone(&catalog));
        }
        let catalog = OpenCatalog::assemble("simulated", catalog, port, store, Location::parse(WAREHOUSE)?);
        let committer = Committer::new(catalog.clone(), Arc::clone(&environment));
        let began_at = self.version();
        let (name, gate, lake) = (name.to_owned(), gate.clone(), self.clone());
        Ok(Process { name, gate, environment, catalog, committer, lake, random, faults, began_at })
    }

    /// The version that is the table's now.
    pub(crate) fn version(&self) -> usize {
        self.pointers.version_count().saturating_sub(1)
    }
}

impl Process {
    pub(crate) async fn load(&self) -> Result<Table, Trouble> {
        Ok(self.catalog.load(&self.lake.table).await?.ok_or("the table is gone")?)
    }

    /// The table, which is made if there is none.
    pub(crate) async fn load_or_create(&self) -> Result<Table, Trouble> {
        let Lake { table, definition, .. } = &self.lake;
        match self.catalog.load(table).await? {
            Some(table) => Ok(table),
            None => Ok(self.catalog.create(table, definition, self.environment.uuid()).await?.table),
        }
    }

    /// The version that is the table's now.
    pub(crate) fn version(&self) -> usize {
        self.lake.version()
    }

    /// How often a fault has struck that may make a call fail.
    pub(crate) fn failures(&self) -> u32 {
        let fails = |fault| !matches!(fault, Fault::Delayed { .. } | Fault::Slow { .. });
        self.faults.struck().iter().filter(|(injection, _)| fails(injection.fault)).map(|(_, times)| times).sum()
    }

    pub(crate) fn report(&self, batch: u64, branch: &str, since: usize, said: String) {
        // What a stale table says was true at a load before.
        let stale = self.faults.struck().iter().any(|(injection, times)| injection.fault == Fault::Stale && *times > 0);
        let since = if stale { self.began_at } else { since };
        self.gate.note("is told", format!("batch {batch} on {branch}: {said}"));
        let report = Report {
            actor: self.name.clone(),
            batch,
            branch: branch.to_owned(),
            versions: since..=self.version(),
            said,
        };
        self.lake.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }

    /// Something that ought not to happen, whatever the others do.
    pub(crate) fn surprise(&self, what: &str) {
        self.gate.note("is surprised", what);
        self.lake.surprises.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {what}", self.name));
    }
}

/// An error with its causes, in one line.
pub(crate) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
