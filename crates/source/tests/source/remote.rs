//! Files across a network: found by the rules of local ones, copied, and watched.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use futures::stream::BoxStream;
use hexfloe_batch::Sha256Hex;
use hexfloe_source::{Error, ErrorKind, Format, Remotes, ScanOptions, Source};
use hexfloe_store::{Properties, Store};
use hexfloe_tests::SeaweedFs;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use rstest::rstest;
use tokio::runtime::{Builder, Runtime};

use crate::{scan, settings};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap())
}

fn remotes(store: Store) -> Remotes {
    Remotes::new(store, runtime().handle().clone())
}

fn open(store: &Store, format: Format, paths: &[&str]) -> Result<Source, Error> {
    Source::open_with(settings(format, paths), FilePath::new("."), &remotes(store.clone()))
}

fn names(source: &Source) -> Vec<&str> {
    source.files().iter().map(hexfloe_source::InputFile::path).collect()
}

fn put(objects: &dyn ObjectStore, key: &str, content: &str) {
    runtime().block_on(objects.put(&Path::parse(key).unwrap(), content.to_owned().into())).unwrap();
}

/// A bucket in memory with an object for each key; each holds one row.
fn bucket(keys: &[&str]) -> (Store, Arc<InMemory>) {
    let objects = Arc::new(InMemory::new());
    keys.iter().for_each(|key| put(&*objects, key, "v\n1\n"));
    (Store::empty().mount("s3", "bucket", Arc::clone(&objects) as Arc<dyn ObjectStore>), objects)
}

const KEYS: [&str; 8] =
    ["b.csv", "a.csv", "a10.csv", "a2.csv", ".hidden.csv", "sub/c.csv", "sub/.deep/x.csv", "odd[1].csv"];

#[rstest]
#[case(&["s3://bucket/*.csv"], &["a.csv", "a10.csv", "a2.csv", "b.csv", "odd[1].csv"])]
#[case(&["s3://bucket/b.csv", "s3a://bucket/a.csv", "s3://bucket/a.csv"], &["a.csv", "b.csv"])]
#[case(&["s3://bucket/a?.csv"], &["a2.csv"])]
#[case(&["s3://bucket/[ab].csv"], &["a.csv", "b.csv"])]
#[case(&["s3://bucket/odd[1].csv"], &["odd[1].csv"])]
#[case(&["s3://bucket/sub/*"], &["sub/c.csv"])]
#[case(&["s3://bucket/**/c.csv"], &["sub/c.csv"])]
#[case(&["s3://bucket/**/*.csv"], &["a.csv", "a10.csv", "a2.csv", "b.csv", "odd[1].csv", "sub/c.csv"])]
#[case(&["s3://bucket/.hidden.csv"], &[".hidden.csv"])]
fn patterns_mean_what_they_mean_on_the_local_disk(#[case] paths: &[&str], #[case] keys: &[&str]) {
    let (store, _) = bucket(&KEYS);
    let source = open(&store, Format::Csv, paths).unwrap();
    let expected: Vec<String> = keys.iter().map(|key| format!("s3://bucket/{key}")).collect();
    assert_eq!(names(&source), expected);
    assert_eq!(scan(&source, &ScanOptions::default()).unwrap().rows.len(), keys.len());
    source.check_unchanged().unwrap();
}

#[test]
fn an_object_that_stands_for_a_folder_is_no_file() {
    let (store, objects) = bucket(&["in/folder/a.csv", "in/b.csv"]);
    put(&*objects, "in/folder", "");
    assert_eq!(names(&open(&store, Format::Csv, &["s3://bucket/in/*"]).unwrap()), ["s3://bucket/in/b.csv"]);
}

