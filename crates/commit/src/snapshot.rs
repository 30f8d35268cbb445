//! One snapshot: manifests, manifest list and summary for an overwrite, written for one attempt.
//!
//! A manifest with a removed file is written again under its own schema and partition spec: the others of its files
//! become *existing* with the sequence numbers they had, the removed ones *deleted*. The old manifest is not referenced
//! any more, so no stale *added* entry can bring a removed file back. Small manifests are merged, so that the number
//! of manifests a fresh batch has to read does not grow with the number of batches.

use std::collections::{BTreeMap, HashMap, HashSet};

use iceberg::spec::{
    DataFile, MAIN_BRANCH, ManifestContentType, ManifestEntry, ManifestFile, ManifestListWriter, ManifestWriter,
    ManifestWriterBuilder, Operation, SchemaRef, Snapshot, SnapshotReference, SnapshotRetention,
    SnapshotSummaryCollector, Summary,
};
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use crate::Error;
use crate::base::{Base, LoadedManifest, Totals};
use crate::plan::{Fate, Plan};

/// Iceberg's own defaults for merging manifests.
const TARGET_MANIFEST_BYTES: u64 = 8 << 20;
const MIN_MANIFESTS_TO_MERGE: usize = 100;

/// The facts of one attempt's snapshot.
pub(crate) struct SnapshotDraft<'a> {
    pub(crate) base: &'a Base,
    pub(crate) plan: &'a Plan,
    /// New files of the batch, and files rewritten without it.
    pub(crate) added: Vec<DataFile>,
    pub(crate) snapshot_id: i64,
    pub(crate) attempt: Uuid,
    pub(crate) now_ms: i64,
    pub(crate) summary: HashMap<String, String>,
}

/// A snapshot that is written, and what asks for it.
pub(crate) struct SnapshotRequest {
    pub(crate) snapshot_id: i64,
    pub(crate) manifest_list: String,
    pub(crate) updates: Vec<TableUpdate>,
    pub(crate) requirements: Vec<TableRequirement>,
}

/// Writes the draft's files; every location is pushed to `written` before anything is written there, so that a failed
/// attempt can be cleaned up whatever it got to.
pub(crate) async fn write(draft: SnapshotDraft<'_>, written: &mut Vec<String>) -> Result<SnapshotRequest, Error> {
    let base = draft.base;
    let metadata = base.metadata();
    refuse_files_twice(base, &draft.added)?;
    refuse_other_partitions(base, &draft.added)?;
    let summary = summary(&draft);
    let mut files = ManifestFiles { draft: &draft, written, count: 0 };

    let mut manifests = Vec::new();
    if !draft.added.is_empty() {
        manifests.push(files.write_added().await?);
    }
    let mut removed: BTreeMap<usize, HashSet<usize>> = BTreeMap::new();
    for touched in draft.plan.touched.iter().filter(|touched| touched.fate != Fate::Keep) {
        removed.entry(touched.manifest).or_default().insert(touched.entry);
    }
    let mut untouched = Vec::new();
    for (index, loaded) in base.manifests.iter().enumerate() {
        match removed.get(&index) {
            Some(entries) => manifests.push(files.write_without(loaded, entries).await?),
            // Entries of files that were removed earlier are history, and no snapshot needs to carry them on.
            None if loaded.live().next().is_none() => {}
            None => untouched.push(loaded),
        }
    }
    for group in merge_groups(untouched) {
        match group.as_slice() {
            [single] => manifests.push(single.file.clone()),
            many => manifests.push(files.write_merged(many).await?),
        }
    }

    let list_location = format!(
        "{}/metadata/snap-{}-0-{}.avro",
        metadata.location().trim_end_matches('/'),
        draft.snapshot_id,
        draft.attempt
    );
    written.push(list_location.clone());
    let sequence_number = metadata.next_sequence_number();
    let parent = metadata.current_snapshot_id();
    let failed = Error::iceberg("write the manifest list");
    let output = base.table.file_io().new_output(&list_location).map_err(&failed)?;
    let writer = output.writer().await.map_err(&failed)?;
    let mut list = ManifestListWriter::v2(writer, draft.snapshot_id, parent, sequence_number);
    list.add_manifests(manifests.into_iter()).map_err(&failed)?;
    list.close().await.map_err(&failed)?;

    let snapshot = Snapshot::builder()
        .with_snapshot_id(draft.snapshot_id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(sequence_number)
        // Metadata refuses snapshots that are older than itself; clocks of different machines differ.
        .with_timestamp_ms(draft.now_ms.max(metadata.last_updated_ms()))
        .with_manifest_list(list_location.clone())
        .with_schema_id(metadata.current_schema_id())
        .with_summary(summary)
        .build();
    let reference = SnapshotReference::new(draft.snapshot_id, main_retention(base));
    let updates = vec![
        TableUpdate::AddSnapshot { snapshot },
        TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference },
    ];
    let requirements = vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: parent },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: metadata.current_schema_id() },
        TableRequirement::DefaultSpecIdMatch { default_spec_id: metadata.default_partition_spec_id() },
    ];
    Ok(SnapshotRequest { snapshot_id: draft.snapshot_id, manifest_list: list_location, updates, requirements })
}

