//! One snapshot: manifests, manifest list and summary, written for one attempt.
//!
//! A manifest with a removed file is written again under its own schema and partition spec: the others of its files
//! become *existing* with the sequence numbers they had, the removed ones *deleted*. The old manifest is not referenced
//! any more, so no stale *added* entry can bring a removed file back.

use std::collections::{BTreeMap, HashMap, HashSet};

use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, FormatVersion, ManifestContentType, ManifestEntry, ManifestFile,
    ManifestListWriter, ManifestWriter, ManifestWriterBuilder, Operation, PartitionSpec, PartitionSpecRef, SchemaRef,
    Snapshot, SnapshotReference, SnapshotSummaryCollector, Summary, TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use crate::base::{Base, LoadedManifest, ManifestCache, Totals};
use crate::merging::{Merging, live_files, merge_groups};
use crate::{Error, Locations, partition, refs};

/// A file that a snapshot adds.
#[derive(Clone, Debug)]
pub(crate) struct AddedFile {
    pub(crate) file: DataFile,
    pub(crate) spec_id: i32,
}

/// The facts of one attempt's snapshot.
pub(crate) struct SnapshotDraft<'a> {
    pub(crate) base: &'a Base,
    pub(crate) cache: &'a ManifestCache,
    /// New files of the batches, files rewritten without rows, and new delete files.
    pub(crate) added: Vec<AddedFile>,
    /// Entries that are removed, by manifest.
    pub(crate) removed: BTreeMap<usize, HashSet<usize>>,
    pub(crate) operation: Operation,
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
    let retention = refs::retention(metadata, &base.table.identifier().to_string(), &base.branch)?;
    let summary = summary(&draft)?;
    let locations = Locations::of(metadata);
    let manifests = ManifestFiles { draft: &draft, locations: &locations, written, count: 0 }.write_all().await?;

    let list_location = locations.metadata_file(&format!("snap-{}-0-{}.avro", draft.snapshot_id, draft.attempt));
    written.push(list_location.clone());
    let sequence_number = metadata.next_sequence_number();
    let parent = base.parent.as_ref().map(|parent| parent.snapshot_id());
    let failed = Error::iceberg("write the manifest list");
    let output = base.table.file_io().new_output(&list_location).map_err(&failed)?;
    let writer = output.writer().await.map_err(&failed)?;
    let has_row_ids = metadata.format_version() >= FormatVersion::V3;
    let first_row_id = metadata.next_row_id();
    let mut list = match has_row_ids {
        true => ManifestListWriter::v3(writer, draft.snapshot_id, parent, sequence_number, Some(first_row_id)),
        false => ManifestListWriter::v2(writer, draft.snapshot_id, parent, sequence_number),
    };
    list.add_manifests(manifests.into_iter()).map_err(&failed)?;
    let next_row_id = list.next_row_id();
    list.close().await.map_err(&failed)?;

    let snapshot = Snapshot::builder()
        .with_snapshot_id(draft.snapshot_id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(sequence_number)
        // Metadata refuses snapshots that are older than itself; clocks of different machines differ.
        .with_timestamp_ms(draft.now_ms.max(metadata.last_updated_ms()))
        .with_manifest_list(list_location.clone())
        .with_schema_id(metadata.current_schema_id())
        .with_summary(summary);
    let snapshot = match next_row_id {
        Some(next) if has_row_ids => snapshot.with_row_range(first_row_id, next - first_row_id).build(),
        _ => snapshot.build(),
    };
    let reference = SnapshotReference::new(draft.snapshot_id, retention);
    let updates = vec![
        TableUpdate::AddSnapshot { snapshot },
        TableUpdate::SetSnapshotRef { ref_name: base.branch.clone(), reference },
    ];
    let requirements = vec![
        TableRequirement::UuidMatch { uuid: metadata.uuid() },
        TableRequirement::RefSnapshotIdMatch { r#ref: base.branch.clone(), snapshot_id: base.branch_head },
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: metadata.current_schema_id() },
        TableRequirement::DefaultSpecIdMatch { default_spec_id: metadata.default_partition_spec_id() },
    ];
    Ok(SnapshotRequest { snapshot_id: draft.snapshot_id, manifest_list: list_location, updates, requirements })
}

