//! Writing one new object.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::Error;

/// Parts are at least this large, as S3 asks (5 MiB), and a smaller object is written in one request.
const PART_SIZE: usize = 5 << 20;

/// An object in the making: bytes go in, and the object is there, whole, once [`Upload::finish`] returns.
///
/// Dropping it without finishing leaves no object under the name; [`Upload::abort`] also frees what the store holds of
/// it. Bytes in memory are bounded by one part (5 MiB) and the piece last written.
pub struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    location: String,
    buffer: BytesMut,
    parts: Option<Box<dyn MultipartUpload>>,
    written: u64,
}

impl Upload {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, path: Path, location: String) -> Self {
        Self { store, path, location, buffer: BytesMut::new(), parts: None, written: 0 }
    }

    /// The location as it was given, and as it is to be recorded.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Bytes that are held in memory and not yet sent.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// The store's failure; the upload is then only good for [`Upload::abort`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.written += bytes.len() as u64;
        self.buffer.extend_from_slice(&bytes);
        if self.buffer.len() >= PART_SIZE {
            self.send_part().await?;
        }
        Ok(())
    }

    async fn send_part(&mut self) -> Result<(), Error> {
        let failed = |error| Error::from_store("write", &self.location, error);
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(self.store.put_multipart(&self.path).await.map_err(failed)?),
        };
        let part = std::mem::take(&mut self.buffer).freeze();
        parts.put_part(part.into()).await.map_err(failed)
    }

    /// Makes the object visible and checks that it is there under its recorded location; gives its size in bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Exists`] when something already has the name, [`Error::Mismatch`] when the store then holds another
    /// number of bytes, or the store's failure.
    pub async fn finish(mut self) -> Result<u64, Error> {
        if self.parts.is_some() && !self.buffer.is_empty() {
            self.send_part().await?;
        }
        let failed = |error| Error::from_store("write", &self.location, error);
        if let Some(mut parts) = self.parts.take() {
            parts.complete().await.map_err(failed)?;
        } else {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let whole = self.buffer.freeze();
            self.store.put_opts(&self.path, whole.into(), options).await.map_err(failed)?;
        }
        let found = self.store.head(&self.path).await.map_err(failed)?.size;
        if found != self.written {
            return Err(Error::Mismatch { location: self.location, written: self.written, found });
        }
        Ok(found)
    }

    /// Gives the upload up; nothing of it remains.
    ///
    /// # Errors
    ///
    /// The store's failure to free what it holds.
    pub async fn abort(mut self) -> Result<(), Error> {
        match self.parts.take() {
            Some(mut parts) => parts.abort().await.map_err(|error| Error::from_store("delete", &self.location, error)),
            None => Ok(()),
        }
    }
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
