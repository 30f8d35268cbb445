//! A catalog in memory: one pointer for each table, swapped only if it is what the commit was decided on.
//!
//! Metadata files are real ones, in the store, and a crash between writing one and the swap leaves it there. Times in metadata
//! are those of the environment: the builder of the `iceberg` crate reads the machine's clock, which is put right before
//! anything is written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest, Error};
use hexfloe_commit::SharedEnvironment;
use hexfloe_store::Store;
use iceberg::spec::{TableMetadata, TableMetadataBuilder, TableMetadataRef};
use iceberg::table::Table;
use iceberg::{Catalog, ErrorKind, Namespace, NamespaceIdent, Result, Runtime, TableCommit, TableCreation, TableIdent};
use serde_json::Value;

/// What the catalog holds, shared by all who have it open.
#[derive(Default)]
pub struct Pointers(Mutex<State>);

#[derive(Default)]
struct State {
    namespaces: BTreeSet<Vec<String>>,
    tables: BTreeMap<TableIdent, String>,
    versions: Vec<Version>,
    /// By location: metadata files are taken apart once, as long as they hold what they held.
    read: HashMap<String, (Bytes, TableMetadataRef)>,
}

/// A table as it was from one swap to the next.
#[derive(Clone, Debug)]
pub struct Version {
    /// The table.
    pub table: TableIdent,
    /// Its metadata file.
    pub location: String,
    /// What is in it.
    pub metadata: TableMetadataRef,
}

impl Pointers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every version that any table has had, in the order of the swaps.
    pub fn versions(&self) -> Vec<Version> {
        self.state().versions.clone()
    }

    /// How many versions there have been so far.
    pub fn version_count(&self) -> usize {
        self.state().versions.len()
    }

    /// Makes `metadata` the table's if its pointer is `from` (`None`: if there is no such table); else gives what it is.
    fn swap(
        &self,
        table: &TableIdent,
        from: Option<&str>,
        to: &str,
        text: Bytes,
        metadata: TableMetadataRef,
    ) -> std::result::Result<(), Option<String>> {
        let mut state = self.state();
        let current = state.tables.get(table).cloned();
        if current.as_deref() != from {
            return Err(current);
        }
        state.tables.insert(table.clone(), to.to_owned());
        state.read.insert(to.to_owned(), (text, Arc::clone(&metadata)));
        state.versions.push(Version { table: table.clone(), location: to.to_owned(), metadata });
        Ok(())
    }

    /// What is in a metadata file with these bytes.
    fn parse(&self, location: &str, bytes: Bytes) -> Result<TableMetadataRef> {
        if let Some((text, known)) = self.state().read.get(location)
            && *text == bytes
        {
            return Ok(Arc::clone(known));
        }
        let metadata: TableMetadataRef = Arc::new(serde_json::from_slice::<TableMetadata>(&bytes)?);
        self.state().read.insert(location.to_owned(), (bytes, Arc::clone(&metadata)));
        Ok(metadata)
    }
}

impl fmt::Debug for Pointers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pointers").field("tables", &self.state().tables).finish_non_exhaustive()
    }
}

/// The catalog and its commit port, as one process has them open. To be used within a runtime of tokio.
#[derive(Clone, Debug)]
pub struct MemoryCatalog {
    pointers: Arc<Pointers>,
    store: Store,
    environment: SharedEnvironment,
}

impl MemoryCatalog {
    /// Opens the catalog: metadata files go to `store`, their names and times come from `environment`.
    pub fn open(pointers: Arc<Pointers>, store: Store, environment: SharedEnvironment) -> Self {
        Self { pointers, store, environment }
    }

    /// Dates metadata by the environment, and gives it with its text.
    ///
    /// What `built` says was made now is what has the time it was last updated, unless that is the time of a snapshot.
    fn dated(&self, built: TableMetadata, before: Option<&TableMetadata>) -> Result<(TableMetadata, String)> {
        let is_new = |id| before.is_none_or(|before| before.snapshot_by_id(id).is_none());
        let adds_one = built.current_snapshot_id().is_some_and(is_new)
            || built.snapshots().any(|snapshot| is_new(snapshot.snapshot_id()));
        if adds_one {
            let text = serde_json::to_string(&built)?;
            return Ok((built, text));
        }
        let read = built.last_updated_ms();
        let now_ms = self.environment.now_ms().max(before.map_or(0, TableMetadata::last_updated_ms));
        let mut json = serde_json::to_value(&built)?;
        if let Some(updated) = json.get_mut("last-updated-ms") {
            *updated = now_ms.into();
        }
        let log = json.get_mut("snapshot-log").and_then(Value::as_array_mut).into_iter().flatten();
        for entry in log.filter_map(|entry| entry.get_mut("timestamp-ms")).filter(|at| at.as_i64() == Some(read)) {
            *entry = now_ms.into();
        }
        let text = json.to_string();
        Ok((serde_json::from_value(json)?, text))
    }

