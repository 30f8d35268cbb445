//! The rows a commit replaces, bound to a table's columns, and what can be said of them without looking.
//!
//! A filter is a union of clauses; a clause names columns and a set of tuples of values. A row matches a clause when none of
//! its values is null and their tuple is in the set. A batch id is a clause of one column and one tuple, several batches are
//! one column and several tuples, a slice is several columns and one tuple, and the keys of an upsert are all of it.
//!
//! Metrics and partition values are used in two different ways. They prove *absence* whenever none of the values of a column
//! can be in the file, cut bounds or not: a cut lower bound is still a lower bound. They prove that *every* row matches only
//! when each column is known to have one value without nulls and that tuple is in the set. In every other case the file
//! has to be opened.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBuilder, RecordBatch};
use arrow::compute::CastOptions;
use arrow::row::{RowConverter, SortField};
use iceberg::arrow::{arrow_primitive_to_literal, schema_to_arrow_schema};
use iceberg::spec::{
    DataFile, Datum, Literal, ManifestFile, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Transform, Type,
};
use iceberg::transform::create_transform_function;

use crate::{Error, Keys};

/// Above so many keys, only opening a file tells whether all of its rows match.
const MOST_TUPLES: usize = 1_000;

/// The length to which bounds of text are cut when the table does not say otherwise.
const USUAL_CUT: usize = 16;

/// What can be said of the rows of a file, or of all files of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// None of them matches.
    None,
    /// All of them match.
    All,
    /// It takes a look.
    Nothing,
}

/// The rows to replace.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    clauses: Vec<Clause>,
}

#[derive(Debug)]
struct Clause {
    columns: Vec<Column>,
    converter: RowConverter,
    keys: HashSet<Box<[u8]>>,
    /// The keys again as values, where there are not too many.
    tuples: HashSet<Vec<PrimitiveLiteral>>,
}

#[derive(Debug)]
struct Column {
    field_id: i32,
    values: Values,
    array: ArrayRef,
    /// What transforms make of the values; `None` where that cannot be computed.
    transformed: Mutex<HashMap<Transform, Option<Arc<Values>>>>,
}

/// Distinct values of one type, ascending.
#[derive(Debug)]
struct Values {
    kind: PrimitiveType,
    ascending: Vec<PrimitiveLiteral>,
}

