use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, FixedSizeListArray, Float32Array,
    Float64Array, Int32Array, Int64Array, LargeStringArray, ListArray, MapBuilder, RecordBatch, StringArray,
    StringBuilder, StringViewArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int32Type, IntervalUnit, Schema};
use hexfloe_batch::{ContentHasher, Sha256Hex};
use proptest::prelude::*;
use rstest::rstest;

fn digest(batches: &[RecordBatch]) -> Sha256Hex {
    let mut hasher = ContentHasher::new(batches[0].schema_ref()).unwrap();
    for batch in batches {
        hasher.update(batch).unwrap();
    }
    hasher.finish()
}

fn of(array: impl Array + 'static) -> Sha256Hex {
    digest(&[RecordBatch::try_from_iter([("c", Arc::new(array) as ArrayRef)]).unwrap()])
}

fn of_ref(array: &ArrayRef) -> Sha256Hex {
    digest(&[RecordBatch::try_from_iter_with_nullable([("c", array.clone(), true)]).unwrap()])
}

fn list(rows: Vec<Option<Vec<Option<&str>>>>) -> ListArray {
    let mut builder = arrow::array::ListBuilder::new(StringBuilder::new());
    for row in rows {
        builder.append_option(row);
    }
    builder.finish()
}

#[test]
fn the_canonical_form_is_the_documented_one() {
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![Some(1), None, Some(-3)])) as ArrayRef),
        ("name", Arc::new(StringArray::from(vec![Some("Ås"), None, Some("")]))),
        ("x", Arc::new(Float64Array::from(vec![1.5, -f64::NAN, -0.0]))),
        ("tags", Arc::new(list(vec![Some(vec![Some("a"), None]), None, Some(vec![])]))),
    ])
    .unwrap();
    // Written down byte by byte in Python.
    assert_eq!(digest(&[batch]).to_string(), "85ee582089b07bb97d9f4650a76ef30454a7574eda17705ee0c60848413dbe64");
}

#[test]
fn text_is_text_however_it_is_held() {
    let plain: ArrayRef =
        Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("a longer text than fits inline")]));
    let expected = of_ref(&plain);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let of_views = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::LargeUtf8));
    let runs = DataType::RunEndEncoded(
        Arc::new(Field::new("run_ends", DataType::Int32, false)),
        Arc::new(Field::new("values", DataType::Utf8, true)),
    );
    for held in [DataType::LargeUtf8, DataType::Utf8View, dictionary, of_views, runs] {
        let array = cast(&plain, &held).unwrap();
        assert_eq!(of_ref(&array), expected, "{held}");
    }
}

#[test]
fn a_null_in_a_dictionary_is_null_whether_key_or_value() {
    let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let by_value = arrow::array::DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0, 1]), values.clone());
    let by_key = arrow::array::DictionaryArray::<Int32Type>::new(Int32Array::from(vec![Some(0), None]), values);
    assert_eq!(of(by_value), of(StringArray::from(vec![Some("a"), None])));
    assert_eq!(of(by_key), of(StringArray::from(vec![Some("a"), None])));
}

#[test]
fn bytes_lists_and_decimals_are_what_they_are_however_they_are_held() {
    let bytes: ArrayRef = Arc::new(arrow::array::BinaryArray::from(vec![Some(b"\x00\xff".as_slice()), None]));
    for held in [DataType::LargeBinary, DataType::BinaryView] {
        assert_eq!(of_ref(&cast(&bytes, &held).unwrap()), of_ref(&bytes), "{held}");
    }

    let lists: ArrayRef = Arc::new(list(vec![Some(vec![Some("a"), None]), None, Some(vec![]), Some(vec![Some("b")])]));
    let element = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
    for held in [
        DataType::LargeList(element("element", DataType::Utf8)),
        DataType::List(element("item", DataType::LargeUtf8)),
        DataType::ListView(element("item", DataType::Utf8)),
        DataType::LargeListView(element("item", DataType::Utf8)),
    ] {
        assert_eq!(of_ref(&cast(&lists, &held).unwrap()), of_ref(&lists), "{held}");
    }

    let decimals: ArrayRef =
        Arc::new(Decimal128Array::from(vec![Some(123), None, Some(-1)]).with_precision_and_scale(9, 2).unwrap());
    for held in [DataType::Decimal32(9, 2), DataType::Decimal64(9, 2), DataType::Decimal256(9, 2)] {
        assert_eq!(of_ref(&cast(&decimals, &held).unwrap()), of_ref(&decimals), "{held}");
    }
}

