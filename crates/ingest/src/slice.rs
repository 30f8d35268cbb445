//! The slice of a table that a batch owns: values of some columns.
//!
//! In a job a value is text, a number, a truth value or a date; what it is in the table depends on the column's type. Its
//! text is part of the batch id, so it is the same whatever the type.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Field, Schema};
use hexfloe_batch::BatchId;
use hexfloe_commit::Keys;

use crate::Error;
use crate::job::SliceValue;
use crate::keys;

/// What stands for the date of the run.
const RUN_DATE: &str = "$run_date";

/// The slice of a batch. Columns are ascending by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    columns: Vec<SliceColumn>,
    /// Whether it is what the batch id is made of.
    is_identity: bool,
}

/// One of its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SliceColumn {
    pub(crate) name: String,
    /// The value's text.
    pub(crate) text: String,
    /// The type the value has by itself: that of the column in a table that is made for it.
    natural: DataType,
}

impl Slice {
    /// The slice that a job names, for a run of a date. `is_identity` says that the batch id is made of it.
    pub(crate) fn new(
        values: &BTreeMap<String, SliceValue>,
        run_date: Option<&str>,
        is_identity: bool,
    ) -> Result<Self, Error> {
        let mut columns = Vec::new();
        for (name, value) in values {
            let (text, natural) = match value {
                SliceValue::Text(text) if text == RUN_DATE => {
                    let date = run_date.ok_or_else(|| {
                        Error::Job(format!(
                            "table.slice.{name} is {RUN_DATE}: pass the date with --run-date YYYY-MM-DD"
                        ))
                    })?;
                    (date.to_owned(), DataType::Date32)
                }
                // Taken as text, a misspelt name would be one and the same slice in every run.
                SliceValue::Text(text) if text.starts_with('$') => return Err(unknown_name(name, text)),
                SliceValue::Text(text) => (text.clone(), DataType::Utf8),
                SliceValue::Integer(integer) => (integer.to_string(), DataType::Int64),
                SliceValue::Boolean(boolean) => (boolean.to_string(), DataType::Boolean),
                SliceValue::Date(date) => (date.to_string(), DataType::Date32),
            };
            columns.push(SliceColumn { name: name.clone(), text, natural });
        }
        if columns.is_empty() {
            return Err(Error::Job(
                "table.mode = \"slice\" needs table.slice, such as slice = { run_date = \"$run_date\" }".to_owned(),
            ));
        }
        Ok(Self { columns, is_identity })
    }

    /// The batch that owns it.
    pub(crate) fn batch_id(&self, source: &str) -> BatchId {
        BatchId::slice_of(source, self.columns.iter().map(|column| (column.name.as_str(), column.text.as_str())))
    }

    pub(crate) fn column(&self, name: &str) -> Option<&SliceColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The columns that `input` lacks, as a new table gets them.
    pub(crate) fn missing_from(&self, input: &Schema) -> Vec<Field> {
        let missing = self.columns.iter().filter(|column| input.index_of(&column.name).is_err());
        missing.map(|column| Field::new(&column.name, column.natural.clone(), true)).collect()
    }

    /// Whether a column that the source lacks may be filled in. If the id did not tell the slice, the same input would be the
    /// same batch in every slice, and all but the first would be skipped.
    pub(crate) fn refuse_unknown_to_id(&self, column: &str) -> Result<(), Error> {
        if self.is_identity {
            return Ok(());
        }
        Err(Error::Mismatch(format!(
            "table.slice: the source has no column `{column}`; it is filled in with batch.granularity = \"slice\" only, where \
             the batch id is made of it"
        )))
    }

    /// The slice in the types of a table, to find its rows by.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] when the table lacks a column, or the column cannot have the value.
    pub(crate) fn keys(&self, table: &Schema) -> Result<Keys, Error> {
        let mut arrays: Vec<(&str, ArrayRef)> = Vec::new();
        for column in &self.columns {
            let field = table.field_with_name(&column.name).map_err(|_| {
                Error::Mismatch(format!(
                    "table.slice: the table has no column `{}`: add it to the table with another engine, or write to another \
                     table",
                    column.name
                ))
            })?;
            arrays.push((&column.name, column.value(field.data_type())?));
        }
        let keys = RecordBatch::try_from_iter(arrays).map_err(Error::arrow("write the slice down"))?;
        Ok(Keys(keys))
    }
}

fn unknown_name(column: &str, text: &str) -> Error {
    let near = if strsim::jaro_winkler(&text.to_lowercase(), RUN_DATE) > 0.8 {
        format!("did you mean {RUN_DATE}?")
    } else {
        format!("there is {RUN_DATE} alone, and no value begins with $")
    };
    Error::Job(format!("table.slice.{column} is {text:?}, which stands for nothing: {near}"))
}

