//! Files across a network, copied once and then read like local ones.
//!
//! Every reader here goes over its files more than once, by position, and must find the same bytes each time. A remote object
//! promises no such thing, so it is copied, in order of names, to a private folder that goes when the source goes, and hashed on the
//! way. What is copied is pinned: each request asks for the very version that was listed (`If-Match`), and an object that is
//! replaced meanwhile is an error. [`check_unchanged`](RemoteFile::check_unchanged) asks once more before a commit.
//!
//! No more is written to disk than the listing said there is.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use hexfloe_batch::Sha256Hex;
use hexfloe_store::{Location, Store, secrets};
use object_store::client::{HttpClient, HttpConnector, ReqwestConnector};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::runtime::{Handle, RuntimeFlavor};
use url::{Host, Url};

use crate::error::Error;
use crate::files::PATTERNS;

/// Bytes of one request, where an object can be asked for in parts: each has to fit into the time a request may take.
const PART: u64 = 8 << 20;

/// How many parts of an object are under way at once.
const PARTS_IN_FLIGHT: usize = 4;

/// The longest time in which a server may send nothing: longer than stores go on trying for one part.
const SILENCE: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What reaches files across a network: the stores, with the endpoints and credentials that catalogs and sources share, and the
/// runtime that waits for them.
#[derive(Clone)]
pub struct Remotes {
    store: Store,
    runtime: Handle,
}

impl std::fmt::Debug for Remotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remotes").finish_non_exhaustive()
    }
}

impl Remotes {
    /// `store` serves `s3`, `gs` and `abfss`, as [`Store::with_remote`] makes it; `https` needs none. `runtime` has several threads,
    /// or is not the one that the caller runs in.
    #[must_use]
    pub fn new(store: Store, runtime: Handle) -> Self {
        Self { store, runtime }
    }

    fn wait<T>(&self, file: &str, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match Handle::try_current() {
            Err(_) => self.runtime.block_on(work),
            Ok(current) if current.runtime_flavor() == RuntimeFlavor::MultiThread => {
                tokio::task::block_in_place(|| self.runtime.block_on(work))
            }
            Ok(_) => Err(Error::Remote {
                file: file.to_owned(),
                action: "read",
                problem: "remote files need a runtime with several threads".to_owned(),
            }),
        }
    }
}

/// Whether a path of a job is a URL.
pub(crate) fn is_url(path: &str) -> bool {
    path.contains("://")
}

/// Where a file of a source was copied from.
pub(crate) struct RemoteFile {
    remotes: Remotes,
    store: Arc<dyn ObjectStore>,
    path: Path,
    meta: ObjectMeta,
    /// The copies, for as long as one of them is known.
    _folder: Arc<TempDir>,
}

impl std::fmt::Debug for RemoteFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteFile").field("meta", &self.meta).finish_non_exhaustive()
    }
}

impl RemoteFile {
    /// Checks that the object is still the one that was copied.
    pub(crate) fn check_unchanged(&self, name: &str) -> Result<(), Error> {
        self.remotes.wait(name, async {
            let now = match self.store.head(&self.path).await {
                Ok(now) => now,
                // A server that knows no HEAD, or a URL that is signed for GET: the answer is dropped before its body is read.
                Err(_) => match self.store.get_opts(&self.path, GetOptions::default()).await {
                    Ok(answer) => answer.meta,
                    Err(object_store::Error::NotFound { .. }) => return Err(changed(name, "it is gone")),
                    Err(error) => return Err(failed(name, "look at", &error)),
                },
            };
            match difference(&self.meta, &now) {
                None => Ok(()),
                Some(what) => Err(changed(name, what)),
            }
        })
    }
}

/// What tells an object from the one that replaces it.
fn difference(then: &ObjectMeta, now: &ObjectMeta) -> Option<&'static str> {
    if then.size != now.size {
        Some("its size is another")
    } else if then.e_tag != now.e_tag
        || (then.version.is_some() && now.version.is_some() && then.version != now.version)
    {
        Some("another version is in its place")
    } else if then.last_modified.timestamp() != now.last_modified.timestamp() {
        Some("it was modified")
    } else {
        None
    }
}

/// A copy, with what is known of it.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The URL without what is secret in it.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) digest: Sha256Hex,
    pub(crate) origin: RemoteFile,
}

/// Local copies of files across a network, for as long as they are looked at.
#[derive(Debug)]
pub struct Copies(Vec<Copied>);

impl Copies {
    /// Copies what a URL or pattern leads to. Waits for the network.
    ///
    /// # Errors
    ///
    /// As for [`Source::open_with`](crate::Source::open_with).
    pub fn of(url: &str, remotes: &Remotes) -> Result<Self, Error> {
        Ok(Self(fetch(&[url], remotes)?))
    }

