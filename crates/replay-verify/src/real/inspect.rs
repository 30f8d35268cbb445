//! What has to be true of a table, looked at with a reader that is not Hexfloe's: the scan of the `iceberg` crate for rows, and
//! its manifests for files.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Date32Type, Float64Type, Int64Type};
use futures::TryStreamExt;
use hexfloe_batch::{BATCH_ID_COLUMN, Sha256Hex};
use hexfloe_catalog::OpenCatalog;
use hexfloe_commit::{history, names};
use hexfloe_store::Location;
use iceberg::spec::{ManifestContentType, SnapshotRef};
use iceberg::table::Table;
use parquet::file::metadata::ParquetMetaDataReader;

use crate::real::rows::{Row, rows_of_all};
use crate::scenario::{Batch, End};
use crate::table::Trouble;

/// Why a scenario goes no further.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A promise was broken: how.
    Broken(String),
    /// It makes no sense with this catalog and store: why.
    NotHere(&'static str),
    /// A run says that it cannot reach the catalog or the store, or that they do not do what they have to.
    Unavailable(String),
    /// Something else went wrong.
    Failed(Trouble),
}

impl<E: Into<Trouble>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn broken<T>(reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Broken(reason.into()))
}

/// What a table has to be.
pub(crate) struct Expected<'a> {
    pub(crate) end: &'a End,
    /// The ids of batches, by number.
    pub(crate) ids: &'a BTreeMap<u64, String>,
}

/// A file that a table refers to.
struct Referenced {
    path: String,
    size: u64,
    records: u64,
    is_data: bool,
}

/// Looks at a table, and compares it with what it has to be.
pub(crate) async fn inspect(catalog: &OpenCatalog, table: &Table, expected: &Expected<'_>) -> Result<(), Stop> {
    files(catalog, table).await?;
    rows(table, expected).await?;
    books(table, expected)
}

/// The part of it that is about files: they are there, and as many as the summary says.
pub(crate) async fn files(catalog: &OpenCatalog, table: &Table) -> Result<(), Stop> {
    let files = referenced(catalog, table).await?;
    totals(table, &files)
}

/// The part of it that is about what is recorded: snapshots and ledger.
pub(crate) fn books(table: &Table, expected: &Expected<'_>) -> Result<(), Stop> {
    snapshots(table, expected)?;
    ledger(table, expected)
}

/// Every file that any snapshot refers to is there, has its size, and can be opened; gives those of the head.
async fn referenced(catalog: &OpenCatalog, table: &Table) -> Result<Vec<Referenced>, Stop> {
    let mut snapshots: Vec<&SnapshotRef> = table.metadata().snapshots().collect();
    snapshots.sort_by_key(|snapshot| snapshot.sequence_number());
    let head = table.metadata().current_snapshot_id();
    let (mut of_head, mut opened) = (Vec::new(), BTreeSet::new());
    for snapshot in snapshots {
        let snapshot_id = snapshot.snapshot_id();
        let unreadable = |what: &str, error: &dyn std::fmt::Display| {
            Stop::Broken(format!("snapshot {snapshot_id} cannot be read: {what}: {error}"))
        };
        let list = table.manifest_list_reader(snapshot).load().await;
        let list = list.map_err(|error| unreadable(snapshot.manifest_list(), &error))?;
        for file in list.entries() {
            let manifest = file.load_manifest(table.file_io()).await;
            let manifest = manifest.map_err(|error| unreadable(&file.manifest_path, &error))?;
            for entry in manifest.entries().iter().filter(|entry| entry.is_alive()) {
                let file = Referenced {
                    path: entry.file_path().to_owned(),
                    size: entry.data_file().file_size_in_bytes(),
                    records: entry.data_file().record_count(),
                    is_data: file.content == ManifestContentType::Data,
                };
                if opened.insert(file.path.clone()) {
                    open(catalog, &file).await.map_err(|error| unreadable(&file.path, &error))?;
                }
                if Some(snapshot_id) == head {
                    of_head.push(file);
                }
            }
        }
    }
    Ok(of_head)
}

async fn open(catalog: &OpenCatalog, file: &Referenced) -> Result<(), Trouble> {
    let bytes = catalog.store().read(&file.path).await?;
    if bytes.len() as u64 != file.size {
        return Err(format!("it has {} bytes, and {} are recorded", bytes.len(), file.size).into());
    }
    let footer = ParquetMetaDataReader::new().parse_and_finish(&bytes)?;
    let records = u64::try_from(footer.file_metadata().num_rows())?;
    if records != file.records {
        return Err(format!("it has {records} rows, and {} are recorded", file.records).into());
    }
    Ok(())
}

