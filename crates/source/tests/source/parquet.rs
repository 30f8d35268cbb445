//! Parquet and GeoParquet: row groups, schemas, and files that are not whole.

use std::fs;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, DictionaryArray, Float64Array, Int32Array, Int64Array, LargeStringArray, ListArray,
    RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, TimeUnit};
use hexfloe_source::{ErrorKind, Format, ScanOptions, Source};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Rows, field, folder, read, refusal, schema_of, settings};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn parquet(batch: &RecordBatch, row_group: usize, geo: Option<&str>) -> Vec<u8> {
    let metadata = geo.map(|text| vec![KeyValue::new("geo".to_owned(), text.to_owned())]);
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(row_group))
        .set_key_value_metadata(metadata)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn numbers(from: i64, to: i64) -> RecordBatch {
    let names: Vec<String> = (from..to).map(|n| format!("a name that is longer than a view, {n}")).collect();
    batch(vec![
        ("n", Arc::new(Int64Array::from_iter_values(from..to))),
        ("name", Arc::new(StringArray::from_iter_values(names))),
    ])
}

fn read_files(files: &[(&str, &[u8])], options: &ScanOptions) -> Rows {
    read(&folder(files), settings(Format::Parquet, &["*.parquet"]), options).unwrap()
}

fn numbers_of(rows: &Rows) -> Vec<i64> {
    rows.values().iter().map(|row| row.split('|').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn rows_come_in_order_and_know_their_number_in_the_file() {
    let (a, b) = (parquet(&numbers(0, 25), 10, None), parquet(&numbers(25, 40), 10, None));
    for batch_rows in [1, 7, 10, 1000] {
        let rows =
            read_files(&[("a.parquet", &a), ("b.parquet", &b)], &ScanOptions { batch_rows, ..ScanOptions::default() });
        assert_eq!(rows.schema, ["n:long", "name:string"]);
        assert_eq!(numbers_of(&rows), (0..40).collect::<Vec<_>>());
        assert!(rows.rows[24].starts_with("a.parquet:25 24|"));
        assert!(rows.rows[25].starts_with("b.parquet:1 25|"));
        assert!(rows.rows[0].ends_with("a name that is longer than a view, 0"));
    }
}

#[test]
fn row_groups_may_be_decoded_in_any_order_by_several_threads() {
    let folder = folder(&[
        ("a.parquet", &parquet(&numbers(0, 100), 10, None)),
        ("b.parquet", &parquet(&numbers(100, 150), 10, None)),
    ]);
    let source = Source::open(settings(Format::Parquet, &["*.parquet"]), folder.path()).unwrap();
    let mut scan = source.scan(&ScanOptions::default()).unwrap();
    assert!(!scan.is_serial());
    assert_eq!(scan.estimated_rows(), Some(150));
    let mut pieces = Vec::new();
    while let Some(piece) = scan.next_piece().unwrap() {
        pieces.push(piece);
    }
    assert_eq!(pieces.len(), 15);
    pieces.reverse();
    let threads: Vec<_> = pieces
        .into_iter()
        .map(|piece| {
            std::thread::spawn(move || {
                let index = piece.index();
                (index, piece.decode().unwrap())
            })
        })
        .collect();
    for thread in threads {
        let (index, decoded) = thread.join().unwrap();
        assert_eq!(decoded.last, index == 14);
        let (file, first) = if index < 10 { ("a.parquet", index * 10) } else { ("b.parquet", (index - 10) * 10) };
        assert_eq!((&*decoded.batches[0].file, decoded.batches[0].first_row), (file, first + 1));
        assert_eq!(decoded.batches[0].batch.num_rows(), 10);
    }
}

#[test]
fn dictionaries_and_large_text_become_views_and_field_ids_are_dropped() {
    let dictionary: DictionaryArray<Int32Type> = ["x", "y", "x"].into_iter().collect();
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None, Some([None])]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("d", Arc::new(dictionary)),
        ("l", Arc::new(LargeStringArray::from(vec!["a", "b", "c"]))),
        ("b", Arc::new(BinaryArray::from_vec(vec![b"1", b"2", b"3"]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![-1, 0, 1]).with_timezone("+01:00"))),
        ("n", Arc::new(list)),
    ];
    let plain = batch(columns);
    let fields: Vec<Field> = plain
        .schema()
        .fields()
        .iter()
        .enumerate()
        .map(|(id, field)| {
            let id = [("PARQUET:field_id".to_owned(), id.to_string())];
            field.as_ref().clone().with_metadata(id.into())
        })
        .collect();
    let with_ids = plain.clone().with_schema(Arc::new(Schema::new(fields))).unwrap();
    let rows = read_files(
        &[("a.parquet", &parquet(&plain, 10, None)), ("b.parquet", &parquet(&with_ids, 10, None))],
        &ScanOptions::default(),
    );
    assert_eq!(rows.schema[..4], ["d:string", "l:string", "b:BinaryView", "t:Timestamp(ms, \"+01:00\")"]);
    assert_eq!(rows.rows.len(), 6);
    assert!(rows.rows[0].starts_with("a.parquet:1 x|a|31|1970-01-01T00:59:59.999"), "{}", rows.rows[0]);
}

