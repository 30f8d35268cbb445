//! Faults, as decorators over the commit port and the object store.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use hexfloe_catalog::{CommitOutcome, CommitPort, CommitRequest, Error};
use hexfloe_store::Store;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

/// What happens to one request.
#[derive(Clone)]
pub(crate) enum Fault {
    /// Nothing special.
    Pass,
    /// It is applied, and the answer is lost.
    LoseAnswer,
    /// It is applied, sent again on the way, and the second copy is refused.
    Resend,
    /// It is applied, and the answer is an error.
    ApplyAndFail,
    /// It never arrives, and nobody knows.
    Vanish,
    /// It stays on the way; the next [`Fault::ThenDelayed`] lets it arrive.
    Delay,
    /// What was delayed arrives before this one.
    ThenDelayed,
    /// It is refused with an error, not a conflict.
    Refuse,
    /// It is a conflict, for no reason to be seen.
    Conflict,
    /// Something happens before it arrives.
    After(Rival),
    /// It is applied, then something happens, and the answer is lost.
    LoseAnswerThen(Rival),
    /// It is applied, then something happens, and a second copy is refused.
    ResendThen(Rival),
}

/// Something that another writer does.
pub(crate) type Rival = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A rival from an async closure.
pub(crate) fn rival<F: Future<Output = ()> + Send + 'static>(act: impl Fn() -> F + Send + Sync + 'static) -> Rival {
    Arc::new(move || act().boxed())
}

/// A port that follows a script, then passes everything on or repeats the last line.
pub(crate) struct FaultyPort {
    inner: Arc<dyn CommitPort>,
    script: Mutex<VecDeque<Fault>>,
    forever: Option<Fault>,
    delayed: Mutex<Vec<CommitRequest>>,
    requests: Mutex<Vec<CommitRequest>>,
}

impl fmt::Debug for FaultyPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyPort").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// Faults for the first requests.
pub(crate) fn script(faults: impl IntoIterator<Item = Fault>) -> impl FnOnce(Arc<dyn CommitPort>) -> Arc<FaultyPort> {
    let script = Mutex::new(faults.into_iter().collect());
    move |inner| {
        let (delayed, requests) = (Mutex::default(), Mutex::default());
        Arc::new(FaultyPort { inner, script, forever: None, delayed, requests })
    }
}

/// One fault for every request.
pub(crate) fn always(fault: Fault) -> impl FnOnce(Arc<dyn CommitPort>) -> Arc<FaultyPort> {
    move |inner| {
        let (script, delayed, requests) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(FaultyPort { inner, script, forever: Some(fault), delayed, requests })
    }
}

impl FaultyPort {
    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<CommitRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Lets what was delayed arrive now; tells how many were applied.
    pub(crate) async fn deliver(&self) -> usize {
        let delayed = std::mem::take(&mut *self.delayed.lock().unwrap());
        let mut applied = 0;
        for request in delayed {
            if matches!(self.inner.commit(&request).await, Ok(CommitOutcome::Committed(_))) {
                applied += 1;
            }
        }
        applied
    }

    async fn apply(&self, request: &CommitRequest) {
        let outcome = self.inner.commit(request).await.unwrap();
        assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    }
}

fn unknown() -> CommitOutcome {
    CommitOutcome::Unknown { reason: "the connection was closed".to_owned(), source: None }
}

