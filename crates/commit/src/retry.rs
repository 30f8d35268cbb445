//! How often and how fast an attempt is repeated, as the table's `commit.retry.*` properties say.

use std::collections::HashMap;
use std::time::Duration;

/// A capped exponential back-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// Tries after the first.
    pub(crate) retries: u32,
    min: Duration,
    max: Duration,
    total: Duration,
}

impl Backoff {
    /// Between attempts that lost to rivals. More retries than Iceberg's 4 when the table does not say: an attempt
    /// costs metadata only, and giving up costs the whole batch.
    pub(crate) fn for_conflicts(properties: &HashMap<String, String>) -> Self {
        Self {
            retries: number(properties, "commit.retry.num-retries", 20),
            min: millis(properties, "commit.retry.min-wait-ms", 100),
            max: millis(properties, "commit.retry.max-wait-ms", 60_000),
            total: millis(properties, "commit.retry.total-timeout-ms", 1_800_000),
        }
    }

    /// Between reloads that find out what became of a commit.
    pub(crate) fn for_status_checks(properties: &HashMap<String, String>) -> Self {
        Self {
            retries: number(properties, "commit.status-check.num-retries", 3),
            min: millis(properties, "commit.status-check.min-wait-ms", 1_000),
            max: millis(properties, "commit.status-check.max-wait-ms", 60_000),
            total: millis(properties, "commit.status-check.total-timeout-ms", 1_800_000),
        }
    }

    /// How long to wait before retry number `retry` (from 1), having waited `waited`; `None` to give up. `jitter` in
    /// `0.0..1.0` picks from the upper half of the interval, so that rivals do not meet again.
    pub(crate) fn wait(&self, retry: u32, waited: Duration, jitter: f64) -> Option<Duration> {
        if retry > self.retries || waited >= self.total {
            return None;
        }
        let full = self.min.saturating_mul(2_u32.saturating_pow(retry.saturating_sub(1))).min(self.max);
        Some(full.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0))
    }
}

fn number(properties: &HashMap<String, String>, name: &str, default: u32) -> u32 {
    properties.get(name).and_then(|value| value.trim().parse().ok()).unwrap_or(default)
}

fn millis(properties: &HashMap<String, String>, name: &str, default: u64) -> Duration {
    Duration::from_millis(properties.get(name).and_then(|value| value.trim().parse().ok()).unwrap_or(default))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_end() {
        let properties = HashMap::from(
            [
                ("commit.retry.num-retries", "3"),
                ("commit.retry.min-wait-ms", "100"),
                ("commit.retry.max-wait-ms", "300"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let backoff = Backoff::for_conflicts(&properties);
        let wait = |retry, jitter| backoff.wait(retry, Duration::ZERO, jitter);
        assert_eq!(wait(1, 0.0), Some(Duration::from_millis(50)));
        assert_eq!(wait(1, 1.0), Some(Duration::from_millis(100)));
        assert_eq!(wait(2, 1.0), Some(Duration::from_millis(200)));
        assert_eq!(wait(3, 1.0), Some(Duration::from_millis(300)));
        assert_eq!(wait(4, 1.0), None);
        assert_eq!(backoff.wait(1, Duration::from_secs(1_800), 0.0), None);
    }
}
