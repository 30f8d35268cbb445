//! The local disk.
//!
//! `object_store` writes a local file under a name with `#` and a number first. What a killed process leaves of it is
//! invisible to its listing, and not to be deleted through it: it would stay for ever. Here both work.
//!
//! Links below the place that is listed are not followed: the same file would be listed twice, under two names.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use walkdir::{DirEntry, WalkDir};

/// Entries that are looked at in one go, away from the threads that serve tasks.
const CHUNK: usize = 1_024;

/// How many files are deleted at once.
const DELETES: usize = 10;

/// `object_store`'s local file system, with unfinished files in its listings.
#[derive(Debug, Default)]
pub(crate) struct LocalDisk(LocalFileSystem);

impl LocalDisk {
    pub(crate) fn new() -> Self {
        Self(LocalFileSystem::new())
    }
}

impl fmt::Display for LocalDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for LocalDisk {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.0.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[std::ops::Range<u64>]) -> Result<Vec<bytes::Bytes>> {
        self.0.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let disk = self.0.clone();
        locations
            .map(move |location| {
                let disk = disk.clone();
                async move {
                    let location = location?;
                    if !is_unfinished(&location) {
                        let one = futures::stream::once(async move { Ok(location) }).boxed();
                        return disk.delete_stream(one).try_next().await?.ok_or(Error::NotImplemented {
                            operation: "a delete without a result".to_owned(),
                            implementer: "LocalFileSystem".to_owned(),
                        });
                    }
                    blocking(move || match fs::remove_file(on_disk(&location)) {
                        Ok(()) => Ok(location),
                        Err(error) => Err(failed(&location, error)),
                    })
                    .await
                }
            })
            .buffered(DELETES)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let walk = WalkDir::new(on_disk(&prefix.cloned().unwrap_or_default())).min_depth(1);
        let files = walk.into_iter().filter_map(|entry| listed(entry).transpose()).filter_map(|entry| match entry {
            Ok(Entry::File(meta)) => Some(Ok(meta)),
            Ok(Entry::Folder(_)) => None,
            Err(error) => Some(Err(error)),
        });
        let chunks = futures::stream::try_unfold(files, |mut files| async move {
            blocking(move || {
                let chunk: Vec<ObjectMeta> = files.by_ref().take(CHUNK).collect::<Result<_>>()?;
                Ok(if chunk.is_empty() { None } else { Some((chunk, files)) })
            })
            .await
        });
        chunks.map_ok(|chunk| futures::stream::iter(chunk.into_iter().map(Ok))).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let walk = WalkDir::new(on_disk(&prefix.cloned().unwrap_or_default()));
        let walk = walk.min_depth(1).max_depth(1);
        blocking(move || {
            let (mut objects, mut folders) = (Vec::new(), BTreeSet::new());
            for entry in walk {
                match listed(entry)? {
                    Some(Entry::File(meta)) => objects.push(meta),
                    Some(Entry::Folder(path)) => {
                        folders.insert(path);
                    }
                    None => {}
                }
            }
            Ok(ListResult { common_prefixes: folders.into_iter().collect(), objects })
        })
        .await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let created = matches!(options.mode, CopyMode::Create);
        match self.0.copy_opts(from, to, options).await {
            // A copy is a link, and there are none to another disk.
            Err(Error::Generic { .. }) => {
                let (from, to) = (from.clone(), to.clone());
                blocking(move || copied(&from, &to, created)).await
            }
            done => done,
        }
    }
}

/// Copies the bytes of a file, and its date.
fn copied(from: &Path, to: &Path, created: bool) -> Result<()> {
    let (source, target) = (on_disk(from), on_disk(to));
    if created && target.exists() {
        let source = "there is a file of that name".into();
        return Err(Error::AlreadyExists { path: to.to_string(), source });
    }
    let mut part = target.clone().into_os_string();
    part.push("#0");
    let copy = || {
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(&source, &part)?;
        fs::File::options().write(true).open(&part)?.set_modified(fs::metadata(&source)?.modified()?)?;
        fs::rename(&part, &target)
    };
    copy().map_err(|error| failed(from, error))
}

enum Entry {
    File(ObjectMeta),
    Folder(Path),
}

/// What an entry is; `None` for one that has gone meanwhile, or is neither file nor folder, such as a link.
fn listed(entry: walkdir::Result<DirEntry>) -> Result<Option<Entry>> {
    let is_gone = |error: &walkdir::Error| {
        error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound) && error.loop_ancestor().is_none()
    };
    let found = entry.and_then(|entry| entry.metadata().map(|meta| (entry, meta)));
    let (entry, meta) = match found {
        Ok(found) => found,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(Error::Generic { store: "LocalDisk", source: Box::new(error) }),
    };
    let refused = || Error::Generic {
        store: "LocalDisk",
        source: format!("{} is not a name that a store can have", entry.path().display()).into(),
    };
    let text = entry.path().to_str().ok_or_else(refused)?;
    let path = Path::parse(text.trim_start_matches('/')).map_err(|_| refused())?;
    if meta.is_dir() {
        return Ok(Some(Entry::Folder(path)));
    }
    if !meta.is_file() {
        return Ok(None);
    }
    let last_modified = meta.modified().unwrap_or(std::time::UNIX_EPOCH).into();
    Ok(Some(Entry::File(ObjectMeta { location: path, last_modified, size: meta.len(), e_tag: None, version: None })))
}

fn on_disk(path: &Path) -> std::path::PathBuf {
    format!("/{path}").into()
}

/// Whether `object_store` gives such names to files it has not finished.
fn is_unfinished(path: &Path) -> bool {
    let suffix = path.filename().and_then(|name| name.split_once('#')).map(|(_, suffix)| suffix);
    suffix.is_some_and(|suffix| !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_digit()))
}

fn failed(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path: path.to_string(), source: Box::new(error) },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { path: path.to_string(), source: Box::new(error) },
        _ => Error::Generic { store: "LocalDisk", source: Box::new(error) },
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|source| Error::JoinError { source })?
}
