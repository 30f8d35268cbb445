//! CSV: the forms it comes in, the types it gets, and what is refused.

use std::fmt::Write as _;
use std::fs;

use arrow::datatypes::DataType;
use hexfloe_source::{CsvSettings, ErrorKind, Format, ScanOptions, Source};
use proptest::prelude::*;
use rstest::rstest;

use crate::{Rows, field, folder, read, refusal, schema_of, settings};

fn csv(content: &[u8]) -> Rows {
    csv_with(content, CsvSettings::default())
}

fn csv_with(content: &[u8], csv: CsvSettings) -> Rows {
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.csv = csv;
    read(&folder(&[("a.csv", content)]), settings, &ScanOptions::default()).unwrap()
}

#[rstest]
#[case::plain(b"lat,lon,name\n48.1,11.5,M\n-33.9,151.2,S\n")]
#[case::no_final_line_break(b"lat,lon,name\n48.1,11.5,M\n-33.9,151.2,S")]
#[case::byte_order_mark(b"\xef\xbb\xbflat,lon,name\n48.1,11.5,M\n-33.9,151.2,S\n")]
#[case::byte_order_mark_and_quotes(b"\xef\xbb\xbf\"lat\",lon,name\n48.1,11.5,M\n-33.9,151.2,S\n")]
#[case::carriage_returns(b"lat,lon,name\r\n48.1,11.5,M\r\n-33.9,151.2,S\r\n")]
#[case::blank_lines(b"\nlat,lon,name\n\n48.1,11.5,M\n\r\n\n-33.9,151.2,S\n\n")]
#[case::quotes(b"lat,lon,\"name\"\n\"48.1\",11.5,\"M\"\n-33.9,151.2,S\n")]
fn the_same_table_may_be_written_in_many_ways(#[case] content: &[u8]) {
    let rows = csv(content);
    assert_eq!(rows.schema, ["lat:double", "lon:double", "name:string"]);
    assert_eq!(rows.rows, ["a.csv:1 48.1|11.5|M", "a.csv:2 -33.9|151.2|S"]);
    assert_eq!(rows.bytes, content.len() as u64);
}

#[rstest]
#[case(';', '"', b"a;b\n1;\"x;y\"\n", "1|x;y")]
#[case('\t', '"', b"a\tb\n1\tx y\n", "1|x y")]
#[case('|', '\'', b"a|b\n1|'x|''y'''\n", "1|x|'y'")]
#[case(',', '"', b"a,b\n1,\"two\nlines \"\"q\"\"\"\n", "1|two\nlines \"q\"")]
#[case(',', '"', b"a,b\n1,\"two\r\nlines\"\n", "1|two\r\nlines")]
fn delimiter_and_quote_are_those_of_the_settings(
    #[case] delimiter: char,
    #[case] quote: char,
    #[case] content: &[u8],
    #[case] expected: &str,
) {
    let rows = csv_with(content, CsvSettings { delimiter, quote, ..CsvSettings::default() });
    assert_eq!(rows.values(), [expected]);
}

#[test]
fn columns_get_the_narrowest_type_that_holds_all_their_values() {
    let rows = csv(b"b,l,d,s,z,day,t,tz,e\n\
        true,1,1,x,01569,2024-05-06,2024-05-06,2024-05-06T07:08:09Z,\n\
        false,3000000000,2.5,1,1570,1969-12-31,2024-05-06T07:08:09.5,2024-05-06T07:08:09+02:00,\n");
    assert_eq!(
        rows.schema,
        [
            "b:boolean",
            "l:long",
            "d:double",
            "s:string",
            "z:string",
            "day:date",
            "t:Timestamp(µs)",
            "tz:Timestamp(µs, \"+00:00\")",
            "e:string"
        ]
    );
    assert_eq!(
        rows.values(),
        [
            "true|1|1.0|x|01569|2024-05-06|2024-05-06T00:00:00|2024-05-06T07:08:09Z|∅",
            "false|3000000000|2.5|1|1570|1969-12-31|2024-05-06T07:08:09.500|2024-05-06T05:08:09Z|∅"
        ]
    );
}

