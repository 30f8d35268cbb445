//! Every store passes the same tests: what the rest of Hexfloe relies on.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use futures::TryStreamExt;
use hexfloe_store::{Error, Location, Store};
use rstest::rstest;
use tempfile::TempDir;

/// A store and a place in it; the folder lives as long as the test.
fn place(kind: &str) -> (Store, String, TempDir) {
    let folder = TempDir::new().unwrap();
    match kind {
        "local" => (Store::local(), format!("file://{}", folder.path().to_str().unwrap()), folder),
        "memory" => (Store::memory(), "memory:///root".to_owned(), folder),
        other => panic!("no store {other}"),
    }
}

async fn listed(store: &Store, root: &str) -> Vec<String> {
    let below = Location::parse(root).unwrap();
    let mut keys: Vec<String> = store
        .list(&below)
        .map_ok(|listed| listed.location.to_string().strip_prefix(root).unwrap().to_owned())
        .try_collect()
        .await
        .unwrap();
    keys.sort();
    keys
}

#[rstest]
#[tokio::test]
async fn an_upload_is_invisible_until_finished(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    let location = format!("{root}/a");
    let mut upload = store.create(&location).await.unwrap();
    upload.write("abc".into()).await.unwrap();
    assert!(store.read(&location).await.unwrap_err().is_not_found());
    assert_eq!(upload.finish().await.unwrap(), 3);
    assert_eq!(store.read(&location).await.unwrap(), "abc");
    assert_eq!(store.size(&location).await.unwrap(), 3);
    assert_eq!(store.read_range(&location, 1..3).await.unwrap(), "bc");
}

#[rstest]
#[tokio::test]
async fn a_large_upload_is_whole(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    let location = format!("{root}/large");
    let mut upload = store.create(&location).await.unwrap();
    for piece in 0..40_u8 {
        upload.write(vec![piece; 400_000].into()).await.unwrap();
        assert!(upload.buffered() < (5 << 20) + 400_000);
    }
    assert_eq!(upload.finish().await.unwrap(), 16_000_000);
    let bytes = store.read(&location).await.unwrap();
    assert!(bytes.chunks(400_000).zip(0_u8..).all(|(chunk, piece)| chunk.iter().all(|byte| *byte == piece)));
}

#[rstest]
#[tokio::test]
async fn an_existing_object_is_never_written_over(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    let location = format!("{root}/a");
    let mut first = store.create(&location).await.unwrap();
    first.write("first".into()).await.unwrap();
    first.finish().await.unwrap();
    let mut second = store.create(&location).await.unwrap();
    second.write("second".into()).await.unwrap();
    assert!(matches!(second.finish().await, Err(Error::Exists { .. })));
    assert_eq!(store.read(&location).await.unwrap(), "first");
}

#[rstest]
#[tokio::test]
async fn an_aborted_or_dropped_upload_leaves_nothing(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    let mut upload = store.create(&format!("{root}/a")).await.unwrap();
    upload.write(vec![1; 6 << 20].into()).await.unwrap();
    upload.abort().await.unwrap();
    let mut dropped = store.create(&format!("{root}/b")).await.unwrap();
    dropped.write("abc".into()).await.unwrap();
    drop(dropped);
    assert!(listed(&store, &root).await.is_empty());
}

#[rstest]
#[tokio::test]
async fn keys_are_encoded_once(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    let keys = ["/a b/c:d", "/a%20b/c", "/tilde~/ümlaut", "/x=1%2F2/y+z", "/_h3=8/.hidden"];
    for key in keys {
        let location = format!("{root}{key}");
        let mut upload = store.create(&location).await.unwrap();
        upload.write(key.as_bytes().to_vec().into()).await.unwrap();
        upload.finish().await.unwrap();
        assert_eq!(store.read(&location).await.unwrap(), key.as_bytes());
    }
    let mut expected = keys.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(listed(&store, &root).await, expected);
    if kind == "local" {
        let folder = root.strip_prefix("file://").unwrap();
        assert!(keys.iter().all(|key| std::path::Path::new(&format!("{folder}{key}")).is_file()));
    }
    for key in keys {
        store.delete(&format!("{root}{key}")).await.unwrap();
    }
    assert!(listed(&store, &root).await.is_empty());
}

#[rstest]
#[tokio::test]
async fn deleting_what_is_not_there_is_fine(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    store.delete(&format!("{root}/nothing")).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn a_place_that_does_not_exist_lists_as_empty(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    assert!(listed(&store, &format!("{root}/nowhere")).await.is_empty());
}

#[rstest]
#[tokio::test]
async fn iceberg_reads_and_writes_through_the_same_stores(#[values("local", "memory")] kind: &str) {
    let (store, root, _folder) = place(kind);
    let location = format!("{root}/metadata/v1.json");
    let io = store.file_io();
    io.new_output(&location).unwrap().write("{}".into()).await.unwrap();
    assert!(io.exists(&location).await.unwrap());
    assert_eq!(io.new_input(&location).unwrap().metadata().await.unwrap().size, 2);
    let mut writer = io.new_output(format!("{root}/metadata/m0.avro")).unwrap().writer().await.unwrap();
    writer.write("avro".into()).await.unwrap();
    writer.close().await.unwrap();
    assert!(writer.close().await.is_err());
    assert_eq!(store.read(&format!("{root}/metadata/m0.avro")).await.unwrap(), "avro");
    io.delete_prefix(format!("{root}/metadata")).await.unwrap();
    assert!(!io.exists(&location).await.unwrap());
}

#[tokio::test]
async fn a_scheme_without_a_store_is_named() {
    let error = Store::local().read("s3://bucket/key").await.unwrap_err();
    assert_eq!(error.to_string(), r#"location "s3://bucket/key" needs a store for "s3", and none is configured"#);
}
