//! Cleaning up small tables: a SQLite catalog in a temporary folder, over the local disk or memory, with a store around it
//! that misbehaves when it is told to.
//!
//! The cleaner does not look into data files, so that they hold a few bytes here, and snapshots are written by hand: with
//! the paths that a test is about.

#![expect(clippy::unwrap_used, reason = "tests")]

mod expiring;
mod large;
mod listing;
mod moving;
mod quarantine;
mod references;
mod removal;
mod spelling;
mod store;
mod world;
