//! Metadata files: read once, and written small.
//!
//! A metadata file is never changed: its name has a random id, and a commit writes another one. So a table whose pointer
//! is where it was is as it was, and its file need not be read again; the pointer itself is asked for every time.
//!
//! Metadata lists every retained snapshot, and each commit writes all of it. The `iceberg` crate copies the metadata to
//! write it, and in the order of its hash maps. Here it is written from where it is and in one order, newer snapshots after
//! older ones, in which a fast compression makes less of it than a thorough one does of the other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use iceberg::compression::CompressionCodec;
use iceberg::io::FileIO;
use iceberg::spec::{
    EncryptedKey, FormatVersion, MAIN_BRANCH, MetadataLog, PartitionSpec, PartitionStatisticsFile, Schema, Snapshot,
    SnapshotLog, SnapshotReference, SnapshotRetention, SortOrder, StatisticsFile, TableMetadata, TableMetadataRef,
};
use iceberg::{MetadataLocation, TableIdent, TableUpdate};
use serde::Serialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use uuid::Uuid;

/// Of how many tables the metadata is kept.
const TABLES: usize = 8;

/// How hard metadata is compressed.
const LEVEL: u32 = 1;

/// About how much a snapshot is in JSON.
const SNAPSHOT_BYTES: usize = 1 << 10;

/// Branches and tags by name.
pub(crate) type Refs = BTreeMap<String, SnapshotReference>;

/// The metadata of the tables last read: one file of each.
#[derive(Debug, Default)]
pub(crate) struct MetadataFiles {
    /// The latest last.
    read: Mutex<Vec<ReadFile>>,
}

/// A metadata file that was read.
#[derive(Clone, Debug)]
struct ReadFile {
    table: TableIdent,
    location: String,
    metadata: TableMetadataRef,
    /// They have no getter. `None` when they were not understood.
    refs: Option<Arc<Refs>>,
}

impl MetadataFiles {
    /// The metadata at a location to which the table's pointer pointed just now.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, as the `iceberg` crate tells it.
    pub(crate) async fn read(
        &self,
        table: &TableIdent,
        location: &str,
        file_io: &FileIO,
    ) -> iceberg::Result<TableMetadataRef> {
        if let Some(known) = self.known(location) {
            return Ok(known.metadata);
        }
        let bytes = file_io.new_input(location)?.read().await?;
        let json = if bytes.starts_with(&[0x1f, 0x8b]) { unpacked(&bytes) } else { text(bytes.to_vec()) };
        let json = json.map_err(|error| {
            let message = "the metadata file cannot be unpacked, or is no text";
            iceberg::Error::new(iceberg::ErrorKind::DataInvalid, message)
                .with_context("file_path", location)
                .with_source(error)
        })?;
        let metadata: TableMetadataRef = Arc::new(serde_json::from_str::<TableMetadata>(&json)?);
        // A file of another name may be written again under that name.
        if MetadataLocation::from_str(location).is_ok() {
            let refs = refs_of(&json, &metadata).map(Arc::new);
            let (table, location) = (table.clone(), location.to_owned());
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.retain(|other| other.table != table && other.location != location);
            let surplus = (read.len() + 1).saturating_sub(TABLES);
            read.drain(..surplus);
            read.push(ReadFile { table, location, metadata: metadata.clone(), refs });
        }
        Ok(metadata)
    }

    fn known(&self, location: &str) -> Option<ReadFile> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.iter().find(|known| known.location == location).cloned()
    }

    /// Writes the metadata that `updates` made of the one at `from`.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) async fn write(
        &self,
        metadata: &TableMetadata,
        location: &MetadataLocation,
        from: &str,
        updates: &[TableUpdate],
        file_io: &FileIO,
    ) -> iceberg::Result<()> {
        let refs = self.known(from).and_then(|from| from.refs).and_then(|refs| moved(&refs, updates, metadata));
        let written = match (refs, metadata.metadata_compression_codec()?) {
            (Some(refs), codec) if codec == location.compression_codec() => match codec {
                CompressionCodec::None => Some(json(metadata, &refs)?),
                CompressionCodec::Gzip(_) => Some(packed(&json(metadata, &refs)?)?),
                _ => None,
            },
            _ => None,
        };
        match written {
            Some(bytes) => file_io.new_output(location.to_string())?.write(bytes.into()).await,
            None => metadata.write_to(file_io, location).await,
        }
    }
}

