//! Arrow types of the input, and the types they have in the table.
//!
//! Iceberg knows fewer types than Arrow. Times are in microseconds: finer ones are rounded down, before 1970 too. A zoned
//! timestamp becomes one in UTC and a naive one stays naive. Small and unsigned integers widen.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::CastOptions;
use arrow::datatypes::{
    DataType, Field, FieldRef, Fields, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use arrow::error::ArrowError;

/// How Iceberg names UTC in Arrow.
const UTC: &str = "+00:00";

/// The type a column of the input gets in a new table.
///
/// # Errors
///
/// What is wrong with the type, for a message that names the column.
pub(crate) fn table_type(input: &DataType) -> Result<DataType, String> {
    let unsupported = |why: &str| Err(format!("has the type {input}, {why}"));
    Ok(match input {
        DataType::Boolean | DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64 => input.clone(),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(_, Some(_)) => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        // A column without any value can be anything; text holds whatever comes later.
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::LargeBinary,
        DataType::FixedSizeBinary(_) => input.clone(),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            if *precision > 38 || *scale < 0 {
                return unsupported("and Iceberg's decimals have at most 38 digits and no negative scale");
            }
            DataType::Decimal128(*precision, *scale)
        }
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => DataType::List(table_field(element, "element")?),
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| table_field(field, field.name()));
            DataType::Struct(fields.collect::<Result<Fields, String>>()?)
        }
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                let pair = Fields::from(vec![table_field(&pair[0], "key")?, table_field(&pair[1], "value")?]);
                let entries = Field::new("key_value", DataType::Struct(pair), false);
                DataType::Map(Arc::new(entries), *sorted)
            }
            _ => return unsupported("which is not a map of keys and values"),
        },
        DataType::Dictionary(_, values) => table_type(values)?,
        DataType::RunEndEncoded(_, values) => table_type(values.data_type())?,
        DataType::Duration(_) | DataType::Interval(_) | DataType::Union(_, _) => {
            return unsupported("which Iceberg does not have");
        }
    })
}

fn table_field(field: &FieldRef, name: &str) -> Result<FieldRef, String> {
    Ok(Arc::new(Field::new(name, table_type(field.data_type())?, field.is_nullable())))
}

/// Whether values of a type that [`table_type`] gave can go into a column of `column` type without losing anything.
pub(crate) fn fits(value: &DataType, column: &DataType) -> bool {
    match (value, column) {
        (DataType::Int32, DataType::Int64) | (DataType::Float32, DataType::Float64) => true,
        (DataType::Decimal128(from, from_scale), DataType::Decimal128(to, to_scale)) => {
            from_scale == to_scale && from <= to
        }
        (DataType::List(one), DataType::List(other)) => fits(one.data_type(), other.data_type()),
        (DataType::Struct(one), DataType::Struct(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| one.name() == other.name() && fits(one.data_type(), other.data_type()))
        }
        (DataType::Map(one, _), DataType::Map(other, _)) => fits(one.data_type(), other.data_type()),
        (one, other) => one == other,
    }
}

/// The type in which a column is handed to the Parquet writer: text and bytes stay views, which share their buffers.
pub(crate) fn writing_type(input: Option<&DataType>, table: &DataType) -> DataType {
    match (input, table) {
        (Some(DataType::Utf8View), DataType::Utf8) => DataType::Utf8View,
        (Some(DataType::BinaryView), DataType::LargeBinary) => DataType::BinaryView,
        _ => table.clone(),
    }
}

