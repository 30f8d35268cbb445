//! A source: its settings checked, its files found.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use hexfloe_batch::FileFact;

use crate::content::Content;
use crate::csv::CsvReader;
use crate::declared::{self, Declared};
use crate::error::Error;
use crate::files::{self, InputFile, Sequential};
use crate::flatgeobuf;
use crate::geo::{self, GeometryColumn};
use crate::geojson::{GeojsonReader, Layout, Survey};
use crate::geopackage;
use crate::layers::{self, LayerOptions, LayerReader};
use crate::ndjson::NdjsonReader;
use crate::parallel;
use crate::remote::{self, Remotes};
use crate::row_groups::ParquetFiles;
use crate::scan::{Scan, ScanOptions};
use crate::settings::{Dialect, Format, InputLimits, SourceSettings};
use crate::shapefile;

/// How many files are hashed at once: more threads than this wait for the disk.
const HASHING_THREADS: usize = 4;

/// An opened source. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct Source {
    settings: SourceSettings,
    dialect: Dialect,
    declared: Declared,
    files: Arc<[InputFile]>,
    survey: Arc<OnceLock<Arc<Survey>>>,
}

impl Source {
    /// Checks the settings and finds the files. Patterns and relative paths start from `base`, the folder of the job file.
    /// Nothing is read yet.
    ///
    /// # Errors
    ///
    /// If a setting cannot be obeyed, or a path leads to no file, to a folder, or to something that cannot be read twice.
    pub fn open(settings: SourceSettings, base: &Path) -> Result<Self, Error> {
        Self::open_from(settings, base, None)
    }

    /// Like [`Source::open`], for paths that may also be URLs: `s3://bucket/prefix/*.parquet`, `gs://`, `abfss://`, or
    /// `https://host/file.parquet`, which knows no patterns (`http` from this machine only). Such files are copied now, to a private
    /// folder below [`std::env::temp_dir`] that is removed with the last clone of the source; that needs as much room as the files
    /// are large. Waits for the network.
    ///
    /// # Errors
    ///
    /// As for [`Source::open`]; if a server or the network fails, or an object changes while it is copied.
    pub fn open_with(settings: SourceSettings, base: &Path, remotes: &Remotes) -> Result<Self, Error> {
        Self::open_from(settings, base, Some(remotes))
    }

