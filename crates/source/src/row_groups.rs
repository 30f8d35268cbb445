//! Parquet: one piece is one row group.
//!
//! The footers of all files are read when the scan is opened, so a file that is cut off or has other columns is refused before
//! the first row. A piece then takes one positioned read of its row group's bytes, and decodes from memory. A handle is shared by
//! the pieces of one file, but no offset is; a file is open from its first piece to its last.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::{Buf, Bytes};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{ChunkReader, Length};

use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::files::InputFile;
use crate::scan::{Decoded, Rejects, SerialReader, SourceBatch};
use crate::{parallel, text, types};

/// Parquet files with one schema, and how their columns become those of the batches.
pub(crate) struct ParquetFiles {
    files: Vec<(InputFile, usize)>,
    columns: Vec<Column>,
    schema: SchemaRef,
    rows: u64,
    batch_rows: usize,
}

struct Column {
    name: String,
    /// As the files have it, normalised.
    stored: DataType,
    change: Change,
}

pub(crate) enum Change {
    /// At most the metadata of fields inside a nested type.
    None,
    /// To a type that holds all values of this one.
    Widen,
    /// From text, where the job declares another type.
    Read,
}

/// The footer of one file: what there is to know before reading rows.
pub(crate) struct Footer {
    pub(crate) metadata: ArrowReaderMetadata,
}

impl Footer {
    /// Reads the footer of a file.
    pub(crate) fn read(input: &InputFile) -> Result<Self, Error> {
        Self::of(input, &Arc::new(input.open()?))
    }

    fn of(input: &InputFile, file: &Arc<File>) -> Result<Self, Error> {
        if input.size() == 0 {
            return Err(Error::unreadable(input.path(), "is empty (0 bytes), which is no Parquet file"));
        }
        let reader = Positioned { file: Arc::clone(file), size: input.size() };
        guarded(input, || {
            ArrowReaderMetadata::load(&reader, ArrowReaderOptions::new())
                .map(|metadata| Self { metadata })
                .map_err(|error| unreadable(input, "is no Parquet file, or is cut off", error))
        })
    }

    fn row_groups(&self) -> &[RowGroupMetaData] {
        self.metadata.metadata().row_groups()
    }

    /// The columns as batches carry them.
    fn columns(&self) -> Vec<Field> {
        self.metadata.schema().fields().iter().map(|field| types::carried(field)).collect()
    }

    /// The same footer, for reading the columns in the form in which batches carry them.
    fn normalised(self, input: &InputFile) -> Result<ArrowReaderMetadata, Error> {
        let fields = self.metadata.schema().fields().iter();
        let fields: Vec<Field> =
            fields.map(|field| field.as_ref().clone().with_data_type(types::normalised(field.data_type()))).collect();
        let schema = Schema::new_with_metadata(fields, self.metadata.schema().metadata().clone());
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        guarded(input, || {
            ArrowReaderMetadata::try_new(Arc::clone(self.metadata.metadata()), options)
                .map_err(|error| unreadable(input, "has a column that cannot be read", error))
        })
    }
}

