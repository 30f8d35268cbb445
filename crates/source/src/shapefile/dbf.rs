//! The `.dbf` of a shapefile: dBase III and what became of it.
//!
//! | type | column | null |
//! |---|---|---|
//! | `C` | string, without blanks at its end | blank: a `.dbf` cannot tell an empty text from none |
//! | `N`, `F` without decimals | int to 9 characters, long to 18, double beyond | blank, or `*` |
//! | `N`, `F` with decimals | double | the same |
//! | `L` | boolean | `?`, blank |
//! | `D` | date | blank, `00000000` |
//! | `I`, `+` | int | never |
//! | `O` | double | never |
//! | `@` | timestamp | zero |
//! | `M` | string, of nulls: the text is in another file, which is not read. A row that has one is a reject | blank, zero |
//!
//! A column of numbers or dates that the job declares as another type is read from its characters, so that `decimal(9,2)` is
//! exact and a `string` keeps its zeros.

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::error::Error;
use crate::layers::{Cells, LayerOptions, Value, unique};
use crate::scan::Rejects;
use crate::{text, types};

use super::Part;
use super::encoding::Encoding;

/// The layout of a `.dbf`.
pub(super) struct Dbf {
    rows: u64,
    header: u64,
    width: usize,
    encoding: Encoding,
    fields: Vec<DbfField>,
}

struct DbfField {
    name: String,
    kind: Kind,
    start: usize,
    width: usize,
    data_type: DataType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    /// Digits, as the number they are.
    Number,
    /// Digits, as text.
    Digits,
    Logical,
    Date,
    /// A date, as text.
    DateText,
    Integer,
    Double,
    LocalTime,
    Memo,
}

/// The bytes of a row.
#[derive(Clone, Copy)]
pub(super) struct RowBytes<'a>(&'a [u8]);

impl RowBytes<'_> {
    pub(super) fn is_deleted(self) -> bool {
        self.0.first() == Some(&b'*')
    }

    pub(super) fn len(self) -> usize {
        self.0.len()
    }
}

impl Part {
    /// The fixed part of the header of a `.dbf`.
    pub(super) fn start(&mut self) -> Result<&[u8], Error> {
        if self.size == 0 {
            return Err(self.refuse("is empty (0 bytes), which is no .dbf"));
        }
        self.at(0, 32)
    }

    /// Checks that a `.dbf` has as many rows as its `.shp` has shapes.
    pub(super) fn check_rows(&mut self, shapes: u64, shp: &str) -> Result<(), Error> {
        let rows = u64::from(super::little_endian(&self.start()?[4..]));
        if rows != shapes {
            let problem = format!("has {rows} rows, and {shp} has {shapes} shapes: they do not belong together");
            return Err(self.refuse(problem));
        }
        Ok(())
    }
}

