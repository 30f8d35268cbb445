//! Shapefiles: the shapes of a `.shp`, the attributes of a `.dbf`, and what `.shx`, `.prj` and `.cpg` say of them (ESRI
//! Shapefile Technical Description, July 1998).
//!
//! The `shapefile` crate is not used: it takes memory for the counts that a record states, reorders and closes rings, reads no
//! code pages but those it knows, and does not know which rows of the `.dbf` are deleted. Here vertices and rings stay as they
//! are, and nothing is taken for true that the file does not hold.
//!
//! Records are found by the `.shx` where there is one: a shapefile that was edited has records out of order, and old ones that
//! no longer count. A row that the `.dbf` marks as deleted is left out together with its shape. Bounding boxes are not looked
//! at. The geometry column is `geometry`; an attribute of that name, or of the name of an earlier one, gets a number.

mod archive;
mod dbf;
mod encoding;
mod shapes;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder};
use arrow::datatypes::{DataType, Field};
use hexfloe_crs::Crs;
use hexfloe_geometry::Problem;
use tempfile::TempDir;

use crate::companions;
use crate::error::{Error, one_line};
use crate::files::{CHUNK, InputFile};
use crate::geo::{GeometryColumn, StatedCrs};
use crate::layers::{Cells, LARGEST_BATCH, Layer, LayerOptions, Rows};
use crate::scan::Rejects;

use dbf::Dbf;
use encoding::Encoding;
use shapes::ShapeType;

/// The name of the geometry column.
const GEOMETRY: &str = "geometry";

/// The bytes of the header of `.shp` and `.shx`.
const HEADER: u64 = 100;

/// How much is read at a place that does not follow the one before it.
const JUMP: usize = 8 << 10;

/// The most bytes of a `.prj` or `.cpg`.
const LONGEST_NOTE: u64 = 1 << 20;

/// Opens the shapefile of a path: a `.shp`, or one in a `.zip`.
pub(crate) fn open(input: &InputFile, options: &LayerOptions) -> Result<Box<dyn Layer>, Error> {
    let path = Path::new(input.path());
    let parts = match companions::extension(path).as_deref() {
        Some("shp") => {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            if let Some(layer) = options.layer.as_deref().filter(|layer| *layer != stem) {
                let problem = format!("{} is one layer, `{stem}`, and not `{layer}`", input.path());
                return Err(Error::setting("source.layer", problem));
            }
            Parts::beside(input)?
        }
        Some("zip") => archive::extract(input, options)?,
        _ => {
            let problem = "is no .shp and no .zip: name the .shp, its companions are found beside it";
            return Err(Error::unreadable(input.path(), problem));
        }
    };
    Ok(Box::new(Shapefile::open(parts, options)?))
}

/// The files of a shapefile, opened.
struct Parts {
    /// Its name within an archive.
    layer: Option<Arc<str>>,
    shp: Part,
    dbf: Part,
    shx: Option<Part>,
    prj: Option<Part>,
    cpg: Option<Part>,
    /// Where the parts of an archive lie until the layer is closed.
    _folder: Option<TempDir>,
}

impl Parts {
    fn beside(input: &InputFile) -> Result<Self, Error> {
        let part = |extension: &str| input.companion(extension).map(Part::of).transpose();
        let dbf = part("dbf")?.ok_or_else(|| without_dbf(input.path()))?;
        Ok(Self {
            layer: None,
            shp: Part::of(input)?,
            dbf,
            shx: part("shx")?,
            prj: part("prj")?,
            cpg: part("cpg")?,
            _folder: None,
        })
    }
}

fn without_dbf(name: &str) -> Error {
    Error::unreadable(
        name,
        "has no .dbf beside it, which holds its attributes: check whether all of its files have arrived",
    )
}

/// One file of a shapefile.
struct Part {
    name: String,
    file: File,
    size: u64,
    /// Bytes of the file from `window_at` on.
    window: Vec<u8>,
    window_at: u64,
}

impl Part {
    fn of(input: &InputFile) -> Result<Self, Error> {
        Ok(Self::new(input.path().to_owned(), input.open()?, input.size()))
    }

    fn new(name: String, file: File, size: u64) -> Self {
        Self { name, file, size, window: Vec::new(), window_at: 0 }
    }

    fn refuse(&self, problem: impl Into<String>) -> Error {
        Error::unreadable(&self.name, problem)
    }

