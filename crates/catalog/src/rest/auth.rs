//! Who we are: tokens and signatures.

use std::fmt;
use std::time::Duration;

use hexfloe_store::{Properties, secrets};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::Error;

/// How requests are authenticated.
pub(crate) enum Auth {
    /// Not at all, or by a header of the catalog file.
    None,
    /// With a token that we cannot renew.
    Token(HeaderValue),
    /// With tokens that the server gives for a credential.
    OAuth2(Box<OAuth2>),
    /// With a signature of each request, as AWS services want it.
    #[cfg(feature = "aws")]
    SigV4(Box<SigV4>),
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token",
            Self::OAuth2(_) => "OAuth2",
            #[cfg(feature = "aws")]
            Self::SigV4(_) => "SigV4",
        })
    }
}

/// OAuth2's client credentials flow.
pub(crate) struct OAuth2 {
    http: reqwest::Client,
    endpoint: String,
    form: Vec<(&'static str, String)>,
    token: Mutex<Option<Token>>,
}

struct Token {
    header: HeaderValue,
    renew_at: Option<Instant>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    /// Seconds, as a number; some servers write it as text.
    expires_in: Option<serde_json::Value>,
}

impl TokenAnswer {
    /// How long the token lives, if that can be understood.
    fn life(&self) -> Option<Duration> {
        let seconds = match self.expires_in.as_ref()? {
            serde_json::Value::Number(number) => number.as_f64(),
            serde_json::Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let seconds = seconds.filter(|seconds| *seconds >= 0.0)?;
        Some(Duration::from_secs_f64(seconds.min(LONGEST_LIFE)))
    }
}

/// No token is taken to live longer than a day, in seconds.
const LONGEST_LIFE: f64 = 86_400.0;

/// How often a token is asked for while the server is away.
const ASKED: u32 = 4;

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
    error_description: Option<String>,
}

impl Auth {
    /// Reads the properties; `uri` is the catalog's, whose own token endpoint is asked unless another is named.
    pub(crate) fn new(properties: &Properties, uri: &str, http: &reqwest::Client) -> Result<Self, Error> {
        let get = |name: &str| properties.get(name).filter(|value| !value.is_empty());
        if get("rest.sigv4-enabled").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            #[cfg(feature = "aws")]
            return SigV4::new(properties).map(|signing| Self::SigV4(Box::new(signing)));
            #[cfg(not(feature = "aws"))]
            return Err(Error::Settings("rest.sigv4-enabled needs the cargo feature `aws`".to_owned()));
        }
        // A token that is given comes first, as in PyIceberg and Java.
        if let Some(token) = get("token") {
            return Ok(Self::Token(bearer(token)?));
        }
        let Some(credential) = get("credential") else { return Ok(Self::None) };
        let (id, secret) = match credential.split_once(':') {
            Some((id, secret)) => (Some(id), secret),
            None => (None, credential.as_str()),
        };
        let own = || format!("{}/v1/oauth/tokens", uri.trim_end_matches('/'));
        let mut form = vec![("grant_type", "client_credentials".to_owned())];
        form.extend(id.map(|id| ("client_id", id.to_owned())));
        form.push(("client_secret", secret.to_owned()));
        form.push(("scope", get("scope").cloned().unwrap_or_else(|| "catalog".to_owned())));
        for name in ["audience", "resource"] {
            form.extend(get(name).map(|value| (name, value.clone())));
        }
        let endpoint = get("oauth2-server-uri").cloned().unwrap_or_else(own);
        if url::Url::parse(&endpoint).is_err() {
            return Err(Error::Settings("oauth2-server-uri is not a URL; write https://HOST/PATH".to_owned()));
        }
        Ok(Self::OAuth2(Box::new(OAuth2 { http: http.clone(), endpoint, form, token: Mutex::new(None) })))
    }

    /// Whether a request that was not let in may be let in when it is authenticated anew.
    pub(crate) fn is_renewable(&self) -> bool {
        matches!(self, Self::OAuth2(_))
    }

    /// Forgets what was refused.
    pub(crate) async fn forget(&self, refused: &HeaderMap) {
        if let Self::OAuth2(oauth) = self {
            let mut token = oauth.token.lock().await;
            // Another request may have renewed it already.
            if token.as_ref().is_some_and(|token| refused.get(AUTHORIZATION) == Some(&token.header)) {
                *token = None;
            }
        }
    }

