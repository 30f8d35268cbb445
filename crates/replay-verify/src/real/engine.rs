//! Another engine at the table of a scenario, real or simulated: it knows nothing of batches, and commits by Iceberg's own rules.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::compute::concat_batches;
use futures::TryStreamExt;
use hexfloe_catalog::{CommitOutcome, CommitRequest, OpenCatalog};
use hexfloe_commit::{Locations, Refs, SharedEnvironment, names};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{DataFile, ManifestEntryRef};
use iceberg::table::Table;
use iceberg::{TableIdent, TableRequirement, TableUpdate};

use crate::foreign::{Change, snapshot_of};
use crate::table::{self, Trouble};

/// How often it tries when somebody else is first.
const TRIES: u32 = 10;

/// The ids that a full ledger holds.
const LEDGER: u64 = 500;

/// See the module.
pub(crate) struct Engine<'a> {
    pub(crate) catalog: &'a OpenCatalog,
    pub(crate) table: &'a TableIdent,
    pub(crate) environment: &'a SharedEnvironment,
}

impl Engine<'_> {
    async fn load(&self) -> Result<Table, Trouble> {
        Ok(self.catalog.load(self.table).await?.ok_or("the table is gone")?)
    }

    async fn commit(&self, request: &CommitRequest) -> Result<(), Trouble> {
        match self.catalog.port().commit(request).await? {
            CommitOutcome::Committed(_) => Ok(()),
            CommitOutcome::Conflict { reason } | CommitOutcome::Unknown { reason, .. } => {
                Err(format!("another engine could not commit: {reason}").into())
            }
        }
    }

    /// Rewrites all files of main into one.
    pub(crate) async fn compact(&self) -> Result<(), Trouble> {
        let table = self.load().await?;
        let head = table.metadata().current_snapshot().ok_or("there is nothing to compact")?;
        let list = table.manifest_list_reader(head).load().await?;
        let mut live: Vec<ManifestEntryRef> = Vec::new();
        for manifest in list.entries() {
            let manifest = manifest.load_manifest(table.file_io()).await?;
            live.extend(manifest.entries().iter().filter(|entry| entry.is_alive()).cloned());
        }
        let file = self.rewrite(&table).await?;
        let (attempt, now_ms) = (self.environment.uuid(), self.environment.now_ms());
        self.commit(&snapshot_of(&table, Change::Replace(&live), file, attempt, now_ms).await?).await
    }

    /// Appends all rows once more.
    pub(crate) async fn append_again(&self) -> Result<(), Trouble> {
        let table = self.load().await?;
        let file = self.rewrite(&table).await?;
        let (attempt, now_ms) = (self.environment.uuid(), self.environment.now_ms());
        self.commit(&snapshot_of(&table, Change::Append, file, attempt, now_ms).await?).await
    }

    /// A file with all rows of the table.
    async fn rewrite(&self, table: &Table) -> Result<DataFile, Trouble> {
        let metadata = table.metadata();
        // File by file: the same rows in the same order, whatever the machine.
        let scan = table.scan().select_all().with_concurrency_limit(1).build()?.to_arrow().await?;
        let batches: Vec<RecordBatch> = scan.try_collect().await?;
        let schema = Arc::new(schema_to_arrow_schema(metadata.current_schema())?);
        let first = batches.first().ok_or("there are no rows to rewrite")?;
        let all = concat_batches(&first.schema(), &batches)?;
        let column = |field: &Arc<arrow::datatypes::Field>| {
            let column =
                all.column_by_name(field.name()).ok_or_else(|| format!("there is no column {}", field.name()))?;
            Ok::<_, Trouble>(arrow::compute::cast(column, field.data_type())?)
        };
        let columns = schema.fields().iter().map(column).collect::<Result<Vec<Arc<dyn Array>>, _>>()?;
        let (bytes, footer) = table::encode_columns(metadata, columns)?;
        let name = format!("compacted-{}.parquet", self.environment.uuid());
        table::put(self.catalog, metadata, Locations::of(metadata).data_file(&name), bytes, &footer).await
    }

    /// Lets all snapshots expire that no branch or tag is at. Their files stay.
    pub(crate) async fn forget_snapshots(&self) -> Result<(), Trouble> {
        let table = self.load().await?;
        let refs = Refs::of(table.metadata())?;
        let kept: BTreeSet<i64> = refs.branches.values().chain(refs.tags.values()).copied().collect();
        let all = table.metadata().snapshots().map(|snapshot| snapshot.snapshot_id());
        let snapshot_ids: Vec<i64> = all.filter(|id| !kept.contains(id)).collect();
        let requirements = vec![TableRequirement::UuidMatch { uuid: table.metadata().uuid() }];
        self.commit(&CommitRequest {
            base: table,
            requirements,
            updates: vec![TableUpdate::RemoveSnapshots { snapshot_ids }],
        })
        .await
    }

    /// Has the ledger hold as many other batches as it can.
    pub(crate) async fn forget_ledger(&self) -> Result<(), Trouble> {
        let others: Vec<String> =
            (0..LEDGER).map(|number| format!("{:032x}", u128::from(number) + (1 << 64))).collect();
        self.set(names::COMPLETED_BATCHES, &serde_json::to_string(&others)?).await
    }

    /// Sets a property that is nobody else's.
    pub(crate) async fn touch(&self) -> Result<(), Trouble> {
        self.set(TOUCHED, "yes").await
    }

    async fn set(&self, name: &str, value: &str) -> Result<(), Trouble> {
        for attempt in 1.. {
            let table = self.load().await?;
            let requirements = vec![TableRequirement::UuidMatch { uuid: table.metadata().uuid() }];
            let updates = HashMap::from([(name.to_owned(), value.to_owned())]);
            let updates = vec![TableUpdate::SetProperties { updates }];
            match self.commit(&CommitRequest { base: table, requirements, updates }).await {
                Err(_) if attempt < TRIES => {}
                settled => return settled,
            }
        }
        Ok(())
    }
}

/// The property that [`Engine::touch`] sets.
pub(crate) const TOUCHED: &str = "verify.touched";
