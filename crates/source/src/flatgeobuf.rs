//! FlatGeobuf: a header, perhaps an index, and features one behind the other, all of them FlatBuffers.
//!
//! The tables are read and verified by the `flatgeobuf` crate; the framing is done here. Its own reader takes memory for what
//! the file says a feature's size is (4 GiB, if it says so) before it looks whether the file has it, takes a file that is cut
//! off between two features for one that ends there, and panics on properties that end early and on an index whose nodes have
//! one entry. Features are read to the end of the file in their order; the index is stepped over by its size, and bounding
//! boxes are not looked at.
//!
//! The geometry column is `geometry`; an attribute of that name, or of the name of an earlier one, gets a number.
//!
//! | column | type |
//! |---|---|
//! | `Byte`, `UByte`, `Short`, `UShort`, `Int` | int |
//! | `UInt`, `Long`, `ULong` | long; a `ULong` beyond it is a reject |
//! | `Float`, `Double` | float, double |
//! | `Bool`, `String`, `Json`, `Binary` | boolean, string, string, binary |
//! | `DateTime` | timestamptz: an offset is applied, and no zone means UTC |

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryViewBuilder};
use arrow::datatypes::{DataType, Field};
use flatgeobuf::{
    ColumnType, Feature, Geometry, GeometryType as Stored, Header, size_prefixed_root_as_feature,
    size_prefixed_root_as_header,
};
use hexfloe_crs::Crs;
use hexfloe_geometry::{Dimensions, GeometryType, Limits, Problem, WkbWriter};

use crate::error::{Error, one_line};
use crate::files::{InputFile, Sequential};
use crate::geo::{self, GeometryColumn, StatedCrs};
use crate::geopackage::instant;
use crate::layers::{Cells, LARGEST_BATCH, Layer, LayerOptions, Rows, Value, unique};
use crate::scan::Rejects;
use crate::types;

/// The name of the geometry column.
const GEOMETRY: &str = "geometry";

/// What a file begins with; the fourth byte is the major version, the last that of a patch.
const MAGIC: [u8; 7] = *b"fgb\x03fgb";

/// The bytes of an entry of the index: a box and an offset.
const INDEX_ENTRY: u64 = 40;

/// The most bytes of a header.
const LONGEST_HEADER: usize = 64 << 20;

/// How much is taken at a time for a record: no more than the file turns out to have.
const STEP: usize = 1 << 20;

/// Opens a file.
pub(crate) fn open(input: &InputFile, options: &LayerOptions) -> Result<Box<dyn Layer>, Error> {
    Ok(Box::new(FlatGeobuf::open(input, options)?))
}

/// A file at some feature.
struct FlatGeobuf {
    input: InputFile,
    reader: Sequential,
    columns: Vec<Field>,
    attributes: Vec<Attribute>,
    geometries: Vec<GeometryColumn>,
    shapes: Shapes,
    /// How many features the header says there are, if it does.
    stated_rows: Option<u64>,
    /// How many bytes have not been read.
    left: u64,
    rows: u64,
    buffer: Vec<u8>,
    limits: Limits,
    record_bytes: usize,
}

/// A column of attributes.
struct Attribute {
    name: String,
    stored: ColumnType,
    data_type: DataType,
}

/// What the header says of geometries.
#[derive(Clone, Copy)]
struct Shapes {
    stored: Stored,
    dimensions: Dimensions,
}

/// What a geometry may become. Tables may share parts, so that a small feature says that it is large.
#[derive(Clone, Copy)]
struct Bounds {
    depth: usize,
    bytes: usize,
}

