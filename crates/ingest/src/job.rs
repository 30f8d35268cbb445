//! The job file: what to ingest, where to, and how. Plain values with documented defaults.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hexfloe_batch::{CellType, Resolution};
use hexfloe_source::SourceSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use toml::value::{Date, Datetime};

use crate::Error;

/// A job: one source, one table.
///
/// Paths are relative to the folder of the job file. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Where the rows come from.
    pub source: SourceSettings,
    /// Where each row is. Needed for cells and for a geometry column.
    pub geometry: Option<GeometrySettings>,
    /// The H3 cell column.
    pub h3: Option<H3Settings>,
    /// What makes one batch.
    pub batch: BatchSettings,
    /// What to do with rows that cannot be used.
    #[serde(default)]
    pub quality: QualitySettings,
    /// Where the rows go.
    pub table: TableSettings,
    /// Whom to tell when a batch has landed.
    pub notify: Option<NotifySettings>,
    /// The catalog; without it, the embedded one below `lake/` in the current folder.
    pub catalog: Option<CatalogReference>,
    /// Memory and threads. They never change the rows that are written.
    #[serde(default)]
    pub limits: LimitSettings,
}

/// Where each row is: two number columns, or one geometry column, which is that of the file where the format has one.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeometrySettings {
    /// The column of latitudes in degrees. Goes with `lon`.
    pub lat: Option<String>,
    /// The column of longitudes in degrees. Goes with `lat`.
    pub lon: Option<String>,
    /// The column of eastings, or x, in the units of `crs`. Goes with `y`, and takes the place of `lat` and `lon`.
    pub x: Option<String>,
    /// The column of northings, or y. Goes with `x`.
    pub y: Option<String>,
    /// The column of geometries, instead of two columns of numbers: well-known binary, well-known text, well-known binary in hexadecimal
    /// digits, or a native encoding of GeoArrow. The file's own (primary) geometry column when none is given.
    pub column: Option<String>,
    /// The coordinate reference system, where the input does not say: `OGC:CRS84`, `EPSG:27700`, or its definition as well-known
    /// text or PROJJSON. Coordinates are x before y, longitude before latitude, whatever the definition says of its axes.
    pub crs: Option<String>,
    /// Keep the geometries as a column.
    pub store: Option<GeometryStore>,
    /// The name of that column: `geometry` unless said.
    pub store_column: Option<String>,
    /// Bring the stored geometries to this system: `OGC:CRS84`. Unless said, they are stored as they are in the input.
    pub store_crs: Option<String>,
    /// A column for the bounding box of each stored geometry, a struct of `xmin`, `ymin`, `xmax` and `ymax`, by which any engine can
    /// leave out files and row groups.
    pub bbox: Option<String>,
    /// Repair geometries that cannot be used as they are. Off unless said; recorded in the table.
    pub repair: Option<GeometryRepair>,
}

/// What is done to a geometry that cannot be used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GeometryRepair {
    /// A ring whose last point is not its first gets its first point once more.
    CloseRings,
}

/// How a geometry column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GeometryStore {
    /// Well-known binary in a binary column, with GeoParquet metadata in each file.
    Wkb,
}

/// The H3 cell column.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct H3Settings {
    /// The resolution of the cells, 0 (coarsest) to 15.
    #[schemars(with = "u8", range(max = 15))]
    pub resolution: Resolution,
    /// The name of the column.
    #[serde(default = "default_cell_column")]
    pub column: String,
    /// `long` (the cell's number) or `string` (its 15 hexadecimal digits).
    #[serde(rename = "type", default = "default_cell_type")]
    #[schemars(with = "CellTypeName")]
    pub cell_type: CellType,
    /// Coarser resolutions to add as columns, named `<column>_r<resolution>`; they make good partitions.
    #[serde(default)]
    #[schemars(with = "Vec<u8>")]
    pub parents: Vec<Resolution>,
    /// A column with all cells that cover a geometry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cover: Option<CoverSettings>,
}

/// The column with the cells that cover a geometry: a sorted list of cells (`long`).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoverSettings {
    /// The resolution of the cells, 0 (coarsest) to 15.
    #[schemars(with = "u8", range(max = 15))]
    pub resolution: Resolution,
    /// The name of the column.
    #[serde(default = "default_cover_column")]
    pub column: String,
    /// Which cells of a polygon's neighbourhood are taken.
    #[serde(default)]
    pub containment: CoverContainment,
    /// A geometry that takes more cells than this is rejected.
    #[serde(default = "default_max_cells")]
    pub max_cells: usize,
}