#[async_trait]
impl CommitPort for FaultyPort {
    async fn commit(&self, request: &CommitRequest) -> std::result::Result<CommitOutcome, Error> {
        self.requests.lock().unwrap().push(request.clone());
        let fault = self.script.lock().unwrap().pop_front().or_else(|| self.forever.clone());
        match fault.unwrap_or(Fault::Pass) {
            Fault::Pass => self.inner.commit(request).await,
            Fault::LoseAnswer => {
                self.apply(request).await;
                Ok(unknown())
            }
            Fault::Resend => {
                self.apply(request).await;
                self.inner.commit(request).await
            }
            Fault::ApplyAndFail => {
                self.apply(request).await;
                Err(Error::Settings("bad request".to_owned()))
            }
            Fault::Vanish => Ok(unknown()),
            Fault::Delay => {
                self.delayed.lock().unwrap().push(request.clone());
                Ok(unknown())
            }
            Fault::ThenDelayed => {
                self.deliver().await;
                self.inner.commit(request).await
            }
            Fault::Refuse => Err(Error::Settings("bad request".to_owned())),
            Fault::Conflict => Ok(CommitOutcome::Conflict { reason: "somebody was first".to_owned() }),
            Fault::After(rival) => {
                rival().await;
                self.inner.commit(request).await
            }
            Fault::LoseAnswerThen(rival) => {
                self.apply(request).await;
                rival().await;
                Ok(unknown())
            }
            Fault::ResendThen(rival) => {
                self.apply(request).await;
                rival().await;
                self.inner.commit(request).await
            }
        }
    }
}

/// A local disk that fails when told to.
#[derive(Clone, Debug)]
pub(crate) struct FaultyDisk {
    inner: Arc<dyn ObjectStore>,
    faults: Arc<DiskFaults>,
}

/// When the disk fails.
#[derive(Default)]
pub(crate) struct DiskFaults {
    /// Writes left until one fails; 0 for never.
    put: AtomicUsize,
    /// Reads of these names fail.
    unreadable: Mutex<Option<&'static str>>,
    /// Deletes fail.
    delete: AtomicBool,
    /// Something happens before the next read of such a name.
    before_read: Mutex<Option<(&'static str, Rival)>>,
    /// Something happens before each write.
    before_put: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl fmt::Debug for DiskFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskFaults").finish_non_exhaustive()
    }
}

impl DiskFaults {
    pub(crate) fn fail_put(&self, nth: usize) {
        self.put.store(nth, Ordering::SeqCst);
    }

    pub(crate) fn fail_reads_of(&self, part: Option<&'static str>) {
        *self.unreadable.lock().unwrap() = part;
    }

    pub(crate) fn fail_deletes(&self, fail: bool) {
        self.delete.store(fail, Ordering::SeqCst);
    }

    pub(crate) fn before_read(&self, part: &'static str, act: Rival) {
        *self.before_read.lock().unwrap() = Some((part, act));
    }

    pub(crate) fn before_put(&self, act: impl Fn() + Send + 'static) {
        *self.before_put.lock().unwrap() = Some(Box::new(act));
    }

    fn put(&self) -> Result<()> {
        if let Some(act) = self.before_put.lock().unwrap().as_ref() {
            act();
        }
        let left = self.put.load(Ordering::SeqCst);
        if left == 0 {
            return Ok(());
        }
        self.put.store(left - 1, Ordering::SeqCst);
        if left == 1 { Err(broken("write")) } else { Ok(()) }
    }
}

/// The local disk, and the switch of its faults.
pub(crate) fn faulty_disk() -> (Store, Arc<DiskFaults>) {
    let faults = Arc::new(DiskFaults::default());
    let inner = Store::local().mounted("file", "").unwrap();
    let disk = FaultyDisk { inner, faults: Arc::clone(&faults) };
    (Store::empty().mount("file", "", Arc::new(disk)), faults)
}

fn broken(action: &str) -> object_store::Error {
    object_store::Error::Generic { store: "disk", source: format!("the disk did not {action}").into() }
}

impl fmt::Display for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a disk that fails")
    }
}

#[async_trait]
impl ObjectStore for FaultyDisk {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.faults.put()?;
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.faults.put()?;
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let act = self.faults.before_read.lock().unwrap().take_if(|(part, _)| location.as_ref().contains(*part));
        if let Some((_, act)) = act {
            act().await;
        }
        let part = *self.faults.unreadable.lock().unwrap();
        if part.is_some_and(|part| location.as_ref().contains(part)) {
            return Err(broken("read"));
        }
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.faults.delete.load(Ordering::SeqCst) {
            return locations.map(|_| Err(broken("delete"))).boxed();
        }
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
