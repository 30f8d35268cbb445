//! Compressed text: gzip and zstd, told by their bytes, whole or refused.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use hexfloe_batch::Sha256Hex;
use hexfloe_source::{Format, ScanOptions, Source};
use proptest::prelude::*;
use rstest::rstest;

use crate::{folder, read, refusal, settings};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 3).unwrap()
}

const FEATURE: &str = r#"{"type":"Feature","geometry":null,"properties":{"v":1}}"#;

#[rstest]
#[case(Format::Csv, "v,geometry\n1,\n", "1|∅")]
#[case(Format::Ndjson, "{\"v\":1,\"geometry\":null}\n", "1|∅")]
#[case(Format::Geojson, r#"{"type":"FeatureCollection","features":[FEATURE]}"#, "1|∅")]
#[case(Format::Geojsonseq, "FEATURE\n", "1|∅")]
fn every_text_format_may_be_compressed(
    #[case] format: Format,
    #[case] text: &str,
    #[case] row: &str,
    #[values("gzip", "zstd", "plain")] how: &str,
) {
    let text = text.replace("FEATURE\n", &format!("{FEATURE}\n")).replace("[FEATURE]", &format!("[{FEATURE}]"));
    let content = match how {
        "gzip" => gzip(text.as_bytes()),
        "zstd" => zstd(text.as_bytes()),
        _ => text.into_bytes(),
    };
    // The name says nothing.
    let folder = folder(&[("a.dat", &content)]);
    let rows = read(&folder, settings(format, &["a.dat"]), &ScanOptions::default()).unwrap();
    assert_eq!(rows.values(), [row]);
    assert_eq!(rows.bytes, content.len() as u64, "progress counts the bytes of the file");
}

#[rstest]
#[case([gzip(b"v\n1\n"), gzip(b"2\n3"), gzip(b""), gzip(b"4\n")].concat())]
#[case([zstd(b"v\n1\n"), zstd(b"2\n3"), zstd(b""), zstd(b"4\n")].concat())]
#[case([b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec(), zstd(b"v\n1\n2\n34\n")].concat())]
fn members_and_frames_one_after_the_other_are_one_text(#[case] content: Vec<u8>) {
    let folder = folder(&[("a.csv", &content)]);
    let rows = read(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions::default()).unwrap();
    assert_eq!(rows.values(), ["1", "2", "34"]);
}

#[test]
fn the_id_of_a_batch_is_made_of_the_bytes_as_they_are() {
    let content = gzip(b"v\n1\n");
    let folder = folder(&[("a.csv", &content)]);
    let source = Source::open(settings(Format::Csv, &["a.csv"]), folder.path()).unwrap();
    let fact = source.facts(&|_| {}).unwrap().remove(0);
    assert_eq!((fact.size, fact.sha256), (content.len() as u64, Sha256Hex::of(&content)));
}

fn lines() -> Vec<u8> {
    (0..500).fold(String::from("v\n"), |text, row| text + &format!("{}\n", row * 7919 % 1009)).into_bytes()
}

#[rstest]
#[case::gzip(gzip(&lines()), "gzip")]
#[case::zstd(zstd(&lines()), "zstd")]
fn a_file_that_is_cut_off_anywhere_is_an_error_that_names_it(#[case] content: Vec<u8>, #[case] name: &str) {
    for cut in (4..content.len()).step_by(7).chain([content.len() - 1]) {
        let folder = folder(&[("a.csv", &content[..cut])]);
        let error = refusal(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions::default()).to_string();
        assert!(error.starts_with("a.csv: the ") && error.contains(name), "cut at {cut}: {error}");
        assert!(error.ends_with("the file is cut off"), "cut at {cut}: {error}");
    }
}

#[rstest]
#[case::gzip(gzip(&lines()))]
#[case::zstd(zstd(&lines()))]
fn bytes_behind_the_end_are_not_passed_over(#[case] mut content: Vec<u8>) {
    content.extend_from_slice(b"more");
    let folder = folder(&[("a.csv", &content)]);
    let error = refusal(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions::default()).to_string();
    assert!(error.starts_with("a.csv: the "), "{error}");
}

#[test]
fn a_checksum_that_does_not_fit_is_an_error() {
    let mut content = gzip(&lines());
    let place = content.len() - 6;
    content[place] ^= 1;
    let folder = folder(&[("a.csv", &content)]);
    let error = refusal(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions::default()).to_string();
    assert!(error.contains("a.csv: the gzip data is damaged after"), "{error}");
}

#[rstest]
#[case::gzip(gzip)]
#[case::zstd(zstd)]
fn a_bomb_is_refused_before_it_is_unpacked(#[case] pack: fn(&[u8]) -> Vec<u8>) {
    let content = pack(&vec![b'\n'; 64 << 20]);
    let folder = folder(&[("a.ndjson", &content)]);
    let mut settings = settings(Format::Ndjson, &["a.ndjson"]);
    settings.limits.expansion = 100;
    let error = refusal(&folder, settings, &ScanOptions::default()).to_string();
    assert!(error.contains("a.ndjson: becomes more than 100 times its"), "{error}");
    assert!(error.contains("source.limits.expansion"), "{error}");
}

#[test]
fn a_window_of_two_gigabytes_is_refused() {
    // A frame header that says so (RFC 8878, 3.1.1.1): no single segment, window descriptor 21 << 3.
    let content = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3][..], &[0x01, 0, 0]].concat();
    let folder = folder(&[("a.csv", &content)]);
    let error = refusal(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions::default()).to_string();
    assert!(error.contains("a.csv: the zstd data is damaged") && error.contains("memory"), "{error}");
}

#[rstest]
#[case(b"\xfd7zXZ\0 and more", "xz")]
#[case(b"BZh91AY&SY and more", "bzip2")]
#[case(b"PK\x03\x04 and more", "zip")]
fn other_compression_is_named(#[case] content: &[u8], #[case] name: &str) {
    let folder = folder(&[("a.csv", content)]);
    let error = refusal(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions::default()).to_string();
    assert!(error.contains(&format!("a.csv: is compressed with {name}, which is not read")), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn changed_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        is_gzip in any::<bool>(),
    ) {
        let mut content = if is_gzip { gzip(&lines()) } else { zstd(&lines()) };
        for (place, byte) in changes {
            let place = place.index(content.len());
            content[place] = byte;
        }
        let folder = folder(&[("a.csv", &content)]);
        let _ = read(&folder, settings(Format::Csv, &["a.csv"]), &ScanOptions::default());
    }
}
