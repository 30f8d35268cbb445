//! Which system a text means.

use hexfloe_crs::{Crs, Error, LonLatTransform, supported_codes};
use proptest::prelude::*;
use rstest::rstest;

use super::rows;

const BRITISH_GRID: &str = r#"PROJCS["OSGB36 / British National Grid",GEOGCS["OSGB36",DATUM["Ordnance_Survey_of_Great_Britain_1936",SPHEROID["Airy 1830",6377563.396,299.3249646,AUTHORITY["EPSG","7001"]],TOWGS84[446.448,-125.157,542.06,0.15,0.247,0.842,-20.489],AUTHORITY["EPSG","6277"]],PRIMEM["Greenwich",0,AUTHORITY["EPSG","8901"]],UNIT["degree",0.0174532925199433,AUTHORITY["EPSG","9122"]],AUTHORITY["EPSG","4277"]],PROJECTION["Transverse_Mercator"],PARAMETER["latitude_of_origin",49],PARAMETER["central_meridian",-2],PARAMETER["scale_factor",0.9996012717],PARAMETER["false_easting",400000],PARAMETER["false_northing",-100000],UNIT["metre",1,AUTHORITY["EPSG","9001"]],AXIS["Easting",EAST],AXIS["Northing",NORTH],AUTHORITY["EPSG","27700"]]"#;

