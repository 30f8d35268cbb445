//! Looking at files before there is a job: what they are, what would land, what looks wrong, and the job that would ingest them.
//!
//! All of a file is read, as an ingest would read it; nothing is written. What is guessed here (the format by the first bytes, the columns
//! of coordinates by their names) is written into the job, so that the ingest guesses nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Schema;
use hexfloe_batch::{
    BATCH_ID_COLUMN, CellDerivation, CellType, GeometryEncoding, GeometryRule, GeometrySummary, PointColumns,
    Resolution, Sha256Hex,
};
use hexfloe_crs::{Crs, LonLatTransform};
use hexfloe_source::{Copies, Format, GeometryColumn, Remotes, ScanOptions, Source, SourceSettings, StatedCrs};
use serde::Serialize;

use crate::positions::{GeometryInput, Located, Positions, RANGE_TOLERANCE, Wanted};
use crate::{Error, spatial, types};

/// The resolution of the cells that are shown, and of the job that is proposed.
const RESOLUTION: u8 = 9;

/// The column of the cells, unless the job names another.
const CELL_COLUMN: &str = "h3_cell";

/// Rows whose cells are shown.
const SAMPLES: usize = 3;

/// How much of a file is looked at to guess its format.
const HEAD: usize = 64 * 1024;

/// Names of columns of latitudes, of longitudes and of geometries, as people give them, in lower case.
const LATITUDES: [&str; 4] = ["lat", "latitude", "lat_dd", "decimallatitude"];
const LONGITUDES: [&str; 6] = ["lon", "lng", "long", "longitude", "lon_dd", "decimallongitude"];
const EASTINGS: [&str; 4] = ["x", "easting", "eastings", "x_coordinate"];
const NORTHINGS: [&str; 4] = ["y", "northing", "northings", "y_coordinate"];
const GEOMETRIES: [&str; 7] = ["geometry", "geom", "wkt", "the_geom", "wkb", "shape", "wkb_geometry"];

/// What files are, and what would become of them. Serialised it is the object that `--json` prints; keys are only ever added.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The version of this object's shape: 1.
    pub version: u32,
    /// Each layer of each file, in the order of the files.
    pub layers: Vec<Layer>,
}

/// One layer of one file; most files have one, without a name.
#[derive(Clone, Debug, Serialize)]
pub struct Layer {
    /// The file, as it was given.
    pub file: String,
    /// How it was read.
    pub format: String,
    /// The name of the layer, where the file has layers.
    pub layer: Option<String>,
    /// Bytes, with those of the files that belong to it.
    pub bytes: u64,
    /// Why it cannot be read, and what to do; nothing below is known then.
    pub error: Option<String>,
    /// Rows, or features.
    pub rows: u64,
    /// Rows whose geometry is null.
    pub null_geometries: u64,
    /// Rows whose geometry is empty.
    pub empty_geometries: u64,
    /// Rows that cannot be used, by the code of the reason.
    pub rejects: BTreeMap<String, u64>,
    /// The first of them.
    pub first_reject: Option<String>,
    /// The columns of a new table, with their types as Iceberg names them.
    pub columns: Vec<Column>,
    /// Where the geometries, or the coordinates, are.
    pub geometry: Option<Place>,
    /// The first rows that have a position.
    pub samples: Vec<Sample>,
    /// What looks wrong, one sentence each.
    pub problems: Vec<String>,
    /// The job that would ingest it.
    pub job: Option<String>,
}

/// A column of a new table.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// Where the geometries of a layer are, and in which system.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Place {
    /// The column; those of the coordinates, joined by a comma, where there are two.
    pub column: String,
    /// The types, as GeoParquet names them.
    pub types: Vec<String>,
    /// The coordinate reference system; `None` where it is not known.
    pub crs: Option<String>,
    /// Where that is said: `file`, `format` (its default), `given`, or `nowhere`.
    pub crs_from: &'static str,
    /// `[xmin, ymin, xmax, ymax]` in that system.
    pub bbox: Option<[f64; 4]>,
}

/// A row's position and cell.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// The row, counted from 1.
    pub row: u64,
    /// In degrees.
    pub lon: f64,
    /// In degrees.
    pub lat: f64,
    /// The H3 cell of resolution 9.
    pub cell: String,
}