/// Which cells cover a polygon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoverContainment {
    /// Those that lie in it or touch it, so that together they hold all of it.
    #[default]
    Covers,
    /// Those whose centre is in it: each place of a coverage without overlaps is in one polygon only.
    ContainsCentroid,
    /// Those that lie in it as a whole.
    ContainsBoundary,
}

fn default_cover_column() -> String {
    "h3_cover".to_owned()
}

fn default_max_cells() -> usize {
    100_000
}

/// Only for the schema of [`H3Settings::cell_type`].
#[derive(JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "describes a type of another crate to the JSON schema")]
enum CellTypeName {
    Long,
    String,
}

fn default_cell_column() -> String {
    "h3_cell".to_owned()
}

fn default_cell_type() -> CellType {
    CellType::Long
}

/// What makes one batch, and so its id.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchSettings {
    /// The kind of facts the batch id is made of.
    pub granularity: Granularity,
    /// With `offsets`: the partition of the stream.
    pub partition: Option<String>,
    /// With `offsets`: the first offset, and the one after the last.
    pub offsets: Option<[u64; 2]>,
    /// What to do when the table has the batch and its files have other contents now. `replace` with granularity `slice`,
    /// otherwise `refuse`. `--force` makes no difference.
    pub on_changed_input: Option<OnChangedInput>,
}

impl BatchSettings {
    /// What to do when the table has the batch with another input: as the job says, or the granularity's default.
    pub fn on_changed_input(&self) -> OnChangedInput {
        self.on_changed_input.unwrap_or(match self.granularity {
            Granularity::Slice => OnChangedInput::Replace,
            Granularity::Files | Granularity::File | Granularity::Offsets | Granularity::Content => {
                OnChangedInput::Refuse
            }
        })
    }
}

/// What to do when the table has a batch with other contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnChangedInput {
    /// It is an error: the id says that it is the same input.
    Refuse,
    /// The rows are replaced by those of the input as it is now.
    Replace,
}

/// The facts a batch id is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// All files together: their relative paths, sizes and contents. A touched file is the same batch.
    Files,
    /// Each file by itself, in the order of their paths: a batch for each, with the id it has as the only file of `files`.
    File,
    /// A range of a stream: `partition` and `offsets`. The content is no part of the id; that it is the same again is checked.
    Offsets,
    /// The rows themselves, in order, whatever files they come in.
    Content,
    /// The slice that the job owns (`table.slice`). Its content may change from run to run.
    Slice,
}

/// What to do with rows that cannot be used: no position, a position outside the world, an unreadable value.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QualitySettings {
    /// `refuse`: one such row and nothing is committed. `quarantine`: they are set aside with a reason and counted.
    pub on_reject: OnReject,
    /// With `quarantine`: the folder of the rejected rows, one file per batch: `<folder>/<table>/<batch id>.ndjson`. Relative
    /// to the current folder.
    pub reject_folder: String,
    /// Rows without a position, because their geometry is null or empty: `keep` them with null cells, and count them; or `reject`
    /// them. Where positions are two columns of numbers, each row has to have them.
    pub no_geometry: NoGeometry,
    /// Columns of the table in which no row of the batch may be null. A row that is cannot be used.
    pub not_null: Vec<String>,
    /// Of rows with the same key, keep one.
    pub dedupe: Option<DedupeSettings>,
}

impl Default for QualitySettings {
    fn default() -> Self {
        Self {
            on_reject: OnReject::Refuse,
            reject_folder: "rejects".to_owned(),
            no_geometry: NoGeometry::Keep,
            not_null: Vec::new(),
            dedupe: None,
        }
    }
}

/// What to do with a row without a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoGeometry {
    /// Its cells are null.
    #[default]
    Keep,
    /// It cannot be used.
    Reject,
}

/// Which of several rows with the same key is kept. Rows that cannot be used take no part.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DedupeSettings {
    /// Columns of the table. Two rows are the same when these are; null is equal to null.
    pub key: Vec<String>,
    /// Which of them is kept.
    #[serde(default)]
    pub keep: Keep,
    /// The column of the table that puts them in order; rows that are equal in it stay in the order of the input. Null is the
    /// lowest value. Without it the order is that of the input.
    pub order_by: Option<String>,
}

