//! GeoPackages: layers, types, what SQLite lets in that the layer does not, and logs beside the file.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use hexfloe_source::{ErrorKind, Format, ScanOptions, Source, SourceSettings, StatedCrs};
use proptest::prelude::*;
use rstest::rstest;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::{Rows, folder, read, refusal, schema_of, settings};

const METADATA: &str = "
    PRAGMA application_id = 0x47504B47; PRAGMA user_version = 10400;
    CREATE TABLE gpkg_spatial_ref_sys (srs_name TEXT NOT NULL, srs_id INTEGER PRIMARY KEY, organization TEXT NOT NULL,
        organization_coordsys_id INTEGER NOT NULL, definition TEXT NOT NULL, description TEXT);
    INSERT INTO gpkg_spatial_ref_sys VALUES ('undefined', -1, 'NONE', -1, 'undefined', NULL),
        ('undefined', 0, 'NONE', 0, 'undefined', NULL), ('grid', 27700, 'EPSG', 27700, 'PROJCS[...]', NULL),
        ('mine', 100001, 'mine', 1, 'LOCAL_CS[\"mine\"]', NULL);
    CREATE TABLE gpkg_contents (table_name TEXT NOT NULL PRIMARY KEY, data_type TEXT NOT NULL, srs_id INTEGER);
    CREATE TABLE gpkg_geometry_columns (table_name TEXT NOT NULL, column_name TEXT NOT NULL, geometry_type_name TEXT,
        srs_id INTEGER NOT NULL, z TINYINT, m TINYINT);
";

