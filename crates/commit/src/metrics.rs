//! Describing a Parquet file to Iceberg: counts, sizes and bounds from the footer, without a second pass.
//!
//! Which columns get bounds, and how long they may be, follows the table's `write.metadata.metrics.*` properties.
//! Bounds are merged over row groups as values of the column's Iceberg type, never as bytes. A bound that cannot be
//! stated truly is left out.

use std::collections::{HashMap, HashSet};

use iceberg::metadata_columns::{RESERVED_FIELD_ID_DELETE_FILE_PATH, RESERVED_FIELD_ID_DELETE_FILE_POS};
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, Datum, NestedField, PrimitiveType, Schema, TableMetadata, Type,
};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

/// The mode of columns that have none of their own.
const DEFAULT_MODE: &str = "write.metadata.metrics.default";

/// How much is recorded about a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsMode {
    /// Nothing but its size.
    None,
    /// Sizes and counts.
    Counts,
    /// Counts, and bounds cut to so many characters or bytes.
    Truncate(usize),
    /// Counts and whole bounds.
    Full,
}

impl MetricsMode {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "none" => Some(Self::None),
            "counts" => Some(Self::Counts),
            "full" => Some(Self::Full),
            other => {
                let length = other.strip_prefix("truncate(")?.strip_suffix(')')?.trim().parse().ok()?;
                (length > 0).then_some(Self::Truncate(length))
            }
        }
    }

    /// The mode of a column under the table's properties; Iceberg's default is `truncate(16)`.
    pub fn of(properties: &HashMap<String, String>, column: &str) -> Self {
        Self::own(properties, column)
            .or_else(|| properties.get(DEFAULT_MODE).and_then(|mode| Self::parse(mode)))
            .unwrap_or(Self::Truncate(16))
    }

    /// The mode that is given for this very column.
    fn own(properties: &HashMap<String, String>, column: &str) -> Option<Self> {
        properties.get(&format!("write.metadata.metrics.column.{column}")).and_then(|mode| Self::parse(mode))
    }
}

/// Columns of a wide table without metrics: where no default mode is given, only the first so many
/// (`write.metadata.metrics.max-inferred-column-defaults`: 100) have the usual one.
fn unmeasured(table: &TableMetadata) -> HashSet<i32> {
    if table.properties().contains_key(DEFAULT_MODE) {
        return HashSet::new();
    }
    let most = table.properties().get("write.metadata.metrics.max-inferred-column-defaults");
    let most = most.and_then(|most| most.trim().parse().ok()).unwrap_or(100);
    let mut leaves = Vec::new();
    for field in table.current_schema().as_struct().fields() {
        leaves_of(field, &mut leaves);
    }
    leaves.into_iter().skip(most).collect()
}

/// The ids of the primitive columns in or below a field, in their order.
fn leaves_of(field: &NestedField, leaves: &mut Vec<i32>) {
    match field.field_type.as_ref() {
        Type::Primitive(_) => leaves.push(field.id),
        Type::Struct(inner) => inner.fields().iter().for_each(|field| leaves_of(field, leaves)),
        Type::List(list) => leaves_of(&list.element_field, leaves),
        Type::Map(map) => {
            leaves_of(&map.key_field, leaves);
            leaves_of(&map.value_field, leaves);
        }
    }
}

/// What a data file's manifest entry says about its columns, by field id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileMetrics {
    /// Compressed bytes.
    pub column_sizes: HashMap<i32, u64>,
    /// Values, nulls included.
    pub value_counts: HashMap<i32, u64>,
    /// Nulls.
    pub null_value_counts: HashMap<i32, u64>,
    /// At or below every value.
    pub lower_bounds: HashMap<i32, Datum>,
    /// At or above every value.
    pub upper_bounds: HashMap<i32, Datum>,
    /// Byte offsets of the row groups.
    pub split_offsets: Vec<i64>,
}