/// What the summary of the head says is what there is.
fn totals(table: &Table, files: &[Referenced]) -> Result<(), Stop> {
    let Some(head) = table.metadata().current_snapshot() else { return Ok(()) };
    let data = || files.iter().filter(|file| file.is_data);
    let counted = [
        ("total-data-files", data().count() as u64),
        ("total-records", data().map(|file| file.records).sum()),
        ("total-files-size", files.iter().map(|file| file.size).sum()),
    ];
    for (name, counted) in counted {
        let said = head.summary().additional_properties.get(name).and_then(|said| said.parse::<u64>().ok());
        if said.is_some_and(|said| said != counted) {
            return broken(format!("the summary says {name} = {}, and there are {counted}", said.unwrap_or_default()));
        }
    }
    Ok(())
}

/// The rows are those of the batches, each once.
async fn rows(table: &Table, expected: &Expected<'_>) -> Result<(), Stop> {
    let wanted = rows_of_all(&expected.end.batches)?;
    let ids: BTreeMap<&str, u64> = expected.ids.iter().map(|(number, id)| (id.as_str(), *number)).collect();
    let mut found: Vec<Row> = Vec::new();
    if table.metadata().current_snapshot().is_some() {
        let scan = table.scan().select_all().build()?.to_arrow().await;
        let batches = match scan {
            Ok(scan) => scan.try_collect::<Vec<RecordBatch>>().await,
            Err(error) => Err(error),
        };
        let batches = batches.map_err(|error| Stop::Broken(format!("the table cannot be read: {error}")))?;
        for batch in &batches {
            found.extend(
                decode(batch, &ids).map_err(|error| Stop::Broken(format!("the rows cannot be read: {error}")))?,
            );
        }
    }
    found.sort_by_key(|row| row.n);
    let (count, distinct) = (found.len(), found.iter().map(|row| row.n).collect::<BTreeSet<_>>().len());
    if distinct < count {
        return broken(format!(
            "{} rows are in the table more than once ({count} rows, {distinct} different)",
            count - distinct
        ));
    }
    let numbers: BTreeSet<i64> = found.iter().map(|row| row.n).collect();
    if let Some((n, row)) = wanted.iter().find(|(n, _)| !numbers.contains(n)) {
        let missing = wanted.keys().filter(|n| !numbers.contains(n)).count();
        return broken(format!("{missing} rows are missing (the first: n = {n}, of batch {})", row.batch));
    }
    if let Some(row) = found.iter().find(|row| !wanted.contains_key(&row.n)) {
        return broken(format!("{} rows are too much (one: {row:?})", count - wanted.len()));
    }
    let wanted: Vec<Row> = wanted.into_values().collect();
    for (name, column) in COLUMNS {
        let (found, wanted) = (digest(&found, column), digest(&wanted, column));
        if found != wanted {
            return broken(format!(
                "column {name} has other values than its input: digest {found} instead of {wanted}"
            ));
        }
    }
    let mut batches: Vec<u64> = wanted.iter().map(|row| row.batch).collect();
    batches.dedup();
    for number in batches {
        let of =
            |rows: &[Row]| digest(&rows.iter().filter(|row| row.batch == number).cloned().collect::<Vec<_>>(), whole);
        if of(&found) != of(&wanted) {
            return broken(format!("batch {number} has other rows than its input"));
        }
    }
    Ok(())
}

type Value = fn(&Row) -> Vec<u8>;

const COLUMNS: [(&str, Value); 7] = [
    ("n", |row| row.n.to_le_bytes().to_vec()),
    ("lat", |row| row.lat.to_le_bytes().to_vec()),
    ("lon", |row| row.lon.to_le_bytes().to_vec()),
    ("label", |row| row.label.clone().into_bytes()),
    ("day", |row| row.day.to_le_bytes().to_vec()),
    ("h3_cell", |row| row.cell.to_le_bytes().to_vec()),
    (BATCH_ID_COLUMN, |row| row.batch.to_le_bytes().to_vec()),
];

fn whole(row: &Row) -> Vec<u8> {
    COLUMNS.iter().flat_map(|(_, column)| column(row)).collect()
}

/// The digest of a column, or of whole rows, in the order of the rows.
fn digest(rows: &[Row], value: Value) -> Sha256Hex {
    let mut bytes = Vec::new();
    for row in rows {
        let value = value(row);
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&value);
    }
    Sha256Hex::of(bytes)
}

