//! An object store in memory with the semantics of the large ones, whose objects are dated by a virtual clock.
//!
//! Unlike `object_store`'s own it lists page by page, so that what is written or deleted between two pages shows or does not,
//! as it does on S3; and the time of an object is the store's, which may differ from everybody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// Objects to a page of a listing.
pub(crate) const PAGE: usize = 8;

/// Milliseconds since 1970 as the store sees them.
pub type StoreClock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Objects in memory. Cheap to clone: all clones hold the same objects.
#[derive(Clone)]
pub struct MemoryStore {
    clock: StoreClock,
    objects: Arc<Mutex<Objects>>,
    shows_unfinished: bool,
}

#[derive(Default)]
struct Objects {
    writes: u64,
    by_path: BTreeMap<Path, Object>,
}

#[derive(Clone)]
struct Object {
    bytes: Bytes,
    modified_ms: i64,
    e_tag: String,
}

impl MemoryStore {
    /// An empty store that dates objects by `clock`.
    pub fn new(clock: StoreClock) -> Self {
        Self { clock, objects: Arc::default(), shows_unfinished: false }
    }

    /// The store, with what is unfinished in it as on the local disk: what there is of an upload in parts shows under a name
    /// with `#` and a number, until it is completed or aborted.
    #[must_use]
    pub fn showing_unfinished(self) -> Self {
        Self { shows_unfinished: true, ..self }
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every object there is: its path, its size in bytes, and when it was last written, in milliseconds since 1970.
    pub fn inventory(&self) -> Vec<(String, u64, i64)> {
        let objects = self.objects();
        let told = |(path, object): (&Path, &Object)| (path.to_string(), object.bytes.len() as u64, object.modified_ms);
        objects.by_path.iter().map(told).collect()
    }

    /// The bytes of an object.
    pub fn bytes(&self, path: &str) -> Option<Bytes> {
        let path = Path::parse(path).ok()?;
        self.objects().by_path.get(&path).map(|object| object.bytes.clone())
    }

    fn object(&self, path: &Path) -> Result<Object> {
        let found = self.objects().by_path.get(path).cloned();
        found.ok_or_else(|| Error::NotFound { path: path.to_string(), source: "no such object".into() })
    }

    fn write(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<PutResult> {
        let modified_ms = (self.clock)();
        let mut objects = self.objects();
        let there = objects.by_path.get(path);
        match (mode, there) {
            (PutMode::Overwrite, _) | (PutMode::Create, None) => {}
            (PutMode::Create, Some(_)) => return Err(exists(path)),
            (PutMode::Update(version), there) => {
                let same = there.is_some_and(|there| version.e_tag.as_deref() == Some(there.e_tag.as_str()));
                if !same {
                    let source = "the object is another one".into();
                    return Err(Error::Precondition { path: path.to_string(), source });
                }
            }
        }
        objects.writes += 1;
        let e_tag = objects.writes.to_string();
        objects.by_path.insert(path.clone(), Object { bytes, modified_ms, e_tag: e_tag.clone() });
        Ok(PutResult { e_tag: Some(e_tag), version: None })
    }

    /// A name for what is not finished, that nothing has.
    fn unfinished(&self, path: &Path) -> Path {
        let objects = self.objects();
        let mut names = (1_u32..).filter_map(|number| Path::parse(format!("{path}#{number}")).ok());
        names.find(|name| !objects.by_path.contains_key(name)).unwrap_or_default()
    }

    fn delete_now(&self, path: &Path) {
        self.objects().by_path.remove(path);
    }

    /// The next objects below a prefix.
    fn page(&self, prefix: Option<&Path>, after: Option<&Path>) -> Vec<ObjectMeta> {
        let objects = self.objects();
        let from = match (after, prefix) {
            (Some(after), _) => Bound::Excluded(after.clone()),
            (None, Some(prefix)) => Bound::Included(prefix.clone()),
            (None, None) => Bound::Unbounded,
        };
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        let range = objects.by_path.range((from, Bound::Unbounded));
        range
            .take_while(|(path, _)| path.as_ref().starts_with(prefix.as_ref()))
            .filter(|(path, _)| path.prefix_match(prefix).is_some_and(|mut rest| rest.next().is_some()))
            .take(PAGE)
            .map(|(path, object)| object.meta(path))
            .collect()
    }
}

impl Object {
    fn meta(&self, path: &Path) -> ObjectMeta {
        ObjectMeta {
            location: path.clone(),
            last_modified: date(self.modified_ms),
            size: self.bytes.len() as u64,
            e_tag: Some(self.e_tag.clone()),
            version: None,
        }
    }
}

/// A time as `object_store` gives it.
pub(crate) fn date(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).unwrap_or_default()
}

fn exists(path: &Path) -> Error {
    Error::AlreadyExists { path: path.to_string(), source: "the name is taken".into() }
}

fn refused(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "memory", source: reason.into() }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("objects", &self.objects().by_path.len()).finish_non_exhaustive()
    }
}

