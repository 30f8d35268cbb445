//! Bugs that are put between an actor and what it sees, and that the simulation has to find.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest};
use hexfloe_replay_verify::scenario::{Effort, scenarios};
use hexfloe_replay_verify::{Failure, Lens, Simulation, Violation};
use iceberg::spec::Snapshot;
use iceberg::table::Table;
use iceberg::{Catalog, Namespace, NamespaceIdent, Result, TableCommit, TableCreation, TableIdent, TableUpdate};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult,
};

/// What the simulation says of the first seed in which the bug shows: one of so many.
fn failure(seeds: u64, simulation: &Simulation) -> Failure {
    // Each of some threads looks at its share of the seeds, until another has found it in an earlier one.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let first = AtomicU64::new(seeds);
    let look = &|from: u64| {
        let share = (from..seeds).step_by(usize::try_from(threads).unwrap());
        let mut share = share.take_while(|seed| *seed < first.load(Ordering::Relaxed));
        share.find_map(|seed| simulation.run(seed).err()).inspect(|failure| {
            first.fetch_min(failure.seed, Ordering::Relaxed);
        })
    };
    let failure = std::thread::scope(|scope| {
        let looking: Vec<_> = (0..threads).map(|from| scope.spawn(move || look(from))).collect();
        let found = looking.into_iter().filter_map(|thread| thread.join().unwrap());
        found.min_by_key(|failure| failure.seed)
    });
    let failure = failure.unwrap_or_else(|| panic!("nothing was found in {seeds} schedules"));
    println!("found in schedule {}: {}", failure.seed + 1, failure.violation);
    *failure
}

fn found(seeds: u64, cleaners_see: Lens) -> Violation {
    failure(seeds, &Simulation { cleaners_see, ..Simulation::default() }).violation
}

fn found_in_writers(seeds: u64, writers_see: Lens) -> Violation {
    failure(seeds, &Simulation { writers_see, ..Simulation::default() }).violation
}

/// As a transaction does that takes what it was given to whatever the table is by then.
#[test]
fn a_port_that_ignores_requirements_is_found() {
    let port = |inner, catalog| -> Arc<dyn CommitPort> { Arc::new(Rebasing { inner, catalog }) };
    let violation = found_in_writers(500, Lens { port: Some(Arc::new(port)), ..Lens::default() });
    assert!(matches!(violation, Violation::Overwritten { .. } | Violation::Rows { .. }), "{violation}");
}

/// By scenarios too: those in which somebody else is first.
#[test]
fn a_port_that_ignores_requirements_is_found_by_scenarios() {
    let port = |inner, catalog| -> Arc<dyn CommitPort> { Arc::new(Rebasing { inner, catalog }) };
    let writers_see = Lens { port: Some(Arc::new(port)), ..Lens::default() };
    let simulation = Simulation { writers_see, ..Simulation::default() };
    for name in ["a-rival-commits-first", "a-rival-lands-the-same-batch-first", "compacted-between-plan-and-commit"] {
        let all = scenarios(Effort { full: true, kills: 1 });
        let scenario = all.iter().find(|scenario| scenario.name == name).unwrap();
        let failure = (0..5).find_map(|seed| simulation.play(scenario, seed).err());
        let failure = failure.unwrap_or_else(|| panic!("{name} finds nothing"));
        println!("{name}, seed {}: {}", failure.seed, failure.violation);
        assert!(failure.to_string().contains(name), "{failure}");
    }
}

#[test]
fn a_port_that_says_committed_of_what_is_lost_is_found() {
    let port = |inner, _| -> Arc<dyn CommitPort> { Arc::new(Forgetful { inner }) };
    let violation = found_in_writers(500, Lens { port: Some(Arc::new(port)), ..Lens::default() });
    assert!(matches!(violation, Violation::Untrue { .. }), "{violation}");
}

#[test]
fn a_store_whose_objects_are_torn_without_a_word_is_found() {
    let store = |inner| -> Arc<dyn ObjectStore> { Arc::new(Tearing(inner)) };
    let violation = found_in_writers(50, Lens { store: Some(Arc::new(store)), ..Lens::default() });
    assert!(matches!(violation, Violation::Unreadable { .. } | Violation::Lost { .. }), "{violation}");
}