fn refuse_files_twice(base: &Base, added: &[AddedFile]) -> Result<(), Error> {
    let mut paths = base.live_paths();
    match added.iter().find(|added| !paths.insert(added.file.file_path())) {
        Some(added) => Err(Error::FileTwice { file: added.file.file_path().to_owned() }),
        None => Ok(()),
    }
}

/// Manifest writers take it for granted that a file has a value for each field of the spec.
fn refuse_other_partitions(base: &Base, added: &[AddedFile]) -> Result<(), Error> {
    for AddedFile { file, spec_id } in added {
        let fields = base.metadata().partition_spec_by_id(*spec_id).map_or(0, |spec| spec.fields().len());
        let values = file.partition().fields().len();
        if values != fields {
            return Err(Error::OtherPartition { file: file.file_path().to_owned(), values, fields });
        }
    }
    Ok(())
}

fn summary(draft: &SnapshotDraft<'_>) -> Result<Summary, Error> {
    let metadata = draft.base.metadata();
    let mut collector = SnapshotSummaryCollector::default();
    let mut totals: Totals = draft.base.totals();
    for AddedFile { file, spec_id } in &draft.added {
        if let Some((spec, schema)) = bound(metadata, *spec_id, None) {
            collector.add_file(&carried(file, &spec, &schema, file.first_row_id())?, schema, spec);
        }
        totals.add(file);
    }
    for (manifest, entries) in &draft.removed {
        let loaded = &draft.base.manifests[*manifest];
        for entry in entries {
            let file = loaded.entries[*entry].data_file();
            if let Some((spec, schema)) = bound(metadata, loaded.file.partition_spec_id, loaded.schema.as_ref()) {
                collector.remove_file(&carried(file, &spec, &schema, file.first_row_id())?, schema, spec);
            }
            totals.remove(file);
        }
    }
    let mut properties = draft.summary.clone();
    properties.extend(collector.build());
    properties.extend(totals.summary());
    Ok(Summary { operation: draft.operation.clone(), additional_properties: properties })
}

/// A partition spec, and a schema that has the columns it is made of: the current one, or else `own`, or else the newest that
/// the table had.
fn bound(metadata: &TableMetadata, spec_id: i32, own: Option<&SchemaRef>) -> Option<(PartitionSpecRef, SchemaRef)> {
    let spec = metadata.partition_spec_by_id(spec_id)?;
    let mut older: Vec<&SchemaRef> = metadata.schemas_iter().collect();
    older.sort_by_key(|schema| std::cmp::Reverse(schema.schema_id()));
    let mut schemas = std::iter::once(metadata.current_schema()).chain(own).chain(older);
    let schema = schemas.find(|schema| spec.partition_type(schema).is_ok())?;
    Some((spec.clone(), schema.clone()))
}

/// Writes the manifests of one attempt under names of its own.
struct ManifestFiles<'a, 'b> {
    draft: &'a SnapshotDraft<'a>,
    locations: &'a Locations,
    written: &'b mut Vec<String>,
    count: u32,
}

impl ManifestFiles<'_, '_> {
    /// All manifests of the snapshot: new ones, changed ones, and those that are as they were or merged.
    async fn write_all(mut self) -> Result<Vec<ManifestFile>, Error> {
        let draft = self.draft;
        let mut added: BTreeMap<(bool, i32), Vec<&DataFile>> = BTreeMap::new();
        for AddedFile { file, spec_id } in &draft.added {
            added.entry((file.content_type() != DataContentType::Data, *spec_id)).or_default().push(file);
        }
        let mut manifests = Vec::new();
        for ((is_deletes, spec_id), files) in added {
            let content = if is_deletes { ManifestContentType::Deletes } else { ManifestContentType::Data };
            manifests.push(self.write_added(content, spec_id, &files).await?);
        }
        let mut untouched: Vec<(&ManifestFile, Option<&LoadedManifest>)> = Vec::new();
        for (index, loaded) in draft.base.manifests.iter().enumerate() {
            match draft.removed.get(&index) {
                Some(entries) => manifests.push(self.write_without(loaded, entries).await?),
                // Entries of files that were removed earlier are history, and no snapshot needs to carry them on.
                None if loaded.is_spent() => {}
                None => untouched.push((&loaded.file, Some(loaded))),
            }
        }
        untouched.extend(draft.base.unread.iter().filter(|file| live_files(file) > 0).map(|file| (file, None)));
        let files: Vec<&ManifestFile> = untouched.iter().map(|(file, _)| *file).collect();
        for group in merge_groups(&files, Merging::of(draft.base.metadata())) {
            match group.as_slice() {
                [single] => manifests.push(files[*single].clone()),
                many => {
                    let mut read = Vec::new();
                    for place in many {
                        read.push(match untouched[*place] {
                            (_, Some(loaded)) if loaded.rest.is_none() => loaded.clone(),
                            (file, _) => draft.cache.manifest(&draft.base.table, file.clone()).await?,
                        });
                    }
                    manifests.push(self.write_merged(&read).await?);
                }
            }
        }
        Ok(manifests)
    }

