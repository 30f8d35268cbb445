//! What can go wrong with a batch as a whole. A bad *row* is no error: it is a [`Reject`](crate::Reject).

use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use crate::RejectReason;

/// A request that cannot be carried out; every message says what to change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Text that is no batch id.
    #[error("{value:?} is no batch id: give exactly 32 lower-case hexadecimal digits")]
    BatchId {
        /// The text.
        value: String,
    },
    /// Text that is no digest.
    #[error("{value:?} is no SHA-256 digest: give exactly 64 lower-case hexadecimal digits")]
    Digest {
        /// The text.
        value: String,
    },
    /// An offset range that runs backwards.
    #[error("the offsets {start}-{end} run backwards: give the smaller one first")]
    Offsets {
        /// The start.
        start: u64,
        /// The end.
        end: u64,
    },
    /// A resolution that does not exist.
    #[error("{value} is no H3 resolution: give a whole number from 0 to 15")]
    Resolution {
        /// What was given.
        value: String,
    },
    /// A cell column with a name that cannot be used.
    #[error("{column:?} cannot be the name of the cell column: {cause}; choose another name")]
    CellColumn {
        /// The name.
        column: String,
        /// What is wrong with it.
        cause: &'static str,
    },
    /// A parent that is not coarser than the cells.
    #[error("parent resolution {parent} is not coarser than resolution {resolution}: parents must be smaller numbers")]
    ParentNotCoarser {
        /// The parent's resolution.
        parent: u8,
        /// The cells' resolution.
        resolution: u8,
    },
    /// A parent that is asked for twice.
    #[error("parent resolution {parent} is listed twice: list each once")]
    ParentTwice {
        /// The parent's resolution.
        parent: u8,
    },
    /// A column that is not there.
    #[error("there is no column {column:?}: the columns are {}", list(available))]
    NoColumn {
        /// The column that was asked for.
        column: String,
        /// Those that are there.
        available: Vec<String>,
    },
    /// A name that several columns have.
    #[error("there are {count} columns named {column:?}: rename all but one")]
    AmbiguousColumn {
        /// The name.
        column: String,
        /// How many have it.
        count: usize,
    },
    /// One column that is to be both coordinates.
    #[error("column {column:?} cannot be latitude and longitude at once: name two columns")]
    OneColumnForBoth {
        /// The column.
        column: String,
    },
    /// A column whose type cannot hold what is wanted from it.
    #[error("column {column:?} has type {found}, which holds no {wanted}: {remedy}")]
    ColumnType {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// What was looked for.
        wanted: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// A row without a point where every row must have one.
    #[error("row {row} has no point: remove the rejected rows before the cells are derived")]
    NoPoint {
        /// The row.
        row: usize,
    },
    /// A row with a point that is none.
    #[error("row {row}: {reason}; take the points from `points`, which rejects such rows")]
    BadPoint {
        /// The row.
        row: usize,
        /// What is wrong with it.
        reason: RejectReason,
    },
    /// Bytes that are no geometry where every value must be one.
    #[error("row {row}: the geometry {problem}; take the geometries from `geometries`, which rejects such rows")]
    NoGeometry {
        /// The row.
        row: usize,
        /// What is wrong with it.
        problem: hexfloe_geometry::Problem,
    },
    /// Longitudes and latitudes that do not belong together.
    #[error("{lon} longitudes do not go with {lat} latitudes: give one of each for every row")]
    UnevenPoints {
        /// How many longitudes.
        lon: usize,
        /// How many latitudes.
        lat: usize,
    },
    /// More rows than a column with 32-bit offsets holds.
    #[error("{rows} rows are too many for one batch: split it into batches of at most {most} rows")]
    TooManyRows {
        /// How many rows.
        rows: usize,
        /// How many would do.
        most: usize,
    },
    /// A type whose values have no canonical form.
    #[error("column {column:?} has type {found}, which has no canonical form: cast it, or leave it out")]
    NoCanonicalForm {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
    },
    /// A batch whose schema is not the one the hasher was made for.
    #[error(
        "the rows changed shape: the first batch has {expected}, this one {found}; give every batch the same columns and types"
    )]
    SchemaChanged {
        /// The schema the hasher was made for.
        expected: String,
        /// The schema of the batch.
        found: String,
    },
    /// A derivation record that cannot be read.
    #[error(
        "the derivation record of the table cannot be read ({cause}): {json}; repair the table property, or write to another column"
    )]
    Record {
        /// What the parser says.
        cause: serde_json::Error,
        /// The property's value.
        json: String,
    },
    /// Arrow refused an operation on valid input.
    #[error("arrow refused: {0}")]
    Arrow(#[from] ArrowError),
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
