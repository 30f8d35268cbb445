use arrow::array::{Array, AsArray, Float64Array};
use arrow::datatypes::{DataType, Field, Int64Type};
use hexfloe_batch::{CellDerivation, CellType, GeometryRule, Points};
use proptest::prelude::*;
use rstest::rstest;

use crate::{at, derivation, resolution};

fn longs(resolution: u8, points: &Points) -> Vec<i64> {
    let columns = derivation(resolution, CellType::Long, &[]).derive(points).unwrap();
    columns[0].as_primitive::<Int64Type>().values().to_vec()
}

fn strings(resolution: u8, points: &Points) -> Vec<String> {
    let columns = derivation(resolution, CellType::String, &[]).derive(points).unwrap();
    columns[0].as_string::<i32>().iter().map(|cell| cell.unwrap().to_owned()).collect()
}

/// In each of them longitude and latitude could change places without any range check noticing.
#[rstest]
#[case::oslo(10.7522, 59.9139, "89099938667ffff", "896228c9e67ffff")]
#[case::athens(23.7275, 37.9838, "891eda743abffff", "895312276dbffff")]
#[case::nairobi(36.8219, -1.2921, "897a6e42ca3ffff", "893820a750fffff")]
#[case::cape_town(18.4241, -33.9249, "89ad361519bffff", "89562478303ffff")]
#[case::reykjavik(-21.9426, 64.1466, "89075dd4b8bffff", "89abac96517ffff")]
#[case::lisbon(-9.1393, 38.7223, "893933676d3ffff", "897b6d7adabffff")]
#[case::montevideo(-56.1645, -34.9011, "89c2f1cca63ffff", "89deb244143ffff")]
#[case::rio(-43.1729, -22.9068, "89a8a06a0c7ffff", "89c46d788a3ffff")]
fn a_city_is_in_its_cell_and_not_in_that_of_swapped_axes(
    #[case] lon: f64,
    #[case] lat: f64,
    #[case] cell: &str,
    #[case] swapped: &str,
) {
    assert_eq!(strings(9, &at(&[(lon, lat)])), [cell]);
    assert_eq!(strings(9, &at(&[(lat, lon)])), [swapped]);
}

#[rstest]
#[case(0, "8009fffffffffff", 576636674163867647)]
#[case(1, "8109bffffffffff", 581135875744727039)]
#[case(2, "82099ffffffffff", 585637276348841983)]
#[case(3, "830999fffffffff", 590140463659352063)]
#[case(4, "8409993ffffffff", 594644011747115007)]
#[case(5, "8509993bfffffff", 599147610300743679)]
#[case(6, "860999387ffffff", 603651208988590079)]
#[case(7, "870999386ffffff", 608154808599183359)]
#[case(8, "8809993867fffff", 612658408218165247)]
#[case(9, "89099938667ffff", 617162007843962879)]
#[case(10, "8a099938675ffff", 621665607472250879)]
#[case(11, "8b0999386666fff", 626169207098601471)]
#[case(12, "8c0999386666dff", 630672806725971455)]
#[case(13, "8d0999386666d3f", 635176406353341759)]
#[case(14, "8e0999386666d37", 639680005980712247)]
#[case(15, "8f0999386666d31", 644183605608082737)]
fn every_resolution_gives_its_cell_as_number_and_as_text(
    #[case] resolution: u8,
    #[case] text: &str,
    #[case] number: i64,
) {
    let oslo = at(&[(10.7522, 59.9139)]);
    assert_eq!(strings(resolution, &oslo), [text]);
    assert_eq!(longs(resolution, &oslo), [number]);
}

#[rstest]
#[case::north_pole(0.0, 90.0, "890326233abffff")]
#[case::north_pole_from_elsewhere(123.456, 90.0, "890326233abffff")]
#[case::south_pole(0.0, -90.0, "89f29380e0fffff")]
#[case::antimeridian_from_the_west(180.0, 0.0, "897eb57221bffff")]
#[case::antimeridian_from_the_east(-180.0, 0.0, "897eb57221bffff")]
#[case::fiji_from_the_west(180.0, -16.5, "899b5dc5597ffff")]
#[case::fiji_from_the_east(-180.0, -16.5, "899b5dc5597ffff")]
#[case::null_island(0.0, 0.0, "89754e64993ffff")]
fn poles_and_the_antimeridian_have_cells(#[case] lon: f64, #[case] lat: f64, #[case] cell: &str) {
    assert_eq!(strings(9, &at(&[(lon, lat)])), [cell]);
}

