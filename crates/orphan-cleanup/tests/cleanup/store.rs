//! A store that misbehaves when it is told to, around a real one.
//!
//! To judge by its listings, everything in it was written a month ago, unless a rule says otherwise. Rules go by parts of
//! keys.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// How old everything is.
pub(crate) const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);

/// Something that happens in between.
type Act = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// What may be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Listing,
    Reading,
    Deleting,
    Copying,
}

/// What becomes of a delete.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deleting {
    /// It fails so many times.
    Fails(usize),
    /// It is said to be done.
    IsPretended,
    /// A request for several of them has one error as its answer.
    FailsForAll,
}

/// What becomes of a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listing {
    /// There is no such place.
    NotFound,
    /// It fails after the first objects.
    Breaks,
    /// It is refused.
    Refused,
}

/// What a [`TroubledStore`] has been told.
#[derive(Default)]
pub(crate) struct Troubles {
    ages: Mutex<Vec<(String, Option<Duration>)>>,
    hidden: Mutex<Vec<String>>,
    listings: Mutex<Vec<(String, Listing)>>,
    deletes: Mutex<Vec<(String, Deleting)>>,
    unreadable: Mutex<Vec<String>>,
    acts: Mutex<Vec<(On, String, usize, Act)>>,
    deleted: Mutex<Vec<String>>,
}

impl Troubles {
    /// Keys with this part were written so long ago; `None` when the store does not say.
    pub(crate) fn age(&self, part: &str, age: Option<Duration>) {
        self.ages.lock().unwrap().push((part.to_owned(), age));
    }

    /// Keys with this part are not listed.
    pub(crate) fn hide(&self, part: &str) {
        self.hidden.lock().unwrap().push(part.to_owned());
    }

    /// A listing of a place whose key ends so.
    pub(crate) fn listing(&self, end: &str, what: Listing) {
        self.listings.lock().unwrap().push((end.to_owned(), what));
    }

    /// Deletes of keys with this part.
    pub(crate) fn deleting(&self, part: &str, what: Deleting) {
        self.deletes.lock().unwrap().push((part.to_owned(), what));
    }

    /// Reads of keys with this part fail, as a network does.
    pub(crate) fn unreadable(&self, part: &str) {
        self.unreadable.lock().unwrap().push(part.to_owned());
    }

    /// Nothing is wrong any more.
    pub(crate) fn end(&self) {
        self.hidden.lock().unwrap().clear();
        self.listings.lock().unwrap().clear();
        self.deletes.lock().unwrap().clear();
        self.unreadable.lock().unwrap().clear();
        self.acts.lock().unwrap().clear();
    }

    /// Before the nth request of a kind for a key with this part, something happens once.
    pub(crate) fn before<F: Future<Output = ()> + Send + 'static>(
        &self,
        (on, nth): (On, usize),
        part: &str,
        act: impl Fn() -> F + Send + Sync + 'static,
    ) {
        self.acts.lock().unwrap().push((on, part.to_owned(), nth, Arc::new(move || act().boxed())));
    }

    /// The keys that it was asked to delete, in the order of the requests.
    pub(crate) fn deleted(&self) -> Vec<String> {
        self.deleted.lock().unwrap().clone()
    }

    async fn happen(&self, on: On, key: &str) {
        let act = {
            let mut acts = self.acts.lock().unwrap();
            let fits = |(kind, part, ..): &(On, String, usize, Act)| *kind == on && key.contains(part.as_str());
            let mut due = None;
            for (place, act) in acts.iter_mut().enumerate().filter(|(_, act)| fits(act)) {
                act.2 -= 1;
                if act.2 == 0 {
                    due = Some(place);
                }
            }
            due.map(|place| acts.remove(place).3)
        };
        if let Some(act) = act {
            act().await;
        }
    }

    fn aged(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let ages = self.ages.lock().unwrap();
        let rule = ages.iter().find(|(part, _)| meta.location.as_ref().contains(part.as_str()));
        meta.last_modified = match rule.map_or(Some(MONTH), |(_, age)| *age) {
            Some(age) => meta.last_modified - age,
            None => std::time::UNIX_EPOCH.into(),
        };
        meta
    }

    fn shows(&self, key: &Path) -> bool {
        !self.hidden.lock().unwrap().iter().any(|part| key.as_ref().contains(part.as_str()))
    }

    fn on_listing(&self, place: &str) -> Option<Listing> {
        let listings = self.listings.lock().unwrap();
        listings.iter().find(|(end, _)| place.ends_with(end.as_str())).map(|(_, what)| *what)
    }

    fn fails_for_all(&self) -> bool {
        self.deletes.lock().unwrap().iter().any(|(_, what)| matches!(what, Deleting::FailsForAll))
    }

    /// What a delete is answered with; `None` when it is carried out.
    fn on_delete(&self, key: &Path) -> Option<Result<()>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner).push(key.to_string());
        let mut deletes = self.deletes.lock().unwrap();
        let (_, what) = deletes.iter_mut().find(|(part, _)| key.as_ref().contains(part.as_str()))?;
        match what {
            Deleting::IsPretended => Some(Ok(())),
            Deleting::Fails(times) if *times > 0 => {
                *times -= 1;
                Some(Err(broken("503 Slow Down")))
            }
            Deleting::Fails(_) | Deleting::FailsForAll => None,
        }
    }
}

