//! The pipeline: equal workers, one lock, and an order that depends on the input alone.
//!
//! Each worker takes the first of these that is possible:
//!
//! 1. *write* the next encoded row group in sequence (one worker at a time);
//! 2. *encode* a row group that is ready;
//! 3. *route* the next decoded piece in input order: append its rows to their partitions' buffers, and cut a row group
//!    when a buffer is full or all of them together are too large. This is cheap, and done under the lock;
//! 4. *decode* another piece of input, and derive what is derived from it, unless enough is waiting already.
//!
//! Decoding, deriving and encoding, which is nearly all of the work, happen in any order on any worker. Where row groups
//! and files begin and end is decided by routing and writing alone, which follow the order of the input. So the same input
//! gives the same bytes whatever the number of threads. Errors of the input are told in its order too.
//!
//! # Why it ends
//!
//! Every change of the state is made under the lock, by a worker that either has just been woken or wakes the others first:
//! nobody sleeps through work. As long as anything is decoded, cut or encoded, some worker can go on without more input: the
//! next piece to route and the next row group to write are each there or being made. Input is therefore taken whenever
//! nothing else is left, however full memory is. The first failure, a panic included, makes every worker stop after the task
//! at hand.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type, SchemaRef};
use arrow::row::Rows;
use hexfloe_batch::GeometrySummary;
use hexfloe_commit::{Keys, ParquetSettings, ROW_GROUP_ROWS};
use hexfloe_source::{Piece, Scan};
use iceberg::spec::{DataFile, Struct};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::file::writer::SerializedFileWriter;

use crate::Error;
use crate::encoding;
use crate::files::{FileFormat, FileSet, GeometryFormat, RowGroup};
use crate::job::Encodings;
use crate::keys::{KeyColumns, KeySet};
use crate::partition::{Partitioner, Routed};
use crate::place::RowPlaces;
use crate::progress::Progress;
use crate::rejects::{RejectSink, RejectedRows};
use crate::shape::{self, Shape};

/// What a run of the pipeline needs and does not change.
pub(crate) struct Plan<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) partitioner: &'a Partitioner,
    pub(crate) encodings: Encodings,
    /// What the table says of its files.
    pub(crate) parquet: ParquetSettings,
    pub(crate) cells: Vec<String>,
    /// The columns whose values are collected, each combination once.
    pub(crate) keys: Option<KeyColumns>,
    pub(crate) memory: usize,
    pub(crate) threads: usize,
    pub(crate) progress: &'a Progress,
}

/// What came of it.
pub(crate) struct Written {
    pub(crate) files: Vec<DataFile>,
    pub(crate) rows: u64,
    /// Rows left out for a better one with the same key.
    pub(crate) left_out: u64,
    /// Rows without a position.
    pub(crate) nowhere: u64,
    /// The keys that the plan asks for.
    pub(crate) keys: Option<Keys>,
    pub(crate) rejects: RejectSink,
}

/// Runs the input through; without `files` it is only looked at. On an error nothing of it is left.
pub(crate) fn run(scan: Scan, plan: &Plan<'_>, files: Option<FileSet>, rejects: RejectSink) -> Result<Written, Error> {
    let serial = scan.is_serial();
    let state = State {
        scan,
        serial,
        scan_done: false,
        next_piece: 0,
        decoding: 0,
        waiting_bytes: 0,
        decoded: BTreeMap::new(),
        next_route: 0,
        router: Router::new(plan.memory / 2, plan.parquet.row_group_bytes),
        queue: VecDeque::new(),
        encoding: 0,
        encoded: BTreeMap::new(),
        next_write: 0,
        writing: false,
        flushed: false,
        rejects,
        rows: 0,
        left_out: 0,
        nowhere: 0,
        keys: plan.keys.is_some().then(|| KeySet::new(plan.memory)),
        discard: files.is_none(),
        failed: None,
    };
    let shared = Shared { plan, state: Mutex::new(state), turn: Condvar::new(), files: Mutex::new(files) };
    std::thread::scope(|scope| {
        for _ in 1..plan.threads {
            scope.spawn(|| shared.work());
        }
        shared.work();
    });
    let Shared { state, files, .. } = shared;
    let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let files = files.into_inner().unwrap_or_else(PoisonError::into_inner);
    let State { rows, left_out, nowhere, rejects, keys, failed, .. } = state;
    let doomed = rejects.is_doomed();
    let checked = failed.map_or(Ok(()), Err).and_then(|()| match keys.zip(plan.keys.as_ref()) {
        _ if left_out != plan.shape.left_out() => Err(Error::Unrepeatable),
        Some((keys, columns)) if !doomed => keys.finish(columns).map(Some),
        _ => Ok(None),
    });
    let finished = match (checked, files) {
        (Ok(keys), Some(mut files)) if !doomed => match files.finish() {
            Ok(done) => Ok((keys, done)),
            Err(error) => {
                files.discard();
                Err(error)
            }
        },
        (checked, files) => {
            if let Some(files) = files {
                files.discard();
            }
            checked.map(|keys| (keys, Vec::new()))
        }
    };
    let (keys, files) = finished?;
    Ok(Written { files, rows, left_out: left_out as u64, nowhere, keys, rejects })
}

