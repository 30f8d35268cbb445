//! What others were told of batches that landed, so that each is told once.
//!
//! A table property for each batch says that it was told, and of which content. It is written after the telling, by a commit
//! of its own that touches neither snapshots nor the ledger: a crash between the two has the batch told again, under the same
//! key. There is one property for each batch, and not a list of all, because catalogs apply changes of properties one by one:
//! writers at the same time would erase each other's entries in a list. What the ledger has forgotten is forgotten here too.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hexfloe_batch::Sha256Hex;
use hexfloe_catalog::{CommitOutcome, CommitRequest};
use iceberg::spec::{MAIN_BRANCH, TableMetadata};
use iceberg::table::Table;
use iceberg::{TableIdent, TableRequirement, TableUpdate};
use uuid::Uuid;

use crate::history::newest_of;
use crate::ledger::{Ledger, ancestry};
use crate::retry::Backoff;
use crate::{Committer, Error, names};

/// That a batch has landed, as it is told to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The table.
    pub table: TableIdent,
    /// Its uuid: a table that is made anew under an old name is another one.
    pub uuid: Uuid,
    /// The branch the batch is on.
    pub branch: String,
    /// The batch.
    pub batch_id: String,
    /// The digest of its input.
    pub content_sha256: Sha256Hex,
    /// The snapshot it is in, where that is known.
    pub snapshot_id: Option<i64>,
}

impl Notice {
    /// By which a receiver knows that it has the message already: the same for every repetition, and another for another
    /// content of the batch, another branch or another table.
    ///
    /// It is the SHA-256 of `<table uuid>:<branch>:<batch id>:<content digest>`.
    pub fn key(&self) -> Sha256Hex {
        let Self { uuid, branch, batch_id, content_sha256, .. } = self;
        Sha256Hex::of(format!("{uuid}:{branch}:{batch_id}:{content_sha256}"))
    }

    /// Whether the table says that this was told. It does not when the batch was undone since, as by a rollback, and came again.
    ///
    /// Where the table does not tell the content of the batch any more, what was told of it is taken for that.
    pub fn is_recorded_in(&self, metadata: &TableMetadata) -> bool {
        let Some(record) = Record::of(metadata, &self.property()) else { return false };
        let same = record.content == self.content_sha256 || !self.content_is_told_by(metadata);
        same && record.holds_on(metadata, &self.branch)
    }

    /// Whether there is such a branch, and its ledger has the batch. Of other batches nothing says whether they were told.
    pub fn is_in_ledger_of(&self, metadata: &TableMetadata) -> bool {
        let is_there = metadata.snapshot_for_ref(&self.branch).is_some();
        is_there && Ledger::of_branch(metadata, &self.branch).contains(&self.batch_id)
    }

    fn content_is_told_by(&self, metadata: &TableMetadata) -> bool {
        let newest = newest_of(metadata, &self.branch, &self.batch_id);
        newest.is_some_and(|(_, batch)| batch.content_sha256.is_some())
    }

    fn property(&self) -> String {
        names::notified(&self.batch_id, &self.branch)
    }

    /// The value of the property.
    fn record(&self) -> String {
        match self.snapshot_id {
            Some(snapshot_id) => format!("{}@{snapshot_id}", self.content_sha256),
            None => self.content_sha256.to_string(),
        }
    }

    /// Whether the table holds exactly what is to be written.
    fn is_written_in(&self, table: &Table) -> bool {
        table.metadata().properties().get(&self.property()) == Some(&self.record())
    }

    fn request(&self, base: Table) -> CommitRequest {
        let own = self.property();
        let metadata = base.metadata();
        let mut updates = vec![TableUpdate::SetProperties { updates: HashMap::from([(own.clone(), self.record())]) }];
        let removals: Vec<String> = forgotten(metadata).into_iter().filter(|property| *property != own).collect();
        if !removals.is_empty() {
            updates.push(TableUpdate::RemoveProperties { removals });
        }
        let requirements = vec![TableRequirement::UuidMatch { uuid: metadata.uuid() }];
        CommitRequest { base, requirements, updates }
    }

    fn unrecorded(&self, reason: String, source: Option<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Unrecorded { table: self.table.to_string(), batch_id: self.batch_id.clone(), reason, source }
    }
}

/// What a property says.
struct Record {
    content: Sha256Hex,
    snapshot_id: Option<i64>,
}

impl Record {
    /// A value that cannot be read says nothing.
    fn of(metadata: &TableMetadata, property: &str) -> Option<Self> {
        let value = metadata.properties().get(property)?;
        let (content, snapshot_id) = match value.split_once('@') {
            None => (value.as_str(), None),
            Some((content, snapshot_id)) => (content, Some(snapshot_id.parse().ok()?)),
        };
        Some(Self { content: content.parse().ok()?, snapshot_id })
    }

