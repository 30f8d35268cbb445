//! A row is in the file whose partition values are those that Iceberg's transforms give for it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use iceberg::spec::{Datum, Literal, PrimitiveType, Transform};
use iceberg::transform::create_transform_function;
use rstest::rstest;

use crate::lake::{Lake, job, partition, rows};

const DAY_US: i64 = 86_400_000_000;

/// One row of each of these, and one with nothing but an id.
fn values() -> Vec<(i64, i32, &'static str, i128, bool)> {
    vec![
        (0, 0, "", 0, false),
        (-1, -1, "a", -1, true),
        (1, 1, "ab", 1, true),
        (-DAY_US, -365, "abcde", -12_345, false),
        (-DAY_US - 1, -366, "Zürich", 12_345, true),
        (-3_600_000_001, 19_000, "日本語の地名", 99_999, false),
        (1_700_000_000_123_456, i32::MAX, "iceberg", -99_999, true),
        (-62_135_596_800_000_000, i32::MIN + 700, "Zürich", -12_340, false),
    ]
}

fn input() -> RecordBatch {
    let values = values();
    // Each three times, and then nulls, so that partitions come back after others.
    let three = || values.iter().chain(&values).chain(&values);
    let count = i64::try_from(values.len() * 3 + 1).unwrap();
    let ids: ArrayRef = Arc::new((0..count).collect::<Int64Array>());
    let times = TimestampMicrosecondArray::from_iter(three().map(|row| Some(row.0)).chain([None]));
    let decimals = Decimal128Array::from_iter(three().map(|row| Some(row.3)).chain([None]));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", ids),
        ("ts", Arc::new(times.clone())),
        ("tz", Arc::new(times.with_timezone("Europe/Oslo"))),
        ("long", Arc::new(three().map(|row| Some(row.0)).chain([None]).collect::<Int64Array>())),
        ("int", Arc::new(three().map(|row| Some(row.1)).chain([None]).collect::<Int32Array>())),
        ("date", Arc::new(three().map(|row| Some(row.1 / 400)).chain([None]).collect::<Date32Array>())),
        ("name", Arc::new(three().map(|row| Some(row.2)).chain([None]).collect::<StringArray>())),
        ("price", Arc::new(decimals.with_precision_and_scale(9, 2).unwrap())),
        ("flag", Arc::new(three().map(|row| Some(row.4)).chain([None]).collect::<BooleanArray>())),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The value of a column in row `id`, as Iceberg has it.
fn datum(column: &str, id: i64) -> Option<Datum> {
    let values = values();
    let index = usize::try_from(id).unwrap();
    if index == values.len() * 3 {
        return None;
    }
    let row = values[index % values.len()];
    Some(match column {
        "ts" => Datum::timestamp_micros(row.0),
        "tz" => Datum::timestamptz_micros(row.0),
        "long" => Datum::long(row.0),
        "int" => Datum::int(row.1),
        "date" => Datum::date(row.1 / 400),
        "name" => Datum::string(row.2),
        "price" => {
            let price = PrimitiveType::Decimal { precision: 9, scale: 2 };
            Datum::try_from_bytes(&row.3.to_be_bytes(), price).unwrap()
        }
        "flag" => Datum::bool(row.4),
        other => panic!("no column {other}"),
    })
}

#[rstest]
#[case("identity", "ts")]
#[case("year", "ts")]
#[case("month", "ts")]
#[case("day", "ts")]
#[case("hour", "ts")]
#[case("day", "tz")]
#[case("hour", "tz")]
#[case("bucket[7]", "tz")]
#[case("identity", "long")]
#[case("bucket[16]", "long")]
#[case("truncate[10]", "long")]
#[case("identity", "int")]
#[case("bucket[16]", "int")]
#[case("truncate[100]", "int")]
#[case("identity", "date")]
#[case("year", "date")]
#[case("month", "date")]
#[case("day", "date")]
#[case("bucket[5]", "date")]
#[case("identity", "name")]
#[case("bucket[16]", "name")]
#[case("truncate[2]", "name")]
#[case("identity", "price")]
#[case("bucket[16]", "price")]
#[case("truncate[50]", "price")]
#[case("identity", "flag")]
#[tokio::test(flavor = "multi_thread")]
async fn each_row_is_where_icebergs_transform_puts_it(#[case] transform: &str, #[case] column: &str) {
    let lake = Lake::new().await;
    let input = input();
    lake.write_parquet("in.parquet", &input, 5);
    let term = if transform == "identity" { column.to_owned() } else { format!("{transform}({column})") };
    lake.run(&job("parquet", "in.parquet", &format!("partition = [\"{term}\"]"))).await.unwrap();

    let function = create_transform_function(&transform.parse::<Transform>().unwrap()).unwrap();
    let mut seen = 0;
    for file in lake.files().await {
        let stored = &file.partition().fields()[0];
        for id in rows(&file).column_by_name("id").unwrap().as_primitive::<Int64Type>().values() {
            let value = datum(column, *id).map(|datum| function.transform_literal(&datum).unwrap().unwrap());
            let expected = value.map(|value| Literal::Primitive(value.literal().clone()));
            assert_eq!(*stored, expected, "row {id}");
            seen += 1;
        }
    }
    assert_eq!(seen, input.num_rows());
    let partitions: std::collections::BTreeSet<String> = lake.files().await.iter().map(partition).collect();
    assert_eq!(partitions.len(), lake.files().await.len(), "a partition has two files");
}

/// Values from Iceberg's specification, so that not only our library is asked about itself.
#[rstest]
#[case("bucket[16](v)", "long", "34", "Int(3)")]
#[case("bucket[16](v)", "string", "iceberg", "Int(9)")]
#[case("truncate[10](v)", "int", "-1", "Int(-10)")]
#[case("truncate[10](v)", "long", "-11", "Long(-20)")]
#[case("truncate[3](v)", "string", "iceberg", "String(\"ice\")")]
#[case("day(v)", "timestamp", "1969-12-31T23:59:59.999999", "Int(-1)")]
#[case("hour(v)", "timestamptz", "1969-12-31T22:59:59Z", "Int(-2)")]
#[case("month(v)", "date", "1969-12-31", "Int(-1)")]
#[case("year(v)", "date", "1969-01-01", "Int(-1)")]
#[case("day(v)", "timestamp", "", "null")]
#[tokio::test(flavor = "multi_thread")]
async fn known_values_are_in_the_partitions_that_the_specification_names(
    #[case] term: &str,
    #[case] data_type: &str,
    #[case] value: &str,
    #[case] expected: &str,
) {
    let lake = Lake::new().await;
    lake.write("in.csv", format!("id,v\n1,{value}\n"));
    let more = format!("partition = [\"{term}\"]\n[source.schema]\nv = \"{data_type}\"");
    lake.run(&job("csv", "in.csv", &more)).await.unwrap();
    let files = lake.files().await;
    assert_eq!(files.iter().map(partition).collect::<Vec<_>>(), [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_fields_make_one_partition_value() {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,zone,name\n1,1,ab\n2,2,ab\n3,1,ac\n4,1,bb\n5,,\n6,1,ax\n");
    lake.run(&job("csv", "in.csv", "partition = [\"zone\", \"truncate[1](name)\"]")).await.unwrap();
    let ids = lake.ids_by_partition().await;
    let expected = [
        ("Long(1)/String(\"a\")", vec![1, 3, 6]),
        ("Long(1)/String(\"b\")", vec![4]),
        ("Long(2)/String(\"a\")", vec![2]),
        ("null/null", vec![5]),
    ];
    assert_eq!(ids, expected.map(|(partition, ids)| (partition.to_owned(), ids)).into());
}
