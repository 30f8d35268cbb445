//! The keys of a batch, by which an upsert finds the rows that it replaces.
//!
//! They are collected while the rows pass, in the order of the input, each once: a batch that holds a key twice does not say
//! which of the two rows is meant. Nothing but keys is held, and no more of them than the job has memory for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;
use hexfloe_commit::Keys;

use crate::Error;
use crate::job::ByteSize;
use crate::place::{Place, Places, RowPlaces};

/// About what an allocation takes besides what it holds.
const ALLOCATION_BYTES: usize = 16;

/// The columns of a key.
#[derive(Debug)]
pub(crate) struct KeyColumns {
    indices: Vec<usize>,
    fields: Vec<Field>,
    converter: RowConverter,
}

impl KeyColumns {
    /// For batches of `columns`. `setting` is where the job names them.
    pub(crate) fn new(setting: &str, names: &[String], columns: &Schema) -> Result<Self, Error> {
        let indices = indices(setting, names, columns)?;
        let fields: Vec<Field> = indices.iter().map(|index| columns.field(*index).clone()).collect();
        let converter = converter(setting, &fields)?;
        Ok(Self { indices, fields, converter })
    }

    /// The same for columns whose types mean the same to everybody who compares them.
    pub(crate) fn comparable(setting: &str, names: &[String], columns: &Schema) -> Result<Self, Error> {
        let key = Self::new(setting, names, columns)?;
        key.fields.iter().try_for_each(|field| refuse_type(setting, field.name(), field.data_type()))?;
        Ok(key)
    }

    /// The keys of a batch's rows.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<Rows, Error> {
        let columns: Vec<ArrayRef> = self.indices.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        self.converter.convert_columns(&columns).map_err(Error::arrow("read the keys of a batch"))
    }

    fn arrays<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, Error> {
        let parser = self.converter.parser();
        let rows = keys.into_iter().map(|key| parser.parse(key));
        self.converter.convert_rows(rows).map_err(Error::arrow("write keys down"))
    }

    /// `event_date = 2026-08-11, event_id = 7`.
    fn show(&self, key: &[u8]) -> Result<String, Error> {
        let values = self.arrays([key])?;
        let values = self.fields.iter().zip(&values).map(|(field, value)| {
            Ok(format!("{} = {}", field.name(), array_value_to_string(value, 0).map_err(Error::arrow("show a key"))?))
        });
        Ok(values.collect::<Result<Vec<_>, Error>>()?.join(", "))
    }
}

/// The distinct keys of a batch.
#[derive(Debug)]
pub(crate) struct KeySet {
    /// Each with the row it is the key of.
    keys: HashMap<Box<[u8]>, Place>,
    /// What the keys themselves take.
    bytes: usize,
    limit: usize,
}

impl KeySet {
    /// An empty set that may take `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { keys: HashMap::new(), bytes: 0, limit }
    }

    /// Adds the keys of rows that follow those before.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateKey`] for the first that is there already, and [`Error::Job`] when they take more memory than there
    /// is.
    pub(crate) fn add(
        &mut self,
        columns: &KeyColumns,
        keys: &Rows,
        at: &RowPlaces,
        places: &Places,
    ) -> Result<(), Error> {
        for (row, key) in keys.iter().enumerate() {
            match self.keys.entry(Box::from(key.as_ref())) {
                Entry::Occupied(first) => {
                    return Err(Error::DuplicateKey {
                        key: columns.show(first.key())?,
                        first: places.show(*first.get()),
                        second: places.show(at.of(row)),
                    });
                }
                Entry::Vacant(new) => {
                    self.bytes += new.key().len() + ALLOCATION_BYTES;
                    new.insert(at.of(row));
                }
            }
        }
        let entries = self.keys.capacity() * (size_of::<(Box<[u8]>, Place)>() + 1);
        refuse_excess("the keys of an upsert", self.keys.len(), entries + self.bytes, self.limit)
    }

    /// The keys as the committer wants them, ascending.
    pub(crate) fn finish(self, columns: &KeyColumns) -> Result<Keys, Error> {
        let mut keys: Vec<Box<[u8]>> = self.keys.into_keys().collect();
        keys.sort_unstable();
        let arrays = columns.arrays(keys.iter().map(AsRef::as_ref))?;
        let keys = RecordBatch::try_new(Arc::new(Schema::new(columns.fields.clone())), arrays);
        Ok(Keys(keys.map_err(Error::arrow("write the keys of a batch down"))?))
    }
}