impl SliceColumn {
    /// The value as one of a column of the table.
    pub(crate) fn value(&self, data_type: &DataType) -> Result<ArrayRef, Error> {
        let Self { name, text, .. } = self;
        keys::refuse_type("table.slice", name, data_type)?;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let given: ArrayRef = Arc::new(StringArray::from(vec![text.as_str()]));
        let value = arrow::compute::cast_with_options(&given, data_type, &options);
        value.map_err(|_| {
            Error::Mismatch(format!(
                "table.slice: {text:?} is no value of the column `{name}`, which is {}",
                crate::types::name_in_table(data_type)
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, BooleanArray, Date32Array, Int32Array, StringViewArray};
    use rstest::rstest;

    use super::*;

    fn slice(values: &[(&str, SliceValue)], run_date: Option<&str>) -> Result<Slice, Error> {
        Slice::new(&values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(), run_date, true)
    }

    fn text(text: &str) -> SliceValue {
        SliceValue::Text(text.to_owned())
    }

    fn of(value: SliceValue) -> SliceColumn {
        slice(&[("c", value)], None).unwrap().columns.remove(0)
    }

    #[rstest]
    #[case(text("2026-08-11"), Arc::new(Date32Array::from(vec![20_676])))]
    #[case(SliceValue::Integer(-7), Arc::new(Int32Array::from(vec![-7])))]
    #[case(text("-7"), Arc::new(Int32Array::from(vec![-7])))]
    #[case(SliceValue::Integer(7), Arc::new(StringViewArray::from(vec!["7"])))]
    #[case(SliceValue::Boolean(true), Arc::new(BooleanArray::from(vec![true])))]
    fn a_value_becomes_one_of_the_columns_type(#[case] value: SliceValue, #[case] expected: ArrayRef) {
        assert_eq!(&of(value).value(expected.data_type()).unwrap(), &expected);
    }

    #[rstest]
    #[case(text("yesterday"), DataType::Date32, "\"yesterday\" is no value of the column `c`, which is")]
    #[case(SliceValue::Integer(1 << 40), DataType::Int32, "is no value of the column `c`")]
    #[case(text("1.5"), DataType::Float64, "is double, and cannot be compared")]
    #[case(text("00"), DataType::LargeBinary, "cannot be compared")]
    fn a_value_that_the_column_cannot_have_is_refused(
        #[case] value: SliceValue,
        #[case] data_type: DataType,
        #[case] message: &str,
    ) {
        let error = of(value).value(&data_type).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Configuration);
        assert!(error.to_string().contains(message), "{error}");
    }

    #[test]
    fn the_date_of_the_run_is_a_date_and_the_same_slice_as_its_text() {
        let by_run = slice(&[("day", text(RUN_DATE))], Some("2026-08-11")).unwrap();
        let by_text = slice(&[("day", text("2026-08-11"))], None).unwrap();
        assert_eq!(by_run.batch_id("s"), by_text.batch_id("s"));
        assert_eq!(by_run.batch_id("s"), BatchId::slice("s", "day", "2026-08-11"));
        let natural = |slice: &Slice| slice.missing_from(&Schema::empty())[0].data_type().clone();
        assert_eq!((natural(&by_run), natural(&by_text)), (DataType::Date32, DataType::Utf8));
        let error = slice(&[("day", text(RUN_DATE))], None).unwrap_err().to_string();
        assert!(error.contains("table.slice.day") && error.contains("--run-date"), "{error}");
    }

    #[rstest]
    #[case("$run-date", "did you mean $run_date?")]
    #[case("$RUN_DATE", "did you mean $run_date?")]
    #[case("$rundate", "did you mean $run_date?")]
    #[case("$country", "there is $run_date alone")]
    #[case("$", "there is $run_date alone")]
    fn a_name_that_stands_for_nothing_is_refused(#[case] value: &str, #[case] message: &str) {
        let error = slice(&[("day", text(value))], Some("2026-08-11")).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Configuration);
        let error = error.to_string();
        assert!(error.contains("table.slice.day") && error.contains(value) && error.contains(message), "{error}");
    }

    #[test]
    fn the_keys_of_a_slice_are_one_row_of_the_tables_types() {
        let slice = slice(&[("zone", SliceValue::Integer(3)), ("day", text("2026-08-11"))], None).unwrap();
        let table = Schema::new(vec![
            Field::new("zone", DataType::Utf8, true),
            Field::new("id", DataType::Int64, true),
            Field::new("day", DataType::Date32, true),
        ]);
        let Keys(keys) = slice.keys(&table).unwrap();
        assert_eq!(
            keys.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
            ["day", "zone"]
        );
        assert_eq!((keys.num_rows(), keys.column(1).as_string::<i32>().value(0)), (1, "3"));
        let error = slice.keys(&Schema::empty()).unwrap_err().to_string();
        assert!(error.contains("no column `day`"), "{error}");
    }
}