#[test]
fn a_time_zone_counts_only_as_there_or_not() {
    let instants = || TimestampMicrosecondArray::from(vec![0, -1]);
    assert_eq!(of(instants().with_timezone("UTC")), of(instants().with_timezone("+00:00")));
    assert_ne!(of(instants().with_timezone("UTC")), of(instants()));
}

#[test]
fn every_nan_is_one_and_minus_zero_is_not_zero() {
    let nan = f64::from_bits(0xfff8_0000_0000_1234);
    assert_eq!(of(Float64Array::from(vec![nan])), of(Float64Array::from(vec![f64::NAN])));
    assert_eq!(of(Float32Array::from(vec![-f32::NAN])), of(Float32Array::from(vec![f32::NAN])));
    assert_ne!(of(Float64Array::from(vec![-0.0])), of(Float64Array::from(vec![0.0])));
    assert_ne!(of(Float64Array::from(vec![None])), of(Float64Array::from(vec![f64::NAN])));
}

#[rstest]
#[case::order(of(Int64Array::from(vec![1, 2])), of(Int64Array::from(vec![2, 1])))]
#[case::type_(of(Int64Array::from(vec![1])), of(Int32Array::from(vec![1])))]
#[case::null_is_not_zero(of(Int64Array::from(vec![None])), of(Int64Array::from(vec![0])))]
#[case::null_is_not_empty(of(StringArray::from(vec![None::<&str>])), of(StringArray::from(vec![""])))]
#[case::null_is_not_false(of(BooleanArray::from(vec![None])), of(BooleanArray::from(vec![false])))]
#[case::cut(of(StringArray::from(vec!["ab", "c"])), of(StringArray::from(vec!["a", "bc"])))]
#[case::no_list(of(list(vec![None])), of(list(vec![Some(vec![])])))]
#[case::nested_cut(
    of(list(vec![Some(vec![Some("a")]), Some(vec![Some("b"), Some("c")])])),
    of(list(vec![Some(vec![Some("a"), Some("b")]), Some(vec![Some("c")])]))
)]
#[case::one_row_more(of(StringArray::from(vec![None::<&str>])), of(StringArray::from(vec![None::<&str>; 2])))]
fn what_differs_has_another_digest(#[case] one: Sha256Hex, #[case] other: Sha256Hex) {
    assert_ne!(one, other);
}

#[test]
fn names_count_and_cannot_run_into_each_other() {
    let named = |names: &[&str]| {
        let fields: Vec<_> = names.iter().map(|name| Field::new(*name, DataType::Null, true)).collect();
        ContentHasher::new(&Schema::new(fields)).unwrap().finish()
    };
    let nested = |names: &[&str]| {
        let fields: Vec<_> = names.iter().map(|name| Field::new(*name, DataType::Null, true)).collect();
        ContentHasher::new(&Schema::new(vec![Field::new_struct("s", fields, true)])).unwrap().finish()
    };
    assert_ne!(named(&["a"]), named(&["b"]));
    assert_ne!(named(&["a", "b"]), named(&["b", "a"]));
    assert_ne!(nested(&["a", "b"]), nested(&["a null, 1:b"]));
}

#[test]
fn nullability_and_metadata_do_not_count() {
    let field = Field::new("c", DataType::Int64, false);
    let with = field.clone().with_nullable(true).with_metadata([("k".to_owned(), "v".to_owned())].into());
    let digest = |field| ContentHasher::new(&Schema::new(vec![field])).unwrap().finish();
    assert_eq!(digest(field), digest(with));
}

#[test]
fn a_value_under_a_null_does_not_count() {
    let of_child = |hidden: i64| {
        let child: ArrayRef = Arc::new(Int64Array::from(vec![1, hidden]));
        let fields = vec![Field::new("a", DataType::Int64, true)];
        of(StructArray::new(fields.into(), vec![child], Some(NullBuffer::from(vec![true, false]))))
    };
    assert_eq!(of_child(2), of_child(3));
}

