//! `hexfloe batches` and `hexfloe table show`.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat};
use hexfloe_catalog::Access;
use hexfloe_commit::{BatchCommit, Ledger, history_of, names};
use iceberg::table::Table;
use serde::Serialize;

use crate::arguments::InspectArguments;
use crate::exit::Failure;
use crate::{display, open};

#[derive(Serialize)]
struct Batches {
    version: u32,
    table: String,
    batches: Vec<Batch>,
}

#[derive(Serialize)]
struct Batch {
    batch_id: String,
    source: Option<String>,
    rows: Option<u64>,
    rejected: Option<u64>,
    committed_at: Option<String>,
    snapshot_id: Option<i64>,
    in_ledger: bool,
}

pub(crate) async fn batches(arguments: InspectArguments) -> Result<(), Failure> {
    let table = load(&arguments).await?;
    let batches: Vec<Batch> = history_of(table.metadata(), branch_of(&arguments))
        .into_iter()
        .map(|record| {
            let snapshot = record.snapshot.as_ref();
            Batch {
                source: snapshot.and_then(|snapshot| snapshot.source.clone()),
                rows: snapshot.and_then(|snapshot| snapshot.rows),
                rejected: snapshot.and_then(|snapshot| snapshot.rejected),
                committed_at: snapshot.map(|snapshot| timestamp(snapshot.committed_ms)),
                snapshot_id: snapshot.map(|snapshot| snapshot.snapshot_id),
                in_ledger: record.in_ledger,
                batch_id: record.batch_id,
            }
        })
        .collect();
    if arguments.json {
        return display::json(&Batches { version: 1, table: arguments.table, batches });
    }
    println!("{:<32}  {:>12}  {:>8}  {:<20}  {:<6}  source", "batch", "rows", "rejected", "committed", "ledger");
    for batch in &batches {
        println!(
            "{:<32}  {:>12}  {:>8}  {:<20}  {:<6}  {}",
            batch.batch_id,
            or_dash(batch.rows),
            or_dash(batch.rejected),
            or_dash(batch.committed_at.as_ref()),
            if batch.in_ledger { "yes" } else { "no" },
            or_dash(batch.source.as_ref()),
        );
    }
    Ok(())
}

#[derive(Serialize)]
struct Show {
    version: u32,
    table: String,
    uuid: String,
    location: String,
    metadata_location: String,
    format_version: u8,
    snapshot_id: Option<i64>,
    committed_at: Option<String>,
    snapshots: usize,
    rows: u64,
    data_files: u64,
    bytes: u64,
    columns: Vec<Column>,
    partition: Vec<String>,
    ledger_batches: usize,
    derivations: BTreeMap<String, serde_json::Value>,
    properties: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Column {
    id: i32,
    name: String,
    #[serde(rename = "type")]
    column_type: String,
    required: bool,
}

pub(crate) async fn show(arguments: InspectArguments) -> Result<(), Failure> {
    let table = load(&arguments).await?;
    let show = describe(&arguments.table, &table, branch_of(&arguments));
    if arguments.json {
        return display::json(&show);
    }
    println!("table      {}", show.table);
    println!("location   {}", show.location);
    println!("metadata   {}", show.metadata_location);
    println!("format     version {}, {} snapshots", show.format_version, show.snapshots);
    if let (Some(id), Some(at)) = (show.snapshot_id, &show.committed_at) {
        println!("current    snapshot {id} of {at}");
    }
    println!("holds      {} rows in {} files, {} bytes", show.rows, show.data_files, show.bytes);
    println!("ledger     {} batches", show.ledger_batches);
    if !show.partition.is_empty() {
        println!("partition  {}", show.partition.join(", "));
    }
    for (column, record) in &show.derivations {
        println!("derived    {column}: {record}");
    }
    for column in &show.columns {
        let required = if column.required { ", required" } else { "" };
        println!("column     {} {}{required}", column.name, column.column_type);
    }
    Ok(())
}

fn describe(name: &str, table: &Table, branch: &str) -> Show {
    let metadata = table.metadata();
    let snapshot = metadata.snapshot_for_ref(branch);
    let total = |key: &str| {
        let value = snapshot.and_then(|snapshot| snapshot.summary().additional_properties.get(key)?.parse().ok());
        value.unwrap_or(0)
    };
    let schema = metadata.current_schema();
    let columns = schema.as_struct().fields().iter().map(|field| Column {
        id: field.id,
        name: field.name.clone(),
        column_type: field.field_type.to_string(),
        required: field.required,
    });
    let partition = metadata.default_partition_spec().fields().iter().map(|field| {
        let column = schema.name_by_field_id(field.source_id).unwrap_or("?");
        match field.transform {
            iceberg::spec::Transform::Identity => column.to_owned(),
            transform => format!("{transform}({column})"),
        }
    });
    let derivations = metadata.properties().iter().filter_map(|(key, value)| {
        let column = key.strip_prefix(names::DERIVATION_PREFIX)?;
        Some((column.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.as_str().into())))
    });
    Show {
        version: 1,
        table: name.to_owned(),
        uuid: metadata.uuid().to_string(),
        location: metadata.location().to_owned(),
        metadata_location: table.metadata_location().unwrap_or_default().to_owned(),
        format_version: metadata.format_version() as u8,
        snapshot_id: snapshot.map(|snapshot| snapshot.snapshot_id()),
        committed_at: snapshot.map(|snapshot| timestamp(snapshot.timestamp_ms())),
        snapshots: metadata.snapshots().len(),
        rows: total("total-records"),
        data_files: total("total-data-files"),
        bytes: total("total-files-size"),
        columns: columns.collect(),
        partition: partition.collect(),
        ledger_batches: Ledger::of_branch(metadata, branch).ids().len(),
        derivations: derivations.collect(),
        properties: metadata.properties().clone().into_iter().collect(),
    }
}