#[rstest]
#[case("s3://bucket/none.csv", "does not exist")]
#[case("s3://bucket/*.parquet", "matches no file")]
#[case("s3://bucket/sub", "is a folder")]
#[case("s3://bucket/sub/", "is a folder")]
#[case("s3://bucket/a[", "is not a pattern")]
#[case("s3://b*/a.csv", "has a pattern for the bucket")]
#[case("s3://other/a.csv", "needs a store")]
#[case("ftp://host/a.csv", "has a scheme that is none of")]
#[case("file:///a.csv", "is a URL of a local file")]
#[case("http://example.org/a.csv", "is not encrypted")]
#[case("https://example.org/*.csv", "the web has no patterns")]
#[case("https://example.org/folder/", "the web has no patterns and no folders")]
fn what_cannot_be_read_is_refused_by_name(#[case] path: &str, #[case] problem: &str) {
    let (store, _) = bucket(&KEYS);
    let error = open(&store, Format::Csv, &[path]).unwrap_err();
    assert!(error.to_string().contains(problem), "{error}");
    assert!(error.to_string().contains(path), "{error}");
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn local_files_and_objects_are_one_source() {
    let (store, _) = bucket(&["a.csv"]);
    let folder = crate::folder(&[("z.csv", b"v\n2\n")]);
    let settings = settings(Format::Csv, &["z.csv", "s3://bucket/a.csv"]);
    let source = Source::open_with(settings, folder.path(), &remotes(store)).unwrap();
    assert_eq!(names(&source), ["s3://bucket/a.csv", "z.csv"]);
    assert_eq!(scan(&source, &ScanOptions::default()).unwrap().values(), ["1", "2"]);
}

#[test]
fn an_object_that_is_replaced_before_the_commit_is_noticed() {
    let (store, objects) = bucket(&["a.csv", "b.csv"]);
    let source = open(&store, Format::Csv, &["s3://bucket/*.csv"]).unwrap();
    put(&*objects, "b.csv", "v\n2\n");
    let error = source.check_unchanged().unwrap_err();
    assert!(error.to_string().starts_with("s3://bucket/b.csv changed while being read"), "{error}");
    // What was copied is still what is read.
    assert_eq!(scan(&source, &ScanOptions::default()).unwrap().values(), ["1", "1"]);
    runtime().block_on(objects.delete(&Path::from("b.csv"))).unwrap();
    assert!(source.check_unchanged().unwrap_err().to_string().contains("it is gone"));
}

/// A store in which an object is replaced as soon as a part of it has been read.
#[derive(Debug)]
struct Restless(InMemory);

impl fmt::Display for Restless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Restless")
    }
}

#[async_trait]
impl ObjectStore for Restless {
    async fn put_opts(&self, at: &Path, bytes: PutPayload, o: PutOptions) -> object_store::Result<PutResult> {
        self.0.put_opts(at, bytes, o).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        o: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(at, o).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        let is_head = options.head;
        let answer = self.0.get_opts(at, options).await?;
        if !is_head {
            self.0.put(at, vec![b'x'; usize::try_from(answer.meta.size).unwrap()].into()).await?;
        }
        Ok(answer)
    }

    fn delete_stream(
        &self,
        at: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.0.delete_stream(at)
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

#[test]
fn two_versions_of_an_object_are_never_mixed() {
    let objects = InMemory::new();
    put(&objects, "a.csv", &"v\n".repeat(10 << 20));
    let store = Store::empty().mount("s3", "bucket", Arc::new(Restless(objects)));
    let error = open(&store, Format::Csv, &["s3://bucket/a.csv"]).unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
}

/// The folders of copies that this process has made.
fn copies() -> BTreeSet<String> {
    let names = std::fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("hexfloe-input-")).collect()
}

#[test]
fn files_on_s3_are_read_as_local_ones_and_their_copies_are_gone_with_the_source() {
    let server = SeaweedFs::shared();
    let properties: Properties = serde_json::from_value(server.s3().properties()).unwrap();
    let store = Store::local().with_remote(properties, None).unwrap();
    let bucket = server.bucket();
    // More than one part.
    let large = format!("v\n{}", "1234567\n".repeat(3 << 20));
    let upload = |key: &str, content: &str| {
        runtime().block_on(async {
            let mut upload = store.create(&format!("s3://{bucket}/{key}")).await.unwrap();
            upload.write(content.to_owned().into()).await.unwrap();
            upload.finish().await.unwrap();
        });
    };
    upload("in/b ü.csv", "v\n2\n");
    upload("in/a.csv", &large);
    upload("in/deeper/c.csv", "v\n3\n");
    let before = copies();
    let source = open(&store, Format::Csv, &[&format!("s3://{bucket}/in/*.csv")]).unwrap();
    let expected = ["in/a.csv", "in/b ü.csv"].map(|key| format!("s3://{bucket}/{key}"));
    assert_eq!(names(&source), expected);
    let facts = source.facts(&|_| {}).unwrap();
    assert_eq!(facts.iter().map(|fact| &fact.path).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert_eq!(facts[0].sha256, Sha256Hex::of(large.as_bytes()));
    assert_eq!(facts[0].size, large.len() as u64);
    let clone = source.clone();
    drop(source);
    let mine: Vec<_> = copies().difference(&before).cloned().collect();
    assert!(!mine.is_empty());
    assert_eq!(scan(&clone, &ScanOptions::default()).unwrap().rows.len(), (3 << 20) + 1);
    clone.check_unchanged().unwrap();

    runtime().block_on(store.delete(&format!("s3://{bucket}/in/b ü.csv"))).unwrap();
    upload("in/b ü.csv", "v\n4\n");
    let error = clone.check_unchanged().unwrap_err();
    assert!(matches!(error, Error::Changed { .. }), "{error}");
    drop(clone);
    // Another test of this process may have copies of its own, but none of these.
    assert!(mine.iter().any(|folder| !copies().contains(folder)));

    let error = open(&store, Format::Csv, &["s3://no-such-bucket/a.csv"]).unwrap_err();
    assert!(error.to_string().contains("s3://no-such-bucket/a.csv"), "{error}");
}

/// A request: its first line and its headers, in lower case.
type Answer = Box<dyn Fn(&str) -> String + Send>;

/// A server that answers each request as told, and its address.
fn serve(answer: Answer) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut request = String::new();
            while reader.read_line(&mut request).unwrap() > 2 {}
            log.lock().unwrap().push(request.clone());
            let _ = connection.write_all(answer(&request).as_bytes());
            let _ = connection.shutdown(std::net::Shutdown::Write);
            let _ = connection.read(&mut [0; 16]);
        }
    });
    (address, seen)
}

