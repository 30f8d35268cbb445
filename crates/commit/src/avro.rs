//! Reading a few fields out of Avro files, and skipping the rest.
//!
//! Most of a manifest is statistics. A reader that decodes them into values spends nearly all of its time on that; skipping
//! over them costs next to nothing. Only what manifests need is understood: whoever gets an error asks a whole reader. The
//! format: <https://avro.apache.org/docs/1.11.1/specification/>.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;

use serde_json::Value as Json;

/// How an Avro file begins.
const MAGIC: &[u8] = b"Obj\x01";

/// The length of what ends a block.
const SYNC: usize = 16;

/// About how large a block is written.
const BLOCK: usize = 64 << 10;

/// No block of a manifest is larger; a length beyond it is not one.
const LARGEST: usize = 1 << 30;

/// No schema of a manifest goes deeper.
const DEEPEST: usize = 32;

/// Why a file is not understood.
#[derive(Debug)]
pub struct NotUnderstood;

/// What a field holds, as far as anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// A number.
    Number(i64),
    /// A text.
    Text(&'a str),
    /// The value of a map.
    Bytes(&'a [u8]),
}

/// An Avro file in parts.
pub(crate) struct Parts {
    /// What its header says, by name: `avro.schema` is its schema.
    pub(crate) header: BTreeMap<String, Vec<u8>>,
    /// What ends each of its blocks.
    pub(crate) sync: Vec<u8>,
    /// How many records it has.
    pub(crate) count: usize,
    /// Its records as they are unpacked, one after the other.
    pub(crate) records: Vec<u8>,
}

impl Parts {
    pub(crate) fn of(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        let opened = Opened::of(bytes)?;
        let (mut count, mut records) = (0_usize, Vec::with_capacity(opened.blocks.len()));
        opened.each_block(|more, block| {
            count = count.checked_add(more).ok_or(NotUnderstood)?;
            records.extend_from_slice(block);
            Ok(())
        })?;
        Ok(Self { header: opened.header, sync: opened.sync.to_vec(), count, records })
    }
}

/// Gives `take` each record of a file as the fields whose paths (`data_file.file_path`) are `wanted`, in that order. A
/// field that is null or of another kind is `None`. `data_file.lower_bounds[7]` is the value that a list of keys and values
/// has for the key 7.
///
/// # Errors
///
/// When the file is not what a manifest is like.
pub fn records(bytes: &[u8], wanted: &[&str], mut take: impl FnMut(&[Option<Field<'_>>])) -> Result<(), NotUnderstood> {
    let opened = Opened::of(bytes)?;
    let plan = plan_of(&opened.header, wanted)?;
    opened.each_block(|count, block| {
        let mut block = Input(block);
        for _ in 0..count {
            let mut fields = vec![None; wanted.len()];
            plan.read(&mut block, &mut fields)?;
            take(&fields);
        }
        if block.0.is_empty() { Ok(()) } else { Err(NotUnderstood) }
    })
}

/// How the records of a file with this header are read.
pub(crate) fn plan_of(header: &BTreeMap<String, Vec<u8>>, wanted: &[&str]) -> Result<Plan, NotUnderstood> {
    let schema: Json =
        serde_json::from_slice(header.get("avro.schema").ok_or(NotUnderstood)?).map_err(|_| NotUnderstood)?;
    Plan::of(&schema, wanted, "", &mut HashMap::new(), DEEPEST)
}

/// A file whose header has been read.
struct Opened<'a> {
    header: BTreeMap<String, Vec<u8>>,
    sync: &'a [u8],
    blocks: &'a [u8],
}

impl<'a> Opened<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self, NotUnderstood> {
        let mut input = Input(bytes.strip_prefix(MAGIC).ok_or(NotUnderstood)?);
        let mut header = BTreeMap::new();
        input.blocks(|input| {
            let key = input.text()?.to_owned();
            header.insert(key, input.bytes()?.to_vec());
            Ok(())
        })?;
        let sync = input.take(SYNC)?;
        Ok(Self { header, sync, blocks: input.0 })
    }

    /// Gives `take` the number of records of each block, and the records.
    fn each_block(&self, mut take: impl FnMut(usize, &[u8]) -> Result<(), NotUnderstood>) -> Result<(), NotUnderstood> {
        let deflated = match self.header.get("avro.codec").map(Vec::as_slice) {
            None | Some(b"null") => false,
            Some(b"deflate") => true,
            Some(_) => return Err(NotUnderstood),
        };
        let mut input = Input(self.blocks);
        let mut unpacked = Vec::new();
        while !input.0.is_empty() {
            let count = usize::try_from(input.number()?).map_err(|_| NotUnderstood)?;
            let block = input.bytes()?;
            if deflated {
                unpacked.clear();
                let read = flate2::read::DeflateDecoder::new(block).take(LARGEST as u64).read_to_end(&mut unpacked);
                read.map_err(|_| NotUnderstood)?;
                take(count, &unpacked)?;
            } else {
                take(count, block)?;
            }
            if input.take(SYNC)? != self.sync {
                return Err(NotUnderstood);
            }
        }
        Ok(())
    }
}

