//! GeoPackage: a layer of an SQLite database (OGC 12-128r19).
//!
//! The file is opened so that SQLite writes no byte to it or beside it: as immutable. A write-ahead log beside it holds rows that
//! are not in the file yet; then both are copied to a private temporary folder, which takes as much room as they do, and the
//! copy is opened. A rollback journal of an unfinished write is refused. The database is not trusted: no views, triggers or
//! virtual tables are run, values are bounded, and rows come page by page in the order of the primary key, which must rise.
//!
//! Only tables can be layers, though the specification allows views: what a view gives is the result of SQL that the file
//! brings, with no bound and no order. SQLite stores any value in any column; one that is not of its column's declared type is
//! a reject. The primary key is the feature id and not a column, unless `[source.schema]` names it.
//!
//! `DATETIME` is an instant in UTC (table 1 of the specification). A `Z` or no zone means UTC, an offset is applied, and seconds
//! or the whole time of day may be left out.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder, Int64Array};
use arrow::datatypes::{DataType, Field};
use hexfloe_crs::Crs;
use hexfloe_geometry::{Limits, Problem};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tempfile::TempDir;

use crate::error::{Error, one_line};
use crate::files::{CHUNK, InputFile, Sequential};
use crate::geo::{self, GeometryColumn, StatedCrs};
use crate::layers::{Cells, LARGEST_BATCH, Layer, LayerOptions, Rows, Value, private_folder};
use crate::scan::Rejects;
use crate::{names, text, types};

/// What an SQLite database begins with.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// What a rollback journal begins with that has yet to be rolled back.
const HOT_JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The most rows that are read of a table that describes the file.
const MOST_METADATA: usize = 100_000;

/// SQLite needs this much to read the schema, whatever the limit of a record is.
const LEAST_LENGTH: usize = 1 << 20;

/// Opens the layer of a file.
pub(crate) fn open(input: &InputFile, options: &LayerOptions) -> Result<Box<dyn Layer>, Error> {
    Ok(Box::new(Table::open(input, options)?))
}

/// A table of rows, at some row.
struct Table {
    database: Database,
    name: Arc<str>,
    columns: Vec<Field>,
    geometries: Vec<GeometryColumn>,
    attributes: Vec<Attribute>,
    srs_id: Option<i64>,
    estimated_rows: Option<u64>,
    query: String,
    /// The key of the last row that was read.
    after: Option<i64>,
    limits: Limits,
    record_bytes: usize,
    /// How many more bytes the values of the rows may have. Rows of a damaged file can share pages, and have no end.
    left: u64,
}

/// A column that is not the geometry.
struct Attribute {
    name: String,
    kind: Kind,
    data_type: DataType,
    /// Whether the values are not in the file, but made from those of other columns.
    is_computed: bool,
}

/// How values of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// As the type says.
    Plain,
    /// Text that is a date.
    Date,
    /// Text that is an instant.
    Instant,
    /// A declared type that GeoPackage does not know: numbers are written as text.
    Anything,
}

