//! Stores across a network, made from properties as Iceberg spells them.
//!
//! This is the one place that knows both vocabularies: Iceberg's property names and the builders of `object_store`.
//! What the properties do not say, the environment does: `AWS_*`, `GOOGLE_*` and `AZURE_*` variables, web identities, and
//! the credentials of the container or machine.

#![cfg_attr(
    not(any(feature = "aws", feature = "gcp", feature = "azure")),
    expect(dead_code, unused_variables, reason = "there are no remote stores")
)]

use std::sync::Arc;
use std::time::Duration;

use object_store::client::Certificate;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

#[cfg(feature = "aws")]
use crate::tagging::Tagger;
use crate::vended::{Grant, Properties};
use crate::{Error, Location};

/// How remote stores are reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remote {
    pub(crate) properties: Properties,
    pub(crate) roots: Vec<Certificate>,
}

/// The first seconds of an outage are waited out, and a bucket that does not exist fails at once.
const RETRIES: usize = 8;
const RETRY_TIME: Duration = Duration::from_secs(90);

/// The waits grow by about half of this each time: some ten seconds in all.
const FIRST_WAIT: Duration = Duration::from_millis(400);

/// One request; a part of 8 MiB takes this long at 1.1 Mbit/s.
const REQUEST_TIMEOUT: &str = "60";
const CONNECT_TIMEOUT: &str = "10";

impl Remote {
    fn properties(&self, grant: Option<&Arc<Grant>>) -> Properties {
        let mut properties = self.properties.clone();
        if let Some(grant) = grant {
            properties.extend(grant.properties().iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        properties
    }

    /// What sets tags where a location is; `None` where there are none.
    #[cfg(feature = "aws")]
    pub(crate) fn tagger(&self, location: &Location, grant: Option<&Arc<Grant>>) -> Result<Option<Tagger>, Error> {
        let properties = self.properties(grant);
        let reach = Reach { properties: &properties, roots: &self.roots, location, grant };
        if location.family() == "s3" { reach.tagger().map(Some) } else { Ok(None) }
    }

    /// The store of a location, with the properties that were vended for it over the general ones.
    pub(crate) fn open(&self, location: &Location, grant: Option<&Arc<Grant>>) -> Result<Arc<dyn ObjectStore>, Error> {
        let properties = self.properties(grant);
        let reach = Reach { properties: &properties, roots: &self.roots, location, grant };
        match location.family() {
            #[cfg(feature = "aws")]
            "s3" => Ok(Arc::new(reach.s3()?.build().map_err(|error| reach.failed(error))?)),
            #[cfg(feature = "gcp")]
            "gs" => reach.gcs(),
            #[cfg(feature = "azure")]
            "abfss" => reach.azure(),
            _ => Err(Error::NoStore { location: location.to_string(), scheme: location.scheme().to_owned() }),
        }
    }
}

struct Reach<'a> {
    properties: &'a Properties,
    roots: &'a [Certificate],
    location: &'a Location,
    grant: Option<&'a Arc<Grant>>,
}

impl Reach<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.properties.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    #[cfg(any(feature = "aws", feature = "gcp"))]
    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn failed(&self, source: object_store::Error) -> Error {
        Error::Store { action: "open", location: self.location.to_string(), source }
    }

    fn refuse(&self, reason: String) -> Error {
        Error::Location { location: self.location.to_string(), reason }
    }

    fn client(&self, endpoint: Option<&str>) -> Result<ClientOptions, Error> {
        let seconds = |name: &str, default: &str| {
            let text = self.get(name).unwrap_or(default);
            let seconds: Option<f64> = text.trim().parse().ok().filter(|seconds: &f64| *seconds > 0.0);
            let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            time.ok_or_else(|| self.refuse(format!("{name} = {text:?} is not a number of seconds")))
        };
        let mut client = ClientOptions::new()
            .with_timeout(seconds("s3.request-timeout", REQUEST_TIMEOUT)?)
            .with_connect_timeout(seconds("s3.connect-timeout", CONNECT_TIMEOUT)?)
            .with_allow_http(endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")));
        if let Some(proxy) = self.get("s3.proxy-uri") {
            client = client.with_proxy_url(proxy);
        }
        Ok(self.roots.iter().cloned().fold(client, ClientOptions::with_root_certificate))
    }

    fn retry() -> RetryConfig {
        let backoff = BackoffConfig { init_backoff: FIRST_WAIT, ..BackoffConfig::default() };
        RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIME, backoff }
    }

