//! Writing one new object.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::Error;

/// Every part but the last has exactly this size: S3 asks for 5 MiB at least, some stores for equal parts, and no store
/// takes more than 10,000 of them. A smaller object is written in one request.
const PART_SIZE: usize = 8 << 20;

/// Of a file on a local disk, which asks for nothing: large enough for few system calls, and small where many files are open.
const LOCAL_PART_SIZE: usize = 1 << 20;

/// Parts that one process has in flight, however many objects it writes at once.
pub(crate) const PARTS_IN_FLIGHT: usize = 6;

/// An object in the making: bytes go in, and the object is there, whole, once [`Upload::finish`] returns.
///
/// Parts are sent while further bytes are made. Dropping it without finishing leaves no object under the name;
/// [`Upload::abort`] also frees what the store holds of it, and so does any method that fails; a drop only asks for it. Bytes in memory are
/// bounded by one part (8 MiB, on a local disk 1 MiB) and the piece last written, and by 6 parts in flight for the whole process.
pub struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    location: String,
    buffer: BytesMut,
    part_size: usize,
    parts: Option<Box<dyn MultipartUpload>>,
    sending: JoinSet<object_store::Result<()>>,
    in_flight: Arc<Semaphore>,
    written: u64,
}

impl Upload {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, path: Path, location: String, in_flight: Arc<Semaphore>) -> Self {
        let part_size =
            if location.contains("://") && !location.starts_with("file:") { PART_SIZE } else { LOCAL_PART_SIZE };
        Self {
            store,
            path,
            location,
            buffer: BytesMut::new(),
            part_size,
            parts: None,
            sending: JoinSet::new(),
            in_flight,
            written: 0,
        }
    }

    /// The location as it was given, and as it is to be recorded.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Bytes that wait for their part to be full. Those on their way are not counted: how many they are is chance.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// The store's failure, of this piece or of one before it; the upload is then aborted.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.written += bytes.len() as u64;
        self.buffer.extend_from_slice(&bytes);
        while self.buffer.len() >= self.part_size {
            let part = self.buffer.split_to(self.part_size).freeze();
            if let Err(error) = self.send(part).await {
                return Err(self.fail(error).await);
            }
        }
        Ok(())
    }

    async fn send(&mut self, part: Bytes) -> object_store::Result<()> {
        while let Some(sent) = self.sending.try_join_next() {
            joined(sent)?;
        }
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(self.store.put_multipart(&self.path).await?),
        };
        // The semaphore is never closed.
        let permit = Arc::clone(&self.in_flight).acquire_owned().await.ok();
        let sending = parts.put_part(part.into());
        self.sending.spawn(async move {
            let sent = sending.await;
            drop(permit);
            sent
        });
        Ok(())
    }

    /// Makes the object visible and checks that it is there under its recorded location; gives its size in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] when something already has the name, [`Error::Mismatch`] when the store then holds another
    /// number of bytes, or the store's failure. Nothing of the upload remains then, but for a mismatch.
    pub async fn finish(mut self) -> Result<u64, Error> {
        match self.complete().await {
            Ok(()) => {}
            Err(error) => return Err(self.fail(error).await),
        }
        let found = self.store.head(&self.path).await;
        let found = found.map_err(|error| Error::from_store("read", &self.location, error))?.size;
        if found != self.written {
            return Err(Error::Mismatch { location: self.location.clone(), written: self.written, found });
        }
        Ok(found)
    }

    async fn complete(&mut self) -> object_store::Result<()> {
        if self.parts.is_none() {
            let whole = std::mem::take(&mut self.buffer).freeze();
            return self.put_whole(whole).await;
        }
        if !self.buffer.is_empty() {
            let rest = std::mem::take(&mut self.buffer).freeze();
            self.send(rest).await?;
        }
        while let Some(sent) = self.sending.join_next().await {
            joined(sent)?;
        }
        // Not atomic, as no store can promise it for an object in parts; names are unique, and this finds a misuse.
        if self.store.head(&self.path).await.is_ok() {
            let source = "found before the last step of the upload".into();
            return Err(object_store::Error::AlreadyExists { path: self.path.to_string(), source });
        }
        let Some(parts) = &mut self.parts else { return Ok(()) };
        let completed = parts.complete().await;
        // The answer may be what was lost.
        let landed = async || self.store.head(&self.path).await.is_ok_and(|there| there.size == self.written);
        if completed.is_ok() || landed().await {
            self.parts = None;
            return Ok(());
        }
        completed.map(|_| ())
    }

    async fn put_whole(&mut self, whole: Bytes) -> object_store::Result<()> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let Err(error) = self.store.put_opts(&self.path, whole.clone().into(), options).await else { return Ok(()) };
        // A store that answers late, or not at all, makes the second request find what the first one wrote.
        let there = async { self.store.get(&self.path).await?.bytes().await };
        match there.await {
            Ok(there) if there == whole => Ok(()),
            _ => Err(error),
        }
    }

    /// The error to give after what is there of the upload has been freed.
    async fn fail(&mut self, error: object_store::Error) -> Error {
        // What cannot be freed now is left to the store's own rule for incomplete uploads.
        let _ = self.free().await;
        Error::from_store("write", &self.location, error)
    }

    async fn free(&mut self) -> object_store::Result<()> {
        // A part that arrives after the abort would stay.
        self.sending.shutdown().await;
        match self.parts.take() {
            Some(mut parts) => parts.abort().await,
            None => Ok(()),
        }
    }

    /// Gives the upload up; nothing of it remains.
    ///
    /// # Errors
    ///
    /// The store's failure to free what it holds.
    pub async fn abort(mut self) -> Result<(), Error> {
        self.free().await.map_err(|error| Error::from_store("delete", &self.location, error))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let (Some(mut parts), Ok(runtime)) = (self.parts.take(), tokio::runtime::Handle::try_current()) else { return };
        let mut sending = std::mem::take(&mut self.sending);
        runtime.spawn(async move {
            sending.shutdown().await;
            let _ = parts.abort().await;
        });
    }
}

fn joined(sent: Result<object_store::Result<()>, tokio::task::JoinError>) -> object_store::Result<()> {
    sent.unwrap_or_else(|source| Err(object_store::Error::JoinError { source }))
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("location", &self.location)
            .field("written", &self.written)
            .field("multipart", &self.parts.is_some())
            .finish_non_exhaustive()
    }
}