/// A GeoPackage with what this SQL puts into it.
fn package(folder: &TempDir, sql: &str) {
    let connection = Connection::open(folder.path().join("a.gpkg")).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;").unwrap();
    connection.execute_batch(METADATA).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// A layer `t` of points, with these columns and rows.
fn layer(columns: &str, rows: &str) -> String {
    format!(
        "INSERT INTO gpkg_contents VALUES ('t', 'features', 27700);
         INSERT INTO gpkg_geometry_columns VALUES ('t', 'geom', 'POINT', 27700, 0, 0);
         CREATE TABLE t (fid INTEGER PRIMARY KEY, geom POINT{columns});
         {rows}"
    )
}

/// The point (1 2) in the reference system 27700.
const POINT: &str = "X'4750000134 6C0000 0101000000 000000000000F03F 0000000000000040'";

fn point() -> String {
    POINT.replace(' ', "")
}

fn of(path: &str) -> SourceSettings {
    settings(Format::Geopackage, &[path])
}

fn all(folder: &TempDir) -> Rows {
    read(folder, of("a.gpkg"), &ScanOptions::default()).unwrap()
}

fn one_column(declared: &str, values: &[&str]) -> Rows {
    let folder = TempDir::new().unwrap();
    let rows: String = values.iter().map(|value| format!("INSERT INTO t (v) VALUES ({value});")).collect();
    package(&folder, &layer(&format!(", v {declared}"), &rows));
    all(&folder)
}

#[rstest]
#[case("BOOLEAN", &["1", "0", "NULL"], "v:boolean", &["true|∅", "false|∅", "∅|∅"])]
#[case("TINYINT", &["-7"], "v:int", &["-7|∅"])]
#[case("MEDIUMINT", &["2147483647"], "v:int", &["2147483647|∅"])]
#[case("INTEGER", &["9223372036854775807"], "v:long", &["9223372036854775807|∅"])]
#[case("REAL", &["0.5", "2"], "v:double", &["0.5|∅", "2.0|∅"])]
#[case("FLOAT", &["1.1"], "v:double", &["1.1|∅"])]
#[case("TEXT(3)", &["'Zürich'", "''"], "v:string", &["Zürich|∅", "|∅"])]
#[case("BLOB", &["X'00ff'"], "v:BinaryView", &["00ff|∅"])]
#[case("DATE", &["'2024-05-06'", "NULL"], "v:date", &["2024-05-06|∅", "∅|∅"])]
#[case("JSON", &["'{}'", "1", "0.5"], "v:string", &["{}|∅", "1|∅", "0.5|∅"])]
fn a_column_has_the_type_that_is_declared(
    #[case] declared: &str,
    #[case] values: &[&str],
    #[case] schema: &str,
    #[case] expected: &[&str],
) {
    let rows = one_column(declared, values);
    assert_eq!(rows.schema, [schema, "geom:BinaryView"]);
    assert_eq!(rows.values(), expected);
    assert_eq!(rows.rejects, [""; 0]);
}

#[rstest]
#[case("BOOLEAN", "2", "boolean")]
#[case("BOOLEAN", "'yes'", "boolean")]
#[case("MEDIUMINT", "3000000000", "int")]
#[case("INTEGER", "1.5", "long")]
#[case("INTEGER", "'12a'", "long")]
#[case("REAL", "'n/a'", "double")]
#[case("REAL", "X'00'", "double")]
#[case("TEXT", "X'e9'", "string")]
#[case("TEXT", "CAST(X'e9' AS TEXT)", "string")]
#[case("BLOB", "'text'", "binary")]
#[case("DATE", "'0000-00-00'", "date")]
#[case("DATE", "20240506", "date")]
#[case("DATETIME", "'yesterday'", "timestamptz")]
#[case("DATETIME", "1714979289", "timestamptz")]
fn a_value_that_is_not_of_the_declared_type_is_a_reject_and_its_row_stays(
    #[case] declared: &str,
    #[case] value: &str,
    #[case] wanted: &str,
) {
    let rows = one_column(declared, &[value, "NULL"]);
    assert_eq!(rows.values(), ["∅|∅", "∅|∅"]);
    assert_eq!(rows.rejects.len(), 1);
    assert!(rows.rejects[0].starts_with("a.gpkg:1 "), "{:?}", rows.rejects);
    assert!(rows.rejects[0].contains(wanted), "{:?}", rows.rejects);
}

#[test]
fn four_forms_of_an_instant_in_one_column_are_one_type_in_utc_and_null_stays_null() {
    let rows = one_column(
        "DATETIME",
        &[
            "'2024-05-06T07:08:09.123Z'",
            "'2024-05-06T09:08:09+02:00'",
            "'2024-05-06 07:08:09.5'",
            "'2024-05-06'",
            "NULL",
        ],
    );
    assert_eq!(rows.schema[0], "v:Timestamp(µs, \"+00:00\")");
    let expected = [
        "2024-05-06T07:08:09.123Z|∅",
        "2024-05-06T07:08:09Z|∅",
        "2024-05-06T07:08:09.500Z|∅",
        "2024-05-06T00:00:00Z|∅",
        "∅|∅",
    ];
    assert_eq!(rows.values(), expected);
    assert_eq!(rows.rejects, [""; 0]);
}

#[test]
fn what_the_job_declares_is_read_from_the_text_of_the_file() {
    let folder = TempDir::new().unwrap();
    let row = "INSERT INTO t VALUES (7, NULL, '12.50', 3, '2024-05-06T07:08:09'), (8, NULL, 'x', 4, NULL);";
    package(&folder, &layer(", price TEXT, n MEDIUMINT, at DATETIME", row));
    let mut settings = of("a.gpkg");
    settings.schema = schema_of(&[("price", "decimal(9,2)"), ("n", "long"), ("at", "string"), ("fid", "long")]);
    let rows = read(&folder, settings, &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema, ["fid:long", "price:Decimal128(9, 2)", "n:long", "at:string", "geom:BinaryView"]);
    assert_eq!(rows.values(), ["7|12.50|3|2024-05-06T07:08:09|∅", "8|∅|4|∅|∅"]);
    assert_eq!(rows.rejects.len(), 1);
}

#[test]
fn a_declaration_that_would_lose_something_is_refused() {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer(", n INTEGER", ""));
    let mut settings = of("a.gpkg");
    settings.schema = schema_of(&[("n", "int")]);
    let error = refusal(&folder, settings, &ScanOptions::default());
    assert!(error.to_string().contains("not every long is a int"), "{error}");
}

