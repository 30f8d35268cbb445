//! Writing to a table that is there: whose columns fit, in any order, or do not.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray};
use hexfloe_catalog::TableDefinition;
use hexfloe_ingest::{ErrorKind, Status};
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type, UnboundPartitionSpec};
use rstest::rstest;
use uuid::Uuid;

use crate::lake::{Lake, column, job, longs, places};

/// A table somebody else made: `name: type`, with `!` for a column that is required.
pub(crate) fn definition(columns: &[(&str, PrimitiveType)]) -> TableDefinition {
    let fields = columns.iter().zip(1..).map(|((name, data_type), id)| {
        let required = name.ends_with('!');
        Arc::new(NestedField::new(id, name.trim_end_matches('!'), Type::Primitive(data_type.clone()), required))
    });
    TableDefinition {
        schema: Schema::builder().with_fields(fields).build().unwrap(),
        partition_spec: UnboundPartitionSpec::default(),
        properties: HashMap::new(),
    }
}

pub(crate) async fn make(lake: &Lake, columns: &[(&str, PrimitiveType)]) {
    lake.catalog.create(&places(), &definition(columns), Uuid::from_u128(77)).await.unwrap();
}

const BATCH: (&str, PrimitiveType) = ("ingest_batch_id!", PrimitiveType::String);

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).unwrap()
}

fn id_and_name() -> RecordBatch {
    rows(vec![
        ("id", Arc::new(Int64Array::from(vec![1, 2]))),
        ("name", Arc::new(StringArray::from(vec![Some("Wien"), None]))),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_go_by_name_whatever_their_order() {
    let lake = Lake::new().await;
    make(&lake, &[("name", PrimitiveType::String), BATCH, ("id", PrimitiveType::Long)]).await;
    lake.write_parquet("in.parquet", &id_and_name(), 10);
    let report = lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    assert_eq!((report.status, report.rows), (Status::Committed, 2));
    let stored = crate::lake::rows(&lake.files().await[0]);
    let names: Vec<_> = stored.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["name", "ingest_batch_id", "id"]);
    assert_eq!(longs(stored.column(2)), [Some(1), Some(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_optional_column_the_source_lacks_is_null() {
    let lake = Lake::new().await;
    make(&lake, &[("id", PrimitiveType::Long), ("extra", PrimitiveType::Date), ("name", PrimitiveType::String), BATCH])
        .await;
    lake.write_parquet("in.parquet", &id_and_name(), 10);
    lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    assert_eq!(column(&lake.files().await[0], "extra").null_count(), 2);
}

#[rstest]
#[case::int(Arc::new(Int32Array::from(vec![7])), PrimitiveType::Long)]
#[case::float(Arc::new(Float32Array::from(vec![7.0])), PrimitiveType::Double)]
#[case::decimal(
    Arc::new(arrow::array::Decimal128Array::from(vec![700]).with_precision_and_scale(9, 2).unwrap()),
    PrimitiveType::Decimal { precision: 20, scale: 2 }
)]
#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_holds_every_value_is_widened_to(#[case] array: ArrayRef, #[case] data_type: PrimitiveType) {
    let lake = Lake::new().await;
    make(&lake, &[("v", data_type), BATCH]).await;
    lake.write_parquet("in.parquet", &rows(vec![("v", array)]), 10);
    lake.run(&job("parquet", "in.parquet", "")).await.unwrap();
    assert_eq!(longs(&column(&lake.files().await[0], "v")), [Some(7)]);
}

#[rstest]
#[case::narrower(&[("id", PrimitiveType::Int), ("name", PrimitiveType::String), BATCH], "column `id` is long in the source and int")]
#[case::another_type(&[("id", PrimitiveType::Long), ("name", PrimitiveType::Long), BATCH], "column `name`")]
#[case::source_has_more(&[("id", PrimitiveType::Long), BATCH], "the source has a column `name`, and the table has none")]
#[case::table_requires_more(
    &[("id", PrimitiveType::Long), ("name", PrimitiveType::String), ("more!", PrimitiveType::Int), BATCH],
    "the table requires a column `more`"
)]
#[case::no_batch_column(&[("id", PrimitiveType::Long), ("name", PrimitiveType::String)], "ingest_batch_id")]
#[case::batch_column_of_numbers(
    &[("id", PrimitiveType::Long), ("name", PrimitiveType::String), ("ingest_batch_id!", PrimitiveType::Long)],
    "ingest_batch_id"
)]
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_by_name_before_anything_is_written(
    #[case] columns: &[(&str, PrimitiveType)],
    #[case] message: &str,
) {
    let lake = Lake::new().await;
    make(&lake, columns).await;
    lake.write_parquet("in.parquet", &id_and_name(), 10);
    let error = lake.run(&job("parquet", "in.parquet", "")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!((lake.snapshots().await, lake.on_disk("/data/")), (0, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_null_in_a_required_column_is_a_rejected_row() {
    let lake = Lake::new().await;
    make(&lake, &[("id", PrimitiveType::Long), ("name!", PrimitiveType::String), BATCH]).await;
    lake.write_parquet("in.parquet", &id_and_name(), 10);
    let job = job("parquet", "in.parquet", "");
    let error = lake.run(&job).await.unwrap_err();
    assert!(error.to_string().contains("in.parquet, row 2") && error.to_string().contains("name"), "{error}");
    let report = lake.force(&job, &["quality.on_reject=quarantine"]).await.unwrap();
    assert_eq!((report.rows, report.rejected), (1, 1));
}

const CELLS: &str = "[geometry]\nlat = \"lat\"\nlon = \"lon\"\nstore = \"wkb\"\n[h3]\nresolution = 5\nparents = [1]";

#[rstest]
#[case("h3_cell")]
#[case("h3_cell_r1")]
#[case("geometry")]
#[case("ingest_batch_id")]
#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_the_source_never_gives_way_to_one_that_the_job_adds(#[case] name: &str) {
    let lake = Lake::new().await;
    let job = job("csv", "in.csv", CELLS);
    lake.write("in.csv", format!("id,lat,lon,{name}\n1,2,3,4\n"));
    let error = lake.run(&job).await.unwrap_err();
    assert!(error.to_string().contains(&format!("has a column `{name}` already")), "{error}");
    assert!(lake.table().await.is_none());

    // The same once the table has that column.
    lake.write("in.csv", "id,lat,lon\n1,2,3\n");
    lake.run(&job).await.unwrap();
    lake.write("in.csv", format!("id,lat,lon,{name}\n1,2,3,4\n"));
    let error = lake.run(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains(&format!("has a column `{name}` already")), "{error}");
    assert_eq!(lake.snapshots().await, 1);
}

#[rstest]
#[case::without_cells("id,lat,lon\n9,2,3\n")]
#[case::with_cells_of_its_own("id,lat,lon,h3_cell\n9,2,3,599686042433355775\n")]
#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_cells_does_not_write_where_cells_are_on_record(#[case] input: &str) {
    let lake = Lake::new().await;
    lake.write("in.csv", "id,lat,lon\n1,2,3\n");
    lake.run(&job("csv", "in.csv", "[geometry]\nlat = \"lat\"\nlon = \"lon\"\n[h3]\nresolution = 5")).await.unwrap();
    lake.write("in.csv", input);
    let error = lake.run(&job("csv", "in.csv", "")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("h3_cell") && error.to_string().contains("[h3]"), "{error}");
    assert_eq!(lake.snapshots().await, 1);
}