impl fmt::Display for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("memory")
    }
}

#[async_trait]
impl ObjectStore for MemoryStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.write(location, payload.into(), options.mode)
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let parts = Arc::new(Mutex::new(BTreeMap::new()));
        let store = Weakly { clock: Arc::downgrade(&self.clock), objects: Arc::downgrade(&self.objects) };
        let unfinished = self.shows_unfinished.then(|| self.unfinished(location));
        Ok(Box::new(Parts { store, path: location.clone(), parts, next: 0, unfinished }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let object = self.object(location)?;
        let meta = object.meta(location);
        options.check_preconditions(&meta)?;
        let range = match options.range {
            Some(range) => range.as_range(meta.size).map_err(|error| refused(error.to_string()))?,
            None => 0..meta.size,
        };
        let place = |at: u64| usize::try_from(at).map_err(refused);
        let bytes = object.bytes.slice(place(range.start)?..place(range.end)?);
        let payload = GetResultPayload::Stream(futures::stream::once(std::future::ready(Ok(bytes))).boxed());
        Ok(GetResult { payload, meta, range, attributes: object_store::Attributes::default() })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations.map(move |path| path.inspect(|path| store.delete_now(path))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, prefix) = (self.clone(), prefix.cloned());
        let pages = futures::stream::unfold(Some(None::<Path>), move |after| {
            let page = after.map(|after| store.page(prefix.as_ref(), after.as_ref()));
            std::future::ready(page.map(|page| {
                let full = page.len() == PAGE;
                let next = page.last().filter(|_| full).map(|last| Some(last.location.clone()));
                (futures::stream::iter(page.into_iter().map(Ok)), next)
            }))
        });
        pages.flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        let objects = self.objects();
        let mut folders = BTreeSet::new();
        let mut found = Vec::new();
        for (path, object) in &objects.by_path {
            let Some(mut rest) = path.prefix_match(prefix) else { continue };
            let Some(first) = rest.next() else { continue };
            if rest.next().is_some() {
                folders.insert(prefix.clone().join(first));
            } else {
                found.push(object.meta(path));
            }
        }
        Ok(ListResult { objects: found, common_prefixes: folders.into_iter().collect() })
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let object = self.object(from)?;
        let mode = match options.mode {
            CopyMode::Overwrite => PutMode::Overwrite,
            CopyMode::Create => PutMode::Create,
        };
        self.write(to, object.bytes, mode).map(|_| ())
    }
}

/// A store that an upload does not keep alive: those of processes that have ended are never dropped.
struct Weakly {
    clock: Weak<dyn Fn() -> i64 + Send + Sync>,
    objects: Weak<Mutex<Objects>>,
}

impl Weakly {
    fn store(&self) -> Result<MemoryStore> {
        let (clock, objects) = (self.clock.upgrade(), self.objects.upgrade());
        let both = clock.zip(objects).ok_or_else(|| refused("the store is gone"))?;
        Ok(MemoryStore { clock: both.0, objects: both.1, shows_unfinished: false })
    }
}

/// An upload in parts, of which nothing shows under its name before it is complete.
struct Parts {
    store: Weakly,
    path: Path,
    parts: Arc<Mutex<BTreeMap<usize, Bytes>>>,
    next: usize,
    /// Where it shows before.
    unfinished: Option<Path>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("path", &self.path).finish_non_exhaustive()
    }
}

fn whole(parts: &BTreeMap<usize, Bytes>) -> Bytes {
    let mut whole = BytesMut::new();
    parts.values().for_each(|part| whole.extend_from_slice(part));
    whole.freeze()
}

