//! What the manifest says about a file is true of its rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Float32Type, Float64Type};
use iceberg::spec::{DataFile, Datum, PrimitiveLiteral};
use parquet::file::statistics::Statistics;

use crate::lake::{Lake, column, footer, job, longs, rows};
use crate::order::places;

/// Three batches and so, with a memory of one byte, three row groups: the extremes are not in the first.
fn input() -> RecordBatch {
    let count = 40_000_i64;
    let ids = || 0..count;
    let wave = |id: i64| (id * 7_919 % count) - 17_000;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("long", Arc::new(ids().map(|id| (id % 5 != 0).then(|| wave(id))).collect::<Int64Array>())),
        ("int", Arc::new(ids().map(|id| Some(i16::try_from(wave(id)).unwrap())).collect::<arrow::array::Int16Array>())),
        ("flag", Arc::new(ids().map(|id| Some(id > 39_000)).collect::<BooleanArray>())),
        ("date", Arc::new(ids().map(|id| i32::try_from(wave(id)).ok()).collect::<Date32Array>())),
        ("ts", Arc::new(ids().map(|id| Some(wave(id) * 1_000_003)).collect::<TimestampMicrosecondArray>())),
        (
            "double",
            Arc::new(
                ids().map(|id| Some(if id % 100 == 0 { f64::NAN } else { small(wave(id)) })).collect::<Float64Array>(),
            ),
        ),
        ("float", Arc::new(Float32Array::from(vec![f32::NAN; 40_000]))),
        (
            "name",
            Arc::new(ids().map(|id| Some(format!("a name of some length {}", wave(id)))).collect::<StringArray>()),
        ),
        ("bytes", Arc::new(ids().map(|id| Some(id.to_be_bytes())).collect::<BinaryArray>())),
        ("nothing", Arc::new(Int64Array::from(vec![None; 40_000]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn small(value: i64) -> f64 {
    f64::from(i32::try_from(value).unwrap()) / 8.0
}

async fn landed(lake: &Lake, input: &RecordBatch) -> (DataFile, HashMap<String, i32>) {
    lake.write_parquet("in.parquet", input, 40_000);
    lake.force(&job("parquet", "in.parquet", ""), &["limits.memory=\"1\""]).await.unwrap();
    let files = lake.files().await;
    assert_eq!(files.len(), 1);
    let table = lake.table().await.unwrap();
    let fields = table.metadata().current_schema().as_struct().fields().iter();
    (files[0].clone(), fields.map(|field| (field.name.clone(), field.id)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_and_bounds_hold_over_several_row_groups() {
    let lake = Lake::new().await;
    let input = input();
    let (file, ids) = landed(&lake, &input).await;
    assert_eq!(footer(&file).num_row_groups(), 3);
    assert_eq!(file.record_count(), 40_000);
    assert_eq!(file.split_offsets().unwrap().len(), 3);

    for field in input.schema().fields() {
        let (name, id) = (field.name().as_str(), ids[field.name()]);
        let stored = column(&file, name);
        assert_eq!(file.value_counts()[&id], 40_000, "{name}");
        assert_eq!(file.null_value_counts()[&id], stored.null_count() as u64, "{name}");
        assert!(file.column_sizes()[&id] > 0, "{name}");
        let bounds = (file.lower_bounds().get(&id), file.upper_bounds().get(&id));
        match name {
            "bytes" | "float" | "nothing" => assert_eq!(bounds, (None, None), "{name}"),
            "double" => {
                let values = stored.as_primitive::<Float64Type>();
                let numbers = || values.iter().flatten().filter(|value| !value.is_nan());
                let (low, high) = (numbers().fold(f64::MAX, f64::min), numbers().fold(f64::MIN, f64::max));
                assert_eq!(bounds, (Some(&Datum::double(low)), Some(&Datum::double(high))));
            }
            "name" => {
                let values = stored.as_string::<i32>();
                let (low, high) = (values.iter().flatten().min().unwrap(), values.iter().flatten().max().unwrap());
                let PrimitiveLiteral::String(lower) = bounds.0.unwrap().literal() else { panic!("{bounds:?}") };
                let PrimitiveLiteral::String(upper) = bounds.1.unwrap().literal() else { panic!("{bounds:?}") };
                assert!(lower.as_str() <= low && high <= upper.as_str(), "{lower} {upper}");
                assert_eq!((lower.chars().count(), upper.chars().count()), (16, 16));
            }
            _ => {
                let values = longs(&stored);
                let number = |bound: Option<&Datum>| match bound.unwrap().literal() {
                    PrimitiveLiteral::Boolean(value) => i64::from(*value),
                    PrimitiveLiteral::Int(value) => i64::from(*value),
                    PrimitiveLiteral::Long(value) => *value,
                    other => panic!("{other:?}"),
                };
                assert_eq!(number(bounds.0), values.iter().flatten().copied().min().unwrap(), "{name}");
                assert_eq!(number(bounds.1), values.iter().flatten().copied().max().unwrap(), "{name}");
            }
        }
    }
    assert_eq!(file.nan_value_counts()[&ids["double"]], 400);
    assert_eq!(file.nan_value_counts()[&ids["float"]], 40_000);
    assert!(!file.nan_value_counts().contains_key(&ids["long"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_zeros_are_within_the_bounds_of_either() {
    for values in [[0.0, 1.0], [-0.0, -1.0]] {
        let lake = Lake::new().await;
        let array: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        let (file, ids) = landed(&lake, &RecordBatch::try_from_iter([("v", array)]).unwrap()).await;
        // Engines differ in whether -0 is below 0, so the bound has to be outside both.
        let bound = |bounds: &HashMap<i32, Datum>| match bounds[&ids["v"]].literal() {
            PrimitiveLiteral::Double(value) => value.0,
            other => panic!("{other:?}"),
        };
        let (lower, upper) = (bound(file.lower_bounds()), bound(file.upper_bounds()));
        assert!(lower.total_cmp(&-0.0).is_le() && upper.total_cmp(&0.0).is_ge(), "{lower} {upper}");
        let stored = column(&file, "v");
        let stored = stored.as_primitive::<Float64Type>().values().iter().map(|value| value.to_bits());
        assert!(stored.eq(values.iter().map(|value| value.to_bits())), "zeros keep their signs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_nan_has_no_bounds() {
    let lake = Lake::new().await;
    let (file, ids) = landed(&lake, &input()).await;
    let stored = column(&file, "float");
    assert!(stored.as_primitive::<Float32Type>().values().iter().all(|value| value.is_nan()));
    assert!(!file.lower_bounds().contains_key(&ids["float"]) && !file.upper_bounds().contains_key(&ids["float"]));
}

/// The overwrite tells from equal, whole bounds that a file holds nothing but the batch.
#[tokio::test(flavor = "multi_thread")]
async fn the_batch_column_has_whole_and_equal_bounds_in_manifest_and_footer() {
    let lake = Lake::new().await;
    lake.write_parquet("in.parquet", &places(20_000, 4, true), 6_000);
    let job = job("parquet", "in.parquet", "partition = [\"zone\"]");
    let report = lake.force(&job, &["limits.memory=\"1\""]).await.unwrap();
    let id = lake.table().await.unwrap().metadata().current_schema().field_id_by_name("ingest_batch_id").unwrap();
    for file in lake.files().await {
        assert_eq!(file.lower_bounds()[&id], Datum::string(&report.batch_id));
        assert_eq!(file.upper_bounds()[&id], Datum::string(&report.batch_id));
        assert_eq!(file.null_value_counts()[&id], 0);
        let footer = footer(&file);
        for group in footer.row_groups() {
            let chunk =
                group.columns().iter().find(|chunk| chunk.column_descr().self_type().get_basic_info().id() == id);
            let Some(Statistics::ByteArray(statistics)) = chunk.unwrap().statistics() else { panic!("no statistics") };
            assert!(statistics.min_is_exact() && statistics.max_is_exact());
            assert_eq!(statistics.min_opt().unwrap().as_utf8().unwrap(), report.batch_id);
            assert_eq!(statistics.max_opt().unwrap().as_utf8().unwrap(), report.batch_id);
        }
        assert!(
            rows(&file)
                .column_by_name("ingest_batch_id")
                .unwrap()
                .as_string::<i32>()
                .iter()
                .all(|value| value == Some(&report.batch_id))
        );
    }
}
