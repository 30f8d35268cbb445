//! Files that cannot stay and cannot simply go: rows deleted by others, older partition specs and schemas, merge-on-read.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema};
use hexfloe_commit::{BatchCommit, BatchOutcome, Error, ErrorKind};
use iceberg::TableUpdate;
use iceberg::spec::{
    DataContentType, DataFile, DataFileBuilder, DataFileFormat, Literal, NestedField, PrimitiveType, Schema, Struct,
    Transform, Type, UnboundPartitionSpec,
};
use parquet::arrow::ArrowWriter;
use rstest::rstest;

use crate::overwriting::{Foreign, assert_totals, foreign_snapshot, position_delete, sorted, unnamed};
use crate::world::{Made, World, committed, rows, rows_in};

/// An equality delete of the rows with these categories; `None` is null.
async fn equality_delete(world: &World, categories: &[Option<&str>], partition: Struct) -> DataFile {
    let id = HashMap::from([("PARQUET:field_id".to_owned(), "2".to_owned())]);
    let schema = Arc::new(ArrowSchema::new(vec![Field::new("category", DataType::Utf8, true).with_metadata(id)]));
    let column: Arc<dyn Array> = Arc::new(StringArray::from(categories.to_vec()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    writer.write(&batch).unwrap();
    let bytes = writer.into_inner().unwrap();
    let location = world.load().await.metadata().location().to_owned();
    let path = format!("{location}/data/equality-{}.parquet", world.environment.next_id());
    let mut upload = world.catalog.store().create(&path).await.unwrap();
    let size = bytes.len() as u64;
    upload.write(bytes.into()).await.unwrap();
    upload.finish().await.unwrap();
    DataFileBuilder::default()
        .content(DataContentType::EqualityDeletes)
        .equality_ids(Some(vec![2]))
        .file_path(path)
        .file_format(DataFileFormat::Parquet)
        .partition(partition)
        .record_count(categories.len() as u64)
        .file_size_in_bytes(size)
        .build()
        .unwrap()
}

fn referencing(delete: &DataFile, data_file: &DataFile) -> DataFile {
    DataFileBuilder::default()
        .content(DataContentType::PositionDeletes)
        .file_path(delete.file_path().to_owned())
        .file_format(DataFileFormat::Parquet)
        .partition(delete.partition().clone())
        .record_count(delete.record_count())
        .file_size_in_bytes(delete.file_size_in_bytes())
        .referenced_data_file(Some(data_file.file_path().to_owned()))
        .build()
        .unwrap()
}

/// The paths of the live delete files.
async fn delete_files(world: &World) -> BTreeSet<String> {
    let live = world.live().await;
    let deletes = live.iter().filter(|entry| entry.content_type() != DataContentType::Data);
    deletes.map(|entry| entry.file_path().to_owned()).collect()
}

#[rstest]
#[case::by_partition(false)]
#[case::by_name(true)]
#[tokio::test]
async fn rows_that_position_deletes_hide_stay_deleted_in_a_rewrite(#[case] by_name: bool) {
    let world = World::new().await;
    let mixed = world.file(&[rows("a", 0..3), rows("b", 3..6)].concat()).await;
    world.stock_append(vec![mixed.clone()]).await;
    // One row of each batch.
    let mut delete = position_delete(&world, &mixed, &[1, 4]).await;
    if by_name {
        delete = referencing(&delete, &mixed);
    }
    foreign_snapshot(&world, Foreign { keep: true, deletes: vec![delete], ..Foreign::default() }).await;
    let outcome = world.commit(&world.batch("a", 10..12).await).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 2, .. }), "the hidden one is none: {outcome:?}");
    assert_eq!(world.rows().await, sorted([rows("b", [3, 5]), rows("a", 10..12)]));
    assert_eq!(delete_files(&world).await, BTreeSet::new(), "it hides nothing any more");
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_delete_file_of_several_data_files_goes_with_the_last_of_them() {
    let world = World::new().await;
    let (one, two) = (world.file(&rows("a", 0..3)).await, world.file(&rows("b", 3..6)).await);
    world.stock_append(vec![one.clone(), two.clone()]).await;
    let delete = crate::overwriting::position_delete_of(&world, &[(&one, &[0]), (&two, &[1])]).await;
    foreign_snapshot(&world, Foreign { keep: true, deletes: vec![delete.clone()], ..Foreign::default() }).await;
    assert_eq!(world.rows().await, sorted([rows("a", [1, 2]), rows("b", [3, 5])]));
    committed(&world.commit(&world.batch("a", 10..12).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows("b", [3, 5]), rows("a", 10..12)]));
    assert_eq!(delete_files(&world).await, BTreeSet::from([delete.file_path().to_owned()]), "b still needs it");
    committed(&world.commit(&world.batch("b", 20..22).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows("a", 10..12), rows("b", 20..22)]));
    assert_eq!(delete_files(&world).await, BTreeSet::new());
    assert_totals(&world).await;
}