/// A file of these records, unpacked, as many to a block as fill it.
pub(crate) fn file<'a>(
    header: &BTreeMap<String, Vec<u8>>,
    sync: &[u8],
    records: impl Iterator<Item = [&'a [u8]; 2]>,
) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let named = |name: &str| header.get(name).filter(|_| name != "avro.codec");
    let kept: Vec<(&str, &[u8])> =
        header.keys().filter_map(|name| Some((name.as_str(), named(name)?.as_slice()))).collect();
    let kept = kept.into_iter().chain([("avro.codec", b"null".as_slice())]);
    let kept: Vec<_> = kept.collect();
    write_size(&mut bytes, kept.len());
    for (name, value) in kept {
        write_bytes(&mut bytes, name.as_bytes());
        write_bytes(&mut bytes, value);
    }
    write_size(&mut bytes, 0);
    bytes.extend_from_slice(sync);
    let (mut count, mut block) = (0, Vec::with_capacity(2 * BLOCK));
    let mut finish = |count: &mut usize, block: &mut Vec<u8>| {
        if *count > 0 {
            write_size(&mut bytes, *count);
            write_bytes(&mut bytes, block);
            bytes.extend_from_slice(sync);
        }
        *count = 0;
        block.clear();
    };
    for parts in records {
        count += 1;
        parts.into_iter().for_each(|part| block.extend_from_slice(part));
        if block.len() >= BLOCK {
            finish(&mut count, &mut block);
        }
    }
    finish(&mut count, &mut block);
    bytes
}

fn write_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    write_size(bytes, value.len());
    bytes.extend_from_slice(value);
}

fn write_size(bytes: &mut Vec<u8>, size: usize) {
    write_number(bytes, i64::try_from(size).unwrap_or(i64::MAX));
}

/// Writes a number as Avro has it.
pub(crate) fn write_number(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap_or_default();
        rest >>= 7;
        if rest == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

/// How a value is read, or skipped.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Nothing,
    /// `boolean`, `float`, `double` and `fixed`: so many bytes.
    Fixed(usize),
    /// `int`, `long` and `enum`, and where it is put.
    Number(Option<usize>),
    /// `bytes` and `string`, and where it is put.
    Bytes(Option<usize>),
    Record(Vec<Plan>),
    Array(Box<Plan>),
    /// An array of keys and values, and where the values of some keys are put.
    Pairs(Vec<(i64, usize)>),
    Map(Box<Plan>),
    Union(Vec<Plan>),
}

