//! Store, catalog and commit port as one actor sees them: every call stops at a gate before and after it, and is told to the
//! timeline. What is behind them is shared by all actors.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest};
use iceberg::table::Table;
use iceberg::{Catalog, Namespace, NamespaceIdent, TableCommit, TableCreation, TableIdent};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

use crate::scheduler::{Gate, HOUR_MS};
use crate::store::PAGE;

/// How long a process may be stopped between deciding to commit and the swap. A writer whose attempt is younger than 12 hours
/// when it decides is then younger than the 24 hours after which cleanup takes its files at the earliest.
const STALL_WITHIN_COMMIT_MS: i64 = 11 * HOUR_MS;

/// The part of a path that tells one file of the table from another.
pub(crate) fn file_name(path: &str) -> &str {
    let start = ["/data/", "/metadata/"].iter().filter_map(|folder| path.rfind(folder)).max();
    start.map_or(path, |start| &path[start + 1..])
}

/// See the module.
#[derive(Debug)]
pub struct GatedStore {
    inner: Arc<dyn ObjectStore>,
    gate: Gate,
}

impl GatedStore {
    /// `inner` as an actor sees it.
    pub fn new(inner: Arc<dyn ObjectStore>, gate: Gate) -> Self {
        Self { inner, gate }
    }

    fn told<T>(&self, result: Result<T>, deed: &'static str, failed: &'static str, path: &Path) -> Result<T> {
        self.gate.note(if result.is_ok() { deed } else { failed }, file_name(path.as_ref()));
        result
    }
}

impl fmt::Display for GatedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} behind a gate", self.inner)
    }
}

#[async_trait]
impl ObjectStore for GatedStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.gate.pass("writing").await;
        let put = self.inner.put_opts(location, payload, options).await;
        let put = self.told(put, "put", "put refused", location);
        self.gate.pass("the answer to writing").await;
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.gate.pass("beginning an upload").await;
        let upload = self.inner.put_multipart_opts(location, options).await;
        self.told(upload, "begins", "upload refused", location)
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.gate.pass("reading").await;
        let got = self.inner.get_opts(location, options).await;
        let got = self.told(got, "read", "read missing", location);
        self.gate.pass("the answer to reading").await;
        got
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let gate = self.gate.clone();
        let stopping = locations.then(move |location| {
            let gate = gate.clone();
            async move {
                gate.pass("deleting").await;
                location
            }
        });
        let gate = self.gate.clone();
        let deleted = self.inner.delete_stream(stopping.boxed()).then(move |deleted| {
            let gate = gate.clone();
            async move {
                if let Ok(path) = &deleted {
                    gate.note("delete", file_name(path.as_ref()));
                }
                gate.pass("the answer to deleting").await;
                deleted
            }
        });
        deleted.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let gate = self.gate.clone();
        let listed = self.inner.list(prefix).enumerate().then(move |(number, listed)| {
            let gate = gate.clone();
            async move {
                if number % PAGE == 0 {
                    gate.note("lists", format!("page {}", number / PAGE));
                    gate.pass("the next page").await;
                }
                listed
            }
        });
        let gate = self.gate.clone();
        let first = async move {
            gate.pass("listing").await;
            listed
        };
        futures::stream::once(first).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.gate.pass("listing a folder").await;
        let listed = self.inner.list_with_delimiter(prefix).await;
        self.gate.pass("the answer to listing a folder").await;
        listed
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.gate.pass("copying").await;
        let copied = self.inner.copy_opts(from, to, options).await;
        let copied = self.told(copied, "copy", "copy refused", to);
        self.gate.pass("the answer to copying").await;
        copied
    }
}

/// See the module.
#[derive(Debug)]
pub struct GatedPort {
    inner: Arc<dyn CommitPort>,
    gate: Gate,
}

impl GatedPort {
    /// `inner` as an actor sees it.
    pub fn new(inner: Arc<dyn CommitPort>, gate: Gate) -> Self {
        Self { inner, gate }
    }
}

#[async_trait]
impl CommitPort for GatedPort {
    async fn commit(&self, request: &CommitRequest) -> std::result::Result<CommitOutcome, hexfloe_catalog::Error> {
        let outcome = {
            let _limit = self.gate.limit_stalls(STALL_WITHIN_COMMIT_MS);
            self.gate.pass("committing").await;
            self.inner.commit(request).await
        };
        match &outcome {
            Ok(CommitOutcome::Committed(table)) => {
                let metadata = table.metadata_location().map(file_name).unwrap_or_default();
                let head = table.metadata().current_snapshot_id().unwrap_or_default();
                self.gate.note("committed", format!("{metadata}, main is at {head}"));
            }
            Ok(CommitOutcome::Conflict { reason }) => self.gate.note("conflict", file_name(reason)),
            Ok(CommitOutcome::Unknown { reason, .. }) => self.gate.note("unknown", reason),
            Err(error) => self.gate.note("refused", error.to_string()),
        }
        self.gate.pass("the answer to the commit").await;
        outcome
    }