impl Filter {
    /// Adds the rows with these keys; columns are those of `schema`. A key with a null matches nothing and is left out.
    ///
    /// # Errors
    ///
    /// [`Error::Keys`] when a column is not in the table or of a type that cannot be a key, or a value is not of that type.
    pub(crate) fn or(mut self, keys: &Keys, table: &str, schema: &Schema) -> Result<Self, Error> {
        let refuse = |reason: String| Error::Keys { table: table.to_owned(), reason };
        let arrow_schema = schema_to_arrow_schema(schema).map_err(Error::iceberg("read the schema"))?;
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (field, values) in keys.0.schema().fields().iter().zip(keys.0.columns()) {
            let name = field.name();
            let target =
                arrow_schema.field_with_name(name).map_err(|_| refuse(format!("it has no column `{name}`")))?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            let cast = arrow::compute::cast_with_options(values, target.data_type(), &options);
            arrays.push(cast.map_err(|error| refuse(format!("column `{name}`: {error}")))?);
        }
        let complete: BooleanArray =
            (0..keys.0.num_rows()).map(|row| Some(arrays.iter().all(|array| array.is_valid(row)))).collect();
        for array in &mut arrays {
            *array = arrow::compute::filter(array, &complete).map_err(|error| refuse(error.to_string()))?;
        }
        let mut columns = Vec::new();
        for (field, array) in keys.0.schema().fields().iter().zip(&arrays) {
            let name = field.name();
            let field = schema.field_by_name(name).ok_or_else(|| refuse(format!("it has no column `{name}`")))?;
            let kind = field.field_type.as_primitive_type().filter(|kind| can_be_key(kind));
            let kind = kind.ok_or_else(|| {
                refuse(format!("column `{name}` is {}, which cannot be compared for equality safely", field.field_type))
            })?;
            columns.push(Column::new(field.id, kind.clone(), array.clone())?);
        }
        if columns.is_empty() {
            return Err(refuse("no column is named".to_owned()));
        }
        let fields = arrays.iter().map(|array| SortField::new(array.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(|error| refuse(error.to_string()))?;
        let rows = converter.convert_columns(&arrays).map_err(|error| refuse(error.to_string()))?;
        let keys: HashSet<Box<[u8]>> = rows.iter().map(|row| Box::from(row.as_ref())).collect();
        let mut tuples = HashSet::new();
        if keys.len() <= MOST_TUPLES {
            let literals: Vec<Vec<Option<PrimitiveLiteral>>> =
                columns.iter().map(|column| literals(&column.array, &column.values.kind)).collect::<Result<_, _>>()?;
            for row in 0..arrays.first().map_or(0, Array::len) {
                tuples.extend(literals.iter().map(|column| column[row].clone()).collect::<Option<Vec<_>>>());
            }
        }
        if !keys.is_empty() {
            self.clauses.push(Clause { columns, converter, keys, tuples });
        }
        Ok(self)
    }

    /// The field ids of all columns that are compared, each once, ascending.
    pub(crate) fn field_ids(&self) -> Vec<i32> {
        let mut ids: Vec<i32> =
            self.clauses.iter().flat_map(|clause| clause.columns.iter().map(|column| column.field_id)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Which rows match; `rows` has the columns of [`Filter::field_ids`], in that order and of the table's types.
    pub(crate) fn matches(&self, rows: &RecordBatch) -> Result<BooleanArray, arrow::error::ArrowError> {
        let ids = self.field_ids();
        let mut matching = vec![false; rows.num_rows()];
        for clause in &self.clauses {
            let columns: Vec<ArrayRef> = clause
                .columns
                .iter()
                .filter_map(|column| Some(rows.column(ids.binary_search(&column.field_id).ok()?).clone()))
                .collect();
            let tuples = clause.converter.convert_columns(&columns)?;
            // Nulls are in no key, so a row with one is never found.
            for (matching, tuple) in matching.iter_mut().zip(&tuples) {
                *matching = *matching || clause.keys.contains(tuple.as_ref());
            }
        }
        let mut builder = BooleanBuilder::with_capacity(matching.len());
        builder.append_slice(&matching);
        Ok(builder.finish())
    }

    /// Whether the manifest's own summary of its partitions proves that none of its files holds a matching row.
    pub(crate) fn outside_of(&self, manifest: &ManifestFile, spec: &PartitionSpec) -> bool {
        self.clauses.iter().all(|clause| {
            let summaries = manifest.partitions.iter().flatten();
            spec.fields().iter().zip(summaries).any(|(field, summary)| {
                let proof = || {
                    let column = clause.columns.iter().find(|column| column.field_id == field.source_id)?;
                    let values = column.under(field.transform)?;
                    let bound = |bytes: &[u8]| {
                        let bound = Datum::try_from_bytes(bytes, values.kind.clone()).ok()?;
                        Some(bound.literal().clone())
                    };
                    match (&summary.lower_bound, &summary.upper_bound) {
                        (Some(lower), Some(upper)) => {
                            Some(!values.any_between(Some(&bound(lower)?), Some(&bound(upper)?)))
                        }
                        // All partitions are null, and nulls match nothing.
                        (None, None) => Some(summary.contains_null),
                        _ => None,
                    }
                };
                // What cannot be computed or read proves nothing.
                proof() == Some(true)
            })
        })
    }

    /// What a file's entry alone proves. `cut` is the length to which the table cuts bounds of a column.
    pub(crate) fn known_of(&self, file: &DataFile, spec: &PartitionSpec, cut: impl Fn(i32) -> Option<usize>) -> Known {
        if file.record_count() == 0 {
            return Known::None;
        }
        let of_clauses: Vec<Known> = self.clauses.iter().map(|clause| clause.known_of(file, spec, &cut)).collect();
        if of_clauses.contains(&Known::All) {
            Known::All
        } else if of_clauses.iter().all(|known| *known == Known::None) {
            Known::None
        } else {
            Known::Nothing
        }
    }

    /// The one column of text that is compared; `None` where another is.
    pub(crate) fn only_text(&self) -> Option<i32> {
        let [clause] = self.clauses.as_slice() else { return None };
        let [column] = clause.columns.as_slice() else { return None };
        (column.values.kind == PrimitiveType::String).then_some(column.field_id)
    }

    /// Whether bounds of that column, as an entry has them, leave room for a matching row. What [`Filter::known_of`] tells
    /// from a whole entry may be more, and is never less.
    pub(crate) fn may_have_text(&self, lower: Option<&[u8]>, upper: Option<&[u8]>, cut: Option<usize>) -> bool {
        let text = |bound: &[u8]| Some(PrimitiveLiteral::String(std::str::from_utf8(bound).ok()?.to_owned()));
        let (lower, upper) = (lower.and_then(text), upper.and_then(text));
        self.clauses
            .iter()
            .flat_map(|clause| &clause.columns)
            .any(|column| column.values.any_between(lower.as_ref(), column.raised(upper.as_ref(), cut)))
    }

    /// Whether ends of each column, as a row group's statistics have them, leave room for a matching row.
    pub(crate) fn may_be_within(&self, ends: impl Fn(i32) -> Option<(Datum, Datum)>) -> bool {
        self.clauses.iter().any(|clause| {
            clause.columns.iter().all(|column| match ends(column.field_id) {
                Some((lower, upper)) => {
                    column.values.any_between(column.as_own(&lower).as_ref(), column.as_own(&upper).as_ref())
                }
                None => true,
            })
        })
    }
}

impl Clause {
    fn known_of(&self, file: &DataFile, spec: &PartitionSpec, cut: &impl Fn(i32) -> Option<usize>) -> Known {
        let mut constants = Vec::new();
        for column in &self.columns {
            match column.known_of(file, spec, cut(column.field_id)) {
                None => return Known::None,
                Some(constant) => constants.push(constant),
            }
        }
        match constants.into_iter().collect::<Option<Vec<_>>>() {
            Some(tuple) if self.tuples.contains(&tuple) => Known::All,
            _ => Known::Nothing,
        }
    }
}

impl Column {
    fn new(field_id: i32, kind: PrimitiveType, array: ArrayRef) -> Result<Self, Error> {
        let values = Values::of(&array, kind)?;
        Ok(Self { field_id, values, array, transformed: Mutex::default() })
    }

    /// `None` when no row of the file can match; otherwise the one value of all its rows, where that is known.
    fn known_of(&self, file: &DataFile, spec: &PartitionSpec, cut: Option<usize>) -> Option<Option<PrimitiveLiteral>> {
        let mut constant = None;
        for (field, value) in spec.fields().iter().zip(file.partition().fields()) {
            if field.source_id != self.field_id || field.transform == Transform::Void {
                continue;
            }
            match value {
                // A transform is null for null only.
                None => return None,
                Some(Literal::Primitive(value)) => {
                    let Some(values) = self.under(field.transform) else { continue };
                    if !values.any_between(Some(value), Some(value)) {
                        return None;
                    }
                    if field.transform == Transform::Identity {
                        constant = Some(value.clone());
                    }
                }
                Some(_) => {}
            }
        }
        let nulls = file.null_value_counts().get(&self.field_id).copied();
        if nulls == Some(file.record_count()) {
            return None;
        }
        let bound = |bounds: &HashMap<i32, Datum>| bounds.get(&self.field_id).and_then(|bound| self.as_own(bound));
        let (lower, upper) = (bound(file.lower_bounds()), bound(file.upper_bounds()));
        let upper = self.raised(upper.as_ref(), cut);
        if !self.values.any_between(lower.as_ref(), upper) {
            return None;
        }
        if let (Some(lower), Some(upper), Some(0)) = (&lower, upper, nulls)
            && lower == upper
            && !may_be_cut(lower, cut)
        {
            constant = Some(lower.clone());
        }
        Some(constant)
    }

    /// An upper bound, if it is one. Some writers cut an upper bound of text without raising it: it may then be below the
    /// values it begins.
    fn raised<'a>(&self, upper: Option<&'a PrimitiveLiteral>, cut: Option<usize>) -> Option<&'a PrimitiveLiteral> {
        upper
            .filter(|upper| !(may_be_cut(upper, cut) && self.values.ascending.iter().any(|value| begins(upper, value))))
    }

    /// A bound as a value of the column's type: files from before a promotion have bounds of the narrower one.
    fn as_own(&self, bound: &Datum) -> Option<PrimitiveLiteral> {
        let kind = &self.values.kind;
        if !has_ordered_bounds(kind) {
            return None;
        }
        if bound.data_type() == kind {
            return Some(bound.literal().clone());
        }
        let promoted = bound.clone().to(&Type::Primitive(kind.clone())).ok()?;
        Some(promoted.literal().clone())
    }

    fn under(&self, transform: Transform) -> Option<Arc<Values>> {
        let mut transformed = self.transformed.lock().unwrap_or_else(PoisonError::into_inner);
        let compute = || {
            let kind = transform.result_type(&Type::Primitive(self.values.kind.clone())).ok()?;
            let array = create_transform_function(&transform).ok()?.transform(self.array.clone()).ok()?;
            let values = Values::of(&array, kind.as_primitive_type()?.clone()).ok()?;
            (!values.ascending.is_empty()).then(|| Arc::new(values))
        };
        transformed.entry(transform).or_insert_with(compute).clone()
    }
}

impl Values {
    fn of(array: &ArrayRef, kind: PrimitiveType) -> Result<Self, Error> {
        let distinct: HashSet<PrimitiveLiteral> = literals(array, &kind)?.into_iter().flatten().collect();
        let mut ascending: Vec<PrimitiveLiteral> = distinct.into_iter().collect();
        ascending.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
        Ok(Self { kind, ascending })
    }

    /// Whether any of them can be between the ends; a missing end is none, and neither is one of another type.
    fn any_between(&self, lower: Option<&PrimitiveLiteral>, upper: Option<&PrimitiveLiteral>) -> bool {
        let Some(any) = self.ascending.first() else { return false };
        let comparable = |end: &&PrimitiveLiteral| std::mem::discriminant(*end) == std::mem::discriminant(any);
        let (lower, upper) = (lower.filter(comparable), upper.filter(comparable));
        let first = lower.map_or(0, |lower| self.ascending.partition_point(|value| value < lower));
        match (self.ascending.get(first), upper) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(value), Some(upper)) => value <= upper,
        }
    }
}

