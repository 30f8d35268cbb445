//! From the columns of the input to the columns of the table.
//!
//! A [`Shape`] is made once for a job and applied to every batch: rows that cannot be used are taken out, cells and
//! parents derived, the batch id and the geometry added, columns put into the order and types of the table.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, Scalar, StringViewArray, UInt32Array, make_view,
    new_null_array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use hexfloe_batch::{BATCH_ID_COLUMN, BatchId, CellDerivation, CoverDerivation, Points, Reject, RejectReason};
use hexfloe_source::SourceBatch;
use iceberg::arrow::schema_to_arrow_schema;

use crate::error::delimiter_advice;
use crate::place::{LeftOut, Places, RowPlaces};
use crate::positions::{self, Located, Positions, StoredGeometry, Wanted};
use crate::rejects::RejectedRows;
use crate::slice::Slice;
use crate::{Error, types};

/// What a job adds to and takes from its source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Additions {
    pub(crate) positions: Option<Positions>,
    pub(crate) cells: Option<CellDerivation>,
    pub(crate) cover: Option<CoverDerivation>,
    /// Geometry columns of the table, the primary one first.
    pub(crate) geometries: Vec<StoredGeometry>,
    /// Each row has to have a position.
    pub(crate) position_required: bool,
    /// The slice that all rows are of; its columns are added where the source lacks them.
    pub(crate) slice: Option<Slice>,
}

/// A column in which no row may be null, and the setting that says so.
#[derive(Clone, Debug)]
pub(crate) struct Required {
    pub(crate) column: String,
    pub(crate) setting: &'static str,
}

impl Additions {
    /// Columns that this makes, in the order a new table gets them.
    fn made(&self) -> Vec<Field> {
        let geometries = self.geometries.iter().flat_map(StoredGeometry::fields);
        let covers = self.cover.iter().map(CoverDerivation::field);
        let cells = self.cells.iter().flat_map(CellDerivation::fields);
        let batch_id = Field::new(BATCH_ID_COLUMN, DataType::Utf8View, false);
        geometries.chain(covers).chain(cells).chain([batch_id]).collect()
    }

    /// A name that two of the columns have, but for their case.
    pub(crate) fn twice(&self) -> Option<String> {
        let mut names: Vec<String> = self.made().iter().map(|field| field.name().to_lowercase()).collect();
        names.sort_unstable();
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone())
    }

    /// A column of geometries is read for what is made of it.
    fn takes(&self, column: &str) -> bool {
        let other =
            |stored: &StoredGeometry| matches!(&stored.from, positions::Origin::Other(input) if input.column == column);
        self.positions.as_ref().is_some_and(|positions| positions.takes(column)) || self.geometries.iter().any(other)
    }

    /// The columns of a new table, in Arrow's terms and without field ids.
    pub(crate) fn new_table(&self, input: &Schema) -> Result<Schema, Error> {
        let made = self.made();
        let mut fields = Vec::new();
        for field in input.fields().iter().filter(|field| !self.takes(field.name())) {
            refuse_clash(&made, field.name())?;
            let data_type = types::table_type(field.data_type())
                .map_err(|why| Error::Mismatch(format!("column `{}` of the source {why}", field.name())))?;
            fields.push(Field::new(field.name(), data_type, true));
        }
        for field in self.slice.iter().flat_map(|slice| slice.missing_from(input)) {
            refuse_clash(&made, field.name())?;
            fields.push(field);
        }
        fields.extend(made);
        Ok(Schema::new(fields))
    }
}

/// Where a column of the table comes from.
#[derive(Clone, Debug)]
enum Origin {
    Source {
        index: usize,
        required: bool,
        /// The value that it has in every row of the slice, and that value's text.
        slice: Option<(ArrayRef, String)>,
    },
    Made(usize),
    /// One value in all rows: the slice's.
    Slice(ArrayRef),
    Null,
}

/// How batches of one source become batches of one table.
#[derive(Debug)]
pub(crate) struct Shape {
    /// What the Parquet writer gets: the table's columns with their field ids.
    schema: SchemaRef,
    origins: Vec<Origin>,
    additions: Additions,
    batch_id: BatchId,
    render_rejects: bool,
    places: Places,
    left_out: LeftOut,
}

/// Rows of the source as rows of the table.
#[derive(Debug)]
pub(crate) struct Shaped {
    pub(crate) rows: RecordBatch,
    /// Where they come from.
    pub(crate) places: RowPlaces,
    pub(crate) rejected: RejectedRows,
    /// How many rows were left out for a better one with the same key.
    pub(crate) left_out: usize,
    /// How many of the rows have no position.
    pub(crate) nowhere: usize,
}