#[test]
fn rows_come_in_the_order_of_the_key_and_the_key_is_the_feature_id() {
    let folder = TempDir::new().unwrap();
    let rows = "INSERT INTO t (fid, v) VALUES (30, 'c'), (-5, 'a'), (9223372036854775807, 'e'), (7, 'b'), (31, 'd'),
                (-9223372036854775808, 'least');";
    package(&folder, &layer(", v TEXT", rows));
    for batch_rows in [1, 2, 6, 100] {
        let source = Source::open(of("a.gpkg"), folder.path()).unwrap();
        let mut scan = source.scan(&ScanOptions { batch_rows, ..ScanOptions::default() }).unwrap();
        let (mut ids, mut first_rows, mut bytes) = (Vec::<i64>::new(), Vec::new(), 0);
        while let Some(piece) = scan.next_piece().unwrap() {
            let decoded = piece.decode().unwrap();
            bytes += decoded.bytes;
            for batch in decoded.batches {
                assert!(batch.batch.num_rows() <= batch_rows);
                assert_eq!(batch.layer.as_deref(), Some("t"));
                let keys = batch.feature_ids.unwrap();
                assert_eq!(keys.len(), batch.batch.num_rows());
                ids.extend(keys.as_primitive::<Int64Type>().values());
                first_rows.push(batch.first_row);
            }
        }
        assert_eq!(ids, [i64::MIN, -5, 7, 30, 31, i64::MAX]);
        assert_eq!(first_rows, (1..=6).step_by(batch_rows).collect::<Vec<u64>>());
        assert_eq!(bytes, source.total_bytes());
    }
}

#[test]
fn a_geometry_is_written_anew_and_one_that_cannot_be_read_is_a_reject() {
    let folder = TempDir::new().unwrap();
    let (point, other) = (point(), point().replace("346C0000", "E6100000"));
    let rows = format!(
        "INSERT INTO t (geom) VALUES ({point}), (NULL), (X'00'), ('POINT (1 2)'), ({other}), ({});",
        point.replace("346C0000", "FFFFFFFF")
    );
    package(&folder, &layer("", &rows));
    let rows = all(&folder);
    let wkb = "0101000000000000000000f03f0000000000000040";
    assert_eq!(rows.values(), [wkb, "∅", "∅", "∅", "∅", wkb]);
    assert_eq!(rows.rejects.len(), 3, "{:?}", rows.rejects);
    assert!(rows.rejects[2].contains("4326"), "{:?}", rows.rejects);
}

#[rstest]
#[case(27700, "EPSG:27700")]
#[case(0, "no stated coordinate reference system")]
#[case(-1, "no stated coordinate reference system")]
#[case(5, "no stated coordinate reference system")]
fn the_reference_system_is_that_of_the_geometry_column(#[case] srs_id: i64, #[case] expected: &str) {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer("", &format!("UPDATE gpkg_geometry_columns SET srs_id = {srs_id};")));
    let source = Source::open(of("a.gpkg"), folder.path()).unwrap();
    let geometries = source.geometries().unwrap();
    assert_eq!(geometries.len(), 1);
    assert_eq!((geometries[0].column.as_str(), geometries[0].encoding.as_str()), ("geom", "WKB"));
    assert!(geometries[0].crs.to_string().starts_with(expected), "{}", geometries[0].crs);
}

#[test]
fn a_table_of_attributes_has_no_geometry() {
    let folder = TempDir::new().unwrap();
    package(
        &folder,
        "INSERT INTO gpkg_contents VALUES ('t', 'attributes', NULL), ('pixels', 'tiles', 4326);
         CREATE TABLE t (v TEXT); INSERT INTO t VALUES ('a'), ('b');",
    );
    assert_eq!(all(&folder).values(), ["a", "b"]);
    assert_eq!(Source::open(of("a.gpkg"), folder.path()).unwrap().geometries().unwrap(), []);
}