    /// Whether a path is one that is copied.
    #[must_use]
    pub fn is_url(path: &str) -> bool {
        is_url(path)
    }

    /// The name of each file, which is its URL without what is secret in it, and its copy, sorted by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &std::path::Path)> {
        self.0.iter().map(|copied| (copied.name.as_str(), copied.path.as_path()))
    }
}

/// Copies all files that these URLs and patterns mean, sorted by name, each once.
pub(crate) fn fetch(patterns: &[&str], remotes: &Remotes) -> Result<Vec<Copied>, Error> {
    let first = patterns.first().copied().unwrap_or_default();
    let name = first.split(['?', '#']).next().unwrap_or_default().to_owned();
    remotes.wait(&name, async {
        let found = find(patterns, remotes).await?;
        let folder = tempfile::Builder::new().prefix("hexfloe-input-").tempdir();
        let folder = Arc::new(folder.map_err(Error::io(&name, "make a folder for the copy of"))?);
        let mut places = Places { folder: folder.path().to_owned(), folders: BTreeMap::new(), files: 0 };
        let mut copies = Vec::with_capacity(found.len());
        for object in found.into_values() {
            let path = places.of(&object.name)?;
            let (meta, digest) = copy(&object, &path).await?;
            let Object { name, store, path: key, .. } = object;
            let origin = RemoteFile { remotes: remotes.clone(), store, path: key, meta, _folder: Arc::clone(&folder) };
            copies.push(Copied { name, path, digest, origin });
        }
        Ok(copies)
    })
}

/// The names of what URLs and patterns lead to, as [`fetch`] gives them; nothing is copied.
pub(crate) fn names(patterns: &[&str], remotes: &Remotes) -> Result<Vec<String>, Error> {
    let first = patterns.first().copied().unwrap_or_default();
    let name = first.split(['?', '#']).next().unwrap_or_default();
    remotes.wait(name, async {
        let found = find(patterns, remotes).await?;
        Ok(found.into_values().map(|object| object.name).collect())
    })
}

/// Where copies are put: what lies together in the store does so here, because some formats have files beside each other.
struct Places {
    folder: PathBuf,
    /// By the folder in the store.
    folders: BTreeMap<String, PathBuf>,
    files: usize,
}

impl Places {
    fn of(&mut self, name: &str) -> Result<PathBuf, Error> {
        self.files += 1;
        let (above, file) = name.rsplit_once('/').unwrap_or(("", name));
        let next = self.folder.join(self.folders.len().to_string());
        let folder = self.folders.entry(above.to_owned()).or_insert_with(|| next);
        std::fs::create_dir_all(&*folder).map_err(Error::io(name, "make a folder for the copy of"))?;
        // A key may hold what no file can be called.
        let is_a_name = !matches!(file, "" | "." | "..") && file.len() <= 200 && !file.contains(['\0', '/']);
        let unnamed = format!("file {}", self.files);
        Ok(folder.join(if is_a_name { file } else { &unnamed }))
    }
}

/// An object that is to be copied.
struct Object {
    name: String,
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// As it was listed; `None` where nothing lists, and the answer itself says what it is.
    meta: Option<ObjectMeta>,
}

/// By name.
type Found = BTreeMap<String, Object>;

async fn find(patterns: &[&str], remotes: &Remotes) -> Result<Found, Error> {
    let mut found = Found::new();
    let mut client = None;
    // One object behind two spellings of its scheme (s3, s3a) is read once, by the lesser name.
    let mut names: BTreeMap<Place, String> = BTreeMap::new();
    for pattern in patterns {
        let scheme = pattern.split("://").next().unwrap_or_default().to_ascii_lowercase();
        match scheme.as_str() {
            "http" | "https" => {
                let object = of_http(pattern, &mut client)?;
                found.entry(object.name.clone()).or_insert(object);
            }
            "s3" | "s3a" | "s3n" | "gs" | "abfs" | "abfss" => {
                for object in of_store(pattern, remotes).await? {
                    let place =
                        (object.name.split_once("://").map(|(_, rest)| rest.to_owned()), scheme.starts_with("s3"));
                    match names.get(&place) {
                        Some(known) if *known <= object.name => continue,
                        Some(known) => drop(found.remove(known)),
                        None => {}
                    }
                    names.insert(place, object.name.clone());
                    found.insert(object.name.clone(), object);
                }
            }
            "file" => return Err(refuse(pattern, "is a URL of a local file: write its path instead")),
            _ => return Err(refuse(pattern, "has a scheme that is none of s3, gs, abfss and https")),
        }
    }
    Ok(found)
}

/// A place, whatever the spelling of its scheme.
type Place = (Option<String>, bool);