impl Table {
    fn open(input: &InputFile, options: &LayerOptions) -> Result<Self, Error> {
        let database = Database::open(input, options)?;
        let name = database.choose(options.layer.as_deref())?;
        let stated = database.columns(&name)?;
        let geometry = database.geometry(&name)?;
        // Not quoted where it has no column: in quotes it could be taken for a text.
        let key = match stated.iter().find(|column| column.is_key) {
            Some(column) => quoted(&column.name),
            None => hidden_key(&stated).ok_or_else(|| {
                Error::unreadable(input.path(), format!("layer `{name}` has no integer primary key, so no order"))
            })?,
        };
        let mut columns = Vec::new();
        let mut attributes = Vec::new();
        for column in &stated {
            let is_geometry = geometry.as_ref().is_some_and(|(geometry, _)| *geometry == column.name);
            if is_geometry || (column.is_key && options.declared.of_job(&column.name).is_none()) {
                continue;
            }
            let (mut kind, mut data_type) = type_of(&column.declared);
            if matches!(kind, Kind::Date | Kind::Instant) && options.declares_other(&column.name, &data_type) {
                (kind, data_type) = (Kind::Plain, DataType::Utf8View);
            }
            columns.push(Field::new(&column.name, data_type.clone(), true));
            attributes.push(Attribute { name: column.name.clone(), kind, data_type, is_computed: column.is_computed });
        }
        let mut geometries = Vec::new();
        if let Some((column, srs_id)) = &geometry {
            if !stated.iter().any(|stated| stated.name == *column) {
                let problem = format!(
                    "gpkg_geometry_columns names `{column}` as the geometry of `{name}`, which has no such column"
                );
                return Err(Error::unreadable(input.path(), problem));
            }
            columns.push(Field::new(column, DataType::BinaryView, true));
            let crs = database.crs(*srs_id)?;
            geometries.push(GeometryColumn { column: column.clone(), encoding: "WKB".to_owned(), crs });
        }
        let selected = std::iter::once(key.clone()).chain(columns.iter().map(|column| quoted(column.name())));
        let selected = selected.collect::<Vec<_>>().join(", ");
        let from = quoted(&name);
        let query = format!("SELECT {selected} FROM main.{from} WHERE {key} >= ?1 ORDER BY {key} LIMIT ?2");
        let mut table = Self {
            estimated_rows: database.estimated_rows(&name),
            database,
            name: name.into(),
            columns,
            geometries,
            attributes,
            srs_id: geometry.map(|(_, srs_id)| srs_id),
            query,
            after: None,
            limits: options.of_geometries(),
            record_bytes: options.record_bytes(),
            // Text in UTF-16 can be half as long again in UTF-8.
            left: input.parts().map(InputFile::size).sum::<u64>().saturating_mul(2),
        };
        table.database.prepare(&table.name, &table.query)?;
        input.check_unchanged()?;
        Ok(table)
    }
}

impl Layer for Table {
    fn columns(&self) -> &[Field] {
        &self.columns
    }

    fn geometries(&self) -> &[GeometryColumn] {
        &self.geometries
    }

    fn rows(&self) -> Option<u64> {
        self.estimated_rows
    }

    fn name(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.name))
    }

    fn read(&mut self, most: usize) -> Result<Rows, Error> {
        let refuse = |after: Option<i64>, problem: String| {
            let place = after.map_or_else(|| "the first row".to_owned(), |after| format!("the row behind fid {after}"));
            Error::unreadable(&self.database.file, format!("layer `{}`, {place}: {problem}", self.name))
        };
        let mut block = Block::new(&self.attributes, &self.geometries);
        let mut ended = true;
        let mut after = self.after;
        if after != Some(i64::MAX) {
            let mut statement = self
                .database
                .connection
                .prepare_cached(&self.query)
                .map_err(|error| refuse(after, one_line(&error)))?;
            let start = after.map_or(i64::MIN, |after| after.saturating_add(1));
            let limit = i64::try_from(most).unwrap_or(i64::MAX);
            let mut rows = statement.query([start, limit]).map_err(|error| refuse(after, one_line(&error)))?;
            while let Some(row) = rows.next().map_err(|error| refuse(after, explained(&error)))? {
                let key = row.get_ref(0).ok().and_then(|key| key.as_i64().ok());
                let Some(key) = key.filter(|key| after.is_none_or(|after| *key > after)) else {
                    return Err(refuse(after, "the primary key does not rise: the file is damaged".to_owned()));
                };
                block.push(self, row, key).map_err(|problem| refuse(after, problem))?;
                if block.stored as u64 > self.left {
                    return Err(refuse(after, "the rows hold more than the file does: it is damaged".to_owned()));
                }
                after = Some(key);
                if block.keys.len() == most || block.bytes >= LARGEST_BATCH {
                    ended = false;
                    break;
                }
            }
        }
        self.after = after;
        self.left = self.left.saturating_sub(block.stored as u64);
        Ok(block.finish(ended))
    }
}

/// Rows while they are read.
struct Block {
    keys: Vec<i64>,
    cells: Vec<Cells>,
    geometries: Option<BinaryViewBuilder>,
    wkb: Vec<u8>,
    rejects: Rejects,
    bytes: usize,
    /// How many of the bytes are in the file.
    stored: usize,
}

impl Block {
    fn new(attributes: &[Attribute], geometries: &[GeometryColumn]) -> Self {
        Self {
            keys: Vec::new(),
            cells: attributes.iter().map(|attribute| Cells::new(&attribute.data_type)).collect(),
            geometries: geometries.first().map(|_| BinaryViewBuilder::new()),
            wkb: Vec::new(),
            rejects: Rejects::default(),
            bytes: 0,
            stored: 0,
        }
    }