fn unpacked(bytes: &[u8]) -> std::io::Result<String> {
    let mut json = Vec::with_capacity(bytes.len().saturating_mul(8));
    GzDecoder::new(bytes).read_to_end(&mut json)?;
    text(json)
}

fn text(bytes: Vec<u8>) -> std::io::Result<String> {
    String::from_utf8(bytes).map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
}

fn packed(json: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::with_capacity(json.len() / 4), flate2::Compression::new(LEVEL));
    packed.write_all(json)?;
    packed.finish()
}

/// The branches and tags of a metadata file that was understood; `None` when it does not tell them.
fn refs_of(json: &str, metadata: &TableMetadata) -> Option<Refs> {
    // Before version 2 there were none.
    if metadata.format_version() < FormatVersion::V2 {
        return None;
    }
    let mut search = RefsSearch(Ok(None));
    // It ends where the refs do, with what is left unread; we write them before the snapshots.
    let _ = serde_json::Deserializer::from_str(json).deserialize_map(&mut search);
    normal(search.0.ok()?.unwrap_or_default(), metadata)
}

/// Looks for the refs in table metadata, and stops there: `Err` when they are not understood.
struct RefsSearch(Result<Option<Refs>, ()>);

impl<'de> Visitor<'de> for &mut RefsSearch {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("table metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == "refs" {
                self.0 = map.next_value().map_err(drop);
                break;
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// The refs as they are after a commit; `None` when they are not those of the metadata it made.
fn moved(before: &Refs, updates: &[TableUpdate], metadata: &TableMetadata) -> Option<Refs> {
    let mut refs = before.clone();
    for update in updates {
        match update {
            TableUpdate::SetSnapshotRef { ref_name, reference } => {
                refs.insert(ref_name.clone(), reference.clone());
            }
            TableUpdate::RemoveSnapshotRef { ref_name } => {
                refs.remove(ref_name);
            }
            _ => {}
        }
    }
    // A snapshot that goes takes its refs with it.
    refs.retain(|_, reference| metadata.snapshot_by_id(reference.snapshot_id).is_some());
    normal(refs, metadata)
}

/// The refs with the main branch, which old writers did not name, if they are where the metadata has them.
fn normal(mut refs: Refs, metadata: &TableMetadata) -> Option<Refs> {
    if let (Some(current), false) = (metadata.current_snapshot_id(), refs.contains_key(MAIN_BRANCH)) {
        let plain = SnapshotReference::new(current, SnapshotRetention::branch(None, None, None));
        refs.insert(MAIN_BRANCH.to_owned(), plain);
    }
    let is_there = |(name, reference): (&String, &SnapshotReference)| {
        metadata.snapshot_for_ref(name).map(|snapshot| snapshot.snapshot_id()) == Some(reference.snapshot_id)
    };
    refs.iter().all(is_there).then_some(refs)
}

/// Table metadata as version 2 and 3 of the format have it.
fn json(metadata: &TableMetadata, refs: &Refs) -> serde_json::Result<Vec<u8>> {
    let mut json = serde_json::to_vec(&Written::of(metadata, refs))?;
    let mut snapshots: Vec<&Snapshot> = metadata.snapshots().map(AsRef::as_ref).collect();
    if snapshots.is_empty() {
        return Ok(json);
    }
    snapshots.sort_unstable_by_key(|snapshot| (snapshot.sequence_number(), snapshot.snapshot_id()));
    json.reserve(snapshots.len() * SNAPSHOT_BYTES);
    // Within the object that has all the rest.
    json.pop();
    json.extend_from_slice(b",\"snapshots\":[");
    let has_row_ids = metadata.format_version() >= FormatVersion::V3;
    for (place, snapshot) in snapshots.into_iter().enumerate() {
        if place > 0 {
            json.push(b',');
        }
        serde_json::to_writer(&mut json, &WrittenSnapshot::of(snapshot, has_row_ids))?;
        json.pop();
        json.extend_from_slice(b",\"summary\":{\"operation\":");
        write_text(&mut json, snapshot.summary().operation.as_str())?;
        let mut properties: Vec<(&String, &String)> = snapshot.summary().additional_properties.iter().collect();
        properties.sort_unstable();
        for (name, value) in properties {
            json.push(b',');
            write_text(&mut json, name)?;
            json.push(b':');
            write_text(&mut json, value)?;
        }
        json.extend_from_slice(b"}}");
    }
    json.extend_from_slice(b"]}");
    Ok(json)
}

/// Writes a text as JSON. Nearly all of metadata is texts in which nothing has to be escaped.
fn write_text(json: &mut Vec<u8>, text: &str) -> serde_json::Result<()> {
    let is_plain = text.bytes().fold(true, |is, byte| is & (byte >= b' ') & (byte != b'"') & (byte != b'\\'));
    if !is_plain {
        return serde_json::to_writer(json, text);
    }
    json.push(b'"');
    json.extend_from_slice(text.as_bytes());
    json.push(b'"');
    Ok(())
}

/// Table metadata without its snapshots.
/// <https://iceberg.apache.org/spec/#table-metadata-fields>
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Written<'a> {
    format_version: u8,
    table_uuid: Uuid,
    location: &'a str,
    last_sequence_number: i64,
    last_updated_ms: i64,
    last_column_id: i32,
    schemas: Vec<&'a Schema>,
    current_schema_id: i32,
    partition_specs: Vec<&'a PartitionSpec>,
    default_spec_id: i32,
    last_partition_id: i32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_snapshot_id: Option<i64>,
    refs: &'a Refs,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    snapshot_log: &'a [SnapshotLog],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    metadata_log: &'a [MetadataLog],
    sort_orders: Vec<&'a SortOrder>,
    default_sort_order_id: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    statistics: Vec<&'a StatisticsFile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partition_statistics: Vec<&'a PartitionStatisticsFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_row_id: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    encryption_keys: Vec<&'a EncryptedKey>,
}

/// A snapshot without its summary.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct WrittenSnapshot<'a> {
    snapshot_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_snapshot_id: Option<i64>,
    sequence_number: i64,
    timestamp_ms: i64,
    manifest_list: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_id: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_row_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    added_rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<&'a str>,
}

