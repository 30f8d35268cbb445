//! One canonical form for the many spellings of one place.

use std::fmt;

use object_store::path::Path;

use crate::Error;

/// A place in a store: scheme, authority and key.
///
/// Two locations that name the same object compare equal: `/lake/t`, `file:/lake/t`, `file:///lake/t/` and
/// `file://localhost/lake//t` are one place, and so are `s3://b/t`, `s3a://b/t` and `s3n://b/t`. The scheme as written
/// is kept for messages only. Keys are taken as they are: a `%20` in a location is three characters of the key, as it
/// is for every Iceberg implementation that reads the string.
///
/// [`Display`](fmt::Display) gives the form to write: `file:///…` for local paths, no trailing slash.
#[derive(Clone, Debug)]
pub struct Location {
    scheme: String,
    family: &'static str,
    authority: String,
    key: String,
}

impl Location {
    /// Parses a location as found in table metadata or a configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Location`] for relative paths, unknown schemes, `.` or `..` segments and control characters.
    pub fn parse(location: &str) -> Result<Self, Error> {
        let refuse = |reason: &str| Error::Location { location: location.to_owned(), reason: reason.to_owned() };
        let (scheme, rest) = match location.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ if location.starts_with('/') => ("file".to_owned(), location),
            _ => return Err(refuse("a scheme such as file:// or s3://, or an absolute path, is needed")),
        };
        let family = match scheme.as_str() {
            "file" => "file",
            "memory" => "memory",
            "s3" | "s3a" | "s3n" => "s3",
            "gs" => "gs",
            "abfs" | "abfss" => "abfss",
            _ => return Err(refuse("the scheme is not one of file, memory, s3, s3a, s3n, gs, abfs, abfss")),
        };
        let has_authority = !matches!(family, "file" | "memory");
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => match rest.find('/') {
                Some(slash) => (&rest[..slash], &rest[slash..]),
                None => (rest, ""),
            },
            None if !has_authority && rest.starts_with('/') => ("", rest),
            None => return Err(refuse("`://` is needed after the scheme")),
        };
        let authority = match authority {
            "localhost" if family == "file" => "",
            other => other,
        };
        if has_authority && authority.is_empty() {
            return Err(refuse("the bucket is missing"));
        }
        if !has_authority && !authority.is_empty() {
            return Err(refuse("a local path starts with a slash: file:///folder"));
        }
        let mut key = String::with_capacity(path.len());
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            if segment == "." || segment == ".." {
                return Err(refuse("`.` and `..` are not allowed"));
            }
            if segment.chars().any(|c| c.is_ascii_control()) {
                return Err(refuse("control characters are not allowed"));
            }
            if !key.is_empty() {
                key.push('/');
            }
            key.push_str(segment);
        }
        Ok(Self { scheme, family, authority: authority.to_owned(), key })
    }

    /// Whether a text has a scheme that this crate knows, or is a local path; it need not be usable otherwise.
    pub fn is_of_a_known_store(text: &str) -> bool {
        let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let known = ["file", "memory", "s3", "s3a", "s3n", "gs", "abfs", "abfss"];
        text.starts_with('/') || scheme.is_some_and(|scheme| known.contains(&scheme.as_str()))
    }

    /// The location of an absolute path on the local disk.
    ///
    /// # Errors
    ///
    /// [`Error::Location`] when the path is relative or not UTF-8.
    pub fn from_path(path: &std::path::Path) -> Result<Self, Error> {
        match path.to_str() {
            Some(text) if path.is_absolute() => Self::parse(text),
            _ => Err(Error::Location {
                location: path.display().to_string(),
                reason: "an absolute path in UTF-8 is needed".to_owned(),
            }),
        }
    }

    /// A place below this one.
    ///
    /// # Errors
    ///
    /// As for [`Location::parse`].
    pub fn join(&self, below: &str) -> Result<Self, Error> {
        Self::parse(&format!("{self}/{below}"))
    }

    /// The scheme as written, in lower case: `s3a`.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The scheme that all spellings of one kind of store share: `s3` for `s3a`.
    pub fn family(&self) -> &'static str {
        self.family
    }

    /// Bucket or container; empty for local paths.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The key within the store: no leading, trailing or doubled slash.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether `other` lies below this place.
    pub fn contains(&self, other: &Self) -> bool {
        self.family == other.family
            && self.authority == other.authority
            && (self.key.is_empty() || other.key.strip_prefix(&self.key).is_some_and(|rest| rest.starts_with('/')))
    }

    pub(crate) fn path(&self) -> Result<Path, Error> {
        // `parse`, not `from`: the key is encoded nowhere but inside the store.
        Path::parse(&self.key)
            .map_err(|error| Error::Location { location: self.to_string(), reason: error.to_string() })
    }
}

/// A scheme as RFC 3986 has it, two characters at least (one letter is a drive).
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        self.family == other.family && self.authority == other.authority && self.key == other.key
    }
}

impl Eq for Location {}

impl std::hash::Hash for Location {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.family.hash(state);
        self.authority.hash(state);
        self.key.hash(state);
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme, self.authority, self.key)
    }
}

impl std::str::FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/lake/t")]
    #[case("file:/lake/t")]
    #[case("file:///lake/t")]
    #[case("FILE:///lake/t/")]
    #[case("file://localhost/lake//t")]
    fn every_spelling_of_a_local_place_is_one_location(#[case] spelling: &str) {
        let location = Location::parse(spelling).unwrap();
        assert_eq!(location, Location::parse("file:///lake/t").unwrap());
        assert_eq!(location.to_string(), "file:///lake/t");
    }

    #[rstest]
    #[case("s3://b/t")]
    #[case("s3a://b/t/")]
    #[case("s3n://b//t")]
    fn every_spelling_of_an_s3_place_is_one_location(#[case] spelling: &str) {
        assert_eq!(Location::parse(spelling).unwrap(), Location::parse("s3://b/t").unwrap());
    }

    #[rstest]
    #[case("s3://b/t", "s3://c/t")]
    #[case("s3://b/t", "gs://b/t")]
    #[case("file:///b/t", "memory:///b/t")]
    #[case("file:///a%20b", "file:///a b")]
    fn different_places_are_different(#[case] one: &str, #[case] other: &str) {
        assert_ne!(Location::parse(one).unwrap(), Location::parse(other).unwrap());
    }

    #[rstest]
    #[case("lake/t")]
    #[case("ftp://b/t")]
    #[case("s3:/b/t")]
    #[case("s3:///t")]
    #[case("file://server/t")]
    #[case("file:///a/../b")]
    #[case("file:///a/\u{1}b")]
    #[case("c:/lake")]
    #[case("")]
    fn what_cannot_be_understood_is_refused(#[case] spelling: &str) {
        assert!(matches!(Location::parse(spelling), Err(Error::Location { .. })), "{spelling}");
    }

    #[test]
    fn a_sibling_with_the_same_prefix_is_not_contained() {
        let table = Location::parse("file:///lake/t").unwrap();
        assert!(table.contains(&Location::parse("/lake/t/data/a").unwrap()));
        assert!(!table.contains(&Location::parse("/lake/t2/data/a").unwrap()));
        assert!(!table.contains(&table));
    }
}
