//! Listing a place with millions of objects.

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use hexfloe_store::{Location, Store, StoreObject};

use crate::error::Error;

/// How many parts of a place are listed at once.
const CONCURRENT_LISTINGS: usize = 16;

/// A folder with more folders in it is listed as one: it would cost a request for each.
const MOST_FOLDERS: usize = 256;

/// Objects that tell whether a place is made of folders: a store gives so many at once.
const SAMPLE: usize = 1_000;

/// How deep folders are looked for to list them side by side: `data` and `metadata`, then the first level of partitions.
const DEPTH: usize = 2;

/// Everything below a place, in no stated order. The listing is a stream of its own for each of its first folders, as a
/// store gives one listing page by page.
pub(crate) fn everything(store: &Store, place: &Location) -> BoxStream<'static, Result<StoreObject, Error>> {
    let (store, place) = (store.clone(), place.clone());
    futures::stream::once(async move {
        let (objects, folders) = split(&store, place).await?;
        let folders = futures::stream::iter(folders)
            .map(move |folder| store.scan(&folder).map_err(Error::from))
            .flatten_unordered(CONCURRENT_LISTINGS);
        Ok::<_, Error>(futures::stream::iter(objects.into_iter().map(Ok)).chain(folders))
    })
    .try_flatten()
    .boxed()
}

/// The objects in the upper folders of a place, and the folders that are left to be listed.
async fn split(store: &Store, place: Location) -> Result<(Vec<StoreObject>, Vec<Location>), Error> {
    let mut objects = Vec::new();
    let mut folders = vec![place];
    for _ in 0..DEPTH {
        let mut below = Vec::new();
        for folder in folders {
            if !is_of_folders(store, &folder).await? {
                below.push(folder);
                continue;
            }
            let found = store.folder(&folder).await?;
            if found.folders.len() > MOST_FOLDERS {
                below.push(folder);
                continue;
            }
            objects.extend(found.objects);
            for key in found.folders {
                below.push(Location::parse(&format!("{}://{}/{key}", folder.scheme(), folder.authority()))?);
            }
        }
        folders = below;
    }
    Ok((objects, folders))
}

/// Whether the first objects of a place are all in folders of it. Those that are not would have to be held all at once.
async fn is_of_folders(store: &Store, place: &Location) -> Result<bool, Error> {
    let below = if place.key().is_empty() { 0 } else { place.key().len() + 1 };
    let first: Vec<StoreObject> = store.scan(place).take(SAMPLE).try_collect().await?;
    // A table's location has a hint, or a file that somebody put there, beside its folders.
    let direct = first.iter().filter(|object| !object.key.get(below..).is_some_and(|rest| rest.contains('/'))).count();
    Ok(direct * 10 <= first.len())
}
