//! NDJSON: one JSON object a line.
//!
//! A first pass over all files finds the fields and their types, and that every line is JSON. The second pass decodes with
//! `arrow-json`, into exactly the types that hold every value. A column that is declared as something else is read as text (a
//! number keeps its digits as they are written) and converted as a CSV field would be, because the JSON reader itself is
//! generous: it would cut 1.5 down to the integer 1.

mod shape;

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_json::ReaderBuilder;

use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::files::{CHUNK, InputFile, Sequential};
use crate::scan::{Decoded, Rejects, SerialReader, SourceBatch};
use crate::{text, types};

use shape::Shape;

/// The most bytes one record may have.
const LONGEST_RECORD: usize = 16 << 20;

/// The most bytes of text that are held for one batch.
const LARGEST_BATCH: usize = 16 << 20;

/// NDJSON files with the types of their columns known.
pub(crate) struct NdjsonReader {
    files: Vec<InputFile>,
    /// As the JSON reader makes them.
    read: SchemaRef,
    /// As batches carry them: the same, or converted from text.
    schema: SchemaRef,
    rows: u64,
    batch_rows: usize,
    next_file: usize,
    current: Option<OpenFile>,
}

struct OpenFile {
    input: InputFile,
    lines: Lines,
    rows: u64,
}

