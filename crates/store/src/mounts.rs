//! Which store serves which location.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use iceberg::io::{FileIO, FileIOBuilder};
use object_store::client::Certificate;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::sync::Semaphore;

use crate::local::LocalDisk;
use crate::remote::Remote;
use crate::upload::PARTS_IN_FLIGHT;
use crate::vended::Grant;
use crate::{Error, Location, MountedStorageFactory, Properties, Upload, VendedProperties, Vendor};

/// The stores of a process, by scheme family and authority. Cheap to clone.
///
/// A store is mounted by hand ([`Store::mount`]), or opened when a location first asks for it, with the properties of
/// [`Store::with_remote`] and, over these, what was granted for the location ([`Store::grant`]).
#[derive(Clone)]
pub struct Store {
    mounts: Arc<BTreeMap<(String, String), Arc<dyn ObjectStore>>>,
    remote: Option<Remote>,
    opened: Arc<RwLock<Opened>>,
    in_flight: Arc<Semaphore>,
    wrap: Option<Wrap>,
}

/// Makes of a store what is seen in its place.
type Wrap = Arc<dyn Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> + Send + Sync>;

/// How many objects are tagged at once.
const CONCURRENT_TAGS: usize = 16;

/// Objects to delete from one store: as they are named, and as the store knows them.
type DeleteBatch = (Arc<dyn ObjectStore>, Vec<(String, Path)>);

#[derive(Default)]
struct Opened {
    /// By scheme family and authority.
    general: BTreeMap<(String, String), Arc<dyn ObjectStore>>,
    granted: Vec<Granted>,
}

struct Granted {
    grant: Arc<Grant>,
    /// By authority.
    stores: BTreeMap<String, Arc<dyn ObjectStore>>,
}

/// One object of a listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Where it is.
    pub location: Location,
    /// Its size in bytes.
    pub size: u64,
    /// When the store says it was last written; never this machine's clock.
    pub last_modified: SystemTime,
}

/// One object of a listing that is not made a [`Location`], for those who look at millions of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreObject {
    /// Its key, as [`Location::key`] has it.
    pub key: String,
    /// Its size in bytes.
    pub size: u64,
    /// When the store says it was last written; `None` when it does not say, or says the beginning of time.
    pub last_modified: Option<SystemTime>,
}

impl From<ObjectMeta> for StoreObject {
    fn from(meta: ObjectMeta) -> Self {
        let last_modified = Some(meta.last_modified.into()).filter(|time| *time > SystemTime::UNIX_EPOCH);
        Self { key: meta.location.into(), size: meta.size, last_modified }
    }
}

/// What lies directly in a place: objects, and the keys of the places in it.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// Objects.
    pub objects: Vec<StoreObject>,
    /// Keys of places that have objects below them.
    pub folders: Vec<String>,
}

impl Store {
    /// The local disk (`file:///…`).
    pub fn local() -> Self {
        Self::empty().mount("file", "", Arc::new(LocalDisk::new()))
    }

    /// A new, empty store in memory (`memory:///…`).
    pub fn memory() -> Self {
        Self::empty().mount("memory", "", Arc::new(InMemory::new()))
    }

    /// No store at all.
    pub fn empty() -> Self {
        Self {
            mounts: Arc::new(BTreeMap::new()),
            remote: None,
            opened: Arc::default(),
            in_flight: Arc::new(Semaphore::new(PARTS_IN_FLIGHT)),
            wrap: None,
        }
    }

    /// This set of stores, and those across the network that `properties` reach, opened when they are asked for.
    ///
    /// Names are Iceberg's (`s3.endpoint`, `gcs.oauth2.token`, `adls.account-key`, …); what they do not say, the
    /// environment does. `roots` holds certificates in PEM that are trusted besides those of the system.
    ///
    /// # Errors
    ///
    /// When `roots` cannot be read.
    pub fn with_remote(self, properties: Properties, roots: Option<&[u8]>) -> Result<Self, Error> {
        let roots = roots.map_or(Ok(Vec::new()), Certificate::from_pem_bundle);
        let roots = roots.map_err(|error| Error::from_store("read certificates for", "remote stores", error))?;
        Ok(Self { remote: Some(Remote { properties, roots }), ..self })
    }

