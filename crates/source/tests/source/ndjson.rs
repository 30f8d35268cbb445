//! NDJSON: the types of its fields, and what is refused.

use std::fmt::Write as _;

use arrow::datatypes::DataType;
use hexfloe_source::{ErrorKind, Format, ScanOptions};
use proptest::prelude::*;
use rstest::rstest;

use crate::{Rows, field, folder, read, refusal, schema_of, settings};

fn ndjson(content: &str) -> Rows {
    let folder = folder(&[("a.ndjson", content.as_bytes())]);
    read(&folder, settings(Format::Ndjson, &["a.ndjson"]), &ScanOptions::default()).unwrap()
}

#[rstest]
#[case(&["1", "2"], "long", &["1", "2"])]
#[case(&["1", "2.5"], "double", &["1.0", "2.5"])]
#[case(&["1", "null", "2.5"], "double", &["1.0", "∅", "2.5"])]
#[case(&["true", "null"], "boolean", &["true", "∅"])]
#[case(&["1.5", "null", "\"x\"", "2"], "string", &["1.5", "∅", "x", "2"])]
#[case(&["true", "1"], "string", &["true", "1"])]
#[case(&["1.50", "\"x\""], "string", &["1.50", "x"])]
#[case(&["null", "null"], "string", &["∅", "∅"])]
#[case(&["\"null\"", "null"], "string", &["null", "∅"])]
#[case(&["9007199254740993", "0.5"], "string", &["9007199254740993", "0.5"])]
#[case(&["9223372036854775807"], "long", &["9223372036854775807"])]
#[case(&["9223372036854775808"], "string", &["9223372036854775808"])]
#[case(&["123456789012345678901234567890"], "string", &["123456789012345678901234567890"])]
#[case(&["\"2024-05-06\""], "string", &["2024-05-06"])]
#[case(&["\"a\\u00e9\\n\""], "string", &["aé\n"])]
fn a_field_has_the_narrowest_type_that_holds_all_of_it(
    #[case] values: &[&str],
    #[case] data_type: &str,
    #[case] expected: &[&str],
) {
    let mut content = String::new();
    values.iter().for_each(|value| writeln!(content, "{{\"v\": {value}}}").unwrap());
    let rows = ndjson(&content);
    assert_eq!(rows.schema, [format!("v:{data_type}")]);
    assert_eq!(rows.values(), expected);
    assert_eq!(rows.bytes, content.len() as u64);
}

#[test]
fn fields_are_in_the_order_of_their_first_appearance_and_absent_ones_are_null() {
    let rows = ndjson("{\"b\": 1}\n{\"a\": \"x\", \"b\": 2}\n{\"c\": true, \"a\": null}\n{}\n");
    assert_eq!(rows.schema, ["b:long", "a:string", "c:boolean"]);
    assert_eq!(rows.values(), ["1|∅|∅", "2|x|∅", "∅|∅|true", "∅|∅|∅"]);
}

#[test]
fn objects_and_lists_keep_their_structure() {
    let rows = ndjson(
        "{\"p\": {\"lat\": 1, \"tags\": [\"a\", null]}}\n{\"p\": {\"lat\": 2.5, \"tags\": []}}\n{\"p\": null}\n",
    );
    assert_eq!(rows.values(), ["{lat: 1.0, tags: [a, ]}", "{lat: 2.5, tags: []}", "∅"]);
}

#[test]
fn blank_lines_a_mark_and_carriage_returns_do_not_matter() {
    let rows = ndjson("\u{feff}{\"v\": 1}\r\n\n   \n{\"v\": 2}");
    assert_eq!(rows.rows, ["a.ndjson:1 1", "a.ndjson:2 2"]);
}

#[test]
fn the_type_comes_from_all_files() {
    let folder = folder(&[("a.ndjson", b"{\"v\": 1}\n"), ("b.ndjson", b"{\"v\": 2.5, \"w\": 1}\n"), ("c.ndjson", b"")]);
    let rows = read(&folder, settings(Format::Ndjson, &["*.ndjson"]), &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema, ["v:double", "w:long"]);
    assert_eq!(rows.rows, ["a.ndjson:1 1.0|∅", "b.ndjson:1 2.5|1"]);
}

#[test]
fn a_declared_type_wins_and_what_does_not_fit_is_a_reject() {
    let content = "{\"v\": 1, \"d\": \"2024-05-06\", \"p\": 1.50}\n{\"v\": 1.5, \"d\": null, \"p\": 2}\n{\"v\": \"7\"}\n{\"v\": \"x\"}\n";
    let mut settings = settings(Format::Ndjson, &["a.ndjson"]);
    settings.schema = schema_of(&[("v", "long"), ("d", "date"), ("p", "decimal(9,2)"), ("later", "double")]);
    let rows = read(&folder(&[("a.ndjson", content.as_bytes())]), settings, &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema, ["v:long", "d:date", "p:Decimal128(9, 2)", "later:double"]);
    assert_eq!(rows.values(), ["1|2024-05-06|1.50|∅", "∅|∅|2.00|∅", "7|∅|∅|∅", "∅|∅|∅|∅"]);
    assert_eq!(rows.rejects, ["a.ndjson:2 column v: \"1.5\" is no long", "a.ndjson:4 column v: \"x\" is no long"]);
}

#[test]
fn a_table_that_has_the_column_decides_its_type() {
    let folder = folder(&[("a.ndjson", b"{\"v\": 1, \"w\": 2, \"x\": {\"y\": 1}}\n")]);
    let declared = vec![
        field("v", DataType::Float64),
        field("w", DataType::Utf8),
        field("x", DataType::Int64),
        field("q", DataType::Int64),
    ];
    let options = ScanOptions { declared, ..ScanOptions::default() };
    let rows = read(&folder, settings(Format::Ndjson, &["a.ndjson"]), &options).unwrap();
    assert_eq!(rows.values(), ["1.0|2|{y: 1}"]);
    assert_eq!(rows.schema[..2], ["v:double", "w:string"]);
}

