//! GeoJSON (RFC 7946): feature collections, single features and geometries, and sequences of features.
//!
//! A first pass over all files checks them, and finds the properties with their types, how many features there are, and the
//! coordinate reference system ([`Survey`]). The second pass makes batches: the columns of the properties, as NDJSON has them,
//! and `geometry` as well-known binary. A feature whose geometry cannot be used is a reject of its row; what is no GeoJSON is
//! an error. Bounding boxes are ignored: nothing is left out because of them.

mod features;
mod reference;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::declared::Declared;
use crate::error::{Error, one_line};
use crate::files::InputFile;
use crate::geo::{GeometryColumn, StatedCrs};
use crate::json::{Block, Columns, Shape};
use crate::scan::{Decoded, Rejects, SerialReader, SourceBatch};
use crate::settings::InputLimits;

pub(crate) use features::Layout;
use features::{Feature, Features};
use reference::References;

/// The column that geometries get.
const GEOMETRY: &str = "geometry";

/// What the first pass has found.
#[derive(Debug)]
pub(crate) struct Survey {
    shape: Shape,
    rows: u64,
    /// By the name of the file.
    references: HashMap<Arc<str>, StatedCrs>,
}

impl Survey {
    /// Reads all files, and holds nothing of them.
    pub(crate) fn make(files: &[InputFile], layout: Layout, limits: &InputLimits) -> Result<Self, Error> {
        let mut survey = Self { shape: Shape::default(), rows: 0, references: HashMap::new() };
        for file in files {
            let mut features = Features::open(file, layout, limits)?;
            let mut references = References::default();
            let mut rows = 0;
            while let Some(feature) = features.next()? {
                survey.see(&feature).map_err(|problem| {
                    Error::unreadable(
                        file.path(),
                        format!("feature {}, byte {}: {problem}", feature.number, feature.properties_offset),
                    )
                })?;
                references.see(&feature).map_err(|problem| {
                    Error::unreadable(file.path(), format!("feature {}: {problem}", feature.number))
                })?;
                rows += 1;
            }
            let stated = references.agreed(features.reference(), rows);
            let stated = stated.map_err(|problem| Error::unreadable(file.path(), problem))?;
            survey.references.insert(Arc::clone(file.name()), stated);
            survey.rows += rows;
        }
        Ok(survey)
    }

    fn see(&mut self, feature: &Feature<'_>) -> Result<(), String> {
        let Some(properties) = feature.properties else { return Ok(()) };
        self.shape.see(properties).map_err(|problem| format!("in its properties, {problem}"))?;
        if self.shape.has(GEOMETRY) {
            return Err(format!(
                "a property is called `{GEOMETRY}`, as the column of the geometries is: rename it, for example with \
                 `ogr2ogr -sql 'SELECT {GEOMETRY} AS other, … FROM layer'` or `jq`"
            ));
        }
        Ok(())
    }

    /// The one geometry column of a file.
    pub(crate) fn geometries(&self, file: &InputFile) -> Vec<GeometryColumn> {
        let crs = self.references.get(file.path()).cloned().unwrap_or(StatedCrs::Default);
        vec![GeometryColumn { column: GEOMETRY.to_owned(), encoding: "WKB".to_owned(), crs }]
    }
}

/// GeoJSON files with the types of their columns known.
pub(crate) struct GeojsonReader {
    files: Vec<InputFile>,
    layout: Layout,
    limits: InputLimits,
    columns: Columns,
    /// The columns, and the geometry behind them.
    schema: SchemaRef,
    rows: u64,
    batch_rows: usize,
    next_file: usize,
    current: Option<OpenFile>,
}

struct OpenFile {
    input: InputFile,
    features: Features,
    rows: u64,
}