    /// The first bytes of a local file, at most so many; of a compressed one, those of its text.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is compressed in a way that is not read.
    pub fn head(path: &Path, most: usize) -> Result<Vec<u8>, Error> {
        let input = InputFile::at(path)?;
        let mut head = vec![0; most];
        let mut length = Sequential::new(&input)?.read(&mut head)?;
        if head.starts_with(&[0x1f, 0x8b]) || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            length = Content::open(&input, &InputLimits::default())?.read(&mut head)?;
        }
        head.truncate(length);
        Ok(head)
    }

    /// The paths of the files that [`Source::open_with`] would open, in their order. Nothing is copied.
    ///
    /// # Errors
    ///
    /// If a path leads to no file, or a server or the network fails.
    pub fn list(settings: &SourceSettings, base: &Path, remotes: &Remotes) -> Result<Vec<String>, Error> {
        let (urls, local): (Vec<&String>, Vec<&String>) = settings.paths.iter().partition(|path| remote::is_url(path));
        let mut names = Vec::new();
        if !local.is_empty() || urls.is_empty() {
            let local: Vec<String> = local.into_iter().cloned().collect();
            let files = files::find(&local, base, settings.format, None)?;
            names.extend(files.iter().map(|file| file.path().to_owned()));
        }
        if !urls.is_empty() {
            names.extend(remote::names(&urls.iter().map(|url| url.as_str()).collect::<Vec<_>>(), remotes)?);
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn open_from(settings: SourceSettings, base: &Path, remotes: Option<&Remotes>) -> Result<Self, Error> {
        if settings.name.trim().is_empty() {
            return Err(Error::setting(
                "source.name",
                "is empty: the name is part of the batch id, so choose one that stays",
            ));
        }
        if settings.select.is_some() && !cfg!(feature = "sql") {
            let problem =
                "this build has no SQL: build it with `cargo build --release --features sql`, or remove `select`";
            return Err(Error::setting("source.select", problem));
        }
        let dialect = Dialect::new(&settings.csv)?;
        let declared = Declared::by_job(&settings.schema)?;
        let files = files::find(&settings.paths, base, settings.format, remotes)?.into();
        Ok(Self { settings, dialect, declared, files, survey: Arc::default() })
    }

    /// What the job says.
    #[must_use]
    pub fn settings(&self) -> &SourceSettings {
        &self.settings
    }

    /// The files, in the order in which they are read: by the bytes of their paths.
    #[must_use]
    pub fn files(&self) -> &[InputFile] {
        &self.files
    }

    /// The size of all files together, with their companions.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().flat_map(InputFile::parts).map(InputFile::size).sum()
    }

    /// The path, size and content hash of each file and of the companions that belong to it (such as the `.dbf` of a shapefile),
    /// by path. The first call reads all bytes, further calls
    /// none. `on_bytes` is told of progress, by how many bytes more, from several threads.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not the one that was found.
    pub fn facts(&self, on_bytes: &(dyn Fn(u64) + Sync)) -> Result<Vec<FileFact>, Error> {
        let mut parts: Vec<&InputFile> = self.files.iter().flat_map(InputFile::parts).collect();
        parts.sort_by(|a, b| a.path().as_bytes().cmp(b.path().as_bytes()));
        parts.dedup_by(|a, b| a.path() == b.path());
        parallel::map(&parts, HASHING_THREADS, |file| file.fact(on_bytes))
    }

    /// Checks that each file is still the one that was found: device, inode, size and time of modification; for one across the
    /// network, what its server says of it. To be called after
    /// the last row and before the commit: until then a file may have been written to under the reader.
    ///
    /// # Errors
    ///
    /// If one is not.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(InputFile::check_unchanged)
    }

    /// The geometry columns of the files, the primary one first; none where the format knows of none. Reads as little as
    /// says so: footers and headers; all of a GeoJSON file, whose `crs` may stand anywhere (once, for this and for scans).
    ///
    /// # Errors
    ///
    /// If a file does not say what its format requires of it, if a field of that is malformed, or if the files disagree.
    pub fn geometries(&self) -> Result<Vec<GeometryColumn>, Error> {
        match self.settings.format {
            Format::Geoparquet => geo::agreed(&self.files, geo::of_parquet),
            Format::Csv | Format::Ndjson | Format::Parquet => Ok(Vec::new()),
            Format::Geojson | Format::Geojsonseq => {
                let survey = self.survey()?;
                geo::agreed(&self.files, |file| Ok(survey.geometries(file)))
            }
            Format::Geopackage => self.of_layers(geopackage::open),
            Format::Shapefile => self.of_layers(shapefile::open),
            Format::Flatgeobuf => self.of_layers(flatgeobuf::open),
        }
    }

    /// Opens a scan: finds the schema, and refuses what can be refused before the first row. Text formats are read once for
    /// that, unless every column is declared.
    ///
    /// # Errors
    ///
    /// If a file is not what its format says, if the files have no common schema, if a required or declared column is not
    /// there, or if the SQL of `select` is refused.
    pub fn scan(&self, options: &ScanOptions) -> Result<Scan, Error> {
        match &self.settings.select {
            None => {
                let scan = self.scan_files(options)?;
                check_required(
                    &scan,
                    &options.columns_required,
                    self.files.first().map_or("the source", InputFile::path),
                )?;
                Ok(scan)
            }
            #[cfg(feature = "sql")]
            Some(sql) => {
                // What the table declares is about the result; the input has the types of the job and of the files.
                let input = self.scan_files(&ScanOptions { declared: Vec::new(), ..options.clone() })?;
                let scan = crate::select::scan(sql, input, options)?;
                check_required(&scan, &options.columns_required, crate::select::RESULT)?;
                Ok(scan)
            }
            #[cfg(not(feature = "sql"))]
            Some(_) => Err(Error::setting("source.select", "this build has no SQL")), // refused by `open` already
        }
    }

    /// What the first pass over GeoJSON finds. It is made once.
    fn survey(&self) -> Result<Arc<Survey>, Error> {
        if let Some(survey) = self.survey.get() {
            return Ok(Arc::clone(survey));
        }
        let layout = geojson_layout(self.settings.format);
        let survey = Arc::new(Survey::make(&self.files, layout, &self.settings.limits)?);
        Ok(Arc::clone(self.survey.get_or_init(|| survey)))
    }

    fn scan_files(&self, options: &ScanOptions) -> Result<Scan, Error> {
        let declared = self.declared.with_table(&options.declared);
        let ScanOptions { batch_rows, threads, .. } = *options;
        let limits = &self.settings.limits;
        Ok(match self.settings.format {
            Format::Csv => {
                let reader = CsvReader::open(&self.files, &self.dialect, limits, &declared, batch_rows, threads)?;
                Scan::serial(Arc::clone(reader.schema()), reader.rows(), Box::new(reader))
            }
            Format::Ndjson => {
                let reader = NdjsonReader::open(&self.files, &declared, limits, batch_rows)?;
                Scan::serial(Arc::clone(reader.schema()), Some(reader.rows()), Box::new(reader))
            }
            Format::Parquet | Format::Geoparquet => {
                if self.settings.format == Format::Geoparquet {
                    self.geometries()?;
                }
                let files = ParquetFiles::open(&self.files, &declared, batch_rows, threads)?;
                Scan::row_groups(Arc::clone(files.schema()), files.rows(), files.row_groups())
            }
            Format::Geojson | Format::Geojsonseq => {
                // Files with several reference systems have no common schema.
                self.geometries()?;
                let survey = self.survey()?;
                let reader = GeojsonReader::open(
                    &self.files,
                    geojson_layout(self.settings.format),
                    &survey,
                    &declared,
                    limits,
                    batch_rows,
                )?;
                Scan::serial(Arc::clone(reader.schema()), Some(reader.rows()), Box::new(reader))
            }
            Format::Geopackage => self.scan_layers(geopackage::open, &declared, batch_rows)?,
            Format::Shapefile => self.scan_layers(shapefile::open, &declared, batch_rows)?,
            Format::Flatgeobuf => self.scan_layers(flatgeobuf::open, &declared, batch_rows)?,
        })
    }
}