#[rstest]
#[case(10.536199075467685, 64.70000012793487, "8009fffffffffff", "8f0800000000000")]
#[case(-143.47849001502516, 50.103201482241346, "801dfffffffffff", "8f1c00000000000")]
#[case(122.30000040778702, 39.1000000339759, "8031fffffffffff", "8f3000000000000")]
#[case(-67.13232636643565, 23.717925271222973, "804dfffffffffff", "8f4c00000000000")]
#[case(58.15770583957258, 10.447345187511049, "8063fffffffffff", "8f6200000000000")]
#[case(-5.245390296777322, 2.3008821116267635, "8075fffffffffff", "8f7400000000000")]
#[case(174.75460970322268, -2.3008821116267635, "807ffffffffffff", "8f7e00000000000")]
#[case(-121.8422941604274, -10.447345187511049, "8091fffffffffff", "8f9000000000000")]
#[case(112.86767363356435, -23.71792527122298, "80a7fffffffffff", "8fa600000000000")]
#[case(-57.699999592212976, -39.10000003397594, "80c3fffffffffff", "8fc200000000000")]
#[case(36.52150998497485, -50.10320148224134, "80d7fffffffffff", "8fd600000000000")]
#[case(-169.46380092453234, -64.7000001279349, "80ebfffffffffff", "8fea00000000000")]
fn the_twelve_pentagons_have_cells_at_both_ends(
    #[case] lon: f64,
    #[case] lat: f64,
    #[case] coarsest: &str,
    #[case] finest: &str,
) {
    let centre = at(&[(lon, lat)]);
    assert_eq!(strings(0, &centre), [coarsest]);
    assert_eq!(strings(15, &centre), [finest]);
}

#[test]
fn all_base_cells_are_positive_numbers_and_survive_text() {
    let mut seen = 0;
    for cell in h3o::CellIndex::base_cells() {
        let centre = h3o::LatLng::from(cell);
        let points = at(&[(centre.lng(), centre.lat())]);
        let [number] = longs(0, &points)[..] else { panic!("one cell") };
        let [text] = &strings(0, &points)[..] else { panic!("one cell") };
        assert!(number > 0);
        assert_eq!(number.cast_unsigned(), u64::from(cell));
        assert_eq!(i64::from_str_radix(text, 16).unwrap(), number);
        assert_eq!(text.parse::<h3o::CellIndex>().unwrap(), cell);
        seen += 1;
    }
    assert_eq!(seen, 122);
}

proptest! {
    #[test]
    fn a_cell_survives_number_and_text_and_its_parents_contain_it(
        lon in -180.0..=180.0,
        lat in -90.0..=90.0,
        at_resolution in 1_u8..=15,
    ) {
        let points = at(&[(lon, lat)]);
        let parents: Vec<u8> = (0..at_resolution).collect();
        let as_longs = derivation(at_resolution, CellType::Long, &parents).derive(&points).unwrap();
        let as_strings = derivation(at_resolution, CellType::String, &parents).derive(&points).unwrap();
        let cell = u64::from(h3o::LatLng::new(lat, lon).unwrap().to_cell(at_resolution.try_into().unwrap()));
        for (index, (long, string)) in as_longs.iter().zip(&as_strings).enumerate() {
            let long = long.as_primitive::<Int64Type>().value(0);
            let string = string.as_string::<i32>().value(0);
            prop_assert!(long > 0);
            prop_assert_eq!(format!("{long:015x}"), string);
            let expected = match index {
                0 => h3o::CellIndex::try_from(cell).unwrap(),
                parent => {
                    let parent = u8::try_from(parent - 1).unwrap();
                    h3o::CellIndex::try_from(cell).unwrap().parent(parent.try_into().unwrap()).unwrap()
                }
            };
            prop_assert_eq!(long.cast_unsigned(), u64::from(expected));
        }
    }
}

