//! FlatGeobuf: files of GDAL (`make.py` says how they are made), as they are and damaged.

use hexfloe_source::{Format, ScanOptions, Source, SourceSettings, StatedCrs};
use proptest::prelude::*;
use rstest::rstest;

use crate::{Rows, folder, read, refusal, schema_of, settings};

const TYPES: &[u8] = include_bytes!("fixtures/types.fgb");
const MIXED: &[u8] = include_bytes!("fixtures/mixed.fgb");
const HEIGHTS: &[u8] = include_bytes!("fixtures/heights.fgb");

fn of(path: &str) -> SourceSettings {
    settings(Format::Flatgeobuf, &[path])
}

fn all(content: &[u8]) -> Rows {
    let folder = folder(&[("a.fgb", content)]);
    let rows = read(&folder, of("a.fgb"), &ScanOptions::default()).unwrap();
    assert_eq!(rows.bytes, content.len() as u64);
    rows
}

fn problem(content: &[u8]) -> String {
    refusal(&folder(&[("a.fgb", content)]), of("a.fgb"), &ScanOptions::default()).to_string()
}

/// What a geometry in WKT is as hexadecimal digits.
fn wkb(text: &str) -> String {
    let mut bytes = Vec::new();
    hexfloe_geometry::from_text(text, &hexfloe_geometry::Limits::default(), &mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Where the size of the header is followed by it, and where it ends.
fn header(content: &[u8]) -> std::ops::Range<usize> {
    let size = u32::from_le_bytes(content[8..12].try_into().unwrap());
    12..12 + usize::try_from(size).unwrap()
}

/// The file with another count of features in its header.
fn with_count(content: &[u8], count: u64, other: u64) -> Vec<u8> {
    let mut content = content.to_vec();
    let within = header(&content);
    let count = count.to_le_bytes();
    let places: Vec<usize> = within.filter(|place| content.get(*place..place + 8) == Some(&count)).collect();
    assert_eq!(places.len(), 1, "{places:?}");
    content[places[0]..places[0] + 8].copy_from_slice(&other.to_le_bytes());
    content
}

#[test]
fn each_type_is_a_type_and_what_is_not_there_is_null() {
    let rows = all(TYPES);
    let expected = [
        "b:boolean",
        "i16:int",
        "i32:int",
        "i64:long",
        "f32:Float32",
        "f64:double",
        "s:string",
        "at:Timestamp(µs, \"+00:00\")",
        "raw:BinaryView",
        "geometry:BinaryView",
    ];
    assert_eq!(rows.schema, expected);
    let mut values = rows.values();
    values.sort_unstable(); // the index has its own order
    let first = format!(
        "true|-7|2147483647|9223372036854775807|0.5|0.1|Zürich|2024-05-06T07:08:09.123Z|00ff|{}",
        wkb("POINT (1 2)")
    );
    let second = format!("false|7|0|-1|1.5|-0.1||2024-05-06T09:08:09Z||{}", wkb("POINT (3 4)"));
    let nulls = format!("∅|∅|∅|∅|∅|∅|∅|∅|∅|{}", wkb("POINT (5 6)"));
    assert_eq!(values, [second, first, nulls]);
    assert_eq!(rows.rejects, [""; 0]);
}

#[test]
fn every_type_of_geometry_is_read_in_the_order_of_the_file() {
    let expected = [
        "POINT (1 2)",
        "LINESTRING (0 0, 1 1)",
        "POLYGON ((0 0, 9 0, 9 9, 0 0), (3 1, 4 1, 4 2, 3 1))",
        "MULTIPOINT ((0 0), (1 1))",
        "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3, 4 4))",
        "MULTIPOLYGON (((0 0, 9 0, 9 9, 0 0), (3 1, 4 1, 4 2, 3 1)), ((20 0, 29 0, 29 9, 20 0)))",
        "GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1 1))",
        "∅",
        "∅", // GDAL writes an empty geometry as none
    ];
    let expected: Vec<String> = (0..)
        .zip(expected)
        .map(|(n, text)| format!("{n}|{}", if text == "∅" { text.to_owned() } else { wkb(text) }))
        .collect();
    assert_eq!(all(MIXED).values(), expected);
}

#[test]
fn heights_are_kept() {
    let expected = [("1", "LINESTRING Z (0 0 5, 1 1 6)"), ("2", "LINESTRING Z (2 2 7, 3 3 8)")];
    assert_eq!(all(HEIGHTS).values(), expected.map(|(n, text)| format!("{n}|{}", wkb(text))));
}

#[rstest]
#[case(TYPES, "EPSG:27700")]
#[case(HEIGHTS, "EPSG:4326")]
#[case(MIXED, "no stated coordinate reference system")]
fn the_reference_system_is_that_of_the_header(#[case] content: &[u8], #[case] expected: &str) {
    let folder = folder(&[("a.fgb", content)]);
    let geometries = Source::open(of("a.fgb"), folder.path()).unwrap().geometries().unwrap();
    assert_eq!(geometries[0].column, "geometry");
    assert!(geometries[0].crs.to_string().starts_with(expected), "{}", geometries[0].crs);
    assert_eq!(geometries[0].crs == StatedCrs::Missing, expected.starts_with("no"));
}

#[test]
fn what_the_job_declares_is_read_as_such() {
    let mut settings = of("a.fgb");
    settings.schema = schema_of(&[("i32", "long"), ("f32", "double"), ("at", "string"), ("s", "date")]);
    let rows = read(&folder(&[("a.fgb", TYPES)]), settings, &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema[2], "i32:long");
    assert_eq!(rows.schema[6..8], ["s:date", "at:string"]);
    assert_eq!(rows.rejects.len(), 2, "{:?}", rows.rejects); // `Zürich` and the empty text are no dates
    assert!(rows.values().iter().any(|row| row.contains("2024-05-06T07:08:09.123Z")), "{:?}", rows.values());
}

#[test]
fn a_file_that_does_not_say_how_many_features_it_has_is_read_to_its_end() {
    assert_eq!(all(&with_count(MIXED, 9, 0)).rows, all(MIXED).rows);
}

#[rstest]
#[case::fewer(8)]
#[case::more(10)]
#[case::far_more(u64::MAX)]
fn a_count_that_lies_is_refused(#[case] count: u64) {
    let problem = problem(&with_count(MIXED, 9, count));
    assert!(problem.contains(&format!("has 9 features, and its header says {count}")), "{problem}");
}

#[test]
fn an_index_that_cannot_be_there_is_refused() {
    let problem = problem(&with_count(TYPES, 3, u64::MAX / 2));
    assert!(problem.contains("is larger than the file"), "{problem}");
}

#[test]
fn every_shorter_file_is_refused() {
    for content in [TYPES, MIXED, HEIGHTS] {
        for length in 0..content.len() {
            let problem = problem(&content[..length]);
            assert!(problem.starts_with("a.fgb"), "{length}: {problem}");
        }
    }
}

#[rstest]
#[case::header(8, "the header says that it has 4294967295 bytes")]
#[case::feature(header(MIXED).end, "feature 1 says that it has 4294967295 bytes")]
fn a_size_beyond_the_limit_is_refused_before_memory_is_taken(#[case] place: usize, #[case] expected: &str) {
    let mut content = MIXED.to_vec();
    content[place..place + 4].copy_from_slice(&[0xff; 4]);
    let problem = problem(&content);
    assert!(problem.contains(expected), "{problem}");
    assert!(problem.contains("record_bytes"), "{problem}");
}

#[test]
fn a_size_beyond_the_file_is_refused() {
    let mut content = MIXED.to_vec();
    let place = header(MIXED).end;
    content[place..place + 4].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    assert!(problem(&content).contains("is cut off: feature 1 has 1048576 bytes"));
}

#[test]
fn files_of_one_source_agree() {
    let folder = folder(&[("a.fgb", HEIGHTS), ("b.fgb", HEIGHTS), ("c.fgb", MIXED)]);
    let rows = read(&folder, of("[ab].fgb"), &ScanOptions { batch_rows: 1, ..ScanOptions::default() }).unwrap();
    assert_eq!((rows.rows.len(), rows.batches), (4, 4));
    let error = refusal(&folder, of("*.fgb"), &ScanOptions::default());
    assert!(error.to_string().contains("`geometry` is in EPSG:4326"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_or_refused_and_never_a_panic(
        which in 0_usize..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut content = [TYPES, MIXED, HEIGHTS][which].to_vec();
        for (index, value) in damage {
            let index = index.index(content.len());
            content[index] = value;
        }
        let folder = folder(&[("a.fgb", &content)]);
        let mut settings = of("a.fgb");
        settings.limits.record_bytes = 1 << 20;
        if let Ok(rows) = read(&folder, settings, &ScanOptions { batch_rows: 2, ..ScanOptions::default() }) {
            prop_assert!(rows.rows.len() <= 9);
        }
    }
}
