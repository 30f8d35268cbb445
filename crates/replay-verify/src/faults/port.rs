//! Faults between a process and its catalog.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest, Error};
use iceberg::table::Table;
use iceberg::{Catalog, ErrorKind, Namespace, NamespaceIdent, Result, TableCommit, TableCreation, TableIdent};

use super::{Call, Fault, Faults, Wrong};

/// A commit port as a process sees it.
#[derive(Debug)]
pub(super) struct FaultyPort {
    inner: Arc<dyn CommitPort>,
    faults: Faults,
}

type Answer<T> = std::result::Result<CommitOutcome<T>, Error>;

impl FaultyPort {
    pub(super) fn new(inner: Arc<dyn CommitPort>, faults: Faults) -> Self {
        Self { inner, faults }
    }

    async fn through<'a, T: Send>(
        &self,
        path: &str,
        send: impl Fn() -> BoxFuture<'a, Answer<T>> + Send + Sync,
    ) -> Answer<T> {
        let call = self.faults.call(Call::Commit, path);
        if let Some(wrong) = call.before().await {
            return Ok(outcome(wrong));
        }
        let mut answer = send().await;
        let mut landed = is_committed(&answer);
        if call.twice() {
            answer = send().await;
            landed = landed || is_committed(&answer);
        }
        match call.after(landed).await {
            Some(wrong) => Ok(outcome(wrong)),
            None => answer,
        }
    }
}

fn is_committed<T>(answer: &Answer<T>) -> bool {
    matches!(answer, Ok(CommitOutcome::Committed(_)))
}

/// As ports over a network say it.
fn outcome<T>(wrong: Wrong) -> CommitOutcome<T> {
    let unknown =
        |reason: &str| CommitOutcome::Unknown { reason: reason.to_owned(), source: Some(Box::new(wrong.cause())) };
    match wrong {
        Wrong::NoAnswer => unknown("the catalog did not answer"),
        Wrong::Failure => unknown("the catalog failed"),
        Wrong::Conflict => CommitOutcome::Conflict { reason: "the catalog says that the table moved on".to_owned() },
    }
}

#[async_trait]
impl CommitPort for FaultyPort {
    async fn commit(&self, request: &CommitRequest) -> Answer<Table> {
        let path = request.base.identifier().to_string();
        self.through(&path, || self.inner.commit(request)).await
    }

    fn is_certain(&self) -> bool {
        let denies = |fault| matches!(fault, Fault::ConflictAfterSuccess | Fault::Twice);
        let denies = self.faults.injects(|injection| injection.call == Call::Commit && denies(injection.fault));
        self.inner.is_certain() && !denies
    }

    fn commits_together(&self) -> bool {
        self.inner.commits_together()
    }

    async fn commit_together(&self, requests: &[CommitRequest]) -> Answer<Vec<Table>> {
        let tables: Vec<String> = requests.iter().map(|request| request.base.identifier().to_string()).collect();
        self.through(&tables.join(", "), || self.inner.commit_together(requests)).await
    }

    async fn discard(&self, created: &Table) -> std::result::Result<bool, Error> {
        self.faults.unless_ended().await;
        self.inner.discard(created).await
    }
}

/// A catalog as a process sees it.
#[derive(Debug)]
pub(super) struct FaultyCatalog {
    inner: Arc<dyn Catalog>,
    faults: Faults,
}

impl FaultyCatalog {
    pub(super) fn new(inner: Arc<dyn Catalog>, faults: Faults) -> Self {
        Self { inner, faults }
    }

    /// The catalog, for what passes.
    async fn passing(&self) -> &dyn Catalog {
        self.faults.unless_ended().await;
        self.inner.as_ref()
    }
}

fn failed<T>(wrong: Wrong) -> Result<T> {
    Err(iceberg::Error::new(ErrorKind::Unexpected, "the catalog did not answer").with_source(wrong.cause()))
}

#[async_trait]
impl Catalog for FaultyCatalog {
    async fn load_table(&self, table: &TableIdent) -> Result<Table> {
        let call = self.faults.call(Call::Load, &table.to_string());
        if let Some(wrong) = call.before().await {
            return failed(wrong);
        }
        let loaded = self.inner.load_table(table).await;
        if let Some(wrong) = call.after(loaded.is_ok()).await {
            return failed(wrong);
        }
        loaded.map(|table| call.seen(table))
    }

    async fn list_namespaces(&self, parent: Option<&NamespaceIdent>) -> Result<Vec<NamespaceIdent>> {
        self.passing().await.list_namespaces(parent).await
    }

    async fn create_namespace(&self, name: &NamespaceIdent, properties: HashMap<String, String>) -> Result<Namespace> {
        self.passing().await.create_namespace(name, properties).await
    }

    async fn get_namespace(&self, name: &NamespaceIdent) -> Result<Namespace> {
        self.passing().await.get_namespace(name).await
    }

    async fn namespace_exists(&self, name: &NamespaceIdent) -> Result<bool> {
        self.passing().await.namespace_exists(name).await
    }

    async fn update_namespace(&self, name: &NamespaceIdent, properties: HashMap<String, String>) -> Result<()> {
        self.passing().await.update_namespace(name, properties).await
    }

    async fn drop_namespace(&self, name: &NamespaceIdent) -> Result<()> {
        self.passing().await.drop_namespace(name).await
    }

    async fn list_tables(&self, name: &NamespaceIdent) -> Result<Vec<TableIdent>> {
        self.passing().await.list_tables(name).await
    }

    async fn create_table(&self, name: &NamespaceIdent, creation: TableCreation) -> Result<Table> {
        self.passing().await.create_table(name, creation).await
    }

    async fn drop_table(&self, table: &TableIdent) -> Result<()> {
        self.passing().await.drop_table(table).await
    }

    async fn purge_table(&self, table: &TableIdent) -> Result<()> {
        self.passing().await.purge_table(table).await
    }

    async fn table_exists(&self, table: &TableIdent) -> Result<bool> {
        self.passing().await.table_exists(table).await
    }

    async fn rename_table(&self, from: &TableIdent, to: &TableIdent) -> Result<()> {
        self.passing().await.rename_table(from, to).await
    }

    async fn register_table(&self, table: &TableIdent, metadata_location: String) -> Result<Table> {
        self.passing().await.register_table(table, metadata_location).await
    }

    async fn update_table(&self, commit: TableCommit) -> Result<Table> {
        self.passing().await.update_table(commit).await
    }
}