    #[cfg(feature = "aws")]
    fn tagger(&self) -> Result<Tagger, Error> {
        use object_store::aws::AmazonS3ConfigKey;
        use object_store::client::{HttpConnector, ReqwestConnector};

        let builder = self.s3()?;
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        let client = ReqwestConnector::default().connect(&self.client(endpoint.as_deref())?);
        let client = client.map_err(|error| self.failed(error))?;
        let store = Arc::new(builder.build().map_err(|error| self.failed(error))?);
        Ok(Tagger { store, client, region })
    }

    #[cfg(feature = "aws")]
    fn s3(&self) -> Result<object_store::aws::AmazonS3Builder, Error> {
        use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};

        if self.is_true("s3.remote-signing-enabled") && self.get("s3.access-key-id").is_none() {
            return Err(self.refuse("the catalog asks for remote signing, which is not supported".to_owned()));
        }
        let environment = AmazonS3Builder::from_env();
        let said = |key| environment.get_config_value(&key);
        let bucket = self.location.authority();
        let endpoint = self
            .get("s3.endpoint")
            .map(str::to_owned)
            .or_else(|| said(AmazonS3ConfigKey::S3Endpoint))
            .or_else(|| said(AmazonS3ConfigKey::Endpoint));
        let path_style = self.get("s3.path-style-access").map(|value| value.eq_ignore_ascii_case("true"));
        let virtual_host = self.is_true("s3.force-virtual-addressing") || path_style == Some(false);
        let mut builder = environment
            .with_bucket_name(bucket)
            .with_virtual_hosted_style_request(virtual_host)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_client_options(self.client(endpoint.as_deref())?)
            .with_retry(Self::retry());
        if let Some(endpoint) = endpoint {
            // With virtual hosts `object_store` expects the bucket in the endpoint.
            let endpoint = match (virtual_host, endpoint.split_once("://")) {
                (true, Some((scheme, host))) if !host.starts_with(&format!("{bucket}.")) => {
                    format!("{scheme}://{bucket}.{host}")
                }
                _ => endpoint,
            };
            builder = builder.with_endpoint(endpoint.clone()).with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
        }
        if let Some(region) = self.get("s3.region").or_else(|| self.get("client.region")) {
            builder = builder.with_region(region);
        }
        match self.get("s3.sse.type").map(str::to_ascii_lowercase).as_deref() {
            None | Some("none") => {}
            Some("s3") => {
                let encryption = "aws_server_side_encryption".parse().map_err(|error| self.failed(error))?;
                builder = builder.with_config(encryption, "AES256");
            }
            Some("kms") => builder = builder.with_sse_kms_encryption(self.get("s3.sse.key").unwrap_or_default()),
            Some(other) => return Err(self.refuse(format!("s3.sse.type = {other:?} is not one of none, s3, kms"))),
        }
        if self.is_true("s3.anonymous") {
            return Ok(builder.with_skip_signature(true));
        }
        if self.grant.is_some_and(|grant| s3_keys(&grant.properties()).is_some()) {
            return Ok(builder.with_credentials(Arc::new(self.vended(s3_keys))));
        }
        if let Some(keys) = s3_keys(self.properties) {
            let keys = Arc::new(object_store::StaticCredentialProvider::new(keys));
            builder = builder.with_credentials(keys);
        }
        Ok(builder)
    }

    #[cfg(feature = "gcp")]
    fn gcs(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        use object_store::gcp::GoogleCloudStorageBuilder;

        let endpoint = self.get("gcs.service.host");
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_bucket_name(self.location.authority())
            .with_client_options(self.client(endpoint)?)
            .with_skip_signature(self.is_true("gcs.no-auth"))
            .with_retry(Self::retry());
        if let Some(endpoint) = endpoint {
            builder = builder.with_base_url(endpoint);
        }
        if self.grant.is_some_and(|grant| gcs_token(&grant.properties()).is_some()) {
            builder = builder.with_credentials(Arc::new(self.vended(gcs_token)));
        } else if let Some(token) = gcs_token(self.properties) {
            builder = builder.with_credentials(Arc::new(object_store::StaticCredentialProvider::new(token)));
        } else if let Some(key) = self.get("gcs.credentials-json") {
            builder = builder.with_service_account_key(key);
        } else if let Some(file) = self.get("gcs.credential-file") {
            builder = builder.with_application_credentials(file);
        }
        Ok(Arc::new(builder.build().map_err(|error| self.failed(error))?))
    }

    #[cfg(feature = "azure")]
    fn azure(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

        // `container@account.dfs.core.windows.net`
        let authority = self.location.authority();
        let (container, host) = authority.split_once('@').unwrap_or((authority, ""));
        let connection = self.get("adls.connection-string").map(connection_string).unwrap_or_default();
        let said = |name: &str, part: &str| self.get(name).or_else(|| connection.get(part).map(String::as_str));
        let account = host.split('.').next().filter(|account| !account.is_empty());
        let account = account.or_else(|| said("adls.account-name", "AccountName"));
        let endpoint = said("adls.account-host", "BlobEndpoint").map(|host| match host.contains("://") {
            true => host.to_owned(),
            false => format!("https://{host}"),
        });
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_container_name(container)
            .with_client_options(self.client(endpoint.as_deref())?)
            .with_retry(Self::retry());
        if let Some(account) = account {
            builder = builder.with_account(account);
        }
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if self.grant.is_some_and(|grant| sas_token(&grant.properties()).is_some()) {
            builder = builder.with_credentials(Arc::new(self.vended(sas_token)));
        } else if let Some(token) = sas_token(self.properties) {
            builder = builder.with_credentials(Arc::new(object_store::StaticCredentialProvider::new(token)));
        } else if let Some(sas) = said("adls.sas-token", "SharedAccessSignature") {
            builder = builder.with_config(AzureConfigKey::SasKey, sas);
        } else if let Some(key) = said("adls.account-key", "AccountKey") {
            builder = builder.with_access_key(key);
        } else if let (Some(client), Some(secret), Some(tenant)) =
            (self.get("adls.client-id"), self.get("adls.client-secret"), self.get("adls.tenant-id"))
        {
            builder = builder.with_client_secret_authorization(client, secret, tenant);
        }
        Ok(Arc::new(builder.build().map_err(|error| self.failed(error))?))
    }

    #[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
    fn vended<C>(&self, read: fn(&Properties) -> Option<C>) -> Vended<C> {
        Vended { grant: self.grant.cloned(), read }
    }
}