impl Shape {
    /// Fits the source to the table's schema.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`], naming the column, when they do not fit.
    pub(crate) fn new(
        input: &Schema,
        table: &iceberg::spec::Schema,
        additions: Additions,
        required_columns: &[Required],
        batch_id: BatchId,
        places: Places,
        render_rejects: bool,
    ) -> Result<Self, Error> {
        let table = schema_to_arrow_schema(table).map_err(Error::iceberg("read the table's schema"))?;
        let made = additions.made();
        if let Some(slice) = &additions.slice {
            slice.keys(&table)?;
        }
        for Required { column, setting } in required_columns {
            if table.index_of(column).is_err() {
                return Err(Error::Mismatch(format!("{setting}: the table has no column `{column}`")));
            }
        }
        let mut fields = Vec::new();
        let mut origins = Vec::new();
        for field in table.fields() {
            let name = field.name();
            let slice = additions.slice.as_ref().and_then(|slice| slice.column(name));
            let needed_by = required_columns.iter().find(|required| required.column == *name);
            if let Some(Required { setting: setting @ "quality.not_null", .. }) = needed_by
                && made.iter().any(|made| made.name() == name)
            {
                return Err(Error::Mismatch(format!(
                    "{setting}: the column `{name}` is made by the job; quality.no_geometry = \"reject\" keeps out the rows without a position"
                )));
            }
            let (origin, data_type) = if let Some(index) = made.iter().position(|made| made.name() == name) {
                let made = made[index].data_type();
                if slice.is_some() {
                    return Err(Error::Mismatch(format!(
                        "table.slice: the column `{name}` is made by the job; a slice is of columns of the source"
                    )));
                }
                if !types::table_type(made).is_ok_and(|made| types::fits(&made, field.data_type())) {
                    return Err(Error::Mismatch(format!(
                        "column `{name}` is {} in the table, and the job makes it {}: change the job, or write to \
                         another column or table",
                        types::name_in_table(field.data_type()),
                        types::name_in_table(made)
                    )));
                }
                (Origin::Made(index), types::writing_type(Some(made), field.data_type()))
            } else if let Ok(index) = input.index_of(name)
                && !additions.takes(name)
            {
                let given = input.field(index).data_type();
                let value = types::table_type(given)
                    .map_err(|why| Error::Mismatch(format!("column `{name}` of the source {why}")))?;
                if !types::fits(&value, field.data_type()) {
                    return Err(Error::Mismatch(format!(
                        "column `{name}` is {} in the source and {} in the table, whose types are fixed: give it that type in \
                         the input{}, or write to another table",
                        types::name_in_table(&value),
                        types::name_in_table(field.data_type()),
                        or_select(", in source.schema where that sets it")
                    )));
                }
                let required = !field.is_nullable() || needed_by.is_some() || slice.is_some();
                let writing = types::writing_type(Some(given), field.data_type());
                let slice =
                    slice.map(|slice| Ok::<_, Error>((slice.value(&writing)?, slice.text.clone()))).transpose()?;
                (Origin::Source { index, required, slice }, writing)
            } else if let (Some(slice), Some(whole)) = (slice, &additions.slice) {
                whole.refuse_unknown_to_id(name)?;
                (Origin::Slice(slice.value(field.data_type())?), field.data_type().clone())
            } else if let Some(Required { setting, .. }) = needed_by {
                return Err(Error::Mismatch(format!("{setting} needs a column `{name}`, and the source has none")));
            } else if field.is_nullable() {
                (Origin::Null, field.data_type().clone())
            } else {
                return Err(Error::Mismatch(format!("the table requires a column `{name}`, and the source has none")));
            };
            origins.push(origin);
            fields.push(field.as_ref().clone().with_data_type(data_type));
        }
        let names: Vec<&str> = input.fields().iter().map(|field| field.name().as_str()).collect();
        for field in input.fields().iter().filter(|field| !additions.takes(field.name())) {
            refuse_clash(&made, field.name())?;
            if table.index_of(field.name()).is_err() {
                let advice = delimiter_advice(&names).unwrap_or_else(|| {
                    format!(
                        "leave it out of the input{}, add it to the table with another engine, or write to another table",
                        or_select("")
                    )
                });
                return Err(Error::Mismatch(format!(
                    "the source has a column `{}`, and the table has none: {advice}",
                    field.name().escape_debug()
                )));
            }
        }
        if let Some(missing) = made.iter().find(|made| table.index_of(made.name()).is_err()) {
            return Err(Error::Mismatch(format!(
                "the job adds a column `{}`, and the table has none: add it to the table with another engine, or write to a \
                 new table",
                missing.name()
            )));
        }
        let (schema, left_out) = (Arc::new(Schema::new(fields)), LeftOut::default());
        Ok(Self { schema, origins, additions, batch_id, render_rejects, places, left_out })
    }

