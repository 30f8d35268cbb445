//! A digest of rows, for sources that have no offsets: the same rows in the same order give the same digest, however
//! they were cut into batches and however Arrow holds them in memory.
//!
//! The digest is SHA-256 over a canonical form that is this crate's own, and will not change:
//!
//! - the bytes `hexfloe content 1` and a line feed;
//! - the schema: the number of columns, then for each its name and its type in words (`int64`, `list<string>`);
//! - for each row a byte 1 and its values from left to right; after the last row a byte 0.
//!
//! A value is a byte 0 if it is null, else a byte 1 and:
//!
//! | type | bytes |
//! |---|---|
//! | `boolean` | 0 or 1 |
//! | integers, dates, times, timestamps, durations | the integer, little-endian, in its own width |
//! | `float32`, `float64` | IEEE 754, little-endian; every NaN is one and the same NaN; -0 is not 0 |
//! | `float16` | the `float32` of the same value |
//! | `decimal(p, s)` | the unscaled integer, little-endian, 32 bytes |
//! | `string`, `binary` | the length, then the bytes |
//! | `fixed[n]` | the bytes |
//! | `list<…>` | the number of elements, then each of them as a value |
//! | `list[n]<…>` | each element as a value |
//! | `map<…, …>` | the number of entries, then the key and the value of each, in the order stored |
//! | `struct<…>` | each child as a value |
//!
//! Lengths and numbers are eight bytes, little-endian. Names in the schema are preceded by their length.
//!
//! What does not count is how values are held: 32- and 64-bit offsets, views, dictionaries and runs are one type, and so
//! are decimals of every width; a time zone counts only as there or not there, for it does not move the instant; nor do
//! nullability and metadata count. What does count is the order of rows, of columns, and of map entries. A source whose
//! order is not reproducible has to be sorted before it can be a batch.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray,
    GenericBinaryArray, GenericListArray, GenericListViewArray, GenericStringArray, MapArray, OffsetSizeTrait,
    PrimitiveArray, RecordBatch, StringViewArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use sha2::{Digest, Sha256};

use crate::{Error, Sha256Hex};

/// How many bytes are gathered before they are hashed.
const CHUNK: usize = 64 * 1024;

/// Hashes the rows of a sequence of batches.
///
/// ```
/// use std::sync::Arc;
/// use arrow::array::{Int64Array, RecordBatch};
/// use hexfloe_batch::{BatchId, ContentHasher};
///
/// let rows = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)])?;
///
/// let mut hasher = ContentHasher::new(&rows.schema())?;
/// hasher.update(&rows.slice(0, 1))?;
/// hasher.update(&rows.slice(1, 2))?;
/// let id = BatchId::content("sensors", &hasher.finish());
/// assert_eq!(id.as_str().len(), 32);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ContentHasher {
    columns: Vec<(String, String)>,
    pending: Vec<u8>,
    sha256: Sha256,
}

impl ContentHasher {
    /// A hasher for rows of this schema.
    ///
    /// # Errors
    ///
    /// [`Error::NoCanonicalForm`] if a column is an interval or a union, or holds one.
    pub fn new(schema: &Schema) -> Result<Self, Error> {
        let columns = canonical_schema(schema)?;
        let mut pending = b"hexfloe content 1\n".to_vec();
        put_length(columns.len(), &mut pending);
        for (name, data_type) in &columns {
            put_bytes(name.as_bytes(), &mut pending);
            put_bytes(data_type.as_bytes(), &mut pending);
        }
        Ok(Self { columns, pending, sha256: Sha256::new() })
    }

    /// Adds the rows of `batch` behind those that came before.
    ///
    /// # Errors
    ///
    /// [`Error::SchemaChanged`] if its columns are not those the hasher was made for. Nothing was added then.
    pub fn update(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let columns = canonical_schema(batch.schema_ref())?;
        if columns != self.columns {
            return Err(Error::SchemaChanged { expected: in_words(&self.columns), found: in_words(&columns) });
        }
        let columns: Vec<Column> = batch
            .columns()
            .iter()
            .zip(&columns)
            .map(|(array, (name, _))| Column::new(name, array))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            self.pending.push(1);
            for column in &columns {
                column.put(row, &mut self.pending);
            }
            if self.pending.len() >= CHUNK {
                self.sha256.update(&self.pending);
                self.pending.clear();
            }
        }
        Ok(())
    }

    /// The digest of the schema and of all rows.
    pub fn finish(mut self) -> Sha256Hex {
        self.pending.push(0);
        self.sha256.update(&self.pending);
        Sha256Hex::from_digest(self.sha256.finalize().into())
    }
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Name and canonical type of each column.
fn canonical_schema(schema: &Schema) -> Result<Vec<(String, String)>, Error> {
    schema
        .fields()
        .iter()
        .map(|field| {
            let mut text = String::new();
            if put_type(field.data_type(), &mut text) {
                Ok((field.name().clone(), text))
            } else {
                Err(no_canonical_form(field.name(), field.data_type()))
            }
        })
        .collect()
}