impl fmt::Debug for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Troubles").finish_non_exhaustive()
    }
}

/// A store, and what is wrong with it.
#[derive(Clone)]
pub(crate) struct TroubledStore {
    inner: Arc<dyn ObjectStore>,
    troubles: Arc<Troubles>,
}

impl TroubledStore {
    pub(crate) fn around(inner: Arc<dyn ObjectStore>) -> (Arc<Self>, Arc<Troubles>) {
        let troubles = Arc::new(Troubles::default());
        (Arc::new(Self { inner, troubles: Arc::clone(&troubles) }), troubles)
    }
}

fn broken(reason: &'static str) -> Error {
    Error::Generic { store: "troubled", source: reason.into() }
}

fn missing(place: &str) -> Error {
    Error::NotFound { path: place.to_owned(), source: "there is no such folder".into() }
}

impl fmt::Debug for TroubledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Display for TroubledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for TroubledStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.troubles.happen(On::Reading, location.as_ref()).await;
        if self.troubles.unreadable.lock().unwrap().iter().any(|part| location.as_ref().contains(part.as_str())) {
            return Err(broken("the connection was reset"));
        }
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, troubles) = (Arc::clone(&self.inner), Arc::clone(&self.troubles));
        if troubles.fails_for_all() {
            let answer = async move {
                let locations: Vec<_> = locations.collect().await;
                match locations.len() {
                    1 => inner.delete_stream(futures::stream::iter(locations).boxed()),
                    _ => futures::stream::iter([Err(broken("500 Internal Error"))]).boxed(),
                }
            };
            return futures::stream::once(answer).flatten().boxed();
        }
        let delete = move |location: Result<Path>| {
            let (inner, troubles) = (Arc::clone(&inner), Arc::clone(&troubles));
            async move {
                let location = location?;
                troubles.happen(On::Deleting, location.as_ref()).await;
                match troubles.on_delete(&location) {
                    Some(answer) => answer?,
                    None => inner.delete(&location).await?,
                }
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (inner, troubles) = (Arc::clone(&self.inner), Arc::clone(&self.troubles));
        let place = prefix.cloned().unwrap_or_default();
        let listed = async move {
            troubles.happen(On::Listing, place.as_ref()).await;
            let (whole, error) = match troubles.on_listing(place.as_ref()) {
                None => (true, None),
                Some(Listing::Breaks) => (true, Some(broken("the connection was reset"))),
                Some(Listing::NotFound) => (false, Some(missing(place.as_ref()))),
                Some(Listing::Refused) => (false, Some(broken("503 Slow Down"))),
            };
            let objects = inner.list(Some(&place)).take(if whole { usize::MAX } else { 0 });
            let objects = objects.filter_map(move |object| {
                let object = match object {
                    Ok(meta) => troubles.shows(&meta.location).then(|| Ok(troubles.aged(meta))),
                    Err(error) => Some(Err(error)),
                };
                std::future::ready(object)
            });
            objects.chain(futures::stream::iter(error.map(Err)))
        };
        futures::stream::once(listed).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let place = prefix.cloned().unwrap_or_default();
        self.troubles.happen(On::Listing, place.as_ref()).await;
        match self.troubles.on_listing(place.as_ref()) {
            None => {}
            Some(Listing::NotFound) => return Err(missing(place.as_ref())),
            Some(Listing::Breaks | Listing::Refused) => return Err(broken("503 Slow Down")),
        }
        let mut listed = self.inner.list_with_delimiter(Some(&place)).await?;
        listed.objects.retain(|meta| self.troubles.shows(&meta.location));
        listed.objects = listed.objects.into_iter().map(|meta| self.troubles.aged(meta)).collect();
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.troubles.happen(On::Copying, from.as_ref()).await;
        self.inner.copy_opts(from, to, options).await
    }
}
