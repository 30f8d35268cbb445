//! Delete files: which of them apply to a data file, and which of its rows they hide.
//!
//! The rules are those of the table format's scan planning. Position deletes apply to data files of their partition that are
//! not younger than they are; equality deletes to those that are older, in their partition or, without partition fields,
//! everywhere. In equality deletes null is equal to null.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::row::{RowConverter, SortField};
use futures::TryStreamExt;
use iceberg::spec::{
    DataContentType, DataFile, DataFileFormat, ManifestEntry, ManifestEntryRef, NestedField, Schema, SchemaRef,
};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};

use crate::base::Base;
use crate::reading::Reading;
use crate::{Error, partition};

/// A live delete file.
#[derive(Clone, Debug)]
pub(crate) struct DeleteFile {
    /// Its manifest and its entry there.
    pub(crate) manifest: usize,
    pub(crate) entry: usize,
    spec_id: i32,
    global: bool,
    manifest_entry: ManifestEntryRef,
}

/// The live delete files of a table, and what has been read of them.
#[derive(Debug, Default)]
pub(crate) struct Deletes {
    files: Vec<DeleteFile>,
    positions: Mutex<HashMap<String, Arc<Positions>>>,
}

/// Deleted positions by data file.
type Positions = HashMap<String, BTreeSet<u64>>;

/// What hides rows of one data file.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    positions: BTreeSet<u64>,
    equality: Vec<EqualityDeletes>,
}

#[derive(Debug)]
struct EqualityDeletes {
    schema: SchemaRef,
    field_ids: Vec<i32>,
    converter: RowConverter,
    keys: HashSet<Box<[u8]>>,
}

impl DeleteFile {
    pub(crate) fn file(&self) -> &DataFile {
        self.manifest_entry.data_file()
    }

    fn sequence_number(&self) -> i64 {
        // Without one it belongs to the youngest snapshot there can be.
        self.manifest_entry.sequence_number().unwrap_or(i64::MAX)
    }

    fn is_position(&self) -> bool {
        self.file().content_type() == DataContentType::PositionDeletes
    }

    fn applies_to(&self, entry: &ManifestEntry, spec_id: i32) -> bool {
        let younger_than = entry.sequence_number().unwrap_or(0);
        let partition =
            || self.spec_id == spec_id && partition::is_same(self.file().partition(), entry.data_file().partition());
        if !self.is_position() {
            return self.sequence_number() > younger_than && (self.global || partition());
        }
        match self.file().referenced_data_file() {
            Some(path) => path == entry.file_path(),
            None => self.sequence_number() >= younger_than && partition(),
        }
    }
}

impl Deletes {
    pub(crate) fn of(base: &Base) -> Self {
        let mut files = Vec::new();
        for (manifest, loaded) in base.manifests.iter().enumerate().filter(|(_, loaded)| !loaded.is_data()) {
            let spec_id = loaded.file.partition_spec_id;
            let spec = base.metadata().partition_spec_by_id(spec_id);
            for (entry, manifest_entry) in loaded.entries.iter().enumerate().filter(|(_, entry)| entry.is_alive()) {
                files.push(DeleteFile {
                    manifest,
                    entry,
                    spec_id,
                    global: spec.is_some_and(|spec| spec.is_unpartitioned()),
                    manifest_entry: manifest_entry.clone(),
                });
            }
        }
        Self { files, positions: Mutex::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    fn applying_to(&self, entry: &ManifestEntry, spec_id: i32) -> impl Iterator<Item = &DeleteFile> {
        self.files.iter().filter(move |file| file.applies_to(entry, spec_id))
    }

    /// What hides rows of the data file of `entry`.
    pub(crate) async fn hidden(
        &self,
        reading: Reading<'_>,
        entry: &ManifestEntry,
        spec_id: i32,
    ) -> Result<Hidden, Error> {
        let mut hidden = Hidden::default();
        for delete in self.applying_to(entry, spec_id) {
            if delete.is_position() {
                let positions = self.positions(reading, delete.file(), entry.file_path()).await?;
                hidden.positions.extend(positions.get(entry.file_path()).into_iter().flatten());
            } else {
                hidden.equality.push(EqualityDeletes::read(reading, delete.file()).await?);
            }
        }
        Ok(hidden)
    }

    /// The positions in a delete file that `for_file` needs.
    async fn positions(
        &self,
        reading: Reading<'_>,
        delete: &DataFile,
        for_file: &str,
    ) -> Result<Arc<Positions>, Error> {
        let path = delete.file_path();
        let known = self.positions.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        if delete.file_format() != DataFileFormat::Parquet {
            let reason = format!("its rows are deleted by {path}, which is not a Parquet file");
            return Err(Error::CannotRewrite { file: for_file.to_owned(), reason });
        }
        let positions = Arc::new(read_positions(reading, delete).await?);
        self.positions.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), Arc::clone(&positions));
        Ok(positions)
    }

