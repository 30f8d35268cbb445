use hexfloe_batch::{BatchId, FileFact, Sha256Hex, files_digest};
use proptest::prelude::*;
use rstest::rstest;

#[rstest]
#[case::plain("vessels", "7", 1000, 2000, "eb5307eab8fc4f5c56c88566d7d764e1")]
#[case::empty_range("ais", "0", 0, 0, "010b634470b29abedccf45143ad0a617")]
#[case::not_ascii_and_the_largest_offset("häfen/ø", "Straße-東京", 0, u64::MAX, "9563694a27b8ac581d20e0afbc4bfb08")]
#[case::beyond_the_basic_plane("🚢", "", 0, 1, "558c2f3321ad14193726c8f5fd29a598")]
fn an_id_of_offsets_is_the_one_of_the_python_formula(
    #[case] source: &str,
    #[case] partition: &str,
    #[case] start: u64,
    #[case] end: u64,
    #[case] expected: &str,
) {
    assert_eq!(BatchId::offsets(source, partition, start, end).unwrap().as_str(), expected);
}

#[test]
fn a_colon_in_a_name_can_make_two_partitions_one_as_in_the_python_formula() {
    let one = BatchId::offsets("a:b", "c", 1, 2).unwrap();
    let other = BatchId::offsets("a", "b:c", 1, 2).unwrap();
    assert_eq!(one.as_str(), "4c2b397c0fc4fb94a2c44a9bd62eac75");
    assert_eq!(one, other);
}

#[test]
fn offsets_that_run_backwards_are_refused_by_name() {
    let error = BatchId::offsets("s", "p", 2, 1).unwrap_err();
    assert_eq!(error.to_string(), "the offsets 2-1 run backwards: give the smaller one first");
}

#[test]
fn content_and_slices_have_the_ids_of_their_keys() {
    assert_eq!(BatchId::content("geonames", &Sha256Hex::of("abc")).as_str(), "5eb68e58917a822281952be4de1510eb");
    assert_eq!(BatchId::slice("parcels", "run_date", "2023-03-01").as_str(), "c67e27ddabd1caae03ea3fbac4561ba5");
}

#[test]
fn a_slice_of_several_columns_has_one_id_whatever_their_order() {
    let values = [("run_date", "2023-03-01"), ("country", "AT")];
    let id = BatchId::slice_of("parcels", values);
    assert_eq!(BatchId::slice_of("parcels", [values[1], values[0]]), id);
    // printf 'parcels:slice:country=AT,run_date=2023-03-01' | sha256sum
    assert_eq!(id.as_str(), "123671aa4e6d53d1f5e458e430d1218a");
    assert_eq!(BatchId::slice_of("parcels", [values[0]]), BatchId::slice("parcels", "run_date", "2023-03-01"));
}

fn fact(path: &str, content: &str) -> FileFact {
    FileFact { path: path.to_owned(), size: content.len() as u64, sha256: Sha256Hex::of(content) }
}

#[test]
fn files_have_the_id_of_their_sorted_lines_whatever_their_order() {
    let mut facts = vec![fact("b/2.csv", "abc"), fact("ü.csv", "abc"), fact("a.csv", "")];
    for _ in 0..facts.len() {
        facts.rotate_left(1);
        assert_eq!(BatchId::files("geonames", &facts).as_str(), "312e08a6c8f36166d14a3a63421359c7");
        assert_eq!(
            files_digest(&facts).to_string(),
            "64d5808d19a9a54b379a017b68fe7c5091a1be7d2d1e5b219c245af980a6bf68"
        );
    }
}

#[test]
fn no_files_are_a_batch_too() {
    assert_eq!(BatchId::files("geonames", &[]).as_str(), "b30c1eca0907f338956ee3069dfdff2d");
    assert_eq!(files_digest(&[]), Sha256Hex::of(""));
}

#[rstest]
#[case::name(fact("b.csv", "abc"))]
#[case::content(fact("a.csv", "abd"))]
#[case::size(FileFact { size: 4, ..fact("a.csv", "abc") })]
fn a_file_that_differs_is_another_batch(#[case] other: FileFact) {
    assert_ne!(BatchId::files("s", &[fact("a.csv", "abc")]), BatchId::files("s", &[other]));
}

#[test]
fn a_path_cannot_forge_a_line() {
    // One file whose name spells out the rest of its line and another line.
    let digest = Sha256Hex::of("abc");
    let forged = fact(&format!("a\t3\t{digest}\nb"), "abc");
    assert_ne!(files_digest(&[forged]), files_digest(&[fact("a", "abc"), fact("b", "abc")]));

    let escaped = fact("a\tb\n\\c", "abc");
    assert_eq!(
        files_digest(&[escaped]).to_string(),
        "75eea09f6e059ad72a434b7e82b118d81046eca771d4b5e404dfdf5a1ae6fae0"
    );
    assert_ne!(files_digest(&[fact("a\tb", "")]), files_digest(&[fact(r"a\tb", "")]));
}

proptest! {
    #[test]
    fn two_sets_of_files_have_one_digest_only_if_they_are_the_same_set(
        one in prop::collection::btree_set(r"[ab\\\t\n\r/]{0,4}", 0..4),
        other in prop::collection::btree_set(r"[ab\\\t\n\r/]{0,4}", 0..4),
    ) {
        let digest = |paths: &std::collections::BTreeSet<String>| {
            files_digest(&paths.iter().map(|path| fact(path, "")).collect::<Vec<_>>())
        };
        prop_assert_eq!(one == other, digest(&one) == digest(&other));
    }
}

#[rstest]
#[case::empty("")]
#[case::one_short("eb5307eab8fc4f5c56c88566d7d764e")]
#[case::one_long("eb5307eab8fc4f5c56c88566d7d764e10")]
#[case::upper_case("EB5307EAB8FC4F5C56C88566D7D764E1")]
#[case::not_hexadecimal("gb5307eab8fc4f5c56c88566d7d764e1")]
#[case::spaced(" b5307eab8fc4f5c56c88566d7d764e1")]
#[case::with_hyphens("eb5307ea-b8fc-4f5c-56c8-8566d7d764e1")]
#[case::wide("éééééééééééééééé")]
fn text_that_is_no_batch_id_is_refused(#[case] text: &str) {
    assert!(text.parse::<BatchId>().is_err());
    assert!(BatchId::try_from(text).is_err());
    assert!(serde_json::from_str::<BatchId>(&format!("{text:?}")).is_err());
}

#[test]
fn an_id_survives_text_and_json() {
    let id = BatchId::slice("s", "c", "v");
    assert_eq!(id.to_string().parse::<BatchId>().unwrap(), id);
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, format!("\"{id}\""));
    assert_eq!(serde_json::from_str::<BatchId>(&json).unwrap(), id);
}

#[test]
fn a_refusal_names_the_text_and_the_form() {
    assert_eq!(
        "ABC".parse::<BatchId>().unwrap_err().to_string(),
        "\"ABC\" is no batch id: give exactly 32 lower-case hexadecimal digits"
    );
}