impl ParquetFiles {
    pub(crate) fn open(
        files: &[InputFile],
        declared: &Declared,
        batch_rows: usize,
        threads: usize,
    ) -> Result<Self, Error> {
        let footers = parallel::map(files, threads, |file| {
            let footer = Footer::read(file)?;
            let rows = footer.row_groups().iter().try_fold(0_u64, |sum, group| {
                let rows = u64::try_from(group.num_rows()).ok()?;
                group_range(group, file.size())?;
                sum.checked_add(rows)
            });
            let rows = rows.ok_or_else(|| damaged(file))?;
            Ok((footer.columns(), footer.row_groups().len(), rows))
        })?;

        let mut fields: Vec<Field> = footers.first().map(|(columns, _, _)| columns.clone()).unwrap_or_default();
        let first = files.first().map_or("", InputFile::path);
        for (index, field) in fields.iter().enumerate() {
            if fields[..index].iter().any(|earlier| earlier.name() == field.name()) {
                let problem = format!("has two columns `{}`: which one is meant cannot be known", field.name());
                return Err(Error::unreadable(first, problem));
            }
        }
        for (file, (columns, _, _)) in files.iter().zip(&footers).skip(1) {
            agree(&mut fields, first, columns, file.path())?;
        }
        declared.check_columns(fields.iter().map(|field| field.name().as_str()), first)?;

        let mut columns = Vec::with_capacity(fields.len());
        for field in &mut fields {
            let stored = field.data_type().clone();
            let (target, change) = planned(field, declared, first)?;
            let nullable = field.is_nullable() || matches!(change, Change::Read);
            *field = field.clone().with_data_type(target).with_nullable(nullable);
            columns.push(Column { name: field.name().clone(), stored, change });
        }
        let rows = footers.iter().map(|(_, _, rows)| rows).fold(0_u64, |sum, rows| sum.saturating_add(*rows));
        let files = files.iter().cloned().zip(footers.into_iter().map(|(_, groups, _)| groups)).collect();
        let schema = Arc::new(Schema::new(fields));
        Ok(Self { files, columns, schema, rows, batch_rows: batch_rows.max(1) })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn row_groups(self) -> RowGroups {
        let groups = self.files.iter().map(|(_, groups)| *groups as u64).sum();
        RowGroups { plan: Arc::new(self), groups, next: 0, next_file: 0, current: None }
    }

    /// Decodes one batch of a file into the columns of the scan.
    fn convert(
        &self,
        open: &OpenFile,
        batch: &RecordBatch,
    ) -> Result<(RecordBatch, Vec<hexfloe_batch::Reject>), Error> {
        let mut rejects = Rejects::default();
        let mut columns = Vec::with_capacity(self.columns.len());
        for ((column, field), &place) in self.columns.iter().zip(self.schema.fields()).zip(&open.places) {
            let array = batch.column(place);
            let array = match column.change {
                Change::Read => {
                    let wanted = types::name_of(field.data_type());
                    let values = cast(array, &DataType::Utf8View, &open.input)?;
                    text::column(values.as_string_view().iter(), field.data_type(), b'.', &mut |row, value: &str| {
                        rejects.unparsable(row, &column.name, value, &wanted);
                    })
                }
                Change::None | Change::Widen => cast(array, field.data_type(), &open.input)?,
            };
            columns.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::unreadable(open.input.path(), one_line(&error)))?;
        Ok((batch, rejects.into_rows()))
    }
}

pub(crate) fn cast(array: &ArrayRef, to: &DataType, input: &InputFile) -> Result<ArrayRef, Error> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(|error| Error::unreadable(input.path(), one_line(&error)))
}

/// Checks that a file has the columns of the first, and joins what may differ: a column that is never null in one file and
/// may be in the other.
pub(crate) fn agree(fields: &mut [Field], first: &str, columns: &[Field], second: &str) -> Result<(), Error> {
    let differ = |column: &str, problem: String| {
        let (first, second) = (first.to_owned(), second.to_owned());
        Error::FilesDiffer { first, second, column: column.to_owned(), problem }
    };
    for field in fields.iter_mut() {
        let mut same_name = columns.iter().filter(|column| column.name() == field.name());
        let Some(other) = same_name.next() else {
            return Err(differ(field.name(), "is missing".to_owned()));
        };
        if same_name.next().is_some() {
            return Err(differ(field.name(), "is there twice".to_owned()));
        }
        if !field.data_type().equals_datatype(other.data_type()) {
            let (one, two) = (types::name_of(field.data_type()), types::name_of(other.data_type()));
            return Err(differ(field.name(), format!("is {one} in the first and {two} in the second")));
        }
        *field = field.clone().with_nullable(field.is_nullable() || other.is_nullable());
    }
    match columns.iter().find(|column| !fields.iter().any(|field| field.name() == column.name())) {
        Some(extra) => Err(differ(extra.name(), "is only in the second".to_owned())),
        None => Ok(()),
    }
}

/// The type a column gets, and how it gets there.
pub(crate) fn planned(field: &Field, declared: &Declared, file: &str) -> Result<(DataType, Change), Error> {
    let stored = field.data_type();
    if let Some(wanted) = declared.of_job(field.name()) {
        return match (stored, wanted) {
            // The unit stays that of the file.
            (DataType::Timestamp(_, None), DataType::Timestamp(_, None))
            | (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, Some(_)))
            | (DataType::Time32(_) | DataType::Time64(_), DataType::Time64(_)) => Ok((stored.clone(), Change::None)),
            _ if stored == wanted => Ok((stored.clone(), Change::None)),
            _ if types::widens(stored, wanted) => Ok((wanted.clone(), Change::Widen)),
            (DataType::Utf8View, _) => Ok((wanted.clone(), Change::Read)),
            _ => {
                let (stored, wanted) = (types::name_of(stored), types::name_of(wanted));
                let problem = format!(
                    "the column is {stored} in {file}, and not every {stored} is a {wanted}: declare a wider type, or convert \
                     it in a select"
                );
                Err(Error::setting(format!("source.schema.{}", field.name()), problem))
            }
        };
    }
    match declared.of_table(field.name()) {
        Some(wanted) if stored != wanted && types::widens(stored, wanted) => Ok((wanted.clone(), Change::Widen)),
        _ => Ok((stored.clone(), Change::None)),
    }
}