    fn metadata_location(&self, metadata: &TableMetadata) -> String {
        // As many files have gone before as are in the log, or have dropped out of it.
        let number = metadata.metadata_log().last().and_then(|entry| version_number(&entry.metadata_file));
        let number = number.map_or(0, |number| number + 1);
        format!("{}/metadata/{number:05}-{}.metadata.json", metadata.location(), self.environment.uuid())
    }

    async fn write(&self, location: &str, text: Bytes) -> Result<()> {
        self.store.file_io().new_output(location)?.write(text).await
    }

    async fn read(&self, location: &str) -> Result<(Bytes, TableMetadataRef)> {
        let bytes = self.store.file_io().new_input(location)?.read().await?;
        Ok((bytes.clone(), self.pointers.parse(location, bytes)?))
    }

    fn table(&self, table: &TableIdent, location: String, metadata: TableMetadataRef) -> Result<Table> {
        Table::builder()
            .file_io(self.store.file_io())
            .metadata_location(location)
            .metadata(metadata)
            .identifier(table.clone())
            .runtime(Runtime::try_current()?)
            .build()
    }

    /// Metadata files that fell out of the log go, where the table asks for it.
    async fn forget_superseded(&self, before: &TableMetadata, after: &TableMetadata) {
        let asked = after.properties().get("write.metadata.delete-after-commit.enabled");
        if !asked.is_some_and(|asked| asked.eq_ignore_ascii_case("true")) {
            return;
        }
        let kept: HashSet<&str> = after.metadata_log().iter().map(|entry| entry.metadata_file.as_str()).collect();
        for entry in before.metadata_log().iter().filter(|entry| !kept.contains(entry.metadata_file.as_str())) {
            let _ = self.store.delete(&entry.metadata_file).await;
        }
    }

    fn stage(&self, request: &CommitRequest) -> Result<(String, Bytes, Table)> {
        let base = &request.base;
        let from = base.metadata_location_result()?.to_owned();
        let mut builder = base.metadata().clone().into_builder(Some(from));
        for update in request.updates.iter().cloned() {
            builder = update.apply(builder)?;
        }
        let (metadata, text) = self.dated(builder.build()?.metadata, Some(base.metadata()))?;
        let to = self.metadata_location(&metadata);
        let table = self.table(base.identifier(), to.clone(), Arc::new(metadata))?;
        Ok((to, text.into(), table))
    }
}

/// The number at the beginning of a metadata file's name.
fn version_number(location: &str) -> Option<u32> {
    let (_, name) = location.rsplit_once('/')?;
    name.split('-').next()?.parse().ok()
}

fn error(kind: ErrorKind, message: String) -> iceberg::Error {
    iceberg::Error::new(kind, message)
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(error(ErrorKind::FeatureUnsupported, format!("the catalog in memory does not {what}")))
}

#[async_trait]
impl CommitPort for MemoryCatalog {
    async fn commit(&self, request: &CommitRequest) -> std::result::Result<CommitOutcome, Error> {
        for requirement in &request.requirements {
            if let Err(error) = requirement.check(Some(request.base.metadata())) {
                return Ok(CommitOutcome::Conflict { reason: error.to_string() });
            }
        }
        let base = &request.base;
        let failed = |action: &'static str| {
            let table = base.identifier().to_string();
            move |source: iceberg::Error| Error::Table { action, table, source: Box::new(source) }
        };
        let from = base.metadata_location_result().map_err(failed("prepare the commit to"))?;
        let (to, text, table) = self.stage(request).map_err(failed("prepare the commit to"))?;
        if let Err(error) = self.write(&to, text.clone()).await {
            let _ = self.store.delete(&to).await;
            return Err(failed("write the metadata of")(error));
        }
        if let Err(current) = self.pointers.swap(base.identifier(), Some(from), &to, text, table.metadata_ref()) {
            let _ = self.store.delete(&to).await;
            let reason = match current {
                Some(current) => format!("the table moved on to {current}"),
                None => "the table is gone".to_owned(),
            };
            return Ok(CommitOutcome::Conflict { reason });
        }
        self.forget_superseded(base.metadata(), table.metadata()).await;
        Ok(CommitOutcome::Committed(table))
    }

    async fn discard(&self, created: &Table) -> std::result::Result<bool, Error> {
        let mut state = self.pointers.state();
        let same = state.tables.get(created.identifier()).map(String::as_str) == created.metadata_location();
        Ok(same && state.tables.remove(created.identifier()).is_some())
    }
}