    fn push(&mut self, table: &Table, row: &Row<'_>, key: i64) -> Result<(), String> {
        let number = self.keys.len();
        let mut place = 0;
        let mut next = || {
            place += 1;
            row.get_ref(place).map_err(|error| one_line(&error))
        };
        for (attribute, cells) in table.attributes.iter().zip(&mut self.cells) {
            let value = next()?;
            let size = size_of(value);
            if size > table.record_bytes {
                return Err(format!("`{}` has {size} bytes, more than source.limits.record_bytes", attribute.name));
            }
            self.bytes += size;
            self.stored += if attribute.is_computed { 0 } else { in_file(value) };
            if !attribute.push(value, cells) {
                let wanted = match attribute.kind {
                    Kind::Instant => "timestamptz".to_owned(),
                    _ => types::name_of(&attribute.data_type),
                };
                self.rejects.unparsable(number, &attribute.name, &shown(value), &wanted);
            }
        }
        if let Some(geometries) = &mut self.geometries {
            match next()? {
                ValueRef::Null => geometries.append_null(),
                ValueRef::Blob(blob) if blob.len() > table.record_bytes => {
                    return Err(format!("the geometry has {} bytes, more than source.limits.record_bytes", blob.len()));
                }
                ValueRef::Blob(blob) => {
                    self.wkb.clear();
                    self.bytes += blob.len();
                    self.stored += blob.len();
                    match geometry(blob, table.srs_id, &table.limits, &mut self.wkb) {
                        Ok(()) => geometries.append_value(&self.wkb),
                        Err(problem) => {
                            geometries.append_null();
                            self.rejects.geometry(number, problem);
                        }
                    }
                }
                other => {
                    geometries.append_null();
                    let problem = Problem::Unreadable(format!("it is {}, not a geometry", shown(other)));
                    self.rejects.geometry(number, problem);
                }
            }
        }
        self.keys.push(key);
        Ok(())
    }

    fn finish(mut self, last: bool) -> Rows {
        let mut columns: Vec<ArrayRef> = self.cells.iter_mut().map(Cells::finish).collect();
        if let Some(mut geometries) = self.geometries {
            columns.push(Arc::new(geometries.finish()));
        }
        let count = self.keys.len();
        let feature_ids: ArrayRef = Arc::new(Int64Array::from(self.keys));
        Rows { columns, count, feature_ids: Some(feature_ids), rejects: self.rejects, last }
    }
}

/// Appends the geometry of a blob to `out`.
fn geometry(blob: &[u8], srs_id: Option<i64>, limits: &Limits, out: &mut Vec<u8>) -> Result<(), Problem> {
    let found = hexfloe_geometry::from_geopackage(blob, limits, out)?.srs_id;
    // 0 and -1 mean that it is not defined, which some writers leave in the geometry while the layer says more.
    let differs = Some(i64::from(found)).filter(|found| ![0, -1].contains(found));
    match (differs, srs_id) {
        (Some(found), Some(wanted)) if found != wanted => {
            let cause = format!("it is in the reference system {found}, and its layer is in {wanted}");
            Err(Problem::Unreadable(cause))
        }
        _ => Ok(()),
    }
}

impl Attribute {
    /// Appends a value; false if it is not of the type.
    fn push(&self, value: ValueRef<'_>, cells: &mut Cells) -> bool {
        let found = match (self.kind, value) {
            (_, ValueRef::Null) => {
                cells.push_null();
                return true;
            }
            (Kind::Date, ValueRef::Text(text)) => std::str::from_utf8(text).ok().and_then(text::date).map(Value::Date),
            (Kind::Instant, ValueRef::Text(text)) => {
                std::str::from_utf8(text).ok().and_then(instant).map(Value::Instant)
            }
            (Kind::Date | Kind::Instant, _) => None,
            (Kind::Anything, ValueRef::Integer(value)) => return cells.push(Value::Text(&value.to_string())),
            (Kind::Anything, ValueRef::Real(value)) => return cells.push(Value::Text(&value.to_string())),
            (_, ValueRef::Integer(value)) => Some(Value::Integer(value)),
            (_, ValueRef::Real(value)) => Some(Value::Float(value)),
            (_, ValueRef::Text(text)) => std::str::from_utf8(text).ok().map(Value::Text),
            (_, ValueRef::Blob(bytes)) => Some(Value::Bytes(bytes)),
        };
        match found {
            Some(value) => cells.push(value),
            None => {
                cells.push_null();
                false
            }
        }
    }
}