#[test]
fn of_several_layers_one_has_to_be_named() {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer("", ""));
    let connection = Connection::open(folder.path().join("a.gpkg")).unwrap();
    let second = "INSERT INTO gpkg_contents VALUES ('roads', 'attributes', NULL); CREATE TABLE roads (id INTEGER PRIMARY KEY, v TEXT);
                  INSERT INTO roads VALUES (1, 'A1')";
    connection.execute_batch(second).unwrap();
    let error = refusal(&folder, of("a.gpkg"), &ScanOptions::default());
    assert!(error.to_string().contains("choose one of `roads`, `t`"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let mut settings = of("a.gpkg");
    settings.layer = Some("raods".to_owned());
    let error = refusal(&folder, settings.clone(), &ScanOptions::default());
    assert!(error.to_string().contains("no layer `raods`: the nearest names are `roads`"), "{error}");
    settings.layer = Some("roads".to_owned());
    assert_eq!(read(&folder, settings, &ScanOptions::default()).unwrap().values(), ["A1"]);
}

#[rstest]
#[case::a_view(
    "CREATE VIEW t AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS fid FROM n;
    INSERT INTO gpkg_contents VALUES ('t', 'attributes', NULL);",
    "`t` is a view"
)]
#[case::a_virtual_table(
    "CREATE VIRTUAL TABLE t USING fts5(v); INSERT INTO gpkg_contents VALUES ('t', 'attributes', NULL);",
    "`t` is a virtual"
)]
#[case::contents_that_are_a_view(
    "DROP TABLE gpkg_contents; CREATE VIEW gpkg_contents AS SELECT 1;",
    "`gpkg_contents` is a view"
)]
#[case::no_table("INSERT INTO gpkg_contents VALUES ('t', 'features', 1);", "there is no such table")]
#[case::no_layer("", "has no layer")]
#[case::no_geometry(
    "CREATE TABLE t (fid INTEGER PRIMARY KEY); INSERT INTO gpkg_contents VALUES ('t', 'features', 1);",
    "which column of `t` is the geometry"
)]
#[case::no_such_geometry(
    "CREATE TABLE t (fid INTEGER PRIMARY KEY); INSERT INTO gpkg_contents VALUES ('t', 'features', 1);
    INSERT INTO gpkg_geometry_columns VALUES ('t', 'shape', 'POINT', 1, 0, 0);",
    "no such column"
)]
#[case::no_order(
    "CREATE TABLE t (id TEXT PRIMARY KEY) WITHOUT ROWID; INSERT INTO gpkg_contents VALUES ('t', 'attributes', 1);",
    "no such column: rowid"
)]
#[case::no_contents("DROP TABLE gpkg_contents;", "without gpkg_contents")]
fn a_layer_that_is_no_table_with_an_order_is_refused(#[case] sql: &str, #[case] problem: &str) {
    let folder = TempDir::new().unwrap();
    package(&folder, sql);
    let error = refusal(&folder, of("a.gpkg"), &ScanOptions::default());
    assert!(error.to_string().contains(problem), "{error}");
    assert!(error.to_string().contains("a.gpkg"), "{error}");
}

#[rstest]
#[case(b"", "is empty")]
#[case(b"SQLite", "does not begin like")]
#[case(b"PK\x03\x04 and what else a zip file has", "does not begin like")]
#[case(b"SQLite format 3\0 and nothing more", "is no GeoPackage, or it is damaged or cut off")]
fn a_file_that_is_no_database_is_refused(#[case] content: &[u8], #[case] problem: &str) {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.gpkg"), content).unwrap();
    let error = refusal(&folder, of("a.gpkg"), &ScanOptions::default());
    assert!(error.to_string().contains(problem), "{error}");
}

#[test]
fn rows_that_hold_more_than_the_file_does_are_refused() {
    let folder = TempDir::new().unwrap();
    let rows = "INSERT INTO t (v) SELECT zeroblob(998930) FROM (VALUES (1), (2), (3), (4), (5), (6));";
    package(&folder, &layer(", v BLOB", rows));
    assert_eq!(all(&folder).rows.len(), 6);

    // Of each row, a few bytes are in one page, and the rest in pages of its own. All rows are given the pages of the first, and the other pages are cut off.
    const PAGE: usize = 4096;
    let path = folder.path().join("a.gpkg");
    let mut bytes = fs::read(&path).unwrap();
    let number = |bytes: &[u8]| usize::try_from(u32::from_be_bytes(bytes.try_into().unwrap())).unwrap();
    let leaf = bytes.chunks(PAGE).position(|page| page[0] == 0x0d && page[3..5] == [0, 6]).unwrap();
    let page = &mut bytes[leaf * PAGE..][..PAGE];
    let mut cells: Vec<usize> =
        (0..6).map(|cell| usize::from(u16::from_be_bytes([page[8 + 2 * cell], page[9 + 2 * cell]]))).collect();
    cells.sort_unstable_by(|a, b| b.cmp(a)); // rows are added from the end of the page
    let length = cells[0] - cells[1];
    let first = page[PAGE - 4..].to_vec();
    for cell in cells {
        page[cell + length - 4..cell + length].copy_from_slice(&first);
    }
    let pages = number(&first) + 998_930 / (PAGE - 4) + 1;
    bytes.truncate(pages * PAGE);
    bytes[28..32].copy_from_slice(&u32::try_from(pages).unwrap().to_be_bytes());
    fs::write(&path, bytes).unwrap();
    let error = refusal(&folder, of("a.gpkg"), &ScanOptions::default());
    assert!(error.to_string().contains("more than the file"), "{error}");
}

