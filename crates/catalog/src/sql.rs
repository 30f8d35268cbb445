//! The commit port over a SQL catalog, in SQLite or PostgreSQL.
//!
//! The new metadata file is written first, then the pointer is swapped in one transaction that reads the pointer, compares
//! it with the base of the request and updates it under that same condition, expecting exactly one changed row. A crash
//! between the two leaves an unreferenced metadata file and an unchanged table.

use std::collections::HashSet;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Once};
use std::time::Duration;

use async_trait::async_trait;
use hexfloe_store::Store;
use iceberg::spec::TableMetadata;
use iceberg::table::Table;
use iceberg::{MetadataLocation, TableIdent};
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyConnection, AnyPool, Connection, Executor, Row, Transaction};

use crate::metadata::MetadataFiles;
use crate::settings::Database;
use crate::{Access, CommitOutcome, CommitPort, CommitRequest, Error};

/// How long the database itself waits for a lock, and how often we then begin anew.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
const BUSY_ATTEMPTS: u32 = 6;

/// How long a connection is waited for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that does not answer for this long may have committed or not.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection is shared by whoever holds this port, and the wait for one is a wait for the lock too.
const CONNECTIONS: u32 = 4;

/// Rows of other kinds (views) share the table; rows from before the column existed have no kind.
const IS_TABLE: &str = "(iceberg_type = 'TABLE' OR iceberg_type IS NULL)";

/// Commits to a SQL catalog.
#[derive(Debug)]
pub struct SqlPort {
    url: String,
    pointers: Pointers,
}

/// The catalog's table of pointers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Pointers {
    catalog: String,
    pool: AnyPool,
    dialect: Dialect,
    store: Store,
    busy_timeout: Duration,
    files: Arc<MetadataFiles>,
}

/// Where the databases differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Sqlite,
    Postgres,
}

/// What is to become of one table's pointer.
#[derive(Clone, Debug)]
struct Move {
    table: TableIdent,
    from: String,
    to: String,
}

/// What one try at the swap came to.
enum Swap {
    Done,
    Moved(String),
    Busy,
    Failed(sqlx::Error),
    Unknown(sqlx::Error),
}

impl SqlPort {
    /// Opens the database: a SQLite file with [`Access::Create`] in WAL mode, so that readers never wait for a writer, and
    /// with [`Access::Existing`] in whatever mode it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoCatalog`] or [`Error::Open`].
    pub(crate) async fn open(catalog: &str, database: &Database, access: Access, store: Store) -> Result<Self, Error> {
        Self::open_waiting(catalog, database, access, store, BUSY_TIMEOUT).await
    }

    async fn open_waiting(
        catalog: &str,
        database: &Database,
        access: Access,
        store: Store,
        busy_timeout: Duration,
    ) -> Result<Self, Error> {
        static DRIVERS: Once = Once::new();
        DRIVERS.call_once(sqlx::any::install_default_drivers);
        let path = name_of(database);
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Open { path: path.clone(), source };
        let (dialect, url) = match database {
            Database::Postgres(url) => {
                (Dialect::Postgres, with_option(url, "lock_timeout", &busy_timeout.as_millis().to_string()))
            }
            Database::Sqlite(file) => {
                match (access, file.try_exists()) {
                    (_, Err(error)) => return Err(failed(Box::new(error))),
                    (Access::Existing, Ok(false)) => return Err(Error::NoCatalog { path }),
                    (Access::Create, Ok(false)) => {
                        if let Some(folder) = file.parent() {
                            std::fs::create_dir_all(folder).map_err(|error| failed(Box::new(error)))?;
                        }
                    }
                    (_, Ok(true)) => {}
                }
                (Dialect::Sqlite, sqlite_url(file))
            }
        };
        let first = match (dialect, access) {
            (Dialect::Sqlite, Access::Create) => format!("{url}c"),
            _ => url.clone(),
        };
        let mut attempt = 0;
        let pool = loop {
            attempt += 1;
            // Turning WAL on needs the database alone for a moment, and does not wait for it by itself.
            match connect(&first, dialect, access, busy_timeout).await {
                Ok(pool) => break pool,
                Err(error) if dialect == Dialect::Sqlite && is_busy(&error) && attempt < 100 => pause().await,
                Err(error) => return Err(failed(Box::new(error))),
            }
        };
        let failed = |error: sqlx::Error| failed(Box::new(error));
        let (exist, url, pool) = match dialect {
            Dialect::Sqlite => {
                let tables = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'iceberg_tables'";
                let tables: i64 = sqlx::query_scalar(tables).fetch_one(&pool).await.map_err(failed)?;
                (tables > 0, url, pool)
            }
            Dialect::Postgres => {
                let schema = "SELECT table_schema::text FROM information_schema.tables \
                     WHERE table_name = 'iceberg_tables' AND table_schema = ANY (current_schemas(false)) \
                     ORDER BY array_position(current_schemas(false), table_schema::name) LIMIT 1";
                let schema: Option<String> = sqlx::query_scalar(schema).fetch_optional(&pool).await.map_err(failed)?;
                match schema {
                    // Whoever makes tables that are missing looks in the first schema of the path only.
                    Some(schema) => {
                        let quoted = format!("\"{}\"", schema.replace('"', "\"\""));
                        let url = with_option(&url, "search_path", &quoted);
                        pool.close().await;
                        let pool = connect(&url, dialect, access, busy_timeout).await.map_err(failed)?;
                        (true, url, pool)
                    }
                    None => (false, url, pool),
                }
            }
        };
        if access == Access::Existing && !exist {
            return Err(Error::NoCatalog { path });
        }
        let pointers =
            Pointers { catalog: catalog.to_owned(), pool, dialect, store, busy_timeout, files: Arc::default() };
        Ok(Self { url, pointers })
    }

