//! A table that is defined but not yet created.

use std::collections::HashMap;

use hexfloe_store::Location;
use iceberg::spec::{Schema, TableMetadata, TableMetadataBuilder, UnboundPartitionSpec};
use iceberg::{TableCreation, TableIdent};
use uuid::Uuid;

use crate::Error;

/// Everything a new table is made from.
///
/// Field ids are assigned when a table is created, in the order of the schema. [`TableDefinition::staged`] gives the
/// metadata the table will have, so that a writer can know the ids before there is a table.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// Columns; the ids only need to be unique and to fit the partition spec.
    pub schema: Schema,
    /// How files are partitioned.
    pub partition_spec: UnboundPartitionSpec,
    /// Table properties.
    pub properties: HashMap<String, String>,
}

impl TableDefinition {
    /// The location of a new table: the warehouse, the namespace, and the name with a suffix that is never used twice,
    /// so that a table created after another was dropped does not inherit its files.
    pub(crate) fn location(warehouse: &Location, table: &TableIdent, id: Uuid) -> Result<String, Error> {
        let namespace = table.namespace().clone().inner().join("/");
        Ok(warehouse.join(&format!("{namespace}/{}", Self::folder(table, id)))?.to_string())
    }

    /// The last part of the location of a new table.
    pub(crate) fn folder(table: &TableIdent, id: Uuid) -> String {
        // The whole id: the first digits of a time-ordered one are a clock that two processes share.
        format!("{}-{}", table.name(), id.simple())
    }

    pub(crate) fn creation(&self, table: &TableIdent, location: String) -> TableCreation {
        TableCreation::builder()
            .name(table.name().to_owned())
            .location(location)
            .schema(self.schema.clone())
            .partition_spec(self.partition_spec.clone())
            .properties(self.properties.clone())
            .build()
    }

    /// The metadata a table made from this definition has, with a location that is not to be used.
    ///
    /// # Errors
    ///
    /// [`Error::Definition`] when schema and partition spec do not fit.
    pub fn staged(&self, table: &TableIdent) -> Result<TableMetadata, Error> {
        let creation = self.creation(table, "memory:///staged".to_owned());
        let built = TableMetadataBuilder::from_table_creation(creation).and_then(TableMetadataBuilder::build);
        Ok(built.map_err(|error| Error::Definition(Box::new(error)))?.metadata)
    }
}