/// An instant: a date, or a date and a time of day, with a zone or in UTC.
pub(crate) fn instant(text: &str) -> Option<i64> {
    let with_seconds;
    let bytes = text.as_bytes();
    // `2024-05-06T07:08Z`: what GeoPackage 1.4 calls a precision of minutes.
    let text = if bytes.len() >= 16 && bytes.get(16) != Some(&b':') && bytes.get(13) == Some(&b':') {
        with_seconds = format!("{}:00{}", text.get(..16)?, text.get(16..)?);
        &with_seconds
    } else {
        text
    };
    text::timestamptz(text).or_else(|| text::timestamp(text))
}

/// The bytes that a value takes in a batch.
fn size_of(value: ValueRef<'_>) -> usize {
    16 + in_file(value)
}

/// The bytes that a value takes in the file, of those that can be many.
fn in_file(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    }
}

/// A value for people.
fn shown(value: ValueRef<'_>) -> String {
    const LONGEST: usize = 400;
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => value.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text.get(..LONGEST).unwrap_or(text)).into_owned(),
        ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

fn explained(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::TooBig) => "is larger than source.limits.record_bytes".to_owned(),
        _ => one_line(error),
    }
}

/// The type of a column that is declared so, by the names of GeoPackage and, for any other, by SQLite's own rules.
fn type_of(declared: &str) -> (Kind, DataType) {
    const GEOMETRIES: [&str; 9] = [
        "GEOMETRY",
        "POINT",
        "LINESTRING",
        "POLYGON",
        "MULTIPOINT",
        "MULTILINESTRING",
        "MULTIPOLYGON",
        "GEOMETRYCOLLECTION",
        "CURVEPOLYGON",
    ];
    let upper = declared.trim().to_uppercase();
    let name = upper.split('(').next().unwrap_or_default().trim();
    let plain = |data_type| (Kind::Plain, data_type);
    match name {
        "BOOLEAN" => plain(DataType::Boolean),
        "TINYINT" | "SMALLINT" | "MEDIUMINT" => plain(DataType::Int32),
        "INT" | "INTEGER" => plain(DataType::Int64),
        "FLOAT" | "DOUBLE" | "REAL" => plain(DataType::Float64),
        "TEXT" => plain(DataType::Utf8View),
        "BLOB" => plain(DataType::BinaryView),
        "DATE" => (Kind::Date, DataType::Date32),
        "DATETIME" | "TIMESTAMP" => (Kind::Instant, types::timestamptz()),
        name if GEOMETRIES.contains(&name) => plain(DataType::BinaryView),
        name if name.contains("INT") => plain(DataType::Int64),
        name if ["CHAR", "CLOB", "TEXT"].iter().any(|part| name.contains(part)) => plain(DataType::Utf8View),
        name if name.contains("BLOB") => plain(DataType::BinaryView),
        name if ["REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL"].iter().any(|part| name.contains(part)) => {
            plain(DataType::Float64)
        }
        _ => (Kind::Anything, DataType::Utf8View),
    }
}

/// A column as the database declares it.
struct Stated {
    name: String,
    declared: String,
    /// Whether it is the integer primary key, which is the row's number too.
    is_key: bool,
    is_computed: bool,
}

/// The name under which a table without an integer primary key gives the numbers of its rows.
fn hidden_key(columns: &[Stated]) -> Option<String> {
    let free = |name: &&str| !columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    ["rowid", "_rowid_", "oid"].iter().copied().find(free).map(ToOwned::to_owned)
}

/// An identifier of SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A GeoPackage that is open for reading.
struct Database {
    file: String,
    connection: Connection,
    /// The copy that is open instead of the file. Removed when it is closed, which comes first.
    _copy: Option<TempDir>,
}

