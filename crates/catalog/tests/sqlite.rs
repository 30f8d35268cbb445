//! The commit port's promises over SQLite, and what only SQLite can do to them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use hexfloe_catalog::conformance::{Subject, definition, fresh_id};
use hexfloe_catalog::{Access, CatalogSettings, CommitOutcome, CommitRequest, Error, ErrorKind, OpenCatalog};
use iceberg::{TableIdent, TableUpdate};
use rstest::rstest;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

/// A lake in a folder of its own, opened anew for each who asks.
struct Lake {
    folder: tempfile::TempDir,
}

impl Lake {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The database, without Hexfloe.
    async fn database(&self) -> SqlitePool {
        let options = SqliteConnectOptions::new().filename(self.path().join("lake/catalog.db"));
        SqlitePool::connect_with(options.busy_timeout(Duration::from_secs(10))).await.unwrap()
    }
}

#[async_trait]
impl Subject for Lake {
    async fn open(&self) -> OpenCatalog {
        OpenCatalog::open(&CatalogSettings::embedded(), self.path(), Access::Create).await.unwrap()
    }
}

hexfloe_catalog::conforms! { Lake::new(); superseded_metadata_goes_only_where_the_table_asks }

fn places() -> TableIdent {
    TableIdent::from_strs(["places", "cities"]).unwrap()
}

fn property(base: iceberg::table::Table) -> CommitRequest {
    let updates = vec![TableUpdate::SetProperties { updates: HashMap::from([("a".to_owned(), "1".to_owned())]) }];
    CommitRequest { base, requirements: Vec::new(), updates }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_locked_database_is_waited_for() {
    let lake = Lake::new();
    let catalog = lake.open().await;
    let base = catalog.create(&places(), &definition(), fresh_id()).await.unwrap().table;
    let database = lake.database().await;
    let lock = database.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let request = property(base);
    let commit = catalog.port().commit(&request);
    tokio::pin!(commit);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut commit).await;
    assert!(early.is_err(), "the commit did not wait: {early:?}");
    // Readers never wait for a writer.
    assert!(catalog.load(&places()).await.unwrap().is_some());
    lock.rollback().await.unwrap();
    assert!(matches!(commit.await.unwrap(), CommitOutcome::Committed(_)));
}

/// What the catalog says decides, every time; only the file it points to need not be read again.
#[tokio::test]
async fn a_table_is_what_the_catalog_points_to_now_and_its_file_is_read_once() {
    let lake = Lake::new();
    let (ours, theirs) = (lake.open().await, lake.open().await);
    let base = ours.create(&places(), &definition(), fresh_id()).await.unwrap().table;
    let first = ours.load(&places()).await.unwrap().unwrap();
    assert_eq!((first.metadata_location(), first.metadata()), (base.metadata_location(), base.metadata()));
    // Whoever works on from here need not find the file again.
    let path = url::Url::parse(first.metadata_location().unwrap()).unwrap().to_file_path().unwrap();
    std::fs::rename(&path, path.with_extension("away")).unwrap();
    assert_eq!(ours.load(&places()).await.unwrap().unwrap().metadata(), first.metadata());
    assert!(theirs.load(&places()).await.is_err(), "it was not read before");
    std::fs::rename(path.with_extension("away"), &path).unwrap();

    let CommitOutcome::Committed(moved) = theirs.port().commit(&property(base.clone())).await.unwrap() else {
        unreachable!("nobody else commits")
    };
    let seen = ours.load(&places()).await.unwrap().unwrap();
    assert_eq!((seen.metadata_location(), seen.metadata()), (moved.metadata_location(), moved.metadata()));
    assert!(matches!(ours.port().commit(&property(base)).await.unwrap(), CommitOutcome::Conflict { .. }));
    let database = lake.database().await;
    sqlx::query("UPDATE iceberg_tables SET metadata_location = previous_metadata_location")
        .execute(&database)
        .await
        .unwrap();
    assert_eq!(ours.load(&places()).await.unwrap().unwrap().metadata(), first.metadata());
    sqlx::query("DELETE FROM iceberg_tables").execute(&database).await.unwrap();
    assert!(ours.load(&places()).await.unwrap().is_none());
}

#[rstest]
#[case::a_view("UPDATE iceberg_tables SET iceberg_type = 'VIEW'")]
#[case::another_catalogs("UPDATE iceberg_tables SET catalog_name = 'another'")]
#[case::no_pointer("UPDATE iceberg_tables SET metadata_location = NULL")]
#[case::another_pointer("UPDATE iceberg_tables SET metadata_location = metadata_location || 'x'")]
#[tokio::test]
async fn a_row_that_is_not_the_base_is_a_conflict_and_stays_as_it_is(#[case] change: &str) {
    let lake = Lake::new();
    let catalog = lake.open().await;
    let base = catalog.create(&places(), &definition(), fresh_id()).await.unwrap().table;
    let database = lake.database().await;
    sqlx::query(change).execute(&database).await.unwrap();
    let rows = async || -> Vec<(String, Option<String>, Option<String>)> {
        let select = "SELECT catalog_name, metadata_location, iceberg_type FROM iceberg_tables";
        sqlx::query_as(select).fetch_all(&database).await.unwrap()
    };
    let before = (rows().await, files(&lake.path().join("lake/warehouse")));
    let outcome = catalog.port().commit(&property(base)).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Conflict { .. }), "{outcome:?}");
    assert_eq!((rows().await, files(&lake.path().join("lake/warehouse"))), before);
}

