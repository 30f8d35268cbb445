//! Every store passes the same tests, and what only S3 can do wrong.

#![expect(clippy::unwrap_used, reason = "tests")]

use futures::TryStreamExt;
use hexfloe_store::conformance::Subject;
use hexfloe_store::{Error, Location, Properties, Store};
use hexfloe_tests::{CatalogFile, SeaweedFs, json, judge};
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
