//! Derivations: columns that are computed from the points. There is one so far, the H3 cell, with coarser parents
//! beside it for partitioning. What exactly was computed is pinned by a [`DerivationRecord`] in the table, because a
//! column must never mix the cells of two derivations.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, Int64Array, StringArray};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{DataType, Field};
use h3o::{CellIndex, LatLng};
use hexfloe_cells::{Degrees, Encoder};
use serde::{Deserialize, Serialize};

use crate::geometry::even_offsets;
use crate::lonlat::all_within;
use crate::{BATCH_ID_COLUMN, DerivationRecord, Error, Lat, Lon, LonLat, Points, RejectReason};

/// How many hexadecimal digits a cell has: the topmost of its sixteen is always 0, and is not written.
const CELL_DIGITS: usize = 15;

/// An H3 resolution: 0 (122 cells, the size of Europe) to 15 (under a square metre).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Resolution(u8);

impl Resolution {
    /// The coarsest.
    pub const COARSEST: Self = Self(0);
    /// The finest.
    pub const FINEST: Self = Self(15);

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// All sixteen, from coarse to fine.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=15).map(Self)
    }

    /// The same resolution, as h3o names it.
    pub(crate) const fn to_h3o(self) -> h3o::Resolution {
        match self.0 {
            0 => h3o::Resolution::Zero,
            1 => h3o::Resolution::One,
            2 => h3o::Resolution::Two,
            3 => h3o::Resolution::Three,
            4 => h3o::Resolution::Four,
            5 => h3o::Resolution::Five,
            6 => h3o::Resolution::Six,
            7 => h3o::Resolution::Seven,
            8 => h3o::Resolution::Eight,
            9 => h3o::Resolution::Nine,
            10 => h3o::Resolution::Ten,
            11 => h3o::Resolution::Eleven,
            12 => h3o::Resolution::Twelve,
            13 => h3o::Resolution::Thirteen,
            14 => h3o::Resolution::Fourteen,
            _ => h3o::Resolution::Fifteen,
        }
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TryFrom<u8> for Resolution {
    type Error = Error;

    fn try_from(value: u8) -> Result<Self, Error> {
        if value <= Self::FINEST.0 { Ok(Self(value)) } else { Err(Error::Resolution { value: value.to_string() }) }
    }
}

impl FromStr for Resolution {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let value: u8 = text.parse().map_err(|_| Error::Resolution { value: text.to_owned() })?;
        Self::try_from(value)
    }
}

impl From<Resolution> for u8 {
    fn from(resolution: Resolution) -> Self {
        resolution.0
    }
}

/// How a cell is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CellType {
    /// As a 64-bit integer: the index itself. Its top bit is 0, so it is never negative.
    #[default]
    Long,
    /// As text: the index in 15 lower-case hexadecimal digits.
    String,
}

impl CellType {
    /// The Arrow type of a column of cells.
    pub const fn data_type(self) -> DataType {
        match self {
            Self::Long => DataType::Int64,
            Self::String => DataType::Utf8,
        }
    }
}

impl fmt::Display for CellType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Long => "long",
            Self::String => "string",
        })
    }
}

/// Which point of a geometry decides its cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GeometryRule {
    /// The geometry is a point, and is that point.
    #[default]
    Point,
    /// The point that stands for a geometry of any type: see [`hexfloe_geometry::representative_point`]. A geometry that is
    /// null or empty has none, and its cell is null.
    Representative,
}

impl fmt::Display for GeometryRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Point => "point",
            Self::Representative => "representative-point-1",
        })
    }
}

