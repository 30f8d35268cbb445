//! Whose metadata a file is.
//!
//! Two tables that share a place, or of which one lies in the other, see each other's files as orphans. Metadata files say
//! whose they are, usually within their first hundred bytes.

use std::cell::Cell;
use std::fmt;
use std::io::Read as _;

use futures::{StreamExt, TryStreamExt};
use hexfloe_store::Store;
use iceberg::table::Table;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserializer, de};

use crate::error::{Error, Refusal};
use crate::reading::CONCURRENT_READS;

/// Read first; most writers begin with the format version and the table's uuid.
const BEGINNING: u64 = 16 << 10;

/// How the bytes of a gzip file begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Refuses when one of `files` (locations of metadata files that the table does not refer to) is another table's, or does
/// not say whose it is. One that has gone meanwhile is nobody's.
pub(crate) async fn refuse_foreign(store: &Store, table: &Table, files: &[String]) -> Result<(), Error> {
    let ident = table.identifier().to_string();
    let uuid = table.metadata().uuid().to_string();
    let mut whose = futures::stream::iter(files.to_vec())
        .map(|file| async move { owner(store, &file).await.map(|owner| (file, owner)) })
        // In the order of the files, so that the same one is named each time.
        .buffered(CONCURRENT_READS);
    while let Some((file, owner)) = whose.try_next().await? {
        let refusal = match owner {
            Owner::Gone => continue,
            Owner::Table(owner) if owner.eq_ignore_ascii_case(&uuid) => {
                // A commit that failed leaves one that is a step ahead. One that is further was committed, elsewhere.
                let number = sequence_number(store, &file).await?;
                if number.is_none_or(|number| number <= table.metadata().last_sequence_number() + 1) {
                    continue;
                }
                Refusal::Newer { file }
            }
            Owner::Table(owner) => Refusal::Foreign { file, whose: format!("uuid {owner}") },
            Owner::View(owner) => Refusal::Foreign { file, whose: format!("a view, uuid {owner}") },
            Owner::Nobody(reason) => Refusal::Unreadable { file, reason },
        };
        return Err(Error::refused(&ident, refusal));
    }
    Ok(())
}

/// The last sequence number in a metadata file; `None` when it has none, or is not there.
async fn sequence_number(store: &Store, file: &str) -> Result<Option<i64>, Error> {
    let beginning = match store.read_range(file, 0..BEGINNING).await {
        Ok(beginning) => beginning,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Nearly all of them are found here; and in a file that is cut off the number is whole, or the next key is not there.
    let found = number_in(&plain(&beginning).0, "last-sequence-number");
    if found.is_some() {
        return Ok(found);
    }
    match store.read(file).await {
        Ok(whole) => Ok(number_in(&plain(&whole).0, "last-sequence-number")),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a metadata file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Table(String),
    View(String),
    /// It is not there any more.
    Gone,
    /// It cannot be told, for this reason.
    Nobody(String),
}

pub(crate) async fn owner(store: &Store, file: &str) -> Result<Owner, Error> {
    let beginning = match store.read_range(file, 0..BEGINNING).await {
        Ok(beginning) => beginning,
        Err(error) if error.is_not_found() => return Ok(Owner::Gone),
        // Some stores refuse a range of an empty file.
        Err(_) => bytes::Bytes::new(),
    };
    if let Some(owner) = owner_in(&plain(&beginning).0) {
        return Ok(owner);
    }
    let whole = match store.read(file).await {
        Ok(whole) => whole,
        Err(error) if error.is_not_found() => return Ok(Owner::Gone),
        Err(error) => return Err(error.into()),
    };
    let (text, broken) = plain(&whole);
    if let Some(broken) = broken {
        return Ok(Owner::Nobody(broken));
    }
    Ok(owner_in(&text).unwrap_or_else(|| match serde_json::from_slice::<IgnoredAny>(&text) {
        Ok(_) => Owner::Nobody("it has no table-uuid".to_owned()),
        Err(error) => Owner::Nobody(error.to_string()),
    }))
}

/// A property in a metadata file; `None` when it has none of the name, or is not there.
pub(crate) async fn property(store: &Store, file: &str, name: &str) -> Result<Option<String>, Error> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        #[serde(default)]
        properties: std::collections::HashMap<String, String>,
    }
    match store.read(file).await {
        // One that cannot be read has been refused before.
        Ok(whole) => Ok(serde_json::from_slice(&plain(&whole).0)
            .ok()
            .and_then(|mut metadata: Metadata| metadata.properties.remove(name))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The bytes as they are, or unpacked as far as they go; and what is wrong with what could not be unpacked.
fn plain(bytes: &[u8]) -> (Vec<u8>, Option<String>) {
    if !bytes.starts_with(&GZIP) {
        return (bytes.to_vec(), None);
    }
    let mut text = Vec::new();
    let unpacked = flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut text);
    (text, unpacked.err().map(|error| error.to_string()))
}

/// The uuid at the top level of a JSON object, which may be cut off after it.
fn owner_in(text: &[u8]) -> Option<Owner> {
    let found = Cell::new(None);
    // It is an error when the text ends, and also when it has been found.
    let _ = serde_json::Deserializer::from_slice(text).deserialize_map(Search(&found));
    found.take()
}

/// A number at the top level of a JSON object, if something follows it.
fn number_in(text: &[u8], name: &str) -> Option<i64> {
    struct Search<'a> {
        name: &'a str,
        found: &'a Cell<Option<i64>>,
    }
    impl<'de> Visitor<'de> for Search<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("metadata of a table")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<String>()? {
                if key == self.name {
                    let number = map.next_value()?;
                    // Cut off within its digits it would be another number: what follows has to be there.
                    let _ = map.next_key::<String>()?;
                    self.found.set(Some(number));
                    return Err(de::Error::custom("found"));
                }
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }
    let found = Cell::new(None);
    let _ = serde_json::Deserializer::from_slice(text).deserialize_map(Search { name, found: &found });
    found.get()
}

struct Search<'a>(&'a Cell<Option<Owner>>);