impl<'a> Written<'a> {
    fn of(metadata: &'a TableMetadata, refs: &'a Refs) -> Self {
        let has_row_ids = metadata.format_version() >= FormatVersion::V3;
        let keys = metadata.encryption_keys_iter().filter(|_| has_row_ids);
        Self {
            format_version: metadata.format_version() as u8,
            table_uuid: metadata.uuid(),
            location: metadata.location(),
            last_sequence_number: metadata.last_sequence_number(),
            last_updated_ms: metadata.last_updated_ms(),
            last_column_id: metadata.last_column_id(),
            schemas: sorted(metadata.schemas_iter().map(AsRef::as_ref), Schema::schema_id),
            current_schema_id: metadata.current_schema_id(),
            partition_specs: sorted(metadata.partition_specs_iter().map(AsRef::as_ref), PartitionSpec::spec_id),
            default_spec_id: metadata.default_partition_spec_id(),
            last_partition_id: metadata.last_partition_id(),
            properties: metadata.properties().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            current_snapshot_id: metadata.current_snapshot_id(),
            refs,
            snapshot_log: metadata.history(),
            metadata_log: metadata.metadata_log(),
            sort_orders: sorted(metadata.sort_orders_iter().map(AsRef::as_ref), |order| order.order_id),
            default_sort_order_id: metadata.default_sort_order_id(),
            statistics: sorted(metadata.statistics_iter(), |statistics| statistics.snapshot_id),
            partition_statistics: sorted(metadata.partition_statistics_iter(), |statistics| statistics.snapshot_id),
            next_row_id: has_row_ids.then(|| metadata.next_row_id()),
            encryption_keys: sorted(keys, |key| key.key_id().to_owned()),
        }
    }
}

impl<'a> WrittenSnapshot<'a> {
    fn of(snapshot: &'a Snapshot, has_row_ids: bool) -> Self {
        let row_range = snapshot.row_range().filter(|_| has_row_ids);
        Self {
            snapshot_id: snapshot.snapshot_id(),
            parent_snapshot_id: snapshot.parent_snapshot_id(),
            sequence_number: snapshot.sequence_number(),
            timestamp_ms: snapshot.timestamp_ms(),
            manifest_list: snapshot.manifest_list(),
            schema_id: snapshot.schema_id(),
            first_row_id: row_range.map(|(first, _)| first),
            added_rows: row_range.map(|(_, added)| added),
            key_id: snapshot.encryption_key_id().filter(|_| has_row_ids),
        }
    }
}