fn geojson_layout(format: Format) -> Layout {
    if format == Format::Geojsonseq { Layout::Sequence } else { Layout::Document }
}

impl Source {
    /// The geometry columns of layers.
    fn of_layers(&self, open: layers::Open) -> Result<Vec<GeometryColumn>, Error> {
        let options = self.layer_options(&self.declared);
        geo::agreed(&self.files, |file| layers::geometries(open, file, &options))
    }

    /// The rows of layers.
    fn scan_layers(&self, open: layers::Open, declared: &Declared, batch_rows: usize) -> Result<Scan, Error> {
        let reader = LayerReader::open(&self.files, open, self.layer_options(declared), batch_rows)?;
        Ok(Scan::serial(Arc::clone(reader.schema()), reader.rows(), Box::new(reader)))
    }

    fn layer_options(&self, declared: &Declared) -> LayerOptions {
        LayerOptions {
            layer: self.settings.layer.clone(),
            encoding: self.settings.encoding.clone(),
            limits: self.settings.limits.clone(),
            declared: declared.clone(),
        }
    }
}

fn check_required(scan: &Scan, columns: &[String], file: &str) -> Result<(), Error> {
    let names = scan.schema().fields().iter().map(|field| field.name().as_str());
    columns.iter().try_for_each(|column| declared::require(column, names.clone(), file))
}
