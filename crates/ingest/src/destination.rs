//! The table a job writes to: there already, or made when the first byte for it is ready.
//!
//! A job that is refused should leave nothing behind, so a new table is not made before its first file is begun. Until
//! then its schema and partition spec are known from its definition.

use std::sync::atomic::{AtomicBool, Ordering};

use hexfloe_catalog::{OpenCatalog, TableDefinition};
use hexfloe_commit::SharedEnvironment;
use iceberg::TableIdent;
use iceberg::spec::TableMetadata;
use iceberg::table::Table;
use tokio::sync::OnceCell;

use crate::Error;

/// A table to write to.
#[derive(Debug)]
pub(crate) struct Destination {
    catalog: OpenCatalog,
    environment: SharedEnvironment,
    name: TableIdent,
    /// How to make it, and what its metadata will be.
    planned: Option<(TableDefinition, TableMetadata)>,
    table: OnceCell<Table>,
    /// Whether `table` was made here.
    ours: AtomicBool,
}

impl Destination {
    /// A table that is there.
    pub(crate) fn existing(catalog: OpenCatalog, environment: SharedEnvironment, table: Table) -> Self {
        let name = table.identifier().clone();
        Self {
            catalog,
            environment,
            name,
            planned: None,
            table: OnceCell::new_with(Some(table)),
            ours: AtomicBool::new(false),
        }
    }

    /// A table that is to be made.
    pub(crate) fn planned(
        catalog: OpenCatalog,
        environment: SharedEnvironment,
        name: TableIdent,
        definition: TableDefinition,
    ) -> Result<Self, Error> {
        let staged = definition.staged(&name)?;
        Ok(Self {
            catalog,
            environment,
            name,
            planned: Some((definition, staged)),
            table: OnceCell::new(),
            ours: AtomicBool::new(false),
        })
    }

    /// Its metadata, or what it will be; a planned table has no location yet.
    pub(crate) fn metadata(&self) -> Option<&TableMetadata> {
        let planned = self.planned.as_ref().map(|(_, metadata)| metadata);
        self.table.get().map(Table::metadata).or(planned)
    }

    /// The table; made now if need be.
    pub(crate) async fn table(&self) -> Result<&Table, Error> {
        self.table.get_or_try_init(|| self.make()).await
    }

    async fn make(&self) -> Result<Table, Error> {
        let Some((definition, staged)) = &self.planned else {
            return Err(Error::Raced { table: self.name.to_string() });
        };
        let created = self.catalog.create(&self.name, definition, self.environment.uuid()).await?;
        self.ours.store(created.ours, Ordering::Relaxed);
        let metadata = created.table.metadata();
        let same = metadata.current_schema().as_struct() == staged.current_schema().as_struct()
            && metadata.default_partition_spec().fields() == staged.default_partition_spec().fields();
        if same { Ok(created.table) } else { Err(Error::Raced { table: self.name.to_string() }) }
    }

    /// Takes the table away again if it was made here and nobody has used it: the batch was not committed.
    pub(crate) async fn discard(&self) {
        if self.ours.load(Ordering::Relaxed)
            && let Some(table) = self.table.get()
        {
            // An empty table left behind harms nobody, and the next run uses it.
            let _ = self.catalog.discard(table).await;
        }
    }
}