struct Shared<'a> {
    plan: &'a Plan<'a>,
    state: Mutex<State>,
    turn: Condvar,
    /// Only ever locked by the one worker that writes.
    files: Mutex<Option<FileSet>>,
}

struct State {
    scan: Scan,
    serial: bool,
    scan_done: bool,
    /// The index of the next piece of the scan.
    next_piece: u64,
    decoding: usize,
    /// Bytes of pieces that are decoded and not routed, and of row groups that are cut and not written.
    waiting_bytes: usize,
    decoded: BTreeMap<u64, Result<Shaped, Error>>,
    next_route: u64,
    router: Router,
    queue: VecDeque<Cut>,
    encoding: usize,
    encoded: BTreeMap<u64, Encoded>,
    next_write: u64,
    writing: bool,
    flushed: bool,
    rejects: RejectSink,
    rows: u64,
    left_out: usize,
    /// Rows without a position.
    nowhere: u64,
    keys: Option<KeySet>,
    /// Rows are counted and dropped.
    discard: bool,
    failed: Option<Error>,
}

/// A decoded piece, its rows those of the table.
struct Shaped {
    batches: Vec<Batch>,
    last: bool,
    input_bytes: u64,
    bytes: usize,
}

/// One batch of a piece.
struct Batch {
    routed: Vec<Routed>,
    rejected: RejectedRows,
    left_out: usize,
    nowhere: usize,
    keys: Option<(Rows, RowPlaces)>,
}

/// Rows that become one row group.
struct Cut {
    sequence: u64,
    partition: usize,
    values: Struct,
    batches: Vec<RecordBatch>,
    bytes: usize,
    format: Arc<Format>,
    /// No more rows of the partition are expected.
    ends_file: bool,
}

/// A row group that waits to be written.
struct Encoded {
    group: RowGroup,
    bytes: usize,
    format: Arc<Format>,
}

/// How rows are encoded, decided when the first are there.
struct Format {
    schema: SchemaRef,
    factory: ArrowRowGroupWriterFactory,
    file: FileFormat,
    /// The columns of geometries.
    geometries: Vec<usize>,
}

enum Task {
    Write(Encoded),
    Encode(Cut),
    Decode(Piece),
}

enum Done {
    Written(usize),
    Encoded(u64, Encoded, usize),
    Decoded(u64, Result<Shaped, Error>),
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            // A panic must neither leave the others waiting nor reach the caller.
            let next = catch_unwind(AssertUnwindSafe(|| state.next_task(self.plan)));
            match next.unwrap_or(Err(Error::Panicked)) {
                Ok(Some(task)) => {
                    drop(state);
                    let done = catch_unwind(AssertUnwindSafe(|| self.perform(task))).unwrap_or(Err(Error::Panicked));
                    state = self.lock();
                    match done {
                        Ok(done) => state.settle(done),
                        Err(error) => state.fail(error),
                    }
                    self.turn.notify_all();
                }
                Ok(None) if state.is_over() => {
                    self.turn.notify_all();
                    return;
                }
                Ok(None) => state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner),
                Err(error) => {
                    state.fail(error);
                    self.turn.notify_all();
                }
            }
        }
    }

    fn perform(&self, task: Task) -> Result<Done, Error> {
        match task {
            Task::Decode(piece) => {
                let index = piece.index();
                Ok(Done::Decoded(index, self.decode(piece)))
            }
            Task::Encode(cut) => {
                let (sequence, cut_bytes, format) = (cut.sequence, cut.bytes, Arc::clone(&cut.format));
                let group = encode(cut)?;
                let bytes = group.chunks.iter().map(|chunk| chunk.close().bytes_written).sum::<u64>();
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                Ok(Done::Encoded(sequence, Encoded { group, bytes, format }, cut_bytes))
            }
            Task::Write(Encoded { group, bytes, format }) => {
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(files) = files.as_mut() {
                    files.write(group, &format.file)?;
                }
                Ok(Done::Written(bytes))
            }
        }
    }

    fn decode(&self, piece: Piece) -> Result<Shaped, Error> {
        let decoded = piece.decode()?;
        let (last, input_bytes) = (decoded.last, decoded.bytes);
        let mut batches = Vec::new();
        let mut bytes = 0;
        for batch in decoded.batches {
            let shape::Shaped { rows, places, rejected, left_out, nowhere } = self.plan.shape.apply(batch)?;
            let keys = self.plan.keys.as_ref().map(|keys| Ok::<_, Error>((keys.of(&rows)?, places))).transpose()?;
            let routed = self.plan.partitioner.split(rows)?;
            bytes += keys.as_ref().map_or(0, |(keys, _)| keys.size());
            bytes += routed.iter().map(|routed| routed.bytes).sum::<usize>();
            batches.push(Batch { routed, rejected, left_out, nowhere, keys });
        }
        Ok(Shaped { batches, last, input_bytes, bytes })
    }
}

