//! JSON objects to columns, for every format that has such: what the fields of all records hold, and records decoded into
//! exactly those types. [`scanner`] passes over JSON text that is too long to hold.

mod columns;
pub(crate) mod scanner;
mod shape;

pub(crate) use columns::{Block, Columns};
pub(crate) use shape::Shape;
