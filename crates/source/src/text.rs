//! Values written as text: how each type is read, and columns of text turned into columns of values.
//!
//! The rules are strict, because a value that is read wrongly is worse than one that is refused. Numbers are finite and have
//! no blanks or thousands separators; dates and times are ISO 8601; a `timestamp` has no zone and a `timestamptz` has one; a
//! decimal does not lose digits. What cannot be read becomes null and is reported with its row, for the caller to reject.
//! (Arrow's own parsers are more generous: `NaN` and `inf` are floats, excess digits are rounded away, and a zone on a naive
//! timestamp is applied without a word.)

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder, BooleanBuilder, PrimitiveBuilder, StringViewBuilder, make_builder};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Reads a column of text as `target`, one of the types of [`readable_as`](crate::types::readable_as). For each value that
/// cannot be read, `unreadable` is called with its row and text, and the value is null.
pub(crate) fn column<'a>(
    values: impl ExactSizeIterator<Item = Option<&'a str>>,
    target: &DataType,
    decimal_mark: u8,
    unreadable: &mut dyn FnMut(usize, &str),
) -> ArrayRef {
    match target {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(values.len());
            each(values, boolean, unreadable, |value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        DataType::Int32 => primitive::<Int32Type>(values, target, integer, unreadable),
        DataType::Int64 => primitive::<Int64Type>(values, target, integer, unreadable),
        DataType::Float32 => {
            let parse = |text: &str| float::<f32>(text, decimal_mark).filter(|value| value.is_finite());
            primitive::<Float32Type>(values, target, parse, unreadable)
        }
        DataType::Float64 => {
            let parse = |text: &str| float::<f64>(text, decimal_mark).filter(|value| value.is_finite());
            primitive::<Float64Type>(values, target, parse, unreadable)
        }
        DataType::Decimal128(precision, scale) => {
            let parse = |text: &str| decimal(text, *precision, scale.unsigned_abs(), decimal_mark);
            primitive::<Decimal128Type>(values, target, parse, unreadable)
        }
        DataType::Date32 => primitive::<Date32Type>(values, target, date, unreadable),
        DataType::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(values, target, time, unreadable),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            primitive::<TimestampMicrosecondType>(values, target, timestamp, unreadable)
        }
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            primitive::<TimestampMicrosecondType>(values, target, timestamptz, unreadable)
        }
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(values.len());
            values.for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(values.len());
            each(values, hexadecimal, unreadable, |value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        // Not a type of `readable_as`: an empty column, which no schema takes for one with rows.
        other => make_builder(other, 0).finish(),
    }
}

fn primitive<'a, T: ArrowPrimitiveType>(
    values: impl ExactSizeIterator<Item = Option<&'a str>>,
    target: &DataType,
    parse: impl Fn(&str) -> Option<T::Native>,
    unreadable: &mut dyn FnMut(usize, &str),
) -> ArrayRef {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(values.len()).with_data_type(target.clone());
    each(values, parse, unreadable, |value| builder.append_option(value));
    Arc::new(builder.finish())
}

fn each<'a, T>(
    values: impl Iterator<Item = Option<&'a str>>,
    parse: impl Fn(&str) -> Option<T>,
    unreadable: &mut dyn FnMut(usize, &str),
    mut append: impl FnMut(Option<T>),
) {
    for (row, text) in values.enumerate() {
        let value = text.and_then(|text| {
            let value = parse(text);
            if value.is_none() {
                unreadable(row, text);
            }
            value
        });
        append(value);
    }
}

/// `true` or `false`, in upper or lower case.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// Decimal digits with an optional sign. Leading zeros are fine where the job says that the column is a number.
fn integer<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// A number in decimal or exponent form. The result may be infinite.
fn float<T: FromStr>(text: &str, decimal_mark: u8) -> Option<T> {
    let numeric = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'e' | b'E') || byte == decimal_mark;
    if !text.bytes().all(numeric) {
        return None; // among others the words for infinity and for what is not a number
    }
    if decimal_mark == b'.' { text.parse().ok() } else { text.replace(char::from(decimal_mark), ".").parse().ok() }
}

/// A finite number with a decimal point.
pub(crate) fn double(text: &str) -> Option<f64> {
    float::<f64>(text, b'.').filter(|value| value.is_finite())
}

/// A decimal number as its unscaled value, if it fits without losing a digit.
fn decimal(text: &str, precision: u8, scale: u8, decimal_mark: u8) -> Option<i128> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let mut value: i128 = 0;
    let mut fraction: Option<u8> = None;
    let mut any = false;
    for &byte in digits {
        if byte == decimal_mark && fraction.is_none() {
            fraction = Some(0);
        } else if byte.is_ascii_digit() {
            any = true;
            match &mut fraction {
                Some(places) if *places == scale => {
                    if byte != b'0' {
                        return None;
                    }
                    continue;
                }
                Some(places) => *places += 1,
                None => {}
            }
            value = value.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
        } else {
            return None;
        }
    }
    for _ in fraction.unwrap_or(0)..scale {
        value = value.checked_mul(10)?;
    }
    let fits = any && value < 10_i128.checked_pow(u32::from(precision))?;
    fits.then_some(if negative { -value } else { value })
}