fn refuse(path: &str, problem: &str) -> Error {
    Error::Path { path: path.split('?').next().unwrap_or_default().to_owned(), problem: problem.to_owned() }
}

/// The objects in a store that one pattern means, by the rules of local patterns.
async fn of_store(pattern: &str, remotes: &Remotes) -> Result<Vec<Object>, Error> {
    let configured = |error: hexfloe_store::Error| refuse(pattern, &secrets::conceal(&with_causes(&error)));
    let location = Location::parse(pattern).map_err(configured)?;
    if location.authority().contains(['*', '?', '[']) {
        return Err(refuse(pattern, "has a pattern for the bucket: name the bucket, and list several paths"));
    }
    let store = remotes.store.serving(&location).map_err(configured)?;
    let named = |key: &str| format!("{}://{}/{key}", location.scheme(), location.authority());
    let key = location.key();
    let path = Path::parse(key).map_err(|error| refuse(pattern, &format!("is no key: {error}")))?;
    let is_pattern = key.contains(['*', '?', '[']);
    match store.head(&path).await {
        Ok(meta) if !key.is_empty() => {
            return Ok(vec![Object { name: named(key), store, path, meta: Some(meta) }]);
        }
        Ok(_) => {}
        Err(object_store::Error::NotFound { .. }) => {}
        Err(_) if is_pattern => {}
        Err(error) => return Err(failed(&named(key), "look at", &error)),
    }
    if !is_pattern {
        let below = store.list(Some(&path)).next().await;
        return Err(match below {
            Some(Ok(_)) => {
                refuse(pattern, "is a folder: name the files in it with a pattern, for example by adding `/*`")
            }
            Some(Err(error)) => failed(&named(key), "list", &error),
            None => refuse(pattern, "does not exist: check the path, and whether the input has arrived"),
        });
    }
    let compiled =
        glob::Pattern::new(key).map_err(|error| refuse(pattern, &format!("is not a pattern: {}", error.msg)))?;
    let literal: Vec<&str> = key.split('/').take_while(|part| !part.contains(['*', '?', '['])).collect();
    let above = Path::parse(literal.join("/")).map_err(|error| refuse(pattern, &format!("is no key: {error}")))?;
    let above = (!literal.is_empty()).then_some(above);
    let listed: Vec<ObjectMeta> =
        store.list(above.as_ref()).try_collect().await.map_err(|error| failed(&named(key), "list", &error))?;
    let folders: std::collections::BTreeSet<&str> =
        listed.iter().filter_map(|meta| meta.location.as_ref().rsplit_once('/')).map(|(folder, _)| folder).collect();
    let mut objects = Vec::new();
    for meta in &listed {
        let key = meta.location.as_ref();
        // Some tools put an empty object where a folder is.
        let is_folder = meta.size == 0 && folders.contains(key);
        if !is_folder && compiled.matches_with(key, PATTERNS) {
            let (name, store) = (named(key), Arc::clone(&store));
            objects.push(Object { name, store, path: meta.location.clone(), meta: Some(meta.clone()) });
        }
    }
    if objects.is_empty() {
        return Err(refuse(pattern, "matches no file: check the pattern, and whether the input has arrived"));
    }
    Ok(objects)
}

/// Gives every store the same client.
#[derive(Debug)]
struct OneClient(HttpClient);

impl HttpConnector for OneClient {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.0.clone())
    }
}

/// The file behind a URL of the web.
fn of_http(text: &str, client: &mut Option<(bool, HttpClient)>) -> Result<Object, Error> {
    let url = Url::parse(text).map_err(|error| refuse(text, &format!("is no URL: {error}")))?;
    let is_loopback = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if let Some(query) = url.query() {
        secrets::remember(query);
    }
    url.password().into_iter().for_each(secrets::remember);
    let mut shown = url.clone();
    let hidden = shown.set_username("").and_then(|()| shown.set_password(None));
    shown.set_query(None);
    shown.set_fragment(None);
    let name = shown.to_string();
    if hidden.is_err() {
        return Err(refuse(&name, "is no URL with a host"));
    }
    if url.scheme() == "http" && !is_loopback {
        return Err(refuse(
            &name,
            "is not encrypted, so anybody on the way can change it: use https, or fetch the file first",
        ));
    }
    if url.path().contains(['*', '[']) || shown.path().ends_with('/') {
        return Err(refuse(&name, "is no file: the web has no patterns and no folders, so name each file"));
    }
    let allow_http = url.scheme() == "http";
    let options =
        ClientOptions::new().with_allow_http(allow_http).with_timeout_disabled().with_connect_timeout(CONNECT_TIMEOUT);
    let shared = match client {
        Some((allows, shared)) if *allows == allow_http => shared.clone(),
        _ => {
            let made = ReqwestConnector::default().connect(&options).map_err(|error| failed(&name, "open", &error))?;
            *client = Some((allow_http, made.clone()));
            made
        }
    };
    // The store is the file, and its key is empty: so the URL is asked for as it is written.
    let mut address = url;
    address.set_fragment(None);
    let store =
        HttpBuilder::new().with_url(address).with_client_options(options).with_http_connector(OneClient(shared));
    let store = store.build().map_err(|error| failed(&name, "open", &error))?;
    Ok(Object { name, store: Arc::new(store), path: Path::default(), meta: None })
}

