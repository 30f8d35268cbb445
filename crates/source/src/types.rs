//! The types of columns: the names a job gives them, the forms in which batches carry them, and which of them can be widened
//! into which without losing anything.
//!
//! Batches carry text as `Utf8View` and bytes as `BinaryView`, because the Parquet reader makes views without copying the
//! bytes and the Parquet writer takes them as they are. They never carry dictionaries: two files with the same column, one
//! with a dictionary and one without, have the same schema.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};

use crate::names;

/// The time zone of `timestamptz`, spelled as Iceberg's Arrow schemas spell it.
const UTC: &str = "+00:00";

const NAMES: [&str; 12] = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal(p,s)",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "binary",
];

/// `timestamptz`.
pub(crate) fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

/// The type that has this Iceberg name, or what is wrong with the name.
pub(crate) fn from_name(name: &str) -> Result<DataType, String> {
    let spelled: String = name.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
    Ok(match spelled.as_str() {
        "boolean" => DataType::Boolean,
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => timestamptz(),
        "string" => DataType::Utf8View,
        "binary" => DataType::BinaryView,
        other => return decimal(other).ok_or_else(|| unknown(name)),
    })
}

fn decimal(name: &str) -> Option<DataType> {
    let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale): (u8, i8) = (precision.parse().ok()?, scale.parse().ok()?);
    let fits = (1..=38).contains(&precision) && scale >= 0 && scale.unsigned_abs() <= precision;
    fits.then_some(DataType::Decimal128(precision, scale))
}

fn unknown(name: &str) -> String {
    if name.trim_start().to_lowercase().starts_with("decimal") {
        return format!("`{name}` is not a decimal type: write `decimal(p,s)` with p from 1 to 38 and s from 0 to p");
    }
    let near = names::nearest(name, NAMES);
    format!("`{name}` is not a type{}", names::hint(&near))
}

/// What a type is called in messages: its Iceberg name where it has one.
pub(crate) fn name_of(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "long".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Date32 => "date".to_owned(),
        DataType::Time64(TimeUnit::Microsecond) => "time".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamptz".to_owned(),
        DataType::Utf8View => "string".to_owned(),
        DataType::BinaryView => "binary".to_owned(),
        other => other.to_string(),
    }
}

/// The form in which batches carry a type: views for text and bytes, the values of dictionaries and runs; inside nested
/// types too.
pub(crate) fn normalised(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(normalised(field.data_type())));
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::BinaryView,
        DataType::Dictionary(_, values) => normalised(values),
        DataType::RunEndEncoded(_, values) => normalised(values.data_type()),
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Fields>()),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => other.clone(),
    }
}

/// A field as batches carry it: [`normalised`], and with the metadata that says what the column *means* (an Arrow extension
/// type), but not that which says where it came from (field ids of another table).
pub(crate) fn carried(field: &Field) -> Field {
    let metadata = field.metadata().iter().filter(|(key, _)| key.starts_with("ARROW:extension:"));
    let metadata = metadata.map(|(key, value)| (key.clone(), value.clone())).collect();
    Field::new(field.name(), without_origin(&normalised(field.data_type())), field.is_nullable())
        .with_metadata(metadata)
}

