//! An object store whose writes of data files can fail, panic or wait.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use tokio::sync::Semaphore;

/// What becomes of a write.
#[derive(Clone)]
pub(crate) enum Fault {
    Fail,
    Panic,
    /// It waits until there is a permit.
    Wait(Arc<Semaphore>),
}

impl Fault {
    async fn strike(&self) -> Result<()> {
        match self {
            Self::Fail => Err(object_store::Error::Generic { store: "faulty", source: "the disk is full".into() }),
            Self::Panic => panic!("a store that panics"),
            Self::Wait(gate) => {
                let _permit = gate.acquire().await.unwrap();
                Ok(())
            }
        }
    }
}

/// Strikes the `at`-th write of a data file, counted from 0; a file larger than a part has several.
pub(crate) struct FaultyWrites {
    inner: Arc<dyn ObjectStore>,
    fault: Fault,
    at: usize,
    writes: Arc<AtomicUsize>,
}

impl FaultyWrites {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, fault: Fault, at: usize) -> Arc<Self> {
        Arc::new(Self { inner, fault, at, writes: Arc::default() })
    }
}

impl fmt::Debug for FaultyWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyWrites").field("at", &self.at).finish_non_exhaustive()
    }
}

impl fmt::Display for FaultyWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

fn is_data(location: &Path) -> bool {
    location.as_ref().ends_with(".parquet")
}

#[async_trait]
impl ObjectStore for FaultyWrites {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if is_data(location) && self.writes.fetch_add(1, Ordering::SeqCst) == self.at {
            self.fault.strike().await?;
        }
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, options).await?;
        let (fault, at, writes) = (self.fault.clone(), self.at, Arc::clone(&self.writes));
        Ok(Box::new(FaultyUpload { inner, fault, at, writes }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

struct FaultyUpload {
    inner: Box<dyn MultipartUpload>,
    fault: Fault,
    at: usize,
    writes: Arc<AtomicUsize>,
}

impl fmt::Debug for FaultyUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyUpload").finish_non_exhaustive()
    }
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.inner.put_part(data);
        if self.writes.fetch_add(1, Ordering::SeqCst) != self.at {
            return part;
        }
        let fault = self.fault.clone();
        Box::pin(async move {
            fault.strike().await?;
            part.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}