impl FlatGeobuf {
    fn open(input: &InputFile, options: &LayerOptions) -> Result<Self, Error> {
        let refuse = |problem: String| Error::unreadable(input.path(), problem);
        let mut reader = Sequential::new(input)?;
        let mut magic = [0; 8];
        let read = reader.read(&mut magic)?;
        check_magic(magic.get(..read).unwrap_or_default()).map_err(refuse)?;
        let mut file = Self {
            input: input.clone(),
            reader,
            columns: Vec::new(),
            attributes: Vec::new(),
            geometries: Vec::new(),
            shapes: Shapes { stored: Stored::Unknown, dimensions: Dimensions::Xy },
            stated_rows: None,
            left: input.size() - 8,
            rows: 0,
            buffer: Vec::new(),
            limits: options.of_geometries(),
            record_bytes: options.record_bytes(),
        };
        if !file.next_record(LONGEST_HEADER).map_err(|problem| problem.into_error(input, "the header"))? {
            return Err(refuse("is cut off: it has no header".to_owned()));
        }
        let buffer = std::mem::take(&mut file.buffer);
        let header = size_prefixed_root_as_header(&buffer)
            .map_err(|error| refuse(format!("has a damaged header: {}", one_line(&error))))?;
        file.understand(&header, options)?;
        let index = index_size(header.features_count(), header.index_node_size());
        let index = index.filter(|index| *index <= file.left);
        let index = index.ok_or_else(|| {
            let count = header.features_count();
            refuse(format!("is cut off, or its header lies: the index of {count} features is larger than the file"))
        })?;
        file.left -= index;
        file.reader.skip(index);
        file.buffer = buffer;
        Ok(file)
    }

    /// Takes the columns and the reference system from the header.
    fn understand(&mut self, header: &Header<'_>, options: &LayerOptions) -> Result<(), Error> {
        let refuse = |problem: String| Error::unreadable(self.input.path(), problem);
        let dimensions = match (header.has_z(), header.has_m()) {
            (false, false) => Dimensions::Xy,
            (true, false) => Dimensions::Xyz,
            (false, true) => Dimensions::Xym,
            (true, true) => Dimensions::Xyzm,
        };
        self.shapes = Shapes { stored: header.geometry_type(), dimensions };
        if header.geometry_type() != Stored::Unknown {
            check_type(header.geometry_type()).map_err(refuse)?;
        }
        self.stated_rows = Some(header.features_count()).filter(|count| *count > 0);
        let mut used = vec![Field::new(GEOMETRY, DataType::BinaryView, true)];
        for column in header.columns().iter().flatten() {
            let (stored, stated) = (column.type_(), column.name());
            let name = unique(stated, &used);
            let mut data_type = type_of(stored)
                .ok_or_else(|| refuse(format!("has a column `{name}` of the unknown type {}", stored.0)))?;
            if stored == ColumnType::DateTime && options.declares_other(&name, &data_type) {
                data_type = DataType::Utf8View;
            }
            used.push(Field::new(&name, data_type.clone(), true));
            self.attributes.push(Attribute { name, stored, data_type });
        }
        used.rotate_left(1);
        self.columns = used;
        let crs = match header.crs() {
            None => StatedCrs::Missing,
            Some(crs) => stated_crs(&crs).map_err(refuse)?,
        };
        self.geometries = vec![GeometryColumn { column: GEOMETRY.to_owned(), encoding: "WKB".to_owned(), crs }];
        Ok(())
    }

    fn bounds(&self) -> Bounds {
        Bounds { depth: self.limits.depth, bytes: self.record_bytes.saturating_mul(2) }
    }

    /// Reads the next table with its size in front into the buffer; false at the end of the file.
    fn next_record(&mut self, most: usize) -> Result<bool, Framing> {
        if self.left == 0 {
            return Ok(false);
        }
        let mut size = [0; 4];
        if self.left < 4 {
            return Err(Framing::CutOff { stated: 4, left: self.left });
        }
        self.reader.read(&mut size).map_err(Framing::Io)?;
        self.left -= 4;
        let stated = u32::from_le_bytes(size);
        let length = usize::try_from(stated).unwrap_or(usize::MAX);
        if length > most {
            return Err(Framing::TooLarge { stated, most });
        }
        if u64::from(stated) > self.left {
            return Err(Framing::CutOff { stated, left: self.left });
        }
        self.buffer.clear();
        self.buffer.extend_from_slice(&size);
        let end = length + 4;
        while self.buffer.len() < end {
            let from = self.buffer.len();
            self.buffer.resize(end.min(from + STEP), 0);
            self.reader.read(&mut self.buffer[from..]).map_err(Framing::Io)?;
        }
        self.left -= u64::from(stated);
        Ok(true)
    }
}

/// Why there is no next table.
enum Framing {
    Io(Error),
    TooLarge { stated: u32, most: usize },
    CutOff { stated: u32, left: u64 },
}