fn no_canonical_form(column: &str, found: &DataType) -> Error {
    Error::NoCanonicalForm { column: column.to_owned(), found: found.clone() }
}

fn in_words(columns: &[(String, String)]) -> String {
    let words: Vec<String> = columns.iter().map(|(name, data_type)| format!("{name} {data_type}")).collect();
    if words.is_empty() { "no columns".to_owned() } else { words.join(", ") }
}

/// Writes the type in words; false if it has no canonical form.
fn put_type(data_type: &DataType, out: &mut String) -> bool {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match data_type {
        DataType::Null => out.push_str("null"),
        DataType::Boolean => out.push_str("boolean"),
        DataType::Int8 => out.push_str("int8"),
        DataType::Int16 => out.push_str("int16"),
        DataType::Int32 => out.push_str("int32"),
        DataType::Int64 => out.push_str("int64"),
        DataType::UInt8 => out.push_str("uint8"),
        DataType::UInt16 => out.push_str("uint16"),
        DataType::UInt32 => out.push_str("uint32"),
        DataType::UInt64 => out.push_str("uint64"),
        DataType::Float16 => out.push_str("float16"),
        DataType::Float32 => out.push_str("float32"),
        DataType::Float64 => out.push_str("float64"),
        DataType::Date32 => out.push_str("date32"),
        DataType::Date64 => out.push_str("date64"),
        DataType::Time32(of) | DataType::Time64(of) => out.push_str(&format!("time[{}]", unit(of))),
        DataType::Timestamp(of, None) => out.push_str(&format!("timestamp[{}]", unit(of))),
        DataType::Timestamp(of, Some(_)) => out.push_str(&format!("timestamptz[{}]", unit(of))),
        DataType::Duration(of) => out.push_str(&format!("duration[{}]", unit(of))),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => out.push_str(&format!("decimal({precision}, {scale})")),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => out.push_str("string"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => out.push_str("binary"),
        DataType::FixedSizeBinary(length) => out.push_str(&format!("fixed[{length}]")),
        DataType::Dictionary(_, values) => return put_type(values, out),
        DataType::RunEndEncoded(_, values) => return put_type(values.data_type(), out),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => {
            out.push_str("list<");
            let known = put_type(element.data_type(), out);
            out.push('>');
            return known;
        }
        DataType::FixedSizeList(element, length) => {
            out.push_str(&format!("list[{length}]<"));
            let known = put_type(element.data_type(), out);
            out.push('>');
            return known;
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else { return false };
            let [key, value] = fields.as_ref() else { return false };
            out.push_str("map<");
            let key_known = put_type(key.data_type(), out);
            out.push_str(", ");
            let value_known = put_type(value.data_type(), out);
            out.push('>');
            return key_known && value_known;
        }
        DataType::Struct(fields) => {
            out.push_str("struct<");
            for (index, field) in fields.iter().enumerate() {
                let separator = if index == 0 { "" } else { ", " };
                // The length keeps a name with a comma in it from passing for two fields.
                out.push_str(&format!("{separator}{}:{} ", field.name().len(), field.name()));
                if !put_type(field.data_type(), out) {
                    return false;
                }
            }
            out.push('>');
        }
        DataType::Interval(_) | DataType::Union(..) => return false,
    }
    true
}

/// An array with its types resolved once, so that rows can be written one after the other.
struct Column {
    nulls: Option<NullBuffer>,
    values: Box<dyn Values>,
}

impl Column {
    fn new(name: &str, array: &ArrayRef) -> Result<Self, Error> {
        let of = |child: &ArrayRef| Self::new(name, child);
        let values: Box<dyn Values> = match array.data_type() {
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                return of(&take(dictionary.values().as_ref(), dictionary.keys(), None)?);
            }
            DataType::RunEndEncoded(_, values) => return of(&cast(array, values.data_type())?),
            DataType::Null => Box::new(AllNull),
            DataType::Boolean => Box::new(array.as_boolean().clone()),
            DataType::Int8 => primitive::<Int8Type>(array),
            DataType::Int16 => primitive::<Int16Type>(array),
            DataType::Int32 => primitive::<Int32Type>(array),
            DataType::Int64 => primitive::<Int64Type>(array),
            DataType::UInt8 => primitive::<UInt8Type>(array),
            DataType::UInt16 => primitive::<UInt16Type>(array),
            DataType::UInt32 => primitive::<UInt32Type>(array),
            DataType::UInt64 => primitive::<UInt64Type>(array),
            // Exact, and it spares a dependency on the crate with the type.
            DataType::Float16 => primitive::<Float32Type>(&cast(array, &DataType::Float32)?),
            DataType::Float32 => primitive::<Float32Type>(array),
            DataType::Float64 => primitive::<Float64Type>(array),
            DataType::Date32 => primitive::<Date32Type>(array),
            DataType::Date64 => primitive::<Date64Type>(array),
            DataType::Time32(TimeUnit::Second) => primitive::<Time32SecondType>(array),
            DataType::Time32(_) => primitive::<Time32MillisecondType>(array),
            DataType::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(array),
            DataType::Time64(_) => primitive::<Time64NanosecondType>(array),
            DataType::Timestamp(TimeUnit::Second, _) => primitive::<TimestampSecondType>(array),
            DataType::Timestamp(TimeUnit::Millisecond, _) => primitive::<TimestampMillisecondType>(array),
            DataType::Timestamp(TimeUnit::Microsecond, _) => primitive::<TimestampMicrosecondType>(array),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive::<TimestampNanosecondType>(array),
            DataType::Duration(TimeUnit::Second) => primitive::<DurationSecondType>(array),
            DataType::Duration(TimeUnit::Millisecond) => primitive::<DurationMillisecondType>(array),
            DataType::Duration(TimeUnit::Microsecond) => primitive::<DurationMicrosecondType>(array),
            DataType::Duration(TimeUnit::Nanosecond) => primitive::<DurationNanosecondType>(array),
            DataType::Decimal32(..) => decimal::<Decimal32Type>(array, |value| i256::from_i128(value.into())),
            DataType::Decimal64(..) => decimal::<Decimal64Type>(array, |value| i256::from_i128(value.into())),
            DataType::Decimal128(..) => decimal::<Decimal128Type>(array, i256::from_i128),
            DataType::Decimal256(..) => decimal::<Decimal256Type>(array, |value| value),
            DataType::Utf8 => Box::new(array.as_string::<i32>().clone()),
            DataType::LargeUtf8 => Box::new(array.as_string::<i64>().clone()),
            DataType::Utf8View => Box::new(array.as_string_view().clone()),
            DataType::Binary => Box::new(array.as_binary::<i32>().clone()),
            DataType::LargeBinary => Box::new(array.as_binary::<i64>().clone()),
            DataType::BinaryView => Box::new(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Box::new(array.as_fixed_size_binary().clone()),
            DataType::List(_) => list(array.as_list::<i32>(), of)?,
            DataType::LargeList(_) => list(array.as_list::<i64>(), of)?,
            DataType::ListView(_) => list_view(array.as_list_view::<i32>(), of)?,
            DataType::LargeListView(_) => list_view(array.as_list_view::<i64>(), of)?,
            DataType::FixedSizeList(..) => fixed_size_list(array.as_fixed_size_list(), of)?,
            DataType::Map(..) => map(array.as_map(), of)?,
            DataType::Struct(_) => structure(array.as_struct(), of)?,
            found @ (DataType::Interval(_) | DataType::Union(..)) => return Err(no_canonical_form(name, found)),
        };
        Ok(Self { nulls: array.logical_nulls(), values })
    }

    fn put(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.push(0);
        } else {
            out.push(1);
            self.values.put(row, out);
        }
    }
}