#[test]
fn a_batch_with_other_columns_is_refused_and_adds_nothing() {
    let rows = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let others = RecordBatch::try_from_iter([("a", Arc::new(StringArray::from(vec!["1"])) as ArrayRef)]).unwrap();
    let mut hasher = ContentHasher::new(rows.schema_ref()).unwrap();
    hasher.update(&rows).unwrap();
    assert_eq!(
        hasher.update(&others).unwrap_err().to_string(),
        "the rows changed shape: the first batch has a int64, this one a string; \
         give every batch the same columns and types"
    );
    assert_eq!(hasher.finish(), digest(&[rows]));
}

#[test]
fn a_type_without_a_canonical_form_is_refused_by_name() {
    let interval = Field::new("i", DataType::Interval(IntervalUnit::DayTime), true);
    let error = ContentHasher::new(&Schema::new(vec![Field::new_list("spans", interval, true)])).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("column \"spans\" has type List("), "{message}");
    assert!(message.ends_with("which has no canonical form: cast it, or leave it out"), "{message}");
}

/// Rows with every kind of nesting, made from a seed.
fn rows(seeds: &[u8]) -> RecordBatch {
    let option = |seed: u8| (!seed.is_multiple_of(5)).then_some(seed);
    let ids = Int64Array::from_iter(seeds.iter().map(|&seed| option(seed).map(i64::from)));
    let names: Vec<Option<String>> =
        seeds.iter().map(|&seed| option(seed).map(|seed| "x".repeat(usize::from(seed % 20)))).collect();
    let lists = list(
        seeds
            .iter()
            .map(|&seed| option(seed).map(|seed| vec![Some("e"), None, Some("")][..usize::from(seed % 4)].to_vec()))
            .collect(),
    );
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for &seed in seeds {
        for key in 0..seed % 3 {
            maps.keys().append_value(format!("k{key}"));
            maps.values().append_option(option(seed).map(|seed| seed.to_string()));
        }
        maps.append(!seed.is_multiple_of(7)).unwrap();
    }
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        seeds.iter().map(|&seed| option(seed).map(|seed| vec![Some(i32::from(seed)), option(seed / 2).map(i32::from)])),
        2,
    );
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        seeds.iter().map(|&seed| option(seed).map(|seed| [seed, 0])),
        2,
    )
    .unwrap();
    let names: ArrayRef = Arc::new(StringArray::from(names));
    let inner = StructArray::from(vec![
        (Arc::new(Field::new("id", DataType::Int64, true)), Arc::new(ids.clone()) as ArrayRef),
        (Arc::new(Field::new("name", DataType::Utf8, true)), names.clone()),
    ]);
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("id", Arc::new(ids), true),
        ("name", names, true),
        ("list", Arc::new(lists), true),
        ("map", Arc::new(maps.finish()), true),
        ("pair", Arc::new(pairs), true),
        ("fixed", Arc::new(fixed), true),
        ("struct", Arc::new(inner), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

proptest! {
    #[test]
    fn the_digest_does_not_depend_on_how_the_rows_are_cut(
        seeds in prop::collection::vec(any::<u8>(), 1..40),
        mut cuts in prop::collection::vec(0_usize..40, 0..6),
    ) {
        let whole = rows(&seeds);
        let expected = digest(std::slice::from_ref(&whole));

        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(seeds.len()));
        cuts.extend([0, seeds.len()]);
        cuts.sort_unstable();
        let slices: Vec<_> = cuts.windows(2).map(|pair| whole.slice(pair[0], pair[1] - pair[0])).collect();
        prop_assert_eq!(digest(&slices), expected);

        // The same rows in memory of their own.
        let copies: Vec<_> = cuts.windows(2).map(|pair| rows(&seeds[pair[0]..pair[1]])).collect();
        prop_assert_eq!(digest(&copies), expected);
        prop_assert_eq!(digest(&[concat_batches(whole.schema_ref(), &slices).unwrap()]), expected);
    }

    #[test]
    fn other_rows_have_another_digest(
        one in prop::collection::vec(prop::option::of("[ab]{0,2}"), 0..5),
        other in prop::collection::vec(prop::option::of("[ab]{0,2}"), 0..5),
    ) {
        let same = of(StringArray::from(one.clone())) == of(LargeStringArray::from(other.clone()));
        prop_assert_eq!(same, one == other);
        prop_assert_eq!(of(StringViewArray::from_iter(&one)), of(StringArray::from(one.clone())));
    }
}
