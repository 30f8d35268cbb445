//! Every store passes the same tests, and what only S3 can do wrong.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use hexfloe_store::conformance::Subject;
use hexfloe_store::{Error, Location, Properties, Store};
use hexfloe_tests::{CatalogFile, SeaweedFs, json, judge};
use object_store::limit::LimitStore;
use tempfile::TempDir;

struct Local {
    folder: TempDir,
}

impl Local {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }
}

impl Subject for Local {
    fn store(&self) -> Store {
        Store::local()
    }

    fn root(&self) -> String {
        format!("file://{}", self.folder.path().to_str().unwrap())
    }
}

struct Memory {
    store: Store,
}

impl Subject for Memory {
    fn store(&self) -> Store {
        self.store.clone()
    }

    fn root(&self) -> String {
        "memory:///root".to_owned()
    }
}

struct Remote {
    store: Store,
    bucket: String,
}

impl Remote {
    fn new() -> Self {
        let server = SeaweedFs::shared();
        Self { store: s3(&server.s3()), bucket: server.bucket() }
    }
}

impl Subject for Remote {
    fn store(&self) -> Store {
        self.store.clone()
    }

    fn root(&self) -> String {
        format!("s3://{}/root", self.bucket)
    }
}

mod local {
    use super::Local;

    hexfloe_store::conforms! { Local::new() }
}

mod memory {
    use hexfloe_store::Store;

    use super::Memory;

    hexfloe_store::conforms! { Memory { store: Store::memory() } }
}

/// Behind a decorator, which only counts what is under way.
struct Decorated(Local);

impl Subject for Decorated {
    fn store(&self) -> Store {
        Store::local().decorated(|store| Arc::new(LimitStore::new(store, 64)))
    }

    fn root(&self) -> String {
        self.0.root()
    }
}

mod decorated {
    use super::{Decorated, Local};

    hexfloe_store::conforms! { Decorated(Local::new()) }
}

mod remote {
    use super::Remote;

    hexfloe_store::conforms! { Remote::new() }
}

fn s3(file: &CatalogFile) -> Store {
    let properties: Properties = serde_json::from_value(file.properties()).unwrap();
    Store::local().with_remote(properties, None).unwrap()
}

/// The uploads in a bucket that are neither completed nor aborted, as S3 lists them.
fn open_uploads(root: &str) -> serde_json::Value {
    judge("open_uploads", json!({ "lake": SeaweedFs::shared().s3().with("warehouse", root).properties() }))
}

#[tokio::test]
async fn keys_are_the_names_of_files() {
    let subject = Local::new();
    for key in ["a b/c:d", "a%20b/c", "tilde~/ümlaut", "x=1%2F2/y+z", "_h3=8/.hidden"] {
        let mut upload = subject.store().create(&format!("{}/{key}", subject.root())).await.unwrap();
        upload.write("x".into()).await.unwrap();
        upload.finish().await.unwrap();
        assert!(subject.folder.path().join(key).is_file(), "{key}");
    }
}