#[cfg(feature = "aws")]
fn s3_keys(properties: &Properties) -> Option<object_store::aws::AwsCredential> {
    let get = |name: &str| {
        let value = properties.get(&format!("s3.{name}")).or_else(|| properties.get(&format!("client.{name}")));
        value.filter(|value| !value.is_empty()).cloned()
    };
    Some(object_store::aws::AwsCredential {
        key_id: get("access-key-id")?,
        secret_key: get("secret-access-key")?,
        token: get("session-token"),
    })
}

#[cfg(feature = "gcp")]
fn gcs_token(properties: &Properties) -> Option<object_store::gcp::GcpCredential> {
    let bearer = properties.get("gcs.oauth2.token")?.clone();
    Some(object_store::gcp::GcpCredential { bearer })
}

/// A bearer token, or a shared access signature that is said for one account (`adls.sas-token.ACCOUNT…`) or for all.
#[cfg(feature = "azure")]
fn sas_token(properties: &Properties) -> Option<object_store::azure::AzureCredential> {
    use object_store::azure::AzureCredential;

    if let Some(token) = properties.get("adls.token") {
        return Some(AzureCredential::BearerToken(token.clone()));
    }
    let mut tokens =
        properties.iter().filter(|(name, _)| name.starts_with("adls.sas-token.") || name.as_str() == "adls.sas-token");
    let (_, sas) = tokens.next_back()?;
    let pairs = url::form_urlencoded::parse(sas.trim_start_matches('?').as_bytes());
    Some(AzureCredential::SASToken(pairs.into_owned().collect()))
}