    /// The catalog's table of pointers, for reading.
    pub(crate) fn pointers(&self) -> Pointers {
        self.pointers.clone()
    }

    /// The database as a URL for other users of `sqlx`.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// A table's pointer: of a catalog, a namespace and a name.
fn select_pointer() -> String {
    format!(
        "SELECT metadata_location FROM iceberg_tables \
         WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3 AND {IS_TABLE}"
    )
}

/// A table's namespace as the database has it.
fn namespace_of(table: &TableIdent) -> String {
    table.namespace().clone().inner().join(".")
}

/// The database as people are told of it: without a password.
pub(crate) fn name_of(database: &Database) -> String {
    match database {
        Database::Sqlite(file) => file.display().to_string(),
        Database::Postgres(url) => match url::Url::parse(url) {
            Ok(url) => format!("{}{}", url.host_str().unwrap_or_default(), {
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                format!("{port}{}", url.path())
            }),
            Err(_) => "the PostgreSQL server".to_owned(),
        },
    }
}

/// A PostgreSQL URL whose connections have a setting, unless the URL has it already.
fn with_option(url: &str, name: &str, value: &str) -> String {
    let Ok(mut parsed) = url::Url::parse(url) else { return url.to_owned() };
    // Spaces and backslashes separate and escape in this place.
    let value = value.replace('\\', "\\\\").replace(' ', "\\ ");
    let said = parsed.query_pairs().any(|(key, said)| key == "options" && said.contains(&format!("{name}=")));
    if !said {
        parsed.query_pairs_mut().append_pair("options", &format!("-c {name}={value}"));
    }
    parsed.into()
}

fn sqlite_url(file: &Path) -> String {
    let path = file.display().to_string();
    let encoded = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    format!("sqlite://{encoded}?mode=rw")
}

async fn connect(url: &str, dialect: Dialect, access: Access, busy_timeout: Duration) -> Result<AnyPool, sqlx::Error> {
    let options = AnyConnectOptions::from_str(url)?;
    let setup = match dialect {
        Dialect::Sqlite => format!("PRAGMA busy_timeout = {}", busy_timeout.as_millis()),
        Dialect::Postgres => format!("SET lock_timeout = {}", busy_timeout.as_millis()),
    };
    let pool = AnyPoolOptions::new().max_connections(CONNECTIONS).after_connect(move |connection, _| {
        let setup = setup.clone();
        Box::pin(async move { connection.execute(setup.as_str()).await.map(|_| ()) })
    });
    if dialect == Dialect::Postgres {
        // A pool tries until its patience ends, and then says nothing of why.
        let first = tokio::time::timeout(CONNECT_TIMEOUT, AnyConnection::connect_with(&options)).await;
        first.map_err(|_| sqlx::Error::PoolTimedOut)??.close().await?;
    }
    let pool = pool.acquire_timeout(CONNECT_TIMEOUT).connect_with(options).await?;
    if dialect == Dialect::Sqlite && access == Access::Create {
        pool.execute("PRAGMA journal_mode = WAL").await?;
    }
    Ok(pool)
}

impl Pointers {
    /// The table at its pointer as it is now; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the catalog or the metadata file cannot be read.
    pub(crate) async fn load(&self, table: &TableIdent) -> iceberg::Result<Option<Table>> {
        let pointer = sqlx::query(&select_pointer())
            .bind(&self.catalog)
            .bind(namespace_of(table))
            .bind(table.name())
            .fetch_optional(&self.pool)
            .await
            .and_then(|row| row.map(|row| row.try_get::<Option<String>, _>(0)).transpose());
        let pointer = pointer.map_err(|error| {
            iceberg::Error::new(iceberg::ErrorKind::Unexpected, "cannot read the table's pointer").with_source(error)
        })?;
        let Some(location) = pointer.flatten() else { return Ok(None) };
        let file_io = self.store.file_io();
        let metadata = self.files.read(table, &location, &file_io).await?;
        let loaded = Table::builder()
            .file_io(file_io)
            .identifier(table.clone())
            .metadata_location(location)
            .metadata(metadata)
            .runtime(iceberg::Runtime::try_current()?);
        loaded.build().map(Some)
    }

