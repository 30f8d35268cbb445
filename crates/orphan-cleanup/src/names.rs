//! The names that writers of tables give to files, and what ours say of their batch.
//!
//! Only a file with such a name is ever removed. All writers put a UUID into the names of files, but for a few known ones.

use serde::Serialize;

/// Who left a file: a batch, and one of the attempts at it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Attribution {
    /// The batch, 32 hex digits.
    pub batch: String,
    /// The attempt, 32 hex digits.
    pub attempt: String,
}

impl Attribution {
    /// What a data file's name says: `<batch>-<attempt>-…`, the attempt with or without the dashes of a UUID.
    pub fn of(name: &str) -> Option<Self> {
        let (batch, rest) = name.split_at_checked(32)?;
        let rest = rest.strip_prefix('-')?;
        let plain = || rest.get(..32).filter(|attempt| is_hex(attempt));
        let attempt = rest.get(..36).filter(|attempt| is_uuid(attempt.as_bytes())).or_else(plain)?;
        let ends = rest.get(attempt.len()..)?.starts_with('-');
        (is_hex(batch) && ends).then(|| Self { batch: batch.to_owned(), attempt: attempt.replace('-', "") })
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// What a root holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data,
    Metadata,
}

/// The object that a cleaner writes to ask the store for its time; `id` is never used twice. Named as a manifest list is:
/// some stores for tables take nothing else.
pub(crate) fn clock(id: impl std::fmt::Display) -> String {
    format!("snap-0-0-{id}.avro")
}

/// Whether a writer of tables may have named a file so, in a root of this kind.
pub(crate) fn is_of_a_writer(kind: Kind, name: &str) -> bool {
    let name = finished(name);
    // Hadoop's checksum of a file.
    if let Some(main) = checksummed(name) {
        return is_of_a_writer(kind, main);
    }
    let known = |extensions: &[&str]| extensions.iter().any(|extension| name.ends_with(extension));
    match kind {
        Kind::Data => {
            known(&[".parquet", ".avro", ".orc", ".puffin"]) && (has_uuid(name) || Attribution::of(name).is_some())
                || (known(&[".parq", ".parquet", ".orc"]) && is_of_impala(name))
        }
        Kind::Metadata => {
            (known(&[".avro", ".puffin", ".stats", ".parquet", ".orc"]) && has_uuid(name))
                || (is_metadata(name) && (has_uuid(name) || is_version(name)))
        }
    }
}

/// The name that an unfinished local file was to get: `object_store` adds `#` and a number until it is whole.
pub(crate) fn finished(name: &str) -> &str {
    match name.rsplit_once('#') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

/// The file whose checksum this is.
pub(crate) fn checksummed(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".crc")
}

/// Whether a file with this name is the metadata of a table.
pub(crate) fn is_metadata(name: &str) -> bool {
    name.ends_with(".metadata.json") || name.ends_with(".metadata.json.gz")
}

/// What else a file says that somebody keeps there: the log of another table format.
pub(crate) fn of_another_format(key: &str) -> Option<&'static str> {
    let within = |folder: &str| key.split('/').rev().skip(1).any(|part| part == folder);
    if within("_delta_log") {
        Some("a Delta table")
    } else if within(".hoodie") {
        Some("a Hudi table")
    } else {
        None
    }
}

/// `v12.metadata.json`, `v12.gz.metadata.json`, as Hadoop tables have them.
fn is_version(name: &str) -> bool {
    let rest = name.strip_prefix('v').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let rest = rest.filter(|rest| rest.len() + 1 < name.len());
    rest.is_some_and(|rest| matches!(rest, ".metadata.json" | ".metadata.json.gz" | ".gz.metadata.json"))
}

/// `3f4a1ac0fea0dd7d-a8bdd3c400000000_1293424535_data.0.parq`.
fn is_of_impala(name: &str) -> bool {
    let Some((query, rest)) = name.split_once('_') else { return false };
    let Some((high, low)) = query.split_once('-') else { return false };
    let is_half = |half: &str| half.len() >= 8 && half.len() <= 16 && half.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_half(high) && is_half(low) && rest.contains("data.")
}

fn has_uuid(name: &str) -> bool {
    name.as_bytes().windows(36).any(is_uuid)
}

fn is_uuid(text: &[u8]) -> bool {
    let fits = |(place, byte): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "0195b0a2-6f1e-7cc3-98c4-dc0c0c07398f";

    #[test]
    fn names_of_all_known_writers_are_recognised() {
        for name in [
            format!("00000-0-{UUID}.parquet"),
            format!("00001-7-{UUID}-00002.parquet"),
            format!("00001-7-{UUID}-00002-deletes.parquet"),
            format!("{UUID}.parquet"),
            format!("20260811_101112_00007_x3yzw-{UUID}.parquet"),
            format!("0cc175b9c0f1b6a831c399e269772661-{}-00000.parquet", UUID.replace('-', "")),
            format!("0cc175b9c0f1b6a831c399e269772661-{UUID}-00000-rewritten.parquet"),
            format!("00000-5-{UUID}-00001.puffin"),
            format!(".00000-0-{UUID}.parquet.crc"),
            format!("00000-0-{UUID}.parquet#12"),
            "3f4a1ac0fea0dd7d-a8bdd3c400000000_1293424535_data.0.parq".to_owned(),
        ] {
            assert!(is_of_a_writer(Kind::Data, &name), "{name}");
        }
        for name in [
            format!("snap-123-1-{UUID}.avro"),
            format!("{UUID}-m0.avro"),
            format!("00012-{UUID}.metadata.json"),
            format!("00012-{UUID}.gz.metadata.json"),
            format!("00012-{UUID}.metadata.json.gz"),
            "v12.metadata.json".to_owned(),
            "v12.gz.metadata.json".to_owned(),
            format!("123-{UUID}.stats"),
            format!("partition-stats-123-{UUID}.parquet"),
            clock(UUID),
        ] {
            assert!(is_of_a_writer(Kind::Metadata, &name), "{name}");
        }
    }

    #[test]
    fn names_that_people_give_are_not_taken_for_a_writers() {
        let backup = format!("{UUID}.parquet.bak");
        let folder = format!("{UUID}.txt");
        for name in ["cities.parquet", "_SUCCESS", "notes.md", &backup, &folder, "v.metadata.json", "part-0.orc"] {
            assert!(!is_of_a_writer(Kind::Data, name), "{name}");
            assert!(!is_of_a_writer(Kind::Metadata, name), "{name}");
        }
        assert!(!is_of_a_writer(Kind::Metadata, "version-hint.text"));
        assert!(!is_of_a_writer(Kind::Data, &format!("00012-{UUID}.metadata.json")));
    }

    #[test]
    fn our_files_say_whose_they_are() {
        let of = |name: &str| Attribution::of(name);
        let batch = "0cc175b9c0f1b6a831c399e269772661";
        let expected = Attribution { batch: batch.to_owned(), attempt: UUID.replace('-', "") };
        assert_eq!(of(&format!("{batch}-{}-00000.parquet", UUID.replace('-', ""))), Some(expected.clone()));
        assert_eq!(of(&format!("{batch}-{UUID}-00003-rewritten.parquet")), Some(expected));
        assert_eq!(of(&format!("00000-0-{UUID}.parquet")), None);
        assert_eq!(of(&format!("{batch}-{batch}.parquet")), None);
        assert_eq!(of("short"), None);
        assert_eq!(of(&format!("ümlaut-{batch}")), None);
    }
}
