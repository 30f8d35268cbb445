//! Where coordinates are: compared with PROJ.

use hexfloe_crs::{Crs, Error, LonLatTransform};
use proptest::prelude::*;
use rstest::rstest;

use super::rows;

fn transform(code: &str) -> LonLatTransform {
    LonLatTransform::from(&Crs::parse(code).unwrap()).unwrap()
}

/// Metres between two places that are near each other.
fn metres([lon, lat]: [f64; 2], [other_lon, other_lat]: [f64; 2]) -> f64 {
    let around = (lon - other_lon + 540.0).rem_euclid(360.0) - 180.0;
    let east = around.to_radians() * lat.to_radians().cos();
    6_378_137.0 * east.hypot((lat - other_lat).to_radians())
}

#[test]
fn every_place_is_where_proj_has_it_to_a_decimetre() {
    let mut codes = std::collections::BTreeMap::new();
    for row in rows(include_str!("places.tsv")) {
        let [x, y, lon, lat]: [f64; 4] = std::array::from_fn(|index| row[index + 1].parse().unwrap());
        let code = format!("EPSG:{}", row[0]);
        let (transform, worst) = codes.entry(code.clone()).or_insert_with(|| (transform(&code), 0.0_f64));
        match transform.lon_lat([x, y]) {
            Ok(place) => *worst = worst.max(metres(place, [lon, lat])),
            Err(error) => panic!("{code} ({x}, {y}): {error}"),
        }
    }
    assert_eq!(codes.len(), 23);
    for (code, (_, worst)) in codes {
        println!("{code}\t{worst:.6} m");
        assert!(worst < 0.1, "{code}: {worst} m");
    }
}

#[rstest]
#[case::trig_pillar("EPSG:27700", [400_000.0, 300_000.0], [-2.001_3, 52.597_9])]
#[case::london_in_web_mercator("EPSG:3857", [-14_000.0, 6_711_542.0], [-0.125_764, 51.507_397])]
#[case::definition_says_latitude_first("EPSG:4258", [24.94, 60.17], [24.94, 60.17])]
#[case::northing_is_the_first_axis_in_the_definition("EPSG:31467", [3_500_000.0, 5_500_000.0], [8.998_964, 49.636_711])]
#[case::null_island("EPSG:3857", [0.0, 0.0], [0.0, 0.0])]
#[case::edge_of_the_world("EPSG:3857", [20_037_508.342_789_244, 0.0], [180.0, 0.0])]
#[case::other_edge_of_the_world("EPSG:3857", [-20_037_508.342_789_244, 0.0], [180.0, 0.0])]
#[case::edge_of_the_world_rounded_up("EPSG:3857", [20_037_508.35, 0.0], [180.0, 0.0])]
#[case::edge_of_mollweide("ESRI:54009", [18_040_095.696_147, 0.0], [180.0, 0.0])]
#[case::antimeridian_on_nad83("EPSG:4269", [-180.0, 51.0], [180.0, 51.0])]
#[case::pole_on_etrs89("EPSG:4258", [0.0, 88.0], [0.0, 88.0])]
#[case::origin_of_a_polar_system("EPSG:3031", [0.0, 0.0], [0.0, -90.0])]
fn x_comes_before_y_whatever_the_definition_says(#[case] code: &str, #[case] xy: [f64; 2], #[case] expected: [f64; 2]) {
    let place = transform(code).lon_lat(xy).unwrap();
    assert!(metres(place, expected) < 15.0, "{code}: {place:?}");
}

