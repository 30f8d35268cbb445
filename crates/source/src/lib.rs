//! Files to record batches, with the facts a batch id is made of.
//!
//! An ingest can only be exactly once if its input is *one thing*: the same files must give the same rows, in the same order,
//! with the same types, on every machine and in every attempt; and a file that is cut off, or replaced half way, must give
//! nothing. This crate turns a set of files into that one thing. It knows nothing of tables, cells or catalogs.
//!
//! # The concepts
//!
//! A [`Source`] is opened from [`SourceSettings`], the `[source]` section of a job. Opening finds the files: patterns are
//! expanded, and the files sorted by the bytes of their paths, each once. From then on every time a file is opened it must be
//! the one that was found, and [`Source::check_unchanged`] says so once more before a commit.
//!
//! [`Source::facts`] are the path, size and SHA-256 of each file. They, and not times or hosts, are what the id of a batch of
//! files is made of. Each byte is hashed once.
//!
//! Files across a network ([`Source::open_with`]) become local ones first: each is copied once, at the version that was listed, and
//! hashed on the way; what is read after that is the copy. Their names are their URLs, without query and credentials.
//!
//! Text may be compressed with gzip or zstd. That is told by the bytes of a file and not by its name, the text is never longer than
//! the limits allow, and a file that is cut off is an error. What is hashed is the file as it is.
//!
//! A [`Scan`] has one schema and gives [`Piece`]s, and a piece decodes to [`SourceBatch`]es. A batch knows its file and the
//! number of its first row, so that whatever is said about a row later can name its place. Row groups of Parquet are pieces
//! that any number of threads may decode at once; text and SQL are decoded one piece after the other.
//!
//! # What the rows are
//!
//! | format | types | what cannot be read |
//! |---|---|---|
//! | CSV | declared, else the narrowest that holds every value | a value: its row is a reject. A record: an error with file and line |
//! | NDJSON | the same, from JSON's own types | the same |
//! | GeoJSON, and sequences of it | the same for properties; `geometry` is well-known binary | a value or a geometry: its row is a reject. The document: an error with file, feature and byte |
//! | Parquet | the file's, widened where that is declared | an error with the file |
//! | GeoParquet | the same; the geometry column and its CRS from the `geo` metadata | an error with the file and the field |
//! | GeoPackage | the declared ones of the layer's table; the CRS from `gpkg_spatial_ref_sys` | a value that is not of its type, a geometry: its row is a reject |
//! | shapefile | by letter and width of the field; the CRS from the `.prj` | the same |
//! | FlatGeobuf | those of the header, and its CRS | the same; a feature that is no table of its file: an error with its number |
//!
//! Types are never inferred from a sample. The whole input is looked at, and the type of a column is a function of the set of
//! kinds its values have, so neither the order of rows nor the size of batches matters. When in doubt a column is text:
//! `01569` is no number. What is inferred can still differ between two batches (an identifier that has no leading zero today),
//! so a table that exists should be passed as [`ScanOptions::declared`], and a job can declare its columns.
//!
//! GeoJSON is longitude and latitude on WGS 84 (RFC 7946); the `crs` member of the older specification is obeyed wherever it stands.
//! The members of a document come in any order, so the whole file is looked at before the first row comes out of it, and never
//! held: a collection of a gigabyte on one line takes as much memory as its longest feature and one batch.
//!
//! A *reject* is a row with a value that cannot be read as its declared type: the row stays in its batch, the value is null, and
//! [`SourceBatch::rejects`] says why. To refuse the batch or to put the row aside is the caller's decision. It is never a
//! silent null.
//!
//! Geometries are well-known binary in one form ([`hexfloe_geometry`]), in a column behind the attributes; null where a row has none.
//! [`Source::geometries`] tells the columns and their coordinate reference systems, which all files of a source share. A file
//! with several layers needs [`SourceSettings::layer`].
//!
//! Some inputs are several files: a `.shp` has companions beside it, and a GeoPackage that is being written to a log. These are
//! found with the file ([`InputFile::companions`]), are part of the facts and are checked like it; a batch of a shapefile is
//! another one when its `.cpg` is. A GeoPackage with a log, and a shapefile in a zip archive, are copied to a private folder
//! among the system's temporary ones for as long as they are read.
//!
//! # Example
//!
//! ```
//! use hexfloe_source::{Format, ScanOptions, Source, SourceSettings};
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("b.csv"), "name,lat,lon\nSydney,-33.87,151.21\n")?;
//! std::fs::write(folder.path().join("a.csv"), "name,lat,lon\nMunich,48.14,11.58\nNowhere,,\n")?;
//!
//! let source = Source::open(SourceSettings::new("cities", Format::Csv, vec!["*.csv".to_owned()]), folder.path())?;
//! assert_eq!(source.facts(&|_| {})?.len(), 2);
//!
//! let mut scan = source.scan(&ScanOptions::default())?;
//! let mut read = Vec::new();
//! while let Some(piece) = scan.next_piece()? {
//!     for batch in piece.decode()?.batches {
//!         read.push((batch.file.to_string(), batch.first_row, batch.batch.num_rows()));
//!     }
//! }
//! source.check_unchanged()?;
//! assert_eq!(read, [("a.csv".to_owned(), 1, 2), ("b.csv".to_owned(), 1, 1)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it does not do
//!
//! - **It does not judge coordinates.** A latitude of 91 is a number like any other here; whether it is a place is for the
//!   crate that makes cells of it.
//! - **It does not filter.** Every row of the input comes out. In particular no row is left out by a bounding box: one that
//!   crosses the antimeridian says the opposite of what it means.
//! - **It does not guess encodings.** Text is UTF-8, with or without a byte order mark. That of a shapefile is as the job, the
//!   `.cpg` or the `.dbf` says, and ISO-8859-1 where none does.
//! - **It does not believe counts and sizes.** What a file says it holds takes no memory before it is there, and nothing beyond
//!   [`InputLimits`] does.
//! - **It does not hold files in memory.** The most that is held is one row group, or one batch of text or features and the longest
//!   record, whose length is limited ([`InputLimits`]).
//! - **It does not run SQL** unless it is built with the feature `sql`, which brings a query engine and many minutes of
//!   compilation. Then a job's `select` is run over the table `input`, in one partition, in bounded memory.

mod companions;
mod content;
mod csv;
mod declared;
mod error;
mod files;
mod flatgeobuf;
mod geo;
mod geojson;
mod geopackage;
mod infer;
mod json;
mod layers;
mod names;
mod ndjson;
mod parallel;
mod remote;
mod row_groups;
mod scan;
#[cfg(feature = "sql")]
mod select;
mod settings;
mod shapefile;
mod source;
mod text;
mod types;

pub use error::{Error, ErrorKind};
pub use files::InputFile;
pub use geo::{GeometryColumn, StatedCrs};
pub use remote::{Copies, Remotes};
pub use scan::{Decoded, Piece, Scan, ScanOptions, SourceBatch};
pub use settings::{CsvSettings, Format, InputLimits, SourceSettings};
pub use source::Source;
