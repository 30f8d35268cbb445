//! An open catalog: the catalog, the commit port, and the store under both.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use hexfloe_store::{Location, Store};
use iceberg::table::Table;
use iceberg::{Catalog, CatalogBuilder, NamespaceIdent, TableIdent};
use iceberg_catalog_sql::{SqlBindStyle, SqlCatalogBuilder};
use uuid::Uuid;

use crate::{CatalogKind, CatalogSettings, CommitPort, Error, SqlitePort, TableDefinition};

/// Whether opening may create what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Make the database and its folder when missing.
    Create,
    /// Fail with [`Error::NoCatalog`] when missing; opening changes nothing.
    Existing,
}

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
    warehouse: Location,
}

impl OpenCatalog {
    /// Opens the catalog of `settings`; relative paths are relative to `base`. Tables are on the local disk.
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
        let CatalogKind::Sql = settings.kind;
        if settings.name.trim().is_empty() {
            return Err(Error::Settings("the name is empty".to_owned()));
        }
        let database = settings.database(base)?;
        let warehouse = settings.warehouse(base)?;
        if store.mounted(warehouse.family(), warehouse.authority()).is_none() {
            return Err(Error::Settings(format!(
                "warehouse {:?} is not supported: there is no store for {}:// in this version; write `file:FOLDER`",
                settings.warehouse,
                warehouse.scheme()
            )));
        }
        let port = SqlitePort::open(&settings.name, &database, access, store.clone()).await?;
        let opened = SqlCatalogBuilder::default()
            .uri(port.url())
            .warehouse_location(warehouse.to_string())
            .sql_bind_style(SqlBindStyle::QMark)
            .with_storage_factory(Arc::new(hexfloe_store::MountedStorageFactory::new(store.clone())))
            .load(settings.name.clone(), HashMap::new())
            .await;
        let catalog =
            opened.map_err(|source| Error::Open { path: database.display().to_string(), source: Box::new(source) })?;
        Ok(Self { name: settings.name.clone(), catalog: Arc::new(catalog), port: Arc::new(port), store, warehouse })
    }

    /// This catalog with another commit port: a decorated one, for instance.
    #[must_use]
    pub fn with_port(self, wrap: impl FnOnce(Arc<dyn CommitPort>) -> Arc<dyn CommitPort>) -> Self {
        let port = wrap(Arc::clone(&self.port));
        Self { port, ..self }
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
        match self.catalog.load_table(table).await {
            Ok(loaded) => Ok(Some(loaded)),
            Err(error) => match error.kind() {
                iceberg::ErrorKind::TableNotFound | iceberg::ErrorKind::NamespaceNotFound => Ok(None),
                _ => Err(Error::table("load", table, error)),
            },
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
        let location = TableDefinition::location(&self.warehouse, table, id)?;
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
            (None, Ok(_)) => {
                let gone = "the catalog does not have it after its creation; somebody dropped it, run again";
                Err(Error::table("create", table, iceberg::Error::new(iceberg::ErrorKind::Unexpected, gone)))
            }
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

    /// Makes the namespace and those above it, where they are missing.
    async fn ensure_namespace(&self, namespace: &NamespaceIdent) -> Result<(), Error> {
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
            if let Err(error) = self.catalog.create_namespace(&level, HashMap::new()).await {
                // Two processes may both have found it missing.
                let exists = self.catalog.namespace_exists(&level).await;
                if !exists.is_ok_and(|exists| exists) {
                    return Err(failed(error));
                }
            }
        }
        Ok(())
    }
}