/// Which row is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The last, which is the highest in `order_by`.
    #[default]
    Last,
    /// The first, which is the lowest in `order_by`.
    First,
}

/// What to do with a rejected row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnReject {
    /// Commit nothing.
    Refuse,
    /// Set it aside.
    Quarantine,
}

/// Where the rows go.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableSettings {
    /// The table: `namespace.name`. It is created when it does not exist.
    pub name: String,
    /// What a batch replaces.
    #[serde(default)]
    pub mode: Mode,
    /// With mode `slice`: the slice the batch owns, as values by column. Every row of the batch has to be of it; a column that
    /// the input lacks is filled in. `$run_date` stands for `--run-date`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slice: BTreeMap<String, SliceValue>,
    /// With mode `upsert`: the columns of the key. No row of the batch may be null in them, and no two the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key: Vec<String>,
    /// Partition fields of a new table: `column`, `year(ts)`, `month(ts)`, `day(ts)`, `hour(ts)`, `bucket[16](id)`,
    /// `truncate[4](name)`.
    #[serde(default)]
    pub partition: Vec<String>,
    /// Columns of the input to sort by. Needs a build with the feature `sql`. Without it rows keep the order of the input.
    #[serde(default)]
    pub sort: Vec<String>,
    /// `portable`: encodings that every Iceberg reader has. `compact`: smaller files for readers that know Parquet's
    /// delta and byte-stream-split encodings (Iceberg's vectorised Spark reader does from 1.11).
    #[serde(default)]
    pub encodings: Encodings,
    /// Properties of a new table, in addition to those Hexfloe sets.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// What a batch replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The rows of the same batch.
    #[default]
    Batch,
    /// The rows of the slice that the batch owns (`slice`).
    Slice,
    /// The rows of the same batch, and those with a key that is in the batch (`key`).
    Upsert,
    /// Nothing: rows are only ever added. A batch that is in the table is skipped, and cannot be forced.
    AppendOnce,
}

impl Mode {
    /// Its name in a job.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Slice => "slice",
            Self::Upsert => "upsert",
            Self::AppendOnce => "append-once",
        }
    }
}

/// A value of a slice: text, an integer, true or false, or a TOML date.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "toml::Value", into = "toml::Value")]
pub enum SliceValue {
    /// Text, which is read as a value of the column's type.
    Text(String),
    /// An integer.
    Integer(i64),
    /// True or false.
    Boolean(bool),
    /// A date.
    Date(Date),
}

impl TryFrom<toml::Value> for SliceValue {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        match value {
            toml::Value::String(text) => Ok(Self::Text(text)),
            toml::Value::Integer(integer) => Ok(Self::Integer(integer)),
            toml::Value::Boolean(boolean) => Ok(Self::Boolean(boolean)),
            toml::Value::Datetime(Datetime { date: Some(date), time: None, offset: None }) => Ok(Self::Date(date)),
            other => Err(format!("{other} is no value of a slice: write text, an integer, true or false, or a date")),
        }
    }
}

impl From<SliceValue> for toml::Value {
    fn from(value: SliceValue) -> Self {
        match value {
            SliceValue::Text(text) => Self::String(text),
            SliceValue::Integer(integer) => Self::Integer(integer),
            SliceValue::Boolean(boolean) => Self::Boolean(boolean),
            SliceValue::Date(date) => Self::Datetime(Datetime { date: Some(date), time: None, offset: None }),
        }
    }
}

impl JsonSchema for SliceValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SliceValue".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A value of a slice: text, an integer, true or false, or a TOML date.",
            "type": ["string", "integer", "boolean"],
        })
    }
}

/// Which Parquet encodings are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encodings {
    /// Plain and dictionary.
    #[default]
    Portable,
    /// Delta and byte-stream-split too.
    Compact,
}

/// Whom to tell when a batch has landed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotifySettings {
    /// A program and its arguments, run after the commit without a shell, in the folder of the job file. The batch's report is
    /// on its standard input; `HEXFLOE_IDEMPOTENCY_KEY` is the same for each repetition of a message.
    #[serde(deserialize_with = "program_and_arguments")]
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// After this time it is killed, and the batch counts as not told: a number and `d`, `h`, `m` or `s`.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub timeout: Timeout,
}

