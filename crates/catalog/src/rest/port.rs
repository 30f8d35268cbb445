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
use serde::Serialize;
use uuid::Uuid;

use super::client::{Answer, Unanswered, pause};
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

/// What an answer says of a request, before the tables are looked at.
enum Said {
    /// Done.
    Success(Answer),
    /// Whether it was done has to be found out.
    Unknown { reason: String, source: Option<Error> },
    /// It will not be done, if the tables agree: as a conflict, or as an error.
    Refused { error: Error, conflict: bool },
    /// It was not let in: what follows is authenticated anew.
    Denied { error: Error },
}

impl RestPort {
    /// Sends a message to commit.
    ///
    /// # Errors
    ///
    /// When it cannot have arrived.
    async fn send(&self, action: &str, url: &url::Url, message: &impl Serialize) -> Result<Said, Error> {
        let body = serde_json::to_vec(message)
            .map_err(|error| Error::Answer { action: action.to_owned(), reason: error.to_string() })?;
        let key = self.client().facts.idempotency.then(idempotency_key).flatten();
        let answer = match self.client().commit(url, &body, key.as_slice()).await {
            Ok(answer) => answer,
            Err(Unanswered { error, unsent: true }) => return Err(error),
            Err(Unanswered { error, unsent: false }) => {
                return Ok(Said::Unknown { reason: "the catalog did not answer".to_owned(), source: Some(error) });
            }
        };
        if answer.status.is_success() {
            return Ok(Said::Success(answer));
        }
        let error = answer.refused(action);
        // What does not explain itself as the protocol says comes from somebody on the way.
        let explained = matches!(&error, Error::Refused { exception: Some(_), .. });
        Ok(match answer.status {
            StatusCode::CONFLICT if explained => Said::Refused { error, conflict: true },
            StatusCode::UNAUTHORIZED => {
                self.client().renew(&answer).await;
                Said::Denied { error }
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                if let Some(wait) = answer.retry_after() {
                    pause(wait).await;
                }
                Said::Unknown { reason: "the catalog is busy".to_owned(), source: Some(error) }
            }
            StatusCode::BAD_REQUEST
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::UNPROCESSABLE_ENTITY
                if explained =>
            {
                Said::Refused { error, conflict: false }
            }
            _ => Said::Unknown { reason: "the catalog failed".to_owned(), source: Some(error) },
        })
    }

    /// The outcome of an answer that is not one of success: what it says, unless the tables say otherwise.
    async fn settle(&self, requests: &[CommitRequest], said: Said) -> Result<CommitOutcome<Vec<Table>>, Error> {
        let (error, conflict, denied) = match said {
            Said::Unknown { reason, source } => return Ok(unknown(reason, source)),
            Said::Success(_) => return Ok(unknown("the catalog's answer was not looked at".to_owned(), None)),
            Said::Refused { error, conflict } => (error, conflict, false),
            Said::Denied { error } => (error, false, true),
        };
        let mut landed = Vec::new();
        let mut gone = false;
        for request in requests {
            match self.look(request).await {
                Ok(Seen::Landed(table)) => landed.push(*table),
                Ok(Seen::Not) => {}
                Ok(Seen::Gone) => gone = true,
                Ok(Seen::AsAsked) => {
                    let reason = format!("{error}; the table is as asked, by this request or another");
                    return Ok(unknown(reason, None));
                }
                Err(failure) => {
                    return Ok(unknown(format!("{error}; and the table cannot be loaded to see"), Some(failure)));
                }
            }
        }
        if landed.len() == requests.len() {
            return Ok(CommitOutcome::Committed(landed));
        }
        if !landed.is_empty() {
            return Ok(unknown(format!("{error}; and only some of the tables have the commit"), None));
        }
        match (denied, gone, conflict) {
            (true, ..) => Ok(unknown(error.to_string(), None)),
            (false, true, _) => Ok(CommitOutcome::Conflict { reason: format!("the table is gone ({error})") }),
            (false, false, true) => Ok(CommitOutcome::Conflict { reason: error.to_string() }),
            (false, false, false) => Err(error),
        }
    }
}

fn unknown<T>(reason: String, source: Option<Error>) -> CommitOutcome<T> {
    let source = source.map(|source| Box::new(source) as Box<dyn std::error::Error + Send + Sync>);
    CommitOutcome::Unknown { reason, source }
}

fn message(request: &CommitRequest) -> CommitTableRequest {
    CommitTableRequest {
        identifier: Some(request.base.identifier().clone()),
        requirements: request.requirements.clone(),
        updates: request.updates.clone(),
    }
}

/// Commits to several tables, as the protocol has it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct CommitTransactionRequest {
    table_changes: Vec<CommitTableRequest>,
}

#[async_trait]
impl CommitPort for RestPort {
    async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, Error> {
        let base = &request.base;
        let ident = base.identifier();
        let action = format!("commit to table {ident}");
        let said = self.send(&action, &self.client().table_url(ident)?, &message(request)).await?;
        let Said::Success(answer) = said else {
            return Ok(self.settle(std::slice::from_ref(request), said).await?.of_one());
        };
        let read = answer.json::<CommitTableResponse>(&action);
        Ok(match read.and_then(|answer| self.catalog.committed(ident, answer)) {
            Ok(table) if table.metadata().uuid() == base.metadata().uuid() && holds(request, &table) != Some(false) => {
                CommitOutcome::Committed(table)
            }
            Ok(_) => unknown("the catalog answered with a table that does not hold the commit".to_owned(), None),
            Err(error) => unknown("the catalog's answer cannot be read".to_owned(), Some(error)),
        })
    }

    fn is_certain(&self) -> bool {
        false
    }

    fn commits_together(&self) -> bool {
        self.client().commits_together()
    }

    async fn commit_together(&self, requests: &[CommitRequest]) -> Result<CommitOutcome<Vec<Table>>, Error> {
        let tables = || requests.iter().map(|request| request.base.identifier().to_string()).collect::<Vec<_>>();
        if !self.client().commits_together() {
            return Err(Error::NotTogether { tables: tables() });
        }
        let action = format!("commit to tables {}", tables().join(", "));
        let message = CommitTransactionRequest { table_changes: requests.iter().map(message).collect() };
        let said = self.send(&action, &self.client().url(&["transactions", "commit"])?, &message).await?;
        // A server without the endpoint. If it was something else, the tables tell: their files stay until they have.
        if let Said::Refused { error, .. } | Said::Unknown { source: Some(error), .. } = &said
            && matches!(error, Error::Refused { status: 404 | 405 | 501, .. })
            && !error.is_missing()
        {
            return Err(Error::NotTogether { tables: tables() });
        }
        if !matches!(said, Said::Success(_)) {
            return self.settle(requests, said).await;
        }
        // The answer is empty: only the tables tell.
        let mut committed = Vec::new();
        for request in requests {
            match self.look(request).await {
                Ok(Seen::Landed(table)) => committed.push(*table),
                Ok(_) => {
                    return Ok(unknown(
                        "the catalog said committed, and a table does not hold the commit".to_owned(),
                        None,
                    ));
                }
                Err(error) => return Ok(unknown("a table cannot be loaded after the commit".to_owned(), Some(error))),
            }
        }
        Ok(CommitOutcome::Committed(committed))
    }
}

/// A key that no other request has: one request is one body, and is sent once.
#[expect(clippy::disallowed_methods, reason = "a name of the request on its way, which is written nowhere")]
fn idempotency_key() -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::try_from(Uuid::now_v7().to_string()).ok()?;
    Some((HeaderName::from_static("idempotency-key"), value))
}