impl GeojsonReader {
    pub(crate) fn open(
        files: &[InputFile],
        layout: Layout,
        survey: &Survey,
        declared: &Declared,
        limits: &InputLimits,
        batch_rows: usize,
    ) -> Result<Self, Error> {
        let first = files.first().map_or("", InputFile::path);
        if declared.of_job(GEOMETRY).is_some_and(|wanted| *wanted != DataType::BinaryView) {
            let problem = "holds well-known binary: leave it undeclared";
            return Err(Error::setting(format!("source.schema.{GEOMETRY}"), problem));
        }
        let declared = declared.without(GEOMETRY);
        if layout == Layout::Sequence && survey.rows == 0 && declared.job_columns().next().is_none() {
            let problem = "holds no feature, so there are no columns: check whether the input has arrived, or declare the \
                           columns in [source.schema]";
            return Err(Error::unreadable(first, problem));
        }
        let columns = Columns::plan(&survey.shape, &declared, first)?;
        let geometry = Arc::new(Field::new(GEOMETRY, DataType::BinaryView, true));
        let fields: Vec<_> = columns.schema().fields().iter().cloned().chain([geometry]).collect();
        Ok(Self {
            files: files.to_vec(),
            layout,
            limits: limits.clone(),
            columns,
            schema: Arc::new(Schema::new(fields)),
            rows: survey.rows,
            batch_rows: batch_rows.max(1),
            next_file: 0,
            current: None,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    fn convert(&self, open: &OpenFile, rows: Rows) -> Result<SourceBatch, Error> {
        let file = open.input.path();
        let Rows { properties, mut geometries, ids, mut rejects, .. } = rows;
        let mut columns = self.columns.decode(&properties, &mut rejects).map_err(|(feature, problem)| {
            let feature = feature.map(|feature| format!("feature {feature}: ")).unwrap_or_default();
            Error::unreadable(file, format!("{feature}{problem}"))
        })?;
        columns.push(Arc::new(geometries.finish()));
        let options = RecordBatchOptions::new().with_row_count(Some(properties.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::unreadable(file, one_line(&error)))?;
        Ok(SourceBatch {
            batch,
            file: Arc::clone(open.input.name()),
            first_row: open.rows + 1,
            layer: None,
            feature_ids: feature_ids(ids),
            rejects: rejects.into_rows(),
        })
    }
}

impl SerialReader for GeojsonReader {
    fn read(&mut self) -> Result<Decoded, Error> {
        let mut bytes = 0;
        loop {
            let mut open = match self.current.take() {
                Some(open) => open,
                None => match self.files.get(self.next_file) {
                    None => return Ok(Decoded { batches: Vec::new(), last: true, bytes }),
                    Some(input) => {
                        self.next_file += 1;
                        let features = Features::open(input, self.layout, &self.limits)?;
                        OpenFile { input: input.clone(), features, rows: 0 }
                    }
                },
            };
            // What opening has taken counts too: a decoder reads ahead.
            let before = if open.rows == 0 { 0 } else { open.features.consumed() };
            let mut rows = Rows::default();
            let mut more = true;
            while !rows.properties.is_full(self.batch_rows, rows.geometry_bytes) {
                match open.features.next()? {
                    Some(feature) => rows.push(&feature, &self.limits),
                    None => {
                        more = false;
                        break;
                    }
                }
            }
            bytes += open.features.consumed() - before;
            let count = rows.properties.len();
            let batch = if count == 0 { None } else { Some(self.convert(&open, rows)?) };
            open.rows += count as u64;
            if more {
                self.current = Some(open);
            }
            let last = !more && self.next_file == self.files.len();
            if batch.is_some() || last {
                return Ok(Decoded { batches: batch.into_iter().collect(), last, bytes });
            }
        }
    }

    fn restart(&self) -> Option<Box<dyn SerialReader>> {
        Some(Box::new(Self {
            files: self.files.clone(),
            limits: self.limits.clone(),
            columns: self.columns.clone(),
            schema: Arc::clone(&self.schema),
            next_file: 0,
            current: None,
            ..*self
        }))
    }
}

/// The rows of a batch that is being read.
#[derive(Default)]
struct Rows {
    properties: Block,
    geometries: BinaryViewBuilder,
    geometry_bytes: usize,
    /// The geometry that is being converted.
    wkb: Vec<u8>,
    ids: Vec<Option<Id>>,
    rejects: Rejects,
}

impl Rows {
    fn push(&mut self, feature: &Feature<'_>, limits: &InputLimits) {
        let row = self.properties.len();
        self.properties.push(feature.properties.unwrap_or(b"{}"), feature.number);
        self.ids.push(feature.id.and_then(Id::of));
        self.wkb.clear();
        let limits = limits.of_geometries();
        let found = match feature.geometry {
            None => Ok(false),
            Some(geometry) => hexfloe_geometry::from_geojson(geometry, &limits, &mut self.wkb),
        };
        match found {
            Ok(true) => {
                self.geometry_bytes += self.wkb.len();
                self.geometries.append_value(&self.wkb);
            }
            Ok(false) => self.geometries.append_null(),
            Err(problem) => {
                self.geometries.append_null();
                self.rejects.geometry(row, problem);
            }
        }
    }
}

/// What a feature is called.
enum Id {
    Integer(i64),
    Text(String),
}

impl Id {
    /// From the JSON of it, a text or a number.
    fn of(json: &[u8]) -> Option<Self> {
        match serde_json::from_slice(json).ok()? {
            serde_json::Value::String(text) => Some(Self::Text(text)),
            serde_json::Value::Number(number) => {
                // A number keeps its digits as they are written.
                let text = || Self::Text(String::from_utf8_lossy(json).into_owned());
                Some(number.as_i64().map_or_else(text, Self::Integer))
            }
            _ => None,
        }
    }
}

/// Integers if all that are there are, else text; nothing if there are none.
fn feature_ids(ids: Vec<Option<Id>>) -> Option<ArrayRef> {
    if ids.iter().all(Option::is_none) {
        return None;
    }
    if ids.iter().all(|id| !matches!(id, Some(Id::Text(_)))) {
        let integers = ids.iter().map(|id| match id {
            Some(Id::Integer(integer)) => Some(*integer),
            _ => None,
        });
        return Some(Arc::new(integers.collect::<Int64Array>()));
    }
    let texts = ids.into_iter().map(|id| {
        id.map(|id| match id {
            Id::Integer(integer) => integer.to_string(),
            Id::Text(text) => text,
        })
    });
    Some(Arc::new(texts.collect::<StringArray>()))
}