/// The parts of an Azure connection string: `Name=value;Name=value`.
#[cfg(feature = "azure")]
fn connection_string(text: &str) -> Properties {
    let parts = text.split(';').filter_map(|part| part.split_once('='));
    parts.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// Credentials out of a grant, asked for at each request: what takes longer than they live outlives them.
#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
#[derive(Debug)]
struct Vended<C> {
    grant: Option<Arc<Grant>>,
    read: fn(&Properties) -> Option<C>,
}

#[cfg(any(feature = "aws", feature = "gcp", feature = "azure"))]
#[async_trait::async_trait]
impl<C: std::fmt::Debug + Send + Sync> object_store::CredentialProvider for Vended<C> {
    type Credential = C;

    async fn get_credential(&self) -> object_store::Result<Arc<C>> {
        let read = match &self.grant {
            Some(grant) => (self.read)(&*grant.fresh().await?),
            None => None,
        };
        read.map(Arc::new).ok_or_else(|| object_store::Error::Generic {
            store: "vended credentials",
            source: "the catalog vends no credentials for this store any more".into(),
        })
    }
}

#[cfg(test)]
#[cfg(all(feature = "aws", feature = "gcp", feature = "azure"))]
mod tests {
    use rstest::rstest;

    use super::*;

    fn open(location: &str, properties: &[(&str, &str)]) -> Result<String, Error> {
        let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let remote = Remote { properties, roots: Vec::new() };
        remote.open(&Location::parse(location).unwrap(), None).map(|store| format!("{store:?}"))
    }

    #[rstest]
    #[case(&[("s3.endpoint", "http://127.0.0.1:9000")], "http://127.0.0.1:9000/b\"")]
    #[case(&[("s3.endpoint", "http://host:9000/"), ("s3.path-style-access", "true")], "http://host:9000/b\"")]
    #[case(&[("s3.endpoint", "http://host:9000"), ("s3.path-style-access", "false")], "http://b.host:9000\"")]
    #[case(&[("client.region", "eu-north-1")], "https://s3.eu-north-1.amazonaws.com/b\"")]
    #[case(&[("client.region", "eu-north-1"), ("s3.region", "eu-west-1")], "https://s3.eu-west-1.amazonaws.com/b\"")]
    #[case(&[("s3.region", "eu-west-1"), ("s3.force-virtual-addressing", "true")], "https://b.s3.eu-west-1.amazonaws.com\"")]
    fn s3_is_reached_where_the_properties_say(#[case] properties: &[(&str, &str)], #[case] endpoint: &str) {
        let keys = [("s3.access-key-id", "id"), ("s3.secret-access-key", "hush")];
        let opened = open("s3a://b/t", &[properties, &keys].concat()).unwrap();
        assert!(opened.contains(endpoint), "{opened}");
        assert!(!opened.contains("hush"), "{opened}");
    }

    #[rstest]
    #[case("s3://b/t", &[("s3.sse.type", "custom")], "s3.sse.type = \"custom\" is not one of none, s3, kms")]
    #[case("s3://b/t", &[("s3.request-timeout", "soon")], "s3.request-timeout = \"soon\" is not a number of seconds")]
    #[case("s3://b/t", &[("s3.remote-signing-enabled", "true")], "remote signing, which is not supported")]
    fn what_cannot_be_followed_is_refused(
        #[case] location: &str,
        #[case] properties: &[(&str, &str)],
        #[case] message: &str,
    ) {
        let error = open(location, properties).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn google_and_azure_stores_are_made_from_their_properties() {
        open("gs://b/t", &[("gcs.oauth2.token", "token"), ("gcs.service.host", "http://127.0.0.1:4443")]).unwrap();
        let azure = "abfss://box@lake.dfs.core.windows.net/t";
        let opened = open(azure, &[("adls.sas-token.lake.dfs.core.windows.net", "?sv=2024&sig=hush%3D")]).unwrap();
        assert!(opened.contains(r#"account: "lake", container: "box""#), "{opened}");
        assert!(opened.contains(r#"SASToken([("sv", "2024"), ("sig", "hush=")])"#), "{opened}");
        let connection =
            "DefaultEndpointsProtocol=https;AccountName=lake;AccountKey=aHVzaA==;EndpointSuffix=core.windows.net";
        open("abfss://box/t", &[("adls.connection-string", connection)]).unwrap();
        assert_eq!(connection_string(connection)["AccountKey"], "aHVzaA==");
    }
}
