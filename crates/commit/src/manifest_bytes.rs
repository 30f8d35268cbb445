//! A manifest of data files as bytes: its entries told apart, a few of them decoded, and all of them written again.
//!
//! Decoding an entry costs a hundred times what skipping over it does, and encoding it as much again. A commit needs to
//! know of most entries only that they stay. So they are skipped over, and copied as they are: of an entry that goes into
//! another manifest only what comes before the data file changes, its status and what it inherited from its manifest.
//! Whatever is not laid out exactly as the specification has it for version 2 is not understood, and left to the `iceberg`
//! crate. <https://iceberg.apache.org/spec/#manifests>

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use iceberg::spec::{Manifest, ManifestContentType, ManifestEntryRef, ManifestFile, SchemaRef};
use serde_json::{Value as Json, json};

use crate::avro::{self, Field, Input, NotUnderstood, Parts};

/// What stands for numbers that the manifest list fills in.
const UNASSIGNED: i64 = -1;

/// The status of an entry.
const EXISTING: i64 = 0;
const ADDED: i64 = 1;
const DELETED: i64 = 2;

/// What comes before the data file in an entry.
const FIELDS: [&str; 4] = ["status", "snapshot_id", "sequence_number", "file_sequence_number"];

/// A manifest of data files whose entries were skipped over.
#[derive(Debug)]
pub(crate) struct ManifestBytes {
    header: BTreeMap<String, Vec<u8>>,
    sync: Vec<u8>,
    records: Vec<u8>,
    /// The entries of live files.
    live: Vec<EntryBytes>,
}

/// An entry of a live file, with what it inherited from its manifest.
#[derive(Clone, Debug)]
struct EntryBytes {
    is_added: bool,
    snapshot_id: i64,
    sequence_number: i64,
    file_sequence_number: i64,
    /// Its data file among the records.
    data_file: Range<usize>,
    rows: u64,
    bytes: u64,
    is_relevant: bool,
}

/// What is asked of a data file: its path, and the bounds of one column.
pub(crate) struct Skimmed<'a> {
    pub(crate) path: &'a str,
    pub(crate) lower: Option<&'a [u8]>,
    pub(crate) upper: Option<&'a [u8]>,
}

impl ManifestBytes {
    /// The manifest that a list has as `file`. `field_id` is the column whose bounds `is_relevant` is given.
    pub(crate) fn read(
        bytes: &[u8],
        file: &ManifestFile,
        field_id: i32,
        is_relevant: impl Fn(&Skimmed<'_>) -> bool,
    ) -> Result<Self, NotUnderstood> {
        let Parts { header, sync, count, records } = Parts::of(bytes)?;
        refuse_others(&header, file)?;
        let bounds = ["lower", "upper"].map(|end| format!("data_file.{end}_bounds[{field_id}]"));
        let wanted = [
            "data_file.content",
            "data_file.file_path",
            "data_file.record_count",
            "data_file.file_size_in_bytes",
            &bounds[0],
            &bounds[1],
        ];
        let plan = avro::plan_of(&header, &wanted)?;
        // A manifest that was cut between two blocks is well-formed.
        let listed = [file.added_files_count, file.existing_files_count, file.deleted_files_count];
        let listed: Option<u64> = listed.into_iter().map(|count| count.map(u64::from)).sum();
        if listed.is_some_and(|listed| u64::try_from(count) != Ok(listed)) {
            return Err(NotUnderstood);
        }
        let mut live = Vec::with_capacity(count);
        let mut input = Input(&records);
        for _ in 0..count {
            let mut start = Input(input.0);
            let mut fields = [None; 6];
            plan.read(&mut input, &mut fields)?;
            let status = start.number()?;
            let [snapshot_id, sequence_number, file_sequence_number] =
                [optional(&mut start)?, optional(&mut start)?, optional(&mut start)?];
            match status {
                EXISTING | ADDED => {}
                DELETED => continue,
                _ => return Err(NotUnderstood),
            }
            // Files that were added have the manifest's number, and so have all of a manifest from before there were any.
            let inherits = status == ADDED || file.sequence_number == 0;
            let inherited = |own: Option<i64>| {
                let number = own.or_else(|| inherits.then_some(file.sequence_number));
                number.filter(|number| *number >= 0).ok_or(NotUnderstood)
            };
            let [content, path, rows, bytes, lower, upper] = fields;
            // Files of deletes are in manifests of their own.
            if content != Some(Field::Number(0)) {
                return Err(NotUnderstood);
            }
            let Some(Field::Text(path)) = path else { return Err(NotUnderstood) };
            live.push(EntryBytes {
                is_added: status == ADDED,
                snapshot_id: snapshot_id.unwrap_or(file.added_snapshot_id),
                sequence_number: inherited(sequence_number)?,
                file_sequence_number: inherited(file_sequence_number)?,
                data_file: records.len() - start.0.len()..records.len() - input.0.len(),
                rows: number(rows)?,
                bytes: number(bytes)?,
                is_relevant: is_relevant(&Skimmed { path, lower: value(lower), upper: value(upper) }),
            });
        }
        if !input.0.is_empty() {
            return Err(NotUnderstood);
        }
        Ok(Self { header, sync, records, live })
    }

    /// How many live files it lists.
    pub(crate) fn live_files(&self) -> usize {
        self.live.len()
    }

    /// Rows and bytes of each live file.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        self.live.iter().map(|entry| (entry.rows, entry.bytes))
    }

