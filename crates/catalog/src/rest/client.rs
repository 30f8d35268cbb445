//! Requests to a REST catalog.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use hexfloe_store::Properties;
use iceberg::{NamespaceIdent, TableIdent};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::auth::Auth;
use crate::{CatalogSettings, Error};

/// Requests that only read are sent again this often when the server is away.
const READS: u32 = 5;
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(250);

/// No server is waited for longer than this at once, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// No table's metadata is larger; it is taken apart.
const LARGEST_ANSWER: usize = 256 << 20;

/// What a server says of itself in `/v1/config`, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct ServerFacts {
    /// The endpoints it names, if it names any.
    pub endpoints: Option<BTreeSet<String>>,
    /// Whether it honours an `Idempotency-Key`.
    pub idempotency: bool,
    /// The prefix of its paths.
    pub prefix: Option<String>,
}

/// A client of one REST catalog.
#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// For commits: no connection is used twice, so that nothing below us has a reason to send a request again.
    commits: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    auth: Auth,
    separator: String,
    pub(crate) facts: ServerFacts,
    /// The properties of the catalog file between the server's defaults and its overrides.
    pub(crate) properties: Properties,
    pub(crate) warehouse: String,
}

#[derive(Deserialize)]
struct ConfigAnswer {
    #[serde(default)]
    defaults: HashMap<String, Option<String>>,
    #[serde(default)]
    overrides: HashMap<String, Option<String>>,
    endpoints: Option<BTreeSet<String>>,
    #[serde(rename = "idempotency-key-lifetime")]
    idempotency_key_lifetime: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    message: Option<String>,
    r#type: Option<String>,
}

/// An answer, whatever its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A request that was sent and not answered.
pub(crate) struct Unanswered {
    pub(crate) error: Error,
    /// Whether it cannot have reached the server.
    pub(crate) unsent: bool,
}

impl Client {
    /// Asks the server for its configuration and becomes a client that follows it.
    pub(crate) async fn connect(settings: &CatalogSettings, roots: Option<&[u8]>) -> Result<Self, Error> {
        let mut properties = settings.properties.clone();
        properties.insert("uri".to_owned(), settings.uri.clone());
        if !settings.warehouse.is_empty() {
            properties.insert("warehouse".to_owned(), settings.warehouse.clone());
        }
        let first = Self::new(&properties, ServerFacts::default(), roots)?;
        let mut url = first.url(&["config"])?;
        // The endpoint of the configuration has no prefix.
        url.set_path(&format!("{}/v1/config", first.base.path().trim_end_matches('/')));
        if !settings.warehouse.is_empty() {
            url.query_pairs_mut().append_pair("warehouse", &settings.warehouse);
        }
        let action = "read the catalog's configuration";
        let config: ConfigAnswer = first.send(action, Method::GET, url, None).await?.json(action)?;
        let said =
            |from: HashMap<String, Option<String>>| from.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let mut merged: Properties = said(config.defaults).collect();
        merged.extend(properties);
        merged.extend(said(config.overrides));
        let facts = ServerFacts {
            endpoints: config.endpoints,
            idempotency: config.idempotency_key_lifetime.is_some_and(|lifetime| !lifetime.is_null()),
            prefix: merged.get("prefix").filter(|prefix| !prefix.is_empty()).cloned(),
        };
        Self::new(&merged, facts, roots)
    }