#[test]
fn a_file_without_records_has_the_declared_columns() {
    let mut settings = settings(Format::Ndjson, &["a.ndjson"]);
    settings.schema = schema_of(&[("v", "long")]);
    let rows = read(&folder(&[("a.ndjson", b"")]), settings, &ScanOptions::default()).unwrap();
    assert_eq!((rows.schema, rows.rows.len()), (vec!["v:long".to_owned()], 0));
}

#[rstest]
#[case("{\"v\": 1}\n{\"v\": \n{\"v\": 2}\n", "a.ndjson, line 2: ")]
#[case("{\"v\": 1}\n\n[1]\n", "a.ndjson, line 3: invalid type: sequence, expected a JSON object")]
#[case("{\"v\": 1}\n7\n", "a.ndjson, line 2: invalid type: integer `7`, expected a JSON object")]
#[case("{\"v\": 1} {\"v\": 2}\n", "a.ndjson, line 1: trailing characters")]
#[case("{\n  \"v\": 1\n}\n", "a.ndjson, line 1: EOF while parsing an object")]
#[case("{\"v\": 1}\n{\"v\": 1e999}\n", "a.ndjson, line 2: field `v`: number out of range")]
#[case("{\"v\": 1}\n{\"v\": {\"a\": 1}}\n", "a.ndjson, line 2: field `v`: an object where another record has a value")]
#[case("{\"v\": {\"a\": [1]}}\n{\"v\": {\"a\": 1}}\n", "a.ndjson, line 2: field `v`: field `a`: a plain value where")]
#[case("{\"v\": 1, \"w\": 2, \"v\": 3}\n", "a.ndjson, line 1: the field `v` is there twice")]
#[case("{\"v\": {}}\n", "a.ndjson: `v` holds nothing but empty objects")]
#[case("", "a.ndjson: holds no record")]
#[case("\n\n", "a.ndjson: holds no record")]
fn a_broken_file_is_refused_with_its_line(#[case] content: &str, #[case] message: &str) {
    let folder = folder(&[("a.ndjson", content.as_bytes())]);
    let error = refusal(&folder, settings(Format::Ndjson, &["a.ndjson"]), &ScanOptions::default());
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let folder = folder(&[("a.ndjson", b"{\"v\": \"caf\xe9\"}\n")]);
    let error = refusal(&folder, settings(Format::Ndjson, &["a.ndjson"]), &ScanOptions::default());
    assert!(error.to_string().starts_with("a.ndjson, line 1: "), "{error}");
}

#[test]
fn a_scalar_type_for_objects_is_a_configuration_error() {
    let mut settings = settings(Format::Ndjson, &["a.ndjson"]);
    settings.schema = schema_of(&[("v", "long")]);
    let error = refusal(&folder(&[("a.ndjson", b"{\"v\": [1]}\n")]), settings, &ScanOptions::default());
    assert!(
        error.to_string().contains("source.schema.v: long is declared, but the column holds objects or lists"),
        "{error}"
    );
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[test]
fn a_file_on_one_endless_line_does_not_fill_the_memory() {
    let mut content = b"{\"v\": \"".to_vec();
    content.resize(40 << 20, b'x');
    let folder = folder(&[("a.ndjson", &content)]);
    let mut settings = settings(Format::Ndjson, &["a.ndjson"]);
    settings.limits.record_bytes = 16 << 20;
    let error = refusal(&folder, settings, &ScanOptions::default());
    assert!(error.to_string().contains("a.ndjson, line 1: is longer than 16777216 bytes"), "{error}");
}

#[test]
fn lines_longer_than_the_buffer_are_whole() {
    let mut content = String::new();
    for row in 0..8 {
        writeln!(content, "{{\"id\": {row}, \"text\": \"{}\"}}", "xy".repeat(100_000 * row)).unwrap();
    }
    let rows = ndjson(&content);
    for (row, value) in rows.values().into_iter().enumerate() {
        assert_eq!(value, format!("{row}|{}", "xy".repeat(100_000 * row)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn neither_schema_nor_rows_depend_on_the_size_of_batches(
        rows in prop::collection::vec(prop_oneof![
            any::<i32>().prop_map(|v| v.to_string()), (-1e3..1e3f64).prop_map(|v| format!("{v:?}")),
            Just("null".to_owned()), "[a-z]{0,20}".prop_map(|v| format!("{v:?}"))], 1..40),
        batch_rows in 1usize..50,
    ) {
        let mut content = String::new();
        rows.iter().for_each(|value| writeln!(content, "{{\"v\": {value}}}").unwrap());
        let folder = folder(&[("a.ndjson", content.as_bytes())]);
        let read = |batch_rows| {
            let options = ScanOptions { batch_rows, ..ScanOptions::default() };
            read(&folder, settings(Format::Ndjson, &["a.ndjson"]), &options).unwrap()
        };
        let (whole, parts) = (read(1000), read(batch_rows));
        prop_assert_eq!(whole.rows.len(), rows.len());
        prop_assert_eq!(&whole.schema, &parts.schema);
        prop_assert_eq!(&whole.rows, &parts.rows);
    }

    #[test]
    fn garbage_never_panics(content in "[\\[\\]{}\",:0-9ea.\\n\\\\u -]{0,60}") {
        let folder = folder(&[("a.ndjson", content.as_bytes())]);
        let _ = read(&folder, settings(Format::Ndjson, &["a.ndjson"]), &ScanOptions::default());
    }
}