#[test]
fn columns_are_found_by_name_and_may_be_null_if_they_may_be_in_one_file() {
    let never = Schema::new(vec![Field::new("x", DataType::Int64, false), Field::new("y", DataType::Float64, false)]);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1])), Arc::new(Float64Array::from(vec![1.5]))];
    let a = RecordBatch::try_new(Arc::new(never), columns).unwrap();
    let b = batch(vec![
        ("y", Arc::new(Float64Array::from(vec![None, Some(2.5)]))),
        ("x", Arc::new(Int64Array::from(vec![2, 3]))),
    ]);
    let rows = read_files(
        &[("a.parquet", &parquet(&a, 10, None)), ("b.parquet", &parquet(&b, 10, None))],
        &ScanOptions::default(),
    );
    assert_eq!(rows.values(), ["1|1.5", "2|∅", "3|2.5"]);
}

#[rstest]
#[case(batch(vec![("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]), "column `name` is missing")]
#[case(batch(vec![("n", Arc::new(Int32Array::from(vec![1])) as ArrayRef), ("name", Arc::new(StringArray::from(vec!["x"])))]),
    "b.parquet does not have the columns of a.parquet: column `n` is long in the first and int in the second")]
#[case(batch(vec![("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef), ("name", Arc::new(StringArray::from(vec!["x"]))),
    ("more", Arc::new(Int64Array::from(vec![1])))]), "column `more` is only in the second")]
fn files_with_two_schemas_are_refused(#[case] second: RecordBatch, #[case] message: &str) {
    let folder =
        folder(&[("a.parquet", &parquet(&numbers(0, 3), 10, None)), ("b.parquet", &parquet(&second, 10, None))]);
    for threads in [1, 4] {
        let options = ScanOptions { threads, ..ScanOptions::default() };
        let error = refusal(&folder, settings(Format::Parquet, &["*.parquet"]), &options);
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.kind(), ErrorKind::Input);
    }
}

#[test]
fn a_file_without_rows_has_a_schema() {
    let rows = read_files(&[("a.parquet", &parquet(&numbers(0, 0), 10, None))], &ScanOptions::default());
    assert_eq!((rows.schema.len(), rows.rows.len()), (2, 0));
}

#[test]
fn declared_types_widen_what_the_file_has() {
    let file = parquet(
        &batch(vec![
            ("i", Arc::new(Int32Array::from(vec![1, 2]))),
            ("j", Arc::new(Int32Array::from(vec![1, 2]))),
            ("s", Arc::new(StringArray::from(vec!["2024-05-06", "soon"]))),
            ("f", Arc::new(Float64Array::from(vec![1.5, 2.5]))),
            ("t", Arc::new(TimestampMillisecondArray::from(vec![-1, 1]).with_timezone("Europe/Berlin"))),
        ]),
        10,
        None,
    );
    let mut settings = settings(Format::Parquet, &["a.parquet"]);
    settings.schema = schema_of(&[("i", "long"), ("s", "date")]);
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let declared =
        vec![field("j", DataType::Int64), field("f", DataType::Int64), field("s", DataType::Utf8), field("t", utc)];
    let options = ScanOptions { declared, ..ScanOptions::default() };
    let rows = read(&folder(&[("a.parquet", &file)]), settings, &options).unwrap();
    assert_eq!(rows.schema, ["i:long", "j:long", "s:date", "f:double", "t:Timestamp(µs, \"+00:00\")"]);
    assert_eq!(rows.values(), ["1|1|2024-05-06|1.5|1969-12-31T23:59:59.999Z", "2|2|∅|2.5|1970-01-01T00:00:00.001Z"]);
    assert_eq!(rows.rejects, ["a.parquet:2 column s: \"soon\" is no date"]);
}

