//! The commit port: the one place that sends a commit to a catalog.

use std::fmt::Debug;

use async_trait::async_trait;
use iceberg::table::Table;
use iceberg::{TableRequirement, TableUpdate};

use crate::Error;

/// One commit: what to change, and what must hold for it.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// The table the commit was decided on, freshly loaded. Its metadata location is part of the condition where the
    /// catalog can check it.
    pub base: Table,
    /// What must hold in the catalog when the updates are applied.
    pub requirements: Vec<TableRequirement>,
    /// What to change, all or nothing, in order.
    pub updates: Vec<TableUpdate>,
}

/// What became of a commit. These are outcomes, not errors: each asks for another next step.
#[derive(Debug)]
#[must_use = "an unknown outcome must be reconciled, and a conflict decided again"]
pub enum CommitOutcome<T = Table> {
    /// Applied; the table as it is now, or the tables in the order of their requests.
    Committed(T),
    /// Not applied, for certain, because the table is not what the request was decided on.
    Conflict {
        /// What moved, for people.
        reason: String,
    },
    /// May or may not have been applied, now or later.
    Unknown {
        /// What happened, for people.
        reason: String,
        /// The failure behind it.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

impl<T> CommitOutcome<T> {
    /// The same outcome, with something else in the place of what was committed.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> CommitOutcome<U> {
        match self {
            Self::Committed(committed) => CommitOutcome::Committed(change(committed)),
            Self::Conflict { reason } => CommitOutcome::Conflict { reason },
            Self::Unknown { reason, source } => CommitOutcome::Unknown { reason, source },
        }
    }
}

impl CommitOutcome<Vec<Table>> {
    /// The outcome for the table of a request that was sent alone.
    pub(crate) fn of_one(self) -> CommitOutcome {
        match self.map(|mut tables| tables.pop()) {
            CommitOutcome::Committed(Some(table)) => CommitOutcome::Committed(table),
            CommitOutcome::Committed(None) => {
                CommitOutcome::Unknown { reason: "no table was committed".to_owned(), source: None }
            }
            CommitOutcome::Conflict { reason } => CommitOutcome::Conflict { reason },
            CommitOutcome::Unknown { reason, source } => CommitOutcome::Unknown { reason, source },
        }
    }
}

/// Sends commits to a catalog.
///
/// # Contract
///
/// * **All or nothing.** Either every update is applied in one swap of the table's pointer, or none is.
/// * **Conditioned.** Updates are applied only if every requirement holds at the moment of the swap. An implementation
///   that can compare the pointer itself with the one in [`CommitRequest::base`] does so, and reports any move as a
///   conflict: it never re-bases the request on metadata its caller has not seen.
/// * **Once.** A request that may have reached the catalog is not sent again by the port, nor by anything below it.
/// * **Honest.** [`CommitOutcome::Conflict`] and `Err` mean that nothing was applied and nothing will be. When that is
///   not certain (time-outs, broken connections, server errors, answers that cannot be read) the outcome is
///   [`CommitOutcome::Unknown`].
/// * **Clean.** Metadata files the port itself wrote are removed after a conflict or an `Err`, and left alone after
///   anything else.
///
/// A wrapper (faults, latency, logging) forwards the request unchanged and may only weaken an outcome to `Unknown`.
#[async_trait]
pub trait CommitPort: Debug + Send + Sync {
    /// Sends one commit.
    ///
    /// # Errors
    ///
    /// Only when nothing was applied and nothing will be, for a reason other than a conflict.
    async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, Error>;

    /// Whether a conflict or an `Err` is this port's own certainty, and not only a server's word, which something on the way
    /// may have given in its place while the request goes on. Where it is not, nothing that a request names is removed until
    /// the table has moved on from its base: then the request cannot be applied any more.
    fn is_certain(&self) -> bool {
        true
    }

    /// Whether [`CommitPort::commit_together`] can be expected to work.
    fn commits_together(&self) -> bool {
        false
    }

    /// Sends the commits of several tables, each named once, as one: all of them are applied, or none is. What holds of
    /// [`CommitPort::commit`] holds of it.
    ///
    /// # Errors
    ///
    /// As for [`CommitPort::commit`]; [`Error::NotTogether`] when the catalog cannot do it.
    async fn commit_together(&self, requests: &[CommitRequest]) -> Result<CommitOutcome<Vec<Table>>, Error> {
        let tables = requests.iter().map(|request| request.base.identifier().to_string()).collect();
        Err(Error::NotTogether { tables })
    }

    /// Takes a table out of the catalog if it is still exactly as it was created: its pointer is the one in `created`.
    /// Says whether it did. Files are left alone.
    ///
    /// A port that cannot make the removal conditional does nothing: a table that somebody has committed to meanwhile
    /// must stay.
    ///
    /// # Errors
    ///
    /// When it is not known whether the table was taken out.
    async fn discard(&self, created: &Table) -> Result<bool, Error> {
        let _ = created;
        Ok(false)
    }
}