/// What is given to an inspection besides the files.
#[derive(Clone, Copy, Debug)]
pub struct InspectOptions<'a> {
    /// The coordinate reference system where files do not say.
    pub crs: Option<&'a str>,
    /// The layer that is looked at; all of them without.
    pub layer: Option<&'a str>,
    /// The folder that relative paths start from.
    pub base: &'a Path,
    /// What reaches files across a network; those are refused without.
    pub remotes: Option<&'a Remotes>,
}

/// Looks at files, which are paths or URLs. A file that cannot be read is told of, and does not keep the others from being looked at.
pub fn inspect(files: &[String], options: &InspectOptions<'_>) -> Inspection {
    let layers = files.iter().flat_map(|file| match options.remotes.filter(|_| Copies::is_url(file)) {
        Some(remotes) => inspect_copies(file, remotes, options),
        None => Given { name: file, path: file }.inspect(options),
    });
    Inspection { version: 1, layers: layers.collect() }
}

fn inspect_copies(url: &str, remotes: &Remotes, options: &InspectOptions<'_>) -> Vec<Layer> {
    let copies = match Copies::of(url, remotes) {
        Ok(copies) => copies,
        Err(error) => return vec![Layer { error: Some(told(&error.into())), ..Layer::of(url) }],
    };
    // What a query asks for is part of where the file is.
    let only = copies.files().count() == 1;
    let of_copy = |(name, path): (&str, &Path)| {
        let path = path.display().to_string();
        let name = if only { url } else { name };
        let mut layers = Given { name, path: &path }.inspect(options);
        for error in layers.iter_mut().filter_map(|layer| layer.error.as_mut()) {
            *error = error.replace(&path, name);
        }
        layers
    };
    copies.files().flat_map(of_copy).collect()
}

/// A file that is looked at.
#[derive(Clone, Copy)]
struct Given<'a> {
    /// What it is called.
    name: &'a str,
    /// Where it is.
    path: &'a str,
}

impl Given<'_> {
    fn inspect(self, options: &InspectOptions<'_>) -> Vec<Layer> {
        let guess = match Guess::of(self.path, options.base) {
            Ok(guess) => guess,
            Err(error) => return vec![Layer { error: Some(told(&error)), ..Layer::of(self.name) }],
        };
        if let Some(layer) = options.layer {
            return vec![self.inspect_layer(&guess, Some(layer.to_owned()), options)];
        }
        match Source::open(guess.settings(self.path, None), options.base).and_then(|source| source.geometries()) {
            Err(hexfloe_source::Error::Layers { layers, .. }) => {
                layers.into_iter().map(|name| self.inspect_layer(&guess, Some(name), options)).collect()
            }
            _ => vec![self.inspect_layer(&guess, None, options)],
        }
    }

    fn inspect_layer(self, guess: &Guess, name: Option<String>, options: &InspectOptions<'_>) -> Layer {
        let mut layer = Layer { format: guess.format.to_string(), layer: name.clone(), ..Layer::of(self.name) };
        if let Err(error) = look(&mut layer, guess.settings(self.path, name), options) {
            layer.error = Some(told(&error));
        }
        layer
    }
}

/// An error and its causes, in one line.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

impl Layer {
    fn of(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            format: String::new(),
            layer: None,
            bytes: 0,
            error: None,
            rows: 0,
            null_geometries: 0,
            empty_geometries: 0,
            rejects: BTreeMap::new(),
            first_reject: None,
            columns: Vec::new(),
            geometry: None,
            samples: Vec::new(),
            problems: Vec::new(),
            job: None,
        }
    }

    fn reject(&mut self, row: u64, reason: &hexfloe_batch::RejectReason) {
        *self.rejects.entry(reason.code().to_owned()).or_default() += 1;
        self.first_reject.get_or_insert_with(|| format!("row {row}: {reason}"));
    }
}

/// What a file seems to be.
struct Guess {
    format: Format,
    delimiter: Option<char>,
    decimal_comma: bool,
}

