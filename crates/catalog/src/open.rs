//! An open catalog: the catalog, the commit port, and the store under both.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use hexfloe_store::{Location, Store};
use iceberg::table::Table;
use iceberg::{Catalog, CatalogBuilder, NamespaceIdent, TableIdent};
use iceberg_catalog_sql::{SqlBindStyle, SqlCatalogBuilder};
use uuid::Uuid;

use crate::pointed::PointedCatalog;
use crate::rest::{Client, FIRST_WAIT, RestCatalog, RestPort, ServerFacts, pause};
use crate::sql::{SqlPort, name_of};
use crate::{CatalogKind, CatalogSettings, CommitPort, Error, ErrorKind, TableDefinition};

/// Whether opening may create what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Make the database and its folder when missing.
    Create,
    /// Fail with [`Error::NoCatalog`] when missing; opening changes nothing.
    Existing,
}

/// How often a server is asked to make a namespace or a table, while it is away or in disorder.
const CREATIONS: u32 = 5;

/// How often a table is loaded when its metadata file is not where the catalog said.
const LOADS: u32 = 3;

/// How often the tables of a SQL catalog are looked for, and made.
const OPENINGS: u32 = 5;

/// The outcome of [`OpenCatalog::create`].
#[derive(Debug)]
pub struct Created {
    /// The table under that name, now.
    pub table: Table,
    /// Whether it is the one this call made; otherwise somebody else was first.
    pub ours: bool,
}

/// A catalog ready for work. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OpenCatalog {
    name: String,
    catalog: Arc<dyn Catalog>,
    port: Arc<dyn CommitPort>,
    store: Store,
    kind: Kind,
}

/// What differs between the kinds of catalog when a table is made.
#[derive(Clone, Debug)]
enum Kind {
    /// We write the first metadata file ourselves; so does a catalog that was assembled.
    Sql { warehouse: Location },
    /// The server does; it may also choose the place.
    /// A catalog that was put around it is asked for tables in its place.
    Rest { catalog: RestCatalog, decorated: bool },
}

impl OpenCatalog {
    /// Opens the catalog of `settings`; relative paths are relative to `base`. Tables are on the local disk, or in stores
    /// across the network that the properties and the environment tell how to reach.
    ///
    /// # Errors
    ///
    /// [`Error::Settings`], [`Error::NoCatalog`], or the failure to open the database.
    pub async fn open(settings: &CatalogSettings, base: &Path, access: Access) -> Result<Self, Error> {
        Self::open_with(settings, base, access, Store::local()).await
    }

    /// Like [`OpenCatalog::open`], with the stores given: decorated ones, for instance.
    ///
    /// # Errors
    ///
    /// As for [`OpenCatalog::open`].
    pub async fn open_with(
        settings: &CatalogSettings,
        base: &Path,
        access: Access,
        store: Store,
    ) -> Result<Self, Error> {
        if settings.name.trim().is_empty() {
            return Err(Error::Settings("the name is empty".to_owned()));
        }
        let roots = settings.roots(base)?;
        match settings.kind {
            CatalogKind::Sql => {
                let store = store.with_remote(settings.store_properties(), roots.as_deref())?;
                Self::open_sql(settings, base, access, store).await
            }
            CatalogKind::Rest => {
                let client = Arc::new(Client::connect(settings, roots.as_deref()).await?);
                let merged = CatalogSettings { properties: client.properties.clone(), ..settings.clone() };
                let store = store.with_remote(merged.store_properties(), roots.as_deref())?;
                let catalog = RestCatalog::new(client, store.clone());
                let port = Arc::new(RestPort::new(catalog.clone()));
                let name = settings.name.clone();
                Ok(Self {
                    name,
                    catalog: Arc::new(catalog.clone()),
                    port,
                    store,
                    kind: Kind::Rest { catalog, decorated: false },
                })
            }
        }
    }

    async fn open_sql(settings: &CatalogSettings, base: &Path, access: Access, store: Store) -> Result<Self, Error> {
        let database = settings.database(base)?;
        let warehouse = settings.warehouse(base)?;
        store.serving(&warehouse)?;
        let port = SqlPort::open(&settings.name, &database, access, store.clone()).await?;
        let mut attempt = 0;
        let catalog = loop {
            attempt += 1;
            let opened = SqlCatalogBuilder::default()
                .uri(port.url())
                .warehouse_location(warehouse.to_string())
                .sql_bind_style(SqlBindStyle::DollarNumeric)
                .with_storage_factory(Arc::new(hexfloe_store::MountedStorageFactory::new(store.clone())))
                .load(settings.name.clone(), HashMap::from([("pool.max-connections".to_owned(), "4".to_owned())]))
                .await;
            match opened {
                Ok(catalog) => break catalog,
                // Two that make the catalog's tables at once: in PostgreSQL one of them fails, and finds them next time.
                Err(_) if attempt < OPENINGS => {}
                Err(source) => return Err(Error::Open { path: name_of(&database), source: Box::new(source) }),
            }
        };
        let catalog = PointedCatalog { catalog: Arc::new(catalog), pointers: port.pointers() };
        let name = settings.name.clone();
        Ok(Self { name, catalog: Arc::new(catalog), port: Arc::new(port), store, kind: Kind::Sql { warehouse } })
    }

