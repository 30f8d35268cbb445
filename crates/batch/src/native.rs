//! The native encodings of `GeoArrow`: coordinates in lists of lists. Which geometry they are is not to be seen from the lists (those of
//! a line are those of points), and is said by the encoding.

use std::ops::Range;

use arrow::array::{Array, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use hexfloe_geometry::{Dimensions, GeometryType, Problem, WkbWriter};

use crate::NativeEncoding;

/// A column in a native encoding.
pub(crate) struct NativeColumn<'a> {
    encoding: NativeEncoding,
    /// From the outside to the inside.
    lists: Vec<Lists<'a>>,
    coordinates: Coordinates<'a>,
}

/// The lists of one level.
struct Lists<'a> {
    array: &'a dyn Array,
    offsets: Offsets<'a>,
}

enum Offsets<'a> {
    Short(&'a [i32]),
    Long(&'a [i64]),
}

/// The level within the innermost lists.
struct Coordinates<'a> {
    array: &'a dyn Array,
    dimensions: Dimensions,
    /// x, y, and so on: the numbers, and where within them coordinate 0 is; from one to the next it is `step` on.
    axes: Vec<(&'a Float64Array, usize)>,
    step: usize,
}

impl<'a> NativeColumn<'a> {
    /// `None` if the array is not of that encoding.
    pub(crate) fn new(encoding: NativeEncoding, array: &'a dyn Array) -> Option<Self> {
        let depth = match encoding {
            NativeEncoding::Point => 0,
            NativeEncoding::LineString | NativeEncoding::MultiPoint => 1,
            NativeEncoding::Polygon | NativeEncoding::MultiLineString => 2,
            NativeEncoding::MultiPolygon => 3,
        };
        let mut lists = Vec::with_capacity(depth);
        let mut inner = array;
        for _ in 0..depth {
            let (offsets, values) = match inner.data_type() {
                DataType::List(_) => {
                    let list = inner.as_list::<i32>();
                    (Offsets::Short(list.value_offsets()), list.values())
                }
                DataType::LargeList(_) => {
                    let list = inner.as_list::<i64>();
                    (Offsets::Long(list.value_offsets()), list.values())
                }
                _ => return None,
            };
            lists.push(Lists { array: inner, offsets });
            inner = values.as_ref();
        }
        Some(Self { encoding, lists, coordinates: Coordinates::new(inner)? })
    }

    /// Appends the geometry of a row that is not null to `out`, as it is: nothing is checked but that its parts are there.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
        let dimensions = self.coordinates.dimensions;
        let mut writer = WkbWriter::new(out, dimensions);
        match self.encoding {
            NativeEncoding::Point => writer.point(Some(&self.coordinates.read(row..row + 1)?)),
            NativeEncoding::LineString => writer.line_string(&self.numbers(0, row)?),
            NativeEncoding::Polygon => self.polygon(0, row, &mut writer)?,
            NativeEncoding::MultiPoint => {
                let numbers = self.numbers(0, row)?;
                writer.multi(GeometryType::MultiPoint, numbers.len() / dimensions.width());
                numbers.chunks_exact(dimensions.width()).for_each(|number| writer.point(Some(number)));
            }
            NativeEncoding::MultiLineString => {
                let lines = self.range(0, row)?;
                writer.multi(GeometryType::MultiLineString, lines.len());
                for line in lines {
                    writer.line_string(&self.numbers(1, line)?);
                }
            }
            NativeEncoding::MultiPolygon => {
                let polygons = self.range(0, row)?;
                writer.multi(GeometryType::MultiPolygon, polygons.len());
                for polygon in polygons {
                    self.polygon(1, polygon, &mut writer)?;
                }
            }
        }
        Ok(())
    }

    fn polygon(&self, level: usize, at: usize, writer: &mut WkbWriter<'_>) -> Result<(), Problem> {
        let rings = self.range(level, at)?;
        writer.polygon(rings.len());
        for ring in rings {
            writer.ring(&self.numbers(level + 1, ring)?);
        }
        Ok(())
    }

    /// The coordinates of a list of the innermost level.
    fn numbers(&self, level: usize, at: usize) -> Result<Vec<f64>, Problem> {
        self.coordinates.read(self.range(level, at)?)
    }

    /// What a list holds.
    fn range(&self, level: usize, at: usize) -> Result<Range<usize>, Problem> {
        let lists = self.lists.get(level).filter(|lists| lists.array.is_valid(at)).ok_or_else(missing)?;
        let (from, to) = match lists.offsets {
            Offsets::Short(offsets) => (offset(offsets, at), offset(offsets, at + 1)),
            Offsets::Long(offsets) => (offset(offsets, at), offset(offsets, at + 1)),
        };
        Ok(from.ok_or_else(missing)?..to.ok_or_else(missing)?)
    }
}

impl<'a> Coordinates<'a> {
    fn new(array: &'a dyn Array) -> Option<Self> {
        match array.data_type() {
            DataType::Struct(fields) => {
                let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
                let dimensions = match names[..] {
                    ["x", "y"] => Dimensions::Xy,
                    ["x", "y", "z"] => Dimensions::Xyz,
                    ["x", "y", "m"] => Dimensions::Xym,
                    ["x", "y", "z", "m"] => Dimensions::Xyzm,
                    _ => return None,
                };
                let children = array.as_struct().columns();
                let axes = children.iter().map(|child| Some((child.as_primitive_opt::<Float64Type>()?, 0)));
                Some(Self { array, dimensions, axes: axes.collect::<Option<_>>()?, step: 1 })
            }
            DataType::FixedSizeList(field, _) => {
                let list = array.as_fixed_size_list();
                let dimensions = match (list.value_length(), field.name().as_str()) {
                    (2, _) => Dimensions::Xy,
                    (3, "xym") => Dimensions::Xym,
                    (3, _) => Dimensions::Xyz,
                    (4, _) => Dimensions::Xyzm,
                    _ => return None,
                };
                let numbers = list.values().as_primitive_opt::<Float64Type>()?;
                let axes = (0..dimensions.width()).map(|axis| (numbers, axis)).collect();
                Some(Self { array, dimensions, axes, step: dimensions.width() })
            }
            _ => None,
        }
    }

    /// The numbers of those coordinates, one coordinate after the other.
    fn read(&self, range: Range<usize>) -> Result<Vec<f64>, Problem> {
        let mut numbers = Vec::with_capacity(range.len() * self.axes.len());
        for at in range {
            for &(axis, first) in &self.axes {
                let place = first + at * self.step;
                if self.array.is_null(at) || axis.is_null(place) {
                    return Err(missing());
                }
                numbers.push(axis.value(place));
            }
        }
        Ok(numbers)
    }
}

fn offset<T: Copy>(offsets: &[T], at: usize) -> Option<usize>
where
    usize: TryFrom<T>,
{
    offsets.get(at).and_then(|&offset| usize::try_from(offset).ok())
}

fn missing() -> Problem {
    Problem::Unreadable("a part of it is null".to_owned())
}