impl Database {
    fn open(input: &InputFile, options: &LayerOptions) -> Result<Self, Error> {
        check_magic(input)?;
        check_journal(input)?;
        let wal = input.companions().iter().find(|companion| companion.path().ends_with("-wal"));
        let (copy, path, immutable) = match wal {
            None => (None, input.location().to_owned(), true),
            Some(wal) => {
                let (folder, path) = copied(input, wal)?;
                (Some(folder), path, false)
            }
        };
        let refuse = |error: rusqlite::Error| Error::unreadable(input.path(), one_line(&error));
        let uri = uri(&path, immutable).map_err(Error::io(input.path(), "find the folder of"))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri, flags).map_err(refuse)?;
        let longest = i32::try_from(options.record_bytes().max(LEAST_LENGTH)).unwrap_or(i32::MAX);
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, longest);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(refuse)?;
        connection
            .execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA query_only = ON; PRAGMA mmap_size = 0;")
            .map_err(refuse)?;
        Ok(Self { file: input.path().to_owned(), connection, _copy: copy })
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::unreadable(&self.file, problem)
    }

    /// Whether there is a table of this name, and not a view or a virtual table.
    fn is_table(&self, name: &str) -> Result<bool, Error> {
        let kinds = self.rows_of("SELECT type FROM pragma_table_list(?1) WHERE schema = 'main'", &[name], |row| {
            row.get::<_, String>(0)
        })?;
        match kinds.first().map(String::as_str) {
            None => Ok(false),
            Some("table") => Ok(true),
            Some(kind) => {
                let problem =
                    format!("`{name}` is a {kind}, and only tables are read: export the layer to a file of its own");
                Err(self.refuse(problem))
            }
        }
    }

    /// The first rows of a query about the file, of which there is never an unbounded number.
    fn rows_of<T>(
        &self,
        query: &str,
        parameters: &[&str],
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Error> {
        let failed = |error: rusqlite::Error| {
            let problem = format!("{}: it is no GeoPackage, or it is damaged or cut off", one_line(&error));
            self.refuse(problem)
        };
        let mut statement = self.connection.prepare(query).map_err(failed)?;
        let mut rows = statement.query(rusqlite::params_from_iter(parameters)).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            if found.len() == MOST_METADATA {
                return Err(self.refuse(format!("has more than {MOST_METADATA} rows in a table about itself")));
            }
            found.push(read(row).map_err(failed)?);
        }
        Ok(found)
    }

    /// The layer that is meant.
    fn choose(&self, wanted: Option<&str>) -> Result<String, Error> {
        if !self.is_table("gpkg_contents")? {
            let problem =
                "is an SQLite database without gpkg_contents, so no GeoPackage: convert it, for example with ogr2ogr";
            return Err(self.refuse(problem));
        }
        let contents = self.rows_of("SELECT table_name, data_type FROM main.gpkg_contents", &[], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        let mut layers: Vec<&str> = contents
            .iter()
            .filter(|(_, kind)| ["features", "attributes"].iter().any(|known| kind.eq_ignore_ascii_case(known)))
            .map(|(name, _)| name.as_str())
            .collect();
        layers.sort_unstable();
        let name = choose(wanted, &layers).map_err(|problem| problem.into_error(&self.file))?;
        if !self.is_table(name)? {
            return Err(self.refuse(format!("gpkg_contents names the layer `{name}`, and there is no such table")));
        }
        Ok(name.to_owned())
    }

    fn columns(&self, table: &str) -> Result<Vec<Stated>, Error> {
        let query = "SELECT name, type, pk, hidden FROM pragma_table_xinfo(?1, 'main') ORDER BY cid";
        let columns = self.rows_of(query, &[table], |row| {
            let (name, declared) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
            Ok((name, declared, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?))
        })?;
        let keys = columns.iter().filter(|(_, _, key, _)| *key > 0).count();
        // 1 is a hidden column of a virtual table; 2 and 3 are computed, and columns like others.
        let columns = columns.into_iter().filter(|(_, _, _, hidden)| *hidden != 1);
        let columns = columns.map(|(name, declared, key, hidden)| {
            let is_key = key > 0 && keys == 1 && declared.eq_ignore_ascii_case("INTEGER");
            Stated { name, declared, is_key, is_computed: hidden != 0 }
        });
        Ok(columns.collect())
    }

    /// The geometry column of a table and the number of its reference system.
    fn geometry(&self, table: &str) -> Result<Option<(String, i64)>, Error> {
        let kinds = self.rows_of("SELECT table_name, data_type FROM main.gpkg_contents", &[], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        let has_features = kinds.iter().any(|(name, kind)| name == table && kind.eq_ignore_ascii_case("features"));
        if !has_features {
            return Ok(None);
        }
        let missing =
            || self.refuse(format!("gpkg_geometry_columns does not say which column of `{table}` is the geometry"));
        if !self.is_table("gpkg_geometry_columns")? {
            return Err(missing());
        }
        let query = "SELECT table_name, column_name, srs_id FROM main.gpkg_geometry_columns";
        let columns = self.rows_of(query, &[], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
        })?;
        let found = columns.into_iter().find(|(name, _, _)| name.eq_ignore_ascii_case(table));
        found.map(|(_, column, srs_id)| Some((column, srs_id))).ok_or_else(missing)
    }

    /// What the file says of a reference system.
    fn crs(&self, srs_id: i64) -> Result<StatedCrs, Error> {
        if matches!(srs_id, 0 | -1) || !self.is_table("gpkg_spatial_ref_sys")? {
            return Ok(StatedCrs::Missing);
        }
        let has_wkt2 = self.columns("gpkg_spatial_ref_sys")?.iter().any(|column| column.name == "definition_12_063");
        let wkt2 = if has_wkt2 { "definition_12_063" } else { "NULL" };
        let query = format!(
            "SELECT srs_id, organization, organization_coordsys_id, {wkt2}, definition FROM main.gpkg_spatial_ref_sys"
        );
        let systems = self.rows_of(&query, &[], |row| {
            let definitions = [row.get::<_, Option<String>>(3)?, row.get::<_, Option<String>>(4)?];
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?, definitions))
        })?;
        let found = systems.into_iter().find(|(id, ..)| *id == srs_id);
        let Some((_, organization, code, definitions)) = found else { return Ok(StatedCrs::Missing) };
        let defined = |text: &String| !text.trim().is_empty() && !text.trim().eq_ignore_ascii_case("undefined");
        if organization.eq_ignore_ascii_case("EPSG") && code > 0 {
            for definition in definitions.iter().flatten().filter(|text| defined(text)) {
                geo::by_code("EPSG", &code.to_string(), Some(definition)).map_err(|problem| self.refuse(problem))?;
            }
            return Ok(StatedCrs::Stated(Crs::of_code("EPSG", &code.to_string())));
        }
        match definitions.into_iter().flatten().find(defined) {
            Some(definition) => {
                let crs = Crs::from_wkt(&definition).map_err(|error| {
                    self.refuse(format!("gpkg_spatial_ref_sys, srs_id {srs_id}: {}", one_line(&error)))
                })?;
                Ok(StatedCrs::Stated(crs))
            }
            None if organization.trim().is_empty() || organization.eq_ignore_ascii_case("NONE") => {
                Ok(StatedCrs::Missing)
            }
            None => Ok(StatedCrs::Stated(Crs::of_code(organization.trim(), &code.to_string()))),
        }
    }

    /// What GDAL notes about the number of rows, if it did. It may be wrong, and nothing but progress depends on it.
    fn estimated_rows(&self, table: &str) -> Option<u64> {
        if !self.is_table("gpkg_ogr_contents").ok()? {
            return None;
        }
        let query = "SELECT table_name, feature_count FROM main.gpkg_ogr_contents";
        let counts = self.rows_of(query, &[], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?)));
        let found = counts.ok()?.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(table));
        found.and_then(|(_, count)| u64::try_from(count?).ok())
    }

    fn prepare(&mut self, table: &str, query: &str) -> Result<(), Error> {
        let prepared = self.connection.prepare_cached(query).map(|_| ());
        prepared.map_err(|error| self.refuse(format!("layer `{table}` cannot be read: {}", one_line(&error))))
    }
}

