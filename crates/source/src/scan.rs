//! A scan: pieces of input that become record batches.
//!
//! A piece is cheap to take and costs what decoding costs. Pieces of Parquet (row groups) are independent, so several
//! threads may decode at once and the caller puts the results back in the order of [`Piece::index`]. Text has to be read from
//! its beginning, and SQL has one result, so the pieces of those scans are decoded one after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use hexfloe_batch::{Reject, RejectReason};
use hexfloe_geometry::Problem;

use crate::error::Error;
use crate::row_groups::{RowGroup, RowGroups};

/// How to scan a source.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Types that win over inference, for example those of the existing table; what the job's `schema` says wins over these.
    /// Columns the source does not have are ignored. Formats that state their types, and the result of a `select`, are only
    /// ever widened to these (int to long); a column that would have to lose something keeps its own type.
    pub declared: Vec<Field>,
    /// The date of the run, `YYYY-MM-DD`: `$run_date` in a `select`.
    pub run_date: Option<String>,
    /// The most rows a batch may have.
    pub batch_rows: usize,
    /// Columns that the scan must have, such as those of the coordinates.
    pub columns_required: Vec<String>,
    /// How many threads may look at files at once while the scan is opened.
    pub threads: usize,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { declared: Vec::new(), run_date: None, batch_rows: 16_384, columns_required: Vec::new(), threads: 1 }
    }
}

/// An opened scan: one schema, and pieces in order.
pub struct Scan {
    schema: SchemaRef,
    estimated_rows: Option<u64>,
    pieces: Pieces,
}

enum Pieces {
    RowGroups(RowGroups),
    Serial { next: u64, shared: Arc<Serial> },
}

/// What the pieces of a serial scan share.
struct Serial {
    finished: AtomicBool,
    state: Mutex<SerialState>,
}

struct SerialState {
    next: u64,
    failed: bool,
    reader: Box<dyn SerialReader>,
}

/// A source of batches that has one position.
pub(crate) trait SerialReader: Send {
    /// The next batches. After the one that is marked as the last, this is not called again.
    fn read(&mut self) -> Result<Decoded, Error>;

    /// A reader of the same rows from the beginning; `None` if they can be had only once.
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "SQL may mention its input more than once"))]
    fn restart(&self) -> Option<Box<dyn SerialReader>>;
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan").field("schema", &self.schema).field("serial", &self.is_serial()).finish_non_exhaustive()
    }
}

impl Scan {
    pub(crate) fn serial(schema: SchemaRef, estimated_rows: Option<u64>, reader: Box<dyn SerialReader>) -> Self {
        let state = Mutex::new(SerialState { next: 0, failed: false, reader });
        let shared = Arc::new(Serial { finished: AtomicBool::new(false), state });
        Self { schema, estimated_rows, pieces: Pieces::Serial { next: 0, shared } }
    }

    pub(crate) fn row_groups(schema: SchemaRef, rows: u64, row_groups: RowGroups) -> Self {
        Self { schema, estimated_rows: Some(rows), pieces: Pieces::RowGroups(row_groups) }
    }

    /// The schema, and the rows in order as one reader; `None` if pieces have been taken already.
    #[cfg(feature = "sql")]
    pub(crate) fn into_reader(self) -> Option<(SchemaRef, Box<dyn SerialReader>)> {
        let reader: Box<dyn SerialReader> = match self.pieces {
            Pieces::RowGroups(row_groups) => Box::new(row_groups),
            Pieces::Serial { shared, .. } => Arc::into_inner(shared)?.state.into_inner().ok()?.reader,
        };
        Some((self.schema, reader))
    }

    /// The schema of every batch. Text is `Utf8View`, bytes are `BinaryView`, there are no dictionaries; the units of
    /// timestamps are those of the file.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether pieces must be decoded one at a time, in order. If not, any number may be decoded at once, and the caller puts
    /// the results in the order of their index.
    #[must_use]
    pub fn is_serial(&self) -> bool {
        matches!(self.pieces, Pieces::Serial { .. })
    }

    /// About how many rows there are, where that is known without reading them.
    #[must_use]
    pub fn estimated_rows(&self) -> Option<u64> {
        self.estimated_rows
    }