impl Framing {
    fn into_error(self, input: &InputFile, what: &str) -> Error {
        let problem = match self {
            Self::Io(error) => return error,
            Self::TooLarge { stated, most } => {
                format!(
                    "{what} says that it has {stated} bytes, more than the limit of {most}: see source.limits.record_bytes"
                )
            }
            Self::CutOff { stated, left } => {
                format!("is cut off: {what} has {stated} bytes, and {left} are left")
            }
        };
        Error::unreadable(input.path(), problem)
    }
}

impl Layer for FlatGeobuf {
    fn columns(&self) -> &[Field] {
        &self.columns
    }

    fn geometries(&self) -> &[GeometryColumn] {
        &self.geometries
    }

    fn rows(&self) -> Option<u64> {
        self.stated_rows
    }

    fn name(&self) -> Option<Arc<str>> {
        None
    }

    fn read(&mut self, most: usize) -> Result<Rows, Error> {
        let mut cells: Vec<Cells> = self.attributes.iter().map(|attribute| Cells::new(&attribute.data_type)).collect();
        let mut geometries = BinaryViewBuilder::new();
        let mut rejects = Rejects::default();
        let (mut unchecked, mut wkb) = (Vec::new(), Vec::new());
        let (mut count, mut bytes) = (0, 0);
        let mut last = false;
        while count < most && bytes < LARGEST_BATCH {
            let place = format!("feature {}", self.rows + 1);
            if !self.next_record(self.record_bytes).map_err(|problem| problem.into_error(&self.input, &place))? {
                last = true;
                break;
            }
            let refuse = |problem: String| Error::unreadable(self.input.path(), format!("{place}: {problem}"));
            let feature = size_prefixed_root_as_feature(&self.buffer)
                .map_err(|error| refuse(format!("is damaged: {}", one_line(&error))))?;
            let properties = feature.properties().map(|properties| properties.bytes()).unwrap_or_default();
            read_properties(properties, &feature, &self.attributes, count, &mut cells, &mut rejects).map_err(refuse)?;
            unchecked.clear();
            wkb.clear();
            let written = match feature.geometry() {
                None => Ok(false),
                Some(geometry) => write(&geometry, self.shapes, self.bounds(), &mut unchecked)
                    .map(|()| true)
                    .map_err(Problem::Unreadable),
            };
            let written = written.and_then(|written| {
                if written {
                    hexfloe_geometry::normalise(&unchecked, &self.limits, &mut wkb)?;
                }
                Ok(written)
            });
            match written {
                Ok(true) => geometries.append_value(&wkb),
                Ok(false) => geometries.append_null(),
                Err(problem) => {
                    geometries.append_null();
                    rejects.geometry(count, problem);
                }
            }
            bytes += self.buffer.len();
            count += 1;
            self.rows += 1;
        }
        if let Some(stated) = self.stated_rows.filter(|stated| last && *stated != self.rows) {
            let problem =
                format!("has {} features, and its header says {stated}: it is cut off, or damaged", self.rows);
            return Err(Error::unreadable(self.input.path(), problem));
        }
        let mut columns: Vec<ArrayRef> = cells.iter_mut().map(Cells::finish).collect();
        columns.push(Arc::new(geometries.finish()));
        Ok(Rows { columns, count, feature_ids: None, rejects, last })
    }
}

fn check_magic(start: &[u8]) -> Result<(), String> {
    match start {
        [] => Err("is empty (0 bytes), which is no FlatGeobuf".to_owned()),
        [b'f', b'g', b'b', version, b'f', b'g', b'b', _] if *version == MAGIC[3] => Ok(()),
        [b'f', b'g', b'b', version, b'f', b'g', b'b', _] => Err(format!(
            "is FlatGeobuf of version {version}, and version 3 is read: convert it, for example with ogr2ogr"
        )),
        _ => Err("is no FlatGeobuf: it does not begin like one".to_owned()),
    }
}

/// The bytes of the index: the nodes of a packed R-tree with so many entries in a node. `None` if they are more than can be.
fn index_size(features: u64, node_size: u16) -> Option<u64> {
    if features == 0 || node_size == 0 {
        return Some(0);
    }
    let node_size = u64::from(node_size.max(2));
    let (mut level, mut nodes) = (features, features);
    // A single feature has a root above it too.
    loop {
        level = level.div_ceil(node_size);
        nodes = nodes.checked_add(level)?;
        if level == 1 {
            return nodes.checked_mul(INDEX_ENTRY);
        }
    }
}