#[tokio::test]
async fn equality_deletes_are_applied_and_null_equals_null() {
    let world = World::new().await;
    let columns = [rows_in("x", "a", 0..2), rows_in("y", "a", 2..3), rows_in("x", "b", 3..5), rows_in("y", "b", 5..6)];
    let mixed = world.file(&columns.concat()).await;
    world.stock_append(vec![mixed]).await;
    let deletes = vec![equality_delete(&world, &[Some("x"), None], Struct::empty()).await];
    foreign_snapshot(&world, Foreign { keep: true, deletes, ..Foreign::default() }).await;
    // A younger file is not touched by them.
    world.stock_append(vec![world.file(&[rows_in("x", "a", 6..8), rows_in("x", "b", 8..9)].concat()).await]).await;
    committed(&world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows_in("y", "b", 5..6), rows_in("x", "b", 8..9)]));
    assert_eq!(delete_files(&world).await, BTreeSet::new(), "every file left is younger");
}

#[tokio::test]
async fn equality_deletes_of_one_partition_leave_the_others_alone() {
    let world = World::partitioned().await;
    let (x, y) = (
        world.file(&[rows_in("x", "a", 0..2), rows_in("x", "b", 2..4)].concat()).await,
        world.file(&[rows_in("y", "a", 4..6), rows_in("y", "b", 6..8)].concat()).await,
    );
    world.stock_append(vec![x, y]).await;
    let of_x = Struct::from_iter([Some(Literal::string("x"))]);
    let deletes = vec![equality_delete(&world, &[Some("x"), Some("y")], of_x).await];
    foreign_snapshot(&world, Foreign { keep: true, deletes, ..Foreign::default() }).await;
    committed(&world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap());
    assert_eq!(world.rows().await, rows_in("y", "b", 6..8));
}

#[tokio::test]
async fn a_delete_file_in_another_format_is_refused_by_name_for_a_rewrite_only() {
    let world = World::new().await;
    let mixed = world.file(&[rows("a", 0..2), rows("b", 2..4)].concat()).await;
    let whole = world.file(&rows("c", 4..6)).await;
    world.stock_append(vec![mixed.clone(), whole]).await;
    let delete = DataFileBuilder::default()
        .content(DataContentType::PositionDeletes)
        .file_path(format!("{}-deletes.avro", mixed.file_path()))
        .file_format(DataFileFormat::Avro)
        .record_count(1)
        .file_size_in_bytes(1)
        .build()
        .unwrap();
    foreign_snapshot(&world, Foreign { keep: true, deletes: vec![delete], ..Foreign::default() }).await;
    let before = world.files().await;
    let error = world.commit(&world.batch("a", 10..12).await).await.unwrap_err();
    let message = error.to_string();
    assert!(matches!(&error, Error::CannotRewrite { file, .. } if file == mixed.file_path()), "{message}");
    assert!(message.contains("deletes.avro") && message.contains("not a Parquet file"), "{message}");
    assert_eq!(world.files().await, before, "nothing was left");
    committed(&world.commit(&world.batch("c", 20..22).await).await.unwrap());
    let live: Vec<_> = world.live().await.iter().map(|entry| entry.file_path().to_owned()).collect();
    assert!(live.contains(&mixed.file_path().to_owned()), "{live:?}");
}

/// Moves the table to this partition spec, as other engines do.
async fn set_spec(world: &World, fields: &[(i32, &str, Transform)]) {
    let mut spec = UnboundPartitionSpec::builder();
    for (source, name, transform) in fields {
        spec = spec.add_partition_field(*source, (*name).to_owned(), *transform).unwrap();
    }
    let spec = TableUpdate::AddSpec { spec: spec.build() };
    world.update(vec![spec, TableUpdate::SetDefaultSpec { spec_id: -1 }]).await;
}

