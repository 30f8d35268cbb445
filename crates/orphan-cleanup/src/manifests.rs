//! The paths in manifests and manifest lists, and nothing else of them.
//!
//! A cleaner reads every manifest of a table once. The statistics of each file, which are most of an entry, are skipped
//! over instead of decoded. What the quick reader does not understand is given to the `iceberg` crate's.

use iceberg::spec::{FormatVersion, Manifest, ManifestList};
use serde::Deserialize;
use serde_avro_fast::object_container_file_encoding::Reader;

/// Why a file is not a manifest, or not a manifest list.
pub(crate) type Unread = Box<dyn std::error::Error + Send + Sync>;

#[derive(Deserialize)]
struct Listed {
    manifest_path: String,
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
pub(crate) fn of_list(bytes: &[u8], version: FormatVersion) -> Result<Vec<String>, Unread> {
    let quick = Reader::from_slice(bytes).map_err(Unread::from).and_then(|mut reader| {
        let entries: Result<Vec<Listed>, _> = reader.deserialize().collect();
        Ok(entries?.into_iter().map(|entry| entry.manifest_path).collect())
    });
    match quick {
        Ok(paths) => Ok(paths),
        Err(_) => {
            let list = ManifestList::parse_with_version(bytes, version)?;
            Ok(list.entries().iter().map(|entry| entry.manifest_path.clone()).collect())
        }
    }
}

/// All files of a manifest, whatever their status.
pub(crate) fn of_manifest(bytes: &[u8]) -> Result<Vec<Named>, Unread> {
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
