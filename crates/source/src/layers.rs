//! Formats that state their columns and give rows from the beginning: GeoPackage, shapefile, FlatGeobuf.
//!
//! What they have in common is here: the layers of all files are opened once to see that they agree, declared types are
//! applied as they are to Parquet, and rows come in batches that are bounded in rows and in bytes. A format says how a file is
//! opened, and reads rows.

use std::collections::HashMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BinaryViewBuilder, BooleanBuilder, PrimitiveBuilder, RecordBatch, RecordBatchOptions,
    StringViewBuilder,
};
use arrow::datatypes::{
    DataType, Date32Type, Field, Float32Type, Float64Type, Int32Type, Int64Type, Schema, SchemaRef,
    TimestampMicrosecondType,
};

use tempfile::TempDir;

use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::files::InputFile;
use crate::geo::{self, GeometryColumn};
use crate::row_groups::{self, Change};
use crate::scan::{Decoded, Rejects, SerialReader, SourceBatch};
use crate::settings::InputLimits;
use crate::{text, types};

/// About how many bytes of values a batch may have before it ends.
pub(crate) const LARGEST_BATCH: usize = 16 << 20;

/// What a job says about layers.
#[derive(Clone, Debug)]
pub(crate) struct LayerOptions {
    pub(crate) layer: Option<String>,
    pub(crate) encoding: Option<String>,
    pub(crate) limits: InputLimits,
    pub(crate) declared: Declared,
}

impl LayerOptions {
    /// Whether the job declares that a column has another type than the file says. A format that holds the value as text then
    /// gives the text, so that nothing is lost on the way to the declared type.
    pub(crate) fn declares_other(&self, column: &str, stated: &DataType) -> bool {
        self.declared.of_job(column).is_some_and(|wanted| wanted != stated)
    }

    /// The limits of geometries.
    pub(crate) fn of_geometries(&self) -> hexfloe_geometry::Limits {
        self.limits.of_geometries()
    }

    /// The most bytes of one record, as a size in memory.
    pub(crate) fn record_bytes(&self) -> usize {
        usize::try_from(self.limits.record_bytes).unwrap_or(usize::MAX)
    }
}

/// Opens the layer of a file.
pub(crate) type Open = fn(&InputFile, &LayerOptions) -> Result<Box<dyn Layer>, Error>;

/// A layer of a file, at some row.
pub(crate) trait Layer: Send {
    /// Its columns: attributes in the order of the file, then geometries.
    fn columns(&self) -> &[Field];

    /// Its geometry columns, the primary one first.
    fn geometries(&self) -> &[GeometryColumn];

    /// How many rows it says it has, where it says so.
    fn rows(&self) -> Option<u64>;

    /// What the file calls it, where the file has layers.
    fn name(&self) -> Option<Arc<str>>;

    /// The next rows, of which there are at most `most`. Fewer do not mean that these are the last.
    fn read(&mut self, most: usize) -> Result<Rows, Error>;
}

/// Consecutive rows as a layer has them.
pub(crate) struct Rows {
    /// One for each of [`Layer::columns`].
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) count: usize,
    pub(crate) feature_ids: Option<ArrayRef>,
    pub(crate) rejects: Rejects,
    /// Whether there are no more.
    pub(crate) last: bool,
}

/// The geometry columns of the layer of a file.
pub(crate) fn geometries(open: Open, input: &InputFile, options: &LayerOptions) -> Result<Vec<GeometryColumn>, Error> {
    Ok(open(input, options)?.geometries().to_vec())
}

/// The layers of all files, one after the other.
pub(crate) struct LayerReader {
    files: Arc<[InputFile]>,
    open: Open,
    options: Arc<LayerOptions>,
    /// As the layers have them.
    stated: Arc<[Field]>,
    /// As batches carry them.
    schema: SchemaRef,
    rows: Option<u64>,
    batch_rows: usize,
    next_file: usize,
    current: Option<Current>,
}

struct Current {
    input: InputFile,
    layer: Box<dyn Layer>,
    rows: u64,
    /// How many of the bytes of its files have been told.
    told: u64,
}