/// The values of an array as Iceberg has them.
fn literals(array: &ArrayRef, kind: &PrimitiveType) -> Result<Vec<Option<PrimitiveLiteral>>, Error> {
    let literals = arrow_primitive_to_literal(array, &Type::Primitive(kind.clone()));
    let literals = literals.map_err(Error::iceberg("read the keys"))?;
    Ok(literals
        .into_iter()
        .map(|literal| match literal {
            Some(Literal::Primitive(literal)) => Some(literal),
            _ => None,
        })
        .collect())
}

/// Types whose equality means the same to everybody.
fn can_be_key(kind: &PrimitiveType) -> bool {
    !matches!(kind, PrimitiveType::Float | PrimitiveType::Double | PrimitiveType::Binary | PrimitiveType::Fixed(_))
}

/// Writers disagree about the order of UUIDs.
fn has_ordered_bounds(kind: &PrimitiveType) -> bool {
    *kind != PrimitiveType::Uuid
}

/// Whether text `bound` is a proper beginning of text `value`.
fn begins(bound: &PrimitiveLiteral, value: &PrimitiveLiteral) -> bool {
    match (bound, value) {
        (PrimitiveLiteral::String(bound), PrimitiveLiteral::String(value)) => {
            bound.len() < value.len() && value.starts_with(bound)
        }
        _ => false,
    }
}