    /// Takes what a catalog vended, and asks `vendor` for more before it expires. Replaces what was granted before for
    /// the same prefixes, also in transfers under way.
    pub fn grant(&self, vended: Vec<VendedProperties>, vendor: &Arc<dyn Vendor>) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        for vended in vended {
            let grant = Grant::new(vended.clone(), Arc::clone(vendor));
            match opened.granted.iter_mut().find(|granted| granted.grant.prefix() == grant.prefix()) {
                Some(granted) => {
                    if granted.grant.reaches(&vended.properties) {
                        granted.grant.replace_vendor(vendor);
                        granted.grant.replace(vended.properties);
                    } else {
                        *granted = Granted { grant: Arc::new(grant), stores: BTreeMap::new() };
                    }
                }
                None => opened.granted.push(Granted { grant: Arc::new(grant), stores: BTreeMap::new() }),
            }
        }
    }

    /// This set of stores and one more, in place of any for the same scheme family and authority.
    ///
    /// For decorators (faults, latency, counting) around all stores, see [`Store::decorated`].
    #[must_use]
    pub fn mount(&self, family: &str, authority: &str, store: Arc<dyn ObjectStore>) -> Self {
        let mut mounts = BTreeMap::clone(&self.mounts);
        mounts.insert((family.to_owned(), authority.to_owned()), self.seen(store));
        Self { mounts: Arc::new(mounts), ..self.clone() }
    }

    /// This set of stores, each of them seen through `wrap`: those that are mounted, now or later, and those across the
    /// network, also where credentials are granted for them. Decorators around decorators see the inner ones' work.
    ///
    /// `wrap` is called once for each store, when it is mounted or opened, so that a decorator may keep a state. Whoever got a
    /// clone before sees the stores as they were; what is granted from now on is granted to one of the two only. What goes
    /// past `object_store` is not seen: tags ([`Store::tag_all`]), and where links lead ([`Store::linked`]).
    #[must_use]
    pub fn decorated(
        self,
        wrap: impl Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> + Send + Sync + 'static,
    ) -> Self {
        let mounts = self.mounts.iter().map(|(place, store)| (place.clone(), wrap(Arc::clone(store)))).collect();
        let wrap: Wrap = match self.wrap {
            Some(inner) => Arc::new(move |store| wrap(inner(store))),
            None => Arc::new(wrap),
        };
        // Stores that are open are opened again when they are asked for.
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let granted = opened.granted.iter();
        let granted =
            granted.map(|Granted { grant, .. }| Granted { grant: Arc::clone(grant), stores: BTreeMap::new() });
        let fresh = Opened { general: BTreeMap::new(), granted: granted.collect() };
        drop(opened);
        Self { mounts: Arc::new(mounts), opened: Arc::new(RwLock::new(fresh)), wrap: Some(wrap), ..self }
    }

    /// A store as it is to be seen.
    fn seen(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        match &self.wrap {
            Some(wrap) => wrap(store),
            None => store,
        }
    }

    /// The store mounted for a scheme family and authority, for wrapping it in a decorator.
    pub fn mounted(&self, family: &str, authority: &str) -> Option<Arc<dyn ObjectStore>> {
        self.mounts.get(&(family.to_owned(), authority.to_owned())).cloned()
    }

    /// Whether a catalog has vended credentials for a location.
    pub fn is_granted(&self, location: &Location) -> bool {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let grant = opened.granted_for(location).map(|place| &opened.granted[place].grant);
        grant.is_some_and(|grant| grant.properties().keys().any(|name| crate::is_secret(name)))
    }

    /// The store that serves a location: the one mounted, or one across the network.
    ///
    /// # Errors
    ///
    /// [`Error::NoStore`], or why the store cannot be opened with its properties. The network is not touched.
    pub fn serving(&self, location: &Location) -> Result<Arc<dyn ObjectStore>, Error> {
        if let Some(mounted) = self.mounted(location.family(), location.authority()) {
            return Ok(mounted);
        }
        let Some(remote) = self.remote.as_ref() else {
            return Err(Error::NoStore { location: location.to_string(), scheme: location.scheme().to_owned() });
        };
        let key = (location.family().to_owned(), location.authority().to_owned());
        {
            let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
            let found = match opened.granted_for(location) {
                Some(place) => opened.granted[place].stores.get(location.authority()),
                None => opened.general.get(&key),
            };
            if let Some(store) = found {
                return Ok(Arc::clone(store));
            }
        }
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        let store = match opened.granted_for(location) {
            Some(place) => {
                let Granted { grant, stores } = &mut opened.granted[place];
                match stores.entry(key.1) {
                    Entry::Occupied(known) => Arc::clone(known.get()),
                    Entry::Vacant(new) => Arc::clone(new.insert(self.seen(remote.open(location, Some(grant))?))),
                }
            }
            None => match opened.general.entry(key) {
                Entry::Occupied(known) => Arc::clone(known.get()),
                Entry::Vacant(new) => Arc::clone(new.insert(self.seen(remote.open(location, None)?))),
            },
        };
        Ok(store)
    }

    pub(crate) fn resolve(&self, location: &str) -> Result<(Arc<dyn ObjectStore>, Path), Error> {
        let parsed = Location::parse(location)?;
        let store = self.serving(&parsed)?;
        Ok((store, parsed.path()?))
    }

    /// A [`FileIO`] that reads and writes through these stores.
    pub fn file_io(&self) -> FileIO {
        FileIOBuilder::new(Arc::new(MountedStorageFactory::new(self.clone()))).build()
    }

    /// Starts a new object; nothing is visible until [`Upload::finish`].
    ///
    /// # Errors
    ///
    /// When the location cannot be resolved.
    pub async fn create(&self, location: &str) -> Result<Upload, Error> {
        let (store, path) = self.resolve(location)?;
        Ok(Upload::new(store, path, location.to_owned(), Arc::clone(&self.in_flight)))
    }

    /// All bytes of an object.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or the store's failure.
    pub async fn read(&self, location: &str) -> Result<Bytes, Error> {
        let (store, path) = self.resolve(location)?;
        let read = async { store.get(&path).await?.bytes().await };
        read.await.map_err(|error| Error::from_store("read", location, error))
    }

    /// Part of an object; `range` counts bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or the store's failure.
    pub async fn read_range(&self, location: &str, range: std::ops::Range<u64>) -> Result<Bytes, Error> {
        let (store, path) = self.resolve(location)?;
        store.get_range(&path, range).await.map_err(|error| Error::from_store("read", location, error))
    }

    /// The size of an object in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or the store's failure.
    pub async fn size(&self, location: &str) -> Result<u64, Error> {
        let (store, path) = self.resolve(location)?;
        let meta = store.head(&path).await.map_err(|error| Error::from_store("read", location, error))?;
        Ok(meta.size)
    }

    /// When the store says that an object was last written; `None` when it does not say.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`], or the store's failure.
    pub async fn last_modified(&self, location: &str) -> Result<Option<SystemTime>, Error> {
        let (store, path) = self.resolve(location)?;
        let meta = store.head(&path).await.map_err(|error| Error::from_store("read", location, error))?;
        Ok(StoreObject::from(meta).last_modified)
    }

    /// The folder that a local folder is when links are followed; `None` where that is the same, or it
    /// is not on the local disk.
    pub fn linked(&self, folder: &Location) -> Option<Location> {
        if folder.family() != "file" {
            return None;
        }
        let path = std::path::PathBuf::from(format!("/{}", folder.key()));
        // What does not exist yet has a folder above it that does.
        let (there, real) = path.ancestors().find_map(|there| Some((there, std::fs::canonicalize(there).ok()?)))?;
        let real = real.join(path.strip_prefix(there).ok()?);
        Location::from_path(&real).ok().filter(|real| real != folder)
    }

    /// Writes a whole small object, replacing what is there.
    pub(crate) async fn put(&self, location: &str, bytes: Bytes) -> Result<(), Error> {
        let (store, path) = self.resolve(location)?;
        store.put(&path, bytes.into()).await.map_err(|error| Error::from_store("write", location, error))?;
        Ok(())
    }

    /// Deletes one object; one that is not there is fine.
    ///
    /// # Errors
    ///
    /// The store's failure.
    pub async fn delete(&self, location: &str) -> Result<(), Error> {
        let (store, path) = self.resolve(location)?;
        match store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(Error::from_store("delete", location, error)),
        }
    }

    /// Deletes many objects, in bulk where the store can; gives each with what came of it. One that is not there is fine.
    pub async fn delete_all(&self, locations: Vec<String>) -> Vec<(String, Result<(), Error>)> {
        let mut results = Vec::with_capacity(locations.len());
        let mut batches: Vec<DeleteBatch> = Vec::new();
        for location in locations {
            match self.resolve(&location) {
                Err(error) => results.push((location, Err(error))),
                Ok((store, path)) => match batches.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &store)) {
                    Some((_, batch)) => batch.push((location, path)),
                    None => batches.push((store, vec![(location, path)])),
                },
            }
        }
        for (store, batch) in batches {
            let paths: Vec<_> = batch.iter().map(|(_, path)| Ok(path.clone())).collect();
            let deleted: Vec<_> = store.delete_stream(futures::stream::iter(paths).boxed()).collect().await;
            let whole = deleted.len() == batch.len();
            let mut deleted = deleted.into_iter();
            for (location, path) in batch {
                let result = match deleted.next() {
                    Some(Ok(_) | Err(object_store::Error::NotFound { .. })) if whole => Ok(()),
                    Some(Err(error)) if whole => Err(Error::from_store("delete", &location, error)),
                    // A request for many failed as a whole: which of them are gone has to be asked one by one.
                    _ => match store.delete(&path).await {
                        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                        Err(error) => Err(Error::from_store("delete", &location, error)),
                    },
                };
                results.push((location, result));
            }
        }
        results
    }

    /// Everything below a location, in no stated order, without the cost of a [`Location`] for each.
    ///
    /// The stream ends with an error when the store cannot list; a place that does not exist is empty.
    pub fn scan(&self, below: &Location) -> BoxStream<'static, Result<StoreObject, Error>> {
        let text = below.to_string();
        let (store, path) = match self.resolve(&text) {
            Ok(resolved) => resolved,
            Err(error) => return futures::stream::once(async { Err(error) }).boxed(),
        };
        let objects = store.list(Some(&path)).map_ok(StoreObject::from);
        // A folder that goes while it is listed is empty.
        let objects =
            objects.filter(|object| std::future::ready(!matches!(object, Err(object_store::Error::NotFound { .. }))));
        objects.map_err(move |error| Error::from_store("list", &text, error)).boxed()
    }

    /// What lies directly in a location; a place that does not exist is empty.
    ///
    /// # Errors
    ///
    /// When the store cannot list.
    pub async fn folder(&self, location: &Location) -> Result<Folder, Error> {
        let text = location.to_string();
        let (store, path) = self.resolve(&text)?;
        match store.list_with_delimiter(Some(&path)).await {
            Ok(listed) => Ok(Folder {
                objects: listed.objects.into_iter().map(StoreObject::from).collect(),
                folders: listed.common_prefixes.into_iter().map(String::from).collect(),
            }),
            Err(object_store::Error::NotFound { .. }) => Ok(Folder::default()),
            Err(error) => Err(Error::from_store("list", &text, error)),
        }
    }

    /// Copies an object within its store, without its bytes passing through here; what is there is not replaced.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`], [`Error::NotFound`], [`Error::Location`] when the two are in different stores, or the store's
    /// failure.
    pub async fn copy(&self, from: &str, to: &str) -> Result<(), Error> {
        let (source, target) = (Location::parse(from)?, Location::parse(to)?);
        if source.family() != target.family() || source.authority() != target.authority() {
            let reason = format!("it is not in the store of {from}, and a copy would have to pass through here");
            return Err(Error::Location { location: to.to_owned(), reason });
        }
        let store = self.serving(&source)?;
        let (from_path, to_path) = (source.path()?, target.path()?);
        // Not every store can refuse to copy over an object in one step.
        match store.head(&to_path).await {
            Ok(_) => return Err(Error::Exists { location: to.to_owned() }),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(Error::from_store("read", to, error)),
        }
        // Where a store can copy without replacing, it does: a second copy of a local file over itself would leave litter.
        let copied = match source.family() {
            "file" | "memory" => store.copy_if_not_exists(&from_path, &to_path).await,
            _ => store.copy(&from_path, &to_path).await,
        };
        copied.map_err(|error| match error {
            object_store::Error::AlreadyExists { .. } => Error::Exists { location: to.to_owned() },
            error => Error::from_store("copy", from, error),
        })
    }

    /// Gives objects a tag, in place of those they have, for the store's lifecycle rules; gives each with what came of it. One
    /// that is not there is fine.
    ///
    /// Stores that are mounted have no tags, and neither have GCS and Azure.
    pub async fn tag_all(&self, locations: Vec<String>, key: &str, value: &str) -> Vec<(String, Result<(), Error>)> {
        let mut results = Vec::with_capacity(locations.len());
        #[cfg(feature = "aws")]
        let mut taggers = BTreeMap::new();
        for chunk in locations.chunks(CONCURRENT_TAGS) {
            #[cfg(feature = "aws")]
            let chunk = {
                let tags = chunk.iter().map(|location| self.tagging(location, &mut taggers));
                let tags: Vec<_> = tags.collect();
                futures::future::join_all(std::iter::zip(chunk, tags).map(|(location, tagger)| async move {
                    let (tagger, path) = tagger?;
                    match tagger.tag(&path, key, value).await {
                        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                        Err(error) => Err(Error::from_store("tag", location, error)),
                    }
                }))
                .await
                .into_iter()
                .zip(chunk)
                .map(|(result, location)| (location.clone(), result))
            };
            #[cfg(not(feature = "aws"))]
            let chunk = {
                let _ = (key, value);
                chunk.iter().map(|location| (location.clone(), Err(untagged(location))))
            };
            results.extend(chunk);
        }
        results
    }

    #[cfg(feature = "aws")]
    fn tagging(
        &self,
        location: &str,
        taggers: &mut BTreeMap<String, Arc<crate::tagging::Tagger>>,
    ) -> Result<(Arc<crate::tagging::Tagger>, Path), Error> {
        let parsed = Location::parse(location)?;
        let path = parsed.path()?;
        if let Some(tagger) = taggers.get(parsed.authority()) {
            return Ok((Arc::clone(tagger), path));
        }
        let is_mounted = self.mounted(parsed.family(), parsed.authority()).is_some();
        let remote = self.remote.as_ref().filter(|_| !is_mounted).ok_or_else(|| untagged(location))?;
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let grant = opened.granted_for(&parsed).map(|place| &opened.granted[place].grant);
        let tagger = Arc::new(remote.tagger(&parsed, grant)?.ok_or_else(|| untagged(location))?);
        taggers.insert(parsed.authority().to_owned(), Arc::clone(&tagger));
        Ok((tagger, path))
    }

    /// Everything below a location, in no stated order.
    ///
    /// The stream ends with an error when the store cannot list; a place that does not exist is empty.
    pub fn list(&self, below: &Location) -> BoxStream<'static, Result<Listed, Error>> {
        let root = below.clone();
        let (store, path) = match self.resolve(&root.to_string()) {
            Ok(resolved) => resolved,
            Err(error) => return futures::stream::once(async { Err(error) }).boxed(),
        };
        let root_text = root.to_string();
        let scheme = root.scheme().to_owned();
        let authority = root.authority().to_owned();
        store
            .list(Some(&path))
            .map(move |listed| {
                let meta = listed.map_err(|error| Error::from_store("list", &root_text, error))?;
                Ok(Listed {
                    location: Location::parse(&format!("{scheme}://{authority}/{}", meta.location))?,
                    size: meta.size,
                    last_modified: meta.last_modified.into(),
                })
            })
            .try_filter(move |listed| std::future::ready(root.contains(&listed.location)))
            .boxed()
    }
}

