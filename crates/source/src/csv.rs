//! CSV: every field is text until it is known what the column is.
//!
//! A column's type is what the job or the table declares; otherwise it is inferred from all of its values in all files, in a
//! first pass that is skipped if every column is declared. In the second pass each value is converted; one that does not fit
//! its declared type is a reject of its row, not the end of the batch.

mod records;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::files::InputFile;
use crate::infer::Kinds;
use crate::scan::{Decoded, Rejects, SerialReader, SourceBatch};
use crate::settings::{Dialect, InputLimits};
use crate::{parallel, text, types};

use records::{Block, Records};

/// The most bytes of text that are held for one batch.
const LARGEST_BATCH: usize = 32 << 20;

/// CSV files with the types of their columns known.
pub(crate) struct CsvReader {
    layout: Arc<Layout>,
    schema: SchemaRef,
    /// Known if there was a first pass.
    rows: Option<u64>,
    batch_rows: usize,
    next_file: usize,
    current: Option<OpenFile>,
}

/// Which files, and where each column is in each of them.
struct Layout {
    files: Vec<CsvFile>,
    dialect: Dialect,
    limits: InputLimits,
    columns: usize,
}

struct CsvFile {
    input: InputFile,
    /// The place in the file of each column, in the order of the first file's header.
    places: Vec<usize>,
}

struct OpenFile {
    file: usize,
    records: Records,
    block: Block,
    rows: u64,
}

