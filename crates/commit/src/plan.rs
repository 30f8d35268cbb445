//! Which live files hold rows of the batch, and what becomes of them.
//!
//! A manifest whose partitions exclude the batch is passed over. A file's bounds are used in two different ways. They prove *absence* whenever the batch id lies outside them, cut
//! or not: a cut lower bound is still a lower bound. They prove that *every* row is of the batch only when both are
//! the id itself and the number of nulls is known to be zero. In every other case the file is opened and its batch
//! column read.

use futures::TryStreamExt;
use hexfloe_store::Store;
use iceberg::spec::{DataFile, DataFileFormat, Datum, ManifestEntry, ManifestFile, PartitionSpec, PrimitiveLiteral};
use iceberg::transform::create_transform_function;
use parquet::arrow::ParquetRecordBatchStreamBuilder;
use parquet::arrow::ProjectionMask;
use parquet::schema::types::SchemaDescriptor;

use crate::Error;
use crate::base::{Base, LoadedManifest};
use crate::parquet_file::StoredParquet;

/// The rows to replace: those whose `column` equals `value`. Rows where it is null are other rows.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) field_id: i32,
    pub(crate) value: String,
}

/// What becomes of one live file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No row matches.
    Keep,
    /// Every row matches.
    Remove,
    /// Some rows match: their number.
    Rewrite(u64),
}

/// A live file that does not stay as it is: its manifest, its entry there, and its fate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touched {
    pub(crate) manifest: usize,
    pub(crate) entry: usize,
    pub(crate) fate: Fate,
}

/// The overwrite of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) touched: Vec<Touched>,
    /// Rows of the table that the batch replaces.
    pub(crate) replaced_rows: u64,
}

impl Plan {
    pub(crate) async fn make(base: &Base, filter: &Filter, store: &Store) -> Result<Self, Error> {
        let mut plan = Self::default();
        for (manifest, loaded) in base.manifests.iter().enumerate().filter(|(_, loaded)| loaded.is_data()) {
            let spec = base.metadata().partition_spec_by_id(loaded.file.partition_spec_id);
            if spec.is_some_and(|spec| outside_of_partitions(&loaded.file, spec, filter)) {
                continue;
            }
            for (entry, fate) in fates(loaded, filter, store).await? {
                plan.replaced_rows += match fate {
                    Fate::Keep => 0,
                    Fate::Remove => loaded.entries[entry].record_count(),
                    Fate::Rewrite(rows) => rows,
                };
                plan.touched.push(Touched { manifest, entry, fate });
            }
        }
        Ok(plan)
    }
}

/// Whether the manifest's own summary of its partitions proves that none of its files holds the batch: the table is, or
/// was, partitioned by the batch column, and the batch's partition lies outside the range, or all partitions are null.
fn outside_of_partitions(manifest: &ManifestFile, spec: &PartitionSpec, filter: &Filter) -> bool {
    let summaries = manifest.partitions.iter().flatten();
    let fields = spec.fields().iter().zip(summaries).filter(|(field, _)| field.source_id == filter.field_id);
    fields.into_iter().any(|(field, summary)| {
        // What cannot be computed or read proves nothing.
        let proof = || {
            let value = Datum::string(&filter.value);
            let partition = create_transform_function(&field.transform).ok()?.transform_literal(&value).ok()??;
            let bound = |bytes: &[u8]| Datum::try_from_bytes(bytes, partition.data_type().clone()).ok();
            match (&summary.lower_bound, &summary.upper_bound) {
                (Some(lower), Some(upper)) => Some(partition < bound(lower)? || partition > bound(upper)?),
                (None, None) => Some(summary.contains_null),
                _ => None,
            }
        };
        proof() == Some(true)
    })
}

/// The entries of a manifest that do not stay.
async fn fates(loaded: &LoadedManifest, filter: &Filter, store: &Store) -> Result<Vec<(usize, Fate)>, Error> {
    let mut fates = Vec::new();
    for (index, entry) in loaded.entries.iter().enumerate().filter(|(_, entry)| entry.is_alive()) {
        let fate = match by_metrics(entry, filter) {
            Some(fate) => fate,
            None => by_looking(entry, filter, store).await?,
        };
        if fate != Fate::Keep {
            fates.push((index, fate));
        }
    }
    Ok(fates)
}

