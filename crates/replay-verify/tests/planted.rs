//! Bugs that are put between a cleaner and what it sees, and that the simulation has to find.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use hexfloe_replay_verify::{Lens, Simulation, Violation};
use iceberg::table::Table;
use iceberg::{Catalog, Namespace, NamespaceIdent, Result, TableCommit, TableCreation, TableIdent};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult,
};

/// What the simulation says of the first seed in which the bug shows: one of so many.
fn found(seeds: u64, cleaners_see: Lens) -> Violation {
    let simulation = Simulation { cleaners_see };
    let failure = (0..seeds).find_map(|seed| simulation.run(seed).err());
    let failure = failure.unwrap_or_else(|| panic!("nothing was found in {seeds} schedules"));
    println!("seed {}: {}", failure.seed, failure.violation);
    failure.violation
}

#[test]
fn a_cleaner_that_ignores_the_margin_is_found() {
    let store = |inner| -> Arc<dyn ObjectStore> { Arc::new(EverythingIsOld(inner)) };
    let violation = found(50, Lens { store: Some(Arc::new(store)), ..Lens::default() });
    assert!(
        matches!(violation, Violation::Unreadable { .. } | Violation::Lost { .. } | Violation::Surprise(_)),
        "{violation}"
    );
}

#[test]
fn a_cleaner_that_ignores_refs_is_found() {
    let catalog = |inner| -> Arc<dyn Catalog> { Arc::new(Seen { inner, how: How::WithoutOtherSnapshots }) };
    let violation = found(50, Lens { catalog: Some(Arc::new(catalog)), ..Lens::default() });
    assert!(matches!(violation, Violation::Unreadable { .. } | Violation::Surprise(_)), "{violation}");
}

/// It takes a cleaner that stalls for a day between its first look and asking for the time, and a commit meanwhile.
#[test]
fn a_cleaner_that_does_not_load_the_table_again_is_found() {
    let catalog = |inner| -> Arc<dyn Catalog> { Arc::new(Seen { inner, how: How::AsBefore(Box::default()) }) };
    let violation = found(1_000, Lens { catalog: Some(Arc::new(catalog)), ..Lens::default() });
    assert!(
        matches!(violation, Violation::Unreadable { .. } | Violation::Lost { .. } | Violation::Surprise(_)),
        "{violation}"
    );
}

/// A store whose objects were all written long ago, but for the one that is asked for the time.
#[derive(Debug)]
struct EverythingIsOld(Arc<dyn ObjectStore>);

impl fmt::Display for EverythingIsOld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, and all of it is old", self.0)
    }
}

fn old(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { last_modified: chrono::DateTime::from_timestamp_millis(1_000_000_000_000).unwrap(), ..meta }
}

#[async_trait]
impl ObjectStore for EverythingIsOld {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.0.list(prefix).map(|listed| listed.map(old)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        let ListResult { objects, common_prefixes, .. } = self.0.list_with_delimiter(prefix).await?;
        Ok(ListResult { objects: objects.into_iter().map(old).collect(), common_prefixes })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

/// A catalog whose tables are not as they are.
#[derive(Debug)]
struct Seen {
    inner: Arc<dyn Catalog>,
    how: How,
}

#[derive(Debug)]
enum How {
    /// Only the current snapshot: neither branches nor tags, nor what was before.
    WithoutOtherSnapshots,
    /// Every second time as it was the time before.
    AsBefore(Box<Mutex<Option<Table>>>),
}

impl Seen {
    fn without_others(table: &Table) -> Result<Table> {
        let metadata = table.metadata();
        let current = metadata.current_snapshot_id();
        let others: Vec<i64> =
            metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).filter(|id| Some(*id) != current).collect();
        let mut json = serde_json::to_value(metadata)?;
        let snapshots = json.get_mut("snapshots").and_then(serde_json::Value::as_array_mut).into_iter();
        snapshots.for_each(|snapshots| {
            snapshots.retain(|snapshot| !snapshot["snapshot-id"].as_i64().is_some_and(|id| others.contains(&id)));
        });
        if let Some(refs) = json.get_mut("refs").and_then(serde_json::Value::as_object_mut) {
            refs.retain(|name, _| name == "main");
        }
        json["snapshot-log"] = serde_json::Value::Array(Vec::new());
        let builder = Table::builder()
            .file_io(table.file_io().clone())
            .metadata(serde_json::from_value::<iceberg::spec::TableMetadata>(json)?)
            .identifier(table.identifier().clone())
            .runtime(iceberg::Runtime::try_current()?);
        builder.metadata_location(table.metadata_location_result()?.to_owned()).build()
    }
}

#[async_trait]
impl Catalog for Seen {
    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        match &self.how {
            How::WithoutOtherSnapshots => Self::without_others(&self.inner.load_table(table).await?),
            How::AsBefore(before) => {
                let known = before.lock().unwrap().take();
                if let Some(known) = known {
                    return Ok(known);
                }
                let loaded = self.inner.load_table(table).await?;
                *before.lock().unwrap() = Some(loaded.clone());
                Ok(loaded)
            }
        }
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        self.inner.list_namespaces(parent).await
    }

    async fn create_namespace(&self, name: &NamespaceIdent, properties: HashMap<String, String>) -> Result<Namespace> {
        self.inner.create_namespace(name, properties).await
    }

    async fn get_namespace(&self, name: &NamespaceIdent) -> Result<Namespace> {
        self.inner.get_namespace(name).await
    }

    async fn namespace_exists(&self, name: &NamespaceIdent) -> Result<bool> {
        self.inner.namespace_exists(name).await
    }

    async fn update_namespace(&self, name: &NamespaceIdent, properties: HashMap<String, String>) -> Result<()> {
        self.inner.update_namespace(name, properties).await
    }

    async fn drop_namespace(&self, name: &NamespaceIdent) -> Result<()> {
        self.inner.drop_namespace(name).await
    }

    async fn list_tables(&self, name: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        self.inner.list_tables(name).await
    }

    async fn create_table(&self, name: &NamespaceIdent, creation: TableCreation) -> Result<Table> {
        self.inner.create_table(name, creation).await
    }

    async fn drop_table(&self, table: &TableIdent) -> Result<()> {
        self.inner.drop_table(table).await
    }

    async fn purge_table(&self, table: &TableIdent) -> Result<()> {
        self.inner.purge_table(table).await
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        self.inner.table_exists(table).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.inner.rename_table(from, to).await
    }

    async fn register_table(&self, table: &TableIdent, metadata_location: String) -> Result<Table> {
        self.inner.register_table(table, metadata_location).await
    }

    async fn update_table(&self, commit: TableCommit) -> Result<Table> {
        self.inner.update_table(commit).await
    }
}