impl FileMetrics {
    /// Reads the metrics of a file with the columns of `table`'s current schema off its footer.
    ///
    /// # Errors
    ///
    /// When a statistic is not of its column's type.
    pub fn from_footer(footer: &ParquetMetaData, table: &TableMetadata) -> iceberg::Result<Self> {
        let schema = table.current_schema();
        let unmeasured = unmeasured(table);
        let mut metrics = Self::default();
        let columns = footer.file_metadata().schema_descr().columns();
        for (index, column) in columns.iter().enumerate() {
            let info = column.self_type().get_basic_info();
            if !info.has_id() {
                continue;
            }
            let id = info.id();
            let chunks: Vec<&ColumnChunkMetaData> =
                footer.row_groups().iter().map(|group| group.column(index)).collect();
            let size = chunks.iter().map(|chunk| chunk.compressed_size().unsigned_abs()).sum();
            metrics.column_sizes.insert(id, size);
            let mode = match schema.name_by_field_id(id) {
                Some(name) if !unmeasured.contains(&id) => MetricsMode::of(table.properties(), name),
                Some(name) => MetricsMode::own(table.properties(), name).unwrap_or(MetricsMode::None),
                None => MetricsMode::None,
            };
            // Values below lists and maps repeat: counts of rows mean nothing there.
            if column.max_rep_level() > 0 || mode == MetricsMode::None {
                continue;
            }
            metrics.value_counts.insert(id, chunks.iter().map(|chunk| chunk.num_values().unsigned_abs()).sum());
            let nulls: Option<u64> = chunks.iter().map(|chunk| chunk.statistics()?.null_count_opt()).sum();
            if let Some(nulls) = nulls {
                metrics.null_value_counts.insert(id, nulls);
            }
            if mode == MetricsMode::Counts {
                continue;
            }
            if let Some((lower, upper)) = bounds(&chunks, schema, id)? {
                let cut = |datum: Datum, cut: fn(&str, usize) -> Option<String>| match mode {
                    MetricsMode::Truncate(length) => truncated(datum, length, cut),
                    _ => Some(datum),
                };
                if let Some(lower) = cut(lower, lower_prefix) {
                    metrics.lower_bounds.insert(id, lower);
                }
                if let Some(upper) = cut(upper, upper_prefix) {
                    metrics.upper_bounds.insert(id, upper);
                }
            }
        }
        metrics.split_offsets = split_offsets(footer);
        Ok(metrics)
    }
}

impl FileMetrics {
    /// The beginning of a data file's description: an unsorted Parquet file with these metrics. Path, size, record count
    /// and partition are still to be set.
    pub fn describe(self) -> DataFileBuilder {
        let mut builder = DataFileBuilder::default();
        builder
            .content(DataContentType::Data)
            .file_format(DataFileFormat::Parquet)
            .sort_order_id(0)
            .column_sizes(self.column_sizes)
            .value_counts(self.value_counts)
            .null_value_counts(self.null_value_counts)
            .lower_bounds(self.lower_bounds)
            .upper_bounds(self.upper_bounds)
            .split_offsets(Some(self.split_offsets));
        builder
    }

    /// The metrics of a file of position deletes for one data file: whole bounds, by which readers tell that it is about
    /// no other.
    pub(crate) fn of_position_deletes(footer: &ParquetMetaData, data_file: &str, positions: &[u64]) -> Self {
        let ids = [RESERVED_FIELD_ID_DELETE_FILE_PATH, RESERVED_FIELD_ID_DELETE_FILE_POS];
        let ends = |end: Option<&u64>| {
            let path = (ids[0], Datum::string(data_file));
            let position = end.map(|position| (ids[1], Datum::long(position.cast_signed())));
            std::iter::once(path).chain(position).collect::<HashMap<_, _>>()
        };
        let size = |column: usize| {
            footer.row_groups().iter().map(|group| group.column(column).compressed_size().unsigned_abs()).sum()
        };
        let rows = positions.len() as u64;
        Self {
            column_sizes: HashMap::from([(ids[0], size(0)), (ids[1], size(1))]),
            value_counts: ids.map(|id| (id, rows)).into(),
            null_value_counts: ids.map(|id| (id, 0)).into(),
            lower_bounds: ends(positions.first()),
            upper_bounds: ends(positions.last()),
            split_offsets: split_offsets(footer),
        }
    }
}

fn split_offsets(footer: &ParquetMetaData) -> Vec<i64> {
    let start = |group: &RowGroupMetaData| {
        let starts = group.columns().iter().map(|chunk| chunk.byte_range().0);
        starts.min().and_then(|start| i64::try_from(start).ok())
    };
    footer.row_groups().iter().filter_map(start).collect()
}

/// Lower and upper bound over all row groups; `None` when any of them does not tell.
fn bounds(chunks: &[&ColumnChunkMetaData], schema: &Schema, id: i32) -> iceberg::Result<Option<(Datum, Datum)>> {
    let Some(primitive) = schema.field_by_id(id).and_then(|field| field.field_type.as_primitive_type().cloned()) else {
        return Ok(None);
    };
    let mut merged: Option<(Datum, Datum)> = None;
    for chunk in chunks {
        let Some(statistics) = chunk.statistics() else { return Ok(None) };
        let Some((lower, upper)) = ends(statistics, &primitive)? else {
            if statistics.null_count_opt() == Some(chunk.num_values().unsigned_abs()) {
                continue;
            }
            return Ok(None);
        };
        merged = Some(match merged {
            None => (lower, upper),
            Some((lowest, highest)) => {
                (if lower < lowest { lower } else { lowest }, if upper > highest { upper } else { highest })
            }
        });
    }
    Ok(merged)
}

