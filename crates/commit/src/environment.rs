//! The clock, the waiting and the ids, passed in.

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

/// What the commit loop takes from the world besides the catalog and the store.
///
/// Nothing it gives may reach the rows of a table: ids name files and snapshots, the clock dates snapshots, jitter
/// spreads retries.
#[async_trait]
pub trait Environment: Debug + Send + Sync {
    /// Milliseconds since 1970-01-01 UTC.
    fn now_ms(&self) -> i64;

    /// A fresh id, for file names: never given twice, by any process.
    fn uuid(&self) -> Uuid;

    /// A number in `0.0..1.0`, to spread the retries of rivals.
    fn jitter(&self) -> f64;

    /// Waits.
    async fn sleep(&self, time: Duration);

    /// The folder in which the attempts of this machine say that they are running (see [`announce`](crate::announce)); `None` where
    /// they do not.
    fn announcements(&self) -> Option<PathBuf> {
        None
    }
}

/// A shared environment.
pub type SharedEnvironment = Arc<dyn Environment>;