impl Dbf {
    /// Reads the header. Names that are in `taken`, or come twice, get a number.
    pub(super) fn open(
        part: &mut Part,
        encoding: Encoding,
        options: &LayerOptions,
        taken: &[Field],
    ) -> Result<Self, Error> {
        let start = part.start()?;
        let version = start[0];
        let rows = u64::from(super::little_endian(&start[4..]));
        let header = usize::from(u16::from_le_bytes([start[8], start[9]]));
        let width = usize::from(u16::from_le_bytes([start[10], start[11]]));
        if version & 0b111 == 4 {
            return Err(part.refuse("is of dBase level 7, which is not read: save it as dBase III or IV"));
        }
        if header < 33 || width == 0 {
            return Err(part.refuse(format!("is no .dbf: its header has {header} bytes and its rows have {width}")));
        }
        let descriptors = part.at(32, header - 32)?.to_vec();
        let mut used = taken.to_vec();
        let mut fields = Vec::new();
        let mut place = 1;
        for descriptor in descriptors.chunks_exact(32).take_while(|descriptor| descriptor[0] != 0x0d) {
            let field = field(descriptor, place, &encoding, options, &used).map_err(|problem| part.refuse(problem))?;
            place += field.width;
            used.push(Field::new(&field.name, field.data_type.clone(), true));
            fields.push(field);
        }
        if place > width {
            return Err(part.refuse(format!("has rows of {width} bytes, and its fields need {place}: it is damaged")));
        }
        let header = header as u64;
        let needed = (rows * width as u64).saturating_add(header);
        if needed > part.size {
            let size = part.size;
            return Err(part.refuse(format!("has {size} bytes, and its {rows} rows need {needed}: it is cut off")));
        }
        Ok(Self { rows, header, width, encoding, fields })
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn columns(&self) -> Vec<Field> {
        self.fields.iter().map(|field| Field::new(&field.name, field.data_type.clone(), true)).collect()
    }

    pub(super) fn cells(&self) -> Vec<Cells> {
        self.fields.iter().map(|field| Cells::new(&field.data_type)).collect()
    }

    pub(super) fn row<'a>(&self, part: &'a mut Part, row: u64) -> Result<RowBytes<'a>, Error> {
        Ok(RowBytes(part.at(self.header + row * self.width as u64, self.width)?))
    }

    /// Appends the values of a row, which is the `number`th of its batch.
    pub(super) fn read(&self, row: RowBytes<'_>, number: usize, cells: &mut [Cells], rejects: &mut Rejects) {
        for (field, cells) in self.fields.iter().zip(cells) {
            let bytes = row.0.get(field.start..field.start + field.width).unwrap_or_default();
            if !field.read(bytes, &self.encoding, cells) {
                let shown = match field.kind {
                    Kind::Text => String::from_utf8_lossy(trimmed(bytes)),
                    Kind::Memo => "a memo, which is not read,".into(),
                    _ => String::from_utf8_lossy(bytes.trim_ascii()),
                };
                let wanted = match field.kind {
                    Kind::Text => format!("{} text", self.encoding),
                    _ => types::name_of(&field.data_type),
                };
                rejects.unparsable(number, &field.name, &shown, &wanted);
            }
        }
    }
}

/// Reads the descriptor of a field that begins at `start` of each row.
fn field(
    descriptor: &[u8],
    start: usize,
    encoding: &Encoding,
    options: &LayerOptions,
    used: &[Field],
) -> Result<DbfField, String> {
    let name = descriptor[..11].split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii();
    let name = encoding.decode(name, true).unwrap_or_else(|| String::from_utf8_lossy(name).into_owned().into());
    let name = if name.is_empty() { format!("field_{}", used.len()) } else { name.into_owned() };
    let name = unique(&name, used);
    let (letter, width, decimals) = (descriptor[11], usize::from(descriptor[16]), descriptor[17]);
    let (kind, data_type) = match letter {
        b'C' => (Kind::Text, DataType::Utf8View),
        b'N' | b'F' if decimals > 0 || width > 18 => (Kind::Number, DataType::Float64),
        b'N' | b'F' if width > 9 => (Kind::Number, DataType::Int64),
        b'N' | b'F' => (Kind::Number, DataType::Int32),
        b'L' => (Kind::Logical, DataType::Boolean),
        b'D' => (Kind::Date, DataType::Date32),
        b'I' | b'+' if width == 4 => (Kind::Integer, DataType::Int32),
        b'O' if width == 8 => (Kind::Double, DataType::Float64),
        b'@' if width == 8 => (Kind::LocalTime, DataType::Timestamp(TimeUnit::Microsecond, None)),
        b'M' => (Kind::Memo, DataType::Utf8View),
        other => {
            let letter = char::from(other);
            return Err(format!(
                "has a field `{name}` of type {letter:?} with {width} bytes, which is not read: remove it, or convert the file"
            ));
        }
    };
    let other = options.declares_other(&name, &data_type);
    let (kind, data_type) = match kind {
        Kind::Number if other => (Kind::Digits, DataType::Utf8View),
        Kind::Date if other => (Kind::DateText, DataType::Utf8View),
        kind => (kind, data_type),
    };
    Ok(DbfField { name, kind, start, width, data_type })
}