impl Guess {
    fn of(file: &str, base: &Path) -> Result<Self, Error> {
        let path = base.join(file);
        let name = file.to_ascii_lowercase();
        if path.is_dir() {
            return Ok(Self { format: Format::Shapefile, delimiter: None, decimal_comma: false });
        }
        let head = Source::head(&path, HEAD)?;
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst").to_owned();
        let ends = |ending: &str| name.ends_with(ending);
        let format = if head.starts_with(b"PAR1") {
            if Self::says_geo(file, base) { Format::Geoparquet } else { Format::Parquet }
        } else if head.starts_with(b"SQLite format 3\0") {
            Format::Geopackage
        } else if head.starts_with(b"fgb") {
            Format::Flatgeobuf
        } else if head.starts_with(&[0, 0, 0x27, 0x0a]) || head.starts_with(b"PK") {
            Format::Shapefile
        } else if ends(".geojsonl") || ends(".geojsons") || ends(".geojsonseq") || head.first() == Some(&0x1e) {
            Format::Geojsonseq
        } else if ends(".geojson") || ends(".topojson") {
            Format::Geojson
        } else if head.trim_ascii_start().starts_with(b"{") {
            json_format(head)
        } else if ends(".ndjson") || ends(".jsonl") {
            Format::Ndjson
        } else if ends(".shp") || ends(".gpkg") || ends(".fgb") || ends(".parquet") || ends(".zip") {
            let problem = "its name says what its first bytes do not: it is cut off, or another file";
            return Err(Error::Job(format!("{file}: {problem}")));
        } else if let Some(problem) = other_than_table(head) {
            return Err(Error::Job(format!("{file}: {problem}")));
        } else {
            Format::Csv
        };
        let delimiter = (format == Format::Csv).then(|| delimiter(head)).flatten();
        let decimal_comma = delimiter.is_some_and(|delimiter| has_decimal_commas(head, delimiter));
        Ok(Self { format, delimiter, decimal_comma })
    }

    fn says_geo(file: &str, base: &Path) -> bool {
        let settings = SourceSettings::new("inspect", Format::Geoparquet, vec![file.to_owned()]);
        // Malformed metadata is metadata, and is told of when the file is read.
        match Source::open(settings, base).and_then(|source| source.geometries()) {
            Ok(_) => true,
            Err(error) => !error.to_string().contains("has no `geo` metadata"),
        }
    }

    fn settings(&self, file: &str, layer: Option<String>) -> SourceSettings {
        let stem =
            Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned());
        let mut settings = SourceSettings::new(&stem, self.format, vec![file.to_owned()]);
        settings.layer = layer;
        if let Some(delimiter) = self.delimiter {
            settings.csv.delimiter = delimiter;
            settings.csv.decimal_comma = self.decimal_comma;
        }
        settings
    }
}

/// Which JSON it is, from its beginning.
fn json_format(head: &[u8]) -> Format {
    let text = String::from_utf8_lossy(head);
    let first = text.trim_start().lines().next().unwrap_or_default();
    let has = |name: &str| text.contains(&format!("\"{name}\""));
    let whole = serde_json::from_str::<serde_json::Value>(first).ok();
    let kind = whole.as_ref().and_then(|value| value.get("type")).and_then(|kind| kind.as_str().map(ToOwned::to_owned));
    let more = text.trim_start().lines().nth(1).is_some_and(|line| line.trim_start().starts_with('{'));
    match kind.as_deref() {
        Some("Feature") if more => Format::Geojsonseq,
        _ if has("FeatureCollection") || has("Topology") || (has("Feature") && has("geometry")) => Format::Geojson,
        _ => Format::Ndjson,
    }
}

/// What text that is in no format is, as far as it does not look like a table.
fn other_than_table(head: &[u8]) -> Option<&'static str> {
    let begins = head.trim_ascii_start();
    if begins.starts_with(b"<") {
        return Some("it is HTML or XML: convert KML and GML, for example with ogr2ogr; a web page is not the file");
    }
    if begins.starts_with(b"[") {
        return Some("it is a JSON array: write one object a line, for example with jq -c '.[]'");
    }
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Some("it is UTF-16: convert it, for example with iconv -f UTF-16 -t UTF-8");
    }
    head.contains(&0).then_some("it is no text, and none of the formats that are known by their first bytes")
}