impl LayerReader {
    /// Opens the layer of each file, and finds the columns and reference systems that all have. The first stays open: to open
    /// some files they have to be copied.
    pub(crate) fn open(
        files: &Arc<[InputFile]>,
        open: Open,
        options: LayerOptions,
        batch_rows: usize,
    ) -> Result<Self, Error> {
        let mut known: Option<(Vec<Field>, &str)> = None;
        let mut geometries = HashMap::new();
        let mut rows = Some(0_u64);
        let mut opened = None;
        for file in files.iter() {
            let layer = open(file, &options)?;
            rows = rows.zip(layer.rows()).map(|(sum, rows)| sum.saturating_add(rows));
            match &mut known {
                None => known = Some((layer.columns().to_vec(), file.path())),
                Some((fields, first)) => row_groups::agree(fields, first, layer.columns(), file.path())?,
            }
            geometries.insert(file.path(), layer.geometries().to_vec());
            if opened.is_none() {
                opened = Some(Current { input: file.clone(), layer, rows: 0, told: 0 });
            }
        }
        geo::agreed(files, |file| Ok(geometries.get(file.path()).cloned().unwrap_or_default()))?;
        let (stated, first) = known.unwrap_or_default();
        options.declared.check_columns(stated.iter().map(|field| field.name().as_str()), first)?;
        let fields = stated.iter().map(|field| {
            let (target, _) = row_groups::planned(field, &options.declared, first)?;
            Ok(field.clone().with_data_type(target))
        });
        let schema = Arc::new(Schema::new(fields.collect::<Result<Vec<_>, Error>>()?));
        Ok(Self {
            files: Arc::clone(files),
            open,
            options: Arc::new(options),
            stated: stated.into(),
            schema,
            rows,
            batch_rows: batch_rows.max(1),
            next_file: usize::from(opened.is_some()),
            current: opened,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// The next file, opened; `None` after the last.
    fn advance(&mut self) -> Result<Option<Current>, Error> {
        let Some(input) = self.files.get(self.next_file) else { return Ok(None) };
        self.next_file += 1;
        let layer = (self.open)(input, &self.options)?;
        Ok(Some(Current { input: input.clone(), layer, rows: 0, told: 0 }))
    }

    /// The rows with the columns of the scan, in their order and of their types.
    fn convert(&self, current: &Current, mut rows: Rows) -> Result<SourceBatch, Error> {
        let (input, file) = (&current.input, current.input.path());
        let mut columns = Vec::with_capacity(self.stated.len());
        for (stated, field) in self.stated.iter().zip(self.schema.fields()) {
            let found = current.layer.columns().iter().position(|column| column.name() == stated.name());
            let array = found.and_then(|place| rows.columns.get(place)).ok_or_else(|| {
                Error::unreadable(file, format!("has lost its column `{}` since it was opened", stated.name()))
            })?;
            let (_, change) = row_groups::planned(stated, &self.options.declared, file)?;
            columns.push(match (change, array.as_string_view_opt()) {
                (Change::Read, Some(values)) => {
                    let wanted = types::name_of(field.data_type());
                    text::column(values.iter(), field.data_type(), b'.', &mut |row, value: &str| {
                        rows.rejects.unparsable(row, field.name(), value, &wanted);
                    })
                }
                _ => row_groups::cast(array, field.data_type(), input)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::unreadable(file, one_line(&error)))?;
        Ok(SourceBatch {
            batch,
            file: Arc::clone(input.name()),
            first_row: current.rows + 1,
            layer: current.layer.name(),
            feature_ids: rows.feature_ids,
            rejects: rows.rejects.into_rows(),
        })
    }
}

impl SerialReader for LayerReader {
    fn read(&mut self) -> Result<Decoded, Error> {
        let mut bytes = 0;
        loop {
            let current = match self.current.take() {
                Some(current) => Some(current),
                None => self.advance()?,
            };
            let Some(mut current) = current else { return Ok(Decoded { batches: Vec::new(), last: true, bytes }) };
            let rows = current.layer.read(self.batch_rows)?;
            let (count, ended) = (rows.count, rows.last);
            let batch = if count == 0 { None } else { Some(self.convert(&current, rows)?) };
            current.rows += count as u64;
            bytes += current.tell(ended);
            let last = ended && self.next_file >= self.files.len();
            if !ended {
                self.current = Some(current);
            }
            if batch.is_some() || last {
                return Ok(Decoded { batches: batch.into_iter().collect(), last, bytes });
            }
        }
    }

    fn restart(&self) -> Option<Box<dyn SerialReader>> {
        Some(Box::new(Self {
            files: Arc::clone(&self.files),
            options: Arc::clone(&self.options),
            stated: Arc::clone(&self.stated),
            schema: Arc::clone(&self.schema),
            next_file: 0,
            current: None,
            ..*self
        }))
    }
}

impl Current {
    /// How many more bytes of the files have been read: in proportion to the rows, since layers jump about in their files.
    fn tell(&mut self, ended: bool) -> u64 {
        let all: u64 = self.input.parts().map(InputFile::size).sum();
        let reached = match self.layer.rows() {
            _ if ended => all,
            Some(rows) if rows > 0 => {
                let part = u128::from(all) * u128::from(self.rows.min(rows)) / u128::from(rows);
                u64::try_from(part).unwrap_or(all)
            }
            _ => 0,
        };
        let more = reached.saturating_sub(self.told);
        self.told += more;
        more
    }
}

/// A value of an attribute as a file has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Instant(i64),
    /// Microseconds since 1970-01-01T00:00:00, without a zone.
    LocalTime(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A column of attributes while its rows are read.
pub(crate) enum Cells {
    Boolean(BooleanBuilder),
    Int(PrimitiveBuilder<Int32Type>),
    Long(PrimitiveBuilder<Int64Type>),
    Float(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    Date(PrimitiveBuilder<Date32Type>),
    Instant(PrimitiveBuilder<TimestampMicrosecondType>),
    LocalTime(PrimitiveBuilder<TimestampMicrosecondType>),
    Text(StringViewBuilder),
    Bytes(BinaryViewBuilder),
}

/// Integers up to here are exact in a double.
const EXACT_IN_DOUBLE: u64 = 1 << 53;

impl Cells {
    /// An empty column of one of the types above; of any other type, a column of text.
    pub(crate) fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean(BooleanBuilder::new()),
            DataType::Int32 => Self::Int(PrimitiveBuilder::new()),
            DataType::Int64 => Self::Long(PrimitiveBuilder::new()),
            DataType::Float32 => Self::Float(PrimitiveBuilder::new()),
            DataType::Float64 => Self::Double(PrimitiveBuilder::new()),
            DataType::Date32 => Self::Date(PrimitiveBuilder::new()),
            DataType::Timestamp(_, Some(_)) => {
                Self::Instant(PrimitiveBuilder::new().with_data_type(types::timestamptz()))
            }
            DataType::Timestamp(_, None) => Self::LocalTime(PrimitiveBuilder::new()),
            DataType::BinaryView => Self::Bytes(BinaryViewBuilder::new()),
            _ => Self::Text(StringViewBuilder::new()),
        }
    }

    /// Appends a value if it is one of the column's type, and otherwise null. Says whether it was.
    #[must_use]
    pub(crate) fn push(&mut self, value: Value<'_>) -> bool {
        match (&mut *self, value) {
            (Self::Boolean(cells), Value::Boolean(value)) => cells.append_value(value),
            (Self::Boolean(cells), Value::Integer(value @ (0 | 1))) => cells.append_value(value == 1),
            (Self::Int(cells), Value::Integer(value)) if i32::try_from(value).is_ok() => {
                cells.append_option(i32::try_from(value).ok());
            }
            (Self::Long(cells), Value::Integer(value)) => cells.append_value(value),
            (Self::Float(cells), Value::Float(value)) => {
                #[expect(clippy::cast_possible_truncation, reason = "only formats that have floats make such columns")]
                cells.append_value(value as f32);
            }
            (Self::Double(cells), Value::Float(value)) => cells.append_value(value),
            (Self::Double(cells), Value::Integer(value)) if value.unsigned_abs() <= EXACT_IN_DOUBLE => {
                cells.append_value(value as f64);
            }
            (Self::Date(cells), Value::Date(value)) => cells.append_value(value),
            (Self::Instant(cells), Value::Instant(value)) => cells.append_value(value),
            (Self::LocalTime(cells), Value::LocalTime(value)) => cells.append_value(value),
            (Self::Text(cells), Value::Text(value)) => cells.append_value(value),
            (Self::Bytes(cells), Value::Bytes(value)) => cells.append_value(value),
            _ => {
                self.push_null();
                return false;
            }
        }
        true
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Self::Boolean(cells) => cells.append_null(),
            Self::Int(cells) => cells.append_null(),
            Self::Long(cells) => cells.append_null(),
            Self::Float(cells) => cells.append_null(),
            Self::Double(cells) => cells.append_null(),
            Self::Date(cells) => cells.append_null(),
            Self::Instant(cells) | Self::LocalTime(cells) => cells.append_null(),
            Self::Text(cells) => cells.append_null(),
            Self::Bytes(cells) => cells.append_null(),
        }
    }

    /// The rows so far; the column is empty again.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(cells) => Arc::new(cells.finish()),
            Self::Int(cells) => Arc::new(cells.finish()),
            Self::Long(cells) => Arc::new(cells.finish()),
            Self::Float(cells) => Arc::new(cells.finish()),
            Self::Double(cells) => Arc::new(cells.finish()),
            Self::Date(cells) => Arc::new(cells.finish()),
            Self::Instant(cells) | Self::LocalTime(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
            Self::Bytes(cells) => Arc::new(cells.finish()),
        }
    }
}

/// A folder for copies that nobody else can look into, and that is gone when it is dropped.
pub(crate) fn private_folder(input: &InputFile) -> Result<TempDir, Error> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("hexfloe-").permissions(Permissions::from_mode(0o700));
    folder.tempdir().map_err(Error::io(input.path(), "make a temporary folder for a copy of"))
}

/// A name that none of `taken` has: `name`, or `name_2`, `name_3` and so on.
pub(crate) fn unique(name: &str, taken: &[Field]) -> String {
    let free = |candidate: &str| !taken.iter().any(|field| field.name() == candidate);
    if free(name) {
        return name.to_owned();
    }
    (2_usize..).map(|number| format!("{name}_{number}")).find(|candidate| free(candidate)).unwrap_or_default()
}