    fn new(properties: &Properties, facts: ServerFacts, roots: Option<&[u8]>) -> Result<Self, Error> {
        let settings = |reason: String| Error::Settings(reason);
        let uri = properties.get("uri").map(String::as_str).unwrap_or_default();
        let base = Url::parse(uri).ok().filter(|base| matches!(base.scheme(), "http" | "https"));
        let base =
            base.ok_or_else(|| settings(format!("uri {uri:?} is not one of a REST catalog; write https://HOST/PATH")))?;
        let millis = |name: &str, default: u64| {
            let said = properties.get(name).filter(|value| !value.is_empty());
            let millis = said.map_or(Ok(default), |value| value.trim().parse());
            let millis = millis.ok().filter(|millis| *millis > 0);
            millis.map(Duration::from_millis).ok_or_else(|| settings(format!("{name} is not a number of milliseconds")))
        };
        let connect = millis("rest.client.connection-timeout-ms", 10_000)?;
        let total = millis("rest.client.socket-timeout-ms", 60_000)?;
        let roots = roots.map_or(Ok(Vec::new()), reqwest::Certificate::from_pem_bundle);
        let roots = roots.map_err(|error| settings(format!("ssl.cabundle cannot be read: {error}")))?;
        let builder = || {
            let builder = reqwest::Client::builder()
                .user_agent(concat!("hexfloe/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(connect)
                .timeout(total)
                .gzip(true)
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never());
            roots.iter().cloned().fold(builder, reqwest::ClientBuilder::add_root_certificate)
        };
        let failed = |error| settings(format!("the HTTP client cannot be made: {error}"));
        let http = builder().build().map_err(failed)?;
        let commits = builder().pool_max_idle_per_host(0).http1_only().build().map_err(failed)?;
        let delegation = HeaderValue::from_static("vended-credentials");
        let mut headers = HeaderMap::from_iter([(HeaderName::from_static("x-iceberg-access-delegation"), delegation)]);
        for (name, value) in properties {
            let Some(header) = name.strip_prefix("header.") else { continue };
            let parsed = HeaderName::try_from(header).ok().zip(HeaderValue::try_from(value).ok());
            let (header, mut value) = parsed.ok_or_else(|| settings(format!("{name} is not a header")))?;
            value.set_sensitive(crate::keys::is_secret(name));
            if value.is_empty() {
                headers.remove(header);
            } else {
                headers.insert(header, value);
            }
        }
        let auth = Auth::new(properties, uri, &http)?;
        let separator = properties.get("namespace-separator").map_or("%1F", String::as_str);
        let separator = match separator.to_ascii_uppercase().as_str() {
            "%1F" => "\u{1f}".to_owned(),
            "%2E" => ".".to_owned(),
            _ => separator.to_owned(),
        };
        let warehouse = properties.get("warehouse").cloned().unwrap_or_default();
        Ok(Self { http, commits, base, headers, auth, separator, facts, properties: properties.clone(), warehouse })
    }

    /// Whether the server takes commits to several tables; one that names no endpoints is assumed to have the usual ones.
    pub(crate) fn commits_together(&self) -> bool {
        let endpoints = self.facts.endpoints.as_ref();
        endpoints.is_none_or(|endpoints| endpoints.iter().any(|name| name.ends_with("/transactions/commit")))
    }

    /// The URL of a path below `/v1` and the prefix; parts are encoded.
    pub(crate) fn url(&self, parts: &[&str]) -> Result<Url, Error> {
        let mut url = self.base.clone();
        // A prefix is used as it is given: some are encoded already.
        let prefix = self.facts.prefix.as_deref().map(|prefix| format!("/{}", prefix.trim_matches('/')));
        url.set_path(&format!("{}/v1{}", self.base.path().trim_end_matches('/'), prefix.unwrap_or_default()));
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.extend(parts);
            }
            Err(()) => return Err(Error::Settings(format!("uri {} cannot have paths", self.base))),
        }
        Ok(url)
    }

    pub(crate) fn namespace_url(&self, namespace: &NamespaceIdent, more: &[&str]) -> Result<Url, Error> {
        let name = self.name_of(namespace);
        self.url(&[&["namespaces", name.as_str()], more].concat())
    }

    pub(crate) fn table_url(&self, table: &TableIdent) -> Result<Url, Error> {
        self.namespace_url(table.namespace(), &["tables", table.name()])
    }

    /// A namespace as it is written in a URL.
    pub(crate) fn name_of(&self, namespace: &NamespaceIdent) -> String {
        namespace.as_ref().join(&self.separator)
    }

    /// Sends a request that is not a commit. One that only reads is sent again while the server is away; any is when it
    /// cannot have arrived, and once when it was not let in and a new token may help.
    ///
    /// Gives only answers of success.
    pub(crate) async fn send(
        &self,
        action: &str,
        method: Method,
        url: Url,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, Error> {
        let reads = method == Method::GET || method == Method::HEAD;
        let mut tries = 0;
        let mut renewed = false;
        loop {
            tries += 1;
            let sent = self.once(&self.http, action, &method, &url, body.as_deref(), &[]).await;
            let (error, wait) = match sent {
                Ok(answer) if answer.status.is_success() => return Ok(answer),
                Ok(answer) if answer.status == StatusCode::UNAUTHORIZED && self.auth.is_renewable() && !renewed => {
                    renewed = true;
                    self.auth.forget(&answer.headers).await;
                    continue;
                }
                Ok(answer) => {
                    let away = matches!(answer.status.as_u16(), 429 | 500 | 502 | 503 | 504);
                    let error = answer.refused(action);
                    if !(reads && away) {
                        return Err(error);
                    }
                    (error, answer.retry_after())
                }
                Err(Unanswered { error, unsent }) if (reads || unsent) && error.is_of_the_network() => (error, None),
                Err(Unanswered { error, .. }) => return Err(error),
            };
            if tries >= READS {
                return Err(error);
            }
            pause(wait.unwrap_or(FIRST_WAIT * 2_u32.pow(tries - 1))).await;
        }
    }

    /// Sends a commit, once, whatever happens.
    pub(crate) async fn commit(
        &self,
        url: &Url,
        body: &[u8],
        extra: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer, Unanswered> {
        self.once(&self.commits, "commit", &Method::POST, url, Some(body), extra).await
    }

    /// After a commit was not let in: the next request is authenticated anew.
    pub(crate) async fn renew(&self, refused: &Answer) {
        self.auth.forget(&refused.headers).await;
    }

    async fn once(
        &self,
        http: &reqwest::Client,
        action: &str,
        method: &Method,
        url: &Url,
        body: Option<&[u8]>,
        extra: &[(HeaderName, HeaderValue)],
    ) -> Result<Answer, Unanswered> {
        let mut headers = self.headers.clone();
        headers.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let authenticated = self.auth.authenticate(method, url, &mut headers, body.unwrap_or_default()).await;
        authenticated.map_err(|error| Unanswered { error, unsent: true })?;
        let with = headers.get(reqwest::header::AUTHORIZATION).cloned();
        let mut request = http.request(method.clone(), url.clone()).headers(headers);
        if let Some(body) = body {
            request = request.body(body.to_vec());
        }
        let answer = async {
            let mut answer = request.send().await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut body = Vec::new();
            while let Some(piece) = answer.chunk().await? {
                if body.len() + piece.len() > LARGEST_ANSWER {
                    return Ok(None);
                }
                body.extend_from_slice(&piece);
            }
            Ok(Some(Answer { status, headers, body }))
        };
        let answer = answer.await.map_err(|source: reqwest::Error| {
            let unsent = source.is_connect() || source.is_builder();
            Unanswered { error: Error::unreachable(action.to_owned(), source), unsent }
        })?;
        let mut answer = answer.ok_or_else(|| {
            let reason = format!("it is larger than {} MiB", LARGEST_ANSWER >> 20);
            Unanswered { error: Error::Answer { action: action.to_owned(), reason }, unsent: false }
        })?;
        // What it was asked with, so that the token that was refused can be told from one renewed meanwhile.
        answer.headers.remove(reqwest::header::AUTHORIZATION);
        answer.headers.extend(with.map(|with| (reqwest::header::AUTHORIZATION, with)));
        Ok(answer)
    }
}

impl Answer {
    pub(crate) fn json<T: DeserializeOwned>(&self, action: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let reason = format!("{error}; it begins with {:?}", beginning(&self.body));
            Error::Answer { action: action.to_owned(), reason }
        })
    }

    /// The error that the answer is.
    pub(crate) fn refused(&self, action: &str) -> Error {
        let (exception, message) = explanation(&self.body);
        Error::Refused { action: action.to_owned(), status: self.status.as_u16(), exception, message }
    }

    /// How long the server asks to wait, in seconds; dates are not followed.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
    }
}

/// The exception and the message in an error's body; or only its first characters.
pub(crate) fn explanation(body: &[u8]) -> (Option<String>, String) {
    if let Ok(ErrorAnswer { error }) = serde_json::from_slice(body) {
        return (error.r#type, error.message.unwrap_or_else(|| "no explanation".to_owned()));
    }
    (None, beginning(body))
}

/// How a text begins that was not expected.
fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let shown: String = text.trim().chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if shown.is_empty() { "no explanation".to_owned() } else { shown }
}

#[expect(clippy::disallowed_methods, reason = "only between requests; tokio's time can be paused by tests")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
