//! Faults between a process and its store.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::{Call, Fault, Faults, Struck, Wrong};
use crate::store::{PAGE, date};

/// A store as a process sees it.
#[derive(Debug)]
pub(super) struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    faults: Faults,
}

impl FaultyStore {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, faults: Faults) -> Self {
        Self { inner, faults }
    }

    /// Half of an object, as the store keeps what is not finished.
    async fn leave_half(&self, path: &Path, payload: PutPayload) {
        let Ok(mut upload) = self.inner.put_multipart(path).await else { return };
        let whole = Bytes::from(payload);
        let _ = upload.put_part(whole.slice(..whole.len() / 2).into()).await;
        // Nobody tidies up after a process that ends.
        std::mem::forget(upload);
    }

    fn listing(&self, prefix: Option<&Path>, listed: BoxStream<'static, Result<ObjectMeta>>) -> Listing {
        let path = prefix.map(ToString::to_string).unwrap_or_default();
        let call = self.faults.call(Call::List, &path);
        if call.by.is_empty() && !self.faults.has_ended() {
            return listed;
        }
        futures::stream::once(faulty_listing(call, path, listed)).flatten().boxed()
    }
}

type Listing = BoxStream<'static, Result<ObjectMeta>>;

async fn faulty_listing(call: Struck, path: String, listed: Listing) -> Listing {
    if let Some(wrong) = call.before().await {
        return futures::stream::once(async move { Err(failed(wrong, &path, false)) }).boxed();
    }
    let slow_ms = call.each().find_map(|(index, fault)| match fault {
        Fault::Slow { ms } => Some((index, ms)),
        _ => None,
    });
    if let Some((index, ms)) = slow_ms {
        call.strike(index, Fault::Slow { ms });
    }
    let undated = is_undated(&call);
    let each = call.clone();
    let listed = listed.enumerate().then(move |(number, object)| {
        let call = each.clone();
        async move {
            if let Some((_, ms)) = slow_ms
                && number % PAGE == 0
            {
                call.wait(ms).await;
            }
            call.faults.unless_ended().await;
            object.map(|object| if undated { without_date(object) } else { object })
        }
    });
    let end = async move { call.after(true).await.map(|wrong| Err(failed(wrong, &path, false))) };
    listed.chain(futures::stream::once(end).filter_map(std::future::ready)).boxed()
}

fn is_undated(call: &Struck) -> bool {
    let undated = call.find(|fault| fault == Fault::Undated);
    undated.inspect(|index| call.strike(*index, Fault::Undated)).is_some()
}

fn without_date(meta: ObjectMeta) -> ObjectMeta {
    ObjectMeta { last_modified: date(0), ..meta }
}

/// The error of a store; `creates` says that nothing may have been there.
fn failed(wrong: Wrong, path: &str, creates: bool) -> Error {
    let (path, source) = (path.to_owned(), Box::new(wrong.cause()));
    match wrong {
        Wrong::NoAnswer | Wrong::Failure => Error::Generic { store: "remote", source },
        Wrong::Conflict if creates => Error::AlreadyExists { path, source },
        Wrong::Conflict => Error::Precondition { path, source },
    }
}

/// Makes a call, with what becomes of it.
async fn through<'a, T: Send>(
    call: &Struck,
    path: &Path,
    creates: bool,
    deliver: impl Fn() -> BoxFuture<'a, Result<T>> + Send + Sync,
) -> Result<T> {
    if let Some(wrong) = call.before().await {
        return Err(failed(wrong, path.as_ref(), creates));
    }
    let mut answer = deliver().await;
    let mut landed = answer.is_ok();
    if call.twice() {
        answer = deliver().await;
        landed = landed || answer.is_ok();
    }
    match call.after(landed).await {
        Some(wrong) => Err(failed(wrong, path.as_ref(), creates)),
        None => answer,
    }
}