    /// The relevant entries and their places among the live ones, and the schema that the manifest was written under, if
    /// there are any.
    ///
    /// # Errors
    ///
    /// As the `iceberg` crate tells them.
    pub(crate) fn relevant(&self) -> iceberg::Result<(Vec<ManifestEntryRef>, Vec<usize>, Option<SchemaRef>)> {
        let relevant = self.live.iter().enumerate().filter(|(_, entry)| entry.is_relevant);
        let (places, entries): (Vec<usize>, Vec<&EntryBytes>) = relevant.unzip();
        if places.is_empty() {
            return Ok((Vec::new(), places, None));
        }
        let prefixes: Vec<Vec<u8>> = entries
            .iter()
            .map(|entry| entry.prefix(if entry.is_added { ADDED } else { EXISTING }, entry.snapshot_id))
            .collect();
        let selected =
            prefixes.iter().zip(&entries).map(|(prefix, entry)| [prefix, &self.records[entry.data_file.clone()]]);
        let (entries, metadata) = Manifest::parse_avro(&avro::file(&self.header, &self.sync, selected))?.into_parts();
        Ok((entries, places, Some(metadata.schema().clone())))
    }

    /// The manifest that the snapshot writes in the place of this one, without the files in some places; and what its list
    /// says of it. `old` is what this one's list says.
    pub(crate) fn without(
        &self,
        removed: &HashSet<usize>,
        old: &ManifestFile,
        snapshot_id: i64,
        location: String,
    ) -> (Vec<u8>, ManifestFile) {
        let mut file = ManifestFile {
            manifest_path: location,
            manifest_length: 0,
            partition_spec_id: old.partition_spec_id,
            content: ManifestContentType::Data,
            sequence_number: UNASSIGNED,
            min_sequence_number: UNASSIGNED,
            added_snapshot_id: snapshot_id,
            added_files_count: Some(0),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(0),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            // The files are the same; only those that went earlier are not listed any more.
            partitions: old.partitions.clone(),
            key_metadata: None,
            first_row_id: None,
        };
        let (mut files, mut rows, mut oldest) = ([0_u32; 2], [0_u64; 2], None::<i64>);
        let prefixes: Vec<Vec<u8>> = (self.live.iter().enumerate())
            .map(|(place, entry)| {
                let is_removed = removed.contains(&place);
                files[usize::from(is_removed)] += 1;
                rows[usize::from(is_removed)] += entry.rows;
                if is_removed {
                    return entry.prefix(DELETED, snapshot_id);
                }
                oldest = Some(oldest.map_or(entry.sequence_number, |oldest| oldest.min(entry.sequence_number)));
                entry.prefix(EXISTING, entry.snapshot_id)
            })
            .collect();
        let entries = prefixes.iter().zip(&self.live).map(|(prefix, entry)| {
            let prefix: &[u8] = prefix;
            [prefix, &self.records[entry.data_file.clone()]]
        });
        let bytes = avro::file(&self.header, &self.sync, entries);
        file.manifest_length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        file.min_sequence_number = oldest.unwrap_or(UNASSIGNED);
        [file.existing_files_count, file.deleted_files_count] = files.map(Some);
        [file.existing_rows_count, file.deleted_rows_count] = rows.map(Some);
        (bytes, file)
    }
}