#[rstest]
#[case("EPSG:27700")]
#[case(" epsg:27700\n")]
#[case("urn:ogc:def:crs:EPSG::27700")]
#[case("urn:ogc:def:crs:EPSG:9.8:27700")]
#[case("http://www.opengis.net/def/crs/EPSG/0/27700")]
#[case("https://www.opengis.net/def/crs/EPSG/0/27700")]
#[case("http://www.opengis.net/gml/srs/epsg.xml#27700")]
#[case::with_heights("EPSG:7405")]
#[case::with_heights_named("EPSG:27700+5701")]
#[case::well_known_text(BRITISH_GRID)]
#[case::projjson(
    r#"{"type":"ProjectedCRS","name":"OSGB36 / British National Grid","id":{"authority":"EPSG","code":27700}}"#
)]
fn the_british_grid_has_many_spellings(#[case] text: &str) {
    let crs = Crs::parse(text).unwrap();
    assert_eq!(crs.id(), Some("EPSG:27700"));
    assert_eq!(crs.name(), Some("OSGB36 / British National Grid"));
    assert!(!crs.is_geographic() && !crs.is_lon_lat());
    assert_eq!(crs, Crs::of_code("EPSG", "27700"));
    let projjson = crs.projjson().unwrap();
    assert!(projjson.contains(r#""id":{"authority":"EPSG","code":27700}"#), "{projjson}");
}

#[rstest]
#[case("OGC:CRS84")]
#[case("urn:ogc:def:crs:OGC:1.3:CRS84")]
#[case("urn:ogc:def:crs:OGC::CRS84")]
#[case("http://www.opengis.net/def/crs/OGC/1.3/CRS84")]
#[case("EPSG:4326")]
#[case::three_dimensional("EPSG:4979")]
fn longitude_and_latitude_have_many_spellings(#[case] text: &str) {
    let crs = Crs::parse(text).unwrap();
    assert!(crs.is_lon_lat() && crs.is_geographic() && !crs.is_unknown());
    Crs::from_projjson(&crs.projjson().unwrap()).map(|again| assert_eq!(again, crs)).unwrap();
}

#[rstest]
#[case("27700", "write EPSG:27700")]
#[case("", "empty")]
#[case("WGS84", "OGC:CRS84")]
#[case("+proj=longlat", "PROJ strings are not read")]
#[case("EPSG:27699", "EPSG:27700")]
#[case("EPSG:102008", "ESRI:102008")]
#[case("EPSG:27700:1", "write EPSG:")]
#[case("British National Grid", "write EPSG:")]
#[case("{", "EOF")]
#[case("[1]", "without a keyword")]
#[case(r#"PROJCS["x""#, "not closed")]
#[case(r#"PROJCS["x]"#, "quote")]
#[case("PROJCS[1e999]", "no number")]
#[case("PROJCS[]]", "not opened")]
#[case("PROJCS[] PROJCS[]", "one keyword")]
#[case(r#"VERT_CS["mine"]"#, "VERT_CS")]
#[case(r#"VERT_CS["heights"]"#, "VERT_CS")]
fn what_is_no_system_is_told_with_what_to_write(#[case] text: &str, #[case] told: &str) {
    let error = Crs::parse(text).unwrap_err().to_string();
    assert!(error.contains(told), "{error}");
}

#[test]
fn what_is_supported_can_be_executed_has_projjson_and_is_accurate_to_five_metres() {
    let mut count = 0;
    for code in supported_codes() {
        let crs = Crs::parse(code).unwrap();
        let transform = LonLatTransform::from(&crs).unwrap();
        assert!((0.0..=5.0).contains(&transform.record().accuracy_m.parse::<f64>().unwrap()), "{code}");
        assert_eq!(Crs::from_projjson(&crs.projjson().unwrap()).unwrap(), crs);
        count += 1;
    }
    assert!(count > 5_000, "{count}");
}

#[test]
fn null_is_the_unknown_system() {
    let crs = Crs::from_projjson("null").unwrap();
    assert!(crs.is_unknown() && crs.id().is_none() && crs.projjson().is_none());
    assert_eq!(crs, Crs::unknown());
    assert_ne!(crs, Crs::lon_lat());
}

#[test]
fn a_text_without_a_code_is_the_system_whose_definition_it_is() {
    for row in rows(include_str!("definitions.tsv")) {
        let crs = Crs::from_wkt(row[2]).unwrap();
        assert_eq!(crs.id(), Some(format!("EPSG:{}", row[0]).as_str()), "{}: {}", row[1], row[2]);
    }
}

#[rstest]
#[case::case_and_blanks(r#"projcs [ "british_national_GRID" , "#, "PROJCS[\"British_National_Grid\",", true)]
#[case::round_brackets("(", "[", true)]
#[case::spelling_of_a_number("4.0E5", "400000.0", true)]
#[case::another_false_easting("400001.0", "400000.0", false)]
#[case::another_datum_of_a_similar_name("D_OSGB_1970_SN", "D_OSGB_1936", false)]
#[case::another_scale("0.9996", "0.9996012717", false)]
#[case::another_unit("Foot\",0.3048", "Meter\",1.0", false)]
fn only_the_exact_definition_is_recognised(#[case] with: &str, #[case] instead_of: &str, #[case] recognised: bool) {
    let (_, esri) = rows(include_str!("definitions.tsv")).next().map(|row| (row[0], row[2])).unwrap();
    let text = esri.replace(instead_of, with);
    assert_ne!(text, esri);
    let text = if with == "(" { text.replace(']', ")") } else { text };
    let crs = Crs::from_wkt(&text).unwrap();
    assert_eq!(crs.id(), recognised.then_some("EPSG:27700"));
    assert!(crs.name().is_some());
}

#[test]
fn of_a_compound_or_bound_system_the_horizontal_part_is_meant() {
    let compound = format!(r#"COMPD_CS["both",{BRITISH_GRID},VERT_CS["ODN",VERT_DATUM["ODN",2005],UNIT["metre",1]]]"#);
    assert_eq!(Crs::from_wkt(&compound).unwrap().id(), Some("EPSG:27700"));
    let esri = format!(r#"{BRITISH_GRID},VERTCS["ODN",VDATUM["ODN"],UNIT["Meter",1.0]]"#);
    assert_eq!(Crs::from_wkt(&esri).unwrap().id(), Some("EPSG:27700"));
    let bound = format!(r#"BOUNDCRS[SOURCECRS[{BRITISH_GRID}],TARGETCRS[GEOGCRS["WGS 84"]]]"#);
    assert_eq!(Crs::from_wkt(&bound).unwrap().id(), Some("EPSG:27700"));
    let own = Crs::of_code("EPSG", "27700").projjson().unwrap();
    let compound = format!(r#"{{"type":"CompoundCRS","name":"both","components":[{own},{{"type":"VerticalCRS"}}]}}"#);
    assert_eq!(Crs::from_projjson(&compound).unwrap().id(), Some("EPSG:27700"));
    let bound = format!(r#"{{"type":"BoundCRS","source_crs":{own}}}"#);
    assert_eq!(Crs::from_projjson(&bound).unwrap(), Crs::from_projjson(&own).unwrap());
}

#[rstest]
#[case::false_easting(r#""false_easting",400000"#, r#""false_easting",0"#, "false easting")]
#[case::unit(r#"UNIT["metre",1,"#, r#"UNIT["foot",0.3048,"#, "unit in metres")]
#[case::scale("0.9996012717", "0.9996", "scale")]
#[case::meridian(r#""central_meridian",-2"#, r#""central_meridian",2"#, "angles")]
#[case::prime_meridian(r#""Greenwich",0"#, r#""Paris",2.33722917"#, "prime meridian")]
#[case::ellipsoid("6377563.396,299.3249646", "6378137,298.257222101", "semi-major axis")]
#[case::shift("446.448,-125.157,542.06", "0,0,0", "shift to WGS 84")]
fn a_text_that_contradicts_its_code_is_refused(#[case] instead_of: &str, #[case] with: &str, #[case] told: &str) {
    let text = BRITISH_GRID.replace(instead_of, with);
    assert_ne!(text, BRITISH_GRID);
    let error = Crs::from_wkt(&text).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(told), "{error}");
    assert!(error.to_string().contains("--crs EPSG:27700"), "{error}");
}

#[test]
fn projjson_that_contradicts_its_code_is_refused() {
    let own = Crs::of_code("EPSG", "27700").projjson().unwrap();
    let error = Crs::from_projjson(&own.replace("400000", "500000")).unwrap_err();
    assert!(error.to_string().contains("false easting"), "{error}");
}

#[rstest]
#[case::the_same_shift("446.448", true)]
#[case::another_shift("375", false)]
fn a_bound_system_that_is_bound_otherwise_is_refused(#[case] x: &str, #[case] same: bool) {
    let rest = [("Y-axis translation", -125.157), ("Z-axis translation", 542.06), ("X-axis rotation", 0.15)];
    let rest = rest.into_iter().chain([("Y-axis rotation", 0.247), ("Z-axis rotation", 0.842)]);
    let base = BRITISH_GRID.replace("TOWGS84[446.448,-125.157,542.06,0.15,0.247,0.842,-20.489],", "");
    let mut wkt = format!(r#"PARAMETER["X-axis translation",{x}],PARAMETER["Scale difference",0.999979511]"#);
    let mut json =
        format!(r#"{{"name":"X-axis translation","value":{x}}},{{"name":"Scale difference","value":-20.489}}"#);
    for (name, value) in rest {
        wkt += &format!(r#",PARAMETER["{name}",{value}]"#);
        json += &format!(r#",{{"name":"{name}","value":{value}}}"#);
    }
    let method = "Position Vector transformation (geog2D domain)";
    let wkt = format!(
        r#"BOUNDCRS[SOURCECRS[{base}],TARGETCRS[GEOGCRS["WGS 84"]],ABRIDGEDTRANSFORMATION["to",METHOD["{method}"],{wkt}]]"#
    );
    let own = Crs::of_code("EPSG", "27700").projjson().unwrap();
    let json = format!(
        r#"{{"type":"BoundCRS","source_crs":{own},"transformation":{{"method":{{"name":"{method}"}},"parameters":[{json}]}}}}"#
    );
    for crs in [Crs::from_wkt(&wkt), Crs::from_projjson(&json)] {
        match crs {
            Ok(crs) => assert!(same && crs.id() == Some("EPSG:27700")),
            Err(error) => assert!(!same && error.to_string().contains("shift to WGS 84"), "{error}"),
        }
    }
}

#[test]
fn a_code_of_an_unknown_authority_says_less_than_the_definition() {
    let (_, esri) = rows(include_str!("definitions.tsv")).next().map(|row| (row[0], row[2])).unwrap();
    let text = esri.strip_suffix(']').unwrap();
    let crs = Crs::from_wkt(&format!(r#"{text},AUTHORITY["MINE","1"]]"#)).unwrap();
    assert_eq!(crs.id(), Some("EPSG:27700"));
}

#[test]
fn crs84_on_another_datum_is_refused() {
    let text = Crs::lon_lat().projjson().unwrap();
    assert!(Crs::from_projjson(&text).unwrap().is_lon_lat());
    let error = Crs::from_projjson(&text.replace("6378137", "6378206.4")).unwrap_err();
    assert!(error.to_string().contains("semi-major axis"), "{error}");
}

#[test]
fn systems_are_equal_by_id_and_else_by_text() {
    let [one, other] = [r#"PROJCS["a"]"#, r#"PROJCS["b"]"#].map(|text| Crs::from_wkt(text).unwrap());
    assert_ne!(one, other);
    assert_eq!(one, one.clone());
    assert_ne!(one, Crs::lon_lat());
    assert_eq!(Crs::parse("EPSG:4326").unwrap(), Crs::of_code("epsg", "4326"));
}

#[test]
fn deep_and_long_texts_are_refused() {
    let deep = "A[".repeat(100_000);
    assert!(Crs::from_wkt(&deep).unwrap_err().to_string().contains("nested deeper"));
    let long = format!("PROJCS[\"{}\"]", "x".repeat(1 << 20));
    assert!(Crs::from_wkt(&long).unwrap_err().to_string().contains("bytes"));
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Crs::from_projjson(&deep).is_err());
    let bound = r#"{"type":"BoundCRS","source_crs":"#;
    let _ = Crs::from_projjson(&format!("{}1{}", bound.repeat(60), "}".repeat(60)));
}

proptest! {
    #[test]
    fn any_text_is_a_system_or_an_error(text in any::<String>()) {
        let _ = Crs::parse(&text);
        let _ = Crs::from_wkt(&text);
    }

    #[test]
    fn any_brackets_are_a_system_or_an_error(text in r#"(PROJCS|GEOGCS|A|"|""|é|\[|\(|\]|\)|,|1|-|e5|\.| ){0,60}"#) {
        if let Ok(crs) = Crs::from_wkt(&text) {
            let _ = (crs.projjson(), crs.is_geographic(), crs.to_string());
        }
    }

    #[test]
    fn any_damage_to_a_text_is_a_system_or_an_error(at in 0..900_usize, with in any::<char>()) {
        let damaged: String = BRITISH_GRID.chars().enumerate().map(|(index, c)| if index == at { with } else { c }).collect();
        if let Ok(crs) = Crs::from_wkt(&damaged) {
            let _ = (LonLatTransform::from(&crs), crs.projjson());
        }
    }
}

#[rstest]
#[case(r#"LOCAL_CS["Undefined SRS",LOCAL_DATUM["unknown",32767],UNIT["unknown",0]]"#)]
#[case(r#"ENGCRS["Undefined SRS",EDATUM["unknown"],CS[Cartesian,2]]"#)]
fn a_system_without_a_place_on_the_earth_is_unknown(#[case] wkt: &str) {
    assert!(Crs::from_wkt(wkt).unwrap().is_unknown());
}
