//! What one actor has in hands: the store and the catalog behind its gate, its clock, its random numbers, and where it reports.

use std::sync::{Arc, Mutex, PoisonError};

use hexfloe_catalog::OpenCatalog;
use hexfloe_commit::{Committer, SharedEnvironment};
use hexfloe_store::{Location, Store};
use iceberg::table::Table;
use iceberg::{Catalog, TableIdent};
use object_store::ObjectStore;

use crate::catalog::{MemoryCatalog, Pointers};
use crate::gated::{GatedCatalog, GatedPort, GatedStore};
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
}

/// What all actors of a run share.
#[derive(Clone)]
pub(crate) struct Lake {
    pub(crate) objects: MemoryStore,
    pub(crate) pointers: Arc<Pointers>,
    pub(crate) table: TableIdent,
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
}

impl Lake {
    pub(crate) fn new(objects: MemoryStore) -> Result<Self, Trouble> {
        let table = table::ident()?;
        Ok(Self { objects, pointers: Arc::default(), table, reports: Arc::default(), surprises: Arc::default() })
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
        offset_ms: i64,
        lens: &Lens,
        random: Random,
    ) -> Result<Process, Trouble> {
        let environment: SharedEnvironment = Arc::new(ActorEnvironment::new(gate.clone(), offset_ms));
        let mut objects: Arc<dyn ObjectStore> = Arc::new(GatedStore::new(Arc::new(self.objects.clone()), gate.clone()));
        if let Some(lens) = &lens.store {
            objects = lens(objects);
        }
        let store = Store::empty().mount("memory", "", objects);
        let memory = MemoryCatalog::open(Arc::clone(&self.pointers), store.clone(), Arc::clone(&environment));
        let port = Arc::new(GatedPort::new(Arc::new(memory.clone()), gate.clone()));
        let mut catalog: Arc<dyn Catalog> = Arc::new(GatedCatalog::new(Arc::new(memory), gate.clone()));
        if let Some(lens) = &lens.catalog {
            catalog = lens(catalog);
        }
        let catalog = OpenCatalog::assemble("simulated", catalog, port, store, Location::parse(WAREHOUSE)?);
        let committer = Committer::new(catalog.clone(), Arc::clone(&environment));
        let (name, gate, lake) = (name.to_owned(), gate.clone(), self.clone());
        Ok(Process { name, gate, environment, catalog, committer, lake, random })
    }
}

impl Process {
    pub(crate) async fn load(&self) -> Result<Table, Trouble> {
        Ok(self.catalog.load(&self.lake.table).await?.ok_or("the table is gone")?)
    }

    /// The version that is the table's now.
    pub(crate) fn version(&self) -> usize {
        self.lake.pointers.version_count().saturating_sub(1)
    }

    pub(crate) fn report(&self, batch: u64, branch: &str, since: usize, said: String) {
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