/// Whether numbers in the first lines have a comma where others have a point.
fn has_decimal_commas(head: &[u8], delimiter: char) -> bool {
    let text = String::from_utf8_lossy(head);
    let is_number = |field: &str| {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let field = field.trim().trim_matches('"');
        let field = field.strip_prefix('-').unwrap_or(field);
        field.split_once(',').is_some_and(|(whole, part)| digits(whole) && digits(part))
    };
    delimiter != ',' && text.lines().skip(1).take(100).any(|line| line.split(delimiter).any(is_number))
}

/// The character that the first line has most of.
fn delimiter(head: &[u8]) -> Option<char> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    let count = |delimiter: &char| line.iter().filter(|byte| char::from(**byte) == *delimiter).count();
    let most = ['|', '\t', ';', ','].into_iter().max_by_key(count)?;
    (count(&most) > 0).then_some(most)
}

/// Where positions seem to be.
struct Found {
    positions: Option<Positions>,
    place: Option<Place>,
    settings: String,
}

fn look(layer: &mut Layer, settings: SourceSettings, options: &InspectOptions<'_>) -> Result<(), Error> {
    let source = Source::open(settings.clone(), options.base)?;
    layer.bytes = source.total_bytes();
    let stated = source.geometries()?;
    let mut scan = source.scan(&ScanOptions::default())?;
    let schema = scan.schema().clone();
    let given = options.crs.map(Crs::parse).transpose()?;
    let mut found = find(&schema, &stated, given.as_ref(), &mut layer.problems)?;
    let names = Names::beside(&schema, found.positions.as_ref());
    if names.batch_id_is_taken {
        layer.problems.push(format!(
            "it has a column `{BATCH_ID_COLUMN}`, which in the table holds the id of the batch: give it another name in the file"
        ));
    }
    found.settings += &names.geometry_settings();
    layer.columns = columns(&schema, found.positions.as_ref(), &names);
    let cells = cells()?;
    let mut summary = GeometrySummary::new();
    while let Some(piece) = scan.next_piece()? {
        for batch in piece.decode()?.batches {
            for reject in &batch.rejects {
                layer.reject(batch.first_row + reject.row as u64, &reject.reason);
            }
            let at = Rows { first: batch.first_row, batch: &batch.batch };
            if let Some(positions) = &found.positions {
                at.locate(layer, positions, &cells, &mut summary)?;
            }
            if let (None | Some(Positions::Projected { .. }), Some(Place { column, .. })) =
                (&found.positions, &found.place)
            {
                at.summarise(column, &mut summary)?;
            }
            layer.rows += batch.batch.num_rows() as u64;
        }
    }
    source.check_unchanged()?;
    layer.geometry = found.place.map(|place| Place {
        types: summary.type_names().into_iter().map(ToOwned::to_owned).collect(),
        bbox: summary.bounding_box(),
        ..place
    });
    judge(layer);
    let settings = SourceSettings { paths: vec![layer.file.clone()], ..settings };
    layer.job = Some(job(&settings, &found.settings, &names));
    Ok(())
}

fn cells() -> Result<CellDerivation, Error> {
    let resolution = Resolution::try_from(RESOLUTION)?;
    let rule = GeometryRule::Representative;
    Ok(CellDerivation::new(CELL_COLUMN.to_owned(), resolution, CellType::String, Vec::new(), rule)?)
}

/// The columns that land, as a new table would have them; the rest of what is added is the job's.
fn columns(schema: &Schema, positions: Option<&Positions>, names: &Names) -> Vec<Column> {
    let land = schema.fields().iter().filter(|field| positions.is_none_or(|positions| !positions.takes(field.name())));
    let mut columns: Vec<Column> = land
        .map(|field| Column {
            name: field.name().clone(),
            data_type: types::table_type(field.data_type())
                .map_or_else(|why| format!("cannot land: {why}"), |data_type| types::name_in_table(&data_type)),
        })
        .collect();
    if positions.is_some_and(|positions| matches!(positions, Positions::Geometry(_))) {
        columns.push(Column { name: names.geometry.clone(), data_type: "binary".to_owned() });
    }
    columns
}

/// What the columns that are made are called: as usual, or with a number where the file has a column of that name.
struct Names {
    geometry: String,
    keeps_geometry: bool,
    cell: String,
    batch_id_is_taken: bool,
}