/// The row groups of all files, in order.
pub(crate) struct RowGroups {
    plan: Arc<ParquetFiles>,
    groups: u64,
    next: u64,
    next_file: usize,
    current: Option<Current>,
}

struct Current {
    open: Arc<OpenFile>,
    next_group: usize,
    first_row: u64,
}

struct OpenFile {
    input: InputFile,
    file: Arc<File>,
    metadata: ArrowReaderMetadata,
    /// The place in the file of each column of the scan.
    places: Vec<usize>,
}

impl OpenFile {
    fn new(input: &InputFile, columns: &[Column]) -> Result<Self, Error> {
        let file = Arc::new(input.open()?);
        let metadata = Footer::of(input, &file)?.normalised(input)?;
        let place_of = |column: &Column| metadata.schema().index_of(&column.name).map_err(|_| damaged(input));
        let places = columns.iter().map(place_of).collect::<Result<Vec<_>, _>>()?;
        for (column, place) in columns.iter().zip(&places) {
            if !column.stored.equals_datatype(metadata.schema().field(*place).data_type()) {
                return Err(damaged(input));
            }
        }
        Ok(Self { input: input.clone(), file, metadata, places })
    }
}

impl RowGroups {
    pub(crate) fn next(&mut self) -> Result<Option<RowGroup>, Error> {
        loop {
            if let Some(current) = &mut self.current {
                let groups = current.open.metadata.metadata().row_groups();
                if let Some(group) = groups.get(current.next_group) {
                    let rows = u64::try_from(group.num_rows()).map_err(|_| damaged(&current.open.input))?;
                    let piece = RowGroup {
                        plan: Arc::clone(&self.plan),
                        open: Arc::clone(&current.open),
                        group: current.next_group,
                        first_row: current.first_row,
                        rows,
                        index: self.next,
                        last: self.next + 1 == self.groups,
                    };
                    current.next_group += 1;
                    current.first_row += rows;
                    self.next += 1;
                    return Ok(Some(piece));
                }
                self.current = None;
            }
            match self.plan.files.get(self.next_file) {
                None => return Ok(None),
                Some((_, 0)) => self.next_file += 1,
                Some((input, _)) => {
                    let open = Arc::new(OpenFile::new(input, &self.plan.columns)?);
                    self.current = Some(Current { open, next_group: 0, first_row: 1 });
                    self.next_file += 1;
                }
            }
        }
    }
}

impl SerialReader for RowGroups {
    fn read(&mut self) -> Result<Decoded, Error> {
        match self.next()? {
            Some(group) => group.decode(),
            None => Ok(Decoded { batches: Vec::new(), last: true, bytes: 0 }),
        }
    }

    fn restart(&self) -> Option<Box<dyn SerialReader>> {
        Some(Box::new(Self { plan: Arc::clone(&self.plan), groups: self.groups, next: 0, next_file: 0, current: None }))
    }
}

/// One row group that has yet to be read.
pub(crate) struct RowGroup {
    plan: Arc<ParquetFiles>,
    open: Arc<OpenFile>,
    group: usize,
    first_row: u64,
    rows: u64,
    index: u64,
    last: bool,
}

impl RowGroup {
    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    pub(crate) fn decode(self) -> Result<Decoded, Error> {
        guarded(&self.open.input, || self.read())
    }