/// The ends of one chunk as values of the Iceberg type, as far as they can be trusted.
pub(crate) fn ends_of(statistics: &Statistics, primitive: &PrimitiveType) -> Option<(Datum, Datum)> {
    if statistics.is_min_max_deprecated() {
        return None;
    }
    ends(statistics, primitive).ok().flatten()
}

/// The ends of one chunk as values of the Iceberg type; `None` where there are none, or where bounds of the type would
/// mislead (binary: byte order means nothing to a geometry).
fn ends(statistics: &Statistics, primitive: &PrimitiveType) -> iceberg::Result<Option<(Datum, Datum)>> {
    let pair = |lower: Option<Datum>, upper: Option<Datum>| lower.zip(upper);
    Ok(match (statistics, primitive) {
        (Statistics::Boolean(s), PrimitiveType::Boolean) => {
            pair(s.min_opt().map(|v| Datum::bool(*v)), s.max_opt().map(|v| Datum::bool(*v)))
        }
        (Statistics::Int32(s), PrimitiveType::Int) => {
            pair(s.min_opt().map(|v| Datum::int(*v)), s.max_opt().map(|v| Datum::int(*v)))
        }
        (Statistics::Int32(s), PrimitiveType::Date) => {
            pair(s.min_opt().map(|v| Datum::date(*v)), s.max_opt().map(|v| Datum::date(*v)))
        }
        (Statistics::Int32(s), PrimitiveType::Long) => {
            pair(s.min_opt().map(|v| Datum::long(*v)), s.max_opt().map(|v| Datum::long(*v)))
        }
        (Statistics::Int64(s), PrimitiveType::Long) => {
            pair(s.min_opt().map(|v| Datum::long(*v)), s.max_opt().map(|v| Datum::long(*v)))
        }
        (Statistics::Int64(s), PrimitiveType::Timestamp) => {
            pair(s.min_opt().map(|v| Datum::timestamp_micros(*v)), s.max_opt().map(|v| Datum::timestamp_micros(*v)))
        }
        (Statistics::Int64(s), PrimitiveType::Timestamptz) => {
            pair(s.min_opt().map(|v| Datum::timestamptz_micros(*v)), s.max_opt().map(|v| Datum::timestamptz_micros(*v)))
        }
        (Statistics::Int64(s), PrimitiveType::Time) => pair(
            s.min_opt().map(|v| Datum::time_micros(*v)).transpose()?,
            s.max_opt().map(|v| Datum::time_micros(*v)).transpose()?,
        ),
        (Statistics::Float(s), PrimitiveType::Float) => {
            pair(s.min_opt().map(|v| Datum::float(*v)), s.max_opt().map(|v| Datum::float(*v)))
        }
        (Statistics::Float(s), PrimitiveType::Double) => {
            pair(s.min_opt().map(|v| Datum::double(*v)), s.max_opt().map(|v| Datum::double(*v)))
        }
        (Statistics::Double(s), PrimitiveType::Double) => {
            pair(s.min_opt().map(|v| Datum::double(*v)), s.max_opt().map(|v| Datum::double(*v)))
        }
        (Statistics::ByteArray(s), PrimitiveType::String) => {
            let text = |v: &parquet::data_type::ByteArray| v.as_utf8().ok().map(Datum::string);
            pair(s.min_opt().and_then(text), s.max_opt().and_then(text))
        }
        (Statistics::FixedLenByteArray(s), PrimitiveType::Decimal { .. }) => pair(
            s.min_opt().map(|v| decimal(v.data(), primitive)).transpose()?,
            s.max_opt().map(|v| decimal(v.data(), primitive)).transpose()?,
        ),
        (Statistics::Int32(s), PrimitiveType::Decimal { .. }) => pair(
            s.min_opt().map(|v| decimal(&v.to_be_bytes(), primitive)).transpose()?,
            s.max_opt().map(|v| decimal(&v.to_be_bytes(), primitive)).transpose()?,
        ),
        (Statistics::Int64(s), PrimitiveType::Decimal { .. }) => pair(
            s.min_opt().map(|v| decimal(&v.to_be_bytes(), primitive)).transpose()?,
            s.max_opt().map(|v| decimal(&v.to_be_bytes(), primitive)).transpose()?,
        ),
        _ => None,
    })
}

