//! What the `hexfloe` binary promises, each promise as a test on a real lake, with other engines as judges.

#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod batches;
mod branches;
mod catalogs;
mod cities;
mod cleanup;
mod cleanup_crashes;
mod cleanup_dropped;
mod cleanup_foreign;
mod cleanup_refusals;
mod cleanup_snapshots;
mod concurrency;
mod crashes;
mod credentials;
mod derivations;
mod faults;
mod foreign;
mod geometry;
mod groups;
mod guarantee;
mod how_to;
mod inspect;
mod ledger;
mod memory;
mod modes;
mod notify;
mod other_engines;
mod partitions;
mod postgres;
mod quality;
mod refusals;
mod reports;
mod rest;
mod select;
mod sources;
mod space;
mod spatial;
mod together;
mod types;
mod verify;
mod wire;