/// The retention that the main branch has now: setting the ref must not reset it.
fn main_retention(base: &Base) -> SnapshotRetention {
    // Refs have no public getter, but they serialise.
    let main = serde_json::to_value(base.metadata())
        .ok()
        .and_then(|mut metadata| metadata.get_mut("refs")?.get_mut(MAIN_BRANCH).map(serde_json::Value::take));
    match main.and_then(|main| serde_json::from_value::<SnapshotReference>(main).ok()) {
        Some(reference) => reference.retention,
        None => SnapshotRetention::branch(None, None, None),
    }
}

fn refuse_files_twice(base: &Base, added: &[DataFile]) -> Result<(), Error> {
    let mut paths = base.live_paths();
    match added.iter().find(|file| !paths.insert(file.file_path())) {
        Some(file) => Err(Error::FileTwice { file: file.file_path().to_owned() }),
        None => Ok(()),
    }
}

/// Manifest writers take it for granted that a file has a value for each field of the spec.
fn refuse_other_partitions(base: &Base, added: &[DataFile]) -> Result<(), Error> {
    let fields = base.metadata().default_partition_spec().fields().len();
    match added.iter().find(|file| file.partition().fields().len() != fields) {
        Some(file) => Err(Error::OtherPartition {
            file: file.file_path().to_owned(),
            values: file.partition().fields().len(),
            fields,
        }),
        None => Ok(()),
    }
}

fn summary(draft: &SnapshotDraft<'_>) -> Summary {
    let metadata = draft.base.metadata();
    let schema = metadata.current_schema();
    let mut collector = SnapshotSummaryCollector::default();
    let mut totals: Totals = draft.base.totals();
    for file in &draft.added {
        collector.add_file(file, schema.clone(), metadata.default_partition_spec().clone());
        totals.records += file.record_count();
        totals.data_files += 1;
        totals.bytes += file.file_size_in_bytes();
    }
    for touched in &draft.plan.touched {
        let loaded = &draft.base.manifests[touched.manifest];
        let file = loaded.entries[touched.entry].data_file();
        // Under the schema the file is listed under: the current one may lack a column that its partition was made of.
        let spec = metadata.partition_spec_by_id(loaded.file.partition_spec_id);
        if let Some(spec) = spec.filter(|spec| spec.partition_type(&loaded.schema).is_ok()) {
            collector.remove_file(file, loaded.schema.clone(), spec.clone());
        }
        totals.records -= file.record_count();
        totals.data_files -= 1;
        totals.bytes -= file.file_size_in_bytes();
    }
    let mut properties = draft.summary.clone();
    properties.extend(collector.build());
    properties.extend(totals.summary());
    Summary { operation: Operation::Overwrite, additional_properties: properties }
}

/// Manifests to put into one: of one content and one spec, together not larger than the target, and only once there
/// are enough of them that it pays. Manifests that are full already are not written again for the sake of a few small
/// ones.
fn merge_groups(manifests: Vec<&LoadedManifest>) -> Vec<Vec<&LoadedManifest>> {
    let mut groups: BTreeMap<(bool, i32), Vec<&LoadedManifest>> = BTreeMap::new();
    for loaded in manifests {
        groups.entry((loaded.is_data(), loaded.file.partition_spec_id)).or_default().push(loaded);
    }
    let mut merged = Vec::new();
    for ((is_data, _), group) in groups {
        let mut bins: Vec<Vec<&LoadedManifest>> = Vec::new();
        let mut bytes = 0;
        for loaded in group {
            let length = loaded.file.manifest_length.unsigned_abs();
            match bins.last_mut() {
                Some(bin) if bytes + length <= TARGET_MANIFEST_BYTES => {
                    bin.push(loaded);
                    bytes += length;
                }
                _ => {
                    bins.push(vec![loaded]);
                    bytes = length;
                }
            }
        }
        for bin in bins {
            if is_data && bin.len() >= MIN_MANIFESTS_TO_MERGE {
                merged.push(bin);
            } else {
                merged.extend(bin.into_iter().map(|loaded| vec![loaded]));
            }
        }
    }
    merged
}