impl<'de> Visitor<'de> for Search<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata of a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let of = match key.as_str() {
                "table-uuid" => Owner::Table,
                "view-uuid" => Owner::View,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            self.0.set(Some(of(map.next_value()?)));
            return Err(de::Error::custom("found"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        flate2::read::GzEncoder::new(text, flate2::Compression::fast()).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_uuid_is_found_in_the_beginning_of_a_file_and_only_at_its_top() {
        let is = |text: &str| owner_in(text.as_bytes());
        assert_eq!(is(r#"{"format-version":2,"table-uuid":"a","schemas":[{"#), Some(Owner::Table("a".to_owned())));
        assert_eq!(is(r#"{"properties":{"table-uuid":"b"},"table-uuid":"a"}"#), Some(Owner::Table("a".to_owned())));
        assert_eq!(is(r#"{"view-uuid":"v"}"#), Some(Owner::View("v".to_owned())));
        assert_eq!(is(r#"{"properties":{"table-uuid":"b"}}"#), None);
        assert_eq!(is(r#"{"table-uuid":"a"#), None);
        assert_eq!(is("[1]"), None);
    }

    #[test]
    fn a_number_that_is_cut_off_is_none() {
        let is = |text: &str| number_in(text.as_bytes(), "n");
        assert_eq!(is(r#"{"a":{"n":1},"n":12,"b":1}"#), Some(12));
        assert_eq!(is(r#"{"n":12}"#), Some(12));
        assert_eq!(is(r#"{"n":12"#), None);
        assert_eq!(is(r#"{"a":1}"#), None);
    }

    #[test]
    fn a_packed_file_may_be_cut_off() {
        let text = format!(r#"{{"table-uuid":"a","x":"{}"}}"#, "0123456789".repeat(10_000));
        let packed = gzip(text.as_bytes());
        let cut = &packed[..packed.len() / 2];
        assert_eq!(owner_in(&plain(cut).0), Some(Owner::Table("a".to_owned())));
        assert!(plain(cut).1.is_some());
        assert_eq!(plain(&packed), (text.into_bytes(), None));
    }

    #[tokio::test]
    async fn what_a_file_says_of_itself() {
        let store = Store::memory();
        let write = async |name: &str, bytes: &[u8]| {
            let location = format!("memory:///{name}");
            let mut upload = store.create(&location).await.unwrap();
            upload.write(bytes.to_vec().into()).await.unwrap();
            upload.finish().await.unwrap();
            location
        };
        let late = format!(r#"{{"x":"{}","table-uuid":"a"}}"#, "0123456789".repeat(10_000));
        let late = write("late", &gzip(late.as_bytes())).await;
        assert_eq!(owner(&store, &late).await.unwrap(), Owner::Table("a".to_owned()));
        let empty = write("empty", b"").await;
        assert!(matches!(owner(&store, &empty).await.unwrap(), Owner::Nobody(_)));
        let torn = write("torn", br#"{"format-version":2,"tab"#).await;
        assert!(matches!(owner(&store, &torn).await.unwrap(), Owner::Nobody(_)));
        let other = write("other", b"{}").await;
        assert_eq!(owner(&store, &other).await.unwrap(), Owner::Nobody("it has no table-uuid".to_owned()));
        assert_eq!(owner(&store, "memory:///none").await.unwrap(), Owner::Gone);
    }
}