impl CsvReader {
    pub(crate) fn open(
        files: &[InputFile],
        dialect: &Dialect,
        limits: &InputLimits,
        declared: &Declared,
        batch_rows: usize,
        threads: usize,
    ) -> Result<Self, Error> {
        let headers = parallel::map(files, threads, |file| header(file, dialect, limits))?;
        let (names, layout) = lay_out(files, headers, dialect, limits)?;
        declared.check_columns(
            names.iter().map(String::as_str),
            layout.files.first().map_or("", |file| file.input.path()),
        )?;

        let known: Vec<Option<DataType>> =
            names.iter().map(|name| declared.type_of(name).and_then(types::readable_as)).collect();
        let unknown: Vec<usize> = (0..names.len()).filter(|column| known[*column].is_none()).collect();
        let mut kinds = vec![Kinds::default(); names.len()];
        let mut rows = None;
        if !unknown.is_empty() {
            for (seen, rows_of_file) in parallel::map(&layout.files, threads, |file| layout.infer(file, &unknown))? {
                kinds.iter_mut().zip(seen).for_each(|(all, seen)| all.join(seen));
                rows = Some(rows.unwrap_or(0) + rows_of_file);
            }
        }
        let fields: Vec<Field> = names
            .iter()
            .zip(known.into_iter().zip(kinds))
            .map(|(name, (known, kinds))| Field::new(name, known.unwrap_or_else(|| kinds.data_type()), true))
            .collect();
        Ok(Self {
            layout: Arc::new(layout),
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

    pub(crate) fn rows(&self) -> Option<u64> {
        self.rows
    }
}

/// The names in the header of a file, or those that a file without one gives its columns.
fn header(file: &InputFile, dialect: &Dialect, limits: &InputLimits) -> Result<Vec<String>, Error> {
    let mut block = Block::new(None);
    let found = Records::open(file, dialect, limits)?.read(&mut block)?;
    if !found {
        let problem = match (file.size(), dialect.header) {
            (0, true) => "is empty (0 bytes): it has no header",
            (0, false) => "is empty (0 bytes): how many columns it has cannot be known",
            (_, true) => "holds nothing but line breaks: it has no header",
            (_, false) => "holds nothing but line breaks: how many columns it has cannot be known",
        };
        return Err(Error::unreadable(file.path(), problem));
    }
    let names: Vec<String> = block.fields(file.path())?.record(0).map(ToOwned::to_owned).collect();
    if !dialect.header {
        return Ok((1..=names.len()).map(|column| format!("column_{column}")).collect());
    }
    let mut seen = HashSet::new();
    for (index, name) in names.iter().enumerate() {
        if name.trim().is_empty() {
            let problem = format!("the header gives column {} of {} no name: name it", index + 1, names.len());
            return Err(Error::record(file.path(), 1, problem));
        }
        if !seen.insert(name) {
            let problem = format!("the header has the name `{name}` twice: rename one of the columns");
            return Err(Error::record(file.path(), 1, problem));
        }
    }
    Ok(names)
}

/// Checks that all files have the columns of the first, in whatever order.
fn lay_out(
    files: &[InputFile],
    headers: Vec<Vec<String>>,
    dialect: &Dialect,
    limits: &InputLimits,
) -> Result<(Vec<String>, Layout), Error> {
    let names = headers.first().cloned().unwrap_or_default();
    let first = files.first().map_or("", InputFile::path);
    let mut laid_out = Vec::with_capacity(files.len());
    for (input, header) in files.iter().zip(headers) {
        let differ = |column: &str, problem: &str| Error::FilesDiffer {
            first: first.to_owned(),
            second: input.path().to_owned(),
            column: column.to_owned(),
            problem: problem.to_owned(),
        };
        let place_of: BTreeMap<&str, usize> =
            header.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let places =
            names.iter().map(|name| place_of.get(name.as_str()).copied().ok_or_else(|| differ(name, "is missing")));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        if let Some(extra) = header.iter().find(|name| !names.contains(name)) {
            return Err(differ(extra, "is only in the second"));
        }
        laid_out.push(CsvFile { input: input.clone(), places });
    }
    let columns = names.len();
    Ok((names, Layout { files: laid_out, dialect: dialect.clone(), limits: limits.clone(), columns }))
}

impl Layout {
    /// Opens a file at its first row.
    fn rows_of(&self, file: &CsvFile) -> Result<(Records, Block), Error> {
        let mut records = Records::open(&file.input, &self.dialect, &self.limits)?;
        let mut block = Block::new(Some(self.columns));
        if self.dialect.header {
            records.read(&mut block)?;
            block.clear();
        }
        Ok((records, block))
    }

    /// What the given columns hold in one file, and how many rows it has.
    fn infer(&self, file: &CsvFile, columns: &[usize]) -> Result<(Vec<Kinds>, u64), Error> {
        const ROWS: usize = 4096;
        let mut kinds = vec![Kinds::default(); self.columns];
        let mut rows = 0;
        let (mut records, mut block) = self.rows_of(file)?;
        loop {
            block.clear();
            let more = fill(&mut records, &mut block, ROWS)?;
            let fields = block.fields(file.input.path())?;
            for &column in columns {
                for value in fields.column(file.places[column]) {
                    if !self.dialect.is_null(value) {
                        kinds[column].see(value, self.dialect.decimal_mark);
                    }
                }
            }
            rows += block.len() as u64;
            if !more {
                return Ok((kinds, rows));
            }
        }
    }
}

/// Reads records until there are `rows`, or as many bytes as a batch may have; false once the file has ended.
fn fill(records: &mut Records, block: &mut Block, rows: usize) -> Result<bool, Error> {
    while block.len() < rows && block.bytes() < LARGEST_BATCH {
        if !records.read(block)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl SerialReader for CsvReader {
    fn read(&mut self) -> Result<Decoded, Error> {
        let mut bytes = 0;
        loop {
            let mut open = match self.current.take() {
                Some(open) => open,
                None => match self.layout.files.get(self.next_file) {
                    None => return Ok(Decoded { batches: Vec::new(), last: true, bytes }),
                    Some(file) => {
                        let (records, block) = self.layout.rows_of(file)?;
                        bytes += records.consumed();
                        let file = self.next_file;
                        self.next_file += 1;
                        OpenFile { file, records, block, rows: 0 }
                    }
                },
            };
            let before = open.records.consumed();
            open.block.clear();
            let more = fill(&mut open.records, &mut open.block, self.batch_rows)?;
            bytes += open.records.consumed() - before;
            let batch = if open.block.len() == 0 { None } else { Some(self.convert(&open)?) };
            open.rows += open.block.len() as u64;
            if more {
                self.current = Some(open);
            }
            let last = !more && self.next_file == self.layout.files.len();
            if batch.is_some() || last {
                return Ok(Decoded { batches: batch.into_iter().collect(), last, bytes });
            }
        }
    }

    fn restart(&self) -> Option<Box<dyn SerialReader>> {
        Some(Box::new(Self {
            layout: Arc::clone(&self.layout),
            schema: Arc::clone(&self.schema),
            next_file: 0,
            current: None,
            ..*self
        }))
    }
}

impl CsvReader {
    fn convert(&self, open: &OpenFile) -> Result<SourceBatch, Error> {
        let file = &self.layout.files[open.file];
        let dialect = &self.layout.dialect;
        let fields = open.block.fields(file.input.path())?;
        let mut rejects = Rejects::default();
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (field, &place) in self.schema.fields().iter().zip(&file.places) {
            let values = fields.column(place).map(|value| (!dialect.is_null(value)).then_some(value));
            let wanted = types::name_of(field.data_type());
            columns.push(text::column(values, field.data_type(), dialect.decimal_mark, &mut |row, value: &str| {
                rejects.unparsable(row, field.name(), value, &wanted);
            }));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(open.block.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::unreadable(file.input.path(), one_line(&error)))?;
        Ok(SourceBatch {
            batch,
            file: Arc::clone(file.input.name()),
            first_row: open.rows + 1,
            layer: None,
            feature_ids: None,
            rejects: rejects.into_rows(),
        })
    }
}
