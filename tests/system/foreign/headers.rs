//! Manifests and manifest lists as the reference writes them: Avro names, field ids and header keys, compared with a checked-in
//! description (`tests/fixtures/avro-headers.json`).

use std::collections::BTreeSet;

use hexfloe_tests::{Lake, Value, json};

use super::{Fixture, TABLE};

const DESCRIPTION: &str = include_str!("../../fixtures/avro-headers.json");

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// The header has the described names and keys, and exactly the described fields in their order; optional ones may be there too.
#[track_caller]
fn is_described(header: &Value, description: &Value) {
    assert_eq!(header["record"], description["record"]);
    let keys: BTreeSet<&str> = texts(&header["keys"]).into_iter().collect();
    assert_eq!(keys, texts(&description["keys"]).into_iter().collect());
    let optional = texts(&description["optional_fields"]);
    let mut fields = texts(&header["fields"]);
    fields.retain(|field| !optional.contains(field) && !field.starts_with("data_file.partition."));
    assert_eq!(fields, texts(&description["fields"]));
}

/// All that Hexfloe wrote of the current snapshot.
#[track_caller]
fn headers(lake: &Lake) -> Vec<Value> {
    let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
    let headers = lake.ask("avro_headers", json!({ "table": TABLE }));
    is_described(&headers["manifest_list"], &description["manifest_list"]);
    let manifests = headers["manifests"].as_array().unwrap().clone();
    for manifest in &manifests {
        is_described(manifest, &description["manifest"]);
        assert_eq!(manifest["values"]["format-version"], "2");
    }
    // A null crashes readers that take it for a number.
    let orders = headers["sort_order_ids"].as_array().unwrap();
    assert!(!orders.is_empty() && orders.iter().all(|order| order == 0), "{orders:?}");
    manifests
}

#[test]
fn manifests_of_data_are_as_the_reference_writes_them() {
    let mut fixture = Fixture::new("compacted_by_partition");
    fixture.replay("a");
    let manifests = headers(&fixture.lake);
    assert!(manifests.iter().all(|manifest| manifest["values"]["content"] == "data"));
}

#[test]
fn manifests_of_deletes_are_as_the_reference_writes_them() {
    let mut fixture = Fixture::new("merge_on_read");
    fixture.replay("b");
    let manifests = headers(&fixture.lake);
    let contents: BTreeSet<&str> =
        manifests.iter().map(|manifest| manifest["values"]["content"].as_str().unwrap()).collect();
    assert_eq!(contents, BTreeSet::from(["data", "deletes"]));
}

#[test]
fn files_of_a_table_that_others_sort_are_not_said_to_be_sorted() {
    let mut fixture = Fixture::new("sort_order_set");
    fixture.replay_all();
    headers(&fixture.lake);
}

#[test]
fn partition_values_have_the_types_of_the_reference() {
    let lake = Lake::new();
    let terms =
        json!(["day(ts)", "month(day)", "hour(ts_zoned)", "bucket[4](id)", "truncate[4](name)", "price", "day"]);
    let source = hexfloe_tests::data("spread.parquet");
    let job = hexfloe_tests::POINTS.replace("\"csv\"", "\"parquet\"").replace("points.csv", source.to_str().unwrap());
    lake.write("job.toml", format!("{job}partition = {terms}\n"));
    lake.ingest(&["job.toml", "--set", "source.select=\"SELECT * FROM input LIMIT 20\""]).committed();
    let manifests = headers(&lake);
    let fields = texts(&manifests[0]["fields"]);
    let partition: Vec<&str> = fields.iter().filter_map(|field| field.strip_prefix("data_file.partition.")).collect();
    assert_eq!(
        partition,
        [
            "ts_day #1000: int (date), null by default",
            "day_month #1001: int, null by default",
            "ts_zoned_hour #1002: int, null by default",
            "id_bucket #1003: int, null by default",
            "name_trunc #1004: string, null by default",
            "price #1005: fixed (decimal), null by default",
            "day #1006: int (date), null by default",
        ]
    );
}