impl State {
    /// The next thing this worker can do; routing is done on the way.
    fn next_task(&mut self, plan: &Plan<'_>) -> Result<Option<Task>, Error> {
        loop {
            if self.failed.is_some() {
                return Ok(None);
            }
            if !self.writing
                && let Some(encoded) = self.encoded.remove(&self.next_write)
            {
                self.writing = true;
                return Ok(Some(Task::Write(encoded)));
            }
            if let Some(cut) = self.queue.pop_front() {
                self.encoding += 1;
                return Ok(Some(Task::Encode(cut)));
            }
            if let Some(shaped) = self.decoded.remove(&self.next_route) {
                self.next_route += 1;
                self.route(shaped?, plan)?;
                continue;
            }
            if self.may_decode(plan) {
                match self.scan.next_piece() {
                    Ok(Some(piece)) => {
                        self.next_piece = piece.index() + 1;
                        self.decoding += 1;
                        return Ok(Some(Task::Decode(piece)));
                    }
                    Ok(None) => self.scan_done = true,
                    Err(error) => {
                        // Told in its turn: an earlier piece may have something to say.
                        self.scan_done = true;
                        self.decoded.insert(self.next_piece, Err(error.into()));
                    }
                }
                continue;
            }
            if self.scan_done && self.decoding == 0 && self.decoded.is_empty() && !self.flushed {
                self.flushed = true;
                self.router.flush();
                self.collect_cuts();
                continue;
            }
            return Ok(None);
        }
    }

    fn may_decode(&self, plan: &Plan<'_>) -> bool {
        let waiting = self.decoding + self.decoded.len() + self.queue.len();
        let idle = waiting + self.encoding + self.encoded.len() == 0 && !self.writing;
        !self.scan_done
            && (!self.serial || self.decoding == 0)
            && waiting < plan.threads + 1
            && (idle || self.waiting_bytes < plan.memory / 4)
    }

    fn route(&mut self, shaped: Shaped, plan: &Plan<'_>) -> Result<(), Error> {
        self.waiting_bytes -= shaped.bytes;
        let mut rows = 0;
        for Batch { routed, rejected, left_out, nowhere, keys } in shaped.batches {
            rows += routed.iter().map(|routed| routed.rows.num_rows() as u64).sum::<u64>();
            rows += rejected.rows.len() as u64 + left_out as u64;
            self.left_out += left_out;
            self.nowhere += nowhere as u64;
            self.rows += routed.iter().map(|routed| routed.rows.num_rows() as u64).sum::<u64>();
            self.rejects.take(rejected)?;
            if self.rejects.is_doomed() && !self.discard {
                self.drop_rows();
            }
            if let (Some((keys, at)), Some(set), Some(columns), false) =
                (&keys, &mut self.keys, &plan.keys, self.rejects.is_doomed())
            {
                set.add(columns, keys, at, plan.shape.places())?;
            }
            if self.discard {
                continue;
            }
            if self.router.format.is_none() && !routed.is_empty() {
                let sample = concat_batches(plan.shape.schema(), routed.iter().map(|routed| &routed.rows));
                let sample = sample.map_err(Error::arrow("look at the first rows"))?;
                self.router.format = Some(Arc::new(Format::new(&sample, plan)?));
            }
            for routed in routed {
                self.router.append(routed);
            }
        }
        plan.progress.add(rows, shaped.input_bytes);
        if shaped.last {
            self.scan_done = true;
        }
        self.collect_cuts();
        Ok(())
    }