/// Why no layer is chosen.
pub(crate) enum NoLayer {
    /// There is none.
    Empty,
    /// There are several, and none is named.
    Several(Vec<String>),
    /// The one that is named is not there.
    Unknown(String, Vec<String>),
}

impl NoLayer {
    pub(crate) fn into_error(self, file: &str) -> Error {
        match self {
            Self::Empty => Error::unreadable(file, "has no layer of features or attributes"),
            Self::Several(layers) => Error::Layers { file: file.to_owned(), layers },
            Self::Unknown(layer, near) => {
                let near = names::listed(&near);
                Error::setting("source.layer", format!("{file} has no layer `{layer}`: the nearest names are {near}"))
            }
        }
    }
}

/// The layer that a job means, of those that a file has.
pub(crate) fn choose<'a>(wanted: Option<&str>, layers: &[&'a str]) -> Result<&'a str, NoLayer> {
    match (wanted, layers) {
        (_, []) => Err(NoLayer::Empty),
        (None, [only]) => Ok(only),
        (None, several) => Err(NoLayer::Several(several.iter().map(ToString::to_string).collect())),
        (Some(wanted), layers) => layers
            .iter()
            .find(|layer| **layer == wanted)
            .copied()
            .ok_or_else(|| NoLayer::Unknown(wanted.to_owned(), names::nearest(wanted, layers.iter().copied()))),
    }
}