    /// From now on these rows are left out.
    pub(crate) fn leave_out(&mut self, left_out: LeftOut) {
        self.left_out = left_out;
    }

    /// How many rows are left out of the whole input.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out.len()
    }

    /// Where rows are.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The table's columns as they are handed to the Parquet writer.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The geometry columns that are kept, the primary one first.
    pub(crate) fn geometries(&self) -> &[StoredGeometry] {
        &self.additions.geometries
    }

    /// The rows of `source` that can be used as rows of the table, and those that cannot.
    pub(crate) fn apply(&self, source: SourceBatch) -> Result<Shaped, Error> {
        self.fit(source, self.render_rejects)
    }

    /// The rows that can be used, and where they are.
    pub(crate) fn usable(&self, source: SourceBatch) -> Result<(RecordBatch, RowPlaces), Error> {
        let Shaped { rows, places, .. } = self.fit(source, false)?;
        Ok((rows, places))
    }

    fn fit(&self, source: SourceBatch, render_rejects: bool) -> Result<Shaped, Error> {
        let mut source = source;
        let rejects = std::mem::take(&mut source.rejects);
        let SourceBatch { batch, file, first_row, .. } = &source;
        let wanted = Wanted {
            geometries: &self.additions.geometries,
            cover: self.additions.cover.as_ref(),
            required: self.additions.position_required,
        };
        let located = self.additions.positions.as_ref().map(|positions| positions.locate(batch, wanted)).transpose()?;
        let (mut points, mut located, at_points) = match located {
            Some(Located { points, columns, rejects }) => (points, columns, rejects),
            None => (None, Vec::new(), Vec::new()),
        };
        let missing = self.missing_values(batch);
        let (mut columns, too_large) = self.convert(batch, file)?;
        let outside = self.outside_of_slice(&columns)?;
        let rejects = first_of_each_row([rejects, at_points, missing, too_large, outside]);
        let first = self.places.at(file, *first_row);
        let left_out: Vec<usize> = self.left_out.within(first, batch.num_rows()).collect();
        let rows = batch.num_rows() - rejects.len() - left_out.len();
        let mut kept = None;
        if rows < batch.num_rows() {
            let out = rejects.iter().map(|reject| reject.row).chain(left_out.iter().copied());
            let keep = keep(batch.num_rows(), out);
            let failed = Error::arrow("take out rejected rows");
            for column in columns.iter_mut().flatten().chain(&mut located) {
                *column = arrow::compute::filter(column, &keep).map_err(&failed)?;
            }
            points = points.map(|points| points.filter(&keep)).transpose()?;
            kept = Some(keep.values().set_indices_u32().collect());
        }
        let rejected = RejectedRows::new(&source, rejects, render_rejects)?;
        let nowhere = points.as_ref().map_or(0, |points| points.lon.null_count());
        let made = self.make(rows, located, points.as_ref())?;
        let columns = columns.into_iter().zip(&self.origins).zip(self.schema.fields());
        let columns = columns.map(|((column, origin), field)| match (column, origin) {
            (Some(column), _) => Ok(column),
            (None, Origin::Made(index)) => types::convert(&made[*index], field.data_type())
                .map_err(Error::arrow("put what was made into the types of the table")),
            (None, Origin::Slice(value)) => repeated(value, rows).map_err(Error::arrow("fill in the slice")),
            (None, _) => Ok(new_null_array(field.data_type(), rows)),
        });
        let shaped = RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<_, _>>()?);
        let rows = shaped.map_err(Error::arrow("put a batch into the table's columns"))?;
        Ok(Shaped { rows, places: RowPlaces::new(first, kept), rejected, left_out: left_out.len(), nowhere })
    }

    /// Rows that are not of the slice. Nulls are missing values already.
    fn outside_of_slice(&self, columns: &[Option<ArrayRef>]) -> Result<Vec<Reject>, Error> {
        let failed = Error::arrow("compare rows with their slice");
        let mut rejects = Vec::new();
        for ((column, origin), field) in columns.iter().zip(&self.origins).zip(self.schema.fields()) {
            let (Some(column), Origin::Source { slice: Some((value, text)), .. }) = (column, origin) else { continue };
            let other = arrow::compute::kernels::cmp::neq(column, &Scalar::new(value)).map_err(&failed)?;
            for row in (0..other.len()).filter(|row| other.is_valid(*row) && other.value(*row)) {
                let value = arrow::util::display::array_value_to_string(column, row).map_err(&failed)?;
                let (column, slice) = (field.name().clone(), text.clone());
                rejects.push(Reject { row, reason: RejectReason::OutsideSlice { column, value, slice } });
            }
        }
        Ok(rejects)
    }

    /// The columns that come from the source, in the types of the table; and the rows with a value that such a type cannot
    /// hold.
    fn convert(&self, batch: &RecordBatch, file: &str) -> Result<(Vec<Option<ArrayRef>>, Vec<Reject>), Error> {
        let mut columns = Vec::new();
        let mut rejects = Vec::new();
        for (origin, field) in self.origins.iter().zip(self.schema.fields()) {
            let Origin::Source { index, .. } = origin else {
                columns.push(None);
                continue;
            };
            let column = batch.column(*index);
            let converted = types::convert(column, field.data_type()).or_else(|error| {
                let unfit = |cause: String| Error::Value { file: file.to_owned(), column: field.name().clone(), cause };
                let fitting = types::convert_fitting(column, field.data_type()).ok_or(unfit(error.to_string()))?;
                for row in (0..batch.num_rows()).filter(|row| fitting.is_null(*row) && column.is_valid(*row)) {
                    let value = arrow::util::display::array_value_to_string(column, row)
                        .map_err(Error::arrow("show a value that cannot be used"))?;
                    let wanted = types::name_in_table(field.data_type());
                    let reason = RejectReason::Unparsable { column: field.name().clone(), value, wanted };
                    rejects.push(Reject { row, reason });
                }
                Ok::<_, Error>(fitting)
            });
            columns.push(Some(converted?));
        }
        Ok((columns, rejects))
    }

    /// Nulls in columns that the table requires.
    fn missing_values(&self, batch: &RecordBatch) -> Vec<Reject> {
        let mut rejects = Vec::new();
        for origin in &self.origins {
            let Origin::Source { index, required: true, .. } = origin else { continue };
            let (column, schema) = (batch.column(*index), batch.schema());
            if column.logical_null_count() > 0 {
                let name = schema.field(*index).name();
                let nulls = column.logical_nulls();
                let rows = (0..batch.num_rows()).filter(|row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row)));
                rejects.extend(
                    rows.map(|row| Reject { row, reason: RejectReason::MissingRequired { column: name.clone() } }),
                );
            }
        }
        rejects.sort_by_key(|reject| reject.row);
        rejects
    }

    /// The columns of [`Additions::made`].
    fn make(&self, rows: usize, located: Vec<ArrayRef>, points: Option<&Points>) -> Result<Vec<ArrayRef>, Error> {
        let mut made = located;
        if let (Some(points), Some(cells)) = (points, &self.additions.cells) {
            made.extend(cells.derive(points)?);
        }
        made.push(Arc::new(constant(self.batch_id.as_str(), rows).map_err(Error::arrow("make the batch column"))?));
        Ok(made)
    }
}

