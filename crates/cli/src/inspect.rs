//! `hexfloe batches` and `hexfloe table show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chrono::{DateTime, SecondsFormat};
use hexfloe_catalog::Access;
use hexfloe_commit::{BatchCommit, Ledger, Refs, history_of, names};
use iceberg::table::Table;
use serde::Serialize;

use crate::arguments::InspectArguments;
use crate::display::counted;
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
    if arguments.branch.is_none() && table.metadata().current_snapshot().is_none() {
        let refs = Refs::of(table.metadata())?;
        let main = format!("table {}: main has no snapshot yet", arguments.table);
        display::say(&match refs.branches.is_empty() {
            true => main,
            false => format!("{main}; there is {}, see --branch", listed(refs.branches.keys())),
        });
    }
    let mut text = row("batch", "rows", "rejected", "committed", "snapshot", "ledger", "source");
    for batch in &batches {
        text.push_str(&row(
            &batch.batch_id,
            &or_dash(batch.rows),
            &or_dash(batch.rejected),
            &or_dash(batch.committed_at.as_ref()),
            &or_dash(batch.snapshot_id),
            if batch.in_ledger { "yes" } else { "no" },
            &or_dash(batch.source.as_ref()),
        ));
    }
    display::print(&text)
}

fn row(batch: &str, rows: &str, rejected: &str, committed: &str, snapshot: &str, ledger: &str, source: &str) -> String {
    format!("{batch:<32}  {rows:>12}  {rejected:>8}  {committed:<24}  {snapshot:>19}  {ledger:<6}  {source}\n")
}

/// Branches in a sentence.
fn listed<'a>(branches: impl Iterator<Item = &'a String>) -> String {
    branches.map(|branch| format!("branch {branch}")).collect::<Vec<_>>().join(", ")
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
    branches: BTreeMap<String, i64>,
    tags: BTreeMap<String, i64>,
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
    let refs = Refs::of(table.metadata())?;
    let show = describe(&arguments.table, &table, branch_of(&arguments), refs);
    if arguments.json {
        return display::json(&show);
    }
    display::print(&show.text())
}

impl Show {
    /// For people: what it is, a word on each line.
    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |word: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{word:<10} {value}");
        };
        line("table", &self.table);
        line("location", &self.location);
        line("metadata", &self.metadata_location);
        line("format", &format!("version {}, {}", self.format_version, counted(self.snapshots as u64, "snapshot")));
        if let (Some(id), Some(at)) = (self.snapshot_id, &self.committed_at) {
            line("current", &format!("snapshot {id} of {at}"));
        }
        for (branch, snapshot) in &self.branches {
            line("branch", &format!("{branch} at snapshot {snapshot}"));
        }
        for (tag, snapshot) in &self.tags {
            line("tag", &format!("{tag} at snapshot {snapshot}"));
        }
        let (rows, files) = (counted(self.rows, "row"), counted(self.data_files, "file"));
        line("holds", &format!("{rows} in {files}, {} bytes", self.bytes));
        line("ledger", &counted(self.ledger_batches as u64, "batch"));
        if !self.partition.is_empty() {
            line("partition", &self.partition.join(", "));
        }
        for (column, record) in &self.derivations {
            line("derived", &format!("{column}: {record}"));
        }
        for column in &self.columns {
            let required = if column.required { ", required" } else { "" };
            line("column", &format!("{} {}{required}", column.name, column.column_type));
        }
        text
    }
}

fn describe(name: &str, table: &Table, branch: &str, refs: Refs) -> Show {
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
        branches: refs.branches,
        tags: refs.tags,
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
        let branches = Refs::of(table.metadata())?.branches;
        return Err(Failure::configuration(match branches.is_empty() {
            true => format!("table {name} has no branch `{branch}`, and no other"),
            false => format!("table {name} has no branch `{branch}`; there is {}", listed(branches.keys())),
        }));
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
            branches: [("audit".to_owned(), 7)].into(),
            tags: [("v1".to_owned(), 8)].into(),
        };
        let expected = concat!(
            r#"{"version":1,"table":"places.cities","uuid":"u","location":"file:///lake","#,
            r#""metadata_location":"file:///lake/m","format_version":2,"snapshot_id":null,"committed_at":null,"#,
            r#""snapshots":0,"rows":0,"data_files":0,"bytes":0,"#,
            r#""columns":[{"id":1,"name":"h3_cell","type":"long","required":false}],"partition":["day(ts)"],"#,
            r#""ledger_batches":0,"derivations":{"h3_cell":{"library":"h3o"}},"properties":{"a":"b"},"#,
            r#""branches":{"audit":7},"tags":{"v1":8}}"#,
        );
        assert_eq!(serde_json::to_string(&show).unwrap(), expected);
    }
}
