//! SQL over a source.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use hexfloe_source::{Error, ErrorKind, Format, ScanOptions, Source};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rstest::rstest;

use crate::{Rows, field, folder, read, schema_of, settings};

const CITIES: &[u8] = b"lat,lon,name,since\n48.1,11.5,M,2024-05-06\n-33.9,151.2,S,2024-05-07\n0.0,0.0,N,2024-05-08\n";

fn select_with(sql: &str, content: &[u8], options: &ScanOptions) -> Result<Rows, Error> {
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.select = Some(sql.to_owned());
    read(&folder(&[("a.csv", content)]), settings, options)
}

fn select(sql: &str) -> Result<Rows, Error> {
    let options = ScanOptions { run_date: Some("2024-05-07".to_owned()), ..ScanOptions::default() };
    select_with(sql, CITIES, &options)
}

#[rstest]
#[case("SELECT * FROM input", &["48.1|11.5|M|2024-05-06", "-33.9|151.2|S|2024-05-07", "0.0|0.0|N|2024-05-08"])]
#[case("SELECT name, lat * 2 AS twice FROM input WHERE lat <> 0", &["M|96.2", "S|-67.8"])]
#[case("SELECT name FROM input WHERE since = $run_date", &["S"])]
#[case("SELECT name, $run_date AS run_date FROM input WHERE since > $run_date", &["N|2024-05-07"])]
#[case("SELECT name FROM input ORDER BY name", &["M", "N", "S"])]
#[case("SELECT a.name AS x, b.lat AS y FROM input a JOIN input b ON a.name = b.name WHERE a.lon = 11.5", &["M|48.1"])]
#[case("SELECT name FROM input WHERE lat = (SELECT max(lat) FROM input)", &["M"])]
#[case("SELECT upper(name) || '-' || CAST(count(*) AS VARCHAR) AS v FROM input GROUP BY name ORDER BY v", &["M-1", "N-1", "S-1"])]
#[case("SELECT name FROM input LIMIT 1", &["M"])]
fn a_statement_gives_its_rows_in_order(#[case] sql: &str, #[case] expected: &[&str]) {
    let rows = select(sql).unwrap();
    assert_eq!(rows.values(), expected);
    assert!(rows.rows[0].starts_with("select:1 "), "{}", rows.rows[0]);
}

#[test]
fn result_types_are_those_of_batches_and_widen_to_the_table() {
    let options = ScanOptions {
        declared: vec![field("n", DataType::Int64), field("name", DataType::LargeUtf8), field("lat", DataType::Int64)],
        ..ScanOptions::default()
    };
    let rows = select_with("SELECT CAST(1 AS INT) AS n, name, lat, 'x' AS x FROM input", CITIES, &options).unwrap();
    assert_eq!(rows.schema, ["n:long", "name:string", "lat:double", "x:string"]);
}

#[rstest]
#[case("SELECT nope FROM input", "nope")]
#[case("SELECT FROM WHERE", "source.select: ")]
#[case("SELECT * FROM other", "other")]
#[case("SELECT * FROM 'a.csv'", "a.csv")]
#[case("SELECT * FROM input WHERE name = $who", "there is no parameter $who: the only one is $run_date")]
#[case("SELECT now() AS t, * FROM input", "now() gives another result on another run")]
#[case("SELECT * FROM input WHERE since < current_date", "current_date() gives another result")]
#[case(
    "SELECT name FROM input WHERE lat IN (SELECT lat FROM input WHERE since < current_date())",
    "current_date() gives"
)]
#[case("SELECT uuid() AS id FROM input", "uuid() gives another result")]
#[case("SELECT a.name, b.name FROM input a JOIN input b ON a.lat = b.lat", "two columns `name`")]
#[case("CREATE TABLE t AS SELECT * FROM input", "DDL not supported")]
#[case("COPY input TO 'x.csv'", "DML not supported")]
#[case("SET datafusion.execution.batch_size = 1", "not supported")]
#[case("SELECT 1; SELECT 2", "source.select: ")]
#[case("SELECT CAST(name AS INT) AS n FROM input", "source.select: ")]
fn a_statement_that_cannot_run_is_a_configuration_error_on_one_line(#[case] sql: &str, #[case] message: &str) {
    let error = select(sql).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[rstest]
#[case(None, "pass the date with --run-date")]
#[case(Some("yesterday"), "--run-date: \"yesterday\" is not a date")]
fn the_run_date_must_be_given_and_be_a_date(#[case] run_date: Option<&str>, #[case] message: &str) {
    let options = ScanOptions { run_date: run_date.map(ToOwned::to_owned), ..ScanOptions::default() };
    let error = select_with("SELECT * FROM input WHERE since = $run_date", CITIES, &options).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[test]
fn an_unreadable_value_stops_the_scan_because_its_row_cannot_be_set_aside() {
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.schema = schema_of(&[("v", "long")]);
    settings.select = Some("SELECT v FROM input WHERE v > 0".to_owned());
    let error = read(&folder(&[("a.csv", b"v\n1\n2\nx\n")]), settings, &ScanOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("a.csv, row 3: column v: \"x\" is no long; "), "{error}");
    assert!(error.to_string().contains("declare the column as string in [source.schema]"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn a_broken_record_keeps_its_file_and_line() {
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.schema = schema_of(&[("a", "long"), ("b", "long")]);
    settings.select = Some("SELECT a FROM input".to_owned());
    let error = read(&folder(&[("a.csv", b"a,b\n1,2\n3\n")]), settings, &ScanOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("a.csv, line 3: "), "{error}");
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn a_required_column_must_be_in_the_result() {
    let options = ScanOptions { columns_required: vec!["lat".to_owned()], ..ScanOptions::default() };
    assert!(select_with("SELECT lat FROM input", CITIES, &options).is_ok());
    let error = select_with("SELECT lat AS latitude FROM input", CITIES, &options).unwrap_err();
    assert!(error.to_string().contains("no column `lat` in select: the nearest names are `latitude`"), "{error}");
}

#[test]
fn row_groups_stream_through_in_order() {
    let folder = folder(&[]);
    let numbers = |from: i64, to: i64| {
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(from..to)) as _)]).unwrap()
    };
    for (name, batch) in [("a.parquet", numbers(0, 500)), ("b.parquet", numbers(500, 1000))] {
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(64)).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        std::fs::write(folder.path().join(name), writer.into_inner().unwrap()).unwrap();
    }
    let mut settings = settings(Format::Parquet, &["*.parquet"]);
    settings.select = Some("SELECT n FROM input WHERE n % 2 = 0".to_owned());
    let rows = read(&folder, settings, &ScanOptions::default()).unwrap();
    assert_eq!(rows.values(), (0..1000).step_by(2).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(rows.bytes > 0);
}

#[test]
fn a_scan_works_inside_a_runtime_and_may_be_dropped_half_way() {
    let mut content = "v\n".to_owned();
    (0..200_000).for_each(|value| writeln!(content, "{value}").unwrap());
    let folder = folder(&[("a.csv", content.as_bytes())]);
    let mut settings = settings(Format::Csv, &["a.csv"]);
    settings.select = Some("SELECT v FROM input".to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let source = Source::open(settings, folder.path()).unwrap();
        let mut scan = source.scan(&ScanOptions { batch_rows: 100, ..ScanOptions::default() }).unwrap();
        assert!(scan.is_serial());
        let decoded = scan.next_piece().unwrap().unwrap().decode().unwrap();
        assert_eq!(decoded.batches[0].first_row, 1);
    });
}
