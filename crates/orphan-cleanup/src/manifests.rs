//! The paths in manifests and manifest lists, and nothing else of them.
//!
//! A cleaner reads every manifest of a table once. The statistics of each file, which are most of an entry, are skipped
//! over instead of decoded. What the quick reader does not understand is given to the `iceberg` crate's.

use hexfloe_commit::avro::{self, Field};
use iceberg::spec::{FormatVersion, Manifest, ManifestList};

/// Why a file is not a manifest, or not a manifest list.
pub(crate) type Unread = Box<dyn std::error::Error + Send + Sync>;

/// A manifest in a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) path: String,
    /// Entries of files that were added, that stayed and that were removed, as far as the list says it.
    counts: [Option<i64>; 3],
}

/// An entry's status for a file that has been removed.
const DELETED: i64 = 2;

/// A file in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) path: String,
    /// Whether the snapshot still has it: it was not removed by the one that wrote the manifest.
    pub(crate) is_live: bool,
}

impl Listed {
    /// How many entries it has, if the list says so.
    fn entries(&self) -> Option<i64> {
        self.counts.into_iter().sum()
    }
}

/// The manifests of a manifest list.
pub(crate) fn of_list(bytes: &[u8], version: FormatVersion) -> Result<Vec<Listed>, Unread> {
    // Counts had other names in format version 1.
    let wanted = [
        "manifest_path",
        "added_files_count",
        "existing_files_count",
        "deleted_files_count",
        "added_data_files_count",
        "existing_data_files_count",
        "deleted_data_files_count",
    ];
    let mut listed = Some(Vec::new());
    let quick = avro::records(bytes, &wanted, |fields| {
        let number = |place: usize| match fields[place] {
            Some(Field::Number(number)) => Some(number),
            _ => None,
        };
        let counts = [1, 2, 3].map(|place| number(place).or_else(|| number(place + 3)));
        match (fields[0], &mut listed) {
            (Some(Field::Text(path)), Some(listed)) => listed.push(Listed { path: path.to_owned(), counts }),
            _ => listed = None,
        }
    });
    if let (Ok(()), Some(listed)) = (quick, listed) {
        return Ok(listed);
    }
    let list = ManifestList::parse_with_version(bytes, version)?;
    let listed = list.entries().iter().map(|entry| Listed {
        path: entry.manifest_path.clone(),
        counts: [entry.added_files_count, entry.existing_files_count, entry.deleted_files_count]
            .map(|count| count.map(i64::from)),
    });
    Ok(listed.collect())
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
    let mut files = Some(Vec::new());
    let quick = avro::records(bytes, &["status", "data_file.file_path"], |fields| match (fields, &mut files) {
        ([Some(Field::Number(status)), Some(Field::Text(path))], Some(files)) => {
            files.push(Named { path: (*path).to_owned(), is_live: *status != DELETED });
        }
        _ => files = None,
    });
    if let (Ok(()), Some(files)) = (quick, files) {
        return Ok(files);
    }
    let manifest = Manifest::parse_avro(bytes)?;
    let named = |entry: &iceberg::spec::ManifestEntryRef| Named {
        path: entry.file_path().to_owned(),
        is_live: entry.is_alive(),
    };
    Ok(manifest.entries().iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hexfloe_store::Store;
    use iceberg::spec::{
        DataContentType, DataFileBuilder, DataFileFormat, Datum, Literal, ManifestListWriter, ManifestWriterBuilder,
        NestedField, PartitionSpec, PrimitiveType, Schema, Struct, Transform, Type,
    };

    use super::*;

    fn file(path: &str) -> iceberg::spec::DataFile {
        DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(path.to_owned())
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter([Some(Literal::string("ü"))]))
            .record_count(3)
            .file_size_in_bytes(10)
            .lower_bounds([(1, Datum::string("a"))].into())
            .column_sizes([(1, 7)].into())
            .split_offsets(Some(vec![4]))
            .build()
            .unwrap()
    }

    /// What the `iceberg` crate writes is read without its reader, which is many times slower.
    #[tokio::test]
    async fn manifests_and_lists_are_read_the_quick_way() {
        let store = Store::memory();
        let field = NestedField::required(1, "name", Type::Primitive(PrimitiveType::String));
        let schema = Arc::new(Schema::builder().with_fields([field.into()]).build().unwrap());
        let spec = PartitionSpec::builder(Arc::clone(&schema));
        let spec = spec.add_partition_field("name", "name", Transform::Identity).unwrap().build().unwrap();
        for version in [1, 2, 3] {
            let at = |name: &str| format!("memory:///{version}/{name}");
            let output = store.file_io().new_output(at("m.avro")).unwrap();
            let builder = ManifestWriterBuilder::new(output, Some(7), Arc::clone(&schema), spec.clone());
            let mut manifest = match version {
                1 => builder.build_v1(),
                2 => builder.build_v2_data(),
                _ => builder.build_v3_data(),
            };
            manifest.add_file(file("memory:///a"), -1).unwrap();
            manifest.add_delete_file(file("memory:///b"), 1, Some(1)).unwrap();
            let written = manifest.write_manifest_file().await.unwrap();
            let bytes = store.read(&at("m.avro")).await.unwrap();
            let mut found = Vec::new();
            let quick =
                avro::records(&bytes, &["data_file.file_path", "status"], |fields| found.push(format!("{fields:?}")));
            assert!(quick.is_ok(), "format version {version}");
            assert_eq!(
                found,
                [r#"[Some(Text("memory:///a")), Some(Number(1))]"#, r#"[Some(Text("memory:///b")), Some(Number(2))]"#]
            );

            let output = store.file_io().new_output(at("list.avro")).unwrap().writer().await.unwrap();
            let mut list = match version {
                1 => ManifestListWriter::v1(output, 7, None),
                2 => ManifestListWriter::v2(output, 7, None, 1),
                _ => ManifestListWriter::v3(output, 7, None, 1, Some(0)),
            };
            list.add_manifests([written].into_iter()).unwrap();
            list.close().await.unwrap();
            let bytes = store.read(&at("list.avro")).await.unwrap();
            assert!(avro::records(&bytes, &[], |_| {}).is_ok(), "format version {version}");
            let listed = of_list(&bytes, FormatVersion::V2).unwrap();
            let counts = [Some(1), Some(0), Some(1)];
            assert_eq!(listed, [Listed { path: at("m.avro"), counts }]);
            let bytes = store.read(&at("m.avro")).await.unwrap();
            let files = of_listed(&listed[0], &bytes).unwrap();
            assert_eq!(files.iter().map(|file| file.is_live).collect::<Vec<_>>(), [true, false]);
        }
    }
}