/// The values of `array` as `target`, a type that its table type fits.
pub(crate) fn convert(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), target) {
        (DataType::Timestamp(TimeUnit::Nanosecond, _), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            let nanos = array.as_primitive::<TimestampNanosecondType>();
            let micros = nanos.unary::<_, TimestampMicrosecondType>(|nanos| nanos.div_euclid(1_000));
            Ok(Arc::new(micros.with_timezone_opt(zone.clone())))
        }
        (DataType::Time64(TimeUnit::Nanosecond), DataType::Time64(TimeUnit::Microsecond)) => {
            let nanos = array.as_primitive::<Time64NanosecondType>();
            Ok(Arc::new(nanos.unary::<_, Time64MicrosecondType>(|nanos| nanos.div_euclid(1_000))))
        }
        // Times within lists and structs go the long way, so that they are rounded down as well.
        (DataType::List(_), DataType::List(element)) => {
            let list = array.as_list::<i32>();
            let values = convert(list.values(), element.data_type())?;
            let (_, offsets, _, nulls) = list.clone().into_parts();
            Ok(Arc::new(arrow::array::ListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let (_, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().zip(fields).map(|(column, field)| convert(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(arrow::array::StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?))
        }
        (DataType::Map(_, _), DataType::Map(entries, sorted)) => {
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs: ArrayRef = Arc::new(pairs);
            let pairs = convert(&pairs, entries.data_type())?;
            let pairs = pairs.as_struct().clone();
            Ok(Arc::new(arrow::array::MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?))
        }
        (DataType::Dictionary(_, values), _) => {
            let values: &DataType = values;
            convert(&arrow::compute::cast(array, values)?, target)
        }
        _ => arrow::compute::cast_with_options(array, target, &CastOptions { safe: false, ..CastOptions::default() }),
    }
}

/// Like [`convert`], with null for a value that does not fit; `None` for nested values, where such a null could not be seen.
pub(crate) fn convert_fitting(array: &ArrayRef, target: &DataType) -> Option<ArrayRef> {
    if array.data_type().is_nested() {
        return None;
    }
    arrow::compute::cast_with_options(array, target, &CastOptions { safe: true, ..CastOptions::default() }).ok()
}

/// What a type that a value does not fit into is called in the table.
pub(crate) fn name_in_table(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 | DataType::Utf8View => "string".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "binary".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Time64(_) => "time".to_owned(),
        DataType::Timestamp(_, None) => "timestamp".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamptz".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array};
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(1_500, 1)]
    #[case(-1, -1)]
    #[case(-1_000, -1)]
    #[case(-1_001, -2)]
    fn nanoseconds_round_down_before_1970_too(#[case] nanos: i64, #[case] micros: i64) {
        let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![nanos]));
        let converted = convert(&array, &DataType::Timestamp(TimeUnit::Microsecond, None)).unwrap();
        assert_eq!(converted.as_primitive::<TimestampMicrosecondType>().value(0), micros);
    }

    #[test]
    fn zoned_and_naive_timestamps_are_kept_apart() {
        let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("Europe/Oslo".into()));
        assert_eq!(table_type(&zoned), Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))));
        let naive = DataType::Timestamp(TimeUnit::Second, None);
        assert_eq!(table_type(&naive), Ok(DataType::Timestamp(TimeUnit::Microsecond, None)));
        let array: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![-1]).with_timezone("Europe/Oslo"));
        let converted = convert(&array, &table_type(&zoned).unwrap()).unwrap();
        assert_eq!(converted.as_primitive::<TimestampMicrosecondType>().value(0), -1_000);
    }

    #[test]
    fn an_unsigned_number_that_does_not_fit_is_an_error_and_never_null() {
        let array: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
        assert!(convert(&array, &DataType::Int64).is_err());
        let array: ArrayRef = Arc::new(UInt64Array::from(vec![1, 2]));
        let expected: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        assert_eq!(&convert(&array, &DataType::Int64).unwrap(), &expected);
    }

    #[test]
    fn what_iceberg_does_not_have_is_refused() {
        for input in [
            DataType::Duration(TimeUnit::Second),
            DataType::Decimal256(60, 2),
            DataType::Decimal128(10, -2),
            DataType::List(Arc::new(Field::new("item", DataType::Duration(TimeUnit::Second), true))),
        ] {
            assert!(table_type(&input).is_err(), "{input}");
        }
    }

    #[test]
    fn text_within_lists_and_structs_is_converted_too() {
        let inner = StringViewArray::from(vec!["a", "b"]);
        let fields = Fields::from(vec![Field::new("s", DataType::Utf8View, true)]);
        let array: ArrayRef = Arc::new(arrow::array::StructArray::new(fields, vec![Arc::new(inner)], None));
        let target = table_type(array.data_type()).unwrap();
        let converted = convert(&array, &target).unwrap();
        assert_eq!(converted.as_struct().column(0).as_string::<i32>().value(1), "b");
    }
}