/// The derivation of a column of H3 cells, and of columns with their parents.
///
/// ```
/// use arrow::array::{AsArray, Float64Array};
/// use hexfloe_batch::{CellDerivation, CellType, GeometryRule, Points};
///
/// let derivation =
///     CellDerivation::new("h3_cell".to_owned(), 9.try_into()?, CellType::String, vec![3.try_into()?], GeometryRule::Point)?;
/// let oslo = Points { lon: Float64Array::from(vec![10.75]), lat: Float64Array::from(vec![59.91]) };
///
/// let names: Vec<_> = derivation.fields().iter().map(|field| field.name().clone()).collect();
/// assert_eq!(names, ["h3_cell", "h3_cell_r3"]);
///
/// let columns = derivation.derive(&oslo)?;
/// assert_eq!(columns[0].as_string::<i32>().value(0), "8909993867bffff");
/// assert_eq!(columns[1].as_string::<i32>().value(0), "830999fffffffff");
/// # Ok::<(), hexfloe_batch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellDerivation {
    column: String,
    resolution: Resolution,
    cell_type: CellType,
    parents: Vec<Resolution>,
    rule: GeometryRule,
    nullable: bool,
}

impl CellDerivation {
    /// Cells of `resolution` in `column`, and those of each of `parents` in a column of its own.
    ///
    /// # Errors
    ///
    /// If the column has no name or that of the batch id, or if a parent is listed twice or is not coarser.
    pub fn new(
        column: String,
        resolution: Resolution,
        cell_type: CellType,
        parents: Vec<Resolution>,
        rule: GeometryRule,
    ) -> Result<Self, Error> {
        if column.is_empty() {
            return Err(Error::CellColumn { column, cause: "it is empty" });
        }
        if column == BATCH_ID_COLUMN {
            return Err(Error::CellColumn { column, cause: "the batch id has that name" });
        }
        for (index, &parent) in parents.iter().enumerate() {
            if parent >= resolution {
                return Err(Error::ParentNotCoarser { parent: parent.get(), resolution: resolution.get() });
            }
            if parents.iter().take(index).any(|&earlier| earlier == parent) {
                return Err(Error::ParentTwice { parent: parent.get() });
            }
        }
        let nullable = rule == GeometryRule::Representative;
        Ok(Self { column, resolution, cell_type, parents, rule, nullable })
    }

    /// The same for rows that all have a position: no cell is null.
    #[must_use]
    pub fn required(self) -> Self {
        Self { nullable: false, ..self }
    }

    /// Whether a row without a position has a null cell; if not, such a row is an error.
    pub const fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// The name of the cell column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The name of the column of parents of that resolution: `{column}_r{resolution}`.
    pub fn parent_column(&self, parent: Resolution) -> String {
        format!("{}_r{parent}", self.column)
    }

    /// The resolution of the cells.
    pub const fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// How the cells and their parents are stored.
    pub const fn cell_type(&self) -> CellType {
        self.cell_type
    }

    /// The resolutions of the parents, in the order of their columns.
    pub fn parents(&self) -> &[Resolution] {
        &self.parents
    }

    /// Which point of a geometry decides its cell.
    pub const fn rule(&self) -> GeometryRule {
        self.rule
    }

    /// The derived columns: the cells, then each of the parents.
    pub fn fields(&self) -> Vec<Field> {
        let parents = self.parents.iter().map(|&parent| self.parent_column(parent));
        std::iter::once(self.column.clone())
            .chain(parents)
            .map(|name| Field::new(name, self.cell_type.data_type(), self.nullable))
            .collect()
    }

    /// Computes the columns of [`fields`](Self::fields), one value for each point.
    ///
    /// # Errors
    ///
    /// If a row has no point where none may be null, or one that [`points`](crate::points) would have rejected, or if there are more rows than
    /// a column of text can hold (143 million).
    pub fn derive(&self, points: &Points) -> Result<Vec<ArrayRef>, Error> {
        let cells = Cells::of(points, self.resolution, self.nullable)?;
        let mut columns = Vec::with_capacity(1 + self.parents.len());
        columns.push(self.column_of(&cells)?);
        for &parent in &self.parents {
            let parents = cells
                .parents(parent)
                .ok_or_else(|| Error::ParentNotCoarser { parent: parent.get(), resolution: self.resolution.get() })?;
            columns.push(self.column_of(&parents)?);
        }
        Ok(columns)
    }

    /// What the table has to remember of this derivation.
    pub fn record(&self) -> DerivationRecord {
        DerivationRecord::running(self)
    }

