//! Bringing back what a cleaner put into quarantine.

use futures::{StreamExt, TryStreamExt};
use hexfloe_store::{Error as StoreError, Location};
use serde::Serialize;

use crate::error::{Error, causes};
use crate::listing;
use crate::orphans::Cleaner;
use crate::removal::{CHUNK, origin};
use crate::report::Count;

/// How many files are brought back at once.
const CONCURRENT_COPIES: usize = 16;

/// What was brought back, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RestoreReport {
    /// The quarantine.
    pub quarantine: String,
    /// Whether it was done.
    pub applied: bool,
    /// Files in the quarantine.
    pub found: Count,
    /// Those that went back to where they were.
    pub restored: u64,
    /// Those whose place is taken; they stay in the quarantine.
    pub taken: u64,
    /// Those that do not say where they came from, or lie in another store; they stay.
    pub unknown: u64,
    /// Those that could not be brought back, with the reason.
    pub failed: Vec<String>,
}

impl Cleaner {
    /// Brings back what is in a quarantine, each file to where it was, unless there is one by now. A file leaves the
    /// quarantine when it is back.
    ///
    /// # Errors
    ///
    /// When the quarantine cannot be listed.
    pub async fn restore(&self, quarantine: &str, apply: bool) -> Result<RestoreReport, Error> {
        let place = Location::parse(quarantine)?;
        let mut report = RestoreReport { quarantine: place.to_string(), applied: apply, ..RestoreReport::default() };
        let mut files = Vec::new();
        let mut objects = listing::everything(self.store(), &place);
        while let Some(object) = objects.try_next().await? {
            report.found.add(object.size);
            let is_here =
                |origin: &Location| origin.family() == place.family() && origin.authority() == place.authority();
            match origin(&place, &object.key).filter(is_here) {
                Some(origin) => files.push((object.key, origin.to_string())),
                None => report.unknown += 1,
            }
        }
        files.sort_unstable();
        if !apply {
            return Ok(report);
        }
        for chunk in files.chunks(CHUNK) {
            let copies = futures::stream::iter(chunk.to_vec()).map(|(key, origin)| {
                let here = format!("{}://{}/{key}", place.scheme(), place.authority());
                async move {
                    let copied = match self.store().copy(&here, &origin).await {
                        Ok(()) => self.store().delete(&here).await,
                        Err(error) => Err(error),
                    };
                    (origin, copied)
                }
            });
            let copied: Vec<_> = copies.buffered(CONCURRENT_COPIES).collect().await;
            for (origin, copied) in copied {
                match copied {
                    Ok(()) => report.restored += 1,
                    Err(StoreError::Exists { .. }) => report.taken += 1,
                    Err(error) => report.failed.push(format!("{origin}: {}", causes(&error))),
                }
            }
        }
        Ok(report)
    }
}