fn answer(headers: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{headers}\r\n{body}")
}

#[test]
fn a_file_of_the_web_is_read_by_its_url_and_what_is_secret_in_it_is_not_shown() {
    let (address, seen) = serve(Box::new(|request| {
        let body = if request.starts_with("HEAD") { "" } else { "v\n1\n" };
        answer("content-length: 4\r\netag: \"1\"\r\n", body)
    }));
    let url = format!("{}/a%20b/c%2Fd.csv?sig=hush%3D&x=1", address.replace("http://", "http://me:secret@"));
    let source = open(&Store::empty(), Format::Csv, &[&url]).unwrap();
    assert_eq!(names(&source), [format!("{address}/a%20b/c%2Fd.csv")]);
    assert_eq!(scan(&source, &ScanOptions::default()).unwrap().values(), ["1"]);
    source.check_unchanged().unwrap();
    assert!(seen.lock().unwrap()[0].starts_with("GET /a%20b/c%2Fd.csv?sig=hush%3D&x=1 HTTP/1.1"), "{seen:?}");
    assert!(!format!("{:?}", source.files()).contains("hush"), "{:?}", source.files());
}

#[rstest]
#[case::tagged("content-length: 4\r\netag: \"1\"\r\n", "content-length: 4\r\netag: \"2\"\r\n", false)]
#[case::dated(
    "content-length: 4\r\nlast-modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n",
    "content-length: 4\r\nlast-modified: Wed, 21 Oct 2015 07:29:00 GMT\r\n",
    false
)]
#[case::grown("content-length: 4\r\n", "content-length: 5\r\n", false)]
#[case::neither("content-length: 4\r\n", "content-length: 4\r\n", true)]
fn a_file_of_the_web_is_watched_by_what_its_server_says(
    #[case] first: &'static str,
    #[case] then: &'static str,
    #[case] is_same: bool,
) {
    let (address, _) =
        serve(Box::new(
            move |request| {
                if request.starts_with("HEAD") { answer(then, "") } else { answer(first, "v\n1\n") }
            },
        ));
    let source = open(&Store::empty(), Format::Csv, &[&format!("{address}/a.csv")]).unwrap();
    assert_eq!(source.check_unchanged().is_ok(), is_same);
}

#[test]
fn a_server_that_knows_no_head_is_asked_for_the_file_again() {
    let (address, _) = serve(Box::new(|request| {
        if request.starts_with("HEAD") {
            return "HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned();
        }
        answer("content-length: 4\r\netag: \"1\"\r\n", "v\n1\n")
    }));
    let source = open(&Store::empty(), Format::Csv, &[&format!("{address}/a.csv")]).unwrap();
    source.check_unchanged().unwrap();
}

#[rstest]
#[case::cut_off(answer("content-length: 9\r\n", "v\n1\n"), "failed to read")]
#[case::no_length(answer("", "v\n1\n"), "failed to read")]
#[case::not_there("HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned(), "does not exist")]
#[case::not_let_in("HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned(), "failed to read")]
fn a_server_that_fails_is_told_by_name_without_secrets(#[case] said: String, #[case] message: &str) {
    let (address, _) = serve(Box::new(move |_| said.clone()));
    let error = open(&Store::empty(), Format::Csv, &[&format!("{address}/a.csv?sig=t0psecret")]).unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains(message) && text.contains(&format!("{address}/a.csv")), "{text}");
    assert!(!text.contains("t0psecret"), "{text}");
}

#[test]
fn a_runtime_with_one_thread_is_an_error_and_no_panic() {
    let alone = Builder::new_current_thread().enable_all().build().unwrap();
    let (store, _) = bucket(&["a.csv"]);
    let error = alone.block_on(async { open(&store, Format::Csv, &["s3://bucket/a.csv"]).unwrap_err() });
    assert!(error.to_string().contains("a runtime with several threads"), "{error}");
    // From a thread of the runtime itself it works.
    let opened =
        runtime().block_on(runtime().spawn(async move { open(&store, Format::Csv, &["s3://bucket/a.csv"]).is_ok() }));
    assert!(opened.unwrap());
}
