//! Where the files of a table go, as its properties say.

use iceberg::spec::{Datum, TableMetadata, Transform};
use iceberg::transform::create_transform_function;

/// Folders of an object-storage layout are named by so many bits of a hash: 4, 4, 4 and 8 of them.
const HASH_BITS: u32 = 20;

/// The places for new files of a table.
///
/// * `write.data.path` is the folder of data files instead of `<location>/data`; with the object-storage layout the older
///   names `write.object-storage.path` and `write.folder-storage.path` count too.
/// * `write.object-storage.enabled` spreads data files over folders named by a hash of the file's name, as the Java library
///   and PyIceberg do, so that object stores which throttle by prefix do not throttle a table.
/// * `write.metadata.path` is the folder of manifests and manifest lists instead of `<location>/metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    data: String,
    metadata: String,
    hashed: bool,
}

impl Locations {
    /// The places for a table's files. A slash at the end of any of them is not repeated: stores collapse what is recorded
    /// with two.
    pub fn of(table: &TableMetadata) -> Self {
        let folder = |path: &str| path.trim_end_matches('/').to_owned();
        let property = |name: &str| table.properties().get(name).map(|path| folder(path));
        let location = folder(table.location());
        let hashed = property("write.object-storage.enabled").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let data = property("write.data.path");
        let older = || property("write.object-storage.path").or_else(|| property("write.folder-storage.path"));
        let data = if hashed { data.or_else(older) } else { data };
        Self {
            data: data.unwrap_or_else(|| format!("{location}/data")),
            metadata: property("write.metadata.path").unwrap_or_else(|| format!("{location}/metadata")),
            hashed,
        }
    }

    /// The places that a table's properties name for its files, whether they are in force or not: whether each is for data,
    /// and where it is.
    pub fn declared(table: &TableMetadata) -> impl Iterator<Item = (bool, String)> {
        let names = [
            (true, "write.data.path"),
            (true, "write.object-storage.path"),
            (true, "write.folder-storage.path"),
            (false, "write.metadata.path"),
        ];
        let named = move |(is_data, name)| Some((is_data, table.properties().get(name)?.clone()));
        names.into_iter().filter_map(named)
    }

    /// Where a data or delete file of this name goes.
    pub fn data_file(&self, name: &str) -> String {
        let Self { data, .. } = self;
        match self.hashed.then(|| hash(name)).flatten() {
            Some(hash) => {
                let bits = format!("{hash:020b}");
                format!("{data}/{}/{}/{}/{}/{name}", &bits[..4], &bits[4..8], &bits[8..12], &bits[12..])
            }
            None => format!("{data}/{name}"),
        }
    }

    /// Where a manifest or manifest list of this name goes.
    pub fn metadata_file(&self, name: &str) -> String {
        format!("{}/{name}", self.metadata)
    }
}

/// The low bits of the name's Murmur3 hash: what its bucket is when there are that many.
fn hash(name: &str) -> Option<i32> {
    let bucket = create_transform_function(&Transform::Bucket(1 << HASH_BITS)).ok()?;
    match bucket.transform_literal(&Datum::string(name)).ok()??.literal() {
        iceberg::spec::PrimitiveLiteral::Int(hash) => Some(*hash),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use iceberg::TableCreation;
    use iceberg::spec::{NestedField, PrimitiveType, Schema, TableMetadataBuilder, Type};
    use rstest::rstest;

    use super::*;

    fn locations(properties: &[(&str, &str)]) -> Locations {
        let field = NestedField::optional(1, "n", Type::Primitive(PrimitiveType::Long));
        let creation = TableCreation::builder()
            .name("t".to_owned())
            .location("s3://lake/t/".to_owned())
            .schema(Schema::builder().with_fields([field.into()]).build().unwrap())
            .properties(properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<HashMap<_, _>>())
            .build();
        Locations::of(&TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata)
    }

    #[rstest]
    #[case::default(&[], "s3://lake/t/data/a.parquet", "s3://lake/t/metadata/m.avro")]
    #[case::own_folders(
        &[("write.data.path", "s3://data//"), ("write.metadata.path", "s3://meta/t/")],
        "s3://data/a.parquet",
        "s3://meta/t/m.avro"
    )]
    #[case::older_names_go_with_the_hashed_layout(
        &[("write.folder-storage.path", "s3://folder")],
        "s3://lake/t/data/a.parquet",
        "s3://lake/t/metadata/m.avro"
    )]
    // PyIceberg's ObjectStoreLocationProvider puts `a` and `b` there.
    #[case::hashed(&[("write.object-storage.enabled", "true")], "s3://lake/t/data/0111/0000/0111/10110101/a.parquet", "s3://lake/t/metadata/m.avro")]
    fn files_go_where_the_table_says(#[case] properties: &[(&str, &str)], #[case] data: &str, #[case] metadata: &str) {
        let locations = locations(properties);
        assert_eq!(locations.data_file("a.parquet"), data);
        assert_eq!(locations.metadata_file("m.avro"), metadata);
    }
}