    /// From here on rows are only counted, and those on their way go nowhere: the batch is refused, and a table that was not
    /// made yet shall not be made for it.
    fn drop_rows(&mut self) {
        self.discard = true;
        self.router.clear();
        let queued = self.queue.drain(..).map(|cut| cut.bytes).sum::<usize>();
        let encoded = std::mem::take(&mut self.encoded).into_values().map(|encoded| encoded.bytes).sum::<usize>();
        self.waiting_bytes -= queued + encoded;
    }

    fn collect_cuts(&mut self) {
        for cut in self.router.cuts.drain(..) {
            self.waiting_bytes += cut.bytes;
            self.queue.push_back(cut);
        }
    }

    fn settle(&mut self, done: Done) {
        match done {
            Done::Written(bytes) => {
                self.writing = false;
                self.waiting_bytes -= bytes;
                self.next_write += 1;
            }
            Done::Encoded(sequence, encoded, cut_bytes) => {
                self.encoding -= 1;
                self.waiting_bytes -= cut_bytes;
                if !self.discard {
                    self.waiting_bytes += encoded.bytes;
                    self.encoded.insert(sequence, encoded);
                }
            }
            Done::Decoded(index, shaped) => {
                self.decoding -= 1;
                if let Ok(shaped) = &shaped {
                    self.waiting_bytes += shaped.bytes;
                    // Known at once, so that no further piece is taken.
                    self.scan_done |= shaped.last;
                }
                self.decoded.insert(index, shaped);
            }
        }
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    fn is_over(&self) -> bool {
        self.failed.is_some()
            || (self.flushed && self.queue.is_empty() && self.encoding == 0 && self.encoded.is_empty() && !self.writing)
    }
}

/// Rows waiting for their row group, by partition.
struct Router {
    /// Bytes of memory that all rows together may take.
    limit: usize,
    /// Bytes of values at which a row group ends.
    row_group_bytes: usize,
    partitions: HashMap<Box<[u8]>, usize>,
    buffers: Vec<Buffer>,
    /// Buffers that hold rows, by when they were last appended to.
    by_use: BTreeMap<u64, usize>,
    bytes: usize,
    clock: u64,
    /// Rows appended so far, of all partitions.
    seen: usize,
    sequence: u64,
    cuts: Vec<Cut>,
    format: Option<Arc<Format>>,
}

/// Input that comes in the order of its partitions leaves each of them behind. One that got nothing while so many rows went elsewhere
/// is taken for finished, and so is its file, if there is enough in it to be a file: memory then holds a few of them instead of all.
const IDLE_ROWS: usize = 4 * ROW_GROUP_ROWS;

#[derive(Default)]
struct Buffer {
    values: Option<Struct>,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    value_bytes: usize,
    last_used: u64,
    /// [`Router::seen`] when it was last appended to.
    last_seen: usize,
    /// Rows since its last file was ended.
    in_file: usize,
}

impl Router {
    fn new(limit: usize, row_group_bytes: usize) -> Self {
        Self {
            limit,
            row_group_bytes,
            partitions: HashMap::new(),
            buffers: Vec::new(),
            by_use: BTreeMap::new(),
            bytes: 0,
            clock: 0,
            seen: 0,
            sequence: 0,
            cuts: Vec::new(),
            format: None,
        }
    }