/// Whether a bound has a length to which text is cut: it may then stand for longer text.
fn may_be_cut(bound: &PrimitiveLiteral, cut: Option<usize>) -> bool {
    match bound {
        PrimitiveLiteral::String(text) => {
            let length = text.chars().count();
            length == USUAL_CUT || Some(length) == cut
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, StringArray};
    use iceberg::spec::{
        DataContentType, DataFileBuilder, DataFileFormat, FieldSummary, ManifestContentType, NestedField, Struct,
    };
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn schema() -> Schema {
        let column = |id, name: &str, kind| NestedField::optional(id, name, Type::Primitive(kind)).into();
        let fields = [
            column(7, "ingest_batch_id", PrimitiveType::String),
            column(8, "n", PrimitiveType::Long),
            column(9, "day", PrimitiveType::Date),
            column(10, "x", PrimitiveType::Double),
        ];
        Schema::builder().with_fields(fields).build().unwrap()
    }

    fn keys(columns: Vec<(&str, ArrayRef)>) -> Filter {
        let keys = Keys(RecordBatch::try_from_iter(columns).unwrap());
        Filter::default().or(&keys, "t", &schema()).unwrap()
    }

    fn texts(texts: &[&str]) -> ArrayRef {
        Arc::new(StringArray::from(texts.to_vec()))
    }

    fn batch_id() -> Filter {
        keys(vec![("ingest_batch_id", texts(&[ID]))])
    }

    fn spec(source: &str, transform: Transform) -> PartitionSpec {
        let spec = PartitionSpec::builder(schema()).add_partition_field(source, "part", transform).unwrap();
        spec.build().unwrap()
    }

    fn unpartitioned() -> PartitionSpec {
        PartitionSpec::builder(schema()).build().unwrap()
    }

    /// A file of three rows.
    fn file(field_id: i32, lower: Option<Datum>, upper: Option<Datum>, nulls: Option<u64>) -> DataFile {
        in_partition(field_id, lower, upper, nulls, Struct::empty())
    }

    fn in_partition(
        field_id: i32,
        lower: Option<Datum>,
        upper: Option<Datum>,
        nulls: Option<u64>,
        partition: Struct,
    ) -> DataFile {
        let bounds = |bound: Option<Datum>| bound.map(|bound| (field_id, bound)).into_iter().collect::<HashMap<_, _>>();
        DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path("memory:///a".to_owned())
            .file_format(DataFileFormat::Parquet)
            .partition(partition)
            .record_count(3)
            .file_size_in_bytes(1)
            .lower_bounds(bounds(lower))
            .upper_bounds(bounds(upper))
            .null_value_counts(nulls.map(|nulls| (field_id, nulls)).into_iter().collect())
            .build()
            .unwrap()
    }

    fn manifest(lower: Option<Datum>, upper: Option<Datum>, contains_null: bool) -> ManifestFile {
        let bytes = |bound: Option<Datum>| bound.map(|bound| bound.to_bytes().unwrap());
        ManifestFile {
            manifest_path: "memory:///m".to_owned(),
            manifest_length: 1,
            partition_spec_id: 1,
            content: ManifestContentType::Data,
            sequence_number: 1,
            min_sequence_number: 1,
            added_snapshot_id: 1,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(3),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: Some(vec![FieldSummary {
                contains_null,
                contains_nan: Some(false),
                lower_bound: bytes(lower),
                upper_bound: bytes(upper),
            }]),
            key_metadata: None,
            first_row_id: None,
        }
    }

    fn text(text: &str) -> Option<Datum> {
        Some(Datum::string(text))
    }

    #[rstest]
    #[case::within(Transform::Identity, text("00"), text("ff"), false, false)]
    #[case::only_this_batch(Transform::Identity, text(ID), text(ID), false, false)]
    #[case::below(Transform::Identity, text("1"), text("2"), false, true)]
    #[case::above(Transform::Identity, text("00"), text("01"), true, true)]
    #[case::all_null(Transform::Identity, None, None, true, true)]
    #[case::nothing_known(Transform::Identity, None, None, false, false)]
    #[case::half_known(Transform::Identity, text("1"), None, false, false)]
    #[case::cut_partition_within(Transform::Truncate(4), text("0123"), text("0123"), false, false)]
    #[case::cut_partition_outside(Transform::Truncate(4), text("0124"), text("0124"), false, true)]
    // PyIceberg's BucketTransform(16) puts this id into bucket 14.
    #[case::bucket_within(Transform::Bucket(16), Some(Datum::int(14)), Some(Datum::int(14)), false, false)]
    #[case::bucket_outside(Transform::Bucket(16), Some(Datum::int(0)), Some(Datum::int(13)), false, true)]
    #[case::no_partition(Transform::Void, None, None, true, false)]
    fn partition_summaries_prove_absence_and_nothing_else(
        #[case] transform: Transform,
        #[case] lower: Option<Datum>,
        #[case] upper: Option<Datum>,
        #[case] contains_null: bool,
        #[case] absent: bool,
    ) {
        let manifest = manifest(lower, upper, contains_null);
        let spec = spec("ingest_batch_id", transform);
        assert_eq!(batch_id().outside_of(&manifest, &spec), absent);
        let other = keys(vec![("n", Arc::new(Int64Array::from(vec![1])))]);
        assert!(!other.outside_of(&manifest, &spec), "another column's partitions prove nothing");
        let either =
            other.or(&Keys(RecordBatch::try_from_iter([("ingest_batch_id", texts(&[ID]))]).unwrap()), "t", &schema());
        assert!(!either.unwrap().outside_of(&manifest, &spec), "rows of the other clause may be there");
    }

    #[rstest]
    #[case::exact(text(ID), text(ID), Some(0), Known::All)]
    #[case::nulls_not_counted(text(ID), text(ID), None, Known::Nothing)]
    #[case::some_nulls(text(ID), text(ID), Some(1), Known::Nothing)]
    #[case::all_nulls(None, None, Some(3), Known::None)]
    #[case::no_bounds(None, None, Some(0), Known::Nothing)]
    #[case::other_ids_on_both_sides(text("00"), text("ff"), Some(0), Known::Nothing)]
    #[case::below(text("1"), text("2"), Some(0), Known::None)]
    #[case::above(text("00"), text("01"), Some(0), Known::None)]
    #[case::cut_to_sixteen(text("0123456789abcdef"), text("0123456789abcdeg"), Some(0), Known::Nothing)]
    #[case::cut_to_sixteen_and_not_raised(text("0123456789abcdef"), text("0123456789abcdef"), Some(0), Known::Nothing)]
    #[case::cut_to_sixteen_and_another_id(text("0123456789abcdea"), text("0123456789abcdeb"), Some(0), Known::None)]
    #[case::only_a_lower_bound(text(ID), None, Some(0), Known::Nothing)]
    fn bounds_prove_what_they_can_and_no_more(
        #[case] lower: Option<Datum>,
        #[case] upper: Option<Datum>,
        #[case] nulls: Option<u64>,
        #[case] known: Known,
    ) {
        assert_eq!(batch_id().known_of(&file(7, lower, upper, nulls), &unpartitioned(), |_| None), known);
    }

    proptest! {
        #[test]
        fn bounds_alone_exclude_no_file_that_its_whole_entry_does_not(
            value in "[ab]{0,17}",
            lower in proptest::option::of("[ab]{0,17}"),
            upper in proptest::option::of("[ab]{0,17}"),
            cut in proptest::option::of(0_usize..4),
        ) {
            let filter = keys(vec![("ingest_batch_id", texts(&[&value]))]);
            prop_assert_eq!(filter.only_text(), Some(7));
            let may = filter.may_have_text(lower.as_deref().map(str::as_bytes), upper.as_deref().map(str::as_bytes), cut);
            let datum = |bound: &Option<String>| bound.as_ref().map(Datum::string);
            let known = filter.known_of(&file(7, datum(&lower), datum(&upper), Some(0)), &unpartitioned(), |_| cut);
            prop_assert_eq!(may, known != Known::None);
        }
    }

    #[test]
    fn only_one_column_of_text_is_told_from_its_bounds_alone() {
        assert_eq!(batch_id().only_text(), Some(7));
        assert_eq!(keys(vec![("n", Arc::new(Int64Array::from(vec![1])))]).only_text(), None);
        let two = keys(vec![("ingest_batch_id", texts(&[ID])), ("n", Arc::new(Int64Array::from(vec![1])))]);
        assert_eq!(two.only_text(), None);
        let other = Keys(RecordBatch::try_from_iter([("ingest_batch_id", texts(&["x"]))]).unwrap());
        assert_eq!(batch_id().or(&other, "t", &schema()).unwrap().only_text(), None, "two clauses");
        assert!(batch_id().may_have_text(None, None, None));
        assert!(batch_id().may_have_text(Some(&[0xff]), Some(&[0xff]), None), "what is no text proves nothing");
        assert!(!batch_id().may_have_text(None, Some(b"0"), None));
    }

    #[rstest]
    #[case::usual_cut("0123456789abcdef", None)]
    #[case::the_tables_cut("0123", Some(4))]
    fn a_bound_as_long_as_bounds_are_cut_does_not_prove_a_match(#[case] value: &str, #[case] cut: Option<usize>) {
        let filter = keys(vec![("ingest_batch_id", texts(&[value]))]);
        let file = file(7, text(value), text(value), Some(0));
        assert_eq!(filter.known_of(&file, &unpartitioned(), |_| cut), Known::Nothing);
        assert_eq!(filter.known_of(&file, &unpartitioned(), |_| Some(99)) == Known::All, value.len() != 16);
    }

    #[test]
    fn one_of_many_values_is_looked_for_between_the_ends() {
        let filter = keys(vec![("n", Arc::new(Int64Array::from(vec![10, 20, 30])))]);
        let known = |lower, upper| {
            let file = file(8, Some(Datum::long(lower)), Some(Datum::long(upper)), Some(0));
            filter.known_of(&file, &unpartitioned(), |_| None)
        };
        assert_eq!(known(11_i64, 19_i64), Known::None);
        assert_eq!(known(11, 20), Known::Nothing);
        assert_eq!(known(20, 20), Known::All);
        assert_eq!(known(31, 99), Known::None);
    }

    #[test]
    fn bounds_from_before_a_promotion_count() {
        let filter = keys(vec![("n", Arc::new(Int64Array::from(vec![10])))]);
        let file = |bound: i32| file(8, Some(Datum::int(bound)), Some(Datum::int(bound)), Some(0));
        assert_eq!(filter.known_of(&file(10), &unpartitioned(), |_| None), Known::All);
        assert_eq!(filter.known_of(&file(11), &unpartitioned(), |_| None), Known::None);
    }

    #[test]
    fn a_tuple_matches_as_a_whole() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), None]));
        let filter = keys(vec![("n", numbers), ("ingest_batch_id", texts(&["a", "b", "c"]))]);
        let ids: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), None, Some("c")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(2), Some(1), None]));
        assert_eq!(filter.field_ids(), [7, 8]);
        let rows = RecordBatch::try_from_iter([("ingest_batch_id", ids), ("n", numbers)]).unwrap();
        let matches: Vec<bool> = filter.matches(&rows).unwrap().values().iter().collect();
        assert_eq!(matches, [true, false, false, false, false]);
    }

    #[rstest]
    #[case::of_the_slice(Some(Literal::date(20_676)), Known::All)]
    #[case::of_another(Some(Literal::date(20_677)), Known::None)]
    #[case::of_none(None, Known::None)]
    fn an_identity_partition_tells_without_metrics(#[case] value: Option<Literal>, #[case] known: Known) {
        let filter = keys(vec![("day", texts(&["2026-08-11"]))]);
        let file = in_partition(9, None, None, None, Struct::from_iter([value]));
        assert_eq!(filter.known_of(&file, &spec("day", Transform::Identity), |_| None), known);
    }

    #[test]
    fn a_coarser_partition_tells_what_is_not_there() {
        let filter = keys(vec![("day", texts(&["2026-08-11", "2026-09-30"]))]);
        let known = |month: i32| {
            let file = in_partition(9, None, None, None, Struct::from_iter([Some(Literal::int(month))]));
            filter.known_of(&file, &spec("day", Transform::Month), |_| None)
        };
        let august = (2026 - 1970) * 12 + 7;
        assert_eq!(
            [known(august - 1), known(august), known(august + 1)],
            [Known::None, Known::Nothing, Known::Nothing]
        );
    }

    #[test]
    fn floating_point_is_no_key() {
        let keys = Keys(RecordBatch::try_from_iter([("x", texts(&["1.5"]))]).unwrap());
        let message = Filter::default().or(&keys, "t", &schema()).unwrap_err().to_string();
        assert!(message.contains("column `x` is double"), "{message}");
    }
}