fn check_magic(input: &InputFile) -> Result<(), Error> {
    let mut start = [0; 16];
    let read = Sequential::new(input)?.read(&mut start)?;
    if read < start.len() || start != *MAGIC {
        let problem = match read {
            0 => "is empty (0 bytes), which is no GeoPackage",
            _ => "is no GeoPackage: it does not begin like an SQLite database",
        };
        return Err(Error::unreadable(input.path(), problem));
    }
    Ok(())
}

/// Refuses a file that a writer did not finish with: only its journal says what the file was before.
fn check_journal(input: &InputFile) -> Result<(), Error> {
    let Some(journal) = input.companions().iter().find(|companion| companion.path().ends_with("-journal")) else {
        return Ok(());
    };
    let mut start = [0; 8];
    let read = Sequential::new(journal)?.read(&mut start)?;
    if read == start.len() && start == HOT_JOURNAL {
        let problem = format!(
            "has an unfinished write in {}: wait for the program that writes it, or open and close the file with it, then run again",
            journal.path()
        );
        return Err(Error::unreadable(input.path(), problem));
    }
    Ok(())
}

/// A copy of a database and its log in a folder of their own.
fn copied(input: &InputFile, wal: &InputFile) -> Result<(TempDir, PathBuf), Error> {
    let folder = private_folder(input)?;
    let database = folder.path().join("copy.gpkg");
    copy(input, &database)?;
    copy(wal, &folder.path().join("copy.gpkg-wal"))?;
    input.check_unchanged()?;
    Ok((folder, database))
}

fn copy(input: &InputFile, to: &Path) -> Result<(), Error> {
    let mut from = Sequential::new(input)?;
    let mut to = File::create_new(to).map_err(Error::io(input.path(), "make a temporary copy of"))?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..read]).map_err(Error::io(input.path(), "copy"))?;
    }
}

/// The name under which SQLite opens a file read-only, and without locks where nobody writes to it.
fn uri(path: &Path, immutable: bool) -> std::io::Result<String> {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::absolute(path)?;
    let mut uri = String::from("file:");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}"); // to a String: cannot fail
        }
    }
    uri.push_str(if immutable { "?immutable=1" } else { "?mode=ro" });
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("2024-05-06T07:08:09.123Z", Some(1_714_979_289_123_000))]
    #[case("2024-05-06T09:08:09.123+02:00", Some(1_714_979_289_123_000))]
    #[case("2024-05-06 07:08:09.123", Some(1_714_979_289_123_000))]
    #[case("2024-05-06T07:08:09", Some(1_714_979_289_000_000))]
    #[case("2024-05-06T07:08Z", Some(1_714_979_280_000_000))]
    #[case("2024-05-06", Some(1_714_953_600_000_000))]
    #[case("06.05.2024", None)]
    #[case("2024-05-06T07", None)]
    #[case("2024-05-06T07:08é", None)]
    #[case("", None)]
    fn an_instant_is_in_utc_whatever_its_form(#[case] text: &str, #[case] micros: Option<i64>) {
        assert_eq!(instant(text), micros);
    }

    #[rstest]
    #[case("boolean", DataType::Boolean)]
    #[case("MEDIUMINT", DataType::Int32)]
    #[case("INTEGER", DataType::Int64)]
    #[case("BIGINT", DataType::Int64)]
    #[case("TEXT(20)", DataType::Utf8View)]
    #[case("varchar(20)", DataType::Utf8View)]
    #[case("NUMERIC(9,2)", DataType::Float64)]
    #[case("POINT", DataType::BinaryView)]
    #[case("JSON", DataType::Utf8View)]
    #[case("", DataType::Utf8View)]
    fn a_declared_type_has_one_type(#[case] declared: &str, #[case] expected: DataType) {
        assert_eq!(type_of(declared).1, expected);
    }
}