#[async_trait]
impl MultipartUpload for Parts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (number, parts) = (self.next, Arc::clone(&self.parts));
        let shown = self.unfinished.clone().map(|unfinished| (self.store.store(), unfinished));
        self.next += 1;
        Box::pin(async move {
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.insert(number, data.into());
            match shown {
                Some((store, unfinished)) => store?.write(&unfinished, whole(&parts), PutMode::Overwrite).map(|_| ()),
                None => Ok(()),
            }
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let parts = std::mem::take(&mut *self.parts.lock().unwrap_or_else(PoisonError::into_inner));
        if parts.len() != self.next {
            return Err(refused("parts are missing"));
        }
        let store = self.store.store()?;
        let put = store.write(&self.path, whole(&parts), PutMode::Overwrite);
        self.unfinished.iter().for_each(|unfinished| store.delete_now(unfinished));
        put
    }

    async fn abort(&mut self) -> Result<()> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let store = self.store.store()?;
        self.unfinished.iter().for_each(|unfinished| store.delete_now(unfinished));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures::TryStreamExt;
    use object_store::{ObjectStoreExt, UpdateVersion};

    use super::*;

    fn store() -> (MemoryStore, Arc<AtomicI64>) {
        let clock = Arc::new(AtomicI64::new(1_000));
        let read = Arc::clone(&clock);
        (MemoryStore::new(Arc::new(move || read.load(Ordering::Relaxed))), clock)
    }

    #[tokio::test]
    async fn an_object_is_dated_by_the_clock_of_the_store() {
        let (store, clock) = store();
        let path = Path::from("a/b");
        store.put(&path, "one".into()).await.unwrap();
        clock.store(5_000, Ordering::Relaxed);
        store.put(&Path::from("a/c"), "two".into()).await.unwrap();
        let listed: Vec<_> =
            store.list(None).map_ok(|meta| meta.last_modified.timestamp_millis()).try_collect().await.unwrap();
        assert_eq!(listed, [1_000, 5_000]);
        assert_eq!(store.head(&path).await.unwrap().last_modified.timestamp_millis(), 1_000);
    }

    #[tokio::test]
    async fn a_listing_is_sorted_and_sees_what_changes_behind_its_page_only() {
        let (store, _) = store();
        let path = |number: usize| Path::from(format!("t/{number:03}"));
        for number in 0..3 * PAGE {
            store.put(&path(number), "x".into()).await.unwrap();
        }
        store.put(&Path::from("tt/sibling"), "x".into()).await.unwrap();
        let mut listing = store.list(Some(&Path::from("t")));
        assert_eq!(listing.try_next().await.unwrap().unwrap().location, path(0));
        store.delete(&path(1)).await.unwrap();
        store.delete(&path(PAGE)).await.unwrap();
        store.put(&Path::from("t/999"), "x".into()).await.unwrap();
        let rest: Vec<Path> = listing.map_ok(|meta| meta.location).try_collect().await.unwrap();
        let expected = (1..3 * PAGE).filter(|number| *number != PAGE).chain([999]).map(path);
        assert_eq!(rest, expected.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn conditional_writes_compare() {
        let (store, _) = store();
        let path = Path::from("a");
        let put = |mode| store.put_opts(&path, "x".into(), PutOptions::from(mode));
        let first = put(PutMode::Create).await.unwrap();
        assert!(matches!(put(PutMode::Create).await, Err(Error::AlreadyExists { .. })));
        let version = UpdateVersion::from(first);
        put(PutMode::Update(version.clone())).await.unwrap();
        assert!(matches!(put(PutMode::Update(version)).await, Err(Error::Precondition { .. })));
    }

    #[tokio::test]
    async fn a_copy_is_a_new_object() {
        let (store, clock) = store();
        let (from, to) = (Path::from("a"), Path::from("b"));
        store.put(&from, "x".into()).await.unwrap();
        clock.store(7_000, Ordering::Relaxed);
        store.copy(&from, &to).await.unwrap();
        assert_eq!(store.head(&to).await.unwrap().last_modified.timestamp_millis(), 7_000);
        assert!(matches!(store.copy_if_not_exists(&from, &to).await, Err(Error::AlreadyExists { .. })));
        assert_eq!(store.list_with_delimiter(None).await.unwrap().objects.len(), 2);
    }

    #[tokio::test]
    async fn an_upload_shows_before_its_end_only_where_it_does_on_a_disk() {
        for (disk, before) in [(false, vec![]), (true, vec![("a#1".to_owned(), 2, 1_000)])] {
            let (store, _) = store();
            let store = if disk { store.showing_unfinished() } else { store };
            let path = Path::from("a");
            let mut upload = store.put_multipart(&path).await.unwrap();
            upload.put_part("ab".into()).await.unwrap();
            assert_eq!(store.inventory(), before);
            upload.complete().await.unwrap();
            assert_eq!(store.inventory(), [("a".to_owned(), 2, 1_000)]);
            let mut upload = store.put_multipart(&Path::from("b")).await.unwrap();
            upload.put_part("ab".into()).await.unwrap();
            upload.abort().await.unwrap();
            assert_eq!(store.inventory().len(), 1);
        }
    }
}