impl DbfField {
    /// Appends a value; false if it cannot be read.
    fn read(&self, bytes: &[u8], encoding: &Encoding, cells: &mut Cells) -> bool {
        let blank = bytes.trim_ascii().iter().all(|byte| matches!(byte, b'*' | 0));
        let digits = || std::str::from_utf8(bytes.trim_ascii().trim_ascii_end()).ok();
        let decoded;
        let iso;
        let value = match self.kind {
            Kind::Text => {
                let text = trimmed(bytes);
                if text.is_empty() {
                    cells.push_null();
                    return true;
                }
                decoded = encoding.decode(text, text.len() < bytes.len());
                decoded.as_deref().map(Value::Text)
            }
            Kind::Number | Kind::Digits | Kind::Date | Kind::DateText | Kind::Memo if blank => {
                cells.push_null();
                return true;
            }
            Kind::Number if self.data_type == DataType::Float64 => digits().and_then(text::double).map(Value::Float),
            Kind::Number => digits().and_then(whole).map(Value::Integer),
            Kind::Digits => digits().map(Value::Text),
            Kind::Date | Kind::DateText if bytes.iter().all(|byte| *byte == b'0') => {
                cells.push_null();
                return true;
            }
            Kind::Date => iso_date(bytes).as_deref().and_then(text::date).map(Value::Date),
            Kind::DateText => {
                iso = iso_date(bytes).or_else(|| digits().map(ToOwned::to_owned));
                iso.as_deref().map(Value::Text)
            }
            Kind::Logical => match bytes.trim_ascii() {
                [] | [b'?' | 0] => {
                    cells.push_null();
                    return true;
                }
                [b'T' | b't' | b'Y' | b'y'] => Some(Value::Boolean(true)),
                [b'F' | b'f' | b'N' | b'n'] => Some(Value::Boolean(false)),
                _ => None,
            },
            Kind::Integer => bytes.first_chunk().map(|bytes| Value::Integer(i32::from_le_bytes(*bytes).into())),
            Kind::Double => bytes.first_chunk().map(|bytes| Value::Float(f64::from_le_bytes(*bytes))),
            Kind::LocalTime => {
                if bytes.iter().all(|byte| matches!(byte, 0 | b' ')) {
                    cells.push_null();
                    return true;
                }
                local_time(bytes).map(Value::LocalTime)
            }
            Kind::Memo => match bytes.trim_ascii() {
                pointer if pointer.iter().all(|byte| *byte == b'0') => {
                    cells.push_null();
                    return true;
                }
                _ => None,
            },
        };
        match value {
            Some(value) => cells.push(value),
            None => {
                cells.push_null();
                false
            }
        }
    }
}

/// A text without what fills its field up.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

/// An integer, perhaps with decimals that are zeros.
fn whole(text: &str) -> Option<i64> {
    let digits = match text.split_once('.') {
        Some((digits, decimals)) if decimals.bytes().all(|byte| byte == b'0') => digits,
        Some(_) => return None,
        None => text,
    };
    digits.parse().ok()
}

/// `YYYYMMDD` as `YYYY-MM-DD`.
fn iso_date(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes.trim_ascii()).ok()?;
    let is_date = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_date.then(|| format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..]))
}

/// A Julian day and milliseconds of that day, as microseconds since 1970-01-01T00:00:00.
fn local_time(bytes: &[u8]) -> Option<i64> {
    const EPOCH: i64 = 2_440_588;
    const DAY: i64 = 86_400_000;
    // From 0001-01-01 to 9999-12-31.
    const DAYS: std::ops::RangeInclusive<i64> = 1_721_426..=5_373_484;
    let (day, rest) = bytes.split_first_chunk()?;
    let (day, millis) = (i64::from(u32::from_le_bytes(*day)), i64::from(u32::from_le_bytes(*rest.first_chunk()?)));
    (DAYS.contains(&day) && millis < DAY).then(|| ((day - EPOCH) * DAY + millis) * 1000)
}