impl EntryBytes {
    /// What comes before the data file.
    fn prefix(&self, status: i64, snapshot_id: i64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        avro::write_number(&mut bytes, status);
        for number in [snapshot_id, self.sequence_number, self.file_sequence_number] {
            // The second branch of the union with null.
            avro::write_number(&mut bytes, 1);
            avro::write_number(&mut bytes, number);
        }
        bytes
    }
}

/// Refuses a manifest of another version, content or partition spec than its list says, and one whose entries do not begin
/// as they should.
fn refuse_others(header: &BTreeMap<String, Vec<u8>>, file: &ManifestFile) -> Result<(), NotUnderstood> {
    let says = |name: &str, value: &str| header.get(name).is_some_and(|said| said == value.as_bytes());
    let schema: Json =
        serde_json::from_slice(header.get("avro.schema").ok_or(NotUnderstood)?).map_err(|_| NotUnderstood)?;
    let fields = schema.get("fields").and_then(Json::as_array).ok_or(NotUnderstood)?;
    let named = |field: &Json| field.get("name").and_then(Json::as_str).unwrap_or_default().to_owned();
    let names: Vec<String> = fields.iter().map(named).collect();
    let kind = |place: usize| fields.get(place).and_then(|field| field.get("type"));
    let is_laid_out = names.iter().map(String::as_str).eq(FIELDS.into_iter().chain(["data_file"]))
        && kind(0) == Some(&json!("int"))
        && (1..FIELDS.len()).all(|place| kind(place) == Some(&json!(["null", "long"])));
    // PyIceberg leaves the schema's id out, and has other types in its entries than the specification: what is written in the place of
    // such a manifest has them right.
    let is_plain = header.contains_key("schema-id")
        && file.content == ManifestContentType::Data
        && file.key_metadata.is_none()
        && file.first_row_id.is_none()
        && says("format-version", "2")
        && says("content", "data")
        && says("partition-spec-id", &file.partition_spec_id.to_string());
    if is_laid_out && is_plain { Ok(()) } else { Err(NotUnderstood) }
}

/// A number that may be null.
fn optional(input: &mut Input<'_>) -> Result<Option<i64>, NotUnderstood> {
    match input.number()? {
        0 => Ok(None),
        1 => input.number().map(Some),
        _ => Err(NotUnderstood),
    }
}

fn number(field: Option<Field<'_>>) -> Result<u64, NotUnderstood> {
    match field {
        Some(Field::Number(number)) => u64::try_from(number).map_err(|_| NotUnderstood),
        _ => Err(NotUnderstood),
    }
}