impl Names {
    fn beside(schema: &Schema, positions: Option<&Positions>) -> Self {
        let land =
            schema.fields().iter().filter(|field| positions.is_none_or(|positions| !positions.takes(field.name())));
        let taken: Vec<String> = land.map(|field| field.name().to_lowercase()).collect();
        let free = |name: &str| {
            let numbered = (2..).map(|number| format!("{name}_{number}"));
            let mut names = std::iter::once(name.to_owned()).chain(numbered);
            names.find(|name| !taken.contains(name)).unwrap_or_else(|| name.to_owned())
        };
        Self {
            geometry: free(spatial::GEOMETRY_COLUMN),
            keeps_geometry: matches!(positions, Some(Positions::Geometry(_))),
            cell: free(CELL_COLUMN),
            batch_id_is_taken: taken.iter().any(|name| name == BATCH_ID_COLUMN),
        }
    }

    fn geometry_settings(&self) -> String {
        match self.keeps_geometry && self.geometry != spatial::GEOMETRY_COLUMN {
            true => format!("store_column = {}\n", toml_text(&self.geometry)),
            false => String::new(),
        }
    }
}

fn find(
    schema: &Schema,
    stated: &[GeometryColumn],
    given: Option<&Crs>,
    problems: &mut Vec<String>,
) -> Result<Found, Error> {
    let named = |names: &[&str]| {
        let field = schema.fields().iter().find(|field| names.contains(&field.name().to_ascii_lowercase().as_str()));
        field.map(|field| field.name().clone())
    };
    if let Some(column) = stated.first() {
        return of_column(&column.column, spatial::encoding(column)?, &column.crs, given, problems);
    }
    if let (Some(lat), Some(lon)) = (named(&LATITUDES), named(&LONGITUDES)) {
        if let Some(crs) = given.filter(|crs| !crs.is_lon_lat()) {
            return of_coordinates(lon, lat, crs);
        }
        let place = Place {
            column: format!("{lon}, {lat}"),
            crs: Some("OGC:CRS84".to_owned()),
            crs_from: "format",
            ..Place::default()
        };
        let settings = format!("lat = {}\nlon = {}\n", toml_text(&lat), toml_text(&lon));
        let positions = Some(Positions::Points(PointColumns::LatLon { lat, lon }));
        return Ok(Found { positions, place: Some(place), settings });
    }
    if let Some(column) = named(&GEOMETRIES) {
        return of_column(&column, GeometryEncoding::Wkb, &StatedCrs::Missing, given, problems);
    }
    if let (Some(x), Some(y)) = (named(&EASTINGS), named(&NORTHINGS)) {
        if let Some(crs) = given {
            return of_coordinates(x, y, crs);
        }
        problems.push(format!(
            "columns `{x}` and `{y}` look like coordinates, and nothing says of which system: give --crs, for example \
             --crs EPSG:27700"
        ));
        let settings = format!("x = {}\ny = {}\n# crs = \"EPSG:…\"\n", toml_text(&x), toml_text(&y));
        let place = Place { column: format!("{x}, {y}"), crs_from: "nowhere", ..Place::default() };
        return Ok(Found { positions: None, place: Some(place), settings });
    }
    problems.push("no column looks like a position: name one in the job, or ingest it without cells".to_owned());
    Ok(Found { positions: None, place: None, settings: String::new() })
}

/// Two columns of coordinates of a system that is given.
fn of_coordinates(x: String, y: String, crs: &Crs) -> Result<Found, Error> {
    let settings = format!("x = {}\ny = {}\ncrs = {}\n", toml_text(&x), toml_text(&y), toml_text(&crs.key()));
    let place =
        Place { column: format!("{x}, {y}"), crs: Some(crs.to_string()), crs_from: "given", ..Place::default() };
    let system = std::sync::Arc::new(LonLatTransform::from(crs)?);
    let positions = Some(Positions::Projected { x, y, system });
    Ok(Found { positions, place: Some(place), settings })
}