    /// Where the next manifest is written.
    fn next_location(&mut self) -> String {
        let location = self.locations.metadata_file(&format!("{}-m{}.avro", self.draft.attempt, self.count));
        self.count += 1;
        self.written.push(location.clone());
        location
    }

    fn writer(
        &mut self,
        content: ManifestContentType,
        spec_id: i32,
        own: Option<&SchemaRef>,
    ) -> Result<BoundWriter, Error> {
        let metadata = self.draft.base.metadata();
        let location = self.next_location();
        let failed = Error::iceberg("write a manifest");
        let output = self.draft.base.table.file_io().new_output(location).map_err(&failed)?;
        let (spec, schema) = bound(metadata, spec_id, own).ok_or_else(|| {
            let unknown =
                format!("a manifest is of partition spec {spec_id}, of which the table lacks fields or columns");
            failed(iceberg::Error::new(iceberg::ErrorKind::DataInvalid, unknown))
        })?;
        let snapshot_id = Some(self.draft.snapshot_id);
        let builder = ManifestWriterBuilder::new(output, snapshot_id, schema.clone(), spec.as_ref().clone());
        let writer = match (metadata.format_version(), content) {
            (FormatVersion::V3, ManifestContentType::Data) => builder.build_v3_data(),
            (FormatVersion::V3, ManifestContentType::Deletes) => builder.build_v3_deletes(),
            (_, ManifestContentType::Data) => builder.build_v2_data(),
            (_, ManifestContentType::Deletes) => builder.build_v2_deletes(),
        };
        Ok(BoundWriter { writer, spec, schema })
    }

    /// The new files of this snapshot of one kind.
    async fn write_added(
        &mut self,
        content: ManifestContentType,
        spec_id: i32,
        files: &[&DataFile],
    ) -> Result<ManifestFile, Error> {
        let mut writer = self.writer(content, spec_id, None)?;
        for file in files {
            writer.add(file)?;
        }
        writer.finish().await
    }

    /// A manifest without some of its files.
    async fn write_without(
        &mut self,
        loaded: &LoadedManifest,
        removed: &HashSet<usize>,
    ) -> Result<ManifestFile, Error> {
        if let Some(rest) = &loaded.rest {
            let removed = removed.iter().filter_map(|index| rest.places.get(*index).copied()).collect();
            let location = self.next_location();
            let (bytes, file) = rest.bytes.without(&removed, &loaded.file, self.draft.snapshot_id, location.clone());
            let failed = Error::iceberg("write a manifest");
            let output = self.draft.base.table.file_io().new_output(location).map_err(&failed)?;
            output.write(bytes.into()).await.map_err(&failed)?;
            return Ok(file);
        }
        let mut writer = self.writer(loaded.file.content, loaded.file.partition_spec_id, loaded.schema.as_ref())?;
        let row_ids = loaded.first_row_ids();
        for (index, entry) in loaded.entries.iter().enumerate().filter(|(_, entry)| entry.is_alive()) {
            if removed.contains(&index) {
                writer.remove(entry, row_ids[index])?;
            } else {
                writer.keep(entry, row_ids[index])?;
            }
        }
        writer.finish().await
    }

