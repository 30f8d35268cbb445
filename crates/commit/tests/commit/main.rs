//! The exactly-once commit, on tiny tables: a SQLite catalog in a temporary folder, three rows a batch.

#![expect(clippy::unwrap_used, reason = "tests")]

mod branches;
mod concurrency;
mod contract;
mod deletes;
mod expiry;
mod faults;
mod groups;
mod ledgers;
mod lost_answers;
mod manifests;
mod model;
mod notices;
mod overwriting;
mod refusals;
mod replacing;
mod together;
mod version_3;
mod world;