#[test]
fn the_columns_are_named_typed_and_ordered_as_the_fields_say() {
    for (cell_type, data_type) in [(CellType::Long, DataType::Int64), (CellType::String, DataType::Utf8)] {
        let derivation = derivation(9, cell_type, &[3, 0]);
        let fields = derivation.fields();
        assert_eq!(
            fields,
            ["h3_cell", "h3_cell_r3", "h3_cell_r0"].map(|name| Field::new(name, data_type.clone(), false))
        );
        let columns = derivation.derive(&at(&[(10.7522, 59.9139), (0.0, 0.0)])).unwrap();
        assert_eq!(columns.len(), fields.len());
        for (field, column) in fields.iter().zip(&columns) {
            assert_eq!((column.data_type(), column.len(), column.null_count()), (field.data_type(), 2, 0));
        }
    }
}

#[test]
fn no_rows_give_empty_columns() {
    for cell_type in [CellType::Long, CellType::String] {
        let columns = derivation(9, cell_type, &[3]).derive(&at(&[])).unwrap();
        assert_eq!(columns.iter().map(Array::len).collect::<Vec<_>>(), [0, 0]);
    }
}

#[test]
fn a_row_without_a_point_is_an_error_and_not_cell_0() {
    let points =
        Points { lon: Float64Array::from(vec![Some(1.0), None]), lat: Float64Array::from(vec![Some(1.0), Some(2.0)]) };
    let error = derivation(9, CellType::Long, &[]).derive(&points).unwrap_err();
    assert_eq!(error.to_string(), "row 1 has no point: remove the rejected rows before the cells are derived");
}

#[rstest]
#[case::latitude(0.0, 91.0, "row 0: the latitude 91 is outside -90 to 90 degrees")]
#[case::longitude(-180.5, 0.0, "row 0: the longitude -180.5 is outside -180 to 180 degrees")]
#[case::nan(f64::NAN, 0.0, "row 0: the longitude is NaN, not a finite number")]
fn a_point_that_was_never_checked_gives_no_cell(#[case] lon: f64, #[case] lat: f64, #[case] message: &str) {
    let error = derivation(9, CellType::Long, &[]).derive(&at(&[(lon, lat)])).unwrap_err();
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn columns_of_unequal_length_are_refused() {
    let points = Points { lon: Float64Array::from(vec![1.0, 2.0]), lat: Float64Array::from(vec![1.0]) };
    let error = derivation(9, CellType::Long, &[]).derive(&points).unwrap_err();
    assert_eq!(error.to_string(), "2 longitudes do not go with 1 latitudes: give one of each for every row");
}

#[rstest]
#[case::same("h3_cell", &[9], "parent resolution 9 is not coarser than resolution 9: parents must be smaller numbers")]
#[case::finer("h3_cell", &[3, 10], "parent resolution 10 is not coarser than resolution 9: parents must be smaller numbers")]
#[case::twice("h3_cell", &[3, 2, 3], "parent resolution 3 is listed twice: list each once")]
#[case::no_name("", &[], "\"\" cannot be the name of the cell column: it is empty; choose another name")]
#[case::taken(
    "ingest_batch_id",
    &[],
    "\"ingest_batch_id\" cannot be the name of the cell column: the batch id has that name; choose another name"
)]
fn a_derivation_that_makes_no_sense_is_refused(#[case] column: &str, #[case] parents: &[u8], #[case] message: &str) {
    let parents = parents.iter().map(|&parent| resolution(parent)).collect();
    let error = CellDerivation::new(column.to_owned(), resolution(9), CellType::Long, parents, GeometryRule::Point);
    assert_eq!(error.unwrap_err().to_string(), message);
}

#[test]
fn settings_are_plain_words_and_numbers() {
    assert_eq!(serde_json::to_string(&(CellType::Long, CellType::String)).unwrap(), r#"["long","string"]"#);
    assert_eq!(serde_json::from_str::<hexfloe_batch::Resolution>("15").unwrap(), resolution(15));
    let error = serde_json::from_str::<hexfloe_batch::Resolution>("16").unwrap_err();
    assert_eq!(error.to_string(), "16 is no H3 resolution: give a whole number from 0 to 15");
    assert_eq!(serde_json::to_string(&GeometryRule::Point).unwrap(), r#""point""#);
}