    /// `length` bytes at a place, or an error if the file does not have them.
    fn at(&mut self, offset: u64, length: usize) -> Result<&[u8], Error> {
        let cut_off = || format!("is cut off: it has {} bytes, and {length} at {offset} are missing", self.size);
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.size);
        let end = end.ok_or_else(|| self.refuse(cut_off()))?;
        let known = self.window_at + self.window.len() as u64;
        if offset < self.window_at || end > known {
            let left = usize::try_from(self.size - offset).unwrap_or(usize::MAX);
            let follows = (self.window_at..=known).contains(&offset);
            self.window.resize(length.max(if follows { CHUNK } else { JUMP }).min(left), 0);
            self.window_at = offset;
            let read = self.file.read_exact_at(&mut self.window, offset);
            if let Err(error) = read {
                self.window.clear();
                return Err(Error::io(&self.name, "read")(error));
            }
        }
        let from = usize::try_from(offset - self.window_at).unwrap_or(usize::MAX);
        let found = from.checked_add(length).and_then(|to| self.window.get(from..to));
        found.ok_or_else(|| Error::unreadable(&self.name, "is cut off"))
    }

    /// The whole of a short text file.
    fn text(&mut self) -> Result<String, Error> {
        if self.size > LONGEST_NOTE {
            return Err(self.refuse(format!("has {} bytes, which is no short text", self.size)));
        }
        let length = usize::try_from(self.size).unwrap_or_default();
        Ok(String::from_utf8_lossy(self.at(0, length)?).trim_start_matches('\u{feff}').trim().to_owned())
    }
}

/// A shapefile at some row.
struct Shapefile {
    parts: Parts,
    dbf: Dbf,
    index: Index,
    shape_type: ShapeType,
    columns: Vec<Field>,
    geometries: Vec<GeometryColumn>,
    limits: hexfloe_geometry::Limits,
    record_bytes: usize,
    /// The next record, counted from 0.
    next: u64,
    /// How many more bytes records may have. A `.shx` can lead to the same record again and again.
    left: u64,
}

/// Where records begin.
enum Index {
    /// As the `.shx` says.
    Stated,
    /// One behind the other; this is where the next begins, and where the last ends.
    Sequence { next: u64, end: u64 },
}

impl Shapefile {
    fn open(mut parts: Parts, options: &LayerOptions) -> Result<Self, Error> {
        let (shape_type, length) = header(&mut parts.shp)?;
        let index = match &mut parts.shx {
            None => Index::Sequence { next: HEADER, end: length },
            Some(shx) => {
                let (indexed, length) = header(shx)?;
                if indexed != shape_type {
                    return Err(shx.refuse("is of another type than its .shp: it belongs to another shapefile"));
                }
                let (records, rest) = ((length - HEADER) / 8, (length - HEADER) % 8);
                if rest != 0 {
                    return Err(shx.refuse("is cut off in the middle of an entry"));
                }
                parts.dbf.check_rows(records, &parts.shp.name)?;
                Index::Stated
            }
        };
        let encoding = match (&options.encoding, &mut parts.cpg) {
            (Some(label), _) => Encoding::named(label).map_err(|problem| Error::setting("source.encoding", problem))?,
            (None, Some(cpg)) => {
                match cpg.text()?.as_str() {
                    "" => None,
                    label => Some(Encoding::named(label).map_err(|problem| {
                        cpg.refuse(format!("{problem}; or set source.encoding, which wins over it"))
                    })?),
                }
                .map_or_else(|| Encoding::of_header(&mut parts.dbf), Ok)?
            }
            (None, None) => Encoding::of_header(&mut parts.dbf)?,
        };
        let geometry = Field::new(GEOMETRY, DataType::BinaryView, true);
        let dbf = Dbf::open(&mut parts.dbf, encoding, options, std::slice::from_ref(&geometry))?;
        let mut columns = dbf.columns();
        columns.push(geometry);
        let crs = match &mut parts.prj {
            None => StatedCrs::Missing,
            Some(prj) => match prj.text()?.as_str() {
                "" => StatedCrs::Missing,
                wkt => StatedCrs::Stated(Crs::from_wkt(wkt).map_err(|error| prj.refuse(one_line(&error)))?),
            },
        };
        let left = parts.shp.size;
        let geometries = vec![GeometryColumn { column: GEOMETRY.to_owned(), encoding: "WKB".to_owned(), crs }];
        Ok(Self {
            parts,
            dbf,
            index,
            shape_type,
            columns,
            geometries,
            limits: options.of_geometries(),
            record_bytes: options.record_bytes(),
            next: 0,
            left,
        })
    }