/// Copies an object to a file that does not exist, and hashes it.
async fn copy(object: &Object, to: &std::path::Path) -> Result<(ObjectMeta, Sha256Hex), Error> {
    let name = &object.name;
    let file = File::create_new(to).map_err(Error::io(name, "make a copy of"))?;
    match &object.meta {
        // An object that can be pinned is asked for in parts, an empty one not at all.
        Some(meta) if meta.e_tag.is_some() && meta.size > 0 => {
            let starts = (0..meta.size).step_by(usize::try_from(PART).unwrap_or(usize::MAX));
            let parts = stream::iter(starts).map(|start| part(object, meta, start..(start + PART).min(meta.size)));
            let digest = write(name, meta.size, parts.buffered(PARTS_IN_FLIGHT).boxed(), file).await?;
            Ok((meta.clone(), digest))
        }
        listed => {
            let answer =
                object.store.get_opts(&object.path, GetOptions::default()).await.map_err(|error| match error {
                    object_store::Error::NotFound { .. } if listed.is_none() => {
                        refuse(name, "does not exist: check the URL, and whether the input has arrived")
                    }
                    object_store::Error::NotFound { .. } => changed(name, "it is gone"),
                    error => failed(name, "read", &error),
                })?;
            let meta = answer.meta.clone();
            if let Some(what) = listed.as_ref().and_then(|listed| difference(listed, &meta)) {
                return Err(changed(name, what));
            }
            let chunks = answer.into_stream().map_err(|error| failed(name, "read", &error));
            let digest = write(name, meta.size, chunks, file).await?;
            Ok((meta, digest))
        }
    }
}

/// A part of the version of an object that was listed.
async fn part(object: &Object, meta: &ObjectMeta, range: std::ops::Range<u64>) -> Result<Bytes, Error> {
    let name = &object.name;
    let options = GetOptions {
        if_match: meta.e_tag.clone(),
        version: meta.version.clone(),
        range: Some(GetRange::Bounded(range)),
        ..GetOptions::default()
    };
    let read = async { object.store.get_opts(&object.path, options).await?.bytes().await };
    read.await.map_err(|error| match error {
        object_store::Error::Precondition { .. } => changed(name, "another version is in its place"),
        object_store::Error::NotFound { .. } => changed(name, "it is gone"),
        error => failed(name, "read", &error),
    })
}

/// Writes what comes to a file: `size` bytes, neither more nor less.
async fn write(
    name: &str,
    size: u64,
    mut chunks: impl Stream<Item = Result<Bytes, Error>> + Unpin,
    mut file: File,
) -> Result<Sha256Hex, Error> {
    let mut hasher = Sha256::new();
    let mut written = 0;
    loop {
        let next = tokio::time::timeout(SILENCE, chunks.next()).await;
        let Some(chunk) = next.map_err(|_| Error::Remote {
            file: name.to_owned(),
            action: "read",
            problem: format!(
                "the server has sent nothing for {} seconds, after {written} of {size} bytes",
                SILENCE.as_secs()
            ),
        })?
        else {
            break;
        };
        let chunk = chunk?;
        written += chunk.len() as u64;
        if written > size {
            let problem =
                format!("has more than the {size} bytes that the server said it has: what it sends cannot be trusted");
            return Err(Error::unreadable(name, problem));
        }
        hasher.update(&chunk);
        file.write_all(&chunk).map_err(Error::io(name, "write a copy of"))?;
    }
    if written < size {
        let problem = format!("ends after {written} of the {size} bytes that the server said it has: run again");
        return Err(Error::unreadable(name, problem));
    }
    Ok(Sha256Hex::from_digest(hasher.finalize().into()))
}

fn changed(name: &str, what: &'static str) -> Error {
    Error::Changed { file: name.to_owned(), what }
}

fn failed(name: &str, action: &'static str, error: &object_store::Error) -> Error {
    Error::Remote { file: name.to_owned(), action, problem: secrets::conceal(&with_causes(error)).into_owned() }
}

/// An error and what is behind it, on one line, each said once.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}
