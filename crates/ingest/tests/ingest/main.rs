//! Whole ingests on real lakes: a SQLite catalog, a local warehouse, files in a temporary folder, and an environment
//! that gives the same ids every time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests: what cannot be is a failure")]

mod changed_input;
mod dedupe;
mod existing_tables;
mod failures;
mod faults;
mod geometry;
mod groups;
mod identity;
mod lake;
mod law;
mod metrics;
mod modes;
mod order;
mod partition_values;
mod races;
mod rejects;
mod row_groups;
mod table_properties;
mod types;
