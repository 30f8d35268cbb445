//! Commits over REST.
//!
//! A request is sent once. What its answer proves is little: proxies time out behind which servers go on, gateways send a
//! request twice and answer with the refusal of the copy, and some servers say 400 when they mean that they do not know.
//! Therefore only two things are taken for certain: an answer of success that holds what was asked for, and the table
//! itself, loaded again.

use async_trait::async_trait;
use iceberg::TableUpdate;
use iceberg::table::Table;
use iceberg_catalog_rest::{CommitTableRequest, CommitTableResponse};
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use uuid::Uuid;

use super::client::{Unanswered, pause};
use super::{Client, RestCatalog};
use crate::{CommitOutcome, CommitPort, CommitRequest, Error};

/// Commits to a REST catalog.
#[derive(Clone, Debug)]
pub struct RestPort {
    catalog: RestCatalog,
}

/// What the table says of a request.
enum Seen {
    /// Its snapshot is there.
    Landed(Box<Table>),
    /// The table is as asked, which others can have done too.
    AsAsked,
    /// It is not there.
    Not,
    /// There is no such table.
    Gone,
}

impl RestPort {
    pub(crate) fn new(catalog: RestCatalog) -> Self {
        Self { catalog }
    }

    fn client(&self) -> &Client {
        &self.catalog.client
    }

    async fn look(&self, request: &CommitRequest) -> Result<Seen, Error> {
        let ident = request.base.identifier();
        let Some(table) = self.catalog.load(ident).await? else { return Ok(Seen::Gone) };
        if table.metadata().uuid() != request.base.metadata().uuid() {
            return Ok(Seen::Not);
        }
        match holds(request, &table) {
            Some(true) => Ok(Seen::Landed(Box::new(table))),
            None if is_as_asked(request, &table) => Ok(Seen::AsAsked),
            _ => Ok(Seen::Not),
        }
    }

    /// The outcome of a request that was refused: the refusal, unless the table says otherwise.
    async fn refused(
        &self,
        request: &CommitRequest,
        reason: String,
        definite: impl FnOnce(String) -> Result<CommitOutcome, Error>,
    ) -> Result<CommitOutcome, Error> {
        match self.look(request).await {
            Ok(Seen::Landed(table)) => Ok(CommitOutcome::Committed(*table)),
            Ok(Seen::Not) => definite(reason),
            Ok(Seen::Gone) => Ok(CommitOutcome::Conflict { reason: format!("the table is gone ({reason})") }),
            Ok(Seen::AsAsked) => {
                let reason = format!("{reason}; the table is as asked, by this request or another");
                Ok(CommitOutcome::Unknown { reason, source: None })
            }
            Err(error) => {
                let reason = format!("{reason}; and the table cannot be loaded to see");
                Ok(CommitOutcome::Unknown { reason, source: Some(Box::new(error)) })
            }
        }
    }
}

/// Whether the table has the request's snapshots; `None` when it adds none.
fn holds(request: &CommitRequest, table: &Table) -> Option<bool> {
    let added = request.updates.iter().filter_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => Some(snapshot.snapshot_id()),
        _ => None,
    });
    let mut added = added.peekable();
    added.peek()?;
    Some(added.all(|id| table.metadata().snapshot_by_id(id).is_some()))
}

/// Whether a request without snapshots would change nothing any more.
fn is_as_asked(request: &CommitRequest, table: &Table) -> bool {
    let metadata = table.metadata();
    let mut builder = metadata.clone().into_builder(None);
    for update in request.updates.iter().cloned() {
        match update.apply(builder) {
            Ok(updated) => builder = updated,
            Err(_) => return false,
        }
    }
    builder.build().is_ok_and(|built| {
        built.metadata.properties() == metadata.properties()
            && built.metadata.current_snapshot_id() == metadata.current_snapshot_id()
            && built.changes.is_empty()
    })
}

#[async_trait]
impl CommitPort for RestPort {
    async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, Error> {
        let base = &request.base;
        let ident = base.identifier();
        let url = self.client().table_url(ident)?;
        let message = CommitTableRequest {
            identifier: Some(ident.clone()),
            requirements: request.requirements.clone(),
            updates: request.updates.clone(),
        };
        let action = format!("commit to table {ident}");
        let body = serde_json::to_vec(&message)
            .map_err(|error| Error::Answer { action: action.clone(), reason: error.to_string() })?;
        let key = self.client().facts.idempotency.then(idempotency_key).flatten();
        let unknown = |reason: String, source: Option<Error>| {
            let source = source.map(|source| Box::new(source) as Box<dyn std::error::Error + Send + Sync>);
            Ok(CommitOutcome::Unknown { reason, source })
        };
        let answer = match self.client().commit(&url, &body, key.as_slice()).await {
            Ok(answer) => answer,
            Err(Unanswered { error, unsent: true }) => return Err(error),
            Err(Unanswered { error, unsent: false }) => {
                return unknown("the catalog did not answer".to_owned(), Some(error));
            }
        };
        let refusal = answer.refused(&action);
        match answer.status {
            status if status.is_success() => {
                let read = answer.json::<CommitTableResponse>(&action);
                match read.and_then(|answer| self.catalog.committed(ident, answer)) {
                    Ok(table)
                        if table.metadata().uuid() == base.metadata().uuid()
                            && holds(request, &table) != Some(false) =>
                    {
                        Ok(CommitOutcome::Committed(table))
                    }
                    Ok(_) => {
                        unknown("the catalog answered with a table that does not hold the commit".to_owned(), None)
                    }
                    Err(error) => unknown("the catalog's answer cannot be read".to_owned(), Some(error)),
                }
            }
            StatusCode::CONFLICT => {
                self.refused(request, refusal.to_string(), |reason| Ok(CommitOutcome::Conflict { reason })).await
            }
            StatusCode::UNAUTHORIZED => {
                self.client().renew(&answer).await;
                let denied = refusal.to_string();
                self.refused(request, denied, |reason| Ok(CommitOutcome::Unknown { reason, source: None })).await
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                if let Some(wait) = answer.retry_after() {
                    pause(wait).await;
                }
                unknown("the catalog is busy".to_owned(), Some(refusal))
            }
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                unknown("the catalog failed".to_owned(), Some(refusal))
            }
            _ => {
                let reason = refusal.to_string();
                self.refused(request, reason, |_| Err(refusal)).await
            }
        }
    }
}

/// A key that no other request has: one request is one body, and is sent once.
#[expect(clippy::disallowed_methods, reason = "a name of the request on its way, which is written nowhere")]
fn idempotency_key() -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::try_from(Uuid::now_v7().to_string()).ok()?;
    Some((HeaderName::from_static("idempotency-key"), value))
}
