//! The one place that takes clock, randomness and waiting from the system.
#![expect(clippy::disallowed_methods, reason = "this is where they are taken from, for everybody")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use hexfloe_commit::{Environment, SharedEnvironment};
use uuid::Uuid;

#[derive(Debug)]
struct System;

/// The system's clock, random ids, real waiting.
pub(crate) fn system() -> SharedEnvironment {
    Arc::new(System)
}

#[async_trait]
impl Environment for System {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn jitter(&self) -> f64 {
        let bits = u32::try_from(Uuid::new_v4().as_u128() & 0xffff_ffff).unwrap_or(0);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn announcements(&self) -> Option<PathBuf> {
        Some(std::env::temp_dir().join("hexfloe-attempts"))
    }
}