    /// A catalog made of parts: one in memory, for instance, or one of another kind behind decorators. The first metadata file
    /// of a new table is written by `catalog`, at a location below `warehouse`.
    pub fn assemble(
        name: &str,
        catalog: Arc<dyn Catalog>,
        port: Arc<dyn CommitPort>,
        store: Store,
        warehouse: Location,
    ) -> Self {
        Self { name: name.to_owned(), catalog, port, store, kind: Kind::Sql { warehouse } }
    }

    /// This catalog with another commit port: a decorated one, for instance.
    #[must_use]
    pub fn with_port(self, wrap: impl FnOnce(Arc<dyn CommitPort>) -> Arc<dyn CommitPort>) -> Self {
        let port = wrap(Arc::clone(&self.port));
        Self { port, ..self }
    }

    /// This catalog with another in place of the `iceberg` crate's view of it: a decorated one, for instance.
    ///
    /// Loading tables, and looking for namespaces and making them, is seen through it. Two things are not, over REST: how a
    /// table is made, and how the commit port looks at a table after an answer that proves nothing. Errors of loading
    /// are then those of the `iceberg` crate, with what was behind them as their source.
    #[must_use]
    pub fn with_catalog(self, wrap: impl FnOnce(Arc<dyn Catalog>) -> Arc<dyn Catalog>) -> Self {
        let catalog = wrap(Arc::clone(&self.catalog));
        let kind = match self.kind {
            Kind::Rest { catalog, .. } => Kind::Rest { catalog, decorated: true },
            kind @ Kind::Sql { .. } => kind,
        };
        Self { catalog, kind, ..self }
    }

    /// The catalog's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The `iceberg` crate's view of the catalog, for listing and dropping. Commits go through [`OpenCatalog::port`].
    pub fn catalog(&self) -> &dyn Catalog {
        self.catalog.as_ref()
    }

    /// Where commits go.
    pub fn port(&self) -> &dyn CommitPort {
        self.port.as_ref()
    }

    /// The stores that tables live in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The table as it is now, never from a cache; `None` when there is no such table.
    ///
    /// # Errors
    ///
    /// When the catalog or the metadata file cannot be read.
    pub async fn load(&self, table: &TableIdent) -> Result<Option<Table>, Error> {
        if let Kind::Rest { catalog, decorated: false } = &self.kind {
            return catalog.load(table).await;
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.catalog.load_table(table).await {
                Ok(loaded) => return Ok(Some(loaded)),
                Err(error) => match error.kind() {
                    iceberg::ErrorKind::TableNotFound | iceberg::ErrorKind::NamespaceNotFound => return Ok(None),
                    // The pointer moved on, and the file it had pointed at was removed before it could be read.
                    _ if tries < LOADS
                        && hexfloe_store::Error::behind(&error).is_some_and(hexfloe_store::Error::is_not_found) => {}
                    _ => return Err(Error::table("load", table, error)),
                },
            }
        }
    }

    /// Creates a table, at a location below the warehouse that no table ever had (`id` makes it so), unless somebody
    /// else creates it first.
    ///
    /// Whatever the catalog answers, the table is loaded again and its uuid compared: some catalogs answer a second
    /// creation with success, and an answer can get lost.
    ///
    /// # Errors
    ///
    /// When there is no such table afterwards. Nothing of ours is left behind but what could not be removed; that is an
    /// unreferenced file like those of a crash, and no reason to fail.
    pub async fn create(&self, table: &TableIdent, definition: &TableDefinition, id: Uuid) -> Result<Created, Error> {
        self.ensure_namespace(table.namespace()).await?;
        let warehouse = match &self.kind {
            Kind::Sql { warehouse } => warehouse,
            Kind::Rest { catalog, .. } => return self.create_over_rest(catalog, table, definition, id).await,
        };
        let location = TableDefinition::location(warehouse, table, id)?;
        let creation = definition.creation(table, location.clone());
        let answer = self.catalog.create_table(table.namespace(), creation).await;
        let loaded = self.load(table).await?;
        let ours = loaded.as_ref().is_some_and(|loaded| loaded.metadata().location() == location);
        if !ours {
            // The location is ours alone, and no catalog entry points into it.
            let _ = self.store.file_io().delete_prefix(&location).await;
        }
        match (loaded, answer) {
            (Some(table), _) => Ok(Created { table, ours }),
            (None, Err(error)) => Err(Error::table("create", table, error)),
            (None, Ok(_)) => Err(Error::gone(table)),
        }
    }