fn of_column(
    column: &str,
    encoding: GeometryEncoding,
    stated: &StatedCrs,
    given: Option<&Crs>,
    problems: &mut Vec<String>,
) -> Result<Found, Error> {
    let (crs, crs_from) = match (stated.known(), given) {
        (Some(crs), _) if matches!(stated, StatedCrs::Stated(_)) => (Some(crs), "file"),
        (_, Some(given)) => (Some(given.clone()), "given"),
        (Some(crs), None) => (Some(crs), "format"),
        (None, None) => (None, "nowhere"),
    };
    if let (Some(crs), Some(given), "file") = (&crs, given, crs_from)
        && !crs.is_same(given)
    {
        problems.push(format!("--crs {given} is not used: the file says {crs}, and one of them is wrong"));
    }
    let place =
        Place { column: column.to_owned(), crs: crs.as_ref().map(ToString::to_string), crs_from, ..Place::default() };
    let mut settings = format!("column = {}\n", toml_text(column));
    match (&crs, crs_from) {
        (Some(crs), "given") => settings += &format!("crs = {}\n", toml_text(&crs.key())),
        (None, _) => settings += "# crs = \"EPSG:…\"\n",
        _ => {}
    }
    settings += "store = \"wkb\"\n";
    let system = match crs.as_ref().map(LonLatTransform::from).transpose() {
        Ok(system) => system.map(std::sync::Arc::new),
        Err(error) => {
            problems.push(format!("no cells can be made of it: {error}"));
            None
        }
    };
    let limits = hexfloe_geometry::Limits::default();
    let input =
        GeometryInput { column: column.to_owned(), encoding, crs, limits, repair: None, points_only: false, system };
    Ok(Found { positions: Some(Positions::Geometry(input)), place: Some(place), settings })
}

/// A batch of a layer.
struct Rows<'a> {
    first: u64,
    batch: &'a RecordBatch,
}

impl Rows<'_> {
    fn locate(
        &self,
        layer: &mut Layer,
        positions: &Positions,
        cells: &CellDerivation,
        summary: &mut GeometrySummary,
    ) -> Result<(), Error> {
        let stored = positions.as_they_are();
        let wanted = Wanted { geometries: std::slice::from_ref(&stored), cover: None, required: false };
        let Located { points, columns, rejects } = positions.locate(self.batch, wanted)?;
        let mut rejected = vec![false; self.batch.num_rows()];
        for reject in rejects {
            if !std::mem::replace(&mut rejected[reject.row], true) {
                layer.reject(self.first + reject.row as u64, &reject.reason);
            }
        }
        if let Some(geometries) = columns.first().and_then(|column| column.as_binary_view_opt()) {
            // The box is told in the system of the file.
            if !matches!(positions, Positions::Projected { .. }) {
                summary.update(geometries)?;
            }
            for row in (0..geometries.len()).filter(|row| !rejected[*row]) {
                if geometries.is_null(row) {
                    layer.null_geometries += 1;
                } else if hexfloe_geometry::facts(geometries.value(row)).is_ok_and(|facts| facts.bbox.is_none()) {
                    layer.empty_geometries += 1;
                }
            }
        }
        let Some(points) = points else { return Ok(()) };
        let usable = (0..points.lon.len()).filter(|row| points.lon.is_valid(*row) && !rejected[*row]);
        for row in usable.take(SAMPLES.saturating_sub(layer.samples.len())) {
            let one = hexfloe_batch::Points { lon: points.lon.slice(row, 1), lat: points.lat.slice(row, 1) };
            let cell = cells.derive(&one)?;
            layer.samples.push(Sample {
                row: self.first + row as u64,
                lon: points.lon.value(row),
                lat: points.lat.value(row),
                cell: cell[0].as_string::<i32>().value(0).to_owned(),
            });
        }
        Ok(())
    }

    /// Numbers of which nothing says what they mean.
    fn summarise(&self, columns: &str, summary: &mut GeometrySummary) -> Result<(), Error> {
        let Some((x, y)) = columns.split_once(", ") else { return Ok(()) };
        let (points, _) = hexfloe_batch::coordinates(self.batch, x, y)?;
        summary.update(&hexfloe_batch::wkb_points(&points)?)?;
        Ok(())
    }
}

