//! The columns of JSON objects, and records decoded into them.
//!
//! `arrow-json` decodes, into types that hold every value. A column that is declared as something else is read as text (a number
//! keeps its digits as they are written) and converted as a CSV field would be, because the JSON reader itself is generous: it
//! would cut 1.5 down to the integer 1.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_json::ReaderBuilder;

use super::Shape;
use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::scan::Rejects;
use crate::{text, types};

/// The most bytes of text that are held for one batch.
const LARGEST_BATCH: usize = 16 << 20;

/// The columns of records whose shape is known.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// As the JSON reader makes them.
    read: SchemaRef,
    /// As batches carry them: the same, or converted from text.
    schema: SchemaRef,
}

impl Columns {
    /// The columns for records of this shape, in the order of their first appearance; then those that only the job knows.
    pub(crate) fn plan(shape: &Shape, declared: &Declared, file: &str) -> Result<Self, Error> {
        let mut read = Vec::new();
        let mut fields = Vec::new();
        for (name, shape) in shape.fields() {
            let (from, to) = planned(name, shape, declared, file)?;
            read.push(Field::new(name, from, true));
            fields.push(Field::new(name, to, true));
        }
        for (name, data_type) in declared.job_columns() {
            if !fields.iter().any(|field| field.name() == name) {
                read.push(Field::new(name, DataType::Utf8View, true));
                fields.push(Field::new(name, data_type.clone(), true));
            }
        }
        Ok(Self { read: Arc::new(Schema::new(read)), schema: Arc::new(Schema::new(fields)) })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// One array for each column. Fails with the place of the record that cannot be read, if it can be told, and the problem.
    pub(crate) fn decode(&self, block: &Block, rejects: &mut Rejects) -> Result<Vec<ArrayRef>, (Option<u64>, String)> {
        if self.read.fields().is_empty() {
            return Ok(Vec::new());
        }
        let batch = self.parse(&block.text, block.len()).map_err(|error| self.first_unreadable(block, &error))?;
        let convert = |(array, field): (&ArrayRef, &Arc<Field>)| {
            if array.data_type() == field.data_type() {
                return Arc::clone(array);
            }
            let wanted = types::name_of(field.data_type());
            let values = array.as_string_view().iter();
            text::column(values, field.data_type(), b'.', &mut |row, value: &str| {
                rejects.unparsable(row, field.name(), value, &wanted);
            })
        };
        Ok(batch.columns().iter().zip(self.schema.fields()).map(convert).collect())
    }

    fn parse(&self, text: &[u8], rows: usize) -> Result<RecordBatch, ArrowError> {
        let builder = ReaderBuilder::new(Arc::clone(&self.read)).with_batch_size(rows).with_coerce_primitive(true);
        let mut decoder = builder.build_decoder()?;
        let read = decoder.decode(text)?;
        let batch = if decoder.has_partial_record() { None } else { decoder.flush()? };
        match batch {
            // Only blanks may be left: the decoder stops when it has its rows.
            Some(batch) if batch.num_rows() == rows && text[read..].iter().all(u8::is_ascii_whitespace) => Ok(batch),
            _ => Err(ArrowError::JsonError("not one record after the other".to_owned())),
        }
    }

    /// The record that the JSON reader stumbled over: it does not say which.
    fn first_unreadable(&self, block: &Block, error: &ArrowError) -> (Option<u64>, String) {
        for (index, (start, place)) in block.records.iter().enumerate() {
            let end = block.records.get(index + 1).map_or(block.text.len(), |(next, _)| *next);
            if let Err(error) = self.parse(&block.text[*start..end], 1) {
                return (Some(*place), one_line(&error));
            }
        }
        (None, one_line(error))
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

/// Consecutive records: their text, and where and at which place of the file (a line, or a number) each begins.
#[derive(Default)]
pub(crate) struct Block {
    text: Vec<u8>,
    records: Vec<(usize, u64)>,
}

impl Block {
    pub(crate) fn push(&mut self, record: &[u8], place: u64) {
        self.records.push((self.text.len(), place));
        self.text.extend_from_slice(record);
        self.text.push(b'\n');
    }

    /// How many records there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether a batch has enough of them, counting `more` bytes that are held besides.
    pub(crate) fn is_full(&self, rows: usize, more: usize) -> bool {
        self.len() >= rows || self.text.len() + more >= LARGEST_BATCH
    }
}
