//! Types and values of the input, as they arrive in the table.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float16Array,
    Float64Array, Int16Array, Int64Array, ListBuilder, MapBuilder, RecordBatch, StringArray, StringBuilder,
    StructArray, Time64NanosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
    UInt64Array,
};
use arrow::datatypes::{DataType, Decimal128Type, Field, TimestampMicrosecondType};
use hexfloe_ingest::{Error, ErrorKind};
use iceberg::spec::PrimitiveType;
use rstest::rstest;

use crate::lake::{Lake, column, footer, job, longs};

fn one(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([(name, array)]).unwrap()
}

#[rstest]
#[case::small(Arc::new(Int16Array::from(vec![-1])), "int")]
#[case::half(Arc::new(Float16Array::from(vec![half(1.5)])), "float")]
#[case::unsigned(Arc::new(UInt64Array::from(vec![7])), "long")]
#[case::date(Arc::new(Date32Array::from(vec![-1])), "date")]
#[case::time(Arc::new(Time64NanosecondArray::from(vec![1_999])), "time")]
#[case::naive(Arc::new(TimestampSecondArray::from(vec![-1])), "timestamp")]
#[case::zoned(Arc::new(TimestampMillisecondArray::from(vec![-1]).with_timezone("Asia/Tokyo")), "timestamptz")]
#[case::bytes(Arc::new(BinaryArray::from(vec![b"a".as_slice()])), "binary")]
#[case::fixed(Arc::new(FixedSizeBinaryArray::try_from_iter([b"abcd"].into_iter()).unwrap()), "fixed(4)")]
#[case::decimal(Arc::new(Decimal128Array::from(vec![1]).with_precision_and_scale(38, 0).unwrap()), "decimal(38, 0)")]
#[case::dictionary(Arc::new(["a"].into_iter().collect::<arrow::array::DictionaryArray<arrow::datatypes::Int8Type>>()), "string")]
#[tokio::test(flavor = "multi_thread")]
async fn a_column_gets_the_type_that_iceberg_has_for_it(#[case] array: ArrayRef, #[case] expected: &str) {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &one("v", array), 10);
    lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    let table = lake.table().await.unwrap();
    let field = table.metadata().current_schema().field_by_name("v").unwrap().clone();
    assert_eq!(field.field_type.to_string(), expected);
    assert!(!field.required);
    assert_eq!(lake.files().await[0].null_value_counts()[&field.id], 0);
}

fn half(value: f32) -> <arrow::datatypes::Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native {
    use arrow::array::ArrayRef;
    let array: ArrayRef = Arc::new(arrow::array::Float32Array::from(vec![value]));
    let array = arrow::compute::cast(&array, &DataType::Float16).unwrap();
    array.as_primitive::<arrow::datatypes::Float16Type>().value(0)
}

/// Before 1970 numbers are negative, and rounding is still downwards.
#[rstest]
#[case::seconds(Arc::new(TimestampSecondArray::from(vec![Some(-1), None, Some(1)])), [-1_000_000, 1_000_000])]
#[case::milliseconds(Arc::new(TimestampMillisecondArray::from(vec![Some(-1), None, Some(1)])), [-1_000, 1_000])]
#[case::nanoseconds(Arc::new(TimestampNanosecondArray::from(vec![Some(-1), None, Some(1_999)])), [-1, 1])]
#[case::zoned(
    Arc::new(TimestampMillisecondArray::from(vec![Some(-1), None, Some(1)]).with_timezone("America/New_York")),
    [-1_000, 1_000]
)]
#[tokio::test(flavor = "multi_thread")]
async fn times_are_the_same_instants_in_microseconds(#[case] array: ArrayRef, #[case] expected: [i64; 2]) {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &one("ts", array.clone()), 10);
    lake.run(&job("parquet", "in.parquet", "partition = [\"day(ts)\"]")).await.unwrap();
    let mut found = Vec::new();
    for file in lake.files().await {
        let times = column(&file, "ts");
        let DataType::Timestamp(_, zone) = times.data_type() else { panic!("{}", times.data_type()) };
        let DataType::Timestamp(_, zoned) = array.data_type() else { panic!("{}", array.data_type()) };
        assert_eq!(zone.is_some(), zoned.is_some());
        found.extend(times.as_primitive::<TimestampMicrosecondType>().iter());
    }
    found.sort();
    assert_eq!(found, [None, Some(expected[0]), Some(expected[1])]);
}

