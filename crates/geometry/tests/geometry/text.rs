use hexfloe_geometry::{Limits, Normalised, Problem, from_text};
use rstest::rstest;

use crate::{appended, message, wkb};

fn read(text: &str) -> Result<(Normalised, Vec<u8>), Problem> {
    appended(|out| from_text(text, &Limits::default(), out))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Right: `shapely.to_wkb(shapely.from_wkt(left), hex=True, flavor="iso")`.
#[rstest]
#[case("POINT (1 2)", "0101000000000000000000F03F0000000000000040")]
#[case("POINT Z (1 2 3)", "01E9030000000000000000F03F00000000000000400000000000000840")]
#[case("POINT M (1 2 3)", "01D1070000000000000000F03F00000000000000400000000000000840")]
#[case("POINT ZM (1 2 3 4)", "01B90B0000000000000000F03F000000000000004000000000000008400000000000001040")]
#[case("POINT EMPTY", "0101000000000000000000F87F000000000000F87F")]
#[case("POINT Z EMPTY", "01E9030000000000000000F87F000000000000F87F000000000000F87F")]
#[case("LINESTRING (1 2, 3 4)", "010200000002000000000000000000F03F000000000000004000000000000008400000000000001040")]
#[case("LINESTRING EMPTY", "010200000000000000")]
#[case(
    "POLYGON ((0 0, 1 0, 1 1, 0 0))",
    "01030000000100000004000000000000000000000000000000000000\
    00000000000000F03F0000000000000000000000000000F03F000000000000F03F00000000000000000000000000000000"
)]
#[case("POLYGON EMPTY", "010300000000000000")]
#[case(
    "MULTIPOINT ((1 2), EMPTY)",
    "0104000000020000000101000000000000000000F03F00000000000000400101000000000000000000F87F000000000000F87F"
)]
#[case(
    "MULTILINESTRING ((1 2, 3 4), EMPTY)",
    "010500000002000000010200000002000000000000000000F03F000000000000004000000000000008400000000000001040010200000000000000"
)]
#[case("MULTIPOLYGON (EMPTY)", "010600000001000000010300000000000000")]
#[case(
    "GEOMETRYCOLLECTION (POINT (1 2), GEOMETRYCOLLECTION EMPTY)",
    "0107000000020000000101000000000000000000F03F0000000000000040010700000000000000"
)]
#[case(
    "GEOMETRYCOLLECTION Z (POINT Z (1 2 3))",
    "01EF0300000100000001E9030000000000000000F03F00000000000000400000000000000840"
)]
fn text_becomes_the_bytes_that_geos_writes(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(hex(&read(text).unwrap().1), expected);
    for digits in [expected.to_owned(), expected.to_lowercase()] {
        assert_eq!(hex(&read(&digits).unwrap().1), expected);
    }
}

#[rstest]
#[case("  point\t(1   2)\n", "POINT (1 2)")]
#[case("Point(+1 2e0)", "POINT (1 2)")]
#[case("POINTZ(1 2 3)", "POINT Z (1 2 3)")]
#[case("POINT ZM(1 2 3 4)", "POINTZM (1 2 3 4)")]
#[case("pointm empty", "POINT M EMPTY")]
#[case("POINT (1 2 3)", "POINT Z (1 2 3)")]
#[case("POINT (1 2 3 4)", "POINT ZM (1 2 3 4)")]
#[case("MULTIPOINT (1 2, 3 4)", "MULTIPOINT ((1 2), (3 4))")]
#[case("MULTIPOINT (1 2, EMPTY, (3 4))", "MULTIPOINT ((1 2), EMPTY, (3 4))")]
#[case("GEOMETRYCOLLECTION (POINT EMPTY, POINT (1 2 3))", "GEOMETRYCOLLECTION Z (POINT Z EMPTY, POINT Z (1 2 3))")]
#[case(
    "GEOMETRYCOLLECTION (POINT M (1 2 3), LINESTRING M EMPTY)",
    "GEOMETRYCOLLECTION M (POINT M (1 2 3), LINESTRING EMPTY)"
)]
#[case("POINT (.5 -5.)", "POINT (0.5 -5)")]
fn a_geometry_may_be_spelt_in_several_ways(#[case] text: &str, #[case] usual: &str) {
    assert_eq!(read(text).unwrap(), read(usual).unwrap());
}