#[rstest]
#[case::british_grid_as_degrees("EPSG:4326", [529_090.0, 179_645.0], "metres")]
#[case::degrees_as_british_grid("EPSG:27700", [-0.1, 51.5], "degrees")]
#[case::degrees_as_web_mercator("EPSG:3857", [-0.1, 51.5], "degrees")]
#[case::degrees_as_utm("EPSG:32633", [15.0, 50.0], "degrees")]
#[case::metres_as_etrs89("EPSG:4258", [4_321_000.0, 3_210_000.0], "metres")]
#[case::latitude_before_longitude("OGC:CRS84", [51.5, -100.1], "swapped")]
#[case::british_grid_swapped("EPSG:27700", [1_179_645.0, 229_090.0], "swapped")]
#[case::lambert_as_british_grid("EPSG:27700", [652_000.0, 6_862_000.0], "area of use")]
#[case::once_around_the_earth("EPSG:32633", [500_000.0, 40_000_000.0], "")]
#[case::beyond_the_disc("EPSG:3035", [30_000_000.0, 30_000_000.0], "")]
#[case::beyond_the_antimeridian_of_mollweide("ESRI:54009", [17_900_000.0, 5_000_000.0], "")]
#[case::twice_around_in_web_mercator("EPSG:3857", [45_000_000.0, 6_000_000.0], "")]
#[case::not_a_number("EPSG:27700", [f64::NAN, 1.0], "finite")]
#[case::infinite("EPSG:4326", [f64::INFINITY, 1.0], "finite")]
#[case::huge("EPSG:2154", [1e300, -1e300], "")]
fn what_is_no_place_is_refused(#[case] code: &str, #[case] xy: [f64; 2], #[case] why: &str) {
    let error = transform(code).lon_lat(xy).unwrap_err();
    assert!(matches!(error, Error::Outside { .. }) && error.to_string().contains(why), "{error}");
}

#[test]
fn a_system_across_the_antimeridian_holds_both_sides() {
    let pacific = transform("EPSG:3832");
    let [east, _] = pacific.lon_lat([3_300_000.0, -2_000_000.0]).unwrap();
    let [west, _] = pacific.lon_lat([3_400_000.0, -2_000_000.0]).unwrap();
    assert!(east > 179.0 && west < -179.0, "{east} {west}");
    // 40 degrees west of Greenwich.
    assert!(pacific.lon_lat([18_900_000.0, 0.0]).is_err());
}

#[test]
fn norway_uses_zone_33_far_beyond_its_edge() {
    let [lon, lat] = transform("EPSG:25833").lon_lat([1_100_000.0, 7_850_000.0]).unwrap();
    assert!((30.0..32.0).contains(&lon) && (69.5..70.5).contains(&lat), "{lon} {lat}");
}

#[test]
fn a_table_remembers_how_it_was_done() {
    let record = transform("EPSG:27700").record().clone();
    assert_eq!(record.from, "EPSG:27700");
    assert_eq!(record.library, "proj4rs 0.3.0");
    assert_eq!(
        record.operation,
        "+proj=tmerc +lat_0=49 +lon_0=-2 +k=0.9996012717 +x_0=400000 +y_0=-100000 +ellps=airy +units=m +towgs84=446.448,-125.157,542.06,0.15,0.247,0.842,-20.489"
    );
    assert_eq!((record.grid, record.accuracy_m.as_str()), (None, "2"));
}

#[test]
fn the_record_names_the_version_that_is_linked() {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    assert!(lock.contains("name = \"proj4rs\"\nversion = \"0.3.0\"\n"));
}

#[test]
fn threads_share_a_transformation() {
    fn shared<T: Sync + Send + Clone>(_: &T) {}
    shared(&transform("EPSG:27700"));
}

const ALL: [&str; 23] = [
    "EPSG:27700",
    "EPSG:3857",
    "EPSG:2154",
    "EPSG:32633",
    "EPSG:4326",
    "EPSG:3031",
    "EPSG:3035",
    "EPSG:5070",
    "EPSG:28992",
    "EPSG:31370",
    "EPSG:2056",
    "EPSG:3067",
    "EPSG:4258",
    "ESRI:54009",
    "ESRI:54030",
    "EPSG:27572",
    "EPSG:3832",
    "EPSG:2263",
    "EPSG:3413",
    "EPSG:2048",
    "EPSG:2193",
    "EPSG:3116",
    "EPSG:2180",
];

proptest! {
    #[test]
    fn whatever_comes_the_answer_is_a_place_or_an_error(
        code in proptest::sample::select(&ALL[..]),
        x in prop_oneof![any::<f64>(), -3e7..3e7, -200.0..200.0],
        y in prop_oneof![any::<f64>(), -3e7..3e7, -100.0..100.0],
    ) {
        let transform = transform(code);
        if let Ok([lon, lat]) = transform.lon_lat([x, y]) {
            prop_assert!(lon.abs() <= 180.0 && lat.abs() <= 90.0);
            prop_assert_eq!(transform.lon_lat([x, y]).unwrap().map(f64::to_bits), [lon, lat].map(f64::to_bits));
        }
    }
}
