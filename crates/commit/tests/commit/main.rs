//! The exactly-once commit, on tiny tables: a SQLite catalog in a temporary folder, three rows a batch.

#![expect(clippy::unwrap_used, reason = "tests")]

mod concurrency;
mod contract;
mod faults;
mod ledgers;
mod lost_answers;
mod manifests;
mod overwriting;
mod refusals;
mod world;
