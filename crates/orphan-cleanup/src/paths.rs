//! Millions of paths as numbers.
//!
//! A file is known by a 128-bit hash: 120 bits of its key, and 8 bits that say under which scheme and authority it was
//! named. So the same key under another spelling is found too, and told apart. Two keys that share a hash by accident
//! can only keep a file that could have gone.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use hexfloe_store::Location;
use twox_hash::XxHash3_128;

/// The last index of a prefix stands for keys that were decoded.
const DECODED: u8 = u8::MAX;

/// Schemes that are declared to be one: `s3a` is `s3`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EqualSchemes(BTreeMap<String, String>);

impl EqualSchemes {
    /// Declares that locations of the scheme `one` and of `other` name the same objects.
    #[must_use]
    pub fn and(mut self, one: &str, other: &str) -> Self {
        let (one, other) = (self.of(&one.to_ascii_lowercase()), self.of(&other.to_ascii_lowercase()));
        let (first, second) = if one < other { (one, other) } else { (other, one) };
        for meant in self.0.values_mut().filter(|meant| **meant == second) {
            meant.clone_from(&first);
        }
        self.0.insert(second, first);
        self
    }

    fn of(&self, scheme: &str) -> String {
        self.0.get(scheme).map_or_else(|| scheme.to_owned(), Clone::clone)
    }
}

/// A path that cannot be placed: it has no scheme and is not absolute.
#[derive(Debug)]
pub(crate) struct Unplaced;

/// What is known of a listed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Named exactly so.
    Same,
    /// Named under another scheme or authority, which has this index.
    Elsewhere(u8),
    /// Named in an encoded form of it, or it is an encoded form of what is named.
    Encoded,
    /// Not named.
    No,
}

/// A set of files, each under a scheme and an authority.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    equal: EqualSchemes,
    prefixes: Vec<Prefix>,
    /// The spelling of the last path that was added, up to its key, and its index: most paths have the same.
    last: Option<(String, u8)>,
    hashes: Hashes,
}

#[derive(Debug)]
struct Prefix {
    /// As it was written first.
    written: String,
    /// With equal schemes made one.
    scheme: String,
    authority: String,
}

type Hashes = HashSet<u128, BuildHasherDefault<Taken>>;

impl Paths {
    pub(crate) fn new(equal: EqualSchemes) -> Self {
        Self { equal, ..Self::default() }
    }

    /// Adds a path as metadata has it.
    pub(crate) fn insert(&mut self, path: &str) -> Result<(), Unplaced> {
        let known =
            self.last.as_ref().and_then(|(spelling, prefix)| Some((path.strip_prefix(spelling.as_str())?, *prefix)));
        if let Some((key, prefix)) = known.filter(|(key, _)| is_canonical(key)) {
            self.add(prefix, key);
            return Ok(());
        }
        let (scheme, authority, key) = match Location::parse(path) {
            Ok(location) => (location.scheme().to_owned(), location.authority().to_owned(), location.key().to_owned()),
            // What cannot be compared may be the name of anything: a path with `..` in it, for one.
            Err(_) if Location::is_of_a_known_store(path) => return Err(Unplaced),
            // A store that we do not know can still be another name for one that we do.
            Err(_) => {
                let (scheme, rest) = path.split_once("://").ok_or(Unplaced)?;
                let (authority, key) = rest.split_once('/').ok_or(Unplaced)?;
                (scheme.to_ascii_lowercase(), authority.to_owned(), key.trim_matches('/').to_owned())
            }
        };
        let prefix = self.prefix(&scheme, &authority).ok_or(Unplaced)?;
        self.last = path.strip_suffix(key.as_str()).map(|spelling| (spelling.to_owned(), prefix));
        self.add(prefix, &key);
        Ok(())
    }

    fn add(&mut self, prefix: u8, key: &str) {
        self.hashes.insert(hash(key, prefix));
        if let Some(decoded) = decoded(key) {
            self.hashes.insert(hash(&decoded, DECODED));
        }
    }

    /// The index of a scheme and authority; there are not more of them than a table can have.
    pub(crate) fn prefix(&mut self, scheme: &str, authority: &str) -> Option<u8> {
        let same = self.equal.of(scheme);
        let known = self.prefixes.iter().position(|prefix| prefix.scheme == same && prefix.authority == authority);
        let place = known.unwrap_or_else(|| {
            let (written, authority) = (scheme.to_owned(), authority.to_owned());
            self.prefixes.push(Prefix { written, scheme: same, authority });
            self.prefixes.len() - 1
        });
        u8::try_from(place).ok().filter(|place| *place < DECODED)
    }

    /// The scheme and the authority of an index, as they were first written.
    pub(crate) fn spelled(&self, prefix: u8) -> (&str, &str) {
        self.prefixes.get(usize::from(prefix)).map_or(("", ""), |prefix| (&prefix.written, &prefix.authority))
    }

