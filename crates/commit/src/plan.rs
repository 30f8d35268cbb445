//! Which live files hold rows to replace, and what becomes of them.
//!
//! A manifest whose partitions exclude the rows is passed over, under the partition spec it was written with. Of the other
//! files, what their entries prove is taken as proved, and the rest are opened: the statistics of their row groups first,
//! then the compared columns of the row groups that are left. Rows that delete files hide are no rows.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt};
use hexfloe_store::Store;
use iceberg::spec::{DataContentType, ManifestEntry, ManifestEntryRef, PartitionSpecRef, PrimitiveType};

use crate::Error;
use crate::base::{Base, LoadedManifest};
use crate::deletes::{DeleteFile, Deletes};
use crate::filter::{Filter, Known};
use crate::metrics::MetricsMode;
use crate::reading::{self, Reading};

/// How many files are looked at at once.
const CONCURRENT_LOOKS: usize = 4;

/// What becomes of one live file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No row matches.
    Keep,
    /// Every row that is left matches.
    Remove,
    /// Some rows match: their positions.
    Part(Vec<u64>),
}

/// A live data file that does not stay as it is: its manifest, its entry there, and its fate.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub(crate) manifest: usize,
    pub(crate) entry: usize,
    pub(crate) fate: Fate,
}

/// The overwrite of one attempt.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) touched: Vec<Touched>,
    /// The delete files of the table.
    pub(crate) deletes: Deletes,
    /// Rows of the table that are replaced.
    pub(crate) replaced_rows: u64,
}

impl Plan {
    pub(crate) async fn make(base: &Base, filter: &Filter, store: &Store) -> Result<Self, Error> {
        let mut plan = Self { deletes: Deletes::of(base), ..Self::default() };
        let looking = Looking::new(base, filter, &plan.deletes, store);
        let mut touched = Vec::new();
        for (manifest, loaded) in base.manifests.iter().enumerate().filter(|(_, loaded)| loaded.is_data()) {
            let spec = base.metadata().partition_spec_by_id(loaded.file.partition_spec_id);
            if spec.is_some_and(|spec| filter.outside_of(&loaded.file, spec)) {
                continue;
            }
            let fates = looking.fates(loaded).await?;
            touched.extend(fates.into_iter().map(|(entry, fate)| Touched { manifest, entry, fate }));
        }
        for touched in &touched {
            let loaded = &base.manifests[touched.manifest];
            plan.replaced_rows += match &touched.fate {
                Fate::Keep => 0,
                Fate::Part(rows) => rows.len() as u64,
                Fate::Remove => {
                    let entry = &loaded.entries[touched.entry];
                    looking.rows_left(entry, loaded.file.partition_spec_id).await
                }
            };
        }
        plan.touched = touched;
        Ok(plan)
    }

    /// Delete files that the plan leaves without a row to hide. `gone` are the data files it removes or rewrites.
    pub(crate) async fn dangling(&self, base: &Base, store: &Store, gone: &[&Touched]) -> Vec<&DeleteFile> {
        if self.deletes.is_empty() {
            return Vec::new();
        }
        let is_gone = |manifest: usize, entry: usize| {
            gone.iter().any(|touched| touched.manifest == manifest && touched.entry == entry)
        };
        let data = base.manifests.iter().enumerate().filter(|(_, loaded)| loaded.is_data());
        let left: Vec<&ManifestEntry> = data
            .flat_map(|(manifest, loaded)| {
                let entries = loaded.entries.iter().enumerate();
                entries.filter(move |(entry, live)| live.is_alive() && !is_gone(manifest, *entry))
            })
            .map(|(_, entry)| entry.as_ref())
            .collect();
        let live = left.iter().map(|entry| entry.file_path()).collect();
        let oldest = left.iter().map(|entry| entry.sequence_number().unwrap_or(0)).min();
        let removed: Vec<(&ManifestEntry, i32)> = gone
            .iter()
            .map(|touched| {
                let loaded = &base.manifests[touched.manifest];
                (loaded.entries[touched.entry].as_ref(), loaded.file.partition_spec_id)
            })
            .collect();
        self.deletes.dangling(Reading { table: &base.table, store }, &removed, &live, oldest).await
    }
}

/// What it takes to look at files.
struct Looking<'a> {
    base: &'a Base,
    filter: &'a Filter,
    deletes: &'a Deletes,
    reading: Reading<'a>,
    field_ids: Vec<i32>,
    types: HashMap<i32, PrimitiveType>,
    /// Lengths to which the table cuts the bounds of compared columns.
    cuts: HashMap<i32, usize>,
}