#[async_trait]
impl Catalog for MemoryCatalog {
    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        let above = parent.map(|parent| parent.clone().inner()).unwrap_or_default();
        let namespaces: Vec<Vec<String>> = self.pointers.state().namespaces.iter().cloned().collect();
        let below = namespaces.into_iter().filter(|name| name.len() == above.len() + 1 && name.starts_with(&above));
        below.map(NamespaceIdent::from_vec).collect()
    }

    async fn create_namespace(&self, namespace: &NamespaceIdent, _: HashMap<String, String>) -> Result<Namespace> {
        if !self.pointers.state().namespaces.insert(namespace.clone().inner()) {
            return Err(error(ErrorKind::NamespaceAlreadyExists, format!("there is a namespace {namespace}")));
        }
        Ok(Namespace::new(namespace.clone()))
    }

    async fn get_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace> {
        if self.namespace_exists(namespace).await? {
            return Ok(Namespace::new(namespace.clone()));
        }
        Err(error(ErrorKind::NamespaceNotFound, format!("there is no namespace {namespace}")))
    }

    async fn namespace_exists(&self, namespace: &NamespaceIdent) -> Result<bool> {
        Ok(self.pointers.state().namespaces.contains(&namespace.clone().inner()))
    }

    async fn update_namespace(&self, _: &NamespaceIdent, _: HashMap<String, String>) -> Result<()> {
        unsupported("keep properties of namespaces")
    }

    async fn drop_namespace(&self, namespace: &NamespaceIdent) -> Result<()> {
        let mut state = self.pointers.state();
        if state.tables.keys().any(|table| table.namespace() == namespace) {
            return Err(error(ErrorKind::Unexpected, format!("namespace {namespace} is not empty")));
        }
        state.namespaces.remove(&namespace.clone().inner());
        Ok(())
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        let state = self.pointers.state();
        Ok(state.tables.keys().filter(|table| table.namespace() == namespace).cloned().collect())
    }

    async fn create_table(&self, namespace: &NamespaceIdent, creation: TableCreation) -> Result<Table> {
        let table = TableIdent::new(namespace.clone(), creation.name.clone());
        if creation.location.is_none() {
            return unsupported("choose the place of a table");
        }
        let built = TableMetadataBuilder::from_table_creation(creation)?.build()?.metadata;
        // Nor does the builder take the id of a table from anybody.
        let built = built.into_builder(None).assign_uuid(self.environment.uuid()).build()?.metadata;
        let (metadata, text) = self.dated(built, None)?;
        let metadata = Arc::new(metadata);
        let location = self.metadata_location(&metadata);
        let text = Bytes::from(text);
        self.write(&location, text.clone()).await?;
        if self.pointers.swap(&table, None, &location, text, Arc::clone(&metadata)).is_err() {
            return Err(error(ErrorKind::TableAlreadyExists, format!("there is a table {table}")));
        }
        self.table(&table, location, metadata)
    }

    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        let location = self.pointers.state().tables.get(table).cloned();
        let missing = || error(ErrorKind::TableNotFound, format!("there is no table {table}"));
        let location = location.ok_or_else(missing)?;
        let (_, metadata) = self.read(&location).await?;
        self.table(table, location, metadata)
    }

    async fn drop_table(&self, table: &TableIdent) -> Result<()> {
        match self.pointers.state().tables.remove(table) {
            Some(_) => Ok(()),
            None => Err(error(ErrorKind::TableNotFound, format!("there is no table {table}"))),
        }
    }

    async fn purge_table(&self, _: &TableIdent) -> Result<()> {
        unsupported("remove files")
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        Ok(self.pointers.state().tables.contains_key(table))
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        let mut state = self.pointers.state();
        if state.tables.contains_key(to) {
            return Err(error(ErrorKind::TableAlreadyExists, format!("there is a table {to}")));
        }
        let location = state.tables.remove(from);
        let location = location.ok_or_else(|| error(ErrorKind::TableNotFound, format!("there is no table {from}")))?;
        state.tables.insert(to.clone(), location);
        Ok(())
    }

    async fn register_table(&self, table: &TableIdent, metadata_location: String) -> Result<Table> {
        let (text, metadata) = self.read(&metadata_location).await?;
        if self.pointers.swap(table, None, &metadata_location, text, Arc::clone(&metadata)).is_err() {
            return Err(error(ErrorKind::TableAlreadyExists, format!("there is a table {table}")));
        }
        self.table(table, metadata_location, metadata)
    }

    async fn update_table(&self, _: TableCommit) -> Result<Table> {
        unsupported("commit but through its port")
    }
}
