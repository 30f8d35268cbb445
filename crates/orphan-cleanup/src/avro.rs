//! Reading a few fields out of Avro files, and skipping the rest.
//!
//! Most of a manifest is statistics, which a cleaner has no use for. A reader that decodes them into values spends nearly
//! all of its time on that; skipping over them costs next to nothing. Only what manifests need is understood: whoever gets
//! an error asks a whole reader. The format: <https://avro.apache.org/docs/1.11.1/specification/>.

use std::collections::HashMap;
use std::io::Read as _;

use serde_json::Value as Json;

/// How an Avro file begins.
const MAGIC: &[u8] = b"Obj\x01";

/// No block of a manifest is larger; a length beyond it is not one.
const LARGEST: usize = 1 << 30;

/// No schema of a manifest goes deeper.
const DEEPEST: usize = 32;

/// Why a file is not understood.
#[derive(Debug)]
pub(crate) struct NotUnderstood;

/// What a field holds, as far as anybody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    /// A number.
    Number(i64),
    /// A text.
    Text(&'a str),
}

/// Gives `take` each record of a file as the fields whose paths (`data_file.file_path`) are `wanted`, in that order. A
/// field that is null or of another kind is `None`.
pub(crate) fn records(
    bytes: &[u8],
    wanted: &[&str],
    mut take: impl FnMut(&[Option<Field<'_>>]),
) -> Result<(), NotUnderstood> {
    let mut input = Input(bytes.strip_prefix(MAGIC).ok_or(NotUnderstood)?);
    let mut header = HashMap::new();
    input.blocks(|input| {
        let key = input.text()?.to_owned();
        header.insert(key, input.bytes()?.to_vec());
        Ok(())
    })?;
    let schema: Json =
        serde_json::from_slice(header.get("avro.schema").ok_or(NotUnderstood)?).map_err(|_| NotUnderstood)?;
    let deflated = match header.get("avro.codec").map(Vec::as_slice) {
        None | Some(b"null") => false,
        Some(b"deflate") => true,
        Some(_) => return Err(NotUnderstood),
    };
    let plan = Plan::of(&schema, wanted, "", &mut HashMap::new(), DEEPEST)?;
    let sync = input.take(16)?;
    let mut unpacked = Vec::new();
    while !input.0.is_empty() {
        let records = usize::try_from(input.number()?).map_err(|_| NotUnderstood)?;
        let block = input.bytes()?;
        let mut block = if deflated {
            unpacked.clear();
            let read = flate2::read::DeflateDecoder::new(block).take(LARGEST as u64).read_to_end(&mut unpacked);
            read.map_err(|_| NotUnderstood)?;
            Input(&unpacked)
        } else {
            Input(block)
        };
        for _ in 0..records {
            let mut fields = vec![None; wanted.len()];
            plan.read(&mut block, &mut fields)?;
            take(&fields);
        }
        if !block.0.is_empty() || input.take(16)? != sync {
            return Err(NotUnderstood);
        }
    }
    Ok(())
}

/// How a value is read, or skipped.
#[derive(Clone, Debug)]
enum Plan {
    Nothing,
    /// `boolean`, `float`, `double` and `fixed`: so many bytes.
    Fixed(usize),
    /// `int`, `long` and `enum`, and where it is put.
    Number(Option<usize>),
    /// `bytes` and `string`, and where it is put.
    Bytes(Option<usize>),
    Record(Vec<Plan>),
    Array(Box<Plan>),
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
                        Ok(Self::Array(Box::new(Self::of(&part(object, "items")?, wanted, "[]", named, depth)?)))
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

    fn read<'a>(&self, input: &mut Input<'a>, fields: &mut [Option<Field<'a>>]) -> Result<(), NotUnderstood> {
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

/// Bytes that have not been read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, size: usize) -> Result<&'a [u8], NotUnderstood> {
        let (taken, rest) = self.0.split_at_checked(size).ok_or(NotUnderstood)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A zigzag number of variable length.
    fn number(&mut self) -> Result<i64, NotUnderstood> {
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