fn type_of(stored: ColumnType) -> Option<DataType> {
    Some(match stored {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::Byte | ColumnType::UByte | ColumnType::Short | ColumnType::UShort | ColumnType::Int => {
            DataType::Int32
        }
        ColumnType::UInt | ColumnType::Long | ColumnType::ULong => DataType::Int64,
        ColumnType::Float => DataType::Float32,
        ColumnType::Double => DataType::Float64,
        ColumnType::String | ColumnType::Json => DataType::Utf8View,
        ColumnType::DateTime => types::timestamptz(),
        ColumnType::Binary => DataType::BinaryView,
        _ => return None,
    })
}

/// Reads properties: the number of a column (two bytes), its value, and so on; columns that are not there are null.
fn read_properties(
    mut properties: &[u8],
    feature: &Feature<'_>,
    attributes: &[Attribute],
    row: usize,
    cells: &mut [Cells],
    rejects: &mut Rejects,
) -> Result<(), String> {
    if feature.columns().is_some_and(|columns| !columns.is_empty()) {
        return Err("has columns of its own, which is not read: a table has one schema".to_owned());
    }
    let mut is_set = vec![false; attributes.len()];
    // A last byte that belongs to nothing is in files of some writers, behind a binary value.
    while properties.len() > 1 {
        let column =
            take(&mut properties, 2).and_then(|bytes| bytes.first_chunk()).map(|bytes| u16::from_le_bytes(*bytes));
        let column = usize::from(column.ok_or("has properties that are cut off")?);
        let (Some(attribute), Some(cells), Some(is_set)) =
            (attributes.get(column), cells.get_mut(column), is_set.get_mut(column))
        else {
            return Err(format!("has a value for column {column}, and there are {}", attributes.len()));
        };
        if std::mem::replace(is_set, true) {
            return Err(format!("has two values for `{}`", attribute.name));
        }
        let bytes = value_bytes(attribute.stored, &mut properties);
        let bytes = bytes.ok_or_else(|| format!("has a value for `{}` that is cut off", attribute.name))?;
        if !push(attribute, bytes, cells) {
            let shown = match attribute.stored {
                ColumnType::ULong => bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)).to_string(),
                _ => String::from_utf8_lossy(bytes).into_owned(),
            };
            rejects.unparsable(row, &attribute.name, &shown, &types::name_of(&attribute.data_type));
        }
    }
    for (cells, is_set) in cells.iter_mut().zip(is_set) {
        if !is_set {
            cells.push_null();
        }
    }
    Ok(())
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

/// The bytes of a value: as many as its type has, or as it says before them.
fn value_bytes<'a>(stored: ColumnType, properties: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = match stored {
        ColumnType::Bool | ColumnType::Byte | ColumnType::UByte => 1,
        ColumnType::Short | ColumnType::UShort => 2,
        ColumnType::Int | ColumnType::UInt | ColumnType::Float => 4,
        ColumnType::Long | ColumnType::ULong | ColumnType::Double => 8,
        _ => usize::try_from(u32::from_le_bytes(*take(properties, 4)?.first_chunk()?)).ok()?,
    };
    take(properties, length)
}

/// Appends a value; false if it is not of the type.
fn push(attribute: &Attribute, bytes: &[u8], cells: &mut Cells) -> bool {
    fn number<const N: usize, T: Into<i64>>(bytes: &[u8], read: fn([u8; N]) -> T) -> Option<Value<'_>> {
        bytes.first_chunk().map(|bytes| Value::Integer(read(*bytes).into()))
    }
    let text = || std::str::from_utf8(bytes).ok();
    let value = match attribute.stored {
        ColumnType::Bool => bytes.first().map(|byte| Value::Boolean(*byte != 0)),
        ColumnType::Byte => number(bytes, i8::from_le_bytes),
        ColumnType::UByte => number(bytes, u8::from_le_bytes),
        ColumnType::Short => number(bytes, i16::from_le_bytes),
        ColumnType::UShort => number(bytes, u16::from_le_bytes),
        ColumnType::Int => number(bytes, i32::from_le_bytes),
        ColumnType::UInt => number(bytes, u32::from_le_bytes),
        ColumnType::Long => number(bytes, i64::from_le_bytes),
        ColumnType::ULong => {
            let value = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            value.and_then(|value| i64::try_from(value).ok()).map(Value::Integer)
        }
        ColumnType::Float => bytes.first_chunk().map(|bytes| Value::Float(f32::from_le_bytes(*bytes).into())),
        ColumnType::Double => bytes.first_chunk().map(|bytes| Value::Float(f64::from_le_bytes(*bytes))),
        ColumnType::DateTime if attribute.data_type != DataType::Utf8View => {
            text().and_then(instant).map(Value::Instant)
        }
        ColumnType::Binary => Some(Value::Bytes(bytes)),
        _ => text().map(Value::Text),
    };
    match value {
        Some(value) => cells.push(value),
        None => {
            cells.push_null();
            false
        }
    }
}