impl Opened {
    /// The grant with the longest prefix.
    fn granted_for(&self, location: &Location) -> Option<usize> {
        let containing =
            self.granted.iter().enumerate().filter(|(_, granted)| granted.grant.prefix().contains(location));
        containing.max_by_key(|(_, granted)| granted.grant.prefix().len()).map(|(place, _)| place)
    }
}

fn untagged(location: &str) -> Error {
    Error::Location { location: location.to_owned(), reason: "only objects of S3 have tags".to_owned() }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.mounts.keys().map(|(family, authority)| format!("{family}://{authority}"))).finish()
    }
}

#[cfg(test)]
#[cfg(feature = "aws")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use object_store::limit::LimitStore;

    use super::*;

    #[derive(Debug)]
    struct Never;

    #[async_trait]
    impl Vendor for Never {
        async fn vend(&self) -> Result<Vec<VendedProperties>, Box<dyn std::error::Error + Send + Sync>> {
            Err("nobody asks".into())
        }
    }

    fn properties() -> Properties {
        let keys = [("s3.access-key-id", "id"), ("s3.secret-access-key", "hush"), ("s3.region", "eu-west-1")];
        keys.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn granted(prefix: &str) -> VendedProperties {
        VendedProperties { prefix: prefix.to_owned(), properties: properties() }
    }

    #[test]
    fn every_store_is_seen_through_its_decorator_which_is_made_once() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let plain = Store::local().with_remote(properties(), None).unwrap();
        let vendor: Arc<dyn Vendor> = Arc::new(Never);
        plain.grant(vec![granted("s3://b/before")], &vendor);
        let seen = |store: &Store, location: &str| {
            store.serving(&Location::parse(location).unwrap()).unwrap().to_string().starts_with("LimitStore(7, ")
        };
        // Opened before: seen as it was by whoever has it, and through the decorator by the other.
        assert!(!seen(&plain, "s3://b/x"));
        let store = plain.clone().decorated(move |store| {
            count.fetch_add(1, Ordering::Relaxed);
            Arc::new(LimitStore::new(store, 7))
        });
        let store = store.mount("memory", "", Arc::new(InMemory::new()));
        store.grant(vec![granted("s3://b/after")], &vendor);
        let locations = ["file:///x", "memory:///x", "s3://b/x", "s3://c/x", "s3://b/before/x", "s3://b/after/x"];
        for _ in 0..2 {
            for location in locations {
                assert!(seen(&store, location), "{location}");
            }
        }
        assert_eq!(made.load(Ordering::Relaxed), locations.len());
        assert!(!seen(&plain, "file:///x") && !seen(&plain, "s3://b/x"));
    }

    #[tokio::test]
    async fn decorators_are_put_around_each_other_and_the_store_works_as_before() {
        let store = Store::memory().decorated(|store| Arc::new(LimitStore::new(store, 7)));
        let store = store.decorated(|store| Arc::new(LimitStore::new(store, 8)));
        let serving = store.serving(&Location::parse("memory:///x").unwrap()).unwrap();
        assert!(serving.to_string().starts_with("LimitStore(8, LimitStore(7, "), "{serving}");
        store.put("memory:///x", "abc".into()).await.unwrap();
        store.copy("memory:///x", "memory:///y").await.unwrap();
        assert_eq!(store.read("memory:///y").await.unwrap(), "abc");
        let tagged = store.tag_all(vec!["memory:///x".to_owned()], "key", "value").await;
        assert!(tagged[0].1.is_err(), "stores that are mounted have no tags");
    }
}