#[rstest]
#[case(&[], "long")]
#[case(&["3000000000"], "long")]
#[case(&["3e9"], "double")]
#[case(&["3000000000", "text"], "string")]
#[case(&["01569"], "string")]
fn the_type_comes_from_the_whole_file_and_not_from_a_sample(#[case] late: &[&str], #[case] expected: &str) {
    let mut content = "v\n".to_owned();
    for value in 0..10_000 {
        writeln!(content, "{value}").unwrap();
    }
    late.iter().for_each(|value| writeln!(content, "{value}").unwrap());
    let rows = csv(content.as_bytes());
    assert_eq!(rows.schema, [format!("v:{expected}")]);
    assert_eq!(rows.rows.len(), 10_000 + late.len());
    assert!(rows.rejects.is_empty());
}

#[test]
fn types_are_joined_over_files_in_whatever_order() {
    let files: [(&str, &[u8]); 3] = [("1.csv", b"v,w\n1,1\n"), ("2.csv", b"w,v\n2,2.5\n"), ("3.csv", b"v,w\n3,x\n")];
    let rows = read(&folder(&files), settings(Format::Csv, &["*.csv"]), &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema, ["v:double", "w:string"]);
    assert_eq!(rows.rows, ["1.csv:1 1.0|1", "2.csv:1 2.5|2", "3.csv:1 3.0|x"]);
    let swapped = [("3.csv", files[0].1), ("2.csv", files[1].1), ("1.csv", files[2].1)];
    let options = ScanOptions { threads: 4, ..ScanOptions::default() };
    assert_eq!(read(&folder(&swapped), settings(Format::Csv, &["*.csv"]), &options).unwrap().schema, rows.schema);
}

#[test]
fn row_numbers_start_again_in_each_file() {
    let files: [(&str, &[u8]); 3] = [("a.csv", b"v\n1\n2\n3\n"), ("b.csv", b"v\n"), ("c.csv", b"v\n4\n5\n")];
    let options = ScanOptions { batch_rows: 2, ..ScanOptions::default() };
    let rows = read(&folder(&files), settings(Format::Csv, &["*.csv"]), &options).unwrap();
    assert_eq!(rows.rows, ["a.csv:1 1", "a.csv:2 2", "a.csv:3 3", "c.csv:1 4", "c.csv:2 5"]);
    assert_eq!(rows.batches, 3);
}

#[test]
fn a_header_alone_is_a_file_without_rows() {
    let rows = csv(b"lat,lon\n");
    assert_eq!(rows.schema, ["lat:string", "lon:string"]);
    assert!(rows.rows.is_empty());
}

#[test]
fn columns_without_a_header_are_numbered() {
    let rows = csv_with(b"1,x\n2,y\n", CsvSettings { header: false, ..CsvSettings::default() });
    assert_eq!(rows.schema, ["column_1:long", "column_2:string"]);
    assert_eq!(rows.values(), ["1|x", "2|y"]);
}

#[test]
fn null_values_are_null_in_every_column() {
    let csv = CsvSettings { null_values: vec!["NA".to_owned(), "-".to_owned()], ..CsvSettings::default() };
    let rows = csv_with(b"n,s\n1,NA\n-,\n", csv);
    assert_eq!(rows.schema, ["n:long", "s:string"]);
    assert_eq!(rows.values(), ["1|∅", "∅|"]);
}

#[test]
fn a_decimal_comma_makes_numbers_of_quoted_and_unquoted_values() {
    let csv = CsvSettings { delimiter: ';', decimal_comma: true, ..CsvSettings::default() };
    let rows = csv_with("lat;lon;p\n48,137;\"11,5\";1.5\n".as_bytes(), csv);
    assert_eq!(rows.schema, ["lat:double", "lon:double", "p:string"]);
    assert_eq!(rows.values(), ["48.137|11.5|1.5"]);
}