/// What the manifest entry alone proves.
fn by_metrics(entry: &ManifestEntry, filter: &Filter) -> Option<Fate> {
    if entry.record_count() == 0 {
        return Some(Fate::Keep);
    }
    let file = entry.data_file();
    let bound = |bounds: &std::collections::HashMap<i32, Datum>| match bounds.get(&filter.field_id)?.literal() {
        PrimitiveLiteral::String(text) => Some(text.clone()),
        _ => None,
    };
    let nulls = file.null_value_counts().get(&filter.field_id).copied();
    if nulls == Some(entry.record_count()) {
        return Some(Fate::Keep);
    }
    let (lower, upper) = (bound(file.lower_bounds()), bound(file.upper_bounds()));
    if lower.as_ref().is_some_and(|lower| filter.value < *lower)
        || upper.as_ref().is_some_and(|upper| filter.value > *upper)
    {
        return Some(Fate::Keep);
    }
    let only = lower.as_deref() == Some(filter.value.as_str()) && upper.as_deref() == Some(filter.value.as_str());
    (only && nulls == Some(0)).then_some(Fate::Remove)
}

/// What the batch column of the file says.
async fn by_looking(entry: &ManifestEntry, filter: &Filter, store: &Store) -> Result<Fate, Error> {
    let file = entry.data_file();
    let refuse = |reason: &str| Error::CannotRewrite { file: file.file_path().to_owned(), reason: reason.to_owned() };
    if file.file_format() != DataFileFormat::Parquet {
        return Err(refuse("it is not a Parquet file"));
    }
    let path = file.file_path();
    let failed = Error::parquet("read the batch column of", path);
    let builder = ParquetRecordBatchStreamBuilder::new(open(store, file)).await.map_err(&failed)?;
    let Some(leaf) = leaf_of_field(builder.parquet_schema(), filter.field_id) else {
        // The column was added after this file was written, so it is null here; a file without any field ids cannot
        // be told from that.
        return if has_field_ids(builder.parquet_schema()) {
            Ok(Fate::Keep)
        } else {
            Err(refuse("its columns carry no field ids"))
        };
    };
    let mask = ProjectionMask::leaves(builder.parquet_schema(), [leaf]);
    let mut batches = builder.with_projection(mask).build().map_err(&failed)?;
    let (mut rows, mut matching) = (0_u64, 0_u64);
    while let Some(batch) = batches.try_next().await.map_err(&failed)? {
        rows += batch.num_rows() as u64;
        let matches = matches(batch.column(0), &filter.value).map_err(|error| failed(error.into()))?;
        matching += matches.true_count() as u64;
    }
    if rows != entry.record_count() {
        return Err(refuse(&format!("it holds {rows} rows, and its manifest says {}", entry.record_count())));
    }
    Ok(match matching {
        0 => Fate::Keep,
        all if all == rows => Fate::Remove,
        some => Fate::Rewrite(some),
    })
}

/// Where `column` equals `value`; null where it is null.
pub(crate) fn matches(
    column: &arrow::array::ArrayRef,
    value: &str,
) -> Result<arrow::array::BooleanArray, arrow::error::ArrowError> {
    let text = arrow::compute::cast(column, &arrow::datatypes::DataType::Utf8)?;
    let value = arrow::array::StringArray::new_scalar(value);
    arrow::compute::kernels::cmp::eq(&text, &value)
}

pub(crate) fn open(store: &Store, file: &DataFile) -> StoredParquet {
    StoredParquet { store: store.clone(), location: file.file_path().to_owned(), size: file.file_size_in_bytes() }
}

/// The leaf column with a field id.
pub(crate) fn leaf_of_field(schema: &SchemaDescriptor, field_id: i32) -> Option<usize> {
    schema.columns().iter().position(|column| {
        let info = column.self_type().get_basic_info();
        info.has_id() && info.id() == field_id
    })
}

