//! Files that may be orphans, until it is certain.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Many files: their keys in one piece of memory, so that one costs its key and 32 bytes.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    keys: String,
    files: Vec<Packed>,
}

#[derive(Clone, Copy, Debug)]
struct Packed {
    start: u64,
    length: u32,
    size: u64,
    modified_ms: i64,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate<'a> {
    pub(crate) key: &'a str,
    pub(crate) size: u64,
    pub(crate) modified_ms: i64,
}

impl Candidates {
    pub(crate) fn push(&mut self, key: &str, size: u64, modified: SystemTime) {
        let start = self.keys.len() as u64;
        self.keys.push_str(key);
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let modified_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        self.files.push(Packed { start, length: u32::try_from(key.len()).unwrap_or(u32::MAX), size, modified_ms });
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<Candidate<'_>> {
        self.files.get(index).map(|packed| self.unpack(*packed))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Candidate<'_>> {
        self.files.iter().map(|packed| self.unpack(*packed))
    }

    fn unpack(&self, Packed { start, length, size, modified_ms }: Packed) -> Candidate<'_> {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = start.saturating_add(length as usize);
        Candidate { key: self.keys.get(start..end).unwrap_or_default(), size, modified_ms }
    }

    /// Orders them by their keys: what is done does not depend on the order of a listing.
    pub(crate) fn sort(&mut self) {
        let Self { keys, files } = self;
        let key = |packed: &Packed| {
            let start = usize::try_from(packed.start).unwrap_or(usize::MAX);
            keys.as_bytes().get(start..start.saturating_add(packed.length as usize)).unwrap_or_default()
        };
        files.sort_unstable_by(|one, other| key(one).cmp(key(other)));
    }

    /// Forgets those that are not to go.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(Candidate<'_>) -> bool) {
        let files = std::mem::take(&mut self.files);
        self.files = files.into_iter().filter(|packed| keeps(self.unpack(*packed))).collect();
    }

    /// Bytes of all of them together.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Whether one has this key, in the order of [`Candidates::sort`].
    pub(crate) fn position(&self, key: &str) -> Option<usize> {
        self.files.binary_search_by(|packed| self.unpack(*packed).key.as_bytes().cmp(key.as_bytes())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_ordered_and_found() {
        let mut files = Candidates::default();
        for (number, key) in ["t/data/ü", "t/data/b", "t/data/a", "t/metadata/a"].iter().enumerate() {
            files.push(key, number as u64, UNIX_EPOCH + Duration::from_millis(1_500));
        }
        files.sort();
        files.retain(|file| file.key != "t/data/b");
        let keys: Vec<&str> = files.iter().map(|file| file.key).collect();
        assert_eq!(keys, ["t/data/a", "t/data/ü", "t/metadata/a"]);
        assert_eq!(files.get(0), Some(Candidate { key: "t/data/a", size: 2, modified_ms: 1_500 }));
        assert_eq!((files.position("t/data/ü"), files.position("t/data/b")), (Some(1), None));
        assert_eq!((files.len(), files.bytes()), (3, 5));
    }
}
