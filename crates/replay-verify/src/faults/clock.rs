//! A clock that is wrong.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use hexfloe_commit::{Environment, SharedEnvironment};
use uuid::Uuid;

/// An environment whose clock is off; everything else is as in the one it is around.
#[derive(Clone, Debug)]
pub struct SkewedClock {
    inner: SharedEnvironment,
    offset_ms: i64,
}

impl SkewedClock {
    /// The clock of `inner`, ahead by `offset_ms` (behind, when negative).
    pub fn new(inner: SharedEnvironment, offset_ms: i64) -> Self {
        Self { inner, offset_ms }
    }
}

#[async_trait]
impl Environment for SkewedClock {
    fn now_ms(&self) -> i64 {
        self.inner.now_ms().saturating_add(self.offset_ms)
    }

    fn uuid(&self) -> Uuid {
        self.inner.uuid()
    }

    fn jitter(&self) -> f64 {
        self.inner.jitter()
    }

    async fn sleep(&self, time: Duration) {
        self.inner.sleep(time).await;
    }

    fn announcements(&self) -> Option<PathBuf> {
        self.inner.announcements()
    }
}