    /// Whether the landing that was told is in the line of the branch. Of a snapshot that is not retained that is believed: an
    /// old one expires, and a rollback takes its records with it.
    fn holds_on(&self, metadata: &TableMetadata, branch: &str) -> bool {
        let retained = self.snapshot_id.filter(|id| metadata.snapshot_by_id(*id).is_some());
        retained.is_none_or(|id| ancestry(metadata, branch).any(|snapshot| snapshot.snapshot_id() == id))
    }
}

/// The properties of a table that say what was told, as property, batch id and branch. Ids have no point in them.
fn recorded(metadata: &TableMetadata) -> impl Iterator<Item = (&String, &str, &str)> {
    metadata.properties().keys().filter_map(|property| {
        let rest = property.strip_prefix(names::NOTIFIED_PREFIX)?;
        let (batch_id, branch) = rest.split_once('.').unwrap_or((rest, MAIN_BRANCH));
        Some((property, batch_id, branch))
    })
}

/// The properties of a branch that say what was told of batches that `ledger` does not list.
pub(crate) fn recorded_besides(metadata: &TableMetadata, branch: &str, ledger: &Ledger) -> Vec<String> {
    let listed: HashSet<&str> = ledger.ids().iter().map(String::as_str).collect();
    let of_branch = recorded(metadata).filter(|(_, _, recorded_of)| *recorded_of == branch);
    let besides = of_branch.filter(|(_, batch_id, _)| !listed.contains(batch_id));
    let mut properties: Vec<String> = besides.map(|(property, _, _)| property.clone()).collect();
    properties.sort_unstable();
    properties
}

/// The properties that are needed no more: of batches that the ledger of their branch does not list, and of branches that are
/// gone.
fn forgotten(metadata: &TableMetadata) -> Vec<String> {
    let mut branches: Vec<&str> = recorded(metadata).map(|(_, _, branch)| branch).collect();
    branches.sort_unstable();
    branches.dedup();
    let ledger = |branch: &str| match metadata.snapshot_for_ref(branch) {
        Some(_) => Ledger::of_branch(metadata, branch),
        None => Ledger::default(),
    };
    branches.into_iter().flat_map(|branch| recorded_besides(metadata, branch, &ledger(branch))).collect()
}

impl Committer {
    /// Writes into the table that this was told, and removes what was written of batches that the ledger has forgotten.
    ///
    /// It is decided on every attempt from a freshly loaded table, and changes no snapshot, branch or ledger. That it was told
    /// does not depend on it: on an error the next process tells it again, under the same key.
    ///
    /// # Errors
    ///
    /// [`Error::Unrecorded`] when others kept changing the table, or the catalog's answers are lost and the table does not show
    /// it; [`Error::Changed`] when the table is another one by now.
    pub async fn record_notice(&self, notice: &Notice) -> Result<(), Error> {
        let _announced = self.announce(&notice.table);
        let (mut conflicts, mut unknowns, mut waited) = (0_u32, 0_u32, Duration::ZERO);
        let mut properties = HashMap::new();
        loop {
            let (reason, source, denied) = match self.load_table(&notice.table).await {
                Ok(table) if table.metadata().uuid() != notice.uuid => {
                    return Err(Error::Changed {
                        table: notice.table.to_string(),
                        what: "its uuid".to_owned(),
                        sent: true,
                    });
                }
                Ok(table) if notice.is_written_in(&table) => return Ok(()),
                Ok(table) => {
                    properties.clone_from(table.metadata().properties());
                    match self.send_notice(notice, table).await? {
                        CommitOutcome::Committed(table) if notice.is_written_in(&table) => return Ok(()),
                        CommitOutcome::Committed(_) => {
                            ("the catalog said committed, and its table does not show it".to_owned(), None, false)
                        }
                        CommitOutcome::Conflict { reason } => (reason, None, true),
                        CommitOutcome::Unknown { reason, source } => (reason, source, false),
                    }
                }
                // A request is on the way: the table may show it when it can be read again.
                Err(error) if conflicts + unknowns > 0 => (error.to_string(), Some(error.into()), false),
                Err(error) => return Err(error),
            };
            let (backoff, tries) = match denied {
                true => (Backoff::for_conflicts(&properties), &mut conflicts),
                false => (Backoff::for_status_checks(&properties), &mut unknowns),
            };
            *tries += 1;
            let Some(wait) = backoff.wait(*tries, waited, self.environment().jitter()) else {
                return match self.load_table(&notice.table).await {
                    Ok(table) if notice.is_written_in(&table) => Ok(()),
                    _ => Err(notice.unrecorded(reason, source)),
                };
            };
            self.environment().sleep(wait).await;
            waited = waited.saturating_add(wait);
        }
    }

    /// Sends the request. An error is believed only if the table does not show otherwise.
    async fn send_notice(&self, notice: &Notice, table: Table) -> Result<CommitOutcome, Error> {
        match self.catalog().port().commit(&notice.request(table)).await {
            Ok(outcome) => Ok(outcome),
            Err(error) => match self.load_table(&notice.table).await {
                Ok(table) if notice.is_written_in(&table) => Ok(CommitOutcome::Committed(table)),
                _ => Err(error.into()),
            },
        }
    }
}