    /// Where the next record is: the offset of its content and its length.
    fn locate(&mut self) -> Result<(u64, usize), Error> {
        let record = self.next + 1;
        let offset = match (&self.index, &mut self.parts.shx) {
            (Index::Stated, Some(shx)) => u64::from(big_endian(shx.at(HEADER + self.next * 8, 4)?)) * 2,
            (Index::Stated, None) => HEADER,
            (Index::Sequence { next, end }, _) if next < end => *next,
            (Index::Sequence { .. }, _) => {
                let problem = format!(
                    "has {} shapes, and its .dbf has {} rows: they do not belong together, or one of them is cut off",
                    self.next,
                    self.dbf.rows()
                );
                return Err(self.parts.shp.refuse(problem));
            }
        };
        let shp = &mut self.parts.shp;
        if offset < HEADER {
            return Err(shp.refuse(format!("record {record} is in the header, as its .shx says")));
        }
        let length = u64::from(big_endian(shp.at(offset + 4, 4)?)) * 2;
        if let Index::Sequence { next, .. } = &mut self.index {
            *next = offset + 8 + length;
        }
        let limit = self.record_bytes;
        let fitting = usize::try_from(length).ok().filter(|length| *length <= limit).ok_or_else(|| {
            shp.refuse(format!(
                "record {record} says that it has {length} bytes, more than source.limits.record_bytes = {limit}"
            ))
        })?;
        self.left = self.left.checked_sub(8 + length).ok_or_else(|| {
            shp.refuse(format!("record {record}: its .shx leads to the same shapes again, or they are cut off"))
        })?;
        Ok((offset + 8, fitting))
    }

    /// Whether there is a shape behind the last row.
    fn has_more_shapes(&self) -> bool {
        matches!(self.index, Index::Sequence { next, end } if next < end)
    }
}

impl Layer for Shapefile {
    fn columns(&self) -> &[Field] {
        &self.columns
    }

    fn geometries(&self) -> &[GeometryColumn] {
        &self.geometries
    }

    fn rows(&self) -> Option<u64> {
        Some(self.dbf.rows())
    }

    fn name(&self) -> Option<Arc<str>> {
        self.parts.layer.clone()
    }

    fn read(&mut self, most: usize) -> Result<Rows, Error> {
        let mut cells = self.dbf.cells();
        let mut geometries = BinaryViewBuilder::new();
        let mut rejects = Rejects::default();
        let (mut count, mut bytes) = (0, 0);
        let (mut unchecked, mut wkb) = (Vec::new(), Vec::new());
        while count < most && bytes < LARGEST_BATCH && self.next < self.dbf.rows() {
            let (offset, length) = self.locate()?;
            let row = self.dbf.row(&mut self.parts.dbf, self.next)?;
            self.next += 1;
            if row.is_deleted() {
                continue;
            }
            bytes += row.len();
            self.dbf.read(row, count, &mut cells, &mut rejects);
            let record = self.parts.shp.at(offset, length)?;
            bytes += record.len();
            unchecked.clear();
            wkb.clear();
            match shapes::convert(record, self.shape_type, &mut unchecked) {
                Ok(false) => geometries.append_null(),
                Ok(true) => match hexfloe_geometry::normalise(&unchecked, &self.limits, &mut wkb) {
                    Ok(_) => geometries.append_value(&wkb),
                    Err(problem) => {
                        geometries.append_null();
                        rejects.geometry(count, problem);
                    }
                },
                Err(shapes::Refusal::Geometry(cause)) => {
                    geometries.append_null();
                    rejects.geometry(count, Problem::Unreadable(cause));
                }
                Err(shapes::Refusal::File(problem)) => {
                    return Err(self.parts.shp.refuse(format!("record {}: {problem}", self.next)));
                }
            }
            count += 1;
        }
        let last = self.next >= self.dbf.rows();
        if last && self.has_more_shapes() {
            let rows = self.dbf.rows();
            let problem = format!("has more shapes than the {rows} rows of its .dbf: they do not belong together");
            return Err(self.parts.shp.refuse(problem));
        }
        let mut columns: Vec<ArrayRef> = cells.iter_mut().map(Cells::finish).collect();
        columns.push(Arc::new(geometries.finish()));
        Ok(Rows { columns, count, feature_ids: None, rejects, last })
    }
}

/// Reads the header of a `.shp` or `.shx`: the type of its shapes, and its length in bytes.
fn header(part: &mut Part) -> Result<(ShapeType, u64), Error> {
    if part.size == 0 {
        return Err(part.refuse("is empty (0 bytes), which is no shapefile"));
    }
    let header = part.at(0, 100)?;
    let (code, words) = (big_endian(header), big_endian(&header[24..]));
    let (version, shape_type) = (little_endian(&header[28..]), little_endian(&header[32..]));
    if code != 9994 || version != 1000 {
        return Err(part
            .refuse(format!("is no shapefile: it begins with {code} and is of version {version}, not 9994 and 1000")));
    }
    let length = u64::from(words) * 2;
    if length < HEADER || length > part.size {
        let size = part.size;
        return Err(part.refuse(format!("has {size} bytes, and its header says {length}: it is cut off or damaged")));
    }
    let shape_type = ShapeType::of_code(shape_type).map_err(|problem| part.refuse(problem))?;
    Ok((shape_type, length))
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn little_endian(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}