/// What looks wrong.
fn judge(layer: &mut Layer) {
    let mut problems = Vec::new();
    if layer.rows == 0 {
        problems.push("it has no rows".to_owned());
    }
    if let Some(place) = &layer.geometry {
        judge_place(place, &mut problems);
        if place.types.iter().any(|name| name.ends_with(" Z")) {
            problems.push("it has heights (z): they are kept in the geometry, and play no part in the cell".to_owned());
        }
    }
    if layer.null_geometries > 0 {
        problems.push(format!(
            "{} without a geometry: they land with a null cell, unless quality.no_geometry = \"reject\"",
            rows(layer.null_geometries)
        ));
    }
    if layer.empty_geometries > 0 {
        problems.push(format!("{} with an empty geometry: as those without", rows(layer.empty_geometries)));
    }
    for (code, count) in &layer.rejects {
        problems.push(format!(
            "{} cannot be used ({code}): the ingest refuses the file, unless quality.on_reject = \"quarantine\"",
            rows(*count)
        ));
    }
    if let Some(first) = &layer.first_reject {
        problems.push(format!("the first of them: {first}"));
    }
    layer.problems.extend(problems);
}

fn rows(count: u64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

fn judge_place(place: &Place, problems: &mut Vec<String>) {
    let Some([xmin, ymin, xmax, ymax]) = place.bbox else { return };
    let within = |low: f64, high: f64, most: f64| low >= -most - RANGE_TOLERANCE && high <= most + RANGE_TOLERANCE;
    let degrees = within(xmin, xmax, 180.0) && within(ymin, ymax, 90.0);
    let swapped = !degrees && within(ymin, ymax, 180.0) && within(xmin, xmax, 90.0);
    let of_degrees =
        place.crs.as_deref().is_some_and(|crs| crs.starts_with("OGC:CRS84") || crs.starts_with("EPSG:4326"));
    match &place.crs {
        None => {
            let looks = if degrees {
                "they could be degrees (--crs OGC:CRS84)"
            } else if swapped {
                "they could be degrees with latitude before longitude"
            } else {
                "they are no degrees, so perhaps metres of a national grid (--crs EPSG:27700 is Britain's)"
            };
            problems.push(format!(
                "nothing says which coordinate reference system its numbers are in (from {xmin} {ymin} to {xmax} {ymax}): {looks}"
            ));
        }
        Some(crs) if of_degrees && swapped => problems.push(format!(
            "its axes look swapped: {crs} has longitude first, and the second numbers go from {ymin} to {ymax}"
        )),
        Some(crs) if of_degrees && !degrees => problems.push(format!(
            "its numbers are no degrees (from {xmin} {ymin} to {xmax} {ymax}), as {crs} has them: they may be metres of another system"
        )),
        Some(_) if of_degrees && xmax - xmin > 350.0 => problems.push(
            "its box is as wide as the world: there may be places on both sides of the antimeridian, which is fine".to_owned(),
        ),
        Some(_) => {}
    }
}

/// A table for what is called so: letters, digits and `_`. A name that loses letters gets a part of its digest, so that two of
/// them are two.
fn table_of(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    let table: String = name.chars().map(plain).collect();
    match name.is_ascii() {
        true => table,
        false => format!("{table}_{}", &Sha256Hex::of(name).to_string()[..6]),
    }
}

/// The job that would ingest it.
fn job(source: &SourceSettings, geometry: &str, names: &Names) -> String {
    let table = table_of(&match &source.layer {
        Some(layer) => format!("{}_{layer}", source.name),
        None => source.name.clone(),
    });
    let path = source.paths.first().map_or("", String::as_str);
    let mut job = format!(
        "[source]\nname = {}\nformat = \"{}\"\npaths = [{}]\n",
        toml_text(&source.name),
        source.format,
        toml_text(path)
    );
    if let Some(layer) = &source.layer {
        let _ = writeln!(job, "layer = {}", toml_text(layer));
    }
    if source.csv.delimiter != ',' && source.format == Format::Csv {
        let comma = if source.csv.decimal_comma { ", decimal_comma = true" } else { "" };
        let _ = writeln!(job, "csv = {{ delimiter = {}{comma} }}", toml_text(&source.csv.delimiter.to_string()));
    }
    if !geometry.is_empty() {
        let _ = write!(job, "\n[geometry]\n{geometry}\n[h3]\nresolution = {RESOLUTION}\n");
        if names.cell != CELL_COLUMN {
            let _ = writeln!(job, "column = {}", toml_text(&names.cell));
        }
    }
    let _ = write!(job, "\n[batch]\ngranularity = \"files\"\n\n[table]\nname = \"landing.{table}\"\n");
    job
}

/// A text as TOML writes it.
#[must_use]
pub fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}