    /// Swaps the pointers, all or none, and removes the new metadata files if they did not become the tables'.
    async fn swap(self, moves: Vec<Move>) -> Swap {
        let mut swap = Swap::Busy;
        for _ in 0..BUSY_ATTEMPTS {
            swap = self.swap_once(&moves).await;
            if !matches!(swap, Swap::Busy) {
                break;
            }
        }
        if matches!(swap, Swap::Busy | Swap::Moved(_) | Swap::Failed(_)) {
            for Move { to, .. } in &moves {
                self.forget(to).await;
            }
        }
        swap
    }

    async fn swap_once(&self, moves: &[Move]) -> Swap {
        let begin = match self.dialect {
            Dialect::Sqlite => "BEGIN IMMEDIATE",
            // The condition is in the update, whose row lock the next one waits for.
            Dialect::Postgres => "BEGIN ISOLATION LEVEL READ COMMITTED",
        };
        let mut transaction = match self.pool.begin_with(begin).await {
            Ok(transaction) => transaction,
            // Where connections are local, all of them wait for the lock; elsewhere the server is away.
            Err(sqlx::Error::PoolTimedOut) if self.dialect == Dialect::Sqlite => return Swap::Busy,
            Err(error) if is_busy(&error) => return Swap::Busy,
            Err(error) => return Swap::Failed(error),
        };
        for Move { table, from, to } in moves {
            match self.compare_and_set(&mut transaction, table, from, to).await {
                Ok(None) => {}
                Ok(Some(reason)) => return Swap::Moved(reason),
                Err(error) if is_busy(&error) => return Swap::Busy,
                Err(error) if is_serialisation_failure(&error) => return Swap::Moved(error.to_string()),
                // Dropping a transaction rolls it back.
                Err(error) => return Swap::Failed(error),
            }
        }
        match transaction.commit().await {
            Ok(()) => Swap::Done,
            Err(error) if is_busy(&error) => Swap::Busy,
            Err(error) if is_serialisation_failure(&error) => Swap::Moved(error.to_string()),
            Err(error) => Swap::Unknown(error),
        }
    }

    /// `None` when the pointer was changed, or why it was not.
    async fn compare_and_set(
        &self,
        transaction: &mut Transaction<'_, Any>,
        table: &TableIdent,
        from: &str,
        to: &str,
    ) -> Result<Option<String>, sqlx::Error> {
        let namespace = namespace_of(table);
        let row = sqlx::query(&select_pointer())
            .bind(&self.catalog)
            .bind(&namespace)
            .bind(table.name())
            .fetch_optional(&mut **transaction)
            .await?;
        let Some(row) = row else {
            return Ok(Some(format!("table {table} is gone")));
        };
        let current: Option<String> = row.try_get(0)?;
        if current.as_deref() != Some(from) {
            return Ok(Some(format!("table {table} moved on to {}", current.unwrap_or_default())));
        }
        let update = format!(
            "UPDATE iceberg_tables SET metadata_location = $1, previous_metadata_location = $2 \
             WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5 AND {IS_TABLE} \
             AND metadata_location = $6"
        );
        let changed = sqlx::query(&update)
            .bind(to)
            .bind(from)
            .bind(&self.catalog)
            .bind(&namespace)
            .bind(table.name())
            .bind(from)
            .execute(&mut **transaction)
            .await?
            .rows_affected();
        Ok((changed != 1).then(|| format!("the swap changed {changed} rows instead of one")))
    }