    fn is_certain(&self) -> bool {
        self.inner.is_certain()
    }

    fn commits_together(&self) -> bool {
        self.inner.commits_together()
    }

    async fn commit_together(
        &self,
        requests: &[CommitRequest],
    ) -> std::result::Result<CommitOutcome<Vec<Table>>, hexfloe_catalog::Error> {
        let _limit = self.gate.limit_stalls(STALL_WITHIN_COMMIT_MS);
        self.gate.pass("committing together").await;
        let outcome = self.inner.commit_together(requests).await;
        self.gate.pass("the answer to the commit").await;
        outcome
    }

    async fn discard(&self, created: &Table) -> std::result::Result<bool, hexfloe_catalog::Error> {
        self.inner.discard(created).await
    }
}

/// See the module.
#[derive(Debug)]
pub struct GatedCatalog {
    inner: Arc<dyn Catalog>,
    gate: Gate,
}

impl GatedCatalog {
    /// `inner` as an actor sees it.
    pub fn new(inner: Arc<dyn Catalog>, gate: Gate) -> Self {
        Self { inner, gate }
    }
}

#[async_trait]
impl Catalog for GatedCatalog {
    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> iceberg::Result<Vec<NamespaceIdent>> {
        self.gate.pass("listing namespaces").await;
        self.inner.list_namespaces(parent).await
    }

    async fn create_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> iceberg::Result<Namespace> {
        self.gate.pass("making a namespace").await;
        self.inner.create_namespace(namespace, properties).await
    }

    async fn get_namespace(&self, namespace: &NamespaceIdent) -> iceberg::Result<Namespace> {
        self.gate.pass("loading a namespace").await;
        self.inner.get_namespace(namespace).await
    }

    async fn namespace_exists(&self, namespace: &NamespaceIdent) -> iceberg::Result<bool> {
        self.gate.pass("looking for a namespace").await;
        self.inner.namespace_exists(namespace).await
    }

    async fn update_namespace(
        &self,
        namespace: &NamespaceIdent,
        properties: HashMap<String, String>,
    ) -> iceberg::Result<()> {
        self.inner.update_namespace(namespace, properties).await
    }

    async fn drop_namespace(&self, namespace: &NamespaceIdent) -> iceberg::Result<()> {
        self.inner.drop_namespace(namespace).await
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> iceberg::Result<Vec<TableIdent>> {
        self.gate.pass("listing tables").await;
        self.inner.list_tables(namespace).await
    }

    async fn create_table(&self, namespace: &NamespaceIdent, creation: TableCreation) -> iceberg::Result<Table> {
        self.gate.pass("making a table").await;
        self.inner.create_table(namespace, creation).await
    }

    async fn load_table(&self, table: &TableIdent) -> iceberg::Result<Table> {
        self.gate.pass("loading the table").await;
        let loaded = self.inner.load_table(table).await;
        let at = loaded.as_ref().map(|table| table.metadata_location().unwrap_or_default().to_owned());
        match at {
            Ok(at) => self.gate.note("loads", file_name(&at)),
            Err(error) => self.gate.note("cannot load", error.to_string()),
        }
        self.gate.pass("using the table as loaded").await;
        loaded
    }

    async fn drop_table(&self, table: &TableIdent) -> iceberg::Result<()> {
        self.inner.drop_table(table).await
    }

    async fn purge_table(&self, table: &TableIdent) -> iceberg::Result<()> {
        self.inner.purge_table(table).await
    }

    async fn table_exists(&self, table: &TableIdent) -> iceberg::Result<bool> {
        self.gate.pass("looking for the table").await;
        self.inner.table_exists(table).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> iceberg::Result<()> {
        self.inner.rename_table(from, to).await
    }

    async fn register_table(&self, table: &TableIdent, metadata_location: String) -> iceberg::Result<Table> {
        self.inner.register_table(table, metadata_location).await
    }

    async fn update_table(&self, commit: TableCommit) -> iceberg::Result<Table> {
        self.inner.update_table(commit).await
    }
}