#[tokio::test]
async fn a_row_from_before_rows_had_kinds_is_a_table() {
    let lake = Lake::new();
    let catalog = lake.open().await;
    let base = catalog.create(&places(), &definition(), fresh_id()).await.unwrap().table;
    let database = lake.database().await;
    sqlx::query("UPDATE iceberg_tables SET iceberg_type = NULL").execute(&database).await.unwrap();
    let outcome = catalog.port().commit(&property(base)).await.unwrap();
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    assert_eq!(catalog.load(&places()).await.unwrap().unwrap().metadata().properties()["a"], "1");
}

#[tokio::test]
async fn the_pointer_before_is_recorded_as_other_catalogs_do() {
    let lake = Lake::new();
    let catalog = lake.open().await;
    let base = catalog.create(&places(), &definition(), fresh_id()).await.unwrap().table;
    let CommitOutcome::Committed(now) = catalog.port().commit(&property(base.clone())).await.unwrap() else {
        unreachable!("nobody else commits")
    };
    let select = "SELECT metadata_location, previous_metadata_location FROM iceberg_tables";
    let row: (String, String) = sqlx::query_as(select).fetch_one(&lake.database().await).await.unwrap();
    assert_eq!(row, (now.metadata_location().unwrap().to_owned(), base.metadata_location().unwrap().to_owned()));
    let log: Vec<&str> = now.metadata().metadata_log().iter().map(|entry| entry.metadata_file.as_str()).collect();
    assert_eq!(log, [base.metadata_location().unwrap()]);
}

#[tokio::test]
async fn opening_what_is_not_there_creates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let opened = OpenCatalog::open(&CatalogSettings::embedded(), folder.path(), Access::Existing).await;
    let error = opened.unwrap_err();
    assert!(matches!(error, Error::NoCatalog { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_database_that_is_no_catalog_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lake")).unwrap();
    let file = folder.path().join("lake/catalog.db");
    let database = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&file).create_if_missing(true));
    let database = database.await.unwrap();
    sqlx::query("CREATE TABLE other (n INTEGER)").execute(&database).await.unwrap();
    database.close().await;
    let before = std::fs::read(&file).unwrap();
    let opened = OpenCatalog::open(&CatalogSettings::embedded(), folder.path(), Access::Existing).await;
    assert!(matches!(opened.unwrap_err(), Error::NoCatalog { .. }));
    assert_eq!(files(folder.path()), std::slice::from_ref(&file));
    assert!(std::fs::read(&file).unwrap() == before, "the database was changed");
}

