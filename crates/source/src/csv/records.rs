//! CSV text to records: blocks of fields that know the line they began on.
//!
//! The state machine is that of `csv-core`, which is also the one inside `arrow-csv`. It is driven here directly for what
//! `arrow-csv` does not say: the true line of a record when fields hold line breaks (it counts records), a quote that is never
//! closed (it takes the rest of the file for one field, in memory), and a field that ends in the middle of a character.

use std::sync::Arc;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::content::Content;
use crate::error::Error;
use crate::files::{CHUNK, InputFile};
use crate::settings::{Dialect, InputLimits};

/// The records of one file, from the first to the last.
pub(super) struct Records {
    file: Arc<str>,
    input: Content,
    /// The most bytes one record may have. A quote that is never closed makes a record of all that follows; it must not fill
    /// the memory before it is noticed.
    longest: usize,
    machine: Reader,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    started: bool,
    ended: bool,
    /// Line breaks passed over between records, which the machine has not seen.
    skipped_lines: u64,
    /// Bytes of the file consumed so far.
    consumed: u64,
}

/// Consecutive records with the same number of fields.
pub(super) struct Block {
    /// The number of fields of each record; `None` until the first record has been read.
    columns: Option<usize>,
    data: Vec<u8>,
    used: usize,
    /// Where each field ends, relative to its record.
    ends: Vec<usize>,
    ends_used: usize,
    /// Where each record begins in `data`, and on which line of the file.
    records: Vec<(usize, u64)>,
}

impl Block {
    pub(super) fn new(columns: Option<usize>) -> Self {
        Self { columns, data: Vec::new(), used: 0, ends: Vec::new(), ends_used: 0, records: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.ends_used = 0;
        self.records.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.used
    }

    /// Checks that every field is UTF-8, and returns the fields.
    pub(super) fn fields(&self, file: &str) -> Result<FieldTable<'_>, Error> {
        let columns = self.columns.unwrap_or(0);
        let text = std::str::from_utf8(&self.data[..self.used]).map_err(|error| {
            let row = self.records.partition_point(|(start, _)| *start <= error.valid_up_to()).saturating_sub(1);
            self.not_utf8(file, row)
        })?;
        for (row, ends) in self.ends[..self.ends_used].chunks_exact(columns.max(1)).enumerate() {
            let start = self.records[row].0;
            if !ends.iter().all(|end| text.is_char_boundary(start + end)) {
                return Err(self.not_utf8(file, row));
            }
        }
        Ok(FieldTable { block: self, text, columns })
    }

    fn not_utf8(&self, file: &str, row: usize) -> Error {
        let line = self.records.get(row).map_or(1, |(_, line)| *line);
        Error::record(file, line, "is not UTF-8: convert the file, for example with `iconv -t UTF-8`")
    }
}

/// The fields of a [`Block`], by record and column.
#[derive(Clone, Copy)]
pub(super) struct FieldTable<'a> {
    block: &'a Block,
    text: &'a str,
    columns: usize,
}

impl<'a> FieldTable<'a> {
    pub(super) fn column(self, column: usize) -> impl ExactSizeIterator<Item = &'a str> {
        (0..self.block.len()).map(move |row| self.field(row, column))
    }

    pub(super) fn record(self, row: usize) -> impl ExactSizeIterator<Item = &'a str> {
        (0..self.columns).map(move |column| self.field(row, column))
    }

    fn field(self, row: usize, column: usize) -> &'a str {
        let record = self.block.records[row].0;
        let ends = &self.block.ends[row * self.columns..];
        let start = if column == 0 { 0 } else { ends[column - 1] };
        // Within the text and on character boundaries: `Block::fields` has checked it.
        self.text.get(record + start..record + ends[column]).unwrap_or_default()
    }
}

impl Records {
    pub(super) fn open(file: &InputFile, dialect: &Dialect, limits: &InputLimits) -> Result<Self, Error> {
        let machine = ReaderBuilder::new().delimiter(dialect.delimiter).quote(dialect.quote).build();
        Ok(Self {
            file: Arc::clone(file.name()),
            input: Content::open(file, limits)?,
            longest: limits.longest_record(),
            machine,
            buffer: vec![0; CHUNK],
            position: 0,
            filled: 0,
            started: false,
            ended: false,
            skipped_lines: 0,
            consumed: 0,
        })
    }