    /// Puts what is needed into the headers of a request.
    pub(crate) async fn authenticate(
        &self,
        method: &reqwest::Method,
        url: &url::Url,
        headers: &mut HeaderMap,
        body: &[u8],
    ) -> Result<(), Error> {
        match self {
            Self::None => {}
            Self::Token(token) => {
                headers.insert(AUTHORIZATION, token.clone());
            }
            Self::OAuth2(oauth) => {
                headers.insert(AUTHORIZATION, oauth.token().await?);
            }
            #[cfg(feature = "aws")]
            Self::SigV4(signing) => signing.sign(method, url, headers, body).await?,
        }
        #[cfg(not(feature = "aws"))]
        let _ = (method, url, body);
        Ok(())
    }
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    secrets::remember(token);
    let mut value = HeaderValue::try_from(format!("Bearer {token}"))
        .map_err(|_| Error::Settings("the token has characters that a header cannot hold".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

impl OAuth2 {
    /// A token that is good for a while.
    async fn token(&self) -> Result<HeaderValue, Error> {
        let mut token = self.token.lock().await;
        if let Some(token) = &*token
            && token.renew_at.is_none_or(|renew_at| Instant::now() < renew_at)
        {
            return Ok(token.header.clone());
        }
        let fresh = self.fetch().await?;
        let header = fresh.header.clone();
        *token = Some(fresh);
        Ok(header)
    }

    async fn fetch(&self) -> Result<Token, Error> {
        let mut asked = 0;
        loop {
            asked += 1;
            match self.ask().await {
                Err(error) if error.kind() == crate::ErrorKind::Unavailable && asked < ASKED => {
                    super::client::pause(Duration::from_millis(250 << asked)).await;
                }
                answered => return answered,
            }
        }
    }

    async fn ask(&self) -> Result<Token, Error> {
        let action = "get a token from the catalog".to_owned();
        let encoded = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.form).finish();
        let request =
            self.http.post(&self.endpoint).header("content-type", "application/x-www-form-urlencoded").body(encoded);
        let asked = Instant::now();
        let answer = async {
            let answer = request.send().await?;
            Ok((answer.status(), answer.bytes().await?))
        };
        let (status, body) = answer.await.map_err(|source| Error::unreachable(action.clone(), source))?;
        if !status.is_success() {
            let message = match serde_json::from_slice::<TokenRefusal>(&body) {
                Ok(TokenRefusal { error, error_description: Some(more) }) => format!("{error}: {more}"),
                Ok(TokenRefusal { error, .. }) => error,
                Err(_) => super::client::explanation(&body).1,
            };
            // `invalid_client` comes with 400 too: it is who we are that is refused.
            let status = if status.as_u16() == 400 { 401 } else { status.as_u16() };
            return Err(Error::Refused { action, status, exception: None, message });
        }
        let answer: TokenAnswer = serde_json::from_slice(&body)
            .map_err(|_| Error::Answer { action: action.clone(), reason: "it holds no access_token".to_owned() })?;
        // Renewed when a fifth of its life is left: what is sent then still arrives in time.
        let renew_at = answer.life().map(|life| asked + life.mul_f64(0.8));
        Ok(Token { header: bearer(&answer.access_token)?, renew_at })
    }
}

/// AWS's signature version 4, by `object_store`.
#[cfg(feature = "aws")]
pub(crate) struct SigV4 {
    service: String,
    region: String,
    credentials: object_store::aws::AwsCredentialProvider,
}

#[cfg(feature = "aws")]
impl SigV4 {
    fn new(properties: &Properties) -> Result<Self, Error> {
        use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

        let get = |name: &str| properties.get(name).filter(|value| !value.is_empty()).cloned();
        let environment = AmazonS3Builder::from_env();
        let region = get("rest.signing-region")
            .or_else(|| get("client.region"))
            .or_else(|| get("s3.region"))
            .or_else(|| environment.get_config_value(&AmazonS3ConfigKey::Region));
        let region =
            region.ok_or_else(|| Error::Settings("rest.sigv4-enabled needs rest.signing-region".to_owned()))?;
        // The chain of credentials belongs to a store there; the bucket is never asked for.
        let mut builder = environment.with_bucket_name("signing").with_region(&region);
        if let (Some(id), Some(key)) = (get("s3.access-key-id"), get("s3.secret-access-key")) {
            builder = builder.with_access_key_id(id).with_secret_access_key(key);
            if let Some(token) = get("s3.session-token") {
                builder = builder.with_token(token);
            }
        }
        let store =
            builder.build().map_err(|error| Error::Settings(format!("no credentials to sign with: {error}")))?;
        let service = get("rest.signing-name").unwrap_or_else(|| "execute-api".to_owned());
        Ok(Self { service, region, credentials: std::sync::Arc::clone(store.credentials()) })
    }

    async fn sign(
        &self,
        method: &reqwest::Method,
        url: &url::Url,
        headers: &mut HeaderMap,
        body: &[u8],
    ) -> Result<(), Error> {
        use object_store::aws::AwsAuthorizer;
        use object_store::client::{HttpRequest, HttpRequestBody};

        let failed = |reason: String| Error::Settings(format!("cannot sign requests: {reason}"));
        let credential = self.credentials.get_credential().await.map_err(|error| failed(error.to_string()))?;
        let mut request = HttpRequest::new(HttpRequestBody::from(body.to_vec()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = url.as_str().parse().map_err(|error| failed(format!("{error}")))?;
        *request.headers_mut() = headers.clone();
        AwsAuthorizer::new(&credential, &self.service, &self.region).authorize(&mut request, None);
        *headers = request.headers().clone();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("3600", Some(3_600.0))]
    #[case("\"3600\"", Some(3_600.0))]
    #[case("3600.5", Some(3_600.5))]
    #[case("18446744073709551615", Some(86_400.0))]
    #[case("-1", None)]
    #[case("null", None)]
    #[case("\"soon\"", None)]
    fn the_life_of_a_token_is_read_however_it_is_written(#[case] written: &str, #[case] seconds: Option<f64>) {
        let text = format!("{{\"access_token\": \"t\", \"expires_in\": {written}}}");
        let answer: TokenAnswer = serde_json::from_str(&text).unwrap();
        assert_eq!(answer.life(), seconds.map(Duration::from_secs_f64));
    }
}
