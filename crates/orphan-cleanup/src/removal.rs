//! Taking files away, with a result for each.

use std::collections::HashMap;
use std::time::Duration;

use hexfloe_commit::SharedEnvironment;
use hexfloe_store::{Location, Store};

use crate::error::{Error, Refusal, causes};
use crate::report::{Fate, FileRecord};

/// Files that are removed with one look at the table: as many as a store deletes in one request.
pub(crate) const CHUNK: usize = 1_000;

/// How often a file is tried, and how long is waited after the first time; then twice as long each time.
const TRIES: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// How many files are copied at once.
const CONCURRENT_COPIES: usize = 16;

/// What is done with files that have to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Disposal {
    /// They are deleted.
    #[default]
    Delete,
    /// They are copied below this location, within the store, and then deleted. [`Cleaner::restore`](crate::Cleaner::restore) brings them back.
    Quarantine(String),
    /// They stay, and get this tag in place of those they have: for lifecycle rules of the bucket. S3 only.
    Tag {
        /// The tag's name.
        key: String,
        /// Its value.
        value: String,
    },
}

/// Takes files away.
#[derive(Clone, Debug)]
pub(crate) struct Removal {
    pub(crate) store: Store,
    pub(crate) environment: SharedEnvironment,
    quarantine: Option<Location>,
    tag: Option<(String, String)>,
}

impl Removal {
    pub(crate) fn new(store: Store, environment: SharedEnvironment, disposal: &Disposal) -> Result<Self, Error> {
        let (mut quarantine, mut tag) = (None, None);
        match disposal {
            Disposal::Delete => {}
            Disposal::Quarantine(place) => quarantine = Some(Location::parse(place)?),
            Disposal::Tag { key, value } => tag = Some((key.clone(), value.clone())),
        }
        Ok(Self { store, environment, quarantine, tag })
    }

    /// Refuses a quarantine that would itself be cleaned, or that lies in another store.
    pub(crate) fn check(&self, table: &str, places: &[Location]) -> Result<(), Error> {
        if self.tag.is_some()
            && let Some(place) = places.iter().find(|place| place.family() != "s3")
        {
            return Err(Error::Options(format!("only objects of S3 have tags, and {place} is in another store")));
        }
        self.check_place(table, places)?;
        let Some(quarantine) = &self.quarantine else { return Ok(()) };
        for place in places {
            if quarantine.family() != place.family() || quarantine.authority() != place.authority() {
                return Err(Error::Options(format!(
                    "the quarantine {quarantine} is in another store than {place}: files are copied within one only"
                )));
            }
        }
        Ok(())
    }

    /// Refuses a quarantine in a place that is cleaned, now or another time.
    pub(crate) fn check_place(&self, table: &str, places: &[Location]) -> Result<(), Error> {
        let Some(quarantine) = &self.quarantine else { return Ok(()) };
        let meets =
            |place: &&Location| quarantine == *place || place.contains(quarantine) || quarantine.contains(place);
        match places.iter().find(meets) {
            Some(place) => {
                let refusal = Refusal::Quarantine { quarantine: quarantine.to_string(), location: place.to_string() };
                Err(Error::refused(table, refusal))
            }
            None => Ok(()),
        }
    }

    /// Whether files are gone when they have been dealt with.
    pub(crate) fn removes(&self) -> bool {
        self.tag.is_none()
    }

    /// Deals with files; gives each, in their order, with its fate.
    pub(crate) async fn take(&self, mut files: Vec<FileRecord>) -> Vec<FileRecord> {
        let locations = files.iter().map(|record| record.file.clone()).collect();
        let results = match &self.tag {
            Some((key, value)) => self.store.tag_all(locations, key, value).await,
            None => self.remove(locations).await,
        };
        let results: HashMap<String, Result<(), hexfloe_store::Error>> = results.into_iter().collect();
        for record in &mut files {
            record.fate = match results.get(&record.file) {
                Some(Ok(())) if self.removes() => Fate::Removed,
                Some(Ok(())) => Fate::Tagged,
                Some(Err(error)) => Fate::Failed { error: causes(error) },
                None => Fate::Failed { error: "the store gave no result".to_owned() },
            };
        }
        files
    }