/// What the header says of the reference system: authority and code, or a definition.
fn stated_crs(crs: &flatgeobuf::Crs<'_>) -> Result<StatedCrs, String> {
    let code = match crs.code_string() {
        Some(code) if !code.is_empty() => Some(code.to_owned()),
        _ => Some(crs.code()).filter(|code| *code > 0).map(|code| code.to_string()),
    };
    let authority = crs.org().filter(|org| !org.is_empty());
    // No authority means EPSG (header.fbs).
    if let Some(code) = &code
        && authority.is_none_or(|org| org.eq_ignore_ascii_case("EPSG"))
    {
        return geo::by_code("EPSG", code, crs.wkt()).map(StatedCrs::Stated);
    }
    if let Some(wkt) = crs.wkt().filter(|wkt| !wkt.trim().is_empty()) {
        let crs = Crs::from_wkt(wkt)
            .map_err(|error| format!("states a reference system that cannot be read: {}", one_line(&error)))?;
        return Ok(StatedCrs::Stated(crs));
    }
    match (authority, code) {
        (Some(authority), Some(code)) => Ok(StatedCrs::Stated(Crs::of_code(authority, &code))),
        _ => Ok(StatedCrs::Missing),
    }
}

fn check_type(stored: Stored) -> Result<(), String> {
    match stored {
        Stored::Point
        | Stored::LineString
        | Stored::Polygon
        | Stored::MultiPoint
        | Stored::MultiLineString
        | Stored::MultiPolygon
        | Stored::GeometryCollection => Ok(()),
        other => {
            let name = other.variant_name().map_or_else(|| other.0.to_string(), ToOwned::to_owned);
            Err(format!("is of type {name}, and curves and surfaces are not read: convert it to straight lines first"))
        }
    }
}

/// Appends a geometry to `out`, as well-known binary that has yet to be checked.
fn write(geometry: &Geometry<'_>, shapes: Shapes, bounds: Bounds, out: &mut Vec<u8>) -> Result<(), String> {
    if out.len() > bounds.bytes {
        return Err("is larger than source.limits.record_bytes, since it has the same parts many times".to_owned());
    }
    let stored = if shapes.stored == Stored::Unknown { geometry.type_() } else { shapes.stored };
    check_type(stored)?;
    let parts = geometry.parts();
    let part_count = match &parts {
        Some(parts) => parts.len(),
        None => 0,
    };
    let members = |out: &mut Vec<u8>, container: GeometryType, member: Stored| {
        let depth = bounds.depth.checked_sub(1).ok_or("is nested deeper than source.limits.depth")?;
        let bounds = Bounds { depth, ..bounds };
        WkbWriter::new(out, shapes.dimensions).multi(container, part_count);
        let shapes = Shapes { stored: member, ..shapes };
        parts.iter().flatten().try_for_each(|part| write(&part, shapes, bounds, out))
    };
    match stored {
        Stored::MultiPolygon => return members(out, GeometryType::MultiPolygon, Stored::Polygon),
        Stored::GeometryCollection => return members(out, GeometryType::GeometryCollection, Stored::Unknown),
        _ => {}
    }
    let coordinates = coordinates(geometry, shapes.dimensions)?;
    let width = shapes.dimensions.width();
    let lines = lines(geometry, coordinates.len() / width)?;
    let line =
        |line: &std::ops::Range<usize>| coordinates.get(line.start * width..line.end * width).unwrap_or_default();
    let mut writer = WkbWriter::new(out, shapes.dimensions);
    match stored {
        Stored::Point => match coordinates.chunks_exact(width).next() {
            Some(point) if !point.iter().all(|number| number.is_nan()) => writer.point(Some(point)),
            _ => writer.point(None),
        },
        Stored::MultiPoint => {
            writer.multi(GeometryType::MultiPoint, coordinates.len() / width);
            coordinates.chunks_exact(width).for_each(|point| writer.point(Some(point)));
        }
        Stored::LineString => writer.line_string(&coordinates),
        Stored::MultiLineString => {
            writer.multi(GeometryType::MultiLineString, lines.len());
            lines.iter().for_each(|part| writer.line_string(line(part)));
        }
        _ => {
            writer.polygon(lines.len());
            lines.iter().for_each(|part| writer.ring(line(part)));
        }
    }
    Ok(())
}

