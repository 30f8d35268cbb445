//! Shapefiles: types, code pages, rings, companions and archives.

use std::fs;
use std::io::{Cursor, Write};

use hexfloe_source::{ErrorKind, Format, ScanOptions, Source, SourceSettings, StatedCrs};
use proptest::prelude::*;
use rstest::rstest;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use crate::{Rows, folder, read, refusal, schema_of, settings};

/// A `.shp` or `.shx` of this type with this content behind the header.
fn with_header(shape_type: u32, content: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 100];
    file[..4].copy_from_slice(&9994_u32.to_be_bytes());
    let words = u32::try_from((100 + content.len()) / 2).unwrap();
    file[24..28].copy_from_slice(&words.to_be_bytes());
    file[28..32].copy_from_slice(&1000_u32.to_le_bytes());
    file[32..36].copy_from_slice(&shape_type.to_le_bytes());
    file.extend(content);
    file
}

/// A `.shp` of these shapes, and its `.shx`.
fn shp(shape_type: u32, shapes: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let (mut records, mut index) = (Vec::new(), Vec::new());
    for (number, shape) in (1_u32..).zip(shapes) {
        let offset = u32::try_from((100 + records.len()) / 2).unwrap();
        let length = u32::try_from(shape.len() / 2).unwrap();
        index.extend(offset.to_be_bytes());
        index.extend(length.to_be_bytes());
        records.extend(number.to_be_bytes());
        records.extend(length.to_be_bytes());
        records.extend(shape);
    }
    (with_header(shape_type, &records), with_header(shape_type, &index))
}

fn point(x: f64, y: f64) -> Vec<u8> {
    [1_u32.to_le_bytes().as_slice(), &x.to_le_bytes(), &y.to_le_bytes()].concat()
}

/// A shape of parts, with z and m behind if there are any.
fn parts(shape_type: u32, parts: &[&[[f64; 2]]], more: &[&[f64]]) -> Vec<u8> {
    let mut shape = shape_type.to_le_bytes().to_vec();
    shape.extend([0; 32]);
    shape.extend(u32::try_from(parts.len()).unwrap().to_le_bytes());
    shape.extend(u32::try_from(parts.concat().len()).unwrap().to_le_bytes());
    let mut start = 0;
    for part in parts {
        shape.extend(u32::try_from(start).unwrap().to_le_bytes());
        start += part.len();
    }
    for number in parts.concat().concat() {
        shape.extend(number.to_le_bytes());
    }
    for numbers in more {
        shape.extend([0; 16]);
        numbers.iter().for_each(|number| shape.extend(number.to_le_bytes()));
    }
    shape
}

/// A field of a `.dbf`: name, type, width, decimals.
type Field<'a> = (&'a str, u8, u8, u8);

/// The bytes that the characters of a text are the numbers of.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect()
}