/// The same type without metadata on the fields inside it.
fn without_origin(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(carried(field));
    match data_type {
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(inner(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Fields>()),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        other => other.clone(),
    }
}

/// The scalar type that a text column can be converted to so that it fits a declared field; `None` for types that text
/// cannot be read as.
pub(crate) fn readable_as(data_type: &DataType) -> Option<DataType> {
    Some(match normalised(data_type) {
        kept @ (DataType::Boolean
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Utf8View
        | DataType::BinaryView) => kept,
        DataType::Decimal128(precision, scale) if scale >= 0 => DataType::Decimal128(precision, scale),
        DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(_, Some(_)) => timestamptz(),
        _ => return None,
    })
}

/// Whether every value of `from` is a value of `to`.
pub(crate) fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Date32, Decimal128, Float16, Float32, Float64, Int8, Int16, Int32, Int64, Null, Time32, Time64, Timestamp,
        UInt8, UInt16, UInt32,
    };
    match (from, to) {
        (a, b) if a == b => true,
        (Null, _) => true,
        (Int8 | Int16 | UInt8 | UInt16, Int32 | Int64 | Float32 | Float64) => true,
        (Int32, Int64 | Float64) => true,
        (UInt32, Int64 | Float64) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Int8 | Int16 | UInt8 | UInt16 | Int32 | UInt32 | Int64, Decimal128(precision, scale)) => {
            let digits = match from {
                Int8 | UInt8 => 3,
                Int16 | UInt16 => 5,
                Int32 | UInt32 => 10,
                _ => 19,
            };
            i16::from(*precision) - i16::from(*scale) >= digits
        }
        (Decimal128(p1, s1), Decimal128(p2, s2)) => {
            s2 >= s1 && i16::from(*p2) - i16::from(*s2) >= i16::from(*p1) - i16::from(*s1)
        }
        // One instant, another spelling of UTC or a coarser unit made finer.
        (Timestamp(unit, Some(_)), Timestamp(to, Some(_))) | (Timestamp(unit, None), Timestamp(to, None)) => {
            fineness(unit) <= fineness(to)
        }
        (Date32, Timestamp(_, None)) => true,
        (Time32(unit) | Time64(unit), Time64(to)) => fineness(unit) <= fineness(to),
        _ => false,
    }
}

fn fineness(unit: &TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("long", DataType::Int64)]
    #[case("LONG", DataType::Int64)]
    #[case("decimal(9, 2)", DataType::Decimal128(9, 2))]
    #[case("decimal(38,38)", DataType::Decimal128(38, 38))]
    #[case("timestamptz", timestamptz())]
    #[case("string", DataType::Utf8View)]
    fn a_type_has_the_name_iceberg_gives_it(#[case] name: &str, #[case] expected: DataType) {
        assert_eq!(from_name(name), Ok(expected));
    }

    #[rstest]
    #[case("lang", "`lang` is not a type: the nearest names are `long`, ")]
    #[case("decimal(39,2)", "write `decimal(p,s)`")]
    #[case("decimal(4,5)", "write `decimal(p,s)`")]
    #[case("decimal", "write `decimal(p,s)`")]
    #[case("varchar", "`varchar` is not a type")]
    fn an_unknown_type_is_refused_with_the_nearest(#[case] name: &str, #[case] message: &str) {
        let problem = from_name(name).unwrap_err();
        assert!(problem.contains(message), "{problem}");
    }

    #[test]
    fn every_name_of_a_type_leads_back_to_it() {
        for name in NAMES {
            let name = name.replace("(p,s)", "(9,2)");
            let data_type = from_name(&name).unwrap();
            assert_eq!(name_of(&data_type), name);
        }
    }

    #[test]
    fn dictionaries_and_offsets_disappear_at_any_depth() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8));
        let list = DataType::List(Arc::new(Field::new("item", dictionary, true)));
        let nested = DataType::Struct(Fields::from(vec![Field::new("tags", list, false)]));
        let expected = DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true)));
        let expected = DataType::Struct(Fields::from(vec![Field::new("tags", expected, false)]));
        assert_eq!(normalised(&nested), expected);
    }

    #[rstest]
    #[case(DataType::Int32, DataType::Int64, true)]
    #[case(DataType::Int64, DataType::Int32, false)]
    #[case(DataType::Int64, DataType::Float64, false)]
    #[case(DataType::Float64, DataType::Int64, false)]
    #[case(DataType::UInt64, DataType::Int64, false)]
    #[case(DataType::Int64, DataType::Decimal128(38, 10), true)]
    #[case(DataType::Int64, DataType::Decimal128(20, 2), false)]
    #[case(DataType::Decimal128(9, 2), DataType::Decimal128(12, 3), true)]
    #[case(DataType::Decimal128(9, 2), DataType::Decimal128(9, 3), false)]
    #[case(DataType::Timestamp(TimeUnit::Nanosecond, None), DataType::Timestamp(TimeUnit::Microsecond, None), false)]
    #[case(DataType::Timestamp(TimeUnit::Millisecond, None), DataType::Timestamp(TimeUnit::Microsecond, None), true)]
    #[case(DataType::Timestamp(TimeUnit::Microsecond, None), timestamptz(), false)]
    fn only_what_loses_nothing_is_widened(#[case] from: DataType, #[case] to: DataType, #[case] expected: bool) {
        assert_eq!(widens(&from, &to), expected);
    }
}