#[test]
fn a_record_beyond_the_limit_is_refused_by_the_place_of_its_row() {
    let folder = TempDir::new().unwrap();
    let rows = "INSERT INTO t (fid, v) VALUES (1, 'short'), (2, zeroblob(3000000)), (3, zeroblob(200));";
    package(&folder, &layer(", v BLOB", rows));
    let mut settings = of("a.gpkg");
    settings.schema = schema_of(&[("v", "binary")]);
    settings.limits.record_bytes = 2 << 20;
    let error = refusal(&folder, settings.clone(), &ScanOptions::default());
    assert!(error.to_string().contains("layer `t`, the row behind fid 1: "), "{error}");
    assert!(error.to_string().contains("record_bytes"), "{error}");
}

/// Names and contents of everything in a folder.
fn snapshot(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn reading_leaves_no_byte_in_the_folder_of_the_file() {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer(", v TEXT", "INSERT INTO t (v) VALUES ('a');"));
    let before = snapshot(folder.path());
    assert_eq!(all(&folder).values(), ["a|∅"]);
    assert_eq!(snapshot(folder.path()), before);
}

#[test]
fn a_file_that_was_written_with_a_log_is_read_without_one() {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer(", v TEXT", "INSERT INTO t (v) VALUES ('a');"));
    let connection = Connection::open(folder.path().join("a.gpkg")).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO t (v) VALUES ('b');").unwrap();
    connection.close().unwrap();
    let before = snapshot(folder.path());
    assert_eq!(before.len(), 1);
    assert_eq!(before[0].1[18..20], [2, 2], "not in the mode that is meant");
    assert_eq!(all(&folder).values(), ["a|∅", "b|∅"]);
    assert_eq!(snapshot(folder.path()), before);
}