async fn scanned(subject: &impl Subject) -> Vec<String> {
    let at = Location::parse(&subject.root()).unwrap();
    let objects: Vec<_> = subject.store().scan(&at).try_collect().await.unwrap();
    let mut keys: Vec<String> = objects.into_iter().map(|object| object.key[at.key().len()..].to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn what_a_killed_process_left_unfinished_on_the_local_disk_is_listed_and_deleted() {
    let subject = Local::new();
    let folder = subject.folder.path().to_owned();
    unfinished_files_are_listed_and_deleted(&folder, subject).await;
    let subject = Local::new();
    let folder = subject.folder.path().to_owned();
    unfinished_files_are_listed_and_deleted(&folder, Decorated(subject)).await;
}

async fn unfinished_files_are_listed_and_deleted(folder: &Path, subject: impl Subject) {
    let names = ["x.parquet", "x.parquet#1", "x.parquet#23", "y#z", "#4"];
    for name in names {
        std::fs::write(folder.join(name), "x").unwrap();
    }
    assert_eq!(scanned(&subject).await, ["/#4", "/x.parquet", "/x.parquet#1", "/x.parquet#23", "/y#z"]);
    let at = Location::parse(&subject.root()).unwrap();
    assert_eq!(subject.store().folder(&at).await.unwrap().objects.len(), 5);
    let location = |name: &str| format!("{}/{name}", subject.root());
    subject.store().delete(&location("x.parquet#1")).await.unwrap();
    subject.store().delete(&location("x.parquet#1")).await.unwrap();
    let rest = ["x.parquet#23", "#4", "y#z", "x.parquet#99"].map(location).to_vec();
    for (location, result) in subject.store().delete_all(rest).await {
        assert!(result.is_ok(), "{location}: {result:?}");
    }
    assert_eq!(scanned(&subject).await, ["/x.parquet"]);
}

#[tokio::test]
async fn an_upload_that_is_under_way_is_seen_as_unfinished() {
    let subject = Local::new();
    let mut upload = subject.store().create(&format!("{}/a.parquet", subject.root())).await.unwrap();
    upload.write(vec![1; 20 << 20].into()).await.unwrap();
    let seen = scanned(&subject).await;
    assert!(seen.len() == 1 && seen[0].starts_with("/a.parquet#"), "{seen:?}");
    upload.finish().await.unwrap();
    assert_eq!(scanned(&subject).await, ["/a.parquet"]);
}

#[tokio::test]
async fn folders_that_go_while_the_local_disk_is_listed_are_empty() {
    let subject = Local::new();
    let folder = subject.folder.path();
    for place in ["a", "b"] {
        std::fs::create_dir(folder.join(place)).unwrap();
        // More than are looked at in one go.
        for number in 0..2_000 {
            std::fs::write(folder.join(place).join(number.to_string()), "x").unwrap();
        }
    }
    let mut objects = subject.store().scan(&Location::parse(&subject.root()).unwrap());
    let mut seen = 0;
    while let Some(object) = objects.try_next().await.unwrap() {
        if seen == 0 {
            let first = if object.key.rsplit_once('/').unwrap().0.ends_with("/a") { "a" } else { "b" };
            let other = if first == "a" { "b" } else { "a" };
            std::fs::remove_dir_all(folder.join(other)).unwrap();
            for number in 1_900..2_000 {
                std::fs::remove_file(folder.join(first).join(number.to_string())).unwrap();
            }
        }
        seen += 1;
    }
    assert!((1_900..=2_000).contains(&seen), "{seen}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_on_the_local_disk_that_leads_nowhere_is_no_error() {
    let subject = Local::new();
    std::fs::write(subject.folder.path().join("file"), "x").unwrap();
    std::os::unix::fs::symlink(subject.folder.path().join("nowhere"), subject.folder.path().join("link")).unwrap();
    assert_eq!(scanned(&subject).await, ["/file"]);
    let at = Location::parse(&subject.root()).unwrap();
    assert_eq!(subject.store().folder(&at).await.unwrap().objects.len(), 1);
}

#[tokio::test]
async fn uploads_that_fail_leave_no_parts_in_the_store() {
    let subject = Remote::new();
    let (store, root) = (subject.store(), subject.root());
    let mut dropped = store.create(&format!("{root}/dropped")).await.unwrap();
    dropped.write(vec![1; 20 << 20].into()).await.unwrap();
    assert_ne!(open_uploads(&root), json!([]), "the test does not see what it is about");
    drop(dropped);
    let mut aborted = store.create(&format!("{root}/aborted")).await.unwrap();
    aborted.write(vec![1; 20 << 20].into()).await.unwrap();
    aborted.abort().await.unwrap();
    // A drop only asks: what it asked for is done while the process lives.
    for _ in 0..100 {
        if open_uploads(&root) == json!([]) {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(open_uploads(&root), json!([]));
    let left: Vec<_> = store.list(&Location::parse(&root).unwrap()).try_collect().await.unwrap();
    assert!(left.is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_a_bucket_is_told_apart() {
    let server = SeaweedFs::shared();
    let file = server.s3();
    let error = s3(&file).read("s3://no-such-bucket/key").await.unwrap_err();
    assert!(matches!(error, Error::NoBucket { .. }), "{error:?}");
    let mut upload = s3(&file).create("s3://no-such-bucket/key").await.unwrap();
    upload.write("x".into()).await.unwrap();
    let error = upload.finish().await.unwrap_err();
    assert_eq!(error.to_string(), "the bucket of s3://no-such-bucket/key does not exist");
    assert!(error.is_configuration());
    let wrong = file.with_secret("S3_SECRET", "not-the-right-secret");
    let error = s3(&wrong).read(&format!("s3://{}/key", server.bucket())).await.unwrap_err();
    assert!(error.is_configuration(), "{error:?}");
    assert!(!format!("{error:?}").contains("not-the-right-secret"), "{error:?}");
}

#[tokio::test]
async fn a_scheme_without_a_store_is_named() {
    let error = Store::local().read("s3://bucket/key").await.unwrap_err();
    assert_eq!(error.to_string(), r#"location "s3://bucket/key" needs a store for "s3", and none is configured"#);
}