    /// Several manifests of one content and partition spec in one.
    async fn write_merged(&mut self, group: &[LoadedManifest]) -> Result<ManifestFile, Error> {
        let first = &group[0];
        let mut writer = self.writer(first.file.content, first.file.partition_spec_id, first.schema.as_ref())?;
        for loaded in group {
            let row_ids = loaded.first_row_ids();
            for (entry, row_id) in loaded.entries.iter().zip(row_ids).filter(|(entry, _)| entry.is_alive()) {
                writer.keep(entry, row_id)?;
            }
        }
        writer.finish().await
    }
}

/// A manifest in the making, under a spec and a schema that has its columns.
struct BoundWriter {
    writer: ManifestWriter,
    spec: PartitionSpecRef,
    schema: SchemaRef,
}

impl BoundWriter {
    /// Lists a new file.
    fn add(&mut self, file: &DataFile) -> Result<(), Error> {
        let file = carried(file, &self.spec, &self.schema, file.first_row_id())?;
        // The sequence number is inherited from the commit.
        self.writer.add_file(file, -1).map_err(Error::iceberg("write a manifest"))
    }

    /// Lists a file that stays.
    fn keep(&mut self, entry: &ManifestEntry, row_id: Option<i64>) -> Result<(), Error> {
        let snapshot_id = entry.snapshot_id().ok_or_else(|| incomplete(entry, "snapshot id"))?;
        let file = carried(entry.data_file(), &self.spec, &self.schema, row_id)?;
        self.writer
            .add_existing_file(file, snapshot_id, sequence_number(entry)?, entry.file_sequence_number)
            .map_err(Error::iceberg("write a manifest"))
    }

    /// Lists a file that goes.
    fn remove(&mut self, entry: &ManifestEntry, row_id: Option<i64>) -> Result<(), Error> {
        let file = carried(entry.data_file(), &self.spec, &self.schema, row_id)?;
        self.writer
            .add_delete_file(file, sequence_number(entry)?, entry.file_sequence_number)
            .map_err(Error::iceberg("write a manifest"))
    }

    async fn finish(self) -> Result<ManifestFile, Error> {
        self.writer.write_manifest_file().await.map_err(Error::iceberg("write a manifest"))
    }
}

/// The file as another manifest has to list it: with the first row id that it inherited from its own, as it would inherit
/// another there, and with partition values of the types that the spec has now.
fn carried(
    file: &DataFile,
    spec: &PartitionSpec,
    schema: &SchemaRef,
    first_row_id: Option<i64>,
) -> Result<DataFile, Error> {
    let widened = partition::under(file.partition(), spec, schema);
    if file.first_row_id() == first_row_id && widened.is_none() {
        return Ok(file.clone());
    }
    let mut builder = DataFileBuilder::default();
    builder
        .content(file.content_type())
        .file_path(file.file_path().to_owned())
        .file_format(file.file_format())
        .partition(widened.unwrap_or_else(|| file.partition().clone()))
        .record_count(file.record_count())
        .file_size_in_bytes(file.file_size_in_bytes())
        .column_sizes(file.column_sizes().clone())
        .value_counts(file.value_counts().clone())
        .null_value_counts(file.null_value_counts().clone())
        .nan_value_counts(file.nan_value_counts().clone())
        .lower_bounds(file.lower_bounds().clone())
        .upper_bounds(file.upper_bounds().clone())
        .key_metadata(file.key_metadata().map(<[u8]>::to_vec))
        .split_offsets(file.split_offsets().map(<[i64]>::to_vec))
        .equality_ids(file.equality_ids())
        .first_row_id(first_row_id)
        .referenced_data_file(file.referenced_data_file())
        .content_offset(file.content_offset())
        .content_size_in_bytes(file.content_size_in_bytes());
    if let Some(sort_order) = file.sort_order_id() {
        builder.sort_order_id(sort_order);
    }
    builder.build().map_err(|error| {
        let error = iceberg::Error::new(iceberg::ErrorKind::Unexpected, error.to_string());
        Error::iceberg("describe a file")(error)
    })
}

fn sequence_number(entry: &ManifestEntry) -> Result<i64, Error> {
    entry.sequence_number().ok_or_else(|| incomplete(entry, "sequence number"))
}

fn incomplete(entry: &ManifestEntry, what: &str) -> Error {
    let message = format!("the manifest entry of {} has no {what}", entry.file_path());
    Error::iceberg("read a manifest")(iceberg::Error::new(iceberg::ErrorKind::DataInvalid, message))
}
