//! The paths in manifests and manifest lists, and nothing else of them.
//!
//! A cleaner reads every manifest of a table once. The statistics of each file, which are most of an entry, are skipped
//! over instead of decoded. What the quick reader does not understand is given to the `iceberg` crate's.

use iceberg::spec::{FormatVersion, Manifest, ManifestList};
use serde::Deserialize;
use serde_avro_fast::object_container_file_encoding::Reader;

/// Why a file is not a manifest, or not a manifest list.
pub(crate) type Unread = Box<dyn std::error::Error + Send + Sync>;

/// A manifest in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Listed {
    #[serde(rename = "manifest_path")]
    pub(crate) path: String,
    #[serde(default, alias = "added_data_files_count")]
    added_files_count: Option<i32>,
    #[serde(default, alias = "existing_data_files_count")]
    existing_files_count: Option<i32>,
    #[serde(default, alias = "deleted_data_files_count")]
    deleted_files_count: Option<i32>,
}

impl Listed {
    /// How many entries it has, if the list says so.
    fn entries(&self) -> Option<i64> {
        let counts = [self.added_files_count?, self.existing_files_count?, self.deleted_files_count?];
        Some(counts.into_iter().map(i64::from).sum())
    }
}

#[derive(Deserialize)]
struct Entry {
    status: i32,
    data_file: File,
}

#[derive(Deserialize)]
struct File {
    file_path: String,
}

/// An entry's status for a file that has been removed.
const DELETED: i32 = 2;

/// A file in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) path: String,
    /// Whether the snapshot still has it: it was not removed by the one that wrote the manifest.
    pub(crate) is_live: bool,
}

/// The manifests of a manifest list.
pub(crate) fn of_list(bytes: &[u8], version: FormatVersion) -> Result<Vec<Listed>, Unread> {
    let quick = Reader::from_slice(bytes).map_err(Unread::from).and_then(|mut reader| {
        let entries: Result<Vec<Listed>, _> = reader.deserialize().collect();
        Ok(entries?)
    });
    match quick {
        Ok(listed) => Ok(listed),
        Err(_) => {
            let count = |count: Option<u32>| count.and_then(|count| i32::try_from(count).ok());
            let list = ManifestList::parse_with_version(bytes, version)?;
            let listed = list.entries().iter().map(|entry| Listed {
                path: entry.manifest_path.clone(),
                added_files_count: count(entry.added_files_count),
                existing_files_count: count(entry.existing_files_count),
                deleted_files_count: count(entry.deleted_files_count),
            });
            Ok(listed.collect())
        }
    }
}

/// All files of a manifest that a list has, if it is whole. One that was cut between two blocks is well-formed.
pub(crate) fn of_listed(listed: &Listed, bytes: &[u8]) -> Result<Vec<Named>, Unread> {
    let files = of_manifest(bytes)?;
    match listed.entries() {
        Some(entries) if i64::try_from(files.len()) != Ok(entries) => {
            Err(format!("it has {} entries, and its list says {entries}", files.len()).into())
        }
        _ => Ok(files),
    }
}

/// All files of a manifest, whatever their status.
fn of_manifest(bytes: &[u8]) -> Result<Vec<Named>, Unread> {
    let quick = Reader::from_slice(bytes).map_err(Unread::from).and_then(|mut reader| {
        let mut files = Vec::new();
        for entry in reader.deserialize::<Entry>() {
            let Entry { status, data_file } = entry?;
            files.push(Named { path: data_file.file_path, is_live: status != DELETED });
        }
        Ok(files)
    });
    match quick {
        Ok(files) => Ok(files),
        Err(_) => {
            let manifest = Manifest::parse_avro(bytes)?;
            let named = |entry: &iceberg::spec::ManifestEntryRef| Named {
                path: entry.file_path().to_owned(),
                is_live: entry.is_alive(),
            };
            Ok(manifest.entries().iter().map(named).collect())
        }
    }
}