fn has_field_ids(schema: &SchemaDescriptor) -> bool {
    schema.columns().iter().all(|column| column.self_type().get_basic_info().has_id())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use iceberg::spec::{
        DataContentType, DataFileBuilder, FieldSummary, ManifestContentType, ManifestStatus, NestedField,
        PrimitiveType, Schema, Transform, Type,
    };
    use rstest::rstest;

    use super::*;

    fn entry(lower: Option<&str>, upper: Option<&str>, nulls: Option<u64>) -> ManifestEntry {
        let bounds =
            |bound: Option<&str>| bound.map(|text| (7, Datum::string(text))).into_iter().collect::<HashMap<_, _>>();
        let file = DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path("memory:///a".to_owned())
            .file_format(DataFileFormat::Parquet)
            .record_count(3)
            .file_size_in_bytes(1)
            .lower_bounds(bounds(lower))
            .upper_bounds(bounds(upper))
            .null_value_counts(nulls.map(|nulls| (7, nulls)).into_iter().collect())
            .build()
            .unwrap();
        ManifestEntry::builder().status(ManifestStatus::Existing).data_file(file).build()
    }

    fn manifest(lower: Option<Datum>, upper: Option<Datum>, contains_null: bool) -> ManifestFile {
        let bytes = |bound: Option<Datum>| bound.map(|bound| bound.to_bytes().unwrap());
        ManifestFile {
            manifest_path: "memory:///m".to_owned(),
            manifest_length: 1,
            partition_spec_id: 1,
            content: ManifestContentType::Data,
            sequence_number: 1,
            min_sequence_number: 1,
            added_snapshot_id: 1,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(3),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: Some(vec![FieldSummary {
                contains_null,
                contains_nan: Some(false),
                lower_bound: bytes(lower),
                upper_bound: bytes(upper),
            }]),
            key_metadata: None,
            first_row_id: None,
        }
    }

    fn text(text: &str) -> Option<Datum> {
        Some(Datum::string(text))
    }

    #[rstest]
    #[case::within(Transform::Identity, text("00"), text("ff"), false, false)]
    #[case::only_this_batch(Transform::Identity, text(ID), text(ID), false, false)]
    #[case::below(Transform::Identity, text("1"), text("2"), false, true)]
    #[case::above(Transform::Identity, text("00"), text("01"), true, true)]
    #[case::all_null(Transform::Identity, None, None, true, true)]
    #[case::nothing_known(Transform::Identity, None, None, false, false)]
    #[case::half_known(Transform::Identity, text("1"), None, false, false)]
    #[case::cut_partition_within(Transform::Truncate(4), text("0123"), text("0123"), false, false)]
    #[case::cut_partition_outside(Transform::Truncate(4), text("0124"), text("0124"), false, true)]
    // PyIceberg's BucketTransform(16) puts this id into bucket 14.
    #[case::bucket_within(Transform::Bucket(16), Some(Datum::int(14)), Some(Datum::int(14)), false, false)]
    #[case::bucket_outside(Transform::Bucket(16), Some(Datum::int(0)), Some(Datum::int(13)), false, true)]
    #[case::no_partition(Transform::Void, None, None, true, false)]
    fn partition_summaries_prove_absence_and_nothing_else(
        #[case] transform: Transform,
        #[case] lower: Option<Datum>,
        #[case] upper: Option<Datum>,
        #[case] contains_null: bool,
        #[case] absent: bool,
    ) {
        let field = NestedField::optional(7, "ingest_batch_id", Type::Primitive(PrimitiveType::String));
        let schema = Schema::builder().with_fields([field.into()]).build().unwrap();
        let spec = PartitionSpec::builder(schema)
            .add_partition_field("ingest_batch_id", "part", transform)
            .unwrap()
            .build()
            .unwrap();
        let manifest = manifest(lower, upper, contains_null);
        let filter = |field_id| Filter { field_id, value: ID.to_owned() };
        assert_eq!(outside_of_partitions(&manifest, &spec, &filter(7)), absent);
        assert!(!outside_of_partitions(&manifest, &spec, &filter(8)), "another column's partitions prove nothing");
    }

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[rstest]
    #[case::exact(Some(ID), Some(ID), Some(0), Some(Fate::Remove))]
    #[case::nulls_not_counted(Some(ID), Some(ID), None, None)]
    #[case::some_nulls(Some(ID), Some(ID), Some(1), None)]
    #[case::all_nulls(None, None, Some(3), Some(Fate::Keep))]
    #[case::no_bounds(None, None, Some(0), None)]
    #[case::other_ids_on_both_sides(Some("00"), Some("ff"), Some(0), None)]
    #[case::below(Some("1"), Some("2"), Some(0), Some(Fate::Keep))]
    #[case::above(Some("00"), Some("01"), Some(0), Some(Fate::Keep))]
    #[case::cut_to_sixteen(Some("0123456789abcdef"), Some("0123456789abcdeg"), Some(0), None)]
    #[case::cut_to_sixteen_and_another_id(
        Some("0123456789abcdee"),
        Some("0123456789abcdef"),
        Some(0),
        Some(Fate::Keep)
    )]
    #[case::only_a_lower_bound(Some(ID), None, Some(0), None)]
    fn bounds_prove_what_they_can_and_no_more(
        #[case] lower: Option<&str>,
        #[case] upper: Option<&str>,
        #[case] nulls: Option<u64>,
        #[case] fate: Option<Fate>,
    ) {
        let filter = Filter { field_id: 7, value: ID.to_owned() };
        assert_eq!(by_metrics(&entry(lower, upper, nulls), &filter), fate);
    }
}
