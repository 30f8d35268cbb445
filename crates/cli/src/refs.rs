//! `hexfloe table publish`, `hexfloe table drop-branch` and `hexfloe table rollback`.

use hexfloe_catalog::Access;
use hexfloe_commit::{Committer, Dropped, Published, RollBackTo, RolledBack};
use serde::Serialize;

use crate::arguments::{DropBranchArguments, PublishArguments, RollbackArguments};
use crate::display::{counted, say};
use crate::exit::Failure;
use crate::{display, environment, open};

/// What publishing a branch did, as JSON.
#[derive(Serialize)]
struct Publication<'a> {
    version: u32,
    table: &'a str,
    branch: &'a str,
    kept: bool,
    from: Option<i64>,
    to: i64,
    batches: &'a [String],
}

/// What dropping a branch did, as JSON.
#[derive(Serialize)]
struct Removal<'a> {
    version: u32,
    table: &'a str,
    branch: &'a str,
    from: i64,
    batches: &'a [String],
}

/// What a rollback did, as JSON.
#[derive(Serialize)]
struct Rollback<'a> {
    version: u32,
    table: &'a str,
    from: i64,
    to: i64,
    undone: &'a [String],
}

pub(crate) async fn publish(arguments: PublishArguments) -> Result<(), Failure> {
    let PublishArguments { table, branch, keep, catalog, json } = arguments;
    let ident = open::table_ident(&table)?;
    let catalog = open::catalog(catalog.as_deref(), Access::Existing).await?;
    let committer = Committer::new(catalog, environment::system());
    let Published { from, to, batches } = committer.publish(&ident, &branch, keep).await?;
    if json {
        let publication =
            Publication { version: 1, table: &table, branch: &branch, kept: keep, from, to, batches: &batches };
        return display::json(&publication);
    }
    let from = from.map_or_else(|| "no snapshot".to_owned(), |from| format!("snapshot {from}"));
    let branch = if keep { format!("branch {branch}, which is kept") } else { format!("branch {branch}") };
    let number = counted(batches.len() as u64, "batch");
    say(&format!("published {branch}: main of {table} went from {from} to snapshot {to}, {number}"));
    for batch in &batches {
        say(&format!("  batch {batch}"));
    }
    Ok(())
}

pub(crate) async fn drop_branch(arguments: DropBranchArguments) -> Result<(), Failure> {
    let DropBranchArguments { table, branch, catalog, json } = arguments;
    let ident = open::table_ident(&table)?;
    let catalog = open::catalog(catalog.as_deref(), Access::Existing).await?;
    let committer = Committer::new(catalog, environment::system());
    let Dropped { from, batches } = committer.drop_branch(&ident, &branch).await?;
    if json {
        return display::json(&Removal { version: 1, table: &table, branch: &branch, from, batches: &batches });
    }
    let number = counted(batches.len() as u64, "batch");
    say(&format!(
        "dropped branch {branch} of {table}, which was at snapshot {from}, with {number} that main does not have"
    ));
    for batch in &batches {
        say(&format!("  batch {batch}: can be ingested again"));
    }
    Ok(())
}

pub(crate) async fn roll_back(arguments: RollbackArguments) -> Result<(), Failure> {
    let RollbackArguments { table, target, catalog, json } = arguments;
    let to = match (target.to_snapshot, target.before_batch) {
        (Some(id), _) => RollBackTo::Snapshot(id),
        (None, Some(batch)) => RollBackTo::BeforeBatch(batch),
        (None, None) => return Err(Failure::configuration("give --to-snapshot or --before-batch")),
    };
    let ident = open::table_ident(&table)?;
    let catalog = open::catalog(catalog.as_deref(), Access::Existing).await?;
    let committer = Committer::new(catalog, environment::system());
    let RolledBack { from, to, undone } = committer.roll_back(&ident, &to).await?;
    if json {
        return display::json(&Rollback { version: 1, table: &table, from, to, undone: &undone });
    }
    let number = counted(undone.len() as u64, "batch");
    say(&format!("rolled back: main of {table} went from snapshot {from} to snapshot {to}, {number} undone"));
    for batch in &undone {
        say(&format!("  batch {batch}: can be ingested again"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts read these names and types: a change here is a new version.
    #[test]
    fn the_json_of_a_publication_is_version_1() {
        let batches = ["0cc175b9c0f1b6a831c399e269772661".to_owned()];
        let publication = Publication {
            version: 1,
            table: "places.cities",
            branch: "audit",
            kept: false,
            from: None,
            to: 7,
            batches: &batches,
        };
        let expected = concat!(
            r#"{"version":1,"table":"places.cities","branch":"audit","kept":false,"from":null,"to":7,"#,
            r#""batches":["0cc175b9c0f1b6a831c399e269772661"]}"#,
        );
        assert_eq!(serde_json::to_string(&publication).unwrap(), expected);
    }

    #[test]
    fn the_json_of_a_dropped_branch_is_version_1() {
        let batches = ["0cc175b9c0f1b6a831c399e269772661".to_owned()];
        let removal = Removal { version: 1, table: "places.cities", branch: "audit", from: 7, batches: &batches };
        let expected = concat!(
            r#"{"version":1,"table":"places.cities","branch":"audit","from":7,"#,
            r#""batches":["0cc175b9c0f1b6a831c399e269772661"]}"#,
        );
        assert_eq!(serde_json::to_string(&removal).unwrap(), expected);
    }

    #[test]
    fn the_json_of_a_rollback_is_version_1() {
        let undone = ["0cc175b9c0f1b6a831c399e269772661".to_owned()];
        let rollback = Rollback { version: 1, table: "places.cities", from: 7, to: 6, undone: &undone };
        let expected = concat!(
            r#"{"version":1,"table":"places.cities","from":7,"to":6,"#,
            r#""undone":["0cc175b9c0f1b6a831c399e269772661"]}"#,
        );
        assert_eq!(serde_json::to_string(&rollback).unwrap(), expected);
    }
}