fn decode(batch: &RecordBatch, ids: &BTreeMap<&str, u64>) -> Result<Vec<Row>, Trouble> {
    let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("there is no column {name}"));
    let null = (0..batch.num_columns()).find(|index| batch.column(*index).null_count() > 0);
    if let Some(index) = null {
        return Err(format!("column {} has nulls", batch.schema().field(index).name()).into());
    }
    let n = column("n")?.as_primitive::<Int64Type>();
    let (lat, lon) = (column("lat")?.as_primitive::<Float64Type>(), column("lon")?.as_primitive::<Float64Type>());
    let (label, id) = (column("label")?.as_string::<i32>(), column(BATCH_ID_COLUMN)?.as_string::<i32>());
    let day = column("day")?.as_primitive::<Date32Type>();
    let cell = column("h3_cell")?.as_primitive::<Int64Type>();
    let row = |index: usize| -> Result<Row, Trouble> {
        let id = id.value(index);
        Ok(Row {
            n: n.value(index),
            lat: lat.value(index),
            lon: lon.value(index),
            label: label.value(index).to_owned(),
            day: day.value(index),
            cell: cell.value(index),
            batch: *ids.get(id).ok_or_else(|| format!("no batch has the id {id}"))?,
        })
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Every commit of ours is one snapshot, which says of which batches it is.
fn snapshots(table: &Table, expected: &Expected<'_>) -> Result<(), Stop> {
    let Some(wanted) = expected.end.snapshots else { return Ok(()) };
    let ours = |snapshot: &&SnapshotRef| {
        let properties = &snapshot.summary().additional_properties;
        properties.contains_key(names::SUMMARY_BATCH_ID) || properties.contains_key(names::SUMMARY_BATCHES)
    };
    let found = table.metadata().snapshots().filter(ours).count();
    if found != wanted {
        return broken(format!("there are {found} snapshots with batches, and {wanted} commits were told"));
    }
    Ok(())
}

/// The ledger holds each of the batches once.
fn ledger(table: &Table, expected: &Expected<'_>) -> Result<(), Stop> {
    let known: Vec<String> =
        history(table.metadata()).into_iter().filter(|record| record.in_ledger).map(|record| record.batch_id).collect();
    let distinct: BTreeSet<&String> = known.iter().collect();
    if distinct.len() < known.len() {
        return broken("the ledger has a batch more than once");
    }
    if !expected.end.in_ledger {
        return Ok(());
    }
    let id = |batch: &Batch| expected.ids.get(&batch.number);
    let wanted: BTreeSet<&String> = expected.end.batches.iter().filter_map(id).collect();
    if let Some(missing) = wanted.difference(&distinct).next() {
        return broken(format!("the ledger lacks batch {missing}, which is in the table"));
    }
    if let Some(surplus) = distinct.difference(&wanted).next() {
        return broken(format!("the ledger has batch {surplus}, which is not in the table"));
    }
    Ok(())
}

/// What a table is, to be compared with what it is later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    metadata_location: Option<String>,
    /// All objects in its place, with their sizes.
    objects: BTreeMap<String, u64>,
    /// The digests of the data files of its head, sorted.
    digests: Vec<Sha256Hex>,
}

impl State {
    pub(crate) async fn of(catalog: &OpenCatalog, table: &Table) -> Result<Self, Stop> {
        let mut digests = Vec::new();
        for file in referenced(catalog, table).await? {
            digests.push(Sha256Hex::of(catalog.store().read(&file.path).await?));
        }
        digests.sort_by_key(ToString::to_string);
        let objects = objects(catalog, table).await?;
        Ok(Self { metadata_location: table.metadata_location().map(str::to_owned), objects, digests })
    }

    /// Whether the table is what it was. Files that nothing refers to may have come.
    pub(crate) fn unchanged(&self, now: &Self) -> Result<(), Stop> {
        if self.metadata_location != now.metadata_location {
            return broken("the table was changed, and was to be left alone");
        }
        now.keeps(&self.objects)
    }

    /// Whether the data files have the bytes they had.
    pub(crate) fn same_bytes(&self, now: &Self) -> Result<(), Stop> {
        if self.digests == now.digests { Ok(()) } else { broken("the same input made other bytes") }
    }

    /// Whether all of these objects are still there.
    pub(crate) fn keeps(&self, objects: &BTreeMap<String, u64>) -> Result<(), Stop> {
        match objects.iter().find(|(path, size)| self.objects.get(*path) != Some(*size)) {
            None => Ok(()),
            Some((path, _)) => broken(format!("{path} was there, and is gone or another one")),
        }
    }
}

/// All objects in the place of a table, with their sizes.
pub(crate) async fn objects(catalog: &OpenCatalog, table: &Table) -> Result<BTreeMap<String, u64>, Trouble> {
    let place = Location::parse(table.metadata().location())?;
    let listed = catalog.store().list(&place).map_ok(|listed| (listed.location.to_string(), listed.size));
    Ok(listed.try_collect().await?)
}