    /// What is known of a key that was listed under the prefix of index `under`.
    pub(crate) fn find(&self, under: u8, key: &str) -> Found {
        let own = hash(key, 0);
        let holds = |prefix: u8| self.hashes.contains(&(own | u128::from(prefix)));
        let prefixes = u8::try_from(self.prefixes.len()).unwrap_or(DECODED);
        if let Some(other) = (0..prefixes).find(|prefix| *prefix != under && holds(*prefix)) {
            return Found::Elsewhere(other);
        }
        if holds(under) {
            return Found::Same;
        }
        // What is named is an encoded form of this, or this is one of what is named, or both are of a third.
        let is_named = |key: &str, prefix: u8| self.hashes.contains(&hash(key, prefix));
        let doubtful = holds(DECODED)
            || decoded(key)
                .is_some_and(|key| is_named(&key, DECODED) || (0..prefixes).any(|prefix| is_named(&key, prefix)));
        if doubtful { Found::Encoded } else { Found::No }
    }
}

fn hash(key: &str, prefix: u8) -> u128 {
    (XxHash3_128::oneshot(key.as_bytes()) & !0xff) | u128::from(prefix)
}

/// Whether a key is what [`Location::key`] would give for it. May say no of one that is.
fn is_canonical(key: &str) -> bool {
    let bytes = key.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let odd = |pair: &[u8]| pair[0] == b'/' && matches!(pair[1], b'/' | b'.');
    !matches!(first, b'/' | b'.')
        && *last != b'/'
        && !bytes.windows(2).any(odd)
        && !bytes.iter().any(u8::is_ascii_control)
}

/// The key with its percent signs taken as an encoding; `None` when it has none.
fn decoded(key: &str) -> Option<String> {
    if !key.contains('%') {
        return None;
    }
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        match hex.filter(|_| *byte == b'%') {
            Some(meant) => {
                bytes.push(meant);
                rest = &after[2..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (text != key).then_some(text)
}

/// Takes the upper half of a hash as it is.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, number: u128) {
        let [a, b, c, d, e, f, g, h, ..] = number.to_be_bytes();
        self.0 = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(paths: &[&str]) -> Paths {
        let mut set = Paths::default();
        for path in paths {
            set.insert(path).unwrap();
        }
        set
    }

    fn find(set: &mut Paths, location: &str) -> Found {
        let location = Location::parse(location).unwrap();
        let prefix = set.prefix(location.scheme(), location.authority()).unwrap();
        set.find(prefix, location.key())
    }

    #[test]
    fn all_spellings_of_a_local_path_are_one() {
        for spelling in ["/lake/t/a", "file:/lake/t/a", "file:///lake/t/a", "file://localhost/lake//t/a"] {
            let mut set = of(&["file:///lake/t/other", spelling]);
            assert_eq!(find(&mut set, "/lake/t/a"), Found::Same, "{spelling}");
            assert_eq!(find(&mut set, "/lake/t/b"), Found::No, "{spelling}");
        }
    }

    #[test]
    fn another_scheme_or_bucket_is_told_apart() {
        let mut set = of(&["s3a://lake/t/a", "s3://copy/t/b", "hdfs://host/t/c"]);
        assert!(
            matches!(find(&mut set, "s3://lake/t/a"), Found::Elsewhere(prefix) if set.spelled(prefix) == ("s3a", "lake"))
        );
        assert!(
            matches!(find(&mut set, "s3://lake/t/b"), Found::Elsewhere(prefix) if set.spelled(prefix) == ("s3", "copy"))
        );
        assert!(
            matches!(find(&mut set, "s3://lake/t/c"), Found::Elsewhere(prefix) if set.spelled(prefix) == ("hdfs", "host"))
        );
        assert_eq!(find(&mut set, "s3a://lake/t/a"), Found::Same);
    }

    #[test]
    fn schemes_are_equal_when_they_are_declared_so() {
        let mut set = Paths::new(EqualSchemes::default().and("s3a", "s3").and("S3n", "s3a"));
        set.insert("s3a://lake/t/a").unwrap();
        set.insert("s3n://lake/t/b").unwrap();
        assert_eq!(find(&mut set, "s3://lake/t/a"), Found::Same);
        assert_eq!(find(&mut set, "s3://lake/t/b"), Found::Same);
        assert!(matches!(find(&mut set, "s3://other/t/b"), Found::Elsewhere(_)));
    }

    #[test]
    fn a_key_that_was_encoded_once_more_or_less_is_doubtful() {
        let mut set = of(&["s3://lake/t/x=a%20b/1", "s3://lake/t/y=a b/2", "s3://lake/t/z=a%2520b/3"]);
        assert_eq!(find(&mut set, "s3://lake/t/x=a%20b/1"), Found::Same);
        assert_eq!(find(&mut set, "s3://lake/t/x=a b/1"), Found::Encoded);
        assert_eq!(find(&mut set, "s3://lake/t/y=a%20b/2"), Found::Encoded);
        assert_eq!(find(&mut set, "s3://lake/t/z=a%20b/3"), Found::Encoded);
        assert_eq!(find(&mut set, "s3://lake/t/x=a%20b/2"), Found::No);
    }

    #[test]
    fn a_path_that_is_not_absolute_cannot_be_placed() {
        let mut set = Paths::default();
        assert!(set.insert("data/a.parquet").is_err());
        assert!(set.insert("").is_err());
        for path in ["file:///lake/t/./a", "file:///lake/t/x/../a", "/lake/t/./a", "S3://lake/t/../a"] {
            assert!(set.insert(path).is_err(), "{path}");
        }
    }
}
