//! What a job file says about its source.
//!
//! Plain values with documented defaults. Unknown keys are errors. The doc comments are also the
//! descriptions in the JSON schema of the job file, so they are written for the person who edits one.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Where the rows come from: the `[source]` section of a job.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceSettings {
    /// The name of the source. It is part of the batch id: the same files under another name are another batch.
    pub name: String,
    /// The format of the files.
    pub format: Format,
    /// Files to read, relative to the job file. `*`, `?`, `[...]` and `**` match several files, but none whose name begins
    /// with a dot. Files are read in the order of their paths, each once. URLs are paths too: `s3://bucket/in/*.parquet`, `gs://` and
    /// `abfss://` with patterns, `https://` without; such files are copied to a temporary folder first.
    pub paths: Vec<String>,
    /// Types of columns, by name: `boolean`, `int`, `long`, `float`, `double`, `decimal(p,s)`, `date`, `time`, `timestamp`,
    /// `timestamptz`, `string`, `binary` (written as hexadecimal digits in text). A column that is not named here has the type
    /// the file states or, in text formats, the narrowest type that holds every one of its values.
    #[serde(default)]
    pub schema: BTreeMap<String, String>,
    /// The layer to read, where a file has several: a GeoPackage, or a zip archive of shapefiles. Needed there; one batch is of
    /// one layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The encoding of text in shapefiles, for example `windows-1252`, `gbk` or `utf-8`: it wins over what the files say (`.cpg`,
    /// and the header of the `.dbf`). Ignored for other formats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// What input is refused for, whatever it holds.
    #[serde(default)]
    pub limits: InputLimits,
    /// How CSV files are written. Ignored for other formats.
    #[serde(default)]
    pub csv: CsvSettings,
    /// SQL over the source, which is the table `input`; `$run_date` is the run's date. The order of the result is the order of
    /// the batch: say `ORDER BY` where the statement groups or joins. Needs a build with the feature `sql`.
    #[serde(default)]
    pub select: Option<String>,
}

impl SourceSettings {
    /// A source of whole files, with nothing else said.
    #[must_use]
    pub fn new(name: &str, format: Format, paths: Vec<String>) -> Self {
        Self {
            name: name.to_owned(),
            format,
            paths,
            schema: BTreeMap::new(),
            layer: None,
            encoding: None,
            limits: InputLimits::default(),
            csv: CsvSettings::default(),
            select: None,
        }
    }
}

/// The format of the files of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Delimited text, UTF-8 with or without a byte order mark.
    Csv,
    /// One JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
    /// Apache Parquet with `geo` metadata, which names the geometry column and its CRS.
    Geoparquet,
    /// One GeoJSON feature collection (or feature) a file.
    Geojson,
    /// GeoJSON features one after the other: one a line, or each behind a record separator (RFC 8142).
    Geojsonseq,
    /// FlatGeobuf.
    Flatgeobuf,
    /// A layer of a GeoPackage.
    Geopackage,
    /// Shapefiles: `.shp` with its companions, a folder of them, or a zip archive.
    Shapefile,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Parquet => "parquet",
            Self::Geoparquet => "geoparquet",
            Self::Geojson => "geojson",
            Self::Geojsonseq => "geojsonseq",
            Self::Flatgeobuf => "flatgeobuf",
            Self::Geopackage => "geopackage",
            Self::Shapefile => "shapefile",
        })
    }
}

/// Bounds of what is read: the `[source.limits]` section of a job. Input beyond them is refused, before memory is taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InputLimits {
    /// Bytes of one record: a line, a feature, a geometry.
    pub record_bytes: u64,
    /// How deep geometry collections, objects and lists may be nested.
    pub depth: u32,
    /// Bytes that a compressed file or archive may become, as a multiple of its own size.
    pub expansion: u64,
    /// Rings of polygons may be open: whoever reads the source closes them. No setting of a job.
    #[serde(skip)]
    pub open_rings: bool,
}

impl InputLimits {
    /// The limits of a geometry.
    pub(crate) fn of_geometries(&self) -> hexfloe_geometry::Limits {
        hexfloe_geometry::Limits {
            depth: usize::try_from(self.depth).unwrap_or(usize::MAX),
            closed_rings: !self.open_rings,
            ..hexfloe_geometry::Limits::default()
        }
    }

    /// Bytes of one record, as far as there can be a buffer for them.
    pub(crate) fn longest_record(&self) -> usize {
        usize::try_from(self.record_bytes).unwrap_or(usize::MAX / 4).min(usize::MAX / 4)
    }
}

impl Default for InputLimits {
    fn default() -> Self {
        Self { record_bytes: 64 << 20, depth: 32, expansion: 1_000, open_rings: false }
    }
}

/// How CSV files are written: the `[source.csv]` section of a job.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CsvSettings {
    /// The first record of each file names its columns. If false, they are `column_1`, `column_2`, and so on.
    pub header: bool,
    /// The character between two fields: one ASCII character, for example `,`, `;` or a tab.
    pub delimiter: char,
    /// The character around a field that holds delimiters, quotes (doubled) or line breaks: one ASCII character.
    pub quote: char,
    /// Texts that stand for null in every column, a text column too. Quoted or not makes no difference.
    pub null_values: Vec<String>,
    /// Numbers are written with a decimal comma: `48,137` for 48.137. A point in a number is then unreadable.
    pub decimal_comma: bool,
}

impl Default for CsvSettings {
    fn default() -> Self {
        Self { header: true, delimiter: ',', quote: '"', null_values: vec![String::new()], decimal_comma: false }
    }
}

/// [`CsvSettings`] that have been checked, with the two characters as the bytes they are.
#[derive(Clone, Debug)]
pub(crate) struct Dialect {
    pub(crate) header: bool,
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    pub(crate) null_values: Vec<String>,
    pub(crate) decimal_mark: u8,
}

impl Dialect {
    pub(crate) fn new(settings: &CsvSettings) -> Result<Self, Error> {
        let byte = |key: &'static str, character: char| match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() && !matches!(byte, 0 | b'\r' | b'\n') => Ok(byte),
            _ => Err(Error::setting(
                key,
                format!(
                    "{character:?} is not one byte that can separate text: use one ASCII character, not a line break"
                ),
            )),
        };
        let delimiter = byte("source.csv.delimiter", settings.delimiter)?;
        let quote = byte("source.csv.quote", settings.quote)?;
        if delimiter == quote {
            let problem = format!("{:?} is also the delimiter: the two must differ", settings.quote);
            return Err(Error::setting("source.csv.quote", problem));
        }
        Ok(Self {
            header: settings.header,
            delimiter,
            quote,
            null_values: settings.null_values.clone(),
            decimal_mark: if settings.decimal_comma { b',' } else { b'.' },
        })
    }

    pub(crate) fn is_null(&self, text: &str) -> bool {
        self.null_values.iter().any(|null| null == text)
    }
}