impl NdjsonReader {
    pub(crate) fn open(files: &[InputFile], declared: &Declared, batch_rows: usize) -> Result<Self, Error> {
        let mut shape = Shape::default();
        let mut rows = 0;
        for file in files {
            let mut lines = Lines::open(file)?;
            while let Some((record, line)) = lines.next()? {
                shape.see(record).map_err(|problem| {
                    let problem = format!("{problem}; each line must be one JSON object, all of them alike");
                    Error::record(file.path(), line, problem)
                })?;
                rows += 1;
            }
        }
        let first = files.first().map_or("", InputFile::path);
        if rows == 0 && declared.job_columns().next().is_none() {
            let problem = "holds no record, so there are no columns: check whether the input has arrived, or declare the \
                           columns in [source.schema]";
            return Err(Error::unreadable(first, problem));
        }
        let mut read = Vec::new();
        let mut fields = Vec::new();
        for (name, shape) in shape.fields() {
            let (from, to) = planned(name, shape, declared, first)?;
            read.push(Field::new(name, from, true));
            fields.push(Field::new(name, to, true));
        }
        for (name, data_type) in declared.job_columns() {
            if !fields.iter().any(|field| field.name() == name) {
                read.push(Field::new(name, DataType::Utf8View, true));
                fields.push(Field::new(name, data_type.clone(), true));
            }
        }
        Ok(Self {
            files: files.to_vec(),
            read: Arc::new(Schema::new(read)),
            schema: Arc::new(Schema::new(fields)),
            rows,
            batch_rows: batch_rows.max(1),
            next_file: 0,
            current: None,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }
}

/// The type as which a column is read, and the type it gets.
fn planned(name: &str, shape: &Shape, declared: &Declared, file: &str) -> Result<(DataType, DataType), Error> {
    let inferred = shape.data_type(name).map_err(|path| {
        let problem = format!("`{path}` holds nothing but empty objects, which no column can hold: remove the field");
        Error::unreadable(file, problem)
    })?;
    let Some(wanted) = declared.type_of(name).and_then(types::readable_as) else {
        return Ok((inferred.clone(), inferred));
    };
    let Some(scalars) = shape.scalars() else {
        // The table's type for a nested column is for the table to say.
        return match declared.of_job(name) {
            None => Ok((inferred.clone(), inferred)),
            Some(_) => {
                let wanted = types::name_of(&wanted);
                let problem =
                    format!("{wanted} is declared, but the column holds objects or lists: leave it undeclared");
                Err(Error::setting(format!("source.schema.{name}"), problem))
            }
        };
    };
    let exact = !scalars.is_empty()
        && (inferred == wanted || (wanted == DataType::Float64 && scalars == crate::infer::Kinds::INTEGER));
    Ok((if exact { wanted.clone() } else { DataType::Utf8View }, wanted))
}

impl SerialReader for NdjsonReader {
    fn read(&mut self) -> Result<Decoded, Error> {
        let mut bytes = 0;
        loop {
            let mut open = match self.current.take() {
                Some(open) => open,
                None => match self.files.get(self.next_file) {
                    None => return Ok(Decoded { batches: Vec::new(), last: true, bytes }),
                    Some(input) => {
                        self.next_file += 1;
                        OpenFile { input: input.clone(), lines: Lines::open(input)?, rows: 0 }
                    }
                },
            };
            let before = open.lines.consumed;
            let mut block = Block::default();
            let mut more = true;
            while block.records.len() < self.batch_rows && block.text.len() < LARGEST_BATCH {
                match open.lines.next()? {
                    Some((record, line)) => block.push(record, line),
                    None => {
                        more = false;
                        break;
                    }
                }
            }
            bytes += open.lines.consumed - before;
            let batch = if block.records.is_empty() { None } else { Some(self.convert(&open, &block)?) };
            open.rows += block.records.len() as u64;
            if more {
                self.current = Some(open);
            }
            let last = !more && self.next_file == self.files.len();
            if batch.is_some() || last {
                return Ok(Decoded { batches: batch.into_iter().collect(), last, bytes });
            }
        }
    }

    fn restart(&self) -> Option<Box<dyn SerialReader>> {
        Some(Box::new(Self {
            files: self.files.clone(),
            read: Arc::clone(&self.read),
            schema: Arc::clone(&self.schema),
            next_file: 0,
            current: None,
            ..*self
        }))
    }
}

impl NdjsonReader {
    fn convert(&self, open: &OpenFile, block: &Block) -> Result<SourceBatch, Error> {
        let file = open.input.path();
        let batch = match self.decode(&block.text, block.records.len()) {
            Ok(batch) => batch,
            Err(error) => return Err(self.first_unreadable(file, block, &error)),
        };
        let mut rejects = Rejects::default();
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (array, field) in batch.columns().iter().zip(self.schema.fields()) {
            columns.push(if array.data_type() == field.data_type() {
                Arc::clone(array)
            } else {
                let wanted = types::name_of(field.data_type());
                let values = array.as_string_view().iter();
                text::column(values, field.data_type(), b'.', &mut |row, value: &str| {
                    rejects.unparsable(row, field.name(), value, &wanted);
                })
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::unreadable(file, one_line(&error)))?;
        let (file, first_row) = (Arc::clone(open.input.name()), open.rows + 1);
        Ok(SourceBatch { batch, file, first_row, layer: None, feature_ids: None, rejects: rejects.into_rows() })
    }

    fn decode(&self, text: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
        let builder = ReaderBuilder::new(Arc::clone(&self.read)).with_batch_size(rows).with_coerce_primitive(true);
        let mut decoder = builder.build_decoder()?;
        let read = decoder.decode(text)?;
        let batch = if decoder.has_partial_record() { None } else { decoder.flush()? };
        match batch {
            // Only blanks may be left: the decoder stops when it has its rows.
            Some(batch) if batch.num_rows() == rows && text[read..].iter().all(u8::is_ascii_whitespace) => Ok(batch),
            _ => Err(ArrowError::JsonError("not one record a line".to_owned())),
        }
    }

    /// The record that the JSON reader stumbled over: it does not say which.
    fn first_unreadable(&self, file: &str, block: &Block, error: &ArrowError) -> Error {
        for (index, (start, line)) in block.records.iter().enumerate() {
            let end = block.records.get(index + 1).map_or(block.text.len(), |(next, _)| *next);
            if let Err(error) = self.decode(&block.text[*start..end], 1) {
                return Error::record(file, *line, one_line(&error));
            }
        }
        Error::unreadable(file, one_line(error))
    }
}

/// Consecutive records: their text, and where and on which line of the file each begins.
#[derive(Default)]
struct Block {
    text: Vec<u8>,
    records: Vec<(usize, u64)>,
}

impl Block {
    fn push(&mut self, record: &[u8], line: u64) {
        self.records.push((self.text.len(), line));
        self.text.extend_from_slice(record);
        self.text.push(b'\n');
    }
}

/// The lines of a file that are not blank.
struct Lines {
    file: Arc<str>,
    input: Sequential,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Up to here there is no line break.
    searched: usize,
    ended: bool,
    line: u64,
    consumed: u64,
}

impl Lines {
    fn open(file: &InputFile) -> Result<Self, Error> {
        Ok(Self {
            file: Arc::clone(file.name()),
            input: Sequential::new(file)?,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            searched: 0,
            ended: false,
            line: 0,
            consumed: 0,
        })
    }

    /// The next line that is not blank, and its number, counted from 1.
    fn next(&mut self) -> Result<Option<(&[u8], u64)>, Error> {
        loop {
            let found = self.buffer[self.searched..self.end].iter().position(|byte| *byte == b'\n');
            let (stop, next) = match found {
                Some(offset) => (self.searched + offset, self.searched + offset + 1),
                None if self.ended && self.start == self.end => return Ok(None),
                None if self.ended => (self.end, self.end),
                None => {
                    self.fill()?;
                    continue;
                }
            };
            self.line += 1;
            self.consumed += (next - self.start) as u64;
            let mut start = self.start;
            if self.line == 1 && self.buffer[start..stop].starts_with(b"\xef\xbb\xbf") {
                start += 3;
            }
            self.start = next;
            self.searched = next;
            if !self.buffer[start..stop].trim_ascii().is_empty() {
                return Ok(Some((&self.buffer[start..stop], self.line)));
            }
        }
    }

    /// Reads more, behind the line that has begun.
    fn fill(&mut self) -> Result<(), Error> {
        self.searched = self.end;
        if self.end == self.buffer.len() {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.searched -= self.start;
                self.start = 0;
            }
            if self.end > LONGEST_RECORD {
                let problem = format!("is longer than {} MiB: each line must be one record", LONGEST_RECORD >> 20);
                return Err(Error::record(&self.file, self.line + 1, problem));
            }
            if self.end > self.buffer.len() / 2 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        let read = self.input.read(&mut self.buffer[self.end..])?;
        self.ended = read < self.buffer.len() - self.end;
        self.end += read;
        Ok(())
    }
}