    fn read(&self) -> Result<Decoded, Error> {
        let input = &self.open.input;
        let wrong = |error: ParquetError| unreadable(input, "is damaged", error);
        let range = group_range(self.open.metadata.metadata().row_group(self.group), input.size());
        let reader = InMemory::read(&self.open, range.ok_or_else(|| damaged(input))?)?;
        let bytes = reader.bytes.len() as u64;
        let batches = ParquetRecordBatchReaderBuilder::new_with_metadata(reader, self.open.metadata.clone())
            .with_row_groups(vec![self.group])
            .with_batch_size(self.plan.batch_rows)
            .build()
            .map_err(wrong)?;
        let mut decoded = Vec::new();
        let mut rows = 0;
        for batch in batches {
            let batch = batch.map_err(|error| unreadable(input, "is damaged", error))?;
            let (batch, rejects) = self.plan.convert(&self.open, &batch)?;
            let first_row = self.first_row + rows;
            rows += batch.num_rows() as u64;
            decoded.push(SourceBatch {
                batch,
                file: Arc::clone(input.name()),
                first_row,
                layer: None,
                feature_ids: None,
                rejects,
            });
        }
        if rows != self.rows {
            let problem = format!("is damaged: row group {} has {rows} rows and should have {}", self.group, self.rows);
            return Err(Error::unreadable(input.path(), problem));
        }
        Ok(Decoded { batches: decoded, last: self.last, bytes })
    }
}

/// Where the bytes of a row group are; `None` if that is not within the file.
fn group_range(group: &RowGroupMetaData, size: u64) -> Option<Range<u64>> {
    let mut range: Option<Range<u64>> = None;
    for column in group.columns() {
        // Not `byte_range`: it panics on negative numbers, which a damaged footer may hold.
        let start = match column.dictionary_page_offset() {
            Some(dictionary) if dictionary < column.data_page_offset() => dictionary,
            _ => column.data_page_offset(),
        };
        let start = u64::try_from(start).ok()?;
        let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
        if end > size || u64::try_from(column.dictionary_page_offset().unwrap_or(0)).is_err() {
            return None;
        }
        range = Some(range.map_or(start..end, |range| range.start.min(start)..range.end.max(end)));
    }
    Some(range.unwrap_or(0..0))
}

/// Runs the Parquet reader over bytes that may be anything. On some damaged files (a single flipped byte will do) it indexes out
/// of bounds instead of returning an error; a bad file must not take the process with it.
fn guarded<T>(input: &InputFile, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // What was being built when it unwinds is dropped, and nothing else is changed.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(Error::unreadable(input.path(), "is damaged: the Parquet reader gave up on it")))
}

fn damaged(input: &InputFile) -> Error {
    Error::unreadable(input.path(), "is damaged: its footer contradicts the file")
}

/// An error of the Parquet reader: the operating system's, or the file's.
fn unreadable(input: &InputFile, what: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let error: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
    let error = match error.downcast::<ParquetError>() {
        Ok(parquet) => match *parquet {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(io) if io.kind() != io::ErrorKind::UnexpectedEof => return Error::io(input.path(), "read")(*io),
                Ok(io) => io,
                Err(other) => other,
            },
            other => Box::new(other),
        },
        Err(other) => other,
    };
    Error::unreadable(input.path(), format!("{what}: {}", one_line(&error)))
}

/// A file read at positions.
struct Positioned {
    file: Arc<File>,
    size: u64,
}

impl Length for Positioned {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Positioned {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(From { file: Arc::clone(&self.file), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.size) {
            return Err(beyond(start, length, self.size));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// What follows a position of a file.
struct From {
    file: Arc<File>,
    position: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

/// The bytes of one row group, addressed as in the file.
struct InMemory {
    start: u64,
    bytes: Bytes,
    size: u64,
}

impl InMemory {
    fn read(open: &OpenFile, range: Range<u64>) -> Result<Self, Error> {
        let length = usize::try_from(range.end - range.start).map_err(|_| damaged(&open.input))?;
        let mut bytes = vec![0; length];
        open.file.read_exact_at(&mut bytes, range.start).map_err(Error::io(open.input.path(), "read"))?;
        Ok(Self { start: range.start, bytes: bytes.into(), size: open.input.size() })
    }

    fn after(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let outside = || beyond(start, length, self.size);
        let from = usize::try_from(start.checked_sub(self.start).ok_or_else(outside)?).map_err(|_| outside())?;
        let end = from.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or_else(outside)?;
        Ok(self.bytes.slice(from..end))
    }
}

fn beyond(start: u64, length: usize, size: u64) -> ParquetError {
    ParquetError::EOF(format!("{length} bytes at {start} are not in the row group or file of {size} bytes"))
}

impl Length for InMemory {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for InMemory {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut rest = self.after(self.start, self.bytes.len())?;
        let skip = start.checked_sub(self.start).and_then(|skip| usize::try_from(skip).ok());
        match skip.filter(|skip| *skip <= rest.len()) {
            Some(skip) => {
                rest.advance(skip);
                Ok(rest.reader())
            }
            None => Err(beyond(start, 0, self.size)),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.after(start, length)
    }
}