/// A GeoPackage whose second row is in its write-ahead log only, as a copy of both files while a program has them open.
fn with_log() -> TempDir {
    let written = TempDir::new().unwrap();
    package(&written, &layer(", v TEXT", "INSERT INTO t (v) VALUES ('in the file');"));
    let connection = Connection::open(written.path().join("a.gpkg")).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO t (v) VALUES ('in the log');").unwrap();
    let folder = TempDir::new().unwrap();
    for name in ["a.gpkg", "a.gpkg-wal"] {
        fs::copy(written.path().join(name), folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn rows_in_the_log_beside_the_file_are_read_and_the_log_is_a_fact() {
    let folder = with_log();
    let before = snapshot(folder.path());
    assert_eq!(all(&folder).values(), ["in the file|∅", "in the log|∅"]);
    assert_eq!(snapshot(folder.path()), before);

    let source = Source::open(of("*"), folder.path()).unwrap();
    let facts = source.facts(&|_| {}).unwrap();
    assert_eq!(facts.iter().map(|fact| fact.path.as_str()).collect::<Vec<_>>(), ["a.gpkg", "a.gpkg-wal"]);
    assert_eq!(source.total_bytes(), facts.iter().map(|fact| fact.size).sum::<u64>());
    fs::write(folder.path().join("a.gpkg-wal"), "other").unwrap();
    let error = source.check_unchanged().unwrap_err();
    assert!(error.to_string().contains("a.gpkg-wal changed"), "{error}");
}

#[test]
fn an_empty_log_is_none() {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer(", v TEXT", "INSERT INTO t (v) VALUES ('a');"));
    fs::write(folder.path().join("a.gpkg-wal"), "").unwrap();
    assert_eq!(all(&folder).values(), ["a|∅"]);
    assert_eq!(Source::open(of("a.gpkg"), folder.path()).unwrap().facts(&|_| {}).unwrap().len(), 1);
}

#[test]
fn an_unfinished_write_is_refused_and_a_journal_that_was_kept_is_not() {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer(", v TEXT", "INSERT INTO t (v) VALUES ('a');"));
    fs::write(folder.path().join("a.gpkg-journal"), [0; 512]).unwrap();
    assert_eq!(all(&folder).values(), ["a|∅"]);
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    journal.resize(512, 1);
    fs::write(folder.path().join("a.gpkg-journal"), journal).unwrap();
    let error = refusal(&folder, of("a.gpkg"), &ScanOptions::default());
    assert!(error.to_string().contains("unfinished write"), "{error}");
}

#[test]
fn files_of_one_source_have_the_same_columns_and_reference_system() {
    let folder = TempDir::new().unwrap();
    package(&folder, &layer(", v TEXT", "INSERT INTO t (v) VALUES ('a');"));
    fs::copy(folder.path().join("a.gpkg"), folder.path().join("b.gpkg")).unwrap();
    let rows = read(&folder, of("*.gpkg"), &ScanOptions::default()).unwrap();
    assert_eq!(rows.rows, ["a.gpkg:1 a|∅", "b.gpkg:1 a|∅"]);
    let connection = Connection::open(folder.path().join("b.gpkg")).unwrap();
    connection.execute_batch("UPDATE gpkg_geometry_columns SET srs_id = 0").unwrap();
    let error = refusal(&folder, of("*.gpkg"), &ScanOptions::default());
    assert!(error.to_string().contains("column `geom` is in EPSG:27700"), "{error}");
}

#[test]
fn a_definition_that_contradicts_its_code_is_refused() {
    let folder = TempDir::new().unwrap();
    let wgs84 = r#"GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]]"#;
    let sql = format!("UPDATE gpkg_spatial_ref_sys SET definition = '{wgs84}' WHERE srs_id = 27700;");
    package(&folder, &(layer("", &format!("INSERT INTO t (geom) VALUES ({});", point())) + &sql));
    let error = refusal(&folder, of("a.gpkg"), &ScanOptions::default());
    assert_eq!(error.kind(), ErrorKind::Input);
    let told = error.to_string();
    assert!(told.contains("EPSG:27700") && told.contains("EPSG:4326") && told.contains("only one of them"), "{told}");
}

#[test]
fn what_is_undefined_in_words_is_missing() {
    let folder = TempDir::new().unwrap();
    let sql = "UPDATE gpkg_geometry_columns SET srs_id = 9; INSERT INTO gpkg_spatial_ref_sys VALUES ('x', 9, 'none', 9, 'undefined', NULL);";
    package(&folder, &layer("", sql));
    let source = Source::open(of("a.gpkg"), folder.path()).unwrap();
    assert_eq!(source.geometries().unwrap()[0].crs, StatedCrs::Missing);
}

/// A file to damage.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    let point = point();
    let rows = format!(
        "INSERT INTO t (geom, v, d) VALUES ({point}, 'a', 1.5), (NULL, 'b', 2), ({point}, zeroblob(9000), 'x');"
    );
    package(&folder, &layer(", v TEXT, d REAL", &rows));
    fs::read(folder.path().join("a.gpkg")).unwrap()
});

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_or_refused_and_never_a_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        kept in prop::option::weighted(0.3, any::<prop::sample::Index>()),
    ) {
        let mut bytes = SOUND.clone();
        for (index, value) in damage {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        if let Some(kept) = kept {
            bytes.truncate(kept.index(bytes.len()));
        }
        let folder = folder(&[("a.gpkg", &bytes)]);
        if let Ok(rows) = read(&folder, of("a.gpkg"), &ScanOptions { batch_rows: 2, ..ScanOptions::default() }) {
            prop_assert!(rows.rows.len() <= 10);
        }
    }
}