fn program_and_arguments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let command = Vec::<String>::deserialize(deserializer)?;
    match command.first() {
        Some(program) if !program.is_empty() => Ok(command),
        _ => Err(serde::de::Error::custom("name a program, as in [\"./tell\", \"--topic\", \"landed\"]")),
    }
}

/// How long something may take, more than nothing: `60s`, `5m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timeout(pub TimeSpan);

impl Default for Timeout {
    /// A minute.
    fn default() -> Self {
        Self(TimeSpan(Duration::from_secs(60)))
    }
}

impl TryFrom<String> for Timeout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let span: TimeSpan = text.parse()?;
        if span.0.is_zero() { Err(format!("{text:?} leaves no time; write 60s or 5m")) } else { Ok(Self(span)) }
    }
}

impl From<Timeout> for String {
    fn from(timeout: Timeout) -> Self {
        timeout.0.to_string()
    }
}

/// A time as people write it, in whole seconds: `3d`, `36h`, `90m`, `30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

impl TimeSpan {
    /// Seconds of a unit.
    const UNITS: [(&'static str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = Self::UNITS.iter().find_map(|(unit, seconds)| {
            let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
            number.checked_mul(*seconds)
        });
        let parsed = if text == "0" { Some(0) } else { parsed };
        let span = parsed.map(|seconds| Self(Duration::from_secs(seconds)));
        span.ok_or_else(|| "write a number and d, h, m or s: 3d".to_owned())
    }
}

impl fmt::Display for TimeSpan {
    /// In the largest unit that is exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let exact = Self::UNITS.iter().find(|(_, unit)| seconds > 0 && seconds.is_multiple_of(*unit));
        let (name, unit) = exact.copied().unwrap_or(("s", 1));
        write!(f, "{}{name}", seconds / unit)
    }
}

/// Where the catalog is described.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CatalogReference {
    /// A catalog file.
    pub path: String,
}

/// Memory and threads.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSettings {
    /// Bytes that rows on their way may take, such as `256MiB`; the process itself takes some 50 MiB more.
    #[schemars(with = "Option<String>")]
    pub memory: ByteSize,
    /// Threads that decode, derive and encode; all processors when not given.
    pub threads: Option<usize>,
}

/// A number of bytes, written with a unit: `64MiB`, `1GiB`, `500MB`, or plainly `1048576`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ByteSize(pub u64);

impl Default for ByteSize {
    /// 128 MiB.
    fn default() -> Self {
        Self(128 << 20)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            "gib" => 1 << 30,
            _ => return Err(format!("{text:?} is not a size; write 256MiB, 1GiB or 500MB")),
        };
        let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        bytes.map(Self).ok_or_else(|| format!("{text:?} is not a size; write 256MiB, 1GiB or 500MB"))
    }
}

impl TryFrom<String> for ByteSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ByteSize> for String {
    fn from(size: ByteSize) -> Self {
        size.to_string()
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => write!(f, "{}MiB", bytes >> 20),
            bytes => write!(f, "{bytes}"),
        }
    }
}

impl Job {
    /// Reads a job file, with `overrides` of single keys: `limits.threads=1`, `table.name=places.test`. A value that is not
    /// TOML is taken as text.
    ///
    /// # Errors
    ///
    /// [`Error::Job`], on one line, with the line of the file and the nearest known key for an unknown one.
    pub fn from_toml(text: &str, overrides: &[String]) -> Result<Self, Error> {
        // The text is read first by itself, so that an error in it has its line.
        let mut value: toml::Table = toml::from_str(text).map_err(|error| located(text, "", &error))?;
        if overrides.is_empty() {
            return deserialized(text).map_err(|(path, error)| located(text, &path, &error));
        }
        for assignment in overrides {
            set(&mut value, assignment)?;
        }
        let merged = toml::to_string(&value).map_err(|error| Error::Job(error.to_string()))?;
        deserialized(&merged).map_err(|(path, error)| Error::Job(keyed(&path, error.message())))
    }
}

fn set(table: &mut toml::Table, assignment: &str) -> Result<(), Error> {
    let refuse = |reason: &str| Error::Job(format!("--set {assignment}: {reason}"));
    let (key, text) = assignment.split_once('=').ok_or_else(|| refuse("write key=value"))?;
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut parsed| parsed.remove("value"));
    let value = value.unwrap_or_else(|| toml::Value::String(text.to_owned()));
    let mut path: Vec<&str> = key.trim().split('.').collect();
    let last = path.pop().filter(|last| !last.is_empty()).ok_or_else(|| refuse("the key is empty"))?;
    let mut place = table;
    for part in path {
        let inner = place.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = inner.as_table_mut().ok_or_else(|| refuse(&format!("{part} is not a section")))?;
    }
    place.insert(last.to_owned(), value);
    Ok(())
}