/// A `.dbf` of values whose characters are bytes. They are filled up with blanks; a row that begins with `*` is deleted.
fn dbf(fields: &[Field<'_>], rows: &[&[&str]]) -> Vec<u8> {
    let width: usize = 1 + fields.iter().map(|(_, _, width, _)| usize::from(*width)).sum::<usize>();
    let mut file = vec![3, 124, 5, 6];
    file.extend(u32::try_from(rows.len()).unwrap().to_le_bytes());
    file.extend(u16::try_from(33 + 32 * fields.len()).unwrap().to_le_bytes());
    file.extend(u16::try_from(width).unwrap().to_le_bytes());
    file.resize(32, 0);
    for (name, letter, width, decimals) in fields {
        let mut field = [0; 32];
        field[..name.len()].copy_from_slice(name.as_bytes());
        (field[11], field[16], field[17]) = (*letter, *width, *decimals);
        file.extend(field);
    }
    file.push(0x0d);
    for row in rows {
        let is_deleted = row.first() == Some(&"*") && row.len() > fields.len();
        file.push(if is_deleted { b'*' } else { b' ' });
        for (value, (_, _, width, _)) in row.iter().skip(usize::from(is_deleted)).zip(fields) {
            let mut value = bytes(value);
            value.resize(usize::from(*width), b' ');
            file.extend(value);
        }
    }
    file.push(0x1a);
    file
}

/// The files of a shapefile `a` of as many points as there are rows.
fn points(fields: &[Field<'_>], rows: &[&[&str]]) -> Vec<(&'static str, Vec<u8>)> {
    let shapes: Vec<Vec<u8>> = (0_u32..).zip(rows).map(|(number, _)| point(f64::from(number), 0.5)).collect();
    let (shp, shx) = shp(1, &shapes);
    vec![("a.shp", shp), ("a.shx", shx), ("a.dbf", dbf(fields, rows))]
}

fn written(files: &[(&'static str, Vec<u8>)]) -> TempDir {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (*name, content.as_slice())).collect();
    folder(&files)
}

fn of(path: &str) -> SourceSettings {
    settings(Format::Shapefile, &[path])
}

fn all(folder: &TempDir) -> Rows {
    read(folder, of("a.shp"), &ScanOptions::default()).unwrap()
}

/// The rows without their geometries.
fn attributes(rows: &Rows) -> Vec<&str> {
    rows.values().into_iter().map(|row| row.rsplit_once('|').unwrap().0).collect()
}

fn one_field(field: Field<'_>, values: &[&str]) -> Rows {
    let rows: Vec<Vec<&str>> = values.iter().map(|value| vec![*value]).collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    all(&written(&points(&[field], &rows)))
}

/// A shapefile of one shape, as the hexadecimal digits of its geometry or the reason why it has none.
fn one_shape(shape_type: u32, shape: Vec<u8>) -> String {
    let (shp, shx) = shp(shape_type, &[shape]);
    let rows = all(&written(&[("a.shp", shp), ("a.shx", shx), ("a.dbf", dbf(&[("n", b'N', 1, 0)], &[&["1"]]))]));
    match rows.rejects.first() {
        Some(reject) => reject.clone(),
        None => rows.values()[0].strip_prefix("1|").unwrap().to_owned(),
    }
}

/// What a geometry in WKT is as hexadecimal digits.
fn wkb(text: &str) -> String {
    let mut bytes = Vec::new();
    hexfloe_geometry::from_text(text, &hexfloe_geometry::Limits::default(), &mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[rstest]
#[case(("v", b'N', 9, 0), &["999999999", "      -12", "", "*********"], "v:int", &["999999999", "-12", "∅", "∅"])]
#[case(("v", b'N', 10, 0), &["9999999999", "7.0"], "v:long", &["9999999999", "7"])]
#[case(("v", b'N', 19, 0), &["1"], "v:double", &["1.0"])]
#[case(("v", b'N', 9, 2), &["12.50", "-1e3", ""], "v:double", &["12.5", "-1000.0", "∅"])]
#[case(("v", b'F', 13, 6), &["0.25"], "v:double", &["0.25"])]
#[case(("v", b'C', 8, 0), &["  a b  ", "", "a\0b"], "v:string", &["  a b", "∅", "a"])]
#[case(("v", b'D', 8, 0), &["20240229", "00000000", ""], "v:date", &["2024-02-29", "∅", "∅"])]
#[case(("v", b'L', 1, 0), &["T", "y", "f", "N", "?", ""], "v:boolean", &["true", "true", "false", "false", "∅", "∅"])]
#[case(("v", b'I', 4, 0), &["\u{fe}\u{ff}\u{ff}\u{ff}"], "v:int", &["-2"])]
#[case(("v", b'O', 8, 0), &["\0\0\0\0\0\0\u{f8}\x3f"], "v:double", &["1.5"])]
#[case(("v", b'@', 8, 0), &["\u{8c}\x3d\x25\0\u{e8}\x03\0\0", "\0\0\0\0\0\0\0\0"], "v:Timestamp(µs)", &["1970-01-01T00:00:01", "∅"])]
#[case(("v", b'M', 10, 0), &["", "0000000000"], "v:string", &["∅", "∅"])]
fn a_field_has_a_type_by_its_letter_and_width(
    #[case] field: Field<'_>,
    #[case] values: &[&str],
    #[case] schema: &str,
    #[case] expected: &[&str],
) {
    let rows = one_field(field, values);
    assert_eq!(rows.schema, [schema, "geometry:BinaryView"]);
    assert_eq!(attributes(&rows), expected);
    assert_eq!(rows.rejects, [""; 0]);
}

#[rstest]
#[case(("v", b'N', 5, 0), "1.5")]
#[case(("v", b'N', 5, 0), "1,5")]
#[case(("v", b'N', 9, 2), "n/a")]
#[case(("v", b'N', 9, 2), "1e400")]
#[case(("v", b'D', 8, 0), "20240230")]
#[case(("v", b'D', 8, 0), "6.5.2024")]
#[case(("v", b'L', 1, 0), "x")]
#[case(("v", b'M', 10, 0), "         7")]
#[case(("v", b'@', 8, 0), "\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}\u{ff}")]
fn a_value_that_cannot_be_read_is_a_reject_and_its_row_stays(#[case] field: Field<'_>, #[case] value: &str) {
    let rows = one_field(field, &["", value]);
    assert_eq!(attributes(&rows)[1], "∅");
    assert_eq!(rows.rejects.len(), 1, "{:?}", rows.rejects);
    assert!(rows.rejects[0].starts_with("a.shp:2 "), "{:?}", rows.rejects);
}

#[test]
fn what_the_job_declares_is_read_from_the_characters() {
    let fields = [("price", b'N', 9, 2), ("code", b'N', 5, 0), ("day", b'D', 8, 0), ("n", b'N', 4, 0)];
    let mut settings = of("a.shp");
    settings.schema = schema_of(&[("price", "decimal(9,2)"), ("code", "string"), ("day", "timestamp"), ("n", "long")]);
    let folder =
        written(&points(&fields, &[&["    12.50", "01569", "20240506", "7"], &["1.505", "", "00000000", "x"]]));
    let rows = read(&folder, settings, &ScanOptions::default()).unwrap();
    assert_eq!(rows.schema[..4], ["price:Decimal128(9, 2)", "code:string", "day:Timestamp(µs)", "n:long"]);
    assert_eq!(attributes(&rows), ["12.50|01569|2024-05-06T00:00:00|7", "∅|∅|∅|∅"]);
    assert_eq!(rows.rejects.len(), 1);
}

#[test]
fn rows_that_are_deleted_are_left_out_with_their_shapes() {
    let folder = written(&points(&[("v", b'C', 3, 0)], &[&["*", "a"], &["b"], &["*", "c"], &["d"], &["*", "e"]]));
    for batch_rows in [1, 2, 100] {
        let rows = read(&folder, of("a.shp"), &ScanOptions { batch_rows, ..ScanOptions::default() }).unwrap();
        assert_eq!(rows.values(), [format!("b|{}", wkb("POINT (1 0.5)")), format!("d|{}", wkb("POINT (3 0.5)"))]);
        assert_eq!(rows.rows[1].split(' ').next(), Some("a.shp:2"));
    }
}

#[test]
fn names_that_come_twice_get_a_number() {
    let fields = [("name", b'C', 1, 0), ("name", b'C', 1, 0), ("geometry", b'C', 1, 0), ("", b'C', 1, 0)];
    let rows = all(&written(&points(&fields, &[&["a", "b", "c", "d"]])));
    assert_eq!(
        rows.schema,
        ["name:string", "name_2:string", "geometry_2:string", "field_4:string", "geometry:BinaryView"]
    );
}

const NAMES: [(&str, u8, &str, &str); 4] = [
    ("UTF-8", 0, "Z\u{c3}\u{bc}rich", "Zürich"),
    ("1252", 0x57, "Z\u{fc}rich", "Zürich"),
    ("cp936", 0x4d, "\u{b1}\u{b1}\u{be}\u{a9}", "北京"),
    ("866", 0x65, "\u{8c}\u{ae}\u{e1}\u{aa}\u{a2}\u{a0}", "Москва"),
];

#[rstest]
fn a_code_page_is_that_of_the_setting_the_cpg_or_the_header_in_this_order(
    #[values(0, 1, 2, 3)] which: usize,
    #[values("setting", "cpg", "header")] said_by: &str,
) {
    let (label, byte, value, expected) = NAMES[which];
    if said_by == "header" && byte == 0 {
        return; // no byte means UTF-8
    }
    let mut files = points(&[("v", b'C', 20, 0)], &[&[value]]);
    let mut settings = of("a.shp");
    files[2].1[29] = 0x03;
    match said_by {
        "setting" => {
            settings.encoding = Some(label.to_owned());
            files.push(("a.cpg", b"big5".to_vec()));
        }
        "cpg" => files.push(("a.cpg", label.as_bytes().to_vec())),
        _ => files[2].1[29] = byte,
    }
    let rows = read(&written(&files), settings, &ScanOptions::default()).unwrap();
    assert_eq!(attributes(&rows), [expected]);
}

#[test]
fn without_a_code_page_text_is_latin_1_and_content_is_not_guessed_from() {
    let rows = one_field(("v", b'C', 8, 0), &["Z\u{fc}rich", "Z\u{c3}\u{bc}rich"]);
    assert_eq!(attributes(&rows), ["Zürich", "ZÃ¼rich"]);
}

#[test]
fn text_that_its_code_page_does_not_have_is_a_reject_and_a_cut_character_is_left_out() {
    let mut files = points(&[("v", b'C', 6, 0)], &[&["Z\u{fc}rich"], &["Zuric\u{c3}"], &["Zu\u{c3}"]]);
    files.push(("a.cpg", b"UTF-8".to_vec()));
    let rows = all(&written(&files));
    assert_eq!(attributes(&rows), ["∅", "Zuric", "∅"]);
    assert_eq!(rows.rejects.len(), 2);
    assert!(rows.rejects[0].contains("`v`") || rows.rejects[0].contains('v'), "{:?}", rows.rejects);
    assert!(rows.rejects[0].contains("UTF-8 text"), "{:?}", rows.rejects);
}

const RING: &[[f64; 2]] = &[[0., 0.], [0., 9.], [9., 9.], [9., 0.], [0., 0.]];
const HOLE: &[[f64; 2]] = &[[1., 1.], [2., 1.], [2., 2.], [1., 2.], [1., 1.]];

#[rstest]
#[case(1, point(1., 2.), "POINT (1 2)")]
#[case(1, point(f64::NAN, f64::NAN), "POINT EMPTY")]
#[case(3, parts(3, &[&[[0., 0.], [1., 1.]]], &[]), "LINESTRING (0 0, 1 1)")]
#[case(3, parts(3, &[&[[0., 0.], [1., 1.]], &[[2., 2.], [3., 3.]]], &[]), "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))")]
#[case(3, parts(3, &[], &[]), "LINESTRING EMPTY")]
#[case(5, parts(5, &[RING], &[]), "POLYGON ((0 0, 0 9, 9 9, 9 0, 0 0))")]
#[case(5, parts(5, &[RING, HOLE], &[]), "POLYGON ((0 0, 0 9, 9 9, 9 0, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))")]
#[case(5, parts(5, &[HOLE, &[]], &[]), "POLYGON ((1 1, 2 1, 2 2, 1 2, 1 1))")]
#[case(5, parts(5, &[], &[]), "POLYGON EMPTY")]
#[case(13, parts(13, &[&[[0., 0.], [1., 1.]]], &[&[5., 6.], &[7., 8.]]), "LINESTRING ZM (0 0 5 7, 1 1 6 8)")]
#[case(13, parts(13, &[&[[0., 0.], [1., 1.]]], &[&[5., 6.], &[-1e39, -1e39]]), "LINESTRING Z (0 0 5, 1 1 6)")]
#[case(13, parts(13, &[&[[0., 0.], [1., 1.]]], &[&[5., 6.]]), "LINESTRING Z (0 0 5, 1 1 6)")]
#[case(23, parts(23, &[&[[0., 0.], [1., 1.]]], &[&[7., 8.]]), "LINESTRING M (0 0 7, 1 1 8)")]
#[case(23, parts(23, &[&[[0., 0.], [1., 1.]]], &[]), "LINESTRING (0 0, 1 1)")]
fn a_shape_becomes_a_geometry(#[case] shape_type: u32, #[case] shape: Vec<u8>, #[case] expected: &str) {
    assert_eq!(one_shape(shape_type, shape), wkb(expected));
}

#[test]
fn a_null_shape_is_null_in_a_file_of_any_type() {
    assert_eq!(one_shape(5, vec![0; 4]), "∅");
}

#[rstest]
#[case(5, parts(5, &[&[[0., 0.], [0., 9.], [9., 9.], [9., 0.]]], &[]), "not closed (ring 1)")]
#[case(1, point(f64::INFINITY, 0.), "not a finite number")]
#[case(23, parts(23, &[&[[0., 0.], [1., 1.]]], &[&[7., -1e39]]), "measures at some of its vertices")]
fn a_geometry_that_cannot_be_used_is_a_reject(#[case] shape_type: u32, #[case] shape: Vec<u8>, #[case] cause: &str) {
    let reject = one_shape(shape_type, shape);
    assert!(reject.starts_with("a.shp:1 "), "{reject}");
    assert!(reject.contains(cause), "{reject}");
}

#[rstest]
#[case::another_type(3, point(1., 2.), "is of type 1, and the file of type 3")]
#[case::counts_that_lie(3, { let mut shape = parts(3, &[&[[0., 0.], [1., 1.]]], &[]); shape[40] = 200; shape }, "too few for what it says it holds")]
#[case::parts_that_lie(3, { let mut shape = parts(3, &[&[[0., 0.], [1., 1.]]], &[]); shape[44] = 1; shape }, "parts that do not begin one behind the other")]
#[case::huge_counts(8, { let mut shape = vec![8, 0, 0, 0]; shape.resize(36, 0); shape.extend([0xff; 4]); shape }, "too few for what it says it holds")]
#[case::half_a_point(1, point(1., 2.)[..12].to_vec(), "too few for a point")]
fn a_record_that_lies_is_refused_by_its_number(#[case] shape_type: u32, #[case] shape: Vec<u8>, #[case] problem: &str) {
    let (shp, shx) = shp(shape_type, &[shape]);
    let folder = written(&[("a.shp", shp), ("a.shx", shx), ("a.dbf", dbf(&[("n", b'N', 1, 0)], &[&["1"]]))]);
    let error = refusal(&folder, of("a.shp"), &ScanOptions::default());
    assert!(error.to_string().contains("a.shp: record 1"), "{error}");
    assert!(error.to_string().contains(problem), "{error}");
}

#[test]
fn a_shapefile_that_was_edited_is_read_by_its_index() {
    let (mut shp, mut shx) = shp(1, &[point(1., 1.), point(2., 2.)]);
    let old = shp.clone();
    shp = with_header(1, &[&old[128..156], &[0xff; 28], &old[100..128]].concat());
    shx[100..104].copy_from_slice(&78_u32.to_be_bytes());
    shx[108..112].copy_from_slice(&50_u32.to_be_bytes());
    let folder = written(&[("a.shp", shp), ("a.shx", shx), ("a.dbf", dbf(&[("n", b'N', 1, 0)], &[&["1"], &["2"]]))]);
    assert_eq!(all(&folder).values(), [format!("1|{}", wkb("POINT (1 1)")), format!("2|{}", wkb("POINT (2 2)"))]);
}

#[test]
fn an_index_that_leads_to_one_shape_again_and_again_is_refused() {
    let line: Vec<[f64; 2]> = (0..1_000).map(|x| [f64::from(x), 0.]).collect();
    let (shp, _) = shp(3, &[parts(3, &[&line], &[])]);
    let entry = [50_u32.to_be_bytes(), u32::try_from(shp.len() / 2 - 54).unwrap().to_be_bytes()].concat();
    let rows = vec![["1"]; 50];
    let rows: Vec<&[&str]> = rows.iter().map(<[&str; 1]>::as_slice).collect();
    let shx = with_header(3, &entry.repeat(50));
    let folder = written(&[("a.shp", shp), ("a.shx", shx), ("a.dbf", dbf(&[("n", b'N', 1, 0)], &rows))]);
    let error = refusal(&folder, of("a.shp"), &ScanOptions::default());
    assert!(error.to_string().contains("record 2: its .shx leads to the same shapes again"), "{error}");
}

#[rstest]
#[case::with_index(true)]
#[case::without(false)]
fn shapes_and_rows_have_to_be_as_many(#[case] indexed: bool) {
    for (shapes, rows) in [(2, 1), (1, 2)] {
        let (shp, shx) = shp(1, &vec![point(1., 1.); shapes]);
        let rows = vec![["1"]; rows];
        let rows: Vec<&[&str]> = rows.iter().map(<[&str; 1]>::as_slice).collect();
        let mut files = vec![("a.shp", shp), ("a.dbf", dbf(&[("n", b'N', 1, 0)], &rows))];
        if indexed {
            files.push(("a.shx", shx));
        }
        let error = refusal(&written(&files), of("a.shp"), &ScanOptions::default());
        assert!(error.to_string().contains("do not belong together"), "{error}");
    }
}

#[rstest]
#[case("a.shp", 0, "is empty")]
#[case("a.shp", 60, "is cut off")]
#[case("a.shp", 120, "is cut off or damaged")]
#[case("a.dbf", 0, "is empty")]
#[case("a.dbf", 40, "is cut off")]
#[case("a.dbf", 66, "is cut off")]
#[case("a.shx", 104, "is cut off or damaged")]
fn a_file_that_is_cut_off_is_refused(#[case] name: &str, #[case] length: usize, #[case] problem: &str) {
    let mut files = points(&[("v", b'C', 3, 0)], &[&["a"], &["b"]]);
    files.iter_mut().find(|(known, _)| *known == name).unwrap().1.truncate(length);
    let error = refusal(&written(&files), of("a.shp"), &ScanOptions::default());
    assert!(error.to_string().starts_with(name), "{error}");
    assert!(error.to_string().contains(problem), "{error}");
}

#[rstest]
#[case::magic(0, 1, "is no shapefile")]
#[case::version(28, 1, "is no shapefile")]
#[case::multipatch(32, 31, "multipatches")]
#[case::type_unknown(32, 7, "does not know")]
fn a_file_of_another_kind_is_refused(#[case] place: usize, #[case] value: u8, #[case] problem: &str) {
    let mut files = points(&[("v", b'C', 3, 0)], &[&["a"]]);
    files[0].1[place] = value;
    let error = refusal(&written(&files), of("a.shp"), &ScanOptions::default());
    assert!(error.to_string().contains(problem), "{error}");
}

#[test]
fn a_record_beyond_the_limit_is_refused_before_memory_is_taken() {
    let mut files = points(&[("v", b'C', 3, 0)], &[&["a"]]);
    files[0].1[104..108].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    let error = refusal(&written(&files), of("a.shp"), &ScanOptions::default());
    assert!(error.to_string().contains("record_bytes"), "{error}");
}

#[test]
fn the_companions_are_found_whatever_their_case_and_are_facts() {
    let mut files = points(&[("v", b'C', 3, 0)], &[&["a"]]);
    files[1].0 = "A.SHX";
    files[2].0 = "A.DBF";
    files.push(("a.Prj", b"GEOGCS[\"x\"]".to_vec()));
    files.push(("a.shp.xml", b"<x/>".to_vec()));
    files.push(("b.dbf", b"of another".to_vec()));
    let folder = written(&files);
    for pattern in ["a.shp", "*", "*.shp", "."] {
        let source = Source::open(of(pattern), folder.path()).unwrap();
        let facts = source.facts(&|_| {}).unwrap();
        assert_eq!(
            facts.iter().map(|fact| fact.path.as_str()).collect::<Vec<_>>(),
            ["A.DBF", "A.SHX", "a.Prj", "a.shp"]
        );
        assert_eq!(source.files().len(), 1);
        assert_eq!(source.total_bytes(), facts.iter().map(|fact| fact.size).sum::<u64>());
    }
    let source = Source::open(of("a.shp"), folder.path()).unwrap();
    assert_eq!(read(&folder, of("a.shp"), &ScanOptions::default()).unwrap().bytes, source.total_bytes());
    fs::write(folder.path().join("A.DBF"), "other").unwrap();
    assert!(source.check_unchanged().unwrap_err().to_string().contains("A.DBF changed"));
    assert!(source.scan(&ScanOptions::default()).unwrap_err().to_string().contains("A.DBF changed"));
}

#[test]
fn a_shapefile_without_attributes_and_a_path_that_is_none_are_refused() {
    let files = points(&[("v", b'C', 3, 0)], &[&["a"]]);
    let folder = written(&files);
    let error = refusal(&folder, of("a.dbf"), &ScanOptions::default());
    assert!(error.to_string().contains("name the .shp"), "{error}");
    let mut settings = of("a.shp");
    settings.layer = Some("b".to_owned());
    assert!(refusal(&folder, settings, &ScanOptions::default()).to_string().contains("is one layer, `a`"));
    fs::remove_file(folder.path().join("a.dbf")).unwrap();
    let error = refusal(&folder, of("a.shp"), &ScanOptions::default());
    assert!(error.to_string().contains("has no .dbf beside it"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Input);
    fs::remove_file(folder.path().join("a.shp")).unwrap();
    assert!(refusal(&folder, of("."), &ScanOptions::default()).to_string().contains("is a folder without a shapefile"));
}

#[test]
fn a_folder_is_the_shapefiles_in_it_and_they_have_one_reference_system() {
    let mut files = points(&[("v", b'C', 3, 0)], &[&["a"]]);
    for (name, index) in [("sub/b.shp", 0), ("sub/b.shx", 1), ("sub/b.dbf", 2), ("sub/a.shp", 0), ("sub/a.dbf", 2)] {
        files.push((name, files[index].1.clone()));
    }
    let folder = written(&files);
    let value = format!("a|{}", wkb("POINT (0 0.5)"));
    let rows = read(&folder, of("sub"), &ScanOptions::default()).unwrap();
    assert_eq!(rows.rows, [format!("sub/a.shp:1 {value}"), format!("sub/b.shp:1 {value}")]);
    assert_eq!(Source::open(of("sub"), folder.path()).unwrap().geometries().unwrap()[0].crs, StatedCrs::Missing);
    let wkt = "GEOGCS[\"WGS 84\",DATUM[\"WGS_1984\",SPHEROID[\"WGS 84\",6378137,298.257223563]],PRIMEM[\"Greenwich\",0],UNIT[\"degree\",0.0174532925199433]]";
    fs::write(folder.path().join("sub/b.prj"), wkt).unwrap();
    let error = refusal(&folder, of("sub"), &ScanOptions::default());
    assert!(error.to_string().contains("`geometry` is in"), "{error}");
}

/// A zip archive with these entries.
fn zipped(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_shapefile_in_an_archive_is_read_and_its_name_is_the_layer() {
    let files = points(&[("v", b'C', 3, 0)], &[&["a"]]);
    let [shp, shx, dbf] = [&files[0].1, &files[1].1, &files[2].1];
    let entries: Vec<(&str, &[u8])> =
        vec![("data/ROADS.SHP", shp), ("data/ROADS.DBF", dbf), ("readme.txt", b"x"), ("__MACOSX/._a.shp", b"x")];
    let folder = folder(&[("a.zip", &zipped(&entries))]);
    let rows = read(&folder, of("*"), &ScanOptions::default()).unwrap();
    assert_eq!(rows.rows, [format!("a.zip:1 a|{}", wkb("POINT (0 0.5)"))]);

    let several = zipped(&[("a/x.shp", shp), ("a/x.dbf", dbf), ("a/x.shx", shx), ("b/y.shp", shp), ("b/y.dbf", dbf)]);
    fs::write(folder.path().join("a.zip"), several).unwrap();
    let error = refusal(&folder, of("a.zip"), &ScanOptions::default());
    assert!(error.to_string().contains("choose one of `a/x`, `b/y`"), "{error}");
    for layer in ["b/y", "y", "y.shp"] {
        let mut settings = of("a.zip");
        settings.layer = Some(layer.to_owned());
        assert_eq!(read(&folder, settings, &ScanOptions::default()).unwrap().rows.len(), 1);
    }
}

#[rstest]
#[case::outside("../a.shp", "lies outside of the archive")]
#[case::absolute("/a.shp", "lies outside of the archive")]
#[case::of_windows("C:\\a.shp", "lies outside of the archive")]
#[case::outside_of_windows("x\\..\\..\\a.shp", "lies outside of the archive")]
#[case::nothing("a.txt", "holds no .shp")]
#[case::no_attributes("a.shp", "has no .dbf")]
fn an_archive_that_holds_something_else_is_refused(#[case] name: &str, #[case] problem: &str) {
    let folder = folder(&[("a.zip", &zipped(&[(name, b"x")]))]);
    let error = refusal(&folder, of("a.zip"), &ScanOptions::default());
    assert!(error.to_string().contains(problem), "{error}");
}

#[test]
fn an_archive_that_is_none_or_expands_beyond_the_limit_is_refused() {
    let files = points(&[("v", b'C', 3, 0)], &[&["a"]]);
    let bomb = zipped(&[("a.shp", &files[0].1), ("a.dbf", &vec![b' '; 3 << 20])]);
    let folder = folder(&[("a.zip", &bomb), ("b.zip", b"PK\x03\x04")]);
    let mut settings = of("a.zip");
    settings.limits.expansion = 10;
    let error = refusal(&folder, settings, &ScanOptions::default());
    assert!(error.to_string().contains("source.limits.expansion"), "{error}");
    assert!(refusal(&folder, of("b.zip"), &ScanOptions::default()).to_string().contains("is no zip archive"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_or_refused_and_never_a_panic(
        which in 0_usize..3,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        kept in prop::option::weighted(0.3, any::<prop::sample::Index>()),
        archived in any::<bool>(),
    ) {
        let shapes = [
            parts(15, &[RING, HOLE], &[&[1.; 10], &[2.; 10]]),
            vec![0; 4],
            parts(15, &[RING], &[&[1.; 5]]),
        ];
        let (shp, shx) = shp(15, &shapes);
        let fields = [("a", b'C', 4, 0), ("b", b'N', 4, 1), ("c", b'D', 8, 0), ("d", b'@', 8, 0)];
        let row: &[&str] = &["x", "1.5", "20240506", "\u{8c}\x3d\x25\0\u{e8}\x03\0\0"];
        let mut files = vec![("a.shp", shp), ("a.dbf", dbf(&fields, &[row, row, row])), ("a.shx", shx)];
        let mut zip = if archived {
            zipped(&files.iter().map(|(name, content)| (*name, content.as_slice())).collect::<Vec<_>>())
        } else {
            Vec::new()
        };
        let bytes = if archived { &mut zip } else { &mut files[which].1 };
        for (index, value) in damage {
            let index = index.index(bytes.len());
            bytes[index] = value;
        }
        if let Some(kept) = kept {
            bytes.truncate(kept.index(bytes.len()));
        }
        let path = if archived { "a.zip" } else { "a.shp" };
        let folder = if archived { written(&[("a.zip", zip)]) } else { written(&files) };
        if let Ok(rows) = read(&folder, of(path), &ScanOptions { batch_rows: 2, ..ScanOptions::default() }) {
            prop_assert!(rows.rows.len() <= 3);
        }
    }
}