    /// Takes files away; gives each with what came of it. What failed is tried again, later each time.
    async fn remove(&self, locations: Vec<String>) -> Vec<(String, Result<(), hexfloe_store::Error>)> {
        let (mut waiting, mut results) = match &self.quarantine {
            None => (locations, Vec::new()),
            Some(quarantine) => self.copied(quarantine, locations).await,
        };
        let mut wait = FIRST_WAIT;
        for attempt in 1..=TRIES {
            let last = attempt == TRIES;
            let mut failed = Vec::new();
            for (location, result) in self.store.delete_all(std::mem::take(&mut waiting)).await {
                match result {
                    Err(error) if !last && !error.is_configuration() => failed.push((location, error)),
                    result => results.push((location, result)),
                }
            }
            if failed.is_empty() {
                break;
            }
            waiting = failed.into_iter().map(|(location, _)| location).collect();
            self.environment.sleep(wait).await;
            wait *= 2;
        }
        results
    }

    /// Copies files into the quarantine: those that may be deleted now, and those that could not be copied.
    async fn copied(
        &self,
        quarantine: &Location,
        locations: Vec<String>,
    ) -> (Vec<String>, Vec<(String, Result<(), hexfloe_store::Error>)>) {
        use futures::StreamExt;

        let copies = futures::stream::iter(locations).map(|location| async move {
            let copied = self.copy(quarantine, &location).await;
            (location, copied)
        });
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (location, copied) in copies.buffered(CONCURRENT_COPIES).collect::<Vec<_>>().await {
            match copied {
                Ok(true) => done.push(location),
                // Somebody else took it away.
                Ok(false) => failed.push((location, Ok(()))),
                Err(error) => failed.push((location, Err(error))),
            }
        }
        (done, failed)
    }

    /// Copies one file; says whether it is there to be deleted.
    async fn copy(&self, quarantine: &Location, location: &str) -> Result<bool, hexfloe_store::Error> {
        let source = Location::parse(location)?;
        // A local file that was never finished is no use to anybody, and stores do not copy it.
        let name = source.key().rsplit('/').next().unwrap_or_default();
        if source.family() == "file" && crate::names::finished(name) != name {
            return Ok(true);
        }
        let target = quarantined(quarantine, &source)?.to_string();
        match self.store.copy(location, &target).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            // An earlier run got this far.
            Err(hexfloe_store::Error::Exists { .. }) => {}
            Err(error) => return Err(error),
        }
        let written = match self.store.size(location).await {
            Ok(size) => size,
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        };
        let found = self.store.size(&target).await?;
        if written != found {
            return Err(hexfloe_store::Error::Mismatch { location: target, written, found });
        }
        Ok(true)
    }
}

/// Where a file goes in the quarantine: `<quarantine>/<scheme>/<authority or ->/<key>`.
pub(crate) fn quarantined(quarantine: &Location, file: &Location) -> Result<Location, hexfloe_store::Error> {
    let authority = if file.authority().is_empty() { "-" } else { file.authority() };
    quarantine.join(&format!("{}/{authority}/{}", file.scheme(), file.key()))
}

/// Where a file in the quarantine came from.
pub(crate) fn origin(quarantine: &Location, key: &str) -> Option<Location> {
    let below = match quarantine.key() {
        "" => key,
        place => key.strip_prefix(place)?.strip_prefix('/')?,
    };
    let (scheme, rest) = below.split_once('/')?;
    let (authority, key) = rest.split_once('/')?;
    let authority = if authority == "-" { "" } else { authority };
    Location::parse(&format!("{scheme}://{authority}/{key}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_the_quarantine_says_where_it_came_from() {
        for (quarantine, file) in [
            ("s3://lake/quarantine", "s3a://lake/t/data/x=a b/1.parquet"),
            ("file:///q", "/lake/t/data/%20.parquet"),
            ("s3://lake", "s3://lake/t/a"),
        ] {
            let (quarantine, file) = (Location::parse(quarantine).unwrap(), Location::parse(file).unwrap());
            let there = quarantined(&quarantine, &file).unwrap();
            assert!(quarantine.contains(&there));
            let back = origin(&quarantine, there.key()).unwrap();
            assert_eq!(back.to_string(), file.to_string());
        }
        assert!(origin(&Location::parse("s3://lake/q").unwrap(), "other/s3/lake/a").is_none());
    }
}