async fn delete(inner: Arc<dyn ObjectStore>, faults: Faults, path: Result<Path>) -> Result<Path> {
    let path = path?;
    let call = faults.call(Call::Delete, path.as_ref());
    through(&call, &path, false, || inner.delete(&path).boxed()).await?;
    Ok(path)
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with faults", self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let call = self.faults.call(Call::Put, location.as_ref());
        if let Some(index) = call.find(|fault| fault == Fault::Partial) {
            self.faults.unless_ended().await;
            self.leave_half(location, payload.clone()).await;
            call.crash(index, Fault::Partial).await;
        }
        let creates = matches!(options.mode, PutMode::Create);
        through(&call, location, creates, || self.inner.put_opts(location, payload.clone(), options.clone())).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.faults.unless_ended().await;
        let inner = self.inner.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload { inner: Some(inner), path: location.clone(), faults: self.faults.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let call = self.faults.call(Call::Read, location.as_ref());
        let got = through(&call, location, false, || self.inner.get_opts(location, options.clone())).await?;
        Ok(if is_undated(&call) { GetResult { meta: without_date(got.meta), ..got } } else { got })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let call = self.faults.call(Call::Read, location.as_ref());
        through(&call, location, false, || self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        // In bulk, where nothing is to happen.
        if !self.faults.injects(|injection| injection.call == Call::Delete) && !self.faults.has_ended() {
            return self.inner.delete_stream(locations);
        }
        let (inner, faults) = (Arc::clone(&self.inner), self.faults.clone());
        locations.then(move |path| delete(Arc::clone(&inner), faults.clone(), path)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> Listing {
        self.listing(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> Listing {
        self.listing(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let path = prefix.cloned().unwrap_or_default();
        let call = self.faults.call(Call::List, path.as_ref());
        for (index, fault) in call.each() {
            if let Fault::Slow { ms } = fault {
                call.strike(index, fault);
                call.wait(ms).await;
            }
        }
        let mut listed = through(&call, &path, false, || self.inner.list_with_delimiter(prefix)).await?;
        if is_undated(&call) {
            listed.objects = listed.objects.into_iter().map(without_date).collect();
        }
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let call = self.faults.call(Call::Copy, to.as_ref());
        let creates = matches!(options.mode, object_store::CopyMode::Create);
        through(&call, to, creates, || self.inner.copy_opts(from, to, options.clone())).await
    }
}

/// An upload in parts as a process sees it.
struct FaultyUpload {
    /// None when the process ended in the middle of it.
    inner: Option<Box<dyn MultipartUpload>>,
    path: Path,
    faults: Faults,
}

impl fmt::Debug for FaultyUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyUpload").field("path", &self.path).finish_non_exhaustive()
    }
}

fn abandoned() -> Error {
    Error::Generic { store: "remote", source: "the process that began the upload has ended".into() }
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match &mut self.inner {
            Some(inner) => inner.put_part(data),
            None => Box::pin(async { Err(abandoned()) }),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let call = self.faults.call(Call::Upload, self.path.as_ref());
        if let Some(index) = call.find(|fault| fault == Fault::Partial) {
            self.faults.unless_ended().await;
            call.crash(index, Fault::Partial).await;
        }
        if let Some(wrong) = call.before().await {
            return Err(failed(wrong, self.path.as_ref(), true));
        }
        let Some(inner) = &mut self.inner else { return Err(abandoned()) };
        let mut answer = inner.complete().await;
        let mut landed = answer.is_ok();
        if call.twice() {
            answer = inner.complete().await;
            landed = landed || answer.is_ok();
        }
        match call.after(landed).await {
            Some(wrong) => Err(failed(wrong, self.path.as_ref(), true)),
            None => answer,
        }
    }

    async fn abort(&mut self) -> Result<()> {
        self.faults.unless_ended().await;
        match &mut self.inner {
            Some(inner) => inner.abort().await,
            None => Err(abandoned()),
        }
    }
}

impl Drop for FaultyUpload {
    fn drop(&mut self) {
        // Nobody tidies up after a process that ends.
        if self.faults.has_ended() {
            std::mem::forget(self.inner.take());
        }
    }
}