/// The coordinates one after the other, each with z and m where the header says that there are.
fn coordinates(geometry: &Geometry<'_>, dimensions: Dimensions) -> Result<Vec<f64>, String> {
    let xy = geometry.xy();
    let numbers = match &xy {
        Some(xy) => xy.len(),
        None => 0,
    };
    if !numbers.is_multiple_of(2) {
        return Err("has an x without a y".to_owned());
    }
    let has_z = matches!(dimensions, Dimensions::Xyz | Dimensions::Xyzm);
    let has_m = matches!(dimensions, Dimensions::Xym | Dimensions::Xyzm);
    let z = geometry.z().filter(|_| has_z);
    let m = geometry.m().filter(|_| has_m);
    for (wanted, found, name) in [(has_z, &z, "z"), (has_m, &m, "m")] {
        let found = match found {
            Some(numbers) => numbers.len(),
            None => 0,
        };
        if wanted && found != numbers / 2 {
            return Err(format!("has {} vertices and {found} values of {name}", numbers / 2));
        }
    }
    let mut coordinates = Vec::with_capacity(numbers * 2);
    let mut xy = xy.iter().flatten();
    let (mut z, mut m) = (z.iter().flatten(), m.iter().flatten());
    while let (Some(x), Some(y)) = (xy.next(), xy.next()) {
        coordinates.extend([x, y]);
        coordinates.extend(z.next());
        coordinates.extend(m.next());
    }
    Ok(coordinates)
}

/// The vertices of each line or ring: all of them, unless it is said where each ends.
fn lines(geometry: &Geometry<'_>, vertices: usize) -> Result<Vec<std::ops::Range<usize>>, String> {
    let Some(ends) = geometry.ends().filter(|ends| !ends.is_empty()) else {
        return Ok(if vertices == 0 { Vec::new() } else { std::iter::once(0..vertices).collect() });
    };
    let mut start = 0;
    let mut lines = Vec::with_capacity(ends.len());
    for end in ends {
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        if end < start || end > vertices {
            return Err(format!("has parts that do not end one behind the other within its {vertices} vertices"));
        }
        lines.push(start..end);
        start = end;
    }
    if start != vertices {
        return Err(format!("has {vertices} vertices, and its parts end with {start}"));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, 16, Some(0))]
    #[case(5, 0, Some(0))]
    #[case(1, 16, Some(2 * 40))]
    #[case(16, 16, Some(17 * 40))]
    #[case(17, 16, Some((17 + 2 + 1) * 40))]
    #[case(3, 1, Some((3 + 2 + 1) * 40))]
    #[case(u64::MAX, 16, None)]
    #[case(u64::MAX / 40, 65535, None)]
    fn an_index_has_a_node_above_every_few(#[case] features: u64, #[case] node_size: u16, #[case] bytes: Option<u64>) {
        assert_eq!(index_size(features, node_size), bytes);
    }

    #[rstest]
    #[case(b"", "is empty")]
    #[case(b"fgb", "is no FlatGeobuf")]
    #[case(b"fgb\x03fgc\0", "is no FlatGeobuf")]
    #[case(b"fgb\x02fgb\0", "of version 2, and version 3 is read")]
    fn a_file_that_begins_like_another_is_refused(#[case] start: &[u8], #[case] problem: &str) {
        assert!(check_magic(start).unwrap_err().contains(problem));
    }

    #[test]
    fn curves_are_refused_by_their_name() {
        assert!(check_type(Stored::CurvePolygon).unwrap_err().contains("CurvePolygon"));
        assert!(check_type(Stored(99)).unwrap_err().contains("99"));
    }
}