/// Two columns of one name: which one is meant cannot be known.
fn refuse_clash(made: &[Field], name: &str) -> Result<(), Error> {
    // Most engines tell no `Geometry` from `geometry`.
    if !made.iter().any(|made| made.name().to_lowercase() == name.to_lowercase()) {
        return Ok(());
    }
    let select = or_select("");
    Err(Error::Mismatch(match name.to_lowercase().as_str() {
        BATCH_ID_COLUMN => format!(
            "the source has a column `{name}` already, and in the table that holds the id of the batch: give it another name in the \
             input{select}, or leave it out"
        ),
        _ => format!(
            "the source has a column `{name}` already, and the job adds one of that name: name the added one otherwise \
             (h3.column, h3.cover.column, geometry.store_column, geometry.bbox), or change the input{select}"
        ),
    }))
}

/// Ways to have other columns than those of the input: only those that this build has.
fn or_select(before: &str) -> String {
    let select = if cfg!(feature = "sql") { ", or with source.select" } else { "" };
    format!("{before}{select}")
}

/// The same text in every row, over one copy of it.
fn constant(text: &str, rows: usize) -> Result<StringViewArray, arrow::error::ArrowError> {
    let view = make_view(text.as_bytes(), 0, 0);
    StringViewArray::try_new(ScalarBuffer::from(vec![view; rows]), vec![Buffer::from(text.as_bytes())], None)
}

/// One reject for a row: the earlier list has the better reason.
fn first_of_each_row<const N: usize>(lists: [Vec<Reject>; N]) -> Vec<Reject> {
    let mut rejects: Vec<Reject> = lists.into_iter().flatten().collect();
    rejects.sort_by_key(|reject| reject.row);
    rejects.dedup_by_key(|reject| reject.row);
    rejects
}

fn keep(rows: usize, out: impl Iterator<Item = usize>) -> BooleanArray {
    let mut keep = BooleanBufferBuilder::new(rows);
    keep.append_n(rows, true);
    for row in out {
        keep.set_bit(row, false);
    }
    BooleanArray::new(keep.finish(), None)
}

/// The only value of an array, in every row.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef, arrow::error::ArrowError> {
    arrow::compute::take(value, &UInt32Array::from(vec![0; rows]), None)
}
