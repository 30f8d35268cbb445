//! Which system a text means, where its coordinates are, and what is refused.

#![expect(clippy::unwrap_used, reason = "tests")]

mod naming;
mod places;
mod refusals;
mod speed;

/// The rows of a table that `make.py` has made.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().map(|line| line.split('\t').collect())
}
