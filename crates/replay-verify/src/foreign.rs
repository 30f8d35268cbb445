//! Another engine at the same table: it compacts, expires and tags by Iceberg's own means, knows nothing of batches, and leaves
//! the files of what it expires where they are.

use std::collections::{BTreeSet, HashMap};

use hexfloe_catalog::{CommitOutcome, CommitRequest};
use hexfloe_commit::{Locations, Refs};
use iceberg::spec::{
    DataFile, MAIN_BRANCH, ManifestEntryRef, ManifestListWriter, ManifestWriterBuilder, Operation, Snapshot,
    SnapshotReference, SnapshotRetention, Summary,
};
use iceberg::table::Table;
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use crate::process::Process;
use crate::scheduler::HOUR_MS;
use crate::table::{self, Trouble};

/// No engine's operation may take longer than this: it takes no precautions against cleanup by itself.
const STALL_MS: i64 = 11 * HOUR_MS;

/// Rewrites all files of the main branch into one.
pub(crate) async fn compact(process: &Process) -> Result<(), Trouble> {
    let _limit = process.gate.limit_stalls(STALL_MS);
    let table = process.load().await?;
    let metadata = table.metadata();
    let Some(parent) = metadata.current_snapshot() else { return Ok(()) };
    let list = table.manifest_list_reader(parent).load().await?;
    let mut live: Vec<ManifestEntryRef> = Vec::new();
    for manifest in list.entries() {
        let manifest = manifest.load_manifest(table.file_io()).await?;
        live.extend(manifest.entries().iter().filter(|entry| entry.is_alive()).cloned());
    }
    if live.len() < 2 {
        return Ok(());
    }
    let mut rows = Vec::new();
    for entry in &live {
        rows.extend(table::decode(process.catalog.store().read(entry.file_path()).await?)?);
    }
    rows.sort_by_key(|row| row.1);
    let attempt = process.environment.uuid();
    let file = table::write_rows(&process.catalog, metadata, &format!("compacted-{attempt}.parquet"), &rows).await?;
    let (attempt, now_ms) = (process.environment.uuid(), process.environment.now_ms());
    let request = snapshot_of(&table, Change::Replace(&live), file, attempt, now_ms).await?;
    commit(process, request, "compacts").await
}

/// What a snapshot of another engine does to the files of main.
pub(crate) enum Change<'a> {
    /// These are all there are, and another file takes their place.
    Replace(&'a [ManifestEntryRef]),
    /// A file comes beside them.
    Append,
}

/// The snapshot with which `file` comes.
pub(crate) async fn snapshot_of(
    table: &Table,
    change: Change<'_>,
    file: DataFile,
    attempt: Uuid,
    now_ms: i64,
) -> Result<CommitRequest, Trouble> {
    let metadata = table.metadata();
    let (high, low) = attempt.as_u64_pair();
    let snapshot_id = (high ^ low).cast_signed() & i64::MAX;
    let locations = Locations::of(metadata);
    let output = table.file_io().new_output(locations.metadata_file(&format!("{attempt}-m0.avro")))?;
    let (schema, spec) = (metadata.current_schema().clone(), metadata.default_partition_spec().as_ref().clone());
    let mut manifest = ManifestWriterBuilder::new(output, Some(snapshot_id), schema, spec).build_v2_data();
    let (records, bytes) = (file.record_count(), file.file_size_in_bytes());
    manifest.add_file(file, -1)?;
    let (mut manifests, mut totals, operation) = match change {
        Change::Replace(live) => {
            for entry in live {
                let sequence_number = entry.sequence_number().ok_or("an entry has no sequence number")?;
                manifest.add_delete_file(entry.data_file().clone(), sequence_number, entry.file_sequence_number)?;
            }
            (Vec::new(), HashMap::new(), Operation::Replace)
        }
        Change::Append => {
            let head = metadata.current_snapshot().ok_or("there is nothing to append to")?;
            let list = table.manifest_list_reader(head).load().await?;
            (list.entries().to_vec(), head.summary().additional_properties.clone(), Operation::Append)
        }
    };
    manifests.push(manifest.write_manifest_file().await?);
    let manifest_list = locations.metadata_file(&format!("snap-{snapshot_id}-0-{attempt}.avro"));
    let parent = metadata.current_snapshot_id();
    let sequence_number = metadata.next_sequence_number();
    let output = table.file_io().new_output(&manifest_list)?.writer().await?;
    let mut list = ManifestListWriter::v2(output, snapshot_id, parent, sequence_number);
    list.add_manifests(manifests.into_iter())?;
    list.close().await?;
    totals.retain(|name, _| name.starts_with("total-"));
    for (name, more) in [("total-records", records), ("total-data-files", 1), ("total-files-size", bytes)] {
        let total = totals.get(name).and_then(|before| before.parse::<u64>().ok()).unwrap_or(0) + more;
        totals.insert(name.to_owned(), total.to_string());
    }
    for name in ["total-delete-files", "total-position-deletes", "total-equality-deletes"] {
        totals.entry(name.to_owned()).or_insert_with(|| "0".to_owned());
    }
    let snapshot = Snapshot::builder()
        .with_snapshot_id(snapshot_id)
        .with_parent_snapshot_id(parent)
        .with_sequence_number(sequence_number)
        .with_timestamp_ms(now_ms.max(metadata.last_updated_ms()))
        .with_manifest_list(manifest_list)
        .with_schema_id(metadata.current_schema_id())
        .with_summary(Summary { operation, additional_properties: totals })
        .build();
    let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
    Ok(CommitRequest {
        base: table.clone(),
        requirements: vec![
            TableRequirement::UuidMatch { uuid: metadata.uuid() },
            TableRequirement::RefSnapshotIdMatch { r#ref: MAIN_BRANCH.to_owned(), snapshot_id: parent },
        ],
        updates: vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name: MAIN_BRANCH.to_owned(), reference },
        ],
    })
}

