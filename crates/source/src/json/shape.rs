//! What the values of JSON records look like, gathered from every record.
//!
//! A record is walked by serde without building it. Scalars of several kinds are joined as in text ([`Kinds`]); null is no
//! kind; objects and lists are walked into. An object or list where another record has a scalar has no common type and is an
//! error of that record.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::infer::Kinds;

/// The most fields that records may have, with those of the objects in them. Keys that are data (an object a record, with an id as
/// its key) would otherwise become columns without end.
const MOST_FIELDS: usize = 10_000;

/// What has been seen in one place of the records.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    scalars: Kinds,
    object: Option<Object>,
    list: Option<Box<Shape>>,
    /// How many fields there are below, known in the outermost shape only.
    below: usize,
}

/// The fields of objects, in the order in which they first appeared.
#[derive(Debug, Default)]
struct Object {
    fields: Vec<Member>,
    places: HashMap<String, usize>,
    /// How many objects have been seen, to tell a field that is there twice.
    seen: u64,
}

#[derive(Debug)]
struct Member {
    name: String,
    shape: Shape,
    last_seen: u64,
}

impl Shape {
    /// Adds one record, the text of an object.
    pub(crate) fn see(&mut self, record: &[u8]) -> Result<(), String> {
        let mut deserializer = serde_json::Deserializer::from_slice(record);
        let below = Cell::new(self.below);
        let seen = deserializer.deserialize_map(Walk(self, &below)).and_then(|()| deserializer.end());
        self.below = below.get();
        seen.map_err(|error| error.to_string().replace(" at line 1 column ", " at column "))
    }

    /// The fields of the records seen, with their shapes.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.object.iter().flat_map(|object| object.fields.iter().map(|member| (member.name.as_str(), &member.shape)))
    }

    /// Whether a record has this field.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.as_ref().is_some_and(|object| object.places.contains_key(name))
    }

    /// The kinds of scalars, if nothing else has been seen.
    pub(crate) fn scalars(&self) -> Option<Kinds> {
        (self.object.is_none() && self.list.is_none()).then_some(self.scalars)
    }

    /// The type that holds all of it, or the path inside of it that has none.
    pub(crate) fn data_type(&self, path: &str) -> Result<DataType, String> {
        if let Some(object) = &self.object {
            let field = |member: &Member| {
                let data_type = member.shape.data_type(&format!("{path}.{}", member.name))?;
                Ok::<_, String>(Field::new(&member.name, data_type, true))
            };
            let fields = object.fields.iter().map(field).collect::<Result<Fields, _>>()?;
            return if fields.is_empty() { Err(path.to_owned()) } else { Ok(DataType::Struct(fields)) };
        }
        if let Some(items) = &self.list {
            let item = Field::new("element", items.data_type(&format!("{path}[]"))?, true);
            return Ok(DataType::List(Arc::new(item)));
        }
        Ok(self.scalars.data_type())
    }

    fn see_scalar<E: serde::de::Error>(&mut self, kinds: Kinds) -> Result<(), E> {
        if self.object.is_some() || self.list.is_some() {
            return Err(E::custom("a plain value where another record has an object or a list"));
        }
        self.scalars.join(kinds);
        Ok(())
    }

    fn see_nested<E: serde::de::Error>(&self, is_list: bool) -> Result<(), E> {
        let other = if is_list { self.object.is_some() } else { self.list.is_some() };
        if other || !self.scalars.is_empty() {
            let what = if is_list { "a list" } else { "an object" };
            return Err(E::custom(format!("{what} where another record has a value of another kind")));
        }
        Ok(())
    }
}

/// Walks a value into its shape, and counts the fields that are new.
struct Walk<'a>(&'a mut Shape, &'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.0.see_scalar(Kinds::BOOLEAN)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.0.see_scalar(Kinds::of_integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        // Beyond a long: only its digits hold it.
        self.0.see_scalar(i64::try_from(value).map_or(Kinds::TEXT, Kinds::of_integer))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        // An integer too large for 64 bits arrives here too, without the digits a double cannot hold.
        const BEYOND_64_BITS: f64 = 18_446_744_073_709_551_616.0;
        self.0.see_scalar(if value.abs() >= BEYOND_64_BITS { Kinds::TEXT } else { Kinds::FRACTION })
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.0.see_scalar(Kinds::TEXT)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.see_nested(true)?;
        let shape = self.0.list.get_or_insert_default();
        while items.next_element_seed(Walk(shape, self.1))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.0.see_nested(false)?;
        let object = self.0.object.get_or_insert_default();
        object.seen += 1;
        let mut expected = 0;
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            // Records mostly have the same fields in the same order.
            let place = match object.fields.get(expected) {
                Some(member) if member.name == name => expected,
                _ => match object.places.get(name.as_ref()) {
                    Some(place) => *place,
                    None => {
                        self.1.set(self.1.get() + 1);
                        if self.1.get() > MOST_FIELDS {
                            let problem = "the records have more than 10000 different fields: if the names are data, put them \
                                           into a list of values";
                            return Err(A::Error::custom(problem));
                        }
                        object.add(name.into_owned())
                    }
                },
            };
            expected = place + 1;
            let seen = object.seen;
            let Some(member) = object.fields.get_mut(place) else { continue };
            if member.last_seen == seen {
                return Err(A::Error::custom(format!("the field `{}` is there twice", member.name)));
            }
            member.last_seen = seen;
            members.next_value_seed(Walk(&mut member.shape, self.1)).map_err(|error| within(&member.name, &error))?;
        }
        Ok(())
    }
}

impl Object {
    fn add(&mut self, name: String) -> usize {
        let place = self.fields.len();
        self.places.insert(name.clone(), place);
        self.fields.push(Member { name, shape: Shape::default(), last_seen: 0 });
        place
    }
}

/// Says which field an error is in; the place in the text is kept.
fn within<E: serde::de::Error>(name: &str, error: &E) -> E {
    E::custom(format!("field `{name}`: {error}"))
}