    /// Removes the metadata files that the commit dropped from the metadata log, if the table asks for it. Only after the
    /// swap: before it, readers still find them through the table.
    async fn forget_superseded(&self, before: &TableMetadata, after: &TableMetadata) {
        let asked = after.properties().get("write.metadata.delete-after-commit.enabled");
        if !asked.is_some_and(|asked| asked.eq_ignore_ascii_case("true")) {
            return;
        }
        let kept: HashSet<&str> = after.metadata_log().iter().map(|entry| entry.metadata_file.as_str()).collect();
        for entry in before.metadata_log().iter().filter(|entry| !kept.contains(entry.metadata_file.as_str())) {
            self.forget(&entry.metadata_file).await;
        }
    }

    /// Removes the metadata file of a commit that did not happen.
    async fn forget(&self, location: &str) {
        // Left behind it is an unreferenced file like those of a crash, and cleanup finds it.
        let _ = self.store.delete(location).await;
    }
}

impl SqlPort {
    /// Writes the metadata of a commit; gives the move of the pointer that makes it the table's, and the table as it is then.
    async fn stage(&self, request: &CommitRequest) -> Result<(Move, Table), Error> {
        let base = &request.base;
        let table = base.identifier();
        let failed = |error| Error::table("prepare the commit to", table, error);
        let from = base.metadata_location_result().map_err(failed)?;
        let metadata = apply(request, from).map_err(failed)?;
        let next = next_location(from, &metadata);
        let to = next.to_string();
        let staged = Table::builder()
            .file_io(base.file_io().clone())
            .metadata_location(to.clone())
            .metadata(metadata)
            .identifier(table.clone())
            .runtime(iceberg::Runtime::try_current().map_err(failed)?)
            .build()
            .map_err(failed)?;
        let files = &self.pointers.files;
        let written = files.write(staged.metadata(), &next, from, &request.updates, base.file_io()).await;
        if let Err(source) = written {
            self.pointers.forget(&to).await;
            return Err(Error::table("write the metadata of", table, source));
        }
        Ok((Move { table: table.clone(), from: from.to_owned(), to }, staged))
    }
}

#[async_trait]
impl CommitPort for SqlPort {
    async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, Error> {
        Ok(self.commit_together(std::slice::from_ref(request)).await?.of_one())
    }

    fn commits_together(&self) -> bool {
        true
    }

    async fn commit_together(&self, requests: &[CommitRequest]) -> Result<CommitOutcome<Vec<Table>>, Error> {
        for request in requests {
            for requirement in &request.requirements {
                if let Err(error) = requirement.check(Some(request.base.metadata())) {
                    return Ok(CommitOutcome::Conflict { reason: error.to_string() });
                }
            }
        }
        // Everything that can fail happens before the swap: after it there is no way back.
        let mut moves = Vec::new();
        let mut committed = Vec::new();
        for request in requests {
            match self.stage(request).await {
                Ok((this, table)) => {
                    moves.push(this);
                    committed.push(table);
                }
                Err(error) => {
                    for Move { to, .. } in &moves {
                        self.pointers.forget(to).await;
                    }
                    return Err(error);
                }
            }
        }
        // Always in one order, so that two who want the same rows do not wait for each other.
        moves.sort_by_key(|this| this.table.to_string());
        // In a task of its own, which goes on when the caller gives up: a connection that is dropped within a
        // transaction would go back to the pool with the lock.
        let swap = self.pointers.clone().swap(moves);
        let unknown = |source: Box<dyn std::error::Error + Send + Sync>| {
            let reason = "the database failed while it committed".to_owned();
            Ok(CommitOutcome::Unknown { reason, source: Some(source) })
        };
        let Ok(swapped) = tokio::time::timeout(PATIENCE, tokio::spawn(swap)).await else {
            return unknown("the database does not answer".into());
        };
        match swapped {
            Ok(Swap::Done) => {
                for (request, table) in std::iter::zip(requests, &committed) {
                    self.pointers.forget_superseded(request.base.metadata(), table.metadata()).await;
                }
                Ok(CommitOutcome::Committed(committed))
            }
            Ok(Swap::Moved(reason)) => Ok(CommitOutcome::Conflict { reason }),
            Ok(Swap::Busy) => Err(Error::Busy { waited: self.pointers.busy_timeout * BUSY_ATTEMPTS }),
            Ok(Swap::Failed(source)) => Err(Error::Database { action: "change the table's pointer", source }),
            Ok(Swap::Unknown(error)) => unknown(Box::new(error)),
            Err(error) => unknown(Box::new(error)),
        }
    }