/// Takes snapshots out of the metadata that no ref is at: each with even odds, whatever their age.
pub(crate) async fn expire(process: &mut Process) -> Result<(), Trouble> {
    let _limit = process.gate.limit_stalls(STALL_MS);
    let table = process.load().await?;
    let metadata = table.metadata();
    let refs = Refs::of(metadata)?;
    let heads: BTreeSet<i64> = refs.branches.values().chain(refs.tags.values()).copied().collect();
    let others: BTreeSet<i64> = metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).collect();
    let mut snapshot_ids: Vec<i64> = others.difference(&heads).copied().collect();
    snapshot_ids.retain(|_| process.random.chance(500));
    if snapshot_ids.is_empty() {
        return Ok(());
    }
    let request = CommitRequest {
        requirements: unmoved(&table, &refs),
        updates: vec![TableUpdate::RemoveSnapshots { snapshot_ids }],
        base: table,
    };
    commit(process, request, "expires").await
}

/// Tags a snapshot, or takes a tag away.
pub(crate) async fn tag(process: &mut Process) -> Result<(), Trouble> {
    let _limit = process.gate.limit_stalls(STALL_MS);
    let table = process.load().await?;
    let metadata = table.metadata();
    let refs = Refs::of(metadata)?;
    let name = process.random.pick(["kept", "audited"]).to_owned();
    let snapshots: BTreeSet<i64> = metadata.snapshots().map(|snapshot| snapshot.snapshot_id()).collect();
    let update = if refs.tags.contains_key(&name) && process.random.chance(500) {
        TableUpdate::RemoveSnapshotRef { ref_name: name }
    } else {
        let Some(snapshot_id) = snapshots.iter().nth(process.random.index(snapshots.len())) else { return Ok(()) };
        let retention = SnapshotRetention::Tag { max_ref_age_ms: None };
        TableUpdate::SetSnapshotRef { ref_name: name, reference: SnapshotReference::new(*snapshot_id, retention) }
    };
    let request = CommitRequest { requirements: unmoved(&table, &refs), updates: vec![update], base: table };
    commit(process, request, "tags").await
}

/// Sets a table property, as anybody may.
pub(crate) async fn touch(process: &Process) -> Result<(), Trouble> {
    let _limit = process.gate.limit_stalls(STALL_MS);
    let table = process.load().await?;
    let updates = HashMap::from([("touched".to_owned(), process.environment.now_ms().to_string())]);
    let requirements = vec![TableRequirement::UuidMatch { uuid: table.metadata().uuid() }];
    let updates = vec![TableUpdate::SetProperties { updates }];
    commit(process, CommitRequest { base: table, requirements, updates }, "touches").await
}

fn unmoved(table: &Table, refs: &Refs) -> Vec<TableRequirement> {
    let all = refs.branches.iter().chain(&refs.tags);
    let unmoved = all.map(|(name, snapshot_id)| TableRequirement::RefSnapshotIdMatch {
        r#ref: name.clone(),
        snapshot_id: Some(*snapshot_id),
    });
    std::iter::once(TableRequirement::UuidMatch { uuid: table.metadata().uuid() }).chain(unmoved).collect()
}

/// Another engine gives up when somebody else was first.
async fn commit(process: &Process, request: CommitRequest, deed: &'static str) -> Result<(), Trouble> {
    match process.catalog.port().commit(&request).await? {
        CommitOutcome::Committed(_) => process.gate.note(deed, "the table"),
        CommitOutcome::Conflict { .. } | CommitOutcome::Unknown { .. } => process.gate.note("gives up", ""),
    }
    Ok(())
}