    fn append(&mut self, routed: Routed) {
        let Routed { key, values, mut rows, bytes, value_bytes } = routed;
        let partition = *self.partitions.entry(key).or_insert_with(|| {
            self.buffers.push(Buffer { values: Some(values), ..Buffer::default() });
            self.buffers.len() - 1
        });
        self.clock += 1;
        let before = self.seen;
        self.seen += rows.num_rows();
        self.buffers[partition].last_seen = self.seen;
        let bytes_per_row = bytes / rows.num_rows().max(1);
        let value_bytes_per_row = (value_bytes / rows.num_rows().max(1)).max(1);
        // A row group ends exactly where it is full, wherever batches end.
        while rows.num_rows() > 0 {
            let buffer = &mut self.buffers[partition];
            let room = self.row_group_bytes.saturating_sub(buffer.value_bytes).div_ceil(value_bytes_per_row).max(1);
            let room = room.min(ROW_GROUP_ROWS - buffer.rows).min(rows.num_rows());
            let head = rows.slice(0, room);
            rows = rows.slice(room, rows.num_rows() - room);
            buffer.rows += room;
            buffer.in_file += room;
            buffer.bytes += bytes_per_row * room;
            buffer.value_bytes += value_bytes_per_row * room;
            self.by_use.remove(&buffer.last_used);
            buffer.last_used = self.clock;
            self.by_use.insert(self.clock, partition);
            buffer.batches.push(head);
            self.bytes += bytes_per_row * room;
            if buffer.rows == ROW_GROUP_ROWS || buffer.value_bytes >= self.row_group_bytes {
                self.cut(partition, false);
            }
        }
        if before / ROW_GROUP_ROWS != self.seen / ROW_GROUP_ROWS {
            self.finish_idle();
        }
        while self.bytes > self.limit
            && let Some((_, &oldest)) = self.by_use.first_key_value()
        {
            self.cut(oldest, false);
        }
    }

    /// Ends the files of partitions that were left behind. One with few rows waits for more, or for the end.
    fn finish_idle(&mut self) {
        let is_idle = |buffer: &Buffer| self.seen - buffer.last_seen > IDLE_ROWS;
        let by_age = self.by_use.values().copied().take_while(|&partition| is_idle(&self.buffers[partition]));
        let idle: Vec<usize> = by_age.filter(|&partition| self.buffers[partition].in_file >= ROW_GROUP_ROWS).collect();
        for partition in idle {
            self.cut(partition, true);
            self.buffers[partition].in_file = 0;
        }
    }

    fn cut(&mut self, partition: usize, ends_file: bool) {
        let buffer = &mut self.buffers[partition];
        self.by_use.remove(&buffer.last_used);
        let Some(format) = self.format.clone() else { return };
        let values = buffer.values.clone().unwrap_or_else(Struct::empty);
        let batches = std::mem::take(&mut buffer.batches);
        let bytes = std::mem::take(&mut buffer.bytes);
        (buffer.rows, buffer.value_bytes) = (0, 0);
        self.bytes -= bytes;
        self.cuts.push(Cut { sequence: self.sequence, partition, values, batches, bytes, format, ends_file });
        self.sequence += 1;
    }

    /// Forgets all rows.
    fn clear(&mut self) {
        self.buffers.clear();
        self.partitions.clear();
        self.by_use.clear();
        self.cuts.clear();
        self.bytes = 0;
    }

    fn flush(&mut self) {
        for partition in 0..self.buffers.len() {
            if self.buffers[partition].rows > 0 {
                self.cut(partition, false);
            }
        }
    }
}

impl Format {
    fn new(sample: &RecordBatch, plan: &Plan<'_>) -> Result<Self, Error> {
        let schema = Arc::clone(plan.shape.schema());
        let descriptor = ArrowSchemaConverter::new().schema_root("table").convert(&schema)?;
        let properties = encoding::properties(sample, &plan.cells, plan.encodings, &plan.parquet);
        let root = descriptor.root_schema_ptr();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::clone(&root), Arc::clone(&properties))?;
        let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&schema));
        let geometries: Arc<[GeometryFormat]> = plan.shape.geometries().iter().map(GeometryFormat::of).collect();
        let found = geometries.iter().map(|geometry| schema.index_of(&geometry.name));
        let columns = found.collect::<Result<Vec<usize>, _>>().map_err(Error::arrow("find a geometry column"))?;
        Ok(Self { schema, factory, file: FileFormat { schema: root, properties, geometries }, geometries: columns })
    }
}