#[rstest]
#[case("SRID=4326;POINT (1 2)", Some(4326))]
#[case("srid=27700; POINT (1 2)", Some(27700))]
#[case("0101000020E6100000000000000000F03F0000000000000040", Some(4326))]
#[case("POINT (1 2)", None)]
fn the_srid_is_told(#[case] text: &str, #[case] srid: Option<u32>) {
    assert_eq!(read(text).unwrap(), (Normalised { srid }, wkb("POINT (1 2)")));
}

#[rstest]
#[case::nothing("", "cannot be read: it ends where a geometry type should be")]
#[case::prose("north of the church", "cannot be read: \"north\" is where a geometry type should be (at byte 1)")]
#[case::curve(
    "CIRCULARSTRING (0 0, 1 1, 2 0)",
    "cannot be read: \"CIRCULARSTRING\" is where a geometry type should be (at byte 1)"
)]
#[case::no_coordinates("POINT", "cannot be read: it ends where '(' should be")]
#[case::nothing_within("POINT ()", "cannot be read: \")\" is where 2, 3 or 4 numbers should be (at byte 8)")]
#[case::one_number("POINT (1)", "cannot be read: \")\" is where 2, 3 or 4 numbers should be (at byte 9)")]
#[case::five_numbers("POINT (1 2 3 4 5)", "cannot be read: \"5)\" is where ')' should be (at byte 16)")]
#[case::decimal_comma(
    "POINT (1,5 2,5)",
    "cannot be read: \",5 2,5)\" is where 2, 3 or 4 numbers should be (at byte 9)"
)]
#[case::word("POINT (one 2)", "cannot be read: \"one 2)\" is where a number should be (at byte 8)")]
#[case::left_over("POINT (1 2) POINT (3 4)", "cannot be read: \"POINT (3 4)\" is where the end should be (at byte 13)")]
#[case::too_few("POINT Z (1 2)", "cannot be read: it has XYZ coordinates, and behind them XY (at byte 13)")]
#[case::mixed("LINESTRING (1 2, 3 4 5)", "cannot be read: it has XY coordinates, and behind them XYZ (at byte 23)")]
#[case::unclosed_parenthesis("LINESTRING (1 2, 3 4", "cannot be read: it ends where ')' should be")]
#[case::infinite("POINT (1 1e400)", "has a coordinate that is inf, not a finite number")]
#[case::nan("POINT (NaN NaN)", "has a coordinate that is NaN, not a finite number")]
#[case::unclosed_ring("POLYGON ((0 0, 1 0, 1 1, 0 1))", "has a ring that is not closed (ring 1)")]
#[case::line_of_one_point("LINESTRING (1 2)", "cannot be read: a line has 1 coordinate, where a line has 2 or more")]
#[case::lines_of_one_point(
    "MULTILINESTRING ((1 2, 3 4), (5 6))",
    "cannot be read: a line has 1 coordinate, where a line has 2 or more"
)]
#[case::odd_digits("010", "cannot be read: 3 hexadecimal digits are not a number of bytes")]
#[case::no_digits("01 rue", "cannot be read: \"01 rue\" is neither WKT nor hexadecimal digits")]
#[case::no_binary("00", "cannot be read: 0 bytes are left where 4 are needed")]
#[case::no_srid("SRID=;POINT (1 2)", "cannot be read: SRID= is followed by \";POINT (1 2)\", not by a number and ;")]
#[case::no_ascii("POINT (１ ２)", "cannot be read: \"１ ２)\" is where a number should be (at byte 8)")]
fn what_is_no_geometry_is_told(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(message(read(text)), expected);
}

#[test]
fn what_is_nested_without_end_does_not_use_up_the_stack() {
    let limits = Limits { depth: usize::MAX, ..Limits::default() };
    let nested = "GEOMETRYCOLLECTION (".repeat(100_000) + "POINT (1 2)" + &")".repeat(100_000);
    let result = appended(|out| from_text(&nested, &limits, out));
    assert_eq!(message(result), "is beyond the limits: collections are nested more than 100 deep");
}
