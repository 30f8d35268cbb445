use hexfloe_batch::{CellType, DerivationRecord, Sha256Hex, fingerprint};
use rstest::rstest;

use crate::derivation;

/// As a table may hold it.
const STORED: &str = concat!(
    r#"{"library":"h3o","version":"0.11.1","resolution":9,"cell_type":"long","rule":"point","parents":[3],"#,
    r#""target":"x86_64-unknown-linux-gnu","#,
    r#""fingerprint":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#
);

fn stored() -> DerivationRecord {
    DerivationRecord::from_json(STORED).unwrap()
}

#[test]
fn a_record_is_one_line_of_json_with_its_keys_in_order() {
    assert_eq!(stored().to_json(), STORED);

    let mut running = derivation(9, CellType::Long, &[3]).record();
    assert_eq!(running.fingerprint, fingerprint());
    running.fingerprint = Sha256Hex::of("abc");
    running.target = "x86_64-unknown-linux-gnu".to_owned();
    assert_eq!(running.to_json(), STORED);
}

#[test]
fn the_version_on_record_is_the_one_that_is_pinned() {
    let version = derivation(9, CellType::Long, &[]).record().version;
    let workspace = include_str!("../../../../Cargo.toml");
    assert!(workspace.contains(&format!("\nh3o = {{ version = \"={version}\"")), "h3o is not pinned to {version}");
}

#[test]
fn the_target_on_record_is_a_triple() {
    let target = derivation(9, CellType::Long, &[]).record().target;
    assert!(target.starts_with(std::env::consts::ARCH), "{target}");
}

#[test]
fn keys_of_a_later_version_are_tolerated_and_missing_parents_are_none() {
    let json = STORED.replace(r#","parents":[3]"#, "").replacen('{', r#"{"future":{"a":[1]},"#, 1);
    let table = DerivationRecord::from_json(&json).unwrap();
    assert!(table.parents.is_empty());
    assert_eq!(table.compatible_with(&stored()), Ok(()));
}

#[rstest]
#[case::not_json("h3o 0.11.1", "expected value at line 1 column 1")]
#[case::no_fingerprint(r#"{"library":"h3o"}"#, "missing field")]
fn a_record_that_cannot_be_read_says_why_and_what_to_do(#[case] json: &str, #[case] cause: &str) {
    let message = DerivationRecord::from_json(json).unwrap_err().to_string();
    assert!(message.contains(cause) && message.contains(json), "{message}");
    assert!(message.ends_with("repair the table property, or write to another column"), "{message}");
}

#[test]
fn another_version_or_machine_with_the_same_fingerprint_is_the_same_derivation() {
    let running = DerivationRecord {
        version: "0.12.0".to_owned(),
        target: "aarch64-apple-darwin".to_owned(),
        parents: Vec::new(),
        ..stored()
    };
    assert_eq!(stored().compatible_with(&running), Ok(()));
}

const OTHER_FINGERPRINT: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[rstest]
#[case::resolution(
    DerivationRecord { resolution: 10.try_into().unwrap(), ..stored() },
    "the cells of the table were derived otherwise: resolution: table has 9, running has 10; to proceed, \
     give the job the settings of the table, or write to another column or table, or derive the whole column again"
)]
#[case::version_and_target_are_no_suspects_while_the_fingerprint_agrees(
    DerivationRecord {
        resolution: 10.try_into().unwrap(),
        version: "0.12.0".to_owned(),
        target: "aarch64-apple-darwin".to_owned(),
        ..stored()
    },
    "the cells of the table were derived otherwise: resolution: table has 9, running has 10; to proceed, \
     give the job the settings of the table, or write to another column or table, or derive the whole column again"
)]
#[case::cell_type(
    DerivationRecord { cell_type: CellType::String, ..stored() },
    "the cells of the table were derived otherwise: cell type: table has long, running has string; to proceed, \
     give the job the settings of the table, or write to another column or table, or derive the whole column again"
)]
#[case::rule(
    DerivationRecord { rule: "centroid".to_owned(), ..stored() },
    "the cells of the table were derived otherwise: geometry rule: table has point, running has centroid; to proceed, \
     give the job the settings of the table, or write to another column or table, or derive the whole column again"
)]
#[case::library(
    DerivationRecord { library: "h3".to_owned(), version: "4.5.0".to_owned(), ..stored() },
    "the cells of the table were derived otherwise: library: table has h3o, running has h3; \
     version: table has 0.11.1, running has 4.5.0; to proceed, run a build with the library, version and target of \
     the table, or write to another column or table, or derive the whole column again"
)]
#[case::fingerprint(
    DerivationRecord {
        fingerprint: OTHER_FINGERPRINT.parse().unwrap(),
        target: "aarch64-apple-darwin".to_owned(),
        ..stored()
    },
    "the cells of the table were derived otherwise: fingerprint: table has \
     ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad, running has \
     e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855; target: table has x86_64-unknown-linux-gnu, \
     running has aarch64-apple-darwin; to proceed, run a build with the library, version and target of the table, \
     or write to another column or table, or derive the whole column again"
)]
fn another_derivation_is_refused_with_every_difference_and_a_way_on(
    #[case] running: DerivationRecord,
    #[case] message: &str,
) {
    assert_eq!(stored().compatible_with(&running).unwrap_err().to_string(), message);
}

#[test]
fn every_difference_is_named() {
    let running = DerivationRecord {
        library: "h3".to_owned(),
        version: "4".to_owned(),
        resolution: 5.try_into().unwrap(),
        cell_type: CellType::String,
        rule: "centroid".to_owned(),
        parents: Vec::new(),
        target: "elsewhere".to_owned(),
        fingerprint: OTHER_FINGERPRINT.parse().unwrap(),
    };
    let mismatch = stored().compatible_with(&running).unwrap_err();
    let fields: Vec<_> = mismatch.differences.iter().map(|difference| difference.field).collect();
    assert_eq!(fields, ["library", "resolution", "cell type", "geometry rule", "fingerprint", "version", "target"]);
}
