//! Reading many small files at once.

use std::num::NonZeroUsize;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use hexfloe_store::Store;

use crate::error::{Error, Refusal};

/// How many files are read at once.
pub(crate) const CONCURRENT_READS: usize = 32;

/// Reads and takes apart the files that say what a table refers to. What cannot be read is a reason to refuse.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    store: Store,
    threads: NonZeroUsize,
    table: String,
}

impl Reading {
    pub(crate) fn new(store: Store, threads: NonZeroUsize, table: String) -> Self {
        Self { store, threads, table }
    }

    /// Each of `paths` with what `parse` makes of its bytes, in the order in which they are done.
    pub(crate) fn all<T: Send + 'static>(
        &self,
        paths: Vec<String>,
        parse: impl Fn(&[u8]) -> Result<T, crate::manifests::Unread> + Clone + Send + Sync + 'static,
    ) -> impl Stream<Item = Result<T, Error>> {
        futures::stream::iter(paths).map(move |path| self.one(path, parse.clone())).buffer_unordered(CONCURRENT_READS)
    }

    async fn one<T: Send + 'static>(
        &self,
        path: String,
        parse: impl FnOnce(&[u8]) -> Result<T, crate::manifests::Unread> + Send + 'static,
    ) -> Result<T, Error> {
        let bytes = self.bytes(&path).await?;
        let parsed = if self.threads.get() > 1 {
            let parsed = tokio::task::spawn_blocking(move || parse(&bytes)).await;
            parsed.unwrap_or_else(|error| Err(error.into()))
        } else {
            parse(&bytes)
        };
        parsed.map_err(|error| self.unreadable(&path, error.as_ref()))
    }

    async fn bytes(&self, path: &str) -> Result<Bytes, Error> {
        self.store.read(path).await.map_err(|error| match error {
            hexfloe_store::Error::Store { .. } | hexfloe_store::Error::NoBucket { .. } => Error::Store(error),
            error => self.unreadable(path, &error),
        })
    }

    pub(crate) fn unreadable(&self, file: &str, error: &dyn std::error::Error) -> Error {
        let refusal = Refusal::Unreadable { file: file.to_owned(), reason: error.to_string() };
        Error::refused(&self.table, refusal)
    }
}
