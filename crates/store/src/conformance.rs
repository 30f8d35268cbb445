//! What every store owes, as tests that any can run: over the local disk, memory and S3 here, over decorated or other
//! stores where they are made. Each function is one promise of [`Store`], works in a place of its own, and panics when the
//! promise is broken.
//!
//! [`conforms!`](crate::conforms) makes a test of each. Needs the cargo feature `conformance`, and a multi-threaded tokio
//! runtime.

#![expect(clippy::unwrap_used, reason = "a broken promise fails the test that asked")]

use futures::TryStreamExt;

use crate::{Error, Location, Store};

/// A store under test.
pub trait Subject: Send + Sync {
    /// The store.
    fn store(&self) -> Store;

    /// An empty place in it, as a location without a trailing slash.
    fn root(&self) -> String;
}

/// Makes a test of each promise; the expression makes a [`Subject`] with an empty place of its own.
#[macro_export]
macro_rules! conforms {
    ($subject:expr) => {
        $crate::conforms! {
            @tests $subject;
            an_upload_is_invisible_until_finished
            a_large_upload_is_whole
            an_existing_object_is_never_written_over
            an_aborted_or_dropped_upload_leaves_nothing
            keys_are_encoded_once
            deleting_what_is_not_there_is_fine
            a_place_that_does_not_exist_lists_as_empty
            iceberg_reads_and_writes_through_the_same_stores
            an_object_in_parts_is_not_written_over_one_that_is_there
            of_many_that_write_one_object_one_wins
            a_write_whose_answer_is_lost_is_found_to_be_there
            many_objects_are_deleted_at_once_with_a_result_for_each
            scans_and_folders_agree_with_the_listing
            a_copy_is_whole_and_never_written_over_another_object
            an_object_says_when_it_was_last_written
        }
    };
    (@tests $subject:expr; $($promise:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $promise() {
                $crate::conformance::$promise(&$subject).await;
            }
        )*
    };
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

/// Nothing is under the name until an upload is finished; then all of it is, and any part can be read.
pub async fn an_upload_is_invisible_until_finished(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let location = format!("{root}/a");
    let mut upload = store.create(&location).await.unwrap();
    upload.write("abc".into()).await.unwrap();
    assert!(store.read(&location).await.unwrap_err().is_not_found());
    assert_eq!(upload.finish().await.unwrap(), 3);
    assert_eq!(store.read(&location).await.unwrap(), "abc");
    assert_eq!(store.size(&location).await.unwrap(), 3);
    assert_eq!(store.read_range(&location, 1..3).await.unwrap(), "bc");
}

/// An object of many parts holds every byte in its place, and no more than one part waits in memory.
pub async fn a_large_upload_is_whole(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let location = format!("{root}/large");
    let mut upload = store.create(&location).await.unwrap();
    for piece in 0..40_u8 {
        upload.write(vec![piece; 400_000].into()).await.unwrap();
        assert!(upload.buffered() < 8 << 20);
    }
    assert_eq!(upload.finish().await.unwrap(), 16_000_000);
    let bytes = store.read(&location).await.unwrap();
    assert!(bytes.chunks(400_000).zip(0_u8..).all(|(chunk, piece)| chunk.iter().all(|byte| *byte == piece)));
}

/// A name that is taken is not written to.
pub async fn an_existing_object_is_never_written_over(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let location = format!("{root}/a");
    let mut first = store.create(&location).await.unwrap();
    first.write("first".into()).await.unwrap();
    first.finish().await.unwrap();
    let mut second = store.create(&location).await.unwrap();
    second.write("second".into()).await.unwrap();
    assert!(matches!(second.finish().await, Err(Error::Exists { .. })));
    assert_eq!(store.read(&location).await.unwrap(), "first");
}

/// Uploads that are given up are not there, whole or in part.
pub async fn an_aborted_or_dropped_upload_leaves_nothing(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let mut upload = store.create(&format!("{root}/a")).await.unwrap();
    upload.write(vec![1; 20 << 20].into()).await.unwrap();
    upload.abort().await.unwrap();
    let mut dropped = store.create(&format!("{root}/b")).await.unwrap();
    dropped.write("abc".into()).await.unwrap();
    drop(dropped);
    assert!(listed(&store, &root).await.is_empty());
}

/// Any character of a key is a character of the key: spaces, percent signs, colons, umlauts, leading dots.
pub async fn keys_are_encoded_once(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
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
    for key in keys {
        store.delete(&format!("{root}{key}")).await.unwrap();
    }
    assert!(listed(&store, &root).await.is_empty());
}

/// A delete says what is wanted: that it is gone.
pub async fn deleting_what_is_not_there_is_fine(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    store.delete(&format!("{root}/nothing")).await.unwrap();
}

/// There are no folders to be missing.
pub async fn a_place_that_does_not_exist_lists_as_empty(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    assert!(listed(&store, &format!("{root}/nowhere")).await.is_empty());
}

/// Iceberg's `FileIO` sees what a store holds, and the other way round.
pub async fn iceberg_reads_and_writes_through_the_same_stores(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
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

/// A name that is taken is not written to by an object in parts either.
pub async fn an_object_in_parts_is_not_written_over_one_that_is_there(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let location = format!("{root}/a");
    let mut first = store.create(&location).await.unwrap();
    first.write("first".into()).await.unwrap();
    first.finish().await.unwrap();
    let mut second = store.create(&location).await.unwrap();
    second.write(vec![2; 9 << 20].into()).await.unwrap();
    assert!(matches!(second.finish().await, Err(Error::Exists { .. })));
    assert_eq!(store.read(&location).await.unwrap(), "first");
}

/// Of many that write under one name at once, one succeeds, and its bytes are there.
pub async fn of_many_that_write_one_object_one_wins(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let location = format!("{root}/one");
    let mut rivals = tokio::task::JoinSet::new();
    for rival in 0..8_u8 {
        let (store, location) = (store.clone(), location.clone());
        rivals.spawn(async move {
            let mut upload = store.create(&location).await.unwrap();
            upload.write(vec![rival; 1_000].into()).await.unwrap();
            (rival, upload.finish().await)
        });
    }
    let finished = rivals.join_all().await;
    let won: Vec<u8> = finished.iter().filter(|(_, result)| result.is_ok()).map(|(rival, _)| *rival).collect();
    assert!(finished.iter().all(|(_, result)| matches!(result, Ok(1_000) | Err(Error::Exists { .. }))), "{finished:?}");
    assert_eq!(won.len(), 1, "{finished:?}");
    assert_eq!(store.read(&location).await.unwrap(), vec![won[0]; 1_000]);
}

/// A write that was carried out and not answered is a success; what others wrote is not taken for it.
pub async fn a_write_whose_answer_is_lost_is_found_to_be_there(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let at = Location::parse(&root).unwrap();
    let lossy =
        store.mount(at.family(), at.authority(), std::sync::Arc::new(LosesAnswers(store.serving(&at).unwrap())));
    let location = format!("{root}/a");
    let mut upload = lossy.create(&location).await.unwrap();
    upload.write("abc".into()).await.unwrap();
    assert_eq!(upload.finish().await.unwrap(), 3);
    // What others wrote is not taken for ours.
    let mut other = lossy.create(&location).await.unwrap();
    other.write("xyz".into()).await.unwrap();
    assert!(other.finish().await.is_err());
    assert_eq!(store.read(&location).await.unwrap(), "abc");
}

/// Many objects are deleted at once, and each has a result.
pub async fn many_objects_are_deleted_at_once_with_a_result_for_each(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let mut locations = Vec::new();
    for number in 0..40 {
        let location = format!("{root}/many/{number:04} ä~%.parquet");
        let mut upload = store.create(&location).await.unwrap();
        upload.write(b"x".to_vec().into()).await.unwrap();
        upload.finish().await.unwrap();
        locations.push(location);
    }
    let kept = locations.pop().unwrap();
    locations.push(format!("{root}/many/never-there"));
    locations.push("gopher://nowhere/x".to_owned());
    let results = store.delete_all(locations.clone()).await;
    let mut told: Vec<_> = results.iter().map(|(location, _)| location.clone()).collect();
    told.sort();
    locations.sort();
    assert_eq!(told, locations);
    for (location, result) in results {
        assert_eq!(result.is_ok(), !location.starts_with("gopher"), "{location}");
    }
    assert_eq!(listed(&store, &format!("{root}/many")).await.len(), 1);
    assert_eq!(store.read(&kept).await.unwrap(), "x");
}

/// What a scan gives is what a listing gives, and so is what one finds from folder to folder.
pub async fn scans_and_folders_agree_with_the_listing(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let keys = ["/a", "/x/b", "/x/y/c", "/x/y/d e%20ü", "/x/_h3=8/.f", "/xy/g"];
    for key in keys {
        write(&store, &format!("{root}{key}"), key.as_bytes()).await;
    }
    let at = Location::parse(&root).unwrap();
    let below = |object: &crate::StoreObject| object.key.strip_prefix(at.key()).unwrap().to_owned();
    let scanned: Vec<crate::StoreObject> = store.scan(&at).try_collect().await.unwrap();
    let mut found: Vec<String> = scanned.iter().map(below).collect();
    found.sort();
    assert_eq!(found, listed(&store, &root).await);
    assert!(scanned.iter().all(|object| object.size == below(object).len() as u64));

    let (mut walked, mut waiting) = (Vec::new(), vec![at.clone()]);
    while let Some(folder) = waiting.pop() {
        let inside = store.folder(&folder).await.unwrap();
        let direct = |key: &str| !key[folder.key().len() + 1..].contains('/');
        assert!(
            inside.objects.iter().all(|object| direct(&object.key)) && inside.folders.iter().all(|key| direct(key))
        );
        walked.extend(inside.objects.iter().map(below));
        let place = |key: &String| Location::parse(&format!("{}://{}/{key}", at.scheme(), at.authority())).unwrap();
        waiting.extend(inside.folders.iter().map(place));
    }
    walked.sort();
    assert_eq!(walked, found);

    let nowhere = at.join("nowhere").unwrap();
    assert_eq!(store.scan(&nowhere).try_collect::<Vec<_>>().await.unwrap(), []);
    let inside = store.folder(&nowhere).await.unwrap();
    assert!(inside.objects.is_empty() && inside.folders.is_empty());
}

/// A copy stays in its store, has all bytes, and takes no place that is taken.
pub async fn a_copy_is_whole_and_never_written_over_another_object(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let (source, target) = (format!("{root}/a b"), format!("{root}/x/y%20/c"));
    write(&store, &source, b"first").await;
    store.copy(&source, &target).await.unwrap();
    assert_eq!(store.read(&target).await.unwrap(), "first");
    assert_eq!(store.read(&source).await.unwrap(), "first");
    // They are two objects.
    store.delete(&source).await.unwrap();
    assert_eq!(store.read(&target).await.unwrap(), "first");
    write(&store, &source, b"second").await;
    assert!(matches!(store.copy(&source, &target).await, Err(Error::Exists { .. })));
    assert_eq!(store.read(&target).await.unwrap(), "first");
    let missing = store.copy(&format!("{root}/nothing"), &format!("{root}/d")).await.unwrap_err();
    assert!(missing.is_not_found(), "{missing:?}");
    for elsewhere in ["s3://another-bucket/e", "gs://a-bucket/e"] {
        assert!(matches!(store.copy(&source, elsewhere).await, Err(Error::Location { .. })), "{elsewhere}");
    }
}

/// An object's time is the one that listings give, and a younger one's is not before it.
pub async fn an_object_says_when_it_was_last_written(subject: &dyn Subject) {
    let (store, root) = (subject.store(), subject.root());
    let at = Location::parse(&root).unwrap();
    let second = std::time::Duration::from_secs(1);
    let mut last = std::time::SystemTime::UNIX_EPOCH;
    for name in ["a", "b"] {
        let location = format!("{root}/{name}");
        write(&store, &location, b"x").await;
        let time = store.last_modified(&location).await.unwrap().unwrap();
        assert!(time + second >= last, "{name} is older than what was there before");
        let scanned: Vec<crate::StoreObject> = store.scan(&at).try_collect().await.unwrap();
        let newest = scanned.iter().filter_map(|object| object.last_modified).max().unwrap();
        // Some answers have whole seconds only.
        let apart = newest.duration_since(time).unwrap_or_else(|before| before.duration());
        assert!(apart <= second, "{apart:?} between the answers");
        last = time;
    }
    assert!(store.last_modified(&format!("{root}/nothing")).await.unwrap_err().is_not_found());
}

async fn write(store: &Store, location: &str, bytes: &[u8]) {
    let mut upload = store.create(location).await.unwrap();
    upload.write(bytes.to_vec().into()).await.unwrap();
    upload.finish().await.unwrap();
}

/// Answers a request to create an object with a failure, after it was carried out.
#[derive(Debug)]
struct LosesAnswers(std::sync::Arc<dyn object_store::ObjectStore>);

impl std::fmt::Display for LosesAnswers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LosesAnswers({})", self.0)
    }
}