/// `YYYY-MM-DD`, as days since 1970-01-01.
pub(crate) fn date(text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let (year, month, day) = (digits(&bytes[..4])?, digits(&bytes[5..7])?, digits(&bytes[8..])?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Days from the civil calendar, with years that begin in March: H. Hinnant, "chrono-compatible low-level date algorithms".
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

/// `HH:MM:SS` with at most nine decimals, as microseconds since midnight. What is finer than a microsecond is cut.
fn time(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (clock, fraction) = if bytes.len() > 8 { bytes.split_at(8) } else { (bytes, &b""[..]) };
    if clock.len() != 8 || clock[2] != b':' || clock[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (digits(&clock[..2])?, digits(&clock[3..5])?, digits(&clock[6..])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let micros = match fraction {
        [] => 0,
        [b'.' | b',', decimals @ ..] if (1..=9).contains(&decimals.len()) => {
            let mut micros = i64::from(digits(&decimals[..decimals.len().min(6)])?);
            for _ in decimals.len()..6 {
                micros *= 10;
            }
            digits(&decimals[decimals.len().min(6)..])?;
            micros
        }
        _ => return None,
    };
    Some(i64::from(hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + micros)
}

/// A date, or a date and a time with `T` or a blank between them and no zone: microseconds since 1970-01-01T00:00:00.
pub(crate) fn timestamp(text: &str) -> Option<i64> {
    if text.len() == 10 {
        return Some(i64::from(date(text)?) * SECONDS_PER_DAY * MICROS_PER_SECOND);
    }
    let (day, clock) = (text.get(..10)?, text.get(11..)?);
    if !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
        return None;
    }
    Some(i64::from(date(day)?) * SECONDS_PER_DAY * MICROS_PER_SECOND + time(clock)?)
}

/// A date, a time and a zone (`Z`, `+hh`, `+hhmm` or `+hh:mm`, perhaps after a blank): microseconds since
/// 1970-01-01T00:00:00Z.
pub(crate) fn timestamptz(text: &str) -> Option<i64> {
    let start = 19 + text.get(19..)?.find(['Z', 'z', '+', '-', ' '])?;
    let (local, zone) = text.split_at(start);
    let zone = zone.strip_prefix(' ').unwrap_or(zone);
    let offset = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, rest @ ..] => {
            let minutes = match rest {
                [] => 0,
                [m1, m2] | [b':', m1, m2] => digits(&[*m1, *m2])?,
                _ => return None,
            };
            let hours = digits(&[*h1, *h2])?;
            if hours > 23 || minutes > 59 {
                return None;
            }
            let offset = i64::from(hours * 3600 + minutes * 60);
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    Some(timestamp(local)? - offset * MICROS_PER_SECOND)
}

/// The bytes that an even number of hexadecimal digits stand for.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// At most nine decimal digits, as a number.
fn digits(bytes: &[u8]) -> Option<i32> {
    bytes.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i32::from(byte - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;
    use arrow::array::{Array, AsArray};
    use arrow::util::display::array_value_to_string;
    use rstest::rstest;

    fn read(text: &str, type_name: &str, decimal_mark: u8) -> Option<String> {
        let target = types::from_name(type_name).unwrap();
        let mut unreadable = Vec::new();
        let array = column([Some(text)].into_iter(), &target, decimal_mark, &mut |row, text: &str| {
            unreadable.push((row, text.to_owned()));
        });
        assert_eq!(array.data_type(), &target);
        assert_eq!(array.len(), 1);
        if array.is_null(0) {
            assert_eq!(unreadable, [(0, text.to_owned())]);
            return None;
        }
        assert!(unreadable.is_empty());
        Some(array_value_to_string(&array, 0).unwrap())
    }

    #[rstest]
    #[case("true", "boolean", Some("true"))]
    #[case("FALSE", "boolean", Some("false"))]
    #[case("1", "boolean", None)]
    #[case("yes", "boolean", None)]
    #[case("2147483647", "int", Some("2147483647"))]
    #[case("2147483648", "int", None)]
    #[case("01569", "long", Some("1569"))]
    #[case("-9223372036854775808", "long", Some("-9223372036854775808"))]
    #[case("9223372036854775808", "long", None)]
    #[case("1.0", "long", None)]
    #[case(" 1", "long", None)]
    #[case("48.137", "double", Some("48.137"))]
    #[case("-1e3", "double", Some("-1000.0"))]
    #[case("NaN", "double", None)]
    #[case("inf", "double", None)]
    #[case("1e400", "double", None)]
    #[case("3e38", "float", Some("3e38"))]
    #[case("4e38", "float", None)]
    #[case("48°08′N", "double", None)]
    #[case("48,137", "double", None)]
    #[case("", "double", None)]
    #[case("1.50", "decimal(9,2)", Some("1.50"))]
    #[case("-0.5", "decimal(9,2)", Some("-0.50"))]
    #[case("1.500", "decimal(9,2)", Some("1.50"))]
    #[case("1.505", "decimal(9,2)", None)]
    #[case("9999999.99", "decimal(9,2)", Some("9999999.99"))]
    #[case("10000000", "decimal(9,2)", None)]
    #[case("99999999999999999999999999999999999999", "decimal(38,0)", Some("99999999999999999999999999999999999999"))]
    #[case("999999999999999999999999999999999999999999", "decimal(38,0)", None)]
    #[case(".", "decimal(9,2)", None)]
    #[case("1970-01-01", "date", Some("1970-01-01"))]
    #[case("1969-12-31", "date", Some("1969-12-31"))]
    #[case("2024-02-29", "date", Some("2024-02-29"))]
    #[case("2023-02-29", "date", None)]
    #[case("1900-02-29", "date", None)]
    #[case("2024-13-01", "date", None)]
    #[case("2024-1-1", "date", None)]
    #[case("0000-03-01", "date", Some("0000-03-01"))]
    #[case("9999-12-31", "date", Some("9999-12-31"))]
    #[case("23:59:59.999999", "time", Some("23:59:59.999999"))]
    #[case("24:00:00", "time", None)]
    #[case("12:00:60", "time", None)]
    #[case("2024-05-06T07:08:09", "timestamp", Some("2024-05-06T07:08:09"))]
    #[case("2024-05-06 07:08:09.5", "timestamp", Some("2024-05-06T07:08:09.500"))]
    #[case("2024-05-06T07:08:09.123456789", "timestamp", Some("2024-05-06T07:08:09.123456"))]
    #[case("1969-12-31T23:59:59.999999", "timestamp", Some("1969-12-31T23:59:59.999999"))]
    #[case("2024-05-06", "timestamp", Some("2024-05-06T00:00:00"))]
    #[case("2024-05-06T07:08:09Z", "timestamp", None)]
    #[case("2024-05-06T07:08:09Z", "timestamptz", Some("2024-05-06T07:08:09Z"))]
    #[case("2024-05-06T07:08:09+02:00", "timestamptz", Some("2024-05-06T05:08:09Z"))]
    #[case("2024-05-06 07:08:09.25 -0330", "timestamptz", Some("2024-05-06T10:38:09.250Z"))]
    #[case("2024-05-06T07:08:09", "timestamptz", None)]
    #[case("2024-05-06T07:08:09+99:00", "timestamptz", None)]
    #[case("2024-05-06T07:08:0é", "timestamptz", None)]
    #[case("0001ff", "binary", Some("0001ff"))]
    #[case("0001f", "binary", None)]
    #[case("zz", "binary", None)]
    fn a_text_is_read_as_its_type_or_not_at_all(
        #[case] text: &str,
        #[case] type_name: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(read(text, type_name, b'.').as_deref(), expected);
    }

    #[rstest]
    #[case("48,137", "double", Some("48.137"))]
    #[case("48.137", "double", None)]
    #[case("1.048,5", "double", None)]
    #[case("-0,5", "decimal(9,2)", Some("-0.50"))]
    fn a_decimal_comma_takes_the_place_of_the_point(
        #[case] text: &str,
        #[case] type_name: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(read(text, type_name, b',').as_deref(), expected);
    }

    #[test]
    fn every_day_follows_the_one_before_it() {
        let mut expected = date("1582-10-15").unwrap();
        for year in 1582..2500 {
            for month in 1..=12 {
                for day in 1..=31 {
                    if let Some(days) = date(&format!("{year:04}-{month:02}-{day:02}"))
                        && days > date("1582-10-15").unwrap()
                    {
                        expected += 1;
                        assert_eq!(days, expected, "{year}-{month}-{day}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_null_stays_null_and_is_not_reported() {
        let values = [Some("1"), None, Some("x")];
        let mut rows = Vec::new();
        let array = column(values.into_iter(), &DataType::Int64, b'.', &mut |row, _| rows.push(row));
        let array = array.as_primitive::<Int64Type>();
        assert_eq!(array.iter().collect::<Vec<_>>(), [Some(1), None, None]);
        assert_eq!(rows, [2]);
    }
}