#[test]
fn what_does_not_fit_its_declared_type_is_a_reject_of_its_row_and_null() {
    let folder = folder(&[("a.csv", "lat,lon\n48,1\n\"48,137\",2\nNaN,3\n1e400,x\n48°N,5\n,6\n".as_bytes())]);
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.schema = schema_of(&[("lat", "double"), ("lon", "int")]);
    let rows = read(&folder, settings, &ScanOptions { batch_rows: 2, ..ScanOptions::default() }).unwrap();
    assert_eq!(rows.values(), ["48.0|1", "∅|2", "∅|3", "∅|∅", "∅|5", "∅|6"]);
    assert_eq!(
        rows.rejects,
        [
            "a.csv:2 column lat: \"48,137\" is no double",
            "a.csv:3 column lat: \"NaN\" is no double",
            "a.csv:4 column lat: \"1e400\" is no double",
            "a.csv:5 column lat: \"48°N\" is no double"
        ]
    );
}

#[test]
fn a_long_unreadable_value_is_cut_in_its_reason() {
    let content = format!("v\n{}\n", "é".repeat(5000));
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.schema = schema_of(&[("v", "long")]);
    let rows = read(&folder(&[("a.csv", content.as_bytes())]), settings, &ScanOptions::default()).unwrap();
    assert!(rows.rejects[0].chars().count() < 150, "{}", rows.rejects[0]);
}

#[test]
fn the_job_wins_over_the_table_and_the_table_over_inference() {
    let folder = folder(&[("a.csv", b"x,y,z\n1,1,1\n")]);
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.schema = schema_of(&[("x", "decimal(9,2)")]);
    let declared = vec![
        field("x", DataType::Utf8),
        field("y", DataType::LargeUtf8),
        field("h3_cell", DataType::Int64),
        field("ingest_batch_id", DataType::Utf8),
    ];
    let rows = read(&folder, settings, &ScanOptions { declared, ..ScanOptions::default() }).unwrap();
    assert_eq!(rows.schema, ["x:Decimal128(9, 2)", "y:string", "z:long"]);
    assert_eq!(rows.values(), ["1.00|1|1"]);
}

#[test]
fn there_is_no_first_pass_when_every_column_is_declared() {
    let folder = folder(&[("a.csv", b"x,y\n1,1\n")]);
    let mut settings = settings(Format::Csv, &["a.csv"]);
    let estimate = |settings| {
        Source::open(settings, folder.path()).unwrap().scan(&ScanOptions::default()).unwrap().estimated_rows()
    };
    assert_eq!(estimate(settings.clone()), Some(1));
    settings.schema = schema_of(&[("x", "string"), ("y", "long")]);
    assert_eq!(estimate(settings), None);
}

#[rstest]
#[case::few(b"a,b\n1,2\n3\n4,5\n", "a.csv, line 3: 1 fields, where the first record has 2")]
#[case::many(b"a,b\n1,2\n3,4,5\n", "a.csv, line 3: more than 2 fields")]
#[case::few_after_line_breaks_in_quotes(b"a,b\n\"1\n\n\",2\n3\n", "a.csv, line 5: 1 fields")]
#[case::few_after_carriage_returns(b"a,b\r\n1,2\r\n\r\n3\r\n", "a.csv, line 4: 1 fields")]
#[case::not_utf8(b"a,b\n1,2\n3,caf\xe9\n4,5\n", "a.csv, line 3: is not UTF-8")]
#[case::a_character_cut_by_a_delimiter(b"a,b\n1,2\n\xc3,\xa9\n", "a.csv, line 3: is not UTF-8")]
#[case::header_not_utf8(b"a,\xff\n1,2\n", "a.csv, line 1: is not UTF-8")]
#[case::open_quote(b"a,b\n1,2\n3,\"x\n4,5\n", "a.csv, line 3: the file ends inside a quoted field")]
#[case::open_quote_at_the_very_end(b"a,b\n1,2\n3,\"", "a.csv, line 3: the file ends inside a quoted field")]
#[case::cut_off_in_a_record(b"a,b\n1,2\n3", "a.csv, line 3: 1 fields")]
#[case::empty(b"", "a.csv: is empty (0 bytes): it has no header")]
#[case::only_a_mark(b"\xef\xbb\xbf", "it has no header")]
#[case::only_line_breaks(b"\n\r\n", "it has no header")]
#[case::utf16(b"\xff\xfea\0,\0b\0", "a.csv: is UTF-16")]
#[case::two_columns_of_one_name(b"a,b,a\n1,2,3\n", "a.csv, line 1: the header has the name `a` twice")]
#[case::a_column_without_a_name(b"a,,c\n1,2,3\n", "a.csv, line 1: the header gives column 2 of 3 no name")]
fn a_broken_file_is_refused_with_its_line(#[case] content: &[u8], #[case] message: &str) {
    let folder = folder(&[("a.csv", content)]);
    for declared in [false, true] {
        let mut settings = settings(Format::Csv, &["a.csv"]);
        if declared && content.starts_with(b"a,b\n") {
            settings.schema = schema_of(&[("a", "string"), ("b", "string")]);
        }
        for batch_rows in [1, 2, 1000] {
            let error = refusal(&folder, settings.clone(), &ScanOptions { batch_rows, ..ScanOptions::default() });
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!(error.kind(), ErrorKind::Input);
        }
    }
}