/// Keys have to be held together: what is too much for the job's memory is refused, and nothing else would be bounded.
pub(crate) fn refuse_excess(what: &str, rows: usize, bytes: usize, limit: usize) -> Result<(), Error> {
    if bytes <= limit {
        return Ok(());
    }
    Err(Error::Job(format!(
        "{what} do not fit: {rows} rows take {bytes} bytes, and limits.memory is {}: raise it, or make smaller batches",
        ByteSize(limit as u64)
    )))
}

/// The places of columns among those of the table.
pub(crate) fn indices(setting: &str, names: &[String], columns: &Schema) -> Result<Vec<usize>, Error> {
    if names.is_empty() {
        return Err(Error::Job(format!("{setting} names no column")));
    }
    let mut indices = Vec::new();
    for name in names {
        let index = columns
            .index_of(name)
            .map_err(|_| Error::Mismatch(format!("{setting}: the table has no column `{name}`")))?;
        if indices.contains(&index) {
            return Err(Error::Job(format!("{setting} names the column `{name}` twice")));
        }
        indices.push(index);
    }
    Ok(indices)
}

/// A converter of the columns; values are equal when their rows are.
pub(crate) fn converter(setting: &str, fields: &[Field]) -> Result<RowConverter, Error> {
    let sort = fields.iter().map(|field| SortField::new(field.data_type().clone())).collect();
    RowConverter::new(sort)
        .map_err(|error| Error::Mismatch(format!("{setting}: its columns cannot be compared: {error}")))
}

/// Types of which not everybody has the same idea when two values are equal.
pub(crate) fn refuse_type(setting: &str, column: &str, data_type: &DataType) -> Result<(), Error> {
    let comparable = matches!(
        data_type,
        DataType::Boolean
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Decimal128(_, _)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
    );
    if comparable {
        return Ok(());
    }
    Err(Error::Mismatch(format!(
        "{setting}: the column `{column}` is {}, and cannot be compared for equality safely",
        crate::types::name_in_table(data_type)
    )))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};

    use super::*;

    fn batch(days: &[&str], ids: &[i64]) -> RecordBatch {
        let days: ArrayRef = Arc::new(StringViewArray::from_iter_values(days));
        let ids: ArrayRef = Arc::new(Int64Array::from(ids.to_vec()));
        RecordBatch::try_from_iter([("id", ids), ("day", days)]).unwrap()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn add(set: &mut KeySet, columns: &KeyColumns, batch: &RecordBatch, first: u64) -> Result<(), Error> {
        let at = RowPlaces::new(Places::default().at("", first), None);
        set.add(columns, &columns.of(batch)?, &at, &Places::default())
    }

    #[test]
    fn keys_come_out_as_they_went_in_each_once_and_ascending() {
        let one = batch(&["b", "a long day, longer than a view", "b"], &[2, 1, 1]);
        let columns = KeyColumns::new("table.key", &names(&["day", "id"]), &one.schema()).unwrap();
        let mut set = KeySet::new(1 << 20);
        add(&mut set, &columns, &one, 1).unwrap();
        add(&mut set, &columns, &batch(&["a"], &[9]), 4).unwrap();
        let Keys(keys) = set.finish(&columns).unwrap();
        let shown = |column: usize| {
            (0..keys.num_rows()).map(|row| array_value_to_string(keys.column(column), row).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(shown(0), ["a", "a long day, longer than a view", "b", "b"]);
        assert_eq!(shown(1), ["9", "1", "1", "2"]);
    }

    #[test]
    fn a_key_that_comes_again_is_named_with_both_rows() {
        let one = batch(&["x", "y"], &[1, 2]);
        let columns = KeyColumns::new("table.key", &names(&["id", "day"]), &one.schema()).unwrap();
        let mut set = KeySet::new(1 << 20);
        add(&mut set, &columns, &one, 1).unwrap();
        let error = add(&mut set, &columns, &batch(&["z", "y"], &[1, 2]), 10).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Input);
        let message = error.to_string();
        assert!(
            message.contains("id = 2, day = y") && message.contains("row 2") && message.contains("row 11"),
            "{message}"
        );
    }

    #[test]
    fn keys_that_take_more_than_the_memory_are_refused_by_its_name() {
        let ids: Vec<i64> = (0..10_000).collect();
        let all = batch(&vec!["d"; ids.len()], &ids);
        let columns = KeyColumns::new("table.key", &names(&["id"]), &all.schema()).unwrap();
        let error = add(&mut KeySet::new(100_000), &columns, &all, 1).unwrap_err().to_string();
        assert!(error.contains("limits.memory is 100000") && error.contains("10000 rows"), "{error}");
        add(&mut KeySet::new(1 << 20), &columns, &all, 1).unwrap();
    }
}