    /// Delete files that hide nothing any more once the data files `removed` are gone, and only those at `live` paths are
    /// left: their data file is gone, or all the data files they name are, or everything that is left is too young for
    /// them. `oldest_left` is the smallest sequence number of
    /// the data files that are left, if there are any.
    pub(crate) async fn dangling(
        &self,
        reading: Reading<'_>,
        removed: &[(&ManifestEntry, i32)],
        live: &HashSet<&str>,
        oldest_left: Option<i64>,
    ) -> Vec<&DeleteFile> {
        let mut dangling = Vec::new();
        for delete in &self.files {
            let too_old = oldest_left.is_none_or(|oldest| match delete.is_position() {
                true => delete.sequence_number() < oldest,
                false => delete.sequence_number() <= oldest,
            });
            let gone = async {
                if !delete.is_position() {
                    return false;
                }
                if let Some(path) = delete.file().referenced_data_file() {
                    return !live.contains(path.as_str());
                }
                let touched = removed.iter().any(|(entry, spec_id)| delete.applies_to(entry, *spec_id));
                if !touched {
                    return false;
                }
                // One that cannot be read is left where it is: it does no harm.
                let positions = self.positions(reading, delete.file(), "").await;
                positions.is_ok_and(|positions| positions.keys().all(|path| !live.contains(path.as_str())))
            };
            if too_old || gone.await {
                dangling.push(delete);
            }
        }
        dangling
    }
}

async fn read_positions(reading: Reading<'_>, delete: &DataFile) -> Result<Positions, Error> {
    let path = delete.file_path();
    let failed = Error::parquet("read the delete file", path);
    let builder = ParquetRecordBatchStreamBuilder::new(reading.parquet(delete)).await.map_err(&failed)?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), ["file_path", "pos"]);
    let mut batches = builder.with_projection(mask).build().map_err(&failed)?;
    let mut positions = Positions::new();
    while let Some(batch) = batches.try_next().await.map_err(&failed)? {
        let column = |name: &str, kind: &DataType| {
            let column =
                batch.column_by_name(name).ok_or_else(|| Error::broken(path, "it lacks a column of delete files"))?;
            cast(column, kind).map_err(|error| failed(error.into()))
        };
        let (paths, rows) = (column("file_path", &DataType::Utf8)?, column("pos", &DataType::Int64)?);
        let (paths, rows) = (paths.as_string::<i32>(), rows.as_primitive::<Int64Type>());
        for (of, row) in paths.iter().zip(rows) {
            let row = row.and_then(|row| u64::try_from(row).ok());
            let (Some(of), Some(row)) = (of, row) else {
                return Err(Error::broken(path, "it holds an entry without a file or position"));
            };
            match positions.get_mut(of) {
                Some(rows) => _ = rows.insert(row),
                None => _ = positions.insert(of.to_owned(), BTreeSet::from([row])),
            }
        }
    }
    Ok(positions)
}