fn sorted<'a, T, K: Ord>(items: impl Iterator<Item = &'a T>, key: impl Fn(&T) -> K) -> Vec<&'a T> {
    let mut items: Vec<&T> = items.collect();
    items.sort_by_key(|item| key(item));
    items
}

#[cfg(test)]
mod tests {
    use hexfloe_store::Store;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Table metadata with everything that the format has, of a version and with some snapshots, the last one current.
    fn metadata(version: u8, snapshots: &[Value], refs: &Value) -> Value {
        let field = |id: i32, name: &str| json!({"id": id, "name": name, "required": false, "type": "string"});
        let schema = |id: i32, fields: Vec<Value>| json!({"type": "struct", "schema-id": id, "fields": fields});
        let log = |snapshot: &Value| json!({"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]});
        let file = |path: &str| json!({"metadata-file": path, "timestamp-ms": 1_700_000_000_000_i64});
        let mut metadata = json!({
            "format-version": version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": "memory:///t",
            "last-sequence-number": 1_000,
            "last-updated-ms": 1_700_000_000_000_i64,
            "last-column-id": 3,
            "schemas": [schema(1, vec![field(1, "a"), field(2, "b"), field(3, "ü")]), schema(0, vec![field(1, "a")])],
            "current-schema-id": 1,
            "partition-specs": [
                {"spec-id": 1, "fields": [{"source-id": 2, "field-id": 1000, "name": "b", "transform": "identity"}]},
                {"spec-id": 0, "fields": []},
            ],
            "default-spec-id": 1,
            "last-partition-id": 1000,
            "properties": {"b": "2", "a": "\u{1}\"ü"},
            "sort-orders": [
                {"order-id": 1, "fields": [
                    {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"},
                ]},
                {"order-id": 0, "fields": []},
            ],
            "default-sort-order-id": 1,
            "snapshots": snapshots,
            "snapshot-log": snapshots.iter().map(log).collect::<Vec<_>>(),
            "metadata-log": [file("memory:///t/b"), file("memory:///t/a")],
            "refs": refs,
            "statistics": snapshots.iter().take(2).map(|snapshot| json!({
                "snapshot-id": snapshot["snapshot-id"],
                "statistics-path": "memory:///t/s",
                "file-size-in-bytes": 3,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [{"type": "x", "snapshot-id": 1, "sequence-number": 1, "fields": [1],
                    "properties": {"ndv": "1"}}],
            })).collect::<Vec<_>>(),
            "partition-statistics": snapshots.iter().take(1).map(|snapshot| json!({
                "snapshot-id": snapshot["snapshot-id"],
                "statistics-path": "memory:///t/p",
                "file-size-in-bytes": 3,
            })).collect::<Vec<_>>(),
        });
        if let Some(last) = snapshots.last() {
            metadata["current-snapshot-id"] = last["snapshot-id"].clone();
        }
        if version == 3 {
            metadata["next-row-id"] = json!(77);
            metadata["encryption-keys"] =
                json!([{"key-id": "k", "encrypted-key-metadata": "YQ==", "encrypted-by-id": "m"}]);
        }
        metadata
    }

    fn snapshot(version: u8, number: i64, id: i64, properties: &[(String, String)]) -> Value {
        let mut summary: serde_json::Map<String, Value> =
            properties.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let operations = ["append", "replace", "overwrite", "delete"];
        summary.insert("operation".to_owned(), json!(operations[usize::try_from(id).unwrap() % 4]));
        let mut snapshot = json!({
            "snapshot-id": id,
            "sequence-number": number,
            "timestamp-ms": 1_699_999_000_000_i64 + number,
            "manifest-list": format!("memory:///t/{id}.avro"),
            "summary": summary,
        });
        if number > 1 {
            snapshot["parent-snapshot-id"] = json!(number);
            snapshot["schema-id"] = json!(1);
        }
        if version == 3 {
            snapshot["first-row-id"] = json!(number);
            snapshot["added-rows"] = json!(1);
            snapshot["key-id"] = json!("k");
        }
        snapshot
    }

    fn refs(snapshots: &[Value]) -> Value {
        let Some(last) = snapshots.last() else { return json!({}) };
        let id = &snapshots[0]["snapshot-id"];
        json!({
            "v1": {"snapshot-id": id, "type": "tag", "max-ref-age-ms": 5},
            "main": {"snapshot-id": last["snapshot-id"], "type": "branch", "min-snapshots-to-keep": 3},
            "audit": {"snapshot-id": id, "type": "branch", "max-snapshot-age-ms": 7, "max-ref-age-ms": 9},
        })
    }

    /// The arrays whose order means nothing, in one.
    fn in_order(mut metadata: Value) -> Value {
        for (list, key) in [
            ("schemas", "schema-id"),
            ("partition-specs", "spec-id"),
            ("sort-orders", "order-id"),
            ("snapshots", "snapshot-id"),
            ("statistics", "snapshot-id"),
            ("partition-statistics", "snapshot-id"),
        ] {
            if let Some(list) = metadata.get_mut(list).and_then(Value::as_array_mut) {
                list.sort_by_key(|item| item[key].as_i64());
            }
        }
        metadata
    }

    /// Checks what is written of metadata against what the `iceberg` crate writes of it.
    fn check(json: &Value) {
        let text = json.to_string();
        let metadata: TableMetadata = serde_json::from_str(&text).unwrap();
        let refs = refs_of(&text, &metadata).unwrap();
        let written = super::json(&metadata, &refs).unwrap();
        assert_eq!(serde_json::from_slice::<TableMetadata>(&written).unwrap(), metadata, "it reads as the same");
        let theirs = in_order(serde_json::to_value(&metadata).unwrap());
        assert_eq!(in_order(serde_json::from_slice(&written).unwrap()), theirs);
        assert_eq!(unpacked(&packed(&written).unwrap()).unwrap().into_bytes(), written);
        assert_eq!(refs_of(std::str::from_utf8(&written).unwrap(), &metadata).unwrap(), refs);
    }

    #[test]
    fn what_is_written_is_what_the_iceberg_crate_writes() {
        for version in [2, 3] {
            check(&metadata(version, &[], &json!({})));
            let properties = [("b\u{1}", "2\"\n"), ("a\\", "ü\u{7f}")];
            let properties = properties.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let snapshots: Vec<Value> =
                [(1, 13), (2, 5), (4, 6), (3, 7)].map(|(number, id)| snapshot(version, number, id, &properties)).into();
            check(&metadata(version, &snapshots, &refs(&snapshots)));
            let mut unnamed = metadata(version, &snapshots, &json!({}));
            check(&unnamed);
            unnamed.as_object_mut().unwrap().remove("refs");
            check(&unnamed);
        }
    }

    proptest! {
        #[test]
        fn any_snapshots_are_written_as_the_iceberg_crate_does(
            version in 2_u8..=3,
            summaries in proptest::collection::vec(proptest::collection::vec(("\\PC{1,8}", "\\PC{0,20}"), 0..5), 0..6),
        ) {
            let of = |(place, summary): (usize, &Vec<(String, String)>)| {
                let number = i64::try_from(place).unwrap() + 1;
                snapshot(version, number, 100 - 7 * number, summary)
            };
            let snapshots: Vec<Value> = summaries.iter().enumerate().map(of).collect();
            check(&metadata(version, &snapshots, &refs(&snapshots)));
        }
    }

    #[test]
    fn snapshots_are_written_in_the_order_of_their_commits_and_names_in_theirs() {
        let properties = [("y".to_owned(), "2".to_owned()), ("x".to_owned(), "1".to_owned())];
        let snapshots: Vec<Value> = [(2, 5), (1, 13)].map(|(number, id)| snapshot(2, number, id, &properties)).into();
        let text = metadata(2, &snapshots, &refs(&snapshots)).to_string();
        let metadata: TableMetadata = serde_json::from_str(&text).unwrap();
        let refs = refs_of(&text, &metadata).unwrap();
        let written = String::from_utf8(super::json(&metadata, &refs).unwrap()).unwrap();
        let places: Vec<usize> = [r#""sequence-number":1"#, r#""x":"1""#, r#""y":"2""#, r#""sequence-number":2"#]
            .map(|text| written.find(text).unwrap())
            .into();
        assert!(places.is_sorted(), "{written}");
    }

    #[test]
    fn refs_move_with_updates_and_go_with_their_snapshots() {
        let snapshots: Vec<Value> = (1..=3).map(|number| snapshot(2, number, number, &[])).collect();
        let before = metadata(2, &snapshots, &refs(&snapshots)).to_string();
        let table: TableMetadata = serde_json::from_str(&before).unwrap();
        let refs = refs_of(&before, &table).unwrap();
        let tag = |id: i64| SnapshotReference::new(id, SnapshotRetention::Tag { max_ref_age_ms: Some(8) });
        let updates = [
            TableUpdate::SetSnapshotRef { ref_name: "new".to_owned(), reference: tag(2) },
            TableUpdate::SetSnapshotRef { ref_name: "v1".to_owned(), reference: tag(2) },
            TableUpdate::RemoveSnapshotRef { ref_name: "new".to_owned() },
            TableUpdate::RemoveSnapshots { snapshot_ids: vec![1] },
        ];
        let mut builder = table.into_builder(None);
        for update in updates.clone() {
            builder = update.apply(builder).unwrap();
        }
        let after = builder.build().unwrap().metadata;
        let moved = moved(&refs, &updates, &after).unwrap();
        assert_eq!(moved.keys().collect::<Vec<_>>(), ["main", "v1"]);
        let written = super::json(&after, &moved).unwrap();
        assert_eq!(serde_json::from_slice::<TableMetadata>(&written).unwrap(), after);
        assert!(super::moved(&refs, &[], &after).is_some_and(|refs| !refs.contains_key("audit")));
        assert_eq!(super::moved(&Refs::from([("other".to_owned(), tag(3))]), &[], &after), None, "no such ref");
    }

    #[test]
    fn refs_that_are_not_understood_are_not_told() {
        let text = metadata(2, &[], &json!({})).to_string();
        let metadata: TableMetadata = serde_json::from_str(&text).unwrap();
        assert_eq!(refs_of(&text, &metadata), Some(Refs::new()));
        assert_eq!(refs_of(&text.replace("\"refs\":{}", "\"refs\":null"), &metadata), Some(Refs::new()));
        assert_eq!(refs_of(&text.replace("\"refs\":{}", "\"refs\":{\"main\":{}}"), &metadata), None);
        let old = text.replace("\"format-version\":2", "\"format-version\":1");
        let old: TableMetadata = serde_json::from_str(&old).unwrap();
        assert_eq!(refs_of(&text, &old), None);
    }

    #[tokio::test]
    async fn a_file_is_read_once_and_one_whose_name_is_not_unique_each_time() {
        let (store, table) = (Store::memory(), TableIdent::from_strs(["ns", "t"]).unwrap());
        let files = MetadataFiles::default();
        let io = store.file_io();
        let put = async |location: &str, version: u8| {
            let text = metadata(version, &[], &json!({})).to_string();
            io.new_output(location).unwrap().write(text.into()).await.unwrap();
        };
        let unique = "memory:///t/metadata/00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json";
        let plain = "memory:///t/metadata/v1.metadata.json";
        for (location, expected) in [(unique, FormatVersion::V2), (plain, FormatVersion::V3)] {
            put(location, 2).await;
            assert_eq!(files.read(&table, location, &io).await.unwrap().format_version(), FormatVersion::V2);
            store.delete(location).await.unwrap();
            put(location, 3).await;
            assert_eq!(files.read(&table, location, &io).await.unwrap().format_version(), expected, "{location}");
        }
        let next = unique.replace("00001", "00002");
        put(&next, 3).await;
        assert_eq!(files.read(&table, &next, &io).await.unwrap().format_version(), FormatVersion::V3);
        assert!(files.known(unique).is_none(), "one file of each table");
        for other in 0..2 * TABLES {
            let table = TableIdent::from_strs(["ns".to_owned(), other.to_string()]).unwrap();
            let location = unique.replace("9c12d441", &format!("{other:08}"));
            put(&location, 2).await;
            files.read(&table, &location, &io).await.unwrap();
        }
        assert_eq!(files.read.lock().unwrap().len(), TABLES);
    }
}