#[rstest]
#[case(9, 2, -123_456_789)]
#[case(18, 4, -1)]
#[case(38, 0, i128::MAX / 2)]
#[tokio::test(flavor = "multi_thread")]
async fn decimals_keep_their_digits_and_their_bounds(#[case] precision: u8, #[case] scale: i8, #[case] value: i128) {
    let lake = Lake::new().await;
    let array = Decimal128Array::from(vec![Some(value), None, Some(0), Some(127), Some(-129)]);
    lake.write_parquet("in.parquet", &one("d", Arc::new(array.with_precision_and_scale(precision, scale).unwrap())), 2);
    lake.force(&job("parquet", "in.parquet", ""), &["limits.memory=\"1\""]).await.unwrap();
    let files = lake.files().await;
    let stored: Vec<_> = column(&files[0], "d").as_primitive::<Decimal128Type>().iter().collect();
    assert_eq!(stored, [Some(value), None, Some(0), Some(127), Some(-129)]);
    let id = lake.table().await.unwrap().metadata().current_schema().field_id_by_name("d").unwrap();
    let bound = |bounds: &std::collections::HashMap<i32, iceberg::spec::Datum>| match bounds[&id].literal() {
        iceberg::spec::PrimitiveLiteral::Int128(value) => *value,
        other => panic!("{other:?}"),
    };
    assert_eq!(bound(files[0].lower_bounds()), value.min(-129));
    assert_eq!(bound(files[0].upper_bounds()), value.max(127));
    assert!(matches!(files[0].lower_bounds()[&id].data_type(), PrimitiveType::Decimal { .. }));
}

fn nested() -> RecordBatch {
    let mut names = ListBuilder::new(StringBuilder::new());
    names.append_value([Some("Wien"), None, Some("Vienna")]);
    names.append_null();
    names.append_value([None::<&str>; 0]);
    let mut tags = MapBuilder::new(None, StringBuilder::new(), arrow::array::Int64Builder::new());
    tags.keys().append_value("a");
    tags.values().append_value(1);
    tags.keys().append_value("b");
    tags.values().append_null();
    tags.append(true).unwrap();
    tags.append(false).unwrap();
    tags.append(true).unwrap();
    let inner = StructArray::from(vec![
        (
            Arc::new(Field::new("x", DataType::Float64, true)),
            Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("at", DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None), true)),
            Arc::new(TimestampNanosecondArray::from(vec![Some(-1), None, Some(1_500)])) as ArrayRef,
        ),
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("names", Arc::new(names.finish())),
        ("tags", Arc::new(tags.finish())),
        ("inner", Arc::new(inner)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_structs_and_maps_arrive_with_a_field_id_on_every_leaf() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &nested(), 2);
    let job = job("parquet", "in.parquet", "");
    // The second run writes to a table that is there.
    for _ in 0..2 {
        lake.force(&job, &[]).await.unwrap();
        let files = lake.files().await;
        let footer = footer(&files[0]);
        let leaves = footer.file_metadata().schema_descr().columns();
        let ids: BTreeSet<i32> = leaves.iter().map(|leaf| leaf.self_type().get_basic_info().id()).collect();
        assert_eq!((leaves.len(), ids.len()), (7, 7));
        let table = lake.table().await.unwrap();
        for leaf in leaves {
            let id = leaf.self_type().get_basic_info().id();
            let path = leaf.path().string().replace("list.", "").replace("key_value.", "");
            let name = table.metadata().current_schema().name_by_field_id(id).map(str::to_owned);
            assert_eq!(name.as_deref(), Some(path.as_str()));
        }
        assert_eq!(longs(&column(&files[0], "id")), [Some(1), Some(2), Some(3)]);
        let names = column(&files[0], "names");
        let names = names.as_list::<i32>();
        assert!(names.is_null(1) && names.value(2).is_empty());
        assert_eq!(names.value(0).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("Wien"), None, Some("Vienna")]);
        let tags = column(&files[0], "tags");
        assert_eq!(tags.as_map().value(0).column(1).len(), 2);
        assert!(tags.is_null(1));
        let inner = column(&files[0], "inner");
        let at = inner.as_struct().column_by_name("at").unwrap();
        let at: Vec<_> = at.as_primitive::<TimestampMicrosecondType>().iter().collect();
        assert_eq!(at, [Some(-1), None, Some(1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_too_large_for_the_table_is_a_row_that_cannot_be_used() {
    let lake = Lake::new().await;
    let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), Some(u64::MAX), None]));
    lake.write_parquet("in.parquet", &one("v", numbers), 10);
    let job = job("parquet", "in.parquet", "");
    let error = lake.run(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    let message = error.to_string();
    assert!(message.contains("in.parquet, row 2") && message.contains("18446744073709551615"), "{message}");
    assert!(message.contains("long"), "{message}");
    let report = lake.force(&job, &["quality.on_reject=quarantine"]).await.unwrap();
    assert_eq!((report.rows, report.rejected), (2, 1));
    assert_eq!(longs(&column(&lake.files().await[0], "v")), [Some(1), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_too_large_within_a_list_names_file_and_column() {
    let lake = Lake::new().await;
    let mut list = ListBuilder::new(arrow::array::UInt64Builder::new());
    list.append_value([Some(u64::MAX)]);
    lake.write_parquet("in.parquet", &one("v", Arc::new(list.finish())), 10);
    let error = lake.run(&job("parquet", "in.parquet", "")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(matches!(&error, Error::Value { file, column, .. } if file == "in.parquet" && column == "v"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_nothing_but_nulls_is_a_column_of_text() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &one("v", Arc::new(StringArray::from(vec![None::<&str>, None]))), 10);
    lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    let table = lake.table().await.unwrap();
    assert_eq!(table.metadata().current_schema().field_by_name("v").unwrap().field_type.to_string(), "string");
}
