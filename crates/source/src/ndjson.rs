//! NDJSON: one JSON object a line.
//!
//! A first pass over all files finds the fields and their types, and that every line is JSON. The second pass decodes them
//! ([`Columns`]).

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use crate::content::Content;
use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::files::{CHUNK, InputFile};
use crate::json::{Block, Columns, Shape};
use crate::scan::{Decoded, Rejects, SerialReader, SourceBatch};
use crate::settings::InputLimits;

/// NDJSON files with the types of their columns known.
pub(crate) struct NdjsonReader {
    files: Vec<InputFile>,
    columns: Columns,
    limits: InputLimits,
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
    pub(crate) fn open(
        files: &[InputFile],
        declared: &Declared,
        limits: &InputLimits,
        batch_rows: usize,
    ) -> Result<Self, Error> {
        let mut shape = Shape::default();
        let mut rows = 0;
        for file in files {
            let mut lines = Lines::open(file, limits)?;
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
        Ok(Self {
            files: files.to_vec(),
            columns: Columns::plan(&shape, declared, first)?,
            limits: limits.clone(),
            rows,
            batch_rows: batch_rows.max(1),
            next_file: 0,
            current: None,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.columns.schema()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }
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
                        OpenFile { input: input.clone(), lines: Lines::open(input, &self.limits)?, rows: 0 }
                    }
                },
            };
            // What opening has taken counts too: a decoder reads ahead.
            let before = if open.rows == 0 { 0 } else { open.lines.consumed() };
            let mut block = Block::default();
            let mut more = true;
            while !block.is_full(self.batch_rows, 0) {
                match open.lines.next()? {
                    Some((record, line)) => block.push(record, line),
                    None => {
                        more = false;
                        break;
                    }
                }
            }
            bytes += open.lines.consumed() - before;
            let batch = if block.is_empty() { None } else { Some(self.convert(&open, &block)?) };
            open.rows += block.len() as u64;
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
            columns: self.columns.clone(),
            limits: self.limits.clone(),
            next_file: 0,
            current: None,
            ..*self
        }))
    }
}

impl NdjsonReader {
    fn convert(&self, open: &OpenFile, block: &Block) -> Result<SourceBatch, Error> {
        let file = open.input.path();
        let mut rejects = Rejects::default();
        let columns = self.columns.decode(block, &mut rejects).map_err(|(line, problem)| match line {
            Some(line) => Error::record(file, line, problem),
            None => Error::unreadable(file, problem),
        })?;
        let options = RecordBatchOptions::new().with_row_count(Some(block.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.schema()), columns, &options)
            .map_err(|error| Error::unreadable(file, one_line(&error)))?;
        let (file, first_row) = (Arc::clone(open.input.name()), open.rows + 1);
        Ok(SourceBatch { batch, file, first_row, layer: None, feature_ids: None, rejects: rejects.into_rows() })
    }
}

/// The lines of a file that are not blank.
struct Lines {
    file: Arc<str>,
    input: Content,
    /// The most bytes a line may have.
    longest: usize,
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
    fn open(file: &InputFile, limits: &InputLimits) -> Result<Self, Error> {
        Ok(Self {
            file: Arc::clone(file.name()),
            input: Content::open(file, limits)?,
            longest: limits.longest_record(),
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            searched: 0,
            ended: false,
            line: 0,
            consumed: 0,
        })
    }

    /// Bytes of the file consumed so far.
    fn consumed(&self) -> u64 {
        self.input.compressed_bytes().unwrap_or(self.consumed)
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
            if self.end > self.longest {
                let problem = format!(
                    "is longer than {} bytes: each line must be one record, of at most `source.limits.record_bytes`",
                    self.longest
                );
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