impl<'a> Looking<'a> {
    fn new(base: &'a Base, filter: &'a Filter, deletes: &'a Deletes, store: &'a Store) -> Self {
        let metadata = base.metadata();
        let schema = metadata.current_schema();
        let field_ids = filter.field_ids();
        let cut = |id: &i32| match MetricsMode::of(metadata.properties(), schema.name_by_field_id(*id)?) {
            MetricsMode::Truncate(length) => Some((*id, length)),
            _ => None,
        };
        Self {
            base,
            filter,
            deletes,
            reading: Reading { table: &base.table, store },
            types: reading::primitive_types(schema, &field_ids),
            cuts: field_ids.iter().filter_map(cut).collect(),
            field_ids,
        }
    }

    /// The entries of a manifest that do not stay.
    async fn fates(&self, loaded: &LoadedManifest) -> Result<Vec<(usize, Fate)>, Error> {
        let spec_id = loaded.file.partition_spec_id;
        let spec = self.base.metadata().partition_spec_by_id(spec_id);
        let mut open: Vec<(usize, ManifestEntryRef, Known)> = Vec::new();
        for (index, entry) in loaded.entries.iter().enumerate().filter(|(_, entry)| entry.is_alive()) {
            let known = match spec {
                Some(spec) => self.filter.known_of(entry.data_file(), spec, |id| self.cuts.get(&id).copied()),
                None => Known::Nothing,
            };
            if known != Known::None {
                open.push((index, entry.clone(), known));
            }
        }
        let fates = futures::stream::iter(open).map(|(index, entry, known)| async move {
            let fate = match known {
                Known::All => Fate::Remove,
                Known::None | Known::Nothing => self.look(&entry, spec_id, spec).await?,
            };
            Ok::<_, Error>((index, fate))
        });
        let fates: Vec<(usize, Fate)> = fates.buffered(CONCURRENT_LOOKS).try_collect().await?;
        Ok(fates.into_iter().filter(|(_, fate)| *fate != Fate::Keep).collect())
    }

    /// How many rows of a file deletes have left, to be reported. A file that goes need not be readable, so what cannot be read
    /// hides nothing.
    async fn rows_left(&self, entry: &ManifestEntry, spec_id: i32) -> u64 {
        let rows = entry.record_count();
        let hidden = async {
            let hidden = self.deletes.hidden(self.reading, entry, spec_id).await?;
            if hidden.is_empty() {
                return Ok(0);
            }
            let (file, spec) = (entry.data_file(), self.base.metadata().partition_spec_by_id(spec_id));
            let footer = self.reading.footer(file).await?;
            let hidden = hidden.rows(self.reading, file, spec, &footer).await?;
            Ok::<_, Error>((0..rows).filter(|position| hidden.contains(*position)).count() as u64)
        };
        rows - hidden.await.unwrap_or(0)
    }

    /// What the compared columns of a file say.
    async fn look(&self, entry: &ManifestEntry, spec_id: i32, spec: Option<&PartitionSpecRef>) -> Result<Fate, Error> {
        let file = entry.data_file();
        let refuse = |reason: String| Error::CannotRewrite { file: file.file_path().to_owned(), reason };
        if file.content_type() != DataContentType::Data {
            return Err(refuse("a manifest of data files lists it, and it is a delete file".to_owned()));
        }
        let reading = self.reading;
        let footer = reading.footer(file).await?;
        let rows = footer.file_metadata().num_rows().unsigned_abs();
        if rows != entry.record_count() {
            let listed = entry.record_count();
            return Err(refuse(format!("it holds {rows} rows, and its manifest says {listed}")));
        }
        reading.refuse_unreadable(file, &footer, Some(&self.field_ids))?;
        let wanted: Vec<usize> = (0..footer.num_row_groups())
            .filter(|group| {
                self.filter.may_be_within(|id| reading::row_group_ends(&footer, *group, id, self.types.get(&id)?))
            })
            .collect();
        if wanted.is_empty() {
            return Ok(Fate::Keep);
        }
        let schema = self.base.metadata().current_schema();
        let wanted = (wanted.len() < footer.num_row_groups()).then_some(wanted);
        let mut batches = reading.rows(file, spec, schema, &self.field_ids, &footer, wanted.as_deref())?;
        let mut matching = Vec::new();
        while let Some(rows) = batches.try_next().await? {
            let matches = self
                .filter
                .matches(&rows.batch)
                .map_err(|error| Error::parquet("compare the rows of", file.file_path())(error.into()))?;
            matching.extend((rows.first..).zip(matches.values()).filter(|(_, is)| *is).map(|(position, _)| position));
        }
        if matching.is_empty() {
            return Ok(Fate::Keep);
        }
        if matching.len() as u64 == rows {
            return Ok(Fate::Remove);
        }
        let hidden = self.deletes.hidden(reading, entry, spec_id).await?;
        let mut left = rows;
        if !hidden.is_empty() {
            let hidden = hidden.rows(reading, file, spec, &footer).await?;
            matching.retain(|position| !hidden.contains(*position));
            left = (0..rows).filter(|position| !hidden.contains(*position)).count() as u64;
        }
        Ok(match matching.len() as u64 {
            0 => Fate::Keep,
            all if all == left => Fate::Remove,
            _ => Fate::Part(matching),
        })
    }
}