    /// Bytes of the file consumed so far.
    pub(super) fn consumed(&self) -> u64 {
        self.input.compressed_bytes().unwrap_or(self.consumed)
    }

    /// Adds the next record to `block`; false at the end of the file.
    pub(super) fn read(&mut self, block: &mut Block) -> Result<bool, Error> {
        if !self.pass_line_breaks()? {
            return Ok(false);
        }
        let line = self.machine.line() + self.skipped_lines;
        let start = block.used;
        let mut fields = 0;
        let mut ending = false;
        loop {
            // Room for one field more than there should be: the machine stops there, and the record is refused.
            let room = block.columns.map_or(1, |columns| columns + 1 - fields);
            if block.ends.len() < block.ends_used + room {
                block.ends.resize((block.ends_used + room).next_power_of_two(), 0);
            }
            if block.data.len() == block.used {
                block.data.resize((block.used * 2).max(CHUNK), 0);
            }
            // A last line break ends a record that the file does not end, and is part of the value in a quoted field. (Asking a
            // clone of the machine is no way: a cloned `csv_core::Reader` has lost its tables.)
            let input = if ending { &b"\n"[..] } else { &self.buffer[self.position..self.filled] };
            let (result, read, written, ended) =
                self.machine.read_record(input, &mut block.data[block.used..], &mut block.ends[block.ends_used..]);
            if ending && written > 0 {
                let problem = "the file ends inside a quoted field of the record that begins here: it is cut off, or a quote is \
                               never closed";
                return Err(Error::record(&self.file, line, problem));
            }
            if !ending {
                self.position += read;
                self.consumed += read as u64;
            }
            block.used += written;
            block.ends_used += ended;
            fields += ended;
            if let Some(columns) = block.columns
                && fields > columns
            {
                let problem =
                    format!("more than {columns} fields, where the first record has {columns}{DELIMITER_HINT}");
                return Err(Error::record(&self.file, line, problem));
            }
            if block.used - start > self.longest {
                let problem = format!(
                    "the record that begins here is longer than {} bytes (source.limits.record_bytes): is a quote in it never \
                     closed?",
                    self.longest
                );
                return Err(Error::record(&self.file, line, problem));
            }
            match result {
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {}
                ReadRecordResult::InputEmpty if ending => return Ok(false), // a byte order mark and nothing else
                ReadRecordResult::InputEmpty => ending = !self.fill()?,
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(false),
            }
        }
        let columns = *block.columns.get_or_insert(fields);
        if fields != columns {
            let problem = format!("{fields} fields, where the first record has {columns}{DELIMITER_HINT}");
            return Err(Error::record(&self.file, line, problem));
        }
        block.records.push((start, line));
        Ok(true)
    }

    /// Passes over line breaks, so that the line of a record is that of its first character. False at the end of the file.
    fn pass_line_breaks(&mut self) -> Result<bool, Error> {
        loop {
            if self.position == self.filled && !self.fill()? {
                return Ok(false);
            }
            match self.buffer[self.position] {
                b'\n' => self.skipped_lines += 1,
                b'\r' => {}
                _ => return Ok(true),
            }
            self.position += 1;
            self.consumed += 1;
        }
    }

    /// Replaces the consumed buffer with what follows; false at the end of the file.
    fn fill(&mut self) -> Result<bool, Error> {
        self.position = 0;
        self.filled = if self.ended { 0 } else { self.input.read(&mut self.buffer)? };
        self.ended = self.filled < self.buffer.len();
        if !self.started {
            self.started = true;
            if matches!(self.buffer[..self.filled], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
                let problem = "is UTF-16: convert the file to UTF-8, for example with `iconv -f UTF-16 -t UTF-8`";
                return Err(Error::unreadable(&self.file, problem));
            }
        }
        Ok(self.filled > 0)
    }
}

const DELIMITER_HINT: &str = ": mend the record, or check `source.csv.delimiter` and `source.csv.quote`";