fn branch_of(arguments: &InspectArguments) -> &str {
    arguments.branch.as_deref().unwrap_or(BatchCommit::MAIN)
}

async fn load(arguments: &InspectArguments) -> Result<Table, Failure> {
    let name = &arguments.table;
    let ident = open::table_ident(name)?;
    let catalog = open::catalog(arguments.catalog.as_deref(), Access::Existing).await?;
    let table = catalog.load(&ident).await?;
    let table = table
        .ok_or_else(|| Failure::configuration(format!("there is no table {name} in the catalog {}", catalog.name())))?;
    if let Some(branch) = &arguments.branch
        && branch != BatchCommit::MAIN
        && table.metadata().snapshot_for_ref(branch).is_none()
    {
        return Err(Failure::configuration(format!("table {name} has no branch `{branch}`")));
    }
    Ok(table)
}

fn timestamp(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms)
        .map_or_else(|| ms.to_string(), |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts read these names and types: a change here is a new version.
    #[test]
    fn the_json_of_batches_is_version_1() {
        let batch = Batch {
            batch_id: "0cc175b9c0f1b6a831c399e269772661".to_owned(),
            source: Some("geonames".to_owned()),
            rows: Some(1),
            rejected: None,
            committed_at: Some(timestamp(-1)),
            snapshot_id: Some(7),
            in_ledger: true,
        };
        let batches = Batches { version: 1, table: "places.cities".to_owned(), batches: vec![batch] };
        let expected = concat!(
            r#"{"version":1,"table":"places.cities","batches":[{"batch_id":"0cc175b9c0f1b6a831c399e269772661","#,
            r#""source":"geonames","rows":1,"rejected":null,"committed_at":"1969-12-31T23:59:59.999Z","#,
            r#""snapshot_id":7,"in_ledger":true}]}"#,
        );
        assert_eq!(serde_json::to_string(&batches).unwrap(), expected);
    }

    #[test]
    fn the_json_of_a_table_is_version_1() {
        let show = Show {
            version: 1,
            table: "places.cities".to_owned(),
            uuid: "u".to_owned(),
            location: "file:///lake".to_owned(),
            metadata_location: "file:///lake/m".to_owned(),
            format_version: 2,
            snapshot_id: None,
            committed_at: None,
            snapshots: 0,
            rows: 0,
            data_files: 0,
            bytes: 0,
            columns: vec![Column {
                id: 1,
                name: "h3_cell".to_owned(),
                column_type: "long".to_owned(),
                required: false,
            }],
            partition: vec!["day(ts)".to_owned()],
            ledger_batches: 0,
            derivations: [("h3_cell".to_owned(), serde_json::json!({"library": "h3o"}))].into(),
            properties: [("a".to_owned(), "b".to_owned())].into(),
        };
        let expected = concat!(
            r#"{"version":1,"table":"places.cities","uuid":"u","location":"file:///lake","#,
            r#""metadata_location":"file:///lake/m","format_version":2,"snapshot_id":null,"committed_at":null,"#,
            r#""snapshots":0,"rows":0,"data_files":0,"bytes":0,"#,
            r#""columns":[{"id":1,"name":"h3_cell","type":"long","required":false}],"partition":["day(ts)"],"#,
            r#""ledger_batches":0,"derivations":{"h3_cell":{"library":"h3o"}},"properties":{"a":"b"}}"#,
        );
        assert_eq!(serde_json::to_string(&show).unwrap(), expected);
    }
}