/// Writes the manifests of one attempt under names of its own.
struct ManifestFiles<'a, 'b> {
    draft: &'a SnapshotDraft<'a>,
    written: &'b mut Vec<String>,
    count: u32,
}

impl ManifestFiles<'_, '_> {
    fn writer(
        &mut self,
        content: ManifestContentType,
        spec_id: i32,
        schema: SchemaRef,
    ) -> Result<ManifestWriter, Error> {
        let metadata = self.draft.base.metadata();
        let location = format!(
            "{}/metadata/{}-m{}.avro",
            metadata.location().trim_end_matches('/'),
            self.draft.attempt,
            self.count
        );
        self.count += 1;
        self.written.push(location.clone());
        let failed = Error::iceberg("write a manifest");
        let output = self.draft.base.table.file_io().new_output(location).map_err(&failed)?;
        let spec = metadata.partition_spec_by_id(spec_id).ok_or_else(|| {
            let unknown = format!("a manifest is of the unknown partition spec {spec_id}");
            failed(iceberg::Error::new(iceberg::ErrorKind::DataInvalid, unknown))
        })?;
        let builder = ManifestWriterBuilder::new(output, Some(self.draft.snapshot_id), schema, spec.as_ref().clone());
        Ok(match content {
            ManifestContentType::Data => builder.build_v2_data(),
            ManifestContentType::Deletes => builder.build_v2_deletes(),
        })
    }

    /// The new files of this snapshot.
    async fn write_added(&mut self) -> Result<ManifestFile, Error> {
        let draft = self.draft;
        let metadata = draft.base.metadata();
        let schema = metadata.current_schema().clone();
        let mut writer = self.writer(ManifestContentType::Data, metadata.default_partition_spec_id(), schema)?;
        for file in &draft.added {
            // The sequence number is inherited from the commit.
            writer.add_file(file.clone(), -1).map_err(Error::iceberg("write a manifest"))?;
        }
        writer.write_manifest_file().await.map_err(Error::iceberg("write a manifest"))
    }

    /// A manifest without some of its files.
    async fn write_without(
        &mut self,
        loaded: &LoadedManifest,
        removed: &HashSet<usize>,
    ) -> Result<ManifestFile, Error> {
        let mut writer = self.writer(loaded.file.content, loaded.file.partition_spec_id, loaded.schema.clone())?;
        for (index, entry) in loaded.entries.iter().enumerate().filter(|(_, entry)| entry.is_alive()) {
            if removed.contains(&index) {
                let sequence_number = sequence_number(entry)?;
                writer.add_delete_file(entry.data_file().clone(), sequence_number, entry.file_sequence_number)
            } else {
                add_existing(&mut writer, entry)?;
                Ok(())
            }
            .map_err(Error::iceberg("write a manifest"))?;
        }
        writer.write_manifest_file().await.map_err(Error::iceberg("write a manifest"))
    }

    /// Several manifests in one.
    async fn write_merged(&mut self, group: &[&LoadedManifest]) -> Result<ManifestFile, Error> {
        let first = &group[0].file;
        // The newest of their schemas that still has the columns of their spec.
        let spec = self.draft.base.metadata().partition_spec_by_id(first.partition_spec_id);
        let binds = |schema: &&SchemaRef| spec.is_some_and(|spec| spec.partition_type(schema).is_ok());
        let newest = group.iter().map(|loaded| &loaded.schema).filter(binds).max_by_key(|schema| schema.schema_id());
        let schema = newest.unwrap_or(&group[0].schema).clone();
        let mut writer = self.writer(first.content, first.partition_spec_id, schema)?;
        for entry in group.iter().flat_map(|loaded| loaded.live()) {
            add_existing(&mut writer, entry)?;
        }
        writer.write_manifest_file().await.map_err(Error::iceberg("write a manifest"))
    }
}

fn add_existing(writer: &mut ManifestWriter, entry: &ManifestEntry) -> Result<(), Error> {
    let snapshot_id = entry.snapshot_id().ok_or_else(|| incomplete(entry, "snapshot id"))?;
    writer
        .add_existing_file(entry.data_file().clone(), snapshot_id, sequence_number(entry)?, entry.file_sequence_number)
        .map_err(Error::iceberg("write a manifest"))
}

fn sequence_number(entry: &ManifestEntry) -> Result<i64, Error> {
    entry.sequence_number().ok_or_else(|| incomplete(entry, "sequence number"))
}

fn incomplete(entry: &ManifestEntry, what: &str) -> Error {
    let message = format!("the manifest entry of {} has no {what}", entry.file_path());
    Error::iceberg("read a manifest")(iceberg::Error::new(iceberg::ErrorKind::DataInvalid, message))
}