    /// The server makes the metadata, and an answer that was lost may mean that it still does: nothing is removed here.
    async fn create_over_rest(
        &self,
        catalog: &RestCatalog,
        table: &TableIdent,
        definition: &TableDefinition,
        id: Uuid,
    ) -> Result<Created, Error> {
        // Below the namespace's place, or the warehouse's; a server that has neither chooses.
        let namespace = catalog.namespace_location(table.namespace()).await?;
        let place = match namespace.as_deref().map(Location::parse) {
            Some(Ok(namespace)) => Some(namespace.join(&TableDefinition::folder(table, id))?.to_string()),
            _ => match Location::parse(&catalog.client.warehouse) {
                Ok(warehouse) => Some(TableDefinition::location(&warehouse, table, id)?),
                Err(_) => None,
            },
        };
        let existed = self.load(table).await?;
        if let Some(table) = existed {
            return Ok(Created { table, ours: false });
        }
        let mut tries = 0;
        let (answer, loaded) = loop {
            tries += 1;
            let creation = definition.creation(table, place.clone().unwrap_or_default());
            let answer = catalog.create(table.namespace(), creation, place.clone()).await;
            let loaded = self.load(table).await?;
            let again = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
            // One that was only late is found at its place, or answered with a conflict, the next time.
            if loaded.is_some() || !again || tries == CREATIONS {
                break (answer, loaded);
            }
            pause(FIRST_WAIT * 2_u32.pow(tries - 1)).await;
        };
        let ours = |loaded: &Table| match (&place, &answer) {
            // Some servers answer a second creation with the table that is there, so the place is what tells.
            (Some(place), _) => loaded.metadata().location().trim_end_matches('/') == place,
            (None, Ok(answer)) => answer.metadata().uuid() == loaded.metadata().uuid(),
            (None, Err(_)) => false,
        };
        match (loaded, &answer) {
            (Some(table), _) => Ok(Created { ours: ours(&table), table }),
            (None, Ok(_)) => Err(Error::gone(table)),
            (None, Err(_)) => answer.map(|table| Created { table, ours: false }),
        }
    }

    /// What the server of a REST catalog says of itself.
    pub fn server(&self) -> Option<&ServerFacts> {
        match &self.kind {
            Kind::Sql { .. } => None,
            Kind::Rest { catalog, .. } => Some(&catalog.client.facts),
        }
    }

    /// Undoes a creation, if nobody has committed to the table since; says whether it did. What lies below its location,
    /// which is the table's alone, goes with it.
    ///
    /// # Errors
    ///
    /// When it is not known whether the table is still in the catalog; then nothing is removed.
    pub async fn discard(&self, created: &Table) -> Result<bool, Error> {
        let discarded = self.port.discard(created).await?;
        if discarded {
            // What cannot be removed is unreferenced.
            let _ = self.store.file_io().delete_prefix(created.metadata().location()).await;
        }
        Ok(discarded)
    }

    /// Whether there is a namespace.
    ///
    /// # Errors
    ///
    /// When the catalog cannot be asked.
    pub async fn has_namespace(&self, namespace: &NamespaceIdent) -> Result<bool, Error> {
        let failed = |error| Error::table("look for the namespace of", &format!("{namespace}.*"), error);
        self.catalog.namespace_exists(namespace).await.map_err(failed)
    }

    /// Makes the namespace and those above it, where they are missing.
    ///
    /// # Errors
    ///
    /// When one of them is not there afterwards.
    pub async fn ensure_namespace(&self, namespace: &NamespaceIdent) -> Result<(), Error> {
        let failed = |error| Error::table("create the namespace of", &format!("{namespace}.*"), error);
        if self.catalog.namespace_exists(namespace).await.map_err(failed)? {
            return Ok(());
        }
        let levels = namespace.clone().inner();
        for depth in 1..=levels.len() {
            let level = NamespaceIdent::from_vec(levels[..depth].to_vec()).map_err(failed)?;
            if self.catalog.namespace_exists(&level).await.map_err(failed)? {
                continue;
            }
            self.make_namespace(&level).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Makes one namespace. Several may have found it missing at once, and a server that has half made it for one of them
    /// may answer the others with an error of its own: while it is not there and not refused, it is asked for again.
    async fn make_namespace(&self, namespace: &NamespaceIdent) -> iceberg::Result<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            let Err(error) = self.catalog.create_namespace(namespace, HashMap::new()).await else { return Ok(()) };
            if self.catalog.namespace_exists(namespace).await.is_ok_and(|exists| exists) {
                return Ok(());
            }
            let inner = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<Error>());
            if tries == CREATIONS || !inner.is_some_and(|error| error.kind() == ErrorKind::Unavailable) {
                return Err(error);
            }
            pause(FIRST_WAIT * 2_u32.pow(tries - 1)).await;
        }
    }
}