    async fn discard(&self, created: &Table) -> Result<bool, Error> {
        let table = created.identifier();
        let pointer = created.metadata_location_result().map_err(|error| Error::table("discard", table, error))?;
        let delete = format!(
            "DELETE FROM iceberg_tables \
             WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3 AND {IS_TABLE} \
             AND metadata_location = $4"
        );
        let deleted = sqlx::query(&delete)
            .bind(&self.pointers.catalog)
            .bind(namespace_of(table))
            .bind(table.name())
            .bind(pointer)
            .execute(&self.pointers.pool)
            .await
            .map_err(|source| Error::Database { action: "discard a new table", source })?;
        Ok(deleted.rows_affected() == 1)
    }
}

#[expect(clippy::disallowed_methods, reason = "only between tries to open; tokio's time can be paused by tests")]
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn apply(request: &CommitRequest, from: &str) -> iceberg::Result<TableMetadata> {
    let mut builder = request.base.metadata().clone().into_builder(Some(from.to_owned()));
    for update in request.updates.iter().cloned() {
        builder = update.apply(builder)?;
    }
    Ok(builder.build()?.metadata)
}

/// The next metadata file beside the current one; a table registered under a foreign name counts from 0 again.
fn next_location(from: &str, metadata: &TableMetadata) -> MetadataLocation {
    match MetadataLocation::from_str(from) {
        Ok(current) => current.with_next_version().with_new_metadata(metadata),
        Err(_) => MetadataLocation::new_with_metadata(metadata.location(), metadata),
    }
}

/// A lock that others hold: `SQLITE_BUSY` and `SQLITE_LOCKED` in any of their extended forms, PostgreSQL's
/// `lock_not_available`.
fn is_busy(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => match error.code() {
            Some(code) if code == "55P03" => true,
            // Five characters are an SQLSTATE.
            Some(code) if code.len() < 5 => code.parse::<i32>().is_ok_and(|code| matches!(code & 0xff, 5 | 6)),
            _ => false,
        },
        _ => false,
    }
}

/// PostgreSQL's `serialization_failure` and `deadlock_detected`: it has undone the transaction for a rival's.
fn is_serialisation_failure(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    error.code().is_some_and(|code| code == "40001" || code == "40P01")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use iceberg::TableUpdate;

    use super::*;
    use crate::conformance::{definition, fresh_id};
    use crate::{CatalogSettings, OpenCatalog};

    #[tokio::test]
    async fn a_database_that_stays_locked_is_an_error_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let settings = CatalogSettings::embedded();
        let catalog = OpenCatalog::open(&settings, folder.path(), Access::Create).await.unwrap();
        let table = TableIdent::from_strs(["places", "cities"]).unwrap();
        let base = catalog.create(&table, &definition(), fresh_id()).await.unwrap().table;
        let database = folder.path().join("lake/catalog.db");
        let patience = Duration::from_millis(20);
        let database = Database::Sqlite(database);
        let port = SqlPort::open_waiting("lake", &database, Access::Create, Store::local(), patience).await.unwrap();
        let lock = port.pointers.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let metadata = folder.path().join(&base.metadata().location()["file:///".len() - 1..]).join("metadata");
        let files = || std::fs::read_dir(&metadata).unwrap().count();
        let before = files();
        let updates = vec![TableUpdate::SetProperties { updates: HashMap::from([("a".to_owned(), "1".to_owned())]) }];
        let request = CommitRequest { base, requirements: Vec::new(), updates };
        let error = port.commit(&request).await.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        assert_eq!(error.kind(), crate::ErrorKind::Unavailable);
        assert_eq!(files(), before);
        lock.rollback().await.unwrap();
        assert!(matches!(port.commit(&request).await.unwrap(), CommitOutcome::Committed(_)));
    }
}
