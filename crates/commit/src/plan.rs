//! Which live files hold rows of the batch, and what becomes of them.
//!
//! A file's bounds are used in two different ways. They prove *absence* whenever the batch id lies outside them, cut
//! or not: a cut lower bound is still a lower bound. They prove that *every* row is of the batch only when both are
//! the id itself and the number of nulls is known to be zero. In every other case the file is opened and its batch
//! column read.

use futures::TryStreamExt;
use hexfloe_store::Store;
use iceberg::spec::{DataFile, DataFileFormat, ManifestEntry, PrimitiveLiteral};
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
    let bound =
        |bounds: &std::collections::HashMap<i32, iceberg::spec::Datum>| match bounds.get(&filter.field_id)?.literal() {
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

    use iceberg::spec::{DataContentType, DataFileBuilder, Datum, ManifestStatus};
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