#[test]
fn what_breaks_a_promise_is_left_when_all_else_is_left_out() {
    let store = |inner| -> Arc<dyn ObjectStore> { Arc::new(EverythingIsOld(inner)) };
    let cleaners_see = Lens { store: Some(Arc::new(store)), ..Lens::default() };
    let simulation = Simulation { cleaners_see, ..Simulation::default() };
    let found = failure(500, &simulation);
    let shrunk = simulation.shrink(found.clone());
    println!("{shrunk}");
    assert_eq!(std::mem::discriminant(&shrunk.violation), std::mem::discriminant(&found.violation));
    assert!(shrunk.plan.actor_count() <= 3, "{}", shrunk.plan);
    let lines = |failure: &Failure| failure.timeline.to_string().lines().count();
    assert!(lines(&shrunk) * 2 < lines(&found), "{} of {} lines", lines(&shrunk), lines(&found));
}

#[test]
fn a_cleaner_that_ignores_the_margin_is_found() {
    let store = |inner| -> Arc<dyn ObjectStore> { Arc::new(EverythingIsOld(inner)) };
    let violation = found(500, Lens { store: Some(Arc::new(store)), ..Lens::default() });
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

/// A port that, when the table has moved on, commits all the same.
#[derive(Debug)]
struct Rebasing {
    inner: Arc<dyn CommitPort>,
    catalog: Arc<dyn Catalog>,
}

#[async_trait]
impl CommitPort for Rebasing {
    async fn commit(&self, request: &CommitRequest) -> Answer {
        let outcome = self.inner.commit(request).await?;
        let CommitOutcome::Conflict { .. } = outcome else { return Ok(outcome) };
        let Ok(base) = self.catalog.load_table(request.base.identifier()).await else { return Ok(outcome) };
        let mut updates = request.updates.clone();
        for update in &mut updates {
            if let TableUpdate::AddSnapshot { snapshot } = update {
                *snapshot = Snapshot::builder()
                    .with_snapshot_id(snapshot.snapshot_id())
                    .with_parent_snapshot_id(snapshot.parent_snapshot_id())
                    .with_sequence_number(base.metadata().next_sequence_number())
                    .with_timestamp_ms(snapshot.timestamp_ms().max(base.metadata().last_updated_ms()))
                    .with_manifest_list(snapshot.manifest_list().to_owned())
                    .with_schema_id(base.metadata().current_schema_id())
                    .with_summary(snapshot.summary().clone())
                    .build();
            }
        }
        self.inner.commit(&CommitRequest { base, requirements: Vec::new(), updates }).await
    }
}

/// A port that gives, for a conflict, the table as it would be: as one does that answers from a cache.
#[derive(Debug)]
struct Forgetful {
    inner: Arc<dyn CommitPort>,
}

#[async_trait]
impl CommitPort for Forgetful {
    async fn commit(&self, request: &CommitRequest) -> Answer {
        let outcome = self.inner.commit(request).await?;
        let CommitOutcome::Conflict { .. } = outcome else { return Ok(outcome) };
        let mut builder = request.base.metadata().clone().into_builder(None);
        for update in request.updates.clone() {
            builder = update.apply(builder).unwrap();
        }
        let table = Table::builder()
            .file_io(request.base.file_io().clone())
            .metadata(builder.build().unwrap().metadata)
            .metadata_location(request.base.metadata_location().unwrap_or_default().to_owned())
            .identifier(request.base.identifier().clone())
            .runtime(iceberg::Runtime::try_current().unwrap());
        Ok(CommitOutcome::Committed(table.build().unwrap()))
    }
}

type Answer = std::result::Result<CommitOutcome, hexfloe_catalog::Error>;

/// A store that keeps the size of what it is given, and half of the bytes.
#[derive(Debug)]
struct Tearing(Arc<dyn ObjectStore>);

impl fmt::Display for Tearing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, and half of it is torn", self.0)
    }
}

#[async_trait]
impl ObjectStore for Tearing {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> object_store::Result<PutResult> {
        let mut torn = bytes::Bytes::from(payload).to_vec();
        let half = torn.len() / 2;
        torn[half..].fill(0);
        self.0.put_opts(location, torn.into(), options).await
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
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.0.copy_opts(from, to, options).await
    }
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
    /// Always as it was the first time.
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
                let known = before.lock().unwrap().clone();
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