#[async_trait::async_trait]
impl object_store::ObjectStore for LosesAnswers {
    async fn put_opts(
        &self,
        location: &object_store::path::Path,
        payload: object_store::PutPayload,
        options: object_store::PutOptions,
    ) -> object_store::Result<object_store::PutResult> {
        self.0.put_opts(location, payload, options).await?;
        Err(object_store::Error::Generic { store: "lossy", source: "the answer is lost".into() })
    }

    async fn put_multipart_opts(
        &self,
        location: &object_store::path::Path,
        options: object_store::PutMultipartOptions,
    ) -> object_store::Result<Box<dyn object_store::MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(
        &self,
        location: &object_store::path::Path,
        options: object_store::GetOptions,
    ) -> object_store::Result<object_store::GetResult> {
        self.0.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: futures::stream::BoxStream<'static, object_store::Result<object_store::path::Path>>,
    ) -> futures::stream::BoxStream<'static, object_store::Result<object_store::path::Path>> {
        self.0.delete_stream(locations)
    }

    fn list(
        &self,
        prefix: Option<&object_store::path::Path>,
    ) -> futures::stream::BoxStream<'static, object_store::Result<object_store::ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(
        &self,
        prefix: Option<&object_store::path::Path>,
    ) -> object_store::Result<object_store::ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &object_store::path::Path,
        to: &object_store::path::Path,
        options: object_store::CopyOptions,
    ) -> object_store::Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}
