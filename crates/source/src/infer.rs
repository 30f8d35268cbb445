//! The type of a column of text, from all of its values.
//!
//! What has been seen is a set, and the type is a function of that set: neither the order of rows or files nor the size of
//! batches can change it. There is no sample. A column is text as soon as one value is only text; an identifier such as
//! `01569` is text, because as a number it would lose its zero; and integers that a double cannot hold exactly are not mixed
//! with fractions.

use arrow::datatypes::{DataType, TimeUnit};

use crate::{text, types};

/// Integers up to here are exact in a double.
const EXACT_IN_DOUBLE: u64 = 1 << 53;

/// The kinds of values a column has held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kinds(u16);

impl Kinds {
    pub(crate) const BOOLEAN: Self = Self(1);
    pub(crate) const INTEGER: Self = Self(1 << 1);
    /// An integer that a long can hold and a double cannot.
    pub(crate) const WIDE_INTEGER: Self = Self(1 << 2);
    pub(crate) const FRACTION: Self = Self(1 << 3);
    const DATE: Self = Self(1 << 4);
    const TIMESTAMP: Self = Self(1 << 5);
    const TIMESTAMPTZ: Self = Self(1 << 6);
    pub(crate) const TEXT: Self = Self(1 << 7);

    /// Adds what another part of the column has held.
    pub(crate) fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether nothing but nulls has been seen.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds one value that is not null.
    pub(crate) fn see(&mut self, value: &str, decimal_mark: u8) {
        // Nothing can make text anything else.
        if self.0 & Self::TEXT.0 == 0 {
            self.join(kind(value, decimal_mark));
        }
    }

    /// The kind of an integer.
    pub(crate) fn of_integer(value: i64) -> Self {
        if value.unsigned_abs() <= EXACT_IN_DOUBLE { Self::INTEGER } else { Self::WIDE_INTEGER }
    }

    /// The narrowest type that holds all of it; text if there was nothing but nulls.
    pub(crate) fn data_type(self) -> DataType {
        let only = |kinds: &[Self]| self.0 & !kinds.iter().fold(0, |all, kind| all | kind.0) == 0;
        if self.is_empty() {
            DataType::Utf8View
        } else if only(&[Self::BOOLEAN]) {
            DataType::Boolean
        } else if only(&[Self::INTEGER, Self::WIDE_INTEGER]) {
            DataType::Int64
        } else if only(&[Self::INTEGER, Self::FRACTION]) {
            DataType::Float64
        } else if only(&[Self::DATE]) {
            DataType::Date32
        } else if only(&[Self::DATE, Self::TIMESTAMP]) {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        } else if only(&[Self::TIMESTAMPTZ]) {
            types::timestamptz()
        } else {
            DataType::Utf8View
        }
    }
}

fn kind(value: &str, decimal_mark: u8) -> Kinds {
    match value.as_bytes().first() {
        Some(b'0'..=b'9' | b'-' | b'.' | b',') => number(value, decimal_mark).unwrap_or_else(|| temporal(value)),
        Some(b't' | b'T' | b'f' | b'F') if text::boolean(value).is_some() => Kinds::BOOLEAN,
        _ => Kinds::TEXT,
    }
}