#[tokio::test]
async fn a_file_in_an_older_partition_spec_is_rewritten_in_that_spec() {
    let world = World::new().await;
    let mixed = world.file(&sorted([rows("a", 0..2), rows("b", 2..4)])).await;
    world.stock_append(vec![mixed]).await;
    set_spec(&world, &[(2, "category", Transform::Identity)]).await;
    committed(&world.commit(&world.batch("a", 10..12).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows("b", 2..4), rows("a", 10..12)]));
    let specs: BTreeSet<i32> = world.manifests().await.iter().map(|(file, _)| file.partition_spec_id).collect();
    assert_eq!(specs, BTreeSet::from([0, 1]));
    assert_totals(&world).await;
    // And once more from there.
    committed(&world.commit(&BatchCommit { force: true, ..world.batch("b", 20..22).await }).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows("a", 10..12), rows("b", 20..22)]));
    assert_totals(&world).await;
}

fn optional(id: i32, name: &str, kind: PrimitiveType) -> Arc<NestedField> {
    NestedField::optional(id, name, Type::Primitive(kind)).into()
}

async fn set_schema(world: &World, fields: Vec<Arc<NestedField>>) {
    let schema = Schema::builder().with_schema_id(99).with_fields(fields).build().unwrap();
    world.update(vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]).await;
}

#[tokio::test]
async fn a_file_of_an_older_schema_is_rewritten_under_the_current_one() {
    let world = World::new().await;
    world.stock_append(vec![world.file(&sorted([rows("a", 0..2), rows("b", 2..4)])).await]).await;
    // `category` renamed, a column added in front of it.
    set_schema(
        &world,
        vec![
            optional(1, "n", PrimitiveType::Long),
            optional(9, "added", PrimitiveType::Int),
            optional(2, "kind", PrimitiveType::String),
            optional(3, "ingest_batch_id", PrimitiveType::String),
        ],
    )
    .await;
    committed(&world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap());
    let table = world.load().await;
    let scan = table.scan().select(["n", "kind", "added"]).build().unwrap().to_arrow().await.unwrap();
    let batches: Vec<RecordBatch> = futures::TryStreamExt::try_collect(scan).await.unwrap();
    let cells: Vec<(i64, String, bool)> = batches
        .iter()
        .flat_map(|batch| {
            let (numbers, kinds) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
            let added = batch.column(2);
            (0..batch.num_rows()).map(|row| (numbers.value(row), kinds.value(row).to_owned(), added.is_null(row)))
        })
        .collect();
    assert_eq!(cells, [(2, "a".to_owned(), true), (3, "a".to_owned(), true)]);
    assert_eq!(world.live().await.len(), 1);
}

#[tokio::test]
async fn a_column_dropped_and_added_again_does_not_come_back_with_its_old_values() {
    let world = World::new().await;
    world.stock_append(vec![world.file(&sorted([rows("a", 0..2), rows("b", 2..4)])).await]).await;
    let with = |category| {
        vec![optional(1, "n", PrimitiveType::Long), category, optional(3, "ingest_batch_id", PrimitiveType::String)]
    };
    set_schema(&world, with(optional(12, "category", PrimitiveType::String))).await;
    committed(&world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap());
    let table = world.load().await;
    let scan = table.scan().select(["category"]).build().unwrap().to_arrow().await.unwrap();
    let batches: Vec<RecordBatch> = futures::TryStreamExt::try_collect(scan).await.unwrap();
    let nulls: usize = batches.iter().map(|batch| batch.column(0).null_count()).sum();
    assert_eq!(nulls, 2);
}

#[tokio::test]
async fn a_column_that_would_read_as_nothing_is_refused_by_name() {
    let world = World::new().await;
    world.stock_append(vec![world.file(&sorted([rows("a", 0..2), rows("b", 2..4)])).await]).await;
    // No engine may do that, and a reader would show nulls.
    set_schema(
        &world,
        vec![
            optional(1, "n", PrimitiveType::String),
            optional(2, "category", PrimitiveType::String),
            optional(3, "ingest_batch_id", PrimitiveType::String),
        ],
    )
    .await;
    let before = world.files().await;
    let error = world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("its column `n` is stored as Int64, and is Utf8 now"), "{message}");
    assert_eq!(world.files().await, before);
}