#[test]
fn a_declared_type_that_would_lose_something_is_refused() {
    let mut settings = settings(Format::Parquet, &["a.parquet"]);
    settings.schema = schema_of(&[("n", "int")]);
    let folder = folder(&[("a.parquet", &parquet(&numbers(0, 3), 10, None))]);
    let error = refusal(&folder, settings, &ScanOptions::default());
    assert!(error.to_string().starts_with("source.schema.n: the column is long in a.parquet"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
}

#[rstest]
#[case(b"", "a.parquet: is empty (0 bytes)")]
#[case(b"PAR1", "a.parquet: is no Parquet file, or is cut off")]
#[case(b"lat,lon\n1,2\n3,4\n", "a.parquet: is no Parquet file, or is cut off")]
fn what_is_no_parquet_file_is_refused(#[case] content: &[u8], #[case] message: &str) {
    let error =
        refusal(&folder(&[("a.parquet", content)]), settings(Format::Parquet, &["a.parquet"]), &ScanOptions::default());
    assert!(error.to_string().starts_with(message), "{error}");
    assert_eq!(error.kind(), ErrorKind::Input);
}

#[test]
fn a_file_cut_off_anywhere_is_an_input_error() {
    let whole = parquet(&numbers(0, 25), 10, None);
    for length in 0..whole.len() {
        let folder = folder(&[("a.parquet", &whole[..length])]);
        let error = refusal(&folder, settings(Format::Parquet, &["a.parquet"]), &ScanOptions::default());
        assert_eq!(error.kind(), ErrorKind::Input, "{length} bytes: {error}");
        assert!(error.to_string().starts_with("a.parquet: "), "{error}");
    }
}

#[test]
fn a_file_with_a_flipped_byte_is_read_or_refused() {
    let whole = parquet(&numbers(0, 8), 5, None);
    let mut refused = 0;
    for position in (0..whole.len()).step_by(2) {
        for mask in [0x01, 0xff] {
            let mut bytes = whole.clone();
            bytes[position] ^= mask;
            let folder = folder(&[("a.parquet", &bytes)]);
            if read(&folder, settings(Format::Parquet, &["a.parquet"]), &ScanOptions::default()).is_err() {
                refused += 1;
            }
        }
    }
    assert!(refused > whole.len() / 8);
}

#[test]
fn a_file_that_is_replaced_between_two_row_groups_is_noticed() {
    let folder = folder(&[
        ("a.parquet", &parquet(&numbers(0, 25), 10, None)),
        ("b.parquet", &parquet(&numbers(25, 50), 10, None)),
    ]);
    let source = Source::open(settings(Format::Parquet, &["*.parquet"]), folder.path()).unwrap();
    let mut scan = source.scan(&ScanOptions::default()).unwrap();
    scan.next_piece().unwrap().unwrap().decode().unwrap();
    for name in ["a.parquet", "b.parquet"] {
        let new = folder.path().join("new");
        fs::write(&new, parquet(&numbers(100, 125), 10, None)).unwrap();
        fs::rename(&new, folder.path().join(name)).unwrap();
    }
    // The open file is still the old one, whatever the path leads to now.
    let second = scan.next_piece().unwrap().unwrap().decode().unwrap();
    assert_eq!(second.batches[0].first_row, 11);
    scan.next_piece().unwrap().unwrap().decode().unwrap();
    let error = scan.next_piece().unwrap_err();
    assert!(error.to_string().contains("b.parquet changed while being read"), "{error}");
    assert!(source.check_unchanged().is_err());
}

fn geo_metadata() -> Value {
    json!({ "version": "1.1.0", "primary_column": "geometry",
        "columns": { "geometry": { "encoding": "WKB", "geometry_types": ["Point"], "bbox": [177.0, -20.0, -178.0, -15.0] } } })
}

fn geo_file(metadata: Option<&Value>) -> Vec<u8> {
    let mut point = vec![1, 1, 0, 0, 0];
    point.extend(11.5_f64.to_le_bytes());
    point.extend(48.1_f64.to_le_bytes());
    let points = batch(vec![("geometry", Arc::new(BinaryArray::from_iter_values([&point, &point])))]);
    parquet(&points, 10, metadata.map(ToString::to_string).as_deref())
}

fn geo_source(files: &[(&str, &[u8])]) -> (TempDir, Source) {
    let folder = folder(files);
    let source = Source::open(settings(Format::Geoparquet, &["*.parquet"]), folder.path()).unwrap();
    (folder, source)
}

#[test]
fn geoparquet_names_its_geometry_and_no_row_is_left_out_by_its_bounding_box() {
    let (_folder, source) = geo_source(&[("a.parquet", &geo_file(Some(&geo_metadata())))]);
    let geometry = source.geometries().unwrap().remove(0);
    assert_eq!((geometry.column.as_str(), geometry.encoding.as_str()), ("geometry", "WKB"));
    assert_eq!(geometry.crs, hexfloe_source::StatedCrs::Default);
    let rows = crate::scan(&source, &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema, ["geometry:BinaryView"]);
    assert_eq!(rows.rows.len(), 2);
}

#[test]
fn geoparquet_states_its_crs() {
    let mut metadata = geo_metadata();
    metadata["columns"]["geometry"]["crs"] = json!({ "id": { "authority": "EPSG", "code": 27700 } });
    let (_folder, source) = geo_source(&[("a.parquet", &geo_file(Some(&metadata)))]);
    let crs = source.geometries().unwrap().remove(0).crs.known().unwrap();
    assert_eq!(crs.id(), Some("EPSG:27700"));
}

#[rstest]
#[case("/primary_column", json!(123), "a.parquet: geo metadata, field `primary_column`: is 123, not a text")]
#[case("/primary_column", json!("geom"), "field `columns.geom`: is missing")]
#[case("/columns/geometry/encoding", json!(null), "field `columns.geometry.encoding`")]
fn malformed_geo_metadata_is_refused_by_field(#[case] pointer: &str, #[case] value: Value, #[case] message: &str) {
    let mut metadata = geo_metadata();
    *metadata.pointer_mut(pointer).unwrap() = value;
    let (_folder, source) = geo_source(&[("a.parquet", &geo_file(Some(&metadata)))]);
    for error in [source.geometries().unwrap_err(), source.scan(&ScanOptions::default()).unwrap_err()] {
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(error.kind(), ErrorKind::Input);
    }
}

#[test]
fn a_primary_column_the_file_does_not_have_is_refused() {
    let mut metadata = geo_metadata();
    metadata["primary_column"] = json!("place");
    metadata["columns"]["place"] = metadata["columns"]["geometry"].clone();
    let (_folder, source) = geo_source(&[("a.parquet", &geo_file(Some(&metadata)))]);
    let error = source.geometries().unwrap_err();
    assert!(error.to_string().contains("field `primary_column`: no column `place`"), "{error}");
}

#[test]
fn parquet_without_geo_metadata_is_no_geoparquet() {
    let (_folder, source) = geo_source(&[("a.parquet", &geo_file(None))]);
    let error = source.scan(&ScanOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a.parquet: has no `geo` metadata"), "{error}");
}

#[test]
fn files_in_two_reference_systems_are_refused() {
    let mut metadata = geo_metadata();
    metadata["columns"]["geometry"]["crs"] = json!({ "id": { "authority": "EPSG", "code": 27700 } });
    let (first, second) = (geo_file(Some(&geo_metadata())), geo_file(Some(&metadata)));
    let (_folder, source) = geo_source(&[("a.parquet", &first), ("b.parquet", &second)]);
    let error = source.geometries().unwrap_err();
    assert!(error.to_string().contains("is in OGC:CRS84 in the first and in EPSG:27700 in the second"), "{error}");
}