    /// The next piece, or `None` once there are no more. Cheap: the work is in [`Piece::decode`]. A serial scan knows its end
    /// only when the last piece has been decoded; a piece that was taken before that decodes to nothing.
    ///
    /// # Errors
    ///
    /// If a file cannot be opened, or is not the one that was found.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        let work = match &mut self.pieces {
            Pieces::RowGroups(row_groups) => row_groups.next()?.map(|group| Work::RowGroup(Box::new(group))),
            Pieces::Serial { next, shared } => {
                let index = *next;
                *next += 1;
                let finished = shared.finished.load(Ordering::Acquire);
                (!finished).then(|| Work::Serial { index, shared: Arc::clone(shared) })
            }
        };
        Ok(work.map(|work| Piece { work }))
    }
}

/// A part of the input that has yet to be decoded.
pub struct Piece {
    work: Work,
}

enum Work {
    RowGroup(Box<RowGroup>),
    Serial { index: u64, shared: Arc<Serial> },
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Piece").field("index", &self.index()).finish_non_exhaustive()
    }
}

impl Piece {
    /// The place of the piece in the input, counted from 0.
    #[must_use]
    pub fn index(&self) -> u64 {
        match &self.work {
            Work::RowGroup(group) => group.index(),
            Work::Serial { index, .. } => *index,
        }
    }

    /// Reads and decodes the piece.
    ///
    /// # Errors
    ///
    /// If the input cannot be read as its format or has changed; if pieces of a serial scan are decoded out of order.
    pub fn decode(self) -> Result<Decoded, Error> {
        match self.work {
            Work::RowGroup(group) => group.decode(),
            Work::Serial { index, shared } => shared.decode(index),
        }
    }
}

impl Serial {
    fn decode(&self, index: u64) -> Result<Decoded, Error> {
        let refuse = |problem| Error::OutOfOrder { index, problem };
        let mut state = self.state.lock().map_err(|_| refuse("an earlier piece panicked"))?;
        if state.failed {
            return Err(refuse("an earlier piece failed"));
        }
        if state.next != index {
            return Err(refuse("pieces of a serial scan are decoded one after the other"));
        }
        state.next += 1;
        if self.finished.load(Ordering::Acquire) {
            return Ok(Decoded { batches: Vec::new(), last: true, bytes: 0 });
        }
        let decoded = state.reader.read();
        match &decoded {
            Ok(decoded) if decoded.last => self.finished.store(true, Ordering::Release),
            Ok(_) => {}
            Err(_) => state.failed = true,
        }
        decoded
    }
}

/// What a piece became.
#[derive(Debug)]
pub struct Decoded {
    /// The batches, in order. There may be none.
    pub batches: Vec<SourceBatch>,
    /// Whether this was the last piece.
    pub last: bool,
    /// How many bytes of input it took.
    pub bytes: u64,
}

/// Consecutive rows of one file.
#[derive(Debug)]
pub struct SourceBatch {
    /// The rows, those that are rejected too.
    pub batch: RecordBatch,
    /// The file they come from, as [`InputFile::path`](crate::InputFile::path) names it; `select` for the result of SQL.
    pub file: Arc<str>,
    /// The number of the first row in that file, counted from 1 and without the header.
    pub first_row: u64,
    /// The layer of the file, where it has layers.
    pub layer: Option<Arc<str>>,
    /// What the file calls each row (the `id` of a feature, `fid` of a GeoPackage), where it does: integers or text, one a row.
    pub feature_ids: Option<ArrayRef>,
    /// Rows with a value that could not be read. The value is null in `batch`. At most one for each row, in row order.
    pub rejects: Vec<Reject>,
}

/// Collects rejects column by column and yields them row by row: the first unreadable column of a row is its reason.
#[derive(Default)]
pub(crate) struct Rejects(Vec<Reject>);

impl Rejects {
    /// A value that cannot be read as `wanted`. A long value is cut: the reason is for people.
    pub(crate) fn unparsable(&mut self, row: usize, column: &str, value: &str, wanted: &str) {
        const LONGEST: usize = 100;
        let value = match value.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &value[..end]),
            None => value.to_owned(),
        };
        let reason = RejectReason::Unparsable { column: column.to_owned(), value, wanted: wanted.to_owned() };
        self.0.push(Reject { row, reason });
    }

    /// A geometry that is none.
    pub(crate) fn geometry(&mut self, row: usize, problem: Problem) {
        self.0.push(Reject { row, reason: problem.into() });
    }

    pub(crate) fn into_rows(mut self) -> Vec<Reject> {
        self.0.sort_by_key(|reject| reject.row); // stable: columns stay in order within a row
        self.0.dedup_by_key(|reject| reject.row);
        self.0
    }
}
