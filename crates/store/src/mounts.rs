//! Which store serves which location.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use iceberg::io::{FileIO, FileIOBuilder};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::{Error, Location, MountedStorageFactory, Upload};

/// The stores of a process, by scheme family and authority. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    mounts: Arc<BTreeMap<(String, String), Arc<dyn ObjectStore>>>,
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

impl Store {
    /// The local disk (`file:///…`).
    pub fn local() -> Self {
        Self::empty().mount("file", "", Arc::new(LocalFileSystem::new()))
    }

    /// A new, empty store in memory (`memory:///…`).
    pub fn memory() -> Self {
        Self::empty().mount("memory", "", Arc::new(InMemory::new()))
    }

    /// No store at all.
    pub fn empty() -> Self {
        Self { mounts: Arc::new(BTreeMap::new()) }
    }

    /// This set of stores and one more, in place of any for the same scheme family and authority.
    ///
    /// This is where decorators (faults, latency, counting) are put around a store.
    #[must_use]
    pub fn mount(&self, family: &str, authority: &str, store: Arc<dyn ObjectStore>) -> Self {
        let mut mounts = BTreeMap::clone(&self.mounts);
        mounts.insert((family.to_owned(), authority.to_owned()), store);
        Self { mounts: Arc::new(mounts) }
    }

    /// The store mounted for a scheme family and authority, for wrapping it in a decorator.
    pub fn mounted(&self, family: &str, authority: &str) -> Option<Arc<dyn ObjectStore>> {
        self.mounts.get(&(family.to_owned(), authority.to_owned())).cloned()
    }

    pub(crate) fn resolve(&self, location: &str) -> Result<(Arc<dyn ObjectStore>, Path), Error> {
        let parsed = Location::parse(location)?;
        let store = self
            .mounted(parsed.family(), parsed.authority())
            .ok_or_else(|| Error::NoStore { location: location.to_owned(), scheme: parsed.scheme().to_owned() })?;
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
        Ok(Upload::new(store, path, location.to_owned()))
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

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.mounts.keys().map(|(family, authority)| format!("{family}://{authority}"))).finish()
    }
}