#[tokio::test]
async fn merge_on_read_hides_rows_and_leaves_the_file() {
    let made = Made { properties: vec![("write.delete.mode", "merge-on-read".to_owned())], ..Made::default() };
    let world = World::make(Made { partitioned: true, ..made }).await;
    let mixed = world.file(&[rows("a", 0..3), rows("b", 3..5), rows("a", 5..6)].concat()).await;
    world.stock_append(vec![mixed.clone()]).await;
    let outcome = world.commit(&world.batch("a", 10..12).await).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 4, .. }), "{outcome:?}");
    assert_eq!(world.rows().await, sorted([rows("b", 3..5), rows("a", 10..12)]));
    assert_totals(&world).await;
    let live = world.live().await;
    let deletes: Vec<&DataFile> = live
        .iter()
        .map(|entry| entry.data_file())
        .filter(|file| file.content_type() == DataContentType::PositionDeletes)
        .collect();
    assert_eq!(deletes.len(), 1);
    assert_eq!(deletes[0].referenced_data_file().as_deref(), Some(mixed.file_path()));
    assert_eq!((deletes[0].record_count(), deletes[0].sort_order_id()), (4, None));
    assert_eq!(deletes[0].partition(), mixed.partition());
    // The rest of the file goes too: then it is removed with what hides its rows.
    committed(&world.commit(&world.batch("b", 20..22).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([rows("a", 10..12), rows("b", 20..22)]));
    assert_eq!(world.live().await.len(), 2);
    assert_totals(&world).await;
}

#[tokio::test]
async fn rows_that_are_hidden_already_are_not_hidden_again() {
    let made = Made { properties: vec![("write.delete.mode", "merge-on-read".to_owned())], ..Made::default() };
    let world = World::make(made).await;
    let mixed = world.file(&sorted([rows("a", 0..3), rows("b", 3..6), unnamed(6..7)])).await;
    world.stock_append(vec![mixed]).await;
    committed(&world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap());
    let outcome = world.commit(&BatchCommit { force: true, ..world.batch("a", 10..12).await }).await.unwrap();
    assert!(matches!(outcome, BatchOutcome::Committed { replaced_rows: 0, .. }), "{outcome:?}");
    committed(&world.commit(&world.batch_of("b", Vec::new()).await).await.unwrap());
    assert_eq!(world.rows().await, sorted([unnamed(6..7), rows("a", 10..12)]));
    assert_eq!(delete_files(&world).await.len(), 2, "each names its own rows");
    assert_totals(&world).await;
}

#[tokio::test]
async fn a_rewritten_file_follows_the_tables_parquet_properties() {
    let codec = ("write.parquet.compression-codec", "snappy".to_owned());
    let world = World::make(Made { properties: vec![codec], ..Made::default() }).await;
    world.stock_append(vec![world.file(&sorted([rows("a", 0..2), rows("b", 2..4)])).await]).await;
    committed(&world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap());
    let path = world.live().await[0].file_path().to_owned();
    let bytes = world.catalog.store().read(&path).await.unwrap();
    let reader = parquet::file::serialized_reader::SerializedFileReader::new(bytes).unwrap();
    let metadata = parquet::file::reader::FileReader::metadata(&reader);
    assert_eq!(metadata.row_group(0).column(0).compression(), parquet::basic::Compression::SNAPPY);
}

#[tokio::test]
async fn a_parquet_property_that_cannot_be_followed_is_refused_before_a_rewrite() {
    let codec = ("write.parquet.compression-codec", "lz5".to_owned());
    let world = World::make(Made { properties: vec![codec], ..Made::default() }).await;
    world.stock_append(vec![world.file(&sorted([rows("a", 0..2), rows("b", 2..4)])).await]).await;
    let before = world.files().await;
    let error = world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("write.parquet.compression-codec"), "{error}");
    assert_eq!(world.files().await, before);
}

#[tokio::test]
async fn files_go_where_the_table_says() {
    let world = World::new().await;
    let location = world.load().await.metadata().location().to_owned();
    world.set_property("write.data.path", &format!("{location}/elsewhere/")).await;
    world.set_property("write.metadata.path", &format!("{location}/about")).await;
    world.stock_append(vec![world.file(&sorted([rows("a", 0..2), rows("b", 2..4)])).await]).await;
    committed(&world.commit(&world.batch_of("a", Vec::new()).await).await.unwrap());
    let manifests = world.manifests().await;
    assert!(manifests.iter().all(|(file, _)| file.manifest_path.starts_with(&format!("{location}/about/"))));
    let live = world.live().await;
    assert!(live.iter().all(|entry| entry.file_path().starts_with(&format!("{location}/elsewhere/"))), "{live:?}");
    assert_eq!(world.rows().await, rows("b", 2..4));
}

/// The `iceberg` crate would take the values of such a field for null, and a slice of them for empty.
#[tokio::test]
async fn a_table_whose_partition_values_cannot_be_read_is_refused() {
    let world = World::new().await;
    set_spec(&world, &[(2, "v-part", Transform::Identity)]).await;
    let before = world.files().await;
    let batch = world.batch_of("a", Vec::new()).await;
    let error = world.commit(&batch).await.unwrap_err();
    assert!(error.to_string().contains("partition field `v-part`"), "{error}");
    assert_eq!(world.files().await, before, "nothing was written");
}