fn number(value: &str, decimal_mark: u8) -> Option<Kinds> {
    let unsigned = value.strip_prefix('-').unwrap_or(value).as_bytes();
    let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if whole > 1 && unsigned[0] == b'0' {
        return None; // 01569, 00.5
    }
    if whole == unsigned.len() {
        // Too long for a long: a double would keep the size and lose the digits. Minus zero: a long would lose the sign.
        let value = value.parse().ok().filter(|integer| *integer != 0 || value == "0");
        return value.map(Kinds::of_integer);
    }
    let mut rest = &unsigned[whole..];
    let mut decimals = 0;
    if rest.first() == Some(&decimal_mark) {
        decimals = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest = &rest[1 + decimals..];
    }
    if whole + decimals == 0 {
        return None;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let digits = match exponent {
            [b'+' | b'-', digits @ ..] => digits,
            digits => digits,
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
    } else if !rest.is_empty() {
        return None;
    }
    let parsed: f64 = if decimal_mark == b'.' {
        value.parse().ok()?
    } else {
        value.replace(char::from(decimal_mark), ".").parse().ok()?
    };
    parsed.is_finite().then_some(Kinds::FRACTION)
}

fn temporal(value: &str) -> Kinds {
    if text::date(value).is_some() {
        Kinds::DATE
    } else if text::timestamp(value).is_some() {
        Kinds::TIMESTAMP
    } else if text::timestamptz(value).is_some() {
        Kinds::TIMESTAMPTZ
    } else {
        Kinds::TEXT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn infer<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
        let mut kinds = Kinds::default();
        for value in values {
            kinds.see(value, b'.');
        }
        types::name_of(&kinds.data_type())
    }

    #[rstest]
    #[case(&[], "string")]
    #[case(&["true", "False"], "boolean")]
    #[case(&["true", "1"], "string")]
    #[case(&["0", "-12", "3000000000"], "long")]
    #[case(&["01569"], "string")]
    #[case(&["1569", "01569"], "string")]
    #[case(&["+5"], "string")]
    #[case(&["-0"], "string")]
    #[case(&["9223372036854775807"], "long")]
    #[case(&["9223372036854775808"], "string")]
    #[case(&["1", "2.5"], "double")]
    #[case(&["9007199254740993"], "long")]
    #[case(&["9007199254740993", "2.5"], "string")]
    #[case(&["3e9"], "double")]
    #[case(&["1e400"], "string")]
    #[case(&["NaN"], "string")]
    #[case(&["inf"], "string")]
    #[case(&[".5", "5."], "double")]
    #[case(&["."], "string")]
    #[case(&["1e"], "string")]
    #[case(&["1 "], "string")]
    #[case(&["48,137"], "string")]
    #[case(&["2024-05-06"], "date")]
    #[case(&["2024-02-30"], "string")]
    #[case(&["2024-05-06", "2024-05-06T07:08:09"], "timestamp")]
    #[case(&["2024-05-06 07:08:09+02:00"], "timestamptz")]
    #[case(&["2024-05-06T07:08:09", "2024-05-06T07:08:09Z"], "string")]
    #[case(&["2024-05-06", "20240506"], "string")]
    fn a_column_has_the_narrowest_type_that_holds_all_of_it(#[case] values: &[&str], #[case] expected: &str) {
        assert_eq!(infer(values.iter().copied()), expected);
    }

    #[test]
    fn text_after_ten_thousand_integers_makes_the_column_text() {
        let integers: Vec<String> = (0..10_000).map(|value| value.to_string()).collect();
        let values = || integers.iter().map(String::as_str);
        assert_eq!(infer(values()), "long");
        assert_eq!(infer(values().chain(["3e9"])), "double");
        assert_eq!(infer(values().chain(["3e9", "n/a"])), "string");
    }

    #[test]
    fn a_decimal_comma_makes_a_double() {
        let mut kinds = Kinds::default();
        kinds.see("48,137", b',');
        assert_eq!(kinds.data_type(), DataType::Float64);
        kinds.see("48.137", b',');
        assert_eq!(kinds.data_type(), DataType::Utf8View);
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|v| v.to_string()),
            any::<f64>().prop_map(|v| v.to_string()),
            Just("2024-05-06".to_owned()),
            Just("2024-05-06T07:08:09".to_owned()),
            Just("2024-05-06T07:08:09Z".to_owned()),
            Just("true".to_owned()),
            "[-+0-9.eETZ:x]{1,12}",
        ]
    }

    proptest! {
        #[test]
        fn every_value_of_a_column_can_be_read_as_its_type(values in prop::collection::vec(value(), 1..6)) {
            let mut kinds = Kinds::default();
            values.iter().for_each(|value| kinds.see(value, b'.'));
            let values = values.iter().map(|value| Some(value.as_str())).collect::<Vec<_>>();
            let mut unreadable = 0;
            text::column(values.into_iter(), &kinds.data_type(), b'.', &mut |_, _| unreadable += 1);
            prop_assert_eq!(unreadable, 0);
        }

        #[test]
        fn neither_order_nor_grouping_changes_the_type(values in prop::collection::vec(value(), 0..8), cut in 0usize..8) {
            let mut forward = Kinds::default();
            values.iter().for_each(|value| forward.see(value, b'.'));
            let (left, right) = values.split_at(cut.min(values.len()));
            let (mut a, mut b) = (Kinds::default(), Kinds::default());
            left.iter().rev().for_each(|value| a.see(value, b'.'));
            right.iter().for_each(|value| b.see(value, b'.'));
            b.join(a);
            prop_assert_eq!(forward.data_type(), b.data_type());
        }
    }
}