/// Writes the canonical form of the value of a row that is not null.
trait Values {
    fn put(&self, row: usize, out: &mut Vec<u8>);
}

struct AllNull;

impl Values for AllNull {
    fn put(&self, _: usize, _: &mut Vec<u8>) {}
}

impl Values for BooleanArray {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        out.push(u8::from(self.value(row)));
    }
}

/// The canonical bytes of a number.
trait Number {
    fn put(self, out: &mut Vec<u8>);
}

macro_rules! integers {
    ($($integer:ty),*) => {
        $(impl Number for $integer {
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($float:ty),*) => {
        $(impl Number for $float {
            fn put(self, out: &mut Vec<u8>) {
                // Sign and payload of a NaN are noise: engines and formats do not keep them.
                let canonical = if self.is_nan() { <$float>::NAN } else { self };
                out.extend_from_slice(&canonical.to_le_bytes());
            }
        })*
    };
}

floats!(f32, f64);

impl<T: ArrowPrimitiveType<Native: Number>> Values for PrimitiveArray<T> {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        self.value(row).put(out);
    }
}

fn primitive<T: ArrowPrimitiveType<Native: Number>>(array: &ArrayRef) -> Box<dyn Values> {
    Box::new(array.as_primitive::<T>().clone())
}

struct Decimals<T: ArrowPrimitiveType> {
    array: PrimitiveArray<T>,
    widen: fn(T::Native) -> i256,
}

impl<T: ArrowPrimitiveType> Values for Decimals<T> {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.widen)(self.array.value(row)).to_le_bytes());
    }
}

