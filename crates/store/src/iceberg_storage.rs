//! Iceberg's `Storage` over the mounted stores.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use iceberg::Result;
use iceberg::io::{FileMetadata, FileRead, FileWrite, InputFile, OutputFile, Storage, StorageConfig, StorageFactory};
use serde::{Deserialize, Serialize};

use crate::{Location, Store, Upload};

/// [`Storage`] over a [`Store`].
///
/// Iceberg asks that a storage can be serialised, to send it to another process. Open stores cannot: what arrives is
/// a storage over the local disk. Nothing here sends one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountedStorage {
    #[serde(skip, default = "Store::local")]
    store: Store,
}

/// Makes [`MountedStorage`]s.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountedStorageFactory {
    #[serde(skip, default = "Store::local")]
    store: Store,
}

impl MountedStorageFactory {
    /// A factory of storages over `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }
}

#[typetag::serde]
impl StorageFactory for MountedStorageFactory {
    fn build(&self, _config: &StorageConfig) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(MountedStorage { store: self.store.clone() }))
    }
}

#[async_trait]
#[typetag::serde]
impl Storage for MountedStorage {
    async fn exists(&self, path: &str) -> Result<bool> {
        match self.store.size(path).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn metadata(&self, path: &str) -> Result<FileMetadata> {
        Ok(FileMetadata { size: self.store.size(path).await? })
    }

    async fn read(&self, path: &str) -> Result<Bytes> {
        Ok(self.store.read(path).await?)
    }

    async fn reader(&self, path: &str) -> Result<Box<dyn FileRead>> {
        Ok(Box::new(RangeReader { store: self.store.clone(), location: path.to_owned() }))
    }

    async fn write(&self, path: &str, bs: Bytes) -> Result<()> {
        Ok(self.store.put(path, bs).await?)
    }

    async fn writer(&self, path: &str) -> Result<Box<dyn FileWrite>> {
        Ok(Box::new(NewObject { upload: Some(self.store.create(path).await?) }))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Ok(self.store.delete(path).await?)
    }

    async fn delete_prefix(&self, path: &str) -> Result<()> {
        let mut listing = self.store.list(&Location::parse(path)?);
        while let Some(listed) = listing.try_next().await? {
            self.store.delete(&listed.location.to_string()).await?;
        }
        Ok(())
    }

    async fn delete_stream(&self, mut paths: BoxStream<'static, String>) -> Result<()> {
        while let Some(path) = paths.next().await {
            self.store.delete(&path).await?;
        }
        Ok(())
    }

    fn new_input(&self, path: &str) -> Result<InputFile> {
        Ok(InputFile::new(Arc::new(self.clone()), path.to_owned()))
    }

    fn new_output(&self, path: &str) -> Result<OutputFile> {
        Ok(OutputFile::new(Arc::new(self.clone()), path.to_owned()))
    }
}

struct RangeReader {
    store: Store,
    location: String,
}

#[async_trait]
impl FileRead for RangeReader {
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.store.read_range(&self.location, range).await?)
    }
}

struct NewObject {
    upload: Option<Upload>,
}

#[async_trait]
impl FileWrite for NewObject {
    async fn write(&mut self, bs: Bytes) -> Result<()> {
        match &mut self.upload {
            Some(upload) => Ok(upload.write(bs).await?),
            None => Err(closed()),
        }
    }

    async fn close(&mut self) -> Result<()> {
        match self.upload.take() {
            Some(upload) => {
                upload.finish().await?;
                Ok(())
            }
            None => Err(closed()),
        }
    }
}

fn closed() -> iceberg::Error {
    iceberg::Error::new(iceberg::ErrorKind::Unexpected, "the file is closed already")
}