#[test]
fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
    let mut content = b"a,b\n1,\"".to_vec();
    content.resize(40 << 20, b'x');
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.limits.record_bytes = 16 << 20;
    let error = refusal(&folder(&[("a.csv", &content)]), settings, &ScanOptions::default());
    let message = "a.csv, line 2: the record that begins here is longer than 16777216 bytes";
    assert!(error.to_string().contains(message), "{error}");
}

#[rstest]
#[case(b"a,b\n1,2\n", b"b,c\n1,2\n", "b.csv does not have the columns of a.csv: column `a` is missing")]
#[case(b"a,b\n1,2\n", b"b,a,c\n1,2,3\n", "column `c` is only in the second")]
#[case(b"a,b\n1,2\n", b"a\n1\n", "column `b` is missing")]
fn files_with_other_columns_are_refused(#[case] first: &[u8], #[case] second: &[u8], #[case] message: &str) {
    let folder = folder(&[("a.csv", first), ("b.csv", second)]);
    let error = refusal(&folder, settings(Format::Csv, &["*.csv"]), &ScanOptions::default());
    assert!(error.to_string().contains(message), "{error}");
}

#[test]
fn a_required_column_that_is_not_there_is_refused_with_the_nearest() {
    let folder = folder(&[("a.csv", b"latitude,longitude,name\n1,2,x\n")]);
    let options = ScanOptions { columns_required: vec!["lat".to_owned()], ..ScanOptions::default() };
    let error = refusal(&folder, settings(Format::Csv, &["a.csv"]), &options);
    assert!(error.to_string().starts_with("no column `lat` in a.csv: the nearest names are `latitude`"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[test]
fn a_declared_column_that_is_not_there_is_refused_with_the_nearest() {
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.schema = schema_of(&[("Name", "string")]);
    let error = refusal(&folder(&[("a.csv", b"lat,name\n1,x\n")]), settings, &ScanOptions::default());
    assert!(error.to_string().contains("no column `Name` in a.csv: the nearest names are `name`"), "{error}");
}

#[test]
fn pieces_of_text_are_decoded_in_order_and_end() {
    let folder = folder(&[("a.csv", b"v\n1\n2\n")]);
    let source = Source::open(settings(Format::Csv, &["a.csv"]), folder.path()).unwrap();
    let mut scan = source.scan(&ScanOptions { batch_rows: 1, ..ScanOptions::default() }).unwrap();
    assert!(scan.is_serial());
    let pieces: Vec<_> = (0..5).map(|_| scan.next_piece().unwrap().unwrap()).collect();
    let mut pieces = pieces.into_iter();
    let (first, second) = (pieces.next().unwrap(), pieces.next().unwrap());
    assert!(second.decode().unwrap_err().to_string().contains("one after the other"));
    assert_eq!(first.decode().unwrap().batches.len(), 1);
    let mut scan = source.scan(&ScanOptions { batch_rows: 1, ..ScanOptions::default() }).unwrap();
    let pieces: Vec<_> = (0..5).map(|_| scan.next_piece().unwrap().unwrap()).collect();
    let decoded: Vec<_> = pieces.into_iter().map(|piece| piece.decode().unwrap()).collect();
    assert_eq!(decoded.iter().map(|piece| piece.batches.len()).collect::<Vec<_>>(), [1, 1, 0, 0, 0]);
    assert_eq!(decoded.iter().map(|piece| piece.last).collect::<Vec<_>>(), [false, false, true, true, true]);
    assert!(scan.next_piece().unwrap().is_none());
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_is_refused() {
    let folder = folder(&[("a.csv", b"v\n1\n2\n"), ("b.csv", b"v\n3\n")]);
    let source = Source::open(settings(Format::Csv, &["*.csv"]), folder.path()).unwrap();
    let mut scan = source.scan(&ScanOptions { batch_rows: 1, ..ScanOptions::default() }).unwrap();
    assert_eq!(scan.next_piece().unwrap().unwrap().decode().unwrap().batches.len(), 1);
    fs::write(folder.path().join("new"), "v\n9\n").unwrap();
    fs::rename(folder.path().join("new"), folder.path().join("b.csv")).unwrap();
    let error = loop {
        match scan.next_piece().unwrap().unwrap().decode() {
            Ok(decoded) => assert!(!decoded.last),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("b.csv changed while being read"), "{error}");
    assert!(source.check_unchanged().is_err());
    assert!(source.facts(&|_| {}).is_err());
    let after = scan.next_piece().unwrap().unwrap().decode().unwrap_err();
    assert!(after.to_string().contains("an earlier piece failed"), "{after}");
}

#[test]
fn facts_are_in_the_order_of_the_files_and_progress_adds_up() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let folder = folder(&[("b.csv", b"v\n1\n"), ("a.csv", b"v\n2\n"), ("sub/c.csv", b"v\n3\n")]);
    let source = Source::open(settings(Format::Csv, &["b.csv", "**/*.csv"]), folder.path()).unwrap();
    let bytes = AtomicU64::new(0);
    let facts = source.facts(&|more| _ = bytes.fetch_add(more, Ordering::Relaxed)).unwrap();
    assert_eq!(facts.iter().map(|fact| fact.path.as_str()).collect::<Vec<_>>(), ["a.csv", "b.csv", "sub/c.csv"]);
    assert_eq!(bytes.into_inner(), source.total_bytes());
    assert_eq!(source.total_bytes(), 12);
}

fn cell() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (-1000i64..1000).prop_map(|value| value.to_string()),
        2 => (-90.0..90.0f64).prop_map(|value| value.to_string()),
        1 => Just(String::new()),
        1 => "[a-z\"\n\r,;é]{0,8}",
    ]
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('"', "\"\""))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn neither_schema_nor_rows_depend_on_the_size_of_batches(
        rows in prop::collection::vec((cell(), cell(), any::<bool>()), 0..40),
        batch_rows in 1usize..50,
    ) {
        let mut content = "x,y\n".to_owned();
        for (x, y, crlf) in &rows {
            write!(content, "{},{}{}", quoted(x), quoted(y), if *crlf { "\r\n" } else { "\n" }).unwrap();
        }
        let folder = folder(&[("a.csv", content.as_bytes())]);
        let read = |batch_rows| {
            read(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions { batch_rows, ..ScanOptions::default() }).unwrap()
        };
        let (whole, parts) = (read(1000), read(batch_rows));
        prop_assert_eq!(whole.rows.len(), rows.len());
        prop_assert_eq!(&whole.schema, &parts.schema);
        prop_assert_eq!(&whole.rows, &parts.rows);
        prop_assert_eq!(whole.bytes, content.len() as u64);
        prop_assert_eq!(parts.bytes, whole.bytes);
    }

    #[test]
    fn garbage_never_panics(content in prop::collection::vec(prop_oneof![
        Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..60)) {
        let folder = folder(&[("a.csv", &content)]);
        let _ = read(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions { batch_rows: 2, ..ScanOptions::default() });
    }
}

#[test]
fn records_across_the_borders_of_the_buffer_are_whole() {
    let mut content = "id,text\n".to_owned();
    for id in 0..20_000 {
        writeln!(content, "{id},\"{}\n{}\"", "é".repeat(id % 40), "x".repeat(id % 17)).unwrap();
    }
    let rows = csv(content.as_bytes());
    assert_eq!(rows.rows.len(), 20_000);
    for (id, row) in rows.values().into_iter().enumerate() {
        assert_eq!(row, format!("{id}|{}\n{}", "é".repeat(id % 40), "x".repeat(id % 17)));
    }
}