fn decimal<T: ArrowPrimitiveType>(array: &ArrayRef, widen: fn(T::Native) -> i256) -> Box<dyn Values> {
    Box::new(Decimals { array: array.as_primitive::<T>().clone(), widen })
}

impl<O: OffsetSizeTrait> Values for GenericStringArray<O> {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        put_bytes(self.value(row).as_bytes(), out);
    }
}

impl Values for StringViewArray {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        put_bytes(self.value(row).as_bytes(), out);
    }
}

impl<O: OffsetSizeTrait> Values for GenericBinaryArray<O> {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        put_bytes(self.value(row), out);
    }
}

impl Values for BinaryViewArray {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        put_bytes(self.value(row), out);
    }
}

impl Values for FixedSizeBinaryArray {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(self.value(row));
    }
}

/// Lists of every kind, and maps: for each row the range of its elements, and what an element consists of.
struct Ranges {
    range: Box<dyn Fn(usize) -> (usize, usize)>,
    counted: bool,
    parts: Vec<Column>,
}

impl Values for Ranges {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        let (start, end) = (self.range)(row);
        if self.counted {
            put_length(end - start, out);
        }
        for element in start..end {
            for part in &self.parts {
                part.put(element, out);
            }
        }
    }
}

fn by_offsets<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> Box<dyn Fn(usize) -> (usize, usize)> {
    let offsets = offsets.clone();
    Box::new(move |row| (offsets[row].as_usize(), offsets[row + 1].as_usize()))
}

fn list<O: OffsetSizeTrait>(
    array: &GenericListArray<O>,
    of: impl Fn(&ArrayRef) -> Result<Column, Error>,
) -> Result<Box<dyn Values>, Error> {
    let parts = vec![of(array.values())?];
    Ok(Box::new(Ranges { range: by_offsets(array.offsets()), counted: true, parts }))
}

fn list_view<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
    of: impl Fn(&ArrayRef) -> Result<Column, Error>,
) -> Result<Box<dyn Values>, Error> {
    let parts = vec![of(array.values())?];
    let array = array.clone();
    let range = move |row| {
        let start = array.value_offset(row).as_usize();
        (start, start + array.value_size(row).as_usize())
    };
    Ok(Box::new(Ranges { range: Box::new(range), counted: true, parts }))
}

fn fixed_size_list(
    array: &FixedSizeListArray,
    of: impl Fn(&ArrayRef) -> Result<Column, Error>,
) -> Result<Box<dyn Values>, Error> {
    let parts = vec![of(array.values())?];
    let length = array.value_length().unsigned_abs() as usize;
    let range = move |row| (row * length, (row + 1) * length);
    Ok(Box::new(Ranges { range: Box::new(range), counted: false, parts }))
}

fn map(array: &MapArray, of: impl Fn(&ArrayRef) -> Result<Column, Error>) -> Result<Box<dyn Values>, Error> {
    let parts = vec![of(array.keys())?, of(array.values())?];
    Ok(Box::new(Ranges { range: by_offsets(array.offsets()), counted: true, parts }))
}

struct Children(Vec<Column>);

impl Values for Children {
    fn put(&self, row: usize, out: &mut Vec<u8>) {
        for child in &self.0 {
            child.put(row, out);
        }
    }
}

fn structure(array: &StructArray, of: impl Fn(&ArrayRef) -> Result<Column, Error>) -> Result<Box<dyn Values>, Error> {
    Ok(Box::new(Children(array.columns().iter().map(of).collect::<Result<_, _>>()?)))
}