    fn column_of(&self, cells: &Cells) -> Result<ArrayRef, Error> {
        let Cells { values, nulls } = cells;
        Ok(match self.cell_type {
            CellType::Long => {
                let values = values.iter().map(|cell| cell.cast_signed());
                Arc::new(Int64Array::new(values.collect(), nulls.clone()))
            }
            CellType::String => {
                let offsets = even_offsets(values.len(), CELL_DIGITS)?;
                let mut digits = Vec::with_capacity(values.len() * CELL_DIGITS);
                for &cell in values {
                    digits.extend_from_slice(&hexadecimal(cell));
                }
                Arc::new(StringArray::try_new(offsets, Buffer::from_vec(digits), nulls.clone())?)
            }
        })
    }
}

/// A cell for each row, 0 where there is none.
struct Cells {
    values: Vec<u64>,
    /// Where there is none; `None` if each row has one.
    nulls: Option<NullBuffer>,
}

impl Cells {
    fn of(points: &Points, resolution: Resolution, nullable: bool) -> Result<Self, Error> {
        let mut values = vec![0; points.rows()?];
        let nulls = NullBuffer::union(points.lon.nulls(), points.lat.nulls()).filter(|nulls| nulls.null_count() > 0);
        let (lng, lat) = (points.lon.values(), points.lat.values());
        if nulls.is_some() || !(all_within(lng, 180.0) && all_within(lat, 90.0)) {
            check(points, nullable)?;
        }
        let tally = encoder(resolution).encode(Degrees { lat, lng }, &mut values);
        tally.map_err(|_| Error::UnevenPoints { lon: lng.len(), lat: lat.len() })?;
        for row in nulls.iter().flat_map(|nulls| (0..nulls.len()).filter(|&row| nulls.is_null(row))) {
            values[row] = 0;
        }
        Ok(Self { values, nulls })
    }

    /// `None` if `parent` is not coarser than the cells.
    fn parents(&self, parent: Resolution) -> Option<Self> {
        let parent_of = |&cell: &u64| match cell {
            0 => Some(0),
            cell => CellIndex::try_from(cell).ok()?.parent(parent.to_h3o()).map(u64::from),
        };
        let values = self.values.iter().map(parent_of).collect::<Option<_>>()?;
        Some(Self { values, nulls: self.nulls.clone() })
    }
}

/// The first row that has no point where none may be null, or a point that is none, is an error.
fn check(points: &Points, nullable: bool) -> Result<(), Error> {
    for row in 0..points.lon.len() {
        if points.lon.is_valid(row) && points.lat.is_valid(row) {
            let point = LonLat::from_degrees(Lon(points.lon.value(row)), Lat(points.lat.value(row)));
            point.map_err(|reason| Error::BadPoint { row, reason })?;
        } else if !nullable {
            return Err(Error::NoPoint { row });
        }
    }
    Ok(())
}

/// The encoder of a resolution, which is made once in a process.
fn encoder(resolution: Resolution) -> &'static Encoder {
    static ENCODERS: [OnceLock<Encoder>; 16] = [const { OnceLock::new() }; 16];
    ENCODERS[usize::from(resolution.get())].get_or_init(|| Encoder::new(resolution.to_h3o()))
}

/// The cell of one point. H3 takes the latitude first: this is the only place where the order is written down.
pub(crate) fn cell(point: LonLat, resolution: h3o::Resolution) -> Result<CellIndex, RejectReason> {
    match LatLng::new(point.lat(), point.lon()) {
        Ok(point) => Ok(point.to_cell(resolution)),
        // h3o refuses only what is not finite, which a `LonLat` is.
        Err(error) => Err(RejectReason::UnreadableGeometry { cause: error.to_string() }),
    }
}

fn hexadecimal(bits: u64) -> [u8; CELL_DIGITS] {
    std::array::from_fn(|place| {
        let nibble = ((bits >> (4 * (CELL_DIGITS - 1 - place))) & 0xf) as u8;
        nibble + if nibble < 10 { b'0' } else { b'a' - 10 }
    })
}