/// Encodes one column after the other, letting go of its rows as it is done.
fn encode(cut: Cut) -> Result<RowGroup, Error> {
    let Cut { partition, values, batches, format, ends_file, .. } = cut;
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
    let mut columns: Vec<std::vec::IntoIter<ArrayRef>> =
        batches.into_iter().map(|batch| batch.columns().to_vec().into_iter()).collect();
    let mut writers = format.factory.create_column_writers(0)?.into_iter();
    let mut chunks = Vec::new();
    let mut nans = BTreeMap::new();
    let mut summaries = vec![GeometrySummary::new(); format.geometries.len()];
    for (index, field) in format.schema.fields().iter().enumerate() {
        let mut leaves = Vec::new();
        for array in columns.iter_mut().filter_map(Iterator::next) {
            for (leaf, values) in compute_leaves(field, &array)?.into_iter().enumerate() {
                if leaf == leaves.len() {
                    leaves.extend(writers.next());
                }
                if let Some(writer) = leaves.get_mut(leaf) {
                    writer.write(&values)?;
                }
            }
            if let Some(count) = nan_count(&array)
                && let Some(id) = field.metadata().get(parquet::arrow::PARQUET_FIELD_ID_META_KEY)
                && let Ok(id) = id.parse::<i32>()
            {
                *nans.entry(id).or_default() += count;
            }
            if let Some(at) = format.geometries.iter().position(|geometry| *geometry == index)
                && let Some(geometries) = array.as_binary_view_opt()
            {
                summaries[at].update(geometries)?;
            }
        }
        for writer in leaves {
            chunks.push(writer.close()?);
        }
    }
    Ok(RowGroup { partition, values, chunks, rows, nans, geometries: summaries, ends_file })
}

/// NaNs in a column of floating point.
fn nan_count(array: &ArrayRef) -> Option<u64> {
    match array.data_type() {
        DataType::Float64 => Some(nans_of::<Float64Type>(array, f64::is_nan)),
        DataType::Float32 => Some(nans_of::<Float32Type>(array, f32::is_nan)),
        _ => None,
    }
}

fn nans_of<T: ArrowPrimitiveType>(array: &ArrayRef, is_nan: impl Fn(T::Native) -> bool) -> u64 {
    let array = array.as_primitive::<T>();
    let count = match array.null_count() {
        0 => array.values().iter().filter(|value| is_nan(**value)).count(),
        _ => array.iter().flatten().filter(|value| is_nan(*value)).count(),
    };
    count as u64
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn format(schema: &SchemaRef) -> Arc<Format> {
        let root = ArrowSchemaConverter::new().schema_root("table").convert(schema).unwrap().root_schema_ptr();
        let writer = SerializedFileWriter::new(Vec::new(), Arc::clone(&root), Arc::default()).unwrap();
        let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(schema));
        let file = FileFormat { schema: root, properties: Arc::default(), geometries: Arc::new([]) };
        Arc::new(Format { schema: Arc::clone(schema), factory, file, geometries: Vec::new() })
    }

    /// So many rows of a partition.
    fn routed(schema: &SchemaRef, partition: u8, rows: usize) -> Routed {
        let rows = RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(Int32Array::from(vec![0; rows]))]).unwrap();
        let bytes = rows.num_rows() * 4;
        Routed { key: Box::new([partition]), values: Struct::empty(), rows, bytes, value_bytes: bytes }
    }

    /// The row groups of pieces of partitions: partition, rows, and whether its file ends.
    fn cuts(pieces: &[(u8, usize)]) -> Vec<(usize, usize, bool)> {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]));
        let mut router = Router::new(usize::MAX, usize::MAX);
        router.format = Some(format(&schema));
        for &(partition, rows) in pieces {
            router.append(routed(&schema, partition, rows));
        }
        router.flush();
        let rows = |cut: &Cut| cut.batches.iter().map(RecordBatch::num_rows).sum();
        router.cuts.iter().map(|cut| (cut.partition, rows(cut), cut.ends_file)).collect()
    }

    #[test]
    fn a_partition_that_was_left_behind_is_finished() {
        let (full, some) = (ROW_GROUP_ROWS, 1_000);
        let elsewhere = [(1, full); 5];
        let cut = cuts(&[&[(0, full), (0, some)], &elsewhere[..], &[(0, some)]].concat());
        // It is finished before the last row group elsewhere is full, and begins anew.
        assert_eq!(cut[0], (0, full, false));
        assert_eq!(cut.iter().filter(|cut| cut.0 == 0 && cut.2).collect::<Vec<_>>(), [&(0, some, true)]);
        assert_eq!(cut.last(), Some(&(0, some, false)));
    }

    #[test]
    fn a_partition_with_few_rows_waits_for_more() {
        let elsewhere = [(1, ROW_GROUP_ROWS); 20];
        let cut = cuts(&[&[(0, 1_000)], &elsewhere[..], &[(0, 1_000)]].concat());
        assert_eq!(cut.iter().filter(|cut| cut.0 == 0).collect::<Vec<_>>(), [&(0, 2_000, false)]);
    }
}