/// A decimal from its unscaled big-endian two's complement.
fn decimal(bytes: &[u8], primitive: &PrimitiveType) -> iceberg::Result<Datum> {
    Datum::try_from_bytes(bytes, primitive.clone())
}

fn truncated(datum: Datum, length: usize, cut: fn(&str, usize) -> Option<String>) -> Option<Datum> {
    match datum.literal() {
        iceberg::spec::PrimitiveLiteral::String(text) => cut(text, length).map(Datum::string),
        _ => Some(datum),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the same shape as `upper_prefix`")]
fn lower_prefix(text: &str, length: usize) -> Option<String> {
    Some(text.chars().take(length).collect())
}

/// The shortest text of at most `length` characters at or above `text`, or none.
fn upper_prefix(text: &str, length: usize) -> Option<String> {
    if text.chars().nth(length).is_none() {
        return Some(text.to_owned());
    }
    let mut prefix: Vec<char> = text.chars().take(length).collect();
    while let Some(last) = prefix.pop() {
        // Surrogates are no characters: step over them.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            prefix.push(next);
            return Some(prefix.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("abc", 3, Some("abc"))]
    #[case("abcd", 3, Some("abd"))]
    #[case("ab\u{10ffff}d", 3, Some("ac"))]
    #[case("a\u{d7ff}b", 2, Some("a\u{e000}"))]
    #[case("\u{10ffff}\u{10ffff}", 1, None)]
    #[case("Zürichsee", 2, Some("Zý"))]
    fn a_cut_upper_bound_is_not_below_its_text(#[case] text: &str, #[case] length: usize, #[case] cut: Option<&str>) {
        let bound = upper_prefix(text, length);
        assert_eq!(bound.as_deref(), cut);
        assert!(bound.is_none_or(|bound| bound.as_str() >= text));
    }

    #[rstest]
    #[case("none", Some(MetricsMode::None))]
    #[case(" COUNTS ", Some(MetricsMode::Counts))]
    #[case("truncate(32)", Some(MetricsMode::Truncate(32)))]
    #[case("truncate(0)", None)]
    #[case("truncate()", None)]
    #[case("most", None)]
    fn metrics_modes_read_as_iceberg_writes_them(#[case] text: &str, #[case] mode: Option<MetricsMode>) {
        assert_eq!(MetricsMode::parse(text), mode);
    }

    /// A table of five columns, one of them a struct of two.
    fn metadata(properties: &[(&str, &str)]) -> TableMetadata {
        let column = |id, name: &str| NestedField::optional(id, name, Type::Primitive(PrimitiveType::Long)).into();
        let inner = Type::Struct(iceberg::spec::StructType::new(vec![column(11, "x"), column(12, "y")]));
        let fields = [column(1, "a"), NestedField::optional(2, "s", inner).into(), column(3, "b"), column(4, "c")];
        let creation = iceberg::TableCreation::builder()
            .name("t".to_owned())
            .location("memory:///t".to_owned())
            .schema(Schema::builder().with_fields(fields).build().unwrap())
            .properties(properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<HashMap<_, _>>())
            .build();
        let builder = iceberg::spec::TableMetadataBuilder::from_table_creation(creation).unwrap();
        builder.build().unwrap().metadata
    }

    #[rstest]
    #[case::not_so_wide(&[], 0)]
    #[case::wider_than_it_says(&[("write.metadata.metrics.max-inferred-column-defaults", "2")], 3)]
    #[case::a_default_is_for_all(
        &[("write.metadata.metrics.max-inferred-column-defaults", "2"), ("write.metadata.metrics.default", "full")],
        0
    )]
    fn of_a_wide_table_only_the_first_columns_have_metrics(
        #[case] properties: &[(&str, &str)],
        #[case] without: usize,
    ) {
        assert_eq!(unmeasured(&metadata(properties)).len(), without);
    }

    #[test]
    fn a_columns_own_mode_wins_over_the_default() {
        let properties = HashMap::from(
            [
                ("write.metadata.metrics.default", "counts"),
                ("write.metadata.metrics.column.id", "full"),
                ("write.metadata.metrics.column.broken", "what"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        assert_eq!(MetricsMode::of(&properties, "id"), MetricsMode::Full);
        assert_eq!(MetricsMode::of(&properties, "name"), MetricsMode::Counts);
        assert_eq!(MetricsMode::of(&properties, "broken"), MetricsMode::Counts);
        assert_eq!(MetricsMode::of(&HashMap::new(), "name"), MetricsMode::Truncate(16));
    }
}