/// The connections of a catalog that was dropped are closed in the background, and as long as one is open the log stays.
#[expect(clippy::disallowed_methods, reason = "waits for a thread of the database driver")]
async fn turn_the_log_off(database: &SqlitePool) {
    let log_off = || sqlx::query("PRAGMA journal_mode = DELETE").execute(database);
    for _ in 0..500 {
        if log_off().await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    log_off().await.unwrap();
}

#[tokio::test]
async fn reading_a_catalog_changes_no_byte_of_it() {
    let lake = Lake::new();
    let catalog = lake.open().await;
    catalog.create(&places(), &definition(), fresh_id()).await.unwrap();
    drop(catalog);
    // As engines leave it that do not turn the write-ahead log on.
    let database = lake.database().await;
    turn_the_log_off(&database).await;
    database.close().await;
    let file = lake.path().join("lake/catalog.db");
    let before = std::fs::read(&file).unwrap();
    let catalog = OpenCatalog::open(&CatalogSettings::embedded(), lake.path(), Access::Existing).await.unwrap();
    assert!(catalog.load(&places()).await.unwrap().is_some());
    assert!(std::fs::read(&file).unwrap() == before, "the database was changed");
}

#[rstest]
#[case::a_text_file("this is not a database, but it is long enough to be looked at as one")]
#[tokio::test]
async fn a_file_that_is_no_database_is_an_error_that_names_it(#[case] text: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lake")).unwrap();
    std::fs::write(folder.path().join("lake/catalog.db"), text.repeat(20)).unwrap();
    for access in [Access::Create, Access::Existing] {
        let error = OpenCatalog::open(&CatalogSettings::embedded(), folder.path(), access).await.unwrap_err();
        assert!(error.to_string().contains("lake/catalog.db"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_that_names_the_database() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lake"), "a file where a folder should be").unwrap();
    let opened = OpenCatalog::open(&CatalogSettings::embedded(), folder.path(), Access::Create).await;
    assert!(opened.unwrap_err().to_string().contains("lake/catalog.db"));
}

#[rstest]
#[case::a_space("a lake")]
#[case::a_hash("a#lake")]
#[case::a_percent("100%lake")]
#[case::an_escape("a%20lake")]
#[case::an_umlaut("Gewässer")]
#[case::a_plus_and_an_equals_sign("a+b=c")]
#[tokio::test]
async fn a_database_may_have_any_name(#[case] name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let settings = CatalogSettings {
        uri: format!("sqlite:{name}/catalog {name}.db"),
        warehouse: format!("{name}/warehouse"),
        ..CatalogSettings::embedded()
    };
    let catalog = OpenCatalog::open(&settings, folder.path(), Access::Create).await.unwrap();
    let base = catalog.create(&places(), &definition(), fresh_id()).await.unwrap().table;
    assert!(matches!(catalog.port().commit(&property(base)).await.unwrap(), CommitOutcome::Committed(_)));
    assert!(folder.path().join(name).join(format!("catalog {name}.db")).is_file());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let again = OpenCatalog::open(&settings, folder.path(), Access::Existing).await.unwrap();
    assert_eq!(again.load(&places()).await.unwrap().unwrap().metadata().properties()["a"], "1");
}

#[tokio::test]
async fn a_namespace_of_several_levels_is_a_namespace_at_each_of_them() {
    let lake = Lake::new();
    let catalog = lake.open().await;
    let deep = TableIdent::from_strs(["europe", "alps", "west", "huts"]).unwrap();
    let created = catalog.create(&deep, &definition(), fresh_id()).await.unwrap();
    assert!(created.table.metadata().location().contains("/warehouse/europe/alps/west/huts-"));
    let other = TableIdent::from_strs(["europe", "alps", "east", "huts"]).unwrap();
    assert!(catalog.load(&other).await.unwrap().is_none());
    assert!(catalog.create(&other, &definition(), fresh_id()).await.unwrap().ours);
    for depth in 1..=3 {
        let level = iceberg::NamespaceIdent::from_vec(deep.namespace().clone().inner()[..depth].to_vec()).unwrap();
        assert!(catalog.catalog().namespace_exists(&level).await.unwrap(), "{level:?}");
    }
    assert!(catalog.load(&deep).await.unwrap().is_some());
}

#[tokio::test]
async fn two_catalogs_in_one_database_do_not_see_each_other() {
    let lake = Lake::new();
    let other = CatalogSettings { name: "other".to_owned(), ..CatalogSettings::embedded() };
    let (one, other) = (lake.open().await, OpenCatalog::open(&other, lake.path(), Access::Create).await.unwrap());
    let ours = one.create(&places(), &definition(), fresh_id()).await.unwrap();
    assert!(other.load(&places()).await.unwrap().is_none());
    let theirs = other.create(&places(), &definition(), fresh_id()).await.unwrap();
    assert!(theirs.ours);
    assert!(matches!(other.port().commit(&property(ours.table)).await.unwrap(), CommitOutcome::Conflict { .. }));
}

#[tokio::test]
async fn a_commit_given_up_at_any_moment_leaves_no_lock() {
    let lake = Lake::new();
    let catalog = lake.open().await;
    catalog.create(&places(), &definition(), fresh_id()).await.unwrap();
    let database = lake.database().await;
    let mut polls = 0;
    loop {
        let request = property(catalog.load(&places()).await.unwrap().unwrap());
        let finished = {
            let mut commit = std::pin::pin!(catalog.port().commit(&request));
            let mut left = polls;
            std::future::poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(false);
                }
                left -= 1;
                commit.as_mut().poll(context).map(|outcome| outcome.is_ok())
            })
            .await
        };
        // What was begun runs to its end; then whoever wants the lock gets it, here and elsewhere.
        let lock = tokio::time::timeout(Duration::from_secs(5), database.begin_with("BEGIN IMMEDIATE")).await;
        lock.unwrap().unwrap().rollback().await.unwrap();
        let _ = catalog.port().commit(&request).await.unwrap();
        let now = catalog.load(&places()).await.unwrap().unwrap();
        assert_eq!(now.metadata().properties()["a"], "1", "after {polls} polls");
        if finished {
            break;
        }
        polls += 1;
    }
    assert!(polls > 0, "never given up");
}

#[tokio::test]
async fn a_name_is_needed() {
    let nameless = CatalogSettings { name: " ".to_owned(), ..CatalogSettings::embedded() };
    let folder = tempfile::tempdir().unwrap();
    let opened = OpenCatalog::open(&nameless, folder.path(), Access::Create).await;
    assert!(matches!(opened.unwrap_err(), Error::Settings(_)));
}