/// The job of a text, or the key at fault and what is wrong there.
fn deserialized(text: &str) -> Result<Job, (String, toml::de::Error)> {
    let deserializer = toml::Deserializer::parse(text).map_err(|error| (String::new(), error))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| (error.path().to_string(), error.into_inner()))
}

fn located(text: &str, path: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let message = keyed(path, error.message());
    Error::Job(line.map_or_else(|| message.clone(), |line| format!("line {line}: {message}")))
}

/// The message with the key it is about. An unknown key is named by the message itself.
fn keyed(path: &str, message: &str) -> String {
    let message = explained(message);
    if path.is_empty() || path == "." || message.starts_with("unknown field") {
        message
    } else {
        format!("{path}: {message}")
    }
}

/// The message on one line, with the known key nearest to an unknown one.
fn explained(message: &str) -> String {
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(rest) = message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))
    else {
        return message;
    };
    let mut names = rest.split('`').step_by(2);
    let Some(unknown) = names.next() else { return message };
    let nearest = names
        .filter(|name| !name.is_empty())
        .map(|name| (strsim::jaro_winkler(unknown, name), name))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest {
        Some((likeness, name)) if likeness > 0.7 => format!("{message}; did you mean `{name}`?"),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const JOB: &str = r#"
[source]
name = "geonames"
format = "csv"
paths = ["cities.csv"]

[batch]
granularity = "files"

[table]
name = "places.cities"
"#;

    #[test]
    fn a_minimal_job_has_the_documented_defaults() {
        let job = Job::from_toml(JOB, &[]).unwrap();
        assert_eq!(job.quality.on_reject, OnReject::Refuse);
        assert_eq!(job.limits.memory, ByteSize(128 << 20));
        assert_eq!(job.table.mode, Mode::Batch);
        assert!(job.h3.is_none() && job.geometry.is_none() && job.catalog.is_none());
    }

    #[test]
    fn overrides_take_toml_values_and_plain_text() {
        let overrides =
            ["limits.threads=1", "table.name=a.b", "limits.memory=64MiB", "h3.resolution=9"].map(str::to_owned);
        let job = Job::from_toml(JOB, &overrides).unwrap();
        assert_eq!(job.limits.threads, Some(1));
        assert_eq!(job.table.name, "a.b");
        assert_eq!(job.limits.memory, ByteSize(64 << 20));
        assert_eq!(job.h3.unwrap().resolution.get(), 9);
    }

    #[rstest]
    #[case("[table]\nname", "[table]\nnmae", "line 11: unknown field `nmae`", "did you mean `name`?")]
    #[case("granularity", "granularty", "line 8: unknown field `granularty`", "did you mean `granularity`?")]
    #[case("\"files\"", "\"file_list\"", "line 8: batch.granularity: unknown variant `file_list`", "`files`")]
    #[case("[batch]", "[batches]", "line 7: unknown field `batches`", "did you mean `batch`?")]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one(
        #[case] from: &str,
        #[case] to: &str,
        #[case] starts: &str,
        #[case] holds: &str,
    ) {
        let message = Job::from_toml(&JOB.replacen(from, to, 1), &[]).unwrap_err().to_string();
        assert!(message.contains(starts) && message.contains(holds) && !message.contains('\n'), "{message}");
    }

    #[rstest]
    #[case("limits.threads", "--set limits.threads: write key=value")]
    #[case("=1", "--set =1: the key is empty")]
    #[case("limits.=1", "the key is empty")]
    #[case("source.name.first=a", "name is not a section")]
    #[case("limits.thread=1", "did you mean `threads`?")]
    #[case("limits.threads=many", "limits.threads")]
    #[case("limits.memory=lots", "is not a size")]
    #[case("h3.resolution=16", "16")]
    #[case("table.mode=append", "append-once")]
    #[case("table.slice.zone=1.5", "table.slice.zone: 1.5 is no value of a slice")]
    #[case("table.slice.at=2026-08-11T12:00:00", "is no value of a slice")]
    #[case("quality.dedupe.keep=best", "`last`")]
    #[case("notify.command=[]", "notify.command: name a program")]
    #[case("notify.command=./tell", "notify.command: invalid type")]
    #[case("notify.timeout=60s", "missing field `command`")]
    #[case("notify={command=[\"a\"], timeout=\"0s\"}", "notify.timeout: \"0s\" leaves no time")]
    #[case("notify={command=[\"a\"], timeout=60}", "notify.timeout: invalid type")]
    fn an_override_that_cannot_be_is_refused_by_its_key(#[case] assignment: &str, #[case] message: &str) {
        let error = Job::from_toml(JOB, &[assignment.to_owned()]).unwrap_err().to_string();
        assert!(error.contains(message) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn a_slice_takes_values_of_four_kinds_and_is_in_the_order_of_its_columns() {
        let table = "name = \"places.cities\"\nmode = \"slice\"";
        let slice = "slice = { zone = 7, day = 2026-08-11, country = \"AT\", final = true }";
        let job = Job::from_toml(&JOB.replace("name = \"places.cities\"", &format!("{table}\n{slice}")), &[]).unwrap();
        assert_eq!(job.table.mode, Mode::Slice);
        let values: Vec<_> = job.table.slice.iter().map(|(column, value)| (column.as_str(), value.clone())).collect();
        let day = SliceValue::Date(Date { year: 2026, month: 8, day: 11 });
        let expected = [
            ("country", SliceValue::Text("AT".to_owned())),
            ("day", day),
            ("final", SliceValue::Boolean(true)),
            ("zone", SliceValue::Integer(7)),
        ];
        assert_eq!(values, expected);
        // An override writes the job as TOML and reads it again.
        let again = Job::from_toml(&toml::to_string(&job).unwrap(), &["limits.threads=1".to_owned()]).unwrap();
        assert_eq!(again.table.slice, job.table.slice);
    }

    #[rstest]
    #[case(Granularity::Slice, OnChangedInput::Replace)]
    #[case(Granularity::Offsets, OnChangedInput::Refuse)]
    #[case(Granularity::Files, OnChangedInput::Refuse)]
    fn a_changed_input_is_refused_unless_the_granularity_lets_it_change(
        #[case] granularity: Granularity,
        #[case] expected: OnChangedInput,
    ) {
        let mut job = Job::from_toml(JOB, &[]).unwrap();
        job.batch.granularity = granularity;
        assert_eq!(job.batch.on_changed_input(), expected);
        job.batch.on_changed_input = Some(OnChangedInput::Replace);
        assert_eq!(job.batch.on_changed_input(), OnChangedInput::Replace);
    }

    #[test]
    fn a_notification_has_a_minute_unless_the_job_says_otherwise() {
        let with = |notify: &str| Job::from_toml(&format!("{JOB}\n[notify]\n{notify}"), &[]).unwrap().notify.unwrap();
        let minute = with("command = [\"./tell\", \"--topic\"]");
        assert_eq!((minute.command.len(), minute.timeout.0.0), (2, Duration::from_secs(60)));
        let longer = with("command = [\"tell\"]\ntimeout = \"2h\"");
        assert_eq!(longer.timeout.0.0, Duration::from_secs(7_200));
    }

    #[rstest]
    #[case("3d", Some((259_200, "3d"))) ]
    #[case("36h", Some((129_600, "36h")))]
    #[case("120m", Some((7_200, "2h")))]
    #[case("61s", Some((61, "61s")))]
    #[case("0", Some((0, "0s")))]
    #[case("1w", None)]
    #[case("60", None)]
    #[case("-1s", None)]
    #[case("999999999999999999d", None)]
    fn times_read_with_their_units(#[case] text: &str, #[case] expected: Option<(u64, &str)>) {
        let parsed = text.parse::<TimeSpan>().ok();
        assert_eq!(parsed.map(|span| (span.0.as_secs(), span.to_string())), expected.map(|(s, t)| (s, t.to_owned())));
    }

    #[rstest]
    #[case("256MiB", Some(256 << 20))]
    #[case("1 GiB", Some(1 << 30))]
    #[case("500MB", Some(500_000_000))]
    #[case("1048576", Some(1 << 20))]
    #[case("lots", None)]
    #[case("-1", None)]
    #[case("99999999999GiB", None)]
    fn sizes_read_with_their_units(#[case] text: &str, #[case] bytes: Option<u64>) {
        assert_eq!(text.parse::<ByteSize>().ok().map(|size| size.0), bytes);
    }
}
