//! Replaces one day of a table, once.
#![expect(clippy::disallowed_methods, reason = "a program takes ids and waits from the system")]

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use async_trait::async_trait;
use hexfloe_batch::{BatchId, Sha256Hex};
use hexfloe_catalog::{Access, CatalogSettings, OpenCatalog, TableDefinition};
use hexfloe_commit::{
    BatchCommit, BatchOutcome, Committer, Environment, FileMetrics, Keys, Locations, OnChangedInput, Replaces,
    WrittenFor,
};
use iceberg::TableIdent;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type, UnboundPartitionSpec};
use parquet::arrow::ArrowWriter;
use uuid::Uuid;

/// Clock, ids and waiting come from the caller; a program would take them from the system.
#[derive(Debug)]
struct Fixed;

#[async_trait]
impl Environment for Fixed {
    fn now_ms(&self) -> i64 {
        1_786_406_400_000
    }

    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn jitter(&self) -> f64 {
        0.5
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let catalog = OpenCatalog::open(&CatalogSettings::embedded(), folder.path(), Access::Create).await?;
    let sales = TableIdent::from_strs(["shop", "sales"])?;

    // Any table would do. This one is made here, empty.
    let column = |id, name: &str, kind| NestedField::optional(id, name, Type::Primitive(kind)).into();
    let fields = [column(1, "run_date", PrimitiveType::Date), column(2, "amount", PrimitiveType::Long)];
    let definition = TableDefinition {
        schema: Schema::builder().with_fields(fields).build()?,
        partition_spec: UnboundPartitionSpec::default(),
        properties: [].into(),
    };
    let table = catalog.create(&sales, &definition, Uuid::new_v4()).await?.table;
    let metadata = table.metadata();

    // A data file with the new rows of the day, and its description.
    let schema = Arc::new(schema_to_arrow_schema(metadata.current_schema())?);
    let day: ArrayRef = Arc::new(StringArray::from(vec!["2026-08-11"; 3]));
    let day = arrow::compute::cast(&day, schema.field(0).data_type())?;
    let amounts: ArrayRef = Arc::new(Int64Array::from(vec![10, 20, 30]));
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), None)?;
    writer.write(&RecordBatch::try_new(schema, vec![day, amounts])?)?;
    let footer = writer.finish()?;
    let path = Locations::of(metadata).data_file(&format!("{}.parquet", Uuid::new_v4()));
    let mut upload = catalog.store().create(&path).await?;
    upload.write(std::mem::take(writer.inner_mut()).into()).await?;
    let size = upload.finish().await?;
    let file = FileMetrics::from_footer(&footer, metadata)?
        .describe()
        .file_path(path)
        .record_count(3)
        .file_size_in_bytes(size)
        .build()?;

    // The slice it replaces, and the id under which that is recorded.
    let run_date: ArrayRef = Arc::new(StringArray::from(vec!["2026-08-11"]));
    let batch = BatchCommit {
        table: sales.clone(),
        branch: BatchCommit::MAIN.to_owned(),
        written_for: WrittenFor::of(metadata),
        batch_id: BatchId::offsets("sales", "2026-08-11", 0, 3)?,
        source: "sales".to_owned(),
        rows: 3,
        rejected: 0,
        content_sha256: Sha256Hex::of("the input"),
        derivation: None,
        records: std::collections::BTreeMap::new(),
        replaces: Replaces::Slice(Keys(RecordBatch::try_from_iter([("run_date", run_date)])?)),
        on_changed_input: OnChangedInput::Replace,
        force: false,
        files: vec![file],
        started_ms: Fixed.now_ms(),
    };
    let committer = Committer::new(catalog.clone(), Arc::new(Fixed));
    assert!(matches!(committer.commit(&batch).await?, BatchOutcome::Committed { .. }));

    // The same again changes nothing.
    assert!(matches!(committer.commit(&batch).await?, BatchOutcome::Skipped { .. }));
    let table = catalog.load(&sales).await?.ok_or("the table is gone")?;
    assert_eq!(table.metadata().snapshots().len(), 1);
    let ledger = &table.metadata().properties()["ingest.completed_batches"];
    assert_eq!(*ledger, format!("[\"{}\"]", batch.batch_id));
    Ok(())
}