impl EqualityDeletes {
    async fn read(reading: Reading<'_>, delete: &DataFile) -> Result<Self, Error> {
        let path = delete.file_path();
        let field_ids = delete.equality_ids().unwrap_or_default();
        if field_ids.is_empty() {
            return Err(Error::broken(path, "it is an equality delete file without columns"));
        }
        let schema = schema_of(reading, &field_ids, path)?;
        let arrow_schema =
            iceberg::arrow::schema_to_arrow_schema(&schema).map_err(Error::iceberg("read the schema"))?;
        let fields = arrow_schema.fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let failed = |error: arrow::error::ArrowError| Error::parquet("read the delete file", path)(error.into());
        let converter = RowConverter::new(fields).map_err(failed)?;
        let footer = reading.footer(delete).await?;
        let mut keys = HashSet::new();
        let mut rows = reading.rows(delete, None, &schema, &field_ids, &footer, None)?;
        while let Some(rows) = rows.try_next().await? {
            let tuples = converter.convert_columns(rows.batch.columns()).map_err(failed)?;
            keys.extend(tuples.iter().map(|tuple| Box::from(tuple.as_ref())));
        }
        drop(rows);
        Ok(Self { schema, field_ids, converter, keys })
    }
}

/// The columns of an equality delete file: they may have left the table since, so that the newest schema that has a column
/// tells its type.
fn schema_of(reading: Reading<'_>, field_ids: &[i32], path: &str) -> Result<SchemaRef, Error> {
    let metadata = reading.table.metadata();
    let mut schemas: Vec<&SchemaRef> = metadata.schemas_iter().collect();
    schemas.sort_by_key(|schema| std::cmp::Reverse(schema.schema_id()));
    let fields = field_ids.iter().map(|id| {
        let schemas = std::iter::once(metadata.current_schema()).chain(schemas.iter().copied());
        let field = schemas.into_iter().find_map(|schema| schema.field_by_id(*id));
        let field = field.ok_or_else(|| Error::broken(path, "it deletes by a column that the table never had"))?;
        Ok(NestedField::optional(*id, format!("f{id}"), field.field_type.as_ref().clone()).into())
    });
    let fields = fields.collect::<Result<Vec<_>, Error>>()?;
    Ok(Arc::new(Schema::builder().with_fields(fields).build().map_err(Error::iceberg("read the schema"))?))
}

impl Hidden {
    pub(crate) fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.equality.is_empty()
    }

    /// For each row of the file, in order, whether it is hidden. Equality deletes are looked up here, in one pass over their
    /// columns.
    pub(crate) async fn rows(
        &self,
        reading: Reading<'_>,
        file: &DataFile,
        spec: Option<&iceberg::spec::PartitionSpecRef>,
        footer: &parquet::file::metadata::ParquetMetaData,
    ) -> Result<HiddenRows, Error> {
        let mut hidden = self.positions.clone();
        for deletes in &self.equality {
            let failed =
                |error: arrow::error::ArrowError| Error::parquet("apply deletes to", file.file_path())(error.into());
            let mut rows = reading.rows(file, spec, &deletes.schema, &deletes.field_ids, footer, None)?;
            while let Some(rows) = rows.try_next().await? {
                let tuples = deletes.converter.convert_columns(rows.batch.columns()).map_err(failed)?;
                for (position, tuple) in (rows.first..).zip(&tuples) {
                    if deletes.keys.contains(tuple.as_ref()) {
                        hidden.insert(position);
                    }
                }
            }
        }
        Ok(HiddenRows(hidden))
    }
}

/// The positions of hidden rows.
#[derive(Debug, Default)]
pub(crate) struct HiddenRows(BTreeSet<u64>);

impl HiddenRows {
    pub(crate) fn contains(&self, position: u64) -> bool {
        self.0.contains(&position)
    }
}