impl Plan {
    /// `path` is where the value is, `named` the schemas that have a name, `depth` how much deeper it may go: a record that
    /// holds itself has no end.
    fn of(
        schema: &Json,
        wanted: &[&str],
        path: &str,
        named: &mut HashMap<String, Json>,
        depth: usize,
    ) -> Result<Self, NotUnderstood> {
        let depth = depth.checked_sub(1).ok_or(NotUnderstood)?;
        let place = wanted.iter().position(|wanted| *wanted == path);
        let part = |object: &serde_json::Map<String, Json>, name: &str| object.get(name).cloned().ok_or(NotUnderstood);
        match schema {
            Json::Array(branches) => {
                let branches: Result<_, _> =
                    branches.iter().map(|branch| Self::of(branch, wanted, path, named, depth)).collect();
                Ok(Self::Union(branches?))
            }
            Json::String(name) => Ok(match name.as_str() {
                "null" => Self::Nothing,
                "boolean" => Self::Fixed(1),
                "float" => Self::Fixed(4),
                "double" => Self::Fixed(8),
                "int" | "long" => Self::Number(place),
                "string" => Self::Bytes(place),
                "bytes" => Self::Bytes(None),
                name => {
                    let known = named.get(name).cloned().ok_or(NotUnderstood)?;
                    return Self::of(&known, wanted, path, named, depth);
                }
            }),
            Json::Object(object) => {
                let kind = part(object, "type")?;
                if let Some(own) = object.get("name").and_then(Json::as_str) {
                    let space = object.get("namespace").and_then(Json::as_str);
                    named.extend(space.map(|space| (format!("{space}.{own}"), schema.clone())));
                    named.insert(own.to_owned(), schema.clone());
                }
                match kind.as_str() {
                    Some("record") => {
                        let fields = part(object, "fields")?;
                        let fields = fields.as_array().ok_or(NotUnderstood)?.iter().map(|field| {
                            let name = field.get("name").and_then(Json::as_str).ok_or(NotUnderstood)?;
                            let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                            Self::of(field.get("type").ok_or(NotUnderstood)?, wanted, &below, named, depth)
                        });
                        Ok(Self::Record(fields.collect::<Result<_, _>>()?))
                    }
                    Some("array") => {
                        let items = part(object, "items")?;
                        let keys = keys_of(wanted, path);
                        if !keys.is_empty() && is_pair(&items) {
                            return Ok(Self::Pairs(keys));
                        }
                        Ok(Self::Array(Box::new(Self::of(&items, wanted, "[]", named, depth)?)))
                    }
                    Some("map") => {
                        Ok(Self::Map(Box::new(Self::of(&part(object, "values")?, wanted, "{}", named, depth)?)))
                    }
                    Some("enum") => Ok(Self::Number(None)),
                    Some("fixed") => {
                        let size = part(object, "size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                        Ok(Self::Fixed(size.ok_or(NotUnderstood)?))
                    }
                    _ => Self::of(&kind, wanted, path, named, depth),
                }
            }
            _ => Err(NotUnderstood),
        }
    }

    pub(crate) fn read<'a>(
        &self,
        input: &mut Input<'a>,
        fields: &mut [Option<Field<'a>>],
    ) -> Result<(), NotUnderstood> {
        match self {
            Self::Nothing => {}
            Self::Fixed(size) => {
                input.take(*size)?;
            }
            Self::Number(place) => {
                let number = input.number()?;
                if let Some(field) = place.and_then(|place| fields.get_mut(place)) {
                    *field = Some(Field::Number(number));
                }
            }
            Self::Bytes(None) => {
                input.bytes()?;
            }
            Self::Bytes(Some(place)) => {
                let text = input.text()?;
                if let Some(field) = fields.get_mut(*place) {
                    *field = Some(Field::Text(text));
                }
            }
            Self::Record(plans) => {
                for plan in plans {
                    plan.read(input, fields)?;
                }
            }
            Self::Array(items) => input.blocks(|input| items.read(input, &mut []))?,
            Self::Pairs(wanted) => input.blocks(|input| {
                let (key, value) = (input.number()?, input.bytes()?);
                for (_, place) in wanted.iter().filter(|(wanted, _)| *wanted == key) {
                    if let Some(field) = fields.get_mut(*place) {
                        *field = Some(Field::Bytes(value));
                    }
                }
                Ok(())
            })?,
            Self::Map(values) => input.blocks(|input| {
                input.bytes()?;
                values.read(input, &mut [])
            })?,
            Self::Union(branches) => {
                let branch = usize::try_from(input.number()?).map_err(|_| NotUnderstood)?;
                branches.get(branch).ok_or(NotUnderstood)?.read(input, fields)?;
            }
        }
        Ok(())
    }
}

/// The keys of an array at `path` that are wanted, and their places.
fn keys_of(wanted: &[&str], path: &str) -> Vec<(i64, usize)> {
    let key = |wanted: &str| wanted.strip_prefix(path)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    wanted.iter().enumerate().filter_map(|(place, wanted)| Some((key(wanted)?, place))).collect()
}

/// Whether a record is a number `key` and bytes `value`.
fn is_pair(items: &Json) -> bool {
    let fields = items.get("fields").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let is = |field: &Json, name: &str, kinds: &[&str]| {
        let text = |part: &str| field.get(part).and_then(Json::as_str);
        text("name") == Some(name) && text("type").is_some_and(|kind| kinds.contains(&kind))
    };
    items.get("type").and_then(Json::as_str) == Some("record")
        && matches!(fields, [key, value] if is(key, "key", &["int", "long"]) && is(value, "value", &["bytes"]))
}

/// Bytes that have not been read yet.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], NotUnderstood> {
        let (taken, rest) = self.0.split_at_checked(size).ok_or(NotUnderstood)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A zigzag number of variable length.
    pub(crate) fn number(&mut self) -> Result<i64, NotUnderstood> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first().ok_or(NotUnderstood)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()));
            }
        }
        Err(NotUnderstood)
    }

    fn bytes(&mut self) -> Result<&'a [u8], NotUnderstood> {
        let size = usize::try_from(self.number()?).ok().filter(|size| *size <= LARGEST).ok_or(NotUnderstood)?;
        self.take(size)
    }

    fn text(&mut self) -> Result<&'a str, NotUnderstood> {
        std::str::from_utf8(self.bytes()?).map_err(|_| NotUnderstood)
    }

    /// The items of an array or a map.
    fn blocks(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), NotUnderstood>) -> Result<(), NotUnderstood> {
        loop {
            let mut count = self.number()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                // Its size in bytes comes first.
                count = count.checked_neg().ok_or(NotUnderstood)?;
                self.number()?;
            }
            for _ in 0..count {
                item(self)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number as Avro has it.
    fn number(value: i64) -> Vec<u8> {
        let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
        let mut bytes = Vec::new();
        while rest >= 0x80 {
            bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).unwrap());
        bytes
    }

    fn text(value: &str) -> Vec<u8> {
        [number(i64::try_from(value.len()).unwrap()), value.as_bytes().to_vec()].concat()
    }

    fn file(schema: &str, blocks: &[(i64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = [MAGIC.to_vec(), number(1), text("avro.schema"), text(schema), number(0), vec![7; 16]].concat();
        for (records, block) in blocks {
            bytes.extend(
                [number(*records), number(i64::try_from(block.len()).unwrap()), block.clone(), vec![7; 16]].concat(),
            );
        }
        bytes
    }

    const SCHEMA: &str = r#"{"type":"record","name":"entry","fields":[
        {"name":"status","type":"int"},
        {"name":"id","type":["null","long"]},
        {"name":"data_file","type":{"type":"record","name":"r2","fields":[
            {"name":"file_path","type":"string"},
            {"name":"key","type":["null",{"type":"fixed","name":"uuid","size":2,"logicalType":"uuid"}]},
            {"name":"again","type":["null","uuid"]},
            {"name":"bounds","type":["null",{"type":"array","logicalType":"map","items":
                {"type":"record","name":"kv","fields":[{"name":"key","type":"int"},{"name":"value","type":"bytes"}]}}]},
            {"name":"more","type":{"type":"map","values":"double"}}
        ]}}
    ]}"#;

    fn entry(status: i64, path: &str) -> Vec<u8> {
        let bound = [number(3), text("bound")].concat();
        let sized =
            [number(-1), number(i64::try_from(bound.len()).unwrap()), bound.clone(), number(1), bound, number(0)];
        let map = [number(1), text("k"), vec![0; 8], number(0)].concat();
        [
            number(status),
            number(1),
            number(-7),
            text(path),
            number(1),
            vec![1, 2],
            number(0),
            number(1),
            sized.concat(),
            map,
        ]
        .concat()
    }

    type Read = Vec<(Option<i64>, Option<String>)>;

    #[test]
    fn the_values_of_a_key_are_found_in_a_list_of_pairs() {
        let bytes = file(SCHEMA, &[(1, entry(1, "a"))]);
        let mut found = Vec::new();
        let wanted = ["data_file.bounds[3]", "data_file.bounds[4]", "data_file.file_path"];
        records(&bytes, &wanted, |fields| found.push(format!("{fields:?}"))).unwrap();
        assert_eq!(found, [format!("[Some(Bytes({:?})), None, Some(Text(\"a\"))]", b"bound")]);
    }

    #[test]
    fn a_file_made_of_the_parts_of_another_reads_the_same() {
        let schema = SCHEMA;
        let long = "x".repeat(BLOCK);
        let entries = [entry(1, "a"), entry(2, &long), entry(0, "b")];
        let bytes = file(schema, &[(2, entries[..2].concat()), (1, entries[2].clone())]);
        let parts = Parts::of(&bytes).unwrap();
        assert_eq!((parts.count, &parts.records), (3, &entries.concat()));
        let again = super::file(&parts.header, &parts.sync, entries.iter().map(|entry| entry.split_at(1).into()));
        assert_eq!(read(&again).unwrap(), read(&bytes).unwrap());
        assert_eq!(Parts::of(&again).unwrap().records, parts.records);
        assert_eq!(Parts::of(&again).unwrap().header["avro.codec"], b"null");
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for value in [0, 1, -1, 63, 64, -64, -65, 1 << 40, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, value);
            assert_eq!(Input(&bytes).number().unwrap(), value);
            if (-1 << 41..1 << 41).contains(&value) {
                assert_eq!(bytes, number(value));
            }
        }
    }

    fn read(bytes: &[u8]) -> Result<Read, NotUnderstood> {
        let mut found = Vec::new();
        records(bytes, &["data_file.file_path", "status"], |fields| {
            let path =
                fields[0].and_then(|field| if let Field::Text(text) = field { Some(text.to_owned()) } else { None });
            let status =
                fields[1].and_then(|field| if let Field::Number(status) = field { Some(status) } else { None });
            found.push((status, path));
        })?;
        Ok(found)
    }

    #[test]
    fn what_is_wanted_is_found_between_what_is_skipped() {
        let blocks = [(2, [entry(1, "a"), entry(2, "b")].concat()), (1, entry(0, "ü"))];
        let expected = [(1, "a"), (2, "b"), (0, "ü")].map(|(status, path)| (Some(status), Some(path.to_owned())));
        assert_eq!(read(&file(SCHEMA, &blocks)).unwrap(), expected);
        assert_eq!(read(&file(SCHEMA, &[])).unwrap(), []);
    }

    #[test]
    fn what_is_cut_off_changed_or_not_avro_is_not_understood() {
        let whole = file(SCHEMA, &[(1, entry(1, "a"))]);
        let header = file(SCHEMA, &[]).len();
        for end in (0..whole.len()).filter(|end| *end != header) {
            assert!(read(&whole[..end]).is_err(), "{end} bytes");
        }
        let mut marked = whole.clone();
        *marked.last_mut().unwrap() = 8;
        assert!(read(&marked).is_err());
        assert!(read(&file(SCHEMA, &[(1, [entry(1, "a"), vec![0]].concat())])).is_err());
        assert!(read(&file(r#"{"type":"record","name":"r","fields":[{"name":"r","type":"r"}]}"#, &[])).is_err());
        assert!(read(&file(r#"["null","unheard-of"]"#, &[])).is_err());
    }
}
