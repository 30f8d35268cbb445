//! Tags on objects of S3, which lifecycle rules can go by. `object_store` writes them with new objects only.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use object_store::aws::{AmazonS3, AwsAuthorizer};
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpRequestBody};
use object_store::path::Path;
use object_store::signer::Signer;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// Sets tags in one bucket.
#[derive(Debug)]
pub(crate) struct Tagger {
    pub(crate) store: Arc<AmazonS3>,
    pub(crate) client: HttpClient,
    pub(crate) region: String,
}

impl Tagger {
    /// Gives an object one tag, in place of any it has.
    pub(crate) async fn tag(&self, path: &Path, key: &str, value: &str) -> object_store::Result<()> {
        let failed =
            |source: Box<dyn std::error::Error + Send + Sync>| object_store::Error::Generic { store: "S3", source };
        // Where the object is, as the store addresses it.
        let mut url = self.store.signed_url(Method::PUT, path, Duration::from_secs(60)).await?;
        url.set_query(Some("tagging="));
        let body = format!(
            "<Tagging xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TagSet><Tag><Key>{}</Key><Value>{}</Value></Tag></TagSet></Tagging>",
            escaped(key),
            escaped(value)
        );
        let checksum = BASE64_STANDARD.encode(Sha256::digest(&body));
        let mut request = HttpRequest::new(HttpRequestBody::from(body));
        *request.method_mut() = Method::PUT;
        *request.uri_mut() = url.as_str().parse().map_err(|error| failed(Box::new(error)))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        headers.insert("x-amz-checksum-sha256", checksum.parse().map_err(|error| failed(Box::new(error)))?);
        let credential = self.store.credentials().get_credential().await?;
        AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut request, None);
        let answer = self.client.execute(request).await.map_err(|error: HttpError| failed(Box::new(error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let text = answer.into_body().bytes().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let text: String = text.chars().take(200).collect();
        let source = format!("{status}: {text}").into();
        Err(match status.as_u16() {
            404 => object_store::Error::NotFound { path: path.to_string(), source },
            403 => object_store::Error::PermissionDenied { path: path.to_string(), source },
            _ => failed(source),
        })
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
