//! Reading many small files at once.

use std::num::NonZeroUsize;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use hexfloe_store::Store;
use iceberg::spec::FormatVersion;

use crate::error::{Error, Refusal};
use crate::manifests::{self, Listed, Named, Unread};

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

    /// The manifests of lists, in the order in which they are done. A list without any must be of a snapshot that says of
    /// itself that it has no files.
    pub(crate) fn lists(
        &self,
        lists: Vec<(String, bool)>,
        version: FormatVersion,
    ) -> impl Stream<Item = Result<Vec<Listed>, Error>> {
        let read = futures::stream::iter(lists).map(move |(path, may_be_empty)| {
            self.one(path, move |bytes| match manifests::of_list(bytes, version)? {
                none if none.is_empty() && !may_be_empty => {
                    Err("it has no manifests, and its snapshot says that it has files".into())
                }
                listed => Ok(listed),
            })
        });
        read.buffer_unordered(CONCURRENT_READS)
    }

    /// The files of manifests, in the order in which they are done.
    pub(crate) fn manifests(&self, manifests: Vec<Listed>) -> impl Stream<Item = Result<Vec<Named>, Error>> {
        let read = futures::stream::iter(manifests)
            .map(move |listed| self.one(listed.path.clone(), move |bytes| manifests::of_listed(&listed, bytes)));
        read.buffer_unordered(CONCURRENT_READS)
    }

    async fn one<T: Send + 'static>(
        &self,
        path: String,
        parse: impl FnOnce(&[u8]) -> Result<T, Unread> + Send + 'static,
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