fn value(field: Option<Field<'_>>) -> Option<&[u8]> {
    match field {
        Some(Field::Bytes(value)) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hexfloe_store::Store;
    use iceberg::spec::{
        DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, FormatVersion, Literal, ManifestWriter,
        ManifestWriterBuilder, NestedField, PartitionSpec, PrimitiveType, Schema, Struct, Transform, Type,
    };
    use rstest::rstest;

    use super::*;

    /// The column whose bounds are asked for.
    const BATCH: i32 = 2;

    fn schema() -> SchemaRef {
        let field = |id, name: &str| NestedField::optional(id, name, Type::Primitive(PrimitiveType::String)).into();
        Arc::new(Schema::builder().with_fields([field(1, "name"), field(BATCH, "batch")]).build().unwrap())
    }

    fn spec() -> PartitionSpec {
        let spec = PartitionSpec::builder(schema()).with_spec_id(3);
        spec.add_partition_field("name", "name", Transform::Identity).unwrap().build().unwrap()
    }

    fn data_file(path: &str, rows: u64, batch: Option<&str>) -> DataFile {
        let bounds = |end: &str| batch.map(|batch| (BATCH, Datum::string(format!("{batch}{end}")))).into_iter();
        DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(path.to_owned())
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter([Some(Literal::string(path))]))
            .partition_spec_id(3)
            .record_count(rows)
            .file_size_in_bytes(10 * rows)
            .column_sizes([(1, 7), (BATCH, 8)].into())
            .lower_bounds([(1, Datum::string("a"))].into_iter().chain(bounds("")).collect())
            .upper_bounds([(1, Datum::string("z"))].into_iter().chain(bounds("9")).collect())
            .split_offsets(Some(vec![4]))
            .build()
            .unwrap()
    }

    fn writer(store: &Store, location: &str, snapshot_id: i64, version: FormatVersion) -> ManifestWriter {
        let output = store.file_io().new_output(location).unwrap();
        let builder = ManifestWriterBuilder::new(output, Some(snapshot_id), schema(), spec());
        match version {
            FormatVersion::V1 => builder.build_v1(),
            FormatVersion::V2 => builder.build_v2_data(),
            FormatVersion::V3 => builder.build_v3_data(),
        }
    }

    /// A manifest of files that stay, went and came, with the numbers that its list gives it.
    async fn manifest(store: &Store) -> (Vec<u8>, ManifestFile) {
        let mut writer = writer(store, "memory:///m", 7, FormatVersion::V2);
        writer.add_existing_file(data_file("memory:///old", 1, Some("b1")), 5, 2, Some(1)).unwrap();
        writer.add_delete_file(data_file("memory:///gone", 2, Some("b2")), 3, Some(3)).unwrap();
        writer.add_file(data_file("memory:///new", 4, Some("b3")), -1).unwrap();
        writer.add_file(data_file("memory:///unmeasured", 8, None), -1).unwrap();
        let mut file = writer.write_manifest_file().await.unwrap();
        (file.sequence_number, file.min_sequence_number) = (9, 2);
        (store.read("memory:///m").await.unwrap().to_vec(), file)
    }

    fn about_b3(skimmed: &Skimmed<'_>) -> bool {
        let text = |bound: Option<&[u8]>| bound.map(|bound| String::from_utf8(bound.to_vec()).unwrap());
        match (text(skimmed.lower), text(skimmed.upper)) {
            (Some(lower), Some(upper)) => {
                assert_eq!(format!("{lower}9"), upper, "{}", skimmed.path);
                lower == "b3"
            }
            (None, None) => skimmed.path == "memory:///unmeasured",
            ends => unreachable!("{ends:?}"),
        }
    }

    #[tokio::test]
    async fn relevant_entries_are_decoded_as_the_iceberg_crate_does() {
        let store = Store::memory();
        let (bytes, file) = manifest(&store).await;
        let whole = file.load_manifest(&store.file_io()).await.unwrap();
        for (is_relevant, expected) in
            [(about_b3 as fn(&Skimmed<'_>) -> bool, vec![2, 3]), (|_| true, vec![0, 2, 3]), (|_| false, vec![])]
        {
            let read = ManifestBytes::read(&bytes, &file, BATCH, is_relevant).unwrap();
            let (entries, places, schema) = read.relevant().unwrap();
            assert_eq!(entries, expected.iter().map(|place| whole.entries()[*place].clone()).collect::<Vec<_>>());
            assert_eq!(places, expected.iter().map(|place: &usize| place.saturating_sub(1)).collect::<Vec<_>>());
            assert_eq!(schema.as_ref(), (!expected.is_empty()).then(|| whole.metadata().schema()));
            assert_eq!(read.sizes().collect::<Vec<_>>(), [(1, 10), (4, 40), (8, 80)]);
            assert_eq!(read.live_files(), 3);
        }
    }

    #[rstest]
    #[case::none(&[])]
    #[case::one_that_stayed(&[0])]
    #[case::one_that_came(&[1])]
    #[case::all(&[0, 1, 2])]
    #[tokio::test]
    async fn a_manifest_without_files_is_the_one_that_the_iceberg_crate_writes(#[case] removed: &[usize]) {
        let store = Store::memory();
        let (bytes, file) = manifest(&store).await;
        let read = ManifestBytes::read(&bytes, &file, BATCH, |_| false).unwrap();
        let removed: HashSet<usize> = removed.iter().copied().collect();
        let (written, listed) = read.without(&removed, &file, 11, "memory:///ours".to_owned());

        let mut writer = writer(&store, "memory:///theirs", 11, FormatVersion::V2);
        let whole = file.load_manifest(&store.file_io()).await.unwrap();
        for (place, entry) in whole.entries().iter().filter(|entry| entry.is_alive()).enumerate() {
            let (file, number) = (entry.data_file().clone(), entry.sequence_number().unwrap());
            match removed.contains(&place) {
                true => writer.add_delete_file(file, number, entry.file_sequence_number).unwrap(),
                false => {
                    let snapshot_id = entry.snapshot_id().unwrap();
                    writer.add_existing_file(file, snapshot_id, number, entry.file_sequence_number).unwrap();
                }
            }
        }
        let theirs = writer.write_manifest_file().await.unwrap();
        let expected = Manifest::parse_avro(&store.read("memory:///theirs").await.unwrap()).unwrap();
        let ours = Manifest::parse_avro(&written).unwrap();
        assert_eq!((ours.entries(), ours.metadata()), (expected.entries(), expected.metadata()));
        assert_eq!(listed.manifest_length, i64::try_from(written.len()).unwrap());
        let as_theirs = ManifestFile {
            manifest_path: theirs.manifest_path.clone(),
            manifest_length: theirs.manifest_length,
            // The file that went earlier may still be in its bounds.
            partitions: theirs.partitions.clone(),
            ..listed.clone()
        };
        assert_eq!(as_theirs, theirs);
        assert_eq!(listed.partitions, file.partitions);

        // And so on, in the next snapshot.
        let listed = ManifestFile { sequence_number: 12, ..listed };
        let again = ManifestBytes::read(&written, &listed, BATCH, |_| true).unwrap();
        let (entries, ..) = again.relevant().unwrap();
        assert_eq!(entries.len(), 3 - removed.len());
        assert!(entries.iter().all(|entry| entry.sequence_number().is_some_and(|number| number < 12)));
    }

    #[tokio::test]
    async fn what_is_not_a_manifest_of_data_files_of_version_2_is_not_understood() {
        let store = Store::memory();
        let (bytes, file) = manifest(&store).await;
        let read = |bytes: &[u8], file: &ManifestFile| ManifestBytes::read(bytes, file, BATCH, |_| true).is_ok();
        assert!(read(&bytes, &file));
        let others = [
            ("one of deletes", ManifestFile { content: ManifestContentType::Deletes, ..file.clone() }),
            ("one that is encrypted", ManifestFile { key_metadata: Some(vec![1]), ..file.clone() }),
            ("one with row ids", ManifestFile { first_row_id: Some(0), ..file.clone() }),
            ("one of another spec", ManifestFile { partition_spec_id: 4, ..file.clone() }),
            ("one with more entries", ManifestFile { added_files_count: Some(3), ..file.clone() }),
            ("one without a number", ManifestFile { sequence_number: UNASSIGNED, ..file.clone() }),
        ];
        for (other, file) in others {
            assert!(!read(&bytes, &file), "{other}");
        }
        for version in [FormatVersion::V1, FormatVersion::V3] {
            let location = format!("memory:///{version}");
            let mut writer = writer(&store, &location, 7, version);
            writer.add_file(data_file("memory:///new", 4, Some("b3")), -1).unwrap();
            let mut file = writer.write_manifest_file().await.unwrap();
            file.sequence_number = 9;
            let bytes = store.read(&location).await.unwrap();
            assert!(!read(&bytes, &file), "{version}");
        }
        for end in 0..bytes.len() {
            assert!(!read(&bytes[..end], &file), "{end} bytes");
        }
    }
}
